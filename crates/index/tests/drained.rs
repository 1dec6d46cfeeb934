//! A device that refuses inserts takes them again once a third of its records were deleted,
//! whatever order filled it and however its pages are filled.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::collections::BTreeMap;

use littoral_base::rng::{self, Rng};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_index::zb::Direction;
use littoral_store::store::Durability;

const KEYS: u32 = 36_000;
const LAST: u32 = KEYS - 1;

type Held = BTreeMap<u32, u32>;

/// A medium with few conventional pages, so that heads and interior pages are many of them.
fn create(slots: usize) -> Index<ModelDevice> {
    let geometry = Geometry {
        block_bytes: 512,
        conventional_zones: 1,
        sequential_zones: 7,
        zone_blocks: 98,
        capacity_blocks: 98,
        open_zones_max: 4,
        active_zones_max: 6,
        append_blocks_max: 0,
    };
    let device = ModelDevice::new(geometry).unwrap();
    let mut index = Index::create(device, Engine::Zb, Shape::paper(slots, 4, 4), 7).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    index
}

/// Puts keys until one is refused: `factor` apart, so 1 is ascending and [`LAST`] descending.
fn fill(index: &mut Index<ModelDevice>, factor: u32) -> Held {
    let mut held = Held::new();
    for n in 0..KEYS {
        let key = (u64::from(n) * u64::from(factor) % u64::from(KEYS)) as u32;
        match index.put(&key.to_be_bytes(), &7u32.to_be_bytes()) {
            Ok(_) => held.insert(key, 7),
            Err(e) => {
                assert_eq!(e.kind(), Kind::Full, "{e}");
                return held;
            }
        };
    }
    panic!("the medium has room for every key");
}

/// Random puts and deletions, of which the puts of new keys are refused now and then.
fn churn(index: &mut Index<ModelDevice>, held: &mut Held, changes: u32) {
    let mut rng = rng::stream(1, "drained");
    for n in 0..changes {
        let key = rng.random_range(0..KEYS / 12);
        if rng.random_range(0..10) < 8 {
            match index.put(&key.to_be_bytes(), &n.to_be_bytes()) {
                Ok(_) => drop(held.insert(key, n)),
                Err(e) => assert_eq!(e.kind(), Kind::Full, "{e}"),
            }
        } else {
            assert_eq!(index.delete(&key.to_be_bytes()).unwrap(), held.remove(&key).is_some());
        }
    }
}

/// About a third of the keys: every third, the first two of six, three of eight, random ones.
fn third(held: &Held, pattern: u32) -> Vec<u32> {
    let mut rng = rng::stream(5, "pattern");
    let mut is_chosen = |n: usize| match pattern {
        0 => n.is_multiple_of(3),
        1 => n % 6 < 2,
        2 => n % 8 < 3,
        _ => rng.random_range(0..3) == 0,
    };
    held.keys().enumerate().filter(|&(n, _)| is_chosen(n)).map(|(_, &key)| key).collect()
}

fn verify(index: &Index<ModelDevice>, held: &Held) {
    index.check().unwrap();
    let mut found = Held::new();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let each = |key: &[u8], value: &[u8]| found.insert(number(key), number(value)).is_none();
    index.scan(None, None, Direction::Forward, each).unwrap();
    assert!(found == *held, "{} found, {} held", found.len(), held.len());
}

#[test]
fn deletions_bring_back_room_whatever_order_filled_the_device() {
    let cases = [(4, 1_237, 0), (5, 211, 0), (5, 7, 3_000), (6, LAST, 0), (16, LAST, 0)];
    for (slots, factor, changes) in cases {
        for pattern in 0..4 {
            let at = format!("{slots} slots, {factor} apart, {changes} changes, {pattern}");
            let mut index = create(slots);
            let mut held = fill(&mut index, factor);
            churn(&mut index, &mut held, changes);
            let deleted = third(&held, pattern);
            for key in &deleted {
                assert!(index.delete(&key.to_be_bytes()).unwrap(), "{at}");
                held.remove(key);
            }
            for &key in &deleted[..deleted.len() / 4] {
                let pages = index.store_ref().conventional_blocks();
                let put = index.put(&key.to_be_bytes(), &[0; 4]);
                assert!(put.unwrap_or_else(|e| panic!("{at}, {pages:?}: {e}")), "{at}");
                held.insert(key, 0);
            }
            verify(&index, &held);
            index.sync().unwrap();
            verify(&Index::open(index.into_device()).unwrap(), &held);
        }
    }
}

/// Half-full heads take no room from inserts.
#[test]
fn a_device_is_full_when_its_heads_are() {
    for (factor, least) in [(1, 1_700), (1_237, 1_250), (LAST, 1_800)] {
        let mut index = create(8);
        let held = fill(&mut index, factor);
        let at = format!("{factor} apart: {} held", held.len());
        assert!(held.len() > least, "{at}, {:?}", index.store_ref().conventional_blocks());
        verify(&index, &held);
    }
}
