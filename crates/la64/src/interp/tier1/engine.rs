//! The code of one thread: its arena, blocks by address, exits, and what faults need.
//!
//! - Code is dropped only all together, while none runs.
//! - An exit is linked when it is taken for the first time and the block behind it exists.

use super::super::raw::Alone;
use super::super::translation::{Journal, Placed};
use super::super::{Cpu, Fetch};
use super::block::{Block, Decoded, Exit, Fold, Known, Routines, Shape, Words};
use super::frame::exit;
use super::jumps::Jumps;
use super::slow::Slows;
use super::{control, raw, routines};
use crate::jit::emit::Asm;
use crate::jit::raw::{Arena, Faults};
use littoral_base::mutant;
use std::collections::HashMap;

/// Bytes of code per thread; a full arena is emptied.
const ARENA_LEN: usize = 64 << 20;
/// No block is longer.
const BLOCK_BYTES_MAX: usize = 64 << 10;

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

/// Translated code.
#[derive(Debug)]
pub(in super::super) struct Engine {
    arena: Arena,
    cursor: usize,
    /// Where blocks may begin.
    floor: usize,
    routines: Routines,
    /// Where blocks begin, by guest address.
    known: HashMap<u64, Known>,
    exits: Vec<Exit>,
    faults: Faults,
    slows: Slows,
    #[expect(clippy::vec_box, reason = "code holds their addresses")]
    alone: Vec<Box<Alone>>,
    jumps: Jumps,
    restless: HashMap<u64, Restless>,
    shape: Shape,
    /// A trap is enabled: floating point runs on tier 0.
    trapping: bool,
    /// The upper part of the epoch.
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

/// How a stay in code ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Left {
    /// By this exit, which may be linked.
    By(u32),
    /// For the address in `pc`.
    Elsewhere,
    /// By a trap.
    Trapped,
}

impl Engine {
    /// An engine for this window; `None` where the host has no executable memory or lacks an
    /// instruction that every block may use.
    pub(in super::super) fn new(cpu: &Cpu) -> Option<Engine> {
        let able = std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("lzcnt");
        let mut arena = able.then(|| Arena::new(ARENA_LEN)).flatten()?;
        let mut asm = Asm::new(0);
        let routines = routines::write(&mut asm);
        arena.write(0, &asm.bytes);
        let (near, slack, guarded) = cpu.window.shape();
        let floor = asm.here().next_multiple_of(16);
        Some(Engine {
            cursor: floor,
            floor,
            faults: Faults { base: arena.address(0), list: Vec::new() },
            routines,
            known: HashMap::new(),
            exits: Vec::new(),
            slows: Slows { base: arena.address(0), list: Vec::new() },
            alone: Vec::new(),
            jumps: Jumps::default(),
            restless: HashMap::new(),
            shape: Shape { slack, near, guarded },
            trapping: false,
            era: cpu.epoch.now() >> 31,
            arena,
        })
    }

    /// Drops all code.
    pub(in super::super) fn clear(&mut self) {
        self.cursor = self.floor;
        self.known.clear();
        self.exits.clear();
        self.faults.list.clear();
        self.slows.list.clear();
        self.alone.clear();
        self.jumps.clear();
    }

