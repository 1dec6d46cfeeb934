//! `--gdb PORT`: a debugger at the guest, by the remote protocol of gdb.
//!
//! The protocol itself is the crate `gdbstub`. Its loop runs on a host thread of its own (see
//! [`server`]); guest threads stop at places of their loop, where their registers are exact, and
//! leave the registers here.
//!
//! - All threads stop when one does. A thread in a system call counts as stopped: its registers are
//!   those before the result, and cannot be written.
//! - A breakpoint is no change of memory: the address cannot be fetched, so blocks end before it on
//!   every tier. A new breakpoint drops the blocks of its page.
//! - A step is one instruction on tier 0, which sees no breakpoints.
//! - Signals are shown to the debugger before they are delivered, and it may withhold them.
//! - A forked child is not debugged; the program after `execve` waits for a debugger anew.
//! - The lock here comes behind that of the code cache and before all others of the process.

mod registers;
pub(super) mod server;

use super::code::Changes;
use super::raw::Pending;
use super::sync::lock;
use littoral_la64::interp::CodeCache;
use littoral_la64::memory::Window;
use littoral_la64::state::State;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Why threads stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// This thread is at a breakpoint.
    Breakpoint(u64),
    /// This thread made its step.
    Stepped(u64),
    /// This thread is about to get a signal.
    Signal(u64, u32),
    /// The program ended with a status.
    Exited(u8),
    /// A signal ended the program.
    Killed(u32),
}

/// What a thread is to do when it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Action {
    /// Run.
    #[default]
    Go,
    /// Run one instruction.
    Step,
    /// Wait for the next time.
    Hold,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Running,
    Stopped,
    /// In a system call.
    Calling,
}

/// A guest thread as the debugger sees it.
struct Seat {
    registers: State,
    place: Place,
    action: Action,
    /// The action was given to this thread, not to all.
    named: bool,
    /// The signal to deliver, 0 for none, when the thread stopped because of one.
    signal: u32,
    pending: Arc<Pending>,
}

/// What the debugger and the guest's threads share.
#[derive(Default)]
struct Shared {
    /// There is a debugger.
    on: bool,
    /// Threads stop at the next place.
    stopping: bool,
    /// Threads that are born wait.
    holding: bool,
    seats: BTreeMap<u64, Seat>,
    breakpoints: BTreeSet<u64>,
    reason: Option<Stop>,
    /// The program has ended and says so as soon as the debugger listens.
    end: Option<Stop>,
}

/// The debugger of a process.
pub(super) struct Debugger {
    shared: Mutex<Shared>,
    changed: Condvar,
    window: Window,
    changes: Arc<Changes>,
    cache: Arc<CodeCache>,
    auxv: Vec<u8>,
}

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Runs until something happens.
    Run,
    /// Runs one instruction.
    Step,
}

impl Debugger {
    /// A debugger for which every thread stops at its beginning.
    pub(super) fn new(
        window: Window,
        changes: Arc<Changes>,
        cache: Arc<CodeCache>,
        auxv: Vec<u8>,
    ) -> Debugger {
        let shared = Shared { on: true, stopping: true, ..Shared::default() };
        let (shared, changed) = (Mutex::new(shared), Condvar::new());
        Debugger { shared, changed, window, changes, cache, auxv }
    }

    /// Lets blocks of these addresses be made anew: their words changed, or a breakpoint stands
    /// there from now on. Without the lock, because adding code takes it.
    fn code_changed(&self, addresses: Range<u64>) {
        self.changes.written_changed();
        self.cache.drop_pages(addresses);
    }

    /// The state, kept from the other threads.
    fn hold(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// Keeps the debugger from doing anything while the process forks.
    pub(super) fn quiet(&self) -> impl Sized + '_ {
        self.hold()
    }

    /// Whether the process is debugged.
    pub(super) fn is_on(&self) -> bool {
        self.hold().on
    }

    /// Nothing is debugged any more: the debugger left, or this is a forked child.
    pub(super) fn turn_off(&self) {
        let mut shared = self.hold();
        shared.on = false;
        shared.breakpoints.clear();
        drop(shared);
        // Blocks that end before a breakpoint stay right without it.
        self.changes.map_changed();
        self.changed.notify_all();
    }

    /// The addresses that cannot be fetched.
    pub(super) fn breakpoints(&self) -> Vec<u64> {
        self.hold().breakpoints.iter().copied().collect()
    }

    /// Whether a thread that cannot fetch `pc` is at a breakpoint.
    pub(super) fn has_breakpoint(&self, pc: u64) -> bool {
        self.hold().breakpoints.contains(&pc)
    }

