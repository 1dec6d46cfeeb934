//! Floor 1 of littoral: pages on block media, for engines that know trees and not blocks.
//!
//! - [`pages`]: the seam. An engine reads, appends, patches and frees pages through
//!   [`pages::Pages`].
//! - [`counted`]: pages in memory that count what the medium would have done: the mode in which the
//!   figures of papers are reproduced.
//! - [`store`]: pages on a zoned device; `epoch.rs` writes redo log and checkpoints, `replay.rs`
//!   recovers, `newest.rs` tells a lost superblock from an older one, `making.rs` a store that is
//!   whole from one whose making was cut short; `batch.rs` writes a batch's pages, which were
//!   [`drafts`] until then.
//! - [`gc`] says which zones are emptied, alone or `together.rs`; [`relocate`] moves their pages.
//! - [`superblock`], [`redo`]: the bytes on the medium; `plan.rs` divides a device.
//! - [`inspect`]: what an engine asks of a page before it uses it.
//! - [`error`]: what can go wrong.
//!
//! The store knows blocks, not trees; the engine says what is reachable.

#![forbid(unsafe_code)]

mod batch;
mod cache;
pub mod counted;
pub mod drafts;
mod epoch;
pub mod error;
pub mod gc;
mod host;
pub mod inspect;
mod making;
mod memory;
mod newest;
pub mod pages;
mod plan;
pub mod redo;
mod regain;
pub mod relocate;
mod replay;
pub mod room;
mod runs;
mod space;
pub mod store;
pub mod superblock;
mod together;

pub use cache::MEMORY_BYTES;
pub use error::{Error, Kind, Result};
