//! Pools of version 2 of the format, as small committed files: this build reads every structure in
//! them, on a restart after a crash too, and formats memory to the same bytes.
//!
//! - `tests/fixtures/v2/NAME.blocks` is a pool's memory, packed (`littoral_testing::fixtures`).
//!   `empty` has just been created; `closed` holds each structure; `killed` is `closed` after two
//!   crashes, with a dead clock, a thread slot in use, and a transaction more.
//! - `LITTORAL_FIXTURES=DIR cargo test -p littoral-stm --test old_pools` writes those of this
//!   version to `DIR`. A new version gets a new folder; the old ones stay.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use littoral_device::memory::Domain;
use littoral_device::pmem::Dram;
use littoral_stm::structures::{
    BTree, BTreeHead, HashHead, HashMap, ListHead, Map, Queue, QueueHead, SearchTree, SortedList,
    TreeHead,
};
use littoral_stm::{Abort, Kind, Options, Pool, Restart, Tx};
use littoral_testing::fixtures::{Fixtures, offer, pack};

const BYTES: usize = 64 << 10;
/// Keys of the B+-tree: more than a leaf holds. The other structures hold an eighth of them.
const KEYS: u64 = 48;

type Step<'a, 'p> = Tx<'a, 'p, Dram>;

fn fixtures() -> Fixtures {
    Fixtures::of(env!("CARGO_MANIFEST_DIR"), "v2")
}

fn options() -> Options {
    Options { threads_max: 3, slab_bytes: Some(1024) }
}

fn memory_of(bytes: &[u8]) -> Dram {
    let domain = Dram::new(bytes.len());
    let (words, []) = bytes.as_chunks() else { panic!("whole words") };
    let words: Vec<u64> = words.iter().map(|w| u64::from_le_bytes(*w)).collect();
    domain.store_words(0, &words);
    domain
}

fn bytes_of(domain: &Dram) -> Vec<u8> {
    (0..domain.len()).step_by(8).flat_map(|at| domain.word(at, Relaxed).to_le_bytes()).collect()
}

fn fill(tx: &mut Step<'_, '_>) -> Result<(), Abort> {
    let (tree, map) = (BTree::create(tx)?, HashMap::create(tx, 2)?);
    let (bst, list, queue) = (SearchTree::create(tx)?, SortedList::create(tx)?, Queue::create(tx)?);
    for i in 0..KEYS {
        let key = i * 29 % KEYS;
        tree.insert(tx, key, key << 32)?;
        if i < KEYS / 8 {
            map.insert(tx, key, key + 1)?;
            bst.insert(tx, key, key + 2)?;
            list.insert(tx, key, key + 3)?;
            queue.push(tx, i)?;
        }
    }
    tx.set_root("tree", tree.at())?;
    tx.set_root("map", map.at())?;
    tx.set_root("bst", bst.at())?;
    tx.set_root("list", list.at())?;
    tx.set_root("queue", queue.at())
}

/// The last transaction of `killed`: a key of each structure is replaced or goes.
fn change(tx: &mut Step<'_, '_>) -> Result<(), Abort> {
    let (tree, map, bst, list, queue) = structures(tx)?;
    tree.insert(tx, 0, 1)?;
    map.remove(tx, 0)?;
    bst.remove(tx, 29)?;
    list.insert(tx, 1000, 1001)?;
    queue.pop(tx)?;
    Ok(())
}

type All = (BTree, HashMap, SearchTree, SortedList, Queue);

fn structures(tx: &mut Step<'_, '_>) -> Result<All, Abort> {
    let tree = tx.root::<BTreeHead>("tree")?.expect("the name `tree`");
    let map = tx.root::<HashHead>("map")?.expect("the name `map`");
    let bst = tx.root::<TreeHead>("bst")?.expect("the name `bst`");
    let list = tx.root::<ListHead>("list")?.expect("the name `list`");
    let queue = tx.root::<QueueHead>("queue")?.expect("the name `queue`");
    let (map, queue) = (HashMap::open(tx, map)?, Queue::open(tx, queue)?);
    Ok((BTree::open(tree), map, SearchTree::open(bst), SortedList::open(list), queue))
}

