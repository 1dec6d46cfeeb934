//! Connected components by Afforest (Sutton, Ben-Nun, Barak, IPDPS 2018): link along a few sampled
//! arcs, find the giant component, and read the lists of those outside it only.
//!
//! Lists name the neighbour of highest degree first, so the first unit of HEADS already joins most
//! vertices to a hub: the sample is one sequential read of a few bytes a vertex.
//!
//! 1. *attach*: each vertex hangs on its first neighbour, if that has the smaller id; one pass.
//! 2. *link roots*: vertices that are still their own root link along all units of HEADS.
//! 3. while the largest sampled component is small, every vertex outside links along one more unit.
//! 4. *rest*: every vertex outside the largest component links along the whole list (of a directed
//!    graph: both lists). An arc between two vertices inside needs no look.
//!
//! Invariants
//! - `label[v] <= v`, and following labels ends at the smallest id of a tree: no cycles. Checked by
//!   `answers_verify_in_memory`.
//! - After the last compression `label[v]` is the smallest id of v's component. Checked by
//!   `answers_verify_in_memory`, `verifiers_refute_wrong_answers`.
//! - Components of a directed graph are weak: direction is ignored. Checked by
//!   `answers_verify_in_memory`.
//! - Which lists are read does not depend on the order of answers: each pass takes the vertices of
//!   a set that is fixed before it begins, though links change labels meanwhile. Checked by
//!   `counts_of_components_do_not_depend_on_latency`.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use littoral_base::mutant;
use littoral_base::rng::{Rng, seeded};
use rustc_hash::FxHashMap;

use super::algorithm::{Algorithm, Figure, Given, Jobs, Spec};
use super::bits::{Bitmap, words_u32};
use super::team::{Cursor, Member, Share, Stepped};
use crate::edges::raw::prefetch;
use crate::edges::{Edges, HeadWork, Item, ListWork, Span, Verdict};
use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::table::{ByName, Table, counts, vertices};

mod verify;

/// Vertices looked at to find the largest component.
const SAMPLES: u32 = 1024;
/// The share of samples (of [`SAMPLES`]) from which on a component counts as the giant one.
const GIANT: u32 = 900;
/// Words of 64 vertices, or spans, taken at a time by a member when there are several.
const WORDS_CHUNK: u64 = 64;
const SPANS_CHUNK: u64 = 8;
const SEED: u64 = 0x1e77_0a11;

/// State of a component search.
pub(crate) struct Components<'g> {
    graph: &'g GraphFile,
    members: usize,
    label: Vec<AtomicU32>,
    /// The vertices that the pass under way takes.
    taken: Bitmap,
    cursor: Cursor,
    giant: AtomicU32,
    giant_samples: AtomicU32,
    linked: AtomicU64,
}

/// What a component search found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComponentsSummary {
    /// Components, single vertices included.
    pub components_count: u64,
    /// Vertices of the largest.
    pub largest_count: u64,
}

/// What other code says about components.
const SPEC: Spec = Spec {
    name: "cc",
    about: "Connected components (of a directed graph, the weak ones)",
    has_source: false,
    uses_weights: false,
    options: &[],
    state_bytes_per_vertex: 5,
    jobs: Jobs { kind: "components", words: "connected components", at_once: None },
    examples: &[("littoral graph cc web.lg --medium uring", "with the edges in the file")],
};

