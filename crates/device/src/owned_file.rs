//! A file that this process has locked for itself, or shares with other readers.
//!
//! Invariants
//! - The lock is an advisory one on the open file (flock). It is given back when the [`OwnedFile`]
//!   is dropped, also while a child process that another thread is starting still has a duplicate
//!   of the descriptor: closing the descriptor alone would leave the file locked until that child
//!   has begun its program. Checked by
//!   `the_lock_ends_with_its_owner_and_not_with_the_last_descriptor`.
//! - A lock whose owner was killed while it started another process is not refused to the next one:
//!   it is waited for until that child has begun its program, or has ended. In a namespace of
//!   processes, as containers have, that holds only until the owner's parent has taken note of its
//!   end: then the system lists the lock there no more, and it is refused. Checked by
//!   `a_lock_that_a_dead_owner_left_to_its_child_is_waited_for`.
//! - A forked child that drops its copy leaves the lock to the process that took it. Checked by
//!   `a_child_that_drops_its_copy_leaves_the_lock_to_its_parent`.
//! - A forked child neither changes nor reads the file: what it knows of it ends with the fork, and
//!   its owner goes on writing. Checked by `a_forked_child_is_refused_and_changes_nothing`,
//!   `a_forked_child_does_not_read_what_its_parent_rewrites`.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use littoral_base::mutant;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How long a child may take from its fork to its program, in naps of [`NAP`].
const NAPS_MAX: u32 = 1000;
const NAP: Duration = Duration::from_millis(5);
/// How often the system's list of locks is read for one that it must have.
const LOOKS: usize = 8;

/// Locks `file` for one owner, or together with others that only read it. Where the owner is gone
/// and a child that it was starting has the lock still, waits for that child, at most five seconds.
///
/// # Errors
/// `WOULDBLOCK` when it is locked, else what the system says.
pub(crate) fn lock(file: &File, is_alone: bool) -> Result<(), Errno> {
    let how = match is_alone {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    let mut naps = 0..NAPS_MAX;
    loop {
        let locked = flock(file, how);
        if locked != Err(Errno::WOULDBLOCK) {
            return locked;
        }
        if !is_left_behind(file) || naps.next().is_none() {
            // It may have ended since: then the system lists it no more.
            return flock(file, how);
        }
        std::thread::sleep(NAP);
    }
}

/// Locks a file or folder without waiting for an owner that lives, alone or together with others
/// that lock it so. A lock whose owner is gone is waited for, as a device's is. It ends with the
/// last descriptor, or with [`File::unlock`].
///
/// # Errors
/// `WouldBlock` when it is locked, else what the system says.
pub fn try_lock(file: &File, is_alone: bool) -> std::io::Result<()> {
    lock(file, is_alone).map_err(std::io::Error::from)
}

/// Whether a process has locked the file and is gone. What the system does not tell counts as no.
fn is_left_behind(file: &File) -> bool {
    if mutant!("device_inherited_lock_refused") {
        return false;
    }
    let Ok(inode) = file.metadata().map(|m| m.ino()) else { return false };
    has_gone_owner(std::iter::repeat_with(listed), inode)
}

/// Whether an owner is gone by the first of the `lists` that has an owner. The system makes its
/// list anew for every read of it, and goes on by a count of locks: where others gave theirs back
/// between two reads, the list lacks locks that were there all the time.
fn has_gone_owner(lists: impl Iterator<Item = String>, inode: u64) -> bool {
    let is_listed = |locks: &String| owners(locks, inode).next().is_some();
    let looks = if mutant!("device_locks_listed_once") { 1 } else { LOOKS };
    let found = lists.take(looks).find(is_listed);
    found.is_some_and(|locks| owners(&locks, inode).any(is_gone))
}

/// The system's list of locks, in as few reads as it allows.
fn listed() -> String {
    let mut bytes = Vec::with_capacity(64 << 10);
    if let Ok(mut locks) = File::open("/proc/locks") {
        // What was read before an error is listed.
        let _ = locks.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The processes that have a lock on the file with this number, by the lines of `/proc/locks`:
/// `1: FLOCK ADVISORY WRITE process major:minor:inode first last`. The device may be another one
/// than the file's metadata tell (overlays), and does not matter: who waits tries again.
fn owners(locks: &str, inode: u64) -> impl Iterator<Item = u32> {
    locks.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, process, place, ..] = words[..] else { return None };
        let has_it = place.rsplit(':').next()?.parse() == Ok(inode);
        process.parse().ok().filter(|_| has_it)
    })
}

