//! A kernel like Water: molecules that attract and repel each other, forces added up under a lock a
//! block of molecules. The order of the additions is that of the sections, so answers differ in
//! the last digits.

use littoral_dsm::Result;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job, SharedSlice, block_of};

const DIMENSIONS: usize = 3;
const DT: f64 = 1e-4;

fn start(i: usize) -> f64 {
    let (molecule, axis) = (i / DIMENSIONS, i % DIMENSIONS);
    let side = 5usize;
    let cell = molecule / side.pow(axis as u32) % side + if axis == 2 { molecule / 125 } else { 0 };
    cell as f64 * 1.1 + ((molecule * 7 + axis * 3) % 11) as f64 / 200.0
}

fn force(a: &[f64], b: &[f64]) -> [f64; DIMENSIONS] {
    let d: Vec<f64> = (0..DIMENSIONS).map(|k| a[k] - b[k]).collect();
    let square: f64 = d.iter().map(|x| x * x).sum::<f64>().max(0.01);
    let inverse = 1.0 / (square * square * square);
    let strength = (24.0 * inverse * (2.0 * inverse - 1.0) / square).clamp(-1e4, 1e4);
    std::array::from_fn(|k| strength * d[k])
}

/// Forces of the pairs whose first molecule is this rank's.
fn pair_forces(positions: &[f64], mine: std::ops::Range<usize>) -> Vec<f64> {
    let count = positions.len() / DIMENSIONS;
    let of = |i: usize| &positions[i * DIMENSIONS..(i + 1) * DIMENSIONS];
    let mut sum = vec![0.0; positions.len()];
    for i in mine {
        for j in i + 1..count {
            for (k, f) in force(of(i), of(j)).into_iter().enumerate() {
                sum[i * DIMENSIONS + k] += f;
                sum[j * DIMENSIONS + k] -= f;
            }
        }
    }
    sum
}

fn add_up(job: &mut Job, forces: SharedSlice<f64>, own: &[f64]) -> Result<()> {
    let ranks = job.ranks();
    let count = own.len() / DIMENSIONS;
    for turn in 0..ranks {
        // Each rank begins at another block, so that locks are rarely waited for.
        let block = (job.rank() + turn) % ranks;
        let range = block_of(count, block, ranks);
        let range = range.start * DIMENSIONS..range.end * DIMENSIONS;
        let section = job.enter(LockId(u32::from(block)))?;
        let mut part = section.write(forces.part(range.clone()))?;
        part.iter_mut().zip(&own[range]).for_each(|(f, o)| *f += o);
        drop(part);
        section.leave()?;
    }
    Ok(())
}

pub(crate) fn run(job: &mut Job, molecules: usize, steps: usize) -> Result<Vec<f64>> {
    let n = molecules * DIMENSIONS;
    let positions = job.alloc_slice::<f64>(n, Homes::Blocks)?;
    let speeds = job.alloc_slice::<f64>(n, Homes::Blocks)?;
    let forces = job.alloc_slice::<f64>(n, Homes::Blocks)?;
    let mine = block_of(molecules, job.rank(), job.ranks());
    let cells = mine.start * DIMENSIONS..mine.end * DIMENSIONS;
    let phase = job.phase()?;
    let mut place = phase.write(positions.part(cells.clone()))?;
    place.iter_mut().zip(cells.clone()).for_each(|(x, i)| *x = start(i));
    drop(place);
    phase.end()?;
    for _ in 0..steps {
        let phase = job.phase()?;
        let own = pair_forces(&phase.read(positions)?, mine.clone());
        let pairs: usize = mine.clone().map(|i| molecules - i - 1).sum();
        phase.work(30 * pairs as u64);
        phase.write(forces.part(cells.clone()))?.fill(0.0);
        phase.end()?;
        add_up(job, forces, &own)?;
        job.barrier()?;
        let phase = job.phase()?;
        let force = phase.read(forces.part(cells.clone()))?;
        let mut speed = phase.write(speeds.part(cells.clone()))?;
        let mut place = phase.write(positions.part(cells.clone()))?;
        for i in 0..force.len() {
            speed[i] += force[i] * DT;
            place[i] += speed[i] * DT;
        }
        phase.work(4 * force.len() as u64);
        drop((force, speed, place));
        phase.end()?;
    }
    let phase = job.phase()?;
    let answer = phase.read(positions)?.to_vec();
    phase.end()?;
    Ok(answer)
}