/// What a pool holds: the maps by name, then the queue from its front.
#[derive(Debug, PartialEq, Eq)]
struct Contents(BTreeMap<&'static str, BTreeMap<u64, u64>>, Vec<u64>);

/// What [`fill`] stores, and after it [`change`] where `is_changed`.
fn contents(is_changed: bool) -> Contents {
    let few = || (0..KEYS / 8).map(|i| i * 29 % KEYS);
    let mut tree: BTreeMap<u64, u64> = (0..KEYS).map(|key| (key, key << 32)).collect();
    let mut map: BTreeMap<u64, u64> = few().map(|key| (key, key + 1)).collect();
    let mut bst: BTreeMap<u64, u64> = few().map(|key| (key, key + 2)).collect();
    let mut list: BTreeMap<u64, u64> = few().map(|key| (key, key + 3)).collect();
    let mut queue: Vec<u64> = (0..KEYS / 8).collect();
    if is_changed {
        tree.insert(0, 1);
        map.remove(&0).expect("a key of the map");
        bst.remove(&29).expect("a key of the search tree");
        list.insert(1000, 1001);
        queue.remove(0);
    }
    Contents([("tree", tree), ("map", map), ("bst", bst), ("list", list)].into(), queue)
}

fn read(pool: &Pool<Dram>) -> Contents {
    let mut th = pool.thread().unwrap();
    // Draining the queue changes the pool: callers read a copy.
    let found = th.atomically(|tx| {
        let (tree, map, bst, list, queue) = structures(tx)?;
        let (mut of_tree, mut of_map, mut of_bst) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        tree.scan(tx, .., |key, value| of_tree.insert(key, value).is_none())?;
        for key in 0..2 * KEYS {
            of_map.extend(map.get(tx, key)?.map(|value| (key, value)));
            of_bst.extend(bst.get(tx, key)?.map(|value| (key, value)));
        }
        let of_list = list.entries(tx)?.into_iter().collect();
        let mut of_queue = Vec::new();
        while let Some(value) = queue.pop(tx)? {
            of_queue.push(value);
        }
        let maps = [("tree", of_tree), ("map", of_map), ("bst", of_bst), ("list", of_list)];
        Ok(Contents(maps.into(), of_queue))
    });
    found.unwrap()
}

fn closed() -> Vec<u8> {
    let pool = Pool::create(Dram::new(BYTES), &options()).unwrap();
    pool.thread().unwrap().atomically(fill).unwrap();
    bytes_of(pool.domain())
}

/// Two crashes with a thread in the middle of its work; the second follows one more transaction.
fn killed() -> Vec<u8> {
    let pool = Pool::open(memory_of(&closed()), Restart::Lazy).unwrap();
    let th = pool.thread().unwrap();
    let first = bytes_of(pool.domain());
    drop(th);
    let pool = Pool::open(memory_of(&first), Restart::Lazy).unwrap();
    let mut th = pool.thread().unwrap();
    th.atomically(change).unwrap();
    bytes_of(pool.domain())
}

#[test]
fn pools_of_version_2_are_read_value_by_value_and_written() {
    for restart in [Restart::Lazy, Restart::Scan] {
        for (name, is_changed) in [("closed.blocks", false), ("killed.blocks", true)] {
            let bytes = fixtures().unpacked(name);
            assert_eq!(bytes.len(), BYTES);
            let pool = Pool::open(memory_of(&bytes), restart).unwrap();
            assert_eq!(pool.check_structures().unwrap().structures_count, 5, "{name}");
            assert_eq!(read(&pool), contents(is_changed), "{name}");
            let pool = Pool::open(memory_of(&bytes), restart).unwrap();
            pool.thread().unwrap().atomically(|tx| tx.clear_root("bst")).unwrap();
            let pool = Pool::open(memory_of(&bytes_of(pool.domain())), restart).unwrap();
            assert_eq!(pool.roots().unwrap().len(), 4, "{name}");
        }
    }
}

/// The two crashes are in the fixture: a restart without them would prove less.
#[test]
fn the_killed_pool_has_a_dead_clock_and_a_slot_in_use() {
    let pool = Pool::open(memory_of(&fixtures().unpacked("killed.blocks")), Restart::Lazy).unwrap();
    let word = |i: usize| pool.domain().word(256 + 8 * i, Relaxed);
    let fixture = memory_of(&fixtures().unpacked("killed.blocks"));
    let before = |i: usize| fixture.word(256 + 8 * i, Relaxed);
    assert_eq!(before(1), u64::from_le_bytes(*b"ACTIVE\x5a\xa5"), "slot 0 was in use");
    assert!(before(4) != 0 && before(5) == 0, "one clock of slot 0 was dead");
    assert_eq!(word(1), 0, "the restart clears the mark");
    assert!(word(4) == before(4) && word(5) != 0, "the restart adds a dead clock");
}

#[test]
fn memory_is_formatted_as_the_page_says_byte_for_byte() {
    let pool = Pool::create(Dram::new(BYTES), &options()).unwrap();
    let empty = bytes_of(pool.domain());
    offer("empty.blocks", &pack(&empty));
    offer("closed.blocks", &pack(&closed()));
    offer("killed.blocks", &pack(&killed()));
    assert!(empty == fixtures().unpacked("empty.blocks"), "the bytes of version 2 changed");
}

#[test]
fn a_pool_of_another_version_is_refused_by_number() {
    for version in [1u32, 3] {
        let mut bytes = fixtures().unpacked("closed.blocks");
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        littoral_base::codec::seal(&mut bytes[..256], 0);
        let e = Pool::open(memory_of(&bytes), Restart::Scan).unwrap_err();
        let wanted = format!("pool format {version}");
        assert!(e.kind() == Kind::Unsupported && e.to_string().contains(&wanted), "{e}");
    }
}
