//! Arithmetic, comparison, shifts and logic by lane.

use super::super::block::{Block, Decoded, Lowering, plain};
use super::{
    Op, Operands, X0, X1, X2, constant, get, halves, invert, place, put, register, repeated,
    rows_by_halves, swapped, target, with_constant,
};
use crate::jit::emit::Form;
use crate::jit::packed::*;
use littoral_base::mutant;

/// to = form(j, k).
fn simple(b: &mut Block<'_>, o: &Operands, form: Form) {
    b.asm.packed(form, o.to, o.j, o.k);
}

fn not_greater(b: &mut Block<'_>, o: &Operands, form: Form) {
    simple(b, &Operands { to: X0, ..*o }, form);
    invert(b, X0);
    b.asm.packed_unary(V_MOVDQA, o.to, X0);
}

/// Unsigned j <= k: the lesser of both is j.
fn below_or_equal(b: &mut Block<'_>, o: &Operands, [min, equal]: [Form; 2]) {
    b.asm.packed(min, X0, o.j, o.k);
    b.asm.packed(equal, o.to, X0, o.j);
}

/// Unsigned j < k: the lesser of both is not k.
fn below(b: &mut Block<'_>, o: &Operands, [min, equal]: [Form; 2]) {
    b.asm.packed(min, X0, o.j, o.k);
    b.asm.packed(equal, X0, X0, o.k);
    invert(b, X0);
    b.asm.packed_unary(V_MOVDQA, o.to, X0);
}

/// xmm0 = j and xmm1 = k, their order as signed doublewords being that of unsigned ones.
fn flipped(b: &mut Block<'_>, o: &Operands) {
    // k may be a constant in xmm1: its sign is flipped where it is.
    constant(b, X0, 1 << 63);
    let k = register(b, o.k, X1);
    b.asm.packed(V_PXOR, X1, k, X0);
    b.asm.packed(V_PXOR, X0, X0, o.j);
}

fn below_d(b: &mut Block<'_>, o: &Operands) {
    flipped(b, o);
    b.asm.packed(V_PCMPGTQ, o.to, X1, X0);
}

fn below_or_equal_d(b: &mut Block<'_>, o: &Operands) {
    flipped(b, o);
    b.asm.packed(V_PCMPGTQ, X0, X0, X1);
    invert(b, X0);
    b.asm.packed_unary(V_MOVDQA, o.to, X0);
}

/// The greater or lesser doubleword.
fn choose_d(b: &mut Block<'_>, o: &Operands, greater: bool) {
    let k = register(b, o.k, X1);
    b.asm.packed(V_PCMPGTQ, X0, o.j, k);
    let (first, second) = if greater { (k, o.j) } else { (o.j, k) };
    b.asm.packed_blend(o.to, first, second, X0);
}

/// Bytes by words: even and odd ones apart.
fn multiply_b(b: &mut Block<'_>, o: &Operands) {
    b.asm.packed_shift(V_PSRLW, X0, o.j, 8);
    let k = register(b, o.k, X1);
    b.asm.packed_shift(V_PSRLW, X1, k, 8);
    b.asm.packed(V_PMULLW, X0, X0, X1);
    b.asm.packed_shift(V_PSLLW, X0, X0, 8);
    b.asm.packed(V_PMULLW, X1, o.j, o.k);
    b.asm.packed_shift(V_PSLLW, X1, X1, 8);
    b.asm.packed_shift(V_PSRLW, X1, X1, 8);
    b.asm.packed(V_POR, o.to, X0, X1);
}

/// Doublewords by words: both crosswise products count in the upper half only.
fn multiply_d(b: &mut Block<'_>, o: &Operands) {
    b.asm.packed_shift(V_PSRLQ, X0, o.j, 32);
    b.asm.packed(V_PMULUDQ, X0, X0, o.k);
    let k = register(b, o.k, X1);
    b.asm.packed_shift(V_PSRLQ, X1, k, 32);
    b.asm.packed(V_PMULUDQ, X1, X1, o.j);
    b.asm.packed(V_PADDQ, X0, X0, X1);
    b.asm.packed_shift(V_PSLLQ, X0, X0, 32);
    b.asm.packed(V_PMULUDQ, X1, o.j, o.k);
    b.asm.packed(V_PADDQ, o.to, X0, X1);
}

