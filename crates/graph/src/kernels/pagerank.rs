//! PageRank by pulling: every page of incoming lists once an iteration, in the order they lie.
//!
//! Same numbers as the GAP suite's unless told otherwise: damping 0.85, new values used at once
//! (Gauss-Seidel), stop when the sum of all changes is below the tolerance or after 20 iterations.
//! As there, the rank of a vertex without outgoing arcs is not handed on ([`Dangling::Drop`]);
//! [`Dangling::Spread`] gives it to all vertices instead.
//!
//! Two deviations; the fixed point is the same.
//! - Ranks are held in a unit that changes after each iteration, so that the total satisfies the
//!   equation summed over all vertices. With ids in order of degree, Gauss-Seidel alone leaves an
//!   error of the total that shrinks by only 0.85^2 an iteration; the unit removes exactly that
//!   error (20 iterations became 7 on kron 22, 19 became 5 on urand 22), and no rank is touched.
//! - Rank begins as if each arc carried the same, not as 1/n (5 iterations became 3 on urand 22).
//!
//! Pages are streamed, never read at random; vertex state is in DRAM.
//!
//! Invariants
//! - A list in several pages is summed up piece by piece; its vertex is updated when the last piece
//!   has come, or at the end of the iteration if several members hold pieces. Checked by
//!   `answers_verify_in_memory`, `ranks_are_those_of_a_power_iteration`.
//! - Pages are used in the order of answers, so the number of iterations may depend on a device's
//!   latency; what an iteration reads does not. Checked by
//!   `counts_of_other_kernels_do_not_depend_on_latency`.
//! - An interrupt ends an iteration, which reads the whole file, behind the page at hand. Checked
//!   by `an_iteration_ends_behind_the_page_at_hand_once_it_is_interrupted`.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use littoral_base::mutant;

use super::algorithm::{Algorithm, Figure, Given, Jobs, OptionSpec, Spec};
use super::bits::words_u32;
use super::team::{Cursor, Member, Share, Stepped};
use crate::edges::{Edges, PageWork, Place, Verdict};
use crate::error::{Error, Kind, Result};
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::format::page::PageView;
use crate::table::{ByName, Cells, Column, Table, first, vertices};

mod verify;

/// The share of rank that follows arcs, unless another is given.
pub const DAMPING: f32 = 0.85;
/// Pages taken at a time by a member when there are several.
const PAGES_CHUNK: u64 = 64;

/// What becomes of the rank of vertices without outgoing arcs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dangling {
    /// It is not handed on, as in the GAP suite.
    #[default]
    Drop,
    /// It is spread over all vertices.
    Spread,
}

impl Dangling {
    const ALL: [Dangling; 2] = [Dangling::Drop, Dangling::Spread];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Dangling::Drop => "drop",
            Dangling::Spread => "spread",
        }
    }

    /// The way of that name.
    ///
    /// # Errors
    /// `Kind::Argument`, naming the legal ones.
    pub fn named(name: &str) -> Result<Dangling> {
        let way = Dangling::ALL.into_iter().find(|way| way.name() == name);
        way.ok_or_else(|| {
            let legal = Dangling::ALL.map(Dangling::name).join(" or ");
            Error::new(Kind::Argument, format!("--dangling {name}: it is {legal}"))
        })
    }
}

/// When to stop, and how dangling rank is treated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageRankOptions {
    /// Stop when the sum of all changes of an iteration is below this.
    pub tolerance: f64,
    /// Stop after this many iterations.
    pub iterations_max: u32,
    /// What becomes of the rank of vertices without outgoing arcs.
    pub dangling: Dangling,
    /// The share of rank that follows arcs: at least 0 and less than 1.
    pub damping: f32,
}

impl PageRankOptions {
    /// These options with the damping factor `damping`.
    ///
    /// # Errors
    /// `Kind::Argument` unless it is at least 0 and less than 1.
    pub fn damped(self, damping: f64) -> Result<PageRankOptions> {
        let single = damping as f32;
        // Rounding may reach 1, where the equation has no single solution.
        if (0.0..1.0).contains(&damping) && single < 1.0 {
            return Ok(PageRankOptions { damping: single, ..self });
        }
        let what = format!("--damping {damping}: it is at least 0 and less than 1");
        Err(Error::new(Kind::Argument, what))
    }

