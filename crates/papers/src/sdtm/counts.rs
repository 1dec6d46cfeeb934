//! Counts: fences, lines, lines written in common; and what a restart costs.
//!
//! Fences and lines come from `Counted` under one thread and are the same on every run. Lines
//! written in common come from [`Traced`], which sees every store to the domain and every store to
//! the engine's shared volatile words (`Domain::shadow_stored`); a handle's own sets are not shared
//! and not seen.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use littoral_device::forward_domain;
use littoral_device::memory::{Domain, LINE_BYTES};
use littoral_device::pmem::{Counted, Dram, FlushFence, MemoryCounts};
use littoral_stm::{Error, Kind, Options, Pool, Restart, Result};

use super::engine::{Engine, Worker};
use super::undo::Undo;
use super::work::{self, Make, Write};

pub(super) fn device(e: littoral_device::Error) -> Error {
    Error::with_source(Kind::Device, "memory for a measurement", e)
}

/// Memory with real flushes and no file.
///
/// # Errors
/// When the system has none, or the processor no write-back instruction.
pub fn memory(bytes: usize) -> Result<FlushFence> {
    FlushFence::anonymous(bytes).map_err(device)
}

/// Fences and lines of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerTransaction {
    /// Fewest and most fences of any of the transactions.
    pub fences: (u64, u64),
    /// Lines written back over all of them.
    pub lines_count: u64,
    /// Media bytes of the write-combining model over all of them.
    pub media_bytes: u64,
}

/// Transactions counted.
pub const COUNTED: u64 = 1000;

fn count<E: Engine>(
    engine: &E,
    k: usize,
    counts: impl Fn() -> MemoryCounts,
) -> Result<PerTransaction> {
    let objects = work::objects(engine, 4096)?;
    let mut worker = engine.worker()?;
    let (mut fences, start) = ((u64::MAX, 0), counts());
    for i in 0..COUNTED {
        let picks: Vec<usize> = (0..k).map(|n| (i as usize * 97 + n * 61) % 4096).collect();
        let before = counts();
        worker.update(&mut Write { objects: &objects, picks: &picks, value: i })?;
        let n = counts().since(&before).fences_count;
        fences = (fences.0.min(n), fences.1.max(n));
    }
    let all = counts().since(&start);
    Ok(PerTransaction { fences, lines_count: all.lines_count, media_bytes: all.media_bytes })
}

/// Our transactions of `k` objects.
///
/// # Errors
/// Errors of the engine.
pub fn ours(k: usize) -> Result<PerTransaction> {
    let pool = Pool::create(Counted::new(Dram::new(8 << 20)), &Options::default())?;
    count(&pool, k, || pool.domain().counts())
}

/// The undo log's transactions of `k` objects.
///
/// # Errors
/// Errors of the engine.
pub fn undo(k: usize) -> Result<PerTransaction> {
    let domain = std::sync::Arc::new(Counted::new(Dram::new(8 << 20)));
    let engine = Undo::new(std::sync::Arc::clone(&domain), true);
    count(&engine, k, || domain.counts())
}

/// Fences of read-only transactions over 64 objects each.
///
/// # Errors
/// Errors of the engine.
pub fn read_only_fences() -> Result<u64> {
    let pool = Pool::create(Counted::new(Dram::new(8 << 20)), &Options::default())?;
    let objects = work::objects(&pool, 64)?;
    let mut th = pool.thread()?;
    let before = pool.domain().counts();
    for _ in 0..COUNTED {
        th.read_only(|tx| objects.iter().try_for_each(|&o| tx.read(o).map(drop)))?;
        th.snapshot(|tx| objects.iter().try_for_each(|&o| tx.read(o).map(drop)))?;
    }
    let since = pool.domain().counts().since(&before);
    Ok(since.fences_count + since.lines_count + since.stores_count)
}

/// A domain that keeps, a thread, the lines stored to: its own and the engine's volatile ones.
#[derive(Debug)]
pub struct Traced<D> {
    inner: D,
    lines: Mutex<HashMap<ThreadId, BTreeSet<(bool, usize)>>>,
}

impl<D: Domain> Traced<D> {
    fn saw(&self, volatile: bool, address: usize) {
        let mut lines = self.lines.lock().expect("invariant: no panic inside");
        let mine = lines.entry(std::thread::current().id()).or_default();
        mine.insert((volatile, address / LINE_BYTES));
    }
}

macro_rules! inner {
    ($self:ident, $($call:tt)+) => {
        $self.inner.$($call)+
    };
}

impl<D: Domain> Domain for Traced<D> {
    forward_domain!(inner: len owner_before_fork promise word write_back invalidate fence);

    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.saw(false, offset);
        self.inner.store(offset, value, order);
    }
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> std::result::Result<u64, u64> {
        self.saw(false, offset);
        self.inner.compare_exchange(offset, current, new, success, failure)
    }
    fn shadow_stored(&self, address: usize) {
        self.saw(true, address);
    }
}

/// What two threads with transactions of their own wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedWrites {
    /// Lines that both stored to.
    pub common_count: u64,
    /// Lines that the two stored to in all.
    pub lines_count: u64,
}

