//! A new file under a name of its own until it is whole.
//!
//! Life: the file is made beside its final name, as `NAME.PROCESS.N.new`; its owner fills it;
//! [`Draft::publish`] gives it its name. A draft that is dropped before, because of an error, is
//! removed. A process that is killed leaves its draft.
//!
//! Invariants
//! - Under its final name a file is whole: it gets the name when its owner says so, in one step.
//!   Checked by `a_file_has_its_name_once_it_is_published_and_replaces_nothing`.
//! - Nothing that exists is replaced, also what another process made meanwhile. Checked by
//!   `a_file_has_its_name_once_it_is_published_and_replaces_nothing`.
//! - A file that was published is named durably: its directory is synchronised. Checked by
//!   `creation_synchronises_the_file_and_its_folder`.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use littoral_base::mutant;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::sink::{Event, note};
use crate::error::{Error, Kind, Result};

/// A file that has not got its name yet; see the module's page.
#[derive(Debug)]
#[must_use = "a draft that is dropped is removed"]
pub struct Draft {
    path: PathBuf,
    draft: PathBuf,
    is_renamed: bool,
}

/// Keeps drafts of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

fn exists(path: &Path) -> Error {
    Error::new(Kind::Exists, format!("{}: exists already; nothing changed", path.display()))
}

fn failed(what: &str, path: &Path, source: std::io::Error) -> Error {
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
        let mut name = OsString::from(path.file_name().unwrap_or_default());
        name.push(format!(".{}.{}.new", std::process::id(), NEXT.fetch_add(1, Relaxed)));
        let is_final = mutant!("device_draft_has_the_final_name");
        let draft = if is_final { path.to_owned() } else { path.with_file_name(name) };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&draft);
        let file = file.map_err(|e| failed("create", path, e))?;
        Ok((Draft { path: path.to_owned(), draft, is_renamed: false }, file))
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
        self.is_renamed = rename(&self.draft, &self.path).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => exists(&self.path),
            _ => failed("name the new file", &self.path, e),
        })?;
        let folder = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let synced = File::open(folder).and_then(|f| f.sync_all());
        note(Event::Named);
        match synced {
            // A file system that names files durably by itself refuses to be told to.
            Err(e) if e.kind() != ErrorKind::InvalidInput => {
                // The first failure is the one to report.
                let _ = std::fs::remove_file(&self.path);
                Err(failed("synchronise the folder of the new file", folder, e))
            }
            _ => Ok(()),
        }
    }
}

/// Gives a file a name that no file has. Whether its old name is gone.
fn rename(from: &Path, to: &Path) -> std::io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can refuse to replace: a second name is refused by all.
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::hard_link(from, to).map(|()| false),
        renamed => renamed.map(|()| true).map_err(std::io::Error::from),
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_renamed {
            // What cannot be removed stays under a name that is never opened.
            let _ = std::fs::remove_file(&self.draft);
        }
    }
}
