//! Copies of other ranks' pages and twins take no more memory than the job allows.

#![allow(clippy::unwrap_used)]

#[path = "common/pages.rs"]
mod pages;
mod support;

use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job};
use littoral_dsm::memory::page_bytes;
use littoral_dsm::runtime::{CACHE_MIN, Config};
use pages::{WORDS, least, write_and_read};
use support::{Over, run_with};

#[test]
fn what_does_not_fit_the_cache_is_written_and_read_right() {
    for over in [Over::ShmPages, Over::Tcp] {
        run_with(over, 2, least, |mut job| {
            write_and_read(&mut job);
            job.finish().unwrap();
        });
    }
}

#[test]
fn pages_under_guards_stay_when_the_cache_is_full() {
    run_with(Over::ShmPages, 2, least, |mut job| {
        let words = job.alloc_slice::<u64>(12 * WORDS, Homes::At(0)).unwrap();
        let phase = job.phase().unwrap();
        if phase.rank() == 1 {
            let mut held = phase.write(words.part(0..WORDS)).unwrap();
            held.fill(7);
            let read = phase.read(words.part(WORDS..2 * WORDS)).unwrap();
            for at in (2 * WORDS..words.len()).step_by(WORDS) {
                phase.write(words.part(at..at + WORDS)).unwrap().fill(9);
            }
            assert!(held.iter().all(|word| *word == 7) && read.iter().all(|word| *word == 0));
        }
        phase.end().unwrap();
        let phase = job.phase().unwrap();
        let all = phase.read(words).unwrap();
        let wanted = |i| [7, 0].get(i / WORDS).copied().unwrap_or(9);
        assert!(all.iter().enumerate().all(|(i, word)| *word == wanted(i)));
        drop(all);
        phase.end().unwrap();
        job.finish().unwrap();
    });
}

/// In each section a rank adds to one word of every page of a table that exceeds the cache.
#[test]
fn an_evicted_difference_is_home_before_its_release() {
    let words = page_bytes() / 8;
    let pages = 5 * CACHE_MIN / (4 * page_bytes());
    for over in [Over::ShmPages, Over::Tcp] {
        run_with(over, 3, least, |mut job| {
            let table = job.alloc_slice::<u64>(pages * words, Homes::Cyclic).unwrap();
            for _ in 0..2 {
                let section = job.enter(LockId(1)).unwrap();
                for page in 0..pages {
                    let at = page * words + page % words;
                    section.write(table.part(at..at + 1)).unwrap()[0] += 1;
                }
                section.leave().unwrap();
            }
            job.barrier().unwrap();
            let phase = job.phase().unwrap();
            for page in 0..pages {
                let at = page * words + page % words;
                assert_eq!(phase.read(table.part(at..at + 1)).unwrap()[0], 6, "page {page}");
            }
            phase.end().unwrap();
            job.finish().unwrap();
        });
    }
}

#[test]
fn a_cache_that_is_too_small_is_refused() {
    let solo = Box::new(littoral_dsm::runtime::carrier::Solo);
    let config = Config { cache_bytes: CACHE_MIN - 1, ..Config::default() };
    let e = Job::start(solo, config).unwrap_err();
    assert!(e.to_string().contains("least limit"), "{e}");
}
