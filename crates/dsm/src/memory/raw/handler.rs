//! Signals of faulting accesses, handled in the thread that faults.
//!
//! A handler thread on another core costs seven times as much (see `docs/design/dsm.md`), so the
//! protocol runs inside the signal handler. That is sound here although the protocol allocates and
//! takes locks, because the signal is never asynchronous: it is raised by an access to a view, and
//! the only code that accesses a view is the program's own, between calls of the library. The
//! allocator and the library's locks are never held at such a point; a program whose allocator
//! lives in a view breaks the contract of the raw pointer.
//!
//! A region is registered before any pointer into its view is given out and stays until drop.
//!
//! The handler runs on the faulting thread's own stack, or on its alternate one where the program's
//! own handler asks for that and the stack has [`STACK_MIN`]; `errno` is as it was afterwards.
//!
//! Invariants
//! - In a child made by `fork` an access to a region ends the process in words. Checked by
//!   `a_forked_child_that_touches_shared_memory_ends_in_words`.
//! - An address of no region goes to the handler that was installed before, or since, with the
//!   mask and the flags that it was installed with. Checked by
//!   `a_fault_that_is_nobodys_goes_where_it_went_before`, `every_program_agrees_over_tcp`.
//! - A signal that a process has sent goes there too: it ends this process where it would have
//!   without the library, and where it is ignored this handler stays. Checked by
//!   `a_signal_that_was_sent_does_what_it_did_before`.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use littoral_base::mutant;

/// Regions of one process: ranks run as threads in tests.
const REGIONS_MAX: usize = 256;

/// What is done about a fault: the offset in the region, and whether it was a write where the
/// processor says so. False sends the signal on.
pub(crate) type OnFault = Box<dyn Fn(usize, Option<bool>) -> bool + Send + Sync>;

struct Region {
    start: AtomicUsize,
    end: AtomicUsize,
    on_fault: AtomicPtr<OnFault>,
}

static REGIONS: [Region; REGIONS_MAX] = [const {
    Region {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        on_fault: AtomicPtr::new(std::ptr::null_mut()),
    }
}; REGIONS_MAX];

/// The process whose regions these are.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// What the program had installed, or has installed since; boxes that are never freed, because a
/// handler may be reading one.
static PREVIOUS: [AtomicPtr<libc::sigaction>; 2] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
static INSTALLED: OnceLock<()> = OnceLock::new();
const SIGNALS: [i32; 2] = [libc::SIGBUS, libc::SIGSEGV];
/// Bytes of an alternate stack that the protocol may run on.
const STACK_MIN: usize = 64 << 10;

/// A registered region; dropping it ends the registration.
pub(crate) struct Registration {
    slot: usize,
}

impl Registration {
    /// Hands faults in `start..start + len` to `on_fault`; `None` when the process has too many
    /// regions.
    pub(crate) fn new(start: usize, len: usize, on_fault: OnFault) -> Option<Registration> {
        install();
        OWNER.store(std::process::id(), Ordering::Release);
        let action = Box::into_raw(Box::new(on_fault));
        for (slot, region) in REGIONS.iter().enumerate() {
            let free = std::ptr::null_mut();
            let taken =
                region.on_fault.compare_exchange(free, action, Ordering::AcqRel, Ordering::Acquire);
            if taken.is_ok() {
                region.start.store(start, Ordering::Release);
                region.end.store(start + len, Ordering::Release);
                return Some(Registration { slot });
            }
        }
        // SAFETY: the pointer is of the box made above and was stored nowhere.
        drop(unsafe { Box::from_raw(action) });
        None
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let region = &REGIONS[self.slot];
        region.end.store(0, Ordering::Release);
        region.start.store(0, Ordering::Release);
        let action = region.on_fault.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: the pointer came from `Box::into_raw` and was taken out just now; no thread
        // faults in the region any more, since its owner gives up the view with the registration.
        drop(unsafe { Box::from_raw(action) });
    }
}

fn install() {
    INSTALLED.get_or_init(|| {
        for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS) {
            previous.store(Box::into_raw(Box::new(install_one(signal))), Ordering::Release);
        }
    });
}

