//! What ranks of one machine tell each other by words of memory that all of them map.
//!
//! - [`Handed`]: which pages a rank has copied out of their home's frames, a ring for each ordered
//!   pair of ranks. The home *drains* its rings when it leaves a scope: what it may write unnoticed
//!   is what no ring has named.
//! - [`Latch`]: one process at a time, for a few hundred nanoseconds.
//!
//! ```text
//!    rank that copies                       home
//!    append {first, count} to the ring      ... writes its page, unnoticed ...
//!    fence                                  fence
//!    copy the page                          look at the rings
//! ```
//!
//! Both fences are sequentially consistent: either the home finds the page in the ring and notices
//! it, or the copy has everything that the home wrote before it looked.
//!
//! Invariants
//! - A home that finds no entry has written nothing before that the copy lacks (mutants
//!   `loom_copied_before_the_fence`, `loom_drained_before_the_fence`). Checked by
//!   `a_copy_is_found_or_has_what_was_written`.
//! - Of a ring that is full, everything counts as copied (mutant `dsm_full_ring_forgets`). Checked
//!   by `a_ring_names_what_was_copied_or_everything`.
//! - What is done under a latch is seen by who takes it next (mutant `loom_latch_left_relaxed`).
//!   Checked by `a_latch_excludes_and_shows`.

use std::sync::atomic::Ordering;

use littoral_base::mutant;
use littoral_base::sync::atomic::fence;

use super::message::{PageId, PageRun};

/// Runs of pages that a ring holds.
pub const RING_RUNS: usize = 1 << 10;
const LINE_WORDS: usize = 8;
/// Words of a ring: {tail, lost} of who copies, {head} of the home, the runs.
pub const RING_WORDS: usize = 2 * LINE_WORDS + RING_RUNS;
const LOST: usize = 1;
const HEAD: usize = LINE_WORDS;
const RUNS: usize = 2 * LINE_WORDS;

/// Words that all ranks of a machine reach.
pub trait Words {
    /// Reads a word.
    fn load(&self, at: usize, order: Ordering) -> u64;
    /// Writes a word.
    fn store(&self, at: usize, value: u64, order: Ordering);
    /// Puts `new` in if `current` is there; whether it was.
    fn change(&self, at: usize, current: u64, new: u64, order: Ordering) -> bool;
}

/// A run as a word: its first page and, above, how many.
pub fn word_of(run: PageRun) -> u64 {
    u64::from(run.first().0) | u64::from(run.count()) << 32
}

/// The run of a word; `None` for one that no rank writes.
pub fn run_of(word: u64) -> Option<PageRun> {
    PageRun::new(PageId(word as u32), (word >> 32) as u32)
}

/// A ring of one rank that copies and one home; see the module's page.
pub struct Handed<W> {
    words: W,
}

impl<W: Words> Handed<W> {
    /// The ring in [`RING_WORDS`] words, zero at first.
    pub fn over(words: W) -> Self {
        Handed { words }
    }

    /// Names the pages to their home, then copies them.
    pub fn copy<T>(&self, run: PageRun, copy: impl FnOnce() -> T) -> T {
        let words = &self.words;
        let tail = words.load(0, Ordering::Relaxed);
        let held = tail.wrapping_sub(words.load(HEAD, Ordering::Acquire));
        debug_assert!(held <= RING_RUNS as u64, "{held} runs in a ring");
        let full = held >= RING_RUNS as u64;
        if full {
            let lost = u64::from(!mutant!("dsm_full_ring_forgets"));
            words.store(LOST, lost, Ordering::Release);
        } else {
            let at = RUNS + tail as usize % RING_RUNS;
            words.store(at, word_of(run), Ordering::Relaxed);
            words.store(0, tail.wrapping_add(1), Ordering::Release);
        }
        if !mutant!("loom_copied_before_the_fence") {
            fence(Ordering::SeqCst);
        }
        copy()
    }

