//! Vector instructions in VEX encoding, 128 bits, and the few of 256 bits that a translator needs
//! to move both halves at once.
//!
//! - A [`Form`]'s name is the mnemonic without its leading `v` where a legacy encoding exists.
//! - 128-bit forms clear the upper half of the host's register; 256-bit ones are followed by
//!   [`Asm::zero_upper`], so that legacy encodings stay fast.
//! - Checked against an independent disassembler like the others (`tests/emit.rs`).

use super::emit::Map::{Three3A, Three38, Two};
use super::emit::{Asm, Form, Mem, Reg, Rm, Xmm, forms};

forms! {
    PACKED_FORMS, "Register, register, and register or memory.";
    V_ADDPS = Form::of("vaddps", 0, Two, 0x58);
    V_ADDPD = Form::of("vaddpd", 0x66, Two, 0x58);
    V_SUBPS = Form::of("vsubps", 0, Two, 0x5c);
    V_SUBPD = Form::of("vsubpd", 0x66, Two, 0x5c);
    V_MULPS = Form::of("vmulps", 0, Two, 0x59);
    V_MULPD = Form::of("vmulpd", 0x66, Two, 0x59);
    V_DIVPS = Form::of("vdivps", 0, Two, 0x5e);
    V_DIVPD = Form::of("vdivpd", 0x66, Two, 0x5e);
    V_PADDB = Form::of("vpaddb", 0x66, Two, 0xfc);
    V_PADDW = Form::of("vpaddw", 0x66, Two, 0xfd);
    V_PADDD = Form::of("vpaddd", 0x66, Two, 0xfe);
    V_PADDQ = Form::of("vpaddq", 0x66, Two, 0xd4);
    V_PSUBB = Form::of("vpsubb", 0x66, Two, 0xf8);
    V_PSUBW = Form::of("vpsubw", 0x66, Two, 0xf9);
    V_PSUBD = Form::of("vpsubd", 0x66, Two, 0xfa);
    V_PSUBQ = Form::of("vpsubq", 0x66, Two, 0xfb);
    V_PADDSB = Form::of("vpaddsb", 0x66, Two, 0xec);
    V_PADDSW = Form::of("vpaddsw", 0x66, Two, 0xed);
    V_PADDUSB = Form::of("vpaddusb", 0x66, Two, 0xdc);
    V_PADDUSW = Form::of("vpaddusw", 0x66, Two, 0xdd);
    V_PSUBSB = Form::of("vpsubsb", 0x66, Two, 0xe8);
    V_PSUBSW = Form::of("vpsubsw", 0x66, Two, 0xe9);
    V_PSUBUSB = Form::of("vpsubusb", 0x66, Two, 0xd8);
    V_PSUBUSW = Form::of("vpsubusw", 0x66, Two, 0xd9);
    V_PAVGB = Form::of("vpavgb", 0x66, Two, 0xe0);
    V_PAVGW = Form::of("vpavgw", 0x66, Two, 0xe3);
    V_PMAXSB = Form::of("vpmaxsb", 0x66, Three38, 0x3c);
    V_PMAXSW = Form::of("vpmaxsw", 0x66, Two, 0xee);
    V_PMAXSD = Form::of("vpmaxsd", 0x66, Three38, 0x3d);
    V_PMAXUB = Form::of("vpmaxub", 0x66, Two, 0xde);
    V_PMAXUW = Form::of("vpmaxuw", 0x66, Three38, 0x3e);
    V_PMAXUD = Form::of("vpmaxud", 0x66, Three38, 0x3f);
    V_PMINSB = Form::of("vpminsb", 0x66, Three38, 0x38);
    V_PMINSW = Form::of("vpminsw", 0x66, Two, 0xea);
    V_PMINSD = Form::of("vpminsd", 0x66, Three38, 0x39);
    V_PMINUB = Form::of("vpminub", 0x66, Two, 0xda);
    V_PMINUW = Form::of("vpminuw", 0x66, Three38, 0x3a);
    V_PMINUD = Form::of("vpminud", 0x66, Three38, 0x3b);
    V_PMULLW = Form::of("vpmullw", 0x66, Two, 0xd5);
    V_PMULLD = Form::of("vpmulld", 0x66, Three38, 0x40);
    V_PMULHW = Form::of("vpmulhw", 0x66, Two, 0xe5);
    V_PMULHUW = Form::of("vpmulhuw", 0x66, Two, 0xe4);
    V_PMULDQ = Form::of("vpmuldq", 0x66, Three38, 0x28);
    V_PMULUDQ = Form::of("vpmuludq", 0x66, Two, 0xf4);
    V_PAND = Form::of("vpand", 0x66, Two, 0xdb);
    V_PANDN = Form::of("vpandn", 0x66, Two, 0xdf);
    V_POR = Form::of("vpor", 0x66, Two, 0xeb);
    V_PXOR = Form::of("vpxor", 0x66, Two, 0xef);
    V_PCMPEQB = Form::of("vpcmpeqb", 0x66, Two, 0x74);
    V_PCMPEQW = Form::of("vpcmpeqw", 0x66, Two, 0x75);
    V_PCMPEQD = Form::of("vpcmpeqd", 0x66, Two, 0x76);
    V_PCMPEQQ = Form::of("vpcmpeqq", 0x66, Three38, 0x29);
    V_PCMPGTB = Form::of("vpcmpgtb", 0x66, Two, 0x64);
    V_PCMPGTW = Form::of("vpcmpgtw", 0x66, Two, 0x65);
    V_PCMPGTD = Form::of("vpcmpgtd", 0x66, Two, 0x66);
    V_PCMPGTQ = Form::of("vpcmpgtq", 0x66, Three38, 0x37);
    V_PUNPCKLBW = Form::of("vpunpcklbw", 0x66, Two, 0x60);
    V_PUNPCKLWD = Form::of("vpunpcklwd", 0x66, Two, 0x61);
    V_PUNPCKLDQ = Form::of("vpunpckldq", 0x66, Two, 0x62);
    V_PUNPCKLQDQ = Form::of("vpunpcklqdq", 0x66, Two, 0x6c);
    V_PUNPCKHBW = Form::of("vpunpckhbw", 0x66, Two, 0x68);
    V_PUNPCKHWD = Form::of("vpunpckhwd", 0x66, Two, 0x69);
    V_PUNPCKHDQ = Form::of("vpunpckhdq", 0x66, Two, 0x6a);
    V_PUNPCKHQDQ = Form::of("vpunpckhqdq", 0x66, Two, 0x6d);
    V_PACKUSWB = Form::of("vpackuswb", 0x66, Two, 0x67);
    V_PACKUSDW = Form::of("vpackusdw", 0x66, Three38, 0x2b);
    V_PSIGNB = Form::of("vpsignb", 0x66, Three38, 0x08);
    V_PSIGNW = Form::of("vpsignw", 0x66, Three38, 0x09);
    V_PSIGND = Form::of("vpsignd", 0x66, Three38, 0x0a);
    V_PSHUFB = Form::of("vpshufb", 0x66, Three38, 0x00);
}

