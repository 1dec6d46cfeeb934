//! Operations a section by fabric counters.
//!
//! Invariants
//! - Every figure is a sum of counters: what ranks asked of the fabric ([`Counted`]) and what the
//!   board wrote. Nothing is derived from a formula; the paper's formulas stand beside it. Checked
//!   by `three_operations_a_section_and_no_read_modify_write_in_virtual_time`,
//!   `rivals_cost_what_their_formulas_say`.
//! - A lock's home or manager is a node of its own, so that no operation escapes the counters by
//!   being local. Checked by `three_operations_a_section_and_no_read_modify_write_in_virtual_time`.

use std::net::{SocketAddr, TcpListener};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use littoral_base::units::{NodeId, Picos};
use littoral_dsm::core::message::{LockId, PageId};
use littoral_dsm::lock::board::LockBoard;
use littoral_dsm::lock::client::BoardClient;
use littoral_dsm::lock::direct::DirectLocks;
use littoral_dsm::lock::mcs::McsLocks;
use littoral_dsm::lock::server::{LockServer, ServerClient};
use littoral_dsm::lock::tts::TtsLocks;
use littoral_dsm::lock::{LockLayout, Locks};
use littoral_fabric::Fabric;
use littoral_fabric::counted::{Counted, FabricCounts};
use littoral_fabric::hostile::HostilePool;
use littoral_fabric::mailbox::PoolAgent;
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use littoral_fabric::shm::{ShmFabric, ShmLayout};
use littoral_fabric::sim::{LogGp, SimFabric, run};
use littoral_fabric::tcp::TcpFabric;

use super::{Figures, words};
use littoral_bench::claims::Figure;

/// How many ranks contend in the simulator.
pub const RANKS: [u16; 6] = [2, 4, 8, 16, 32, 64];
const SECTIONS: u64 = 4;
const NOTICES: usize = 64;
const SECTION: Picos = Picos(5_000_000);
/// A fabric like remote memory of today: 1.5 us a one-sided read. Counts do not depend on it.
const FABRIC: LogGp = LogGp {
    latency: Picos(600_000),
    overhead: Picos(100_000),
    gap: Picos(20_000),
    byte: Picos(80),
    service: Picos(50_000),
    board: Picos(50_000),
};

/// What a busy period cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Operations on the fabric, of ranks and of the board or manager.
    pub operations: u64,
    /// Read-modify-writes among them.
    pub rmws: u64,
    /// Operations that carried notices only.
    pub coherence: u64,
}

/// The lock of a measurement: at the node after the last rank, so that nothing is local.
fn lock_at(ranks: u16) -> LockId {
    LockId(u32::from(ranks))
}

fn layout(ranks: u16) -> LockLayout {
    LockLayout::new(0, u32::from(ranks) + 1, ranks + 1)
}

fn sections(
    locks: &mut impl Locks,
    lock: LockId,
    count: u64,
    inside: impl Fn(),
) -> Result<(), String> {
    for i in 0..count {
        locks.acquire(lock).map_err(words)?;
        inside();
        locks.release(lock, &[PageId(i as u32)]).map_err(words)?;
    }
    Ok(())
}

fn summed(counts: &[FabricCounts]) -> Traffic {
    Traffic {
        operations: counts.iter().map(FabricCounts::operations).sum(),
        rmws: counts.iter().map(|c| c.rmws_count).sum(),
        coherence: 0,
    }
}

/// All nodes stay until all have finished: a node that leaves counts as dead.
fn stay(fabric: &SimFabric) {
    let end = Picos(10_000_000_000_000);
    fabric.compute(Picos(end.0.saturating_sub(fabric.now().0)));
}

