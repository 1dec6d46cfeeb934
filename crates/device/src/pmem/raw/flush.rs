//! Cache-line write-back and the persistence fence, by what the processor has.
//!
//! - [`Flush::detect`] asks CPUID once; a value of [`Flush`] exists only where its instruction
//!   does.
//! - CLWB keeps the line cached, CLFLUSHOPT drops it, CLFLUSH drops it and is ordered with itself.
//! - [`stream_line`] stores a line past the caches; on the machine of docs/design/pmem.md that and
//!   a fence take 0.58 of a store, CLWB and a fence.
//! - [`fence`] orders earlier write-backs before later stores of this thread.
//! - Each of them is recorded in unit tests ([`super::super::sink`]).
//!
//! On aarch64 the instruction is DC CVAP (clean to the point of persistence), which user code may
//! execute where the kernel reports HWCAP_DCPOP; DSB orders it. Elsewhere `detect` answers `None`
//! and callers choose msync.

use std::sync::atomic::AtomicU64;

use super::super::sink::{Event, note};

/// The write-back instruction of this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Write back, keep the line.
    Clwb,
    /// Write back and drop the line, weakly ordered.
    ClflushOpt,
    /// Write back and drop the line, strongly ordered.
    Clflush,
    /// Clean the line to the point of persistence, keep it (aarch64).
    DcCvap,
}

/// The word of `SYS #3, C7, C12, #1, X<register>`, which is DC CVAP: bits 31..19 are the system
/// instruction's, then op1, CRn, CRm, op2 and the register (Arm ARM C5.1.3, C5.5).
#[cfg_attr(not(any(test, target_arch = "aarch64")), allow(dead_code))]
const fn dc_cvap(register: u32) -> u32 {
    0x1aa1 << 19 | 3 << 16 | 7 << 12 | 12 << 8 | 1 << 5 | register
}

/// Whether DC CVAP on every 64th byte reaches every line: it cleans lines of the length that
/// CTR_EL0 names, as the logarithm of 4-byte words in bits 19..16.
#[cfg_attr(not(any(test, target_arch = "aarch64")), allow(dead_code))]
fn lines_reach(ctr_el0: u64) -> bool {
    4 << (ctr_el0 >> 16 & 15) >= crate::memory::LINE_BYTES
}

/// Whether this processor has CLWB, and the better of CLFLUSHOPT and CLFLUSH.
#[cfg(target_arch = "x86_64")]
fn line_instructions() -> (bool, Option<Flush>) {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has CPUID; leaf 7 is asked for only where leaf 0 lists it.
    let (leaf7, leaf1) = unsafe {
        let last = __cpuid(0).eax;
        (if last >= 7 { __cpuid_count(7, 0).ebx } else { 0 }, __cpuid(1).edx)
    };
    let drops = match (leaf7 >> 23 & 1, leaf1 >> 19 & 1) {
        (1, _) => Some(Flush::ClflushOpt),
        (_, 1) => Some(Flush::Clflush),
        _ => None,
    };
    (leaf7 >> 24 & 1 == 1, drops)
}

impl Flush {
    /// The best instruction this processor has, `None` where there is none.
    #[cfg(target_arch = "x86_64")]
    pub fn detect() -> Option<Flush> {
        let (keeps, drops) = line_instructions();
        if keeps { Some(Flush::Clwb) } else { drops }
    }

    /// The best instruction of this processor that drops what it writes back.
    #[cfg(target_arch = "x86_64")]
    fn detect_dropping() -> Option<Flush> {
        line_instructions().1
    }

    /// The best instruction of this processor that drops what it writes back.
    #[cfg(not(target_arch = "x86_64"))]
    fn detect_dropping() -> Option<Flush> {
        None
    }

    /// The best instruction this processor has, `None` where there is none.
    #[cfg(target_arch = "aarch64")]
    pub fn detect() -> Option<Flush> {
        const HWCAP_DCPOP: usize = 1 << 16;
        let ctr_el0: u64;
        // SAFETY: Linux lets user code read CTR_EL0, or reads it in its place; nothing is changed.
        unsafe {
            std::arch::asm!("mrs {}, ctr_el0", out(reg) ctr_el0, options(nomem, nostack));
        }
        let has = rustix::param::linux_hwcap().0 & HWCAP_DCPOP != 0 && lines_reach(ctr_el0);
        has.then_some(Flush::DcCvap)
    }

