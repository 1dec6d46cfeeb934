//! Assurance that anyone can run: crash images of overlapping transactions, and opacity of
//! histories.
//!
//! - [`crash`]: seeded workloads on the recorded domain, every image checked against a serial
//!   oracle, for leaks, for use after recovery, and through crashes inside recovery.
//! - [`flip`]: single flipped bits of a pool's metadata, refused or harmless.
//! - [`opacity`]: a checker of whole histories, aborted transactions included, and the runner that
//!   makes them on real threads.
//!
//! Public so that `repro` can run them at any length; each failure names the seed that repeats it.

pub mod crash;
pub mod flip;
pub mod opacity;
