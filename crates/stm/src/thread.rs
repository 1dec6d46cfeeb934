//! A thread's handle: its clock, what it knows of other clocks, its sets, its free objects.
//! [`crate::run`] runs transactions with it.
//!
//! - One handle runs one transaction at a time (`&mut self`), so transactions cannot nest in it.
//! - `starts` of t (the paper's scs) is a clock of thread slot t that was reached before the last
//!   moment at which everything read so far was valid together. It is raised only after a
//!   validation, and is kept across transactions, which is sound because an empty read set is
//!   always valid.
//! - A clock that could not be learnt in the middle of an attempt is learnt at the start of the
//!   next one, when nothing has been read.
//! - A conflict that cannot end is an error ([`Kind::Nested`]): a record held by another handle of
//!   the same thread of the operating system, inside whose closure this one runs; or the same peer
//!   on the same thread making this transaction lose [`PATIENCE`] times in a row.
//! - Dropping the handle, also by a panic, gives back its slot, its clock and its free objects; a
//!   panic inside a closure first undoes the transaction. In a forked child it gives back nothing.
//!
//! Paper section 3; deviations: `starts` is raised only on success (the paper's order poisons it),
//! and old versions are never read except at a snapshot epoch.

use littoral_base::rng::{self, Rng};
use littoral_base::sync::atomic::AtomicU64;
use littoral_base::sync::{spin_loop, thread::yield_now};
use littoral_device::memory::Domain;
use rustc_hash::FxHashMap;

use crate::error::{Abort, Error, Kind, Result};
use crate::format::{ClockOf, Line};
use crate::peers::Watch;
use crate::pool::{BATCH, Pool};
use crate::record::Record;
use crate::table::{Place, View};
use crate::word::{Orec, Starts};

/// Losses after which a transaction goes first.
pub(crate) const PATIENCE: u32 = 16;
/// More losses than any: waiting cannot help.
const HELD: u32 = u32::MAX;
/// Reading attempts after a loss that look at the peers before they begin.
const WARY: u32 = 32;
/// Looks at a record that another commits before giving way.
const LOOKS_MAX: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 64 };
/// Looks of a snapshot reader or an elder, yielding in between.
const PATIENT_LOOKS_MAX: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 4096 };

/// What a handle's transactions did; counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions committed, read-only ones included.
    pub commits_count: u64,
    /// Attempts given up for a conflict.
    pub aborts_count: u64,
    /// Times the start clocks were raised after a validation.
    pub extensions_count: u64,
    /// Transactions that had to go first as elders.
    pub elders_count: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct ReadEntry<'p> {
    pub(crate) orec: &'p AtomicU64,
    pub(crate) seen: Orec,
}

#[derive(Clone, Copy)]
pub(crate) struct WriteEntry<'p> {
    pub(crate) orec: &'p AtomicU64,
    /// The record before it was locked.
    pub(crate) before: Orec,
    pub(crate) base: usize,
    /// Bytes of one of the object's slots.
    pub(crate) slot_bytes: u32,
    /// Where in `words` there is room for the stamp, the payload behind it; how many words of
    /// payload, none for a free.
    pub(crate) at: u32,
    pub(crate) len: u32,
    pub(crate) live: bool,
    /// Taken from the free list by this transaction.
    pub(crate) fresh: bool,
    pub(crate) tag: u64,
}

