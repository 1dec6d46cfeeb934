//! Blocks: decoding them, keeping them, and the dispatch loop over them.
//!
//! Blocks that are known to follow each other do so without this loop, for at most [`SLICE`]
//! instructions; then it looks at the attention flag and the budget.
//!
//! Invariants
//! - A block never crosses a page, so one check of execute permission covers it.
//! - Blocks are dropped only all together by [`Cache::clear`], while none runs, so a link never
//!   leads nowhere.
//! - A block in memory that was ever writable begins with a check: control passes it only in the
//!   epoch (see `epoch`) in which the block's words were last compared with memory. The loop
//!   compares them otherwise, and enters the block behind its check, so that it goes on even while
//!   other threads advance the epoch without end. A block found stale leads to its successor.
//!   Checked by `set_epoch`.
//! - The count is exact: a block adds the place of the instruction by which it is left, or of the
//!   one before that which trapped.
//! - `State::pc` and `State::instructions` are up to date whenever [`Cache::run`] returns, not
//!   while handlers run: those find the address of their instruction through its block.
//! - A pair (see `pairs`) has the code of two instructions in the first one's handler; the second
//!   keeps its own, and each its own fields, so faults and counts are those of single ones.

use super::bind::Adjust;
use super::branch::Flow;
use super::pairs::{Key, Special};
use super::raw::{Blocks, Code, Link, Place};
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
use super::tier1;
use super::translation::{Journal, Placed, Translation};
use super::{Cpu, Exit, Fetch, Handler, Inst, Slot, Tier, Trap, bind, branch, operation, pairs};
use crate::isa::{self, Group, Row, RowId};
use littoral_base::mutant;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest block in instructions.
const BLOCK_MAX: u64 = 64;
const PAGE_WORDS: u64 = 1024;
/// Stale blocks that are kept besides as many as there are current ones.
const STALE_MAX: usize = 1024;
/// Instructions after which the dispatch loop is entered again: also how deep handlers may nest
/// where the compiler does not turn their calls into jumps.
const SLICE: u64 = 1024;
/// The same for translated code, which nests nothing.
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
const SLICE_TRANSLATED: u64 = 1 << 16;
/// The opcode of `b`.
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
const B_OPCODE: u32 = 0x14;

/// Which extensions a thread has decoded instructions of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// 128-bit vectors.
    pub lsx: bool,
    /// 256-bit vectors.
    pub lasx: bool,
    /// Binary translation assists.
    pub lbt: bool,
}

/// Decoded blocks of one thread.
#[derive(Debug)]
pub struct Cache {
    blocks: Blocks,
    /// Every block, by pc.
    by_pc: std::collections::HashMap<u64, u32>,
    known: Box<[Option<Known>]>,
    used: Used,
    #[cfg_attr(
        not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")),
        expect(dead_code, reason = "one tier only")
    )]
    tier: Tier,
    journal: Journal,
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    engine: Option<Box<tier1::Engine>>,
}

/// What is fixed about a row.
#[derive(Clone, Copy, Debug)]
struct Known {
    handler: Handler,
    flow: Flow,
    adjust: Adjust,
    key: Key,
    /// A form that is less work, with its places in pairs.
    special: Option<(Special, Key)>,
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    lowering: Option<&'static tier1::Lowering>,
}

impl Default for Cache {
    fn default() -> Self {
        Cache::new(Tier::default())
    }
}

impl Cache {
    /// An empty cache whose blocks run on `tier`, or on the best one below that the host has.
    pub fn new(tier: Tier) -> Cache {
        Cache {
            blocks: Blocks::default(),
            by_pc: std::collections::HashMap::new(),
            known: vec![None; isa::ROWS.len()].into(),
            used: Used::default(),
            tier,
            journal: Journal::default(),
            #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
            engine: None,
        }
    }

    /// Forgets all blocks: code changed.
    pub fn clear(&mut self) {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        if let Some(engine) = &mut self.engine {
            engine.clear();
        }
        self.blocks.clear();
        self.by_pc.clear();
    }

    /// Extensions of which the thread has decoded instructions in its life.
    pub fn used(&self) -> Used {
        self.used
    }

