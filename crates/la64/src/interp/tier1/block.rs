//! Code of one block under construction: where guest registers are, exits, the slow ways.
//!
//! - Between instructions every pinned register (see [`Pins`]) is in its host register and every
//!   other one in [`State`]; host flags and scratch registers carry nothing.
//! - An instruction changes no guest register before its last access to memory, so that the slow
//!   way may run it again from its beginning.
//!
//! [`State`]: crate::state::State

mod anchors;
mod exits;
mod flags;
mod numbers;
mod paths;
mod ranges;
mod sums;

use super::super::Inst;
use super::super::raw::Alone;
use super::constants::{Constant, Constants, Due, Owed};
use super::control::{Floats, Mixes};
use super::known::{Check, Known};
use super::layout::{self, SLACK_MIN};
use super::pins::{Pins, STANDARD};
use super::plan::End;
use super::reach::{Line, Operands, Reach};
use super::routines::{self, Call, Routines};
use super::slow::Slow;
use crate::jit::emit::{
    ADD, ADD_I, Asm, CMP, Cond, LEA, MOV, MOV_TO, MOVSXD, Mem, RAX, RCX, RIP, Reg, Rm, XOR, Xmm,
};
use crate::jit::packed::V_BROADCASTQ;
use crate::shared::Index;
use littoral_base::mutant;
use paths::Region;
pub(super) use ranges::Ahead;
use std::cell::Cell;
use std::ops::Range;
use sums::Sums;

/// What lists of a block have room for at first.
const LIST_LEN: usize = 16;
/// The opcode of `bl`.
const BL_OPCODE: u32 = 0x15;

/// Emits the code of one instruction.
pub(super) type Emit = fn(&mut Block<'_>, &Decoded);

/// The result from constants: the immediate, rj or rd.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fold {
    /// The immediate alone.
    Immediate,
    /// rj + the immediate, which moves with the code if rj does.
    Sum,
    /// rj and the immediate.
    OfJ(fn(u64, i64) -> u64),
    /// rd and the immediate.
    OfD(fn(u64, i64) -> u64),
}

/// How an instruction is translated.
#[derive(Debug)]
pub(in super::super) struct Lowering {
    pub(super) name: &'static str,
    pub(super) emit: Emit,
    /// For forms whose result follows from constants.
    pub(super) fold: Option<Fold>,
    /// Whether elements of a vector raise flags beside another one that traps.
    pub(in super::super) mixes: Mixes,
}

/// A row without folding.
pub(super) const fn plain(name: &'static str, emit: Emit) -> Lowering {
    Lowering { name, emit, fold: None, mixes: Mixes::Never }
}

/// A row of lanes of floating point.
pub(super) const fn mixing(mixes: Mixes, name: &'static str, emit: Emit) -> Lowering {
    Lowering { name, emit, fold: None, mixes }
}

/// A row with folding.
pub(super) const fn folding(name: &'static str, emit: Emit, fold: Fold) -> Lowering {
    Lowering { name, emit, fold: Some(fold), mixes: Mixes::Never }
}

/// An instruction to be translated.
#[derive(Clone, Debug)]
pub(in super::super) struct Decoded {
    /// Its address.
    pub(in super::super) pc: u64,
    /// Itself.
    pub(in super::super) word: u32,
    /// What tier 0 has.
    pub(in super::super) inst: Inst,
    /// How it is translated; without one it is a call of tier 0.
    pub(in super::super) lowering: Option<&'static Lowering>,
    /// What its operands are.
    pub(in super::super) operands: Operands,
    /// A branch to the fixed address in the immediate.
    pub(in super::super) branches: bool,
    /// A vector instruction of 256 bits.
    pub(in super::super) wide: bool,
    /// It reads or writes the FCSR.
    pub(in super::super) control: bool,
    /// After it the dispatch loop looks again which tier may run.
    pub(in super::super) last: bool,
}

