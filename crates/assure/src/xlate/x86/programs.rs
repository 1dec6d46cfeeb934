//! Random programs of x86-64: instructions made from the decoder's table.
//!
//! - Branches lead forward, so every program ends. It ends with `int3` at the latest.
//! - Behind an instruction that leaves flags undefined comes at most one that reads the others, and
//!   then one that sets all; see [`Program::adjust_is_open`] for the adjust flag.
//! - Left out are instructions whose result differs between processors (`LEFT_OUT`), and operands
//!   for which the manual leaves the result open.

pub use super::values::Random;

use super::child::{CODE, DATA, PAGE, Registers};
use super::values::{mxcsr, number, registers};
use littoral_xlate::x86::decode::{Inst, Operand, decode};
use littoral_xlate::x86::isa::{self, Form, Names, Row, Selector, Width, condition_reads, flag};

/// Instructions that are not made at random: their results differ between processors or runs, or
/// they are made in [`Maker::sequence`] with operands that suit them.
const LEFT_OUT: [&str; 22] = [
    "syscall", "cpuid", "rdtsc", "popf", "ret", "int", "ldmxcsr", "stmxcsr", "fxsave", "fxrstor",
    "rcpps", "rcpss", "rsqrtps", "rsqrtss", "fsin", "fcos", "fsincos", "fptan", "fpatan", "f2xm1",
    "fyl2x", "fyl2xp1",
];
/// Registers that addresses begin with: those, and the stack's.
const BASES: [u8; 7] = [3, 4, 5, 6, 7, 12, 14];
const INSTRUCTIONS_MAX: u64 = 32;

/// A program with what it begins with.
#[derive(Clone)]
pub struct Program {
    /// Its bytes.
    pub code: Vec<u8>,
    /// Where instructions begin.
    pub starts: Vec<u64>,
    /// Registers.
    pub registers: Registers,
    /// The data page.
    pub data: Vec<u8>,
    /// Whether the adjust flag may be what an instruction left undefined; nothing reads it then.
    pub adjust_is_open: bool,
}

/// Bytes of one instruction, and the place of a distance that is filled in at the end.
#[derive(Clone)]
struct Piece {
    bytes: Vec<u8>,
    /// Where an address or a distance of so many bytes belongs, to how many pieces ahead.
    ahead: Option<(usize, usize, u64)>,
    /// Whether it is an address.
    absolute: bool,
    /// Whether branches may not lead here: what comes before belongs to it.
    glued: bool,
    /// Where the distance to an address of data belongs.
    data: Option<(usize, u64)>,
}

impl Piece {
    fn plain(bytes: &[u8]) -> Piece {
        Piece { bytes: bytes.to_vec(), ahead: None, absolute: false, glued: false, data: None }
    }

    /// A piece that belongs to the one before.
    fn glued(bytes: &[u8]) -> Piece {
        Piece { glued: true, ..Piece::plain(bytes) }
    }

    fn inst(&self) -> Option<Inst> {
        decode(CODE, &self.bytes).ok().filter(|i| usize::from(i.len) == self.bytes.len())
    }
}

struct Maker<'a> {
    random: &'a mut Random,
    /// The rows of which instructions are made.
    rows: Vec<&'static Row>,
    pieces: Vec<Piece>,
    adjust_is_open: bool,
}

/// Prefixes and fields of an instruction to be made.
struct Encoding {
    prefixes: Vec<u8>,
    rex: u8,
    size: u8,
    short: bool,
}

