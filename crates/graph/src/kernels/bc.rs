//! Betweenness centrality by Brandes' algorithm, from one source, from sampled ones, or from all.
//!
//! Per source: levels forward from the source, counting shortest paths; then levels backward, in
//! which a vertex gathers from its successors the share of their paths that leads through it.
//!
//! Steps: clear -> per level: lists of the frontier, path counts added, the vertices found become
//! the next level -> per level backward: shares of the level below, lists of this level.
//!
//! Invariants
//! - Every edge has length 1, so a successor is a neighbour one level down. A set of the vertices
//!   one level down is all that the backward pass tests per arc. Checked by
//!   `answers_verify_in_memory`.
//! - Every list is read at most twice per source: forward, and backward except of the source and on
//!   the last level. Checked by `betweenness_reads_each_list_at_most_twice`.
//! - The list of a leaf of an undirected graph is read only from the leaf as the source: its one
//!   arc leads back. Checked by `lists_that_lead_back_are_not_read_except_for_the_source`.
//! - Sums are of double precision. A source with more shortest paths to a vertex than
//!   [`PATHS_MAX`] is refused: shares of larger counts would lose digits. Checked by
//!   `more_paths_than_a_double_holds_are_refused`.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use littoral_base::mutant;
use littoral_base::rng::{Rng, seeded};

use super::algorithm::{Algorithm, Figure, Given, Jobs, OptionSpec, Spec};
use super::bits::{Bitmap, words_u64};
use super::hubs::{Hubs, VertexShare};
use super::team::{Cursor, Member, Stepped};
use crate::edges::raw::prefetch;
use crate::edges::{Edges, Item, ListWork, Part, Verdict};
use crate::error::{Error, Kind, Result};
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::table::{ByName, Cells, Column, Table, first, vertices};

mod verify;

/// Sources of a sampled run.
pub const SAMPLED_SOURCES: u32 = 32;
/// Lists taken at a time by a member when there are several.
const LISTS_CHUNK: usize = 64;
/// The most shortest paths to a vertex: one over it is still a normal number with room for sums.
const PATHS_MAX: f64 = 1e280;

/// From which sources shortest paths are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// From the run's source alone.
    #[default]
    One,
    /// From [`SAMPLED_SOURCES`] vertices, drawn by a fixed seed; scores are scaled to stand for
    /// all.
    Sampled,
    /// From every vertex: exact betweenness.
    All,
}

impl Sources {
    const ALL: [Sources; 3] = [Sources::One, Sources::Sampled, Sources::All];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Sources::One => "one",
            Sources::Sampled => "sampled",
            Sources::All => "all",
        }
    }

    /// The choice of that name.
    ///
    /// # Errors
    /// `Kind::Argument`, naming the legal ones.
    pub fn named(name: &str) -> Result<Sources> {
        let found = Sources::ALL.into_iter().find(|choice| choice.name() == name);
        found.ok_or_else(|| {
            let legal = Sources::ALL.map(Sources::name).join(", ");
            Error::new(Kind::Argument, format!("--sources {name}: it is one of {legal}"))
        })
    }

    /// The sources in a graph of `n` vertices.
    fn list(self, n: u32, source: u32) -> Vec<u32> {
        const SEED: u64 = 27_491_095;
        match self {
            Sources::One => vec![source],
            Sources::Sampled if n > SAMPLED_SOURCES => {
                let mut rng = seeded(SEED);
                let mut drawn = std::collections::BTreeSet::new();
                while drawn.len() < SAMPLED_SOURCES as usize {
                    drawn.insert(rng.random_range(0..n));
                }
                drawn.into_iter().collect()
            }
            Sources::Sampled | Sources::All => (0..n).collect(),
        }
    }

    /// What sums over `count` sources are multiplied by: sampled ones stand for all, and with all
    /// sources an undirected graph counts every pair of vertices from both ends.
    fn scale(self, graph: &GraphFile, count: usize) -> f64 {
        let pairs = if graph.is_directed() { 1.0 } else { 0.5 };
        match self {
            Sources::One => 1.0,
            Sources::Sampled | Sources::All => {
                pairs * f64::from(graph.vertices()) / count.max(1) as f64
            }
        }
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BcSummary {
    /// Sources that paths were counted from.
    pub sources_count: u64,
    /// The most levels below a source.
    pub levels_count: u32,
    /// The highest score.
    pub highest: f64,
}

/// State of a run.
pub(crate) struct Bc<'g> {
    graph: &'g GraphFile,
    sources: Sources,
    members: usize,
    /// Shortest paths from the source to each vertex, as bits of f64.
    paths: Vec<AtomicU64>,
    /// While a level is gathered, the sum over successors; afterwards (1 + dependency) / paths.
    /// Bits of f64.
    share: Vec<AtomicU64>,
    /// Bits of f64.
    score: Vec<AtomicU64>,
    /// Vertices on the levels before the one being found.
    done: Bitmap,
    /// The level being found, or the level below the one that gathers.
    below: Bitmap,
    order: RwLock<Order>,
    found: Vec<Mutex<Vec<u32>>>,
    cursor: Cursor,
    hubs: Hubs<'g, ()>,
    has_next: AtomicBool,
    summary: Mutex<BcSummary>,
}

