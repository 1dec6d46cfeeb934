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
//! - A slab has one type until none of its objects is alive and another type needs it
//!   ([`slabs`]); a reference is checked against the type at each use. Checked by
//!   `a_slab_with_one_living_object_keeps_its_type`, `misuse_is_named_and_changes_nothing`.
//! - A process that was forked from the pool's owner is refused before it touches the medium.
//!   Checked by `a_forked_child_is_refused_before_it_touches_the_medium`.
//! - A failed fence poisons the pool: reads go on, updates are refused. Checked by
//!   `a_failed_fence_poisons_updates_and_leaves_reads`.
//! - Nothing is written before everything that will be needed has been checked. Checked by
//!   `foreign_damaged_and_misfit_media_are_refused_by_name`.

use littoral_base::mutant;
use littoral_base::sync::Mutex;
use littoral_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use littoral_device::memory::{Domain, Promise};

use crate::error::{Error, Kind, Result, device};
use crate::format::{Frontier, Layout, Line, Options, SlabEntry, object_bytes};
use crate::gate::Gate;
use crate::peers::{Marks, mark};
use crate::record::{Record, Ref};
use crate::recover::{self, Boot, Restart};
use crate::root::{Named, Root};
use crate::table::{Miss, Place, Table, View, bad_reference};
use crate::word::{CLOCK_MAX, Orec};

/// Free objects handed to a thread at once: their records fill whole lines, so threads share none.
pub(crate) const BATCH: usize = 64;

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

/// What every transaction reads and seldom any writes, on lines of its own.
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
    /// Locked under `growth` or alone.
    spare: Mutex<Spare>,
    /// Which objects may have a name.
    pub(crate) named: Named,
    /// How many slabs have been given back in this session.
    pub(crate) recycled: AtomicU64,
}

mod slabs;
mod spare;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod walk;

use slabs::Growth;
use spare::Spare;

pub use walk::{ObjectView, Outline, RootView, Unfinished};

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
    /// Names the pool has room for.
    pub roots_max: u64,
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

/// Makes durable what was found: the process before may have died between a store and its fence,
/// and what is built on that store must not outlive it.
fn settle<D: Domain>(domain: &D, layout: &Layout) -> Result<()> {
    if mutant!("stm_restart_on_unfenced") {
        return Ok(());
    }
    domain.write_back(0, layout.data);
    domain.fence().map_err(device("what was found"))
}

impl<D: Domain> Pool<D> {
    /// Formats zeroed memory as a pool. What lies behind the names is zeroed when it is first used,
    /// if it holds anything.
    ///
    /// # Errors
    /// `Kind::Usage` for options out of range or too little memory, `Kind::Foreign` when the memory
    /// is not zero where the superblock, the tables and the names go (nothing is changed),
    /// `Kind::Device`.
    pub fn create(domain: D, options: &Options) -> Result<Self> {
        let layout = Layout::of(domain.len(), options)?;
        let front = 0..layout.slab_offset(layout.root_slabs());
        if front.step_by(8).any(|at| domain.word(at, Ordering::Relaxed) != 0) {
            let text =
                "the memory holds something already; fill it with zeros first; nothing changed";
            return Err(Error::new(Kind::Foreign, text));
        }
        for slab in 0..layout.root_slabs() {
            SlabEntry::of::<Root>().write(&domain, &layout, slab)?;
        }
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
        let growth = slabs::read_table(&domain, &layout)?;
        settle(&domain, &layout)?;
        let (boot, pending) = recover::boot(&domain, &layout)?;
        let pool = Pool {
            slots: Mutex::new(Slots { taken: 0, clocks: boot.clocks() }),
            table: Table::new(&layout)?,
            growth: Mutex::new(growth),
            spare: Mutex::new(Spare::new(layout.slabs)),
            named: Named::new(),
            recycled: AtomicU64::new(0),
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
            recover::finish(&pool.domain, &pool.layout, &pool.boot, &pending, &pool.entries())?;
        }
        pool.learn_names()?;
        Ok(pool)
    }

    /// Takes a thread slot: its number, its clock and its line of the frontier.
    pub(crate) fn take_thread(&self) -> Result<(u32, u64, Line)> {
        self.check_owner()?;
        self.check_poison()?;
        let (tid, clock) = self.take_slot()?;
        let marked = self.mark(tid, true);
        if marked.is_err() {
            self.give_back(tid, clock);
        }
        marked.map(|()| (tid, clock, Frontier::line(&self.domain, &self.layout, tid as usize)))
    }

