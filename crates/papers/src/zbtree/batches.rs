//! `zbtree.cow.batch_bytes`: what a batch of updates to the copy-on-write tree writes.
//!
//! - The store is the real one on a model device: every block that it writes is counted, those of
//!   the redo log, of checkpoints and of the collector too.
//! - The paper's figures do not come from here: they count a path for each update, which is what
//!   the paper's tree writes ([`super::workload`]).

use littoral_base::rng::{self, Rng};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::Result;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_index::{Error, Kind};
use littoral_store::store::Durability;

use littoral_bench::{kv, ycsb};

const KEY_BYTES: usize = 8;
const VALUE_BYTES: usize = 24;
const BLOCK_BYTES: u64 = 4096;
/// Records held.
pub const RECORDS: u64 = 20_000;
/// Updates made.
pub const UPDATES: u64 = 20_000;

/// Bytes written per update of 32 bytes when `batch` updates of uniformly drawn keys become durable
/// together.
///
/// # Errors
/// Those of the store.
pub fn bytes_per_update(batch: u64, updates: u64, seed: u64) -> Result<f64> {
    let geometry = Geometry { sequential_zones: 64, ..Geometry::paper() };
    let geometry = Geometry { zone_blocks: 1024, capacity_blocks: 1024, ..geometry };
    let device = ModelDevice::new(geometry);
    let device = device.map_err(|e| Error::with_source(Kind::Usage, "device", e))?;
    let shape = Shape::fitting(BLOCK_BYTES as usize, KEY_BYTES, VALUE_BYTES)?;
    let mut index = Index::create(device, Engine::Cow, shape, seed)?;
    index.store_mut().set_durability(Durability::Batch);
    for i in 0..RECORDS {
        index.put(&ycsb::key(i), &[0; VALUE_BYTES])?;
    }
    index.sync()?;
    if batch == 1 {
        index.store_mut().set_durability(Durability::Operation);
    }
    let before = index.store_ref().counts();
    let mut rng = rng::stream(seed, "batches");
    for n in 1..=updates {
        let key = ycsb::key(rng.random_range(0..RECORDS));
        index.put(&key, &[n as u8; VALUE_BYTES])?;
        if n.is_multiple_of(batch) {
            index.sync()?;
        }
    }
    index.sync()?;
    index.check()?;
    let c = kv::since(index.store_ref().counts(), before);
    let blocks = c.tree_blocks + c.redo_blocks + c.map_blocks + c.gc_blocks;
    Ok((blocks * BLOCK_BYTES) as f64 / updates as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_writes_less_than_its_updates_one_by_one() {
        let one = bytes_per_update(1, 500, 1).unwrap();
        let hundred = bytes_per_update(100, 500, 1).unwrap();
        assert!(hundred * 2.0 < one, "{hundred} and {one} bytes");
        assert_eq!(hundred, bytes_per_update(100, 500, 1).unwrap());
    }
}
