//! The figures of system `sdtm`, each under its id.
//!
//! - [`measure`] answers every figure it took; an id it does not answer was not measured, and the
//!   caller says so. Sizes are the issue's; `quick` cuts rounds and repetitions only.
//! - Ratios are ours over the baseline's, operations a second of process processor time, engines
//!   taking turns within each round, median of rounds.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Instant;

use littoral_device::memory::Domain;
use littoral_device::pmem::FlushFence;
use littoral_stm::assure::{crash, opacity};
use littoral_stm::structures::{BTree, HashMap, Map, SearchTree, SortedList};
use littoral_stm::{Abort, Access, Options, Pool, Ref, Result};

use super::counts::{self, memory};
use super::engine::{Engine, Job, Worker};
use super::tl2::Tl2;
use super::undo::Undo;
use super::work::{self, Object, Run, Zipf, median};
use crate::claims::Figure;

/// A figure under its id.
pub type Named = (String, Figure);

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds in which the engines take turns.
    pub rounds: usize,
    /// Operations of a fast structure a thread and round; slow ones take a part of it.
    pub ops: u64,
    /// Crash images.
    pub images: u64,
    /// Histories.
    pub histories: u64,
    /// Records loaded for YCSB.
    pub records: u64,
}

impl Effort {
    /// What `--quick` does: the smallest counts.
    pub const QUICK: Effort =
        Effort { rounds: 3, ops: 40_000, images: 100_000, histories: 10_000, records: 1_000_000 };
    /// What a full run does.
    pub const FULL: Effort =
        Effort { rounds: 7, ops: 200_000, images: 10_000_000, histories: 1_000_000, ..Self::QUICK };
}

/// Takes every figure; `folder` holds the pools of the restart figure for a while.
///
/// # Errors
/// Errors of the engines; a figure that misses its target is no error.
pub fn measure(effort: &Effort, seed: u64, folder: &Path) -> Result<Vec<Named>> {
    let mut all = counted()?;
    all.extend(update_ratios(effort)?);
    all.extend(set_ratios(effort)?);
    all.extend(ycsb_ratios(effort)?);
    all.extend(papers_own(effort)?);
    all.push(restarted(folder)?);
    all.extend(assured(effort, seed)?);
    Ok(all)
}

fn named(id: impl Into<String>, value: f64, note: impl Into<String>) -> Named {
    (id.into(), Figure::new(value, note))
}

/// `sdtm.fences`, `sdtm.shared_writes`, `sdtm.lines.*`.
///
/// # Errors
/// Errors of the engines.
pub fn counted() -> Result<Vec<Named>> {
    let mut all = Vec::new();
    let mut fences = (u64::MAX, 0);
    for k in [1, 4, 16, 64] {
        let ours = counts::ours(k)?;
        fences = (fences.0.min(ours.fences.0), fences.1.max(ours.fences.1));
        if k < 64 {
            let undo = counts::undo(k)?;
            let per = |c: counts::PerTransaction| c.lines_count as f64 / counts::COUNTED as f64;
            let note = format!(
                "lines a transaction: ours {:.2}, undo log {:.2}; media bytes a transaction: {} and {}",
                per(ours),
                per(undo),
                ours.media_bytes / counts::COUNTED,
                undo.media_bytes / counts::COUNTED
            );
            all.push(named(format!("sdtm.lines.k{k}"), per(ours) / per(undo), note));
        }
    }
    let reads = counts::read_only_fences()?;
    let figure = Figure::new(fences.1 as f64, "1000 transactions each of 1, 4, 16 and 64 objects")
        .provided(fences.0 == fences.1, "every transaction takes the same number")
        .provided(reads == 0, "read-only transactions store, write back and fence nothing");
    all.push(("sdtm.fences".to_owned(), figure));
    let shared = counts::shared_writes(10_000)?;
    let note = format!("2 threads, 10^4 disjoint transactions each, {} lines", shared.lines_count);
    all.push(named("sdtm.shared_writes", shared.common_count as f64, note));
    Ok(all)
}

const POOL_BYTES: usize = 64 << 20;

/// Every engine with what was built on it.
struct Rivals<T> {
    ours: (Pool<FlushFence>, T),
    undo: (Undo<FlushFence>, T),
    tl2: (Tl2<FlushFence>, T),
    dude: (Tl2<FlushFence>, T),
}

/// Builds something on an engine.
trait Build {
    type Out;
    fn build<E: Engine>(&self, engine: &E) -> Result<Self::Out>;
}

