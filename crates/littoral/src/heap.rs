//! Durable heaps: the transactional engine on files, with the strongest promise the place gives.
//!
//! Everything of the engine (`littoral-stm`) is reached through this module. On top of it
//! - [`create`] and [`open`] choose the medium: flush and fence on DAX memory (nothing to flush
//!   where the caches survive too), msync everywhere else; [`words`] says what that promises;
//! - [`look`] opens a pool for reading without changing a byte of its file.
//!
//! ```
//! use littoral::heap::{self, structures::{HashMap, Map}};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("counts.pool");
//! let pool = heap::create(&path, 1 << 20)?;
//! let mut thread = pool.thread()?;
//! thread.atomically(|tx| {
//!     let map = HashMap::create(tx, 100)?;
//!     map.insert(tx, 1, 10)?;
//!     tx.set_root("counts", map.at())
//! })?;
//! # drop(thread);
//! drop(pool);
//! let pool = heap::open(&path)?;
//! let found = pool.thread()?.read_only(|tx| {
//!     let at = tx.root("counts")?.expect("it was named above");
//!     HashMap::open(tx, at)?.get(tx, 1)
//! })?;
//! assert_eq!(found, Some(10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants
//! - Nothing that exists is overwritten; a pool that could not be made leaves no file.
//! - The promise is what the medium was found to be.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use littoral_base::error::{Category, Class};
use littoral_device::memory::{Domain, LINE_BYTES, Promise};
use littoral_device::pmem::{
    Eadr, FileCopy, Flush, FlushFence, Msync, best_promise, platform_has_eadr,
};

pub use littoral_stm::*;

/// Where a pool's bytes are.
#[derive(Debug)]
pub enum Medium {
    /// DAX memory, by write-back and fence.
    Flush(FlushFence),
    /// DAX memory whose caches survive a power loss too.
    Eadr(Eadr),
    /// Any file, by msync.
    Msync(Msync),
}

macro_rules! each {
    ($self:ident, $domain:ident => $call:expr) => {
        match $self {
            Medium::Flush($domain) => $call,
            Medium::Eadr($domain) => $call,
            Medium::Msync($domain) => $call,
        }
    };
}

impl Medium {
    /// Opens the file at `path` by the means that promise most.
    ///
    /// # Errors
    /// `Kind::Device` when it cannot be opened for writing or another owner has it, `Kind::Foreign`
    /// when its length is none of a pool's.
    pub fn open(path: &Path) -> Result<Medium> {
        let medium = Self::strongest(path)?;
        log::info!("opened the pool's file {}, durable by {}", path.display(), medium.name());
        Ok(medium)
    }

    fn strongest(path: &Path) -> Result<Medium> {
        match FlushFence::open(path) {
            Ok(dax) if dax.promise() == Promise::PowerLoss && platform_has_eadr() => {
                drop(dax);
                Ok(Medium::Eadr(Eadr::open(path).map_err(failed)?))
            }
            Ok(dax) if dax.promise() == Promise::PowerLoss => Ok(Medium::Flush(dax)),
            Err(e) if e.kind() != littoral_device::Kind::Unsupported => Err(failed(e)),
            // The file is not DAX memory, or the processor has no write-back: msync does both.
            other => {
                drop(other);
                Ok(Medium::Msync(Msync::open(path).map_err(failed)?))
            }
        }
    }

    /// How a pool on this medium is made durable, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Medium::Flush(_) => "flush and fence",
            Medium::Eadr(_) => "fence",
            Medium::Msync(_) => "msync",
        }
    }
}

impl Domain for Medium {
    fn len(&self) -> usize {
        each!(self, d => d.len())
    }
    fn promise(&self) -> Promise {
        each!(self, d => d.promise())
    }
    #[inline]
    fn word(&self, offset: usize, order: Ordering) -> u64 {
        each!(self, d => d.word(offset, order))
    }
    #[inline]
    fn store(&self, offset: usize, value: u64, order: Ordering) {
        each!(self, d => d.store(offset, value, order));
    }
    fn store_words(&self, offset: usize, words: &[u64]) {
        each!(self, d => d.store_words(offset, words));
    }
    fn load_words(&self, offset: usize, into: &mut [u64]) {
        each!(self, d => d.load_words(offset, into));
    }
    #[inline]
    fn words(&self, offset: usize, words: usize) -> Option<&[AtomicU64]> {
        each!(self, d => d.words(offset, words))
    }
    fn store_line(&self, offset: usize, line: &[u64; LINE_BYTES / 8]) {
        each!(self, d => d.store_line(offset, line));
    }
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> std::result::Result<u64, u64> {
        each!(self, d => d.compare_exchange(offset, current, new, success, failure))
    }
    #[inline]
    fn write_back(&self, offset: usize, len: usize) {
        each!(self, d => d.write_back(offset, len));
    }
    fn invalidate(&self, offset: usize, len: usize) {
        each!(self, d => d.invalidate(offset, len));
    }
    #[inline]
    fn fence(&self) -> littoral_device::Result<()> {
        each!(self, d => d.fence())
    }
    #[inline]
    fn owner_before_fork(&self) -> Option<u32> {
        each!(self, d => d.owner_before_fork())
    }
}

