//! LA64 code of one region: blocks, marks, exits.
//!
//! - An instruction writes no guest register and no flag before its last access, so a fault finds
//!   the state as it was.
//! - Scratch registers carry nothing from one guest instruction to the next.
//! - Between instructions a register holds the guest's 64 bits, so results of 32 bits are extended
//!   with zeros.

mod arithmetic;
mod atomic;
mod bits;
mod compare;
mod counting;
mod floating;
mod flow;
mod moves;
mod operand;
mod pcmpistri;
pub(super) mod plain;
mod shift;
mod sse4;
mod string;
mod vector;

use super::decode::{Inst, Operand};
use super::isa::flag;
use super::lanes;
use super::region::{Block, Conventions, End};
use super::registers::{FAR, TEMPS, la64};
use crate::code::{Exit, Mark, Region};
use littoral_base::mutant;
use littoral_la64::asm::{Asm, Label};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An exit behind the region's code, to which a branch leads.
struct Tail {
    label: Label,
    pc: u64,
    exit: TailExit,
    /// Instructions that the block of the branch has counted.
    counted: Arc<[u64]>,
}

enum TailExit {
    /// Out of the region; the branch at this place leads here.
    Direct(u32),
    /// An event at the instruction.
    Event(Exit),
}

/// A region under construction.
pub(super) struct Lower {
    asm: Asm,
    base: u64,
    labels: BTreeMap<u64, Label>,
    tails: Vec<Tail>,
    region: Region,
    conventions: Conventions,
    /// Address of the instruction.
    at: u64,
    /// Flags that are read behind the instruction.
    live: u8,
    /// Upper parts of vector registers that are read behind it.
    lanes: u32,
    temps_used: usize,
    /// Scratch registers that the instruction has used and needs no more; taken first.
    spare: Vec<u8>,
    vectors_used: usize,
    /// Scratch register that holds the instruction's vector operand in memory, once it is loaded.
    loaded: Option<u8>,
    /// LA64 registers that hold guest registers and multiples of 16, one bit each.
    aligned_bases: u32,
    /// Guest registers whose upper halves are zeros, one bit each.
    zeros: u16,
    /// Comparison whose flags have no place.
    group: Option<compare::Group>,
    /// What the registers [`FAR`] keep.
    far_kept: [Option<i64>; FAR.len()],
    /// Which of them was set last.
    far_last: usize,
    /// Whether the instruction leaves them alone but for setting them.
    keeps_far: bool,
    /// Guest addresses of the instructions that the block has counted.
    counted: Arc<[u64]>,
}

/// Flags that an instruction reads and writes, with those that a fault in it shows.
pub(super) fn flags_of(inst: &Inst, conventions: Conventions) -> (u8, u8) {
    let (reads, writes) = inst.flags();
    let shown = inst.shows_flags() || inst.may_fault() && !conventions.lazy_faults;
    (if shown { flag::ALL } else { reads }, writes)
}

/// The LA64 registers of guest registers that an instruction writes, one bit each; all where that
/// is not known.
fn written_bases(inst: &Inst) -> u32 {
    const KNOWN: [&str; 24] = [
        "mov", "movzx", "movsx", "movsxd", "lea", "add", "sub", "and", "or", "xor", "inc", "dec",
        "neg", "not", "shl", "shr", "sar", "imul", "cmov", "set", "cmp", "test", "nop", "bt",
    ];
    let stem = inst.row.stem;
    if inst.writes_only_vectors() || matches!(stem, "cmp" | "test" | "nop" | "bt" | "j") {
        return 0;
    }
    match inst.operands().next() {
        Some(Operand::Reg(r)) if KNOWN.contains(&stem) => 1 << la64(r.number),
        Some(Operand::Mem(_)) if KNOWN.contains(&stem) && !inst.lock => 0,
        _ => u32::MAX,
    }
}

/// The suffix of LA64 instructions on so many bytes.
fn suffix(size: u8) -> &'static str {
    match size {
        1 => ".b",
        2 => ".h",
        4 => ".w",
        _ => ".d",
    }
}

