//! kill -9 while several threads change structures whose memory goes from type to type: what was
//! acknowledged is there, sums are whole, and every structure of the pool is sound.
//!
//! The pool is small, so that slabs are given back and claimed all the time. Each session is opened
//! in another way: lazily or by scan, by msync or by flush and fence.
//! `LITTORAL_KILL_ROUNDS` is how often (8).
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use littoral_base::rng::{self, Rng as _};
use littoral_device::memory::Domain;
use littoral_device::pmem::{FlushFence, Msync};
use littoral_stm::structures::{BTree, HashMap, Map, Queue, SearchTree, SortedList};
use littoral_stm::{Abort, Kind, Options, Pool, Record, Ref, Restart, Result, Thread, Tx};

const CHILD: &str = "LITTORAL_TEST_POOL_OF_THREADS";
const THREADS: u64 = 4;
/// Accounts of the map, and what lies on each at first.
const ACCOUNTS: u64 = 16;
const BALANCE: u64 = 1000;
/// Where in the map a thread counts its transactions.
const COUNTS: u64 = 1 << 32;

type Done<T> = std::result::Result<T, Abort>;

/// A thread's structure of one type with `n` keys, under a name of its own.
fn make<D: Domain>(tx: &mut Tx<'_, '_, D>, name: &str, kind: u64, n: u64) -> Done<()> {
    fn fill<D: Domain>(tx: &mut Tx<'_, '_, D>, map: &impl Map, n: u64) -> Done<()> {
        (0..n).try_for_each(|i| map.insert(tx, rng::mix(i) % 1000, i).map(drop))
    }
    match kind {
        0 => {
            let tree = BTree::create(tx)?;
            fill(tx, &tree, n)?;
            tx.set_root(name, tree.at())
        }
        1 => {
            let tree = SearchTree::create(tx)?;
            fill(tx, &tree, n)?;
            tx.set_root(name, tree.at())
        }
        2 => {
            let list = SortedList::create(tx)?;
            fill(tx, &list, n)?;
            tx.set_root(name, list.at())
        }
        3 => {
            let map = HashMap::create(tx, 3)?;
            fill(tx, &map, n)?;
            tx.set_root(name, map.at())
        }
        _ => {
            let queue = Queue::create(tx)?;
            (0..n).try_for_each(|i| queue.push(tx, i))?;
            tx.set_root(name, queue.at())
        }
    }
}

/// What a name leads to where it is of type `T`; none where it is of another.
fn named<D: Domain, T: Record>(tx: &mut Tx<'_, '_, D>, name: &str) -> Done<Option<Ref<T>>> {
    match tx.root(name) {
        Err(abort) if !abort.is_conflict() => Ok(None),
        found => found,
    }
}

/// Ends a thread's structure, of whatever type it is; whether there was one.
fn end<D: Domain>(tx: &mut Tx<'_, '_, D>, name: &str) -> Done<bool> {
    if let Some(at) = named(tx, name)? {
        return BTree::open(at).destroy(tx).map(|()| true);
    }
    if let Some(at) = named(tx, name)? {
        return SearchTree::open(at).destroy(tx).map(|()| true);
    }
    if let Some(at) = named(tx, name)? {
        return SortedList::open(at).destroy(tx).map(|()| true);
    }
    if let Some(at) = named(tx, name)? {
        return HashMap::open(tx, at)?.destroy(tx).map(|()| true);
    }
    match tx.root(name)? {
        Some(at) => Queue::open(tx, at)?.destroy(tx).map(|()| true),
        None => Ok(false),
    }
}

fn work<D: Domain>(th: &mut Thread<'_, D>, map: &HashMap, t: u64, seed: u64) -> Result<()> {
    let (mut rng, name) = (rng::stream(seed, &format!("killed-{t}")), format!("of-{t}"));
    loop {
        let [from, to, amount] = [ACCOUNTS, ACCOUNTS, 9].map(|n| rng.random_range(0..n));
        let (kind, n, what) =
            (rng.random_range(0..5), rng.random_range(0..60), rng.random_range(0..3));
        let done = th.atomically(|tx| {
            let [a, b] = [map.get(tx, from)?, map.get(tx, to)?].map(Option::unwrap_or_default);
            if from != to && a >= amount {
                map.insert(tx, from, a - amount)?;
                map.insert(tx, to, b + amount)?;
            }
            if what == 0 && !end(tx, &name)? {
                make(tx, &name, kind, n)?;
            }
            let count = map.get(tx, COUNTS + t)?.unwrap_or(0) + 1;
            map.insert(tx, COUNTS + t, count).map(|_| count)
        });
        match done {
            Ok(count) => writeln!(std::io::stdout(), "ack {t} {count}").expect("a reader"),
            // The others hold the memory.
            Err(full) if full.kind() == Kind::Full => {}
            Err(other) => return Err(other),
        }
    }
}

