//! The page cache: pages read or written, bounded in bytes, evicted by use.
//!
//! - `memory.rs` says how many bytes of a store's memory are the cache's.
//! - Reading takes a shared lock on one of [`SHARDS`] shards, so threads that read do not wait for
//!   each other. The shards' number and the hash are fixed: which page is evicted depends on the
//!   requests alone, so modelled times replay on every machine.
//! - An entry keeps its page's address and first bytes beside the key, so that a reader can say
//!   which lines of the page it will look at ([`Look`]) and has them fetched while it counts itself
//!   as a user of the page: otherwise it waits for memory for the count first, then for each line.
//!
//! Invariant: a page in the cache is equal to the medium's page at that address; the store forgets
//! the page when the address is freed. Checked by `prop_trees`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use littoral_device::memory::prefetch;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};
use rustc_hash::FxBuildHasher;

use crate::pages::{Look, Opening};

/// Shards of the cache; far more than threads that are likely to read one store.
const SHARDS: usize = 32;
/// Bytes that an entry takes beside its page: the shared pointer's counts and the cache's slot.
const ENTRY_BYTES: u64 = 64;

/// Bytes of pages in memory unless a store is told otherwise.
pub const MEMORY_BYTES: u64 = 256 << 20;

type Page = Arc<[u8]>;

/// The key of an entry; of one address whatever else is in it.
#[derive(Clone, Copy, Debug)]
struct Held {
    at: u64,
    opening: Opening,
    /// Where the page's bytes are in memory; only for hints to the processor.
    address: usize,
}

/// What a reader looks for: a page, and what it will look at there.
struct Wanted<'l> {
    at: u64,
    look: Option<&'l dyn Fn(Opening) -> Look>,
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.at == other.at
    }
}

impl Eq for Held {}

impl Hash for Held {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

impl Hash for Wanted<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

impl Equivalent<Held> for Wanted<'_> {
    /// Whether this is the entry; then its lines are asked for, before the cache counts a user.
    #[inline]
    fn equivalent(&self, held: &Held) -> bool {
        let is_it = self.at == held.at;
        if let Some(look) = self.look.filter(|_| is_it) {
            for at in look(held.opening) {
                prefetch(held.address.wrapping_add(at as usize));
            }
        }
        is_it
    }
}

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Held, Page> for Bytes {
    fn weight(&self, _: &Held, page: &Page) -> u64 {
        page.len() as u64 + ENTRY_BYTES
    }
}

/// Pages by address.
#[derive(Debug)]
pub(crate) struct PageCache(Cache<Held, Page, Bytes, FxBuildHasher>);

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
        self.0.get(&Wanted { at, look: None })
    }

    /// [`PageCache::get`] for a reader that will look at some lines of the page.
    #[inline]
    pub(crate) fn get_for(&self, at: u64, look: &dyn Fn(Opening) -> Look) -> Option<Page> {
        self.0.get(&Wanted { at, look: Some(look) })
    }

    pub(crate) fn insert(&self, at: u64, page: Page) {
        let opening = page.first_chunk().copied().unwrap_or_default();
        let address = page.as_ptr().addr();
        self.0.insert(Held { at, opening, address }, page);
    }

    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    pub(crate) fn remove(&self, at: u64) {
        self.0.remove(&Wanted { at, look: None });
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
