//! The claims about what-if studies: answers that repeat, a model that agrees, honest denominators.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use littoral_base::mutant;
use littoral_base::units::{PerSecond, Picos, Span};
use littoral_graph::builder::{BuildOptions, Hooks};
use littoral_graph::format::file::GraphFile;
use littoral_graph::generate::Model;
use littoral_graph::import::{ImportOptions, import_in_memory};
use littoral_graph::kernels::{Kernel, PageRankOptions};

use super::{graph_steps, single};
use littoral_bench::claims::Figure;
use littoral_bench::error::{Error, Kind, Result};
use littoral_bench::repro::{Answer, Options, Step};
use littoral_bench::whatif::measure::{Denominator, denominator};
use littoral_bench::whatif::study::{Cell, DeviceRow, JobStudy, Study};
use littoral_bench::whatif::{self, study};

/// Runs whose answers are compared.
const RUNS: usize = 20;
/// How long each of them measures with `--quick`; the command's default without.
const RUN_TIME_QUICK: &str = "8s";
/// How long a study measures at least whose cells are compared with the model; it goes on until
/// each device of each job has been measured. A median of three rounds scatters by some 5 %, so the
/// worst of 450 cells would show the scatter, not the model; in five minutes cells get about ten.
const MODEL_TIME: Duration = Duration::from_secs(300);
const MODEL_TIME_QUICK: Duration = Duration::from_secs(30);
/// How long all forms in DRAM are measured after the trial chose one.
const DENOMINATOR_TIME: Duration = Duration::from_secs(10);
/// The shipped graph.
const SHIPPED: &str = "examples/packages.tsv.zst";

/// The kernels whose studies the claims compare.
fn claimed() -> Vec<Kernel> {
    vec![Kernel::Bfs, Kernel::PageRank(PageRankOptions::default()), Kernel::Components]
}

/// Every step.
pub(super) fn steps() -> Vec<Step> {
    let mut steps = vec![stable(), model()];
    steps.extend(claimed().into_iter().map(denominator_step));
    steps
}

fn words(error: &Error) -> String {
    error.to_string()
}

/// The shipped graph's file: in this folder, or where the program was built.
fn shipped() -> Result<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(SHIPPED);
    let found = [PathBuf::from(SHIPPED), built].into_iter().find(|p| p.is_file());
    found.ok_or_else(|| {
        let what = format!("{SHIPPED} is not here: run from a checkout of the repository");
        Error::new(Kind::Environment, what)
    })
}

fn stable() -> Step {
    single("what-if answers that repeat", "whatif.stable", |options| {
        let answers = answers(options).map_err(|e| words(&e))?;
        let mut note = format!(
            "{RUNS} processes of `littoral {} {SHIPPED}`, one thread busy all the time",
            arguments(options.quick).join(" ")
        );
        let mut groups: Vec<(&String, &usize)> = answers.iter().collect();
        groups.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        if let [(first, _), others @ ..] = &groups[..] {
            for (other, count) in others {
                let line = first.lines().zip(other.lines()).find(|(a, b)| a != b);
                let (a, b) = line.unwrap_or(("", ""));
                note += &format!("; {count} runs differ first in: \"{b}\" for \"{a}\"");
            }
        }
        Ok(Figure::new(answers.len() as f64, note))
    })
}

/// Different answers, and how many runs gave each.
fn answers(options: &Options) -> Result<BTreeMap<String, usize>> {
    let graph = shipped()?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let mut answers = BTreeMap::new();
        let all = (0..RUNS).try_for_each(|_| {
            *answers.entry(answer(options, &graph)?).or_default() += 1;
            Ok(())
        });
        done.store(true, Relaxed);
        all.map(|()| answers)
    })
}

/// What the program is asked in each run: the README's command, and less with `--quick`.
fn arguments(quick: bool) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["graph", "whatif", "--format", "json"].map(String::from).into();
    if quick {
        let kernels = claimed().iter().map(|k| k.name()).collect::<Vec<_>>().join(",");
        arguments.extend(["--time", RUN_TIME_QUICK, "--kernels", &kernels].map(String::from));
    }
    arguments
}

