//! Memory whose sides the host refuses, for tests of code that leaves checks of addresses to it.

use super::Window;
use crate::jit::raw as jit;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::ptr::null_mut;

/// Memory for a window with refusals on either side, and accessible memory of nothing behind them:
/// there an access that should have been checked goes unnoticed by the host.
#[derive(Debug)]
pub(crate) struct Fenced {
    base: u64,
    len: u64,
    slack: u64,
}

impl Fenced {
    /// Accessible bytes behind those that refuse.
    pub(crate) const BEHIND: u64 = 1 << 20;

    /// Zeroed memory with so many bytes on either side that refuse every access; `None` where the
    /// host refuses it or its faults cannot be caught.
    pub(crate) fn new(len: u64, slack: u64) -> Option<Fenced> {
        let len = len.next_multiple_of(4096);
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let side = slack + Fenced::BEHIND;
        let whole = (len + 2 * side) as usize;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(null_mut(), whole, rights, flags) }.ok()? as u64;
        let fenced = Fenced { base: start + side, len, slack };
        let refuse = |at: u64| {
            // SAFETY: inside the mapping made above, to which nothing refers.
            unsafe { mprotect(at as *mut _, slack as usize, MprotectFlags::empty()) }.is_ok()
        };
        let refused = refuse(fenced.base - slack) && refuse(fenced.base + len);
        (refused && jit::catch_refused()).then_some(fenced)
    }

    /// The window onto it, for the owner of both.
    pub(crate) fn window(&self) -> Window {
        // SAFETY: the memory is this value's own, the bytes beside it refuse every access, and
        // faults continue at the landing.
        unsafe { Window::new(self.base as *mut u8, self.len).between_refusals(self.slack) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        let side = self.slack + Fenced::BEHIND;
        let (start, whole) = (self.base - side, self.len + 2 * side);
        // SAFETY: the mapping of `new`; its window is used only while the owner of both exists.
        let _ = unsafe { munmap(start as *mut _, whole as usize) };
    }
}
