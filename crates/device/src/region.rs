//! A run of memory that stands for a device's contents: page-aligned, immutable once shared.
//!
//! - [`RegionMut`] is filled by its only owner; [`RegionMut::freeze`] makes it a [`Region`], which
//!   clones cheaply, crosses threads and is only read.
//! - Regions of at least 2 MiB are aligned to huge pages and ask for them: random reads over
//!   gigabytes of 4 KiB pages would measure the page-table walk, not the device.
//! - The memory is ordinary DRAM. What is modelled on top of it (latency, rate) is the device's
//!   business and is named in every figure.
//!
//! ```
//! use littoral_device::region::RegionMut;
//! let mut blank = RegionMut::zeroed(8192)?;
//! blank[4096..4100].copy_from_slice(b"page");
//! let region = blank.freeze();
//! let shared = region.clone();
//! assert_eq!(&shared[4096..4100], b"page");
//! # Ok::<(), littoral_device::Error>(())
//! ```

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::raw::mapping::Mapping;

/// Immutable, shared, page-aligned bytes.
#[derive(Clone, Debug)]
pub struct Region {
    mapping: Arc<Mapping>,
}

/// Page-aligned bytes with one owner, zero until written.
#[derive(Debug)]
pub struct RegionMut {
    mapping: Mapping,
}

impl RegionMut {
    /// `len` zero bytes.
    ///
    /// # Errors
    /// `Kind::Io` when the system has no address space or memory for them.
    pub fn zeroed(len: usize) -> Result<RegionMut> {
        let mapping = Mapping::zeroed(len).map_err(|e| {
            Error::with_source(Kind::Io, format!("cannot map {len} bytes of memory"), e)
        })?;
        Ok(RegionMut { mapping })
    }

    /// Leaves the first `len` bytes. What was never written behind them takes no memory.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn truncate(&mut self, len: usize) {
        self.mapping.shorten(len);
    }

    /// Makes the bytes immutable and shareable.
    #[must_use]
    pub fn freeze(self) -> Region {
        Region { mapping: Arc::new(self.mapping) }
    }
}

impl Deref for RegionMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.mapping.bytes()
    }
}

impl DerefMut for RegionMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.mapping.bytes_mut()
    }
}

impl Region {
    /// A region with a copy of `bytes`.
    ///
    /// # Errors
    /// `Kind::Io` when there is no memory for them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Region> {
        Region::build(bytes.len(), |into| into.copy_from_slice(bytes))
    }

    /// A region of `len` bytes that `fill` writes; bytes it leaves alone are zero.
    ///
    /// # Errors
    /// `Kind::Io` when there is no memory for them.
    pub fn build(len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Region> {
        let mut blank = RegionMut::zeroed(len)?;
        fill(&mut blank);
        Ok(blank.freeze())
    }

    /// A region with the contents of a file, read once: later changes of the file are not seen.
    ///
    /// # Errors
    /// `Kind::Io` naming the path when it cannot be opened or read, or when it shrank meanwhile.
    pub fn load(path: &Path) -> Result<Region> {
        let file = File::open(path).map_err(|e| cannot("load", path, e))?;
        Self::read_from(&file, path)
    }

    /// As [`Region::load`], from a file that is open; `path` names it in errors.
    ///
    /// # Errors
    /// As [`Region::load`].
    pub fn read_from(file: &File, path: &Path) -> Result<Region> {
        let failed = |e| cannot("load", path, e);
        let len = file.metadata().map_err(failed)?.len();
        let len = usize::try_from(len).map_err(|e| failed(std::io::Error::other(e)))?;
        let mut blank = RegionMut::zeroed(len)?;
        file.read_exact_at(&mut blank, 0).map_err(failed)?;
        Ok(blank.freeze())
    }

    /// The first `len` bytes of a file, mapped: page faults read them when they are used. The file
    /// must be replaced by rename and never rewritten. `path` names it in errors.
    ///
    /// # Errors
    /// `Kind::Io` when the mapping is refused.
    pub fn map(file: &File, len: u64, path: &Path) -> Result<Region> {
        let failed = |e| cannot("map", path, e);
        let len = usize::try_from(len).map_err(|e| failed(std::io::Error::other(e)))?;
        let mapping = Mapping::of_file(file, len).map_err(failed)?;
        Ok(Region { mapping: Arc::new(mapping) })
    }
}

fn cannot(what: &str, path: &Path, e: std::io::Error) -> Error {
    Error::with_source(Kind::Io, format!("cannot {what} {}", path.display()), e)
}

impl Deref for Region {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.mapping.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_may_end_before_what_was_mapped() {
        let mut blank = RegionMut::zeroed(3 << 20).unwrap();
        blank[..5].copy_from_slice(b"bytes");
        blank.truncate(4);
        assert_eq!(&blank.freeze()[..], b"byte");
    }

    #[test]
    fn large_regions_are_huge_page_aligned_and_all_are_page_aligned() {
        for len in [0, 1, 4096, 5000, (2 << 20) - 1, 2 << 20, (4 << 20) + 1] {
            let region = RegionMut::zeroed(len).unwrap().freeze();
            let align = if len >= 2 << 20 { 2 << 20 } else { 4096 };
            assert_eq!((region.len(), region.as_ptr().addr() % align), (len, 0));
            assert!(region.iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn clones_share_and_cross_threads() {
        let region = Region::build(100, |b| b[99] = 9).unwrap();
        let copy = region.clone();
        let seen = std::thread::spawn(move || copy[99]).join().unwrap();
        assert_eq!((seen, region[99]), (9, 9));
    }

    #[test]
    fn files_are_loaded_whole_and_failures_name_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("contents");
        std::fs::write(&path, b"abc").unwrap();
        assert_eq!(&Region::load(&path).unwrap()[..], b"abc");
        let error = Region::load(&dir.path().join("missing")).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
        assert_eq!(error.kind(), Kind::Io);
    }

    #[test]
    fn absurd_sizes_are_an_error() {
        assert_eq!(RegionMut::zeroed(usize::MAX - 5000).unwrap_err().kind(), Kind::Io);
    }
}
