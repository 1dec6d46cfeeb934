//! Shortest paths by weight, betweenness and core numbers: weights beside neighbours, and answers
//! worked out by hand.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use littoral_base::clock::WallClock;
use littoral_device::flash::opened::Access;
use littoral_device::profile::Profile;
use littoral_graph::Kind;
use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, Order, build_in_memory};
use littoral_graph::format::file::GraphFile;
use littoral_graph::kernels::{
    Answer, Kernel, Options, RunReport, Sources, Summary, UNREACHED_DISTANCE, Weights, check, run,
};
use littoral_graph::medium::{FlashDevice, Store, Transfer};

fn graph(list: EdgeList) -> GraphFile {
    let options = BuildOptions { order: Order::Input, threads: 1, ..BuildOptions::default() };
    GraphFile::from_image(build_in_memory(list, &options, &mut Hooks::none()).unwrap().0).unwrap()
}

fn weighted(n: u32, directed: bool, arcs: &[(u32, u32, f32)]) -> GraphFile {
    let edges = arcs.iter().map(|a| [a.0, a.1]).collect();
    let weights = Some(arcs.iter().map(|a| a.2).collect());
    graph(EdgeList { weights, ..EdgeList::new(n, directed, edges) })
}

fn on_flash(graph: &GraphFile, kernel: Kernel, source: u32) -> (RunReport, Answer) {
    let dram = Store::in_dram(graph).unwrap();
    let store = dram.behind(&Profile::named("xlfdd").unwrap(), Transfer::Copy).unwrap();
    let options = Options { sources: vec![source], verify: true, ..Options::default() };
    run(graph, &store, kernel, &options, &WallClock::new()).unwrap()
}

#[test]
fn distances_and_scores_are_those_of_small_graphs_by_hand() {
    let detour = weighted(5, true, &[(0, 1, 7.0), (0, 2, 1.5), (2, 1, 2.0), (1, 3, 0.0)]);
    let (_, answer) = on_flash(&detour, Kernel::Sssp(Weights::Stored), 0);
    assert_eq!(answer, Answer::Sssp(vec![0.0, 3.5, 1.5, 3.5, UNREACHED_DISTANCE]));
    // A star: every pair of the three leaves is joined through the centre.
    let star = graph(EdgeList::new(4, false, vec![[0, 1], [0, 2], [0, 3]]));
    let (_, answer) = on_flash(&star, Kernel::Bc(Sources::All), 0);
    assert_eq!(answer, Answer::Bc(vec![3.0, 0.0, 0.0, 0.0]));
    // Two ways from 0 to 3 share the path between them.
    let square = graph(EdgeList::new(4, true, vec![[0, 1], [0, 2], [1, 3], [2, 3]]));
    let (_, answer) = on_flash(&square, Kernel::Bc(Sources::One), 0);
    assert_eq!(answer, Answer::Bc(vec![0.0, 0.5, 0.5, 0.0]));
}

#[test]
fn weights_are_asked_of_a_file_that_has_none_only_by_name() {
    let plain = graph(EdgeList::new(3, true, vec![[0, 1], [1, 2]]));
    let store = Store::in_dram(&plain).unwrap();
    let ask = |weights| {
        let options = Options { sources: vec![0], verify: true, ..Options::default() };
        run(&plain, &store, Kernel::Sssp(weights), &options, &WallClock::new())
    };
    let refused = ask(Weights::Stored).unwrap_err();
    assert_eq!(refused.kind(), Kind::Argument);
    assert!(refused.to_string().contains("--weights seeded"), "{refused}");
    assert_eq!(ask(Weights::Auto).unwrap().1, ask(Weights::Seeded).unwrap().1);
}

#[test]
fn sampled_and_all_sources_verify_with_any_number_of_threads() {
    let n = 90u32;
    let edges: Vec<_> = (0..n).flat_map(|v| [1, 9, 31].map(|d| [v, (v * d + d) % n])).collect();
    for directed in [true, false] {
        let graph = graph(EdgeList::new(n, directed, edges.clone()));
        let store = Store::in_dram(&graph).unwrap();
        for (sources, threads) in [(Sources::Sampled, 1), (Sources::All, 2), (Sources::All, 3)] {
            let options = Options { threads, verify: true, ..Options::default() };
            let (report, _) =
                run(&graph, &store, Kernel::Bc(sources), &options, &WallClock::new()).unwrap();
            assert!(report.verified);
        }
    }
}