/// Runs a workload on an engine.
trait Load<T> {
    fn run<E: Engine>(&self, engine: &E, on: &T) -> Result<Run>;
}

impl<T> Rivals<T> {
    fn new(bytes: usize, build: &impl Build<Out = T>) -> Result<Self> {
        let with = |engine| Ok::<_, littoral_stm::Error>((build.build(&engine)?, engine));
        let (on_ours, ours) = {
            let pool = Pool::create(memory(bytes)?, &Options::default())?;
            (build.build(&pool)?, pool)
        };
        let (on_undo, undo) = {
            let undo = Undo::new(memory(bytes)?, true);
            (build.build(&undo)?, undo)
        };
        let (on_tl2, tl2) = with(Tl2::redo(memory(bytes)?))?;
        let (on_dude, dude) = with(Tl2::replaying(memory(bytes)?, memory(bytes)?))?;
        Ok(Rivals {
            ours: (ours, on_ours),
            undo: (undo, on_undo),
            tl2: (tl2, on_tl2),
            dude: (dude, on_dude),
        })
    }

    /// Rounds of turns: ours, undo, tl2, dude.
    fn turns(&self, rounds: usize, load: &impl Load<T>) -> Result<Vec<[Run; 4]>> {
        let round = || -> Result<[Run; 4]> {
            Ok([
                load.run(&self.ours.0, &self.ours.1)?,
                load.run(&self.undo.0, &self.undo.1)?,
                load.run(&self.tl2.0, &self.tl2.1)?,
                load.run(&self.dude.0, &self.dude.1)?,
            ])
        };
        round()?;
        (0..rounds).map(|_| round()).collect()
    }
}

const RIVALS: [(&str, usize); 3] = [("vs_undo", 1), ("vs_tl2", 2), ("vs_dude", 3)];

fn ratios(id: &str, rounds: &[[Run; 4]], rivals: &[(&str, usize)]) -> Vec<Named> {
    let speed = |i: usize| median(rounds.iter().map(|r| r[i].per_cpu_second()).collect());
    let share = |i: usize| {
        let (a, n) =
            rounds.iter().fold((0, 0), |(a, n), r| (a + r[i].aborts_count, n + r[i].ops_count));
        100.0 * a as f64 / n.max(1) as f64
    };
    let named = |&(name, i): &(&str, usize)| {
        let ratio = rounds.iter().map(|r| r[0].per_cpu_second() / r[i].per_cpu_second()).collect();
        let note = format!(
            "{:.3} against {:.3} Mops a CPU second; aborts {:.2} % and {:.2} %; {} rounds",
            speed(0) / 1e6,
            speed(i) / 1e6,
            share(0),
            share(i),
            rounds.len()
        );
        named(format!("{id}.{name}"), median(ratio), note)
    };
    rivals.iter().map(named).collect()
}

struct Objects;
impl Build for Objects {
    type Out = Vec<Ref<Object>>;
    fn build<E: Engine>(&self, engine: &E) -> Result<Self::Out> {
        work::objects(engine, 10_000)
    }
}

struct Updates {
    k: usize,
    ops: u64,
}
impl Load<Vec<Ref<Object>>> for Updates {
    fn run<E: Engine>(&self, engine: &E, on: &Vec<Ref<Object>>) -> Result<Run> {
        work::updates(engine, on, self.k, 1, self.ops / self.k as u64)
    }
}

/// `sdtm.update.k*.vs_undo`, with TL2 and the replaying baseline beside it.
///
/// # Errors
/// Errors of the engines.
pub fn update_ratios(effort: &Effort) -> Result<Vec<Named>> {
    let rivals = Rivals::new(POOL_BYTES, &Objects)?;
    let mut all = Vec::new();
    for k in [1, 4, 16] {
        let rounds = rivals.turns(effort.rounds, &Updates { k, ops: effort.ops })?;
        all.extend(ratios(&format!("sdtm.update.k{k}"), &rounds, &RIVALS));
    }
    Ok(all)
}

/// Makes and half fills a map of the paper's sizes.
struct Filled<F> {
    keys: u64,
    make: F,
}

