//! Structures against the standard library's, over seeds of operations, across a restart.

use std::collections::{BTreeMap, VecDeque};

use littoral_device::pmem::Dram;
use littoral_stm::structures::{BTree, HashMap, Map, Queue, SearchTree, SortedList, Structures};
use littoral_stm::{Abort, Access, Kind, Look, Options, Pool, Record, Ref, Restart};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Op {
    Get(u64),
    Insert(u64, u64),
    Remove(u64),
}

fn ops(keys: u64, n: usize) -> impl Strategy<Value = Vec<Op>> {
    let key = 0..keys;
    let op = prop_oneof![
        1 => key.clone().prop_map(Op::Get),
        3 => (key.clone(), any::<u64>()).prop_map(|(k, v)| Op::Insert(k, v)),
        2 => key.prop_map(Op::Remove),
    ];
    proptest::collection::vec(op, 0..n)
}

fn follow<M: Map>(
    th: &mut littoral_stm::Thread<'_, Dram>,
    map: &M,
    oracle: &mut BTreeMap<u64, u64>,
    ops: &[Op],
) {
    for &op in ops {
        let (got, want) = match op {
            Op::Get(k) => (th.read_only(|tx| map.get(tx, k)), oracle.get(&k).copied()),
            Op::Insert(k, v) => (th.atomically(|tx| map.insert(tx, k, v)), oracle.insert(k, v)),
            Op::Remove(k) => (th.atomically(|tx| map.remove(tx, k)), oracle.remove(&k)),
        };
        assert_eq!(got.expect("room enough"), want, "{op:?}");
    }
}

fn pool() -> Pool<Dram> {
    Pool::create(Dram::new(2 << 20), &Options { threads_max: 2, slab_bytes: Some(8 << 10) })
        .expect("room enough")
}

fn alive(pool: &Pool<Dram>) -> u64 {
    pool.info().expect("sound").types.iter().map(|t| t.objects_count).sum()
}

proptest! {
    #![proptest_config(littoral_testing::cases(48))]

    #[test]
    fn maps_agree_with_the_standard_one(ops in ops(90, 700)) {
        let pool = pool();
        let mut th = pool.thread().unwrap();
        let (mut a, mut b, mut c) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let hash = th.atomically(|tx| HashMap::create(tx, 17)).unwrap();
        follow(&mut th, &hash, &mut a, &ops);
        let again = th.read_only(|tx| HashMap::open(tx, hash.at())).unwrap();
        for (&k, &v) in &a {
            prop_assert_eq!(th.read_only(|tx| again.get(tx, k)).unwrap(), Some(v));
        }
        let mut entries = th.read_only(|tx| again.entries(tx)).unwrap();
        entries.sort_unstable();
        prop_assert_eq!(entries, a.into_iter().collect::<Vec<_>>());
        let grown = th.atomically(|tx| HashMap::create(tx, 1)).unwrap();
        follow(&mut th, &grown, &mut BTreeMap::new(), &ops);
        let list = th.atomically(|tx| SortedList::create(tx)).unwrap();
        follow(&mut th, &list, &mut b, &ops);
        let entries = th.read_only(|tx| list.entries(tx)).unwrap();
        prop_assert_eq!(entries, b.into_iter().collect::<Vec<_>>());
        let tree = th.atomically(|tx| SearchTree::create(tx)).unwrap();
        follow(&mut th, &tree, &mut c, &ops);
    }

    #[test]
    fn a_btree_agrees_also_on_scans_and_frees_every_node(ops in ops(400, 1500), from in 0u64..400, n in 0u64..400) {
        let pool = pool();
        let mut th = pool.thread().unwrap();
        let tree = th.atomically(|tx| BTree::create(tx)).unwrap();
        let empty = alive(&pool);
        let mut oracle = BTreeMap::new();
        follow(&mut th, &tree, &mut oracle, &ops);
        let scan = |th: &mut littoral_stm::Thread<'_, Dram>| th.snapshot(|tx| {
            let mut seen = Vec::new();
            tree_scan(&tree, tx, from, n, &mut seen)?;
            Ok(seen)
        }).unwrap();
        let want: Vec<_> = oracle.range(from..from + n).map(|(&k, &v)| (k, v)).collect();
        prop_assert_eq!(scan(&mut th), want);
        let all: Vec<Op> = oracle.keys().map(|&k| Op::Remove(k)).collect();
        follow(&mut th, &tree, &mut oracle, &all);
        prop_assert_eq!(alive(&pool), empty, "nothing leaks");
        follow(&mut th, &tree, &mut oracle, &ops);
    }

    #[test]
    fn a_queue_is_first_in_first_out(pushes in proptest::collection::vec(any::<Option<u64>>(), 0..300)) {
        let pool = pool();
        let mut th = pool.thread().unwrap();
        let queue = th.atomically(|tx| Queue::create(tx)).unwrap();
        let (empty, mut oracle) = (alive(&pool), VecDeque::new());
        for push in pushes {
            match push {
                Some(v) => {
                    th.atomically(|tx| queue.push(tx, v)).unwrap();
                    oracle.push_back(v);
                }
                None => prop_assert_eq!(th.atomically(|tx| queue.pop(tx)).unwrap(), oracle.pop_front()),
            }
        }
        prop_assert_eq!(alive(&pool), empty + oracle.len() as u64);
        drop(th);
        let pool = Pool::open(pool.into_domain(), Restart::Lazy).unwrap();
        let mut th = pool.thread().unwrap();
        let queue = th.read_only(|tx| Queue::open(tx, queue.at())).unwrap();
        while let Some(want) = oracle.pop_front() {
            prop_assert_eq!(th.atomically(|tx| queue.pop(tx)).unwrap(), Some(want));
        }
        prop_assert_eq!(th.atomically(|tx| queue.pop(tx)).unwrap(), None);
    }
}

