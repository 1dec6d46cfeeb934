//! Sets of vertices, one bit each, shared by the threads of a kernel.
//!
//! - All access is relaxed; the barrier between two steps of a kernel orders them.
//! - `SHARED = false` says that one thread runs: no instruction is locked then.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::edges::raw::advise_huge;

/// Bits a head block covers: bitmaps are a whole number of blocks long.
const BLOCK_BITS: usize = 1024;

/// `len` zeroed counters, in huge pages when they are many.
pub(crate) fn words_u32(len: usize) -> Vec<AtomicU32> {
    let mut words: Vec<AtomicU32> = Vec::with_capacity(len);
    advise_huge(words.spare_capacity_mut());
    words.resize_with(len, || AtomicU32::new(0));
    words
}

/// `len` zeroed words of eight bytes, in huge pages when they are many.
pub(crate) fn words_u64(len: usize) -> Vec<AtomicU64> {
    let mut words: Vec<AtomicU64> = Vec::with_capacity(len);
    advise_huge(words.spare_capacity_mut());
    words.resize_with(len, || AtomicU64::new(0));
    words
}

/// A set of vertices.
#[derive(Debug)]
pub(crate) struct Bitmap {
    words: Vec<AtomicU64>,
}

impl Bitmap {
    /// The empty set over `len` vertices (and up to a whole head block more).
    pub(crate) fn new(len: usize) -> Self {
        let count = len.next_multiple_of(BLOCK_BITS) / 64;
        Bitmap { words: words_u64(count) }
    }

    /// The words, 64 vertices each.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    /// Whether `v` is in the set; `None` when the set is not over `v`.
    #[inline(always)]
    pub(crate) fn get(&self, v: u32) -> Option<bool> {
        let word = self.words.get(v as usize / 64)?.load(Relaxed);
        Some(word >> (v % 64) & 1 != 0)
    }

    /// Adds `v`, which the caller knows to be in range; answers whether it was absent.
    #[inline(always)]
    pub(crate) fn insert<const SHARED: bool>(&self, v: u32) -> bool {
        let (word, bit) = (&self.words[v as usize / 64], 1u64 << (v % 64));
        let before = word.load(Relaxed);
        if before & bit != 0 {
            return false;
        }
        if SHARED {
            return word.fetch_or(bit, Relaxed) & bit == 0;
        }
        word.store(before | bit, Relaxed);
        true
    }

    /// Takes `v` out, which the caller knows to be in range.
    #[inline(always)]
    pub(crate) fn remove<const SHARED: bool>(&self, v: u32) {
        let (word, bit) = (&self.words[v as usize / 64], 1u64 << (v % 64));
        if SHARED {
            word.fetch_and(!bit, Relaxed);
        } else {
            word.store(word.load(Relaxed) & !bit, Relaxed);
        }
    }

    /// Makes the words in `range` equal to those of `f`.
    #[inline]
    pub(crate) fn fill_from(&self, f: impl Fn(usize) -> u64) {
        for (i, word) in self.words.iter().enumerate() {
            word.store(f(i), Relaxed);
        }
    }

    /// One word.
    #[inline(always)]
    pub(crate) fn word(&self, i: usize) -> u64 {
        self.words[i].load(Relaxed)
    }

    /// The vertices, ascending.
    pub(crate) fn collect_into(&self, out: &mut Vec<u32>) {
        for (i, word) in self.words.iter().enumerate() {
            let mut rest = word.load(Relaxed);
            while rest != 0 {
                out.push(i as u32 * 64 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_inserted_once() {
        let set = Bitmap::new(70);
        assert_eq!(set.words().len(), 16);
        assert!(set.insert::<false>(69) && !set.insert::<true>(69) && set.insert::<true>(0));
        assert_eq!((set.get(69), set.get(68), set.get(5000)), (Some(true), Some(false), None));
        let mut all = vec![];
        set.collect_into(&mut all);
        assert_eq!(all, [0, 69]);
        set.remove::<false>(69);
        set.remove::<true>(68);
        assert_eq!((set.get(69), set.get(0)), (Some(false), Some(true)));
        set.fill_from(|i| u64::from(i == 1));
        assert_eq!((set.word(0), set.get(64)), (0, Some(true)));
    }
}
