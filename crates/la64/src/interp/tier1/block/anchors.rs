//! Sums of registers that are inside the window, or near it, wherever an anchor's code begins: what
//! its paths access by them needs no check.
//!
//! - Such a sum is compared with the window where the region is entered, and between a path's end
//!   and the anchor, unless the path has left it near an access that it made, or as it was.
//!   Checked by `an_inner_loop_checks_where_it_is_entered`.
//! - A region is made twice: the first code says which accesses needed a check, and which ends
//!   would need one for a sum. The second one has those sums of which that saves some.

use super::super::plan::To;
use super::Block;
use super::sums::{PARTS, Sum, Sums};
use crate::jit::emit::{ADD, ADD_I, CMP, Cond, RAX, RCX, SHL};
use littoral_base::mutant;

/// Sums per anchor.
const SUMS_MAX: usize = 8;
/// What a check on the way to an anchor costs, in checks of accesses.
const CHECK_COST: i64 = 2;
/// Distances from the window at an anchor are at most this, or this part of the slack.
const FAR_MAX: u64 = 1 << 20;
const FAR_PART: u64 = 4;

/// A sum of registers where an anchor's code begins: each with its shift; register 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    registers: [(usize, u8); PARTS],
}

/// A sum at an anchor.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Near {
    anchor: usize,
    terms: Terms,
    offset: u64,
}

/// An access that needed a check, by a sum of what registers held at an anchor.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    near: Near,
    weight: i64,
}

/// A path's end at an anchor: what is known there.
#[derive(Debug)]
struct Arrival {
    anchor: usize,
    weight: i64,
    sums: Sums,
}

/// What the code of a region says of its anchors.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    /// Sums that are near the window at the anchors.
    near: Vec<Near>,
    /// Where the values of an anchor's registers begin, once its code has begun.
    firsts: Vec<Option<u32>>,
    wanted: Vec<Wanted>,
    arrivals: Vec<Arrival>,
}

impl Anchors {
    pub(super) fn new(count: usize, near: Vec<Near>) -> Anchors {
        Anchors { near, firsts: vec![None; count], ..Anchors::default() }
    }

    /// The registers at an anchor that a sum is of.
    fn terms(&self, sum: Sum) -> Option<Near> {
        let parts = sum.parts();
        let (first, _) = parts[0]?;
        let begins = |f: &Option<u32>| f.is_some_and(|f| (f + 1..f + 32).contains(&first));
        let anchor = self.firsts.iter().position(begins)?;
        let base = self.firsts[anchor]?;
        let mut registers = [(0, 0); PARTS];
        for (register, part) in registers.iter_mut().zip(parts) {
            let Some((value, shift)) = part else { continue };
            let n = value.checked_sub(base).filter(|n| (1..32).contains(n))?;
            *register = (n as usize, shift);
        }
        Some(Near { anchor, terms: Terms { registers }, offset: sum.offset() })
    }
}

impl Near {
    /// The sum, of what registers are now.
    fn sum(&self, sums: &Sums) -> Option<Sum> {
        let mut all = Sum::default().and(self.offset as i64);
        for &(n, shift) in self.terms.registers.iter().filter(|r| r.0 != 0) {
            all = all.plus(sums.of(n).shifted(shift)?)?;
        }
        Some(all)
    }

    /// Whether registers leave the sum as it was at the anchor, where their values began.
    fn is_kept(&self, sums: &Sums, first: u32) -> bool {
        let kept = |&(n, _): &(usize, u8)| n == 0 || sums.of(n) == Sum::of(first + n as u32);
        self.terms.registers.iter().all(kept)
    }
}