/// Vertices in the order of their levels.
#[derive(Debug, Default)]
struct Order {
    vertices: Vec<u32>,
    /// Where each level begins, and the end of the last.
    starts: Vec<usize>,
}

impl Order {
    fn levels(&self) -> usize {
        self.starts.len() - 1
    }

    fn level(&self, number: usize) -> &[u32] {
        &self.vertices[self.starts[number]..self.starts[number + 1]]
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load(word: &AtomicU64) -> f64 {
    f64::from_bits(word.load(Relaxed))
}

fn store(word: &AtomicU64, value: f64) {
    word.store(value.to_bits(), Relaxed);
}

/// Adds to a number that other members may add to.
#[inline(always)]
fn add<const SHARED: bool>(word: &AtomicU64, value: f64) {
    if !SHARED {
        return store(word, load(word) + value);
    }
    let sum = |bits| Some((f64::from_bits(bits) + value).to_bits());
    let _ = word.fetch_update(Relaxed, Relaxed, sum);
}

/// What other code says about betweenness centrality.
const SPEC: Spec = Spec {
    name: "bc",
    about: "Betweenness centrality (Brandes), from one vertex, sampled ones or all",
    has_source: true,
    uses_weights: false,
    options: &[OptionSpec {
        name: "sources",
        key: "sources",
        value_name: "WHICH",
        help: "Where shortest paths are counted from: the one vertex that --source names, 32 \
               sampled by a fixed seed with scores scaled to stand for all, or all vertices",
        default: Sources::One.name(),
        values: &[Sources::One.name(), Sources::Sampled.name(), Sources::All.name()],
    }],
    state_bytes_per_vertex: 29,
    jobs: Jobs { kind: "betweenness", words: "betweenness from one vertex", at_once: None },
    examples: &[
        ("littoral graph bc web.lg --sources sampled --top 20", "scores estimated from samples"),
        (
            "littoral graph bc team.csv --sources all -o between.csv",
            "exact scores of a small graph",
        ),
    ],
};

impl<'g> Algorithm<'g> for Bc<'g> {
    type Options = Sources;
    /// The score of each vertex: the sum over sources of its dependency, scaled as [`Sources`]
    /// says.
    type Answer = Vec<f64>;
    type Summary = BcSummary;

    const SPEC: Spec = SPEC;

    fn options(given: Given<'_>) -> Result<Sources> {
        given("sources").map_or(Ok(Sources::default()), |name| Sources::named(&name))
    }

    fn values(sources: Sources) -> Vec<String> {
        vec![sources.name().to_owned()]
    }

    fn begins_at_source(sources: Sources) -> bool {
        sources == Sources::One || mutant!("graph_unused_source_reported")
    }

    fn new(graph: &'g GraphFile, sources: Sources, members: usize) -> Self {
        let n = graph.vertices() as usize;
        Bc {
            graph,
            sources,
            members,
            paths: words_u64(n),
            share: words_u64(n),
            score: words_u64(n),
            done: Bitmap::new(n),
            below: Bitmap::new(n),
            order: RwLock::default(),
            found: (0..members).map(|_| Mutex::default()).collect(),
            cursor: Cursor::default(),
            hubs: Hubs::new(graph, Direction::Out, members),
            has_next: AtomicBool::new(false),
            summary: Mutex::default(),
        }
    }

    fn run<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E, source: u32) -> Stepped {
        let sources = self.sources.list(self.graph.vertices(), source);
        me.each(|| {
            self.own(me, &self.score).iter().for_each(|s| store(s, 0.0));
        })?;
        me.lead(|| *lock(&self.summary) = BcSummary::default())?;
        for &source in &sources {
            self.forward::<SHARED, E>(me, edges, source)?;
            self.backward::<SHARED, E>(me, edges)?;
        }
        let scale = self.sources.scale(self.graph, sources.len());
        me.each(|| {
            self.own(me, &self.score).iter().for_each(|s| store(s, load(s) * scale));
        })
    }

