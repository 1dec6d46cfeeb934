//! Threads of tier 0 in weak memory order: what one thread sees of itself, which reorderings others
//! see, and which barriers forbid them.

use littoral_la64::asm::Asm;
use littoral_la64::interp::{Cache, Cpu, Features, Fetch, Text, Tier, Trap};
use littoral_la64::memory::{Memory, Window};
use littoral_la64::weak::{self, Thread};

const LEN: u64 = 1 << 16;
const CODE: u64 = 0x8000;
const APART: u64 = 0x1000;
const X: u64 = 0x1000;
const Y: u64 = 0x2000;
/// Registers: addresses of x and y, one, results.
const RX: i64 = 4;
const RY: i64 = 5;
const ONE: i64 = 6;
const A: i64 = 7;
const B: i64 = 8;

struct Executable;

impl Fetch for Executable {
    fn text(&self, pc: u64) -> Option<Text> {
        (CODE..LEN).contains(&pc).then_some(Text { end: LEN, written: false })
    }
}

type Op = (&'static str, Vec<i64>);

fn write(window: Window, at: u64, code: &[Op]) {
    let mut asm = Asm::default();
    code.iter().for_each(|(name, operands)| asm.op(name, operands));
    asm.op("break", &[0]);
    let words = asm.finish().expect("instructions");
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert!(window.write(at, &bytes).is_some(), "code is in the window");
}

fn cpu(window: Window, pc: u64) -> Cpu {
    let mut cpu = Cpu::new(window, Features::ALL);
    cpu.state.pc = pc;
    (cpu.state.x[RX as usize], cpu.state.x[RY as usize], cpu.state.x[ONE as usize]) = (X, Y, 1);
    cpu
}

/// The registers A and B of each thread, for each seed.
fn ends(threads: &[Vec<Op>], seeds: u64) -> Vec<Vec<(u64, u64)>> {
    let window = Memory::leaked(LEN);
    let at = |n: usize| CODE + n as u64 * APART;
    threads.iter().enumerate().for_each(|(n, code)| write(window, at(n), code));
    let one = |seed| {
        for place in [X, Y] {
            assert!(window.store(place, 0u64).is_some(), "it is in the window");
        }
        let mut all: Vec<Thread> =
            (0..threads.len()).map(|n| Thread::new(cpu(window, at(n)))).collect();
        assert!(weak::run(&mut all, &Executable, seed, 10_000), "seed {seed} ends");
        assert!(all.iter().all(|t| matches!(t.ended(), Some(Trap::Break(_)))));
        all.iter().map(|t| (t.cpu.state.x[A as usize], t.cpu.state.x[B as usize])).collect()
    };
    (0..seeds).map(one).collect()
}

fn load(to: i64, from: i64) -> Op {
    ("ld.d", vec![to, from, 0])
}

fn store(to: i64) -> Op {
    ("st.d", vec![ONE, to, 0])
}

fn dbar(hint: i64) -> Op {
    ("dbar", vec![hint])
}

/// How often an outcome is seen in 2000 runs.
fn seen(threads: &[Vec<Op>], outcome: impl Fn(&[(u64, u64)]) -> bool) -> usize {
    ends(threads, 2000).iter().filter(|end| outcome(end)).count()
}

/// Message passing with what stands between the two accesses of each thread.
fn message(writer: &[Op], reader: &[Op]) -> usize {
    let first = [&[store(RX)], writer, &[store(RY)]].concat();
    let second = [&[load(A, RY)], reader, &[load(B, RX)]].concat();
    seen(&[first, second], |end| end[1] == (1, 0))
}

/// Store buffering.
fn buffering(between: &[Op]) -> usize {
    let first = [&[store(RX)], between, &[load(A, RY)]].concat();
    let second = [&[store(RY)], between, &[load(A, RX)]].concat();
    seen(&[first, second], |end| (end[0].0, end[1].0) == (0, 0))
}

#[test]
fn barriers_order_what_their_hints_say() {
    const ALL: i64 = 0;
    const BEHIND_LOADS: i64 = 0x14;
    const BEFORE_STORES: i64 = 0x12;
    const LOADS: i64 = 0x15;
    const STORES: i64 = 0x1a;
    const SAME_ADDRESS: i64 = 0x700;
    assert!(message(&[], &[]) > 0, "both sides are reordered");
    for writer in [ALL, BEFORE_STORES, STORES] {
        assert!(message(&[dbar(writer)], &[]) > 0, "{writer:x}: the reader's loads");
        for reader in [ALL, BEHIND_LOADS, LOADS] {
            assert!(message(&[], &[dbar(reader)]) > 0, "{reader:x}: the writer's stores");
            assert_eq!(message(&[dbar(writer)], &[dbar(reader)]), 0, "{writer:x} {reader:x}");
        }
    }
    for weak in [BEFORE_STORES, BEHIND_LOADS, LOADS, STORES, SAME_ADDRESS] {
        assert!(buffering(&[dbar(weak)]) > 0, "{weak:x} lets a load overtake a store");
    }
    assert_eq!(buffering(&[dbar(ALL)]), 0);
    let exchange = ("amswap_db.d", vec![0, ONE, RX]);
    assert!(buffering(&[]) > 0);
    assert_eq!(buffering(&[exchange]), 0, "an atomic instruction waits for all");
}

#[test]
fn loads_are_seen_behind_later_stores() {
    let threads = |between: &[Op]| {
        let first = [&[load(A, RX)], between, &[store(RY)]].concat();
        let second = [&[load(A, RY)], between, &[store(RX)]].concat();
        [first, second]
    };
    let both = |end: &[(u64, u64)]| (end[0].0, end[1].0) == (1, 1);
    assert!(seen(&threads(&[]), both) > 0);
    assert_eq!(seen(&threads(&[dbar(0x14)]), both), 0);
}

#[test]
fn accesses_to_one_place_keep_their_order() {
    let reader = vec![load(A, RX), load(B, RX)];
    assert_eq!(seen(&[vec![store(RX)], reader], |end| end[1] == (1, 0)), 0);
    let own = vec![store(RX), load(A, RX)];
    assert_eq!(seen(&[own], |end| end[0].0 != 1), 0);
}

#[test]
fn the_same_seed_gives_the_same_end() {
    let threads = [vec![store(RX), store(RY)], vec![load(A, RY), load(B, RX)]];
    let first = ends(&threads, 300);
    assert_eq!(first, ends(&threads, 300));
    assert!(first.iter().any(|end| *end != first[0]), "seeds differ");
}

#[test]
fn a_fault_is_exact() {
    let window = Memory::leaked(LEN);
    write(window, CODE, &[store(RX), load(A, RX), ("ld.d", vec![B, B, 0]), store(RY)]);
    for seed in 0..50 {
        let mut cpu = cpu(window, CODE);
        cpu.state.x[B as usize] = LEN;
        let mut threads = [Thread::new(cpu)];
        assert!(weak::run(&mut threads, &Executable, seed, 10_000));
        assert_eq!(threads[0].ended(), Some(Trap::Load(LEN)));
        assert_eq!((threads[0].cpu.state.pc, threads[0].cpu.state.x[A as usize]), (CODE + 8, 1));
        assert_eq!(window.load::<u64>(Y), Some(0), "what stands behind did not run");
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }
}

/// Loads and stores of all lengths on a few bytes, and sums.
fn program(random: &mut Random) -> Vec<Op> {
    const LOADS: [&str; 7] = ["ld.b", "ld.h", "ld.w", "ld.d", "ld.bu", "ld.hu", "ld.wu"];
    const STORES: [&str; 4] = ["st.b", "st.h", "st.w", "st.d"];
    let mut code = Vec::new();
    for _ in 0..40 {
        let (register, place) = (9 + random.below(6) as i64, random.below(12) as i64);
        code.push(match random.below(6) {
            0 | 1 => (STORES[random.below(4) as usize], vec![register, RX, place]),
            2 | 3 => (LOADS[random.below(7) as usize], vec![register, RX, place]),
            4 => ("addi.d", vec![register, register, 1 + place]),
            _ => dbar([0, 0x12, 0x14, 0x1a][random.below(4) as usize]),
        });
    }
    code
}

#[test]
fn a_thread_alone_sees_its_own_order() {
    let mut random = Random(5);
    let window = Memory::leaked(LEN);
    for seed in 0..400 {
        write(window, CODE, &program(&mut random));
        let begin = |window: Window| {
            let mut cpu = cpu(window, CODE);
            (9..15).for_each(|n| cpu.state.x[n] = 0x0101_0101_8181_0101 * n as u64);
            let zeros = window.write(X, &[0; 32]);
            assert!(zeros.is_some(), "it is in the window");
            cpu
        };
        let data = |window: Window| {
            let mut bytes = [0; 32];
            assert!(window.read(X, &mut bytes).is_some(), "it is in the window");
            bytes
        };
        let mut plain = begin(window);
        let mut cache = Cache::new(Tier::Interpreter);
        let trap = loop {
            match cache.step(&mut plain, &Executable) {
                Trap::OutOfBudget => {}
                trap => break trap,
            }
        };
        let expected = data(window);
        let mut threads = [Thread::new(begin(window))];
        assert!(weak::run(&mut threads, &Executable, seed, 10_000));
        assert_eq!(threads[0].ended(), Some(trap));
        assert_eq!(threads[0].cpu.state, plain.state, "seed {seed}");
        assert_eq!(data(window), expected, "seed {seed}");
    }
}
