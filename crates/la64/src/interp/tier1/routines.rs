//! The routines that all blocks share: in, out, and calls of tier 0.

use super::frame::exit;
use super::layout::{self, COUNT, STATE, WINDOW};
use super::pins::{Pins, STANDARD};
use crate::jit::emit::{
    ADD_I, AND_I, Asm, CALL_RM, CMP_TO, Cond, JMP_RM, LEA, MOV, MOV_TO, Mem, R12, R13, R14, R15,
    RAX, RBP, RBX, RCX, RDI, RDX, RIP, RSI, RSP, Reg, SHR, SUB, SUB_I, TEST, XOR,
};
use crate::jit::raw::HURRY;
use littoral_base::mutant;

/// Offsets of the common routines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Routines {
    pub(super) enter: usize,
    pub(super) leave: usize,
    /// Leaves for the guest address in rax.
    pub(super) missed: usize,
    /// Where `probe` goes on if it has found nothing.
    pub(super) spare: usize,
    /// Goes on at the guest address in rax.
    pub(super) probe: usize,
    /// Behind the spilling of pins in `leave`.
    pub(super) spilled: usize,
    /// Calls of tier 0 by their kinds, for standard pins.
    pub(super) calls: [usize; 3],
    /// From here on r14 holds the count.
    pub(super) counts: usize,
}

/// Bytes that code without a count may push.
const PUSHED_MAX: i32 = 512 << 10;

const SAVED: [Reg; 6] = [RBX, RBP, R12, R13, R14, R15];

/// Writes all routines. Where r14 does not hold the count comes first.
pub(super) fn write(asm: &mut Asm) -> Routines {
    let mut routines = Routines { spilled: asm.here(), ..Routines::default() };
    leave(asm);
    asm.align(16);
    routines.enter = asm.here();
    enter(asm);
    routines.counts = asm.here();
    let bottom = begin(asm);
    asm.align(16);
    routines.leave = asm.here();
    asm.op(MOV_TO, false, RAX, layout::EXIT);
    STANDARD.spill(asm);
    asm.jump(None, routines.spilled);
    asm.align(16);
    routines.missed = asm.here();
    asm.op(MOV_TO, true, RAX, layout::PC);
    asm.mov_imm(RAX, exit::ELSEWHERE.into());
    asm.jump(None, routines.leave);
    asm.align(16);
    routines.spare = asm.here();
    probe_spare(asm, routines.missed);
    asm.unary(JMP_RM, false, FOUND);
    asm.align(16);
    routines.probe = asm.here();
    probe(asm, routines.spare);
    asm.unary(JMP_RM, false, FOUND);
    asm.align(16);
    // More returns than calls: the bottom stays.
    asm.bind_near(bottom);
    push_here(asm);
    asm.jump(None, routines.probe);
    let spilled = routines.spilled;
    routines.calls = Call::ALL.map(|what| call(asm, spilled, what, &STANDARD));
    routines
}

/// The host address that `probe` found.
pub(super) const FOUND: Mem = Mem::at(RDX, layout::KNOWN_HOST);

/// Finds the block of the guest address in rax, or goes on at `spare`.
pub(super) fn probe(asm: &mut Asm, spare: usize) {
    asm.op(MOV, true, RDX, layout::JUMPS);
    asm.op(MOV, false, RCX, RAX);
    asm.arith(AND_I, false, RCX, layout::JUMP_MASK);
    asm.op(MOV, true, RDX, Mem::indexed(RDX, RCX, 1, 0));
    asm.op(CMP_TO, true, RAX, Mem::at(RDX, layout::KNOWN_KEY));
    asm.jump(Some(Cond::Ne), spare);
}

/// The same in the spare part of the table, or leaves for the address.
fn probe_spare(asm: &mut Asm, missed: usize) {
    asm.op(MOV, true, RDX, layout::JUMPS);
    asm.op(MOV, false, RCX, RAX);
    asm.imm8(SHR, false, RCX, layout::TARGET_BITS as u8);
    asm.op(XOR, false, RCX, RAX);
    asm.arith(AND_I, false, RCX, layout::SPARE_MASK);
    asm.op(MOV, true, RDX, Mem::indexed(RDX, RCX, 1, layout::SPARE));
    asm.op(CMP_TO, true, RAX, Mem::at(RDX, layout::KNOWN_KEY));
    asm.jump(Some(Cond::Ne), missed);
}

/// Pushes the host address of this instruction.
fn push_here(asm: &mut Asm) {
    const LEA_BYTES: i32 = 7;
    asm.op(LEA, true, RCX, Mem::at(RIP, -LEA_BYTES));
    asm.push(RCX);
}

