//! Components, checked: union-find over every arc.

use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::verify::{Adjacency, check_length, refuted};

fn find(parent: &mut [u32], mut v: u32) -> u32 {
    while parent[v as usize] != v {
        let above = parent[parent[v as usize] as usize];
        parent[v as usize] = above;
        v = above;
    }
    v
}

/// Checks that two vertices have equal `labels` exactly if a path, directions ignored, joins them.
///
/// # Errors
/// `Kind::Refuted`, naming a vertex; `Kind::Io`, `Kind::Corrupt`.
pub(super) fn components(graph: &GraphFile, labels: &[u32]) -> Result<()> {
    check_length(labels.len(), graph)?;
    let n = graph.vertices();
    let out = Adjacency::load(graph, Direction::Out)?;
    let mut parent: Vec<u32> = (0..n).collect();
    for u in 0..n {
        for v in out.neighbours(u) {
            let (a, b) = (find(&mut parent, u), find(&mut parent, v));
            parent[a as usize] = b;
        }
    }
    // The map from tree to label must be a function, and one to one.
    let mut label_of = vec![u32::MAX; n as usize];
    let mut root_of = vec![u32::MAX; n as usize];
    for v in 0..n {
        let (root, label) = (find(&mut parent, v), labels[v as usize]);
        if label >= n {
            return Err(refuted(format!("vertex {v}: label {label} is no vertex")));
        }
        let known = &mut label_of[root as usize];
        if *known == u32::MAX && root_of[label as usize] == u32::MAX {
            (*known, root_of[label as usize]) = (label, root);
        }
        if *known != label || root_of[label as usize] != root {
            let what = format!("vertex {v}: label {label}, but it belongs with vertex {root}");
            return Err(refuted(what));
        }
    }
    Ok(())
}
