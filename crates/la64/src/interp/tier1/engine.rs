//! Translated code of one generation: its arena, blocks by address, exits, and what faults need.
//!
//! - Threads find and run code without a lock. One at a time adds code, under the lock of the
//!   generation; a block is found only after its code, exits and slow ways are in place.
//! - Code is dropped only with its generation, in which no thread is then.
//! - An exit is linked when it is taken for the first time and the block behind it exists. Two
//!   threads may link it at once: either block is right.

mod images;
pub(in super::super) mod regions;
pub(in super::super) mod stored;
mod waiting;

use super::super::raw::Alone;
use super::super::translation::{Journal, Listing, Made, Placed};
use super::super::{Cpu, Fetch, Limits};
use super::adopted::{Adopted, FIRST_EXIT, Slows};
use super::block::{Block, Decoded, Exit, Fold, Shape};
use super::constants::Constant;
use super::control::Floats;
use super::frame::exit;
use super::known::{Check, Known, Words};
use super::parts::Parts;
use super::routines::Routines;
use super::slow::{Decode, Slow};
use super::targets::Targets;
use super::{control, raw, routines};
use crate::jit::emit::Asm;
use crate::jit::raw::{Arena, Faults, true_count};
use crate::jit::shelf::Shelf;
use crate::shared::{Index, List};
use littoral_base::mutant;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use waiting::Waiting;

/// No block is longer.
const BLOCK_BYTES_MAX: usize = 128 << 10;

/// Runs on tier 0 of code that was found changed, before it is translated again.
const WARM_RUNS: u32 = 16;
/// The number of runs doubles with each change, at most this often.
const CHANGES_MAX: u32 = 8;
const PAGE_BITS: u32 = 12;

/// A page whose translated code was found changed.
#[derive(Debug, Default)]
struct Restless {
    /// How often it was.
    changes: u32,
    /// Blocks run on tier 0 since then.
    runs: u32,
}

/// What is changed when code is added.
#[derive(Debug, Default)]
pub(in super::super) struct Filling {
    /// Bytes of the arena behind the routines that hold blocks.
    used: usize,
    #[expect(clippy::vec_box, reason = "code holds their addresses")]
    alone: Vec<Box<Alone>>,
    restless: HashMap<u64, Restless>,
    /// Sites of exits whose target has no code yet, by the target's key.
    waiting: Waiting,
    /// Images that were asked for.
    images: Vec<images::Asked>,
    /// Exits that images have.
    image_exits: u32,
    /// Blocks of images that are known.
    entered: usize,
    /// Room for the parts of a block that is read, used again and again.
    spare: Parts,
    /// Instructions that regions have.
    in_regions: HashSet<u64>,
    /// The regions.
    pub(in super::super) regions: Vec<regions::Kept>,
}

impl Filling {
    /// Whether the code at `pc`, which has no translation, runs on tier 0 for now: code of its page
    /// was found changed, and has not run often enough since to be worth another translation.
    pub(in super::super) fn waits(&mut self, pc: u64) -> bool {
        let Some(page) = self.restless.get_mut(&(pc >> PAGE_BITS)) else { return false };
        page.runs = page.runs.saturating_add(1);
        !mutant!("la64_changed_code_at_once")
            && page.runs <= WARM_RUNS << page.changes.min(CHANGES_MAX)
    }
}

impl Filling {
    /// Whether a region has the instruction at an address.
    pub(in super::super) fn is_in_region(&self, pc: u64) -> bool {
        self.in_regions.contains(&pc)
    }
}

/// Translated code.
#[derive(Debug)]
pub(in super::super) struct Engine {
    arena: Arena,
    /// Where blocks may begin.
    floor: usize,
    routines: Routines,
    /// Where blocks begin, by guest address.
    known: Index<Known>,
    exits: List<Exit>,
    /// Code from the cache on disk that was added as a whole.
    images: Arc<Shelf<Adopted>>,
    /// Blocks that indirect branches find.
    targets: Targets,
    faults: Faults,
    slows: Slows,
    shape: Shape,
    /// What the code relies on in floating point.
    floats: Floats,
    /// The upper part of the epoch: the code compares 32 bits of it.
    era: u64,
}

/// Where the code of a block is.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct At {
    /// For exits of other blocks.
    start: u32,
    /// Behind the check of the epoch.
    body: u32,
}

/// Which code of a guest address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Key {
    pub(in super::super) pc: u64,
    /// The code of a loop whose accesses all have checks of their own.
    pub(in super::super) plain: bool,
}

impl Key {
    /// Addresses of code are even.
    fn number(self) -> u64 {
        self.pc | u64::from(self.plain)
    }
}

