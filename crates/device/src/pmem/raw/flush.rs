//! Cache-line write-back and the persistence fence, by what the processor has.
//!
//! - [`Flush::detect`] asks CPUID once; a value of [`Flush`] exists only where its instruction
//!   does.
//! - CLWB keeps the line cached, CLFLUSHOPT drops it, CLFLUSH drops it and is ordered with itself.
//! - [`stream_line`] stores a line past the caches; on the machine of docs/design/pmem.md that and
//!   a fence take 0.58 of a store, CLWB and a fence.
//! - [`fence`] orders earlier write-backs before later stores of this thread.
//!
//! Off x86-64 there is no instruction with these promises that user code may rely on, so `detect`
//! answers `None` there and callers choose msync.

use std::sync::atomic::AtomicU64;

/// The write-back instruction of this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Write back, keep the line.
    Clwb,
    /// Write back and drop the line, weakly ordered.
    ClflushOpt,
    /// Write back and drop the line, strongly ordered.
    Clflush,
}

impl Flush {
    /// The best instruction this processor has, `None` where there is none.
    #[cfg(target_arch = "x86_64")]
    pub fn detect() -> Option<Flush> {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 processor has CPUID; leaf 7 is asked for only where leaf 0 lists it.
        let (leaf7, leaf1) = unsafe {
            let last = __cpuid(0).eax;
            (if last >= 7 { __cpuid_count(7, 0).ebx } else { 0 }, __cpuid(1).edx)
        };
        match (leaf7 >> 24 & 1, leaf7 >> 23 & 1, leaf1 >> 19 & 1) {
            (1, _, _) => Some(Flush::Clwb),
            (_, 1, _) => Some(Flush::ClflushOpt),
            (_, _, 1) => Some(Flush::Clflush),
            _ => None,
        }
    }

    /// The best instruction this processor has, `None` where there is none.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn detect() -> Option<Flush> {
        None
    }

    /// Starts writing back the line that holds `word`.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(in crate::pmem) fn line(self, word: &AtomicU64) {
        use std::arch::asm;
        let p = std::ptr::from_ref(word);
        // SAFETY: `p` comes from a live reference, so the line is mapped; the instruction moves no
        // data that a program can see; `self` exists only where CPUID lists the instruction.
        unsafe {
            match self {
                Flush::Clwb => asm!("clwb [{}]", in(reg) p, options(nostack, preserves_flags)),
                Flush::ClflushOpt => {
                    asm!("clflushopt [{}]", in(reg) p, options(nostack, preserves_flags))
                }
                Flush::Clflush => {
                    asm!("clflush [{}]", in(reg) p, options(nostack, preserves_flags))
                }
            }
        }
    }

    /// Starts writing back the line that holds `word`.
    #[inline(always)]
    #[cfg(not(target_arch = "x86_64"))]
    pub(in crate::pmem) fn line(self, _word: &AtomicU64) {}
}

/// Stores a line past the caches: MOVNTI, eight words that leave the processor as one burst. Only
/// [`fence`] orders it with later stores.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(in crate::pmem) fn stream_line(to: &[AtomicU64; 8], line: &[u64; 8]) {
    for (to, &w) in to.iter().zip(line) {
        // SAFETY: `to` is a live, aligned atomic word, and MOVNTI (SSE2, part of x86-64) stores
        // eight aligned bytes at once, as a relaxed atomic store would.
        unsafe {
            std::arch::asm!("movnti [{}], {}", in(reg) to.as_ptr(), in(reg) w,
                options(nostack, preserves_flags));
        }
    }
}

/// Stores a line; off x86-64 no flush and fence domain exists that would need more.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(in crate::pmem) fn stream_line(to: &[AtomicU64; 8], line: &[u64; 8]) {
    for (to, &w) in to.iter().zip(line) {
        to.store(w, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Orders this thread's earlier write-backs and stores before its later stores.
#[inline(always)]
pub(in crate::pmem) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SFENCE touches no memory and no flags; every x86-64 processor has it. The block is a
    // compiler barrier for memory because `nomem` is not given.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
