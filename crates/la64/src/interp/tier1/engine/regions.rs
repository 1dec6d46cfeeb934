//! Regions in the arena: code of many paths takes the place of the blocks at its anchors.

use super::super::super::translation::{Journal, Made, Placed};
use super::super::block::{Ahead, Block, Decoded};
use super::super::known::Known;
use super::super::parts::Parts;
use super::super::plan::Plan;
use super::super::trace::{ByAddress, Stretch};
use super::{At, BLOCK_BYTES_MAX, Engine, Filling, instruction, map_bytes};
use crate::jit::emit::Asm;
use littoral_base::mutant;

/// What is kept of a region, to tell whether it is still the one that its loop needs.
#[derive(Debug)]
pub(in super::super::super) struct Kept {
    /// The first anchor.
    pub(in super::super::super) head: u64,
    pub(in super::super::super) plan: Plan,
    /// The look that it was made of.
    pub(in super::super::super) trace: Vec<Stretch>,
    pub(in super::super::super) words: ByAddress<u32>,
    /// How often it was made again.
    pub(in super::super::super) times: u32,
    /// Where control enters it.
    pub(in super::super::super) doors: Vec<Door>,
    pub(in super::super::super) judged: Judged,
    /// A number of its own.
    pub(in super::super::super) number: u64,
}

/// What is known of what a region brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super::super) enum Judged {
    /// Nothing yet.
    Not,
    /// It stays; or it is tried.
    Stays,
    /// It was taken away.
    Away,
}

/// An address at which control enters a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super::super) struct Door {
    pub(in super::super::super) pc: u64,
    /// Where the region is entered.
    inside: usize,
    /// The code that was there before it. Nothing compares it with memory: the index, which leads
    /// there without the region, would not know what to compare.
    outside: Option<usize>,
}

impl Door {
    /// Renews the doors of a region that takes the place of one with the doors `older`: the code
    /// that was there before is the same. Doors that it does not have any more are in the result.
    /// Those of them that had no code before stay its doors, into the older code.
    fn renew(older: &[Door], newer: &mut Vec<Door>) -> Vec<Door> {
        let mut closed = Vec::new();
        for door in older {
            match newer.iter().position(|other| other.pc == door.pc) {
                Some(n) => newer[n].outside = door.outside,
                None if door.is_alone() || mutant!("la64_region_keeps_its_older_doors") => {
                    newer.push(*door);
                }
                None => closed.push(*door),
            }
        }
        closed
    }

    /// Those that are no doors of others: an address leads into one region, so that it is this one
    /// that is tried when its doors are turned.
    fn leave_others(mut doors: Vec<Door>, others: &[&[Door]]) -> Vec<Door> {
        let is_others =
            |door: &Door| others.iter().any(|list| list.iter().any(|o| o.pc == door.pc));
        doors.retain(|door| !is_others(door) || mutant!("la64_region_takes_others_doors"));
        doors
    }

    /// Whether this is where control enters the region.
    #[cfg(test)]
    pub(in super::super::super) fn is_inside(&self, at: At) -> bool {
        self.inside == at.start as usize
    }

    /// Whether there was no such code before it.
    pub(in super::super::super) fn is_alone(&self) -> bool {
        self.outside.is_none()
    }

    /// Without the region this code is there.
    pub(in super::super::super) fn lead_aside(&mut self, at: At) {
        self.outside = Some(at.start as usize);
    }
}

/// Doors that are turned again and again, and the exits that lead there.
#[derive(Debug, Default)]
pub(in super::super::super) struct Doors {
    pub(in super::super::super) list: Vec<Door>,
    /// Sites of exits, and the number of the door.
    sites: Vec<(u32, usize)>,
    /// Exits that were looked at, and images.
    looked: usize,
    images_looked: usize,
}

impl Doors {
    pub(in super::super::super) fn of(list: Vec<Door>) -> Doors {
        Doors { list, ..Doors::default() }
    }
}

/// The code of a region, and where in it things are.
struct Region<'b> {
    block: Block<'b>,
    /// Where each instruction's code begins.
    begins: Vec<usize>,
    /// Behind the last one's.
    behind: usize,
}

