//! A pool: a domain formatted as superblock, frontier lines, slab table and slabs.
//!
//! Lifecycle
//! 1. `create` formats zeroed memory; `open` checks the superblock, then restarts
//!    ([`crate::recover`]).
//! 2. `thread` takes a thread slot; its handle runs transactions ([`crate::thread`]).
//! 3. Slabs are claimed as types need them, and resolved when first touched; both under one lock,
//!    off the path of a transaction.
//!
//! Invariants
//! - A slab has one type for ever; a reference is checked against it at each use.
//! - A failed fence poisons the pool: reads go on, updates are refused.
//! - Nothing is written before everything that will be needed has been checked.

use littoral_base::sync::Mutex;
use littoral_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use littoral_device::memory::{Domain, Promise};
use rustc_hash::FxHashMap;

use crate::error::{Error, Kind, Result};
use crate::format::{EntryState, Frontier, Layout, Options, SlabEntry, object_bytes};
use crate::gate::Gate;
use crate::peers::{Marks, mark};
use crate::record::{Record, Ref};
use crate::recover::{self, Boot, Restart};
use crate::root::Root;
use crate::slab;
use crate::table::{Miss, Place, Table, View, bad_reference};
use crate::thread::Thread;
use crate::word::Orec;

/// Free objects handed to a thread at once: their records fill whole lines, so threads share none.
pub(crate) const BATCH: usize = 64;

#[derive(Debug, Default)]
struct Growth {
    entries: Vec<SlabEntry>,
    /// Slabs not yet resolved, by tag.
    unresolved: FxHashMap<u64, Vec<usize>>,
}

#[derive(Debug)]
struct Slots {
    /// A bit a slot in use.
    taken: u128,
    clocks: Vec<u64>,
}

impl Slots {
    /// Slots below this number may be in use; the lowest free one is taken first to keep it low.
    fn below(&self) -> usize {
        (u128::BITS - self.taken.leading_zeros()) as usize
    }
}

/// What every transaction reads and seldom anybody writes, on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Calm {
    /// Raised by snapshot readers only.
    pub(crate) epoch: AtomicU64,
    pub(crate) gate: Gate,
    pub(crate) marks: Marks,
    poisoned: AtomicBool,
}

/// A pool of transactional records on a domain.
#[derive(Debug)]
pub struct Pool<D: Domain> {
    pub(crate) calm: Calm,
    pub(crate) domain: D,
    pub(crate) layout: Layout,
    pub(crate) table: Table,
    boot: Boot,
    growth: Mutex<Growth>,
    slots: Mutex<Slots>,
    free: Mutex<FxHashMap<u64, Vec<u64>>>,
}

mod walk;

pub use walk::{ObjectView, RootView, Unfinished, type_name};

/// What a pool holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// Bytes of a slab.
    pub slab_bytes: u64,
    /// Slabs the pool has room for.
    pub slabs_max: u64,
    /// Slabs claimed.
    pub slabs_count: u64,
    /// Thread slots.
    pub threads_max: u64,
    /// What a fence promises on this medium.
    pub promise: Promise,
    /// Each type: tag, words of payload, objects there is room for, objects alive.
    pub types: Vec<TypeInfo>,
}

/// One type's share of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// The type's tag.
    pub tag: u64,
    /// Words of payload.
    pub words_count: u64,
    /// Objects its slabs have room for.
    pub objects_max: u64,
    /// Objects alive.
    pub objects_count: u64,
}

impl<D: Domain> Pool<D> {
    /// Formats zeroed memory as a pool.
    ///
    /// # Errors
    /// `Kind::Usage` for options out of range or too little memory, `Kind::Foreign` when the memory
    /// is not zero where the superblock goes (nothing is changed), `Kind::Device`.
    pub fn create(domain: D, options: &Options) -> Result<Self> {
        let layout = Layout::of(domain.len(), options)?;
        if (0..layout.data).step_by(8).any(|at| domain.word(at, Ordering::Relaxed) != 0) {
            let text = "the memory holds something already; nothing changed";
            return Err(Error::new(Kind::Foreign, text));
        }
        SlabEntry::of::<Root>().write(&domain, &layout, 0)?;
        layout.write(&domain)?;
        Self::open(domain, Restart::Lazy)
    }

    /// Opens a pool after a clean end or a crash.
    ///
    /// # Errors
    /// `Kind::Foreign` for another program's file, `Kind::Unsupported` for another format version,
    /// `Kind::Corrupt` with the offset for damage, `Kind::Device` when the medium fails.
    pub fn open(domain: D, restart: Restart) -> Result<Self> {
        let layout = Layout::read(&domain)?;
        let entries = read_table(&domain, &layout)?;
        let (boot, pending) = recover::boot(&domain, &layout)?;
        let mut unresolved: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        for (slab, entry) in entries.iter().enumerate().rev() {
            unresolved.entry(entry.tag).or_default().push(slab);
        }
        let pool = Pool {
            slots: Mutex::new(Slots { taken: 0, clocks: boot.clocks() }),
            table: Table::new(&layout)?,
            growth: Mutex::new(Growth { entries, unresolved }),
            free: Mutex::new(FxHashMap::default()),
            calm: Calm {
                epoch: AtomicU64::new(0),
                gate: Gate::new(),
                marks: Marks::new(layout.threads),
                poisoned: AtomicBool::new(false),
            },
            domain,
            layout,
            boot,
        };
        if restart == Restart::Scan || pending.must_scan {
            pool.resolve_all()?;
            recover::finish(&pool.domain, &pool.layout, &pool.boot, &pending)?;
        }
        Ok(pool)
    }

