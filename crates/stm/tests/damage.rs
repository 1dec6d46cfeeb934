//! Damaged pools: structures whose links or keys are wrong.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering::Relaxed;

use littoral_base::codec;
use littoral_device::memory::Domain;
use littoral_device::pmem::Dram;
use littoral_stm::structures::{BTree, HashMap, Map, Queue, SearchTree, SortedList};
use littoral_stm::{Abort, Kind, Options, Pool, Ref, Restart, Thread, Tx, type_name};

/// A pool with each structure in it, sound.
fn furnished() -> Pool<Dram> {
    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let fill = |tx: &mut Tx<'_, '_, Dram>| -> Result<(), Abort> {
        let (tree, map) = (BTree::create(tx)?, HashMap::create(tx, 2)?);
        let (bst, list) = (SearchTree::create(tx)?, SortedList::create(tx)?);
        let queue = Queue::create(tx)?;
        for i in 0..60u64 {
            let key = i * 7919 % 61;
            tree.insert(tx, key, i)?;
            map.insert(tx, key, i)?;
            bst.insert(tx, key, i)?;
            list.insert(tx, key, i)?;
            queue.push(tx, key)?;
        }
        for key in [3, 17, 40, 59] {
            tree.remove(tx, key)?;
            map.remove(tx, key)?;
            bst.remove(tx, key)?;
            list.remove(tx, key)?;
            queue.pop(tx)?;
        }
        Ok(())
    };
    th.atomically(fill).unwrap();
    drop(th);
    pool
}

#[test]
fn sound_structures_are_found_sound_and_counted() {
    let found = furnished().check_structures().unwrap();
    assert_eq!(found.structures_count, 5);
    assert!(found.objects_count > 5 * 10, "{found:?}");
}

/// Changes word `word` of one of the objects of a type; what the check says.
fn damaged(name: &str, word: usize, change: impl Fn(u64) -> u64) -> littoral_stm::Error {
    let pool = furnished();
    let mut found = Vec::new();
    pool.walk(|o| {
        found.extend((type_name(o.tag) == Some(name)).then(|| o.clone()));
        true
    })
    .unwrap();
    let object = &found[found.len() / 2];
    // The newest of the two slots is the one whose payload the walk showed.
    let slot_bytes = if object.words.len() <= 3 {
        32
    } else {
        (8 * (object.words.len() + 1)).next_multiple_of(64)
    };
    let payload = |slot: usize| object.offset as usize + slot * slot_bytes + 8;
    let shown = |slot: usize| {
        (0..object.words.len())
            .all(|i| pool.domain().word(payload(slot) + 8 * i, Relaxed) == object.words[i])
    };
    let slot = (0..2).find(|&slot| shown(slot)).expect("one of them");
    let at = payload(slot) + 8 * word;
    pool.domain().store(at, change(object.words[word]), Relaxed);
    pool.check_structures().expect_err(name)
}

