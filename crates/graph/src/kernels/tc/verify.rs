//! Triangles, checked: sorted neighbours of both ends of every edge are merged.

use crate::error::Result;
use crate::format::file::GraphFile;
use crate::verify::{Adjacency, check_length, refuted};

/// Checks that each vertex belongs to as many triangles as `triangles` says, direction ignored.
///
/// # Errors
/// `Kind::Refuted` with the vertex; `Kind::Io`, `Kind::Corrupt`.
pub(super) fn tc(graph: &GraphFile, triangles: &[u64]) -> Result<()> {
    check_length(triangles.len(), graph)?;
    let directions = graph.header().directions().iter();
    let lists = directions.map(|&d| Adjacency::load(graph, d)).collect::<Result<Vec<_>>>()?;
    let neighbours = |v: u32| {
        let mut all: Vec<u32> = lists.iter().flat_map(|l| l.neighbours(v)).collect();
        all.retain(|&u| u != v);
        all.sort_unstable();
        all.dedup();
        all
    };
    let sorted: Vec<Vec<u32>> = (0..graph.vertices()).map(neighbours).collect();
    for (v, own) in sorted.iter().enumerate() {
        // A triangle of v is an edge between two of its neighbours, met from both ends.
        let met: u64 = own.iter().map(|&u| common(own, &sorted[u as usize])).sum();
        let (found, counted) = (triangles[v], met / 2);
        if found != counted {
            let what = format!("vertex {v}: {found} triangles, merging finds {counted}");
            return Err(refuted(what));
        }
    }
    Ok(())
}

/// How many numbers two ascending lists share.
fn common(mut a: &[u32], mut b: &[u32]) -> u64 {
    let mut count = 0;
    while let (Some((&x, left)), Some((&y, right))) = (a.split_first(), b.split_first()) {
        count += u64::from(x == y);
        if x <= y {
            a = left;
        }
        if y <= x {
            b = right;
        }
    }
    count
}
