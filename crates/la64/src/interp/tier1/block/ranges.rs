//! Where general registers point, and how great their numbers are, as far as code knows: accesses
//! that are inside the window, or in the bytes beside it that refuse them, need no check.

use super::super::layout::ACCESS_MAX;
use super::anchors::Near;
use super::{Block, Constant, is_long};
use crate::jit::emit::Reg;
use littoral_base::mutant;

/// Magnitudes are small below this.
const BOUND_END: u64 = 1 << 40;

/// What is checked ahead of a region besides the bases of its accesses.
#[derive(Clone, Debug)]
pub(in super::super) struct Ahead {
    /// Bases of sums, by register.
    pub(in super::super) indexed: u32,
    /// Short numbers, of registers that the region does not write.
    pub(in super::super) short: u32,
    /// Sums at its anchors.
    pub(in super::super) near: Vec<Near>,
    /// Registers that are better addresses of the host, by register; these are not checked.
    pub(in super::super) hosts: u32,
}

impl Block<'_> {
    /// Whether an access at general register `n` + `imm` is in the window or the slack beside it.
    pub(in super::super) fn is_checked(&self, n: usize, imm: i32) -> bool {
        let near = |far: u64| far + u64::from(imm.unsigned_abs()) + ACCESS_MAX <= self.shape.slack;
        n == 0 || self.free.has_base(n) || self.reach[n].is_some_and(near)
    }

    /// The same where `imm` is an index, whose displacement the checks ahead do not know.
    pub(in super::super) fn is_index_checked(&self, n: usize, imm: i32) -> bool {
        let far = 2 * u64::from(imm.unsigned_abs()) + ACCESS_MAX;
        match self.free.has_base(n) && !self.free.stays_inside(n) {
            true => false,
            false => far <= self.shape.slack && self.is_checked(n, imm),
        }
    }

    /// The same of an access at `j` + `k`.
    pub(in super::super) fn is_pair_checked(&self, j: usize, k: usize) -> bool {
        let is_near = |far: u64| far + ACCESS_MAX <= self.shape.slack;
        self.free.has_pair(j, k) || self.reach_of_sum((j, k), 0).is_some_and(is_near)
    }

    /// An access at `j` + `k` is `checked` or not: what that says of bases checked ahead.
    pub(in super::super) fn note_sum(&mut self, (j, k): (usize, usize), checked: bool) {
        let Some(weight) = self.region.as_ref().map(|region| region.weight(self.at)) else {
            return;
        };
        for n in [j, k].into_iter().filter(|&n| self.free.stays_inside(n)) {
            self.saved[n] += if checked { weight } else { -weight };
        }
    }

    /// An access is at `j` + `k`.
    pub(in super::super) fn note_pair(&mut self, (j, k): (usize, usize)) {
        for n in [j, k].into_iter().filter(|&n| n != 0 && self.free.staying() >> n & 1 == 1) {
            self.in_pairs |= 1 << n;
        }
    }

    /// What is worth a check ahead, of what was checked.
    pub(in super::super) fn worth_a_check(&self) -> Ahead {
        let indexed = (0..32).filter(|&n| self.saved[n] > 0).map(|n| 1 << n).sum();
        let (short, near) = (self.relied_on.get(), self.worth_being_near());
        Ahead { indexed, short, near, hosts: self.in_pairs }
    }

    /// How far the sum of `j` << `by` and `k` is at most from an address inside the window: one of
    /// them, not shifted, is near such an address, and the other one small.
    pub(in super::super) fn reach_of_sum(&self, (j, k): (usize, usize), by: u8) -> Option<u64> {
        let sum = |near: usize, small: usize, by: u8| {
            let known = self.reach[near].or_else(|| self.constant_inside(near));
            let near = known.or_else(|| self.free.stays_inside(near).then_some(0))?;
            let small = self.bound(small)? << by;
            let far = near + if mutant!("la64_range_of_an_index_ignored") { 0 } else { small };
            (far <= self.shape.slack).then_some(far)
        };
        let other = || sum(j, k, 0).filter(|_| by == 0);
        sum(k, j, by).or_else(other)
    }

    /// 0 if general register `n` holds an address inside the window that does not move.
    fn constant_inside(&self, n: usize) -> Option<u64> {
        (n != 0 && self.constant_that_stays(n)? < self.shape.near).then_some(0)
    }

    /// The constant that general register `n` holds, if it is the same wherever the code is.
    fn constant_that_stays(&self, n: usize) -> Option<u64> {
        let moves = |constant: &Constant| {
            // Code that has a short one stays where it is.
            let moves = constant.relative && is_long(constant.value);
            moves && !mutant!("la64_moving_address_is_a_bound")
        };
        let constant = self.constants.get(n).filter(|constant| !moves(constant))?;
        Some(constant.value)
    }

    /// The greatest magnitude of the number in general register `n`, if it is known to be small.
    pub(in super::super) fn bound(&self, n: usize) -> Option<u64> {
        let small = |magnitude: u64| (magnitude < BOUND_END).then_some(magnitude);
        let constant = self.constant_that_stays(n).map(|value| (value as i64).unsigned_abs());
        let word = self.is_extended(n).then_some(1 << 31);
        let bounds = [constant, self.bounds[n], word];
        let bound = bounds.into_iter().flatten().min().and_then(small);
        bound.or_else(|| {
            let is_short = self.short >> n & 1 == 1;
            self.relied_on.set(self.relied_on.get() | u32::from(is_short) << n);
            is_short.then_some(1 << 31)
        })
    }

    /// The same where it is a word at least, by what the code itself has made.
    pub(in super::super) fn short_bound(&self, n: usize) -> Option<u64> {
        let constant = self.constant_that_stays(n).map(|value| (value as i64).unsigned_abs());
        let bound = [constant, self.bounds[n]].into_iter().flatten().min();
        bound.filter(|&bound| i32::try_from(bound).is_ok())
    }

    /// General register `n` was written with a number of at most this magnitude.
    pub(in super::super) fn bounds(&mut self, n: usize, magnitude: Option<u64>) {
        self.bounds[n] = magnitude.filter(|&magnitude| n != 0 && magnitude < BOUND_END);
    }

    /// A host register with the host address of guest address `n`.
    pub(in super::super) fn base(&self, n: usize) -> Option<Reg> {
        self.pins.base(n)
    }

    /// General register `n` was checked for an access at this distance, whose slow way may have
    /// come back with the address inside the window and the register outside.
    pub(in super::super) fn check(&mut self, n: usize, imm: i32) {
        self.reach[n] = Some(imm.unsigned_abs().into());
    }

    /// How far general register `n` + `imm` is from an address inside the window.
    pub(in super::super) fn reach(&self, n: usize, imm: i32) -> Option<u64> {
        let far = self.reach[n]? + u64::from(imm.unsigned_abs());
        (n != 0 && far <= self.shape.slack).then_some(far)
    }

    /// General register `n` was found to be as far as this from such an address.
    pub(in super::super) fn reaches(&mut self, n: usize, far: Option<u64>) {
        self.reach[n] = far;
    }
}
