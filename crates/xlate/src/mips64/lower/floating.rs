//! Floating point that is not one LA64 instruction: conditional moves, unfused multiply-add, the
//! control register.

use super::{Lower, d, s, t};
use crate::code::Exit;
use crate::mips64::float::condition_bit;
use crate::mips64::isa::{Field, Inst};
use crate::mips64::registers::{FLOAT_SCRATCH, SCRATCH};
use littoral_base::mutant;

/// Number of the control register FCSR for `cfc1` and `ctc1`.
const FCSR: i64 = 31;
/// Number of the implementation's register, and what it reads: double, single, word and
/// doubleword formats, 64-bit registers.
const FIR: i64 = 0;
const FORMATS: i64 = 0x0073_0000;

impl Lower {
    /// movf and movt, movz.fmt and movn.fmt: a branch over the move.
    pub(super) fn move_over(&mut self, inst: &Inst, words: &[&'static str]) {
        let skip = self.asm.label();
        if inst.is("movcc") {
            let unless = if words[0] == "bceqz" { "bcnez" } else { "bceqz" };
            self.asm.branch(unless, &[inst.get(Field::C)], skip);
            self.copy(d(inst), s(inst));
        } else {
            self.asm.branch(words[0], &[t(inst).into()], skip);
            self.op(words[1], &[inst.get(Field::Fd), inst.get(Field::Fs)]);
        }
        self.asm.bind(skip);
    }

    /// rsqrt: the root stands in the scratch register, because the reciprocal may trap.
    pub(super) fn reciprocal_root(&mut self, inst: &Inst, words: &[&str]) {
        let (fd, fs) = (inst.get(Field::Fd), inst.get(Field::Fs));
        let root = i64::from(FLOAT_SCRATCH);
        self.op(words[0], &[root, fs]);
        self.op(words[1], &[fd, root]);
    }

    /// madd and its kin: release 2 rounds the product too. It stands in the scratch register,
    /// because the sum may trap. If that register holds the addend, f31, the product takes one that
    /// is saved: the destination, or another one if the destination is f31.
    pub(super) fn fused(&mut self, inst: &Inst, words: &[&str]) {
        let [fd, fr, fs, ft] = [Field::Fd, Field::Fr, Field::Fs, Field::Ft].map(|f| inst.get(f));
        if fr != i64::from(FLOAT_SCRATCH) {
            let product = i64::from(FLOAT_SCRATCH);
            self.op(words[0], &[product, fs, ft]);
            self.op(words[1], &[fd, product, fr]);
            if let Some(negate) = words.get(2) {
                self.op(negate, &[fd, fd]);
            }
            return;
        }
        let other = if fd == fr { (0..32).find(|r| ![fd, fs, ft].contains(r)) } else { None };
        let product = other.unwrap_or(fd);
        self.spilled_float(product, |lower| {
            lower.op(words[0], &[product, fs, ft]);
            lower.op(words[1], &[fd, product, fr]);
        });
        if let Some(negate) = words.get(2) {
            self.op(negate, &[fd, fd]);
        }
        if product != fd {
            self.op("movgr2fr.d", &[product, SCRATCH.into()]);
        }
    }

    /// cfc1 of the FCSR: its fields from FCSR0, the LBT flag CF and the condition flags.
    pub(super) fn read_control(&mut self, inst: &Inst) {
        let (t, scratch) = (t(inst), i64::from(SCRATCH));
        let to = i64::from(t);
        match inst.get(Field::B) {
            FIR => return self.asm.li(t, FORMATS),
            FCSR if t != 0 => {}
            FCSR => return,
            _ => return self.exit(Exit::Illegal(inst.word)),
        }
        self.op("movfcsr2gr", &[scratch, 0]);
        self.op("bstrpick.d", &[to, scratch, 9, 8]);
        self.op("bstrins.d", &[to, scratch, 10, 7]);
        self.op("srli.d", &[scratch, scratch, 16]);
        self.op("bstrins.d", &[to, scratch, 6, 2]);
        self.op("srli.d", &[scratch, scratch, 8]);
        self.op("bstrins.d", &[to, scratch, 16, 12]);
        self.op("x86mfflag", &[scratch, 1]);
        self.op("bstrins.d", &[to, scratch, 11, 11]);
        for n in 0..8 {
            let bit = i64::from(condition_bit(n));
            self.op("movcf2gr", &[scratch, n.into()]);
            self.op("bstrins.d", &[to, scratch, bit, bit]);
        }
        self.op("slli.w", &[to, to, 0]);
    }

    /// ctc1 of the FCSR. The trap on invalid operations stays on in FCSR0. A cause that is written
    /// together with its trap is an exception of this instruction, behind the write.
    pub(super) fn write_control(&mut self, inst: &Inst) {
        let (t, scratch) = (t(inst), i64::from(SCRATCH));
        if inst.get(Field::B) != FCSR {
            return self.exit(Exit::Illegal(inst.word));
        }
        self.spilled(&[t], |lower, x| {
            let (x, from) = (i64::from(x), i64::from(t));
            lower.op("bstrpick.d", &[scratch, from, 10, 7]);
            lower.op("ori", &[scratch, scratch, 16]);
            lower.op("bstrins.d", &[scratch, from, 9, 8]);
            for (bit, high, low) in [(2, 20, 16), (12, 28, 24)] {
                lower.op("srli.d", &[x, from, bit]);
                lower.op("bstrins.d", &[scratch, x, high, low]);
            }
            lower.op("movgr2fcsr", &[0, scratch]);
            lower.op("srli.d", &[x, from, 11]);
            lower.op("x86mtflag", &[x, 1]);
            for n in 0..8 {
                lower.op("srli.d", &[x, from, condition_bit(n).into()]);
                lower.op("movgr2cf", &[n.into(), x]);
            }
        });
        if mutant!("mips64_written_cause_waits") {
            return;
        }
        // The causes lie five bits above the traps.
        const TRAPS: i64 = 0x1f << 7;
        let (ok, from) = (self.asm.label(), i64::from(t));
        self.op("srli.d", &[scratch, from, 5]);
        self.op("and", &[scratch, scratch, from]);
        self.op("andi", &[scratch, scratch, TRAPS]);
        self.asm.branch("beqz", &[scratch], ok);
        self.exit(Exit::Float);
        self.asm.bind(ok);
    }
}