impl Maker<'_> {
    fn pick(&mut self, list: &[u8]) -> u8 {
        list[self.random.below(list.len() as u64) as usize]
    }

    fn prefixes(&mut self, row: &Row) -> Encoding {
        let (mut prefixes, mut rex) = (Vec::new(), 0);
        let plain = row.selector.is_some();
        let is_16 = !plain && !row.always_8 && self.random.one_in(5);
        let short = self.random.one_in(24);
        if is_16 {
            prefixes.push(0x66);
        }
        if short {
            prefixes.push(0x67);
        }
        if self.random.one_in(8) {
            let segment = self.pick(&[0x64, 0x65, 0x2e]);
            prefixes.push(segment);
        }
        match row.selector {
            Some(Selector::Rep) => prefixes.push(0xf3),
            Some(Selector::Repne) => prefixes.push(0xf2),
            Some(Selector::Size) => prefixes.push(0x66),
            Some(Selector::Plain) | None => {}
        }
        if row.string && self.random.one_in(2) {
            let repeat = self.pick(&[0xf2, 0xf3]);
            prefixes.push(repeat);
        }
        match self.random.below(8) {
            0..4 => rex |= 0x48,
            // Bytes of rsp, rbp, rsi and rdi in place of ah, ch, dh and bh.
            4 => rex |= 0x40,
            _ => {}
        }
        let size = match (row.always_8 || rex & 8 != 0, is_16, row.default_8) {
            (true, ..) => 8,
            (_, true, _) => 2,
            (_, _, true) => 8,
            _ => 4,
        };
        Encoding { prefixes, rex, size, short }
    }

    /// Operands that name no pointer, more often than not.
    fn register(&mut self) -> u8 {
        match self.random.below(8) {
            0 => self.random.below(16) as u8,
            _ => self.pick(&[0, 1, 2, 8, 9, 10, 11, 15]),
        }
    }

    /// The ModRM byte and what belongs to it.
    fn modrm(&mut self, row: &Row, rex: &mut u8) -> Vec<u8> {
        let has_memory = match row.names {
            Names::Register => false,
            Names::Memory => true,
            Names::Any => self.random.one_in(2),
        };
        let middle = row.middle.unwrap_or_else(|| {
            let r = self.register();
            *rex |= if r > 7 { 0x44 } else { 0 };
            r & 7
        });
        if !has_memory {
            let low = row.low.unwrap_or_else(|| {
                let r = self.register();
                *rex |= if r > 7 { 0x41 } else { 0 };
                r & 7
            });
            return vec![0xc0 | middle << 3 | low];
        }
        let base = self.pick(&BASES);
        *rex |= if base > 7 { 0x41 } else { 0 };
        let is_whole = row.operands.iter().any(|t| t.width == Width::Bytes(16));
        let grain = if is_whole && !self.random.one_in(12) { 16 } else { 1 };
        let displacement = self.random.below(256) as u8 / grain * grain;
        let grain = u32::from(grain);
        let near = DATA as u32 + 64 + self.random.below(PAGE as u64 - 128) as u32 / grain * grain;
        let near = near.to_le_bytes();
        match self.random.below(9) {
            8 => vec![middle << 3 | 5, 0, 0, 0, 0],
            0 => [vec![middle << 3 | 4, 0x25], near.to_vec()].concat(),
            1 | 2 => {
                let index = self.pick(&[0, 1, 1, 1, 2, 9]);
                *rex |= if index > 7 { 0x42 } else { 0 };
                let scale = self.random.below(4) as u8;
                vec![0x44 | middle << 3, scale << 6 | (index & 7) << 3 | base & 7, displacement]
            }
            _ if base & 7 == 4 => vec![0x44 | middle << 3, 0x24, displacement],
            3 => {
                let far = (self.random.below(1024) as i32 - 512) / grain as i32 * grain as i32;
                let far = far.to_le_bytes();
                [vec![0x80 | middle << 3 | base & 7], far.to_vec()].concat()
            }
            _ => vec![0x40 | middle << 3 | base & 7, displacement],
        }
    }

    fn immediate(&mut self, width: Width, size: u8) -> Vec<u8> {
        let len = match width {
            Width::Bytes(n) => n,
            Width::V => size,
            Width::Z | Width::Y | Width::X => size.min(4),
            Width::S => 1,
            Width::Env | Width::Saved => unreachable!("no immediate is one"),
        };
        let value = match self.random.below(3) {
            0 => self.random.below(40),
            1 => self.random.draw(),
            _ => 0u64.wrapping_sub(self.random.below(40)),
        };
        value.to_le_bytes()[..usize::from(len)].to_vec()
    }

    /// An instruction of a row.
    fn piece(&mut self, row: &Row) -> Piece {
        let mut encoding = self.prefixes(row);
        let mut opcode = row.opcode;
        if row.operands.iter().any(|t| t.form == Form::Z) {
            let r = self.register();
            opcode += r & 7;
            encoding.rex |= if r > 7 { 0x41 } else { 0 };
        }
        let mut tail = Vec::new();
        if row.has_modrm() {
            tail = self.modrm(row, &mut encoding.rex);
            if row.lock && tail[0] < 0xc0 && self.random.one_in(4) {
                encoding.prefixes.insert(0, 0xf0);
            }
        }
        let mut ahead = None;
        let mut bytes = encoding.prefixes;
        if encoding.rex != 0 {
            bytes.push(encoding.rex);
        }
        bytes.extend(row.escape());
        bytes.push(opcode);
        let near = DATA + 64 + self.random.below(PAGE as u64 - 128) / 16 * 16;
        let is_relative = tail.first().is_some_and(|modrm| modrm & 0xc7 == 5);
        let data = is_relative.then_some((bytes.len() + 1, near));
        bytes.extend(tail);
        for template in &row.operands {
            match template.form {
                Form::I => {
                    let immediate = self.immediate(template.width, encoding.size);
                    bytes.extend(immediate);
                }
                Form::J => {
                    let len = if template.width == Width::Bytes(1) { 1 } else { 4 };
                    ahead = Some((bytes.len(), len, 1 + self.random.below(5)));
                    bytes.resize(bytes.len() + len, 0);
                }
                Form::O => {
                    let at = DATA + 8 + self.random.below(PAGE as u64 - 16);
                    bytes.extend(&at.to_le_bytes()[..if encoding.short { 4 } else { 8 }]);
                }
                _ => {}
            }
        }
        Piece { ahead, data, ..Piece::plain(&bytes) }
    }

    /// Whether the result of an instruction is the same on all processors.
    fn is_settled(inst: &Inst, bytes: &[u8]) -> bool {
        let size = inst.size_of_first();
        let by_register = inst.fixed_count().is_none();
        match inst.row.stem {
            "bswap" => size != 2,
            // Whether a register that differs is extended depends on the processor.
            "cmpxchg" => size != 4 || inst.memory().is_some(),
            "shld" | "shrd" if size == 2 => {
                !by_register && inst.fixed_count().is_some_and(|c| c <= 16)
            }
            // A source of zero leaves the destination open; it is made not zero before.
            "bsf" | "bsr" => matches!(inst.operand(1), Operand::Reg(_)),
            "enter" => bytes[bytes.len() - 1] < 4 && bytes[bytes.len() - 2] == 0,
            // Jumps through registers and memory are made with a target.
            "jmp" | "call" => inst.target().is_some(),
            _ => true,
        }
    }

    /// Flags that an instruction leaves undefined.
    fn undefined(inst: &Inst) -> u8 {
        let all = inst.row.flags.undefined;
        let is_shift = matches!(inst.row.stem, "shl" | "shr" | "sar" | "shld" | "shrd");
        let narrow = inst.size_of_first() < 4;
        match inst.fixed_count() {
            Some(0) if is_shift => 0,
            _ if is_shift && narrow => all | flag::C,
            _ => all,
        }
    }

    /// One instruction, with what must stand around it.
    fn instruction(&mut self) {
        let row = self.rows[self.random.below(self.rows.len() as u64) as usize];
        let rare = row.privileged
            || matches!(row.stem, "int3" | "int1" | "ud0" | "ud1" | "ud2" | "div" | "idiv");
        let shows_adjust = self.adjust_is_open && matches!(row.stem, "lahf" | "pushf");
        if LEFT_OUT.contains(&row.stem) || shows_adjust || rare && !self.random.one_in(4) {
            return;
        }
        let piece = self.piece(row);
        let Some(inst) = piece.inst().filter(|i| std::ptr::eq(i.row, row)) else { return };
        if !Self::is_settled(&inst, &piece.bytes) {
            return;
        }
        if matches!(row.stem, "bsf" | "bsr")
            && let Operand::Reg(source) = inst.operand(1)
        {
            let rex = 0x48 | source.number >> 3;
            self.pieces.push(Piece::plain(&[rex, 0x83, 0xc8 | source.number & 7, 1]));
        }
        let glued = matches!(row.stem, "bsf" | "bsr");
        self.pieces.push(Piece { glued, ..piece });
        self.settle(Self::undefined(&inst));
    }

    /// Reads a flag that is defined, and sets all.
    fn settle(&mut self, undefined: u8) {
        let open = if self.adjust_is_open { flag::A } else { 0 };
        if undefined & !open == 0 {
            return;
        }
        let condition = self.random.below(16) as u8;
        if condition_reads(condition) & undefined == 0 {
            self.pieces.push(Piece::plain(&[0x41, 0x0f, 0x90 | condition, 0xc0]));
        }
        let operation = self.pick(&[0x01, 0x29, 0x39]);
        let operands = 0xc0 | self.pick(&[0, 1, 2, 8, 10, 17]);
        self.pieces.push(Piece::plain(&[0x48, operation, operands]));
    }

    /// Instructions that belong together.
    fn sequence(&mut self) {
        let to = 1 + self.random.below(4);
        match self.random.below(9) {
            // push a target; ret, perhaps with a number of bytes.
            0 => {
                let bytes = [0x68, 0, 0, 0, 0];
                let ahead = Some((1, 4, to + 1));
                let push = Piece { ahead, absolute: true, ..Piece::plain(&bytes) };
                self.pieces.push(push);
                let ret: &[u8] = if self.random.one_in(2) { &[0xc3] } else { &[0xc2, 8, 0] };
                self.pieces.push(Piece::glued(ret));
            }
            // mov r11d, target; jmp or call r11.
            1 => {
                let bytes = [0x41, 0xbb, 0, 0, 0, 0];
                let ahead = Some((2, 4, to + 1));
                self.pieces.push(Piece { ahead, absolute: true, ..Piece::plain(&bytes) });
                let code = self.pick(&[0xe3, 0xd3]);
                self.pieces.push(Piece::glued(&[0x41, 0xff, code]));
            }
            // push flags; popf.
            2 => {
                let flags = self.random.draw() as u16 & 0xcd5;
                let [low, high] = flags.to_le_bytes();
                self.pieces.push(Piece::plain(&[0x68, low, high, 0, 0]));
                self.pieces.push(Piece::glued(&[0x9d]));
            }
            // mov ecx, a small number: for shifts, repetitions, indices.
            3 => {
                let count = self.random.below(70) as u8;
                self.pieces.push(Piece::plain(&[0xb9, count, 0, 0, 0]));
            }
            // A dividend that a division by 64 bits can divide: cqo, or xor edx, edx.
            4 => {
                let bytes: &[u8] =
                    if self.random.one_in(2) { &[0x48, 0x99] } else { &[0x31, 0xd2] };
                self.pieces.push(Piece::plain(bytes));
                self.settle(flag::A);
                let code = self.pick(&[0xf1, 0xf9]);
                self.pieces.push(Piece::plain(&[0x48, 0xf7, code]));
                self.settle(flag::ALL);
            }
            // push a target; jmp or call through it.
            5 => {
                let ahead = Some((1, 4, to + 1));
                let push = Piece { ahead, absolute: true, ..Piece::plain(&[0x68, 0, 0, 0, 0]) };
                self.pieces.push(push);
                let code = self.pick(&[0x24, 0x14]);
                self.pieces.push(Piece::glued(&[0xff, code, 0x24]));
            }
            6 => self.control(),
            7 => self.save_and_restore(),
            _ if self.random.one_in(8) => self.pieces.push(Piece::plain(&[0xcd, 0x21])),
            _ => self.pieces.push(Piece::plain(&[0xfc])),
        }
    }

    /// What sets flags, what reads them behind it, and what sets them again on both ways: accesses
    /// stand between, and operands are often equal or at the ends of their range.
    fn comparison(&mut self) {
        const STEMS: [&str; 15] = [
            "cmp", "cmp", "cmp", "test", "test", "sub", "dec", "and", "add", "inc", "neg", "shl",
            "sar", "ucomisd", "comiss",
        ];
        let stem = STEMS[self.random.below(STEMS.len() as u64) as usize];
        let rows: Vec<&Row> = isa::rows().iter().filter(|row| row.stem == stem).collect();
        let row = rows[self.random.below(rows.len() as u64) as usize];
        let piece = self.piece(row);
        let Some(inst) = piece.inst() else { return };
        for _ in 0..self.random.below(4) {
            let value = self.random.below(6) as u32;
            let value = [0, 1, u32::MAX, 1 << 31, 0x7fff_ffff, 0x80][value as usize];
            let register = self.pick(&[0, 1, 2]);
            // mov r32, imm32, or mov r64, imm32.
            match self.random.one_in(2) {
                true => self.pieces.push(Piece::plain(&[0xb8 | register])),
                false => self.pieces.push(Piece::plain(&[0x48, 0xc7, 0xc0 | register])),
            }
            let last = self.pieces.last_mut().expect("just made");
            last.bytes.extend(value.to_le_bytes());
        }
        self.pieces.push(piece);
        let open = Self::undefined(&inst) & !if self.adjust_is_open { flag::A } else { 0 };
        for _ in 0..self.random.below(3) {
            self.between(open == 0);
        }
        for _ in 0..self.random.below(3) {
            self.reader(Self::undefined(&inst), open == 0);
        }
        let condition = self.random.below(16) as u8;
        if condition_reads(condition) & Self::undefined(&inst) == 0 {
            let ahead = Some((1, 1, self.random.below(2)));
            self.pieces.push(Piece { ahead, ..Piece::plain(&[0x70 | condition, 0]) });
        }
        for _ in 0..2 {
            let operands = 0xc0 | self.pick(&[0, 1, 2, 8, 10, 17]);
            self.pieces.push(Piece::plain(&[0x48, 0x39, operands]));
        }
    }

    /// An access or an address with a displacement beyond 12 bits: alone, relative to the code, or
    /// beside an index. Places lie near the ends of what one kept address reaches.
    fn access(&mut self) {
        const OFFSETS: [u32; 8] = [0, 8, 0x100, 0x7f8, 0x800, 0x808, 0xc00, 0xf00];
        let offset = OFFSETS[self.random.below(OFFSETS.len() as u64) as usize];
        let address = DATA as u32 + offset;
        // mov, add, xor, cmp from memory; mov and add to it; lea.
        let opcode = self.pick(&[0x8b, 0x03, 0x33, 0x3b, 0x89, 0x01, 0x8d]);
        let register = self.pick(&[0, 2]) << 3;
        let mut bytes = if self.random.one_in(2) { vec![0x48, opcode] } else { vec![opcode] };
        if self.random.below(3) == 0 {
            bytes.push(register | 5);
            let data = Some((bytes.len(), u64::from(address)));
            bytes.extend([0; 4]);
            return self.pieces.push(Piece { data, ..Piece::plain(&bytes) });
        }
        let (sib, address) = match self.random.below(4) {
            0 => (0x25, address),
            // rcx, which is small, as it is and twice to eight times.
            scale => (0x0d | (scale as u8) << 6, address),
        };
        bytes.extend([register | 4, sib]);
        bytes.extend(address.to_le_bytes());
        self.pieces.push(Piece::plain(&bytes));
    }

    /// Accesses with branches between them, and what writes scratch registers.
    fn accesses(&mut self) {
        // mov ecx, a small number.
        self.pieces.push(Piece::plain(&[0xb9, self.random.below(16) as u8, 0, 0, 0]));
        for _ in 0..2 + self.random.below(10) {
            match self.random.below(8) {
                0 => {
                    let condition = self.pick(&[2, 4, 5, 8, 12]);
                    let ahead = Some((1, 1, self.random.below(3)));
                    self.pieces.push(Piece { ahead, ..Piece::plain(&[0x70 | condition, 0]) });
                }
                // lock add [DATA], ecx; movsb; shl of memory by cl.
                1 => {
                    let mut bytes = vec![0xf0, 0x01, 0x0c, 0x25];
                    bytes.extend((DATA as u32 + 64).to_le_bytes());
                    self.pieces.push(Piece::plain(&bytes));
                }
                2 => self.pieces.push(Piece::plain(&[0xa4])),
                _ => self.access(),
            }
        }
    }

    /// A move that leaves flags; of memory only where they are defined, because it may fault.
    fn between(&mut self, may_fault: bool) {
        let operands = self.pick(&[0, 1, 2, 8, 10, 17]);
        let bytes: &[u8] = match self.random.below(6) {
            0 => &[0x89, 0xc0 | operands],
            1 => &[0x48, 0x89, 0xc0 | operands],
            2 => &[0x0f, 0xb6, 0xc0 | operands],
            3 => &[0x48, 0x63, 0xc0 | operands],
            // mov r, [r12 + 8], where r12 may be far away.
            4 if may_fault => &[0x41, 0x8b, 0x44 | operands & 0x38, 0x24, 8],
            _ => &[0x8d, 0x44, 0x0b, 5],
        };
        self.pieces.push(Piece::plain(bytes));
    }

    /// setcc or cmovcc of a register, or of memory, which may fault.
    fn reader(&mut self, undefined: u8, may_fault: bool) {
        let condition = self.random.below(16) as u8;
        if condition_reads(condition) & undefined != 0 {
            return;
        }
        let operands = self.pick(&[0, 1, 2, 8, 10, 17]);
        let bytes: &[u8] = match self.random.below(8) {
            0..3 => &[0x0f, 0x90 | condition, 0xc0 | operands & 7],
            3 | 4 => &[0x0f, 0x40 | condition, 0xc0 | operands],
            5 | 6 => &[0x48, 0x0f, 0x40 | condition, 0xc0 | operands],
            _ if may_fault => &[0x0f, 0x40 | condition, 0x43 | operands & 0x38, 4],
            _ => return,
        };
        self.pieces.push(Piece::plain(bytes));
    }

    /// MXCSR from memory and to it. The flag of denormal operands is taken away.
    fn control(&mut self) {
        let value = mxcsr(self.random).to_le_bytes();
        if self.random.one_in(2) {
            self.pieces.push(Piece::plain(&[&[0xc7, 0x44, 0x24, 0xf0][..], &value].concat()));
            self.pieces.push(Piece::glued(&[0x0f, 0xae, 0x54, 0x24, 0xf0]));
        } else {
            self.pieces.push(Piece::plain(&[0x0f, 0xae, 0x5c, 0x24, 0xf0]));
            self.pieces.push(Piece::glued(&[0x80, 0x64, 0x24, 0xf0, 0xfd]));
            self.settle(flag::A);
        }
    }

    /// fxsave; another number in the vector registers' place; fxrstor. What differs between
    /// processors is overwritten: the mask of MXCSR, the flag of denormal operands.
    fn save_and_restore(&mut self) {
        let place = DATA as u32 + 0x200;
        let with = |bytes: &[u8], at: u32, tail: &[u8]| {
            [bytes, &(place + at).to_le_bytes(), tail].concat()
        };
        let xmm = 160 + 4 * self.random.below(64) as u32;
        let value = (self.random.draw() as u32).to_le_bytes();
        self.pieces.push(Piece::plain(&with(&[0x0f, 0xae, 0x04, 0x25], 0, &[])));
        self.pieces.push(Piece::glued(&with(&[0xc7, 0x04, 0x25], 28, &[0; 4])));
        self.pieces.push(Piece::glued(&with(&[0x80, 0x24, 0x25], 24, &[0xfd])));
        self.pieces.push(Piece::glued(&with(&[0xc7, 0x04, 0x25], xmm, &value)));
        self.pieces.push(Piece::glued(&with(&[0x0f, 0xae, 0x0c, 0x25], 0, &[])));
        self.settle(flag::A);
    }

    /// The program's bytes with all distances filled in, and where instructions begin.
    fn finish(mut self) -> (Vec<u8>, Vec<u64>) {
        let last = self.pieces.len();
        self.pieces.extend(vec![Piece::plain(&[0xcc]); 8]);
        let mut starts = vec![CODE];
        for piece in &self.pieces {
            let end = starts.last().copied().unwrap_or(CODE) + piece.bytes.len() as u64;
            starts.push(end);
        }
        for n in 0..last {
            let (start, end) = (starts[n], starts[n + 1]);
            if let Some((at, address)) = self.pieces[n].data {
                let distance = address.wrapping_sub(end).to_le_bytes();
                self.pieces[n].bytes[at..at + 4].copy_from_slice(&distance[..4]);
            }
            let Some((at, len, ahead)) = self.pieces[n].ahead else { continue };
            let first = n + 1 + ahead as usize;
            let free = (first..).find(|&m| !self.pieces[m].glued).unwrap_or(first);
            let (target, piece) = (starts[free], &mut self.pieces[n]);
            let value = if piece.absolute { target } else { target.wrapping_sub(end) };
            piece.bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
            assert!(len > 1 || value < 128, "{start:#x} leads to {target:#x}");
        }
        (self.pieces.iter().flat_map(|p| p.bytes.clone()).collect(), starts)
    }
}

