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
use super::integer::{self, compare};
use super::multiply;
use crate::jit::emit::{Cond, MOV, RAX, RCX, RDX};
use littoral_base::mutant;

/// Instructions that are looked at behind the choice.
const AHEAD_MAX: usize = 16;

/// A mask: where it goes, and what it keeps or not.
#[derive(Clone, Copy, Debug)]
struct Mask {
    to: usize,
    from: usize,
}

/// Two masks and an `or`.
#[derive(Clone, Copy, Debug)]
struct Select {
    first: Mask,
    second: Mask,
    result: usize,
}

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
        return select.emit(b, keep);
    }
    masked(b, rd, rj, keep);
    if rd != rk {
        b.flags_tell(rk, if kept_if == Cond::Ne { keep } else { keep.opposite() });
    }
}

/// rd = rj if `keep` holds, else 0; keeps the flags.
fn masked(b: &mut Block<'_>, rd: usize, rj: usize, keep: Cond) {
    let extended = b.is_extended(rj);
    let to = if rd == rj { RAX } else { b.target(rd) };
    b.asm.mov_imm_keeping_flags(to, 0);
    if rj != 0 {
        let place = b.place(rj);
        b.asm.cmov(keep, true, to, place);
    }
    b.put(rd, to);
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
    let list = b.list;
    let (second, or) = (list.get(b.at + 1)?, list.get(b.at + 2)?);
    let names = [d, second, or].map(|d| d.lowering.map(|lowering| lowering.name));
    let opposite = match names[0]? {
        "maskeqz" => "masknez",
        _ => "maskeqz",
    };
    if names[1..] != [Some(opposite), Some("or")] || second.rk() != d.rk() {
        return None;
    }
    let (t, u, result) = (d.rd(), second.rd(), or.rd());
    let chosen = [or.rj(), or.rk()];
    let is_choice = chosen == [t, u] || chosen == [u, t];
    let is_plain = t != u && u != 0 && result != 0 && t != d.rk() && t != second.rj();
    let select = Select {
        first: Mask { to: t, from: d.rj() },
        second: Mask { to: u, from: second.rj() },
        result,
    };
    (is_choice && is_plain).then(|| {
        b.settle(second);
        b.done_ahead = 2;
        select
    })
}

impl Select {
    /// Under `keep` the first mask keeps its register; flags stand.
    fn emit(self, b: &mut Block<'_>, keep: Cond) {
        let Select { first, second, result } = self;
        let masks = [(first, keep), (second, keep.opposite())];
        let live = masks.map(|(mask, _)| mask.to != result && !is_dead(b, mask.to));
        let extended = [first, second].iter().all(|mask| b.is_extended(mask.from));
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
        if extended {
            b.extends(result);
        }
    }
}

/// Whether general register `n` is written behind the choice before anything can see it.
fn is_dead(b: &Block<'_>, n: usize) -> bool {
    if mutant!("la64_masks_always_dead") {
        return true;
    }
    let behind = b.list.iter().skip(b.at + 3).take(AHEAD_MAX);
    for d in behind {
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
