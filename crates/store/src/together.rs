//! Zones emptied several at once, for an engine whose moved pages take their ancestors with them.
//!
//! In a copy-on-write tree a moved page changes its parent, which is written anew, and so on up to
//! the root. Pages of several zones share most of these ancestors, so such an engine empties up to
//! [`Store::keep_zones`] zones in one operation.
//!
//! - The kept zones are the collector's: nothing else is appended to them, for any demand.
//! - A collection of j zones writes at most j zones' blocks, which is known before it begins: the
//!   engine counts the pages ([`Relocate::costs`]).
//! - The collection is one operation. It is durable as a whole, and then its zones are reset; or a
//!   power cut leaves pages that no durable state names in kept zones.
//!
//! Invariant: after any number of power cuts the kept zones are empty or hold nothing live, and a
//! zone without live pages is reset before anything else is done. So a collection never begins with
//! less room than the one before it had, and no copies have to be found again. Checked
//! by `index_power_cuts`.

use std::collections::{BTreeMap, BTreeSet};

use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::ZonedDevice;

use crate::error::Result;
use crate::relocate::{self, Copies, Relocate, Together};
use crate::space::{DataZone, Space};
use crate::store::Store;

/// A collection of several zones is good enough when it gains a quarter of what it writes.
const GAIN_SHARE: u64 = 4;

/// The order in which zones are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Those that pay most first: full zones with a sixteenth of garbage, by cost-benefit.
    Paying,
    /// Those with fewest live pages first, open zones among them.
    Emptiest,
}

/// Empties the zones that pay; whether there were any.
///
/// # Errors
/// As [`crate::gc::step`].
pub(crate) fn step<E: Relocate>(engine: &mut E, together: Together) -> Result<bool> {
    let space = &engine.store().space;
    let most = space.empty_zones().min(space.kept);
    let dead = engine.store().space.dead_zone();
    if let Some(zone) = dead {
        return empty(engine, &[zone]).map(|()| true);
    }
    for order in [Order::Paying, Order::Emptiest] {
        let zones = engine.store().in_order(order, most)?;
        let blocks = engine.store().space.zone_blocks();
        let ranks: BTreeMap<u64, usize> =
            zones.iter().enumerate().map(|(rank, zone)| (u64::from(zone.0), rank)).collect();
        let rank = |at: Lba| ranks.get(&(at.0 / blocks)).copied();
        let costs = engine.costs(zones.len(), &rank)?;
        let space = &engine.store().space;
        if let Some(count) = choose(&space.gains(&zones, &costs), &costs, together.gain, order) {
            log::debug!(
                "collecting zones {:?}: {} pages written",
                &zones[..count],
                costs[count - 1]
            );
            empty(engine, &zones[..count])?;
            return Ok(true);
        }
    }
    engine.store().space.is_stuck |= !engine.store().space.has_kept_zones();
    Ok(false)
}

/// How many zones to empty at once: the fewest that gain a good share of what they cost, or else
/// those with the best share.
fn choose(gains: &[u64], costs: &[u64], least: u64, order: Order) -> Option<usize> {
    let enough = |&j: &usize| gains[j] >= least;
    let good = |&j: &usize| gains[j] * GAIN_SHARE >= costs[j];
    let found = (0..gains.len()).filter(enough).find(good);
    let best = || {
        // Shares of blocks gained, compared without division.
        let share = |a: usize, b: usize| (gains[a] * costs[b]).cmp(&(gains[b] * costs[a]));
        (0..gains.len()).filter(enough).max_by(|&a, &b| share(a, b))
    };
    let chosen = found.or_else(|| if order == Order::Emptiest { best() } else { None });
    chosen.map(|j| j + 1)
}

/// Moves the live pages of `zones` in one operation and resets the zones.
fn empty<E: Relocate>(engine: &mut E, zones: &[ZoneId]) -> Result<()> {
    let mut pages = BTreeSet::new();
    for &zone in zones {
        pages.extend(engine.store().seize(zone)?);
    }
    relocate::empty(engine, zones, &pages, &Copies::new())
}

