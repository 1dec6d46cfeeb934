//! Products, quotients, HI and LO.

use super::{Lower, d, s, t};
use crate::mips64::isa::Inst;
use crate::mips64::registers::{SCR_HI, SCR_LO, SCRATCH};

impl Lower {
    /// A product or quotient straight to LA64 registers, 0 for a half that nothing reads.
    pub(super) fn product_to(&mut self, inst: &Inst, low: u8, high: u8) {
        let (s, t) = (s(inst), t(inst));
        let (_, words) = inst.special().expect("invariant: products are no plain instructions");
        if low != 0 {
            self.rrr(words[0], low, s, t);
        }
        if high != 0 {
            self.rrr(words[1], high, s, t);
        }
    }

    pub(super) fn product(&mut self, inst: &Inst, kind: &str, words: &[&str]) {
        let (s, t) = (s(inst), t(inst));
        match kind {
            "mul" => {
                self.rrr(words[0], SCRATCH, s, t);
                self.put_scratch(SCR_LO, SCRATCH);
                self.rrr(words[1], SCRATCH, s, t);
                self.put_scratch(SCR_HI, SCRATCH);
            }
            "mfhi" => self.get_scratch(d(inst), SCR_HI),
            "mflo" => self.get_scratch(d(inst), SCR_LO),
            "mthi" => self.put_scratch(SCR_HI, s),
            "mtlo" => self.put_scratch(SCR_LO, s),
            _ => self.accumulate(s, t, words),
        }
    }

    fn put_scratch(&mut self, scratch: u8, from: u8) {
        self.op("movgr2scr", &[scratch.into(), from.into()]);
    }

    fn get_scratch(&mut self, to: u8, scratch: u8) {
        self.op("movscr2gr", &[to.into(), scratch.into()]);
    }

    /// HI:LO plus or minus the product of two words.
    fn accumulate(&mut self, s: u8, t: u8, words: &[&str]) {
        let scratch = i64::from(SCRATCH);
        self.spilled(&[s, t], |lower, x| {
            lower.get_scratch(x, SCR_HI);
            lower.op("slli.d", &[x.into(), x.into(), 32]);
            lower.get_scratch(SCRATCH, SCR_LO);
            lower.op("bstrins.d", &[x.into(), scratch, 31, 0]);
            lower.rrr(words[0], SCRATCH, s, t);
            lower.rrr(words[1], SCRATCH, x, SCRATCH);
            lower.op("slli.w", &[x.into(), scratch, 0]);
            lower.put_scratch(SCR_LO, x);
            lower.op("srai.d", &[x.into(), scratch, 32]);
            lower.put_scratch(SCR_HI, x);
        });
    }
}
