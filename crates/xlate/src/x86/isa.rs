//! The instruction table of x86-64.
//!
//! The table is `rows.txt`, in a layout of our own; opcodes and flags are facts of the
//! architecture's manuals. It is read once, at the first use. A row says how the instruction is
//! encoded, what its operands are, which prefixes it takes and which flags it reads, writes and
//! leaves undefined.
//!
//! Invariants
//! - Of two rows with one opcode, a ModRM byte and prefixes choose one. Checked by
//!   `no_two_rows_have_the_same_encoding`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Sets of flags, one bit each, in the order of `x86mfflag`'s mask.
pub mod flag {
    /// Carry.
    pub const C: u8 = 1;
    /// Parity of the lowest byte.
    pub const P: u8 = 2;
    /// Carry out of the lowest four bits.
    pub const A: u8 = 4;
    /// Zero.
    pub const Z: u8 = 8;
    /// Sign.
    pub const S: u8 = 16;
    /// Overflow.
    pub const O: u8 = 32;
    /// All of them.
    pub const ALL: u8 = 63;
    /// Places in RFLAGS, in the order of the bits.
    pub const PLACES: [u8; 6] = [0, 2, 4, 6, 7, 11];
}

/// Names of the sixteen conditions, in the order of their codes.
pub const CONDITIONS: [&str; 16] =
    ["o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g"];

/// The flags that a condition reads.
pub const fn condition_reads(condition: u8) -> u8 {
    use flag::{C, O, P, S, Z};
    [O, C, Z, C | Z, S, P, S | O, S | O | Z][(condition >> 1) as usize & 7]
}

/// What kind of operand a row names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Register or memory, by the ModRM byte.
    E,
    /// Register, by the middle field of the ModRM byte.
    G,
    /// Memory, by the ModRM byte.
    M,
    /// Register, by the low bits of the opcode.
    Z,
    /// Immediate.
    I,
    /// Distance of a branch.
    J,
    /// Memory at an absolute address.
    O,
    /// The string at rsi.
    X,
    /// The string at rdi.
    Y,
    /// The accumulator.
    A,
    /// cl.
    C,
    /// The number one.
    One,
    /// Vector register, by the middle field of the ModRM byte.
    V,
    /// Vector register or memory, by the ModRM byte.
    W,
    /// MMX register, by the middle field of the ModRM byte.
    P,
    /// MMX register or memory, by the ModRM byte.
    Q,
}

/// How wide an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// So many bytes.
    Bytes(u8),
    /// The operand size.
    V,
    /// The operand size, at most 4 bytes.
    Z,
    /// 8 bytes with REX.W, else 4.
    Y,
    /// 16 bytes with REX.W, else 8.
    X,
    /// A byte, extended with its sign to the operand size.
    S,
    /// The environment of x87: 14 bytes with an operand size of 2, else 28.
    Env,
    /// The same with the registers of x87.
    Saved,
}

/// An operand of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its kind.
    pub form: Form,
    /// Its width.
    pub width: Width,
}

/// A prefix that selects a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// None of 66, F2, F3.
    Plain,
    /// 66.
    Size,
    /// F2.
    Repne,
    /// F3.
    Rep,
}

/// Tables of opcodes: [`Row::map`] is less.
const MAPS: usize = 4;

/// What a ModRM byte must name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Either.
    Any,
    /// A register.
    Register,
    /// Memory.
    Memory,
}

/// Flags that an instruction reads, writes and leaves undefined. Undefined ones count as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Read.
    pub reads: u8,
    /// Written with a result.
    pub writes: u8,
    /// Left undefined.
    pub undefined: u8,
}

/// One instruction of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name; with its condition, if it has one.
    pub name: String,
    /// Name without the condition.
    pub stem: &'static str,
    /// Code of the condition.
    pub condition: Option<u8>,
    /// 0 for one-byte opcodes, 1 for those behind 0F, 2 behind 0F 38, 3 behind 0F 3A.
    pub map: u8,
    /// The opcode's last byte.
    pub opcode: u8,
    /// The prefix that selects the row.
    pub selector: Option<Selector>,
    /// Middle field of the ModRM byte.
    pub middle: Option<u8>,
    /// Low field of the ModRM byte.
    pub low: Option<u8>,
    /// What the ModRM byte names.
    pub names: Names,
    /// Operands, destination first.
    pub operands: Vec<Template>,
    /// Whether LOCK is allowed where the destination is memory.
    pub lock: bool,
    /// Whether it is a string instruction.
    pub string: bool,
    /// Whether the operand size is 8 bytes unless 66 makes it 2.
    pub default_8: bool,
    /// Whether the operand size is 8 bytes.
    pub always_8: bool,
    /// Whether only the system may execute it.
    pub privileged: bool,
    /// Whether 16 bytes of memory need not be aligned.
    pub unaligned: bool,
    /// Whether it may raise a floating-point exception.
    pub float: bool,
    /// Whether it is one of x87.
    pub x87: bool,
    /// Whether it is one of MMX, or names a register of MMX.
    pub mmx: bool,
    /// Flags.
    pub flags: Flags,
    /// What its name tells.
    pub traits: Traits,
}

