//! The paper's own figures: clocks, write latency by granularity, undo and redo, extension, long
//! read-only transactions.
//!
//! The paper gives curves, not numbers, for these; each figure here is reported beside the words of
//! the claim, without a target.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Instant;

use littoral_base::rng::mix;
use littoral_device::memory::Domain;
use littoral_device::pmem::{FlushFence, Paced};
use littoral_device::profile::Profile;
use littoral_stm::structures::SortedList;
use littoral_stm::{Options, Pool, Ref, Result, Thread, Tx};

use super::claims::{Effort, Filled, MakeList, MakeTree, POOL_BYTES, Sets};
use super::counts::{device, memory};
use super::engine::Worker as _;
use super::rivals::{Build, Named, Rivals, Who, named};
use super::work;

/// Nanoseconds an operation of `steps(n)` on each of `threads` threads at once.
fn ns_each(threads: usize, n: u64, steps: impl Fn(u64) + Sync) -> f64 {
    let steps = &steps;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || steps(n));
        }
    });
    start.elapsed().as_secs_f64() * 1e9 / n as f64
}

const CLOCK_STEPS: u64 = 2_000_000;

fn own_clock_ns(threads: usize) -> f64 {
    ns_each(threads, CLOCK_STEPS, |n| {
        let mut clock = 0u64;
        for _ in 0..n {
            *black_box(&mut clock) += 1;
        }
    })
}

/// Nanoseconds a step of a global clock by mutex, fetch-and-add and compare-and-swap.
fn global_clocks_ns(threads: usize) -> [(&'static str, f64); 3] {
    let (counter, locked) = (AtomicU64::new(0), Mutex::new(0u64));
    let lock = |n| (0..n).for_each(|_| *locked.lock().expect("invariant: no panic") += 1);
    let add = |n| {
        for _ in 0..n {
            black_box(counter.fetch_add(1, AcqRel));
        }
    };
    let swap = |n| {
        for _ in 0..n {
            let next = counter.fetch_update(AcqRel, Acquire, |v| Some(v + 1));
            black_box(next).expect("invariant: the update is always some");
        }
    };
    [
        ("mutex", ns_each(threads, CLOCK_STEPS / 4, lock)),
        ("fetch_add", ns_each(threads, CLOCK_STEPS, add)),
        ("cas", ns_each(threads, CLOCK_STEPS, swap)),
    ]
}

/// `sdtm.clock.*`: at one and two threads, and in the notes up to the cores present.
pub fn clocks(effort: &Effort) -> Vec<Named> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = Vec::new();
    for threads in 1..=cores.max(2) {
        let mut rounds = Vec::new();
        for _ in 0..effort.rounds {
            rounds.push((own_clock_ns(threads), global_clocks_ns(threads)));
        }
        for (i, name) in ["mutex", "fetch_add", "cas"].into_iter().enumerate() {
            let global = work::median(rounds.iter().map(|r| r.1[i].1).collect());
            let own = work::median(rounds.iter().map(|r| r.0).collect());
            let ratio = work::median(rounds.iter().map(|r| r.1[i].1 / r.0).collect());
            let note = format!(
                "{threads} threads on {cores} cores: {global:.2} ns a step against {own:.2} ns; \
                 median of {}",
                effort.rounds
            );
            all.push(named(format!("sdtm.clock.{name}.t{threads}"), ratio, note));
        }
    }
    fold_beyond_two(all)
}

/// Claims name one and two threads; what was measured beyond goes into the notes of two.
fn fold_beyond_two(all: Vec<Named>) -> Vec<Named> {
    let is_kept = |n: &Named| n.0.ends_with(".t1") || n.0.ends_with(".t2");
    let (mut kept, more): (Vec<Named>, Vec<Named>) = all.into_iter().partition(is_kept);
    for (id, figure) in more {
        let stem = &id[..id.rfind('.').unwrap_or(id.len())];
        let two = format!("{stem}.t2");
        let words = format!("{:.1} at {}", figure.value, figure.notes.join("; "));
        kept.iter_mut().filter(|n| n.0 == two).for_each(|n| n.1.notes.push(words.clone()));
    }
    kept
}

