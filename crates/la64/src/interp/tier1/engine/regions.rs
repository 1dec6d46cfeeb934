//! Regions in the arena: code of many paths takes the place of the blocks at its anchors.

use super::super::super::translation::{Journal, Made, Placed};
use super::super::block::{Ahead, Block, Decoded};
use super::super::known::Known;
use super::super::parts::Parts;
use super::super::plan::Plan;
use super::super::trace::{ByAddress, Stretch};
use super::{BLOCK_BYTES_MAX, Engine, Filling, instruction, map_bytes};
use crate::jit::emit::Asm;

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
    /// `short` were seen to hold short numbers. The lock is held. False if its code
    /// would be too long.
    pub(in super::super::super) fn translate_region(
        &self,
        filling: &mut Filling,
        (plan, list, short): (&Plan, &[Decoded], u32),
        journal: &mut Journal,
    ) -> bool {
        // Which checks ahead are worth it is known when the code is made without them inside.
        let all = Ahead { indexed: u32::MAX, short, near: Vec::new(), hosts: 0 };
        let ahead = self.build_region(filling, plan, list, &all).block.worth_a_check();
        let Region { block, begins, behind } = self.build_region(filling, plan, list, &ahead);
        if block.asm.bytes.len() > BLOCK_BYTES_MAX {
            return false;
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
        let entries: Vec<(u64, usize)> = plan.anchors.iter().copied().zip(entries).collect();
        self.publish_entries(filling, &entries);
        true
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

    /// What leads to the code of some addresses leads to a region's entries from now on.
    fn publish_entries(&self, filling: &mut Filling, entries: &[(u64, usize)]) {
        for &(pc, entry) in entries {
            let (host, start) = (self.arena.address(entry), entry as u32);
            let known = Known { key: pc, host, start, body: start, words: None };
            let (new, old) = self.known.insert(known);
            if let Some(old) = old {
                self.targets.replace(old, new);
            }
            filling.waiting.take(pc, |site| self.arena.patch(site as usize, entry));
        }
        for n in 0..self.exits.len() {
            let exit = self.exits.get(n).expect("invariant: below the length");
            let entry = entries.iter().find(|e| e.0 == exit.target && !exit.plain);
            if let (Some(site), Some(&(_, entry))) = (exit.site, entry) {
                self.arena.patch(site as usize, entry);
            }
        }
    }
}
