//! The program the other implementation runs: see the module above.

use super::cases::BASE;
use super::{FCC_AT, FCSR_AT, MARK_AT, RECORD_ADDRESS, RECORD_LEN, V_AT, X_AT};
use crate::{elf, isa};

/// Load address.
const TEXT: u64 = 0x1_0000;
/// Top of the runner's signal stack and of the (unused) stack pointer of cases.
pub(super) const STACK_TOP: u64 = 0x3_0000;
/// What a test word can raise: SIGILL, SIGBUS, SIGFPE, SIGSEGV, and QEMU's SIGSYS.
const SIGNALS: [i64; 5] = [4, 7, 8, 11, 31];
const ZERO: i64 = 0;
const RA: i64 = 1;
const A: [i64; 8] = [4, 5, 6, 7, 8, 9, 10, 11];
const T: [i64; 3] = [12, 13, 14];
/// Offsets in a LoongArch ucontext: saved pc, saved registers.
const UC_PC: i64 = 176;
const UC_X: i64 = 184;

struct Assembler(Vec<u32>);

impl Assembler {
    fn put(&mut self, mnemonic: &str, operands: &[i64]) {
        let id = isa::find(mnemonic).expect("invariant: in the table");
        self.0.push(isa::encode(id, operands).expect("invariant: operands fit"));
    }

    fn constant(&mut self, register: i64, value: u64) {
        self.put("lu12i.w", &[register, (value >> 12) as i64]);
        self.put("ori", &[register, register, (value & 0xfff) as i64]);
    }

    fn call(&mut self, number: i64) {
        self.put("ori", &[A[7], ZERO, number]);
        self.put("syscall", &[0]);
    }

    fn here(&self) -> i64 {
        4 * self.0.len() as i64
    }
}

/// Bytes before the first instruction in the file that [`elf::executable`] makes.
const HEADERS: u64 = 120;

/// The runner as a static executable: reads records on stdin, writes them on stdout.
pub fn program() -> Vec<u8> {
    elf::executable_with(TEXT, &assemble().0, STACK_TOP - TEXT)
}

/// Where the runner executes the tested word.
pub(super) fn slot_address() -> u64 {
    TEXT + HEADERS + 4 * assemble().1 as u64
}

/// The runner's code, and the index of the tested word in it.
fn assemble() -> (Vec<u32>, usize) {
    let base = i64::from(BASE);
    let mut a = Assembler(Vec::new());
    // Jump over the handler.
    a.put("b", &[4 * 7]);
    let handler = TEXT + HEADERS + a.here() as u64;
    a.put("ld.d", &[T[0], A[2], UC_PC]);
    a.put("addi.d", &[T[0], T[0], 4]);
    a.put("st.d", &[T[0], A[2], UC_PC]);
    a.put("ld.d", &[T[1], A[2], UC_X + 8 * base]);
    a.put("st.d", &[A[0], T[1], MARK_AT as i64]);
    a.put("jirl", &[ZERO, RA, 0]);
    a.constant(base, RECORD_ADDRESS);
    install(&mut a, handler);
    let top = a.here();
    a.put("ori", &[A[0], ZERO, 0]);
    a.put("or", &[A[1], base, ZERO]);
    a.put("ori", &[A[2], ZERO, RECORD_LEN as i64]);
    a.call(63);
    // Anything but a full record ends the run.
    a.put("beq", &[A[0], A[2], 16]);
    a.put("ori", &[A[0], ZERO, 0]);
    a.call(94);
    let patch = a.0.len();
    a.put("ld.w", &[T[0], base, 0]);
    a.0.push(0); // replaced by the store into the slot, once its place is known
    a.0.push(0);
    a.put("ibar", &[0]);
    let slot = load_state(&mut a, base);
    a.constant_at(patch + 1, T[1], TEXT + HEADERS + 4 * slot as u64);
    save_state(&mut a, base);
    a.put("ori", &[A[0], ZERO, 1]);
    a.put("or", &[A[1], base, ZERO]);
    a.put("ori", &[A[2], ZERO, RECORD_LEN as i64]);
    a.call(64);
    let back = top - a.here();
    a.put("b", &[back]);
    (a.0, slot)
}

impl Assembler {
    /// Fills two reserved words: `pcaddi register` cannot reach everywhere, so `lu12i.w` and a
    /// store with the low bits as offset.
    fn constant_at(&mut self, at: usize, register: i64, address: u64) {
        let low = (address & 0xfff) as i64;
        let (high, low) =
            if low > 2047 { ((address >> 12) + 1, low - 4096) } else { (address >> 12, low) };
        let code = |m: &str, o: &[i64]| {
            isa::encode(isa::find(m).expect("invariant: in the table"), o).expect("invariant: fits")
        };
        self.0[at] = code("lu12i.w", &[register, high as i64]);
        self.0[at + 1] = code("st.w", &[T[0], register, low]);
    }
}

/// sigaltstack and one handler for the signals a test word can raise, laid out in the record's own
/// place before the first record arrives.
fn install(a: &mut Assembler, handler: u64) {
    let base = i64::from(BASE);
    a.constant(T[0], STACK_TOP - 0x8000);
    a.put("st.d", &[T[0], base, 0]);
    a.put("st.d", &[ZERO, base, 8]);
    a.constant(T[0], 0x8000);
    a.put("st.d", &[T[0], base, 16]);
    a.put("or", &[A[0], base, ZERO]);
    a.put("or", &[A[1], ZERO, ZERO]);
    a.call(132);
    for signal in SIGNALS {
        a.constant(T[0], handler);
        a.put("st.d", &[T[0], base, 0]);
        // SA_SIGINFO | SA_ONSTACK
        a.constant(T[0], 0x0800_0004);
        a.put("st.d", &[T[0], base, 8]);
        a.put("st.d", &[ZERO, base, 16]);
        a.put("ori", &[A[0], ZERO, signal]);
        a.put("or", &[A[1], base, ZERO]);
        a.put("or", &[A[2], ZERO, ZERO]);
        a.put("ori", &[A[3], ZERO, 8]);
        a.call(134);
    }
}

/// Loads all registers from the record; the index of the word that will be the test's.
fn load_state(a: &mut Assembler, base: i64) -> usize {
    a.put("ld.d", &[T[0], base, FCSR_AT as i64]);
    a.put("movgr2fcsr", &[0, T[0]]);
    for n in 0..8 {
        a.put("ld.bu", &[T[0], base, FCC_AT as i64 + n]);
        a.put("movgr2cf", &[n, T[0]]);
    }
    for n in 0..32 {
        a.put("xvld", &[n, base, V_AT as i64 + 32 * n]);
    }
    for n in (1..32).filter(|&n| n != base) {
        a.put("ld.d", &[n, base, X_AT as i64 + 8 * n]);
    }
    a.put("andi", &[0, 0, 0]);
    a.0.len() - 1
}

fn save_state(a: &mut Assembler, base: i64) {
    for n in (1..32).filter(|&n| n != base) {
        a.put("st.d", &[n, base, X_AT as i64 + 8 * n]);
    }
    for n in 0..32 {
        a.put("xvst", &[n, base, V_AT as i64 + 32 * n]);
    }
    for n in 0..8 {
        a.put("movcf2gr", &[T[0], n]);
        a.put("st.b", &[T[0], base, FCC_AT as i64 + n]);
    }
    a.put("movfcsr2gr", &[T[0], 0]);
    a.put("st.d", &[T[0], base, FCSR_AT as i64]);
}