/// In: rdi is the state register's value, rsi the code to go on at.
fn enter(asm: &mut Asm) {
    for r in SAVED {
        asm.push(r);
    }
    asm.arith(SUB_I, true, RSP, 8);
    asm.op(MOV, true, STATE, RDI);
    asm.op(MOV, true, RAX, RSI);
    asm.op(MOV, true, WINDOW, layout::WINDOW_BASE);
    asm.stmxcsr(layout::HOST_CONTROL);
    asm.ldmxcsr(layout::GUEST_CONTROL);
    STANDARD.reload(asm);
    asm.op(MOV_TO, true, RSP, layout::STACK);
    asm.op(LEA, true, RCX, Mem::at(RSP, -PUSHED_MAX));
    asm.op(MOV_TO, true, RCX, layout::FLOOR);
    asm.op(MOV, true, COUNT, layout::LEFT);
}

/// Goes on at the code in rax, with the count in place. Where it leads to the bottom of the return
/// addresses.
fn begin(asm: &mut Asm) -> usize {
    asm.op(LEA, true, RCX, Mem::at(RIP, 0));
    let bottom = asm.here() - 4;
    asm.push(RCX);
    attend(asm);
    asm.unary(JMP_RM, false, RAX);
    bottom
}

/// Lets code leave at its next exit if the attention flag is set: the handler of a signal that came
/// where r14 did not hold the count could not do so.
fn attend(asm: &mut Asm) {
    asm.op(MOV, true, RCX, layout::ATTENTION);
    asm.cmp_byte(Mem::at(RCX, 0), 0);
    let calm = asm.jump_short(Some(Cond::E));
    asm.arith(SUB_I, true, COUNT, HURRY as i32);
    asm.bind_short(calm);
}

/// Out, all pins being in the state.
fn leave(asm: &mut Asm) {
    asm.op(MOV_TO, true, COUNT, layout::LEFT);
    asm.stmxcsr(layout::GUEST_CONTROL);
    asm.ldmxcsr(layout::HOST_CONTROL);
    asm.op(MOV, true, RSP, layout::STACK);
    asm.arith(ADD_I, true, RSP, 8);
    for r in SAVED.into_iter().rev() {
        asm.pop(r);
    }
    asm.ret();
}

/// Which way tier 0 is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// rax is the address of an [`Alone`].
    ///
    /// [`Alone`]: super::super::raw::Alone
    Alone,
    /// The same, of an instruction that reads or writes the FCSR.
    Control,
    /// The return address says which instruction.
    Slow,
}

impl Call {
    /// All of them, by their numbers.
    pub(super) const ALL: [Call; 3] = [Call::Alone, Call::Control, Call::Slow];
}

/// Calls tier 0 with all pins in the state, and goes on or leaves.
pub(super) fn call(asm: &mut Asm, spilled: usize, what: Call, pins: &Pins) -> usize {
    asm.align(16);
    let start = asm.here();
    asm.op(MOV_TO, true, RSP, layout::CALLED);
    if what == Call::Slow {
        asm.op(MOV, true, RDX, Mem::at(RSP, 0));
    }
    asm.arith(AND_I, true, RSP, -16);
    if !(what == Call::Slow && mutant!("la64_pins_left_at_faults")) {
        pins.spill(asm);
    }
    // Compiled Rust computes with floating-point instructions where the source has integers alone:
    // a shift of lanes by `cvttps2dq`, which raises flags of the guest's, or faults.
    asm.stmxcsr(layout::GUEST_CONTROL);
    if !mutant!("la64_tier_0_runs_as_the_guest") {
        asm.ldmxcsr(layout::HOST_CONTROL);
    }
    asm.op(LEA, true, RDI, Mem::at(STATE, -layout::BIAS));
    let argument = if what == Call::Slow { RDX } else { RAX };
    asm.op(MOV, true, RSI, argument);
    // Not by its address, which another process has elsewhere.
    asm.unary(CALL_RM, false, layout::helper(what as usize));
    asm.ldmxcsr(layout::GUEST_CONTROL);
    asm.op(TEST, true, RAX, RAX);
    let leaves = asm.jump_near(Some(Cond::Ns));
    pins.reload(asm);
    asm.op(MOV, true, RSP, layout::CALLED);
    if !mutant!("la64_signals_in_tier_0_wait") {
        attend(asm);
    }
    asm.ret();
    asm.bind_near(leaves);
    // The low half of rax is what retired of the block, the upper one which exit this is.
    asm.op(MOV, false, RCX, RAX);
    asm.op(SUB, true, COUNT, RCX);
    asm.imm8(SHR, true, RAX, 32);
    asm.op(MOV_TO, false, RAX, layout::EXIT);
    asm.jump(None, spilled);
    start
}
