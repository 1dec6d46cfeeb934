//! Betweenness centrality, checked: Brandes' algorithm as published, with lists of predecessors.

use std::collections::VecDeque;

use super::Sources;
use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::verify::{Adjacency, check_length, refuted};

/// How far a score may be off, as a share of it: sums are added in another order.
const TOLERANCE: f64 = 1e-9;

/// Checks that `scores` are those of the serial algorithm from the same sources.
///
/// # Errors
/// `Kind::Refuted` with the vertex; `Kind::Io`, `Kind::Corrupt`.
pub(super) fn bc(graph: &GraphFile, sources: Sources, source: u32, scores: &[f64]) -> Result<()> {
    check_length(scores.len(), graph)?;
    let lists = Adjacency::load(graph, Direction::Out)?;
    let chosen = sources.list(graph.vertices(), source);
    let mut right = vec![0f64; scores.len()];
    for &s in &chosen {
        brandes(&lists, s, &mut right);
    }
    let scale = sources.scale(graph, chosen.len());
    for (v, (&found, sum)) in (0u32..).zip(scores.iter().zip(right)) {
        let wanted = sum * scale;
        // A difference from no number must not pass.
        let is_close = (found - wanted).abs() <= TOLERANCE * wanted.abs().max(1.0);
        if !is_close {
            return Err(refuted(format!("vertex {v}: score {found}, Brandes' is {wanted}")));
        }
    }
    Ok(())
}

/// Adds the dependencies of one source to `sums`.
fn brandes(lists: &Adjacency<'_>, source: u32, sums: &mut [f64]) {
    let n = sums.len();
    let mut depth: Vec<Option<u32>> = vec![None; n];
    let mut paths = vec![0f64; n];
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); n];
    let (mut queue, mut stack) = (VecDeque::from([source]), Vec::new());
    depth[source as usize] = Some(0);
    paths[source as usize] = 1.0;
    while let Some(u) = queue.pop_front() {
        stack.push(u);
        let next = depth[u as usize].map(|d| d + 1);
        for v in lists.neighbours(u) {
            if depth[v as usize].is_none() {
                depth[v as usize] = next;
                queue.push_back(v);
            }
            if depth[v as usize] == next {
                paths[v as usize] += paths[u as usize];
                before[v as usize].push(u);
            }
        }
    }
    let mut dependency = vec![0f64; n];
    while let Some(v) = stack.pop() {
        let (v, through) = (v as usize, 1.0 + dependency[v as usize]);
        for &u in &before[v] {
            dependency[u as usize] += paths[u as usize] / paths[v] * through;
        }
        if v != source as usize {
            sums[v] += dependency[v];
        }
    }
}
