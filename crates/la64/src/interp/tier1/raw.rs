//! Where generated code and Rust meet: entering code, and the calls of tier 0 from it.
//!
//! - The calls get the address of the [`Cpu`] whose code runs; nothing else refers to it meanwhile,
//!   because the dispatch loop handed its only reference to [`enter`].
//! - They run under the host's MXCSR, as all compiled code must. Checked by `answer`.
#![allow(unsafe_code)]

use super::super::raw::Alone;
use super::super::{Cpu, Exit};
use super::adopted::Slows;
use super::control::Floats;
use super::frame::exit;
use super::{control, layout};
use crate::jit::raw::Faults;
use std::sync::atomic::AtomicBool;

/// What the calls answer when the block goes on.
const GO_ON: i64 = -1;

/// Bits of MXCSR that are no flags.
const CONTROL: u32 = !0x3f;

fn leave(exit: u32, retired: u64) -> i64 {
    // Exits here are near the end of u32, so the sum would be negative: one bit less is enough.
    (u64::from(exit & 0x7fff_ffff) << 32 | retired) as i64
}

/// The number of an exit as `leave` gives it.
pub(super) fn full_exit(exit: u32) -> u32 {
    if exit >= 0x7fff_0000 { exit | 0x8000_0000 } else { exit }
}

fn answer(alone: &Alone, cpu: &mut Cpu) -> i64 {
    debug_assert_eq!(
        crate::jit::raw::float_control() & CONTROL,
        cpu.frame.host_control & CONTROL,
        "compiled code runs under the host's MXCSR"
    );
    match alone.run(cpu) {
        (Exit::Direct, _) => GO_ON,
        (Exit::Trap, retired) => leave(exit::TRAP, retired),
        (Exit::Indirect, retired) => leave(exit::ELSEWHERE, retired),
    }
}

/// Runs an instruction on tier 0.
extern "sysv64" fn run_alone(cpu: *mut Cpu, alone: *const Alone) -> i64 {
    // SAFETY: see the module; the instruction belongs to the block that runs, which its engine
    // keeps.
    let (cpu, alone) = unsafe { (&mut *cpu, &*alone) };
    cpu.frame.alone_calls += 1;
    answer(alone, cpu)
}

/// As `run_alone`, for an instruction that reads or writes the FCSR.
extern "sysv64" fn run_control(cpu: *mut Cpu, alone: *const Alone) -> i64 {
    // SAFETY: as `run_alone`.
    let (cpu, alone) = unsafe { (&mut *cpu, &*alone) };
    cpu.frame.alone_calls += 1;
    control::merge(cpu);
    let before = control::floats(cpu);
    let answer = answer(alone, cpu);
    control::prepare(cpu);
    unless_changed(cpu, alone, before, answer)
}

/// The answer, unless code for another kind of floating point is needed from here on.
fn unless_changed(cpu: &mut Cpu, alone: &Alone, before: Floats, answer: i64) -> i64 {
    // In the x87 stack mode everything runs on tier 0.
    let goes_on = control::floats(cpu) == before && cpu.state.lbt.stack_mode == 0;
    if answer != GO_ON || goes_on {
        return answer;
    }
    cpu.state.pc = alone.pc() + 4;
    leave(exit::ELSEWHERE, alone.before() + 1)
}

/// Runs the instruction whose slow way's call returns to `back` on tier 0.
extern "sysv64" fn run_slow(cpu: *mut Cpu, back: u64) -> i64 {
    // SAFETY: see the module.
    let cpu = unsafe { &mut *cpu };
    // SAFETY: `enter` set it for the time of its call; the list belongs to the code that runs.
    let slows = unsafe { &*(cpu.frame.slows as *const Slows) };
    cpu.frame.slow_calls += 1;
    let slow = slows.find(back);
    let inst = (slows.decode)(cpu, slow.word, slow.pc);
    let alone = Alone::new(slow.pc, inst, slow.before);
    let before = control::floats(cpu);
    let answer = answer(&alone, cpu);
    control::note_slow(cpu);
    unless_changed(cpu, &alone, before, answer)
}

/// Addresses of the calls, by the numbers of `routines::Call`.
fn helpers() -> [u64; 3] {
    [run_alone as *const (), run_control as *const (), run_slow as *const ()].map(|f| f as u64)
}

/// What code needs to run.
pub(super) struct Ground<'a> {
    /// Address of the entry routine.
    pub(super) entry: u64,
    /// Address of the table of jumps.
    pub(super) jumps: u64,
    pub(super) slows: &'a Slows,
    pub(super) faults: &'a Faults,
    pub(super) attention: &'a AtomicBool,
}

/// Runs code at `code` until it leaves.
pub(super) fn enter(ground: &Ground<'_>, cpu: &mut Cpu, code: u64) {
    cpu.frame.slows = std::ptr::from_ref(ground.slows) as u64;
    cpu.frame.jumps = ground.jumps;
    cpu.frame.helpers = helpers();
    cpu.frame.attention = ground.attention.as_ptr() as u64;
    cpu.frame.epoch = cpu.epoch.address();
    let state = std::ptr::from_mut(cpu).cast::<u8>().wrapping_add(layout::BIAS as usize);
    // SAFETY: the engine's own entry routine, with the value its code expects in the state
    // register; the lists are borrowed until this returns.
    unsafe { crate::jit::raw::enter(ground.entry, state, code, ground.faults) };
}
