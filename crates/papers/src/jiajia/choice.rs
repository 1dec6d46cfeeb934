//! One basic operation on a fabric of the caller's choice: what `littoral dsm bench` shows.
//!
//! Times are the tenth percentile and the median over batches, of the slowest rank; by the wall
//! clock on real fabrics, virtual on the simulated one. The two are never in one figure.
//!
//! Node 0 keeps the counter and hosts the board, where the fabric has one; it is rank 0.
//!
//! Invariants
//! - Operations are what the ranks asked of the fabric and what the board wrote, by counters; an
//!   operation of a rank on its own window is none. Checked by
//!   `a_contended_section_is_three_operations_wherever_there_is_a_board`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use littoral_base::units::{NodeId, Picos};
use littoral_device::pmem::FlushFence;
use littoral_dsm::core::message::LockId;
use littoral_dsm::lock::board::{BoardCounters, LockBoard};
use littoral_dsm::lock::client::BoardClient;
use littoral_dsm::lock::direct::DirectLocks;
use littoral_dsm::lock::{Barriers, LockLayout, Locks};
use littoral_fabric::Fabric;
use littoral_fabric::counted::Counted;
use littoral_fabric::mailbox::PoolAgent;
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use littoral_fabric::sim::{SimFabric, run};
use littoral_fabric::timing::Timing;

use super::counts::{shm_job, tcp_job};
use super::words;

/// A basic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Entering and leaving an empty section that every rank asks for.
    Lock,
    /// A barrier.
    Barrier,
    /// The paper's Code 1: a section that adds one to a word at node 0.
    Code1,
    /// The paper's Code 2: rank 0 writes, a barrier, all read, a barrier.
    Code2,
}

impl What {
    /// Every operation with its name.
    pub const ALL: [(&'static str, What); 4] = [
        ("lock", What::Lock),
        ("barrier", What::Barrier),
        ("code1", What::Code1),
        ("code2", What::Code2),
    ];
}

/// A fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Coherent shared memory: atomics in place of the board.
    Shm,
    /// A pool that is written back and fenced, a thread in place of the board.
    Pool,
    /// TCP on loopback, the event loop of rank 0 in place of the board.
    Tcp,
    /// Virtual time.
    Sim(Timing),
}

/// What an operation takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Took {
    /// Tenth percentile over batches, in nanoseconds an operation.
    pub p10_ns: f64,
    /// Median over batches.
    pub median_ns: f64,
    /// Operations on the fabric for one of a rank's.
    pub operations: f64,
    /// Read-modify-writes among them.
    pub rmws: f64,
}

const HOME: NodeId = NodeId(0);
const LOCK: LockId = LockId(0);
const WORD: usize = 0;
const NOTICES: usize = 64;
const WINDOW: usize = 1 << 16;

fn layout(ranks: u16) -> LockLayout {
    LockLayout::new(4096, 4, ranks)
}

/// Batches and operations of each.
#[derive(Clone, Copy, Debug)]
struct Length {
    batches: usize,
    batch: u32,
}

/// What one rank saw.
struct Seen {
    samples_ns: Vec<f64>,
    operations: u64,
    rmws: u64,
}

fn word<F: Fabric>(fabric: &F) -> Result<u64, String> {
    let mut bytes = [0; 8];
    fabric.get(HOME, WORD, &mut bytes).map_err(words)?;
    Ok(u64::from_le_bytes(bytes))
}

fn set<F: Fabric>(fabric: &F, value: u64) -> Result<(), String> {
    fabric.put(HOME, WORD, &value.to_le_bytes()).map_err(words)?;
    fabric.flush(HOME).map_err(words)
}

/// One operation of a rank, number `turn` of its own.
fn act<F: Fabric>(
    what: What,
    fabric: &F,
    locks: &mut (impl Locks + Barriers),
    turn: u64,
) -> Result<(), String> {
    match what {
        What::Barrier => locks.barrier(&[]).map_err(words).map(drop),
        What::Lock | What::Code1 => {
            locks.acquire(LOCK).map_err(words)?;
            if what == What::Code1 {
                set(fabric, word(fabric)? + 1)?;
            }
            locks.release(LOCK, &[]).map_err(words)
        }
        What::Code2 => {
            if fabric.me() == HOME {
                set(fabric, turn)?;
            }
            locks.barrier(&[]).map_err(words)?;
            let read = word(fabric)?;
            if read != turn {
                return Err(format!("rank {} read {read} in round {turn}", fabric.me()));
            }
            locks.barrier(&[]).map_err(words).map(drop)
        }
    }
}

