//! Durable commits per second on a file: `commits FILE OBJECTS`, then lines
//! `K THREADS MILLISECONDS` on standard input.
//!
//! Each line answers commits and nanoseconds. A commit replaces K objects of 24 bytes and has
//! reached the device on return (msync). The file is made anew and removed at the end of input.
//! `littoral-redb-commits` of crates/bench-peers takes the same lines.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use littoral_base::rng::mix;
use littoral_device::pmem::Msync;
use littoral_stm::{Options, Pool, Ref, Result};

littoral_stm::record! {
    struct Object = "example.object/1" { words: [u64; 3] }
}

fn work(
    pool: &Pool<Msync>,
    all: &[Ref<Object>],
    (k, first): (u64, u64),
    until: impl Fn() -> bool,
) -> Result<u64> {
    let (mut thread, mut commits) = (pool.thread()?, 0);
    while until() {
        let i = first + commits;
        let pick = |j| all[(mix(i * k + j) % all.len() as u64) as usize];
        thread.atomically(|tx| {
            (0..k).try_for_each(|j| tx.write(pick(j), &Object { words: [i; 3] }))
        })?;
        commits += 1;
    }
    Ok(commits)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: commits FILE OBJECTS";
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or(usage)?;
    let objects: usize = args.next().ok_or(usage)?.parse()?;
    let pool = Pool::create(Msync::create(Path::new(&file), 64 << 20)?, &Options::default())?;
    let mut all = Vec::new();
    while all.len() < objects {
        let some = 1000.min(objects - all.len());
        let made: Vec<_> = pool
            .thread()?
            .atomically(|tx| (0..some).map(|_| tx.alloc(&Object { words: [0; 3] })).collect())?;
        all.extend(made);
    }
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let asked: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
        let [k, threads, milliseconds] = asked[..] else { return Err(usage.into()) };
        let (start, commits) = (Instant::now(), AtomicU64::new(0));
        let until = || start.elapsed() < Duration::from_millis(milliseconds);
        std::thread::scope(|s| {
            let run = |t: u64| work(&pool, &all, (k, t << 32), until);
            let workers: Vec<_> = (0..threads).map(|t| s.spawn(move || run(t))).collect();
            workers.into_iter().try_for_each(|w| {
                let done = w.join().expect("invariant: no panic in a worker")?;
                commits.fetch_add(done, Ordering::Relaxed);
                Ok::<(), littoral_stm::Error>(())
            })
        })?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{} {}", commits.into_inner(), start.elapsed().as_nanos())?;
        out.flush()?;
    }
    drop(pool);
    std::fs::remove_file(&file)?;
    Ok(())
}
