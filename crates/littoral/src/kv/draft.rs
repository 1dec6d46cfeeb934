//! The device file of a store that is being made.
//!
//! Life: the file is made beside its final name, as `NAME.PROCESS.N.new`, and filled;
//! [`Draft::publish`] gives it its name. A draft that is dropped before, because of an error, is
//! removed. What a killed process leaves is removed by the next creation of that name.
//!
//! Invariants
//! - Under its final name a device file holds a whole store: no part of a restore or repair is
//!   found there. Checked by `a_store_that_is_being_restored_is_not_there_and_a_part_is_replaced`.
//! - Nothing that exists is replaced, and no draft is removed that a process is filling: it is
//!   locked. Checked by `drafts_that_are_filled_and_other_files_are_kept`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use littoral_base::mutant;
use littoral_base::names::folder_of;
use littoral_device::naming::{draft_of, is_draft_of, rename_new};
use littoral_device::try_lock;
use littoral_device::zoned::file::MAGIC;
use littoral_index::backup::name_durably;
use littoral_index::{Error, Kind, Result};

use super::{device_error, failed};

/// A device file that has not got its name yet; see the module's page.
#[derive(Debug)]
#[must_use = "a draft that is dropped is removed"]
pub(super) struct Draft {
    path: PathBuf,
    draft: PathBuf,
}

impl Draft {
    /// Makes a device that is to be in the file `path`: `make` makes it in the file that it is
    /// given.
    ///
    /// # Errors
    /// `Kind::Exists`, those of `make`.
    pub(super) fn make<T>(
        path: &Path,
        make: impl FnOnce(&Path) -> littoral_device::Result<T>,
    ) -> Result<(Draft, T)> {
        vacant(path)?;
        remove_left(path);
        let is_final = mutant!("kv_device_filled_under_its_name");
        let draft = if is_final { path.to_owned() } else { draft_of(path) };
        let made = make(&draft).inspect_err(|e| {
            if e.kind() != littoral_device::Kind::Exists {
                let _ = std::fs::remove_file(&draft);
            }
        });
        let made = made.map_err(device_error)?;
        // Between its creation and its lock another creation may have taken it for one that was
        // left.
        if !draft.exists() {
            let text = format!("{}: another process makes a store there", path.display());
            return Err(Error::new(Kind::Busy, text));
        }
        Ok((Draft { path: path.to_owned(), draft }, made))
    }

    /// Gives the file its name, durably, and says it.
    ///
    /// # Errors
    /// `Kind::Exists` when a file of that name was made meanwhile, `Kind::Io`; no file of ours is
    /// left then.
    pub(super) fn publish(self) -> Result<PathBuf> {
        match rename_new(&self.draft, &self.path) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Err(exists(&self.path)),
            // Not every file system can refuse to replace, or has second names.
            Err(_) => {
                vacant(&self.path)?;
                let renamed = std::fs::rename(&self.draft, &self.path);
                renamed.map_err(|e| failed(&self.path, e))?;
            }
        }
        name_durably(&self.path).inspect_err(|_| {
            // Why it has no durable name matters more than that it cannot be removed.
            let _ = std::fs::remove_file(&self.path);
        })?;
        Ok(self.path.clone())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // What cannot be removed stays under a name that is never opened.
        let _ = std::fs::remove_file(&self.draft);
    }
}

fn exists(path: &Path) -> Error {
    Error::new(Kind::Exists, format!("{}: exists; it is not overwritten", path.display()))
}

/// Refuses a path where something is, be it a link to nothing.
fn vacant(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() { Err(exists(path)) } else { Ok(()) }
}

/// Removes the drafts of `path` that killed processes have left; what cannot be listed, opened or
/// removed stays.
fn remove_left(path: &Path) {
    let entries = std::fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    for left in entries.map(|entry| entry.path()).filter(|left| is_draft_of(path, left)) {
        match remove_if_left(&left) {
            Ok(()) => log::info!("{}: left by a killed process; removed", left.display()),
            Err(e) => log::debug!("{}: stays: {e}", left.display()),
        }
    }
}

/// Removes a draft that no process has locked.
fn remove_if_left(left: &Path) -> std::io::Result<()> {
    if !left.symlink_metadata()?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut file = OpenOptions::new().read(true).write(true).open(left)?;
    try_lock(&file, true)?;
    let mut begin = Vec::new();
    // Zeros while its header is not written.
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    if begin != MAGIC && begin.iter().any(|&b| b != 0) {
        return Err(ErrorKind::InvalidData.into());
    }
    // Removed while it is locked: its maker, if it is only now about to lock it, finds it gone.
    std::fs::remove_file(left)
}

#[cfg(test)]
mod tests {
    use littoral_device::zoned::file::FileDevice;
    use littoral_device::zoned::zones::Geometry;

    use super::*;

    fn create(path: &Path) -> littoral_device::Result<FileDevice> {
        let small = Geometry { sequential_zones: 2, zone_blocks: 4, capacity_blocks: 4, ..PAPER };
        FileDevice::create(path, small)
    }

    const PAPER: Geometry = Geometry::paper();

    #[test]
    fn drafts_that_are_filled_and_other_files_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zones");
        let (filled, device) = Draft::make(&path, create).unwrap();
        let left = dir.path().join("zones.123.4.new");
        drop(create(&left).unwrap());
        let others =
            ["zones.new", "zones.a.1.new", "zones.1.new", "zones.5.6.new", "zones.1.2.old"];
        for name in others {
            std::fs::write(dir.path().join(name), b"of another program").unwrap();
        }
        let (next, late) = Draft::make(&path, create).unwrap();
        assert!(!left.exists() && filled.draft.exists());
        assert!(others.iter().all(|name| dir.path().join(name).exists()));
        assert_eq!(filled.publish().unwrap(), path);
        assert_eq!(next.publish().unwrap_err().kind(), Kind::Exists);
        drop((device, late));
        assert_eq!(Draft::make(&path, create).unwrap_err().kind(), Kind::Exists);
        FileDevice::open(&path).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1 + others.len());
    }

    #[test]
    fn a_draft_that_is_not_published_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        drop(Draft::make(&dir.path().join("zones"), create).unwrap());
        let refused = Draft::make(&dir.path().join("none/zones"), create);
        assert_eq!(refused.unwrap_err().kind(), Kind::Io);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