    /// Blocks decoded since the cache was last cleared.
    pub fn len(&self) -> usize {
        self.blocks.count() + self.translated()
    }

    /// Blocks that were translated to code of the host.
    pub fn translated(&self) -> usize {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        return self.engine.as_ref().map_or(0, |e| e.len());
        #[cfg(not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
        0
    }

    /// What the translator has done in the thread's life.
    pub fn translation(&self) -> Translation {
        self.journal.total
    }

    /// Records from now on where translated blocks lie.
    pub fn record_places(&mut self) {
        self.journal.placed.get_or_insert_default();
    }

    /// The blocks translated since the last call, if places are recorded.
    pub fn take_places(&mut self) -> Vec<Placed> {
        self.journal.placed.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// True when nothing is decoded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        let trap = self.run_to(cpu, fetch, attention, end);
        // What tiers leave in the sink differs, and nothing reads it.
        cpu.state.x[32] = 0;
        trap
    }

    fn run_to(
        &mut self,
        cpu: &mut Cpu,
        fetch: &impl Fetch,
        attention: &AtomicBool,
        end: u64,
    ) -> Trap {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        if self.tier >= Tier::Blocks
            && let Some(trap) = self.run_translated(cpu, fetch, attention, end)
        {
            return trap;
        }
        self.interpret(cpu, fetch, attention, end)
    }