impl Block<'_> {
    /// How far sums are at most from the window where an anchor begins.
    fn far_max(&self) -> u64 {
        FAR_MAX.min(self.shape.slack / FAR_PART)
    }

    /// The access at a sum needs a check of its own.
    pub(in super::super) fn wants(&mut self, sum: Option<Sum>) {
        let at = self.at;
        let Some(region) = &mut self.region else { return };
        let Some(near) = sum.and_then(|sum| region.anchors.terms(sum)) else { return };
        let weight = region.weight(at);
        let same = |w: &&mut Wanted| w.near.anchor == near.anchor && w.near.terms == near.terms;
        match region.anchors.wanted.iter_mut().find(same) {
            Some(wanted) => wanted.weight += weight,
            None => region.anchors.wanted.push(Wanted { near, weight }),
        }
    }

    /// Sums that are worth a check at their anchors, by code that has none.
    pub(in super::super) fn worth_being_near(&self) -> Vec<Near> {
        let Some(region) = &self.region else { return Vec::new() };
        let Anchors { firsts, wanted, arrivals, .. } = &region.anchors;
        let far = self.far_max();
        let unheld = |near: &Near| {
            let holds = |arrival: &Arrival| {
                let kept = firsts[near.anchor].is_some_and(|f| near.is_kept(&arrival.sums, f));
                kept || near.sum(&arrival.sums).is_some_and(|sum| arrival.sums.is_within(sum, far))
            };
            let here = arrivals.iter().filter(|a| a.anchor == near.anchor && !holds(a));
            here.map(|a| a.weight).sum::<i64>()
        };
        let mut worth: Vec<(i64, Near)> = Vec::new();
        for Wanted { near, weight } in wanted {
            let saved = weight - CHECK_COST * unheld(near);
            let count = worth.iter().filter(|w| w.1.anchor == near.anchor).count();
            if saved > 0 && count < SUMS_MAX {
                worth.push((saved, *near));
            }
        }
        worth.into_iter().map(|w| w.1).collect()
    }

    /// An anchor's code begins: its sums are near the window.
    pub(super) fn begin_anchor(&mut self, anchor: usize, first: u32) {
        let far = self.far_max();
        let Some(region) = &mut self.region else { return };
        region.anchors.firsts[anchor] = Some(first);
        for near in region.anchors.near.iter().filter(|near| near.anchor == anchor) {
            if let Some(sum) = near.sum(&self.sums) {
                self.sums.note(sum, far);
            }
        }
    }

    /// Whether the sums of the anchor that a path leads to from here are near the window.
    pub(super) fn holds(&mut self, to: To, weight: i64) -> bool {
        let To::Anchor(anchor) = to else { return true };
        let far = self.far_max();
        let Some(region) = &mut self.region else { return true };
        let sums = self.sums.clone();
        region.anchors.arrivals.push(Arrival { anchor, weight, sums });
        let mut here = region.anchors.near.iter().filter(|near| near.anchor == anchor);
        let near = |n: &Near| n.sum(&self.sums).is_some_and(|sum| self.sums.is_within(sum, far));
        here.all(near) || mutant!("la64_region_anchor_unchecked")
    }

    /// Whether an anchor has sums to be checked.
    pub(super) fn has_sums(&self, anchor: usize) -> bool {
        let of = |near: &Near| near.anchor == anchor;
        self.region.as_ref().is_some_and(|region| region.anchors.near.iter().any(of))
    }

    /// Compares these sums with the window; adds the jumps of those outside.
    pub(super) fn check_sums(&mut self, near: &[Near], anchor: usize, from: &mut Vec<usize>) {
        for near in near.iter().filter(|near| near.anchor == anchor) {
            self.sum_terms(near);
            self.asm.op(CMP, true, RAX, super::layout::NEAR);
            from.push(self.asm.jump_near(Some(Cond::Ae)));
        }
    }

    /// rax = a sum.
    fn sum_terms(&mut self, near: &Near) {
        let mut terms = near.terms.registers.into_iter().filter(|r| r.0 != 0);
        match i32::try_from(near.offset as i64) {
            Ok(short) => {
                let (n, shift) = terms.next().expect("invariant: sums have registers");
                self.load(RAX, n);
                if shift > 0 {
                    self.asm.imm8(SHL, true, RAX, shift);
                }
                if short != 0 {
                    self.asm.arith(ADD_I, true, RAX, short);
                }
            }
            Err(_) => self.asm.mov_imm(RAX, near.offset),
        }
        for (n, shift) in terms {
            let mut term = self.place(n);
            if shift > 0 {
                self.load(RCX, n);
                self.asm.imm8(SHL, true, RCX, shift);
                term = RCX.into();
            }
            self.asm.op(ADD, true, RAX, term);
        }
    }

    /// The same of the anchor's sums, in the region.
    pub(super) fn check_own_sums(&mut self, anchor: usize) -> Vec<usize> {
        let Some(region) = &self.region else { return Vec::new() };
        let (near, mut from) = (region.anchors.near.clone(), Vec::new());
        self.check_sums(&near, anchor, &mut from);
        from
    }
}
