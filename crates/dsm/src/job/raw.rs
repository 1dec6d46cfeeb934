//! Guards on ranges of shared memory: the only references to shared pages there are.
//!
//! A reference into a rank's own frames is exclusive or shared exactly as the rank's table of
//! guards says, for as long as the guard lives:
//! - the program's side: [`Node::borrow`] refuses a second guard that overlaps a writing one;
//! - the server's side: it writes frames only when it applies diffs at a home, and a diff over a
//!   guarded byte fails the job before a byte is written (`runtime::engine`, *data race*);
//! - a cached copy is filled only by operations of the program's thread, which guards forbid by
//!   borrowing the scope they came from: entering, leaving and barriers need it whole.
//!
//! A direct segment, and lines of a pool, are memory that other processes write. No table of ours
//! reaches them, so a guard there is a copy: taken when it is made, stored when it is dropped.
#![allow(unsafe_code)] // Reason: slices over mapped memory.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytemuck::Pod;

use crate::error::Result;
use crate::memory::Memory;
use crate::runtime::Node;

/// A range of shared memory that a guard is on.
struct Held<'s> {
    node: &'s Node,
    memory: Arc<Memory>,
    id: u64,
    offset: usize,
    bytes: usize,
}

impl<'s> Held<'s> {
    fn new(node: &'s Node, offset: usize, bytes: usize, write: bool) -> Result<Self> {
        let id = node.borrow(offset, bytes, write)?;
        let held = Held { node, memory: Arc::clone(node.memory()), id, offset, bytes };
        node.fetch(offset, bytes, write)?;
        Ok(held)
    }

    fn copy<T: Pod>(&self, len: usize) -> Vec<T> {
        let mut copy = vec![T::zeroed(); len];
        self.node.load(self.offset, bytemuck::cast_slice_mut(&mut copy));
        copy
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.node.give_back(self.id);
    }
}

enum Place<T> {
    /// Elements in this rank's frames.
    Frames {
        start: *mut T,
        len: usize,
    },
    Copy(Vec<T>),
}

impl<T: Pod> Place<T> {
    fn new(held: &Held<'_>, len: usize) -> Self {
        if held.node.lends_copies() || size_of::<T>() == 0 {
            return Place::Copy(held.copy(len));
        }
        let start = held.memory.frame(held.offset, held.bytes).cast::<T>();
        assert!(start.is_aligned(), "allocations begin at pages and elements follow each other");
        Place::Frames { start, len }
    }

    fn slice(&self) -> &[T] {
        match self {
            // SAFETY: `len` elements from `start` on lie in the segment (checked by `frame`),
            // aligned (asserted), initialised and of any bit pattern (`Pod`); no rank writes them
            // while the guard lives (the module's page).
            Place::Frames { start, len } => unsafe { std::slice::from_raw_parts(*start, *len) },
            Place::Copy(copy) => copy,
        }
    }

    fn slice_mut(&mut self) -> &mut [T] {
        match self {
            // SAFETY: as in `slice`; the guard is a writing one, so no other guard overlaps it.
            Place::Frames { start, len } => unsafe { std::slice::from_raw_parts_mut(*start, *len) },
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
    pub(super) fn new(node: &'s Node, offset: usize, len: usize) -> Result<Self> {
        let held = Held::new(node, offset, len * size_of::<T>(), false)?;
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
    pub(super) fn new(node: &'s Node, offset: usize, len: usize) -> Result<Self> {
        let held = Held::new(node, offset, len * size_of::<T>(), true)?;
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
        if let Place::Copy(copy) = &self.place {
            self.held.node.store(self.held.offset, bytemuck::cast_slice(copy));
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
        assert!(!self.node.is_in_place(), "lines of a pool have no raw pointers; use guards");
        self.node.memory().view(slice.start, slice.len * size_of::<T>()).cast()
    }
}
