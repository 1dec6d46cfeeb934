//! A zoned device in a sparse file: the zone state machine over a file that outlives the process.
//!
//! `sparse.rs` has the bytes of header and zone records.
//!
//! - Lifecycle: [`FileDevice::create`] refuses a path that exists; [`FileDevice::open`] refuses by
//!   name what it did not write, and locks the file, so a device has one owner, or any number of
//!   readers ([`FileDevice::open_to_read`]).
//! - A forked child of the owner is refused, reads too: conventional blocks are rewritten in place,
//!   and zones reset and filled again, beside what the child would read (`owned_file.rs`).
//! - Fault model: the data of a write reach the page cache before the zone's record does, and a
//!   reset's record before its blocks are dropped, so a process killed at any moment leaves a
//!   device that a drive could be in. Loss of power may undo whatever no flush has covered; a
//!   record is 32 bytes in one sector and so is never torn.
//! - Room on the host is taken when blocks are written, and kept where the owner asks for it
//!   (`host.rs`).
//! - Blocks past the write pointer read as zeros, whatever the file holds. A conventional zone has
//!   no pointer, also when it is READ_ONLY.
//! - [`FileDevice::open_damaged`] is for repair: it reads what can be read and writes nothing.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};

use super::emulated::{Emulated, Medium};
use super::host::Host;
pub use super::sparse::MAGIC;
use super::sparse::{self, HEADER_BYTES, RECORD_BYTES, Reading, data_offset, encode_record};
use super::zones::{Geometry, Zone, ZoneTable};
use super::{ZoneKind, ZoneState};
use crate::error::{Error, Kind, Result};
use crate::owned_file::OwnedFile;

/// A zoned device in a sparse file.
pub type FileDevice = Emulated<SparseFile>;

/// The file behind a [`FileDevice`].
#[derive(Debug)]
pub struct SparseFile {
    file: OwnedFile,
    path: String,
    geometry: Geometry,
    records: Vec<Zone>,
    host: Host,
    /// Zones whose room is never given back.
    kept: BTreeSet<ZoneId>,
}

impl SparseFile {
    fn error(&self, what: &str, e: std::io::Error) -> Error {
        Error::with_source(Kind::Io, format!("{}: {what}", self.path), e)
    }

    fn offset(&self, at: Lba) -> u64 {
        data_offset(&self.geometry) + at.0 * u64::from(self.geometry.block_bytes)
    }

    fn store_record(&self, zone: ZoneId) -> Result<()> {
        let at = HEADER_BYTES as u64 + u64::from(zone.0) * RECORD_BYTES as u64;
        let bytes = encode_record(zone, self.records[zone.index()]);
        let written = self.file.to_change().and_then(|file| file.write_all_at(&bytes, at));
        written.map_err(|e| self.error("zone record", e))
    }

    /// Offset and bytes of a zone.
    fn extent(&self, zone: ZoneId) -> (u64, u64) {
        let len = self.geometry.zone_blocks * u64::from(self.geometry.block_bytes);
        (self.offset(self.geometry.start(zone)), len)
    }

    fn drop_blocks(&mut self, zone: ZoneId) -> Result<()> {
        if self.kept.contains(&zone) && !mutant!("zoned_reset_gives_kept_room_back") {
            return Ok(());
        }
        let (offset, len) = self.extent(zone);
        let given = self.file.to_change().and_then(|file| self.host.give(file, offset, len));
        given.map_err(|e| self.error("dropping a zone's blocks", e))
    }

    fn keep_zone(&mut self, zone: ZoneId) -> Result<()> {
        let (offset, len) = self.extent(zone);
        self.kept.insert(zone);
        let kept = self.file.to_change().and_then(|file| self.host.allocate(file, offset, len));
        kept.map_err(|e| self.no_room(&format!("keeping room for zone {zone}"), e))
    }

    /// An error that says when it is the host that is full.
    fn no_room(&self, what: &str, e: std::io::Error) -> Error {
        if e.kind() != std::io::ErrorKind::StorageFull {
            return self.error(what, e);
        }
        let text = format!("{}: {what}: the host's file system is full", self.path);
        Error::with_source(Kind::Exhausted, text, e)
    }
}

