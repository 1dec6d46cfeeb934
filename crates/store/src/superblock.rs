//! The superblock: which store this is, where its redo log lies, and what the engine is.
//!
//! One block: magic `LITSTORE`, version u32 = 2, engine tag of 8 bytes, generation u64, store id
//! u64, epoch u64, the two redo zones u32 each, the two superblock zones u32 each (all ones: none),
//! the engine's label (u16 length, bytes), zeros, CRC32C salted with [`SALT`].
//!
//! - Every generation is written twice, both copies before they are flushed together; one that
//!   verifies is enough, also where the other's block cannot be read.
//! - With conventional zones: the first four blocks of each conventional zone are kept for
//!   superblocks. Generation g uses blocks `2 * (g mod 2)` and the one behind; the first copy goes
//!   to the first zone that can be written, the second to the next such zone, if there is another.
//!   A torn write leaves the generation before.
//! - Without: both copies are appended to one of two sequential zones; a full zone hands over to
//!   the other one, which is reset first and only while the full one holds the newest.
//! - Where a superblock zone wears out, an empty zone takes its place. No pointer says so: a
//!   sequential zone with the magic in one of its first two or last two written blocks is a
//!   superblock zone, and no page or part of the redo log begins with it.
//! - Where none is left, the redo log tells a damaged store from an empty medium: its first group
//!   is durable before the first superblock.
//! - The highest generation that verifies is the store's; a superblock is written only after all
//!   that it names is durable.

use std::collections::BTreeMap;

use littoral_base::codec::{Reader, Writer, mend, seal, unseal};
use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::refusal::Refusal;
use littoral_device::zoned::{ZoneKind, ZoneReport, ZoneState, ZonedDevice};

use crate::error::{Error, Kind, Result, device};
use crate::redo::{GroupId, Part};

const MAGIC: &[u8; 8] = b"LITSTORE";
const VERSION: u32 = 2;
/// Conventional blocks that must be blank before a store is created.
const SIGNED_BLOCKS: u64 = 256;
/// Blocks at the front of each conventional zone that are kept for superblocks.
pub(crate) const HOME_BLOCKS: u64 = 4;
/// Blocks at the front of a redo zone that hold a part of a second group, if there is one, where
/// the first group is that of a creation: it has one block and its parity.
const CREATION_BLOCKS: u64 = 4;
/// What the checksum is salted with: `KLBREPUS`, "superblk" read backwards.
pub const SALT: u64 = 0x5355_5045_5242_4c4b;
/// No zone.
pub(crate) const NO_ZONE: ZoneId = ZoneId(u32::MAX);

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
    /// The redo log's zones.
    pub redo: [ZoneId; 2],
    /// The superblock's own zones, where they are sequential; [`u32::MAX`] otherwise.
    pub homes: [ZoneId; 2],
    /// The engine's own words: shape and options.
    pub label: Vec<u8>,
}

impl Superblock {
    fn encode(&self, block_bytes: usize) -> Result<Vec<u8>> {
        let mut w = Writer::new();
        w.raw(MAGIC).u32(VERSION).raw(&self.engine);
        w.u64(self.generation).u64(self.id).u64(self.epoch);
        self.redo.iter().chain(&self.homes).for_each(|z| _ = w.u32(z.0));
        let fits = w.short_bytes(&self.label).is_some() && w.len() + 4 <= block_bytes;
        if !fits {
            return Err(Error::new(Kind::Usage, "the engine's label is too long for a superblock"));
        }
        let used = w.len();
        w.pad_to(block_bytes);
        let mut block = w.finish();
        debug_assert!(is_zero(&block[used..]), "bytes behind the label are reserved");
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
        let redo = [ZoneId(r.u32()?), ZoneId(r.u32()?)];
        let homes = [ZoneId(r.u32()?), ZoneId(r.u32()?)];
        let label = r.short_bytes()?.to_vec();
        // A writer of this version leaves zeros: anything else is another format's.
        let reserved = r.bytes(r.remaining())?;
        if !is_zero(reserved) && !mutant!("store_superblock_reserved_read") {
            return None;
        }
        Some(Superblock { generation, id, engine, epoch, redo, homes, label })
    }

    /// Whether the superblock's zones are sequential ones.
    pub(crate) fn has_zones(&self) -> bool {
        self.homes[0] != NO_ZONE
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&b| b == 0)
}

