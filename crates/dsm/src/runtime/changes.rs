//! Waiting for a change of what a lock guards, for free to those who change it while none waits.
//!
//! The standard library's condition variable makes a system call whenever it is notified, and
//! nearly every message changes something that no thread sleeps for.
//!
//! Invariant: who waits is counted before it lets go of the lock, and who notifies holds that lock,
//! so it sees each thread that waits for its change. Checked by
//! `a_change_wakes_every_thread_that_waits_for_it`.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// See the module's page; of one lock only.
#[derive(Default)]
pub(super) struct Changes {
    condvar: Condvar,
    waiting: AtomicU32,
}

impl Changes {
    /// Lets go of the lock until something changes, at most for `timeout`; may return early.
    pub(super) fn wait<'l, T>(
        &self,
        held: MutexGuard<'l, T>,
        timeout: Duration,
    ) -> MutexGuard<'l, T> {
        self.waiting.fetch_add(1, Relaxed);
        let waited = self.condvar.wait_timeout(held, timeout);
        self.waiting.fetch_sub(1, Relaxed);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes who waits for a change of what the caller holds the lock of.
    pub(super) fn notify<T>(&self, _held: &mut T) {
        if self.waiting.load(Relaxed) > 0 {
            self.condvar.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const FOR_EVER: Duration = Duration::from_secs(1 << 20);

    #[test]
    fn a_change_wakes_every_thread_that_waits_for_it() {
        let (changes, value) = (Changes::default(), Mutex::new(0));
        let reach = |least: u32| {
            let mut held = value.lock().unwrap();
            while *held < least {
                held = changes.wait(held, FOR_EVER);
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || (0..200).for_each(|n| reach(n + thread % 2)));
            }
            for n in 0..=200 {
                let mut held = value.lock().unwrap();
                *held = n;
                changes.notify(&mut *held);
                drop(held);
                std::thread::yield_now();
            }
        });
        assert_eq!(changes.waiting.load(Relaxed), 0);
    }

    #[test]
    fn a_wait_ends_without_a_change() {
        let (changes, value) = (Changes::default(), Mutex::new(()));
        drop(changes.wait(value.lock().unwrap(), Duration::ZERO));
        changes.notify(&mut *value.lock().unwrap());
        assert_eq!(changes.waiting.load(Relaxed), 0);
    }
}
