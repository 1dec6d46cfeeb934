//! Blocks: decoding them, keeping them, and the dispatch loop over them.
//!
//! Blocks that are known to follow each other do so without this loop, for at most [`SLICE`]
//! instructions; then it looks at the attention flag and the budget.
//!
//! Invariants
//! - A block never crosses a page, so one check of execute permission covers it.
//! - Blocks are dropped only all together by [`Cache::clear`], while none runs, so a stale link
//!   cannot exist.
//! - The count is exact: a block adds its length when it is left, or the index of the instruction
//!   that trapped.
//! - `pc` is the address of the running block's first instruction until it is left.

use super::raw::{Blocks, Code, Link, Place};
use super::{Cpu, Exit, Handler, Inst, Slot, Trap, bind, branch};
use crate::isa::{self, Group, Row, RowId};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest block in instructions.
const BLOCK_MAX: u64 = 64;
const PAGE_WORDS: u64 = 1024;
/// Instructions after which the dispatch loop is entered again: also how deep handlers may nest
/// where the compiler does not turn their calls into jumps.
const SLICE: u64 = 1024;

/// Where instruction words come from, with execute permission checked.
pub trait Fetch {
    /// The word at an aligned address, `None` if it cannot be executed.
    fn fetch(&self, cpu: &Cpu, pc: u64) -> Option<u32>;
}

/// Decoded blocks of one thread.
#[derive(Debug)]
pub struct Cache {
    blocks: Blocks,
    /// Every block, by pc.
    by_pc: std::collections::HashMap<u64, u32>,
    handlers: Box<[Option<Handler>]>,
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            blocks: Blocks::default(),
            by_pc: std::collections::HashMap::new(),
            handlers: vec![None; isa::ROWS.len()].into(),
        }
    }
}

