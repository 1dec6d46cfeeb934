//! Threads of one process, of which one has denormal numbers count as zeros: code that was made
//! before it set its MXCSR gives way, and each thread's own MXCSR holds for its arithmetic.

use littoral_la64::interp::{Cache, Cpu, Features, Tier};
use littoral_la64::memory::{Memory, Window};
use littoral_xlate::engine::Engine;
use littoral_xlate::event::Event;
use littoral_xlate::layout::Layout;
use littoral_xlate::x86::float::{Vectors, set_mxcsr};
use littoral_xlate::x86::registers::{Machine, TRAP_BIT};
use littoral_xlate::x86::{Conventions, X86};
use std::sync::atomic::AtomicBool;

const AT: u64 = 0x1000;
/// The first product.
const PRODUCT: u64 = AT + 3;
/// The second product.
const LAST: u64 = AT + 10;
/// Where `ldmxcsr` finds its value.
const CONTROL: u64 = 0x3000;
/// ldmxcsr [rdi]; mulss xmm0, xmm1; setp al; mulss xmm0, xmm1; int3.
const CODE: [u8; 15] =
    [0x0f, 0xae, 0x17, 0xf3, 0x0f, 0x59, 0xc1, 0x0f, 0x9a, 0xc0, 0xf3, 0x0f, 0x59, 0xc1, 0xcc];
/// The least normal number and a half, whose product is denormal, and the product with another
/// half.
const LEAST: u64 = 0x0080_0000;
const HALF: u64 = 0x3f00_0000;
const QUARTER_OF_LEAST: u64 = 0x0020_0000;
const MASKED: u32 = 0x1f80;
const RESULTS_ARE_ZEROS: u32 = 1 << 15;

struct Bench {
    window: Window,
    engine: Engine<X86>,
}

impl Bench {
    fn new(conventions: Conventions) -> Bench {
        let window = Memory::leaked(0x400_0000);
        let areas = vec![2];
        let layout = Layout { areas, entries: 0x300_0000, guest_end: 0x20_0000, alignment: 1 };
        window.write(AT, &CODE).expect("in the window");
        window.store::<u32>(CONTROL, MASKED | RESULTS_ARE_ZEROS).expect("in the window");
        Bench { window, engine: Engine::new(layout, X86(conventions)) }
    }

    fn thread(&self) -> Cpu {
        let mut cpu = Cpu::new(self.window, Features::ALL);
        self.engine.prepare(&mut cpu.state);
        cpu
    }

    /// What a thread's run from an address to its end leaves in xmm0, and how often the code areas
    /// were emptied for it.
    fn run(&self, cpu: &mut Cpu, rip: u64, flags: u64) -> (u64, u32) {
        self.run_with(cpu, (rip, flags), (LEAST, HALF))
    }

    fn run_with(
        &self,
        cpu: &mut Cpu,
        (rip, flags): (u64, u64),
        (first, second): (u64, u64),
    ) -> (u64, u32) {
        let mut machine = Machine { rip, flags, ..Machine::default() };
        machine.gpr[7] = CONTROL;
        machine.write(&mut cpu.state);
        let mut vectors = Vectors::read(&cpu.state);
        (vectors.xmm[0], vectors.xmm[1]) = ([first, 0], [second, 0]);
        vectors.write(&mut cpu.state);
        let mut cache = Cache::new(Tier::Interpreter);
        let (guest, never) = (|pc: u64| (AT..2 * AT).contains(&pc), AtomicBool::new(false));
        let mut emptied = 0;
        for _ in 0..100 {
            match self.engine.run((&mut *cpu, &mut cache), &guest, &never, 1000) {
                Event::Full => {
                    self.engine.renew(&self.window, &cpu.epoch, &|| ());
                    emptied += 1;
                }
                Event::Step => {}
                event => {
                    assert_eq!(event, Event::Break(3));
                    return (Vectors::read(&cpu.state).xmm[0][0], emptied);
                }
            }
        }
        panic!("it does not end");
    }
}

