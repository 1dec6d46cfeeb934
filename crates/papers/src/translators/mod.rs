//! The paper's translators to LoongArch: what `repro latm` (MIPS64 programs) and `repro latx`
//! (x86-64 programs) count.
//!
//! - [`counts`]: instructions of own C kernels, translated, native and under other translators;
//! - `steps`: what both have claims about;
//! - `selfhosted`: the translator's own LoongArch build;
//! - `latm`, `latx`: the claims.
//!
//! The paper's figures are times of SPEC CPU2000 on one processor; ours are instructions of own
//! kernels, and stand beside them. Programs run through the `littoral` command, `la64 run`, and the
//! peers are those of [`crate::loongarch::Tools`]. What is missing is named in the claim it would
//! have answered.

pub mod counts;
mod latm;
mod latx;
mod selfhosted;
mod steps;

pub use latm::SYSTEM as LATM;
pub use latx::SYSTEM as LATX;
