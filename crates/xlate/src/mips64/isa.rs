//! The instruction table of MIPS64 release 2, and what works from it: decoder and disassembler.
//!
//! The table is `rows.txt`, in a layout of our own; the encodings are facts of the architecture's
//! manual. It is read once, at the first use. A row also says which registers it reads and writes,
//! and, where one LA64 instruction does the same, which one.
//!
//! Invariants
//! - No word matches two rows. Checked by `no_word_matches_two_rows`.

use crate::ir::RegSet;
use littoral_base::mutant;
use littoral_la64::isa::{self as la64, RowId};
use std::sync::LazyLock;

/// A field of an instruction word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// General register, bits 21 to 25.
    S,
    /// General register, bits 16 to 20.
    T,
    /// General register, bits 11 to 15.
    D,
    /// Amount, bits 6 to 10.
    A,
    /// Amount, bits 11 to 15, or the low half of a code.
    B,
    /// Hint, or the high half of a code.
    H,
    /// Condition flag.
    C,
    /// Signed immediate of 16 bits.
    I,
    /// Unsigned immediate of 16 bits.
    U,
    /// Jump target in words, 26 bits.
    O,
    /// Code of 20 bits.
    K,
    /// Floating-point register, bits 11 to 15.
    Fs,
    /// Floating-point register, bits 16 to 20.
    Ft,
    /// Floating-point register, bits 6 to 10.
    Fd,
    /// Floating-point register, bits 21 to 25.
    Fr,
}

impl Field {
    const NAMES: [(&'static str, Field, u32); 15] = [
        ("s", Field::S, 5),
        ("t", Field::T, 5),
        ("d", Field::D, 5),
        ("a", Field::A, 5),
        ("b", Field::B, 5),
        ("h", Field::H, 5),
        ("c", Field::C, 3),
        ("i", Field::I, 16),
        ("u", Field::U, 16),
        ("o", Field::O, 26),
        ("k", Field::K, 20),
        ("fs", Field::Fs, 5),
        ("ft", Field::Ft, 5),
        ("fd", Field::Fd, 5),
        ("fr", Field::Fr, 5),
    ];

    fn named(name: &str) -> Option<(Field, u32)> {
        Field::NAMES.iter().find(|row| row.0 == name).map(|row| (row.1, row.2))
    }
}

/// A register that an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The register that a field names.
    Field(Field),
    /// This one.
    Fixed(u8),
}

/// A sum of fields and a number: an operand of LA64 code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    fields: Vec<Field>,
    number: i64,
}

/// How an instruction becomes LA64 code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// One instruction.
    Plain(RowId, Vec<Sum>),
    /// A kind with parameters.
    Special(&'static str, Vec<&'static str>),
}

/// One instruction of the table.
#[derive(Debug)]
pub struct Row {
    /// The manual's mnemonic.
    pub mnemonic: &'static str,
    /// The fixed bits.
    pub word: u32,
    /// Which bits are fixed.
    pub mask: u32,
    /// How it becomes LA64 code.
    pub code: Code,
    syntax: &'static str,
    places: Vec<(Field, u32, u32)>,
    writes: Vec<Access>,
    reads: Vec<Access>,
}

/// An instruction at its address.
#[derive(Clone, Copy, Debug)]
pub struct Inst {
    /// Its address.
    pub at: u64,
    /// Its bits.
    pub word: u32,
    /// Its row.
    pub row: &'static Row,
}

/// Number of HI among the registers of a [`RegSet`]; general registers come before it.
pub const HI: u8 = 32;
/// Number of LO.
pub const LO: u8 = 33;
/// Number of the first floating-point register.
pub const FPR: u8 = 34;
/// Number of the first condition flag.
pub const FCC: u8 = 66;
/// Return address.
pub const RA: u8 = 31;

struct Table {
    rows: Vec<Row>,
    /// Rows by the highest six bits.
    by_opcode: Vec<Vec<usize>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let text = include_str!("rows.txt");
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    let rows: Vec<Row> = lines.map(row).collect();
    let mut by_opcode = vec![Vec::new(); 64];
    for (n, row) in rows.iter().enumerate() {
        by_opcode[(row.word >> 26) as usize].push(n);
    }
    Table { rows, by_opcode }
});

