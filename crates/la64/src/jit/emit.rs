//! An x86-64 encoder: instructions as bytes, from tables of encodings.
//!
//! - An encoding ([`Form`]) is data: prefix, opcode map, opcode. Operands are a register field and
//!   a register or memory operand ([`Rm`]), for VEX forms one more register.
//! - Every form is checked against an independent disassembler over all registers and address
//!   forms (`tests/emit.rs`).
//! - Displacements and immediates take the shortest encoding. Jumps inside a piece of code are
//!   short ([`Asm::bind_short`] checks that they reach) or near.

use littoral_base::mutant;

/// A general register by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(pub u8);

/// A vector register by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xmm(pub u8);

macro_rules! registers {
    ($($name:ident = $n:literal),*) => {
        $(#[doc = stringify!($name)] pub const $name: Reg = Reg($n);)*
    };
}
registers!(
    RAX = 0,
    RCX = 1,
    RDX = 2,
    RBX = 3,
    RSP = 4,
    RBP = 5,
    RSI = 6,
    RDI = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15
);

/// As the base of an address without index: the address of the next instruction.
pub const RIP: Reg = Reg(16);

/// As the base of an address with index: none.
pub const NO_BASE: Reg = Reg(17);

/// A place in memory: base + index * scale + displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    /// Base register.
    pub base: Reg,
    /// Index register, not rsp, and the logarithm of its scale.
    pub index: Option<(Reg, u8)>,
    /// Displacement.
    pub disp: i32,
}

impl Mem {
    /// `[base + disp]`.
    pub const fn at(base: Reg, disp: i32) -> Mem {
        Mem { base, index: None, disp }
    }

    /// `[base + index << scale + disp]`.
    pub const fn indexed(base: Reg, index: Reg, scale: u8, disp: i32) -> Mem {
        Mem { base, index: Some((index, scale)), disp }
    }
}

/// The operand that may be a register or in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rm {
    /// A register, general or vector by its form.
    R(u8),
    /// Memory.
    M(Mem),
}

impl From<Reg> for Rm {
    fn from(r: Reg) -> Rm {
        Rm::R(r.0)
    }
}

impl From<Xmm> for Rm {
    fn from(x: Xmm) -> Rm {
        Rm::R(x.0)
    }
}

impl From<Mem> for Rm {
    fn from(m: Mem) -> Rm {
        Rm::M(m)
    }
}

/// Opcode maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// One byte.
    One,
    /// 0F.
    Two,
    /// 0F 38.
    Three38,
    /// 0F 3A.
    Three3A,
}

/// An encoding without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The disassembler's mnemonic.
    pub name: &'static str,
    /// 66, F2, F3, or 0.
    pub prefix: u8,
    /// Opcode map.
    pub map: Map,
    /// Opcode.
    pub opcode: u8,
    /// The register field, where it is part of the opcode.
    pub digit: Option<u8>,
    /// Operands are bytes: registers 4 to 7 need a REX prefix.
    pub byte: bool,
}

impl Form {
    pub(super) const fn of(name: &'static str, prefix: u8, map: Map, opcode: u8) -> Form {
        Form { name, prefix, map, opcode, digit: None, byte: false }
    }

    pub(super) const fn digit(self, digit: u8) -> Form {
        Form { digit: Some(digit), ..self }
    }

    const fn bytes(self) -> Form {
        Form { byte: true, ..self }
    }
}

