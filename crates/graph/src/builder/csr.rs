//! Lists by counting sort: edges in, one sorted list without duplicates a vertex out.
//!
//! Working memory beside edges and lists is limited to two GiB, or the arcs of one vertex, by the
//! passes over the edges.
//!
//! Invariants
//! - Self-loops never enter. Of duplicate edges the one with the smallest weight stays. Checked by
//!   `loops_go_and_the_lightest_duplicate_stays`.
//! - A pass has at most as many arcs as fit the limit, or one vertex with arcs. Checked by
//!   `passes_are_cut_by_arcs`.
//! - Each thread owns a range of vertices and writes only their lists, so the result does not
//!   depend on how many there are. Checked by `threads_do_not_change_a_byte`.

use std::ops::Range;

use littoral_base::mutant;

use super::radix;
use crate::edges::raw::advise_huge;

/// How much is worked on at once.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Bytes of arcs with owners that are held; more edges take more passes.
    pass_bytes: u64,
    /// Arcs a bucket should have.
    bucket_arcs: u64,
}

/// Buckets of about a megabyte with their owners fit a core's cache.
const LIMITS: Limits = Limits { pass_bytes: 2 << 30, bucket_arcs: 1 << 17 };
/// The most buckets: one open cache line each.
const BUCKETS_MAX: u64 = 1 << 10;

/// A neighbour as lists hold it while building.
pub(crate) trait Arc: Copy + Send + Sync + 'static {
    /// An arc with its owner, as plain words so that memory for many comes zeroed from the system.
    type Item: Copy + Send + Sync;
    /// An item of zeros.
    const ZERO_ITEM: Self::Item;
    /// An arc of zeros.
    const ZERO: Self;
    /// The arc with its owner in front.
    fn pack(self, owner: u32) -> Self::Item;
    /// The owner and the arc.
    fn unpack(item: Self::Item) -> (u32, Self);
    /// The arc to `target` for edge number `edge`.
    fn new(target: u32, edge: usize, weights: &[f32]) -> Self;
    /// The neighbour.
    fn target(&self) -> u32;
    /// The same arc to another neighbour.
    fn with_target(self, target: u32) -> Self;
    /// The weight; 0 without weights.
    fn weight(&self) -> f32;
    /// Sorts by neighbour, lighter first; `scratch` is room that is reused.
    fn sort(list: &mut [Self], scratch: &mut Vec<Self>);
}

impl Arc for u32 {
    type Item = [u32; 2];
    const ZERO_ITEM: [u32; 2] = [0; 2];
    const ZERO: u32 = 0;
    #[inline(always)]
    fn pack(self, owner: u32) -> [u32; 2] {
        [owner, self]
    }
    #[inline(always)]
    fn unpack([owner, arc]: [u32; 2]) -> (u32, u32) {
        (owner, arc)
    }
    fn new(target: u32, _edge: usize, _weights: &[f32]) -> Self {
        target
    }
    #[inline(always)]
    fn target(&self) -> u32 {
        *self
    }
    #[inline(always)]
    fn with_target(self, target: u32) -> Self {
        target
    }
    fn weight(&self) -> f32 {
        0.0
    }
    fn sort(list: &mut [Self], scratch: &mut Vec<Self>) {
        radix::sort(list, scratch);
    }
}

/// A neighbour with a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weighted {
    target: u32,
    weight: f32,
}

impl Arc for Weighted {
    type Item = [u32; 3];
    const ZERO_ITEM: [u32; 3] = [0; 3];
    const ZERO: Weighted = Weighted { target: 0, weight: 0.0 };
    #[inline(always)]
    fn pack(self, owner: u32) -> [u32; 3] {
        [owner, self.target, self.weight.to_bits()]
    }
    #[inline(always)]
    fn unpack([owner, target, weight]: [u32; 3]) -> (u32, Weighted) {
        (owner, Weighted { target, weight: f32::from_bits(weight) })
    }
    fn new(target: u32, edge: usize, weights: &[f32]) -> Self {
        Weighted { target, weight: weights[edge] }
    }
    #[inline(always)]
    fn target(&self) -> u32 {
        self.target
    }
    #[inline(always)]
    fn with_target(self, target: u32) -> Self {
        Weighted { target, ..self }
    }
    fn weight(&self) -> f32 {
        self.weight
    }
    fn sort(list: &mut [Self], _scratch: &mut Vec<Self>) {
        list.sort_unstable_by(|a, b| a.target.cmp(&b.target).then(a.weight.total_cmp(&b.weight)));
    }
}

