//! Integer arithmetic, shifts and bit fields.
//!
//! - A result is made in the destination's host register only where no source is read after the
//!   first write to it.
//! - Semantics are those of `interp::integer`, which the tests compare.

use super::block::{Block, Decoded, Fold, Lowering, folding, plain};
use super::choice;
use super::constants::Constant;
use super::layout;
use crate::jit::emit::{
    ADD, ADD_I, AND, AND_I, ANDN, Asm, CMP, CMP_I, Cond, Form, LEA, LZCNT, MOV, MOVSX8, MOVSX16,
    MOVSXD, MOVZX8, Mem, NO_BASE, NOT, OR, OR_I, RAX, RCX, ROL, ROR, ROR_CL, Reg, Rm, SAR, SARX,
    SHL, SHLX, SHR, SHRX, SUB, TEST, TZCNT, XOR, XOR_I,
};
use littoral_base::mutant;

/// rd = rj op rk, 64 bits.
pub(super) fn binary(b: &mut Block<'_>, d: &Decoded, form: Form, commutes: bool) {
    let (rd, mut rj, mut rk) = (d.rd(), d.rj(), d.rk());
    if rd == 0 {
        return;
    }
    if commutes && (rd == rk || rj == 0) {
        std::mem::swap(&mut rj, &mut rk);
    }
    let to = match b.pin(rd) {
        Some(r) if rd != rk || rd == rj => r,
        _ => RAX,
    };
    let keeps = [AND, OR, XOR].contains(&form) && b.is_extended(rj) && b.is_extended(rk);
    b.load(to, rj);
    apply(b, form, to, rk);
    b.put(rd, to);
    if keeps {
        b.extends(rd);
    }
}

/// `to` = `to` op general register `n`.
fn apply(b: &mut Block<'_>, form: Form, to: Reg, n: usize) {
    if n == 0 {
        b.asm.op(XOR, false, RCX, RCX);
        b.asm.op(form, true, to, RCX);
    } else {
        let place = b.place(n);
        b.asm.op(form, true, to, place);
    }
}

fn add_d(b: &mut Block<'_>, d: &Decoded) {
    let (rd, rj, rk) = (d.rd(), d.rj(), d.rk());
    let (reach, bound) = (b.reach_of_sum((rj, rk), 0), sum_of_bounds(b, (rj, rk), 0));
    let sum = b.sum_of(rj).plus(b.sum_of(rk));
    add(b, d);
    if rj != 0 && rk != 0 && rd != 0 {
        b.reaches(rd, reach);
        b.bounds(rd, bound);
        b.is_sum(rd, sum);
    }
}

/// The greatest magnitude of rj << `by` + rk.
fn sum_of_bounds(b: &Block<'_>, (rj, rk): (usize, usize), by: u8) -> Option<u64> {
    Some((b.bound(rj)? << by) + b.bound(rk)?)
}

fn add(b: &mut Block<'_>, d: &Decoded) {
    let (rd, rj, rk) = (d.rd(), d.rj(), d.rk());
    match (b.pin(rd), b.pin(rj), b.pin(rk)) {
        (Some(to), Some(j), Some(k)) if rd != rj && rd != rk => {
            b.asm.op(LEA, true, to, Mem::indexed(j, k, 0, 0));
            b.put(rd, to);
        }
        _ if rk == 0 => copy(b, rd, rj),
        _ if rj == 0 => copy(b, rd, rk),
        _ => binary(b, d, ADD, true),
    }
}

fn sub_d(b: &mut Block<'_>, d: &Decoded) {
    binary(b, d, SUB, false);
}

/// Whether a word instruction whose result has at most this magnitude in 64 bits is that of 64
/// bits: its result is a sign-extended word as it is.
fn fits(magnitude: Option<u64>) -> bool {
    let is_word = |magnitude: u64| i32::try_from(magnitude).is_ok();
    magnitude.is_some_and(|m| is_word(m) || mutant!("la64_long_sum_is_a_word"))
}

