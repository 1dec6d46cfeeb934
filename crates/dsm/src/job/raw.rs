//! Guards on ranges of shared memory: the only references to shared pages there are.
//!
//! A reference into a rank's own frames is exclusive or shared exactly as the rank's table of
//! guards says, for as long as the guard lives:
//! - the program's side: the rank's table refuses a second guard that overlaps a writing one;
//! - the server's side: it writes frames only when it applies diffs at a home, and a diff over a
//!   guarded byte fails the job before a byte is written (`runtime::engine`, *data race*); where no
//!   server takes part other ranks write so, by mappings of their own (`runtime::serverless`);
//! - a cached copy is filled only by operations of the program's thread, which guards forbid by
//!   borrowing the scope they came from: entering, leaving and barriers need it whole.
//!
//! A direct segment, and lines of a pool, are memory that other processes write. No table of ours
//! reaches them, so a guard there is a copy: taken when it is made, stored when it is dropped.
//! Cells are atomic variables, so on a direct segment they lie in the shared memory itself, and so
//! they do over whole lines of a pool that is ordinary mapped memory: the lines are this rank's
//! alone to write, or no rank's, until the guard ends, and go back to the medium after it.
#![allow(unsafe_code)] // Reason: slices over mapped memory.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;

use super::Seat;
use super::cells::{Cell, CellMut, Element};
use crate::error::Result;
use crate::memory::Memory;

/// A range of shared memory that a guard is on.
struct Held<'s> {
    seat: &'s Seat,
    id: u64,
    offset: usize,
    bytes: usize,
}

impl<'s> Held<'s> {
    fn new(seat: &'s Seat, offset: usize, bytes: usize, write: bool) -> Result<Self> {
        let lent = seat.node.borrow(&mut seat.own.borrow_mut(), offset, bytes, write)?;
        let held = Held { seat, id: lent.id, offset, bytes };
        if !lent.is_ready {
            seat.node.fetch(offset, bytes, write)?;
        }
        Ok(held)
    }

    fn memory(&self) -> &Memory {
        self.seat.node.memory()
    }

    fn copy<T: Pod>(&self, len: usize) -> Vec<T> {
        let mut copy = vec![T::zeroed(); len];
        self.seat.node.load(self.offset, bytemuck::cast_slice_mut(&mut copy));
        copy
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.seat.node.give_back(&mut self.seat.own.borrow_mut(), self.id);
    }
}

enum Place<T> {
    /// Elements in this rank's frames.
    Frames {
        start: *mut T,
        len: usize,
    },
    /// A copy of so many elements that [`FEW_BYTES`] hold, without an allocation.
    Few(Few, usize),
    Copy(Vec<T>),
}

const FEW_BYTES: usize = 16;
type Few = [u64; FEW_BYTES / 8];

/// Whether `len` elements lie in [`FEW_BYTES`] bytes that are aligned as words.
fn are_few<T: Pod>(len: usize) -> bool {
    align_of::<T>() <= align_of::<u64>() && len * size_of::<T>() <= FEW_BYTES
}

impl<T: Pod> Place<T> {
    fn new(held: &Held<'_>, len: usize) -> Self {
        if size_of::<T>() == 0 || (held.seat.node.lends_copies() && !are_few::<T>(len)) {
            return Place::Copy(held.copy(len));
        }
        if held.seat.node.lends_copies() {
            let mut few = Few::default();
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut few);
            held.seat.node.load(held.offset, &mut bytes[..held.bytes]);
            return Place::Few(few, len);
        }
        let start = held.memory().frame(held.offset, held.bytes).cast::<T>();
        assert!(start.is_aligned(), "allocations begin at pages and elements follow each other");
        Place::Frames { start, len }
    }

    fn slice(&self) -> &[T] {
        match self {
            // SAFETY: `len` elements from `start` on lie in the segment (checked by `frame`),
            // aligned (asserted), initialised and of any bit pattern (`Pod`); no rank writes them
            // while the guard lives (the module's page).
            Place::Frames { start, len } => unsafe { std::slice::from_raw_parts(*start, *len) },
            Place::Few(few, len) => {
                let bytes: &[u8] = bytemuck::cast_slice(few);
                bytemuck::cast_slice(&bytes[..len * size_of::<T>()])
            }
            Place::Copy(copy) => copy,
        }
    }

    fn slice_mut(&mut self) -> &mut [T] {
        match self {
            // SAFETY: as in `slice`; the guard is a writing one, so no other guard overlaps it.
            Place::Frames { start, len } => unsafe { std::slice::from_raw_parts_mut(*start, *len) },
            Place::Few(few, len) => {
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(few);
                bytemuck::cast_slice_mut(&mut bytes[..*len * size_of::<T>()])
            }
            Place::Copy(copy) => copy,
        }
    }
}