/// `ranks` ranks ask a board for one lock at the same time, over and over.
///
/// # Errors
/// What a lock operation failed with.
pub fn board_in_sim(ranks: u16) -> Result<Traffic, String> {
    let manager = NodeId(ranks);
    let report = run(ranks + 1, layout(ranks).bytes(), FABRIC, |f| {
        if f.me() == manager {
            f.host(Box::new(LockBoard::new(ranks, NOTICES)));
            stay(f);
            return Ok((FabricCounts::default(), 0));
        }
        f.compute(Picos(1));
        let counted = Counted::new(f);
        let mut locks = BoardClient::new(&counted, manager, layout(ranks));
        let done = sections(&mut locks, lock_at(ranks), SECTIONS, || f.compute(SECTION));
        let ahead = locks.coherence_writes();
        stay(f);
        done.map(|()| (counted.counts(), ahead))
    });
    let per_rank: Vec<_> = report.results.into_iter().collect::<Result<_, _>>()?;
    let counts: Vec<_> = per_rank.iter().map(|(c, _)| *c).collect();
    let mut traffic = summed(&counts);
    traffic.operations += report.counts.dma_writes;
    traffic.coherence = per_rank.iter().map(|(_, ahead)| ahead).sum();
    Ok(traffic)
}

/// A rival of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Test-and-test&set.
    Tts,
    /// The list-based queue lock.
    Mcs,
    /// The software manager.
    Software,
}

/// One section of each of `ranks` ranks that ask at the same time.
///
/// # Errors
/// As [`board_in_sim`].
pub fn rival_in_sim(rival: Rival, ranks: u16) -> Result<Traffic, String> {
    let manager = NodeId(ranks);
    let report = run(ranks + 1, layout(ranks).bytes(), FABRIC, |f| {
        let counted = Counted::new(f);
        if f.me() == manager {
            if rival == Rival::Software {
                let mut server = LockServer::new(ranks, NOTICES, None);
                for _ in 0..2 * ranks {
                    while !server.serve_one(&counted).map_err(words)? {}
                }
            }
            stay(f);
            return Ok(counted.counts());
        }
        f.compute(Picos(1));
        let (places, lock) = (layout(ranks), lock_at(ranks));
        let pause = Duration::from_nanos(SECTION.as_nanos());
        let inside = || f.compute(SECTION);
        let done = match rival {
            Rival::Tts => sections(&mut TtsLocks::new(&counted, places, pause), lock, 1, inside),
            Rival::Mcs => sections(&mut McsLocks::new(&counted, places), lock, 1, inside),
            Rival::Software => {
                sections(&mut ServerClient::new(&counted, manager, None), lock, 1, inside)
            }
        };
        stay(f);
        done.map(|()| counted.counts())
    });
    let counts: Vec<_> = report.results.into_iter().collect::<Result<_, String>>()?;
    Ok(summed(&counts))
}

/// Joins a TCP job on loopback.
///
/// # Errors
/// When the system refuses sockets.
pub fn tcp_job(nodes: u16, window: usize) -> Result<Vec<TcpFabric>, String> {
    let bind = |_| TcpListener::bind("127.0.0.1:0").map_err(words);
    let listeners = (0..nodes).map(bind).collect::<Result<Vec<_>, _>>()?;
    let address = |l: &TcpListener| l.local_addr().map_err(words);
    let addresses = listeners.iter().map(address).collect::<Result<Vec<SocketAddr>, _>>()?;
    std::thread::scope(|s| {
        let join = |(n, listener): (u16, TcpListener)| {
            let addresses = &addresses;
            s.spawn(move || TcpFabric::connect(NodeId(n), addresses, &listener, window))
        };
        let joining: Vec<_> = (0..nodes).zip(listeners).map(join).collect();
        let joined = joining.into_iter().map(|j| j.join().map_err(|_| "a node panicked"));
        joined.map(|f| f.map_err(words)?.map_err(words)).collect()
    })
}

/// Joins a job in shared memory within this process.
///
/// # Errors
/// When the system refuses memory.
pub fn shm_job(nodes: u16, window: usize) -> Result<Vec<ShmFabric>, String> {
    let layout = ShmLayout::new(nodes, window);
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("littoral-bench", flags).map_err(words)?;
    let file = std::fs::File::from(file);
    layout.create(&file).map_err(words)?;
    let attach = |n| ShmFabric::attach(&file, layout, NodeId(n)).map_err(words);
    (0..nodes).map(attach).collect()
}