/// What was found where superblocks can be.
#[derive(Debug, Default)]
struct Search {
    newest: Option<(Superblock, Vec<Lba>)>,
    /// The version of a superblock that is not ours: sealed, or else only said to be.
    other_version: Option<(u32, bool)>,
    has_magic: bool,
    has_content: bool,
    corrects: bool,
    /// Blocks that cannot be read, and why.
    unread: BTreeMap<Lba, Error>,
}

impl Search {
    /// Refuses what was found if unreadable blocks may hide a newer superblock. One block hides one
    /// copy, and the other was durable with it. Repair takes what there is.
    fn check_unread(&mut self) -> Result<()> {
        let is_one = self.unread.len() == 1 && !mutant!("store_unread_superblock_refused");
        if self.newest.is_some() && (is_one || self.corrects) {
            return Ok(());
        }
        self.unread.pop_first().map_or(Ok(()), |(_, e)| Err(e))
    }

    fn look_at(&mut self, at: Lba, block: &mut [u8]) {
        self.has_content |= block.iter().any(|&b| b != 0);
        if self.corrects && block.iter().any(|&b| b != 0) {
            mend(block, SALT);
        }
        if !block.starts_with(MAGIC) {
            return;
        }
        self.has_magic = true;
        let version = Reader::new(&block[8..]).u32().unwrap_or(0);
        let is_sealed = unseal(block, SALT).is_some();
        if version != VERSION && self.other_version.is_none_or(|(_, sealed)| !sealed) {
            self.other_version = Some((version, is_sealed));
        }
        let Some(found) = Superblock::decode(block) else { return };
        match &mut self.newest {
            Some((newest, at_all)) if newest.generation == found.generation => at_all.push(at),
            Some((newest, _)) if newest.generation > found.generation => {}
            other => *other = Some((found, vec![at])),
        }
    }

    fn end(self) -> Result<(Superblock, Vec<String>)> {
        // A sealed superblock of another version may be the newer one, whatever lies beside it.
        let is_older = self.newest.is_none();
        if let Some((version, _)) = self.other_version.filter(|&(_, sealed)| sealed || is_older) {
            let text = format!(
                "store format {version}; this build reads {VERSION}: write the records out with \
                 `kv dump` of the build that made it and load them into a new store"
            );
            return Err(Error::new(Kind::Foreign, text));
        }
        let Some((newest, copies)) = self.newest else {
            return Err(match (self.has_magic, self.has_content) {
                (true, _) => Error::new(Kind::Corrupt, "no superblock verifies"),
                (_, false) => {
                    Error::new(Kind::Foreign, "the medium is empty; create a store on it")
                }
                _ => Error::new(Kind::Foreign, "the medium holds something else than a store"),
            });
        };
        let unread = self.unread.keys();
        let mut notes: Vec<String> = unread
            .map(|at| format!("superblock: block {at}, which may hold a copy, cannot be read"))
            .collect();
        if let [only] = copies[..] {
            notes.push(format!(
                "superblock: of generation {} only the copy in block {only} verifies",
                newest.generation
            ));
        }
        Ok((newest, notes))
    }
}

fn all_zones(dev: &impl ZonedDevice) -> Result<Vec<ZoneReport>> {
    dev.report(ZoneId(0), dev.limits().zones).map_err(device("zone report"))
}

fn is_conventional(z: &&ZoneReport) -> bool {
    z.kind == ZoneKind::Conventional
}

fn home_blocks(z: &ZoneReport) -> impl Iterator<Item = Lba> {
    (z.start.0..z.start.0 + z.capacity_blocks.min(HOME_BLOCKS)).map(Lba)
}

/// The newest superblock that verifies, and what does not of its copies. `corrects` is for repair:
/// single flipped bits are corrected.
///
/// # Errors
/// `Kind::Foreign` when there is none: what was found instead; `Kind::Corrupt`, `Kind::Io`.
pub(crate) fn find(dev: &impl ZonedDevice, corrects: bool) -> Result<(Superblock, Vec<String>)> {
    let zones = all_zones(dev)?;
    let search = search(dev, &zones, corrects)?;
    if !search.has_magic
        && let Some(found) = log_without_superblock(dev, &zones)?
    {
        return Err(found);
    }
    search.end()
}

/// Whether a block is a superblock's, damaged as it may be.
///
/// # Errors
/// `Kind::Io`.
pub(crate) fn is_any(dev: &impl ZonedDevice) -> Result<bool> {
    search(dev, &all_zones(dev)?, false).map(|search| search.has_magic)
}

