//! Paper 003's system: the ring, the interface, graphs on microsecond flash, faults.
//!
//! Timed steps pin themselves to one core and interleave what they compare; the smallest of at
//! least five repetitions counts, also with `--quick`.

use std::path::{Path, PathBuf};

use littoral_assure::graph::{self as judge, Reading};
use littoral_graph::builder::{BuildOptions, Existing, Hooks, Order, build_file};
use littoral_graph::generate::{self, Model, generate, weigh};
use littoral_graph::import::cases;
use littoral_graph::kernels::Kernel;

use crate::flash::media::limited::{self, Allowance, MmapFigures};
use crate::flash::media::versus_fio::{self, FioFigures};
use crate::flash::media::{FaultFigures, Outcome, faults_undetected};
use littoral_bench::claims::Figure;
use littoral_bench::error::Result;
use littoral_bench::repro::{Answer, Options, Step, System, Unanswered, missing};
use littoral_bench::ring::{self, EfficiencyRow, PerRead, StepFigures};

mod building;
pub mod graph;
mod graph_steps;
pub mod media;
mod python;
mod whatif;

/// The system.
pub const SYSTEM: System = System {
    name: "flash",
    about: "Microsecond flash for small random reads (paper 003)",
    id: "flash",
    targets: include_str!("../../targets/flash.toml"),
    profiles: &["xlfdd"],
    has_paper_counts: false,
    steps: || Ok(steps()),
};

/// Emulated reads of the fault claim.
const FAULT_READS: u64 = 10_000_000;
const FAULT_SEED: u64 = 3;
/// Single flipped bits per kernel.
const FLIPS: u64 = 10_000;
const FLIPS_SEED: u64 = 20;
/// Repetitions of measurements that take well under a second each, also with `--quick`.
const TRIALS: u32 = 9;
/// Repetitions of measurements that take a minute each.
const REPETITIONS_LONG: u32 = 5;
const EFFICIENCY_BYTES: u64 = 4 << 30;

/// Every measurement of the system.
pub fn steps() -> Vec<Step> {
    let mut steps = vec![ring_step(), ring_l2(), ring_efficiency(), interface()];
    steps.extend(graph_steps::steps());
    steps.extend(whatif::steps());
    steps.extend(building::steps());
    steps.extend(python::steps());
    steps.push(fio());
    steps.push(mmap("flash.uring.vs_mmap", Model::Urand, 22, Allowance::Quarter));
    let road = (Model::Road, ROAD_SCALE, Allowance::StateAndQuarter);
    steps.push(mmap("flash.uring.vs_mmap.road", road.0, road.1, road.2));
    steps.extend([cached_reads(), faults(), import(), flips()]);
    steps
}

fn repetitions(options: &Options) -> u32 {
    if options.quick { 5 } else { 9 }
}

/// A step that answers one claim.
fn single(
    name: &'static str,
    claim: &str,
    mut measure: impl FnMut(&Options) -> Answer + 'static,
) -> Step {
    Step {
        name,
        claims: vec![claim.to_owned()],
        measure: Box::new(move |options| vec![measure(options)]),
    }
}

/// A measured figure, or the reason there is none.
fn answer<T>(outcome: Result<Outcome<T>>, figure: impl FnOnce(T) -> Figure) -> Answer {
    match outcome {
        Ok(Outcome::Measured(value)) => Ok(figure(value)),
        Ok(Outcome::Skipped(what)) => Err(missing(what)),
        Err(error) => Err(error.into()),
    }
}

fn both(per: PerRead) -> String {
    format!("{:.2} ns CPU, {:.2} ns wall", per.cpu_ns, per.wall_ns)
}

fn ring_step() -> Step {
    Step {
        name: "the ring's step, async and by hand",
        claims: STEP_CLAIMS.iter().map(|(id, _)| (*id).to_owned()).collect(),
        measure: Box::new(|options| {
            let found = ring::step(TRIALS.max(repetitions(options))).map_err(Unanswered::from);
            let figures = STEP_CLAIMS.iter().map(|(_, figure)| found.clone().map(|f| figure(&f)));
            figures.collect()
        }),
    }
}

