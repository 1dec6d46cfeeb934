//! Code that the host's own processor executes (`littoral_la64::native`).
//!
//! - Code is entered at exact addresses alone, because the routine needs r21 for the jump.
//! - An instruction that faults is executed again on tier 0, which says what it raised; so is the
//!   rest of its guest instruction. Tier 0 has what the processor may lack, and a pair of `ll` and
//!   `sc` ends there that began there.
//! - Tier 0 does not execute the routine: code that leaves arrives at an address without code.

use super::Engine;
use crate::guest::Architecture;
use crate::layout::Layout;
use littoral_base::mutant;
use littoral_la64::front::Settings;
use littoral_la64::interp::{Cache, Cpu, Trap};
use littoral_la64::native::{Left, Processor, Routine};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The processor counts no instructions, so a run with fewer than these is tier 0's.
pub(super) const BUDGET_MIN: u64 = 1 << 62;
/// Words behind a region that leave for its exits, at most.
pub(super) const WORDS_MORE: usize = 1 << 13;
/// Holds the address behind the `bl` by which code leaves.
const EXIT: usize = 1;
/// Instructions of tier 0 behind a fault; more than a guest instruction has without a loop.
const STEPS_MAX: u32 = 256;
/// Behind so many a loop of one guest instruction goes on on the processor.
const STEPS_OF_LOOP: u32 = 64;

/// What executes code.
#[derive(Debug)]
pub(super) struct Native {
    processor: Arc<dyn Processor>,
    pub(super) routine: Arc<Routine>,
    /// Where the first routine lies.
    begin: u64,
}

impl Native {
    /// What the settings ask for, where code of the architecture can be executed.
    pub(super) fn of<A: Architecture>(layout: &Layout, settings: &Settings) -> Option<Native> {
        let processor = settings.native.clone()?;
        let begins: Vec<u64> = layout.begins().collect();
        let begin = *begins.first()?;
        let has_lbt = processor.has_lbt() && !settings.without_lbt;
        let routine = Arc::new(Routine::new(A::LEAVES, has_lbt));
        processor.place(&routine, &begins);
        Some(Native { processor, routine, begin })
    }
}

impl<A: Architecture> Engine<A> {
    /// Runs code; `None` if it goes on.
    pub(super) fn run_native(
        &self,
        native: &Native,
        (cpu, cache): (&mut Cpu, &mut Cache),
        attention: &AtomicBool,
    ) -> Option<Trap> {
        if !self.is_exact(cpu.state.pc) {
            return self.finish(cpu, cache);
        }
        let left = native.processor.run(cpu, native.begin, attention);
        cpu.state.v[usize::from(A::LEAVES.thread)].0[2] = 0;
        match left {
            Left::Exit => Some(self.left(cpu, cpu.state.pc)),
            Left::Attention => Some(Trap::Attention),
            Left::Fault if !self.layout.is_code(cpu.state.pc) => Some(Trap::Fetch(cpu.state.pc)),
            Left::Fault => self.finish(cpu, cache),
        }
    }

    /// Code has left by the `bl` at an address.
    fn left(&self, cpu: &mut Cpu, at: u64) -> Trap {
        let (exit, is_call) = self.lock().store.left(at);
        let is_behind = is_call && !mutant!("xlate_native_calls_return_to_themselves");
        cpu.state.pc = if is_behind { exit.wrapping_add(4) } else { exit };
        if is_call { Trap::Syscall } else { Trap::Break(0) }
    }

    /// Code that tier 0 executes has left.
    pub(super) fn leave_tier_0(&self, cpu: &mut Cpu) -> Trap {
        let at = cpu.state.x[EXIT].wrapping_sub(4);
        if A::LEAVES.keeps_link {
            cpu.state.x[EXIT] = cpu.state.v[usize::from(A::LEAVES.thread)].0[3];
        }
        self.left(cpu, at)
    }

    /// Executes the rest of a guest instruction on tier 0; `None` unless it raised something.
    fn finish(&self, cpu: &mut Cpu, cache: &mut Cache) -> Option<Trap> {
        let begun = self.mark(cpu.state.pc).map(|(mark, _)| mark.pc);
        for step in 0..STEPS_MAX {
            match cache.step(cpu, &self.areas()) {
                Trap::OutOfBudget => {}
                trap => return Some(trap),
            }
            // Another instruction: a loop around `sc` may lead back to where this one begins.
            let mark =
                self.mark(cpu.state.pc).filter(|(mark, is_begin)| *is_begin && mark.is_exact);
            if mark.is_some_and(|(mark, _)| Some(mark.pc) != begun || step > STEPS_OF_LOOP) {
                break;
            }
        }
        None
    }

    /// Whether the guest's state is exact before the instruction at an LA64 address.
    fn is_exact(&self, pc: u64) -> bool {
        self.mark(pc).is_some_and(|(mark, is_begin)| is_begin && mark.is_exact)
    }

    /// Whether code that tier 0 executes arrives at the address where it leaves.
    pub(super) fn is_leaving(&self, pc: u64) -> bool {
        let at = pc % crate::layout::AREA_BYTES;
        let is_leave = |native: &Native| at == native.routine.leave();
        self.layout.is_code(pc) && self.native.as_ref().is_some_and(is_leave)
    }
}