/// The greatest magnitude of rj << `by` + rk, or less rk, if both are known to be small.
fn sum_of_short(b: &Block<'_>, (rj, rk): (usize, usize), by: u8) -> Option<u64> {
    Some((b.short_bound(rj)? << by) + b.short_bound(rk)?)
}

fn copy(b: &mut Block<'_>, rd: usize, from: usize) {
    if rd == 0 || rd == from {
        return;
    }
    let known = b.constants.get(from);
    if from == 0 {
        return b.put_constant(rd, Constant::fixed(0));
    }
    let (reach, extended, bound) = (b.reach(from, 0), b.is_extended(from), b.bound(from));
    let (scratch, sum) = (b.target(rd), b.sum_of(from));
    let from = b.get(from, scratch);
    b.put(rd, from);
    b.is_sum(rd, Some(sum));
    b.reaches(rd, reach);
    b.bounds(rd, bound);
    if extended {
        b.extends(rd);
    }
    if let Some(constant) = known {
        b.know(rd, constant);
    }
}

fn or(b: &mut Block<'_>, d: &Decoded) {
    match (d.rj(), d.rk()) {
        (j, 0) => copy(b, d.rd(), j),
        (0, k) => copy(b, d.rd(), k),
        _ => binary(b, d, OR, true),
    }
}

fn and(b: &mut Block<'_>, d: &Decoded) {
    binary(b, d, AND, true);
}

fn xor(b: &mut Block<'_>, d: &Decoded) {
    binary(b, d, XOR, true);
}

/// rd = low 32 bits of rj op rk, sign-extended.
pub(super) fn word(b: &mut Block<'_>, d: &Decoded, form: Form) {
    let (rd, rj, rk) = (d.rd(), d.rj(), d.rk());
    if rd == 0 {
        return;
    }
    if rk == 0 {
        b.load_low(RAX, rj);
        return sign_extend(b, rd);
    }
    let to = if rd != rk || rd == rj { b.target(rd) } else { RAX };
    b.load_half(to, rj);
    let place = b.place(rk);
    b.asm.op(form, false, to, place);
    sign_extend_from(b, rd, to);
}

/// rd = eax, sign-extended.
pub(super) fn sign_extend(b: &mut Block<'_>, rd: usize) {
    sign_extend_from(b, rd, RAX);
}

/// rd = the low half of `from`, sign-extended.
fn sign_extend_from(b: &mut Block<'_>, rd: usize, from: Reg) {
    let to = b.target(rd);
    match mutant!("la64_word_sign_dropped") {
        true => b.asm.op(MOV, false, to, from),
        false => b.asm.op(MOVSXD, true, to, from),
    }
    b.put(rd, to);
    b.extends(rd);
}

fn add_w(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() != 0 && fits(sum_of_short(b, (d.rj(), d.rk()), 0)) {
        add_d(b, d);
        return b.extends(d.rd());
    }
    match (b.pin(d.rj()), b.pin(d.rk())) {
        (Some(j), Some(k)) if d.rd() != 0 => {
            b.asm.op(LEA, false, RAX, Mem::indexed(j, k, 0, 0));
            sign_extend(b, d.rd());
        }
        _ => word(b, d, ADD),
    }
}

fn sub_w(b: &mut Block<'_>, d: &Decoded) {
    let bound = sum_of_short(b, (d.rj(), d.rk()), 0);
    if d.rd() != 0 && fits(bound) {
        sub_d(b, d);
        b.bounds(d.rd(), bound);
        return b.extends(d.rd());
    }
    word(b, d, SUB);
}

fn addi_d(b: &mut Block<'_>, d: &Decoded) {
    let (rd, rj, imm) = (d.rd(), d.rj(), d.imm() as i32);
    if rd == 0 {
        return;
    }
    if imm == 0 {
        return copy(b, rd, rj);
    }
    let reach = b.reach(rj, imm);
    let bound = b.bound(rj).map(|bound| bound + u64::from(imm.unsigned_abs()));
    let sum = b.sum_of(rj).and(imm.into());
    if let Some(step) = b.later_step(d) {
        b.put_step(rd, step);
    } else if rd == rj {
        let place = b.place(rd);
        b.asm.arith(ADD_I, true, place, imm);
        b.wrote(rd);
    } else {
        let to = b.target(rd);
        b.sum(to, rj, imm);
        b.put(rd, to);
    }
    b.is_sum(rd, Some(sum));
    b.reaches(rd, reach);
    b.bounds(rd, bound);
}