impl<'g> Algorithm<'g> for Components<'g> {
    type Options = ();
    /// For each vertex the smallest id of its component.
    type Answer = Vec<u32>;
    type Summary = ComponentsSummary;

    const SPEC: Spec = SPEC;

    fn options(_given: Given<'_>) -> Result<()> {
        Ok(())
    }

    fn new(graph: &'g GraphFile, (): (), members: usize) -> Self {
        let n = graph.vertices() as usize;
        Components {
            graph,
            members,
            label: words_u32(n.next_multiple_of(1024)),
            taken: Bitmap::new(n),
            cursor: Cursor::default(),
            giant: AtomicU32::new(0),
            giant_samples: AtomicU32::new(0),
            linked: AtomicU64::new(0),
        }
    }

    fn run<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E, _: u32) -> Stepped {
        let span = edges.span_vertices();
        me.each(|| {
            self.own(me).for_each(|v| self.label[v].store(v as u32, Relaxed));
        })?;
        for &direction in self.graph.header().directions() {
            self.share_spans(me, span)?;
            me.all(|| edges.heads(direction, &self.units::<SHARED>(Pick::Attach, span, 0..1)))?;
        }
        self.compress::<SHARED>(me)?;
        let heads = self.graph.header().heads;
        self.take(me, Pick::Roots)?;
        self.share_spans(me, span)?;
        me.all(|| edges.heads(Direction::Out, &self.units::<SHARED>(Pick::Roots, span, 0..heads)))?;
        self.compress::<SHARED>(me)?;
        self.sample(me)?;
        let mut k = 1;
        while self.giant_samples.load(Relaxed) < GIANT && k < heads {
            self.take(me, Pick::Outside)?;
            self.share_spans(me, span)?;
            me.all(|| {
                edges.heads(Direction::Out, &self.units::<SHARED>(Pick::Outside, span, k..k + 1))
            })?;
            self.compress::<SHARED>(me)?;
            self.sample(me)?;
            k += 1;
        }
        self.rest::<SHARED, E>(me, edges)
    }

    fn bytes(&self) -> u64 {
        (self.label.len() * 4 + self.taken.words().len() * 8) as u64
    }

    fn summary(&self) -> ComponentsSummary {
        let mut size = vec![0u32; self.n()];
        self.label[..self.n()].iter().for_each(|l| size[l.load(Relaxed) as usize] += 1);
        ComponentsSummary {
            components_count: size.iter().filter(|&&s| s > 0).count() as u64,
            largest_count: size.iter().copied().max().unwrap_or(0).into(),
        }
    }

    fn answer(&self) -> Vec<u32> {
        self.label[..self.n()].iter().map(|l| l.load(Relaxed)).collect()
    }

    fn figures(summary: &ComponentsSummary) -> Vec<Figure> {
        vec![
            Figure::count("components_count", summary.components_count),
            Figure::count("largest_count", summary.largest_count),
        ]
    }

    fn verify(graph: &GraphFile, (): (), _source: u32, labels: &Vec<u32>) -> Result<()> {
        verify::components(graph, labels)
    }

    fn rows(order: &ByName<'_>, labels: &Vec<u32>, top: usize) -> Table {
        tables(order, labels, top).0
    }

    fn shown(order: &ByName<'_>, labels: &Vec<u32>, top: usize) -> Table {
        tables(order, labels, top).1
    }
}

/// The vertices of the `top` largest components, and those components with their sizes.
fn tables(by_name: &ByName<'_>, labels: &[u32], top: usize) -> (Table, Table) {
    let mut size = vec![0u32; labels.len()];
    labels.iter().for_each(|&l| size[l as usize] += 1);
    let mut roots: Vec<u32> = (0u32..).take(size.len()).filter(|&l| size[l as usize] > 0).collect();
    let place = |v: u32| by_name.place[v as usize];
    roots.sort_unstable_by(|&a, &b| {
        size[b as usize].cmp(&size[a as usize]).then_with(|| place(a).cmp(&place(b)))
    });
    roots.truncate(top);
    let mut key = vec![u32::MAX; labels.len()];
    (0u32..).zip(&roots).for_each(|(i, &root)| key[root as usize] = i);
    let key: Vec<u32> = labels.iter().map(|&l| key[l as usize]).collect();
    let rows = by_name.by_key(&key, roots.len());
    let component: Vec<u32> = rows.iter().map(|&v| labels[v as usize]).collect();
    let sizes = |of: &[u32]| {
        counts("size", of.iter().map(|&l| size[l as usize].into()).collect::<Vec<_>>())
    };
    let size_column = sizes(&component);
    let whole =
        Table::new(vec![vertices("vertex", rows), vertices("component", component), size_column]);
    let size_column = sizes(&roots);
    (whole, Table::new(vec![vertices("component", roots), size_column]))
}