/// Each fabric on a thread of its own; all begin together.
fn together<F: Fabric + Sync, T: Send>(
    job: &[F],
    body: impl Fn(&F) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    let start = Barrier::new(job.len());
    std::thread::scope(|s| {
        let begin = |f| {
            let (start, body) = (&start, &body);
            s.spawn(move || {
                start.wait();
                body(f)
            })
        };
        let threads: Vec<_> = job.iter().map(begin).collect();
        let ended = threads.into_iter().map(|t| t.join().map_err(|_| "a rank panicked".to_owned()));
        ended.map(|r| r?).collect()
    })
}

/// Three ranks on one lock over TCP: operations in all, for so many sections.
fn board_over_tcp() -> Result<(Traffic, u64), String> {
    let ranks = 3;
    let job = tcp_job(ranks + 1, layout(ranks).bytes())?;
    let board = LockBoard::new(ranks, NOTICES);
    let done = board.counters();
    job[usize::from(ranks)].host(Box::new(board));
    let counts = together(&job[..usize::from(ranks)], |f| {
        let counted = Counted::new(f);
        let mut locks = BoardClient::new(&counted, NodeId(ranks), layout(ranks));
        sections(&mut locks, lock_at(ranks), 200, || ())?;
        Ok(counted.counts())
    })?;
    let mut traffic = summed(&counts);
    traffic.operations = traffic.operations + done.grants() - done.questions();
    Ok((traffic, 200 * u64::from(ranks)))
}

/// Three ranks on one lock on the hostile pool.
fn board_over_pool() -> Result<(Traffic, u64), String> {
    const EACH: u64 = 200;
    let ranks = 3;
    let places = PoolLayout::new(ranks + 1, layout(ranks).bytes());
    let pool = HostilePool::new(places.pool_bytes(), 2, 20);
    let board = LockBoard::new(ranks, NOTICES);
    let done = board.counters();
    let view = pool.view(ranks + 1);
    let mut agent = PoolAgent::new(view, places, NodeId(ranks), Box::new(board)).map_err(words)?;
    let stop = AtomicBool::new(false);
    let counts = std::thread::scope(|s| {
        s.spawn(|| agent.serve(&stop));
        let rank = |n| {
            let pool = &pool;
            s.spawn(move || {
                let fabric = PoolFabric::new(pool.view(n), places, NodeId(n)).map_err(words)?;
                let counted = Counted::new(fabric);
                let mut locks = BoardClient::new(&counted, NodeId(ranks), layout(ranks));
                sections(&mut locks, lock_at(ranks), EACH, || ())?;
                Ok(counted.counts())
            })
        };
        let threads: Vec<_> = (0..ranks).map(rank).collect();
        let ended = threads.into_iter().map(|t| t.join().map_err(|_| "a rank panicked".to_owned()));
        let counts: Result<Vec<_>, String> = ended.map(|r| r?).collect();
        stop.store(true, Ordering::Release);
        counts
    })?;
    let mut traffic = summed(&counts);
    traffic.operations = traffic.operations + done.grants() - done.questions();
    Ok((traffic, EACH * u64::from(ranks)))
}

fn board_figure(traffic: Traffic, sections: u64, note: &str) -> Figure {
    let value = traffic.operations as f64 / sections as f64;
    Figure::new(value, format!("{} operations for {sections} sections; {note}", traffic.operations))
        .provided(traffic.rmws == 0, format!("no read-modify-write ({})", traffic.rmws))
}

