//! The accesses of hosts without a table of landings: plain ones, so a window must be wholly
//! mapped.

use super::Word;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

macro_rules! word {
    ($type:ty, $atomic:ident) => {
        impl Word for $type {
            unsafe fn load(p: *const u8) -> Option<Self> {
                // SAFETY: the caller vouches that `p` is mapped; no alignment is assumed.
                Some(unsafe { p.cast::<Self>().read_unaligned() })
            }
            unsafe fn store(self, p: *mut u8) -> Option<()> {
                // SAFETY: as `load`.
                unsafe { p.cast::<Self>().write_unaligned(self) };
                Some(())
            }
            unsafe fn swap_if(p: *mut u8, old: Self, new: Self) -> Option<Self> {
                // SAFETY: `p` is mapped and aligned, and guest memory is only reached through this
                // module, so the cell is never part of a Rust reference.
                let cell = unsafe { $atomic::from_ptr(p.cast()) };
                match cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(seen) | Err(seen) => Some(seen),
                }
            }
        }
    };
}

word!(u8, AtomicU8);
word!(u16, AtomicU16);
word!(u32, AtomicU32);
word!(u64, AtomicU64);

/// As on x86-64.
///
/// # Safety
/// As there.
pub(super) unsafe fn copy_16(from: *const u8, to: *mut u8) -> bool {
    // SAFETY: the caller's; the two never overlap, one being a register of the guest.
    unsafe { from.copy_to_nonoverlapping(to, 16) };
    true
}

/// As on x86-64.
///
/// # Safety
/// As there.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> Option<()> {
    // SAFETY: the caller's; every page of a window is mapped.
    unsafe { from.copy_to_nonoverlapping(to, len) };
    Some(())
}

/// As on x86-64: every page of a window can be written.
///
/// # Safety
/// As there.
pub(super) unsafe fn probe_write(_p: *mut u8) -> Option<()> {
    Some(())
}