/// rd = rd + or - rj * rk.
fn accumulate(b: &mut Block<'_>, d: &Decoded, multiply: Op, form: Form) {
    for half in halves(d) {
        let j = get(b, d.rj(), half, X2);
        multiply(b, &Operands { to: X0, j, k: place(b, d.rk(), half), imm: 0 });
        let old = get(b, d.rd(), half, X1);
        let to = target(b, d.rd(), half);
        b.asm.packed(form, to, old, X0);
        put(b, d.rd(), half, to);
    }
}

/// |j| + |k|.
fn sum_of_magnitudes(b: &mut Block<'_>, o: &Operands, [magnitude, add]: [Form; 2]) {
    b.asm.packed_unary(magnitude, X0, o.j);
    b.asm.packed_unary(magnitude, X1, o.k);
    b.asm.packed(add, o.to, X0, X1);
}

/// |j - k|.
fn distance(b: &mut Block<'_>, o: &Operands, [max, min, subtract]: [Form; 3]) {
    b.asm.packed(max, X0, o.j, o.k);
    b.asm.packed(min, X1, o.j, o.k);
    b.asm.packed(subtract, o.to, X0, X1);
}

fn negate(b: &mut Block<'_>, o: &Operands, form: Form) {
    constant(b, X0, 0);
    b.asm.packed(form, o.to, X0, o.j);
}

macro_rules! simple {
    ($($name:literal $form:ident)*) => {
        [$(plain($name, |b, d| super::by_halves(b, d, |b, o| simple(b, o, $form))),)*]
    };
}

pub(super) static SIMPLE_TABLE: &[Lowering] = &simple! {
    "vadd.b" V_PADDB "vadd.h" V_PADDW "vadd.w" V_PADDD "vadd.d" V_PADDQ
    "vsub.b" V_PSUBB "vsub.h" V_PSUBW "vsub.w" V_PSUBD "vsub.d" V_PSUBQ
    "vsadd.b" V_PADDSB "vsadd.h" V_PADDSW "vsadd.bu" V_PADDUSB "vsadd.hu" V_PADDUSW
    "vssub.b" V_PSUBSB "vssub.h" V_PSUBSW "vssub.bu" V_PSUBUSB "vssub.hu" V_PSUBUSW
    "vavgr.bu" V_PAVGB "vavgr.hu" V_PAVGW
    "vmax.b" V_PMAXSB "vmax.h" V_PMAXSW "vmax.w" V_PMAXSD
    "vmax.bu" V_PMAXUB "vmax.hu" V_PMAXUW "vmax.wu" V_PMAXUD
    "vmin.b" V_PMINSB "vmin.h" V_PMINSW "vmin.w" V_PMINSD
    "vmin.bu" V_PMINUB "vmin.hu" V_PMINUW "vmin.wu" V_PMINUD
    "vmul.h" V_PMULLW "vmul.w" V_PMULLD "vmuh.h" V_PMULHW "vmuh.hu" V_PMULHUW
    "vseq.b" V_PCMPEQB "vseq.h" V_PCMPEQW "vseq.w" V_PCMPEQD "vseq.d" V_PCMPEQQ
    "vand.v" V_PAND "vor.v" V_POR "vxor.v" V_PXOR "vandn.v" V_PANDN
};

