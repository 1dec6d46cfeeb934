//! The shortest path between two vertices: of fewest edges, or of least weight (Dijkstra).
//!
//! - Lists are read one at a time from the file; state is 12 bytes per vertex in DRAM.
//! - The search ends as soon as the target's distance is known.
//! - Of several shortest paths the answer is the same in every run: a vertex keeps the first parent
//!   that offers its least distance, and vertices of equal distance are taken in order of id.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::lists::ListReader;

/// What a path's length is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The number of its edges.
    Edges,
    /// The sum of its weights; each edge is 1 in a graph without weights.
    Weights,
}

/// A path, from its source to its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Its vertices; one when source and target are the same.
    pub vertices: Vec<u32>,
    /// How far each vertex is from the source.
    pub distances: Vec<f64>,
}

const NONE: u32 = u32::MAX;

struct Search<'g> {
    lists: ListReader<'g>,
    parent: Vec<u32>,
    distance: Vec<f64>,
    target: u32,
}

/// The shortest path from `source` to `target` along the arcs of `graph`; `None` without any.
///
/// ```
/// use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
/// use littoral_graph::format::file::GraphFile;
/// use littoral_graph::path::{Length, shortest};
///
/// let mut edges = EdgeList::new(3, true, vec![[0, 1], [1, 2], [0, 2]]);
/// edges.weights = Some(vec![1.0, 1.0, 5.0]);
/// let (image, _) = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none())?;
/// let graph = GraphFile::from_image(image)?;
/// let (a, c) = (graph.names()?.find("0")?, graph.names()?.find("2")?);
/// let lightest = shortest(&graph, a, c, Length::Weights)?.unwrap();
/// assert_eq!(lightest.distances, [0.0, 1.0, 2.0]);
/// assert_eq!(shortest(&graph, a, c, Length::Edges)?.unwrap().vertices.len(), 2);
/// assert!(shortest(&graph, c, a, Length::Edges)?.is_none());
/// # Ok::<(), littoral_graph::Error>(())
/// ```
///
/// # Errors
/// `Kind::Io`, `Kind::Corrupt`.
///
/// # Panics
/// When `source` or `target` is no vertex.
pub fn shortest(
    graph: &GraphFile,
    source: u32,
    target: u32,
    length: Length,
) -> Result<Option<Path>> {
    let n = graph.vertices();
    assert!(source < n && target < n, "{source} and {target} of {n} vertices");
    let mut search = Search {
        lists: ListReader::new(graph, Direction::Out),
        parent: vec![NONE; n as usize],
        distance: vec![f64::INFINITY; n as usize],
        target,
    };
    search.parent[source as usize] = source;
    search.distance[source as usize] = 0.0;
    let is_weighted = length == Length::Weights && graph.is_weighted();
    let found = if is_weighted { search.by_weight(source)? } else { search.by_edges(source)? };
    Ok(found.then(|| search.path()))
}

impl Search<'_> {
    fn by_edges(&mut self, source: u32) -> Result<bool> {
        let mut queue = VecDeque::from([source]);
        while let Some(u) = queue.pop_front() {
            if u == self.target {
                return Ok(true);
            }
            let next = self.distance[u as usize] + 1.0;
            let (targets, _) = self.lists.list(u)?;
            for &v in targets {
                if self.parent[v as usize] == NONE {
                    self.parent[v as usize] = u;
                    self.distance[v as usize] = next;
                    queue.push_back(v);
                }
            }
        }
        Ok(false)
    }

    fn by_weight(&mut self, source: u32) -> Result<bool> {
        // Distances are finite and not negative, so their bits are in their order.
        let mut heap = BinaryHeap::from([Reverse((0u64, source))]);
        while let Some(Reverse((bits, u))) = heap.pop() {
            let here = f64::from_bits(bits);
            if here > self.distance[u as usize] {
                continue;
            }
            if u == self.target {
                return Ok(true);
            }
            let (targets, weights) = self.lists.list(u)?;
            for (&v, &weight) in targets.iter().zip(weights) {
                let there = here + f64::from(weight);
                if there < self.distance[v as usize] {
                    self.distance[v as usize] = there;
                    self.parent[v as usize] = u;
                    heap.push(Reverse((there.to_bits(), v)));
                }
            }
        }
        Ok(false)
    }

    fn path(&self) -> Path {
        let mut vertices = vec![self.target];
        let mut at = self.target;
        while self.parent[at as usize] != at {
            at = self.parent[at as usize];
            vertices.push(at);
        }
        vertices.reverse();
        let distances = vertices.iter().map(|&v| self.distance[v as usize]).collect();
        Path { vertices, distances }
    }
}