/// How a stay in code ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Left {
    /// By this exit, which may be linked.
    By(u32),
    /// By this exit for the plain code of the address in `pc`.
    Plain(u32),
    /// For the address in `pc`.
    Elsewhere,
    /// By a trap.
    Trapped,
}

/// The code of a block, and where in it things are.
struct Built<'b> {
    block: Block<'b>,
    /// Where each instruction's code begins.
    begins: Vec<usize>,
    /// The check of the epoch, where there is one.
    check: Option<(u64, Check)>,
    /// Behind that check.
    body: usize,
    /// Behind the last instruction's code.
    behind: usize,
}

fn era(cpu: &Cpu) -> u64 {
    cpu.epoch.now() >> 31
}

impl Engine {
    /// An engine for this window; `None` where the host has no executable memory or lacks an
    /// instruction that every block may use.
    pub(in super::super) fn new(
        cpu: &Cpu,
        limits: Limits,
        floats: Floats,
        decode: Decode,
    ) -> Option<Engine> {
        let able = std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("lzcnt");
        let arena = || Arena::new(limits.code_len as usize, limits.separate);
        let arena = able.then(arena).flatten()?;
        let mut asm = Asm::new(0);
        let routines = routines::write(&mut asm);
        arena.write(0, &asm.bytes);
        let (near, slack, guarded) = cpu.window.shape();
        let images = Arc::new(Shelf::default());
        Some(Engine {
            floor: asm.here().next_multiple_of(16),
            faults: Faults {
                base: arena.address(0),
                list: List::default(),
                images: Shelf::default(),
                counts: routines.counts as u32..arena.len() as u32,
            },
            routines,
            known: Index::default(),
            exits: List::default(),
            targets: Targets::new(arena.address(routines.missed)),
            slows: Slows {
                base: arena.address(0),
                decode,
                list: List::default(),
                images: images.clone(),
            },
            images,
            shape: Shape { slack, near, guarded, counted: !limits.uncounted },
            floats,
            era: era(cpu),
            arena,
        })
    }

    /// Blocks there are.
    pub(in super::super) fn len(&self, filling: &Filling) -> usize {
        self.known.counts().0 + self.blocks_of_images() - filling.entered
    }

    /// What the code relies on in floating point.
    pub(in super::super) fn floats(&self) -> Floats {
        self.floats
    }

    /// Whether blocks cannot be added, or not be compared with the epoch, any more.
    pub(in super::super) fn is_spent(&self, filling: &Filling, cpu: &Cpu) -> bool {
        self.is_full(filling) || era(cpu) != self.era
    }

    /// Whether blocks cannot be added.
    pub(in super::super) fn is_full(&self, filling: &Filling) -> bool {
        self.floor + filling.used + BLOCK_BYTES_MAX > self.arena.len()
    }

    /// Where to enter the code of `pc` if it needs no comparison with memory in this epoch. Takes
    /// no lock.
    pub(in super::super) fn find(&self, key: Key, cpu: &Cpu) -> Option<At> {
        let known = self.known.find(key.number())?;
        let is_current = |words: &Words| {
            words.epoch.load(Ordering::Acquire) == cpu.epoch.now()
                || mutant!("la64_stale_blocks_stay")
        };
        known.words.as_ref().is_none_or(|words| is_current(words)).then(|| known.at())
    }

    /// As `find`, comparing the block with memory. The lock keeps other threads from patching it.
    pub(in super::super) fn find_compared(
        &self,
        filling: &mut Filling,
        key: Key,
        cpu: &Cpu,
        fetch: &impl Fetch,
    ) -> Option<At> {
        if let Some(at) = self.find(key, cpu) {
            return Some(at);
        }
        let known = self.known.find(key.number())?;
        let words = known.words.as_ref().filter(|words| !words.stale.load(Ordering::Relaxed))?;
        let now = cpu.epoch.now();
        if !words.are_in_memory(cpu, fetch) {
            words.stale.store(true, Ordering::Relaxed);
            let page = filling.restless.entry(key.pc >> PAGE_BITS).or_default();
            *page = Restless { changes: page.changes + 1, runs: 0 };
            return None;
        }
        words.epoch.store(now, Ordering::Release);
        self.arena.write_number(words.check.stamp as usize, now as u32);
        Some(known.at())
    }

    /// Lets indirect branches to `pc` find its code.
    pub(in super::super) fn remember(&self, pc: u64) {
        if let Some(known) = self.known.find(pc) {
            self.targets.set(known);
        }
    }

