//! Sections and barriers of the lock managers in real time, and what machines need for them.
//!
//! A figure is the tenth percentile over batches, the median beside it: the machine is shared.
//!
//! Ranks are threads with a fabric handle each: the fabric's memory, sockets and wake-ups are what
//! they are between processes.
//!
//! Two ranks are bound to a processor each where there are two; more ranks than processors are not
//! bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use littoral_base::units::NodeId;
use littoral_device::pmem::FlushFence;
use littoral_dsm::core::message::LockId;
use littoral_dsm::lock::board::LockBoard;
use littoral_dsm::lock::client::BoardClient;
use littoral_dsm::lock::direct::DirectLocks;
use littoral_dsm::lock::server::{LockServer, ServerClient};
use littoral_dsm::lock::{Barriers, LockLayout, Locks};
use littoral_fabric::Fabric;
use littoral_fabric::mailbox::PoolAgent;
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use littoral_fabric::shm::ShmFabric;
use littoral_fabric::tcp::TcpFabric;
use rustix::thread::futex;

use super::counts::{shm_job, tcp_job};
use super::{Figures, words};
use littoral_bench::claims::Figure;

const BOARD: NodeId = NodeId(0);
/// Its home is node 0, as in the paper's Code 1.
const LOCK: LockId = LockId(0);
const PAGES_AT: usize = 0;
const NOTICES: usize = 64;
const WINDOW: usize = 1 << 16;
/// Pairs of runs, one of each kind, whose ratios' median is a figure.
const PAIRS: usize = 15;

fn layout(nodes: u16) -> LockLayout {
    LockLayout::new(4096, 4, nodes)
}

/// How many batches and how long a batch.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    batches: usize,
    /// Operations of a batch for an operation of about a microsecond.
    batch: usize,
}

impl Effort {
    /// Fewer repetitions.
    pub const QUICK: Effort = Effort { batches: 40, batch: 200 };
    /// What the figures in the book were measured with.
    pub const FULL: Effort = Effort { batches: 200, batch: 500 };

    /// Batches, and operations of a batch.
    pub(super) fn counts(self) -> (usize, usize) {
        (self.batches, self.batch)
    }

    pub(super) fn slower(self, times: usize) -> Effort {
        Effort { batches: self.batches, batch: (self.batch / times).max(10) }
    }
}

/// Tenth percentile and median of nanoseconds an operation.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// Tenth percentile over batches.
    pub p10_ns: f64,
    /// Median over batches.
    pub median_ns: f64,
}

impl Spread {
    pub(super) fn note(&self) -> String {
        format!("tenth percentile over batches; median {:.0} ns", self.median_ns)
    }
}

pub(super) fn spread(mut samples: Vec<f64>) -> Spread {
    samples.sort_by(f64::total_cmp);
    let at = |share: f64| samples[((samples.len() - 1) as f64 * share) as usize];
    Spread { p10_ns: at(0.1), median_ns: at(0.5) }
}

fn batches(effort: Effort, act: impl FnMut() -> Result<(), String>) -> Result<Spread, String> {
    in_batches(effort.batches, effort.batch, act)
}

/// Times so many batches of so many calls; nanoseconds a call, spread over batches.
pub(super) fn in_batches<E>(
    batches: usize,
    batch: usize,
    mut act: impl FnMut() -> Result<(), E>,
) -> Result<Spread, E> {
    let mut samples = Vec::with_capacity(batches);
    for _ in 0..batches {
        let began = Instant::now();
        for _ in 0..batch {
            act()?;
        }
        samples.push(began.elapsed().as_nanos() as f64 / batch as f64);
    }
    Ok(spread(samples))
}

/// Binds the calling thread to one processor of those it may use; where the system refuses, it
/// stays unbound.
pub(super) fn bind(n: usize) {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
    let cpus: Vec<usize> = (0..1024).filter(|&c| allowed.is_set(c)).collect();
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpus[n % cpus.len()]);
    let _ = rustix::thread::sched_setaffinity(None, &one);
}

fn read_word<F: Fabric>(fabric: &F, node: NodeId) -> Result<u64, String> {
    let mut word = [0; 8];
    fabric.get(node, PAGES_AT, &mut word).map_err(words)?;
    Ok(u64::from_le_bytes(word))
}

