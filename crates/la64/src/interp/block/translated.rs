//! Translated code under the dispatch loop: running it, and making it where there is none.

use super::super::branch::Flow;
use super::super::code::{CodeCache, Filling};
use super::super::tier1::{self, Floats};
use super::super::{Cpu, Exit, Features, Fetch, Tier, Trap};
use super::{BLOCK_MAX, PAGE_WORDS, Run, Stop, instruction, instruction_of, joins_link, row_of};
use crate::isa::Group;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest block of translated code: a loop.
const LOOP_MAX: u64 = 256;
/// The opcode of `b`.
const B_OPCODE: u32 = 0x14;

impl<F: Fetch> Run<'_, F> {
    /// Runs translated code until a trap or `attention`; `None` when tier 0 has to go on: the
    /// budget ends soon, the x87 stack mode renames registers, or the host cannot.
    pub(super) fn run_translated(
        &mut self,
        cpu: &mut Cpu,
        attention: &AtomicBool,
        end: u64,
    ) -> Option<Stop> {
        let generation = self.generation;
        let Some(engine) = generation.engine(cpu, self.code.limits, instruction) else {
            self.own.interprets = true;
            return None;
        };
        self.run_engine(engine, cpu, attention, end)
    }

    /// Instructions that code may retire behind the end of its slice.
    fn longest(&self) -> u64 {
        match self.code.tier() {
            Tier::Regions => tier1::INSTRUCTIONS_MAX as u64,
            Tier::Interpreter | Tier::Blocks => LOOP_MAX,
        }
    }

    fn run_engine(
        &mut self,
        engine: &tier1::Engine,
        cpu: &mut Cpu,
        attention: &AtomicBool,
        end: u64,
    ) -> Option<Stop> {
        let (mut exit, mut plain) = (None, false);
        let longest = self.longest();
        loop {
            if attention.load(Ordering::Relaxed) {
                return Some(Trap::Attention.into());
            }
            let left = end - cpu.state.instructions;
            if left <= 2 * longest || cpu.state.lbt.stack_mode != 0 {
                return None;
            }
            if tier1::floats(cpu) != engine.floats() {
                return Some(Stop::Renewed);
            }
            let pc = cpu.state.pc;
            if !pc.is_multiple_of(4) {
                return Some(Trap::Fetch(pc).into());
            }
            if self.is_watch_due(cpu) {
                if let Some(stop) = self.watch(engine, cpu, attention, end - 2 * longest) {
                    return Some(stop);
                }
                (exit, plain) = (None, false);
                continue;
            }
            self.begin_trial(engine, cpu);
            let key = tier1::Key { pc, plain: std::mem::take(&mut plain) };
            let found = match engine.find(key, cpu) {
                Some(at) => Ok(Some(at)),
                None => self.translate(engine, cpu, key),
            };
            match found {
                Ok(Some(at)) => {
                    match exit.take() {
                        Some(exit) => engine.link(exit, at),
                        None => engine.remember(pc),
                    }
                    self.own.journal.total.exits += 1;
                    let slice = (left - longest).min(self.code.limits.slice);
                    let left = self.stay(engine, cpu, attention, (at, slice));
                    self.own.journal.note_calls(cpu.take_calls());
                    match left {
                        tier1::Left::By(taken) => exit = Some(taken),
                        tier1::Left::Plain(taken) => (exit, plain) = (Some(taken), true),
                        tier1::Left::Elsewhere => {}
                        tier1::Left::Trapped => return Some(cpu.trap.into()),
                    }
                }
                Ok(None) => {
                    exit = None;
                    self.own.journal.total.interpreted += 1;
                    if let Some(stop) = self.run_block(cpu) {
                        return Some(stop);
                    }
                }
                Err(stop) => return Some(stop),
            }
            if !self.generation.is_current() {
                return Some(Stop::Renewed);
            }
        }
    }

    /// The code at `pc`, made if there is none; `None` if tier 0 is to run the block.
    fn translate(
        &mut self,
        engine: &tier1::Engine,
        cpu: &Cpu,
        key: tier1::Key,
    ) -> Result<Option<tier1::At>, Stop> {
        let mut filling = self.generation.fill();
        let own = engine.floats() as usize;
        if let Some(at) = engine.find_compared(&mut filling.tier1[own], key, cpu, self.fetch) {
            return Ok(Some(at));
        }
        if filling.tier1[own].waits(key.pc) {
            return Ok(None);
        }
        if engine.is_spent(&filling.tier1[own], cpu) {
            drop(filling);
            self.code.renew(self.generation);
            return Err(Stop::Renewed);
        }
        let code = self.code;
        let kept = self.origin(key.pc).and_then(|origin| Some((code.store()?, origin)));
        if let Some(kept) = kept
            && let Some(at) = self.read(engine, &mut filling, (cpu, key), kept)
        {
            return Ok(Some(at));
        }
        let (list, epoch) = self.decode_for(engine, &mut filling, cpu, key.pc)?;
        let origin = kept.filter(|_| epoch.is_none()).map(|kept| kept.1);
        let keep = (key.plain, self.keeps(origin, cpu, &list));
        let journal = &mut self.own.journal;
        let filling = &mut filling.tier1[own];
        let (at, record) = engine.translate(filling, keep, &list, epoch, journal);
        self.keep(kept, engine, key.plain, record);
        Ok(Some(at))
    }

    /// Runs one block on tier 0; `None` if no trap ended it.
    pub(super) fn run_block(&mut self, cpu: &mut Cpu) -> Option<Stop> {
        let generation = self.generation;
        let code = match self.lookup(cpu) {
            Ok(code) => code,
            Err(stop) => return Some(stop),
        };
        let jumps = self.own.jumps.as_ref().expect("invariant: made by `lookup`");
        match generation.blocks.run(code, cpu, jumps, 0).0 {
            Exit::Trap => Some(cpu.trap.into()),
            Exit::Direct | Exit::Indirect => None,
        }
    }

    /// The instructions of a block for tier 1, which goes on behind unconditional branches, and the
    /// epoch before they were read if they may change.
    pub(super) fn decode_for(
        &self,
        engine: &tier1::Engine,
        filling: &mut Filling,
        cpu: &Cpu,
        pc: u64,
    ) -> Result<(Vec<tier1::Decoded>, Option<u64>), Trap> {
        let epoch = cpu.epoch.now();
        let (mut list, mut next) = (Vec::new(), pc);
        let (mut inside, mut written) = (0..0, false);
        // What leads back may lead to a region, once there is one.
        let has_regions = self.code.tier() == Tier::Regions;
        let goes_on = |b: &tier1::Decoded| !has_regions || b.target() > b.pc;
        while (list.len() as u64) < LOOP_MAX && next.is_multiple_of(4) {
            // Only a loop is longer than other blocks.
            let long = list.len() as u64 == BLOCK_MAX;
            if long && (written || tier1::back_edge(&list).is_some()) {
                break;
            }
            if !inside.contains(&next) {
                let Some(text) = self.fetch.text(next) else { break };
                inside = next..text.end;
                written |= text.written;
            }
            if list.is_empty() || next.is_multiple_of(4 * PAGE_WORDS) {
                filling.note_text(next);
            }
            let Some(word) = cpu.window.load::<u32>(next).filter(|_| inside.contains(&next)) else {
                break;
            };
            let read = |at: u64| cpu.window.load::<u32>(at);
            let (decoded, flow) =
                decoded(self.code, engine.floats(), cpu.features, (word, next), read);
            next = match flow {
                Flow::Direct if word >> 26 == B_OPCODE && goes_on(&decoded) => decoded.target(),
                _ => next + 4,
            };
            if next != decoded.pc + 4 {
                filling.note_text(next);
            }
            let ends = decoded.last || flow == Flow::End || next == pc;
            let ends = ends || flow == Flow::Direct && next == decoded.pc + 4;
            list.push(decoded);
            if ends {
                break;
            }
        }
        if list.is_empty() {
            return Err(Trap::Fetch(pc));
        }
        if written || tier1::back_edge(&list).is_none() {
            list.truncate(BLOCK_MAX as usize);
        }
        Ok((list, written.then_some(epoch)))
    }
}

