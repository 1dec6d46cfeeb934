//! Vector registers: moves, logic, shuffles and integer arithmetic of SSE and SSE2.
//!
//! xmm registers are v0 to v15. A scalar load of LA64 leaves open what stands above the scalar, so
//! each use of one fills that part.

use super::Lower;
use super::operand::{Extend, Place};
use crate::code::Exit;
use crate::x86::decode::{Inst, Mem, Operand};
use crate::x86::lanes;
use crate::x86::registers::{LOW_WORD, MAP, VECTORS, ZEROS, la64};
use littoral_base::mutant;

/// Operations on two vectors that are one instruction of LA64; `true` where the source comes
/// first.
const BINARY: [(&str, &str, bool); 72] = [
    ("paddb", "vadd.b", false),
    ("paddw", "vadd.h", false),
    ("paddd", "vadd.w", false),
    ("paddq", "vadd.d", false),
    ("psubb", "vsub.b", false),
    ("psubw", "vsub.h", false),
    ("psubd", "vsub.w", false),
    ("psubq", "vsub.d", false),
    ("paddsb", "vsadd.b", false),
    ("paddsw", "vsadd.h", false),
    ("paddusb", "vsadd.bu", false),
    ("paddusw", "vsadd.hu", false),
    ("psubsb", "vssub.b", false),
    ("psubsw", "vssub.h", false),
    ("psubusb", "vssub.bu", false),
    ("psubusw", "vssub.hu", false),
    ("pand", "vand.v", false),
    ("andps", "vand.v", false),
    ("andpd", "vand.v", false),
    ("pandn", "vandn.v", false),
    ("andnps", "vandn.v", false),
    ("andnpd", "vandn.v", false),
    ("por", "vor.v", false),
    ("orps", "vor.v", false),
    ("orpd", "vor.v", false),
    ("pxor", "vxor.v", false),
    ("xorps", "vxor.v", false),
    ("xorpd", "vxor.v", false),
    ("pcmpeqb", "vseq.b", false),
    ("pcmpeqw", "vseq.h", false),
    ("pcmpeqd", "vseq.w", false),
    ("pcmpgtb", "vslt.b", true),
    ("pcmpgtw", "vslt.h", true),
    ("pcmpgtd", "vslt.w", true),
    ("pmullw", "vmul.h", false),
    ("pmulhw", "vmuh.h", false),
    ("pmulhuw", "vmuh.hu", false),
    ("pmuludq", "vmulwev.d.wu", false),
    ("pavgb", "vavgr.bu", false),
    ("pavgw", "vavgr.hu", false),
    ("pminub", "vmin.bu", false),
    ("pmaxub", "vmax.bu", false),
    ("pminsw", "vmin.h", false),
    ("pmaxsw", "vmax.h", false),
    ("punpcklbw", "vilvl.b", true),
    ("punpcklwd", "vilvl.h", true),
    ("punpckldq", "vilvl.w", true),
    ("punpcklqdq", "vilvl.d", true),
    ("punpckhbw", "vilvh.b", true),
    ("punpckhwd", "vilvh.h", true),
    ("punpckhdq", "vilvh.w", true),
    ("punpckhqdq", "vilvh.d", true),
    ("unpcklps", "vilvl.w", true),
    ("unpcklpd", "vilvl.d", true),
    ("unpckhps", "vilvh.w", true),
    ("unpckhpd", "vilvh.d", true),
    ("movlhps", "vilvl.d", true),
    ("psignb", "vsigncov.b", true),
    ("psignw", "vsigncov.h", true),
    ("psignd", "vsigncov.w", true),
    ("pmuldq", "vmulwev.d.w", false),
    ("pmulld", "vmul.w", false),
    ("pcmpeqq", "vseq.d", false),
    ("pcmpgtq", "vslt.d", true),
    ("pminsb", "vmin.b", false),
    ("pminsd", "vmin.w", false),
    ("pminuw", "vmin.hu", false),
    ("pminud", "vmin.wu", false),
    ("pmaxsb", "vmax.b", false),
    ("pmaxsd", "vmax.w", false),
    ("pmaxuw", "vmax.hu", false),
    ("pmaxud", "vmax.wu", false),
];

/// Moves of 16 bytes.
const WHOLE: [&str; 11] = [
    "movups", "movupd", "movdqu", "movaps", "movapd", "movdqa", "movntps", "movntpd", "movntdq",
    "lddqu", "movntdqa",
];

/// Bytes of the elements that a shift works on, by the last letter of its name.
fn element(stem: &str) -> u8 {
    match stem.as_bytes()[stem.len() - 1] {
        b'w' => 2,
        b'd' => 4,
        _ => 8,
    }
}

