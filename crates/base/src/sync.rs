//! One name for synchronisation, three implementations: std, loom (`--cfg loom`) for exhaustive
//! small models, shuttle (`--cfg shuttle`) for long random schedules.
//!
//! Concurrent code in littoral imports atomics, threads, mutexes and spin hints from here and
//! nowhere else; a loom or shuttle build has its own target directory.

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread,
};

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::{
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread,
};

#[cfg(not(any(loom, shuttle)))]
pub use std::{
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread,
};

/// `UnsafeCell` with loom's closure interface, so that one source serves loom and std.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell holding `value`.
    pub const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// The value, by value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[cfg(not(loom))]
impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `f` with a pointer for shared reading.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer for exclusive writing.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
