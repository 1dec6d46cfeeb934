//! The stencil of launched ranks: beside the same in MPI, and on lines of a pool.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use littoral_bench::claims::Figure;
use littoral_bench::repro::Options;
use littoral_device::memory::{Domain as _, LINE_BYTES};
use littoral_device::pmem::FlushFence;
use littoral_dsm::launch::Fabric;

use super::beside::{in_turn, ratio, runs, start};
use super::launched::{Operation, Seen, Work};
use super::openmpi::Mpi;
use super::stencil::{Length, RANKS, SIDE};
use super::timed::{Spread, bind, in_batches};
use super::{Figures, words};

const SOURCE: &str = include_str!("mpi_stencil.c");

/// `dsm.stencil.vs_mpi`: launched ranks that share the grids in place.
///
/// # Errors
/// When Open MPI is missing or fails, or the two sides end with different points.
pub fn beside_mpi(options: &Options, length: Length) -> Figures {
    let mpi = Mpi::build(&options.peers, &options.scratch, "mpi_stencil", SOURCE)?;
    let arguments = [SIDE, length.sweeps, length.batches].map(|n| n.to_string());
    let points = Cell::new(0.0);
    let ours = || {
        let seen = launched(options, Fabric::Shm, length)?;
        points.set(seen.answer);
        Ok(seen.median_ns)
    };
    let theirs = || {
        let (spread, rest) = mpi.run(usize::from(RANKS), "core", &arguments)?;
        let [sum, ..] = rest[..] else { return Err("mpi_stencil printed no sum".into()) };
        must_agree(points.get(), sum)?;
        Ok(spread.median_ns)
    };
    let runs = runs(options);
    let figure = ratio("sweep with equal points", runs, &in_turn(runs, ours, theirs)?);
    Ok(vec![("dsm.stencil.vs_mpi".into(), figure)])
}

fn launched(options: &Options, fabric: Fabric, length: Length) -> Result<Seen, String> {
    let work =
        Work { operation: Operation::Stencil, batches: length.batches, batch: length.sweeps };
    let seen = start(options).run(fabric, RANKS, work)?;
    seen.first().copied().ok_or_else(|| "a job without ranks".to_owned())
}

/// Refuses sums that differ. One that is no finite number agrees with nothing.
fn must_agree(ours: f64, theirs: f64) -> Result<(), String> {
    if theirs.is_finite() && (ours - theirs).abs() <= 1e-12 * theirs.abs() {
        return Ok(());
    }
    Err(format!("the points sum to {ours} here and to {theirs} there"))
}

/// `dsm.stencil.pool`: launched ranks on the lines of a pool, over writing back and fencing the
/// lines that a rank writes in a sweep, by as many threads and nothing else.
///
/// # Errors
/// When a job fails, or ends with other points than ranks with copies of pages.
pub fn on_a_pool(options: &Options) -> Figures {
    let length = Length { batches: 5, sweeps: 2 };
    let ours = launched(options, Fabric::Pool, length)?;
    must_agree(ours.answer, super::stencil::ours(SIDE, length)?.0.sum)?;
    let alone = write_backs(length)?;
    let note = format!(
        "medians: a sweep {:.2} ms, the write-backs and the fence of its lines alone {:.2} ms",
        ours.median_ns / 1e6,
        alone.median_ns / 1e6
    );
    let figure = Figure::new(ours.median_ns / alone.median_ns, note);
    Ok(vec![("dsm.stencil.pool".into(), figure)])
}

/// Stores to a block's lines, writes them back and fences, on every rank at the same time.
fn write_backs(length: Length) -> Result<Spread, String> {
    let bytes = SIDE * SIDE * 8 / usize::from(RANKS);
    let memory = FlushFence::anonymous(bytes * usize::from(RANKS)).map_err(words)?;
    let pass = |rank: usize, value: u64| {
        let block = rank * bytes..(rank + 1) * bytes;
        block.clone().step_by(LINE_BYTES).for_each(|at| memory.store(at, value, Ordering::Relaxed));
        memory.write_back(block.start, block.len());
        memory.fence().map_err(words)
    };
    let rank = |rank: usize| {
        bind(rank);
        let mut value = 0;
        in_batches(length.batches * 4, 1, || {
            value += 1;
            pass(rank, value)
        })
    };
    std::thread::scope(|s| {
        let rank = &rank;
        let all: Vec<_> = (0..usize::from(RANKS)).map(|n| s.spawn(move || rank(n))).collect();
        let mut ended =
            all.into_iter().map(|t| t.join().map_err(|_| "a rank panicked".to_owned())?);
        let first = ended.next().ok_or_else(|| "no rank".to_owned())?;
        ended.try_for_each(|r: Result<Spread, String>| r.map(drop))?;
        first
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_sums_agree() {
        assert!(must_agree(1e9, 1e9).is_ok() && must_agree(-1e9, -1e9 - 1e-6).is_ok());
        for (ours, theirs) in [
            (1.0, 1.1),
            (f64::NAN, 1.0),
            (1.0, f64::NAN),
            (f64::NAN, f64::NAN),
            (1.0, f64::INFINITY),
            (f64::INFINITY, f64::INFINITY),
            (1.0, 0.0),
        ] {
            assert!(must_agree(ours, theirs).is_err(), "{ours} and {theirs}");
        }
    }
}