/// The suffix of an element of so many bytes.
pub(super) fn lane(size: u8) -> &'static str {
    super::suffix(size)
}

impl Lower {
    /// A vector register that the instruction does not use yet.
    pub(super) fn vector_temp(&mut self) -> u8 {
        self.vectors_used += 1;
        VECTORS[self.vectors_used - 1]
    }

    /// Leaves with general protection unless a place is a multiple of 16. A guest register that was
    /// tested is not tested again until an instruction comes that may write it.
    fn aligned(&mut self, place: Place) {
        let by_base = place.displacement % 16 == 0;
        let bit = if by_base && MAP.contains(&place.base) { 1 << place.base } else { 0 };
        if self.aligned_bases & bit != 0 {
            return;
        }
        let misaligned = self.event(Exit::Privileged);
        let address = if by_base { place.base } else { self.exact(place) };
        let t = self.temp();
        self.rri("andi", t, address, 15);
        self.asm.branch("bnez", &[t.into()], misaligned);
        self.aligned_bases |= bit;
    }

    /// Where 16 bytes lie, checked for their alignment if the instruction asks for one.
    fn place_16(&mut self, inst: &Inst, m: &Mem) -> Place {
        let place = self.place(m);
        if !inst.row.unaligned && !mutant!("x86_vectors_misaligned") {
            self.aligned(place);
        }
        place
    }

    /// A register with a vector operand: not to be written unless it is memory's. What stands above
    /// 2, 4 or 8 bytes of memory is open.
    pub(super) fn vector(&mut self, inst: &Inst, operand: Operand) -> u8 {
        match operand {
            Operand::Xmm(n) => n,
            Operand::Mem(m) => self.loaded.unwrap_or_else(|| {
                let v = self.vector_temp();
                self.vector_load(inst, v, &m);
                v
            }),
            Operand::Reg(_) | Operand::Mm(_) | Operand::Imm(_) | Operand::Target(_) => {
                unreachable!("a vector operand is a vector register or memory")
            }
        }
    }

    fn vector_load(&mut self, inst: &Inst, v: u8, m: &Mem) {
        let (name, place) = match m.size {
            2 => {
                let t = self.read(Operand::Mem(*m), Extend::Any);
                return self.rri("vinsgr2vr.h", v, t, 0);
            }
            4 => ("fld.s", self.place(m)),
            8 => ("fld.d", self.place(m)),
            _ => ("vld", self.place_16(inst, m)),
        };
        self.rri(name, v, place.base, place.displacement);
    }

    fn vector_store(&mut self, inst: &Inst, v: u8, m: &Mem) {
        let (name, place) = match m.size {
            4 => ("fst.s", self.place(m)),
            8 => ("fst.d", self.place(m)),
            _ => ("vst", self.place_16(inst, m)),
        };
        self.rri(name, v, place.base, place.displacement);
    }

    pub(super) fn vector_copy(&mut self, d: u8, s: u8) {
        if d != s {
            self.rrr("vor.v", d, s, s);
        }
    }

    /// The number of the first operand, a vector register.
    pub(super) fn destination(inst: &Inst) -> u8 {
        match inst.operand(0) {
            Operand::Xmm(n) => n,
            _ => unreachable!("{} writes a vector register", inst.row.name),
        }
    }

    /// The last operand, a number of 8 bits.
    pub(super) fn vector_immediate(inst: &Inst) -> i64 {
        match inst.operands().last() {
            Some(Operand::Imm(value)) => value & 0xff,
            _ => 0,
        }
    }

    /// A vector register becomes the low 4 or 8 bytes of another, and zeros.
    fn low_part(&mut self, d: u8, s: u8, size: u8) {
        match size {
            4 => self.rrr("vand.v", d, s, LOW_WORD),
            _ => self.rrr("vilvl.d", d, ZEROS, s),
        }
    }

