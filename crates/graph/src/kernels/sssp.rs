//! Shortest paths by weight from one source: delta-stepping over the lists of outgoing arcs.
//!
//! Vertices wait in bins of one width, delta, by their distance. A step relaxes the arcs of all
//! vertices in the lowest bin, and of those that fall into that bin meanwhile.
//!
//! Steps: clear -> source into bin 0 -> relax the lowest bin -> the leader gathers the next one
//! from all members' bins -> ... -> all bins are empty.
//!
//! Invariants
//! - Distances are sums of single precision from the source on. Rounding never makes a longer sum
//!   smaller, so every distance is the least over all paths, whatever the order of the work: equal
//!   bit by bit on every medium and with any number of threads. Checked by
//!   `media_agree_on_what_is_deterministic`.
//! - An entry is worked on only while its distance is still its vertex's: each distance that a
//!   vertex had is relaxed at most once, so superseded entries cost no read. Checked by
//!   `a_superseded_entry_costs_no_read`.
//! - The list of a leaf of an undirected graph is not read, except for the source's: its one arc
//!   leads back to a vertex that is no farther. Checked by
//!   `lists_that_lead_back_are_not_read_except_for_the_source`.
//! - A step ends when its bin is empty, and while vertices fall into it as many contexts read as
//!   the ring has. Checked by `vertices_that_join_a_step_are_read_together`, `Sssp::relax`.
//! - Bins cover [`BINS`] times delta; what lies beyond waits in one list and is sorted into bins
//!   when those are empty, so hostile weights cannot make more bins. Checked by
//!   `distances_of_any_range_are_those_of_dijkstra`.
//! - A vertex whose least sum is above the range of single precision is told from one that no path
//!   reaches: it waits beyond the bins until nothing else does, and then the run is refused.
//!   Checked by `sums_above_single_precision_are_refused`.
//!
//! Deviations from the paper: none is known; its listing of SSSP is lost. Light and heavy arcs are
//! not told apart, as in the GAP suite.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use littoral_base::mutant;

use super::algorithm::{Algorithm, Figure, Given, Jobs, OptionSpec, Spec};
use super::bits::words_u32;
use super::hubs::{HubShare, Hubs};
use super::team::{Cursor, Member, Share, Stepped};
use super::weights::{Weights, seeded_weight};
use crate::edges::raw::prefetch;
use crate::edges::{Edges, Item, ListWork, Part, Verdict, reads_of};
use crate::error::{Error, Kind, Result};
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::lists::ListReader;
use crate::table::{ByName, Cells, Column, Table, first, vertices};

mod verify;

/// Bins that are open at once.
const BINS: usize = 512;
/// Entries of a shared frontier taken at a time by a member.
const ENTRIES_CHUNK: u64 = 64;
/// The most entries of its own that one of several members goes on with by itself.
const OWN_MAX: usize = 1024;
/// Lists that the mean weight is estimated from.
const SAMPLED_LISTS: u32 = 64;
/// The narrowest and the widest bin: such that one over them is a normal number too.
const DELTA_MIN: f64 = 1e-37;
const DELTA_MAX: f64 = 1e37;

/// The distance of a vertex that no path reaches.
pub const UNREACHED_DISTANCE: f32 = f32::INFINITY;
/// Bits of the same while a run is under way: above those of infinity, which stand for a sum that
/// left the range of single precision.
const UNREACHED_BITS: u32 = u32::MAX;

/// A vertex and the distance with which it was put into a bin.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    vertex: u32,
    /// Bits of the distance; of numbers that are not negative they are in the numbers' order.
    distance: u32,
}

/// One member's bins.
#[derive(Debug)]
struct Bins {
    near: Vec<Vec<Entry>>,
    /// Entries beyond the last bin.
    far: Vec<Entry>,
}

impl Bins {
    fn new() -> Bins {
        Bins { near: vec![Vec::new(); BINS], far: Vec::new() }
    }

    fn clear(&mut self) {
        self.near.iter_mut().for_each(Vec::clear);
        self.far.clear();
    }
}

/// Which distances the bins stand for, and which bin is worked on.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    base: f32,
    current: usize,
}

impl Window {
    /// The bin of `distance`; [`BINS`] or more beyond the last.
    #[inline(always)]
    fn bin(self, distance: f32, per_delta: f32) -> usize {
        (((distance - self.base) * per_delta) as usize).max(self.current)
    }
}

/// What a run found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SsspSummary {
    /// Vertices reached, the source included.
    pub reached_count: u64,
    /// Steps taken, each between two barriers.
    pub steps_count: u64,
    /// The largest distance.
    pub farthest: f32,
}

