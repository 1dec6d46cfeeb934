//! Which blocks are in use: live pages a zone, free conventional blocks, and where to append next.
//!
//! The map is derived, never stored: when a store is opened the engine names every page it can
//! reach, and what it does not name is free. So no crash can leak a block or free one twice.
//!
//! Invariants
//! - Zones being filled never exceed the device's active limit: the redo log has one, and without
//!   conventional zones the superblock one more; the purposes share what is left. Checked by
//!   `zone_for`.
//! - The last empty zones, `kept` of them, are the collector's; what else is kept, and from whom,
//!   is in [`crate::room`]. Checked by
//!   `appending_until_full_leaves_the_collector_an_empty_zone`.
//! - `totals` are the sums over `zones`, kept by [`Space::change`], through which every change of a
//!   zone goes: what a put asks costs the same on sixty zones and on sixty thousand. Checked by
//!   `the_sums_follow_every_change_of_a_zone`.
//! - A purpose fills its own zone; near the end, when no other empty zone is left, all purposes
//!   fill what is open, so that every block can be used. Checked by
//!   `appending_until_full_leaves_the_collector_an_empty_zone`.

use std::collections::{BTreeMap, BTreeSet};

use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::{ZoneKind, ZoneReport, ZoneState};

use crate::error::{Error, Kind, Result};
use crate::pages::Heat;
use crate::runs::Runs;

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

    /// Whether a sixteenth is garbage, and one block at least.
    fn pays(&self) -> bool {
        self.garbage() >= self.capacity.div_ceil(16)
    }

    fn is_empty(&self) -> bool {
        self.written == 0 && self.is_writable
    }
}

/// Sums over the zones that can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    empty_zones: u64,
    writable_zones: u64,
    writable_blocks: u64,
    writable_live: u64,
}

impl Totals {
    fn of(zone: &DataZone) -> Totals {
        if !zone.is_writable {
            return Totals::default();
        }
        Totals {
            empty_zones: u64::from(zone.is_empty()),
            writable_zones: 1,
            writable_blocks: zone.capacity,
            writable_live: zone.live.len() as u64,
        }
    }

    /// These sums with one zone's part replaced.
    fn replaced(self, before: Totals, after: Totals) -> Totals {
        Totals {
            empty_zones: self.empty_zones - before.empty_zones + after.empty_zones,
            writable_zones: self.writable_zones - before.writable_zones + after.writable_zones,
            writable_blocks: self.writable_blocks - before.writable_blocks + after.writable_blocks,
            writable_live: self.writable_live - before.writable_live + after.writable_live,
        }
    }
}

