//! Vector instructions of SSE3, SSSE3, SSE4.1 and SSE4.2 that are more than one of LA64; crc32.
//!
//! The destination is written by the last instruction that may raise an exception, or behind it.

use super::Lower;
use super::operand::Extend;
use super::vector::lane;
use crate::x86::decode::{Inst, Operand};
use crate::x86::isa::flag;
use crate::x86::registers::{LOW_WORD, ZEROS, la64};
use littoral_base::mutant;

/// Operations on neighbours: the elements that are picked, and what is done with them.
const HORIZONTAL: [(&str, &str, &str); 10] = [
    ("phaddw", ".h", "vadd.h"),
    ("phaddd", ".w", "vadd.w"),
    ("phaddsw", ".h", "vsadd.h"),
    ("phsubw", ".h", "vsub.h"),
    ("phsubd", ".w", "vsub.w"),
    ("phsubsw", ".h", "vssub.h"),
    ("haddps", ".w", "vfadd.s"),
    ("haddpd", ".d", "vfadd.d"),
    ("hsubps", ".w", "vfsub.s"),
    ("hsubpd", ".d", "vfsub.d"),
];

/// Where a vector register's first elements come from, and what takes them to twice the width.
const WIDENING: [(&str, &[&str]); 6] = [
    ("bw", &["h.b"]),
    ("bd", &["h.b", "w.h"]),
    ("bq", &["h.b", "w.h", "d.w"]),
    ("wd", &["w.h"]),
    ("wq", &["w.h", "d.w"]),
    ("dq", &["d.w"]),
];

/// The number of bytes whose lanes an immediate of so few bits names.
fn blended(stem: &str) -> u8 {
    match stem {
        "blendps" => 4,
        "blendpd" => 8,
        _ => 2,
    }
}

impl Lower {
    /// One of these instructions; false if it is none.
    pub(super) fn on_later_vectors(&mut self, inst: &Inst) -> bool {
        let stem = inst.row.stem;
        match stem {
            "movddup" => self.of_source(inst, |l, d, s| l.rri("vreplvei.d", d, s, 0)),
            "movsldup" => self.of_source(inst, |l, d, s| l.rrr("vpackev.w", d, s, s)),
            "movshdup" => self.of_source(inst, |l, d, s| l.rrr("vpackod.w", d, s, s)),
            "pabsb" => self.of_source(inst, |l, d, s| l.rrr("vsigncov.b", d, s, s)),
            "pabsw" => self.of_source(inst, |l, d, s| l.rrr("vsigncov.h", d, s, s)),
            "pabsd" => self.of_source(inst, |l, d, s| l.rrr("vsigncov.w", d, s, s)),
            "addsubps" | "addsubpd" => self.add_subtract(inst),
            "pshufb" => self.shuffle_bytes(inst),
            "pmaddubsw" => self.multiply_add_bytes(inst),
            "pmulhrsw" => self.multiply_rounded(inst),
            "palignr" => self.align(inst),
            "pblendvb" => self.blend_by_signs(inst, ".b", 7),
            "blendvps" => self.blend_by_signs(inst, ".w", 31),
            "blendvpd" => self.blend_by_signs(inst, ".d", 63),
            "blendps" | "blendpd" | "pblendw" => self.blend(inst),
            "ptest" => self.test_bits(inst),
            "packusdw" => self.pack(inst, "vssrani.hu.w"),
            "phminposuw" => self.least_word(inst),
            "mpsadbw" => self.sums_of_differences(inst),
            "insertps" => self.insert_single(inst),
            "pinsrb" | "pinsrw" | "pinsrd" => self.insert_element(inst),
            "pextrb" | "pextrw" | "pextrd" | "extractps" => self.extract_element(inst),
            "roundps" | "roundpd" | "roundss" | "roundsd" => self.round(inst),
            "dpps" | "dppd" => self.dot_product(inst),
            _ => return self.widen_elements(inst) || self.horizontal(inst),
        }
        true
    }

    /// A result that is made of the source alone.
    fn of_source(&mut self, inst: &Inst, make: impl FnOnce(&mut Lower, u8, u8)) {
        let s = self.vector(inst, inst.operand(1));
        make(self, Self::destination(inst), s);
    }

    fn horizontal(&mut self, inst: &Inst) -> bool {
        let Some(&(_, suffix, name)) = HORIZONTAL.iter().find(|h| h.0 == inst.row.stem) else {
            return false;
        };
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let (even, odd) = (self.vector_temp(), self.vector_temp());
        self.rrr(&format!("vpickev{suffix}"), even, s, d);
        self.rrr(&format!("vpickod{suffix}"), odd, s, d);
        self.rrr(name, d, even, odd);
        true
    }

