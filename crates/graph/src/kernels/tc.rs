//! Triangles per vertex, from lists that lead towards higher degrees.
//!
//! Vertices are ranked by degree, the highest first. A vertex's *forward list* has its neighbours
//! of smaller rank, so a hub's forward list is short. Each triangle is found once: at its vertex of
//! highest rank `u`, for the pair `v`, `w` of its forward list in which `w` is in the forward list
//! of `v`. Direction is ignored: an arc either way joins two vertices, arcs both ways do so once.
//!
//! Steps: per range of ranks, lists are read and forward lists kept in DRAM, shared by all threads
//! -> their triangles among themselves -> per later range, its forward lists against those held.
//!
//! Invariants
//! - At most two ranges of [`HELD_WORDS_MAX`] words are held at once, or one list where a list is
//!   longer. Checked by `ranges_of_any_size_find_the_same_triangles`.
//! - A graph whose forward lists fit one range is read once. Checked by
//!   `counting_triangles_reads_each_list_once`.
//! - A forward list has no vertex twice. Checked by `triangles_are_those_of_small_graphs_by_hand`.
//!
//! No paper describes this kernel; it is the GAP suite's count by degree order, with held ranges as
//! in massive graph triangulation (Hu, Tao, Chung, SIGMOD 2013).

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::algorithm::{Algorithm, Figure, Given, Jobs, Spec};
use super::bits::{words_u32, words_u64};
use super::hubs::{HubShare, Hubs};
use super::team::{Cursor, Member, Share, Stepped};
use crate::edges::raw::prefetch;
use crate::edges::{Edges, Item, ListWork, Part, Verdict, reads_of};
use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::table::{ByName, Table, counts, first, vertices};

mod verify;

/// Words of forward lists in one range: 512 MiB.
const HELD_WORDS_MAX: u64 = 1 << 27;
/// Lists taken at a time by a member when there are several.
const LISTS_CHUNK: u64 = 64;
/// Ranks whose counts each member keeps for itself until its share is done: every thread finds
/// triangles at the hubs.
const HUBS: usize = 4096;

/// What a run found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcSummary {
    /// Triangles in the graph.
    pub triangles_count: u64,
    /// Vertices that belong to one.
    pub vertices_in_triangles_count: u64,
}

/// State of a run.
pub(crate) struct Tc<'g> {
    graph: &'g GraphFile,
    members: usize,
    ranking: Option<Ranking>,
    ranges: Vec<Range<u32>>,
    /// The range against which triangles are counted, and a later one.
    held: [RwLock<Held>; 2],
    scratch: Vec<Mutex<Scratch>>,
    cursor: Cursor,
    /// By direction; the tag is the rank's place in its range.
    hubs: [Hubs<'g, u32>; 2],
    triangles: Vec<AtomicU64>,
}

/// Which vertex has which rank, where ids are not in order of degrees.
struct Ranking {
    rank: Vec<u32>,
    order: Vec<u32>,
}

/// Forward lists, as ranks, of the vertices of one range of ranks.
#[derive(Default)]
struct Held {
    ranks: Range<u32>,
    /// Where each list's room begins in `words`, and the end of the last.
    starts: Vec<u64>,
    /// Words of each list so far.
    lens: Vec<AtomicU32>,
    words: Vec<AtomicU32>,
}

/// What one member works with.
struct Scratch {
    /// One bit a rank: the forward list at hand.
    marks: Vec<u64>,
    /// Triangles of the first [`HUBS`] ranks.
    hubs: Vec<u64>,
    /// A list while it is put in order.
    sorted: Vec<u32>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

#[inline(always)]
fn add<const SHARED: bool>(word: &AtomicU64, more: u64) {
    if SHARED {
        word.fetch_add(more, Relaxed);
    } else {
        word.store(word.load(Relaxed) + more, Relaxed);
    }
}

/// What other code says about triangles.
const SPEC: Spec = Spec {
    name: "tc",
    about: "Triangles of each vertex and of the graph",
    has_source: false,
    uses_weights: false,
    options: &[],
    state_bytes_per_vertex: 28,
    jobs: Jobs { kind: "triangles", words: "triangles", at_once: None },
    examples: &[
        ("littoral graph tc web.lg --verify", "the number of triangles, checked serially"),
        ("littoral graph tc friends.csv --top 100 -o close.tsv", "the hundred most in triangles"),
    ],
};

impl<'g> Algorithm<'g> for Tc<'g> {
    type Options = ();
    /// How many triangles each vertex belongs to.
    type Answer = Vec<u64>;
    type Summary = TcSummary;

