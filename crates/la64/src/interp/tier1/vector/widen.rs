//! Operations on lanes that are widened first.

use super::super::block::{Block, Decoded, Lowering, plain};
use super::{Operands, X0, X1, get, halves, place, put, register, rows_by_halves, target};
use crate::jit::emit::{ADD, Cond, Form, MOV, MOVD_TO, MOVZX8, RAX, RCX, RDX, SAR, Xmm};
use crate::jit::packed::*;

/// Widths of lanes before and after, and how narrow ones are read.
#[derive(Clone, Copy)]
struct Shape {
    /// Bits of the narrow lanes.
    bits: u8,
    signed: bool,
}

impl Shape {
    fn add(self) -> Form {
        self.pick([V_PADDW, V_PADDD, V_PADDQ])
    }

    fn sub(self) -> Form {
        self.pick([V_PSUBW, V_PSUBD, V_PSUBQ])
    }

    fn mul(self) -> Form {
        self.pick([V_PMULLW, V_PMULLD, if self.signed { V_PMULDQ } else { V_PMULUDQ }])
    }

    fn pick(self, [h, w, d]: [Form; 3]) -> Form {
        match self.bits {
            8 => h,
            16 => w,
            _ => d,
        }
    }

    /// `to` = the even or odd lanes of `from`, widened.
    fn widen(self, b: &mut Block<'_>, to: Xmm, from: Xmm, odd: bool) {
        if self.bits == 32 && self.signed {
            b.asm.packed_unary_imm(V_PSHUFD, to, from, if odd { 0b1101 } else { 0b1000 });
            return b.asm.packed_unary(V_PMOVSXDQ, to, to);
        }
        let left = self.pick([V_PSLLW, V_PSLLD, V_PSLLQ]);
        let right = match self.signed {
            true => self.pick([V_PSRAW, V_PSRAD, V_PSRLQ]),
            false => self.pick([V_PSRLW, V_PSRLD, V_PSRLQ]),
        };
        let mut from = from;
        if !odd {
            b.asm.packed_shift(left, to, from, self.bits);
            from = to;
        }
        b.asm.packed_shift(right, to, from, self.bits);
    }
}

/// to = lanes of j op lanes of k.
fn both(b: &mut Block<'_>, o: &Operands, s: Shape, odd: [bool; 2], form: Form) {
    s.widen(b, X0, o.j, odd[0]);
    let k = register(b, o.k, X1);
    s.widen(b, X1, k, odd[1]);
    b.asm.packed(form, o.to, X0, X1);
}

/// rd = rd + lanes of rj * lanes of rk.
fn accumulate(b: &mut Block<'_>, d: &Decoded, s: Shape, odd: bool) {
    for half in halves(d) {
        let j = get(b, d.rj(), half, X0);
        let o = Operands { to: X0, j, k: place(b, d.rk(), half), imm: 0 };
        both(b, &o, s, [odd, odd], s.mul());
        let to = target(b, d.rd(), half);
        b.asm.packed(s.add(), to, X0, place(b, d.rd(), half));
        put(b, d.rd(), half, to);
    }
}

/// The upper doubleword of rj + the lower one of rk, as 128 bits.
fn add_doubles(b: &mut Block<'_>, d: &Decoded, signed: bool) {
    for half in halves(d) {
        let k = get(b, d.rk(), half, X1);
        b.asm.to_general(MOVD_TO, true, RAX, k);
        b.asm.mov_imm(RCX, 0);
        if signed {
            b.asm.op(MOV, true, RCX, RAX);
            b.asm.imm8(SAR, true, RCX, 63);
        }
        let j = get(b, d.rj(), half, X1);
        b.asm.packed_extract(V_PEXTR, true, RDX, j, 1);
        b.asm.op(ADD, true, RAX, RDX);
        // Carry, then the upper half of rj's value.
        b.asm.packed_from_general(X0, RAX);
        b.asm.set(Cond::B, RAX);
        b.asm.op(MOVZX8, false, RAX, RAX);
        b.asm.op(ADD, true, RCX, RAX);
        if signed {
            b.asm.imm8(SAR, true, RDX, 63);
            b.asm.op(ADD, true, RCX, RDX);
        }
        b.asm.packed_insert(V_PINSR, true, X0, X0, RCX, 1);
        put(b, d.rd(), half, X0);
    }
}

