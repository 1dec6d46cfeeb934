//! The host kernel, for the guest: system calls, the reservation of the guest's window, signal
//! handlers and fork.
//!
//! - A system call gets integers, guest addresses, or slices. Guest addresses become host addresses
//!   inside the window; anything else becomes a non-canonical address, which the host refuses
//!   with EFAULT. The last pages of the window are never mapped, so a transfer that starts inside
//!   cannot run out of it.
//! - The host's handler of SIGSEGV, SIGBUS and SIGFPE continues guest accesses and floating-point
//!   operations that fault at their landing. Code that a LoongArch host executes is left there.
//! - Another signal is noted in the thread's [`Pending`] and delivered to the guest at the next
//!   block boundary; until then the thread has every signal blocked, so that the kernel keeps the
//!   others in its queue and in its order. A fault's signal that another process sends while the
//!   guest blocks it is held back there. A system call that has not yet entered the kernel is not
//!   entered (see `enter`).
//!
//! Unsafe because these are the host's raw interfaces.
#![allow(unsafe_code)]

#[cfg_attr(target_arch = "x86_64", path = "raw/x86_64.rs")]
#[cfg_attr(target_arch = "loongarch64", path = "raw/loongarch64.rs")]
mod machine;

use littoral_base::mutant;
use littoral_la64::interp::Translation;
use littoral_la64::memory::{Window, landing};
use littoral_la64::native::Processor;
use std::cell::Cell;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// An argument of a host system call.
pub(super) enum Arg<'a> {
    /// A number.
    Int(u64),
    /// An address in the guest's window, 0 for none.
    Guest(u64),
    /// Bytes the host only reads.
    In(&'a [u8]),
    /// Bytes the host may write.
    Out(&'a mut [u8]),
}

/// Signals of faults, which are never blocked on the host.
const FAULTS: u64 =
    1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1) | 1 << (libc::SIGFPE - 1) | machine::FAULTS;

/// The number of a host's signal of faults by which one thread takes another one out of code, and
/// what the signal carries then.
const KICK: i32 = libc::SIGBUS;
const KICK_VALUE: u64 = 0x6c61_3634_6b69_636b;

/// What a system call returns instead of running when a signal came first.
pub(super) const RESTART: i64 = -512;

/// Bytes at the end of the window that stay unmapped.
pub(super) const GUARD: u64 = 1 << 24;

/// What others may know of one thread, and the signals noted for it. `siginfo` slots are written by
/// the handler only while their bit is clear, and read by the thread after it took the bit.
pub(super) struct Pending {
    /// One bit a signal, bit n for signal n + 1.
    bits: AtomicU64,
    /// Of [`FAULTS`], those that the guest blocks. The host never does, so what another process
    /// sends of them is noted and held back here.
    held: AtomicU64,
    info: [[AtomicU64; 16]; 64],
    /// Set with every bit that is not held back; the interpreter looks at it between blocks.
    pub(super) attention: AtomicBool,
    /// Host (and guest) thread id, 0 until the thread runs.
    pub(super) tid: AtomicU64,
    /// Guest address of the head of the thread's robust list, 0 for none.
    pub(super) robust_list: AtomicU64,
    /// Instructions retired when the interpreter returned last.
    pub(super) instructions: AtomicU64,
    /// Instructions of a translated guest executed then, and LA64 instructions that counted them.
    pub(super) guest: AtomicU64,
    /// See `guest`.
    pub(super) counting: AtomicU64,
    /// What the translator had done then, with `--stats`.
    pub(super) translation: Mutex<Translation>,
    /// The thread does not interpret: it is in a system call or has been told to stop.
    pub(super) halted: AtomicBool,
    /// The thread may be in code of a translated guest.
    pub(super) inside: AtomicBool,
    /// Another thread took it out of code, and may have interrupted a system call.
    kicked: AtomicBool,
    /// The host's signal for the latest access of the thread that was refused.
    refusal: AtomicI32,
}

