//! Paper 002: the lock manager beside its rivals, by counts, by the clock, and on the paper's
//! board.
//!
//! - [`c_programs`]: programs in C by JIAJIA's interface, beside counts of its port;
//! - [`counts`]: operations of every lock by fabric counters, in virtual time for 2 to 64 ranks;
//! - [`choice`]: one operation on a fabric of the caller's choice;
//! - [`timed`]: sections and barriers in real time, two ranks and more than there are processors;
//! - [`openmpi`]: the same barrier in Open MPI, where it is installed;
//! - [`model`]: the protocol core driven in virtual time by a program's accesses;
//! - [`programs`]: the paper's six programs as such accesses, and what was estimated;
//! - [`stencil`]: an Ocean-like stencil by the safe interface beside the same in MPI;
//! - [`fit`]: where the fitted constants of the profile come from;
//! - [`tables`]: the paper's tables and figures beside the model's.

pub mod c_programs;
pub mod choice;
pub mod counts;
pub mod fit;
pub mod model;
pub mod openmpi;
pub mod programs;
pub mod stencil;
mod steps;
pub mod tables;
pub mod timed;

pub use steps::SYSTEM;

use littoral_bench::claims::Figure;

/// Claims with their figures, or the reason there is none.
pub type Figures = std::result::Result<Vec<(String, Figure)>, String>;

/// Words of an error.
pub(crate) fn words(e: impl std::fmt::Display) -> String {
    e.to_string()
}
