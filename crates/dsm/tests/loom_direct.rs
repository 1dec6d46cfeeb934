//! The queue and both barriers of shared memory under loom: in every schedule sections exclude each
//! other and see what the section before wrote, and a barrier shows what was written before it.
//!
//! The locks are those of the library. The words of the windows are loom's atomics, accessed in the
//! orders that the fabric of shared memory uses ([`littoral_fabric::order`]). The words that a
//! section protects are accessed without an order, as pages that are shared in place are.
//!
//! `scripts/schedules.sh loom` runs it.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use littoral_base::sync::atomic::{AtomicU64, Ordering};
use littoral_base::sync::{Arc, thread};
use littoral_base::units::NodeId;
use littoral_device::error::Result;
use littoral_dsm::core::message::LockId;
use littoral_dsm::lock::direct::DirectLocks;
use littoral_dsm::lock::{Barriers as _, LockLayout, Locks as _};
use littoral_fabric::{Fabric, Liveness, order};

const RANKS: u16 = 2;
const LOCK: LockId = LockId(0);
/// Bytes of a line of the windows, and how many of its words locks use: a lock's own and the names
/// of its waiters.
const LINE: usize = 64;
const USED: usize = 1 + RANKS as usize;

/// A rank's handle of the windows, and the words that sections protect.
struct Modelled {
    me: NodeId,
    windows: Arc<Vec<Vec<AtomicU64>>>,
    shared: Arc<[AtomicU64; 2]>,
}

impl Modelled {
    fn word(&self, node: NodeId, offset: usize) -> &AtomicU64 {
        let word = offset % LINE / 8;
        assert!(word < USED, "byte {offset} is not modelled");
        &self.windows[node.index()][offset / LINE * USED + word]
    }
}

impl Fabric for Modelled {
    fn me(&self) -> NodeId {
        self.me
    }
    fn nodes(&self) -> u16 {
        RANKS
    }
    fn window_bytes(&self) -> usize {
        self.windows[0].len() / USED * LINE
    }
    fn put(&self, node: NodeId, offset: usize, data: &[u8]) -> Result<()> {
        let value = u64::from_le_bytes(data.try_into().unwrap());
        self.word(node, offset).store(value, order::store());
        Ok(())
    }
    fn get(&self, node: NodeId, offset: usize, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(&self.word(node, offset).load(order::load()).to_le_bytes());
        // A caller repeats this until it finds something.
        thread::yield_now();
        Ok(())
    }
    fn fetch_add(&self, node: NodeId, offset: usize, add: u64) -> Result<u64> {
        Ok(self.word(node, offset).fetch_add(add, order::change()))
    }
    fn wait_word(&self, offset: usize, unlike: u64, _timeout: Duration) -> Result<Option<u64>> {
        loop {
            let found = self.word(self.me, offset).load(order::load());
            if found != unlike {
                return Ok(Some(found));
            }
            thread::yield_now();
        }
    }
    fn flush(&self, _node: NodeId) -> Result<()> {
        Ok(())
    }
    fn notify(&self, _node: NodeId) -> Result<()> {
        Ok(())
    }
    fn liveness(&self, _node: NodeId) -> Liveness {
        Liveness::Alive
    }
    fn post(&self, _node: NodeId, _message: &[u8]) -> Result<()> {
        unreachable!("locks send no messages")
    }
    fn post_bytes_max(&self) -> usize {
        0
    }
    fn receive(&self, _timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        unreachable!("locks take no messages")
    }
}

fn layout() -> LockLayout {
    LockLayout::new(0, 1, RANKS)
}

/// Runs `rank` as each of two ranks; returns what the shared words hold at the end.
fn both(rank: impl Fn(&Modelled) + Copy + Send + Sync + 'static) -> [u64; 2] {
    let words = layout().bytes() / LINE * USED;
    let window = |_| (0..words).map(|_| AtomicU64::new(0)).collect();
    let windows: Arc<Vec<Vec<AtomicU64>>> = Arc::new((0..RANKS).map(window).collect());
    let shared = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let of = |me| Modelled { me: NodeId(me), windows: windows.clone(), shared: shared.clone() };
    let (near, far) = (of(0), of(1));
    let other = thread::spawn(move || rank(&far));
    rank(&near);
    other.join().unwrap();
    [0, 1].map(|n| shared[n].load(Ordering::Relaxed))
}

#[test]
fn sections_exclude_each_other_and_show_what_was_written() {
    loom::model(|| {
        let [sum, other] = both(|fabric| {
            let mut locks = DirectLocks::new(fabric, layout());
            locks.acquire(LOCK).unwrap();
            let found = fabric.shared.each_ref().map(|word| word.load(Ordering::Relaxed));
            assert_eq!(found[0], found[1], "both words of the section before");
            fabric.shared.iter().for_each(|word| word.store(found[0] + 1, Ordering::Relaxed));
            locks.release(LOCK, &[]).unwrap();
        });
        assert_eq!([sum, other], [2, 2]);
    });
}

/// Two barriers of one kind.
fn barriers_show(is_crowded: bool) {
    loom::model(move || {
        both(move |fabric| {
            let mut barriers = DirectLocks::new(fabric, layout()).crowded(is_crowded);
            let me = fabric.me().index();
            for round in 1..=2 {
                fabric.shared[me].store(round, Ordering::Relaxed);
                barriers.barrier(&[]).unwrap();
                assert_eq!(fabric.shared[1 - me].load(Ordering::Relaxed), round);
                barriers.barrier(&[]).unwrap();
            }
        });
    });
}

#[test]
fn a_barrier_shows_what_was_written_before_it() {
    barriers_show(false);
}

#[test]
fn a_counting_barrier_shows_what_was_written_before_it() {
    barriers_show(true);
}
