//! Shifts and rotations.
//!
//! - A count is taken modulo 32, of 64-bit operands modulo 64. A count of zero leaves all flags.
//! - The LBT rotations write the carry also for a count of zero, and take it from another place
//!   where the count is a multiple of the width; both are repaired here.

use super::operand::{Extend, Target};
use super::{Lower, suffix};
use crate::x86::decode::{Inst, Operand};
use crate::x86::isa::flag;
use crate::x86::registers::la64;
use littoral_base::mutant;
use littoral_la64::asm::Label;

/// By how much is shifted.
#[derive(Clone, Copy)]
pub(super) struct Count {
    /// The number, if the code says so.
    pub(super) fixed: Option<u32>,
    /// A register with the count, already taken modulo 32 or 64.
    pub(super) register: u8,
}

impl Lower {
    /// The count in a register; `None` if it is zero, so nothing happens to the bits.
    fn count_of(&mut self, inst: &Inst, size: u8) -> Option<Count> {
        if let Some(count) = inst.fixed_count() {
            let register = self.number(count.into());
            return (count != 0).then_some(Count { fixed: Some(count), register });
        }
        let register = self.temp();
        let high = if size == 8 { 5 } else { 4 };
        self.pick(register, la64(1), high, 0);
        Some(Count { fixed: None, register })
    }

    pub(super) fn shift(&mut self, inst: &Inst) {
        let (size, name) = (inst.size_of_first(), inst.row.stem);
        if self.shifted_in_place(inst) {
            return;
        }
        let target = self.target(inst.operand(0));
        let extend = match name {
            "sar" => Extend::Sign,
            "shr" | "rcl" | "rcr" => Extend::Zero,
            _ => Extend::Any,
        };
        let a = self.read_target(target, extend);
        let Some(count) = self.count_of(inst, size) else {
            // A register of 32 bits is written nevertheless.
            self.store_target(target, a);
            return self.write_target(target, a, Extend::Any);
        };
        let r = self.temp();
        let carry = self.shifted(name, r, a, count, size);
        self.store_target(target, r);
        match name {
            "shl" | "shr" | "sar" if self.is_plain() => {
                self.plain_shift(name, (a, r), count, size);
            }
            "rcl" | "rcr" if self.is_plain() => {
                self.plain_rotation(name == "rcl", (r, carry), count, size);
            }
            "shl" => self.flags("x86sll", size, &[a, count.register]),
            "shr" => self.flags("x86srl", size, &[a, count.register]),
            "sar" => self.flags("x86sra", size, &[a, count.register]),
            "rcl" => self.flags("x86rcl", size, &[a, count.register]),
            "rcr" => self.flags("x86rcr", size, &[a, count.register]),
            _ => self.flags_of_rotation(name == "rol", a, r, count, size),
        }
        self.write_target(target, r, Extend::Any);
        if self.begins_group() {
            self.set_source(Self::result_source(inst, r), size);
        }
    }

    /// A shift of 32 or 64 bits of a register by a fixed number whose flags are not read.
    fn shifted_in_place(&mut self, inst: &Inst) -> bool {
        let (Operand::Reg(r), Some(count @ 1..)) = (inst.operand(0), inst.fixed_count()) else {
            return false;
        };
        let (d, count, is_wide) = (la64(r.number), i64::from(count), r.size == 8);
        if r.size < 4 || self.needs(flag::ALL) {
            return false;
        }
        match (inst.row.stem, is_wide) {
            ("shl", true) => self.rri("slli.d", d, d, count),
            ("shr", true) => self.rri("srli.d", d, d, count),
            ("sar", true) => self.rri("srai.d", d, d, count),
            ("rol", true) => self.rri("rotri.d", d, d, 64 - count),
            ("ror", true) => self.rri("rotri.d", d, d, count),
            ("shl", false) => {
                self.pick(d, d, 31 - count, 0);
                self.rri("slli.d", d, d, count);
            }
            ("shr", false) => self.pick(d, d, 31, count),
            ("sar" | "rol" | "ror", false) => {
                match inst.row.stem {
                    "sar" => self.rri("srai.w", d, d, count),
                    "rol" => self.rri("rotri.w", d, d, 32 - count),
                    _ => self.rri("rotri.w", d, d, count),
                }
                self.pick(d, d, 31, 0);
            }
            _ => return false,
        }
        if self.begins_group() {
            self.set_source(Self::result_source(inst, d), r.size);
        }
        true
    }

