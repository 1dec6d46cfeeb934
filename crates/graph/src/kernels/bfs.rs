//! Direction-optimising breadth-first search: top-down while the frontier is small, bottom-up while
//! it is large (Beamer's direction-optimising search; paper 003 runs the top-down half from flash).
//!
//! Top-down reads the list of every frontier vertex. Bottom-up asks every unvisited vertex for a
//! neighbour in the frontier: first in HEADS, unit by unit (sixteen vertices at a time where the
//! processor can), then, for the few that are still open and have longer lists, in the rest of the
//! list from its front. Lists name the neighbour of highest degree first, so most searches end in
//! the first units.
//!
//! In an undirected graph the one arc of a leaf leads back to where the search came from, so its
//! list is not read, except for the source's.
//!
//! Switch rules, in arcs, as each costs about the same on every medium once latency is hidden
//! (`docs/design/graph-kernels.md` has the arithmetic)
//! - down to up: the frontier's out-arcs exceed 1 / [`ALPHA`] of the arcs not yet searched;
//! - up to down: the frontier shrinks and is below 1 / [`BETA`] of all vertices.
//!
//! Invariants
//! - A vertex without incoming arcs counts as visited from the start: nothing can reach it. Checked
//!   by `answers_verify_in_memory`.
//! - During a bottom-up step the frontier is only read, and a vertex's parent and bits are written
//!   by the one member that was handed its span. Checked by `answers_verify_in_memory`,
//!   `media_agree_on_what_is_deterministic`.
//! - Parents differ between runs with several contexts or threads; levels do not. Checked by
//!   `media_agree_on_what_is_deterministic`, `verifiers_refute_wrong_answers`.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use littoral_base::mutant;

use super::algorithm::{Algorithm, Figure, Given, Jobs, Spec};
use super::bits::{Bitmap, words_u32};
use super::hubs::{Hubs, VertexShare};
use super::team::{Cursor, Member, Share, Stepped};
use crate::edges::raw::{Probe, prefetch, probe};
use crate::edges::{Edges, HeadWork, Item, ListWork, Part, Span, Verdict, reads_of, without_arcs};
use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::table::{ByName, Table, counts, vertices};

mod many;
mod verify;

/// Top-down turns into bottom-up when the frontier has more than this share of the arcs left.
pub(crate) const ALPHA: u64 = 15;
/// Bottom-up turns into top-down when the frontier is smaller than this share of the vertices.
pub(crate) const BETA: u64 = 18;
/// No parent.
pub const UNREACHED: u32 = u32::MAX;
/// Lists taken at a time by a member.
const LISTS_CHUNK: u64 = 64;
/// Spans taken at a time by a member when there are several.
const SPANS_CHUNK: u64 = 8;

/// A top-down step over more arcs than 1 / this of the vertices remembers who was visited before
/// it.
const SNAPSHOT: u64 = 16;

/// What the next step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    Down,
    Up,
    End,
}

/// State of a search, reused from one source to the next.
pub(crate) struct Bfs<'g> {
    graph: &'g GraphFile,
    members: usize,
    parent: Vec<AtomicU32>,
    visited: Bitmap,
    unreachable: Bitmap,
    front: [Bitmap; 2],
    /// During a bottom-up step: vertices still without a parent.
    pending: Bitmap,
    /// Who was visited before the latest top-down step, if that was large.
    before: Bitmap,
    queue: RwLock<Vec<u32>>,
    found: Vec<Mutex<Vec<u32>>>,
    cursor: Cursor,
    hubs: Hubs<'g, ()>,
    step: AtomicU8,
    /// Which of `front` is the frontier.
    side: AtomicU32,
    /// Vertices found in the step under way.
    awake: AtomicU64,
    /// Arcs read in the step under way, where they were not counted before it.
    arcs_read: AtomicU64,
    /// The highest degree.
    degree_max: u64,
    /// The fewest arcs of a list that the top-down step under way reads.
    degree_min: AtomicU32,
    plan: Mutex<Plan>,
}

/// What only the leader looks at.
#[derive(Debug, Default)]
struct Plan {
    summary: BfsSummary,
    arcs_left: u64,
    awake_before: u64,
    has_snapshot: bool,
}

