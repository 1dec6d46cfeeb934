//! Durable commits on a drive beside redb: the cost of a transaction that must reach the device.
//!
//! - Ours is a pool on `Msync`, a file in the scratch folder; the peer's file lies beside it.
//! - The peer is the program `littoral-redb-commits` of `crates/bench-peers`, looked for like any
//!   other; nothing of it is linked. Both replace k objects of 24 bytes out of 10^4, picked alike.
//! - Rounds in turns, each engine for the same time; commits a second of wall time, since a commit
//!   is a wait for the device. The ratio is of one thread; more threads stand in the notes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use littoral_base::rng::mix;
use littoral_device::pmem::Msync;
use littoral_stm::{Options, Pool, Ref};

use super::claims::{Effort, OBJECTS, POOL_BYTES};
use super::rivals::{Named, named};
use super::work::{self, Object, median};
use littoral_bench::error::{Error, Kind, Result};
use littoral_bench::peers::Peers;
use littoral_bench::repro::{Unanswered, missing};

const PROGRAM: &str = "littoral-redb-commits";
/// Threads of a cell.
const THREADS: [usize; 3] = [1, 2, 8];

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |e| Error::with_source(Kind::Environment, what, e)
}

fn ours_failed(e: littoral_stm::Error) -> Error {
    Error::with_source(Kind::Environment, "durable commits beside redb", e)
}

/// A file that goes when this does.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// The peer's running program.
struct Peer {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(peers: &Peers, file: &Path) -> std::result::Result<Peer, Unanswered> {
        let program = peers
            .find("redb", PROGRAM)
            .ok_or_else(|| missing(format!("{PROGRAM} (crates/bench-peers builds it)")))?;
        let mut child = Command::new(program)
            .arg(file)
            .arg(OBJECTS.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed("start redb's program"))?;
        let (ask, answers) = (child.stdin.take(), child.stdout.take());
        let answers = answers.ok_or_else(|| Error::new(Kind::Environment, "redb: no output"))?;
        Ok(Peer { child, ask, answers: BufReader::new(answers) })
    }

    /// Commits of `k` objects a second.
    fn run(&mut self, k: usize, threads: usize, time: Duration) -> Result<f64> {
        if let Some(ask) = &mut self.ask {
            writeln!(ask, "{k} {threads} {}", time.as_millis())
                .and_then(|()| ask.flush())
                .map_err(failed("ask redb's program"))?;
        }
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(failed("hear redb's program"))?;
        let numbers: Vec<f64> = line.split_whitespace().flat_map(str::parse).collect();
        match numbers[..] {
            [commits, ns] if commits > 0.0 && ns > 0.0 => Ok(commits * 1e9 / ns),
            _ => Err(Error::new(Kind::Environment, format!("redb's program answered '{line}'"))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.ask.take());
        drop(self.child.wait());
    }
}

/// Commits of `k` objects a second on the pool.
fn run(
    pool: &Pool<Msync>,
    objects: &[Ref<Object>],
    k: usize,
    threads: usize,
    time: Duration,
) -> Result<f64> {
    let commits = AtomicU64::new(0);
    let start = Instant::now();
    let work = |t: usize| -> littoral_stm::Result<()> {
        let mut thread = pool.thread()?;
        let mut i = (t as u64) << 32;
        while start.elapsed() < time {
            let pick = |j: u64| objects[(mix(i * k as u64 + j) % objects.len() as u64) as usize];
            thread.atomically(|tx| {
                (0..k as u64).try_for_each(|j| tx.write(pick(j), &Object { words: [i; 3] }))
            })?;
            commits.fetch_add(1, Ordering::Relaxed);
            i += 1;
        }
        Ok(())
    };
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..threads).map(|t| s.spawn(move || work(t))).collect();
        workers.into_iter().try_for_each(|w| w.join().expect("invariant: no panic in a worker"))
    })
    .map_err(ours_failed)?;
    Ok(commits.into_inner() as f64 / start.elapsed().as_secs_f64())
}

/// `sdtm.disk.k*.vs_redb`.
///
/// # Errors
/// When the peer is missing or fails.
pub fn beside(
    peers: &Peers,
    folder: &Path,
    effort: &Effort,
) -> std::result::Result<Vec<Named>, Unanswered> {
    let scratch = |name: &str| folder.join(format!("littoral-{}.{name}", std::process::id()));
    let (ours, theirs) = (Gone(scratch("pool")), Gone(scratch("redb")));
    let mut peer = Peer::start(peers, &theirs.0)?;
    let file = Msync::create(&ours.0, POOL_BYTES)
        .map_err(|e| Error::with_source(Kind::Environment, "a pool beside redb", e))?;
    let pool = Pool::create(file, &Options::default()).map_err(ours_failed)?;
    let objects = work::objects(&pool, OBJECTS).map_err(ours_failed)?;
    let (rounds, time) = (effort.rounds.div_ceil(2), Duration::from_millis(400));
    let mut all = Vec::new();
    for k in [1, 4, 16] {
        let (mut ratios, mut notes) = (Vec::new(), Vec::new());
        for threads in THREADS {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..=rounds {
                ours.push(run(&pool, &objects, k, threads, time)?);
                theirs.push(peer.run(k, threads, time)?);
            }
            // The first round warms both up.
            let (ours, theirs) = (&ours[1..], &theirs[1..]);
            ratios.push(median(ours.iter().zip(theirs).map(|(a, b)| a / b).collect()));
            let (a, b) = (median(ours.to_vec()), median(theirs.to_vec()));
            notes.push(format!("{threads} threads: ours {a:.0}, redb {b:.0} commits a second"));
        }
        let note = format!("{}; median of {rounds} rounds", notes.join("; "));
        all.push(named(format!("sdtm.disk.k{k}.vs_redb"), ratios[0], note));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_peer_is_named_with_where_it_comes_from() {
        let folder = tempfile::tempdir().unwrap();
        let peers = Peers::new(Some(folder.path().to_owned()));
        if peers.find("redb", PROGRAM).is_none() {
            let error = beside(&peers, folder.path(), &Effort::QUICK).unwrap_err();
            assert!(matches!(error, Unanswered::Missing(_)), "{error:?}");
            assert!(error.to_string().contains("crates/bench-peers"), "{error}");
        }
    }
}
