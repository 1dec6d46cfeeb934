//! Differential testing: random instructions in random states, run by the interpreter and by
//! another implementation of LoongArch (QEMU), compared bit by bit.
//!
//! The other side runs one static program, [`runner::program`], made with our own encoder: it reads
//! [`Case`] records, executes the word of each in the record's state, and writes the record back.
//! So 10^5 words cost one process.
//!
//! Invariants
//! - The same seed gives the same cases.
//! - A word that traps leaves its record as it was except for the mark, on both sides.

mod cases;
pub mod runner;

pub use cases::Cases;

use crate::interp::{Cache, Cpu, Features, Fetch, Trap};
use crate::isa;
use crate::memory::Memory;
use std::collections::BTreeMap;

/// Bytes of a record.
pub const RECORD_LEN: usize = 1472;
/// Places in a record.
pub(crate) const X_AT: usize = 8;
pub(crate) const V_AT: usize = 288;
pub(crate) const FCC_AT: usize = 1312;
pub(crate) const FCSR_AT: usize = 1320;
pub(crate) const MARK_AT: usize = 1328;
pub(crate) const SCRATCH_AT: usize = 1344;
pub(crate) const SCRATCH_LEN: usize = 128;
/// Guest address of the record while it runs, the same on both sides.
pub(crate) const RECORD_ADDRESS: u64 = 0x1_8000;

/// One instruction in one state, before or after.
#[derive(Clone, PartialEq, Eq)]
pub struct Case(pub [u8; RECORD_LEN]);

impl Case {
    pub(crate) fn word64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("invariant: 8 bytes"))
    }

    pub(crate) fn set64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// The instruction.
    pub fn instruction(&self) -> u32 {
        self.word64(0) as u32
    }
}

/// Executes a case by the interpreter.
pub struct Ours {
    memory: Memory,
    slot: u64,
    cpu: Cpu,
}

struct Anywhere;

impl Fetch for Anywhere {
    fn fetch(&self, cpu: &Cpu, pc: u64) -> Option<u32> {
        cpu.window.load(pc)
    }
}

impl Default for Ours {
    fn default() -> Self {
        let memory = Memory::new(0x2_0000);
        let cpu = Cpu::new(memory.window(), Features::ALL);
        Ours { memory, slot: runner::slot_address(), cpu }
    }
}

impl Ours {
    /// The record after its instruction.
    pub fn execute(&mut self, cache: &mut Cache, case: &Case) -> Case {
        let window = self.memory.window();
        let store = |at: u64, bytes: &[u8]| window.write(at, bytes).expect("invariant: inside");
        store(RECORD_ADDRESS, &case.0);
        store(self.slot, &case.instruction().to_le_bytes());
        self.load(case);
        let trap = cache.step(&mut self.cpu, &Anywhere);
        let mut after = case.clone();
        window.read(RECORD_ADDRESS, &mut after.0).expect("invariant: inside");
        if matches!(trap, Trap::OutOfBudget) {
            self.save(&mut after);
        } else {
            after.set64(MARK_AT, signal_of(trap));
        }
        after
    }

    fn load(&mut self, case: &Case) {
        let state = &mut self.cpu.state;
        *state = crate::state::State::default();
        state.pc = self.slot;
        for n in 1..32 {
            state.x[n] = case.word64(X_AT + 8 * n);
        }
        for (n, v) in state.v.iter_mut().enumerate() {
            v.0 = std::array::from_fn(|lane| case.word64(V_AT + 32 * n + 8 * lane));
        }
        state.fcc = case.word64(FCC_AT).to_le_bytes();
        state.fcsr = case.word64(FCSR_AT) as u32;
    }

    fn save(&self, case: &mut Case) {
        let state = &self.cpu.state;
        for n in 1..32 {
            case.set64(X_AT + 8 * n, state.x[n]);
        }
        for (n, v) in state.v.iter().enumerate() {
            for (lane, &word) in v.0.iter().enumerate() {
                case.set64(V_AT + 32 * n + 8 * lane, word);
            }
        }
        case.set64(FCC_AT, u64::from_le_bytes(state.fcc));
        case.set64(FCSR_AT, state.fcsr.into());
    }
}

