//! Blocks: decoding them, and the dispatch loop over them.
//!
//! Blocks that are known to follow each other do so without this loop, for at most [`SLICE`]
//! instructions, translated ones for `Limits::slice`; then it looks at the attention flag and the
//! budget.
//!
//! Invariants
//! - A block never crosses a page, so one check of execute permission covers it. Checked by
//!   `code_that_lost_its_right_or_its_memory_is_not_executed`.
//! - Blocks are dropped only all together, with their generation (see `code`), while no thread is
//!   in it, so a link never leads nowhere. Checked by
//!   `each_new_version_of_a_function_is_seen_through_its_links`.
//! - A block in memory that was ever writable begins with a check: control passes it only in the
//!   epoch (see `epoch`) in which the block's words were last compared with memory. The loop
//!   compares them otherwise, and enters the block behind its check, so that it goes on even while
//!   other threads advance the epoch without end. A block found stale leads to its successor.
//!   Checked by `set_epoch`.
//! - The count is exact: a block adds the place of the instruction by which it is left, or of the
//!   one before that which trapped. Checked by `instructions_are_counted_exactly_and_reproducibly`,
//!   `every_budget_stops_at_its_instruction_and_resumes`.
//! - `State::pc` and `State::instructions` are up to date whenever [`Cache::run`] returns, not
//!   while handlers run: those find the address of their instruction through its block. Checked by
//!   `blocks_and_single_steps_agree_in_everything`.
//! - A pair (see `pairs`) has the code of two instructions in the first one's handler; the second
//!   keeps its own, and each its own fields, so faults and counts are those of single ones. Checked
//!   by `a_fault_in_either_half_of_a_pair_is_the_one_of_that_instruction`.

#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
mod regions;
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
mod stored;
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
mod translated;
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
mod trials;

use super::bind::Adjust;
use super::branch::Flow;
use super::code::{CodeCache, Filling, Generation, Used};
use super::jumps::Jumps;
use super::orders;
use super::pairs::{Key, Special};
use super::raw::{self, Code, Link, Memo, Place};
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
use super::tier1;
use super::translation::{Journal, Listing, Placed, Translation};
use super::{
    Cpu, Exit, Features, Fetch, Handler, Inst, Limits, Slot, Tier, Trap, atomic, bind, branch,
    operation, pairs,
};
use crate::isa::{self, Group, Row, RowId};
use crate::shared::{Pinned, Reader};
use littoral_base::mutant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest block in instructions.
const BLOCK_MAX: u64 = 64;
const PAGE_WORDS: u64 = 1024;
/// Stale blocks that are kept besides as many as there are current ones.
const STALE_MAX: usize = 1024;
/// Instructions after which the dispatch loop is entered again: also how deep handlers may nest
/// where the compiler does not turn their calls into jumps.
const SLICE: u64 = 1024;

/// A thread's way to the code of its program.
#[derive(Debug)]
pub struct Cache {
    code: Arc<CodeCache>,
    reader: Reader<Generation>,
    own: Own,
    /// Memory is seen in weak order, on tier 0.
    weak: Option<Box<orders::Mode>>,
}

/// What only its thread uses.
#[derive(Debug, Default)]
struct Own {
    /// The host has no translator.
    #[cfg_attr(
        not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")),
        expect(dead_code, reason = "only a host that may have one asks")
    )]
    interprets: bool,
    /// Indirect branches of tier 0.
    jumps: Option<Jumps>,
    journal: Journal,
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    watch: regions::Watch,
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    trials: trials::Trials,
}

/// Why a thread goes no further in a generation.
enum Stop {
    /// For the owner to see.
    Trap(Trap),
    /// The generation was replaced, or must be.
    Renewed,
}

impl From<Trap> for Stop {
    fn from(trap: Trap) -> Stop {
        Stop::Trap(trap)
    }
}

/// What a thread runs with, in one generation.
struct Run<'a, F> {
    code: &'a Arc<CodeCache>,
    generation: &'a Pinned<'a, Generation>,
    own: &'a mut Own,
    fetch: &'a F,
}

