//! The figures of system `sdtm` that ratios and counts answer, each under its id.
//!
//! - Sizes are the issue's; [`Effort::QUICK`] cuts rounds, operations and the length of the
//!   assurance only.
//! - Ratios are ours over the baseline's, operations a second of process processor time, engines
//!   taking turns within each round ([`super::rivals`]), median of rounds.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use littoral_assure::stm::{crash, flip, opacity};
use littoral_stm::structures::{BTree, HashMap, Map, SearchTree, SortedList};
use littoral_stm::{Abort, Access, Options, Pool, Ref, Result};

use super::counts::{self, memory};
use super::engine::{Engine, Job, Worker};
use super::rivals::{Build, Load, Rivals, Who, named};
use super::undo::Undo;
use super::work::{self, Object, Run, Table, Zipf, median};
use littoral_bench::claims::Figure;

pub use super::rivals::Named;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds in which the engines take turns.
    pub rounds: usize,
    /// Operations of a search tree, a thread and round; others take a multiple or a part of it.
    pub ops: u64,
    /// Crash images.
    pub images: u64,
    /// Histories.
    pub histories: u64,
    /// Flipped bits.
    pub flips: u64,
    /// Records loaded for YCSB.
    pub records: u64,
}

impl Effort {
    /// What `--quick` does: the smallest counts.
    pub const QUICK: Effort = Effort {
        rounds: 5,
        ops: 150_000,
        images: 100_000,
        histories: 10_000,
        flips: 10_000,
        records: 1_000_000,
    };
    /// What a full run does.
    pub const FULL: Effort = Effort {
        rounds: 11,
        ops: 120_000,
        images: 10_000_000,
        histories: 1_000_000,
        flips: 100_000,
        ..Self::QUICK
    };
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

pub(super) const POOL_BYTES: usize = 64 << 20;
const ALL: [Who; 5] = [Who::Ours, Who::Undo, Who::Tl2, Who::Dude, Who::Paper];

/// Objects that updates pick from.
pub(super) const OBJECTS: usize = 10_000;

pub(super) struct Objects;
impl Build for Objects {
    type Out = Vec<Ref<Object>>;
    fn build<E: Engine>(&self, engine: &E) -> Result<Self::Out> {
        work::objects(engine, OBJECTS)
    }
}

pub(super) struct Updates {
    pub(super) k: usize,
    /// Objects written in all.
    pub(super) ops: u64,
}
impl Updates {
    pub(super) fn transactions(&self) -> u64 {
        self.ops / self.k as u64
    }
}
impl Load<Vec<Ref<Object>>> for Updates {
    fn run<E: Engine>(&self, engine: &E, on: &Vec<Ref<Object>>) -> Result<Run> {
        work::updates(engine, on, self.k, 1, self.transactions())
    }
}

/// `sdtm.update.k*.vs_undo`; the other baselines stand in its notes.
///
/// # Errors
/// Errors of the engines.
pub fn update_ratios(effort: &Effort) -> Result<Vec<Named>> {
    let who = [ALL.as_slice(), &[Who::PaperScan]].concat();
    let rivals = Rivals::new(&who, POOL_BYTES, &Objects)?;
    let mut all = Vec::new();
    for k in [1, 4, 16] {
        let turns = rivals.turns(effort.rounds, &Updates { k, ops: 2 * effort.ops })?;
        let (id, mut figure) = turns.versus(&format!("sdtm.update.k{k}"), Who::Undo);
        for other in [Who::Tl2, Who::Dude, Who::Paper, Who::PaperScan] {
            let (words, ratio) = (other.rival(), turns.ratio(Who::Ours, other)[1]);
            figure.notes.push(format!("{words} {ratio:.2}"));
        }
        all.push((id, figure));
    }
    Ok(all)
}

/// Makes and half fills a map of the paper's sizes.
pub(super) struct Filled<F> {
    pub(super) keys: u64,
    pub(super) make: F,
}

macro_rules! filled {
    ($name:ident, $map:ty, $create:expr) => {
        pub(super) struct $name;
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

pub(super) struct Sets {
    pub(super) keys: u64,
    pub(super) percent: u64,
    pub(super) threads: usize,
    pub(super) ops: u64,
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
    let rivals = Rivals::new(&ALL, POOL_BYTES, build)?;
    let mut all = Vec::new();
    for percent in [2, 20, 80] {
        for threads in [1, 2] {
            let turns = rivals.turns(rounds, &Sets { keys, percent, threads, ops })?;
            let id = format!("sdtm.{name}.u{percent}.t{threads}");
            let rivals = [Who::Tl2, Who::Undo, Who::Dude, Who::Paper];
            all.extend(rivals.map(|rival| turns.versus(&id, rival)));
            all.push(turns.aborts(&id));
        }
    }
    Ok(all)
}

/// `sdtm.hash.*`: 10 000 buckets, 10 000 of 20 000 keys.
///
/// # Errors
/// Errors of the engines.
pub fn hash_ratios(effort: &Effort) -> Result<Vec<Named>> {
    let build = Filled { keys: 20_000, make: MakeHash };
    let mut all = sets_of("hash", &build, 20_000, 3 * effort.ops, effort.rounds)?;
    all.push(beside_volatile(effort)?);
    Ok(all)
}

/// `sdtm.bst.*`: 10 000 of 20 000 keys.
///
/// # Errors
/// Errors of the engines.
pub fn tree_ratios(effort: &Effort) -> Result<Vec<Named>> {
    let build = Filled { keys: 20_000, make: MakeTree };
    sets_of("bst", &build, 20_000, effort.ops, effort.rounds)
}

/// `sdtm.list.*`: 256 of 512 keys.
///
/// # Errors
/// Errors of the engines.
pub fn list_ratios(effort: &Effort) -> Result<Vec<Named>> {
    let build = Filled { keys: 512, make: MakeList };
    sets_of("list", &build, 512, effort.ops / 3, effort.rounds)
}

/// Durable 2 % updates beside the same map without log or flush behind a reader-writer lock.
fn beside_volatile(effort: &Effort) -> Result<Named> {
    let build = Filled { keys: 20_000, make: MakeHash };
    let ours = Pool::create(memory(POOL_BYTES)?, &Options::default())?;
    let plain = Undo::new(memory(POOL_BYTES)?, false);
    let (on_ours, on_plain) = (build.build(&ours)?, build.build(&plain)?);
    let ratio = |threads| -> Result<f64> {
        let load = Sets { keys: 20_000, percent: 2, threads, ops: 4 * effort.ops };
        let mut all = Vec::new();
        for round in 0..=effort.rounds {
            let (first, second) = if round % 2 == 0 {
                let first = load.run(&ours, &on_ours)?;
                (first, load.run(&plain, &on_plain)?)
            } else {
                let second = load.run(&plain, &on_plain)?;
                (load.run(&ours, &on_ours)?, second)
            };
            all.push(first.per_cpu_second() / second.per_cpu_second());
        }
        Ok(median(all.split_off(1)))
    };
    let (one, two) = (ratio(1)?, ratio(2)?);
    let note = format!("1 thread {one:.3}, 2 threads {two:.3}; the less counts");
    Ok(named("sdtm.hash.u2.vs_volatile", one.min(two), note))
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
    type Out = Table<BTree>;
    fn build<E: Engine>(&self, engine: &E) -> Result<Table<BTree>> {
        let map = engine.worker()?.update(&mut MakeBTree)?;
        work::load(engine, &map, self.0)?;
        Ok(Table { map, next: AtomicU64::new(self.0) })
    }
}

struct Ycsb<'z> {
    which: char,
    zipf: &'z Zipf,
    threads: usize,
    ops: u64,
}
impl Load<Table<BTree>> for Ycsb<'_> {
    fn run<E: Engine>(&self, engine: &E, on: &Table<BTree>) -> Result<Run> {
        work::ycsb(engine, on, self.which, self.zipf, self.threads, self.ops)
    }
}

/// `sdtm.ycsb.{a,b,c,d}` at two threads, and `sdtm.scale` up to the cores present.
///
/// # Errors
/// Errors of the engines.
pub fn ycsb_ratios(effort: &Effort) -> Result<Vec<Named>> {
    let who = [Who::Ours, Who::Undo, Who::Dude];
    let rivals = Rivals::new(&who, 1 << 30, &Loaded(effort.records))?;
    let zipf = Zipf::new(effort.records);
    let mut all = Vec::new();
    for which in ['a', 'b', 'c', 'd'] {
        let load = Ycsb { which, zipf: &zipf, threads: 2, ops: effort.ops };
        let turns = rivals.turns(effort.rounds, &load)?;
        let id = format!("sdtm.ycsb.{which}");
        all.extend([Who::Undo, Who::Dude].map(|rival| turns.versus(&id, rival)));
    }
    all.push(scaling(effort, &rivals, &zipf)?);
    Ok(all)
}

/// YCSB A from one thread to as many as there are cores, operations a second of wall time.
fn scaling(effort: &Effort, rivals: &Rivals<Table<BTree>>, zipf: &Zipf) -> Result<Named> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let run = |threads| {
        let load = Ycsb { which: 'a', zipf, threads, ops: effort.ops };
        Ok(rivals.run(Who::Ours, &load)?.per_second())
    };
    let mut rounds = Vec::new();
    for _ in 0..effort.rounds {
        rounds.push((1..=cores).map(run).collect::<Result<Vec<f64>>>()?);
    }
    let speed = |threads: usize| median(rounds.iter().map(|r| r[threads - 1]).collect());
    let words: Vec<_> = (1..=cores).map(|n| format!("{n}: {:.3}", speed(n) / 1e6)).collect();
    let note = format!("{cores} cores present; Mops/s by threads {}", words.join(", "));
    let ratio = median(rounds.iter().map(|r| r[cores - 1] / r[0]).collect());
    Ok(named("sdtm.scale", ratio, note))
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

/// `sdtm.assure.images`: how many were checked, on condition that none was bad.
///
/// # Errors
/// Errors of the pool.
pub fn crash_images(effort: &Effort, seed: u64) -> Result<Named> {
    let crash = crash::run(&crash::Effort {
        seed,
        images_max: effort.images,
        images_per_point_max: 64,
        nested_one_in: 97,
    })?;
    let note = format!(
        "{} workloads, {} with overlapping commits, {} images of crashes inside recovery",
        crash.workloads_count, crash.overlapping_count, crash.nested_count
    );
    let figure = Figure::new(crash.images_count as f64, note)
        .provided(crash.violation.is_none(), format!("no violation: {:?}", crash.violation));
    Ok(("sdtm.assure.images".to_owned(), figure))
}

/// `heap.flip.silent` and `heap.flip.panics`.
///
/// # Errors
/// Errors of the pool before a bit was flipped.
pub fn flips(effort: &Effort, seed: u64) -> Result<Vec<Named>> {
    let found = flip::run(effort.flips, seed)?;
    let note = format!(
        "{} bits of superblock, frontier lines, slab table, stamps and roots, one at a time: {} \
         refused, {} harmless; first fault {:?}",
        found.bits_count, found.refused_count, found.harmless_count, found.first
    );
    let figure = |value: u64| {
        Figure::new(value as f64, note.clone())
            .provided(found.bits_count >= 10_000, "at least 10^4 bits were flipped")
            .provided(found.refused_count > 0, "damage was seen")
    };
    Ok(vec![
        ("heap.flip.silent".to_owned(), figure(found.silent_count)),
        ("heap.flip.panics".to_owned(), figure(found.panics_count)),
    ])
}

/// `sdtm.assure.histories`, on condition that none was bad.
///
/// # Errors
/// Errors of the pool.
pub fn histories(effort: &Effort, seed: u64) -> Result<Named> {
    let pool = Pool::create(memory(1 << 20)?, &Options::default())?;
    let found = opacity::run(&pool, 3, effort.histories, seed)?;
    let note = format!(
        "real threads; {} histories overlap, {} of {} attempts aborted",
        found.overlapping_count, found.aborted_count, found.attempts_count
    );
    let figure = Figure::new(found.histories_count as f64, note)
        .provided(found.violation.is_none(), format!("no violation: {:?}", found.violation));
    Ok(("sdtm.assure.histories".to_owned(), figure))
}
