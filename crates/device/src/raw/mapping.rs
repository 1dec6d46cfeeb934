//! Memory mappings: anonymous ones, aligned to huge pages when they are large enough for one, and
//! files mapped for reading.
//!
//! - A mapping is owned by exactly one value and unmapped when that is dropped.
//! - Its bytes are initialised: the kernel hands out zeros, or the file's bytes.
//! - A mapped file is never handed out mutably.

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Bytes of an x86-64 huge page, which large mappings are aligned to.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4096;

/// Zeroed memory that is this value's alone.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    whole: NonNull<u8>,
    whole_len: usize,
}

// SAFETY: a mapping is plain memory owned by this value; shared access only reads.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives out only `&[u8]`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` zero bytes and asks for huge pages.
    pub(crate) fn zeroed(len: usize) -> io::Result<Mapping> {
        let align = if len >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let whole_len = len
            .max(1)
            .checked_next_multiple_of(PAGE_BYTES)
            .and_then(|n| n.checked_add(align))
            .filter(|&n| isize::try_from(n).is_ok())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let whole = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                whole_len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )?
        };
        let whole = NonNull::new(whole.cast::<u8>())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let pad = whole.as_ptr().align_offset(align);
        // SAFETY: `pad < align` and the mapping has `align` bytes more than `len` needs.
        let start = unsafe { whole.add(pad) };
        // SAFETY: the range lies inside the mapping just made; the advice is only a hint, so its
        // failure (a kernel without huge pages) is of no consequence.
        let _ = unsafe { madvise(start.as_ptr().cast(), whole_len - pad, Advice::LinuxHugepage) };
        Ok(Mapping { start, len, whole, whole_len })
    }

    /// Maps the first `len` bytes of a file for reading.
    pub(crate) fn of_file(file: &File, len: usize) -> io::Result<Mapping> {
        let null = std::ptr::null_mut();
        // SAFETY: a fresh private mapping at an address of the kernel's choice aliases no memory of
        // this process. Another process that truncates or rewrites the file could change the bytes:
        // what is mapped here is replaced by rename, and its readers check what they use as an
        // index.
        let start = unsafe { mmap(null, len, ProtFlags::READ, MapFlags::PRIVATE, file, 0)? };
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Mapping { start, len, whole: start, whole_len: len })
    }

    /// Leaves the first `len` bytes; the others stay mapped and are never read.
    pub(crate) fn shorten(&mut self, len: usize) {
        assert!(len <= self.len, "a mapping does not grow");
        self.len = len;
    }

    /// The bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start..start+len` is mapped, initialised and not written while shared.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, for their only owner.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`, and `&mut self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and no reference outlives `self`.
        let _ = unsafe { munmap(self.whole.as_ptr().cast(), self.whole_len) };
    }
}
