//! One face for the engine and its baselines, so that the same structures run on each.
//!
//! - A [`Job`] is a transaction written against `Access`; a [`Worker`] is one thread's handle.
//! - Every worker's `update` is durable when it returns, or its engine says that it is not.

use littoral_device::memory::Domain;
use littoral_stm::{Abort, Access, Pool, Result, Thread};

/// A transaction's body.
pub trait Job {
    /// What it answers.
    type Out;
    /// The body; run again after a conflict.
    ///
    /// # Errors
    /// Conflicts and errors of the engine.
    fn run<A: Access>(&mut self, tx: &mut A) -> std::result::Result<Self::Out, Abort>;
}

/// One thread's handle on an engine.
pub trait Worker: Send {
    /// Runs a transaction that may write.
    ///
    /// # Errors
    /// Errors of the engine; conflicts are retried.
    fn update<J: Job>(&mut self, job: &mut J) -> Result<J::Out>;
    /// Runs a transaction that only reads.
    ///
    /// # Errors
    /// As `update`.
    fn read<J: Job>(&mut self, job: &mut J) -> Result<J::Out>;
    /// Attempts given up for a conflict so far.
    fn aborts_count(&self) -> u64;
}

/// An engine that several threads work on.
pub trait Engine: Sync {
    /// Its handle.
    type Worker<'e>: Worker
    where
        Self: 'e;
    /// A handle for one thread.
    ///
    /// # Errors
    /// When there is no room for another.
    fn worker(&self) -> Result<Self::Worker<'_>>;
}

impl<D: Domain> Worker for Thread<'_, D> {
    #[inline]
    fn update<J: Job>(&mut self, job: &mut J) -> Result<J::Out> {
        self.atomically(|tx| job.run(tx))
    }
    #[inline]
    fn read<J: Job>(&mut self, job: &mut J) -> Result<J::Out> {
        self.read_only(|tx| job.run(tx))
    }
    fn aborts_count(&self) -> u64 {
        self.stats().aborts_count
    }
}

impl<D: Domain> Engine for Pool<D> {
    type Worker<'e>
        = Thread<'e, D>
    where
        Self: 'e;
    fn worker(&self) -> Result<Thread<'_, D>> {
        self.thread()
    }
}
