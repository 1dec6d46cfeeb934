//! The one full barrier of a commit, as cheap as the processor has it.
//!
//! Of two committers that each announce themselves and then look at the other's record at least one
//! must see the other. In the memory model that is a store, `fence(SeqCst)`, a load; loom and
//! shuttle explore this form. On x86-64 the fence would be MFENCE, which waits for a write-back
//! still under way (85 ns on the machine of docs/design/stm.md) where a locked exchange does not;
//! the exchange orders earlier stores before later loads as well (Intel SDM 3A 9.2.2, AMD APM 2
//! 7.1), so there the announcement itself is the barrier. crossbeam-epoch pins in the same way.

use std::sync::atomic::Ordering::{Release, SeqCst};

use littoral_base::mutant;
use littoral_base::sync::atomic::{AtomicU64, fence};

/// Stores `value` and orders it, and every store before it, before every later load.
#[inline(always)]
pub(crate) fn store_then_fence(word: &AtomicU64, value: u64) {
    if cfg!(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))) {
        word.swap(value, SeqCst);
        std::sync::atomic::compiler_fence(SeqCst);
        return;
    }
    word.store(value, Release);
    if !mutant!("loom_no_fence_after_lock") {
        fence(SeqCst);
    }
}
