//! String instructions, once or repeated.
//!
//! - A repetition changes the registers after each element, so it can stop behind any of them.

use super::Lower;
use super::operand::{Extend, Place};
use crate::code::{Behind, Exit};
use crate::x86::decode::{Inst, Mem, Operand, Reg, Rep};
use crate::x86::registers::la64;
use littoral_base::mutant;

const RCX: u8 = 1;
const RSI: u8 = 6;
const RDI: u8 = 7;

impl Lower {
    pub(super) fn string(&mut self, inst: &Inst) {
        let Some(rep) = inst.rep else {
            let step = self.step(inst);
            self.element(inst, step);
            return;
        };
        let (top, done) = (self.asm.here(), self.asm.label());
        let width = if inst.short { 4 } else { 8 };
        let rcx = Reg { number: RCX, size: width, high: false };
        let count = self.part(rcx, Extend::Zero);
        let t = self.temp();
        self.extend(t, count, width, Extend::Zero);
        self.asm.branch("beqz", &[t.into()], done);
        let step = self.step(inst);
        let differ = self.element(inst, step);
        self.rri("addi.d", t, t, -1);
        self.write(rcx, t, Extend::Any);
        let again = match self.conventions.single && !mutant!("x86_repetitions_are_one_step") {
            true => {
                // The processor stops behind each repetition, and behind the last one only once.
                if !mutant!("x86_last_repetition_stops_twice") {
                    self.asm.branch("beqz", &[t.into()], done);
                }
                self.event(Exit::Single(Behind::Again(inst.at)))
            }
            false => top,
        };
        match (differ, rep) {
            (None, _) => self.asm.branch("b", &[], again),
            (Some(differ), Rep::Equal) => self.asm.branch("beqz", &[differ.into()], again),
            (Some(differ), Rep::NotEqual) => self.asm.branch("bnez", &[differ.into()], again),
        }
        self.asm.bind(done);
    }

    /// By how much an index moves per element.
    fn step(&mut self, inst: &Inst) -> u8 {
        let t = self.temp();
        self.read_direction(t);
        let size = inst.size_of_first();
        if size > 1 {
            self.rri("slli.d", t, t, size.trailing_zeros().into());
        }
        t
    }

    fn advance(&mut self, inst: &Inst, index: u8, step: u8) {
        let r = la64(index);
        self.rrr("add.d", r, r, step);
        if inst.short {
            self.pick(r, r, 31, 0);
        }
    }

    /// One element; of comparisons, a register that is zero if the two are equal.
    fn element(&mut self, inst: &Inst, step: u8) -> Option<u8> {
        let operands: Vec<Operand> = inst.operands().collect();
        let place = |n: usize| match operands[n] {
            Operand::Mem(m) => Some(m),
            Operand::Reg(_) | Operand::Xmm(_) | Operand::Mm(_) => None,
            Operand::Imm(_) | Operand::Target(_) => None,
        };
        let first_temp = self.temps_used;
        let compares = matches!(inst.row.stem, "cmps" | "scas");
        let size = inst.size_of_first();
        let differ = if compares {
            let a = self.read(operands[0], Extend::Zero);
            let b = self.read(operands[1], Extend::Zero);
            let t = self.temp();
            self.rrr("xor", t, a, b);
            self.spare_temps(first_temp, &[a, b, t]);
            self.flags("x86sub", size, &[a, b]);
            Some(t)
        } else {
            let value = self.read(operands[1], Extend::Zero);
            match (place(0), operands[0]) {
                (Some(m), _) => self.put(&m, value),
                (None, operand) => self.assign(operand, value, Extend::Zero),
            }
            None
        };
        for m in (0..2).filter_map(place) {
            let index = if m.base == Some(RSI) { RSI } else { RDI };
            self.advance(inst, index, step);
        }
        differ
    }

    fn put(&mut self, m: &Mem, value: u8) {
        let place: Place = self.place(m);
        self.store(value, place, m.size);
    }
}
