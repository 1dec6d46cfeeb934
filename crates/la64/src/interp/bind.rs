//! From a row of the instruction table to its semantic function.
//!
//! Invariant: every row that is not privileged has exactly one handler. Checked by
//! `every_unprivileged_row_has_a_handler`.

use super::operation::Entry;
use super::{Handler, atomic, branch, floating, integer, lbt, memory, vector};
use crate::isa::{Group, Row};

/// The handler of a row; `None` for rows user mode never executes.
pub(super) fn handler(row: &Row) -> Option<Handler> {
    let scalar = |tables: &[&[Entry]]| {
        tables.iter().copied().flatten().find(|e| e.0 == row.mnemonic).map(|e| e.1)
    };
    match row.group {
        Group::Base => scalar(&[integer::TABLE, memory::TABLE, atomic::TABLE, branch::TABLE]),
        Group::Float => scalar(&[
            floating::TABLE,
            floating::SINGLE_TABLE,
            floating::DOUBLE_TABLE,
            floating::COMPARE_TABLE,
            memory::FLOAT_TABLE,
            branch::FLAG_TABLE,
        ]),
        Group::Lbt => scalar(&[
            lbt::TABLE,
            lbt::X86_TABLE,
            lbt::ARM_TABLE,
            lbt::VALUE_TABLE,
            memory::PART_TABLE,
            branch::SCRATCH_TABLE,
        ]),
        Group::Lsx => vector::find(row.mnemonic).map(|h| h[0]),
        Group::Lasx => vector::find_wide(row.mnemonic),
        Group::System => None,
    }
}

/// The first immediate as the handler wants it, from (word, pc, immediate).
pub(super) type Adjust = fn(u32, u64, i64) -> i64;

fn relative(pc: u64, offset: i64) -> i64 {
    pc.wrapping_add(offset as u64) as i64
}

/// The number of a lane among all lanes of its width in the register file.
fn lane<const LANES: i64>(word: u32, _: u64, imm: i64) -> i64 {
    i64::from(word & 31) * LANES + imm
}

/// What the first immediate becomes when an instruction is decoded: absolute targets of direct
/// branches (`ibar` leads to the next instruction) and pc-relative forms, shifted constants, lane
/// numbers.
pub(super) fn adjust(mnemonic: &str) -> Adjust {
    match mnemonic {
        "beq" | "bne" | "blt" | "bge" | "bltu" | "bgeu" | "beqz" | "bnez" | "b" | "bl"
        | "bceqz" | "bcnez" => |_, pc, imm| relative(pc, imm),
        "ibar" => |_, pc, _| relative(pc, 4),
        "pcaddi" => |_, pc, imm| relative(pc, imm << 2),
        "pcaddu12i" => |_, pc, imm| relative(pc, imm << 12),
        "pcaddu18i" => |_, pc, imm| relative(pc, imm << 18),
        "pcalau12i" => |_, pc, imm| relative(pc, imm << 12) & !0xfff,
        "lu12i.w" => |_, _, imm| imm << 12,
        "addu16i.d" => |_, _, imm| imm << 16,
        "lu32i.d" => |_, _, imm| imm << 32,
        "lu52i.d" => |_, _, imm| imm << 52,
        "vinsgr2vr.w" | "xvinsgr2vr.w" => lane::<8>,
        "vinsgr2vr.d" | "xvinsgr2vr.d" => lane::<4>,
        _ => |_, _, imm| imm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::ROWS;

    #[test]
    fn every_unprivileged_row_has_a_handler() {
        let missing: Vec<_> = ROWS
            .iter()
            .filter(|r| r.group != Group::System && handler(r).is_none())
            .map(|r| r.mnemonic)
            .collect();
        assert!(missing.is_empty(), "{} rows without code: {missing:?}", missing.len());
    }
}