/// What a search found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BfsSummary {
    /// Vertices reached, the source included.
    pub reached_count: u64,
    /// Steps from the source to the farthest of them.
    pub levels_count: u32,
    /// Steps taken bottom-up.
    pub steps_up_count: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What other code says about breadth-first search.
const SPEC: Spec = Spec {
    name: "bfs",
    about: "Breadth-first search from a vertex",
    has_source: true,
    uses_weights: false,
    options: &[],
    state_bytes_per_vertex: 14,
    jobs: Jobs {
        kind: "search",
        words: "one search at a time",
        at_once: Some(("searches", "searches at once")),
    },
    examples: &[
        ("littoral graph bfs web.lg --source 7 --output near.csv", "distances from vertex 7"),
        (
            "littoral graph bfs web.lg --medium flash --profile xlfdd",
            "the same search on modelled flash",
        ),
    ],
};

impl<'g> Algorithm<'g> for Bfs<'g> {
    type Options = ();
    /// The parent of each vertex, [`UNREACHED`] without one; the source's parent is itself.
    type Answer = Vec<u32>;
    type Summary = BfsSummary;

    const SPEC: Spec = SPEC;

    fn options(_given: Given<'_>) -> Result<()> {
        Ok(())
    }

    fn new(graph: &'g GraphFile, (): (), members: usize) -> Self {
        let n = graph.vertices() as usize;
        let bitmap = || Bitmap::new(n);
        let unreachable = bitmap();
        without_arcs(graph.incoming(), unreachable.words());
        Bfs {
            graph,
            members,
            parent: words_u32(unreachable.words().len() * 64),
            visited: bitmap(),
            unreachable,
            front: [bitmap(), bitmap()],
            pending: bitmap(),
            before: bitmap(),
            queue: RwLock::new(Vec::with_capacity(n)),
            found: (0..members).map(|_| Mutex::new(Vec::with_capacity(n))).collect(),
            cursor: Cursor::default(),
            hubs: Hubs::new(graph, Direction::Out, members),
            step: AtomicU8::new(Step::End as u8),
            side: AtomicU32::new(0),
            awake: AtomicU64::new(0),
            arcs_read: AtomicU64::new(0),
            degree_max: degree_max(graph),
            degree_min: AtomicU32::new(1),
            plan: Mutex::default(),
        }
    }

    fn run<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E, source: u32) -> Stepped {
        me.each(|| {
            self.clear(me.id());
        })?;
        let span = edges.span_vertices();
        me.lead(|| {
            self.start(source, span);
        })?;
        loop {
            match self.step() {
                Step::Down => me.all(|| self.down::<SHARED, E>(me.id(), edges))?,
                Step::Up => me.all(|| self.up::<SHARED, E>(span, edges))?,
                Step::End => return Ok(()),
            }
            me.lead(|| {
                self.decide(span);
            })?;
        }
    }

    fn run_together<E: Edges>(
        searches: &[Self],
        me: Member<'_>,
        edges: &E,
        sources: &[u32],
    ) -> Stepped {
        many::run_together(searches, me, edges, sources)
    }

    fn bytes(&self) -> u64 {
        let bitmaps = 6 * self.visited.words().len() * 8;
        let queues = (1 + self.members) * self.graph.vertices() as usize * 4;
        (self.parent.len() * 4 + bitmaps + queues) as u64 + self.hubs.bytes()
    }

    fn summary(&self) -> BfsSummary {
        lock(&self.plan).summary
    }

    fn answer(&self) -> Vec<u32> {
        let n = self.graph.vertices() as usize;
        self.parent[..n].iter().map(|p| p.load(Relaxed)).collect()
    }

    fn figures(summary: &BfsSummary) -> Vec<Figure> {
        vec![
            Figure::count("reached_count", summary.reached_count),
            Figure::count("levels_count", summary.levels_count),
        ]
    }

    fn verify(graph: &GraphFile, (): (), source: u32, parents: &Vec<u32>) -> Result<()> {
        verify::bfs(graph, source, parents)
    }

    fn rows(order: &ByName<'_>, parents: &Vec<u32>, top: usize) -> Table {
        rows(order, parents, top)
    }
}