/// What is found where superblocks can be.
fn search(dev: &impl ZonedDevice, zones: &[ZoneReport], corrects: bool) -> Result<Search> {
    let mut search = Search { corrects, ..Search::default() };
    let mut block = vec![0; dev.limits().block_bytes as usize];
    let mut look_at = |search: &mut Search, at: Lba| -> Result<()> {
        match dev.read(at, &mut block).map_err(device("superblock")) {
            Ok(()) => search.look_at(at, &mut block),
            Err(e) if e.kind() == Kind::Io => _ = search.unread.insert(at, e),
            Err(e) => return Err(e),
        }
        Ok(())
    };
    let readable = |z: &&ZoneReport| z.state != ZoneState::Offline;
    for z in zones.iter().filter(is_conventional).filter(readable) {
        home_blocks(z).try_for_each(|at| look_at(&mut search, at))?;
    }
    let is_worn = |z: &ZoneReport| z.state != ZoneState::NotWritePointer;
    let has_moved = zones.iter().filter(is_conventional).all(is_worn);
    for z in zones.iter().filter(|z| has_moved && !is_conventional(z)).filter(readable) {
        let mut front = Search { corrects, ..Search::default() };
        let written = written_blocks(z);
        let ends = written.clone().take(2).chain(written.clone().rev().take(2));
        ends.map(Lba).try_for_each(|at| look_at(&mut front, at))?;
        search.has_content |= front.has_content;
        search.unread.append(&mut front.unread);
        if front.has_magic {
            written.map(Lba).try_for_each(|at| look_at(&mut search, at))?;
        }
    }
    search.check_unread()?;
    Ok(search)
}

fn written_blocks(z: &ZoneReport) -> std::ops::Range<u64> {
    z.start.0..z.write_pointer.0.clamp(z.start.0, z.start.0 + z.capacity_blocks)
}

/// What a redo log says of a medium without any superblock; `None` where there is no log.
fn log_without_superblock(dev: &impl ZonedDevice, zones: &[ZoneReport]) -> Result<Option<Error>> {
    let mut newest: Option<(GroupId, ZoneId)> = None;
    let mut block = vec![0; dev.limits().block_bytes as usize];
    let readable = |z: &&ZoneReport| !is_conventional(z) && z.state != ZoneState::Offline;
    for z in zones.iter().filter(readable) {
        for at in written_blocks(z).take(CREATION_BLOCKS as usize) {
            dev.read(Lba(at), &mut block).map_err(device("redo log"))?;
            let parts = Part::all_in(&block).map(|p| (p.id, z.zone));
            newest = newest.into_iter().chain(parts).max_by_key(|f| (f.0.epoch, f.0.sequence));
        }
    }
    let Some((group, zone)) = newest else { return Ok(None) };
    let error = if (group.epoch, group.sequence) == (1, 0) {
        let text = "the creation of a store was cut short here; it holds no record";
        Error::new(Kind::Foreign, text)
    } else {
        let text = format!(
            "no superblock is left, but zone {zone} holds the redo log of store {}, epoch {}: the \
             medium is damaged; nothing changed",
            group.store, group.epoch
        );
        Error::new(Kind::Corrupt, text)
    };
    Ok(Some(error.at_zone(zone.0)))
}