impl Lower {
    pub(super) fn new(base: u64, blocks: &[Block], conventions: Conventions) -> Lower {
        let mut asm = Asm::default();
        let labels = blocks.iter().map(|b| (b.start, asm.label())).collect();
        let (tails, region) = (Vec::new(), Region::default());
        Lower {
            asm,
            base,
            labels,
            tails,
            region,
            conventions,
            at: 0,
            live: 0,
            lanes: lanes::ALL,
            temps_used: 0,
            spare: Vec::new(),
            vectors_used: 0,
            loaded: None,
            aligned_bases: 0,
            zeros: 0,
            group: None,
            far_kept: [None; FAR.len()],
            far_last: 0,
            keeps_far: false,
            counted: Arc::default(),
        }
    }

    /// An LA64 instruction, with barriers if it is a load or a store that others see in order: no
    /// later access comes before a load, and no store before an earlier access.
    fn op(&mut self, mnemonic: &str, operands: &[i64]) {
        const BEHIND_LOADS: i64 = 0x14;
        const BEFORE_STORES: i64 = 0x12;
        let begins = |names: [&str; 3]| names.iter().any(|name| mnemonic.starts_with(name));
        let is_ordered = self.conventions.ordered;
        if is_ordered && begins(["st", "fst", "vst"]) {
            self.asm.op("dbar", &[BEFORE_STORES]);
        }
        self.asm.op(mnemonic, operands);
        let is_load = begins(["ld", "fld", "vld"]) && !mnemonic.starts_with("vldi");
        if is_ordered && is_load && !mutant!("x86_barriers_before_stores_only") {
            self.asm.op("dbar", &[BEHIND_LOADS]);
        }
    }

    /// An instruction on three LA64 registers.
    fn rrr(&mut self, mnemonic: &str, d: u8, a: u8, b: u8) {
        self.op(mnemonic, &[d.into(), a.into(), b.into()]);
    }

    /// An instruction on two LA64 registers.
    fn rr(&mut self, mnemonic: &str, a: u8, b: u8) {
        self.op(mnemonic, &[a.into(), b.into()]);
    }

    /// An instruction on two LA64 registers and a number.
    fn rri(&mut self, mnemonic: &str, d: u8, a: u8, number: i64) {
        self.op(mnemonic, &[d.into(), a.into(), number]);
    }

    /// Bits `high` to `low` of a register.
    fn pick(&mut self, d: u8, a: u8, high: i64, low: i64) {
        self.asm.op("bstrpick.d", &[d.into(), a.into(), high, low]);
    }

    /// Puts the low bits of a register to bits `high` to `low` of another.
    fn insert(&mut self, d: u8, a: u8, high: i64, low: i64) {
        self.asm.op("bstrins.d", &[d.into(), a.into(), high, low]);
    }

    /// A move between LA64 general registers.
    fn copy(&mut self, to: u8, from: u8) {
        if to != from {
            self.rrr("or", to, from, 0);
        }
    }

    /// A scratch register that the instruction does not use yet.
    fn temp(&mut self) -> u8 {
        if let Some(t) = self.spare.pop() {
            return t;
        }
        self.temps_used += 1;
        let is_far = self.temps_used > TEMPS.len() - FAR.len();
        assert!(!is_far || !self.keeps_far, "invariant: it needs few scratch registers");
        TEMPS[self.temps_used - 1]
    }

    /// A scratch register with a copy.
    fn copied(&mut self, from: u8) -> u8 {
        let t = self.temp();
        self.rrr("or", t, from, 0);
        t
    }

    /// A register with a number.
    fn number(&mut self, value: i64) -> u8 {
        if value == 0 {
            return 0;
        }
        let t = self.temp();
        self.asm.li(t, value);
        t
    }

    fn word(&self) -> u32 {
        self.asm.len() as u32
    }

    /// Code of the instruction at `pc` begins, before which the guest's state is exact.
    fn mark(&mut self, pc: u64) {
        self.mark_as(pc, true);
    }