#[test]
fn wrong_order_depth_lengths_and_links_of_structures_are_damage_with_a_place() {
    type Case = (&'static str, usize, fn(u64) -> u64);
    let cases: [Case; 14] = [
        ("littoral.btree.leaf/2", 0, |_| 15),
        ("littoral.btree.leaf/2", 0, |n| n - 1),
        ("littoral.btree.leaf/2", 1, |_| 1 << 40),
        ("littoral.btree.inner/2", 0, |_| u64::MAX),
        ("littoral.btree.inner/2", 15, |_| 64),
        ("littoral.btree.head/1", 1, |h| h + 1),
        ("littoral.btree.head/1", 1, |_| u64::MAX),
        ("littoral.list.node/1", 0, |_| 0),
        ("littoral.list.node/1", 2, |_| 0),
        ("littoral.bst.node/2", 2, |_| 0),
        ("littoral.hash.node/1", 0, |k| k ^ 1 << 50),
        ("littoral.hash.posts/1", 1, |_| 14),
        ("littoral.queue.node/1", 1, |_| 0),
        ("littoral.hash.head/2", 0, |_| u64::MAX),
    ];
    for (name, word, change) in cases {
        let damage = damaged(name, word, change);
        assert_eq!(damage.kind(), Kind::Corrupt, "{name} {word}: {damage}");
        assert!(damage.place().offset.is_some_and(|at| at.is_multiple_of(8)), "{damage}");
    }
}

#[test]
fn a_scan_takes_any_range_reaches_the_last_key_and_names_a_damaged_leaf() {
    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let tree = th.atomically(|tx| BTree::create(tx)).unwrap();
    for key in (0..200).chain([u64::MAX - 1, u64::MAX]) {
        th.atomically(|tx| tree.insert(tx, key, key ^ 1)).unwrap();
    }
    let mut keys = |range: (std::ops::Bound<u64>, std::ops::Bound<u64>)| {
        let mut keys = Vec::new();
        th.read_only(|tx| {
            keys.clear();
            tree.scan(tx, range, |key, _| {
                keys.push(key);
                true
            })
        })
        .unwrap();
        keys
    };
    use std::ops::Bound::{Excluded, Included, Unbounded};
    assert_eq!(keys((Included(50), Excluded(10))), [0u64; 0], "a range that ends before it begins");
    assert_eq!(keys((Excluded(u64::MAX), Unbounded)), [0u64; 0]);
    assert_eq!(keys((Included(10), Excluded(12))), [10, 11]);
    assert_eq!(keys((Excluded(198), Included(u64::MAX))), [199, u64::MAX - 1, u64::MAX]);
    assert_eq!(keys((Included(u64::MAX), Unbounded)), [u64::MAX]);
    assert_eq!(keys((Unbounded, Excluded(0))), [0u64; 0]);
    drop(th);
    let mut leaf = None;
    pool.walk(|o| {
        leaf = (type_name(o.tag) == Some("littoral.btree.leaf/2")).then_some(o.offset as usize);
        leaf.is_none()
    })
    .unwrap();
    let leaf = leaf.expect("a leaf");
    // The length is the first word of payload, in both versions.
    for slot in [0, 256] {
        pool.domain().store(leaf + slot + 8, 1 << 60, Relaxed);
    }
    let mut th = pool.thread().unwrap();
    let scanned = th.read_only(|tx| tree.scan(tx, .., |_, _| true)).unwrap_err();
    assert_eq!(scanned.kind(), Kind::Corrupt);
    let mut kinds = Vec::new();
    for key in 0..200 {
        let put = th.atomically(|tx| tree.insert(tx, key, 0)).map(drop);
        let gone = th.atomically(|tx| tree.remove(tx, key)).map(drop);
        kinds.extend([put, gone].into_iter().filter_map(|r| r.err()).map(|e| e.kind()));
    }
    assert!(!kinds.is_empty() && kinds.iter().all(|&k| k == Kind::Corrupt), "{kinds:?}");
}

/// Objects of a type, by their offsets.
fn places(pool: &Pool<Dram>, name: &str) -> Vec<usize> {
    let mut places = Vec::new();
    pool.walk(|o| {
        places.extend((type_name(o.tag) == Some(name)).then_some(o.offset as usize));
        true
    })
    .unwrap();
    places
}

#[test]
fn a_leaf_with_keys_beyond_its_length_takes_none() {
    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let tree = th.atomically(|tx| BTree::create(tx)).unwrap();
    for key in 0..10 {
        th.atomically(|tx| tree.insert(tx, key, key)).unwrap();
    }
    let leaf = places(&pool, "littoral.btree.leaf/2")[0];
    // The length is the first word of payload, in both versions.
    for slot in [0, 256] {
        pool.domain().store(leaf + slot + 8, 3, Relaxed);
    }
    for key in [5, 100] {
        let refused = th.atomically(|tx| tree.insert(tx, key, 0)).unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt, "{key}: {refused}");
    }
    assert_eq!(th.atomically(|tx| tree.insert(tx, 1, 7)).unwrap(), Some(1));
}

#[test]
fn a_list_that_leads_back_into_itself_has_an_end() {
    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let list = th.atomically(|tx| SortedList::create(tx)).unwrap();
    for key in 0..3 {
        th.atomically(|tx| list.insert(tx, key, key)).unwrap();
    }
    // The link is the third word of payload, in both versions.
    let nodes = places(&pool, "littoral.list.node/1");
    for (&node, slot) in nodes.iter().flat_map(|node| [(node, 0), (node, 32)]) {
        pool.domain().store(node + slot + 24, nodes[0] as u64, Relaxed);
    }
    let refused = th.read_only(|tx| list.entries(tx)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Corrupt, "{refused}");
}

/// Sets word `word` of both versions of an object of `words` words.
fn set(pool: &Pool<Dram>, object: usize, words: usize, word: usize, value: u64) {
    let slot_bytes = if words <= 3 { 32 } else { (8 * (words + 1)).next_multiple_of(64) };
    for slot in [object, object + slot_bytes] {
        pool.domain().store(slot + 8 * (1 + word), value, Relaxed);
    }
}

