//! The bytes of a zoned device in a sparse file: header and zone records, format 2.
//!
//! Bytes (all little-endian; `docs/design/zoned.md` has the same table)
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4096 | eight copies of the header, 512 bytes each |
//! | 4096 | 32 per zone | zone records |
//! | next MiB | zones | blocks, zone after zone |
//!
//! - Any copy of the header that verifies is enough. Format 1 had one copy of 4096 bytes; it is
//!   read, and everything behind the header is the same.
//! - What is decoded is legal: a geometry that can exist, and records in a state that a zone of
//!   their kind can have. A file shorter than its zones is refused.
//! - [`Salvage`] is for repair alone: it corrects single flipped bits and takes a zone whose record
//!   is lost for a full one that can only be read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use littoral_base::codec::{Reader, Writer, mend, seal, unseal};
use littoral_base::units::ZoneId;

use super::zones::{Geometry, Zone};
use super::{ZoneKind, ZoneState};
use crate::error::{Error, Kind, Result};

pub(super) const HEADER_BYTES: usize = 4096;
pub(super) const RECORD_BYTES: usize = 32;
/// What the file of a device begins with.
pub const MAGIC: &[u8; 8] = b"LITZONED";
const VERSION: u32 = 2;
const COPY_BYTES: usize = 512;
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

/// Whether damage is refused or corrected as far as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// What does not verify is refused by name.
    Strict,
    /// For repair: single flipped bits are corrected, lost records guessed.
    Salvage,
}

