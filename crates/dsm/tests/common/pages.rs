//! A program that writes more pages at home elsewhere than the least cache holds.

#![allow(dead_code, clippy::unwrap_used)]

use littoral_dsm::job::{Homes, Job};
use littoral_dsm::runtime::{CACHE_MIN, Config};

pub(crate) const MIB: usize = 1 << 20;
/// Words of a mebibyte.
pub(crate) const WORDS: usize = MIB / 8;

pub(crate) fn least(config: &mut Config) {
    config.cache_bytes = CACHE_MIN;
}

/// Rank 1 writes 24 MiB at home at rank 0, a mebibyte at a time, and reads them again.
pub(crate) fn write_and_read(job: &mut Job) {
    let words = job.alloc_slice::<u64>(24 * WORDS, Homes::At(0)).unwrap();
    let value = |round: u64, i: usize| i as u64 * 3 + round;
    for round in 1..3 {
        let phase = job.phase().unwrap();
        for at in (0..words.len()).step_by(WORDS).filter(|_| phase.rank() == 1) {
            let mut part = phase.write(words.part(at..at + WORDS)).unwrap();
            part.iter_mut().enumerate().for_each(|(i, word)| *word = value(round, at + i));
        }
        phase.end().unwrap();
        let phase = job.phase().unwrap();
        for at in (0..words.len()).step_by(WORDS) {
            let part = phase.read(words.part(at..at + WORDS)).unwrap();
            assert!(part.iter().enumerate().all(|(i, word)| *word == value(round, at + i)));
        }
        phase.end().unwrap();
    }
}
