//! An Ocean-like stencil by the safe interface, beside the same in MPI: five points, two arrays,
//! rows in blocks, a global sum of squared changes every tenth sweep.
//!
//! Invariants
//! - Both sides move their data over shared memory, hold private copies of the other's border rows,
//!   run two ranks bound to a processor each, and must end with the same points.
//! - Ours is the safe interface: guards that phases lend, no pointer. Ranks are threads with a job,
//!   pages and a fabric handle each; the other side's are processes.
//! - A sweep's time includes its exchange, its barrier and its share of the sums.

use std::path::Path;
use std::time::Instant;

use littoral_dsm::job::{Homes, Job, SharedSlice, block_of};
use littoral_dsm::runtime::carrier::Shared;
use littoral_dsm::runtime::{Config, RankCounts};

use super::counts::shm_job;
use super::openmpi::Mpi;
use super::timed::{Spread, bind, spread};
use super::{Figures, words};
use littoral_bench::claims::Figure;
use littoral_bench::peers::Peers;

const SOURCE: &str = include_str!("mpi_stencil.c");
/// Points a side, border included: rows are whole pages of 4 KiB, and blocks whole rows.
const SIDE: usize = 1024;
const RANKS: u16 = 2;
const SUM_EVERY: usize = 10;

/// How long both sides run.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    batches: usize,
    sweeps: usize,
}

impl Length {
    /// Fewer batches.
    pub const QUICK: Length = Length { batches: 10, sweeps: 20 };
    /// What the figures in the book were measured with.
    pub const FULL: Length = Length { batches: 60, sweeps: 20 };
}

/// What a run came to.
#[derive(Clone, Copy, Debug)]
struct Ran {
    sweep: Spread,
    /// Of all points at the end.
    sum: f64,
}

fn start_value(i: usize, j: usize) -> f64 {
    ((i * 7 + j * 13) % 101) as f64
}

/// One sweep: `before` has a row more than `after` on either side.
fn sweep(before: &[f64], after: &mut [f64], width: usize) {
    for (r, out) in after.chunks_exact_mut(width).enumerate() {
        let row = |n: usize| &before[(r + n) * width..][..width];
        let (up, mid, down) = (row(0), row(1), row(2));
        let out = &mut out[..width];
        for j in 1..width - 1 {
            out[j] = 0.2 * mid[j] + 0.2 * ((mid[j - 1] + mid[j + 1]) + (up[j] + down[j]));
        }
    }
}

fn squared_change(before: &[f64], after: &[f64], width: usize) -> f64 {
    before[width..].iter().zip(after).map(|(u, v)| (u - v) * (u - v)).sum()
}

/// One rank's grids and how far it is.
struct Grids {
    side: usize,
    from: SharedSlice<f64>,
    to: SharedSlice<f64>,
    /// One a rank, on pages of their own.
    sums: Vec<SharedSlice<f64>>,
    swept: usize,
    /// The last global sum of squared changes.
    rest: f64,
}

impl Grids {
    fn new(job: &mut Job, side: usize) -> littoral_dsm::Result<Grids> {
        let mut grid = || job.alloc_slice::<f64>(side * side, Homes::Blocks);
        let (from, to) = (grid()?, grid()?);
        let ranks = job.ranks();
        let sum = |rank| job.alloc_slice::<f64>(1, Homes::At(rank));
        let sums = (0..ranks).map(sum).collect::<Result<Vec<_>, _>>()?;
        let phase = job.phase()?;
        let mine = block_of(side, phase.rank(), phase.ranks());
        for grid in [from, to] {
            let mut rows = phase.write(grid.part(mine.start * side..mine.end * side))?;
            for (at, point) in rows.iter_mut().enumerate() {
                *point = start_value(mine.start + at / side, at % side);
            }
        }
        phase.end()?;
        Ok(Grids { side, from, to, sums, swept: 0, rest: 1.0 })
    }

    fn step(&mut self, job: &mut Job) -> littoral_dsm::Result<()> {
        let w = self.side;
        self.swept += 1;
        let phase = job.phase()?;
        let mine = block_of(w, phase.rank(), phase.ranks());
        let (first, end) = (mine.start.max(1), mine.end.min(w - 1));
        let before = phase.read(self.from.part((first - 1) * w..(end + 1) * w))?;
        let mut after = phase.write(self.to.part(first * w..end * w))?;
        sweep(&before, &mut after, w);
        let summed = self.swept.is_multiple_of(SUM_EVERY);
        if summed {
            let mine = self.sums[usize::from(phase.rank())];
            phase.write(mine)?[0] = squared_change(&before, &after, w);
        }
        drop((before, after));
        phase.end()?;
        if summed {
            let phase = job.phase()?;
            let parts = self.sums.iter().map(|s| phase.read(*s).map(|sum| sum[0]));
            self.rest = parts.sum::<littoral_dsm::Result<f64>>()?;
        }
        std::mem::swap(&mut self.from, &mut self.to);
        Ok(())
    }

