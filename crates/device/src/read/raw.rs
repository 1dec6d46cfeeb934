//! The promise that makes slot-owned memory safe to look at.
//!
//! A slot's buffer is written again after its release, so a slice of it must be dead by then. A
//! [`Lease`] is that promise made once, in an `unsafe` block; the two functions here need none,
//! because their slices do not outlive them.
#![allow(unsafe_code)] // Reason: the promise is made where no lifetime can make it.

use super::{ReadDevice, Slot};

/// The right to look at the bytes of completed requests; see [`Lease::new`].
#[derive(Clone, Copy, Debug)]
pub struct Lease(());

impl Lease {
    /// Makes the promise.
    ///
    /// # Safety
    /// Of every device on which this value is used: each slice that [`ReadDevice::data`] or
    /// [`ReadDevice::answer`] gave for it is dead before anyone releases its slot, issues on it
    /// or polls it again.
    #[inline(always)]
    pub const unsafe fn new() -> Lease {
        Lease(())
    }
}

/// A copy of a completed request's bytes.
pub(crate) fn copy_of<D: ReadDevice + ?Sized>(device: &D, slot: Slot) -> Vec<u8> {
    // SAFETY: the slice dies in this function, which calls nothing else on the device.
    let lease = unsafe { Lease::new() };
    device.data(slot, lease).to_vec()
}

/// Word `index` of a completed request, if it is that long.
#[inline(always)]
pub(crate) fn word_of<D: ReadDevice + ?Sized>(device: &D, slot: Slot, index: usize) -> Option<u64> {
    // SAFETY: the slice dies in this function, which calls nothing else on the device.
    let lease = unsafe { Lease::new() };
    let bytes = device.data(slot, lease).get(8 * index..8 * index + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().expect("invariant: eight bytes")))
}
