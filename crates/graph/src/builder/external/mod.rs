//! Graph files out of core: edges are sorted in runs on the medium, not in memory
//! (`docs/design/external-build.md`).
//!
//! Lifecycle: edges as they are read -> sorted runs ([`runs`]) -> one run, each edge once, which
//! gives the degrees -> ids and placement, in memory -> arcs by page ([`buckets`]) -> pages
//! ([`pages`]) -> HEADS from the pages.
//!
//! Invariants
//! - The file is byte for byte that of [`super::write`] for the same edges and options. Checked by
//!   `the_file_is_the_one_made_in_memory`.
//! - Memory stays within [`Budget::bytes`]; what does not fit is refused with what would be needed.
//!   Checked by `what_does_not_fit_the_memory_is_refused_with_what_would`,
//!   `buckets_that_do_not_fit_the_memory_are_refused_with_what_would`.
//! - Temporary files have no names ([`spill`]), so nothing of them remains, however a build ends.
//!   Checked by `an_interrupt_at_any_step_ends_the_build`.

mod buckets;
mod pages;
mod record;
mod runs;
mod spill;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use littoral_base::units::Bytes;

use self::buckets::{BUCKETS_MAX, Cuts, Numbering, Scan};
use self::pages::{Pages, Written};
use self::record::Record;
use self::runs::{MergeLimits, Run, Runs};
use self::spill::{Scratch, Spill};
use super::csr::Side;
use super::order::by_degree;
use super::write::{SectionWriter, flags_of, header_of, write_names};
use super::{BuildOptions, BuildReport, EdgeSink, Hooks, Offer, Order, Shape, sides};
use crate::error::{Error, Kind, Result};
use crate::format::header::{Header, SectionKind};
use crate::format::vertices::VertexTable;
use crate::format::{Direction, Layout, VERTICES_MAX};
use crate::names::{Labels, Names, TextNames, order_bytes};
use crate::pack::addresses;

/// The least memory that a build out of core takes.
pub const MEMORY_MIN: u64 = 8 << 20;
/// Bytes per vertex while lists are placed: rank, degree, list address. While they are written
/// degrees are gone, and the number of a bucket takes 2.
const VERTEX_BYTES: u64 = 16;
/// The same per vertex for the degrees of a directed graph's other direction.
const VERTEX_BYTES_DIRECTED: u64 = 4;
/// The same per vertex for the ids of ranks, where ids are those of the input.
const VERTEX_BYTES_INPUT: u64 = 4;
/// Bytes of a bucket in memory over those of its pages. A list of one arc takes 12 B of a page, 16
/// with a weight; its record and its place take 32 B, 36 with a weight.
const BUCKET_OVER_PAGES: u64 = 4;

/// What a build out of core is going to do, stated before it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalPlan {
    /// The most memory that it takes.
    pub memory_bytes: u64,
    /// Edges of the input, estimated from its front where its format does not count them.
    pub edges_count: u64,
    /// About how many sorted runs the edges make.
    pub runs_count: u64,
    /// About how many bytes temporary files take at most.
    pub temporary_bytes: u64,
    /// About how many times temporary files are read.
    pub passes_count: u64,
    /// Where temporary files are.
    pub folder: PathBuf,
}

impl std::fmt::Display for ExternalPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "at most {} of memory; about {} edges in {} sorted runs, read {} times; about {} of \
             temporary files in {}",
            Bytes(self.memory_bytes),
            self.edges_count,
            self.runs_count,
            self.passes_count,
            Bytes(self.temporary_bytes),
            self.folder.display()
        )
    }
}

/// What a build out of core did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalReport {
    /// Sorted runs.
    pub runs_count: u64,
    /// Times that the edges were read from temporary files.
    pub passes_count: u64,
    /// The most bytes that temporary files held at one time.
    pub temporary_bytes: u64,
}

/// How the memory is shared out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// All of it.
    bytes: u64,
    /// What reading the input takes.
    reading: u64,
    /// The fewest bytes of a run.
    run_min: u64,
    fan_in: usize,
    fan_out: usize,
    /// Buckets are this many times smaller than the memory allows; 1 except in tests.
    bucket_split: u64,
}

