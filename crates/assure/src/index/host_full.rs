//! A store in a file whose host has no room left: filled until a put is refused, then emptied by
//! half, then filled again.
//!
//! The host is modelled ([`FileDevice::limit_host`]), so that a small one can be filled anywhere. A
//! real file system is filled by the command line's test.

use std::collections::BTreeSet;
use std::path::Path;

use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_store::store::Durability;

use littoral_index::index::{Engine, Index};
use littoral_index::kv::device_error;
use littoral_index::layout::Shape;
use littoral_index::zb::Direction;
use littoral_index::{Kind, Result};

const BLOCK_BYTES: u64 = 4096;
const ZONE_BLOCKS: u64 = 128;
/// Deletions that a kill undoes, or not.
const UNSYNCED: usize = 16;
/// Changes made durable together.
const BATCH: u64 = 500;

/// What a store on a full host did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFull {
    /// Records that it took before the host was full.
    pub loaded: u64,
    /// Deletions that were to succeed.
    pub wanted: u64,
    /// Deletions that succeeded.
    pub deleted: u64,
    /// Deletions that failed, and the first failure.
    pub failed: u64,
    /// Why.
    pub failure: Option<String>,
    /// Records that it was to take after the deletions.
    pub wanted_back: u64,
    /// Records that it took then.
    pub came_back: u64,
    /// Records that are not what they must be.
    pub wrong: u64,
}

impl HostFull {
    /// Whether every deletion succeeded, room came back and nothing was lost.
    pub fn is_served(&self) -> bool {
        let all = self.deleted == self.wanted && self.failed == 0;
        all && self.loaded > 0 && self.wrong == 0 && self.came_back >= self.wanted_back
    }
}

/// How large device and host are.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Sequential zones of the device, two of them for the redo log.
    pub zones: u32,
    /// Zones whose room the store keeps: two for the redo log, and those of a collection and one.
    pub kept_zones: u64,
    /// Blocks of the host for data, beside what the store keeps: fewer than the device has.
    pub data_blocks: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Of so many records one is deleted.
    pub one_of: usize,
    /// Of so many deletions one must bring back room for a record: few do where they leave a little
    /// room in every leaf.
    pub one_back_of: u64,
    /// When deletions are made durable.
    pub durability: Durability,
}

impl Case {
    /// A small device of which half of the records are deleted.
    pub const SMALL: Case = Case {
        zones: 12,
        kept_zones: 4,
        data_blocks: 320,
        value_bytes: 100,
        one_of: 2,
        one_back_of: 4,
        durability: Durability::Batch,
    };
    /// So many zones that a little garbage in each is more than the spare blocks.
    pub const SPREAD: Case = Case {
        zones: 42,
        kept_zones: 7,
        data_blocks: 4000,
        value_bytes: 1000,
        one_of: 16,
        one_back_of: 32,
        durability: Durability::Operation,
    };
}

