//! Code of one block under construction: where guest registers are, exits, the slow ways.
//!
//! - Between instructions every pinned register is in its host register and every other one in
//!   [`State`]; host flags and scratch registers carry nothing.
//! - An instruction changes no guest register before its last access to memory, so that the slow
//!   way may run it again from its beginning.
//!
//! [`State`]: crate::state::State

use super::super::Inst;
use super::super::raw::Alone;
use super::layout::{self, COUNT};
use super::slow::Slow;
use crate::jit::emit::{
    ADD_I, AND_I, Asm, CMP_TO, Cond, JMP_RM, LEA, MOV, MOV_TO, Mem, RAX, RCX, RDX, Reg, Rm, SUB_I,
    XOR,
};
use littoral_base::mutant;

/// Emits the code of one instruction.
pub(super) type Emit = fn(&mut Block<'_>, &Decoded);

/// The result from constants: the immediate, rj or rd.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fold {
    /// The immediate alone.
    Immediate,
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
}

/// A row without folding.
pub(super) const fn plain(name: &'static str, emit: Emit) -> Lowering {
    Lowering { name, emit, fold: None }
}

/// A row with folding.
pub(super) const fn folding(name: &'static str, emit: Emit, fold: Fold) -> Lowering {
    Lowering { name, emit, fold: Some(fold) }
}

/// An instruction to be translated.
#[derive(Debug)]
pub(in super::super) struct Decoded {
    /// Its address.
    pub(in super::super) pc: u64,
    /// Itself.
    pub(in super::super) word: u32,
    /// What tier 0 has.
    pub(in super::super) inst: Inst,
    /// How it is translated; without one it is a call of tier 0.
    pub(in super::super) lowering: Option<&'static Lowering>,
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
}

/// A way out of a block to a fixed address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    /// Offset of the displacement that leads on; `None` for one that is never linked.
    pub(super) site: Option<u32>,
    /// The guest address.
    pub(super) target: u64,
}

/// What stands behind the block.
#[derive(Debug)]
enum Cold {
    /// An exit by a conditional branch.
    Exit { from: usize, target: u64, count: u16 },
    /// A slow way: jumps and faulting accesses that lead to it, and where it goes on.
    Slow { from: Vec<usize>, sites: Vec<usize>, resume: usize, at: usize, before: u16 },
}

/// A block that exists.
#[derive(Debug)]
pub(super) struct Known {
    /// Offset of its code.
    pub(super) start: u32,
    /// Offset behind the check of the epoch.
    pub(super) body: u32,
    /// What is compared with memory, for a block that may change.
    pub(super) words: Option<Words>,
}

/// The instructions of a block that may change.
#[derive(Debug)]
pub(super) struct Words {
    /// When they were compared last.
    pub(super) epoch: u64,
    /// Offset of that epoch's number in the code.
    pub(super) stamp: u32,
    /// They were found different from memory.
    pub(super) stale: bool,
    /// Addresses and words.
    pub(super) list: Box<[(u64, u32)]>,
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
}

/// Offsets of the common routines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Routines {
    pub(super) enter: usize,
    pub(super) leave: usize,
    pub(super) missed: usize,
    pub(super) call: usize,
    pub(super) call_control: usize,
    pub(super) slow: usize,
}

/// A block under construction.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) asm: Asm,
    pub(super) shape: Shape,
    pub(super) routines: Routines,
    /// Where the code of a guest address is, if it exists.
    pub(super) known: &'a std::collections::HashMap<u64, Known>,
    pub(super) list: &'a [Decoded],
    /// The place of the instruction being translated.
    pub(super) at: usize,
    pub(super) first_exit: u32,
    pub(super) exits: Vec<Exit>,
    pub(super) faults: Vec<(u32, u32)>,
    pub(super) slows: Vec<Slow>,
    cold: Vec<Cold>,
    /// Registers whose value was found to be inside the window.
    checked: u32,
    constants: [Option<u64>; 32],
    /// Jumps to the slow way of the current instruction, and its faulting accesses.
    jumps: Vec<usize>,
    sites: Vec<usize>,
    /// At the instruction of this place flags tell what a register holds.
    flags: Option<(usize, usize, Cond)>,
    /// Instructions that tier 0 runs.
    #[expect(clippy::vec_box, reason = "code holds their addresses")]
    pub(super) alone: Vec<Box<Alone>>,
    pub(super) start: usize,
    /// The block ends with the current instruction.
    pub(super) ended: bool,
}

