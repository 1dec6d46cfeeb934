//! Whole-block direct I/O on a file or block device, and tickets of writes that are over when they
//! are submitted.
//!
//! - Direct where the file system allows it, so that nothing stale is read after a zone is reset;
//!   elsewhere (some file systems refuse it) through the page cache, made durable by `flush`.
//! - Buffers are copied to aligned memory: the caller's may lie anywhere.
//! - One owner: a block device is opened exclusively, a file is locked. A forked child of the owner
//!   neither reads nor writes.

use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use super::Ticket;
use crate::error::{Error, Kind, Result};
use crate::owned_file::OwnedFile;

/// What direct I/O is aligned to: no device asks for more.
const ALIGN: usize = 4096;

/// A file or block device read and written in whole blocks.
#[derive(Debug)]
pub(super) struct DirectFile {
    file: OwnedFile,
    path: String,
}

fn open_with(path: &Path, flags: i32) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

impl DirectFile {
    /// Opens what exists at `path`.
    ///
    /// # Errors
    /// `Kind::Busy` when another owner has it, `Kind::Io`.
    pub(super) fn open(path: &Path) -> Result<DirectFile> {
        let name = path.display().to_string();
        let failed = |e: IoError| match e.raw_os_error() {
            Some(libc::EBUSY) => Error::with_source(
                Kind::Busy,
                format!("{name}: mounted, or open in another process"),
                e,
            ),
            _ => Error::with_source(Kind::Io, format!("{name}: open"), e),
        };
        let is_block = std::fs::metadata(path).map_err(failed)?.file_type().is_block_device();
        let exclusive = if is_block { libc::O_EXCL } else { 0 };
        let file = match open_with(path, exclusive | libc::O_DIRECT) {
            Err(e) if e.kind() == ErrorKind::InvalidInput => open_with(path, exclusive),
            other => other,
        };
        let file = file.map_err(failed)?;
        let file = super::file::lock(file, path)?;
        Ok(DirectFile { file, path: name })
    }

    /// The file, to ask it or to read it.
    ///
    /// # Errors
    /// `PermissionDenied` in a forked child of the process that opened it.
    pub(super) fn to_read(&self) -> std::io::Result<&File> {
        self.file.to_read()
    }

    /// The file, to change it.
    ///
    /// # Errors
    /// `PermissionDenied` in a forked child of the process that opened it.
    pub(super) fn to_change(&self) -> std::io::Result<&File> {
        self.file.to_change()
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of the file or device.
    pub(super) fn len(&self) -> Result<u64> {
        let end = self.file.to_read().and_then(|mut file| file.seek(SeekFrom::End(0)));
        end.map_err(|e| Error::with_source(Kind::Io, format!("{}: size", self.path), e))
    }

    pub(super) fn read(&self, into: &mut [u8], at: u64) -> std::io::Result<()> {
        let mut memory = Aligned::new(into.len());
        self.file.to_read()?.read_exact_at(memory.bytes(), at)?;
        into.copy_from_slice(memory.bytes());
        Ok(())
    }

    pub(super) fn write(&self, data: &[u8], at: u64) -> std::io::Result<()> {
        let mut memory = Aligned::new(data.len());
        memory.bytes().copy_from_slice(data);
        self.file.to_change()?.write_all_at(memory.bytes(), at)
    }

    pub(super) fn flush(&self) -> Result<()> {
        let done = self.file.to_change().and_then(File::sync_data);
        done.map_err(|e| Error::with_source(Kind::Io, format!("{}: flush", self.path), e))
    }
}

/// Memory whose first byte lies at a multiple of [`ALIGN`].
struct Aligned {
    memory: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Aligned {
        let memory = vec![0; len + ALIGN];
        let from = memory.as_ptr().align_offset(ALIGN);
        assert!(from < ALIGN, "an allocation has an aligned byte in its first {ALIGN}");
        Aligned { memory, from, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.len]
    }
}

/// Tickets and what is known of their writes; old ones are forgotten.
#[derive(Debug)]
pub(super) struct Tickets<T> {
    kept: Vec<T>,
    first: u64,
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Tickets { kept: Vec::new(), first: 0 }
    }
}

/// Tickets kept: an older one was waited for implicitly.
const TICKETS_KEPT: usize = 1 << 12;

impl<T: Copy> Tickets<T> {
    pub(super) fn issue(&mut self, write: T) -> Ticket {
        if self.kept.len() == TICKETS_KEPT {
            self.kept.drain(..TICKETS_KEPT / 2);
            self.first += (TICKETS_KEPT / 2) as u64;
        }
        self.kept.push(write);
        Ticket(self.first + self.kept.len() as u64 - 1)
    }

    /// What was issued under `ticket`.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` when it never was, or too long ago.
    pub(super) fn find(&self, ticket: Ticket) -> Result<T> {
        let index = ticket.0.checked_sub(self.first).map(|i| i as usize);
        index.and_then(|i| self.kept.get(i)).copied().ok_or_else(|| {
            let text = format!("ticket {} was never issued or is too old", ticket.0);
            Error::new(Kind::IllegalRequest, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::fork::in_child;

    #[test]
    fn buffers_are_aligned_and_old_tickets_forgotten() {
        assert_eq!(Aligned::new(512).bytes().as_ptr() as usize % ALIGN, 0);
        let mut tickets = Tickets::default();
        let first = tickets.issue(0);
        for i in 1..=TICKETS_KEPT {
            let t = tickets.issue(i);
            assert_eq!(tickets.find(t).unwrap(), i);
        }
        assert!(tickets.find(first).is_err() && tickets.find(Ticket(u64::MAX)).is_err());
    }

    #[test]
    fn a_file_is_read_back_and_has_one_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blocks");
        std::fs::write(&path, vec![0; 8192]).unwrap();
        let direct = DirectFile::open(&path).unwrap();
        assert_eq!(DirectFile::open(&path).unwrap_err().kind(), Kind::Busy);
        direct.write(&[7; 4096], 4096).unwrap();
        direct.flush().unwrap();
        let mut read = [0; 4096];
        direct.read(&mut read, 4096).unwrap();
        assert_eq!((read, direct.len().unwrap()), ([7; 4096], 8192));
        let refused = in_child(|| {
            let done = [direct.read(&mut [0; 4096], 4096), direct.write(&[8; 4096], 4096)];
            let named = |e: &IoError| e.to_string().contains("forked");
            done.iter().map(|r| i32::from(!r.as_ref().is_err_and(named))).sum()
        });
        assert_eq!(refused, 0, "requests of a child that were not refused by name");
    }
}
