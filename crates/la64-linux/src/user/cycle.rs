//! The loop of a guest thread: interpreter, then a system call, a signal or a fault, and again.
//!
//! Invariants
//! - A signal that is pending when a system call is reached comes first; the call runs after it.
//! - Decoded blocks are dropped before the interpreter is entered again when code has changed that
//!   is never compared with memory (see `thread`).

use super::raw;
use super::thread::Thread;
use super::{signal, syscall};
use littoral_la64::interp::Trap;

/// Starts noting signals and runs to the thread's end, and the process's if it is the last one.
/// Afterwards the host thread has every signal blocked.
pub(super) fn run(thread: &mut Thread) {
    raw::adopt(&thread.pending);
    raw::set_mask(thread.mask);
    while !thread.ended {
        thread.refresh();
        if thread.process.options.trace {
            thread.trace();
        }
        let budget = thread.budget();
        let attention = &thread.pending.attention;
        let trap = thread.cache.run(&mut thread.cpu, &thread.code, attention, budget);
        thread.observe();
        handle(thread, trap);
        thread.give_way();
    }
    raw::abandon(&thread.pending);
    thread.leave();
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
            thread.process.changes.fixed_changed();
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
