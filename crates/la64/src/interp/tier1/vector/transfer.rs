//! Accesses, moves to and from general registers, masks of signs, tests into condition flags.

use super::super::access::{Address, at_index, at_offset};
use super::super::block::{Block, Decoded, Lowering, plain};
use super::super::layout;
use super::{X0, X1, X2, constant, get, halves, place, put, target};
use crate::interp::vector::vldi;
use crate::jit::emit::{Cond, Form, MOVSX8, MOVSX16, MOVSXD, Mem, RAX, XOR_I};
use crate::jit::packed::*;

fn load(b: &mut Block<'_>, d: &Decoded, address: Address) {
    let m = address(b, d);
    if d.wide {
        b.access();
        b.asm.packed_unary(V_MOVDQU, X1, Mem { disp: m.disp + 16, ..m });
    }
    let to = target(b, d.rd(), 0);
    b.access();
    b.asm.packed_unary(V_MOVDQU, to, m);
    put(b, d.rd(), 0, to);
    if d.wide {
        put(b, d.rd(), 1, X1);
    }
}

fn store(b: &mut Block<'_>, d: &Decoded, address: Address) {
    if b.shape.guarded {
        return b.call_tier_0(d);
    }
    let m = address(b, d);
    let low = get(b, d.rd(), 0, X0);
    if d.wide {
        // One store, so that a fault leaves all of memory as it was.
        b.asm.join_halves(X0, low, place(b, d.rd(), 1));
        b.access();
        b.asm.store_both(X0, m);
        b.asm.zero_upper();
    } else {
        b.access();
        b.asm.packed_unary(V_MOVDQU_TO, low, m);
    }
}

/// All halves of rd = `from`.
fn put_all(b: &mut Block<'_>, d: &Decoded, from: crate::jit::emit::Xmm) {
    for half in halves(d) {
        put(b, d.rd(), half, from);
    }
}

/// rd = a lane from memory, everywhere.
fn load_lane(b: &mut Block<'_>, d: &Decoded, form: Form) {
    let m = at_offset(b, d);
    b.access();
    b.asm.packed_unary(form, X0, m);
    put_all(b, d, X0);
}

/// How a lane is reached.
#[derive(Clone, Copy)]
struct Lane {
    extract: Form,
    insert: Form,
    wide: bool,
    /// Lanes in 128 bits.
    count: u8,
}

const BYTE: Lane = Lane { extract: V_PEXTRB, insert: V_PINSRB, wide: false, count: 16 };
const HALF: Lane = Lane { extract: V_PEXTRW, insert: V_PINSRW, wide: false, count: 8 };
const WORD: Lane = Lane { extract: V_PEXTR, insert: V_PINSR, wide: false, count: 4 };
const DOUBLE: Lane = Lane { wide: true, count: 2, ..WORD };

impl Lane {
    /// The half and the place in it of lane `n` of a register.
    fn split(self, d: &Decoded, n: u8) -> (usize, u8) {
        let half = usize::from(n / self.count) & usize::from(d.wide);
        (half, n % self.count)
    }
}

fn store_lane(b: &mut Block<'_>, d: &Decoded, lane: Lane) {
    if b.shape.guarded {
        return b.call_tier_0(d);
    }
    let m = at_offset(b, d);
    let (half, at) = lane.split(d, d.inst.imm2);
    let from = get(b, d.rd(), half, X0);
    b.access();
    b.asm.packed_extract(lane.extract, lane.wide, m, from, at);
}

/// A lane of rd = rj.
fn insert(b: &mut Block<'_>, d: &Decoded, lane: Lane) {
    // Tier 0 has made some immediates the lane's number among those of all registers.
    let (half, at) = lane.split(d, (d.imm() % (2 * i64::from(lane.count))) as u8);
    let from = b.get(d.rj(), RAX);
    let old = get(b, d.rd(), half, X0);
    let to = target(b, d.rd(), half);
    b.asm.packed_insert(lane.insert, lane.wide, to, old, from, at);
    put(b, d.rd(), half, to);
}

/// rd = a lane of rj, extended by `sign`, or with zeros.
fn extract(b: &mut Block<'_>, d: &Decoded, lane: Lane, sign: Option<Form>) {
    if d.rd() == 0 {
        return;
    }
    let (half, at) = lane.split(d, d.imm() as u8);
    let from = get(b, d.rj(), half, X0);
    let to = b.target(d.rd());
    b.asm.packed_extract(lane.extract, lane.wide, to, from, at);
    if let Some(form) = sign {
        b.asm.op(form, true, to, to);
    }
    b.put(d.rd(), to);
}

/// Every lane of rd = rj.
fn replicate(b: &mut Block<'_>, d: &Decoded, form: Form) {
    if d.rj() == 0 {
        constant(b, X0, 0);
    } else {
        let from = b.get(d.rj(), RAX);
        b.asm.packed_from_general(X0, from);
        b.asm.packed_unary(form, X0, X0);
    }
    put_all(b, d, X0);
}

fn load_immediate(b: &mut Block<'_>, d: &Decoded) {
    let Some(value) = vldi(d.imm()) else {
        return b.call_tier_0(d);
    };
    let to = target(b, d.rd(), 0);
    constant(b, to, value);
    put_all(b, d, to);
}

/// A bit for each lane of rj: its sign, changed where `changed` has ones.
fn mask(b: &mut Block<'_>, d: &Decoded, form: Form, changed: i32) {
    for half in halves(d) {
        let j = get(b, d.rj(), half, X2);
        b.asm.packed_mask(form, RAX, j);
        if changed != 0 {
            b.asm.arith(XOR_I, false, RAX, changed);
        }
        b.asm.packed_from_general(X0, RAX);
        put(b, d.rd(), half, X0);
    }
}

