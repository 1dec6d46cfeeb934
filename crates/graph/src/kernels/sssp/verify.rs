//! Shortest paths by weight, checked: Dijkstra's algorithm with a heap finds the same distances.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::kernels::weights::{Weights, seeded_weight};
use crate::verify::{Adjacency, check_length, refuted};

/// Checks that `distances` are those of Dijkstra's algorithm, bit by bit, and that no vertex is
/// without a distance because its sum is above single precision.
///
/// # Errors
/// `Kind::Refuted` with the vertex; `Kind::Argument` without weights; `Kind::Io`, `Kind::Corrupt`.
pub(super) fn sssp(
    graph: &GraphFile,
    weights: Weights,
    source: u32,
    distances: &[f32],
) -> Result<()> {
    check_length(distances.len(), graph)?;
    let right = dijkstra(graph, weights, source)?;
    let pairs = (0u32..).zip(distances.iter().zip(&right));
    // Numbers that compare equal: a distance of -0 is no other answer.
    match pairs.into_iter().find(|(_, (found, wanted))| found != wanted) {
        None => Ok(()),
        Some((v, (found, wanted))) => {
            Err(refuted(format!("vertex {v}: distance {found}, Dijkstra's is {wanted}")))
        }
    }
}

fn dijkstra(graph: &GraphFile, weights: Weights, source: u32) -> Result<Vec<f32>> {
    let lists = Adjacency::load(graph, Direction::Out)?;
    let stored = weights.are_stored(graph)?;
    let mut distance = vec![f32::INFINITY; graph.vertices() as usize];
    distance[source as usize] = 0.0;
    let mut heap = BinaryHeap::from([Reverse((0u32, source))]);
    while let Some(Reverse((bits, u))) = heap.pop() {
        let here = f32::from_bits(bits);
        if here > distance[u as usize] {
            continue;
        }
        let mut weights = lists.weights(u);
        for v in lists.neighbours(u) {
            // A list without weights refutes every finite distance behind it.
            let there = match stored {
                true => here + weights.next().unwrap_or(f32::INFINITY),
                false => here + seeded_weight(u, v),
            };
            if there < distance[v as usize] {
                distance[v as usize] = there;
                heap.push(Reverse((there.to_bits(), v)));
            }
        }
    }
    let reached = (0u32..).zip(&distance).filter(|(_, d)| d.is_finite());
    let beyond = reached
        .flat_map(|(u, _)| lists.neighbours(u))
        .find(|&v| distance[v as usize].is_infinite());
    match beyond {
        Some(v) => Err(refuted(format!("vertex {v}: single precision cannot hold its distance"))),
        None => Ok(distance),
    }
}
