//! Paper 002: the lock manager beside its rivals, by counts, by the clock, and on the paper's
//! board.
//!
//! - [`launched`]: sections and barriers of jobs whose ranks are processes, and [`beside`], the
//!   same in Open MPI;
//! - [`codes`]: the paper's two codes, and ranks that have no processor of their own;
//! - [`by_guards`]: those of them that JIAJIA came with, by the safe interface;
//! - [`c_programs`]: programs in C by JIAJIA's interface, beside counts of its port;
//! - [`counts`]: operations of every lock by fabric counters, in virtual time for 2 to 64 ranks;
//! - [`choice`]: one operation on a fabric of the caller's choice;
//! - [`timed`]: sections and barriers of the lock managers in real time;
//! - [`openmpi`]: the same barrier in Open MPI, where it is installed;
//! - [`model`]: the protocol core driven in virtual time by a program's accesses;
//! - [`programs`]: the paper's six programs as such accesses, and what was estimated;
//! - [`stencil`]: an Ocean-like stencil by the safe interface, and [`stencil_claims`], beside the
//!   same in MPI and on a pool;
//! - [`fit`]: where the fitted constants of the profile come from;
//! - [`tables`]: the paper's tables and figures beside the model's.

pub mod beside;
pub mod by_guards;
pub mod c_programs;
pub mod choice;
pub mod codes;
pub mod counts;
pub mod fit;
pub mod launched;
pub mod model;
pub mod openmpi;
pub mod programs;
pub mod stencil;
pub mod stencil_claims;
mod steps;
pub mod tables;
pub mod timed;

pub use launched::be_a_rank;
pub use steps::SYSTEM;

use littoral_bench::claims::Figure;
use littoral_bench::repro::Unanswered;

/// Claims with their figures, or the reason there is none.
pub type Figures = std::result::Result<Vec<(String, Figure)>, Unanswered>;

/// Words of an error.
pub(crate) fn words(e: impl std::fmt::Display) -> String {
    e.to_string()
}
