//! Branches, jumps, calls, traps.

use super::{Lower, d, fix_of, s, t};
use crate::code::{Exit, Source};
use crate::mips64::fuse::Condition;
use crate::mips64::isa::{Field, Inst, RA};
use crate::mips64::registers::{ENTRIES, SCRATCH, la64, target_place};
use littoral_la64::asm::Label;

/// The branch taken when `code` is not.
fn inverse(code: &str) -> &'static str {
    match code {
        "beq" => "bne",
        "bne" => "beq",
        "blt" => "bge",
        "bge" => "blt",
        "bltu" => "bgeu",
        "bgeu" => "bltu",
        "bcnez" => "bceqz",
        "bceqz" => "bcnez",
        _ => unreachable!("no branch is called {code}"),
    }
}

impl Lower {
    pub(super) fn branch(
        &mut self,
        branch: &Inst,
        slot: &Inst,
        condition: Option<Condition>,
        next: Option<u64>,
    ) {
        let fix = fix_of(condition);
        let pc = if fix.is_some() { branch.at.wrapping_sub(4) } else { branch.at };
        self.group(pc, branch.at, fix);
        if branch.is_call() {
            let link = if branch.is("jalr") { d(branch) } else { la64(RA) };
            if branch.is("jalr") && conflicts(branch, slot) {
                return self.jump_to_saved(branch, slot, Some(link));
            }
            self.link_address(link, branch.at.wrapping_add(8));
        }
        match (branch.special().map(|s| s.0), branch.target()) {
            (Some("jr" | "jalr"), _) => self.jump_register(branch, slot),
            (Some("j" | "jal"), Some(target)) => self.jump(slot, target, branch.is_call(), next),
            (_, Some(target)) if branch.is_always() => {
                self.jump(slot, target, branch.is_call(), next);
            }
            (_, Some(target)) => self.conditional(branch, slot, condition, target, next),
            (_, None) => unreachable!("{} has a target", branch.row.mnemonic),
        }
    }

    /// The code of a delay slot, which belongs to its branch.
    fn slot(&mut self, slot: &Inst) {
        if !slot.is("nothing") && slot.word != 0 {
            self.one(slot);
        }
    }

    fn jump(&mut self, slot: &Inst, target: u64, is_call: bool, next: Option<u64>) {
        self.slot(slot);
        if is_call {
            // A call's target is no part of the region, so that a function is translated once.
            let branch = self.word();
            self.exit(Exit::Direct { pc: target, branch });
        } else {
            self.go(target, next);
        }
    }

    fn conditional(
        &mut self,
        branch: &Inst,
        slot: &Inst,
        condition: Option<Condition>,
        target: u64,
        next: Option<u64>,
    ) {
        let behind = branch.at.wrapping_add(8);
        if branch.is_likely() {
            let skip = self.asm.label();
            self.test(branch, condition, true, skip);
            self.count(1);
            self.slot(slot);
            self.go(target, None);
            self.asm.bind(skip);
        } else if conflicts_with(branch, slot, condition) {
            let taken = self.asm.label();
            self.test(branch, condition, false, taken);
            self.slot(slot);
            self.go(behind, None);
            self.asm.bind(taken);
            self.slot(slot);
            return self.go(target, next);
        } else {
            self.slot(slot);
            let label = self.label_of(target);
            self.test(branch, condition, false, label);
        }
        self.mark(behind);
        self.go(behind, next);
    }

    /// Branches to `label` if the condition holds, or if it does not.
    fn test(&mut self, branch: &Inst, condition: Option<Condition>, inverted: bool, label: Label) {
        let choose = |code: &'static str| if inverted { inverse(code) } else { code };
        let Some(c) = condition else {
            let code = branch.special().and_then(|s| s.1.first().copied());
            let code = choose(code.expect("invariant: a branch on a flag names its code"));
            return self.asm.branch(code, &[branch.get(Field::C)], label);
        };
        let (code, a, b) = (choose(c.code), i64::from(la64(c.a)), i64::from(la64(c.b)));
        match code {
            "beq" if b == 0 => self.asm.branch("beqz", &[a], label),
            "bne" if b == 0 => self.asm.branch("bnez", &[a], label),
            _ => self.asm.branch(code, &[a, b], label),
        }
    }

    /// Puts a guest address into a register.
    fn link_address(&mut self, register: u8, address: u64) {
        let here = self.base + 4 * u64::from(self.word());
        let distance = address.wrapping_sub(here) as i64;
        let upper = (distance + 0x800) >> 12;
        if (-0x8_0000..0x8_0000).contains(&upper) {
            self.op("pcaddu12i", &[register.into(), upper]);
            let low = distance - (upper << 12);
            if low != 0 {
                self.op("addi.d", &[register.into(), register.into(), low]);
            }
        } else {
            self.asm.li(register, address as i64);
        }
    }

    fn jump_register(&mut self, branch: &Inst, slot: &Inst) {
        if conflicts(branch, slot) {
            return self.jump_to_saved(branch, slot, None);
        }
        self.slot(slot);
        self.look_up(s(branch), Source::Register(s(branch)));
    }

    /// A jump whose register is overwritten before it: by the link or by the delay slot.
    fn jump_to_saved(&mut self, branch: &Inst, slot: &Inst, link: Option<u8>) {
        let (upper, target) = target_place();
        let (upper, target) = (i64::from(upper), i64::from(target));
        self.op("xvinsgr2vr.d", &[upper, s(branch).into(), target]);
        if let Some(link) = link {
            self.link_address(link, branch.at.wrapping_add(8));
        }
        self.slot(slot);
        self.op("xvpickve2gr.d", &[SCRATCH.into(), upper, target]);
        self.look_up(SCRATCH, Source::Upper);
    }

    /// Jumps to the code of the guest address in a register. The table of entries holds 0 for
    /// addresses without code: control then arrives at address 0, and the scratch register says
    /// from where.
    fn look_up(&mut self, register: u8, source: Source) {
        let word = self.word();
        self.region.exits.push((word, Exit::Indirect(source)));
        self.rrr("ldx.wu", SCRATCH, register, ENTRIES);
        self.op("jirl", &[SCRATCH.into(), SCRATCH.into(), 0]);
    }

    pub(super) fn trap(&mut self, inst: &Inst, immediate: bool, unless: &'static str) {
        let code = inst.get(Field::H) << 5 | inst.get(Field::B);
        let behind = self.asm.label();
        let other = if immediate {
            self.asm.li(SCRATCH, inst.get(Field::I));
            SCRATCH
        } else {
            t(inst)
        };
        self.asm.branch(unless, &[s(inst).into(), other.into()], behind);
        self.exit(Exit::Trap(if immediate { 0 } else { code as u32 }));
        self.asm.bind(behind);
    }
}

/// Whether the delay slot or the link writes what a branch on general registers or a jump reads.
fn conflicts(branch: &Inst, slot: &Inst) -> bool {
    let link = branch.writes().meets(branch.reads());
    link || slot.writes().meets(branch.reads())
}

fn conflicts_with(branch: &Inst, slot: &Inst, condition: Option<Condition>) -> bool {
    match condition {
        Some(c) => slot.writes().has(c.a) || slot.writes().has(c.b),
        None => slot.writes().meets(branch.reads()),
    }
}