    fn bytes(&self) -> u64 {
        let bitmaps = 2 * self.done.words().len() * 8;
        let order = self.order.read().unwrap_or_else(PoisonError::into_inner).vertices.capacity();
        (self.score.len() * 24 + bitmaps + order * 4) as u64 + self.hubs.bytes()
    }

    fn summary(&self) -> BcSummary {
        let highest = self.score.iter().map(load).fold(0.0, f64::max);
        BcSummary { highest, ..*lock(&self.summary) }
    }

    fn answer(&self) -> Vec<f64> {
        self.score.iter().map(load).collect()
    }

    fn figures(summary: &BcSummary) -> Vec<Figure> {
        vec![
            Figure::count("sources_count", summary.sources_count),
            Figure::count("levels_count", summary.levels_count),
            Figure::real("highest", summary.highest),
        ]
    }

    fn verify(graph: &GraphFile, sources: Sources, source: u32, scores: &Vec<f64>) -> Result<()> {
        verify::bc(graph, sources, source, scores)
    }

    fn rows(order: &ByName<'_>, scores: &Vec<f64>, top: usize) -> Table {
        rows(order, scores, top)
    }
}

fn rows(by_name: &ByName<'_>, scores: &[f64], top: usize) -> Table {
    let place = |v: &u32| by_name.place[*v as usize];
    let order = |a: &u32, b: &u32| {
        let (high, low) = (scores[*b as usize], scores[*a as usize]);
        high.total_cmp(&low).then_with(|| place(a).cmp(&place(b)))
    };
    let rows = first(scores.len(), top, order);
    let cells = Cells::Doubles(rows.iter().map(|&v| scores[v as usize]).collect());
    Table::new(vec![vertices("vertex", rows), Column { name: "betweenness", cells }])
}

