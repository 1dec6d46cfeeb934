//! A pool that forgives nothing: every node has a private, stale, randomly evicting line cache.
//!
//! On one machine shared memory is coherent, which hides every missing write-back, invalidation and
//! fence. Here each node reaches the medium only through its own cache, which behaves as badly as a
//! non-coherent pool may (CXL 2.0 memory shared by hosts, the board of paper 002):
//! - a line that is cached stays as it was, however old, until it is invalidated or evicted;
//! - a stored word is in the cache alone until its line is written back or evicted;
//! - any line may be evicted at any access; a dirty one then goes to the medium *whole*, with every
//!   stale word it holds, so two nodes must never dirty one line at the same time;
//! - a line handed to [`Domain::write_back`] reaches the medium at some time up to the fence.
//!
//! Invariants
//! - The order of evictions is drawn from the pool's seed and the node's own accesses alone.
//!   Checked by `evictions_follow_from_the_seed_and_the_nodes_own_accesses`.
//! - Invalidating a dirty line is a programming error and is counted, not repaired: its stores are
//!   lost, as they would be. Checked by
//!   `dirty_lines_leak_out_early_and_invalidating_one_is_counted`.
//!
//! An engine that is right on this pool is right on any; one that misses a flush is caught by its
//! own oracle within a few thousand operations. Programs in other languages use the C ABI
//! (`littoral-capi`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use littoral_base::rng::{self, Generator, Rng};

use crate::Result;
use littoral_device::memory::{Domain, LINE_BYTES, Promise};

const WORDS_PER_LINE: usize = LINE_BYTES / 8;

/// The medium of a hostile pool; each node takes a [`HostileView`].
#[derive(Clone, Debug)]
pub struct HostilePool {
    medium: Arc<Vec<AtomicU64>>,
    seed: u64,
    one_in: u32,
}

impl HostilePool {
    /// A pool of `bytes` zero bytes (rounded up to whole lines) in which each access evicts a line
    /// with a chance of one in `one_in`.
    ///
    /// # Panics
    /// When `one_in` is zero.
    pub fn new(bytes: usize, seed: u64, one_in: u32) -> Self {
        assert!(one_in > 0, "a chance is one in at least one");
        let words = bytes.div_ceil(LINE_BYTES) * WORDS_PER_LINE;
        let medium = Arc::new((0..words).map(|_| AtomicU64::new(0)).collect());
        HostilePool { medium, seed, one_in }
    }

    /// The view of node `node`.
    pub fn view(&self, node: u16) -> HostileView {
        let cache = Cache {
            lines: BTreeMap::new(),
            pending: BTreeSet::new(),
            rng: rng::stream(self.seed, &format!("node {node}")),
            counts: HostileCounts::default(),
        };
        HostileView { pool: self.clone(), cache: Mutex::new(cache) }
    }

    /// Bytes of the pool.
    #[allow(clippy::len_without_is_empty)] // A pool has at least a line.
    pub fn len(&self) -> usize {
        self.medium.len() * 8
    }

    /// The word at `offset` as it is on the medium.
    ///
    /// # Panics
    /// Outside the pool.
    pub fn medium_word(&self, offset: usize) -> u64 {
        self.medium[offset / 8].load(Ordering::SeqCst)
    }
}

/// What a view has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostileCounts {
    /// Lines evicted unasked.
    pub evictions: u64,
    /// Lines written back by request.
    pub write_backs: u64,
    /// Lines invalidated by request.
    pub invalidations: u64,
    /// Dirty lines invalidated: stores lost by a mistake of the caller.
    pub lost_lines: u64,
}

#[derive(Debug)]
struct Line {
    words: [u64; WORDS_PER_LINE],
    dirty: bool,
}

#[derive(Debug)]
struct Cache {
    lines: BTreeMap<usize, Line>,
    pending: BTreeSet<usize>,
    rng: Generator,
    counts: HostileCounts,
}

/// One node's view of a hostile pool, through its private cache.
#[derive(Debug)]
pub struct HostileView {
    pool: HostilePool,
    cache: Mutex<Cache>,
}

impl HostileView {
    /// What this view has done so far.
    pub fn counts(&self) -> HostileCounts {
        self.locked().counts
    }

    fn locked(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetch(&self, line: usize) -> Line {
        let word = |i: usize| self.pool.medium[line * WORDS_PER_LINE + i].load(Ordering::SeqCst);
        Line { words: std::array::from_fn(word), dirty: false }
    }

    fn push_to_medium(&self, line: usize, words: &[u64; WORDS_PER_LINE]) {
        for (i, word) in words.iter().enumerate() {
            self.pool.medium[line * WORDS_PER_LINE + i].store(*word, Ordering::SeqCst);
        }
    }

    fn clean(&self, cache: &mut Cache, line: usize) {
        cache.pending.remove(&line);
        if let Some(l) = cache.lines.get_mut(&line).filter(|l| l.dirty) {
            self.push_to_medium(line, &l.words);
            l.dirty = false;
        }
    }

    /// Evicts a random line now and then, and writes a pending one back early.
    fn misbehave(&self, cache: &mut Cache) {
        if cache.rng.random_range(0..self.pool.one_in) != 0 || cache.lines.is_empty() {
            return;
        }
        let pick = cache.rng.random_range(0..cache.lines.len());
        let line = *cache.lines.keys().nth(pick).expect("invariant: the pick is among the lines");
        self.clean(cache, line);
        cache.lines.remove(&line);
        cache.counts.evictions += 1;
    }

    fn with_line<T>(&self, offset: usize, act: impl FnOnce(&mut Line, usize) -> T) -> T {
        assert!(offset.is_multiple_of(8) && offset < self.len(), "an aligned word of the pool");
        let mut cache = self.locked();
        self.misbehave(&mut cache);
        let number = offset / LINE_BYTES;
        let line = cache.lines.entry(number).or_insert_with(|| self.fetch(number));
        act(line, offset % LINE_BYTES / 8)
    }
}

fn lines_of(offset: usize, len: usize) -> std::ops::Range<usize> {
    if len == 0 { 0..0 } else { offset / LINE_BYTES..(offset + len - 1) / LINE_BYTES + 1 }
}

impl Domain for HostileView {
    fn len(&self) -> usize {
        self.pool.medium.len() * 8
    }

