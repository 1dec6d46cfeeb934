//! The loop of a guest thread: interpreter, then a system call, a signal or a fault, and again.
//!
//! Invariants
//! - A signal that is pending when a system call is reached comes first; the call runs after it.
//!   Checked by `a_futex_wait_with_a_timeout_ends_at_a_signal`,
//!   `queued_real_time_signals_arrive_one_by_one`.

use super::raw;
use super::thread::Thread;
use super::{signal, syscall};
use littoral_la64::front::Event;

/// Starts noting signals and runs to the thread's end, and the process's if it is the last one.
/// Afterwards the host thread has every signal blocked.
pub(super) fn run(thread: &mut Thread) {
    if !thread.lent {
        raw::adopt(&thread.pending);
        thread.pending.hold(thread.mask);
        raw::set_mask(thread.mask);
        thread.enter_debugger();
    }
    while !thread.ended {
        let steps = thread.attend_debugger();
        if thread.process.options.trace {
            thread.trace();
        }
        let budget = thread.budget();
        let event = match steps {
            true => thread.step(),
            false => thread.run(budget),
        };
        thread.observe();
        handle(thread, event);
        if let Some(debugger) = &thread.process.debugger {
            debugger.advanced(thread.tid());
        }
        thread.give_way();
    }
    raw::abandon(&thread.pending);
    thread.leave();
}

fn handle(thread: &mut Thread, event: Event) {
    match event {
        Event::Syscall if thread.pending.any() => {
            // The signal comes first; the system call runs after its handler.
            thread.cpu.state.pc -= thread.process.abi.call_len;
            thread.uncount_call();
            signals(thread);
        }
        Event::Syscall => {
            thread.halt();
            if let Some(debugger) = &thread.process.debugger {
                debugger.calling(thread.tid(), &thread.cpu.state);
            }
            syscall::run(thread);
        }
        Event::Attention => signals(thread),
        Event::CodeChanged => thread.process.drop_all_code(),
        Event::Full => thread.process.renew_code(),
        Event::OutOfBudget => {}
        Event::Fetch(at) if is_breakpoint(thread, at) => {}
        fault => match signal::write_watched(thread, fault) {
            Some(event) => handle(thread, event),
            None => signal::fault(thread, fault),
        },
    }
}

/// Delivers what is pending.
fn signals(thread: &mut Thread) {
    while let Some((number, info)) = thread.pending.take() {
        signal::deliver(thread, number, info, false);
        signal::apply_mask(thread);
    }
}

/// Whether the thread is at a breakpoint, which then stops all threads.
fn is_breakpoint(thread: &Thread, at: u64) -> bool {
    let Some(debugger) = &thread.process.debugger else { return false };
    let found = debugger.has_breakpoint(at);
    if found {
        debugger.at_breakpoint(thread.tid());
    }
    found
}
