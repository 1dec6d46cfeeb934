//! The bytes of a segment: one file in memory, mapped twice, and the twins beside it.
//!
//! The *frames* mapping is always readable and writable and belongs to the protocol; the *view* is
//! what a program's raw pointers point into and carries the page protection. A direct segment has
//! one mapping for both, of a file that all ranks of a machine share.
//!
//! Invariants
//! - Mappings live from `create` to drop and are page aligned; offsets are checked by assertions.
//! - Frames are reached as relaxed atomic words and bytes, since a program's own thread and the
//!   thread that serves other ranks reach them at the same time; race-free programs never touch the
//!   same bytes.
//! - Twins are reached through `&mut` only.
//! - A child made by `fork` has none of the mappings. Checked by
//!   `a_forked_child_that_touches_shared_memory_ends_in_words`.
//! - The file has no name (memfd), so nothing is left behind however a rank ends.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use littoral_base::mutant;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

const WORD: usize = 8;
const RELAXED: Ordering = Ordering::Relaxed;

struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn of_file(file: &File, bytes: usize, at: Option<usize>) -> io::Result<Mapping> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let fixed = if at.is_some() { MapFlags::FIXED_NOREPLACE } else { MapFlags::empty() };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | fixed;
        let start = std::ptr::without_provenance_mut(at.unwrap_or(0));
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing, and one at
        // a given address is refused where it would.
        let base = unsafe { mmap(start, bytes, prot, flags, file, 0) }?;
        if at.is_some_and(|at| at != base.addr()) {
            // SAFETY: the mapping was just made: a kernel before 4.17 takes the address for a hint.
            unsafe { munmap(base, bytes) }?;
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        Mapping { base: not_null(base), bytes }.without_children()
    }

    fn anonymous(bytes: usize) -> io::Result<Mapping> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) }?;
        Mapping { base: not_null(base), bytes }.without_children()
    }

    /// Keeps the mapping out of children made by `fork`: their stores would reach the file
    /// unnoticed.
    fn without_children(self) -> io::Result<Mapping> {
        if !mutant!("dsm_child_has_the_pages") {
            // SAFETY: the range is this mapping, and nothing of this process changes.
            unsafe { madvise(self.base.as_ptr().cast(), self.bytes, Advice::LinuxDontFork) }?;
        }
        Ok(self)
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.bytes), "inside the segment");
        // SAFETY: the range lies in the mapping (checked above).
        unsafe { self.base.as_ptr().add(offset) }
    }
}

