//! `zbtree.get.large` and `zbtree.get.threads2`: gets per second, by the wall clock.
//!
//! - The tree is a ZB+-tree in a sparse file with the default limit of memory; keys are drawn
//!   uniformly from the records held, which is the hardest draw for a cache.
//! - Everything that is compared runs in one process, interleaved; a figure is the median of the
//!   rounds' ratios.

use std::time::Instant;

use littoral_base::rng::{self, Rng};
use littoral_device::zoned::file::FileDevice;
use littoral_index::index::{Engine, Index};
use littoral_index::kv::Options;
use littoral_index::layout::Shape;
use littoral_store::store::Durability;

use crate::sdtm::work::median;
use littoral_bench::error::{Error, Kind, Result};
use littoral_bench::ycsb;

/// Records of the smaller and of the larger tree.
pub const RECORDS: [u64; 2] = [500_000, 4_000_000];
/// Gets of one thread in one round.
const GETS: u64 = 400_000;
const ROUNDS: usize = 7;
/// Changes made durable together while loading.
const BATCH: u64 = 20_000;

/// What reading showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Reads {
    /// Gets per second of one thread on the smaller and on the larger tree; medians.
    pub gets_per_s: [f64; 2],
    /// Gets per second of two threads on the larger tree; median.
    pub threads2_per_s: f64,
    /// The larger tree's rate over the smaller one's; median of the rounds.
    pub large_ratio: f64,
    /// Two threads' rate over one thread's on the larger tree; median of the rounds.
    pub threads2_ratio: f64,
    /// Bytes of pages in memory, the larger tree's.
    pub memory_used_bytes: u64,
}

fn failed(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_source(Kind::Environment, "reading a tree", e)
}

fn load(folder: &std::path::Path, records: u64, seed: u64) -> Result<Index<FileDevice>> {
    let geometry = Options::new(Engine::Zb, seed).geometry;
    let device = FileDevice::create(&folder.join(records.to_string()), geometry).map_err(failed)?;
    let shape = Shape::fitting(geometry.block_bytes as usize, 8, 8).map_err(failed)?;
    let mut index = Index::create(device, Engine::Zb, shape, seed).map_err(failed)?;
    index.store_mut().set_durability(Durability::Batch);
    for i in 0..records {
        index.put(&ycsb::key(i), &i.to_be_bytes()).map_err(failed)?;
        if i.is_multiple_of(BATCH) {
            index.sync().map_err(failed)?;
        }
    }
    index.store_mut().checkpoint().map_err(failed)?;
    Ok(index)
}

/// Gets of `threads` threads per second; every get must find its record.
fn rate(index: &Index<FileDevice>, threads: u64, round: u64) -> Result<f64> {
    let records = index.len();
    let run = |thread: u64| {
        let mut rng = rng::stream(round << 8 | thread, "zbtree reads");
        for _ in 0..GETS {
            let i = rng.random_range(0..records);
            let found = index.get(&ycsb::key(i)).map_err(failed)?;
            if found.as_deref() != Some(&i.to_be_bytes()[..]) {
                return Err(Error::new(Kind::BadResult, format!("record {i}: {found:?}")));
            }
        }
        Ok(())
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|t| scope.spawn(move || run(t))).collect();
        let own = run(0);
        let joined = others.into_iter().map(|t| t.join().expect("invariant: no reader panics"));
        own.and(joined.collect::<Result<Vec<()>>>().map(|_| ()))
    })?;
    Ok((threads * GETS) as f64 / begun.elapsed().as_secs_f64())
}

/// Loads both trees and reads them.
///
/// # Errors
/// `Kind::Environment` when the files cannot be made; `Kind::BadResult` for a wrong answer.
pub fn run(seed: u64, records: [u64; 2]) -> Result<Reads> {
    let folder = tempfile::tempdir().map_err(failed)?;
    let trees = [load(folder.path(), records[0], seed)?, load(folder.path(), records[1], seed)?];
    let (mut small, mut large, mut both) = (vec![], vec![], vec![]);
    let (mut ratios, mut threads) = (vec![], vec![]);
    for round in 0..ROUNDS as u64 {
        let (s, l) = (rate(&trees[0], 1, round)?, rate(&trees[1], 1, round)?);
        let two = rate(&trees[1], 2, round)?;
        small.push(s);
        large.push(l);
        both.push(two);
        ratios.push(l / s);
        threads.push(two / l);
    }
    Ok(Reads {
        gets_per_s: [median(small), median(large)],
        threads2_per_s: median(both),
        large_ratio: median(ratios),
        threads2_ratio: median(threads),
        memory_used_bytes: trees[1].store_ref().memory_used(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_trees_answer_every_get() {
        let found = run(1, [2_000, 4_000]).unwrap();
        assert!(found.gets_per_s.iter().all(|&r| r > 0.0) && found.memory_used_bytes > 0);
    }
}