impl Decoded {
    pub(super) fn rd(&self) -> usize {
        self.inst.rd.number()
    }

    pub(super) fn rj(&self) -> usize {
        self.inst.rj.number()
    }

    pub(super) fn rk(&self) -> usize {
        self.inst.rk.number()
    }

    pub(super) fn ra(&self) -> usize {
        self.inst.ra.number()
    }

    pub(super) fn imm(&self) -> i64 {
        self.inst.imm
    }

    /// The immediate, which is the target of a branch to a fixed address.
    pub(in super::super) fn target(&self) -> u64 {
        self.inst.imm as u64
    }

    /// The immediate as a result: with the address of the instruction, where its name says so.
    pub(super) fn immediate(&self) -> Constant {
        let relative = self.lowering.is_some_and(|lowering| lowering.name.starts_with("pc"));
        let relative = relative && !mutant!("la64_relocation_left_out");
        Constant { value: self.imm() as u64, relative }
    }

    /// Numbers of the registers that its fields name.
    pub(super) fn numbers(&self) -> [usize; 4] {
        [self.rd(), self.rj(), self.rk(), self.ra()]
    }

    /// What matters of it for the accesses of a loop that begins at `start`.
    fn line(&self, start: u64) -> Line {
        Line {
            name: self.lowering.map(|lowering| lowering.name),
            numbers: self.numbers(),
            imm: self.imm().unsigned_abs(),
            operands: self.operands,
            branches: self.branches,
            leads_back: self.leads_to(start),
        }
    }

    /// It branches, and does not call, to a guest address.
    pub(super) fn leads_to(&self, target: u64) -> bool {
        self.branches && self.imm() as u64 == target && self.word >> 26 != BL_OPCODE
    }
}

/// A way out of a block to a fixed address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    /// Offset of the displacement that leads on; `None` for one that is never linked.
    pub(super) site: Option<u32>,
    /// The guest address.
    pub(super) target: u64,
    /// It leads to the plain code of that address.
    pub(super) plain: bool,
    /// It was linked when its code was made.
    pub(super) linked: bool,
}

impl Exit {
    /// What its target's code is known by.
    pub(super) fn key(&self) -> u64 {
        self.target | u64::from(self.plain)
    }
}

/// Added to the number of a condition flag where general registers are named by theirs.
pub(super) const FLAGS: usize = 32;

/// What stands behind the block.
#[derive(Debug)]
enum Cold {
    /// An exit by a conditional branch.
    Exit { from: usize, target: u64, count: u16, due: Due },
    /// A slow way: jumps and faulting accesses that lead to it, by their places in the block's
    /// lists, and where it goes on.
    Slow {
        from: Range<usize>,
        sites: Range<usize>,
        resume: usize,
        at: usize,
        told: Option<(usize, Cond)>,
        due: Due,
        steps: Due,
    },
    /// Jumps of checks ahead of a loop that failed: its plain code goes on.
    Plain { from: Vec<usize>, target: u64 },
    /// The end of a region's path behind a branch.
    End { from: usize, end: End, count: u16, due: Due, held: bool },
    /// Another target of a region's branch by register than the first, by the branch's place.
    Targets { from: usize, at: usize, due: Due, held: Vec<bool> },
}

/// What a block may rely on of the window it accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Displacements below this need no check of their own.
    pub(super) slack: u64,
    /// First address that loads must not reach.
    pub(super) near: u64,
    /// Stores need rights.
    pub(super) guarded: bool,
    /// Code counts instructions.
    pub(super) counted: bool,
}

/// What code holds that depends on where it is, or on what is elsewhere, by offsets: so it can be
/// put in another place.
#[derive(Debug, Default)]
pub(super) struct Sites {
    /// Eight bytes that move with the guest's code.
    pub(super) relative: Vec<usize>,
    /// Eight bytes with the address of an [`Alone`], and the instruction's place.
    pub(super) alone: Vec<(usize, u16)>,
    /// Four bytes with the number of an exit, in their order.
    pub(super) exits: Vec<usize>,
    /// The code is right only where it was made: it relies on more of an address than that.
    pub(super) fixed: bool,
}