/// The number of the signal QEMU gives for a trap.
fn signal_of(trap: Trap) -> u64 {
    match trap {
        Trap::Illegal(_) => 4,
        Trap::Unaligned(_) => 7,
        Trap::Float => 8,
        // QEMU raises SIGSYS for a failed bound check, where Linux raises SIGSEGV.
        Trap::Bound(_) => 31,
        _ => 11,
    }
}

/// What differed, by mnemonic: how often and the first case.
#[derive(Default)]
pub struct Report {
    /// Cases compared.
    pub compared: u64,
    /// Unexplained differences.
    pub different: BTreeMap<&'static str, (u64, String)>,
}

impl Report {
    /// Number of unexplained differences.
    pub fn unexplained(&self) -> u64 {
        self.different.values().map(|d| d.0).sum()
    }

    /// Adds the outcome of one case on both sides.
    pub fn compare(&mut self, before: &Case, ours: &Case, theirs: &Case) {
        self.compared += 1;
        if ours == theirs {
            return;
        }
        let word = before.instruction();
        let theirs = &explained(word, ours, theirs);
        if ours == theirs {
            return;
        }
        let name = isa::decode(word).map_or("no instruction", |id| id.row().mnemonic);
        let entry =
            self.different.entry(name).or_insert_with(|| (0, describe(before, ours, theirs)));
        entry.0 += 1;
    }
}

/// Their record without the differences that stand explained:
/// - the upper half of a 256-bit register after a 128-bit operation, which the manual leaves open
///   (QEMU clears it after some operations and keeps it after others);
/// - the upper half of a register that holds a 32-bit integer after `ftint*.w`, which is open too
///   (QEMU extends the sign or zeros, by instruction);
/// - bits of FCSR0 that do not exist, which QEMU stores.
fn explained(word: u32, ours: &Case, theirs: &Case) -> Case {
    let mut theirs = theirs.clone();
    let row = isa::decode(word).map(|id| id.row());
    let low = V_AT + 32 * (word & 31) as usize;
    if row.is_some_and(|r| r.stem().starts_with("ftint") && r.suffix().starts_with('w')) {
        let upper = ours.word64(low) & !0xffff_ffff;
        theirs.set64(low, theirs.word64(low) & 0xffff_ffff | upper);
    }
    if row.is_some_and(|r| r.group == isa::Group::Lsx) {
        for lane in [2, 3] {
            let at = low + 8 * lane;
            theirs.set64(at, ours.word64(at));
        }
    }
    let fcsr = theirs.word64(FCSR_AT) & u64::from(crate::state::fcsr::VIEWS[0]);
    theirs.set64(FCSR_AT, fcsr);
    theirs
}

/// The first differing word, with the operands it came from.
fn describe(before: &Case, ours: &Case, theirs: &Case) -> String {
    let word = before.instruction();
    let text = isa::disassemble(word).unwrap_or_default();
    let at = (0..RECORD_LEN / 8).map(|n| 8 * n).find(|&at| ours.word64(at) != theirs.word64(at));
    let at = at.expect("invariant: they differ");
    let place = match at {
        _ if at < V_AT => format!("x{}", (at - X_AT) / 8),
        _ if at < FCC_AT => format!("v{}[{}]", (at - V_AT) / 32, (at - V_AT) / 8 % 4),
        FCC_AT => "fcc".into(),
        FCSR_AT => "fcsr".into(),
        MARK_AT => "trap".into(),
        _ => format!("memory+{}", at - SCRATCH_AT),
    };
    let register = |lo: u32| {
        let n = (word >> lo & 31) as usize;
        let v: Vec<_> =
            (0..4).map(|l| format!("{:x}", before.word64(V_AT + 32 * n + 8 * l))).collect();
        format!("{n}: x {:x} v {}", before.word64(X_AT + 8 * n), v.join(" "))
    };
    format!(
        "{word:08x} {text}: {place} ours {:x} theirs {:x} (fcsr {:x}; d {}; j {}; k {}; a {})",
        ours.word64(at),
        theirs.word64(at),
        before.word64(FCSR_AT),
        register(0),
        register(5),
        register(10),
        register(15)
    )
}
