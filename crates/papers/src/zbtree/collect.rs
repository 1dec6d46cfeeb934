//! `zbtree.gc`: a device filled to nine tenths, then overwritten ten times over.
//!
//! - The device is a model; the store is the real one, redo log, checkpoints and collector
//!   included.
//! - Filled: live pages are nine tenths of the data zones' blocks, by records in hash order. Then
//!   records are replaced, scrambled zipfian, until their bytes are ten times those blocks.
//! - The copy-on-write tree is filled to three quarters only: to move a leaf it rewrites the leaf's
//!   ancestors, so that emptying a zone with little garbage costs more pages than it gives.
//! - Changes are made durable a thousand at a time.
//! - Amplification counts every block the store wrote against the bytes of the records; the
//!   collector's is pages appended in all against those that the tree asked for.

use littoral_base::rng;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_index::{Error, Kind, Result};
use littoral_store::store::{Durability, StoreCounts};

use littoral_bench::ycsb::{self, Distribution, Requests};

const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 400;
/// How full a device is made and how often its capacity is overwritten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Sequential zones.
    pub zones: u32,
    /// Live share of the data zones when overwriting begins.
    pub filled: f64,
    /// Bytes of overwriting records over bytes of the data zones.
    pub times: u64,
}

const BATCH: u64 = 1000;

/// What overwriting showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overwritten {
    /// Records on the full device.
    pub records: u64,
    /// Live share of the data zones when overwriting began.
    pub live_share: f64,
    /// Overwrites that found no room.
    pub refused: u64,
    /// Overwrites made.
    pub overwrites: u64,
    /// Bytes of the records that overwrote.
    pub user_bytes: u64,
    /// Blocks written meanwhile.
    pub counts: StoreCounts,
}

impl Overwritten {
    /// Bytes written to the device over bytes of records.
    pub fn write_amplification(&self) -> f64 {
        let c = &self.counts;
        let blocks = c.tree_blocks + c.redo_blocks + c.map_blocks + c.gc_blocks;
        blocks as f64 * 4096.0 / self.user_bytes as f64
    }

    /// Pages appended over pages that the tree asked for.
    pub fn collector_amplification(&self) -> f64 {
        (self.counts.tree_blocks + self.counts.gc_blocks) as f64 / self.counts.tree_blocks as f64
    }
}

fn geometry(zones: u32) -> Geometry {
    Geometry {
        conventional_zones: 8,
        sequential_zones: zones,
        zone_blocks: 128,
        capacity_blocks: 128,
        open_zones_max: 14,
        active_zones_max: 14,
        ..Geometry::paper()
    }
}

fn value(i: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..8].copy_from_slice(&i.to_be_bytes());
    value
}

fn live_share(index: &Index<ModelDevice>) -> f64 {
    let (live, _, all) = index.store_ref().sequential_blocks();
    live as f64 / all as f64
}

fn fill(index: &mut Index<ModelDevice>, share: f64) -> Result<u64> {
    let mut n = 0;
    while live_share(index) < share {
        for _ in 0..100 {
            index.put(&ycsb::key(n), &value(n))?;
            n += 1;
        }
        if n.is_multiple_of(BATCH) {
            index.sync()?;
        }
    }
    Ok(n)
}

/// Fills and overwrites a device.
///
/// # Errors
/// `Kind::Full` when the device cannot be filled so far; `Kind::Corrupt` when the tree is damaged
/// at the end; those of the store.
pub fn overwrite(engine: Engine, load: Load, seed: u64) -> Result<Overwritten> {
    let device = ModelDevice::new(geometry(load.zones));
    let device = device.map_err(|e| Error::with_source(Kind::Usage, "device", e))?;
    let shape = Shape::fitting(4096, KEY_BYTES, VALUE_BYTES)?;
    let mut index = Index::create(device, engine, shape, seed)?;
    index.store_mut().set_durability(Durability::Batch);
    let records = fill(&mut index, load.filled)?;
    let (before, share) = (index.store_ref().counts(), live_share(&index));
    let blocks = index.store_ref().sequential_blocks().2;
    let overwrites = load.times * blocks * 4096 / (KEY_BYTES + VALUE_BYTES) as u64;
    let mut requests = Requests::new(Distribution::Zipfian, records);
    let mut rng = rng::stream(seed, "zbtree collect");
    let mut refused = 0;
    for i in 0..overwrites {
        let key = ycsb::key(requests.next(records, &mut rng));
        match index.put(&key, &value(i)) {
            Ok(_) => {}
            Err(e) if e.kind() == Kind::Full => refused += 1,
            Err(e) => return Err(e),
        }
        if i.is_multiple_of(BATCH) {
            index.sync()?;
        }
    }
    index.check()?;
    let (after, made) = (index.store_ref().counts(), overwrites - refused);
    Ok(Overwritten {
        records,
        live_share: share,
        refused,
        overwrites: made,
        user_bytes: made * (KEY_BYTES + VALUE_BYTES) as u64,
        counts: littoral_bench::kv::since(after, before),
    })
}
