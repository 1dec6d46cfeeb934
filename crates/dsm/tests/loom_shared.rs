//! What ranks of one machine tell each other in words that all of them map, under loom: a home
//! finds a copy in its ring or the copy has what was written, and a latch excludes and shows.
//!
//! The ring and the latch are those of the library. What they order is accessed without an order,
//! as frames are.
//!
//! `scripts/schedules.sh loom` runs it.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use littoral_base::sync::atomic::{AtomicU64, Ordering};
use littoral_base::sync::{Arc, thread};
use littoral_dsm::core::message::PageId;
use littoral_dsm::core::shared::{Handed, Latch, RING_WORDS, Words, before_drain};

/// The words of a ring that one entry uses, or a latch.
struct Modelled(Vec<AtomicU64>);

impl Modelled {
    fn new() -> Modelled {
        Modelled((0..6).map(|_| AtomicU64::new(0)).collect())
    }

    /// Words 0 and 1 of the first line, word 0 of the second, and the first two runs.
    fn word(&self, at: usize) -> &AtomicU64 {
        let found = [0, 1, 8, 16, 17].iter().position(|known| *known == at);
        assert!(at < RING_WORDS, "word {at} is none of a ring");
        &self.0[found.unwrap()]
    }
}

impl Words for &Modelled {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.word(at).load(order)
    }
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.word(at).store(value, order);
    }
    fn change(&self, at: usize, current: u64, new: u64, order: Ordering) -> bool {
        self.word(at).compare_exchange(current, new, order, Ordering::Relaxed).is_ok()
    }
}

#[test]
fn a_copy_is_found_or_has_what_was_written() {
    loom::model(|| {
        let shared = Arc::new((Modelled::new(), AtomicU64::new(0)));
        let copies = shared.clone();
        let other = thread::spawn(move || {
            let (words, page) = &*copies;
            let ring = Handed::over(words);
            [PageId(7), PageId(9)]
                .map(|name| ring.copy(name.into(), || page.load(Ordering::Relaxed)))
        });
        let (words, page) = &*shared;
        let ring = Handed::over(words);
        let mut found = Vec::new();
        for scope in 1..=2 {
            page.store(scope, Ordering::Relaxed);
            before_drain();
            assert!(ring.drain(|run| found.push((scope, run.first()))), "nothing is lost");
        }
        let copied = other.join().unwrap();
        for (name, copied) in [PageId(7), PageId(9)].into_iter().zip(copied) {
            let noticed = found.iter().find(|(_, page)| *page == name).map_or(3, |(n, _)| *n);
            assert!(copied >= noticed - 1, "{name:?} has {copied} and is noticed in {noticed}");
        }
    });
}

#[test]
fn a_latch_excludes_and_shows() {
    loom::model(|| {
        let shared = Arc::new((Modelled::new(), [AtomicU64::new(0), AtomicU64::new(0)]));
        let add = |(words, page): &(Modelled, [AtomicU64; 2])| {
            let latch = Latch::over(words);
            while !latch.take() {
                thread::yield_now();
            }
            let seen = page.each_ref().map(|word| word.load(Ordering::Relaxed));
            assert_eq!(seen[0], seen[1], "both words of who had the latch before");
            page.iter().for_each(|word| word.store(seen[0] + 1, Ordering::Relaxed));
            latch.leave();
        };
        let theirs = shared.clone();
        let other = thread::spawn(move || add(&theirs));
        add(&shared);
        other.join().unwrap();
        assert_eq!(shared.1.each_ref().map(|word| word.load(Ordering::Relaxed)), [2, 2]);
    });
}
