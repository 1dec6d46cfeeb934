//! On which thread calls of MPI are made, by the level of threads that MPI gives.
//!
//! | level | how |
//! |---|---|
//! | `MPI_THREAD_MULTIPLE`, `MPI_THREAD_SERIALIZED` | on the thread that wants it, one call at a time |
//! | `MPI_THREAD_FUNNELED` | on the thread that initialised MPI, which is the library's own |
//! | `MPI_THREAD_SINGLE` | not at all: a rank has two threads, so the job is refused |
//!
//! Invariants
//! - Two calls are never made at one time, and with `MPI_THREAD_FUNNELED` none on another thread
//!   than MPI's. Checked by `calls_are_made_one_at_a_time`.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use littoral_dsm::{Error, Kind, Result};

type Task = Box<dyn FnOnce() + Send>;

/// Makes calls; see the module's page.
pub(crate) struct Calls {
    /// The way to the thread that initialised MPI, which also ends it.
    tasks: Mutex<Option<Sender<Task>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    turn: Mutex<()>,
    funnels: bool,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn carry_out(tasks: &Receiver<Task>) {
    while let Ok(task) = tasks.recv() {
        task();
    }
}

impl Calls {
    /// Starts the thread that MPI is initialised on. Until [`Calls::on_any_thread`] every call is
    /// made there.
    ///
    /// # Errors
    /// `Kind::Environment` when there is no thread.
    pub(crate) fn start() -> Result<Calls> {
        let (sender, tasks) = channel();
        let thread = std::thread::Builder::new()
            .name("littoral-mpi".to_owned())
            .spawn(move || carry_out(&tasks))
            .map_err(|e| Error::with_source(Kind::Environment, "starting MPI's thread", e))?;
        let (tasks, thread) = (Mutex::new(Some(sender)), Mutex::new(Some(thread)));
        Ok(Calls { tasks, thread, turn: Mutex::default(), funnels: true })
    }

    /// Calls may be made on any thread from now on.
    pub(crate) fn on_any_thread(&mut self) {
        self.funnels = false;
    }

    /// Makes a call on the thread that may.
    pub(crate) fn make<T: Send + 'static>(&self, call: impl FnOnce() -> T + Send + 'static) -> T {
        if self.funnels {
            return self.make_there(call);
        }
        let _turn = locked(&self.turn);
        call()
    }

    /// Makes a call on the thread that initialised MPI.
    pub(crate) fn make_there<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let _turn = locked(&self.turn);
        let (answer, answered) = channel();
        let task = move || {
            // The thread that asked waits for it below.
            let _ = answer.send(call());
        };
        if let Some(tasks) = &*locked(&self.tasks) {
            let _ = tasks.send(Box::new(task));
        }
        answered.recv().expect("invariant: MPI's thread ends after the last call")
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        drop(locked(&self.tasks).take());
        if let Some(thread) = locked(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn all_alone(calls: &Calls, is_there: bool) {
        let busy = Arc::new(AtomicBool::new(false));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..200 {
                        let busy = Arc::clone(&busy);
                        let name = calls.make(move || {
                            assert!(!busy.swap(true, Ordering::SeqCst), "two calls at one time");
                            std::thread::yield_now();
                            busy.store(false, Ordering::SeqCst);
                            std::thread::current().name().map(str::to_owned)
                        });
                        assert_eq!(name.as_deref() == Some("littoral-mpi"), is_there);
                    }
                });
            }
        });
    }

    #[test]
    fn calls_are_made_one_at_a_time() {
        let mut calls = Calls::start().unwrap();
        all_alone(&calls, true);
        calls.on_any_thread();
        all_alone(&calls, false);
        let name = calls.make_there(|| std::thread::current().name().map(str::to_owned));
        assert_eq!(name.as_deref(), Some("littoral-mpi"));
    }
}