impl Cache {
    /// Forgets all blocks: code changed.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.by_pc.clear();
    }

    /// Blocks decoded since the cache was last cleared.
    pub fn len(&self) -> usize {
        self.blocks.count()
    }

    /// True when nothing is decoded.
    pub fn is_empty(&self) -> bool {
        self.blocks.count() == 0
    }

    /// Runs until a trap, or until `attention` is set or about `budget` more instructions retired
    /// (exactly `budget` when the rest of the program is longer).
    pub fn run(
        &mut self,
        cpu: &mut Cpu,
        fetch: &impl Fetch,
        attention: &AtomicBool,
        budget: u64,
    ) -> Trap {
        let end = cpu.state.instructions.saturating_add(budget);
        let mut unlinked = false;
        loop {
            if attention.load(Ordering::Relaxed) {
                return Trap::Attention;
            }
            let at = match self.lookup(cpu, fetch) {
                Ok(at) => at,
                Err(trap) => return trap,
            };
            if unlinked {
                self.blocks.link(at);
            }
            if end - cpu.state.instructions < self.blocks.len(at) {
                return self.run_short(cpu, fetch, end);
            }
            // Blocks behind this one are entered only while the budget allows the longest.
            let slice = end.saturating_sub(BLOCK_MAX).min(cpu.state.instructions + SLICE);
            match self.blocks.run(at, cpu, slice) {
                Exit::Trap => return settle(cpu),
                exit => unlinked = exit == Exit::Direct,
            }
        }
    }

    fn lookup(&mut self, cpu: &Cpu, fetch: &impl Fetch) -> Result<u32, Trap> {
        let pc = cpu.state.pc;
        let at = match self.by_pc.get(&pc) {
            Some(&at) => at,
            None => self.insert(cpu, fetch, pc)?,
        };
        self.blocks.remember(pc, at);
        Ok(at)
    }

    fn insert(&mut self, cpu: &Cpu, fetch: &impl Fetch, pc: u64) -> Result<u32, Trap> {
        let code = self.decode(cpu, fetch, pc, BLOCK_MAX)?;
        let at = self.blocks.push(code);
        self.by_pc.insert(pc, at);
        Ok(at)
    }

    /// Executes one instruction without keeping it: `OutOfBudget` if it retired.
    pub fn step(&mut self, cpu: &mut Cpu, fetch: &impl Fetch) -> Trap {
        let end = cpu.state.instructions + 1;
        self.run_short(cpu, fetch, end)
    }

    /// Executes the instructions that the budget still allows, fewer than a block.
    fn run_short(&mut self, cpu: &mut Cpu, fetch: &impl Fetch, end: u64) -> Trap {
        let left = end - cpu.state.instructions;
        if left == 0 {
            return Trap::OutOfBudget;
        }
        let pc = cpu.state.pc;
        let code = match self.decode(cpu, fetch, pc, left) {
            Ok(code) => code,
            Err(trap) => return trap,
        };
        match code.run_alone(cpu) {
            Exit::Trap => settle(cpu),
            _ => {
                assert_eq!(cpu.state.instructions, end, "the block was cut to the budget");
                Trap::OutOfBudget
            }
        }
    }

    /// Decodes at most `limit` instructions from `pc`. The first word must be fetchable; a later
    /// one that is not ends the block, so the fault comes when control really arrives there.
    fn decode(&mut self, cpu: &Cpu, fetch: &impl Fetch, pc: u64, limit: u64) -> Result<Code, Trap> {
        if !pc.is_multiple_of(4) {
            return Err(Trap::Fetch(pc));
        }
        let room = PAGE_WORDS - (pc >> 2) % PAGE_WORDS;
        let mut list: Vec<Inst> = Vec::new();
        let mut next = pc;
        while (list.len() as u64) < limit.min(room) {
            let Some(word) = fetch.fetch(cpu, next) else { break };
            let (inst, last) = self.instruction(cpu, word, next, list.len() as u16);
            list.push(inst);
            next += 4;
            if last {
                break;
            }
        }
        match list.is_empty() {
            true => Err(Trap::Fetch(pc)),
            false => Ok(Code::new(list, next)),
        }
    }

    /// One pre-decoded instruction and whether it ends its block.
    fn instruction(&mut self, cpu: &Cpu, word: u32, pc: u64, index: u16) -> (Inst, bool) {
        let row = isa::decode(word).filter(|id| announced(cpu, id.row()));
        let Some((id, handler)) = row.and_then(|id| Some((id, self.handler(id)?))) else {
            return (inst(bind::illegal, word, pc, index, i64::from(word), 0), true);
        };
        let row = id.row();
        let imm = i64::from(row.immediate(word, 0));
        let imm = branch::absolute(row.mnemonic, pc, imm).unwrap_or(imm);
        let imm2 = row.immediate(word, 1) as u8;
        (inst(handler, word, pc, index, imm, imm2), branch::ends_block(row.mnemonic))
    }

    fn handler(&mut self, id: RowId) -> Option<Handler> {
        let known = &mut self.handlers[usize::from(id.0)];
        if known.is_none() {
            *known = bind::handler(id.row());
        }
        *known
    }
}

fn inst(handler: Handler, word: u32, _pc: u64, index: u16, imm: i64, imm2: u8) -> Inst {
    let register = |lo: u32| Slot::new((word >> lo & 31) as u8);
    let to = if word & 31 == 0 { Slot::new(32) } else { register(0) };
    let (rd, rj, rk, ra) = (register(0), register(5), register(10), register(15));
    let link = Link::new(Place::NONE);
    Inst { handler, imm, link, index, imm2, to, rd, rj, rk, ra }
}

/// Executes one word that does not branch.
#[cfg(test)]
pub(super) fn step(cpu: &mut Cpu, word: u32) {
    let (inst, _) = Cache::default().instruction(cpu, word, 0, 0);
    assert_eq!(Code::new(vec![inst], 4).run_alone(cpu), Exit::Direct, "{word:08x}");
}

fn announced(cpu: &Cpu, row: &Row) -> bool {
    let features = cpu.features;
    let group = match row.group {
        Group::Base | Group::Float => true,
        Group::Lsx => features.lsx,
        Group::Lasx => features.lasx,
        Group::Lbt => features.lbt,
        Group::System => false,
    };
    group && (features.v1_1 || !row.v1_1)
}

/// Accounts for the instructions before (and, after a system call, including) the trapping one.
#[cold]
fn settle(cpu: &mut Cpu) -> Trap {
    let retired = u64::from(cpu.trap_index)
        + u64::from(matches!(cpu.trap, Trap::Syscall | Trap::CodeChanged));
    cpu.state.instructions += retired;
    cpu.state.pc += 4 * retired;
    cpu.trap
}
