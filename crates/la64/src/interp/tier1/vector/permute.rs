//! Moves between lanes, inside 128 bits and across the halves of 256.

use super::super::block::{Block, Decoded, Lowering, plain};
use super::{
    Operands, X0, X1, X2, constant, constants, get, halves, place, put, register, repeated,
    rows_by_halves, swapped, target,
};
use crate::jit::emit::{AND_I, Form, RAX, SHL, Xmm};
use crate::jit::packed::*;

/// Words picked from k, then from j.
fn pick_w(b: &mut Block<'_>, o: &Operands, which: u8) {
    let k = register(b, o.k, X1);
    b.asm.packed_imm(V_SHUFPS, o.to, k, o.j, which);
}

/// Lanes of `bits` bits: even ones lose what is above them, odd ones are moved down; then each
/// value of twice the width is packed.
fn pick(b: &mut Block<'_>, o: &Operands, [left, right, pack]: [Form; 3], bits: u8, odd: bool) {
    let k = register(b, o.k, X1);
    for (to, from) in [(X0, o.j), (X1, k)] {
        if odd {
            b.asm.packed_shift(right, to, from, bits);
        } else {
            b.asm.packed_shift(left, to, from, bits);
            b.asm.packed_shift(right, to, to, bits);
        }
    }
    b.asm.packed(pack, o.to, X1, X0);
}

/// Even lanes of k and j alternate, or odd ones: those that stay in place are blended in by `kept`,
/// a mask of 16-bit lanes.
fn pack(b: &mut Block<'_>, o: &Operands, form: Form, bits: u8, odd: bool, kept: u8) {
    if odd {
        let k = register(b, o.k, X1);
        b.asm.packed_shift(form, X0, k, bits);
        b.asm.packed_imm(V_PBLENDW, o.to, X0, o.j, !kept);
    } else {
        b.asm.packed_shift(form, X0, o.j, bits);
        b.asm.packed_imm(V_PBLENDW, o.to, X0, o.k, kept);
    }
}

fn pack_b(b: &mut Block<'_>, o: &Operands, odd: bool) {
    let k = register(b, o.k, X1);
    // Of one operand a byte of each word stays in place, of the other one it moves there.
    let (moved, kept) = if odd { (k, o.j) } else { (o.j, k) };
    let [there, back] = if odd { [V_PSRLW, V_PSLLW] } else { [V_PSLLW, V_PSRLW] };
    b.asm.packed_shift(there, X0, moved, 8);
    b.asm.packed_shift(there, X1, kept, 8);
    b.asm.packed_shift(back, X1, X1, 8);
    b.asm.packed(V_POR, o.to, X0, X1);
}

/// The lane of `bytes` bytes by the immediate, everywhere.
fn replicate(b: &mut Block<'_>, o: &Operands, bytes: i64) {
    let lane = o.imm % (16 / bytes);
    if bytes >= 4 {
        let which = if bytes == 8 { [0x44, 0xee][lane as usize] } else { 0x55 * lane as u8 };
        return b.asm.packed_unary_imm(V_PSHUFD, o.to, o.j, which);
    }
    let first = lane * bytes;
    let value = if bytes == 2 { (first + 1) << 8 | first } else { first };
    constant(b, X1, repeated(value, 8 * bytes as u32));
    b.asm.packed(V_PSHUFB, o.to, o.j, X1);
}

/// The lane of 1 << `shift` bytes by rk, everywhere.
fn replicate_by(b: &mut Block<'_>, d: &Decoded, shift: u8) {
    b.load(RAX, d.rk());
    b.asm.arith(AND_I, false, RAX, (16 >> shift) - 1);
    if shift > 0 {
        b.asm.imm8(SHL, false, RAX, shift);
    }
    b.asm.packed_from_general(X1, RAX);
    b.asm.packed_unary(V_BROADCASTB, X1, X1);
    if shift > 0 {
        let places = 0x0706_0504_0302_0100 & (u64::MAX >> (64 - (8 << shift)));
        constant(b, X0, repeated(places as i64, 8 << shift));
        b.asm.packed(V_PADDB, X1, X1, X0);
    }
    for half in halves(d) {
        let j = get(b, d.rj(), half, X2);
        let to = target(b, d.rd(), half);
        b.asm.packed(V_PSHUFB, to, j, X1);
        put(b, d.rd(), half, to);
    }
}

