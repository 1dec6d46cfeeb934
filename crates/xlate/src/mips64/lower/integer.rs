//! Integer instructions that are not one LA64 instruction: wide immediates, conditional moves,
//! additions that trap, hardware registers.

use super::{Lower, d, s, t};
use crate::code::Exit;
use crate::mips64::isa::{Field, Inst};
use crate::mips64::registers::{SCR_THREAD, SCRATCH};

const SIGNED_12: std::ops::Range<i64> = -2048..2048;
const UNSIGNED_12: std::ops::Range<i64> = 0..4096;

impl Lower {
    /// addiu and daddiu: `words` are the codes with an immediate and with a register.
    pub(super) fn add_immediate(&mut self, inst: &Inst, words: &[&str]) {
        let (t, s, value) = (t(inst), s(inst), inst.get(Field::I));
        let half = if value < 0 { -2048 } else { 2047 };
        if s == 0 {
            self.asm.li(t, value);
        } else if SIGNED_12.contains(&value) {
            self.op(words[0], &[t.into(), s.into(), value]);
        } else if SIGNED_12.contains(&(value - half)) && t != 0 {
            self.op(words[0], &[t.into(), s.into(), half]);
            self.op(words[0], &[t.into(), t.into(), value - half]);
        } else {
            self.asm.li(SCRATCH, value);
            self.rrr(words[1], t, s, SCRATCH);
        }
    }

    /// slti, sltiu, andi, ori, xori.
    pub(super) fn with_immediate(&mut self, inst: &Inst, kind: &str, words: &[&str]) {
        let (t, s) = (t(inst), s(inst));
        let (value, fits) = match kind {
            "logic" => (inst.get(Field::U), UNSIGNED_12),
            _ => (inst.get(Field::I), SIGNED_12),
        };
        let ones = (value + 1).trailing_zeros();
        if fits.contains(&value) {
            self.op(words[0], &[t.into(), s.into(), value]);
        } else if words[0] == "andi" && value + 1 == 1 << ones {
            self.op("bstrpick.d", &[t.into(), s.into(), i64::from(ones) - 1, 0]);
        } else {
            self.asm.li(SCRATCH, value);
            self.rrr(words[1], t, s, SCRATCH);
        }
    }

    pub(super) fn lui(&mut self, inst: &Inst) {
        self.op("lu12i.w", &[t(inst).into(), inst.get(Field::I) << 4]);
    }

    /// d = s if t is zero (or is not): a branch over the move, one instruction less than masks.
    pub(super) fn move_if(&mut self, inst: &Inst, if_zero: bool) {
        let (d, s, t) = (d(inst), s(inst), t(inst));
        // What keeps its first operand where the move does not happen, and the branch that is taken
        // there.
        let (stays, skips) = if if_zero { ("maskeqz", "bnez") } else { ("masknez", "beqz") };
        if t == 0 {
            if if_zero {
                self.copy(d, s);
            }
        } else if s == 0 {
            self.rrr(stays, d, d, t);
        } else if d != s {
            let skip = self.asm.label();
            self.asm.branch(skips, &[t.into()], skip);
            self.copy(d, s);
            self.asm.bind(skip);
        }
    }

    /// add, addi, dadd, daddi and the subtractions: traps where the result does not fit.
    pub(super) fn add_or_trap(&mut self, inst: &Inst, doubleword: bool, words: &[&'static str]) {
        let is_immediate = matches!(inst.row.mnemonic, "addi" | "daddi");
        let (to, s) = (if is_immediate { t(inst) } else { d(inst) }, s(inst));
        let subtracts = words[0].starts_with("sub");
        let ok = self.asm.label();
        let mut other = t(inst);
        if is_immediate {
            self.asm.li(SCRATCH, inst.get(Field::I));
            other = SCRATCH;
        }
        self.spilled(&[s, other, to], |lower, x| {
            if doubleword {
                // The sum is less than s exactly if the other is negative; a difference, if the
                // other is positive.
                lower.rrr(words[0], x, s, other);
                if subtracts {
                    lower.rrr("slt", x, s, x);
                    lower.rrr("slt", SCRATCH, other, 0);
                } else {
                    lower.rrr("slt", x, x, s);
                    lower.rrr("slt", SCRATCH, other, 0);
                }
            } else {
                // The sum of two words needs 33 bits: it is a word if extending it changes nothing.
                lower.op("slli.w", &[x.into(), s.into(), 0]);
                lower.op("slli.w", &[SCRATCH.into(), other.into(), 0]);
                lower.rrr(words[1], x, x, SCRATCH);
                lower.op("slli.w", &[SCRATCH.into(), x.into(), 0]);
            }
            lower.rrr("xor", SCRATCH, SCRATCH, x);
        });
        self.asm.branch("beqz", &[SCRATCH.into()], ok);
        self.exit(Exit::Overflow);
        self.asm.bind(ok);
        if is_immediate {
            self.asm.li(SCRATCH, inst.get(Field::I));
        }
        self.rrr(words[0], to, s, other);
    }

    /// The registers that Linux lets a user program read.
    pub(super) fn hardware_register(&mut self, inst: &Inst) {
        let t = t(inst);
        match inst.get(Field::D) {
            // The processor's number: one processor.
            0 => self.asm.li(t, 0),
            // Bytes between the addresses for `synci`.
            1 => self.asm.li(t, 32),
            // A counter and how many cycles it counts in.
            2 => self.op("rdtime.d", &[t.into(), 0]),
            3 => self.asm.li(t, 1),
            29 => self.op("movscr2gr", &[t.into(), SCR_THREAD.into()]),
            _ => self.exit(Exit::Illegal(inst.word)),
        }
    }
}
