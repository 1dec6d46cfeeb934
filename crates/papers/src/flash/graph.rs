//! Measurements of the graph kernels: flash over DRAM, ours over the GAP benchmark suite's, and how
//! much a longer latency costs.
//!
//! Every function measures and returns plain figures. What is compared runs in turn, round by
//! round, on one pinned core; of each form and source the least time counts, and sources are
//! summed.
//!
//! Modelled: latency, read rate and link of a *paced* device whose contents are DRAM
//! ([`littoral_device::flash::paced`]). Not modelled: every instruction of the kernels and the
//! ring. DRAM runs and GAPBS are wall time with nothing modelled.

use std::num::NonZeroUsize;
use std::path::Path;

use littoral_base::clock::WallClock;
use littoral_device::flash::opened::{Access, FlashDevice};
use littoral_device::profile::Profile;
use littoral_graph::format::Direction;
use littoral_graph::format::file::GraphFile;
use littoral_graph::kernels::{Hint, Kernel, Options, RunReport, pick_sources, run, run_in_turn};
use littoral_graph::medium::{DramForm, Store, Transfer};
use littoral_runtime::{Pinning, run_on_cores};

use littoral_bench::error::{Error, Kind, Result};

pub mod threads;
pub mod versus_gapbs;

/// Sources a search is measured from.
pub const SOURCES: usize = 5;
/// The seed that picks them.
pub const SOURCE_SEED: u64 = 27_491_095;
/// The modelled device: 4 us, 44 M reads/s a core.
pub const PROFILE: &str = "xlfdd";

/// The least time of a kernel on one medium, and what it read.
#[derive(Clone, Debug)]
pub struct KernelTime {
    /// The medium and what is modelled of it.
    pub wording: String,
    /// Contexts of the ring; 0 without one.
    pub contexts: u32,
    /// The least time for each source (one entry for kernels without sources).
    pub time_ns: Vec<u64>,
    /// Reads of one run from the last source.
    pub reads_count: u64,
    /// Bytes of one run from the last source.
    pub read_bytes: u64,
    /// Polls of contexts for each read.
    pub polls_per_read: f64,
}

impl KernelTime {
    fn of(report: &RunReport, sources: usize) -> KernelTime {
        let times = |i: usize| report.trials.iter().skip(i).step_by(sources).map(|t| t.time_ns);
        let last = report.trials.last().map(|t| t.traffic).unwrap_or_default();
        KernelTime {
            wording: report.wording.clone(),
            contexts: report.contexts,
            time_ns: (0..sources).map(|i| times(i).min().unwrap_or(0)).collect(),
            reads_count: last.reads_count,
            read_bytes: last.read_bytes,
            polls_per_read: report.polls_per_read(),
        }
    }

    /// The lesser time of each source, of two measurements of the same.
    #[must_use]
    fn least(self, other: KernelTime) -> KernelTime {
        let both = self.time_ns.iter().zip(&other.time_ns);
        KernelTime { time_ns: both.map(|(&a, &b)| a.min(b)).collect(), ..other }
    }

    /// The sum over sources.
    pub fn total_ns(&self) -> f64 {
        self.time_ns.iter().sum::<u64>() as f64
    }
}

/// A kernel with the edges on modelled flash beside the same with everything in DRAM.
#[derive(Clone, Debug)]
pub struct VersusDram {
    /// Everything in DRAM in the best form of reading.
    pub dram: KernelTime,
    /// Everything in DRAM as a plain loop reads it: directly, without prefetch hints.
    pub plain: KernelTime,
    /// Data handed out by pointer.
    pub pointer: KernelTime,
    /// Data copied at the host's expense.
    pub copy: KernelTime,
}

impl VersusDram {
    /// Pointer over DRAM.
    pub fn pointer_ratio(&self) -> f64 {
        self.pointer.total_ns() / self.dram.total_ns()
    }

    /// Copy over DRAM.
    pub fn copy_ratio(&self) -> f64 {
        self.copy.total_ns() / self.dram.total_ns()
    }

    /// Pointer over the plain form in DRAM.
    pub fn plain_ratio(&self) -> f64 {
        self.pointer.total_ns() / self.plain.total_ns()
    }
}

/// Measures a kernel on flash over the same in DRAM, `rounds` times from each of [`SOURCES`]
/// sources where it begins at one.
///
/// # Errors
/// `Kind::Environment` when the measurement cannot be made.
pub fn versus_dram(graph: &GraphFile, kernel: Kernel, rounds: usize) -> Result<VersusDram> {
    let profile = profile()?;
    let dram = Store::in_dram(graph).map_err(failed)?;
    let on = |transfer| dram.behind(&profile, transfer).map_err(failed);
    let (pointer, copy) = (on(Transfer::Pointer)?, on(Transfer::Copy)?);
    let forms = DramForm::ALL.iter().map(|&form| dram.read_as(form).map_err(failed));
    let forms = forms.collect::<Result<Vec<_>>>()?;
    let plain = DramForm::ALL.iter().position(|&form| form == DramForm::Direct(Hint::None));
    let plain = plain.expect("invariant: the plain form is one of all");
    let stores: Vec<&Store> = [&pointer, &copy, &dram].into_iter().chain(&forms).collect();
    let mut times = in_turn(graph, &stores, kernel, rounds)?.into_iter();
    let mut next = || times.next().expect("invariant: one report a store");
    let (pointer, copy, first) = (next(), next(), next());
    let plain = times.as_slice()[plain].clone();
    let least = |best: KernelTime, time: KernelTime| {
        if time.total_ns() < best.total_ns() { time } else { best }
    };
    Ok(VersusDram { dram: times.fold(first, least), plain, pointer, copy })
}

