//! A pool looked at from outside: every live object, every named root, what a crash left
//! unfinished.
//!
//! - Nothing here takes part in transactions: a walk reads the medium and is meant for a pool that
//!   no thread works on (a file looked at through a private copy).
//! - Every slab is resolved first, so each object's stamps have been judged and a bad one is an
//!   error with its offset; of two versions the later count is the one shown.
//! - Types are told by tag; [`type_name`](crate::type_name) knows those of this crate.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use littoral_device::memory::{Domain, LINE_BYTES};

use super::Pool;
use crate::error::{Error, Kind, Result};
use crate::format::{EntryState, Frontier, Layout, SlabEntry, object_bytes, slot_bytes};
use crate::record::Record;
use crate::root::Root;
use crate::word::Stamp;

/// A live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectView {
    /// Its offset in the pool: what a reference to it holds.
    pub offset: u64,
    /// Its type's tag.
    pub tag: u64,
    /// The thread slot whose transaction wrote it.
    pub thread: u32,
    /// That thread's clock then.
    pub clock: u64,
    /// Its payload.
    pub words: Vec<u64>,
}

/// A named root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootView {
    /// The name.
    pub name: String,
    /// The tag of what it leads to.
    pub tag: u64,
    /// The offset of what it leads to.
    pub offset: u64,
}

/// What a crash left on a medium, before any restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Thread slots whose end was not recorded.
    pub threads_count: u64,
    /// Clocks of transactions that earlier restarts found unfinished.
    pub dead_count: u64,
}

impl Unfinished {
    /// Reads it from a pool that is not opened yet.
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn read<D: Domain>(domain: &D) -> Result<Unfinished> {
        let layout = Layout::read(domain)?;
        let mut found = Unfinished::default();
        for tid in 0..layout.threads {
            let line = Frontier::read(domain, &layout, tid)?;
            found.threads_count += u64::from(line.active);
            found.dead_count += line.dead.len() as u64;
        }
        Ok(found)
    }
}

/// What a pool is used for, as its superblock and slab table say.
///
/// Each is checked by itself, so it can be read while an owner works on the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// Bytes of a slab.
    pub slab_bytes: u64,
    /// Slabs the pool has room for.
    pub slabs_max: u64,
    /// Slabs in use.
    pub slabs_count: u64,
    /// Thread slots.
    pub threads_max: u64,
    /// Names the pool has room for.
    pub roots_max: u64,
    /// Each type: tag, words of payload, objects there is room for.
    pub types: Vec<(u64, u64, u64)>,
}

impl Outline {
    /// Reads it.
    ///
    /// # Errors
    /// As [`Pool::open`] for the superblock.
    pub fn read<D: Domain>(domain: &D) -> Result<Outline> {
        let layout = Layout::read(domain)?;
        let mut types: Vec<(u64, u64, u64)> = Vec::new();
        let mut slabs_count = 0;
        for slab in 0..layout.slabs {
            // An entry that is being written reads as none yet.
            let EntryState::Typed(entry) = SlabEntry::read(domain, &layout, slab) else { continue };
            let room = (layout.slab_bytes() / object_bytes(entry.words)) as u64;
            slabs_count += 1;
            match types.iter_mut().find(|t| t.0 == entry.tag) {
                Some(known) => known.2 += room,
                None => types.push((entry.tag, entry.words as u64, room)),
            }
        }
        Ok(Outline {
            pool_bytes: layout.bytes as u64,
            slab_bytes: layout.slab_bytes() as u64,
            slabs_max: layout.slabs as u64,
            slabs_count,
            threads_max: layout.threads as u64,
            roots_max: layout.roots_max() as u64,
            types,
        })
    }
}

impl<D: Domain> Pool<D> {
    /// Shows every live object to `see`, slab by slab, until it answers false.
    ///
    /// # Errors
    /// `Kind::Corrupt` with the offset for damage, `Kind::Device`.
    pub fn walk(&self, see: impl FnMut(&ObjectView) -> bool) -> Result<()> {
        self.resolve_all()?;
        self.walk_slabs(0..self.layout.slabs, see)
    }

