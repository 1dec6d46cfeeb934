//! Constants that instructions take as numbers of their own code, as displacements and immediates,
//! so that their registers need not hold them.

use super::super::layout::{ADDRESS_MAX, SLACK_MIN};
use super::{Block, Decoded};

/// Numbers below this, of either sign, are steps rather than addresses.
const STEP_END: u64 = 1 << 15;

impl Block<'_> {
    /// The address of an access at rj + immediate, where it is a displacement.
    pub(in super::super) fn constant_address(&self, d: &Decoded) -> Option<i32> {
        let address = self.constant(d.rj())?.wrapping_add(d.imm() as u64);
        self.as_address(address)
    }

    /// A guest address as a displacement from the window's beginning.
    pub(in super::super) fn as_address(&self, address: u64) -> Option<i32> {
        (address < self.shape.near && address < ADDRESS_MAX).then_some(address as i32)
    }

    /// The fields of an access at rj + rk as a register and a number, if one of them holds a
    /// constant that can be a displacement.
    pub(in super::super) fn constant_index(&self, d: &Decoded) -> Option<(usize, usize, i32)> {
        let (rj, rk) = (d.rj(), d.rk());
        if self.shape.slack < SLACK_MIN || rj == rk {
            return None;
        }
        let number = |n: usize| {
            let number = self.constant(n)?;
            let step = (number as i64).unsigned_abs() < STEP_END;
            if step { Some(number as i32) } else { self.as_address(number) }
        };
        let of_k = || number(rk).map(|number| (rj, rk, number));
        of_k().or_else(|| number(rj).map(|number| (rk, rj, number)))
    }

    /// Whether a displacement of an access by a sum is an address rather than a step.
    pub(in super::super) fn is_address(&self, number: i32) -> bool {
        u64::from(number.unsigned_abs()) >= STEP_END
    }

    /// The fields of a comparing branch as a register and a number, and whether they are swapped.
    pub(in super::super) fn constant_operand(&self, d: &Decoded) -> Option<(usize, i32, bool)> {
        let compares = d.branches && d.operands.reads_general_rd();
        let (rj, rd) = (d.rj(), d.rd());
        if !compares || rj == rd || rj == 0 || rd == 0 {
            return None;
        }
        let number = |n: usize| i32::try_from(self.constant(n)? as i64).ok();
        let of_d = number(rd).map(|number| (rj, number, false));
        of_d.or_else(|| number(rj).map(|number| (rd, number, true)))
    }

    /// Whether the instruction takes what general register `n` holds as a number.
    fn takes_number(&self, d: &Decoded, n: usize) -> bool {
        let stored = || d.operands.reads_general_rd() && d.rd() == n;
        if d.operands.is_offset() {
            return n == d.rj() && !stored() && self.constant_address(d).is_some();
        }
        if d.operands.is_index() {
            return !stored() && self.constant_index(d).is_some_and(|(_, of, _)| of == n);
        }
        self.constant_operand(d).is_some_and(|(other, ..)| other != n)
    }

    /// Writes the constants in registers that the current instruction reads.
    pub(in super::super) fn settle(&mut self, d: &Decoded) {
        if !self.constants.are_any_due() {
            return self.constants.begin();
        }
        for n in d.operands.reads(d.numbers()) {
            if self.constants.is_due(n) && !self.takes_number(d, n) {
                let due = self.constants.take(n);
                self.write_due(&due);
            }
        }
        self.constants.begin();
    }
}
