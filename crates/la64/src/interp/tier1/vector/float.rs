//! Floating point by lane.
//!
//! - Invalid operations and NaNs are handled as in scalar arithmetic (see `tier1::float`): nothing
//!   of the destination is written before the last instruction that may fault and the last test.
//!   Of 256 bits the upper half is made first and waits in the frame.
//! - Comparisons raise what the scalar ones raise: the host's predicates are quiet or signalling.

use super::super::block::{Block, Decoded, Lowering, mixing};
use super::super::control::Floats;
use super::super::control::Mixes::{Always, Wide};
use super::super::layout;
use super::{Operands, X0, X1, X2, constant, get, place, put, register, target};
use crate::jit::emit::{Cond, Form, Xmm};
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
const EQUAL: u8 = 0;
const UNORDERED: u8 = 3;

/// Makes the result of one half in a register, which only its last instruction writes; may change
/// xmm0, xmm1 and xmm2.
type Make = fn(&mut Block<'_>, &Decoded, usize, Width, Xmm);

/// When results are tested for NaNs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Test {
    /// Where invalid operations do not fault.
    IfNeeded,
    /// Always: NaNs are chosen otherwise than on the host.
    Always,
}

/// The slow way is taken if a lane of xmm0 is a NaN.
fn check(b: &mut Block<'_>, w: Width) {
    if mutant!("la64_lane_nan_of_the_host") {
        return;
    }
    b.asm.packed_imm(w.pick(CMPP), X1, X0, X0, UNORDERED);
    b.asm.packed_unary(V_PTEST, X1, X1);
    b.slow_if(Cond::Ne);
}

