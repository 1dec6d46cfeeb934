//! From edges to a graph file: lists, order, placement, pages.
//!
//! Lifecycle: edges -> one list a vertex by counting sort ([`csr`]) -> duplicates out -> ids by
//! degree ([`order`]) -> placement from degrees ([`crate::pack`]) -> sections, pages filled in
//! parallel ([`write`](mod@write)) -> rename.
//!
//! Memory: 8 B an edge, 4 B an arc (8 B weighted) for one direction at a time plus 8 B of headroom,
//! about 40 B a vertex; the edges are dropped when their lists are there.
//!
//! Invariants
//! - The file depends on the edges and options alone, never on the number of threads. Checked by
//!   `threads_do_not_change_a_byte`.
//! - An interrupt ends the work with `Kind::Interrupted` and leaves no file behind. Checked by
//!   `existing_files_are_replaced_only_on_request_and_interrupts_leave_nothing`.
//! - With [`BuildOptions::memory_bytes`] an import sorts in temporary files ([`external`]), and
//!   the file is the same. Checked by `the_file_is_the_one_made_in_memory`.

mod csr;
pub(crate) mod external;
mod image;
mod locality;
mod order;
mod radix;
pub mod write;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use littoral_device::region::Region;

pub use self::external::{ExternalPlan, ExternalReport, MEMORY_MIN};
use crate::error::{Error, Kind, Result};
use crate::format::header::{HEADS_DEFAULT, HEADS_MAX, Header};
use crate::format::{Direction, Layout, PAGE_BYTES_DEFAULT, VERTICES_MAX};
use crate::names::Labels;
use crate::pack::{WINDOW_PAGES, WINDOW_PAGES_INPUT};

/// How internal ids are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// Highest degree first, equal degrees by first appearance.
    #[default]
    Degree,
    /// As the input has them.
    Input,
    /// Vertices that are near each other get ids near each other ([`locality`]).
    Bfs,
    /// By degree where few vertices hold most arcs, else by locality.
    Auto,
}

/// What becomes of a file that is already where another is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Existing {
    /// It stays, and the work is refused.
    #[default]
    Refuse,
    /// It is replaced once the new file is whole.
    Replace,
}

/// The edges of a graph and what its vertices are called.
#[derive(Clone, Debug)]
pub struct EdgeList {
    /// How many vertices; every id is below it.
    pub vertices: u32,
    /// Whether edges lead from the first to the second vertex only.
    pub directed: bool,
    /// Edges, self-loops and duplicates included.
    pub edges: Vec<[u32; 2]>,
    /// One weight an edge, finite and not negative.
    pub weights: Option<Vec<f32>>,
    /// What the vertices are called.
    pub labels: Labels,
}

impl EdgeList {
    /// An unweighted graph whose vertices are called by their numbers.
    pub fn new(vertices: u32, directed: bool, edges: Vec<[u32; 2]>) -> Self {
        EdgeList { vertices, directed, edges, weights: None, labels: Labels::Identity }
    }

    fn check(&self) -> Result<()> {
        let bad = |context: String| Err(Error::new(Kind::Input, context));
        if self.vertices == 0 {
            return bad("the graph is empty: it has no vertices".to_owned());
        }
        if self.vertices > VERTICES_MAX {
            return bad(format!("{} vertices; at most {VERTICES_MAX}", self.vertices));
        }
        let outside = self.edges.iter().position(|e| e[0].max(e[1]) >= self.vertices);
        if let Some(i) = outside {
            return bad(format!("edge {i} leads out of {} vertices", self.vertices));
        }
        let Some(weights) = &self.weights else { return Ok(()) };
        if weights.len() != self.edges.len() {
            return bad(format!("{} weights for {} edges", weights.len(), self.edges.len()));
        }
        match weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            Some(i) => bad(format!("edge {i} has weight {}; weights are >= 0", weights[i])),
            None => Ok(()),
        }
    }
}

/// How a graph file is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// Bytes of a page: a power of two from 512 to 65536.
    pub page_bytes: u32,
    /// Neighbours of each vertex repeated in HEADS, at most [`HEADS_MAX`].
    pub heads: u32,
    /// How internal ids are given.
    pub order: Order,
    /// Open pages while packing; by default [`WINDOW_PAGES`] by degree, [`WINDOW_PAGES_INPUT`] as
    /// input.
    pub window_pages: Option<usize>,
    /// Threads to build with.
    pub threads: usize,
    /// The most memory that an import takes, at least [`MEMORY_MIN`]: edges are then sorted in
    /// temporary files beside the output. Without it edges are sorted in memory, however many.
    pub memory_bytes: Option<u64>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        BuildOptions {
            page_bytes: PAGE_BYTES_DEFAULT,
            heads: HEADS_DEFAULT,
            order: Order::Degree,
            window_pages: None,
            threads,
            memory_bytes: None,
        }
    }
}