    /// Takes a thread slot.
    ///
    /// # Errors
    /// `Kind::Threads` when all are taken, `Kind::Poisoned`, `Kind::Device`.
    pub fn thread(&self) -> Result<Thread<'_, D>> {
        self.check_poison()?;
        let (tid, clock) = self.take_slot()?;
        let marked = self.mark(tid, true);
        if marked.is_err() {
            self.give_back(tid, clock);
        }
        let line = Frontier::line(&self.domain, &self.layout, tid as usize);
        marked.map(|()| Thread::new(self, tid, clock, line))
    }

    fn take_slot(&self) -> Result<(u32, u64)> {
        let mut slots = self.slots.lock().expect("invariant: no panic inside");
        let tid = slots.taken.trailing_ones();
        if tid as usize >= self.layout.threads {
            let text = format!("all {} thread slots are taken", self.layout.threads);
            return Err(Error::new(Kind::Threads, text));
        }
        slots.taken |= 1 << tid;
        let clock = slots.clocks[tid as usize];
        self.calm.marks.of(tid as usize).store(mark(clock, false), Ordering::Release);
        self.calm.marks.set_crew(slots.below());
        Ok((tid, clock))
    }

    fn mark(&self, tid: u32, active: bool) -> Result<()> {
        Frontier::write_active(&self.domain, &self.layout, tid as usize, active);
        self.fence("mark a thread slot")
    }

    /// Ends a thread: its slot and clock go back, inactive. A slot whose mark cannot be cleared
    /// stays active on the medium, which costs the next restart one dead clock and nothing else.
    pub(crate) fn release(&self, tid: u32, clock: u64) {
        if self.check_poison().is_ok() {
            drop(self.mark(tid, false));
        }
        self.give_back(tid, clock);
    }

    fn give_back(&self, tid: u32, clock: u64) {
        let mut slots = self.slots.lock().expect("invariant: no panic inside");
        slots.clocks[tid as usize] = clock;
        slots.taken &= !(1 << tid);
        self.calm.marks.set_crew(slots.below());
    }

    /// The domain.
    pub fn domain(&self) -> &D {
        &self.domain
    }

    /// Ends the pool and gives its domain back; no thread handle is left (they borrow the pool).
    pub fn into_domain(self) -> D {
        self.domain
    }

    /// What the pool holds; resolves every slab.
    ///
    /// # Errors
    /// `Kind::Corrupt` with the offset for damage, `Kind::Device`.
    pub fn info(&self) -> Result<Info> {
        self.resolve_all()?;
        let entries = self.growth.lock().expect("invariant: no panic inside").entries.clone();
        let mut types: Vec<TypeInfo> = Vec::new();
        for (slab, entry) in entries.iter().enumerate() {
            let objects = self.layout.slab_bytes() / object_bytes(entry.words);
            let orec = |object| Orec(self.table.orec(slab, object).load(Ordering::Acquire));
            let live = (0..objects).filter(|&object| orec(object).live()).count() as u64;
            let found = types.iter().position(|t| t.tag == entry.tag).unwrap_or(types.len());
            if found == types.len() {
                let (tag, words_count) = (entry.tag, entry.words as u64);
                types.push(TypeInfo { tag, words_count, objects_max: 0, objects_count: 0 });
            }
            types[found].objects_max += objects as u64;
            types[found].objects_count += live;
        }
        Ok(Info {
            pool_bytes: self.layout.bytes as u64,
            slab_bytes: self.layout.slab_bytes() as u64,
            slabs_max: self.layout.slabs as u64,
            slabs_count: entries.len() as u64,
            threads_max: self.layout.threads as u64,
            promise: self.domain.promise(),
            types,
        })
    }

    /// Where objects are, to be looked at in place where the medium can.
    pub(crate) fn places(&self) -> View<'_> {
        let bytes = self.layout.slabs * self.layout.slab_bytes();
        let words = self.domain.words(self.layout.data, bytes / 8);
        self.table.view(words.map_or(&[], |words| words.as_chunks().0))
    }

    /// Finds an object and checks that it is of type `T`.
    #[inline(always)]
    pub(crate) fn locate<T: Record>(&self, at: Ref<T>) -> Result<Place<'_>> {
        match self.table.locate(at) {
            Some(place) => Ok(place),
            None => self.locate_again(at),
        }
    }

    /// Finds an object of a slab not touched before, or says why there is none.
    #[cold]
    #[inline(never)]
    fn locate_again<T: Record>(&self, at: Ref<T>) -> Result<Place<'_>> {
        if let Miss::Unbuilt(slab) = self.table.miss(at) {
            let mut growth = self.growth.lock().expect("invariant: no panic inside");
            self.resolve_under(&mut growth, slab)?;
        }
        self.table.locate(at).ok_or_else(|| match self.table.miss(at) {
            Miss::Nowhere(leads_to) => bad_reference(at, leads_to),
            Miss::Unbuilt(_) => bad_reference(at, "a slab in use by nobody"),
        })
    }

    fn resolve_under(&self, growth: &mut Growth, slab: usize) -> Result<()> {
        if self.table.tag(slab) != 0 {
            return Ok(());
        }
        let Some(&entry) = growth.entries.get(slab) else {
            let text = format!("slab {slab} holds nothing yet");
            return Err(Error::new(Kind::BadReference, text));
        };
        let found =
            slab::resolve(&self.domain, &self.layout, &self.boot, &self.table, slab, entry)?;
        let mut free = self.free.lock().expect("invariant: no panic inside");
        free.entry(entry.tag).or_default().extend(found);
        if let Some(waiting) = growth.unresolved.get_mut(&entry.tag) {
            waiting.retain(|&s| s != slab);
        }
        Ok(())
    }

    pub(crate) fn resolve_all(&self) -> Result<()> {
        let mut growth = self.growth.lock().expect("invariant: no panic inside");
        for slab in 0..growth.entries.len() {
            self.resolve_under(&mut growth, slab)?;
        }
        Ok(())
    }

    /// Gives a thread some free objects of `T`, claiming a slab where none is left.
    #[cold]
    pub(crate) fn refill<T: Record>(&self, into: &mut Vec<u64>) -> Result<()> {
        loop {
            if self.take_free(T::TAG, into) {
                return Ok(());
            }
            let mut growth = self.growth.lock().expect("invariant: no panic inside");
            let slab = match growth.unresolved.get(&T::TAG).and_then(|w| w.last()) {
                Some(&slab) => slab,
                None => self.claim::<T>(&mut growth)?,
            };
            self.resolve_under(&mut growth, slab)?;
        }
    }

    fn take_free(&self, tag: u64, into: &mut Vec<u64>) -> bool {
        let mut free = self.free.lock().expect("invariant: no panic inside");
        let Some(list) = free.get_mut(&tag) else { return false };
        into.extend(list.drain(list.len().saturating_sub(BATCH)..));
        !into.is_empty()
    }

    /// Takes free objects back from a thread.
    pub(crate) fn give_free(&self, tag: u64, from: impl Iterator<Item = u64>) {
        self.free.lock().expect("invariant: no panic inside").entry(tag).or_default().extend(from);
    }

    fn claim<T: Record>(&self, growth: &mut Growth) -> Result<usize> {
        let (entry, slab) = (SlabEntry::of::<T>(), growth.entries.len());
        if object_bytes(T::WORDS) > self.layout.slab_bytes() {
            let text = format!("a record of {} words is larger than a slab", T::WORDS);
            return Err(Error::new(Kind::Usage, text));
        }
        if slab == self.layout.slabs {
            let text =
                format!("the pool is full: all {slab} slabs are claimed; free objects first");
            return Err(Error::new(Kind::Full, text));
        }
        entry.write(&self.domain, &self.layout, slab).inspect_err(|_| self.poison())?;
        growth.entries.push(entry);
        growth.unresolved.entry(entry.tag).or_default().push(slab);
        Ok(slab)
    }

    /// A fence whose failure poisons the pool.
    #[inline(always)]
    pub(crate) fn fence(&self, what: &'static str) -> Result<()> {
        self.domain.fence().map_err(|e| {
            self.poison();
            crate::error::device(what)(e)
        })
    }

    fn poison(&self) {
        self.calm.poisoned.store(true, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn check_poison(&self) -> Result<()> {
        if self.calm.poisoned.load(Ordering::Relaxed) {
            let text = "an earlier durable write failed; reopen the pool to see what reached it";
            return Err(Error::new(Kind::Poisoned, text));
        }
        Ok(())
    }
}

/// Reads the slab table up to the first unused entry; a claim cut short is taken back. Slab 0 holds
/// the roots and was durable before the superblock.
fn read_table<D: Domain>(domain: &D, layout: &Layout) -> Result<Vec<SlabEntry>> {
    let mut entries = Vec::new();
    for slab in 0..layout.slabs {
        match SlabEntry::read(domain, layout, slab) {
            EntryState::Typed(entry) => entries.push(entry),
            EntryState::Unused => break,
            EntryState::Damaged => {
                let (from, len) = (layout.slab_offset(slab), layout.slab_bytes());
                let untouched =
                    (from..from + len).step_by(8).all(|at| domain.word(at, Ordering::Relaxed) == 0);
                if untouched && slab > 0 {
                    break;
                }
                let text = format!("slab table entry {slab}: wrong checksum over a slab in use");
                return Err(Error::new(Kind::Corrupt, text));
            }
        }
    }
    if entries.first() != Some(&SlabEntry::of::<Root>()) {
        let text = "slab table entry 0 does not hold the roots";
        return Err(Error::new(Kind::Corrupt, text));
    }
    Ok(entries)
}