    /// r = a shifted; the bits above the size are open. Without LBT the answer is a register whose
    /// bit 0 is the carry of `rcl` and `rcr`.
    fn shifted(&mut self, name: &str, r: u8, a: u8, count: Count, size: u8) -> u8 {
        let c = count.register;
        match (name, size) {
            ("rcl" | "rcr", _) if self.is_plain() => {
                return self.rotated_by_carry(name == "rcl", (r, a), count, size);
            }
            ("ror", 1 | 2) if self.is_plain() => self.rotated_narrow(r, a, c, size),
            ("rol", 1 | 2) if self.is_plain() => {
                let down = self.temp();
                self.rrr("sub.d", down, 0, c);
                self.rotated_narrow(r, a, down, size);
            }
            ("shl", _) => self.rrr("sll.d", r, a, c),
            ("shr", _) => self.rrr("srl.d", r, a, c),
            ("sar", _) => self.rrr("sra.d", r, a, c),
            ("ror", _) => self.rrr(&format!("rotr{}", suffix(size)), r, a, c),
            ("rol", _) => {
                self.rrr("sub.d", r, 0, c);
                self.rrr(&format!("rotr{}", suffix(size)), r, a, r);
            }
            ("rcr", _) => self.rrr(&format!("rcr{}", suffix(size)), r, a, c),
            _ => self.rotated_left_by_carry((r, a), count, size),
        }
        0
    }

    /// r = a rotated to the left with the carry as one ring, by LBT, which rotates such a ring to
    /// the right alone and takes a count modulo 32, of 64 bits modulo 64. That is less than a ring
    /// of 32 or 64 bits and the carry has places.
    fn rotated_left_by_carry(&mut self, (r, a): (u8, u8), count: Count, size: u8) {
        let (ring, width) = (8 * u32::from(size) + 1, suffix(size));
        match count.fixed {
            // By one place: twice the operand, and the carry.
            Some(c) if c % ring == 1 => self.rrr(&format!("adc{width}"), r, a, a),
            Some(c) => {
                let right = (ring - c % ring) % ring;
                self.rri(&format!("rcri{width}"), r, a, right.into());
            }
            None if size <= 2 => {
                let (whole, t) = (self.number(ring.into()), self.temp());
                if mutant!("x86_rcl_count_beyond_lbts") {
                    self.copy(t, count.register);
                } else {
                    self.rrr("mod.wu", t, count.register, whole);
                }
                self.rrr("sub.d", t, whole, t);
                self.rrr(&format!("rcr{width}"), r, a, t);
            }
            // What comes in are the bits of the operand and the carry, rotated by one place.
            None if size == 4 => {
                self.rri("rcri.w", r, a, 1);
                self.insert(r, a, 63, 32);
                self.rrr("sll.d", r, r, count.register);
                self.rri("srli.d", r, r, 32);
            }
            None => {
                let t = self.temp();
                self.rri("rcri.d", t, a, 1);
                self.shifted_double_64(true, r, (a, t), count.register);
            }
        }
    }

    /// A label behind code that a count of zero skips.
    pub(super) fn unless_zero(&mut self, count: Count) -> Option<Label> {
        if count.fixed.is_some() || mutant!("x86_rotation_by_zero_writes_carry") {
            return None;
        }
        let label = self.asm.label();
        self.asm.branch("beqz", &[count.register.into()], label);
        Some(label)
    }

    /// The end of what a count of zero skips.
    pub(super) fn bind_skip(&mut self, skip: Option<Label>) {
        if let Some(label) = skip {
            self.asm.bind(label);
        }
    }

    fn flags_of_rotation(&mut self, left: bool, a: u8, r: u8, count: Count, size: u8) {
        if !self.needs(flag::C | flag::O) {
            return;
        }
        if self.is_plain() {
            let t = self.temp();
            let bit = if left { 0 } else { 8 * i64::from(size) - 1 };
            self.rri("srli.d", t, r, bit);
            return self.plain_rotation(left, (r, t), count, size);
        }
        let skip = self.unless_zero(count);
        let name = if left { "x86rotl" } else { "x86rotr" };
        self.rr(&format!("{name}{}", suffix(size)), a, count.register);
        let bits = 8 * u32::from(size);
        let may_be_multiple = count.fixed.is_none_or(|c| c % bits == 0)
            && !mutant!("x86_rotation_by_width_keeps_carry");
        if size <= 2 && may_be_multiple {
            // The carry is the bit that went round last.
            let (t, bit) = (self.temp(), if left { 0 } else { i64::from(bits) - 1 });
            self.pick(t, r, bit, bit);
            self.op("x86mtflag", &[t.into(), flag::C.into()]);
        }
        self.bind_skip(skip);
    }