/// Whether a process has ended, be it unnoticed by its parent. Numbers of other namespaces, which
/// read as zero, do not count.
fn is_gone(process: u32) -> bool {
    process != 0 && says_gone(std::fs::read_to_string(format!("/proc/{process}/stat")))
}

/// [`is_gone`], by what came of reading the process's `stat`.
fn says_gone(stat: std::io::Result<String>) -> bool {
    match stat {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        // SRCH where its parent took note of its end between the opening of `stat` and the reading.
        Err(e) => {
            e.kind() == std::io::ErrorKind::NotFound
                || e.raw_os_error() == Some(Errno::SRCH.raw_os_error())
        }
    }
}

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
        lock(&file, true).map(|()| Self::of_this_process(file))
    }

    /// Locks `file` together with others that only read it.
    ///
    /// # Errors
    /// As [`OwnedFile::exclusive`].
    pub(crate) fn shared(file: File) -> Result<OwnedFile, Errno> {
        lock(&file, false).map(|()| Self::of_this_process(file))
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
    use std::io::Write as _;

    use super::*;
    use crate::raw::fork::{in_child, leaves_an_orphan};

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

    #[test]
    fn a_lock_that_a_dead_owner_left_to_its_child_is_waited_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (mut told, tell) = std::io::pipe().unwrap();
        let (own, tell) = (file.reopen().unwrap(), std::cell::Cell::new(Some(tell)));
        // The child lives until this test tells it to end, or ends.
        leaves_an_orphan(
            || {
                drop(tell.take());
                let _ = flock(&own, FlockOperation::NonBlockingLockExclusive);
            },
            || drop(told.read(&mut [0])),
        );
        drop(own);
        let again = file.reopen().unwrap();
        let taken = flock(&again, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(taken, Err(Errno::WOULDBLOCK), "the child has it");
        // The first namespace's number is the same on every Linux.
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if namespace != std::path::Path::new("pid:[4026531836]") {
            let why = "a container's system does not list a lock whose owner is gone";
            let _ = writeln!(std::io::stderr(), "NOT RUN: owned_file: {why}");
            return;
        }
        assert!(is_left_behind(&again));
        let mut tell = tell.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(4 * NAP);
                tell.write_all(&[1]).unwrap();
            });
            OwnedFile::exclusive(again).unwrap();
        });
    }

    #[test]
    fn owners_are_read_from_the_systems_list_of_locks() {
        let list = "1: POSIX  ADVISORY  WRITE 7 fe:00:42 0 EOF\n\
                    2: FLOCK  ADVISORY  READ 8 fe:00:42 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 9 fe:00:42 0 EOF\n\
                    3: FLOCK  ADVISORY  READ 10 fe:01:42 0 EOF\n\
                    4: FLOCK  ADVISORY  WRITE -1 fe:00:42 0 EOF\n\
                    5: FLOCK  ADVISORY  WRITE 11 fe:00:421 0 EOF\n6: FLOCK\n\n";
        assert_eq!(owners(list, 42).collect::<Vec<_>>(), [8, 10]);
        assert_eq!(owners(list, 1).count(), 0);
        assert!(!is_gone(std::process::id()) && !is_gone(0) && !is_gone(1));
    }

    #[test]
    fn a_lock_that_one_list_lacks_is_looked_for_in_the_next() {
        // No process has a number as large.
        let gone = "2: FLOCK  ADVISORY  WRITE 2147483647 fe:00:42 0 EOF\n";
        let lists = |has: &[&str]| has.iter().map(|&list| list.to_owned()).collect::<Vec<_>>();
        assert!(has_gone_owner(lists(&["", "1: FLOCK\n", gone]).into_iter(), 42));
        let owned = format!("1: FLOCK  ADVISORY  WRITE {} fe:00:42 0 EOF\n", std::process::id());
        assert!(!has_gone_owner(lists(&["", &owned, gone]).into_iter(), 42), "it has an owner");
        assert!(!has_gone_owner(std::iter::repeat(String::new()), 42), "another namespace's");
    }

    #[test]
    fn a_process_that_ends_while_it_is_asked_for_is_gone() {
        let read = |stat: &str| says_gone(Ok(stat.to_owned()));
        assert!(read("7 (a) Z 1 7") && read("7 (a) R (b) X 1 7"));
        assert!(!read("7 (a) Z) R 1 7") && !read("7 (Z) S 1 7") && !read(""));
        let failed = |e: Errno| says_gone(Err(e.into()));
        assert!(failed(Errno::NOENT) && failed(Errno::SRCH));
        assert!(!failed(Errno::ACCESS) && !failed(Errno::MFILE));
    }
}