impl Pending {
    pub(super) fn new() -> Pending {
        Pending {
            bits: AtomicU64::new(0),
            held: AtomicU64::new(0),
            info: [const { [const { AtomicU64::new(0) }; 16] }; 64],
            attention: AtomicBool::new(false),
            tid: AtomicU64::new(0),
            robust_list: AtomicU64::new(0),
            instructions: AtomicU64::new(0),
            guest: AtomicU64::new(0),
            counting: AtomicU64::new(0),
            translation: Mutex::default(),
            halted: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            kicked: AtomicBool::new(false),
            refusal: AtomicI32::new(0),
        }
    }

    /// Whether the host refused the thread's latest refused access as one to no memory (SIGSEGV),
    /// and not as one beyond the end of a file (SIGBUS).
    pub(super) fn is_refused_everywhere(&self) -> bool {
        self.refusal.load(Ordering::Relaxed) == libc::SIGSEGV
    }

    /// Raises the thread's attention. Code that the host's processor executes does not look at the
    /// flag, so a signal takes the thread out of it if `kicks`.
    pub(super) fn interrupt(&self, kicks: bool) {
        self.attention.store(true, Ordering::SeqCst);
        if kicks && self.inside.load(Ordering::SeqCst) {
            kick(self.tid.load(Ordering::Acquire));
        }
    }

    /// Whether the signal is to be taken, which is not so for one that is held back.
    fn note(&self, signal: usize, info: &[u64; 16]) -> bool {
        if self.bits.load(Ordering::Acquire) >> (signal - 1) & 1 == 0 {
            for (slot, word) in self.info[signal - 1].iter().zip(info) {
                slot.store(*word, Ordering::Relaxed);
            }
            self.bits.fetch_or(1 << (signal - 1), Ordering::Release);
        }
        let is_ready = self.ready() >> (signal - 1) & 1 == 1;
        if is_ready {
            self.attention.store(true, Ordering::Release);
        }
        is_ready
    }

    /// The guest's mask is this from now on.
    pub(super) fn hold(&self, mask: u64) {
        self.held.store(mask & FAULTS, Ordering::SeqCst);
        if self.any() {
            self.attention.store(true, Ordering::Release);
        }
    }

    /// What is noted and not held back.
    fn ready(&self) -> u64 {
        self.bits.load(Ordering::Acquire) & !self.held.load(Ordering::SeqCst)
    }

    /// What is noted and held back.
    pub(super) fn held(&self) -> u64 {
        self.bits.load(Ordering::Acquire) & self.held.load(Ordering::SeqCst)
    }

    /// The lowest pending signal and its siginfo.
    pub(super) fn take(&self) -> Option<(u32, [u64; 16])> {
        self.attention.store(false, Ordering::Release);
        let bits = self.ready();
        if bits == 0 {
            return None;
        }
        let n = bits.trailing_zeros();
        let info = std::array::from_fn(|i| self.info[n as usize][i].load(Ordering::Relaxed));
        self.bits.fetch_and(!(1 << n), Ordering::AcqRel);
        if bits & (bits - 1) != 0 {
            self.attention.store(true, Ordering::Release);
        }
        Some((n + 1, info))
    }

    /// The signal `take` would return.
    pub(super) fn first(&self) -> Option<u32> {
        let bits = self.ready();
        (bits != 0).then(|| bits.trailing_zeros() + 1)
    }

    /// Forgets what was noted: a forked child inherits none of it.
    pub(super) fn forget(&self) {
        self.bits.store(0, Ordering::Release);
        self.attention.store(false, Ordering::Release);
    }

    pub(super) fn any(&self) -> bool {
        self.ready() != 0
    }
}

thread_local! {
    static CURRENT: Cell<*const Pending> = const { Cell::new(std::ptr::null()) };
}