/// Bytes by the immediate, in groups of four.
fn shuffle_b(b: &mut Block<'_>, o: &Operands) {
    let place = |n: i64| (n / 4 * 4 + (o.imm >> (2 * (n % 4)) & 3)) as u64;
    let eight = |first: i64| (0..8).fold(0, |all, n| all | place(first + n) << (8 * n));
    constants(b, X1, [eight(0), eight(8)]);
    b.asm.packed(V_PSHUFB, o.to, o.j, X1);
}

fn shuffle_h(b: &mut Block<'_>, o: &Operands) {
    b.asm.packed_unary_imm(V_PSHUFLW, X0, o.j, o.imm as u8);
    b.asm.packed_unary_imm(V_PSHUFHW, o.to, X0, o.imm as u8);
}

/// Bytes of k and, above them, of j by those of ra.
fn shuffle_by(b: &mut Block<'_>, d: &Decoded) {
    for half in halves(d) {
        constant(b, X0, repeated(31, 8));
        b.asm.packed(V_PAND, X0, X0, place(b, d.ra(), half));
        let k = get(b, d.rk(), half, X1);
        b.asm.packed(V_PSHUFB, X1, k, X0);
        let j = get(b, d.rj(), half, X2);
        b.asm.packed(V_PSHUFB, X2, j, X0);
        // Bit 4 becomes the sign.
        b.asm.packed_shift(V_PSLLW, X0, X0, 3);
        b.asm.packed_blend(X0, X1, X2, X0);
        put(b, d.rd(), half, X0);
    }
}

/// `to` = a doubleword of each of two registers' halves, by 128-bit place and number.
fn join(b: &mut Block<'_>, to: Xmm, [first, second]: [(usize, usize, u8); 2]) {
    let low = get(b, first.0, first.1, X2);
    b.asm.packed_imm(V_SHUFPD, to, low, place(b, second.0, second.1), first.2 | second.2 << 1);
}

fn shuffle_d(b: &mut Block<'_>, d: &Decoded) {
    for half in halves(d) {
        let field = |n: u32| {
            let field = d.imm() >> (2 * n) & 3;
            (if field & 2 != 0 { d.rj() } else { d.rd() }, half, field as u8 & 1)
        };
        join(b, X0, [field(0), field(1)]);
        put(b, d.rd(), half, X0);
    }
}

/// A doubleword of rd = one of rj.
fn transplant_d(b: &mut Block<'_>, d: &Decoded) {
    let (to, from) = (d.imm() >> 4 & 1, d.imm() as u8 & 1);
    for half in halves(d) {
        let new = (d.rj(), half, from);
        let lanes = if to == 0 { [new, (d.rd(), half, 1)] } else { [(d.rd(), half, 0), new] };
        join(b, X0, lanes);
        put(b, d.rd(), half, X0);
    }
}

fn transplant_w(b: &mut Block<'_>, d: &Decoded) {
    let (to, from) = (d.imm() as u8 >> 4 & 3, d.imm() as u8 & 3);
    for half in halves(d) {
        let old = get(b, d.rd(), half, X0);
        let j = get(b, d.rj(), half, X2);
        b.asm.packed_imm(V_INSERTPS, X0, old, j, from << 6 | to << 4);
        put(b, d.rd(), half, X0);
    }
}

fn transplant(b: &mut Block<'_>, d: &Decoded, [extract, insert]: [Form; 2], count: u8) {
    let (to, from) = (d.imm() as u8 >> 4 & (count - 1), d.imm() as u8 & (count - 1));
    for half in halves(d) {
        let j = get(b, d.rj(), half, X2);
        b.asm.packed_extract(extract, false, RAX, j, from);
        let old = get(b, d.rd(), half, X0);
        b.asm.packed_insert(insert, false, X0, old, RAX, to);
        put(b, d.rd(), half, X0);
    }
}

