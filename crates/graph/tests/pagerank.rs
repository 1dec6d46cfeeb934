//! PageRank against a power iteration in double precision that shares no code with the kernel, for
//! both ways to treat the rank of vertices without outgoing arcs.
//!
//! The expected ranks of the package graph are those of NetworkX 3 (`pagerank`, alpha 0.85,
//! tolerance 1e-10), which spreads dangling rank over all vertices.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use std::collections::BTreeSet;
use std::path::Path;

use littoral_base::clock::WallClock;
use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
use littoral_graph::format::file::GraphFile;
use littoral_graph::generate::{Model, generate};
use littoral_graph::import::{ImportOptions, read};
use littoral_graph::kernels::{
    Answer, Dangling, Kernel, Options, PageRankOptions, RunReport, Summary, run,
};
use littoral_graph::medium::Store;
use proptest::prelude::*;

/// The ranks after so many iterations that they no longer change.
fn power_iteration(
    n: usize,
    arcs: &BTreeSet<[u32; 2]>,
    dangling: Dangling,
    damping: f64,
) -> Vec<f64> {
    let mut degree = vec![0usize; n];
    arcs.iter().for_each(|a| degree[a[0] as usize] += 1);
    let mut rank = vec![1.0 / n as f64; n];
    for _ in 0..300 {
        let kept: f64 = (0..n).filter(|&v| degree[v] == 0).map(|v| rank[v]).sum();
        let spread = if dangling == Dangling::Spread { kept } else { 0.0 };
        let mut next = vec![(1.0 - damping + damping * spread) / n as f64; n];
        for a in arcs {
            next[a[1] as usize] += damping * rank[a[0] as usize] / degree[a[0] as usize] as f64;
        }
        rank = next;
    }
    rank
}

/// What a run with the suite's tolerance says and finds.
fn found(graph: &GraphFile, options: PageRankOptions) -> (RunReport, Vec<f32>) {
    let store = Store::in_dram(graph).unwrap();
    let kernel = Kernel::PageRank(options);
    let verified = Options { verify: true, ..Options::default() };
    let (report, answer) = run(graph, &store, kernel, &verified, &WallClock::new()).unwrap();
    let Answer::PageRank(ranks) = answer else { panic!("ranks were asked for") };
    (report, ranks)
}

/// The ranks that the kernel finds, by the vertices' numbers in the list of edges.
fn ranks(edges: EdgeList, dangling: Dangling, damping: f64) -> Vec<(String, f64)> {
    let (image, _) = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none()).unwrap();
    let graph = GraphFile::from_image(image).unwrap();
    // Sparse cycles take more than the GAP suite's 20 iterations to come within the tolerance.
    let given = PageRankOptions { dangling, iterations_max: 300, ..PageRankOptions::default() };
    let (_, ranks) = found(&graph, given.damped(damping).unwrap());
    let names = graph.names().unwrap();
    (0u32..).zip(ranks).map(|(v, r)| (names.name(v), f64::from(r))).collect()
}

proptest! {
    #![proptest_config(littoral_testing::cases(24))]

    #[test]
    fn ranks_are_those_of_a_power_iteration(
        n in 2u32..60, list in proptest::collection::vec((0u32..60, 0u32..60), 0..150), spread: bool, damping in prop::sample::select(vec![0.0, 0.5, 0.85, 0.95]),
    ) {
        let dangling = if spread { Dangling::Spread } else { Dangling::Drop };
        let list: Vec<[u32; 2]> = list.iter().map(|e| [e.0 % n, e.1 % n]).collect();
        let arcs = list.iter().filter(|e| e[0] != e[1]).copied().collect();
        let wanted = power_iteration(n as usize, &arcs, dangling, damping);
        let found = ranks(EdgeList::new(n, true, list), dangling, damping);
        let off: f64 = found.iter().map(|(v, r)| (r - wanted[v.parse::<usize>().unwrap()]).abs()).sum();
        prop_assert!(off < 4e-3, "{off}: {found:?} against {wanted:?}");
        let total: f64 = found.iter().map(|(_, r)| r).sum();
        prop_assert!(!spread || (total - 1.0).abs() < 1e-3, "all rank is handed on: {total}");
    }
}

#[test]
fn the_package_graph_has_the_ranks_that_networkx_finds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/packages.tsv.zst");
    let find = |dangling, name: &str| {
        let (edges, _) = read(&path, &ImportOptions::default(), &mut Hooks::none()).unwrap();
        let found = ranks(edges, dangling, 0.85);
        found.iter().find(|(n, _)| n == name).map(|(_, r)| *r).unwrap()
    };
    for (name, wanted) in
        [("libc6", 0.16515), ("libgcc-s1", 0.07842), ("perl", 0.012456), ("dpkg", 0.0066706)]
    {
        let rank = find(Dangling::Spread, name);
        assert!((rank / wanted - 1.0).abs() < 2e-3, "{name}: {rank} where {wanted}");
    }
    let dropped = find(Dangling::Drop, "libc6");
    assert!((0.090..0.100).contains(&dropped), "the GAP suite's way: {dropped}");
}

/// On a uniform graph the ranks that each arc's equal share gives are nearly those of the end;
/// from 1/n on it took five iterations.
#[test]
fn few_iterations_are_needed_where_vertices_are_alike() {
    let edges = generate(Model::Urand, 12, 1, 1, &mut Hooks::none()).unwrap();
    let (image, _) = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none()).unwrap();
    let graph = GraphFile::from_image(image).unwrap();
    for dangling in [Dangling::Drop, Dangling::Spread] {
        let options = PageRankOptions { dangling, ..PageRankOptions::default() };
        let (report, ranks) = found(&graph, options);
        let Summary::PageRank(summary) = report.trials[0].summary else { panic!("PageRank ran") };
        assert_eq!(summary.iterations_count, 3, "{summary:?}");
        let total: f64 = ranks.iter().map(|&r| f64::from(r)).sum();
        assert!((total - 1.0).abs() < 1e-4, "{total}");
        // Without an iteration the answer is where it begins, and sums up to one too.
        let none = PageRankOptions { iterations_max: 0, tolerance: 10.0, ..options };
        let total: f64 = found(&graph, none).1.iter().map(|&r| f64::from(r)).sum();
        assert!((total - 1.0).abs() < 1e-4, "{total} without an iteration");
    }
}
