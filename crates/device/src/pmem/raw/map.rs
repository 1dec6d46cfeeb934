//! A mapped file or anonymous region, seen by the rest of the crate only as a slice of atomic
//! words.
//!
//! Invariants
//! - The region is mapped read-write from `Mapping::map` until drop, page aligned, whole words
//!   long.
//! - A file is locked exclusively (flock) for as long as it is mapped: one owner at a time.
//! - Loads and stores are atomic words, so races with another thread are defined behaviour.
//!
//! Fault model: another process that truncates the file while it is mapped makes a load fault
//! (SIGBUS); the lock keeps well-behaved programs from that.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FlockOperation, flock};
use rustix::mm::{
    Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap,
};

use crate::error::{Error, Kind, Result};

/// A mapped region; see the module's page.
#[derive(Debug)]
pub(in crate::pmem) struct Mapping {
    base: NonNull<AtomicU64>,
    len: usize,
    file: Option<File>,
    is_dax: bool,
}

// SAFETY: the region is reached only as atomic words and system calls on a range; nothing in it is
// tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared access is atomic.
unsafe impl Sync for Mapping {}

fn io(what: &str, path: &Path, source: impl Into<std::io::Error>) -> Error {
    let source = source.into();
    let kind = match source.kind() {
        ErrorKind::WouldBlock => Kind::Busy,
        _ => Kind::Io,
    };
    Error::with_source(kind, format!("{}: {what}", path.display()), source)
}

impl Mapping {
    /// Zeroed memory that no file stands behind.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for no bytes, `Kind::Io` when the system has no such memory.
    pub(in crate::pmem) fn anonymous(len: usize) -> Result<Mapping> {
        check_len(len, Path::new("anonymous memory"))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let base = base.map_err(|e| io("map", Path::new("anonymous memory"), e))?;
        let base = NonNull::new(base.cast()).expect("invariant: a mapping is not at address zero");
        Ok(Mapping { base, len, file: None, is_dax: false })
    }

    /// Asks the system for large pages, as a DAX mapping has them; a hint, whatever comes of it.
    pub(in crate::pmem) fn prefer_large_pages(self) -> Mapping {
        // SAFETY: the region is this mapping, and the advice changes nothing of its contents.
        let hinted = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxHugepage) };
        // A kernel without large pages refuses; small ones hold the same.
        let _ = hinted;
        self
    }

    /// Creates the file `path` of `len` zero bytes and maps it.
    ///
    /// # Errors
    /// `Kind::Busy` when it exists already, `Kind::Io` otherwise; an unfinished file is removed.
    pub(in crate::pmem) fn create(path: &Path, len: usize) -> Result<Mapping> {
        check_len(len, path)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => Error::new(
                Kind::Busy,
                format!("{}: exists already; nothing changed", path.display()),
            ),
            _ => io("create", path, e),
        })?;
        let made = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len as u64)
            .map_err(|e| io("reserve space", path, e))
            .and_then(|()| Self::map(path, file, len));
        made.inspect_err(|_| drop(std::fs::remove_file(path)))
    }

    /// Maps the whole of an existing file.
    ///
    /// # Errors
    /// `Kind::Busy` when another owner holds it, `Kind::Io` when it cannot be opened for writing,
    /// `Kind::Foreign` when its length is not whole words.
    pub(in crate::pmem) fn open(path: &Path) -> Result<Mapping> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|e| io("open for reading and writing", path, e))?;
        let len = whole_lines(path, &file)?;
        Self::map(path, file, len)
    }

    /// Maps a copy of an existing file that only this process sees; the file is opened for reading
    /// and stays as it is. Other readers may hold it, an owner not.
    ///
    /// # Errors
    /// As `open`, for reading.
    pub(in crate::pmem) fn open_copy(path: &Path) -> Result<Mapping> {
        let file = File::open(path).map_err(|e| io("open for reading", path, e))?;
        let len = whole_lines(path, &file)?;
        flock(&file, FlockOperation::NonBlockingLockShared)
            .map_err(|e| io("is in use by another owner", path, e))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap(std::ptr::null_mut(), len, prot, flags, &file, 0)
        };
        let base = base.map_err(|e| io("map", path, e))?;
        let base = NonNull::new(base.cast()).expect("invariant: a mapping is not at address zero");
        Ok(Mapping { base, len, file: Some(file), is_dax: false })
    }

    fn map(path: &Path, file: File, len: usize) -> Result<Mapping> {
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| io("is in use by another owner", path, e))?;
        let shared = |flags| {
            // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
            unsafe {
                let prot = ProtFlags::READ | ProtFlags::WRITE;
                mmap(std::ptr::null_mut(), len, prot, flags, &file, 0)
            }
        };
        // MAP_SYNC succeeds only on DAX memory, where a fenced line survives loss of power.
        let sync =
            MapFlags::from_bits_retain(libc::MAP_SHARED_VALIDATE as u32 | libc::MAP_SYNC as u32);
        let (base, is_dax) = match shared(sync) {
            Ok(base) => (base, true),
            Err(_) => (shared(MapFlags::SHARED).map_err(|e| io("map", path, e))?, false),
        };
        let base = NonNull::new(base.cast()).expect("invariant: a mapping is not at address zero");
        Ok(Mapping { base, len, file: Some(file), is_dax })
    }

    /// The region as words.
    #[inline(always)]
    pub(in crate::pmem) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the region is mapped read-write for the life of `self`, page aligned, `len` bytes
        // long, and is only ever reached as atomic words; every bit pattern is a u64.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len / 8) }
    }

    /// Bytes mapped.
    #[inline(always)]
    pub(in crate::pmem) fn len(&self) -> usize {
        self.len
    }

    /// Whether the mapping is of DAX memory (MAP_SYNC was granted).
    pub(in crate::pmem) fn is_dax(&self) -> bool {
        self.is_dax
    }

    /// The file behind the mapping.
    pub(in crate::pmem) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Writes the pages of a page-aligned range to the file's device and waits for them.
    ///
    /// # Errors
    /// `Kind::Io` when the system reports a failed write-back.
    pub(in crate::pmem) fn sync(&self, offset: usize, len: usize) -> Result<()> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "range in the mapping");
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the range lies in the mapping (checked above); msync reads it and changes
        // nothing.
        let done = unsafe {
            let start = self.base.as_ptr().cast::<u8>().add(offset);
            msync(start.cast(), len, MsyncFlags::SYNC)
        };
        let what = || format!("msync of {len} bytes at offset {offset}");
        done.map_err(|e| Error::with_source(Kind::Io, what(), std::io::Error::from(e)))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are what mmap returned and was given; no reference outlives
        // `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}

/// A file's length, which must be whole lines.
fn whole_lines(path: &Path, file: &File) -> Result<usize> {
    let len = file.metadata().map_err(|e| io("ask its length", path, e))?.len();
    let len = usize::try_from(len).expect("invariant: a file fits the address space");
    if len == 0 || len % 64 != 0 {
        let text = format!("{}: {len} bytes is no whole number of lines", path.display());
        return Err(Error::new(Kind::Foreign, text));
    }
    Ok(len)
}

fn check_len(len: usize, path: &Path) -> Result<()> {
    if len > 0 && len.is_multiple_of(64) {
        return Ok(());
    }
    let text = format!("{}: {len} bytes is no positive multiple of 64", path.display());
    Err(Error::new(Kind::IllegalRequest, text))
}