/// Every instruction, in the order of the table.
pub fn rows() -> &'static [Row] {
    &TABLE.rows
}

/// The row that `word` is an instance of, or `None` if it is no instruction.
///
/// ```
/// use littoral_xlate::mips64::isa;
/// assert_eq!(isa::decode(0x0085_102d).expect("daddu").mnemonic, "daddu");
/// ```
pub fn decode(word: u32) -> Option<&'static Row> {
    let table = &*TABLE;
    let bucket = &table.by_opcode[(word >> 26) as usize];
    bucket.iter().map(|&n| &table.rows[n]).find(|r| word & r.mask == r.word)
}

/// An instruction from its mnemonic and operands in the order of its syntax; `None` for an unknown
/// mnemonic or an operand that does not fit. Branches take their distance in instructions.
///
/// ```
/// use littoral_xlate::mips64::isa;
/// assert_eq!(isa::encode("daddu", &[2, 4, 5]), Some(0x0085_102d));
/// assert_eq!(isa::encode("lw", &[31, 28, 29]), Some(0x8fbf_001c));
/// ```
pub fn encode(mnemonic: &str, operands: &[i64]) -> Option<u32> {
    let row = rows().iter().find(|r| r.mnemonic == mnemonic)?;
    let names: Vec<&str> = row.syntax.split([',', '(', ')']).filter(|n| !n.is_empty()).collect();
    if names.len() != operands.len() {
        return None;
    }
    names.iter().zip(operands).try_fold(row.word, |word, (name, &operand)| {
        let sum = sum(name);
        let value = operand - sum.number;
        let &(field, at, width) = row.places.iter().find(|p| sum.fields.contains(&p.0))?;
        let low = if field == Field::I { -(1 << (width - 1)) } else { 0 };
        let fits = (low..1 << width).contains(&value);
        fits.then(|| word | (value as u32 & ones(width)) << at)
    })
}

/// Reads one line of the table.
fn row(line: &'static str) -> Row {
    let mut columns = line.split('|').map(str::trim);
    let mut column = || columns.next().expect("invariant: a row has five columns");
    let (mnemonic, bits, syntax, effects, code) =
        (column(), column(), column(), column(), column());
    let (mut at, mut word, mut mask) = (32, 0, 0);
    let mut places = Vec::new();
    for token in bits.split_whitespace() {
        if let Some((field, width)) = Field::named(token) {
            at -= width;
            places.push((field, at, width));
            continue;
        }
        let width = token.len() as u32;
        at -= width;
        word |= u32::from_str_radix(token, 2).expect("invariant: bits or a field") << at;
        mask |= ones(width) << at;
    }
    assert_eq!(at, 0, "{line}: not 32 bits");
    let (writes, reads) = effects.split_once('=').expect("invariant: written = read");
    let (writes, reads) = (accesses(writes), accesses(reads));
    Row { mnemonic, word, mask, code: parse_code(code), syntax, places, writes, reads }
}

fn ones(width: u32) -> u32 {
    ((1u64 << width) - 1) as u32
}

fn accesses(list: &str) -> Vec<Access> {
    let names = list.split(',').map(str::trim).filter(|n| !n.is_empty());
    names
        .map(|name| match name {
            "hi" => Access::Fixed(HI),
            "lo" => Access::Fixed(LO),
            "ra" => Access::Fixed(RA),
            _ => Access::Field(Field::named(name).expect("invariant: a field or a register").0),
        })
        .collect()
}

fn parse_code(text: &'static str) -> Code {
    let mut words = text.split_whitespace();
    let first = words.next().expect("invariant: code is not empty");
    if let Some(kind) = first.strip_prefix('*') {
        return Code::Special(kind, words.collect());
    }
    let row = la64::find(first).unwrap_or_else(|| panic!("{first} is no LA64 instruction"));
    Code::Plain(row, words.map(sum).collect())
}

fn sum(text: &str) -> Sum {
    let mut sum = Sum { fields: Vec::new(), number: 0 };
    for part in text.split('+') {
        match Field::named(part) {
            Some((field, _)) => sum.fields.push(field),
            None => sum.number += part.parse::<i64>().expect("invariant: a field or a number"),
        }
    }
    sum
}

