//! Damage done to real stores, and the judge of what they answer then: behind the tests, the fuzz
//! targets and the claims `store.flip.*` and `store.hostile.panics`.
//!
//! - A [`Sample`] is a store in a file whose contents are known. Its bytes are damaged in place and
//!   put back. A *killed* one has redo groups that no checkpoint has written in place. Checked by
//!   `a_killed_sample_has_groups_behind_the_first_and_a_closed_one_has_none`.
//! - *Flips*: one bit, checksums left as they are. The answer must be right or a refusal; repair
//!   must save every record.
//! - *Crafted images*: fields of superblocks, redo parts, pages, the file's header and zone records
//!   are changed and their checksums made good again. Any answer will do but a panic.
//! - Bytes behind a write pointer are not walked: no device shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use littoral_base::codec::{SEAL_BYTES, seal, unseal};
use littoral_base::rng::{self, Generator, Rng};
use littoral_base::units::ZoneId;
use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{ZoneKind, ZonedDevice};
use littoral_store::store::Durability;
use littoral_store::{redo, superblock};

use littoral_index::index::{Engine, Index};
use littoral_index::kv::{Access, Kv, Options, device_error};
use littoral_index::salvage::salvage;
use littoral_index::{Error, Kind, Result};

const BLOCK: usize = 512;
/// Where zone records begin in the file, and their size.
const RECORDS_AT: u64 = 4096;
const RECORD_BYTES: u64 = 32;
/// Where the zones begin in a file of so few zones.
const ZONES_AT: u64 = 1 << 20;

/// Where a part of a redo group names its epoch and its group.
const EPOCH_AT: u64 = 24;
const SEQUENCE_AT: u64 = 32;

/// A device small enough that every part of the layout is met.
const GEOMETRY: Geometry = Geometry {
    block_bytes: BLOCK as u32,
    conventional_zones: 1,
    sequential_zones: 9,
    zone_blocks: 130,
    capacity_blocks: 101,
    open_zones_max: 3,
    active_zones_max: 5,
    append_blocks_max: 0,
};

/// A kind of unit with a checksum of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The header's copies and the zone records of the file.
    File,
    /// Superblocks.
    Superblock,
    /// Parts of redo groups.
    Redo,
    /// Pages of the tree.
    Page,
}

/// What a damaged store answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What was put into it.
    Right,
    /// An error.
    Refused(String),
    /// Something else: a missing, old or invented record.
    Wrong(String),
}

/// What a walk over a sample's bytes showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flips {
    /// Bits flipped, one at a time.
    pub flips: u64,
    /// Answered as if nothing had happened.
    pub right: u64,
    /// Refused.
    pub refused: u64,
    /// Answered wrongly.
    pub wrong: u64,
    /// Ended in a panic.
    pub panics: u64,
    /// Answered rightly, or every record saved by repair.
    pub repaired: u64,
    /// The first that was wrong or not repaired.
    pub first: Option<String>,
}

