//! Domains over a mapping whose stores are ordered by instructions: flush and fence, and eADR.
//!
//! - [`FlushFence`]: CLWB, CLFLUSHOPT or CLFLUSH by CPUID, then SFENCE; on aarch64 DC CVAP, then
//!   DSB. On DAX memory a fence
//!   promises survival of power loss; over the page cache (tmpfs, an ordinary file) only of process
//!   death; over anonymous memory nothing, at the same cost, which is what measurements without a
//!   part use.
//! - [`Eadr`]: caches are inside the power domain, so write-back does nothing and a fence only
//!   orders.
//!
//! Invariant: the promise is what the medium was found to be, never what the caller wished for.
//! Checked by `flush_and_fence_over_a_file_promise_no_more_than_the_page_cache_holds`.

use std::path::Path;
use std::sync::atomic::Ordering;

use littoral_base::mutant;

use super::raw::flush::{Flush, fence, stream_line};
use super::raw::map::Mapping;
use crate::error::{Error, Kind, Result};
use crate::memory::{Domain, LINE_BYTES, Promise, is_within};

/// The word methods that every mapped domain shares; the mapping is `self.map`.
macro_rules! mapped_words {
    () => {
        #[inline(always)]
        fn len(&self) -> usize {
            self.map.len()
        }
        #[inline(always)]
        fn word(&self, offset: usize, order: Ordering) -> u64 {
            assert!(offset.is_multiple_of(8), "aligned word");
            self.map.words()[offset / 8].load(order)
        }
        #[inline(always)]
        fn store(&self, offset: usize, value: u64, order: Ordering) {
            assert!(offset.is_multiple_of(8), "aligned word");
            self.map.words()[offset / 8].store(value, order);
        }
        #[inline(always)]
        fn words(&self, offset: usize, words: usize) -> Option<&[std::sync::atomic::AtomicU64]> {
            assert!(offset.is_multiple_of(8), "aligned word");
            Some(&self.map.words()[offset / 8..offset / 8 + words])
        }
        #[inline(always)]
        fn store_words(&self, offset: usize, words: &[u64]) {
            assert!(offset.is_multiple_of(8), "aligned word");
            let to = &self.map.words()[offset / 8..offset / 8 + words.len()];
            let ((to, to_rest), (from, from_rest)) = (to.as_chunks::<4>(), words.as_chunks::<4>());
            for (to, from) in to.iter().zip(from) {
                (0..4).for_each(|i| to[i].store(from[i], Ordering::Relaxed));
            }
            for (to, &w) in to_rest.iter().zip(from_rest) {
                to.store(w, Ordering::Relaxed);
            }
        }
        #[inline(always)]
        fn load_words(&self, offset: usize, into: &mut [u64]) {
            assert!(offset.is_multiple_of(8), "aligned word");
            let from = &self.map.words()[offset / 8..offset / 8 + into.len()];
            for (w, from) in into.iter_mut().zip(from) {
                *w = from.load(Ordering::Relaxed);
            }
        }
        #[inline(always)]
        fn compare_exchange(
            &self,
            offset: usize,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> std::result::Result<u64, u64> {
            assert!(offset.is_multiple_of(8), "aligned word");
            self.map.words()[offset / 8].compare_exchange(current, new, success, failure)
        }
        #[inline(always)]
        fn owner_before_fork(&self) -> Option<u32> {
            self.map.owner_before_fork()
        }
        /// A coherent mapping holds no private copies: nothing to drop.
        #[inline(always)]
        fn invalidate(&self, offset: usize, len: usize) {
            assert!(is_within(offset, len, self.map.len()), "range in the domain");
        }
    };
}
pub(super) use mapped_words;

/// Mapped memory made durable by write-back instructions and SFENCE.
#[derive(Debug)]
pub struct FlushFence {
    map: Mapping,
    flush: Flush,
}

impl FlushFence {
    fn over(map: Mapping) -> Result<Self> {
        let none = || {
            let text =
                "this processor has no cache-line write-back; open the file with msync instead";
            Error::new(Kind::Unsupported, text)
        };
        Ok(FlushFence { map, flush: Flush::detect().ok_or_else(none)? })
    }

    /// Zeroed anonymous memory, in large pages where the system has them: the cost of flushes and
    /// fences, the durability of nothing.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for a length that is no multiple of 64, `Kind::Unsupported` where the
    /// processor has no write-back instruction.
    pub fn anonymous(len: usize) -> Result<Self> {
        Self::over(Mapping::anonymous(len)?.prefer_large_pages())
    }

    /// Creates a file of `len` zero bytes.
    ///
    /// # Errors
    /// `Kind::Exists`, `Kind::Io`, `Kind::Unsupported` as above.
    pub fn create(path: &Path, len: usize) -> Result<Self> {
        Self::over(Mapping::create(path, len)?)
    }

    /// Opens an existing file as its one owner.
    ///
    /// # Errors
    /// `Kind::Busy` when another owner holds it, `Kind::Io`, `Kind::Foreign`, `Kind::Unsupported`.
    pub fn open(path: &Path) -> Result<Self> {
        Self::over(Mapping::open(path)?)
    }

    /// The instruction in use.
    pub fn instruction(&self) -> Flush {
        self.flush
    }
}

fn mapped_promise(map: &Mapping) -> Promise {
    match (map.is_dax(), map.file()) {
        (true, _) => Promise::PowerLoss,
        (false, Some(_)) => Promise::ProcessDeath,
        (false, None) => Promise::Nothing,
    }
}

impl Domain for FlushFence {
    mapped_words!();

    fn promise(&self) -> Promise {
        mapped_promise(&self.map)
    }

    #[inline(always)]
    fn write_back(&self, offset: usize, len: usize) {
        assert!(is_within(offset, len, self.map.len()), "range in the domain");
        let words = &self.map.words()[..(offset + len).div_ceil(8)];
        let mut at = offset / LINE_BYTES * (LINE_BYTES / 8);
        while let Some(word) = words.get(at) {
            self.flush.line(word);
            at += LINE_BYTES / 8 * if mutant!("pmem_every_second_line") { 2 } else { 1 };
        }
    }

    #[inline(always)]
    fn store_line(&self, offset: usize, line: &[u64; LINE_BYTES / 8]) {
        assert!(offset.is_multiple_of(LINE_BYTES), "aligned line");
        let to = &self.map.words()[offset / 8..][..LINE_BYTES / 8];
        stream_line(to.try_into().expect("invariant: eight words"), line);
    }

    #[inline(always)]
    fn fence(&self) -> Result<()> {
        if !mutant!("pmem_fence_empty") {
            fence();
        }
        Ok(())
    }
}

/// Mapped memory whose caches are inside the power domain: write-back is free.
#[derive(Debug)]
pub struct Eadr {
    map: Mapping,
}

/// Whether Linux reports persistent-memory regions and the persistence domain of each includes the
/// caches. On which region a file lies is not asked.
pub fn platform_has_eadr() -> bool {
    caches_survive(Path::new("/sys/bus/nd/devices"))
}

/// [`platform_has_eadr`], of the devices that `folder` lists.
fn caches_survive(folder: &Path) -> bool {
    let devices = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut domains = devices
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("persistence_domain")).ok())
        .peekable();
    let includes_caches = |domain: String| domain.trim() == "cpu_cache";
    if mutant!("pmem_eadr_by_one_region") {
        return domains.any(includes_caches);
    }
    domains.peek().is_some() && domains.all(includes_caches)
}