fn tree_scan(
    tree: &BTree,
    tx: &mut littoral_stm::Tx<'_, '_, Dram>,
    from: u64,
    n: u64,
    seen: &mut Vec<(u64, u64)>,
) -> Result<(), littoral_stm::Abort> {
    tree.scan(tx, from..from + n, |k, v| {
        seen.push((k, v));
        true
    })
}

#[test]
fn a_btree_of_many_keys_keeps_its_order_through_splits_at_every_level() {
    let pool = Pool::create(Dram::new(16 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let tree = th.atomically(|tx| BTree::create(tx)).unwrap();
    let n = 20_000u64;
    for i in 0..n {
        let key = littoral_base::rng::mix(i) % n;
        th.atomically(|tx| tree.insert(tx, key, key + 1)).unwrap();
    }
    let want: std::collections::BTreeSet<u64> =
        (0..n).map(|i| littoral_base::rng::mix(i) % n).collect();
    let mut seen = Vec::new();
    th.read_only(|tx| {
        seen.clear();
        tree_scan(&tree, tx, 0, n, &mut seen)
    })
    .unwrap();
    assert!(seen.iter().map(|e| e.0).eq(want.iter().copied()));
    assert!(seen.iter().all(|&(k, v)| v == k + 1));
    for key in want {
        assert_eq!(th.atomically(|tx| tree.remove(tx, key)).unwrap(), Some(key + 1));
    }
}

#[test]
fn structures_that_are_destroyed_leave_nothing() {
    let pool = pool();
    let mut th = pool.thread().unwrap();
    let empty = alive(&pool);
    let made = th.atomically(|tx| {
        let (hash, tree) = (HashMap::create(tx, 3)?, BTree::create(tx)?);
        let (bst, list) = (SearchTree::create(tx)?, SortedList::create(tx)?);
        let queue = Queue::create(tx)?;
        for i in 0..200u64 {
            let key = i * 7919 % 1009;
            hash.insert(tx, key, i)?;
            tree.insert(tx, key, i)?;
            bst.insert(tx, key, i)?;
            list.insert(tx, key, i)?;
            queue.push(tx, i)?;
        }
        tx.set_root("hash", hash.at())?;
        tx.set_root("tree", tree.at())?;
        Ok((hash, tree, bst, list, queue))
    });
    let (hash, tree, bst, list, queue) = made.unwrap();
    assert_eq!(pool.check_structures().unwrap().structures_count, 5);
    assert!(alive(&pool) > empty + 600, "{} objects", alive(&pool));
    th.atomically(|tx| {
        hash.clone().destroy(tx)?;
        tree.destroy(tx)?;
        bst.destroy(tx)?;
        list.destroy(tx)?;
        queue.destroy(tx)
    })
    .unwrap();
    assert_eq!((alive(&pool), pool.roots().unwrap().len()), (empty, 0));
    assert_eq!(pool.check_structures().unwrap(), Structures::default());
    assert_eq!(th.read_only(|tx| tree.get(tx, 0)).unwrap_err().kind(), Kind::BadReference);
}

/// A transaction that counts the records it reads and writes.
struct Counting<'a, A> {
    tx: &'a mut A,
    touched: u64,
}

impl<A: Access> Access for Counting<'_, A> {
    fn read<T: Record>(&mut self, at: Ref<T>) -> Result<T, Abort> {
        self.touched += 1;
        self.tx.read(at)
    }
    fn look<T: Record, L: Look>(&mut self, at: Ref<T>, look: L) -> Result<L::Out, Abort> {
        self.touched += 1;
        self.tx.look(at, look)
    }
    fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> Result<(), Abort> {
        self.touched += 1;
        self.tx.write(at, value)
    }
    fn alloc<T: Record>(&mut self, value: &T) -> Result<Ref<T>, Abort> {
        self.touched += 1;
        self.tx.alloc(value)
    }
    fn free<T: Record>(&mut self, at: Ref<T>) -> Result<(), Abort> {
        self.touched += 1;
        self.tx.free(at)
    }
}