impl BuildOptions {
    fn window(&self) -> usize {
        self.window_pages.unwrap_or(match self.order {
            Order::Degree => WINDOW_PAGES,
            Order::Input | Order::Bfs | Order::Auto => WINDOW_PAGES_INPUT,
        })
    }

    /// Says whether a graph file can be made with these options.
    ///
    /// # Errors
    /// `Kind::Argument`, saying what would be possible.
    pub fn check(&self) -> Result<()> {
        if let Some(bytes) = self.memory_bytes {
            external::Budget::new(bytes)?;
            if matches!(self.order, Order::Bfs | Order::Auto) {
                let context = "numbers by locality need all lists in memory: with --memory, choose \
                               --order degree or input";
                return Err(Error::new(Kind::Argument, context));
            }
        }
        self.layout().map(drop)
    }

    fn layout(&self) -> Result<Layout> {
        if self.heads > HEADS_MAX || self.window_pages == Some(0) || self.threads == 0 {
            let context = format!("heads at most {HEADS_MAX}; window and threads at least 1");
            return Err(Error::new(Kind::Argument, context));
        }
        Layout::new(self.page_bytes)
    }
}

/// What is being done, for a progress display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Reading the input; counted in bytes of it.
    Reading,
    /// Drawing edges; counted in edges.
    Generating,
    /// Sorting edges into lists; counted in steps, out of core in edges.
    Sorting,
    /// Merging sorted runs of edges; counted in edges.
    Merging,
    /// Writing pages; counted in pages.
    Writing,
    /// Checking pages; counted in pages.
    Checking,
}

/// Receives progress: stage, done, total (0 when unknown).
pub type Progress<'a> = dyn FnMut(Stage, u64, u64) + 'a;

/// Receives what a build out of core is going to do.
type PlanHook<'a> = dyn FnMut(&ExternalPlan) + 'a;

/// How long work keeps in touch with the caller.
pub struct Hooks<'a> {
    progress: Option<Box<Progress<'a>>>,
    plan: Option<Box<PlanHook<'a>>>,
    interrupt: Option<&'a AtomicBool>,
}

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").field("interrupt", &self.interrupt).finish_non_exhaustive()
    }
}

impl<'a> Hooks<'a> {
    /// Without a listener and without interruption.
    pub fn none() -> Self {
        Hooks { progress: None, plan: None, interrupt: None }
    }

    /// Progress goes to `progress`; work stops soon after `interrupt` is set.
    pub fn new(progress: impl FnMut(Stage, u64, u64) + 'a, interrupt: &'a AtomicBool) -> Self {
        Hooks { progress: Some(Box::new(progress)), plan: None, interrupt: Some(interrupt) }
    }

    /// What a build out of core is going to do goes to `plan`, before the first edge is sorted.
    #[must_use]
    pub fn with_plan(self, plan: impl FnMut(&ExternalPlan) + 'a) -> Self {
        Hooks { plan: Some(Box::new(plan)), ..self }
    }

    /// Hands out what a build is going to do.
    pub(crate) fn plan(&mut self, plan: &ExternalPlan) {
        if let Some(told) = &mut self.plan {
            told(plan);
        }
    }

    /// Reports progress and looks whether to go on.
    ///
    /// # Errors
    /// `Kind::Interrupted` once the flag is set.
    pub fn step(&mut self, stage: Stage, done: u64, total: u64) -> Result<()> {
        if let Some(progress) = &mut self.progress {
            progress(stage, done, total);
        }
        if self.interrupt.is_some_and(|i| i.load(Ordering::Relaxed)) {
            return Err(Error::new(Kind::Interrupted, "interrupted; nothing was written"));
        }
        Ok(())
    }
}

/// What a build did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BuildReport {
    /// Vertices.
    pub vertices: u32,
    /// Edges kept.
    pub edges: u64,
    /// Self-loops removed.
    pub loops_removed: u64,
    /// Duplicate edges removed.
    pub duplicates_removed: u64,
    /// Pages over all directions.
    pub pages: u64,
    /// Padding as a share of all page words.
    pub padding_share: f64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// What went through temporary files, where `--memory` bounds the build.
    pub external: Option<ExternalReport>,
}

impl BuildReport {
    /// What is in a file with this header.
    fn of(header: &Header, pages: u64, padding_words: u64, layout: Layout) -> Self {
        BuildReport {
            vertices: header.vertices,
            edges: header.edges(),
            loops_removed: header.loops_removed,
            duplicates_removed: header.duplicates_removed,
            pages,
            padding_share: padding_words as f64
                / (pages.max(1) * layout.page_words() as u64) as f64,
            file_bytes: header.file_bytes,
            external: None,
        }
    }
}

