//! Locks that a panic elsewhere does not poison.

use std::sync::{Mutex, MutexGuard};

/// Locks, also after a panic elsewhere: the data are valid between statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