/// How a claim's figure is made.
type Make = fn(&StepFigures) -> Figure;

/// What one measurement of the step answers.
const STEP_CLAIMS: [(&str, Make); 6] = [
    ("flash.ring.step_ns", fixed_figure),
    ("flash.ring.read_ns", read_figure),
    ("flash.ring.vs_hand", vs_hand_figure),
    ("flash.ring.fixed_vs_read", |found| {
        Figure::new(found.fixed_vs_read(), format!("the general form {}", both(found.async_paced)))
    }),
    ("flash.ring.fixed_vs_hand", |found| {
        Figure::new(found.fixed_vs_hand(), format!("by hand {}", both(found.hand_paced)))
    }),
    ("flash.ring.fixed_vs_fixed_hand", |found| {
        let note = format!("by hand {}", both(found.fixed_hand_paced));
        Figure::new(found.fixed_vs_fixed_hand(), note)
    }),
];

fn fixed_figure(found: &StepFigures) -> Figure {
    let note = format!(
        "reads of a fixed length, {} contexts of {} bytes over {} bytes, lightweight interface at \
         zero latency: {}; on the DRAM device {}; thread CPU time counts",
        found.contexts,
        found.fixed_future_bytes,
        found.array_bytes,
        both(found.fixed_paced),
        both(found.fixed_dram)
    );
    Figure::new(found.fixed_paced.cpu_ns, note)
}

fn read_figure(found: &StepFigures) -> Figure {
    let note = format!(
        "{} contexts of {} bytes over {} bytes, lightweight interface at zero latency: {}; on the \
         DRAM device {}; thread CPU time counts",
        found.contexts,
        found.future_bytes,
        found.array_bytes,
        both(found.async_paced),
        both(found.async_dram)
    );
    Figure::new(found.async_paced.cpu_ns, note)
}

fn vs_hand_figure(found: &StepFigures) -> Figure {
    let note = format!(
        "by hand {}; on the DRAM device async over hand is {:.2}",
        both(found.hand_paced),
        found.async_dram.cpu_ns / found.hand_dram.cpu_ns
    );
    Figure::new(found.vs_hand(), note)
}

fn ring_l2() -> Step {
    single("the ring on cache-resident data", "flash.ring.miops.l2", |options| {
        let found = ring::step_in_l2(TRIALS.max(repetitions(options)));
        let found = found.map_err(|e| e.to_string())?;
        let note = format!(
            "{} contexts over {} bytes, lightweight interface at zero latency: {}; DRAM device {:.1}",
            found.contexts,
            found.array_bytes,
            both(found.async_paced),
            1e3 / found.async_dram.cpu_ns
        );
        Ok(Figure::new(1e3 / found.async_paced.cpu_ns, note))
    })
}

fn ring_efficiency() -> Step {
    single("the ring over 4 GiB at 4 us", "flash.ring.efficiency.4gib", |options| {
        let rows = ring::efficiency(repetitions(options), EFFICIENCY_BYTES);
        let rows = rows.map_err(|e| e.to_string())?;
        let least = rows.iter().map(EfficiencyRow::efficiency).fold(f64::INFINITY, f64::min);
        let mut figure = Figure::new(least, "the least of these rows counts");
        figure.notes.extend(rows.iter().map(efficiency_words));
        Ok(figure)
    })
}

fn efficiency_words(row: &EfficiencyRow) -> String {
    let cap = row.cap_miops.map_or("no cap".to_owned(), |c| format!("cap {c:.0} M/s"));
    format!(
        "{} contexts, {cap}: {:.1} of at most {:.1} M/s ({:.2})",
        row.contexts,
        row.miops,
        row.bound_miops(),
        row.efficiency()
    )
}

