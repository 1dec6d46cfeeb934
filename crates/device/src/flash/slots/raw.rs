//! Cells that hand out plain references under the slot protocol of [`crate::read::ReadDevice`].
//!
//! `ReadDevice::data(&self)` returns a slice into a buffer that the device itself fills later, so
//! the buffers need interior mutability with plain references. `unsafe` is confined to this file.
//!
//! Invariants
//! - A cell is changed only by [`LentCells::change`], which devices call only for a slot that is
//!   not finished: no slice of it is lent. The trait ends a loan at `release`; the ring's guard
//!   makes that a lifetime. The transition that follows each change asserts the slot's state.
//!   Checked by `Slots::issue`, `Slots::complete`.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;

/// One value a slot, lent out between an answer and its release.
pub(crate) struct LentCells<T> {
    cells: Box<[UnsafeCell<T>]>,
}

impl<T> LentCells<T> {
    pub(crate) fn new(count: usize, make: impl FnMut() -> T) -> Self {
        let mut make = make;
        LentCells { cells: (0..count).map(|_| UnsafeCell::new(make())).collect() }
    }

    /// The value of a finished slot.
    pub(crate) fn lend(&self, index: usize) -> &T {
        // SAFETY: `UnsafeCell` makes this type `!Sync`, so no other thread changes the value; this
        // thread changes it only in `change`, which devices call before the slot is finished or
        // after its release, when by the trait's contract no loan is alive.
        unsafe { &*self.cells[index].get() }
    }

    /// Changes the value of a slot that is not lent. `f` must not reach this table.
    pub(crate) fn change<R>(&self, index: usize, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: as in `lend`; `f` is a closure of this crate that touches nothing but the value,
        // so the exclusive reference is not aliased while it lives.
        f(unsafe { &mut *self.cells[index].get() })
    }
}