/// How an operation that cannot succeed ends.
fn refusal<'p, R>(
    th: &mut Thread<'p, Dram>,
    operation: impl FnMut(&mut Tx<'_, 'p, Dram>) -> Result<R, Abort>,
) -> Kind {
    th.atomically(operation).map(drop).expect_err("it leads nowhere").kind()
}

/// How lookup, insertion and removal of a key that is not there end.
fn refusals(th: &mut Thread<'_, Dram>, map: &impl Map, key: u64) -> [Kind; 4] {
    let read = th.read_only(|tx| map.get(tx, key)).map(drop).expect_err("it leads nowhere");
    [
        read.kind(),
        refusal(th, |tx| map.get(tx, key)),
        refusal(th, |tx| map.insert(tx, key, 0)),
        refusal(th, |tx| map.remove(tx, key)),
    ]
}

#[test]
fn no_operation_goes_round_in_links_that_lead_back() {
    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let list = th.atomically(|tx| SortedList::create(tx)).unwrap();
    let bst = th.atomically(|tx| SearchTree::create(tx)).unwrap();
    let map = th.atomically(|tx| HashMap::create(tx, 1)).unwrap();
    for key in [2, 1, 3, 4] {
        th.atomically(|tx| list.insert(tx, key, key)).unwrap();
        th.atomically(|tx| bst.insert(tx, key, key)).unwrap();
        th.atomically(|tx| map.insert(tx, key, key)).unwrap();
    }
    // The third word of each node has its link or links.
    for name in ["littoral.list.node/1", "littoral.hash.node/1", "littoral.bst.node/2"] {
        let nodes = places(&pool, name);
        let to = nodes[0] as u64;
        let both = to >> 5 | to >> 5 << 32;
        let link = if name.contains("bst") { both } else { to };
        nodes.iter().for_each(|&node| set(&pool, node, 3, 2, link));
    }
    assert_eq!(refusals(&mut th, &list, 100), [Kind::Corrupt; 4]);
    assert_eq!(refusals(&mut th, &bst, 100), [Kind::Corrupt; 4]);
    assert_eq!(refusals(&mut th, &map, 100), [Kind::Corrupt; 4]);
    assert_eq!(refusal(&mut th, |tx| bst.remove(tx, 2)), Kind::Corrupt, "no successor");
    assert_eq!(refusal(&mut th, |tx| map.entries(tx)), Kind::Corrupt);
    assert_eq!(refusal(&mut th, |tx| map.clone().destroy(tx)), Kind::Corrupt);
    for ended in [refusal(&mut th, |tx| list.destroy(tx)), refusal(&mut th, |tx| bst.destroy(tx))] {
        assert_eq!(ended, Kind::BadReference, "what was freed is reached again");
    }
    drop(th);
    assert_eq!(pool.check_structures().unwrap_err().kind(), Kind::Corrupt);
}

/// The insertion has cut a leaf in two when it finds no sound node to put the other half into.
#[test]
fn half_an_insertion_into_a_damaged_tree_is_not_committed_though_its_error_is_dropped() {
    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let tree = th.atomically(|tx| BTree::create(tx)).unwrap();
    for key in (0..60).step_by(2) {
        th.atomically(|tx| tree.insert(tx, key, key)).unwrap();
    }
    let inner = places(&pool, "littoral.btree.inner/2")[0];
    set(&pool, inner, 30, 0, 15);
    let done = th.atomically(|tx| {
        drop(tree.insert(tx, 1, 1));
        Ok(())
    });
    assert_eq!(done.unwrap_err().kind(), Kind::Corrupt);
    for key in (0..60).step_by(2) {
        assert_eq!(th.read_only(|tx| tree.get(tx, key)).unwrap(), Some(key));
    }
}

#[test]
fn a_bucket_whose_flag_hides_its_entry_is_damage() {
    let pool = furnished();
    let mut held = None;
    pool.walk(|o| {
        let is_bucket = type_name(o.tag) == Some("littoral.hash.bucket/1");
        if is_bucket && o.words[2] & 1 == 1 && o.words[0] != 0 {
            held = Some(o.clone());
        }
        held.is_none()
    })
    .unwrap();
    let bucket = held.expect("a bucket with an entry");
    set(&pool, bucket.offset as usize, 3, 2, bucket.words[2] & !1);
    let damage = pool.check_structures().unwrap_err();
    assert_eq!((damage.kind(), damage.place().offset), (Kind::Corrupt, Some(bucket.offset)));
}