pub(super) static TABLE: &[Lowering] = rows_by_halves! {
    "vmax.d" |b, o| choose_d(b, o, true);
    "vmin.d" |b, o| choose_d(b, o, false);
    "vmul.b" |b, o| multiply_b(b, o);
    "vmul.d" |b, o| multiply_d(b, o);
    "vadda.b" |b, o| sum_of_magnitudes(b, o, [V_PABSB, V_PADDB]);
    "vadda.h" |b, o| sum_of_magnitudes(b, o, [V_PABSW, V_PADDW]);
    "vadda.w" |b, o| sum_of_magnitudes(b, o, [V_PABSD, V_PADDD]);
    "vabsd.b" |b, o| distance(b, o, [V_PMAXSB, V_PMINSB, V_PSUBB]);
    "vabsd.h" |b, o| distance(b, o, [V_PMAXSW, V_PMINSW, V_PSUBW]);
    "vabsd.w" |b, o| distance(b, o, [V_PMAXSD, V_PMINSD, V_PSUBD]);
    "vabsd.bu" |b, o| distance(b, o, [V_PMAXUB, V_PMINUB, V_PSUBB]);
    "vabsd.hu" |b, o| distance(b, o, [V_PMAXUW, V_PMINUW, V_PSUBW]);
    "vabsd.wu" |b, o| distance(b, o, [V_PMAXUD, V_PMINUD, V_PSUBD]);
    "vsigncov.b" |b, o| swapped(b, o, V_PSIGNB);
    "vsigncov.h" |b, o| swapped(b, o, V_PSIGNW);
    "vsigncov.w" |b, o| swapped(b, o, V_PSIGND);
    "vneg.b" |b, o| negate(b, o, V_PSUBB);
    "vneg.h" |b, o| negate(b, o, V_PSUBW);
    "vneg.w" |b, o| negate(b, o, V_PSUBD);
    "vneg.d" |b, o| negate(b, o, V_PSUBQ);
    "vslt.b" |b, o| swapped(b, o, V_PCMPGTB);
    "vslt.h" |b, o| swapped(b, o, V_PCMPGTW);
    "vslt.w" |b, o| swapped(b, o, V_PCMPGTD);
    "vslt.d" |b, o| swapped(b, o, V_PCMPGTQ);
    "vsle.b" |b, o| not_greater(b, o, V_PCMPGTB);
    "vsle.h" |b, o| not_greater(b, o, V_PCMPGTW);
    "vsle.w" |b, o| not_greater(b, o, V_PCMPGTD);
    "vsle.d" |b, o| not_greater(b, o, V_PCMPGTQ);
    "vslt.bu" |b, o| below(b, o, [V_PMINUB, V_PCMPEQB]);
    "vslt.hu" |b, o| below(b, o, [V_PMINUW, V_PCMPEQW]);
    "vslt.wu" |b, o| below(b, o, [V_PMINUD, V_PCMPEQD]);
    "vslt.du" |b, o| below_d(b, o);
    "vsle.bu" |b, o| below_or_equal(b, o, [V_PMINUB, V_PCMPEQB]);
    "vsle.hu" |b, o| below_or_equal(b, o, [V_PMINUW, V_PCMPEQW]);
    "vsle.wu" |b, o| below_or_equal(b, o, [V_PMINUD, V_PCMPEQD]);
    "vsle.du" |b, o| below_or_equal_d(b, o);
    "vnor.v" |b, o| nor(b, o);
    "vorn.v" |b, o| or_not(b, o);
};

fn nor(b: &mut Block<'_>, o: &Operands) {
    b.asm.packed(V_POR, X0, o.j, o.k);
    invert(b, X0);
    b.asm.packed_unary(V_MOVDQA, o.to, X0);
}

fn or_not(b: &mut Block<'_>, o: &Operands) {
    constant(b, X0, u64::MAX);
    b.asm.packed(V_PXOR, X0, X0, o.k);
    b.asm.packed(V_POR, o.to, X0, o.j);
}

/// `name bits |b, o| op`: rd = op(rj, the immediate in lanes of that width).
macro_rules! immediate {
    ($($name:literal $bits:literal |$b:ident, $o:ident| $body:expr;)*) => {
        &[$(plain($name, |b, d| {
            with_constant(b, d, repeated(d.imm(), $bits), |$b, $o| $body)
        }),)*]
    };
}