/// Elements to read, for as long as the guard lives.
pub struct Read<'s, T: Pod> {
    place: Place<T>,
    _held: Held<'s>,
    _scope: PhantomData<&'s ()>,
}

impl<'s, T: Pod> Read<'s, T> {
    pub(super) fn new(seat: &'s Seat, offset: usize, len: usize) -> Result<Self> {
        let held = Held::new(seat, offset, len * size_of::<T>(), false)?;
        Ok(Read { place: Place::new(&held, len), _held: held, _scope: PhantomData })
    }
}

impl<T: Pod> Deref for Read<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.place.slice()
    }
}

/// Elements to read and write, for as long as the guard lives.
pub struct Write<'s, T: Pod> {
    place: Place<T>,
    held: Held<'s>,
    _scope: PhantomData<&'s ()>,
}

impl<'s, T: Pod> Write<'s, T> {
    pub(super) fn new(seat: &'s Seat, offset: usize, len: usize) -> Result<Self> {
        let held = Held::new(seat, offset, len * size_of::<T>(), true)?;
        Ok(Write { place: Place::new(&held, len), held, _scope: PhantomData })
    }
}

impl<T: Pod> Deref for Write<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.place.slice()
    }
}

impl<T: Pod> DerefMut for Write<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.place.slice_mut()
    }
}

impl<T: Pod> Drop for Write<'_, T> {
    fn drop(&mut self) {
        if !matches!(self.place, Place::Frames { .. }) {
            let bytes = bytemuck::cast_slice(self.place.slice());
            self.held.seat.node.store(self.held.offset, bytes);
        }
    }
}

/// Atomic elements in this rank's frames, or in memory that all ranks share.
struct Atoms<T: Element> {
    start: *const T::Atom,
    len: usize,
}

impl<T: Element> Atoms<T> {
    fn new(held: &Held<'_>, len: usize) -> Self {
        Atoms::at(held.memory().frame(held.offset, held.bytes).cast_const(), len)
    }

    /// `len` elements from `start` on, which stay mapped for as long as the seat.
    fn at(start: *const u8, len: usize) -> Self {
        let start = start.cast::<T::Atom>();
        assert!(start.is_aligned(), "allocations begin at pages and elements follow each other");
        assert_eq!(size_of::<T>(), size_of::<T::Atom>(), "an element is one atomic variable");
        Atoms { start, len }
    }

    /// The elements as `C`, a transparent wrapper of the atomic variable.
    fn slice<C>(&self) -> &[C] {
        const { assert!(size_of::<C>() == size_of::<T>(), "a wrapper of one element") };
        // SAFETY: `len` atomic variables from `start` on lie in the segment (checked by `frame`, or
        // by the pool's own slice of words, which stays mapped as long as the rank), aligned
        // (asserted), initialised and of any bit pattern (`Pod`); `C` is `Cell<T>` or `CellMut<T>`,
        // transparent over the variable. Other threads and processes reach the bytes as atomics
        // alone while the guard lives, or not at all (the module's page).
        unsafe { std::slice::from_raw_parts(self.start.cast::<C>(), self.len) }
    }
}

enum CellPlace<T: Element> {
    Shared(Atoms<T>),
    Copy(Vec<CellMut<T>>),
}