    const SPEC: Spec = SPEC;

    fn options(_given: Given<'_>) -> Result<()> {
        Ok(())
    }

    fn new(graph: &'g GraphFile, (): (), members: usize) -> Self {
        Tc::holding(graph, members, HELD_WORDS_MAX)
    }

    fn run<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E, _: u32) -> Stepped {
        me.each(|| self.own(me.id()).iter().for_each(|t| t.store(0, Relaxed)))?;
        for (i, near) in self.ranges.iter().enumerate() {
            self.hold::<SHARED, E>(me, edges, (0, near))?;
            self.count::<SHARED>(me, 0)?;
            for far in &self.ranges[i + 1..] {
                self.hold::<SHARED, E>(me, edges, (1, far))?;
                self.count::<SHARED>(me, 1)?;
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        let held = self.held.iter().map(|h| read(h).bytes()).sum::<u64>();
        let ranking = self.ranking.as_ref().map_or(0, |r| 4 * (r.rank.len() + r.order.len()));
        let scratch = self.scratch.iter().map(|s| 8 * lock(s).marks.len()).sum::<usize>();
        let hubs = self.hubs.iter().map(Hubs::bytes).sum::<u64>();
        held + hubs + (ranking + scratch + 8 * self.triangles.len()) as u64
    }

    fn summary(&self) -> TcSummary {
        let each = || self.triangles.iter().map(|t| t.load(Relaxed));
        TcSummary {
            triangles_count: each().sum::<u64>() / 3,
            vertices_in_triangles_count: each().filter(|&t| t > 0).count() as u64,
        }
    }

    fn answer(&self) -> Vec<u64> {
        let n = self.graph.vertices();
        (0..n).map(|v| self.triangles[self.rank(v) as usize].load(Relaxed)).collect()
    }

    fn figures(summary: &TcSummary) -> Vec<Figure> {
        vec![
            Figure::count("triangles_count", summary.triangles_count),
            Figure::count("vertices_in_triangles_count", summary.vertices_in_triangles_count),
        ]
    }

    fn verify(graph: &GraphFile, (): (), _source: u32, triangles: &Vec<u64>) -> Result<()> {
        verify::tc(graph, triangles)
    }

    fn rows(order: &ByName<'_>, triangles: &Vec<u64>, top: usize) -> Table {
        let place = |v: &u32| order.place[*v as usize];
        let most = |a: &u32, b: &u32| {
            let (high, low) = (triangles[*b as usize], triangles[*a as usize]);
            high.cmp(&low).then_with(|| place(a).cmp(&place(b)))
        };
        let rows = first(triangles.len(), top, most);
        let cells = counts("triangles", rows.iter().map(|&v| triangles[v as usize]));
        Table::new(vec![vertices("vertex", rows), cells])
    }
}

/// The arcs of `v` in all directions.
fn arcs(graph: &GraphFile, v: u32) -> u32 {
    let directions = graph.header().directions().iter();
    directions.map(|&d| graph.lists(d).degree(v)).fold(0, u32::saturating_add)
}

/// The ranks of vertices, unless each vertex's id is its rank.
fn ranking(graph: &GraphFile) -> Option<Ranking> {
    let degree: Vec<u32> = (0..graph.vertices()).map(|v| arcs(graph, v)).collect();
    if degree.is_sorted_by(|a, b| a >= b) {
        return None;
    }
    let mut order: Vec<u32> = (0..graph.vertices()).collect();
    order.sort_by_key(|&v| std::cmp::Reverse(degree[v as usize]));
    let mut rank = vec![0; order.len()];
    (0u32..).zip(&order).for_each(|(r, &v)| rank[v as usize] = r);
    Some(Ranking { rank, order })
}

impl<'g> Tc<'g> {
    /// State that holds ranges of `words` words.
    fn holding(graph: &'g GraphFile, members: usize, words: u64) -> Self {
        let n = graph.vertices() as usize;
        let scratch = || Scratch {
            marks: vec![0; n.div_ceil(64)],
            hubs: vec![0; HUBS.min(n)],
            sorted: Vec::new(),
        };
        let mut tc = Tc {
            graph,
            members,
            ranking: ranking(graph),
            ranges: Vec::new(),
            held: Default::default(),
            scratch: (0..members).map(|_| Mutex::new(scratch())).collect(),
            cursor: Cursor::default(),
            hubs: [Direction::Out, Direction::In].map(|d| Hubs::new(graph, d, members)),
            triangles: words_u64(n),
        };
        tc.ranges = tc.split(words);
        tc
    }

    /// Ranges of ranks whose forward lists have room in `words` words, at least one rank each.
    fn split(&self, words: u64) -> Vec<Range<u32>> {
        let n = self.graph.vertices();
        let (mut ranges, mut from, mut sum) = (Vec::new(), 0, 0);
        for r in 0..n {
            let room = self.room(r);
            if r > from && sum + room > words {
                ranges.push(from..r);
                (from, sum) = (r, 0);
            }
            sum += room;
        }
        ranges.push(from..n);
        ranges
    }

    /// The most words that the forward list of rank `r` can have. A vertex with one arc belongs to
    /// no triangle.
    fn room(&self, r: u32) -> u64 {
        let arcs = arcs(self.graph, self.vertex(r));
        // In a directed graph a neighbour can be named twice.
        let ahead = u64::from(r) * self.graph.header().directions().len() as u64;
        if arcs < 2 { 0 } else { u64::from(arcs).min(ahead) }
    }

    #[inline(always)]
    fn vertex(&self, r: u32) -> u32 {
        self.ranking.as_ref().map_or(r, |ranking| ranking.order[r as usize])
    }

    #[inline(always)]
    fn rank(&self, v: u32) -> u32 {
        self.ranking.as_ref().map_or(v, |ranking| ranking.rank[v as usize])
    }

    /// Member `id`'s part of the counts.
    fn own(&self, id: usize) -> &[AtomicU64] {
        let share = self.triangles.len().div_ceil(self.members);
        self.triangles.chunks(share).nth(id).unwrap_or(&[])
    }

    fn hand_out(&self, lists: usize) {
        let chunk = if self.members == 1 { lists as u64 } else { LISTS_CHUNK };
        self.cursor.reset(lists as u64, chunk);
    }

    /// Reads the forward lists of a range into `held[at]`.
    fn hold<const SHARED: bool, E: Edges>(
        &self,
        me: Member<'_>,
        edges: &E,
        (at, range): (usize, &Range<u32>),
    ) -> Stepped {
        me.lead(|| {
            let mut held = self.held[at].write().unwrap_or_else(PoisonError::into_inner);
            held.reset(range.clone(), |r| self.room(r));
        })?;
        for &direction in self.graph.header().directions() {
            let hubs = &self.hubs[direction as usize];
            me.lead(|| {
                self.hand_out(range.len());
                hubs.hand_out((0u32..).zip(range.clone()).map(|(i, r)| (i, self.vertex(r))));
            })?;
            me.all(|| {
                let (share, parts) = (Share::new(&self.cursor), hubs.share(me.id()));
                let held = &*read(&self.held[at]);
                let work = Forward::<SHARED> { tc: self, held, share, hubs, parts };
                edges.lists(direction, &work)
            })?;
        }
        me.lead(|| self.hand_out(range.len()))?;
        me.each(|| {
            let held = read(&self.held[at]);
            let sorted = &mut lock(&self.scratch[me.id()]).sorted;
            let share = Share::<SHARED>::new(&self.cursor);
            while let Some(i) = share.next() {
                held.put_in_order(i as usize, sorted);
            }
        })
    }

    /// Counts the triangles whose vertex of highest rank is in `held[at]` and whose second one is
    /// in `held[0]`.
    fn count<const SHARED: bool>(&self, me: Member<'_>, at: usize) -> Stepped {
        me.lead(|| self.hand_out(read(&self.held[at]).ranks.len()))?;
        me.each(|| {
            let (near, from) = (read(&self.held[0]), read(&self.held[at]));
            let mut scratch = lock(&self.scratch[me.id()]);
            let share = Share::<SHARED>::new(&self.cursor);
            while let Some(i) = share.next() {
                if me.is_interrupted() {
                    break;
                }
                let list = from.list(i as usize);
                let found = scratch.count_at::<SHARED>(list, &near, &self.triangles);
                if found > 0 {
                    add::<SHARED>(&self.triangles[from.ranks.start as usize + i as usize], found);
                }
            }
            for (hub, all) in scratch.hubs.iter_mut().zip(&self.triangles) {
                add::<SHARED>(all, std::mem::take(hub));
            }
        })
    }
}

impl Held {
    /// Makes room for the forward lists of `ranks`.
    fn reset(&mut self, ranks: Range<u32>, room: impl Fn(u32) -> u64) {
        self.starts.clear();
        self.starts.push(0);
        let mut end = 0;
        for r in ranks.clone() {
            end += room(r);
            self.starts.push(end);
        }
        if self.words.len() < end as usize {
            self.words = words_u32(end as usize);
        }
        if self.lens.len() < ranks.len() {
            self.lens = words_u32(ranks.len());
        }
        self.lens.iter().for_each(|len| len.store(0, Relaxed));
        self.ranks = ranks;
    }

    /// The forward list of the `i`-th rank of the range.
    #[inline(always)]
    fn list(&self, i: usize) -> &[AtomicU32] {
        let from = self.starts[i] as usize;
        &self.words[from..from + self.lens[i].load(Relaxed) as usize]
    }

    /// Adds to the list of the `i`-th rank; answers whether there was room. Several members add to
    /// a list at a time only where `IS_SHARED`.
    #[inline(always)]
    fn push<const IS_SHARED: bool>(&self, i: usize, r: u32) -> bool {
        let len = match IS_SHARED {
            true => self.lens[i].fetch_add(1, Relaxed),
            false => self.lens[i].load(Relaxed),
        };
        let at = self.starts[i] + u64::from(len);
        // A list without room ends the run: that its length is one too many is never seen.
        if at >= self.starts[i + 1] {
            return false;
        }
        self.words[at as usize].store(r, Relaxed);
        if !IS_SHARED {
            self.lens[i].store(len + 1, Relaxed);
        }
        true
    }

    /// Sorts the list of the `i`-th rank and removes what it has twice.
    fn put_in_order(&self, i: usize, sorted: &mut Vec<u32>) {
        let list = self.list(i);
        if list.is_sorted_by(|a, b| a.load(Relaxed) < b.load(Relaxed)) {
            return;
        }
        sorted.clear();
        sorted.extend(list.iter().map(|r| r.load(Relaxed)));
        sorted.sort_unstable();
        sorted.dedup();
        sorted.iter().zip(list).for_each(|(&r, word)| word.store(r, Relaxed));
        self.lens[i].store(sorted.len() as u32, Relaxed);
    }

    fn bytes(&self) -> u64 {
        (4 * (self.words.len() + self.lens.len()) + 8 * self.starts.len()) as u64
    }
}

impl Scratch {
    /// Counts the triangles that a vertex with forward list `list` makes with lists of `near`:
    /// answers how many there are and adds them to the other two vertices.
    #[inline(always)]
    fn count_at<const SHARED: bool>(
        &mut self,
        list: &[AtomicU32],
        near: &Held,
        triangles: &[AtomicU64],
    ) -> u64 {
        let inside = list.iter().map(|v| v.load(Relaxed)).filter(|v| near.ranks.contains(v));
        let mut inside = inside.peekable();
        if list.len() < 2 || inside.peek().is_none() {
            return 0;
        }
        self.mark(list, |word, bit| *word |= bit);
        let mut found = 0;
        for v in inside {
            let mut pairs = 0;
            for w in near.list((v - near.ranks.start) as usize) {
                let w = w.load(Relaxed) as usize;
                if self.marks[w / 64] >> (w % 64) & 1 != 0 {
                    pairs += 1;
                    self.add_one::<SHARED>(w, triangles);
                }
            }
            if pairs > 0 {
                add::<SHARED>(&triangles[v as usize], pairs);
                found += pairs;
            }
        }
        self.mark(list, |word, bit| *word &= !bit);
        found
    }

    #[inline(always)]
    fn mark(&mut self, list: &[AtomicU32], how: impl Fn(&mut u64, u64)) {
        for r in list {
            let r = r.load(Relaxed) as usize;
            how(&mut self.marks[r / 64], 1 << (r % 64));
        }
    }

    #[inline(always)]
    fn add_one<const SHARED: bool>(&mut self, r: usize, triangles: &[AtomicU64]) {
        match self.hubs.get_mut(r) {
            Some(hub) => *hub += 1,
            None => add::<SHARED>(&triangles[r], 1),
        }
    }
}

/// Keeps the forward lists of a range.
struct Forward<'t, const SHARED: bool> {
    tc: &'t Tc<'t>,
    held: &'t Held,
    share: Share<'t, SHARED>,
    hubs: &'t Hubs<'t, u32>,
    parts: HubShare<'t, u32>,
}

