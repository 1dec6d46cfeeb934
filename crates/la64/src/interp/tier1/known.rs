//! Blocks that exist, as the engine, the table of jumps and generated code know them.

use crate::shared::Keyed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A block that exists. Code reads the first two fields through the table of jumps.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Known {
    /// Its guest address, plus 1 for plain code.
    pub(super) key: u64,
    /// Host address of its code.
    pub(super) host: u64,
    /// Offset of its code.
    pub(super) start: u32,
    /// Offset behind the check of the epoch.
    pub(super) body: u32,
    /// What is compared with memory, for a block that may change.
    pub(super) words: Option<Box<Words>>,
}

impl Keyed for Known {
    fn key(&self) -> u64 {
        self.key
    }
}

/// The instructions of a block that may change.
#[derive(Debug)]
pub(super) struct Words {
    /// When they were compared last; changed under the lock alone.
    pub(super) epoch: AtomicU64,
    /// Where the check of the epoch is patched.
    pub(super) check: Check,
    /// They were found different from memory.
    pub(super) stale: AtomicBool,
    /// Addresses and words.
    pub(super) list: Box<[(u64, u32)]>,
}

/// Offsets in the check of a block's epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    /// The epoch's number.
    pub(super) stamp: u32,
    /// The displacement of the jump that a different epoch takes.
    pub(super) onward: u32,
}