/// What the name of an instruction tells: found once, because the translator asks it of each
/// instruction that it meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It is a conditional branch.
    pub conditional: bool,
    /// A block ends at it.
    pub flow: bool,
    /// It names memory and does not access it.
    pub names_only: bool,
    /// It accesses memory that no operand names, or raises an exception by itself.
    pub faults: bool,
    /// All flags must be exact before it, whatever it reads itself.
    pub shows_flags: bool,
    /// It shifts or rotates.
    pub shifts: bool,
    /// It always runs outside translated code.
    pub assisted: bool,
    /// It is arithmetic of vector registers with operands or results that may be denormal.
    pub meets_denormals: bool,
    /// It compares strings and writes rcx, which no operand names.
    pub gives_place: bool,
}

/// Vector instructions that run outside translated code.
pub const ASSISTED: [&str; 12] = [
    "ldmxcsr",
    "stmxcsr",
    "fxsave",
    "fxrstor",
    "maskmovdqu",
    "rcpps",
    "rcpss",
    "rsqrtps",
    "rsqrtss",
    "pcmpestri",
    "pcmpestrm",
    "pcmpistrm",
];

impl Traits {
    fn of(row: &Row) -> Traits {
        /// Branches that count rcx.
        const COUNTING: [&str; 4] = ["loop", "loope", "loopne", "jrcxz"];
        const STACK: [&str; 8] = ["push", "pop", "pushf", "popf", "enter", "leave", "call", "ret"];
        const RAISE: [&str; 8] = ["div", "idiv", "int", "int1", "int3", "ud2", "ud1", "ud0"];
        const SHOW: [&str; 7] = ["syscall", "int", "int1", "int3", "ud0", "ud1", "ud2"];
        const SHIFTS: [&str; 9] = ["shl", "shr", "sar", "shld", "shrd", "rol", "ror", "rcl", "rcr"];
        let is_one = |names: &[&str]| names.contains(&row.stem);
        let conditional = row.stem == "j" || is_one(&COUNTING);
        let of_integers = is_one(&["cvtsi2ss", "cvtsi2sd", "cvtdq2ps"]);
        let raises = is_one(&RAISE) || row.privileged || row.float || row.x87 || row.mmx;
        Traits {
            conditional,
            flow: conditional || is_one(&["jmp", "call", "ret"]),
            names_only: is_one(&["lea", "nop"]),
            faults: raises || is_one(&STACK) || is_one(&["xlat", "maskmovdqu"]),
            shows_flags: is_one(&SHOW) || row.privileged,
            shifts: is_one(&SHIFTS),
            assisted: row.x87 || row.mmx || row.stem == "cpuid" || is_one(&ASSISTED),
            meets_denormals: row.float && !row.mmx && !of_integers,
            gives_place: is_one(&["pcmpistri", "pcmpestri"]),
        }
    }
}

impl Row {
    /// The bytes before the opcode's last.
    pub const fn escape(&self) -> &'static [u8] {
        match self.map {
            0 => &[],
            1 => &[0x0f],
            2 => &[0x0f, 0x38],
            _ => &[0x0f, 0x3a],
        }
    }

    /// Whether the encoding has a ModRM byte.
    pub fn has_modrm(&self) -> bool {
        let by_operand = |t: &Template| {
            let is_general = matches!(t.form, Form::E | Form::G | Form::M);
            is_general || matches!(t.form, Form::V | Form::W | Form::P | Form::Q)
        };
        self.middle.is_some() || self.names != Names::Any || self.operands.iter().any(by_operand)
    }

    /// Whether the low bits of the opcode name a register.
    fn has_register(&self) -> bool {
        self.operands.iter().any(|t| t.form == Form::Z)
    }

    /// How many conditions an encoding must meet.
    fn specificity(&self) -> usize {
        let conditions = [
            self.selector.is_some(),
            self.middle.is_some(),
            self.names != Names::Any,
            self.low.is_some(),
        ];
        conditions.iter().filter(|&&c| c).count()
    }
}

