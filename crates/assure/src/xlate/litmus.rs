//! Litmus tests of the order of memory: small x86-64 programs, translated, on threads of
//! `littoral_la64::weak`.
//!
//! - A test ends with an outcome: values that its loads found. Those that x86-64 forbids must not
//!   be seen with barriers, and are seen without them.
//! - `SB` is the outcome that x86-64 allows: a load may overtake an earlier store.

use littoral_la64::interp::{Cpu, Features, Fetch, Text, Trap};
use littoral_la64::memory::{Memory, Window};
use littoral_la64::weak::{self, Thread};
use littoral_xlate::x86::registers::Machine;
use littoral_xlate::x86::{Conventions, translate};

const WINDOW_LEN: u64 = 1 << 20;
const CODE: u64 = 0x1000;
const TRANSLATED: u64 = 0x8_0000;
/// Between the threads' code, and between their translated code.
const APART: u64 = 0x1000;
/// Where `x` and `y` lie, in lines of their own.
const X: u64 = 0x4_0000;
const Y: u64 = 0x4_1000;
/// Turns after which a test counts as one that hangs.
const TURNS_MAX: u64 = 20_000;

/// General registers by their x86-64 numbers.
const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;

/// The registers of all threads at the end.
pub type Ends = [Machine];

/// A test.
#[derive(Clone, Copy, Debug)]
pub struct Litmus {
    /// Its name in the literature.
    pub name: &'static str,
    /// The code of each thread; rdi holds the address of `x`, rsi that of `y`, rax is 1.
    pub threads: &'static [&'static [u8]],
    /// Whether the outcome that the test asks for was seen.
    pub is_seen: fn(&Ends) -> bool,
    /// What x86-64 says of it.
    pub rule: Rule,
}

/// What x86-64 says of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It is forbidden: translated code needs barriers.
    Forbidden,
    /// The program forbids it by a fence of its own.
    Fenced,
    /// It is allowed.
    Allowed,
}

// mov [rdi], rax; mov [rsi], rax; mov rcx, [rdi] or [rsi]; mov rdx, [rdi] or [rsi]; mfence; int3.
const WRITE_X: [u8; 3] = [0x48, 0x89, 0x07];
const WRITE_Y: [u8; 3] = [0x48, 0x89, 0x06];
const RCX_X: [u8; 3] = [0x48, 0x8b, 0x0f];
const RCX_Y: [u8; 3] = [0x48, 0x8b, 0x0e];
const RDX_X: [u8; 3] = [0x48, 0x8b, 0x17];
const RDX_Y: [u8; 3] = [0x48, 0x8b, 0x16];
const MFENCE: [u8; 3] = [0x0f, 0xae, 0xf0];
const END: u8 = 0xcc;

/// Two instructions and the end.
const fn two(a: [u8; 3], b: [u8; 3]) -> [u8; 7] {
    [a[0], a[1], a[2], b[0], b[1], b[2], END]
}

/// Three of them.
const fn three(a: [u8; 3], b: [u8; 3], c: [u8; 3]) -> [u8; 10] {
    [a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2], END]
}

/// Two messages to places 8 and 16 behind `x`, then their number to `y`; the other thread waits for
/// the number and reads them: rax = [y] until it is 2, rcx = [x + 8], rdx = [x + 16].
#[rustfmt::skip]
const SENDS: [u8; 16] = [
    0x48, 0x89, 0x47, 0x08, // mov [rdi + 8], rax
    0x48, 0x89, 0x47, 0x10, // mov [rdi + 16], rax
    0x48, 0x83, 0xc0, 0x01, // add rax, 1
    0x48, 0x89, 0x06, // mov [rsi], rax
    END,
];
#[rustfmt::skip]
const RECEIVES: [u8; 18] = [
    0x48, 0x8b, 0x06, // mov rax, [rsi]
    0x48, 0x83, 0xf8, 0x02, // cmp rax, 2
    0x75, 0xf7, // jne to the first
    0x48, 0x8b, 0x4f, 0x08, // mov rcx, [rdi + 8]
    0x48, 0x8b, 0x57, 0x10, // mov rdx, [rdi + 16]
    END,
];

