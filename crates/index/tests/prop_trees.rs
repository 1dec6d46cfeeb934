//! Both trees against the standard library's map: every answer, every scan, every invariant, at
//! orders small enough that splits, merges, logs, Syncs and several pairs of levels happen all the
//! time.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::collections::BTreeMap;

use littoral_index::Kind;
use littoral_index::cow::{Cow, SplitCost};
use littoral_index::layout::Shape;
use littoral_index::zb::{Allowance, Direction, Rule, Zb};
use littoral_store::counted::{CountedConfig, CountedPages, Placement};
use littoral_store::pages::Pages;
use proptest::prelude::*;

fn pages(conventional_blocks: u64) -> CountedPages {
    CountedPages::new(CountedConfig {
        page_bytes: 4096,
        conventional_blocks,
        sequential_zones: 3,
        zone_blocks: 1 << 20,
        placement: Placement::Dynamic,
        timing: None,
        worn_resets: vec![],
    })
}

#[derive(Clone, Debug)]
enum Op {
    Upsert(u16, u8),
    Delete(u16),
    Get(u16),
    Scan(Option<u16>, Option<u16>, bool),
    Drain(u16, u16),
    Dense(u16),
}

fn ops(keys: u16) -> impl Strategy<Value = Vec<Op>> {
    let key = 0..keys;
    let op = prop_oneof![
        8 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Op::Upsert(k, v)),
        5 => key.clone().prop_map(Op::Delete),
        2 => key.clone().prop_map(Op::Get),
        1 => (proptest::option::of(key.clone()), proptest::option::of(key.clone()), any::<bool>())
            .prop_map(|(a, b, f)| Op::Scan(a, b, f)),
        1 => (key.clone(), 1..60u16).prop_map(|(k, n)| Op::Drain(k, n)),
        1 => key.prop_map(Op::Dense),
    ];
    proptest::collection::vec(op, 1..500)
}

type Oracle = BTreeMap<[u8; 2], [u8; 1]>;

/// The face that both trees show to the test.
trait Tree {
    fn upsert(&mut self, k: &[u8], v: &[u8]) -> bool;
    fn delete(&mut self, k: &[u8]) -> bool;
    fn get(&self, k: &[u8]) -> Option<Vec<u8>>;
    fn scan(&self, from: Option<&[u8]>, to: Option<&[u8]>, d: Direction)
    -> Vec<(Vec<u8>, Vec<u8>)>;
    /// What the tree does for room around a key, if anything.
    fn make_room(&mut self, k: &[u8]);
    /// Checks the invariants and that no page leaks.
    fn verify(&self);
}

macro_rules! tree {
    ($t:ty, $make_room:expr, $verify:expr) => {
        impl Tree for $t {
            fn upsert(&mut self, k: &[u8], v: &[u8]) -> bool {
                <$t>::upsert(self, k, v).unwrap()
            }
            fn delete(&mut self, k: &[u8]) -> bool {
                <$t>::delete(self, k).unwrap()
            }
            fn get(&self, k: &[u8]) -> Option<Vec<u8>> {
                <$t>::get(self, k).unwrap()
            }
            fn scan(
                &self,
                from: Option<&[u8]>,
                to: Option<&[u8]>,
                d: Direction,
            ) -> Vec<(Vec<u8>, Vec<u8>)> {
                let mut found = vec![];
                <$t>::scan(self, from, to, d, |k, v| {
                    found.push((k.to_vec(), v.to_vec()));
                    true
                })
                .unwrap();
                found
            }
            fn make_room(&mut self, k: &[u8]) {
                let make_room: fn(&mut $t, &[u8]) = $make_room;
                make_room(self, k);
            }
            fn verify(&self) {
                let verify: fn(&$t) = $verify;
                verify(self);
            }
        }
    };
}

/// Seals leaves by every rule, then makes the layers above denser, as before an insert is refused.
fn make_dense(tree: &mut Zb<CountedPages>, k: &[u8]) {
    let allowed = Allowance { appends: 4, growth: 2 };
    for rule in [Rule::Logged, Rule::Filled, Rule::Every, Rule::Packed, Rule::Dense] {
        tree.seal_under_pressure(k, rule, allowed).unwrap();
    }
    for level in 1..=3 {
        while tree.make_dense(k, level).unwrap().is_changed {
            tree.verify();
        }
    }
}

tree!(Zb<CountedPages>, make_dense, |t| {
    let census = t.check().unwrap();
    assert_eq!(census.pages.len() as u64, t.pages().live_pages(), "no page leaks");
    assert_eq!(census.pages, t.reachable().unwrap());
});
tree!(Cow<CountedPages>, |_, _| (), |t| {
    assert_eq!(t.check().unwrap().len() as u64, t.pages().live_pages(), "no page leaks");
});