impl<const SHARED: bool> Forward<'_, SHARED> {
    /// Adds those of `words` with smaller ranks to a forward list, to which others may add too.
    #[inline(always)]
    fn add<const IS_SHARED: bool>(&self, i: u32, words: &[u32]) -> Verdict {
        let (n, own) = (self.tc.graph.vertices(), self.held.ranks.start + i);
        for &v in words {
            if v >= n {
                return Verdict::Forged;
            }
            let r = self.tc.rank(v);
            if r < own && !self.held.push::<IS_SHARED>(i as usize, r) {
                return Verdict::Forged;
            }
        }
        Verdict::More
    }

    fn vertex(&self, i: u64) -> u32 {
        self.tc.vertex(self.held.ranks.start + i as u32)
    }

    fn is_read(&self, v: u32) -> bool {
        arcs(self.tc.graph, v) > 1
    }
}

impl<const SHARED: bool> ListWork for Forward<'_, SHARED> {
    /// Which rank of the range.
    type Tag = u32;
    const FROM_THE_FRONT: bool = false;

    #[inline(always)]
    fn next(&self) -> Option<(u32, Item)> {
        loop {
            let i = self.share.next()?;
            let vertex = self.vertex(i);
            if SHARED && self.hubs.holds(vertex) {
                continue;
            }
            if self.is_read(vertex) {
                return Some((i as u32, Item { vertex, skip: 0 }));
            }
        }
    }

    #[inline(always)]
    fn next_part(&self) -> Option<(u32, Part)> {
        if SHARED { self.parts.next() } else { None }
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        let vertices = self.held.ranks.clone().map(|r| self.tc.vertex(r));
        Some(reads_of(vertices, most, reads))
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        self.share.peek(ahead).map(|i| self.vertex(i))
    }

    #[inline(always)]
    fn warm(&self, words: &[u32]) {
        if let Some(ranking) = &self.tc.ranking {
            words.iter().for_each(|&v| prefetch(&ranking.rank, v as usize));
        }
    }

    #[inline(always)]
    fn words(&self, i: u32, vertex: u32, words: &[u32]) -> Verdict {
        if SHARED && self.hubs.holds(vertex) {
            return self.add::<true>(i, words);
        }
        self.add::<false>(i, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{BuildOptions, EdgeList, Hooks, Order, build_in_memory};
    use crate::edges::hint::Hint;
    use crate::edges::resident::{Hints, Resident};
    use crate::edges::verified::Verified;
    use crate::kernels::team::Team;

    fn triangles_by(graph: &GraphFile, members: usize, words: u64) -> Vec<u64> {
        let tc = Tc::holding(graph, members, words);
        let image = graph.as_image().unwrap();
        let words: Vec<u32> =
            image.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
        let (hints, verified, team) = (Hints::default(), Verified::default(), Team::new(members));
        std::thread::scope(|s| {
            for id in 0..members {
                let (tc, team) = (&tc, &team);
                let (hints, verified, words) = (&hints, &verified, &words);
                s.spawn(move || {
                    let bytes = bytemuck::cast_slice(words);
                    let edges =
                        Resident::new(graph, bytes, Some(Hint::None), hints, verified).unwrap();
                    let me = Member::new(team, id);
                    match members {
                        1 => tc.run::<false, _>(me, &edges, 0).unwrap(),
                        _ => tc.run::<true, _>(me, &edges, 0).unwrap(),
                    }
                });
            }
        });
        team.into_result().unwrap();
        tc.answer()
    }

    #[test]
    fn ranges_of_any_size_find_the_same_triangles() {
        let n = 120u32;
        let near = (0..n).flat_map(|v| (1..4 + v % 5).map(move |d| [v, (v + d * d) % n]));
        let edges: Vec<[u32; 2]> = near.chain((1..60).map(|v| [0, v])).collect();
        for (directed, order) in
            [(false, Order::Degree), (false, Order::Input), (true, Order::Degree)]
        {
            let options = BuildOptions { order, ..BuildOptions::default() };
            let list = EdgeList::new(n, directed, edges.clone());
            let (image, _) = build_in_memory(list, &options, &mut Hooks::none()).unwrap();
            let graph = GraphFile::from_image(image).unwrap();
            let whole = triangles_by(&graph, 1, HELD_WORDS_MAX);
            verify::tc(&graph, &whole).unwrap();
            for (members, words) in [(1, 1), (1, 50), (2, 333), (3, 1)] {
                assert!(Tc::holding(&graph, members, words).ranges.len() > 1, "several ranges");
                assert_eq!(triangles_by(&graph, members, words), whole, "{members} {words}");
            }
        }
    }
}
