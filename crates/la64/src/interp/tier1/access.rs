//! Loads and stores of general and floating-point registers.
//!
//! - An address is inside the window if its base register is below `near` and the displacement at
//!   most the window's slack, which is memory of nothing on either side; a window without slack
//!   gets a check per access. A base register is checked once between two writes to it.
//! - An access that is near one that the code has passed needs no check (see `block::sums`).
//! - A store to a guarded window runs on tier 0, which knows the rights of pages.
//! - What fails here, or faults, runs again on tier 0, which traps or does it.

use super::block::{Block, Decoded, Lowering, plain};
use super::layout;
use crate::jit::emit::{
    ADD, CMP, Cond, Form, LEA, MOV, MOV_TO, MOV8_TO, MOV16_TO, MOVSX8, MOVSX16, MOVSXD, MOVZX8,
    MOVZX16, Mem, RAX, RCX, Reg, XOR,
};

/// Takes the slow way unless `address` is inside the window.
fn check(b: &mut Block<'_>, address: Reg) {
    b.asm.op(CMP, true, address, layout::NEAR);
    b.slow_if(Cond::Ae);
}

/// The memory at rj + immediate.
pub(super) fn at_offset(b: &mut Block<'_>, d: &Decoded) -> Mem {
    let (rj, imm) = (d.rj(), d.imm() as i32);
    if let Some(address) = b.constant_address(d) {
        return Mem::at(layout::WINDOW, address);
    }
    if b.shape.slack < layout::SLACK_MIN {
        b.sum(RAX, rj, imm);
        check(b, RAX);
        return Mem::indexed(layout::WINDOW, RAX, 0, 0);
    }
    let checked = b.is_checked(rj, imm);
    at_register(b, rj, imm, checked)
}

/// The memory at general register `n` + a number that is short of the slack.
fn at_register(b: &mut Block<'_>, n: usize, imm: i32, checked: bool) -> Mem {
    let sum = b.sum_of(n).and(imm.into());
    let checked = checked || b.is_near(sum);
    if !checked {
        b.wants(Some(sum));
    }
    b.passes(sum);
    if let Some(base) = b.base(n).filter(|_| checked) {
        return Mem::at(base, imm);
    }
    let base = b.get(n, RAX);
    if !checked {
        check(b, base);
        b.check(n, imm);
    }
    Mem::indexed(layout::WINDOW, base, 0, imm + b.step(n))
}

/// The memory at general register `n` + the address `number`, which register `of` holds.
fn at_address(b: &mut Block<'_>, (n, of): (usize, usize), number: i32) -> Mem {
    let sum = b.sum_of(n).and(number.into());
    let checked = b.is_pair_checked(n, of) || b.is_near(sum);
    if !checked {
        b.wants(Some(sum));
    }
    b.passes(sum);
    if checked {
        let index = b.get(n, RAX);
        return Mem::indexed(layout::WINDOW, index, 0, number);
    }
    b.sum(RAX, n, number);
    check(b, RAX);
    Mem::indexed(layout::WINDOW, RAX, 0, 0)
}

/// The memory at rj + rk.
pub(super) fn at_index(b: &mut Block<'_>, d: &Decoded) -> Mem {
    match b.constant_index(d) {
        Some((n, of, number)) if b.is_address(number) => return at_address(b, (n, of), number),
        Some((n, _, number)) => {
            let checked = b.is_index_checked(n, number);
            return at_register(b, n, number, checked);
        }
        None => {}
    }
    let (rj, rk) = (d.rj(), d.rk());
    let sum = b.sum_of(rj).plus(b.sum_of(rk));
    let near = sum.is_some_and(|sum| b.is_near(sum));
    let checked = b.is_pair_checked(rj, rk);
    if !near {
        b.note_sum((rj, rk), checked);
    }
    let checked = checked || near;
    b.note_pair((rj, rk));
    if !checked {
        b.wants(sum);
    }
    if let Some(sum) = sum {
        b.passes(sum);
    }
    for (base, index) in [(rj, rk), (rk, rj)] {
        if let Some(base) = b.base(base).filter(|_| checked) {
            let (step, scale) = (b.step(index), b.scale(index));
            let index = b.get(index, RAX);
            return Mem::indexed(base, index, scale, step);
        }
    }
    match (b.pin(rj), b.pin(rk)) {
        (Some(j), Some(k)) => {
            let (step, scale) = (b.step(rj) + b.step(rk), b.scale(rj) + b.scale(rk));
            let (j, k) = if b.scale(rj) > 0 { (k, j) } else { (j, k) };
            b.asm.op(LEA, true, RAX, Mem::indexed(j, k, scale, step));
        }
        (Some(index), None) | (None, Some(index)) if b.scale(rj) + b.scale(rk) > 0 => {
            let (other, of) = if b.scale(rj) > 0 { (rk, rj) } else { (rj, rk) };
            b.load(RAX, other);
            b.asm.op(LEA, true, RAX, Mem::indexed(RAX, index, b.scale(of), 0));
        }
        _ => {
            b.load(RAX, rj);
            if rk != 0 {
                let place = b.place(rk);
                b.asm.op(ADD, true, RAX, place);
            }
        }
    }
    if !checked {
        check(b, RAX);
    }
    Mem::indexed(layout::WINDOW, RAX, 0, 0)
}

