//! The graph claims: kernels on flash over DRAM and over the GAP suite's, two threads over one, a
//! longer latency.
//!
//! `flash.best` and the geometric mean over the suite's cells follow from the cells before them, so
//! steps leave their figures in [`Cells`].

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use littoral_graph::builder::{BuildOptions, Existing, Hooks, Order};
use littoral_graph::format::file::GraphFile;
use littoral_graph::generate::Model;
use littoral_graph::import::{ImportOptions, import};
use littoral_graph::kernels::{Kernel, PageRankOptions, Sources, Weights};

use super::graph::threads::{self, Threads};
use super::graph::versus_gapbs::{self, ROAD_DELTAS, SUITE_DELTAS, VersusGapbs};
use super::graph::{KernelTime, VersusDram, latency, versus_dram};
use super::graph_file;
use littoral_bench::claims::Figure;
use littoral_bench::error::{Error, Kind, Result};
use littoral_bench::repro::{Answer, Options, Step, Unanswered, missing};

/// Rounds of comparisons that take milliseconds a run, also with `--quick`.
const ROUNDS: usize = 9;
/// Rounds of comparisons of kernels that take up to seconds a run.
const LONG_ROUNDS: usize = 5;
/// Rounds of a comparison with the suite, each of which loads the graph anew.
const SUITE_ROUNDS: usize = 5;
const LATENCIES_US: [f64; 4] = [1.0, 2.0, 4.0, 10.0];
/// Our kernels are held against the suite on our numbering as well, and are not to be slower than
/// this.
const RELABELLED_MAX: f64 = 1.1;
/// A real graph smaller than this says little about memory.
const REAL_EDGES_MIN: u64 = 10_000_000;

/// Figures by cell, which a later step looks at.
type Cells = Rc<RefCell<Vec<(String, f64)>>>;

/// Every step.
pub(super) fn steps() -> Vec<Step> {
    let graphs = [
        (Model::Kron, 20),
        (Model::Urand, 20),
        (Model::Kron, 22),
        (Model::Urand, 22),
        (Model::Road, super::ROAD_SCALE),
    ];
    let pagerank = Kernel::PageRank(PageRankOptions::default());
    let [paths, between] = [Kernel::Sssp(Weights::Stored), Kernel::Bc(Sources::One)];
    let mut steps = Vec::new();
    let plain = Cells::default();
    for kernel in [Kernel::Bfs, paths, between, pagerank] {
        for (model, scale) in graphs {
            steps.push(over_dram(kernel, model, scale, &plain));
        }
        steps.push(over_dram_real(kernel));
    }
    steps.push(best(plain));
    steps.push(over_latency());
    let kernels = [Kernel::Bfs, pagerank, Kernel::Components, paths, between, Kernel::Tc];
    let (ratios, large) = (Cells::default(), &graphs[2..]);
    for (model, scale) in large {
        steps.extend(kernels.map(|kernel| over_suite(kernel, *model, *scale, &ratios)));
    }
    steps.push(mean_over_suite(ratios, large.len() * kernels.len()));
    for (model, scale) in large {
        steps.extend(kernels.map(|kernel| two_threads(kernel, *model, *scale)));
    }
    steps
}

/// The graph in a claim's name; there is one size of road networks.
fn cell(model: Model, scale: u32) -> String {
    let size = if model == Model::Road { String::new() } else { scale.to_string() };
    format!("{}{size}", model.name())
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

fn rounds_of(kernel: Kernel) -> usize {
    if kernel == Kernel::Bfs { ROUNDS } else { LONG_ROUNDS }
}

fn over_dram(kernel: Kernel, model: Model, scale: u32, plain: &Cells) -> Step {
    let (name, graph_name, plain) = (kernel.name(), cell(model, scale), Rc::clone(plain));
    let id = |form: &str| format!("flash.{name}.vs_dram.{graph_name}.{form}");
    Step {
        name: "a kernel on flash over the same in DRAM",
        claims: vec![id("ptr"), id("copy")],
        measure: Box::new(move |options| {
            let graph = open_for(kernel, options, model, scale);
            match graph.and_then(|graph| versus_dram(&graph, kernel, rounds_of(kernel))) {
                Ok(found) => {
                    let cell = format!("{name} on {graph_name}");
                    plain.borrow_mut().push((cell, found.plain_ratio()));
                    over_dram_figures(&found)
                }
                Err(error) => vec![Err(Unanswered::from(error)); 2],
            }
        }),
    }
}

/// The same on a graph of the user's.
fn over_dram_real(kernel: Kernel) -> Step {
    let id = |form: &str| format!("flash.{}.vs_dram.real.{form}", kernel.name());
    Step {
        name: "a kernel on flash over the same in DRAM, on a user's graph",
        claims: vec![id("ptr"), id("copy")],
        measure: Box::new(move |options| {
            let found = open_real(options).and_then(|graph| {
                let kernel = real(kernel, &graph);
                let found = versus_dram(&graph, kernel, rounds_of(kernel));
                let figures = over_dram_figures(&found.map_err(|e| e.to_string())?);
                let edges = graph.header().edges();
                let words = format!("the graph has at least {REAL_EDGES_MIN} edges: {edges}");
                let large = |f: Figure| f.provided(edges >= REAL_EDGES_MIN, words.as_str());
                Ok(figures.into_iter().map(|f| f.map(large)).collect())
            });
            found.unwrap_or_else(|why| vec![Err(why.clone()), Err(why)])
        }),
    }
}

/// Shortest paths take the weights that a user's graph has, or else seeded ones.
fn real(kernel: Kernel, graph: &GraphFile) -> Kernel {
    match kernel {
        Kernel::Sssp(_) if !graph.is_weighted() => Kernel::Sssp(Weights::Seeded),
        other => other,
    }
}

/// The first file by name in the folder `graphs` of the peers' folder: a graph file, or an edge
/// list, which is imported once.
fn open_real(options: &Options) -> std::result::Result<GraphFile, Unanswered> {
    let what = "a file in `graphs` of the folder given by --peers; put an edge list or a graph \
                file of at least 10^7 edges there";
    let folder = options.peers.folder().ok_or_else(|| missing(what))?.join("graphs");
    let entries = std::fs::read_dir(&folder).map_err(|_| missing(what))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|p| p.is_file());
    let path = files.min().ok_or_else(|| missing(what))?;
    let file = if GraphFile::is_at(&path) { path } else { imported(&path, &options.scratch)? };
    GraphFile::open(file).map_err(|e| e.to_string().into())
}