#[test]
fn posts_and_a_directory_that_lead_back_have_an_end() {
    let pool = furnished();
    let mut th = pool.thread().unwrap();
    let head = places(&pool, "littoral.hash.head/2")[0];
    let map = th.read_only(|tx| HashMap::open(tx, Ref::from_offset(head as u64))).unwrap();
    let bucket = places(&pool, "littoral.hash.bucket/1")[0] as u64;
    for posts in places(&pool, "littoral.hash.posts/1") {
        set(&pool, posts, 15, 2, bucket);
    }
    assert_eq!(refusal(&mut th, |tx| map.entries(tx)), Kind::Corrupt);
    for key in 0..61 {
        // The way of a key through posts is as long as its hash at most.
        let _ = th.read_only(|tx| map.get(tx, key));
    }
    drop(th);
    assert_eq!(pool.check_structures().unwrap_err().kind(), Kind::Corrupt);

    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let at = th.atomically(|tx| Ok(HashMap::create(tx, 61)?.at())).unwrap();
    let directory = places(&pool, "littoral.hash.directory/1");
    for &piece in &directory {
        set(&pool, piece, 61, 60, directory[0] as u64);
    }
    set(&pool, at.offset() as usize, 2, 0, u64::MAX);
    assert_eq!(refusal(&mut th, |tx| HashMap::open(tx, at)), Kind::Corrupt);
}

#[test]
fn a_tree_whose_nodes_lead_back_has_an_end_and_no_key_twice() {
    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let tree = th.atomically(|tx| BTree::create(tx)).unwrap();
    for key in 0..30 {
        th.atomically(|tx| tree.insert(tx, key, key)).unwrap();
    }
    let inner = places(&pool, "littoral.btree.inner/2")[0];
    let leaf = places(&pool, "littoral.btree.leaf/2")[0];
    let lead_to = |to: usize| (15..30).for_each(|child| set(&pool, inner, 30, child, to as u64));
    lead_to(leaf);
    let mut keys = Vec::new();
    let scanned = th.read_only(|tx| {
        keys.clear();
        tree.scan(tx, .., |key, _| {
            keys.push(key);
            true
        })
    });
    assert_eq!(scanned.unwrap_err().kind(), Kind::Corrupt);
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
    lead_to(inner);
    set(&pool, tree.at().offset() as usize, 2, 1, u64::MAX);
    assert_eq!(refusals(&mut th, &tree, 7), [Kind::Corrupt; 4]);
}

#[test]
fn a_hash_map_that_says_a_wrong_length_is_not_opened() {
    const HEAD_SLOT_BYTES: usize = 32;
    for buckets in [0, 1, 61, u64::MAX] {
        let pool = furnished();
        let mut head = None;
        pool.walk(|o| {
            head = head.or((type_name(o.tag) == Some("littoral.hash.head/2")).then_some(o.offset));
            true
        })
        .unwrap();
        let at = head.unwrap();
        for slot in 0..2 {
            pool.domain().store(at as usize + slot * HEAD_SLOT_BYTES + 8, buckets, Relaxed);
        }
        let mut th = pool.thread().unwrap();
        let opened = th.read_only(|tx| HashMap::open(tx, Ref::from_offset(at)).map(drop));
        // One bucket of two is a length that the directory can have.
        match buckets {
            1 => opened.unwrap(),
            _ => assert_eq!(opened.unwrap_err().kind(), Kind::Corrupt, "{buckets} buckets"),
        }
    }
}

