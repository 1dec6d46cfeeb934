//! Multiplication and division.
//!
//! - Division by zero and overflow have results, as on tier 0; nothing traps.

use super::block::{Block, Decoded, Lowering, plain};
use super::constants::Constant;
use super::integer::{binary, by, sign_extend, word};
use crate::jit::emit::{
    CMP_I, Cond, DIV, Form, IDIV, IMUL, IMUL1, LEA, MOVSXD, MUL, Mem, NEG, RAX, RCX, RDX, SHR,
    TEST, XOR,
};

/// rd = rj * rk, low half.
fn mul_d(b: &mut Block<'_>, d: &Decoded) {
    binary(b, d, IMUL, true);
}

fn mul_w(b: &mut Block<'_>, d: &Decoded) {
    if d.rk() == 0 {
        return b.put_constant(d.rd(), Constant::fixed(0));
    }
    word(b, d, IMUL);
}

/// rd = upper half of the 128-bit product.
fn mulh_d(b: &mut Block<'_>, d: &Decoded, form: Form) {
    if d.rd() == 0 {
        return;
    }
    b.load(RAX, d.rj());
    let k = b.get(d.rk(), RCX);
    b.asm.unary(form, true, k);
    b.put(d.rd(), RDX);
}

/// rd = 64-bit product of the low halves, shifted right.
fn mul_words(b: &mut Block<'_>, d: &Decoded, signed: bool, high: bool) {
    if d.rd() == 0 {
        return;
    }
    for (to, from) in [(RAX, d.rj()), (RCX, d.rk())] {
        b.load_low(to, from);
        if signed {
            b.asm.op(MOVSXD, true, to, to);
        }
    }
    b.asm.op(IMUL, true, RAX, RCX);
    if !high {
        return b.put(d.rd(), RAX);
    }
    b.asm.imm8(SHR, true, RAX, 32);
    sign_extend(b, d.rd());
}

/// Signed quotient or remainder. Division by 0 gives the dividend and itself as remainder 0.
fn divide_signed(b: &mut Block<'_>, d: &Decoded, wide: bool, remainder: bool) {
    if d.rd() == 0 {
        return;
    }
    b.load(RAX, d.rj());
    b.load(RCX, d.rk());
    // Divisors 0 and -1 go another way: the one has no quotient, the other may overflow.
    b.asm.op(LEA, wide, RDX, Mem::at(RCX, 1));
    b.asm.arith(CMP_I, wide, RDX, 1);
    let special = b.asm.jump_short(Some(Cond::Be));
    b.asm.sign_to_rdx(wide);
    b.asm.unary(IDIV, wide, RCX);
    let done = b.asm.jump_short(None);
    b.asm.bind_short(special);
    if remainder {
        b.asm.op(XOR, false, RDX, RDX);
    } else {
        b.asm.op(TEST, wide, RCX, RCX);
        let zero = b.asm.jump_short(Some(Cond::E));
        b.asm.unary(NEG, wide, RAX);
        b.asm.bind_short(zero);
    }
    b.asm.bind_short(done);
    put_quotient(b, d.rd(), wide, remainder);
}

fn put_quotient(b: &mut Block<'_>, rd: usize, wide: bool, remainder: bool) {
    let from = if remainder { RDX } else { RAX };
    match wide {
        true => b.put(rd, from),
        false => {
            b.asm.op(MOVSXD, true, RAX, from);
            b.put(rd, RAX);
            b.extends(rd);
        }
    }
}

fn divide_unsigned(b: &mut Block<'_>, d: &Decoded, wide: bool, remainder: bool) {
    if d.rd() == 0 {
        return;
    }
    b.load(RAX, d.rj());
    b.load(RCX, d.rk());
    b.asm.op(XOR, false, RDX, RDX);
    b.asm.op(TEST, wide, RCX, RCX);
    let zero = b.asm.jump_short(Some(Cond::E));
    b.asm.unary(DIV, wide, RCX);
    b.asm.bind_short(zero);
    put_quotient(b, d.rd(), wide, remainder);
}

pub(super) static TABLE: &[Lowering] = &[
    plain("mul.d", mul_d),
    plain("mul.w", mul_w),
    plain("mulh.d", by!(mulh_d, IMUL1)),
    plain("mulh.du", by!(mulh_d, MUL)),
    plain("mulh.w", by!(mul_words, true, true)),
    plain("mulh.wu", by!(mul_words, false, true)),
    plain("mulw.d.w", by!(mul_words, true, false)),
    plain("mulw.d.wu", by!(mul_words, false, false)),
    plain("div.d", by!(divide_signed, true, false)),
    plain("mod.d", by!(divide_signed, true, true)),
    plain("div.w", by!(divide_signed, false, false)),
    plain("mod.w", by!(divide_signed, false, true)),
    plain("div.du", by!(divide_unsigned, true, false)),
    plain("mod.du", by!(divide_unsigned, true, true)),
    plain("div.wu", by!(divide_unsigned, false, false)),
    plain("mod.wu", by!(divide_unsigned, false, true)),
];
