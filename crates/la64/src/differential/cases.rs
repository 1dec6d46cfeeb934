//! Random cases: every executable row that needs no control flow, operands and states with many
//! corner values.

use super::{
    Case, FCC_AT, FCSR_AT, RECORD_ADDRESS, RECORD_LEN, SCRATCH_AT, SCRATCH_LEN, V_AT, X_AT,
};
use crate::isa::{FieldKind, Group, ROWS, Row};

/// The register that holds the record's address in the runner.
pub(super) const BASE: u32 = 21;
/// Stack pointer of the runner, left alone.
const SP: u32 = 3;

/// An endless sequence of cases.
pub struct Cases {
    seed: u64,
    rows: Vec<&'static Row>,
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
    pub fn new(seed: u64) -> Cases {
        let rows = ROWS.iter().filter(|r| Self::takes(r)).collect();
        Cases { seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, rows }
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

    fn below(&mut self, n: u64) -> u64 {
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
        let count = self.rows.len() as u64;
        let chosen = self.below(count) as usize;
        let row = self.rows[chosen];
        let mut case = Case([0; RECORD_LEN]);
        let mut word = row.word | self.next() as u32 & !row.mask;
        for field in row.fields.iter().filter(|f| f.kind == FieldKind::Gpr) {
            let n = word >> field.lo & 31;
            if n == BASE || n == SP {
                word ^= 1 << field.lo;
            }
        }
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
        case.set64(X_AT + 8 * BASE as usize, RECORD_ADDRESS);
        case.set64(X_AT + 8 * SP as usize, super::runner::STACK_TOP);
        if accesses_memory(row) {
            word = self.point_at_scratch(row, word, &mut case);
        }
        case.set64(0, u64::from(word));
        case
    }

    /// Makes register j (and k or the offset) address the record's scratch bytes.
    fn point_at_scratch(&mut self, row: &Row, word: u32, case: &mut Case) -> u32 {
        let mut word = word;
        let j = word >> 5 & 31;
        let k = word >> 10 & 31;
        let middle = RECORD_ADDRESS + SCRATCH_AT as u64 + 32 + self.below(32);
        let aligned = if row.stem().starts_with("am") { middle & !7 } else { middle };
        if row.fields.iter().any(|f| f.is_immediate() && f.lo == 10 && f.width >= 8) {
            let offset = i64::from(row.immediate(word, 0));
            case.set64(X_AT + 8 * j as usize, aligned.wrapping_sub(offset as u64));
        } else if row.stem().contains("ldx") || row.stem().contains("stx") {
            if k == j {
                word ^= 1 << 10;
            }
            let k = (word >> 10 & 31) as usize;
            let index = if k == 0 || k as u32 == BASE || k as u32 == SP {
                case.word64(X_AT + 8 * k)
            } else {
                self.below(64)
            };
            case.set64(X_AT + 8 * k, if k == 0 { 0 } else { index });
            let index = if k == 0 { 0 } else { index };
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

fn accesses_memory(row: &Row) -> bool {
    let stem = row.stem().trim_start_matches(['x', 'v', 'f']);
    let atomic = row.stem().starts_with("am");
    let access = ["ld", "st"].iter().any(|p| stem.starts_with(p)) && stem != "ldi";
    access || atomic
}