    /// Tier 0: runs until a trap, `attention`, or the count `end`.
    fn interpret(
        &mut self,
        cpu: &mut Cpu,
        fetch: &impl Fetch,
        attention: &AtomicBool,
        end: u64,
    ) -> Trap {
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
            let left = end - cpu.state.instructions;
            if left < self.blocks.len(at) {
                match self.run_short(cpu, fetch, end) {
                    Some(trap) => return trap,
                    None => continue,
                }
            }
            // Blocks behind this one are entered only while the budget allows the longest.
            let slice = left.saturating_sub(BLOCK_MAX).min(SLICE);
            match self.blocks.run(at, cpu, slice) {
                Exit::Trap => return cpu.trap,
                exit => unlinked = exit == Exit::Direct,
            }
        }
    }

    fn lookup(&mut self, cpu: &Cpu, fetch: &impl Fetch) -> Result<u32, Trap> {
        let pc = cpu.state.pc;
        let at = match self.by_pc.get(&pc).copied() {
            Some(at) if self.is_current(cpu, fetch, at) => at,
            old => self.insert(cpu, fetch, pc, old)?,
        };
        self.blocks.remember(pc, at);
        Ok(at)
    }

    /// Whether a block has the instructions that memory has; compares them once an epoch.
    fn is_current(&mut self, cpu: &Cpu, fetch: &impl Fetch, at: u32) -> bool {
        let now = cpu.epoch.now();
        let block = self.blocks.get(at);
        if block.epoch().is_none_or(|epoch| epoch == now) || mutant!("la64_stale_blocks_stay") {
            return true;
        }
        let Some(text) = fetch.text(block.pc()) else { return false };
        let same = |(n, &word): (usize, &u32)| {
            let pc = block.pc() + 4 * n as u64;
            pc < text.end && cpu.window.load::<u32>(pc) == Some(word)
        };
        let is_current = block.words().iter().enumerate().all(same);
        if is_current {
            block.set_epoch(now);
        }
        is_current
    }

    /// Decodes the block at `pc`, in the place of the stale block `old`.
    fn insert(
        &mut self,
        cpu: &Cpu,
        fetch: &impl Fetch,
        pc: u64,
        old: Option<u32>,
    ) -> Result<u32, Trap> {
        let code = self.decode(cpu, fetch, pc, BLOCK_MAX)?;
        // Stale blocks are kept because links lead to them; not for ever.
        let full = self.blocks.count() > STALE_MAX + 2 * self.by_pc.len();
        if full {
            self.clear();
        }
        let at = self.blocks.push(code);
        self.by_pc.insert(pc, at);
        if let Some(old) = old.filter(|_| !full) {
            self.blocks.forward(old, at);
        }
        Ok(at)
    }

    /// Executes one instruction without keeping it: `OutOfBudget` if it retired.
    pub fn step(&mut self, cpu: &mut Cpu, fetch: &impl Fetch) -> Trap {
        let end = cpu.state.instructions + 1;
        self.run_short(cpu, fetch, end).unwrap_or(Trap::OutOfBudget)
    }

    /// Executes at most the instructions that the budget still allows, fewer than a block; `None`
    /// if a branch left them early.
    fn run_short(&mut self, cpu: &mut Cpu, fetch: &impl Fetch, end: u64) -> Option<Trap> {
        let left = end - cpu.state.instructions;
        if left == 0 {
            return Some(Trap::OutOfBudget);
        }
        let code = match self.decode(cpu, fetch, cpu.state.pc, left) {
            Ok(code) => code,
            Err(trap) => return Some(trap),
        };
        let exit = code.run_alone(cpu);
        assert!(cpu.state.instructions <= end, "the block was cut to the budget");
        match exit {
            Exit::Trap => Some(cpu.trap),
            _ => (cpu.state.instructions == end).then_some(Trap::OutOfBudget),
        }
    }

    /// Decodes at most `limit` instructions from `pc`. The first word must be fetchable; a later
    /// one that is not ends the block, so the fault comes when control really arrives there.
    fn decode(&mut self, cpu: &Cpu, fetch: &impl Fetch, pc: u64, limit: u64) -> Result<Code, Trap> {
        if !pc.is_multiple_of(4) {
            return Err(Trap::Fetch(pc));
        }
        let text = fetch.text(pc).ok_or(Trap::Fetch(pc))?;
        // Before the words are read: see `epoch`.
        let epoch = text.written.then(|| cpu.epoch.now());
        let room = PAGE_WORDS - (pc >> 2) % PAGE_WORDS;
        let (mut list, mut keys, mut exits) = (Vec::new(), Vec::new(), Vec::new());
        let mut words = Vec::new();
        let mut next = pc;
        while (list.len() as u64) < limit.min(room) {
            if next >= text.end {
                break;
            }
            let Some(word) = cpu.window.load::<u32>(next) else { break };
            let at = list.len() as u16;
            let (inst, key, flow) = self.instruction(cpu, word, next, at + 1);
            list.push(inst);
            keys.push(key);
            words.push(word);
            next += 4;
            if matches!(flow, Flow::Conditional | Flow::Direct) {
                exits.push(at);
            }
            if matches!(flow, Flow::Direct | Flow::End) {
                break;
            }
        }
        if list.is_empty() {
            return Err(Trap::Fetch(pc));
        }
        join_pairs(&mut list, &keys);
        Ok(match epoch {
            Some(epoch) => Code::checked(pc, list, &exits, (epoch, words)),
            None => Code::new(pc, list, &exits),
        })
    }

    /// One pre-decoded instruction, its places in pairs, and where control goes from it.
    fn instruction(&mut self, cpu: &Cpu, word: u32, pc: u64, count: u16) -> (Inst, Key, Flow) {
        let row = isa::decode(word).filter(|id| announced(cpu, id.row()));
        let Some((id, known)) = row.and_then(|id| Some((id, self.known(id)?))) else {
            let inst = inst(operation::illegal, word, count, i64::from(word), 0);
            return (inst, Key::default(), Flow::End);
        };
        let row = id.row();
        let imm = (known.adjust)(word, pc, i64::from(row.immediate(word, 0)));
        let imm2 = row.immediate(word, 1) as u8;
        let (handler, key) = match known.special.filter(|s| (s.0.fits)(word)) {
            Some((special, key)) => (special.handler, key),
            None => (known.handler, known.key),
        };
        (inst(handler, word, count, imm, imm2), key, known.flow)
    }

    fn known(&mut self, id: RowId) -> Option<Known> {
        let place = &mut self.known[usize::from(id.0)];
        if place.is_none() {
            let name = id.row().mnemonic;
            match id.row().group {
                Group::Lsx => self.used.lsx = true,
                Group::Lasx => self.used.lasx = true,
                Group::Lbt => self.used.lbt = true,
                _ => {}
            }
            let special = pairs::special(name).map(|s| (s, Key::of(s.name)));
            let (flow, adjust, key) = (branch::flow(name), bind::adjust(name), Key::of(name));
            *place = bind::handler(id.row()).map(|handler| Known {
                handler,
                flow,
                adjust,
                key,
                special,
                #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
                lowering: tier1::lowering(name),
            });
        }
        *place
    }
}