impl Budget {
    /// Shares out `bytes`.
    ///
    /// # Errors
    /// `Kind::Argument` below [`MEMORY_MIN`].
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        if bytes < MEMORY_MIN {
            let least = Bytes(MEMORY_MIN);
            let context = format!("--memory {}: at least {least} is needed", Bytes(bytes));
            return Err(Error::new(Kind::Argument, context));
        }
        let fan = |buffer: u64| (bytes / 4 / buffer).clamp(2, 512) as usize;
        Ok(Budget {
            bytes,
            // Beside blocks, what the allocator keeps of them.
            reading: bytes / 4 + bytes / 10,
            run_min: 1 << 18,
            fan_in: fan(1 << 16),
            fan_out: fan(1 << 14),
            bucket_split: 1,
        })
    }

    /// Bytes of a block of text such that `blocks` of them with what is parsed of them fit the
    /// share of reading.
    pub(crate) fn block_bytes(&self, blocks: usize) -> usize {
        // A line is at least 4 bytes and becomes 16, in buffers that double as they grow.
        (self.reading as usize / (8 * blocks)).clamp(1 << 14, 1 << 20)
    }

    /// The most that a reader may hold beside its share, so that a run has room.
    #[cfg(feature = "arrow")]
    fn held_max(&self) -> u64 {
        self.bytes.saturating_sub(self.reading + self.run_min)
    }

    /// The least memory of which [`Self::held_max`] is `held`.
    #[cfg(feature = "arrow")]
    fn least_for(&self, held: u64) -> u64 {
        // Reading takes 7/20 of all. Whole MiB are said without rounding.
        let least = held.saturating_add(self.run_min).saturating_mul(20).div_ceil(13);
        least.div_ceil(1 << 20).saturating_mul(1 << 20)
    }

    fn short(&self, needed: u64, what: &str) -> Error {
        let (given, needed) = (Bytes(self.bytes), Bytes(needed));
        let context = format!("{what} more than --memory {given}; give it at least {needed}");
        Error::new(Kind::Memory, context)
    }

    /// Memory that `vertices` leave to buffers while lists are written.
    fn beside(&self, vertices: u32, directed: bool, order: Order) -> Result<u64> {
        let other = if directed { VERTEX_BYTES_DIRECTED } else { 0 };
        let ids = if order == Order::Input { VERTEX_BYTES_INPUT } else { 0 };
        let each = VERTEX_BYTES + other + ids;
        let tables = each * u64::from(vertices);
        let least = tables + (MEMORY_MIN >> 3);
        if least > self.bytes {
            return Err(self.short(least, &format!("{vertices} vertices take")));
        }
        Ok(self.bytes - tables)
    }

    /// How many pages a bucket has, so that one that holds the longest list too fits into `room`.
    ///
    /// # Errors
    /// `Kind::Memory` when as many buckets as there may be take more each.
    fn bucket_pages(&self, room: u64, layout: Layout, pages: u32, longest: u64) -> Result<u32> {
        let page_bytes = BUCKET_OVER_PAGES * layout.page_bytes() as u64;
        let fewest = u64::from(pages.div_ceil(BUCKETS_MAX).max(1));
        let least = longest + fewest * page_bytes;
        if least > room {
            let needed = self.bytes - room + least;
            return Err(self.short(needed, &format!("lists in {pages} pages take")));
        }
        let bytes = (room / 2).min(room - longest) / self.bucket_split;
        Ok((bytes / page_bytes).clamp(fewest, u64::from(u32::MAX)) as u32)
    }
}

/// Sorts edges as they are read, then writes the graph file.
pub(crate) struct Sorter {
    options: BuildOptions,
    budget: Budget,
    scratch: Rc<Scratch>,
    shape: Shape,
    edges: Edges,
    loops: u64,
    seen: u64,
}

/// Records of the kind that the input's edges need.
enum Edges {
    Plain(Unsorted<u64>),
    Weighted(Unsorted<[u32; 3]>),
}