fn install_one(signal: i32) -> libc::sigaction {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: an all-zero sigaction is a valid one; the handler has the signature that SA_SIGINFO
    // asks for, and `before` has room for the old one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&raw mut action.sa_mask);
        let done = libc::sigaction(signal, &raw const action, before.as_mut_ptr());
        assert_eq!(done, 0, "a handler for a known signal can be installed");
        before.assume_init()
    }
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers for the length of the handler; `errno` is this
    // thread's.
    let (address, code, write, errno) = unsafe {
        let address = (*info).si_addr().addr();
        (address, (*info).si_code, was_write(context), *libc::__errno_location())
    };
    // Where a process has sent the signal, its number and user are in the address's place.
    let is_sent = code <= 0 && !mutant!("dsm_sent_signal_is_a_fault");
    if is_sent || !dispatch(address, write, context) {
        pass_on(signal, info, context, is_sent);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn dispatch(address: usize, write: Option<bool>, context: *mut libc::c_void) -> bool {
    let holds = |r: &&Region| {
        (r.start.load(Ordering::Acquire)..r.end.load(Ordering::Acquire)).contains(&address)
    };
    let Some(region) = REGIONS.iter().find(holds) else { return false };
    if std::process::id() != OWNER.load(Ordering::Acquire) {
        end_child();
    }
    if is_on_small_stack(context) {
        end_by(
            b"littoral dsm: a fault of shared memory on an alternate stack of less than 64 KiB; \
            give sigaltstack more, or install the handler without SA_ONSTACK\n",
        );
    }
    let on_fault = region.on_fault.load(Ordering::Acquire);
    // SAFETY: a region with a range has its action, which stays until the owner, whose view this
    // thread is using, drops the registration.
    let on_fault = unsafe { on_fault.as_ref() };
    on_fault.is_some_and(|f| f(address - region.start.load(Ordering::Acquire), write))
}

/// Whether this runs on an alternate stack that is too small.
fn is_on_small_stack(context: *mut libc::c_void) -> bool {
    // SAFETY: the third argument of an SA_SIGINFO handler is a ucontext.
    let stack = unsafe { (*context.cast::<libc::ucontext_t>()).uc_stack };
    let here = (&raw const stack).addr();
    let start = stack.ss_sp.addr();
    stack.ss_size < STACK_MIN && (start..start + stack.ss_size).contains(&here)
}

/// Ends a child made by `fork` that touches shared memory.
fn end_child() -> ! {
    end_by(
        b"littoral dsm: a child made by fork touched shared memory, which belongs to the process \
        of the rank; let the rank itself do that\n",
    )
}

/// Ends the process with these words and code 2, by calls that any state allows.
pub(crate) fn end_by(words: &[u8]) -> ! {
    // SAFETY: the range is a slice's; both calls are safe in a signal handler.
    unsafe {
        libc::write(2, words.as_ptr().cast(), words.len());
        libc::_exit(2)
    }
}

/// Whether the access was a write, where the processor tells: bit 1 of x86's error code.
#[cfg(target_arch = "x86_64")]
unsafe fn was_write(context: *mut libc::c_void) -> Option<bool> {
    // SAFETY: the third argument of an SA_SIGINFO handler is a ucontext (the caller's promise).
    let error =
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_ERR as usize] };
    Some(error & 2 != 0)
}

/// Elsewhere the page's state tells: a fault on a readable page is a write.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn was_write(_context: *mut libc::c_void) -> Option<bool> {
    None
}

fn previous(signal: i32) -> &'static AtomicPtr<libc::sigaction> {
    &PREVIOUS[usize::from(signal == SIGNALS[1])]
}

/// Whether faults of shared memory come by this signal, and their handler is installed.
pub fn is_ours(signal: i32) -> bool {
    SIGNALS.contains(&signal) && !previous(signal).load(Ordering::Acquire).is_null()
}

/// Gives the program's own faults to another handler, `None` to the same; the one before. For a
/// signal that [`is_ours`].
pub fn replace(signal: i32, new: Option<libc::sigaction>) -> Option<libc::sigaction> {
    let place = previous(signal);
    if new.is_some_and(|new| new.sa_flags & libc::SA_ONSTACK != 0) && has_stack() {
        run_on_alternate_stack(signal);
    }
    let old = match new {
        Some(new) => place.swap(Box::into_raw(Box::new(new)), Ordering::AcqRel),
        None => place.load(Ordering::Acquire),
    };
    // SAFETY: null or a box that is never freed.
    unsafe { old.as_ref() }.copied()
}

/// Whether this thread has an alternate stack that is large enough.
fn has_stack() -> bool {
    let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: the call writes the current stack into a variable of this frame.
    let stack = unsafe {
        libc::sigaltstack(std::ptr::null(), stack.as_mut_ptr());
        stack.assume_init()
    };
    stack.ss_flags & libc::SS_DISABLE == 0 && stack.ss_size >= STACK_MIN
}

/// Has this module's handler run on the alternate stack of a thread that has one, so that a
/// program's own handler gets the overflow of a stack. By the kernel's own call: the C library's
/// may be the program's way to this module.
fn run_on_alternate_stack(signal: i32) {
    let mut action = [0usize; 8];
    let (none, bytes) = (std::ptr::null_mut::<usize>(), 8usize);
    // SAFETY: the kernel's action is four words at most, the second of them its flags; it is set as
    // it was read but for one flag. Eight bytes of mask.
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, none, action.as_mut_ptr(), bytes);
        action[1] |= libc::SA_ONSTACK as usize;
        libc::syscall(libc::SYS_rt_sigaction, signal, action.as_ptr(), none, bytes);
    }
}