    /// shld and shrd: the bits that come in are those of the second operand.
    pub(super) fn shift_double(&mut self, inst: &Inst) {
        let (size, left) = (inst.size_of_first(), inst.is("shld"));
        let target = self.target(inst.operand(0));
        let a = self.read_target(target, Extend::Zero);
        let b = self.read(inst.operand(1), Extend::Zero);
        let Some(count) = self.count_of(inst, size) else {
            self.store_target(target, a);
            return self.write_target(target, a, Extend::Any);
        };
        let r = self.temp();
        if size == 8 {
            self.shifted_double_64(left, r, (a, b), count.register);
        } else {
            let bits = 8 * i64::from(size);
            let (low, high) = if left { (b, a) } else { (a, b) };
            self.rri("slli.d", r, high, bits);
            self.rrr("or", r, r, low);
            self.rrr(if left { "sll.d" } else { "srl.d" }, r, r, count.register);
            if left {
                self.rri("srli.d", r, r, bits);
            }
        }
        self.store_target(target, r);
        self.flags_of_double(left, (a, r), count, size);
        self.write_target(target, r, Extend::Any);
    }

    fn shifted_double_64(&mut self, left: bool, r: u8, (a, b): (u8, u8), count: u8) {
        let (own, other) = if left { ("sll.d", "srl.d") } else { ("srl.d", "sll.d") };
        let (one, t) = (if left { "srli.d" } else { "slli.d" }, self.temp());
        // By 64 less the count, in two steps, because a shift by 64 is one by zero.
        self.rri(one, t, b, 1);
        self.rrr("nor", r, count, 0);
        self.rrr(other, t, t, r);
        self.rrr(own, r, a, count);
        self.rrr("or", r, r, t);
    }

    fn flags_of_double(&mut self, left: bool, (a, r): (u8, u8), count: Count, size: u8) {
        if !self.needs(flag::ALL) {
            return;
        }
        if self.is_plain() {
            return self.plain_shift(if left { "shl" } else { "shrd" }, (a, r), count, size);
        }
        let skip = self.unless_zero(count);
        let (t, bits) = (self.temp(), 8 * i64::from(size));
        let name = if left { "x86sll" } else { "x86srl" };
        self.rr(&format!("{name}{}", suffix(size)), a, count.register);
        self.op("x86mfflag", &[t.into(), flag::C.into()]);
        self.rr(&format!("x86or{}", suffix(size)), r, r);
        self.op("x86mtflag", &[t.into(), flag::C.into()]);
        if self.needs(flag::O) {
            // Whether a shift by one changes the sign.
            self.rrr("xor", t, a, r);
            self.pick(t, t, bits - 1, bits - 1);
            self.rri("slli.d", t, t, 11);
            self.op("x86mtflag", &[t.into(), flag::O.into()]);
        }
        self.bind_skip(skip);
    }

    /// bt, bts, btr, btc: a bit of a register, of memory, or of a string of bits in memory.
    pub(super) fn bit(&mut self, inst: &Inst) {
        let (target, offset, size) = self.bit_target(inst);
        let a = self.read_target(target, Extend::Any);
        let r = self.changed_bit(inst.row.stem, a, offset);
        if inst.is("bt") {
            return self.carry_of_bit(a, offset);
        }
        debug_assert!(size >= 2, "bits of bytes have no instruction");
        self.store_target(target, r);
        self.carry_of_bit(a, offset);
        self.write_target(target, r, Extend::Any);
    }

    /// The word that holds the bit, and a register with the bit's number in it.
    pub(super) fn bit_target(&mut self, inst: &Inst) -> (Target, u8, u8) {
        let size = inst.size_of_first();
        let bits = 8 * i64::from(size);
        let high = i64::from((8 * u32::from(size)).trailing_zeros()) - 1;
        let (first, second) = (inst.operand(0), inst.operand(1));
        if let Operand::Imm(n) = second {
            let target = self.target(first);
            return (target, self.number(n & (bits - 1)), size);
        }
        let full = self.read(second, Extend::Sign);
        let number = self.temp();
        let target = match first {
            // The words before and behind the operand belong to the string.
            Operand::Mem(m) => {
                self.rri("srai.d", number, full, high + 1);
                self.op("slli.d", &[number, number, size.trailing_zeros() as u8].map(i64::from));
                Target::Mem(self.place_beyond(&m, number), size)
            }
            operand => self.target(operand),
        };
        self.pick(number, full, high, 0);
        (target, number, size)
    }

    /// A register with the word after the bit's change.
    pub(super) fn changed_bit(&mut self, name: &str, a: u8, offset: u8) -> u8 {
        if name == "bt" {
            return a;
        }
        let (one, r) = (self.number(1), self.temp());
        self.rrr("sll.d", r, one, offset);
        match name {
            "bts" => self.rrr("or", r, a, r),
            "btr" => self.rrr("andn", r, a, r),
            _ => self.rrr("xor", r, a, r),
        }
        r
    }

    pub(super) fn carry_of_bit(&mut self, a: u8, offset: u8) {
        if self.needs(flag::C) {
            let t = self.temp();
            self.rrr("srl.d", t, a, offset);
            self.set_flag(flag::C, t);
        }
    }
}