macro_rules! filled {
    ($name:ident, $map:ty, $create:expr) => {
        struct $name;
        impl Job for $name {
            type Out = $map;
            fn run<A: Access>(&mut self, tx: &mut A) -> std::result::Result<$map, Abort> {
                let create: fn(&mut A) -> std::result::Result<$map, Abort> = $create;
                create(tx)
            }
        }
        impl Build for Filled<$name> {
            type Out = $map;
            fn build<E: Engine>(&self, engine: &E) -> Result<$map> {
                let Filled { keys, make: $name } = self;
                let map = engine.worker()?.update(&mut $name)?;
                work::fill(engine, &map, *keys)?;
                Ok(map)
            }
        }
    };
}
filled!(MakeHash, HashMap, |tx| HashMap::create(tx, 10_000));
filled!(MakeTree, SearchTree, |tx| SearchTree::create(tx));
filled!(MakeList, SortedList, |tx| SortedList::create(tx));

struct Sets {
    keys: u64,
    percent: u64,
    threads: usize,
    ops: u64,
}
impl<M: Map + Sync> Load<M> for Sets {
    fn run<E: Engine>(&self, engine: &E, on: &M) -> Result<Run> {
        work::sets(engine, on, self.keys, self.percent, self.threads, self.ops)
    }
}

fn sets_of<M: Map + Sync>(
    name: &str,
    build: &impl Build<Out = M>,
    keys: u64,
    ops: u64,
    rounds: usize,
) -> Result<Vec<Named>> {
    let rivals = Rivals::new(POOL_BYTES, build)?;
    let mut all = Vec::new();
    for percent in [2, 20, 80] {
        for threads in [1, 2] {
            let rounds = rivals.turns(rounds, &Sets { keys, percent, threads, ops })?;
            all.extend(ratios(&format!("sdtm.{name}.u{percent}.t{threads}"), &rounds, &RIVALS));
        }
    }
    Ok(all)
}

/// `sdtm.{hash,bst,list}.*` and `sdtm.hash.u2.vs_volatile`.
///
/// # Errors
/// Errors of the engines.
pub fn set_ratios(effort: &Effort) -> Result<Vec<Named>> {
    let Effort { rounds, ops, .. } = *effort;
    let mut all =
        sets_of("hash", &Filled { keys: 20_000, make: MakeHash }, 20_000, 5 * ops, rounds)?;
    all.extend(sets_of("bst", &Filled { keys: 20_000, make: MakeTree }, 20_000, ops, rounds)?);
    all.extend(sets_of("list", &Filled { keys: 512, make: MakeList }, 512, ops / 4, rounds)?);
    all.push(beside_volatile(effort)?);
    Ok(all)
}

fn beside_volatile(effort: &Effort) -> Result<Named> {
    let build = Filled { keys: 20_000, make: MakeHash };
    let ours = Pool::create(memory(POOL_BYTES)?, &Options::default())?;
    let plain = Undo::new(memory(POOL_BYTES)?, false);
    let (on_ours, on_plain) = (build.build(&ours)?, build.build(&plain)?);
    let load = Sets { keys: 20_000, percent: 2, threads: 1, ops: 10 * effort.ops };
    let mut ratio = Vec::new();
    for _ in 0..=effort.rounds {
        let a = load.run(&ours, &on_ours)?.per_cpu_second();
        ratio.push(a / load.run(&plain, &on_plain)?.per_cpu_second());
    }
    ratio.remove(0);
    let note =
        "durable 2 % updates against the same map without log or flush behind a lock, 1 thread";
    Ok(named("sdtm.hash.u2.vs_volatile", median(ratio), note))
}

struct MakeBTree;
impl Job for MakeBTree {
    type Out = BTree;
    fn run<A: Access>(&mut self, tx: &mut A) -> std::result::Result<BTree, Abort> {
        BTree::create(tx)
    }
}

struct Loaded(u64);
impl Build for Loaded {
    type Out = BTree;
    fn build<E: Engine>(&self, engine: &E) -> Result<BTree> {
        let tree = engine.worker()?.update(&mut MakeBTree)?;
        work::load(engine, &tree, self.0)?;
        Ok(tree)
    }
}

struct Ycsb<'z> {
    which: char,
    zipf: &'z Zipf,
    threads: usize,
    ops: u64,
}
impl Load<BTree> for Ycsb<'_> {
    fn run<E: Engine>(&self, engine: &E, on: &BTree) -> Result<Run> {
        work::ycsb(engine, on, self.which, self.zipf, self.threads, self.ops)
    }
}