    /// These options with the tolerance `tolerance`.
    ///
    /// # Errors
    /// `Kind::Argument` unless it is finite and above 0.
    pub fn within(self, tolerance: f64) -> Result<PageRankOptions> {
        if tolerance.is_finite() && tolerance > 0.0 {
            return Ok(PageRankOptions { tolerance, ..self });
        }
        let what = format!("--tolerance {tolerance}: it is a finite number above 0");
        Err(Error::new(Kind::Argument, what))
    }
}

impl Default for PageRankOptions {
    fn default() -> Self {
        PageRankOptions {
            tolerance: 1e-4,
            iterations_max: 20,
            dangling: Dangling::Drop,
            damping: DAMPING,
        }
    }
}

/// How a PageRank computation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PageRankSummary {
    /// Iterations made.
    pub iterations_count: u32,
    /// Sum of all changes in the last of them.
    pub error: f64,
}

/// What one member adds up in an iteration.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    changes: f64,
    total: f64,
    /// The total over vertices that hand their rank on.
    handed_on: f64,
}

impl Sums {
    fn plus(self, other: Sums) -> Sums {
        Sums {
            changes: self.changes + other.changes,
            total: self.total + other.total,
            handed_on: self.handed_on + other.handed_on,
        }
    }
}

/// A list in several pages: what has come of it.
#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    sum: f32,
    words: u32,
}

/// State of a PageRank computation.
pub(crate) struct PageRank<'g> {
    graph: &'g GraphFile,
    options: PageRankOptions,
    members: usize,
    /// Ranks in units of [`PageRank::unit`], as bits of f32.
    rank: Vec<AtomicU32>,
    /// Rank over out-degree, as bits of f32, in the same unit; zero without outgoing arcs.
    share: Vec<AtomicU32>,
    /// Vertices whose incoming lists take several pages, ascending.
    long: Vec<u32>,
    /// Vertices without incoming lists: no page names them.
    unnamed: Vec<u32>,
    cursor: Cursor,
    sums: Vec<Mutex<(Sums, Vec<Partial>)>>,
    /// What every vertex gets for nothing, in the unit.
    base: AtomicU32,
    /// The unit of all ranks, as bits of f32: 1 in the first iteration and in the answer.
    unit: AtomicU32,
    ended: AtomicBool,
    summary: Mutex<PageRankSummary>,
}

fn load(word: &AtomicU32) -> f32 {
    f32::from_bits(word.load(Relaxed))
}

