//! The safe interface: shared slices, sections of locks, phases between barriers.
//!
//! A [`Job`] is this rank's membership. [`SharedSlice`] and [`Shared`] are places, not references:
//! data is reached through a scope, a [`Section`] of a lock or a [`Phase`] between barriers, which
//! lends [`Read`] and [`Write`] guards. A guard fetches its range when it is made (no faults), and
//! the borrow checker keeps it inside its scope, so no reference to shared pages outlives the
//! right to look at them.
//!
//! ```
//! use littoral_dsm::job::{Homes, Job};
//! use littoral_dsm::core::message::LockId;
//!
//! let mut job = Job::join()?;                            // alone, or a rank of `littoral dsm run`
//! let counter = job.alloc::<u64>()?;
//! let table = job.alloc_slice::<f64>(1000, Homes::Blocks)?;
//!
//! let section = job.enter(LockId(0))?;
//! section.write(counter.whole())?[0] += 1;
//! section.leave()?;                                      // published to the next holder
//!
//! let phase = job.phase()?;
//! let mine = table.block(phase.rank(), phase.ranks());
//! phase.write(mine)?.fill(1.0);
//! phase.end()?;                                          // published to all ranks
//! job.finish()?;
//! # Ok::<(), littoral_dsm::Error>(())
//! ```
//!
//! A guard cannot outlive its section:
//!
//! ```compile_fail,E0505
//! # use littoral_dsm::{job::Job, core::message::LockId};
//! # let mut job = Job::join()?; let x = job.alloc::<u64>()?;
//! let section = job.enter(LockId(0))?;
//! let guard = section.read(x.whole())?;
//! section.leave()?;
//! println!("{}", guard[0]);
//! # Ok::<(), littoral_dsm::Error>(())
//! ```
//!
//! nor be open when another section is entered, or a barrier reached:
//!
//! ```compile_fail,E0502
//! # use littoral_dsm::{job::Job, core::message::LockId};
//! # let mut job = Job::join()?; let x = job.alloc::<u64>()?;
//! let mut section = job.enter(LockId(0))?;
//! let guard = section.read(x.whole())?;
//! let inner = section.enter(LockId(1))?;
//! println!("{}", guard[0]);
//! # Ok::<(), littoral_dsm::Error>(())
//! ```
//!
//! ```compile_fail,E0499
//! # use littoral_dsm::{job::Job, core::message::LockId};
//! # let mut job = Job::join()?;
//! let section = job.enter(LockId(0))?;
//! job.barrier()?;
//! section.leave()?;
//! # Ok::<(), littoral_dsm::Error>(())
//! ```
//!
//! and a reference taken out of a guard dies with it:
//!
//! ```compile_fail,E0597
//! # use littoral_dsm::{job::Job, core::message::LockId};
//! # let mut job = Job::join()?; let x = job.alloc::<u64>()?;
//! let section = job.enter(LockId(0))?;
//! let element: &u64 = {
//!     let guard = section.read(x.whole())?;
//!     &guard[0]
//! };
//! println!("{element}");
//! # Ok::<(), littoral_dsm::Error>(())
//! ```
//!
//! A job stays on the thread that joined:
//!
//! ```compile_fail,E0277
//! # use littoral_dsm::job::Job;
//! let job = Job::join()?;
//! std::thread::spawn(move || job.rank());
//! # Ok::<(), littoral_dsm::Error>(())
//! ```
//!
//! A section dropped without `leave` is left; if that fails, the next operation says so. A section
//! dropped by a panic is not: nothing half-done is published, and the other ranks are told that
//! this one is gone.
//!
//! Invariants
//! - Sections nest; the innermost is left first, by construction. Checked by
//!   `nested_sections_publish_to_both_locks`, `overlapping_guards_and_taken_locks_are_refused`.

mod cells;
pub mod member;
mod raw;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::Duration;

use bytemuck::Pod;
use littoral_base::units::NodeId;

use crate::core::message::LockId;
use crate::error::{Error, Kind, Result};
use crate::memory::{Mechanism, page_bytes};
use crate::runtime::carrier::Carrier;
use crate::runtime::{Config, Node, Own, RankCounts, Run, without_signals};

pub use cells::{Cell, CellMut, Element};
pub use raw::{Cells, CellsMut, Read, Write};

/// Which ranks keep an allocation's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Homes {
    /// Page by page round the ranks.
    Cyclic,
    /// One run of pages a rank: rank 0 keeps the first.
    Blocks,
    /// All on one rank.
    At(u16),
}

