//! Graphs and their kernels, as the submodule `littoral.graph`.
//!
//! Invariants
//! - Row `i` of every answer is about the `i`-th vertex in ascending order of names: numbers as
//!   numbers, text by bytes. In a graph from arrays that is vertex `i`. Checked by
//!   `test_answers_of_small_graphs_by_hand`, `test_an_edge_list_with_names_is_opened`.
//! - A vertex that an answer names (a parent, a component) is a row too; -1 stands for none.
//!   Checked by `test_answers_of_small_graphs_by_hand`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use littoral::base::clock::WallClock;
use littoral::base::units::Bytes;
use littoral::device::profile::DeviceKind;
use littoral::device::region::Region;
use littoral::graph::answer::{Cells, Table, of_kernel};
use littoral::graph::builder::{BuildOptions, EdgeList, Existing, Hooks, build_in_region};
use littoral::graph::export::save;
use littoral::graph::format::file::GraphFile;
use littoral::graph::format::{Direction, VERTICES_MAX};
use littoral::graph::import::{Comments, Ids, ImportOptions, import, import_in_memory};
use littoral::graph::kernels::{
    Answer, Dangling, Kernel, Options, PageRankOptions, Sources, Summary, UNREACHED, Weights, run,
};
use littoral::graph::lists::ListReader;
use littoral::graph::medium::Store;
use littoral::graph::names::Labels;
use littoral::graph::{Error, Kind};
use littoral::machine::choice::{Choice, Word};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::{self, Columns, NUMBERING};
use crate::errors::{argument, raised};
use crate::work::{Job, long};

/// Arcs from which on work uses all processors unless told otherwise.
const ARCS_MANY: u64 = 1 << 17;

/// Vertices that columns of ids may stand for whatever edges there are, and that they may stand for
/// per edge: by large ids alone, a build would take all memory.
const VERTICES_FREE: u64 = 1 << 22;
const VERTICES_PER_EDGE: u64 = 64;

/// Adds the submodule.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = PyModule::new(parent.py(), "graph")?;
    module.add_class::<Graph>()?;
    parent.add_submodule(&module)?;
    // So that Python imports it by its whole name.
    let modules = parent.py().import("sys")?.getattr("modules")?;
    modules.set_item("littoral._littoral.graph", module)
}

/// A graph whose edges lie in memory or on a device.
#[pyclass(module = "littoral.graph", frozen)]
pub(crate) struct Graph {
    file: Arc<GraphFile>,
    store: Store,
    /// Row of each vertex, and vertex of each row; absent where they are equal.
    rows: Option<Rows>,
}

struct Rows {
    of_vertex: Vec<i32>,
    vertices: Vec<u32>,
}

type Row32<'py> = Bound<'py, PyArray1<i32>>;

impl Graph {
    /// A graph on an opened store.
    fn ready(file: GraphFile, store: Store) -> Result<Graph, Error> {
        let order = file.names()?.order();
        let is_plain = order.iter().zip(0u32..).all(|(&v, row)| v == row);
        let rows = (!is_plain).then(|| {
            let mut of_vertex = vec![0; order.len()];
            order.iter().zip(0i32..).for_each(|(&v, row)| of_vertex[v as usize] = row);
            Rows { of_vertex, vertices: order.to_vec() }
        });
        Ok(Graph { file: Arc::new(file), store, rows })
    }

    /// A built graph; its edges stay where they were built.
    fn in_dram(image: Region) -> Result<Graph, Error> {
        let file = GraphFile::from_region(image)?;
        let store = Store::in_dram(&file)?;
        Graph::ready(file, store)
    }

