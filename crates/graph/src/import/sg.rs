//! The GAP suite's serialized graphs (`.sg`, `.wsg`): read, and written for comparisons beside
//! ours.
//!
//! Layout (little-endian): directed u8, arcs i64, vertices i64, offsets i64 x (vertices + 1),
//! neighbours i32 x arcs (`.wsg`: pairs of neighbour and weight, i32 each); a directed graph then
//! repeats offsets and neighbours for incoming arcs. An undirected graph stores both arcs of every
//! edge.
//!
//! Invariants
//! - Nothing is allocated before the file's length has been found to be what its counts say.
//!   Checked by `forged_serialized_graphs_are_refused_before_memory_is_taken`.
//! - An undirected graph that does not name each edge from both ends, with one weight, is refused.
//!   Checked by `an_undirected_serialized_graph_names_each_edge_from_both_ends`.
//! - Edges are offered to the sink some at a time, however long a list is, and what offsets take
//!   before they are read. Checked by `a_long_list_is_handed_over_part_by_part`,
//!   `offsets_that_do_not_fit_are_refused_before_they_are_read`.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use littoral_base::codec::Reader;
use littoral_base::mutant;
use littoral_base::rng::mix;

use crate::builder::{EdgeList, EdgeSink, Existing, Hooks, Offer, Shape, Stage};
use crate::error::{Error, Kind, Result, io};
use crate::format::file::GraphFile;
use crate::format::header::flag;
use crate::format::{Direction, VERTICES_MAX};
use crate::names::Labels;

const HEADER_BYTES: u64 = 17;
const VERTICES_A_STEP: usize = 1 << 16;
/// Edges that are offered to the sink at once.
const EDGES_A_BATCH: usize = 1 << 14;

fn bad(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Input, format!("{}: {what}", path.display())).at_path(path)
}

struct Counts {
    directed: bool,
    arcs: u64,
    vertices: u32,
}

impl Counts {
    /// Bytes of the offsets of one direction.
    fn offsets_bytes(&self) -> u64 {
        8 * (u64::from(self.vertices) + 1)
    }
}

/// Reads a serialized graph; vertices are called by their numbers.
///
/// # Errors
/// `Kind::Input` for what is no serialized graph, `Kind::Argument` when edges without a direction
/// are to have one, `Kind::Io`, `Kind::Interrupted`.
pub(super) fn read(
    path: &Path,
    weighted: bool,
    directed: Option<bool>,
    sink: &mut dyn EdgeSink,
    hooks: &mut Hooks<'_>,
) -> Result<EdgeList> {
    let file = File::open(path).map_err(|e| io("cannot open", path, e))?;
    let bytes = file.metadata().map_err(|e| io("cannot look at", path, e))?.len();
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut head = [0; HEADER_BYTES as usize];
    input
        .read_exact(&mut head)
        .map_err(|_| bad(path, "shorter than a serialized graph's header"))?;
    let counts = decode_counts(&head, bytes, weighted, path)?;
    if directed == Some(true) && !counts.directed && !mutant!("graph_sg_half_directed") {
        let what = "--directed: the file says that its edges have no direction";
        let refused = Error::new(Kind::Argument, format!("{}: {what}", path.display()));
        return Err(refused.at_path(path));
    }
    let directed = directed.unwrap_or(counts.directed);
    let edges_count = if counts.directed { counts.arcs } else { counts.arcs / 2 };
    sink.begin(Shape { directed, weighted, edges_count }, hooks)?;
    // Offsets that do not fit beside the sink's edges are refused before they are read.
    let (mut edges, mut weights) = (Vec::new(), Vec::new());
    let weights = weighted.then_some(&mut weights);
    sink.take(Offer { edges: &mut edges, weights, held_bytes: counts.offsets_bytes() }, hooks)?;
    let mut offsets = vec![0i64; counts.vertices as usize + 1];
    let fill = input.read_exact(bytemuck::cast_slice_mut(&mut offsets));
    fill.map_err(|e| io("cannot read", path, e))?;
    let ascending = offsets.windows(2).all(|w| w[0] <= w[1]);
    if !ascending || offsets[0] != 0 || offsets[counts.vertices as usize] as u64 != counts.arcs {
        return Err(bad(path, "offsets descend or do not end at the number of arcs"));
    }
    let lists = ListReader { path, input, weighted, counts: &counts };
    let (edges, weights) = lists.read(&offsets, sink, hooks)?;
    Ok(EdgeList {
        vertices: counts.vertices,
        directed,
        edges,
        weights: weighted.then_some(weights),
        labels: Labels::Identity,
    })
}

