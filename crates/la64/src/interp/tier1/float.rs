//! Scalar floating point on the host's SSE and FMA.
//!
//! - Sticky flags and rounding mode are MXCSR's (see `control`), so they need no code here.
//! - An invalid operation faults on the host (see `control::Floats`) and takes the slow way, before
//!   the destination is written. Quiet NaNs go through as on tier 0, fj's before fk's. Fused
//!   operations choose among NaNs otherwise, so their results are tested.
//! - Where the host's faults are not caught, every result is tested: a NaN takes the slow way. The
//!   flags that the host has raised by then are among those that tier 0 raises.
//! - What stands above a result in the low 128 bits is what the VEX encodings leave there, as on
//!   tier 0.

use super::access::{Address, at_index, at_offset};
use super::block::{Block, Decoded, FLAGS, Lowering, plain};
use super::frame::literal;
use super::layout;
use crate::jit::emit::{
    ADDSD, ADDSS, AND, ANDNPS, ANDPS, Asm, CMP_I, COMISD, COMISS, CVTSD2SI, CVTSD2SS, CVTSI2SD,
    CVTSI2SS, CVTSS2SD, CVTSS2SI, CVTTSD2SI, CVTTSS2SI, Cond, DIVSD, DIVSS, FMADD231, FMSUB231,
    Form, MOV, MOV8_TO, MOVAPS, MOVAPS_TO, MOVD_TO, MOVQ, MOVSD, MOVSD_TO, MOVSS, MOVSS_TO, MOVSXD,
    MOVZX8, MULSD, MULSS, OR, ORPS, RAX, RCX, ROL, ROUNDSD, ROUNDSS, Rm, SHR, SQRTSD, SQRTSS,
    SUBSD, SUBSS, UCOMISD, UCOMISS, XORPS, Xmm,
};
use crate::jit::packed::V_PINSR;
use littoral_base::mutant;

const X0: Xmm = Xmm(0);
const X1: Xmm = Xmm(1);
const X2: Xmm = Xmm(2);

/// Where the low half of floating-point register `n` is.
fn place(b: &Block<'_>, n: usize) -> Rm {
    b.vector_pin(n).map_or_else(|| layout::v(n, 0).into(), Rm::from)
}

/// `to` = the low half of register `n`.
fn load(b: &mut Block<'_>, to: Xmm, n: usize) {
    if b.vector_pin(n) != Some(to) {
        b.asm.sse(MOVAPS, to, place(b, n));
    }
}

/// A vector register with the low half of register `n`: its pin, or `scratch`.
fn get(b: &mut Block<'_>, n: usize, scratch: Xmm) -> Xmm {
    match b.vector_pin(n) {
        Some(x) => x,
        None => {
            load(b, scratch, n);
            scratch
        }
    }
}

/// The vector register in which a result for register `n` is made.
fn target(b: &Block<'_>, n: usize) -> Xmm {
    b.vector_pin(n).unwrap_or(X0)
}

/// The low half of register `n` = `from`.
fn put(b: &mut Block<'_>, n: usize, from: Xmm) {
    match b.vector_pin(n) {
        Some(x) if x == from => {}
        Some(x) => b.asm.sse(MOVAPS, x, from),
        None => b.asm.sse(MOVAPS_TO, from, layout::v(n, 0)),
    }
}

/// The width of operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Single,
    Double,
}
use Width::{Double, Single};

impl Width {
    fn pick(self, single: Form, double: Form) -> Form {
        if self == Single { single } else { double }
    }
}

/// fd = what `make` makes in the register it gets, by one instruction; an invalid operation or,
/// where that does not fault, a NaN takes the slow way.
fn result(b: &mut Block<'_>, d: &Decoded, w: Width, make: impl FnOnce(&mut Asm, Xmm)) {
    if b.floats.faults() {
        let to = target(b, d.rd());
        b.access();
        make(&mut b.asm, to);
        return put(b, d.rd(), to);
    }
    make(&mut b.asm, X0);
    if !mutant!("la64_nan_of_the_host") {
        test(b, w);
    }
    put(b, d.rd(), X0);
}

/// The slow way is taken if xmm0 is a NaN.
fn test(b: &mut Block<'_>, w: Width) {
    b.asm.sse(w.pick(UCOMISS, UCOMISD), X0, X0);
    b.slow_if(Cond::P);
}

