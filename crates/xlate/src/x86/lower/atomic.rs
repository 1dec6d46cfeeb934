//! Instructions with LOCK, and exchanges with memory, which are locked always.
//!
//! - Additions, subtractions and `xchg` are one `am*` instruction, as is logic of 4 and 8 bytes.
//! - `cmpxchg` and `cmpxchg8b` are one `amcas`, `cmpxchg16b` a loop of `ll.d` and `sc.q`.
//! - The others repeat `amcas` until memory did not change in between.
//! - LoongArch's atomic instructions need their natural alignment. An operand off it is read and
//!   written as without LOCK; of `cmpxchg16b` it is a fault.

use super::operand::{Extend, Place, Target};
use super::{Lower, suffix};
use crate::code::Exit;
use crate::x86::decode::{Inst, Mem, Operand, Reg};
use crate::x86::registers::la64;
use littoral_base::mutant;

impl Lower {
    pub(super) fn locked(&mut self, inst: &Inst) {
        if inst.is("cmpxchg8b") {
            return self.compare_exchange_double(inst);
        }
        if matches!(inst.row.stem, "bts" | "btr" | "btc") {
            let (target, offset, size) = self.bit_target(inst);
            let Target::Mem(place, _) = target else { return };
            return self.locked_bit(inst.row.stem, place, offset, size);
        }
        let Some(m) = inst.memory() else { return };
        let place = self.place(&m);
        let address = self.exact(place);
        let temps = self.temps_used;
        let (plain, done) = (self.asm.label(), self.asm.label());
        if m.size > 1 {
            let t = self.temp();
            self.rri("andi", t, address, i64::from(m.size) - 1);
            self.asm.branch("bnez", &[t.into()], plain);
        }
        self.atomic(inst, address, m.size);
        if m.size > 1 {
            self.asm.branch("b", &[], done);
            self.asm.bind(plain);
            self.temps_used = temps;
            self.split(inst, address, m.size);
            self.asm.bind(done);
        }
    }

    /// The instruction on memory off its alignment.
    fn split(&mut self, inst: &Inst, address: u8, size: u8) {
        let place = Place { base: address, displacement: 0 };
        if !inst.is("xchg") {
            self.temps_used = 0;
            return self.unlocked(inst);
        }
        let Operand::Reg(r) = inst.operand(1) else { return };
        let old = self.load(place, size, Extend::Zero);
        let new = self.part(r, Extend::Any);
        self.store(new, place, size);
        self.write(r, old, Extend::Zero);
    }

    fn atomic(&mut self, inst: &Inst, address: u8, size: u8) {
        match inst.row.stem {
            "xchg" => {
                let Operand::Reg(r) = inst.operand(1) else { return };
                let new = self.part(r, Extend::Any);
                let old = self.temp();
                self.am("amswap_db", size, old, new, address);
                self.write(r, old, Extend::Any);
            }
            "xadd" => {
                let Operand::Reg(r) = inst.operand(1) else { return };
                let (b, old) = (self.part(r, Extend::Any), self.temp());
                self.am("amadd_db", size, old, b, address);
                self.flags("x86add", size, &[old, b]);
                self.write(r, old, Extend::Any);
            }
            "cmpxchg" => self.compare_exchange_atomic(inst, address, size),
            name => self.read_modify_write(name, inst, address, size),
        }
    }

    /// rd = old; memory = old operation rk.
    fn am(&mut self, name: &str, size: u8, rd: u8, rk: u8, address: u8) {
        self.rrr(&format!("{name}{}", suffix(size)), rd, rk, address);
    }

    fn read_modify_write(&mut self, name: &str, inst: &Inst, address: u8, size: u8) {
        let b = match inst.operands().nth(1) {
            Some(operand) => self.read(operand, Extend::Any),
            None => 0,
        };
        let (old, r) = (self.temp(), self.temp());
        let single = match name {
            "add" => Some(("amadd_db", b)),
            "inc" => Some(("amadd_db", self.number(1))),
            "dec" => Some(("amadd_db", self.number(-1))),
            "sub" => {
                let negative = self.temp();
                self.rrr("sub.d", negative, 0, b);
                Some(("amadd_db", negative))
            }
            "and" => Some(("amand_db", b)),
            "or" => Some(("amor_db", b)),
            "xor" => Some(("amxor_db", b)),
            "not" => Some(("amxor_db", self.number(-1))),
            _ => None,
        };
        let is_logic = matches!(name, "and" | "or" | "xor" | "not");
        match single.filter(|_| size >= 4 || !is_logic) {
            Some((am, operand)) => self.am(am, size, old, operand, address),
            None => {
                self.repeat(size, old, r, address, |lower| lower.operate(name, r, old, b, size));
            }
        }
        // The adjust flag of a subtraction needs no result.
        self.spare_temps(0, &[old, b, r]);
        self.flags_of(name, size, old, b, r);
    }

    /// Makes `r` of `old` until memory holds `old` when `r` is stored.
    fn repeat(&mut self, size: u8, old: u8, r: u8, address: u8, make: impl FnOnce(&mut Lower)) {
        let place = Place { base: address, displacement: 0 };
        let seen = self.temp();
        let top = self.asm.here();
        self.load_to(old, place, size, Extend::Sign);
        make(self);
        self.copy(seen, old);
        self.am("amcas_db", size, seen, r, address);
        self.asm.branch("bne", &[seen.into(), old.into()], top);
    }

