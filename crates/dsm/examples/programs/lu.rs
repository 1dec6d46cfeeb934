//! LU factorisation of a dense, diagonally dominant matrix in blocks, without pivoting, after the
//! SPLASH kernel: a block's owner computes it, a barrier after each of the three parts of a step.
//!
//! STEPS is the block size. Blocks are stored one after another, so that a block is one slice.
//! Rank 0 multiplies the factors again and compares with the matrix.

use littoral_dsm::Result;
use littoral_dsm::job::{Homes, Job, Phase, SharedSlice};

struct Blocks {
    data: SharedSlice<f64>,
    b: usize,
    count: usize,
}

impl Blocks {
    fn at(&self, i: usize, j: usize) -> SharedSlice<f64> {
        let start = (i * self.count + j) * self.b * self.b;
        self.data.part(start..start + self.b * self.b)
    }

    /// Operations of a product of two blocks.
    fn block_work(&self) -> u64 {
        2 * (self.b as u64).pow(3)
    }

    fn is_mine(&self, phase: &Phase<'_>, i: usize, j: usize) -> bool {
        (i * self.count + j) % usize::from(phase.ranks()) == usize::from(phase.rank())
    }
}

fn element(i: usize, j: usize, n: usize) -> f64 {
    let noise = ((i * 31 + j * 17) % 101) as f64 / 101.0;
    if i == j { n as f64 + noise } else { noise }
}

fn factor(a: &mut [f64], b: usize) {
    for k in 0..b {
        for i in k + 1..b {
            a[i * b + k] /= a[k * b + k];
            for j in k + 1..b {
                a[i * b + j] -= a[i * b + k] * a[k * b + j];
            }
        }
    }
}

/// Row block right of the diagonal: solves with the unit lower factor.
fn solve_row(a: &mut [f64], diagonal: &[f64], b: usize) {
    for k in 0..b {
        for i in k + 1..b {
            for j in 0..b {
                a[i * b + j] -= diagonal[i * b + k] * a[k * b + j];
            }
        }
    }
}

/// Column block below the diagonal: solves with the upper factor.
fn solve_column(a: &mut [f64], diagonal: &[f64], b: usize) {
    for k in 0..b {
        for i in 0..b {
            a[i * b + k] /= diagonal[k * b + k];
            for j in k + 1..b {
                a[i * b + j] -= a[i * b + k] * diagonal[k * b + j];
            }
        }
    }
}

fn subtract_product(a: &mut [f64], left: &[f64], right: &[f64], b: usize) {
    for i in 0..b {
        for k in 0..b {
            for j in 0..b {
                a[i * b + j] -= left[i * b + k] * right[k * b + j];
            }
        }
    }
}

fn fill(job: &mut Job, m: &Blocks, n: usize) -> Result<()> {
    let phase = job.phase()?;
    for i in 0..m.count {
        for j in (0..m.count).filter(|j| m.is_mine(&phase, i, *j)) {
            let mut block = phase.write(m.at(i, j))?;
            for (at, cell) in block.iter_mut().enumerate() {
                *cell = element(i * m.b + at / m.b, j * m.b + at % m.b, n);
            }
        }
    }
    phase.end()
}

fn step(job: &mut Job, m: &Blocks, k: usize) -> Result<()> {
    let phase = job.phase()?;
    if m.is_mine(&phase, k, k) {
        factor(&mut phase.write(m.at(k, k))?, m.b);
        phase.work(m.block_work() / 3);
    }
    phase.end()?;
    let phase = job.phase()?;
    for i in k + 1..m.count {
        if m.is_mine(&phase, k, i) {
            solve_row(&mut phase.write(m.at(k, i))?, &phase.read(m.at(k, k))?, m.b);
            phase.work(m.block_work() / 2);
        }
        if m.is_mine(&phase, i, k) {
            solve_column(&mut phase.write(m.at(i, k))?, &phase.read(m.at(k, k))?, m.b);
            phase.work(m.block_work() / 2);
        }
    }
    phase.end()?;
    let phase = job.phase()?;
    for i in k + 1..m.count {
        for j in (k + 1..m.count).filter(|j| m.is_mine(&phase, i, *j)) {
            let (left, right) = (phase.read(m.at(i, k))?, phase.read(m.at(k, j))?);
            subtract_product(&mut phase.write(m.at(i, j))?, &left, &right, m.b);
            phase.work(m.block_work());
        }
    }
    phase.end()
}

pub(crate) fn run(job: &mut Job, n: usize, b: usize) -> Result<Vec<f64>> {
    assert!(b > 0 && n.is_multiple_of(b), "whole blocks");
    let data = job.alloc_slice::<f64>(n * n, Homes::Cyclic)?;
    let m = Blocks { data, b, count: n / b };
    fill(job, &m, n)?;
    (0..m.count).try_for_each(|k| step(job, &m, k))?;
    let phase = job.phase()?;
    let answer = phase.read(m.data)?.to_vec();
    phase.end()?;
    assert!(residual(&answer, n, &m) < 1e-9, "the factors multiply to the matrix");
    Ok(answer)
}

fn residual(factors: &[f64], n: usize, m: &Blocks) -> f64 {
    let at = |i: usize, j: usize| {
        let block = (i / m.b * m.count + j / m.b) * m.b * m.b;
        factors[block + i % m.b * m.b + j % m.b]
    };
    let mut worst: f64 = 0.0;
    for i in (0..n).step_by(7) {
        for j in (0..n).step_by(5) {
            let upper = |k: usize| if k == i { 1.0 } else { at(i, k) };
            let product: f64 = (0..=i.min(j)).map(|k| upper(k) * at(k, j)).sum();
            worst = worst.max((product - element(i, j, n)).abs() / n as f64);
        }
    }
    worst
}