fn addi_w(b: &mut Block<'_>, d: &Decoded) {
    let (rd, rj, imm) = (d.rd(), d.rj(), d.imm() as i32);
    if rd == 0 {
        return;
    }
    if fits(b.short_bound(rj).map(|bound| bound + u64::from(imm.unsigned_abs()))) {
        addi_d(b, d);
        return b.extends(rd);
    }
    match b.pin(rj) {
        _ if imm == 0 && b.is_extended(rj) => return copy(b, rd, rj),
        _ if imm == 0 => {
            let (to, place) = (b.target(rd), b.place(rj));
            b.asm.op(MOVSXD, true, to, place);
            b.put(rd, to);
            return b.extends(rd);
        }
        Some(j) => b.asm.op(LEA, false, RAX, Mem::at(j, imm)),
        None => {
            b.load_low(RAX, rj);
            b.asm.arith(ADD_I, false, RAX, imm);
        }
    }
    sign_extend(b, rd);
}

/// rd = rj op immediate.
fn with_immediate(b: &mut Block<'_>, d: &Decoded, form: Form) {
    let (rd, rj, imm) = (d.rd(), d.rj(), d.imm() as i32);
    if rd == 0 {
        return;
    }
    // The immediate has twelve bits, without sign.
    let keeps = form == AND_I || b.is_extended(rj);
    let bound = match form {
        AND_I => Some(imm as u64),
        _ => b.bound(rj).map(|bound| bound.next_power_of_two() + imm as u64),
    };
    if rd == rj {
        let place = b.place(rd);
        b.asm.arith(form, true, place, imm);
        b.wrote(rd);
    } else {
        let to = b.target(rd);
        b.load(to, rj);
        b.asm.arith(form, true, to, imm);
        b.put(rd, to);
    }
    b.bounds(rd, bound);
    if keeps {
        b.extends(rd);
    }
}

fn ori(b: &mut Block<'_>, d: &Decoded) {
    if d.imm() == 0 {
        return copy(b, d.rd(), d.rj());
    }
    with_immediate(b, d, OR_I);
}

fn xori(b: &mut Block<'_>, d: &Decoded) {
    with_immediate(b, d, XOR_I);
}

fn andi(b: &mut Block<'_>, d: &Decoded) {
    if d.imm() == 255 && d.rd() != 0 && d.rj() != 0 {
        return extend(b, d, MOVZX8, false);
    }
    with_immediate(b, d, AND_I);
}

fn constant(b: &mut Block<'_>, d: &Decoded) {
    b.put_constant(d.rd(), d.immediate());
}

fn lu32i_d(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    b.load_low(RAX, d.rd());
    b.asm.mov_imm(RCX, d.imm() as u64);
    b.asm.op(OR, true, RAX, RCX);
    b.put(d.rd(), RAX);
}

fn lu52i_d(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    b.load(RAX, d.rj());
    b.asm.mov_imm(RCX, u64::MAX >> 12);
    b.asm.op(AND, true, RAX, RCX);
    b.asm.mov_imm(RCX, d.imm() as u64);
    b.asm.op(OR, true, RAX, RCX);
    b.put(d.rd(), RAX);
}

/// Sets host flags by rj and rk; true if they are equal by their names.
pub(super) fn compare(b: &mut Block<'_>, rj: usize, rk: usize) {
    if rk == 0 && rj != 0 {
        match b.pin(rj) {
            Some(r) if b.step(rj) != 0 => b.asm.arith(CMP_I, true, r, -b.step(rj)),
            Some(r) => b.asm.op(TEST, true, r, r),
            None => b.asm.arith(CMP_I, true, layout::x(rj), 0),
        }
        return;
    }
    let j = b.get(rj, RCX);
    match rk {
        0 => b.asm.op(TEST, true, j, j),
        _ => {
            let place = b.place(rk);
            b.asm.op(CMP, true, j, place);
        }
    }
}