    fn locked_bit(&mut self, name: &str, place: Place, offset: u8, size: u8) {
        let address = self.exact(place);
        let (plain, done) = (self.asm.label(), self.asm.label());
        let (old, r) = (self.temp(), self.temp());
        let held = self.temps_used;
        self.rri("andi", old, address, i64::from(size) - 1);
        self.asm.branch("bnez", &[old.into()], plain);
        self.repeat(size, old, r, address, |lower| {
            let changed = lower.changed_bit(name, old, offset);
            lower.copy(r, changed);
        });
        self.asm.branch("b", &[], done);
        self.asm.bind(plain);
        let place = Place { base: address, displacement: 0 };
        self.load_to(old, place, size, Extend::Any);
        // What the loop took is free again: the longest address leaves no more.
        self.temps_used = held;
        let changed = self.changed_bit(name, old, offset);
        self.store(changed, place, size);
        self.asm.bind(done);
        self.temps_used = held;
        self.carry_of_bit(old, offset);
    }

    fn compare_exchange_atomic(&mut self, inst: &Inst, address: u8, size: u8) {
        let accumulator = Reg { number: 0, size, high: false };
        let new = self.read(inst.operand(1), Extend::Any);
        let seen = self.part(accumulator, Extend::Zero);
        let (old, differ) = (self.copied(seen), self.temp());
        self.am("amcas_db", size, old, new, address);
        self.extend(old, old, size, Extend::Zero);
        self.rrr("xor", differ, seen, old);
        self.spare_temps(0, &[seen, old, differ]);
        self.flags("x86sub", size, &[seen, old]);
        self.unless_equal(accumulator, old, differ);
    }

    /// cmpxchg8b and cmpxchg16b.
    fn compare_exchange_double(&mut self, inst: &Inst) {
        let Some(m) = inst.memory() else { return };
        let place = self.place(&m);
        let address = self.exact(place);
        if m.size == 16 {
            return self.compare_exchange_16(address);
        }
        let (old, seen, new) = (self.temp(), self.temp(), self.temp());
        for (to, low, high) in [(seen, 0, 2), (new, 3, 1)] {
            self.copy(to, la64(low));
            self.insert(to, la64(high), 63, 32);
        }
        let (plain, done, equal) = (self.asm.label(), self.asm.label(), self.asm.label());
        let differ = self.temp();
        self.rri("andi", differ, address, 7);
        self.asm.branch("bnez", &[differ.into()], plain);
        self.copy(old, seen);
        self.am("amcas_db", 8, old, new, address);
        self.rrr("xor", differ, seen, old);
        self.asm.branch("b", &[], done);
        self.asm.bind(plain);
        self.plain_exchange_8(&m, (address, old, seen, new, differ));
        self.asm.bind(done);
        self.op("dbar", &[0]);
        self.zero_flag(differ);
        self.asm.branch("beqz", &[differ.into()], equal);
        self.pick(la64(0), old, 31, 0);
        self.pick(la64(2), old, 63, 32);
        self.asm.bind(equal);
    }

    /// cmpxchg8b off its alignment: memory is written in any case.
    fn plain_exchange_8(
        &mut self,
        m: &Mem,
        (address, old, seen, new, differ): (u8, u8, u8, u8, u8),
    ) {
        let place = Place { base: address, displacement: 0 };
        let t = self.temp();
        self.load_to(old, place, m.size, Extend::Any);
        self.rrr("xor", differ, seen, old);
        self.rrr("masknez", new, new, differ);
        self.rrr("maskeqz", t, old, differ);
        self.rrr("or", t, t, new);
        self.store(t, place, m.size);
    }

    fn compare_exchange_16(&mut self, address: u8) {
        const BEHIND_LOADS: i64 = 0x14;
        let is_ordered = !mutant!("x86_wide_exchange_unordered");
        let misaligned = self.event(Exit::Privileged);
        let (low, high, differ, t) = (self.temp(), self.temp(), self.temp(), self.temp());
        self.rri("andi", t, address, 15);
        self.asm.branch("bnez", &[t.into()], misaligned);
        // The three have no barriers of their own. `sc.q` watches from `ll.d` on, so what `ld.d`
        // reads must not be older.
        self.op("dbar", &[0]);
        let (top, done) = (self.asm.here(), self.asm.label());
        self.rri("ll.d", low, address, 0);
        if is_ordered {
            self.op("dbar", &[BEHIND_LOADS]);
        }
        self.asm.op("ld.d", &[high.into(), address.into(), 8]);
        self.rrr("xor", differ, low, la64(0));
        self.rrr("xor", t, high, la64(2));
        self.rrr("or", differ, differ, t);
        self.asm.branch("bnez", &[differ.into()], done);
        self.copy(t, la64(3));
        self.rrr("sc.q", t, la64(1), address);
        self.asm.branch("beqz", &[t.into()], top);
        self.asm.bind(done);
        if is_ordered {
            self.op("dbar", &[0]);
        }
        self.zero_flag(differ);
        let equal = self.asm.label();
        self.asm.branch("beqz", &[differ.into()], equal);
        self.copy(la64(0), low);
        self.copy(la64(2), high);
        self.asm.bind(equal);
    }
}