/// Two words of rj, then two of rd.
fn permute_w(b: &mut Block<'_>, d: &Decoded) {
    for half in halves(d) {
        let j = get(b, d.rj(), half, X2);
        b.asm.packed_imm(V_SHUFPS, X0, j, place(b, d.rd(), half), d.imm() as u8);
        put(b, d.rd(), half, X0);
    }
}

const BYTES: [Form; 3] = [V_PSLLW, V_PSRLW, V_PACKUSWB];
const HALFS: [Form; 3] = [V_PSLLD, V_PSRLD, V_PACKUSDW];

static BY_HALVES: &[Lowering] = rows_by_halves! {
    "vpickev.b" |b, o| pick(b, o, BYTES, 8, false);
    "vpickev.h" |b, o| pick(b, o, HALFS, 16, false);
    "vpickev.w" |b, o| pick_w(b, o, 0x88);
    "vpickev.d" |b, o| swapped(b, o, V_PUNPCKLQDQ);
    "vpickod.b" |b, o| pick(b, o, BYTES, 8, true);
    "vpickod.h" |b, o| pick(b, o, HALFS, 16, true);
    "vpickod.w" |b, o| pick_w(b, o, 0xdd);
    "vpickod.d" |b, o| swapped(b, o, V_PUNPCKHQDQ);
    "vpackev.b" |b, o| pack_b(b, o, false);
    "vpackev.h" |b, o| pack(b, o, V_PSLLD, 16, false, 0x55);
    "vpackev.w" |b, o| pack(b, o, V_PSLLQ, 32, false, 0x33);
    "vpackev.d" |b, o| swapped(b, o, V_PUNPCKLQDQ);
    "vpackod.b" |b, o| pack_b(b, o, true);
    "vpackod.h" |b, o| pack(b, o, V_PSRLD, 16, true, 0x55);
    "vpackod.w" |b, o| pack(b, o, V_PSRLQ, 32, true, 0x33);
    "vpackod.d" |b, o| swapped(b, o, V_PUNPCKHQDQ);
    "vilvl.b" |b, o| swapped(b, o, V_PUNPCKLBW);
    "vilvl.h" |b, o| swapped(b, o, V_PUNPCKLWD);
    "vilvl.w" |b, o| swapped(b, o, V_PUNPCKLDQ);
    "vilvl.d" |b, o| swapped(b, o, V_PUNPCKLQDQ);
    "vilvh.b" |b, o| swapped(b, o, V_PUNPCKHBW);
    "vilvh.h" |b, o| swapped(b, o, V_PUNPCKHWD);
    "vilvh.w" |b, o| swapped(b, o, V_PUNPCKHDQ);
    "vilvh.d" |b, o| swapped(b, o, V_PUNPCKHQDQ);
    "vreplvei.b" |b, o| replicate(b, o, 1);
    "vreplvei.h" |b, o| replicate(b, o, 2);
    "vreplvei.w" |b, o| replicate(b, o, 4);
    "vreplvei.d" |b, o| replicate(b, o, 8);
    "vrepl128vei.b" |b, o| replicate(b, o, 1);
    "vrepl128vei.h" |b, o| replicate(b, o, 2);
    "vrepl128vei.w" |b, o| replicate(b, o, 4);
    "vrepl128vei.d" |b, o| replicate(b, o, 8);
    "vshuf4i.b" |b, o| shuffle_b(b, o);
    "vshuf4i.h" |b, o| shuffle_h(b, o);
    "vshuf4i.w" |b, o| b.asm.packed_unary_imm(V_PSHUFD, o.to, o.j, o.imm as u8);
};

