//! What would this device buy us, on our data? A job on a grid of modelled devices, one sentence.
//!
//! - The job is what people run on a graph: a few searches from random vertices, PageRank,
//!   components. Every point runs all of it, on one core, on the paced device of that latency and
//!   read rate; nothing is interpolated or predicted.
//! - DRAM and all devices take turns trial by trial, on one and the same vertex state, so that
//!   neither a busy neighbour nor the place of the state in the caches favours one of them; the
//!   smallest of the repetitions counts for each search and kernel.
//! - What disturbs a run only adds to its time, and a device that is better in both respects cannot
//!   take longer: the sentence takes for each device the least time of it and of all that are no
//!   better. The table shows every device's own time.
//! - The model hands data out by pointer: the transfer costs the host nothing (`graph bfs --copy`
//!   shows the other bound).
//! - DRAM: vertex state and list addresses must fit what the user grants; edges are never cached,
//!   so a part of them that would fit too could only help.

use std::time::Duration;

use littoral_base::clock::{Clock as _, ClockKind, WallClock};
use littoral_base::units::{Bytes, PerSecond, Picos, Span};
use littoral_device::profile::Profile;
use littoral_graph::format::Direction;
use littoral_graph::format::file::GraphFile;
use littoral_graph::kernels::{
    Kernel, Options as RunOptions, PageRankOptions, RunReport, pick_sources, run_in_turn,
};
use littoral_graph::medium::{Medium, Store, Transfer};

use crate::error::{Error, Kind, Result};
use crate::report::study::{self, Memory, Point, Study};

/// A device is as good as DRAM when the job takes at most this many times as long.
const AS_GOOD: f64 = 1.10;
/// Searches of a job.
const SEARCHES: usize = 8;
/// The profile whose other figures (granule, link, longest read) every point keeps.
const BASE: &str = "xlfdd";
const SEED: u64 = 27_491_095;

/// What to try.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Read latencies.
    pub latency: Span<Picos>,
    /// Reads a second that one core is served.
    pub iops: Span<PerSecond>,
    /// DRAM that the user would grant.
    pub dram: Option<Bytes>,
    /// The study repeats itself until this much time has gone by (but at least twice), so that
    /// small graphs are measured often enough to mean something.
    pub time_max: Duration,
}

/// Fewest and most repetitions of a study.
const REPETITIONS: (u32, u32) = (2, 15);

/// Times of one job, the least of all repetitions.
#[derive(Clone, Debug)]
struct Times {
    searches: Vec<u64>,
    pagerank: u64,
    components: u64,
}

impl Times {
    fn unknown() -> Times {
        Times { searches: vec![u64::MAX; SEARCHES], pagerank: u64::MAX, components: u64::MAX }
    }

    fn searches_ns(&self) -> f64 {
        self.searches.iter().filter(|&&t| t < u64::MAX).map(|&t| t as f64).sum()
    }

    fn total_ns(&self) -> f64 {
        self.searches_ns() + self.pagerank as f64 + self.components as f64
    }

    fn add_searches(&mut self, report: &RunReport) {
        for (i, trial) in report.trials.iter().enumerate() {
            let best = &mut self.searches[i % SEARCHES];
            *best = (*best).min(trial.time_ns);
        }
    }
}

/// One device of the grid.
struct Device {
    latency: Picos,
    rate: PerSecond,
    store: Store,
}

