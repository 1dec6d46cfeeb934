//! Live pages moved out of zones, and the zones reset.
//!
//! The pages are appended to the collector's zone, the engine is told where each went, the whole is
//! made durable as one group, and only then are the zones reset. A power cut anywhere leaves the
//! old pages or the new ones in use, never neither.

use std::collections::{BTreeMap, BTreeSet};

use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::ZonedDevice;

use crate::error::Result;
use crate::pages::Pages;
use crate::store::{Durability, Store};

/// Copies that can be used, by the live page that each is a copy of; never in the same zone.
pub(crate) type Copies = BTreeMap<Lba, Lba>;

/// What an engine asks of collections whose pages take their ancestors with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    /// Blocks that a collection must gain: what one operation needs.
    pub gain: u64,
}

/// In which of the zones in question a page lies, if in one.
pub type Rank<'a> = &'a dyn Fn(Lba) -> Option<usize>;

/// An engine whose pages can be moved.
pub trait Relocate {
    /// The device below.
    type Device: ZonedDevice;

    /// The engine's store.
    fn store(&mut self) -> &mut Store<Self::Device>;

    /// Whether the engine uses the page at `at`; what the store's derived map says.
    fn is_live(&mut self, at: Lba) -> bool {
        self.store().is_live(at)
    }

    /// Takes note that the live page `old` now lies at `new`, and frees `old`. The collector
    /// commits.
    ///
    /// # Errors
    /// `Kind::Corrupt` when the engine does not find `old` where its bytes say it belongs: the page
    /// is live, so it must not be freed; those of the store.
    fn moved(&mut self, old: Lba, new: Lba) -> Result<()>;

    /// How zones are collected when moved pages take others with them; `None` when they do not.
    fn together(&self) -> Option<Together> {
        None
    }

    /// Pages that are written to move all live pages out of the first of `zones` zones, the first
    /// two, ...; `rank` says in which of them a page lies. Asked only of an engine whose moved
    /// pages take others with them.
    ///
    /// # Errors
    /// Those of the store.
    fn costs(&mut self, _zones: usize, _rank: Rank<'_>) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// The live page in a sequential zone that the unused page at `at` is a copy of, byte for byte.
    /// An engine that moves all pages in one operation leaves no copies and needs none.
    ///
    /// # Errors
    /// Those of the store; a page that cannot be read is no copy.
    fn copied(&mut self, _at: Lba) -> Result<Option<Lba>> {
        Ok(None)
    }

    /// Live pages that cannot be moved, since they or pages that lead to them cannot be read; those
    /// among `taken` at least. Asked when a collection that took these pages has failed.
    ///
    /// # Errors
    /// Those of the store, but that a page cannot be read.
    fn immovable(&mut self, taken: &BTreeSet<Lba>) -> Result<BTreeSet<Lba>> {
        let store = self.store();
        Ok(taken.iter().copied().filter(|&at| store.read_page(at).is_err()).collect())
    }

    /// Moves all of `pages` elsewhere, one by one; an engine whose moves rewrite shared ancestors
    /// does better to move them together.
    ///
    /// # Errors
    /// `Kind::Full` when there is no room to move them to; those of the store.
    fn evacuate(&mut self, pages: &BTreeSet<Lba>) -> Result<()>
    where
        Self: Sized,
    {
        pages.iter().try_for_each(|&old| move_page(self, old))
    }
}

/// Moves the live pages of some zones elsewhere, those with copies to their copies, and resets the
/// zones.
pub(crate) fn empty<E: Relocate>(
    engine: &mut E,
    zones: &[ZoneId],
    pages: &BTreeSet<Lba>,
    copies: &Copies,
) -> Result<()> {
    // The moves are made durable together, whatever the engine's own operations are.
    let durability = engine.store().durability();
    engine.store().set_durability(Durability::Batch);
    let moved = move_pages(engine, pages, copies);
    engine.store().set_durability(durability);
    moved?;
    if mutant!("store_reset_before_sync") {
        zones.iter().try_for_each(|&zone| engine.store().release(zone))?;
        return engine.store().sync();
    }
    engine.store().sync()?;
    zones.iter().try_for_each(|&zone| engine.store().release(zone))
}

fn move_pages<E: Relocate>(engine: &mut E, pages: &BTreeSet<Lba>, copies: &Copies) -> Result<()> {
    let mut rest = BTreeSet::new();
    for &old in pages {
        match copies.get(&old) {
            Some(&copy) => {
                engine.store().use_copy(copy);
                settle(engine, old, copy)?;
            }
            None => _ = rest.insert(old),
        }
    }
    engine.evacuate(&rest)
}

/// Moves one page and commits; a page that is no longer in use is left.
///
/// # Errors
/// `Kind::Full` when there is no room to move it to; those of the store.
pub fn move_page<E: Relocate>(engine: &mut E, old: Lba) -> Result<()> {
    if !engine.is_live(old) {
        return Ok(());
    }
    let new = engine.store().copy_page(old)?;
    settle(engine, old, new)
}

/// Tells the engine that `old` now lies at `new`, and commits.
fn settle<E: Relocate>(engine: &mut E, old: Lba, new: Lba) -> Result<()> {
    engine.moved(old, new)?;
    engine.store().commit()
}