impl Components<'_> {
    fn n(&self) -> usize {
        self.graph.vertices() as usize
    }

    /// Links the vertices that are not in the giant component along whole lists.
    ///
    /// Labels are compressed after each direction: whom the first one has joined to the giant
    /// component shows only then, and in what order its links were made shows no more. The giant
    /// component then has the label of the smallest id that was joined to it.
    fn rest<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E) -> Stepped {
        for &direction in self.graph.header().directions() {
            self.take(me, Pick::Outside)?;
            me.lead(|| {
                self.linked.store(0, Relaxed);
                let words = self.taken.words().len() as u64;
                self.cursor.reset(words, if self.members == 1 { words } else { WORDS_CHUNK });
            })?;
            me.all(|| {
                let work = Rest::<SHARED> {
                    components: self,
                    direction,
                    share: Share::new(&self.cursor),
                    word: Cell::new((0, 0)),
                    linked: Cell::new(0),
                };
                edges.lists(direction, &work)?;
                self.linked.fetch_add(work.linked.get(), Relaxed);
                Ok(())
            })?;
            let may_skip = mutant!("graph_components_taken_before_compression");
            if self.linked.load(Relaxed) > 0 && !may_skip {
                self.compress::<SHARED>(me)?;
                me.lead(|| {
                    let root = self.root(self.giant.load(Relaxed));
                    if !mutant!("graph_giant_keeps_its_first_label") {
                        self.giant.store(root, Relaxed);
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Fixes the set of vertices that the next pass takes.
    fn take(&self, me: Member<'_>, pick: Pick) -> Stepped {
        me.each(|| {
            let giant = self.giant.load(Relaxed);
            let words = self.taken.words();
            let share = words.len().div_ceil(self.members);
            let first = (share * me.id()).min(words.len());
            let own = &words[first..(first + share).min(words.len())];
            for (i, word) in (first..).zip(own) {
                // Labels behind the last vertex stand for none.
                let labels = &self.label[(i * 64).min(self.n())..(i * 64 + 64).min(self.n())];
                let bits = labels.iter().zip(0u32..).fold(0, |bits, (label, bit)| {
                    let label = label.load(Relaxed);
                    let takes = match pick {
                        Pick::Attach => true,
                        Pick::Roots => label == i as u32 * 64 + bit,
                        Pick::Outside => label != giant,
                    };
                    bits | u64::from(takes) << bit
                });
                word.store(bits, Relaxed);
            }
        })
    }

    /// Member `me`'s share of the vertices.
    fn own(&self, me: Member<'_>) -> std::ops::Range<usize> {
        let share = self.n().div_ceil(self.members);
        (share * me.id()).min(self.n())..(share * (me.id() + 1)).min(self.n())
    }

    fn share_spans(&self, me: Member<'_>, span: u32) -> Stepped {
        me.lead(|| {
            let spans = self.label.len() as u64 / u64::from(span);
            self.cursor.reset(spans, if self.members == 1 { spans } else { SPANS_CHUNK });
        })
    }

    fn units<const SHARED: bool>(
        &self,
        pick: Pick,
        span: u32,
        wanted: std::ops::Range<u32>,
    ) -> Units<'_, SHARED> {
        Units { components: self, pick, span, wanted, share: Share::new(&self.cursor) }
    }

    /// Points every vertex at the root of its tree.
    ///
    /// One member goes in order of ids: a parent has the smaller id and points at its root already.
    /// Several follow the chain through each other's ranges; roots stay roots meanwhile.
    fn compress<const SHARED: bool>(&self, me: Member<'_>) -> Stepped {
        me.each(|| {
            for v in self.own(me) {
                let parent = self.label[v].load(Relaxed);
                let mut root = self.label[parent as usize].load(Relaxed);
                if SHARED {
                    root = self.root(root);
                }
                debug_assert!(root as usize <= v, "the root {root} of {v} is no smaller id");
                self.label[v].store(root, Relaxed);
            }
        })
    }

    fn root(&self, mut v: u32) -> u32 {
        loop {
            let parent = self.label[v as usize].load(Relaxed);
            if parent == v {
                return v;
            }
            v = parent;
        }
    }

    /// Finds the largest component among sampled vertices that have arcs.
    fn sample(&self, me: Member<'_>) -> Stepped {
        me.lead(|| {
            let mut rng = seeded(SEED);
            let n = self.graph.vertices();
            let mut seen: FxHashMap<u32, u32> = FxHashMap::default();
            let mut taken = 0;
            for _ in 0..4 * SAMPLES {
                let v = rng.random_range(0..n);
                if self.graph.outgoing().degree(v) > 0 && taken < SAMPLES {
                    *seen.entry(self.label[v as usize].load(Relaxed)).or_default() += 1;
                    taken += 1;
                }
            }
            let largest = seen.into_iter().max_by_key(|&(label, count)| (count, label));
            let (giant, count) = largest.unwrap_or((0, SAMPLES));
            self.giant.store(giant, Relaxed);
            self.giant_samples.store(count * SAMPLES / taken.max(1), Relaxed);
        })
    }

    /// Puts `u` and `v` into one tree, the larger root below the smaller.
    #[inline(always)]
    fn link<const SHARED: bool>(&self, u: u32, v: u32) {
        let label = |v: u32| &self.label[v as usize];
        let (mut a, mut b) = (label(u).load(Relaxed), label(v).load(Relaxed));
        while a != b {
            let (high, low) = (a.max(b), a.min(b));
            let above = label(high).load(Relaxed);
            if above == low || (above == high && self.hang::<SHARED>(high, low)) {
                break;
            }
            a = label(label(high).load(Relaxed)).load(Relaxed);
            b = label(low).load(Relaxed);
        }
    }

    /// Hangs root `high` below `low`, unless another member was faster.
    #[inline(always)]
    fn hang<const SHARED: bool>(&self, high: u32, low: u32) -> bool {
        debug_assert!(low < high, "{high} hangs below {low}");
        let label = &self.label[high as usize];
        if SHARED {
            return label.compare_exchange(high, low, Relaxed, Relaxed).is_ok();
        }
        label.store(low, Relaxed);
        true
    }
}

/// Which vertices of a span take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pick {
    /// Every vertex, by hanging it on the neighbour.
    Attach,
    /// Those that are their own root.
    Roots,
    /// Those outside the giant component.
    Outside,
}

/// Links along units of HEADS.
struct Units<'c, const SHARED: bool> {
    components: &'c Components<'c>,
    pick: Pick,
    span: u32,
    wanted: std::ops::Range<u32>,
    share: Share<'c, SHARED>,
}

impl<const SHARED: bool> Units<'_, SHARED> {
    /// Hangs each vertex of `part` on its neighbour's root, if that is smaller.
    #[inline(always)]
    fn attach(&self, part: Span, words: &[u32]) -> Verdict {
        let labels = &self.components.label;
        let n = self.components.graph.vertices();
        let mut sound = true;
        for (v, &neighbour) in part.vertices().zip(words) {
            if neighbour < v as u32 {
                // Only roots: a second direction must not tear a vertex from its tree.
                if labels[v].load(Relaxed) == v as u32 {
                    labels[v].store(labels[neighbour as usize].load(Relaxed), Relaxed);
                }
            } else {
                sound &= neighbour < n || neighbour == u32::MAX;
            }
        }
        if sound { Verdict::More } else { Verdict::Forged }
    }

    #[inline(always)]
    fn link(&self, part: Span, words: &[u32]) -> Verdict {
        let n = self.components.graph.vertices();
        for (v, &neighbour) in part.vertices().zip(words) {
            if neighbour < n {
                if self.components.taken.get(v as u32) == Some(true) {
                    self.components.link::<SHARED>(v as u32, neighbour);
                }
            } else if neighbour != u32::MAX {
                return Verdict::Forged;
            }
        }
        Verdict::More
    }
}

impl<const SHARED: bool> HeadWork for Units<'_, SHARED> {
    type Tag = ();

    fn next(&self) -> Option<((), Span)> {
        self.share.next().map(|i| ((), Span { first: i as u32 * self.span, len: self.span }))
    }

    #[inline(always)]
    fn want(&self, (): (), span: Span, k: u32) -> Option<Span> {
        // Units before the wanted ones are passed over by asking for an empty part.
        if k >= self.wanted.end {
            return None;
        }
        if k < self.wanted.start {
            return Some(Span { first: span.first, len: 0 });
        }
        if self.pick == Pick::Attach {
            return Some(span);
        }
        let taken = &self.components.taken;
        let mut words = span.vertices().start / 64..span.vertices().end / 64;
        let first = words.clone().find(|&i| taken.word(i) != 0)?;
        let last = words.rfind(|&i| taken.word(i) != 0)?;
        Some(Span::part(first, last + 1))
    }

    #[inline(always)]
    fn unit(&self, (): (), part: Span, _k: u32, words: &[u32]) -> Verdict {
        match self.pick {
            Pick::Attach => self.attach(part, words),
            Pick::Roots | Pick::Outside => self.link(part, words),
        }
    }

    fn done(&self, (): (), _span: Span, _units: u32) {}
}