impl Bc<'_> {
    /// A member's part of something.
    fn own<'a, T>(&self, me: Member<'_>, all: &'a [T]) -> &'a [T] {
        let share = all.len().div_ceil(self.members);
        let to = all.len().min(share * (me.id() + 1));
        &all[(share * me.id()).min(to)..to]
    }

    fn hand_out(&self, level: &[u32]) {
        self.hubs.hand_out(level.iter().map(|&v| ((), v)));
        let lists = level.len();
        let chunk = (lists / (self.members * 4)).clamp(1, LISTS_CHUNK);
        let chunk = if self.members == 1 { lists } else { chunk };
        self.cursor.reset(lists as u64, chunk as u64);
    }

    /// Finds all levels and counts paths.
    fn forward<const SHARED: bool, E: Edges>(
        &self,
        me: Member<'_>,
        edges: &E,
        source: u32,
    ) -> Stepped {
        me.each(|| {
            for words in [&self.paths, &self.share] {
                self.own(me, words).iter().for_each(|w| store(w, 0.0));
            }
        })?;
        me.lead(|| self.start(source))?;
        while self.has_next.load(Relaxed) {
            me.all(|| self.down::<SHARED, E>(me.id(), edges))?;
            me.lead(|| self.gather())?;
            // The level just found is done, and any count beyond a double's range is refused.
            me.all(|| {
                let order = self.order.read().unwrap_or_else(PoisonError::into_inner);
                let level = self.own(me, order.level(order.levels() - 1));
                for &v in level {
                    self.done.insert::<SHARED>(v);
                    if load(&self.paths[v as usize]) > PATHS_MAX {
                        return Err(too_many_paths(source));
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn start(&self, source: u32) {
        self.done.fill_from(|_| 0);
        self.below.fill_from(|_| 0);
        self.done.insert::<false>(source);
        store(&self.paths[source as usize], 1.0);
        let mut order = self.order.write().unwrap_or_else(PoisonError::into_inner);
        order.vertices.clear();
        order.vertices.push(source);
        order.starts.clear();
        order.starts.extend([0, 1]);
        self.hand_out(&[source]);
        self.has_next.store(true, Relaxed);
    }

    fn down<const SHARED: bool, E: Edges>(&self, id: usize, edges: &E) -> Result<()> {
        let order = self.order.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = lock(&self.found[id]);
        let work = Down::<SHARED> {
            bc: self,
            level: VertexShare::new(
                order.level(order.levels() - 1),
                &self.cursor,
                (&self.hubs, id),
            ),
            found: RefCell::new(&mut found),
            degree_min: if order.levels() > 1 { self.degree_min() } else { 1 },
        };
        edges.lists(Direction::Out, &work)
    }

    /// The fewest arcs of a list that leads on from a vertex below the source: in an undirected
    /// graph one of them leads back.
    fn degree_min(&self) -> u32 {
        if self.graph.is_directed() { 1 } else { 2 }
    }

    /// Makes what all members found the next level.
    fn gather(&self) {
        let mut order = self.order.write().unwrap_or_else(PoisonError::into_inner);
        for found in &self.found {
            order.vertices.append(&mut lock(found));
        }
        let (end, begin) = (order.vertices.len(), *order.starts.last().unwrap_or(&0));
        self.has_next.store(end > begin, Relaxed);
        if end > begin {
            order.starts.push(end);
            self.hand_out(&order.vertices[begin..]);
            return;
        }
        let mut summary = lock(&self.summary);
        summary.sources_count += 1;
        summary.levels_count = summary.levels_count.max(order.levels() as u32 - 1);
    }

    /// Gathers dependencies, the lowest level first.
    fn backward<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E) -> Stepped {
        let levels = self.order.read().unwrap_or_else(PoisonError::into_inner).levels();
        me.lead(|| self.below.fill_from(|_| 0))?;
        // The source's own level gets no score, so level 1 is the last that gathers.
        for level in (1..levels).rev() {
            me.each(|| self.settle::<SHARED>(me, level))?;
            if level == 1 {
                break;
            }
            me.lead(|| {
                let order = self.order.read().unwrap_or_else(PoisonError::into_inner);
                self.hand_out(order.level(level - 1));
            })?;
            me.all(|| self.up::<SHARED, E>(me.id(), level - 1, edges))?;
            me.each(|| {
                let order = self.order.read().unwrap_or_else(PoisonError::into_inner);
                self.own(me, order.level(level))
                    .iter()
                    .for_each(|&v| self.below.remove::<SHARED>(v));
            })?;
        }
        Ok(())
    }

    /// Turns a level's sums into scores and into the shares that the level above gathers.
    fn settle<const SHARED: bool>(&self, me: Member<'_>, level: usize) {
        let order = self.order.read().unwrap_or_else(PoisonError::into_inner);
        for &v in self.own(me, order.level(level)) {
            let (paths, share) = (load(&self.paths[v as usize]), &self.share[v as usize]);
            let dependency = paths * load(share);
            let score = &self.score[v as usize];
            store(score, load(score) + dependency);
            store(share, (1.0 + dependency) / paths);
            self.below.insert::<SHARED>(v);
        }
    }

    fn up<const SHARED: bool, E: Edges>(&self, id: usize, level: usize, edges: &E) -> Result<()> {
        let order = self.order.read().unwrap_or_else(PoisonError::into_inner);
        let level = VertexShare::new(order.level(level), &self.cursor, (&self.hubs, id));
        let work = Up::<SHARED> { bc: self, level, degree_min: self.degree_min() };
        edges.lists(Direction::Out, &work)
    }
}

#[cold]
fn too_many_paths(source: u32) -> Error {
    let context = format!(
        "betweenness from vertex {source}: more than {PATHS_MAX:e} shortest paths to one vertex, \
         which double precision cannot share out; take another source, or a part of the graph"
    );
    Error::new(Kind::Unsupported, context)
}

/// Forward: the lists of the latest level.
struct Down<'b, const SHARED: bool> {
    bc: &'b Bc<'b>,
    level: VertexShare<'b, SHARED>,
    found: RefCell<&'b mut Vec<u32>>,
    /// Shorter lists lead to no vertex that is not done.
    degree_min: u32,
}

impl<const SHARED: bool> ListWork for Down<'_, SHARED> {
    type Tag = ();
    const FROM_THE_FRONT: bool = false;

    #[inline(always)]
    fn next(&self) -> Option<((), Item)> {
        self.level.next()
    }

    #[inline(always)]
    fn next_part(&self) -> Option<((), Part)> {
        self.level.next_part()
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        self.level.reads_max(most, reads)
    }

    #[inline(always)]
    fn is_idle(&self, (): (), _vertex: u32, degree: u32) -> bool {
        degree < self.degree_min
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        self.level.peek(ahead)
    }

    #[inline(always)]
    fn warm(&self, words: &[u32]) {
        for &v in words {
            if self.bc.done.get(v) == Some(false) {
                prefetch(&self.bc.paths, v as usize);
            }
        }
    }

    #[inline(always)]
    fn words(&self, (): (), vertex: u32, words: &[u32]) -> Verdict {
        let bc = self.bc;
        let paths = load(&bc.paths[vertex as usize]);
        let mut found = self.found.borrow_mut();
        for &v in words {
            match bc.done.get(v) {
                Some(true) => {}
                // The sets cover a whole block: an id behind the last vertex is in them, not here.
                Some(false) => {
                    let Some(count) = bc.paths.get(v as usize) else { return Verdict::Forged };
                    if bc.below.insert::<SHARED>(v) {
                        found.push(v);
                    }
                    add::<SHARED>(count, paths);
                }
                None => return Verdict::Forged,
            }
        }
        Verdict::More
    }
}

/// Backward: the lists of a level, whose successors' shares are known.
struct Up<'b, const SHARED: bool> {
    bc: &'b Bc<'b>,
    level: VertexShare<'b, SHARED>,
    /// Shorter lists have no successor.
    degree_min: u32,
}

impl<const SHARED: bool> ListWork for Up<'_, SHARED> {
    type Tag = ();
    const FROM_THE_FRONT: bool = false;

    #[inline(always)]
    fn next(&self) -> Option<((), Item)> {
        self.level.next()
    }

    #[inline(always)]
    fn next_part(&self) -> Option<((), Part)> {
        self.level.next_part()
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        self.level.reads_max(most, reads)
    }

    #[inline(always)]
    fn is_idle(&self, (): (), _vertex: u32, degree: u32) -> bool {
        degree < self.degree_min
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        self.level.peek(ahead)
    }

    #[inline(always)]
    fn warm(&self, words: &[u32]) {
        for &v in words {
            if self.bc.below.get(v) == Some(true) {
                prefetch(&self.bc.share, v as usize);
            }
        }
    }

    #[inline(always)]
    fn words(&self, (): (), vertex: u32, words: &[u32]) -> Verdict {
        let bc = self.bc;
        let mut sum = 0.0;
        for &v in words {
            match bc.below.get(v) {
                Some(false) => {}
                Some(true) => sum += load(&bc.share[v as usize]),
                None => return Verdict::Forged,
            }
        }
        // Parts of a long list are other members'.
        add::<SHARED>(&bc.share[vertex as usize], sum);
        Verdict::More
    }
}