/// A slice in shared memory: a place, which a scope lends guards on.
pub struct SharedSlice<T> {
    start: usize,
    len: usize,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for SharedSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedSlice<T> {}

impl<T> std::fmt::Debug for SharedSlice<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} elements at byte {}", self.len, self.start)
    }
}

impl<T> SharedSlice<T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements in `range`.
    ///
    /// # Panics
    /// When `range` is not inside.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        let start = self.start + range.start * size_of::<T>();
        SharedSlice { start, len: range.end - range.start, kind: PhantomData }
    }

    /// Part `rank` of `ranks` parts, equal but for one element, which together are the slice.
    #[must_use]
    pub fn block(&self, rank: u16, ranks: u16) -> Self {
        self.part(block_of(self.len, rank, ranks))
    }
}

/// Part `rank` of `ranks` parts of `0..len`, equal but for one.
pub fn block_of(len: usize, rank: u16, ranks: u16) -> Range<usize> {
    assert!(rank < ranks, "rank {rank} of {ranks}");
    let at = |r: u16| (len as u128 * u128::from(r) / u128::from(ranks)) as usize;
    at(rank)..at(rank + 1)
}

/// One value in shared memory.
pub struct Shared<T>(SharedSlice<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T> std::fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Shared<T> {
    /// The value as a slice of one.
    pub fn whole(&self) -> SharedSlice<T> {
        self.0
    }
}

/// A rank and what its one thread changes without a lock.
struct Seat {
    node: Node,
    own: RefCell<Own>,
}

impl Seat {
    fn lock(&self, lock: LockId) -> Result<()> {
        self.node.lock(&mut self.own.borrow_mut(), lock)
    }

    fn unlock(&self, lock: LockId) -> Result<()> {
        self.node.unlock(&mut self.own.borrow_mut(), lock)
    }

    fn barrier(&self) -> Result<()> {
        self.node.barrier(&mut self.own.borrow_mut())
    }
}

/// This rank's membership of a running job; see the module's page.
pub struct Job {
    seat: Seat,
    /// The fault handler and the protocol know one program thread.
    one_thread: PhantomData<*const ()>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.ranks())
    }
}

impl Job {
    /// Joins the job that `littoral dsm run` started this process for, or one of its own when it
    /// was started otherwise.
    ///
    /// # Errors
    /// `Kind::Environment` when the others cannot be reached or memory is refused, `Kind::Misuse`
    /// when the environment is not what the launcher sets.
    pub fn join() -> Result<Job> {
        let (carrier, config) = without_signals(crate::launch::joining)?;
        Job::start(carrier, config)
    }

    /// Joins a job over a carrier of the caller's.
    ///
    /// # Errors
    /// `Kind::Environment` when memory is refused.
    pub fn start(carrier: Box<dyn Carrier>, config: Config) -> Result<Job> {
        let node = without_signals(|| Node::start(carrier, config))?;
        let seat = Seat { node, own: RefCell::default() };
        Ok(Job { seat, one_thread: PhantomData })
    }

    /// This rank.
    pub fn rank(&self) -> u16 {
        self.seat.node.me().0
    }

    /// Ranks of the job.
    pub fn ranks(&self) -> u16 {
        self.seat.node.ranks()
    }

    /// What this rank has done so far.
    pub fn counts(&self) -> RankCounts {
        self.seat.node.counts()
    }

    /// Declares that the program has computed so many operations since it said so last. Where the
    /// job runs in virtual time (`littoral dsm run --fabric sim`) that is what its computing takes;
    /// elsewhere it is nothing.
    pub fn work(&self, operations: u64) {
        self.seat.node.declare(operations);
    }

    /// Time since this rank joined, from zero on: virtual time where the job runs in that.
    pub fn elapsed(&self) -> Duration {
        self.seat.node.elapsed()
    }

    /// How raw accesses are noticed; `None` where they need not be.
    pub fn mechanism(&self) -> Option<Mechanism> {
        self.seat.node.mechanism()
    }

    /// Allocates one zero value. Every rank allocates the same in the same order.
    ///
    /// # Errors
    /// As [`Job::alloc_slice`].
    pub fn alloc<T: Pod>(&mut self) -> Result<Shared<T>> {
        self.alloc_slice(1, Homes::Cyclic).map(Shared)
    }

