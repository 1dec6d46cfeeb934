//! Additions, subtractions, logic, products, quotients.

use super::operand::{Extend, Target};
use super::{Lower, suffix};
use crate::code::Exit;
use crate::x86::decode::{Inst, Operand, Reg};
use crate::x86::isa::flag;
use crate::x86::registers::la64;
use littoral_base::mutant;

const RAX: Reg = Reg { number: 0, size: 8, high: false };
const RDX: Reg = Reg { number: 2, size: 8, high: false };

/// A part of a register.
fn sized(r: Reg, size: u8) -> Reg {
    Reg { size, ..r }
}

impl Lower {
    /// The LBT instruction that leaves an operation's flags, if they are read.
    pub(super) fn flags(&mut self, name: &str, size: u8, operands: &[u8]) {
        if self.needs(flag::ALL) && self.is_plain() {
            self.plain_flags(name, size, operands);
        } else if self.needs(flag::ALL) {
            let operands: Vec<i64> = operands.iter().map(|&o| o.into()).collect();
            self.op(&format!("{name}{}", suffix(size)), &operands);
        }
    }

    pub(super) fn arithmetic(&mut self, inst: &Inst) {
        if self.begins_group() && matches!(inst.row.stem, "cmp" | "test") {
            return self.compare(inst);
        }
        if self.by_number(inst) {
            return;
        }
        let target = self.target(inst.operand(0));
        let size = inst.size_of_first();
        let a = self.read_target(target, Extend::Any);
        let b = match inst.operands().nth(1) {
            Some(operand) => self.read(operand, Extend::Any),
            None => 0,
        };
        if matches!(inst.row.stem, "cmp" | "test") {
            return self.flags_of(inst.row.stem, size, a, b, 0);
        }
        let source = self.difference(inst, a, b);
        let d = self.result_of(inst, target);
        let carries = matches!(inst.row.stem, "adc" | "sbb");
        if matches!(target, Target::Mem(..)) || carries {
            self.operate(inst.row.stem, d, a, b, size);
            self.store_target(target, d);
            self.spare_temps(0, &[a, b, d]);
            self.flags_of(inst.row.stem, size, a, b, d);
        } else {
            self.flags_of(inst.row.stem, size, a, b, d);
            self.operate(inst.row.stem, d, a, b, size);
        }
        self.write_target(target, d, self.extension(inst));
        if self.begins_group() {
            self.set_source(source.unwrap_or(Self::result_source(inst, d)), size);
        }
    }

    /// What an operation in a register leaves above its result.
    fn extension(&self, inst: &Inst) -> Extend {
        let zeros = |n| inst.operands().nth(n).is_some_and(|o| self.has_zeros(o));
        let is_memory = matches!(inst.operands().nth(1), Some(Operand::Mem(_)));
        let has_zeros = match inst.row.stem {
            "and" => zeros(0) || zeros(1) || is_memory,
            "or" | "xor" => zeros(0) && (zeros(1) || is_memory),
            _ => false,
        };
        if has_zeros && inst.size_of_first() == 4 { Extend::Zero } else { Extend::Any }
    }

    /// An operation of a register of 32 or 64 bits and a small number, or a register and itself,
    /// whose flags are not read.
    fn by_number(&mut self, inst: &Inst) -> bool {
        let Operand::Reg(r @ Reg { size: 4.., .. }) = inst.operand(0) else { return false };
        let (d, name) = (la64(r.number), inst.row.stem);
        let same = inst.operands().nth(1) == Some(inst.operand(0));
        if self.needs(flag::ALL) || self.needs_operands(inst) {
            return false;
        }
        let wide = if r.size == 4 { "addi.w" } else { "addi.d" };
        let zeros = self.has_zeros(inst.operand(0));
        let is_clean = match (name, inst.operands().nth(1)) {
            ("xor" | "sub", _) if same => {
                self.rrr("or", d, 0, 0);
                true
            }
            ("add", Some(Operand::Imm(n @ -2048..2048))) => {
                self.rri(wide, d, d, n);
                false
            }
            ("sub", Some(Operand::Imm(n @ -2047..2049))) => {
                self.rri(wide, d, d, -n);
                false
            }
            ("and", Some(Operand::Imm(n @ 0..4096))) => {
                self.rri("andi", d, d, n);
                true
            }
            ("or" | "xor", Some(Operand::Imm(n @ 0..4096))) => {
                self.rri(if name == "or" { "ori" } else { "xori" }, d, d, n);
                zeros
            }
            _ => return false,
        };
        if r.size == 4 && !is_clean {
            self.pick(d, d, 31, 0);
        }
        if self.begins_group() {
            self.set_source(Self::result_source(inst, d), r.size);
        }
        true
    }