fn store(word: &AtomicU32, value: f32) {
    word.store(value.to_bits(), Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What other code says about PageRank.
const SPEC: Spec = Spec {
    name: "pr",
    about: "PageRank",
    has_source: false,
    uses_weights: false,
    options: &[
        OptionSpec {
            name: "dangling",
            key: "dangling",
            value_name: "WAY",
            help: "The rank of vertices without outgoing edges: spread over all vertices, as \
                   NetworkX does, or dropped, as the GAP suite does",
            default: Dangling::Spread.name(),
            values: &[Dangling::Spread.name(), Dangling::Drop.name()],
        },
        OptionSpec {
            name: "damping",
            key: "damping_share",
            value_name: "D",
            help: "The share of rank that follows edges, at least 0 and less than 1",
            default: "0.85",
            values: &[],
        },
        OptionSpec {
            name: "iterations",
            key: "iterations_count_max",
            value_name: "N",
            help: "The most iterations",
            default: "20",
            values: &[],
        },
        OptionSpec {
            name: "tolerance",
            key: "tolerance",
            value_name: "T",
            help: "End as soon as an iteration changes all ranks together by less than this",
            default: "0.0001",
            values: &[],
        },
    ],
    state_bytes_per_vertex: 12,
    jobs: Jobs { kind: "pagerank", words: "PageRank", at_once: None },
    examples: &[
        ("littoral graph pr web.lg --verify", "PageRank, checked serially"),
        ("littoral graph pr links.csv --top 100 -o top.tsv", "the first hundred, in a file"),
    ],
};

impl<'g> Algorithm<'g> for PageRank<'g> {
    type Options = PageRankOptions;
    /// The rank of each vertex.
    type Answer = Vec<f32>;
    type Summary = PageRankSummary;

    const SPEC: Spec = SPEC;

    fn options(given: Given<'_>) -> Result<PageRankOptions> {
        let dangling = match given("dangling") {
            None => Dangling::default(),
            Some(name) => Dangling::named(&name)?,
        };
        let mut options = PageRankOptions { dangling, ..PageRankOptions::default() };
        if let Some(damping) = given("damping") {
            let legal = "a number, at least 0 and less than 1";
            options = options.damped(number("damping", &damping, legal)?)?;
        }
        if let Some(count) = given("iterations") {
            let legal = "a whole number, at least 1 and below 2^32";
            options.iterations_max = number::<NonZeroU32>("iterations", &count, legal)?.get();
        }
        if let Some(tolerance) = given("tolerance") {
            let legal = "a finite number above 0";
            options = options.within(number("tolerance", &tolerance, legal)?)?;
        }
        Ok(options)
    }

    fn values(options: PageRankOptions) -> Vec<String> {
        vec![
            options.dangling.name().to_owned(),
            options.damping.to_string(),
            options.iterations_max.to_string(),
            options.tolerance.to_string(),
        ]
    }

    fn new(graph: &'g GraphFile, options: PageRankOptions, members: usize) -> Self {
        let n = graph.vertices();
        let incoming = graph.incoming();
        let piece = graph.layout().piece_arcs() as u32;
        let long: Vec<u32> = (0..n).filter(|&v| incoming.degree(v) > piece).collect();
        let unnamed = (0..n).filter(|&v| incoming.degree(v) == 0).collect();
        let sums = || Mutex::new((Sums::default(), vec![Partial::default(); long.len()]));
        PageRank {
            graph,
            options,
            members,
            rank: words_u32(n as usize),
            share: words_u32(n as usize),
            sums: (0..members).map(|_| sums()).collect(),
            long,
            unnamed,
            cursor: Cursor::default(),
            base: AtomicU32::new(0),
            unit: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            summary: Mutex::default(),
        }
    }

    fn run<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E, _: u32) -> Stepped {
        me.each(|| {
            self.start(me);
        })?;
        me.lead(|| {
            *lock(&self.summary) = PageRankSummary::default();
            self.ended.store(self.options.iterations_max == 0, Relaxed);
            let all = self.sums.iter().map(|m| lock(m).0).fold(Sums::default(), Sums::plus);
            self.set_base(all, 1.0);
        })?;
        while !self.ended.load(Relaxed) {
            me.lead(|| {
                let pages = u64::from(Place::new(self.graph, Direction::In).page_count());
                self.cursor.reset(pages, if self.members == 1 { pages } else { PAGES_CHUNK });
            })?;
            me.all(|| self.pull::<SHARED, E>(me, edges))?;
            me.lead(|| {
                self.finish();
            })?;
        }
        me.each(|| {
            self.leave_unit(me);
        })
    }

    fn bytes(&self) -> u64 {
        let long = self.long.len() * (4 + self.members * size_of::<Partial>());
        ((self.rank.len() + self.share.len() + self.unnamed.len()) * 4 + long) as u64
    }

    fn summary(&self) -> PageRankSummary {
        *lock(&self.summary)
    }

    fn answer(&self) -> Vec<f32> {
        self.rank.iter().map(load).collect()
    }

    fn figures(summary: &PageRankSummary) -> Vec<Figure> {
        vec![
            Figure::count("iterations_count", summary.iterations_count),
            Figure::real("change", summary.error),
        ]
    }

    fn verify(
        graph: &GraphFile,
        options: PageRankOptions,
        _source: u32,
        ranks: &Vec<f32>,
    ) -> Result<()> {
        verify::pagerank(graph, ranks, &options)
    }

    fn rows(order: &ByName<'_>, ranks: &Vec<f32>, top: usize) -> Table {
        rows(order, ranks, top)
    }
}

/// The number that is given as the option `name`, which takes what is `legal`.
fn number<T: FromStr>(name: &str, text: &str, legal: &str) -> Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse::<T>().map_err(|e| {
        Error::with_source(Kind::Argument, format!("--{name} {text}: it is {legal}"), e)
    })
}

fn rows(by_name: &ByName<'_>, ranks: &[f32], top: usize) -> Table {
    let place = |v: &u32| by_name.place[*v as usize];
    let order = |a: &u32, b: &u32| {
        let (high, low) = (ranks[*b as usize], ranks[*a as usize]);
        high.total_cmp(&low).then_with(|| place(a).cmp(&place(b)))
    };
    let rows = first(ranks.len(), top, order);
    let rank = rows.iter().map(|&v| ranks[v as usize]).collect();
    let rank = Column { name: "rank", cells: Cells::Singles(rank) };
    Table::new(vec![vertices("vertex", rows), rank])
}