/// A device's failure as a heap's, of the same class.
fn failed(error: littoral_device::Error) -> Error {
    let kind = match error.kind().class() {
        Class::Corrupt => Kind::Foreign,
        Class::Usage => Kind::Usage,
        Class::Unsupported => Kind::Unsupported,
        _ => Kind::Device,
    };
    Error::with_source(kind, "the pool's file", error)
}

fn at(path: &Path) -> impl Fn(Error) -> Error {
    move |e| e.in_context(path.display())
}

/// Makes a pool of `bytes` (rounded up to whole pages) in a new file.
///
/// # Errors
/// `Kind::Device` when the file exists or cannot be made, `Kind::Usage` when no pool is that small;
/// no file is left then.
pub fn create(path: &Path, bytes: usize) -> Result<Pool<Medium>> {
    create_with(path, bytes, &Options::default())
}

/// Makes a pool with options of the caller's.
///
/// # Errors
/// As [`create`]; `Kind::Usage` for an option out of range.
pub fn create_with(path: &Path, bytes: usize, options: &Options) -> Result<Pool<Medium>> {
    let bytes = bytes.max(1).checked_next_multiple_of(4096).unwrap_or(usize::MAX / 64 * 64);
    drop(Msync::create(path, bytes).map_err(failed)?);
    let made = Medium::open(path).and_then(|medium| Pool::create(medium, options));
    made.map_err(at(path)).inspect_err(|_| drop(std::fs::remove_file(path)))
}

/// Opens a pool after a clean end or a crash, in time independent of its size.
///
/// # Errors
/// `Kind::Foreign`, `Kind::Unsupported` or `Kind::Corrupt` for what is no pool, one of another
/// version, or a damaged one; `Kind::Device` when another owner has it or it is read-only.
pub fn open(path: &Path) -> Result<Pool<Medium>> {
    Medium::open(path).and_then(|m| Pool::open(m, Restart::Lazy)).map_err(at(path))
}

/// A pool being looked at.
#[derive(Debug)]
pub struct Look {
    /// The pool as a restart would make it, in a copy of this process; every slab is resolved.
    pub pool: Pool<FileCopy>,
    /// What the last session left unfinished, as the file says.
    pub unfinished: Unfinished,
}

/// Opens a pool's file for reading only: what a restart would write stays in this process.
///
/// # Errors
/// As [`open`], but for reading.
pub fn look(path: &Path) -> Result<Look> {
    let copy = FileCopy::open(path).map_err(failed)?;
    let unfinished = Unfinished::read(&copy).map_err(at(path))?;
    let pool = Pool::open(copy, Restart::Scan).map_err(at(path))?;
    Ok(Look { pool, unfinished })
}

/// Whether a pool was refused because a process has it open for writing (or looks at it, where it
/// was to be opened for writing).
pub fn is_in_use(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let busy = cause.downcast_ref::<littoral_device::Error>();
        if busy.is_some_and(|e| e.kind() == littoral_device::Kind::Busy) {
            return true;
        }
        source = cause.source();
    }
    false
}

/// What a pool is used for, also while a process works on it: no lock is taken, nothing is written.
///
/// # Errors
/// As [`look`] for the superblock, but that an owner is no hindrance.
pub fn outline(path: &Path) -> Result<Outline> {
    let copy = FileCopy::beside_owner(path).map_err(failed)?;
    Outline::read(&copy).map_err(at(path))
}

