//! A file that this process has locked for itself, or shares with other readers.
//!
//! Invariants
//! - The lock is an advisory one on the open file (flock). It is given back when the [`OwnedFile`]
//!   is dropped, also while a child process that another thread is starting still has a duplicate
//!   of the descriptor: closing the descriptor alone would leave the file locked until that child
//!   has begun its program. Checked by
//!   `the_lock_ends_with_its_owner_and_not_with_the_last_descriptor`.
//! - A forked child that drops its copy leaves the lock to the process that took it. Checked by
//!   `a_child_that_drops_its_copy_leaves_the_lock_to_its_parent`.
//! - A forked child neither changes nor reads the file: what it knows of it ends with the fork, and
//!   its owner goes on writing. Checked by `a_forked_child_is_refused_and_changes_nothing`,
//!   `a_forked_child_does_not_read_what_its_parent_rewrites`.

use std::fs::File;

use littoral_base::mutant;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// An open, locked file; see the module's page.
#[derive(Debug)]
pub(crate) struct OwnedFile {
    file: File,
    process: u32,
}

impl OwnedFile {
    /// Locks `file` for one owner.
    ///
    /// # Errors
    /// `WOULDBLOCK` when it is locked, else what the system says.
    pub(crate) fn exclusive(file: File) -> Result<OwnedFile, Errno> {
        flock(&file, FlockOperation::NonBlockingLockExclusive).map(|()| Self::of_this_process(file))
    }

    /// Locks `file` together with others that only read it.
    ///
    /// # Errors
    /// As [`OwnedFile::exclusive`].
    pub(crate) fn shared(file: File) -> Result<OwnedFile, Errno> {
        flock(&file, FlockOperation::NonBlockingLockShared).map(|()| Self::of_this_process(file))
    }

    fn of_this_process(file: File) -> OwnedFile {
        OwnedFile { file, process: std::process::id() }
    }

    fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// The file, to change it.
    ///
    /// # Errors
    /// As [`OwnedFile::to_read`].
    pub(crate) fn to_change(&self) -> std::io::Result<&File> {
        if mutant!("device_child_writes") { Ok(&self.file) } else { self.ours() }
    }

    /// The file, to read it.
    ///
    /// # Errors
    /// `PermissionDenied` in a forked child of the process that locked it.
    pub(crate) fn to_read(&self) -> std::io::Result<&File> {
        if mutant!("device_child_reads") { Ok(&self.file) } else { self.ours() }
    }

    fn ours(&self) -> std::io::Result<&File> {
        if self.is_ours() {
            return Ok(&self.file);
        }
        let text = format!(
            "process {} opened it and this is a child that it forked; open it again here, after \
             the parent has closed it",
            self.process
        );
        Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, text))
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        if self.is_ours() && !mutant!("device_lock_left_to_descriptor") {
            // Where this fails, closing the descriptor gives the lock back.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::fork::in_child;

    #[test]
    fn the_lock_ends_with_its_owner_and_not_with_the_last_descriptor() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let again = || OwnedFile::exclusive(file.reopen().unwrap());
        let owner = again().unwrap();
        // What a child has between its fork and its exec.
        let inherited = owner.file.try_clone().unwrap();
        assert_eq!(again().err(), Some(Errno::WOULDBLOCK));
        drop(owner);
        drop(again().unwrap());
        drop(inherited);
        again().unwrap();
    }

    #[test]
    fn a_child_that_drops_its_copy_leaves_the_lock_to_its_parent() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let owner = std::cell::Cell::new(OwnedFile::exclusive(file.reopen().unwrap()).ok());
        let status = in_child(|| {
            drop(owner.take());
            0
        });
        assert_eq!(status, 0);
        let again = OwnedFile::exclusive(file.reopen().unwrap());
        assert_eq!(again.err(), Some(Errno::WOULDBLOCK), "still the parent's");
    }
}