/// Sends the signal that takes a thread of this process out of code.
fn kick(tid: u64) {
    let mut info = [0u64; 16];
    let own = std::process::id();
    info[0] = KICK as u64;
    info[1] = u64::from(libc::SI_QUEUE as u32);
    info[2] = own.into();
    info[3] = KICK_VALUE;
    // SAFETY: the kernel reads a siginfo, which is 128 bytes.
    unsafe {
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, u64::from(own), tid, KICK, &raw const info);
    }
}

/// Whether a signal is one of [`kick`], and not one of a program that does the same.
fn is_kick(signal: i32, info: &[u64; 16]) -> bool {
    machine::kicks() && signal == KICK && info[1] as i32 == libc::SI_QUEUE && info[3] == KICK_VALUE
}

/// Makes `pending` the place where this thread's signals are noted, until [`abandon`].
pub(super) fn adopt(pending: &std::sync::Arc<Pending>) {
    pending.tid.store(gettid() as u64, Ordering::Release);
    CURRENT.set(std::sync::Arc::into_raw(pending.clone()));
    machine::adopt();
}

/// The thread, which adopted `pending`, notes no more signals: all but faults are blocked from now
/// on, so that the kernel gives them to other threads.
pub(super) fn abandon(pending: &std::sync::Arc<Pending>) {
    set_mask(u64::MAX);
    let place = CURRENT.replace(std::ptr::null());
    assert!(std::ptr::eq(place, &raw const **pending), "the thread adopted this place");
    if mutant!("la64_places_of_signals_leak") {
        return;
    }
    // SAFETY: `adopt` made the pointer from a reference count, and no handler can see it any more.
    unsafe { drop(std::sync::Arc::from_raw(place)) };
}

/// What every window has before and behind it: bytes that stay without access.
const SLACK: u64 = 1 << 16;
/// More of them, with which translated code need not check the sum of an address and a word that is
/// shifted by four or by three bits; and the shortest window that is taken for their sake.
const WIDE: [(u64, u64); 2] = [(1 << 36, 1 << 40), (1 << 34, 0)];

/// Reserves the guest's window: addresses without memory, of the first length that the host grants.
pub(super) fn reserve(lens: &[u64]) -> Option<Window> {
    let first = |slack: u64, len_min: u64| {
        let long = lens.iter().filter(|&&len| len >= len_min);
        long.copied().find_map(|len| reserve_between(len, slack))
    };
    let wide = WIDE.iter().find_map(|&(more, len_min)| first(SLACK + more, len_min));
    wide.or_else(|| first(SLACK, 0))
}

/// The length of most huge pages. Windows begin at multiples of it, so that what lies at one for
/// the guest does so for the host.
pub(super) const HUGE_LEN: u64 = 2 << 20;

/// As [`reserve`], with at least so many bytes on either side.
fn reserve_between(len: u64, slack: u64) -> Option<Window> {
    let whole = len + 2 * slack + HUGE_LEN;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
    let base = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(std::ptr::null_mut(), whole as usize, libc::PROT_NONE, flags, -1, 0)
    };
    (base != libc::MAP_FAILED).then(|| {
        let start = base.addr() as u64 + slack;
        let before = slack + (start.next_multiple_of(HUGE_LEN) - start);
        // SAFETY: the mapping is ours alone; `install_fault_handler` runs before any guest access.
        // The bytes on either side belong to the reservation and are never mapped.
        unsafe { Window::new(base.cast::<u8>().add(before as usize), len).between_refusals(slack) }
    })
}

/// Whether the host's processor, if it executes LA64 code, has the binary translation assists.
pub(super) fn executes() -> Option<bool> {
    machine::executes()
}

/// As [`reserve`], for code that the host's processor executes.
pub(super) fn reserve_native(
    len: u64,
    has_lbt: bool,
) -> Option<(Window, std::sync::Arc<dyn Processor>)> {
    machine::reserve_native(len, has_lbt)
}

