//! Branches and system calls, and where control goes from an instruction.

use super::operation::{Entry, Last};
use super::{Cpu, Cursor, Exit, Trap};

/// Branches to the fixed target if f(rj, rd), each a type of its own (see `pairs`).
macro_rules! branches {
    ($($name:ident = $f:expr;)*) => {
        $(
            #[doc = stringify!($name)]
            pub(super) struct $name;
            impl Last for $name {
                #[inline(always)]
                fn finish(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
                    let f: fn(u64, u64) -> bool = $f;
                    if f(cpu.x(i.rj), cpu.x(i.rd)) { i.leave(cpu) } else { i.chain(cpu) }
                }
            }
        )*
    };
}

branches! {
    Beq = |a, b| a == b;
    Bne = |a, b| a != b;
    Blt = |a, b| (a as i64) < b as i64;
    Bge = |a, b| a as i64 >= b as i64;
    Bltu = |a, b| a < b;
    Bgeu = |a, b| a >= b;
    Beqz = |a, _| a == 0;
    Bnez = |a, _| a != 0;
    B = |_, _| true;
}

fn bl(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.state.x[1] = i.pc_behind_block();
    i.leave(cpu)
}

fn jirl(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let target = cpu.x(i.rj).wrapping_add(i.imm as u64);
    cpu.set_x(i.to, i.pc_behind_block());
    i.leave_for(cpu, target)
}

/// `jirl` to the address in ra, without offset and link.
pub(super) struct Return;

impl Last for Return {
    #[inline(always)]
    fn finish(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
        let target = cpu.state.x[1];
        i.leave_for(cpu, target)
    }
}

fn bceqz(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let set = cpu.state.fcc[i.rj.number() & 7] != 0;
    if set { i.chain(cpu) } else { i.leave(cpu) }
}

fn bcnez(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let set = cpu.state.fcc[i.rj.number() & 7] != 0;
    if set { i.leave(cpu) } else { i.chain(cpu) }
}

/// `jiscr0` and `jiscr1`: to a scratch register plus offset; the latter leaves its own address in
/// the first scratch register.
fn jiscr<const N: usize>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    if N == 1 {
        cpu.state.lbt.scratch[0] = i.pc();
    }
    let target = cpu.state.lbt.scratch[N].wrapping_add(i.imm as u64);
    i.leave_for(cpu, target)
}

fn syscall(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.fault(i, Trap::Syscall)
}

fn break_(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.fault(i, Trap::Break(i.imm as u32))
}

/// Blocks that may be stale compare themselves when they are entered next (see `epoch`).
fn ibar(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.epoch.advance();
    i.leave(cpu)
}

pub(super) static TABLE: &[Entry] = &[
    ("beq", Beq::finish),
    ("bne", Bne::finish),
    ("blt", Blt::finish),
    ("bge", Bge::finish),
    ("bltu", Bltu::finish),
    ("bgeu", Bgeu::finish),
    ("beqz", Beqz::finish),
    ("bnez", Bnez::finish),
    ("b", B::finish),
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

/// Where control goes from an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// To the next one.
    Straight,
    /// To the next one or the fixed target.
    Conditional,
    /// To the fixed target.
    Direct,
    /// Elsewhere.
    End,
}

/// Where control goes from an instruction of this name.
pub(super) fn flow(mnemonic: &str) -> Flow {
    let listed = |table: &[Entry]| table.iter().any(|e| e.0 == mnemonic);
    match mnemonic {
        "b" | "bl" | "ibar" => Flow::Direct,
        "jirl" | "syscall" | "break" | "dbcl" => Flow::End,
        _ if listed(SCRATCH_TABLE) => Flow::End,
        _ if listed(TABLE) || listed(FLAG_TABLE) => Flow::Conditional,
        _ => Flow::Straight,
    }
}