/// Code 1 in one rank: the counter lies at node 0.
fn section<F: Fabric>(fabric: &F, locks: &mut impl Locks, value: &mut u64) -> Result<(), String> {
    locks.acquire(LOCK).map_err(words)?;
    *value += 1;
    fabric.put(BOARD, PAGES_AT, &value.to_le_bytes()).map_err(words)?;
    locks.release(LOCK, &[]).map_err(words)
}

fn pool() -> Result<(PoolLayout, Arc<FlushFence>), String> {
    let places = PoolLayout::new(2, WINDOW);
    let bytes = places.pool_bytes().next_multiple_of(4096);
    Ok((places, Arc::new(FlushFence::anonymous(bytes).map_err(words)?)))
}

/// Runs `act` against a pool whose board an agent serves on the other processor.
fn beside_agent<T>(
    act: impl FnOnce(PoolLayout, &Arc<FlushFence>) -> Result<T, String>,
) -> Result<T, String> {
    let (places, memory) = pool()?;
    let board = Box::new(LockBoard::new(2, NOTICES));
    let mut agent = PoolAgent::new(Arc::clone(&memory), places, BOARD, board).map_err(words)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            bind(0);
            agent.serve(&stop)
        });
        let done = act(places, &memory);
        stop.store(true, Ordering::Release);
        done
    })
}

/// One section of Code 1 over the pool: real write-backs and fences, the agent on the other
/// processor.
///
/// # Errors
/// What a lock operation failed with.
pub fn code1_pool(effort: Effort) -> Result<Spread, String> {
    beside_agent(|places, memory| {
        std::thread::scope(|s| {
            let rank = s.spawn(|| {
                bind(1);
                let node = PoolFabric::new(Arc::clone(memory), places, NodeId(1)).map_err(words)?;
                let mut locks = BoardClient::new(&node, BOARD, layout(2));
                batches(effort.slower(4), || {
                    locks.acquire(LOCK).map_err(words)?;
                    let next = read_word(&node, BOARD)? + 1;
                    node.put(BOARD, PAGES_AT, &next.to_le_bytes()).map_err(words)?;
                    node.flush(BOARD).map_err(words)?;
                    locks.release(LOCK, &[]).map_err(words)
                })
            });
            rank.join().map_err(|_| "a rank panicked".to_owned())?
        })
    })
}

/// One section of Code 1 over TCP on loopback, and a round trip of the same connection.
///
/// The counter's home is the manager, so the write goes ahead of the release on one connection and
/// needs no acknowledgement of its own; nor is the release's answer waited for before the next
/// request; the copy read is this rank's last, which the grant leaves
/// valid.
///
/// # Errors
/// What a lock operation failed with.
pub fn code1_tcp(effort: Effort) -> Result<(Spread, Spread), String> {
    let job = tcp_job(2, WINDOW)?;
    job[0].host(Box::new(LockBoard::new(2, NOTICES)));
    let effort = effort.slower(20);
    let mut locks = BoardClient::new(&job[1], BOARD, layout(2));
    let mut value = 0;
    let round = batches(effort, || read_word(&job[1], BOARD).map(drop))?;
    let sections = batches(effort, || section(&job[1], &mut locks, &mut value))?;
    // The last section's write is on its way; no rank waits for it before the next request.
    job[1].flush(BOARD).map_err(words)?;
    match read_word(&job[0], BOARD)? {
        found if found == value => Ok((sections, round)),
        found => Err(format!("the counter is {found} after {value} sections")),
    }
}

/// Runs the same body on each fabric of a job, bound to a processor each where that is one a rank,
/// and gives what the last rank measured, which is not the board's.
fn job_of<F: Fabric + Sync, T: Send>(
    job: &[F],
    body: impl Fn(&F) -> Result<T, String> + Sync,
) -> Result<T, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        let start = |n: usize| {
            let body = &body;
            s.spawn(move || {
                if job.len() <= cores {
                    bind(n);
                }
                body(&job[n])
            })
        };
        let threads: Vec<_> = (0..job.len()).map(start).collect();
        let ended: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
        let mut last = Err("a job without ranks".to_owned());
        for ended in ended {
            last = Ok(ended.map_err(|_| "a rank panicked".to_owned())??);
        }
        last
    })
}