/// A thread's handle on a pool; see the module's page.
pub struct Thread<'p, D: Domain> {
    pub(crate) pool: &'p Pool<D>,
    pub(crate) tid: u32,
    pub(crate) clock: u64,
    pub(crate) starts: Starts,
    /// A thread slot and a clock of it, to be known when the next attempt begins.
    pub(crate) lesson: Option<(usize, u64)>,
    /// The frontier's line as the medium has it.
    pub(crate) line: Line,
    /// This slot's mark, and what was seen of others'.
    pub(crate) mark: &'p AtomicU64,
    pub(crate) watch: Watch<'p>,
    /// Attempts that only read and yet look at the peers first.
    pub(crate) wary: u32,
    pub(crate) view: View<'p>,
    pub(crate) reads: Vec<ReadEntry<'p>>,
    pub(crate) writes: Vec<WriteEntry<'p>>,
    /// Whether a write is of an object made or ended by this transaction.
    pub(crate) churns: bool,
    /// Where in `writes` the first so many objects are, once a caller asked and there are many.
    pub(crate) index: FxHashMap<usize, u32>,
    /// Stamps and payloads of `writes`.
    pub(crate) words: Vec<u64>,
    /// Where a record is copied to be looked at, on media that cannot be looked at in place.
    pub(crate) scratch: Vec<u64>,
    free: Vec<(u64, Vec<u64>)>,
    pub(crate) stats: Stats,
    pub(crate) extends: bool,
    pub(crate) elder: bool,
    /// A thread slot used on this thread of the operating system that made this handle lose, the
    /// clock it had then, and how often in a row; [`HELD`] where it holds what is wanted.
    pub(crate) rival: (usize, u64, u32),
    rng: rng::Generator,
}

impl<D: Domain> Pool<D> {
    /// Takes a thread slot.
    ///
    /// # Errors
    /// `Kind::Threads` when all are taken, `Kind::ClockExhausted` when those that are free have
    /// used up their clocks, `Kind::Forked` in a child of the pool's owner, `Kind::Poisoned`,
    /// `Kind::Device`.
    pub fn thread(&self) -> Result<Thread<'_, D>> {
        let (tid, clock, line) = self.take_thread()?;
        Ok(Thread::new(self, tid, clock, line))
    }
}

impl<D: Domain> std::fmt::Debug for Thread<'_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").field("tid", &self.tid).field("clock", &self.clock).finish()
    }
}

impl<'p, D: Domain> Thread<'p, D> {
    pub(crate) fn new(pool: &'p Pool<D>, tid: u32, clock: u64, line: Line) -> Self {
        Thread {
            pool,
            tid,
            clock,
            starts: Starts::none(),
            lesson: None,
            line,
            mark: pool.calm.marks.of(tid as usize),
            watch: Watch::new(&pool.calm.marks, tid as usize),
            wary: 1,
            view: pool.places(),
            reads: Vec::new(),
            writes: Vec::new(),
            churns: false,
            index: FxHashMap::default(),
            words: Vec::new(),
            scratch: Vec::new(),
            free: Vec::new(),
            stats: Stats::default(),
            extends: true,
            elder: false,
            rival: (usize::MAX, 0, 0),
            rng: rng::seeded(u64::from(tid)),
        }
    }

    /// Puts the clock into the frontier's line, which the caller stores.
    #[inline(always)]
    pub(crate) fn raise_frontier(&mut self) {
        let tid = self.tid as usize;
        let before = ClockOf::Frontier.clock(tid, self.line[0]);
        debug_assert!(before.is_some_and(|c| c < self.clock), "a frontier only grows");
        self.line[0] = ClockOf::Frontier.word(tid, self.clock);
    }

