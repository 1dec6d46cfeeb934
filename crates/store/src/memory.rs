//! How a store's memory is divided between pages as they are on the medium and changed ones.
//!
//! One limit covers both ([`Store::set_memory`]). The cache takes what changed pages cannot: those
//! are bounded by half of the limit and by what one group of the redo zone holds, whichever is
//! less, because a checkpoint writes them all.

use littoral_device::zoned::ZonedDevice;

use crate::cache::PageCache;
use crate::plan::OPERATION_PAGES;
use crate::redo;
use crate::store::Store;

impl<D: ZonedDevice> Store<D> {
    /// Sets the bytes of pages that the store keeps in memory, changed ones included; what is
    /// cached is dropped. A store keeps the changed pages of an operation in any case.
    pub fn set_memory(&mut self, bytes: u64) {
        self.memory = bytes;
        let block = self.block_bytes() as u64;
        let capacity = self.redo_zone().capacity_blocks;
        let in_redo = redo::image_blocks_max(capacity, self.block_bytes());
        let changed = self.dirty_in_memory().min(in_redo) * block;
        let blocks = u64::from(self.device.limits().zones) * self.space.zone_blocks();
        self.cache = PageCache::new(bytes.saturating_sub(changed), block as usize, blocks);
    }

    /// Bytes of pages in memory now: cached ones and changed ones.
    pub fn memory_used(&self) -> u64 {
        self.cache.bytes() + self.dirty.values().map(|page| page.len() as u64).sum::<u64>()
    }

    /// Changed pages that half of the memory holds; more make a checkpoint.
    pub(crate) fn dirty_in_memory(&self) -> u64 {
        (self.memory / 2 / self.block_bytes() as u64).max(2 * OPERATION_PAGES)
    }
}