    /// pmovsx and pmovzx.
    fn widen_elements(&mut self, inst: &Inst) -> bool {
        let Some((kind, widths)) =
            inst.row.stem.strip_prefix("pmov").and_then(|s| s.split_at_checked(2))
        else {
            return false;
        };
        let Some((_, steps)) = WIDENING.iter().find(|w| w.0 == widths) else { return false };
        let (d, mut from) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        for step in *steps {
            let suffix = match (kind, *step) {
                ("sx", step) => step.to_string(),
                (_, "h.b") => "hu.bu".to_string(),
                (_, "w.h") => "wu.hu".to_string(),
                _ => "du.wu".to_string(),
            };
            self.rri(&format!("vsllwil.{suffix}"), d, from, 0);
            from = d;
        }
        true
    }

    /// addsubps, addsubpd: the source's even elements are negated, but not a NaN, whose sign would
    /// be the result's.
    fn add_subtract(&mut self, inst: &Inst) {
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let v = self.vector_temp();
        let is_single = inst.is("addsubps");
        let suffix = if is_single { ".s" } else { ".d" };
        if mutant!("x86_addsub_negates_nans") {
            self.rrr("vseq.d", v, s, s);
        } else {
            self.rrr(&format!("vfcmp.cor{suffix}"), v, s, s);
        }
        self.rri("vslli.d", v, v, 63);
        match is_single {
            true => self.rri("vsrli.d", v, v, 32),
            false => self.rrr("vilvl.d", v, ZEROS, v),
        }
        self.rrr("vxor.v", v, v, s);
        self.rrr(&format!("vfadd{suffix}"), d, d, v);
    }

    /// pshufb: an index of 16 is a byte of the zeros.
    fn shuffle_bytes(&mut self, inst: &Inst) {
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let v = self.vector_temp();
        let kept = if mutant!("x86_shuffle_never_clears") { 0x0f } else { 0x8f };
        self.rri("vandi.b", v, s, kept);
        self.rri("vmini.bu", v, v, 16);
        self.op("vshuf.b", &[d, ZEROS, d, v].map(i64::from));
    }

    /// pmaddubsw: bytes without a sign by bytes with one.
    fn multiply_add_bytes(&mut self, inst: &Inst) {
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let (even, odd) = (self.vector_temp(), self.vector_temp());
        self.rrr("vmulwev.h.bu.b", even, d, s);
        self.rrr("vmulwod.h.bu.b", odd, d, s);
        self.rrr("vsadd.h", d, even, odd);
    }

    /// pmulhrsw: bits 15 to 30 of the rounded products.
    fn multiply_rounded(&mut self, inst: &Inst) {
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let (even, odd) = (self.vector_temp(), self.vector_temp());
        for (name, v) in [("vmulwev.w.h", even), ("vmulwod.w.h", odd)] {
            self.rrr(name, v, d, s);
            self.rri("vsrlri.w", v, v, 15);
        }
        self.rrr("vpackev.h", d, odd, even);
    }

    /// palignr: 16 bytes of both, the source's below.
    fn align(&mut self, inst: &Inst) {
        let (d, count) = (Self::destination(inst), Self::vector_immediate(inst));
        let s = self.vector(inst, inst.operand(1));
        match count {
            0 => self.vector_copy(d, s),
            1..16 => {
                let v = if s > 15 { s } else { self.vector_temp() };
                self.rri("vbsrl.v", v, s, count);
                self.rri("vbsll.v", d, d, 16 - count);
                self.rrr("vor.v", d, d, v);
            }
            16 => {}
            17..32 => self.rri("vbsrl.v", d, d, count - 16),
            _ => self.rrr("vxor.v", d, d, d),
        }
    }

    /// The source's elements where those of xmm0 have their highest bit set.
    fn blend_by_signs(&mut self, inst: &Inst, suffix: &str, highest: i64) {
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let v = self.vector_temp();
        self.rri(&format!("vsrai{suffix}"), v, 0, highest);
        self.op("vbitsel.v", &[d, d, s, v].map(i64::from));
    }

    /// The source's elements that a number names.
    fn blend(&mut self, inst: &Inst) {
        let size = blended(inst.row.stem);
        let (d, count) = (Self::destination(inst), 16 / i64::from(size));
        let s = self.vector(inst, inst.operand(1));
        let chosen = Self::vector_immediate(inst) & ((1 << count) - 1);
        let name = format!("vextrins{}", lane(size));
        let places = |bits: i64| (0..count).filter(move |n| bits >> n & 1 == 1);
        if i64::from(chosen.count_ones()) <= count / 2 {
            return places(chosen).for_each(|n| self.rri(&name, d, s, n << 4 | n));
        }
        let v = if s > 15 { s } else { self.vector_temp() };
        self.vector_copy(v, s);
        places(!chosen).for_each(|n| self.rri(&name, v, d, n << 4 | n));
        self.vector_copy(d, v);
    }

