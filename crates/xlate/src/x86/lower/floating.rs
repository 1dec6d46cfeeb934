//! Floating point of SSE and SSE2.
//!
//! Operations trap where LA64 finds them invalid, and `float::complete` gives the processor's
//! result. Scalar operations make their result in a scratch register, from which it goes to the low
//! part of the destination; in the destination itself if nothing reads what stands above.

use super::Lower;
use super::operand::Extend;
use crate::code::Exit;
use crate::x86::decode::{Inst, Operand};
use crate::x86::float::CONDITIONS;
use crate::x86::isa::flag;
use crate::x86::lanes;
use crate::x86::registers::{ZEROS, la64};
use littoral_base::mutant;
use littoral_la64::asm::Label;

/// What an instruction's last two letters say: whether it is on all elements, and the LA64 suffix.
fn shape(stem: &str) -> (bool, &'static str) {
    match &stem[stem.len() - 2..] {
        "ps" => (true, ".s"),
        "pd" => (true, ".d"),
        "ss" => (false, ".s"),
        _ => (false, ".d"),
    }
}

/// Which vector operands of an instruction must not be denormal in code of a process that has such
/// numbers count as zeros: whether the first one too, and their elements as [`shape`] has them.
/// `None` where the instruction always runs outside translated code.
fn guards(stem: &str) -> Option<(bool, (bool, &'static str))> {
    match &stem[..stem.len() - 2] {
        "add" | "sub" | "mul" | "div" | "min" | "max" | "cmp" | "comi" | "ucomi" => {
            return Some((true, shape(stem)));
        }
        "sqrt" | "round" => return Some((false, shape(stem))),
        _ => {}
    }
    let elements = match stem {
        "cvtss2sd" | "cvtss2si" | "cvttss2si" => (false, ".s"),
        "cvtsd2si" | "cvttsd2si" => (false, ".d"),
        "cvtps2pd" | "cvtps2dq" | "cvttps2dq" => (true, ".s"),
        "cvtpd2dq" | "cvttpd2dq" => (true, ".d"),
        // Several operations, and conversions from doubles to singles.
        _ => return None,
    };
    Some((false, elements))
}

impl Lower {
    /// Arithmetic in a process that has denormal numbers count as zeros: as in others, unless an
    /// operand is denormal or the result may be tiny; then it runs outside translated code. False
    /// if it always does.
    ///
    /// What an operation raises before it is found tiny is raised again outside, and more.
    pub(super) fn guarded(&mut self, inst: &Inst) -> bool {
        let stem = inst.row.stem;
        if !inst.row.traits.meets_denormals {
            return false;
        }
        let Some((has_first, elements)) = guards(stem) else { return false };
        let (all, suffix) = elements;
        let outside = self.event(Exit::Assist(inst.at));
        let s = self.vector(inst, inst.operand(1));
        self.loaded = Some(s);
        let t = if all { self.vector_temp() } else { self.temp() };
        self.leave_if_small((s, t), elements, outside);
        if has_first {
            self.leave_if_small((Self::destination(inst), t), elements, outside);
        }
        if !matches!(&stem[..3], "add" | "sub" | "mul" | "div") {
            self.spare.extend((!all).then_some(t));
            self.unlocked(inst);
            return true;
        }
        let (d, v) = (Self::destination(inst), self.vector_temp());
        let kind = if all { "vf" } else { "f" };
        self.rrr(&format!("{kind}{}{suffix}", &stem[..3]), v, d, s);
        if !mutant!("x86_tiny_results_unguarded") {
            self.leave_if_small((v, t), elements, outside);
        }
        match all {
            true => self.vector_copy(d, v),
            false => self.merge(d, v, suffix),
        }
        true
    }

    /// Branches where an element is denormal, or the least normal number, to which a tiny one may
    /// have been rounded. Of a scalar only the low element counts. `t` is scratch: a vector
    /// register, for a scalar a general one.
    fn leave_if_small(&mut self, (x, t): (u8, u8), (all, suffix): (bool, &str), to: Label) {
        let (bits, fraction) = if suffix == ".s" { (32, 23) } else { (64, 52) };
        // The magnitude less one: a zero becomes the greatest number.
        if all {
            let element = if suffix == ".s" { ".w" } else { ".d" };
            self.rri(&format!("vbitclri{element}"), t, x, bits - 1);
            self.rri(&format!("vsubi{element}u"), t, t, 1);
            self.rri(&format!("vsrli{element}"), t, t, fraction);
            self.rr(&format!("vsetanyeqz{element}"), 0, t);
            self.asm.branch("bcnez", &[0], to);
        } else {
            self.rr(&format!("movfr2gr{suffix}"), t, x);
            self.pick(t, t, bits - 2, 0);
            self.rri("addi.d", t, t, -1);
            self.rri("srli.d", t, t, fraction);
            self.asm.branch("beqz", &[t.into()], to);
        }
    }

    /// A floating-point instruction; false if it is none.
    pub(super) fn on_floats(&mut self, inst: &Inst) -> bool {
        let stem = inst.row.stem;
        match &stem[..stem.len().saturating_sub(2)] {
            "add" | "sub" | "mul" | "div" => self.float_binary(inst),
            "sqrt" => self.root(inst),
            "min" | "max" => self.lesser(inst),
            "cmp" if inst.row.float => self.float_compare(inst),
            "comi" | "ucomi" => self.compare_to_flags(inst),
            _ if stem.starts_with("cvt") => self.convert(inst),
            _ => return false,
        }
        true
    }

    /// The register in which a scalar result is made: the destination itself if nothing reads what
    /// stands above the result.
    fn scalar(&mut self, d: u8, suffix: &str) -> u8 {
        let is_dead = self.lanes & lanes::above(d, if suffix == ".s" { 4 } else { 8 }) == 0;
        if is_dead || mutant!("x86_live_upper_lost") { d } else { self.vector_temp() }
    }

    /// Puts a scalar into the low part of a register.
    pub(super) fn merge(&mut self, d: u8, v: u8, suffix: &str) {
        if d == v {
            return;
        }
        match mutant!("x86_scalar_clears_upper") {
            true => self.rrr("vilvl.d", d, ZEROS, v),
            false if suffix == ".s" => self.rri("vextrins.w", d, v, 0),
            false => self.rri("vextrins.d", d, v, 0),
        }
    }

    fn float_binary(&mut self, inst: &Inst) {
        let (all, suffix) = shape(inst.row.stem);
        let operation = &inst.row.stem[..3];
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        if all {
            return self.rrr(&format!("vf{operation}{suffix}"), d, d, s);
        }
        let v = self.scalar(d, suffix);
        self.rrr(&format!("f{operation}{suffix}"), v, d, s);
        self.merge(d, v, suffix);
    }

    fn root(&mut self, inst: &Inst) {
        let (all, suffix) = shape(inst.row.stem);
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        if all {
            return self.rr(&format!("vfsqrt{suffix}"), d, s);
        }
        let v = self.scalar(d, suffix);
        self.rr(&format!("fsqrt{suffix}"), v, s);
        self.merge(d, v, suffix);
    }

    /// min and max: the source unless the destination is less, or greater.
    fn lesser(&mut self, inst: &Inst) {
        let (all, suffix) = shape(inst.row.stem);
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let (a, b) = if inst.row.stem.starts_with("min") { (d, s) } else { (s, d) };
        let or_equal = mutant!("x86_min_takes_first_zero");
        let condition = if or_equal { "sle" } else { "slt" };
        if all {
            let v = self.vector_temp();
            self.rrr(&format!("vfcmp.{condition}{suffix}"), v, a, b);
            return self.op("vbitsel.v", &[d, s, d, v].map(i64::from));
        }
        self.rrr(&format!("fcmp.{condition}{suffix}"), 0, a, b);
        let v = self.scalar(d, suffix);
        self.op("fsel", &[v.into(), s.into(), d.into(), 0]);
        self.merge(d, v, suffix);
    }

    fn float_compare(&mut self, inst: &Inst) {
        let (all, suffix) = shape(inst.row.stem);
        let (condition, swapped) = CONDITIONS[(Self::vector_immediate(inst) & 7) as usize];
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let (a, b) = if swapped { (s, d) } else { (d, s) };
        if all {
            return self.rrr(&format!("vfcmp.{condition}{suffix}"), d, a, b);
        }
        let t = self.temp();
        self.rrr(&format!("fcmp.{condition}{suffix}"), 0, a, b);
        self.rr("movcf2gr", t, 0);
        self.rrr("sub.d", t, 0, t);
        let name = if suffix == ".s" { "vinsgr2vr.w" } else { "vinsgr2vr.d" };
        self.rri(name, d, t, 0);
    }

    /// comiss and its kin: carry is less or unordered, zero equal or unordered, parity unordered.
    fn compare_to_flags(&mut self, inst: &Inst) {
        let stem = inst.row.stem;
        let quiet = if stem.starts_with('u') { 'c' } else { 's' };
        let suffix = shape(stem).1;
        let Operand::Xmm(a) = inst.operand(0) else { return };
        let b = self.vector(inst, inst.operand(1));
        if self.begins_group() {
            return self.compare_floats((quiet, suffix), a, b);
        }
        if self.is_plain() {
            return self.plain_float_flags((quiet, suffix), a, b);
        }
        // One comparison in any case, for the exceptions.
        let parts = [("ult", flag::C, 0), ("ueq", flag::Z, 6), ("un", flag::P, 2)];
        let mut sum = None;
        for (n, (condition, own, place)) in parts.into_iter().enumerate() {
            let needed = self.needs(own);
            if !needed && n > 0 {
                continue;
            }
            self.rrr(&format!("fcmp.{quiet}{condition}{suffix}"), n as u8, a, b);
            if needed {
                let t = self.temp();
                self.rr("movcf2gr", t, n as u8);
                if place > 0 {
                    self.rri("slli.d", t, t, place);
                }
                if let Some(before) = sum {
                    self.rrr("or", t, t, before);
                }
                sum = Some(t);
            }
        }
        if self.needs(flag::ALL) {
            self.op("x86mtflag", &[sum.unwrap_or(0).into(), flag::ALL.into()]);
        }
    }

    /// The same without LBT: the comparisons are the flags.
    fn plain_float_flags(&mut self, (quiet, suffix): (char, &str), a: u8, b: u8) {
        let parts = [("ult", flag::C), ("ueq", flag::Z), ("un", flag::P)];
        for (n, (condition, own)) in parts.into_iter().enumerate() {
            if !self.needs(own) && n > 0 {
                continue;
            }
            self.rrr(&format!("fcmp.{quiet}{condition}{suffix}"), 0, a, b);
            if self.needs(own) {
                let t = self.temp();
                self.rr("movcf2gr", t, 0);
                self.set_flag(own, t);
            }
        }
        self.clear_flags(flag::A | flag::S | flag::O);
    }

    fn convert(&mut self, inst: &Inst) {
        match inst.row.stem {
            "cvtsi2ss" => self.scalar_of_integer(inst, ".s"),
            "cvtsi2sd" => self.scalar_of_integer(inst, ".d"),
            "cvtss2si" => self.integer_of_scalar(inst, "ftint", "s"),
            "cvtsd2si" => self.integer_of_scalar(inst, "ftint", "d"),
            "cvttss2si" => self.integer_of_scalar(inst, "ftintrz", "s"),
            "cvttsd2si" => self.integer_of_scalar(inst, "ftintrz", "d"),
            "cvtss2sd" => self.convert_scalar(inst, "fcvt.d.s", ".d"),
            "cvtsd2ss" => self.convert_scalar(inst, "fcvt.s.d", ".s"),
            "cvtps2pd" => self.convert_all(inst, "vfcvtl.d.s"),
            "cvtdq2pd" => self.convert_all(inst, "vffintl.d.w"),
            "cvtdq2ps" => self.convert_all(inst, "vffint.s.w"),
            "cvtps2dq" => self.convert_all(inst, "vftint.w.s"),
            "cvttps2dq" => self.convert_all(inst, "vftintrz.w.s"),
            "cvtpd2ps" => self.narrow(inst, "vfcvt.s.d"),
            "cvtpd2dq" => self.narrow(inst, "vftint.w.d"),
            _ => self.narrow(inst, "vftintrz.w.d"),
        }
    }

    fn scalar_of_integer(&mut self, inst: &Inst, suffix: &str) {
        let (d, v) = (Self::destination(inst), self.vector_temp());
        let size = match inst.operand(1) {
            Operand::Mem(m) => m.size,
            Operand::Reg(r) => r.size,
            _ => 4,
        };
        let value = self.read(inst.operand(1), Extend::Any);
        let (moves, from) = if size == 4 { ("movgr2fr.w", "w") } else { ("movgr2fr.d", "l") };
        self.rr(moves, v, value);
        let made = self.scalar(d, suffix);
        self.rr(&format!("ffint{suffix}.{from}"), made, v);
        self.merge(d, made, suffix);
    }

    fn integer_of_scalar(&mut self, inst: &Inst, name: &str, from: &str) {
        let Operand::Reg(r) = inst.operand(0) else { return };
        let s = self.vector(inst, inst.operand(1));
        let v = self.vector_temp();
        let (to, takes) = if r.size == 4 { ("w", "vpickve2gr.wu") } else { ("l", "vpickve2gr.d") };
        self.rr(&format!("{name}.{to}.{from}"), v, s);
        self.rri(takes, la64(r.number), v, 0);
    }

    fn convert_scalar(&mut self, inst: &Inst, name: &str, suffix: &str) {
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let v = self.scalar(d, suffix);
        self.rr(name, v, s);
        self.merge(d, v, suffix);
    }

    fn convert_all(&mut self, inst: &Inst, name: &str) {
        let s = self.vector(inst, inst.operand(1));
        self.rr(name, Self::destination(inst), s);
    }

    /// Two elements to the low half, with zeros above them.
    fn narrow(&mut self, inst: &Inst, name: &str) {
        let s = self.vector(inst, inst.operand(1));
        self.rrr(name, Self::destination(inst), ZEROS, s);
    }
}
