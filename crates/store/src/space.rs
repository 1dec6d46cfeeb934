//! Which blocks are in use: live pages a zone, free conventional blocks, and where to append next.
//!
//! The map is derived, never stored: when a store is opened the engine names every page it can
//! reach, and what it does not name is free. So no crash can leak a block or free one twice.
//!
//! Invariants
//! - Zones being filled never exceed the device's active limit: the redo log has one, and without
//!   conventional zones the superblock one more; the heats share what is left.
//! - The last empty zone is the collector's; what else is kept, and from whom, is in
//!   [`crate::room`].
//! - A purpose fills its own zone; near the end, when no other empty zone is left, all purposes
//!   fill what is open, so that every block can be used.

use std::collections::{BTreeMap, BTreeSet};

use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::{ZoneKind, ZoneReport, ZoneState};

use crate::error::{Error, Kind, Result};
use crate::pages::Heat;

/// One sequential zone that holds pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataZone {
    pub(crate) start: u64,
    pub(crate) capacity: u64,
    pub(crate) written: u64,
    pub(crate) live: BTreeSet<u64>,
    pub(crate) filled_at: u64,
    pub(crate) is_writable: bool,
}

impl DataZone {
    pub(crate) fn room(&self) -> u64 {
        if self.is_writable { self.capacity - self.written } else { 0 }
    }

    fn garbage(&self) -> u64 {
        self.written - self.live.len() as u64
    }
}

/// Space of one device.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub(crate) zones: BTreeMap<ZoneId, DataZone>,
    zone_blocks: u64,
    /// Zones being filled, by purpose; several purposes may share one.
    heads: Vec<Option<ZoneId>>,
    conventional: Vec<(u64, u64)>,
    pub(crate) conventional_free: BTreeSet<u64>,
    /// Empty zones that puts leave.
    pub(crate) kept: u64,
    /// No zone is empty, and none can be made so.
    pub(crate) is_stuck: bool,
    pub(crate) clock: u64,
}

/// Purposes of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A page of the engine's.
    Engine(Heat),
    /// A page that the collector moves.
    Collect,
}

impl Purpose {
    fn index(self) -> usize {
        match self {
            Purpose::Engine(Heat::Hot) => 0,
            Purpose::Engine(Heat::Cold) => 1,
            Purpose::Collect => 2,
        }
    }
}

impl Space {
    /// The space of a device whose superblocks and redo log take `taken` zones and `skip` blocks at
    /// the front of the first conventional zone.
    pub(crate) fn new(report: &[ZoneReport], taken: &[ZoneId], skip: u64, heads: usize) -> Space {
        let mut zones = BTreeMap::new();
        let mut conventional = Vec::new();
        for z in report {
            match z.kind {
                ZoneKind::Conventional => {
                    let from = z.start.0 + if conventional.is_empty() { skip } else { 0 };
                    conventional.push((from, z.start.0 + z.capacity_blocks));
                }
                ZoneKind::Sequential if taken.contains(&z.zone) => {}
                ZoneKind::Sequential => {
                    let is_writable = !matches!(z.state, ZoneState::ReadOnly | ZoneState::Offline);
                    // What a lost zone held is not known; its pages are missed when they are read.
                    let written = match z.state {
                        ZoneState::Offline => z.capacity_blocks,
                        _ => (z.write_pointer.0 - z.start.0).min(z.capacity_blocks),
                    };
                    let zone = DataZone {
                        start: z.start.0,
                        capacity: z.capacity_blocks,
                        written,
                        live: BTreeSet::new(),
                        filled_at: 0,
                        is_writable,
                    };
                    zones.insert(z.zone, zone);
                }
            }
        }
        let zone_blocks = report.first().map_or(1, |z| z.size_blocks);
        let conventional_free = conventional.iter().flat_map(|&(a, b)| a..b).collect();
        let mut space = Space {
            zones,
            zone_blocks,
            heads: vec![None; heads],
            conventional,
            conventional_free,
            kept: 2,
            is_stuck: false,
            clock: 0,
        };
        space.adopt_partial_zones();
        space
    }

