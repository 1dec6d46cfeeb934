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
    /// Returns when work that the engine put off is done: a run pays for what it caused.
    fn settle(&self) {}
}

/// What a baseline does after its `losses`th conflict in a row.
pub(super) fn back_off(losses: u32) {
    if losses > 6 {
        return std::thread::yield_now();
    }
    (0..4u32 << losses).for_each(|_| std::hint::spin_loop());
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

#[cfg(test)]
mod tests {
    use super::super::paper::{Paper, Recovery};
    use super::super::tl2::Tl2;
    use super::super::undo::Undo;
    use super::super::work::{self, Object};
    use super::*;
    use littoral_device::pmem::Dram;
    use littoral_stm::{Options, Ref};

    struct Add(Ref<Object>);
    impl Job for Add {
        type Out = u64;
        fn run<A: Access>(&mut self, tx: &mut A) -> std::result::Result<u64, Abort> {
            let Object { words: [a, b, c] } = tx.read(self.0)?;
            tx.write(self.0, &Object { words: [a + 1, b, c + 1] })?;
            Ok(a)
        }
    }

    fn loses_no_update<E: Engine>(engine: &E) {
        let object = work::objects(engine, 1).unwrap()[0];
        let each = |w: &mut E::Worker<'_>, _, _| w.update(&mut Add(object)).map(drop);
        let run = work::measure(engine, 2, 2_000, each).unwrap();
        assert_eq!(run.ops_count, 4_000);
        assert_eq!(engine.worker().unwrap().update(&mut Add(object)).unwrap(), 4_000);
    }

    #[test]
    fn no_engine_loses_an_update_of_two_threads() {
        let memory = || Dram::new(10 << 20);
        loses_no_update(&Pool::create(memory(), &Options::default()).unwrap());
        loses_no_update(&Undo::new(memory(), true));
        loses_no_update(&Tl2::redo(memory()));
        loses_no_update(&Tl2::replaying(memory(), memory()));
        loses_no_update(&Paper::new(memory(), Recovery::Addresses).unwrap());
        loses_no_update(&Paper::new(memory(), Recovery::Scan).unwrap());
    }
}