fn run(tree: &mut impl Tree, ops: &[Op]) {
    let mut oracle = Oracle::new();
    for (n, op) in ops.iter().enumerate() {
        match *op {
            Op::Upsert(k, v) => {
                let k = k.to_be_bytes();
                assert_eq!(tree.upsert(&k, &[v]), oracle.insert(k, [v]).is_none(), "{n}: {op:?}");
            }
            Op::Delete(k) => {
                let k = k.to_be_bytes();
                assert_eq!(tree.delete(&k), oracle.remove(&k).is_some(), "{n}: {op:?}");
            }
            Op::Get(k) => {
                let k = k.to_be_bytes();
                assert_eq!(tree.get(&k), oracle.get(&k).map(|v| v.to_vec()), "{n}: {op:?}");
            }
            Op::Drain(from, len) => {
                for k in from..from.saturating_add(len) {
                    let k = k.to_be_bytes();
                    assert_eq!(tree.delete(&k), oracle.remove(&k).is_some(), "{n}: {op:?}");
                }
            }
            Op::Dense(k) => tree.make_room(&k.to_be_bytes()),
            Op::Scan(a, b, forward) => {
                let (a, b) = (a.map(u16::to_be_bytes), b.map(u16::to_be_bytes));
                let direction = if forward { Direction::Forward } else { Direction::Backward };
                let got =
                    tree.scan(a.as_ref().map(|k| &k[..]), b.as_ref().map(|k| &k[..]), direction);
                let inside = |k: &[u8; 2]| a.is_none_or(|a| *k >= a) && b.is_none_or(|b| *k < b);
                let mut want: Vec<_> = oracle
                    .iter()
                    .filter(|(k, _)| inside(k))
                    .map(|(k, v)| (k.to_vec(), v.to_vec()))
                    .collect();
                if !forward {
                    want.reverse();
                }
                assert_eq!(got, want, "{n}: {op:?}");
            }
        }
        if n % 16 == 0 {
            tree.verify();
        }
    }
    tree.verify();
    let all: Vec<_> = oracle.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
    assert_eq!(tree.scan(None, None, Direction::Forward), all);
}

proptest! {
    #![proptest_config(littoral_testing::standard())]
    #[test]
    fn zb_is_a_map(ops in ops(400), n in 4usize..8) {
        run(&mut Zb::create(pages(1 << 16), Shape::paper(n, 2, 1)).unwrap(), &ops);
    }

    #[test]
    fn cow_is_a_map(ops in ops(400), n in 4usize..8, whole: bool) {
        let split = if whole { SplitCost::WholePath } else { SplitCost::OneWrite };
        run(&mut Cow::create(pages(0), Shape::paper(n, 2, 1), split).unwrap(), &ops);
    }

    #[test]
    fn zb_of_few_keys_lives_in_its_logs(ops in ops(12), n in 4usize..8) {
        run(&mut Zb::create(pages(1 << 16), Shape::paper(n, 2, 1)).unwrap(), &ops);
    }

    #[test]
    fn a_bulk_loaded_tree_is_a_map_and_goes_on(keys in proptest::collection::btree_set(0u16..2000, 0..600), ops in ops(2000)) {
        let mut tree = Zb::create(pages(1 << 16), Shape::paper(5, 2, 1)).unwrap();
        let records: Vec<_> = keys.iter().map(|k| (k.to_be_bytes(), [1u8])).collect();
        let loaded = tree.bulk_load(records.iter().map(|(k, v)| (&k[..], &v[..]))).unwrap();
        prop_assert_eq!(loaded, keys.len() as u64);
        tree.verify();
        for k in &keys {
            prop_assert!(tree.delete(&k.to_be_bytes()).unwrap());
        }
        tree.verify();
        run(&mut tree, &ops);
    }

    #[test]
    fn trees_follow_pages_that_the_collector_moves(ops in ops(300), pick in any::<proptest::sample::Index>()) {
        let shape = Shape::paper(4, 2, 1);
        let mut zb = Zb::create(pages(1 << 16), shape).unwrap();
        run(&mut zb, &ops);
        let bodies: Vec<_> = zb.reachable().unwrap().into_iter().filter(|&p| !zb.pages().is_conventional(p)).collect();
        if !bodies.is_empty() {
            let old = bodies[pick.index(bodies.len())];
            let image = zb.pages().peek(old).unwrap().to_vec();
            let new = zb.pages_mut().append(littoral_store::pages::Heat::Hot, &image).unwrap();
            zb.moved(old, new).unwrap();
            zb.verify();
        }
    }
}

#[test]
fn wrong_sizes_and_media_are_refused_by_name() {
    let shape = Shape::paper(8, 4, 4);
    let mut tree = Zb::create(pages(64), shape).unwrap();
    assert_eq!(tree.upsert(b"toolong", b"1234").unwrap_err().kind(), Kind::Usage);
    assert_eq!(tree.upsert(b"1234", b"x").unwrap_err().kind(), Kind::Usage);
    assert_eq!(tree.get(b"").unwrap_err().kind(), Kind::Usage);
    let e = Zb::create(pages(0), shape).unwrap_err();
    assert!(e.kind() == Kind::Unsupported && e.to_string().contains("conventional"), "{e}");
}

#[test]
fn costs_are_the_papers() {
    let mut tree = Zb::create(pages(1 << 16), Shape::paper(4, 2, 1)).unwrap();
    let (mut least, mut most) = (u64::MAX, 0);
    for k in 0..60u16 {
        let before = tree.pages().counts();
        tree.upsert(&k.to_be_bytes(), &[1]).unwrap();
        let writes = tree.pages().counts().since(&before).writes_count();
        (least, most) = (least.min(writes), most.max(writes));
    }
    assert_eq!(tree.layers(), 4);
    assert!(least == 1 && most <= 8, "1 write without a split, {most} at most");
    let before = tree.pages().counts();
    tree.get(&7u16.to_be_bytes()).unwrap();
    assert!((4..=6).contains(&tree.pages().counts().since(&before).reads_count));
}

/// With removals in random order nearly every head that falls below half has a sibling, so the
/// strict merges leave few behind.
#[test]
fn few_heads_stay_below_half() {
    let mut tree = Zb::create(pages(1 << 16), Shape::paper(8, 2, 1)).unwrap();
    let scattered = |i: u16| i.wrapping_mul(40_503).to_be_bytes();
    for i in 0..20_000 {
        tree.upsert(&scattered(i), &[1]).unwrap();
    }
    for i in 0..14_000 {
        assert!(tree.delete(&scattered(i)).unwrap());
    }
    let census = tree.check().unwrap();
    assert!(census.heads > 100 && census.heads_underfull * 20 < census.heads, "{census:?}");
}
