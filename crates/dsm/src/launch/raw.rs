//! The one socket a launched rank is handed by number.
#![allow(unsafe_code)] // Reason: a file descriptor that another process left open for us.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The socket with number `fd` that the launcher left open (a listener, or the way to a conductor);
/// `None` when it has been taken, or is none of a program's own numbers.
pub(super) fn inherited(fd: i32) -> Option<OwnedFd> {
    if fd <= 2 || TAKEN.swap(true, Ordering::AcqRel) {
        return None;
    }
    // SAFETY: the launcher opened the descriptor for this process, which does not know its number
    // by any other way, and it is taken once (checked above).
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_streams_are_never_taken_for_a_listener() {
        for fd in [-1, 0, 1, 2] {
            assert!(inherited(fd).is_none());
        }
    }
}