impl Flips {
    /// Adds what another walk showed.
    pub fn add(&mut self, other: &Flips) {
        self.flips += other.flips;
        self.right += other.right;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.panics += other.panics;
        self.repaired += other.repaired;
        self.first = self.first.take().or_else(|| other.first.clone());
    }
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store in a file, and what it holds.
#[derive(Debug)]
pub struct Sample {
    dir: PathBuf,
    file: File,
    expected: Contents,
    /// Bytes that a device shows, in the file.
    spans: Vec<(u64, u64)>,
    image: Vec<(u64, Vec<u8>)>,
}

fn io(e: std::io::Error) -> Error {
    Error::with_source(Kind::Io, "sample", e)
}

/// Puts, overwrites and deletes about `records` records of a new index; what it holds then. The
/// last change is in a group of its own, behind the first of its epoch.
fn fill(index: &mut Index<FileDevice>, records: u32, seed: u64) -> Result<Contents> {
    let (mut expected, mut rng) = (Contents::new(), rng::stream(seed, "sample"));
    for n in 0u32.. {
        let before = index.store_ref().counts();
        let key = u64::from(rng.random_range(0..records)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (key, value) = (key.to_be_bytes(), u64::from(n + 1).to_be_bytes());
        if rng.random_range(0..8) == 0 {
            index.delete(&key)?;
            expected.remove(&key[..]);
        } else {
            index.put(&key, &value)?;
            expected.insert(key.to_vec(), value.to_vec());
        }
        let after = index.store_ref().counts();
        // A change that ends in a checkpoint leaves no later group.
        let is_logged = after.redo_blocks > before.redo_blocks;
        if n + 1 >= records * 2 && is_logged && after.checkpoints == before.checkpoints {
            break;
        }
    }
    Ok(expected)
}

impl Sample {
    /// Creates a store in the directory `dir` with about `records` records, put, overwritten and
    /// deleted in an order drawn from `seed`; closed, or left as a kill leaves it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn create(
        dir: &Path,
        engine: Engine,
        records: u32,
        is_closed: bool,
        seed: u64,
    ) -> Result<Sample> {
        let options = Options { geometry: GEOMETRY, ..Options::new(engine, rng::mix(seed)) };
        std::fs::create_dir_all(dir).map_err(io)?;
        let path = dir.join("zones");
        let device = FileDevice::create(&path, GEOMETRY).map_err(device_error)?;
        // An `Index` writes nothing when it is dropped; a `Kv` ends with a checkpoint.
        let shape = options.shape(GEOMETRY.block_bytes)?;
        let mut index = Index::create(device, engine, shape, options.id)?;
        let expected = fill(&mut index, records, seed)?;
        if is_closed {
            index.close()?;
        }
        drop(index);
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(io)?;
        let mut sample =
            Sample { dir: dir.to_owned(), file, expected, spans: Vec::new(), image: Vec::new() };
        sample.survey(&path)?;
        Ok(sample)
    }

    fn survey(&mut self, path: &Path) -> Result<()> {
        let device = FileDevice::open(path).map_err(device_error)?;
        let zones = device.report(ZoneId(0), device.limits().zones).map_err(device_error)?;
        self.spans.push((0, RECORDS_AT + zones.len() as u64 * RECORD_BYTES));
        for z in zones {
            let blocks = match z.kind {
                ZoneKind::Conventional => z.capacity_blocks,
                ZoneKind::Sequential => z.write_pointer.0 - z.start.0,
            };
            let from = ZONES_AT + z.start.0 * BLOCK as u64;
            self.spans.push((from, from + blocks * BLOCK as u64));
        }
        for (from, to) in [(0, ZONES_AT), (ZONES_AT, ZONES_AT + GEOMETRY.blocks() * BLOCK as u64)] {
            let mut bytes = vec![0; (to - from) as usize];
            self.file.read_exact_at(&mut bytes, from).map_err(io)?;
            self.image.push((from, bytes));
        }
        Ok(())
    }

    /// The bytes of the file that a device shows.
    pub fn shown_bytes(&self) -> u64 {
        self.spans.iter().map(|(from, to)| to - from).sum()
    }

    /// Groups behind the first in the newest epoch of the redo log: what a kill leaves and a close
    /// does not.
    pub fn later_groups(&self) -> usize {
        let number = |at: u64| {
            let bytes = std::array::from_fn(|i| self.byte(at + i as u64));
            u64::from_le_bytes(bytes)
        };
        let parts = self.units(Part::Redo).into_iter();
        let groups: BTreeSet<(u64, u64)> =
            parts.map(|(at, ..)| (number(at + EPOCH_AT), number(at + SEQUENCE_AT))).collect();
        let newest = groups.last().map(|g| g.0);
        groups.iter().filter(|g| Some(g.0) == newest && g.1 > 0).count()
    }

    /// Expects a record that the store does not hold: a canary of the judge.
    pub fn expect_one_more(&mut self) {
        self.expected.insert(vec![0xff; 8], vec![1; 8]);
    }

    fn open(&self, access: Access) -> Result<Kv> {
        let path = self.dir.join("zones");
        let device = match access {
            Access::Read => FileDevice::open_to_read(&path),
            Access::Write => FileDevice::open(&path),
        };
        Kv::open_on(Box::new(device.map_err(device_error)?), access)
    }

    /// What the store answers as it lies there now: its check, a scan of everything, and each key.
    ///
    /// # Errors
    /// None of the store's: they are the answer.
    pub fn answer(&self) -> Result<Answer> {
        let refused = |e: Error| Ok(Answer::Refused(e.to_string()));
        let kv = match self.open(Access::Read) {
            Ok(kv) => kv,
            Err(e) => return refused(e),
        };
        let checked = kv.check();
        let (mut found, mut wrong) = (0, None);
        let scanned = kv.scan(None, None, |key, value| {
            found += 1;
            if self.expected.get(key).is_none_or(|v| v != value) {
                wrong.get_or_insert_with(|| format!("scan: key {key:02x?}"));
            }
            true
        });
        if scanned.is_ok() && found != self.expected.len() {
            let held = self.expected.len();
            wrong.get_or_insert_with(|| format!("scan: {found} of {held} records"));
        }
        let mut unread = None;
        for (key, value) in self.expected.iter().step_by(3) {
            match kv.get(key) {
                Ok(Some(v)) if v == *value => {}
                Ok(_) => _ = wrong.get_or_insert_with(|| format!("get: key {key:02x?}")),
                Err(e) => unread = Some(e),
            }
        }
        match (wrong, checked.and(scanned.map(|()| 0)), unread) {
            (Some(what), ..) => Ok(Answer::Wrong(what)),
            (_, Err(e), _) | (_, _, Some(e)) => refused(e),
            _ => Ok(Answer::Right),
        }
    }

    /// Whether repair saves every record of the store as it lies there now, and invents none.
    pub fn is_saved(&self) -> bool {
        let mut saved = Contents::new();
        let opened = FileDevice::open_damaged(&self.dir.join("zones"));
        let done = opened.map_err(device_error).and_then(|(device, _)| {
            salvage(device, |key, value| {
                saved.insert(key.to_vec(), value.to_vec());
                Ok(())
            })
        });
        done.is_ok() && saved == self.expected
    }

    fn poke(&self, at: u64, byte: u8) -> Result<()> {
        self.file.write_all_at(&[byte], at).map_err(io)
    }

    fn byte(&self, at: u64) -> u8 {
        let part = self.image.iter().rfind(|(from, _)| *from <= at);
        part.map_or(0, |(from, bytes)| bytes[(at - from) as usize])
    }

    /// Flips one bit in every `stride` bytes, judges the answers and puts each back; of these only
    /// every `keep`th.
    ///
    /// # Errors
    /// `Kind::Io` when the file cannot be changed.
    pub fn flip_every(&self, stride: u64, keep: usize) -> Result<Flips> {
        let (mut report, mut rng) = (Flips::default(), rng::stream(stride, "flips"));
        let places = self.spans.iter().flat_map(|&(from, to)| {
            (from..to).step_by(stride as usize).map(move |at| (at, stride.min(to - at)))
        });
        for (at, room) in places.step_by(keep) {
            let (at, bit) = (at + rng.random_range(0..room), rng.random_range(0..8u32));
            self.poke(at, self.byte(at) ^ 1 << bit)?;
            self.judge(&mut report, &format!("byte {at}, bit {bit}"))?;
            self.poke(at, self.byte(at))?;
        }
        Ok(report)
    }

    fn judge(&self, report: &mut Flips, place: &str) -> Result<()> {
        report.flips += 1;
        let mut is_right = false;
        match catch_unwind(AssertUnwindSafe(|| self.answer())) {
            Err(_) => report.panics += 1,
            Ok(answer) => match answer? {
                Answer::Right => {
                    report.right += 1;
                    is_right = true;
                }
                Answer::Refused(_) => report.refused += 1,
                Answer::Wrong(what) => {
                    report.wrong += 1;
                    report.first.get_or_insert_with(|| format!("{place}: {what}"));
                }
            },
        }
        let is_saved = is_right
            || catch_unwind(AssertUnwindSafe(|| self.is_saved())).unwrap_or_else(|_| {
                report.panics += 1;
                false
            });
        report.repaired += u64::from(is_saved);
        if !is_saved {
            report.first.get_or_insert_with(|| format!("{place}: not repaired"));
        }
        Ok(())
    }

    /// Crafts image number `n`, runs every command on it and puts the store back; whether none of
    /// them panicked. Every sixteenth image is written to as well.
    ///
    /// # Errors
    /// `Kind::Io` when the file cannot be changed.
    pub fn craft(&self, n: u64) -> Result<bool> {
        let mut rng = rng::stream(n, "crafted images");
        let writes = n.is_multiple_of(16);
        let changed: Vec<(u64, usize)> = (0..1 + rng.random_range(0..3))
            .map(|_| self.craft_one(&mut rng))
            .collect::<Result<_>>()?;
        let calm = catch_unwind(AssertUnwindSafe(|| self.run_commands(writes))).is_ok();
        if writes {
            for (from, bytes) in &self.image {
                self.file.write_all_at(bytes, *from).map_err(io)?;
            }
        } else {
            for (at, len) in changed {
                let bytes: Vec<u8> = (at..at + len as u64).map(|i| self.byte(i)).collect();
                self.file.write_all_at(&bytes, at).map_err(io)?;
            }
        }
        Ok(calm)
    }

    /// Whether the store answers right as it is, and a damaged page of it does not go unseen: the
    /// canary of what builds on this.
    ///
    /// # Errors
    /// `Kind::Io` when the file cannot be changed.
    pub fn is_judged_rightly(&self) -> Result<bool> {
        let is_right = self.answer()? == Answer::Right;
        let report = self.flip_every(BLOCK as u64, 1)?;
        Ok(is_right && report.refused > 0 && report.wrong + report.panics == 0)
    }

    /// Changes units of one kind as `script` says, seals them, runs every command that reads, and
    /// puts the store back. A step of the script is {unit u16, place u16, four bytes}.
    ///
    /// # Errors
    /// `Kind::Io` when the file cannot be changed.
    pub fn forge(&self, part: Part, script: &[u8]) -> Result<()> {
        let units = self.units(part);
        let mut changed: BTreeMap<u64, (usize, u64, Vec<u8>)> = BTreeMap::new();
        for step in script.chunks_exact(8).take(16) {
            let pick = u16::from_le_bytes([step[0], step[1]]);
            let place = usize::from(u16::from_le_bytes([step[2], step[3]]));
            let (at, len, salt) = units[usize::from(pick) % units.len()];
            let whole = || (at..at + len as u64).map(|i| self.byte(i)).collect();
            let unit = changed.entry(at).or_insert_with(|| (len, salt, whole()));
            let room = len - SEAL_BYTES;
            let from = place % room;
            let width = 4.min(room - from);
            unit.2[from..from + width].copy_from_slice(&step[4..4 + width]);
        }
        for (&at, (_, salt, bytes)) in &mut changed {
            seal(bytes, *salt);
            self.file.write_all_at(bytes, at).map_err(io)?;
        }
        self.run_commands(false);
        for (&at, (len, ..)) in &changed {
            let bytes: Vec<u8> = (at..at + *len as u64).map(|i| self.byte(i)).collect();
            self.file.write_all_at(&bytes, at).map_err(io)?;
        }
        Ok(())
    }

    /// Every unit of a kind that verifies: where, how long, its salt.
    fn units(&self, part: Part) -> Vec<(u64, usize, u64)> {
        if part == Part::File {
            let copies = (0..8).map(|copy| (copy * BLOCK as u64, BLOCK, 0));
            let records = (0..u64::from(GEOMETRY.zones()))
                .map(|zone| (RECORDS_AT + zone * RECORD_BYTES, RECORD_BYTES as usize, zone + 1));
            return copies.chain(records).collect();
        }
        let blocks = self.spans[1..].iter().flat_map(|&(from, to)| (from..to).step_by(BLOCK));
        blocks
            .flat_map(|at| self.units_in(at))
            .filter(|&(_, of)| of == part)
            .map(|(u, _)| u)
            .collect()
    }

    /// The units in a block and what they are.
    fn units_in(&self, at: u64) -> Vec<((u64, usize, u64), Part)> {
        let bytes: Vec<u8> = (at..at + BLOCK as u64).map(|i| self.byte(i)).collect();
        let lba = (at - ZONES_AT) / BLOCK as u64;
        let whole = [
            (superblock::SALT, Part::Superblock),
            (redo::SALT, Part::Redo),
            (lba, Part::Page),
            (lba | 1 << 63, Part::Page),
        ];
        let found = whole.into_iter().find(|&(salt, _)| unseal(&bytes, salt).is_some());
        if let Some((salt, part)) = found {
            return vec![((at, BLOCK, salt), part)];
        }
        let halves = [0, BLOCK / 2].into_iter();
        let sealed = halves.filter(|&h| unseal(&bytes[h..h + BLOCK / 2], redo::SALT).is_some());
        sealed.map(|h| ((at + h as u64, BLOCK / 2, redo::SALT), Part::Redo)).collect()
    }

    /// Every command, whatever it answers.
    fn run_commands(&self, writes: bool) {
        let _ = self.answer();
        let _ = self.is_saved();
        if !writes {
            return;
        }
        let Ok(mut kv) = self.open(Access::Write) else { return };
        kv.set_durability(Durability::Batch);
        for (i, key) in self.expected.keys().enumerate() {
            let _ = if i % 3 == 0 { kv.delete(key) } else { kv.put(key, &[i as u8; 8]) };
            if i % 16 == 0 {
                let _ = kv.put(&(i as u64).to_be_bytes(), &[7; 8]);
            }
        }
        let _ = kv.close();
    }

    /// Changes a few fields of one sealed unit and seals it again; where it lies.
    fn craft_one(&self, rng: &mut Generator) -> Result<(u64, usize)> {
        let (at, len, salt) = self.unit(rng);
        let mut bytes: Vec<u8> = (at..at + len as u64).map(|i| self.byte(i)).collect();
        for _ in 0..1 + rng.random_range(0..4) {
            mutate(&mut bytes[..len - SEAL_BYTES], rng);
        }
        seal(&mut bytes, salt);
        self.file.write_all_at(&bytes, at).map_err(io)?;
        Ok((at, len))
    }

    /// A unit that carries a checksum of its own: where, how long, its salt.
    fn unit(&self, rng: &mut Generator) -> (u64, usize, u64) {
        if rng.random_range(0..12) == 0 {
            let units = self.units(Part::File);
            return units[rng.random_range(0..units.len())];
        }
        loop {
            let (from, to) = self.spans[rng.random_range(1..self.spans.len())];
            if to > from {
                let blocks = (to - from) / BLOCK as u64;
                let units = self.units_in(from + rng.random_range(0..blocks) * BLOCK as u64);
                if !units.is_empty() {
                    return units[rng.random_range(0..units.len())].0;
                }
            }
        }
    }
}

/// Numbers at which code goes wrong.
const EDGES: [u64; 10] =
    [0, 1, 2, 0x7f, 0xff, 0xffff, 0xffff_ffff, 1 << 31, u64::MAX, u64::MAX - 1];

/// Changes one field of up to eight bytes: near the front as often as anywhere.
pub fn mutate(bytes: &mut [u8], rng: &mut Generator) {
    let most = if rng.random_range(0..2) == 0 { bytes.len().min(72) } else { bytes.len() };
    let at = rng.random_range(0..most);
    let width = [1, 1, 2, 4, 8][rng.random_range(0..5)].min(bytes.len() - at);
    let value = match rng.random_range(0..4) {
        0 => rng.random::<u64>(),
        1 => EDGES[rng.random_range(0..EDGES.len())],
        2 => u64::from(rng.random_range(0..1400u32)),
        _ => u64::from(bytes[at]).wrapping_add(1),
    };
    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
}
