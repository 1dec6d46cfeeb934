//! The bytes of a segment: one file in memory, mapped twice, and the twins beside it.
//!
//! The *frames* mapping is always readable and writable and belongs to the protocol; the *view* is
//! what a program's raw pointers point into and carries the page protection. A direct segment has
//! one mapping for both, of a file that all ranks of a machine share.
//!
//! Mappings live from `create` to drop and are page aligned; offsets are checked by assertions.
//!
//! Frames are reached as relaxed atomic words and bytes, since a program's own thread and the
//! thread that serves other ranks reach them at the same time; race-free programs never touch the
//! same bytes.
//!
//! Twins are reached through `&mut` only.
//!
//! The file has no name (memfd), so nothing is left behind however a rank ends.
//!
//! Invariants
//! - A child made by `fork` has none of the mappings. Checked by
//!   `a_forked_child_that_touches_shared_memory_ends_in_words`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
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
    /// `bytes` bytes of a file from byte `from` on.
    fn of_file(file: &File, from: usize, bytes: usize, at: Option<usize>) -> io::Result<Mapping> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let fixed = if at.is_some() { MapFlags::FIXED_NOREPLACE } else { MapFlags::empty() };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | fixed;
        let start = std::ptr::without_provenance_mut(at.unwrap_or(0));
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing, and one at
        // a given address is refused where it would.
        let base = unsafe { mmap(start, bytes, prot, flags, file, from as u64) }?;
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

    #[inline]
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.bytes), "inside the segment");
        // SAFETY: the range lies in the mapping (checked above).
        unsafe { self.base.as_ptr().add(offset) }
    }
}

