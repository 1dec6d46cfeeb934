//! Scalar floating point on the host's SSE and FMA.
//!
//! - Sticky flags and rounding mode are MXCSR's (see `control`), so they need no code here.
//! - A result that is a NaN takes the slow way before the destination is written: NaNs are chosen
//!   and quieted otherwise than on the host. The flags that the host has raised by then are among
//!   those that tier 0 raises.
//! - The upper 64 bits of a destination's low half stay, as on tier 0.
//! - The upper half of a single is ones, as on tier 0.

use super::access::{Address, at_index, at_offset};
use super::block::{Block, Decoded, Lowering, plain};
use super::frame::literal;
use super::layout;
use crate::jit::emit::{
    ADDSD, ADDSS, AND, ANDNPS, ANDPS, CMP_I, COMISD, COMISS, CVTSD2SI, CVTSD2SS, CVTSI2SD,
    CVTSI2SS, CVTSS2SD, CVTSS2SI, CVTTSD2SI, CVTTSS2SI, Cond, DIVSD, DIVSS, FMADD231, FMSUB231,
    Form, MOV, MOV8_TO, MOVAPS, MOVD, MOVD_TO, MOVQ, MOVSD, MOVSD_TO, MOVSS, MOVSS_TO, MOVSXD,
    MOVZX8, MULSD, MULSS, OR, ORPS, RAX, RCX, ROL, ROUNDSD, ROUNDSS, Rm, SHL, SHR, SQRTSD, SQRTSS,
    SUBSD, SUBSS, UCOMISD, UCOMISS, XORPS, Xmm,
};
use littoral_base::mutant;

const X0: Xmm = Xmm(0);
const X1: Xmm = Xmm(1);

/// Where the low half of floating-point register `n` is.
fn place(n: usize) -> Rm {
    layout::vector_pin(n).map_or_else(|| layout::v(n, 0).into(), Rm::from)
}

/// `to` = the low 64 bits of register `n`, and whatever above.
fn load(b: &mut Block<'_>, to: Xmm, n: usize) {
    match layout::vector_pin(n) {
        Some(x) => b.asm.sse(MOVAPS, to, x),
        None => b.asm.sse(MOVQ, to, layout::v(n, 0)),
    }
}

/// A vector register with the value of register `n`: its pin, or `scratch`.
fn get(b: &mut Block<'_>, n: usize, scratch: Xmm) -> Xmm {
    match layout::vector_pin(n) {
        Some(x) => x,
        None => {
            load(b, scratch, n);
            scratch
        }
    }
}