/// A rank's batches, between two barriers of all ranks.
fn batches<F: Fabric, L: Locks + Barriers>(
    what: What,
    fabric: &Counted<F>,
    locks: &mut L,
    length: Length,
    now_ns: impl Fn() -> f64,
) -> Result<Seen, String> {
    locks.barrier(&[]).map_err(words)?;
    let before = fabric.counts();
    let mut samples_ns = Vec::with_capacity(length.batches);
    let mut turn = 0;
    for _ in 0..length.batches {
        let began = now_ns();
        for _ in 0..length.batch {
            turn += 1;
            act(what, fabric, locks, turn)?;
        }
        samples_ns.push((now_ns() - began) / f64::from(length.batch));
    }
    let after = fabric.counts();
    locks.barrier(&[]).map_err(words)?;
    if what == What::Code1 {
        let (ranks, found) = (u64::from(fabric.nodes()), word(fabric)?);
        if found != ranks * turn {
            return Err(format!("the counter is {found} after {} sections", ranks * turn));
        }
    }
    let operations = after.operations() - before.operations();
    Ok(Seen { samples_ns, operations, rmws: after.rmws_count - before.rmws_count })
}

fn together(
    what: What,
    length: Length,
    seen: Vec<Result<Seen, String>>,
    board: &BoardCounters,
) -> Result<Took, String> {
    let seen = seen.into_iter().collect::<Result<Vec<_>, _>>()?;
    let ranks = seen.len() as f64;
    let each = length.batches as f64 * f64::from(length.batch);
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>() as f64;
    let slowest = |i: usize| seen.iter().map(|s| s.samples_ns[i]).fold(0.0, f64::max);
    let mut samples: Vec<f64> = (0..length.batches).map(slowest).collect();
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| samples[((samples.len() - 1) as f64 * share) as usize];
    let board_writes = board.grants() + board.departures();
    // The two barriers around the batches are written by the board too.
    let around = if board_writes > 0 { 2.0 * ranks } else { 0.0 };
    let wrote = (board_writes as f64 - around).max(0.0);
    // Who waits long asks whether the holder lives, which is no operation of a section.
    let asked = board.questions() as f64;
    // A round of barriers is one operation of the job, a section one of a rank.
    let sharing = if matches!(what, What::Lock | What::Code1) { ranks } else { 1.0 };
    Ok(Took {
        p10_ns: at(0.1),
        median_ns: at(0.5),
        operations: (sum(|s| s.operations) - asked + wrote) / (each * sharing),
        rmws: sum(|s| s.rmws) / (each * sharing),
    })
}

fn wall() -> impl Fn() -> f64 {
    let start = Instant::now();
    move || start.elapsed().as_nanos() as f64
}

/// A thread a rank; all of them end.
fn on_threads<T: Send>(
    ranks: u16,
    body: impl Fn(u16) -> Result<T, String> + Sync,
) -> Vec<Result<T, String>> {
    std::thread::scope(|s| {
        let body = &body;
        let threads: Vec<_> = (0..ranks).map(|n| s.spawn(move || body(n))).collect();
        let ended = threads.into_iter().map(|t| t.join());
        ended.map(|r| r.unwrap_or_else(|_| Err("a rank panicked".to_owned()))).collect()
    })
}

fn in_shm(what: What, ranks: u16, length: Length) -> Result<Took, String> {
    let job = shm_job(ranks, WINDOW)?;
    let seen = on_threads(ranks, |n| {
        let fabric = Counted::new(&job[usize::from(n)]);
        batches(what, &fabric, &mut DirectLocks::new(&fabric, layout(ranks)), length, wall())
    });
    together(what, length, seen, &BoardCounters::default())
}

fn over_tcp(what: What, ranks: u16, length: Length) -> Result<Took, String> {
    let job = tcp_job(ranks, WINDOW)?;
    let board = LockBoard::new(ranks, NOTICES);
    let wrote = board.counters();
    job[0].host(Box::new(board));
    let seen = on_threads(ranks, |n| {
        let fabric = Counted::new(&job[usize::from(n)]);
        batches(what, &fabric, &mut BoardClient::new(&fabric, HOME, layout(ranks)), length, wall())
    });
    together(what, length, seen, &wrote)
}

