//! Structures that many threads read without a lock and that one thread at a time extends under
//! one: what a code cache of a whole process is made of.
//!
//! - [`List`]: elements in the order in which they were appended.
//! - [`Index`]: one value per key; the latest insertion is found.
//! - [`Current`]: the one current version of a value; a version that was replaced is freed when no
//!   thread uses it any more.
//!
//! `tests/loom_shared.rs` explores their schedules.

mod raw;

pub use raw::{Current, Held, Index, Keyed, List, Pinned, Reader};