/// Nanoseconds to store, write back and fence `bytes` at random places.
fn write_ns(domain: &impl Domain, bytes: usize, n: u64) -> Result<f64> {
    let places = domain.len() / bytes;
    let start = Instant::now();
    for i in 0..n {
        let at = mix(i) as usize % places * bytes;
        (0..bytes / 8).for_each(|w| domain.store(at + 8 * w, i, Relaxed));
        domain.write_back(at, bytes);
        domain.fence().map_err(device)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / n as f64)
}

/// `sdtm.write_latency.*`: DRAM, and in the notes the modelled part.
///
/// # Errors
/// Errors of the memory.
pub fn write_latencies(effort: &Effort) -> Result<Vec<Named>> {
    let domain = memory(POOL_BYTES)?;
    // Every page is there before anything is timed.
    (0..POOL_BYTES).step_by(4096).for_each(|at| domain.store(at, 1, Relaxed));
    let shipped = "invariant: the profile is shipped";
    let profile = Profile::named("optane-dcpmm").expect(shipped);
    let paced = Paced::new(memory(POOL_BYTES)?, profile.memory().expect(shipped));
    (0..POOL_BYTES).step_by(4096).for_each(|at| paced.store(at, 1, Relaxed));
    let mut all = Vec::new();
    for bytes in [64, 256, 1024, 4096] {
        let rounds = (0..effort.rounds).map(|_| write_ns(&domain, bytes, 20_000));
        let ns = work::median(rounds.collect::<Result<_>>()?);
        let modelled = write_ns(&paced, bytes, 2_000)?;
        let note = format!(
            "random places in 64 MiB of DRAM, wall, nothing modelled, median of {}; paced by {}, \
             the model's own work included: {modelled:.0} ns",
            effort.rounds,
            profile.name()
        );
        all.push(named(format!("sdtm.write_latency.b{bytes}"), ns, note));
    }
    Ok(all)
}

/// `sdtm.undo_redo`: the search tree, half updates, two threads.
///
/// # Errors
/// Errors of the engines.
pub fn undo_and_redo(effort: &Effort) -> Result<Vec<Named>> {
    let who = [Who::Ours, Who::Undo, Who::Tl2];
    let rivals = Rivals::new(&who, POOL_BYTES, &Filled { keys: 20_000, make: MakeTree })?;
    let load = Sets { keys: 20_000, percent: 50, threads: 2, ops: 2 * effort.ops };
    let turns = rivals.turns(effort.rounds, &load)?;
    let [least, ratio, most] = turns.ratio(Who::Undo, Who::Tl2);
    let note = format!(
        "undo {:.3}, redo {:.3}, ours {:.3} Mops a CPU second; median of {} rounds, {least:.2} to \
         {most:.2}",
        turns.speed(Who::Undo) / 1e6,
        turns.speed(Who::Tl2) / 1e6,
        turns.speed(Who::Ours) / 1e6,
        effort.rounds
    );
    Ok(vec![named("sdtm.undo_redo", ratio, note)])
}

/// Aborts an operation of two threads that update a list.
fn list_aborts(
    pool: &Pool<FlushFence>,
    list: &SortedList,
    ops: u64,
    extends: bool,
) -> Result<(f64, f64)> {
    let run = work::measure(pool, 2, ops, |th, t, i| {
        th.set_extension(extends);
        let word = mix(i << 1 | t as u64);
        let op = if word >> 32 & 1 == 0 { work::Op::Insert } else { work::Op::Remove };
        th.update(&mut work::OnMap { map: list, op, key: word % 512 }).map(drop)
    })?;
    Ok((run.aborts_count as f64 / run.ops_count as f64, run.per_cpu_second()))
}

