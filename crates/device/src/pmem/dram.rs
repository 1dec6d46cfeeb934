//! A volatile domain on the sync shim's atomics: what loom and shuttle models run on.
//!
//! - Promises nothing. Under `--cfg loom` and `--cfg shuttle` every word is a modelled atomic, so
//!   an engine generic over its domain is explored with the orderings it names.
//! - The system gives the memory page by page as it is touched, and a size that it cannot give is
//!   an error. Checked by `memory_beyond_the_address_space_is_refused`.

use littoral_base::sync::atomic::{AtomicU64, Ordering};

use super::Shadow;
use crate::error::Result;
use crate::memory::{Domain, Promise, is_within};

/// Volatile words.
#[derive(Debug)]
pub struct Dram {
    words: Shadow,
}

impl Dram {
    /// `len` zero bytes, rounded up to whole lines.
    ///
    /// # Panics
    /// When the system has no such memory; [`Dram::try_new`] says so by an error.
    pub fn new(len: usize) -> Self {
        match Self::try_new(len) {
            Ok(dram) => dram,
            Err(e) => panic!("{e}"),
        }
    }

    /// As [`Dram::new`], of a size that a user gives.
    ///
    /// # Errors
    /// `Kind::Io` when the system has no such memory.
    pub fn try_new(len: usize) -> Result<Self> {
        Ok(Dram { words: Shadow::new(len.div_ceil(64) * 8)? })
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
        assert!(is_within(offset, len, self.len()), "range in the domain");
    }

    fn invalidate(&self, offset: usize, len: usize) {
        assert!(is_within(offset, len, self.len()), "range in the domain");
    }

    fn fence(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn memory_beyond_the_address_space_is_refused() {
        for len in [1 << 48, 1 << 60, usize::MAX] {
            assert_eq!(Dram::try_new(len).map(drop).unwrap_err().kind(), Kind::Io, "{len}");
        }
        let large = Dram::try_new(1 << 36).unwrap();
        large.store((1 << 36) - 8, 7, Ordering::Relaxed);
        assert_eq!((large.len(), large.word((1 << 36) - 8, Ordering::Relaxed)), (1 << 36, 7));
    }
}
