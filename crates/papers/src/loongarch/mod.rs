//! LoongArch: what `repro loongarch` measures, and the tools it is measured beside.
//!
//! - [`table`]: every row of the instruction table decodes, encodes, prints and executes;
//! - [`fuzz`]: random instructions and blocks beside QEMU;
//! - [`jobs`]: Debian's programs beside their amd64 builds;
//! - [`changed`]: what `ibar` costs a program that writes instructions;
//! - [`kernels`]: own C kernels on three architectures, counted;
//! - `speed`: CPU time and memory beside QEMU and the host, figures of the translator;
//! - [`timing`]: how CPU time and memory are measured;
//! - [`translating`]: what translating a guest instruction takes;
//! - [`tools`]: what of all this was found.
//!
//! Programs run through the `littoral` command itself (`littoral la64 run`), so what is judged is
//! what a user starts. A tool that is missing is named in the claim it would have answered.

pub mod changed;
pub mod fuzz;
pub mod jobs;
pub mod kernels;
mod speed;
mod step;
mod steps;
pub mod table;
pub mod timing;
pub mod tools;
pub mod translating;

pub use steps::SYSTEM;
pub use tools::Tools;

use littoral_bench::repro::Unanswered;

/// A measured value, or what is missing for it or failed.
pub type Found<T> = std::result::Result<T, Unanswered>;