/// Runs, and records that are in none yet.
struct Unsorted<R> {
    buffer: Vec<R>,
    runs: Runs<R>,
}

impl<R: Record> Unsorted<R> {
    fn new(budget: &Budget, scratch: &Rc<Scratch>) -> Self {
        let limits = MergeLimits { fan_in: budget.fan_in, bytes: (budget.bytes / 4) as usize };
        Unsorted { buffer: Vec::new(), runs: Runs::new(scratch, limits) }
    }

    /// Takes edges; a run is sorted as soon as the buffer and `held` bytes leave no room.
    fn take(
        &mut self,
        batch: impl Iterator<Item = R>,
        (held, budget, threads): (u64, &Budget, usize),
        hooks: &mut Hooks<'_>,
    ) -> Result<()> {
        let room = budget.bytes.saturating_sub(budget.reading + held);
        if room < budget.run_min {
            let needed = budget.bytes - room + budget.run_min;
            return Err(budget.short(2 * needed, "the names of vertices take"));
        }
        let room = room as usize / size_of::<R>();
        for record in batch {
            if self.buffer.len() >= room.min(self.buffer.capacity()) {
                let left = room * size_of::<R>();
                self.runs.add(&mut self.buffer, (threads, left), hooks)?;
                // A new buffer gives the pages of a larger one back to the system.
                self.buffer = Vec::with_capacity(room);
            }
            self.buffer.push(record);
        }
        Ok(())
    }
}

impl EdgeSink for Sorter {
    fn begin(&mut self, shape: Shape, hooks: &mut Hooks<'_>) -> Result<()> {
        if shape.weighted {
            self.edges = Edges::Weighted(Unsorted::new(&self.budget, &self.scratch));
        }
        self.shape = shape;
        hooks.plan(&self.plan());
        Ok(())
    }

    fn take(&mut self, offer: Offer<'_>, hooks: &mut Hooks<'_>) -> Result<()> {
        let Offer { edges, weights, held_bytes } = offer;
        self.seen += edges.len() as u64;
        let loops = edges.iter().filter(|e| e[0] == e[1]).count() as u64;
        self.loops += loops;
        let directed = self.shape.directed;
        // An undirected edge is kept once, from the smaller id.
        let ends = |[a, b]: [u32; 2]| if directed || a < b { [a, b] } else { [b, a] };
        let limits = (held_bytes, &self.budget, self.options.threads);
        match (&mut self.edges, weights) {
            (Edges::Plain(unsorted), _) => {
                let proper = edges.iter().filter(|e| e[0] != e[1]);
                unsorted.take(proper.map(|&e| u64::new(ends(e), 0.0)), limits, hooks)?;
            }
            (Edges::Weighted(unsorted), weights) => {
                let weights = weights.expect("invariant: a weighted shape brings weights");
                let both = edges.iter().zip(weights.iter()).filter(|(e, _)| e[0] != e[1]);
                let records = both.map(|(&e, &w)| <[u32; 3]>::new(ends(e), w));
                unsorted.take(records, limits, hooks)?;
                weights.clear();
            }
        }
        edges.clear();
        Ok(())
    }

    fn block_bytes(&self, blocks: usize) -> Option<usize> {
        Some(self.budget.block_bytes(blocks))
    }

    #[cfg(feature = "arrow")]
    fn held_max(&self) -> Option<u64> {
        Some(self.budget.held_max())
    }

    #[cfg(feature = "arrow")]
    fn short(&self, bytes: u64, what: &str) -> Error {
        self.budget.short(self.budget.least_for(bytes), what)
    }
}

/// What the reader knows when all edges are read.
pub(crate) struct Vertices {
    /// How many.
    pub(crate) count: u32,
    /// What they are called.
    pub(crate) labels: Labels,
}

impl Sorter {
    /// A sorter whose temporary files lie in `folder`.
    pub(crate) fn new(options: &BuildOptions, budget: Budget, folder: &Path) -> Self {
        let scratch = Scratch::new(folder);
        let edges = Edges::Plain(Unsorted::new(&budget, &scratch));
        let shape = Shape::default();
        Sorter { options: *options, budget, scratch, shape, edges, loops: 0, seen: 0 }
    }

