//! Memory of a window's own: pages, which of them may be stored to, and what a run has changed.
//!
//! - A guarded memory refuses a store that touches any page without the right to be written; the
//!   store then stores nothing.
//! - The first store to a page since the last [`Memory::restore`] saves the page, so that
//!   `restore` gives every byte back as it was.
//! - The guard is looked at by stores of the guest only; the owner's [`Window::write`] passes it.

use std::cell::{Cell, RefCell, UnsafeCell};

use super::{PAGE, Window};

/// Memory for a window, wholly readable, zero at first.
#[derive(Debug)]
pub struct Memory {
    /// One more than there are pages: the first page begins at the first multiple of its size.
    blocks: Box<[UnsafeCell<Block>]>,
    guard: Option<Box<Guard>>,
}

/// As many bytes as a page has. Allocators clear memory of a page's alignment, and leave that of
/// words to the system, which clears a page when it is touched.
type Block = [u64; PAGE as usize / 8];

// SAFETY: the pages are plain bytes, reached only through windows, whose accesses are single host
// instructions; there is no Rust reference into them that another thread could invalidate. A guard
// moves with the memory it stands for and is never shared.
unsafe impl Send for Memory {}

/// May be written by the guest.
const WRITABLE: u8 = 1;
/// Has been stored to since the last restore; its earlier bytes are saved.
const SAVED: u8 = 2;

/// Rights of pages, and the bytes that stores have replaced.
#[derive(Debug)]
pub(super) struct Guard {
    /// Address of page 0 on the host.
    base: u64,
    marks: Box<[Cell<u8>]>,
    saved: RefCell<Vec<(usize, Box<[u8]>)>>,
    /// Buffers for pages to be saved in.
    spare: RefCell<Vec<Box<[u8]>>>,
}

impl Guard {
    /// Whether the guest may store `size` bytes at `address`; saves the pages that are stored to
    /// for the first time.
    ///
    /// # Panics
    /// When the range leaves the memory, which the window has ruled out.
    pub(super) fn admit(&self, address: u64, size: u64) -> bool {
        debug_assert!(size > 0);
        let pages = (address / PAGE) as usize..=((address + size - 1) / PAGE) as usize;
        let marks = &self.marks[pages.clone()];
        if marks.iter().all(|m| m.get() == WRITABLE | SAVED) {
            return true;
        }
        if marks.iter().any(|m| m.get() & WRITABLE == 0) {
            return false;
        }
        pages.for_each(|page| self.save(page));
        true
    }

    fn save(&self, page: usize) {
        let mark = &self.marks[page];
        if mark.replace(WRITABLE | SAVED) & SAVED != 0 {
            return;
        }
        let spare = self.spare.borrow_mut().pop();
        let mut copy = spare.unwrap_or_else(|| vec![0; PAGE as usize].into());
        let at = (self.base + page as u64 * PAGE) as *const u8;
        // SAFETY: a page of the memory this guard stands for; the buffer is another allocation.
        unsafe { at.copy_to_nonoverlapping(copy.as_mut_ptr(), PAGE as usize) };
        self.saved.borrow_mut().push((page, copy));
    }

    /// Gives saved pages back; their numbers.
    fn restore(&self) -> Vec<usize> {
        let mut restored = Vec::new();
        for (page, copy) in self.saved.borrow_mut().drain(..) {
            let at = (self.base + page as u64 * PAGE) as *mut u8;
            // SAFETY: as `save`, the other way.
            unsafe { at.copy_from_nonoverlapping(copy.as_ptr(), PAGE as usize) };
            self.marks[page].set(WRITABLE);
            self.spare.borrow_mut().push(copy);
            restored.push(page);
        }
        restored
    }
}

impl Memory {
    /// At least `len` bytes, rounded up to pages; the guest may write all of them. Large memory
    /// takes what is touched of it, and is not cleared here, where others may wait.
    pub fn new(len: u64) -> Memory {
        let count = len.div_ceil(PAGE) as usize;
        let blocks = Box::<[UnsafeCell<Block>]>::new_zeroed_slice(count + 1);
        // SAFETY: zero bytes are words of zero.
        let blocks = unsafe { blocks.assume_init() };
        Memory { blocks, guard: None }
    }

    fn page_count(&self) -> usize {
        self.blocks.len() - 1
    }

    /// Address of page 0 on the host.
    fn base(&self) -> *mut u8 {
        let first: *mut u8 = self.blocks.as_ptr().cast_mut().cast();
        let before = first.addr().next_multiple_of(PAGE as usize) - first.addr();
        first.wrapping_add(before)
    }

    /// As [`Memory::new`], with a guard: the guest may write the pages for which `writable` is
    /// true of the first and last address, and [`Memory::restore`] undoes what it wrote.
    pub(crate) fn guarded(len: u64, writable: impl Fn(u64, u64) -> bool) -> Memory {
        let mut memory = Memory::new(len);
        let mark = |page: u64| {
            let right = writable(page * PAGE, (page + 1) * PAGE - 1);
            Cell::new(if right { WRITABLE } else { 0 })
        };
        let guard = Guard {
            base: memory.base() as u64,
            marks: (0..memory.page_count() as u64).map(mark).collect(),
            saved: RefCell::default(),
            spare: RefCell::default(),
        };
        memory.guard = Some(Box::new(guard));
        memory
    }