/// rd = 1 if `cond` holds, else 0, by flags that stand; leaves the flags.
pub(super) fn put_condition(b: &mut Block<'_>, rd: usize, cond: Cond) {
    let to = b.target(rd);
    b.asm.set(cond, RAX);
    b.asm.op(MOVZX8, false, to, RAX);
    b.put(rd, to);
    b.extends(rd);
}

/// The condition of a comparison whose result a branch behind it tests, with the branch's place.
fn set(b: &mut Block<'_>, d: &Decoded, cond: Cond) {
    if d.rd() == 0 {
        return;
    }
    if choice::replaces(b, d.rd()) {
        b.wrote(d.rd());
    } else if !b.owes(d.rd()) {
        put_condition(b, d.rd(), cond);
    }
    b.flags_tell(d.rd(), cond);
}

fn slt(b: &mut Block<'_>, d: &Decoded) {
    compare(b, d.rj(), d.rk());
    set(b, d, Cond::L);
}

fn sltu(b: &mut Block<'_>, d: &Decoded) {
    if d.rj() == 0 {
        // 0 < rk is rk != 0.
        compare(b, d.rk(), 0);
        return set(b, d, if d.rk() == 0 { Cond::B } else { Cond::Ne });
    }
    compare(b, d.rj(), d.rk());
    set(b, d, Cond::B);
}

fn compare_immediate(b: &mut Block<'_>, d: &Decoded, cond: Cond) {
    let j = match d.rj() {
        0 => Rm::from(b.get(0, RCX)),
        n => b.place(n),
    };
    b.asm.arith(CMP_I, true, j, d.imm() as i32);
    set(b, d, cond);
}

fn slti(b: &mut Block<'_>, d: &Decoded) {
    compare_immediate(b, d, Cond::L);
}

fn sltui(b: &mut Block<'_>, d: &Decoded) {
    compare_immediate(b, d, Cond::B);
}

fn nor(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    b.load(RAX, d.rj());
    apply(b, OR, RAX, d.rk());
    b.asm.unary(NOT, true, RAX);
    b.put(d.rd(), RAX);
}

fn andn(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    let (k, j) = (b.get(d.rk(), RAX), b.get(d.rj(), RCX));
    let to = b.target(d.rd());
    b.asm.vex(ANDN, true, to.0, k.0, j);
    b.put(d.rd(), to);
}

fn orn(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    b.load(RAX, d.rk());
    b.asm.unary(NOT, true, RAX);
    apply(b, OR, RAX, d.rj());
    b.put(d.rd(), RAX);
}

/// Where general register `n` can be read; register 0 is made in rax.
pub(super) fn source(b: &mut Block<'_>, n: usize) -> Rm {
    if n == 0 { b.get(0, RAX).into() } else { b.place(n) }
}

/// rd = rj extended by a move form.
fn extend(b: &mut Block<'_>, d: &Decoded, form: Form, wide: bool) {
    if d.rd() == 0 {
        return;
    }
    let (j, to) = (source(b, d.rj()), b.target(d.rd()));
    b.asm.op(form, wide, to, j);
    b.put(d.rd(), to);
    b.extends(d.rd());
}

fn ext_w_b(b: &mut Block<'_>, d: &Decoded) {
    extend(b, d, MOVSX8, true);
}

fn ext_w_h(b: &mut Block<'_>, d: &Decoded) {
    extend(b, d, MOVSX16, true);
}