// `la64_enter(number, arguments, attention)` of `machine`: a host system call that does not start
// once the attention byte is set. The handler moves a program counter between `la64_enter_check`
// and `la64_enter_syscall` (inclusive) to `la64_enter_restart`, so no signal is lost in between. At
// `la64_enter_done` the kernel has been left, with the signals that a thread sent itself.
unsafe extern "C" {
    fn la64_enter(number: i64, arguments: *const [u64; 6], attention: *const AtomicBool) -> i64;
    static la64_enter_check: u8;
    static la64_enter_syscall: u8;
    static la64_enter_done: u8;
    static la64_enter_restart: u8;
}

fn address(window: &Window, arg: &mut Arg<'_>) -> u64 {
    const NOWHERE: u64 = 1 << 63;
    match arg {
        Arg::Int(n) => *n,
        Arg::Guest(0) => 0,
        Arg::Guest(a) => window.host(*a, 1).map_or(NOWHERE, |p| p as u64),
        Arg::In(bytes) => bytes.as_ptr() as u64,
        Arg::Out(bytes) => bytes.as_mut_ptr() as u64,
    }
}

fn addresses(window: &Window, args: &mut [Arg<'_>]) -> [u64; 6] {
    let mut raw = [0; 6];
    for (slot, arg) in raw.iter_mut().zip(args) {
        *slot = address(window, arg);
    }
    raw
}

/// A host system call that a signal may interrupt: its result, or [`RESTART`] if it never began.
pub(super) fn call(window: &Window, pending: &Pending, number: i64, args: &mut [Arg<'_>]) -> i64 {
    let raw = addresses(window, args);
    loop {
        // SAFETY: the kernel touches only what the arguments name: guest memory, of which no Rust
        // reference exists, or the slices, whose lengths the callers give where the call takes one.
        let result = unsafe { la64_enter(number, &raw, &pending.attention) };
        // The kernel knows only that a signal came; the guest has got none.
        let is_kicked =
            result == -i64::from(libc::EINTR) && pending.kicked.swap(false, Ordering::SeqCst);
        if !is_kicked || pending.any() {
            return result;
        }
    }
}

/// A host system call that runs whether or not signals are pending.
pub(super) fn call_now(window: &Window, number: i64, args: &mut [Arg<'_>]) -> i64 {
    let raw = addresses(window, args);
    static CALM: AtomicBool = AtomicBool::new(false);
    loop {
        // SAFETY: as `call`.
        let result = unsafe { la64_enter(number, &raw, &CALM) };
        // A signal that came just before the kernel was entered kept it from being entered.
        if result != RESTART {
            return result;
        }
    }
}

/// Full memory barrier of every thread and the error of the latest libc call.
fn errno() -> i64 {
    -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

unsafe extern "C" fn on_signal(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo and ucontext to an SA_SIGINFO handler, and no
    // other code refers to them while it runs.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<machine::Context>()) };
    let pc = machine::pc(context);
    // SAFETY: a siginfo is 128 bytes, aligned to 8.
    let words = unsafe { &*std::ptr::from_ref(info).cast::<[u64; 16]>() };
    // QEMU gives no code for some instructions that it does not know, but the address: no process
    // has such a number.
    let is_unknown = info.si_code == 0 && words[2] == pc;
    // A thread may send itself one with a code as the kernel's: handlers of crashes pass on theirs.
    let is_sent = pc == (&raw const la64_enter_done) as u64 && !mutant!("la64_sent_fault_is_lost");
    let has_code = (info.si_code > 0 || is_unknown) && !is_sent;
    let fault = FAULTS >> (signal - 1) & 1 == 1 && has_code;
    if fault {
        let pending = CURRENT.get();
        if !pending.is_null() {
            // SAFETY: as below.
            unsafe { (*pending).refusal.store(signal, Ordering::Relaxed) };
        }
        if machine::is_faulty_code(context) {
            return;
        }
        match landing(pc) {
            Some(next) => machine::land(context, next),
            // SAFETY: restoring the default makes the refault kill us, as a host defect should.
            None => unsafe {
                libc::signal(signal, libc::SIG_DFL);
            },
        }
        return;
    }
    let check = &raw const la64_enter_check;
    let (syscall, restart) = (&raw const la64_enter_syscall, &raw const la64_enter_restart);
    if (check as u64..=syscall as u64).contains(&pc) {
        machine::go_on(context, restart as u64);
    }
    let pending = CURRENT.get();
    if !pending.is_null() && is_kick(signal, words) {
        // SAFETY: as below.
        unsafe { (*pending).kicked.store(true, Ordering::SeqCst) };
        machine::hurry(context);
    } else if !pending.is_null() {
        // SAFETY: `adopt` keeps a reference count until `abandon` blocks signals.
        let is_ready = unsafe { (*pending).note(signal as usize, words) };
        if is_ready {
            // What generated code retires meanwhile is counted all the same.
            machine::hurry(context);
        }
        if is_ready && !mutant!("la64_signals_stay_unblocked") {
            let mask = machine::mask(context);
            // SAFETY: the kernel's mask is the first eight bytes of the field.
            unsafe { *mask = !FAULTS };
        }
    }
}

/// What the host does with a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The kernel's default.
    Default,
    /// Nothing.
    Ignore,
    /// Note it for the guest.
    Note,
}

/// Sets the host's disposition of a signal, with those of the guest's flags that concern the host;
/// our own fault signals always stay noted.
pub(super) fn set_disposition(signal: u32, disposition: Disposition, flags: u64) -> i64 {
    let faults = FAULTS >> (signal - 1) & 1 == 1;
    let disposition = if faults { Disposition::Note } else { disposition };
    // Whether children are waited for, and tell when they stop: the same bits on both sides.
    let kept = (libc::SA_NOCLDWAIT | libc::SA_NOCLDSTOP) as u64;
    let kept = if mutant!("la64_child_flags_dropped") { 0 } else { kept };
    install(signal, disposition, (flags & kept) as i32)
}

/// Notes the signals of faults from now on.
pub(super) fn note_faults() {
    for signal in (1..=64).filter(|n| FAULTS >> (n - 1) & 1 == 1) {
        force_disposition(signal, Disposition::Note);
    }
}

/// Sets the host's disposition of any signal.
pub(super) fn force_disposition(signal: u32, disposition: Disposition) -> i64 {
    install(signal, disposition, 0)
}

/// By the kernel's call: the C library of this process refuses the signals that it keeps for
/// itself, which are those that the guest's C library uses too.
fn install(signal: u32, disposition: Disposition, flags: i32) -> i64 {
    let handler = match disposition {
        Disposition::Default => libc::SIG_DFL,
        Disposition::Ignore => libc::SIG_IGN,
        Disposition::Note => machine::handler(),
    };
    let action = machine::action(handler as u64, libc::SA_SIGINFO | libc::SA_ONSTACK | flags);
    if [32, 33].contains(&signal) && mutant!("la64_signals_of_c_libraries_refused") {
        return -i64::from(libc::EINVAL);
    }
    let (number, old) = (i64::from(signal), std::ptr::null_mut::<u64>());
    // SAFETY: the kernel reads an action of its layout; the handler is async-signal-safe: it
    // touches its arguments, one const thread-local and atomics.
    let done = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, number, action.as_ptr(), old, size_of::<u64>())
    };
    if done == 0 { 0 } else { errno() }
}

/// SIGPIPE was ignored when this command was started. Rust's runtime ignores it before `main`, so
/// this is noted earlier.
static IGNORED_PIPE: AtomicBool = AtomicBool::new(false);

// SAFETY: the section holds addresses of functions without results, which the C library calls
// before `main`, in one thread. This one needs nothing that is set up later.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE_PIPE: extern "C" fn() = note_pipe;

extern "C" fn note_pipe() {
    IGNORED_PIPE.store(is_ignored(libc::SIGPIPE as u32), Ordering::Relaxed);
}

/// Whether SIGPIPE was ignored when this command was started.
pub(super) fn is_pipe_ignored() -> bool {
    IGNORED_PIPE.load(Ordering::Relaxed)
}

/// Whether the host ignores a signal (inherited over exec).
pub(super) fn is_ignored(signal: u32) -> bool {
    let (number, none) = (i64::from(signal), std::ptr::null::<u64>());
    let mut action = [0u64; 4];
    // SAFETY: the kernel writes an action, which is no longer than the local.
    let done = unsafe {
        let old = action.as_mut_ptr();
        libc::syscall(libc::SYS_rt_sigaction, number, none, old, size_of::<u64>())
    };
    done == 0 && action[0] == libc::SIG_IGN as u64
}

/// Sends a signal to this thread itself.
pub(super) fn raise(signal: u32) {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(signal as i32) };
}

