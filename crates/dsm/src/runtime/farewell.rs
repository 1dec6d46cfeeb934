//! How a rank of a hosts file shows its launcher that it has left the job in good order.
//!
//! Such a rank shares no board with its launcher: a command such as `ssh` brings there what the
//! rank prints and its exit code, and nothing else. The rank therefore writes [`MARK`] to its
//! standard error, and the launcher takes it out of what it passes on. It is a control sequence for
//! which terminals show nothing (an application program command of ECMA-48), since a command may
//! bring both outputs as one.
//!
//! Invariants
//! - The mark goes where the rank's standard error led when it joined, or nowhere: a program may
//!   have put a file of its own in its place. Checked by `a_mark_goes_to_the_stream_of_the_start`.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

/// What a rank writes that has left; it has no byte of a line's end.
pub(crate) const MARK: &[u8] = b"\x1b_littoral-dsm left\x1b\\";

// A pipe takes it in one piece.
const _: () = assert!(MARK.len() <= 512);

/// The stream that standard error led to: {device, inode}.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Farewell(u64, u64);

impl Farewell {
    /// That of this process, where it has one.
    pub(super) fn of_this_process() -> Option<Farewell> {
        Self::at("/proc/self/fd/2")
    }

    fn at(path: &str) -> Option<Farewell> {
        std::fs::metadata(path).ok().map(|stream| Farewell(stream.dev(), stream.ino()))
    }

    /// Says that this rank has left.
    pub(super) fn say(self) {
        if Self::of_this_process() == Some(self) {
            // A closed standard error leaves nothing to be done.
            let _ = std::io::stderr().write_all(MARK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_goes_to_the_stream_of_the_start() {
        let own = Farewell::of_this_process().unwrap();
        assert!(Farewell::of_this_process() == Some(own));
        assert!(Farewell::at("/proc/self/exe") != Some(own));
        assert!(Farewell::at("/proc/self/none").is_none());
        assert!(!MARK.contains(&b'\n'));
    }
}