/// Writes the halves that `make` makes: where they are tested, they are made in xmm0 and `finish`
/// changes them after the test.
fn checked(
    b: &mut Block<'_>,
    d: &Decoded,
    w: Width,
    make: Make,
    (test, finish): (Test, fn(&mut Block<'_>, Width)),
) {
    let tested = test == Test::Always || !b.floats.faults();
    by_halves(b, d, |b, half, to| {
        let made = if tested { X0 } else { to };
        make(b, d, half, w, made);
        if tested {
            check(b, w);
            finish(b, w);
        }
        made
    });
}

/// Writes the halves that `make` makes, in the register it gets or the one it names, and by its
/// last instruction that may fault; it may change xmm0 to xmm2.
fn by_halves(
    b: &mut Block<'_>,
    d: &Decoded,
    mut make: impl FnMut(&mut Block<'_>, usize, Xmm) -> Xmm,
) {
    if d.wide {
        let made = make(b, 1, X0);
        b.asm.packed_unary(V_MOVDQU_TO, made, layout::UPPER);
    }
    let made = make(b, 0, target(b, d.rd(), 0));
    put(b, d.rd(), 0, made);
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

/// to = rj op rk.
fn binary(b: &mut Block<'_>, d: &Decoded, half: usize, to: Xmm, form: Form) {
    let j = get(b, d.rj(), half, X2);
    b.access();
    b.asm.packed(form, to, j, place(b, d.rk(), half));
}

/// to = rj / rk. Where an invalid operation is the guest's trap, no other flag may be raised with
/// it: then the slow way is taken for a divisor of zero.
fn divide(b: &mut Block<'_>, d: &Decoded, half: usize, w: Width, to: Xmm) {
    if b.floats == Floats::Signalling && !mutant!("la64_division_by_zero_beside_a_trap") {
        let k = register(b, place(b, d.rk(), half), X2);
        constant(b, X1, 0);
        b.access();
        b.asm.packed_imm(w.pick(CMPP), X1, X1, k, EQUAL);
        b.asm.packed_unary(V_PTEST, X1, X1);
        b.slow_if(Cond::Ne);
    }
    binary(b, d, half, to, w.pick([V_DIVPS, V_DIVPD]));
}

/// to = op rj.
fn unary(b: &mut Block<'_>, d: &Decoded, half: usize, to: Xmm, form: Form) {
    b.access();
    b.asm.packed_unary(form, to, place(b, d.rj(), half));
}

/// to, which is xmm0, = rj * rk + ra.
fn fused(b: &mut Block<'_>, d: &Decoded, half: usize, w: Width, form: Form) {
    b.asm.packed_unary(V_MOVDQU, X0, place(b, d.ra(), half));
    let j = get(b, d.rj(), half, X2);
    b.access();
    b.asm.vex(form, w == Double, X0.0, j.0, place(b, d.rk(), half));
}

/// to = 1 / rj, or 1 / sqrt(rj).
fn reciprocal(b: &mut Block<'_>, d: &Decoded, half: usize, to: Xmm, (w, root): (Width, bool)) {
    constant(b, X1, w.repeated(ONES));
    let mut by = place(b, d.rj(), half);
    if root {
        b.access();
        b.asm.packed_unary(w.pick([V_SQRTPS, V_SQRTPD]), X0, by);
        by = X0.into();
    }
    b.access();
    b.asm.packed(w.pick([V_DIVPS, V_DIVPD]), to, X1, by);
}

fn round(b: &mut Block<'_>, d: &Decoded, half: usize, to: Xmm, (w, mode): (Width, u8)) {
    let form = w.pick([V_ROUNDPS, V_ROUNDPD]);
    b.access();
    b.asm.packed_unary_imm(form, to, place(b, d.rj(), half), mode);
}

/// As the FCSR says.
const CURRENT: u8 = 4;

/// to = the low or high singles of rj as doubles.
fn widen(b: &mut Block<'_>, d: &Decoded, half: usize, to: Xmm, high: bool) {
    let mut j = get(b, d.rj(), half, X2);
    if high {
        b.asm.packed_shift(V_PSRLDQ, X0, j, 8);
        j = X0;
    }
    b.access();
    b.asm.packed_unary(V_CVTPS2PD, to, j);
}

/// xmm0 = the pair of rk, and above it that of rj, each changed by `form`.
fn narrow(b: &mut Block<'_>, d: &Decoded, half: usize, form: Form) {
    b.access();
    b.asm.packed_unary(form, X0, place(b, d.rk(), half));
    b.access();
    b.asm.packed_unary(form, X1, place(b, d.rj(), half));
    b.asm.packed(V_PUNPCKLQDQ, X0, X0, X1);
}

/// rd = integers of the singles of rj; the host's answer to what does not fit takes the slow way.
fn to_words(b: &mut Block<'_>, d: &Decoded, form: Form) {
    by_halves(b, d, |b, half, _| {
        unary(b, d, half, X0, form);
        check_words(b);
        X0
    });
}

/// rd = integers of the doubles of rk, and above them of rj.
fn doubles_to_words(b: &mut Block<'_>, d: &Decoded, form: Form) {
    by_halves(b, d, |b, half, _| {
        narrow(b, d, half, form);
        check_words(b);
        X0
    });
}

/// The slow way is taken if a word of xmm0 is the least integer, unless what does not fit faults.
fn check_words(b: &mut Block<'_>) {
    if b.floats.faults() {
        return;
    }
    constant(b, X1, Single.repeated(SIGNS));
    b.asm.packed(V_PCMPEQD, X1, X1, X0);
    b.asm.packed_unary(V_PTEST, X1, X1);
    b.slow_if(Cond::Ne);
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
    by_halves(b, d, |b, half, to| {
        let j = get(b, d.rj(), half, X2);
        let k = register(b, place(b, d.rk(), half), X1);
        b.access();
        b.asm.packed_imm(w.pick(CMPP), to, j, k, predicate);
        to
    });
}

const PLAIN: (Test, fn(&mut Block<'_>, Width)) = (Test::IfNeeded, as_it_is);
const FUSED: (Test, fn(&mut Block<'_>, Width)) = (Test::Always, as_it_is);
const NEGATED: (Test, fn(&mut Block<'_>, Width)) = (Test::Always, negated);

macro_rules! arithmetic {
    ($(
        $name:literal $mixes:ident
        |$b:ident, $d:ident, $half:ident, $w:ident, $to:ident| $make:expr, $how:ident;
    )*) => {
        &[$(
            mixing($mixes, concat!($name, ".s"), |b, d| {
                checked(b, d, Single, |$b, $d, $half, $w, $to| { let _ = ($w, $to); $make }, $how)
            }),
            mixing($mixes, concat!($name, ".d"), |b, d| {
                checked(b, d, Double, |$b, $d, $half, $w, $to| { let _ = ($w, $to); $make }, $how)
            }),
        )*]
    };
}

static ARITHMETIC: &[Lowering] = arithmetic! {
    "vfadd" Wide |b, d, h, w, to| binary(b, d, h, to, w.pick([V_ADDPS, V_ADDPD])), PLAIN;
    "vfsub" Wide |b, d, h, w, to| binary(b, d, h, to, w.pick([V_SUBPS, V_SUBPD])), PLAIN;
    "vfmul" Wide |b, d, h, w, to| binary(b, d, h, to, w.pick([V_MULPS, V_MULPD])), PLAIN;
    "vfdiv" Wide |b, d, h, w, to| divide(b, d, h, w, to), PLAIN;
    "vfsqrt" Wide |b, d, h, w, to| unary(b, d, h, to, w.pick([V_SQRTPS, V_SQRTPD])), PLAIN;
    "vfmadd" Always |b, d, h, w, to| fused(b, d, h, w, V_FMADD231P), FUSED;
    "vfmsub" Always |b, d, h, w, to| fused(b, d, h, w, V_FMSUB231P), FUSED;
    "vfnmadd" Always |b, d, h, w, to| fused(b, d, h, w, V_FMADD231P), NEGATED;
    "vfnmsub" Always |b, d, h, w, to| fused(b, d, h, w, V_FMSUB231P), NEGATED;
    "vfrecip" Always |b, d, h, w, to| reciprocal(b, d, h, to, (w, false)), PLAIN;
    "vfrecipe" Always |b, d, h, w, to| reciprocal(b, d, h, to, (w, false)), PLAIN;
    "vfrsqrt" Always |b, d, h, w, to| reciprocal(b, d, h, to, (w, true)), PLAIN;
    "vfrsqrte" Always |b, d, h, w, to| reciprocal(b, d, h, to, (w, true)), PLAIN;
    "vfrint" Wide |b, d, h, w, to| round(b, d, h, to, (w, CURRENT)), PLAIN;
    "vfrintrne" Wide |b, d, h, w, to| round(b, d, h, to, (w, 0)), PLAIN;
    "vfrintrm" Wide |b, d, h, w, to| round(b, d, h, to, (w, 1)), PLAIN;
    "vfrintrp" Wide |b, d, h, w, to| round(b, d, h, to, (w, 2)), PLAIN;
    "vfrintrz" Wide |b, d, h, w, to| round(b, d, h, to, (w, 3)), PLAIN;
};

macro_rules! comparisons {
    ($($name:literal $predicate:literal;)*) => {
        &[$(
            mixing(Wide, concat!("vfcmp.", $name, ".s"), |b, d| compare(b, d, Single, $predicate)),
            mixing(Wide, concat!("vfcmp.", $name, ".d"), |b, d| compare(b, d, Double, $predicate)),
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
    mixing(Wide, "vfcvtl.d.s", |b, d| {
        checked(b, d, Double, |b, d, h, _, to| widen(b, d, h, to, false), PLAIN)
    }),
    mixing(Wide, "vfcvth.d.s", |b, d| {
        checked(b, d, Double, |b, d, h, _, to| widen(b, d, h, to, true), PLAIN)
    }),
    mixing(Always, "vfcvt.s.d", |b, d| {
        by_halves(b, d, |b, half, _| {
            narrow(b, d, half, V_CVTPD2PS);
            if !b.floats.faults() {
                check(b, Single);
            }
            X0
        });
    }),
    mixing(Always, "vftint.w.s", |b, d| to_words(b, d, V_CVTPS2DQ)),
    mixing(Always, "vftintrz.w.s", |b, d| to_words(b, d, V_CVTTPS2DQ)),
    mixing(Always, "vftint.w.d", |b, d| doubles_to_words(b, d, V_CVTPD2DQ)),
    mixing(Always, "vftintrz.w.d", |b, d| doubles_to_words(b, d, V_CVTTPD2DQ)),
];

static FROM_INTEGERS: &[Lowering] = &[
    mixing(Wide, "vffint.s.w", |b, d| {
        super::by_halves(b, d, |b, o| from_words(b, o, V_CVTDQ2PS, false))
    }),
    mixing(Wide, "vffintl.d.w", |b, d| {
        super::by_halves(b, d, |b, o| from_words(b, o, V_CVTDQ2PD, false))
    }),
    mixing(Wide, "vffinth.d.w", |b, d| {
        super::by_halves(b, d, |b, o| from_words(b, o, V_CVTDQ2PD, true))
    }),
];

pub(super) static TABLES: [&[Lowering]; 4] = [ARITHMETIC, COMPARISONS, CONVERSIONS, FROM_INTEGERS];