forms! {
    PACKED_WIDTH_FORMS, "As the packed forms, of 32 or 64 bits: the latter are wide.";
    V_PSLLV = Form::of("vpsllv", 0x66, Three38, 0x47);
    V_PSRLV = Form::of("vpsrlv", 0x66, Three38, 0x45);
    V_FMADD231P = Form::of("vfmadd231p", 0x66, Three38, 0xb8);
    V_FMSUB231P = Form::of("vfmsub231p", 0x66, Three38, 0xba);
}

forms! {
    PACKED_UNARY_FORMS, "Register, and register or memory.";
    V_MOVDQU = Form::of("vmovdqu", 0xf3, Two, 0x6f);
    V_MOVDQA = Form::of("vmovdqa", 0x66, Two, 0x6f);
    V_PABSB = Form::of("vpabsb", 0x66, Three38, 0x1c);
    V_PABSW = Form::of("vpabsw", 0x66, Three38, 0x1d);
    V_PABSD = Form::of("vpabsd", 0x66, Three38, 0x1e);
    V_PMOVSXBW = Form::of("vpmovsxbw", 0x66, Three38, 0x20);
    V_PMOVSXWD = Form::of("vpmovsxwd", 0x66, Three38, 0x23);
    V_PMOVSXDQ = Form::of("vpmovsxdq", 0x66, Three38, 0x25);
    V_PMOVZXBW = Form::of("vpmovzxbw", 0x66, Three38, 0x30);
    V_PMOVZXWD = Form::of("vpmovzxwd", 0x66, Three38, 0x33);
    V_PMOVZXDQ = Form::of("vpmovzxdq", 0x66, Three38, 0x35);
    V_SQRTPS = Form::of("vsqrtps", 0, Two, 0x51);
    V_SQRTPD = Form::of("vsqrtpd", 0x66, Two, 0x51);
    V_CVTDQ2PS = Form::of("vcvtdq2ps", 0, Two, 0x5b);
    V_CVTPS2DQ = Form::of("vcvtps2dq", 0x66, Two, 0x5b);
    V_CVTTPS2DQ = Form::of("vcvttps2dq", 0xf3, Two, 0x5b);
    V_CVTDQ2PD = Form::of("vcvtdq2pd", 0xf3, Two, 0xe6);
    V_CVTPD2DQ = Form::of("vcvtpd2dq", 0xf2, Two, 0xe6);
    V_CVTTPD2DQ = Form::of("vcvttpd2dq", 0x66, Two, 0xe6);
    V_CVTPS2PD = Form::of("vcvtps2pd", 0, Two, 0x5a);
    V_CVTPD2PS = Form::of("vcvtpd2ps", 0x66, Two, 0x5a);
    V_PTEST = Form::of("vptest", 0x66, Three38, 0x17);
    V_BROADCASTB = Form::of("vpbroadcastb", 0x66, Three38, 0x78);
    V_BROADCASTW = Form::of("vpbroadcastw", 0x66, Three38, 0x79);
    V_BROADCASTD = Form::of("vpbroadcastd", 0x66, Three38, 0x58);
    V_BROADCASTQ = Form::of("vpbroadcastq", 0x66, Three38, 0x59);
}

