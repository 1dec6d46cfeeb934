//! Neighbouring elements moved together.
//!
//! The processor moves the parts of a vector that lie in elements of their own size whole, as it
//! does for each element alone; between two elements it promises nothing, and neither do relaxed
//! loads and stores one after the other. The compiler is told nothing of the memory that is
//! reached, so that other processes may store into it at any time.
#![allow(unsafe_code)] // Reason: vector moves from and to memory that others store into.

#[cfg(target_arch = "x86_64")]
use std::arch::{asm, x86_64::__m128i};

use super::{Cell, CellMut, Element};

/// Bytes of a vector.
#[cfg(target_arch = "x86_64")]
const VECTOR_BYTES: usize = size_of::<__m128i>();

/// Bytes of `N` elements that are moved in pairs of vectors, and in whole vectors.
#[cfg(target_arch = "x86_64")]
const fn in_vectors<T, const N: usize>() -> (usize, usize) {
    let bytes = N * size_of::<T>();
    (bytes / (2 * VECTOR_BYTES) * 2 * VECTOR_BYTES, bytes / VECTOR_BYTES * VECTOR_BYTES)
}

/// Cells to write as cells to read.
#[inline(always)]
pub(super) fn to_read<T: Element, const N: usize>(cells: &[CellMut<T>; N]) -> &[Cell<T>; N] {
    // SAFETY: both are an atomic variable of the same type and nothing else.
    unsafe { &*std::ptr::from_ref(cells).cast() }
}

/// The values of `cells`: a relaxed load each.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn load<T: Element, const N: usize>(cells: &[Cell<T>; N]) -> [T; N] {
    let mut values = [T::zeroed(); N];
    let (pairs, vectors) = in_vectors::<T, N>();
    let (from, to) = (cells.as_ptr().cast::<u8>(), values.as_mut_ptr().cast::<u8>());
    // SAFETY: offsets are those of whole vectors within the `N` elements that both arrays have; any
    // bytes are values of a plain type; SSE2 is part of x86-64.
    unsafe {
        for at in (0..pairs).step_by(2 * VECTOR_BYTES) {
            let (first, second): (__m128i, __m128i);
            // Together, so that both have one address.
            asm!("movups {0}, [{2}]", "movups {1}, [{2} + 16]",
                out(xmm_reg) first, lateout(xmm_reg) second, in(reg) from.add(at),
                options(nostack, preserves_flags, readonly));
            let to = to.add(at).cast::<__m128i>();
            to.write_unaligned(first);
            to.add(1).write_unaligned(second);
        }
        if pairs < vectors {
            let vector: __m128i;
            asm!("movups {0}, [{1}]", lateout(xmm_reg) vector, in(reg) from.add(pairs),
                options(nostack, preserves_flags, readonly));
            to.add(pairs).cast::<__m128i>().write_unaligned(vector);
        }
    }
    for i in vectors / size_of::<T>()..N {
        values[i] = cells[i].get();
    }
    values
}

/// Stores `values` into `cells`: a relaxed store each.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn store<T: Element, const N: usize>(cells: &[CellMut<T>; N], values: [T; N]) {
    let (pairs, vectors) = in_vectors::<T, N>();
    let (from, to) = (values.as_ptr().cast::<u8>(), cells.as_ptr().cast::<u8>());
    // SAFETY: as in `load`; atomic variables may be stored into by a shared reference.
    unsafe {
        for at in (0..pairs).step_by(2 * VECTOR_BYTES) {
            let from = from.add(at).cast::<__m128i>();
            let (first, second) = (from.read_unaligned(), from.add(1).read_unaligned());
            asm!("movups [{2}], {0}", "movups [{2} + 16], {1}",
                in(xmm_reg) first, in(xmm_reg) second, in(reg) to.add(at),
                options(nostack, preserves_flags));
        }
        if pairs < vectors {
            let vector = from.add(pairs).cast::<__m128i>().read_unaligned();
            asm!("movups [{1}], {0}", in(xmm_reg) vector, in(reg) to.add(pairs),
                options(nostack, preserves_flags));
        }
    }
    for i in vectors / size_of::<T>()..N {
        cells[i].set(values[i]);
    }
}

/// The values of `cells`: a relaxed load each.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn load<T: Element, const N: usize>(cells: &[Cell<T>; N]) -> [T; N] {
    std::array::from_fn(|i| cells[i].get())
}

/// Stores `values` into `cells`: a relaxed store each.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn store<T: Element, const N: usize>(cells: &[CellMut<T>; N], values: [T; N]) {
    for (cell, value) in cells.iter().zip(values) {
        cell.set(value);
    }
}