/// Runs the job on DRAM and on every device of the grid; `progress` hears the share
/// of the time that has gone by (more than 1 on a large graph).
///
/// # Errors
/// `Kind::Environment` when the graph or a device cannot be used, with the cause.
pub fn study(
    graph: &GraphFile,
    name: &str,
    options: &Options,
    mut progress: impl FnMut(f64),
) -> Result<Study> {
    let dram = Store::open(graph, Medium::Dram).map_err(failed)?;
    let devices = grid(&dram, options)?;
    let sources = pick_sources(graph, SEARCHES, SEED);
    let mut times = vec![Times::unknown(); devices.len() + 1];
    let mut state_bytes = 0;
    let clock = WallClock::new();
    let share_gone = || clock.now().as_secs_f64() / options.time_max.as_secs_f64();
    let mut repetitions = 0;
    while repetitions < REPETITIONS.0 || (repetitions < REPETITIONS.1 && share_gone() < 1.0) {
        progress(share_gone());
        let stores: Vec<&Store> =
            [&dram].into_iter().chain(devices.iter().map(|d| &d.store)).collect();
        state_bytes = measure(graph, &stores, &sources, &mut times)?.max(state_bytes);
        repetitions += 1;
    }
    let (on_dram, on_devices) = times.split_first().expect("invariant: DRAM is the first store");
    let points: Vec<Point> =
        devices.iter().zip(on_devices).map(|(d, t)| point(d, t, on_dram)).collect();
    let memory = memory(graph, state_bytes, options.dram);
    Ok(Study {
        schema: study::SCHEMA.to_owned(),
        graph: name.to_owned(),
        kernel: format!("{} searches, PageRank and components", sources.len()),
        vertices_count: u64::from(graph.vertices()),
        arcs_count: graph.header().arcs,
        clock: ClockKind::Paced,
        dram_time_ns: on_dram.total_ns(),
        sentence: sentence(&points, &memory),
        notes: notes(repetitions),
        memory: Some(memory),
        points,
    })
}

fn failed(e: littoral_graph::Error) -> Error {
    Error::with_source(Kind::Environment, "what-if study", e)
}

/// Runs the job once on every store, in turn, and keeps the least times; gives the bytes of vertex
/// state.
fn measure(
    graph: &GraphFile,
    stores: &[&Store],
    sources: &[u32],
    times: &mut [Times],
) -> Result<u64> {
    let mut state_bytes = 0;
    let mut go = |kernel, sources: &[u32], trials| {
        let options =
            RunOptions { pinned: true, trials, sources: sources.to_vec(), ..RunOptions::default() };
        let reports =
            run_in_turn(graph, stores, kernel, &options, &WallClock::new()).map_err(failed)?;
        let states = reports.iter().map(|r| r.state_bytes);
        state_bytes = states.fold(state_bytes, u64::max);
        Ok::<Vec<RunReport>, Error>(reports)
    };
    // Twice through everything: a ring that has just been made is still finding its width.
    let searches = go(Kernel::Bfs, sources, 2 * SEARCHES)?;
    let pagerank = go(Kernel::PageRank(PageRankOptions::default()), &[], 2)?;
    let components = go(Kernel::Components, &[], 2)?;
    for (i, times) in times.iter_mut().enumerate() {
        times.add_searches(&searches[i]);
        times.pagerank = times.pagerank.min(pagerank[i].time_ns_min());
        times.components = times.components.min(components[i].time_ns_min());
    }
    Ok(state_bytes)
}

fn grid(dram: &Store, options: &Options) -> Result<Vec<Device>> {
    let bad = |e: littoral_device::Error| Error::with_source(Kind::Argument, "what-if study", e);
    let base = Profile::named(BASE).map_err(bad)?;
    let (fastest, slowest) = (options.latency.from.0 as f64, options.latency.to.0 as f64);
    let latencies: Vec<Picos> = ladder(fastest, slowest).map(|v| Picos(v as u64)).collect();
    let rates: Vec<PerSecond> =
        ladder(options.iops.from.0, options.iops.to.0).map(PerSecond).collect();
    let mut devices = Vec::new();
    for &rate in &rates {
        for &latency in &latencies {
            let rate_text = format!("{}", rate.0 as u64);
            let profile = base
                .with("read.total_max", &format!("{}", rate.0 as u64 * 16))
                .and_then(|p| p.with("read.per_core_max", &rate_text))
                .and_then(|p| p.with("read.latency", &format!("{}ns", latency.as_nanos())))
                .map_err(bad)?;
            let medium = Medium::Flash { profile, transfer: Transfer::Pointer };
            let store = dram.on(medium).map_err(failed)?;
            devices.push(Device { latency, rate, store });
        }
    }
    Ok(devices)
}