fn interface() -> Step {
    single("lightweight and doorbell interface", "flash.interface", |options| {
        let found = ring::interface(TRIALS.max(repetitions(options))).map_err(|e| e.to_string())?;
        let mut figure = Figure::new(
            found.ratio(),
            format!(
                "lightweight {}; against the cheapest stand-in for a doorbell (an ordinary cached \
                 store), the device's own {:.2} ns taken off",
                both(found.lightweight),
                found.device_side_ns
            ),
        );
        figure.notes.extend(found.doorbells.iter().map(|row| {
            format!("{:?} {:?}: {:.2} ns CPU", row.doorbell, row.batching, row.per_read.cpu_ns)
        }));
        Ok(figure)
    })
}

fn faults() -> Step {
    single("ten million reads with every fault on", "flash.faults.undetected", |_| {
        answer(faults_undetected(FAULT_READS, FAULT_SEED).map(Outcome::Measured), fault_figure)
    })
}

fn fault_figure(found: FaultFigures) -> Figure {
    let rules: Vec<&str> = found.rules.iter().map(|(rule, _, _)| *rule).collect();
    let note = format!(
        "{} emulated reads over the completion rules {}; the broken rule run beside them believed {} \
         wrong reads, as it must",
        found.reads_count,
        rules.join(", "),
        found.canary_caught_count
    );
    Figure::new(found.undetected_count as f64, note)
        .provided(found.reads_count >= FAULT_READS, "all reads were made")
}

fn import() -> Step {
    single("odd edge lists", "import.wrong", |options| {
        let folder = options.scratch.join("odd-edge-lists");
        let wrong = cases::wrong(&folder).map_err(|e| e.to_string())?;
        std::fs::remove_dir_all(&folder).map_err(|e| e.to_string())?;
        let note = format!("{} files of the table, with one thread and with three", cases::count());
        let mut figure = Figure::new(wrong.len() as f64, note);
        figure.notes.extend(wrong);
        Ok(figure.provided(cases::count() >= 60, "the table has at least 60 files"))
    })
}

/// Kernels on graphs with one flipped bit each.
fn flips() -> Step {
    single("kernels on graphs with one flipped bit", "graph.flips", |_| {
        let mut wrong_count = 0;
        let mut notes = Vec::new();
        let all = Kernel::all();
        let readings = [Reading::Direct, Reading::Cached];
        for (&kernel, reading) in all.iter().flat_map(|k| readings.map(|r| (k, r))) {
            let found = judge::flips(kernel, reading, FLIPS, FLIPS_SEED);
            let found = found.map_err(|e| e.to_string())?;
            let reads_pages = reads_pages(kernel, reading);
            if reads_pages {
                wrong_count += found.wrong_count;
            }
            notes.push(format!(
                "{}{}, which reads {}: {} wrong answers without an error, {} right ones, {} errors",
                kernel.name(),
                if reading == Reading::Cached { " through a cache of pages" } else { "" },
                if reads_pages { "whole pages" } else { "parts of pages or HEADS, not verified" },
                found.wrong_count,
                found.harmless_count,
                found.refused_count
            ));
        }
        let note = format!("{FLIPS} flips per row, drawn over the whole file of a kron10");
        let mut figure = Figure::new(wrong_count as f64, note);
        figure.notes.extend(notes);
        Ok(figure)
    })
}

/// Whether a kernel reads whole pages alone, each verified: searches and components read fronts of
/// lists from HEADS too.
fn reads_pages(kernel: Kernel, reading: Reading) -> bool {
    let reads_heads = matches!(kernel, Kernel::Bfs | Kernel::Components);
    matches!(kernel, Kernel::PageRank(_)) || reading == Reading::Cached && !reads_heads
}

fn fio() -> Step {
    single("io_uring beside fio", "flash.uring.vs_fio", |options| {
        let asked = versus_fio::Options {
            repetitions: repetitions(options),
            ..versus_fio::Options::standard(options.scratch.clone())
        };
        answer(versus_fio::measure(&options.peers, &asked), |f| fio_figure(&f))
    })
}