/// The highest degree of outgoing lists.
fn degree_max(graph: &GraphFile) -> u64 {
    let lists = graph.outgoing();
    (0..graph.vertices()).map(|v| u64::from(lists.degree(v))).max().unwrap_or(0)
}

/// How many steps each vertex is from the source, by following parents; [`UNREACHED`] without one.
fn levels(parents: &[u32]) -> Vec<u32> {
    let mut level = vec![UNREACHED; parents.len()];
    let mut way = Vec::new();
    for v in (0u32..).take(parents.len()) {
        let mut at = v;
        while level[at as usize] == UNREACHED && parents[at as usize] != UNREACHED {
            let parent = parents[at as usize];
            if parent == at {
                level[at as usize] = 0;
                break;
            }
            way.push(at);
            at = parent;
        }
        let mut depth = level[at as usize];
        while let Some(below) = way.pop() {
            depth += 1;
            level[below as usize] = depth;
        }
    }
    level
}

fn rows(by_name: &ByName<'_>, parents: &[u32], top: usize) -> Table {
    let level = levels(parents);
    let deepest = level.iter().filter(|&&l| l != UNREACHED).max();
    let mut rows = by_name.by_key(&level, deepest.map_or(0, |&d| d as usize + 1));
    rows.truncate(top);
    let depth = counts("level", rows.iter().map(|&v| level[v as usize].into()));
    let parent = rows.iter().map(|&v| parents[v as usize]).collect();
    Table::new(vec![vertices("vertex", rows), depth, vertices("parent", parent)])
}