/// State of a run, reused from one source to the next.
pub(crate) struct Sssp<'g> {
    graph: &'g GraphFile,
    weights: Weights,
    members: usize,
    /// One over the width of a bin.
    per_delta: f32,
    /// Bits of the distances.
    distance: Vec<AtomicU32>,
    frontier: RwLock<Vec<Entry>>,
    bins: Vec<Mutex<Bins>>,
    cursor: Cursor,
    /// Long lists of a frontier; the tag is the distance.
    hubs: Hubs<'g, u32>,
    window: Mutex<Window>,
    ended: AtomicBool,
    steps: Mutex<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What other code says about shortest paths by weight.
const SPEC: Spec = Spec {
    name: "sssp",
    about: "Shortest paths by weight from a vertex (delta-stepping)",
    has_source: true,
    uses_weights: true,
    options: &[OptionSpec {
        name: "weights",
        key: "weights",
        value_name: "SOURCE",
        help: "The weights of edges: stored in the file, seeded whole numbers from 1 to 255, or \
               auto: stored ones where there are any, else seeded ones",
        default: Weights::Stored.name(),
        values: &[Weights::Stored.name(), Weights::Seeded.name(), Weights::Auto.name()],
    }],
    state_bytes_per_vertex: 20,
    jobs: Jobs { kind: "paths", words: "shortest paths by weight", at_once: None },
    examples: &[
        ("littoral graph sssp roads.lg --source Oslo -o far.csv", "distances by weight from Oslo"),
        (
            "littoral graph sssp web.lg --weights seeded --verify",
            "seeded weights, checked serially",
        ),
    ],
};

impl<'g> Algorithm<'g> for Sssp<'g> {
    type Options = Weights;
    /// The distance of each vertex, [`UNREACHED_DISTANCE`] without a path.
    type Answer = Vec<f32>;
    type Summary = SsspSummary;

    const SPEC: Spec = SPEC;

    fn options(given: Given<'_>) -> Result<Weights> {
        given("weights").map_or(Ok(Weights::default()), |name| Weights::named(&name))
    }

    fn values(weights: Weights) -> Vec<String> {
        vec![weights.name().to_owned()]
    }

    fn new(graph: &'g GraphFile, weights: Weights, members: usize) -> Self {
        Sssp {
            graph,
            weights,
            members,
            per_delta: per_delta(graph, weights),
            distance: words_u32(graph.vertices() as usize),
            frontier: RwLock::default(),
            bins: (0..members).map(|_| Mutex::new(Bins::new())).collect(),
            cursor: Cursor::default(),
            hubs: Hubs::new(graph, Direction::Out, members),
            window: Mutex::default(),
            ended: AtomicBool::new(false),
            steps: Mutex::default(),
        }
    }

    fn run<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E, source: u32) -> Stepped {
        let mut stored = false;
        me.all(|| {
            stored = self.weights.are_stored(self.graph)?;
            self.clear(me.id());
            Ok(())
        })?;
        me.lead(|| {
            self.start(source);
        })?;
        while !self.ended.load(Relaxed) {
            me.all(|| match stored {
                true => self.relax::<SHARED, true, E>(me.id(), edges, source),
                false => self.relax::<SHARED, false, E>(me.id(), edges, source),
            })?;
            me.all(|| if me.leads() { self.advance(source) } else { Ok(()) })?;
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        let entries: usize = self.bins.iter().map(|b| lock(b).far.capacity()).sum();
        let near = |b: &Mutex<Bins>| lock(b).near.iter().map(Vec::capacity).sum::<usize>();
        let near: usize = self.bins.iter().map(near).sum();
        let frontier = self.frontier.read().unwrap_or_else(PoisonError::into_inner).capacity();
        let waiting = (entries + near + frontier) * size_of::<Entry>();
        (self.distance.len() * 4 + waiting) as u64 + self.hubs.bytes()
    }

    fn summary(&self) -> SsspSummary {
        let mut summary = SsspSummary { steps_count: *lock(&self.steps), ..Default::default() };
        for distance in self.distance.iter().map(load).filter(|d| d.is_finite()) {
            summary.reached_count += 1;
            summary.farthest = summary.farthest.max(distance);
        }
        summary
    }

    fn answer(&self) -> Vec<f32> {
        self.distance.iter().map(load).collect()
    }

    fn figures(summary: &SsspSummary) -> Vec<Figure> {
        vec![
            Figure::count("reached_count", summary.reached_count),
            Figure::real("farthest", summary.farthest.into()),
        ]
    }

    fn verify(
        graph: &GraphFile,
        weights: Weights,
        source: u32,
        distances: &Vec<f32>,
    ) -> Result<()> {
        verify::sssp(graph, weights, source, distances)
    }

    fn rows(order: &ByName<'_>, distances: &Vec<f32>, top: usize) -> Table {
        rows(order, distances, top)
    }
}