/// Tier 1.
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
impl Cache {
    /// Runs translated code until a trap or `attention`; `None` when tier 0 has to go on: the
    /// budget ends soon, the x87 stack mode renames registers, or the host cannot.
    fn run_translated(
        &mut self,
        cpu: &mut Cpu,
        fetch: &impl Fetch,
        attention: &AtomicBool,
        end: u64,
    ) -> Option<Trap> {
        let mut engine = match self.engine.take() {
            Some(engine) => engine,
            None => match tier1::Engine::new(cpu) {
                Some(engine) => Box::new(engine),
                None => {
                    self.tier = Tier::Interpreter;
                    return None;
                }
            },
        };
        let trap = self.run_engine(&mut engine, cpu, fetch, attention, end);
        self.engine = Some(engine);
        trap
    }

    fn run_engine(
        &mut self,
        engine: &mut tier1::Engine,
        cpu: &mut Cpu,
        fetch: &impl Fetch,
        attention: &AtomicBool,
        end: u64,
    ) -> Option<Trap> {
        let mut exit = None;
        loop {
            if attention.load(Ordering::Relaxed) {
                return Some(Trap::Attention);
            }
            let left = end - cpu.state.instructions;
            if left <= 2 * BLOCK_MAX || cpu.state.lbt.stack_mode != 0 {
                return None;
            }
            let pc = cpu.state.pc;
            if engine.make_room(cpu) {
                exit = None;
            }
            let at = match engine.find(pc, cpu, fetch) {
                Some(at) => at,
                None if engine.waits(pc) => {
                    exit = None;
                    match self.run_block(cpu, fetch) {
                        Some(trap) => return Some(trap),
                        None => continue,
                    }
                }
                None => match self.decode_for(engine, cpu, fetch, pc) {
                    Ok((list, epoch)) => engine.translate(&list, epoch, &mut self.journal),
                    Err(trap) => return Some(trap),
                },
            };
            match exit.take() {
                Some(exit) => engine.link(exit, at),
                None => engine.remember(pc, at),
            }
            self.journal.total.exits += 1;
            match engine.run(cpu, at, (left - BLOCK_MAX).min(SLICE_TRANSLATED)) {
                tier1::Left::By(taken) => exit = Some(taken),
                tier1::Left::Elsewhere => {}
                tier1::Left::Trapped => return Some(cpu.trap),
            }
        }
    }

    /// Runs one block on tier 0; `None` if no trap ended it.
    fn run_block(&mut self, cpu: &mut Cpu, fetch: &impl Fetch) -> Option<Trap> {
        match self.lookup(cpu, fetch) {
            Ok(at) => match self.blocks.run(at, cpu, 0) {
                Exit::Trap => Some(cpu.trap),
                Exit::Direct | Exit::Indirect => None,
            },
            Err(trap) => Some(trap),
        }
    }

    /// The instructions of a block for tier 1, which goes on behind unconditional branches, and the
    /// epoch before they were read if they may change.
    fn decode_for(
        &mut self,
        engine: &tier1::Engine,
        cpu: &Cpu,
        fetch: &impl Fetch,
        pc: u64,
    ) -> Result<(Vec<tier1::Decoded>, Option<u64>), Trap> {
        let epoch = cpu.epoch.now();
        let (mut list, mut next) = (Vec::new(), pc);
        let (mut inside, mut written) = (0..0, false);
        while (list.len() as u64) < BLOCK_MAX && next.is_multiple_of(4) {
            if !inside.contains(&next) {
                let Some(text) = fetch.text(next) else { break };
                inside = next..text.end;
                written |= text.written;
            }
            let Some(word) = cpu.window.load::<u32>(next).filter(|_| inside.contains(&next)) else {
                break;
            };
            let (decoded, flow) = self.decoded(engine, cpu, word, next);
            next = match flow {
                Flow::Direct if word >> 26 == B_OPCODE => decoded.inst.imm as u64,
                _ => next + 4,
            };
            let ends = decoded.last || flow == Flow::End;
            let ends = ends || flow == Flow::Direct && next == decoded.pc + 4;
            list.push(decoded);
            if ends {
                break;
            }
        }
        if list.is_empty() {
            return Err(Trap::Fetch(pc));
        }
        Ok((list, written.then_some(epoch)))
    }