/// Whether an instruction works on vector registers.
fn is_vector(row: &Row) -> bool {
    row.operands.iter().any(|t| matches!(t.form, Form::V | Form::W))
}

/// A random program.
pub fn program(random: &mut Random) -> Program {
    let length = 2 + random.below(INSTRUCTIONS_MAX);
    let kind = random.below(4);
    let is_kind = |row: &Row| match kind {
        0 | 1 => is_vector(row),
        2 => row.x87 || row.mmx,
        _ => true,
    };
    let rows = isa::rows().iter().filter(|row| is_kind(row)).collect();
    make(random, rows, |maker| {
        while (maker.pieces.len() as u64) < length {
            if maker.random.one_in(8) {
                maker.sequence();
            } else {
                maker.instruction();
            }
        }
    })
}

/// A random program of comparisons and what reads them.
pub fn comparisons(random: &mut Random) -> Program {
    let count = 1 + random.below(6);
    make(random, Vec::new(), |maker| (0..count).for_each(|_| maker.comparison()))
}

/// The rows of vector instructions that are made at random.
pub fn vector_rows() -> impl Iterator<Item = &'static Row> {
    isa::rows().iter().filter(|row| is_vector(row) && !row.mmx && !LEFT_OUT.contains(&row.stem))
}

/// The rows with a carry from before.
pub fn carry_rows() -> impl Iterator<Item = &'static Row> {
    rows_named(&["adc", "sbb"])
}

