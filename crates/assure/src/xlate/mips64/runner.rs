//! A MIPS64 program of our own that QEMU's user mode runs: it runs programs and tells how each of
//! them ended.
//!
//! It is a static executable, written here instruction by instruction, so that a program meets
//! nothing but its memory and the kernel:
//!
//! | address | what |
//! |---|---|
//! | 0 to [`super::GUEST_END`] | the program's memory; only [`super::CODE`] can be executed |
//! | [`BASE`] | this program's code |
//! | [`STATE`] | registers that a program begins with, and those that it ended with |
//!
//! It reads [`BEGIN_LEN`] bytes of state and the memory from standard input, loads the registers
//! and jumps. Each program ends with a signal, SIGALRM at the latest, whose handler writes
//! [`END_LEN`] bytes of state and the memory to standard output. The process ends when its standard
//! input does.

use super::{CODE, CODE_LEN, GUEST_END};
use littoral_xlate::mips64::isa;
use std::ops::Range;

/// Where its file is mapped.
const BASE: u64 = 0x1_2000_0000;
const START: u64 = BASE + 0x200;
const STATE: u64 = BASE + 0x1_0000;
const STATE_LEN: u64 = 0x2_0000;
/// Addresses that this program has: an access there does not fault.
pub(super) const OWN_ADDRESSES: Range<u64> = BASE..STATE + STATE_LEN;

/// Doublewords of what a program begins with: general registers, floating-point registers, HI, LO,
/// thread pointer, FCSR, pc.
pub(super) const BEGIN_WORDS: usize = 32 + 32 + 5;
pub(super) const BEGIN_LEN: usize = 8 * BEGIN_WORDS;

/// What the handler writes: number of the signal, floating-point registers, FCSR, the kernel's
/// account of the signal, and its frame.
pub(super) const END_FLOATS: usize = 8;
pub(super) const END_FCSR: usize = END_FLOATS + 256;
const OWN_LEN: usize = END_FCSR + 8;
const INFO_LEN: usize = 32;
const FRAME_LEN: usize = 640;
/// The address that an access failed at.
pub(super) const END_ADDRESS: usize = OWN_LEN + 16;
/// The frame's registers, behind flags, link and signal stack.
pub(super) const END_GENERAL: usize = OWN_LEN + INFO_LEN + 40;
pub(super) const END_HI: usize = END_GENERAL + 512;
pub(super) const END_LO: usize = END_HI + 32;
pub(super) const END_PC: usize = END_LO + 32;
pub(super) const END_LEN: usize = OWN_LEN + INFO_LEN + FRAME_LEN;

// Places behind what a program begins with.
const OWN: u64 = STATE + 0x400;
const ACTION: u64 = STATE + 0x800;
const SIGNAL_STACK: u64 = STATE + 0x840;
const STACK: u64 = STATE + 0x1000;
const STACK_LEN: u64 = 0x1_0000;

const READ: u64 = 5000;
const WRITE: u64 = 5001;
const ALARM: u64 = 5037;
const RT_SIGACTION: u64 = 5013;
const SIGALTSTACK: u64 = 5129;
const EXIT_GROUP: u64 = 5205;
const SET_THREAD_AREA: u64 = 5242;

/// SIGILL, SIGTRAP, SIGFPE, SIGBUS, SIGSEGV, SIGALRM.
const SIGNALS: [u64; 6] = [4, 5, 8, 10, 11, 14];
/// Seconds after which SIGALRM ends a program that ends on the interpreter and not here.
const SECONDS_MAX: u64 = 30;

// Registers by their numbers in the N64 ABI.
const ZERO: i64 = 0;
const V0: i64 = 2;
const A0: i64 = 4;
const A1: i64 = 5;
const A2: i64 = 6;
const A3: i64 = 7;
const S0: i64 = 16;
const S1: i64 = 17;
const S2: i64 = 18;
const S3: i64 = 19;
const S4: i64 = 20;
const S5: i64 = 21;
const K0: i64 = 26;
const K1: i64 = 27;
const RA: i64 = 31;
/// FCSR among the control registers of the floating-point unit.
const FCSR: i64 = 31;