/// One read brings a short list's neighbours and weights.
#[test]
fn a_short_list_with_weights_is_one_read() {
    let n = 400u32;
    let arcs: Vec<_> = (1..n).map(|v| (v - 1, v, 1.0)).collect();
    let chain = weighted(n, true, &arcs);
    let (report, _) = on_flash(&chain, Kernel::Sssp(Weights::Stored), 0);
    assert_eq!(report.trials[0].traffic.reads_count, u64::from(n) - 1);
    // A list too long for a read takes two at a time, for its neighbours and for its weights.
    let arcs: Vec<_> = (1..n).map(|v| (0, v, 1.0)).collect();
    let star = weighted(n, true, &arcs);
    let (report, _) = on_flash(&star, Kernel::Sssp(Weights::Stored), 0);
    assert_eq!(report.trials[0].traffic.reads_count, 2);
}

#[test]
fn a_superseded_entry_costs_no_read() {
    // Vertex 1 waits with 100 in a far bin when the way over 2 offers 2.
    let detour = weighted(4, true, &[(0, 1, 100.0), (0, 2, 1.0), (2, 1, 1.0), (1, 3, 1.0)]);
    let (report, _) = on_flash(&detour, Kernel::Sssp(Weights::Stored), 0);
    assert_eq!(report.trials[0].traffic.reads_count, 3, "the lists of 0, 2 and 1, once each");
}

/// A step that begins with one vertex and becomes a thousand is read by as many contexts as the
/// ring has. Reads that waited for one another would poll a context for the whole of each latency,
/// as one context does.
#[test]
fn vertices_that_join_a_step_are_read_together() {
    let leaves = 2u32..1402;
    // All within one bin: the mean weight is far above these.
    let near = leaves.clone().map(|v| (1, v, 0.001)).chain([(0, 1, 0.001)]);
    let far = leaves.map(|v| (v, 0, 1000.0));
    let star = weighted(1402, true, &near.chain(far).collect::<Vec<_>>());
    let polls = |graph: &GraphFile, store: &Store, contexts: u32| {
        let contexts = Some(contexts);
        let options = Options { sources: vec![0], contexts, verify: true, ..Options::default() };
        let kernel = Kernel::Sssp(Weights::Stored);
        let (report, _) = run(graph, store, kernel, &options, &WallClock::new()).unwrap();
        let reads = report.trials[0].traffic.reads_count;
        assert!((1403..1420).contains(&reads), "{reads}: the long list alone is read in parts");
        assert_eq!(steps(&report), 1, "all vertices are in the source's bin");
        report.polls_per_read()
    };
    let profile = Profile::named("xlfdd").unwrap().with("read.latency", "100us").unwrap();
    let flash = Store::in_dram(&star).unwrap().behind(&profile, Transfer::Pointer).unwrap();
    // Latency is paced by the clock: polls are rarer where another process has the processor.
    let is_apart = || {
        let (one, many) = (polls(&star, &flash, 1), polls(&star, &flash, 64));
        many < one / 8.0
    };
    assert!((0..5).any(|_| is_apart()), "64 contexts poll for a read as often as one");
    // A device that is slept on: contexts that wait for work do not keep it awake.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), star.as_image().unwrap()).unwrap();
    let opened = GraphFile::open(file.path()).unwrap();
    let uring = FlashDevice::file(file.path(), Access::Uring).unwrap();
    polls(&opened, &Store::new(&opened, uring).unwrap(), 64);
}

fn steps(report: &RunReport) -> u64 {
    match report.trials[0].summary {
        Summary::Sssp(summary) => summary.steps_count,
        ref other => panic!("{other:?}"),
    }
}

/// Bins of the width 1 would be gone through for each of the distances.
#[test]
fn few_lists_of_large_weights_take_few_steps() {
    let n = 6400u32;
    let arcs: Vec<_> = (2..5000).map(|v| (1, v, v as f32 * 1e6)).collect();
    let star = weighted(n, true, &arcs);
    let (report, _) = on_flash(&star, Kernel::Sssp(Weights::Stored), 1);
    assert!(steps(&report) < 10, "{} steps", steps(&report));
}

