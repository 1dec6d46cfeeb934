//! Runs of code on the played processor: registers, signals, faults.

use super::*;
use crate::asm::{self, Asm};
use crate::interp::Features;
use crate::memory::{Memory, Window};
use crate::state::State;

const AREA: u64 = 0x1_0000;
const CODE: u64 = 0x1_1000;
const SPARE: u64 = 0x4_0000;
const WINDOW_LEN: u64 = 0x8_0000;
const LEAVES: Leaves = Leaves { thread: 17, keeps_link: false };
const LINK: usize = 21;

/// A window with a routine at [`AREA`] and code at [`CODE`], and what runs it.
struct Bench {
    window: Window,
    processor: Emulated,
    routine: Routine,
}

impl Bench {
    fn new(has_lbt: bool, code: &[u32]) -> Bench {
        let window = Memory::leaked(WINDOW_LEN);
        let routine = Routine::new(LEAVES, has_lbt);
        let features = Features { lbt: has_lbt, ..Features::ALL };
        let processor = Emulated::new(features, AREA..SPARE, SPARE);
        processor.place(&routine, &[AREA]);
        let put = |at: u64, words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            window.write(at, &bytes).unwrap();
        };
        put(AREA, routine.words());
        put(CODE, code);
        Bench { window, processor, routine }
    }

    /// A `bl` to where code leaves, for the word `n` of the code.
    fn leave(n: usize, has_lbt: bool) -> u32 {
        let to = AREA + Routine::new(LEAVES, has_lbt).leave();
        asm::word("bl", &[to as i64 - (CODE as i64 + 4 * n as i64)]).unwrap()
    }

    fn cpu(&self, has_lbt: bool) -> Cpu {
        let mut cpu = Cpu::new(self.window, Features::ALL);
        let state = &mut cpu.state;
        for n in 1..32 {
            state.x[n] = 0x0101_0101 * n as u64;
            state.v[n].0 = [1, 2, 3, 4].map(|lane| lane << 40 | n as u64);
        }
        state.fcc = [1, 0, 1, 1, 0, 0, 1, 0];
        state.fcsr = 0x1f << 16 | 0x200 | 0x10;
        if has_lbt {
            state.lbt.scratch = [5, 6, 7, 8];
            state.lbt.flags = 0x8d5;
        }
        state.pc = CODE;
        cpu
    }
}

/// Adds its number to each register but r1 and r21, and leaves.
fn additions(has_lbt: bool) -> Vec<u32> {
    let mut asm = Asm::default();
    for n in (2..32).filter(|&n| n != LINK as i64) {
        asm.op("addi.d", &[n, n, n]);
    }
    asm.op("vaddi.du", &[5, 5, 1]);
    let leave = Bench::leave(asm.len(), has_lbt);
    let mut words = asm.finish().unwrap();
    words.push(leave);
    words
}

/// What [`additions`] makes of a state when `done` of its instructions have retired.
fn added(before: &State, done: u64) -> State {
    let mut state = before.clone();
    let registers = (2..32).filter(|&n| n != LINK);
    for n in registers.take(done as usize) {
        state.x[n] += n as u64;
    }
    if done > 29 {
        state.v[5].0[0] += 1;
        state.v[5].0[1] += 1;
    }
    state.pc = CODE + 4 * done;
    state.v[usize::from(LEAVES.thread)].0[2] = SPARE;
    state
}

/// Without what may differ: scratch, and the sink.
fn compared(state: &State) -> State {
    let mut state = state.clone();
    (state.x[1], state.x[LINK], state.instructions) = (0, 0, 0);
    state.v[usize::from(LEAVES.thread)].0[2] = SPARE;
    state
}

#[test]
fn a_run_takes_registers_to_code_and_back_and_keeps_its_callers() {
    for has_lbt in [true, false] {
        let code = additions(has_lbt);
        let bench = Bench::new(has_lbt, &code);
        let mut cpu = bench.cpu(has_lbt);
        let before = cpu.state.clone();
        let left = bench.processor.run(&mut cpu, AREA, &AtomicBool::new(false));
        assert_eq!(left, Left::Exit);
        assert_eq!(compared(&cpu.state), compared(&added(&before, code.len() as u64 - 1)));
        assert_eq!(cpu.state.pc, CODE + 4 * (code.len() as u64 - 1), "the pc is the bl");
    }
}

#[test]
fn a_run_does_not_begin_while_attention_is_asked_for() {
    let bench = Bench::new(true, &additions(true));
    let mut cpu = bench.cpu(true);
    let before = cpu.state.clone();
    assert_eq!(bench.processor.run(&mut cpu, AREA, &AtomicBool::new(true)), Left::Attention);
    assert_eq!(cpu.state, before);
}

