//! Where a page has a key, guessed before the page is read.
//!
//! A get on a tree that is larger than the processor's cache waits for memory: for the count of
//! the cached page's users, for the keys that a search looks at first, and for those between two of
//! them. The separators above a page and the number of its keys, which the cache has at hand, say
//! where a key lies if keys are spread evenly between them; so the lines there are fetched together
//! with the count, and the search looks there first. A guess that is wrong costs those lines: the
//! search goes on as it would without.
//!
//! Among `n` keys drawn evenly a key lies within `sqrt(n) / 2` slots of its guess twice of three
//! times: 7.7 of the 239 of a full leaf of 4 KiB with records of 16 bytes. [`REACH_BYTES`] are 13
//! of them.
//!
//! Invariant: a guess changes no answer. Checked by
//! `searches_near_a_place_agree_with_the_standard_library`, `prop_trees`.

use std::ops::Range;

use littoral_store::pages::{Look, Opening};

use crate::layout::{self, HEADER_BYTES};

/// Bytes on either side of the guess that are looked at first.
const REACH_BYTES: usize = 208;
const LINE_BYTES: usize = 64;
/// Lines of a look in front of those around the guess: the page's first and its last record's.
const ENDS: usize = 2;

const _: () = {
    let lines = size_of::<Look>() / size_of::<u32>() - ENDS;
    assert!(2 * REACH_BYTES <= (lines - 1) * LINE_BYTES, "a look holds the lines around the guess");
};

/// Where between its page's bounds a key lies, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Guess(f64);

impl Guess {
    /// The place of `key` between the bounds of its page, where it has some; `None` for keys that
    /// are too short to be numbers.
    #[inline]
    pub(crate) fn new(key: &[u8], low: Option<&[u8]>, high: Option<&[u8]>) -> Option<Guess> {
        let wanted = layout::prefix(key)?;
        let low = low.and_then(layout::prefix).unwrap_or(0);
        let high = high.and_then(layout::prefix).unwrap_or(u64::MAX);
        let (from, width) = (wanted.saturating_sub(low), high.saturating_sub(low).max(1));
        Some(Guess((from as f64 / width as f64).min(1.0)))
    }

    #[inline]
    fn slot(self, n: usize) -> usize {
        (self.0 * n as f64) as usize
    }

    /// The slots, of `n` of `stride` bytes each, that are looked at first.
    #[inline]
    pub(crate) fn slots(self, stride: usize, n: usize) -> Range<usize> {
        let (at, reach) = (self.slot(n), REACH_BYTES / stride);
        at.saturating_sub(reach)..(at + reach).min(n)
    }

    /// The lines of a page with slots of `stride` bytes that a search with this guess looks at.
    #[inline]
    pub(crate) fn look(self, stride: usize, opening: Opening) -> Look {
        let n = layout::count(&opening);
        let at = |slot: usize| HEADER_BYTES + slot * stride;
        let mut look = Look::default();
        look[1] = at(n.saturating_sub(1)) as u32;
        let first = at(self.slot(n)).saturating_sub(REACH_BYTES);
        for (i, line) in look[ENDS..].iter_mut().enumerate() {
            *line = (first + i * LINE_BYTES) as u32;
        }
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Shape;

    #[test]
    fn a_guess_is_where_evenly_spread_keys_are() {
        let (low, high) = (1000u64.to_be_bytes(), 3000u64.to_be_bytes());
        let leaf = Shape::fitting(4096, 8, 8).unwrap().leaf();
        for n in [1, 2, 100, 239] {
            for i in 0..n {
                let key = (1000 + 2000 * i as u64 / n as u64).to_be_bytes();
                let guess = Guess::new(&key, Some(&low), Some(&high)).unwrap();
                assert!(guess.slot(n).abs_diff(i) <= 1, "{i} of {n}: {guess:?}");
                let slots = guess.slots(leaf.record, n);
                assert!(slots.contains(&i) && slots.end <= n, "{i} of {n}: {slots:?}");
            }
        }
        assert_eq!(Guess::new(b"short", None, None), None);
    }

    #[test]
    fn keys_outside_their_bounds_and_empty_ranges_have_a_guess_too() {
        let guess = |key: u64, low: u64, high: u64| {
            let [key, low, high] = [key, low, high].map(u64::to_be_bytes);
            Guess::new(&key, Some(&low), Some(&high)).unwrap()
        };
        assert_eq!(guess(5, 1000, 3000), Guess(0.0));
        assert_eq!(guess(9000, 1000, 3000), Guess(1.0));
        assert_eq!(guess(2000, 1000, 1000), Guess(1.0));
        assert_eq!(guess(2000, 3000, 1000), Guess(0.0));
        assert_eq!(Guess::new(&[0xFF; 8], None, None), Some(Guess(1.0)));
    }

    #[test]
    fn a_look_has_every_byte_that_the_search_looks_at_first() {
        let leaf = Shape::fitting(4096, 8, 8).unwrap().leaf();
        for n in [1usize, 50, 239] {
            let mut opening = Opening::default();
            opening[layout::COUNT_AT..][..2].copy_from_slice(&layout::count_bytes(n));
            for share in 0..=20 {
                let guess = Guess(f64::from(share) / 20.0);
                let look = guess.look(leaf.record, opening);
                let ends = [leaf.at(0), leaf.at(n - 1)].into_iter().zip([look[0], look[1]]);
                assert!(ends.into_iter().all(|(at, line)| at < line as usize + LINE_BYTES));
                let around = look[2] as usize..look[9] as usize + LINE_BYTES;
                let slots = guess.slots(leaf.record, n);
                let bytes = leaf.at(slots.start)..leaf.at(slots.end);
                assert!(around.start <= bytes.start && bytes.end <= around.end, "{n}: {slots:?}");
            }
        }
    }
}