struct Table {
    rows: Vec<Row>,
    /// Rows by map and opcode, those with most conditions first.
    places: Vec<Vec<usize>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let text = include_str!("rows.txt");
    let lines = || text.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    let (flags, rows): (Vec<_>, Vec<_>) = lines().partition(|l| l.starts_with("flags "));
    let mut rows: Vec<Row> = rows.into_iter().flat_map(family).collect();
    let mut flags_of = BTreeMap::new();
    for line in flags {
        let words: Vec<&'static str> = line.split(' ').collect();
        let [_, names, reads, writes, undefined] = words[..] else { malformed(line) };
        let [reads, writes, undefined] = [reads, writes, undefined].map(set);
        flags_of.extend(names.split(',').map(|name| (name, Flags { reads, writes, undefined })));
    }
    for row in &mut rows {
        row.flags = flags_of.get(row.stem).copied().unwrap_or(row.flags);
        row.traits = Traits::of(row);
    }
    let mut places = vec![Vec::new(); 256 * MAPS];
    for (n, row) in rows.iter().enumerate() {
        let span = if row.has_register() { 8 } else { 1 };
        for opcode in usize::from(row.opcode)..usize::from(row.opcode) + span {
            places[usize::from(row.map) << 8 | opcode].push(n);
        }
    }
    for place in &mut places {
        place.sort_by_key(|&n| std::cmp::Reverse(rows[n].specificity()));
    }
    Table { rows, places }
});

/// Every row.
pub fn rows() -> &'static [Row] {
    &TABLE.rows
}

/// The rows of an opcode, those with most conditions first.
pub fn candidates(map: u8, opcode: u8) -> impl Iterator<Item = &'static Row> + Clone {
    TABLE.places[usize::from(map) << 8 | usize::from(opcode)].iter().map(|&n| &TABLE.rows[n])
}

fn malformed(line: &str) -> ! {
    panic!("malformed row: {line}")
}

fn set(letters: &str) -> u8 {
    letters.chars().filter_map(|c| "cpazso".find(c)).fold(0, |set, n| set | 1 << n)
}

/// The rows of one line.
fn family(line: &'static str) -> Vec<Row> {
    let words: Vec<&'static str> = line.split(' ').collect();
    let [opcode, step, names, operands, ref attributes @ ..] = words[..] else { malformed(line) };
    let first = head(opcode, operands, attributes);
    let names = names.split(',').enumerate().filter(|(_, name)| *name != "-");
    let rows = names.flat_map(|(n, name)| {
        let mut row = Row { stem: name.trim_end_matches('*'), ..first.clone() };
        let by = step.get(1..).and_then(|by| by.parse::<u8>().ok()).unwrap_or(0) * n as u8;
        match step.as_bytes()[0] {
            b'+' => row.opcode += by,
            b'/' => row.middle = row.middle.map(|m| m + by),
            _ => assert_eq!(n, 0, "malformed row: {line}"),
        }
        with_conditions(row, name.ends_with('*'))
    });
    rows.collect()
}

fn with_conditions(row: Row, has_conditions: bool) -> Vec<Row> {
    let condition = |n: u8| Row {
        name: format!("{}{}", row.stem, CONDITIONS[usize::from(n)]),
        opcode: row.opcode + n,
        condition: Some(n),
        flags: Flags { reads: condition_reads(n), ..Flags::default() },
        ..row.clone()
    };
    match has_conditions {
        true => (0..16).map(condition).collect(),
        false => vec![Row { name: row.stem.into(), ..row }],
    }
}