/// Stores 128 bits, or 256 when long.
pub const V_MOVDQU_TO: Form = Form::of("vmovdqu", 0xf3, Two, 0x7f);

forms! {
    PACKED_IMM_FORMS, "Register, register, register or memory, immediate byte.";
    V_SHUFPS = Form::of("vshufps", 0, Two, 0xc6);
    V_SHUFPD = Form::of("vshufpd", 0x66, Two, 0xc6);
    V_CMPPS = Form::of("vcmpps", 0, Two, 0xc2);
    V_CMPPD = Form::of("vcmppd", 0x66, Two, 0xc2);
    V_PBLENDW = Form::of("vpblendw", 0x66, Three3A, 0x0e);
    V_PBLENDD = Form::of("vpblendd", 0x66, Three3A, 0x02);
    V_INSERTPS = Form::of("vinsertps", 0x66, Three3A, 0x21);
}

forms! {
    PACKED_UNARY_IMM_FORMS, "Register, register or memory, immediate byte.";
    V_PSHUFD = Form::of("vpshufd", 0x66, Two, 0x70);
    V_PSHUFLW = Form::of("vpshuflw", 0xf2, Two, 0x70);
    V_PSHUFHW = Form::of("vpshufhw", 0xf3, Two, 0x70);
    V_ROUNDPS = Form::of("vroundps", 0x66, Three3A, 0x08);
    V_ROUNDPD = Form::of("vroundpd", 0x66, Three3A, 0x09);
}

forms! {
    PACKED_SHIFT_FORMS, "Register = register shifted by an immediate byte.";
    V_PSRLW = Form::of("vpsrlw", 0x66, Two, 0x71).digit(2);
    V_PSRAW = Form::of("vpsraw", 0x66, Two, 0x71).digit(4);
    V_PSLLW = Form::of("vpsllw", 0x66, Two, 0x71).digit(6);
    V_PSRLD = Form::of("vpsrld", 0x66, Two, 0x72).digit(2);
    V_PSRAD = Form::of("vpsrad", 0x66, Two, 0x72).digit(4);
    V_PSLLD = Form::of("vpslld", 0x66, Two, 0x72).digit(6);
    V_PSRLQ = Form::of("vpsrlq", 0x66, Two, 0x73).digit(2);
    V_PSRLDQ = Form::of("vpsrldq", 0x66, Two, 0x73).digit(3);
    V_PSLLQ = Form::of("vpsllq", 0x66, Two, 0x73).digit(6);
    V_PSLLDQ = Form::of("vpslldq", 0x66, Two, 0x73).digit(7);
}

forms! {
    PACKED_MASK_FORMS, "General register = signs of a vector register's lanes.";
    V_PMOVMSKB = Form::of("vpmovmskb", 0x66, Two, 0xd7);
    V_MOVMSKPS = Form::of("vmovmskps", 0, Two, 0x50);
    V_MOVMSKPD = Form::of("vmovmskpd", 0x66, Two, 0x50);
}

forms! {
    PACKED_EXTRACT_FORMS, "General register or memory = lane of a vector register.";
    V_PEXTRB = Form::of("vpextrb", 0x66, Three3A, 0x14);
    V_PEXTRW = Form::of("vpextrw", 0x66, Three3A, 0x15);
    V_PEXTR = Form::of("vpextr", 0x66, Three3A, 0x16);
}

