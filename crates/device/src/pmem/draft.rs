//! A new file that has no name until it is whole.
//!
//! Life: the file is made in its folder without a name (O_TMPFILE), or, where the file system has
//! no such files, beside its final name, as `NAME.PROCESS.N.new`; its owner fills it;
//! [`Draft::publish`] gives it its name. A draft that is dropped before, because of an error, is
//! removed. A file without a name ends with its process; of the others a process that is killed
//! leaves its draft.
//!
//! Invariants
//! - Under its final name a file is whole: it gets the name when its owner says so, in one step.
//!   Checked by `a_file_has_its_name_once_it_is_published_and_replaces_nothing`.
//! - Where files need no name a process that ends in any way leaves no draft. Checked by
//!   `a_draft_has_no_name_that_a_killed_process_could_leave`.
//! - Nothing that exists is replaced, also what another process made meanwhile. Checked by
//!   `a_file_has_its_name_once_it_is_published_and_replaces_nothing`.
//! - A file that was published is named durably: its directory is synchronised. Checked by
//!   `creation_synchronises_the_file_and_its_folder`.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use littoral_base::mutant;
use littoral_base::names::{folder_of, name_durably};
use rustix::fs::{AtFlags, CWD, FallocateFlags, fallocate, linkat};
use rustix::io::{Errno, retry_on_intr};

use super::sink::{Event, note};
use crate::error::{Error, Kind, Result};
use crate::naming::{draft_of, rename_new};

/// A file that has not got its name yet; see the module's page.
#[derive(Debug)]
#[must_use = "a draft that is dropped is removed"]
pub struct Draft {
    path: PathBuf,
    /// Where the file is until it has its name.
    draft: PathBuf,
    /// The file, where it has no name at all until then.
    unnamed: Option<File>,
    is_renamed: bool,
}

fn exists(path: &Path) -> Error {
    Error::new(Kind::Exists, format!("{}: exists already; nothing changed", path.display()))
}

fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    Error::with_source(Kind::Io, format!("{}: {what}", path.display()), source)
}

impl Draft {
    /// Makes an empty file that is to be called `path`, open for reading and writing.
    ///
    /// # Errors
    /// `Kind::Exists`, `Kind::Io`.
    pub(in crate::pmem) fn begin(path: &Path) -> Result<(Draft, File)> {
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        Self::unnamed(path).map_or_else(|| Self::named(path), Ok)
    }

    /// A file without a name; none where the file system has no such files, or no `/proc` is there,
    /// by which it is opened again and gets its name.
    fn unnamed(path: &Path) -> Option<(Draft, File)> {
        if mutant!("device_draft_has_a_name") || mutant!("device_draft_has_the_final_name") {
            return None;
        }
        let mut how = OpenOptions::new();
        how.read(true).write(true).custom_flags(libc::O_TMPFILE);
        let file = how.open(folder_of(path)).ok()?;
        let kept = file.try_clone().ok()?;
        let draft = PathBuf::from(format!("/proc/self/fd/{}", kept.as_raw_fd()));
        draft.metadata().ok()?;
        let path = path.to_owned();
        Some((Draft { path, draft, unnamed: Some(kept), is_renamed: false }, file))
    }

    /// A file under a name of its own.
    fn named(path: &Path) -> Result<(Draft, File)> {
        let is_final = mutant!("device_draft_has_the_final_name");
        let draft = if is_final { path.to_owned() } else { draft_of(path) };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&draft);
        let file = file.map_err(|e| failed("create", path, e))?;
        Ok((Draft { path: path.to_owned(), draft, unnamed: None, is_renamed: false }, file))
    }

    /// Where the file is now.
    pub(in crate::pmem) fn at(&self) -> &Path {
        &self.draft
    }

    /// Gives the file its name, durably. A mapping of it, and its lock, stay as they are.
    ///
    /// # Errors
    /// `Kind::Exists` when a file of that name was made meanwhile, `Kind::Io`; no file of ours is
    /// left then.
    pub fn publish(mut self) -> Result<()> {
        let named = match &self.unnamed {
            Some(_) => name(&self.draft, &self.path).map(|()| false),
            None => rename_new(&self.draft, &self.path),
        };
        self.is_renamed = named.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => exists(&self.path),
            _ => failed("name the new file", &self.path, e),
        })?;
        // Some file systems log a file's first name with the file.
        let with_file = self.unnamed.as_ref().map_or(Ok(()), File::sync_all);
        let synced = with_file.and_then(|()| name_durably(&self.path));
        note(Event::Named);
        synced.map_err(|e| {
            // The first failure is the one to report.
            let _ = std::fs::remove_file(&self.path);
            failed("synchronise the folder of the new file", folder_of(&self.path), e)
        })
    }
}