/// The answer of one run: the lines that a person reads.
fn answer(options: &Options, graph: &Path) -> Result<String> {
    let mut command = Command::new(&options.program);
    command.args(arguments(options.quick));
    command.arg(graph);
    let output = command
        .output()
        .map_err(|e| Error::with_source(Kind::Environment, "running the program itself", e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let what = format!("graph whatif ended with {}: {said}", output.status);
        return Err(Error::new(Kind::Environment, what));
    }
    let study: Study = serde_json::from_slice(&output.stdout)
        .map_err(|e| Error::with_source(Kind::BadResult, "the output of graph whatif", e))?;
    Ok(study.answer.join("\n"))
}

fn model() -> Step {
    single("what-if's model beside its measurements", "whatif.model", |options| {
        let worst = worst_cells(options).map_err(|e| words(&e))?;
        Ok(model_figure(worst))
    })
}

/// The greatest error of the worst cells. A cell that was not measured has no error, so the claim
/// holds only where there are none.
fn model_figure(worst: Vec<Worst>) -> Figure {
    let value = worst.iter().map(|w| w.error).fold(0.0, f64::max);
    let all: usize = worst.iter().map(|w| w.cells).sum();
    let measured: usize = worst.iter().map(|w| w.measured).sum();
    let is_whole = measured == all || mutant!("papers_model_unmeasured_cells");
    let words = format!("every cell was measured: {measured} of {all}");
    let mut figure =
        Figure::new(value, "the worst cell of each graph").provided(all > 0 && is_whole, words);
    figure.notes.extend(worst.into_iter().map(|w| w.words));
    figure
}

/// The worst cell of a graph.
struct Worst {
    /// |predicted - measured| / measured.
    error: f64,
    /// Cells of the study, and those that were measured.
    cells: usize,
    measured: usize,
    /// The cell in words.
    words: String,
}

/// The worst cell of each graph.
fn worst_cells(options: &Options) -> Result<Vec<Worst>> {
    let graphs = [
        ("kron20", graph_steps::open(options, Model::Kron, 20)?),
        ("urand20", graph_steps::open(options, Model::Urand, 20)?),
        ("packages", in_memory(&shipped()?)?),
    ];
    let time = if options.quick { MODEL_TIME_QUICK } else { MODEL_TIME };
    let asked = whatif::Options {
        latency: Span { from: Picos::from_micros(1), to: Picos::from_micros(20) },
        iops: Span { from: PerSecond(5e6), to: PerSecond(100e6) },
        parts: Vec::new(),
        kernels: claimed(),
        // A sample of 64 searches at once takes seconds, and each device has three.
        concurrency: if options.quick { vec![4] } else { vec![4, 16, 64] },
        dram: None,
        time,
        reaches_all: true,
    };
    graphs
        .iter()
        .map(|(name, graph)| Ok(worst_cell(&study(graph, name, &asked, |_| ())?)))
        .collect()
}

fn worst_cell(study: &Study) -> Worst {
    let cells = study.jobs.iter().flat_map(|job| {
        study.devices.iter().zip(&job.cells).map(move |(device, cell)| (job, device, cell))
    });
    let all = cells.clone().count();
    let measured: Vec<(&JobStudy, &DeviceRow, f64, &Cell)> = cells
        .filter_map(|(job, device, cell)| Some((job, device, cell.error_ratio()?, cell)))
        .collect();
    let Some((job, device, error, cell)) = measured.iter().max_by(|a, b| a.2.total_cmp(&b.2))
    else {
        let words = format!("{}: none of {all} cells was measured", study.graph);
        return Worst { error: f64::NAN, cells: all, measured: 0, words };
    };
    let words = format!(
        "{}: {error:.3} at {}, {} (predicted {:.3} of DRAM, measured {:.3}); {} of {all} cells \
         measured, {} beyond 0.15",
        study.graph,
        job.name,
        device.name,
        cell.predicted_ratio,
        cell.measured_ratio.unwrap_or(f64::NAN),
        measured.len(),
        study.disagreeing_cells_count
    );
    Worst { error: *error, cells: all, measured: measured.len(), words }
}

fn in_memory(path: &Path) -> Result<GraphFile> {
    let cannot = |e| Error::with_source(Kind::Environment, "reading the shipped graph", e);
    let (options, build) = (ImportOptions::default(), BuildOptions::default());
    let (image, _, _) =
        import_in_memory(path, &options, &build, &mut Hooks::none()).map_err(cannot)?;
    GraphFile::from_image(image).map_err(cannot)
}

fn denominator_step(kernel: Kernel) -> Step {
    let claim = format!("whatif.denominator.{}", kernel.name());
    single("a kernel in DRAM in the chosen form over the best", &claim, move |options| {
        denominators(options, kernel)
    })
}

fn denominators(options: &Options, kernel: Kernel) -> Answer {
    let mut figure = Figure::new(0.0, "medians of interleaved runs, processor time of the thread");
    for model in [Model::Kron, Model::Urand] {
        let found = graph_steps::open(options, model, 20)
            .and_then(|graph| denominator(&graph, kernel, DENOMINATOR_TIME))
            .map_err(|e| words(&e))?;
        figure.value = figure.value.max(found.ratio());
        figure.notes.push(denominator_words(model.name(), &found));
    }
    Ok(figure)
}

fn denominator_words(graph: &str, found: &Denominator) -> String {
    let times =
        found.times.iter().map(|(form, ns)| format!("{} {:.3} ms", form.describe(), ns / 1e6));
    format!(
        "{graph}20: chosen {}, {:.3} ms; {}",
        found.chosen.describe(),
        found.chosen_ns / 1e6,
        times.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_runs_the_command_of_the_readme() {
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let readme = std::fs::read_to_string(readme).unwrap();
        let command = arguments(false).join(" ").replace(" --format json", "");
        assert!(
            readme.contains(&format!("cargo run --release -- {command} {SHIPPED}")),
            "{command}"
        );
        assert!(arguments(true).contains(&RUN_TIME_QUICK.to_owned()));
    }

    #[test]
    fn the_model_holds_only_where_every_cell_was_measured() {
        let worst = |measured| Worst { error: 0.1, cells: 25, measured, words: String::new() };
        let holds = |worst| model_figure(worst).conditions.iter().all(|(holds, _)| *holds);
        assert!(holds(vec![worst(25), worst(25)]));
        assert!(!holds(vec![worst(25), worst(24)]));
        assert!(!holds(Vec::new()));
    }
}
