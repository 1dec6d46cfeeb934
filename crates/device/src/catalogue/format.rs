//! The bytes of a catalogue block (`docs/design/catalogue.md`).
//!
//! Invariants
//! - A block verifies only unchanged and in its own place: the CRC32C covers every other byte and
//!   the number of the block.
//! - Decoding any bytes answers; it never panics and never guesses.

use littoral_base::codec::{self, Reader, Writer};

use super::{Entry, Place, check_name};
use crate::error::{Error, Kind, Result};

/// The first eight bytes of a block.
pub const MAGIC: [u8; 8] = *b"LITTCAT\0";
/// The version this build writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes of one block; a catalogue is two.
pub const BLOCK_BYTES: usize = 64 << 10;

const FILE: u8 = 0;
const EXTENT: u8 = 1;
const ZONES: u8 = 2;

/// What a valid block holds.
pub(super) struct Decoded {
    pub(super) sequence: u64,
    pub(super) entries: Vec<Entry>,
}

/// The bytes of block `which`.
pub(super) fn encode(which: usize, sequence: u64, entries: &[Entry]) -> Result<Vec<u8>> {
    let full = || Error::new(Kind::Exhausted, "the catalogue block is full; remove an entry first");
    let mut w = Writer::new();
    let count = u32::try_from(entries.len()).map_err(|_| full())?;
    w.raw(&MAGIC).u32(FORMAT_VERSION).u32(count).u64(sequence);
    for entry in entries {
        put_entry(&mut w, entry).ok_or_else(full)?;
    }
    if w.len() > BLOCK_BYTES - codec::SEAL_BYTES {
        return Err(full());
    }
    w.pad_to(BLOCK_BYTES);
    let mut block = w.finish();
    codec::seal(&mut block, which as u64);
    Ok(block)
}

fn put_entry(w: &mut Writer, entry: &Entry) -> Option<()> {
    w.short_bytes(entry.name.as_bytes())?.short_bytes(entry.engine.as_bytes())?;
    w.u32(entry.format_version).u32(entry.open_zones_max).u32(entry.active_zones_max);
    match &entry.place {
        Place::File(name) => {
            w.u8(FILE).short_bytes(name.as_bytes())?;
        }
        Place::Extent { start, bytes } => {
            w.u8(EXTENT).u64(*start).u64(*bytes);
        }
        Place::Zones { first, count } => {
            w.u8(ZONES).u32(*first).u32(*count);
        }
    }
    Some(())
}

/// Reads block `which`.
pub(super) fn decode(which: usize, block: &[u8]) -> Result<Decoded> {
    let foreign = |m: String| Err(Error::new(Kind::Foreign, m));
    let corrupt = |m: &str| Error::new(Kind::Corrupt, m.to_owned());
    if block.iter().all(|&b| b == 0) {
        return foreign("empty".to_owned());
    }
    let mut r = Reader::new(block);
    if r.bytes(MAGIC.len()) != Some(&MAGIC[..]) {
        // A torn first sector looks foreign too, but then the other block is valid and wins.
        return foreign("not a littoral catalogue".to_owned());
    }
    let Some(body) = codec::unseal(block, which as u64) else {
        return Err(corrupt("checksum mismatch (a torn write)"));
    };
    let mut r = Reader::new(&body[MAGIC.len()..]);
    let version = r.u32().ok_or_else(|| corrupt("too short"))?;
    if version != FORMAT_VERSION {
        return foreign(format!("catalogue format {version}; this build reads {FORMAT_VERSION}"));
    }
    read_body(&mut r).ok_or_else(|| corrupt("an entry that makes no sense under a valid checksum"))
}

fn read_body(r: &mut Reader<'_>) -> Option<Decoded> {
    let (count, sequence) = (r.u32()?, r.u64()?);
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..count {
        let entry = read_entry(r)?;
        let clashes = |e: &Entry| e.name == entry.name || e.place.overlaps(&entry.place);
        if entries.iter().any(clashes) {
            return None;
        }
        entries.push(entry);
    }
    Some(Decoded { sequence, entries })
}

fn read_entry(r: &mut Reader<'_>) -> Option<Entry> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let name = text(r.short_bytes()?)?;
    check_name(&name).ok()?;
    let engine = text(r.short_bytes()?)?;
    let (format_version, open_zones_max, active_zones_max) = (r.u32()?, r.u32()?, r.u32()?);
    let place = match r.u8()? {
        FILE => Place::File(text(r.short_bytes()?)?),
        EXTENT => Place::Extent { start: r.u64()?, bytes: r.u64()? },
        ZONES => Place::Zones { first: r.u32()?, count: r.u32()? },
        _ => return None,
    };
    Some(Entry { name, engine, format_version, place, open_zones_max, active_zones_max })
}
