//! DRAM as a read device: issuing prefetches the lines, the data are there whenever they are
//! polled.
//!
//! Interleaving coroutines over this device hides cache misses the way they hide flash latency
//! (paper 003 calls DRAM "the synchronous case"; the follow-up work prefetches and yields). It is
//! the denominator of every figure that compares a medium with DRAM.
//!
//! - Nothing is copied: data are slices of the region.
//! - A request outside the region completes with [`Status::Refused`].
//! - A released slot is free at once: no data can arrive late.
//! - Which prefetch instruction is best depends on the processor: [`Dram::once`] makes a device
//!   that uses the non-temporal one, so that a caller can try both.

use std::cell::Cell;

use littoral_base::clock::ClockKind;
use littoral_base::counters::bump;

use super::raw::slots::{SlotTable, State};
use crate::raw::cpu::{prefetch_array, prefetch_array_once, prefetch_slice, prefetch_slice_once};
use crate::read::{Completion, Lease, Limits, ReadDevice, Slot, Status};
use crate::region::Region;

/// Most slots of a DRAM device unless asked otherwise.
pub const SLOTS_DEFAULT: u32 = 1024;

/// DRAM behind the read interface.
///
/// ```
/// use littoral_device::{flash::dram::Dram, read::{ReadDevice, Slot, Status}, region::Region};
/// let dram = Dram::new(Region::from_bytes(b"some bytes")?);
/// dram.issue(Slot(0), 5, 5);
/// assert_eq!(dram.poll(Slot(0)), Some(Status::Ok));
/// assert_eq!(dram.copy(Slot(0)), b"bytes");
/// dram.release(Slot(0));
/// # Ok::<(), littoral_device::Error>(())
/// ```
pub struct Dram<const ONCE: bool = false> {
    slots: SlotTable,
    fixed_count: Cell<u64>,
    /// Its time: fixed reads are due at the next reap, so that a context gives way once.
    reaps: Cell<u64>,
}

impl<const ONCE: bool> Dram<ONCE> {
    /// The memory behind the device.
    pub fn region(&self) -> &Region {
        self.slots.region()
    }

    #[inline(always)]
    fn prefetch(bytes: &[u8]) {
        if ONCE { prefetch_slice_once(bytes) } else { prefetch_slice(bytes) }
    }
}

impl Dram {
    /// A device over `region` with [`SLOTS_DEFAULT`] slots.
    pub fn new(region: Region) -> Dram {
        Dram::with_slots(region, SLOTS_DEFAULT)
    }

    /// A device over `region` with `slots` slots.
    pub fn with_slots(region: Region, slots: u32) -> Dram {
        Dram {
            slots: SlotTable::new(region, slots, 1, u32::MAX),
            fixed_count: Cell::new(0),
            reaps: Cell::new(0),
        }
    }

    /// The same, prefetching for one use: lines do not displace what outer caches keep.
    pub fn once(self) -> Dram<true> {
        Dram { slots: self.slots, fixed_count: self.fixed_count, reaps: self.reaps }
    }
}

impl<const ONCE: bool> ReadDevice for Dram<ONCE> {
    fn limits(&self) -> Limits {
        Limits {
            slots: self.slots.slots(),
            granule_bytes: 1,
            read_bytes_max: u32::MAX,
            capacity_bytes: self.slots.region().len() as u64,
            completion: Completion::AtIssue,
            clock: ClockKind::Wall,
            can_park: false,
        }
    }

    #[inline(always)]
    fn issue(&self, slot: Slot, addr: u64, len: u32) {
        let entry = self.slots.entry(slot);
        if let Some(bytes) = self.slots.place(entry, addr, len) {
            Self::prefetch(bytes);
        }
    }

    #[inline(always)]
    fn try_issue(&self, slot: Slot, addr: u64, len: u32) -> bool {
        let entry = self.slots.entry(slot);
        let free = entry.is_free();
        if free && let Some(bytes) = self.slots.place(entry, addr, len) {
            Self::prefetch(bytes);
        }
        free
    }

    #[inline(always)]
    fn poll(&self, slot: Slot) -> Option<Status> {
        Some(self.slots.entry(slot).status())
    }

    #[inline(always)]
    fn data(&self, slot: Slot, _: Lease) -> &[u8] {
        self.slots.bytes(self.slots.entry(slot))
    }

    #[inline(always)]
    fn answer(&self, slot: Slot, _: Lease) -> Option<std::result::Result<&[u8], Status>> {
        Some(self.slots.answer(self.slots.entry(slot)))
    }

    #[inline(always)]
    fn has_fixed(&self) -> bool {
        true
    }

    #[inline(always)]
    fn issue_fixed<const N: usize>(&self, addr: u64) -> Option<(&[u8; N], u64)> {
        let bytes = self.slots.fixed::<N>(addr)?;
        bump(&self.fixed_count, 1);
        if ONCE {
            prefetch_array_once(bytes)
        } else {
            prefetch_array(bytes)
        }
        Some((bytes, self.reaps.get() + 1))
    }

    #[inline(always)]
    fn reap(&self) {
        bump(&self.reaps, 1);
    }

    #[inline(always)]
    fn is_due(&self, due: u64) -> bool {
        due <= self.reaps.get()
    }

    #[inline(always)]
    fn fixed_count(&self) -> u64 {
        self.fixed_count.get()
    }

    fn hold(&self, slot: Slot) -> bool {
        let free = self.is_free(slot);
        if free {
            self.slots.entry(slot).hold();
        }
        free
    }

    fn release_due(&self, slot: Slot, _due: u64) {
        self.release(slot);
    }

    #[inline(always)]
    fn release(&self, slot: Slot) {
        self.slots.entry(slot).release();
    }

    #[inline(always)]
    fn is_free(&self, slot: Slot) -> bool {
        self.slots.entry(slot).state() == State::Free
    }

    fn request(&self, slot: Slot) -> Option<(u64, u32)> {
        self.slots.request(self.slots.entry(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_outside_the_region_are_refused_and_carry_no_bytes() {
        let dram = Dram::with_slots(Region::from_bytes(&[7; 64]).unwrap(), 2);
        dram.issue(Slot(1), 1, 64);
        assert_eq!(dram.poll(Slot(1)), Some(Status::Refused));
        assert!(dram.copy(Slot(1)).is_empty());
        assert!(!dram.is_free(Slot(1)) && dram.is_free(Slot(0)));
        dram.release(Slot(1));
        assert!(dram.is_free(Slot(1)));
    }
}
