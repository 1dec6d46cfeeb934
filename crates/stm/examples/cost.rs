//! What transactions cost: runs one kind of transaction many times and prints nanoseconds a piece.
//!
//! `cost KIND COUNT`, over anonymous memory with real write-backs and fences (durability
//! of nothing, at its cost). Kinds: `empty`, `read1`, `read64`, `write1`, `write4`, `write16`,
//! `rmw1` (read and write one), `alloc1` (and free it), `hash`, `bst`, `list`, `btree` (lookups).
//!
//! Instructions a transaction, free of noise: the difference of two counts under
//! `valgrind --tool=callgrind`, divided by the difference of COUNT; the table of
//! docs/design/stm.md was made so.

use std::time::Instant;

use littoral_base::rng::mix;
use littoral_device::pmem::FlushFence;
use littoral_stm::structures::{BTree, HashMap, Map, SearchTree, SortedList};
use littoral_stm::{Options, Pool, Ref, Result, Thread};

littoral_stm::record! {
    struct Object = "example.object/1" { words: [u64; 3] }
}

const OBJECTS: u64 = 10_000;
type Th<'p> = Thread<'p, FlushFence>;

fn pick(i: u64, of: u64) -> u64 {
    ((u128::from(mix(i + 1)) * u128::from(of)) >> 64) as u64
}

fn objects(th: &mut Th<'_>) -> Result<Vec<Ref<Object>>> {
    let some = |th: &mut Th<'_>| {
        th.atomically(|tx| (0..500).map(|i| tx.alloc(&Object { words: [i; 3] })).collect())
    };
    let all = (0..OBJECTS / 500).map(|_| some(th)).collect::<Result<Vec<Vec<_>>>>()?;
    Ok(all.concat())
}

fn filled<M: Map>(th: &mut Th<'_>, map: &M, keys: u64) -> Result<()> {
    (0..keys).try_for_each(|i| th.atomically(|tx| map.insert(tx, mix(i), i)).map(drop))
}

fn lookups<M: Map>(th: &mut Th<'_>, map: &M, keys: u64, n: u64) -> Result<u64> {
    let mut found = 0;
    for i in 0..n {
        let key = mix(pick(i, keys));
        found += th.read_only(|tx| map.get(tx, key))?.unwrap_or(0) & 1;
    }
    Ok(found)
}

fn writes(th: &mut Th<'_>, all: &[Ref<Object>], k: u64, n: u64) -> Result<u64> {
    for i in 0..n {
        let value = Object { words: [i; 3] };
        th.atomically(|tx| {
            (0..k).try_for_each(|j| tx.write(all[pick(i * k + j, OBJECTS) as usize], &value))
        })?;
    }
    Ok(n)
}

fn reads(th: &mut Th<'_>, all: &[Ref<Object>], k: u64, n: u64) -> Result<u64> {
    let mut sum = 0;
    for i in 0..n {
        sum += th.read_only(|tx| {
            (0..k).try_fold(0, |s, j| {
                let at = all[pick(i * k + j, OBJECTS) as usize];
                Ok(tx.read(at)?.words[2] ^ s)
            })
        })?;
    }
    Ok(sum)
}

fn on_one(th: &mut Th<'_>, all: &[Ref<Object>], frees: bool, n: u64) -> Result<u64> {
    for i in 0..n {
        th.atomically(|tx| match frees {
            true => {
                let new = tx.alloc(&Object { words: [i; 3] })?;
                tx.free(new)
            }
            false => tx.update(all[pick(i, OBJECTS) as usize], |o| o.words[0] += 1),
        })?;
    }
    Ok(n)
}

/// Runs `n` transactions; the preparation is not timed.
fn run(th: &mut Th<'_>, kind: &str, n: u64) -> Result<(u64, Instant)> {
    let all = objects(th)?;
    let lone = |start: Instant, r: Result<u64>| r.map(|sum| (sum, start));
    let now = Instant::now;
    match kind {
        "empty" => lone(now(), reads(th, &all, 0, n)),
        "read1" => lone(now(), reads(th, &all, 1, n)),
        "read64" => lone(now(), reads(th, &all, 64, n)),
        "write1" => lone(now(), writes(th, &all, 1, n)),
        "write4" => lone(now(), writes(th, &all, 4, n)),
        "write16" => lone(now(), writes(th, &all, 16, n)),
        "rmw1" => lone(now(), on_one(th, &all, false, n)),
        "alloc1" => lone(now(), on_one(th, &all, true, n)),
        "hash" => {
            let map = th.atomically(|tx| HashMap::create(tx, 10_000))?;
            filled(th, &map, 10_000)?;
            lone(now(), lookups(th, &map, 10_000, n))
        }
        "bst" => {
            let map = th.atomically(|tx| SearchTree::create(tx))?;
            filled(th, &map, 10_000)?;
            lone(now(), lookups(th, &map, 10_000, n))
        }
        "list" => {
            let map = th.atomically(|tx| SortedList::create(tx))?;
            filled(th, &map, 256)?;
            lone(now(), lookups(th, &map, 256, n))
        }
        _ => {
            let map = th.atomically(|tx| BTree::create(tx))?;
            filled(th, &map, 100_000)?;
            lone(now(), lookups(th, &map, 100_000, n))
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_else(|| "read1".to_owned());
    let n = args.next().map_or(Ok(1_000_000), |a| a.parse())?;
    let pool = Pool::create(FlushFence::anonymous(256 << 20)?, &Options::default())?;
    let (sum, start) = run(&mut pool.thread()?, &kind, n)?;
    let ns = start.elapsed().as_secs_f64() * 1e9 / n.max(1) as f64;
    let mut out = std::io::stdout().lock();
    std::io::Write::write_fmt(&mut out, format_args!("{kind}: {ns:.1} ns ({})\n", sum & 1))?;
    Ok(())
}
