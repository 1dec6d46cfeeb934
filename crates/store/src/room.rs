//! Room: whether what is left suffices for an operation, asked before it changes anything.
//!
//! What each kind of operation leaves for the ones behind it:
//!
//! | left | inserts | overwrites | deletions |
//! |---|---|---|---|
//! | conventional pages | 48 | 24 | 0 |
//! | sequential blocks with nothing live | a zone and a 32nd of all | the same | a zone |
//! | empty zones | those of [`Store::keep_zones`] | the same | the same |
//!
//! - The last empty zones are the collector's: without them nothing could be emptied any more.
//! - Overwrites and deletions hold pages only for a while (a log, until its body is written anew),
//!   so what inserts leave lets them go on for ever.

use littoral_device::zoned::ZonedDevice;

use crate::plan::OPERATION_PAGES;
use crate::store::Store;

/// Fewest blocks that inserts leave beside the collector's zone: enough for any operation's pages.
const SPARE_BLOCKS: u64 = 16;

/// What an operation does to the records held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// One more.
    Insert,
    /// As many as before.
    Update,
    /// One fewer.
    Delete,
}

impl<D: ZonedDevice> Store<D> {
    /// Sets how many empty zones are the collector's: one, unless moved pages take others with them
    /// ([`crate::together`]).
    pub fn keep_zones(&mut self, zones: u64) {
        assert!(zones > 0, "the collector needs an empty zone");
        self.space.kept = zones;
    }

    /// Conventional pages that an operation leaves.
    fn pages_kept(&self, demand: Demand) -> u64 {
        match demand {
            _ if !self.space.has_conventional() => 0,
            Demand::Insert => 2 * OPERATION_PAGES,
            Demand::Update => OPERATION_PAGES,
            Demand::Delete => 0,
        }
    }

    /// Whether an operation that allocates up to `pages` conventional pages can be carried out.
    pub fn has_conventional_room(&self, pages: u64, demand: Demand) -> bool {
        self.space.conventional_free.len() >= pages + self.pages_kept(demand)
    }

    /// Whether an operation that appends up to `pages` pages can be carried out as things stand;
    /// collecting may help where it cannot.
    pub fn has_sequential_room(&self, pages: u64) -> bool {
        self.appendable_blocks() >= pages
    }

    /// Blocks that can be appended before a zone must be collected, beside those set aside for
    /// drafts.
    pub fn appendable_blocks(&self) -> u64 {
        self.space.sequential_room().saturating_sub(self.drafts.len())
    }

    /// Sequential blocks that hold nothing live, can be written again later, and may
    /// become live; no collecting adds to them.
    pub fn spare_blocks(&self, demand: Demand) -> u64 {
        let (zone, (_, all)) = (self.space.zone_capacity(), self.space.emptiable_zones());
        let kept =
            if demand == Demand::Delete { zone } else { zone + (all / 32).max(SPARE_BLOCKS) };
        all.saturating_sub(self.live_blocks() + kept)
    }

    /// Whether the next page that an operation writes often would be put among moved ones, and
    /// emptying a zone pays: its own zone is full, and every empty zone is the collector's.
    pub fn would_fill_moved_zones(&self) -> bool {
        let is_next = self.space.empty_zones() <= self.space.kept && self.space.is_hot_zone_full();
        is_next && self.space.paying().next().is_some()
    }

    /// Whether less than an eighth of the sequential blocks may become live.
    pub fn is_tight(&self) -> bool {
        self.spare_blocks(Demand::Insert) * 8 < self.space.writable_blocks()
    }
}
