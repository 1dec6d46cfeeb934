//! Operations on a store at a steady rate, each latency counted from its intended start.
//!
//! - Open loop: operation `i` is meant to start at `i / rate`, whether or not the ones before it
//!   have been answered; what a slow answer makes wait counts (no coordinated omission).
//! - A search is answered when it returns, a change when the sync that makes it durable returns.
//! - The clock is the opened device's: virtual on a model (the device's latencies; the program
//!   itself takes no time), the wall clock on a file or a drive.
//! - An operation that needs no request to the device takes no virtual time: in virtual time it is
//!   counted as answered from memory, and latencies are those of the others.
//! - One client. The load before it is not measured.

use std::time::{Duration, Instant};

use littoral_base::clock::ClockKind;
use littoral_base::mutant;
use littoral_base::rng::{self, Generator, Rng};
use littoral_base::units::Picos;
use littoral_device::zoned::ZonedDevice as _;
use littoral_device::zoned::any::AnyZoned;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_store::store::{Durability, StoreCounts};

use crate::error::{Error, Kind, Result};
use crate::ycsb::{self, Distribution, Requests};

/// Shares of inserts, deletes and searches in per cent (paper 000, section 4.1).
pub const MIXES: [[u32; 3]; 5] =
    [[40, 30, 30], [10, 10, 80], [25, 25, 50], [50, 50, 0], [0, 0, 100]];

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The tree.
    pub engine: Engine,
    /// Paper 000's workload, 1 to 5.
    pub workload: u8,
    /// Which records are asked for.
    pub distribution: Distribution,
    /// Records loaded first.
    pub records: u64,
    /// Operations measured.
    pub operations: u64,
    /// Operations meant to start in a second.
    pub rate_per_s: f64,
    /// Operations between syncs.
    pub batch: u64,
    /// The seed of the requests.
    pub seed: u64,
}

/// Latencies of one kind of operation, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latencies {
    /// How many.
    pub count: u64,
    /// Those answered without a request to the device.
    pub from_memory_count: u64,
    /// Times: by the wall clock of all, in virtual time of those that asked the device, if any did.
    pub times: Option<Times>,
}

/// What is shown of a list of times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Their mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: f64,
    /// Of a hundred, all but one are at most this.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// `virtual` or `wall`.
    pub clock: &'static str,
    /// What was modelled and what was real.
    pub made_of: String,
    /// Operations a second from the first's start to the last's answer; none where no time passed:
    /// virtual time stands still while memory answers.
    pub rate_per_s: Option<f64>,
    /// Latencies by kind of operation.
    pub rows: Vec<(&'static str, Latencies)>,
    /// Blocks written while measuring.
    pub counts: StoreCounts,
}

const NAMES: [&str; 3] = ["insert", "delete", "search"];
/// The latest intended start, 106 days: times are picoseconds in 64 bits, and answers come later.
const START_MAX: Picos = Picos(u64::MAX / 2);

/// The time that a run is measured by: the device's own where it is modelled, else the wall clock.
struct Time {
    /// Whether only the device takes time.
    is_of_device: bool,
    began: Instant,
}

impl Time {
    fn of(device: &AnyZoned) -> Time {
        Time { is_of_device: device.clock() == ClockKind::Virtual, began: Instant::now() }
    }

    fn now(&self, device: &AnyZoned) -> Picos {
        match device.virtual_now() {
            Some(time) if self.is_of_device => time,
            _ => Picos::from_nanos(self.began.elapsed().as_nanos() as u64),
        }
    }

    fn wait_until(&self, device: &AnyZoned, time: Picos) {
        if self.is_of_device {
            return device.idle_until(time);
        }
        // Sleeping wakes up late by a scheduler's tick: the last part is spent looking.
        const LATE: Duration = Duration::from_micros(100);
        let left = Duration::from_nanos(time.0.saturating_sub(self.now(device).0) / 1000);
        if left > LATE {
            std::thread::sleep(left - LATE);
        }
        while self.now(device) < time {
            std::hint::spin_loop();
        }
    }
}

fn failed(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_source(Kind::Environment, "bench kv", e)
}

/// The time between two intended starts.
fn interval(asked: &Asked) -> Result<Picos> {
    let interval = Picos((1e12 / asked.rate_per_s) as u64);
    let last = interval.0.checked_mul(asked.operations);
    if last.is_some_and(|last| last <= START_MAX.0) {
        return Ok(interval);
    }
    let what = format!(
        "{} operations at {} a second take more than 106 days, beyond the range of the clock; ask \
         for fewer operations or a higher rate",
        asked.operations, asked.rate_per_s
    );
    Err(Error::new(Kind::Argument, what))
}

