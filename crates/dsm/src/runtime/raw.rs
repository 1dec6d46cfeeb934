//! The end of a process whose job is lost, and signals of a program kept off the library's threads.
//!
//! Invariants
//! - What the C library holds for standard output and error goes out, unless another thread has the
//!   stream: waiting for it could be for ever. Checked by `bad_input_ends_in_words`.
//! - A program's timer does not run its handler on a thread of the library. Checked by
//!   `every_program_agrees_over_tcp`.
//! - No handler of the program (`atexit`) runs: the caller may hold locks that it would wait for.
//!   Checked by `bad_input_ends_in_words`.
#![allow(unsafe_code)] // Reason: streams of the C library.

use std::mem::MaybeUninit;

use libc::{FILE, c_int};
use littoral_base::mutant;

unsafe extern "C" {
    static stdout: *mut FILE;
    static stderr: *mut FILE;
    fn ftrylockfile(stream: *mut FILE) -> c_int;
    fn funlockfile(stream: *mut FILE);
    fn fflush_unlocked(stream: *mut FILE) -> c_int;
}

/// Signals that a thread of the library may take: what ends or stops a process by hand, and what
/// the thread's own instructions raise.
const TAKEN: [c_int; 11] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];

/// Runs `act`, which starts threads: the program's handlers, such as those of timers, do not run on
/// these. The calling thread takes signals again afterwards.
pub(crate) fn without_signals<T>(act: impl FnOnce() -> T) -> T {
    if mutant!("dsm_threads_take_signals") {
        return act();
    }
    let mut others = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: `sigfillset` makes the set whole, the numbers are those of signals, and the old mask
    // has room; `pthread_sigmask` fails for none of these arguments.
    unsafe {
        libc::sigfillset(others.as_mut_ptr());
        for signal in TAKEN {
            libc::sigdelset(others.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, others.as_ptr(), before.as_mut_ptr());
    }
    let done = act();
    // SAFETY: the mask was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    done
}

/// Ends the process with `code`, without the program's handlers of its end.
pub fn leave(code: i32) -> ! {
    // SAFETY: the C library's own streams; each is flushed under its lock or not at all.
    unsafe {
        for stream in [stdout, stderr] {
            if ftrylockfile(stream) == 0 {
                fflush_unlocked(stream);
                funlockfile(stream);
            }
        }
        libc::_exit(code)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The calling thread's mask, bit 0 of it for signal 1.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap()
    }

    #[test]
    fn threads_of_the_library_block_what_a_program_handles() {
        let before = blocked();
        let inside = without_signals(|| std::thread::spawn(blocked).join().unwrap());
        assert_eq!(blocked(), before);
        let blocks = |signal: c_int| (inside >> (signal - 1)) & 1 == 1;
        for signal in [libc::SIGALRM, libc::SIGUSR1, libc::SIGCHLD, libc::SIGIO, libc::SIGPROF] {
            assert!(blocks(signal), "{signal} of {inside:x}");
        }
        // What the thread that called blocked stays blocked.
        let own = |signal: c_int| (before >> (signal - 1)) & 1 == 1;
        assert!(TAKEN.into_iter().all(|signal| own(signal) || !blocks(signal)), "{inside:x}");
    }
}
