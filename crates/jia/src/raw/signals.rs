//! A program's own handlers for SIGSEGV and SIGBUS.
//!
//! Faults of shared memory are these signals, so their handlers are the library's. A program that
//! installs its own, by `sigaction`, `signal` or an older name of it, is given the faults that are
//! its own: this crate's functions of those names come before the C library's. A program that is
//! compiled as C of 1989 calls `__sysv_signal` where it says `signal`.
//!
//! Handlers of other signals do not block these two, whatever their mask says: where a fault's
//! signal is blocked, the kernel ends the process in place of calling the handler. Else nothing
//! changes for other signals, and before the library has a handler.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use littoral_base::mutant;
use littoral_dsm::memory::foreign;

type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

/// The C library's function.
fn real() -> Option<Sigaction> {
    static FOUND: OnceLock<Option<Sigaction>> = OnceLock::new();
    const NAME: &CStr = c"sigaction";
    *FOUND.get_or_init(|| {
        // SAFETY: the name is a string; the symbol after this one is the C library's function.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr()) };
        // SAFETY: a function of this name has this signature.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut _, Sigaction>(found) })
    })
}

/// The C library's `sigaction`, but for faults of shared memory.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    if foreign::is_ours(signal) {
        // SAFETY: null or a valid action, as the caller promises.
        let new = unsafe { action.as_ref() };
        let old = foreign::replace(signal, new.copied());
        // SAFETY: null or room for an action, as the caller promises.
        if let (Some(before), Some(old)) = (unsafe { before.as_mut() }, old) {
            *before = old;
        }
        return 0;
    }
    // SAFETY: null or a valid action, as the caller promises.
    let action = unsafe { action.as_ref() }.map(without_faults);
    let action = action.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: null or an action of this frame; the caller's own arguments.
    real().map_or(-1, |real| unsafe { real(signal, action, before) })
}

/// The action with a mask that leaves the signals of faults unblocked: its handler may touch shared
/// memory.
fn without_faults(action: &libc::sigaction) -> libc::sigaction {
    let mut action = *action;
    if !mutant!("jia_handlers_block_faults") {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: the set is a variable of this frame, the number that of a signal.
            unsafe { libc::sigdelset(&raw mut action.sa_mask, signal) };
        }
    }
    action
}

/// The C library's `signal`, but for faults of shared memory.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the caller's own arguments.
    unsafe { install(number, handler, libc::SA_RESTART) }
}

/// As `signal`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bsd_signal(
    number: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: the caller's own arguments.
    unsafe { install(number, handler, libc::SA_RESTART) }
}

/// A handler for one signal that it does not block, as System V has it.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysv_signal(
    number: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: the caller's own arguments.
    unsafe { install(number, handler, libc::SA_RESETHAND | libc::SA_NODEFER) }
}

/// As `sysv_signal`: what `signal` is in a program of strict C.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sysv_signal(
    number: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: the caller's own arguments.
    unsafe { sysv_signal(number, handler) }
}

unsafe fn install(number: c_int, handler: libc::sighandler_t, flags: c_int) -> libc::sighandler_t {
    // SAFETY: an action of zeros is a valid one.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    // SAFETY: both are variables of this frame.
    let done = unsafe { sigaction(number, &raw const new, &raw mut old) };
    if done == 0 { old.sa_sigaction } else { libc::SIG_ERR }
}
