//! The superblock: which store this is, where its redo log begins, and what the engine is.
//!
//! One block: magic `LITSTORE`, version u32, engine tag of 8 bytes, generation u64, store id u64,
//! epoch u64, the engine's label (u16 length, bytes), zeros, CRC32C salted with the generation's
//! slot.
//!
//! - With conventional zones: blocks 0 and 1 in turn (generation modulo two), so a torn write
//!   leaves the other one. Without: two sequential zones in turn; the newest block that verifies
//!   counts, and a zone is reset only when the other one holds a newer block.
//! - The highest generation that verifies is the store's; a superblock is written only after all
//!   that it names is durable.

use littoral_base::codec::{Reader, Writer, seal, unseal};
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::{ZoneKind, ZonedDevice};

use crate::error::{Error, Kind, Result, device};

const MAGIC: &[u8; 8] = b"LITSTORE";
const VERSION: u32 = 1;
/// Conventional blocks that must be blank before a store is created.
const SIGNED_BLOCKS: u64 = 256;
const SALT: u64 = 0x5355_5045_5242_4c4b;

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Counts superblocks written.
    pub generation: u64,
    /// Tells this store's redo blocks from another's.
    pub id: u64,
    /// Which engine the pages belong to.
    pub engine: [u8; 8],
    /// The redo log's epoch; its zone is the epoch modulo two.
    pub epoch: u64,
    /// The engine's own words: shape and options.
    pub label: Vec<u8>,
}

impl Superblock {
    fn encode(&self, block_bytes: usize) -> Result<Vec<u8>> {
        let mut w = Writer::new();
        w.raw(MAGIC).u32(VERSION).raw(&self.engine);
        w.u64(self.generation).u64(self.id).u64(self.epoch);
        let fits = w.short_bytes(&self.label).is_some() && w.len() + 4 <= block_bytes;
        if !fits {
            return Err(Error::new(Kind::Usage, "the engine's label is too long for a superblock"));
        }
        w.pad_to(block_bytes);
        let mut block = w.finish();
        seal(&mut block, SALT);
        Ok(block)
    }

    fn decode(block: &[u8]) -> Option<Superblock> {
        let mut r = Reader::new(unseal(block, SALT)?);
        if r.bytes(8)? != MAGIC || r.u32()? != VERSION {
            return None;
        }
        let engine = r.bytes(8)?.try_into().ok()?;
        let (generation, id, epoch) = (r.u64()?, r.u64()?, r.u64()?);
        Some(Superblock { generation, id, engine, epoch, label: r.short_bytes()?.to_vec() })
    }
}

/// Where superblocks live on this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The first two blocks of the first conventional zone.
    Blocks(Lba),
    /// Two sequential zones.
    Zones(ZoneId, ZoneId),
}

impl Home {
    /// The home on a device: conventional if it can be.
    pub fn of(device: &impl ZonedDevice) -> Result<Home> {
        let zones = device.limits().zones;
        let report =
            device.report(ZoneId(0), zones).map_err(crate::error::device("zone report"))?;
        if let Some(z) = report.iter().find(|z| z.kind == ZoneKind::Conventional) {
            return Ok(Home::Blocks(z.start));
        }
        match report[..] {
            [a, b, ..] => Ok(Home::Zones(a.zone, b.zone)),
            _ => Err(Error::new(Kind::Unsupported, "a store needs more than one zone")),
        }
    }

    /// Every block where a superblock may lie, written ones only.
    fn candidates(&self, dev: &impl ZonedDevice) -> Result<Vec<Lba>> {
        match *self {
            Home::Blocks(at) => Ok(vec![at, Lba(at.0 + 1)]),
            Home::Zones(a, b) => {
                let mut found = Vec::new();
                for z in [a, b] {
                    let r = dev.report(z, 1).map_err(device("superblock zone"))?[0];
                    found.extend((r.start.0..r.write_pointer.0).map(Lba));
                }
                Ok(found)
            }
        }
    }

