//! What a launched process is given: a socket by its number, and its launcher's end as its own.
#![allow(unsafe_code)] // Reason: a descriptor left open by another process; a call before exec.

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use littoral_base::mutant;
use rustix::io::{FdFlags, fcntl_setfd};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The socket with number `fd` that the launcher left open (a listener, or the way to a conductor);
/// `None` when it has been taken, or is none of a program's own numbers. What this process starts
/// does not get it: a conductor hears of a rank's end by the end of the socket.
pub(super) fn inherited(fd: i32) -> Option<OwnedFd> {
    if fd <= 2 || TAKEN.swap(true, Ordering::AcqRel) {
        return None;
    }
    // SAFETY: the launcher opened the descriptor for this process, which does not know its number
    // by any other way, and it is taken once (checked above).
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    if !mutant!("dsm_programs_inherit_sockets") {
        // It fails for no open descriptor, and one that is none is noticed when it is used.
        let _ = fcntl_setfd(&socket, FdFlags::CLOEXEC);
    }
    Some(socket)
}

/// Ends what `command` starts when the thread that starts it ends, also what it executes in turn:
/// the chain `ip netns exec`, `env`, program, or a client of `ssh`.
pub(super) fn end_with_this_thread(command: &mut Command) {
    let launcher = rustix::process::getpid();
    let ask = move || {
        let kill = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(kill)?;
        // The launcher may have ended before the question.
        let parent = rustix::process::getppid();
        if parent == Some(launcher) { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd as _;
    use std::os::unix::net::UnixStream;

    use rustix::io::fcntl_getfd;

    use super::*;

    /// As a launcher leaves it open; no other test takes one.
    #[test]
    fn a_socket_of_the_launcher_is_taken_once_and_reaches_no_program_of_this_one() {
        let (own, _other) = UnixStream::pair().unwrap();
        fcntl_setfd(&own, FdFlags::empty()).unwrap();
        let number = own.into_raw_fd();
        let taken = inherited(number).unwrap();
        assert!(fcntl_getfd(&taken).unwrap().contains(FdFlags::CLOEXEC));
        assert!(inherited(number).is_none());
    }

    #[test]
    fn standard_streams_are_never_taken_for_a_listener() {
        for fd in [-1, 0, 1, 2] {
            assert!(inherited(fd).is_none());
        }
    }
}
