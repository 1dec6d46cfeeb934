//! Red-black successive over-relaxation of a square grid: two half sweeps a step.
//!
//! The colours are arrays of their own, so that a half sweep reads one and writes the other and no
//! element is read and written in one phase. Cell `(i, j)` of colour `(i + j) % 2` is element `(i,
//! j / 2)` of its array. Rows are dealt in blocks, homes with them.

use std::ops::Range;

use littoral_dsm::Result;
use littoral_dsm::job::{Homes, Job, block_of};

pub(crate) const OMEGA: f64 = 1.25;

/// Elements of a row of one colour; the grid has a border of one cell.
pub(crate) fn width(n: usize) -> usize {
    n / 2 + 1
}

/// The border's value above row 1: a ramp, so that every column differs.
pub(crate) fn border(k: usize) -> f64 {
    1.0 + k as f64 / 16.0
}

/// Updates the cells of `colour` in `rows`: `mine` holds those rows, `other` the other colour's
/// from one row before to one row after.
pub(crate) fn half_sweep(
    n: usize,
    rows: Range<usize>,
    colour: usize,
    mine: &mut [f64],
    other: &[f64],
) {
    let w = width(n);
    for (r, i) in rows.enumerate() {
        let (above, rest) = other[r * w..].split_at(w);
        let (beside, below) = rest.split_at(w);
        let first = 1 + (i + 1 + colour) % 2;
        for j in (first..=n).step_by(2) {
            let k = j / 2;
            let around =
                above[k] + below[k] + beside[(j - 1) / 2] + beside[j.div_ceil(2).min(w - 1)];
            let cell = &mut mine[r * w + k];
            *cell += OMEGA * (around / 4.0 - *cell);
        }
    }
}

/// Operations of a half sweep of so many rows: seven a cell, half of the cells.
pub(crate) fn half_sweep_work(n: usize, rows: usize) -> u64 {
    (7 * rows * n / 2) as u64
}

pub(crate) fn run(job: &mut Job, n: usize, steps: usize) -> Result<Vec<f64>> {
    assert!(n.is_multiple_of(2), "an even size");
    let w = width(n);
    let grid = [(); 2].map(|()| job.alloc_slice::<f64>((n + 2) * w, Homes::Blocks));
    let [red, black] = grid;
    let grid = [red?, black?];
    let phase = job.phase()?;
    if phase.rank() == 0 {
        for colour in grid {
            let mut row = phase.write(colour.part(0..w))?;
            row.iter_mut().enumerate().for_each(|(k, cell)| *cell = border(k));
        }
    }
    phase.end()?;
    let mine = block_of(n, job.rank(), job.ranks());
    let rows = mine.start + 1..mine.end + 1;
    for half in 0..2 * steps {
        let colour = half % 2;
        let phase = job.phase()?;
        let mut own = phase.write(grid[colour].part(rows.start * w..rows.end * w))?;
        let other = phase.read(grid[1 - colour].part((rows.start - 1) * w..(rows.end + 1) * w))?;
        half_sweep(n, rows.clone(), colour, &mut own, &other);
        drop((own, other));
        phase.work(half_sweep_work(n, rows.len()));
        phase.end()?;
    }
    let phase = job.phase()?;
    let mut answer = phase.read(grid[0])?.to_vec();
    answer.extend_from_slice(&phase.read(grid[1])?);
    phase.end()?;
    Ok(answer)
}