pub(super) static COMPARE_TABLE: &[Lowering] = immediate! {
    "vseqi.b" 8 |b, o| simple(b, o, V_PCMPEQB);
    "vseqi.h" 16 |b, o| simple(b, o, V_PCMPEQW);
    "vseqi.w" 32 |b, o| simple(b, o, V_PCMPEQD);
    "vseqi.d" 64 |b, o| simple(b, o, V_PCMPEQQ);
    "vslti.b" 8 |b, o| swapped(b, o, V_PCMPGTB);
    "vslti.h" 16 |b, o| swapped(b, o, V_PCMPGTW);
    "vslti.w" 32 |b, o| swapped(b, o, V_PCMPGTD);
    "vslti.d" 64 |b, o| swapped(b, o, V_PCMPGTQ);
    "vslei.b" 8 |b, o| not_greater(b, o, V_PCMPGTB);
    "vslei.h" 16 |b, o| not_greater(b, o, V_PCMPGTW);
    "vslei.w" 32 |b, o| not_greater(b, o, V_PCMPGTD);
    "vslei.d" 64 |b, o| not_greater(b, o, V_PCMPGTQ);
    "vslti.bu" 8 |b, o| below(b, o, [V_PMINUB, V_PCMPEQB]);
    "vslti.hu" 16 |b, o| below(b, o, [V_PMINUW, V_PCMPEQW]);
    "vslti.wu" 32 |b, o| below(b, o, [V_PMINUD, V_PCMPEQD]);
    "vslti.du" 64 |b, o| below_d(b, o);
    "vslei.bu" 8 |b, o| below_or_equal(b, o, [V_PMINUB, V_PCMPEQB]);
    "vslei.hu" 16 |b, o| below_or_equal(b, o, [V_PMINUW, V_PCMPEQW]);
    "vslei.wu" 32 |b, o| below_or_equal(b, o, [V_PMINUD, V_PCMPEQD]);
    "vslei.du" 64 |b, o| below_or_equal_d(b, o);
    "vaddi.bu" 8 |b, o| simple(b, o, V_PADDB);
    "vaddi.hu" 16 |b, o| simple(b, o, V_PADDW);
    "vaddi.wu" 32 |b, o| simple(b, o, V_PADDD);
    "vaddi.du" 64 |b, o| simple(b, o, V_PADDQ);
    "vsubi.bu" 8 |b, o| simple(b, o, V_PSUBB);
    "vsubi.hu" 16 |b, o| simple(b, o, V_PSUBW);
    "vsubi.wu" 32 |b, o| simple(b, o, V_PSUBD);
    "vsubi.du" 64 |b, o| simple(b, o, V_PSUBQ);
    "vmaxi.b" 8 |b, o| simple(b, o, V_PMAXSB);
    "vmaxi.h" 16 |b, o| simple(b, o, V_PMAXSW);
    "vmaxi.w" 32 |b, o| simple(b, o, V_PMAXSD);
    "vmaxi.d" 64 |b, o| choose_d(b, o, true);
    "vmaxi.bu" 8 |b, o| simple(b, o, V_PMAXUB);
    "vmaxi.hu" 16 |b, o| simple(b, o, V_PMAXUW);
    "vmaxi.wu" 32 |b, o| simple(b, o, V_PMAXUD);
    "vmini.b" 8 |b, o| simple(b, o, V_PMINSB);
    "vmini.h" 16 |b, o| simple(b, o, V_PMINSW);
    "vmini.w" 32 |b, o| simple(b, o, V_PMINSD);
    "vmini.d" 64 |b, o| choose_d(b, o, false);
    "vmini.bu" 8 |b, o| simple(b, o, V_PMINUB);
    "vmini.hu" 16 |b, o| simple(b, o, V_PMINUW);
    "vmini.wu" 32 |b, o| simple(b, o, V_PMINUD);
    "vandi.b" 8 |b, o| simple(b, o, V_PAND);
    "vori.b" 8 |b, o| simple(b, o, V_POR);
    "vxori.b" 8 |b, o| simple(b, o, V_PXOR);
    "vnori.b" 8 |b, o| nor(b, o);
};