/// Encodings with their list.
macro_rules! forms {
    ($list:ident, $what:literal; $($name:ident = $form:expr;)*) => {
        $(#[doc = stringify!($name)] pub const $name: Form = $form;)*
        #[doc = $what]
        pub const $list: &[Form] = &[$($name),*];
    };
}

use Map::{One, Three3A, Three38, Two};
pub(super) use forms;

forms! {
    REGISTER_FORMS, "Register and register or memory, general registers, no immediate.";
    ADD = Form::of("add", 0, One, 0x03);
    OR = Form::of("or", 0, One, 0x0b);
    AND = Form::of("and", 0, One, 0x23);
    SUB = Form::of("sub", 0, One, 0x2b);
    XOR = Form::of("xor", 0, One, 0x33);
    CMP = Form::of("cmp", 0, One, 0x3b);
    ADD_TO = Form::of("add", 0, One, 0x01);
    CMP_TO = Form::of("cmp", 0, One, 0x39);
    TEST = Form::of("test", 0, One, 0x85);
    MOV = Form::of("mov", 0, One, 0x8b);
    MOV_TO = Form::of("mov", 0, One, 0x89);
    MOVSXD = Form::of("movsxd", 0, One, 0x63);
    MOVZX8 = Form::of("movzx", 0, Two, 0xb6).bytes();
    MOVZX16 = Form::of("movzx", 0, Two, 0xb7);
    MOVSX8 = Form::of("movsx", 0, Two, 0xbe).bytes();
    MOVSX16 = Form::of("movsx", 0, Two, 0xbf);
    IMUL = Form::of("imul", 0, Two, 0xaf);
    LZCNT = Form::of("lzcnt", 0xf3, Two, 0xbd);
    TZCNT = Form::of("tzcnt", 0xf3, Two, 0xbc);
    CMOVE = Form::of("cmove", 0, Two, 0x44);
    CMOVNE = Form::of("cmovne", 0, Two, 0x45);
    CMOVB = Form::of("cmovb", 0, Two, 0x42);
    CMOVAE = Form::of("cmovae", 0, Two, 0x43);
    CMOVL = Form::of("cmovl", 0, Two, 0x4c);
    CMOVGE = Form::of("cmovge", 0, Two, 0x4d);
    CMOVLE = Form::of("cmovle", 0, Two, 0x4e);
    CMOVG = Form::of("cmovg", 0, Two, 0x4f);
    CMOVBE = Form::of("cmovbe", 0, Two, 0x46);
    CMOVA = Form::of("cmova", 0, Two, 0x47);
}

forms! {
    STORE_FORMS, "Stores of narrow registers.";
    MOV8_TO = Form::of("mov", 0, One, 0x88).bytes();
    MOV16_TO = Form::of("mov", 0x66, One, 0x89);
}

forms! {
    MEMORY_FORMS, "General registers with memory only.";
    LEA = Form::of("lea", 0, One, 0x8d);
    XCHG = Form::of("xchg", 0, One, 0x87);
    CMPXCHG = Form::of("cmpxchg", 0, Two, 0xb1);
    XADD = Form::of("xadd", 0, Two, 0xc1);
}

forms! {
    UNARY_FORMS, "One register or memory operand.";
    NOT = Form::of("not", 0, One, 0xf7).digit(2);
    NEG = Form::of("neg", 0, One, 0xf7).digit(3);
    MUL = Form::of("mul", 0, One, 0xf7).digit(4);
    IMUL1 = Form::of("imul", 0, One, 0xf7).digit(5);
    DIV = Form::of("div", 0, One, 0xf7).digit(6);
    IDIV = Form::of("idiv", 0, One, 0xf7).digit(7);
    SHL_CL = Form::of("shl", 0, One, 0xd3).digit(4);
    SHR_CL = Form::of("shr", 0, One, 0xd3).digit(5);
    ROR_CL = Form::of("ror", 0, One, 0xd3).digit(1);
}

forms! {
    JUMP_FORMS, "Indirect jumps and calls; never wide.";
    CALL_RM = Form::of("call", 0, One, 0xff).digit(2);
    JMP_RM = Form::of("jmp", 0, One, 0xff).digit(4);
}

forms! {
    IMM8_FORMS, "One operand and an immediate byte.";
    SHL = Form::of("shl", 0, One, 0xc1).digit(4);
    SHR = Form::of("shr", 0, One, 0xc1).digit(5);
    SAR = Form::of("sar", 0, One, 0xc1).digit(7);
    ROL = Form::of("rol", 0, One, 0xc1).digit(0);
    ROR = Form::of("ror", 0, One, 0xc1).digit(1);
}

forms! {
    ARITHMETIC_FORMS, "One operand and an immediate of a byte or four: opcode 81 or 83.";
    ADD_I = Form::of("add", 0, One, 0x81).digit(0);
    OR_I = Form::of("or", 0, One, 0x81).digit(1);
    AND_I = Form::of("and", 0, One, 0x81).digit(4);
    SUB_I = Form::of("sub", 0, One, 0x81).digit(5);
    XOR_I = Form::of("xor", 0, One, 0x81).digit(6);
    CMP_I = Form::of("cmp", 0, One, 0x81).digit(7);
}

forms! {
    BMI_FORMS, "VEX forms on general registers: reg, vvvv, rm, without immediate.";
    ANDN = Form::of("andn", 0, Three38, 0xf2);
    SHLX = Form::of("shlx", 0x66, Three38, 0xf7);
    SARX = Form::of("sarx", 0xf3, Three38, 0xf7);
    SHRX = Form::of("shrx", 0xf2, Three38, 0xf7);
}

forms! {
    SSE_FORMS, "Vector register and vector register or memory, legacy encoding.";
    MOVUPS = Form::of("movups", 0, Two, 0x10);
    MOVAPS = Form::of("movaps", 0, Two, 0x28);
    MOVSD = Form::of("movsd", 0xf2, Two, 0x10);
    MOVSS = Form::of("movss", 0xf3, Two, 0x10);
    MOVQ = Form::of("movq", 0xf3, Two, 0x7e);
    ADDSD = Form::of("addsd", 0xf2, Two, 0x58);
    MULSD = Form::of("mulsd", 0xf2, Two, 0x59);
    SUBSD = Form::of("subsd", 0xf2, Two, 0x5c);
    DIVSD = Form::of("divsd", 0xf2, Two, 0x5e);
    SQRTSD = Form::of("sqrtsd", 0xf2, Two, 0x51);
    MINSD = Form::of("minsd", 0xf2, Two, 0x5d);
    MAXSD = Form::of("maxsd", 0xf2, Two, 0x5f);
    ADDSS = Form::of("addss", 0xf3, Two, 0x58);
    MULSS = Form::of("mulss", 0xf3, Two, 0x59);
    SUBSS = Form::of("subss", 0xf3, Two, 0x5c);
    DIVSS = Form::of("divss", 0xf3, Two, 0x5e);
    SQRTSS = Form::of("sqrtss", 0xf3, Two, 0x51);
    UCOMISD = Form::of("ucomisd", 0x66, Two, 0x2e);
    UCOMISS = Form::of("ucomiss", 0, Two, 0x2e);
    COMISD = Form::of("comisd", 0x66, Two, 0x2f);
    COMISS = Form::of("comiss", 0, Two, 0x2f);
    CVTSD2SS = Form::of("cvtsd2ss", 0xf2, Two, 0x5a);
    CVTSS2SD = Form::of("cvtss2sd", 0xf3, Two, 0x5a);
    ANDPS = Form::of("andps", 0, Two, 0x54);
    ANDNPS = Form::of("andnps", 0, Two, 0x55);
    ORPS = Form::of("orps", 0, Two, 0x56);
    XORPS = Form::of("xorps", 0, Two, 0x57);
    PADDB = Form::of("paddb", 0x66, Two, 0xfc);
    PADDW = Form::of("paddw", 0x66, Two, 0xfd);
    PADDD = Form::of("paddd", 0x66, Two, 0xfe);
    PADDQ = Form::of("paddq", 0x66, Two, 0xd4);
    PSUBB = Form::of("psubb", 0x66, Two, 0xf8);
    PSUBW = Form::of("psubw", 0x66, Two, 0xf9);
    PSUBD = Form::of("psubd", 0x66, Two, 0xfa);
    PSUBQ = Form::of("psubq", 0x66, Two, 0xfb);
    PCMPEQB = Form::of("pcmpeqb", 0x66, Two, 0x74);
    PCMPEQW = Form::of("pcmpeqw", 0x66, Two, 0x75);
    PCMPEQD = Form::of("pcmpeqd", 0x66, Two, 0x76);
    PCMPGTB = Form::of("pcmpgtb", 0x66, Two, 0x64);
    PCMPGTW = Form::of("pcmpgtw", 0x66, Two, 0x65);
    PCMPGTD = Form::of("pcmpgtd", 0x66, Two, 0x66);
    PMINUB = Form::of("pminub", 0x66, Two, 0xda);
    PMAXUB = Form::of("pmaxub", 0x66, Two, 0xde);
    PMULLD = Form::of("pmulld", 0x66, Three38, 0x40);
    PMULLW = Form::of("pmullw", 0x66, Two, 0xd5);
    PCMPEQQ = Form::of("pcmpeqq", 0x66, Three38, 0x29);
    PTEST = Form::of("ptest", 0x66, Three38, 0x17);
    PUNPCKLBW = Form::of("punpcklbw", 0x66, Two, 0x60);
    PUNPCKLWD = Form::of("punpcklwd", 0x66, Two, 0x61);
    PUNPCKLDQ = Form::of("punpckldq", 0x66, Two, 0x62);
    PUNPCKLQDQ = Form::of("punpcklqdq", 0x66, Two, 0x6c);
    PUNPCKHQDQ = Form::of("punpckhqdq", 0x66, Two, 0x6d);
    PSHUFB = Form::of("pshufb", 0x66, Three38, 0x00);
}

forms! {
    SSE_STORE_FORMS, "Memory and vector register, legacy encoding.";
    MOVUPS_TO = Form::of("movups", 0, Two, 0x11);
    MOVAPS_TO = Form::of("movaps", 0, Two, 0x29);
    MOVSD_TO = Form::of("movsd", 0xf2, Two, 0x11);
    MOVSS_TO = Form::of("movss", 0xf3, Two, 0x11);
}

forms! {
    SSE_IMM_FORMS, "As the legacy vector forms, with an immediate byte.";
    ROUNDSD = Form::of("roundsd", 0x66, Three3A, 0x0b);
    ROUNDSS = Form::of("roundss", 0x66, Three3A, 0x0a);
    PSHUFD = Form::of("pshufd", 0x66, Two, 0x70);
}

forms! {
    FROM_GENERAL_FORMS, "Vector register from general register or memory; wide or not.";
    CVTSI2SD = Form::of("cvtsi2sd", 0xf2, Two, 0x2a);
    CVTSI2SS = Form::of("cvtsi2ss", 0xf3, Two, 0x2a);
    MOVD = Form::of("movd", 0x66, Two, 0x6e);
}

forms! {
    TO_GENERAL_FORMS, "General register from vector register; wide or not.";
    CVTSD2SI = Form::of("cvtsd2si", 0xf2, Two, 0x2d);
    CVTTSD2SI = Form::of("cvttsd2si", 0xf2, Two, 0x2c);
    CVTSS2SI = Form::of("cvtss2si", 0xf3, Two, 0x2d);
    CVTTSS2SI = Form::of("cvttss2si", 0xf3, Two, 0x2c);
}

forms! {
    FMA_FORMS, "VEX forms on vector registers with W: reg, vvvv, rm; wide for doubles.";
    FMADD231 = Form::of("vfmadd231s", 0x66, Three38, 0xb9);
    FMSUB231 = Form::of("vfmsub231s", 0x66, Three38, 0xbb);
}

/// General register from vector register, in the other direction of the fields.
pub const MOVD_TO: Form = Form::of("movd", 0x66, Two, 0x7e);

/// Conditions of jumps and of `setcc`, by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Cond {
    B = 2,
    Ae = 3,
    E = 4,
    Ne = 5,
    Be = 6,
    A = 7,
    S = 8,
    Ns = 9,
    P = 10,
    Np = 11,
    L = 12,
    Ge = 13,
    Le = 14,
    G = 15,
}