/// All of them.
pub const TESTS: [Litmus; 6] = [
    Litmus {
        name: "MP",
        threads: &[&two(WRITE_X, WRITE_Y), &two(RCX_Y, RDX_X)],
        is_seen: |ends| (ends[1].gpr[RCX], ends[1].gpr[RDX]) == (1, 0),
        rule: Rule::Forbidden,
    },
    Litmus {
        name: "LB",
        threads: &[&two(RCX_X, WRITE_Y), &two(RCX_Y, WRITE_X)],
        is_seen: |ends| (ends[0].gpr[RCX], ends[1].gpr[RCX]) == (1, 1),
        rule: Rule::Forbidden,
    },
    Litmus {
        name: "IRIW",
        threads: &[
            &[WRITE_X[0], WRITE_X[1], WRITE_X[2], END],
            &[WRITE_Y[0], WRITE_Y[1], WRITE_Y[2], END],
            &two(RCX_X, RDX_Y),
            &two(RCX_Y, RDX_X),
        ],
        is_seen: |ends| [2, 3].iter().all(|&n| (ends[n].gpr[RCX], ends[n].gpr[RDX]) == (1, 0)),
        rule: Rule::Forbidden,
    },
    Litmus {
        name: "queue",
        threads: &[&SENDS, &RECEIVES],
        is_seen: |ends| ends[1].gpr[RAX] == 2 && (ends[1].gpr[RCX] & ends[1].gpr[RDX]) == 0,
        rule: Rule::Forbidden,
    },
    Litmus {
        name: "SB",
        threads: &[&two(WRITE_X, RCX_Y), &two(WRITE_Y, RCX_X)],
        is_seen: |ends| (ends[0].gpr[RCX], ends[1].gpr[RCX]) == (0, 0),
        rule: Rule::Allowed,
    },
    Litmus {
        name: "SB+mfence",
        threads: &[&three(WRITE_X, MFENCE, RCX_Y), &three(WRITE_Y, MFENCE, RCX_X)],
        is_seen: |ends| (ends[0].gpr[RCX], ends[1].gpr[RCX]) == (0, 0),
        rule: Rule::Fenced,
    },
];

struct Executable;

impl Fetch for Executable {
    fn text(&self, pc: u64) -> Option<Text> {
        (TRANSLATED..WINDOW_LEN).contains(&pc).then_some(Text { end: WINDOW_LEN, written: false })
    }
}

/// A test's threads in a memory of their own.
#[derive(Debug)]
pub struct Bench {
    litmus: Litmus,
    window: Window,
    threads: Vec<Thread>,
}

impl Bench {
    /// Translates a test, with or without barriers.
    ///
    /// # Panics
    /// The test leaves its own code.
    pub fn new(litmus: Litmus, ordered: bool) -> Bench {
        let window = Memory::leaked(WINDOW_LEN);
        for (n, code) in litmus.threads.iter().enumerate() {
            let (guest, base) = (CODE + n as u64 * APART, TRANSLATED + n as u64 * APART);
            let fetch = |at: u64, bytes: &mut [u8]| {
                let rest = code.get(at.wrapping_sub(guest) as usize..).unwrap_or_default();
                let len = rest.len().min(bytes.len());
                bytes[..len].copy_from_slice(&rest[..len]);
                len
            };
            let conventions = Conventions { ordered, ..Conventions::default() };
            let region = translate(guest, base, conventions, &fetch).expect("code is there");
            let words: Vec<u8> = region.words.iter().flat_map(|w| w.to_le_bytes()).collect();
            assert!(words.len() < APART as usize, "threads lie apart");
            assert!(window.write(base, &words).is_some(), "code is in the window");
        }
        let thread = |_| Thread::new(Cpu::new(window, Features::ALL));
        let threads = (0..litmus.threads.len()).map(thread).collect();
        Bench { litmus, window, threads }
    }

    /// One run; whether the outcome was seen.
    ///
    /// # Panics
    /// A thread does not come to its end.
    pub fn run(&mut self, seed: u64) -> bool {
        for place in [X, X + 8, X + 16, Y] {
            assert!(self.window.store(place, 0u64).is_some(), "it is in the window");
        }
        for (n, thread) in self.threads.iter_mut().enumerate() {
            let mut machine = Machine { flags: 0x202, ..Machine::default() };
            (machine.gpr[RAX], machine.gpr[7], machine.gpr[6]) = (1, X, Y);
            machine.rip = TRANSLATED + n as u64 * APART;
            machine.write(&mut thread.cpu.state);
            thread.restart();
        }
        let is_done = weak::run(&mut self.threads, &Executable, seed, TURNS_MAX);
        let name = self.litmus.name;
        assert!(is_done, "{name} {seed} hangs");
        let ended = |t: &Thread| matches!(t.ended(), Some(Trap::Break(_)));
        assert!(self.threads.iter().all(ended), "{name} {seed}: {:?}", self.threads);
        let ends: Vec<Machine> = self.threads.iter().map(|t| Machine::read(&t.cpu.state)).collect();
        (self.litmus.is_seen)(&ends)
    }
}

/// In how many of so many runs each test's outcome was seen.
pub fn count(seed: u64, runs: u64, ordered: bool) -> Vec<(Litmus, u64)> {
    let of = |litmus: Litmus| {
        let mut bench = Bench::new(litmus, ordered);
        let seen = (0..runs).filter(|n| bench.run(seed.wrapping_add(*n))).count();
        (litmus, seen as u64)
    };
    TESTS.into_iter().map(of).collect()
}