/// `dsm.lock.ops.*` and `dsm.lock.extra`.
///
/// # Errors
/// What a lock operation failed with.
pub fn operations() -> Figures {
    let mut extra = 0;
    let (mut worst, mut sections_total) = (Traffic::default(), 0);
    let mut exact = true;
    for ranks in RANKS {
        let traffic = board_in_sim(ranks)?;
        let sections = SECTIONS * u64::from(ranks);
        exact &= traffic.operations == 3 * sections;
        worst.operations += traffic.operations;
        worst.rmws += traffic.rmws;
        sections_total += sections;
        extra += traffic.coherence;
    }
    let sim = board_figure(worst, sections_total, "2 to 64 ranks that ask at the same time, sim")
        .provided(exact, "exactly 3p at every number of ranks");
    let (tcp, tcp_sections) = board_over_tcp()?;
    let (pool, pool_sections) = board_over_pool()?;
    Ok(vec![
        ("dsm.lock.ops.sim".into(), sim),
        ("dsm.lock.ops.tcp".into(), board_figure(tcp, tcp_sections, "3 ranks contend, loopback")),
        (
            "dsm.lock.ops.pool".into(),
            board_figure(pool, pool_sections, "3 ranks contend, hostile pool"),
        ),
        ("dsm.lock.ops.shm".into(), direct_in_shm()?),
        (
            "dsm.lock.extra".into(),
            Figure::new(extra as f64, "one page a section, 2 to 64 ranks, sim"),
        ),
    ])
}

/// The direct queue's own count: shared memory has atomics and uses them.
fn direct_in_shm() -> Result<Figure, String> {
    let ranks = 2;
    let job = shm_job(ranks + 1, layout(ranks).bytes())?;
    let counts = together(&job[..usize::from(ranks)], |f| {
        let counted = Counted::new(f);
        let mut locks = DirectLocks::new(&counted, layout(ranks));
        sections(&mut locks, lock_at(ranks), 10_000, || ())?;
        Ok(counted.counts())
    })?;
    let traffic = summed(&counts);
    let sections = 20_000.0;
    let note = format!(
        "2 ranks contend, atomics in place of the board, {:.2} of them a section; racy",
        traffic.rmws as f64 / sections
    );
    Ok(Figure::new(traffic.operations as f64 / sections, note))
}

/// `dsm.lock.peers.*`.
///
/// # Errors
/// As [`operations`].
pub fn rivals() -> Figures {
    let mut figures = Vec::new();
    let rivals = [("tts", Rival::Tts), ("mcs", Rival::Mcs), ("sw", Rival::Software)];
    for (name, rival) in rivals {
        for ranks in RANKS {
            let traffic = rival_in_sim(rival, ranks)?;
            let p = u64::from(ranks);
            let note = format!(
                "{} read-modify-writes; ours {}; {}",
                traffic.rmws,
                3 * p,
                match rival {
                    Rival::Tts => "the paper says O(p^2)".to_owned(),
                    Rival::Mcs => format!("the paper says {} to {}", 3 * p - 1, 4 * p - 2),
                    Rival::Software => format!("{} of them trap the manager", 2 * p),
                }
            );
            let figure = Figure::new(traffic.operations as f64, note);
            figures.push((format!("dsm.lock.peers.{name}.p{ranks}"), figure));
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_operations_a_section_and_no_read_modify_write_in_virtual_time() {
        for ranks in [2, 8] {
            let traffic = board_in_sim(ranks).unwrap();
            let sections = SECTIONS * u64::from(ranks);
            assert_eq!(traffic, Traffic { operations: 3 * sections, rmws: 0, coherence: 0 });
        }
    }

    #[test]
    fn rivals_cost_what_their_formulas_say() {
        let p = 8;
        let mcs = rival_in_sim(Rival::Mcs, 8).unwrap();
        assert!((3 * p - 1..4 * p - 1).contains(&mcs.operations), "{mcs:?}");
        assert!((p + 1..=2 * p).contains(&mcs.rmws), "{mcs:?}");
        assert_eq!(rival_in_sim(Rival::Software, 8).unwrap().operations, 3 * p);
        assert!(rival_in_sim(Rival::Tts, 8).unwrap().operations > 3 * p);
    }
}
