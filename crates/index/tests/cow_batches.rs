//! The copy-on-write tree on a store: batches are written once, zones are emptied together, and
//! overwrites and deletions find room where inserts are refused.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_store::gc;
use littoral_store::store::Durability;

const RECORDS: u64 = 4_000;

fn device(sequential_zones: u32) -> ModelDevice {
    let geometry = Geometry {
        block_bytes: 512,
        conventional_zones: 0,
        sequential_zones,
        zone_blocks: 128,
        capacity_blocks: 128,
        open_zones_max: 14,
        active_zones_max: 14,
        append_blocks_max: 0,
    };
    ModelDevice::new(geometry).unwrap()
}

fn create(sequential_zones: u32) -> Index<ModelDevice> {
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let mut index = Index::create(device(sequential_zones), Engine::Cow, shape, 7).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    index
}

fn key(i: u64) -> [u8; 8] {
    i.to_be_bytes()
}

/// Scattered keys: the factor is odd.
fn scattered(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn loaded(sequential_zones: u32) -> Index<ModelDevice> {
    let mut index = create(sequential_zones);
    for i in 0..RECORDS {
        index.put(&key(i), &key(i)).unwrap();
    }
    index.sync().unwrap();
    index
}

fn reopened(index: Index<ModelDevice>) -> Index<ModelDevice> {
    let mut index = Index::open(index.into_device()).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    index
}

/// Every record has its number as value, but those below `changed`, which have the next one.
fn verify(index: &Index<ModelDevice>, changed: u64) {
    index.check().unwrap();
    for i in 0..RECORDS {
        let wanted = if i < changed { i + 1 } else { i };
        assert_eq!(index.get(&key(i)).unwrap(), Some(key(wanted).to_vec()), "record {i}");
    }
}

#[test]
fn a_batch_writes_each_changed_page_once() {
    let mut index = loaded(40);
    let layers = u64::from(index.layers());
    assert!(layers >= 3, "{layers} layers");
    let before = index.store_ref().counts().tree_blocks;
    for i in 0..40 {
        index.put(&key(i), &key(i + 1)).unwrap();
    }
    assert_eq!(index.store_ref().counts().tree_blocks, before, "nothing is written yet");
    verify(&index, 40);
    index.sync().unwrap();
    // Forty records lie in four leaves at most, under one or two inner pages of each layer.
    let written = index.store_ref().counts().tree_blocks - before;
    assert!((layers..=4 + 2 * (layers - 1)).contains(&written), "{written} pages");
    // One by one each change writes a path.
    index.store_mut().set_durability(Durability::Operation);
    let before = index.store_ref().counts().tree_blocks;
    for i in 0..40 {
        index.put(&key(i), &key(i + 1)).unwrap();
    }
    assert_eq!(index.store_ref().counts().tree_blocks - before, 40 * layers);
    verify(&reopened(index), 40);
}

#[test]
fn a_batch_without_a_sync_leaves_the_state_before_it() {
    let mut index = loaded(40);
    for i in 0..100 {
        index.put(&key(i), &key(i + 1)).unwrap();
    }
    assert!(index.delete(&key(3000)).unwrap());
    assert_eq!(index.put(b"short", &key(1)).unwrap_err().kind(), Kind::Usage);
    assert_eq!(index.get(&key(99)).unwrap(), Some(key(100).to_vec()));
    verify(&reopened(index), 0);
}

/// A change that is durable at once ends the batch before it: what it writes names no draft.
#[test]
fn a_batch_is_ended_by_a_change_that_is_durable_at_once() {
    let mut index = loaded(40);
    for i in 0..1000 {
        index.put(&key(i), &key(i + 1)).unwrap();
    }
    index.store_mut().set_durability(Durability::Operation);
    index.put(&key(1000), &key(1001)).unwrap();
    verify(&index, 1001);
    verify(&reopened(index), 1001);
}

#[test]
fn a_batch_that_outgrows_the_memory_is_written_in_parts() {
    let mut index = create(40);
    index.store_mut().set_memory(100 * 512);
    for i in 0..RECORDS {
        index.put(&scattered(i), &key(i)).unwrap();
    }
    assert!(index.store_ref().counts().tree_blocks > 300, "{:?}", index.store_ref().counts());
    for i in 0..RECORDS {
        assert_eq!(index.get(&scattered(i)).unwrap(), Some(key(i).to_vec()), "record {i}");
    }
    index.close().unwrap();
    assert_eq!(reopened(index).check().unwrap(), index_pages());
}

/// Pages of a tree of the scattered records: half full leaves at least, full ones at most.
fn index_pages() -> u64 {
    let mut index = create(40);
    for i in 0..RECORDS {
        index.put(&scattered(i), &key(i)).unwrap();
    }
    index.check().unwrap()
}

/// Collections move live pages, lose nothing, and leave more empty zones than they found.
#[test]
fn zones_are_emptied_together_and_pages_are_found_again() {
    let mut index = loaded(40);
    index.store_mut().set_durability(Durability::Operation);
    for i in 0..RECORDS / 2 {
        index.put(&key(i), &key(i + 1)).unwrap();
    }
    for round in 0..12 {
        let (live, room) = (index.store_ref().live_blocks(), index.store_ref().appendable_blocks());
        let before = index.store_ref().counts();
        assert!(gc::step(&mut index, true).unwrap(), "round {round}");
        let after = index.store_ref().counts();
        assert!(index.store_ref().appendable_blocks() >= room + 8, "round {round}");
        assert_eq!(
            (after.tree_blocks, index.store_ref().live_blocks()),
            (before.tree_blocks, live)
        );
        if round % 3 == 2 {
            index = reopened(index);
        }
        verify(&index, RECORDS / 2);
    }
}

#[test]
fn overwrites_and_deletions_go_on_where_inserts_are_refused() {
    for (zones, least) in [(8, 50), (12, 50), (64, 60)] {
        let mut index = create(zones);
        let mut n = 0;
        let error = loop {
            match index.put(&scattered(n), &key(n)) {
                Ok(_) => n += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(error.kind(), Kind::Full);
        index.sync().unwrap();
        let (live, _, all) = index.store_ref().sequential_blocks();
        assert!(live * 100 > all * least, "{zones} zones: {live} of {all} blocks are live");
        for i in 0..20_000u64 {
            assert!(!index.put(&scattered(i * 7 % n), &key(i)).unwrap(), "overwrite {i}");
            if i.is_multiple_of(50) {
                index.sync().unwrap();
            }
        }
        for i in 0..n {
            assert!(index.delete(&scattered(i)).unwrap(), "deletion {i}");
            if i.is_multiple_of(50) {
                index.sync().unwrap();
            }
        }
        index.check().unwrap();
        index.sync().unwrap();
        assert!(reopened(index).is_empty());
    }
}
