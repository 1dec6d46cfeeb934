//! The hostile pool: pooled memory with one private, stale, randomly evicting line cache per node.
//!
//! A program whose own structure lives in pooled memory makes one view per node, reaches the memory
//! through it alone, and sees within a few thousand operations what a missing write-back, fence or
//! invalidation does.
//!
//! A store of part of a word is a load and a store of the word in the view's own cache: what two
//! threads of one node do to one word they must order themselves.
//!
//! Invariants
//! - A null handle or pointer, or a range outside the pool, answers -1 (null where a handle is
//!   made) and touches nothing. Checked by `what_lies_outside_or_is_null_is_refused`.
//! - A view keeps its pool's memory alive, so handles may be freed in any order. Checked by
//!   `bytes_cross_between_views_only_by_write_back_fence_and_invalidation`.

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::atomic::Ordering;

use littoral::device::memory::Domain;
use littoral::fabric::hostile::{HostilePool, HostileView};

use super::in_range;

/// Pooled memory of several nodes.
#[derive(Debug)]
pub struct Pool(HostilePool);

/// One node's way to the pool, through a cache of its own.
#[derive(Debug)]
pub struct View(HostileView);

const WORD: usize = 8;
const ORDER: Ordering = Ordering::SeqCst;
/// The largest pool: a mistaken length should not take the machine's memory.
const POOL_BYTES_MAX: usize = 1 << 34;

/// What a view has done.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines evicted unasked.
    pub evictions: u64,
    /// Lines written back by request.
    pub write_backs: u64,
    /// Lines invalidated by request.
    pub invalidations: u64,
    /// Dirty lines invalidated: stores lost by a mistake of the caller.
    pub lost_lines: u64,
}

/// A pool of `len` zero bytes in which each access evicts a line with a chance of one in
/// `evict_one_in`; null when `len` is no positive multiple of 64 or more than 16 GiB, or the chance
/// is one in none.
#[unsafe(no_mangle)]
pub extern "C" fn littoral_pool_new(len: usize, seed: u64, evict_one_in: u32) -> *mut Pool {
    if len == 0 || !len.is_multiple_of(64) || len > POOL_BYTES_MAX || evict_one_in == 0 {
        return std::ptr::null_mut();
    }
    Box::into_raw(Box::new(Pool(HostilePool::new(len, seed, evict_one_in))))
}

/// Gives a pool up; its views stay good.
///
/// # Safety
/// `pool` is null or came from `littoral_pool_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_free(pool: *mut Pool) {
    if !pool.is_null() {
        // SAFETY: the caller promises a live handle, which was made by Box::into_raw.
        drop(unsafe { Box::from_raw(pool) });
    }
}

/// The view of node `node`, with a cold cache; null for a null pool.
///
/// # Safety
/// `pool` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_view_new(pool: *const Pool, node: u16) -> *mut View {
    // SAFETY: the caller promises null or a live handle.
    let pool = unsafe { pool.as_ref() };
    pool.map_or(std::ptr::null_mut(), |p| Box::into_raw(Box::new(View(p.0.view(node)))))
}

/// Gives a view up: what its cache held and never wrote back is lost, as with a node that died.
///
/// # Safety
/// `view` is null or came from `littoral_pool_view_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_view_free(view: *mut View) {
    if !view.is_null() {
        // SAFETY: the caller promises a live handle, which was made by Box::into_raw.
        drop(unsafe { Box::from_raw(view) });
    }
}

/// # Safety
/// `view` is null or a live handle.
unsafe fn on(view: *const View, act: impl FnOnce(&HostileView) -> Option<c_int>) -> c_int {
    // SAFETY: the caller promises null or a live handle.
    unsafe { view.as_ref() }.and_then(|v| act(&v.0)).unwrap_or(-1)
}

/// What needs a range of the pool and answers nothing.
///
/// # Safety
/// `view` is null or a live handle.
unsafe fn on_range(
    view: *const View,
    offset: usize,
    len: usize,
    act: impl FnOnce(&HostileView),
) -> c_int {
    let act = |v: &HostileView| {
        in_range(offset, len, v.len())?;
        act(v);
        Some(0)
    };
    // SAFETY: the caller promises null or a live handle.
    unsafe { on(view, act) }
}

fn load(view: &HostileView, offset: usize, into: &mut [u8]) {
    let mut done = 0;
    while done < into.len() {
        let (at, within) = (offset + done, (offset + done) % WORD);
        let n = (WORD - within).min(into.len() - done);
        let bytes = view.word(at - within, ORDER).to_le_bytes();
        into[done..done + n].copy_from_slice(&bytes[within..within + n]);
        done += n;
    }
}