impl<'a> Block<'a> {
    pub(super) fn new(
        asm: Asm,
        shape: Shape,
        routines: Routines,
        known: &'a std::collections::HashMap<u64, Known>,
        list: &'a [Decoded],
        first_exit: u32,
    ) -> Block<'a> {
        let start = asm.here();
        Block {
            asm,
            shape,
            routines,
            known,
            list,
            at: 0,
            first_exit,
            exits: Vec::new(),
            faults: Vec::new(),
            slows: Vec::new(),
            cold: Vec::new(),
            checked: 0,
            constants: [None; 32],
            jumps: Vec::new(),
            sites: Vec::new(),
            flags: None,
            alone: Vec::new(),
            start,
            ended: false,
        }
    }

    /// Instructions up to and including the current one.
    pub(super) fn count(&self) -> u16 {
        self.at as u16 + 1
    }

    /// Where general register `n`, not 0, is.
    pub(super) fn place(&self, n: usize) -> Rm {
        debug_assert!(n != 0);
        match layout::pin(n) {
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
        match layout::pin(n) {
            Some(r) => r,
            None => {
                self.load(scratch, n);
                scratch
            }
        }
    }

    /// The host register in which a result for general register `n` is made.
    pub(super) fn target(&self, n: usize) -> Reg {
        layout::pin(n).unwrap_or(RAX)
    }

    /// Ends a write of `from` to general register `n`.
    pub(super) fn put(&mut self, n: usize, from: Reg) {
        self.wrote(n);
        match layout::pin(n) {
            _ if n == 0 => {}
            Some(r) if r == from => {}
            Some(r) => self.asm.op(MOV, true, r, from),
            None => self.asm.op(MOV_TO, true, from, layout::x(n)),
        }
    }

    /// What was known of general register `n` holds no more.
    pub(super) fn wrote(&mut self, n: usize) {
        self.checked &= !(1 << n);
        self.constants[n] = None;
    }

    /// The constant that general register `n` holds.
    pub(super) fn constant(&self, n: usize) -> Option<u64> {
        if n == 0 { Some(0) } else { self.constants[n] }
    }

    /// Writes a constant to general register `n`.
    pub(super) fn put_constant(&mut self, n: usize, value: u64) {
        if n == 0 {
            return;
        }
        self.wrote(n);
        self.constants[n] = Some(value);
        match layout::pin(n) {
            Some(r) => self.asm.mov_imm(r, value),
            None => match i32::try_from(value as i64) {
                Ok(short) => self.asm.mov_imm_to(layout::x(n), short),
                Err(_) => {
                    self.asm.mov_imm(RAX, value);
                    self.asm.op(MOV_TO, true, RAX, layout::x(n));
                }
            },
        }
    }

    /// Remembers a constant that need not be written, because the next instruction replaces it.
    pub(super) fn skip_constant(&mut self, n: usize, value: u64) {
        if n != 0 {
            self.wrote(n);
            self.constants[n] = Some(value);
        }
    }

    /// `to` = general register `n` + `imm`.
    pub(super) fn sum(&mut self, to: Reg, n: usize, imm: i32) {
        match layout::pin(n) {
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

    /// The next host instruction accesses guest memory.
    pub(super) fn access(&mut self) {
        self.sites.push(self.asm.here());
    }

    /// Whether general register `n` is known to be inside the window.
    pub(super) fn is_checked(&self, n: usize) -> bool {
        self.checked >> n & 1 == 1 || n == 0
    }

    /// General register `n` is inside the window.
    pub(super) fn check(&mut self, n: usize) {
        self.checked |= 1 << n;
    }

    /// Counts the instructions so far and goes to a guest address, unless the slice is used up.
    pub(super) fn exit(&mut self, target: u64, count: u16, linked: bool) {
        self.asm.arith(SUB_I, true, COUNT, count.into());
        let id = self.first_exit + self.exits.len() as u32;
        let site = linked.then(|| {
            let here = self.asm.here() + 6;
            let known = (target == self.list[0].pc).then_some(self.start);
            let known = known.or_else(|| self.known.get(&target).map(|known| known.start as usize));
            self.asm.jump(Some(Cond::Ns), known.unwrap_or(here)) as u32
        });
        self.exits.push(Exit { site, target });
        self.asm.mov_imm_keeping_flags(RAX, id.into());
        self.asm.jump(None, self.routines.leave);
    }

    /// Leaves for the branch's target if `cond` holds.
    pub(super) fn exit_if(&mut self, cond: Cond, target: u64) {
        // A branch backward is mostly taken.
        if target <= self.list[self.at].pc {
            let on = self.asm.jump_near(Some(cond.opposite()));
            self.exit(target, self.count(), true);
            self.asm.bind_near(on);
        } else {
            let from = self.asm.jump_near(Some(cond));
            let count = self.count() - u16::from(mutant!("la64_side_exit_counts_less"));
            self.cold.push(Cold::Exit { from, target, count });
        }
    }

    /// Leaves for the address in rax.
    pub(super) fn exit_indirect(&mut self) {
        let count = self.count();
        self.asm.arith(SUB_I, true, COUNT, count.into());
        self.asm.jump(Some(Cond::S), self.routines.missed);
        self.asm.op(MOV, true, RDX, layout::JUMPS);
        self.asm.op(MOV, false, RCX, RAX);
        self.asm.arith(AND_I, false, RCX, layout::JUMP_MASK);
        let entry = |disp| Mem::indexed(RDX, RCX, 2, disp);
        self.asm.op(CMP_TO, true, RAX, entry(0));
        self.asm.jump(Some(Cond::Ne), self.routines.missed);
        self.asm.unary(JMP_RM, false, entry(8));
    }

    /// Ends the current instruction: its slow way goes on here.
    pub(super) fn finish_instruction(&mut self) {
        if self.jumps.is_empty() && self.sites.is_empty() {
            return;
        }
        let (from, sites) = (std::mem::take(&mut self.jumps), std::mem::take(&mut self.sites));
        let (resume, at) = (self.asm.here(), self.at);
        self.cold.push(Cold::Slow { from, sites, resume, at, before: at as u16 });
    }

    /// Leaves for the dispatch loop unless this is the epoch in which the block was compared; the
    /// offset of the number in the comparison.
    pub(super) fn check_epoch(&mut self, epoch: u64) -> usize {
        self.asm.op(MOV, true, RAX, layout::EPOCH);
        let stamp = self.asm.compare_number(Mem::at(RAX, 0), epoch as u32);
        let same = self.asm.jump_short(Some(Cond::E));
        let id = self.first_exit + self.exits.len() as u32;
        self.exits.push(Exit { site: None, target: self.list[0].pc });
        self.asm.mov_imm(RAX, id.into());
        self.asm.jump(None, self.routines.leave);
        self.asm.bind_short(same);
        stamp
    }

    /// Forgets what was known of registers: tier 0 ran.
    pub(super) fn forget(&mut self) {
        self.checked = 0;
        self.constants = [None; 32];
    }

    /// Writes what stands behind the block.
    pub(super) fn finish(&mut self) {
        for cold in std::mem::take(&mut self.cold) {
            match cold {
                Cold::Exit { from, target, count } => {
                    self.asm.bind_near(from);
                    self.exit(target, count, true);
                }
                Cold::Slow { from, sites, resume, at, before } => {
                    from.into_iter().for_each(|jump| self.asm.bind_near(jump));
                    let landing = self.asm.here() as u32;
                    self.faults.extend(sites.into_iter().map(|site| (site as u32, landing)));
                    self.asm.call(self.routines.slow);
                    let back = self.asm.here() as u32;
                    self.asm.jump(None, resume);
                    let Decoded { pc, inst, .. } = &self.list[at];
                    self.slows.push(Slow { back, before, pc: *pc, inst: inst.clone() });
                }
            }
        }
    }
}

/// What lowerings tell each other.
impl Block<'_> {
    /// General register `n` holds a constant.
    pub(super) fn know(&mut self, n: usize, value: u64) {
        self.constants[n] = Some(value);
    }

    /// Host flags say behind this instruction what general register `n` says as 0 or 1.
    pub(super) fn flags_tell(&mut self, n: usize, cond: Cond) {
        self.flags = Some((self.at, n, cond));
    }

    /// The condition under which general register `n` is not zero, if host flags tell.
    pub(super) fn told(&self, n: usize) -> Option<Cond> {
        let (at, of, cond) = self.flags?;
        (at + 1 == self.at && of == n).then_some(cond)
    }

    /// The instruction runs on tier 0.
    pub(super) fn call_tier_0(&mut self, d: &Decoded) {
        let alone = Box::new(Alone::new(d.pc, d.inst.clone(), self.at as u16));
        self.asm.mov_imm(RAX, alone.address());
        self.alone.push(alone);
        let routine = if d.control { self.routines.call_control } else { self.routines.call };
        self.asm.call(routine);
        self.forget();
    }
}
