//! The workloads of paper 004: updates of k objects, sets under mixed updates, YCSB A to D.
//!
//! - Every figure is operations a second of processor time of the whole process, background threads
//!   included, so that two cores shared with a replayer compare fairly with two that are not.
//! - What an engine put off (a replayer's backlog) is done, and paid for, before a run ends.
//! - Choices come from a seeded stream a thread; skew is a scrambled power law (YCSB's zipfian,
//!   0.99).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use littoral_base::rng::{self, Rng, mix};
use littoral_stm::structures::Map;
use littoral_stm::{Abort, Access, Ref, Result};

use super::engine::{Engine, Job, Worker};

littoral_stm::record! {
    /// A 24-byte object.
    pub struct Object = "littoral.bench.object/1" {
        /// Its words.
        pub words: [u64; 3],
    }
}

/// What one run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Operations.
    pub ops_count: u64,
    /// Processor time of the process.
    pub cpu: Duration,
    /// Wall time.
    pub wall: Duration,
    /// Attempts given up.
    pub aborts_count: u64,
}

impl Run {
    /// Operations a second of processor time.
    pub fn per_cpu_second(&self) -> f64 {
        self.ops_count as f64 / self.cpu.as_secs_f64().max(1e-9)
    }
    /// Operations a second.
    pub fn per_second(&self) -> f64 {
        self.ops_count as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}

fn process_cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// Runs `each(worker, thread, operation)` on `threads` threads, `ops` times each, and measures it.
///
/// # Errors
/// Errors of the engine.
pub fn measure<E: Engine>(
    engine: &E,
    threads: usize,
    ops: u64,
    each: impl Fn(&mut E::Worker<'_>, usize, u64) -> Result<()> + Sync,
) -> Result<Run> {
    let workers = (0..threads).map(|_| engine.worker()).collect::<Result<Vec<_>>>()?;
    let (wall, cpu, each) = (std::time::Instant::now(), process_cpu(), &each);
    let aborts = std::thread::scope(|scope| {
        let run = |(t, mut w): (usize, E::Worker<'_>)| -> Result<u64> {
            for i in 0..ops {
                each(&mut w, t, i)?;
            }
            Ok(w.aborts_count())
        };
        let mut workers = workers.into_iter().enumerate();
        let first = workers.next();
        let rest: Vec<_> = workers.map(|w| scope.spawn(move || run(w))).collect();
        let mut sum = first.map_or(Ok(0), run)?;
        for thread in rest {
            sum += thread.join().expect("invariant: workers do not panic")?;
        }
        Ok(sum)
    })?;
    engine.settle();
    let (cpu, wall) = (process_cpu() - cpu, wall.elapsed());
    Ok(Run { ops_count: ops * threads as u64, cpu, wall, aborts_count: aborts })
}

/// Makes `n` objects.
#[derive(Debug)]
pub struct Make(pub usize);

impl Job for Make {
    type Out = Vec<Ref<Object>>;
    fn run<A: Access>(&mut self, tx: &mut A) -> std::result::Result<Self::Out, Abort> {
        (0..self.0).map(|i| tx.alloc(&Object { words: [i as u64; 3] })).collect()
    }
}

/// Makes `n` objects on an engine, a thousand a transaction.
///
/// # Errors
/// Errors of the engine.
pub fn objects<E: Engine>(engine: &E, n: usize) -> Result<Vec<Ref<Object>>> {
    let mut worker = engine.worker()?;
    let mut all = Vec::with_capacity(n);
    while all.len() < n {
        all.extend(worker.update(&mut Make((n - all.len()).min(1000)))?);
    }
    Ok(all)
}

/// Writes some objects.
#[derive(Debug)]
pub struct Write<'a> {
    /// All objects.
    pub objects: &'a [Ref<Object>],
    /// Which to write.
    pub picks: &'a [usize],
    /// What to write.
    pub value: u64,
}

impl Job for Write<'_> {
    type Out = ();
    fn run<A: Access>(&mut self, tx: &mut A) -> std::result::Result<(), Abort> {
        let object = Object { words: [self.value; 3] };
        self.picks.iter().try_for_each(|&p| tx.write(self.objects[p], &object))
    }
}

/// Runs transactions that write `k` random objects each.
///
/// # Errors
/// Errors of the engine.
pub fn updates<E: Engine>(
    engine: &E,
    objects: &[Ref<Object>],
    k: usize,
    threads: usize,
    ops: u64,
) -> Result<Run> {
    measure(engine, threads, ops, |w, t, i| {
        let mut picks = [0; 64];
        let picks = &mut picks[..k];
        for (n, p) in picks.iter_mut().enumerate() {
            let word = mix(mix(i) ^ (n as u64) << 32 ^ (t as u64) << 56);
            *p = ((u128::from(word) * objects.len() as u128) >> 64) as usize;
        }
        w.update(&mut Write { objects, picks, value: i })
    })
}

