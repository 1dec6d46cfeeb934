//! Ways out of a block: branches, calls and returns.
//!
//! - An exit counts the instructions so far. It leads to the next block's code once that exists;
//!   when the slice is used up, it leads to the dispatch loop.
//! - A call pushes the host address behind itself, where the guest's return address is compared; a
//!   return goes to the host address on top.

use super::super::constants::Constant;
use super::super::layout::{self, COUNT};
use super::super::routines;
use super::{Block, Cold, Exit};
use crate::jit::emit::{CALL_RM, CMP, CMP_I, Cond, JMP_RM, RAX, RCX, RSP, SUB_I};
use littoral_base::mutant;

impl Block<'_> {
    /// Counts the instructions so far and goes to a guest address, unless the slice is used up.
    pub(in super::super) fn exit(&mut self, target: u64, count: u16, linked: bool) {
        let due = self.constants.due();
        self.write_due(&due);
        let back = self.region.is_none() && self.has_own_pins && target == self.list[0].pc;
        let counted = self.shape.counted;
        let (on, opcode_bytes) = if counted { (Some(Cond::Ns), 2) } else { (None, 1) };
        if back {
            self.retire(count);
            self.asm.jump(on, self.head);
            self.standard_pins();
            return self.leave_by(None, target, false);
        }
        self.standard_pins();
        self.retire(count);
        let mut is_known = false;
        let site = linked.then(|| {
            // The displacement stands behind the opcode.
            self.asm.align_patched(opcode_bytes);
            let here = self.asm.here() + opcode_bytes + 4;
            let known = self.entry_of(target, self.head);
            // Another key than an address stands for plain code.
            let find = || self.known.find(target).filter(|_| target.is_multiple_of(4));
            let known = known.or_else(|| find().map(|known| known.start as usize));
            is_known = known.is_some();
            self.asm.jump(on, known.unwrap_or(here)) as u32
        });
        self.leave_by(site, target, is_known);
    }

    /// Where this block's own code of an address is entered, which is `start` if there is one path.
    fn entry_of(&self, target: u64, start: usize) -> Option<usize> {
        match &self.region {
            Some(region) => region.entry_of(target),
            None => (target == self.list[0].pc).then_some(start),
        }
    }

    /// Counts instructions.
    pub(super) fn retire(&mut self, count: u16) {
        if self.shape.counted {
            self.asm.arith(SUB_I, true, COUNT, count.into());
        }
    }

    /// Leaves for the dispatch loop by a new exit, which may be linked already.
    pub(super) fn leave_by(&mut self, site: Option<u32>, target: u64, linked: bool) {
        let id = self.first_exit + self.exits.len() as u32;
        self.exits.push(Exit { site, target, plain: false, linked });
        self.leave_as(id);
    }

    /// Leaves for the dispatch loop by the exit of this number.
    fn leave_as(&mut self, id: u32) {
        self.asm.mov_imm_keeping_flags(RAX, id.into());
        self.sites.exits.push(self.asm.here() - 4);
        self.asm.jump(None, self.routines.leave);
    }

    /// Leaves for the branch's target if `cond` holds.
    pub(in super::super) fn exit_if(&mut self, cond: Cond, target: u64) {
        if self.region.is_some() {
            return self.fork(cond);
        }
        // A branch backward is mostly taken.
        if target <= self.list[self.at].pc {
            let on = self.asm.jump_near(Some(cond.opposite()));
            self.exit(target, self.count(), true);
            self.asm.bind_near(on);
        } else {
            let from = self.asm.jump_near(Some(cond));
            let count = self.count() - u16::from(mutant!("la64_side_exit_counts_less"));
            let due = self.constants.due();
            self.cold.push(Cold::Exit { from, target, count, due });
        }
    }

    /// Counts the instructions so far; leaves for the address in rax if the slice is used up.
    fn count_for_rax(&mut self) {
        self.standard_pins();
        self.retire(self.count());
        if self.shape.counted {
            self.asm.jump(Some(Cond::S), self.routines.missed);
        }
    }

    /// The condition under which a call leaves instead: the slice is used up or, in code without a
    /// count, calls without returns have used up the stack.
    fn before_call(&mut self) -> Cond {
        if self.shape.counted {
            self.retire(self.count());
            return Cond::S;
        }
        self.asm.op(CMP, true, RSP, layout::FLOOR);
        Cond::B
    }

    /// Leaves for the address in rax.
    pub(in super::super) fn exit_indirect(&mut self) {
        self.count_for_rax();
        routines::probe(&mut self.asm, self.routines.spare);
        self.asm.unary(JMP_RM, false, routines::FOUND);
    }

    /// Returns to the address in rax, where the latest call probably came from.
    pub(in super::super) fn exit_by_return(&mut self) {
        self.count_for_rax();
        self.asm.ret();
    }

    /// Calls the address in rax; the guest's return address is `back`.
    pub(in super::super) fn exit_by_call_indirect(&mut self, back: u64) {
        self.standard_pins();
        let over = self.before_call();
        self.asm.jump(Some(over), self.routines.missed);
        routines::probe(&mut self.asm, self.routines.spare);
        self.asm.unary(CALL_RM, false, routines::FOUND);
        self.returned(back);
    }

    /// Calls a fixed guest address; the guest's return address is `back`.
    pub(in super::super) fn exit_by_call(&mut self, target: u64, back: u64) {
        self.settle_all();
        self.standard_pins();
        let over = self.before_call();
        let over = self.asm.jump_near(Some(over));
        self.asm.align_patched(1);
        let site = self.asm.call_near();
        let find = || self.known.find(target).map(|known| known.start as usize);
        let known = self.entry_of(target, self.start).or_else(find);
        self.returned(back);
        self.asm.bind_near(over);
        match known {
            Some(start) => self.asm.bind_near_to(site, start),
            None => self.asm.bind_near(site),
        }
        self.leave_by(Some(site as u32), target, known.is_some());
    }

    /// Where the host returns to from a call: the guest has returned to the address in rax, which
    /// is `back` unless it keeps another order of calls and returns than the host.
    pub(super) fn returned(&mut self, back: u64) {
        if !mutant!("la64_returns_unchecked") {
            match i32::try_from(back as i64) {
                Ok(short) => {
                    self.sites.fixed = true;
                    self.asm.arith(CMP_I, true, RAX, short);
                }
                Err(_) => {
                    self.move_constant(RCX, Constant::relative(back));
                    self.asm.op(CMP, true, RAX, RCX);
                }
            }
            self.asm.jump(Some(Cond::Ne), self.routines.probe);
        }
        self.asm.align_patched(1);
        let here = self.asm.here() + 5;
        let known = self.known.find(back).map(|known| known.start as usize);
        let site = self.asm.jump(None, known.unwrap_or(here)) as u32;
        self.leave_by(Some(site), back, known.is_some());
    }

    /// Goes on in the code with all checks of the loop at `target`, which is made when needed.
    pub(super) fn leave_for_plain(&mut self, target: u64) {
        let id = self.first_exit + self.exits.len() as u32;
        self.asm.align_patched(1);
        let site = self.asm.jump_near(None);
        self.asm.bind_near(site);
        let site = Some(site as u32);
        self.exits.push(Exit { site, target, plain: true, linked: false });
        self.leave_as(id);
    }
}
