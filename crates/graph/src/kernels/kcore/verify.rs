//! Core numbers, checked: vertices are taken away one by one from a queue ordered by degree.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::format::file::GraphFile;
use crate::verify::{Adjacency, check_length, refuted};

/// Checks that `cores` are those of peeling one vertex of the least degree after another.
///
/// # Errors
/// `Kind::Refuted` with the vertex; `Kind::Io`, `Kind::Corrupt`.
pub(super) fn kcore(graph: &GraphFile, cores: &[u32]) -> Result<()> {
    check_length(cores.len(), graph)?;
    let directions = graph.header().directions().iter();
    let lists = directions.map(|&d| Adjacency::load(graph, d)).collect::<Result<Vec<_>>>()?;
    let arcs = |v: u32| lists.iter().flat_map(move |l| l.neighbours(v));
    let mut degree: Vec<usize> = (0..graph.vertices()).map(|v| arcs(v).count()).collect();
    let mut queue: BTreeSet<(usize, u32)> = (0u32..).zip(&degree).map(|(v, &d)| (d, v)).collect();
    let mut core = 0;
    while let Some((least, v)) = queue.pop_first() {
        core = core.max(least);
        if cores[v as usize] as usize != core {
            let found = cores[v as usize];
            return Err(refuted(format!("vertex {v}: core {found}, peeling gives {core}")));
        }
        for u in arcs(v) {
            if queue.remove(&(degree[u as usize], u)) {
                degree[u as usize] -= 1;
                queue.insert((degree[u as usize], u));
            }
        }
    }
    Ok(())
}