/// Gives an empty file `len` zero bytes whose room is reserved, so that no store through a mapping
/// finds the file system full.
///
/// # Errors
/// What the system says.
pub(in crate::pmem) fn reserve(file: &File, len: u64) -> io::Result<()> {
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
        // Not every file system reserves (9p, older NFS): what is written has its room.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, len),
        reserved => reserved.map_err(io::Error::from),
    }
}

/// Reserves room for the holes of a file of `len` bytes, as one copied without its zeros has; what
/// it holds stays. Where the file system reserves nothing the holes stay.
///
/// # Errors
/// What the system says.
pub(in crate::pmem) fn reserve_holes(file: &File, len: u64) -> io::Result<()> {
    // Blocks are counted by 512 bytes, whatever the file system's own are.
    let is_whole = file.metadata()?.blocks().saturating_mul(512) >= len;
    if is_whole || mutant!("pmem_holes_unreserved") {
        return Ok(());
    }
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        reserved => reserved.map_err(io::Error::from),
    }
}

fn write_zeros(mut file: &File, len: u64) -> io::Result<()> {
    io::copy(&mut io::repeat(0).take(len), &mut file).map(drop)
}

/// Gives the file behind a descriptor, as `/proc` shows it, a name that no file has.
fn name(descriptor: &Path, to: &Path) -> io::Result<()> {
    linkat(CWD, descriptor, CWD, to, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.unnamed.is_none() && !self.is_renamed {
            // What cannot be removed stays under a name that is never opened.
            let _ = std::fs::remove_file(&self.draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    #[test]
    fn a_draft_has_no_name_that_a_killed_process_could_leave() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut unnamed = OpenOptions::new();
        unnamed.write(true).custom_flags(libc::O_TMPFILE);
        if unnamed.open(dir.path()).is_err() {
            let why = "the folder's file system has no files without a name";
            let _ = writeln!(io::stderr(), "NOT RUN: draft: {why}");
            return;
        }
        let files_count = || std::fs::read_dir(dir.path()).unwrap().count();
        let (draft, mut file) = Draft::begin(&path).unwrap();
        assert_eq!(files_count(), 0);
        file.write_all(b"whole").unwrap();
        drop(file);
        assert_eq!(std::fs::read(draft.at()).unwrap(), b"whole", "opened again");
        draft.publish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(Draft::begin(&path).unwrap_err().kind(), Kind::Exists);
        assert_eq!(files_count(), 1);
    }

    #[test]
    fn a_file_whose_zeros_are_written_is_like_one_whose_room_is_reserved() {
        let len = 3 * 4096 + 64;
        let (reserved, written) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        reserve(&reserved, len).unwrap();
        write_zeros(&written, len).unwrap();
        for mut file in [reserved, written] {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, vec![0; len as usize]);
        }
    }

    #[test]
    fn a_draft_under_a_name_of_its_own_is_renamed_replaces_nothing_and_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let files_count = || std::fs::read_dir(dir.path()).unwrap().count();
        let (given_up, _) = Draft::named(&path).unwrap();
        assert_eq!(files_count(), 1);
        drop(given_up);
        assert_eq!(files_count(), 0);
        let (late, _) = Draft::named(&path).unwrap();
        let (draft, mut file) = Draft::named(&path).unwrap();
        file.write_all(b"whole").unwrap();
        draft.publish().unwrap();
        assert_eq!(late.publish().unwrap_err().kind(), Kind::Exists);
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(files_count(), 1);
    }
}
