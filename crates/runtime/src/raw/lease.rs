//! The ring's promise to its device, made for [`crate::ReadGuard`].
//!
//! Invariants
//! - A slice of a device's bytes leaves a ring only inside a guard, which releases the slot when
//!   dropped and borrows the ring until then; the slice's own borrow ends with the guard's.
//! - A slot that a guard holds is neither released, issued on nor polled by the ring.
//! - The device cannot be reached by other code while a guard lives: a ring owns it and hands it
//!   out only by `&mut self`.

use littoral_device::read::Lease;

/// The lease of one ring.
pub(crate) fn lease() -> Lease {
    // SAFETY: the module's invariants are the promise.
    unsafe { Lease::new() }
}
