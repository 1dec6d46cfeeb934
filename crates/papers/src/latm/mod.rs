//! LATM, the paper's translator of MIPS64 programs: what `repro latm` counts.
//!
//! - [`counts`]: instructions of own C kernels, translated, native and under QEMU;
//! - `steps`: the claims.
//!
//! Programs run through the `littoral` command (`littoral la64 run`), and the peers are those of
//! [`crate::loongarch::Tools`]. What is missing is named in the claim it would have answered.

pub mod counts;
mod steps;

pub use steps::SYSTEM;
