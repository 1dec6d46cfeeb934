//! Loads and stores.

use super::{Lower, float, s, t, value};
use crate::mips64::isa::{Field, Inst};
use crate::mips64::registers::SCRATCH;

const SIGNED_12: std::ops::Range<i64> = -2048..2048;

impl Lower {
    /// An access of a general register; `words` are the codes with an immediate, with an index, and
    /// with a wide immediate that is a multiple of 4.
    pub(super) fn access(&mut self, inst: &Inst, words: &[&str]) {
        let offset = inst.get(Field::I);
        self.access_at(value(inst), s(inst), offset, words);
    }

    pub(super) fn access_at(&mut self, value: u8, base: u8, offset: i64, words: &[&str]) {
        let (value, base) = (i64::from(value), i64::from(base));
        let (half, scratch) = (if offset < 0 { -2048 } else { 2047 }, i64::from(SCRATCH));
        if SIGNED_12.contains(&offset) {
            self.op(words[0], &[value, base, offset]);
        } else if offset % 4 == 0 && words.len() > 2 {
            self.op(words[2], &[value, base, offset]);
        } else if SIGNED_12.contains(&(offset - half)) {
            self.op("addi.d", &[scratch, base, half]);
            self.op(words[0], &[value, scratch, offset - half]);
        } else {
            self.asm.li(SCRATCH, offset);
            self.op(words[1], &[value, base, scratch]);
        }
    }

    /// An access at the sum of two LA64 registers.
    pub(super) fn indexed(&mut self, inst: &Inst, base: u8, index: u8) {
        let (_, words) = inst.special().expect("invariant: accesses are no plain instructions");
        self.rrr(words[1], value(inst), base, index);
    }

    /// luxc1, suxc1: the sum without its lowest three bits.
    pub(super) fn access_aligned(&mut self, inst: &Inst, code: &str) {
        let scratch = i64::from(SCRATCH);
        self.rrr("add.d", SCRATCH, s(inst), t(inst));
        self.op("bstrins.d", &[scratch, 0, 2, 0]);
        self.op(code, &[float(inst).into(), scratch, 0]);
    }

    /// ll, lld, sc, scd.
    pub(super) fn linked(&mut self, inst: &Inst, code: &str) {
        let (value, offset) = (i64::from(t(inst)), inst.get(Field::I));
        if offset % 4 == 0 {
            return self.op(code, &[value, s(inst).into(), offset]);
        }
        self.asm.li(SCRATCH, offset);
        self.rrr("add.d", SCRATCH, SCRATCH, s(inst));
        self.op(code, &[value, SCRATCH.into(), 0]);
    }

    /// The address of an access in the scratch register.
    fn address(&mut self, inst: &Inst) {
        let offset = inst.get(Field::I);
        if SIGNED_12.contains(&offset) {
            self.op("addi.d", &[SCRATCH.into(), s(inst).into(), offset]);
        } else {
            self.asm.li(SCRATCH, offset);
            self.rrr("add.d", SCRATCH, SCRATCH, s(inst));
        }
    }

    /// lwl, lwr, ldl, ldr: the aligned word's part that belongs into the register.
    ///
    /// With n the address's offset in its word of W bits: a left part is the word shifted left by
    /// W - 8 - 8n, above the register's own low bits; a right part is the word shifted right by 8n,
    /// below its own high bits.
    pub(super) fn load_part(&mut self, inst: &Inst, kind: &str) {
        let value = t(inst);
        let (wide, left) = (kind.starts_with("ld"), kind.ends_with('l'));
        let scratch = i64::from(SCRATCH);
        self.address(inst);
        let (load, last) = if wide { ("ld.d", 2) } else { ("ld.wu", 1) };
        self.op("bstrins.d", &[scratch, 0, last, 0]);
        self.op(load, &[scratch, scratch, 0]);
        if value == 0 {
            return;
        }
        self.spilled(&[value, s(inst)], |lower, x| {
            let amount = i64::from(x);
            // The address again: the base is as it was.
            lower.amount(inst, x, wide, left);
            if left {
                lower.rrr("sll.d", SCRATCH, SCRATCH, x);
                lower.keep_low(value, x, amount);
            } else {
                lower.rrr("srl.d", SCRATCH, SCRATCH, x);
                lower.keep_high(value, x, amount, wide);
            }
        });
        self.rrr("or", value, value, SCRATCH);
        if !wide {
            self.op("slli.w", &[value.into(), value.into(), 0]);
        }
    }

