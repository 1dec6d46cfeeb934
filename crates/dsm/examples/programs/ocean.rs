//! A kernel like Ocean's: a multigrid solver of Poisson's equation on a square, V-cycles of damped
//! Jacobi sweeps, rows dealt in blocks on every level.
//!
//! Jacobi reads one array and writes another, so a sweep's answer does not depend on the number of
//! ranks and equals one process's to the last digit. SIZE is a power of two, STEPS V-cycles.

use std::ops::Range;

use littoral_dsm::Result;
use littoral_dsm::job::{Homes, Job, SharedSlice, block_of};

const SWEEPS: usize = 2;
const DAMPING: f64 = 0.8;
const COARSEST: usize = 4;

/// One grid level: `n` interior cells a side, border of one.
struct Level {
    n: usize,
    /// The guess, and where the next one is written.
    u: [SharedSlice<f64>; 2],
    right: SharedSlice<f64>,
    residual: SharedSlice<f64>,
}

impl Level {
    fn new(job: &mut Job, n: usize) -> Result<Level> {
        let mut grid = || job.alloc_slice::<f64>((n + 2) * (n + 2), Homes::Blocks);
        Ok(Level { n, u: [grid()?, grid()?], right: grid()?, residual: grid()? })
    }

    fn width(&self) -> usize {
        self.n + 2
    }

    fn rows(&self, job: &Job) -> Range<usize> {
        let mine = block_of(self.n, job.rank(), job.ranks());
        mine.start + 1..mine.end + 1
    }

    /// Runs `cell` over this rank's cells: `(what lies around in from, right side, cell written)`.
    fn sweep(
        &self,
        job: &mut Job,
        from: SharedSlice<f64>,
        to: SharedSlice<f64>,
        cell: impl Fn(&[f64], usize, usize, f64) -> f64,
    ) -> Result<()> {
        let (w, rows) = (self.width(), self.rows(job));
        let phase = job.phase()?;
        let before = phase.read(from.part((rows.start - 1) * w..(rows.end + 1) * w))?;
        let right = phase.read(self.right.part(rows.start * w..rows.end * w))?;
        let mut after = phase.write(to.part(rows.start * w..rows.end * w))?;
        for r in 0..rows.len() {
            for j in 1..=self.n {
                after[r * w + j] = cell(&before, (r + 1) * w + j, w, right[r * w + j]);
            }
        }
        drop((before, right, after));
        phase.work((8 * rows.len() * self.n) as u64);
        phase.end()
    }

    fn smooth(&mut self, job: &mut Job) -> Result<()> {
        for _ in 0..SWEEPS {
            self.sweep(job, self.u[0], self.u[1], |u, at, w, f| {
                let around = u[at - 1] + u[at + 1] + u[at - w] + u[at + w];
                (1.0 - DAMPING) * u[at] + DAMPING * (around + f) / 4.0
            })?;
            self.u.swap(0, 1);
        }
        Ok(())
    }

    fn find_residual(&self, job: &mut Job) -> Result<()> {
        self.sweep(job, self.u[0], self.residual, |u, at, w, f| {
            f + u[at - 1] + u[at + 1] + u[at - w] + u[at + w] - 4.0 * u[at]
        })
    }
}

/// The coarse level's right side from the fine level's residual, and a zero guess.
fn restrict(job: &mut Job, fine: &Level, coarse: &Level) -> Result<()> {
    let (w, cw, rows) = (fine.width(), coarse.width(), coarse.rows(job));
    let phase = job.phase()?;
    let from = phase.read(fine.residual.part((2 * rows.start - 1) * w..2 * rows.end * w))?;
    let mut right = phase.write(coarse.right.part(rows.start * cw..rows.end * cw))?;
    let mut guess = phase.write(coarse.u[0].part(rows.start * cw..rows.end * cw))?;
    guess.fill(0.0);
    for r in 0..rows.len() {
        for j in 1..=coarse.n {
            let (top, left) = (2 * r * w, 2 * j - 1);
            let pair = |row: usize| from[row + left] + from[row + left + 1];
            right[r * cw + j] = pair(top) + pair(top + w);
        }
    }
    drop((from, right, guess));
    phase.work((4 * rows.len() * coarse.n) as u64);
    phase.end()
}

/// Adds the coarse level's correction to the fine level's guess.
fn prolong(job: &mut Job, coarse: &Level, fine: &Level) -> Result<()> {
    let (w, cw, rows) = (fine.width(), coarse.width(), fine.rows(job));
    let phase = job.phase()?;
    let correction = phase.read(coarse.u[0])?;
    let mut guess = phase.write(fine.u[0].part(rows.start * w..rows.end * w))?;
    phase.work((rows.len() * fine.n) as u64);
    for (r, i) in rows.enumerate() {
        for j in 1..=fine.n {
            guess[r * w + j] += correction[i.div_ceil(2) * cw + j.div_ceil(2)];
        }
    }
    drop((correction, guess));
    phase.end()
}

fn cycle(job: &mut Job, levels: &mut [Level]) -> Result<()> {
    let Some((fine, rest)) = levels.split_first_mut() else { return Ok(()) };
    fine.smooth(job)?;
    if let Some(coarse) = rest.first() {
        fine.find_residual(job)?;
        restrict(job, fine, coarse)?;
        cycle(job, rest)?;
        prolong(job, &rest[0], fine)?;
    }
    fine.smooth(job)
}

pub(crate) fn run(job: &mut Job, n: usize, cycles: usize) -> Result<Vec<f64>> {
    assert!(n.is_power_of_two() && n >= COARSEST, "a power of two, at least {COARSEST}");
    let sizes = std::iter::successors(Some(n), |n| (*n > COARSEST).then_some(n / 2));
    let mut levels = sizes.map(|n| Level::new(job, n)).collect::<Result<Vec<_>>>()?;
    let (w, rows) = (levels[0].width(), levels[0].rows(job));
    let phase = job.phase()?;
    let mut right = phase.write(levels[0].right.part(rows.start * w..rows.end * w))?;
    for (r, i) in rows.enumerate() {
        for j in 1..=n {
            right[r * w + j] = ((i * 13 + j * 7) % 17) as f64 / 17.0 - 0.5;
        }
    }
    drop(right);
    phase.end()?;
    for _ in 0..cycles {
        cycle(job, &mut levels)?;
    }
    let phase = job.phase()?;
    let answer = phase.read(levels[0].u[0])?.to_vec();
    phase.end()?;
    Ok(answer)
}
