//! Random cases: single instructions of every executable row that needs no control flow, and blocks
//! of several with branches; operands and states with many corner values.
//!
//! In a block three registers keep their contents, so that its accesses and jumps stay where they
//! may: [`POINTER`], [`INDEX`] and [`CODE`]. Its branches go forward, at most to its end.

use super::{
    BASE, BATCH, CODE_AT, CODE_WORDS, Case, FCC_AT, FCSR_AT, RECORD_LEN, RECORDS, RETURN_AT,
    SCRATCH_AT, SCRATCH_LEN, SLOT_AT, V_AT, X_AT, runner,
};
use littoral_la64::isa::{self, FieldKind, Group, ROWS, Row};

/// Where calls leave the return address.
pub(super) const LINK: u32 = 1;
/// Stack pointer of the runner, left alone.
const SP: u32 = 3;
/// In a block: an address in the record's scratch bytes.
pub(super) const POINTER: u32 = 20;
/// In a block: a small number.
pub(super) const INDEX: u32 = 19;
/// In a block: its own address.
const CODE: u32 = 18;

/// What the cases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One instruction.
    Single,
    /// Two to [`CODE_WORDS`] instructions.
    Block,
    /// As `Block`, with all instructions that both tiers of this crate have.
    Tiers,
}

/// An endless sequence of cases.
pub struct Cases {
    seed: u64,
    shape: Shape,
    made: usize,
    /// Where a slot's code returns to.
    back: u64,
    rows: Vec<&'static Row>,
    branches: Vec<&'static Row>,
}

/// Rows that move control, read what differs between hosts, or depend on a link; and the
/// bound-checked
/// floating-point accesses, which QEMU 11 does at rj + rk where the manual says rj.
const LEFT_OUT: [&str; 37] = [
    "b",
    "bl",
    "jirl",
    "beq",
    "bne",
    "blt",
    "bge",
    "bltu",
    "bgeu",
    "beqz",
    "bnez",
    "bceqz",
    "bcnez",
    "syscall",
    "break",
    "dbcl",
    "ibar",
    "cpucfg",
    "rdtimel.w",
    "rdtimeh.w",
    "rdtime.d",
    "ll.w",
    "ll.d",
    "sc.w",
    "sc.d",
    "llacq.w",
    "llacq.d",
    "screl.w",
    "screl.d",
    "fldgt.s",
    "fldgt.d",
    "fldle.s",
    "fldle.d",
    "fstgt.s",
    "fstgt.d",
    "fstle.s",
    "fstle.d",
];

/// Branches of blocks.
const BRANCHES: [&str; 13] = [
    "b", "bl", "jirl", "beq", "bne", "blt", "bge", "bltu", "bgeu", "beqz", "bnez", "bceqz", "bcnez",
];

/// What a block leaves out besides: FCSR bits that do not exist would be read again, and an
/// enabled trap would end most blocks.
fn fits_block(row: &Row) -> bool {
    !row.stem().contains("fcsr")
}

/// Whether a row writes a floating-point register, which leaves bits 64 to 127 of it open.
pub(super) fn writes_scalar(row: &Row) -> bool {
    let to = row.fields.iter().find(|f| f.lo == 0);
    row.group == Group::Float && to.is_some_and(|f| f.kind == FieldKind::Fpr)
}

/// Whether bits 32 to 63 are open as well: it writes a single or a word.
pub(super) fn writes_narrow(row: &Row) -> bool {
    writes_scalar(row) && row.suffix().starts_with(['s', 'w'])
}

/// Whether a row reads no more than the low 32 bits of floating-point registers.
fn reads_narrow(row: &Row) -> bool {
    let wide = ["movfrh2gr.s", "fsel"].contains(&row.mnemonic);
    let written = ["fld.d", "fldx.d", "movgr2fr.d", "movcf2fr", "ffint.d.w", "ffint.s.w"];
    let narrow = row.suffix().ends_with('s') || written.contains(&row.mnemonic);
    !wide && (narrow || row.fields.iter().all(|f| f.kind != FieldKind::Fpr))
}

/// What stands in one block, so that none of it reads bits which another part leaves open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mix {
    /// Everything but vectors of this group.
    Without(Group),
    /// Vectors of this group, and no results in floating-point registers.
    Vectors(Group),
    /// No vectors, and neither singles nor words as results.
    Doubles,
    /// No vectors, and nothing that reads more than 32 bits of a floating-point register.
    Singles,
}