impl Sites {
    /// Code is about to rely on a constant.
    fn rely_on(&mut self, constant: Constant) {
        self.fixed |= constant.relative && !is_long(constant.value);
    }
}

/// Whether code treats a constant as any 64 bits: it is no displacement, no short immediate and no
/// sign-extended word.
fn is_long(value: u64) -> bool {
    value >> 32 != 0 && i32::try_from(value as i64).is_err()
}

/// A block under construction.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) asm: Asm,
    pub(super) shape: Shape,
    pub(super) routines: Routines,
    /// Where the code of a guest address is, if it exists.
    pub(super) known: &'a Index<Known>,
    pub(super) list: &'a [Decoded],
    /// The place of the instruction being translated.
    pub(super) at: usize,
    pub(super) first_exit: u32,
    pub(super) exits: Vec<Exit>,
    pub(super) faults: Vec<(u32, u32)>,
    pub(super) slows: Vec<Slow>,
    cold: Vec<Cold>,
    /// How far a register's value is at most from an address inside the window.
    reach: [Option<u64>; 32],
    /// Accesses of a loop that need no check in it.
    free: Reach,
    pub(super) constants: Constants,
    /// Registers that hold a sign-extended word, one bit each.
    extended: u32,
    /// The greatest magnitude that a register's number can have, where that is small.
    bounds: [Option<u64>; 32],
    /// What registers are sums of, and the number of the latest value.
    sums: Sums,
    values: u32,
    /// Instructions behind the current one whose work it has done.
    pub(super) done_ahead: usize,
    /// What vector registers are loaded from behind the block, with its sites.
    literals: Vec<(u64, Vec<usize>)>,
    /// Jumps to slow ways, and faulting accesses; those of the current instruction are behind those
    /// of others.
    jumps: Vec<usize>,
    accesses: Vec<usize>,
    others: (usize, usize),
    /// At the instruction of this place flags tell what a register holds.
    flags: Option<(usize, usize, Cond)>,
    /// A register that is not written because the branch behind knows what it holds on either side.
    owed: Option<usize>,
    /// Instructions that tier 0 runs.
    #[expect(clippy::vec_box, reason = "code holds their addresses")]
    pub(super) alone: Vec<Box<Alone>>,
    /// What its code holds of its place.
    pub(super) sites: Sites,
    pub(super) start: usize,
    /// What the code relies on in floating point.
    pub(super) floats: Floats,
    pins: Pins,
    /// These are not the standard ones.
    has_own_pins: bool,
    /// Where the block goes on by its own back edge, its pins being in place.
    head: usize,
    /// Calls of tier 0 in a block with pins of its own, by offset of the displacement.
    calls: Vec<(Call, usize)>,
    /// The block ends with the current instruction.
    pub(super) ended: bool,
    /// Every access has its own check.
    pub(super) plain: bool,
    /// Where the instructions end that follow each other.
    pub(super) end: usize,
    /// It is a region, of this plan.
    region: Option<Region<'a>>,
    /// By base: how often accesses by a sum need no check because of it, less how often they do.
    saved: [i64; 32],
    /// Registers that stay and that accesses add to others.
    in_pairs: u32,
    /// Registers that are checked ahead of a region to hold short numbers, and those of them whose
    /// check something relied on.
    short: u32,
    relied_on: Cell<u32>,
}