    /// The newest superblock that verifies.
    ///
    /// # Errors
    /// `Kind::Foreign` when there is none: what was found instead.
    pub fn find(&self, dev: &impl ZonedDevice) -> Result<Superblock> {
        let mut block = vec![0; dev.limits().block_bytes as usize];
        let (mut newest, mut version, mut blank) = (None::<Superblock>, None, true);
        for at in self.candidates(dev)? {
            dev.read(at, &mut block).map_err(device("superblock"))?;
            blank &= block.iter().all(|&b| b == 0);
            if block.starts_with(MAGIC) {
                // One of another version may be the newer one, whatever lies beside it.
                let found = Reader::new(&block[8..]).u32();
                version = version.filter(|&v| v != VERSION).or(found);
            }
            if let Some(s) = Superblock::decode(&block) {
                newest = newest.filter(|n| n.generation >= s.generation).or(Some(s));
            }
        }
        if let Some(v) = version.filter(|&v| v != VERSION) {
            let text = format!("store format {v}; this build reads {VERSION}");
            return Err(Error::new(Kind::Foreign, text));
        }
        newest.ok_or_else(|| match version {
            Some(_) => Error::new(Kind::Corrupt, "no superblock verifies"),
            None if blank => Error::new(Kind::Foreign, "the medium is empty; create a store on it"),
            None => Error::new(Kind::Foreign, "the medium holds something else than a store"),
        })
    }

    /// Whether nothing at all lies where superblocks would go, nor behind them where file systems
    /// and volume managers sign what is theirs.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub fn is_blank(&self, dev: &impl ZonedDevice) -> Result<bool> {
        let mut block = vec![0; dev.limits().block_bytes as usize];
        let looked_at = match *self {
            Home::Blocks(at) => {
                let zones = dev.report(ZoneId(0), 1).map_err(device("zone report"))?;
                let end = zones[0].start.0 + zones[0].capacity_blocks;
                (at.0..end.min(at.0 + SIGNED_BLOCKS)).map(Lba).collect()
            }
            Home::Zones(..) => self.candidates(dev)?,
        };
        for at in looked_at {
            dev.read(at, &mut block).map_err(device("superblock"))?;
            if block.iter().any(|&b| b != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes a superblock and makes it durable.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::PowerCut`.
    pub fn write(&self, dev: &mut impl ZonedDevice, s: &Superblock) -> Result<()> {
        let block = s.encode(dev.limits().block_bytes as usize)?;
        let at = match *self {
            Home::Blocks(at) => Lba(at.0 + s.generation % 2),
            Home::Zones(a, b) => Self::next_in_zones(dev, a, b)?,
        };
        let ticket = dev.write(at, &block).map_err(device("superblock"))?;
        dev.wait(ticket).map_err(device("superblock"))?;
        dev.flush().map_err(device("superblock"))
    }

    /// The write pointer of the zone in use; a full one hands over to the other, reset before.
    fn next_in_zones(dev: &mut impl ZonedDevice, a: ZoneId, b: ZoneId) -> Result<Lba> {
        let show = |dev: &_, z| -> Result<_> {
            let r: Vec<_> = ZonedDevice::report(dev, z, 1).map_err(device("superblock zone"))?;
            Ok((r[0].start, r[0].write_pointer, r[0].capacity_blocks))
        };
        let (a_start, a_wp, capacity) = show(&*dev, a)?;
        let (b_start, b_wp, _) = show(&*dev, b)?;
        let room = |start: Lba, wp: Lba| wp.0 > start.0 && wp.0 - start.0 < capacity;
        if room(a_start, a_wp) || (a_wp == a_start && b_wp == b_start) {
            return Ok(a_wp);
        }
        if room(b_start, b_wp) {
            return Ok(b_wp);
        }
        // One zone is full, or both are. The newer superblock is the last block of a full zone
        // whose other zone is empty; with both full, zone b was filled last exactly when it was
        // reset last, which its last block's generation shows.
        let older = if b_wp == b_start {
            b
        } else if a_wp == a_start {
            a
        } else {
            Self::older(dev, (a, a_wp), (b, b_wp))?
        };
        dev.reset(older).map_err(device("superblock zone"))?;
        dev.flush().map_err(device("superblock zone"))?;
        Ok(if older == a { a_start } else { b_start })
    }

    fn older(dev: &impl ZonedDevice, a: (ZoneId, Lba), b: (ZoneId, Lba)) -> Result<ZoneId> {
        let mut block = vec![0; dev.limits().block_bytes as usize];
        let mut last = |wp: Lba| -> Result<u64> {
            dev.read(Lba(wp.0 - 1), &mut block).map_err(device("superblock"))?;
            Ok(Superblock::decode(&block).map_or(0, |s| s.generation))
        };
        Ok(if last(a.1)? < last(b.1)? { a.0 } else { b.0 })
    }
}