    /// Allocates `len` zero elements, from a page's beginning on. Every rank allocates the same in
    /// the same order; the call returns when all have. No elements need no memory.
    ///
    /// # Errors
    /// `Kind::OutOfRange` when the job has not so much left, `Kind::Misuse` when the ranks
    /// allocate differently or an element's alignment is beyond a page's, `Kind::PeerLost`.
    pub fn alloc_slice<T: Pod>(&mut self, len: usize, homes: Homes) -> Result<SharedSlice<T>> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|b| *b <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| {
            let what = format!("{len} elements of {} bytes", size_of::<T>());
            Error::new(Kind::OutOfRange, what)
        })?;
        let pages = u32::try_from(bytes.div_ceil(page_bytes())).unwrap_or(u32::MAX).max(1);
        let (block, first) = match homes {
            Homes::Cyclic => (1, 0),
            Homes::Blocks => (pages.div_ceil(u32::from(self.ranks())), 0),
            Homes::At(rank) if rank < self.ranks() => (u32::MAX, rank),
            Homes::At(rank) => {
                let what = format!("homes at rank {rank} of {}", self.ranks());
                return Err(Error::new(Kind::OutOfRange, what).at_peer(NodeId(rank)));
            }
        };
        if align_of::<T>() > page_bytes() {
            return Err(Error::new(Kind::Misuse, "elements aligned beyond a page"));
        }
        let run = Run { bytes, block_pages: block, first: NodeId(first) };
        let start = self.seat.node.allocate(&mut self.seat.own.borrow_mut(), run)?;
        Ok(SharedSlice { start, len, kind: PhantomData })
    }

    /// Enters a section of `lock`: what earlier sections of it wrote is seen here.
    ///
    /// # Errors
    /// `Kind::OutOfRange` for a lock the job has not, `Kind::Misuse` when every other rank waits
    /// too or leaves, `Kind::PeerLost`.
    pub fn enter(&mut self, lock: LockId) -> Result<Section<'_>> {
        self.seat.lock(lock)?;
        Ok(Section { seat: &self.seat, lock, open: true })
    }

    /// Opens a phase: between two barriers, outside of locks.
    ///
    /// # Errors
    /// `Kind::PeerLost` when the job has failed already.
    pub fn phase(&mut self) -> Result<Phase<'_>> {
        self.seat.node.fetch(0, 0, false)?;
        Ok(Phase { seat: &self.seat })
    }

    /// Waits for every rank; everything written before is seen by all ranks.
    ///
    /// # Errors
    /// `Kind::PeerLost`.
    pub fn barrier(&mut self) -> Result<()> {
        self.seat.barrier()
    }

    /// Takes a lock without a guard, for programs that use [`Job::raw`].
    ///
    /// # Errors
    /// `Kind::Misuse` when this rank holds it already, else as [`Job::enter`].
    pub fn lock(&self, lock: LockId) -> Result<()> {
        self.seat.lock(lock)
    }

    /// Leaves the section of `lock`, which must be the innermost.
    ///
    /// # Errors
    /// `Kind::Misuse` when it is not, `Kind::PeerLost`.
    pub fn unlock(&self, lock: LockId) -> Result<()> {
        self.seat.unlock(lock)
    }

    /// The barrier of programs that use [`Job::raw`].
    ///
    /// # Errors
    /// `Kind::Misuse` inside a section, `Kind::PeerLost`.
    pub fn wait_for_all(&self) -> Result<()> {
        self.seat.barrier()
    }

    /// Makes `slice` accessible through [`Job::raw`] without a fault, until the next lock, unlock
    /// or barrier: for system calls, which fail with EFAULT instead of faulting.
    ///
    /// # Errors
    /// `Kind::PeerLost`.
    pub fn touch<T: Pod>(&self, slice: SharedSlice<T>, write: bool) -> Result<()> {
        self.seat.node.touch(slice.start, slice.len * size_of::<T>(), write)
    }

    /// Ends the job for this rank, when every rank has come here. A job dropped otherwise fails
    /// the others.
    ///
    /// # Errors
    /// `Kind::PeerLost`.
    pub fn finish(self) -> Result<RankCounts> {
        self.seat.node.finish(&mut self.seat.own.borrow_mut())?;
        Ok(self.counts())
    }
}

fn read<T: Pod>(seat: &Seat, slice: SharedSlice<T>) -> Result<Read<'_, T>> {
    Read::new(seat, slice.start, slice.len)
}

fn write<T: Pod>(seat: &Seat, slice: SharedSlice<T>) -> Result<Write<'_, T>> {
    Write::new(seat, slice.start, slice.len)
}