    /// Blocks there are.
    pub(in super::super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether the code at `pc`, which has no translation, runs on tier 0 for now: code of its page
    /// was found changed, and has not run often enough since to be worth another translation.
    pub(in super::super) fn waits(&mut self, pc: u64) -> bool {
        let Some(page) = self.restless.get_mut(&(pc >> PAGE_BITS)) else { return false };
        page.runs = page.runs.saturating_add(1);
        !mutant!("la64_changed_code_at_once")
            && page.runs <= WARM_RUNS << page.changes.min(CHANGES_MAX)
    }

    /// Whether a block may be added as things are; drops code that is for other circumstances.
    ///
    /// True if it dropped any.
    pub(in super::super) fn make_room(&mut self, cpu: &Cpu) -> bool {
        let trapping = control::is_trapping(cpu);
        // The code compares 32 bits of the epoch.
        let era = cpu.epoch.now() >> 31;
        if trapping != self.trapping
            || era != self.era
            || self.cursor + BLOCK_BYTES_MAX > self.arena.len()
        {
            self.clear();
            (self.trapping, self.era) = (trapping, era);
            return true;
        }
        false
    }

    /// Whether floating point runs on tier 0.
    pub(in super::super) fn is_trapping(&self) -> bool {
        self.trapping
    }

    /// Where to enter the code of `pc`, which has its words in memory; `None` if there is none.
    pub(in super::super) fn find(&mut self, pc: u64, cpu: &Cpu, fetch: &impl Fetch) -> Option<At> {
        let known = self.known.get_mut(&pc)?;
        let at = At { start: known.start, body: known.body };
        let Some(words) = &mut known.words else { return Some(at) };
        let now = cpu.epoch.now();
        if words.epoch != now && !mutant!("la64_stale_blocks_stay") {
            if words.stale {
                return None;
            }
            if !words.are_in_memory(cpu, fetch) {
                words.stale = true;
                let page = self.restless.entry(pc >> PAGE_BITS).or_default();
                *page = Restless { changes: page.changes + 1, runs: 0 };
                return None;
            }
            words.epoch = now;
            self.arena.write_number(words.stamp as usize, now as u32);
        }
        Some(at)
    }

    /// Lets indirect branches to `pc` find its code.
    pub(in super::super) fn remember(&mut self, pc: u64, at: At) {
        self.jumps.set(pc, self.arena.address(at.start as usize));
    }

    /// Translates a block, which may change if it was read in an `epoch`.
    pub(in super::super) fn translate(
        &mut self,
        list: &[Decoded],
        epoch: Option<u64>,
        journal: &mut Journal,
    ) -> At {
        let asm = Asm::new(self.cursor);
        let (routines, first_exit) = (self.routines, self.exits.len() as u32);
        let mut block = Block::new(asm, self.shape, routines, &self.known, list, first_exit);
        let stamp = epoch.map(|epoch| block.check_epoch(epoch));
        let body = block.asm.here();
        for at in 0..list.len() {
            block.at = at;
            one(&mut block);
            block.finish_instruction();
        }
        if !block.ended {
            let end = list.last().expect("invariant: a block has instructions");
            block.exit(end.pc.wrapping_add(4), list.len() as u16, !end.last);
        }
        block.finish();
        let start = block.start;
        let mut map_bytes = size_of::<(u64, Known)>()
            + size_of_val(&block.exits[..])
            + size_of_val(&block.faults[..])
            + size_of_val(&block.slows[..])
            + block.alone.len() * size_of::<Alone>();
        self.exits.append(&mut block.exits);
        self.faults.list.append(&mut block.faults);
        self.slows.list.append(&mut block.slows);
        self.alone.append(&mut block.alone);
        let bytes = block.asm.bytes;
        assert!(bytes.len() <= BLOCK_BYTES_MAX, "a block is short");
        self.arena.write(start, &bytes);
        self.cursor = (start + bytes.len()).next_multiple_of(16);
        let words = epoch.zip(stamp).map(|(epoch, stamp)| Words {
            epoch,
            stamp: stamp as u32,
            stale: false,
            list: list.iter().map(|d| (d.pc, d.word)).collect(),
        });
        map_bytes += words.as_ref().map_or(0, |words| size_of_val(&words.list[..]));
        let placed =
            Placed { guest: list[0].pc, host: self.arena.address(start), len: bytes.len() as u64 };
        journal.note(placed, list.len() as u64, map_bytes as u64);
        let at = At { start: start as u32, body: body as u32 };
        let known = Known { start: at.start, body: at.body, words };
        if let Some(stale) = self.known.insert(list[0].pc, known) {
            // What leads to the stale block leads on to this one.
            self.arena.write(stale.start as usize, &[0xe9]);
            self.arena.patch(stale.start as usize + 1, start);
        }
        at
    }

    /// Runs code at `at` for about `slice` instructions.
    pub(in super::super) fn run(&self, cpu: &mut Cpu, at: At, slice: u64) -> Left {
        let left = slice as i64 - 1;
        cpu.frame.left = left;
        control::prepare(cpu);
        let ground = raw::Ground {
            entry: self.arena.address(self.routines.enter),
            jumps: self.jumps.address(),
            slows: &self.slows,
            faults: &self.faults,
        };
        raw::enter(&ground, cpu, self.arena.address(at.body as usize));
        control::merge(cpu);
        cpu.state.instructions += (left - cpu.frame.left) as u64;
        match raw::full_exit(cpu.frame.exit) {
            exit::TRAP => Left::Trapped,
            exit::ELSEWHERE => Left::Elsewhere,
            taken => {
                cpu.state.pc = self.exits[taken as usize].target;
                match cpu.frame.left < 0 {
                    true => Left::Elsewhere,
                    false => Left::By(taken),
                }
            }
        }
    }

    /// Lets an exit lead to the code at `at` from now on.
    pub(in super::super) fn link(&mut self, exit: u32, at: At) {
        if let Some(site) = self.exits[exit as usize].site {
            self.arena.patch(site as usize, at.start as usize);
        }
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

/// One instruction of a block.
fn one(block: &mut Block<'_>) {
    let list = block.list;
    let d = &list[block.at];
    let Some(lowering) = d.lowering else {
        return block.call_tier_0(d);
    };
    let Some(value) = folded(block, d) else {
        return (lowering.emit)(block, d);
    };
    block.skip_constant(d.rd(), value);
    // A constant that the next instruction replaces by another one is not written.
    let next = list.get(block.at + 1);
    if !next.is_some_and(|next| next.rd() == d.rd() && folded(block, next).is_some()) {
        block.put_constant(d.rd(), value);
    }
}

/// The result, if it follows from constants.
fn folded(block: &Block<'_>, d: &Decoded) -> Option<u64> {
    Some(match d.lowering?.fold? {
        Fold::Immediate => d.imm() as u64,
        Fold::OfJ(f) => f(block.constant(d.rj())?, d.imm()),
        Fold::OfD(f) => f(block.constant(d.rd())?, d.imm()),
    })
}
