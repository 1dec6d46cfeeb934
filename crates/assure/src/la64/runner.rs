//! The program the other implementation runs.
//!
//! It reads a batch of records, copies the code of each into a slot of its own, and only then runs
//! them one after the other: so a translator meets new code once a batch, not once a word. The slot
//! ends with a jump back through the record.

use super::{
    BASE, BATCH, CODE_AT, CODE_WORDS, FCC_AT, FCSR_AT, MARK_AT, RECORD_LEN, RECORDS, RETURN_AT,
    SLOT_AT, V_AT, X_AT,
};
use littoral_la64::{elf, isa};

/// Load address.
const TEXT: u64 = 0x1_0000;
/// Where the tested code runs, one slot a record of the batch.
const SLOTS: u64 = 0x2_0000;
/// Bytes from slot to slot.
const SLOT_LEN: u64 = 64;
/// Top of the runner's signal stack and of the (unused) stack pointer of cases.
pub(super) const STACK_TOP: u64 = 0x3_8000;
const RECORDS_END: u64 = RECORDS + (BATCH * RECORD_LEN) as u64;
/// Bytes of memory the program and its records need, from address 0 on.
pub(super) const MEMORY_LEN: u64 = RECORDS_END.next_multiple_of(0x1000);
/// What a test word can raise: SIGILL, SIGBUS, SIGFPE, SIGSEGV, and QEMU's SIGSYS.
const SIGNALS: [i64; 5] = [4, 7, 8, 11, 31];
const ZERO: i64 = 0;
const RA: i64 = 1;
const SP: i64 = 3;
const A: [i64; 8] = [4, 5, 6, 7, 8, 9, 10, 11];
const T: [i64; 3] = [12, 13, 14];
/// Saved registers, which system calls leave alone.
const S: [i64; 3] = [23, 24, 25];
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

/// The runner as a static executable: reads batches of records on stdin, writes them on stdout.
pub fn program() -> Vec<u8> {
    elf::executable_with(TEXT, &assemble().0, MEMORY_LEN - TEXT)
}

/// Where the code of record `index` of a batch runs.
pub(super) fn slot_address(index: usize) -> u64 {
    SLOTS + SLOT_LEN * (index % BATCH) as u64
}

/// Where a slot's code returns to.
pub(super) fn return_address() -> u64 {
    TEXT + HEADERS + 4 * assemble().1 as u64
}

/// The runner's code, and the index of the word that tested code returns to.
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
    a.constant(base, RECORDS);
    install(&mut a, handler);
    let top = a.here();
    transfer(&mut a, 0, 63);
    fill_slots(&mut a);
    a.constant(base, RECORDS);
    let each = a.here();
    load_state(&mut a, base);
    a.put("ld.d", &[SP, base, SLOT_AT as i64]);
    a.put("jirl", &[ZERO, SP, 0]);
    let back = a.0.len();
    a.put("ld.d", &[SP, base, X_AT as i64 + 8 * SP]);
    save_state(&mut a, base);
    a.put("addi.d", &[base, base, RECORD_LEN as i64]);
    a.constant(T[0], RECORDS_END);
    let again = each - a.here();
    a.put("bltu", &[base, T[0], again]);
    transfer(&mut a, 1, 64);
    let top = top - a.here();
    a.put("b", &[top]);
    (a.0, back)
}

/// Reads or writes the whole batch; anything short of it ends the run.
fn transfer(a: &mut Assembler, file: i64, number: i64) {
    a.constant(S[0], RECORDS);
    a.constant(S[1], RECORDS_END);
    let top = a.here();
    a.put("ori", &[A[0], ZERO, file]);
    a.put("or", &[A[1], S[0], ZERO]);
    a.put("sub.d", &[A[2], S[1], S[0]]);
    a.call(number);
    // Over the three words that end the run.
    a.put("blt", &[ZERO, A[0], 16]);
    a.put("ori", &[A[0], ZERO, 0]);
    a.call(94);
    a.put("add.d", &[S[0], S[0], A[0]]);
    let again = top - a.here();
    a.put("bltu", &[S[0], S[1], again]);
}

/// Copies the code of every record to its slot.
fn fill_slots(a: &mut Assembler) {
    a.constant(S[0], RECORDS);
    a.constant(S[1], RECORDS_END);
    a.constant(S[2], SLOTS);
    let top = a.here();
    for n in 0..(CODE_WORDS as i64 + 2) / 2 {
        a.put("ld.d", &[T[0], S[0], CODE_AT as i64 + 8 * n]);
        a.put("st.d", &[T[0], S[2], 8 * n]);
    }
    a.put("addi.d", &[S[0], S[0], RECORD_LEN as i64]);
    a.put("addi.d", &[S[2], S[2], SLOT_LEN as i64]);
    let again = top - a.here();
    a.put("bltu", &[S[0], S[1], again]);
    a.put("ibar", &[0]);
}

/// What stands behind the code in its slot: the jump back.
pub(super) fn ending() -> [u32; 2] {
    let mut a = Assembler(Vec::new());
    a.put("ld.d", &[SP, BASE.into(), RETURN_AT as i64]);
    a.put("jirl", &[ZERO, SP, 0]);
    [a.0[0], a.0[1]]
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

/// Loads all registers from the record.
fn load_state(a: &mut Assembler, base: i64) {
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
