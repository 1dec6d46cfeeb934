//! Single flipped bits: a kernel that reads whole pages gives no wrong answer without an error.
//!
//! This is a slice of the claim `graph.flips`; `littoral repro flash --only graph.flips` runs all
//! ten thousand flips per kernel.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use littoral_assure::graph::{Reading, flips};
use littoral_graph::kernels::{Kernel, PageRankOptions, Sources, Weights};

#[test]
fn no_flipped_bit_gives_a_wrong_rank_without_an_error() {
    let found =
        flips(Kernel::PageRank(PageRankOptions::default()), Reading::Direct, 400, 1).unwrap();
    assert_eq!(found.wrong_count, 0, "{found:?}");
    assert!(found.refused_count > 100, "most bits lie in pages: {found:?}");
    assert_eq!(found.refused_count + found.harmless_count, 400);
}

#[test]
fn no_flipped_bit_gives_a_wrong_answer_of_lists_that_a_cache_of_pages_served() {
    let sssp = Kernel::Sssp(Weights::Stored);
    for kernel in [sssp, Kernel::Bc(Sources::One), Kernel::Kcore, Kernel::Tc] {
        let found = flips(kernel, Reading::Cached, 150, 1).unwrap();
        assert_eq!(found.wrong_count, 0, "{kernel:?} {found:?}");
        assert!(found.refused_count > 30, "most bits lie in pages: {kernel:?} {found:?}");
    }
}

#[test]
fn flips_are_counted_as_wrong_where_only_parts_of_pages_are_read() {
    // The judge must be able to find a wrong answer: searches read parts of pages, whose checksums
    // cover more than what is read.
    let found = flips(Kernel::Bfs, Reading::Direct, 1500, 1).unwrap();
    assert!(found.wrong_count > 0, "{found:?}");
}