/// The ends and the 1-2-5 values between them, at most two a decade beside the ends.
fn ladder(from: f64, to: f64) -> impl Iterator<Item = f64> {
    let decades = (from.log10().floor() as i32)..=(to.log10().ceil() as i32);
    let steps = decades.flat_map(|d| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(d)));
    let inner = steps.filter(move |&v| v > from * 1.2 && v < to / 1.2).collect::<Vec<_>>();
    let ends = if from < to { vec![from, to] } else { vec![from] };
    let mut all = [inner, ends].concat();
    all.sort_by(f64::total_cmp);
    all.into_iter()
}

fn point(device: &Device, times: &Times, dram: &Times) -> Point {
    let over = |ours: f64, theirs: f64| if theirs > 0.0 { ours / theirs } else { f64::NAN };
    Point {
        latency_ns: device.latency.0 as f64 / 1e3,
        reads_per_s: device.rate.0,
        time_ns: times.total_ns(),
        time_over_dram_ratio: over(times.total_ns(), dram.total_ns()),
        searches_over_dram_ratio: over(times.searches_ns(), dram.searches_ns()),
        pagerank_over_dram_ratio: over(times.pagerank as f64, dram.pagerank as f64),
        components_over_dram_ratio: over(times.components as f64, dram.components as f64),
    }
}

fn memory(graph: &GraphFile, state_bytes: u64, granted: Option<Bytes>) -> Memory {
    let direction = |d: Direction| {
        let lists = graph.lists(d);
        lists.pages().bytes + lists.heads().bytes
    };
    let edges_bytes: u64 = graph.header().directions().iter().map(|&d| direction(d)).sum();
    let rest = granted.map(|g| g.0.saturating_sub(state_bytes));
    Memory {
        state_bytes,
        edges_bytes,
        granted_bytes: granted.map(|g| g.0),
        edges_that_fit_share: rest.map(|r| (r as f64 / edges_bytes as f64).min(1.0)),
    }
}

fn notes(repetitions: u32) -> Vec<String> {
    vec![
        format!(
            "paced: our code on one core in real time against a modelled device's deadlines, the \
             least of {repetitions} interleaved repetitions"
        ),
        format!("contents are in DRAM behind the model; granule and link as profile {BASE}"),
        "data are handed out by pointer; `graph bfs --medium flash --copy` shows the other bound"
            .to_owned(),
        "reads are hidden behind one another where they are independent; a search that reaches few \
         vertices waits for them in turn"
            .to_owned(),
    ]
}

/// Time over DRAM of `p` or of any device that is no better than it, whichever is least.
fn at_most(p: &Point, points: &[Point]) -> f64 {
    let no_better =
        points.iter().filter(|q| q.latency_ns >= p.latency_ns && q.reads_per_s <= p.reads_per_s);
    no_better.map(|q| q.time_over_dram_ratio).fold(f64::INFINITY, f64::min)
}

/// The slowest device that is still as good as DRAM, and its time over DRAM: the greatest latency,
/// then the least rate.
fn slowest_good(points: &[Point]) -> Option<(&Point, f64)> {
    let good = points.iter().map(|p| (p, at_most(p, points))).filter(|(_, over)| *over <= AS_GOOD);
    good.max_by(|(a, _), (b, _)| {
        let latency = a.latency_ns.total_cmp(&b.latency_ns);
        latency.then(b.reads_per_s.total_cmp(&a.reads_per_s))
    })
}

fn sentence(points: &[Point], memory: &Memory) -> String {
    let place = |p: &Point| {
        let latency = Picos((p.latency_ns * 1e3) as u64);
        format!("{latency} and {} reads", PerSecond(p.reads_per_s))
    };
    let answer = match slowest_good(points) {
        Some((p, over)) if over > 1.005 => {
            let cost = (over - 1.0) * 100.0;
            format!("From {} on, flash costs you at most {cost:.0} %.", place(p))
        }
        Some((p, _)) => format!("From {} on, flash costs you nothing.", place(p)),
        None => no_answer(points, place),
    };
    format!("{answer} {}", memory_words(memory))
}

fn no_answer(points: &[Point], place: impl Fn(&Point) -> String) -> String {
    let best =
        points.iter().min_by(|a, b| a.time_over_dram_ratio.total_cmp(&b.time_over_dram_ratio));
    best.map_or_else(String::new, |p| {
        let (place, ratio) = (place(p), p.time_over_dram_ratio);
        format!(
            "No device of this grid comes within 10 % of DRAM; the best, {place}, takes {ratio:.2} \
             times as long."
        )
    })
}

