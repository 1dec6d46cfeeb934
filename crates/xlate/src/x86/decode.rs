//! The decoder: bytes to an instruction with its operands.
//!
//! - Prefixes come in any order; a REX prefix counts only directly before the opcode.
//! - LOCK where it is not allowed makes an instruction undefined, as do more than 15 bytes.
//! - F2 and F3 are ignored where they have no meaning, and so are the segment prefixes of es, cs,
//!   ss and ds.

use super::isa::{Form, Names, Row, Selector, Template, Width, candidates};

/// The most bytes of an instruction.
pub const LEN_MAX: usize = 15;

/// Why bytes are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecoded {
    /// More bytes are needed.
    Truncated,
    /// An undefined instruction, or one that this decoder does not know.
    Unknown,
    /// More than 15 bytes.
    TooLong,
}

/// A segment whose base is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// fs.
    Fs,
    /// gs.
    Gs,
}

/// A general register or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg {
    /// Its number.
    pub number: u8,
    /// Bytes of it.
    pub size: u8,
    /// Whether it is bits 8 to 15.
    pub high: bool,
}

/// An operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    /// Base register.
    pub base: Option<u8>,
    /// Index register and how far it is shifted.
    pub index: Option<(u8, u8)>,
    /// What is added; the whole address if there is no register.
    pub displacement: i64,
    /// Segment.
    pub segment: Option<Segment>,
    /// Whether the address before the segment's base has 32 bits.
    pub short: bool,
    /// Whether the displacement was given relative to the instruction's end.
    pub relative: bool,
    /// Bytes.
    pub size: u8,
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A vector register.
    Xmm(u8),
    /// A register of MMX.
    Mm(u8),
    /// Memory.
    Mem(Mem),
    /// A number, extended with its sign.
    Imm(i64),
    /// Where a branch leads.
    Target(u64),
}

/// A repeat prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rep {
    /// F3: while equal.
    Equal,
    /// F2: while not equal.
    NotEqual,
}

/// An instruction at its address.
#[derive(Clone, Copy, Debug)]
pub struct Inst {
    /// Its address.
    pub at: u64,
    /// Its bytes.
    pub len: u8,
    /// Its row.
    pub row: &'static Row,
    /// The operand size in bytes.
    pub size: u8,
    /// Whether it has the LOCK prefix.
    pub lock: bool,
    /// The repeat prefix, if it has one.
    pub rep: Option<Rep>,
    /// Whether addresses have 32 bits.
    pub short: bool,
    /// The segment of the prefixes.
    pub segment: Option<Segment>,
    /// The ModRM byte; 0 where there is none.
    pub modrm: u8,
    operands: [Option<Operand>; 3],
}

impl Inst {
    /// Address of the next instruction.
    pub fn end(&self) -> u64 {
        self.at.wrapping_add(u64::from(self.len))
    }

    /// Operands, destination first.
    pub fn operands(&self) -> impl Iterator<Item = Operand> + '_ {
        self.operands.iter().flatten().copied()
    }

    /// An operand.
    ///
    /// # Panics
    /// If the instruction has fewer.
    pub fn operand(&self, n: usize) -> Operand {
        self.operands[n].expect("invariant: the row names so many operands")
    }

    /// The operand in memory.
    pub fn memory(&self) -> Option<Mem> {
        self.operands().find_map(|o| match o {
            Operand::Mem(m) => Some(m),
            Operand::Reg(_) | Operand::Xmm(_) | Operand::Mm(_) => None,
            Operand::Imm(_) | Operand::Target(_) => None,
        })
    }

    /// Whether it is this instruction, by its name without a condition.
    pub fn is(&self, stem: &str) -> bool {
        self.row.stem == stem
    }
}

/// What prefixes say.
#[derive(Clone, Copy, Default)]
struct Prefixes {
    rex: u8,
    size_16: bool,
    short: bool,
    lock: bool,
    rep: Option<Rep>,
    segment: Option<Segment>,
}

impl Prefixes {
    /// Takes a byte if it is a prefix.
    fn take(&mut self, byte: u8) -> bool {
        let rex = std::mem::take(&mut self.rex);
        match byte {
            0x66 => self.size_16 = true,
            0x67 => self.short = true,
            0xf0 => self.lock = true,
            0xf2 => self.rep = Some(Rep::NotEqual),
            0xf3 => self.rep = Some(Rep::Equal),
            0x64 => self.segment = Some(Segment::Fs),
            0x65 => self.segment = Some(Segment::Gs),
            0x26 | 0x2e | 0x36 | 0x3e => {}
            0x40..=0x4f => self.rex = byte,
            _ => {
                self.rex = rex;
                return false;
            }
        }
        true
    }

    fn bit(&self, n: u32) -> u8 {
        self.rex >> n & 1
    }

