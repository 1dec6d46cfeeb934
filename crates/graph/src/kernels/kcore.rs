//! Core numbers by peeling: vertices of the least degree left are taken away, level by level.
//!
//! A vertex's core number is the largest k for which it belongs to a part of the graph in which
//! every vertex has at least k arcs. In a directed graph arcs in both directions count, as in
//! NetworkX.
//!
//! Steps: degrees -> the level is the least degree left -> the lists of the vertices at that level
//! lower their neighbours' degrees -> those that reach the level join -> none joins: the next
//! level.
//!
//! Invariants
//! - A degree is never lowered below the level, so at the end it is the core number. Checked by
//!   `answers_verify_in_memory`.
//! - Every list is read once. Checked by `peeling_reads_each_list_once`.
//!
//! No paper describes this kernel; it is the peeling of Matula and Beck with a shared level.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use super::algorithm::{Algorithm, Figure, Given, Jobs, Spec};
use super::bits::words_u32;
use super::hubs::{Hubs, VertexShare};
use super::team::{Cursor, Member, Stepped};
use crate::edges::raw::prefetch;
use crate::edges::{Edges, Item, ListWork, Part, Verdict};
use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::table::{ByName, Table, counts, vertices};

mod verify;

/// Lists taken at a time by a member when there are several.
const LISTS_CHUNK: usize = 64;

/// What a run found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KcoreSummary {
    /// The highest core number.
    pub core_max_count: u32,
    /// Vertices that have it.
    pub innermost_count: u64,
}

/// State of a run.
pub(crate) struct Kcore<'g> {
    graph: &'g GraphFile,
    members: usize,
    /// Arcs to vertices that are left; of vertices taken away, the core number.
    degree: Vec<AtomicU32>,
    level: AtomicU32,
    /// Vertices above the level.
    left: Mutex<Vec<u32>>,
    frontier: RwLock<Vec<u32>>,
    found: Vec<Mutex<Vec<u32>>>,
    cursor: Cursor,
    /// By direction.
    hubs: [Hubs<'g, ()>; 2],
    ended: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What other code says about core numbers.
const SPEC: Spec = Spec {
    name: "kcore",
    about: "Core numbers by peeling",
    has_source: false,
    uses_weights: false,
    options: &[],
    state_bytes_per_vertex: 12,
    jobs: Jobs { kind: "cores", words: "core numbers", at_once: None },
    examples: &[
        ("littoral graph kcore web.lg --verify", "core numbers, checked serially"),
        ("littoral graph kcore links.csv --top 100 -o dense.tsv", "the innermost hundred vertices"),
    ],
};

impl<'g> Algorithm<'g> for Kcore<'g> {
    type Options = ();
    /// The core number of each vertex.
    type Answer = Vec<u32>;
    type Summary = KcoreSummary;

    const SPEC: Spec = SPEC;

    fn options(_given: Given<'_>) -> Result<()> {
        Ok(())
    }

    fn new(graph: &'g GraphFile, (): (), members: usize) -> Self {
        Kcore {
            graph,
            members,
            degree: words_u32(graph.vertices() as usize),
            level: AtomicU32::new(0),
            left: Mutex::default(),
            frontier: RwLock::default(),
            found: (0..members).map(|_| Mutex::default()).collect(),
            cursor: Cursor::default(),
            hubs: [Direction::Out, Direction::In].map(|d| Hubs::new(graph, d, members)),
            ended: AtomicBool::new(false),
        }
    }

    fn run<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E, _: u32) -> Stepped {
        me.each(|| self.count_arcs(me.id()))?;
        me.lead(|| {
            let mut left = lock(&self.left);
            left.clear();
            left.extend(0..self.graph.vertices());
            self.ended.store(false, Relaxed);
            self.next_level(&mut left);
        })?;
        while !self.ended.load(Relaxed) {
            for &direction in self.graph.header().directions() {
                me.lead(|| self.hand_out(direction))?;
                me.all(|| self.peel::<SHARED, E>(me.id(), direction, edges))?;
            }
            me.lead(|| self.gather())?;
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        let frontier = self.frontier.read().unwrap_or_else(PoisonError::into_inner).capacity();
        let hubs = self.hubs.iter().map(Hubs::bytes).sum::<u64>();
        ((self.degree.len() + lock(&self.left).capacity() + frontier) * 4) as u64 + hubs
    }

    fn summary(&self) -> KcoreSummary {
        let cores = || self.degree.iter().map(|d| d.load(Relaxed));
        let core_max_count = cores().max().unwrap_or(0);
        let innermost_count = cores().filter(|&c| c == core_max_count).count() as u64;
        KcoreSummary { core_max_count, innermost_count }
    }

    fn answer(&self) -> Vec<u32> {
        self.degree.iter().map(|d| d.load(Relaxed)).collect()
    }

    fn figures(summary: &KcoreSummary) -> Vec<Figure> {
        vec![
            Figure::count("core_max_count", summary.core_max_count),
            Figure::count("innermost_count", summary.innermost_count),
        ]
    }

    fn verify(graph: &GraphFile, (): (), _source: u32, cores: &Vec<u32>) -> Result<()> {
        verify::kcore(graph, cores)
    }

    fn rows(order: &ByName<'_>, cores: &Vec<u32>, top: usize) -> Table {
        let highest = cores.iter().max().copied().unwrap_or(0);
        let depth: Vec<u32> = cores.iter().map(|c| highest - c).collect();
        let mut rows = order.by_key(&depth, highest as usize + 1);
        rows.truncate(top);
        let core = counts("core", rows.iter().map(|&v| cores[v as usize].into()));
        Table::new(vec![vertices("vertex", rows), core])
    }
}

