//! Inner pages that can no longer be read while a store is open: what they lead to stays where it
//! is, and the rest is served, collected and sealed.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use littoral_base::units::Lba;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::{self, PageKind, Shape};
use littoral_store::MEMORY_BYTES;
use littoral_store::gc::{self, Relocate as _};
use littoral_store::pages::Pages as _;
use littoral_store::store::Durability;

use common::{GEOMETRY, key};

const ON: Geometry = Geometry { sequential_zones: 12, ..GEOMETRY };

type Keys = Vec<[u8; 8]>;

/// Keys that are not changed, the lowest ones, and keys that are.
fn keys() -> (Keys, Keys) {
    ((0..1000u64).map(u64::to_be_bytes).collect(), (1..=1500).map(key).collect())
}

/// A store of these keys, opened anew. The copy-on-write tree has written each part in one run.
fn filled(engine: Engine, parts: [&Keys; 2]) -> Index<ModelDevice> {
    let device = ModelDevice::new(ON).unwrap();
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let mut index = Index::create(device, engine, shape, 7).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    for part in parts {
        part.iter().for_each(|k| assert!(index.put(k, k).unwrap()));
        index.sync().unwrap();
    }
    let mut index = Index::open(index.into_device()).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    index
}

/// Makes the first page of this kind and level unreadable that leads to some of the first keys and
/// to none of the others, and drops what is in memory.
fn lose(index: &mut Index<ModelDevice>, (kind, level): (PageKind, u8), parts: [&Keys; 2]) {
    for at in 0..ON.blocks() {
        let is_one = |page: &[u8]| layout::kind(page) == Some(kind) && layout::level(page) == level;
        if !index.store_ref().peek(Lba(at)).is_ok_and(|page| is_one(&page)) {
            continue;
        }
        index.store_mut().set_memory(MEMORY_BYTES);
        index.store_mut().device_mut().fail_reads([at]);
        let [missed, others] =
            parts.map(|keys| keys.iter().filter(|&k| index.get(k).is_err()).count());
        if missed > 0 && others == 0 {
            return;
        }
        index.store_mut().device_mut().fail_reads([]);
    }
    panic!("no such page");
}

/// The store once its pages can be read again.
fn healed(mut index: Index<ModelDevice>) -> Index<ModelDevice> {
    index.sync().unwrap();
    let mut device = index.into_device();
    device.fail_reads([]);
    let index = Index::open(device).unwrap();
    index.check().unwrap();
    index
}

/// Every collection of the copy-on-write tree reads all inner pages.
#[test]
fn zones_that_need_no_unreadable_inner_page_are_emptied() {
    let (cold, hot) = keys();
    let mut index = filled(Engine::Cow, [&cold, &hot]);
    lose(&mut index, (PageKind::Interior, 1), [&cold, &hot]);
    let at = |n: u64| (n * 7919) as usize % hot.len();
    for n in 0..20_000u64 {
        let put = index.put(&hot[at(n)], &n.to_be_bytes());
        put.unwrap_or_else(|e| panic!("{n}: {e}, {:?}", index.store_ref().counts()));
        if n % 40 == 0 {
            index.sync().unwrap();
        }
    }
    let counts = index.store_ref().counts();
    assert!(counts.gc_resets > 20, "{counts:?}");
    assert!(cold.iter().any(|k| index.get(k).is_err()), "the page is lost still");
    let index = healed(index);
    cold.iter().for_each(|k| assert_eq!(index.get(k).unwrap(), Some(k.to_vec())));
    let last = 20_000 - hot.len() as u64;
    for n in last..20_000 {
        assert_eq!(index.get(&hot[at(n)]).unwrap(), Some(n.to_be_bytes().to_vec()), "{n}");
    }
}

/// What the tree says of a page before it is asked to move it.
#[test]
fn bodies_under_an_unreadable_head_are_those_that_cannot_be_moved() {
    let (cold, hot) = keys();
    let mut index = filled(Engine::Zb, [&cold, &hot]);
    lose(&mut index, (PageKind::Head, 0), [&cold, &hot]);
    let live = index.store_ref().live_sequential();
    let immovable = index.immovable(&live).unwrap();
    assert!(!immovable.is_empty() && immovable.len() < live.len(), "{}", immovable.len());
    for &at in &immovable {
        gc::move_page(&mut index, at).unwrap_err();
        index.store_mut().abort();
    }
    for &at in live.difference(&immovable).take(40) {
        gc::move_page(&mut index, at).unwrap();
    }
    let index = healed(index);
    cold.iter().chain(&hot).for_each(|k| assert_eq!(index.get(k).unwrap(), Some(k.to_vec())));
}

/// Inserts into a full conventional class seal leaves head by head.
#[test]
fn leaves_under_other_heads_than_an_unreadable_one_are_sealed() {
    let (cold, hot) = keys();
    let mut index = filled(Engine::Zb, [&cold, &hot]);
    lose(&mut index, (PageKind::Head, 0), [&cold, &hot]);
    let more: Keys = (2000..3500).map(key).collect();
    for (n, k) in more.iter().enumerate() {
        let put = index.put(k, k);
        assert!(put.unwrap_or_else(|e| panic!("{n}: {e}")), "{n} is new");
    }
    let index = healed(index);
    for k in cold.iter().chain(&hot).chain(&more) {
        assert_eq!(index.get(k).unwrap(), Some(k.to_vec()));
    }
}

/// Inserts leave the collector what it needs among the zones that it can empty.
#[test]
fn deletions_go_on_where_inserts_have_filled_the_other_zones() {
    let (cold, hot) = keys();
    let mut index = filled(Engine::Cow, [&cold, &hot]);
    lose(&mut index, (PageKind::Interior, 1), [&cold, &hot]);
    let mut more = Keys::new();
    let refused = loop {
        let k = key(2000 + more.len() as u64);
        match index.put(&k, &k) {
            Ok(is_new) => assert!(is_new),
            Err(e) => break e,
        }
        more.push(k);
        if more.len().is_multiple_of(40) {
            index.sync().unwrap();
        }
    };
    assert_eq!(refused.kind(), Kind::Full, "{refused}");
    for (n, k) in more.iter().enumerate() {
        let deleted = index.delete(k);
        assert!(deleted.unwrap_or_else(|e| panic!("{n} of {}: {e}", more.len())));
    }
    let index = healed(index);
    cold.iter().chain(&hot).for_each(|k| assert_eq!(index.get(k).unwrap(), Some(k.to_vec())));
}
