//! Single processor instructions that the models need: timestamp, prefetch, fences, line flush.
//!
//! - No function here changes what a program computes, only what it costs and in what order other
//!   agents may see it.
//! - On processors without a counterpart a function falls back to the nearest portable form, or
//!   does nothing where it is only a hint.

/// The time-stamp counter, or nanoseconds of the monotonic clock where there is none.
///
/// Not serialising: the processor may read it a few nanoseconds early or late.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC exists on every x86-64 processor and touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Asks the processor to bring the line of `address` near; a hint for any address, mapped or not.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: PRFM never faults, whatever the address, and changes no register or flag.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address,
            options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// As [`prefetch`], for data used once: they do not displace what outer caches keep.
#[inline(always)]
pub(crate) fn prefetch_once(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHNTA never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_NTA }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    prefetch(address);
}

/// Brings near every line of a slice.
#[inline(always)]
pub(crate) fn prefetch_slice(bytes: &[u8]) {
    each_line(bytes, prefetch);
}

/// As [`prefetch_slice`], for data used once.
#[inline(always)]
pub(crate) fn prefetch_slice_once(bytes: &[u8]) {
    each_line(bytes, prefetch_once);
}

/// Brings near every line of an array, without a branch.
#[inline(always)]
pub(crate) fn prefetch_array<const N: usize>(bytes: &[u8; N]) {
    each_line_of(bytes, prefetch);
}

/// As [`prefetch_array`], for data used once.
#[inline(always)]
pub(crate) fn prefetch_array_once<const N: usize>(bytes: &[u8; N]) {
    each_line_of(bytes, prefetch_once);
}

#[inline(always)]
fn each_line_of<const N: usize>(bytes: &[u8; N], prefetch: impl Fn(*const u8)) {
    let start = bytes.as_ptr();
    (0..N).step_by(64).for_each(|at| prefetch(start.wrapping_add(at)));
    prefetch(start.wrapping_add(N.saturating_sub(1)));
}

#[inline(always)]
fn each_line(bytes: &[u8], prefetch: impl Fn(*const u8)) {
    let start = bytes.as_ptr();
    prefetch(start);
    // Most reads are one aligned line; the rest of a longer one is a loop that they do not enter.
    let mut offset = 64 - (start.addr() & 63);
    while offset < bytes.len() {
        prefetch(start.wrapping_add(offset));
        offset += 64;
    }
}

/// Orders all earlier stores before all later ones (SFENCE; a full fence elsewhere).
#[inline(always)]
pub fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SFENCE exists on every x86-64 processor and only orders stores.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Orders all earlier loads, stores and flushes of lines before all later ones (MFENCE).
#[inline(always)]
pub fn full_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: MFENCE is part of SSE2, which x86-64 includes, and only orders.
    unsafe {
        core::arch::x86_64::_mm_mfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Writes back and drops the line that holds `word` (CLFLUSH; a full fence elsewhere).
#[inline(always)]
pub(crate) fn flush_line(word: &std::sync::atomic::AtomicU32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: CLFLUSH is part of SSE2, which x86-64 includes, and `word` is a mapped address.
    unsafe {
        core::arch::x86_64::_mm_clflush(word.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = word;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_go_forward() {
        let a = ticks();
        let b = ticks();
        assert!(b >= a);
    }

    #[test]
    fn hints_and_fences_change_no_value() {
        let word = std::sync::atomic::AtomicU32::new(7);
        prefetch(std::ptr::null());
        prefetch_once(std::ptr::null());
        prefetch_slice(&[1, 2, 3]);
        prefetch_slice_once(&[1, 2, 3]);
        store_fence();
        flush_line(&word);
        assert_eq!(word.into_inner(), 7);
    }
}
