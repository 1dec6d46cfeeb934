//! The crash-image enumerator.
//!
//! A program records what its structure stores, writes back, fences and acknowledges, then asks for
//! every image a power cut could leave and checks each in a callback.
//!
//! A callback must not unwind into this library; a Rust panic here aborts (extern "C").
//!
//! Invariants
//! - A null handle, a range outside the memory or an unknown tear answers -1 and records nothing.
//!   Checked by `what_is_null_outside_or_unknown_records_nothing`.
//! - A callback that records on the record it checks is answered -1. Checked by
//!   `a_callback_cannot_change_the_record`.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::slice;

use littoral::device::pmem::trace::{self, Enumerate, Tear};

use super::in_range;

/// What a persistent-memory structure stored, wrote back, fenced and acknowledged.
#[derive(Debug)]
pub struct Trace(RefCell<trace::Trace>);

/// Checks one image: `image` holds `len` bytes, `acknowledged` commit points came before the cut.
/// Answers 0 when the structure recovers to a state it may be in.
pub type Check = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        image: *const u8,
        len: usize,
        acknowledged: u64,
    ) -> c_int,
>;

/// Starts a record over `len` bytes at `initial` (null: zeros); null when `len` is no positive
/// multiple of 64 or more than 16 GiB.
///
/// # Safety
/// `initial` is null or points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pmem_new(initial: *const u8, len: usize) -> *mut Trace {
    if len == 0 || !len.is_multiple_of(64) || len > 1 << 34 {
        return std::ptr::null_mut();
    }
    let mut words = vec![0u64; len / 8];
    if !initial.is_null() {
        // SAFETY: the caller promises `len` readable bytes at `initial`.
        let bytes = unsafe { slice::from_raw_parts(initial, len) };
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("invariant: chunks of eight"));
        }
    }
    Box::into_raw(Box::new(Trace(RefCell::new(trace::Trace::new(words)))))
}

/// Ends a record.
///
/// # Safety
/// `trace` is null or came from `littoral_pmem_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pmem_free(trace: *mut Trace) {
    if !trace.is_null() {
        // SAFETY: the caller promises a live handle, which was made by Box::into_raw.
        drop(unsafe { Box::from_raw(trace) });
    }
}

fn on(trace: *mut Trace, act: impl FnOnce(&mut trace::Trace) -> Option<()>) -> c_int {
    // SAFETY: every entry point's caller promises null or a live handle of this thread.
    let trace = unsafe { trace.as_ref() };
    // A callback of the enumerator has the record borrowed: it records nothing.
    match trace.and_then(|t| act(&mut *t.0.try_borrow_mut().ok()?)) {
        Some(()) => 0,
        None => -1,
    }
}

/// Records a store of `len` bytes.
///
/// # Safety
/// `trace` is null or a live handle; `bytes` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pmem_store(
    trace: *mut Trace,
    offset: usize,
    bytes: *const c_void,
    len: usize,
) -> c_int {
    on(trace, |t| {
        in_range(offset, len, t.current().len() * 8)?;
        if bytes.is_null() {
            return None;
        }
        // SAFETY: the caller promises `len` readable bytes at `bytes`.
        t.store_bytes(offset, unsafe { slice::from_raw_parts(bytes.cast(), len) });
        Some(())
    })
}

/// Records the write-back of the lines of a range by `actor`; an empty range has no line.
///
/// # Safety
/// `trace` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pmem_write_back(
    trace: *mut Trace,
    actor: u32,
    offset: usize,
    len: usize,
) -> c_int {
    on(trace, |t| {
        in_range(offset, len, t.current().len() * 8)?;
        t.write_back(actor, offset, len);
        Some(())
    })
}

/// Records a fence of `actor`.
///
/// # Safety
/// `trace` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pmem_fence(trace: *mut Trace, actor: u32) -> c_int {
    on(trace, |t| {
        t.fence(actor);
        Some(())
    })
}

/// Records that what is fenced so far was acknowledged.
///
/// # Safety
/// `trace` is null or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pmem_commit_point(trace: *mut Trace, actor: u32) -> c_int {
    on(trace, |t| {
        t.commit_point(actor);
        Some(())
    })
}