    /// x = the bits by which the word is shifted.
    fn amount(&mut self, inst: &Inst, x: u8, wide: bool, left: bool) {
        let (x, offset) = (i64::from(x), inst.get(Field::I));
        let (last, mask) = if wide { (2, 56) } else { (1, 24) };
        // Only the lowest bits of the address count.
        self.op("addi.d", &[x, s(inst).into(), offset & 7]);
        self.op("bstrpick.d", &[x, x, last, 0]);
        self.op("slli.d", &[x, x, 3]);
        if left {
            self.op("xori", &[x, x, mask]);
        }
    }

    /// Clears all but the lowest `x` bits of a register; shifts by 64 in two steps.
    fn keep_low(&mut self, value: u8, x: u8, amount: i64) {
        let value64 = i64::from(value);
        self.op("xori", &[amount, amount, 63]);
        self.rrr("sll.d", value, value, x);
        self.op("slli.d", &[value64, value64, 1]);
        self.rrr("srl.d", value, value, x);
        self.op("srli.d", &[value64, value64, 1]);
    }

    /// Clears the lowest W - `x` bits of a register.
    fn keep_high(&mut self, value: u8, x: u8, amount: i64, wide: bool) {
        let value64 = i64::from(value);
        // W - x is (W - 1 - x) and one more.
        self.op("xori", &[amount, amount, if wide { 63 } else { 31 }]);
        self.rrr("srl.d", value, value, x);
        self.op("srli.d", &[value64, value64, 1]);
        self.rrr("sll.d", value, value, x);
        self.op("slli.d", &[value64, value64, 1]);
    }

    /// swl, swr, sdl, sdr: a left part stores the register's highest bytes from the word's begin
    /// to the address, a right part its lowest bytes from the address to the word's end.
    ///
    /// Only those bytes are stored, in pieces of 8, 4, 2 and 1, all of one word: another thread's
    /// bytes beside them stay, and if one piece faults, the first one does.
    pub(super) fn store_part(&mut self, inst: &Inst, kind: &str) {
        let (value, wide, left) = (t(inst), kind.starts_with("sd"), kind.ends_with('l'));
        let last = if wide { 2 } else { 1 };
        let scratch = i64::from(SCRATCH);
        let avoided = [value, s(inst)];
        self.address(inst);
        self.spilled(&avoided, |lower, x| {
            lower.spilled_upper(&[avoided[0], avoided[1], x], |lower, y| {
                let (count, piece) = (i64::from(y), i64::from(x));
                lower.op("bstrpick.d", &[count, scratch, last, 0]);
                if left {
                    lower.op("slli.d", &[piece, count, 3]);
                    lower.op("xori", &[piece, piece, if wide { 56 } else { 24 }]);
                    lower.rrr(if wide { "srl.d" } else { "srl.w" }, x, value, x);
                    lower.op("bstrins.d", &[scratch, 0, last, 0]);
                    lower.op("addi.d", &[count, count, 1]);
                } else {
                    lower.copy(x, value);
                    lower.op("xori", &[count, count, if wide { 7 } else { 3 }]);
                    lower.op("addi.d", &[count, count, 1]);
                }
                lower.faults_with([x, y]);
                lower.store_pieces(x, y);
                lower.faults_with([0, 0]);
            });
        });
    }

    /// Stores the lowest `y` bytes of x from the scratch register's address on.
    fn store_pieces(&mut self, x: u8, y: u8) {
        let (piece, count, at) = (i64::from(x), i64::from(y), i64::from(SCRATCH));
        let end = self.asm.label();
        self.op("slli.d", &[count, count, 60]);
        for (code, bytes) in [("st.d", 8), ("st.w", 4), ("st.h", 2), ("st.b", 1)] {
            let skip = self.asm.label();
            self.asm.branch("bge", &[count, 0], skip);
            self.op(code, &[piece, at, 0]);
            if bytes == 8 {
                self.asm.branch("b", &[], end);
            } else if bytes > 1 {
                self.op("srli.d", &[piece, piece, 8 * bytes]);
                self.op("addi.d", &[at, at, bytes]);
            }
            self.asm.bind(skip);
            if bytes > 1 {
                self.op("slli.d", &[count, count, 1]);
            }
        }
        self.asm.bind(end);
    }
}