fn go_on<D: Domain>(pool: &Pool<D>, seed: u64) -> Result<()> {
    let map = pool.thread()?.atomically(|tx| {
        if let Some(at) = tx.root("map")? {
            return HashMap::open(tx, at);
        }
        let map = HashMap::create(tx, 4)?;
        (0..ACCOUNTS).try_for_each(|key| map.insert(tx, key, BALANCE).map(drop))?;
        tx.set_root("map", map.at()).map(|()| map)
    })?;
    std::thread::scope(|s| {
        let all: Vec<_> = (0..THREADS)
            .map(|t| {
                let map = map.clone();
                s.spawn(move || work(&mut pool.thread()?, &map, t, seed))
            })
            .collect();
        all.into_iter().try_for_each(|t| t.join().expect("no panic"))
    })
}

fn restart(round: u64) -> Restart {
    if round % 3 == 2 { Restart::Scan } else { Restart::Lazy }
}

/// The child's part: it works until it is killed.
#[test]
fn child() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let (round, path) = words.split_once(' ').expect("a round and a path");
    let (round, path) = (round.parse::<u64>().expect("a number"), Path::new(path));
    if round == 0 {
        let options = Options { threads_max: 6, slab_bytes: Some(1024) };
        let pool = Pool::create(FlushFence::create(path, 96 << 10).unwrap(), &options);
        go_on(&pool.unwrap(), round).unwrap();
    } else if round.is_multiple_of(2) {
        go_on(&Pool::open(Msync::open(path).unwrap(), restart(round)).unwrap(), round).unwrap();
    } else {
        go_on(&Pool::open(FlushFence::open(path).unwrap(), restart(round)).unwrap(), round)
            .unwrap();
    }
}

/// What the child's threads acknowledged before it was killed.
fn killed_after(path: &Path, round: u64, time: Duration) -> [u64; THREADS as usize] {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env(CHILD, format!("{round} {}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (start, mut counts) = (Instant::now(), [0; THREADS as usize]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut note = |line: &str| {
        let mut words = line.split(' ').skip_while(|w| *w != "ack").skip(1);
        let t = words.next().and_then(|w| w.parse::<usize>().ok());
        if let (Some(t), Some(count)) = (t, words.next().and_then(|w| w.parse::<u64>().ok())) {
            counts[t] = count;
        }
    };
    let mut seen = 0;
    while seen < 50 || start.elapsed() < time {
        note(&lines.next().expect("the child works until it is killed").unwrap());
        seen += 1;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it had said and this process had not read yet; a last line may be half.
    let rest: Vec<String> = lines.map_while(std::result::Result::ok).collect();
    rest.split_last().into_iter().flat_map(|(_, whole)| whole).for_each(|line| note(line));
    counts
}

#[test]
fn threads_that_are_killed_leave_what_they_acknowledged_and_sound_structures() {
    let rounds = std::env::var("LITTORAL_KILL_ROUNDS").map_or(8, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let mut rng = rng::seeded(7);
    for round in 0..rounds {
        let time = Duration::from_millis(rng.random_range(0..300));
        let acknowledged = killed_after(&path, round, time);
        // Looked at through a copy: the next session finds what was left.
        let copy = littoral_device::pmem::FileCopy::open(&path).unwrap();
        let pool = Pool::open(copy, restart(round + 1)).unwrap();
        pool.roots().unwrap();
        pool.check_structures().unwrap();
        let counted = pool.thread().unwrap().read_only(|tx| {
            let at = tx.root("map")?.expect("the map is there");
            let map = HashMap::open(tx, at)?;
            let (mut sum, mut counts) = (0, [0; THREADS as usize]);
            for key in 0..ACCOUNTS {
                sum += map.get(tx, key)?.expect("an account");
            }
            for t in 0..THREADS {
                counts[t as usize] = map.get(tx, COUNTS + t)?.unwrap_or(0);
            }
            assert_eq!(sum, ACCOUNTS * BALANCE, "round {round}");
            Ok(counts)
        });
        let counted = counted.unwrap();
        let is_kept = counted.iter().zip(&acknowledged).all(|(found, ack)| found >= ack);
        assert!(is_kept, "round {round}: {counted:?} of {acknowledged:?}");
    }
}
