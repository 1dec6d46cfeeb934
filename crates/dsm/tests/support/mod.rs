//! Jobs whose ranks are threads of one test, over every fabric there is.

#![allow(dead_code, clippy::unwrap_used)]

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use littoral_base::units::NodeId;
use littoral_device::memory::Domain;
use littoral_dsm::job::Job;
use littoral_dsm::job::member::Member;
use littoral_dsm::memory::PoolLines;
use littoral_dsm::runtime::carrier::{Carrier, Exclusive, Shared};
use littoral_dsm::runtime::{Config, pages_bytes, road_bytes};
use littoral_fabric::Fabric;
use littoral_fabric::faulty::{Faults, Faulty};
use littoral_fabric::hostile::HostilePool;
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use littoral_fabric::pool_file::MappedPool;
use littoral_fabric::shm::{ShmFabric, ShmLayout};
use littoral_fabric::tcp::TcpFabric;
use rustix::fs::{MemfdFlags, memfd_create};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Tcp,
    /// Shared memory, ranks keep copies of pages.
    ShmPages,
    /// Shared memory, ranks share the pages.
    Shm,
    /// A pool whose every node has a private, stale, randomly evicting line cache.
    Hostile,
    /// Such a pool whose lines the ranks share in place.
    Lines,
    /// As `Lines`, where the lines are mapped memory, as a launcher's are.
    MappedLines,
}

pub(crate) const EVERY: [Over; 5] =
    [Over::Tcp, Over::ShmPages, Over::Shm, Over::Hostile, Over::Lines];
/// Those with raw pointers.
pub(crate) const WITH_POINTERS: [Over; 4] = [Over::Tcp, Over::ShmPages, Over::Shm, Over::Hostile];
/// Those whose ranks keep copies.
pub(crate) const COPIES: [Over; 3] = [Over::Tcp, Over::ShmPages, Over::Hostile];

const BYTES_MAX: usize = 1 << 26;
/// Of lines shared in place: the emulator's medium is real memory.
const LINES_BYTES_MAX: usize = 1 << 20;
/// Views of the shared lines are nodes of their own to the emulator.
const LINES_VIEW: u16 = 1000;

fn memory(bytes: usize) -> File {
    let made = memfd_create("littoral-dsm-test", MemfdFlags::CLOEXEC);
    let file = File::from(made.unwrap());
    file.set_len(bytes as u64).unwrap();
    file
}

/// The memory that is the pages of a job, or that its ranks keep their copies in.
fn files(over: Over, ranks: u16, configure: impl Fn(&mut Config)) -> [Option<File>; 2] {
    let mut config = Config { bytes_max: BYTES_MAX, ..Config::default() };
    configure(&mut config);
    let direct = (over == Over::Shm).then(|| memory(config.bytes_max));
    let bytes = pages_bytes(ranks, config.bytes_max, config.locks);
    [direct, (over == Over::ShmPages).then(|| memory(bytes))]
}

fn cloned(file: &Option<File>) -> Option<File> {
    file.as_ref().map(|file| file.try_clone().unwrap())
}

/// The fault plan of a job, if any.
type Plan = Option<Arc<Faults>>;
type Maker = Box<dyn FnOnce() -> Box<dyn Carrier> + Send>;

/// A fabric as a carrier, under a fault plan where there is one.
fn shared<F: Fabric + Send + Sync + 'static>(fabric: F, faults: Plan) -> Box<dyn Carrier> {
    match faults {
        Some(faults) => Box::new(Shared(Faulty::new(fabric, faults))),
        None => Box::new(Shared(fabric)),
    }
}