    /// A thread exists from now on.
    pub(super) fn enter(&self, tid: u64, state: &State, pending: &Arc<Pending>) {
        let mut shared = self.hold();
        let action = if shared.holding { Action::Hold } else { Action::Go };
        let (registers, pending) = (state.clone(), pending.clone());
        let (place, named) = (Place::Running, false);
        let seat = Seat { registers, place, action, named, signal: 0, pending };
        if shared.on {
            shared.seats.insert(tid, seat);
        }
    }

    /// A thread has ended.
    pub(super) fn leave(&self, tid: u64) {
        self.hold().seats.remove(&tid);
        self.changed.notify_all();
    }

    /// A place where the thread stops if it is to: what it does next.
    pub(super) fn attend(&self, tid: u64, state: &mut State) -> Next {
        let mut shared = self.hold();
        let stops = |shared: &mut Shared| {
            let stopping = shared.stopping;
            let seat = shared.seats.get_mut(&tid);
            shared.on && seat.is_some_and(|s| stopping || s.action == Action::Hold)
        };
        if stops(&mut shared) {
            // One that came out of a call keeps the registers that the debugger may have read.
            if let Some(seat) = shared.seats.get_mut(&tid).filter(|s| s.place == Place::Running) {
                (seat.registers, seat.place) = (state.clone(), Place::Stopped);
            }
            self.changed.notify_all();
            let wait = self.changed.wait_while(shared, stops);
            shared = wait.unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let Some(seat) = shared.seats.get_mut(&tid) else { return Next::Run };
        if seat.place == Place::Stopped {
            state.clone_from(&seat.registers);
        }
        seat.place = Place::Running;
        if seat.action == Action::Step && shared.on { Next::Step } else { Next::Run }
    }

    /// Stops all threads for this reason, unless there is one already; a thread that is not the
    /// first finds its reason again when it goes on.
    fn report(&self, reason: Stop) -> bool {
        let mut shared = self.hold();
        let first = shared.on && shared.reason.is_none() && !shared.stopping;
        if first {
            shared.reason = Some(reason);
            stop_all(&mut shared);
        }
        drop(shared);
        self.changed.notify_all();
        first
    }

    /// The thread cannot go on at a breakpoint.
    pub(super) fn at_breakpoint(&self, tid: u64) {
        self.report(Stop::Breakpoint(tid));
    }

    /// The thread did something: if it was to make a step, it has.
    pub(super) fn advanced(&self, tid: u64) {
        let mut shared = self.hold();
        if shared.stopping {
            return;
        }
        let Some(seat) = shared.seats.get_mut(&tid) else { return };
        seat.place = Place::Running;
        if seat.action == Action::Step {
            seat.action = Action::Go;
            drop(shared);
            self.report(Stop::Stepped(tid));
        }
    }

    /// The thread is about to enter a system call.
    pub(super) fn calling(&self, tid: u64, state: &State) {
        let mut shared = self.hold();
        if let Some(seat) = shared.seats.get_mut(&tid) {
            (seat.registers, seat.place) = (state.clone(), Place::Calling);
        }
        drop(shared);
        self.changed.notify_all();
    }

    /// Shows a signal to the debugger: the one to deliver instead, 0 for none.
    pub(super) fn show_signal(&self, tid: u64, state: &mut State, number: u32) -> u32 {
        // Another thread may have stopped first; then this one waits and tries again.
        loop {
            let mut shared = self.hold();
            if !shared.on {
                return number;
            }
            if let Some(seat) = shared.seats.get_mut(&tid) {
                seat.signal = 0;
            }
            drop(shared);
            let was_first = self.report(Stop::Signal(tid, number));
            self.attend(tid, state);
            if was_first {
                let shared = self.hold();
                return if shared.on {
                    shared.seats.get(&tid).map_or(0, |s| s.signal)
                } else {
                    number
                };
            }
        }
    }

    /// The program has ended: waits until the debugger knows or is gone.
    pub(super) fn ended(&self, end: Stop) {
        let mut shared = self.hold();
        shared.end.get_or_insert(end);
        self.changed.notify_all();
        let waits = |shared: &mut Shared| shared.on;
        drop(self.changed.wait_while(shared, waits));
    }
}

/// Lets every thread come to its next place soon.
fn stop_all(shared: &mut Shared) {
    shared.stopping = true;
    for seat in shared.seats.values() {
        seat.pending.attention.store(true, Ordering::Release);
    }
}