/// Register `n` = the low 64 bits of `from`.
fn put(b: &mut Block<'_>, n: usize, from: Xmm) {
    match layout::vector_pin(n) {
        Some(x) => b.asm.sse(MOVSD, x, from),
        None => b.asm.sse(MOVSD_TO, from, layout::v(n, 0)),
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

/// fd = xmm0 unless that is a NaN.
fn finish(b: &mut Block<'_>, d: &Decoded, w: Width) {
    if !mutant!("la64_nan_of_the_host") {
        b.asm.sse(w.pick(UCOMISS, UCOMISD), X0, X0);
        b.slow_if(Cond::P);
    }
    write(b, d, w);
}

/// fd = xmm0.
fn write(b: &mut Block<'_>, d: &Decoded, w: Width) {
    if w == Single {
        b.asm.sse(ORPS, X0, layout::literal(literal::BOX));
    }
    put(b, d.rd(), X0);
}

/// fd = fj op fk.
fn binary(b: &mut Block<'_>, d: &Decoded, w: Width, single: Form, double: Form) {
    let j = get(b, d.rj(), X1);
    b.asm.vex(w.pick(single, double), false, X0.0, j.0, place(d.rk()));
    finish(b, d, w);
}

/// fd = sqrt(fj).
fn sqrt(b: &mut Block<'_>, d: &Decoded, w: Width) {
    let j = get(b, d.rj(), X1);
    b.asm.sse(w.pick(SQRTSS, SQRTSD), X0, j);
    finish(b, d, w);
}

/// fd = 1 / fj, or 1 / sqrt(fj).
fn reciprocal(b: &mut Block<'_>, d: &Decoded, w: Width, root: bool) {
    let mut j = get(b, d.rj(), X1);
    if root {
        b.asm.sse(w.pick(SQRTSS, SQRTSD), X1, j);
        j = X1;
    }
    let one = if w == Single { literal::ONE_SINGLE } else { literal::ONE_DOUBLE };
    b.asm.sse(MOVAPS, X0, layout::literal(one));
    b.asm.sse(w.pick(DIVSS, DIVSD), X0, j);
    finish(b, d, w);
}

/// fd = fj * fk + fa, fa or the result negated.
fn fused(b: &mut Block<'_>, d: &Decoded, w: Width, form: Form, negated: bool) {
    load(b, X0, d.ra());
    let j = get(b, d.rj(), X1);
    let k = place(d.rk());
    b.asm.vex(form, w == Double, X0.0, j.0, k);
    b.asm.sse(w.pick(UCOMISS, UCOMISD), X0, X0);
    b.slow_if(Cond::P);
    if negated {
        let sign = if w == Single { literal::SIGN_SINGLE } else { literal::SIGN_DOUBLE };
        b.asm.sse(XORPS, X0, layout::literal(sign));
    }
    write(b, d, w);
}

/// fd = fj rounded to an integral value.
fn round(b: &mut Block<'_>, d: &Decoded, w: Width) {
    // Of a single the upper half becomes zero, which a move of 32 bits to a register does.
    let j = get(b, d.rj(), X1);
    b.asm.sse_imm(w.pick(ROUNDSS, ROUNDSD), X0, j, 4);
    b.asm.sse(w.pick(UCOMISS, UCOMISD), X0, X0);
    b.slow_if(Cond::P);
    if w == Single {
        b.asm.to_general(MOVD_TO, false, RAX, X0);
        b.asm.from_general(MOVD, true, X0, RAX);
    }
    put(b, d.rd(), X0);
}

fn to_double(b: &mut Block<'_>, d: &Decoded) {
    let j = get(b, d.rj(), X1);
    b.asm.sse(CVTSS2SD, X0, j);
    finish(b, d, Double);
}

fn to_single(b: &mut Block<'_>, d: &Decoded) {
    let j = get(b, d.rj(), X1);
    b.asm.sse(CVTSD2SS, X0, j);
    finish(b, d, Single);
}

/// fd = the integer in fj.
fn from_integer(b: &mut Block<'_>, d: &Decoded, w: Width, wide: bool) {
    let j = get(b, d.rj(), X1);
    b.asm.to_general(MOVD_TO, wide, RAX, j);
    b.asm.sse(XORPS, X0, X0);
    b.asm.from_general(w.pick(CVTSI2SS, CVTSI2SD), wide, X0, RAX);
    write(b, d, w);
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

/// fd = integer of fj. The host's answer to what does not fit takes the slow way.
fn to_integer(b: &mut Block<'_>, d: &Decoded, w: Width, wide: bool, mode: Mode) {
    const QUIETLY: u8 = 8;
    let j = get(b, d.rj(), X1);
    match mode {
        Mode::Current => b.asm.to_general(w.pick(CVTSS2SI, CVTSD2SI), wide, RAX, j),
        Mode::Zero => b.asm.to_general(w.pick(CVTTSS2SI, CVTTSD2SI), wide, RAX, j),
        Mode::Fixed(n) => {
            b.asm.sse_imm(w.pick(ROUNDSS, ROUNDSD), X0, j, n | QUIETLY);
            b.asm.to_general(w.pick(CVTTSS2SI, CVTTSD2SI), wide, RAX, X0);
        }
    }
    if wide {
        b.asm.op(MOV, true, RCX, RAX);
        b.asm.imm8(ROL, true, RCX, 1);
        b.asm.arith(CMP_I, true, RCX, 1);
    } else {
        b.asm.arith(CMP_I, false, RAX, i32::MIN);
    }
    b.slow_if(Cond::E);
    if let Mode::Fixed(n) = mode {
        // Only now: what does not fit is invalid and not inexact.
        b.asm.sse_imm(w.pick(ROUNDSS, ROUNDSD), X0, j, n);
    }
    if !wide {
        b.asm.op(MOVSXD, true, RAX, RAX);
    }
    b.asm.from_general(MOVD, true, X0, RAX);
    put(b, d.rd(), X0);
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
    let k = place(second);
    b.asm.sse(form, a, k);
    let flag = layout::fcc(d.rd());
    match how.conds {
        [None, _] => b.asm.mov_byte(flag, 0),
        [Some(c), None] => b.asm.set(c, flag),
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
    if form == ANDNPS {
        b.asm.sse(MOVAPS, X0, layout::literal(literal));
        let j = get(b, d.rj(), X1);
        b.asm.sse(ANDNPS, X0, j);
    } else {
        load(b, X0, d.rj());
        b.asm.sse(form, X0, layout::literal(literal));
    }
    write(b, d, w);
}

fn copy(b: &mut Block<'_>, d: &Decoded, w: Width) {
    if w == Double {
        let j = get(b, d.rj(), X0);
        return put(b, d.rd(), j);
    }
    load(b, X0, d.rj());
    write(b, d, w);
}

/// fd = the magnitude of fj with the sign of fk: a single keeps nothing above its sign but fk's.
fn copy_sign(b: &mut Block<'_>, d: &Decoded, w: Width) {
    if w == Single {
        return b.call_tier_0(d);
    }
    b.asm.sse(MOVAPS, X0, layout::literal(literal::SIGN_DOUBLE));
    let j = get(b, d.rj(), X1);
    b.asm.sse(ANDNPS, X0, j);
    load(b, X1, d.rk());
    b.asm.sse(ANDPS, X1, layout::literal(literal::SIGN_DOUBLE));
    b.asm.sse(ORPS, X0, X1);
    put(b, d.rd(), X0);
}

fn select(b: &mut Block<'_>, d: &Decoded) {
    b.asm.cmp_byte(layout::fcc(d.ra()), 0);
    load(b, X0, d.rj());
    let first = b.asm.jump_short(Some(Cond::E));
    load(b, X0, d.rk());
    b.asm.bind_short(first);
    put(b, d.rd(), X0);
}

fn from_general(b: &mut Block<'_>, d: &Decoded) {
    let j = b.get(d.rj(), RAX);
    b.asm.from_general(MOVD, true, X0, j);
    put(b, d.rd(), X0);
}

/// The low or high half of fd = the low half of rj.
fn from_general_half(b: &mut Block<'_>, d: &Decoded, high: bool) {
    let old = get(b, d.rd(), X0);
    b.asm.to_general(MOVD_TO, true, RCX, old);
    let j = b.get(d.rj(), RAX);
    if high {
        b.asm.op(MOV, false, RCX, RCX);
        b.asm.op(MOV, true, RAX, j);
        b.asm.imm8(SHL, true, RAX, 32);
    } else {
        b.asm.op(MOV, false, RAX, j);
        b.asm.imm8(SHR, true, RCX, 32);
        b.asm.imm8(SHL, true, RCX, 32);
    }
    b.asm.op(OR, true, RAX, RCX);
    b.asm.from_general(MOVD, true, X0, RAX);
    put(b, d.rd(), X0);
}

/// rd = fj, or one of its halves sign-extended.
fn to_general(b: &mut Block<'_>, d: &Decoded, wide: bool, shift: u8) {
    if d.rd() == 0 {
        return;
    }
    let j = get(b, d.rj(), X0);
    b.asm.to_general(MOVD_TO, true, RAX, j);
    if shift > 0 {
        b.asm.imm8(SHR, true, RAX, shift);
    }
    if !wide {
        b.asm.op(MOVSXD, true, RAX, RAX);
    }
    b.put(d.rd(), RAX);
}

fn flag_to_general(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    let to = b.target(d.rd());
    b.asm.op(MOVZX8, false, to, layout::fcc(d.rj()));
    b.put(d.rd(), to);
}

fn load_double(b: &mut Block<'_>, d: &Decoded, address: Address) {
    let m = address(b, d);
    b.access();
    b.asm.sse(MOVQ, X0, m);
    put(b, d.rd(), X0);
}

fn load_single(b: &mut Block<'_>, d: &Decoded, address: Address) {
    let m = address(b, d);
    b.access();
    b.asm.sse(MOVSS, X0, m);
    b.asm.sse(ORPS, X0, layout::literal(literal::BOX));
    put(b, d.rd(), X0);
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
    "fmov" copy;
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
    plain("fcvt.d.s", to_double),
    plain("fcvt.s.d", to_single),
    plain("ffint.s.w", |b, d| from_integer(b, d, Single, false)),
    plain("ffint.s.l", |b, d| from_integer(b, d, Single, true)),
    plain("ffint.d.w", |b, d| from_integer(b, d, Double, false)),
    plain("ffint.d.l", |b, d| from_integer(b, d, Double, true)),
    plain("fsel", select),
    plain("movgr2fr.d", from_general),
    plain("movgr2fr.w", |b, d| from_general_half(b, d, false)),
    plain("movgr2frh.w", |b, d| from_general_half(b, d, true)),
    plain("movfr2gr.d", |b, d| to_general(b, d, true, 0)),
    plain("movfr2gr.s", |b, d| to_general(b, d, false, 0)),
    plain("movfrh2gr.s", |b, d| to_general(b, d, false, 32)),
    plain("movcf2gr", flag_to_general),
    plain("fld.d", |b, d| load_double(b, d, at_offset)),
    plain("fld.s", |b, d| load_single(b, d, at_offset)),
    plain("fldx.d", |b, d| load_double(b, d, at_index)),
    plain("fldx.s", |b, d| load_single(b, d, at_index)),
    plain("fst.d", |b, d| store(b, d, at_offset, Double)),
    plain("fst.s", |b, d| store(b, d, at_offset, Single)),
    plain("fstx.d", |b, d| store(b, d, at_index, Double)),
    plain("fstx.s", |b, d| store(b, d, at_index, Single)),
];
