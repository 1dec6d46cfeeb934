//! A pool in a file that every node maps: /dev/shm, a memory file without a name, a DAX device.
//!
//! Treated as memory without hardware coherence: a write-back is CLWB where the processor has it,
//! an invalidation is CLFLUSHOPT or CLFLUSH, which drops the copy, so the next load sees the
//! medium. On ordinary shared memory they are only cost.
//!
//! Invariants
//! - Words are reached as atomics at aligned offsets, lines by ranges inside the pool. Checked by
//!   `MappedPool::words_at`, `MappedPool::lines`.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use super::raw::SharedWords;
use crate::Result;
use littoral_device::memory::{Domain, LINE_BYTES, Promise};
use littoral_device::memory::{full_fence, store_fence};
use littoral_device::pmem::SharedLines;

/// A node's mapping of a pool; see the module's page.
#[derive(Debug)]
pub struct MappedPool {
    memory: SharedWords,
    lines: SharedLines,
}

impl MappedPool {
    /// Maps the first `bytes` bytes of `file`, a positive multiple of eight.
    ///
    /// # Errors
    /// `Kind::Foreign` when the file is shorter, `Kind::Io` when the system refuses.
    pub fn map(file: &File, bytes: usize) -> Result<Self> {
        Ok(MappedPool { memory: SharedWords::map(file, bytes)?, lines: SharedLines::detect() })
    }

    /// The words of a range.
    #[inline]
    fn words_at(&self, offset: usize, words: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8), "an aligned word of the pool");
        &self.memory.words()[offset / 8..offset / 8 + words]
    }

    #[inline]
    fn at(&self, offset: usize) -> &AtomicU64 {
        &self.words_at(offset, 1)[0]
    }

    /// The first word of each line that a range touches.
    fn lines(&self, offset: usize, len: usize) -> impl Iterator<Item = &AtomicU64> {
        assert!(offset + len <= self.len(), "a range of the pool");
        let first = offset / LINE_BYTES * LINE_BYTES;
        let end = if len == 0 { first } else { offset + len };
        self.memory.words()[first / 8..end.div_ceil(8)].iter().step_by(LINE_BYTES / 8)
    }
}

impl Domain for MappedPool {
    fn len(&self) -> usize {
        self.memory.words().len() * 8
    }

    fn promise(&self) -> Promise {
        Promise::OtherNodes
    }

    fn word(&self, offset: usize, order: Ordering) -> u64 {
        self.at(offset).load(order)
    }

    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.at(offset).store(value, order);
    }

    fn load_words(&self, offset: usize, into: &mut [u64]) {
        let from = self.words_at(offset, into.len());
        into.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    }

    fn store_words(&self, offset: usize, words: &[u64]) {
        let to = self.words_at(offset, words.len());
        to.iter().zip(words).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
    }

    fn words(&self, offset: usize, words: usize) -> Option<&[AtomicU64]> {
        Some(self.words_at(offset, words))
    }

    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> std::result::Result<u64, u64> {
        self.at(offset).compare_exchange(current, new, success, failure)
    }

    fn write_back(&self, offset: usize, len: usize) {
        self.lines(offset, len).for_each(|word| self.lines.write_back(word));
    }

    fn invalidate(&self, offset: usize, len: usize) {
        self.lines(offset, len).for_each(|word| self.lines.drop_line(word));
        // They are not ordered with younger loads, which are to read what the flush uncovers.
        full_fence();
    }

    fn fence(&self) -> Result<()> {
        store_fence();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_one_pool() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let (a, b) = (MappedPool::map(&file, 4096).unwrap(), MappedPool::map(&file, 4096).unwrap());
        a.store(72, 5, Ordering::Relaxed);
        a.write_back(72, 8);
        a.fence().unwrap();
        b.invalidate(72, 8);
        assert_eq!(b.word(72, Ordering::Relaxed), 5);
        assert!(MappedPool::map(&file, 8192).is_err(), "the file is shorter");
    }

    #[test]
    fn words_move_together_and_every_touched_line_is_named() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let pool = MappedPool::map(&file, 4096).unwrap();
        pool.store_words(56, &[1, 2, 3]);
        let mut read = [0; 4];
        pool.load_words(48, &mut read);
        assert_eq!(read, [0, 1, 2, 3]);
        let first = pool.at(0) as *const AtomicU64 as usize;
        let lines = |at, len| {
            let places = pool.lines(at, len).map(|word| word as *const AtomicU64 as usize - first);
            places.collect::<Vec<_>>()
        };
        assert_eq!(lines(56, 24), [0, 64]);
        assert_eq!(lines(64, 64), [64]);
        assert_eq!(lines(100, 1), [64]);
        assert_eq!(lines(4032, 64), [4032]);
        assert_eq!(lines(70, 0), [0; 0]);
    }
}
