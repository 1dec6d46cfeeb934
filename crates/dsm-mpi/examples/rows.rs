//! `mpirun -n 4 rows [SIZE [ROUNDS]]`: ranks smooth a row of numbers in rounds and count what they
//! did under a lock; rank 0 does the same alone and compares. Exit code 0 when both agree.

#![allow(clippy::print_stdout, clippy::print_stderr)] // Reason: a program for a terminal.

use std::process::ExitCode;

use littoral_dsm::Result;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job};

fn begin(at: usize) -> u64 {
    at as u64 * 2_654_435_761 % 1_000_003
}

fn smooth(left: u64, here: u64, right: u64) -> u64 {
    (left + 2 * here + right) / 4 + 1
}

/// The numbers after the rounds, and how many were computed.
fn together(job: &mut Job, size: usize, rounds: usize) -> Result<(Vec<u64>, u64)> {
    let mut from = job.alloc_slice::<u64>(size, Homes::Blocks)?;
    let mut to = job.alloc_slice::<u64>(size, Homes::Blocks)?;
    let count = job.alloc::<u64>()?;
    let mine = littoral_dsm::job::block_of(size, job.rank(), job.ranks());
    let phase = job.phase()?;
    let mut own = phase.split_mut(from)?;
    own.iter_mut().zip(mine.clone()).for_each(|(v, at)| *v = begin(at));
    drop(own);
    phase.end()?;
    for _ in 0..rounds {
        let phase = job.phase()?;
        // The whole row travels, so messages are as long as they get.
        let before = phase.read(from)?;
        let mut after = phase.split_mut(to)?;
        for (v, at) in after.iter_mut().zip(mine.clone()) {
            *v = smooth(before[at.saturating_sub(1)], before[at], before[(at + 1).min(size - 1)]);
        }
        drop((before, after));
        phase.end()?;
        std::mem::swap(&mut from, &mut to);
        let section = job.enter(LockId(7))?;
        section.write(count.whole())?[0] += mine.len() as u64;
        section.leave()?;
    }
    job.barrier()?;
    let phase = job.phase()?;
    let found = (phase.read(from)?.to_vec(), phase.read(count.whole())?[0]);
    phase.end()?;
    Ok(found)
}

fn alone(size: usize, rounds: usize) -> Vec<u64> {
    let mut row: Vec<u64> = (0..size).map(begin).collect();
    for _ in 0..rounds {
        let at = |n: usize| row[n.min(size - 1)];
        row = (0..size).map(|n| smooth(row[n.saturating_sub(1)], row[n], at(n + 1))).collect();
    }
    row
}

fn main() -> ExitCode {
    let number = |n, otherwise| {
        std::env::args().nth(n).map_or(Some(otherwise), |t: String| t.parse::<usize>().ok())
    };
    let (Some(size), Some(rounds)) = (number(1, 100_000), number(2, 10)) else {
        eprintln!("rows [SIZE [ROUNDS]]");
        return ExitCode::from(2);
    };
    let done = littoral_dsm_mpi::run(|job| {
        let (row, count) = together(job, size, rounds)?;
        Ok((job.rank(), job.ranks(), row, count))
    });
    match done {
        Ok((rank, ranks, row, count)) => {
            let agrees = row == alone(size, rounds) && count == (size * rounds) as u64;
            let verdict = if agrees { "agrees with one process" } else { "DIFFERS" };
            if rank == 0 || !agrees {
                println!("rows on {ranks} ranks: rank {rank} {verdict}");
            }
            ExitCode::from(u8::from(!agrees))
        }
        Err(e) => {
            eprintln!("rows: {e}");
            ExitCode::from(e.class().exit_code())
        }
    }
}