/// fd = fj op fk.
fn binary(b: &mut Block<'_>, d: &Decoded, w: Width, single: Form, double: Form) {
    let j = get(b, d.rj(), X1);
    let k = place(b, d.rk());
    result(b, d, w, |asm, to| asm.vex(w.pick(single, double), false, to.0, j.0, k));
}

/// fd = sqrt(fj).
fn sqrt(b: &mut Block<'_>, d: &Decoded, w: Width) {
    let j = get(b, d.rj(), X1);
    result(b, d, w, |asm, to| asm.vex(w.pick(SQRTSS, SQRTSD), false, to.0, j.0, j));
}

/// fd = 1 / fj, or 1 / sqrt(fj).
fn reciprocal(b: &mut Block<'_>, d: &Decoded, w: Width, root: bool) {
    let j = get(b, d.rj(), X1);
    let mut by = j;
    if root {
        b.access();
        b.asm.vex(w.pick(SQRTSS, SQRTSD), false, X2.0, j.0, j);
        by = X2;
    }
    let one = if w == Single { literal::ONE_SINGLE } else { literal::ONE_DOUBLE };
    b.asm.sse(MOVAPS, X0, layout::literal(one));
    b.access();
    b.asm.sse(w.pick(DIVSS, DIVSD), X0, by);
    test(b, w);
    b.asm.vex(w.pick(MOVSS, MOVSD), false, X0.0, j.0, X0);
    put(b, d.rd(), X0);
}

/// fd = fj * fk + fa, fa or the result negated.
fn fused(b: &mut Block<'_>, d: &Decoded, w: Width, form: Form, negated: bool) {
    load(b, X0, d.ra());
    let j = get(b, d.rj(), X1);
    let k = place(b, d.rk());
    b.access();
    b.asm.vex(form, w == Double, X0.0, j.0, k);
    test(b, w);
    if negated {
        let sign = if w == Single { literal::SIGN_SINGLE } else { literal::SIGN_DOUBLE };
        b.asm.sse(XORPS, X0, layout::literal(sign));
    }
    put(b, d.rd(), X0);
}

/// fd = fj rounded to an integral value.
fn round(b: &mut Block<'_>, d: &Decoded, w: Width) {
    const CURRENT: u8 = 4;
    let j = get(b, d.rj(), X1);
    result(b, d, w, |asm, to| {
        asm.packed_imm(w.pick(ROUNDSS, ROUNDSD), to, j, j, CURRENT);
    });
}

/// fd = fj in format `w`.
fn change(b: &mut Block<'_>, d: &Decoded, w: Width) {
    let j = get(b, d.rj(), X1);
    result(b, d, w, |asm, to| asm.vex(w.pick(CVTSD2SS, CVTSS2SD), false, to.0, j.0, j));
}

/// fd = the integer in fj.
fn from_integer(b: &mut Block<'_>, d: &Decoded, w: Width, wide: bool) {
    let j = get(b, d.rj(), X1);
    b.asm.to_general(MOVD_TO, wide, RAX, j);
    let to = target(b, d.rd());
    b.asm.vex(w.pick(CVTSI2SS, CVTSI2SD), wide, to.0, j.0, RAX);
    put(b, d.rd(), to);
}

/// How a conversion to an integer rounds.
#[derive(Clone, Copy)]
enum Mode {
    /// As the FCSR says.
    Current,
    /// Toward zero.
    Zero,
    /// By the number that `roundsd` has for it.
    Fixed(u8),
}

/// fd = integer of fj. What does not fit is invalid; the host's answer to it takes the slow way.
fn to_integer(b: &mut Block<'_>, d: &Decoded, w: Width, wide: bool, mode: Mode) {
    const QUIETLY: u8 = 8;
    let j = get(b, d.rj(), X1);
    let round = w.pick(ROUNDSS, ROUNDSD);
    let mut from = j;
    if let Mode::Fixed(n) = mode {
        b.access();
        b.asm.sse_imm(round, X0, j, n | QUIETLY);
        from = X0;
    }
    b.access();
    match mode {
        Mode::Current => b.asm.to_general(w.pick(CVTSS2SI, CVTSD2SI), wide, RAX, from),
        Mode::Zero | Mode::Fixed(_) => {
            b.asm.to_general(w.pick(CVTTSS2SI, CVTTSD2SI), wide, RAX, from);
        }
    }
    if !b.floats.faults() {
        test_integer(b, wide);
    }
    if let Mode::Fixed(n) = mode {
        // Only now: what does not fit is invalid and not inexact.
        b.access();
        b.asm.sse_imm(round, X0, j, n);
    }
    if !wide {
        b.asm.op(MOVSXD, true, RAX, RAX);
    }
    let to = target(b, d.rd());
    b.asm.packed_from_general(to, RAX);
    put(b, d.rd(), to);
}