/// BFS at one latency.
#[derive(Clone, Debug)]
pub struct LatencyRow {
    /// The device's latency.
    pub latency_us: f64,
    /// What it took.
    pub time: KernelTime,
}

/// Measures BFS, data by pointer, at each of `latencies_us`; contexts follow the latency.
///
/// # Errors
/// `Kind::Environment` when the measurement cannot be made.
pub fn latency(graph: &GraphFile, latencies_us: &[f64], rounds: usize) -> Result<Vec<LatencyRow>> {
    let dram = Store::in_dram(graph).map_err(failed)?;
    let stores = latencies_us
        .iter()
        .map(|us| {
            let ns = format!("{:.0}ns", us * 1e3);
            let profile = profile()?.with("read.latency", &ns).map_err(device)?;
            dram.behind(&profile, Transfer::Pointer).map_err(failed)
        })
        .collect::<Result<Vec<_>>>()?;
    let stores: Vec<&Store> = stores.iter().collect();
    let times = in_turn(graph, &stores, Kernel::Bfs, rounds)?;
    let rows = latencies_us.iter().zip(times);
    Ok(rows.map(|(&latency_us, time)| LatencyRow { latency_us, time }).collect())
}

/// Reads of one breadth-first search from a file, by lists and through a cache of pages.
#[derive(Clone, Debug)]
pub struct CachedReads {
    /// Reads where each list is one.
    pub by_lists_count: u64,
    /// Reads through the cache.
    pub cached_count: u64,
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// What was read, and how.
    pub wording: String,
}

/// Counts the reads of a search of the graph in the file at `path`, by io_uring or a pool of
/// threads, with a cache of a tenth of its pages and without one.
///
/// # Errors
/// `Kind::Environment` when the file cannot be read.
pub fn cached_reads(path: &Path) -> Result<CachedReads> {
    let graph = GraphFile::open(path).map_err(failed)?;
    let pages = graph.lists(Direction::Out).pages().bytes;
    let open = || {
        let file = FlashDevice::file(path, Access::Uring).map_err(device)?;
        Store::new(&graph, file).map_err(failed)
    };
    let sources = pick_sources(&graph, 1, SOURCE_SEED);
    let options = Options { trials: 1, sources, ..Options::default() };
    let search = |store: &Store| {
        let found = run(&graph, store, Kernel::Bfs, &options, &WallClock::new());
        let (report, _) = found.map_err(failed)?;
        let reads = report.trials.iter().map(|trial| trial.traffic.reads_count).sum::<u64>();
        Ok((reads, report.wording))
    };
    let cache_bytes = pages / 10;
    let (by_lists_count, _) = search(&open()?)?;
    let (cached_count, wording) = search(&open()?.with_cache(cache_bytes))?;
    Ok(CachedReads { by_lists_count, cached_count, cache_bytes, wording })
}

/// Runs a kernel on stores in turn on one pinned core.
fn in_turn(
    graph: &GraphFile,
    stores: &[&Store],
    kernel: Kernel,
    rounds: usize,
) -> Result<Vec<KernelTime>> {
    let count = if kernel.spec().has_source { SOURCES } else { 0 };
    let sources = pick_sources(graph, count, SOURCE_SEED);
    let each = sources.len().max(1);
    let options = Options { trials: rounds * each, sources, ..Options::default() };
    let reports = run_on_cores(NonZeroUsize::MIN, Pinning::Pinned, |_| {
        run_in_turn(graph, stores, kernel, &options, &WallClock::new())
    });
    let reports = reports
        .map_err(|e| Error::with_source(Kind::Environment, "pinning the measuring thread", e))?;
    let reports = reports.into_iter().next().expect("invariant: one core").map_err(failed)?;
    Ok(reports.iter().map(|r| KernelTime::of(r, each)).collect())
}

fn profile() -> Result<Profile> {
    Profile::named(PROFILE).map_err(device)
}

fn device(e: littoral_device::Error) -> Error {
    Error::with_source(Kind::Environment, "describing the device", e)
}

fn failed(e: littoral_graph::Error) -> Error {
    Error::with_source(Kind::Environment, "measuring a graph kernel", e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_graph::builder::{BuildOptions, Hooks, build_in_memory};
    use littoral_graph::generate::{Model, generate};

    #[test]
    fn every_form_is_measured_from_every_source() {
        let edges = generate(Model::Kron, 8, 1, 1, &mut Hooks::none()).unwrap();
        let options = BuildOptions { threads: 1, ..BuildOptions::default() };
        let (image, _) = build_in_memory(edges, &options, &mut Hooks::none()).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        for kernel in Kernel::all() {
            let found = versus_dram(&graph, kernel, 2).unwrap();
            let sources = if kernel.spec().has_source { SOURCES } else { 1 };
            assert!(found.dram.total_ns() <= found.plain.total_ns(), "the best form is no worse");
            for form in [&found.dram, &found.plain, &found.pointer, &found.copy] {
                assert_eq!(form.time_ns.len(), sources);
                assert!(form.time_ns.iter().all(|&t| t > 0) && form.read_bytes > 0);
            }
        }
        let found = versus_dram(&graph, Kernel::Bfs, 2).unwrap();
        assert!(found.pointer_ratio() > 0.0 && found.copy_ratio() > 0.0);
        assert_eq!((found.plain.contexts, found.pointer.contexts), (0, 256));
        let rows = latency(&graph, &[1.0, 10.0], 1).unwrap();
        assert_eq!((rows[0].time.contexts, rows[1].time.contexts), (64, 1024));
    }
}