/// Which end of an edge gets it into its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Target,
    Both,
}

impl Side {
    #[inline(always)]
    pub(super) fn source(self) -> bool {
        self != Side::Target
    }
    #[inline(always)]
    pub(super) fn target(self) -> bool {
        self != Side::Source
    }
}

/// Lists of all vertices in one array; list `v` is the first `lens[v]` arcs from `offsets[v]` on.
pub(crate) struct Csr<A> {
    offsets: Vec<u64>,
    pub(crate) lens: Vec<u32>,
    arcs: Vec<A>,
}

impl<A: Arc> Csr<A> {
    /// Sorts edges into lists and drops duplicates.
    pub(crate) fn new(
        vertices: u32,
        edges: &[[u32; 2]],
        weights: &[f32],
        side: Side,
        threads: usize,
    ) -> Self {
        Self::within(LIMITS, vertices, edges, weights, side, threads)
    }

    fn within(
        limits: Limits,
        vertices: u32,
        edges: &[[u32; 2]],
        weights: &[f32],
        side: Side,
        threads: usize,
    ) -> Self {
        let n = vertices as usize;
        let mut csr = Csr { offsets: vec![0; n + 1], lens: vec![0; n], arcs: Vec::new() };
        let most = (limits.pass_bytes / size_of::<A::Item>() as u64).max(1);
        for (range, arcs) in passes(vertices, edges, side, most) {
            let buckets = Buckets::new(range, arcs / limits.bucket_arcs);
            csr.pass(&Input { edges, weights, side, buckets }, threads);
        }
        csr.offsets[n] = csr.arcs.len() as u64;
        csr
    }

    /// Adds the lists of one range of vertices: arcs into buckets that fit the cache, then bucket
    /// by bucket into lists. One random write an arc would miss the cache every time instead.
    fn pass(&mut self, input: &Input<'_>, threads: usize) {
        let (mut items, starts) = into_buckets::<A>(input, threads);
        let base = self.arcs.len();
        if base == 0 {
            self.arcs = vec![A::ZERO; items.len()];
            advise_huge(&self.arcs);
        } else {
            self.arcs.resize(base + items.len(), A::ZERO);
        }
        let vertices = input.buckets.vertex_cuts();
        let from = vertices[0];
        let mut arcs = &mut self.arcs[base..];
        let mut offsets = &mut self.offsets[from..];
        let mut lens = &mut self.lens[from..];
        let mut items = &mut items[..];
        let starts_u64: Vec<u64> = starts.iter().map(|&s| s as u64).collect();
        std::thread::scope(|scope| {
            for cut in cuts(&starts_u64, threads).windows(2) {
                let count = starts[cut[1]] - starts[cut[0]];
                let span = vertices[cut[1]] - vertices[cut[0]];
                let mut sorter = ListSorter {
                    items: take(&mut items, count),
                    arcs: take(&mut arcs, count),
                    offsets: take(&mut offsets, span),
                    lens: take(&mut lens, span),
                    first_arc: (base + starts[cut[0]]) as u64,
                    scratch: Vec::new(),
                };
                let (starts, vertices) = (&starts[cut[0]..=cut[1]], &vertices[cut[0]..=cut[1]]);
                scope.spawn(move || sorter.run(starts, vertices));
            }
        });
    }

    /// Calls `work(vertices, first arc, offsets, lens, arcs)` on disjoint ranges of about equal
    /// arcs.
    fn for_ranges<F>(&mut self, threads: usize, work: F)
    where
        F: Fn(Range<u32>, u64, &[u64], &mut [u32], &mut [A]) + Sync,
    {
        let cuts = cuts(&self.offsets, threads);
        let (mut lens, mut arcs) = (&mut self.lens[..], &mut self.arcs[..]);
        let (offsets, work) = (&self.offsets, &work);
        std::thread::scope(|scope| {
            for cut in cuts.windows(2) {
                let (from, to) = (cut[0], cut[1]);
                let own = &offsets[from..=to];
                let (my_lens, rest) = std::mem::take(&mut lens).split_at_mut(to - from);
                lens = rest;
                let count = (offsets[to] - offsets[from]) as usize;
                let (my_arcs, rest) = std::mem::take(&mut arcs).split_at_mut(count);
                arcs = rest;
                let mut run = move || work(from as u32..to as u32, own[0], own, my_lens, my_arcs);
                if to == offsets.len() - 1 {
                    run();
                } else {
                    scope.spawn(run);
                }
            }
        });
    }

