//! The bell under loom: whatever the order, a sleeper whose word has been written wakes.
//!
//! The futex is modelled by a mutex and a condition variable, which is what the kernel promises:
//! the comparison with the count and the falling asleep are one step. A lost wake-up is a deadlock,
//! which loom reports.
//!
//! `scripts/schedules.sh loom` runs it.
#![cfg(loom)]

use std::time::Duration;

use littoral_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use littoral_base::sync::{Arc, Condvar, Mutex, thread};
use littoral_fabric::bell::{Bell, ring, sleep_unless};

struct Modelled {
    count: AtomicU32,
    sleepers: AtomicU64,
    kernel: Mutex<()>,
    asleep: Condvar,
}

impl Bell for Modelled {
    fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }
    fn strike(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }
    fn sleepers(&self) -> u64 {
        self.sleepers.load(Ordering::SeqCst)
    }
    fn announce(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
    }
    fn withdraw(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
    fn sleep(&self, seen: u32, _timeout: Option<Duration>) {
        let mut kernel = self.kernel.lock().unwrap();
        if self.count.load(Ordering::SeqCst) == seen {
            kernel = self.asleep.wait(kernel).unwrap();
        }
        drop(kernel);
    }
    fn wake(&self) {
        let kernel = self.kernel.lock().unwrap();
        self.asleep.notify_all();
        drop(kernel);
    }
}

#[test]
fn a_sleeper_whose_word_was_written_wakes() {
    loom::model(|| {
        let bell = Arc::new(Modelled {
            count: AtomicU32::new(0),
            sleepers: AtomicU64::new(0),
            kernel: Mutex::new(()),
            asleep: Condvar::new(),
        });
        let word = Arc::new(AtomicU64::new(0));
        let (far_bell, far_word) = (Arc::clone(&bell), Arc::clone(&word));
        let writer = thread::spawn(move || {
            for value in 1..3 {
                far_word.store(value, Ordering::Release);
                ring(&*far_bell);
            }
        });
        let ready = || (word.load(Ordering::Acquire) == 2).then_some(());
        while sleep_unless(&*bell, None, ready).is_none() {}
        writer.join().unwrap();
    });
}