    /// An instruction on vectors without floating-point arithmetic; false if it is none.
    pub(super) fn on_vectors(&mut self, inst: &Inst) -> bool {
        let stem = inst.row.stem;
        if WHOLE.contains(&stem) {
            self.move_whole(inst);
        } else if self.move_part(inst) || self.binary(inst) {
            // Done.
        } else {
            match stem {
                "shufps" => self.shuffle_singles(inst),
                "shufpd" | "pshufd" | "pshuflw" | "pshufhw" => self.shuffle(inst),
                "packsswb" => self.pack(inst, "vssrani.b.h"),
                "packuswb" => self.pack(inst, "vssrani.bu.h"),
                "packssdw" => self.pack(inst, "vssrani.h.w"),
                "pmaddwd" => self.multiply_add(inst),
                "psadbw" => self.differences(inst),
                "psrlw" | "psrld" | "psrlq" => self.shift_elements(inst, "vsrl"),
                "psraw" | "psrad" => self.shift_elements(inst, "vsra"),
                "psllw" | "pslld" | "psllq" => self.shift_elements(inst, "vsll"),
                "psrldq" => self.shift_bytes(inst, "vbsrl.v"),
                "pslldq" => self.shift_bytes(inst, "vbsll.v"),
                "pmovmskb" => self.signs(inst, "vmskltz.b"),
                "movmskps" => self.signs(inst, "vmskltz.w"),
                "movmskpd" => self.signs(inst, "vmskltz.d"),
                _ => return self.on_later_vectors(inst),
            }
        }
        true
    }

    fn move_whole(&mut self, inst: &Inst) {
        match (inst.operand(0), inst.operand(1)) {
            (Operand::Xmm(d), Operand::Mem(m)) => self.vector_load(inst, d, &m),
            (Operand::Mem(m), Operand::Xmm(s)) => self.vector_store(inst, s, &m),
            (Operand::Xmm(d), Operand::Xmm(s)) => self.vector_copy(d, s),
            _ => unreachable!("{} moves vectors", inst.row.name),
        }
    }

    /// Whether a move to the low part of a register may leave open what stands above.
    fn is_spare(&self, d: u8, inst: &Inst, size: u8) -> bool {
        let clears = matches!(inst.row.stem, "movss" | "movsd" | "movd" | "movq");
        clears && self.lanes & lanes::above(d, size) == 0
    }

    /// Moves of 4 and 8 bytes; false if it is none.
    fn move_part(&mut self, inst: &Inst) -> bool {
        let stem = inst.row.stem;
        let upper = matches!(stem, "movhps" | "movhpd");
        let lower = matches!(stem, "movlps" | "movlpd");
        let merges = matches!(stem, "movss" | "movsd");
        if stem == "movhlps" {
            let s = self.vector(inst, inst.operand(1));
            self.rri("vextrins.d", Self::destination(inst), s, 0x01);
            return true;
        }
        if !(upper || lower || merges || matches!(stem, "movd" | "movq")) {
            return false;
        }
        match (inst.operand(0), inst.operand(1)) {
            (Operand::Mem(m), Operand::Xmm(s)) if upper => {
                let place = self.place(&m);
                let address = self.exact(place);
                self.op("vstelm.d", &[s.into(), address.into(), 0, 1]);
            }
            (Operand::Mem(m), Operand::Xmm(s)) => self.vector_store(inst, s, &m),
            (Operand::Xmm(d), Operand::Mem(m)) if self.is_spare(d, inst, m.size) => {
                self.vector_load(inst, d, &m);
            }
            (Operand::Xmm(d), Operand::Mem(m)) => {
                let v = self.vector(inst, inst.operand(1));
                match (upper, lower) {
                    (true, _) => self.rri("vextrins.d", d, v, 0x10),
                    (_, true) => self.rri("vextrins.d", d, v, 0x00),
                    _ => self.low_part(d, v, m.size),
                }
            }
            (Operand::Xmm(d), Operand::Xmm(s)) => match stem {
                "movss" => self.rri("vextrins.w", d, s, 0),
                "movsd" => self.rri("vextrins.d", d, s, 0),
                _ => self.low_part(d, s, 8),
            },
            (Operand::Xmm(d), Operand::Reg(r)) if self.is_spare(d, inst, r.size) => {
                let name = format!("vinsgr2vr{}", lane(r.size));
                self.rri(&name, d, la64(r.number), 0);
            }
            (Operand::Xmm(d), Operand::Reg(r)) => {
                let v = self.vector_temp();
                let name = format!("vinsgr2vr{}", lane(r.size));
                self.rri(&name, v, la64(r.number), 0);
                self.low_part(d, v, r.size);
            }
            (Operand::Reg(r), Operand::Xmm(s)) => {
                let name = if r.size == 4 { "vpickve2gr.wu" } else { "vpickve2gr.d" };
                self.rri(name, la64(r.number), s, 0);
            }
            _ => unreachable!("{} moves a part of a vector", inst.row.name),
        }
        true
    }

    fn binary(&mut self, inst: &Inst) -> bool {
        let Some(&(_, name, swapped)) = BINARY.iter().find(|b| b.0 == inst.row.stem) else {
            return false;
        };
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        match swapped {
            true => self.rrr(name, d, s, d),
            false => self.rrr(name, d, d, s),
        }
        true
    }