impl Space {
    /// Whether all zones that the collector keeps are empty.
    pub(crate) fn has_kept_zones(&self) -> bool {
        self.empty_zones() >= self.kept
    }

    /// A zone that can be reset as it is; one that is still being filled only when the collector's
    /// zones are not all empty.
    fn dead_zone(&self) -> Option<ZoneId> {
        let is_dead = |z: &DataZone| z.is_writable && z.written > 0 && z.live.is_empty();
        let needs_any = !self.has_kept_zones() && !mutant!("store_dead_zones_left");
        let found = self.zones.iter().find(|(_, z)| is_dead(z) && (z.room() == 0 || needs_any));
        found.map(|(&id, _)| id)
    }

    /// Blocks gained by emptying the first of `zones`, the first two, ...; zero where that takes
    /// more blocks than as many empty zones have.
    fn gains(&self, zones: &[ZoneId], costs: &[u64]) -> Vec<u64> {
        let mut room = 0;
        let gain = |(i, (id, cost)): (usize, (&ZoneId, &u64))| {
            // What is left of an open zone is lost to it and not gained by emptying it.
            room += self.zone_capacity() - self.zones[id].room().min(self.zone_capacity());
            let fits = *cost <= (i as u64 + 1) * self.zone_capacity();
            if fits { room.saturating_sub(*cost) } else { 0 }
        };
        zones.iter().zip(costs).enumerate().map(gain).collect()
    }
}

impl<D: ZonedDevice> Store<D> {
    /// Up to `most` zones that may be emptied; one that can no longer be written is left.
    fn in_order(&mut self, order: Order, most: u64) -> Result<Vec<ZoneId>> {
        let space = &self.space;
        let found: Vec<ZoneId> = match order {
            Order::Paying => {
                let mut paying: Vec<_> = space.paying().collect();
                paying.sort_by(|a, b| b.0.total_cmp(&a.0));
                paying.into_iter().map(|(_, id)| id).collect()
            }
            Order::Emptiest => {
                let may = |id, z: &DataZone| space.may_empty(id, z) && z.written > 0;
                let written = space.zones.iter().filter(|&(&id, z)| may(id, z));
                let mut by_live: Vec<_> = written.map(|(&id, z)| (z.live.len(), id)).collect();
                by_live.sort_unstable();
                by_live.into_iter().map(|(_, id)| id).collect()
            }
        };
        let mut usable = Vec::new();
        for zone in found {
            if usable.len() as u64 == most {
                break;
            }
            if !self.is_worn_out(zone)? {
                usable.push(zone);
            }
        }
        Ok(usable)
    }

    /// Most live pages with which the collector finds zones to empty, wherever the pages lie, when
    /// moving pages takes `others` more pages with them: the least of `k` of all zones but the
    /// collector's `k` must fit these. Zones that are left alone are none of them.
    pub fn live_max_together(&self, others: u64) -> u64 {
        let (kept, (zones, _)) = (self.space.kept, self.space.emptiable_zones());
        let room = (kept * self.space.zone_capacity()).saturating_sub(others);
        zones.saturating_sub(kept) * room / kept
    }

    /// Live pages in zones that can be written, drafts included.
    pub fn live_blocks(&self) -> u64 {
        self.space.writable_live() + self.drafts.len()
    }

    /// Zones of pages that can be written.
    pub fn writable_zones(&self) -> u64 {
        self.space.writable_zones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_zones_that_pay_are_chosen_or_those_that_pay_best() {
        let choose = |gains: &[u64], costs: &[u64], order| choose(gains, costs, 8, order);
        use Order::{Emptiest, Paying};
        assert_eq!(choose(&[30, 60], &[100, 140], Paying), Some(1));
        assert_eq!(choose(&[10, 60], &[100, 140], Paying), Some(2));
        // Too little is gained by one; by two little, but enough.
        assert_eq!(choose(&[7, 10, 11], &[9, 100, 190], Paying), None);
        assert_eq!(choose(&[7, 10, 11], &[9, 100, 190], Emptiest), Some(2));
        assert_eq!(choose(&[0, 7], &[100, 140], Emptiest), None);
        assert_eq!(choose(&[], &[], Emptiest), None);
    }
}