fn mask_nonzero(b: &mut Block<'_>, d: &Decoded) {
    for half in halves(d) {
        constant(b, X1, 0);
        b.asm.packed(V_PCMPEQB, X0, X1, place(b, d.rj(), half));
        b.asm.packed_mask(V_PMOVMSKB, RAX, X0);
        b.asm.arith(XOR_I, false, RAX, 0xffff);
        b.asm.packed_from_general(X0, RAX);
        put(b, d.rd(), half, X0);
    }
}

/// A flag = whether no bit of rj is set, or whether one is.
fn test_all(b: &mut Block<'_>, d: &Decoded, cond: Cond) {
    let mut all = get(b, d.rj(), 0, X0);
    if d.wide {
        b.asm.packed(V_POR, X0, all, place(b, d.rj(), 1));
        all = X0;
    }
    b.asm.packed_unary(V_PTEST, all, all);
    b.asm.set(cond, layout::fcc(d.rd()));
}

/// A flag = whether a lane of rj is zero, or whether none is.
fn test_lanes(b: &mut Block<'_>, d: &Decoded, equal: Form, cond: Cond) {
    constant(b, X1, 0);
    b.asm.packed(equal, X0, X1, place(b, d.rj(), 0));
    if d.wide {
        b.asm.packed(equal, X1, X1, place(b, d.rj(), 1));
        b.asm.packed(V_POR, X0, X0, X1);
    }
    b.asm.packed_unary(V_PTEST, X0, X0);
    b.asm.set(cond, layout::fcc(d.rd()));
}

pub(super) static TABLE: &[Lowering] = &[
    plain("vld", |b, d| load(b, d, at_offset)),
    plain("vst", |b, d| store(b, d, at_offset)),
    plain("vldx", |b, d| load(b, d, at_index)),
    plain("vstx", |b, d| store(b, d, at_index)),
    plain("vldrepl.b", |b, d| load_lane(b, d, V_BROADCASTB)),
    plain("vldrepl.h", |b, d| load_lane(b, d, V_BROADCASTW)),
    plain("vldrepl.w", |b, d| load_lane(b, d, V_BROADCASTD)),
    plain("vldrepl.d", |b, d| load_lane(b, d, V_BROADCASTQ)),
    plain("vstelm.b", |b, d| store_lane(b, d, BYTE)),
    plain("vstelm.h", |b, d| store_lane(b, d, HALF)),
    plain("vstelm.w", |b, d| store_lane(b, d, WORD)),
    plain("vstelm.d", |b, d| store_lane(b, d, DOUBLE)),
    plain("vinsgr2vr.b", |b, d| insert(b, d, BYTE)),
    plain("vinsgr2vr.h", |b, d| insert(b, d, HALF)),
    plain("vinsgr2vr.w", |b, d| insert(b, d, WORD)),
    plain("vinsgr2vr.d", |b, d| insert(b, d, DOUBLE)),
    plain("vpickve2gr.b", |b, d| extract(b, d, BYTE, Some(MOVSX8))),
    plain("vpickve2gr.h", |b, d| extract(b, d, HALF, Some(MOVSX16))),
    plain("vpickve2gr.w", |b, d| extract(b, d, WORD, Some(MOVSXD))),
    plain("vpickve2gr.d", |b, d| extract(b, d, DOUBLE, None)),
    plain("vpickve2gr.bu", |b, d| extract(b, d, BYTE, None)),
    plain("vpickve2gr.hu", |b, d| extract(b, d, HALF, None)),
    plain("vpickve2gr.wu", |b, d| extract(b, d, WORD, None)),
    plain("vpickve2gr.du", |b, d| extract(b, d, DOUBLE, None)),
    plain("vreplgr2vr.b", |b, d| replicate(b, d, V_BROADCASTB)),
    plain("vreplgr2vr.h", |b, d| replicate(b, d, V_BROADCASTW)),
    plain("vreplgr2vr.w", |b, d| replicate(b, d, V_BROADCASTD)),
    plain("vreplgr2vr.d", |b, d| replicate(b, d, V_BROADCASTQ)),
    plain("vldi", load_immediate),
];

pub(super) static TEST_TABLE: &[Lowering] = &[
    plain("vmskltz.b", |b, d| mask(b, d, V_PMOVMSKB, 0)),
    plain("vmskltz.w", |b, d| mask(b, d, V_MOVMSKPS, 0)),
    plain("vmskltz.d", |b, d| mask(b, d, V_MOVMSKPD, 0)),
    plain("vmskgez.b", |b, d| mask(b, d, V_PMOVMSKB, 0xffff)),
    plain("vmsknz.b", mask_nonzero),
    plain("vseteqz.v", |b, d| test_all(b, d, Cond::E)),
    plain("vsetnez.v", |b, d| test_all(b, d, Cond::Ne)),
    plain("vsetanyeqz.b", |b, d| test_lanes(b, d, V_PCMPEQB, Cond::Ne)),
    plain("vsetanyeqz.h", |b, d| test_lanes(b, d, V_PCMPEQW, Cond::Ne)),
    plain("vsetanyeqz.w", |b, d| test_lanes(b, d, V_PCMPEQD, Cond::Ne)),
    plain("vsetanyeqz.d", |b, d| test_lanes(b, d, V_PCMPEQQ, Cond::Ne)),
    plain("vsetallnez.b", |b, d| test_lanes(b, d, V_PCMPEQB, Cond::E)),
    plain("vsetallnez.h", |b, d| test_lanes(b, d, V_PCMPEQW, Cond::E)),
    plain("vsetallnez.w", |b, d| test_lanes(b, d, V_PCMPEQD, Cond::E)),
    plain("vsetallnez.d", |b, d| test_lanes(b, d, V_PCMPEQQ, Cond::E)),
];