    fn admits(&self, row: &Row) -> bool {
        match row.selector {
            None => true,
            Some(Selector::Plain) => !self.size_16 && self.rep.is_none(),
            Some(Selector::Size) => self.size_16 && self.rep.is_none(),
            Some(Selector::Repne) => self.rep == Some(Rep::NotEqual),
            Some(Selector::Rep) => self.rep == Some(Rep::Equal),
        }
    }

    fn size(&self, row: &Row) -> u8 {
        if row.always_8 || self.bit(3) == 1 {
            8
        } else if self.size_16 {
            2
        } else if row.default_8 {
            8
        } else {
            4
        }
    }
}

struct Decoder<'a> {
    bytes: &'a [u8],
    next: usize,
    at: u64,
    prefixes: Prefixes,
    size: u8,
    opcode: u8,
    modrm: u8,
    /// The ModRM byte's operand in memory, without its size.
    memory: Option<Mem>,
}

/// Decodes the instruction that begins at `at` with these bytes.
///
/// # Errors
/// The bytes are no instruction of the table, or more are needed.
pub fn decode(at: u64, bytes: &[u8]) -> Result<Inst, Undecoded> {
    let mut decoder = Decoder {
        bytes,
        next: 0,
        at,
        prefixes: Prefixes::default(),
        size: 4,
        opcode: 0,
        modrm: 0,
        memory: None,
    };
    let row = decoder.row()?;
    decoder.size = decoder.prefixes.size(row);
    if row.has_modrm() {
        decoder.modrm()?;
    }
    let mut operands = [None; 3];
    for (operand, template) in operands.iter_mut().zip(&row.operands) {
        *operand = Some(decoder.operand(*template)?);
    }
    decoder.finish(row, operands)
}

