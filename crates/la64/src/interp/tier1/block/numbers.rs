//! Constants that instructions take as numbers of their own code, as displacements and immediates,
//! so that their registers need not hold them. So do they with what was added to registers on a
//! region's path: a pointer that walks through an array moves once on a path of many rounds.
//!
//! A register with such a step is in a host register. The slow way of an access adds the step, and
//! takes it back when tier 0 has come back. Checked by `steps_are_added_before_anything_sees_them`.

use super::super::constants::{Due, Owed};
use super::super::layout::{ADDRESS_MAX, SLACK_MIN};
use super::{Block, Decoded};
use crate::jit::emit::{LEA, Mem, NO_BASE};
use littoral_base::mutant;

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

    /// Whether the instruction takes what is due to general register `n` in another way than by the
    /// register.
    fn takes(&self, d: &Decoded, n: usize) -> bool {
        match self.constants.step(n) {
            _ if self.constants.scale(n) > 0 => true,
            0 => self.takes_number(d, n),
            _ => self.takes_step(d, n),
        }
    }

    /// The same of a step.
    fn takes_step(&self, d: &Decoded, n: usize) -> bool {
        let name = d.lowering.map(|lowering| lowering.name);
        let stored = || d.operands.reads_general_rd() && d.rd() == n;
        if self.shape.guarded || self.shape.slack < SLACK_MIN {
            return false;
        }
        if d.operands.is_offset() {
            let (rj, imm) = (d.rj(), d.imm() as i32);
            let near = || self.is_checked(rj, imm) || self.is_near(self.sum_of(rj).and(d.imm()));
            return n == rj && !stored() && near();
        }
        if d.operands.is_index() {
            let are_pinned = self.pin(d.rj()).is_some() && self.pin(d.rk()).is_some();
            return are_pinned && !stored() && self.constant_index(d).is_none();
        }
        match name {
            Some("addi.d") => self.later_step(d).is_some(),
            Some("beqz" | "bnez") => true,
            Some("beq" | "bne") => {
                let (operand, step) = (self.constant_operand(d), self.constants.step(n));
                operand.is_some_and(|(of, number, _)| of == n && number.checked_sub(step).is_some())
            }
            _ => false,
        }
    }

    /// What is to be added to rd behind this addition of an immediate to rd, if that may be later.
    pub(in super::super) fn later_step(&self, d: &Decoded) -> Option<i32> {
        let n = d.rd();
        let may_wait = self.region.is_some() && n == d.rj() && self.pin(n).is_some();
        let step = self.constants.step(n).checked_add(i32::try_from(d.imm()).ok()?)?;
        (may_wait && u64::from(step.unsigned_abs()) < STEP_END).then_some(step)
    }

    /// A number is added to general register `n` later.
    pub(in super::super) fn put_step(&mut self, n: usize, step: i32) {
        self.wrote(n);
        self.constants.put_step(n, step);
    }

    /// What general register `n` holds less than it should.
    pub(in super::super) fn step(&self, n: usize) -> i32 {
        self.constants.step(n)
    }

    /// Whether the next instruction alone needs general register `n` shifted to the left: it loads
    /// by `n` and another register, into `n`. The address of the access has the scale then.
    pub(in super::super) fn is_scale(&self, n: usize, by: u8) -> bool {
        let Some(next) = self.ahead(1) else { return false };
        let loads = next.operands.is_index() && next.operands.writes_general_rd();
        let other = if next.rj() == n { next.rk() } else { next.rj() };
        let names = next.rd() == n && other != n && [next.rj(), next.rk()].contains(&n);
        let simple = self.constant(other).is_none() && self.shape.slack >= SLACK_MIN;
        (1..=3).contains(&by) && loads && names && simple && self.pin(n).is_some()
    }

    /// General register `n` is shifted for the next instruction alone.
    pub(in super::super) fn put_scale(&mut self, n: usize, by: u8) {
        self.wrote(n);
        self.constants.put_scale(n, by);
    }

    /// By how much an access is to shift general register `n`.
    pub(in super::super) fn scale(&self, n: usize) -> u8 {
        self.constants.scale(n)
    }

    /// Shifts general register `n` to the left, keeping flags.
    pub(super) fn shift_by_scale(&mut self, n: usize, by: u8) {
        let r = self.pin(n).expect("invariant: what is scaled is in host registers");
        if !mutant!("la64_scale_left_out_at_faults") {
            self.asm.op(LEA, true, r, Mem::indexed(NO_BASE, r, by, 0));
        }
    }

    /// Adds a number to general register `n`, keeping flags.
    pub(super) fn add_step(&mut self, n: usize, step: i32) {
        let r = self.pin(n).expect("invariant: steps are in host registers");
        self.asm.op(LEA, true, r, Mem::at(r, step));
    }

    /// What a slow way, before which this was due, is to take back behind it: steps that the
    /// instruction has left.
    pub(super) fn steps_kept(&self, due: &Due) -> Due {
        if mutant!("la64_steps_kept_by_the_slow_way") {
            return Due::new();
        }
        let back = |&(n, owed): &(usize, Owed)| match owed {
            Owed::Step(step) if self.constants.step(n) == step => Some((n, Owed::Step(-step))),
            Owed::Step(_) | Owed::Scale(_) | Owed::Constant(_) => None,
        };
        due.iter().filter_map(back).collect()
    }

    /// Writes the constants in registers that the current instruction reads.
    pub(in super::super) fn settle(&mut self, d: &Decoded) {
        if !self.constants.are_any_due() {
            return self.constants.begin();
        }
        for n in d.operands.reads(d.numbers()) {
            if self.constants.is_due(n) && !self.takes(d, n) {
                let due = self.constants.take(n);
                self.write_due(&due);
            }
        }
        self.constants.begin();
    }
}
