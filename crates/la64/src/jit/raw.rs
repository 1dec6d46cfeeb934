//! Memory that holds code and may be executed, where faults inside it continue, and entering it.
//!
//! - An [`Arena`] is one private mapping, readable, writable and executable; a forked child
//!   inherits it copy-on-write. A separate one is a file in memory, mapped twice: one mapping is
//!   written, the other executed. Such a file stays the parent's, so a forked child makes an arena
//!   of its own.
//! - Threads execute code while it is extended and patched. New code is written before anything
//!   leads to it; four bytes of existing code are replaced by one store to their doubleword.
//! - Which instructions of an arena may fault, and where code counts instructions, is a [`Faults`].
//!   Handlers of signals read it on the thread that runs the code; they take no lock.
//!
//! Unsafe because these are the host's raw interfaces.
#![allow(unsafe_code)]

use super::shelf::Shelf;
use crate::shared::List;
use littoral_base::mutant;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::cell::Cell;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Executable memory.
#[derive(Debug)]
pub(crate) struct Arena {
    /// Where code is executed.
    base: u64,
    /// Where it is written.
    written: u64,
    len: usize,
    /// Up to where the kernel was asked to make pages.
    populated: AtomicUsize,
}

impl Arena {
    /// Reserves `len` bytes, as two mappings if they are to be `separate`; `None` where the host
    /// refuses executable memory.
    pub(crate) fn new(len: usize, separate: bool) -> Option<Arena> {
        if separate {
            return Arena::separate(len);
        }
        let rights = ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe { mmap_anonymous(null_mut(), len, rights, flags) }.ok()? as u64;
        Some(Arena { base, written: base, len, populated: AtomicUsize::new(0) })
    }

    fn separate(len: usize) -> Option<Arena> {
        let file = memfd_create("la64-code", MemfdFlags::CLOEXEC).ok()?;
        ftruncate(&file, len as u64).ok()?;
        let map = |rights| {
            let flags = MapFlags::SHARED | MapFlags::NORESERVE;
            // SAFETY: a fresh mapping of a file of our own, at an address of the kernel's choice.
            unsafe { mmap(null_mut(), len, rights, flags, &file, 0) }.ok().map(|at| at as u64)
        };
        let written = map(ProtFlags::READ | ProtFlags::WRITE)?;
        let Some(base) = map(ProtFlags::READ | ProtFlags::EXEC) else {
            // SAFETY: the mapping made above.
            let _ = unsafe { munmap(written as *mut _, len) };
            return None;
        };
        Some(Arena { base, written, len, populated: AtomicUsize::new(0) })
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The host address of an offset.
    pub(crate) fn address(&self, offset: usize) -> u64 {
        assert!(offset <= self.len, "inside the arena");
        self.base + offset as u64
    }

    /// Copies code to where none is yet.
    pub(crate) fn write(&self, offset: usize, code: &[u8]) {
        assert!(offset + code.len() <= self.len, "inside the arena");
        self.populate(offset + code.len());
        let to = (self.written + offset as u64) as *mut u8;
        // SAFETY: in bounds of the mapping, which no reference points into; the engine's lock keeps
        // other writers out, and nothing leads to these bytes yet.
        unsafe { to.copy_from_nonoverlapping(code.as_ptr(), code.len()) };
    }

    /// Lets `f` write `len` bytes where no code is yet; what it answers.
    pub(crate) fn fill<R>(&self, offset: usize, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "inside the arena");
        self.join_pages(offset..offset + len);
        self.populate(offset + len);
        let to = (self.written + offset as u64) as *mut u8;
        // SAFETY: as `write`; no other reference to these bytes exists while `f` runs.
        f(unsafe { std::slice::from_raw_parts_mut(to, len) })
    }

    /// Asks the kernel for large pages where a part fills them: fewer to make, and fewer for the
    /// processor to look up.
    fn join_pages(&self, part: Range<usize>) {
        const LARGE: u64 = 2 << 20;
        let from = (self.written + part.start as u64).next_multiple_of(LARGE);
        let end = (self.written + part.end as u64) / LARGE * LARGE;
        if from < end {
            // SAFETY: in the mapping, at a whole page; what is there stays. A kernel without large
            // pages refuses.
            let _ =
                unsafe { madvise(from as *mut _, (end - from) as usize, Advice::LinuxHugepage) };
        }
    }

    /// Has the kernel make pages up to `end` and some behind them, if it made none there yet: one
    /// call costs less than a fault of each page.
    fn populate(&self, end: usize) {
        const STEP: usize = 128 << 10;
        let from = self.populated.load(Ordering::Relaxed);
        if end <= from {
            return;
        }
        let to = end.next_multiple_of(STEP).min(self.len);
        self.populated.store(to, Ordering::Relaxed);
        // SAFETY: in the mapping, at a whole page; what is there stays. Pages that the kernel does
        // not make here it makes when they are written.
        let _ = unsafe {
            let at = (self.written + from as u64) as *mut _;
            madvise(at, to - from, Advice::LinuxPopulateWrite)
        };
    }

