//! The slot table of a device whose data lie in a [`Region`]: who is where, and which bytes are theirs.
//!
//! Slot states: `Free -> Issued -> Free`, or `Issued -> Abandoned -> Free` when released early.
//!
//! Invariants
//! - An entry's bytes lie inside the region, because [`SlotTable::place`] is the only writer of them
//!   and checks; an entry never placed has no bytes.
//! - An entry's generation changes at every issue, so an answer can be matched to its request.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::read::{Slot, Status};
use crate::region::Region;

/// Where a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// May be issued on.
    Free,
    /// A request is under way, or done and not yet released.
    Issued,
    /// Released before the answer; nobody may have it until the answer is in.
    #[allow(dead_code)] // Reason: DRAM answers at once.
    Abandoned,
}

/// One slot. Two share a cache line.
#[repr(align(32))]
#[allow(dead_code)] // Reason: not every device needs every field.
pub(crate) struct Entry {
    start: Cell<NonNull<u8>>,
    /// When the request completes, in the device's own time.
    pub(crate) due: Cell<u64>,
    len: Cell<u32>,
    /// How the request will end.
    pub(crate) status: Cell<Status>,
    /// Where the slot stands.
    pub(crate) state: Cell<State>,
    /// Counts issues, wrapping.
    pub(crate) generation: Cell<u16>,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    fn new() -> Entry {
        Entry {
            start: Cell::new(NonNull::dangling()),
            due: Cell::new(0),
            len: Cell::new(0),
            status: Cell::new(Status::Ok),
            state: Cell::new(State::Free),
            generation: Cell::new(0),
        }
    }
}

/// The slots of one device over one region.
pub(crate) struct SlotTable {
    entries: Box<[Entry]>,
    start: NonNull<u8>,
    capacity: u64,
    region: Region,
}

impl SlotTable {
    pub(crate) fn new(region: Region, slots: u32) -> SlotTable {
        let start = NonNull::from(&region[..]).cast();
        let capacity = region.len() as u64;
        let entries = (0..slots).map(|_| Entry::new()).collect();
        SlotTable { entries, start, capacity, region }
    }

    #[inline(always)]
    pub(crate) fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot.index()]
    }

    #[inline(always)]
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn slots(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Points a slot at `len` bytes at `addr`; false, with no bytes, when they are not all there.
    #[inline(always)]
    pub(crate) fn place(&self, entry: &Entry, addr: u64, len: u32) -> bool {
        // `capacity - len` cannot wrap when the first test passes.
        let inside = u64::from(len) <= self.capacity && addr <= self.capacity - u64::from(len);
        if inside {
            // SAFETY: `addr + len <= capacity`, so the pointer stays inside the region's mapping.
            entry.start.set(unsafe { self.start.add(addr as usize) });
            entry.len.set(len);
        } else {
            entry.len.set(0);
        }
        inside
    }

    /// The bytes a slot was pointed at.
    #[inline(always)]
    pub(crate) fn bytes(&self, entry: &Entry) -> &[u8] {
        // SAFETY: `place` checked the range (or the length is zero), the region is immutable while
        // shared and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(entry.start.get().as_ptr(), entry.len.get() as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_gets_bytes_inside_the_region_or_none() {
        let region = Region::from_bytes(&[1, 2, 3, 4]).unwrap();
        let table = SlotTable::new(region, 1);
        let entry = table.entry(Slot(0));
        assert_eq!(table.bytes(entry), &[] as &[u8]);
        assert!(table.place(entry, 1, 3));
        assert_eq!(table.bytes(entry), [2, 3, 4]);
        for (addr, len) in [(2, 3), (5, 0), (u64::MAX, 1), (0, 5), (u64::MAX - 1, u32::MAX)] {
            assert!(!table.place(entry, addr, len), "{addr}+{len} was accepted");
            assert!(table.bytes(entry).is_empty());
        }
        assert!(table.place(entry, 4, 0));
    }
}