impl Eadr {
    /// Zeroed anonymous memory: the cost of an eADR platform, the durability of nothing.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for a length that is no multiple of 64.
    pub fn anonymous(len: usize) -> Result<Self> {
        Ok(Eadr { map: Mapping::anonymous(len)?.prefer_large_pages() })
    }

    /// Opens an existing file as its one owner.
    ///
    /// # Errors
    /// `Kind::Unsupported` when no region of this machine keeps its caches through a power loss;
    /// otherwise as [`FlushFence::open`].
    pub fn open(path: &Path) -> Result<Self> {
        if !platform_has_eadr() {
            let text = format!("{}: no eADR region here; use flush and fence", path.display());
            return Err(Error::new(Kind::Unsupported, text));
        }
        Ok(Eadr { map: Mapping::open(path)? })
    }
}

impl Domain for Eadr {
    mapped_words!();

    fn promise(&self) -> Promise {
        mapped_promise(&self.map)
    }

    #[inline(always)]
    fn write_back(&self, offset: usize, len: usize) {
        assert!(is_within(offset, len, self.map.len()), "range in the domain");
    }

    #[inline(always)]
    fn fence(&self) -> Result<()> {
        fence();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::sink::{Event, taken};
    use super::*;

    /// The address of the domain's first word.
    fn start(domain: &FlushFence) -> usize {
        domain.map.words().as_ptr().addr()
    }

    #[test]
    fn every_line_of_a_range_is_written_back_before_the_fence() {
        let Ok(domain) = FlushFence::anonymous(1 << 16) else {
            assert_eq!(Flush::detect(), None, "only a processor without write-back has none");
            return;
        };
        for (offset, len) in [(0, 1), (63, 2), (128, 64), (4096 + 8, 256), (65_408, 128), (8, 1000)]
        {
            taken();
            domain.write_back(offset, len);
            domain.fence().unwrap();
            let lines = offset / LINE_BYTES..(offset + len).div_ceil(LINE_BYTES);
            let mut wanted: Vec<Event> =
                lines.map(|line| Event::WriteBack(start(&domain) + line * LINE_BYTES)).collect();
            wanted.push(Event::Fence);
            assert_eq!(taken(), wanted, "{len} bytes at {offset}");
        }
    }

    #[test]
    fn a_line_stored_past_the_caches_is_ordered_by_the_fence_too() {
        let Ok(domain) = FlushFence::anonymous(4096) else { return };
        taken();
        domain.store_line(192, &[7; 8]);
        domain.fence().unwrap();
        let events = taken();
        assert_eq!(events.first(), Some(&Event::Stream(start(&domain) + 192)));
        assert_eq!(events.last(), Some(&Event::Fence));
        assert_eq!(domain.word(248, Ordering::Relaxed), 7);
    }

    #[test]
    fn caches_survive_only_where_every_region_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let region = |name: &str, domain: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir(&at).unwrap();
            std::fs::write(at.join("persistence_domain"), domain).unwrap();
        };
        std::fs::create_dir(dir.path().join("ndbus0")).unwrap();
        assert!(!caches_survive(dir.path()), "no region");
        region("region0", "cpu_cache\n");
        assert!(caches_survive(dir.path()));
        region("region1", "memory_controller\n");
        assert!(!caches_survive(dir.path()), "a file may lie on either");
    }

    #[test]
    fn a_range_outside_the_domain_is_refused_also_where_its_end_overflows() {
        let refuses = |domain: &(dyn Domain + std::panic::RefUnwindSafe), offset, len| {
            std::panic::catch_unwind(|| domain.write_back(offset, len)).is_err()
                && std::panic::catch_unwind(|| domain.invalidate(offset, len)).is_err()
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let msync = super::super::Msync::create(&path, 4096).unwrap();
        let (dram, eadr) = (super::super::Dram::new(4096), Eadr::anonymous(4096).unwrap());
        let sim = super::super::Sim::new(4096);
        for (offset, len) in [(4096, 1), (0, 4097), (usize::MAX - 63, 128), (64, usize::MAX)] {
            for domain in [&msync as &(dyn Domain + std::panic::RefUnwindSafe), &dram, &eadr] {
                assert!(refuses(domain, offset, len), "{len} bytes at {offset}");
            }
            let sim = std::panic::AssertUnwindSafe(&sim);
            let recorded = std::panic::catch_unwind(|| sim.write_back(offset, len));
            assert!(recorded.is_err(), "{len} bytes at {offset}");
            let Ok(flush) = FlushFence::anonymous(4096) else { continue };
            assert!(refuses(&flush, offset, len), "{len} bytes at {offset}");
        }
    }

    #[test]
    fn eadr_orders_and_writes_nothing_back() {
        let domain = Eadr::anonymous(4096).unwrap();
        taken();
        domain.write_back(0, 4096);
        domain.fence().unwrap();
        assert_eq!(taken(), [Event::Fence]);
    }
}
