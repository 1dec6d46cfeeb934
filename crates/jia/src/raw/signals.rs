//! A program's own handlers for SIGSEGV and SIGBUS.
//!
//! Faults of shared memory are these signals, so their handlers are the library's. A program that
//! installs its own, by `sigaction`, `signal` or an older name of it, is given the faults that are
//! its own: this crate's functions of those names come before the C library's. A program that is
//! compiled as C of 1989 calls `__sysv_signal` where it says `signal`.
//!
//! For other signals, and before the library has a handler, nothing changes.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

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
    // SAFETY: the caller's own arguments.
    real().map_or(-1, |real| unsafe { real(signal, action, before) })
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