/// Links along whole lists.
struct Rest<'c, const SHARED: bool> {
    components: &'c Components<'c>,
    direction: Direction,
    share: Share<'c, SHARED>,
    /// A word of the set that is being worked off: its number and the bits left.
    word: Cell<(u32, u64)>,
    linked: Cell<u64>,
}

impl<const SHARED: bool> ListWork for Rest<'_, SHARED> {
    type Tag = ();
    const FROM_THE_FRONT: bool = false;

    #[inline(always)]
    fn next(&self) -> Option<((), Item)> {
        let lists = self.components.graph.lists(self.direction);
        loop {
            let (i, bits) = self.word.get();
            if bits == 0 {
                let i = self.share.next()?;
                self.word.set((i as u32, self.components.taken.word(i as usize)));
                continue;
            }
            self.word.set((i, bits & (bits - 1)));
            let v = i * 64 + bits.trailing_zeros();
            if lists.degree(v) > 0 {
                self.linked.set(self.linked.get() + 1);
                return Some(((), Item { vertex: v, skip: 0 }));
            }
        }
    }

    fn reads_max(&self, _most: u64, _reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        None
    }

    fn peek(&self, _ahead: u64) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn warm(&self, words: &[u32]) {
        words.iter().for_each(|&v| prefetch(&self.components.label, v as usize));
    }

    #[inline(always)]
    fn words(&self, (): (), vertex: u32, words: &[u32]) -> Verdict {
        let n = self.components.graph.vertices();
        for &v in words {
            if v >= n {
                return Verdict::Forged;
            }
            self.components.link::<SHARED>(vertex, v);
        }
        Verdict::More
    }
}