    fn plan(&self) -> ExternalPlan {
        let edges_count = self.shape.edges_count;
        let record = if self.shape.weighted { 12 } else { 8 };
        let bytes = edges_count.saturating_mul(record);
        let runs_count = bytes.div_ceil((self.budget.bytes / 2).max(1)).max(1);
        ExternalPlan {
            memory_bytes: self.budget.bytes,
            edges_count,
            runs_count,
            // The runs and their merge; then the merge and arcs, scan by scan.
            temporary_bytes: bytes.saturating_mul(2).saturating_add(bytes / 10),
            passes_count: 3,
            folder: self.scratch.folder().to_path_buf(),
        }
    }

    /// Writes the graph file onto `out`; `path` is for messages.
    ///
    /// # Errors
    /// As [`super::build_file`], and `Kind::Memory` when the vertices alone need more.
    pub(crate) fn finish(
        self,
        vertices: Vertices,
        out: &mut File,
        path: &Path,
        hooks: &mut Hooks<'_>,
    ) -> Result<BuildReport> {
        let Sorter { options, budget, scratch, shape, edges, loops, seen } = self;
        if vertices.count == 0 || vertices.count > VERTICES_MAX {
            let context = format!("{} vertices; a graph has 1 to {VERTICES_MAX}", vertices.count);
            return Err(Error::new(Kind::Input, context));
        }
        let room = budget.beside(vertices.count, shape.directed, options.order)?;
        let layout = options.layout()?.paired(shape.weighted);
        let build = Build { options, budget, scratch, shape, layout, room, loops, seen };
        match edges {
            Edges::Plain(unsorted) => build.run(unsorted, vertices, out, path, hooks),
            Edges::Weighted(unsorted) => build.run(unsorted, vertices, out, path, hooks),
        }
    }
}

/// A build whose edges are all read.
struct Build {
    options: BuildOptions,
    budget: Budget,
    scratch: Rc<Scratch>,
    shape: Shape,
    layout: Layout,
    /// Memory beside the tables of vertices.
    room: u64,
    loops: u64,
    seen: u64,
}

/// Each vertex's neighbours in each direction of the file, once edges are counted.
struct Degrees {
    out: Vec<u32>,
    into: Vec<u32>,
}

impl Degrees {
    fn new(vertices: u32, directed: bool) -> Self {
        let zero = |on: bool| if on { vec![0; vertices as usize] } else { Vec::new() };
        Degrees { out: zero(true), into: zero(directed) }
    }

    #[inline(always)]
    fn count(&mut self, [a, b]: [u32; 2], directed: bool) {
        self.out[a as usize] += 1;
        let other = if directed { &mut self.into } else { &mut self.out };
        other[b as usize] += 1;
    }

    fn total(&self) -> Vec<u32> {
        let into = self.into.iter().copied().chain(std::iter::repeat(0));
        self.out.iter().zip(into).map(|(&o, i)| o + i).collect()
    }
}

/// Ids, and what was counted.
struct Ranked {
    rank: Vec<u32>,
    /// The inverse of `rank` where ids are not ranks.
    name: Option<Vec<u32>>,
    degrees: Degrees,
}

impl Ranked {
    /// Ranks vertices; degrees then go by id.
    fn new(mut degrees: Degrees, directed: bool, order: Order) -> Self {
        let ranking = if directed { by_degree(&degrees.total()) } else { by_degree(&degrees.out) };
        if order == Order::Input {
            return Ranked { rank: ranking.rank, name: Some(ranking.old), degrees };
        }
        for of_direction in [&mut degrees.out, &mut degrees.into] {
            if !of_direction.is_empty() {
                let by_id = ranking.old.iter().map(|&old| of_direction[old as usize]).collect();
                *of_direction = by_id;
            }
        }
        Ranked { rank: ranking.rank, name: None, degrees }
    }
}

/// What became of one direction.
struct Placed {
    pages: u32,
    padding_words: u64,
    scans: u64,
}