impl Sum {
    /// The field, if the sum is one field alone.
    pub fn field(&self) -> Option<Field> {
        (self.number == 0 && self.fields.len() == 1).then(|| self.fields[0])
    }

    /// The value for an instruction.
    pub fn value(&self, inst: &Inst) -> i64 {
        self.number + self.fields.iter().map(|&f| inst.get(f)).sum::<i64>()
    }
}

impl Access {
    fn number(self, inst: &Inst) -> u8 {
        match self {
            Access::Fixed(number) => number,
            Access::Field(field) => {
                let value = inst.get(field) as u8;
                match field {
                    Field::Fs | Field::Ft | Field::Fd | Field::Fr => FPR + value,
                    Field::C => FCC + value,
                    _ => value,
                }
            }
        }
    }
}

impl Inst {
    /// Decodes `word` at the address `at`.
    pub fn decode(at: u64, word: u32) -> Option<Inst> {
        decode(word).map(|row| Inst { at, word, row })
    }

    /// The value of a field; 0 if the instruction has none of that name.
    pub fn get(&self, field: Field) -> i64 {
        let Some(&(_, lo, width)) = self.row.places.iter().find(|p| p.0 == field) else {
            return 0;
        };
        let raw = self.word >> lo & ones(width);
        if field == Field::I { i64::from(raw as u16 as i16) } else { i64::from(raw) }
    }

    /// The number of the register in a field.
    pub fn reg(&self, field: Field) -> u8 {
        self.get(field) as u8
    }