/// The slow way is taken if rax is the host's answer to what does not fit.
fn test_integer(b: &mut Block<'_>, wide: bool) {
    if wide {
        b.asm.op(MOV, true, RCX, RAX);
        b.asm.imm8(ROL, true, RCX, 1);
        b.asm.arith(CMP_I, true, RCX, 1);
    } else {
        b.asm.arith(CMP_I, false, RAX, i32::MIN);
    }
    b.slow_if(Cond::E);
}

/// A flag = fj compared with fk. `swapped` conditions compare fk with fj, for which unordered is
/// never below or equal.
fn compare(b: &mut Block<'_>, d: &Decoded, w: Width, signalling: bool, how: How) {
    let form = match (signalling, w) {
        (false, Single) => UCOMISS,
        (false, Double) => UCOMISD,
        (true, Single) => COMISS,
        (true, Double) => COMISD,
    };
    let (first, second) = if how.swapped { (d.rk(), d.rj()) } else { (d.rj(), d.rk()) };
    let a = get(b, first, X0);
    let k = place(b, second);
    b.access();
    b.asm.sse(form, a, k);
    let flag = layout::fcc(d.rd());
    match how.conds {
        [None, _] => b.asm.mov_byte(flag, 0),
        [Some(c), None] => {
            b.asm.set(c, flag);
            b.flags_tell(FLAGS + (d.rd() & 7), c);
        }
        [Some(c), Some(and)] => {
            b.asm.set(c, RAX);
            b.asm.set(and, RCX);
            let combine = if how.either { OR } else { AND };
            b.asm.op(combine, false, RAX, RCX);
            b.asm.op(MOV8_TO, false, RAX, flag);
        }
    }
}

/// Which host conditions make a comparison true.
#[derive(Clone, Copy)]
struct How {
    swapped: bool,
    conds: [Option<Cond>; 2],
    /// One of two conditions is enough.
    either: bool,
}

const fn one(cond: Cond) -> How {
    How { swapped: false, conds: [Some(cond), None], either: false }
}

const fn swapped(cond: Cond) -> How {
    How { swapped: true, ..one(cond) }
}

const NEVER: How = How { swapped: false, conds: [None, None], either: false };
const EQUAL: How = How { conds: [Some(Cond::E), Some(Cond::Np)], ..NEVER };
const NOT_EQUAL: How = How { conds: [Some(Cond::Ne), Some(Cond::P)], either: true, ..NEVER };

/// fd = fj with its sign changed by `form` with the sign bit's literal.
fn sign(b: &mut Block<'_>, d: &Decoded, w: Width, form: Form) {
    let literal = if w == Single { literal::SIGN_SINGLE } else { literal::SIGN_DOUBLE };
    let to = target(b, d.rd());
    if form == ANDNPS {
        b.asm.sse(MOVAPS, X0, layout::literal(literal));
        b.asm.vex(ANDNPS, false, to.0, X0.0, place(b, d.rj()));
    } else {
        let j = get(b, d.rj(), X1);
        b.asm.vex(form, false, to.0, j.0, layout::literal(literal));
    }
    put(b, d.rd(), to);
}

/// fd = fj with what stands above it.
fn copy(b: &mut Block<'_>, d: &Decoded) {
    let to = target(b, d.rd());
    load(b, to, d.rj());
    put(b, d.rd(), to);
}

/// fd = the magnitude of fj with the sign of fk.
fn copy_sign(b: &mut Block<'_>, d: &Decoded, w: Width) {
    let literal = if w == Single { literal::SIGN_SINGLE } else { literal::SIGN_DOUBLE };
    b.asm.sse(MOVAPS, X0, layout::literal(literal));
    b.asm.vex(ANDPS, false, X1.0, X0.0, place(b, d.rk()));
    b.asm.vex(ANDNPS, false, X0.0, X0.0, place(b, d.rj()));
    let to = target(b, d.rd());
    b.asm.vex(ORPS, false, to.0, X0.0, X1);
    put(b, d.rd(), to);
}

