//! The thread on which regions are translated while the program goes on.
//!
//! - It exists while there are jobs: the first one starts it, and it ends when none is left. So a
//!   process that looks at its own threads rarely sees it. It takes no signals.
//! - Jobs run without the queue's lock. A fork takes that lock first, so its child finds no half of
//!   anything; the child forgets the thread and its jobs. Checked by
//!   `forked_children_make_regions_of_their_own`.
//! - A child of `vfork` shares the memory and not the thread: it neither starts one nor gives it
//!   jobs, because it may end at any time.

use super::translation::Translation;
use crate::jit::raw::without_signals;
use littoral_base::mutant;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Jobs that wait at most; more are dropped, because their loops are looked at again.
const JOBS_MAX: usize = 16;

/// What the thread does: what it has translated.
pub(super) type Job = Box<dyn FnOnce() -> Translation + Send>;

/// What threads leave to the helper.
#[derive(Debug)]
pub(super) struct Helper {
    queue: Mutex<Queue>,
    /// The process whose threads may use it.
    process: AtomicU32,
}

/// What is behind the lock.
#[derive(Default)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    /// The thread exists.
    is_running: bool,
    /// What it has translated.
    total: Translation,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl Default for Helper {
    fn default() -> Helper {
        Helper { queue: Mutex::default(), process: AtomicU32::new(std::process::id()) }
    }
}

impl Helper {
    /// The queue, which no other thread changes meanwhile.
    pub(super) fn hold(&self) -> MutexGuard<'_, Queue> {
        // A panic leaves a queue as sound as it was.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has translated so far.
    pub(super) fn total(&self) -> Translation {
        self.hold().total
    }

    /// In a forked child, where the thread does not exist.
    pub(super) fn survive_alone(&self) {
        self.process.store(std::process::id(), Ordering::Relaxed);
        let mut queue = self.hold();
        queue.jobs.clear();
        queue.is_running &= mutant!("la64_region_helper_outlives_fork");
    }

    /// Leaves a job to the thread, which drops it if it has too many.
    pub(super) fn give(self: &Arc<Helper>, job: Job) {
        if self.process.load(Ordering::Relaxed) != std::process::id() {
            return;
        }
        let mut queue = self.hold();
        if queue.jobs.len() < JOBS_MAX {
            queue.jobs.push_back(job);
        }
        if !queue.is_running {
            let helper = self.clone();
            let builder = std::thread::Builder::new().name("la64-regions".into());
            let started = without_signals(|| builder.spawn(move || helper.work()));
            queue.is_running = started.is_ok();
        }
    }

    /// Does jobs until none is left.
    fn work(&self) {
        loop {
            let job = {
                let mut queue = self.hold();
                let Some(job) = queue.jobs.pop_front() else {
                    queue.is_running = false;
                    return;
                };
                job
            };
            let made = job();
            self.hold().total += made;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_and_the_thread_ends() {
        let helper = Arc::new(Helper::default());
        for _ in 0..100 {
            for _ in 0..JOBS_MAX {
                helper.give(Box::new(|| Translation { regions: 1, ..Translation::default() }));
            }
            while helper.hold().is_running {
                std::thread::yield_now();
            }
        }
        assert_eq!(helper.total().regions, 100 * JOBS_MAX as u64);
        helper.process.store(0, Ordering::Relaxed);
        helper.give(Box::new(Translation::default));
        assert!(helper.hold().jobs.is_empty(), "another process's job");
        helper.hold().is_running = true;
        helper.survive_alone();
        assert!(!helper.hold().is_running, "a child has no other thread");
        helper.give(Box::new(Translation::default));
        while helper.hold().is_running {
            std::thread::yield_now();
        }
    }
}