/// rd = rj shifted by an immediate, 64 bits.
fn shift_d(b: &mut Block<'_>, d: &Decoded, form: Form) {
    let (rd, by) = (d.rd(), d.imm() as u8 & 63);
    if rd == 0 {
        return;
    }
    if by == 0 {
        return copy(b, rd, d.rj());
    }
    // Fewer significant bits, with the same sign.
    let keeps = form == SAR && b.is_extended(d.rj());
    let bound = match form {
        SHL => b.bound(d.rj()).and_then(|bound| bound.checked_mul(1 << by)),
        SHR => Some(u64::MAX >> by),
        SAR => b.bound(d.rj()),
        _ => None,
    };
    let sum = if form == SHL { b.sum_of(d.rj()).shifted(by) } else { None };
    if rd == d.rj() && form == SHL && b.is_scale(rd, by) {
        b.put_scale(rd, by);
    } else if rd == d.rj() {
        let place = b.place(rd);
        b.asm.imm8(form, true, place, by);
        b.wrote(rd);
    } else {
        let to = b.target(rd);
        match (form, by, b.pin(d.rj())) {
            (SHL, 1, Some(j)) => b.asm.op(LEA, true, to, Mem::indexed(j, j, 0, 0)),
            (SHL, 2 | 3, Some(j)) => b.asm.op(LEA, true, to, Mem::indexed(NO_BASE, j, by, 0)),
            (ROR, _, Some(j)) => b.asm.rotate(true, to, j, by),
            _ => {
                b.load(to, d.rj());
                b.asm.imm8(form, true, to, by);
            }
        }
        b.put(rd, to);
    }
    b.is_sum(rd, sum);
    b.bounds(rd, bound);
    if keeps {
        b.extends(rd);
    }
}

/// rd = low half of rj shifted by an immediate, sign-extended.
fn shift_w(b: &mut Block<'_>, d: &Decoded, form: Form) {
    let (rd, rj, by) = (d.rd(), d.rj(), d.imm() as u8 & 31);
    if rd == 0 {
        return;
    }
    if by == 0 && b.is_extended(rj) {
        return copy(b, rd, rj);
    }
    if form == SHL && fits(b.short_bound(rj).map(|bound| bound << by)) {
        shift_d(b, d, SHL);
        return b.extends(rd);
    }
    if form == SAR && by > 0 && b.is_extended(rj) {
        return shift_d(b, d, SAR);
    }
    // The sign of a number shifted right is 0, or that of the number.
    if by > 0 && rj != 0 && (form == SHR || form == SAR) {
        let to = b.target(rd);
        if form == SAR {
            let place = b.place(rj);
            b.asm.op(MOVSXD, true, to, place);
        } else {
            b.load_half(to, rj);
        }
        b.asm.imm8(form, form == SAR, to, by);
        b.put(rd, to);
        return b.extends(rd);
    }
    if by == 0 {
        b.load_low(RAX, rj);
        return sign_extend(b, rd);
    }
    let to = b.target(rd);
    b.load_half(to, rj);
    b.asm.imm8(form, false, to, by);
    sign_extend_from(b, rd, to);
}

/// rd = rj shifted by rk.
fn shift_by(b: &mut Block<'_>, d: &Decoded, form: Form, wide: bool) {
    if d.rd() == 0 {
        return;
    }
    let (k, j) = (b.get(d.rk(), RCX), b.get(d.rj(), RAX));
    if wide {
        let to = b.target(d.rd());
        b.asm.shift_by(form, true, to, j, k);
        b.put(d.rd(), to);
    } else {
        b.asm.shift_by(form, false, RAX, j, k);
        sign_extend(b, d.rd());
    }
}

fn rotate_by(b: &mut Block<'_>, d: &Decoded, wide: bool) {
    if d.rd() == 0 {
        return;
    }
    b.load(RCX, d.rk());
    b.load(RAX, d.rj());
    b.asm.unary(ROR_CL, wide, RAX);
    match wide {
        true => b.put(d.rd(), RAX),
        false => sign_extend(b, d.rd()),
    }
}