    /// Partly filled zones are active: they go on being filled.
    fn adopt_partial_zones(&mut self) {
        let partial = |z: &DataZone| z.room() > 0 && z.written > 0;
        let found: Vec<ZoneId> =
            self.zones.iter().filter(|(_, z)| partial(z)).map(|(&i, _)| i).collect();
        for (head, zone) in self.heads.iter_mut().zip(found) {
            *head = Some(zone);
        }
    }

    /// Partly filled zones that no head goes on filling: to be finished, so as not to stay active.
    pub(crate) fn orphans(&self) -> Vec<ZoneId> {
        let partial = self.zones.iter().filter(|(_, z)| z.room() > 0 && z.written > 0);
        partial.map(|(&i, _)| i).filter(|i| !self.heads.contains(&Some(*i))).collect()
    }

    pub(crate) fn is_conventional(&self, at: Lba) -> bool {
        self.conventional.iter().any(|&(a, b)| (a..b).contains(&at.0))
    }

    pub(crate) fn has_conventional(&self) -> bool {
        !self.conventional.is_empty()
    }

    pub(crate) fn conventional_blocks(&self) -> u64 {
        self.conventional.iter().map(|&(a, b)| b - a).sum()
    }

    pub(crate) fn zone_of(&self, at: Lba) -> ZoneId {
        ZoneId((at.0 / self.zone_blocks) as u32)
    }

    pub(crate) fn empty_zones(&self) -> u64 {
        self.zones.values().filter(|z| z.written == 0 && z.is_writable).count() as u64
    }

    fn head(&self, purpose: Purpose) -> usize {
        purpose.index() % self.heads.len()
    }

    /// The zone that takes the next page of this purpose.
    ///
    /// # Errors
    /// `Kind::Full` when there is neither room in an open zone nor an empty zone.
    pub(crate) fn zone_for(&mut self, purpose: Purpose) -> Result<ZoneId> {
        let head = self.head(purpose);
        if let Some(z) = self.heads[head].filter(|z| self.zones[z].room() > 0) {
            return Ok(z);
        }
        let is_collector = purpose == Purpose::Collect;
        if is_collector || self.empty_zones() > 1 {
            let empty = self.zones.iter().find(|(_, z)| z.written == 0 && z.is_writable);
            if let Some((&zone, _)) = empty {
                self.heads[head] = Some(zone);
                return Ok(zone);
            }
        }
        let open = self.heads.iter().flatten().find(|z| self.zones[*z].room() > 0);
        open.copied().ok_or_else(|| Error::new(Kind::Full, "no empty zone is left"))
    }

    /// Takes note that a page was appended to `zone`; where it lies.
    pub(crate) fn appended(&mut self, zone: ZoneId) -> Lba {
        self.clock += 1;
        let clock = self.clock;
        let z = self.zones.get_mut(&zone).expect("invariant: appended zones are data zones");
        let at = z.start + z.written;
        z.written += 1;
        z.filled_at = clock;
        z.live.insert(at);
        Lba(at)
    }

    /// Takes a written sequential page into use.
    pub(crate) fn adopt(&mut self, at: Lba) {
        let zone = self.zones.get_mut(&self.zone_of(at));
        zone.expect("invariant: copies lie in data zones").live.insert(at.0);
    }

    /// Frees a page, of either kind.
    pub(crate) fn free(&mut self, at: Lba) {
        if self.is_conventional(at) {
            self.conventional_free.insert(at.0);
        } else if let Some(z) = self.zones.get_mut(&self.zone_of(at)) {
            z.live.remove(&at.0);
        }
    }

    /// Sets what is live, as the engine found it.
    ///
    /// # Errors
    /// `Kind::Corrupt` when a page lies where none can be.
    pub(crate) fn set_live(&mut self, pages: &BTreeSet<Lba>) -> Result<()> {
        for &at in pages {
            if self.conventional_free.remove(&at.0) {
                continue;
            }
            let id = self.zone_of(at);
            let zone = self.zones.get_mut(&id).filter(|z| at.0 < z.start + z.written);
            let zone = zone.ok_or_else(|| {
                Error::new(Kind::Corrupt, format!("page {at} lies where no page was written"))
            })?;
            zone.live.insert(at.0);
        }
        Ok(())
    }

