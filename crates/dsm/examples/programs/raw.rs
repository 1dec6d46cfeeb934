//! Code 1 and SOR by raw pointers: accesses fault, and the faults fetch and note.
#![allow(unsafe_code)] // Reason: the raw side of the library is what is shown.

use littoral_dsm::Result;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job, block_of};

use super::sor::{border, half_sweep, half_sweep_work, width};

/// As `codes::code1`.
pub(crate) fn code1(job: &mut Job, _size: usize, steps: usize) -> Result<Vec<f64>> {
    let counter = job.alloc::<u64>()?;
    // SAFETY: the word is touched in sections of one lock only, on this thread.
    let p = unsafe { job.raw(counter.whole()) };
    for _ in 0..steps {
        job.lock(LockId(0))?;
        // SAFETY: the pointer is of a live job's word; no reference is made.
        unsafe { p.write_volatile(p.read_volatile() + 1) };
        job.work(2);
        job.unlock(LockId(0))?;
    }
    job.wait_for_all()?;
    // SAFETY: as above; the barrier has published the last section.
    let value = unsafe { p.read_volatile() };
    job.wait_for_all()?;
    Ok(vec![value as f64])
}

/// As `sor::run`.
pub(crate) fn sor(job: &mut Job, n: usize, steps: usize) -> Result<Vec<f64>> {
    assert!(n.is_multiple_of(2), "an even size");
    let w = width(n);
    let red = job.alloc_slice::<f64>((n + 2) * w, Homes::Blocks)?;
    let black = job.alloc_slice::<f64>((n + 2) * w, Homes::Blocks)?;
    // SAFETY: every element is written by one rank a phase and read by others in other phases only;
    // slices made below end before the next barrier.
    let grid = unsafe { [job.raw(red), job.raw(black)] };
    if job.rank() == 0 {
        for colour in grid {
            for k in 0..w {
                // SAFETY: row 0 of a grid of `n + 2` rows.
                unsafe { colour.add(k).write(border(k)) };
            }
        }
    }
    job.wait_for_all()?;
    let mine = block_of(n, job.rank(), job.ranks());
    let rows = mine.start + 1..mine.end + 1;
    for half in 0..2 * steps {
        let (colour, count) = (half % 2, rows.len());
        // SAFETY: the rows lie in the grid; this rank alone writes these rows of this colour in
        // this phase, and no rank writes the other colour; both end before the barrier.
        unsafe {
            let own = grid[colour].add(rows.start * w);
            let own = std::slice::from_raw_parts_mut(own, count * w);
            let other = grid[1 - colour].add((rows.start - 1) * w);
            let other = std::slice::from_raw_parts(other, (count + 2) * w);
            half_sweep(n, rows.clone(), colour, own, other);
        }
        job.work(half_sweep_work(n, count));
        job.wait_for_all()?;
    }
    let whole = (n + 2) * w;
    // SAFETY: no rank writes after the last barrier.
    let answer = grid.map(|g| unsafe { std::slice::from_raw_parts(g, whole) }).concat();
    job.wait_for_all()?;
    Ok(answer)
}