/// One instruction for tier 1, and where control goes from it. `read` gives words before it.
pub(super) fn decoded(
    code: &CodeCache,
    floats: Floats,
    features: Features,
    (word, pc): (u32, u64),
    read: impl Fn(u64) -> Option<u32>,
) -> (tier1::Decoded, Flow) {
    let row = row_of(features, word);
    let (mut inst, _, flow) = instruction_of(row, word, pc, 1);
    let joins_link = joins_link(&mut inst, word, pc, read);
    let group = row.map(|(id, _)| id.row().group);
    if let Some(group) = group {
        code.note(group);
    }
    let wide = group == Some(Group::Lasx);
    let lowering = row.and_then(|(_, known)| known.lowering);
    let mixes = lowering.is_some_and(|lowering| lowering.mixes.holds(wide));
    let soft = group.is_none_or(|group| floats.leaves(group, mixes));
    let lowering = lowering.filter(|_| !joins_link && (!soft || flow != Flow::Straight));
    let control = row.is_some_and(|(_, known)| known.control);
    let last = row.is_some_and(|(_, known)| known.last);
    let branches = matches!(flow, Flow::Conditional | Flow::Direct);
    let operands = row.map(|(_, known)| known.operands).unwrap_or_default();
    let decoded =
        tier1::Decoded { pc, word, inst, lowering, operands, branches, wide, control, last };
    (decoded, flow)
}