    fn promise(&self) -> Promise {
        Promise::OtherNodes
    }

    fn word(&self, offset: usize, _order: Ordering) -> u64 {
        self.with_line(offset, |line, i| line.words[i])
    }

    fn store(&self, offset: usize, value: u64, _order: Ordering) {
        self.with_line(offset, |line, i| {
            line.words[i] = value;
            line.dirty = true;
        });
    }

    /// Exchanges in the private cache: on a non-coherent pool nothing better exists, and an engine
    /// that relies on it across nodes is caught.
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        _success: Ordering,
        _failure: Ordering,
    ) -> std::result::Result<u64, u64> {
        self.with_line(offset, |line, i| {
            let found = line.words[i];
            if found == current {
                line.words[i] = new;
                line.dirty = true;
                Ok(found)
            } else {
                Err(found)
            }
        })
    }

    fn write_back(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.len(), "a range of the pool");
        let mut cache = self.locked();
        for line in lines_of(offset, len) {
            cache.counts.write_backs += 1;
            cache.pending.insert(line);
            if cache.rng.random_range(0..3) == 0 {
                self.clean(&mut cache, line);
            }
        }
    }

    fn invalidate(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.len(), "a range of the pool");
        let mut cache = self.locked();
        for line in lines_of(offset, len) {
            cache.counts.invalidations += 1;
            cache.pending.remove(&line);
            if cache.lines.remove(&line).is_some_and(|l| l.dirty) {
                cache.counts.lost_lines += 1;
            }
        }
    }

    fn fence(&self) -> Result<()> {
        let mut cache = self.locked();
        for line in std::mem::take(&mut cache.pending) {
            self.clean(&mut cache, line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: Ordering = Ordering::Relaxed;

    #[test]
    fn nothing_is_seen_elsewhere_without_write_back_fence_and_invalidation() {
        let pool = HostilePool::new(256, 1, u32::MAX);
        let (a, b) = (pool.view(0), pool.view(1));
        assert_eq!(b.word(64, R), 0, "b has the line cached from now on");
        a.store(64, 5, R);
        assert_eq!((a.word(64, R), pool.medium_word(64)), (5, 0));
        a.write_back(64, 8);
        a.fence().unwrap();
        assert_eq!((pool.medium_word(64), b.word(64, R)), (5, 0), "b's copy is stale");
        b.invalidate(64, 8);
        assert_eq!(b.word(64, R), 5);
    }

    #[test]
    fn evictions_follow_from_the_seed_and_the_nodes_own_accesses() {
        let evictions = |seed: u64, others: u64| {
            let pool = HostilePool::new(1 << 14, seed, 5);
            let (a, b) = (pool.view(0), pool.view(1));
            let mut order = Vec::new();
            for i in 0..400u64 {
                (0..others).for_each(|k| b.store((64 * ((i + k) % 256)) as usize, i, R));
                a.store((rng::mix(i) % 256 * 64) as usize, i, R);
                order.push(a.counts().evictions);
            }
            order
        };
        assert_eq!(evictions(3, 0), evictions(3, 4), "what another node does changes nothing");
        assert_ne!(evictions(3, 0), evictions(4, 0));
    }

    #[test]
    fn a_line_goes_back_whole_so_two_writers_of_a_line_lose_one() {
        let pool = HostilePool::new(64, 1, u32::MAX);
        let (a, b) = (pool.view(0), pool.view(1));
        a.store(0, 1, R);
        b.store(8, 2, R);
        for view in [&a, &b] {
            view.write_back(0, 64);
            view.fence().unwrap();
        }
        assert_eq!((pool.medium_word(0), pool.medium_word(8)), (0, 2));
    }

    #[test]
    fn dirty_lines_leak_out_early_and_invalidating_one_is_counted() {
        let pool = HostilePool::new(4096, 7, 2);
        let a = pool.view(0);
        for i in 0..64 {
            a.store(i * 64, 9, R);
        }
        assert!(a.counts().evictions > 5);
        assert!((0..64).any(|i| pool.medium_word(i * 64) == 9), "an evicted line is on the medium");
        a.store(0, 1, R);
        a.invalidate(0, 8);
        assert_eq!(a.counts().lost_lines, 1);
    }
}