impl Medium for SparseFile {
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        // Asked before anything is answered: a forked child's write pointers are old too.
        let file = self.file.to_read().map_err(|e| self.error("read", e))?;
        let block = self.geometry.block_bytes as usize;
        for (i, bytes) in into.chunks_exact_mut(block).enumerate() {
            let lba = Lba(at.0 + i as u64);
            let (zone, offset) = self.geometry.place(lba);
            let z = self.records[zone.index()];
            let has_pointer = match mutant!("zoned_read_only_reads_as_zeros") {
                true => z.state != ZoneState::NotWritePointer,
                false => self.geometry.kind(zone) == ZoneKind::Sequential,
            };
            if has_pointer && offset >= z.written_blocks {
                bytes.fill(0);
            } else {
                let read = file.read_exact_at(bytes, self.offset(lba));
                read.map_err(|e| self.error("read", e))?;
            }
        }
        Ok(())
    }

    fn write(&mut self, at: Lba, data: &[u8]) -> Result<()> {
        let offset = self.offset(at);
        let written = self.file.to_change().and_then(|file| self.host.write(file, data, offset));
        written.map_err(|e| self.error("write", e))
    }

    fn erase(&mut self, zone: ZoneId) -> Result<()> {
        let z = &mut self.records[zone.index()];
        (z.state, z.written_blocks, z.resets) = (ZoneState::Empty, 0, z.resets + 1);
        self.store_record(zone)?;
        self.drop_blocks(zone)
    }

    fn note(&mut self, zone: ZoneId, record: Zone) -> Result<()> {
        if self.records[zone.index()] == record {
            return Ok(());
        }
        self.records[zone.index()] = record;
        self.store_record(zone)
    }

    fn flush(&mut self) -> Result<()> {
        let synced = self.file.to_change().and_then(File::sync_data);
        synced.map_err(|e| self.error("flush", e))
    }

    fn keep_room(&mut self, zones: &[ZoneId], spare_blocks: u64) -> Result<()> {
        self.host.want(spare_blocks * u64::from(self.geometry.block_bytes));
        zones.iter().try_for_each(|&zone| self.keep_zone(zone))?;
        if self.has_spare_room()? {
            return Ok(());
        }
        let full = std::io::Error::from(rustix::io::Errno::NOSPC);
        Err(self.no_room("keeping room for deletions and collection", full))
    }

    fn shares_room(&self) -> bool {
        true
    }

    fn has_spare_room(&mut self) -> Result<bool> {
        let has = self.file.to_change().and_then(|file| self.host.has_reserve(file));
        has.map_err(|e| self.error("keeping room", e))
    }

    fn discard(&mut self, at: Lba, blocks: u64) -> Result<()> {
        let (offset, len) = (self.offset(at), blocks * u64::from(self.geometry.block_bytes));
        let given = self.file.to_change().and_then(|file| self.host.give(file, offset, len));
        given.map_err(|e| self.error("giving blocks back", e))
    }
}