    /// Renames every neighbour and sorts each list by `key`: `rank` first, then back through
    /// `name`.
    pub(crate) fn relabel(&mut self, rank: &[u32], name: Option<&[u32]>, threads: usize) {
        self.for_ranges(threads, |_, base, offsets, lens, arcs| {
            let mut scratch = Vec::new();
            for (i, &len) in lens.iter().enumerate() {
                let from = (offsets[i] - base) as usize;
                let list = &mut arcs[from..from + len as usize];
                list.iter_mut().for_each(|a| *a = a.with_target(rank[a.target() as usize]));
                A::sort(list, &mut scratch);
                if let Some(name) = name {
                    list.iter_mut().for_each(|a| *a = a.with_target(name[a.target() as usize]));
                }
            }
        });
    }

    /// The list of vertex `v` (in the numbering the edges came with).
    #[inline(always)]
    pub(crate) fn list(&self, v: u32) -> &[A] {
        let from = self.offsets[v as usize] as usize;
        &self.arcs[from..from + self.lens[v as usize] as usize]
    }

    /// Arcs in all lists.
    pub(crate) fn arcs(&self) -> u64 {
        self.lens.iter().map(|&l| u64::from(l)).sum()
    }
}

/// Ranges of vertices with at most `most` arcs, or one vertex with more, and how many each has.
fn passes(vertices: u32, edges: &[[u32; 2]], side: Side, most: u64) -> Vec<(Range<u32>, u64)> {
    let arcs = edges.len() as u64 * if side == Side::Both { 2 } else { 1 };
    if arcs <= most {
        return vec![(0..vertices, arcs)];
    }
    let mut degrees = vec![0u32; vertices as usize];
    for &[a, b] in edges.iter().filter(|[a, b]| a != b) {
        for (end, counts) in [(a, side.source()), (b, side.target())] {
            let degree = &mut degrees[end as usize];
            *degree = degree.saturating_add(u32::from(counts));
        }
    }
    let (mut passes, mut from, mut sum) = (Vec::new(), 0, 0u64);
    for (v, degree) in (0u32..).zip(degrees) {
        if sum > 0 && sum + u64::from(degree) > most {
            passes.push((from..v, sum));
            (from, sum) = (v, 0);
        }
        sum += u64::from(degree);
    }
    passes.push((from..vertices, sum));
    passes
}

/// Vertex boundaries of `parts` ranges with about equally many arcs.
fn cuts(offsets: &[u64], parts: usize) -> Vec<usize> {
    debug_assert!(offsets.is_sorted(), "lists lie one after another");
    let (n, total) = (offsets.len() - 1, offsets[offsets.len() - 1]);
    let mut cuts: Vec<usize> = (0..parts)
        .map(|i| offsets.partition_point(|&o| o < total * i as u64 / parts as u64).min(n))
        .collect();
    cuts[0] = 0;
    cuts.push(n);
    cuts.dedup();
    cuts
}

/// The front of `rest`, which becomes what is behind it.
fn take<'a, T>(rest: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    let (front, back) = std::mem::take(rest).split_at_mut(count);
    *rest = back;
    front
}

/// Equal runs of vertices whose arcs together fit a core's cache.
struct Buckets {
    vertices: Range<u32>,
    shift: u32,
}

impl Buckets {
    fn new(vertices: Range<u32>, count: u64) -> Self {
        let span = u64::from(vertices.end - vertices.start);
        let wanted = count.clamp(1, BUCKETS_MAX).min(span);
        let shift = span.div_ceil(wanted).next_power_of_two().trailing_zeros();
        Buckets { vertices, shift }
    }

    /// The first vertex of each bucket, and the end of the last.
    fn vertex_cuts(&self) -> Vec<usize> {
        let (from, to) = (self.vertices.start as usize, self.vertices.end as usize);
        (from..to).step_by(1 << self.shift).chain([to]).collect()
    }

    fn count(&self) -> usize {
        ((self.vertices.end - self.vertices.start - 1) >> self.shift) as usize + 1
    }

    #[inline(always)]
    fn of(&self, vertex: u32) -> usize {
        ((vertex - self.vertices.start) >> self.shift) as usize
    }
}

/// The edges of one pass.
struct Input<'a> {
    edges: &'a [[u32; 2]],
    weights: &'a [f32],
    side: Side,
    buckets: Buckets,
}