#[test]
fn a_thread_that_flushes_does_not_run_code_from_before() {
    for without_lbt in [false, true] {
        let bench = Bench::new(Conventions { without_lbt, ..Conventions::default() });
        let (mut first, mut second) = (bench.thread(), bench.thread());
        // Code of both products is there, and of what comes behind `ldmxcsr`.
        assert_eq!(bench.run(&mut first, PRODUCT, 0x202), (QUARTER_OF_LEAST, 0));
        // The second thread sets its MXCSR; then it finds it set.
        assert_eq!(bench.run(&mut second, AT, 0x202), (0, 1));
        assert_eq!(bench.run(&mut second, PRODUCT, 0x202), (0, 0));
        // The first one still has denormal numbers.
        assert_eq!(bench.run(&mut first, PRODUCT, 0x202), (QUARTER_OF_LEAST, 0));
        assert_eq!(Vectors::read(&first.state).mxcsr, MASKED);
        assert_eq!(Vectors::read(&second.state).mxcsr, MASKED | RESULTS_ARE_ZEROS | 0x30);
        // The second one has them again.
        set_mxcsr(&mut second.state, MASKED);
        assert_eq!(bench.run(&mut second, PRODUCT, 0x202), (QUARTER_OF_LEAST, 0));
    }
}

/// In code that flushes from the begin, and without another way out of it than by the result.
#[test]
fn a_tiny_product_of_other_numbers_becomes_zero() {
    const TINY: u64 = 0x1f80_0000;
    const SQUARE: u64 = 0x0020_0000;
    let bench = Bench::new(Conventions { flushes: true, ..Conventions::default() });
    let mut thread = bench.thread();
    for (mxcsr, expected) in [(MASKED, SQUARE), (MASKED | RESULTS_ARE_ZEROS, 0)] {
        set_mxcsr(&mut thread.state, mxcsr);
        let (square, _) = bench.run_with(&mut thread, (LAST, 0x202), (TINY, TINY));
        assert_eq!(square, expected, "{mxcsr:x}");
        let raised = if expected == 0 { 0x30 } else { 0 };
        assert_eq!(Vectors::read(&thread.state).mxcsr, mxcsr | raised);
    }
}

/// A loop over numbers that are not denormal leaves translated code for its first round alone.
#[test]
fn other_numbers_stay_in_translated_code() {
    const COUNT: u64 = 1000;
    // mulss xmm0, xmm1; ucomiss xmm0, xmm1; dec ecx; jne back; int3.
    const LOOP: [u8; 12] = [0xf3, 0x0f, 0x59, 0xc1, 0x0f, 0x2e, 0xc1, 0xff, 0xc9, 0x75, 0xf5, 0xcc];
    let bench = Bench::new(Conventions { flushes: true, ..Conventions::default() });
    bench.window.write(AT, &LOOP).expect("in the window");
    let mut cpu = bench.thread();
    let mut machine = Machine { rip: AT, flags: 0x202, ..Machine::default() };
    machine.gpr[1] = COUNT;
    machine.write(&mut cpu.state);
    let mut vectors = Vectors { mxcsr: MASKED, ..Vectors::default() };
    (vectors.xmm[0], vectors.xmm[1]) = ([0x3f80_0000, 0], [0x3f80_0001, 0]);
    vectors.write(&mut cpu.state);
    let mut cache = Cache::new(Tier::Interpreter);
    let (guest, never) = (|pc: u64| (AT..2 * AT).contains(&pc), AtomicBool::new(false));
    let event = bench.engine.run((&mut cpu, &mut cache), &guest, &never, 1000 * COUNT);
    assert_eq!(event, Event::Break(3));
    let product = (0..COUNT).fold(1f32, |x, _| x * f32::from_bits(0x3f80_0001));
    assert_eq!(Vectors::read(&cpu.state).xmm[0][0], u64::from(product.to_bits()));
    let exits = bench.engine.figures().exits_count;
    assert!(exits < 10, "{exits} exits");
}

/// As behind a signal handler that has changed MXCSR in its frame.
#[test]
fn a_thread_whose_mxcsr_another_sets_flushes_from_its_next_instruction() {
    let bench = Bench::new(Conventions::default());
    let mut thread = bench.thread();
    assert_eq!(bench.run(&mut thread, PRODUCT, 0x202), (QUARTER_OF_LEAST, 0));
    set_mxcsr(&mut thread.state, MASKED | RESULTS_ARE_ZEROS);
    assert_eq!(bench.run(&mut thread, PRODUCT, 0x202), (0, 1));
}

#[test]
fn a_thread_that_steps_flushes_too() {
    let bench = Bench::new(Conventions::default());
    let mut thread = bench.thread();
    assert_eq!(bench.run(&mut thread, PRODUCT, 0x202 | TRAP_BIT), (QUARTER_OF_LEAST, 0));
    assert_eq!(bench.run(&mut thread, AT, 0x202 | TRAP_BIT), (0, 1));
}