fn imported(list: &Path, scratch: &Path) -> std::result::Result<PathBuf, String> {
    let name = list.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = scratch.join(format!("real-{name}.lg"));
    if !path.exists() {
        std::fs::create_dir_all(scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
        let build = BuildOptions { order: Order::Auto, ..BuildOptions::default() };
        let reading = ImportOptions::default();
        import(list, &path, Existing::Refuse, &reading, &build, &mut Hooks::none())
            .map_err(|e| e.to_string())?;
    }
    Ok(path)
}

/// The best of all cells on flash over the plain form in DRAM.
fn best(plain: Cells) -> Step {
    super::single("the best cell on flash over plain DRAM", "flash.best", move |options| {
        let is_cell = |id: &String| id.contains(".vs_dram.") && !id.contains(".real.");
        if options.kept.keys().any(is_cell) {
            let what = "--resume kept cells, and results do not hold their times in plain DRAM";
            return Err(Unanswered::LeftOut(format!("{what}; run all cells at once")));
        }
        let cells = plain.borrow();
        let best = cells.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((cell, ratio)) = best else {
            return Err(missing("no cell of flash.*.vs_dram.* was measured in this run"));
        };
        let note = format!(
            "{cell}: data by pointer, over DRAM read directly without prefetch hints; the least of \
             {} cells measured in this run",
            cells.len()
        );
        let mut figure = Figure::new(*ratio, note);
        figure.notes.extend(cells.iter().map(|(cell, ratio)| format!("{cell}: {ratio:.3}")));
        Ok(figure)
    })
}

fn over_dram_figures(found: &VersusDram) -> Vec<Answer> {
    let dram = format!(
        "{}; the plain form took {:.3} ms",
        words(&found.dram),
        found.plain.total_ns() / 1e6
    );
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
            return Err("no latencies".into());
        };
        let note = "kron22, contexts by Little's law from the profile's latency and rate";
        let mut figure = Figure::new(last.time.total_ns() / first.time.total_ns(), note);
        figure
            .notes
            .extend(rows.iter().map(|row| format!("{} us: {}", row.latency_us, words(&row.time))));
        Ok(figure)
    })
}

fn over_suite(kernel: Kernel, model: Model, scale: u32, ratios: &Cells) -> Step {
    let claim = format!("flash.dram.vs_gapbs.{}.{}", kernel.name(), cell(model, scale));
    let (id, ratios) = (claim.clone(), Rc::clone(ratios));
    super::single("a kernel in DRAM over the GAP suite's", &claim, move |options| {
        let deltas = if model == Model::Road { ROAD_DELTAS } else { SUITE_DELTAS };
        let asked = (SUITE_ROUNDS, deltas);
        let found = open_for(kernel, options, model, scale).and_then(|graph| {
            versus_gapbs::measure(&graph, kernel, &options.peers, &options.scratch, asked)
        });
        let figure = super::answer(found, |found| suite_figure(kernel, &found))?;
        ratios.borrow_mut().push((id.clone(), figure.value));
        Ok(figure)
    })
}

/// The geometric mean of all cells beside the suite.
fn mean_over_suite(ratios: Cells, wanted: usize) -> Step {
    super::single("the mean over the GAP suite's", "flash.dram.vs_gapbs.mean", move |options| {
        let mut cells = ratios.borrow().clone();
        let kept = options.kept.iter().filter(|(id, _)| id.starts_with("flash.dram.vs_gapbs."));
        cells.extend(kept.map(|(id, ratio)| (id.clone(), *ratio)));
        if cells.len() < wanted {
            let have = cells.len();
            return Err(missing(format!("{have} of the {wanted} cells were measured")));
        }
        let mut figure = Figure::new(geometric_mean(&cells), format!("of {wanted} cells"));
        figure.notes.extend(cells.iter().map(|(id, ratio)| format!("{id}: {ratio:.3}")));
        Ok(figure)
    })
}

