//! Every lock and barrier on every fabric: one rank at a time, in order of arrival, three
//! operations a section, notices with the grant, and a dead holder named.

#![allow(clippy::unwrap_used)]

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use littoral_base::units::{NodeId, Picos};
use littoral_dsm::Kind;
use littoral_dsm::core::message::{LockId, Notice, Notices, PageId};
use littoral_dsm::lock::board::LockBoard;
use littoral_dsm::lock::client::BoardClient;
use littoral_dsm::lock::direct::DirectLocks;
use littoral_dsm::lock::mcs::McsLocks;
use littoral_dsm::lock::server::{LockServer, ServerClient};
use littoral_dsm::lock::tts::TtsLocks;
use littoral_dsm::lock::{Barriers, LockLayout, Locks};
use littoral_fabric::Fabric;
use littoral_fabric::counted::{Counted, FabricCounts};
use littoral_fabric::hostile::HostilePool;
use littoral_fabric::mailbox::PoolAgent;
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use littoral_fabric::shm::{ShmFabric, ShmLayout};
use littoral_fabric::sim::{LogGp, SimFabric, run};
use littoral_fabric::tcp::TcpFabric;

const BOARD: NodeId = NodeId(0);
const L: LockId = LockId(1);
const MODEL: LogGp = LogGp {
    latency: Picos(1_000_000),
    overhead: Picos(100_000),
    gap: Picos(50_000),
    byte: Picos(100),
    service: Picos(50_000),
    board: Picos(100_000),
};

fn layout(nodes: u16) -> LockLayout {
    LockLayout::new(64, 3, nodes)
}

fn window(nodes: u16) -> usize {
    64 + layout(nodes).bytes()
}

/// `sections` sections that count in the first word of node 0's window, which nothing but the lock
/// protects.
fn count_up<F: Fabric>(fabric: &F, locks: &mut impl Locks, sections: u64, inside: &AtomicU32) {
    for _ in 0..sections {
        locks.acquire(L).unwrap();
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two ranks in one section");
        let mut word = [0; 8];
        fabric.get(NodeId(0), 0, &mut word).unwrap();
        fabric.pause(Duration::from_nanos(1));
        let next = u64::from_le_bytes(word) + 1;
        fabric.put(NodeId(0), 0, &next.to_le_bytes()).unwrap();
        fabric.flush(NodeId(0)).unwrap();
        inside.fetch_sub(1, Ordering::SeqCst);
        locks.release(L, &[PageId(7)]).unwrap();
    }
}

fn counted_to<F: Fabric>(fabric: &F) -> u64 {
    let mut word = [0; 8];
    fabric.get(NodeId(0), 0, &mut word).unwrap();
    u64::from_le_bytes(word)
}