impl PageRank<'_> {
    fn own(&self, me: Member<'_>, len: usize) -> std::ops::Range<usize> {
        let share = len.div_ceil(self.members);
        (share * me.id()).min(len)..(share * (me.id() + 1)).min(len)
    }

    /// Ranks as if each arc carried the same: exact where vertices lead to vertices of all kinds
    /// alike, and much nearer than 1/n elsewhere.
    fn start(&self, me: Member<'_>) {
        let n = self.rank.len() as f32;
        let arcs = self.graph.header().arcs as f32;
        let is_equal = arcs == 0.0 || mutant!("graph_ranks_begin_equal");
        let damping = if is_equal { 0.0 } else { self.options.damping };
        let mut sums = Sums::default();
        for v in self.own(me, self.rank.len()) {
            let incoming = self.graph.incoming().degree(v as u32) as f32;
            let rank = (1.0 - damping) / n + damping * (incoming / arcs.max(1.0));
            let share = self.handed_on(v as u32, rank);
            store(&self.rank[v], rank);
            store(&self.share[v], share);
            sums = sums.plus(rank_sums(rank, 0.0, share != 0.0));
        }
        lock(&self.sums[me.id()]).0 = sums;
    }

    #[inline(always)]
    fn handed_on(&self, v: u32, rank: f32) -> f32 {
        let degree = self.graph.outgoing().degree(v);
        if degree == 0 { 0.0 } else { rank / degree as f32 }
    }

    /// Sets the unit of all ranks, and in it what every vertex gets for nothing when the ranks are
    /// those of `all`.
    fn set_base(&self, all: Sums, unit: f64) {
        let damping = f64::from(self.options.damping);
        let spread = match self.options.dangling {
            Dangling::Drop => 0.0,
            Dangling::Spread => damping * unit * (all.total - all.handed_on),
        };
        let base = (1.0 - damping + spread) / self.rank.len() as f64;
        store(&self.base, (base / unit) as f32);
        store(&self.unit, unit as f32);
    }

    fn pull<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E) -> Result<()> {
        let mut mine = lock(&self.sums[me.id()]);
        let (sums, partial) = &mut *mine;
        partial.fill(Partial::default());
        let work = Pull::<SHARED> {
            pagerank: self,
            me,
            base: load(&self.base),
            share: Share::new(&self.cursor),
            sums: Cell::new(Sums::default()),
            partial: RefCell::new(partial),
        };
        edges.pages(Direction::In, &work)?;
        for v in self.own(me, self.unnamed.len()) {
            work.update(self.unnamed[v], 0.0);
        }
        *sums = work.sums.get();
        Ok(())
    }

    /// Ends an iteration: lists that several members hold pieces of, the decision, the next unit.
    fn finish(&self) {
        let mut all = self.sums.iter().map(|m| lock(m).0).fold(Sums::default(), Sums::plus);
        all = all.plus(self.finish_long());
        let mut summary = lock(&self.summary);
        summary.iterations_count += 1;
        summary.error = all.changes * f64::from(load(&self.unit));
        let ended = summary.error < self.options.tolerance
            || summary.iterations_count >= self.options.iterations_max;
        self.ended.store(ended, Relaxed);
        if !ended {
            self.set_base(all, self.unit_for(all));
        }
    }

    /// The unit in which the ranks of `all` satisfy the equation summed over all vertices.
    fn unit_for(&self, all: Sums) -> f64 {
        let damping = f64::from(self.options.damping);
        match self.options.dangling {
            Dangling::Drop => (1.0 - damping) / (all.total - damping * all.handed_on),
            Dangling::Spread => 1.0 / all.total,
        }
    }

    fn finish_long(&self) -> Sums {
        if self.members == 1 {
            return Sums::default();
        }
        let mut sums = Sums::default();
        for (i, &v) in self.long.iter().enumerate() {
            let degree = self.graph.incoming().degree(v);
            let pieces = self.sums.iter().map(|m| lock(m).1[i]);
            if pieces.clone().all(|p| p.words < degree) {
                let (rank, change) = self.updated(v, load(&self.base), pieces.map(|p| p.sum).sum());
                sums = sums.plus(rank_sums(rank, change, self.graph.outgoing().degree(v) > 0));
            }
        }
        sums
    }

    /// Gives `v` its new rank and answers it with the change.
    #[inline(always)]
    fn updated(&self, v: u32, base: f32, incoming: f32) -> (f32, f32) {
        let rank = base + self.options.damping * incoming;
        let old = load(&self.rank[v as usize]);
        store(&self.rank[v as usize], rank);
        store(&self.share[v as usize], self.handed_on(v, rank));
        (rank, (rank - old).abs())
    }

    fn leave_unit(&self, me: Member<'_>) {
        let unit = load(&self.unit);
        if unit == 1.0 {
            return;
        }
        for rank in &self.rank[self.own(me, self.rank.len())] {
            store(rank, load(rank) * unit);
        }
    }
}

