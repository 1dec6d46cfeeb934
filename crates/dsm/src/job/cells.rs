//! Elements of shared memory that are reached one by one, by relaxed loads and stores.
//!
//! Where ranks share pages in place, other processes store into them at any time, so a reference to
//! plain elements would be unsound and a guard is a copy. [`Cells`] and [`CellsMut`] need no copy
//! there: each element is an atomic variable.
//!
//! Invariants
//! - A program without data races reads from cells what guards would give it, on every fabric.
//!   Checked by `cells_and_guards_see_the_same_memory_on_every_fabric`.
//! - Cells and guards of one rank exclude each other as guards do. Checked by
//!   `cells_and_guards_that_overlap_are_refused`.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use bytemuck::Pod;

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
}