/// rd = the low lanes of rj widened by `form` and shifted left by the immediate.
fn extend_low(b: &mut Block<'_>, o: &Operands, form: Form, shift: Form) {
    b.asm.packed_unary(form, X0, o.j);
    b.asm.packed_shift(shift, o.to, X0, o.imm as u8);
}

/// rd = the high lanes of rj widened by `form`.
fn extend_high(b: &mut Block<'_>, o: &Operands, form: Form) {
    b.asm.packed_shift(V_PSRLDQ, X0, o.j, 8);
    b.asm.packed_unary(form, o.to, X0);
}

macro_rules! widening {
    ($($signs:literal $bits:literal $signed:literal $horizontal:literal;)*) => {
        &[$(
            widening!(@one concat!("vaddwev.", $signs), $bits, $signed, [false, false], add),
            widening!(@one concat!("vaddwod.", $signs), $bits, $signed, [true, true], add),
            widening!(@one concat!("vsubwev.", $signs), $bits, $signed, [false, false], sub),
            widening!(@one concat!("vsubwod.", $signs), $bits, $signed, [true, true], sub),
            widening!(@one concat!("vmulwev.", $signs), $bits, $signed, [false, false], mul),
            widening!(@one concat!("vmulwod.", $signs), $bits, $signed, [true, true], mul),
            widening!(@one concat!("vhaddw.", $horizontal), $bits, $signed, [true, false], add),
            widening!(@one concat!("vhsubw.", $horizontal), $bits, $signed, [true, false], sub),
            plain(concat!("vmaddwev.", $signs), |b, d| {
                accumulate(b, d, Shape { bits: $bits, signed: $signed }, false)
            }),
            plain(concat!("vmaddwod.", $signs), |b, d| {
                accumulate(b, d, Shape { bits: $bits, signed: $signed }, true)
            }),
        )*]
    };
    (@one $name:expr, $bits:literal, $signed:literal, $odd:expr, $form:ident) => {
        plain($name, |b, d| super::by_halves(b, d, |b, o| {
            let s = Shape { bits: $bits, signed: $signed };
            both(b, o, s, $odd, s.$form());
        }))
    };
}

static PAIRS: &[Lowering] = widening! {
    "h.b" 8 true "h.b";
    "w.h" 16 true "w.h";
    "d.w" 32 true "d.w";
    "h.bu" 8 false "hu.bu";
    "w.hu" 16 false "wu.hu";
    "d.wu" 32 false "du.wu";
};

static DOUBLES: &[Lowering] = &[
    plain("vhaddw.q.d", |b, d| add_doubles(b, d, true)),
    plain("vhaddw.qu.du", |b, d| add_doubles(b, d, false)),
];

static EXTENSIONS: &[Lowering] = rows_by_halves! {
    "vsllwil.h.b" |b, o| extend_low(b, o, V_PMOVSXBW, V_PSLLW);
    "vsllwil.w.h" |b, o| extend_low(b, o, V_PMOVSXWD, V_PSLLD);
    "vsllwil.d.w" |b, o| extend_low(b, o, V_PMOVSXDQ, V_PSLLQ);
    "vsllwil.hu.bu" |b, o| extend_low(b, o, V_PMOVZXBW, V_PSLLW);
    "vsllwil.wu.hu" |b, o| extend_low(b, o, V_PMOVZXWD, V_PSLLD);
    "vsllwil.du.wu" |b, o| extend_low(b, o, V_PMOVZXDQ, V_PSLLQ);
    "vexth.h.b" |b, o| extend_high(b, o, V_PMOVSXBW);
    "vexth.w.h" |b, o| extend_high(b, o, V_PMOVSXWD);
    "vexth.d.w" |b, o| extend_high(b, o, V_PMOVSXDQ);
    "vexth.hu.bu" |b, o| extend_high(b, o, V_PMOVZXBW);
    "vexth.wu.hu" |b, o| extend_high(b, o, V_PMOVZXWD);
    "vexth.du.wu" |b, o| extend_high(b, o, V_PMOVZXDQ);
};

pub(super) static TABLES: [&[Lowering]; 3] = [PAIRS, DOUBLES, EXTENSIONS];
