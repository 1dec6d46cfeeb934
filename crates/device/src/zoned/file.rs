//! A zoned device in a sparse file: the zone state machine over a file that outlives the process.
//!
//! Bytes (all little-endian)
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4096 | header: magic `LITZONED`, version u32, the eight fields of [`Geometry`], zeros, CRC32C |
//! | 4096 | 32 a zone | state u8, 7 zeros, written blocks u64, resets u64, 4 zeros, CRC32C salted with the zone |
//! | next MiB | zones | blocks, zone after zone |
//!
//! - Lifecycle: [`FileDevice::create`] refuses a path that exists; [`FileDevice::open`] refuses by
//!   name what it did not write, and locks the file, so a device has one owner.
//! - Fault model: the data of a write reach the page cache before the zone's record does, and a
//!   reset's record before its blocks are dropped, so a process killed at any moment leaves a
//!   device that a drive could be in. Loss of power may undo whatever no flush has covered; a
//!   record is 32 bytes in one sector and so is never torn.
//! - Blocks past the write pointer read as zeros, whatever the file holds.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use littoral_base::codec::{Reader, Writer, seal, unseal};
use littoral_base::units::{Lba, ZoneId};

use super::ZoneState;
use super::emulated::{Emulated, Medium};
use super::zones::{Geometry, Zone, ZoneTable};
use crate::error::{Error, Kind, Result};
use crate::owned_file::OwnedFile;

/// A zoned device in a sparse file.
pub type FileDevice = Emulated<SparseFile>;

const MAGIC: &[u8; 8] = b"LITZONED";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 4096;
const RECORD_BYTES: usize = 32;
const DATA_ALIGN: u64 = 1 << 20;

const STATES: [ZoneState; 8] = [
    ZoneState::NotWritePointer,
    ZoneState::Empty,
    ZoneState::ImplicitOpen,
    ZoneState::ExplicitOpen,
    ZoneState::Closed,
    ZoneState::Full,
    ZoneState::ReadOnly,
    ZoneState::Offline,
];

/// The file behind a [`FileDevice`].
#[derive(Debug)]
pub struct SparseFile {
    file: OwnedFile,
    path: String,
    geometry: Geometry,
    records: Vec<Zone>,
}

fn encode_header(g: &Geometry) -> Vec<u8> {
    let mut w = Writer::new();
    w.raw(MAGIC).u32(VERSION).u32(g.block_bytes).u32(g.conventional_zones).u32(g.sequential_zones);
    w.u64(g.zone_blocks).u64(g.capacity_blocks);
    w.u32(g.open_zones_max).u32(g.active_zones_max).u32(g.append_blocks_max).pad_to(HEADER_BYTES);
    let mut block = w.finish();
    seal(&mut block, 0);
    block
}

fn decode_geometry(body: &[u8]) -> Option<Geometry> {
    let mut r = Reader::new(body.get(12..)?);
    Some(Geometry {
        block_bytes: r.u32()?,
        conventional_zones: r.u32()?,
        sequential_zones: r.u32()?,
        zone_blocks: r.u64()?,
        capacity_blocks: r.u64()?,
        open_zones_max: r.u32()?,
        active_zones_max: r.u32()?,
        append_blocks_max: r.u32()?,
    })
}

fn encode_record(zone: ZoneId, z: Zone) -> Vec<u8> {
    let state = STATES.iter().position(|&s| s == z.state).expect("invariant: states are listed");
    let mut w = Writer::new();
    w.u8(state as u8).pad_to(8).u64(z.written_blocks).u64(z.resets).pad_to(RECORD_BYTES);
    let mut bytes = w.finish();
    seal(&mut bytes, u64::from(zone.0) + 1);
    bytes
}

fn decode_record(zone: ZoneId, bytes: &[u8]) -> Option<Zone> {
    let mut r = Reader::new(unseal(bytes, u64::from(zone.0) + 1)?);
    let state = *STATES.get(usize::from(r.u8()?))?;
    r.bytes(7)?;
    Some(Zone { state, written_blocks: r.u64()?, resets: r.u64()? })
}

fn data_offset(g: &Geometry) -> u64 {
    let table = HEADER_BYTES as u64 + u64::from(g.zones()) * RECORD_BYTES as u64;
    table.next_multiple_of(DATA_ALIGN)
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
        self.file.write_all_at(&bytes, at).map_err(|e| self.error("zone record", e))
    }

    fn drop_blocks(&self, zone: ZoneId) -> Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        let len = self.geometry.zone_blocks * u64::from(self.geometry.block_bytes);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, self.offset(self.geometry.start(zone)), len) {
            // A file system without holes keeps the bytes; reads hide them behind the pointer.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(e) => Err(self.error("dropping a zone's blocks", e.into())),
        }
    }
}