forms! {
    PACKED_INSERT_FORMS, "Vector register with a lane from a general register or memory.";
    V_PINSRB = Form::of("vpinsrb", 0x66, Three3A, 0x20);
    V_PINSRW = Form::of("vpinsrw", 0x66, Two, 0xc4);
    V_PINSR = Form::of("vpinsr", 0x66, Three3A, 0x22);
}

/// `to = mask ? second : first` by bytes.
const V_PBLENDVB: Form = Form::of("vpblendvb", 0x66, Three3A, 0x4c);
const V_INSERT_HALF: Form = Form::of("vinserti128", 0x66, Three3A, 0x38);
const V_MOVQ: Form = Form::of("vmovq", 0x66, Two, 0x6e);

/// Rotates right by an immediate byte, without flags: a VEX form on general registers.
pub const RORX: Form = Form::of("rorx", 0xf2, Three3A, 0xf0);

impl Asm {
    /// `rorx reg, rm, by`.
    pub fn rotate(&mut self, wide: bool, reg: Reg, rm: impl Into<Rm>, by: u8) {
        self.vex(RORX, wide, reg.0, 0, rm);
        self.byte(by);
    }

    /// `form to, first, second`.
    pub fn packed(&mut self, f: Form, to: Xmm, first: Xmm, second: impl Into<Rm>) {
        self.vex(f, false, to.0, first.0, second);
    }

    /// `form to, from`.
    pub fn packed_unary(&mut self, f: Form, to: Xmm, from: impl Into<Rm>) {
        self.vex(f, false, to.0, 0, from);
    }

    /// As [`Asm::packed`], with an immediate byte.
    pub fn packed_imm(&mut self, f: Form, to: Xmm, first: Xmm, second: impl Into<Rm>, imm: u8) {
        self.vex(f, false, to.0, first.0, second);
        self.byte(imm);
    }

    /// As [`Asm::packed_unary`], with an immediate byte.
    pub fn packed_unary_imm(&mut self, f: Form, to: Xmm, from: impl Into<Rm>, imm: u8) {
        self.packed_imm(f, to, Xmm(0), from, imm);
    }

    /// `to = from` shifted by `imm`.
    pub fn packed_shift(&mut self, f: Form, to: Xmm, from: Xmm, imm: u8) {
        let digit = f.digit.expect("invariant: a form with a digit");
        self.vex(f, false, digit, to.0, from);
        self.byte(imm);
    }

    /// `to` = the bytes of `second` where those of `mask` are negative, of `first` elsewhere.
    pub fn packed_blend(&mut self, to: Xmm, first: Xmm, second: impl Into<Rm>, mask: Xmm) {
        self.packed_imm(V_PBLENDVB, to, first, second, mask.0 << 4);
    }

    /// `to` = signs of the lanes of `from`.
    pub fn packed_mask(&mut self, f: Form, to: Reg, from: Xmm) {
        self.vex(f, false, to.0, 0, from);
    }

    /// `to` = lane `lane` of `from`.
    pub fn packed_extract(&mut self, f: Form, wide: bool, to: impl Into<Rm>, from: Xmm, lane: u8) {
        self.vex(f, wide, from.0, 0, to);
        self.byte(lane);
    }

    /// `to` = `old` with lane `lane` from a general register or memory.
    pub fn packed_insert(
        &mut self,
        f: Form,
        wide: bool,
        to: Xmm,
        old: Xmm,
        from: impl Into<Rm>,
        lane: u8,
    ) {
        self.vex(f, wide, to.0, old.0, from);
        self.byte(lane);
    }

    /// `to` = a general register or memory, zero-extended; 64 bits.
    pub fn packed_from_general(&mut self, to: Xmm, from: impl Into<Rm>) {
        self.vex(V_MOVQ, true, to.0, 0, from);
    }

    /// `to` = `low` and, in its upper half, `high`: 256 bits.
    pub fn join_halves(&mut self, to: Xmm, low: Xmm, high: impl Into<Rm>) {
        self.vex_long(V_INSERT_HALF, to.0, low.0, high);
        self.byte(1);
    }

    /// Stores 256 bits.
    pub fn store_both(&mut self, from: Xmm, to: Mem) {
        self.vex_long(V_MOVDQU_TO, from.0, 0, to);
    }

    /// `vzeroupper`.
    pub fn zero_upper(&mut self) {
        [0xc5, 0xf8, 0x77].into_iter().for_each(|byte| self.byte(byte));
    }
}