impl FileDevice {
    /// Creates a device of empty zones in a new file.
    ///
    /// # Errors
    /// `Kind::Profile` for an illegal geometry; `Kind::Exists`, nothing is overwritten; `Kind::Io`.
    pub fn create(path: &Path, geometry: Geometry) -> Result<FileDevice> {
        let table = ZoneTable::new(geometry)?;
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = opened.map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                let text = format!("{}: exists; it is not overwritten", path.display());
                Error::new(Kind::Exists, text)
            }
            _ => Error::with_source(Kind::Io, format!("{}: create", path.display()), e),
        })?;
        let file = lock(file, path)?;
        let medium = SparseFile::lay_out(file, path, geometry, &table)?;
        Ok(Emulated::over(medium, table))
    }

    /// Opens a device that [`FileDevice::create`] made.
    ///
    /// # Errors
    /// `Kind::Foreign` for another file or format version, `Kind::Corrupt` when header or zone
    /// records do not verify or the file was cut short, `Kind::Busy` when another owner has it,
    /// `Kind::Io`. The file is untouched then.
    pub fn open(path: &Path) -> Result<FileDevice> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|e| unopened(path, e))?;
        FileDevice::over_file(lock(file, path)?, path, Reading::Strict).map(|(device, _)| device)
    }

    /// Opens a device to read it, beside others that only read. Permission to write the file is not
    /// needed; every write, reset and finish fails.
    ///
    /// # Errors
    /// As [`FileDevice::open`]; `Kind::Busy` when an owner may write.
    pub fn open_to_read(path: &Path) -> Result<FileDevice> {
        let file = File::open(path).map_err(|e| unopened(path, e))?;
        let is_alone = mutant!("zoned_readers_exclude_each_other");
        let locked = if is_alone { OwnedFile::exclusive(file) } else { OwnedFile::shared(file) };
        let file = locked.map_err(|e| busy(path, e))?;
        FileDevice::over_file(file, path, Reading::Strict).map(|(device, _)| device)
    }

    /// Opens what is left of a damaged device, to be read only: single flipped bits of header and
    /// zone records are corrected in memory, a zone whose record is lost counts as full. Says what
    /// did not verify.
    ///
    /// # Errors
    /// `Kind::Foreign` for another file or format version, `Kind::Corrupt` when no copy of the
    /// header can be corrected, `Kind::Busy`, `Kind::Io`.
    pub fn open_damaged(path: &Path) -> Result<(FileDevice, Vec<String>)> {
        let file = File::open(path).map_err(|e| unopened(path, e))?;
        let file = OwnedFile::shared(file).map_err(|e| busy(path, e))?;
        FileDevice::over_file(file, path, Reading::Salvage)
    }

    fn over_file(
        file: OwnedFile,
        path: &Path,
        reading: Reading,
    ) -> Result<(FileDevice, Vec<String>)> {
        let at = || path.display().to_string();
        let opened = file.to_read().map_err(|e| unopened(path, e))?;
        let (geometry, mut records, notes) =
            sparse::read(opened, reading).map_err(|e| e.in_context(at()))?;
        let mut table = ZoneTable::new(geometry).map_err(|e| e.in_context(at()))?;
        for (i, record) in records.iter_mut().enumerate() {
            let zone = ZoneId(i as u32);
            table.restore(zone, *record);
            *record = table.get(zone).expect("invariant: the zone was just restored");
        }
        let medium = SparseFile::over(file, at(), geometry, records);
        Ok((Emulated::over(medium, table), notes))
    }
}

impl FileDevice {
    /// From now on the host has room for `bytes` of this file's blocks and no more, those not
    /// counted that were allocated before: a model of a full file system, for tests.
    pub fn limit_host(&mut self, bytes: u64) {
        self.medium.host.limit(bytes);
    }
}

fn unopened(path: &Path, e: std::io::Error) -> Error {
    Error::with_source(Kind::Io, format!("{}: open", path.display()), e)
}

impl SparseFile {
    fn over(file: OwnedFile, path: String, geometry: Geometry, records: Vec<Zone>) -> SparseFile {
        let end = data_offset(&geometry) + geometry.blocks() * u64::from(geometry.block_bytes);
        SparseFile { file, path, geometry, records, host: Host::new(end), kept: BTreeSet::new() }
    }

    fn lay_out(file: OwnedFile, path: &Path, g: Geometry, table: &ZoneTable) -> Result<SparseFile> {
        let records = (0..g.zones()).filter_map(|z| table.get(ZoneId(z))).collect();
        let path = path.display().to_string();
        let medium = SparseFile::over(file, path, g, records);
        let len = medium.offset(Lba(g.blocks()));
        let sized = medium.file.to_change().and_then(|file| file.set_len(len));
        sized.map_err(|e| medium.error("setting the length", e))?;
        (0..g.zones()).try_for_each(|z| medium.store_record(ZoneId(z)))?;
        // The header goes last: a file whose creation was interrupted is foreign, not half a
        // device.
        let written = medium.file.to_change().and_then(|file| {
            file.write_all_at(&sparse::encode_header(&g), 0)?;
            file.sync_all()
        });
        written.map_err(|e| medium.error("header", e))?;
        Ok(medium)
    }
}