impl Input<'_> {
    /// Hands out owner and arc of the edges `part` that belong to this pass.
    #[inline(always)]
    fn arcs<A: Arc>(&self, part: Range<usize>, mut f: impl FnMut(u32, A)) {
        let range = &self.buckets.vertices;
        for (i, &[a, b]) in part.clone().zip(&self.edges[part]) {
            if a == b {
                continue;
            }
            if self.side.source() && range.contains(&a) {
                f(a, A::new(b, i, self.weights));
            }
            if self.side.target() && range.contains(&b) {
                f(b, A::new(a, i, self.weights));
            }
        }
    }

    /// A range of edges for each thread.
    fn parts(&self, threads: usize) -> Vec<Range<usize>> {
        let n = self.edges.len();
        (0..threads).map(|t| n * t / threads..n * (t + 1) / threads).collect()
    }
}

/// Arcs with their owners, bucket by bucket, and where each bucket starts.
fn into_buckets<A: Arc>(input: &Input<'_>, threads: usize) -> (Vec<A::Item>, Vec<usize>) {
    let parts = input.parts(threads);
    let mut counts = vec![vec![0usize; input.buckets.count()]; threads];
    std::thread::scope(|scope| {
        for (part, counts) in parts.iter().zip(&mut counts) {
            scope.spawn(|| {
                let buckets = &input.buckets;
                input.arcs::<A>(part.clone(), |owner, _| counts[buckets.of(owner)] += 1);
            });
        }
    });
    let mut starts = vec![0];
    for b in 0..input.buckets.count() {
        starts.push(starts[b] + counts.iter().map(|c| c[b]).sum::<usize>());
    }
    let mut items = vec![A::ZERO_ITEM; starts[starts.len() - 1]];
    // Each page of both arrays would cost a fault of its own, a quarter of the build's time.
    advise_huge(&items);
    let mut rooms: Vec<Vec<std::slice::IterMut<'_, A::Item>>> = vec![];
    rooms.resize_with(threads, Vec::new);
    let mut rest = &mut items[..];
    for b in 0..input.buckets.count() {
        for (room, count) in rooms.iter_mut().zip(&counts) {
            room.push(take(&mut rest, count[b]).iter_mut());
        }
    }
    std::thread::scope(|scope| {
        for (part, mut room) in parts.into_iter().zip(rooms) {
            scope.spawn(move || {
                input.arcs::<A>(part, |owner, arc| {
                    let next = room[input.buckets.of(owner)].next();
                    *next.expect("invariant: arcs were counted") = arc.pack(owner);
                });
                let left: usize = room.iter().map(ExactSizeIterator::len).sum();
                debug_assert_eq!(left, 0, "arcs were counted that did not come");
            });
        }
    });
    (items, starts)
}

/// One thread's run of buckets: its arcs, and room for their lists.
struct ListSorter<'a, A: Arc> {
    items: &'a mut [A::Item],
    arcs: &'a mut [A],
    offsets: &'a mut [u64],
    lens: &'a mut [u32],
    first_arc: u64,
    scratch: Vec<A>,
}

impl<A: Arc> ListSorter<'_, A> {
    fn run(&mut self, starts: &[usize], vertices: &[usize]) {
        for (start, vertex) in starts.windows(2).zip(vertices.windows(2)) {
            let items = start[0] - starts[0]..start[1] - starts[0];
            self.bucket(items, vertex[0] - vertices[0]..vertex[1] - vertices[0], vertices[0]);
        }
    }

    /// Counting sort of one bucket by owner, then each list by neighbour.
    fn bucket(&mut self, items: Range<usize>, vertices: Range<usize>, first_vertex: usize) {
        let from = (first_vertex + vertices.start) as u32;
        // Duplicates are among them: 2^32 arcs of one vertex are too many for its length.
        let mut next = vec![0usize; vertices.len()];
        for &item in &self.items[items.clone()] {
            next[(A::unpack(item).0 - from) as usize] += 1;
        }
        let mut at = 0;
        for (offset, next) in self.offsets[vertices.clone()].iter_mut().zip(&mut next) {
            *offset = self.first_arc + (items.start + at) as u64;
            at += std::mem::replace(next, at);
        }
        let arcs = &mut self.arcs[items.clone()];
        for &item in &self.items[items] {
            let (owner, arc) = A::unpack(item);
            let at = &mut next[(owner - from) as usize];
            arcs[*at] = arc;
            *at += 1;
        }
        let mut begin = 0;
        for (&end, len) in next.iter().zip(&mut self.lens[vertices]) {
            let list = &mut arcs[begin..end];
            *len = dedupe(list, &mut self.scratch);
            let kept = &list[..*len as usize];
            debug_assert!(kept.is_sorted_by(|a, b| a.target() < b.target()), "a neighbour twice");
            begin = end;
        }
    }
}