/// A program under construction.
#[derive(Default)]
struct Words(Vec<u32>);

impl Words {
    fn here(&self) -> u64 {
        START + 4 * self.0.len() as u64
    }

    /// An instruction with its operands in the order of its syntax.
    fn op(&mut self, mnemonic: &str, operands: &[i64]) {
        let word = isa::encode(mnemonic, operands);
        self.0.push(word.expect("invariant: operands fit their instructions"));
    }

    /// A number of 48 bits whose sign is clear.
    fn number(&mut self, d: i64, value: u64) {
        let part = |low: u32| (value >> low & 0xffff) as i64;
        self.op("ori", &[d, ZERO, part(32)]);
        self.op("dsll", &[d, d, 16]);
        self.op("ori", &[d, d, part(16)]);
        self.op("dsll", &[d, d, 16]);
        self.op("ori", &[d, d, part(0)]);
    }

    fn load(&mut self, t: i64, base: i64, at: usize) {
        self.op("ld", &[t, at as i64, base]);
    }

    fn store(&mut self, t: i64, base: i64, at: usize) {
        self.op("sd", &[t, at as i64, base]);
    }

    fn copy(&mut self, d: i64, s: i64) {
        self.op("or", &[d, s, ZERO]);
    }

    fn call(&mut self, number: u64) {
        self.number(V0, number);
        self.op("syscall", &[0]);
    }

    /// All of a read or a write: s0 has its number, s1 its file, s2 where, s3 how many bytes.
    fn transfer(&mut self, (number, file): (u64, u64), at: Option<u64>, len: u64, quit: u64) {
        self.number(S0, number);
        self.number(S1, file);
        if let Some(at) = at {
            self.number(S2, at);
        }
        self.number(S3, len);
        let again = self.here();
        for (d, s) in [(V0, S0), (A0, S1), (A1, S2), (A2, S3)] {
            self.copy(d, s);
        }
        self.op("syscall", &[0]);
        // The calls give an error's number and say so in a3: the file has ended, or is refused.
        self.branch("bne", &[A3, ZERO], quit);
        self.branch("blez", &[V0], quit);
        self.op("daddu", &[S2, S2, V0]);
        self.op("dsubu", &[S3, S3, V0]);
        self.branch("bne", &[S3, ZERO], again);
    }

    /// A branch by registers, with an empty delay slot.
    fn branch(&mut self, mnemonic: &str, registers: &[i64], to: u64) {
        let distance = to.wrapping_sub(self.here() + 4) as i64 >> 2;
        self.op(mnemonic, &[registers, &[distance]].concat());
        self.op("sll", &[ZERO, ZERO, 0]);
    }
}

/// The code: first the end of the process, then what a signal leads to, then the start. Gives the
/// addresses of the handler and of the start.
fn code() -> (Vec<u32>, u64, u64) {
    let mut words = Words::default();
    let quit = words.here();
    words.copy(A0, ZERO);
    words.call(EXIT_GROUP);
    let handler = words.here();
    handle(&mut words, quit);
    // The next program.
    let next = words.here();
    words.transfer((READ, 0), Some(STATE), BEGIN_LEN as u64, quit);
    words.transfer((READ, 0), Some(0), GUEST_END, quit);
    begin(&mut words);
    let start = words.here();
    words.number(A0, SIGNAL_STACK);
    words.copy(A1, ZERO);
    words.call(SIGALTSTACK);
    for signal in SIGNALS {
        words.number(A0, signal);
        words.number(A1, ACTION);
        words.copy(A2, ZERO);
        words.number(A3, 16);
        words.call(RT_SIGACTION);
    }
    words.branch("beq", &[ZERO, ZERO], next);
    (words.0, handler, start)
}