/// The rows of instructions by their names without a condition, those of MMX left out.
pub fn rows_named(stems: &'static [&'static str]) -> impl Iterator<Item = &'static Row> {
    isa::rows().iter().filter(|row| stems.contains(&row.stem) && !row.mmx)
}

/// The rows of integers that read or write flags.
pub fn flag_rows() -> impl Iterator<Item = &'static Row> {
    let is_plain = |row: &&Row| !row.privileged && !row.x87 && !row.mmx && !is_vector(row);
    let rows = isa::rows().iter().filter(is_plain);
    rows.filter(|row| row.flags.reads | row.flags.writes != 0 && !LEFT_OUT.contains(&row.stem))
}

/// The rows of MMX.
pub fn mmx_rows() -> impl Iterator<Item = &'static Row> {
    isa::rows().iter().filter(|row| row.mmx)
}

/// The rows of x87.
pub fn x87_rows() -> impl Iterator<Item = &'static Row> {
    isa::rows().iter().filter(|row| row.x87 && !LEFT_OUT.contains(&row.stem))
}

/// A program of some instructions of one row.
pub fn program_of(random: &mut Random, row: &'static Row) -> Program {
    make(random, vec![row], |maker| (0..3).for_each(|_| maker.instruction()))
}

/// A random program of accesses far from what registers hold.
pub fn accesses(random: &mut Random) -> Program {
    let count = 1 + random.below(3);
    make(random, Vec::new(), |maker| (0..count).for_each(|_| maker.accesses()))
}

fn make(
    random: &mut Random,
    rows: Vec<&'static Row>,
    fill: impl FnOnce(&mut Maker<'_>),
) -> Program {
    let adjust_is_open = random.one_in(2);
    let registers = registers(random);
    let data = match random.one_in(2) {
        true => (0..PAGE).map(|_| random.draw() as u8).collect(),
        false => (0..PAGE / 8).flat_map(|_| number(random).to_le_bytes()).collect(),
    };
    let mut maker = Maker { random, rows, pieces: Vec::new(), adjust_is_open };
    fill(&mut maker);
    let (code, starts) = maker.finish();
    Program { code, starts, registers, data, adjust_is_open }
}
