//! The routines that all blocks share: in, out, and calls of tier 0.

use super::block::Routines;
use super::frame::exit;
use super::layout::{self, COUNT, PINS, STATE, VECTOR_PINS, WINDOW};
use super::raw;
use crate::jit::emit::{
    ADD_I, Asm, CALL_RM, Cond, JMP_RM, LEA, MOV, MOV_TO, MOVAPS, MOVAPS_TO, Mem, R12, R13, R14,
    R15, RAX, RBP, RBX, RCX, RDI, RSI, RSP, Reg, SHR, SUB, SUB_I, TEST, Xmm,
};
use littoral_base::mutant;

const SAVED: [Reg; 6] = [RBX, RBP, R12, R13, R14, R15];

fn spill(asm: &mut Asm) {
    for (n, r) in PINS {
        asm.op(MOV_TO, true, r, layout::x(n));
    }
    for n in 0..VECTOR_PINS {
        asm.sse(MOVAPS_TO, Xmm(n as u8 + 3), layout::v(n, 0));
    }
}

fn reload(asm: &mut Asm) {
    for (n, r) in PINS {
        asm.op(MOV, true, r, layout::x(n));
    }
    for n in 0..VECTOR_PINS {
        asm.sse(MOVAPS, Xmm(n as u8 + 3), layout::v(n, 0));
    }
}

/// Writes all routines.
pub(super) fn write(asm: &mut Asm) -> Routines {
    let mut routines = Routines { enter: asm.here(), ..Routines::default() };
    enter(asm);
    asm.align(16);
    routines.leave = asm.here();
    asm.op(MOV_TO, false, RAX, layout::EXIT);
    spill(asm);
    let spilled = asm.here();
    leave(asm);
    asm.align(16);
    routines.missed = asm.here();
    asm.op(MOV_TO, true, RAX, layout::PC);
    asm.mov_imm(RAX, exit::ELSEWHERE.into());
    asm.jump(None, routines.leave);
    routines.call = call(asm, spilled, Call::Alone { control: false });
    routines.call_control = call(asm, spilled, Call::Alone { control: true });
    routines.slow = call(asm, spilled, Call::Slow);
    routines
}

/// In: rdi is the state register's value, rsi the code to go on at.
fn enter(asm: &mut Asm) {
    for r in SAVED {
        asm.push(r);
    }
    asm.arith(SUB_I, true, RSP, 8);
    asm.op(MOV, true, STATE, RDI);
    asm.op(MOV, true, RAX, RSI);
    asm.op(MOV, true, COUNT, layout::LEFT);
    asm.op(MOV, true, WINDOW, layout::WINDOW_BASE);
    asm.stmxcsr(layout::HOST_CONTROL);
    asm.ldmxcsr(layout::GUEST_CONTROL);
    reload(asm);
    asm.unary(JMP_RM, false, RAX);
}

/// Out, all pins being in the state.
fn leave(asm: &mut Asm) {
    asm.op(MOV_TO, true, COUNT, layout::LEFT);
    asm.stmxcsr(layout::GUEST_CONTROL);
    asm.ldmxcsr(layout::HOST_CONTROL);
    asm.arith(ADD_I, true, RSP, 8);
    for r in SAVED.into_iter().rev() {
        asm.pop(r);
    }
    asm.ret();
}

enum Call {
    /// rax is the address of an [`Alone`].
    ///
    /// [`Alone`]: super::super::raw::Alone
    Alone { control: bool },
    /// The return address says which instruction.
    Slow,
}

/// Calls tier 0 with all pins in the state, and goes on or leaves.
fn call(asm: &mut Asm, spilled: usize, what: Call) -> usize {
    asm.align(16);
    let start = asm.here();
    asm.arith(SUB_I, true, RSP, 8);
    if !(matches!(what, Call::Slow) && mutant!("la64_pins_left_at_faults")) {
        spill(asm);
    }
    let control = matches!(what, Call::Alone { control: true });
    if control {
        asm.stmxcsr(layout::GUEST_CONTROL);
    }
    asm.op(LEA, true, RDI, Mem::at(STATE, -layout::BIAS));
    let target = match what {
        Call::Alone { control } => {
            asm.op(MOV, true, RSI, RAX);
            if control { raw::run_control as *const () } else { raw::run_alone as *const () }
        }
        Call::Slow => {
            asm.op(MOV, true, RSI, Mem::at(RSP, 8));
            raw::run_slow as *const ()
        }
    };
    asm.mov_imm(RAX, target as u64);
    asm.unary(CALL_RM, false, RAX);
    if control {
        asm.ldmxcsr(layout::GUEST_CONTROL);
    }
    asm.op(TEST, true, RAX, RAX);
    let leaves = asm.jump_near(Some(Cond::Ns));
    reload(asm);
    asm.arith(ADD_I, true, RSP, 8);
    asm.ret();
    asm.bind_near(leaves);
    // The low half of rax is what retired of the block, the upper one which exit this is.
    asm.arith(ADD_I, true, RSP, 16);
    asm.op(MOV, false, RCX, RAX);
    asm.op(SUB, true, COUNT, RCX);
    asm.imm8(SHR, true, RAX, 32);
    asm.op(MOV_TO, false, RAX, layout::EXIT);
    asm.jump(None, spilled);
    start
}
