//! Floating point by lane.
//!
//! - A result with a NaN takes the slow way before any part of the destination is written, as in
//!   scalar arithmetic. Of 256 bits the upper half is made first and waits in the frame.
//! - Comparisons raise what the scalar ones raise: the host's predicates are quiet or signalling.

use super::super::block::{Block, Decoded, Lowering, plain};
use super::super::layout;
use super::{Operands, X0, X1, X2, constant, get, halves, place, put, register, target};
use crate::jit::emit::{Cond, Form};
use crate::jit::packed::*;
use littoral_base::mutant;

/// The width of lanes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Single,
    Double,
}
use Width::{Double, Single};

impl Width {
    fn pick(self, [single, double]: [Form; 2]) -> Form {
        if self == Single { single } else { double }
    }

    /// This value in each lane.
    fn repeated(self, [single, double]: [u64; 2]) -> u64 {
        if self == Single { single << 32 | single } else { double }
    }
}

const SIGNS: [u64; 2] = [1 << 31, 1 << 63];
const ONES: [u64; 2] = [0x3f80_0000, 0x3ff0_0000_0000_0000];
const CMPP: [Form; 2] = [V_CMPPS, V_CMPPD];
const UNORDERED: u8 = 3;

/// Makes the result of one half in xmm0; may change xmm1 and xmm2.
type Make = fn(&mut Block<'_>, &Decoded, usize, Width);

/// The slow way is taken if a lane of xmm0 is a NaN.
fn check(b: &mut Block<'_>, w: Width) {
    if mutant!("la64_lane_nan_of_the_host") {
        return;
    }
    b.asm.packed_imm(w.pick(CMPP), X1, X0, X0, UNORDERED);
    b.asm.packed_unary(V_PTEST, X1, X1);
    b.slow_if(Cond::Ne);
}

/// Writes the halves that `make` makes and that hold no NaN; `finish` changes them after that.
fn checked(
    b: &mut Block<'_>,
    d: &Decoded,
    w: Width,
    make: Make,
    finish: fn(&mut Block<'_>, Width),
) {
    for half in halves(d).rev() {
        make(b, d, half, w);
        check(b, w);
        finish(b, w);
        if half == 1 {
            b.asm.packed_unary(V_MOVDQU_TO, X0, layout::UPPER);
        }
    }
    write(b, d);
}

/// Writes the lower half from xmm0, the upper one from the frame.
fn write(b: &mut Block<'_>, d: &Decoded) {
    put(b, d.rd(), 0, X0);
    if d.wide && !mutant!("la64_upper_result_lost") {
        b.asm.packed_unary(V_MOVDQU, X1, layout::UPPER);
        put(b, d.rd(), 1, X1);
    }
}

fn as_it_is(_: &mut Block<'_>, _: Width) {}

fn negated(b: &mut Block<'_>, w: Width) {
    constant(b, X1, w.repeated(SIGNS));
    b.asm.packed(V_PXOR, X0, X0, X1);
}

/// xmm0 = rj op rk.
fn binary(b: &mut Block<'_>, d: &Decoded, half: usize, form: Form) {
    let j = get(b, d.rj(), half, X2);
    b.asm.packed(form, X0, j, place(d.rk(), half));
}

/// xmm0 = op rj.
fn unary(b: &mut Block<'_>, d: &Decoded, half: usize, form: Form) {
    b.asm.packed_unary(form, X0, place(d.rj(), half));
}

/// xmm0 = rj * rk + ra.
fn fused(b: &mut Block<'_>, d: &Decoded, half: usize, w: Width, form: Form) {
    b.asm.packed_unary(V_MOVDQU, X0, place(d.ra(), half));
    let j = get(b, d.rj(), half, X2);
    b.asm.vex(form, w == Double, X0.0, j.0, place(d.rk(), half));
}

/// xmm0 = 1 / rj, or 1 / sqrt(rj).
fn reciprocal(b: &mut Block<'_>, d: &Decoded, half: usize, w: Width, root: bool) {
    constant(b, X1, w.repeated(ONES));
    let mut by = place(d.rj(), half);
    if root {
        b.asm.packed_unary(w.pick([V_SQRTPS, V_SQRTPD]), X0, by);
        by = X0.into();
    }
    b.asm.packed(w.pick([V_DIVPS, V_DIVPD]), X0, X1, by);
}

fn round(b: &mut Block<'_>, d: &Decoded, half: usize, w: Width, mode: u8) {
    let form = w.pick([V_ROUNDPS, V_ROUNDPD]);
    b.asm.packed_unary_imm(form, X0, place(d.rj(), half), mode);
}

/// As the FCSR says.
const CURRENT: u8 = 4;

/// xmm0 = the low or high singles of rj as doubles.
fn widen(b: &mut Block<'_>, d: &Decoded, half: usize, high: bool) {
    let mut j = get(b, d.rj(), half, X2);
    if high {
        b.asm.packed_shift(V_PSRLDQ, X0, j, 8);
        j = X0;
    }
    b.asm.packed_unary(V_CVTPS2PD, X0, j);
}

/// xmm0 = the doubles of rk, and above them those of rj, as singles.
fn narrow(b: &mut Block<'_>, d: &Decoded, half: usize) {
    b.asm.packed_unary(V_CVTPD2PS, X0, place(d.rk(), half));
    b.asm.packed_unary(V_CVTPD2PS, X1, place(d.rj(), half));
    b.asm.packed(V_PUNPCKLQDQ, X0, X0, X1);
}

/// rd = integers of the singles of rj; the host's answer to what does not fit takes the slow way.
fn to_words(b: &mut Block<'_>, d: &Decoded, form: Form) {
    for half in halves(d).rev() {
        b.asm.packed_unary(form, X0, place(d.rj(), half));
        check_words(b, half);
    }
    write(b, d);
}

/// rd = integers of the doubles of rk, and above them of rj.
fn doubles_to_words(b: &mut Block<'_>, d: &Decoded, form: Form) {
    for half in halves(d).rev() {
        b.asm.packed_unary(form, X0, place(d.rk(), half));
        b.asm.packed_unary(form, X1, place(d.rj(), half));
        b.asm.packed(V_PUNPCKLQDQ, X0, X0, X1);
        check_words(b, half);
    }
    write(b, d);
}

/// The slow way is taken if a word of xmm0 is the least integer.
fn check_words(b: &mut Block<'_>, half: usize) {
    constant(b, X1, Single.repeated(SIGNS));
    b.asm.packed(V_PCMPEQD, X1, X1, X0);
    b.asm.packed_unary(V_PTEST, X1, X1);
    b.slow_if(Cond::Ne);
    if half == 1 {
        b.asm.packed_unary(V_MOVDQU_TO, X0, layout::UPPER);
    }
}

/// to = integers as floating-point numbers, which are never NaNs.
fn from_words(b: &mut Block<'_>, o: &Operands, form: Form, high: bool) {
    let mut j = o.j;
    if high {
        b.asm.packed_shift(V_PSRLDQ, X0, j, 8);
        j = X0;
    }
    b.asm.packed_unary(form, o.to, j);
}

fn compare(b: &mut Block<'_>, d: &Decoded, w: Width, predicate: u8) {
    for half in halves(d) {
        let j = get(b, d.rj(), half, X2);
        let k = register(b, place(d.rk(), half), X1);
        let to = target(d.rd(), half);
        b.asm.packed_imm(w.pick(CMPP), to, j, k, predicate);
        put(b, d.rd(), half, to);
    }
}

macro_rules! arithmetic {
    ($($name:literal |$b:ident, $d:ident, $half:ident, $w:ident| $make:expr, $finish:ident;)*) => {
        &[$(
            plain(concat!($name, ".s"), |b, d| {
                checked(b, d, Single, |$b, $d, $half, $w| { let _ = $w; $make }, $finish)
            }),
            plain(concat!($name, ".d"), |b, d| {
                checked(b, d, Double, |$b, $d, $half, $w| { let _ = $w; $make }, $finish)
            }),
        )*]
    };
}

static ARITHMETIC: &[Lowering] = arithmetic! {
    "vfadd" |b, d, h, w| binary(b, d, h, w.pick([V_ADDPS, V_ADDPD])), as_it_is;
    "vfsub" |b, d, h, w| binary(b, d, h, w.pick([V_SUBPS, V_SUBPD])), as_it_is;
    "vfmul" |b, d, h, w| binary(b, d, h, w.pick([V_MULPS, V_MULPD])), as_it_is;
    "vfdiv" |b, d, h, w| binary(b, d, h, w.pick([V_DIVPS, V_DIVPD])), as_it_is;
    "vfsqrt" |b, d, h, w| unary(b, d, h, w.pick([V_SQRTPS, V_SQRTPD])), as_it_is;
    "vfmadd" |b, d, h, w| fused(b, d, h, w, V_FMADD231P), as_it_is;
    "vfmsub" |b, d, h, w| fused(b, d, h, w, V_FMSUB231P), as_it_is;
    "vfnmadd" |b, d, h, w| fused(b, d, h, w, V_FMADD231P), negated;
    "vfnmsub" |b, d, h, w| fused(b, d, h, w, V_FMSUB231P), negated;
    "vfrecip" |b, d, h, w| reciprocal(b, d, h, w, false), as_it_is;
    "vfrecipe" |b, d, h, w| reciprocal(b, d, h, w, false), as_it_is;
    "vfrsqrt" |b, d, h, w| reciprocal(b, d, h, w, true), as_it_is;
    "vfrsqrte" |b, d, h, w| reciprocal(b, d, h, w, true), as_it_is;
    "vfrint" |b, d, h, w| round(b, d, h, w, CURRENT), as_it_is;
    "vfrintrne" |b, d, h, w| round(b, d, h, w, 0), as_it_is;
    "vfrintrm" |b, d, h, w| round(b, d, h, w, 1), as_it_is;
    "vfrintrp" |b, d, h, w| round(b, d, h, w, 2), as_it_is;
    "vfrintrz" |b, d, h, w| round(b, d, h, w, 3), as_it_is;
};

macro_rules! comparisons {
    ($($name:literal $predicate:literal;)*) => {
        &[$(
            plain(concat!("vfcmp.", $name, ".s"), |b, d| compare(b, d, Single, $predicate)),
            plain(concat!("vfcmp.", $name, ".d"), |b, d| compare(b, d, Double, $predicate)),
        )*]
    };
}

static COMPARISONS: &[Lowering] = comparisons! {
    "caf" 0x0b;
    "saf" 0x1b;
    "clt" 0x11;
    "slt" 0x01;
    "ceq" 0x00;
    "seq" 0x10;
    "cle" 0x12;
    "sle" 0x02;
    "cun" 0x03;
    "sun" 0x13;
    "cult" 0x19;
    "sult" 0x09;
    "cueq" 0x08;
    "sueq" 0x18;
    "cule" 0x1a;
    "sule" 0x0a;
    "cne" 0x0c;
    "sne" 0x1c;
    "cor" 0x07;
    "sor" 0x17;
    "cune" 0x04;
    "sune" 0x14;
};

static CONVERSIONS: &[Lowering] = &[
    plain("vfcvtl.d.s", |b, d| checked(b, d, Double, |b, d, h, _| widen(b, d, h, false), as_it_is)),
    plain("vfcvth.d.s", |b, d| checked(b, d, Double, |b, d, h, _| widen(b, d, h, true), as_it_is)),
    plain("vfcvt.s.d", |b, d| checked(b, d, Single, |b, d, h, _| narrow(b, d, h), as_it_is)),
    plain("vftint.w.s", |b, d| to_words(b, d, V_CVTPS2DQ)),
    plain("vftintrz.w.s", |b, d| to_words(b, d, V_CVTTPS2DQ)),
    plain("vftint.w.d", |b, d| doubles_to_words(b, d, V_CVTPD2DQ)),
    plain("vftintrz.w.d", |b, d| doubles_to_words(b, d, V_CVTTPD2DQ)),
];

static FROM_INTEGERS: &[Lowering] = super::rows_by_halves! {
    "vffint.s.w" |b, o| from_words(b, o, V_CVTDQ2PS, false);
    "vffintl.d.w" |b, o| from_words(b, o, V_CVTDQ2PD, false);
    "vffinth.d.w" |b, o| from_words(b, o, V_CVTDQ2PD, true);
};

pub(super) static TABLES: [&[Lowering]; 4] = [ARITHMETIC, COMPARISONS, CONVERSIONS, FROM_INTEGERS];