    fn shuffle_singles(&mut self, inst: &Inst) {
        let (d, by) = (Self::destination(inst), Self::vector_immediate(inst));
        let s = self.vector(inst, inst.operand(1));
        if s == d {
            return self.rri("vshuf4i.w", d, d, by);
        }
        let v = if s > 15 { s } else { self.vector_temp() };
        self.vector_copy(v, s);
        self.rri("vpermi.w", v, d, by);
        self.vector_copy(d, v);
    }

    fn shuffle(&mut self, inst: &Inst) {
        let (d, by) = (Self::destination(inst), Self::vector_immediate(inst));
        let s = self.vector(inst, inst.operand(1));
        // Each doubleword of the result comes from the half that is not shuffled.
        let kept = match inst.row.stem {
            "shufpd" => {
                let (low, high) = (by & 1, 2 + (by >> 1 & 1));
                return self.rri("vshuf4i.d", d, s, low | high << 2);
            }
            "pshufd" => return self.rri("vshuf4i.w", d, s, by),
            "pshuflw" => 0x11,
            _ => 0x00,
        };
        let v = self.vector_temp();
        self.rri("vshuf4i.h", v, s, by);
        self.rri("vextrins.d", v, s, kept);
        self.vector_copy(d, v);
    }

    /// Elements of half the width, saturated: the destination's first.
    pub(super) fn pack(&mut self, inst: &Inst, name: &str) {
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        if s == d {
            return self.rri(name, d, d, 0);
        }
        let v = if s > 15 { s } else { self.vector_temp() };
        self.vector_copy(v, s);
        self.rri(name, v, d, 0);
        self.vector_copy(d, v);
    }

    fn multiply_add(&mut self, inst: &Inst) {
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        let v = self.vector_temp();
        self.rrr("vmulwev.w.h", v, d, s);
        self.rrr("vmaddwod.w.h", v, d, s);
        self.vector_copy(d, v);
    }

    /// psadbw.
    fn differences(&mut self, inst: &Inst) {
        let (d, s) = (Self::destination(inst), self.vector(inst, inst.operand(1)));
        self.rrr("vabsd.bu", d, d, s);
        for name in ["vhaddw.hu.bu", "vhaddw.wu.hu", "vhaddw.du.wu"] {
            self.rrr(name, d, d, d);
        }
    }

    /// Shifts of all elements by one count, a number or the low doubleword of a vector.
    fn shift_elements(&mut self, inst: &Inst, name: &str) {
        let (d, size) = (Self::destination(inst), element(inst.row.stem));
        let (bits, suffix) = (8 * i64::from(size), lane(size));
        let arithmetic = name == "vsra";
        if let Operand::Imm(count) = inst.operand(1) {
            let count = count & 0xff;
            return match count < bits || arithmetic {
                true => self.rri(&format!("{name}i{suffix}"), d, d, count.min(bits - 1)),
                false => self.rrr("vxor.v", d, d, d),
            };
        }
        let s = self.vector(inst, inst.operand(1));
        let (count, fits, v) = (self.temp(), self.temp(), self.vector_temp());
        self.rri("vpickve2gr.d", count, s, 0);
        self.rri("sltui", fits, count, bits);
        if arithmetic {
            let most = self.number(bits - 1);
            self.rrr("masknez", most, most, fits);
            self.rrr("maskeqz", count, count, fits);
            self.rrr("or", count, count, most);
        }
        self.rr(&format!("vreplgr2vr{suffix}"), v, count);
        self.rrr(&format!("{name}{suffix}"), d, d, v);
        if !arithmetic && !mutant!("x86_vector_count_wraps") {
            self.rrr("sub.d", fits, 0, fits);
            self.rr("vreplgr2vr.d", v, fits);
            self.rrr("vand.v", d, d, v);
        }
    }

    fn shift_bytes(&mut self, inst: &Inst, name: &str) {
        let (d, count) = (Self::destination(inst), Self::vector_immediate(inst));
        match count {
            0..16 => self.rri(name, d, d, count),
            _ => self.rrr("vxor.v", d, d, d),
        }
    }

    /// The signs of all elements as bits of a general register.
    fn signs(&mut self, inst: &Inst, name: &str) {
        let Operand::Reg(r) = inst.operand(0) else { return };
        let (v, s) = (self.vector_temp(), self.vector(inst, inst.operand(1)));
        self.rr(name, v, s);
        self.rri("vpickve2gr.hu", la64(r.number), v, 0);
    }
}
