//! Counts of changes of code: what each thread must know of them without the lock on the address
//! space. The space advances them while its lock is held.
//!
//! Invariant: for memory that was ever writable the count of areas is advanced before the epoch. A
//! thread that sees the new epoch then sees that its list of areas is old, and waits for the lock,
//! so for the end of the change, before it compares words.

use littoral_la64::interp::Epoch;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of changes, shared by the threads of a process.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Changes of the executable areas.
    map: AtomicU64,
    /// Changes for which every thread drops all its blocks: of code that is never compared.
    fixed: AtomicU64,
    /// Changes for which blocks are compared with memory.
    pub(super) epoch: Epoch,
}

impl Changes {
    /// An area became executable, ceased to be, or became writable for the first time.
    pub(super) fn map_changed(&self) {
        self.map.fetch_add(1, Ordering::Release);
    }

    /// Code in memory that never was writable went away or will change.
    pub(super) fn fixed_changed(&self) {
        self.map_changed();
        self.fixed.fetch_add(1, Ordering::Release);
    }

    /// Code in memory that was ever writable went away.
    pub(super) fn written_changed(&self) {
        self.map_changed();
        self.epoch.advance();
    }

    /// Changes of the executable areas.
    pub(super) fn map(&self) -> u64 {
        self.map.load(Ordering::Acquire)
    }

    /// How often every thread had to drop its blocks.
    pub(super) fn fixed(&self) -> u64 {
        self.fixed.load(Ordering::Acquire)
    }
}

/// An executable range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Is or ever was writable.
    pub(super) written: bool,
}
