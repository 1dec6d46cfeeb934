//! Sections and barriers of a job beside MPI's own, in the same processes and in turn.
//!
//! A section of the job is `enter`, a guard that adds one to a word, `leave`; lock and word are at
//! rank 0, and the last rank makes it while the others wait at a barrier. MPI's is an exclusive
//! lock of a window of rank 0, get, put, unlock. Both sides count, and the counts are compared.

use std::time::Instant;

use littoral_base::units::NodeId;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job, SharedSlice};
use littoral_dsm::runtime::{Config, OnLoss};
use littoral_dsm::{Error, Kind, Result};

use crate::{World, failed, raw, run_in};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A section of a lock at another rank.
    Section,
    /// A barrier of all ranks.
    Barrier,
}

/// Nanoseconds an operation of each side, a batch each, in turn.
#[derive(Clone, Debug, Default)]
pub struct Took {
    /// The job's.
    pub ours: Vec<f64>,
    /// MPI's.
    pub theirs: Vec<f64>,
}

fn batch_of(batch: usize, mut operation: impl FnMut() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    (0..batch).try_for_each(|_| operation())?;
    Ok(begun.elapsed().as_nanos() as f64 / batch as f64)
}

fn add_one(job: &mut Job, word: SharedSlice<u64>) -> Result<()> {
    let section = job.enter(LockId(0))?;
    section.write(word)?[0] += 1;
    section.leave()
}

struct Sides<'w> {
    world: &'w World,
    operation: Operation,
    word: SharedSlice<u64>,
    batch: usize,
}

impl Sides<'_> {
    /// Whether this rank makes the operation; of a section the others wait for its end.
    fn acts(&self) -> bool {
        self.operation == Operation::Barrier || self.world.me.0 + 1 == self.world.ranks
    }

    fn ours(&self, job: &mut Job) -> Result<f64> {
        let took = match self.operation {
            Operation::Section if !self.acts() => 0.0,
            Operation::Section => batch_of(self.batch, || add_one(job, self.word))?,
            Operation::Barrier => batch_of(self.batch, || job.barrier())?,
        };
        job.barrier().map(|()| took)
    }

    fn theirs(&self) -> Result<f64> {
        let make = |call: fn() -> std::result::Result<(), raw::Failed>| {
            self.world.calls.make(call).map_err(failed("an operation of its own"))
        };
        let took = match self.operation {
            Operation::Section if !self.acts() => 0.0,
            Operation::Section => batch_of(self.batch, || make(raw::section))?,
            Operation::Barrier => batch_of(self.batch, || make(raw::barrier))?,
        };
        make(raw::barrier).map(|()| took)
    }

    /// Batches of both sides in turn, after one of each that is not counted.
    fn all(&self, job: &mut Job, batches: usize) -> Result<Took> {
        let mut took = Took::default();
        for n in 0..=batches {
            let (ours, theirs) = (self.ours(job)?, self.theirs()?);
            if n > 0 && self.acts() {
                took.ours.push(ours);
                took.theirs.push(theirs);
            }
        }
        Ok(took)
    }

    fn check(&self, job: &mut Job, batches: usize) -> Result<()> {
        let phase = job.phase()?;
        let found = phase.read(self.word)?[0];
        phase.end()?;
        let due = if self.operation == Operation::Section { (batches + 1) * self.batch } else { 0 };
        let theirs = self.world.calls.make(raw::word);
        let is_theirs_wrong = self.world.me == NodeId(0) && theirs != due as i64;
        if found != due as u64 || is_theirs_wrong {
            let what = format!("{due} sections: the job counts {found}, MPI's window {theirs}");
            return Err(Error::new(Kind::Protocol, what));
        }
        Ok(())
    }
}

/// Measures an operation in `batches` batches; on the rank that times it (the last for sections,
/// rank 0 for barriers) what each took.
///
/// # Errors
/// As [`super::run`]; `Kind::Protocol` when a side has lost a section.
pub fn measure(operation: Operation, batches: usize, batch: usize) -> Result<Option<Took>> {
    let world = World::join()?;
    let config = Config { on_loss: OnLoss::Exit, ..Config::default() };
    world.calls.make(raw::open_window).map_err(failed("opening a window"))?;
    let took = run_in(&world, config, |job| {
        let word = job.alloc_slice::<u64>(1, Homes::At(0))?;
        let sides = Sides { world: &world, operation, word, batch };
        let took = sides.all(job, batches)?;
        sides.check(job, batches)?;
        let timer = if operation == Operation::Section { world.ranks - 1 } else { 0 };
        Ok(Some(took).filter(|_| world.me.0 == timer))
    })?;
    world.finish()?;
    Ok(took)
}
