//! Long work: without the interpreter's lock, with progress, ended by Ctrl-C.
//!
//! The work runs in a thread of its own. The calling thread waits, and every [`TICK`] it hands
//! progress to Python and asks whether a signal has come.
//!
//! Invariants
//! - A signal handler that raises ends the work: its flag is set, and the exception is raised once
//!   the work has returned. A progress function that raises does the same. Checked by
//!   `test_progress_is_called_and_its_exception_ends_the_work`,
//!   `test_ctrl_c_ends_a_kernel_and_other_threads_run_meanwhile`.
//!
//! The thread that works touches nothing of the interpreter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use littoral::base::error::{Category, Error};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::raised;

/// How often the calling thread looks for signals.
const TICK: Duration = Duration::from_millis(50);

/// What long work shares with the thread that waits for it.
#[derive(Clone, Default)]
pub(crate) struct Job {
    /// Set when the work is to end.
    pub(crate) interrupt: Arc<AtomicBool>,
    latest: Arc<Mutex<Option<(String, u64, u64)>>>,
}

impl Job {
    /// Notes how far the work is; the total is 0 when unknown.
    pub(crate) fn progress(&self, stage: &str, done: u64, total: u64) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((stage.to_lowercase(), done, total));
    }
}

/// Runs `work`; `progress` is a Python function of stage, done and total.
pub(crate) fn long<T: Send, K: Category>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Job) -> Result<T, Error<K>> + Send,
) -> PyResult<T> {
    let job = Job::default();
    let progress = progress.map(|p| p.clone().unbind());
    let ended = py.detach(|| {
        std::thread::scope(|scope| {
            let (send, receive) = channel();
            let theirs = &job;
            let working = scope.spawn(move || send.send(work(theirs)));
            let mut refused = None;
            let ended = loop {
                match receive.recv_timeout(TICK) {
                    Ok(done) => break Some(done),
                    Err(RecvTimeoutError::Disconnected) => break None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let asked = Python::attach(|py| ask(py, &job, progress.as_ref()));
                if let Err(e) = asked {
                    job.interrupt.store(true, Ordering::Relaxed);
                    refused.get_or_insert(e);
                }
            };
            // A panic that is not taken here would be passed on by the scope.
            let _ = working.join();
            (ended, refused)
        })
    });
    match ended {
        (_, Some(refused)) => Err(refused),
        (Some(Ok(done)), None) => Ok(done),
        (Some(Err(e)), None) => Err(raised(py, &e)),
        (None, None) => Err(PyRuntimeError::new_err("the work panicked; please report this")),
    }
}

fn ask(py: Python<'_>, job: &Job, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    let latest = job.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Some(progress), Some(latest)) = (progress, latest) {
        progress.call1(py, latest)?;
    }
    Ok(())
}
