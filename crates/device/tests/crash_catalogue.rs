//! The catalogue under torn writes, failures and damage: the state before or after a change, never
//! another; and against an ordinary map as the oracle.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use littoral_base::fault::Plan;
use littoral_device::Kind;
use littoral_device::catalogue::{BLOCK_BYTES, Catalogue, Entry, FileStore, MemoryStore, Place};
use proptest::prelude::*;

fn entry(i: u32) -> Entry {
    let place = match i % 3 {
        0 => Place::Extent { start: u64::from(i) << 20, bytes: 1 << 20 },
        1 => Place::Zones { first: i * 4, count: 4 },
        _ => Place::File(format!("file-{i}")),
    };
    let mut entry = Entry::new(&format!("name-{i}"), "index", i, place);
    entry.open_zones_max = i % 7;
    entry
}

/// Makes a catalogue of `count` entries.
fn filled(count: u32) -> MemoryStore {
    let mut c = Catalogue::create(MemoryStore::new()).unwrap();
    (0..count).for_each(|i| c.insert(entry(i)).unwrap());
    c.into_store()
}

#[test]
fn a_torn_write_of_either_block_keeps_the_older_state_or_makes_the_newer() {
    for count in [0, 1, 2, 3, 60] {
        for seed in 0..64 {
            let plan: Plan = format!("seed={seed} @0=torn").parse().unwrap();
            let store = filled(count).with_plan(plan).unwrap();
            let mut c = Catalogue::open(store).unwrap();
            let before = c.entries().to_vec();
            let e = c.insert(entry(count)).unwrap_err();
            assert_eq!(e.kind(), Kind::PowerCut);
            assert!(c.is_poisoned());
            assert_eq!(c.insert(entry(count)).unwrap_err().kind(), Kind::Poisoned);
            assert_eq!(c.entries(), before);
            let again = Catalogue::open(c.into_store().with_plan(Plan::none()).unwrap()).unwrap();
            let mut after = before.clone();
            after.push(entry(count));
            let found = again.entries();
            assert!(found == before || found == after, "{count} {seed}");
        }
    }
}

#[test]
fn every_prefix_of_a_written_block_keeps_the_older_state() {
    let old = filled(5);
    let mut new = Catalogue::open(old.clone()).unwrap();
    new.insert(entry(5)).unwrap();
    let which = (new.sequence() % 2) as usize;
    let mut new = new.into_store();
    for cut in (0..BLOCK_BYTES).step_by(509) {
        let mut torn = old.clone();
        let fresh = new.block_mut(which)[..cut].to_vec();
        torn.block_mut(which)[..cut].copy_from_slice(&fresh);
        let c = Catalogue::open(torn).unwrap();
        assert!(c.entries().len() == 5, "cut at {cut}");
    }
}

#[test]
fn a_change_after_a_torn_write_does_not_lose_the_older_state_either() {
    let plan: Plan = "seed=4 @0=torn".parse().unwrap();
    let mut c = Catalogue::open(filled(6).with_plan(plan).unwrap()).unwrap();
    c.remove("name-0").unwrap_err();
    let plan: Plan = "seed=9 @0=torn".parse().unwrap();
    let mut c = Catalogue::open(c.into_store().with_plan(plan).unwrap()).unwrap();
    assert_eq!(c.entries().len(), 6);
    c.remove("name-1").unwrap_err();
    let c = Catalogue::open(c.into_store()).unwrap();
    assert_eq!(c.entries().len(), 6, "the second tear hit the same block as the first");
}

#[test]
fn damage_is_named_and_never_a_panic() {
    for bit in (0..BLOCK_BYTES * 8).step_by(997) {
        let mut store = filled(3);
        for which in 0..2 {
            store.block_mut(which)[bit / 8] ^= 1 << (bit % 8);
        }
        let e = Catalogue::open(store).unwrap_err();
        assert!(matches!(e.kind(), Kind::Corrupt | Kind::Foreign), "{e}");
    }
    let mut swapped = filled(3);
    let first = swapped.block_mut(0).to_vec();
    let second = swapped.block_mut(1).to_vec();
    swapped.block_mut(0).copy_from_slice(&second);
    swapped.block_mut(1).copy_from_slice(&first);
    assert_eq!(Catalogue::open(swapped).unwrap_err().kind(), Kind::Corrupt);
    let e = Catalogue::open(MemoryStore::new()).unwrap_err();
    assert_eq!(e.kind(), Kind::Foreign);
    let mut foreign = MemoryStore::new();
    foreign.block_mut(1)[9] = 1;
    assert_eq!(Catalogue::create(foreign).unwrap_err().kind(), Kind::Foreign);
}