#[inline(always)]
fn rank_sums(rank: f32, change: f32, hands_on: bool) -> Sums {
    let total = f64::from(rank);
    Sums { changes: change.into(), total, handed_on: if hands_on { total } else { 0.0 } }
}

/// One iteration over pages.
struct Pull<'p, const SHARED: bool> {
    pagerank: &'p PageRank<'p>,
    me: Member<'p>,
    base: f32,
    share: Share<'p, SHARED>,
    sums: Cell<Sums>,
    partial: RefCell<&'p mut Vec<Partial>>,
}

impl<const SHARED: bool> Pull<'_, SHARED> {
    #[inline(always)]
    fn update(&self, v: u32, incoming: f32) {
        let pagerank = self.pagerank;
        let (rank, change) = pagerank.updated(v, self.base, incoming);
        let hands_on = pagerank.graph.outgoing().degree(v) > 0;
        self.sums.set(self.sums.get().plus(rank_sums(rank, change, hands_on)));
    }

    /// Adds a piece of a long list.
    #[inline(never)]
    fn add_piece(&self, v: u32, words: u32, sum: f32) -> bool {
        let Ok(i) = self.pagerank.long.binary_search(&v) else { return false };
        let mut partial = self.partial.borrow_mut();
        let partial = &mut partial[i];
        partial.sum += sum;
        partial.words += words;
        if partial.words == self.pagerank.graph.incoming().degree(v) {
            self.update(v, partial.sum);
        }
        true
    }
}

impl<const SHARED: bool> PageWork for Pull<'_, SHARED> {
    fn next(&self) -> Option<u32> {
        // The step then ends with the interrupt, so pages that were left out are never missed.
        if self.me.is_interrupted() {
            return None;
        }
        self.share.next().map(|i| i as u32)
    }

    #[inline(always)]
    fn page(&self, page: PageView<'_>) -> Verdict {
        let incoming = self.pagerank.graph.incoming();
        for (entry, list) in page.lists() {
            if entry.vertex >= incoming.table().len() {
                return Verdict::Forged;
            }
            let Some(sum) = sum_of(&self.pagerank.share, list) else { return Verdict::Forged };
            let degree = incoming.degree(entry.vertex);
            if list.len() == degree as usize {
                self.update(entry.vertex, sum);
            } else if !self.add_piece(entry.vertex, list.len() as u32, sum) {
                return Verdict::Forged;
            }
        }
        Verdict::More
    }
}

/// The sum of `values` at `list`; `None` when the list leads outside.
#[inline(always)]
fn sum_of(values: &[AtomicU32], list: &[u32]) -> Option<f32> {
    let mut lanes = [0f32; 4];
    let chunks = list.chunks_exact(4);
    for &v in chunks.remainder() {
        lanes[0] += load(values.get(v as usize)?);
    }
    for chunk in chunks {
        for (lane, &v) in lanes.iter_mut().zip(chunk) {
            *lane += load(values.get(v as usize)?);
        }
    }
    Some((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
    use crate::edges::hint::Hint;
    use crate::edges::resident::{Hints, Resident};
    use crate::edges::verified::Verified;
    use crate::kernels::team::Team;

    #[test]
    fn an_iteration_ends_behind_the_page_at_hand_once_it_is_interrupted() {
        let list = EdgeList::new(5000, true, (1..5000).map(|v| [v - 1, v]).collect());
        let options = BuildOptions::default();
        let (image, _) = build_in_memory(list, &options, &mut Hooks::none()).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        let words = graph.as_image().unwrap().chunks_exact(4);
        let words: Vec<u32> = words.map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
        let (hints, verified) = (Hints::default(), Verified::default());
        let pages = u64::from(Place::new(&graph, Direction::In).page_count());
        let reads = |is_interrupted: bool| {
            let flag = Arc::new(AtomicBool::new(is_interrupted));
            let team = Team::new(1).interrupted_by(Some(flag));
            let pagerank = PageRank::new(&graph, PageRankOptions::default(), 1);
            pagerank.cursor.reset(pages, pages);
            let (bytes, hint) = (bytemuck::cast_slice(&words), Some(Hint::None));
            let edges = Resident::new(&graph, bytes, hint, &hints, &verified).unwrap();
            pagerank.pull::<false, _>(Member::new(&team, 0), &edges).unwrap();
            edges.traffic().reads_count
        };
        assert!(pages > 1, "an iteration has several pages");
        assert_eq!((reads(false), reads(true)), (pages, 0));
    }
}