/// Loads a store on an opened device, which must be empty, and measures it.
///
/// # Errors
/// `Kind::Argument` when the last operation is meant to start after more than 106 days;
/// `Kind::Environment` when the device cannot serve the engine.
pub fn run(asked: &Asked, device: AnyZoned) -> Result<Found> {
    let interval = interval(asked)?;
    let (clock, made_of) = (device.clock().name(), device.describe());
    let time = &Time::of(&device);
    let shape = Shape::fitting(device.limits().block_bytes as usize, 8, 8).map_err(failed)?;
    let mut index = Index::create(device, asked.engine, shape, asked.seed).map_err(failed)?;
    index.store_mut().set_durability(Durability::Batch);
    for i in 0..asked.records {
        index.put(&ycsb::key(i), &i.to_be_bytes()).map_err(failed)?;
    }
    index.store_mut().checkpoint().map_err(failed)?;
    let before = index.store_ref().counts();
    let mut client = Client::new((asked, interval), index, time);
    for i in 0..asked.operations {
        client.operate(i).map_err(failed)?;
    }
    client.answer_changes().map_err(failed)?;
    let elapsed = time.now(client.index.store_ref().device()) - client.begin;
    let seconds = elapsed.0 as f64 / 1e12;
    let counts = client.index.store_ref().counts();
    let rows = NAMES.into_iter().zip(client.latencies.into_iter().map(Gathered::summary));
    Ok(Found {
        clock,
        made_of,
        rate_per_s: (seconds > 0.0).then(|| asked.operations as f64 / seconds),
        rows: rows.filter(|(_, l)| l.count > 0).collect(),
        counts: since(counts, before),
    })
}

/// What `a` counts beyond `b`, an earlier count of the same store.
pub fn since(a: StoreCounts, b: StoreCounts) -> StoreCounts {
    StoreCounts {
        tree_blocks: a.tree_blocks - b.tree_blocks,
        redo_blocks: a.redo_blocks - b.redo_blocks,
        map_blocks: a.map_blocks - b.map_blocks,
        gc_blocks: a.gc_blocks - b.gc_blocks,
        gc_resets: a.gc_resets - b.gc_resets,
        checkpoints: a.checkpoints - b.checkpoints,
        read_blocks: a.read_blocks - b.read_blocks,
    }
}

/// One client and what it waits for.
struct Client<'a> {
    index: Index<AnyZoned>,
    time: &'a Time,
    rng: Generator,
    requests: Requests,
    inserts: u32,
    changes: u32,
    records: u64,
    batch: u64,
    begin: Picos,
    interval: Picos,
    /// Kind and intended start of changes that are not durable yet.
    waiting: Vec<(usize, Picos)>,
    /// Requests to the device when the last answer was given.
    requests_before: u64,
    latencies: [Gathered; 3],
}

/// Latencies of one kind as they come.
#[derive(Debug, Default)]
struct Gathered {
    nanos: Vec<u64>,
    count: u64,
    from_memory: u64,
}

impl Gathered {
    fn summary(self) -> Latencies {
        Latencies {
            count: self.count,
            from_memory_count: self.from_memory,
            times: (!self.nanos.is_empty()).then(|| times(self.nanos)),
        }
    }
}

impl<'a> Client<'a> {
    fn new((asked, interval): (&Asked, Picos), index: Index<AnyZoned>, time: &'a Time) -> Self {
        let [inserts, deletes, _] = MIXES[usize::from(asked.workload) - 1];
        let begin = time.now(index.store_ref().device());
        Client {
            index,
            time,
            rng: rng::stream(asked.seed, "bench kv"),
            requests: Requests::new(asked.distribution, asked.records),
            inserts,
            changes: inserts + deletes,
            records: asked.records,
            batch: asked.batch,
            begin,
            interval,
            waiting: Vec::new(),
            requests_before: 0,
            latencies: Default::default(),
        }
    }

    fn operate(&mut self, i: u64) -> littoral_index::Result<()> {
        let intended = Picos(self.begin.0 + i * self.interval.0);
        self.time.wait_until(self.index.store_ref().device(), intended);
        self.requests_before = self.requests();
        let roll: u32 = self.rng.random_range(0..100);
        if roll < self.inserts {
            self.index.put(&ycsb::key(self.records), &i.to_be_bytes())?;
            self.records += 1;
            self.waiting.push((0, intended));
        } else if roll < self.changes {
            self.index.delete(&ycsb::key(self.requests.next(self.records, &mut self.rng)))?;
            self.waiting.push((1, intended));
        } else {
            self.index.get(&ycsb::key(self.requests.next(self.records, &mut self.rng)))?;
            self.answer(2, intended);
        }
        if (i + 1).is_multiple_of(self.batch) { self.answer_changes() } else { Ok(()) }
    }

    /// Blocks asked of the device so far, read or written.
    fn requests(&self) -> u64 {
        let c = self.index.store_ref().counts();
        c.read_blocks + c.tree_blocks + c.redo_blocks + c.map_blocks + c.gc_blocks
    }

