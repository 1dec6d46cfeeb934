//! The slot table of a device whose data lie in a [`Region`]: who is where, and which bytes are
//! theirs.
//!
//! Slot states: `Free -> Issued -> Free`, or `Issued -> Abandoned -> Free` when released early.
//!
//! Invariants
//! - An issued entry's bytes lie inside the region, because [`SlotTable::place`] is the only writer
//!   of them and checks; an entry in any other state has no bytes. Checked by
//!   `a_slot_gets_bytes_inside_the_region_or_none`,
//!   `states_follow_each_other_and_only_issued_entries_have_bytes`.
//! - The table has a power of two of entries, so that a slot number is masked, not tested. Checked
//!   by `states_follow_each_other_and_only_issued_entries_have_bytes`.
//!
//! These devices answer no earlier than they are asked and never late, so entries need no
//! generations; devices that answer in messages (queue pair, emulator) have them.
//!
//! Cost: a request is three stores here (start, due, tag), a release is one. Stores, not
//! arithmetic, bound the ring's step on current processors (`docs/design/ring.md`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ptr::NonNull;

use crate::read::{Slot, Status};
use crate::region::Region;

/// Where a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// May be issued on.
    Free,
    /// A request is under way, or done and not yet released.
    Issued,
    /// Released before the answer; not given out until the answer is in.
    Abandoned,
}

// A tag is zero when free; otherwise its length is in the low half, then the status, then the
// state.
const FREE: u64 = 0;
const ISSUED: u64 = 1 << 40;
const ABANDONED: u64 = 1 << 41;
const REFUSED: u64 = ISSUED | (Status::Refused as u64) << 32;

/// One slot. Two share a cache line.
#[repr(align(32))]
pub(crate) struct Entry {
    start: Cell<NonNull<u8>>,
    /// When the request completes, in the device's own time.
    pub(crate) due: Cell<u64>,
    tag: Cell<u64>,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    fn new() -> Entry {
        Entry { start: Cell::new(NonNull::dangling()), due: Cell::new(0), tag: Cell::new(FREE) }
    }

    /// Where the slot stands.
    #[inline(always)]
    pub(crate) fn state(&self) -> State {
        match self.tag.get() {
            FREE => State::Free,
            ABANDONED => State::Abandoned,
            _ => State::Issued,
        }
    }

    /// Whether the slot may be issued on without asking for more.
    #[inline(always)]
    pub(crate) fn is_free(&self) -> bool {
        self.tag.get() == FREE
    }

    /// How an issued request ends.
    #[inline(always)]
    pub(crate) fn status(&self) -> Status {
        if self.tag.get() & 0xff << 32 == 0 { Status::Ok } else { Status::Refused }
    }

    /// Ends the request; its bytes are no longer reachable here.
    #[inline(always)]
    pub(crate) fn release(&self) {
        self.tag.set(FREE);
    }

    /// Takes the slot without a request: it has no bytes.
    #[inline(always)]
    pub(crate) fn hold(&self) {
        self.tag.set(ISSUED);
    }

    /// Ends the asker's interest in a request that the device has not answered.
    #[inline(always)]
    pub(crate) fn abandon(&self) {
        self.tag.set(ABANDONED);
    }
}

/// The slots of one device over one region.
pub(crate) struct SlotTable {
    start: NonNull<u8>,
    capacity: u64,
    granule_mask: u32,
    /// Bits that are zero in every legal address: those below the granule, and the highest.
    fixed_mask: u64,
    /// At most the capacity, so that one subtraction tells whether a read ends inside.
    read_bytes_max: u32,
    mask: usize,
    entries: Box<[Entry]>,
    slots: u32,
    region: Region,
    /// What the latest refused request of each entry asked for, by the entry's address.
    refused: RefCell<BTreeMap<usize, (u64, u32)>>,
}

