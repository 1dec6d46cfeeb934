//! Moves: with extension, under a condition, to and from the stack, between two places.

use super::Lower;
use super::operand::{Extend, Place, Target};
use crate::code::Exit;
use crate::x86::decode::{Inst, Mem, Operand, Reg};
use crate::x86::isa::flag;
use crate::x86::registers::{TRAP_BIT, la64};

/// The LBT code of each condition.
const LBT_CONDITIONS: [u8; 16] = [12, 13, 2, 1, 4, 5, 3, 0, 10, 11, 14, 15, 8, 7, 9, 6];
const RSP: u8 = la64(4);
const RBP: u8 = la64(5);

impl Lower {
    /// A register that is 1 if the condition holds, else 0.
    pub(super) fn condition(&mut self, condition: u8) -> u8 {
        if self.is_plain() {
            return self.plain_condition(condition);
        }
        let t = self.temp();
        let code = LBT_CONDITIONS[usize::from(condition)];
        self.op("setx86j", &[t.into(), code.into()]);
        t
    }

    /// mov, movzx, movnti.
    pub(super) fn move_zero(&mut self, inst: &Inst) {
        match (inst.operand(0), inst.operand(1)) {
            (Operand::Reg(d), Operand::Mem(m)) if d.size >= 4 => {
                self.load_operand(la64(d.number), &m, Extend::Zero);
            }
            (Operand::Reg(d), Operand::Reg(from)) if d.size >= 4 && !from.high => {
                let (d, from_la64) = (la64(d.number), la64(from.number));
                match self.has_zeros(inst.operand(1)) {
                    true => self.copy(d, from_la64),
                    false => self.extend(d, from_la64, from.size, Extend::Zero),
                }
            }
            (Operand::Reg(d), Operand::Imm(value)) if d.size >= 4 => {
                let value = if d.size == 4 { value & 0xffff_ffff } else { value };
                self.asm.li(la64(d.number), value);
            }
            (to, from) => {
                let value = self.read(from, Extend::Zero);
                let zero = !matches!(from, Operand::Imm(_));
                self.assign(to, value, if zero { Extend::Zero } else { Extend::Any });
            }
        }
    }

    pub(super) fn move_sign(&mut self, inst: &Inst) {
        let (to, from) = (inst.operand(0), inst.operand(1));
        let Operand::Reg(d @ Reg { size: 4.., .. }) = to else {
            let value = self.read(from, Extend::Sign);
            return self.assign(to, value, Extend::Sign);
        };
        let to = la64(d.number);
        match from {
            Operand::Mem(m) => self.load_operand(to, &m, Extend::Sign),
            Operand::Reg(r) if !r.high => self.extend(to, la64(r.number), r.size, Extend::Sign),
            _ => {
                let value = self.read(from, Extend::Sign);
                self.copy(to, value);
            }
        }
        if d.size == 4 {
            self.pick(to, to, 31, 0);
        }
    }

    pub(super) fn lea(&mut self, inst: &Inst) {
        let Some(m) = inst.memory() else { return };
        let (place, Operand::Reg(r)) = (self.offset(&Mem { segment: None, ..m }), inst.operand(0))
        else {
            return;
        };
        if r.size == 8 {
            let d = la64(r.number);
            match place.displacement {
                0 => self.copy(d, place.base),
                n => self.rri("addi.d", d, place.base, n),
            }
            return;
        }
        let value = self.exact(place);
        self.write(r, value, Extend::Any);
    }

    pub(super) fn move_if(&mut self, inst: &Inst) {
        let Operand::Reg(r) = inst.operand(0) else { return };
        let value = self.read(inst.operand(1), Extend::Zero);
        let (c, if_set) = self.truth(inst.row.condition.unwrap_or_default());
        let (new, old, d) = (self.temp(), self.temp(), la64(r.number));
        let [take, keep] = if if_set { ["maskeqz", "masknez"] } else { ["masknez", "maskeqz"] };
        self.rrr(take, new, value, c);
        self.rrr(keep, old, d, c);
        if r.size == 8 || self.has_zeros(inst.operand(0)) {
            return self.rrr("or", d, new, old);
        }
        self.rrr("or", new, new, old);
        self.write(r, new, Extend::Any);
    }

