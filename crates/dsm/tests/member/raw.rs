//! The one unsafe step of these tests: a word of shared memory by its address.
#![allow(unsafe_code)] // Reason: what is tested is the raw side.

use std::sync::atomic::AtomicU64;

/// The word at an address. Tests order conflicting accesses by locks and barriers, and a word is
/// reached atomically, so that threads of one rank may share it too.
pub(crate) fn word(address: usize) -> &'static AtomicU64 {
    // SAFETY: tests pass addresses inside a live member's allocations.
    unsafe { &*std::ptr::with_exposed_provenance(address) }
}