impl Medium for SparseFile {
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let block = self.geometry.block_bytes as usize;
        for (i, bytes) in into.chunks_exact_mut(block).enumerate() {
            let lba = Lba(at.0 + i as u64);
            let (zone, offset) = self.geometry.place(lba);
            let z = self.records[zone.index()];
            if z.state != ZoneState::NotWritePointer && offset >= z.written_blocks {
                bytes.fill(0);
            } else {
                let read = self.file.read_exact_at(bytes, self.offset(lba));
                read.map_err(|e| self.error("read", e))?;
            }
        }
        Ok(())
    }

    fn write(&mut self, at: Lba, data: &[u8]) -> Result<()> {
        self.file.write_all_at(data, self.offset(at)).map_err(|e| self.error("write", e))
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
        self.file.sync_data().map_err(|e| self.error("flush", e))
    }
}

impl FileDevice {
    /// Creates a device of empty zones in a new file.
    ///
    /// # Errors
    /// `Kind::Profile` for an illegal geometry; `Kind::Busy` when the path exists (nothing is
    /// overwritten); `Kind::Io`.
    pub fn create(path: &Path, geometry: Geometry) -> Result<FileDevice> {
        let table = ZoneTable::new(geometry)?;
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = opened.map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                let text = format!("{}: exists; it is not overwritten", path.display());
                Error::new(Kind::Busy, text)
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
    /// records do not verify, `Kind::Busy` when another owner has it, `Kind::Io`. The file is
    /// untouched then.
    pub fn open(path: &Path) -> Result<FileDevice> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let at = || path.display().to_string();
        let file =
            opened.map_err(|e| Error::with_source(Kind::Io, format!("{}: open", at()), e))?;
        let file = lock(file, path)?;
        let geometry = read_header(&file).map_err(|e| e.in_context(at()))?;
        let mut table = ZoneTable::new(geometry).map_err(|e| e.in_context(at()))?;
        let mut records = read_records(&file, &geometry).map_err(|e| e.in_context(at()))?;
        for (i, record) in records.iter_mut().enumerate() {
            let zone = ZoneId(i as u32);
            table.restore(zone, *record);
            *record = table.get(zone).expect("invariant: the zone was just restored");
        }
        let medium = SparseFile { file, path: at(), geometry, records };
        Ok(Emulated::over(medium, table))
    }
}

impl SparseFile {
    fn lay_out(file: OwnedFile, path: &Path, g: Geometry, table: &ZoneTable) -> Result<SparseFile> {
        let records = (0..g.zones()).filter_map(|z| table.get(ZoneId(z))).collect();
        let path = path.display().to_string();
        let medium = SparseFile { file, path, geometry: g, records };
        let len = medium.offset(Lba(g.blocks()));
        medium.file.set_len(len).map_err(|e| medium.error("setting the length", e))?;
        (0..g.zones()).try_for_each(|z| medium.store_record(ZoneId(z)))?;
        // The header goes last: a file whose creation was interrupted is foreign, not half a
        // device.
        let written = medium.file.write_all_at(&encode_header(&g), 0);
        written.and_then(|()| medium.file.sync_all()).map_err(|e| medium.error("header", e))?;
        Ok(medium)
    }
}

pub(super) fn lock(file: File, path: &Path) -> Result<OwnedFile> {
    OwnedFile::exclusive(file).map_err(|e| {
        let text = format!("{}: another process has this device open", path.display());
        Error::with_source(Kind::Busy, text, std::io::Error::from(e))
    })
}

fn read_header(file: &File) -> Result<Geometry> {
    let mut block = vec![0; HEADER_BYTES];
    let foreign = |text: String| Error::new(Kind::Foreign, text);
    if file.read_exact_at(&mut block, 0).is_err() || &block[..8] != MAGIC {
        return Err(foreign("is no littoral zoned device (magic is not LITZONED)".into()));
    }
    let version = Reader::new(&block[8..]).u32().unwrap_or(0);
    if version != VERSION {
        return Err(foreign(format!("format version {version}; this build reads {VERSION}")));
    }
    let body = unseal(&block, 0);
    let geometry = body.and_then(decode_geometry);
    geometry.ok_or_else(|| Error::new(Kind::Corrupt, "header at offset 0 does not verify"))
}

fn read_records(file: &File, g: &Geometry) -> Result<Vec<Zone>> {
    let mut bytes = vec![0; g.zones() as usize * RECORD_BYTES];
    file.read_exact_at(&mut bytes, HEADER_BYTES as u64)
        .map_err(|e| Error::with_source(Kind::Corrupt, "zone records are cut short", e))?;
    let decode = |(i, record): (usize, &[u8])| {
        let zone = ZoneId(i as u32);
        decode_record(zone, record)
            .filter(|z| z.written_blocks <= g.capacity_blocks)
            .ok_or_else(|| Error::new(Kind::Corrupt, format!("record of zone {i} does not verify")))
    };
    bytes.chunks_exact(RECORD_BYTES).enumerate().map(decode).collect()
}