impl Build {
    fn run<R: Record>(
        &self,
        unsorted: Unsorted<R>,
        vertices: Vertices,
        out: &mut File,
        path: &Path,
        hooks: &mut Hooks<'_>,
    ) -> Result<BuildReport> {
        let (directed, by_rank) = (self.shape.directed, self.options.order == Order::Degree);
        let labels = HeldLabels::new(vertices.labels, &self.budget, vertices.count, &self.scratch)?;
        let Unsorted { mut buffer, mut runs } = unsorted;
        if !buffer.is_empty() {
            let left = self.budget.bytes as usize;
            runs.add(&mut buffer, (self.options.threads, left), hooks)?;
        }
        drop(buffer);
        let runs_count = runs.made;
        let mut degrees = Degrees::new(vertices.count, directed);
        let edges = runs.into_one(|edge: R| degrees.count(edge.ends(), directed), hooks)?;
        let duplicates = self.seen - self.loops - edges.len();
        let mut ranked = Ranked::new(degrees, directed, self.options.order);
        let mut header = header_of(vertices.count, &self.options, self.shape.weighted);
        header.arcs = edges.len() * if directed { 1 } else { 2 };
        (header.loops_removed, header.duplicates_removed) = (self.loops, duplicates);
        let mut out = SectionWriter::new(out, path)?;
        let (mut pages, mut padding, mut passes) = (0, 0, 1);
        for &(direction, side) in sides(directed) {
            let placed = self.direction(
                (direction, side),
                &edges,
                &mut ranked,
                &mut header,
                &mut out,
                hooks,
            )?;
            pages += u64::from(placed.pages);
            padding += placed.padding_words;
            passes += placed.scans;
        }
        drop(edges);
        let Ranked { rank, .. } = ranked;
        let labels = labels.load()?.permuted(&old_ids(rank, by_rank));
        header.flags = flags_of(directed, self.shape.weighted, by_rank, &labels);
        write_names(&Names::new(labels, vertices.count), &mut out)?;
        out.finish(&mut header)?;
        let temporary_bytes = self.scratch.peak_bytes();
        let external = ExternalReport { runs_count, passes_count: passes, temporary_bytes };
        let report = BuildReport::of(&header, pages, padding, self.layout);
        Ok(BuildReport { external: Some(external), ..report })
    }

    /// Places and writes the lists of one direction.
    fn direction<R: Record>(
        &self,
        (direction, side): (Direction, Side),
        edges: &Run<R>,
        ranked: &mut Ranked,
        header: &mut Header,
        out: &mut SectionWriter<'_, File>,
        hooks: &mut Hooks<'_>,
    ) -> Result<Placed> {
        let degrees = std::mem::take(match direction {
            Direction::Out => &mut ranked.degrees.out,
            Direction::In => &mut ranked.degrees.into,
        });
        // A list is never cut: the bucket that holds the longest one is in memory whole.
        let longest = degrees.iter().copied().max().map_or(0, u64::from) * size_of::<R>() as u64;
        if longest > self.room {
            let needed = self.budget.bytes - self.room + longest;
            return Err(self.budget.short(needed, "the longest list takes"));
        }
        let arc_words = self.layout.arc_words() as u32;
        let words = degrees.iter().map(|d| d * arc_words);
        let placed = addresses(words, self.layout, self.options.window())?;
        let table = VertexTable::encode_in(placed.addr, &degrees);
        drop(degrees);
        if direction == Direction::Out {
            header.generation = littoral_base::codec::crc(bytemuck::cast_slice(table.entries()));
        }
        let bucket_pages =
            self.budget.bucket_pages(self.room, self.layout, placed.pages, longest)?;
        let cuts = Cuts::new(&table, self.layout, placed.pages, bucket_pages);
        let numbering = Numbering { rank: &ranked.rank, by_rank: ranked.name.is_none() };
        let buffer_bytes = (self.room / 2) as usize;
        let bucket = cuts.of_vertices(&table, &numbering);
        let scan = Scan { bucket: &bucket, numbering, side, buffer_bytes };
        let filler = Pages {
            table: &table,
            layout: self.layout,
            direction,
            generation: header.generation,
            name: ranked.name.as_deref(),
        };
        let scans = cuts.scans(&table, self.budget.fan_out, edges.len() + edges.len() / 20);
        let extent = out.begin(SectionKind::Pages, direction);
        for range in &scans {
            let buckets = scan.run(edges, range.clone(), &self.scratch, hooks)?.settle()?;
            let mut arcs = Vec::new();
            for (i, bucket) in range.clone().enumerate() {
                buckets.load(i, &mut arcs)?;
                let pages = cuts.pages(bucket);
                filler.write(&arcs, pages.clone(), out)?;
                let done = u64::from(pages.end);
                hooks.step(super::Stage::Writing, done, u64::from(placed.pages))?;
            }
        }
        out.end()?;
        write_table(&table, direction, out)?;
        let mut written = Written::new(out.path(), extent, self.layout, buffer_bytes);
        written.heads(&table, header.heads, direction, out)?;
        Ok(Placed {
            pages: placed.pages,
            padding_words: placed.padding_words,
            scans: scans.len() as u64,
        })
    }
}