/// What is done with a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Looks a key up.
    Get,
    /// Sets a key.
    Insert,
    /// Removes a key.
    Remove,
}

/// One operation on a map.
#[derive(Debug)]
pub struct OnMap<'m, M> {
    /// The map.
    pub map: &'m M,
    /// The operation.
    pub op: Op,
    /// The key.
    pub key: u64,
}

impl<M: Map> Job for OnMap<'_, M> {
    type Out = Option<u64>;
    #[inline]
    fn run<A: Access>(&mut self, tx: &mut A) -> std::result::Result<Option<u64>, Abort> {
        match self.op {
            Op::Get => self.map.get(tx, self.key),
            Op::Insert => self.map.insert(tx, self.key, self.key ^ 0x5555),
            Op::Remove => self.map.remove(tx, self.key),
        }
    }
}

/// Fills a map with every second of `keys` keys, in a scattered order.
///
/// # Errors
/// Errors of the engine.
pub fn fill<E: Engine, M: Map>(engine: &E, map: &M, keys: u64) -> Result<()> {
    let mut worker = engine.worker()?;
    let mut order: Vec<u64> = (0..keys / 2).map(|i| 2 * i).collect();
    let mut rng = rng::stream(1, "fill");
    for i in (1..order.len()).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
    for key in order {
        worker.update(&mut OnMap { map, op: Op::Insert, key })?;
    }
    Ok(())
}

/// The paper's set workload: `percent` updates (inserts and removals in equal parts) on `keys`
/// keys.
///
/// # Errors
/// Errors of the engine.
pub fn sets<E: Engine, M: Map + Sync>(
    engine: &E,
    map: &M,
    keys: u64,
    percent: u64,
    threads: usize,
    ops: u64,
) -> Result<Run> {
    measure(engine, threads, ops, |w, t, i| {
        let word = mix(mix(i + 1) ^ (t as u64 + 1) << 56);
        let key = ((u128::from(mix(word)) * u128::from(keys)) >> 64) as u64;
        if word % 100 >= percent {
            return w.read(&mut OnMap { map, op: Op::Get, key }).map(drop);
        }
        let op = if word >> 32 & 1 == 0 { Op::Insert } else { Op::Remove };
        w.update(&mut OnMap { map, op, key }).map(drop)
    })
}

/// YCSB's zipfian choice over `n` records, scrambled so that hot ones are apart.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Over `n` records with YCSB's constant 0.99 (Gray and others, SIGMOD 1994).
    pub fn new(n: u64) -> Zipf {
        let theta = 0.99f64;
        let sum = |n: u64| (1..=n).map(|i| 1.0 / (i as f64).powf(theta)).sum::<f64>();
        let (zeta, two) = (sum(n), sum(2));
        let n = n as f64;
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - two / zeta);
        Zipf { n, theta, alpha: 1.0 / (1.0 - theta), zeta, eta }
    }

    /// The rank that `word` draws; rank 0 is the hottest.
    pub fn rank(&self, word: u64) -> u64 {
        let u = (word >> 11) as f64 / (1u64 << 53) as f64;
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        (self.n * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
    }
}

/// A loaded map and the key that is inserted next.
#[derive(Debug)]
pub struct Table<M> {
    /// The map.
    pub map: M,
    /// All keys below are there.
    pub next: AtomicU64,
}

/// YCSB A (half updates), B (5 % updates), C (reads), D (5 % inserts, latest read) on a loaded map.
/// Hot records of A to C are scattered over the keys; D's are the ones inserted last.
///
/// # Errors
/// Errors of the engine.
pub fn ycsb<E: Engine, M: Map + Sync>(
    engine: &E,
    table: &Table<M>,
    which: char,
    zipf: &Zipf,
    threads: usize,
    ops: u64,
) -> Result<Run> {
    let (records, map) = (zipf.n as u64, &table.map);
    let writes = match which {
        'a' => 50,
        'b' | 'd' => 5,
        _ => 0,
    };
    measure(engine, threads, ops, |w, t, i| {
        let word = mix(mix(i + 7) ^ (t as u64 + 1) << 56);
        let rank = zipf.rank(mix(word)).min(records - 1);
        let writes_now = word % 100 < writes;
        let key = match (which, writes_now) {
            ('d', true) => table.next.fetch_add(1, Relaxed),
            ('d', false) => table.next.load(Relaxed).saturating_sub(1 + rank),
            _ => mix(rank) % records,
        };
        let op = if writes_now { Op::Insert } else { Op::Get };
        let job = &mut OnMap { map, op, key };
        if writes_now { w.update(job) } else { w.read(job) }.map(drop)
    })
}

/// Loads keys 0 to `n`.
///
/// # Errors
/// Errors of the engine.
pub fn load<E: Engine, M: Map>(engine: &E, map: &M, n: u64) -> Result<()> {
    let mut worker = engine.worker()?;
    (0..n).try_for_each(|key| worker.update(&mut OnMap { map, op: Op::Insert, key }).map(drop))
}

/// The median of some figures.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}
