//! Elements of shared memory that are reached one by one, by relaxed loads and stores.
//!
//! Where ranks share pages in place, other processes store into them at any time, so a reference to
//! plain elements would be unsound and a guard is a copy. [`Cells`] and [`CellsMut`] need no copy
//! there: each element is an atomic variable. Neighbours can be reached together
//! ([`Cell::get_all`], [`CellMut::set_all`]), so that a program's arithmetic on them becomes vector
//! arithmetic.
//!
//! Invariants
//! - A program without data races reads from cells what guards would give it, on every fabric.
//!   Checked by `cells_and_guards_see_the_same_memory_on_every_fabric`.
//! - Cells and guards of one rank exclude each other as guards do. Checked by
//!   `cells_and_guards_that_overlap_are_refused`.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use bytemuck::Pod;

mod raw;

const RELAXED: Ordering = Ordering::Relaxed;

mod sealed {
    pub trait Sealed {}
}

/// A type that one load or store of the processor moves whole: integers and floating-point numbers
/// of one, two, four and eight bytes.
pub trait Element: Pod + sealed::Sealed {
    /// The atomic variable of the same size.
    #[doc(hidden)]
    type Atom: Send + Sync;
    #[doc(hidden)]
    fn atom(self) -> Self::Atom;
    #[doc(hidden)]
    fn load(atom: &Self::Atom) -> Self;
    #[doc(hidden)]
    fn store(self, atom: &Self::Atom);
}

macro_rules! elements {
    ($($atom:ty: $bits:ty = $($element:ty),+;)+) => {
        $($(
            impl sealed::Sealed for $element {}

            impl Element for $element {
                type Atom = $atom;

                fn atom(self) -> $atom {
                    <$atom>::new(bytemuck::cast(self))
                }

                #[inline(always)]
                fn load(atom: &$atom) -> Self {
                    bytemuck::cast::<$bits, $element>(atom.load(RELAXED))
                }

                #[inline(always)]
                fn store(self, atom: &$atom) {
                    atom.store(bytemuck::cast(self), RELAXED);
                }
            }
        )+)+
    };
}

elements! {
    AtomicU8: u8 = u8, i8;
    AtomicU16: u16 = u16, i16;
    AtomicU32: u32 = u32, i32, f32;
    AtomicU64: u64 = u64, i64, f64;
}

/// An element to read.
#[repr(transparent)]
pub struct Cell<T: Element>(T::Atom);

impl<T: Element> Cell<T> {
    /// The value now: one relaxed load.
    #[inline(always)]
    pub fn get(&self) -> T {
        T::load(&self.0)
    }

    /// The values of neighbours: a relaxed load each, several of which are one instruction where
    /// the processor has one (x86-64: 16 bytes).
    #[inline(always)]
    pub fn get_all<const N: usize>(cells: &[Cell<T>; N]) -> [T; N] {
        raw::load(cells)
    }
}

/// An element to read and write.
#[repr(transparent)]
pub struct CellMut<T: Element>(T::Atom);

impl<T: Element> CellMut<T> {
    pub(super) fn new(value: T) -> Self {
        CellMut(value.atom())
    }

    /// The value now: one relaxed load.
    #[inline(always)]
    pub fn get(&self) -> T {
        T::load(&self.0)
    }

    /// Changes the value: one relaxed store.
    #[inline(always)]
    pub fn set(&self, value: T) {
        value.store(&self.0);
    }

    /// The values of neighbours; as [`Cell::get_all`].
    #[inline(always)]
    pub fn get_all<const N: usize>(cells: &[CellMut<T>; N]) -> [T; N] {
        raw::load(raw::to_read(cells))
    }

    /// Changes the values of neighbours: a relaxed store each, several of which are one instruction
    /// where the processor has one.
    #[inline(always)]
    pub fn set_all<const N: usize>(cells: &[CellMut<T>; N], values: [T; N]) {
        raw::store(cells, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `N` elements of each place in a longer row are read and written, and nothing beside them.
    fn neighbours<T: Element + PartialEq + std::fmt::Debug, const N: usize>(of: impl Fn(u8) -> T) {
        let cells: Vec<CellMut<T>> = (0..40).map(|i| CellMut::new(of(i))).collect();
        let values = || cells.iter().map(CellMut::get).collect::<Vec<T>>();
        let mut wanted = values();
        for start in 0..=40 - N {
            let some = cells[start..].first_chunk::<N>().unwrap();
            assert_eq!(CellMut::get_all(some), wanted[start..][..N], "from {start}");
            let new: [T; N] = std::array::from_fn(|i| of((start * 7 + i) as u8));
            CellMut::set_all(some, new);
            wanted[start..][..N].copy_from_slice(&new);
            assert_eq!(values(), wanted, "after a store from {start}");
            assert_eq!(Cell::get_all(raw::to_read(some)), new);
        }
    }

    #[test]
    fn neighbours_are_what_each_of_them_is() {
        neighbours::<f64, 1>(f64::from);
        neighbours::<f64, 4>(f64::from);
        neighbours::<f64, 5>(f64::from);
        neighbours::<u64, 8>(u64::from);
        neighbours::<f32, 3>(f32::from);
        neighbours::<i32, 7>(i32::from);
        neighbours::<u16, 9>(u16::from);
        neighbours::<u8, 31>(|i| i);
        neighbours::<i8, 33>(|i| i as i8);
        neighbours::<u8, 0>(|i| i);
    }
}
