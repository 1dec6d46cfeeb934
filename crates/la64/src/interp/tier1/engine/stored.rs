//! Blocks from the cache on disk: their code gets a place in the arena, and what depends on that
//! place, or on where the guest's program is, is written anew.

use super::super::super::Cpu;
use super::super::super::raw::Alone;
use super::super::super::record::{ExitOf, Record, add_long, get, set};
use super::super::super::translation::{Journal, Made};
use super::super::block::{Exit, Shape};
use super::super::parts::Parts;
use super::super::routines;
use super::super::slow::Slow;
use super::{At, BLOCK_BYTES_MAX, Engine, Filling, Key};
use crate::jit::emit::Asm;
use crate::memory::Window;

/// Guest programs move by whole pages: what is computed of an address without its lowest bits is
/// then right.
const PAGE_BYTES: u64 = 4096;

/// Facts about the host and its window that code relies on, and the routines that it calls.
pub(in super::super::super) fn relied_on(window: &Window, counted: bool) -> Vec<u8> {
    let (near, slack, guarded) = window.shape();
    let Shape { slack, near, guarded, counted } = Shape { slack, near, guarded, counted };
    let mut asm = Asm::new(0);
    routines::write(&mut asm);
    let mut facts = asm.bytes;
    facts.extend(near.to_le_bytes());
    facts.extend(slack.to_le_bytes());
    facts.extend([
        u8::from(guarded),
        u8::from(counted),
        u8::from(std::arch::is_x86_feature_detected!("avx2")),
        u8::from(std::arch::is_x86_feature_detected!("fma")),
        u8::from(std::arch::is_x86_feature_detected!("bmi1")),
        u8::from(std::arch::is_x86_feature_detected!("bmi2")),
        u8::from(std::arch::is_x86_feature_detected!("lzcnt")),
        u8::from(std::arch::is_x86_feature_detected!("avx512vl")),
    ]);
    facts
}

impl Engine {
    /// Adds the block of a record, whose instructions the caller has found in memory; `None` if the
    /// record contradicts itself. The lock is held.
    pub(in super::super::super) fn read(
        &self,
        filling: &mut Filling,
        record: &Record<'_>,
        key: Key,
        cpu: &Cpu,
        journal: &mut Journal,
    ) -> Option<At> {
        let mut parts = std::mem::take(&mut filling.spare);
        let placed = self.place(filling, &mut parts, record, key, cpu);
        let body = parts.start;
        let read = (Made::Read, journal);
        let at = placed.map(|()| self.publish(filling, key, (body, None), &mut parts, read));
        filling.spare = parts;
        at
    }

    /// Whether a record's block would get a place. Nothing of it is run.
    #[cfg(test)]
    pub(in super::super::super) fn has_place_for(
        &self,
        filling: &Filling,
        record: &Record<'_>,
        key: Key,
        cpu: &Cpu,
    ) -> bool {
        self.place(filling, &mut Parts::default(), record, key, cpu).is_some()
    }

    /// The parts of a record's block for the next place of the arena; `None` if it gets none, and
    /// parts then mean nothing.
    fn place(
        &self,
        filling: &Filling,
        parts: &mut Parts,
        record: &Record<'_>,
        key: Key,
        cpu: &Cpu,
    ) -> Option<()> {
        let moved = record.moved(key.pc);
        let len = record.code().len();
        if len > BLOCK_BYTES_MAX || !moved.is_multiple_of(PAGE_BYTES) {
            return None;
        }
        parts.begin(self.floor + filling.used, record.code());
        let Parts { start, bytes: code, exits, faults, slows, alone, .. } = parts;
        let start = *start;
        for site in record.relative() {
            add_long(code, site, moved)?;
        }
        for site in record.before() {
            let to = get(code, site).filter(|&to| (to as usize) < self.floor)?;
            set(code, site, to.wrapping_sub(start as u32 + site + 4))?;
        }
        self.place_exits(exits, (code, start), record, key)?;
        let inside = |at: u32| ((at as usize) <= len).then(|| start as u32 + at);
        for [at, landing] in record.faults() {
            faults.push((inside(at)?, inside(landing)?));
        }
        let instruction = |at| {
            let (from, word) = record.instruction(at)?;
            Some((key.pc.wrapping_add(from), word, at as u16))
        };
        for [back, at] in record.slows() {
            let (pc, word, before) = instruction(at)?;
            slows.push(Slow { pc, back: inside(back)?, word, before });
        }
        if !faults.is_sorted() || !slows.is_sorted_by_key(|slow| slow.back) {
            return None;
        }
        for [site, at] in record.alone() {
            let (pc, word, before) = instruction(at)?;
            let made = Box::new(Alone::new(pc, (self.slows.decode)(cpu, word, pc), before));
            set(code, site, made.address() as u32)?;
            set(code, site.checked_add(4)?, (made.address() >> 32) as u32)?;
            alone.push(made);
        }
        Some(())
    }

    /// Exits, linked to the blocks that exist, with numbers of this engine.
    fn place_exits(
        &self,
        exits: &mut Vec<Exit>,
        (code, start): (&mut [u8], usize),
        record: &Record<'_>,
        key: Key,
    ) -> Option<()> {
        for (number, exit) in (self.exits.len() as u32..).zip(record.exits()) {
            let ExitOf { to, site, id, plain, linked } = exit;
            set(code, id, number)?;
            let target = key.pc.wrapping_add(to);
            let mut exit = Exit { site: None, target, plain, linked };
            if let Some(site) = site {
                // Four bytes of one doubleword, as blocks begin at whole ones.
                get(code, site).filter(|_| site % 8 <= 4)?;
                exit.site = Some(start as u32 + site);
                if !linked && let Some(known) = self.known.find(exit.key()) {
                    set(code, site, known.start.wrapping_sub(start as u32 + site + 4))?;
                    exit.linked = true;
                }
            }
            exits.push(exit);
        }
        Some(())
    }
}