    /// The kind and the parameters of an instruction that is not plain.
    pub fn special(&self) -> Option<(&'static str, &'static [&'static str])> {
        match &self.row.code {
            Code::Special(kind, words) => Some((kind, words)),
            Code::Plain(..) => None,
        }
    }

    /// Whether the instruction is of this kind.
    pub fn is(&self, kind: &str) -> bool {
        self.special().is_some_and(|s| s.0 == kind)
    }

    /// Registers it writes. Register 0 is never among them.
    pub fn writes(&self) -> RegSet {
        let named = self.row.writes.iter().map(|a| a.number(self)).collect::<RegSet>().without(0);
        let writes_conditions = self.special().is_some_and(|s| s.0 == "ctc1");
        if writes_conditions { named.union((FCC..FCC + 8).collect()) } else { named }
    }

    /// Registers that must hold the guest's values before it: those it reads, and all if it may
    /// trap. HI and LO count as read only by traps that the program asks for.
    pub fn needs(&self) -> RegSet {
        let own = self.reads();
        match self.special().map(|s| s.0) {
            Some("load" | "store" | "linked" | "lwl" | "lwr" | "ldl" | "ldr" | "swl" | "swr")
            | Some("sdl" | "sdr" | "loadx" | "storex" | "aligned") => {
                own.union(RegSet::ALL.without(HI).without(LO))
            }
            _ if self.may_raise() && !mutant!("mips64_float_traps_need_nothing") => {
                own.union(RegSet::ALL.without(HI).without(LO))
            }
            Some("trap" | "trapi" | "addtrap" | "daddtrap" | "syscall" | "break" | "synci")
            | Some("ctc1") => RegSet::ALL,
            _ => own,
        }
    }

    /// Whether it is floating-point arithmetic, which traps where the program has asked for it.
    fn may_raise(&self) -> bool {
        let (opcode, format, function) = (self.word >> 26, self.word >> 21 & 31, self.word & 63);
        match opcode {
            // All but changes of the sign and moves.
            0x11 => format >= 16 && !matches!(function, 5..=7 | 0x11..=0x13),
            0x13 => function >= 0x20,
            _ => false,
        }
    }

    /// Whether it is an access of a floating-point register.
    pub fn is_float(&self) -> bool {
        self.row.mnemonic.ends_with("c1")
    }

    /// Registers it reads.
    pub fn reads(&self) -> RegSet {
        self.row.reads.iter().map(|a| a.number(self)).collect::<RegSet>().without(0)
    }

    /// Whether control does not go on to the next instruction: it has a delay slot.
    pub fn is_branch(&self) -> bool {
        matches!(self.special(), Some(("branch" | "bc1" | "j" | "jal" | "jr" | "jalr", _)))
    }

    /// Whether the delay slot is executed only if the branch is taken.
    pub fn is_likely(&self) -> bool {
        self.special().is_some_and(|s| s.1.contains(&"likely"))
    }

    /// Where a branch or jump to a fixed address leads.
    pub fn target(&self) -> Option<u64> {
        let next = self.at.wrapping_add(4);
        match self.special()?.0 {
            "branch" | "bc1" => Some(next.wrapping_add((self.get(Field::I) << 2) as u64)),
            "j" | "jal" => Some(next & !0x0fff_ffff | (self.get(Field::O) as u64) << 2),
            _ => None,
        }
    }

    /// The instruction as the manual writes it.
    pub fn text(&self) -> String {
        let mut out = String::from(self.row.mnemonic);
        if self.word == 0 {
            return "nop".into();
        }
        let mut separator = " ";
        for operand in self.row.syntax.split(',').filter(|o| !o.is_empty()) {
            out.push_str(separator);
            out.push_str(&self.operand(operand));
            separator = ", ";
        }
        out
    }

    fn operand(&self, name: &str) -> String {
        if let Some(inner) = name.strip_suffix(')')
            && let Some((offset, base)) = inner.split_once('(')
        {
            return format!("{}({})", self.operand(offset), self.operand(base));
        }
        let Some((field, _)) = Field::named(name) else {
            return sum(name).value(self).to_string();
        };
        let value = self.get(field);
        match field {
            Field::I | Field::O if self.target().is_some() => {
                format!("{:#x}", self.target().unwrap_or_default())
            }
            Field::S | Field::T | Field::D => format!("${value}"),
            Field::Fs | Field::Ft | Field::Fd | Field::Fr => format!("$f{value}"),
            Field::C => format!("$fcc{value}"),
            Field::U => format!("{value:#x}"),
            Field::A | Field::B | Field::H | Field::I | Field::O | Field::K => value.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_matches_two_rows() {
        for (n, a) in rows().iter().enumerate() {
            for b in &rows()[n + 1..] {
                let both = a.mask & b.mask;
                assert_ne!(a.word & both, b.word & both, "{} and {}", a.mnemonic, b.mnemonic);
            }
        }
    }

    #[test]
    fn instructions_read_as_the_manual_writes_them() {
        let known = [
            (0x0085_102d, "daddu $2, $4, $5"),
            (0x27bd_ffe0, "addiu $29, $29, -32"),
            (0x8fbf_001c, "lw $31, 28($29)"),
            (0x03e0_0008, "jr $31"),
            (0x1440_0003, "bne $2, $0, 0x1010"),
            (0x0c00_0400, "jal 0x1000"),
            (0x7c03_e83b, "rdhwr $3, $29"),
            (0x7ca2_f803, "dext $2, $5, 0, 32"),
            (0x0000_000c, "syscall 0"),
            (0x0000_0000, "nop"),
            (0x0062_001a, "div $3, $2"),
            (0x3c1c_0012, "lui $28, 18"),
            (0x3042_00ff, "andi $2, $2, 0xff"),
        ];
        for (word, text) in known {
            assert_eq!(Inst::decode(0x1000, word).expect(text).text(), text);
        }
        assert!(decode(0xffff_ffff).is_some_and(|r| r.mnemonic == "sd"));
        assert!(decode(0x0000_0005).is_none(), "lsa is release 6");
    }

    #[test]
    fn registers_read_and_written_are_known() {
        let add = Inst::decode(0, 0x0085_102d).expect("daddu");
        assert_eq!(add.writes(), [2].into_iter().collect());
        assert_eq!(add.reads(), [4, 5].into_iter().collect());
        let mult = Inst::decode(0, 0x0085_0018).expect("mult");
        assert_eq!(mult.writes(), [HI, LO].into_iter().collect());
        let nop = Inst::decode(0, 0).expect("nop");
        assert_eq!((nop.writes(), nop.reads()), (RegSet::default(), RegSet::default()));
        let (root, negated) = (Inst::decode(0, 0x4620_ead6).unwrap(), Inst::decode(0, 0x4620_eac7));
        assert!(root.needs().has(29) && !negated.unwrap().needs().has(29));
        let control = Inst::decode(0, 0x44c2_f800).unwrap();
        assert_eq!(control.writes(), (FCC..FCC + 8).collect(), "ctc1 $2, $31");
    }
}