/// What is fixed about a row.
#[derive(Debug)]
struct Known {
    handler: Handler,
    flow: Flow,
    adjust: Adjust,
    key: Key,
    /// A form that is less work, with its places in pairs.
    special: Option<(Special, Key)>,
    /// It reads or writes the FCSR.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    control: bool,
    /// Behind it another tier may have to run: it switches the x87 stack mode, or jumps by a
    /// scratch register.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    last: bool,
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    lowering: Option<&'static tier1::Lowering>,
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    operands: tier1::Operands,
}

impl Default for Cache {
    fn default() -> Self {
        Cache::new(Tier::default())
    }
}

impl Cache {
    /// A cache with code of its own, whose blocks run on `tier`, or on the best one below that the
    /// host has.
    pub fn new(tier: Tier) -> Cache {
        Cache::of(&Arc::new(CodeCache::new(tier, Limits::default())))
    }

    /// A thread's cache on code that it shares.
    pub fn of(code: &Arc<CodeCache>) -> Cache {
        Cache { code: code.clone(), reader: code.reader(), own: Own::default(), weak: None }
    }

    /// From now on the thread interprets, and sees and shows memory in the order that the LoongArch
    /// manual allows; the seed decides about reorderings. What is reordered is in
    /// `interp::orders`.
    pub fn weaken(&mut self, seed: u64) {
        self.weak = Some(Box::new(orders::Mode::new(seed)));
    }

    /// [`Cache::run`] in weak order. All accesses have taken place when it returns.
    fn run_weak(
        &mut self,
        mode: &mut orders::Mode,
        cpu: &mut Cpu,
        fetch: &impl Fetch,
        (attention, end): (&AtomicBool, u64),
    ) -> Trap {
        let trap = loop {
            if attention.load(Ordering::Relaxed) {
                break Trap::Attention;
            }
            if cpu.state.instructions >= end {
                break Trap::OutOfBudget;
            }
            if let Some(trap) = mode.turn(cpu, fetch, |cpu| self.step(cpu, fetch)) {
                break trap;
            }
        };
        mode.settle(cpu).unwrap_or(trap)
    }

    /// The code, for other threads.
    pub fn code(&self) -> &Arc<CodeCache> {
        &self.code
    }

    /// Forgets all blocks: code changed.
    pub fn clear(&mut self) {
        self.code.clear();
    }

    /// Forgets what other threads did with the code: in a forked child, where they do not exist.
    pub fn survive_alone(&mut self) {
        self.reader.survive_alone();
        self.code.survive_alone();
        if self.code.limits.separate {
            // The file behind the code is the parent's.
            self.code.clear();
        }
    }

    /// Extensions of which the program has decoded instructions.
    pub fn used(&self) -> Used {
        self.code.used()
    }

    /// Blocks decoded since all were last dropped.
    pub fn len(&self) -> usize {
        let held = self.code.held();
        held.value().blocks.counts().1 + held.value().translated()
    }

    /// Blocks that were translated to code of the host.
    pub fn translated(&self) -> usize {
        self.code.held().value().translated()
    }

    /// What the thread has translated in its life; regions may be made on another one
    /// ([`CodeCache::translation`]).
    pub fn translation(&self) -> Translation {
        self.own.journal.total
    }

    /// Records from now on where translated blocks lie.
    pub fn record_places(&mut self) {
        self.own.journal.placed.get_or_insert_default();
    }

    /// The blocks that the thread translated since the last call, if places are recorded.
    pub fn take_places(&mut self) -> Vec<Placed> {
        self.own.journal.placed.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Records from now on what code blocks become.
    pub fn record_listings(&mut self) {
        self.own.journal.listed.get_or_insert_default();
    }

    /// The same blocks with their code, if that is recorded.
    pub fn take_listings(&mut self) -> Vec<Listing> {
        self.own.journal.listed.as_mut().map_or_else(Vec::new, std::mem::take)
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
        if let Some(mut mode) = self.weak.take() {
            let trap = self.run_weak(&mut mode, cpu, fetch, (attention, end));
            self.weak = Some(mode);
            return trap;
        }
        let trap = loop {
            let generation = &self.reader.pin();
            let mut run = Run { code: &self.code, generation, own: &mut self.own, fetch };
            match run.run_to(cpu, attention, end) {
                Stop::Trap(trap) => break trap,
                Stop::Renewed => {}
            }
        };
        // What tiers leave in the sink differs, and nothing reads it.
        cpu.state.x[32] = 0;
        trap
    }

    /// Executes one instruction without keeping it: `OutOfBudget` if it retired.
    pub fn step(&mut self, cpu: &mut Cpu, fetch: &impl Fetch) -> Trap {
        let end = cpu.state.instructions + 1;
        run_short(&self.code, cpu, fetch, end).unwrap_or(Trap::OutOfBudget)
    }
}

impl<F: Fetch> Run<'_, F> {
    fn run_to(&mut self, cpu: &mut Cpu, attention: &AtomicBool, end: u64) -> Stop {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        if self.code.tier() >= Tier::Blocks
            && !self.own.interprets
            && let Some(stop) = self.run_translated(cpu, attention, end)
        {
            return stop;
        }
        match self.interpret(cpu, attention, end) {
            Ok(never) => match never {},
            Err(stop) => stop,
        }
    }