    /// Blocks that can be appended while `kept` empty zones stay empty. None while the collector
    /// has no empty zone: what room there is must get it one.
    pub(crate) fn sequential_room(&self, kept: u64) -> u64 {
        let empty = self.empty_zones();
        if empty == 0 && !self.is_stuck {
            return 0;
        }
        let zones = empty.saturating_sub(kept);
        zones * self.zone_capacity() + self.room_in_open_zones()
    }

    /// Room in the open zones. An engine that keeps one empty zone shares them all at the end; one
    /// whose collector needs more room than it moves pages is told of no more than either heat has.
    fn room_in_open_zones(&self) -> u64 {
        let room =
            |z: &ZoneId| Some(&self.zones[z]).filter(|z| z.written > 0).map_or(0, |z| z.room());
        if self.kept == 1 {
            let open: BTreeSet<ZoneId> = self.heads.iter().flatten().copied().collect();
            return open.iter().map(room).sum();
        }
        let heats = [Heat::Hot, Heat::Cold].map(|h| self.heads[self.head(Purpose::Engine(h))]);
        heats.iter().map(|h| h.as_ref().map_or(0, room)).min().unwrap_or(0)
    }

    /// Blocks of a zone; the least of them, where they differ.
    pub(crate) fn zone_capacity(&self) -> u64 {
        self.zones.values().map(|z| z.capacity).min().unwrap_or(0)
    }

    /// Blocks of the zones that can be written.
    pub(crate) fn writable_blocks(&self) -> u64 {
        self.zones.values().filter(|z| z.is_writable).map(|z| z.capacity).sum()
    }

    /// Live pages in the zones that can be written.
    pub(crate) fn writable_live(&self) -> u64 {
        self.zones.values().filter(|z| z.is_writable).map(|z| z.live.len() as u64).sum()
    }

    /// The zone to empty next. With time left it is the one whose collection pays most, `(1 - u) *
    /// age / (1 + u)` (cost-benefit, after LFS), among the full ones with a sixteenth of garbage:
    /// one that is nearly all live costs more to empty than it gives. When room is needed now it is
    /// the one with the most garbage, however little, and an open one only if the full ones have
    /// less than a sixteenth.
    pub(crate) fn victim(&self, is_urgent: bool) -> Option<ZoneId> {
        let is_full = |(id, z): &(&ZoneId, &DataZone)| z.is_writable && !self.is_open(**id);
        let zones = || self.zones.iter().filter(|(_, z)| z.is_writable && z.garbage() > 0);
        let pays = |z: &DataZone| z.garbage() >= z.capacity.div_ceil(16);
        if is_urgent {
            let best = zones().filter(is_full).max_by_key(|(_, z)| z.garbage());
            let best = best.filter(|(_, z)| pays(z));
            return best.or_else(|| zones().max_by_key(|(_, z)| z.garbage())).map(|(&id, _)| id);
        }
        let score = |z: &DataZone| {
            let u = z.live.len() as f64 / z.capacity as f64;
            (1.0 - u) * (1 + self.clock - z.filled_at) as f64 / (1.0 + u)
        };
        let zones = zones().filter(is_full).filter(|(_, z)| pays(z));
        zones.max_by(|a, b| score(a.1).total_cmp(&score(b.1))).map(|(&id, _)| id)
    }

    /// Whether a zone is being filled.
    pub(crate) fn is_open(&self, zone: ZoneId) -> bool {
        self.zones[&zone].room() > 0 && self.heads.contains(&Some(zone))
    }

    /// A zone was reset.
    pub(crate) fn was_reset(&mut self, zone: ZoneId) {
        let z = self.zones.get_mut(&zone).expect("invariant: reset zones are data zones");
        assert!(z.live.is_empty(), "a zone is reset only when nothing in it is live");
        z.written = 0;
        self.is_stuck = false;
        self.close(zone);
    }

    fn close(&mut self, zone: ZoneId) {
        for h in self.heads.iter_mut().filter(|h| **h == Some(zone)) {
            *h = None;
        }
    }

    /// A zone was finished, or can no longer be written.
    pub(crate) fn retire(&mut self, zone: ZoneId, is_writable: bool) {
        if let Some(z) = self.zones.get_mut(&zone) {
            z.is_writable &= is_writable;
            if is_writable {
                z.written = z.capacity;
            }
        }
        self.close(zone);
    }
}
