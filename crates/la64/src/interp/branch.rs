//! Branches, system calls, and what is fixed about an instruction when its block is decoded: its
//! absolute target and whether it ends the block.

use super::bind::Entry;
use super::{Cpu, Cursor, Exit, Trap};

/// Branch to the fixed target if f(rj, rd).
macro_rules! branch {
    ($f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u64, u64) -> bool = $f;
            if f(cpu.x(i.rj), cpu.x(i.rd)) { taken(cpu, i) } else { i.chain(cpu) }
        }
        run
    }};
}

#[inline(always)]
fn taken(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    i.leave(cpu, u64::from(i.index) + 1)
}

fn b(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    taken(cpu, i)
}

/// The address of the running instruction: `pc` still stands at the block's first one.
fn here(cpu: &Cpu, i: Cursor<'_>) -> u64 {
    cpu.state.pc + 4 * u64::from(i.index)
}

fn bl(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.state.x[1] = here(cpu, i) + 4;
    taken(cpu, i)
}

fn jirl(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let target = cpu.x(i.rj).wrapping_add(i.imm as u64);
    let link = here(cpu, i) + 4;
    cpu.set_x(i.to, link);
    cpu.state.pc = target;
    i.leave_indirect(cpu, u64::from(i.index) + 1)
}

fn bceqz(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let set = cpu.state.fcc[i.rj.number() & 7] != 0;
    if set { i.chain(cpu) } else { taken(cpu, i) }
}

fn bcnez(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let set = cpu.state.fcc[i.rj.number() & 7] != 0;
    if set { taken(cpu, i) } else { i.chain(cpu) }
}

/// `jiscr0` and `jiscr1`: to a scratch register plus offset; the latter leaves its own address in
/// the first scratch register.
fn jiscr<const N: usize>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    if N == 1 {
        cpu.state.lbt.scratch[0] = here(cpu, i);
    }
    cpu.state.pc = cpu.state.lbt.scratch[N].wrapping_add(i.imm as u64);
    i.leave_indirect(cpu, u64::from(i.index) + 1)
}

fn syscall(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.fault(i, Trap::Syscall)
}

fn break_(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.fault(i, Trap::Break(i.imm as u32))
}

fn ibar(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.fault(i, Trap::CodeChanged)
}

pub(super) static TABLE: &[Entry] = &[
    ("beq", branch!(|a, b| a == b)),
    ("bne", branch!(|a, b| a != b)),
    ("blt", branch!(|a, b| (a as i64) < b as i64)),
    ("bge", branch!(|a, b| a as i64 >= b as i64)),
    ("bltu", branch!(|a, b| a < b)),
    ("bgeu", branch!(|a, b| a >= b)),
    ("beqz", branch!(|a, _| a == 0)),
    ("bnez", branch!(|a, _| a != 0)),
    ("b", b),
    ("bl", bl),
    ("jirl", jirl),
    ("syscall", syscall),
    ("break", break_),
    ("dbcl", break_),
    ("ibar", ibar),
];

/// Branches on condition flags and scratch registers, listed with their groups.
pub(super) static FLAG_TABLE: &[Entry] = &[("bceqz", bceqz), ("bcnez", bcnez)];

/// LBT's jumps.
pub(super) static SCRATCH_TABLE: &[Entry] = &[("jiscr0", jiscr::<0>), ("jiscr1", jiscr::<1>)];

/// The immediate as the handler wants it, where that is not the operand itself: absolute targets of
/// direct branches and pc-relative forms, shifted constants.
pub(super) fn absolute(mnemonic: &str, pc: u64, imm: i64) -> Option<i64> {
    let relative = |offset: i64| pc.wrapping_add(offset as u64) as i64;
    Some(match mnemonic {
        "beq" | "bne" | "blt" | "bge" | "bltu" | "bgeu" | "beqz" | "bnez" | "b" | "bl" => {
            relative(imm)
        }
        "bceqz" | "bcnez" => relative(imm),
        "pcaddi" => relative(imm << 2),
        "pcaddu12i" => relative(imm << 12),
        "pcaddu18i" => relative(imm << 18),
        "pcalau12i" => relative(imm << 12) & !0xfff,
        "lu12i.w" => imm << 12,
        "addu16i.d" => imm << 16,
        "lu32i.d" => imm << 32,
        "lu52i.d" => imm << 52,
        _ => return None,
    })
}

/// True if control may leave the straight line at this instruction. Conditional branches do end
/// their block: what follows is the `Fall` successor.
pub(super) fn ends_block(mnemonic: &str) -> bool {
    let listed = |table: &[Entry]| table.iter().any(|e| e.0 == mnemonic);
    listed(TABLE) || listed(FLAG_TABLE) || listed(SCRATCH_TABLE)
}