    /// One instruction for tier 1, and where control goes from it.
    fn decoded(
        &mut self,
        engine: &tier1::Engine,
        cpu: &Cpu,
        word: u32,
        pc: u64,
    ) -> (tier1::Decoded, Flow) {
        let (inst, _, flow) = self.instruction(cpu, word, pc, 1);
        let row = isa::decode(word).filter(|id| announced(cpu, id.row()));
        let known = row.and_then(|id| self.known(id));
        let group = row.map(|id| id.row().group);
        let soft = engine.is_trapping() && group != Some(Group::Base);
        let lowering = known.and_then(|k| k.lowering).filter(|_| !soft || flow != Flow::Straight);
        let control = row.is_some_and(|id| id.row().mnemonic.contains("fcsr"));
        let last = group == Some(Group::Lbt);
        let wide = group == Some(Group::Lasx);
        (tier1::Decoded { pc, word, inst, lowering, wide, control, last }, flow)
    }
}

/// Gives the first of two instructions that have code in common that code, from the front.
fn join_pairs(list: &mut [Inst], keys: &[Key]) {
    let mut at = 0;
    while at + 1 < list.len() {
        match pairs::find(keys[at], keys[at + 1]) {
            Some(handler) => {
                list[at].handler = handler;
                at += 2;
            }
            None => at += 1,
        }
    }
}

fn inst(handler: Handler, word: u32, count: u16, imm: i64, imm2: u8) -> Inst {
    let register = |lo: u32| Slot::new((word >> lo & 31) as u8);
    let to = if word & 31 == 0 { Slot::new(32) } else { register(0) };
    let (rd, rj, rk, ra) = (register(0), register(5), register(10), register(15));
    let link = Link::new(Place::NONE);
    Inst { handler, imm, link, count, imm2, to, rd, rj, rk, ra }
}

/// Executes one word that does not branch.
#[cfg(test)]
pub(super) fn step(cpu: &mut Cpu, word: u32) {
    let (inst, ..) = Cache::default().instruction(cpu, word, 0, 1);
    assert_eq!(Code::new(0, vec![inst], &[]).run_alone(cpu), Exit::Direct, "{word:08x}");
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

#[cfg(test)]
mod tests {
    use super::super::{Features, Text};
    use super::*;
    use crate::memory::Memory;

    struct Anywhere;

    impl Fetch for Anywhere {
        fn text(&self, _: u64) -> Option<Text> {
            Some(Text { end: u64::MAX, written: true })
        }
    }

    #[test]
    fn what_the_machine_does_not_announce_is_no_instruction() {
        let none = Features { lsx: false, lasx: false, lbt: false, v1_1: false };
        for (name, features) in [
            ("vadd.b", Features { lsx: true, ..none }),
            ("xvadd.b", Features { lasx: true, ..none }),
            ("movgr2scr", Features { lbt: true, ..none }),
            ("frecipe.d", Features { v1_1: true, ..none }),
        ] {
            let word = isa::find(name).unwrap().row().word;
            let step = |features| {
                let memory = Memory::new(4096);
                let mut cpu = Cpu::new(memory.window(), features);
                cpu.window.store(0, word).unwrap();
                (Cache::default().step(&mut cpu, &Anywhere), cpu.state.instructions)
            };
            assert_eq!(step(none), (Trap::Illegal(word), 0), "{name}");
            assert_eq!(step(features), (Trap::OutOfBudget, 1), "{name}");
        }
    }
}
