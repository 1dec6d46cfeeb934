//! The ring's promise to its device, made for [`crate::ReadGuard`].
//!
//! A slice of a device's bytes leaves a ring only inside a guard, which releases the slot when
//! dropped and borrows the ring until then; the slice's own borrow ends with the guard's. No other
//! code reaches the device while a guard lives: a ring owns it and hands it out only by `&mut
//! self`.
//!
//! Invariants
//! - A [`crate::Reader`] keeps the guard of its latest read and lends that guard's bytes for as
//!   long as the reader is borrowed by `&mut`; it drops the guard through another borrow only.
//!   Checked by `every_device_brings_each_read_its_own_bytes`.
//! - A slot that a guard holds is neither released, issued on nor polled by the ring. Checked by
//!   `a_starved_read_goes_on_when_a_slot_comes_free`, `late_data_of_a_dropped_read_reach_no_other`.

use littoral_device::read::Lease;

/// The lease of one ring.
pub(crate) fn lease() -> Lease {
    // SAFETY: the module's page says how the promise is kept.
    unsafe { Lease::new() }
}