    /// ptest: zero is that no bit is set in both, carry that none is in the source alone.
    fn test_bits(&mut self, inst: &Inst) {
        let (a, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let v = self.vector_temp();
        let mut sum = 0;
        for (name, own, place) in [("vandn.v", flag::C, 0), ("vand.v", flag::Z, 6)] {
            if !self.needs(own) {
                continue;
            }
            let t = self.temp();
            self.rrr(name, v, a, s);
            self.rr("vseteqz.v", 0, v);
            self.rr("movcf2gr", t, 0);
            if self.is_plain() {
                self.set_flag(own, t);
                continue;
            }
            if place > 0 {
                self.rri("slli.d", t, t, place);
            }
            if sum != 0 {
                self.rrr("or", t, t, sum);
            }
            sum = t;
        }
        if self.is_plain() {
            self.clear_flags(flag::ALL & !(flag::C | flag::Z));
        } else if self.needs(flag::ALL) {
            self.op("x86mtflag", &[sum.into(), flag::ALL.into()]);
        }
    }

    /// phminposuw: the least of eight words and its place: of words that have their places below
    /// them.
    fn least_word(&mut self, inst: &Inst) {
        const PLACES: [i64; 2] = [0x0003_0002_0001_0000, 0x0007_0006_0005_0004];
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let (low, high) = (self.vector_temp(), self.vector_temp());
        for (half, places) in PLACES.into_iter().enumerate() {
            let t = self.number(places);
            self.rri("vinsgr2vr.d", low, t, half as i64);
        }
        self.rrr("vilvh.h", high, s, low);
        self.rrr("vilvl.h", low, s, low);
        self.rrr("vmin.wu", low, low, high);
        for swapped in [0x4e, 0xb1] {
            self.rri("vshuf4i.w", high, low, swapped);
            self.rrr("vmin.wu", low, low, high);
        }
        self.rri("vshuf4i.h", low, low, 0xb1);
        self.rrr("vand.v", d, low, LOW_WORD);
    }

    /// mpsadbw: eight sums of four differences.
    fn sums_of_differences(&mut self, inst: &Inst) {
        let by = Self::vector_immediate(inst);
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let (sum, moved, one) = (self.vector_temp(), self.vector_temp(), self.vector_temp());
        let (of_first, of_second) = ((by >> 2 & 1) * 4, (by & 3) * 4);
        for n in 0..4 {
            let to = if n == 0 { sum } else { moved };
            self.rri("vbsrl.v", to, d, of_first + n);
            self.rri("vreplvei.b", one, s, of_second + n);
            self.rrr("vabsd.bu", to, to, one);
            self.rri("vsllwil.hu.bu", to, to, 0);
            if n > 0 {
                self.rrr("vadd.h", sum, sum, moved);
            }
        }
        self.vector_copy(d, sum);
    }

    /// insertps: one element, then zeros.
    fn insert_single(&mut self, inst: &Inst) {
        let (d, by) = (Self::destination(inst), Self::vector_immediate(inst));
        let from = if inst.memory().is_some() { 0 } else { by >> 6 };
        let s = self.vector(inst, inst.operand(1));
        self.rri("vextrins.w", d, s, (by >> 4 & 3) << 4 | from);
        self.clear_elements(d, ".w", by & 15);
    }

    /// Zeros in the elements whose bits are set.
    fn clear_elements(&mut self, d: u8, suffix: &str, bits: i64) {
        let places = (0..4).filter(|n| bits >> n & 1 == 1);
        places.for_each(|n| self.rri(&format!("vextrins{suffix}"), d, ZEROS, n << 4));
    }

    /// Bytes of the element that an instruction inserts or extracts: `operand` is the other side.
    fn element_size(inst: &Inst, operand: Operand) -> u8 {
        match (inst.row.stem, operand) {
            ("pinsrb" | "pextrb", _) => 1,
            ("pinsrw" | "pextrw", _) => 2,
            ("extractps", _) => 4,
            (_, Operand::Reg(r)) => r.size,
            (_, Operand::Mem(m)) => m.size,
            (name, _) => unreachable!("{name} names a register or memory"),
        }
    }

    fn insert_element(&mut self, inst: &Inst) {
        let (d, from) = (Self::destination(inst), inst.operand(1));
        let size = Self::element_size(inst, from);
        assert!(size.is_power_of_two() && size <= 8, "invariant: an element of a vector");
        let place = Self::vector_immediate(inst) & (16 / i64::from(size) - 1);
        let value = self.read(from, Extend::Any);
        self.rri(&format!("vinsgr2vr{}", lane(size)), d, value, place);
    }

    fn extract_element(&mut self, inst: &Inst) {
        let to = inst.operand(0);
        let size = Self::element_size(inst, to);
        let place = Self::vector_immediate(inst) & (16 / i64::from(size) - 1);
        let s = self.vector(inst, inst.operand(1));
        assert!(place < 16, "invariant: a place in a vector");
        match to {
            Operand::Mem(m) => {
                let at = self.place(&m);
                let address = self.exact(at);
                let operands = [s.into(), address.into(), 0, place];
                self.op(&format!("vstelm{}", lane(size)), &operands);
            }
            Operand::Reg(r) => {
                let zero = if size == 8 { "" } else { "u" };
                self.rri(&format!("vpickve2gr{}{zero}", lane(size)), la64(r.number), s, place);
            }
            _ => unreachable!("{} writes a register or memory", inst.row.name),
        }
    }

    /// roundps and its kin: to a whole number in a rounding mode of its own, or in that of MXCSR.
    fn round(&mut self, inst: &Inst) {
        const MODES: [&str; 4] = ["rne", "rm", "rp", "rz"];
        let (d, by) = (Self::destination(inst), Self::vector_immediate(inst));
        let s = self.vector(inst, inst.operand(1));
        let stem = inst.row.stem;
        let (all, is_single) = (stem.as_bytes()[5] == b'p', stem.ends_with('s'));
        let (format, element) = if is_single { (".s", ".w") } else { (".d", ".d") };
        let mode = if by & 4 != 0 { "" } else { MODES[(by & 3) as usize] };
        let v = if all { d } else { self.vector_temp() };
        // LA64 has these modes for vectors alone.
        let from = if all { s } else { v };
        if !all {
            self.rri(&format!("vreplvei{element}"), v, s, 0);
        }
        let held =
            (by & 8 != 0 && !mutant!("x86_rounding_raises_inexact")).then(|| self.hold_inexact());
        self.rr(&format!("vfrint{mode}{format}"), v, from);
        if let Some(held) = held {
            self.give_inexact(held);
        }
        self.merge(d, v, format);
    }

    /// Takes the trap on inexact results away. A register with the FCSR before.
    fn hold_inexact(&mut self) -> u8 {
        let (held, open) = (self.temp(), self.temp());
        self.op("movfcsr2gr", &[held.into(), 0]);
        self.rri("srli.d", open, held, 1);
        self.rri("slli.d", open, open, 1);
        self.op("movgr2fcsr", &[0, open.into()]);
        held
    }

    /// Puts the trap and the flag of inexact results back, and keeps what else was raised.
    fn give_inexact(&mut self, held: u8) {
        let raised = self.temp();
        self.op("movfcsr2gr", &[raised.into(), 0]);
        self.pick(raised, raised, 20, 17);
        self.insert(held, raised, 20, 17);
        self.op("movgr2fcsr", &[0, held.into()]);
    }

    /// dpps, dppd: products of the elements that the upper four bits name, their sum in those that
    /// the lower four name.
    fn dot_product(&mut self, inst: &Inst) {
        let (d, by) = (Self::destination(inst), Self::vector_immediate(inst));
        let s = self.vector(inst, inst.operand(1));
        let (a, b) = (self.vector_temp(), self.vector_temp());
        let (count, format, element) =
            if inst.is("dpps") { (4, ".s", ".w") } else { (2, ".d", ".d") };
        let all = (1 << count) - 1;
        let (left_out, cleared) = (!(by >> 4) & all, !by & all);
        // A product that is not asked for raises nothing.
        let (mut x, mut y) = (d, s);
        if left_out != 0 {
            for (v, from) in [(a, d), (b, s)] {
                self.vector_copy(v, from);
                self.clear_elements(v, element, left_out);
            }
            (x, y) = (a, b);
        }
        self.rrr(&format!("vfmul{format}"), a, x, y);
        let add = format!("vfadd{format}");
        if count == 4 {
            self.rri("vshuf4i.w", b, a, 0xb1);
            self.rrr(&add, a, a, b);
        }
        self.rri(&format!("vreplvei{element}"), b, a, count / 2);
        self.rri(&format!("vreplvei{element}"), a, a, 0);
        self.rrr(&add, a, a, b);
        self.clear_elements(a, element, cleared);
        self.vector_copy(d, a);
    }

    /// crc32, by the polynomial of Castagnoli.
    pub(super) fn checksum(&mut self, inst: &Inst) {
        let Operand::Reg(d) = inst.operand(0) else { return };
        let size = match inst.operand(1) {
            Operand::Reg(r) => r.size,
            Operand::Mem(m) => m.size,
            _ => 4,
        };
        let value = self.read(inst.operand(1), Extend::Any);
        let (t, to) = (self.temp(), la64(d.number));
        self.rrr(&format!("crcc.w{}.w", lane(size)), t, value, to);
        self.pick(to, t, 31, 0);
    }
}
