//! How a store is opened: to read or to write, at once or after waiting, with how much memory.
//!
//! A store has one writer or any number of readers: the lock of the device says which. Its lock
//! alone is unfair, because readers that overlap keep a writer out for ever. So an opening takes a
//! turn first, a lock (flock) on the store's directory: shared to read, exclusive to write, held
//! until the device is open.
//!
//! - A writer that waits holds the turn, so readers that come later wait behind it.
//! - A reader that waits shares the turn, so a writer that leaves and comes back waits behind it.
//! - An opening that does not wait takes its turn too, and is refused where it would wait: it
//!   overtakes nothing that waits.
//! - Making a store takes an exclusive turn until its directory holds it, and never waits.
//! - A turn whose owner was killed while it started another process is not refused to the next one:
//!   it is waited for, as a device's lock is (`owned_file.rs`).
//! - The turn orders openings and protects nothing. Where the directory cannot be locked (it may
//!   not be listed, or its file system has no locks) there is no order.

use std::fs::File;
use std::io::{ErrorKind, Result as IoResult};
use std::path::Path;
use std::time::Duration;

use littoral_base::mutant;
use littoral_device::try_lock;
use littoral_device::zoned::file::FileDevice;
use littoral_index::kv::{Access, MEMORY_BYTES, device_error};
use littoral_index::{Error, Kind, Result};

/// Between two attempts to open a device that another process has.
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// How a store is opened.
///
/// ```
/// use littoral::kv::{Access, Opening};
/// let opening = Opening { waits: true, ..Access::Read.into() };
/// assert_eq!(opening.memory_bytes, 256 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// To read, beside other readers, or to write, alone.
    pub access: Access,
    /// Bytes of pages kept in memory.
    pub memory_bytes: u64,
    /// Whether to wait while another process has the store, instead of refusing. A process that
    /// has the store open itself waits for ever.
    pub waits: bool,
}

impl From<Access> for Opening {
    fn from(access: Access) -> Opening {
        Opening { access, memory_bytes: MEMORY_BYTES, waits: false }
    }
}

impl Opening {
    /// Opens the device of the store in `dir` with `open`, in turn.
    ///
    /// # Errors
    /// Those of `open`; `Kind::Busy` only when the opening is not to wait.
    pub fn device<T>(
        &self,
        dir: &Path,
        open: impl Fn() -> littoral_device::Result<T>,
    ) -> Result<T> {
        let _turn = self.turn(dir)?;
        loop {
            match open() {
                Err(e) if e.kind() == littoral_device::Kind::Busy => {
                    if !self.waits {
                        return Err(Error::with_source(Kind::Busy, self.refusal(), e));
                    }
                    std::thread::sleep(RETRY_AFTER);
                }
                other => return other.map_err(device_error),
            }
        }
    }

    /// Opens the device in the file `path` of the store in `dir`.
    ///
    /// # Errors
    /// Those of [`FileDevice::open`] and [`FileDevice::open_to_read`].
    pub fn file(&self, dir: &Path, path: &Path) -> Result<FileDevice> {
        self.device(dir, || match self.access {
            Access::Read => FileDevice::open_to_read(path),
            Access::Write => FileDevice::open(path),
        })
    }

    /// Takes the turn to make a store in `dir`, for as long as it is held; `None` where the
    /// directory cannot be locked.
    ///
    /// # Errors
    /// `Kind::Busy` when another process makes or opens a store there.
    pub(super) fn creation(dir: &Path) -> Result<Option<Turn>> {
        let Ok(folder) = File::open(dir) else { return Ok(None) };
        if mutant!("kv_creations_take_no_turn") {
            return Ok(None);
        }
        let taken = try_lock(&folder, true);
        Turn::tried(folder, taken, dir, "another process makes or opens a store")
    }

    fn refusal(&self) -> &'static str {
        match self.access {
            Access::Read => "a process that writes the store has it; `--wait` waits for its end",
            Access::Write => "another process has the store; `--wait` waits for its end",
        }
    }

    fn turn(&self, dir: &Path) -> Result<Option<Turn>> {
        let Ok(folder) = File::open(dir) else { return Ok(None) };
        if mutant!("index_readers_overtake_writers") {
            return Ok(None);
        }
        let is_shared = self.access == Access::Read;
        if self.waits {
            let locked = if is_shared { folder.lock_shared() } else { folder.lock() };
            return Ok(locked.is_ok().then_some(Turn(folder)));
        }
        let taken = try_lock(&folder, !is_shared);
        Turn::tried(folder, taken, dir, self.refusal())
    }
}

/// A turn; given back when dropped, whatever child process has a copy of the descriptor.
pub(super) struct Turn(File);

impl Turn {
    /// The turn that was `taken` on the folder `dir` without waiting, or the refusal.
    fn tried(folder: File, taken: IoResult<()>, dir: &Path, refusal: &str) -> Result<Option<Turn>> {
        match taken {
            Ok(()) => Ok(Some(Turn(folder))),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                let text = format!("{}: {refusal}", dir.display());
                Err(Error::with_source(Kind::Busy, text, e))
            }
            Err(_) => Ok(None),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Where this fails, closing the descriptor gives the lock back.
        let _ = self.0.unlock();
    }
}
