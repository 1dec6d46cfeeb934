//! The paper's two codes, and ranks that have no processor of their own.
//!
//! In coherent memory the ranks are launched processes and the operations are `Job`'s
//! ([`launched`](super::launched)). Over TCP and the pool the lock manager is measured alone
//! ([`timed`]): there a section of `Job` has claims of its own.

use littoral_bench::claims::Figure;
use littoral_dsm::launch::Fabric;

use super::Figures;
use super::launched::{Operation, Start, Work, contend};
use super::timed::{self, Effort, Spread};

/// An operation of a job in shared memory, as its slowest rank saw it.
fn in_memory(
    start: &Start,
    ranks: u16,
    operation: Operation,
    effort: Effort,
) -> Result<Spread, String> {
    let (batches, batch) = effort.counts();
    let seen = start.run(Fabric::Shm, ranks, Work { operation, batches, batch })?;
    let slowest = seen.iter().max_by(|a, b| a.median_ns.total_cmp(&b.median_ns));
    let slowest = slowest.ok_or("a job without ranks")?;
    Ok(Spread { p10_ns: slowest.p10_ns, median_ns: slowest.median_ns })
}

/// A barrier of `ranks` ranks in shared memory.
///
/// # Errors
/// When the job fails.
pub fn barrier(start: &Start, ranks: u16, effort: Effort) -> Result<Spread, String> {
    in_memory(start, ranks, Operation::Barrier, effort)
}

/// `dsm.code1.*` and `dsm.code2.*`.
///
/// # Errors
/// When a job fails, or a lock operation.
pub fn codes(start: &Start, effort: Effort) -> Figures {
    let shm = in_memory(start, 2, Operation::Section, effort)?;
    let pool = timed::code1_pool(effort)?;
    let (tcp, round) = timed::code1_tcp(effort)?;
    let trips = tcp.p10_ns / round.p10_ns;
    let shm2 = in_memory(start, 2, Operation::Code2, effort)?;
    let tcp2 = timed::code2_tcp(effort.slower(20))?;
    let pool2 = timed::code2_pool(effort.slower(20))?;
    let pool_note = "; clwb and fences of this machine, whose caches are coherent: invalidation is \
        free here; the agent has the other processor";
    let micros =
        |s: &Spread, note: &str| Figure::new(s.p10_ns / 1000.0, format!("{}{note}", s.note()));
    let trips_note = format!(
        "section {:.1} us, round trip {:.1} us, medians {:.1} and {:.1} us, loopback",
        tcp.p10_ns / 1000.0,
        round.p10_ns / 1000.0,
        tcp.median_ns / 1000.0,
        round.median_ns / 1000.0
    );
    let agent = "; 2 ranks and the agent's thread on the same processors";
    Ok(vec![
        ("dsm.code1.shm".into(), micros(&shm, "; a section of `Job`, 2 processes")),
        ("dsm.code1.pool".into(), micros(&pool, pool_note)),
        ("dsm.code1.tcp".into(), Figure::new(trips, trips_note)),
        ("dsm.code2.shm".into(), micros(&shm2, "; phases of `Job`, 2 processes")),
        ("dsm.code2.pool".into(), micros(&pool2, agent)),
        ("dsm.code2.tcp".into(), micros(&tcp2, "; 2 ranks, loopback")),
    ])
}

/// `dsm.oversubscribed.barrier` and `.lock`: two ranks a processor. Also the barrier's spread.
///
/// # Errors
/// As [`codes`].
pub fn oversubscribed(
    start: &Start,
    effort: Effort,
) -> Result<(Vec<(String, Figure)>, Spread), String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u16;
    let ranks = 2 * cores;
    let slow = effort.slower(10);
    let wake = timed::sleep_wake(slow)?;
    let barrier = barrier(start, ranks, slow)?;
    let section = contend(start, Fabric::Shm, ranks)?;
    let per_core = f64::from(ranks) / f64::from(cores);
    let figure = |ns: f64, what: &str| {
        let note = format!(
            "{what} {:.2} us, sleep and wake {:.2} us (medians); {ranks} processes on {cores} \
             processors",
            ns / 1000.0,
            wake.median_ns / 1000.0
        );
        Figure::new(ns / (per_core * wake.median_ns), note)
    };
    let lock = format!("contended section (fairness {:.2})", section.fairness);
    let figures = vec![
        ("dsm.oversubscribed.barrier".to_owned(), figure(barrier.median_ns, "barrier")),
        ("dsm.oversubscribed.lock".to_owned(), figure(section.section_ns, &lock)),
    ];
    Ok((figures, barrier))
}