fn geometry(zones: u32) -> Geometry {
    Geometry {
        block_bytes: BLOCK_BYTES as u32,
        conventional_zones: 4,
        sequential_zones: zones,
        zone_blocks: ZONE_BLOCKS,
        capacity_blocks: ZONE_BLOCKS,
        open_zones_max: 8,
        active_zones_max: 8,
        append_blocks_max: 0,
    }
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Value `i`: its number, and bytes that are the same in all.
fn value(i: u64, bytes: usize) -> Vec<u8> {
    let mut value = i.to_be_bytes().to_vec();
    value.resize(bytes, 7);
    value
}

/// Puts records from `next` on until the store has no room; the number after the last.
fn fill(index: &mut Index<FileDevice>, held: &mut BTreeSet<u64>, mut next: u64) -> Result<u64> {
    loop {
        match index.put(&key(next), &value(next, index.shape().value_bytes)) {
            Ok(_) => _ = held.insert(next),
            Err(e) if e.kind() == Kind::Full && e.to_string().contains("host") => return Ok(next),
            Err(e) => return Err(e),
        }
        next += 1;
        if next.is_multiple_of(BATCH) {
            index.sync()?;
        }
    }
}

/// Records that are missing, wrong, or there and deleted.
fn wrong(index: &Index<FileDevice>, held: &BTreeSet<u64>) -> Result<u64> {
    let (mut wrong, mut found) = (0, 0);
    index.scan(None, None, Direction::Forward, |k, v| {
        let number = v[..8].try_into().map(u64::from_be_bytes).unwrap_or_default();
        let is_right = held.contains(&number) && k == key(number) && v == value(number, v.len());
        (found, wrong) = (found + u64::from(is_right), wrong + u64::from(!is_right));
        true
    })?;
    Ok(wrong + held.len() as u64 - found)
}

/// Fills the host with a store in a new file at `path`, deletes part of it and fills it again.
///
/// # Errors
/// Those of the store, but for deletions that fail, which are counted.
pub fn host_full(path: &Path, engine: Engine, case: Case, id: u64) -> Result<HostFull> {
    let mut device = FileDevice::create(path, geometry(case.zones)).map_err(device_error)?;
    device.limit_host((case.kept_zones * ZONE_BLOCKS + case.data_blocks) * BLOCK_BYTES);
    let shape = Shape::fitting(BLOCK_BYTES as usize, 8, case.value_bytes)?;
    let mut index = Index::create(device, engine, shape, id)?;
    index.store_mut().set_durability(Durability::Batch);
    let (mut told, mut held) = (HostFull::default(), BTreeSet::new());
    let next = fill(&mut index, &mut held, 0)?;
    index.store_mut().checkpoint()?;
    told.loaded = held.len() as u64;
    told.wrong = wrong(&index, &held)?;
    index.store_mut().set_durability(case.durability);
    for i in (0..next).step_by(case.one_of) {
        told.wanted += 1;
        match index.delete(&key(i)) {
            Ok(was_there) => {
                told.deleted += u64::from(was_there);
                held.remove(&i);
            }
            Err(e) => {
                told.failed += 1;
                told.failure.get_or_insert(e.to_string());
            }
        }
        if i % BATCH == 0 {
            index.sync()?;
        }
    }
    index.store_mut().set_durability(Durability::Batch);
    index.store_mut().checkpoint()?;
    told.wanted_back = told.deleted / case.one_back_of;
    told.came_back = fill(&mut index, &mut held, next)? - next;
    index.store_mut().checkpoint()?;
    told.wrong += wrong(&index, &held)?;
    index.check()?;
    told.wrong += lost_by_a_kill(index, path, &held)?;
    Ok(told)
}

/// Deletes some records on the full host and is killed before that is durable; of the others those
/// that the store does not hold afterwards. What the deletions freed is still named then.
fn lost_by_a_kill(mut index: Index<FileDevice>, path: &Path, held: &BTreeSet<u64>) -> Result<u64> {
    for &i in held.iter().take(UNSYNCED) {
        index.delete(&key(i))?;
    }
    drop(index);
    let index = Index::open_to_read(FileDevice::open_to_read(path).map_err(device_error)?)?;
    index.check()?;
    let mut lost = 0;
    for &i in held.iter().skip(UNSYNCED) {
        let found = index.get(&key(i))?;
        lost += u64::from(found != Some(value(i, index.shape().value_bytes)));
    }
    Ok(lost)
}

/// A sentence about what a store did, for reports.
pub fn words(engine: Engine, told: &HostFull) -> String {
    let failure = told.failure.as_deref().unwrap_or("none");
    format!(
        "{}: {} records until the host was full, {} deleted, {} refused (first: {failure}), {} \
         added afterwards, {} wrong",
        engine.name(),
        told.loaded,
        told.deleted,
        told.failed,
        told.came_back,
        told.wrong
    )
}
