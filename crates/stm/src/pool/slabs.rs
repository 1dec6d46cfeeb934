//! Slabs: claimed when a type has no free object left, resolved when first touched, given back when
//! another type needs memory and none of their objects is alive.
//!
//! - Everything here happens under the lock over [`Growth`], off the path of a transaction.
//! - Giving back (docs/design/stm.md, "Slabs change their type"): the records of the slab's objects
//!   are locked, all of them free; its tag is cleared; its entry is marked released, fence.
//!   Claiming such a slab: its bytes are zeroed, fence; its new entry is written, fence; its
//!   records are built anew; its tag is set.
//! - A slab whose objects are partly in the hands of threads is not given back.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use littoral_base::mutant;
use littoral_device::memory::{Domain, LINE_BYTES};
use rustc_hash::FxHashMap;

use super::{BATCH, Pool};
use crate::error::{Error, Kind, Result, device};
use crate::format::{EntryState, Layout, SlabEntry, object_bytes};
use crate::record::Record;
use crate::root::Root;
use crate::slab;
use crate::word::{Orec, State};

/// What each slab is used for.
#[derive(Debug)]
pub(super) struct Growth {
    /// Types of slabs, by slab; none for a slab not in use.
    pub(super) entries: Vec<Option<SlabEntry>>,
    /// Slabs not yet resolved, by tag.
    unresolved: FxHashMap<u64, Vec<usize>>,
    /// Unused slabs, the next to be claimed last, and whether this pool has left them as they were.
    unused: Vec<(usize, bool)>,
}

impl Growth {
    pub(super) fn claimed(&self) -> usize {
        self.entries.iter().flatten().count()
    }
}

/// Reads the slab table. A claim cut short is taken back. The first slabs hold the roots and were
/// durable before the superblock.
pub(super) fn read_table<D: Domain>(domain: &D, layout: &Layout) -> Result<Growth> {
    let mut growth =
        Growth { entries: Vec::new(), unresolved: FxHashMap::default(), unused: Vec::new() };
    for slab in (0..layout.slabs).rev() {
        match SlabEntry::read(domain, layout, slab) {
            EntryState::Typed(entry) => {
                growth.entries.push(Some(entry));
                growth.unresolved.entry(entry.tag).or_default().push(slab);
                continue;
            }
            EntryState::Unused => growth.unused.push((slab, true)),
            EntryState::Released => growth.unused.push((slab, false)),
            EntryState::Damaged if is_zero(domain, layout, slab) => {
                growth.unused.push((slab, true));
            }
            EntryState::Damaged => {
                let text = format!(
                    "slab table entry {slab}: wrong checksum over a slab in use; nothing changed"
                );
                return Err(Error::new(Kind::Corrupt, text));
            }
        }
        growth.entries.push(None);
    }
    growth.entries.reverse();
    let roots = Some(SlabEntry::of::<Root>());
    if let Some(slab) = (0..layout.root_slabs()).find(|&s| growth.entries[s] != roots) {
        let text = format!("slab table entry {slab} does not hold roots; nothing changed");
        return Err(Error::new(Kind::Corrupt, text));
    }
    Ok(growth)
}

fn is_zero<D: Domain>(domain: &D, layout: &Layout, slab: usize) -> bool {
    let (from, len) = (layout.slab_offset(slab), layout.slab_bytes());
    (from..from + len).step_by(8).all(|at| domain.word(at, Relaxed) == 0)
}

fn zero<D: Domain>(domain: &D, layout: &Layout, slab: usize) -> Result<()> {
    let (from, len) = (layout.slab_offset(slab), layout.slab_bytes());
    for at in (from..from + len).step_by(LINE_BYTES) {
        domain.store_words(at, &[0; LINE_BYTES / 8]);
    }
    domain.write_back(from, len);
    domain.fence().map_err(device("clear a slab"))
}

impl<D: Domain> Pool<D> {
    pub(super) fn resolve_under(&self, growth: &mut Growth, slab: usize) -> Result<()> {
        if self.table.tag(slab) != 0 {
            return Ok(());
        }
        let Some(&Some(entry)) = growth.entries.get(slab) else {
            let text = format!("slab {slab} holds nothing");
            return Err(Error::new(Kind::BadReference, text));
        };
        let found =
            slab::resolve(&self.domain, &self.layout, &self.boot, &self.table, slab, entry)?;
        if slab >= self.layout.root_slabs() {
            let mut spare = self.spare.lock().expect("invariant: no panic inside");
            found.into_iter().for_each(|object| spare.give(entry.tag, slab, object));
        }
        if let Some(waiting) = growth.unresolved.get_mut(&entry.tag) {
            waiting.retain(|&s| s != slab);
        }
        Ok(())
    }

    pub(crate) fn resolve_all(&self) -> Result<()> {
        self.check_owner()?;
        let mut growth = self.growth.lock().expect("invariant: no panic inside");
        for slab in 0..growth.entries.len() {
            if growth.entries[slab].is_some() {
                self.resolve_under(&mut growth, slab)?;
            }
        }
        Ok(())
    }