impl<'a> Block<'a> {
    pub(super) fn new(
        asm: Asm,
        shape: Shape,
        routines: Routines,
        known: &'a Index<Known>,
        list: &'a [Decoded],
        first_exit: u32,
    ) -> Block<'a> {
        let start = asm.here();
        let (sums, values) = Sums::new();
        Block {
            asm,
            shape,
            routines,
            known,
            list,
            at: 0,
            first_exit,
            exits: Vec::with_capacity(LIST_LEN),
            faults: Vec::with_capacity(LIST_LEN),
            slows: Vec::with_capacity(LIST_LEN),
            cold: Vec::with_capacity(LIST_LEN),
            reach: [None; 32],
            free: Reach::default(),
            constants: Constants::default(),
            extended: 0,
            bounds: [None; 32],
            sums,
            values,
            done_ahead: 0,
            literals: Vec::new(),
            jumps: Vec::with_capacity(LIST_LEN),
            accesses: Vec::with_capacity(LIST_LEN),
            others: (0, 0),
            flags: None,
            owed: None,
            alone: Vec::new(),
            sites: Sites::default(),
            start,
            floats: Floats::Tested,
            pins: STANDARD.clone(),
            has_own_pins: false,
            head: start,
            calls: Vec::new(),
            ended: false,
            plain: false,
            end: list.len(),
            region: None,
            saved: [0; 32],
            in_pairs: 0,
            short: 0,
            relied_on: Cell::new(0),
        }
    }

    /// Gives the block, a loop, pins of its own, and checks ahead of it what it accesses.
    pub(super) fn enter_loop(&mut self) {
        if !self.plain && !self.shape.guarded && self.shape.slack >= SLACK_MIN {
            let start = self.list[0].pc;
            let lines: Vec<Line> = self.list.iter().map(|d| d.line(start)).collect();
            self.free = Reach::of_loop(&lines, self.shape.slack);
            let from = self.check_ahead();
            if !from.is_empty() {
                self.cold.push(Cold::Plain { from, target: start });
            }
        }
        let pins = Pins::of_loop(self.list.iter().map(|d| (d.word, 1)), &self.free);
        if pins != STANDARD {
            STANDARD.change_to(&mut self.asm, &pins);
            self.pins = pins;
            self.has_own_pins = true;
        }
        self.head = self.asm.here();
    }

    /// Goes back to the standard pins, before an exit.
    fn standard_pins(&mut self) {
        if self.has_own_pins && !mutant!("la64_loop_exit_keeps_registers") {
            self.pins.change_to(&mut self.asm, &STANDARD);
        }
    }

    /// Compares with the window, ahead of a loop, what its accesses are not compared with inside:
    /// the jumps of what is outside.
    fn check_ahead(&mut self) -> Vec<usize> {
        let mut from = Vec::new();
        let bases: Vec<usize> = self.free.bases().collect();
        let pairs = self.free.pairs.clone();
        if mutant!("la64_loops_unchecked") {
            return from;
        }
        for n in bases {
            let base = self.get(n, RAX);
            self.asm.op(CMP, true, base, layout::NEAR);
            from.push(self.asm.jump_near(Some(Cond::Ae)));
        }
        for (j, k) in pairs {
            self.load(RAX, j);
            let place = self.place(k);
            self.asm.op(ADD, true, RAX, place);
            self.asm.op(CMP, true, RAX, layout::NEAR);
            from.push(self.asm.jump_near(Some(Cond::Ae)));
        }
        let short = if mutant!("la64_region_short_unchecked") { 0 } else { self.short };
        for n in (1..32).filter(|n| short >> n & 1 == 1) {
            let place = self.place(n);
            self.asm.op(MOVSXD, true, RAX, place);
            self.asm.op(CMP, true, RAX, place);
            from.push(self.asm.jump_near(Some(Cond::Ne)));
        }
        from
    }

    /// The host register of general register `n`, if it has one.
    pub(super) fn pin(&self, n: usize) -> Option<Reg> {
        self.pins.general(n)
    }

    /// The host register of the low half of vector register `n`, if it has one.
    pub(super) fn vector_pin(&self, n: usize) -> Option<Xmm> {
        self.pins.vector(n)
    }

    /// Calls a routine that runs an instruction on tier 0.
    fn call_routine(&mut self, what: Call) {
        if !self.has_own_pins {
            return self.asm.call(self.routines.calls[what as usize]);
        }
        let at = self.asm.call_near();
        self.calls.push((what, at));
    }

    /// Writes the routines that `call_routine` needs for pins of the block's own.
    fn finish_calls(&mut self) {
        for what in Call::ALL {
            let sites: Vec<usize> =
                self.calls.iter().filter(|c| c.0 == what).map(|c| c.1).collect();
            if !sites.is_empty() {
                let routine =
                    routines::call(&mut self.asm, self.routines.spilled, what, &self.pins);
                sites.into_iter().for_each(|site| self.asm.bind_near_to(site, routine));
            }
        }
    }

    /// Instructions up to and including the current one.
    pub(super) fn count(&self) -> u16 {
        self.count_of(self.at)
    }

    /// Instructions up to and including the one of a place.
    fn count_of(&self, at: usize) -> u16 {
        self.region.as_ref().map_or(at as u16 + 1, |region| region.count(at))
    }

    /// The instruction so many places behind the current one, if control always comes to it.
    pub(super) fn ahead(&self, places: usize) -> Option<&'a Decoded> {
        let at = self.at + places;
        (at < self.end).then(|| &self.list[at])
    }

    /// Where general register `n`, not 0, is.
    pub(super) fn place(&self, n: usize) -> Rm {
        debug_assert!(n != 0);
        match self.pin(n) {
            Some(r) => r.into(),
            None => layout::x(n).into(),
        }
    }

    /// Copies general register `n` to `to`.
    pub(super) fn load(&mut self, to: Reg, n: usize) {
        match n {
            0 => self.asm.op(XOR, false, to, to),
            _ => {
                let place = self.place(n);
                if place != to.into() {
                    self.asm.op(MOV, true, to, place);
                }
            }
        }
    }

    /// The low half of general register `n` in `to`, whose upper half the next instruction clears.
    pub(super) fn load_half(&mut self, to: Reg, n: usize) {
        if n == 0 || self.place(n) != to.into() {
            self.load_low(to, n);
        }
    }

    /// As `load`, keeping host flags.
    pub(super) fn load_low(&mut self, to: Reg, n: usize) {
        match n {
            0 => self.asm.op(XOR, false, to, to),
            _ => {
                let place = self.place(n);
                self.asm.op(MOV, false, to, place);
            }
        }
    }

    /// A host register with the value of general register `n`: its pin, or `scratch`.
    pub(super) fn get(&mut self, n: usize, scratch: Reg) -> Reg {
        match self.pin(n) {
            Some(r) => r,
            None => {
                self.load(scratch, n);
                scratch
            }
        }
    }

    /// The host register in which a result for general register `n` is made.
    pub(super) fn target(&self, n: usize) -> Reg {
        self.pin(n).unwrap_or(RAX)
    }

    /// Ends a write of `from` to general register `n`.
    pub(super) fn put(&mut self, n: usize, from: Reg) {
        self.wrote(n);
        match self.pin(n) {
            _ if n == 0 => {}
            Some(r) if r == from => {}
            Some(r) => self.asm.op(MOV, true, r, from),
            None => self.asm.op(MOV_TO, true, from, layout::x(n)),
        }
    }

    /// What was known of general register `n` holds no more.
    pub(super) fn wrote(&mut self, n: usize) {
        self.reach[n] = None;
        self.bounds[n] = None;
        self.new_value(n);
        self.constants.forget(n);
        if !mutant!("la64_extension_outlives_a_write") {
            self.extended &= !(1 << n);
        }
    }

    /// General register `n` was written with a sign-extended word.
    pub(super) fn extends(&mut self, n: usize) {
        self.extended |= 1 << n;
    }

    /// Whether general register `n` is known to hold a sign-extended word.
    pub(super) fn is_extended(&self, n: usize) -> bool {
        let fits = |value: u64| i32::try_from(value as i64).is_ok();
        n == 0 || self.extended >> n & 1 == 1 || self.constant(n).is_some_and(fits)
    }

    /// The constant that general register `n` holds.
    pub(super) fn constant(&self, n: usize) -> Option<u64> {
        self.constants.get(n).map(|constant| constant.value)
    }

    /// General register `n` becomes a constant, which is written when something needs it.
    pub(super) fn put_constant(&mut self, n: usize, constant: Constant) {
        if n != 0 {
            self.sites.rely_on(constant);
            self.wrote(n);
            self.is_constant(n, constant);
            self.constants.put_off(n, constant);
        }
    }

    /// `to` = a constant, keeping flags.
    pub(super) fn move_constant(&mut self, to: Reg, constant: Constant) {
        self.sites.rely_on(constant);
        if constant.relative && is_long(constant.value) {
            let at = self.asm.mov_imm_long(to, constant.value);
            self.sites.relative.push(at);
        } else {
            self.asm.mov_imm_keeping_flags(to, constant.value);
        }
    }

    /// Writes all constants that are not in their registers yet.
    pub(super) fn settle_all(&mut self) {
        let due = self.constants.take_all();
        self.write_due(&due);
    }

    /// Writes constants, keeping flags and all scratch registers but rcx.
    fn write_due(&mut self, due: &Due) {
        for &(n, owed) in due {
            let constant = match owed {
                Owed::Constant(constant) => constant,
                Owed::Step(step) => {
                    self.add_step(n, step);
                    continue;
                }
                Owed::Scale(by) => {
                    self.shift_by_scale(n, by);
                    continue;
                }
            };
            match self.pin(n) {
                Some(r) => self.move_constant(r, constant),
                None => match i32::try_from(constant.value as i64) {
                    Ok(short) => self.asm.mov_imm_to(layout::x(n), short),
                    Err(_) => {
                        self.move_constant(RCX, constant);
                        self.asm.op(MOV_TO, true, RCX, layout::x(n));
                    }
                },
            }
        }
    }

    /// `to` = general register `n` + `imm`.
    pub(super) fn sum(&mut self, to: Reg, n: usize, imm: i32) {
        match self.pin(n) {
            Some(r) if imm != 0 => self.asm.op(LEA, true, to, Mem::at(r, imm)),
            _ => {
                self.load(to, n);
                if imm != 0 {
                    self.asm.arith(ADD_I, true, to, imm);
                }
            }
        }
    }

    /// The slow way is taken if `cond` holds.
    pub(super) fn slow_if(&mut self, cond: Cond) {
        let jump = self.asm.jump_near(Some(cond));
        self.jumps.push(jump);
    }

    /// The next host instruction accesses guest memory or may be an invalid operation.
    pub(super) fn access(&mut self) {
        self.accesses.push(self.asm.here());
    }

    /// Ends the current instruction: its slow way goes on here.
    pub(super) fn finish_instruction(&mut self) {
        let behind = (self.jumps.len(), self.accesses.len());
        let before = std::mem::replace(&mut self.others, behind);
        if before == behind {
            return;
        }
        let (from, sites) = (before.0..behind.0, before.1..behind.1);
        let (resume, at) = (self.asm.here(), self.at);
        let told = self.flags.filter(|f| f.0 == at).map(|(_, n, cond)| (n, cond));
        let due = self.constants.due_before();
        let steps = self.steps_kept(&due);
        self.cold.push(Cold::Slow { from, sites, resume, at, told, due, steps });
    }

    /// Leaves for the dispatch loop, or for the block that took this one's place, unless this is
    /// the epoch in which the block was compared.
    pub(super) fn check_epoch(&mut self, epoch: u64) -> Check {
        self.asm.op(MOV, true, RAX, layout::EPOCH);
        self.asm.align_patched(2);
        let stamp = self.asm.compare_number(Mem::at(RAX, 0), epoch as u32) as u32;
        let same = self.asm.jump_short(Some(Cond::E));
        let id = self.first_exit + self.exits.len() as u32;
        self.exits.push(Exit { site: None, target: self.list[0].pc, plain: false, linked: false });
        self.asm.mov_imm(RAX, id.into());
        self.asm.align_patched(1);
        let onward = self.asm.jump(None, self.routines.leave) as u32;
        self.asm.bind_short(same);
        Check { stamp, onward }
    }

    /// Forgets what was known of registers: tier 0 ran.
    pub(super) fn forget(&mut self) {
        self.reach = [None; 32];
        self.bounds = [None; 32];
        self.forget_sums();
        self.constants = Constants::default();
        self.extended = 0;
    }

    /// Writes what stands behind the block.
    pub(super) fn finish(&mut self) {
        self.constants = Constants::default();
        for cold in std::mem::take(&mut self.cold) {
            match cold {
                Cold::Exit { from, target, count, due } => {
                    self.asm.bind_near(from);
                    self.write_due(&due);
                    self.exit(target, count, true);
                }
                Cold::Plain { from, target } => {
                    from.into_iter().for_each(|jump| self.asm.bind_near(jump));
                    self.leave_for_plain(target);
                }
                Cold::End { from, end, count, due, held } => {
                    self.asm.bind_near(from);
                    self.write_due(&due);
                    self.end_path(end, count, held);
                }
                Cold::Targets { from, at, due, held } => {
                    self.other_targets(from, at, &due, &held);
                }
                Cold::Slow { from, sites, resume, at, told, due, steps } => {
                    self.jumps[from].iter().for_each(|&jump| self.asm.bind_near(jump));
                    let landing = self.asm.here() as u32;
                    let sites = self.accesses[sites].iter();
                    self.faults.extend(sites.map(|&site| (site as u32, landing)));
                    if !mutant!("la64_constants_lost_at_faults") {
                        self.write_due(&due);
                    }
                    self.call_routine(Call::Slow);
                    let back = self.asm.here() as u32;
                    self.write_due(&steps);
                    if let Some((n, cond)) = told {
                        self.tell_again(n, cond);
                    }
                    self.asm.jump(None, resume);
                    let Decoded { pc, word, .. } = self.list[at];
                    let before = self.count_of(at) - 1;
                    self.slows.push(Slow { pc, back, word, before });
                }
            }
        }
        self.finish_region();
        self.finish_calls();
        self.finish_literals();
    }

    /// `to` = `value` in both doublewords; keeps all else.
    pub(super) fn load_literal(&mut self, to: Xmm, value: u64) {
        self.asm.packed_unary(V_BROADCASTQ, to, Mem::at(RIP, 0));
        let site = self.asm.here() - 4;
        match self.literals.iter_mut().find(|l| l.0 == value) {
            Some((_, sites)) => sites.push(site),
            None => self.literals.push((value, vec![site])),
        }
    }

    fn finish_literals(&mut self) {
        if !self.literals.is_empty() {
            self.asm.align(8);
        }
        for (value, sites) in std::mem::take(&mut self.literals) {
            sites.into_iter().for_each(|site| self.asm.bind_near(site));
            self.asm.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// What lowerings tell each other.
impl Block<'_> {
    /// General register `n` holds a constant.
    pub(super) fn know(&mut self, n: usize, constant: Constant) {
        self.is_constant(n, constant);
        self.constants.know(n, constant);
    }

    /// The instruction runs on tier 0.
    pub(super) fn call_tier_0(&mut self, d: &Decoded) {
        self.settle_all();
        let alone = Box::new(Alone::new(d.pc, d.inst.clone(), self.count() - 1));
        let at = self.asm.mov_imm_long(RAX, alone.address());
        self.sites.alone.push((at, self.at as u16));
        self.alone.push(alone);
        self.call_routine(if d.control { Call::Control } else { Call::Alone });
        self.forget();
    }
}