    /// Undoes every store of the guest since the last call; addresses of the pages that it had
    /// stored to.
    pub(crate) fn restore(&mut self) -> Vec<u64> {
        let pages = self.guard.as_ref().map(|g| g.restore()).unwrap_or_default();
        pages.into_iter().map(|page| page as u64 * PAGE).collect()
    }

    /// A window onto zeroed memory of its own, which is never freed: for tests that need many
    /// windows on few memories.
    pub fn leaked(bytes: u64) -> Window {
        Box::leak(Box::new(Memory::new(bytes))).window()
    }

    /// The window onto it. The window must not be used after `self` is gone: it is only handed to
    /// owners of both.
    pub(crate) fn window(&self) -> Window {
        // SAFETY: the cells allow writes through a shared reference; all pages are mapped.
        let window = unsafe { Window::new(self.base(), self.page_count() as u64 * PAGE) };
        match &self.guard {
            // SAFETY: the guard is boxed and lives as long as `self`, which the window's owner
            // keeps; a memory has one owner, so one thread uses it at a time.
            Some(guard) => unsafe { window.guarded(guard) },
            None => window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_refuses_whole_stores_and_gives_pages_back() {
        let mut memory = Memory::guarded(3 * PAGE, |first, _| first >= PAGE);
        let w = memory.window();
        w.write(0, &[7; 64]).unwrap();
        w.write(PAGE, &[1; 8]).unwrap();
        assert_eq!(w.store::<u64>(0, 9), None);
        assert_eq!(w.store::<u64>(PAGE - 4, 9), None, "half of it is on a page without the right");
        assert_eq!(w.load::<u64>(PAGE - 4), Some(0x0101_0101 << 32), "nothing was stored");
        assert_eq!(w.store_words(PAGE - 8, [1u64; 4]), None);
        assert_eq!(w.store_vector::<4>(PAGE - 8, &[1; 4]), None);
        assert_eq!(w.swap_if::<u32>(0, 0x0707_0707, 1), None);
        assert_eq!(w.swap_if_16(0, [0; 2], [1; 2]), None);
        assert_eq!(w.store::<u64>(2 * PAGE - 4, u64::MAX), Some(()));
        assert_eq!(w.store_vector::<2>(2 * PAGE + 8, &[5; 4]), Some(()));
        assert_eq!(w.swap_if::<u64>(PAGE, 0x0101_0101_0101_0101, 2), Some(0x0101_0101_0101_0101));
        assert_eq!(memory.restore(), [PAGE, 2 * PAGE]);
        assert_eq!(w.load::<u64>(PAGE), Some(0x0101_0101_0101_0101));
        assert_eq!(w.load::<u64>(2 * PAGE - 4), Some(0));
        assert_eq!(w.load_words(2 * PAGE + 8), Some([0u64; 2]));
        assert!(memory.restore().is_empty(), "nothing was stored since");
    }

    /// Pages that the system has given bytes; none where it does not tell.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn pages_touched(memory: &Memory) -> Option<usize> {
        use std::os::unix::fs::FileExt as _;
        let mut entries = vec![0u8; 8 * memory.page_count()];
        let map = std::fs::File::open("/proc/self/pagemap").ok()?;
        map.read_exact_at(&mut entries, memory.base() as u64 / PAGE * 8).ok()?;
        // The highest bit of a page's entry: it is in memory.
        Some(entries.chunks(8).filter(|entry| entry[7] & 0x80 != 0).count())
    }

    #[test]
    fn large_memory_takes_what_is_touched_of_it() {
        let memory = Memory::guarded(64 << 20, |_, _| true);
        let (w, count) = (memory.window(), memory.page_count());
        assert_eq!((memory.base() as u64 % PAGE, w.len()), (0, 64 << 20));
        w.store::<u64>(PAGE, 9).unwrap();
        // A huge page may come with the one that is touched.
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        assert!(pages_touched(&memory).is_none_or(|n| n <= count / 8), "of {count}");
        let words = (0..count as u64).map(|page| w.load::<u64>(page * PAGE));
        assert_eq!(words.flatten().sum::<u64>(), 9, "the rest is zero");
        assert_eq!(w.load::<u64>((64 << 20) - 8), Some(0));
    }

    #[test]
    fn bytes_of_the_owner_pass_the_guard_and_those_for_the_guest_do_not() {
        let mut memory = Memory::guarded(2 * PAGE, |first, _| first >= PAGE);
        let w = memory.window();
        assert_eq!(w.write(PAGE - 2, &[3; 4]), Some(()));
        assert_eq!(w.write_as_guest(PAGE - 2, &[4; 4]), None);
        assert_eq!(w.write_as_guest(PAGE, &[5; 2]), Some(()));
        let mut bytes = [0; 4];
        w.read(PAGE - 2, &mut bytes).unwrap();
        assert_eq!(bytes, [3, 3, 5, 5]);
        memory.restore();
        w.read(PAGE - 2, &mut bytes).unwrap();
        assert_eq!(bytes, [3; 4]);
        assert_eq!((w.read(2 * PAGE - 1, &mut bytes), w.write(u64::MAX, &[1])), (None, None));
        assert_eq!((w.read(u64::MAX, &mut []), w.write(u64::MAX, &[])), (Some(()), Some(())));
    }
}