static OTHERS: &[Lowering] = &[
    plain("vreplve.b", |b, d| replicate_by(b, d, 0)),
    plain("vreplve.h", |b, d| replicate_by(b, d, 1)),
    plain("vreplve.w", |b, d| replicate_by(b, d, 2)),
    plain("vreplve.d", |b, d| replicate_by(b, d, 3)),
    plain("vshuf.b", shuffle_by),
    plain("vshuf4i.d", shuffle_d),
    plain("vextrins.d", transplant_d),
    plain("vextrins.w", transplant_w),
    plain("vextrins.h", |b, d| transplant(b, d, [V_PEXTRW, V_PINSRW], 8)),
    plain("vextrins.b", |b, d| transplant(b, d, [V_PEXTRB, V_PINSRB], 16)),
    plain("vpermi.w", permute_w),
];

pub(super) static TABLES: [&[Lowering]; 2] = [BY_HALVES, OTHERS];

/// Both halves of rd = a lane of the low half of rj.
fn replicate_first(b: &mut Block<'_>, d: &Decoded, form: Form) {
    b.asm.packed_unary(form, X0, place(b, d.rj(), 0));
    put(b, d.rd(), 0, X0);
    put(b, d.rd(), 1, X0);
}

/// Either half of rd = one of rj or rd.
fn permute_q(b: &mut Block<'_>, d: &Decoded) {
    for (to, field) in [(X0, d.imm() & 3), (X1, d.imm() >> 4 & 3)] {
        let from = if field & 2 != 0 { d.rd() } else { d.rj() };
        b.asm.packed_unary(V_MOVDQU, to, place(b, from, field as usize & 1));
    }
    put(b, d.rd(), 0, X0);
    put(b, d.rd(), 1, X1);
}

fn permute_d(b: &mut Block<'_>, d: &Decoded) {
    let field = |n: u32| {
        let field = d.imm() >> (2 * n) & 3;
        (d.rj(), field as usize >> 1, field as u8 & 1)
    };
    join(b, X0, [field(0), field(1)]);
    join(b, X1, [field(2), field(3)]);
    put(b, d.rd(), 0, X0);
    put(b, d.rd(), 1, X1);
}

/// rax = lane `n` of rj.
fn lane_of_j(b: &mut Block<'_>, d: &Decoded, n: usize, wide: bool) {
    let count = if wide { 2 } else { 4 };
    let j = get(b, d.rj(), n / count, X2);
    b.asm.packed_extract(V_PEXTR, wide, RAX, j, (n % count) as u8);
}

/// rd = one lane of rj, and nothing else.
fn pick_lane(b: &mut Block<'_>, d: &Decoded, wide: bool) {
    lane_of_j(b, d, d.imm() as usize, wide);
    b.asm.packed_from_general(X0, RAX);
    constant(b, X1, 0);
    put(b, d.rd(), 0, X0);
    put(b, d.rd(), 1, X1);
}

/// A lane of rd = the first one of rj.
fn insert_first(b: &mut Block<'_>, d: &Decoded, wide: bool) {
    let (count, n) = (if wide { 2 } else { 4 }, d.imm() as usize);
    lane_of_j(b, d, 0, wide);
    let old = get(b, d.rd(), n / count, X0);
    b.asm.packed_insert(V_PINSR, wide, X0, old, RAX, (n % count) as u8);
    put(b, d.rd(), n / count, X0);
}

pub(super) static WIDE_TABLE: &[Lowering] = &[
    plain("xvpermi.q", permute_q),
    plain("xvpermi.d", permute_d),
    plain("xvreplve0.b", |b, d| replicate_first(b, d, V_BROADCASTB)),
    plain("xvreplve0.h", |b, d| replicate_first(b, d, V_BROADCASTW)),
    plain("xvreplve0.w", |b, d| replicate_first(b, d, V_BROADCASTD)),
    plain("xvreplve0.d", |b, d| replicate_first(b, d, V_BROADCASTQ)),
    plain("xvreplve0.q", |b, d| replicate_first(b, d, V_MOVDQU)),
    plain("xvpickve.w", |b, d| pick_lane(b, d, false)),
    plain("xvpickve.d", |b, d| pick_lane(b, d, true)),
    plain("xvinsve0.w", |b, d| insert_first(b, d, false)),
    plain("xvinsve0.d", |b, d| insert_first(b, d, true)),
];