/// The header's block.
pub(super) fn encode_header(g: &Geometry) -> Vec<u8> {
    let mut w = Writer::new();
    w.raw(MAGIC).u32(VERSION).u32(g.block_bytes).u32(g.conventional_zones).u32(g.sequential_zones);
    w.u64(g.zone_blocks).u64(g.capacity_blocks);
    w.u32(g.open_zones_max).u32(g.active_zones_max).u32(g.append_blocks_max).pad_to(COPY_BYTES);
    let mut copy = w.finish();
    seal(&mut copy, 0);
    copy.repeat(HEADER_BYTES / COPY_BYTES)
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

fn version_of(header: &[u8]) -> u32 {
    Reader::new(header.get(8..).unwrap_or_default()).u32().unwrap_or(0)
}

fn other_version(version: u32) -> Error {
    let text = format!("format version {version}; this build reads 1 and {VERSION}");
    Error::new(Kind::Foreign, text)
}

/// The geometry that a header's block names.
///
/// # Errors
/// `Kind::Foreign` for another file or format version, `Kind::Corrupt`.
fn decode_header(block: &mut [u8], reading: Reading) -> Result<Geometry> {
    let has_magic = block.chunks(COPY_BYTES).any(|copy| copy.starts_with(MAGIC));
    let said = version_of(block);
    if reading == Reading::Salvage {
        block.chunks_mut(COPY_BYTES).for_each(|copy| _ = mend(copy, 0));
        if version_of(block) == 1 {
            mend(block, 0);
        }
    }
    let verifies = |copy: &&[u8]| copy.starts_with(MAGIC) && unseal(copy, 0).is_some();
    let whole = [&block[..]].into_iter().filter(|b| version_of(b) == 1);
    let Some(found) = block.chunks(COPY_BYTES).chain(whole).find(verifies) else {
        return Err(match has_magic {
            true if said != 1 && said != VERSION => other_version(said),
            true => Error::new(Kind::Corrupt, "header at offset 0: none of its copies verifies"),
            false => {
                let text = "is no littoral zoned device (magic is not LITZONED)";
                Error::new(Kind::Foreign, text)
            }
        });
    };
    let version = version_of(found);
    if version != VERSION && (version != 1 || found.len() != HEADER_BYTES) {
        return Err(other_version(version));
    }
    let geometry = unseal(found, 0).and_then(decode_geometry);
    geometry.ok_or_else(|| Error::new(Kind::Corrupt, "header at offset 0 is cut short"))
}

/// A zone's record.
pub(super) fn encode_record(zone: ZoneId, z: Zone) -> Vec<u8> {
    let state = STATES.iter().position(|&s| s == z.state).expect("invariant: states are listed");
    let mut w = Writer::new();
    w.u8(state as u8).pad_to(8).u64(z.written_blocks).u64(z.resets).pad_to(RECORD_BYTES);
    let mut bytes = w.finish();
    seal(&mut bytes, u64::from(zone.0) + 1);
    bytes
}

fn decode_record(zone: ZoneId, bytes: &[u8], g: &Geometry) -> Option<Zone> {
    let mut r = Reader::new(unseal(bytes, u64::from(zone.0) + 1)?);
    let state = *STATES.get(usize::from(r.u8()?))?;
    r.bytes(7)?;
    let found = Zone { state, written_blocks: r.u64()?, resets: r.u64()? };
    is_legal(&found, g.kind(zone), g.capacity_blocks).then_some(found)
}

/// Whether a zone of this kind can be so.
fn is_legal(z: &Zone, kind: ZoneKind, capacity: u64) -> bool {
    use ZoneState::{Empty, Full, NotWritePointer, Offline, ReadOnly};
    match (kind, z.state) {
        (ZoneKind::Conventional, NotWritePointer | ReadOnly | Offline) => z.written_blocks == 0,
        (ZoneKind::Conventional, _) | (_, NotWritePointer) => false,
        (_, Empty) => z.written_blocks == 0,
        (_, Full) => z.written_blocks == capacity,
        (_, ReadOnly | Offline) => z.written_blocks <= capacity,
        _ => z.written_blocks < capacity,
    }
}

/// What repair takes a zone for whose record is lost: what it may hold can be read.
fn lost_record(kind: ZoneKind, capacity: u64) -> Zone {
    let written_blocks = if kind == ZoneKind::Sequential { capacity } else { 0 };
    Zone { state: ZoneState::ReadOnly, written_blocks, resets: 0 }
}

/// Where the first zone begins.
pub(super) fn data_offset(g: &Geometry) -> u64 {
    let table = HEADER_BYTES as u64 + u64::from(g.zones()) * RECORD_BYTES as u64;
    table.next_multiple_of(DATA_ALIGN)
}

fn cut_short(file: &File, g: &Geometry) -> Result<()> {
    let len = file.metadata().map_err(|e| Error::with_source(Kind::Io, "length", e))?.len();
    let wanted = data_offset(g) + g.blocks() * u64::from(g.block_bytes);
    if len >= wanted {
        return Ok(());
    }
    let text = format!("{len} bytes long where its zones need {wanted}: the file was cut short");
    Err(Error::new(Kind::Corrupt, text))
}

/// The geometry of a file's device and its zones' records; what was corrected or guessed.
///
/// # Errors
/// `Kind::Foreign`, `Kind::Corrupt`, `Kind::Profile` for a geometry that cannot be, `Kind::Io`.
pub(super) fn read(file: &File, reading: Reading) -> Result<(Geometry, Vec<Zone>, Vec<String>)> {
    let mut block = vec![0; HEADER_BYTES];
    file.read_exact_at(&mut block, 0).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => {
            let text = "is no littoral zoned device (shorter than a header)";
            Error::new(Kind::Foreign, text)
        }
        _ => Error::with_source(Kind::Io, "header at offset 0", e),
    })?;
    let geometry = decode_header(&mut block, reading)?;
    geometry.validate()?;
    // Checked before the table is read: a length that cannot be must not become an allocation.
    if reading == Reading::Strict {
        cut_short(file, &geometry)?;
    }
    let read_at = |bytes: &mut [u8], at: u64| file.read_exact_at(bytes, at);
    let (records, notes) = read_records(&read_at, &geometry, reading)?;
    Ok((geometry, records, notes))
}

/// Fills the bytes from an offset of the file.
type ReadAt<'a> = dyn Fn(&mut [u8], u64) -> io::Result<()> + 'a;