/// rd = (rj << immediate) + rk: `finish` takes it from rax.
fn alsl(b: &mut Block<'_>, d: &Decoded, finish: fn(&mut Block<'_>, usize)) {
    if d.rd() == 0 {
        return;
    }
    let by = d.imm() as u8;
    if by < 4 {
        let (j, k) = (b.get(d.rj(), RAX), b.get(d.rk(), RCX));
        b.asm.op(LEA, true, RAX, Mem::indexed(k, j, by, 0));
    } else {
        b.load(RAX, d.rj());
        b.asm.imm8(SHL, true, RAX, by);
        apply(b, ADD, RAX, d.rk());
    }
    finish(b, d.rd());
}

fn alsl_d(b: &mut Block<'_>, d: &Decoded) {
    let (rd, of, by) = (d.rd(), (d.rj(), d.rk()), d.imm() as u8);
    let (reach, bound) = (b.reach_of_sum(of, by), sum_of_bounds(b, of, by));
    let sum = b.sum_of(of.0).shifted(by).and_then(|j| j.plus(b.sum_of(of.1)));
    add_shifted(b, d);
    if rd != 0 {
        b.is_sum(rd, sum);
        b.reaches(rd, reach);
        b.bounds(rd, bound);
    }
}

fn add_shifted(b: &mut Block<'_>, d: &Decoded) {
    let by = d.imm() as u8;
    if d.rd() != 0 && by < 4 {
        let (j, k) = (b.get(d.rj(), RAX), b.get(d.rk(), RCX));
        let to = b.target(d.rd());
        b.asm.op(LEA, true, to, Mem::indexed(k, j, by, 0));
        return b.put(d.rd(), to);
    }
    if let Some(to) = b.pin(d.rd()).filter(|_| d.rd() != d.rk() && d.rk() != 0) {
        b.load(to, d.rj());
        b.asm.imm8(SHL, true, to, by);
        apply(b, ADD, to, d.rk());
        return b.put(d.rd(), to);
    }
    alsl(b, d, |b, rd| b.put(rd, RAX));
}

fn alsl_w(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() != 0 && fits(sum_of_short(b, (d.rj(), d.rk()), d.imm() as u8)) {
        alsl_d(b, d);
        return b.extends(d.rd());
    }
    alsl(b, d, sign_extend);
}

fn alsl_wu(b: &mut Block<'_>, d: &Decoded) {
    alsl(b, d, |b, rd| {
        b.asm.op(MOV, false, RAX, RAX);
        b.put(rd, RAX);
    });
}

fn bytepick(b: &mut Block<'_>, d: &Decoded, wide: bool) {
    if d.rd() == 0 {
        return;
    }
    b.load(RAX, d.rk());
    let by = 8 * d.imm() as u8;
    if by != 0 {
        let j = b.get(d.rj(), RCX);
        b.asm.shld(wide, RAX, j, by);
    }
    match wide {
        true => b.put(d.rd(), RAX),
        false => sign_extend(b, d.rd()),
    }
}

/// rd = f(rj): `emit` works in rax.
fn in_rax(b: &mut Block<'_>, d: &Decoded, emit: fn(&mut Asm)) {
    if d.rd() == 0 {
        return;
    }
    b.load(RAX, d.rj());
    emit(&mut b.asm);
    b.put(d.rd(), RAX);
}

macro_rules! in_rax {
    ($asm:ident => $($step:expr),*) => {{
        fn emit(b: &mut Block<'_>, d: &Decoded) {
            in_rax(b, d, |$asm| { $($step;)* });
        }
        emit
    }};
}

macro_rules! by {
    ($f:ident, $($argument:expr),*) => {{
        fn emit(b: &mut Block<'_>, d: &Decoded) {
            $f(b, d, $($argument),*);
        }
        emit
    }};
}

pub(super) use by;

const fn sx(v: u64) -> u64 {
    v as i32 as u64
}

