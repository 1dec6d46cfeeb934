//! The graph claims: kernels on flash over DRAM and over the GAP suite's, a longer latency.

use littoral_graph::format::file::GraphFile;
use littoral_graph::generate::Model;
use littoral_graph::kernels::{Kernel, PageRankOptions, Sources, Weights};

use super::graph::versus_gapbs::{self, VersusGapbs};
use super::graph::{KernelTime, VersusDram, latency, versus_dram};
use super::graph_file;
use super::media::Outcome;
use littoral_bench::claims::Figure;
use littoral_bench::error::{Error, Kind, Result};
use littoral_bench::repro::{Answer, Options, Step};

/// Rounds of comparisons that take milliseconds a run, also with `--quick`.
const ROUNDS: usize = 9;
/// Rounds of comparisons of kernels that take up to seconds a run.
const LONG_ROUNDS: usize = 5;
/// Rounds of a comparison with the suite, each of which loads the graph anew.
const SUITE_ROUNDS: usize = 5;
const LATENCIES_US: [f64; 4] = [1.0, 2.0, 4.0, 10.0];

/// Every step.
pub(super) fn steps() -> Vec<Step> {
    let graphs = [(Model::Kron, 20), (Model::Urand, 20), (Model::Kron, 22), (Model::Urand, 22)];
    let pagerank = Kernel::PageRank(PageRankOptions::default());
    let [paths, between] = [Kernel::Sssp(Weights::Stored), Kernel::Bc(Sources::One)];
    let mut steps = Vec::new();
    for kernel in [Kernel::Bfs, paths, between, pagerank] {
        steps.extend(graphs.map(|(model, scale)| over_dram(kernel, model, scale)));
        steps.push(over_dram(kernel, Model::Road, super::ROAD_SCALE));
    }
    steps.push(over_latency());
    for (model, scale) in &graphs[2..] {
        for kernel in [Kernel::Bfs, pagerank, Kernel::Components, paths, between] {
            steps.push(over_suite(kernel, *model, *scale));
        }
    }
    steps
}

pub(super) fn open(options: &Options, model: Model, scale: u32) -> Result<GraphFile> {
    open_as(options, model, scale, false)
}

/// The graph that `kernel` runs on: with weights where it uses them.
fn open_for(kernel: Kernel, options: &Options, model: Model, scale: u32) -> Result<GraphFile> {
    open_as(options, model, scale, kernel.spec().uses_weights)
}

fn open_as(options: &Options, model: Model, scale: u32, weighted: bool) -> Result<GraphFile> {
    GraphFile::open(graph_file(options, model, scale, weighted)?)
        .map_err(|e| Error::with_source(Kind::Environment, "opening a graph to measure on", e))
}

fn over_dram(kernel: Kernel, model: Model, scale: u32) -> Step {
    let name = kernel.name();
    // There is one size of road networks.
    let size = if model == Model::Road { String::new() } else { scale.to_string() };
    let id = |form: &str| format!("flash.{name}.vs_dram.{}{size}.{form}", model.name());
    Step {
        name: "a kernel on flash over the same in DRAM",
        claims: vec![id("ptr"), id("copy")],
        measure: Box::new(move |options| {
            let rounds = if kernel == Kernel::Bfs { ROUNDS } else { LONG_ROUNDS };
            let graph = open_for(kernel, options, model, scale);
            match graph.and_then(|graph| versus_dram(&graph, kernel, rounds)) {
                Ok(found) => over_dram_figures(&found),
                Err(error) => vec![Err(error.to_string()), Err(error.to_string())],
            }
        }),
    }
}

fn over_dram_figures(found: &VersusDram) -> Vec<Answer> {
    let dram = words(&found.dram);
    let figure = |ratio: f64, form: &KernelTime| {
        let mut figure = Figure::new(ratio, words(form));
        figure.notes.push(format!("over {dram}"));
        figure
    };
    vec![
        Ok(figure(found.pointer_ratio(), &found.pointer)),
        Ok(figure(found.copy_ratio(), &found.copy)),
    ]
}

/// What a time is of and how it came about.
fn words(time: &KernelTime) -> String {
    let mut words = format!(
        "{:.3} ms over {} sources, least of the rounds for each; {}; {} reads and {} bytes from the \
         last source",
        time.total_ns() / 1e6,
        time.time_ns.len(),
        time.wording,
        time.reads_count,
        time.read_bytes
    );
    if time.contexts > 0 {
        let ring = (time.contexts, time.polls_per_read);
        words += &format!("; {} contexts, {:.2} polls a read", ring.0, ring.1);
    }
    words
}

fn over_latency() -> Step {
    super::single("BFS from 1 to 10 us", "flash.latency.1_10us", |options| {
        let rows = open(options, Model::Kron, 22)
            .and_then(|graph| latency(&graph, &LATENCIES_US, ROUNDS))
            .map_err(|e| e.to_string())?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return Err("no latencies".to_owned());
        };
        let note = "kron22, contexts by Little's law from the profile's latency and rate";
        let mut figure = Figure::new(last.time.total_ns() / first.time.total_ns(), note);
        figure
            .notes
            .extend(rows.iter().map(|row| format!("{} us: {}", row.latency_us, words(&row.time))));
        Ok(figure)
    })
}

fn over_suite(kernel: Kernel, model: Model, scale: u32) -> Step {
    let claim = format!("flash.dram.vs_gapbs.{}.{}{scale}", kernel.name(), model.name());
    super::single("a kernel in DRAM over the GAP suite's", &claim, move |options| {
        let found = open_for(kernel, options, model, scale).and_then(|graph| {
            versus_gapbs::measure(&graph, kernel, &options.peers, &options.scratch, SUITE_ROUNDS)
        });
        match found {
            Ok(Outcome::Measured(found)) => Ok(suite_figure(&found)),
            Ok(Outcome::Skipped(why)) => Err(why),
            Err(error) => Err(error.to_string()),
        }
    })
}

fn suite_figure(found: &VersusGapbs) -> Figure {
    let ms = |times: &[u64]| times.iter().sum::<u64>() as f64 / 1e6;
    let mut figure = Figure::new(found.ratio(), format!("ours {}", words(&found.ours)));
    figure.notes.push(format!(
        "GAPBS {:.3} ms on the generator's numbering; {:.3} ms on ours (ids by degree), over which \
         ours is {:.2}",
        ms(&found.gapbs_ns),
        ms(&found.gapbs_relabelled_ns),
        found.ratio_relabelled()
    ));
    figure.notes.push("our trials leave out allocating the answer, GAPBS's include it".to_owned());
    figure
}