fn rows(by_name: &ByName<'_>, distances: &[f32], top: usize) -> Table {
    let reached = distances.iter().filter(|d| d.is_finite()).count();
    let place = |v: &u32| by_name.place[*v as usize];
    let order = |a: &u32, b: &u32| {
        let (near, far) = (distances[*a as usize], distances[*b as usize]);
        near.total_cmp(&far).then_with(|| place(a).cmp(&place(b)))
    };
    let rows = first(distances.len(), top.min(reached), order);
    let cells = Cells::Singles(rows.iter().map(|&v| distances[v as usize]).collect());
    Table::new(vec![vertices("vertex", rows), Column { name: "distance", cells }])
}

fn load(word: &AtomicU32) -> f32 {
    match word.load(Relaxed) {
        UNREACHED_BITS => UNREACHED_DISTANCE,
        bits => f32::from_bits(bits),
    }
}

/// One over the width of a bin: twice the mean weight over the mean degree, so that about one arc
/// of a vertex leads into its own bin (Meyer and Sanders). The mean of stored weights is estimated
/// from lists all over the file; any width gives the same distances.
fn per_delta(graph: &GraphFile, weights: Weights) -> f32 {
    let mean = match weights.are_stored(graph) {
        Ok(true) => mean_weight(graph).unwrap_or(1.0),
        _ => 128.0,
    };
    let degree = graph.header().arcs as f64 / f64::from(graph.vertices());
    1.0 / (2.0 * mean / degree.max(1.0)).clamp(DELTA_MIN, DELTA_MAX) as f32
}

/// The mean over the first list of each of [`SAMPLED_LISTS`] parts of the vertices: where there are
/// arcs, few as their owners may be, there is a mean.
fn mean_weight(graph: &GraphFile) -> Option<f64> {
    let mut reader = ListReader::new(graph, Direction::Out);
    let (mut sum, mut count) = (0f64, 0u64);
    let begin = |part: u32| {
        (u64::from(part) * u64::from(graph.vertices()) / u64::from(SAMPLED_LISTS)) as u32
    };
    for part in 0..SAMPLED_LISTS {
        let mut vertices = begin(part)..begin(part + 1);
        let Some(vertex) = vertices.find(|&v| graph.outgoing().degree(v) > 0) else { continue };
        let (_, weights) = reader.list(vertex).ok()?;
        sum += weights.iter().map(|&w| f64::from(w)).sum::<f64>();
        count += weights.len() as u64;
    }
    (count > 0 && sum > 0.0).then(|| sum / count as f64)
}