    fn build(
        py: Python<'_>,
        columns: Columns,
        (vertices, directed): (Option<u32>, bool),
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Graph> {
        let (source, target) = (columns.source, columns.target);
        if source.len() != target.len() {
            let what = format!("{} sources for {} targets", source.len(), target.len());
            return Err(argument(py, what));
        }
        if columns.weight.as_ref().is_some_and(|w| w.len() != source.len()) {
            let found = columns.weight.map_or(0, |w| w.len());
            return Err(argument(py, format!("{found} weights for {} edges", source.len())));
        }
        long(py, progress, move |job| {
            let edges: Vec<[u32; 2]> = source.iter().zip(&target).map(|(&s, &t)| [s, t]).collect();
            drop((source, target));
            let most = edges.iter().map(|e| e[0].max(e[1])).max();
            let counted = most.map_or(0, |v| v.saturating_add(1));
            let bound = VERTICES_FREE.max(VERTICES_PER_EDGE * edges.len() as u64);
            if vertices.is_none() && counted <= VERTICES_MAX && u64::from(counted) > bound {
                let what = format!(
                    "ids below {counted} for {} edges: most of them have none. {NUMBERING}; \
                     vertices={counted} takes them all",
                    edges.len()
                );
                return Err(Error::new(Kind::Argument, what));
            }
            let mut list = EdgeList::new(vertices.unwrap_or(counted), directed, edges);
            list.weights = columns.weight;
            let (image, _) = build_in_region(list, &BuildOptions::default(), &mut hooks(job))?;
            Graph::in_dram(image)
        })
    }

    /// Values by row.
    fn by_row<T: Copy>(&self, by_vertex: Vec<T>) -> Vec<T> {
        match &self.rows {
            None => by_vertex,
            Some(rows) => rows.vertices.iter().map(|&v| by_vertex[v as usize]).collect(),
        }
    }

    /// The row of a vertex.
    fn row(&self, v: u32) -> i32 {
        self.rows.as_ref().map_or(v as i32, |rows| rows.of_vertex[v as usize])
    }

    /// Vertices as rows, by row; `none` becomes -1.
    fn rows_by_row(&self, by_vertex: &[u32], none: u32) -> Vec<i32> {
        let row = |v: u32| if v == none { -1 } else { self.row(v) };
        match &self.rows {
            None => by_vertex.iter().map(|&v| row(v)).collect(),
            Some(rows) => rows.vertices.iter().map(|&v| row(by_vertex[v as usize])).collect(),
        }
    }

    /// Runs a kernel; the source is a name.
    fn run(
        &self,
        py: Python<'_>,
        kernel: Kernel,
        source: Option<&Bound<'_, PyAny>>,
        threads: Option<usize>,
    ) -> PyResult<(Summary, Answer)> {
        let sources = source.map(|name| self.vertex(py, name)).transpose()?.into_iter().collect();
        let few = self.file.header().arcs < ARCS_MANY;
        let threads = threads.unwrap_or_else(|| match few {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, usize::from),
        });
        long(py, None, |job| {
            let interrupt = Some(Arc::clone(&job.interrupt));
            let options = Options { sources, threads, interrupt, ..Options::default() };
            let clock = WallClock::new();
            let (report, answer) = run(&self.file, &self.store, kernel, &options, &clock)?;
            let last = report.trials.last().map(|trial| trial.summary);
            let summary = last.ok_or_else(|| Error::new(Kind::Argument, "no trial was run"))?;
            Ok((summary, answer))
        })
    }

    fn vertex(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<u32> {
        // What is a number or text may print as something else: a tensor, a member of an enum.
        let word = match name.extract::<String>() {
            Ok(text) => text,
            Err(_) => {
                let index = py.import("operator")?.call_method1("index", (name,));
                let what = || argument(py, format!("{name}: a vertex is named by int or str"));
                index.map_err(|_| what())?.str()?.to_string()
            }
        };
        let names = self.file.names().map_err(|e| raised(py, &e))?;
        names.find(&word).map_err(|e| raised(py, &e))
    }

    fn table(&self, py: Python<'_>, answer: &Answer) -> PyResult<Table> {
        py.detach(|| of_kernel(&self.file, answer, None)).map_err(|e| raised(py, &e))
    }
}

/// Progress and interrupt of a job, as builders take them.
fn hooks(job: &Job) -> Hooks<'_> {
    let progress = |stage, done, total| job.progress(&format!("{stage:?}"), done, total);
    Hooks::new(progress, &job.interrupt)
}

/// A kind of ids by its name.
fn ids_named(py: Python<'_>, word: &str) -> PyResult<Ids> {
    match word {
        "numbers" => Ok(Ids::Numbers),
        "text" => Ok(Ids::Text),
        _ => Err(argument(py, format!("ids={word:?}: it is \"numbers\" or \"text\""))),
    }
}

/// A number of bytes, or a text such as 2GiB.
fn bytes_of(py: Python<'_>, what: &str, size: &Bound<'_, PyAny>) -> PyResult<u64> {
    let text = size.str()?.to_string();
    let bytes = text.parse::<Bytes>().map(|bytes| bytes.0);
    bytes.map_err(|_| argument(py, format!("{what}={text}: it is bytes, or a text such as 2GiB")))
}

