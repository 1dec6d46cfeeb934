//! Tier 1: blocks as code of an x86-64 host.
//!
//! - Results, faults and counts are tier 0's, instruction by instruction; what has no translation
//!   here is a call of its tier-0 handler.
//! - Code of one thread is in one arena; see [`engine`]. `docs/design/la64-jit.md` has the whole.

mod access;
mod atomic;
mod block;
mod branch;
mod control;
mod engine;
mod float;
mod frame;
mod integer;
mod jumps;
mod layout;
mod raw;
mod routines;
mod slow;
mod table;
mod vector;

pub(super) use block::{Decoded, Lowering};
pub(super) use engine::{Engine, Left};
pub(super) use frame::Frame;
pub(super) use table::lowering;