/// fd = fk if a flag is set, else fj.
fn select(b: &mut Block<'_>, d: &Decoded) {
    let set = b.told(FLAGS + (d.ra() & 7));
    let set = set.unwrap_or_else(|| {
        b.asm.cmp_byte(layout::fcc(d.ra()), 0);
        Cond::Ne
    });
    // The register that fd is not is copied last, over the other one.
    let (first, second, keep) = match d.rd() == d.rk() && !mutant!("la64_select_over_its_source") {
        true => (d.rk(), d.rj(), set),
        false => (d.rj(), d.rk(), set.opposite()),
    };
    let to = target(b, d.rd());
    load(b, to, first);
    let kept = b.asm.jump_short(Some(keep));
    load(b, to, second);
    b.asm.bind_short(kept);
    put(b, d.rd(), to);
}

fn from_general(b: &mut Block<'_>, d: &Decoded) {
    let j = b.get(d.rj(), RAX);
    let to = target(b, d.rd());
    b.asm.packed_from_general(to, j);
    put(b, d.rd(), to);
}

/// Word `lane` of fd = the low half of rj.
fn from_general_half(b: &mut Block<'_>, d: &Decoded, lane: u8) {
    let old = get(b, d.rd(), X0);
    let j = b.get(d.rj(), RAX);
    b.asm.packed_insert(V_PINSR, false, old, old, j, lane);
    put(b, d.rd(), old);
}

/// rd = fj, or one of its halves sign-extended.
fn to_general(b: &mut Block<'_>, d: &Decoded, wide: bool, shift: u8) {
    if d.rd() == 0 {
        return;
    }
    let j = get(b, d.rj(), X0);
    let to = b.target(d.rd());
    b.asm.to_general(MOVD_TO, true, to, j);
    if shift > 0 {
        b.asm.imm8(SHR, true, to, shift);
    }
    if !wide {
        b.asm.op(MOVSXD, true, to, to);
    }
    b.put(d.rd(), to);
    if !wide {
        b.extends(d.rd());
    }
}

/// A flag = the lowest bit of rj.
fn flag_from_general(b: &mut Block<'_>, d: &Decoded) {
    let j = b.get(d.rj(), RAX);
    b.asm.test_byte(j, 1);
    put_flag(b, d);
}

/// A flag = the lowest bit of fj.
fn flag_from_float(b: &mut Block<'_>, d: &Decoded) {
    let j = get(b, d.rj(), X0);
    b.asm.to_general(MOVD_TO, false, RAX, j);
    b.asm.test_byte(RAX, 1);
    put_flag(b, d);
}

/// A flag = what host flags say is not zero.
fn put_flag(b: &mut Block<'_>, d: &Decoded) {
    b.asm.set(Cond::Ne, layout::fcc(d.rd()));
    b.flags_tell(FLAGS + (d.rd() & 7), Cond::Ne);
}

/// fd = a flag, 0 or 1.
fn flag_to_float(b: &mut Block<'_>, d: &Decoded) {
    b.asm.op(MOVZX8, false, RAX, layout::fcc(d.rj()));
    let to = target(b, d.rd());
    b.asm.packed_from_general(to, RAX);
    put(b, d.rd(), to);
}

fn flag_to_general(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    let to = b.target(d.rd());
    b.asm.op(MOVZX8, false, to, layout::fcc(d.rj()));
    b.put(d.rd(), to);
}

fn load_memory(b: &mut Block<'_>, d: &Decoded, address: Address, w: Width) {
    let m = address(b, d);
    let to = target(b, d.rd());
    b.access();
    b.asm.sse(w.pick(MOVSS, MOVQ), to, m);
    put(b, d.rd(), to);
}

fn store(b: &mut Block<'_>, d: &Decoded, address: Address, w: Width) {
    if b.shape.guarded {
        return b.call_tier_0(d);
    }
    let m = address(b, d);
    let from = get(b, d.rd(), X0);
    b.access();
    b.asm.sse(w.pick(MOVSS_TO, MOVSD_TO), from, m);
}

macro_rules! both {
    ($($name:literal $f:ident $(, $argument:expr)*;)*) => {
        &[$(
            plain(concat!($name, ".s"), |b, d| $f(b, d, Single $(, $argument)*)),
            plain(concat!($name, ".d"), |b, d| $f(b, d, Double $(, $argument)*)),
        )*]
    };
}

