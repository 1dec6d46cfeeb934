//! An empty zone again, after a power cut inside a collection took the last one.
//!
//! A collection moves the live pages of one zone, its victim, and uses up the last empty zone at
//! most; the victim is the next empty one. It becomes durable in pieces (the redo log may need a
//! checkpoint in between), so a cut inside it can leave no empty zone, a victim that is not empty
//! yet, and copies that no durable state names. Collections cut again and again would fill the
//! medium with such copies. So until there is an empty zone again
//! - nothing but this file appends ([`crate::room`] says that there is no room), and
//! - a copy that was made is used and not made again.
//!
//! Invariant: the victim's live pages never outnumber the copies of them together with the room in
//! open zones, since each block of room that was used became such a copy. So the victim, or another
//! zone, can be emptied, however often power is cut. Where zones have worn out meanwhile there may
//! be none that can: then the room in open zones is given to every caller. Checked by
//! `collections_cut_again_and_again_leave_overwrites_their_room`.

use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};

use crate::error::Result;
use crate::relocate::{self, Copies, Relocate};
use crate::space::{DataZone, Space};

/// Where copies are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Among {
    /// Nowhere: a zone without live pages needs none.
    Nothing,
    /// Where collections end, most of them.
    OpenZones,
    /// Where those end that filled a zone.
    AllZones,
}

/// Empties the zone that can be; whether there was one.
///
/// # Errors
/// As [`crate::gc::step`].
pub(crate) fn regain<E: Relocate>(engine: &mut E) -> Result<bool> {
    let mut copies = Copies::new();
    let was_sought = engine.store().space.is_stuck;
    for among in [Among::Nothing, Among::OpenZones, Among::AllZones] {
        if among == Among::AllZones && was_sought {
            break;
        }
        find_copies(engine, among, &mut copies)?;
        let most = if among == Among::Nothing { 0 } else { u64::MAX };
        while let Some(zone) = engine.store().space.emptiable(&copies, most) {
            engine.store().space.is_stuck = true;
            if engine.store().is_worn_out(zone)? {
                continue;
            }
            let pages = engine.store().seize(zone)?;
            relocate::empty(engine, &[zone], &pages, &copies)?;
            return Ok(true);
        }
    }
    engine.store().space.is_stuck = true;
    Ok(false)
}

fn find_copies<E: Relocate>(engine: &mut E, among: Among, copies: &mut Copies) -> Result<()> {
    if mutant!("store_copies_made_again") {
        return Ok(());
    }
    for copy in engine.store().space.dead_pages(among) {
        if let Some(page) = engine.copied(copy)? {
            let space = &engine.store().space;
            if space.zone_of(page) != space.zone_of(copy) {
                copies.insert(page, copy);
            }
        }
    }
    Ok(())
}

impl Space {
    /// Written blocks of writable zones that hold nothing live.
    fn dead_pages(&self, among: Among) -> Vec<Lba> {
        let zones = self.zones.iter().filter(|(id, z)| {
            z.is_writable
                && match among {
                    Among::Nothing => false,
                    Among::OpenZones => self.is_open(**id),
                    Among::AllZones => true,
                }
        });
        let dead = zones.flat_map(|(_, z)| {
            (z.start..z.start + z.written).filter(|at| !z.live.contains(at)).map(Lba)
        });
        dead.collect()
    }

    /// The zone of which fewest live pages must be copied, `most` at most, if the open zones have
    /// room for them.
    fn emptiable(&self, copies: &Copies, most: u64) -> Option<ZoneId> {
        let open = || self.zones.iter().filter(|(id, _)| self.is_open(**id));
        let room: u64 = open().map(|(_, z)| z.room()).sum();
        let may = |id, z: &DataZone| self.may_empty(id, z) && z.written > 0;
        let writable = self.zones.iter().filter(|&(&id, z)| may(id, z));
        let costs = writable.map(|(&id, z)| {
            let ends = Lba(z.start)..Lba(z.start + z.capacity);
            let to_copy = z.live.len() as u64 - copies.range(ends).count() as u64;
            let own = if self.is_open(id) { z.room() } else { 0 };
            (to_copy, room - own, id)
        });
        let fitting = costs.filter(|(to_copy, room, _)| to_copy <= room.min(&most));
        fitting.min().map(|(_, _, id)| id)
    }
}