    fn answer(&mut self, kind: usize, intended: Picos) {
        let now = self.time.now(self.index.store_ref().device());
        // In virtual time an answer from memory that had to wait has a latency to show.
        let is_apart = now <= intended || !self.time.is_of_device;
        let is_apart = is_apart && !mutant!("bench_kv_nothing_from_memory");
        let is_from_memory = self.requests() == self.requests_before && is_apart;
        let latencies = &mut self.latencies[kind];
        latencies.count += 1;
        latencies.from_memory += u64::from(is_from_memory);
        if !(is_from_memory && self.time.is_of_device) || mutant!("bench_kv_shows_zero") {
            latencies.nanos.push(now.0.saturating_sub(intended.0) / 1000);
        }
    }

    fn answer_changes(&mut self) -> littoral_index::Result<()> {
        self.index.sync()?;
        for (kind, intended) in std::mem::take(&mut self.waiting) {
            self.answer(kind, intended);
        }
        Ok(())
    }
}

/// The summary of at least one latency.
fn times(mut nanos: Vec<u64>) -> Times {
    nanos.sort_unstable();
    let n = nanos.len();
    let at = |share: f64| nanos[((n as f64 * share).ceil() as usize).clamp(1, n) - 1] as f64;
    Times {
        mean_ns: nanos.iter().sum::<u64>() as f64 / n as f64,
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        max_ns: at(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(rate_per_s: f64) -> Asked {
        Asked {
            engine: Engine::Zb,
            workload: 1,
            distribution: Distribution::Zipfian,
            records: 2000,
            operations: 2000,
            rate_per_s,
            batch: 1,
            seed: 1,
        }
    }

    fn model() -> AnyZoned {
        let profile = littoral_device::profile::Profile::named("zns-paper").unwrap();
        let zoned = profile.zoned().unwrap();
        let mut device = littoral_device::zoned::model::ModelDevice::new(zoned.geometry).unwrap();
        device.set_timing(zoned.timing);
        AnyZoned::Model(Box::new(device), Some("zns-paper".to_owned()))
    }

    #[test]
    fn what_a_slow_answer_makes_wait_counts() {
        let (slow, fast) =
            (run(&asked(100.0), model()).unwrap(), run(&asked(1e6), model()).unwrap());
        let insert = |f: &Found| f.rows.iter().find(|(n, _)| *n == "insert").unwrap().1.times;
        let insert = |f: &Found| insert(f).unwrap();
        assert_eq!(slow.rows.iter().map(|(_, l)| l.count).sum::<u64>(), 2000);
        // At ten milliseconds apart nothing waits for anything; a million a second cannot be
        // served, and the later an operation was meant to start the longer it waits.
        assert!(insert(&slow).p50_ns < 1e6, "{slow:?}");
        let rate = |f: &Found| f.rate_per_s.unwrap();
        assert!(insert(&fast).p50_ns > 1e8 && rate(&fast) < 1e4, "{fast:?}");
        assert!((rate(&slow) / 100.0 - 1.0).abs() < 0.01, "{slow:?}");
        let search = slow.rows.iter().find(|(n, _)| *n == "search").unwrap().1;
        assert_eq!((search.from_memory_count, search.times), (search.count, None), "no 0 ps");
        let again = run(&asked(100.0), model()).unwrap();
        assert_eq!(again.rows, slow.rows, "virtual time replays");
    }

    #[test]
    fn one_answer_from_memory_has_no_rate() {
        let one = Asked { operations: 1, workload: 5, records: 10, ..asked(100.0) };
        assert_eq!(run(&one, model()).unwrap().rate_per_s, None);
    }

    #[test]
    fn starts_beyond_the_range_of_the_clock_are_refused() {
        let late = Asked { operations: 20_000, ..asked(0.001) };
        for asked in [late, asked(0.0)] {
            let refused = run(&asked, model()).unwrap_err();
            assert_eq!(refused.kind(), Kind::Argument, "{refused}");
        }
    }

    #[test]
    fn a_file_is_measured_by_the_wall_clock() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = littoral_index::kv::Options::new(Engine::Zb, 1).geometry;
        let path = dir.path().join("zones");
        let device = littoral_device::zoned::file::FileDevice::create(&path, geometry).unwrap();
        let device = AnyZoned::File(Box::new(device));
        let found = run(&Asked { operations: 200, batch: 50, ..asked(1e5) }, device).unwrap();
        assert_eq!((found.clock, &found.made_of[..]), ("wall", "zones modelled in a file"));
        let is_sound =
            |l: &Latencies| l.times.is_some_and(|t| t.max_ns >= t.p50_ns && t.max_ns > 0.0);
        assert!(found.rows.iter().all(|(_, l)| l.count > 0 && is_sound(l)));
        let search = found.rows.iter().find(|(n, _)| *n == "search").unwrap().1;
        assert!(search.from_memory_count > 0, "pages that were just loaded: {search:?}");
    }
}