pub(super) static TABLE: &[Lowering] = both! {
    "fadd" binary, ADDSS, ADDSD;
    "fsub" binary, SUBSS, SUBSD;
    "fmul" binary, MULSS, MULSD;
    "fdiv" binary, DIVSS, DIVSD;
    "fsqrt" sqrt;
    "frecip" reciprocal, false;
    "frecipe" reciprocal, false;
    "frsqrt" reciprocal, true;
    "frsqrte" reciprocal, true;
    "fmadd" fused, FMADD231, false;
    "fmsub" fused, FMSUB231, false;
    "fnmadd" fused, FMADD231, true;
    "fnmsub" fused, FMSUB231, true;
    "frint" round;
    "fabs" sign, ANDNPS;
    "fneg" sign, XORPS;
    "fcopysign" copy_sign;
    "ftint.w" to_integer, false, Mode::Current;
    "ftint.l" to_integer, true, Mode::Current;
    "ftintrz.w" to_integer, false, Mode::Zero;
    "ftintrz.l" to_integer, true, Mode::Zero;
    "ftintrm.w" to_integer, false, Mode::Fixed(1);
    "ftintrm.l" to_integer, true, Mode::Fixed(1);
    "ftintrp.w" to_integer, false, Mode::Fixed(2);
    "ftintrp.l" to_integer, true, Mode::Fixed(2);
    "ftintrne.w" to_integer, false, Mode::Fixed(0);
    "ftintrne.l" to_integer, true, Mode::Fixed(0);
    "fcmp.caf" compare, false, NEVER;
    "fcmp.saf" compare, true, NEVER;
    "fcmp.clt" compare, false, swapped(Cond::A);
    "fcmp.slt" compare, true, swapped(Cond::A);
    "fcmp.ceq" compare, false, EQUAL;
    "fcmp.seq" compare, true, EQUAL;
    "fcmp.cle" compare, false, swapped(Cond::Ae);
    "fcmp.sle" compare, true, swapped(Cond::Ae);
    "fcmp.cun" compare, false, one(Cond::P);
    "fcmp.sun" compare, true, one(Cond::P);
    "fcmp.cult" compare, false, one(Cond::B);
    "fcmp.sult" compare, true, one(Cond::B);
    "fcmp.cueq" compare, false, one(Cond::E);
    "fcmp.sueq" compare, true, one(Cond::E);
    "fcmp.cule" compare, false, one(Cond::Be);
    "fcmp.sule" compare, true, one(Cond::Be);
    "fcmp.cne" compare, false, one(Cond::Ne);
    "fcmp.sne" compare, true, one(Cond::Ne);
    "fcmp.cor" compare, false, one(Cond::Np);
    "fcmp.sor" compare, true, one(Cond::Np);
    "fcmp.cune" compare, false, NOT_EQUAL;
    "fcmp.sune" compare, true, NOT_EQUAL;
};

pub(super) static MOVE_TABLE: &[Lowering] = &[
    plain("fcvt.d.s", |b, d| change(b, d, Double)),
    plain("fcvt.s.d", |b, d| change(b, d, Single)),
    plain("ffint.s.w", |b, d| from_integer(b, d, Single, false)),
    plain("ffint.s.l", |b, d| from_integer(b, d, Single, true)),
    plain("ffint.d.w", |b, d| from_integer(b, d, Double, false)),
    plain("ffint.d.l", |b, d| from_integer(b, d, Double, true)),
    plain("fmov.s", copy),
    plain("fmov.d", copy),
    plain("fsel", select),
    plain("movgr2fr.d", from_general),
    plain("movgr2fr.w", |b, d| from_general_half(b, d, 0)),
    plain("movgr2frh.w", |b, d| from_general_half(b, d, 1)),
    plain("movfr2gr.d", |b, d| to_general(b, d, true, 0)),
    plain("movfr2gr.s", |b, d| to_general(b, d, false, 0)),
    plain("movfrh2gr.s", |b, d| to_general(b, d, false, 32)),
    plain("movcf2gr", flag_to_general),
    plain("movgr2cf", flag_from_general),
    plain("movfr2cf", flag_from_float),
    plain("movcf2fr", flag_to_float),
    plain("fld.d", |b, d| load_memory(b, d, at_offset, Double)),
    plain("fld.s", |b, d| load_memory(b, d, at_offset, Single)),
    plain("fldx.d", |b, d| load_memory(b, d, at_index, Double)),
    plain("fldx.s", |b, d| load_memory(b, d, at_index, Single)),
    plain("fst.d", |b, d| store(b, d, at_offset, Double)),
    plain("fst.s", |b, d| store(b, d, at_offset, Single)),
    plain("fstx.d", |b, d| store(b, d, at_index, Double)),
    plain("fstx.s", |b, d| store(b, d, at_index, Single)),
];