fn read_records(
    read_at: &ReadAt<'_>,
    g: &Geometry,
    reading: Reading,
) -> Result<(Vec<Zone>, Vec<String>)> {
    let (mut records, mut notes, mut unread) = (Vec::new(), Vec::new(), 0u32);
    for zone in (0..g.zones()).map(ZoneId) {
        let mut bytes = [0; RECORD_BYTES];
        let at = HEADER_BYTES as u64 + u64::from(zone.0) * RECORD_BYTES as u64;
        let name = || format!("record of zone {zone} (offset {at})");
        match read_at(&mut bytes, at) {
            Ok(()) => {}
            // Never guessed: a header may name more zones than memory has room for.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Error::with_source(Kind::Corrupt, "zone records are cut short", e));
            }
            Err(e) if reading == Reading::Strict => {
                return Err(Error::with_source(Kind::Io, name(), e).at_zone(zone.0).at_offset(at));
            }
            Err(_) => {
                unread += 1;
                bytes.fill(0);
            }
        }
        let found = decode_record(zone, &bytes, g);
        if reading == Reading::Strict {
            let found = found.ok_or_else(|| {
                Error::new(Kind::Corrupt, format!("{} does not verify", name()))
                    .at_zone(zone.0)
                    .at_offset(at)
            })?;
            records.push(found);
            continue;
        }
        let mended = || {
            mend(&mut bytes, u64::from(zone.0) + 1)?;
            decode_record(zone, &bytes, g)
        };
        if found.is_none() {
            notes.push(format!("{} did not verify", name()));
        }
        let lost = || lost_record(g.kind(zone), g.capacity_blocks);
        records.push(found.or_else(mended).unwrap_or_else(lost));
    }
    if unread > 0 {
        notes.push(format!("{unread} of {} zone records cannot be read", g.zones()));
    }
    Ok((records, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry { conventional_zones: 1, sequential_zones: 2, ..Geometry::paper() }
    }

    #[test]
    fn one_copy_of_the_header_is_enough_and_format_1_is_read() {
        let whole = encode_header(&geometry());
        for copy in 0..8 {
            let mut block = vec![0; HEADER_BYTES];
            block[copy * 512..][..512].copy_from_slice(&whole[..512]);
            assert_eq!(decode_header(&mut block, Reading::Strict).unwrap(), geometry());
        }
        let mut old = whole[..60].to_vec();
        old[8] = 1;
        old.resize(HEADER_BYTES, 0);
        seal(&mut old, 0);
        assert_eq!(decode_header(&mut old, Reading::Strict).unwrap(), geometry());
        old[20] ^= 1;
        let e = decode_header(&mut old.clone(), Reading::Strict).unwrap_err();
        assert_eq!(e.kind(), Kind::Corrupt);
        assert_eq!(decode_header(&mut old, Reading::Salvage).unwrap(), geometry());
    }

    #[test]
    fn a_record_that_cannot_be_read_costs_repair_its_zone_alone() {
        let g = geometry();
        let zone = |state, written_blocks| Zone { state, written_blocks, resets: 3 };
        let kept = [zone(ZoneState::NotWritePointer, 0), zone(ZoneState::Closed, 5)];
        let read_until = |kind: io::ErrorKind| {
            move |bytes: &mut [u8], at: u64| -> io::Result<()> {
                let i = (at as usize - HEADER_BYTES) / RECORD_BYTES;
                let record = kept.get(i).ok_or_else(|| io::Error::from(kind))?;
                bytes.copy_from_slice(&encode_record(ZoneId(i as u32), *record));
                Ok(())
            }
        };
        let fails = read_until(io::ErrorKind::Other);
        let (found, notes) = read_records(&fails, &g, Reading::Salvage).unwrap();
        assert_eq!(found[..2], kept);
        assert_eq!(found[2], lost_record(ZoneKind::Sequential, g.capacity_blocks));
        assert!(notes.iter().any(|n| n == "1 of 3 zone records cannot be read"), "{notes:?}");
        let e = read_records(&fails, &g, Reading::Strict).unwrap_err();
        assert_eq!(e.kind(), Kind::Io);
        let ends = read_until(io::ErrorKind::UnexpectedEof);
        let e = read_records(&ends, &g, Reading::Salvage).unwrap_err();
        assert_eq!(e.kind(), Kind::Corrupt);
    }

    #[test]
    fn records_that_cannot_be_are_refused() {
        let g = geometry();
        let legal = |zone: u32, state, written_blocks| {
            let z = Zone { state, written_blocks, resets: 3 };
            decode_record(ZoneId(zone), &encode_record(ZoneId(zone), z), &g).is_some()
        };
        let full = g.capacity_blocks;
        assert!(legal(0, ZoneState::ReadOnly, 0) && legal(0, ZoneState::NotWritePointer, 0));
        assert!(!legal(0, ZoneState::Empty, 0) && !legal(0, ZoneState::NotWritePointer, 1));
        assert!(!legal(1, ZoneState::NotWritePointer, 0) && !legal(1, ZoneState::Empty, 1));
        assert!(legal(1, ZoneState::Full, full) && !legal(1, ZoneState::Full, full - 1));
        assert!(legal(1, ZoneState::Closed, 5) && !legal(1, ZoneState::Closed, full));
        assert!(!legal(1, ZoneState::ReadOnly, full + 1));
    }
}
