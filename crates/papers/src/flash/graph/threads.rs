//! A kernel in DRAM with two threads beside the same with one.
//!
//! The two take turns, each thread pinned to a processor of its own; of each source the least time
//! counts. Two threads on one processor say nothing about the kernel, so nothing is measured unless
//! two processors are idle. Clock: wall, nothing modelled.

use std::fs;
use std::time::Duration;

use littoral_base::clock::WallClock;
use littoral_graph::format::file::GraphFile;
use littoral_graph::kernels::{Kernel, Options, pick_sources, run};
use littoral_graph::medium::Store;

use super::{KernelTime, SOURCE_SEED, SOURCES, failed};
use crate::flash::media::Outcome;
use littoral_bench::error::Result;

/// How long processors are watched before a measurement.
const WATCHED: Duration = Duration::from_millis(300);
/// A processor that idles for this share of the time counts as idle.
const IDLE_SHARE: f64 = 0.9;

/// A kernel with one thread and with two.
#[derive(Clone, Debug)]
pub struct Threads {
    /// One thread.
    pub one: KernelTime,
    /// Two threads.
    pub two: KernelTime,
}

impl Threads {
    /// Two threads over one.
    pub fn ratio(&self) -> f64 {
        self.two.total_ns() / self.one.total_ns()
    }
}

/// Measures `kernel` with one thread and with two in turn, `rounds` times each.
///
/// # Errors
/// `Kind::Environment` when the measurement cannot be made.
pub fn two_over_one(graph: &GraphFile, kernel: Kernel, rounds: usize) -> Result<Outcome<Threads>> {
    let idle = idle_processors();
    if idle < 2 {
        return Ok(Outcome::Skipped(format!("two idle processors; {idle} of them idle")));
    }
    let dram = Store::in_dram(graph).map_err(failed)?;
    let count = if kernel.spec().has_source { SOURCES } else { 0 };
    let sources = pick_sources(graph, count, SOURCE_SEED);
    let each = sources.len().max(1);
    let timed = |threads| {
        let sources = sources.clone();
        let options =
            Options { threads, pinned: true, trials: each, sources, ..Options::default() };
        let (report, _) = run(graph, &dram, kernel, &options, &WallClock::new()).map_err(failed)?;
        Ok(KernelTime::of(&report, each))
    };
    let mut found = Threads { one: timed(1)?, two: timed(2)? };
    for _ in 1..rounds {
        found = Threads { one: found.one.least(timed(1)?), two: found.two.least(timed(2)?) };
    }
    Ok(Outcome::Measured(found))
}

/// How many of the processors that this process may use are idle now.
fn idle_processors() -> usize {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return 0 };
    let stat = || fs::read_to_string("/proc/stat").unwrap_or_default();
    let before = stat();
    std::thread::sleep(WATCHED);
    let shares = idle_shares(&before, &stat());
    shares.iter().filter(|(cpu, share)| allowed.is_set(*cpu) && *share >= IDLE_SHARE).count()
}

/// The share of its time that each processor idled between two readings of `/proc/stat`.
fn idle_shares(before: &str, after: &str) -> Vec<(usize, f64)> {
    let earlier = processors(before);
    let later = processors(after).into_iter();
    let share = |(cpu, idle, total): (usize, u64, u64)| {
        let &(_, idle_before, total_before) = earlier.iter().find(|row| row.0 == cpu)?;
        let passed = total.checked_sub(total_before).filter(|&t| t > 0)?;
        Some((cpu, idle.saturating_sub(idle_before) as f64 / passed as f64))
    };
    later.filter_map(share).collect()
}

/// Number, idle time and whole time of each processor, in ticks.
fn processors(stat: &str) -> Vec<(usize, u64, u64)> {
    let row = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = fields.next()?.parse().ok()?;
        // User, nice, system, idle, waiting for input and output, interrupts, stolen; guests are
        // in the first two.
        let times: Vec<u64> = fields.take(8).map_while(|t| t.parse().ok()).collect();
        Some((cpu, times.get(3)? + times.get(4)?, times.iter().sum()))
    };
    stat.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_read_per_processor() {
        let before =
            "cpu  9 9 9 9 9 9 9 9\ncpu0 10 0 10 100 0 0 0 0 7\ncpu1 0 0 0 50 0 0 0 0\nintr 3\n";
        let after =
            "cpu  9 9 9 9 9 9 9 9\ncpu0 20 0 20 100 0 0 0 0 9\ncpu1 0 0 1 140 9 0 0 0\nintr 4\n";
        assert_eq!(idle_shares(before, after), [(0, 0.0), (1, 0.99)]);
        assert!(idle_shares(before, before).is_empty(), "no time has passed");
        assert!(idle_shares("", "nonsense").is_empty());
    }
}