    /// Translates a block, which may change if it was read in an `epoch`. The lock is held. With
    /// the code comes its record with these bits of groups, if it is to be kept and can be
    /// elsewhere.
    pub(in super::super) fn translate(
        &self,
        filling: &mut Filling,
        (plain, keep): (bool, Option<u8>),
        list: &[Decoded],
        epoch: Option<u64>,
        journal: &mut Journal,
    ) -> (At, Option<Vec<u8>>) {
        let back_edge = epoch.is_none().then(|| back_edge(list)).flatten();
        let mut list = back_edge.map_or(list, |last| &list[..=last]);
        let mut built = self.build(filling, (plain, back_edge.is_some()), list, epoch);
        while built.block.asm.bytes.len() > BLOCK_BYTES_MAX {
            // Many exits, each of which writes many registers.
            list = &list[..list.len().div_ceil(2)];
            built = self.build(filling, (plain, false), list, epoch);
        }
        let Built { block, begins, check, body, behind } = built;
        if let Some(listed) = &mut journal.listed {
            listed.push(self.listing(&block, &begins, behind));
        }
        let words = check.map(|(epoch, check)| {
            let list = list.iter().map(|d| (d.pc, d.word)).collect();
            let (epoch, stale) = (AtomicU64::new(epoch), AtomicBool::new(false));
            Box::new(Words { epoch, check, stale, list })
        });
        let key = Key { pc: list[0].pc, plain };
        let mut parts = Parts::of(block);
        let map_bytes = map_bytes(&parts, words.as_deref());
        let (instructions, map_bytes) = (list.len() as u64, map_bytes as u64);
        let made = Made::Translated { instructions, map_bytes, is_region: false };
        let record = keep.and_then(|groups| parts.record(list, groups));
        (self.publish(filling, key, (body, words), &mut parts, (made, journal)), record)
    }

    /// Makes a block known, and lets those that wait for it lead to it.
    fn publish(
        &self,
        filling: &mut Filling,
        key: Key,
        (body, words): (usize, Option<Box<Words>>),
        parts: &mut Parts,
        (made, journal): (Made, &mut Journal),
    ) -> At {
        let (start, len) = (parts.start, parts.bytes.len());
        let host = self.arena.address(start);
        let placed = Placed { guest: key.pc, host, len: len as u64 };
        self.put(filling, parts);
        journal.note(placed, made);
        let key = key.number();
        let known = Known { key, host, start: start as u32, body: body as u32, words };
        self.make_known(filling, known)
    }

    /// Lets a block be found, and those that wait for it lead to it.
    fn make_known(&self, filling: &mut Filling, known: Known) -> At {
        let (key, start) = (known.key, known.start as usize);
        let (new, stale) = self.known.insert(known);
        filling.waiting.take(key, |site| {
            if !mutant!("la64_waiting_exits_stay") {
                self.arena.patch(site as usize, start);
            }
        });
        if let Some(words) = stale.and_then(|stale| stale.words.as_ref()) {
            // What leads to the stale block leads on to this one.
            self.arena.patch(words.check.onward as usize, start);
        }
        new.at()
    }

    /// A block's code, which nothing leads to yet. A loop has registers of its own.
    fn build<'b>(
        &'b self,
        filling: &Filling,
        (plain, is_loop): (bool, bool),
        list: &'b [Decoded],
        epoch: Option<u64>,
    ) -> Built<'b> {
        let asm = Asm::new(self.floor + filling.used);
        let (routines, first_exit) = (self.routines, self.exits.len() as u32);
        let mut block = Block::new(asm, self.shape, routines, &self.known, list, first_exit);
        block.floats = self.floats;
        block.plain = plain;
        let check = epoch.map(|epoch| (epoch, block.check_epoch(epoch)));
        let body = block.asm.here();
        if is_loop {
            block.enter_loop();
        }
        let mut begins = Vec::with_capacity(list.len());
        for at in 0..list.len() {
            begins.push(block.asm.here());
            instruction(&mut block, at);
        }
        if !block.ended {
            let end = list.last().expect("invariant: a block has instructions");
            block.exit(end.pc.wrapping_add(4), list.len() as u16, !end.last);
        }
        let behind = block.asm.here();
        block.finish();
        Built { block, begins, check, body, behind }
    }

    /// A finished block, whose instructions begin at these offsets.
    fn listing(&self, block: &Block<'_>, begins: &[usize], behind: usize) -> Listing {
        let instructions = block.list.iter().zip(begins);
        Listing {
            host: self.arena.address(block.start),
            code: block.asm.bytes.clone(),
            instructions: instructions.map(|(d, at)| (d.pc, d.word, at - block.start)).collect(),
            behind: behind - block.start,
        }
    }

    /// Puts the parts of a finished block where running code finds them.
    fn put(&self, filling: &mut Filling, parts: &mut Parts) {
        assert!(parts.bytes.len() <= BLOCK_BYTES_MAX, "a block is short");
        self.exits.append(&parts.exits);
        for exit in parts.exits.iter().filter(|exit| !exit.linked) {
            if let Some(site) = exit.site {
                filling.waiting.add(exit.key(), site);
            }
        }
        self.faults.list.append(&parts.faults);
        self.slows.list.append(&parts.slows);
        filling.alone.append(&mut parts.alone);
        self.arena.write(parts.start, &parts.bytes);
        filling.used = (parts.start + parts.bytes.len()).next_multiple_of(16) - self.floor;
    }

    /// Runs code at `at` for about `slice` instructions, fewer if a signal raises `attention`.
    pub(in super::super) fn run(
        &self,
        cpu: &mut Cpu,
        attention: &AtomicBool,
        at: At,
        slice: u64,
    ) -> Left {
        let left = slice as i64 - 1;
        cpu.frame.left = left;
        control::prepare(cpu);
        let ground = raw::Ground {
            entry: self.arena.address(self.routines.enter),
            jumps: self.targets.address(),
            slows: &self.slows,
            faults: &self.faults,
            attention,
        };
        raw::enter(&ground, cpu, self.arena.address(at.body as usize));
        control::merge(cpu);
        let unused = true_count(cpu.frame.left);
        cpu.state.instructions += (left - unused) as u64;
        match raw::full_exit(cpu.frame.exit) {
            exit::TRAP => Left::Trapped,
            exit::ELSEWHERE => Left::Elsewhere,
            taken => {
                let exit = self.exit(taken).expect("invariant: every exit is listed");
                cpu.state.pc = exit.target;
                match cpu.frame.left < 0 {
                    true => Left::Elsewhere,
                    false if exit.plain => Left::Plain(taken),
                    false => Left::By(taken),
                }
            }
        }
    }

    /// Lets an exit lead to the code at `at` from now on.
    pub(in super::super) fn link(&self, exit: u32, at: At) {
        if let Some(site) = self.exit(exit).and_then(|exit| exit.site) {
            self.arena.patch(site as usize, at.start as usize);
        }
    }

    /// The exit of a number.
    fn exit(&self, number: u32) -> Option<Exit> {
        match number.checked_sub(FIRST_EXIT) {
            None => self.exits.get(number as usize),
            Some(_) => self.images.iter().find_map(|image| image.exit(number)),
        }
    }
}

