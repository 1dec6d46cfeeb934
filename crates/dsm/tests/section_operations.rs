//! A section of a running job by fabric counters: a request, a grant and a release, with the
//! notices in the grant, whichever ranks contend, over TCP and over the hostile pool; and no
//! read-modify-write.

#![allow(clippy::unwrap_used)]

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use littoral_base::units::NodeId;
use littoral_device::error::Error as DeviceError;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job};
use littoral_dsm::runtime::Config;
use littoral_dsm::runtime::carrier::Carrier;
use littoral_dsm::{Error, Kind, Result};
use littoral_fabric::counted::{Counted, FabricCounts};
use littoral_fabric::hostile::HostilePool;
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use littoral_fabric::tcp::TcpFabric;
use littoral_fabric::{Fabric, Liveness};

const RANKS: u16 = 3;
const SECTIONS: u64 = 40;
/// Its manager is rank 2, which takes no part: no operation escapes the counters by being local.
const LOCK: LockId = LockId(2);

/// A fabric whose counters the test reads while a job runs over it.
struct Watched<F>(Arc<Mutex<Counted<F>>>);

fn failed(e: DeviceError) -> Error {
    Error::new(Kind::PeerLost, e.to_string())
}

impl<F: Fabric + Send> Carrier for Watched<F> {
    fn me(&self) -> NodeId {
        self.0.lock().unwrap().me()
    }
    fn ranks(&self) -> u16 {
        self.0.lock().unwrap().nodes()
    }
    fn post_bytes_max(&self) -> usize {
        self.0.lock().unwrap().post_bytes_max() / 4
    }
    fn try_post(&self, to: NodeId, message: &[u8]) -> Result<bool> {
        self.0.lock().unwrap().try_post(to, message).map_err(failed)
    }
    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        let until = Instant::now() + timeout;
        loop {
            let found = self.0.lock().unwrap().receive(Duration::ZERO).map_err(failed)?;
            if found.is_some() || Instant::now() >= until {
                return Ok(found);
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    fn show_life(&self) -> Result<()> {
        self.0.lock().unwrap().show_life().map_err(failed)
    }
    fn liveness(&self, rank: NodeId) -> Liveness {
        self.0.lock().unwrap().liveness(rank)
    }
}

type Operations<'a> = &'a (dyn Fn() -> FabricCounts + Sync);

/// What the ranks do; rank 2 counts between the meetings of all.
fn program(mut job: Job, meet: &Barrier, operations: Operations<'_>) -> Vec<FabricCounts> {
    let me = job.rank();
    let mut page = |rank| job.alloc_slice::<u64>(1, Homes::At(rank)).unwrap();
    let pages = [page(0), page(1)];
    // All ranks have a copy, so that what is written has to be noticed.
    let phase = job.phase().unwrap();
    pages.iter().for_each(|p| assert_eq!(phase.read(*p).unwrap()[0], 0));
    phase.end().unwrap();
    let mut seen = Vec::new();
    let mut count = || {
        meet.wait();
        seen.extend((me == 2).then(operations));
        meet.wait();
    };
    count();
    if me < 2 {
        for _ in 0..SECTIONS {
            let section = job.enter(LOCK).unwrap();
            section.write(pages[usize::from(me)]).unwrap()[0] += 1;
            section.leave().unwrap();
        }
    }
    count();
    if me == 0 {
        // The grant has told that the copy is old: it is fetched, and new.
        let section = job.enter(LOCK).unwrap();
        assert_eq!(section.read(pages[1]).unwrap()[0], SECTIONS);
        section.leave().unwrap();
    }
    count();
    job.finish().unwrap();
    seen
}

fn check<F: Fabric + Send + 'static>(over: &str, make: impl Fn(NodeId) -> F + Sync) {
    let start = |n: u16| (n, make(NodeId(n)));
    let fabrics: Vec<_> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..RANKS).map(|n| s.spawn(move || start(n))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let fabrics: Vec<_> =
        fabrics.into_iter().map(|(_, f)| Arc::new(Mutex::new(Counted::new(f)))).collect();
    let sum = || {
        let all: Vec<FabricCounts> = fabrics.iter().map(|f| f.lock().unwrap().counts()).collect();
        let total = |what: fn(&FabricCounts) -> u64| all.iter().map(what).sum();
        FabricCounts {
            posts_count: total(|c| c.posts_count),
            rmws_count: total(|c| c.rmws_count),
            puts_count: total(|c| c.puts_count),
            gets_count: total(|c| c.gets_count),
            ..FabricCounts::default()
        }
    };
    let meet = Barrier::new(usize::from(RANKS));
    let seen = std::thread::scope(|s| {
        let run = |f: &Arc<Mutex<Counted<F>>>| {
            let (carrier, meet, sum) = (Watched(Arc::clone(f)), &meet, &sum);
            s.spawn(move || {
                let config = Config { bytes_max: 1 << 20, ..Config::default() };
                program(Job::start(Box::new(carrier), config).unwrap(), meet, sum)
            })
        };
        let threads: Vec<_> = fabrics.iter().map(run).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    let spent = |from: usize| seen[from + 1].operations() - seen[from].operations();
    assert_eq!(spent(0), 3 * 2 * SECTIONS, "{over}: three operations a section, 3p contended");
    assert_eq!(spent(1), 3 + 2, "{over}: a section, and a page asked for and sent");
    let posts = seen[2].posts_count;
    assert_eq!(seen[2].operations(), posts, "{over}: and no read-modify-write: {:?}", seen[2]);
}

#[test]
fn over_tcp() {
    let bind = |_| TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners: Vec<TcpListener> = (0..RANKS).map(bind).collect();
    let all: Vec<SocketAddr> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
    check("tcp", |me| TcpFabric::connect(me, &all, &listeners[me.index()], 64).unwrap());
}

#[test]
fn over_the_hostile_pool() {
    let layout = PoolLayout::new(RANKS, 64);
    let pool = HostilePool::new(layout.pool_bytes(), 3, 50);
    check("pool", |me| PoolFabric::new(pool.view(me.0), layout, me).unwrap());
}
