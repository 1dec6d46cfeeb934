//! Masks; two of them and the `or` behind them that choose one of two registers are one conditional
//! move.
//!
//! ```text
//! masknez t, a, c      t = a if c is 0, else 0
//! maskeqz u, b, c      u = b if c is not 0, else 0
//! or      r, t, u      r = c is 0 ? a : b
//! ```
//!
//! - A mask other than the result is written, too, unless a later instruction of the block writes
//!   its register before anything reads it, leaves the block or calls tier 0. Checked by
//!   `registers_of_a_choice_are_those_of_the_interpreter`.

use super::block::{Block, Decoded, Lowering, plain};
use super::choice::{Select, choice};
use super::integer::{self, compare};
use super::multiply;
use crate::jit::emit::{Cond, MOV, RAX, RCX, RDX};
use littoral_base::mutant;

/// Instructions that are looked at behind the choice.
const AHEAD_MAX: usize = 16;

/// rd = rj, or 0 if rk is zero (`maskeqz`) or not (`masknez`).
fn mask(b: &mut Block<'_>, d: &Decoded, kept_if: Cond) {
    let (rd, rj, rk) = (d.rd(), d.rj(), d.rk());
    if rd == 0 {
        return;
    }
    let told = b.told(rk);
    let keep = match told {
        Some(cond) if kept_if == Cond::Ne => cond,
        Some(cond) => cond.opposite(),
        None => {
            compare(b, rk, 0);
            kept_if
        }
    };
    if let Some(select) = behind(b, d) {
        return choose(b, select, keep);
    }
    masked(b, rd, rj, keep);
    if rd != rk {
        b.flags_tell(rk, if kept_if == Cond::Ne { keep } else { keep.opposite() });
    }
}

/// rd = rj if `keep` holds, else 0; keeps the flags.
fn masked(b: &mut Block<'_>, rd: usize, rj: usize, keep: Cond) {
    let extended = b.is_extended(rj);
    let own = b.pin(rd).filter(|_| rd == rj);
    let to = if rd == rj { RAX } else { b.target(rd) };
    b.asm.mov_imm_keeping_flags(to, 0);
    if let Some(own) = own {
        b.asm.cmov(keep.opposite(), true, own, RAX);
    } else if rj != 0 {
        let place = b.place(rj);
        b.asm.cmov(keep, true, to, place);
    }
    b.put(rd, own.unwrap_or(to));
    if extended {
        b.extends(rd);
    }
}

fn maskeqz(b: &mut Block<'_>, d: &Decoded) {
    mask(b, d, Cond::Ne);
}

fn masknez(b: &mut Block<'_>, d: &Decoded) {
    mask(b, d, Cond::E);
}

/// The choice that begins with the current instruction, a mask.
fn behind(b: &mut Block<'_>, d: &Decoded) -> Option<Select> {
    let select = choice(d, b.ahead(1)?, b.ahead(2)?)?;
    let second = b.ahead(1)?;
    b.settle(second);
    b.done_ahead = 2;
    Some(select)
}

/// Makes a choice whose first mask keeps its register under `keep`; flags stand.
fn choose(b: &mut Block<'_>, select: Select, keep: Cond) {
    let Select { first, second, result } = select;
    let masks = [(first, keep), (second, keep.opposite())];
    let live = masks.map(|(mask, _)| mask.to != result && !is_dead(b, mask.to));
    let extended = [first, second].iter().all(|mask| b.is_extended(mask.from));
    let bounds = [first, second].map(|mask| b.bound(mask.from));
    let bound = bounds[0].zip(bounds[1]).map(|(a, b)| a.max(b));
    // The result begins as one register and becomes the other under the other's condition.
    let (base, (other, cond)) = match second.from == result {
        true => (second, masks[0]),
        false => (first, masks[1]),
    };
    let read_later = masks.iter().zip(live).any(|(m, live)| live && m.0.from == result);
    let direct = b.pin(result).filter(|_| other.from != result && !read_later);
    // Masks are made in rax.
    let to = direct.unwrap_or(RDX);
    match base.from {
        0 => b.asm.mov_imm_keeping_flags(to, 0),
        n if b.place(n) == to.into() => {}
        n => {
            let place = b.place(n);
            b.asm.op(MOV, true, to, place);
        }
    }
    match other.from {
        0 => {
            b.asm.mov_imm_keeping_flags(RCX, 0);
            b.asm.cmov(cond, true, to, RCX);
        }
        n => {
            let place = b.place(n);
            b.asm.cmov(cond, true, to, place);
        }
    }
    for ((mask, keep), _) in masks.into_iter().zip(live).filter(|(_, live)| *live) {
        masked(b, mask.to, mask.from, keep);
    }
    b.put(result, to);
    b.bounds(result, bound);
    if extended {
        b.extends(result);
    }
}

/// Whether general register `n` is written behind the choice before anything can see it.
fn is_dead(b: &Block<'_>, n: usize) -> bool {
    if mutant!("la64_masks_always_dead") {
        return true;
    }
    for d in (3..3 + AHEAD_MAX).map_while(|n| b.ahead(n)) {
        let Some(lowering) = d.lowering else { return false };
        let tables = [TABLE, integer::TABLE, integer::SHIFT_TABLE, multiply::TABLE];
        let is_sure = tables.into_iter().flatten().any(|l| std::ptr::eq(l, lowering));
        // A field upside down traps; an immediate may replace a part of a register.
        let is_sure = is_sure && !lowering.name.starts_with("bstr") && lowering.name != "lu32i.d";
        if !is_sure || d.operands.sources(d.numbers()).any(|read| read == n) {
            return false;
        }
        if d.rd() == n && d.operands.writes_general_rd() {
            return true;
        }
    }
    false
}

pub(super) static TABLE: &[Lowering] = &[plain("maskeqz", maskeqz), plain("masknez", masknez)];
