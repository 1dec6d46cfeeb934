//! An Ocean-like stencil by the safe interface: five points, two arrays, rows in blocks, a global
//! sum of squared changes every tenth sweep.
//!
//! - [`take_part`]: the part of one rank, which a launched process of `stencil_claims` runs; that
//!   module compares it with the same stencil in MPI.
//! - [`ours`]: two ranks as threads with copies of pages, for [`safe_faults`] and the test.
//!
//! Ranks reach the grids by cells of the safe interface, without a pointer. A sweep's time includes
//! its exchange, its barrier and its share of the sums.
//!
//! Invariants
//! - Any number of ranks ends with the same points. Checked by
//!   `two_ranks_end_with_the_points_of_one_and_take_no_fault`.

use littoral_dsm::job::{Cell, CellMut, Homes, Job, SharedSlice, block_of};
use littoral_dsm::runtime::carrier::Shared;
use littoral_dsm::runtime::{Config, RankCounts};

use super::counts::shm_job;
use super::timed::{Spread, bind, in_batches};
use super::{Figures, words};
use littoral_bench::claims::Figure;

/// Points a side, border included: rows are whole pages of 4 KiB, and blocks whole rows.
pub(super) const SIDE: usize = 1024;
pub(super) const RANKS: u16 = 2;
const SUM_EVERY: usize = 10;

/// How long both sides run.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    pub(super) batches: usize,
    pub(super) sweeps: usize,
}

impl Length {
    /// Fewer batches.
    pub const QUICK: Length = Length { batches: 10, sweeps: 20 };
    /// What the figures in the book were measured with.
    pub const FULL: Length = Length { batches: 60, sweeps: 20 };
}

/// What a run came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) sweep: Spread,
    /// Of all points at the end.
    pub(super) sum: f64,
}

fn start_value(i: usize, j: usize) -> f64 {
    ((i * 7 + j * 13) % 101) as f64
}

/// Neighbours that are moved together.
const TOGETHER: usize = 4;

/// The new points of neighbours, from those of their own row, which has one more on either side,
/// and those above and below. The own row is loaded once: the point to the right of one is the one
/// to the left of the next but one.
#[inline(always)]
fn points<const N: usize, const WITH_SIDES: usize>(
    own: &[Cell<f64>; WITH_SIDES],
    above: &[Cell<f64>; N],
    below: &[Cell<f64>; N],
) -> [f64; N] {
    const { assert!(WITH_SIDES == N + 2) };
    let own = Cell::get_all(own);
    let [above, below] = [above, below].map(Cell::get_all);
    std::array::from_fn(|i| {
        let around = (own[i] + own[i + 2]) + (above[i] + below[i]);
        0.2 * own[i + 1] + 0.2 * around
    })
}

/// Changes points, `N` at a time, as far as there are so many; rows as of [`points`].
#[inline(always)]
fn change<const N: usize, const WITH_SIDES: usize>(
    [above, own, below]: [&[Cell<f64>]; 3],
    out: &[CellMut<f64>],
) {
    let own = own.array_windows::<WITH_SIDES>().step_by(N);
    let beside = above.as_chunks::<N>().0.iter().zip(below.as_chunks::<N>().0);
    for ((out, own), (above, below)) in out.as_chunks::<N>().0.iter().zip(own).zip(beside) {
        CellMut::set_all(out, points(own, above, below));
    }
}

/// One sweep: `before` has a row more than `after` on either side.
fn sweep(before: &[Cell<f64>], after: &[CellMut<f64>], width: usize) {
    let inner = width - 2;
    let rest = inner / TOGETHER * TOGETHER;
    for (r, out) in after.chunks_exact(width).enumerate() {
        let [above, own, below] = [0, 1, 2].map(|n| &before[(r + n) * width..][..width]);
        let (above, below, out) = (&above[1..][..inner], &below[1..][..inner], &out[1..][..inner]);
        change::<TOGETHER, { TOGETHER + 2 }>([above, own, below], out);
        change::<1, 3>([&above[rest..], &own[rest..], &below[rest..]], &out[rest..]);
    }
}

fn squared_change(before: &[Cell<f64>], after: &[CellMut<f64>], width: usize) -> f64 {
    let change = |(u, v): (&Cell<f64>, &CellMut<f64>)| u.get() - v.get();
    before[width..].iter().zip(after).map(change).map(|d| d * d).sum()
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
        let before = phase.cells(self.from.part((first - 1) * w..(end + 1) * w))?;
        let after = phase.cells_mut(self.to.part(first * w..end * w))?;
        sweep(&before, &after, w);
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

/// One rank's part of the stencil with the size of the claims: the spread over batches, the sum of
/// all points at the end.
pub(super) fn take_part(
    job: &mut Job,
    batches: usize,
    sweeps: usize,
) -> littoral_dsm::Result<(Spread, f64)> {
    let ran = rank(job, SIDE, Length { batches, sweeps })?;
    Ok((ran.sweep, ran.sum))
}

fn rank(job: &mut Job, side: usize, length: Length) -> littoral_dsm::Result<Ran> {
    let mut grids = Grids::new(job, side)?;
    (0..length.sweeps).try_for_each(|_| grids.step(job))?;
    let sweep = in_batches(length.batches, length.sweeps, || grids.step(job))?;
    Ok(Ran { sweep, sum: grids.sum(job)? })
}

/// Ranks with copies of pages, as threads; what rank 0 measured and what every rank counted.
pub(super) fn ours(side: usize, length: Length) -> Result<(Ran, Vec<RankCounts>), String> {
    let job = shm_job(RANKS, 64)?;
    std::thread::scope(|s| {
        let start = |(n, fabric): (usize, _)| {
            s.spawn(move || {
                bind(n);
                let config = Config { bytes_max: 1 << 26, ..Config::default() };
                let mut job = Job::start(Box::new(Shared(fabric)), config).map_err(words)?;
                let ran = rank(&mut job, side, length).map_err(words)?;
                Ok((ran, job.finish().map_err(words)?))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook version: one array, one process.
    fn alone(side: usize, sweeps: usize) -> f64 {
        let point = |at: usize| start_value(at / side, at % side);
        let mut u: Vec<f64> = (0..side * side).map(point).collect();
        for _ in 0..sweeps {
            let before = u.clone();
            for at in side..(side - 1) * side {
                if (1..side - 1).contains(&(at % side)) {
                    let sides = before[at - 1] + before[at + 1];
                    let around = sides + (before[at - side] + before[at + side]);
                    u[at] = 0.2 * before[at] + 0.2 * around;
                }
            }
        }
        u.iter().sum()
    }

    #[test]
    fn two_ranks_end_with_the_points_of_one_and_take_no_fault() {
        let length = Length { batches: 1, sweeps: 15 };
        // Inner points of a row that go into vectors with two over, one over and none.
        for side in [64, 67, 66] {
            let (ran, counts) = ours(side, length).unwrap();
            let alone = alone(side, 30);
            assert!((ran.sum - alone).abs() < 1e-9 * alone, "{side}: {} and {alone}", ran.sum);
            assert!(counts.iter().all(|c| c.memory.faults == 0), "{counts:?}");
            let fetched = counts.iter().all(|c| c.protocol.misses > 0);
            assert!(fetched, "borders are fetched: {counts:?}");
        }
    }
}