/// Bytes that are kept of a block beside its code.
fn map_bytes(parts: &Parts, words: Option<&Words>) -> usize {
    size_of::<Known>()
        + size_of::<u64>()
        + size_of_val(&parts.exits[..])
        + size_of_val(&parts.faults[..])
        + parts.slows.len() * size_of::<Slow>()
        + parts.alone.len() * size_of::<Alone>()
        + words.map_or(0, |words| size_of::<Words>() + size_of_val(&words.list[..]))
}

impl Known {
    fn at(&self) -> At {
        At { start: self.start, body: self.body }
    }
}

impl Words {
    /// Whether memory has these words, and they may be executed.
    fn are_in_memory(&self, cpu: &Cpu, fetch: &impl Fetch) -> bool {
        let mut inside = 0..0;
        self.list.iter().all(|&(pc, word)| {
            if !inside.contains(&pc) {
                inside = pc..fetch.text(pc).map_or(pc, |text| text.end);
            }
            inside.contains(&pc) && cpu.window.load::<u32>(pc) == Some(word)
        })
    }
}

/// The last branch of a block that leads back to its beginning.
pub(in super::super) fn back_edge(list: &[Decoded]) -> Option<usize> {
    list.iter().rposition(|d| d.leads_to(list[0].pc))
}

/// The instruction at a place of a block, unless one before it has done its work.
fn instruction(block: &mut Block<'_>, at: usize) {
    block.at = at;
    if block.done_ahead > 0 {
        block.done_ahead -= 1;
        return;
    }
    one(block);
    block.finish_instruction();
}

/// One instruction of a block.
fn one(block: &mut Block<'_>) {
    let list = block.list;
    let d = &list[block.at];
    let Some(lowering) = d.lowering else {
        return block.call_tier_0(d);
    };
    match folded(block, d) {
        Some(constant) => block.put_constant(d.rd(), constant),
        None => {
            block.settle(d);
            (lowering.emit)(block, d);
        }
    }
}

/// The result, if it follows from constants.
fn folded(block: &mut Block<'_>, d: &Decoded) -> Option<Constant> {
    let (from, f) = match d.lowering?.fold? {
        Fold::Immediate => return Some(d.immediate()),
        Fold::Sum => {
            let Constant { value, relative } = block.constants.get(d.rj())?;
            return Some(Constant { value: value.wrapping_add(d.imm() as u64), relative });
        }
        Fold::OfJ(f) => (block.constants.get(d.rj())?, f),
        Fold::OfD(f) => (block.constants.get(d.rd())?, f),
    };
    // Of an address that moves this is another number each time.
    block.sites.fixed |= from.relative;
    Some(Constant::fixed(f(from.value, d.imm())))
}
