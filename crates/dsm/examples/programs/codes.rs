//! The two codes of paper 002: a counter under a lock, and a word that one writes and all read.
//!
//! Code 1 as printed starts before the zero has reached all ranks; here it starts with memory that
//! is zero by allocation. Code 2 mixes two interfaces and loops 100,001 times; here STEPS rounds.

use littoral_dsm::Result;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::Job;

/// `steps` times on every rank: enter, add one, leave.
pub(crate) fn code1(job: &mut Job, _size: usize, steps: usize) -> Result<Vec<f64>> {
    let counter = job.alloc::<u64>()?;
    for _ in 0..steps {
        let section = job.enter(LockId(0))?;
        section.write(counter.whole())?[0] += 1;
        section.work(2);
        section.leave()?;
    }
    job.barrier()?;
    let phase = job.phase()?;
    let value = phase.read(counter.whole())?[0];
    phase.end()?;
    Ok(vec![value as f64])
}

/// `steps` rounds: rank 0 writes, a barrier, all read, a barrier.
pub(crate) fn code2(job: &mut Job, _size: usize, steps: usize) -> Result<Vec<f64>> {
    let word = job.alloc::<u64>()?;
    let mut sum = 0;
    for round in 0..steps as u64 {
        let phase = job.phase()?;
        if phase.rank() == 0 {
            phase.write(word.whole())?[0] = round * round;
        }
        phase.end()?;
        let phase = job.phase()?;
        sum += phase.read(word.whole())?[0];
        phase.work(2);
        phase.end()?;
    }
    Ok(vec![sum as f64])
}