    /// Gives a thread some free objects of `T`, claiming a slab where none is left.
    #[cold]
    pub(crate) fn refill<T: Record>(&self, into: &mut Vec<u64>) -> Result<()> {
        loop {
            let mut spare = self.spare.lock().expect("invariant: no panic inside");
            if spare.take(T::TAG, BATCH, into) {
                return Ok(());
            }
            drop(spare);
            let mut growth = self.growth.lock().expect("invariant: no panic inside");
            let slab = match growth.unresolved.get(&T::TAG).and_then(|w| w.last()) {
                Some(&slab) => slab,
                None => self.claim::<T>(&mut growth)?,
            };
            self.resolve_under(&mut growth, slab)?;
        }
    }

    /// Takes free objects back from a thread.
    pub(crate) fn give_free(&self, tag: u64, from: impl Iterator<Item = u64>) {
        let mut spare = self.spare.lock().expect("invariant: no panic inside");
        from.for_each(|object| spare.give(tag, self.layout.slab_of(object as usize), object));
    }

    fn claim<T: Record>(&self, growth: &mut Growth) -> Result<usize> {
        let entry = SlabEntry::of::<T>();
        if object_bytes(T::WORDS) > self.layout.slab_bytes() {
            let text = format!("a record of {} words is larger than a slab", T::WORDS);
            return Err(Error::new(Kind::Usage, text));
        }
        let Some(&(slab, is_untouched)) = growth.unused.last() else {
            let text = format!(
                "the pool is full: all {} slabs are claimed; free objects first",
                self.layout.slabs
            );
            return Err(Error::new(Kind::Full, text));
        };
        // Memory that was another pool's once may hold more than what creation looks at.
        let is_clear = is_untouched && is_zero(&self.domain, &self.layout, slab);
        if !is_clear && !mutant!("slab_claimed_uncleared") {
            zero(&self.domain, &self.layout, slab).inspect_err(|_| self.poison())?;
        }
        entry.write(&self.domain, &self.layout, slab).inspect_err(|_| self.poison())?;
        let read = || SlabEntry::read(&self.domain, &self.layout, slab);
        debug_assert!(matches!(read(), EntryState::Typed(found) if found == entry), "slab {slab}");
        debug_assert!(growth.entries[slab].is_none(), "an unused slab {slab} has a type");
        growth.unused.pop();
        growth.entries[slab] = Some(entry);
        growth.unresolved.entry(entry.tag).or_default().push(slab);
        Ok(slab)
    }

    /// Makes a slab of another type without a living object free for any type; whether there was
    /// one. The caller, thread slot `tid`, holds no free objects.
    #[cold]
    pub(crate) fn recycle(&self, tid: u32) -> Result<bool> {
        let mut growth = self.growth.lock().expect("invariant: no panic inside");
        if !growth.unused.is_empty() {
            return Ok(true);
        }
        for slab in self.layout.root_slabs()..self.layout.slabs {
            let Some(entry) = growth.entries[slab] else { continue };
            self.resolve_under(&mut growth, slab)?;
            if self.give_back_slab(tid, slab, entry)? {
                growth.entries[slab] = None;
                growth.unused.push((slab, false));
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn give_back_slab(&self, tid: u32, slab: usize, entry: SlabEntry) -> Result<bool> {
        let objects = self.layout.slab_bytes() / object_bytes(entry.words);
        let mut spare = self.spare.lock().expect("invariant: no panic inside");
        if spare.count(slab) < objects || !self.lock_free_objects(tid, slab, objects) {
            return Ok(false);
        }
        spare.withdraw(entry.tag, slab);
        drop(spare);
        self.recycled.fetch_add(1, AcqRel);
        self.table.show(slab, 0);
        entry.release(&self.domain, &self.layout, slab).inspect_err(|_| self.poison())?;
        let read = || SlabEntry::read(&self.domain, &self.layout, slab);
        debug_assert!(matches!(read(), EntryState::Released), "slab {slab} keeps its type");
        Ok(true)
    }

    /// Locks the records of a slab's objects, all or none: each is free and of no living object.
    fn lock_free_objects(&self, tid: u32, slab: usize, objects: usize) -> bool {
        let mut before = Vec::with_capacity(objects);
        for object in 0..objects {
            let word = self.table.orec(slab, object);
            let seen = Orec(word.load(Acquire));
            let locked = seen.owned(State::Committing, tid);
            let may = seen.is_free() && !seen.live();
            if !may || word.compare_exchange(seen.0, locked.0, AcqRel, Relaxed).is_err() {
                // A handle with a dangling reference is here: what was locked is unlocked.
                let locked = before.into_iter().enumerate();
                locked.for_each(|(o, seen)| self.table.orec(slab, o).store(seen, Release));
                return false;
            }
            before.push(seen.0);
        }
        true
    }
}