    /// Shows every live object of some slabs, which are resolved first.
    pub(super) fn walk_slabs(
        &self,
        slabs: Range<usize>,
        mut see: impl FnMut(&ObjectView) -> bool,
    ) -> Result<()> {
        for slab in slabs {
            let mut growth = self.growth.lock().expect("invariant: no panic inside");
            let Some(entry) = growth.entries[slab] else { continue };
            self.resolve_under(&mut growth, slab)?;
            drop(growth);
            let (base, step) = (self.layout.slab_offset(slab), object_bytes(entry.words));
            for object in 0..self.layout.slab_bytes() / step {
                let view = self.view(base + object * step, &entry)?;
                if view.is_some_and(|v| !see(&v)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The object at `base`, if it is alive.
    fn view(&self, base: usize, entry: &SlabEntry) -> Result<Option<ObjectView>> {
        let bytes = slot_bytes(entry.words);
        let [a, b] = [0, bytes].map(|at| Stamp(self.domain.word(base + at, Relaxed)));
        let (stamp, slot) = match (a.is_none(), b.is_none()) {
            (true, true) => return Ok(None),
            (false, true) => (a, base),
            (false, false) if a.count() == (b.count() + 1) & 3 => (a, base),
            _ => (b, base + bytes),
        };
        if !stamp.live() {
            return Ok(None);
        }
        let mut words = vec![0; entry.words];
        self.domain.load_words(slot + 8, &mut words);
        let (thread, clock) = (stamp.tid() as u32, stamp.clock());
        Ok(Some(ObjectView { offset: base as u64, tag: entry.tag, thread, clock, words }))
    }

    /// Offsets of the words that are metadata: superblock, frontier lines, slab table, both stamps
    /// of every object, and the payloads of root records.
    pub fn metadata_words(&self) -> Vec<usize> {
        let layout = &self.layout;
        // Superblock, frontier lines and slab table lie in front.
        let front = (0..layout.table + layout.slabs * LINE_BYTES).step_by(8);
        let mut words: Vec<usize> = front.collect();
        for (slab, entry) in self.entries().into_iter().enumerate() {
            let Some(entry) = entry else { continue };
            let step = object_bytes(entry.words);
            for object in 0..layout.slab_bytes() / step {
                let base = layout.slab_offset(slab) + object * step;
                let payload = if entry.tag == Root::TAG { Root::WORDS } else { 0 };
                for slot in [base, base + slot_bytes(entry.words)] {
                    words.extend((0..=payload).map(|i| slot + 8 * i));
                }
            }
        }
        words
    }

    /// What each slab is used for.
    pub(crate) fn entries(&self) -> Vec<Option<SlabEntry>> {
        self.growth.lock().expect("invariant: no panic inside").entries.clone()
    }

    /// The living object at `at`, of whatever type its slab has.
    pub(crate) fn object_at(&self, at: u64) -> Result<Option<ObjectView>> {
        let within = usize::try_from(at).ok().and_then(|at| at.checked_sub(self.layout.data));
        let slab = within.map_or(usize::MAX, |w| w >> self.layout.slab_shift);
        let entries = &self.growth.lock().expect("invariant: no panic inside").entries;
        let Some(&Some(entry)) = entries.get(slab) else { return Ok(None) };
        let rest = at as usize - self.layout.slab_offset(slab);
        let step = object_bytes(entry.words);
        if !rest.is_multiple_of(step) || rest + step > self.layout.slab_bytes() {
            return Ok(None);
        }
        self.view(at as usize, &entry)
    }

    /// The named roots, each checked to lead to a live object of its type.
    ///
    /// # Errors
    /// `Kind::Corrupt` for a root that leads nowhere, or other damage.
    pub fn roots(&self) -> Result<Vec<RootView>> {
        let (mut roots, mut sound) = (Vec::new(), Ok(()));
        self.check_owner()?;
        self.walk_slabs(0..self.layout.root_slabs(), |o| {
            match Root::load(|i| o.words[i]).checked(o.offset) {
                Ok(root) => {
                    let (name, tag, offset) = root.shown();
                    roots.push(RootView { name, tag, offset });
                }
                Err(damage) => sound = Err(damage),
            }
            sound.is_ok()
        })?;
        sound?;
        let mut lost: Vec<&RootView> = roots.iter().collect();
        self.walk(|o| {
            lost.retain(|r| (r.offset, r.tag) != (o.offset, o.tag));
            !lost.is_empty()
        })?;
        match lost.first() {
            None => Ok(roots),
            Some(RootView { name, offset, .. }) => {
                let text =
                    format!("root {name:?} leads to {offset:#x}, where no such object lives");
                Err(Error::new(Kind::Corrupt, text))
            }
        }
    }
}