/// An iteration of Code 2: rank 0 writes, a barrier, all ranks read, a barrier without coherence.
fn code2<F: Fabric>(
    fabric: &F,
    barriers: &mut impl Barriers,
    effort: Effort,
) -> Result<Spread, String> {
    let mut i = 0u64;
    batches(effort, || {
        i += 1;
        if fabric.me() == BOARD {
            fabric.put(BOARD, PAGES_AT, &i.to_le_bytes()).map_err(words)?;
            fabric.flush(BOARD).map_err(words)?;
        }
        barriers.barrier(&[]).map_err(words)?;
        let read = read_word(fabric, BOARD)?;
        if read != i {
            return Err(format!("rank {} read {read} in iteration {i}", fabric.me()));
        }
        barriers.barrier(&[]).map_err(words).map(drop)
    })
}

/// An iteration of Code 2 over the pool; the agent is a third thread.
///
/// # Errors
/// What a lock operation failed with.
pub fn code2_pool(effort: Effort) -> Result<Spread, String> {
    beside_agent(|places, memory| {
        let join = |n| PoolFabric::new(Arc::clone(memory), places, NodeId(n)).map_err(words);
        let rank = |n: u16| {
            bind(usize::from(n));
            let node = join(n)?;
            code2(&node, &mut BoardClient::new(&node, BOARD, layout(2)), effort)
        };
        std::thread::scope(|s| {
            let (near, far) = (s.spawn(|| rank(0)), s.spawn(|| rank(1)));
            let ended = |t: std::thread::ScopedJoinHandle<'_, Result<Spread, String>>| {
                t.join().map_err(|_| "a rank panicked".to_owned())?
            };
            ended(near).and(ended(far))
        })
    })
}

fn barriers_only(barriers: &mut impl Barriers, effort: Effort) -> Result<Spread, String> {
    batches(effort, || barriers.barrier(&[]).map_err(words).map(drop))
}

/// Ranks that count only what they do while every one of them runs.
struct Together {
    ranks: u32,
    begun: AtomicU32,
    ended: AtomicU32,
}

impl Together {
    fn new(ranks: u16) -> Self {
        Together { ranks: ranks.into(), begun: AtomicU32::new(0), ended: AtomicU32::new(0) }
    }

    fn have_all(&self, done: &AtomicU32) -> bool {
        done.load(Ordering::Acquire) >= self.ranks
    }

    /// Batches that begin when every rank has begun; a rank that has its samples goes on until
    /// every rank has.
    fn batches(
        &self,
        effort: Effort,
        mut act: impl FnMut() -> Result<(), String>,
    ) -> Result<Spread, String> {
        let mut act = || act().inspect_err(|_| self.ended.store(self.ranks, Ordering::Release));
        act()?;
        self.begun.fetch_add(1, Ordering::AcqRel);
        while !self.have_all(&self.begun) && !self.have_all(&self.ended) {
            act()?;
        }
        let found = batches(effort, &mut act)?;
        self.ended.fetch_add(1, Ordering::AcqRel);
        while !self.have_all(&self.ended) {
            act()?;
        }
        Ok(found)
    }
}

/// Sections that every rank asks for at the same time.
fn sections_only(
    locks: &mut impl Locks,
    effort: Effort,
    together: &Together,
) -> Result<Spread, String> {
    together.batches(effort, || {
        locks.acquire(LOCK).map_err(words)?;
        locks.release(LOCK, &[]).map_err(words)
    })
}

/// An iteration of Code 2 over TCP on loopback.
///
/// # Errors
/// What a lock operation failed with.
pub fn code2_tcp(effort: Effort) -> Result<Spread, String> {
    job_of(&hosted(2)?, |f| code2(f, &mut BoardClient::new(f, BOARD, layout(2)), effort))
}

fn hosted(nodes: u16) -> Result<Vec<TcpFabric>, String> {
    let job = tcp_job(nodes, WINDOW)?;
    job[0].host(Box::new(LockBoard::new(nodes, NOTICES)));
    Ok(job)
}

