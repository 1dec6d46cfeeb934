//! Temporary files of one build: created without a name beside the output.
//!
//! Invariants
//! - A file has no name, so the system frees it when the process ends, in whatever way.
//!   Checked by `an_interrupt_at_any_step_ends_the_build`.
//! - [`Scratch::peak_bytes`] is the most that all files held at one time. Checked by
//!   `temporary_files_hold_at_most_2_2_times_the_edges`.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::error::{Result, io};

/// Where temporary files go, and how much they hold.
pub(super) struct Scratch {
    folder: PathBuf,
    live: Cell<u64>,
    peak: Cell<u64>,
}

impl Scratch {
    pub(super) fn new(folder: &Path) -> Rc<Self> {
        Rc::new(Scratch { folder: folder.to_path_buf(), live: Cell::new(0), peak: Cell::new(0) })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The most bytes that all files held at one time.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak.get()
    }

    /// A new empty file.
    ///
    /// # Errors
    /// `Kind::Io` when the folder does not take files.
    pub(super) fn file(self: &Rc<Self>) -> Result<Spill> {
        let file = tempfile::tempfile_in(&self.folder);
        let file = file.map_err(|e| io("cannot create a temporary file in", &self.folder, e))?;
        Ok(Spill { file, bytes: 0, scratch: Rc::clone(self) })
    }
}

/// A temporary file that grows at its end.
pub(super) struct Spill {
    file: File,
    bytes: u64,
    scratch: Rc<Scratch>,
}

impl Spill {
    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes at the end, and answers where that was.
    ///
    /// # Errors
    /// `Kind::Io`, for example on a full disk.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        let at = self.bytes;
        let written = self.file.write_all_at(bytes, at);
        let folder = &self.scratch.folder;
        written.map_err(|e| io("cannot write a temporary file in", folder, e))?;
        self.bytes += bytes.len() as u64;
        let live = self.scratch.live.get() + bytes.len() as u64;
        self.scratch.live.set(live);
        self.scratch.peak.set(self.scratch.peak.get().max(live));
        Ok(at)
    }

    /// Fills `into` from byte `at` on.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(into, at);
        read.map_err(|e| io("cannot read a temporary file in", &self.scratch.folder, e))
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        self.scratch.live.set(self.scratch.live.get() - self.bytes);
    }
}