/// Shifts by the immediate with the host's shift of the lane's width.
fn shift(b: &mut Block<'_>, o: &Operands, form: Form) {
    b.asm.packed_shift(form, o.to, o.j, o.imm as u8);
}

/// Bytes shifted as words, without what came from their neighbours.
fn shift_b(b: &mut Block<'_>, o: &Operands, form: Form, kept: u8) {
    b.asm.packed_shift(form, X0, o.j, o.imm as u8);
    constant(b, X1, repeated(kept.into(), 8));
    b.asm.packed(V_PAND, o.to, X0, X1);
}

/// Doublewords shifted right with their sign, by words.
fn shift_right_d(b: &mut Block<'_>, o: &Operands) {
    let by = o.imm as u8;
    if by < 32 {
        b.asm.packed_shift(V_PSRLQ, X0, o.j, by);
        b.asm.packed_shift(V_PSRAD, X1, o.j, by);
    } else {
        b.asm.packed_shift(V_PSRAD, X0, o.j, by - 32);
        b.asm.packed_unary_imm(V_PSHUFD, X0, X0, 0b11_11_01_01);
        b.asm.packed_shift(V_PSRAD, X1, o.j, 31);
    }
    // The upper word of each doubleword has the sign.
    b.asm.packed_imm(V_PBLENDD, o.to, X0, X1, 0b1010);
}

fn rotate(b: &mut Block<'_>, o: &Operands, [right, left]: [Form; 2], bits: u8) {
    let by = o.imm as u8;
    b.asm.packed_shift(right, X0, o.j, by);
    b.asm.packed_shift(left, X1, o.j, bits - by);
    b.asm.packed(V_POR, o.to, X0, X1);
}

/// xmm1 = the counts of k.
fn counts(b: &mut Block<'_>, o: &Operands, bits: u32) {
    let bits = bits << u32::from(bits < 64 && mutant!("la64_shift_count_mask"));
    constant(b, X1, repeated(i64::from(bits) - 1, bits));
    b.asm.packed(V_PAND, X1, X1, o.k);
}

fn shift_by(b: &mut Block<'_>, o: &Operands, form: Form, bits: u32) {
    counts(b, o, bits);
    b.asm.vex(form, bits == 64, o.to.0, o.j.0, X1);
}

/// A shift right moves the sign to a place from which a subtraction spreads it.
fn shift_right_by(b: &mut Block<'_>, o: &Operands, bits: u32) {
    let (wide, subtract) = (bits == 64, if bits == 64 { V_PSUBQ } else { V_PSUBD });
    counts(b, o, bits);
    constant(b, X0, repeated(1 << (bits - 1), bits));
    b.asm.vex(V_PSRLV, wide, X0.0, X0.0, X1);
    b.asm.vex(V_PSRLV, wide, X1.0, o.j.0, X1);
    b.asm.packed(V_PXOR, X1, X1, X0);
    b.asm.packed(subtract, o.to, X1, X0);
}

pub(super) static SHIFT_TABLE: &[Lowering] = rows_by_halves! {
    "vslli.b" |b, o| shift_b(b, o, V_PSLLW, 0xff << o.imm);
    "vslli.h" |b, o| shift(b, o, V_PSLLW);
    "vslli.w" |b, o| shift(b, o, V_PSLLD);
    "vslli.d" |b, o| shift(b, o, V_PSLLQ);
    "vsrli.b" |b, o| shift_b(b, o, V_PSRLW, 0xff >> o.imm);
    "vsrli.h" |b, o| shift(b, o, V_PSRLW);
    "vsrli.w" |b, o| shift(b, o, V_PSRLD);
    "vsrli.d" |b, o| shift(b, o, V_PSRLQ);
    "vsrai.h" |b, o| shift(b, o, V_PSRAW);
    "vsrai.w" |b, o| shift(b, o, V_PSRAD);
    "vsrai.d" |b, o| shift_right_d(b, o);
    "vrotri.h" |b, o| rotate(b, o, [V_PSRLW, V_PSLLW], 16);
    "vrotri.w" |b, o| rotate(b, o, [V_PSRLD, V_PSLLD], 32);
    "vrotri.d" |b, o| rotate(b, o, [V_PSRLQ, V_PSLLQ], 64);
    "vsll.w" |b, o| shift_by(b, o, V_PSLLV, 32);
    "vsll.d" |b, o| shift_by(b, o, V_PSLLV, 64);
    "vsrl.w" |b, o| shift_by(b, o, V_PSRLV, 32);
    "vsrl.d" |b, o| shift_by(b, o, V_PSRLV, 64);
    "vsra.w" |b, o| shift_right_by(b, o, 32);
    "vsra.d" |b, o| shift_right_by(b, o, 64);
    "vbsll.v" |b, o| b.asm.packed_shift(V_PSLLDQ, o.to, o.j, o.imm as u8 & 15);
    "vbsrl.v" |b, o| b.asm.packed_shift(V_PSRLDQ, o.to, o.j, o.imm as u8 & 15);
};