/// A closed pool of one named list, as its medium.
fn named() -> Dram {
    let pool = Pool::create(Dram::new(1 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    th.atomically(|tx| {
        let list = SortedList::create(tx)?;
        for key in 0..20 {
            list.insert(tx, key, key)?;
            // A second version of the head, so that both of its slots are in use.
            tx.set_root("list", list.at())?;
        }
        Ok(())
    })
    .unwrap();
    drop(th);
    pool.into_domain()
}

/// The same bytes on a medium of another length.
fn resized(domain: &Dram, bytes: usize) -> Dram {
    let other = Dram::new(bytes);
    for at in (0..bytes.min(domain.len())).step_by(8) {
        other.store(at, domain.word(at, Relaxed), Relaxed);
    }
    other
}

#[test]
fn pools_cut_short_or_grown_are_refused() {
    let domain = named();
    drop(Pool::open(resized(&domain, 1 << 20), Restart::Lazy).unwrap());
    for (bytes, kind) in [(2 << 20, Kind::Corrupt), (1 << 19, Kind::Corrupt), (64, Kind::Foreign)] {
        let e = Pool::open(resized(&domain, bytes), Restart::Lazy).map(drop).unwrap_err();
        assert_eq!(e.kind(), kind, "{bytes} bytes: {e}");
    }
}

/// An entry of the slab table with a checksum of its own that gives a known type another size.
#[test]
fn a_known_type_with_another_length_is_damage() {
    let domain = furnished().into_domain();
    let mut found = None;
    for at in (0..1 << 20).step_by(64) {
        let [tag, words, crc] = [0, 8, 16].map(|word| domain.word(at + word, Relaxed));
        let is_entry = type_name(tag) == Some("littoral.btree.head/1") && words == 2;
        found = found.or((is_entry && crc >> 32 == 1).then_some((at, tag)));
    }
    let (at, tag) = found.expect("the slab of the tree's root record");
    // The slab's number is part of the checksum.
    let sealed = |slab: u64, words: u64| {
        let mut w = codec::Writer::new();
        w.u64(slab).u64(tag).u64(words);
        u64::from(codec::crc(&w.finish())) | 1 << 32
    };
    let slab = (0..256).find(|&slab| sealed(slab, 2) == domain.word(at + 16, Relaxed)).unwrap();
    domain.store_words(at + 8, &[1, sealed(slab, 1)]);
    let pool = Pool::open(domain, Restart::Scan).unwrap();
    let damage = pool.check_structures().unwrap_err();
    assert_eq!(damage.kind(), Kind::Corrupt, "{damage}");
    assert!(damage.to_string().contains("its slab says 1 words"), "{damage}");
}

/// One flipped bit in each word of a root's payload, its checksum among them.
#[test]
fn a_damaged_name_is_refused_and_no_other_object_is_named() {
    let find = |pool: &Pool<Dram>| {
        let mut found = None;
        pool.walk(|o| {
            if type_name(o.tag) == Some("littoral.stm.root/2") {
                found = Some(o.clone());
            }
            true
        })
        .unwrap();
        found.unwrap()
    };
    let words = find(&Pool::open(named(), Restart::Lazy).unwrap()).words.len();
    for word in 0..words {
        let pool = Pool::open(named(), Restart::Lazy).unwrap();
        let root = find(&pool);
        let slot_bytes = (8 * (words + 1)).next_multiple_of(64);
        for slot in 0..2 {
            let at = root.offset as usize + slot * slot_bytes + 8 * (1 + word);
            pool.domain().store(at, pool.domain().word(at, Relaxed) ^ 4, Relaxed);
        }
        let e = pool.roots().unwrap_err();
        assert_eq!((e.kind(), e.place().offset), (Kind::Corrupt, Some(root.offset)), "{word}: {e}");
        let mut th = pool.thread().unwrap();
        let read = th.read_only(|tx| {
            tx.root("list").map(|at: Option<Ref<_>>| at.map(SortedList::open).is_some())
        });
        assert_eq!(read.unwrap_err().kind(), Kind::Corrupt, "word {word}");
    }
}

/// Both versions of an object with one count: which is the newer one cannot be said.
#[test]
fn versions_whose_counts_do_not_follow_are_refused_at_their_offset() {
    let (domain, at) = {
        let pool = furnished();
        let mut th = pool.thread().unwrap();
        let list = th.atomically(|tx| SortedList::create(tx)).unwrap();
        for key in 0..3 {
            th.atomically(|tx| list.insert(tx, key, key)).unwrap();
        }
        drop(th);
        let at = list.at().offset() as usize;
        let slot_bytes = 32;
        let stamp = pool.domain().word(at, Relaxed);
        assert!(stamp != 0 && pool.domain().word(at + slot_bytes, Relaxed) != 0, "two versions");
        pool.domain().store(at + slot_bytes, stamp, Relaxed);
        (pool.into_domain(), at as u64)
    };
    let scanned = Pool::open(domain, Restart::Scan).map(drop).unwrap_err();
    assert_eq!((scanned.kind(), scanned.place().offset), (Kind::Corrupt, Some(at)), "{scanned}");
    assert!(scanned.to_string().contains("do not follow"), "{scanned}");
}
