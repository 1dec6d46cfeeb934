//! Branches, jumps, calls, returns.

use super::operand::{Extend, Place};
use super::{Lower, Tail, TailExit};
use crate::code::{Behind, Exit, Source};
use crate::x86::decode::{Inst, Operand, Reg};
use crate::x86::registers::{ENTRIES, LINK, la64};
use littoral_la64::asm::Label;
use std::sync::Arc;

const RSP: u8 = la64(4);

impl Lower {
    pub(super) fn flow(&mut self, inst: &Inst, next: Option<u64>) {
        match (inst.row.stem, inst.target()) {
            ("ret", _) => self.ret(inst),
            ("call", target) => self.call(inst, target),
            ("jmp", Some(target)) => self.go(target, next),
            ("jmp", None) => {
                let target = self.read(inst.operand(0), Extend::Any);
                self.look_up(target);
            }
            (_, target) => {
                let target = target.expect("invariant: a conditional branch has a target");
                let fused = inst.row.condition.is_some_and(|c| self.branch_if(c, target));
                match inst.row.condition.filter(|_| !fused && self.is_plain()) {
                    Some(condition) => self.plain_branch(condition, target),
                    None if fused => {}
                    None => self.branch_on(inst, target),
                }
                self.mark(inst.end());
                self.go(inst.end(), next);
            }
        }
    }

    /// A branch that is taken if a condition, or what counts rcx, says so.
    fn branch_on(&mut self, inst: &Inst, target: u64) {
        let c = self.taken(inst);
        let label = self.label_of(target);
        self.asm.branch("bnez", &[c.into()], label);
    }

    /// A register that is not zero if a conditional branch is taken.
    fn taken(&mut self, inst: &Inst) -> u8 {
        if let Some(condition) = inst.row.condition {
            return self.condition(condition);
        }
        let size = if inst.short { 4 } else { 8 };
        let rcx = Reg { number: 1, size, high: false };
        let t = self.temp();
        if inst.is("jrcxz") {
            let count = self.part(rcx, Extend::Any);
            self.extend(t, count, size, Extend::Zero);
            self.rri("sltui", t, t, 1);
            return t;
        }
        self.rri("addi.d", t, la64(1), -1);
        self.write(rcx, t, Extend::Any);
        self.extend(t, la64(1), size, Extend::Zero);
        if inst.is("loop") {
            return t;
        }
        let wanted = self.condition(if inst.is("loope") { 4 } else { 5 });
        self.rrr("maskeqz", t, t, wanted);
        t
    }

    /// Control goes on at a guest address.
    pub(super) fn go(&mut self, at: u64, next: Option<u64>) {
        if next == Some(at) {
            return;
        }
        match self.label_inside(at) {
            Some(label) => self.asm.branch("b", &[], label),
            None => self.leave(at),
        }
    }

    /// The label of a guest address in the region, unless control leaves behind each instruction.
    fn label_inside(&self, at: u64) -> Option<Label> {
        self.labels.get(&at).copied().filter(|_| !self.conventions.single)
    }

    fn leave(&mut self, pc: u64) {
        let branch = self.word();
        let exit = self.to(pc, branch);
        self.exit(exit);
    }

    /// The exit to a guest address, to which the branch at a place leads.
    pub(super) fn to(&self, pc: u64, branch: u32) -> Exit {
        match self.conventions.single {
            true => Exit::Single(Behind::Next(pc)),
            false => Exit::Direct { pc, branch },
        }
    }

    /// The label of a guest address; of a tail if it is outside. The branch is the next word.
    pub(super) fn label_of(&mut self, at: u64) -> Label {
        if let Some(label) = self.label_inside(at) {
            return label;
        }
        let (label, branch) = (self.asm.label(), self.word());
        let counted = Arc::clone(&self.counted);
        self.tails.push(Tail { label, pc: at, exit: TailExit::Direct(branch), counted });
        label
    }

    fn call(&mut self, inst: &Inst, target: Option<u64>) {
        let register = match target {
            Some(_) => 0,
            None => {
                // The stack pointer moves before the jump.
                let register = self.read(inst.operand(0), Extend::Any);
                if register == RSP { self.copied(register) } else { register }
            }
        };
        let link = self.temp();
        self.guest_address(link, inst.end());
        self.push(link, 8);
        match target {
            // A call's target is no part of the region, so that a function is translated once.
            Some(target) => {
                self.mark(target);
                self.leave(target);
            }
            None => self.look_up(register),
        }
    }

    fn ret(&mut self, inst: &Inst) {
        let target = self.load(Place { base: RSP, displacement: 0 }, 8, Extend::Any);
        let bytes = match inst.operands().next() {
            Some(Operand::Imm(bytes)) => bytes & 0xffff,
            Some(Operand::Reg(_) | Operand::Xmm(_) | Operand::Mm(_))
            | Some(Operand::Mem(_) | Operand::Target(_))
            | None => 0,
        };
        match 8 + bytes {
            up @ 0..2048 => self.rri("addi.d", RSP, RSP, up),
            up => {
                let t = self.number(up);
                self.rrr("add.d", RSP, RSP, t);
            }
        }
        self.look_up(target);
    }

    /// Jumps to the code of the guest address in a register. The table of entries holds 0 for
    /// addresses without code: control then arrives at address 0, and the register [`LINK`] says
    /// from where.
    fn look_up(&mut self, register: u8) {
        if self.conventions.single {
            self.copy(LINK, register);
            return self.exit(Exit::Single(Behind::Linked));
        }
        self.rri("rotri.d", LINK, register, 62);
        let word = self.word();
        self.region.exits.push((word, Exit::Indirect(Source::Register(register))));
        // No access of the guest: nothing comes between it and the jump.
        self.asm.op("ldx.wu", &[LINK, LINK, ENTRIES].map(i64::from));
        self.op("jirl", &[LINK.into(), LINK.into(), 0]);
    }
}