    /// Replaces the four bytes at `offset`, which lie in one doubleword, by one store.
    pub(crate) fn write_number(&self, offset: usize, number: u32) {
        assert!(offset + 4 <= self.len && offset % 8 <= 4, "inside a doubleword of the arena");
        let shift = 8 * (offset as u64 % 8);
        let at = ((self.written + offset as u64) & !7) as *mut u64;
        // SAFETY: aligned and in bounds; other threads write here by such stores alone.
        let word = unsafe { AtomicU64::from_ptr(at) };
        let with = |old: u64| old & !(0xffff_ffff << shift) | u64::from(number) << shift;
        let mut old = word.load(Ordering::Relaxed);
        while let Err(now) =
            word.compare_exchange_weak(old, with(old), Ordering::Release, Ordering::Relaxed)
        {
            old = now;
        }
    }

    /// Lets the jump whose displacement stands at `offset` lead to `to`, by one store.
    pub(crate) fn patch(&self, offset: usize, to: usize) {
        assert!(to < self.len, "inside the arena");
        self.write_number(offset, (to as i64 - (offset as i64 + 4)) as i32 as u32);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mappings of `new`; their code runs only while their owner exists.
        let _ = unsafe { munmap(self.base as *mut _, self.len) };
        if self.written != self.base {
            // SAFETY: as above.
            let _ = unsafe { munmap(self.written as *mut _, self.len) };
        }
    }
}

/// What handlers of signals need of an arena: where faults of its instructions continue, and where
/// it counts.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Address of the arena.
    pub(crate) base: u64,
    /// Offsets of an instruction and of its landing, by the former.
    pub(crate) list: List<(u32, u32)>,
    /// The same of code that was added as a whole, in other parts of the arena.
    pub(crate) images: Shelf<Landings>,
    /// Offsets at which r14 holds the count of instructions that may retire.
    pub(crate) counts: Range<u32>,
}

impl Faults {
    /// The landing of the instruction at an offset. Takes no lock.
    fn landing(&self, offset: u32) -> Option<u32> {
        let found = self.list.find(offset, |f| f.0).map(|(_, landing)| landing);
        found.or_else(|| self.images.iter().find_map(|image| image.of(offset)))
    }
}

/// Instructions of a part of an arena that may fault, and their landings: sorted pairs of
/// little-endian words, from the part's beginning.
#[derive(Debug)]
pub(crate) struct Landings {
    /// Where the part begins.
    pub(crate) start: u32,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Where in the bytes the pairs are.
    pub(crate) pairs: Range<usize>,
}

impl Landings {
    fn of(&self, offset: u32) -> Option<u32> {
        let wanted = offset.checked_sub(self.start)?;
        let pairs = self.bytes.get(self.pairs.clone())?.as_chunks::<8>().0;
        let first = |pair: &[u8; 8]| u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
        let pair = pairs.get(pairs.partition_point(|pair| first(pair) < wanted))?;
        let landing = u32::from_le_bytes([pair[4], pair[5], pair[6], pair[7]]);
        (first(pair) == wanted).then(|| self.start + landing)
    }
}

/// What [`hurry`] takes from the count. The true count is less, so its lowest bits keep it.
pub(crate) const HURRY: i64 = 1 << COUNT_BITS;
const COUNT_BITS: u32 = 30;

/// The count of instructions, however often [`HURRY`] was taken from it.
pub(crate) fn true_count(count: i64) -> i64 {
    count << (64 - COUNT_BITS) >> (64 - COUNT_BITS)
}

thread_local! {
    /// The faults of the code that this thread runs, or null.
    static RUNNING: Cell<*const Faults> = const { Cell::new(std::ptr::null()) };
}

/// Where execution continues after a fault at `pc` in generated code.
pub(crate) fn landing(pc: u64) -> Option<u64> {
    // SAFETY: `enter` sets it to a reference for the time of its call, and this runs on the same
    // thread.
    let faults = unsafe { RUNNING.get().as_ref() }?;
    let offset = u32::try_from(pc.checked_sub(faults.base)?).ok()?;
    Some(faults.base + u64::from(faults.landing(offset)?))
}

/// Generated code that a signal interrupted at `pc`, with `r14` in that register, leaves for the
/// dispatch loop at its next exit. Elsewhere nothing changes: code tests the attention flag when it
/// is entered and behind each call of tier 0.
pub(crate) fn hurry(pc: u64, r14: &mut i64) {
    // SAFETY: as `landing`.
    let Some(faults) = (unsafe { RUNNING.get().as_ref() }) else { return };
    let offset = pc.checked_sub(faults.base).and_then(|at| u32::try_from(at).ok());
    let counts = offset.is_some_and(|at| faults.counts.contains(&at));
    if counts && !mutant!("la64_signals_wait_for_the_slice") {
        *r14 -= HURRY;
    }
}