/// What the handler does before the next program is read.
fn handle(words: &mut Words, quit: u64) {
    words.number(K0, OWN);
    words.store(A0, K0, 0);
    for n in 0..32 {
        words.op("sdc1", &[n, END_FLOATS as i64 + 8 * n, K0]);
    }
    words.op("cfc1", &[S0, FCSR]);
    words.store(S0, K0, END_FCSR);
    words.copy(S4, A1);
    words.copy(S5, A2);
    words.transfer((WRITE, 1), Some(OWN), OWN_LEN as u64, quit);
    for (from, len) in [(S4, INFO_LEN), (S5, FRAME_LEN)] {
        words.copy(S2, from);
        words.transfer((WRITE, 1), None, len as u64, quit);
    }
    words.transfer((WRITE, 1), Some(0), GUEST_END, quit);
}

/// Loads all registers but k0 and k1, which no program names, and jumps.
fn begin(words: &mut Words) {
    let place = |n: usize| 8 * n;
    words.number(K1, STATE);
    words.load(A0, K1, place(66));
    words.call(SET_THREAD_AREA);
    words.number(A0, SECONDS_MAX);
    words.call(ALARM);
    words.number(K1, STATE);
    words.load(A0, K1, place(67));
    words.op("ctc1", &[A0, FCSR]);
    for n in 0..32 {
        words.op("ldc1", &[n, 8 * (32 + n), K1]);
    }
    words.load(A0, K1, place(64));
    words.load(A1, K1, place(65));
    words.op("mthi", &[A0]);
    words.op("mtlo", &[A1]);
    words.load(K0, K1, place(68));
    for n in (1..=RA).filter(|n| ![K0, K1].contains(n)) {
        words.load(n, K1, place(n as usize));
    }
    words.op("jr", &[K0]);
    words.op("sll", &[ZERO, ZERO, 0]);
}

/// The signal's action and the signal stack, from [`ACTION`] on.
fn tables(handler: u64) -> Vec<u8> {
    /// With details, on its own stack, not blocked meanwhile.
    const FLAGS: u64 = 8 | 0x0800_0000 | 0x4000_0000;
    let mut words = vec![FLAGS, handler, 0, 0];
    words.resize((SIGNAL_STACK - ACTION) as usize / 8, 0);
    words.extend([STACK, STACK_LEN, 0]);
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A loaded part of the file: flags (1 execute, 2 write, 4 read), place in the file, address, bytes
/// in the file and in memory.
type Part = (u32, u64, u64, u64, u64);

/// The executable file.
///
/// # Panics
/// Never: its parts fit their places.
pub(super) fn program() -> Vec<u8> {
    let (words, handler, start) = code();
    let tables = tables(handler);
    let at = STATE - BASE + (ACTION - STATE);
    let parts: [Part; 5] = [
        (6, 0x2_0000, 0, 0, CODE),
        (7, 0x2_0000, CODE, 0, CODE_LEN),
        (6, 0x2_0000, CODE + CODE_LEN, 0, GUEST_END - CODE - CODE_LEN),
        (5, 0, BASE, 0x1_0000, 0x1_0000),
        (6, STATE - BASE, STATE, 0x1_0000, STATE_LEN),
    ];
    let mut file = header(start, &parts);
    file.resize((START - BASE) as usize, 0);
    file.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    assert!(file.len() < 0x1_0000, "the code fits its part");
    file.resize(at as usize, 0);
    file.extend(tables);
    file.resize(0x2_0000, 0);
    file
}

/// The headers of a static file of MIPS64 release 2, little-endian, N64.
fn header(start: u64, parts: &[Part]) -> Vec<u8> {
    const HEADER: u16 = 64;
    const PART: u16 = 56;
    const MIPS: u16 = 8;
    const RELEASE_2: u32 = 0x8000_0000;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2u16, MIPS].iter().flat_map(|h| h.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    file.extend([start, HEADER.into(), 0].iter().flat_map(|d| d.to_le_bytes()));
    file.extend(RELEASE_2.to_le_bytes());
    let counts = [HEADER, PART, parts.len() as u16, 0, 0, 0];
    file.extend(counts.iter().flat_map(|h| h.to_le_bytes()));
    for &(flags, place, address, in_file, in_memory) in parts {
        file.extend([1, flags].iter().flat_map(|w: &u32| w.to_le_bytes()));
        let words = [place, address, address, in_file, in_memory, 0x1000];
        file.extend(words.iter().flat_map(|d| d.to_le_bytes()));
    }
    file
}