/// `sdtm.extend`: in turns, with and without dynamic extension.
///
/// # Errors
/// Errors of the engine.
pub fn extension(effort: &Effort) -> Result<Vec<Named>> {
    let pool = Pool::create(memory(POOL_BYTES)?, &Options::default())?;
    let list = Filled { keys: 512, make: MakeList }.build(&pool)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        with.push(list_aborts(&pool, &list, effort.ops, true)?);
        without.push(list_aborts(&pool, &list, effort.ops, false)?);
    }
    let of =
        |all: &[(f64, f64)], f: fn(&(f64, f64)) -> f64| work::median(all.iter().map(f).collect());
    let (a, b) = (of(&with, |r| r.0), of(&without, |r| r.0));
    let note = format!(
        "list of 512 keys, all updates, 2 threads: aborts in a hundred commits {:.2} with, {:.2} \
         without; operations a CPU second {:.2} of those without; median of {}",
        100.0 * a,
        100.0 * b,
        of(&with, |r| r.1) / of(&without, |r| r.1),
        effort.rounds
    );
    Ok(vec![named("sdtm.extend", a / b, note)])
}

const SCANNED: usize = 4096;
const SCANS: u64 = 500;
/// Pauses between the writer's transactions: some tens of writes fall into a scan.
const PAUSES: u32 = 50;

/// Writes random objects until told to stop; answers how many.
fn write_on(
    mut writer: Thread<'_, FlushFence>,
    objects: &[Ref<work::Object>],
    begun: &AtomicU64,
    stop: &AtomicBool,
) -> Result<u64> {
    let mut i = 0;
    while !stop.load(Relaxed) {
        let picks = [mix(i) as usize % SCANNED];
        writer.update(&mut work::Write { objects, picks: &picks, value: i })?;
        i += 1;
        begun.store(i, Relaxed);
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
    Ok(i)
}

/// Attempts lost a scan of all objects, and transactions that a writer ended meanwhile a scan.
fn lost_by_scans(
    pool: &Pool<FlushFence>,
    objects: &[Ref<work::Object>],
    snapshots: bool,
    scans: u64,
) -> Result<(f64, f64)> {
    let (stop, begun) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut reader, writer) = (pool.thread()?, pool.thread()?);
    let written = std::thread::scope(|scope| {
        let (stop, begun) = (&stop, &begun);
        let writes = scope.spawn(move || write_on(writer, objects, begun, stop));
        while begun.load(Relaxed) == 0 && !writes.is_finished() {
            std::thread::yield_now();
        }
        let first = begun.load(Relaxed);
        let scan = |tx: &mut Tx<'_, '_, FlushFence>| {
            objects.iter().try_for_each(|&o| tx.read(o).map(drop))
        };
        let each = |_| if snapshots { reader.snapshot(scan) } else { reader.read_only(scan) };
        let done = (0..scans).try_for_each(each);
        stop.store(true, Relaxed);
        let written = writes.join().expect("invariant: no panic");
        done.and(written).map(|n| n - first)
    })?;
    Ok((reader.stats().aborts_count as f64 / scans as f64, written as f64 / scans as f64))
}

/// `sdtm.readonly`: in turns, long scans with and without snapshots.
///
/// # Errors
/// Errors of the engine.
pub fn long_reads(effort: &Effort) -> Result<Vec<Named>> {
    let pool = Pool::create(memory(POOL_BYTES)?, &Options::default())?;
    let objects = work::objects(&pool, SCANNED)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        without.push(lost_by_scans(&pool, &objects, false, SCANS)?);
        with.push(lost_by_scans(&pool, &objects, true, SCANS)?);
    }
    let of =
        |all: &[(f64, f64)], f: fn(&(f64, f64)) -> f64| work::median(all.iter().map(f).collect());
    let (a, b) = (of(&with, |r| r.0), of(&without, |r| r.0));
    let note = format!(
        "attempts lost a scan of {SCANNED} objects beside a writer: {a:.3} with snapshots, {b:.3} \
         without, while {:.1} and {:.1} transactions ended; median of {} rounds of {SCANS} scans",
        of(&with, |r| r.1),
        of(&without, |r| r.1),
        effort.rounds
    );
    Ok(vec![named("sdtm.readonly", a / b, note)])
}