impl Sssp<'_> {
    /// Member `id`'s share of forgetting the last run.
    fn clear(&self, id: usize) {
        let share = self.distance.len().div_ceil(self.members);
        let own = self.distance.chunks(share).nth(id).unwrap_or(&[]);
        own.iter().for_each(|d| d.store(UNREACHED_BITS, Relaxed));
        lock(&self.bins[id]).clear();
    }

    fn start(&self, source: u32) {
        self.distance[source as usize].store(0f32.to_bits(), Relaxed);
        let mut frontier = self.frontier.write().unwrap_or_else(PoisonError::into_inner);
        frontier.clear();
        frontier.push(Entry { vertex: source, distance: 0f32.to_bits() });
        *lock(&self.window) = Window::default();
        *lock(&self.steps) = 1;
        self.ended.store(false, Relaxed);
        self.hand_out(&frontier);
    }

    #[inline(always)]
    fn is_live(&self, entry: Entry) -> bool {
        self.distance[entry.vertex as usize].load(Relaxed) == entry.distance
    }

    /// Makes the lowest bin of all members the frontier, or ends.
    fn advance(&self, source: u32) -> Result<()> {
        let mut frontier = self.frontier.write().unwrap_or_else(PoisonError::into_inner);
        frontier.clear();
        let mut window = lock(&self.window);
        loop {
            while window.current < BINS {
                self.gather(window.current, &mut frontier);
                if !frontier.is_empty() {
                    *lock(&self.steps) += 1;
                    self.hand_out(&frontier);
                    return Ok(());
                }
                window.current += 1;
            }
            match self.nearest() {
                Some(least) if f32::from_bits(least.distance).is_finite() => {
                    self.sort_far(&mut window, f32::from_bits(least.distance));
                }
                Some(beyond) if !mutant!("graph_sums_beyond_range_unreached") => {
                    return Err(self.too_far(source, beyond.vertex));
                }
                _ => {
                    self.ended.store(true, Relaxed);
                    return Ok(());
                }
            }
        }
    }

    /// Every path to `vertex` has a sum above the range of single precision.
    #[cold]
    fn too_far(&self, source: u32, vertex: u32) -> Error {
        let (source, vertex) = match self.graph.names() {
            Ok(names) => (names.name(source), names.name(vertex)),
            Err(e) => return e,
        };
        let context = format!(
            "shortest paths from {source}: the weights to {vertex} sum up to more than {:e}, the \
             largest number of single precision; import the graph with smaller weights, or ask for \
             one path by itself, which is summed in double precision",
            f32::MAX
        );
        Error::new(Kind::Unsupported, context)
    }

    fn hand_out(&self, frontier: &[Entry]) {
        let few = (frontier.len() / (4 * self.members)).clamp(1, ENTRIES_CHUNK as usize);
        let chunk = if self.members == 1 { frontier.len() } else { few };
        self.cursor.reset(frontier.len() as u64, chunk as u64);
        self.hubs.hand_out(frontier.iter().map(|entry| (entry.distance, entry.vertex)));
    }

    fn gather(&self, bin: usize, frontier: &mut Vec<Entry>) {
        for bins in &self.bins {
            let mut bins = lock(bins);
            if frontier.is_empty() {
                std::mem::swap(frontier, &mut bins.near[bin]);
            } else {
                frontier.append(&mut bins.near[bin]);
            }
        }
    }

    /// The entry of least distance beyond the bins, and superseded entries dropped.
    fn nearest(&self) -> Option<Entry> {
        let mut least = None;
        for bins in &self.bins {
            let mut bins = lock(bins);
            bins.far.retain(|&entry| self.is_live(entry));
            least = bins.far.iter().copied().chain(least).min_by_key(|e| e.distance);
        }
        least
    }

    /// Lets the bins begin at `base` and sorts into them what lay beyond.
    fn sort_far(&self, window: &mut Window, base: f32) {
        *window = Window { base, current: 0 };
        for bins in &self.bins {
            let mut bins = lock(bins);
            let far = std::mem::take(&mut bins.far);
            far.into_iter().for_each(|entry| self.put(*window, &mut bins, entry));
        }
    }

    #[inline(always)]
    fn put(&self, window: Window, bins: &mut Bins, entry: Entry) {
        let bin = window.bin(f32::from_bits(entry.distance), self.per_delta);
        match bins.near.get_mut(bin) {
            Some(near) => near.push(entry),
            None => bins.far.push(entry),
        }
    }

    fn relax<const SHARED: bool, const STORED: bool, E: Edges>(
        &self,
        id: usize,
        edges: &E,
        source: u32,
    ) -> Result<()> {
        let frontier = self.frontier.read().unwrap_or_else(PoisonError::into_inner);
        let mut bins = lock(&self.bins[id]);
        let work = Relax::<SHARED, STORED> {
            sssp: self,
            frontier: &frontier,
            share: Share::new(&self.cursor),
            parts: self.hubs.share(id),
            window: *lock(&self.window),
            bins: RefCell::new(&mut bins),
            own: RefCell::new(Vec::new()),
            at: Cell::new(0),
            source,
            lead_back: !self.graph.is_directed(),
        };
        edges.lists(Direction::Out, &work)?;
        debug_assert!(!work.take_own(), "a step ends while entries of its bin wait");
        Ok(())
    }
}

/// One step: the frontier, and what falls into the same bin meanwhile.
struct Relax<'s, const SHARED: bool, const STORED: bool> {
    sssp: &'s Sssp<'s>,
    frontier: &'s [Entry],
    share: Share<'s, SHARED>,
    parts: HubShare<'s, u32>,
    window: Window,
    bins: RefCell<&'s mut Bins>,
    /// Entries of this member that fell into the bin, and how many of them were handed out.
    own: RefCell<Vec<Entry>>,
    at: Cell<usize>,
    source: u32,
    /// Whether lists of one arc lead back, but for the source's.
    lead_back: bool,
}