#[test]
fn distances_of_any_range_are_those_of_dijkstra() {
    // From the least to the largest weights of single precision: far more than there are bins.
    let n = 300u32;
    let scale = |v: u32| f32::from_bits(v.wrapping_mul(77_000_003) % 0x7f00_0000);
    let arcs: Vec<_> =
        (0..n).flat_map(|v| [1, 7, 40].map(|d| (v, (v + d) % n, scale(v * d)))).collect();
    for directed in [true, false] {
        let wide = weighted(n, directed, &arcs);
        let (report, _) = on_flash(&wide, Kernel::Sssp(Weights::Stored), 3);
        assert!(report.verified);
    }
    let zero: Vec<_> = (1..n).map(|v| (v - 1, v, 0.0)).collect();
    let (_, answer) = on_flash(&weighted(n, true, &zero), Kernel::Sssp(Weights::Stored), 0);
    assert_eq!(answer, Answer::Sssp(vec![0.0; n as usize]));
}

/// A sum above single precision is infinite, as the distance of a vertex without a path is.
#[test]
fn sums_above_single_precision_are_refused() {
    let kernel = Kernel::Sssp(Weights::Stored);
    let ask = |graph: &GraphFile, threads| {
        let store = Store::in_dram(graph).unwrap();
        let options = Options { threads, sources: vec![0], verify: true, ..Options::default() };
        run(graph, &store, kernel, &options, &WallClock::new())
    };
    let far = [(0, 1, 3e38), (1, 2, 3e38), (2, 3, 1.0)];
    let chain = weighted(5, true, &far);
    // A way round, found after the sum that is too large.
    let round = weighted(5, true, &[&far[..], &[(0, 4, 3.2e38), (4, 2, 1.0)]].concat());
    for threads in [1, 2] {
        let error = ask(&chain, threads).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.to_string().contains("from 0: the weights to 2 sum up"), "{error}");
        let (_, answer) = ask(&round, threads).unwrap();
        let wanted = vec![0.0, 3e38, 3.2e38, 3.2e38, 3.2e38];
        assert_eq!(answer, Answer::Sssp(wanted), "{threads} threads");
    }
    // The verifier tells both from each other too.
    let unreached = Answer::Sssp(vec![0.0, 3e38, f32::INFINITY, f32::INFINITY, f32::INFINITY]);
    let error = check(&chain, kernel, 0, &unreached).unwrap_err();
    assert_eq!(error.kind(), Kind::Refuted, "{error}");
}