/// Whether nothing at all lies where superblocks would go, nor behind them where file systems and
/// volume managers sign what is theirs.
///
/// # Errors
/// `Kind::Io`.
pub(crate) fn is_blank(dev: &impl ZonedDevice) -> Result<bool> {
    let mut block = vec![0; dev.limits().block_bytes as usize];
    let zones = all_zones(dev)?;
    for (i, z) in zones.iter().filter(is_conventional).enumerate() {
        let most = if i == 0 { SIGNED_BLOCKS } else { HOME_BLOCKS };
        for at in z.start.0..z.start.0 + z.capacity_blocks.min(most) {
            dev.read(Lba(at), &mut block).map_err(device("superblock"))?;
            if block.iter().any(|&b| b != 0) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Writes both copies of a superblock and makes them durable; `newest` is the generation that the
/// medium has. Where a zone for it has worn out, `take_zone` gives an empty one; the superblock
/// then names it.
///
/// # Errors
/// `Kind::Io` naming the zone's state when no zone is left, `Kind::PowerCut`.
pub(crate) fn write(
    dev: &mut impl ZonedDevice,
    s: &mut Superblock,
    newest: u64,
    mut take_zone: impl FnMut() -> Option<ZoneId>,
) -> Result<()> {
    debug_assert!(s.generation > newest, "generation {} after {newest}", s.generation);
    loop {
        let target = match in_conventional(dev, s)? {
            Some(targets) => targets,
            None => in_sequential(dev, s, &mut take_zone)?,
        };
        let block = s.encode(dev.limits().block_bytes as usize)?;
        let count = if mutant!("store_one_superblock_copy") { 1 } else { 2 };
        let written = target.iter().take(count).try_for_each(|&at| {
            let ticket = dev.write(at, &block)?;
            dev.wait(ticket).map(|_| ())
        });
        match written {
            Ok(()) => return dev.flush().map_err(device("superblock")),
            // The zone has worn out meanwhile: its report says so in the next round.
            Err(e) if matches!(Refusal::of(&e), Some(Refusal::ReadOnly | Refusal::Offline)) => {}
            Err(e) => return Err(device("superblock")(e)),
        }
    }
}

/// Where the two copies go in conventional zones; `None` when no such zone can be written.
fn in_conventional(dev: &impl ZonedDevice, s: &Superblock) -> Result<Option<[Lba; 2]>> {
    if s.has_zones() {
        return Ok(None);
    }
    let zones = all_zones(dev)?;
    let can_be_written = |z: &&ZoneReport| z.state == ZoneState::NotWritePointer;
    let mut writable = zones.iter().filter(is_conventional).filter(can_be_written);
    let Some(first) = writable.next() else { return Ok(None) };
    let second = writable.next().unwrap_or(first);
    let slot = 2 * (s.generation % 2);
    Ok(Some([Lba(first.start.0 + slot), Lba(second.start.0 + slot + 1)]))
}

/// Where the two copies go in sequential zones: behind the newest. Takes other zones where those
/// that the superblock names have worn out.
fn in_sequential(
    dev: &mut impl ZonedDevice,
    s: &mut Superblock,
    take_zone: &mut impl FnMut() -> Option<ZoneId>,
) -> Result<[Lba; 2]> {
    for slot in 0..2 {
        let is_worn = s.homes[slot] == NO_ZONE || {
            let z = dev.report(s.homes[slot], 1).map_err(device("superblock zone"))?[0];
            matches!(z.state, ZoneState::ReadOnly | ZoneState::Offline)
        };
        if is_worn {
            s.homes[slot] = take_zone().ok_or_else(|| {
                let text = "superblock: its zone is READ_ONLY or OFFLINE and no empty zone is left";
                Error::new(Kind::Io, text)
            })?;
        }
    }
    let at = next_in_zones(dev, s.homes[0], s.homes[1])?;
    Ok([at, Lba(at.0 + 1)])
}

/// The write pointer of the zone in use; a full one hands over to the other, reset before.
fn next_in_zones(dev: &mut impl ZonedDevice, a: ZoneId, b: ZoneId) -> Result<Lba> {
    let show = |dev: &_, z| -> Result<_> {
        let r: Vec<_> = ZonedDevice::report(dev, z, 1).map_err(device("superblock zone"))?;
        Ok((r[0].start, r[0].write_pointer, r[0].capacity_blocks))
    };
    let (a_start, a_wp, capacity) = show(&*dev, a)?;
    let (b_start, b_wp, _) = show(&*dev, b)?;
    // Room for both copies.
    let room = |start: Lba, wp: Lba| wp.0 > start.0 && wp.0 - start.0 + 2 <= capacity;
    if room(a_start, a_wp) || (a_wp == a_start && b_wp == b_start) {
        return Ok(a_wp);
    }
    if room(b_start, b_wp) {
        return Ok(b_wp);
    }
    // One zone is full, or both are. The newer superblock is the last block of a full zone whose
    // other zone is empty; with both full, zone b was filled last exactly when it was reset last,
    // which its last block's generation shows.
    let older = if b_wp == b_start {
        b
    } else if a_wp == a_start {
        a
    } else {
        older_zone(dev, (a, a_wp), (b, b_wp))?
    };
    dev.reset(older).map_err(device("superblock zone"))?;
    dev.flush().map_err(device("superblock zone"))?;
    Ok(if older == a { a_start } else { b_start })
}

/// The generation of the superblock in a block; zero where there is none.
fn generation_of(block: &[u8]) -> u64 {
    Superblock::decode(block).map_or(0, |s| s.generation)
}

fn older_zone(dev: &impl ZonedDevice, a: (ZoneId, Lba), b: (ZoneId, Lba)) -> Result<ZoneId> {
    let mut block = vec![0; dev.limits().block_bytes as usize];
    // A torn write may have left one copy, or a damaged one, as the last block; one that cannot be
    // read has another beside it. All of one zone are newer than all of the other.
    let mut last = |wp: Lba| -> Result<u64> {
        let (mut newest, mut unread) = (0, None);
        for back in 1..=2 {
            match dev.read(Lba(wp.0 - back), &mut block).map_err(device("superblock")) {
                Ok(()) => newest = newest.max(generation_of(&block)),
                Err(e) => unread = Some(e),
            }
        }
        let is_told = newest > 0 && !mutant!("store_last_superblocks_must_be_read");
        match unread {
            Some(e) if !is_told || e.kind() != Kind::Io => Err(e),
            _ => Ok(newest),
        }
    };
    let is_first = last(a.1)? < last(b.1)?;
    Ok(if is_first != mutant!("store_newest_superblock_reset") { a.0 } else { b.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_device::zoned::model::ModelDevice;
    use littoral_device::zoned::zones::Geometry;

    #[test]
    fn handing_over_to_the_other_zone_keeps_the_newest_superblock() {
        let geometry = Geometry {
            block_bytes: 512,
            conventional_zones: 0,
            sequential_zones: 4,
            zone_blocks: 8,
            capacity_blocks: 8,
            open_zones_max: 4,
            active_zones_max: 4,
            append_blocks_max: 0,
        };
        let mut dev = ModelDevice::new(geometry).unwrap();
        let homes = [ZoneId(0), ZoneId(1)];
        let redo = [ZoneId(2), ZoneId(3)];
        let label = b"label".to_vec();
        let mut s =
            Superblock { generation: 0, id: 7, engine: [1; 8], epoch: 0, redo, homes, label };
        // Four superblocks fill a zone, so the zones hand over to each other several times.
        for generation in 1..=24 {
            s.generation = generation;
            write(&mut dev, &mut s, generation - 1, || None).unwrap();
            // Makes room as the next write does; a power cut may follow before that write.
            next_in_zones(&mut dev, homes[0], homes[1]).unwrap();
            assert_eq!(find(&dev, false).unwrap().0.generation, generation);
        }
    }

    fn sample(generation: u64) -> Superblock {
        let redo = [ZoneId(2), ZoneId(3)];
        let label = b"label".to_vec();
        Superblock { generation, id: 7, engine: [1; 8], epoch: 0, redo, homes: [NO_ZONE; 2], label }
    }

    #[test]
    fn a_full_zone_with_an_unreadable_copy_is_told_by_the_other_one() {
        let geometry = Geometry {
            block_bytes: 512,
            conventional_zones: 0,
            sequential_zones: 4,
            zone_blocks: 8,
            capacity_blocks: 8,
            open_zones_max: 4,
            active_zones_max: 4,
            append_blocks_max: 0,
        };
        for unreadable in [&[7][..], &[14], &[15], &[14, 15]] {
            let mut dev = ModelDevice::new(geometry).unwrap();
            let mut s = Superblock { homes: [ZoneId(0), ZoneId(1)], ..sample(0) };
            // The blocks of zones 0 and 1, two for each.
            for generation in 1..=8 {
                s.generation = generation;
                write(&mut dev, &mut s, generation - 1, || None).unwrap();
            }
            dev.fail_reads(unreadable.iter().copied());
            s.generation = 9;
            let written = write(&mut dev, &mut s, 8, || None);
            match unreadable.len() {
                1 => {
                    written.unwrap();
                    assert_eq!(find(&dev, false).unwrap().0.generation, 9, "{unreadable:?}");
                }
                _ => assert_eq!(written.unwrap_err().kind(), Kind::Io),
            }
        }
    }

    #[test]
    #[should_panic(expected = "generation 4 after 4")]
    fn a_superblock_whose_generation_does_not_grow_is_not_written() {
        let geometry = Geometry {
            block_bytes: 512,
            conventional_zones: 1,
            sequential_zones: 4,
            zone_blocks: 8,
            capacity_blocks: 8,
            open_zones_max: 4,
            active_zones_max: 4,
            append_blocks_max: 0,
        };
        let mut dev = ModelDevice::new(geometry).unwrap();
        drop(write(&mut dev, &mut sample(4), 4, || None));
    }

    #[test]
    fn a_superblock_whose_reserved_bytes_are_not_zero_is_not_read() {
        let mut block = sample(1).encode(512).unwrap();
        assert_eq!(Superblock::decode(&block), Some(sample(1)));
        block[500] = 1;
        seal(&mut block, SALT);
        assert_eq!(Superblock::decode(&block), None);
    }
}
