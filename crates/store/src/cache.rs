//! The page cache: pages read or written, bounded in bytes, evicted by use.
//!
//! - `memory.rs` says how many bytes of a store's memory are the cache's.
//! - Reading takes a shared lock on one of [`SHARDS`] shards, so threads that read do not wait for
//!   each other. The shards' number and the hash are fixed: which page is evicted depends on the
//!   requests alone, so modelled times replay on every machine.
//!
//! Invariant: a page in the cache is equal to the medium's page at that address; the store forgets
//! the page when the address is freed. Checked by `prop_trees`.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use rustc_hash::FxBuildHasher;

/// Shards of the cache; far more than threads that are likely to read one store.
const SHARDS: usize = 32;
/// Bytes that an entry takes beside its page: the shared pointer's counts and the cache's slot.
const ENTRY_BYTES: u64 = 64;

/// Bytes of pages in memory unless a store is told otherwise.
pub const MEMORY_BYTES: u64 = 256 << 20;

type Page = Arc<[u8]>;

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<u64, Page> for Bytes {
    fn weight(&self, _: &u64, page: &Page) -> u64 {
        page.len() as u64 + ENTRY_BYTES
    }
}

/// Pages by address.
#[derive(Debug)]
pub(crate) struct PageCache(Cache<u64, Page, Bytes, FxBuildHasher>);

impl PageCache {
    /// A cache of `bytes` for pages of `page_bytes`.
    pub(crate) fn new(bytes: u64, page_bytes: usize) -> PageCache {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity((bytes / (page_bytes as u64 + ENTRY_BYTES)) as usize)
            .weight_capacity(bytes)
            .build();
        let options = options.expect("invariant: both capacities are given");
        let lifecycle = DefaultLifecycle::default();
        PageCache(Cache::with_options(options, Bytes, FxBuildHasher, lifecycle))
    }

    #[inline]
    pub(crate) fn get(&self, at: u64) -> Option<Page> {
        self.0.get(&at)
    }

    pub(crate) fn insert(&self, at: u64, page: Page) {
        self.0.insert(at, page);
    }

    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    pub(crate) fn remove(&self, at: u64) {
        self.0.remove(&at);
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_stays_within_its_limit_and_keeps_what_is_used() {
        let cache = PageCache::new(64 << 10, 512);
        let page = |n: u64| -> Page { vec![n as u8; 512].into() };
        for n in 0..10_000 {
            cache.insert(n, page(n));
            assert!(cache.bytes() <= 64 << 10, "{} bytes after {n} pages", cache.bytes());
            // Four pages are asked for all the time.
            for hot in 0..4 {
                if cache.get(hot).is_none() {
                    cache.insert(hot, page(hot));
                }
            }
        }
        let hot = (0..4).filter(|&n| cache.get(n).is_some()).count();
        assert_eq!(hot, 4, "pages in constant use are kept");
        assert!(cache.bytes() > 32 << 10, "the limit is used: {} bytes", cache.bytes());
        cache.remove(1);
        assert!(cache.get(1).is_none());
    }
}