impl Cond {
    /// The opposite.
    pub fn opposite(self) -> Cond {
        use Cond::{A, Ae, B, Be, E, G, Ge, L, Le, Ne, Np, Ns, P, S};
        match self {
            B => Ae,
            Ae => B,
            E => Ne,
            Ne => E,
            Be => A,
            A => Be,
            S => Ns,
            Ns => S,
            P => Np,
            Np => P,
            L => Ge,
            Ge => L,
            Le => G,
            G => Le,
        }
    }
}

/// A jump whose target is not known yet.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Short(usize);

/// Code that grows, for a place at offset `origin` of an arena.
#[derive(Debug, Default)]
pub struct Asm {
    /// The bytes so far.
    pub bytes: Vec<u8>,
    origin: usize,
    /// Offsets of displacements that lead to before the beginning.
    pub before: Vec<usize>,
}

impl Asm {
    /// Code for offset `origin`.
    pub fn new(origin: usize) -> Asm {
        Asm { bytes: Vec::with_capacity(1024), origin, before: Vec::new() }
    }

    /// The offset of the next byte.
    pub fn here(&self) -> usize {
        self.origin + self.bytes.len()
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn word(&mut self, word: i32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// REX, opcode map and opcode.
    fn opcode(&mut self, f: Form, wide: bool, reg: u8, rm: Rm) {
        if f.prefix != 0 {
            self.byte(f.prefix);
        }
        let (x, b) = extensions(rm);
        let rex = 0x40 | u8::from(wide) << 3 | (reg >> 3) << 2 | x << 1 | b;
        let low_byte = |n: u8| (4..8).contains(&n);
        let needs = f.byte && (low_byte(reg) || matches!(rm, Rm::R(n) if low_byte(n)));
        if rex != 0x40 || needs {
            self.byte(rex);
        }
        match f.map {
            One => {}
            Two => self.byte(0x0f),
            Three38 => self.bytes.extend_from_slice(&[0x0f, 0x38]),
            Three3A => self.bytes.extend_from_slice(&[0x0f, 0x3a]),
        }
        self.byte(f.opcode);
    }

    fn modrm(&mut self, reg: u8, rm: Rm) {
        let reg = (reg & 7) << 3;
        let m = match rm {
            Rm::R(n) => return self.byte(0xc0 | reg | n & 7),
            Rm::M(m) if m.base == RIP => {
                assert!(m.index.is_none(), "rip takes no index");
                self.byte(reg | 5);
                return self.word(m.disp);
            }
            Rm::M(m) => m,
        };
        if let (NO_BASE, Some((index, scale))) = (m.base, m.index) {
            assert!(index != RSP && scale < 4, "rsp is no index");
            self.byte(reg | 4);
            self.byte(scale << 6 | (index.0 & 7) << 3 | 5);
            return self.word(m.disp);
        }
        let base = m.base.0 & 7;
        // Without displacement, base 5 would mean something else.
        let mode = match m.disp {
            0 if base != 5 => 0,
            d if i8::try_from(d).is_ok() => 0x40,
            _ => 0x80,
        };
        match m.index {
            Some((index, scale)) => {
                assert!(index != RSP && scale < 4, "rsp is no index");
                self.byte(mode | reg | 4);
                self.byte(scale << 6 | (index.0 & 7) << 3 | base);
            }
            None if base == 4 => {
                self.byte(mode | reg | 4);
                self.byte(0x24);
            }
            None => self.byte(mode | reg | base),
        }
        match mode {
            0 => {}
            0x40 => self.byte(m.disp as u8),
            _ => self.word(m.disp),
        }
    }

    fn legacy(&mut self, f: Form, wide: bool, reg: u8, rm: Rm) {
        self.opcode(f, wide, reg, rm);
        self.modrm(reg, rm);
    }

    /// `form reg, rm` (or `form rm, reg`, as the form has it); 64 bits when `wide`.
    pub fn op(&mut self, f: Form, wide: bool, reg: Reg, rm: impl Into<Rm>) {
        self.legacy(f, wide, reg.0, rm.into());
    }

    /// A form of one operand.
    pub fn unary(&mut self, f: Form, wide: bool, rm: impl Into<Rm>) {
        let digit = f.digit.expect("invariant: a form with a digit");
        self.legacy(f, wide, digit, rm.into());
    }

    /// A form of one operand and an immediate byte.
    pub fn imm8(&mut self, f: Form, wide: bool, rm: impl Into<Rm>, imm: u8) {
        self.unary(f, wide, rm);
        self.byte(imm);
    }

    /// Arithmetic with an immediate.
    pub fn arith(&mut self, f: Form, wide: bool, rm: impl Into<Rm>, imm: i32) {
        match i8::try_from(imm) {
            Ok(short) => self.imm8(Form { opcode: 0x83, ..f }, wide, rm, short as u8),
            Err(_) => {
                self.unary(f, wide, rm);
                self.word(imm);
            }
        }
    }

    /// `mov reg, imm`, the shortest form.
    pub fn mov_imm(&mut self, reg: Reg, imm: u64) {
        if imm == 0 {
            return self.op(XOR, false, reg, reg);
        }
        self.mov_imm_keeping_flags(reg, imm);
    }

    /// As [`Asm::mov_imm`], without touching the flags.
    pub fn mov_imm_keeping_flags(&mut self, reg: Reg, imm: u64) {
        let move_short = Form::of("mov", 0, One, 0xb8 + (reg.0 & 7));
        if u32::try_from(imm).is_ok() {
            self.opcode(move_short, false, 0, Rm::R(reg.0));
            self.word(imm as i32);
        } else if i32::try_from(imm as i64).is_ok() {
            self.mov_imm_to(reg, imm as i32);
        } else {
            self.mov_imm_long(reg, imm);
        }
    }

    /// `mov reg, imm` with all eight bytes of the immediate, whose offset it returns. Keeps flags.
    pub fn mov_imm_long(&mut self, reg: Reg, imm: u64) -> usize {
        let move_short = Form::of("mov", 0, One, 0xb8 + (reg.0 & 7));
        self.opcode(move_short, true, 0, Rm::R(reg.0));
        self.bytes.extend_from_slice(&imm.to_le_bytes());
        self.here() - 8
    }

    /// `mov qword rm, imm`, sign-extended.
    pub fn mov_imm_to(&mut self, rm: impl Into<Rm>, imm: i32) {
        self.legacy(Form::of("mov", 0, One, 0xc7), true, 0, rm.into());
        self.word(imm);
    }

    /// `imul reg, rm, imm`.
    pub fn imul_imm(&mut self, wide: bool, reg: Reg, rm: impl Into<Rm>, imm: i32) {
        self.legacy(Form::of("imul", 0, One, 0x69), wide, reg.0, rm.into());
        self.word(imm);
    }

    /// `bswap reg`.
    pub fn bswap(&mut self, wide: bool, reg: Reg) {
        self.opcode(Form::of("bswap", 0, Two, 0xc8 + (reg.0 & 7)), wide, 0, Rm::R(reg.0));
    }

    /// `shld rm, reg, imm`.
    pub fn shld(&mut self, wide: bool, rm: Reg, reg: Reg, imm: u8) {
        self.legacy(Form::of("shld", 0, Two, 0xa4), wide, reg.0, rm.into());
        self.byte(imm);
    }

    /// `test byte rm, imm`.
    pub fn test_byte(&mut self, rm: impl Into<Rm>, imm: u8) {
        self.legacy(Form::of("test", 0, One, 0xf6).bytes(), false, 0, rm.into());
        self.byte(imm);
    }

    /// `cmp byte rm, imm`.
    pub fn cmp_byte(&mut self, rm: impl Into<Rm>, imm: u8) {
        self.legacy(Form::of("cmp", 0, One, 0x80).bytes(), false, 7, rm.into());
        self.byte(imm);
    }

    /// `cmp dword m, imm` with four bytes of immediate, whose offset it returns.
    pub fn compare_number(&mut self, m: Mem, imm: u32) -> usize {
        self.legacy(Form::of("cmp", 0, One, 0x81), false, 7, m.into());
        self.word(imm as i32);
        self.here() - 4
    }

    /// `mov byte rm, imm`.
    pub fn mov_byte(&mut self, rm: Mem, imm: u8) {
        self.legacy(Form::of("mov", 0, One, 0xc6), false, 0, rm.into());
        self.byte(imm);
    }

    /// `setcc rm`, a byte.
    pub fn set(&mut self, cond: Cond, rm: impl Into<Rm>) {
        let form = Form::of("set", 0, Two, 0x90 + cond as u8).bytes();
        self.legacy(form, false, 0, rm.into());
    }

    /// `cmovcc reg, rm`.
    pub fn cmov(&mut self, cond: Cond, wide: bool, reg: Reg, rm: impl Into<Rm>) {
        self.op(Form::of("cmov", 0, Two, 0x40 + cond as u8), wide, reg, rm);
    }

    /// `lock`, before the next instruction.
    pub fn lock(&mut self) {
        self.byte(0xf0);
    }

    /// `cdq` or `cqo`.
    pub fn sign_to_rdx(&mut self, wide: bool) {
        if wide {
            self.byte(0x48);
        }
        self.byte(0x99);
    }

    /// `push reg`.
    pub fn push(&mut self, reg: Reg) {
        self.opcode(Form::of("push", 0, One, 0x50 + (reg.0 & 7)), false, 0, Rm::R(reg.0));
    }

    /// `pop reg`.
    pub fn pop(&mut self, reg: Reg) {
        self.opcode(Form::of("pop", 0, One, 0x58 + (reg.0 & 7)), false, 0, Rm::R(reg.0));
    }

    /// `ret`.
    pub fn ret(&mut self) {
        self.byte(0xc3);
    }

    /// `ldmxcsr m`.
    pub fn ldmxcsr(&mut self, m: Mem) {
        self.legacy(Form::of("ldmxcsr", 0, Two, 0xae), false, 2, m.into());
    }

    /// `stmxcsr m`.
    pub fn stmxcsr(&mut self, m: Mem) {
        self.legacy(Form::of("stmxcsr", 0, Two, 0xae), false, 3, m.into());
    }

    /// A vector form: `form reg, rm` or `form rm, reg`.
    pub fn sse(&mut self, f: Form, reg: Xmm, rm: impl Into<Rm>) {
        self.legacy(f, false, reg.0, rm.into());
    }

    /// A vector form with an immediate byte.
    pub fn sse_imm(&mut self, f: Form, reg: Xmm, rm: impl Into<Rm>, imm: u8) {
        self.legacy(f, false, reg.0, rm.into());
        self.byte(imm);
    }

    /// Vector register from a general register or memory.
    pub fn from_general(&mut self, f: Form, wide: bool, reg: Xmm, rm: impl Into<Rm>) {
        self.legacy(f, wide, reg.0, rm.into());
    }

    /// General register from a vector register.
    pub fn to_general(&mut self, f: Form, wide: bool, reg: Reg, x: Xmm) {
        match f == MOVD_TO {
            true => self.legacy(f, wide, x.0, reg.into()),
            false => self.legacy(f, wide, reg.0, x.into()),
        }
    }

    /// A VEX form: reg, vvvv, rm; 128 bits or scalar.
    pub fn vex(&mut self, f: Form, wide: bool, reg: u8, v: u8, rm: impl Into<Rm>) {
        self.vex_of(f, wide, false, [reg, v], rm.into());
    }

    /// As [`Asm::vex`], 256 bits.
    pub(super) fn vex_long(&mut self, f: Form, reg: u8, v: u8, rm: impl Into<Rm>) {
        self.vex_of(f, false, true, [reg, v], rm.into());
    }

    fn vex_of(&mut self, f: Form, wide: bool, long: bool, [reg, v]: [u8; 2], rm: Rm) {
        let (x, b) = extensions(rm);
        let map = match f.map {
            One | Two => 1,
            Three38 => 2,
            Three3A => 3,
        };
        let prefix = match f.prefix {
            0x66 => 1,
            0xf3 => 2,
            0xf2 => 3,
            _ => 0,
        };
        let rest = (!v & 15) << 3 | u8::from(long) << 2 | prefix;
        if map == 1 && !wide && x | b == 0 {
            self.byte(0xc5);
            self.byte((!(reg >> 3) & 1) << 7 | rest);
        } else {
            self.byte(0xc4);
            self.byte((!(reg >> 3) & 1) << 7 | (!x & 1) << 6 | (!b & 1) << 5 | map);
            self.byte(u8::from(wide) << 7 | rest);
        }
        self.byte(f.opcode);
        self.modrm(reg, rm);
    }

    /// `shlx`, `sarx` or `shrx`: reg = rm shifted by `by`.
    pub fn shift_by(&mut self, f: Form, wide: bool, reg: Reg, rm: impl Into<Rm>, by: Reg) {
        self.vex(f, wide, reg.0, by.0, rm);
    }

    /// A short jump forward, to be bound.
    pub fn jump_short(&mut self, cond: Option<Cond>) -> Short {
        self.byte(cond.map_or(0xeb, |c| 0x70 + c as u8));
        self.byte(0);
        Short(self.bytes.len())
    }

    /// Lets a short jump lead here.
    ///
    /// # Panics
    /// When that is further than a short jump reaches.
    pub fn bind_short(&mut self, jump: Short) {
        let distance = self.bytes.len() - jump.0;
        self.bytes[jump.0 - 1] = i8::try_from(distance).expect("a short jump reaches") as u8;
    }

    /// A near jump to an offset; the offset of its displacement.
    pub fn jump(&mut self, cond: Option<Cond>, to: usize) -> usize {
        match cond {
            Some(c) => self.bytes.extend_from_slice(&[0x0f, 0x80 + c as u8]),
            None => self.byte(0xe9),
        }
        self.near(to)
    }

    /// A near jump, to be bound.
    pub fn jump_near(&mut self, cond: Option<Cond>) -> usize {
        let here = self.here();
        self.jump(cond, here)
    }

    /// Lets a near jump of this piece, known by its displacement's offset, lead here.
    pub fn bind_near(&mut self, at: usize) {
        self.bind_near_to(at, self.here());
    }

    /// Lets a near jump or call of this piece lead to an offset.
    pub fn bind_near_to(&mut self, at: usize, to: usize) {
        let distance = (to as i64 - (at as i64 + 4)) as i32;
        let at = at - self.origin;
        self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// Pads so that four bytes which begin `ahead` bytes from here lie in one aligned doubleword,
    /// where one store replaces them while other threads execute them. Keeps flags.
    pub fn align_patched(&mut self, ahead: usize) {
        const NOPS: [&[u8]; 4] = [&[], &[0x90], &[0x66, 0x90], &[0x0f, 0x1f, 0x00]];
        let place = (self.here() + ahead) % 8;
        if place > 4 && !mutant!("la64_patched_across_doublewords") {
            self.bytes.extend_from_slice(NOPS[8 - place]);
        }
    }

    /// A call of an offset.
    pub fn call(&mut self, to: usize) {
        self.byte(0xe8);
        self.near(to);
    }

    /// A call, to be bound; the offset of its displacement.
    pub fn call_near(&mut self) -> usize {
        self.byte(0xe8);
        let here = self.here();
        self.near(here)
    }

    fn near(&mut self, to: usize) -> usize {
        let at = self.here();
        if to < self.origin {
            self.before.push(at);
        }
        self.word((to as i64 - (at as i64 + 4)) as i32);
        at
    }

    /// `nop`s up to a multiple of `align`.
    pub fn align(&mut self, align: usize) {
        while !self.here().is_multiple_of(align) {
            self.byte(0x90);
        }
    }
}

/// REX.X and REX.B.
fn extensions(rm: Rm) -> (u8, u8) {
    match rm {
        Rm::R(n) => (0, n >> 3),
        Rm::M(m) => (m.index.map_or(0, |(i, _)| i.0 >> 3), m.base.0 >> 3 & 1),
    }
}