    pub(super) fn set_if(&mut self, inst: &Inst) {
        let c = self.bit_if(inst.row.condition.unwrap_or_default());
        self.assign(inst.operand(0), c, Extend::Zero);
    }

    /// xchg between registers.
    pub(super) fn exchange(&mut self, inst: &Inst) {
        let (Operand::Reg(a), Operand::Reg(b)) = (inst.operand(0), inst.operand(1)) else {
            return;
        };
        // 90 without REX.B is no exchange.
        if inst.row.opcode == 0x90 && a.number == 0 {
            return;
        }
        let x = self.part(a, Extend::Zero);
        let x = self.copied(x);
        let y = self.part(b, Extend::Zero);
        self.write(a, y, Extend::Zero);
        self.write(b, x, Extend::Zero);
    }

    /// xadd without LOCK.
    pub(super) fn exchange_add(&mut self, inst: &Inst) {
        let target = self.target(inst.operand(0));
        let size = inst.size_of_first();
        let Operand::Reg(source) = inst.operand(1) else { return };
        let a = self.read_target(target, Extend::Any);
        let a = self.copied(a);
        let b = self.part(source, Extend::Any);
        let r = self.temp();
        self.rrr("add.d", r, a, b);
        self.store_target(target, r);
        self.flags("x86add", size, &[a, b]);
        self.write(source, a, Extend::Any);
        self.write_target(target, r, Extend::Any);
    }

    /// cmpxchg without LOCK: memory is written in any case.
    pub(super) fn compare_exchange(&mut self, inst: &Inst) {
        let target = self.target(inst.operand(0));
        let size = inst.size_of_first();
        let accumulator = Reg { number: 0, size, high: false };
        let old = self.read_target(target, Extend::Zero);
        let old = self.copied(old);
        let seen = self.part(accumulator, Extend::Zero);
        let new = self.read(inst.operand(1), Extend::Zero);
        let (differ, result, t) = (self.temp(), self.temp(), self.temp());
        self.rrr("xor", differ, seen, old);
        self.rrr("masknez", result, new, differ);
        self.rrr("maskeqz", t, old, differ);
        self.rrr("or", result, result, t);
        self.store_target(target, result);
        self.spare_temps(0, &[seen, old, new, differ]);
        self.flags("x86sub", size, &[seen, old]);
        if let Target::Reg(r) = target {
            // A register that differs is not written, its upper half neither.
            let skip = self.asm.label();
            self.asm.branch("bnez", &[differ.into()], skip);
            self.write(r, new, Extend::Zero);
            self.asm.bind(skip);
        }
        self.unless_equal(accumulator, old, differ);
    }

    /// Writes the accumulator if the comparison failed; otherwise it stays, its upper half too.
    pub(super) fn unless_equal(&mut self, accumulator: Reg, old: u8, differ: u8) {
        let equal = self.asm.label();
        self.asm.branch("beqz", &[differ.into()], equal);
        self.write(accumulator, old, Extend::Zero);
        self.asm.bind(equal);
    }

    /// cbw, cwde, cdqe.
    pub(super) fn widen(&mut self, size: u8) {
        let from = Reg { number: 0, size: size / 2, high: false };
        let t = self.part(from, Extend::Sign);
        self.write(Reg { size, ..from }, t, Extend::Sign);
    }

    /// cwd, cdq, cqo.
    pub(super) fn widen_to_rdx(&mut self, size: u8) {
        let from = self.part(Reg { number: 0, size, high: false }, Extend::Sign);
        let t = self.temp();
        self.rri("srai.d", t, from, 63);
        self.write(Reg { number: 2, size, high: false }, t, Extend::Sign);
    }

    /// xlat: al = [rbx + al].
    pub(super) fn translate_byte(&mut self, inst: &Inst) {
        let al = Reg { number: 0, size: 1, high: false };
        let index = self.part(al, Extend::Zero);
        let t = self.temp();
        self.rrr("add.d", t, la64(3), index);
        if inst.short {
            self.pick(t, t, 31, 0);
        }
        let mem = Mem {
            base: None,
            index: None,
            displacement: 0,
            segment: inst.segment,
            short: false,
            relative: false,
            size: 1,
        };
        let segment = self.place(&mem);
        self.rrr("add.d", t, t, segment.base);
        let value = self.load(Place { base: t, displacement: 0 }, 1, Extend::Zero);
        self.write(al, value, Extend::Zero);
    }

