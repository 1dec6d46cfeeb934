//! Paper 004 measured: durable transactions beside honest baselines, counts, restart, assurance.
//!
//! - [`engine`]: one face for all; [`work`]: the workloads;
//! - [`paper`], [`undo`], [`tl2`]: the baselines; `rivals`: turns; [`pmdk`], [`disk`]: peers;
//! - [`claims`], [`own`]: the figures by their ids; [`table`]: rows for `bench heap`.
//!
//! Everything timed runs over anonymous memory with real write-backs and fences: durability of
//! nothing, at its cost in instructions; no persistent part is modelled. Ratios are medians of
//! rounds in which the engines take turns.

pub mod claims;
pub mod counts;
pub mod disk;
pub mod engine;
mod heap;
pub mod own;
pub mod paper;
pub mod pmdk;
pub mod redo;
mod replay;
mod rivals;
mod steps;
pub mod table;
pub mod tl2;
pub mod undo;
pub mod work;

pub use steps::SYSTEM;