fn decode_counts(head: &[u8], bytes: u64, weighted: bool, path: &Path) -> Result<Counts> {
    let mut r = Reader::new(head);
    let fields = (|| Some((r.u8()?, r.u64()?, r.u64()?)))();
    let (directed, arcs, vertices) = fields.expect("invariant: the header was read whole");
    if directed > 1 {
        return Err(bad(path, "no serialized graph: its first byte is neither 0 nor 1"));
    }
    let count = u32::try_from(vertices).ok().filter(|&n| (1..=VERTICES_MAX).contains(&n));
    let Some(count) = count else {
        return Err(bad(path, format!("{vertices} vertices; a graph has 1 to {VERTICES_MAX}")));
    };
    let arc_bytes = if weighted { 8u128 } else { 4 };
    let direction = 8 * (u128::from(count) + 1) + arc_bytes * u128::from(arcs);
    let want = u128::from(HEADER_BYTES) + direction * (1 + u128::from(directed));
    if want != u128::from(bytes) {
        let suffix = if weighted { ".wsg" } else { ".sg" };
        let what = format!(
            "{bytes} bytes where a {suffix} of its counts has {want}: truncated, or of the other kind"
        );
        return Err(bad(path, what));
    }
    Ok(Counts { directed: directed == 1, arcs, vertices: count })
}

struct ListReader<'a> {
    path: &'a Path,
    input: BufReader<File>,
    weighted: bool,
    counts: &'a Counts,
}

impl ListReader<'_> {
    fn read(
        mut self,
        offsets: &[i64],
        sink: &mut dyn EdgeSink,
        hooks: &mut Hooks<'_>,
    ) -> Result<(Vec<[u32; 2]>, Vec<f32>)> {
        let held_bytes = self.counts.offsets_bytes();
        let (mut edges, mut weights) = (Vec::new(), Vec::new());
        // Sums over the arcs from the smaller vertex, and over those from the larger.
        let (mut ascending, mut descending) = (0u64, 0u64);
        let mut list = Vec::new();
        for v in 0..self.counts.vertices {
            let span = &offsets[v as usize..];
            if (v as usize).is_multiple_of(VERTICES_A_STEP) {
                hooks.step(Stage::Reading, span[0] as u64, self.counts.arcs)?;
            }
            let mut left = (span[1] - span[0]) as usize;
            while left > 0 {
                // A list may be longer than the memory is large.
                let most = if mutant!("graph_sg_list_read_whole") { left } else { EDGES_A_BATCH };
                self.fill(&mut list, left.min(most))?;
                left -= left.min(most);
                for arc in list.chunks_exact(if self.weighted { 2 } else { 1 }) {
                    let to = self.target(v, arc[0])?;
                    let scattered = scattered([v.min(to), v.max(to)], arc.get(1).copied());
                    match v.cmp(&to) {
                        Ordering::Less => ascending = ascending.wrapping_add(scattered),
                        Ordering::Greater => descending = descending.wrapping_add(scattered),
                        Ordering::Equal => {}
                    }
                    if self.counts.directed || v <= to {
                        edges.push([v, to]);
                        weights.extend(arc.get(1).map(|&w| w as f32));
                        self.weight(v, arc)?;
                    }
                }
                if edges.len() >= EDGES_A_BATCH {
                    let weights = self.weighted.then_some(&mut weights);
                    sink.take(Offer { edges: &mut edges, weights, held_bytes }, hooks)?;
                }
            }
        }
        let rest = self.weighted.then_some(&mut weights);
        sink.take(Offer { edges: &mut edges, weights: rest, held_bytes }, hooks)?;
        if !self.counts.directed && ascending != descending {
            return Err(bad(
                self.path,
                "says undirected but does not hold both arcs of every edge with the same weight",
            ));
        }
        Ok((edges, weights))
    }

    fn fill(&mut self, list: &mut Vec<i32>, arcs: usize) -> Result<()> {
        list.resize(arcs * if self.weighted { 2 } else { 1 }, 0);
        let read = self.input.read_exact(bytemuck::cast_slice_mut(list));
        read.map_err(|e| io("cannot read", self.path, e))
    }

    fn target(&self, v: u32, to: i32) -> Result<u32> {
        u32::try_from(to).ok().filter(|&t| t < self.counts.vertices).ok_or_else(|| {
            let n = self.counts.vertices;
            bad(self.path, format!("list of vertex {v}: neighbour {to} is no vertex of {n}"))
        })
    }

    fn weight(&self, v: u32, arc: &[i32]) -> Result<()> {
        match arc.get(1) {
            Some(&w) if w < 0 => {
                Err(bad(self.path, format!("list of vertex {v}: weight {w} is negative")))
            }
            _ => Ok(()),
        }
    }
}