fn store(view: &HostileView, offset: usize, data: &[u8]) {
    let mut done = 0;
    while done < data.len() {
        let (at, within) = (offset + done, (offset + done) % WORD);
        let n = (WORD - within).min(data.len() - done);
        let whole = n == WORD;
        let before = if whole { 0 } else { view.word(at - within, ORDER) };
        let mut bytes = before.to_le_bytes();
        bytes[within..within + n].copy_from_slice(&data[done..done + n]);
        view.store(at - within, u64::from_le_bytes(bytes), ORDER);
        done += n;
    }
}

/// Loads `len` bytes as this node sees them, however old its cache is.
///
/// # Safety
/// `view` is null or a live handle; `into` is null or points to `len` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_load(
    view: *const View,
    offset: usize,
    into: *mut c_void,
    len: usize,
) -> c_int {
    let act = |v: &HostileView| {
        in_range(offset, len, v.len())?;
        if into.is_null() {
            return None;
        }
        // SAFETY: the caller promises `len` writable bytes; zeroing them first makes them a slice
        // of initialised bytes.
        let into = unsafe {
            let into: *mut u8 = into.cast();
            into.write_bytes(0, len);
            slice::from_raw_parts_mut(into, len)
        };
        load(v, offset, into);
        Some(0)
    };
    // SAFETY: the caller promises null or a live handle.
    unsafe { on(view, act) }
}

/// Stores `len` bytes into this node's cache.
///
/// # Safety
/// `view` is null or a live handle; `bytes` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_store(
    view: *const View,
    offset: usize,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    let act = |v: &HostileView| {
        in_range(offset, len, v.len())?;
        if bytes.is_null() {
            return None;
        }
        // SAFETY: the caller promises `len` readable bytes.
        store(v, offset, unsafe { slice::from_raw_parts(bytes.cast(), len) });
        Some(0)
    };
    // SAFETY: the caller promises null or a live handle.
    unsafe { on(view, act) }
}

/// Compares the aligned word at `offset` with `*expected` and stores `desired` if equal, in this
/// node's cache alone: between nodes it promises nothing. Answers 1 when it stored; else 0, and
/// `*expected` is what was there.
///
/// # Safety
/// `view` is null or a live handle; `expected` is null or points to a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_compare_exchange(
    view: *const View,
    offset: usize,
    expected: *mut u64,
    desired: u64,
) -> c_int {
    let act = |v: &HostileView| {
        in_range(offset, WORD, v.len()).filter(|()| offset.is_multiple_of(WORD))?;
        // SAFETY: the caller promises null or a word of its own.
        let expected = unsafe { expected.as_mut() }?;
        match v.compare_exchange(offset, *expected, desired, ORDER, ORDER) {
            Ok(_) => Some(1),
            Err(found) => {
                *expected = found;
                Some(0)
            }
        }
    };
    // SAFETY: the caller promises null or a live handle.
    unsafe { on(view, act) }
}

/// Starts moving the lines of a range to the medium; they are there after the next fence.
///
/// # Safety
/// `view` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_write_back(
    view: *const View,
    offset: usize,
    len: usize,
) -> c_int {
    // SAFETY: the caller promises null or a live handle.
    unsafe { on_range(view, offset, len, |v| v.write_back(offset, len)) }
}

/// Drops this node's copies of the lines of a range, dirty ones (a mistake, counted) included.
///
/// # Safety
/// `view` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_invalidate(
    view: *const View,
    offset: usize,
    len: usize,
) -> c_int {
    // SAFETY: the caller promises null or a live handle.
    unsafe { on_range(view, offset, len, |v| v.invalidate(offset, len)) }
}

/// Returns when every line written back before is on the medium.
///
/// # Safety
/// `view` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_fence(view: *const View) -> c_int {
    // SAFETY: the caller promises null or a live handle.
    unsafe { on(view, |v| v.fence().ok().map(|()| 0)) }
}

/// Tells what a view has done.
///
/// # Safety
/// `view` is null or a live handle; `counts` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_view_counts(
    view: *const View,
    counts: *mut Counts,
) -> c_int {
    let act = |v: &HostileView| {
        if counts.is_null() {
            return None;
        }
        let c = v.counts();
        let (evictions, write_backs) = (c.evictions, c.write_backs);
        let (invalidations, lost_lines) = (c.invalidations, c.lost_lines);
        // SAFETY: the caller promises that a pointer which is not null is writable.
        unsafe { counts.write(Counts { evictions, write_backs, invalidations, lost_lines }) };
        Some(0)
    };
    // SAFETY: the caller promises null or a live handle.
    unsafe { on(view, act) }
}