/// Replaces the thread's signal mask (bit n for signal n + 1) and returns the old one. Faults are
/// never blocked on the host.
pub(super) fn set_mask(mask: u64) -> u64 {
    let (new, mut old) = (mask & !FAULTS, 0u64);
    // SAFETY: the kernel reads and writes one 8-byte mask each.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &new, &mut old, 8usize);
    }
    old
}

/// The thread's signal mask.
pub(super) fn mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: the kernel writes one 8-byte mask, and without a new one changes nothing.
    unsafe {
        let none = std::ptr::null::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, none, &mut mask, 8usize);
    }
    mask
}

/// Forks the process: 0 in the child, its pid in the parent, a negative error. The caller holds
/// every lock of this crate, so none is left locked in the child.
pub(super) fn fork() -> i64 {
    // SAFETY: the child continues with this thread alone; it uses only memory and locks that this
    // thread owns, and glibc makes its own allocator usable in the child.
    match unsafe { libc::fork() } {
        -1 => errno(),
        pid => i64::from(pid),
    }
}

/// Makes a process that shares this one's memory and runs `child` on a stack of its own, while this
/// thread waits until that process has called `execve` or ended: its pid, or a negative error.
/// The process ends if `child` returns.
pub(super) fn vfork(child: &mut dyn FnMut()) -> i64 {
    const STACK_LEN: usize = 8 << 20;
    const GUARD_LEN: usize = 4096;
    extern "C" fn entry(child: *mut libc::c_void) -> i32 {
        // SAFETY: `vfork` passes the address of its argument, which it keeps until the child has
        // left this memory.
        unsafe { (*child.cast::<&mut dyn FnMut()>())() };
        libc::EXIT_FAILURE
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping, whose lowest page refuses access.
    let stack = unsafe { libc::mmap(std::ptr::null_mut(), STACK_LEN, rights, flags, -1, 0) };
    if stack == libc::MAP_FAILED {
        return errno();
    }
    let mut child = child;
    let how = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is the child's alone and outlives it in this memory. The child uses the
    // memory and the thread-local data of this thread, which the kernel stops meanwhile.
    unsafe {
        libc::mprotect(stack, GUARD_LEN, libc::PROT_NONE);
        let top = stack.cast::<u8>().add(STACK_LEN).cast();
        let pid = libc::clone(entry, top, how, (&raw mut child).cast());
        let result = if pid < 0 { errno() } else { i64::from(pid) };
        libc::munmap(stack, STACK_LEN);
        result
    }
}

/// A copy of a descriptor, with a number that programs do not get and that `execve` closes.
pub(super) fn copy_of(descriptor: i32) -> Option<OwnedFd> {
    const NUMBERS_MIN: [i32; 3] = [1000, 200, 10];
    let copy = |from: i32| {
        // SAFETY: no memory is involved.
        unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, from) }
    };
    let copied = NUMBERS_MIN.into_iter().map(copy).find(|&fd| fd >= 0)?;
    // SAFETY: a descriptor that the call above made.
    Some(unsafe { OwnedFd::from_raw_fd(copied) })
}