fn memory_words(memory: &Memory) -> String {
    let (state, edges) = (Bytes(memory.state_bytes), Bytes(memory.edges_bytes));
    match (memory.granted_bytes, memory.edges_that_fit_share) {
        (Some(granted), _) if granted < memory.state_bytes => {
            let granted = Bytes(granted);
            format!("But {granted} of DRAM do not hold the {state} of vertex state it needs.")
        }
        (Some(granted), Some(share)) if share >= 1.0 => {
            let granted = Bytes(granted);
            format!("{granted} of DRAM hold all {edges} of edges too: you need no flash.")
        }
        (Some(granted), Some(share)) => {
            let (granted, share) = (Bytes(granted), share * 100.0);
            format!("{granted} of DRAM hold vertex state and {share:.0} % of {edges} of edges.")
        }
        _ => format!(
            "It needs {state} of DRAM in place of {}.",
            Bytes(memory.state_bytes + memory.edges_bytes)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(rows: &[(f64, f64, f64)]) -> Vec<Point> {
        let make = |&(latency_ns, reads_per_s, time_over_dram_ratio)| Point {
            latency_ns,
            reads_per_s,
            time_ns: 1.0,
            time_over_dram_ratio,
            searches_over_dram_ratio: 1.0,
            pagerank_over_dram_ratio: 1.0,
            components_over_dram_ratio: 1.0,
        };
        rows.iter().map(make).collect()
    }

    fn memory(granted: Option<u64>, share: Option<f64>) -> Memory {
        Memory {
            state_bytes: 1 << 20,
            edges_bytes: 4 << 20,
            granted_bytes: granted,
            edges_that_fit_share: share,
        }
    }

    #[test]
    fn the_sentence_names_the_slowest_device_that_is_as_good() {
        let grid = points(&[
            (1e3, 5e6, 1.30),
            (6e3, 5e6, 1.50),
            (1e3, 2e7, 1.02),
            (6e3, 2e7, 1.08),
            (1e3, 1e8, 1.00),
            (6e3, 1e8, 1.05),
            (2e4, 1e8, 1.40),
        ]);
        let words = sentence(&grid, &memory(None, None));
        assert!(words.starts_with("From 6 us and 20 M/s reads on, flash costs you at most 8 %."));
        assert!(words.contains("1 MiB of DRAM in place of 5 MiB"), "{words}");
        let slow = sentence(&points(&[(1e3, 5e6, 1.3)]), &memory(Some(1), Some(0.0)));
        assert!(slow.contains("1 us and 5 M/s reads, takes 1.30 times"), "{slow}");
        assert!(slow.contains("do not hold"), "{slow}");
        let fast = points(&[(1e3, 5e6, 0.9)]);
        let words = sentence(&fast, &memory(Some(8 << 20), Some(1.0)));
        assert!(words.contains("costs you nothing") && words.contains("no flash"), "{words}");
    }

    #[test]
    fn a_better_device_that_came_out_slower_was_disturbed() {
        let disturbed = points(&[(1e3, 1e7, 1.30), (6e3, 5e6, 1.05), (6e3, 1e7, 1.20)]);
        assert_eq!(at_most(&disturbed[0], &disturbed), 1.05);
        let words = sentence(&disturbed, &memory(None, None));
        assert!(words.starts_with("From 6 us and 5 M/s reads on"), "{words}");
        let apart = points(&[(1e3, 5e6, 1.02), (6e3, 1e7, 1.30)]);
        assert_eq!(at_most(&apart[1], &apart), 1.30, "neither of two is the better one");
    }

    #[test]
    fn ladders_hold_both_ends_and_round_values_between() {
        let ladder = |a, b| super::ladder(a, b).map(|v| v.round() as u64).collect::<Vec<_>>();
        assert_eq!(ladder(1e6, 2e7), [1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000]);
        assert_eq!(ladder(4.0, 4.0), [4]);
        assert_eq!(ladder(5e6, 1e8), [5_000_000, 10_000_000, 20_000_000, 50_000_000, 100_000_000]);
    }
}
