//! The few operations of the kernels that safe Rust cannot say: hints and one vector instruction
//! mix.
//!
//! - Hints ([`prefetch`], [`prefetch_once`], [`advise_huge`]) change cost, never a value.
//! - [`probe`] has a portable form; the AVX-512 form is chosen at run time and gives the same
//!   answer (a property test compares them).
//!
//! Obligations and the tests that would catch a breach are listed in the crate's `SAFETY.md`.
#![allow(unsafe_code)] // Reason: intrinsics and madvise have no safe form on stable Rust.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::hint::Hint;

/// Brings the line of `slice[index]` near; a hint, also past the end.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    let at = slice.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Brings the line of `slice[index]` near by the instruction that `hint` names; a hint, also past
/// the end.
#[inline(always)]
pub(crate) fn prefetch_by<T>(hint: Hint, slice: &[T], index: usize) {
    match hint {
        Hint::None => {}
        Hint::T0 => prefetch(slice, index),
        Hint::Nta => prefetch_once(slice, index),
    }
}

/// Brings the line of `slice[index]` near for one use: it will not displace what caches keep.
#[inline(always)]
pub(crate) fn prefetch_once<T>(slice: &[T], index: usize) {
    let at = slice.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHNTA never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_NTA }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks for huge pages under a large slice that is about to be written for the first time.
pub(crate) fn advise_huge<T>(slice: &[T]) {
    const PAGE: usize = 4096;
    let start = slice.as_ptr().addr().next_multiple_of(PAGE);
    let end = (slice.as_ptr().addr() + size_of_val(slice)) & !(PAGE - 1);
    if end.saturating_sub(start) < 2 << 20 {
        return;
    }
    let at = slice.as_ptr().cast::<u8>().cast_mut().with_addr(start);
    // SAFETY: the range lies inside one live allocation; MADV_HUGEPAGE changes no byte of it.
    let _ =
        unsafe { rustix::mm::madvise(at.cast(), end - start, rustix::mm::Advice::LinuxHugepage) };
}

/// What a unit of HEADS is tested against.
pub(crate) struct Probe<'a> {
    /// One bit a vertex: the frontier.
    pub(crate) front: &'a [AtomicU64],
    /// How many vertices there are.
    pub(crate) vertices: u32,
    /// One neighbour for each vertex of the part, `u32::MAX` where there is none.
    pub(crate) words: &'a [u32],
    /// One bit a vertex of the part: still without a parent. Hits clear it.
    pub(crate) pending: &'a [AtomicU64],
    /// One parent a vertex of the part; hits set it.
    pub(crate) parents: &'a [AtomicU32],
}

/// Gives every pending vertex whose neighbour is in the frontier that neighbour as its parent.
///
/// Answers whether every word was a vertex or `u32::MAX`.
///
/// # Panics
/// When the slices do not describe equally many vertices, a multiple of 64, or the frontier has
/// fewer bits than there are vertices.
#[inline]
pub(crate) fn probe(p: &Probe<'_>) -> bool {
    assert_eq!(p.words.len(), 64 * p.pending.len(), "one bit a word");
    assert_eq!(p.words.len(), p.parents.len(), "one parent a word");
    assert!(p.front.len() >= (p.vertices as usize).div_ceil(64), "one bit a vertex");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512F; lengths were just asserted.
        return unsafe { probe_avx512(p) };
    }
    probe_portable(p)
}

fn probe_portable(p: &Probe<'_>) -> bool {
    let mut sound = true;
    for (i, pending) in p.pending.iter().enumerate() {
        let mut open = pending.load(Relaxed);
        let mut rest = open;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            let at = i * 64 + bit as usize;
            let neighbour = p.words[at];
            if neighbour < p.vertices {
                let word = p.front[neighbour as usize / 64].load(Relaxed);
                if word >> (neighbour % 64) & 1 != 0 {
                    p.parents[at].store(neighbour, Relaxed);
                    open &= !(1 << bit);
                }
            } else {
                sound &= neighbour == u32::MAX;
            }
        }
        pending.store(open, Relaxed);
    }
    sound
}