    fn take_slot(&self) -> Result<(u32, u64)> {
        let mut slots = self.slots.lock().expect("invariant: no panic inside");
        let is_free = |tid: &u32| slots.taken >> tid & 1 == 0;
        let free = || (0..self.layout.threads as u32).filter(is_free);
        // A slot that can commit nothing more is never handed out again.
        let lasts = |tid: &u32| slots.clocks[*tid as usize] < CLOCK_MAX - 1;
        let Some(tid) = free().find(lasts) else {
            return Err(self.no_slot(free().count()));
        };
        slots.taken |= 1 << tid;
        let clock = slots.clocks[tid as usize];
        self.calm.marks.of(tid as usize).store(mark(clock, false), Ordering::Release);
        self.calm.marks.set_registered(slots.below());
        Ok((tid, clock))
    }

    #[cold]
    fn no_slot(&self, ended: usize) -> Error {
        let threads = self.layout.threads;
        if ended == 0 {
            return Error::new(Kind::Threads, format!("all {threads} thread slots are taken"));
        }
        let text = format!(
            "{ended} thread slots are free and have used up their clocks, the other {} are taken; \
             copy what the pool holds into a new one",
            threads - ended
        );
        Error::new(Kind::ClockExhausted, text)
    }

    fn mark(&self, tid: u32, active: bool) -> Result<()> {
        Frontier::write_active(&self.domain, &self.layout, tid as usize, active);
        self.fence("mark a thread slot")
    }

    /// Ends a thread: its slot and clock go back, inactive. A slot whose mark cannot be cleared
    /// stays active on the medium, which costs the next restart one dead clock and nothing else.
    pub(crate) fn release(&self, tid: u32, clock: u64) {
        if self.check_owner().is_ok() && self.check_poison().is_ok() {
            drop(self.mark(tid, false));
        }
        self.give_back(tid, clock);
    }

    fn give_back(&self, tid: u32, clock: u64) {
        let mut slots = self.slots.lock().expect("invariant: no panic inside");
        debug_assert!(slots.taken >> tid & 1 == 1, "slot {tid} is given back by its owner");
        debug_assert!(clock >= slots.clocks[tid as usize], "the clock of slot {tid} goes on");
        slots.clocks[tid as usize] = clock;
        slots.taken &= !(1 << tid);
        self.calm.marks.set_registered(slots.below());
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
        let growth = self.growth.lock().expect("invariant: no panic inside");
        let (entries, claimed_count) = (growth.entries.clone(), growth.claimed());
        drop(growth);
        let mut types: Vec<TypeInfo> = Vec::new();
        let claimed = entries.iter().enumerate().filter_map(|(slab, e)| Some((slab, (*e)?)));
        for (slab, entry) in claimed {
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
            slabs_count: claimed_count as u64,
            threads_max: self.layout.threads as u64,
            roots_max: self.layout.roots_max() as u64,
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
            Miss::Unbuilt(_) => bad_reference(at, "a slab that no structure uses"),
        })
    }

    /// A fence whose failure poisons the pool.
    #[inline(always)]
    pub(crate) fn fence(&self, what: &'static str) -> Result<()> {
        self.domain.fence().map_err(|e| {
            self.poison();
            crate::error::device(what)(e)
        })
    }

    /// Notes which objects have names.
    fn learn_names(&self) -> Result<()> {
        self.walk_slabs(0..self.layout.root_slabs(), |o| {
            self.named.add(Root::load(|i| o.words[i]).at());
            true
        })
    }

    /// Refuses a child that the pool's owner forked: the mapping is not there.
    #[inline(always)]
    pub(crate) fn check_owner(&self) -> Result<()> {
        match self.domain.owner_before_fork() {
            Some(process) if !mutant!("child_not_refused") => Err(forked(process)),
            _ => Ok(()),
        }
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

#[cold]
fn forked(process: u32) -> Error {
    let text = format!(
        "process {process} opened this pool and process {} was forked from it; a child opens the \
         pool itself once the parent has closed it",
        std::process::id()
    );
    Error::new(Kind::Forked, text)
}
