//! A pool in a file that every node maps: /dev/shm, a memory file without a name, a DAX device.
//!
//! Treated as memory without hardware coherence: a write-back and an invalidation are both CLFLUSH,
//! which writes a dirty line to the medium and drops the copy, so the next load sees the medium. On
//! ordinary shared memory they are only cost.
//!
//! Invariants
//! - Words are reached as atomics at aligned offsets, lines by ranges inside the pool. Checked by
//!   `MappedPool::at`, `MappedPool::flush`.

use std::fs::File;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::raw::SharedWords;
use crate::Result;
use littoral_device::memory::{Domain, LINE_BYTES, Promise};
use littoral_device::memory::{flush_line, full_fence, store_fence};

/// A node's mapping of a pool; see the module's page.
#[derive(Debug)]
pub struct MappedPool {
    memory: SharedWords,
}

impl MappedPool {
    /// Maps the first `bytes` bytes of `file`, a positive multiple of eight.
    ///
    /// # Errors
    /// `Kind::Foreign` when the file is shorter, `Kind::Io` when the system refuses.
    pub fn map(file: &File, bytes: usize) -> Result<Self> {
        Ok(MappedPool { memory: SharedWords::map(file, bytes)? })
    }

    fn at(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "an aligned word of the pool");
        &self.memory.words()[offset / 8]
    }

    fn flush(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.len(), "a range of the pool");
        if len == 0 {
            return;
        }
        let first = offset / LINE_BYTES * LINE_BYTES;
        for line in (first..offset + len).step_by(LINE_BYTES) {
            let half: &AtomicU32 = self.memory.half(line);
            flush_line(half);
        }
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
        self.flush(offset, len);
    }

    fn invalidate(&self, offset: usize, len: usize) {
        self.flush(offset, len);
        // CLFLUSH is not ordered with younger loads, which are to read what the flush uncovers.
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
}