impl Bfs<'_> {
    fn step(&self) -> Step {
        match self.step.load(Relaxed) {
            0 => Step::Down,
            1 => Step::Up,
            _ => Step::End,
        }
    }

    /// Member `id`'s share of forgetting the last search.
    fn clear(&self, id: usize) {
        let share = self.parent.len().div_ceil(self.members);
        let parents = self.parent.chunks(share).nth(id).unwrap_or(&[]);
        parents.iter().for_each(|p| p.store(UNREACHED, Relaxed));
    }

    fn start(&self, source: u32, span: u32) {
        self.visited.fill_from(|i| self.unreachable.word(i));
        self.visited.insert::<false>(source);
        self.parent[source as usize].store(source, Relaxed);
        let mut queue = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        queue.clear();
        queue.push(source);
        self.awake.store(0, Relaxed);
        self.arcs_read.store(0, Relaxed);
        let summary = BfsSummary { reached_count: 1, ..BfsSummary::default() };
        let arcs_left = self.graph.header().arcs;
        let mut plan = lock(&self.plan);
        *plan = Plan { summary, arcs_left, awake_before: 1, has_snapshot: false };
        self.choose(&mut plan, &queue, span);
    }

    fn frontier(&self) -> &Bitmap {
        &self.front[self.side.load(Relaxed) as usize]
    }

    fn next_frontier(&self) -> &Bitmap {
        &self.front[1 - self.side.load(Relaxed) as usize]
    }

    /// After a step: ends, goes on, or changes direction.
    fn decide(&self, span: u32) {
        let awake = self.awake.swap(0, Relaxed);
        let arcs_read = self.arcs_read.swap(0, Relaxed);
        let mut plan = lock(&self.plan);
        plan.arcs_left = plan.arcs_left.saturating_sub(arcs_read);
        plan.summary.reached_count += awake;
        plan.summary.levels_count += u32::from(awake > 0);
        if awake == 0 {
            self.step.store(Step::End as u8, Relaxed);
            return;
        }
        let mut queue = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        if self.step() == Step::Up {
            plan.summary.steps_up_count += 1;
            self.side.fetch_xor(1, Relaxed);
            let grows = awake >= plan.awake_before;
            plan.awake_before = awake;
            if grows || awake > u64::from(self.graph.vertices()) / BETA {
                self.share_spans(span);
                return;
            }
            queue.clear();
            self.frontier().collect_into(&mut queue);
            plan.has_snapshot = false;
        } else {
            self.gather(&mut queue);
            plan.awake_before = awake;
        }
        self.choose(&mut plan, &queue, span);
    }

    /// Makes what all members found the new queue.
    fn gather(&self, queue: &mut Vec<u32>) {
        queue.clear();
        for found in &self.found {
            let mut found = lock(found);
            if queue.is_empty() {
                std::mem::swap(queue, &mut found);
            } else {
                queue.append(&mut found);
            }
        }
    }

    /// Chooses how to go on from `queue` and prepares that.
    fn choose(&self, plan: &mut Plan, queue: &[u32], span: u32) {
        let limit = plan.arcs_left / ALPHA;
        // Few vertices of low degree cannot exceed the limit: no pass over their degrees is needed,
        // and their arcs are counted as they are read.
        let most = queue.len() as u64 * self.degree_max;
        let scout = if most <= limit { most } else { self.arcs_of(queue, limit) };
        if scout > limit {
            self.raise(plan, queue);
            self.share_spans(span);
            return;
        }
        plan.has_snapshot = scout > u64::from(self.graph.vertices()) / SNAPSHOT;
        if plan.has_snapshot {
            self.before.fill_from(|i| self.visited.word(i));
        }
        let chunk = (queue.len() / (self.members * 4)).clamp(1, LISTS_CHUNK as usize);
        let chunk = if self.members == 1 { queue.len() } else { chunk };
        self.cursor.reset(queue.len() as u64, chunk as u64);
        self.hubs.hand_out(queue.iter().map(|&v| ((), v)));
        let is_source = plan.summary.levels_count == 0 && !mutant!("graph_leaf_source_left_out");
        let leads_back = !self.graph.is_directed() && !is_source;
        self.degree_min.store(1 + u32::from(leads_back), Relaxed);
        self.step.store(Step::Down as u8, Relaxed);
    }

    /// Out-arcs of `queue`, counted until they exceed `limit`.
    fn arcs_of(&self, queue: &[u32], limit: u64) -> u64 {
        const AHEAD: usize = 16;
        let table = self.graph.outgoing().table();
        let mut arcs = 0;
        for (i, &v) in queue.iter().enumerate() {
            if let Some(&later) = queue.get(i + AHEAD) {
                prefetch(table.entries(), later as usize);
            }
            arcs += u64::from(table.degree(v));
            if arcs > limit {
                break;
            }
        }
        arcs
    }

    /// Makes the frontier a bitmap.
    fn raise(&self, plan: &Plan, queue: &[u32]) {
        let front = self.frontier();
        if plan.has_snapshot {
            front.fill_from(|i| self.visited.word(i) & !self.before.word(i));
            return;
        }
        front.fill_from(|_| 0);
        for &v in queue {
            front.insert::<false>(v);
        }
    }

    fn share_spans(&self, span: u32) {
        let spans = (self.visited.words().len() as u64 * 64) / u64::from(span);
        let chunk = if self.members == 1 { spans } else { SPANS_CHUNK };
        self.cursor.reset(spans, chunk);
        self.step.store(Step::Up as u8, Relaxed);
    }

    fn down<const SHARED: bool, E: Edges>(&self, id: usize, edges: &E) -> Result<()> {
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = lock(&self.found[id]);
        found.clear();
        let work = Down::<SHARED> {
            bfs: self,
            queue: VertexShare::new(&queue, &self.cursor, (&self.hubs, id)),
            found: RefCell::new(&mut found),
            arcs: Cell::new(0),
            degree_min: self.degree_min.load(Relaxed),
        };
        edges.lists(Direction::Out, &work)?;
        work.count_arcs();
        drop(work);
        self.awake.fetch_add(found.len() as u64, Relaxed);
        Ok(())
    }

    fn up<const SHARED: bool, E: Edges>(&self, span: u32, edges: &E) -> Result<()> {
        let heads = self.up_heads::<SHARED>(span);
        edges.heads(Direction::In, &heads)?;
        let rest = heads.into_rest();
        let lists = rest.lists();
        edges.lists(Direction::In, &lists)?;
        lists.count();
        Ok(())
    }

    fn up_heads<const SHARED: bool>(&self, span: u32) -> UpHeads<'_, SHARED> {
        UpHeads {
            bfs: self,
            front: self.frontier(),
            next: self.next_frontier(),
            span,
            share: Share::new(&self.cursor),
            rest: RefCell::new(Vec::new()),
            awake: Cell::new(0),
        }
    }
}