    /// The register for a result: the destination itself where the operands are dead by then.
    fn result_of(&mut self, inst: &Inst, target: Target) -> u8 {
        let carries = matches!(inst.row.stem, "adc" | "sbb");
        match target {
            Target::Reg(r) if r.size >= 4 && !carries => la64(r.number),
            Target::Reg(_) | Target::Mem(..) => self.temp(),
        }
    }

    /// d = a operation b; the bits above the size are open.
    pub(super) fn operate(&mut self, name: &str, d: u8, a: u8, b: u8, size: u8) {
        let wide = if size == 4 { ".w" } else { ".d" };
        match name {
            "add" | "sub" => self.rrr(&format!("{name}{wide}"), d, a, b),
            "inc" => self.rri(&format!("addi{wide}"), d, a, 1),
            "dec" => self.rri(&format!("addi{wide}"), d, a, -1),
            "neg" => self.rrr(&format!("sub{wide}"), d, 0, a),
            "not" => self.rrr("nor", d, a, 0),
            "and" | "or" | "xor" => self.rrr(name, d, a, b),
            "adc" if mutant!("x86_carry_not_read") => self.rrr("add.d", d, a, b),
            "adc" | "sbb" if self.is_plain() => {
                let carry = self.carry_bit();
                let name = if name == "adc" { "add.d" } else { "sub.d" };
                self.rrr(name, d, a, b);
                self.rrr(name, d, d, carry);
            }
            "adc" => self.rrr(&format!("adc{}", suffix(size)), d, a, b),
            "sbb" => self.rrr(&format!("sbc{}", suffix(size)), d, a, b),
            _ => unreachable!("{name} is no operation"),
        }
    }

    /// The flags of an operation on a and b with the result r (where it is known before).
    pub(super) fn flags_of(&mut self, name: &str, size: u8, a: u8, b: u8, r: u8) {
        match name {
            "add" => self.flags("x86add", size, &[a, b]),
            "sub" | "cmp" => self.flags("x86sub", size, &[a, b]),
            "and" | "test" => self.flags("x86and", size, &[a, b]),
            "or" => self.flags("x86or", size, &[a, b]),
            "xor" => self.flags("x86xor", size, &[a, b]),
            "adc" => self.flags("x86adc", size, &[a, b]),
            "sbb" => self.flags_of_borrow(size, a, b, r),
            "inc" if self.needs(flag::ALL & !flag::C) => self.flags("x86inc", size, &[a]),
            "dec" if self.needs(flag::ALL & !flag::C) => self.flags("x86dec", size, &[a]),
            "neg" => self.flags("x86sub", size, &[0, a]),
            _ => {}
        }
    }

    /// `x86sbc` derives the adjust flag without the borrow.
    fn flags_of_borrow(&mut self, size: u8, a: u8, b: u8, r: u8) {
        self.flags("x86sbc", size, &[a, b]);
        if self.needs(flag::A) && !self.is_plain() && !mutant!("x86_borrow_without_adjust") {
            let t = self.temp();
            self.rrr("xor", t, a, b);
            self.rrr("xor", t, t, r);
            self.op("x86mtflag", &[t.into(), flag::A.into()]);
        }
    }