/// A graph file that has its name until this is dropped: who opened it before keeps it.
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        // One that stays behind is a graph file with a name that says whose it was.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An edge list, sorted within `bytes` bytes of memory into a file beside it.
fn imported(
    path: &Path,
    reading: &ImportOptions,
    bytes: u64,
    hooks: &mut Hooks<'_>,
) -> Result<Made, Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (list, id) = (path.file_name().unwrap_or_default().to_string_lossy(), std::process::id());
    // A process of the same number, as in a container, may have been killed and left its file.
    let made = loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let made = path.with_file_name(format!(".littoral-{id}-{number}-{list}.lg"));
        if made.symlink_metadata().is_err() {
            break made;
        }
    };
    let build = BuildOptions { memory_bytes: Some(bytes), ..BuildOptions::default() };
    build.check()?;
    import(path, &made, Existing::Refuse, reading, &build, hooks)?;
    Ok(Made(made))
}

fn mixed() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("a kernel answered for another; please report this")
}

/// Takes one kernel's answer.
macro_rules! answer {
    ($kernel:ident, $answer:expr) => {
        match $answer {
            Answer::$kernel(answer) => answer,
            _ => return Err(mixed()),
        }
    };
}

#[pymethods]
impl Graph {
    /// A graph from columns of ids: see `littoral.graph.Graph.from_arrays`.
    #[staticmethod]
    #[pyo3(signature = (
        source, target, weight=None, *, vertices=None, directed=false, progress=None
    ))]
    fn from_arrays(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        weight: Option<&Bound<'_, PyAny>>,
        vertices: Option<u32>,
        directed: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Graph> {
        let columns = Columns {
            source: columns::ids(py, "source", source)?,
            target: columns::ids(py, "target", target)?,
            weight: weight.map(|w| columns::weights(py, w)).transpose()?,
        };
        Graph::build(py, columns, (vertices, directed), progress)
    }

    /// A graph from named columns of a table that offers the Arrow interface.
    #[staticmethod]
    #[pyo3(signature = (
        table, source="source", target="target", weight=None, *, vertices=None, directed=false,
        progress=None
    ))]
    #[allow(clippy::too_many_arguments)] // Reason: they are keywords in Python.
    fn from_table(
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        source: &str,
        target: &str,
        weight: Option<&str>,
        vertices: Option<u32>,
        directed: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Graph> {
        let columns = columns::table(table, source, target, weight)?;
        Graph::build(py, columns, (vertices, directed), progress)
    }

    /// A graph from a graph file or an edge list, with its edges on a medium.
    #[staticmethod]
    #[pyo3(signature = (
        path, *, directed=None, columns=None, header=None, delimiter=None, comment=None, ids=None,
        format=None, memory=None, cache=None, medium=None, profile=None, machine=None, device=None,
        progress=None
    ))]
    #[allow(clippy::too_many_arguments)] // Reason: they are keywords in Python.
    fn open(
        py: Python<'_>,
        path: PathBuf,
        directed: Option<bool>,
        columns: Option<Vec<Bound<'_, PyAny>>>,
        header: Option<bool>,
        delimiter: Option<&str>,
        comment: Option<&str>,
        ids: Option<&str>,
        format: Option<&str>,
        memory: Option<&Bound<'_, PyAny>>,
        cache: Option<&Bound<'_, PyAny>>,
        medium: Option<&str>,
        profile: Option<String>,
        machine: Option<PathBuf>,
        device: Option<String>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Graph> {
        let word = medium.map(str::parse::<Word>).transpose().map_err(|e| raised(py, &e))?;
        let choice = Choice { machine, device, medium: word, profile, copies: false };
        let comments = comment.map(str::parse::<Comments>).transpose();
        let parsed = (format.map(str::parse).transpose(), delimiter.map(str::parse).transpose());
        let named = |all: Vec<Bound<'_, PyAny>>| {
            let each = all.iter().map(|column| Ok(column.str()?.to_string()));
            each.collect::<PyResult<Vec<String>>>()
        };
        let reading = ImportOptions {
            directed,
            header,
            columns: columns.map(named).transpose()?,
            ids: ids.map(|word| ids_named(py, word)).transpose()?,
            format: parsed.0.map_err(|e| raised(py, &e))?,
            delimiter: parsed.1.map_err(|e| raised(py, &e))?,
            comments: comments.map_err(|e| raised(py, &e))?,
            ..ImportOptions::default()
        };
        let memory_bytes = memory.map(|size| bytes_of(py, "memory", size)).transpose()?;
        let cache = cache.map(|size| bytes_of(py, "cache", size)).transpose()?;
        if GraphFile::is_at(&path) && (reading != ImportOptions::default() || memory.is_some()) {
            let shown = path.display();
            let what =
                format!("{shown} is a graph file; options for edge lists go with its import");
            return Err(argument(py, what));
        }
        let made = memory_bytes.map(|bytes| {
            long(py, progress, |job| imported(&path, &reading, bytes, &mut hooks(job)))
        });
        let made = made.transpose()?;
        let path = made.as_ref().map_or(path, |made| made.0.clone());
        let is_own = GraphFile::is_at(&path);
        // Edges that memory cannot hold stay in the file.
        let word = if made.is_some() { Word::Uring } else { Word::Dram };
        let resolved = choice.resolve(DeviceKind::Flash, is_own.then_some(&*path), word);
        let opened = resolved.and_then(|(machine, name)| machine.flash(&name));
        let device = opened.map_err(|e| raised(py, &e))?;
        long(py, progress, move |job| {
            let file = if is_own {
                GraphFile::open(&path)?
            } else {
                let build = BuildOptions::default();
                let (image, ..) = import_in_memory(&path, &reading, &build, &mut hooks(job))?;
                GraphFile::from_image(image)?
            };
            let store = Store::new(&file, device)?;
            Graph::ready(file, cache.into_iter().fold(store, Store::with_cache))
        })
    }

    /// Writes the graph file `path`.
    #[pyo3(signature = (path, *, overwrite=false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let existing = if overwrite { Existing::Replace } else { Existing::Refuse };
        long(py, None, |job| save(&self.file, &path, existing, &mut hooks(job)))
    }

    /// How many vertices.
    #[getter]
    fn vertices(&self) -> u32 {
        self.file.vertices()
    }

    /// How many edges; an undirected edge counts once.
    #[getter]
    fn edges(&self) -> u64 {
        self.file.header().edges()
    }

    /// Whether edges have a direction.
    #[getter]
    fn directed(&self) -> bool {
        self.file.is_directed()
    }

    /// Whether edges have weights.
    #[getter]
    fn weighted(&self) -> bool {
        self.file.is_weighted()
    }

    /// Where the edges are, and what is modelled.
    #[getter]
    fn medium(&self) -> String {
        self.store.describe()
    }

    /// What each row of an answer is called: an array of numbers, or a list of text.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let names = self.file.names().map_err(|e| raised(py, &e))?;
        let all = 0..self.file.vertices();
        Ok(match names.labels() {
            Labels::Identity => all.map(u64::from).collect::<Vec<_>>().into_pyarray(py).into_any(),
            Labels::Numbers(numbers) => self.by_row(numbers.clone()).into_pyarray(py).into_any(),
            Labels::Text(_) => {
                let rows = self.by_row(all.collect());
                let text: Vec<String> = rows.into_iter().map(|v| names.name(v)).collect();
                text.into_pyobject(py)?.into_any()
            }
        })
    }

    /// How many edges lead from each vertex, or to it.
    #[pyo3(signature = (*, incoming=false))]
    fn degrees<'py>(&self, py: Python<'py>, incoming: bool) -> Row32<'py> {
        let lists = if incoming { self.file.incoming() } else { self.file.outgoing() };
        let all = 0..self.file.vertices();
        self.by_row(all.map(|v| lists.degree(v) as i32).collect()).into_pyarray(py)
    }

    /// The rows of the vertices that edges lead to from a vertex, or that lead to it; ascending.
    #[pyo3(signature = (vertex, *, incoming=false))]
    fn neighbors<'py>(
        &self,
        py: Python<'py>,
        vertex: &Bound<'py, PyAny>,
        incoming: bool,
    ) -> PyResult<Row32<'py>> {
        let v = self.vertex(py, vertex)?;
        let direction = if incoming { Direction::In } else { Direction::Out };
        let list = py.detach(|| {
            let mut reader = ListReader::new(&self.file, direction);
            reader.list(v).map(|(targets, _)| targets.to_vec())
        });
        let list = list.map_err(|e| raised(py, &e))?;
        let mut rows: Vec<i32> = list.into_iter().map(|v| self.row(v)).collect();
        rows.sort_unstable();
        Ok(rows.into_pyarray(py))
    }

    /// The parent of each vertex in a breadth-first search.
    #[pyo3(signature = (source, *, threads=None))]
    fn bfs<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<Row32<'py>> {
        let parents = answer!(Bfs, self.run(py, Kernel::Bfs, Some(source), threads)?.1);
        Ok(self.rows_by_row(&parents, UNREACHED).into_pyarray(py))
    }

    /// The distance of each vertex from a source, in edges.
    #[pyo3(signature = (source, *, threads=None))]
    fn levels<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        threads: Option<usize>,
    ) -> PyResult<Row32<'py>> {
        let (_, answer) = self.run(py, Kernel::Bfs, Some(source), threads)?;
        let table = self.table(py, &answer)?;
        let mut levels = vec![-1; self.file.vertices() as usize];
        if let [vertex, level, ..] = table.columns()
            && let (Cells::Vertices(vertices), Cells::Counts(counts)) =
                (&vertex.cells, &level.cells)
        {
            vertices.iter().zip(counts).for_each(|(&v, &l)| levels[v as usize] = l as i32);
        }
        Ok(self.by_row(levels).into_pyarray(py))
    }

    /// The rank of each vertex, and a dictionary of iterations and the last change.
    #[pyo3(signature = (*, tol=1e-6, max_iter=100, dangling="spread", damping=0.85, threads=None))]
    fn pagerank<'py>(
        &self,
        py: Python<'py>,
        tol: f64,
        max_iter: u32,
        dangling: &str,
        damping: f64,
        threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, Bound<'py, PyDict>)> {
        if max_iter == 0 {
            // The kernel would answer ranks of no iteration, and no change.
            return Err(argument(py, "max_iter=0: it is at least 1".to_owned()));
        }
        let dangling = Dangling::named(dangling).map_err(|e| raised(py, &e))?;
        let options =
            PageRankOptions { iterations_max: max_iter, dangling, ..PageRankOptions::default() };
        let options = options.damped(damping).and_then(|options| options.within(tol));
        let options = options.map_err(|e| raised(py, &e))?;
        let (summary, answer) = self.run(py, Kernel::PageRank(options), None, threads)?;
        let ranks = self.by_row(answer!(PageRank, answer)).into_pyarray(py);
        let how = PyDict::new(py);
        if let Summary::PageRank(summary) = summary {
            how.set_item("iterations", summary.iterations_count)?;
            how.set_item("error", summary.error)?;
        }
        Ok((ranks, how))
    }

    /// The component of each vertex, called by one of its rows.
    #[pyo3(signature = (*, threads=None))]
    fn components<'py>(&self, py: Python<'py>, threads: Option<usize>) -> PyResult<Row32<'py>> {
        let labels = answer!(Components, self.run(py, Kernel::Components, None, threads)?.1);
        Ok(self.rows_by_row(&labels, u32::MAX).into_pyarray(py))
    }

    /// The distance of each vertex from a source, by weight.
    #[pyo3(signature = (source, *, weights="stored", threads=None))]
    fn sssp<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        weights: &str,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let weights = Weights::named(weights).map_err(|e| raised(py, &e))?;
        let distances =
            answer!(Sssp, self.run(py, Kernel::Sssp(weights), Some(source), threads)?.1);
        Ok(self.by_row(distances).into_pyarray(py))
    }

    /// The betweenness of each vertex.
    #[pyo3(signature = (*, sources="all", source=None, threads=None))]
    fn betweenness<'py>(
        &self,
        py: Python<'py>,
        sources: &str,
        source: Option<&Bound<'py, PyAny>>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let sources = Sources::named(sources).map_err(|e| raised(py, &e))?;
        if (sources == Sources::One) != source.is_some() {
            let what = "source goes with sources=\"one\", which needs it";
            return Err(argument(py, what.to_owned()));
        }
        let scores = answer!(Bc, self.run(py, Kernel::Bc(sources), source, threads)?.1);
        Ok(self.by_row(scores).into_pyarray(py))
    }

    /// The core number of each vertex.
    #[pyo3(signature = (*, threads=None))]
    fn core_numbers<'py>(&self, py: Python<'py>, threads: Option<usize>) -> PyResult<Row32<'py>> {
        let cores = answer!(Kcore, self.run(py, Kernel::Kcore, None, threads)?.1);
        let cores = cores.into_iter().map(|c| c as i32).collect();
        Ok(self.by_row(cores).into_pyarray(py))
    }

    /// How many triangles each vertex belongs to.
    #[pyo3(signature = (*, threads=None))]
    fn triangles<'py>(
        &self,
        py: Python<'py>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let triangles = answer!(Tc, self.run(py, Kernel::Tc, None, threads)?.1);
        let triangles = triangles.into_iter().map(|t| t as i64).collect();
        Ok(self.by_row(triangles).into_pyarray(py))
    }

    fn __len__(&self) -> usize {
        self.file.vertices() as usize
    }

    fn __repr__(&self) -> String {
        let kind = if self.file.is_directed() { "directed" } else { "undirected" };
        let (vertices, edges) = (self.vertices(), self.edges());
        format!("<littoral.graph.Graph, {kind}: {vertices} vertices, {edges} edges>")
    }
}