impl Decoder<'_> {
    fn peek(&self) -> Result<u8, Undecoded> {
        if self.next >= LEN_MAX {
            return Err(Undecoded::TooLong);
        }
        self.bytes.get(self.next).copied().ok_or(Undecoded::Truncated)
    }

    fn byte(&mut self) -> Result<u8, Undecoded> {
        let byte = self.peek()?;
        self.next += 1;
        Ok(byte)
    }

    /// A number of `len` bytes, extended with its sign.
    fn number(&mut self, len: u8) -> Result<i64, Undecoded> {
        if len == 0 {
            return Ok(0);
        }
        let mut value = 0u64;
        for n in 0..len {
            value |= u64::from(self.byte()?) << (8 * n);
        }
        let unused = 64 - 8 * u32::from(len);
        Ok((value << unused) as i64 >> unused)
    }

    /// Prefixes and opcode.
    fn row(&mut self) -> Result<&'static Row, Undecoded> {
        let mut byte = self.byte()?;
        while self.prefixes.take(byte) {
            byte = self.byte()?;
        }
        let mut map = 0;
        if byte == 0x0f {
            (map, byte) = (1, self.byte()?);
            if matches!(byte, 0x38 | 0x3a) {
                (map, byte) = (if byte == 0x38 { 2 } else { 3 }, self.byte()?);
            }
        }
        self.opcode = byte;
        let rows = candidates(map, byte);
        if rows.clone().any(Row::has_modrm) {
            self.modrm = self.peek()?;
        }
        let (kind, middle, low) = (self.modrm >> 6, self.modrm >> 3 & 7, self.modrm & 7);
        let fits = |row: &&Row| {
            let names = match row.names {
                Names::Any => true,
                Names::Register => kind == 3,
                Names::Memory => kind != 3,
            };
            let middle_fits = row.middle.is_none_or(|m| m == middle);
            names && middle_fits && row.low.is_none_or(|l| l == low) && self.prefixes.admits(row)
        };
        rows.clone().find(fits).ok_or(Undecoded::Unknown)
    }

    /// Takes the ModRM byte and what belongs to it.
    fn modrm(&mut self) -> Result<(), Undecoded> {
        self.byte()?;
        let (kind, low) = (self.modrm >> 6, self.modrm & 7);
        if kind == 3 {
            return Ok(());
        }
        let (short, segment) = (self.prefixes.short, self.prefixes.segment);
        let mut memory = Mem {
            base: Some(low | self.prefixes.bit(0) << 3),
            index: None,
            displacement: 0,
            segment,
            short,
            relative: false,
            size: 0,
        };
        if low == 4 {
            self.scaled(&mut memory, kind)?;
        } else if low == 5 && kind == 0 {
            (memory.base, memory.relative) = (None, true);
        }
        let len = match kind {
            0 if memory.base.is_none() => 4,
            0 => 0,
            1 => 1,
            _ => 4,
        };
        memory.displacement = self.number(len)?;
        self.memory = Some(memory);
        Ok(())
    }

    /// The SIB byte.
    fn scaled(&mut self, memory: &mut Mem, kind: u8) -> Result<(), Undecoded> {
        let sib = self.byte()?;
        let index = sib >> 3 & 7 | self.prefixes.bit(1) << 3;
        memory.index = (index != 4).then_some((index, sib >> 6));
        memory.base = Some(sib & 7 | self.prefixes.bit(0) << 3);
        if sib & 7 == 5 && kind == 0 {
            memory.base = None;
        }
        Ok(())
    }

    fn width(&self, width: Width) -> u8 {
        match width {
            Width::Bytes(n) => n,
            Width::V | Width::S => self.size,
            Width::Z => self.size.min(4),
            Width::Y => 4 << self.prefixes.bit(3),
            Width::X => 8 << self.prefixes.bit(3),
            Width::Env => {
                if self.size == 2 {
                    14
                } else {
                    28
                }
            }
            Width::Saved => {
                if self.size == 2 {
                    94
                } else {
                    108
                }
            }
        }
    }

    fn register(&self, number: u8, size: u8) -> Operand {
        let high = size == 1 && self.prefixes.rex == 0 && (4..8).contains(&number);
        Operand::Reg(Reg { number: if high { number - 4 } else { number }, size, high })
    }

    fn string(&self, base: u8, size: u8) -> Operand {
        // Only the source's segment can be chosen.
        let segment = self.prefixes.segment.filter(|_| base == 6);
        let (index, short) = (None, self.prefixes.short);
        let base = Some(base);
        Operand::Mem(Mem { base, index, displacement: 0, segment, short, relative: false, size })
    }

    fn operand(&mut self, template: Template) -> Result<Operand, Undecoded> {
        let size = self.width(template.width);
        Ok(match template.form {
            Form::E | Form::M => match self.memory {
                Some(memory) => Operand::Mem(Mem { size, ..memory }),
                None => self.register(self.modrm & 7 | self.prefixes.bit(0) << 3, size),
            },
            Form::W => match self.memory {
                Some(memory) => Operand::Mem(Mem { size, ..memory }),
                None => Operand::Xmm(self.modrm & 7 | self.prefixes.bit(0) << 3),
            },
            Form::Q => match self.memory {
                Some(memory) => Operand::Mem(Mem { size, ..memory }),
                None => Operand::Mm(self.modrm & 7),
            },
            Form::P => Operand::Mm(self.modrm >> 3 & 7),
            Form::V => Operand::Xmm(self.modrm >> 3 & 7 | self.prefixes.bit(2) << 3),
            Form::G => self.register(self.modrm >> 3 & 7 | self.prefixes.bit(2) << 3, size),
            Form::Z => self.register(self.opcode & 7 | self.prefixes.bit(0) << 3, size),
            Form::I if template.width == Width::S => Operand::Imm(self.number(1)?),
            Form::I => Operand::Imm(self.number(size)?),
            Form::J => {
                let distance = self.number(size.min(4))?;
                let end = self.at.wrapping_add(self.next as u64);
                Operand::Target(end.wrapping_add(distance as u64))
            }
            Form::O => self.absolute(size)?,
            Form::X => self.string(6, size),
            Form::Y => self.string(7, size),
            Form::A => Operand::Reg(Reg { number: 0, size, high: false }),
            Form::C => Operand::Reg(Reg { number: 1, size: 1, high: false }),
            Form::One => Operand::Imm(1),
        })
    }

    fn absolute(&mut self, size: u8) -> Result<Operand, Undecoded> {
        let (short, segment) = (self.prefixes.short, self.prefixes.segment);
        let displacement = match short {
            true => self.number(4)? & 0xffff_ffff,
            false => self.number(8)?,
        };
        let (base, index, relative) = (None, None, false);
        Ok(Operand::Mem(Mem { base, index, displacement, segment, short, relative, size }))
    }

    fn finish(
        self,
        row: &'static Row,
        mut operands: [Option<Operand>; 3],
    ) -> Result<Inst, Undecoded> {
        let is_memory = matches!(operands[0], Some(Operand::Mem(_)));
        if self.prefixes.lock && !(row.lock && is_memory) {
            return Err(Undecoded::Unknown);
        }
        let end = self.at.wrapping_add(self.next as u64);
        for operand in operands.iter_mut().flatten() {
            if let Operand::Mem(memory) = operand
                && memory.relative
            {
                let address = end.wrapping_add(memory.displacement as u64);
                memory.displacement = address as i64;
            }
        }
        let (len, size, short) = (self.next as u8, self.size, self.prefixes.short);
        let Prefixes { lock, rep, segment, .. } = self.prefixes;
        let modrm = self.modrm;
        Ok(Inst { at: self.at, len, row, size, lock, rep, short, segment, modrm, operands })
    }
}
