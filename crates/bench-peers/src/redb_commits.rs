//! Durable commits per second of redb, for `sdtm.disk.*.vs_redb`.
//!
//! usage: `littoral-redb-commits FILE OBJECTS`; then lines `K THREADS MILLISECONDS` on standard
//! input. Each answers one line: commits and nanoseconds. A commit replaces K values of 24 bytes
//! under random keys below OBJECTS and is durable on return (`Durability::Immediate`). The file is
//! created anew and removed at the end of input.

use std::io::{BufRead as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redb::{Database, Durability, TableDefinition};

const TABLE: TableDefinition<u64, [u8; 24]> = TableDefinition::new("objects");

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// splitmix64, as the other engine draws its objects.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn commit(db: &Database, keys: impl Iterator<Item = u64>, value: u64) -> Result<(), Failure> {
    let mut write = db.begin_write()?;
    write.set_durability(Durability::Immediate);
    {
        let mut table = write.open_table(TABLE)?;
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        for key in keys {
            table.insert(key, bytes)?;
        }
    }
    write.commit()?;
    Ok(())
}

fn run(
    db: &Database,
    objects: u64,
    k: u64,
    threads: u64,
    time: Duration,
) -> Result<(u64, u128), Failure> {
    let commits = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|s| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                let commits = &commits;
                s.spawn(move || -> Result<(), Failure> {
                    let mut i = t << 32;
                    while start.elapsed() < time {
                        commit(db, (0..k).map(|j| mix(i * k + j) % objects), i)?;
                        commits.fetch_add(1, Ordering::Relaxed);
                        i += 1;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok((commits.into_inner(), start.elapsed().as_nanos()))
}

fn main() -> Result<(), Failure> {
    let usage = "usage: littoral-redb-commits FILE OBJECTS";
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or(usage)?;
    let objects: u64 = args.next().ok_or(usage)?.parse()?;
    let db = Database::create(&file)?;
    commit(&db, 0..objects, 0)?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let asked: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [k, threads, milliseconds] = asked[..] else { return Err(usage.into()) };
        let (commits, ns) = run(&db, objects, k, threads, Duration::from_millis(milliseconds))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{commits} {ns}")?;
        out.flush()?;
    }
    drop(db);
    std::fs::remove_file(&file)?;
    Ok(())
}