impl Mix {
    fn takes(self, row: &Row) -> bool {
        let vectors = [Group::Lsx, Group::Lasx].contains(&row.group);
        match self {
            Mix::Without(group) => row.group != group,
            Mix::Vectors(group) => row.group == group || !vectors && !writes_scalar(row),
            Mix::Doubles => !vectors && !writes_narrow(row),
            Mix::Singles => !vectors && reads_narrow(row),
        }
    }
}

/// What programs for two tiers are made of: no branches, which have places of their own, and no
/// jumps to where random registers point.
fn fits_tiers(row: &Row) -> bool {
    let jumps = BRANCHES.contains(&row.mnemonic) || row.stem().starts_with("jiscr");
    row.group != Group::System && !jumps
}

const SINGLES: [u32; 12] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc1_2345,
    0x7f80_0001,
    0x0000_0001,
    0x007f_ffff,
    0x7f7f_ffff,
];
const DOUBLES: [u64; 12] = [
    0,
    1 << 63,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff8_0000_1234_5678,
    0x7ff0_0000_0000_0001,
    1,
    0x000f_ffff_ffff_ffff,
    0x7fef_ffff_ffff_ffff,
];

impl Cases {
    /// Cases of all rows a differential run can take, from a seed.
    pub fn new(seed: u64, shape: Shape) -> Cases {
        let takes = |r: &&Row| match shape {
            Shape::Single => Self::takes(r),
            Shape::Block => Self::takes(r) && fits_block(r),
            Shape::Tiers => fits_tiers(r),
        };
        let rows = ROWS.iter().filter(takes).collect();
        let branches = ROWS.iter().filter(|r| BRANCHES.contains(&r.mnemonic)).collect();
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Cases { seed, shape, made: 0, back: runner::return_address(), rows, branches }
    }

    fn takes(row: &Row) -> bool {
        let group = !matches!(row.group, Group::System | Group::Lbt);
        group && !LEFT_OUT.contains(&row.mnemonic) && row.mnemonic != "sc.q"
    }

    fn next(&mut self) -> u64 {
        // splitmix64
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn value(&mut self) -> u64 {
        let r = self.next();
        match self.below(10) {
            0 => DOUBLES[(r % 12) as usize],
            1 => {
                u64::from(SINGLES[(r % 12) as usize]) << 32
                    | u64::from(SINGLES[(r / 12 % 12) as usize])
            }
            2 => r & 0xff,
            3 => (r as i8) as u64,
            4 => r >> (r & 63),
            5 => r & 0x8080_8080_8080_8080 | 0x7f7f_7f7f_7f7f_7f7f & !(r << 7),
            // Numbers of moderate exponent, so that arithmetic does not only overflow.
            6 => (r >> 12) | (0x3f0 + (r & 0x1f)) << 52,
            7 => r & 0x807f_ffff_807f_ffff | 0x3e80_0000_3e80_0000 | (r & 7) << 23 | (r & 56) << 52,
            _ => r,
        }
    }

    /// The next case.
    pub fn case(&mut self) -> Case {
        let mut case = self.state();
        let slot = case.word64(SLOT_AT);
        let code = match self.shape {
            Shape::Single => vec![self.single(&mut case)],
            Shape::Block | Shape::Tiers => self.block(&mut case),
        };
        self.made += 1;
        case.set64(0, code.len() as u64);
        // Register 0 may have been made to point somewhere, which is the slot's place.
        case.set64(SLOT_AT, slot);
        case.set64(RETURN_AT, self.back);
        let nop = isa::find("andi").expect("invariant: in the table").row().word;
        let filled = code.into_iter().chain(std::iter::repeat(nop)).take(CODE_WORDS);
        for (n, word) in filled.chain(runner::ending()).enumerate() {
            case.0[CODE_AT + 4 * n..CODE_AT + 4 * n + 4].copy_from_slice(&word.to_le_bytes());
        }
        case
    }

    /// A record without code.
    fn state(&mut self) -> Case {
        let mut case = Case([0; RECORD_LEN]);
        for n in 1..32 {
            let value = self.value();
            case.set64(X_AT + 8 * n, value);
        }
        for n in 0..128 {
            let value = self.value();
            case.set64(V_AT + 8 * n, value);
        }
        for n in 0..SCRATCH_LEN / 8 {
            let value = self.value();
            case.set64(SCRATCH_AT + 8 * n, value);
        }
        let flags = self.next();
        case.set64(FCC_AT, flags & 0x0101_0101_0101_0101);
        case.set64(FCSR_AT, self.next() & 0x1f1f_0300);
        let record = RECORDS + (self.made % BATCH * RECORD_LEN) as u64;
        case.set64(X_AT + 8 * BASE as usize, record);
        case.set64(X_AT + 8 * SP as usize, runner::STACK_TOP);
        case.set64(SLOT_AT, runner::slot_address(self.made));
        case
    }

    fn row(&mut self) -> &'static Row {
        let chosen = self.below(self.rows.len() as u64) as usize;
        self.rows[chosen]
    }