/// `sdtm.ycsb.{a,b,c,d}` at two threads, and `sdtm.scale` up to the cores present.
///
/// # Errors
/// Errors of the engines.
pub fn ycsb_ratios(effort: &Effort) -> Result<Vec<Named>> {
    let rivals = Rivals::new(1 << 30, &Loaded(effort.records))?;
    let zipf = Zipf::new(effort.records);
    let mut all = Vec::new();
    for which in ['a', 'b', 'c', 'd'] {
        let load = Ycsb { which, zipf: &zipf, threads: 2, ops: effort.ops };
        let rounds = rivals.turns(effort.rounds, &load)?;
        let beside = [("vs_undo", 1), ("vs_dude", 3)];
        all.extend(ratios(&format!("sdtm.ycsb.{which}"), &rounds, &beside));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let speed = |threads| -> Result<f64> {
        let load = Ycsb { which: 'a', zipf: &zipf, threads, ops: effort.ops };
        let runs = (0..effort.rounds).map(|_| load.run(&rivals.ours.0, &rivals.ours.1));
        Ok(median(runs.map(|r| r.map(|r| r.per_second())).collect::<Result<Vec<_>>>()?))
    };
    let (one, many) = (speed(1)?, speed(cores)?);
    let note = format!(
        "YCSB A, wall, {cores} cores present: {:.3} and {:.3} Mops/s",
        one / 1e6,
        many / 1e6
    );
    all.push(named("sdtm.scale", many / one, note));
    Ok(all)
}

/// Nanoseconds of `step` on each of `threads` threads at once, an operation.
fn ns_each(threads: usize, n: u64, step: impl Fn() + Sync) -> f64 {
    let step = &step;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || (0..n).for_each(|_| step()));
        }
    });
    start.elapsed().as_secs_f64() * 1e9 / n as f64
}

/// `sdtm.clock.*`, `sdtm.write_latency.*`, `sdtm.undo_redo`, `sdtm.extend`, `sdtm.readonly`.
///
/// # Errors
/// Errors of the engines.
pub fn papers_own(effort: &Effort) -> Result<Vec<Named>> {
    let mut all = clocks();
    all.extend(write_latencies()?);
    let rivals = Rivals::new(POOL_BYTES, &Filled { keys: 20_000, make: MakeTree })?;
    let load = Sets { keys: 20_000, percent: 50, threads: 2, ops: effort.ops };
    let rounds = rivals.turns(effort.rounds, &load)?;
    let ratio = rounds.iter().map(|r| r[1].per_cpu_second() / r[2].per_cpu_second()).collect();
    all.push(named(
        "sdtm.undo_redo",
        median(ratio),
        "undo over redo log, tree, half updates, 2 threads",
    ));
    all.push(extension(effort)?);
    all.push(long_reads(effort)?);
    Ok(all)
}

fn clocks() -> Vec<Named> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let n = 2_000_000;
    let mut all = Vec::new();
    for threads in 1..=cores {
        let (counter, locked) = (AtomicU64::new(0), Mutex::new(0u64));
        let own = ns_each(threads, n, || {
            std::hint::black_box(std::hint::black_box(1u64) + 1);
        });
        let mut push = |name: &str, ns: f64| {
            let id = format!("sdtm.clock.{name}.t{threads}");
            all.push(named(id, ns / own.max(1e-3), format!("{ns:.2} ns against {own:.2} ns")));
        };
        push(
            "fetch_add",
            ns_each(threads, n, || {
                std::hint::black_box(counter.fetch_add(1, AcqRel));
            }),
        );
        let swap = || {
            let _ = std::hint::black_box(counter.fetch_update(AcqRel, Acquire, |v| Some(v + 1)));
        };
        push("cas", ns_each(threads, n, swap));
        push(
            "mutex",
            ns_each(threads, n / 4, || *locked.lock().expect("invariant: no panic") += 1),
        );
    }
    all
}