/// Calls `check` for the images of every crash point, at most `per_point_max` each (a seeded sample
/// beyond). `tear` is 0 for line prefixes, 1 for torn words. Answers 0 when every image passed, 1
/// when one was refused, -1 for a bad argument; `images` (if not null) receives how many were
/// checked. What `check` asks to be recorded on `trace` is answered -1.
///
/// # Safety
/// `trace` is null or a live handle; `check` may be called with `user` and does not free `trace`;
/// `images` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn littoral_pmem_enumerate(
    trace: *mut Trace,
    tear: c_int,
    per_point_max: u64,
    seed: u64,
    check: Check,
    user: *mut c_void,
    images: *mut u64,
) -> c_int {
    let tear = match tear {
        0 => Tear::LinePrefix,
        1 => Tear::Words,
        _ => return -1,
    };
    let how = Enumerate { tear, images_per_point_max: per_point_max.max(1), seed };
    let mut refused = 0;
    let done = on(trace, |t| {
        let check = check?;
        let coverage = t.enumerate(&how, |image| {
            let bytes: Vec<u8> = image.words.iter().flat_map(|w| w.to_le_bytes()).collect();
            // SAFETY: the caller promises that `check` may be called with `user`; the image
            // outlives it.
            let answer = unsafe { check(user, bytes.as_ptr(), bytes.len(), image.acknowledged) };
            if answer == 0 { Ok(()) } else { Err("refused".to_owned()) }
        });
        refused = c_int::from(coverage.failure.is_some());
        // SAFETY: the caller promises null or a writable count.
        if let Some(out) = unsafe { images.as_mut() } {
            *out = coverage.images_count;
        }
        Some(())
    });
    if done == 0 { refused } else { done }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn mark_needs_data(
        _: *mut c_void,
        image: *const u8,
        len: usize,
        _: u64,
    ) -> c_int {
        // SAFETY: the enumerator passes `len` readable bytes.
        let bytes = unsafe { slice::from_raw_parts(image, len) };
        c_int::from(bytes[64] == 1 && bytes[0] == 0)
    }

    fn verdict(fence_between: bool) -> (c_int, u64) {
        let mut images = 0;
        // SAFETY: the handle is live until freed on the last line; every pointer is to a local.
        unsafe {
            let t = littoral_pmem_new(std::ptr::null(), 128);
            assert_eq!(littoral_pmem_store(t, 0, [42u8].as_ptr().cast(), 1), 0);
            if fence_between {
                littoral_pmem_write_back(t, 1, 0, 1);
                littoral_pmem_fence(t, 1);
            }
            littoral_pmem_store(t, 64, [1u8].as_ptr().cast(), 1);
            assert_eq!(
                littoral_pmem_store(t, 127, [1u8, 2].as_ptr().cast(), 2),
                -1,
                "past the end"
            );
            let none = std::ptr::null_mut();
            let r = littoral_pmem_enumerate(t, 0, 100, 1, Some(mark_needs_data), none, &mut images);
            littoral_pmem_free(t);
            (r, images)
        }
    }

    #[test]
    fn what_is_null_outside_or_unknown_records_nothing() {
        let (none, nobytes) = (std::ptr::null_mut(), std::ptr::null());
        let (user, images) = (std::ptr::null_mut(), std::ptr::null_mut());
        let check: Check = Some(mark_needs_data);
        // SAFETY: null handles and bad arguments are what is being tested; `t` is live until freed.
        unsafe {
            assert_eq!(littoral_pmem_store(none, 0, [1u8].as_ptr().cast(), 1), -1);
            assert_eq!(littoral_pmem_write_back(none, 1, 0, 1), -1);
            assert_eq!(littoral_pmem_commit_point(none, 1), -1);
            assert_eq!(littoral_pmem_enumerate(none, 0, 9, 1, check, user, images), -1);
            let t = littoral_pmem_new(std::ptr::null(), 128);
            assert_eq!(littoral_pmem_store(t, 0, nobytes, 1), -1);
            assert_eq!(littoral_pmem_store(t, usize::MAX, [1u8].as_ptr().cast(), 1), -1);
            assert_eq!(littoral_pmem_write_back(t, 1, 64, 65), -1);
            assert_eq!(littoral_pmem_enumerate(t, 2, 9, 1, check, user, images), -1);
            assert_eq!(littoral_pmem_enumerate(t, 0, 9, 1, None, user, images), -1);
            assert_eq!((*t).0.borrow().events().len(), 0);
            littoral_pmem_free(t);
        }
    }

    unsafe extern "C" fn records(user: *mut c_void, _: *const u8, _: usize, _: u64) -> c_int {
        // SAFETY: `user` is the handle whose images are checked.
        c_int::from(unsafe { littoral_pmem_fence(user.cast(), 1) } != -1)
    }

    #[test]
    fn a_callback_cannot_change_the_record() {
        // SAFETY: the handle is live until freed.
        unsafe {
            let t = littoral_pmem_new(std::ptr::null(), 128);
            littoral_pmem_store(t, 0, [42u8].as_ptr().cast(), 1);
            let none = std::ptr::null_mut();
            assert_eq!(littoral_pmem_enumerate(t, 0, 9, 1, Some(records), t.cast(), none), 0);
            assert_eq!((*t).0.borrow().events().len(), 1);
            littoral_pmem_free(t);
        }
    }

    #[test]
    fn a_foreign_structure_is_checked_through_the_c_abi() {
        assert_eq!(verdict(true), (0, 3));
        assert_eq!(verdict(false).0, 1);
        // SAFETY: null handles are what is being tested.
        unsafe {
            assert_eq!(littoral_pmem_fence(std::ptr::null_mut(), 1), -1);
            assert!(littoral_pmem_new(std::ptr::null(), 63).is_null());
        }
    }
}