/// Two threads, `transactions` each, on objects each made itself.
///
/// # Errors
/// Errors of the engine.
pub fn shared_writes(transactions: u64) -> Result<SharedWrites> {
    let traced = Traced { inner: Dram::new(8 << 20), lines: Mutex::default() };
    let pool = Pool::create(traced, &Options::default())?;
    // Each makes its objects on a handle it keeps, one after the other; only then is anything
    // traced.
    let mut handles = Vec::new();
    for _ in 0..2 {
        let mut th = pool.thread()?;
        let objects = th.update(&mut Make(128))?;
        handles.push((th, objects));
    }
    pool.domain().lines.lock().expect("invariant: no panic inside").clear();
    std::thread::scope(|scope| {
        let runs: Vec<_> = handles
            .into_iter()
            .map(|(mut th, objects)| {
                scope.spawn(move || {
                    for i in 0..transactions {
                        let picks = [i as usize % 128, (i as usize * 7 + 1) % 128];
                        th.update(&mut Write { objects: &objects, picks: &picks, value: i })?;
                    }
                    // The handle ends only after both have run: giving back is not a transaction.
                    Ok((th, objects))
                })
            })
            .collect();
        let ended: Vec<Result<_>> =
            runs.into_iter().map(|r| r.join().expect("invariant: no panic")).collect();
        let lines = pool.domain().lines.lock().expect("invariant: no panic inside");
        let sets: Vec<_> = lines.values().cloned().collect();
        drop(lines);
        ended.into_iter().map(|r| r.map(drop)).collect::<Result<Vec<()>>>()?;
        let [a, b] = &sets[..] else {
            return Err(Error::new(Kind::Usage, "two threads were to be traced"));
        };
        let common_count = a.intersection(b).count() as u64;
        Ok(SharedWrites { common_count, lines_count: (a.len() + b.len()) as u64 - common_count })
    })
}

littoral_stm::record! {
    /// Two kibibytes a version: fills a pool fast.
    struct Big = "littoral.bench.big/1" { words: [u64; 255] }
}

/// Time to open a pool of `bytes`, half full, after a crash, lazily and by scan.
///
/// # Errors
/// When the folder has no room, or of the engine.
pub fn restart(folder: &Path, bytes: usize) -> Result<(Duration, Duration)> {
    let path = folder.join(format!("restart-{bytes}.pool"));
    let pool =
        Pool::create(FlushFence::create(&path, bytes).map_err(device)?, &Options::default())?;
    let mut th = pool.thread()?;
    let big = Big { words: [7; 255] };
    for _ in 0..bytes / 2 / (16 * 4096) {
        th.atomically(|tx| (0..16).try_for_each(|_| tx.alloc(&big).map(drop)))?;
    }
    // A handle that never ends leaves its slot active: to the medium that is a crash.
    std::mem::forget(th);
    drop(pool);
    let open = |restart| {
        let start = Instant::now();
        let pool = Pool::open(FlushFence::open(&path).map_err(device)?, restart)?;
        let took = start.elapsed();
        std::mem::forget(pool.thread()?);
        Ok::<_, Error>(took)
    };
    let mut lazy = (0..5).map(|_| open(Restart::Lazy)).collect::<Result<Vec<_>>>()?;
    lazy.sort();
    let scan = open(Restart::Scan)?;
    drop(std::fs::remove_file(&path));
    Ok((lazy[2], scan))
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_device::pmem::Sim;
    use littoral_device::pmem::trace::Enumerate;

    #[test]
    fn two_fences_whatever_the_size_and_none_to_read() {
        for k in [1, 4, 16, 64] {
            assert_eq!(ours(k).unwrap().fences, (2, 2), "k = {k}");
        }
        assert_eq!(read_only_fences().unwrap(), 0);
        assert_eq!(undo(4).unwrap().fences, (6, 6), "one a log entry, the data, the log's end");
    }

    #[test]
    fn disjoint_transactions_share_no_written_line() {
        let found = shared_writes(500).unwrap();
        assert_eq!(found.common_count, 0, "{found:?}");
        assert!(found.lines_count > 250, "{found:?}");
    }

    #[test]
    fn the_undo_log_survives_every_power_cut() {
        let domain = std::sync::Arc::new(Sim::new((1 << 20) + (8 << 10)));
        let engine = Undo::new(std::sync::Arc::clone(&domain), true);
        let objects = work::objects(&engine, 4).unwrap();
        let mut worker = engine.worker().unwrap();
        worker.update(&mut Write { objects: &objects, picks: &[0, 1, 2, 3], value: 1 }).unwrap();
        domain.settle();
        worker.update(&mut Write { objects: &objects, picks: &[0, 1, 2, 3], value: 2 }).unwrap();
        let how = Enumerate { images_per_point_max: 8, ..Enumerate::default() };
        let coverage = domain.trace().enumerate(&how, |image| {
            let sim = Sim::from_image(image.words);
            Undo::recover(&sim).map_err(|e| e.to_string())?;
            let value = |i: usize| sim.word(objects[i].offset() as usize + 8, Ordering::Relaxed);
            let all = [0, 1, 2, 3].map(value);
            let fine = all == [2; 4] || (all == [1; 4] && image.acknowledged == 0);
            if fine { Ok(()) } else { Err(format!("{all:?}")) }
        });
        assert_eq!(coverage.failure, None);
        assert!(coverage.images_count > 30);
    }
}