/// Space of one device.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub(crate) zones: BTreeMap<ZoneId, DataZone>,
    totals: Totals,
    /// Blocks of the smallest zone.
    zone_capacity: u64,
    zone_blocks: u64,
    /// Zones being filled, by purpose; several purposes may share one.
    heads: Vec<Option<ZoneId>>,
    conventional: Vec<(u64, u64)>,
    /// Conventional zones that can no longer be written, and what they are.
    worn: Vec<(u64, u64, &'static str)>,
    pub(crate) conventional_free: Runs,
    /// Empty zones that are the collector's.
    pub(crate) kept: u64,
    /// The collector's zones are not empty, and none can be made so.
    pub(crate) is_stuck: bool,
    /// Zones that the collection under way took.
    pub(crate) seized: Vec<ZoneId>,
    /// Zones with live pages that cannot be moved, so that they cannot be emptied.
    pub(crate) shunned: BTreeSet<ZoneId>,
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
    /// the front of each conventional zone.
    pub(crate) fn new(report: &[ZoneReport], taken: &[ZoneId], skip: u64, heads: usize) -> Space {
        let mut zones = BTreeMap::new();
        let (mut conventional, mut worn) = (Vec::new(), Vec::new());
        for z in report {
            match z.kind {
                ZoneKind::Conventional => {
                    let end = z.start.0 + z.capacity_blocks;
                    let from = end.min(z.start.0 + skip);
                    conventional.push((from, end));
                    match z.state {
                        ZoneState::ReadOnly => worn.push((from, end, "READ_ONLY")),
                        ZoneState::Offline => worn.push((from, end, "OFFLINE")),
                        _ => {}
                    }
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
        let is_worn = |&&(from, _): &&(u64, u64)| worn.iter().any(|w| w.0 == from);
        let free: Vec<(u64, u64)> =
            conventional.iter().filter(|run| !is_worn(run)).copied().collect();
        let conventional_free = Runs::of(&free);
        let none = Totals::default();
        let sum = |sum: Totals, z| sum.replaced(none, Totals::of(z));
        let mut space = Space {
            totals: zones.values().fold(none, sum),
            zone_capacity: zones.values().map(|z| z.capacity).min().unwrap_or(0),
            zones,
            zone_blocks,
            heads: vec![None; heads],
            conventional,
            worn,
            conventional_free,
            kept: 1,
            is_stuck: false,
            seized: Vec::new(),
            shunned: BTreeSet::new(),
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

    /// Whether a page may lie here: in a conventional zone, or behind a data zone's pointer.
    pub(crate) fn may_hold_page(&self, at: Lba) -> bool {
        let is_written = |z: &DataZone| (z.start..z.start + z.written).contains(&at.0);
        self.is_conventional(at) || self.zones.get(&self.zone_of(at)).is_some_and(is_written)
    }

    /// Refuses a change of a page whose zone can no longer be written.
    ///
    /// # Errors
    /// `Kind::Io` naming the page and the zone's state.
    pub(crate) fn check_writable(&self, at: Lba) -> Result<()> {
        let Some(&(.., state)) = self.worn.iter().find(|w| (w.0..w.1).contains(&at.0)) else {
            return Ok(());
        };
        let text = format!(
            "page {at} cannot be changed: its zone {} is {state}; `littoral kv repair SRC DST` \
             writes the records to another medium",
            self.zone_of(at)
        );
        Err(Error::new(Kind::Io, text).at_page(at.0).at_zone(self.zone_of(at).0))
    }

    /// Whether a conventional zone can no longer be written.
    pub(crate) fn has_worn_pages(&self) -> bool {
        !self.worn.is_empty()
    }

    /// Takes an empty zone away from the data, for the redo log or the superblock.
    pub(crate) fn take_empty(&mut self) -> Option<ZoneId> {
        let found = self.zones.iter().rfind(|(_, z)| z.written == 0 && z.is_writable);
        let zone = found.map(|(&id, _)| id)?;
        let taken = self.zones.remove(&zone)?;
        debug_assert!(taken.live.is_empty(), "zone {zone} is taken with live pages");
        self.totals = self.totals.replaced(Totals::of(&taken), Totals::default());
        self.close(zone);
        Some(zone)
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
        self.totals.empty_zones
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
        if is_collector || self.empty_zones() > self.kept || mutant!("store_reserve_given_away") {
            let empty = self.zones.iter().find(|(_, z)| z.is_empty());
            if let Some((&zone, _)) = empty {
                self.heads[head] = Some(zone);
                debug_assert!(self.orphans().is_empty(), "each zone being filled has a purpose");
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
        let landed = self.change(zone, |z| {
            let at = z.start + z.written;
            debug_assert!(z.is_writable, "block {at} lies in a zone that takes no page");
            z.written += 1;
            z.filled_at = clock;
            z.live.insert(at);
            Lba(at)
        });
        landed.expect("invariant: appended zones are data zones")
    }

    /// Changes a zone and the sums with it; nothing where there is no such data zone.
    fn change<T>(&mut self, zone: ZoneId, change: impl FnOnce(&mut DataZone) -> T) -> Option<T> {
        let zone = self.zones.get_mut(&zone)?;
        let before = Totals::of(zone);
        let result = change(zone);
        debug_assert!(
            zone.live.len() as u64 <= zone.written && zone.written <= zone.capacity,
            "{} live of {} written of {} blocks",
            zone.live.len(),
            zone.written,
            zone.capacity
        );
        self.totals = self.totals.replaced(before, Totals::of(zone));
        Some(result)
    }

    /// Takes a written sequential page into use.
    pub(crate) fn adopt(&mut self, at: Lba) {
        let adopted = self.change(self.zone_of(at), |z| z.live.insert(at.0));
        adopted.expect("invariant: copies lie in data zones");
    }

    /// Frees a page, of either kind.
    pub(crate) fn free(&mut self, at: Lba) {
        if self.is_conventional(at) {
            // A page of a worn zone is not used again.
            if self.check_writable(at).is_ok() {
                self.conventional_free.insert(at.0);
            }
        } else {
            self.change(self.zone_of(at), |z| z.live.remove(&at.0));
        }
    }

    /// Sets what is live, as the engine found it.
    ///
    /// # Errors
    /// `Kind::Corrupt` when a page lies where none can be.
    pub(crate) fn set_live(&mut self, pages: &BTreeSet<Lba>) -> Result<()> {
        for &at in pages {
            if self.conventional_free.remove(at.0) || self.is_conventional(at) {
                continue;
            }
            let adopt = |z: &mut DataZone| {
                let end = z.start + z.written + u64::from(mutant!("store_live_past_pointer"));
                let is_written = (z.start..end).contains(&at.0);
                is_written.then(|| z.live.insert(at.0))
            };
            self.change(self.zone_of(at), adopt).flatten().ok_or_else(|| {
                Error::new(Kind::Corrupt, format!("page {at} lies where no page was written"))
                    .at_page(at.0)
            })?;
        }
        Ok(())
    }

    /// Runs of pages that were written and are not in use, in zones that can be written.
    pub(crate) fn dead_runs(&self) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        for z in self.zones.values().filter(|z| z.is_writable) {
            let mut from = z.start;
            for at in z.live.iter().copied().chain([z.start + z.written]) {
                if at > from {
                    runs.push((from, at));
                }
                from = at + 1;
            }
        }
        runs
    }

    /// Runs of those of `pages` that are written and not in use: a zone may have been reset and
    /// filled again since they were freed.
    pub(crate) fn dead_runs_among(&self, pages: Vec<u64>) -> Vec<(u64, u64)> {
        let is_dead = |at: &u64| {
            let zone = self.zones.get(&self.zone_of(Lba(*at)));
            let is_written = |z: &DataZone| (z.start..z.start + z.written).contains(at);
            zone.is_some_and(|z| z.is_writable && is_written(z) && !z.live.contains(at))
        };
        let dead: BTreeSet<u64> = pages.into_iter().filter(is_dead).collect();
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for at in dead {
            match runs.last_mut() {
                Some((_, to)) if *to == at => *to += 1,
                _ => runs.push((at, at + 1)),
            }
        }
        runs
    }

    /// Blocks that can be appended while the collector's zones stay empty. None while they are not:
    /// what room there is must get them back.
    pub(crate) fn sequential_room(&self) -> u64 {
        if !self.has_kept_zones() && !self.is_stuck {
            return 0;
        }
        let zones = self.empty_zones().saturating_sub(self.kept);
        zones * self.zone_capacity() + self.room_in_open_zones()
    }

    /// Room in the open zones, which all purposes share at the end.
    fn room_in_open_zones(&self) -> u64 {
        let room =
            |z: &ZoneId| Some(&self.zones[z]).filter(|z| z.written > 0).map_or(0, |z| z.room());
        let open: BTreeSet<ZoneId> = self.heads.iter().flatten().copied().collect();
        open.iter().map(room).sum()
    }

    /// Whether pages that are written often have a zone of their own, and no page fits it.
    pub(crate) fn is_hot_zone_full(&self) -> bool {
        let [hot, moved] = [Purpose::Engine(Heat::Hot), Purpose::Collect].map(|p| self.head(p));
        hot != moved && self.heads[hot].is_none_or(|z| self.zones[&z].room() == 0)
    }

    /// Blocks of a zone; the least of them, where they differ.
    pub(crate) fn zone_capacity(&self) -> u64 {
        self.zone_capacity
    }

    /// Blocks from the start of a zone to the start of the next.
    pub(crate) fn zone_blocks(&self) -> u64 {
        self.zone_blocks
    }

    /// Zones that can be written and emptied, and their blocks. What is live in a zone that is left
    /// alone may move into them as it is written anew, and its garbage is no room.
    pub(crate) fn emptiable_zones(&self) -> (u64, u64) {
        let left = self.shunned.iter().filter_map(|id| self.zones.get(id));
        let sums = (self.totals.writable_zones, self.totals.writable_blocks);
        left.filter(|z| z.is_writable).fold(sums, |(zones, blocks), z| {
            debug_assert!(zones > 0 && blocks >= z.capacity, "zones left alone are among all");
            (zones - 1, blocks - z.capacity)
        })
    }

    /// Blocks of the zones that can be written.
    pub(crate) fn writable_blocks(&self) -> u64 {
        self.totals.writable_blocks
    }

    /// Zones that can be written.
    pub(crate) fn writable_zones(&self) -> u64 {
        self.totals.writable_zones
    }

    /// Live pages in the zones that can be written.
    pub(crate) fn writable_live(&self) -> u64 {
        self.totals.writable_live
    }

    /// The zone to empty next. With time left it is the one whose collection pays most, `(1 - u) *
    /// age / (1 + u)` (cost-benefit, after LFS), among the full ones with a sixteenth of garbage:
    /// one that is nearly all live costs more to empty than it gives. When room is needed now it is
    /// the one with the most garbage, however little, and an open one only if the full ones have
    /// less than a sixteenth.
    pub(crate) fn victim(&self, is_urgent: bool) -> Option<ZoneId> {
        let is_full = |(id, z): &(&ZoneId, &DataZone)| z.is_writable && !self.is_open(**id);
        let may = |id, z: &DataZone| self.may_empty(id, z) && z.garbage() > 0;
        let zones = || self.zones.iter().filter(|&(&id, z)| may(id, z));
        if is_urgent {
            let best = zones().filter(is_full).max_by_key(|(_, z)| z.garbage());
            let best = best.filter(|(_, z)| z.pays());
            return best.or_else(|| zones().max_by_key(|(_, z)| z.garbage())).map(|(&id, _)| id);
        }
        self.paying().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, id)| id)
    }

    /// Full zones with a sixteenth of garbage, and what emptying them pays.
    pub(crate) fn paying(&self) -> impl Iterator<Item = (f64, ZoneId)> {
        let pays = |id, z: &DataZone| self.may_empty(id, z) && z.pays() && !self.is_open(id);
        let score = |z: &DataZone| {
            let u = z.live.len() as f64 / z.capacity as f64;
            (1.0 - u) * (1 + self.clock - z.filled_at) as f64 / (1.0 + u)
        };
        self.zones.iter().filter(move |&(&id, z)| pays(id, z)).map(move |(&id, z)| (score(z), id))
    }

    /// Whether the collector may choose a zone.
    pub(crate) fn may_empty(&self, id: ZoneId, zone: &DataZone) -> bool {
        zone.is_writable && (zone.live.is_empty() || !self.shunned.contains(&id))
    }

    /// The live pages of the zones that the last collection took; it takes them no more.
    pub(crate) fn take_seized(&mut self) -> BTreeSet<Lba> {
        let seized = std::mem::take(&mut self.seized);
        let zones = seized.iter().filter_map(|id| self.zones.get(id));
        zones.flat_map(|z| z.live.iter().map(|&at| Lba(at))).collect()
    }

    /// Leaves the zones of these pages alone; whether that is more zones than before.
    pub(crate) fn shun(&mut self, immovable: &BTreeSet<Lba>) -> bool {
        let count_before = self.shunned.len();
        for &at in immovable {
            let zone = self.zone_of(at);
            debug_assert!(self.zones.contains_key(&zone), "page {at} lies in no data zone");
            if self.shunned.insert(zone) {
                let why = "cannot be read, or one that leads to it cannot be read or changed";
                log::warn!("zone {zone} is not emptied: its page {at} {why}");
            }
        }
        self.shunned.len() > count_before
    }

    /// Whether a zone is being filled.
    pub(crate) fn is_open(&self, zone: ZoneId) -> bool {
        self.zones[&zone].room() > 0 && self.heads.contains(&Some(zone))
    }

    /// A zone that is partly filled.
    pub(crate) fn an_open_zone(&self) -> Option<ZoneId> {
        self.heads
            .iter()
            .flatten()
            .copied()
            .find(|&z| self.zones[&z].written > 0 && self.is_open(z))
    }

    /// A zone was reset.
    pub(crate) fn was_reset(&mut self, zone: ZoneId) {
        let was_reset = self.change(zone, |z| {
            assert!(z.live.is_empty(), "a zone is reset only when nothing in it is live");
            z.written = 0;
        });
        was_reset.expect("invariant: reset zones are data zones");
        self.shunned.remove(&zone);
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
        let retired = self.change(zone, |z| {
            z.is_writable &= is_writable;
            if is_writable {
                z.written = z.capacity;
            }
        });
        if mutant!("store_sums_keep_retired") && retired.is_some() {
            self.totals.empty_zones += 1;
        }
        self.close(zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_base::rng::{self, Rng as _};
    use littoral_device::zoned::ZonedDevice as _;
    use littoral_device::zoned::model::ModelDevice;
    use littoral_device::zoned::zones::Geometry;

    fn space() -> Space {
        let geometry = Geometry {
            block_bytes: 4096,
            conventional_zones: 2,
            sequential_zones: 12,
            zone_blocks: 16,
            capacity_blocks: 12,
            open_zones_max: 0,
            active_zones_max: 0,
            append_blocks_max: 0,
        };
        let device = ModelDevice::new(geometry).unwrap();
        Space::new(&device.report(ZoneId(0), 14).unwrap(), &[ZoneId(2), ZoneId(3)], 2, 3)
    }

    fn summed(space: &Space) -> Totals {
        let writable = || space.zones.values().filter(|z| z.is_writable);
        Totals {
            empty_zones: writable().filter(|z| z.written == 0).count() as u64,
            writable_zones: writable().count() as u64,
            writable_blocks: writable().map(|z| z.capacity).sum(),
            writable_live: writable().map(|z| z.live.len() as u64).sum(),
        }
    }

    #[test]
    fn the_sums_follow_every_change_of_a_zone() {
        let (mut space, mut rng) = (space(), rng::stream(1, "sums of space"));
        let mut live: Vec<Lba> = Vec::new();
        for step in 0..5000 {
            let zone = ZoneId(rng.random_range(4..14));
            match rng.random_range(0..8) {
                0 if !live.is_empty() => {
                    let at = live.swap_remove(rng.random_range(0..live.len()));
                    space.free(at);
                    if rng.random_bool(0.2) {
                        space.adopt(at);
                        live.push(at);
                    }
                }
                1 if space.zones[&zone].live.is_empty() => space.was_reset(zone),
                2 if space.is_open(zone) => space.retire(zone, rng.random_bool(0.98)),
                3 => live.drain(..live.len() / 2).for_each(|at| space.free(at)),
                _ => {
                    let purpose = Purpose::Engine(Heat::Hot);
                    let found = space.zone_for(purpose).map(|zone| space.appended(zone));
                    live.extend(found);
                }
            }
            assert_eq!(space.totals, summed(&space), "step {step}");
        }
    }
}
