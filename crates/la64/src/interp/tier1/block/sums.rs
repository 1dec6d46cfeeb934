//! General registers as sums of what instructions made: two addresses whose sums differ by a number
//! are that far from each other, whatever was added up. So an access that is near one that was made
//! needs no check.
//!
//! - A *value* is what a register held at a place of the code, and has a number of its own. A
//!   register is the sum of up to three values, each shifted to the left, and an offset. All of
//!   this is modulo 2^64, as addresses are.
//! - An access that the code has passed was inside the window: a check or the slow way said so.
//!   Checked by `an_access_far_from_the_one_before_is_checked`.
//! - An address that moves with the code is a value and an offset, so that two of them are as far
//!   from each other elsewhere.

use super::super::constants::Constant;
use super::super::layout::ACCESS_MAX;
use super::Block;
use littoral_base::mutant;

/// Values in a sum.
pub(super) const PARTS: usize = 3;
/// Bits of a part that say how far its value is shifted.
const SHIFT_BITS: u32 = 6;
/// The value that the addresses of instructions are relative to.
const CODE: u32 = 1;
/// Accesses that are remembered.
const INSIDE_MAX: usize = 16;

/// Values, each with its shift, and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Sum {
    /// From the greatest on; 0 is none.
    parts: [u32; PARTS],
    offset: u64,
}

impl Sum {
    /// A value alone.
    pub(super) fn of(value: u32) -> Sum {
        Sum { parts: [value << SHIFT_BITS, 0, 0], offset: 0 }
    }

    /// A number.
    fn number(offset: u64) -> Sum {
        Sum { parts: [0; PARTS], offset }
    }

    /// Its values, each with its shift.
    pub(super) fn parts(self) -> [Option<(u32, u8)>; PARTS] {
        let shift = |part: u32| (part & ((1 << SHIFT_BITS) - 1)) as u8;
        self.parts.map(|part| (part != 0).then(|| (part >> SHIFT_BITS, shift(part))))
    }

    /// Its number.
    pub(super) fn offset(self) -> u64 {
        self.offset
    }

    /// This and a number.
    pub(in super::super) fn and(self, offset: i64) -> Sum {
        Sum { offset: self.offset.wrapping_add(offset as u64), ..self }
    }

    /// Both, if those are few enough values.
    pub(in super::super) fn plus(self, other: Sum) -> Option<Sum> {
        let mut parts = [0; 2 * PARTS];
        parts[..PARTS].copy_from_slice(&self.parts);
        parts[PARTS..].copy_from_slice(&other.parts);
        parts.sort_unstable_by_key(|&part| std::cmp::Reverse(part));
        let offset = self.offset.wrapping_add(other.offset);
        let parts = (parts[PARTS] == 0).then(|| [parts[0], parts[1], parts[2]])?;
        Some(Sum { parts, offset })
    }

    /// This times a power of two.
    pub(in super::super) fn shifted(self, by: u8) -> Option<Sum> {
        let is_short = |part: u32| (part & ((1 << SHIFT_BITS) - 1)) + u32::from(by) < 64;
        let fits = self.parts.iter().all(|&part| is_short(part));
        let parts = self.parts.map(|part| if part == 0 { 0 } else { part + u32::from(by) });
        fits.then(|| Sum { parts, offset: self.offset << by })
    }

    /// How far it is from another one, if that can be known.
    fn distance(self, other: Sum) -> Option<u64> {
        let far = self.offset.wrapping_sub(other.offset) as i64;
        (self.parts == other.parts).then_some(far.unsigned_abs())
    }
}

/// An address, and how far it is at most from one inside the window.
#[derive(Clone, Copy, Debug)]
struct Inside {
    address: Sum,
    far: u64,
}

/// What registers are sums of, and which sums were addresses.
#[derive(Clone, Debug)]
pub(in super::super) struct Sums {
    of: [Sum; 32],
    /// The latest one last.
    inside: Vec<Inside>,
}

impl Sums {
    /// Each register is a value of its own.
    pub(super) fn new() -> (Sums, u32) {
        let mut sums = Sums { of: [Sum::default(); 32], inside: Vec::new() };
        let values = sums.forget(CODE);
        (sums, values)
    }

    /// Registers hold anything: values behind `last`. The last one then.
    pub(super) fn forget(&mut self, last: u32) -> u32 {
        for n in 1..32 {
            self.of[n] = Sum::of(last + n as u32);
        }
        self.inside.clear();
        last + 31
    }

    /// What register `n` is.
    pub(super) fn of(&self, n: usize) -> Sum {
        self.of[n]
    }

    /// Whether an address is this far at most from one inside the window.
    pub(super) fn is_within(&self, address: Sum, far: u64) -> bool {
        self.distance(address).is_some_and(|distance| distance <= far)
    }

    /// This address is so far at most from one inside the window.
    pub(super) fn note(&mut self, address: Sum, far: u64) {
        self.inside.retain(|inside| inside.address.parts != address.parts);
        if self.inside.len() == INSIDE_MAX {
            self.inside.remove(0);
        }
        self.inside.push(Inside { address, far });
    }

    /// How far an address is at most from one inside the window.
    fn distance(&self, address: Sum) -> Option<u64> {
        let from = |inside: &Inside| inside.far.checked_add(address.distance(inside.address)?);
        self.inside.iter().filter_map(from).min()
    }
}

impl Block<'_> {
    /// What general register `n` is.
    pub(in super::super) fn sum_of(&self, n: usize) -> Sum {
        self.sums.of[n]
    }

    /// General register `n` was written with a sum; without one it is a value of its own.
    pub(in super::super) fn is_sum(&mut self, n: usize, sum: Option<Sum>) {
        if let Some(sum) = sum.filter(|_| n != 0) {
            self.sums.of[n] = sum;
        }
    }

    /// General register `n` was written with a constant.
    pub(super) fn is_constant(&mut self, n: usize, constant: Constant) {
        let Constant { value, relative } = constant;
        let sum = if relative { Sum::of(CODE).and(value as i64) } else { Sum::number(value) };
        self.is_sum(n, Some(sum));
    }

    /// General register `n` is a new value.
    pub(super) fn new_value(&mut self, n: usize) {
        self.values += 1;
        if n != 0 && !mutant!("la64_sum_outlives_a_write") {
            self.sums.of[n] = Sum::of(self.values);
        }
    }

    /// Registers hold anything.
    pub(super) fn forget_sums(&mut self) {
        self.values = self.sums.forget(self.values);
    }

    /// Whether an access at a sum is in the window or the slack beside it.
    pub(in super::super) fn is_near(&self, sum: Sum) -> bool {
        let slack = self.shape.slack;
        let is_near = |far: u64| far < slack && far + ACCESS_MAX <= slack;
        let far = match mutant!("la64_sum_without_its_offset") {
            true => self.sums.distance(sum).map(|_| 0),
            false => self.sums.distance(sum),
        };
        far.is_some_and(is_near)
    }

    /// The code passes an access at a sum only if that is inside the window.
    pub(in super::super) fn passes(&mut self, sum: Sum) {
        self.sums.note(sum, 0);
    }
}
