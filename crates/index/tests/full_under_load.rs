//! A device near its end, on the model: the conventional class is full, a given share of the
//! sequential blocks is live, and the load goes on.
//!
//! - Overwrites of existing keys are never refused; what does not fit is refused before anything
//!   is changed, and says so.
//! - Reads and deletions go on, and deletions bring room back.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::collections::BTreeMap;

use littoral_base::rng::{self, Generator, Rng};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_store::store::Durability;

const VALUE_BYTES: usize = 40;

/// 24 sequential zones; the conventional class is a third of them.
fn geometry() -> Geometry {
    Geometry {
        block_bytes: 512,
        conventional_zones: 8,
        sequential_zones: 24,
        zone_blocks: 128,
        capacity_blocks: 128,
        open_zones_max: 14,
        active_zones_max: 14,
        append_blocks_max: 0,
    }
}

fn device() -> ModelDevice {
    ModelDevice::new(geometry()).unwrap()
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(i: u64) -> [u8; VALUE_BYTES] {
    let mut value = [7; VALUE_BYTES];
    value[..8].copy_from_slice(&i.to_be_bytes());
    value
}

/// An index beside what it must hold.
struct Loaded {
    index: Index<ModelDevice>,
    oracle: BTreeMap<u64, u64>,
    keys: u64,
}

impl Loaded {
    fn new() -> Loaded {
        let shape = Shape::fitting(512, 8, VALUE_BYTES).unwrap();
        let mut index = Index::create(device(), Engine::Zb, shape, 7).unwrap();
        index.store_mut().set_durability(Durability::Batch);
        Loaded { index, oracle: BTreeMap::new(), keys: 0 }
    }

    fn live_share(&self) -> f64 {
        let (live, _, all) = self.index.store_ref().sequential_blocks();
        live as f64 / all as f64
    }

    /// Inserts records in hash order until this share of the sequential blocks is live.
    fn fill(&mut self, share: f64) {
        while self.live_share() < share {
            self.insert().unwrap_or_else(|e| panic!("at {:.3} live: {e}", self.live_share()));
        }
    }

    fn insert(&mut self) -> littoral_index::Result<bool> {
        let k = self.keys;
        let inserted = self.index.put(&key(k), &value(k))?;
        self.oracle.insert(k, k);
        self.keys += 1;
        Ok(inserted)
    }

    /// Inserts until the device refuses; how many it took.
    fn insert_until_refused(&mut self) -> u64 {
        let before = self.keys;
        loop {
            let blocks = self.index.store_ref().sequential_blocks().0;
            match self.insert() {
                Ok(_) => {}
                Err(e) => {
                    assert_eq!(e.kind(), Kind::Full, "{e}");
                    assert_eq!(self.index.get(&key(self.keys)).unwrap(), None);
                    assert_eq!(self.index.len(), self.oracle.len() as u64, "{blocks}");
                    return self.keys - before;
                }
            }
        }
    }

    fn overwrite(&mut self, k: u64, v: u64) {
        let share = self.live_share();
        let is_new = self.index.put(&key(k), &value(v));
        let is_new = is_new.unwrap_or_else(|e| panic!("overwrite {v} at {share:.3} live: {e}"));
        assert!(!is_new, "key {k} was there");
        self.oracle.insert(k, v);
    }

    /// Replaces records of a half of the keys nine times in ten, so that some leaves are hot.
    fn overwrite_many(&mut self, times: u64, rng: &mut Generator) {
        let keys: Vec<u64> = self.oracle.keys().copied().collect();
        for v in 0..times {
            let among = if rng.random_range(0..10) < 9 { keys.len() / 2 } else { keys.len() };
            self.overwrite(keys[rng.random_range(0..among)], v);
            if v % 1000 == 0 {
                self.index.sync().unwrap();
            }
        }
    }

    fn delete(&mut self, k: u64) {
        let share = self.live_share();
        let deleted = self.index.delete(&key(k));
        let deleted = deleted.unwrap_or_else(|e| panic!("deletion at {share:.3} live: {e}"));
        assert_eq!(deleted, self.oracle.remove(&k).is_some());
    }

    fn verify(&self) {
        self.index.check().unwrap();
        assert_eq!(self.index.len(), self.oracle.len() as u64);
        for k in 0..self.keys {
            let wanted = self.oracle.get(&k).map(|&v| value(v).to_vec());
            assert_eq!(self.index.get(&key(k)).unwrap(), wanted, "key {k}");
        }
    }

    fn reopen(mut self) -> Loaded {
        self.index.sync().unwrap();
        Loaded { index: Index::open(self.index.into_device()).unwrap(), ..self }
    }
}

fn overwrites_are_served(share: f64) {
    let mut rng = rng::stream(17, "full under load");
    let mut loaded = Loaded::new();
    loaded.fill(share);
    // More than the bytes of all zones.
    loaded.overwrite_many(25_000, &mut rng);
    loaded.verify();
    let mut loaded = loaded.reopen();
    loaded.index.store_mut().set_durability(Durability::Batch);
    loaded.overwrite_many(5_000, &mut rng);
    loaded.verify();
}

#[test]
fn overwrites_at_seventy_percent_live_are_served() {
    overwrites_are_served(0.70);
}

#[test]
fn overwrites_at_eighty_five_percent_live_are_served() {
    overwrites_are_served(0.85);
}

#[test]
fn overwrites_at_ninety_percent_live_are_served() {
    overwrites_are_served(0.90);
}

#[test]
fn a_device_that_refuses_inserts_serves_everything_else() {
    let mut rng = rng::stream(18, "full under load");
    let mut loaded = Loaded::new();
    let taken = loaded.insert_until_refused();
    assert!(taken > 10_000, "{taken} records");
    for round in 0..3 {
        loaded.overwrite_many(4_000, &mut rng);
        loaded.verify();
        // A tenth of the records goes; nearly as many find room again.
        let keys: Vec<u64> = loaded.oracle.keys().copied().collect();
        let gone: Vec<u64> = keys.iter().copied().filter(|k| k % 10 == round).collect();
        for &k in &gone {
            loaded.delete(k);
        }
        loaded.verify();
        let back = loaded.insert_until_refused();
        assert!(back * 2 > gone.len() as u64, "{back} came back of {}", gone.len());
        loaded = loaded.reopen();
        loaded.index.store_mut().set_durability(Durability::Batch);
    }
    for k in loaded.oracle.keys().copied().collect::<Vec<_>>() {
        loaded.delete(k);
    }
    assert!(loaded.index.is_empty());
    loaded.verify();
}

/// One limit covers cached and changed pages, before and after checkpoints that it causes.
#[test]
fn pages_in_memory_stay_within_the_limit() {
    const LIMIT: u64 = 256 << 10;
    let geometry = Geometry {
        block_bytes: 512,
        conventional_zones: 4,
        sequential_zones: 8,
        zone_blocks: 2048,
        capacity_blocks: 2048,
        open_zones_max: 14,
        active_zones_max: 14,
        append_blocks_max: 0,
    };
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let device = ModelDevice::new(geometry).unwrap();
    let mut index = Index::create(device, Engine::Zb, shape, 1).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    index.store_mut().set_memory(LIMIT);
    let mut most = 0;
    for n in 0..20_000 {
        index.put(&key(n), &n.to_be_bytes()).unwrap();
        if n.is_multiple_of(20) {
            most = most.max(index.store_ref().memory_used());
        }
    }
    assert!(most > LIMIT / 2 && most <= LIMIT, "{most} bytes of pages under a limit of {LIMIT}");
    index.check().unwrap();
}

/// Moved pages with overwritten ones among them made the collector copy 5.5 per overwrite.
#[test]
fn pages_that_are_written_often_stay_apart_from_moved_ones() {
    const OVERWRITES: u64 = 8000;
    let geometry = Geometry { sequential_zones: 64, block_bytes: 4096, ..geometry() };
    let shape = Shape::fitting(4096, 8, 400).unwrap();
    let device = ModelDevice::new(geometry).unwrap();
    let mut index = Index::create(device, Engine::Zb, shape, 7).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    let is_full = |index: &Index<ModelDevice>| {
        let (live, _, all) = index.store_ref().sequential_blocks();
        10 * live >= 9 * all
    };
    let mut keys = 0;
    while !is_full(&index) {
        index.put(&key(keys), &[0; 400]).unwrap();
        keys += 1;
    }
    let (before, mut rng) = (index.store_ref().counts(), rng::stream(7, "skewed"));
    for i in 0..OVERWRITES {
        // Of equal ratios of ranks each is drawn as often as the others, as by Zipf's law.
        let rank = (keys as f64).powf(rng.random::<f64>()) as u64 - 1;
        index.put(&key(key_of_rank(rank, keys)), &[i as u8; 400]).unwrap();
        if i % 1000 == 0 {
            index.sync().unwrap();
        }
    }
    index.check().unwrap();
    let copied = index.store_ref().counts().gc_blocks - before.gc_blocks;
    assert!(10 * copied < 48 * OVERWRITES, "{copied} pages copied for {OVERWRITES} overwrites");
}

/// Ranks fall anywhere among the keys.
fn key_of_rank(rank: u64, keys: u64) -> u64 {
    rank.wrapping_mul(0xbf58_476d_1ce4_e5b9) % keys
}
