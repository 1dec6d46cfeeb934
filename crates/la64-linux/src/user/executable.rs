//! A thread's own list of the executable areas, so that decoding takes no lock: it is made anew
//! under the lock on the address space when the count of changes says that it is old.

use super::code::{Changes, Range};
use super::space::Space;
use super::sync::lock;
use littoral_la64::interp::{Fetch, Text};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};

/// A thread's copy of the executable areas.
pub(super) struct Executable {
    changes: Arc<Changes>,
    space: Arc<Mutex<Space>>,
    /// The count of changes at the time of the copy.
    seen: Cell<u64>,
    /// In order of their addresses.
    ranges: RefCell<Vec<Range>>,
}

impl Executable {
    pub(super) fn new(changes: Arc<Changes>, space: Arc<Mutex<Space>>) -> Executable {
        Executable { changes, space, seen: Cell::new(u64::MAX), ranges: RefCell::default() }
    }

    fn renew(&self) {
        let space = lock(&self.space);
        self.seen.set(self.changes.map());
        let mut ranges = self.ranges.borrow_mut();
        ranges.clear();
        ranges.extend(space.executable());
    }
}

impl Fetch for Executable {
    fn text(&self, pc: u64) -> Option<Text> {
        if self.changes.map() != self.seen.get() {
            self.renew();
        }
        let ranges = self.ranges.borrow();
        let after = ranges.partition_point(|r| r.start <= pc);
        let range = ranges[..after].last().filter(|r| pc < r.end)?;
        Some(Text { end: range.end, written: range.written })
    }
}