    /// Tier 0: runs until a trap, `attention`, or the count `end`.
    fn interpret(
        &mut self,
        cpu: &mut Cpu,
        attention: &AtomicBool,
        end: u64,
    ) -> Result<std::convert::Infallible, Stop> {
        let mut exit: Option<raw::Left<'_>> = None;
        let generation = self.generation;
        loop {
            if attention.load(Ordering::Relaxed) {
                return Err(Trap::Attention.into());
            }
            let code = self.lookup(cpu)?;
            if let Some(exit) = exit.take() {
                exit.link(code);
            }
            let left = end - cpu.state.instructions;
            if left < code.len() {
                match run_short(self.code, cpu, self.fetch, end) {
                    Some(trap) => return Err(trap.into()),
                    None => continue,
                }
            }
            // Blocks behind this one are entered only while the budget allows the longest.
            let slice = left.saturating_sub(BLOCK_MAX).min(SLICE);
            let jumps = self.own.jumps.as_ref().expect("invariant: made by `lookup`");
            self.own.journal.total.interpreted += 1;
            match generation.blocks.run(code, cpu, jumps, slice) {
                (Exit::Trap, _) => return Err(cpu.trap.into()),
                (Exit::Direct, left) => exit = Some(left),
                (Exit::Indirect, _) => {}
            }
            if !generation.is_current() {
                return Err(Stop::Renewed);
            }
        }
    }

    /// The block at the program counter, current and found by indirect branches from now on.
    fn lookup<'g>(&mut self, cpu: &Cpu) -> Result<&'g Code, Stop>
    where
        Self: 'g,
    {
        let pc = cpu.state.pc;
        let generation = self.generation;
        let code = match generation.blocks.find(pc) {
            Some(code) if is_current(code, cpu, self.fetch) => code,
            _ => self.insert(cpu, pc)?,
        };
        let jumps = self.own.jumps.get_or_insert_default().for_code(generation.number);
        raw::remember(jumps, pc, code);
        Ok(code)
    }

    /// Decodes the block at `pc`, in the place of one that is stale.
    fn insert<'g>(&mut self, cpu: &Cpu, pc: u64) -> Result<&'g Code, Stop>
    where
        Self: 'g,
    {
        let blocks = &self.generation.blocks;
        let mut filling = self.generation.fill();
        // Another thread may have done so meanwhile.
        if let Some(code) = blocks.find(pc).filter(|code| is_current(code, cpu, self.fetch)) {
            return Ok(code);
        }
        // Stale blocks are kept because links lead to them; not for ever.
        let (current, all) = blocks.counts();
        if all > STALE_MAX + 2 * current {
            drop(filling);
            self.code.renew(self.generation);
            return Err(Stop::Renewed);
        }
        let code = decode(self.code, Some(&mut filling), cpu, self.fetch, pc, BLOCK_MAX)?;
        Ok(blocks.insert(code))
    }
}