/// Top-down: the frontier's lists.
struct Down<'b, const SHARED: bool> {
    bfs: &'b Bfs<'b>,
    queue: VertexShare<'b, SHARED>,
    found: RefCell<&'b mut Vec<u32>>,
    arcs: Cell<u64>,
    /// Shorter lists lead nowhere new.
    degree_min: u32,
}

impl<const SHARED: bool> Down<'_, SHARED> {
    /// Adds the arcs read to the step's.
    fn count_arcs(&self) {
        self.bfs.arcs_read.fetch_add(self.arcs.get(), Relaxed);
    }
}

impl<const SHARED: bool> ListWork for Down<'_, SHARED> {
    type Tag = ();
    const FROM_THE_FRONT: bool = false;

    #[inline(always)]
    fn next(&self) -> Option<((), Item)> {
        self.queue.next()
    }

    #[inline(always)]
    fn next_part(&self) -> Option<((), Part)> {
        self.queue.next_part()
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        self.queue.reads_max(most, reads)
    }

    fn first(&self, most: usize, each: impl FnMut(u32)) {
        self.queue.first(most, each);
    }

    #[inline(always)]
    fn is_idle(&self, (): (), _vertex: u32, degree: u32) -> bool {
        let is_idle = degree < self.degree_min;
        if is_idle {
            // As if they had been read: arcs decide on the direction too.
            self.arcs.set(self.arcs.get() + u64::from(degree));
        }
        is_idle
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        self.queue.peek(ahead)
    }

    #[inline(always)]
    fn warm(&self, words: &[u32]) {
        for &v in words {
            if self.bfs.visited.get(v) == Some(false) {
                prefetch(&self.bfs.parent, v as usize);
            }
        }
    }

    #[inline(always)]
    fn words(&self, (): (), vertex: u32, words: &[u32]) -> Verdict {
        let bfs = self.bfs;
        self.arcs.set(self.arcs.get() + words.len() as u64);
        let mut found = self.found.borrow_mut();
        for &v in words {
            match bfs.visited.get(v) {
                Some(true) => {}
                Some(false) => {
                    if bfs.visited.insert::<SHARED>(v) {
                        bfs.parent[v as usize].store(vertex, Relaxed);
                        found.push(v);
                    }
                }
                None => return Verdict::Forged,
            }
        }
        Verdict::More
    }
}

/// Bottom-up, first half: the fronts of unvisited vertices' lists.
struct UpHeads<'b, const SHARED: bool> {
    bfs: &'b Bfs<'b>,
    front: &'b Bitmap,
    next: &'b Bitmap,
    span: u32,
    share: Share<'b, SHARED>,
    /// Vertices whose answer, if any, lies behind the units of their block; how many those are.
    rest: RefCell<Vec<Item>>,
    awake: Cell<u64>,
}

