//! A file mapped shared, seen by the fabric only as atomic words: the unsafe corner of `fabric`.
//!
//! The region is mapped read-write from `SharedWords::map` until drop and begins at a page.
//!
//! Its callers reach a word either always whole or always by its low half (bells), never both.
//!
//! Fault model: another process that truncates the file makes a load fault (SIGBUS); the processes
//! of one job do not.
#![allow(unsafe_code)] // Reason: mapping memory that other processes write.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Error, Kind, Result};

/// A shared mapping of a whole file.
#[derive(Debug)]
pub(super) struct SharedWords {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the region is reached only as atomics; nothing in it is tied to a thread.
unsafe impl Send for SharedWords {}
// SAFETY: as above; shared access is atomic.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps the first `bytes` of `file`, a positive multiple of eight that the file must hold. A
    /// device tells no length; it refuses the mapping when it is too small.
    ///
    /// # Errors
    /// `Kind::Foreign` when the file is shorter, `Kind::Io` when the system refuses.
    pub(super) fn map(file: &File, bytes: usize) -> Result<Self> {
        let io = |e: std::io::Error| Error::with_source(Kind::Io, "mapping shared memory", e);
        let about = file.metadata().map_err(io)?;
        let there = if about.file_type().is_char_device() { u64::MAX } else { about.len() };
        if bytes == 0 || !bytes.is_multiple_of(8) || there < bytes as u64 {
            let what = format!("shared memory of {there} bytes where {bytes} are needed");
            return Err(Error::new(Kind::Foreign, what));
        }
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, file, 0) };
        let base = base.map_err(|e| io(e.into()))?;
        let base = NonNull::new(base.cast()).expect("invariant: a mapping is not at address zero");
        Ok(SharedWords { base, words: bytes / 8 })
    }

    /// The region as words.
    #[inline(always)]
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the region is mapped read-write for the life of `self`, page aligned, `words`
        // words long, and only ever reached as atomics; every bit pattern is a u64.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }

    /// The low half of the word at byte `offset`, which no access reaches whole.
    #[inline(always)]
    pub(super) fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(8) && offset / 8 < self.words, "a word of the mapping");
        // SAFETY: the word lies in the mapping (checked above), which lives as long as `self`; it
        // is aligned for a u32 and reached as atomic halves only (the module's second invariant).
        unsafe { &*self.base.as_ptr().add(offset / 8).cast::<AtomicU32>() }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: `base` and the length are what mmap returned and was given; no reference outlives
        // `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.words * 8) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}