fn over_pool(what: What, ranks: u16, length: Length) -> Result<Took, String> {
    let places = PoolLayout::new(ranks, WINDOW);
    let bytes = places.pool_bytes().next_multiple_of(4096);
    let memory = Arc::new(FlushFence::anonymous(bytes).map_err(words)?);
    let board = LockBoard::new(ranks, NOTICES);
    let wrote = board.counters();
    let mut agent =
        PoolAgent::new(Arc::clone(&memory), places, HOME, Box::new(board)).map_err(words)?;
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|s| {
        s.spawn(|| agent.serve(&stop));
        let seen = on_threads(ranks, |n| {
            let fabric = PoolFabric::new(Arc::clone(&memory), places, NodeId(n)).map_err(words)?;
            let fabric = Counted::new(fabric);
            let mut locks = BoardClient::new(&fabric, HOME, layout(ranks));
            batches(what, &fabric, &mut locks, length, wall())
        });
        stop.store(true, Ordering::Release);
        seen
    });
    together(what, length, seen, &wrote)
}

fn in_sim(what: What, ranks: u16, timing: Timing, length: Length) -> Result<Took, String> {
    let board = LockBoard::new(ranks, NOTICES);
    let wrote = board.counters();
    let board = std::sync::Mutex::new(Some(board));
    let report = run(ranks, WINDOW, timing.loggp(), |f: &SimFabric| {
        if f.me() == HOME
            && let Some(board) = board.lock().ok().and_then(|mut b| b.take())
        {
            f.host(Box::new(board));
        }
        // The board is there before a rank asks it.
        f.compute(Picos(1));
        let fabric = Counted::new(f);
        let mut locks = BoardClient::new(&fabric, HOME, layout(ranks));
        let now = || f.now().0 as f64 / 1000.0;
        let seen = batches(what, &fabric, &mut locks, length, now);
        // A node that leaves counts as dead, so no node leaves before the last operation.
        f.compute(Picos(1_000_000_000_000));
        seen
    });
    together(what, length, report.results, &wrote)
}

/// Measures `what` with `ranks` ranks `on` a fabric; `quick` cuts repetitions.
///
/// # Errors
/// What an operation failed with; fewer than two ranks.
pub fn measure(what: What, on: On, ranks: u16, quick: bool) -> Result<Took, String> {
    if ranks < 2 {
        return Err("an operation between ranks needs two or more".to_owned());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let crowd = u32::from(ranks).div_ceil(u32::try_from(cores).unwrap_or(1)).max(1);
    let length = |batches: usize, batch: u32| Length {
        batches: if quick { batches / 4 } else { batches },
        batch: (batch / crowd).max(4),
    };
    match on {
        On::Shm => in_shm(what, ranks, length(200, 400)),
        On::Pool => over_pool(what, ranks, length(100, 50)),
        On::Tcp => over_tcp(what, ranks, length(80, 40)),
        On::Sim(timing) => in_sim(what, ranks, timing, length(8, 40)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contended_section_is_three_operations_wherever_there_is_a_board() {
        let rdma = On::Sim(Timing::open("rdma").unwrap());
        for (on, ranks) in [(rdma, 2), (rdma, 6), (On::Tcp, 2), (On::Pool, 2)] {
            let took = measure(What::Lock, on, ranks, true).unwrap();
            assert_eq!((took.operations, took.rmws), (3.0, 0.0), "{on:?} {ranks}");
        }
        let took = measure(What::Lock, On::Shm, 2, true).unwrap();
        assert!(took.rmws >= 1.0, "shared memory has atomics: {took:?}");
    }

    #[test]
    fn equal_measurements_in_virtual_time_are_equal() {
        let on = On::Sim(Timing::open("loongson-2e:cluster").unwrap());
        for (_, what) in What::ALL {
            let took = measure(what, on, 3, true).unwrap();
            assert_eq!(took, measure(what, on, 3, true).unwrap());
            assert!(took.p10_ns > 0.0);
        }
    }

    #[test]
    fn one_rank_has_no_other_to_meet() {
        assert!(measure(What::Barrier, On::Shm, 1, true).is_err());
    }
}