/// The most bytes that the stack of the first thread may have; `None` for no limit.
pub(super) fn stack_len() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes a local.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } != 0;
    (failed || limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The greatest length of a file that this process may write; the kernel ends a process that writes
/// more.
pub(super) fn file_len_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes a local.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } != 0;
    if failed { u64::MAX } else { limit.rlim_cur }
}

/// Bytes of a page of the host.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn page_len() -> u64 {
    static LEN: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    // SAFETY: no memory is involved.
    *LEN.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64)
}

/// Has the kernel make the pages of memory that is about to be written, which costs less than a
/// fault of each.
pub(super) fn populate(memory: &mut [std::mem::MaybeUninit<u8>]) {
    const LARGE: usize = 2 << 20;
    let whole = memory.as_mut_ptr_range();
    let (from, to) = (whole.start.addr().next_multiple_of(4096), whole.end.addr() & !4095);
    // Large pages are fewer to make.
    let (large, large_end) = (from.next_multiple_of(LARGE), to / LARGE * LARGE);
    for (from, to, advice) in
        [(large, large_end, libc::MADV_HUGEPAGE), (from, to, libc::MADV_POPULATE_WRITE)]
    {
        if from < to {
            // SAFETY: inside the slice, which keeps its bytes. What the kernel does not make here
            // it makes when it is written.
            unsafe { libc::madvise(from as *mut _, to - from, advice) };
        }
    }
}