/// How a pool in the file at `path` would be made durable, in a word, and what that promises; takes
/// no lock.
///
/// # Errors
/// `Kind::Device` when the file cannot be opened for writing, `Kind::Foreign` as [`open`].
pub fn means(path: &Path) -> Result<(&'static str, Promise)> {
    match best_promise(path).map_err(failed)? {
        Promise::PowerLoss if Flush::detect().is_none() => Ok(("msync", Promise::DeviceFlush)),
        Promise::PowerLoss if platform_has_eadr() => Ok(("fence", Promise::PowerLoss)),
        Promise::PowerLoss => Ok(("flush and fence", Promise::PowerLoss)),
        promise => Ok(("msync", promise)),
    }
}

/// What a promise means, in words.
pub fn words(promise: Promise) -> &'static str {
    match promise {
        Promise::PowerLoss => "a transaction that returned survives loss of power",
        Promise::DeviceFlush => {
            "a transaction that returned survives loss of power, as far as the drive keeps what it \
             was told to flush"
        }
        Promise::ProcessDeath => {
            "a transaction that returned survives the death of the process; this file system is in \
             memory and loses everything with power"
        }
        Promise::OtherNodes => "a transaction that returned is seen by the other nodes",
        _ => "nothing: the pool ends with the process",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_cannot_be_made_leaves_no_file_and_one_that_exists_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        assert_eq!(create(&path, 100).unwrap_err().kind(), Kind::Usage);
        assert!(!path.exists());
        let bad = Options { threads_max: 1000, slab_bytes: None };
        assert_eq!(create_with(&path, 1 << 20, &bad).unwrap_err().kind(), Kind::Usage);
        assert!(!path.exists());
        drop(create(&path, 1 << 20).unwrap());
        let before = std::fs::read(&path).unwrap();
        assert_eq!(create(&path, 1 << 20).unwrap_err().kind(), Kind::Device);
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn looking_changes_nothing_and_waits_for_no_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        let pool = create(&path, 1 << 20).unwrap();
        assert_eq!(open(&path).unwrap_err().kind(), Kind::Device, "opened twice");
        let refused = look(&path).unwrap_err();
        assert_eq!(refused.kind(), Kind::Device);
        assert!(is_in_use(&refused) && is_in_use(&open(&path).unwrap_err()));
        assert_eq!(outline(&path).unwrap().slabs_count, pool.info().unwrap().slabs_count);
        assert_eq!(means(&path).unwrap().0, pool.domain().name());
        assert_eq!(means(&path).unwrap().1, pool.domain().promise());
        std::mem::forget(pool.thread().unwrap());
        drop(pool);
        let before = std::fs::read(&path).unwrap();
        assert_eq!(look(&path).unwrap().unfinished.threads_count, 1);
        assert_eq!(look(&path).unwrap().unfinished.threads_count, 1, "still: nothing restarted");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        open(&path).unwrap();
        assert_eq!(look(&path).unwrap().unfinished.threads_count, 0);
    }

    #[test]
    fn pools_cut_short_grown_foreign_or_of_another_version_are_refused_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        drop(create(&path, 1 << 20).unwrap());
        let good = std::fs::read(&path).unwrap();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let cases: [(&str, Vec<u8>, Kind, &str); 8] = [
            ("empty", Vec::new(), Kind::Foreign, "whole number of lines"),
            ("cut inside its superblock", good[..128].to_vec(), Kind::Foreign, "too few"),
            (
                "cut in half",
                good[..1 << 19].to_vec(),
                Kind::Corrupt,
                "1048576 bytes, its file 524288",
            ),
            (
                "cut to an odd length",
                good[..777_777].to_vec(),
                Kind::Foreign,
                "whole number of lines",
            ),
            ("grown", [&good[..], &[0; 4096]].concat(), Kind::Corrupt, "its file 1052672"),
            ("of another program", vec![7; 1 << 20], Kind::Foreign, "another program's file"),
            ("of the version before", with(8, 1), Kind::Unsupported, "pool format 1"),
            ("of a later version", with(8, 9), Kind::Unsupported, "pool format 9"),
        ];
        for (name, bytes, kind, words) in cases {
            std::fs::write(&path, &bytes).unwrap();
            let all = [open(&path).map(drop), look(&path).map(drop), outline(&path).map(drop)];
            for refused in all {
                let refused = refused.unwrap_err();
                assert_eq!(refused.kind(), kind, "{name}: {refused}");
                let text = refused.to_string();
                assert!(text.contains(words) && text.contains("a.pool"), "{name}: {text}");
            }
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}");
        }
    }
}
