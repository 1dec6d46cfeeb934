//! Garbage collection of sequential zones: which zones are emptied, and when.
//!
//! One step empties one zone, or several for an engine whose moved pages take others with them
//! ([`crate::together`]). [`crate::relocate`] moves the pages.
//!
//! The collector runs when an operation has no room, until it has: the zones that operations leave
//! ([`crate::room`]) are what it moves pages into. It does not run earlier, because live pages of a
//! zone only become fewer: what is not copied now may never have to be. Overwrites are the
//! exception ([`Store::would_fill_moved_zones`]). Its work is paced by the writes that need the
//! room, one zone at a time. A host that is full asks earlier where its blocks are larger than the
//! store's, for zones that pay. Where a power cut inside a collection left no empty zone,
//! [`crate::regain`] gets one back before anything else is done.
//!
//! A zone with a live page that cannot be moved cannot be emptied: the page cannot be read, or one
//! that leads to it cannot be. Such a zone is left alone until its pages were replaced or the store
//! is opened again ([`shun`]): one lost page must not cost the room of all zones.

use std::collections::BTreeSet;

use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_device::zoned::ZonedDevice;

use crate::error::{Kind, Result};
use crate::regain;
use crate::relocate::{self, Copies};
pub use crate::relocate::{Rank, Relocate, Together, move_page};
use crate::store::{Store, Work};
use crate::together;

/// Empties the zone that pays most, or `is_urgent` the one that gives most; whether there was one.
///
/// # Errors
/// `Kind::Full` when there is no room to move its pages to; those of the store, of which one that
/// takes no changes is left as it is.
pub fn step<E: Relocate>(engine: &mut E, is_urgent: bool) -> Result<bool> {
    // Asked first: a zone that is to be emptied is finished before anything is written.
    if !mutant!("store_unusable_finishes_zones") {
        engine.store().usable()?;
    }
    engine.store().begin_work(Work::Collection);
    engine.store().space.seized.clear();
    let found = collect(engine, is_urgent);
    if found.as_ref().err().is_none_or(|e| e.kind() == Kind::Full) {
        engine.store().begin_work(Work::Operation);
    }
    found
}

fn collect<E: Relocate>(engine: &mut E, is_urgent: bool) -> Result<bool> {
    engine.store().write_drafts()?;
    if let Some(together) = engine.together() {
        return together::step(engine, together);
    }
    if engine.store().has_no_empty_zone() {
        return regain::regain(engine);
    }
    let Some((zone, pages)) = engine.store().victim(is_urgent)? else { return Ok(false) };
    log::debug!("collecting zone {zone}: {} live pages move", pages.len());
    relocate::empty(engine, &[zone], &pages, &Copies::new())?;
    Ok(true)
}

/// Leaves alone, from now on, zones that the last collection, which has failed and been undone,
/// could not have emptied: pages in them, or pages that lead to those, cannot be read. Whether
/// there were any.
///
/// # Errors
/// Those of the engine's search for such pages.
pub fn shun<E: Relocate>(engine: &mut E) -> Result<bool> {
    if mutant!("store_unreadable_zone_chosen_again") {
        return Ok(false);
    }
    let taken = engine.store().space.take_seized();
    let immovable = engine.immovable(&taken)?;
    Ok(engine.store().space.shun(&immovable))
}

impl<D: ZonedDevice> Store<D> {
    /// Whether the collector leaves the zone of this page alone, since pages in it cannot be moved.
    pub fn is_shunned(&self, at: Lba) -> bool {
        self.space.shunned.contains(&self.space.zone_of(at))
    }

    /// Pages in use in sequential zones.
    pub fn live_sequential(&self) -> BTreeSet<Lba> {
        self.space.zones.values().flat_map(|z| z.live.iter().map(|&at| Lba(at))).collect()
    }

    /// Refuses a change of a conventional page whose zone can be written no more.
    ///
    /// # Errors
    /// `Kind::Io` naming the page, its zone and the zone's state.
    pub fn check_change(&self, at: Lba) -> Result<()> {
        self.space.check_writable(at)
    }

    /// Whether a zone of conventional pages can be written no more.
    pub fn has_worn_pages(&self) -> bool {
        self.space.has_worn_pages()
    }
}
