//! A run of one LA64 instruction executes a guest instruction, also where a block begins by
//! counting its instructions: else `--trace` with `--stats` would show the first instruction
//! forever, and a store to the page of its own code would be refused forever.

use littoral_la64::front::{Event, Settings};
use littoral_la64::interp::{Cache, Cpu, Features, Tier};
use littoral_la64::memory::Memory;
use littoral_xlate::engine::Engine;
use littoral_xlate::guest::Architecture;
use littoral_xlate::layout::Layout;
use littoral_xlate::mips64::{self, Mips64};
use littoral_xlate::x86::{self, X86};
use std::sync::atomic::AtomicBool;

const AT: u64 = 0x1000;

/// Where a run of one LA64 instruction stops that begins at `AT`, and what was counted.
fn one<A: Architecture>(architecture: A, alignment: u64, code: &[u8]) -> (u64, u64) {
    let window = Memory::leaked(0x400_0000);
    let layout = Layout { areas: vec![2], entries: 0x300_0000, guest_end: 0x20_0000, alignment };
    let settings = Settings { counts: true, ..Settings::default() };
    let engine = Engine::new(layout, architecture).with(settings);
    window.write(AT, code).expect("in the window");
    let mut cpu = Cpu::new(window, Features::ALL);
    engine.prepare(&mut cpu.state);
    cpu.state.pc = AT;
    let mut cache = Cache::new(Tier::Interpreter);
    let (guest, never) = (|pc: u64| (AT..2 * AT).contains(&pc), AtomicBool::new(false));
    let event = engine.run((&mut cpu, &mut cache), &guest, &never, 1);
    assert_eq!(event, Event::OutOfBudget);
    (cpu.state.pc, cpu.state.v[A::COUNTS].0[3])
}

#[test]
fn a_counted_instruction_is_executed() {
    // inc eax; inc eax; jmp to itself.
    let conventions = x86::Conventions { counts: true, ..x86::Conventions::default() };
    let code = [0xff, 0xc0, 0xff, 0xc0, 0xeb, 0xfe];
    assert_eq!(one(X86(conventions), 1, &code), (AT + 2, 1));
    // addiu $2,$2,1, twice; beq $0,$0,-1; nop
    let architecture = Mips64 { conventions: mips64::Conventions::default(), counts: true };
    let words = [0x2442_0001u32, 0x2442_0001, 0x1000_ffff, 0];
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(one(architecture, 4, &code), (AT + 4, 1));
}