    /// The pool.
    pub fn pool(&self) -> &'p Pool<D> {
        self.pool
    }

    /// What this handle did so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Whether a version newer than the start clocks is met by validating and going on (the
    /// default) or by starting again, as before the paper's section 3.3.
    pub fn set_extension(&mut self, extends: bool) {
        self.extends = extends;
    }

    /// Counts a lost attempt; nothing is read now, so any clock met may be known.
    #[cold]
    pub(crate) fn learn(&mut self, abort: &Abort) {
        self.stats.aborts_count += u64::from(abort.is_conflict());
        self.wary = WARY;
        if let Some((tid, clock)) = self.lesson.take() {
            self.starts.learn(tid, clock);
        }
    }

    /// Notes that a version of slot `tid` made this attempt lose.
    #[cold]
    pub(crate) fn lost_to(&mut self, tid: usize, clock: u64) {
        if !self.pool.calm.marks.is_here(tid) || tid == self.tid as usize {
            return;
        }
        let (before, reached, times) = self.rival;
        let again = before == tid && clock > reached;
        self.rival = (tid, clock, if again { times.saturating_add(1) } else { 1 });
    }

    /// Whether running again can help: not while a handle below this one on the same stack of calls
    /// holds a record or writes what this one reads.
    #[cold]
    pub(crate) fn check_nesting(&mut self) -> Result<()> {
        let (tid, _, times) = self.rival;
        if times < PATIENCE {
            return Ok(());
        }
        self.rival.2 = 0;
        let text = format!(
            "the handle of thread slot {tid}, used on this same thread, is in the way for ever: \
             one runs inside the other's closure and both use one object; use one handle for both"
        );
        Err(Error::new(Kind::Nested, text))
    }

    /// Waits a random while that grows with the losses, up to a bound.
    pub(crate) fn back_off(&mut self, losses: u32) {
        if cfg!(any(loom, shuttle)) || losses > 6 {
            return yield_now();
        }
        for _ in 0..self.rng.random_range(0..8u32 << losses) {
            spin_loop();
        }
    }

    /// One more look at a record that another holds; a conflict when there were enough.
    #[cold]
    pub(crate) fn look_again(
        &mut self,
        seen: Orec,
        looks: &mut u32,
        patient: bool,
    ) -> Result<(), Abort> {
        *looks += 1;
        if !seen.is_free() && self.pool.calm.marks.is_here(seen.owner() as usize) {
            self.rival = (seen.owner() as usize, 0, HELD);
            return Err(Abort::conflict());
        }
        let patient = patient || self.elder;
        if *looks > if patient { PATIENT_LOOKS_MAX } else { LOOKS_MAX } {
            return Err(Abort::conflict());
        }
        if *looks > LOOKS_MAX {
            yield_now()
        } else {
            spin_loop()
        }
        Ok(())
    }

    /// A free object of `T`.
    pub(crate) fn take_free<T: Record>(&mut self) -> Result<Place<'p>> {
        let at = self.free_list(T::TAG);
        if self.free[at].1.is_empty() {
            self.refill::<T>(at)?;
        }
        let offset = self.free[at].1.pop().expect("invariant: just refilled");
        self.pool.locate::<T>(crate::Ref::from_offset(offset))
    }

    #[cold]
    fn refill<T: Record>(&mut self, at: usize) -> Result<()> {
        loop {
            match self.pool.refill::<T>(&mut self.free[at].1) {
                Err(full) if full.kind() == Kind::Full => {
                    self.hand_in();
                    if !self.pool.recycle(self.tid)? {
                        return Err(full);
                    }
                }
                done => return done,
            }
        }
    }

    /// Gives every free object back to the pool.
    fn hand_in(&mut self) {
        for (tag, list) in &mut self.free {
            self.pool.give_free(*tag, list.drain(..));
        }
    }

    /// Keeps a free object, passing some on when there are many.
    pub(crate) fn keep_free(&mut self, tag: u64, offset: usize) {
        let at = self.free_list(tag);
        let list = &mut self.free[at].1;
        debug_assert!(!list.contains(&(offset as u64)), "object {offset:#x} is free twice");
        list.push(offset as u64);
        if list.len() >= 4 * BATCH {
            self.pool.give_free(tag, list.drain(..2 * BATCH));
        }
    }

    fn free_list(&mut self, tag: u64) -> usize {
        if let Some(at) = self.free.iter().position(|(t, _)| *t == tag) {
            return at;
        }
        self.free.push((tag, Vec::new()));
        self.free.len() - 1
    }
}

impl<D: Domain> Drop for Thread<'_, D> {
    fn drop(&mut self) {
        // A lock of the pool that another thread held when this process was forked is held for ever
        // here, and what it guards is the parent's.
        if self.pool.check_owner().is_err() {
            return;
        }
        self.hand_in();
        self.pool.release(self.tid, self.clock);
    }
}
