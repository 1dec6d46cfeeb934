//! Fields of bits: their number, and putting it in.

use super::block::{Block, Decoded, Lowering, plain};
use super::integer::{sign_extend, source};
use crate::jit::emit::{AND, AND_I, MOVZX8, MOVZX16, OR, RAX, RCX, Reg, SHL, SHR};
use littoral_base::mutant;

/// Upper and lower bit of a field; `None` for an upside-down one, which tier 0 traps.
fn field(d: &Decoded) -> Option<(u8, u8)> {
    let (msb, lsb) = (d.imm() as u8, d.inst.imm2);
    (msb >= lsb).then_some((msb, lsb))
}

/// `to` = bits `msb` to `lsb` of rj.
fn pick(b: &mut Block<'_>, to: Reg, rj: usize, msb: u8, lsb: u8) {
    match (msb, lsb) {
        (7, 0) => {
            let j = source(b, rj);
            b.asm.op(MOVZX8, false, to, j);
        }
        (15, 0) => {
            let j = source(b, rj);
            b.asm.op(MOVZX16, false, to, j);
        }
        (31, 0) => b.load_low(to, rj),
        (31, _) => {
            b.load_half(to, rj);
            b.asm.imm8(SHR, false, to, lsb);
        }
        (0..31, 0) => {
            b.load_half(to, rj);
            b.asm.arith(AND_I, false, to, ((1u64 << (msb + 1)) - 1) as i32);
        }
        (0..63, _) if msb - lsb < 31 => {
            let j = source(b, rj);
            b.asm.rotate(true, to, j, lsb);
            b.asm.arith(AND_I, false, to, ((1u64 << (msb - lsb + 1)) - 1) as i32);
        }
        _ => {
            b.load(to, rj);
            if msb < 63 {
                b.asm.imm8(SHL, true, to, 63 - msb);
            }
            if msb < 63 || lsb > 0 {
                b.asm.imm8(SHR, true, to, 63 - msb + lsb);
            }
        }
    }
}

fn bstrpick_d(b: &mut Block<'_>, d: &Decoded) {
    match field(d) {
        None => b.call_tier_0(d),
        Some(_) if d.rd() == 0 => {}
        Some((msb, lsb)) => {
            picked(b, d, msb, lsb);
        }
    }
}

/// rd = bits `msb` to `lsb` of rj.
fn picked(b: &mut Block<'_>, d: &Decoded, msb: u8, lsb: u8) {
    let to = b.target(d.rd());
    pick(b, to, d.rj(), msb, lsb);
    b.put(d.rd(), to);
    if msb - lsb < 31 {
        b.extends(d.rd());
    }
    b.bounds(d.rd(), Some(u64::MAX >> (63 - (msb - lsb))));
}

fn bstrpick_w(b: &mut Block<'_>, d: &Decoded) {
    match field(d) {
        None => b.call_tier_0(d),
        Some(_) if d.rd() == 0 => {}
        // Shorter fields have no sign.
        Some((msb, lsb)) if msb - lsb < 31 => picked(b, d, msb, lsb),
        Some((msb, lsb)) => {
            pick(b, RAX, d.rj(), msb, lsb);
            sign_extend(b, d.rd());
        }
    }
}

/// Bits `msb` to `lsb`.
fn bits(msb: u8, lsb: u8) -> u64 {
    (u64::MAX >> (63 - (msb - lsb))) << lsb
}

/// rd = rd with zeros as bits `msb` to `lsb`, by an immediate; false if that cannot be.
fn clear(b: &mut Block<'_>, d: &Decoded, msb: u8, lsb: u8) -> bool {
    let rd = d.rd();
    let Ok(kept) = i32::try_from(!bits(msb, lsb) as i64) else { return false };
    if d.rj() != 0 {
        return false;
    }
    // A number without its upper bits has no sign; one without others keeps its own.
    let extended = msb == 63 || b.is_extended(rd) || mutant!("la64_cleared_field_is_a_word");
    let place = b.place(rd);
    b.asm.arith(AND_I, true, place, kept);
    b.wrote(rd);
    b.bounds(rd, (msb == 63).then_some(kept as u64));
    if extended {
        b.extends(rd);
    }
    true
}

/// rax = rd with bits `msb` to `lsb` from rj.
fn insert(b: &mut Block<'_>, d: &Decoded, msb: u8, lsb: u8) {
    let width = msb - lsb + 1;
    let mask = bits(msb, lsb);
    b.load(RAX, d.rj());
    if width < 64 {
        b.asm.imm8(SHL, true, RAX, 64 - width);
        if msb < 63 {
            b.asm.imm8(SHR, true, RAX, 63 - msb);
        }
    }
    b.asm.mov_imm(RCX, !mask);
    let place = b.place(d.rd());
    b.asm.op(AND, true, RCX, place);
    b.asm.op(OR, true, RAX, RCX);
}

fn bstrins_d(b: &mut Block<'_>, d: &Decoded) {
    match field(d) {
        None => b.call_tier_0(d),
        Some(_) if d.rd() == 0 => {}
        Some((msb, lsb)) if clear(b, d, msb, lsb) => {}
        Some((msb, lsb)) => {
            insert(b, d, msb, lsb);
            b.put(d.rd(), RAX);
        }
    }
}

fn bstrins_w(b: &mut Block<'_>, d: &Decoded) {
    match field(d) {
        None => b.call_tier_0(d),
        Some(_) if d.rd() == 0 => {}
        Some((msb, lsb)) if b.is_extended(d.rd()) && clear(b, d, msb, lsb) => {}
        Some((msb, lsb)) => {
            insert(b, d, msb, lsb);
            sign_extend(b, d.rd());
        }
    }
}

pub(super) static TABLE: &[Lowering] = &[
    plain("bstrpick.d", bstrpick_d),
    plain("bstrpick.w", bstrpick_w),
    plain("bstrins.d", bstrins_d),
    plain("bstrins.w", bstrins_w),
];