    pub(super) fn time(&mut self) {
        let t = self.temp();
        self.op("rdtime.d", &[t.into(), 0]);
        self.pick(la64(0), t, 31, 0);
        self.pick(la64(2), t, 63, 32);
    }

    /// The call leaves the next address in rcx and the flags in r11.
    pub(super) fn system_call(&mut self, inst: &Inst) {
        let flags = self.all_flags();
        self.copy(la64(11), flags);
        self.guest_address(la64(1), inst.end());
        self.exit(Exit::Syscall(inst.end()));
    }

    pub(super) fn stack(&mut self, inst: &Inst) {
        let size = inst.size;
        match inst.row.stem {
            "push" => {
                let value = self.read(inst.operand(0), Extend::Any);
                self.push(value, size);
            }
            "pushf" => {
                let value = self.all_flags();
                self.push(value, size);
            }
            "popf" if self.conventions.single => self.exit(Exit::Assist(inst.at)),
            "popf" => {
                let value = self.load(Place { base: RSP, displacement: 0 }, size, Extend::Zero);
                let (t, steps) = (self.temp(), self.event(Exit::Assist(inst.at)));
                let place = i64::from(TRAP_BIT.trailing_zeros());
                self.pick(t, value, place, place);
                self.asm.branch("bnez", &[t.into()], steps);
                self.rri("addi.d", RSP, RSP, size.into());
                self.set_all_flags(value);
            }
            "pop" => self.pop(inst),
            "leave" => {
                let value = self.load(Place { base: RBP, displacement: 0 }, size, Extend::Zero);
                self.rri("addi.d", RSP, RBP, size.into());
                self.write(Reg { number: 5, size, high: false }, value, Extend::Zero);
            }
            _ => self.enter(inst),
        }
    }

    /// Stores below the stack pointer and moves it.
    pub(super) fn push(&mut self, value: u8, size: u8) {
        let down = -i64::from(size);
        self.store(value, Place { base: RSP, displacement: down }, size);
        self.rri("addi.d", RSP, RSP, down);
    }

    fn pop(&mut self, inst: &Inst) {
        let size = inst.size;
        let top = Place { base: RSP, displacement: 0 };
        if let Operand::Reg(Reg { number, size: 8, .. }) = inst.operand(0)
            && la64(number) != RSP
        {
            self.load_to(la64(number), top, 8, Extend::Any);
            return self.rri("addi.d", RSP, RSP, 8);
        }
        let value = self.load(top, size, Extend::Zero);
        match inst.operand(0) {
            Operand::Mem(m) => {
                // The address is made from the stack pointer behind the pop.
                let up = if m.base == Some(4) { i64::from(size) } else { 0 };
                let place = self.place(&Mem { displacement: m.displacement + up, ..m });
                self.store(value, place, size);
                self.rri("addi.d", RSP, RSP, size.into());
            }
            operand => {
                self.rri("addi.d", RSP, RSP, size.into());
                self.assign(operand, value, Extend::Zero);
            }
        }
    }

    /// enter: a frame with the pointers of the frames around it.
    fn enter(&mut self, inst: &Inst) {
        let (Operand::Imm(bytes), Operand::Imm(level)) = (inst.operand(0), inst.operand(1)) else {
            return;
        };
        let (size, level) = (i64::from(inst.size), level & 31);
        let (frame, t) = (self.temp(), self.temp());
        let at = |n: i64| Place { base: RSP, displacement: -size * n };
        self.store(RBP, at(1), inst.size);
        self.rri("addi.d", frame, RSP, -size);
        for n in 1..level {
            self.load_to(t, Place { base: RBP, displacement: -size * n }, inst.size, Extend::Any);
            self.store(t, at(1 + n), inst.size);
        }
        if level > 0 {
            self.store(frame, at(1 + level), inst.size);
        }
        let down = self.number((bytes & 0xffff) + size * level);
        self.rrr("sub.d", RSP, frame, down);
        self.write(Reg { number: 5, size: inst.size, high: false }, frame, Extend::Any);
    }

    /// The zero flag alone: set if a register is zero.
    pub(super) fn zero_flag(&mut self, differ: u8) {
        if self.needs(flag::Z) {
            let t = self.temp();
            self.rri("sltui", t, differ, 1);
            self.set_flag(flag::Z, t);
        }
    }
}