/// rd = rk where ra has ones, rj elsewhere.
fn select(b: &mut Block<'_>, d: &Decoded) {
    for half in halves(d) {
        let mask = get(b, d.ra(), half, X0);
        b.asm.packed(V_PAND, X1, mask, place(b, d.rk(), half));
        b.asm.packed(V_PANDN, X0, mask, place(b, d.rj(), half));
        b.asm.packed(V_POR, X0, X0, X1);
        put(b, d.rd(), half, X0);
    }
}

/// rd = the immediate where rd has ones, rj elsewhere.
fn select_immediate(b: &mut Block<'_>, d: &Decoded) {
    for half in halves(d) {
        constant(b, X1, repeated(d.imm(), 8));
        let mask = get(b, d.rd(), half, X0);
        b.asm.packed(V_PAND, X1, X1, mask);
        b.asm.packed(V_PANDN, X0, mask, place(b, d.rj(), half));
        b.asm.packed(V_POR, X0, X0, X1);
        put(b, d.rd(), half, X0);
    }
}

/// One bit of each lane, by the immediate.
fn bit(b: &mut Block<'_>, d: &Decoded, bits: u32, op: Op) {
    with_constant(b, d, repeated(1 << d.imm(), bits), op);
}

macro_rules! bits {
    ($($clear:literal $set:literal $reverse:literal $bits:literal)*) => {
        &[
            $(
                plain($clear, |b, d| bit(b, d, $bits, |b, o| swapped(b, o, V_PANDN))),
                plain($set, |b, d| bit(b, d, $bits, |b, o| simple(b, o, V_POR))),
                plain($reverse, |b, d| bit(b, d, $bits, |b, o| simple(b, o, V_PXOR))),
            )*
            plain("vbitsel.v", select),
            plain("vbitseli.b", select_immediate),
            plain("vmadd.h", |b, d| accumulate(b, d, |b, o| simple(b, o, V_PMULLW), V_PADDW)),
            plain("vmadd.w", |b, d| accumulate(b, d, |b, o| simple(b, o, V_PMULLD), V_PADDD)),
            plain("vmadd.d", |b, d| accumulate(b, d, multiply_d, V_PADDQ)),
            plain("vmsub.h", |b, d| accumulate(b, d, |b, o| simple(b, o, V_PMULLW), V_PSUBW)),
            plain("vmsub.w", |b, d| accumulate(b, d, |b, o| simple(b, o, V_PMULLD), V_PSUBD)),
            plain("vmsub.d", |b, d| accumulate(b, d, multiply_d, V_PSUBQ)),
        ]
    };
}

pub(super) static LOGIC_TABLE: &[Lowering] = bits! {
    "vbitclri.b" "vbitseti.b" "vbitrevi.b" 8
    "vbitclri.h" "vbitseti.h" "vbitrevi.h" 16
    "vbitclri.w" "vbitseti.w" "vbitrevi.w" 32
    "vbitclri.d" "vbitseti.d" "vbitrevi.d" 64
};
