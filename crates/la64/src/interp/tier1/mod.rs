//! Tier 1: blocks as code of an x86-64 host.
//!
//! - Results, faults and counts are tier 0's, instruction by instruction; what has no translation
//!   here is a call of its tier-0 handler.
//! - The threads of a program share code, which is in one arena; see [`engine`].
//!   `docs/design/la64-jit.md` has the whole.

mod access;
mod adopted;
mod assist;
mod atomic;
mod block;
mod branch;
mod choice;
mod constants;
mod control;
mod engine;
mod fields;
mod float;
mod frame;
mod integer;
mod known;
mod layout;
mod multiply;
mod parts;
mod pins;
mod plan;
mod raw;
mod reach;
mod record;
mod routines;
mod select;
mod slow;
mod table;
mod targets;
mod trace;
mod trial;
mod vector;

pub(super) use block::{Decoded, Lowering};
pub(super) use control::{Floats, floats};
pub(super) use engine::back_edge;
pub(super) use engine::regions::{Door, Doors, Judged, Kept};
pub(super) use engine::stored::relied_on;
pub(super) use engine::{At, Engine, Filling, Key, Left};
pub(super) use frame::Frame;
pub(super) use plan::{INSTRUCTIONS_MAX, Plan};
pub(super) use reach::Operands;
pub(super) use record::runs;
pub(super) use slow::Decode;
pub(super) use table::lowering;
pub(super) use trace::{ByAddress, Kind, Paths, Stretch, head};
pub(super) use trial::{Next, Trial};