    /// mul and imul to rdx and rax (ax for bytes).
    pub(super) fn product(&mut self, inst: &Inst) {
        let (size, signed) = (inst.size_of_first(), inst.is("imul1"));
        let extend = if signed { Extend::Sign } else { Extend::Zero };
        let b = self.read(inst.operand(0), extend);
        let a = self.part(sized(RAX, size), extend);
        if self.is_plain() {
            self.plain_product(signed, size, a, b);
        } else if self.needs(flag::ALL) {
            let unsigned = if signed { "" } else { "u" };
            self.rr(&format!("x86mul{}{unsigned}", suffix(size)), a, b);
        }
        let (low, high) = (self.temp(), self.temp());
        if size == 8 {
            self.rrr(if signed { "mulh.d" } else { "mulh.du" }, high, a, b);
        }
        self.rrr("mul.d", low, a, b);
        match size {
            1 => self.insert(la64(0), low, 15, 0),
            8 => {
                self.copy(la64(0), low);
                self.copy(la64(2), high);
            }
            _ => {
                let bits = 8 * i64::from(size);
                self.pick(high, low, 2 * bits - 1, bits);
                self.write(sized(RAX, size), low, Extend::Any);
                self.write(sized(RDX, size), high, Extend::Zero);
            }
        }
    }

    /// imul with two or three operands.
    pub(super) fn product_low(&mut self, inst: &Inst) {
        let size = inst.size_of_first();
        let operands: Vec<Operand> = inst.operands().collect();
        let (first, second) = match operands[..] {
            [_, first, second] => (first, second),
            _ => (operands[0], operands[1]),
        };
        let (a, b) = (self.read(first, Extend::Any), self.read(second, Extend::Any));
        self.flags("x86mul", size, &[a, b]);
        if let Operand::Reg(r @ Reg { size: 8, .. }) = operands[0] {
            return self.rrr("mul.d", la64(r.number), a, b);
        }
        let t = self.temp();
        self.rrr("mul.d", t, a, b);
        self.assign(operands[0], t, Extend::Any);
    }

    pub(super) fn quotient(&mut self, inst: &Inst) {
        let (size, signed) = (inst.size_of_first(), inst.is("idiv"));
        let extend = if signed { Extend::Sign } else { Extend::Zero };
        let b = self.read(inst.operand(0), extend);
        let fails = self.event(Exit::Divide);
        if size == 8 {
            return self.quotient_64(inst, b, signed);
        }
        self.asm.branch("beqz", &[b.into()], fails);
        let a = self.dividend(size, signed);
        let (q, r, t) = (self.temp(), self.temp(), self.temp());
        let unsigned = if signed { "" } else { "u" };
        self.rrr(&format!("div.d{unsigned}"), q, a, b);
        self.rrr(&format!("mod.d{unsigned}"), r, a, b);
        self.extend(t, q, size, extend);
        self.asm.branch("bne", &[t.into(), q.into()], fails);
        if size == 1 {
            self.insert(la64(0), q, 7, 0);
            self.insert(la64(0), r, 15, 8);
        } else {
            self.write(sized(RAX, size), q, Extend::Any);
            self.write(sized(RDX, size), r, Extend::Any);
        }
    }

    /// The dividend of twice the size, up to 64 bits.
    fn dividend(&mut self, size: u8, signed: bool) -> u8 {
        let t = self.temp();
        match size {
            1 => self.copy(t, la64(0)),
            _ => {
                let bits = 8 * i64::from(size);
                self.pick(t, la64(0), bits - 1, 0);
                self.insert(t, la64(2), 2 * bits - 1, bits);
            }
        }
        let extend = if signed { Extend::Sign } else { Extend::Zero };
        let wide = self.temp();
        self.extend(wide, t, 2 * size, extend);
        wide
    }

    /// A division of 128 bits: here where the upper half only extends the lower one.
    fn quotient_64(&mut self, inst: &Inst, b: u8, signed: bool) {
        let (rax, rdx) = (la64(0), la64(2));
        let wide = self.event(Exit::Assist(inst.at));
        let t = self.temp();
        self.asm.branch("beqz", &[b.into()], wide);
        if signed && !mutant!("x86_wide_quotient_by_half") {
            self.rri("srai.d", t, rax, 63);
            self.asm.branch("bne", &[t.into(), rdx.into()], wide);
            // The quotient of the least number and -1 does not fit.
            self.rri("addi.d", t, b, 1);
            self.asm.branch("beqz", &[t.into()], wide);
        } else if !signed {
            self.asm.branch("bnez", &[rdx.into()], wide);
        }
        let unsigned = if signed { "" } else { "u" };
        let b = if b == rax || b == rdx { self.copied(b) } else { b };
        self.rrr(&format!("mod.d{unsigned}"), t, rax, b);
        self.rrr(&format!("div.d{unsigned}"), rax, rax, b);
        self.copy(rdx, t);
    }
}
