//! The one listener a launched rank is handed by number.
#![allow(unsafe_code)] // Reason: a file descriptor that another process left open for us.

use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The listener with number `fd` that the launcher left open; `None` when it has been taken, or is
/// none of a program's own numbers.
pub(super) fn inherited_listener(fd: i32) -> Option<TcpListener> {
    if fd <= 2 || TAKEN.swap(true, Ordering::AcqRel) {
        return None;
    }
    // SAFETY: the launcher opened the descriptor for this process, which does not know its number
    // by any other way, and it is taken once (checked above).
    Some(unsafe { TcpListener::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_streams_are_never_taken_for_a_listener() {
        for fd in [-1, 0, 1, 2] {
            assert!(inherited_listener(fd).is_none());
        }
    }
}
