//! Where this process's rank is found: by two loads, without a lock and without a system call.
//!
//! The rank is never freed, so that a call which found it may go on while another thread leaves.
//! Whether this process is the one that joined is a word in a page that the kernel clears in a
//! child, however the child is made (`MADV_WIPEONFORK`); the C library's `fork` clears it too. A
//! process that shares the rank's memory (`vfork`, `CLONE_VM`) is taken for a thread of it.
//!
//! Invariants
//! - In a child the word is zero. Checked by `bad_input_ends_in_words`, with `fork` and with the
//!   kernel's own call.
#![allow(unsafe_code)] // Reason: a rank that outlives its process's membership; a page for a word.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use littoral_base::mutant;

use super::Rank;

const BYTES: usize = 4096;

unsafe extern "C" {
    fn pthread_atfork(
        before: Option<extern "C" fn()>,
        in_parent: Option<extern "C" fn()>,
        in_child: Option<extern "C" fn()>,
    ) -> c_int;
}

static RANK: AtomicPtr<Rank> = AtomicPtr::new(null_mut());
/// 1 in the process that joined.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

/// The rank of this process or of the one that it is a child of, and whether it is this one's.
#[inline]
pub fn stored() -> Option<(&'static Rank, bool)> {
    // SAFETY: null or a rank that is never freed.
    let rank = unsafe { RANK.load(Ordering::Acquire).as_ref() }?;
    // SAFETY: the word is mapped, and stays, before a rank is stored.
    let is_own = unsafe { WORD.load(Ordering::Relaxed).as_ref() };
    Some((rank, is_own.is_some_and(|word| word.load(Ordering::Relaxed) == 1)))
}

/// Makes this the rank of the process.
///
/// # Errors
/// When the system has no page for the word.
pub fn store(rank: Rank) -> io::Result<&'static Rank> {
    if WORD.load(Ordering::Relaxed).is_null() {
        WORD.store(map_word()?, Ordering::Relaxed);
    }
    let rank: &'static Rank = Box::leak(Box::new(rank));
    RANK.store(std::ptr::from_ref(rank).cast_mut(), Ordering::Release);
    Ok(rank)
}

/// Ends the membership of this process.
pub fn forget() {
    RANK.store(null_mut(), Ordering::Release);
}

fn map_word() -> io::Result<*mut AtomicU32> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
    let page = unsafe { libc::mmap(null_mut::<c_void>(), BYTES, prot, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if !mutant!("jia_child_is_its_rank") {
        // SAFETY: the range is the mapping. Kernels before 4.14 refuse: there `fork` alone tells.
        unsafe { libc::madvise(page, BYTES, libc::MADV_WIPEONFORK) };
    }
    let word = page.cast::<AtomicU32>();
    // SAFETY: the word is aligned, of zeros, and mapped for as long as the process lives.
    unsafe { (*word).store(1, Ordering::Relaxed) };
    // SAFETY: the handler stores one word.
    let refused = unsafe { pthread_atfork(None, None, Some(in_child)) };
    if refused == 0 { Ok(word) } else { Err(io::Error::from_raw_os_error(refused)) }
}

extern "C" fn in_child() {
    // SAFETY: null or a word that stays mapped; the page is the child's own.
    let word = unsafe { WORD.load(Ordering::Relaxed).as_ref() };
    if let Some(word) = word.filter(|_| !mutant!("jia_child_is_its_rank")) {
        word.store(0, Ordering::Relaxed);
    }
}