impl Kcore<'_> {
    /// Member `id`'s share of setting degrees.
    fn count_arcs(&self, id: usize) {
        let share = self.degree.len().div_ceil(self.members);
        let own = self.degree.chunks(share).nth(id).unwrap_or(&[]);
        for (v, degree) in ((id * share) as u32..).zip(own) {
            let directions = self.graph.header().directions().iter();
            let arcs = directions.map(|&d| self.graph.lists(d).degree(v)).sum();
            degree.store(arcs, Relaxed);
        }
    }

    /// Goes on with the least degree of the vertices left, or ends.
    fn next_level(&self, left: &mut Vec<u32>) {
        let degree = |v: &u32| self.degree[*v as usize].load(Relaxed);
        let Some(level) = left.iter().map(degree).min() else {
            return self.ended.store(true, Relaxed);
        };
        self.level.store(level, Relaxed);
        let mut frontier = self.frontier.write().unwrap_or_else(PoisonError::into_inner);
        frontier.clear();
        frontier.extend(left.iter().filter(|v| degree(v) == level));
        left.retain(|v| degree(v) > level);
    }

    fn hand_out(&self, direction: Direction) {
        let frontier = self.frontier.read().unwrap_or_else(PoisonError::into_inner);
        self.hubs[direction as usize].hand_out(frontier.iter().map(|&v| ((), v)));
        let lists = frontier.len();
        let chunk = (lists / (self.members * 4)).clamp(1, LISTS_CHUNK);
        let chunk = if self.members == 1 { lists } else { chunk };
        self.cursor.reset(lists as u64, chunk as u64);
    }

    fn peel<const SHARED: bool, E: Edges>(
        &self,
        id: usize,
        direction: Direction,
        edges: &E,
    ) -> Result<()> {
        let frontier = self.frontier.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = lock(&self.found[id]);
        let work = Peel::<SHARED> {
            degree: &self.degree,
            level: self.level.load(Relaxed),
            frontier: VertexShare::new(
                &frontier,
                &self.cursor,
                (&self.hubs[direction as usize], id),
            ),
            found: RefCell::new(&mut found),
        };
        edges.lists(direction, &work)
    }

    /// Makes the vertices that reached the level the frontier; without any, goes on to the next.
    fn gather(&self) {
        let mut frontier = self.frontier.write().unwrap_or_else(PoisonError::into_inner);
        frontier.clear();
        self.found.iter().for_each(|found| frontier.append(&mut lock(found)));
        let (level, degree) = (self.level.load(Relaxed), |v: &u32| &self.degree[*v as usize]);
        let is_level = |v: &u32| degree(v).load(Relaxed) == level;
        debug_assert!(frontier.iter().all(is_level), "a degree beside the level {level}");
        if frontier.is_empty() {
            drop(frontier);
            let mut left = lock(&self.left);
            left.retain(|&v| self.degree[v as usize].load(Relaxed) > level);
            self.next_level(&mut left);
        }
    }
}

/// The lists of the vertices that are taken away.
struct Peel<'k, const SHARED: bool> {
    degree: &'k [AtomicU32],
    level: u32,
    frontier: VertexShare<'k, SHARED>,
    found: RefCell<&'k mut Vec<u32>>,
}

impl<const SHARED: bool> Peel<'_, SHARED> {
    /// Lowers a degree above the level; answers whether it reached the level by that.
    #[inline(always)]
    fn lower(&self, degree: &AtomicU32) -> bool {
        let before = degree.load(Relaxed);
        if before <= self.level {
            return false;
        }
        if !SHARED {
            degree.store(before - 1, Relaxed);
            return before - 1 == self.level;
        }
        let lowered = |d: u32| (d > self.level).then(|| d - 1);
        degree.fetch_update(Relaxed, Relaxed, lowered).is_ok_and(|d| d - 1 == self.level)
    }
}

impl<const SHARED: bool> ListWork for Peel<'_, SHARED> {
    type Tag = ();
    const FROM_THE_FRONT: bool = false;

    #[inline(always)]
    fn next(&self) -> Option<((), Item)> {
        self.frontier.next()
    }

    #[inline(always)]
    fn next_part(&self) -> Option<((), Part)> {
        self.frontier.next_part()
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        self.frontier.reads_max(most, reads)
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        self.frontier.peek(ahead)
    }

    #[inline(always)]
    fn warm(&self, words: &[u32]) {
        words.iter().for_each(|&v| prefetch(self.degree, v as usize));
    }

    #[inline(always)]
    fn words(&self, (): (), _vertex: u32, words: &[u32]) -> Verdict {
        let mut found = self.found.borrow_mut();
        for &v in words {
            let Some(degree) = self.degree.get(v as usize) else { return Verdict::Forged };
            if self.lower(degree) {
                found.push(v);
            }
        }
        Verdict::More
    }
}