    /// The best instruction this processor has, `None` where there is none.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub fn detect() -> Option<Flush> {
        None
    }

    /// Starts writing back the line that holds `word`.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    pub(in crate::pmem) fn line(self, word: &AtomicU64) {
        use std::arch::asm;
        let p = std::ptr::from_ref(word);
        note(Event::WriteBack(p.addr() & !63));
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
                Flush::DcCvap => {}
            }
        }
    }

    /// Starts writing back the line that holds `word`.
    #[inline(always)]
    #[cfg(target_arch = "aarch64")]
    pub(in crate::pmem) fn line(self, word: &AtomicU64) {
        let p = std::ptr::from_ref(word);
        note(Event::WriteBack(p.addr() & !63));
        // SAFETY: `p` comes from a live reference, so the line is mapped; the instruction moves no
        // data that a program can see; `self` exists only where the kernel reports it. As a word,
        // because assemblers refuse its name unless told of the extension.
        unsafe {
            std::arch::asm!(".inst {code}", code = const dc_cvap(0), in("x0") p,
                options(nostack, preserves_flags));
        }
    }

    /// Starts writing back the line that holds `word`.
    #[inline(always)]
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(in crate::pmem) fn line(self, word: &AtomicU64) {
        note(Event::WriteBack(std::ptr::from_ref(word).addr() & !63));
    }
}

/// This processor's instructions for lines of memory that other nodes reach too and that no
/// hardware keeps coherent, asked of the processor once.
#[derive(Clone, Copy, Debug)]
pub struct SharedLines {
    keeping: Option<Flush>,
    dropping: Option<Flush>,
}

impl SharedLines {
    /// Those of this processor.
    pub fn detect() -> SharedLines {
        SharedLines { keeping: Flush::detect(), dropping: Flush::detect_dropping() }
    }

    /// Starts writing back the line that holds `word`; ordered by a store fence. Where the
    /// processor has no instruction, memory is coherent as far as programs see, and this orders.
    #[inline(always)]
    pub fn write_back(self, word: &AtomicU64) {
        match self.keeping {
            Some(flush) => flush.line(word),
            None => crate::raw::cpu::store_fence(),
        }
    }

    /// Starts writing back and dropping the line that holds `word`; loads behind a full fence see
    /// the medium. Without an instruction as [`SharedLines::write_back`].
    #[inline(always)]
    pub fn drop_line(self, word: &AtomicU64) {
        match self.dropping {
            Some(flush) => flush.line(word),
            None => crate::raw::cpu::full_fence(),
        }
    }
}

/// Stores a line past the caches: MOVNTI, eight words that leave the processor as one burst. Only
/// [`fence`] orders it with later stores.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(in crate::pmem) fn stream_line(to: &[AtomicU64; 8], line: &[u64; 8]) {
    note(Event::Stream(to.as_ptr().addr()));
    for (to, &w) in to.iter().zip(line) {
        // SAFETY: `to` is a live, aligned atomic word, and MOVNTI (SSE2, part of x86-64) stores
        // eight aligned bytes at once, as a relaxed atomic store would.
        unsafe {
            std::arch::asm!("movnti [{}], {}", in(reg) to.as_ptr(), in(reg) w,
                options(nostack, preserves_flags));
        }
    }
}

/// Stores a line and starts writing it back, where the processor has an instruction for that.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(in crate::pmem) fn stream_line(to: &[AtomicU64; 8], line: &[u64; 8]) {
    note(Event::Stream(to.as_ptr().addr()));
    for (to, &w) in to.iter().zip(line) {
        to.store(w, std::sync::atomic::Ordering::Relaxed);
    }
    // A domain that streams lines exists only where `detect` found the instruction.
    Flush::DcCvap.line(&to[0]);
}

/// Orders this thread's earlier write-backs and stores before its later stores.
#[inline(always)]
pub(in crate::pmem) fn fence() {
    note(Event::Fence);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SFENCE touches no memory and no flags; every x86-64 processor has it. The block is a
    // compiler barrier for memory because `nomem` is not given.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: DSB touches no memory and no flags; it completes once every earlier DC CVAP has. The
    // block is a compiler barrier for memory because `nomem` is not given.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the assemblers of GNU and LLVM encode `dc cvap, x<n>`.
    #[test]
    fn dc_cvap_is_encoded_as_assemblers_do() {
        assert_eq!(dc_cvap(0).to_le_bytes(), [0x20, 0x7c, 0x0b, 0xd5]);
        assert_eq!(dc_cvap(17), 0xd50b_7c31);
        assert_eq!(dc_cvap(30), 0xd50b_7c3e);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_drops_a_line_is_not_what_keeps_it() {
        assert_ne!(Flush::detect_dropping(), Some(Flush::Clwb));
        assert!(Flush::detect_dropping().is_some(), "CLFLUSH came with SSE2");
    }

    #[test]
    fn lines_shorter_than_a_step_are_refused() {
        // DminLine 4 is 16 words: 64 bytes, as on Neoverse; 5 is 128, 3 is 32.
        assert!(lines_reach(0x8444_c004) && lines_reach(0x8445_c004));
        assert!(!lines_reach(0x8443_c004));
    }
}