impl Engine {
    /// Translates a region, whose instructions never change, for registers of which those in
    /// `short` were seen to hold short numbers: where it is entered, of its anchors that are no
    /// doors of other regions than number `own`, in whose place it comes. The lock is held. `None`
    /// if its code would be too long.
    pub(in super::super::super) fn translate_region(
        &self,
        filling: &mut Filling,
        (plan, list, short): (&Plan, &[Decoded], u32),
        own: Option<usize>,
        journal: &mut Journal,
    ) -> Option<Vec<Door>> {
        // Which checks ahead are worth it is known when the code is made without them inside.
        let all = Ahead { indexed: u32::MAX, short, near: Vec::new(), hosts: 0 };
        let ahead = self.build_region(filling, plan, list, &all).block.worth_a_check();
        let Region { block, begins, behind } = self.build_region(filling, plan, list, &ahead);
        if block.asm.bytes.len() > BLOCK_BYTES_MAX {
            return None;
        }
        if let Some(listed) = &mut journal.listed {
            listed.push(self.listing(&block, &begins, behind));
        }
        let entries = block.entries();
        let mut parts = Parts::of(block);
        let made = Made::Translated {
            instructions: list.len() as u64,
            map_bytes: map_bytes(&parts, None) as u64,
            is_region: true,
        };
        let host = self.arena.address(parts.start);
        let placed = Placed { guest: list[0].pc, host, len: parts.bytes.len() as u64 };
        self.put(filling, &mut parts);
        journal.note(placed, made);
        filling.in_regions.extend(plan.list.iter().copied());
        let door = |(&pc, inside)| Door { pc, inside, outside: self.start_of(pc) };
        let doors: Vec<Door> = plan.anchors.iter().zip(entries).map(door).collect();
        let others = filling.regions.iter().enumerate();
        let others = others.filter(|(n, kept)| Some(*n) != own && kept.judged != Judged::Away);
        let others: Vec<&[Door]> = others.map(|(_, kept)| &kept.doors[..]).collect();
        let doors = Door::leave_others(doors, &others);
        self.turn(filling, &mut Doors::of(doors.clone()), true);
        Some(doors)
    }

    /// A region's code, which nothing leads to yet.
    fn build_region<'b>(
        &'b self,
        filling: &Filling,
        plan: &'b Plan,
        list: &'b [Decoded],
        ahead: &Ahead,
    ) -> Region<'b> {
        let asm = Asm::new(self.floor + filling.used);
        let first_exit = self.exits.len() as u32;
        let mut block = Block::new(asm, self.shape, self.routines, &self.known, list, first_exit);
        block.floats = self.floats;
        block.enter_region(plan, ahead);
        let mut begins = vec![block.start; list.len()];
        for (n, segment) in plan.segments.iter().enumerate() {
            block.begin_segment(n);
            for at in segment.list.clone() {
                begins[at] = block.asm.here();
                if !block.ended {
                    instruction(&mut block, at);
                }
            }
            block.end_segment(n);
        }
        let behind = block.asm.here();
        block.finish();
        Region { block, begins, behind }
    }

    /// The doors `newer` take the place of those of an older region of the same loop. What leads to
    /// a door that is no more leads to the code that was there before. The lock is held.
    pub(in super::super::super) fn renew_doors(
        &self,
        filling: &mut Filling,
        older: &[Door],
        newer: &mut Vec<Door>,
    ) {
        let mut closed = Door::renew(older, newer);
        // The address may be a door of another region by now.
        closed.retain(|door| self.start_of(door.pc) == Some(door.inside));
        if !closed.is_empty() {
            self.turn(filling, &mut Doors::of(closed), false);
        }
    }

    /// What leads to the code of the doors' addresses leads into the region from now on, or to the
    /// code that was there before. The lock is held.
    pub(in super::super::super) fn turn(
        &self,
        filling: &mut Filling,
        doors: &mut Doors,
        inside: bool,
    ) {
        for n in doors.looked..self.exits.len() {
            let exit = self.exits.get(n).expect("invariant: below the length");
            let door = doors.list.iter().position(|d| d.pc == exit.target && !exit.plain);
            doors.sites.extend(exit.site.zip(door));
        }
        doors.looked = self.exits.len();
        let (list, sites) = (&doors.list, &mut doors.sites);
        for image in self.images.iter().skip(doors.images_looked) {
            for (door, Door { pc, .. }) in list.iter().enumerate() {
                sites.extend(image.sites_to(*pc).map(|site| (site, door)));
            }
            doors.images_looked += 1;
        }
        let starts: Vec<Option<usize>> = (doors.list.iter())
            .map(|door| if inside { Some(door.inside) } else { door.outside })
            .collect();
        for (door, start) in doors.list.iter().zip(&starts) {
            let Some(start) = *start else { continue };
            let (host, offset) = (self.arena.address(start), start as u32);
            let known = Known { key: door.pc, host, start: offset, body: offset, words: None };
            let (new, old) = self.known.insert(known);
            if let Some(old) = old {
                self.targets.replace(old, new);
            }
            filling.waiting.take(door.pc, |site| self.arena.patch(site as usize, start));
        }
        for &(site, door) in &doors.sites {
            if let Some(start) = starts[door] {
                self.arena.patch(site as usize, start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_door_of_one_region() {
        let door = |pc, inside| Door { pc, inside, outside: None };
        let (first, second) = ([door(0, 16), door(4, 32)], [door(8, 48)]);
        let doors = vec![door(4, 64), door(8, 80), door(12, 96)];
        assert_eq!(Door::leave_others(doors, &[&first[..], &second[..]]), [door(12, 96)]);
    }

    #[test]
    fn a_region_made_again_closes_the_doors_that_it_lacks() {
        let door = |pc, inside, outside| Door { pc, inside, outside };
        let older = [door(0, 16, Some(1)), door(4, 32, Some(2)), door(8, 48, None)];
        let mut newer = vec![door(0, 64, Some(16)), door(12, 80, Some(3))];
        assert_eq!(Door::renew(&older, &mut newer), [door(4, 32, Some(2))]);
        let wanted = [door(0, 64, Some(1)), door(12, 80, Some(3)), door(8, 48, None)];
        assert_eq!(newer, wanted);
    }
}