#[test]
fn a_run_interrupted_anywhere_is_whole() {
    let code = additions(true);
    let bench = Bench::new(true, &code);
    let whole = compared(&added(&bench.cpu(true).state, code.len() as u64 - 1));
    let (mut begun, mut inside, mut ended) = (0, 0, 0);
    for after in 0..2 * bench.routine.words().len() as u64 {
        let mut cpu = bench.cpu(true);
        let before = cpu.state.clone();
        bench.processor.interrupt_after(after);
        match bench.processor.run(&mut cpu, AREA, &AtomicBool::new(false)) {
            Left::Attention if cpu.state.pc == CODE && cpu.state == before => begun += 1,
            Left::Attention => {
                let done = (cpu.state.pc - CODE) / 4;
                assert_eq!(compared(&cpu.state), compared(&added(&before, done)), "{after}");
                inside += 1;
            }
            Left::Exit => {
                assert_eq!(compared(&cpu.state), whole, "{after}");
                ended += 1;
            }
            Left::Fault => panic!("nothing faults: {after}"),
        }
    }
    assert!(begun > 50 && inside >= code.len() - 1 && ended > 50, "{begun} {inside} {ended}");
}

#[test]
fn code_that_needs_r1_finds_it_again() {
    let leaves = Leaves { thread: 3, keeps_link: true };
    let mut bench = Bench::new(true, &[]);
    bench.routine = Routine::new(leaves, true);
    bench.processor.place(&bench.routine, &[AREA]);
    let words = leaves.words(&bench.routine, AREA, CODE + 4).unwrap();
    assert_eq!(words.len(), 2);
    for (at, words) in [(AREA, bench.routine.words()), (CODE, &words)] {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bench.window.write(at, &bytes).unwrap();
    }
    let mut cpu = bench.cpu(true);
    cpu.state.x[1] = 0x1234_5678_9abc;
    assert_eq!(bench.processor.run(&mut cpu, AREA, &AtomicBool::new(false)), Left::Exit);
    assert_eq!((cpu.state.pc, cpu.state.x[1]), (CODE + 4, 0x1234_5678_9abc));
}

#[test]
fn a_fault_leaves_at_its_instruction() {
    let load = asm::word("ld.d", &[5, 6, 8]).unwrap();
    let unknown = 0xffff_ffff;
    let divide = asm::word("fdiv.d", &[1, 2, 3]).unwrap();
    for word in [load, unknown, divide] {
        let addition = asm::word("addi.d", &[4, 4, 1]).unwrap();
        let bench = Bench::new(true, &[addition, word, Bench::leave(2, true)]);
        let mut cpu = bench.cpu(true);
        cpu.state.x[6] = WINDOW_LEN;
        (cpu.state.v[2].0[0], cpu.state.v[3].0[0]) = (0, 0);
        let mut expected = cpu.state.clone();
        let left = bench.processor.run(&mut cpu, AREA, &AtomicBool::new(false));
        assert_eq!((left, cpu.state.pc), (Left::Fault, CODE + 4));
        expected.x[4] += 1;
        expected.pc = CODE + 4;
        cpu.state.fcsr &= !crate::state::fcsr::CAUSE;
        assert_eq!(compared(&cpu.state), compared(&expected));
    }
}

#[test]
fn what_the_latest_operation_raised_does_not_trap_again() {
    let bench = Bench::new(true, &[Bench::leave(0, true)]);
    let mut cpu = bench.cpu(true);
    cpu.state.fcsr |= 0x10 << 24;
    assert_eq!(bench.processor.run(&mut cpu, AREA, &AtomicBool::new(false)), Left::Exit);
    assert_eq!(cpu.state.fcsr, 0x1f << 16 | 0x200 | 0x10);
}

#[test]
fn addresses_of_a_routine_are_told_apart() {
    let routine = Routine::new(LEAVES, true);
    let places = routine.places();
    let at = |offset: u64| position(places, [AREA, 2 * AREA], 2 * AREA + offset);
    assert_eq!(at(0), Position::Routine);
    assert_eq!(at(places.entering.start), Position::Entering);
    assert_eq!(at(places.entering.end - 4), Position::Entering);
    for routine in [places.leave, places.interrupted, places.abandon, places.len - 4] {
        assert_eq!(at(routine), Position::Routine);
    }
    assert_eq!(at(places.len), Position::Code);
    assert_eq!(position(places, [AREA], 0), Position::Code);
}