/// A number of an edge for a sum over edges: two lists of different edges agree in their sums with
/// a probability of about 2^-64.
#[inline]
fn scattered([low, high]: [u32; 2], weight: Option<i32>) -> u64 {
    if mutant!("graph_sg_arcs_counted") {
        return 1;
    }
    let ends = u64::from(low) << 32 | u64::from(high);
    let weight = u64::from(weight.unwrap_or(0).cast_unsigned());
    mix(mix(ends.wrapping_add(1)).wrapping_add(weight))
}

/// Which numbers vertices get in an exported graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SgIds {
    /// Their names, which must be numbers below 2^31; missing numbers become isolated vertices.
    Original,
    /// Their internal ids.
    Internal,
}

/// Writes a graph in the GAP suite's form, lists ascending, weights as integers.
///
/// # Errors
/// `Kind::Argument` when names are no small numbers, weights no integers, or the file exists;
/// `Kind::Io`, `Kind::Corrupt`.
pub fn export_sg(graph: &GraphFile, ids: SgIds, path: &Path, hooks: &mut Hooks<'_>) -> Result<()> {
    write_sg(graph, ids, path, Existing::Refuse, hooks)
}

/// As [`export_sg`]; `existing` says what becomes of a file that is there.
pub(crate) fn write_sg(
    graph: &GraphFile,
    ids: SgIds,
    path: &Path,
    existing: Existing,
    hooks: &mut Hooks<'_>,
) -> Result<()> {
    let numbering = Numbering::new(graph, ids)?;
    crate::builder::write::to_file(path, existing, |file, _| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let write = |out: &mut BufWriter<_>, b: &[u8]| {
            Write::write_all(out, b).map_err(|e| io("cannot write", path, e))
        };
        write(&mut out, &[u8::from(graph.is_directed())])?;
        write(&mut out, &graph.header().arcs.to_le_bytes())?;
        write(&mut out, &(numbering.vertices.len() as u64).to_le_bytes())?;
        for &direction in graph.header().directions() {
            let offsets = numbering.offsets(graph, direction);
            write(&mut out, bytemuck::cast_slice(&offsets))?;
            numbering.lists(graph, direction, hooks, |list| {
                write(&mut out, bytemuck::cast_slice(list))
            })?;
        }
        out.flush().map_err(|e| io("cannot write", path, e))
    })
}

/// What each vertex is numbered outside, and which vertex has each number.
struct Numbering {
    number: Vec<u32>,
    vertices: Vec<u32>,
}

const NO_VERTEX: u32 = u32::MAX;
/// Numbers that a graph's vertices may reach however few they are, and that they may reach per
/// vertex: most lists would be empty.
const NUMBERS_FREE: usize = 1 << 22;
const NUMBERS_PER_VERTEX: usize = 64;

impl Numbering {
    fn new(graph: &GraphFile, ids: SgIds) -> Result<Self> {
        let n = graph.vertices();
        let number: Vec<u32> = match (ids, graph.names()?.labels()) {
            (SgIds::Internal, _) | (_, Labels::Identity) => (0..n).collect(),
            (SgIds::Original, Labels::Numbers(names)) => {
                names.iter().map(|&name| small(name)).collect::<Result<_>>()?
            }
            (SgIds::Original, Labels::Text(_)) => {
                let context = "vertices have text as names; export internal ids instead";
                return Err(Error::new(Kind::Argument, context));
            }
        };
        let count = number.iter().max().map_or(0, |&m| m as usize + 1);
        if count > NUMBERS_FREE.max(NUMBERS_PER_VERTEX * number.len()) {
            let context = format!(
                "names below {count} for {n} vertices: a .sg file has a list for every number; \
                 write .el or .csv"
            );
            return Err(Error::new(Kind::Argument, context));
        }
        let mut vertices = vec![NO_VERTEX; count];
        (0u32..).zip(&number).for_each(|(v, &name)| vertices[name as usize] = v);
        Ok(Numbering { number, vertices })
    }

    fn offsets(&self, graph: &GraphFile, direction: Direction) -> Vec<u64> {
        let lists = graph.lists(direction);
        let degree = |&v: &u32| if v == NO_VERTEX { 0 } else { u64::from(lists.degree(v)) };
        let mut sum = 0;
        let rest = self.vertices.iter().map(|v| {
            sum += degree(v);
            sum
        });
        std::iter::once(0).chain(rest).collect()
    }

