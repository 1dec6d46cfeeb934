//! SIGTERM, by which programs are asked to end, comes as Ctrl-C's signal does.
//!
//! Invariants
//! - A process that was started with SIGTERM ignored goes on ignoring it. Checked by
//!   `a_server_ends_in_good_order_by_either_signal`.
#![allow(unsafe_code)] // Reason: the C library sets what a signal does.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// From now on SIGTERM does what SIGINT does.
///
/// # Errors
/// What the system says; it refuses none of these calls.
pub(super) fn take_termination() -> io::Result<()> {
    if exchange(None)?.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    // SAFETY: an all-zero sigaction is a valid one, whose mask is empty.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_termination as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    exchange(Some(&action))?;
    Ok(())
}

/// What SIGTERM does; from now on `action`, where there is one.
fn exchange(action: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let action = action.map_or(ptr::null(), ptr::from_ref);
    let mut before = MaybeUninit::zeroed();
    // SAFETY: the action is none or has a handler that takes the signal's number alone, as without
    // SA_SIGINFO it must; `before` has room for the old one, and all zeros are a valid one.
    unsafe {
        match libc::sigaction(libc::SIGTERM, action, before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

extern "C" fn on_termination(_signal: libc::c_int) {
    // SAFETY: both calls are safe in a handler. A signal to the own process is always allowed, so
    // that `errno` stays as it was.
    unsafe { libc::kill(libc::getpid(), libc::SIGINT) };
}