/// Host thread id.
pub(super) fn gettid() -> i64 {
    // SAFETY: no arguments.
    i64::from(unsafe { libc::gettid() })
}

/// Waits for the end of the process.
pub(super) fn sleep_forever() -> ! {
    set_mask(u64::MAX);
    loop {
        // SAFETY: no memory is involved.
        unsafe { libc::pause() };
    }
}

/// Nanoseconds of the monotonic clock.
pub(super) fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Replaces the process image, with `mask` from then on. Returns only the error, or [`RESTART`] if
/// a signal came first. `ready` is called when all memory that is needed has been allocated.
///
/// Signals stay blocked until then: a child of `vfork` that a signal kills must hold no lock of the
/// memory that is its parent's too.
pub(super) fn execve(
    (pending, mask): (&Pending, u64),
    path: &std::ffi::CStr,
    argv: &[std::ffi::CString],
    envp: &[std::ffi::CString],
    ready: impl FnOnce(),
) -> i64 {
    let list = |strings: &[std::ffi::CString]| {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    let (argv, envp) = (list(argv), list(envp));
    let lists = [path.as_ptr() as u64, argv.as_ptr() as u64, envp.as_ptr() as u64, 0, 0, 0];
    ready();
    set_mask(mask);
    // SAFETY: null-terminated arrays of null-terminated strings that outlive the call.
    let result = unsafe { la64_enter(libc::SYS_execve, &lists, &pending.attention) };
    set_mask(u64::MAX);
    result
}

/// The rest of the process's life: exits at once with a status.
pub(super) fn exit_group(status: i32) -> ! {
    // SAFETY: ends the process; nothing of it is needed afterwards.
    unsafe { libc::_exit(status) }
}

/// A window without addresses, for calls that name none.
pub(super) fn empty_window() -> Window {
    // SAFETY: an empty range aliases nothing.
    unsafe { Window::new(std::ptr::without_provenance_mut(4096), 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_thread_that_ended_keeps_no_place_for_signals() {
        let pending = Arc::new(Pending::new());
        let threads = (0..4).map(|_| {
            let pending = pending.clone();
            std::thread::spawn(move || {
                adopt(&pending);
                assert!(Arc::strong_count(&pending) > 2, "one more for the handler");
                abandon(&pending);
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
        assert_eq!(Arc::strong_count(&pending), 1);
    }
}
