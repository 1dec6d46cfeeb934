//! The DudeTM-like baseline's logs: a ring a worker, and the one thread that carries them home.
//!
//! - A worker appends a record, writes it back, fences, and publishes its head.
//! - The replayer takes records in the order of their versions (each version appears once, aborted
//!   ones as empty records), stores them home, and after a batch fences, then persists the tails
//!   and fences.
//! - A worker whose ring is full waits for the replayer; a replayer without work rests until a
//!   record is published, so that it costs other threads no processor time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use littoral_device::memory::Domain;
use littoral_stm::{Error, Kind, Result};

use super::heap::durable as fence;

/// Bytes of a worker's log.
pub(super) const LOG_BYTES: usize = 1 << 20;
/// Workers alive at once.
pub(super) const WORKERS_MAX: usize = 8;
/// Words of a ring; the first line of a worker's log holds its tail.
pub(super) const RING_WORDS: u64 = LOG_BYTES as u64 / 8 - 8;
pub(super) const WRAP: u64 = u64::MAX;
const BATCH: u64 = 256;

#[derive(Debug, Default)]
struct Ends {
    head: AtomicU64,
    tail: AtomicU64,
}

/// A worker's end of its ring.
#[derive(Debug)]
pub(super) struct Ring {
    number: usize,
    head: u64,
    ends: Arc<Ends>,
}

/// All rings and the home of the objects.
#[derive(Debug)]
pub(super) struct Rings<D> {
    home: D,
    ends: Vec<Arc<Ends>>,
    replayer: OnceLock<Thread>,
    resting: AtomicBool,
}

pub(super) fn place(number: usize, at: u64) -> usize {
    number * LOG_BYTES + 64 + 8 * (at % RING_WORDS) as usize
}

impl<D: Domain> Rings<D> {
    pub(super) fn new(home: D) -> Self {
        let ends = (0..WORKERS_MAX).map(|_| Arc::default()).collect();
        Rings { home, ends, replayer: OnceLock::new(), resting: AtomicBool::new(false) }
    }

    /// Lets the replayer see what was appended.
    pub(super) fn publish(&self, ring: &Ring) {
        ring.ends.head.store(ring.head, Release);
        if self.resting.load(Relaxed) {
            self.wake();
        }
    }

    fn wake(&self) {
        self.replayer.get().into_iter().for_each(Thread::unpark);
    }

    fn is_empty(&self) -> bool {
        self.ends.iter().all(|e| e.head.load(Acquire) == e.tail.load(Acquire))
    }

    /// Returns when everything published is home.
    pub(super) fn settle_all(&self) {
        while !self.is_empty() {
            self.wake();
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Nothing to carry: sleeps until something is published, or a little while, because a record
    /// published between the look and the sleep wakes no thread.
    fn rest(&self) {
        self.resting.store(true, SeqCst);
        if self.is_empty() {
            std::thread::park_timeout(Duration::from_millis(2));
        } else {
            // A version is missing: its worker is still making its record durable.
            std::thread::sleep(Duration::from_micros(20));
        }
        self.resting.store(false, Relaxed);
    }

    pub(super) fn ring(&self, number: usize) -> Ring {
        let ends = Arc::clone(&self.ends[number]);
        Ring { number, head: ends.head.load(Acquire), ends }
    }

    /// Appends a record, durable on return when `durable`.
    pub(super) fn append(&self, ring: &mut Ring, record: &[u64], durable: bool) -> Result<()> {
        let n = record.len() as u64;
        let left = RING_WORDS - ring.head % RING_WORDS;
        let skipped = if left < n { left } else { 0 };
        if n + skipped > RING_WORDS {
            return Err(Error::new(Kind::Full, "the redo log is full"));
        }
        while ring.head + skipped + n - ring.ends.tail.load(Acquire) > RING_WORDS {
            std::thread::yield_now();
        }
        if skipped > 0 {
            let at = place(ring.number, ring.head);
            self.home.store(at, WRAP, Relaxed);
            self.home.write_back(at, 8);
            ring.head += skipped;
        }
        let at = place(ring.number, ring.head);
        self.home.store_words(at, record);
        ring.head += n;
        if durable {
            self.home.write_back(at, 8 * record.len());
            fence(&self.home)?;
            self.home.commit_point();
        }
        Ok(())
    }

    /// Carries records home until told to stop and nothing is left.
    pub(super) fn replay(&self, stop: &AtomicBool) {
        let (mut next, mut tails, mut batch) = (1, [0; WORKERS_MAX], 0);
        self.replayer.get_or_init(std::thread::current);
        loop {
            let found = (0..WORKERS_MAX).find_map(|w| self.take(w, &mut tails[w], next));
            if found.is_some() {
                (next, batch) = (next + 1, batch + 1);
            }
            if batch == BATCH || (found.is_none() && batch > 0) {
                batch = 0;
                self.settle(&tails);
            } else if found.is_none() {
                if stop.load(Acquire) {
                    return;
                }
                self.rest();
            }
        }
    }

    /// Stores the worker's next record home if it has version `next`.
    fn take(&self, worker: usize, tail: &mut u64, next: u64) -> Option<()> {
        if *tail == self.ends[worker].head.load(Acquire) {
            return None;
        }
        if self.home.word(place(worker, *tail), Relaxed) == WRAP {
            *tail += RING_WORDS - *tail % RING_WORDS;
        }
        let word = |i: u64| self.home.word(place(worker, *tail + i), Relaxed);
        if word(0) != next {
            return None;
        }
        let (n, mut i) = (word(1), 3);
        while i < n {
            let (target, count) = (word(i) as usize, word(i + 1) >> 1);
            self.home.store(target, next << 1 | word(i + 1) & 1, Relaxed);
            for k in 0..count {
                self.home.store(target + 8 * (1 + k as usize), word(i + 2 + k), Relaxed);
            }
            self.home.write_back(target, 8 * (1 + count as usize));
            i += 2 + count;
        }
        *tail += n;
        Some(())
    }

    /// A batch is home: fence, end its records, fence. A failed fence leaves the tails where they
    /// are.
    fn settle(&self, tails: &[u64; WORKERS_MAX]) {
        if fence(&self.home).is_err() {
            return;
        }
        for (worker, &tail) in tails.iter().enumerate() {
            if self.ends[worker].tail.load(Relaxed) != tail {
                self.home.store(worker * LOG_BYTES, tail, Relaxed);
                self.home.write_back(worker * LOG_BYTES, 8);
            }
        }
        if fence(&self.home).is_ok() {
            for (ends, &tail) in self.ends.iter().zip(tails) {
                ends.tail.store(tail, Release);
            }
        }
    }
}
