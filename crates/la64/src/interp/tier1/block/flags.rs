//! What host flags tell the instruction behind the one that set them.
//!
//! In a region a branch may test a register that the comparison before it has set. The register is
//! then not written: on either side of the branch it is a constant that is due.

use super::super::constants::Constant;
use super::super::layout;
use super::{Block, FLAGS};
use crate::jit::emit::{CMP, Cond, MOV, MOVZX8, RAX, RCX, TEST, XOR_I};
use littoral_base::mutant;

impl Block<'_> {
    /// Host flags say behind this instruction what general register `n`, or the condition flag
    /// [`FLAGS`] below it, says as 0 or 1.
    pub(in super::super) fn flags_tell(&mut self, n: usize, cond: Cond) {
        self.flags = Some((self.at, n, cond));
    }

    /// The condition under which general register or flag `n` is not zero, if host flags tell.
    pub(in super::super) fn told(&self, n: usize) -> Option<Cond> {
        let (at, of, cond) = self.flags?;
        (at + 1 == self.at && of == n).then_some(cond)
    }

    /// Sets the host flags that `flags_tell` promised of a condition flag; tier 0 has written it.
    pub(super) fn tell_again(&mut self, n: usize, cond: Cond) {
        if n < FLAGS || mutant!("la64_flags_of_the_slow_way") {
            return;
        }
        self.asm.op(MOVZX8, false, RAX, layout::fcc(n - FLAGS));
        self.asm.op(MOV, false, RCX, RAX);
        self.asm.arith(XOR_I, false, RCX, 1);
        match cond {
            Cond::Ne => self.asm.op(TEST, false, RAX, RAX),
            Cond::E => self.asm.op(TEST, false, RCX, RCX),
            Cond::A | Cond::Ae | Cond::Np | Cond::G | Cond::Ge | Cond::Ns => {
                self.asm.op(CMP, false, RAX, RCX);
            }
            Cond::B | Cond::Be | Cond::P | Cond::L | Cond::Le | Cond::S => {
                self.asm.op(CMP, false, RCX, RAX);
            }
        }
    }

    /// Leaves general register `n`, which flags tell of, to the branch behind the comparison, if
    /// there is one that tests it.
    pub(in super::super) fn owes(&mut self, n: usize) -> bool {
        let tests = |name| name == "beqz" || name == "bnez";
        let is_tested = |block: &Self| {
            let (behind, region) = (block.ahead(1)?, block.region.as_ref()?);
            let is_test = behind.rj() == n && tests(behind.lowering?.name);
            Some(is_test && region.forks(block.at + 1))
        };
        if is_tested(self) != Some(true) {
            return false;
        }
        self.wrote(n);
        self.owed = Some(n);
        true
    }

    /// A register that the comparison before the current branch left to it holds this on the side
    /// that comes next.
    pub(super) fn settle_owed(&mut self, owed: Option<usize>, is_set: bool) {
        if let Some(n) = owed {
            let value = u64::from(is_set != mutant!("la64_region_condition_reversed"));
            let constant = Constant::fixed(value);
            self.is_constant(n, constant);
            self.constants.put_off(n, constant);
        }
    }
}
