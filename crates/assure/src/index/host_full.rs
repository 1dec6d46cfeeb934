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
const VALUE_BYTES: usize = 100;
/// Blocks for data beside what the store keeps: far fewer than the device has.
const DATA_BLOCKS: u64 = 320;
/// Changes made durable together.
const BATCH: u64 = 500;

/// What a store on a full host did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFull {
    /// Records that it took before the host was full.
    pub loaded: u64,
    /// Deletions that succeeded, of half of them.
    pub deleted: u64,
    /// Deletions that failed, and the first failure.
    pub failed: u64,
    /// Why.
    pub failure: Option<String>,
    /// Records that it took after the deletions.
    pub came_back: u64,
    /// Records that are not what they must be.
    pub wrong: u64,
}

impl HostFull {
    /// Whether every deletion succeeded, room came back and nothing was lost.
    pub fn is_served(&self) -> bool {
        let all = self.deleted == self.loaded.div_ceil(2) && self.failed == 0;
        all && self.loaded > 0 && self.wrong == 0 && self.came_back >= self.deleted / 4
    }
}

fn geometry() -> Geometry {
    Geometry {
        block_bytes: BLOCK_BYTES as u32,
        conventional_zones: 4,
        sequential_zones: 12,
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

fn value(i: u64) -> [u8; VALUE_BYTES] {
    let mut value = [7; VALUE_BYTES];
    value[..8].copy_from_slice(&i.to_be_bytes());
    value
}

/// Puts records from `next` on until the store has no room; the number after the last.
fn fill(index: &mut Index<FileDevice>, held: &mut BTreeSet<u64>, mut next: u64) -> Result<u64> {
    loop {
        match index.put(&key(next), &value(next)) {
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
        let is_right = held.contains(&number) && k == key(number) && v == value(number);
        (found, wrong) = (found + u64::from(is_right), wrong + u64::from(!is_right));
        true
    })?;
    Ok(wrong + held.len() as u64 - found)
}

/// Fills the host with a store in a new file at `path`, deletes half and fills it again.
///
/// # Errors
/// Those of the store, but for deletions that fail, which are counted.
pub fn host_full(path: &Path, engine: Engine, id: u64) -> Result<HostFull> {
    let mut device = FileDevice::create(path, geometry()).map_err(device_error)?;
    // Two redo zones and the spare blocks of two zones are kept.
    device.limit_host((4 * ZONE_BLOCKS + DATA_BLOCKS) * BLOCK_BYTES);
    let shape = Shape::fitting(BLOCK_BYTES as usize, 8, VALUE_BYTES)?;
    let mut index = Index::create(device, engine, shape, id)?;
    index.store_mut().set_durability(Durability::Batch);
    let (mut told, mut held) = (HostFull::default(), BTreeSet::new());
    let next = fill(&mut index, &mut held, 0)?;
    index.store_mut().checkpoint()?;
    told.loaded = held.len() as u64;
    told.wrong = wrong(&index, &held)?;
    for i in (0..next).step_by(2) {
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
    index.store_mut().checkpoint()?;
    told.came_back = fill(&mut index, &mut held, next)? - next;
    index.store_mut().checkpoint()?;
    told.wrong += wrong(&index, &held)?;
    index.check()?;
    Ok(told)
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