/// Tells the aligned word at `offset` as it is on the medium, past every cache.
///
/// # Safety
/// `pool` is null or a live handle; `word` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pool_medium_word(
    pool: *const Pool,
    offset: usize,
    word: *mut u64,
) -> c_int {
    // SAFETY: the caller promises null or a live handle, and null or a writable word.
    let (Some(pool), false) = (unsafe { pool.as_ref() }, word.is_null()) else { return -1 };
    if !offset.is_multiple_of(WORD) || in_range(offset, WORD, pool.0.len()).is_none() {
        return -1;
    }
    // SAFETY: not null, and the caller promises that it is writable.
    unsafe { word.write(pool.0.medium_word(offset)) };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_cross_between_views_only_by_write_back_fence_and_invalidation() {
        // SAFETY: handles are live until freed on the last lines; every pointer is to a local.
        unsafe {
            let pool = littoral_pool_new(256, 1, u32::MAX);
            let (a, b) = (littoral_pool_view_new(pool, 0), littoral_pool_view_new(pool, 1));
            let (sent, mut got) = (*b"across words", [9u8; 12]);
            assert_eq!(littoral_pool_load(b, 61, got.as_mut_ptr().cast(), 12), 0);
            assert_eq!(got, [0; 12], "b has the lines cached from now on");
            assert_eq!(littoral_pool_store(a, 61, sent.as_ptr().cast(), 12), 0);
            assert_eq!((littoral_pool_write_back(a, 61, 12), littoral_pool_fence(a)), (0, 0));
            littoral_pool_load(b, 61, got.as_mut_ptr().cast(), 12);
            assert_eq!(got, [0; 12], "its copy is stale");
            assert_eq!(littoral_pool_invalidate(b, 61, 12), 0);
            littoral_pool_load(b, 61, got.as_mut_ptr().cast(), 12);
            assert_eq!(&got, &sent);
            let mut word = 0;
            assert_eq!(littoral_pool_medium_word(pool, 64, &mut word), 0);
            assert_eq!(&word.to_le_bytes(), b"oss word");
            littoral_pool_free(pool);
            got = [9; 12];
            littoral_pool_load(b, 61, got.as_mut_ptr().cast(), 12);
            assert_eq!(&got, &sent, "a view outlives its pool's handle");
            let mut counts = Counts::default();
            assert_eq!(littoral_pool_view_counts(a, &mut counts), 0);
            assert_eq!((counts.write_backs, counts.invalidations), (2, 0), "two lines");
            littoral_pool_view_free(a);
            littoral_pool_view_free(b);
        }
    }

    #[test]
    fn what_lies_outside_or_is_null_is_refused() {
        let none: *mut c_void = std::ptr::null_mut();
        // SAFETY: null handles and ranges outside are what is being tested.
        unsafe {
            for (len, one_in) in [(0, 1), (63, 1), (64, 0), (POOL_BYTES_MAX + 64, 1)] {
                assert!(littoral_pool_new(len, 1, one_in).is_null());
            }
            assert!(littoral_pool_view_new(none.cast(), 0).is_null());
            assert_eq!(littoral_pool_fence(none.cast()), -1);
            let pool = littoral_pool_new(64, 1, 7);
            let v = littoral_pool_view_new(pool, 0);
            let (mut byte, mut word) = ([5u8], 0u64);
            assert_eq!(littoral_pool_load(v, 64, byte.as_mut_ptr().cast(), 1), -1);
            assert_eq!(littoral_pool_load(v, usize::MAX, byte.as_mut_ptr().cast(), 2), -1);
            assert_eq!(littoral_pool_store(v, 0, none, 1), -1);
            assert_eq!(littoral_pool_write_back(v, 60, 5), -1);
            assert_eq!(littoral_pool_invalidate(v, 65, 0), -1);
            assert_eq!(littoral_pool_compare_exchange(v, 4, &mut word, 1), -1, "misaligned");
            assert_eq!(littoral_pool_medium_word(pool, 64, &mut word), -1);
            assert_eq!(byte, [5], "nothing was touched");
            assert_eq!(littoral_pool_compare_exchange(v, 8, &mut word, 3), 1);
            assert_eq!((littoral_pool_compare_exchange(v, 8, &mut word, 4), word), (0, 3));
            littoral_pool_view_free(v);
            littoral_pool_free(pool);
            littoral_pool_free(std::ptr::null_mut());
            littoral_pool_view_free(std::ptr::null_mut());
        }
    }
}