/// What is known of a graph's edges before they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Whether edges lead from the first to the second vertex only.
    pub(crate) directed: bool,
    /// Whether edges have weights.
    pub(crate) weighted: bool,
    /// How many edges there are, about.
    pub(crate) edges_count: u64,
}

/// Edges that a reader has found and offers to a sink.
pub(crate) struct Offer<'a> {
    /// The edges; the sink clears what it takes.
    pub(crate) edges: &'a mut Vec<[u32; 2]>,
    /// One weight per edge, where the shape has weights.
    pub(crate) weights: Option<&'a mut Vec<f32>>,
    /// Bytes that the reader itself holds: names, and what a decoder keeps.
    pub(crate) held_bytes: u64,
}

/// Receives edges as they are read. Unless a method says otherwise, all edges stay with the reader.
pub(crate) trait EdgeSink {
    /// Says what edges will come, before the first of them.
    fn begin(&mut self, _shape: Shape, _hooks: &mut Hooks<'_>) -> Result<()> {
        Ok(())
    }

    /// Takes edges, or leaves them.
    fn take(&mut self, _offer: Offer<'_>, _hooks: &mut Hooks<'_>) -> Result<()> {
        Ok(())
    }

    /// Bytes of a block when `_blocks` of them are in memory; none where memory is not bounded.
    fn block_bytes(&self, _blocks: usize) -> Option<usize> {
        None
    }

    /// The most that a reader may hold beside its blocks; none where memory is not bounded.
    #[cfg(feature = "arrow")]
    fn held_max(&self) -> Option<u64> {
        None
    }

    /// The refusal of a reader that holds `bytes` beside its blocks, which is more than
    /// [`Self::held_max`]; `what` is what takes them, with its verb.
    #[cfg(feature = "arrow")]
    fn short(&self, bytes: u64, what: &str) -> Error {
        Error::new(Kind::Memory, format!("{what} {bytes} bytes, more than there are"))
    }
}

/// Leaves all edges with the reader.
pub(crate) struct InMemory;

impl EdgeSink for InMemory {}

/// The directions that a file stores, and which ends of an edge have it in their lists.
fn sides(directed: bool) -> &'static [(Direction, csr::Side)] {
    if directed {
        &[(Direction::Out, csr::Side::Source), (Direction::In, csr::Side::Target)]
    } else {
        &[(Direction::Out, csr::Side::Both)]
    }
}

/// Builds a graph file in memory.
///
/// ```
/// use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
/// use littoral_graph::format::file::GraphFile;
/// let edges = EdgeList::new(3, false, vec![[0, 1], [1, 2], [1, 1]]);
/// let (image, report) = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none())?;
/// let graph = GraphFile::from_image(image)?;
/// assert_eq!((graph.header().edges(), report.loops_removed), (2, 1));
/// # Ok::<(), littoral_graph::Error>(())
/// ```
///
/// # Errors
/// `Kind::Input` for edges out of range, bad weights or an empty graph; `Kind::Argument` for
/// options.
pub fn build_in_memory(
    edges: EdgeList,
    options: &BuildOptions,
    hooks: &mut Hooks<'_>,
) -> Result<(Vec<u8>, BuildReport)> {
    let mut out = std::io::Cursor::new(Vec::new());
    let report = write::build(edges, options, &mut out, Path::new("(memory)"), hooks)?;
    Ok((out.into_inner(), report))
}

/// As [`build_in_memory`], into memory that a device in DRAM takes as its contents without a copy.
///
/// # Errors
/// As [`build_in_memory`]; `Kind::Io` when there is no memory.
pub fn build_in_region(
    edges: EdgeList,
    options: &BuildOptions,
    hooks: &mut Hooks<'_>,
) -> Result<(Region, BuildReport)> {
    let path = Path::new("(memory)");
    let out = image::RegionWriter::for_edges(&edges, options);
    let mut out = out.map_err(|e| crate::error::io("cannot take memory for", path, e))?;
    let report = write::build(edges, options, &mut out, path, hooks)?;
    Ok((out.finish(), report))
}

/// Builds a graph file at `path`: written beside it under another name, synced, renamed.
///
/// # Errors
/// As [`build_in_memory`]; `Kind::Argument` when `path` exists and `existing` refuses it;
/// `Kind::Io` when writing fails. The final name is untouched then.
pub fn build_file(
    edges: EdgeList,
    options: &BuildOptions,
    path: &Path,
    existing: Existing,
    hooks: &mut Hooks<'_>,
) -> Result<BuildReport> {
    write::to_file(path, existing, |out, temporary| {
        write::build(edges, options, out, temporary, hooks)
    })
}
