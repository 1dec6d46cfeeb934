//! A volatile domain on the sync shim's atomics: what loom and shuttle models run on.
//!
//! Promises nothing. Under `--cfg loom` and `--cfg shuttle` every word is a modelled atomic, so an
//! engine generic over its domain is explored with the orderings it names.

use littoral_base::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::memory::{Domain, Promise};

/// Volatile words.
#[derive(Debug)]
pub struct Dram {
    words: Box<[AtomicU64]>,
}

impl Dram {
    /// `len` zero bytes, rounded up to whole lines.
    pub fn new(len: usize) -> Self {
        Dram { words: (0..len.div_ceil(64) * 8).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Domain for Dram {
    fn len(&self) -> usize {
        self.words.len() * 8
    }

    fn promise(&self) -> Promise {
        Promise::Nothing
    }

    #[inline]
    fn word(&self, offset: usize, order: Ordering) -> u64 {
        assert!(offset.is_multiple_of(8), "aligned word");
        self.words[offset / 8].load(order)
    }

    #[inline]
    fn store(&self, offset: usize, value: u64, order: Ordering) {
        assert!(offset.is_multiple_of(8), "aligned word");
        self.words[offset / 8].store(value, order);
    }

    #[cfg(not(any(loom, shuttle)))]
    #[inline]
    fn words(&self, offset: usize, words: usize) -> Option<&[AtomicU64]> {
        assert!(offset.is_multiple_of(8), "aligned word");
        Some(&self.words[offset / 8..offset / 8 + words])
    }

    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> std::result::Result<u64, u64> {
        assert!(offset.is_multiple_of(8), "aligned word");
        self.words[offset / 8].compare_exchange(current, new, success, failure)
    }

    fn write_back(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.len(), "range in the domain");
    }

    fn invalidate(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.len(), "range in the domain");
    }

    fn fence(&self) -> Result<()> {
        Ok(())
    }
}