macro_rules! lend_cells {
    () => {
        /// Lends elements to read by relaxed loads: no copy where ranks share coherent memory.
        ///
        /// # Errors
        /// `Kind::Misuse` when a writing guard overlaps, `Kind::PeerLost`.
        pub fn cells<T: Element>(&self, slice: SharedSlice<T>) -> Result<Cells<'_, T>> {
            Cells::new(self.seat, slice.start, slice.len)
        }

        /// Lends elements to read and write by relaxed loads and stores.
        ///
        /// # Errors
        /// `Kind::Misuse` when another guard overlaps, `Kind::PeerLost`.
        pub fn cells_mut<T: Element>(&self, slice: SharedSlice<T>) -> Result<CellsMut<'_, T>> {
            CellsMut::new(self.seat, slice.start, slice.len)
        }
    };
}

/// A section of a lock; left by `leave` or drop.
pub struct Section<'j> {
    seat: &'j Seat,
    lock: LockId,
    open: bool,
}

impl std::fmt::Debug for Section<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "section of lock {}", self.lock.0)
    }
}

impl Section<'_> {
    lend_cells!();

    /// Lends elements to read.
    ///
    /// # Errors
    /// `Kind::Misuse` when a writing guard overlaps, `Kind::PeerLost`.
    pub fn read<T: Pod>(&self, slice: SharedSlice<T>) -> Result<Read<'_, T>> {
        read(self.seat, slice)
    }

    /// Lends elements to read and write.
    ///
    /// # Errors
    /// `Kind::Misuse` when another guard overlaps, `Kind::PeerLost`.
    pub fn write<T: Pod>(&self, slice: SharedSlice<T>) -> Result<Write<'_, T>> {
        write(self.seat, slice)
    }

    /// As [`Job::work`].
    pub fn work(&self, operations: u64) {
        self.seat.node.declare(operations);
    }

    /// Enters a section inside this one.
    ///
    /// # Errors
    /// `Kind::Misuse` for a lock held already, else as [`Job::enter`].
    pub fn enter(&mut self, lock: LockId) -> Result<Section<'_>> {
        self.seat.lock(lock)?;
        Ok(Section { seat: self.seat, lock, open: true })
    }

    /// Leaves the section: what it wrote is seen by every rank that enters the lock later.
    ///
    /// # Errors
    /// `Kind::PeerLost`.
    pub fn leave(mut self) -> Result<()> {
        self.open = false;
        self.seat.unlock(self.lock)
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        if self.open && !std::thread::panicking() {
            // The failure stays with the job; its next operation reports it.
            let _ = self.seat.unlock(self.lock);
        }
    }
}

/// A phase between two barriers.
pub struct Phase<'j> {
    seat: &'j Seat,
}

impl std::fmt::Debug for Phase<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "phase of rank {}", self.rank())
    }
}

impl Phase<'_> {
    lend_cells!();

    /// This rank.
    pub fn rank(&self) -> u16 {
        self.seat.node.me().0
    }

    /// Ranks of the job.
    pub fn ranks(&self) -> u16 {
        self.seat.node.ranks()
    }

    /// Lends elements that no rank writes in this phase.
    ///
    /// # Errors
    /// `Kind::Misuse` when a writing guard overlaps, `Kind::PeerLost`.
    pub fn read<T: Pod>(&self, slice: SharedSlice<T>) -> Result<Read<'_, T>> {
        read(self.seat, slice)
    }

    /// Lends elements that no other rank touches in this phase.
    ///
    /// # Errors
    /// `Kind::Misuse` when another guard overlaps, `Kind::PeerLost`.
    pub fn write<T: Pod>(&self, slice: SharedSlice<T>) -> Result<Write<'_, T>> {
        write(self.seat, slice)
    }

    /// As [`Job::work`].
    pub fn work(&self, operations: u64) {
        self.seat.node.declare(operations);
    }

    /// This rank's block of `slice`, to write; the blocks of all ranks are disjoint.
    ///
    /// # Errors
    /// As [`Phase::write`].
    pub fn split_mut<T: Pod>(&self, slice: SharedSlice<T>) -> Result<Write<'_, T>> {
        self.write(slice.block(self.rank(), self.ranks()))
    }

    /// Ends the phase by a barrier.
    ///
    /// # Errors
    /// `Kind::PeerLost`.
    pub fn end(self) -> Result<()> {
        self.seat.barrier()
    }
}
