//! The memory orders of words in coherent windows. What a node stores before it writes or changes a
//! word is visible to a node that has read or changed that word afterwards.
//!
//! Invariants
//! - The locks over windows are correct in these orders, and each order is needed. Checked by
//!   `sections_exclude_each_other_and_show_what_was_written`,
//!   `a_barrier_shows_what_was_written_before_it`,
//!   `a_counting_barrier_shows_what_was_written_before_it`.

use std::sync::atomic::Ordering;

use littoral_base::mutant;

/// The order of a load.
#[inline]
pub fn load() -> Ordering {
    if mutant!("loom_window_load_relaxed") { Ordering::Relaxed } else { Ordering::Acquire }
}

/// The order of a store.
#[inline]
pub fn store() -> Ordering {
    if mutant!("loom_window_store_relaxed") { Ordering::Relaxed } else { Ordering::Release }
}

/// The order of a read-modify-write.
#[inline]
pub fn change() -> Ordering {
    if mutant!("loom_window_change_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel }
}