/// Lets invalid floating-point operations of generated code go on at their landing, for hosts of
/// translated code that handle no signals themselves; true if that is so.
///
/// Another SIGFPE, and one that was handled before this, ends the process as by default.
pub(crate) fn catch_invalid() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| catch(libc::SIGFPE))
}

/// The same for accesses that the host refuses.
pub(crate) fn catch_refused() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| catch(libc::SIGSEGV))
}

/// Lets faults of generated code with this signal go on at their landing.
fn catch(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is valid; the handler touches its arguments and a const
    // thread-local alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &action, null_mut()) == 0
    }
}

unsafe extern "C" fn on_fault(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid ucontext to an SA_SIGINFO handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let pc = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    match landing(*pc as u64) {
        Some(next) => *pc = next as i64,
        // SAFETY: restoring the default makes the same fault end the process.
        None => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}

/// MXCSR.
pub(crate) fn float_control() -> u32 {
    let mut now = 0u32;
    // SAFETY: the instruction writes the local alone.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut now, options(nostack)) };
    now
}

/// Processor time of this thread, in nanoseconds.
pub(crate) fn thread_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a local.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) } != 0;
    if failed { 0 } else { now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 }
}

/// Does something with all signals blocked: a thread that it starts takes none.
pub(crate) fn without_signals<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: all-zero sets are valid; the kernel reads and writes locals.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = f();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        result
    }
}

thread_local! {
    /// The attention flag that an [`Alarm`] of this thread raises, or null.
    static ALARMED: Cell<*const AtomicBool> = const { Cell::new(null()) };
}

/// A timer that interrupts the thread that made it, at any instruction of the host, and raises a
/// flag as the handler of a program's signal does. For tests: the process gets a handler of SIGURG.
pub(crate) struct Alarm {
    timer: libc::timer_t,
    flag: Box<AtomicBool>,
}

impl Alarm {
    /// `None` where the host makes no such timer.
    pub(crate) fn new() -> Option<Alarm> {
        const SIGNAL: i32 = libc::SIGURG;
        let flag = Box::new(AtomicBool::new(false));
        let mut timer = null_mut();
        // SAFETY: all-zero structures are valid; the handler touches its arguments, const
        // thread-locals and an atomic; the kernel writes the timer's number.
        let made = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_alarm as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = SIGNAL;
            event.sigev_notify_thread_id = libc::gettid();
            libc::sigaction(SIGNAL, &action, null_mut()) == 0
                && libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) == 0
        };
        ALARMED.set(&raw const *flag);
        made.then_some(Alarm { timer, flag })
    }

    /// Lets the flag, which is clear from now on, be raised in so many nanoseconds.
    pub(crate) fn set(&self, ns: u32) {
        self.flag.store(false, Ordering::Release);
        // SAFETY: an all-zero value disarms; the kernel reads a local.
        unsafe {
            let mut when: libc::itimerspec = std::mem::zeroed();
            when.it_value.tv_nsec = ns.into();
            libc::timer_settime(self.timer, 0, &when, null_mut());
        }
    }

    /// The flag.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        ALARMED.set(null());
        // SAFETY: the timer of `new`; a signal that it sent already finds no flag.
        unsafe { libc::timer_delete(self.timer) };
    }
}

unsafe extern "C" fn on_alarm(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid ucontext to an SA_SIGINFO handler.
    let gregs = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    // SAFETY: null, or the flag of the alarm that this thread has.
    if let Some(flag) = unsafe { ALARMED.get().as_ref() } {
        flag.store(true, Ordering::Release);
        let pc = gregs[libc::REG_RIP as usize] as u64;
        hurry(pc, &mut gregs[libc::REG_R14 as usize]);
    }
}