/// [`probe`] sixteen vertices at a time.
///
/// # Safety
/// The processor has AVX-512F, and the lengths are as [`probe`] asserts.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn probe_avx512(p: &Probe<'_>) -> bool {
    use std::arch::x86_64::*;
    let limit = _mm512_set1_epi32(p.vertices.cast_signed());
    let none = _mm512_set1_epi32(-1);
    let front = p.front.as_ptr().cast::<i32>();
    let mut unsound = 0;
    for (i, pending) in p.pending.iter().enumerate() {
        let open = pending.load(Relaxed);
        if open == 0 {
            continue;
        }
        let mut hits = 0u64;
        for quarter in 0..4 {
            let mask = (open >> (16 * quarter)) as u16;
            if mask == 0 {
                continue;
            }
            let at = i * 64 + 16 * quarter;
            // SAFETY: `at + 16 <= words.len()`, since a word of `pending` stands for 64 words.
            let ids = unsafe { _mm512_loadu_si512(p.words.as_ptr().add(at).cast()) };
            let valid = _mm512_mask_cmplt_epu32_mask(mask, ids, limit);
            unsound |= _mm512_mask_cmpneq_epi32_mask(mask & !valid, ids, none);
            let half_words = _mm512_srli_epi32::<5>(ids);
            // SAFETY: lanes in `valid` are below `vertices`, whose bits `front` has; others are not
            // read. Another thread never writes the frontier while it is probed.
            let bits =
                unsafe { _mm512_mask_i32gather_epi32::<4>(none, valid, half_words, front.cast()) };
            let bit = _mm512_and_si512(ids, _mm512_set1_epi32(31));
            let bit = _mm512_sllv_epi32(_mm512_set1_epi32(1), bit);
            let hit = _mm512_mask_test_epi32_mask(valid, bits, bit);
            // SAFETY: `at + 16 <= parents.len()`; the vertices of a part belong to one thread, so
            // no other thread touches these parents now, and AtomicU32 may be written through `&`.
            unsafe {
                _mm512_mask_storeu_epi32(p.parents.as_ptr().add(at).cast_mut().cast(), hit, ids);
            }
            hits |= u64::from(hit) << (16 * quarter);
        }
        pending.store(open & !hits, Relaxed);
    }
    unsound == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(
        f: impl Fn(&Probe<'_>) -> bool,
        front: &[u64],
        n: u32,
        words: &[u32],
        open: &[u64],
    ) -> (bool, Vec<u64>, Vec<u32>) {
        let front: Vec<_> = front.iter().map(|&w| AtomicU64::new(w)).collect();
        let pending: Vec<_> = open.iter().map(|&w| AtomicU64::new(w)).collect();
        let parents: Vec<_> = words.iter().map(|_| AtomicU32::new(u32::MAX)).collect();
        let sound =
            f(&Probe { front: &front, vertices: n, words, pending: &pending, parents: &parents });
        (
            sound,
            pending.into_iter().map(AtomicU64::into_inner).collect(),
            parents.into_iter().map(AtomicU32::into_inner).collect(),
        )
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn the_vector_form_agrees_with_the_portable_one(
            front in proptest::collection::vec(any::<u64>(), 4),
            n in 1u32..=256,
            words in proptest::collection::vec(prop_oneof![8 => 0u32..256, 1 => Just(u32::MAX), 1 => any::<u32>()], 128),
            open in proptest::collection::vec(any::<u64>(), 2),
        ) {
            prop_assert_eq!(run(probe, &front, n, &words, &open), run(probe_portable, &front, n, &words, &open));
        }
    }

    #[test]
    fn hints_accept_anything() {
        prefetch(&[0u8; 3], 99);
        prefetch_once::<u32>(&[], 5);
        Hint::ALL.iter().for_each(|&hint| prefetch_by(hint, &[0u8; 3], 99));
        advise_huge(&vec![0u8; 5 << 20]);
        advise_huge::<u8>(&[]);
    }
}