    /// A row of the base or scalar floating-point instructions.
    fn common_row(&mut self) -> &'static Row {
        loop {
            let row = self.row();
            if matches!(row.group, Group::Base | Group::Float) {
                return row;
            }
        }
    }

    /// A random word of a row that leaves the runner's registers alone.
    fn word(&mut self, row: &Row) -> u32 {
        let mut word = row.word | self.next() as u32 & !row.mask;
        for field in row.fields.iter().filter(|f| f.kind == FieldKind::Gpr) {
            let n = word >> field.lo & 31;
            if n == BASE || n == SP {
                word ^= 1 << field.lo;
            }
        }
        word
    }

    fn single(&mut self, case: &mut Case) -> u32 {
        let row = self.row();
        let word = self.word(row);
        // Which lanes a vector instruction has written when one of them traps is open.
        if row.group == Group::Float && self.below(4) == 0 {
            let traps = self.next() & 0x1f;
            case.set64(FCSR_AT, case.word64(FCSR_AT) | traps);
        }
        match accesses_memory(row) {
            true => self.point_at_scratch(row, word, case),
            false => word,
        }
    }

    /// A mix for one block.
    fn mix(&mut self) -> Mix {
        let group = [Group::Lsx, Group::Lasx][self.below(2) as usize];
        match self.shape {
            Shape::Tiers | Shape::Single => Mix::Without(group),
            Shape::Block => {
                [Mix::Vectors(group), Mix::Doubles, Mix::Singles][self.below(3) as usize]
            }
        }
    }

    /// A block of 128-bit or 256-bit vector instructions, never both, and of all others that may
    /// stand beside them.
    pub(super) fn block(&mut self, case: &mut Case) -> Vec<u32> {
        let pointer = case.address() + SCRATCH_AT as u64 + 32 + self.below(3) * 8;
        case.set64(X_AT + 8 * POINTER as usize, pointer);
        let index = self.below(4) * 8;
        case.set64(X_AT + 8 * INDEX as usize, index);
        case.set64(X_AT + 8 * CODE as usize, case.word64(SLOT_AT));
        let mix = self.mix();
        let len = 2 + self.below(CODE_WORDS as u64 - 1) as usize;
        let mut code = Vec::new();
        while code.len() < len {
            if self.below(4) == 0 {
                code.push(self.branch(code.len()));
                continue;
            }
            let row = match self.shape == Shape::Tiers && self.below(2) == 0 {
                true => self.common_row(),
                false => self.row(),
            };
            if mix.takes(row) {
                code.push(self.inner(row));
            }
        }
        code
    }

    /// A word of `row` for a block.
    fn inner(&mut self, row: &Row) -> u32 {
        let mut word = self.word(row);
        // A conditional store to the code itself, without `ibar`, may be seen late by either tier.
        let links = ["ll", "sc"].iter().any(|p| row.stem().starts_with(p));
        if accesses_memory(row) || self.shape == Shape::Tiers && links {
            word = word & !(31 << 5) | POINTER << 5;
            let indexed = row.stem().contains("ldx") || row.stem().contains("stx");
            let bound = ["gt", "le"].iter().any(|b| row.stem().ends_with(b));
            if indexed || bound {
                word = word & !(31 << 10) | INDEX << 10;
            }
            if let Some(f) = row.fields.iter().find(|f| f.is_immediate() && f.lo == 10) {
                word &= !(((1 << f.width) - 1) & !3) << 10 | 0x3ff;
            }
        }
        // These write rj too.
        if row.stem().starts_with("rdtime") && is_relied_on(word >> 5 & 31) {
            word ^= 8 << 5;
        }
        // Bits of the cause field may differ between tiers, so they are not read.
        if self.shape == Shape::Tiers && row.mnemonic == "movfcsr2gr" {
            word = word & !(31 << 5) | (1 + 2 * (word >> 5 & 1)) << 5;
        }
        steer_clear(word)
    }

    /// A branch at place `at` to a later place.
    fn branch(&mut self, at: usize) -> u32 {
        let chosen = self.below(self.branches.len() as u64) as usize;
        let row = self.branches[chosen];
        let to = at + 1 + self.below((CODE_WORDS - at) as u64) as usize;
        let mut operands: Vec<i64> = Vec::new();
        for field in row.fields {
            operands.push(match field.kind {
                FieldKind::Fcc => self.below(8) as i64,
                FieldKind::Gpr => [0, 4, 5, 12, 31][self.below(5) as usize],
                _ => 4 * (to - at) as i64,
            });
        }
        if row.mnemonic == "jirl" {
            let returns = self.shape == Shape::Tiers && self.below(2) == 0;
            operands = match returns {
                true => vec![0, LINK.into(), 0],
                false => vec![self.below(2) as i64, CODE.into(), 4 * to as i64],
            };
        }
        let id = isa::find(row.mnemonic).expect("invariant: in the table");
        isa::encode(id, &operands).expect("invariant: operands fit")
    }

    /// A branch from place `at` to the beginning, taken always or depending on a register.
    pub(super) fn back(&mut self, at: usize) -> u32 {
        let (name, register) = [("b", 0), ("bnez", 20), ("bnez", 5)][self.below(3) as usize];
        let offset = -4 * at as i64;
        let operands = if register == 0 { vec![offset] } else { vec![register, offset] };
        let id = isa::find(name).expect("invariant: in the table");
        isa::encode(id, &operands).expect("invariant: operands fit")
    }

    /// Makes register j (and k or the offset) address the record's scratch bytes.
    fn point_at_scratch(&mut self, row: &Row, word: u32, case: &mut Case) -> u32 {
        let mut word = word;
        let j = word >> 5 & 31;
        let k = word >> 10 & 31;
        let middle = case.address() + SCRATCH_AT as u64 + 32 + self.below(32);
        let aligned = if row.stem().starts_with("am") { middle & !7 } else { middle };
        if row.fields.iter().any(|f| f.is_immediate() && f.lo == 10 && f.width >= 8) {
            let offset = i64::from(row.immediate(word, 0));
            case.set64(X_AT + 8 * j as usize, aligned.wrapping_sub(offset as u64));
        } else if row.stem().contains("ldx") || row.stem().contains("stx") {
            // The index's register is another one than the base's, and not one of the runner's.
            let k = if [0, j, BASE, SP].contains(&k) { if j == 7 { 8 } else { 7 } } else { k };
            word = word & !(31 << 10) | k << 10;
            let index = self.below(64);
            case.set64(X_AT + 8 * k as usize, index);
            case.set64(X_AT + 8 * j as usize, aligned.wrapping_sub(index));
        } else {
            case.set64(X_AT + 8 * j as usize, aligned);
        }
        if j == 0 || j == BASE || j == SP {
            // Register 0 cannot point anywhere: take another word of the row.
            let moved = word & !(31 << 5) | 6 << 5;
            return self.point_at_scratch(row, if k == 6 { moved ^ 1 << 10 } else { moved }, case);
        }
        word
    }
}

/// The word with another register d where it would overwrite one that a block relies on.
fn steer_clear(word: u32) -> u32 {
    if is_relied_on(word & 31) { word ^ 8 } else { word }
}

/// Whether a block needs the contents of this register.
fn is_relied_on(register: u32) -> bool {
    [CODE, INDEX, POINTER].contains(&register)
}

fn accesses_memory(row: &Row) -> bool {
    let stem = row.stem().trim_start_matches(['x', 'v', 'f']);
    let atomic = row.stem().starts_with("am");
    let access = ["ld", "st"].iter().any(|p| stem.starts_with(p)) && stem != "ldi";
    access || atomic
}