fn tcp(nodes: u16) -> Vec<TcpFabric> {
    let listeners: Vec<_> = (0..nodes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<SocketAddr> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
    std::thread::scope(|s| {
        let join = |(n, l): (usize, &TcpListener)| {
            let (addresses, l) = (addresses.clone(), l.try_clone().unwrap());
            let me = NodeId(n as u16);
            s.spawn(move || TcpFabric::connect(me, &addresses, &l, window(nodes)).unwrap())
        };
        let handles: Vec<_> = listeners.iter().enumerate().map(join).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}

fn shm(nodes: u16) -> Vec<ShmFabric> {
    let layout = ShmLayout::new(nodes, window(nodes));
    let file = tempfile::tempfile().unwrap();
    layout.create(&file).unwrap();
    (0..nodes).map(|n| ShmFabric::attach(&file, layout, NodeId(n)).unwrap()).collect()
}

/// Runs `body` on a thread a node and gives the fabrics back.
fn on_all<F: Fabric + Send + Sync>(job: &[F], body: impl Fn(&F) + Sync) {
    std::thread::scope(|s| {
        job.iter().for_each(|f| _ = s.spawn(|| body(f)));
    });
}

#[test]
fn the_board_over_tcp_and_the_direct_queue_in_shared_memory_exclude() {
    let job = tcp(3);
    job[0].host(Box::new(LockBoard::new(3, 16)));
    let inside = AtomicU32::new(0);
    on_all(&job, |f| count_up(f, &mut BoardClient::new(f, BOARD, layout(3)), 100, &inside));
    assert_eq!(counted_to(&job[1]), 300);
    let job = shm(3);
    on_all(&job, |f| count_up(f, &mut DirectLocks::new(f, layout(3)), 3000, &inside));
    assert_eq!(counted_to(&job[1]), 9000);
}

#[test]
fn the_baselines_exclude_too() {
    let inside = AtomicU32::new(0);
    let job = shm(3);
    on_all(&job, |f| count_up(f, &mut McsLocks::new(f, layout(3)), 2000, &inside));
    assert_eq!(counted_to(&job[1]), 6000);
    let job = shm(3);
    let pause = Duration::from_micros(1);
    on_all(&job, |f| count_up(f, &mut TtsLocks::new(f, layout(3), pause), 300, &inside));
    assert_eq!(counted_to(&job[1]), 900);
    let job = tcp(2);
    let stop = AtomicBool::new(false);
    let (answers, local) = std::sync::mpsc::channel();
    std::thread::scope(|s| {
        let served =
            s.spawn(|| LockServer::new(2, 16, Some(answers)).serve(&job[0], &stop).unwrap());
        let far = s.spawn(|| {
            count_up(&job[1], &mut ServerClient::new(&job[1], BOARD, None), 100, &inside);
        });
        count_up(&job[0], &mut ServerClient::new(&job[0], BOARD, Some(local)), 100, &inside);
        far.join().unwrap();
        // The last release was posted, and is there when this returns.
        job[1].flush(NodeId(0)).unwrap();
        stop.store(true, Ordering::Release);
        let counts = served.join().unwrap();
        assert_eq!((counts.traps, counts.answers, counts.refused), (400, 200, 0));
    });
    assert_eq!(counted_to(&job[1]), 200);
}

/// The board on the hostile pool: a missing flush, fence or invalidation anywhere loses a count.
#[test]
fn the_board_excludes_on_a_hostile_pool_with_three_operations_a_section() {
    const SECTIONS: u64 = 60;
    for seed in 0..2 {
        let places = PoolLayout::new(3, window(3));
        let pool = HostilePool::new(places.pool_bytes(), seed, 20);
        let stop = AtomicBool::new(false);
        let board = LockBoard::new(3, 16);
        let done = board.counters();
        let inside = AtomicU32::new(0);
        let mut agent = PoolAgent::new(pool.view(9), places, BOARD, Box::new(board)).unwrap();
        let counts: Vec<(FabricCounts, u64)> = std::thread::scope(|s| {
            s.spawn(|| agent.serve(&stop).unwrap());
            let rank = |n| {
                let (pool, inside) = (&pool, &inside);
                s.spawn(move || {
                    let node = PoolFabric::new(pool.view(n), places, NodeId(n)).unwrap();
                    let fabric = Counted::new(node);
                    let mut locks = BoardClient::new(&fabric, BOARD, layout(3));
                    for _ in 0..SECTIONS {
                        count_up(fabric.inner(), &mut locks, 1, inside);
                    }
                    (fabric.counts(), counted_to(&fabric))
                })
            };
            let ranks: Vec<_> = (0..3).map(rank).collect();
            let counts: Vec<_> = ranks.into_iter().map(|r| r.join()).collect();
            // Also when a rank has panicked: the agent would serve for ever.
            stop.store(true, Ordering::Release);
            counts.into_iter().map(Result::unwrap).collect()
        });
        let operations: u64 = counts
            .iter()
            .map(|(c, _)| {
                assert_eq!((c.rmws_count, c.posts_count), (0, 0));
                c.board_writes_count + c.board_reads_count
            })
            .sum();
        // On a busy machine a holder keeps others waiting so long that they ask after it.
        assert_eq!(operations - done.questions() + done.grants(), 3 * 3 * SECTIONS);
        assert_eq!(counts.iter().map(|(_, seen)| *seen).max(), Some(3 * SECTIONS));
    }
}

/// Keeps a simulated node in the job until all others have long finished.
fn stay(fabric: &SimFabric) {
    let end = Picos(1_000_000_000_000);
    fabric.compute(Picos(end.0.saturating_sub(fabric.now().0)));
}

#[test]
fn grants_come_in_order_of_arrival() {
    for kind in 0..3 {
        let order = std::sync::Mutex::new(Vec::new());
        run(8, window(8), MODEL, |f| {
            let me = u64::from(f.me().0);
            if f.me() == BOARD {
                f.host(Box::new(LockBoard::new(8, 16)));
            }
            let mut locks: Box<dyn Locks + '_> = match kind {
                0 => Box::new(BoardClient::new(f, BOARD, layout(8))),
                1 => Box::new(McsLocks::new(f, layout(8))),
                _ => Box::new(DirectLocks::new(f, layout(8))),
            };
            // A shuffled order of arrival, ten microseconds apart.
            f.compute(Picos(1_000_000 + (me * 5 % 8) * 10_000_000));
            locks.acquire(L).unwrap();
            order.lock().unwrap().push(me * 5 % 8);
            f.compute(Picos(200_000_000));
            locks.release(L, &[]).unwrap();
            stay(f);
        });
        assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<_>>(), "lock {kind}");
    }
}

#[test]
fn notices_ride_in_the_grant_until_they_do_not_fit() {
    let report = run(2, window(2), MODEL, |f| {
        if f.me() == BOARD {
            f.host(Box::new(LockBoard::new(2, 5000)));
        }
        let fabric = Counted::new(f);
        let mut locks = BoardClient::new(&fabric, BOARD, layout(2));
        let mut grants = Vec::new();
        f.compute(Picos(1 + u64::from(f.me().0) * 500_000_000));
        for pages in [3, 50, 600] {
            grants.push(locks.acquire(L).unwrap());
            // With gaps, so that each is a run.
            let written: Vec<_> = (0..pages).map(|page| PageId(2 * page)).collect();
            locks.release(L, &written).unwrap();
            f.compute(Picos(1_000_000_000));
        }
        let around = locks.barrier(&[PageId(u32::from(f.me().0))]).unwrap();
        let after = locks.acquire(L).unwrap();
        locks.release(L, &[]).unwrap();
        stay(f);
        (grants, around, after, locks.coherence_writes())
    });
    let these = |pages: u32, writer| {
        let notice = |p| Notice { pages: PageId(2 * p).into(), writer: NodeId(writer) };
        Notices::These((0..pages).map(notice).collect())
    };
    let [(first, around0, after, ahead), (second, ..)] = &report.results[..] else { panic!() };
    assert_eq!(first[..2], [these(0, 1), these(3, 1)]);
    assert_eq!(second[..2], [these(3, 0), these(50, 0)]);
    assert_eq!(second[2], Notices::Everything, "600 notices do not fit a variable");
    assert_eq!(*ahead, 5, "they came ahead of the release in writes of 110 runs");
    let far = Notice { pages: PageId(1).into(), writer: NodeId(1) };
    assert_eq!(*around0, Notices::These(vec![far]));
    assert_eq!(*after, these(0, 0), "the barrier has published everything");
}

#[test]
fn a_request_out_of_order_is_refused_and_changes_nothing() {
    run(2, window(2), MODEL, |f| {
        if f.me() == BOARD {
            f.host(Box::new(LockBoard::new(2, 4)));
        }
        f.compute(Picos(10));
        let mut locks = BoardClient::new(f, BOARD, layout(2));
        assert_eq!(locks.release(L, &[]).unwrap_err().kind(), Kind::Protocol);
        assert_eq!(locks.acquire(LockId(3)).unwrap_err().kind(), Kind::OutOfRange);
        locks.acquire(L).unwrap();
        assert_eq!(locks.acquire(L).unwrap_err().kind(), Kind::Protocol);
        locks.release(L, &[]).unwrap();
        stay(f);
    });
}

#[test]
fn a_dead_holder_is_named() {
    let report = run(3, window(3), MODEL, |f| {
        if f.me() == BOARD {
            f.host(Box::new(LockBoard::new(3, 4)));
        }
        let mut locks = BoardClient::new(f, BOARD, layout(3));
        f.compute(Picos(1 + u64::from(f.me().0 != 2) * 50_000_000));
        if f.me() == BOARD {
            stay(f);
            return String::new();
        }
        match locks.acquire(L) {
            Ok(_) => String::new(),
            Err(e) => {
                assert_eq!(e.kind(), Kind::PeerLost);
                e.to_string()
            }
        }
    });
    assert!(report.results[1].contains("rank 2 is gone"), "{:?}", report.results);
    assert!(report.results[1].contains("holding lock 1"), "{:?}", report.results);
}

fn meet(barriers: &mut impl Barriers, rounds: u32, arrived: &AtomicU32, ranks: u32) {
    for round in 1..=rounds {
        arrived.fetch_add(1, Ordering::SeqCst);
        barriers.barrier(&[]).unwrap();
        assert!(arrived.load(Ordering::SeqCst) >= round * ranks, "left before all had come");
    }
}

#[test]
fn barriers_hold_every_rank() {
    let arrived = AtomicU32::new(0);
    on_all(&shm(4), |f| meet(&mut DirectLocks::new(f, layout(4)), 500, &arrived, 4));
    let arrived = AtomicU32::new(0);
    let job = tcp(3);
    job[0].host(Box::new(LockBoard::new(3, 16)));
    on_all(&job, |f| meet(&mut BoardClient::new(f, BOARD, layout(3)), 100, &arrived, 3));
}