impl SlotTable {
    /// `slots` slots for reads of at most `read_bytes_max` bytes in multiples of `granule_bytes`.
    pub(crate) fn new(
        region: Region,
        slots: u32,
        granule_bytes: u32,
        read_bytes_max: u32,
    ) -> SlotTable {
        assert!(granule_bytes.is_power_of_two(), "granule_bytes must be a power of two");
        let start = NonNull::from(&region[..]).cast();
        let capacity = region.len() as u64;
        let count = (slots as usize).max(1).next_power_of_two();
        let entries = (0..count).map(|_| Entry::new()).collect();
        SlotTable {
            start,
            capacity,
            granule_mask: granule_bytes - 1,
            fixed_mask: 1 << 63 | u64::from(granule_bytes - 1),
            read_bytes_max: u64::from(read_bytes_max).min(capacity) as u32,
            mask: count - 1,
            entries,
            slots,
            region,
            refused: RefCell::default(),
        }
    }

    /// The entry of a slot; slot numbers of another device meet some other entry.
    #[inline(always)]
    pub(crate) fn entry(&self, slot: Slot) -> &Entry {
        debug_assert!(slot.0 < self.slots, "{slot:?} of a device with {} slots", self.slots);
        // SAFETY: `mask` is one less than the number of entries, which is a power of two.
        unsafe { self.entries.get_unchecked(slot.index() & self.mask) }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    pub(crate) fn granule_bytes(&self) -> u32 {
        self.granule_mask + 1
    }

    /// Puts a request for `len` bytes at `addr` on an entry and answers those bytes; `None`,
    /// leaving it refused and without bytes, when the request breaks a limit or the region's end.
    #[inline(always)]
    pub(crate) fn place(&self, entry: &Entry, addr: u64, len: u32) -> Option<&[u8]> {
        debug_assert_ne!(entry.state(), State::Issued, "issue on a slot in use");
        let aligned = (addr as u32 | len) & self.granule_mask == 0;
        // With `len <= read_bytes_max <= capacity` the subtraction does not wrap.
        let inside = addr <= self.capacity.wrapping_sub(u64::from(len));
        if !(aligned && len <= self.read_bytes_max && inside) {
            self.refuse(entry, addr, len);
            return None;
        }
        // SAFETY: `addr <= addr + len <= capacity`: the pointer stays inside the region's mapping.
        let start = unsafe { self.start.add(addr as usize) };
        entry.start.set(start);
        entry.tag.set(u64::from(len) | ISSUED);
        // SAFETY: as in `bytes`, with the range just checked.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), len as usize) })
    }

    /// The `N` bytes at `addr`; `None` where the address is misaligned or the bytes do not all lie
    /// in the region. The caller has checked that `N` is a legal length.
    #[inline(always)]
    pub(crate) fn fixed<const N: usize>(&self, addr: u64) -> Option<&[u8; N]> {
        // Address and capacity are below 2^63, so the difference is exact.
        let left = (self.capacity as i64).wrapping_sub(addr as i64);
        if addr & self.fixed_mask != 0 || left < N as i64 {
            std::hint::cold_path();
            return None;
        }
        // SAFETY: `addr + N <= capacity`, so the range lies inside the region, which is immutable
        // while shared and lives as long as `self`.
        Some(unsafe { self.start.add(addr as usize).cast::<[u8; N]>().as_ref() })
    }

    /// Puts a request on an entry that has ended with `Status::Refused` and has no bytes.
    #[cold]
    pub(crate) fn refuse(&self, entry: &Entry, addr: u64, len: u32) {
        self.refused.borrow_mut().insert(std::ptr::from_ref(entry).addr(), (addr, len));
        entry.due.set(0);
        entry.tag.set(REFUSED);
    }

    /// The bytes an issued request asked for.
    #[inline(always)]
    pub(crate) fn bytes(&self, entry: &Entry) -> &[u8] {
        let len = entry.tag.get() as u32 as usize;
        // SAFETY: with a length other than zero `place` has checked the range and set the start;
        // the start is never null, and the region is immutable while shared and lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(entry.start.get().as_ptr(), len) }
    }

    /// The bytes of an issued request that is complete, or how it failed.
    #[inline(always)]
    pub(crate) fn answer(&self, entry: &Entry) -> Result<&[u8], Status> {
        match entry.status() {
            Status::Ok => Ok(self.bytes(entry)),
            status => {
                std::hint::cold_path();
                Err(status)
            }
        }
    }

    /// Address and length of an issued request.
    pub(crate) fn request(&self, entry: &Entry) -> Option<(u64, u32)> {
        let addr = || entry.start.get().addr().get() - self.start.addr().get();
        match (entry.state(), entry.status()) {
            (State::Issued, Status::Ok) => Some((addr() as u64, entry.tag.get() as u32)),
            (State::Issued, _) => {
                self.refused.borrow().get(&std::ptr::from_ref(entry).addr()).copied()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_gets_bytes_inside_the_region_or_none() {
        let region = Region::from_bytes(&[1, 2, 3, 4]).unwrap();
        let table = SlotTable::new(region, 1, 1, 4096);
        let entry = table.entry(Slot(0));
        assert_eq!(table.bytes(entry), &[] as &[u8]);
        assert_eq!(table.place(entry, 1, 3), Some(&[2, 3, 4][..]));
        assert_eq!(table.bytes(entry), [2, 3, 4]);
        assert_eq!(table.request(entry), Some((1, 3)));
        for (addr, len) in [(2, 3), (5, 0), (u64::MAX, 1), (0, 5), (u64::MAX - 1, u32::MAX)] {
            entry.release();
            assert_eq!(table.place(entry, addr, len), None, "{addr}+{len} was accepted");
            assert!(table.bytes(entry).is_empty() && entry.status() == Status::Refused);
            assert_eq!(table.request(entry), Some((addr, len)));
        }
        entry.release();
        assert_eq!(table.place(entry, 4, 0), Some(&[][..]));
    }

    #[test]
    fn a_request_keeps_to_granule_and_length() {
        let table = SlotTable::new(Region::from_bytes(&[0; 64]).unwrap(), 1, 16, 32);
        let entry = table.entry(Slot(0));
        for (addr, len) in [(8, 16), (16, 8), (0, 48), (u64::MAX - 15, 16), (64, 16)] {
            assert_eq!(table.place(entry, addr, len), None, "{addr}+{len} was accepted");
            entry.release();
        }
        assert_eq!(table.place(entry, 48, 16).map(<[u8]>::len), Some(16));
    }

    #[test]
    fn a_fixed_read_lies_in_the_region_and_on_the_granule() {
        let bytes: Vec<u8> = (0..64).collect();
        let table = SlotTable::new(Region::from_bytes(&bytes).unwrap(), 1, 16, 64);
        assert_eq!(table.fixed::<16>(48), Some(bytes[48..].try_into().unwrap()));
        assert_eq!(table.fixed::<64>(0), Some(bytes[..].try_into().unwrap()));
        for addr in [8, 49, 56, 64, 1 << 62, 1 << 63, u64::MAX - 15, u64::MAX] {
            assert_eq!(table.fixed::<16>(addr), None, "16 B at {addr} were accepted");
        }
        assert_eq!(table.fixed::<80>(0), None, "longer than the region");
        let entry = table.entry(Slot(0));
        entry.hold();
        assert_eq!((entry.state(), table.bytes(entry).len()), (State::Issued, 0));
    }

    #[test]
    fn states_follow_each_other_and_only_issued_entries_have_bytes() {
        let table = SlotTable::new(Region::from_bytes(&[5; 8]).unwrap(), 3, 1, 8);
        let entry = table.entry(Slot(2));
        assert_eq!((table.slots(), table.entries().len(), entry.state()), (3, 4, State::Free));
        assert!(table.place(entry, 0, 8).is_some());
        assert_eq!((entry.state(), table.bytes(entry).len()), (State::Issued, 8));
        entry.abandon();
        assert_eq!((entry.state(), table.bytes(entry).len()), (State::Abandoned, 0));
        assert!(
            table.place(entry, 1, 2).is_some(),
            "an abandoned slot whose answer is in can be used"
        );
        entry.release();
        assert_eq!((entry.state(), table.bytes(entry).len()), (State::Free, 0));
    }
}