impl<const SHARED: bool, const STORED: bool> Relax<'_, SHARED, STORED> {
    /// Whether there are entries of this member's own to go on with.
    fn take_own(&self) -> bool {
        let mut own = self.own.borrow_mut();
        if self.at.get() < own.len() {
            return true;
        }
        let mut bins = self.bins.borrow_mut();
        if self.fallen(&bins) == 0 {
            return false;
        }
        own.clear();
        std::mem::swap(&mut *own, &mut bins.near[self.window.current]);
        self.at.set(0);
        true
    }

    /// Entries in the bin that this member goes on with by itself; many are left to all members.
    #[inline(always)]
    fn fallen(&self, bins: &Bins) -> usize {
        let len = bins.near[self.window.current].len();
        if SHARED && len > OWN_MAX { 0 } else { len }
    }

    #[inline(always)]
    fn next_own(&self) -> Option<Entry> {
        if !self.take_own() {
            return None;
        }
        let at = self.at.replace(self.at.get() + 1);
        Some(self.own.borrow()[at])
    }

    /// Offers `vertex` the distance `to`; `false` when there is no such vertex.
    #[inline(always)]
    fn offer(&self, bins: &mut Bins, vertex: u32, to: f32) -> bool {
        let Some(cell) = self.sssp.distance.get(vertex as usize) else { return false };
        let distance = to.to_bits();
        if distance >= cell.load(Relaxed) {
            return true;
        }
        if SHARED {
            if cell.fetch_min(distance, Relaxed) <= distance {
                return true;
            }
        } else {
            cell.store(distance, Relaxed);
        }
        self.sssp.put(self.window, bins, Entry { vertex, distance });
        true
    }
}

impl<const SHARED: bool, const STORED: bool> ListWork for Relax<'_, SHARED, STORED> {
    /// The distance of the vertex whose list is read, as bits.
    type Tag = u32;
    const FROM_THE_FRONT: bool = false;
    const WEIGHTS: bool = STORED;
    /// Vertices fall into the bin while it is relaxed.
    const GROWS: bool = true;

    #[inline(always)]
    fn next(&self) -> Option<(u32, Item)> {
        loop {
            let entry = match self.share.next() {
                Some(i) => {
                    let entry = self.frontier[i as usize];
                    if SHARED && self.sssp.hubs.holds(entry.vertex) {
                        continue;
                    }
                    entry
                }
                None => self.next_own()?,
            };
            if self.sssp.is_live(entry) {
                return Some((entry.distance, Item { vertex: entry.vertex, skip: 0 }));
            }
        }
    }

    #[inline(always)]
    fn next_part(&self) -> Option<(u32, Part)> {
        if !SHARED {
            return None;
        }
        loop {
            let (distance, part) = self.parts.next()?;
            // A later entry of this vertex hands out all of its list.
            if self.sssp.is_live(Entry { vertex: part.vertex, distance }) {
                return Some((distance, part));
            }
        }
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        let frontier = self.frontier.iter().map(|e| e.vertex);
        Some(reads_of(frontier, most, reads))
    }

    fn waiting(&self) -> u64 {
        let own = self.own.borrow().len() - self.at.get();
        self.share.left() + (own + self.fallen(&self.bins.borrow())) as u64
    }

    fn first(&self, most: usize, each: impl FnMut(u32)) {
        self.frontier.iter().map(|entry| entry.vertex).take(most).for_each(each);
    }

    #[inline(always)]
    fn is_idle(&self, _distance: u32, vertex: u32, degree: u32) -> bool {
        degree == 1 && self.lead_back && vertex != self.source
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        match self.share.peek(ahead) {
            Some(i) => Some(self.frontier[i as usize].vertex),
            None => self.own.borrow().get(self.at.get() + ahead as usize).map(|e| e.vertex),
        }
    }

    #[inline(always)]
    fn warm(&self, words: &[u32]) {
        words.iter().for_each(|&v| prefetch(&self.sssp.distance, v as usize));
    }

    #[inline(always)]
    fn words(&self, tag: u32, vertex: u32, words: &[u32]) -> Verdict {
        let from = f32::from_bits(tag);
        let mut bins = self.bins.borrow_mut();
        for &to in words {
            if !self.offer(&mut bins, to, from + seeded_weight(vertex, to)) {
                return Verdict::Forged;
            }
        }
        Verdict::More
    }

    #[inline(always)]
    fn arcs(&self, tag: u32, _vertex: u32, words: &[u32], weights: &[u32]) -> Verdict {
        let from = f32::from_bits(tag);
        let mut bins = self.bins.borrow_mut();
        for (&to, &bits) in words.iter().zip(weights) {
            let weight = f32::from_bits(bits);
            // A damaged weight may be negative or no number: distances would descend for ever.
            let is_weight = (0.0..f32::INFINITY).contains(&weight);
            if !is_weight || !self.offer(&mut bins, to, from + weight) {
                return Verdict::Forged;
            }
        }
        Verdict::More
    }
}