/// Whether a block has the instructions that memory has; compares them once an epoch.
fn is_current(block: &Code, cpu: &Cpu, fetch: &impl Fetch) -> bool {
    let now = cpu.epoch.now();
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

/// Executes at most the instructions that the budget still allows, fewer than a block; `None` if a
/// branch left them early.
fn run_short(shared: &CodeCache, cpu: &mut Cpu, fetch: &impl Fetch, end: u64) -> Option<Trap> {
    let left = end - cpu.state.instructions;
    if left == 0 {
        return Some(Trap::OutOfBudget);
    }
    let code = match decode(shared, None, cpu, fetch, cpu.state.pc, left) {
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

/// Decodes at most `limit` instructions from `pc`. The first word must be fetchable; a later one
/// that is not ends the block, so the fault comes when control really arrives there. A block that
/// is kept is noted in `filling`.
fn decode(
    shared: &CodeCache,
    filling: Option<&mut Filling>,
    cpu: &Cpu,
    fetch: &impl Fetch,
    pc: u64,
    limit: u64,
) -> Result<Code, Trap> {
    if !pc.is_multiple_of(4) {
        return Err(Trap::Fetch(pc));
    }
    let text = fetch.text(pc).ok_or(Trap::Fetch(pc))?;
    // Before the words are read: see `epoch`.
    let epoch = text.written.then(|| cpu.epoch.now());
    if let (Some(filling), None) = (filling, epoch) {
        filling.note_text(pc);
    }
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
        let row = row_of(cpu.features, word);
        let (mut inst, mut key, flow) = instruction_of(row, word, next, at + 1);
        let read = |at: u64| match at.checked_sub(pc) {
            Some(offset) => words.get(offset as usize / 4).copied(),
            None => cpu.window.load::<u32>(at),
        };
        if joins_link(&mut inst, word, next, read) {
            key = Key::default();
        }
        if let Some((id, _)) = row {
            shared.note(id.row().group);
        }
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

/// The row of a word that is an instruction of this machine.
fn row_of(features: Features, word: u32) -> Option<(RowId, &'static Known)> {
    let id = isa::decode(word).filter(|id| announced(features, id.row()))?;
    Some((id, known(id)?))
}

/// One pre-decoded instruction, to run alone.
#[cfg(any(test, all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
fn instruction(cpu: &Cpu, word: u32, pc: u64) -> Inst {
    let mut inst = instruction_of(row_of(cpu.features, word), word, pc, 1).0;
    joins_link(&mut inst, word, pc, |at| cpu.window.load::<u32>(at));
    inst
}

/// Gives a load that may be of the second half of a linked pair its own code: whether it is one.
fn joins_link(inst: &mut Inst, word: u32, pc: u64, read: impl Fn(u64) -> Option<u32>) -> bool {
    let is_second_half = atomic::is_second_half(word, pc, read);
    if is_second_half {
        inst.handler = atomic::second_half;
    }
    is_second_half
}

/// One pre-decoded instruction, its places in pairs, and where control goes from it.
fn instruction_of(
    row: Option<(RowId, &'static Known)>,
    word: u32,
    pc: u64,
    count: u16,
) -> (Inst, Key, Flow) {
    let Some((id, known)) = row else {
        let inst = inst(operation::illegal, word, count, i64::from(word), 0);
        return (inst, Key::default(), Flow::End);
    };
    let row = id.row();
    let imm = (known.adjust)(word, pc, i64::from(row.immediate(word, 0)));
    let imm2 = row.immediate(word, 1) as u8;
    let (handler, key) = match &known.special {
        Some((special, key)) if (special.fits)(word) => (special.handler, *key),
        _ => (known.handler, known.key),
    };
    (inst(handler, word, count, imm, imm2), key, known.flow)
}

fn known(id: RowId) -> Option<&'static Known> {
    static KNOWN: Memo<Known, { isa::ROWS_COUNT }> = Memo::new();
    KNOWN.get(usize::from(id.0), || {
        let name = id.row().mnemonic;
        let special = pairs::special(name).map(|s| (s, Key::of(s.name)));
        let (flow, adjust, key) = (branch::flow(name), bind::adjust(name), Key::of(name));
        bind::handler(id.row()).map(|handler| Known {
            handler,
            flow,
            adjust,
            key,
            special,
            #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
            control: name.contains("fcsr"),
            #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
            last: matches!(name, "x86settm" | "x86clrtm" | "jiscr0" | "jiscr1"),
            #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
            lowering: tier1::lowering(name),
            #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
            operands: tier1::Operands::of(id.row()),
        })
    })
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
    let inst = instruction(cpu, word, 0);
    assert_eq!(Code::new(0, vec![inst], &[]).run_alone(cpu), Exit::Direct, "{word:08x}");
}

fn announced(features: Features, row: &Row) -> bool {
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