/// What the software manager makes of the same body: a server thread at node 0.
fn with_server<F: Fabric + Sync>(
    job: &[F],
    body: impl Fn(&F, &mut ServerClient<'_, F>) -> Result<Spread, String> + Sync,
) -> Result<Spread, String> {
    let stop = AtomicBool::new(false);
    let (answers, local) = std::sync::mpsc::channel();
    let ranks = job[0].nodes();
    std::thread::scope(|s| {
        let server =
            s.spawn(|| LockServer::new(ranks, NOTICES, Some(answers)).serve(&job[0], &stop));
        let body = &body;
        let far = s.spawn(move || {
            bind(1);
            body(&job[1], &mut ServerClient::new(&job[1], BOARD, None))
        });
        let near = s.spawn(move || {
            bind(0);
            body(&job[0], &mut ServerClient::new(&job[0], BOARD, Some(local)))
        });
        let near = near.join().map_err(|_| "a rank panicked".to_owned()).and_then(|r| r);
        let far = far.join().map_err(|_| "a rank panicked".to_owned()).and_then(|r| r);
        stop.store(true, Ordering::Release);
        server.join().map_err(|_| "the server panicked".to_owned())?.map_err(words)?;
        near.and(far)
    })
}

/// The software manager's time over the lock manager's, of runs made one after the other.
fn ratio(pairs: Vec<(Spread, Spread)>) -> Figure {
    let median =
        |of: fn(&(Spread, Spread)) -> f64| spread(pairs.iter().map(of).collect()).median_ns;
    let ratios = || pairs.iter().map(|(sw, hw)| sw.median_ns / hw.median_ns);
    let note = format!(
        "medians of {} pairs of runs: software manager {:.2} us, lock manager {:.2} us; ratios \
         from {:.2} to {:.2}; 2 ranks contend",
        pairs.len(),
        median(|(sw, _)| sw.median_ns) / 1000.0,
        median(|(_, hw)| hw.median_ns) / 1000.0,
        ratios().fold(f64::MAX, f64::min),
        ratios().fold(0.0, f64::max)
    );
    Figure::new(spread(ratios().collect()).median_ns, note)
}

fn in_pairs(
    hw: impl Fn() -> Result<Spread, String>,
    sw: impl Fn() -> Result<Spread, String>,
) -> Result<Figure, String> {
    let pair = |_| hw().and_then(|hw| Ok((sw()?, hw)));
    (0..PAIRS).map(pair).collect::<Result<Vec<_>, _>>().map(ratio)
}

/// `dsm.hw_vs_sw.*`.
///
/// # Errors
/// What a lock operation failed with.
pub fn hardware_over_software(effort: Effort) -> Figures {
    let effort = Effort { batches: effort.batches / 4, ..effort };
    let slow = effort.slower(20);
    let shm_job = || shm_job(2, WINDOW);
    let shm_lock = || {
        let all = Together::new(2);
        let section =
            |f: &ShmFabric| sections_only(&mut DirectLocks::new(f, layout(2)), effort, &all);
        job_of(&shm_job()?, section)
    };
    let shm_barrier = || {
        let barrier = |f: &ShmFabric| barriers_only(&mut DirectLocks::new(f, layout(2)), effort);
        job_of(&shm_job()?, barrier)
    };
    let tcp_lock = || {
        let all = Together::new(2);
        let section =
            |f: &TcpFabric| sections_only(&mut BoardClient::new(f, BOARD, layout(2)), slow, &all);
        job_of(&hosted(2)?, section)
    };
    let tcp_barrier = || {
        let barrier =
            |f: &TcpFabric| barriers_only(&mut BoardClient::new(f, BOARD, layout(2)), slow);
        job_of(&hosted(2)?, barrier)
    };
    let figures = [
        ("lock.shm", in_pairs(shm_lock, || software_lock(&shm_job()?, slow))?),
        ("lock.tcp", in_pairs(tcp_lock, || software_lock(&tcp_job(2, WINDOW)?, slow))?),
        ("barrier.shm", in_pairs(shm_barrier, || software_barrier(&shm_job()?, slow))?),
        ("barrier.tcp", in_pairs(tcp_barrier, || software_barrier(&tcp_job(2, WINDOW)?, slow))?),
    ];
    Ok(figures.map(|(id, figure)| (format!("dsm.hw_vs_sw.{id}"), figure)).into())
}

fn software_lock<F: Fabric + Sync>(job: &[F], effort: Effort) -> Result<Spread, String> {
    let all = Together::new(2);
    with_server(job, |_, client| sections_only(client, effort, &all))
}

fn software_barrier<F: Fabric + Sync>(job: &[F], effort: Effort) -> Result<Spread, String> {
    with_server(job, |_, client| barriers_only(client, effort))
}

/// What no barrier of two processors can do without: each writes a word that the other waits for,
/// and nothing else.
///
/// # Errors
/// When a thread panicked.
pub fn bare_exchange(effort: Effort) -> Result<Spread, String> {
    #[repr(align(128))]
    struct Word(AtomicU32);
    let words_of = [Word(AtomicU32::new(0)), Word(AtomicU32::new(0))];
    let exchange = |me: usize| {
        bind(me);
        let (mine, other) = (&words_of[me].0, &words_of[1 - me].0);
        let mut turn = 0u32;
        batches(effort, || {
            turn += 1;
            other.store(turn, Ordering::Release);
            while mine.load(Ordering::Acquire) < turn {
                std::hint::spin_loop();
            }
            Ok(())
        })
    };
    std::thread::scope(|s| {
        let (far, near) = (s.spawn(|| exchange(1)), s.spawn(|| exchange(0)));
        let far = far.join().map_err(|_| "a thread panicked".to_owned())?;
        near.join().map_err(|_| "a thread panicked".to_owned())?.and(far)
    })
}

/// Giving a processor to another thread that waits for it: what a barrier of two ranks a processor
/// needs at least once on each.
///
/// # Errors
/// When a thread panicked.
pub fn bare_switch(effort: Effort) -> Result<Spread, String> {
    let turns = AtomicU32::new(0);
    let alternate = |me: u32| {
        bind(0);
        let mut mine = me;
        batches(effort, || {
            while turns.load(Ordering::Acquire) != mine {
                std::thread::yield_now();
            }
            turns.store(mine + 1, Ordering::Release);
            mine += 2;
            Ok(())
        })
    };
    let both = std::thread::scope(|s| {
        let (one, two) = (s.spawn(|| alternate(0)), s.spawn(|| alternate(1)));
        let one = one.join().map_err(|_| "a thread panicked".to_owned())?;
        two.join().map_err(|_| "a thread panicked".to_owned())?.and(one)
    })?;
    Ok(Spread { p10_ns: both.p10_ns / 2.0, median_ns: both.median_ns / 2.0 })
}

/// Handing a word from one thread to another that sleeps on a futex: one way. Neither ever spins.
///
/// # Errors
/// When a thread panicked.
pub fn sleep_wake(effort: Effort) -> Result<Spread, String> {
    let words_of = [AtomicU32::new(0), AtomicU32::new(0)];
    let hand = |me: usize| {
        bind(me);
        let (mine, other) = (&words_of[me], &words_of[1 - me]);
        let mut turn = 0u32;
        let tell = |turn| {
            other.store(turn, Ordering::Release);
            // Waking no thread is no failure.
            let _ = futex::wake(other, futex::Flags::PRIVATE, 1);
        };
        batches(effort, || {
            turn += 1;
            if me == 0 {
                tell(turn);
            }
            while mine.load(Ordering::Acquire) != turn {
                // A changed word means that there is nothing to sleep for.
                let _ = futex::wait(mine, futex::Flags::PRIVATE, turn - 1, None);
            }
            if me == 1 {
                tell(turn);
            }
            Ok(())
        })
    };
    let both = std::thread::scope(|s| {
        let (far, near) = (s.spawn(|| hand(1)), s.spawn(|| hand(0)));
        let far = far.join().map_err(|_| "a thread panicked".to_owned())?;
        near.join().map_err(|_| "a thread panicked".to_owned())?.and(far)
    })?;
    Ok(Spread { p10_ns: both.p10_ns / 2.0, median_ns: both.median_ns / 2.0 })
}