    fn mark_as(&mut self, pc: u64, is_exact: bool) {
        let word = self.word();
        let (fix, spilled, spilled_float) = (None, [0; 2], None);
        let mark = Mark { word, pc, fault_pc: pc, is_exact, fix, spilled, spilled_float };
        match self.region.marks.last_mut() {
            Some(last) if last.word == mark.word => *last = mark,
            _ => self.region.marks.push(mark),
        }
    }

    fn exit(&mut self, exit: Exit) {
        let word = self.word();
        self.region.exits.push((word, exit));
        self.op("break", &[0]);
    }

    /// A label behind the region's code, where control leaves with an event of the instruction.
    fn event(&mut self, exit: Exit) -> Label {
        let label = self.asm.label();
        let (pc, counted) = (self.at, Arc::clone(&self.counted));
        self.tails.push(Tail { label, pc, exit: TailExit::Event(exit), counted });
        label
    }

    /// Whether flags are read behind the instruction.
    fn needs(&self, flags: u8) -> bool {
        self.live & flags != 0
    }

    pub(super) fn block(
        &mut self,
        block: &Block,
        (live_behind, lanes_behind): (u8, u32),
        next: Option<u64>,
    ) {
        (self.aligned_bases, self.zeros, self.group) = (0, 0, None);
        if !mutant!("x86_far_outlives_block") {
            self.far_kept = [None; FAR.len()];
        }
        let label = self.labels[&block.start];
        self.asm.bind(label);
        let word = self.word();
        self.region.entries.push((block.start, word));
        self.region.guest_count += block.body.len() as u64;
        let flow = match block.end {
            End::Flow(inst) => Some(inst),
            End::Goes(_) | End::Illegal(..) => None,
        };
        let live = self.live_in(block, flow, live_behind);
        self.count_instructions(block.start, block.body.iter().chain(&flow));
        let end = flow.iter().zip([live_behind]);
        let all: Vec<_> = block.body.iter().zip(live).chain(end).collect();
        let lanes = lanes::in_block(block, lanes_behind, self.conventions);
        for (n, inst) in block.body.iter().enumerate() {
            self.begin(&all[n..]);
            self.lanes = lanes[n];
            self.inst(inst);
            self.joined();
            self.follow_zeros(inst);
        }
        match block.end {
            End::Flow(inst) => {
                self.region.guest_count += 1;
                self.begin(&all[block.body.len()..]);
                self.flow(&inst, next);
            }
            End::Goes(at) => {
                self.mark(at);
                self.go(at, next);
            }
            End::Illegal(at, word) => {
                self.mark(at);
                self.exit(Exit::Illegal(word));
            }
        }
    }

    /// The first of some instructions begins; each with the flags that are live behind it.
    fn begin(&mut self, all: &[(&Inst, u8)]) {
        let (inst, live) = all[0];
        (self.at, self.live, self.temps_used, self.vectors_used) = (inst.at, live, 0, 0);
        if !mutant!("x86_alignment_outlives_register") {
            self.aligned_bases &= !written_bases(inst);
        }
        self.spare.clear();
        self.loaded = None;
        self.keeps_far = self.is_straight(inst);
        if !self.keeps_far {
            self.far_kept = [None; FAR.len()];
        }
        if !self.join(inst, &all[1..]) {
            self.mark(inst.at);
        }
    }

    /// The flags that are live behind each instruction of a block's body.
    fn live_in(&self, block: &Block, flow: Option<Inst>, behind: u8) -> Vec<u8> {
        let before = |inst: &Inst, live: u8| {
            let (reads, writes) = flags_of(inst, self.conventions);
            live & !writes | reads
        };
        // What stands at an address without an instruction shows all flags.
        let illegal = matches!(block.end, End::Illegal(..));
        let mut live = flow.map_or(behind, |inst| before(&inst, behind));
        live = if illegal { flag::ALL } else { live };
        let mut all = vec![0; block.body.len()];
        for (inst, place) in block.body.iter().zip(&mut all).rev() {
            *place = live;
            live = before(inst, live);
        }
        all
    }