fn has_bytes(file: &File, bytes: usize) -> io::Result<()> {
    if file.metadata()?.len() < bytes as u64 {
        return Err(io::Error::other("the shared file is shorter than the segment"));
    }
    Ok(())
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
        Self::part(&file, 0, bytes, at)
    }

    /// As `private`, in `bytes` bytes of a file from byte `from` on, which other ranks map too; it
    /// holds zeros.
    ///
    /// # Errors
    /// As `direct`.
    pub(crate) fn part(
        file: &File,
        from: usize,
        bytes: usize,
        at: Option<usize>,
    ) -> io::Result<Memory> {
        has_bytes(file, from.saturating_add(bytes))?;
        let view = Some(Mapping::of_file(file, from, bytes, at)?);
        let frames = Mapping::of_file(file, from, bytes, None)?;
        Ok(Memory { frames, view })
    }

    /// The first `bytes` of a file that all ranks map.
    ///
    /// # Errors
    /// When the file is shorter, or the system refuses.
    pub(crate) fn direct(file: &File, bytes: usize, at: Option<usize>) -> io::Result<Memory> {
        has_bytes(file, bytes)?;
        Ok(Memory { frames: Mapping::of_file(file, 0, bytes, at)?, view: None })
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
    #[inline]
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
    #[inline]
    pub(crate) fn load(&self, offset: usize, into: &mut [u8]) {
        match into.as_mut_array::<WORD>() {
            Some(word) if offset.is_multiple_of(WORD) => {
                *word = self.word(offset).load(RELAXED).to_ne_bytes();
            }
            _ => self.load_any(offset, into),
        }
    }

    fn load_any(&self, offset: usize, into: &mut [u8]) {
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
    #[inline]
    pub(crate) fn store(&self, offset: usize, data: &[u8]) {
        match data.as_array::<WORD>() {
            Some(word) if offset.is_multiple_of(WORD) => {
                self.word(offset).store(u64::from_ne_bytes(*word), RELAXED);
            }
            _ => self.store_any(offset, data),
        }
    }

    fn store_any(&self, offset: usize, data: &[u8]) {
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

    /// Gives the memory of whole pages back to the system; they are zero then.
    ///
    /// # Errors
    /// Whatever the system says.
    pub(crate) fn release(&self, offset: usize, len: usize) -> io::Result<()> {
        let start = self.frames.at(offset, len);
        // SAFETY: the range lies in the mapping (checked by `at`), whose bytes are reached as
        // atomics: a load of a page that is gone finds zeros.
        unsafe { madvise(start.cast(), len, Advice::LinuxRemove) }.map_err(io::Error::from)
    }

    /// Takes pages of a file out of this process; they stay in the file.
    ///
    /// # Errors
    /// Whatever the system says.
    pub(crate) fn unmap_pages(&self, offset: usize, len: usize) -> io::Result<()> {
        let start = self.frames.at(offset, len);
        // SAFETY: the range lies in a mapping of a file that is shared: the next access finds the
        // same bytes.
        unsafe { madvise(start.cast(), len, Advice::LinuxDontNeed) }.map_err(io::Error::from)
    }

    /// Closes the program's view, and gives the memory of the first `used` bytes back where no
    /// other rank maps it.
    ///
    /// # Errors
    /// Whatever the system says.
    pub(crate) fn close(&self, used: usize) -> io::Result<()> {
        let view = self.view.as_ref().unwrap_or(&self.frames);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let start = view.base.as_ptr().cast();
        // SAFETY: the range is a mapping of this value's, which `Drop` unmaps as before; the
        // program promises not to use its pointers any more, and the library uses frames.
        unsafe { mmap_anonymous(start, view.bytes, ProtFlags::empty(), flags) }?;
        if self.view.is_some() && used > 0 { self.release(0, used) } else { Ok(()) }
    }

    /// Reads one byte, so that the page exists.
    pub(crate) fn touch(&self, offset: usize) {
        std::hint::black_box(self.byte(offset).load(RELAXED));
    }
}

/// Slots of twins that keep their memory while they are free: 1 MiB of pages of 4 KiB.
const SLOTS_KEPT: u32 = 256;

/// Where a page's twin lies, and which lines it has, a bit a line; `None` for the whole page.
#[derive(Clone, Copy)]
struct Kept {
    slot: u32,
    lines: Option<u64>,
}

/// Spreads numbers of pages, which no stranger chooses, over a table.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, page: u32) {
        self.0 = (self.0 ^ u64::from(page)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Copies of pages as they were, in slots of a private mapping. Once no slot is in use all but
/// [`SLOTS_KEPT`] give their memory back.
pub(crate) struct Twins {
    mapping: Mapping,
    page_bytes: usize,
    slots: HashMap<u32, Kept, BuildHasherDefault<Spread>>,
    /// Free slots that have been used before; the lowest is used first.
    free: BinaryHeap<Reverse<u32>>,
    /// Slots that have ever been used.
    used: u32,
    /// Slots from here on have no memory.
    warm: u32,
}

// SAFETY: the mapping is reached through `&mut self` only and is not tied to a thread.
unsafe impl Send for Twins {}

impl Twins {
    /// Room for the twins of `bytes` bytes of pages.
    ///
    /// # Errors
    /// Whatever the system says.
    pub(crate) fn new(bytes: usize, page_bytes: usize) -> io::Result<Twins> {
        let mapping = Mapping::anonymous(bytes)?;
        let (slots, free) = (HashMap::default(), BinaryHeap::new());
        Ok(Twins { mapping, page_bytes, slots, free, used: 0, warm: 0 })
    }

    /// A slot for a page, which has none or keeps its own.
    pub(crate) fn keep(&mut self, page: u32) -> &mut [u8] {
        let fresh = || {
            self.used += 1;
            self.used - 1
        };
        let new = || Kept { slot: self.free.pop().map_or_else(fresh, |free| free.0), lines: None };
        let Kept { slot, .. } = *self.slots.entry(page).or_insert_with(new);
        self.warm = self.warm.max(slot + 1);
        self.slot(slot)
    }

    /// The twin of a page that has one.
    pub(crate) fn of(&mut self, page: u32) -> Option<&mut [u8]> {
        let Kept { slot, .. } = *self.slots.get(&page)?;
        Some(self.slot(slot))
    }

    /// The lines that a page's twin has; `None` for the whole page, or without a twin.
    pub(crate) fn lines(&self, page: u32) -> Option<u64> {
        self.slots.get(&page)?.lines
    }

    /// Says which lines the twin of a page has.
    pub(crate) fn set_lines(&mut self, page: u32, lines: Option<u64>) {
        self.slots.get_mut(&page).into_iter().for_each(|kept| kept.lines = lines);
    }

    /// The pages with a twin, in any order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u32> {
        self.slots.keys().copied()
    }

    /// Twins there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Ends a page's twin; the end of the last one gives memory back.
    ///
    /// # Errors
    /// Whatever the system says.
    pub(crate) fn free(&mut self, page: u32) -> io::Result<()> {
        self.free.extend(self.slots.remove(&page).map(|kept| Reverse(kept.slot)));
        if !self.slots.is_empty() || self.warm < 2 * SLOTS_KEPT {
            return Ok(());
        }
        let at = |slot: u32| slot as usize * self.page_bytes;
        let len = at(self.warm) - at(SLOTS_KEPT);
        let start = self.mapping.at(at(SLOTS_KEPT), len);
        self.warm = SLOTS_KEPT;
        // SAFETY: the range lies in the private mapping, no twin is in it, and it is reached
        // through `&mut self` only.
        unsafe { madvise(start.cast(), len, Advice::LinuxDontNeed) }.map_err(io::Error::from)
    }

    fn slot(&mut self, slot: u32) -> &mut [u8] {
        let start = self.mapping.at(slot as usize * self.page_bytes, self.page_bytes);
        // SAFETY: the range lies in a private mapping that is initialised (zeros) and reached
        // through `&mut self` only.
        unsafe { std::slice::from_raw_parts_mut(start, self.page_bytes) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn twins_share_slots_and_give_memory_back() {
        const PAGES: u32 = 4 * SLOTS_KEPT;
        let page = rustix::param::page_size();
        let mut twins = Twins::new(PAGES as usize * page, page).unwrap();
        for round in 0..3u8 {
            for at in 0..PAGES {
                twins.keep(at * 7).fill(round + 1);
            }
            assert_eq!((twins.used, twins.warm), (PAGES, PAGES), "slots are used again");
            assert!((0..PAGES).all(|at| twins.of(at * 7).unwrap().iter().all(|b| *b == round + 1)));
            (0..PAGES).for_each(|at| twins.free(at * 7).unwrap());
            assert_eq!((twins.len(), twins.warm), (0, SLOTS_KEPT));
        }
        assert!(twins.of(0).is_none());
    }

    #[test]
    fn a_closed_view_may_not_be_accessed_and_is_unmapped() {
        // Where the kernel puts nothing of its own choice.
        const AT: usize = 0x2a00_0000_0000;
        let bytes = 4 * rustix::param::page_size();
        let permissions = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let range = format!("{AT:x}-{:x} ", AT + bytes);
            let found = maps.lines().find_map(|line| line.strip_prefix(&range));
            found.map(|rest| rest[..4].to_owned())
        };
        let memory = Memory::private(bytes, Some(AT)).unwrap();
        memory.store(0, &[1; 8]);
        assert_eq!(permissions().as_deref(), Some("rw-s"));
        memory.close(bytes).unwrap();
        assert_eq!(permissions().as_deref(), Some("---p"));
        assert_eq!(memory.word(0).load(RELAXED), 0, "the memory is given back");
        drop(memory);
        assert_eq!(permissions(), None);
    }
}
