//! The host processor executes: calls of a routine, and what a handler of signals must know of it.
//!
//! Unsafe because code of the guest runs with the rights of this process: it reaches whatever
//! memory it computes an address of, as under any translator whose guest has the host's addresses.
#![allow(unsafe_code)]

use super::routine::{Places, Routine};
use super::{Left, Position, Processor, position, reason};
use crate::interp::Cpu;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The most routines of a process.
const ROUTINES_MAX: usize = 8;
const LINK: usize = 21;

/// Where routines lie, 0 for none.
static BEGINS: [AtomicU64; ROUTINES_MAX] = [const { AtomicU64::new(0) }; ROUTINES_MAX];
/// What is in them.
static PLACES: OnceLock<Places> = OnceLock::new();
/// Code lies below this address, and nothing of this program does; 0 while there is none. The
/// handler of signals of the crate `littoral-la64-linux` reads it before it can call anything.
#[unsafe(export_name = "la64_native_end")]
static END: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The `Cpu` of this thread's run, or null.
    static RUNNING: Cell<*mut Cpu> = const { Cell::new(std::ptr::null_mut()) };
}

#[derive(Debug)]
struct Host {
    has_lbt: bool,
}

/// The processor that this program runs on, for code in a window that begins at address 0.
///
/// # Safety
/// Addresses below `end` are the window's alone. Each thread that runs code has a handler of
/// SIGSEGV, SIGBUS, SIGFPE and SIGILL on a stack of its own, which goes on where [`interrupt`]
/// says. Code is that of a translator whose guest may reach what this process may reach.
pub unsafe fn host(end: u64, has_lbt: bool) -> Arc<dyn Processor> {
    END.store(end, Ordering::SeqCst);
    Arc::new(Host { has_lbt })
}

/// Whether an interrupted thread was below the addresses of this program.
pub fn is_code(pc: u64) -> bool {
    pc < END.load(Ordering::Relaxed)
}

/// Where a thread goes on that a signal has interrupted at `pc`, with r21 as it is to be then;
/// `None` if it goes on there. `is_fault` tells a fault from a signal that asks for attention.
pub fn interrupt(pc: u64, r21: &mut u64, is_fault: bool) -> Option<u64> {
    let places = PLACES.get().filter(|_| is_code(pc))?;
    let cpu = RUNNING.get();
    let begins = BEGINS.iter().map(|begin| begin.load(Ordering::Relaxed)).filter(|&b| b != 0);
    // SAFETY: this thread was interrupted inside `run`, which has the only reference to it and
    // whose routine reads it when the handler has returned.
    let cpu = unsafe { cpu.as_mut() }?;
    let first = BEGINS[0].load(Ordering::Relaxed);
    let next = match position(places, begins, pc) {
        Position::Routine => return None,
        Position::Entering => places.abandon,
        Position::Code => {
            cpu.state.x[LINK] = *r21;
            cpu.state.pc = pc;
            cpu.native.reason = if is_fault { reason::FAULT } else { reason::ATTENTION };
            places.interrupted
        }
    };
    *r21 = std::ptr::from_mut(cpu) as u64;
    Some(first + next)
}

/// The stack for handlers of signals of a thread that runs code: `bytes` at a multiple of their
/// number, which begin with the thread's tp, because r2 is another while code runs.
///
/// # Safety
/// The bytes are the thread's alone.
pub unsafe fn occupy(stack: *mut u64) {
    let tp: u64;
    // SAFETY: reads a register; the caller vouches for the place.
    unsafe {
        std::arch::asm!("move {}, $tp", out(reg) tp, options(nomem, nostack, preserves_flags));
        stack.write(tp);
    }
}

impl Processor for Host {
    fn has_lbt(&self) -> bool {
        self.has_lbt
    }

    fn place(&self, routine: &Routine, begins: &[u64]) {
        assert!(begins.len() <= ROUTINES_MAX, "a place for each routine");
        let places = PLACES.get_or_init(|| routine.places().clone());
        assert!(places == routine.places(), "all routines of a process are alike");
        for (place, &begin) in BEGINS.iter().zip(begins) {
            place.store(begin, Ordering::SeqCst);
        }
    }

    fn run(&self, cpu: &mut Cpu, begin: u64, attention: &AtomicBool) -> Left {
        let epoch = cpu.epoch.now();
        if cpu.native.fetched != epoch {
            // SAFETY: changes no register and no memory.
            unsafe { std::arch::asm!("ibar 0", options(nostack)) };
            cpu.native.fetched = epoch;
        }
        cpu.native.reason = reason::ATTENTION;
        // SAFETY: `place` was told that the routine lies there; it keeps the calling convention.
        let routine: extern "C" fn(*mut Cpu, *const AtomicBool) =
            unsafe { std::mem::transmute(begin as *const ()) };
        let cpu = std::ptr::from_mut(cpu);
        RUNNING.set(cpu);
        routine(cpu, attention);
        // Not what was there before: a child of `vfork` may have been killed in the routine.
        RUNNING.set(std::ptr::null_mut());
        // SAFETY: the pointer of the reference above, which the routine no longer uses.
        let cpu = unsafe { &mut *cpu };
        cpu.state.link_address = u64::MAX;
        reason::left(cpu.native.reason)
    }
}
