//! Ids by locality: vertices that are near each other get ids near each other.
//!
//! A *cluster* is grown by breadth-first search from a seed until its lists fill a page; the
//! vertices that the search had found and not taken are seeds of later clusters, the oldest first.
//! The lists of a cluster lie in one page, so a search that moves over the graph as a front needs
//! few pages at a time. Numbers of breadth-first search alone would not do: a level of a search is
//! as long as the front, and a front that crosses the levels meets a page per level.
//!
//! Invariant: the numbering depends on lists and page alone, and it is a bijection. Checked by
//! `every_vertex_gets_one_number_and_clusters_fill_pages`.

use std::collections::VecDeque;

use super::order::Ranking;

/// Words of a page that a list takes beside its neighbours: its directory entry.
const ENTRY_WORDS: usize = 2;
/// A graph whose highest degree is at least this many times the mean is searched by its hubs.
const SKEW: u64 = 16;

/// Whether hubs hold so large a share of the arcs that ids by degree serve better than locality.
pub(crate) fn is_skewed(degrees: &[u32]) -> bool {
    let arcs: u64 = degrees.iter().map(|&degree| u64::from(degree)).sum();
    let most = degrees.iter().copied().max().map_or(0, u64::from);
    most * degrees.len() as u64 >= SKEW * arcs
}

/// Numbers vertices by clusters of at most `page_words` words; `list(v, each)` hands every
/// neighbour of `v` to `each`.
pub(crate) fn by_locality(
    vertices: u32,
    page_words: usize,
    list: impl Fn(u32, &mut dyn FnMut(u32)),
) -> Ranking {
    let mut old = Vec::with_capacity(vertices as usize);
    let mut taken = vec![false; vertices as usize];
    let (mut seeds, mut inner) = (VecDeque::new(), VecDeque::new());
    for first in 0..vertices {
        seeds.push_back(first);
        while let Some(seed) = seeds.pop_front() {
            let mut words = 0;
            inner.push_back(seed);
            while let Some(v) = inner.pop_front() {
                if std::mem::replace(&mut taken[v as usize], true) {
                    continue;
                }
                old.push(v);
                words += ENTRY_WORDS;
                list(v, &mut |neighbour| {
                    words += 1;
                    if !taken[neighbour as usize] {
                        inner.push_back(neighbour);
                    }
                });
                if words >= page_words {
                    break;
                }
            }
            seeds.extend(inner.drain(..).filter(|&v| !taken[v as usize]));
        }
    }
    Ranking::of(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vertex_gets_one_number_and_clusters_fill_pages() {
        // A grid of 32 by 32 vertices.
        let neighbours = |v: u32, each: &mut dyn FnMut(u32)| {
            let (x, y) = (v % 32, v / 32);
            let sides = [(x > 0, v.wrapping_sub(1)), (x < 31, v + 1)];
            let ends = [(y > 0, v.wrapping_sub(32)), (y < 31, v + 32)];
            sides.into_iter().chain(ends).filter(|(is, _)| *is).for_each(|(_, n)| each(n));
        };
        let found = by_locality(1024, 96, neighbours);
        let mut sorted = found.old.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1024));
        assert!((0..1024).all(|v| found.old[found.rank[v as usize] as usize] == v));
        // Sixteen lists of six words are a page: neighbours mostly share one, as rows of 32 would
        // not let them.
        let page = |v: u32| found.rank[v as usize] / 16;
        let (mut same, mut all) = (0, 0);
        for v in 0..1024 {
            neighbours(v, &mut |n| {
                all += 1;
                same += u32::from(page(v) == page(n));
            });
        }
        assert!(same * 2 > all, "{same} of {all} arcs stay in a page");
    }

    #[test]
    fn an_order_by_locality_is_refused_out_of_core() {
        use crate::builder::{BuildOptions, Order};
        for (order, is_legal) in
            [(Order::Bfs, false), (Order::Auto, false), (Order::Degree, true), (Order::Input, true)]
        {
            let memory_bytes = Some(1 << 30);
            let options = BuildOptions { order, memory_bytes, ..BuildOptions::default() };
            assert_eq!(options.check().is_ok(), is_legal, "{order:?}");
        }
    }

    #[test]
    fn hubs_are_skew_and_grids_are_not() {
        let star: Vec<u32> = std::iter::once(99).chain([1; 99]).collect();
        assert!(is_skewed(&star) && !is_skewed(&[3; 100]) && !is_skewed(&[2, 3, 4, 4]));
    }
}