fn write_table(
    table: &VertexTable,
    direction: Direction,
    out: &mut SectionWriter<'_, File>,
) -> Result<()> {
    out.section(SectionKind::Vertices, direction, bytemuck::cast_slice(table.entries()))?;
    out.section(SectionKind::Overflow, direction, bytemuck::cast_slice(table.overflow()))
}

/// `old[id]` for each id of the file.
fn old_ids(rank: Vec<u32>, by_rank: bool) -> Vec<u32> {
    let mut old: Vec<u32> = (0..rank.len() as u32).collect();
    if by_rank {
        for (v, &place) in (0u32..).zip(&rank) {
            old[place as usize] = v;
        }
    }
    old
}

/// Labels in a temporary file while lists are sorted.
enum HeldLabels {
    Identity,
    Numbers(Spill),
    /// Offsets, and the names' bytes from the offset on.
    Text(Spill, u64),
}

impl HeldLabels {
    fn new(
        labels: Labels,
        budget: &Budget,
        vertices: u32,
        scratch: &Rc<Scratch>,
    ) -> Result<HeldLabels> {
        // In the end names lie in memory twice, while they are put into the order of ids, and then
        // once, beside what sorts them.
        let (held, sorting) = match &labels {
            Labels::Identity => (0, 0),
            Labels::Numbers(names) => (8 * names.len() as u64, order_bytes(names, vertices)),
            Labels::Text(names) => (names.bytes_held(), 4 * u64::from(vertices)),
        };
        let needed = (2 * held + 4 * u64::from(vertices)).max(held + sorting);
        if needed > budget.bytes {
            return Err(budget.short(needed, "the names of vertices take"));
        }
        Ok(match labels {
            Labels::Identity => HeldLabels::Identity,
            Labels::Numbers(names) => {
                let mut spill = scratch.file()?;
                spill.append(bytemuck::cast_slice(&names))?;
                HeldLabels::Numbers(spill)
            }
            Labels::Text(names) => {
                let mut spill = scratch.file()?;
                let (offsets, bytes) = names.parts();
                spill.append(bytemuck::cast_slice(offsets))?;
                let at = spill.append(bytes)?;
                HeldLabels::Text(spill, at)
            }
        })
    }

    fn load(self) -> Result<Labels> {
        match self {
            HeldLabels::Identity => Ok(Labels::Identity),
            HeldLabels::Numbers(spill) => {
                let mut names = vec![0u64; spill.bytes() as usize / 8];
                spill.read(0, bytemuck::cast_slice_mut(&mut names))?;
                Ok(Labels::Numbers(names))
            }
            HeldLabels::Text(spill, at) => {
                let mut offsets = vec![0u64; at as usize / 8];
                spill.read(0, bytemuck::cast_slice_mut(&mut offsets))?;
                let mut bytes = vec![0; (spill.bytes() - at) as usize];
                spill.read(at, &mut bytes)?;
                Ok(Labels::Text(TextNames::from_parts(offsets, bytes)?))
            }
        }
    }
}

#[cfg(test)]
mod tests;
