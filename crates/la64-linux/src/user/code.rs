//! Counts of changes of code: what each thread must know of them without the lock on the address
//! space. The space advances them while its lock is held.
//!
//! Invariants
//! - For memory that was ever writable the count of areas is advanced before the epoch. A thread
//!   that sees the new epoch then sees that its list of areas is old, and waits for the lock, so
//!   for the end of the change, before it compares words. Checked by
//!   `another_thread_executes_what_was_written_before_ibar`,
//!   `code_of_a_file_that_becomes_writable_is_compared_from_then_on`.
//! - Addresses of other code that went away or may change are listed until the thread that made the
//!   change has dropped their blocks. Checked by
//!   `code_of_a_file_that_becomes_writable_is_compared_from_then_on`.
//! - A translator compares nothing with memory, so addresses of code that was ever writable are
//!   listed for it too. Checked by `code_that_was_replaced_is_translated_again`.

use super::sync::lock;
use littoral_la64::interp::Epoch;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of changes, shared by the threads of a process.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Changes of the executable areas.
    map: AtomicU64,
    /// Where code changed that is never compared with memory.
    fixed: Mutex<Vec<std::ops::Range<u64>>>,
    /// Where other code went away, which a translator does not compare.
    written: Mutex<Vec<std::ops::Range<u64>>>,
    /// Changes for which blocks are compared with memory.
    pub(super) epoch: Epoch,
}

impl Changes {
    /// An area became executable, ceased to be, or became writable for the first time.
    pub(super) fn map_changed(&self) {
        self.map.fetch_add(1, Ordering::Release);
    }

    /// Code in memory that never was writable went away or will change.
    pub(super) fn fixed_changed(&self, addresses: std::ops::Range<u64>) {
        self.map_changed();
        lock(&self.fixed).push(addresses);
    }

    /// Code in memory that was ever writable went away.
    pub(super) fn written_gone(&self, addresses: std::ops::Range<u64>) {
        self.written_changed();
        lock(&self.written).push(addresses);
    }

    /// Code in memory that was ever writable is to be compared again.
    pub(super) fn written_changed(&self) {
        self.map_changed();
        self.epoch.advance();
    }

    /// Changes of the executable areas.
    pub(super) fn map(&self) -> u64 {
        self.map.load(Ordering::Acquire)
    }

    /// Where code has changed since the last call: code that is never compared with memory, and
    /// code in memory that was ever writable.
    pub(super) fn take(&self) -> [Vec<std::ops::Range<u64>>; 2] {
        [&self.fixed, &self.written].map(|list| std::mem::take(&mut *lock(list)))
    }
}

/// An executable range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Is or ever was writable.
    pub(super) written: bool,
    /// Writes to code there must be noticed, so its pages are watched before they are read.
    pub(super) watches: bool,
}
