//! A thread that leaves translated code without a word, as a child of `vfork` does that is killed
//! there, does not keep the code areas from being emptied.

use littoral_la64::interp::{Cache, Cpu, Features, Tier};
use littoral_la64::memory::Memory;
use littoral_xlate::engine::Engine;
use littoral_xlate::layout::Layout;
use littoral_xlate::x86::{Conventions, X86};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;

const WINDOW_LEN: u64 = 0x400_0000;

/// The panic takes the place of the kill. Without `is_outside` the last call never returns.
#[test]
fn code_is_emptied_when_the_child_that_was_inside_is_gone() {
    let window = Memory::leaked(WINDOW_LEN);
    let layout = Layout { areas: vec![2], entries: 0x300_0000, guest_end: 0x20_0000, alignment: 1 };
    let engine = Engine::new(layout, X86(Conventions::default()));
    let mut cpu = Cpu::new(window, Features::ALL);
    engine.prepare(&mut cpu.state);
    let mut cache = Cache::new(Tier::Interpreter);
    let never = AtomicBool::new(false);
    let killed = catch_unwind(AssertUnwindSafe(|| {
        let killing = |_: u64| -> bool { panic!("killed") };
        engine.run((&mut cpu, &mut cache), &killing, &never, 1)
    }));
    assert!(killed.is_err(), "it was inside");
    engine.is_outside(&cpu);
    engine.renew(&window, &cpu.epoch, &|| {});
}