/// What the kernel would do for a handler with this action; it restores the mask afterwards.
fn prepare(signal: i32, action: &libc::sigaction) {
    let mut own = MaybeUninit::zeroed();
    let none = std::ptr::null_mut();
    // SAFETY: both sets are valid; the calls change the mask of this thread alone.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const action.sa_mask, none);
        if action.sa_flags & libc::SA_NODEFER != 0 {
            libc::sigemptyset(own.as_mut_ptr());
            libc::sigaddset(own.as_mut_ptr(), signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, own.as_ptr(), none);
        }
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        // SAFETY: an action of zeros is the default one.
        replace(signal, Some(unsafe { std::mem::zeroed() }));
    }
}

/// A fault that is not ours goes where it would have gone; the default action needs the access to
/// be repeated under it, or the signal where one was sent.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void, is_sent: bool) {
    // SAFETY: null or a box that is never freed.
    let before = unsafe { previous(signal).load(Ordering::Acquire).as_ref() };
    if let Some(before) = before {
        prepare(signal, before);
    }
    // SAFETY: `before` is what sigaction returned for this signal; a handler in it is called with
    // the arguments the kernel gave us, in the form its flags ask for.
    unsafe {
        match before {
            Some(b) if b.sa_sigaction > libc::SIG_IGN && b.sa_flags & libc::SA_SIGINFO != 0 => {
                type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
                let f = std::mem::transmute::<usize, Handler>(b.sa_sigaction);
                f(signal, info, context);
            }
            Some(b) if b.sa_sigaction > libc::SIG_IGN => {
                let f = std::mem::transmute::<usize, extern "C" fn(i32)>(b.sa_sigaction);
                f(signal);
            }
            Some(b) if b.sa_sigaction == libc::SIG_IGN && is_sent => {}
            // The kernel's own call: the C library's may be the program's way to this module. An
            // action of zeros is the default one; eight bytes of mask.
            _ => {
                let default = [0usize; 8];
                let old = std::ptr::null_mut::<usize>();
                libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), old, 8);
                if is_sent {
                    // It is blocked until this handler returns.
                    libc::raise(signal);
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Where the program's handler ran, and whether it ran with its own mask.
    static RAN_AT: AtomicUsize = AtomicUsize::new(0);
    static HAD_ITS_MASK: AtomicBool = AtomicBool::new(false);

    fn blocks(signal: i32) -> bool {
        let mut set = MaybeUninit::zeroed();
        // SAFETY: the call writes this thread's mask into a variable of this frame.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr());
            libc::sigismember(set.as_ptr(), signal) == 1
        }
    }

    extern "C" fn note(signal: i32) {
        let here = 0u8;
        RAN_AT.store((&raw const here).addr(), Ordering::Relaxed);
        HAD_ITS_MASK.store(blocks(libc::SIGUSR1) && !blocks(signal), Ordering::Relaxed);
    }

    /// In a process of its own: the kernel's action for the signal is changed for good.
    #[test]
    fn a_programs_handler_runs_with_its_mask_on_its_alternate_stack() {
        const CHILD: &str = "DSM_TEST_HANDLER";
        const NAME: &str = "memory::raw::handler::tests::\
            a_programs_handler_runs_with_its_mask_on_its_alternate_stack";
        if std::env::var_os(CHILD).is_none() {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let out = child.args(["--exact", NAME]).env(CHILD, "1").output().unwrap();
            let said = String::from_utf8_lossy(&out.stdout);
            assert!(out.status.success() && said.contains("1 passed"), "{:?} {said}", out.status);
            return;
        }
        let aside = vec![0u8; 2 * STACK_MIN].leak();
        let range = aside.as_ptr_range();
        let stack =
            libc::stack_t { ss_sp: aside.as_mut_ptr().cast(), ss_flags: 0, ss_size: aside.len() };
        install();
        // SAFETY: the stack is never freed; an action of zeros is a valid one, its mask a variable
        // of this frame; the signal is one that a handler waits for.
        unsafe {
            assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0);
            let mut own: libc::sigaction = std::mem::zeroed();
            own.sa_sigaction = note as *const () as usize;
            own.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaddset(&raw mut own.sa_mask, libc::SIGUSR1);
            assert!(replace(libc::SIGSEGV, Some(own)).is_some());
            assert_eq!(libc::raise(libc::SIGSEGV), 0);
        }
        assert!((range.start.addr()..range.end.addr()).contains(&RAN_AT.load(Ordering::Relaxed)));
        assert!(HAD_ITS_MASK.load(Ordering::Relaxed));
        assert!(!blocks(libc::SIGUSR1) && !blocks(libc::SIGSEGV), "the kernel puts masks back");
    }
}