impl<const SHARED: bool> HeadWork for UpHeads<'_, SHARED> {
    type Tag = ();

    #[inline(always)]
    fn next(&self) -> Option<((), Span)> {
        loop {
            let first = self.share.next()? as u32 * self.span;
            let span = Span { first, len: self.span };
            let mut any = 0;
            for w in span.words() {
                let open = !self.bfs.visited.word(w);
                self.bfs.pending.words()[w].store(open, Relaxed);
                any |= open;
            }
            if any != 0 {
                return Some(((), span));
            }
            self.next.words()[span.words()].iter().for_each(|w| w.store(0, Relaxed));
        }
    }

    #[inline(always)]
    fn want(&self, (): (), span: Span, _k: u32) -> Option<Span> {
        let is_open = |&w: &usize| self.bfs.pending.word(w) != 0;
        let first = span.words().find(is_open)?;
        let last = span.words().rev().find(is_open)?;
        Some(Span::part(first, last + 1))
    }

    #[inline(always)]
    fn unit(&self, (): (), part: Span, _k: u32, words: &[u32]) -> Verdict {
        let sound = probe(&Probe {
            front: self.front.words(),
            vertices: self.bfs.graph.vertices(),
            words,
            pending: &self.bfs.pending.words()[part.words()],
            parents: &self.bfs.parent[part.vertices()],
        });
        if sound { Verdict::More } else { Verdict::Forged }
    }

    #[inline(always)]
    fn done(&self, (): (), span: Span, units: u32) {
        let bfs = self.bfs;
        let mut awake = 0;
        for w in span.words() {
            let (visited, open) = (bfs.visited.word(w), bfs.pending.word(w));
            let found = !visited & !open;
            self.next.words()[w].store(found, Relaxed);
            bfs.visited.words()[w].store(visited | found, Relaxed);
            awake += u64::from(found.count_ones());
            if open != 0 && units == bfs.graph.header().heads {
                self.put_off(w, open, units);
            }
        }
        self.awake.set(self.awake.get() + awake);
    }
}

/// What the first half of a bottom-up step leaves to the second.
struct UpRest<'b> {
    bfs: &'b Bfs<'b>,
    front: &'b Bitmap,
    next: &'b Bitmap,
    rest: Vec<Item>,
    awake: u64,
}

impl UpRest<'_> {
    fn lists(&self) -> UpLists<'_> {
        UpLists {
            bfs: self.bfs,
            front: self.front,
            next: self.next,
            rest: &self.rest,
            at: Cell::new(0),
            awake: Cell::new(self.awake),
        }
    }
}

impl<'b, const SHARED: bool> UpHeads<'b, SHARED> {
    fn into_rest(self) -> UpRest<'b> {
        let (rest, awake) = (self.rest.into_inner(), self.awake.get());
        UpRest { bfs: self.bfs, front: self.front, next: self.next, rest, awake }
    }

    /// Remembers those vertices of bitmap word `w` whose lists go on behind HEADS.
    fn put_off(&self, w: usize, mut open: u64, units: u32) {
        let lists = self.bfs.graph.incoming();
        let mut rest = self.rest.borrow_mut();
        while open != 0 {
            let vertex = w as u32 * 64 + open.trailing_zeros();
            open &= open - 1;
            if lists.degree(vertex) > units {
                rest.push(Item { vertex, skip: units });
            }
        }
    }
}

/// Bottom-up, second half: the rest of the lists of those still open.
struct UpLists<'b> {
    bfs: &'b Bfs<'b>,
    front: &'b Bitmap,
    next: &'b Bitmap,
    rest: &'b [Item],
    at: Cell<usize>,
    awake: Cell<u64>,
}

impl UpLists<'_> {
    /// Adds the vertices found to the step's.
    fn count(&self) {
        self.bfs.awake.fetch_add(self.awake.get(), Relaxed);
    }
}

impl ListWork for UpLists<'_> {
    type Tag = ();
    const FROM_THE_FRONT: bool = true;

    #[inline(always)]
    fn next(&self) -> Option<((), Item)> {
        let item = self.rest.get(self.at.get()).copied();
        self.at.set(self.at.get() + 1);
        item.map(|item| ((), item))
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        Some(reads_of(self.rest.iter().map(|item| item.vertex), most, reads))
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        self.rest.get(self.at.get() + ahead as usize).map(|i| i.vertex)
    }

    fn warm(&self, _words: &[u32]) {}

    #[inline(always)]
    fn words(&self, (): (), vertex: u32, words: &[u32]) -> Verdict {
        for &v in words {
            match self.front.get(v) {
                Some(false) => {}
                Some(true) => {
                    self.bfs.parent[vertex as usize].store(v, Relaxed);
                    self.bfs.visited.insert::<false>(vertex);
                    self.next.insert::<false>(vertex);
                    self.awake.set(self.awake.get() + 1);
                    return Verdict::Enough;
                }
                None => return Verdict::Forged,
            }
        }
        Verdict::More
    }
}