/// Calls the entry routine at address `entry` with two arguments.
///
/// # Safety
/// The routine keeps the System V calling convention, and `frame` is what it and the code that it
/// enters expect. `faults` lives until this returns.
pub(crate) unsafe fn enter(entry: u64, frame: *mut u8, code: u64, faults: *const Faults) {
    // SAFETY: the caller vouches for the routine.
    let routine: extern "sysv64" fn(*mut u8, u64) = unsafe { std::mem::transmute(entry) };
    RUNNING.set(faults);
    routine(frame, code);
    // Not what was there before: a process that shared this thread's memory may have been killed
    // in the routine.
    RUNNING.set(std::ptr::null());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::emit::{Asm, MOV_TO, Mem, RDI, RSI};

    #[test]
    fn code_runs_and_is_patched_in_one_mapping_and_in_two() {
        for separate in [false, true] {
            runs_and_is_patched(&Arena::new(1 << 16, separate).expect("executable memory"));
        }
    }

    fn runs_and_is_patched(arena: &Arena) {
        let mut asm = Asm::new(0);
        asm.align_patched(1);
        let jump = asm.jump_near(None);
        asm.bind_near(jump);
        asm.op(MOV_TO, true, RSI, Mem::at(RDI, 0));
        let end = asm.here();
        asm.ret();
        arena.write(0, &asm.bytes);
        let (mut cell, faults) = (0u64, Faults::default());
        let run = |cell: &mut u64, arena: &Arena| {
            // SAFETY: the code stores its second argument at the first, or returns.
            unsafe { enter(arena.address(0), std::ptr::from_mut(cell).cast(), 7, &faults) };
        };
        run(&mut cell, arena);
        assert_eq!(std::mem::take(&mut cell), 7);
        arena.patch(jump, end);
        run(&mut cell, arena);
        assert_eq!(cell, 0);
    }

    #[test]
    fn invalid_operations_land() {
        use crate::jit::emit::{DIVSD, XORPS, Xmm};
        assert!(catch_invalid());
        let arena = Arena::new(1 << 16, false).expect("executable memory");
        let mut asm = Asm::new(0);
        // MXCSR without the mask of invalid operations, 0 / 0, and MXCSR as it was.
        asm.ldmxcsr(Mem::at(RDI, 0));
        asm.sse(XORPS, Xmm(0), Xmm(0));
        let fault = asm.here();
        asm.sse(DIVSD, Xmm(0), Xmm(0));
        asm.op(MOV_TO, true, RSI, Mem::at(RDI, 8));
        let landing = asm.here();
        asm.ldmxcsr(Mem::at(RDI, 4));
        asm.ret();
        arena.write(0, &asm.bytes);
        let base = arena.address(0);
        let faults = Faults { base, ..Faults::default() };
        faults.list.append(&[(fault as u32, landing as u32)]);
        let mut cells = [0x1f00u64 | 0x1f80 << 32, 1];
        // SAFETY: the code reads the first cell and would store its second argument in the second.
        unsafe { enter(base, cells.as_mut_ptr().cast(), 7, &faults) };
        assert_eq!(cells[1], 1, "the store behind the fault did not run");
    }

    #[test]
    fn the_count_is_taken_from_where_it_is_and_stays_known() {
        let faults = Faults { base: 0x1000, counts: 4..8, ..Faults::default() };
        let hurried = |pc| {
            let mut count = 7;
            hurry(pc, &mut count);
            count
        };
        assert_eq!(hurried(0x1004), 7, "no code runs");
        RUNNING.set(&faults);
        let found = [0x0fff, 0x1003, 0x1004, 0x1007, 0x1008].map(hurried);
        RUNNING.set(std::ptr::null());
        assert_eq!(found, [7, 7, 7 - HURRY, 7 - HURRY, 7]);
        for count in [0, 1, 300_000, -1, -256] {
            assert_eq!(true_count(count - 3 * HURRY), count);
            assert!(count - HURRY < 0);
        }
    }

    #[test]
    fn only_listed_instructions_land() {
        let faults = Faults { base: 0x1000, ..Faults::default() };
        faults.list.append(&[(4, 100), (9, 100), (20, 200)]);
        assert_eq!(landing(0x1004), None, "no code runs");
        RUNNING.set(&faults);
        let found = [0x0fff, 0x1004, 0x1005, 0x1009, 0x1014, 0x1015].map(landing);
        RUNNING.set(std::ptr::null());
        assert_eq!(found, [None, Some(0x1064), None, Some(0x1064), Some(0x10c8), None]);
    }

    #[test]
    fn instructions_of_images_land_too() {
        let faults = Faults { base: 0x1000, ..Faults::default() };
        faults.list.append(&[(4, 100), (0x400, 0x410)]);
        for (start, list) in [(0x100, &[(0u32, 9u32), (7, 8)][..]), (0x200, &[(1, 2)])] {
            let words = list.iter().flat_map(|pair| [pair.0, pair.1]);
            let pairs: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
            let bytes = Arc::new([&[0; 3][..], &pairs].concat());
            let landings = Landings { start, pairs: 3..bytes.len(), bytes };
            faults.images.add(landings).expect("there is room");
        }
        RUNNING.set(&faults);
        let found = [0x1004, 0x1100, 0x1101, 0x1107, 0x1201, 0x1202, 0x1400].map(landing);
        RUNNING.set(std::ptr::null());
        let wanted = [0x1064, 0x1109, 0, 0x1108, 0x1202, 0, 0x1410];
        assert_eq!(found, wanted.map(|at| (at != 0).then_some(at)));
    }
}
