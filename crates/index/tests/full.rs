//! A device that is nearly full refuses inserts instead of paying more and more for each.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_store::store::Durability;

/// Blocks written, those of the redo log apart.
fn blocks_of(index: &Index<ModelDevice>) -> u64 {
    let counts = index.store_ref().counts();
    counts.tree_blocks + counts.gc_blocks
}

/// Inserts until one is refused, and blocks per insert. After each `reopened` inserts the store is
/// opened anew, which then knows nothing of deletions.
fn fill(reopened: u64) -> (u64, f64) {
    let geometry = Geometry {
        block_bytes: 4096,
        conventional_zones: 1,
        sequential_zones: 11,
        zone_blocks: 128,
        capacity_blocks: 100,
        open_zones_max: 2,
        active_zones_max: 4,
        append_blocks_max: 0,
    };
    let device = ModelDevice::new(geometry).unwrap();
    let mut index =
        Index::create(device, Engine::Zb, Shape::fitting(4096, 8, 8).unwrap(), 7).unwrap();
    let mut blocks = 0;
    for n in 0u64.. {
        if n > 0 && n.is_multiple_of(reopened) {
            index.sync().unwrap();
            blocks += blocks_of(&index);
            index = Index::open(index.into_device()).unwrap();
        }
        index.store_mut().set_durability(Durability::Batch);
        let key = n * 48_271 % 99_999_989;
        if let Err(e) = index.put(&key.to_be_bytes(), &n.to_be_bytes()) {
            assert_eq!(e.kind(), Kind::Full, "{e}");
            index.check().unwrap();
            return (n, (blocks + blocks_of(&index)) as f64 / n as f64);
        }
    }
    unreachable!("a device has an end")
}

#[test]
fn inserts_into_a_nearly_full_device_cost_what_others_do_or_are_refused() {
    let (held, blocks) = fill(u64::MAX);
    println!("never opened anew: {held} inserts, {blocks} blocks each");
    let (held_again, blocks_again) = fill(20_000);
    println!("opened anew: {held_again} inserts, {blocks_again} blocks each");
    assert!(blocks_again <= blocks + 1.0, "{blocks_again} and {blocks}");
    assert!(held_again * 10 >= held * 9, "{held_again} and {held}");
}