impl<T: Element> CellPlace<T> {
    fn new(held: &Held<'_>, len: usize) -> Self {
        if held.seat.node.is_in_place() {
            if let Some(start) = held.seat.node.words_in_place(held.offset, held.bytes) {
                return CellPlace::Shared(Atoms::at(start, len));
            }
            let copy: Vec<T> = held.copy(len);
            return CellPlace::Copy(copy.into_iter().map(CellMut::new).collect());
        }
        CellPlace::Shared(Atoms::new(held, len))
    }
}

/// Elements to read by relaxed loads, for as long as the guard lives; no copy where ranks share
/// coherent memory, or whole lines of mapped memory.
pub struct Cells<'s, T: Element> {
    place: CellPlace<T>,
    _held: Held<'s>,
    _scope: PhantomData<&'s ()>,
}

impl<'s, T: Element> Cells<'s, T> {
    pub(super) fn new(seat: &'s Seat, offset: usize, len: usize) -> Result<Self> {
        let held = Held::new(seat, offset, len * size_of::<T>(), false)?;
        Ok(Cells { place: CellPlace::new(&held, len), _held: held, _scope: PhantomData })
    }
}

impl<T: Element> Deref for Cells<'_, T> {
    type Target = [Cell<T>];

    fn deref(&self) -> &[Cell<T>] {
        match &self.place {
            CellPlace::Shared(atoms) => atoms.slice(),
            // SAFETY: `Cell<T>` and `CellMut<T>` are both transparent over `T::Atom`; the elements
            // are those of a slice.
            CellPlace::Copy(copy) => unsafe {
                std::slice::from_raw_parts(copy.as_ptr().cast::<Cell<T>>(), copy.len())
            },
        }
    }
}

/// Elements to read and write by relaxed loads and stores, for as long as the guard lives.
pub struct CellsMut<'s, T: Element> {
    place: CellPlace<T>,
    held: Held<'s>,
    _scope: PhantomData<&'s ()>,
}

impl<'s, T: Element> CellsMut<'s, T> {
    pub(super) fn new(seat: &'s Seat, offset: usize, len: usize) -> Result<Self> {
        let held = Held::new(seat, offset, len * size_of::<T>(), true)?;
        Ok(CellsMut { place: CellPlace::new(&held, len), held, _scope: PhantomData })
    }
}

impl<T: Element> Deref for CellsMut<'_, T> {
    type Target = [CellMut<T>];

    fn deref(&self) -> &[CellMut<T>] {
        match &self.place {
            CellPlace::Shared(atoms) => atoms.slice(),
            CellPlace::Copy(copy) => copy,
        }
    }
}

impl<T: Element> Drop for CellsMut<'_, T> {
    fn drop(&mut self) {
        if let CellPlace::Copy(copy) = &self.place {
            let values: Vec<T> = copy.iter().map(CellMut::get).collect();
            self.held.seat.node.store(self.held.offset, bytemuck::cast_slice(&values));
        }
    }
}

/// The raw side of a job: pointers into the view, whose accesses fault where the protocol wants to
/// know of them.
impl super::Job {
    /// The first element of `slice` as the program sees it: an access may fault, which fetches the
    /// page or notes the write, and is invisible but for its time.
    ///
    /// # Panics
    /// In a job on the lines of a pool, which only guards reach: no fault would tell of a store.
    ///
    /// # Safety
    /// - Elements are reached only on the thread that made the job, inside the slice, before the
    ///   job is dropped, and never by the global allocator.
    /// - The program has no data races under scope consistency: conflicting accesses of two ranks
    ///   are ordered by a common lock's sections or by a barrier.
    /// - No reference made from the pointer lives across `enter`, `leave`, a barrier or the drop of
    ///   a section, and none overlaps a guard.
    ///
    /// A system call that is handed the pointer does not fault but fails with EFAULT; call
    /// [`super::Job::touch`] on the range first.
    pub unsafe fn raw<T: Pod>(&self, slice: super::SharedSlice<T>) -> *mut T {
        assert!(!self.seat.node.is_in_place(), "lines of a pool have no raw pointers; use guards");
        self.seat.node.memory().view(slice.start, slice.len * size_of::<T>()).cast()
    }
}