    /// One instruction that does not end its block.
    fn inst(&mut self, inst: &Inst) {
        if inst.is_outside(self.conventions) {
            if !self.guarded(inst) {
                self.exit(Exit::Assist(inst.at));
            }
            return;
        }
        if inst.lock || inst.is("xchg") && inst.memory().is_some() {
            return self.locked(inst);
        }
        self.unlocked(inst);
    }

    /// An instruction without the promise to be atomic.
    fn unlocked(&mut self, inst: &Inst) {
        match inst.row.stem {
            "add" | "sub" | "and" | "or" | "xor" | "adc" | "sbb" | "cmp" | "test" | "inc"
            | "dec" | "neg" | "not" => self.arithmetic(inst),
            "mul" | "imul1" => self.product(inst),
            "imul" => self.product_low(inst),
            "div" | "idiv" => self.quotient(inst),
            "shl" | "shr" | "sar" | "rol" | "ror" | "rcl" | "rcr" => self.shift(inst),
            "shld" | "shrd" => self.shift_double(inst),
            "bt" | "bts" | "btr" | "btc" => self.bit(inst),
            "bsf" | "bsr" | "tzcnt" | "lzcnt" | "popcnt" => self.count(inst),
            "movs" | "cmps" | "stos" | "lods" | "scas" => self.string(inst),
            "push" | "pop" | "pushf" | "popf" | "enter" | "leave" => self.stack(inst),
            "clc" | "stc" | "cmc" | "cld" | "std" | "sahf" | "lahf" => self.flag(inst),
            _ => self.other(inst),
        }
    }

    fn other(&mut self, inst: &Inst) {
        match inst.row.stem {
            "mov" | "movzx" | "movnti" => self.move_zero(inst),
            "movsx" | "movsxd" => self.move_sign(inst),
            "lea" => self.lea(inst),
            "cmov" => self.move_if(inst),
            "set" => self.set_if(inst),
            "xchg" => self.exchange(inst),
            "cmpxchg" => self.compare_exchange(inst),
            "xadd" => self.exchange_add(inst),
            "cmpxchg8b" => self.locked(inst),
            "bswap" => self.byte_swap(inst),
            "crc32" => self.checksum(inst),
            "pcmpistri" => self.compare_strings(inst),
            "cbw" => self.widen(inst.size),
            "cwd" => self.widen_to_rdx(inst.size),
            "xlat" => self.translate_byte(inst),
            "rdtsc" => self.time(),
            "lfence" | "mfence" | "sfence" => self.op("dbar", &[0]),
            "clflush" => {
                self.read(inst.operand(0), operand::Extend::Any);
            }
            "nop" | "pause" | "endbr64" | "endbr32" => {}
            name if name.starts_with("prefetch") => {}
            _ if self.on_vectors(inst) || self.on_floats(inst) => {}
            _ => self.event_of(inst),
        }
    }

    /// An instruction that is an event.
    fn event_of(&mut self, inst: &Inst) {
        match inst.row.stem {
            "syscall" => self.system_call(inst),
            "int3" => self.exit(Exit::Break(3)),
            "int1" => self.exit(Exit::Break(1)),
            "int" if inst.operand(0) == Operand::Imm(3) => self.exit(Exit::Break(3)),
            "int" => self.exit(Exit::Privileged),
            "ud0" | "ud1" | "ud2" => self.exit(Exit::Illegal(0)),
            name => {
                assert!(inst.row.privileged, "{name} has no translation");
                self.exit(Exit::Privileged);
            }
        }
    }

    /// The region, unless a branch in it is out of reach.
    pub(super) fn finish(mut self) -> Option<Region> {
        for tail in std::mem::take(&mut self.tails) {
            self.asm.bind(tail.label);
            self.counted_already(tail.counted);
            match tail.exit {
                TailExit::Direct(branch) => {
                    self.mark(tail.pc);
                    let exit = self.to(tail.pc, branch);
                    self.exit(exit);
                }
                // A stop here would begin the instruction again and never reach the event.
                TailExit::Event(exit) => {
                    self.mark_as(tail.pc, mutant!("x86_event_begins_again"));
                    self.exit(exit);
                }
            }
        }
        self.region.words = self.asm.finish().ok()?;
        Some(self.region)
    }
}