    /// Hands out every list in order of number: neighbours, or neighbours and weights in turn.
    fn lists(
        &self,
        graph: &GraphFile,
        direction: Direction,
        hooks: &mut Hooks<'_>,
        mut write: impl FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        let lists = graph.lists(direction);
        let all = graph.load_arcs(direction)?;
        let (mut arcs, mut flat) = (Vec::new(), Vec::new());
        for (i, &v) in self.vertices.iter().enumerate() {
            if i.is_multiple_of(VERTICES_A_STEP) {
                hooks.step(Stage::Writing, i as u64, self.vertices.len() as u64)?;
            }
            arcs.clear();
            let list = if v == NO_VERTEX { None } else { Some(lists.locate(v)) };
            for piece in list.into_iter().flat_map(|l| graph.layout().pieces(l.addr, l.degree)) {
                let weights = all.weights(piece);
                for (k, &to) in all.neighbours(piece).iter().enumerate() {
                    let weight = weights.get(k).map_or(Ok(0), |&w| integer(w))?;
                    arcs.push((self.number[to as usize], weight));
                }
            }
            arcs.sort_unstable();
            flat.clear();
            match graph.header().has(flag::WEIGHTED) {
                true => flat.extend(arcs.iter().flat_map(|&(to, w)| [to, w])),
                false => flat.extend(arcs.iter().map(|&(to, _)| to)),
            }
            write(&flat)?;
        }
        Ok(())
    }
}

fn small(name: u64) -> Result<u32> {
    u32::try_from(name).ok().filter(|&n| n < VERTICES_MAX).ok_or_else(|| {
        let context =
            format!("vertex name {name} is too large for a .sg file; export internal ids");
        Error::new(Kind::Argument, context)
    })
}

fn integer(bits: u32) -> Result<u32> {
    let weight = f32::from_bits(bits);
    if weight.fract() == 0.0 && (0.0..2_147_483_648.0).contains(&weight) {
        return Ok(weight as u32);
    }
    Err(Error::new(Kind::Argument, format!("weight {weight} is no integer, as a .wsg file needs")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{BuildOptions, InMemory, build_in_memory};

    /// Takes all edges; knows how many, and the most that were offered at once.
    #[derive(Default)]
    struct Taken {
        all: usize,
        most: usize,
    }

    impl EdgeSink for Taken {
        fn take(&mut self, offer: Offer<'_>, _: &mut Hooks<'_>) -> Result<()> {
            self.all += offer.edges.len();
            self.most = self.most.max(offer.edges.len());
            offer.edges.clear();
            Ok(())
        }
    }

    /// Has no room beside what a reader holds.
    struct Full;

    impl EdgeSink for Full {
        fn take(&mut self, offer: Offer<'_>, _: &mut Hooks<'_>) -> Result<()> {
            Err(Error::new(Kind::Memory, format!("{} bytes", offer.held_bytes)))
        }
    }

    #[test]
    fn offsets_that_do_not_fit_are_refused_before_they_are_read() {
        let mut bytes: Vec<u8> = vec![0];
        [0u64, 2].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        // Read, these would be refused for descending.
        [5u64, 0, 0].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        for (sink, kind) in
            [(&mut Full as &mut dyn EdgeSink, Kind::Memory), (&mut InMemory, Kind::Input)]
        {
            let read = read(file.path(), false, None, sink, &mut Hooks::none());
            assert_eq!(read.unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn numbers_that_leave_most_lists_empty_are_refused() {
        let labels = Labels::Numbers(vec![0, 2_000_000_000]);
        let edges = EdgeList { labels, ..EdgeList::new(2, false, vec![[0, 1]]) };
        let options = BuildOptions::default();
        let (image, _) = build_in_memory(edges, &options, &mut Hooks::none()).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        let count = |ids| Numbering::new(&graph, ids).map(|numbering| numbering.vertices.len());
        assert_eq!(count(SgIds::Original).unwrap_err().kind(), Kind::Argument);
        assert_eq!(count(SgIds::Internal).unwrap(), 2);
    }

    #[test]
    fn a_long_list_is_handed_over_part_by_part() {
        let arcs = 3 * EDGES_A_BATCH + 5;
        let vertices = arcs + 1;
        let mut bytes: Vec<u8> = vec![1];
        [arcs, vertices].iter().for_each(|&n| bytes.extend((n as u64).to_le_bytes()));
        let ends = std::iter::repeat_n(arcs, vertices);
        std::iter::once(0).chain(ends).for_each(|n| bytes.extend((n as u64).to_le_bytes()));
        (1..=arcs).for_each(|to| bytes.extend((to as u32).to_le_bytes()));
        // Lists of incoming arcs are not read.
        bytes.resize(bytes.len() + 8 * (vertices + 1) + 4 * arcs, 0);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut taken = Taken::default();
        read(file.path(), false, None, &mut taken, &mut Hooks::none()).unwrap();
        assert_eq!((taken.all, taken.most), (arcs, EDGES_A_BATCH));
    }
}