/// How an access finds its address.
pub(super) type Address = fn(&mut Block<'_>, &Decoded) -> Mem;

/// rd = what `form` loads.
fn load(b: &mut Block<'_>, d: &Decoded, address: Address, form: Form, wide: bool) {
    let m = address(b, d);
    let to = match d.rd() {
        0 => RAX,
        n => b.target(n),
    };
    b.access();
    b.asm.op(form, wide, to, m);
    b.put(d.rd(), to);
    // Of a word without sign and of a doubleword nothing is known.
    if form != MOV && d.rd() != 0 {
        b.extends(d.rd());
    }
    let bound = match form {
        MOVZX8 => Some(0xff),
        MOVZX16 => Some(0xffff),
        MOV if !wide => Some(u64::from(u32::MAX)),
        _ => None,
    };
    b.bounds(d.rd(), bound);
}

fn store(b: &mut Block<'_>, d: &Decoded, address: Address, form: Form, wide: bool) {
    if b.shape.guarded {
        return b.call_tier_0(d);
    }
    let m = address(b, d);
    let from = match d.rd() {
        0 => {
            b.asm.op(XOR, false, RCX, RCX);
            RCX
        }
        n => b.get(n, RCX),
    };
    b.access();
    b.asm.op(form, wide, from, m);
}

macro_rules! row {
    ($name:literal, $access:ident, $address:ident, $form:ident, $wide:literal) => {
        plain($name, |b, d| $access(b, d, $address, $form, $wide))
    };
}

pub(super) static TABLE: &[Lowering] = &[
    row!("ld.d", load, at_offset, MOV, true),
    row!("st.d", store, at_offset, MOV_TO, true),
    row!("ld.w", load, at_offset, MOVSXD, true),
    row!("st.w", store, at_offset, MOV_TO, false),
    row!("ld.b", load, at_offset, MOVSX8, true),
    row!("ld.h", load, at_offset, MOVSX16, true),
    row!("ld.bu", load, at_offset, MOVZX8, false),
    row!("ld.hu", load, at_offset, MOVZX16, false),
    row!("ld.wu", load, at_offset, MOV, false),
    row!("st.b", store, at_offset, MOV8_TO, false),
    row!("st.h", store, at_offset, MOV16_TO, false),
    row!("ldptr.w", load, at_offset, MOVSXD, true),
    row!("ldptr.d", load, at_offset, MOV, true),
    row!("stptr.w", store, at_offset, MOV_TO, false),
    row!("stptr.d", store, at_offset, MOV_TO, true),
    row!("ldx.b", load, at_index, MOVSX8, true),
    row!("ldx.h", load, at_index, MOVSX16, true),
    row!("ldx.w", load, at_index, MOVSXD, true),
    row!("ldx.d", load, at_index, MOV, true),
    row!("ldx.bu", load, at_index, MOVZX8, false),
    row!("ldx.hu", load, at_index, MOVZX16, false),
    row!("ldx.wu", load, at_index, MOV, false),
    row!("stx.b", store, at_index, MOV8_TO, false),
    row!("stx.h", store, at_index, MOV16_TO, false),
    row!("stx.w", store, at_index, MOV_TO, false),
    row!("stx.d", store, at_index, MOV_TO, true),
];