    fn sum(&self, job: &mut Job) -> littoral_dsm::Result<f64> {
        let phase = job.phase()?;
        let mut sum = 0.0;
        for rank in 0..phase.ranks() {
            let rows = block_of(self.side, rank, phase.ranks());
            let points =
                phase.read(self.from.part(rows.start * self.side..rows.end * self.side))?;
            sum += points.iter().sum::<f64>();
        }
        phase.end()?;
        Ok(sum)
    }
}

fn rank(mut job: Job, side: usize, length: Length) -> littoral_dsm::Result<(Ran, RankCounts)> {
    let mut grids = Grids::new(&mut job, side)?;
    for _ in 0..length.sweeps {
        grids.step(&mut job)?;
    }
    let mut samples = Vec::with_capacity(length.batches);
    for _ in 0..length.batches {
        let began = Instant::now();
        for _ in 0..length.sweeps {
            grids.step(&mut job)?;
        }
        samples.push(began.elapsed().as_nanos() as f64 / length.sweeps as f64);
    }
    let sum = grids.sum(&mut job)?;
    Ok((Ran { sweep: spread(samples), sum }, job.finish()?))
}

/// Our side; what rank 0 measured and what every rank counted.
fn ours(side: usize, length: Length) -> Result<(Ran, Vec<RankCounts>), String> {
    let job = shm_job(RANKS, 64)?;
    std::thread::scope(|s| {
        let start = |(n, fabric): (usize, _)| {
            s.spawn(move || {
                bind(n);
                let config = Config { bytes_max: 1 << 26, ..Config::default() };
                let job = Job::start(Box::new(Shared(fabric)), config).map_err(words)?;
                rank(job, side, length).map_err(words)
            })
        };
        let threads: Vec<_> = job.into_iter().enumerate().map(start).collect();
        let ended = threads.into_iter().map(|t| t.join().map_err(|_| "a rank panicked".to_owned()));
        let ended: Vec<_> = ended.map(|r| r?).collect::<Result<_, String>>()?;
        Ok((ended[0].0, ended.into_iter().map(|(_, counts)| counts).collect()))
    })
}

/// `dsm.stencil.safe_faults`: accesses that were a signal, all ranks, all sweeps.
///
/// # Errors
/// What a rank failed with.
pub fn safe_faults(length: Length) -> Figures {
    let (_, counts) = ours(SIDE, length)?;
    let sum = |what: fn(&RankCounts) -> u64| counts.iter().map(what).sum::<u64>();
    let faults = sum(|c| c.memory.faults);
    let note = format!(
        "{} sweeps of {SIDE} x {SIDE} points, two ranks; {} pages fetched by guards, {} calls that \
         change protection",
        (length.batches + 1) * length.sweeps,
        sum(|c| c.protocol.misses),
        sum(|c| c.memory.protection_calls)
    );
    Ok(vec![("dsm.stencil.safe_faults".into(), Figure::new(faults as f64, note))])
}

/// `dsm.stencil.vs_mpi`.
///
/// # Errors
/// When Open MPI is missing or fails, or the two sides end with different points.
pub fn beside_mpi(peers: &Peers, scratch: &Path, length: Length) -> Figures {
    let mpi = Mpi::build(peers, scratch, "mpi_stencil", SOURCE)?;
    let arguments = [SIDE, length.sweeps, length.batches].map(|n| n.to_string());
    let (theirs, rest) = mpi.run(usize::from(RANKS), "core", &arguments)?;
    let [sum, ..] = rest[..] else { return Err("mpi_stencil printed no sum".into()) };
    let (ours, _) = ours(SIDE, length)?;
    if ((ours.sum - sum) / sum).abs() > 1e-12 {
        return Err(format!("the points sum to {} here and to {sum} in MPI", ours.sum));
    }
    let note = format!(
        "medians of a sweep of {SIDE} x {SIDE} points: ours {:.0} us, Open MPI {:.0} us; tenth \
         percentiles {:.0} and {:.0} us; equal points",
        ours.sweep.median_ns / 1000.0,
        theirs.median_ns / 1000.0,
        ours.sweep.p10_ns / 1000.0,
        theirs.p10_ns / 1000.0
    );
    let figure = Figure::new(ours.sweep.median_ns / theirs.median_ns, note);
    Ok(vec![("dsm.stencil.vs_mpi".into(), figure)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook version: one array, one process.
    fn alone(side: usize, sweeps: usize) -> f64 {
        let point = |at: usize| start_value(at / side, at % side);
        let mut u: Vec<f64> = (0..side * side).map(point).collect();
        for _ in 0..sweeps {
            let before = u.clone();
            sweep(&before, &mut u[side..(side - 1) * side], side);
        }
        u.iter().sum()
    }

    #[test]
    fn two_ranks_end_with_the_points_of_one_and_take_no_fault() {
        let length = Length { batches: 1, sweeps: 15 };
        let (ran, counts) = ours(64, length).unwrap();
        let alone = alone(64, 30);
        assert!((ran.sum - alone).abs() < 1e-9 * alone, "{} and {alone}", ran.sum);
        assert!(counts.iter().all(|c| c.memory.faults == 0), "{counts:?}");
        assert!(counts.iter().all(|c| c.protocol.misses > 0), "borders are fetched: {counts:?}");
    }
}
