//! The loop of a guest thread: interpreter, then a system call, a signal or a fault, and again.
//!
//! Invariants
//! - A signal that is pending when a system call is reached comes first; the call runs after it.
//! - Decoded blocks are dropped before the interpreter is entered again when code has changed.

use super::process::{Process, lock};
use super::raw;
use super::space::PROT_EXEC;
use super::thread::Thread;
use super::{signal, syscall};
use littoral_la64::interp::{Cpu, Fetch, Trap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

struct FromSpace<'a>(&'a Process);

impl Fetch for FromSpace<'_> {
    fn fetch(&self, cpu: &Cpu, pc: u64) -> Option<u32> {
        let executable = lock(&self.0.space).area(pc).is_some_and(|(_, a)| a.prot & PROT_EXEC != 0);
        cpu.window.load(pc).filter(|_| executable)
    }
}

/// Starts noting signals and runs to the thread's end.
pub(super) fn run(thread: &mut Thread) {
    raw::adopt(&thread.pending);
    raw::set_mask(thread.mask);
    while !thread.ended {
        let process = thread.process.clone();
        thread.refresh();
        if process.options.trace {
            thread.trace();
        }
        let budget = if process.options.trace { 1 } else { u64::MAX };
        let attention = &thread.pending.attention;
        let trap = thread.cache.run(&mut thread.cpu, &FromSpace(&process), attention, budget);
        handle(thread, trap);
        thread.give_way();
    }
    let pending = &thread.pending;
    let mut threads = lock(&thread.process.threads);
    threads.retain(|t| !Arc::ptr_eq(t, pending));
    thread.process.instructions.fetch_add(thread.cpu.state.instructions, Ordering::Relaxed);
}

fn handle(thread: &mut Thread, trap: Trap) {
    match trap {
        Trap::Syscall if thread.pending.any() => {
            // The signal comes first; the system call runs after its handler.
            thread.cpu.state.pc -= 4;
            thread.cpu.state.instructions -= 1;
            signals(thread);
        }
        Trap::Syscall => {
            thread.halt();
            syscall::run(thread);
        }
        Trap::Attention => signals(thread),
        Trap::CodeChanged => {
            lock(&thread.process.space).code_generation += 1;
            thread.process.code_changed();
        }
        Trap::OutOfBudget => {}
        fault => signal::fault(thread, fault),
    }
}

/// Delivers what is pending.
fn signals(thread: &mut Thread) {
    while let Some((number, info)) = thread.pending.take() {
        signal::deliver(thread, number, info, false);
        signal::apply_mask(thread);
    }
}