/// A line's encoding, operands and attributes.
fn head(opcode: &'static str, operands: &'static str, attributes: &[&'static str]) -> Row {
    let (mut rest, mut row) = (opcode, empty());
    for (prefix, selector) in [
        ("np", Selector::Plain),
        ("66", Selector::Size),
        ("f20f", Selector::Repne),
        ("f30f", Selector::Rep),
        ("f390", Selector::Rep),
    ] {
        if let Some(tail) = rest.strip_prefix(&prefix[..2]).filter(|_| rest.starts_with(prefix)) {
            (row.selector, rest) = (Some(selector), tail);
            break;
        }
    }
    if let Some(tail) = rest.strip_prefix("0f").filter(|tail| !tail.is_empty()) {
        (row.map, rest) = (1, tail);
        for (map, escape) in [(2, "38"), (3, "3a")] {
            if let Some(tail) = rest.strip_prefix(escape) {
                (row.map, rest) = (map, tail);
                break;
            }
        }
    }
    row.opcode = u8::from_str_radix(&rest[..2], 16).unwrap_or_else(|_| malformed(opcode));
    for part in rest[2..].split_inclusive([':', '/']).collect::<Vec<_>>().windows(2) {
        let value = part[1].trim_end_matches([':', '/']);
        match (part[0].ends_with('/'), value) {
            (true, digit) => row.middle = digit.parse().ok(),
            (false, "r") => row.names = Names::Register,
            (false, "m") => row.names = Names::Memory,
            (false, digit) => row.low = digit.parse().ok(),
        }
    }
    row.operands = operands.split(',').filter(|o| *o != "-").map(template).collect();
    row.lock = attributes.contains(&"lock");
    row.string = attributes.contains(&"rep");
    row.default_8 = attributes.contains(&"d64");
    row.always_8 = attributes.contains(&"f64");
    row.privileged = attributes.contains(&"priv");
    row.unaligned = attributes.contains(&"un");
    row.float = attributes.contains(&"float");
    row.x87 = attributes.contains(&"x87");
    let has_mmx = row.operands.iter().any(|t| matches!(t.form, Form::P | Form::Q));
    row.mmx = has_mmx || attributes.contains(&"mmx");
    row
}

fn empty() -> Row {
    Row {
        name: String::new(),
        stem: "",
        condition: None,
        map: 0,
        opcode: 0,
        selector: None,
        middle: None,
        low: None,
        names: Names::Any,
        operands: Vec::new(),
        lock: false,
        string: false,
        default_8: false,
        always_8: false,
        privileged: false,
        unaligned: false,
        float: false,
        x87: false,
        mmx: false,
        flags: Flags::default(),
        traits: Traits::default(),
    }
}

fn template(text: &'static str) -> Template {
    let form = match &text[..1] {
        "E" => Form::E,
        "G" => Form::G,
        "M" => Form::M,
        "Z" => Form::Z,
        "I" => Form::I,
        "J" => Form::J,
        "O" => Form::O,
        "X" => Form::X,
        "Y" => Form::Y,
        "A" => Form::A,
        "C" => Form::C,
        "1" => Form::One,
        "V" => Form::V,
        "W" => Form::W,
        "P" => Form::P,
        "Q" => Form::Q,
        _ => malformed(text),
    };
    let width = match &text[1..] {
        // lea computes an address of any width; cl and the number one are bytes.
        "" | "b" => Width::Bytes(1),
        "w" => Width::Bytes(2),
        "d" => Width::Bytes(4),
        "q" => Width::Bytes(8),
        "o" => Width::Bytes(16),
        "v" => Width::V,
        "z" => Width::Z,
        "y" => Width::Y,
        "x" => Width::X,
        "s" => Width::S,
        "t" => Width::Bytes(10),
        "e" => Width::Env,
        "f" => Width::Saved,
        _ => malformed(text),
    };
    Template { form, width }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_have_the_same_encoding() {
        let key = |r: &Row| (r.selector, r.middle, r.low, r.names);
        for place in 0..256 * MAPS as u16 {
            let rows: Vec<_> = candidates((place >> 8) as u8, place as u8).collect();
            for (n, a) in rows.iter().enumerate() {
                for b in &rows[n + 1..] {
                    assert_ne!(key(a), key(b), "{} and {} at {place:#x}", a.name, b.name);
                }
            }
        }
        assert!(rows().len() > 300, "{}", rows().len());
    }

    #[test]
    fn rows_say_what_the_manual_says() {
        let find = |name| rows().iter().find(|r| r.name == name).expect("a row");
        let jle = find("jle");
        assert_eq!((jle.opcode, jle.stem, jle.condition), (0x7e, "j", Some(14)));
        assert_eq!(jle.flags.reads, flag::Z | flag::S | flag::O);
        let sbb = find("sbb");
        assert_eq!((sbb.opcode, sbb.flags.reads, sbb.flags.writes), (0x18, flag::C, flag::ALL));
        let lfence = find("lfence");
        assert_eq!((lfence.map, lfence.middle, lfence.names), (1, Some(5), Names::Register));
        assert_eq!(find("endbr64").low, Some(2));
        assert_eq!(find("endbr64").selector, Some(Selector::Rep));
    }
}
