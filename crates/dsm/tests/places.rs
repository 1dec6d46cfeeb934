//! The fields of an error say where it happened: which rank reports it, about which other rank, and
//! at which page, lock or barrier. The fields of a rank that died are tested beside the runtime's
//! engine, network addresses beside the launcher's code, files in `launch.rs`.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use littoral_base::error::Place;
use littoral_base::units::NodeId;
use littoral_dsm::core::message::{LockId, Message, Notices, PageId};
use littoral_dsm::core::rank::{Rank, Shape};
use littoral_dsm::job::Homes;
use littoral_dsm::job::member::Member;
use littoral_dsm::memory::PoolLines;
use littoral_dsm::runtime::Config;
use littoral_dsm::runtime::carrier::Exclusive;
use littoral_dsm::{Error, Kind};
use littoral_fabric::hostile::HostilePool;
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use support::{COPIES, Over, run};

const L: LockId = LockId(3);
const OTHER: NodeId = NodeId(1);

/// Rank 0 of three, with eight pages dealt round and four locks.
fn rank() -> Rank {
    let shape =
        Shape { ranks: 3, pages: 8, page_bytes: 8, locks: 4, log_capacity: 4, predict: false };
    Rank::new(NodeId(0), shape)
}

/// The kind, and the numbers of rank, peer, page, lock and barrier.
type Fields = (Kind, [Option<u64>; 5]);

fn fields(e: &Error) -> Fields {
    let Place { rank, peer, page, lock, generation, .. } = e.place();
    let node = |n: &Option<NodeId>| n.map(|n| u64::from(n.0));
    (e.kind(), [node(rank), node(peer), *page, lock.map(u64::from), *generation])
}

#[test]
fn the_protocol_says_which_rank_page_lock_and_barrier() {
    let mut rank = rank();
    rank.lock(L).unwrap();
    let notices = Notices::These(Vec::new());
    rank.receive(NodeId(0), Message::Grant { lock: L, notices, version: 0 }).unwrap();
    let mut told = |message| fields(&rank.receive(OTHER, message).unwrap_err());
    let (zero, one) = (Some(0), Some(1));
    let got = |page, lock, generation| (Kind::Protocol, [zero, one, page, lock, generation]);
    let grant = Message::Grant { lock: L, notices: Notices::Everything, version: 1 };
    assert_eq!(told(grant), got(None, Some(3), None));
    let depart = Message::Depart { generation: 7, notices: Vec::new() };
    assert_eq!(told(depart), got(None, None, Some(7)));
    let arrive = Message::Arrive { generation: 9, pages: Vec::new() };
    assert_eq!(told(arrive), got(None, None, Some(9)));
    let release = Message::Release { lock: LockId(0), generation: 0, pages: Vec::new() };
    assert_eq!(told(release), got(None, Some(0), None));
    assert_eq!(told(Message::GetPage { page: PageId(5), phase: 0 }), got(Some(5), None, None));
    let page = Message::Page { page: PageId(4), bytes: vec![0; 8] };
    assert_eq!(told(page), got(Some(4), None, None));
    assert_eq!(told(Message::DiffsApplied), got(None, None, None));
    let own = |e: Error| fields(&e);
    assert_eq!(own(rank.lock(L).unwrap_err()), (Kind::Misuse, [zero, None, None, Some(3), None]));
    assert_eq!(own(rank.barrier().unwrap_err()), (Kind::Misuse, [zero, None, None, Some(3), zero]));
    let beyond = rank.lock(LockId(4)).unwrap_err();
    assert_eq!(own(beyond), (Kind::OutOfRange, [zero, None, None, Some(4), None]));
    let beyond = rank.read(PageId(8)).unwrap_err();
    assert_eq!(own(beyond), (Kind::OutOfRange, [zero, None, Some(8), None, None]));
}

/// With messages and without: a lock's rules name rank and lock.
#[test]
fn a_job_says_which_lock() {
    for over in COPIES.into_iter().chain([Over::Shm]) {
        run(over, 1, |mut job| {
            job.lock(L).unwrap();
            let (_, twice) = fields(&job.lock(L).unwrap_err());
            let (_, inside) = fields(&job.barrier().unwrap_err());
            let (_, other) = fields(&job.unlock(LockId(4)).unwrap_err());
            job.unlock(L).unwrap();
            let (_, beyond) = fields(&job.lock(LockId(u32::MAX)).unwrap_err());
            job.finish().unwrap();
            let locks = [twice, inside, other, beyond].map(|fields| fields[3]);
            let want = [3, 3, 4, u64::from(u32::MAX)].map(Some);
            assert_eq!(locks, want, "{over:?}");
            assert_eq!([twice, inside, other].map(|f| f[0]), [Some(0); 3], "{over:?}");
        });
    }
}

#[test]
fn a_member_on_lines_of_a_pool_is_refused_with_its_rank() {
    let layout = PoolLayout::new(2, 64);
    let pool = HostilePool::new(layout.pool_bytes(), 7, 50);
    let fabric = PoolFabric::new(pool.view(1), layout, OTHER).unwrap();
    let lines = Arc::new(HostilePool::new(1 << 16, 8, 50).view(0));
    let pool = Some(PoolLines { domain: lines, at: 0, used: false });
    let config = Config { bytes_max: 1 << 16, pool, ..Config::default() };
    let e = Member::start(Box::new(Exclusive::new(fabric)), config).map(drop).unwrap_err();
    assert_eq!(fields(&e), (Kind::Unsupported, [Some(1), None, None, None, None]));
}

#[test]
fn a_rank_that_left_is_a_field_of_every_ranks_error() {
    for over in [Over::Shm, Over::Tcp] {
        let taken = AtomicBool::new(false);
        let errors = run(over, 2, |job| {
            if job.rank() == 1 {
                job.lock(L).unwrap();
                taken.store(true, Ordering::Release);
                return None;
            }
            while !taken.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            job.lock(L).err()
        });
        let e = errors[0].as_ref().unwrap();
        assert_eq!((e.kind(), e.place().rank), (Kind::PeerLost, Some(NodeId(0))), "{over:?}: {e}");
        // Who says that a job has ended need not be the rank that ended it.
        assert!(e.place().peer.is_none_or(|peer| peer == OTHER), "{over:?}: {e}");
    }
}

#[test]
fn a_data_race_is_a_field_of_the_error() {
    let (lent, left) = (AtomicBool::new(false), AtomicBool::new(false));
    let wait_for = |event: &AtomicBool| {
        while !event.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    let errors = run(Over::Tcp, 2, |mut job| {
        let before = job.alloc_slice::<u8>(5000, Homes::At(0)).unwrap();
        let s = job.alloc_slice::<u64>(2, Homes::At(0)).unwrap();
        assert_eq!(before.len(), 5000);
        if job.rank() == 0 {
            let phase = job.phase().unwrap();
            let guard = phase.read(s).unwrap();
            lent.store(true, Ordering::Release);
            wait_for(&left);
            drop(guard);
            phase.end().err()
        } else {
            let section = job.enter(L).unwrap();
            section.write(s.part(1..2)).unwrap()[0] = u64::MAX;
            wait_for(&lent);
            let e = section.leave().err();
            left.store(true, Ordering::Release);
            e
        }
    });
    let e = errors[0].as_ref().unwrap();
    let at = (e.place().rank, e.place().peer, e.place().page, e.place().offset);
    let two_pages = 2 * 4096;
    let want = (Some(NodeId(0)), Some(OTHER), Some(2), Some(two_pages + 8));
    assert_eq!((e.kind(), at), (Kind::Misuse, want), "{e}");
}