fn fio_figure(found: &FioFigures) -> Figure {
    let worst = found.depths.iter().map(versus_fio::DepthFigures::cpu_ratio).fold(0.0, f64::max);
    let mut figure = Figure::new(worst, found.description.clone());
    for depth in &found.depths {
        let words = format!(
            "depth {}: CPU a read {:.3} of fio's, reads a second {:.3} of fio's",
            depth.depth,
            depth.cpu_ratio(),
            depth.rate_ratio()
        );
        figure.notes.push(words);
        let words = format!("reads a second not lower at depth {}", depth.depth);
        figure = figure.provided(depth.rate_ratio() >= 1.0, words);
    }
    figure
}

fn mmap(claim: &'static str, model: Model, scale: u32, allowance: Allowance) -> Step {
    single("BFS by io_uring and by mmap under a memory limit", claim, move |options| {
        let measured = graph_file(options, model, scale, false).and_then(|graph| {
            let seconds = |v: &serde_json::Value| Some(v.get("time_ns_min")?.as_f64()? / 1e9);
            let program = &options.program;
            limited::uring_vs_mmap(program, &graph, REPETITIONS_LONG, allowance, seconds)
        });
        let name = format!("{}{scale}", model.name());
        answer(measured, |f| mmap_figure(&name, &f))
    })
}

/// Scale of the graph that stands for road networks: 8.4 M vertices, 14 M edges.
const ROAD_SCALE: u32 = 23;

fn cached_reads() -> Step {
    single("reads of lists through a cache of pages", "graph.uring.reads.road", |options| {
        let found = graph_file(options, Model::Road, ROAD_SCALE, false)
            .and_then(|graph| graph::cached_reads(&graph))
            .map_err(|e| e.to_string())?;
        let note = format!(
            "one BFS of road{ROAD_SCALE}: {} reads through a cache of {} bytes, a tenth of the \
             edges; {} reads where each list is one; {}",
            found.cached_count, found.cache_bytes, found.by_lists_count, found.wording
        );
        Ok(Figure::new(found.cached_count as f64 / found.by_lists_count as f64, note))
    })
}

fn mmap_figure(graph: &str, found: &MmapFigures) -> Figure {
    let best = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
    let note = format!(
        "{graph}, a file of {} bytes under a limit of {} bytes, of which {} are vertex state beside a \
         quarter of the file: io_uring {:.3} s, mmap {:.3} s, least of {}",
        found.file_bytes,
        found.limit_bytes,
        found.state_bytes,
        best(&found.uring_s),
        best(&found.mmap_s),
        found.uring_s.len()
    );
    let mut figure = Figure::new(found.ratio(), note);
    if found.stopped_count > 0 {
        let stopped = found.stopped_count;
        let words = format!("{stopped} searches by mmap were stopped: the ratio is an upper bound");
        figure.notes.push(words);
    }
    figure
}

/// The generated graph's file in the scratch folder, with seeded weights or without, made when it
/// is not there yet.
fn graph_file(options: &Options, model: Model, scale: u32, weighted: bool) -> Result<PathBuf> {
    let kind = if weighted { "-weighted" } else { "" };
    let path = options.scratch.join(format!("{}{scale}{kind}.lg", model.name()));
    if !path.exists() {
        build(model, scale, weighted, &path).map_err(|e| {
            littoral_bench::Error::with_source(
                littoral_bench::Kind::Environment,
                "making a graph to measure on",
                e,
            )
        })?;
    }
    Ok(path)
}

fn build(model: Model, scale: u32, weighted: bool, path: &Path) -> littoral_graph::Result<()> {
    let order = if model == Model::Road { Order::Auto } else { Order::Degree };
    let build = BuildOptions { order, ..BuildOptions::default() };
    let mut edges = generate(model, scale, generate::SEED, build.threads, &mut Hooks::none())?;
    if weighted {
        weigh(&mut edges);
    }
    build_file(edges, &build, path, Existing::Replace, &mut Hooks::none()).map(drop)
}