    /// The pages copied since the home looked last; `false` where it must take all of them for
    /// copied. [`before_drain`] goes before.
    #[must_use]
    pub fn drain(&self, mut found: impl FnMut(PageRun)) -> bool {
        let words = &self.words;
        let all = words.load(LOST, Ordering::Acquire) != 0;
        if all {
            // A mark that this overwrites is of pages that the answer covers.
            words.store(LOST, 0, Ordering::Relaxed);
        }
        let (head, tail) = (words.load(HEAD, Ordering::Relaxed), words.load(0, Ordering::Acquire));
        if head == tail {
            return !all;
        }
        let count = tail.wrapping_sub(head);
        let mut is_whole = count <= RING_RUNS as u64;
        for n in 0..count.min(RING_RUNS as u64) {
            let at = RUNS + head.wrapping_add(n) as usize % RING_RUNS;
            match run_of(words.load(at, Ordering::Relaxed)) {
                Some(run) => found(run),
                None => is_whole = false,
            }
        }
        words.store(HEAD, tail, Ordering::Release);
        is_whole && !all
    }
}

/// What a home does before it looks at its rings: what it has written is seen by every copy that
/// they do not name.
pub fn before_drain() {
    if !mutant!("loom_drained_before_the_fence") {
        fence(Ordering::SeqCst);
    }
}

/// One process at a time; see the module's page.
pub struct Latch<W> {
    words: W,
}

impl<W: Words> Latch<W> {
    /// The latch in one word, zero at first.
    pub fn over(words: W) -> Self {
        Latch { words }
    }

    /// Takes the latch if it is free.
    pub fn take(&self) -> bool {
        self.words.load(0, Ordering::Relaxed) == 0 && self.words.change(0, 0, 1, Ordering::Acquire)
    }

    /// Gives it back.
    pub fn leave(&self) {
        let relaxed = mutant!("loom_latch_left_relaxed");
        self.words.store(0, 0, if relaxed { Ordering::Relaxed } else { Ordering::Release });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    impl Words for &RefCell<Vec<u64>> {
        fn load(&self, at: usize, _order: Ordering) -> u64 {
            self.borrow()[at]
        }
        fn store(&self, at: usize, value: u64, _order: Ordering) {
            self.borrow_mut()[at] = value;
        }
        fn change(&self, at: usize, current: u64, new: u64, _order: Ordering) -> bool {
            let word = &mut self.borrow_mut()[at];
            let is_it = *word == current;
            if is_it {
                *word = new;
            }
            is_it
        }
    }

    fn words(count: usize) -> RefCell<Vec<u64>> {
        RefCell::new(vec![0; count])
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        /// Copies and looks in any order, the ring full now and then, its counts about to wrap.
        #[test]
        fn a_ring_names_what_was_copied_or_everything(
            steps in vec((0u32..1000, 0usize..1500), 1..12), start in prop_oneof![Just(0), Just(u64::MAX - 700)],
        ) {
            let words = words(RING_WORDS);
            words.borrow_mut()[0] = start;
            words.borrow_mut()[HEAD] = start;
            let ring = Handed::over(&words);
            let mut copied = BTreeSet::new();
            for (first, count) in steps {
                for n in 0..count as u32 {
                    let run = PageRun::new(PageId(first + 3 * n), 2).unwrap();
                    ring.copy(run, || copied.insert(run));
                }
                let mut found = BTreeSet::new();
                let is_whole = ring.drain(|run| _ = found.insert(run));
                prop_assert!(found.is_subset(&copied), "a page that was not copied");
                if is_whole {
                    prop_assert_eq!(&found, &copied);
                }
                prop_assert!(is_whole || count > 0, "nothing was copied since");
                copied.clear();
                prop_assert!(ring.drain(|_| panic!("it was named before")));
            }
        }
    }

    #[test]
    fn a_ring_that_another_process_spoils_names_everything() {
        let words = words(RING_WORDS);
        let ring = Handed::over(&words);
        ring.copy(PageId(1).into(), || words.borrow_mut()[RUNS] = 0);
        assert!(!ring.drain(|_| panic!("no run")));
        words.borrow_mut()[0] = 1 << 40;
        assert!(!ring.drain(|_| ()));
        assert!(ring.drain(|_| panic!("all is told")));
    }

    #[test]
    fn a_latch_is_taken_once() {
        let words = words(1);
        let latch = Latch::over(&words);
        assert!(latch.take() && !latch.take());
        latch.leave();
        assert!(latch.take());
    }
}