/// Sorts a list and moves the first arc to each neighbour to the front; returns how many.
fn dedupe<A: Arc>(list: &mut [A], scratch: &mut Vec<A>) -> u32 {
    A::sort(list, scratch);
    let mut kept = 0;
    for i in 0..list.len() {
        let keep_heavier = mutant!("graph_heaviest_duplicate");
        if keep_heavier && kept > 0 && list[kept - 1].target() == list[i].target() {
            list[kept - 1] = list[i];
        }
        if kept == 0 || list[kept - 1].target() != list[i].target() {
            list[kept] = list[i];
            kept += 1;
        }
    }
    kept as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loops_go_and_the_lightest_duplicate_stays() {
        let edges = [[0, 1], [1, 0], [2, 2], [0, 1], [2, 1]];
        let weights = [3.0, 2.0, 9.0, 5.0, 1.0];
        for threads in 1..4 {
            let both = Csr::<Weighted>::new(4, &edges, &weights, Side::Both, threads);
            let list = |v| both.list(v).iter().map(|a| (a.target, a.weight)).collect::<Vec<_>>();
            assert_eq!(list(0), [(1, 2.0)]);
            assert_eq!(list(1), [(0, 2.0), (2, 1.0)]);
            assert_eq!((list(3), both.arcs()), (vec![], 4));
            let into = Csr::<u32>::new(4, &edges, &[], Side::Target, threads);
            assert_eq!(
                (into.list(1), into.list(0), into.list(2)),
                (&[0, 2][..], &[1][..], &[][..])
            );
        }
    }

    #[test]
    fn passes_are_cut_by_arcs() {
        // Half of the arcs belong to the first ten of a thousand vertices.
        let hubs = (0..10u32).flat_map(|h| (0..99u32).map(move |i| [h, 10 + 10 * i + h]));
        let edges: Vec<_> = hubs.chain((10..1000).map(|v| [v, v - 10])).collect();
        for side in [Side::Source, Side::Target, Side::Both] {
            let cut = passes(1000, &edges, side, 150);
            let arcs = |range: &Range<u32>| {
                let ends = edges.iter().map(|&[a, b]| {
                    u64::from(side.source() && range.contains(&a))
                        + u64::from(side.target() && range.contains(&b))
                });
                ends.sum::<u64>()
            };
            assert!(cut[0].0.start == 0 && cut[cut.len() - 1].0.end == 1000);
            assert!(cut.windows(2).all(|w| w[0].0.end == w[1].0.start));
            for (range, counted) in &cut {
                assert_eq!(arcs(range), *counted, "{side:?} {range:?}");
                assert!(*counted <= 150 || range.len() == 1, "{side:?} {range:?}: {counted}");
            }
        }
        let star: Vec<_> = (1..100).map(|v| [0, v]).collect();
        let cut = passes(100, &star, Side::Both, 50);
        assert_eq!(cut, [(0..1, 99), (1..51, 50), (51..100, 49)]);
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn passes_and_buckets_change_nothing(
            n in 1u32..300, threads in 1usize..4, pass_arcs in 1u64..200, bucket_arcs in 1u64..40,
            side in prop_oneof![Just(Side::Source), Just(Side::Target), Just(Side::Both)],
            list in proptest::collection::vec((0u32..300, 0u32..300, 0u8..4), 0..300),
        ) {
            let edges: Vec<_> = list.iter().map(|e| [e.0 % n, e.1 % n]).collect();
            let weights: Vec<_> = list.iter().map(|e| f32::from(e.2)).collect();
            let whole = Csr::<Weighted>::new(n, &edges, &weights, side, 1);
            let limits = Limits { pass_bytes: 12 * pass_arcs, bucket_arcs };
            let parts = Csr::<Weighted>::within(limits, n, &edges, &weights, side, threads);
            prop_assert_eq!(whole.arcs(), parts.arcs());
            for v in 0..n {
                prop_assert_eq!(whole.list(v), parts.list(v));
            }
        }
    }
}
