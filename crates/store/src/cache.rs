//! The page cache: pages read or written, bounded in bytes, evicted by use.
//!
//! - `memory.rs` says how many bytes of a store's memory are the cache's.
//! - Reading takes a shared lock on one of [`SHARDS`] shards, so threads that read do not wait for
//!   each other. The shards' number and the hash are fixed: which page is evicted depends on the
//!   requests alone, so modelled times replay on every machine.
//! - Beside the entries stand hints, by address of the medium: where a page was put in memory, and
//!   its first bytes. A reader can say from them which lines of the page it will look at ([`Look`])
//!   and has these fetched while it looks for the entry and counts itself as a user of the page:
//!   otherwise it waits for memory for the entry first, then for the count, then for each line. A
//!   hint may be another page's, or an old one: it costs a fetch in vain.
//!
//! Invariant: a page in the cache is equal to the medium's page at that address; the store forgets
//! the page when the address is freed. Checked by `prop_trees`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::zeroed_slice_box;
use littoral_device::memory::prefetch;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use rustc_hash::FxBuildHasher;

use crate::pages::{Look, Opening};

/// Shards of the cache; far more than threads that are likely to read one store.
const SHARDS: usize = 32;
/// Bytes that an entry takes beside its page: the shared pointer's counts, its slot, a hint.
const ENTRY_BYTES: u64 = 80;

/// Bytes of pages in memory unless a store is told otherwise.
pub const MEMORY_BYTES: u64 = 256 << 20;

type Page = Arc<[u8]>;

/// Hints by address of the medium: a page's place in memory and its first bytes. There are as many
/// as the cache may hold pages, or as the medium has blocks where those are fewer; pages far apart
/// share one.
struct Hints(Box<[[AtomicU64; 2]]>);

impl Hints {
    /// Hints for a cache of `pages`, which take memory when they are first set.
    fn new(pages: usize) -> Hints {
        Hints(zeroed_slice_box(pages.max(1).next_power_of_two()))
    }

    #[inline]
    fn of(&self, at: u64) -> &[AtomicU64; 2] {
        &self.0[at as usize & (self.0.len() - 1)]
    }

    fn set(&self, at: u64, page: &Page) {
        let opening = page.first_chunk().copied().unwrap_or_default();
        let [address, first] = self.of(at);
        first.store(u64::from_ne_bytes(opening), Relaxed);
        address.store(page.as_ptr().addr() as u64, Relaxed);
    }

    /// Asks for the lines of a page that its reader will look at, and for the one with the count of
    /// its users.
    #[inline]
    fn fetch(&self, at: u64, look: &dyn Fn(Opening) -> Look) {
        let [address, first] = self.of(at);
        let address = address.load(Relaxed) as usize;
        if address == 0 {
            return;
        }
        prefetch(address.wrapping_sub(1));
        for line in look(first.load(Relaxed).to_ne_bytes()) {
            prefetch(address.wrapping_add(line as usize));
        }
    }
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hints", self.0.len())
    }
}

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<u64, Page> for Bytes {
    fn weight(&self, _: &u64, page: &Page) -> u64 {
        page.len() as u64 + ENTRY_BYTES
    }
}

/// Pages by address.
#[derive(Debug)]
pub(crate) struct PageCache {
    pages: Cache<u64, Page, Bytes, FxBuildHasher>,
    hints: Hints,
}

impl PageCache {
    /// A cache of `bytes` for pages of `page_bytes`, of which the medium has `blocks`. `bytes` may
    /// be more than there is memory: a page takes some when it is put in.
    pub(crate) fn new(bytes: u64, page_bytes: usize, blocks: u64) -> PageCache {
        let room = (bytes / (page_bytes as u64 + ENTRY_BYTES)) as usize;
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(room)
            .weight_capacity(bytes)
            .build();
        let options = options.expect("invariant: both capacities are given");
        let lifecycle = DefaultLifecycle::default();
        let pages = Cache::with_options(options, Bytes, FxBuildHasher, lifecycle);
        PageCache { pages, hints: Hints::new(room.min(blocks as usize)) }
    }

    #[inline]
    pub(crate) fn get(&self, at: u64) -> Option<Page> {
        self.pages.get(&at)
    }

    /// [`PageCache::get`] for a reader that will look at some lines of the page.
    #[inline]
    pub(crate) fn get_for(&self, at: u64, look: &dyn Fn(Opening) -> Look) -> Option<Page> {
        self.hints.fetch(at, look);
        self.pages.get(&at)
    }

    pub(crate) fn insert(&self, at: u64, page: Page) {
        self.hints.set(at, &page);
        self.pages.insert(at, page);
    }

    pub(crate) fn clear(&self) {
        self.pages.clear();
    }

    pub(crate) fn remove(&self, at: u64) {
        self.pages.remove(&at);
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_stays_within_its_limit_and_keeps_what_is_used() {
        let cache = PageCache::new(64 << 10, 512, 1 << 20);
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

    #[test]
    fn a_limit_far_above_the_medium_takes_no_memory() {
        let cache = PageCache::new(1 << 50, 512, 1000);
        assert_eq!(cache.hints.0.len(), 1024);
        cache.insert(999, vec![1; 512].into());
        assert!(cache.get(999).is_some());
    }

    #[test]
    fn a_hint_of_another_page_or_of_an_old_one_changes_no_answer() {
        let cache = PageCache::new(256 << 10, 512, 1 << 20);
        let page = |n: u64| -> Page { vec![n as u8; 512].into() };
        let apart = cache.hints.0.len() as u64;
        let looked = std::cell::Cell::new(None);
        let look = |opening: Opening| {
            looked.set(Some(opening));
            Look::default()
        };
        assert_eq!(cache.get_for(3, &look), None);
        assert_eq!(looked.get(), None, "nothing is asked for without a hint");
        cache.insert(3, page(1));
        cache.insert(3 + apart, page(2));
        assert_eq!(cache.get_for(3, &look), Some(page(1)));
        assert_eq!(looked.get(), Some([2; 8]), "both pages have one hint, the newer one's");
        cache.remove(3 + apart);
        assert_eq!(cache.get_for(3 + apart, &look), None);
        assert_eq!(cache.get_for(3, &look), Some(page(1)));
        cache.insert(3, page(4));
        assert_eq!(cache.get_for(3, &look), Some(page(4)));
        assert_eq!(looked.get(), Some([4; 8]), "a page's newest place is the hint");
    }
}
