//! Differential testing: random instructions and random blocks in random states, run by the
//! interpreter and by another implementation of LoongArch (QEMU), compared bit by bit.
//!
//! The other side runs one static program, [`runner::program`], made with our own encoder: it reads
//! [`Case`] records, executes the code of each in the record's state, and writes the record back.
//! So 10^5 words cost one process ([`Peer`]).
//!
//! Invariants
//! - The same seed gives the same cases. Checked by `the_same_seed_gives_the_same_cases`.
//! - A word that traps changes nothing but the record's mark, and the next word follows, on both
//!   sides. Checked by `random_instructions_agree_with_qemu`.

mod cases;
mod peer;
pub mod runner;
pub mod tiers;

pub use cases::{Cases, Shape};
pub use peer::{Peer, soak};

use std::collections::BTreeMap;

use littoral_la64::bare::Bare;
use littoral_la64::interp::Trap;
use littoral_la64::isa;
use littoral_la64::state::{State, fcsr};

/// Bytes of a record.
pub const RECORD_LEN: usize = 1512;
/// Records the runner takes at once.
pub const BATCH: usize = 256;
/// Instructions in a record; short blocks are filled up with no-operations.
pub const CODE_WORDS: usize = 8;
/// Places in a record.
pub(crate) const X_AT: usize = 8;
/// Where the code runs; in the place of register 0.
pub(crate) const SLOT_AT: usize = X_AT;
/// Where it returns to.
pub(crate) const RETURN_AT: usize = 264;
pub(crate) const V_AT: usize = 288;
pub(crate) const FCC_AT: usize = 1312;
pub(crate) const FCSR_AT: usize = 1320;
pub(crate) const MARK_AT: usize = 1328;
pub(crate) const SCRATCH_AT: usize = 1344;
pub(crate) const SCRATCH_LEN: usize = 128;
pub(crate) const CODE_AT: usize = 1472;
/// Guest address of a batch's first record, the same on both sides.
pub(crate) const RECORDS: u64 = 0x4_0000;
/// The register that holds the record's address in the runner.
pub(crate) const BASE: u32 = 21;

/// Some instructions in one state, before or after.
#[derive(Clone, PartialEq, Eq)]
pub struct Case(pub [u8; RECORD_LEN]);

impl Case {
    pub(crate) fn word64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("invariant: 8 bytes"))
    }

    pub(crate) fn set64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Instructions that are not filling.
    pub fn words(&self) -> u64 {
        self.word64(0)
    }

    /// Instruction `n`.
    pub fn instruction(&self, n: usize) -> u32 {
        let at = CODE_AT + 4 * n;
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("invariant: 4 bytes"))
    }

    /// Vector register `n`.
    pub fn vector(&self, n: usize) -> [u64; 4] {
        std::array::from_fn(|lane| self.word64(V_AT + 32 * n + 8 * lane))
    }

    /// General register `n`.
    pub fn general(&self, n: usize) -> u64 {
        if n == 0 { 0 } else { self.word64(X_AT + 8 * n) }
    }

    /// Whether FCSR rounds to nearest.
    pub fn rounds_to_nearest(&self) -> bool {
        self.word64(FCSR_AT) & u64::from(fcsr::RM) == 0
    }

    /// Guest address of the record.
    fn address(&self) -> u64 {
        self.word64(X_AT + 8 * BASE as usize)
    }
}

/// Executes a case by the interpreter.
pub struct Ours(Bare);

impl Default for Ours {
    fn default() -> Self {
        Ours(Bare::new(runner::MEMORY_LEN))
    }
}

/// The last word of a slot on our side.
const END: u32 = 0x002a_0077;
const END_CODE: u32 = 0x77;

impl Ours {
    /// The record after its instructions.
    pub fn execute(&mut self, case: &Case) -> Case {
        let slot = case.word64(SLOT_AT);
        self.store(case.address(), &case.0);
        self.store(slot, &case.0[CODE_AT..CODE_AT + 4 * CODE_WORDS]);
        self.store(slot + 4 * CODE_WORDS as u64, &END.to_le_bytes());
        load(self.0.state_mut(), case);
        let mark = self.run(slot);
        let mut after = case.clone();
        self.0.read(case.address(), &mut after.0).expect("invariant: inside");
        self.save(&mut after);
        if mark != 0 {
            after.set64(MARK_AT, mark);
        }
        after
    }

    fn store(&mut self, at: u64, bytes: &[u8]) {
        self.0.write(at, bytes).expect("invariant: inside");
    }

    /// Runs to the end of the slot, past every trap; the signal of the last one, 0 if none.
    fn run(&mut self, slot: u64) -> u64 {
        let mut mark = 0;
        self.0.forget_code();
        loop {
            match self.0.run(4 * CODE_WORDS as u64) {
                Trap::Break(END_CODE) => return mark,
                Trap::CodeChanged => {}
                trap => {
                    let pc = self.0.state().pc;
                    let inside = (slot..slot + 4 * CODE_WORDS as u64).contains(&pc);
                    assert!(inside, "{trap:?} at {pc:#x}: a case must stay in its slot");
                    mark = signal_of(trap);
                    self.0.state_mut().pc += 4;
                }
            }
        }
    }

