//! Breadth-first search, checked: a queue search of our own gives the levels.

use std::collections::VecDeque;

use crate::error::{Error, Kind, Result};
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::verify::{Adjacency, check_length, refuted};

const NONE: u32 = u32::MAX;

/// How many steps each vertex is away from `source`; `u32::MAX` where there is no way.
///
/// # Errors
/// `Kind::Argument` when `source` is no vertex; `Kind::Io`, `Kind::Corrupt`.
fn levels(graph: &GraphFile, source: u32) -> Result<Vec<u32>> {
    if source >= graph.vertices() {
        let what = format!("vertex {source}: the graph has {}", graph.vertices());
        return Err(Error::new(Kind::Argument, what));
    }
    let out = Adjacency::load(graph, Direction::Out)?;
    let mut level = vec![NONE; graph.vertices() as usize];
    let mut queue = VecDeque::from([source]);
    level[source as usize] = 0;
    while let Some(u) = queue.pop_front() {
        for v in out.neighbours(u) {
            if level[v as usize] == NONE {
                level[v as usize] = level[u as usize] + 1;
                queue.push_back(v);
            }
        }
    }
    Ok(level)
}

/// Checks that `parents` is a breadth-first tree from `source`: the vertices that can be reached
/// and no others have a parent, and each parent is an in-neighbour one level nearer the source.
///
/// # Errors
/// `Kind::Refuted`, naming the vertex; otherwise as [`levels`].
pub(super) fn bfs(graph: &GraphFile, source: u32, parents: &[u32]) -> Result<()> {
    check_length(parents.len(), graph)?;
    let level = levels(graph, source)?;
    if parents[source as usize] != source {
        return Err(refuted(format!("source {source} is not its own parent")));
    }
    let into = Adjacency::load(graph, Direction::In)?;
    for (v, (&parent, &depth)) in (0u32..).zip(parents.iter().zip(&level)) {
        if v == source || (parent == NONE && depth == NONE) {
            continue;
        }
        if (parent == NONE) != (depth == NONE) {
            let (says, is) = (parent != NONE, depth != NONE);
            return Err(refuted(format!("vertex {v}: reached: {says}, reachable: {is}")));
        }
        let is_nearer =
            level.get(parent as usize).is_some_and(|&l| l.checked_add(1) == Some(depth));
        if !is_nearer || !into.neighbours(v).any(|u| u == parent) {
            let what = format!("vertex {v} at level {depth}: parent {parent} is no way to it");
            return Err(refuted(what));
        }
    }
    Ok(())
}