#[test]
fn bad_entries_are_refused_and_change_nothing() {
    let mut c = Catalogue::open(filled(4)).unwrap();
    let sequence = c.sequence();
    for name in ["", "a/b", ".hidden", "n\u{e4}me", &"x".repeat(101)] {
        let e = c.insert(Entry::new(name, "index", 1, Place::File("f".into()))).unwrap_err();
        assert_eq!(e.kind(), Kind::IllegalRequest, "{name}");
    }
    let overlap = Place::Extent { start: 4096, bytes: 1 };
    let e = c.insert(Entry::new("other", "index", 1, overlap)).unwrap_err();
    assert!(e.to_string().contains("`name-0`"), "{e}");
    assert!(c.insert(entry(2)).is_err() && c.remove("absent").is_err());
    assert_eq!(c.sequence(), sequence);
    let e = (0..).find_map(|i| {
        let mut e = entry(3 * i + 302);
        e.name = format!("{}{i}", "x".repeat(90));
        c.insert(e).err()
    });
    assert_eq!(e.unwrap().kind(), Kind::Exhausted);
    assert!(!c.is_poisoned(), "a full block is no failed write");
}

#[test]
fn a_file_has_one_owner_and_survives_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalogue");
    let mut c = Catalogue::open_or_create(FileStore::open(&path, 4096).unwrap()).unwrap();
    c.insert(entry(1)).unwrap();
    assert_eq!(FileStore::open(&path, 4096).unwrap_err().kind(), Kind::Busy);
    drop(c);
    let c = Catalogue::open_or_create(FileStore::open(&path, 4096).unwrap()).unwrap();
    assert_eq!(c.entries(), [entry(1)]);
    drop(c);
    // A file cut short in its newer block opens at the older one.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(4096 + BLOCK_BYTES as u64 / 2).unwrap();
    let e = Catalogue::open(FileStore::open(&path, 4096).unwrap()).map(|_| ());
    assert_eq!(e.unwrap_err().kind(), Kind::Corrupt, "neither block is whole");
}

#[derive(Clone, Debug)]
enum Change {
    Extent(u8, u64),
    Zones(u8, u32),
    Remove(u8),
    Reopen,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        (0u8..12, 1u64..300).prop_map(|(n, b)| Change::Extent(n, b)),
        (0u8..12, 1u32..9).prop_map(|(n, c)| Change::Zones(n, c)),
        (0u8..12).prop_map(Change::Remove),
        Just(Change::Reopen),
    ];
    proptest::collection::vec(change, 1..60)
}

proptest! {
    #![proptest_config(littoral_testing::cases(64))]

    #[test]
    fn a_catalogue_is_a_map_whose_places_never_overlap(changes in changes()) {
        let mut c = Catalogue::create(MemoryStore::new()).unwrap();
        let mut oracle: BTreeMap<String, Entry> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Remove(n) => {
                    let name = format!("n{n}");
                    prop_assert_eq!(c.remove(&name).ok(), oracle.remove(&name));
                }
                Change::Reopen => c = Catalogue::open(c.into_store()).unwrap(),
                Change::Extent(n, bytes) => {
                    if let Ok(place) = c.free_extent(bytes, 16, 2_000) {
                        add(&mut c, &mut oracle, n, place);
                    }
                }
                Change::Zones(n, count) => {
                    if let Ok(place) = c.free_zones(count, 30) {
                        add(&mut c, &mut oracle, n, place);
                    }
                }
            }
            let mut found = c.entries().to_vec();
            found.sort_by(|a, b| a.name.cmp(&b.name));
            prop_assert_eq!(found, oracle.values().cloned().collect::<Vec<_>>());
        }
        let mut extents: Vec<_> = c.entries().iter().filter_map(|e| match e.place {
            Place::Extent { start, bytes } => Some((start, start + bytes)),
            _ => None,
        }).collect();
        extents.sort_unstable();
        prop_assert!(extents.windows(2).all(|w| w[0].1 <= w[1].0), "{:?}", extents);
        prop_assert!(extents.iter().all(|e| e.1 <= 2_000));
    }
}

fn add(c: &mut Catalogue<MemoryStore>, oracle: &mut BTreeMap<String, Entry>, n: u8, place: Place) {
    let e = Entry::new(&format!("n{n}"), "graph", 1, place);
    let taken = oracle.contains_key(&e.name);
    assert_eq!(c.insert(e.clone()).is_err(), taken);
    oracle.entry(e.name.clone()).or_insert(e);
}