    fn save(&self, case: &mut Case) {
        let state = self.0.state();
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

/// Puts a record's registers into a thread.
fn load(state: &mut State, case: &Case) {
    *state = State::default();
    state.pc = case.word64(SLOT_AT);
    for n in 1..32 {
        state.x[n] = case.word64(X_AT + 8 * n);
    }
    for (n, v) in state.v.iter_mut().enumerate() {
        v.0 = std::array::from_fn(|lane| case.word64(V_AT + 32 * n + 8 * lane));
    }
    state.fcc = case.word64(FCC_AT).to_le_bytes();
    state.fcsr = case.word64(FCSR_AT) as u32;
}

/// Whether the interpreter executes `word`: traps of other kinds than "no such instruction" count.
pub fn executes(word: u32) -> bool {
    let mut core = Bare::new(runner::MEMORY_LEN);
    core.state_mut().pc = RECORDS;
    let stored = core.write(RECORDS, &word.to_le_bytes());
    stored.is_some() && !matches!(core.step(), Trap::Illegal(_))
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
    /// Instructions in them.
    pub words: u64,
    /// Differences that [`explained`] accounts for.
    pub explained: u64,
    /// Unexplained differences, by the mnemonics of the case.
    pub different: BTreeMap<String, (u64, String)>,
}

impl Report {
    /// Number of unexplained differences.
    pub fn unexplained(&self) -> u64 {
        self.different.values().map(|d| d.0).sum()
    }

    /// The unexplained differences in words, the first of each kind.
    pub fn describe(&self) -> Vec<String> {
        self.different.iter().map(|(m, (n, d))| format!("{m} ({n}): {d}")).collect()
    }

    /// Adds the outcome of one case on both sides.
    pub fn compare(&mut self, before: &Case, ours: &Case, theirs: &Case) {
        self.compared += 1;
        self.words += before.words();
        if ours == theirs {
            return;
        }
        let theirs = &explained(before, ours, theirs);
        if ours == theirs {
            self.explained += 1;
            return;
        }
        let place = || (0, describe(before, ours, theirs));
        self.different.entry(names(before)).or_insert_with(place).0 += 1;
    }
}

/// The mnemonics of a case.
fn names(case: &Case) -> String {
    let name = |n| isa::decode(case.instruction(n)).map_or("no instruction", |r| r.row().mnemonic);
    (0..case.words() as usize).map(name).collect::<Vec<_>>().join(" ")
}

/// Their record without the differences that stand explained:
/// - the upper half of a 256-bit register after a 128-bit operation, which the manual leaves open
///   (QEMU clears it after some operations and keeps it after others); blocks never mix the two;
/// - what stands above the result of a scalar floating-point instruction in the low 128 bits, which
///   is open too (QEMU keeps bits 64 to 127 and sets the bits above a single or a word by
///   instruction); blocks read none of these bits;
/// - bits of FCSR0 that do not exist, which QEMU stores.
fn explained(before: &Case, ours: &Case, theirs: &Case) -> Case {
    let mut theirs = theirs.clone();
    for n in 0..before.words() as usize {
        let word = before.instruction(n);
        let row = isa::decode(word).map(|id| id.row());
        let low = V_AT + 32 * (word & 31) as usize;
        if row.is_some_and(cases::writes_narrow) {
            let upper = ours.word64(low) & !0xffff_ffff;
            theirs.set64(low, theirs.word64(low) & 0xffff_ffff | upper);
        }
        if row.is_some_and(cases::writes_scalar) {
            theirs.set64(low + 8, ours.word64(low + 8));
        }
        if row.is_some_and(|r| r.group == isa::Group::Lsx) {
            for lane in [2, 3] {
                let at = low + 8 * lane;
                theirs.set64(at, ours.word64(at));
            }
        }
    }
    let fcsr = theirs.word64(FCSR_AT) & u64::from(fcsr::VIEWS[0]);
    theirs.set64(FCSR_AT, fcsr);
    theirs
}

/// The first differing word, with the operands it came from.
fn describe(before: &Case, ours: &Case, theirs: &Case) -> String {
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
    let (ours, theirs) = (ours.word64(at), theirs.word64(at));
    let fcsr = before.word64(FCSR_AT);
    let code: Vec<_> = (0..before.words() as usize).map(|n| operands(before, n)).collect();
    format!("{place} ours {ours:x} theirs {theirs:x} (fcsr {fcsr:x}) {}", code.join("; "))
}

/// An instruction and what its registers held before the case.
fn operands(before: &Case, n: usize) -> String {
    let word = before.instruction(n);
    let text = isa::disassemble(word).unwrap_or_default();
    let register = |lo: u32| {
        let n = (word >> lo & 31) as usize;
        let v: Vec<_> =
            (0..4).map(|l| format!("{:x}", before.word64(V_AT + 32 * n + 8 * l))).collect();
        format!("{n}: x {:x} v {}", before.word64(X_AT + 8 * n), v.join(" "))
    };
    let [d, j, k, a] = [0, 5, 10, 15].map(register);
    format!("{word:08x} {text} (d {d}; j {j}; k {k}; a {a})")
}