fn carriers(over: Over, ranks: u16, faults: &Plan) -> Vec<Maker> {
    let mut makers: Vec<Maker> = Vec::new();
    match over {
        Over::Tcp => {
            let bind = |_| TcpListener::bind("127.0.0.1:0").unwrap();
            let listeners: Vec<TcpListener> = (0..ranks).map(bind).collect();
            let all: Arc<Vec<SocketAddr>> =
                Arc::new(listeners.iter().map(|l| l.local_addr().unwrap()).collect());
            for (n, listener) in listeners.into_iter().enumerate() {
                let all = Arc::clone(&all);
                let (me, faults) = (NodeId(n as u16), faults.clone());
                makers.push(Box::new(move || {
                    // As a rank of the launcher.
                    let silence = littoral_fabric::SILENCE_DEFAULT;
                    let joined =
                        TcpFabric::connect_without_agent(me, &all, &listener, 64, silence, 0);
                    shared(joined.unwrap(), faults)
                }));
            }
        }
        Over::ShmPages | Over::Shm => {
            // As a launcher: with room for the words of locks.
            let layout = ShmLayout::new(ranks, road_bytes(Config::default().locks, ranks));
            let file = Arc::new(memory(0));
            layout.create(&file).unwrap();
            for n in 0..ranks {
                let (file, faults) = (Arc::clone(&file), faults.clone());
                makers.push(Box::new(move || {
                    let fabric = ShmFabric::attach(&file, layout, NodeId(n)).unwrap();
                    fabric.wait_for_all(std::time::Duration::from_secs(10)).unwrap();
                    shared(fabric, faults)
                }));
            }
        }
        Over::Hostile | Over::Lines | Over::MappedLines => {
            let layout = PoolLayout::new(ranks, 64);
            let pool = HostilePool::new(layout.pool_bytes(), 7, 50);
            for n in 0..ranks {
                let (view, faults) = (pool.view(n), faults.clone());
                makers.push(Box::new(move || {
                    let fabric = PoolFabric::new(view, layout, NodeId(n)).unwrap();
                    match faults {
                        Some(faults) => Box::new(Exclusive::new(Faulty::new(fabric, faults))),
                        None => Box::new(Exclusive::new(fabric)),
                    }
                }));
            }
        }
    }
    makers
}

/// Runs `program` on every rank of a job; what each rank answers.
pub(crate) fn run_with<T: Send>(
    over: Over,
    ranks: u16,
    configure: impl Fn(&mut Config) + Sync,
    program: impl Fn(Job) -> T + Sync,
) -> Vec<T> {
    run_under(over, ranks, None, configure, |job| program(job.unwrap()))
}

/// As [`run_with`], under a fault plan; a rank may fail to join.
pub(crate) fn run_under<T: Send>(
    over: Over,
    ranks: u16,
    faults: Plan,
    configure: impl Fn(&mut Config) + Sync,
    program: impl Fn(littoral_dsm::Result<Job>) -> T + Sync,
) -> Vec<T> {
    let files = files(over, ranks, &configure);
    let lines = (over == Over::Lines).then(|| HostilePool::new(LINES_BYTES_MAX, 8, 50));
    let mapped = (over == Over::MappedLines).then(|| memory(LINES_BYTES_MAX));
    let program = &program;
    let configure = &configure;
    std::thread::scope(|s| {
        let mut threads = Vec::new();
        for (n, make) in (LINES_VIEW..).zip(carriers(over, ranks, &faults)) {
            let view = |pool: &HostilePool| Arc::new(pool.view(n)) as Arc<dyn Domain>;
            let map = |file: &File| {
                Arc::new(MappedPool::map(file, LINES_BYTES_MAX).unwrap()) as Arc<dyn Domain>
            };
            let domain = lines.as_ref().map(view).or(mapped.as_ref().map(map));
            let pool = domain.map(|domain| PoolLines { domain, at: 0, used: false });
            let bytes_max = if pool.is_some() { LINES_BYTES_MAX } else { BYTES_MAX };
            let [direct, frames] = files.each_ref().map(cloned);
            let log_capacity = 64;
            threads.push(s.spawn(move || {
                let mut config =
                    Config { bytes_max, direct, frames, pool, log_capacity, ..Config::default() };
                configure(&mut config);
                program(Job::start(make(), config))
            }));
        }
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// Runs `program` on every rank of a job of members, whose memory lies where the system likes.
pub(crate) fn run_members<T: Send>(
    over: Over,
    ranks: u16,
    configure: impl Fn(&mut Config) + Sync,
    program: impl Fn(Member) -> T + Sync,
) -> Vec<T> {
    let files = files(over, ranks, &configure);
    let (program, configure) = (&program, &configure);
    std::thread::scope(|s| {
        let mut threads = Vec::new();
        for make in carriers(over, ranks, &None) {
            let [direct, frames] = files.each_ref().map(cloned);
            threads.push(s.spawn(move || {
                let bytes_max = BYTES_MAX;
                let mut config = Config { bytes_max, direct, frames, ..Config::default() };
                configure(&mut config);
                program(Member::start(make(), config).unwrap())
            }));
        }
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

pub(crate) fn run<T: Send>(over: Over, ranks: u16, program: impl Fn(Job) -> T + Sync) -> Vec<T> {
    run_with(over, ranks, |_| {}, program)
}