pub(super) fn lock(file: File, path: &Path) -> Result<OwnedFile> {
    OwnedFile::exclusive(file).map_err(|e| busy(path, e))
}

fn busy(path: &Path, e: rustix::io::Errno) -> Error {
    let (kind, what) = match e {
        rustix::io::Errno::WOULDBLOCK => (Kind::Busy, "another process has this device open"),
        _ => (Kind::Io, "cannot be locked"),
    };
    Error::with_source(kind, format!("{}: {what}", path.display()), std::io::Error::from(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::fork::{in_child, in_child_beside};
    use crate::zoned::ZonedDevice;

    fn small() -> Geometry {
        Geometry { sequential_zones: 2, zone_blocks: 4, capacity_blocks: 4, ..Geometry::paper() }
    }

    fn names_the_fork<T>(result: &Result<T>) -> bool {
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        let words = ["forked".to_owned(), format!("process {parent} ")];
        result.as_ref().is_err_and(|e| words.iter().all(|w| format!("{e:?}").contains(w)))
    }

    #[test]
    fn a_forked_child_is_refused_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("zones");
        let geometry = small();
        let mut device = FileDevice::create(&path, geometry).unwrap();
        let block = vec![7; geometry.block_bytes as usize];
        let at = geometry.start(ZoneId(1));
        let ticket = device.write(at, &block).unwrap();
        device.wait(ticket).unwrap();
        let before = std::fs::read(&path).unwrap();
        let changed = in_child(|| {
            let next = Lba(at.0 + 1);
            let mut read = vec![0; block.len()];
            let done = [
                device.read(at, &mut read),
                // Zeros behind the write pointer are an answer too.
                device.read(next, &mut read),
                device.write(next, &block).map(|_| ()),
                device.write(Lba(0), &block).map(|_| ()),
                device.finish(ZoneId(1)),
                device.reset(ZoneId(1)),
                device.flush(),
            ];
            done.iter().map(|r| i32::from(!names_the_fork(r))).sum::<i32>()
        });
        assert_eq!(changed, 0, "requests that were not refused by name");
        assert!(before == std::fs::read(&path).unwrap());
        let ticket = device.write(Lba(at.0 + 1), &block).unwrap();
        device.wait(ticket).unwrap();
    }

    /// Two pages that are always written with the same bytes, as a leaf and its log are: a child
    /// that reads the first before and the second after its parent's next change has what was
    /// never there.
    #[test]
    fn a_forked_child_does_not_read_what_its_parent_rewrites() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = small();
        let mut device = FileDevice::create(&dir.path().join("zones"), geometry).unwrap();
        let block = geometry.block_bytes as usize;
        let pair = [Lba(0), Lba(1)];
        let fill = |device: &mut FileDevice, byte: u8| {
            for at in pair {
                let ticket = device.write(at, &vec![byte; block]).unwrap();
                device.wait(ticket).unwrap();
            }
        };
        fill(&mut device, 1);
        let (began, begins) = std::io::pipe().unwrap();
        let (rewritten, rewrites) = std::io::pipe().unwrap();
        let device = std::cell::RefCell::new(device);
        let answer = in_child_beside(
            || {
                let device = device.borrow();
                let mut read = pair.map(|_| vec![0; block]);
                let first = device.read(pair[0], &mut read[0]);
                _ = rustix::io::write(&begins, &[1]);
                _ = rustix::io::read(&rewritten, &mut [0]);
                let second = device.read(pair[1], &mut read[1]);
                match (first, second) {
                    (Ok(()), Ok(())) => i32::from(read[0] != read[1]),
                    refused => 2 * i32::from(!names_the_fork(&refused.0)),
                }
            },
            || {
                _ = rustix::io::read(&began, &mut [0]);
                fill(&mut device.borrow_mut(), 2);
                _ = rustix::io::write(&rewrites, &[1]);
            },
        );
        assert_eq!(answer, 0, "1: two pages of two states; 2: another error");
    }
}