fn geometric_mean(cells: &[(String, f64)]) -> f64 {
    let logs = cells.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>();
    (logs / cells.len() as f64).exp()
}

fn two_threads(kernel: Kernel, model: Model, scale: u32) -> Step {
    let claim = format!("flash.dram.threads2.{}.{}", kernel.name(), cell(model, scale));
    super::single("a kernel in DRAM with two threads over one", &claim, move |options| {
        let found = open_for(kernel, options, model, scale)
            .and_then(|graph| threads::two_over_one(&graph, kernel, LONG_ROUNDS));
        super::answer(found, |found: Threads| {
            let mut figure = Figure::new(found.ratio(), format!("two {}", words(&found.two)));
            figure.notes.push(format!("one {}", words(&found.one)));
            figure
        })
    })
}

fn suite_figure(kernel: Kernel, found: &VersusGapbs) -> Figure {
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
    if kernel == Kernel::Tc {
        figure.notes.push("ours also leave out ranking vertices by degree".to_owned());
    }
    if let Kernel::Sssp(_) = kernel {
        figure.notes.push(format!("the suite's bins are {} wide", found.delta));
    }
    let words = format!("at most {RELABELLED_MAX} of GAPBS on our numbering");
    let relabelled = found.ratio_relabelled();
    figure.provided(relabelled <= RELABELLED_MAX, format!("{words}: {relabelled:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use littoral_bench::peers::Peers;

    #[test]
    fn means_and_the_best_follow_from_the_cells_before() {
        let cell = |name: &str, ratio| (name.to_owned(), ratio);
        assert!((geometric_mean(&[cell("a", 0.5), cell("b", 2.0)]) - 1.0).abs() < 1e-12);
        let options = options(None);
        let cells = Cells::default();
        let asked = |step: &mut Step| (step.measure)(&options).remove(0);
        let (mut best, mut mean) = (best(Rc::clone(&cells)), mean_over_suite(Rc::clone(&cells), 2));
        assert!(asked(&mut best).unwrap_err().to_string().contains("no cell"));
        cells.borrow_mut().push(cell("bfs on a", 0.9));
        assert!(asked(&mut mean).unwrap_err().to_string().contains("1 of the 2 cells"));
        cells.borrow_mut().push(cell("bfs on b", 0.4));
        assert_eq!(asked(&mut best).unwrap().value, 0.4);
        assert!((asked(&mut mean).unwrap().value - 0.6).abs() < 1e-12);
    }

    #[test]
    fn a_resumed_run_takes_the_mean_of_all_its_cells_and_no_best_of_some() {
        let resumed =
            |id: &str| Options { kept: BTreeMap::from([(id.to_owned(), 2.0)]), ..options(None) };
        let cells = || Rc::new(RefCell::new(vec![("bfs on a".to_owned(), 0.5)]));
        let mut mean = mean_over_suite(cells(), 2);
        let found = (mean.measure)(&resumed("flash.dram.vs_gapbs.pr.kron22")).remove(0);
        assert!((found.unwrap().value - 1.0).abs() < 1e-12);
        let mut best = best(cells());
        let found = (best.measure)(&resumed("flash.bfs.vs_dram.kron20.ptr")).remove(0);
        assert!(matches!(found.unwrap_err(), Unanswered::LeftOut(_)));
    }

    fn options(peers: Option<PathBuf>) -> Options {
        Options {
            quick: true,
            paper: false,
            scratch: peers.as_deref().unwrap_or(Path::new(".")).join("scratch"),
            peers: Peers::new(peers),
            program: PathBuf::new(),
            only: None,
            kept: BTreeMap::new(),
        }
    }

    #[test]
    fn a_users_graph_is_the_first_file_of_its_folder_or_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(open_real(&options(None)).unwrap_err(), Unanswered::Missing(_)));
        let options = options(Some(dir.path().to_owned()));
        assert!(open_real(&options).unwrap_err().to_string().contains("graphs"));
        std::fs::create_dir(dir.path().join("graphs")).unwrap();
        for (name, text) in [("b.el", "0 1\n"), ("a.el", "0 1\n1 2\n2 3\n")] {
            std::fs::write(dir.path().join("graphs").join(name), text).unwrap();
        }
        let graph = open_real(&options).unwrap();
        assert_eq!((graph.vertices(), graph.header().edges()), (4, 3));
        assert_eq!(real(Kernel::Sssp(Weights::Stored), &graph), Kernel::Sssp(Weights::Seeded));
        let figures = (over_dram_real(Kernel::Bfs).measure)(&options);
        let figure = figures.into_iter().next().unwrap().unwrap();
        assert!(!figure.conditions[0].0, "three edges are few: {figure:?}");
    }
}
