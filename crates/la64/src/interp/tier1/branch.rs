//! Branches, calls and returns, system calls and traps.

use super::block::{Block, Decoded, FLAGS, Lowering, plain};
use super::constants::Constant;
use super::integer::compare;
use super::layout;
use crate::jit::emit::{CMP_I, Cond, RAX};
use littoral_base::mutant;

/// Leaves for the fixed target if rj compares so with rd.
fn conditional(b: &mut Block<'_>, d: &Decoded, cond: Cond) {
    let cond = match b.constant_operand(d) {
        Some((n, number, is_swapped)) => {
            let place = b.place(n);
            b.asm.arith(CMP_I, true, place, number - b.step(n));
            let is_swapped = is_swapped && !mutant!("la64_number_compared_backwards");
            if is_swapped { swapped(cond) } else { cond }
        }
        None => {
            compare(b, d.rj(), d.rd());
            cond
        }
    };
    b.exit_if(cond, d.imm() as u64);
}

/// The condition that holds of operands in the other order.
fn swapped(cond: Cond) -> Cond {
    match cond {
        Cond::L => Cond::G,
        Cond::Ge => Cond::Le,
        Cond::B => Cond::A,
        Cond::Ae => Cond::Be,
        _ => cond,
    }
}

/// Leaves if rj is zero, or not zero.
fn against_zero(b: &mut Block<'_>, d: &Decoded, cond: Cond) {
    let cond = match b.told(d.rj()) {
        Some(told) if cond == Cond::Ne => told,
        Some(told) => told.opposite(),
        None => {
            compare(b, d.rj(), 0);
            cond
        }
    };
    b.exit_if(cond, d.imm() as u64);
}

fn on_flag(b: &mut Block<'_>, d: &Decoded, cond: Cond) {
    let cond = match b.told(FLAGS + (d.rj() & 7)) {
        Some(told) if cond == Cond::Ne => told,
        Some(told) => told.opposite(),
        None => {
            b.asm.cmp_byte(layout::fcc(d.rj()), 0);
            cond
        }
    };
    b.exit_if(cond, d.imm() as u64);
}

/// Goes on at the target, inside the block or out of it.
fn jump(b: &mut Block<'_>, d: &Decoded) {
    if !b.goes_on() && b.list.get(b.at + 1).is_none() {
        b.exit(d.imm() as u64, b.count(), true);
        b.ended = true;
    }
}

/// General register 1, which calls write and returns read.
const LINK: usize = 1;

fn call(b: &mut Block<'_>, d: &Decoded) {
    let back = d.pc.wrapping_add(4);
    b.put_constant(LINK, Constant::relative(back));
    if b.goes_on() {
        return;
    }
    b.push_calls_here();
    b.exit_by_call(d.imm() as u64, back);
    b.ended = true;
}

fn jump_register(b: &mut Block<'_>, d: &Decoded) {
    if b.goes_on_by_register(d, (d.rd() == LINK).then_some(LINK)) {
        return;
    }
    b.push_calls_here();
    let known = b.constants.get(d.rj()).map(|constant| {
        b.sites.fixed |= !constant.relative;
        constant.value.wrapping_add(d.imm() as u64)
    });
    if known.is_none() {
        b.settle_all();
        b.sum(RAX, d.rj(), d.imm() as i32);
    }
    if d.rd() != 0 {
        put_link(b, d.rd(), d.pc.wrapping_add(4));
    }
    let (back, returns) = (d.pc.wrapping_add(4), d.rd() == 0 && d.rj() == LINK && d.imm() == 0);
    match known {
        Some(target) if d.rd() == LINK && target.is_multiple_of(4) => b.exit_by_call(target, back),
        Some(target) => b.exit(target, b.count(), true),
        None if d.rd() == LINK => b.exit_by_call_indirect(back),
        None if returns => b.exit_by_return(),
        None => b.exit_indirect(),
    }
    b.ended = true;
}

/// The return address, keeping rax.
fn put_link(b: &mut Block<'_>, n: usize, value: u64) {
    use crate::jit::emit::RCX;
    let to = b.pin(n).unwrap_or(RCX);
    b.move_constant(to, Constant::relative(value));
    b.put(n, to);
}

/// A trap for certain.
fn trap(b: &mut Block<'_>, d: &Decoded) {
    b.call_tier_0(d);
    b.ended = true;
}

macro_rules! row {
    ($name:literal, $f:ident, $cond:ident) => {
        plain($name, |b, d| $f(b, d, Cond::$cond))
    };
}

pub(super) static TABLE: &[Lowering] = &[
    row!("beq", conditional, E),
    row!("bne", conditional, Ne),
    row!("blt", conditional, L),
    row!("bge", conditional, Ge),
    row!("bltu", conditional, B),
    row!("bgeu", conditional, Ae),
    row!("beqz", against_zero, E),
    row!("bnez", against_zero, Ne),
    row!("bceqz", on_flag, E),
    row!("bcnez", on_flag, Ne),
    plain("b", jump),
    plain("bl", call),
    plain("jirl", jump_register),
    plain("syscall", trap),
    plain("break", trap),
    plain("dbcl", trap),
];
