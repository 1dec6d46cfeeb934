//! Lists by counting sort: edges in, one sorted list without duplicates a vertex out.
//!
//! Invariants
//! - Self-loops never enter. Of duplicate edges the one with the smallest weight stays.
//! - Each thread owns a range of vertices and writes only their lists, so the result does not
//!   depend on how many there are.

use std::ops::Range;

/// A neighbour as lists hold it while building.
pub(crate) trait Arc: Copy + Send + Sync + 'static {
    /// The arc to `target` for edge number `edge`.
    fn new(target: u32, edge: usize, weights: &[f32]) -> Self;
    /// The neighbour.
    fn target(&self) -> u32;
    /// The same arc to another neighbour.
    fn with_target(self, target: u32) -> Self;
    /// The weight; 0 without weights.
    fn weight(&self) -> f32;
    /// Sorts by neighbour, lighter first.
    fn sort(list: &mut [Self]);
}

impl Arc for u32 {
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
    fn sort(list: &mut [Self]) {
        list.sort_unstable();
    }
}

/// A neighbour with a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weighted {
    target: u32,
    weight: f32,
}

impl Arc for Weighted {
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
    fn sort(list: &mut [Self]) {
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
    fn source(self) -> bool {
        self != Side::Target
    }
    #[inline(always)]
    fn target(self) -> bool {
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
        let mut csr = Csr::empty(vertices, edges, side);
        csr.for_ranges(threads, |range, base, offsets, lens, arcs| {
            scatter(edges, weights, side, &range, base, offsets, arcs);
            for (i, len) in lens.iter_mut().enumerate() {
                let from = (offsets[i] - base) as usize;
                *len = dedupe(&mut arcs[from..(offsets[i + 1] - base) as usize]);
            }
        });
        csr
    }

    /// Room for every arc, nothing in it.
    fn empty(vertices: u32, edges: &[[u32; 2]], side: Side) -> Self {
        let n = vertices as usize;
        let mut lens = vec![0u32; n];
        for &[a, b] in edges.iter().filter(|e| e[0] != e[1]) {
            lens[a as usize] += u32::from(side.source());
            lens[b as usize] += u32::from(side.target());
        }
        let mut offsets = Vec::with_capacity(n + 1);
        let mut sum = 0u64;
        offsets.push(0);
        offsets.extend(lens.iter().map(|&l| {
            sum += u64::from(l);
            sum
        }));
        Csr { offsets, lens, arcs: vec![A::new(0, 0, &[0.0]); sum as usize] }
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
            for (i, &len) in lens.iter().enumerate() {
                let from = (offsets[i] - base) as usize;
                let list = &mut arcs[from..from + len as usize];
                list.iter_mut().for_each(|a| *a = a.with_target(rank[a.target() as usize]));
                A::sort(list);
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

/// Vertex boundaries of `parts` ranges with about equally many arcs.
fn cuts(offsets: &[u64], parts: usize) -> Vec<usize> {
    let (n, total) = (offsets.len() - 1, offsets[offsets.len() - 1]);
    let mut cuts: Vec<usize> = (0..parts)
        .map(|i| offsets.partition_point(|&o| o < total * i as u64 / parts as u64).min(n))
        .collect();
    cuts[0] = 0;
    cuts.push(n);
    cuts.dedup();
    cuts
}

/// Puts the arcs of the vertices in `range` into their lists.
fn scatter<A: Arc>(
    edges: &[[u32; 2]],
    weights: &[f32],
    side: Side,
    range: &Range<u32>,
    base: u64,
    offsets: &[u64],
    arcs: &mut [A],
) {
    let mut next: Vec<u64> = offsets.iter().map(|&o| o - base).collect();
    let mut put = |v: u32, arc: A| {
        let at = &mut next[(v - range.start) as usize];
        arcs[*at as usize] = arc;
        *at += 1;
    };
    for (i, &[a, b]) in edges.iter().enumerate().filter(|(_, e)| e[0] != e[1]) {
        if side.source() && range.contains(&a) {
            put(a, A::new(b, i, weights));
        }
        if side.target() && range.contains(&b) {
            put(b, A::new(a, i, weights));
        }
    }
}

/// Sorts a list and moves the first arc to each neighbour to the front; returns how many.
fn dedupe<A: Arc>(list: &mut [A]) -> u32 {
    A::sort(list);
    let mut kept = 0;
    for i in 0..list.len() {
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
}
