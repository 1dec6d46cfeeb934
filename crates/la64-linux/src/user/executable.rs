//! A thread's own list of the executable areas, so that decoding takes no lock: it is made anew
//! under the lock on the address space when the count of changes says that it is old.

use super::code::{Changes, Range};
use super::debug::Debugger;
use super::disk::{Disk, FileText};
use super::space::Space;
use super::sync::lock;
use littoral_la64::interp::{Fetch, Origin, Text};
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
    disk: Option<Arc<Disk>>,
    /// Texts of files that were asked for, and their numbers on disk.
    texts: RefCell<Vec<(FileText, Option<usize>)>>,
    debugger: Option<Arc<Debugger>>,
    /// Addresses that a debugger keeps from being fetched, in order.
    breakpoints: RefCell<Vec<u64>>,
    /// They do not count, for one step.
    ignores_breakpoints: Cell<bool>,
    /// Pages are not watched, for one step.
    ignores_watches: Cell<bool>,
}

impl Executable {
    pub(super) fn new(
        changes: Arc<Changes>,
        space: Arc<Mutex<Space>>,
        disk: Option<Arc<Disk>>,
        debugger: Option<Arc<Debugger>>,
    ) -> Executable {
        Executable {
            changes,
            space,
            seen: Cell::new(u64::MAX),
            ranges: RefCell::default(),
            disk,
            texts: RefCell::default(),
            debugger,
            breakpoints: RefCell::default(),
            ignores_breakpoints: Cell::new(false),
            ignores_watches: Cell::new(false),
        }
    }

    /// Whether breakpoints do not count.
    pub(super) fn ignore_breakpoints(&self, ignore: bool) {
        self.ignores_breakpoints.set(ignore);
    }

    /// Whether pages are left unwatched.
    pub(super) fn ignore_watches(&self, ignore: bool) {
        self.ignores_watches.set(ignore);
    }

    fn renew(&self) {
        // Before what the count counts is read, so that a later change is seen.
        self.seen.set(self.changes.map());
        if let Some(debugger) = &self.debugger {
            *self.breakpoints.borrow_mut() = debugger.breakpoints();
        }
        let space = lock(&self.space);
        let mut ranges = self.ranges.borrow_mut();
        ranges.clear();
        ranges.extend(space.executable());
        self.texts.borrow_mut().clear();
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
        if range.watches && !self.ignores_watches.get() {
            lock(&self.space).watch(pc);
        }
        let end = self.breakpoint_from(pc).map_or(range.end, |at| at.min(range.end));
        (pc < end).then_some(Text { end, written: range.written })
    }

    fn origin(&self, pc: u64) -> Option<Origin> {
        let disk = self.disk.as_ref()?;
        if self.changes.map() != self.seen.get() {
            self.renew();
        }
        let mut texts = self.texts.borrow_mut();
        let at = match texts.iter().position(|(text, _)| text.addresses.contains(&pc)) {
            Some(at) => at,
            None => {
                // Without the lock on the space while the disk's files are looked up.
                let text = lock(&self.space).file_text(pc)?;
                let file = disk.file(&text);
                texts.push((text, file));
                texts.len() - 1
            }
        };
        let (text, file) = &texts[at];
        let offset = text.offset + (pc - text.addresses.start);
        file.map(|file| Origin { file, offset })
    }
}

impl Executable {
    /// The first breakpoint from an address on.
    fn breakpoint_from(&self, pc: u64) -> Option<u64> {
        let list = self.breakpoints.borrow();
        if list.is_empty() || self.ignores_breakpoints.get() {
            return None;
        }
        list.get(list.partition_point(|&at| at < pc)).copied()
    }
}