#[test]
fn a_hash_map_grows_by_bounded_steps_and_keeps_lookups_short() {
    const KEYS: u64 = 4_000;
    let pool = Pool::create(Dram::new(16 << 20), &Options::default()).unwrap();
    let mut th = pool.thread().unwrap();
    let map = th.atomically(|tx| HashMap::create(tx, 2)).unwrap();
    let (mut most, mut sum) = (0, 0);
    for key in 0..KEYS {
        let touched = th.atomically(|tx| {
            let mut tx = Counting { tx, touched: 0 };
            map.insert(&mut tx, key, key ^ 7)?;
            Ok(tx.touched)
        });
        most = most.max(touched.unwrap());
    }
    // Twice the way down and a chain's move; 4000 keys are 2 buckets split eleven times.
    assert!(most < 80, "{most} records touched by one insertion");
    let again = th.read_only(|tx| HashMap::open(tx, map.at())).unwrap();
    for key in 0..KEYS {
        let (value, touched) = th
            .read_only(|tx| {
                let mut tx = Counting { tx, touched: 0 };
                Ok((again.get(&mut tx, key)?, tx.touched))
            })
            .unwrap();
        assert_eq!(value, Some(key ^ 7));
        sum += touched;
    }
    assert!(sum / KEYS < 20, "{} records a lookup; a chain would be 1000", sum / KEYS);
    let mut entries = th.read_only(|tx| again.entries(tx)).unwrap();
    entries.sort_unstable();
    assert!(entries.into_iter().eq((0..KEYS).map(|key| (key, key ^ 7))), "each entry once");
    for key in 0..KEYS {
        assert_eq!(th.atomically(|tx| map.remove(tx, key)).unwrap(), Some(key ^ 7));
        assert_eq!(th.read_only(|tx| map.get(tx, key)).unwrap(), None);
    }
}
