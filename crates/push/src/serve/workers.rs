//! Threads that compute page functions for a served device.
//!
//! A page function is pure, so that its result may be found out before the modelled core begins it:
//! pages are computed as they are admitted, and the model's times are those of the count alone.
//!
//! Invariants
//! - Each job that was posted is taken or forgotten once; its result is then gone. Checked by
//!   `every_policy_and_plan_gives_the_plain_answer`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::api::{Ran, Work};

/// A job's number.
pub(super) type Job = u64;

#[derive(Default)]
struct Desk {
    jobs: VecDeque<(Job, Work)>,
    done: BTreeMap<Job, Ran>,
    /// Jobs under way whose results are not wanted any more.
    unwanted: BTreeSet<Job>,
    idle: usize,
    is_over: bool,
    /// The device waits for a result and is to be woken.
    is_awaited: bool,
}

struct Shared {
    desk: Mutex<Desk>,
    posted: Condvar,
}

impl Shared {
    /// A page function that panics poisons nothing: the desk is consistent between statements.
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads with their desk.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    next: Job,
}

impl Workers {
    /// `count` threads, which write a byte to `bell` when a result is there that is awaited.
    pub(super) fn start(count: usize, bell: &UnixStream) -> std::io::Result<Workers> {
        let shared = Arc::new(Shared { desk: Mutex::default(), posted: Condvar::new() });
        let mut threads = Vec::new();
        for n in 0..count.max(1) {
            let (shared, bell) = (Arc::clone(&shared), bell.try_clone()?);
            let thread = std::thread::Builder::new().name(format!("push-core-{n}"));
            threads.push(thread.spawn(move || work(&shared, &bell))?);
        }
        Ok(Workers { shared, threads, next: 0 })
    }

    pub(super) fn post(&mut self, work: Work) -> Job {
        self.next += 1;
        let mut desk = self.shared.desk();
        desk.jobs.push_back((self.next, work));
        let has_idle = desk.idle > 0;
        drop(desk);
        if has_idle {
            self.shared.posted.notify_one();
        }
        self.next
    }

    /// The result of a job, if it is there.
    pub(super) fn take(&self, job: Job) -> Option<Ran> {
        self.shared.desk().done.remove(&job)
    }

    /// The result will not be taken.
    pub(super) fn forget(&self, job: Job) {
        let mut desk = self.shared.desk();
        let before = desk.jobs.len();
        desk.jobs.retain(|j| j.0 != job);
        if desk.jobs.len() == before && desk.done.remove(&job).is_none() {
            desk.unwanted.insert(job);
        }
    }

    /// Whether the next result is to ring the bell; false when one is there already.
    pub(super) fn await_one(&self, jobs: &[Job]) -> bool {
        let mut desk = self.shared.desk();
        desk.is_awaited = !jobs.iter().any(|job| desk.done.contains_key(job));
        desk.is_awaited
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.desk().is_over = true;
        self.shared.posted.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of a page function has been printed by the thread.
            let _ = thread.join();
        }
    }
}

/// What `run` answers, or `fallback` where it panics: the page is answered either way, or its
/// session would wait for it for ever.
fn guarded(fallback: Ran, run: impl FnOnce() -> Ran) -> Ran {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(fallback)
}

fn work(shared: &Shared, bell: &UnixStream) {
    let mut desk = shared.desk();
    loop {
        if desk.is_over {
            return;
        }
        let Some((job, work)) = desk.jobs.pop_front() else {
            desk.idle += 1;
            desk = shared.posted.wait(desk).unwrap_or_else(PoisonError::into_inner);
            desk.idle -= 1;
            continue;
        };
        drop(desk);
        let ran = guarded(work.fallback(), || work.compute());
        desk = shared.desk();
        if !desk.unwanted.remove(&job) {
            desk.done.insert(job, ran);
        }
        if std::mem::take(&mut desk.is_awaited) {
            // A full pipe has rung already.
            let _ = (&mut &*bell).write(&[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_panics_is_answered_by_its_page() {
        let ran = |instructions| {
            let mut ran = Ran::dropped();
            ran.instructions = instructions;
            ran
        };
        assert_eq!(guarded(ran(7), || panic!("a page function fails")).instructions, 7);
        assert_eq!(guarded(ran(7), || ran(9)).instructions, 9);
    }
}
