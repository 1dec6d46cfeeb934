//! The end of a process whose job is lost.
//!
//! Invariants
//! - What the C library holds for standard output and error goes out, unless another thread has the
//!   stream: waiting for it could be for ever. Checked by `bad_input_ends_in_words`.
//! - No handler of the program (`atexit`) runs: the caller may hold locks that it would wait for.
//!   Checked by `bad_input_ends_in_words`.
#![allow(unsafe_code)] // Reason: streams of the C library.

use libc::{FILE, c_int};

unsafe extern "C" {
    static stdout: *mut FILE;
    static stderr: *mut FILE;
    fn ftrylockfile(stream: *mut FILE) -> c_int;
    fn funlockfile(stream: *mut FILE);
    fn fflush_unlocked(stream: *mut FILE) -> c_int;
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