#[test]
fn a_forged_weight_is_an_error_and_no_endless_run() {
    let arcs: Vec<_> = (0..50).map(|v| (v, (v + 1) % 50, 1.0)).collect();
    let ring = weighted(50, true, &arcs);
    let at = ring.outgoing().pages().offset as usize + 4;
    for forged in [-1.0f32, f32::NAN, f32::INFINITY] {
        let mut image = ring.as_image().unwrap().to_vec();
        image[at..at + 4].copy_from_slice(&forged.to_le_bytes());
        let damaged = GraphFile::from_image(image).unwrap();
        let store = Store::in_dram(&damaged).unwrap();
        let options = Options { sources: vec![0], ..Options::default() };
        let kernel = Kernel::Sssp(Weights::Stored);
        let error = run(&damaged, &store, kernel, &options, &WallClock::new()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{forged}: {error}");
    }
}

#[test]
fn betweenness_reads_each_list_at_most_twice() {
    let n = 500u32;
    let edges = (0..n).flat_map(|v| [1, 9, 77].map(|d| [v, (v + d) % n])).collect();
    let graph = graph(EdgeList::new(n, false, edges));
    let (report, _) = on_flash(&graph, Kernel::Bc(Sources::One), 5);
    let reads = report.trials[0].traffic.reads_count;
    assert!(reads > u64::from(n) && reads < 2 * u64::from(n), "{reads}");
}

#[test]
fn more_paths_than_a_double_holds_are_refused() {
    // Each pair of vertices in a chain of diamonds doubles the paths.
    let diamonds = 1000u32;
    let one = |d: u32| [[3 * d, 3 * d + 1], [3 * d, 3 * d + 2]].into_iter();
    let other = |d: u32| [[3 * d + 1, 3 * d + 3], [3 * d + 2, 3 * d + 3]].into_iter();
    let edges = (0..diamonds).flat_map(|d| one(d).chain(other(d))).collect();
    let chain = graph(EdgeList::new(3 * diamonds + 1, true, edges));
    let store = Store::in_dram(&chain).unwrap();
    for threads in [1, 2] {
        let options = Options { threads, sources: vec![0], ..Options::default() };
        let kernel = Kernel::Bc(Sources::One);
        let error = run(&chain, &store, kernel, &options, &WallClock::new()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.to_string().contains("shortest paths"), "{error}");
    }
}

#[test]
fn a_file_of_version_1_gives_the_same_distances_as_one_of_version_2() {
    let answers = [1, 2].map(|version| {
        let name = format!("{}/tests/fixtures/v{version}/tiny.lg.zst", env!("CARGO_MANIFEST_DIR"));
        let image = zstd::decode_all(&std::fs::read(name).unwrap()[..]).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        let source = graph.names().unwrap().find("v7").unwrap();
        let kernel = Kernel::Sssp(Weights::Stored);
        let options = Options { sources: vec![source], verify: true, ..Options::default() };
        let store = Store::in_dram(&graph).unwrap();
        let (_, in_dram) = run(&graph, &store, kernel, &options, &WallClock::new()).unwrap();
        assert_eq!(in_dram, on_flash(&graph, kernel, source).1);
        in_dram
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn core_numbers_are_those_of_small_graphs_by_hand() {
    // A square with one diagonal and a tail: the square is the 2-core.
    let edges = vec![[0, 1], [1, 2], [2, 3], [3, 0], [0, 2], [3, 4], [4, 5]];
    let tailed = graph(EdgeList::new(7, false, edges));
    let (_, answer) = on_flash(&tailed, Kernel::Kcore, 0);
    assert_eq!(answer, Answer::Kcore(vec![2, 2, 2, 2, 1, 1, 0]));
    // In a directed graph both directions count: two arcs between two vertices make a 2-core.
    let both = graph(EdgeList::new(3, true, vec![[0, 1], [1, 0], [1, 2]]));
    let (_, answer) = on_flash(&both, Kernel::Kcore, 0);
    assert_eq!(answer, Answer::Kcore(vec![2, 2, 1]));
}

#[test]
fn peeling_reads_each_list_once() {
    let n = 500u32;
    let edges = (0..n).flat_map(|v| [1, 9, 77].map(|d| [v, (v * d + d) % n])).collect();
    let graph = graph(EdgeList::new(n, true, edges));
    let (report, _) = on_flash(&graph, Kernel::Kcore, 0);
    let lists = |v| [graph.outgoing().degree(v), graph.incoming().degree(v)];
    let lists = (0..n).flat_map(lists).filter(|&degree| degree > 0).count();
    assert_eq!(report.trials[0].traffic.reads_count, lists as u64);
}

#[test]
fn triangles_are_those_of_small_graphs_by_hand() {
    // Two triangles share the edge 0-2; 4 and 5 hang on the square.
    let edges = vec![[0, 1], [1, 2], [2, 3], [3, 0], [0, 2], [3, 4], [4, 5]];
    let tailed = graph(EdgeList::new(7, false, edges));
    let (_, answer) = on_flash(&tailed, Kernel::Tc, 0);
    assert_eq!(answer, Answer::Tc(vec![2, 1, 2, 1, 0, 0, 0]));
    // Direction is ignored, and arcs both ways join two vertices once.
    let both = graph(EdgeList::new(3, true, vec![[0, 1], [1, 0], [1, 2], [2, 1], [0, 2]]));
    let (_, answer) = on_flash(&both, Kernel::Tc, 0);
    assert_eq!(answer, Answer::Tc(vec![1; 3]));
}

#[test]
fn counting_triangles_reads_each_list_once() {
    let n = 500u32;
    let edges = (0..n).flat_map(|v| [1, 9, 77].map(|d| [v, (v * d + d) % n])).collect();
    let graph = graph(EdgeList::new(n, true, edges));
    let (report, _) = on_flash(&graph, Kernel::Tc, 0);
    let lists = |v| [graph.outgoing().degree(v), graph.incoming().degree(v)];
    let lists = (0..n).map(lists).filter(|both| both[0] + both[1] > 1);
    let lists = lists.flatten().filter(|&degree| degree > 0).count();
    assert_eq!(report.trials[0].traffic.reads_count, lists as u64);
}