fn write_latencies() -> Result<Vec<Named>> {
    let domain = memory(POOL_BYTES)?;
    let mut all = Vec::new();
    for bytes in [64usize, 256, 1024, 4096] {
        let n = 20_000u64;
        let start = Instant::now();
        for i in 0..n {
            let at = littoral_base::rng::mix(i) as usize % (POOL_BYTES / 4096) * 4096;
            (0..bytes / 8).for_each(|w| domain.store(at + 8 * w, i, Relaxed));
            domain.write_back(at, bytes);
            domain.fence().map_err(counts::device)?;
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / n as f64;
        let note = "random store, write-back, fence; DRAM, nothing modelled";
        all.push(named(format!("sdtm.write_latency.b{bytes}"), ns, note));
    }
    Ok(all)
}

fn extension(effort: &Effort) -> Result<Named> {
    let build = Filled { keys: 512, make: MakeList };
    let pool = Pool::create(memory(POOL_BYTES)?, &Options::default())?;
    let list = build.build(&pool)?;
    let aborts = |extends: bool| {
        let run = work::measure(&pool, 2, effort.ops / 4, |th, t, i| {
            th.set_extension(extends);
            let key = littoral_base::rng::mix(i << 1 | t as u64) % 512;
            let op = if i % 2 == 0 { work::Op::Insert } else { work::Op::Remove };
            th.update(&mut work::OnMap { map: &list, op, key }).map(drop)
        });
        run.map(|r| r.aborts_count as f64 / r.ops_count as f64)
    };
    let (without, with) = (aborts(false)?, aborts(true)?);
    let note =
        format!("aborts an operation {with:.4} with and {without:.4} without; list, all updates");
    Ok(named("sdtm.extend", with / without.max(1e-9), note))
}

/// Long scans beside a writer: attempts lost with snapshots over those lost without.
fn long_reads(effort: &Effort) -> Result<Named> {
    let pool = Pool::create(memory(POOL_BYTES)?, &Options::default())?;
    let objects = work::objects(&pool, 4096)?;
    let lost = |snapshots: bool| -> Result<f64> {
        let (stop, mut reader, mut writer) =
            (std::sync::atomic::AtomicBool::new(false), pool.thread()?, pool.thread()?);
        let scans = 50 * effort.rounds as u64;
        std::thread::scope(|scope| {
            let (objects, stop) = (&objects, &stop);
            let writes = scope.spawn(move || -> Result<()> {
                let mut i = 0;
                while !stop.load(Relaxed) {
                    let picks = [littoral_base::rng::mix(i) as usize % 4096];
                    writer.update(&mut work::Write { objects, picks: &picks, value: i })?;
                    i += 1;
                    // Seldom enough that a scan meets few writes, often enough that it meets some.
                    (0..2000).for_each(|_| std::hint::spin_loop());
                }
                Ok(())
            });
            let scan = |tx: &mut littoral_stm::Tx<'_, '_, FlushFence>| {
                objects.iter().try_for_each(|&o| tx.read(o).map(drop))
            };
            for _ in 0..scans {
                if snapshots { reader.snapshot(scan)? } else { reader.read_only(scan)? }
            }
            stop.store(true, Relaxed);
            writes.join().expect("invariant: no panic")
        })?;
        Ok(reader.stats().aborts_count as f64 / scans as f64)
    };
    let (without, with) = (lost(false)?, lost(true)?);
    let note =
        format!("attempts lost a scan of 4096 objects: {with:.4} with and {without:.4} without");
    Ok(named("sdtm.readonly", with / without.max(1e-9), note))
}

/// `sdtm.restart`.
///
/// # Errors
/// When the folder has no room, or of the engine.
pub fn restarted(folder: &Path) -> Result<Named> {
    let (small, _) = counts::restart(folder, 64 << 20)?;
    let (large, scan) = counts::restart(folder, 4 << 30)?;
    let note = format!(
        "half full, after a crash, median of 5: {:.0} us and {:.0} us; the large one by scan {:.0} us",
        small.as_secs_f64() * 1e6,
        large.as_secs_f64() * 1e6,
        scan.as_secs_f64() * 1e6
    );
    Ok(named("sdtm.restart", large.as_secs_f64() / small.as_secs_f64(), note))
}

/// `sdtm.assure.images` and `.histories`: how many were checked, on condition that none was bad.
///
/// # Errors
/// Errors of the pool.
pub fn assured(effort: &Effort, seed: u64) -> Result<Vec<Named>> {
    let crash = crash::run(&crash::Effort {
        seed,
        images_max: effort.images,
        images_per_point_max: 64,
        nested_one_in: 97,
    })?;
    let images = Figure::new(
        crash.images_count as f64,
        format!(
            "{} workloads, {} with overlapping commits, {} images of crashes inside recovery",
            crash.workloads_count, crash.overlapping_count, crash.nested_count
        ),
    )
    .provided(crash.violation.is_none(), format!("no violation: {:?}", crash.violation));
    let pool = Pool::create(memory(1 << 20)?, &Options::default())?;
    let found = opacity::run(&pool, 3, effort.histories, seed)?;
    let histories = Figure::new(
        found.histories_count as f64,
        format!(
            "real threads; {} histories overlap, {} of {} attempts aborted",
            found.overlapping_count, found.aborted_count, found.attempts_count
        ),
    )
    .provided(found.violation.is_none(), format!("no violation: {:?}", found.violation));
    Ok(vec![
        ("sdtm.assure.images".to_owned(), images),
        ("sdtm.assure.histories".to_owned(), histories),
    ])
}
