//! Counts of bits, the order of bytes, flags by themselves.

use super::Lower;
use super::operand::Extend;
use crate::x86::decode::{Inst, Operand, Reg};
use crate::x86::isa::flag;
use crate::x86::registers::{DIRECTION_BIT, FIXED_BITS, TRAP_BIT, VECTOR, la64};

impl Lower {
    pub(super) fn count(&mut self, inst: &Inst) {
        let size = inst.size_of_first();
        let a = self.read(inst.operand(1), Extend::Zero);
        let r = self.temp();
        match inst.row.stem {
            "bsf" => self.rr("ctz.d", r, a),
            "bsr" => {
                self.rr("clz.d", r, a);
                self.rri("xori", r, r, 63);
            }
            "popcnt" => self.population(r, a),
            "tzcnt" => self.trailing(r, a, size),
            _ => {
                self.rr("clz.d", r, a);
                self.rri("addi.d", r, r, 8 * i64::from(size) - 64);
            }
        }
        self.flags_of_count(inst, a, r);
        let Operand::Reg(d) = inst.operand(0) else { return };
        if matches!(inst.row.stem, "bsf" | "bsr") {
            // The destination stays where there is no bit.
            let old = self.temp();
            self.rrr("maskeqz", r, r, a);
            self.rrr("masknez", old, la64(d.number), a);
            self.rrr("or", r, r, old);
        }
        self.write(d, r, Extend::Any);
    }

    fn population(&mut self, r: u8, a: u8) {
        let v = i64::from(VECTOR);
        self.op("vinsgr2vr.d", &[v, a.into(), 0]);
        self.op("vpcnt.d", &[v, v]);
        self.op("vpickve2gr.d", &[r.into(), v, 0]);
    }

    /// The number of zeros below the lowest one; the operand's bits if there is none.
    fn trailing(&mut self, r: u8, a: u8, size: u8) {
        match size {
            8 => self.rr("ctz.d", r, a),
            4 => self.rr("ctz.w", r, a),
            _ => {
                let bound = self.number(1 << 16);
                self.rrr("or", r, a, bound);
                self.rr("ctz.w", r, r);
            }
        }
    }

    fn flags_of_count(&mut self, inst: &Inst, a: u8, r: u8) {
        if !self.needs(flag::ALL) {
            return;
        }
        let t = self.temp();
        match inst.row.stem {
            _ if self.is_plain() => self.plain_flags_of_count(inst, (a, r, t)),
            "bsf" | "bsr" => self.flags("x86or", 8, &[a, a]),
            "popcnt" => {
                self.rri("sltui", t, a, 1);
                self.rri("slli.d", t, t, flag::PLACES[3].into());
                self.op("x86mtflag", &[t.into(), flag::ALL.into()]);
            }
            _ => {
                self.flags("x86or", 8, &[r, r]);
                self.rri("sltui", t, a, 1);
                self.op("x86mtflag", &[t.into(), flag::C.into()]);
            }
        }
    }

    /// Without LBT those that the manual defines.
    fn plain_flags_of_count(&mut self, inst: &Inst, (a, r, t): (u8, u8, u8)) {
        let is_zeros = matches!(inst.row.stem, "tzcnt" | "lzcnt");
        if self.needs(flag::Z) {
            self.rri("sltui", t, if is_zeros { r } else { a }, 1);
            self.set_flag(flag::Z, t);
        }
        if is_zeros && self.needs(flag::C) {
            self.rri("sltui", t, a, 1);
            self.set_flag(flag::C, t);
        } else if inst.is("popcnt") {
            self.clear_flags(flag::ALL & !flag::Z);
        }
    }

    pub(super) fn byte_swap(&mut self, inst: &Inst) {
        let Operand::Reg(r) = inst.operand(0) else { return };
        let (d, t) = (la64(r.number), self.temp());
        match r.size {
            8 => self.rr("revb.d", d, d),
            4 => {
                self.rr("revb.2w", t, d);
                self.write(r, t, Extend::Any);
            }
            // Undefined; processors clear the register's part.
            _ => self.write(r, 0, Extend::Zero),
        }
    }

    /// clc, stc, cmc, cld, std, sahf, lahf.
    pub(super) fn flag(&mut self, inst: &Inst) {
        const STATUS: u8 = flag::C | flag::P | flag::A | flag::Z | flag::S;
        let ah = Reg { number: 0, size: 1, high: true };
        match inst.row.stem {
            "clc" => self.set_flag(flag::C, 0),
            "stc" => {
                let t = self.number(1);
                self.set_flag(flag::C, t);
            }
            "cmc" => {
                let t = self.carry_bit();
                self.rri("xori", t, t, 1);
                self.set_flag(flag::C, t);
            }
            "cld" | "std" => {
                let t = self.number(if inst.is("cld") { 1 } else { -1 });
                self.write_direction(t);
            }
            "sahf" => {
                let from = self.part(ah, Extend::Any);
                self.flags_from(from, STATUS);
            }
            _ => {
                let t = self.temp();
                self.flags_to(t, STATUS);
                self.rri("ori", t, t, 2);
                self.write(ah, t, Extend::Any);
            }
        }
    }

    /// A register with RFLAGS. Instructions that are translated alone are those of a program that
    /// steps.
    pub(super) fn all_flags(&mut self) -> u8 {
        let (t, direction) = (self.temp(), self.temp());
        let trap = if self.conventions.single { TRAP_BIT } else { 0 };
        self.flags_to(t, flag::ALL);
        self.rri("ori", t, t, (FIXED_BITS | trap) as i64);
        self.read_direction(direction);
        let place = i64::from(DIRECTION_BIT.trailing_zeros());
        self.rri("srli.d", direction, direction, 63);
        self.insert(t, direction, place, place);
        t
    }

    /// Sets the flags from a register with RFLAGS.
    pub(super) fn set_all_flags(&mut self, from: u8) {
        let (t, place) = (self.temp(), i64::from(DIRECTION_BIT.trailing_zeros()));
        self.flags_from(from, flag::ALL);
        // 1 less two times the bit.
        self.pick(t, from, place, place);
        self.rri("slli.d", t, t, 1);
        self.rri("addi.d", t, t, -1);
        self.rrr("sub.d", t, 0, t);
        self.write_direction(t);
    }
}