fn not_null(base: *mut std::ffi::c_void) -> NonNull<u8> {
    NonNull::new(base.cast()).expect("invariant: a mapping is not at address zero")
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `bytes` are what mmap returned and was given; no reference outlives
        // the segment.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}

/// The memory of a segment; see the module's page.
pub(crate) struct Memory {
    frames: Mapping,
    /// None: the frames are the view.
    view: Option<Mapping>,
}

// SAFETY: frames are reached as atomics, the view through raw pointers whose users promise the
// rest; nothing is tied to a thread.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Zero memory of this rank alone, `bytes` of it, which costs nothing until it is touched; its
    /// view is at address `at`, or where the system likes.
    ///
    /// # Errors
    /// Whatever the system says.
    pub(crate) fn private(bytes: usize, at: Option<usize>) -> io::Result<Memory> {
        let file = File::from(memfd_create("littoral-dsm", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, bytes as u64)?;
        let view = Some(Mapping::of_file(&file, bytes, at)?);
        let frames = Mapping::of_file(&file, bytes, None)?;
        Ok(Memory { frames, view })
    }

    /// The first `bytes` of a file that all ranks map.
    ///
    /// # Errors
    /// When the file is shorter, or the system refuses.
    pub(crate) fn direct(file: &File, bytes: usize, at: Option<usize>) -> io::Result<Memory> {
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::other("the shared file is shorter than the segment"));
        }
        Ok(Memory { frames: Mapping::of_file(file, bytes, at)?, view: None })
    }

    /// Bytes of the segment.
    pub(crate) fn len(&self) -> usize {
        self.frames.bytes
    }

    /// Where the program sees byte `offset`, the first of `len`.
    pub(crate) fn view(&self, offset: usize, len: usize) -> *mut u8 {
        self.view.as_ref().unwrap_or(&self.frames).at(offset, len)
    }

    /// Where the protocol sees byte `offset`, the first of `len`: never protected.
    pub(crate) fn frame(&self, offset: usize, len: usize) -> *mut u8 {
        self.frames.at(offset, len)
    }

    /// The word at `offset`, a multiple of eight.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words(offset, 1)[0]
    }

    /// `count` words from `offset`, a multiple of eight.
    fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(WORD), "aligned words");
        let start = self.frames.at(offset, count * WORD).cast::<AtomicU64>();
        // SAFETY: the words lie in the mapping (checked by `at`), which lives as long as `self`;
        // they are aligned and only reached atomically on this side.
        unsafe { std::slice::from_raw_parts(start, count) }
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: as in `words`, for one byte.
        unsafe { &*self.frames.at(offset, 1).cast::<AtomicU8>() }
    }

    /// Copies bytes out, each once.
    pub(crate) fn load(&self, offset: usize, into: &mut [u8]) {
        let head = offset.next_multiple_of(WORD).saturating_sub(offset).min(into.len());
        let (first, rest) = into.split_at_mut(head);
        self.load_bytes(offset, first);
        let (at, whole) = (offset + head, rest.len() / WORD * WORD);
        let (words, last) = rest.split_at_mut(whole);
        if whole > 0 {
            let from = self.words(at, whole / WORD);
            for (chunk, word) in words.chunks_exact_mut(WORD).zip(from) {
                chunk.copy_from_slice(&word.load(RELAXED).to_ne_bytes());
            }
        }
        self.load_bytes(at + whole, last);
    }

    fn load_bytes(&self, offset: usize, into: &mut [u8]) {
        for (i, b) in into.iter_mut().enumerate() {
            *b = self.byte(offset + i).load(RELAXED);
        }
    }

    /// Copies bytes in, each once and no other.
    pub(crate) fn store(&self, offset: usize, data: &[u8]) {
        let head = offset.next_multiple_of(WORD).saturating_sub(offset).min(data.len());
        let (first, rest) = data.split_at(head);
        self.store_bytes(offset, first);
        let (at, whole) = (offset + head, rest.len() / WORD * WORD);
        let (words, last) = rest.split_at(whole);
        if whole > 0 {
            let to = self.words(at, whole / WORD);
            for (chunk, word) in words.chunks_exact(WORD).zip(to) {
                let value = chunk.try_into().expect("invariant: chunks of a word");
                word.store(u64::from_ne_bytes(value), RELAXED);
            }
        }
        self.store_bytes(at + whole, last);
    }

    fn store_bytes(&self, offset: usize, data: &[u8]) {
        for (i, b) in data.iter().enumerate() {
            self.byte(offset + i).store(*b, RELAXED);
        }
    }

    /// Reads one byte, so that the page exists.
    pub(crate) fn touch(&self, offset: usize) {
        std::hint::black_box(self.byte(offset).load(RELAXED));
    }
}

/// Copies of pages as they were: a private mapping that costs nothing until it is used.
pub(crate) struct Twins {
    mapping: Mapping,
}

// SAFETY: the mapping is reached through `&mut self` only and is not tied to a thread.
unsafe impl Send for Twins {}

impl Twins {
    /// Room for the twins of `bytes` bytes of pages.
    ///
    /// # Errors
    /// Whatever the system says.
    pub(crate) fn new(bytes: usize) -> io::Result<Twins> {
        Ok(Twins { mapping: Mapping::anonymous(bytes)? })
    }

    /// The twin bytes of a range.
    pub(crate) fn bytes(&mut self, offset: usize, len: usize) -> &mut [u8] {
        let start = self.mapping.at(offset, len);
        // SAFETY: the range lies in a private mapping that is initialised (zeros) and reached
        // through `&mut self` only.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}