pub(super) static TABLE: &[Lowering] = &[
    plain("add.d", add_d),
    plain("add.w", add_w),
    plain("sub.d", sub_d),
    plain("sub.w", sub_w),
    folding("addi.d", addi_d, Fold::Sum),
    folding("addi.w", addi_w, Fold::OfJ(|j, i| sx(j.wrapping_add(i as u64)))),
    folding("addu16i.d", addi_d, Fold::Sum),
    plain("slt", slt),
    plain("sltu", sltu),
    plain("slti", slti),
    plain("sltui", sltui),
    plain("or", or),
    plain("and", and),
    plain("xor", xor),
    plain("nor", nor),
    plain("orn", orn),
    plain("andn", andn),
    folding("ori", ori, Fold::OfJ(|j, i| j | i as u64)),
    folding("andi", andi, Fold::OfJ(|j, i| j & i as u64)),
    folding("xori", xori, Fold::OfJ(|j, i| j ^ i as u64)),
    folding("lu12i.w", constant, Fold::Immediate),
    folding("pcaddi", constant, Fold::Immediate),
    folding("pcalau12i", constant, Fold::Immediate),
    folding("pcaddu12i", constant, Fold::Immediate),
    folding("pcaddu18i", constant, Fold::Immediate),
    folding("lu32i.d", lu32i_d, Fold::OfD(|d, i| d & 0xffff_ffff | i as u64)),
    folding("lu52i.d", lu52i_d, Fold::OfJ(|j, i| j & (u64::MAX >> 12) | i as u64)),
    plain("ext.w.b", ext_w_b),
    plain("ext.w.h", ext_w_h),
    plain("preld", |_, _| {}),
    plain("preldx", |_, _| {}),
];

pub(super) static SHIFT_TABLE: &[Lowering] = &[
    plain("slli.d", by!(shift_d, SHL)),
    plain("srli.d", by!(shift_d, SHR)),
    plain("srai.d", by!(shift_d, SAR)),
    plain("rotri.d", by!(shift_d, ROR)),
    plain("slli.w", by!(shift_w, SHL)),
    plain("srli.w", by!(shift_w, SHR)),
    plain("srai.w", by!(shift_w, SAR)),
    plain("rotri.w", by!(shift_w, ROR)),
    plain("sll.d", by!(shift_by, SHLX, true)),
    plain("srl.d", by!(shift_by, SHRX, true)),
    plain("sra.d", by!(shift_by, SARX, true)),
    plain("sll.w", by!(shift_by, SHLX, false)),
    plain("srl.w", by!(shift_by, SHRX, false)),
    plain("sra.w", by!(shift_by, SARX, false)),
    plain("rotr.d", by!(rotate_by, true)),
    plain("rotr.w", by!(rotate_by, false)),
    plain("alsl.d", alsl_d),
    plain("alsl.w", alsl_w),
    plain("alsl.wu", alsl_wu),
    plain("bytepick.d", by!(bytepick, true)),
    plain("bytepick.w", by!(bytepick, false)),
    plain("clz.d", in_rax!(a => a.op(LZCNT, true, RAX, RAX))),
    plain("ctz.d", in_rax!(a => a.op(TZCNT, true, RAX, RAX))),
    plain("clz.w", in_rax!(a => a.op(LZCNT, false, RAX, RAX))),
    plain("ctz.w", in_rax!(a => a.op(TZCNT, false, RAX, RAX))),
    plain("clo.d", in_rax!(a => a.unary(NOT, true, RAX), a.op(LZCNT, true, RAX, RAX))),
    plain("cto.d", in_rax!(a => a.unary(NOT, true, RAX), a.op(TZCNT, true, RAX, RAX))),
    plain("clo.w", in_rax!(a => a.unary(NOT, false, RAX), a.op(LZCNT, false, RAX, RAX))),
    plain("cto.w", in_rax!(a => a.unary(NOT, false, RAX), a.op(TZCNT, false, RAX, RAX))),
    plain("revb.d", in_rax!(a => a.bswap(true, RAX))),
    plain("revb.2w", in_rax!(a => a.bswap(true, RAX), a.imm8(ROL, true, RAX, 32))),
    plain(
        "revb.2h",
        in_rax!(a => a.bswap(false, RAX), a.imm8(ROL, false, RAX, 16), a.op(MOVSXD, true, RAX, RAX)),
    ),
];
