//! Slot-owned buffers: one fixed run of bytes a slot, written by the device, read by the asker.
//!
//! A buffer is written only by `poll` and `answer` of its own slot. A [`crate::read::Lease`]
//! promises that its slice is dead before the slot is polled again, released or issued on; the
//! ring's guard enforces that with a lifetime.
//!
//! Invariants
//! - Buffers of different slots never overlap. Checked by `buffers_do_not_overlap`.

use std::cell::UnsafeCell;

use crate::read::Slot;

/// The buffers of a device's slots.
pub(crate) struct Buffers {
    memory: Box<[UnsafeCell<u8>]>,
    stride: usize,
    len: usize,
}

impl Buffers {
    /// `slots` zeroed buffers of `len` bytes.
    ///
    /// Buffers are one line further apart than a power of two, or all of them would compete for the
    /// same few cache sets.
    pub(crate) fn new(slots: u32, len: u32) -> Buffers {
        let len = len as usize;
        let stride = len.next_multiple_of(64) + 64;
        let memory = (0..stride * slots as usize).map(|_| UnsafeCell::new(0)).collect();
        Buffers { memory, stride, len }
    }

    #[inline(always)]
    fn window(&self, slot: Slot, len: usize) -> &[UnsafeCell<u8>] {
        let start = slot.index() * self.stride;
        &self.memory[start..start + len.min(self.len)]
    }

    /// Writes `from` to the front of a slot's buffer.
    #[inline(always)]
    pub(crate) fn fill(&self, slot: Slot, from: &[u8]) {
        assert!(from.len() <= self.len, "a read longer than its slot's buffer");
        let into = self.window(slot, from.len());
        // SAFETY: `into` is exactly `from.len()` bytes of interior-mutable memory that no thread
        // reads now (module invariant), and `from` lies in a region, never in these buffers.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.as_ptr(),
                UnsafeCell::raw_get(into.as_ptr()),
                from.len(),
            );
        }
    }

    /// The first `len` bytes of a slot's buffer.
    #[inline(always)]
    pub(crate) fn bytes(&self, slot: Slot, len: usize) -> &[u8] {
        let window = self.window(slot, len);
        // SAFETY: the bytes are initialised and not written while this slice is used (module
        // invariant); `UnsafeCell<u8>` has the layout of `u8`.
        unsafe { std::slice::from_raw_parts(UnsafeCell::raw_get(window.as_ptr()), window.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_do_not_overlap() {
        let buffers = Buffers::new(3, 100);
        for s in 0..3 {
            buffers.fill(Slot(s), &[s as u8 + 1; 100]);
        }
        for s in 0..3 {
            assert!(buffers.bytes(Slot(s), 100).iter().all(|&b| b == s as u8 + 1));
        }
        assert_eq!(buffers.bytes(Slot(0), 7).len(), 7);
    }
}
