//! Tests of durable transactions.
//!
//! - [`crash`]: seeded workloads on the recorded domain, every image checked against a serial
//!   oracle, for leaks, for use after recovery, and through crashes inside recovery.
//! - [`flip`]: single flipped bits of a pool's metadata, refused or harmless.
//! - [`opacity`]: a checker of whole histories, aborted transactions included, and the runner that
//!   makes them on real threads.
//!
//! Each failure names the seed that repeats it.

pub mod crash;
pub mod flip;
pub mod opacity;
