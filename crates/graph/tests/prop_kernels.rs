//! Kernels against the serial verifiers, on every medium, with one thread and several.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use littoral_base::clock::WallClock;
use littoral_device::flash::opened::Access;
use littoral_device::profile::Profile;
use littoral_device::region::Region;
use littoral_graph::Kind;
use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, Order, build_in_memory};
use littoral_graph::format::file::GraphFile;
use littoral_graph::kernels::{
    Answer, Dangling, Kernel, Options, PageRankOptions, Sources, Summary, UNREACHED, Weights,
    check, run, run_in_turn,
};
use littoral_graph::medium::{FlashDevice, Store, Transfer};
use proptest::prelude::*;

/// Random edges, with a hub (whose list takes several pages) or without, self-loops and duplicates
/// included; vertices past the last edge are isolated.
fn edges() -> impl Strategy<Value = EdgeList> {
    let random = (1u32..2600, any::<bool>(), 0usize..3000, any::<bool>(), any::<u64>());
    random.prop_map(|(n, directed, m, hub, seed)| {
        let mut x = seed | 1;
        let mut draw = || {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((x >> 33) % u64::from(n)) as u32
        };
        let mut list: Vec<[u32; 2]> = (0..m).map(|_| [draw(), draw()]).collect();
        if hub {
            let centre = draw();
            list.extend((0..n).step_by(2).map(|v| [centre, v]));
            list.extend((0..n).step_by(3).map(|v| [v, centre]));
        }
        // Every third graph has weights, of a range that needs more bins than there are.
        let weighted = seed % 3 == 0;
        let weight = |e: &[u32; 2]| ((e[0] ^ e[1]) % 7) as f32 * 10f32.powi((e[0] % 5) as i32);
        let weights = weighted.then(|| list.iter().map(weight).collect());
        EdgeList { weights, ..EdgeList::new(n, directed, list) }
    })
}

fn build_options() -> impl Strategy<Value = BuildOptions> {
    (0u32..4, 0u32..10, any::<bool>()).prop_map(|(page, heads, by_degree)| BuildOptions {
        page_bytes: 512 << page,
        heads,
        order: if by_degree { Order::Degree } else { Order::Input },
        threads: 1,
        ..BuildOptions::default()
    })
}

fn kernels() -> [Kernel; 9] {
    let options = PageRankOptions { tolerance: 1e-4, iterations_max: 200, ..Default::default() };
    [
        Kernel::Bfs,
        Kernel::Components,
        Kernel::PageRank(options),
        Kernel::PageRank(PageRankOptions { dangling: Dangling::Spread, ..options }),
        Kernel::Sssp(Weights::Auto),
        Kernel::Sssp(Weights::Seeded),
        Kernel::Bc(Sources::One),
        Kernel::Kcore,
        Kernel::Tc,
    ]
}

fn flash(dram: &Store, transfer: Transfer) -> Store {
    dram.behind(&Profile::named("xlfdd").unwrap(), transfer).unwrap()
}

fn check_all(graph: &GraphFile, store: &Store, options: &Options) {
    for kernel in kernels() {
        let (report, _) = run(graph, store, kernel, options, &WallClock::new()).unwrap();
        assert!(report.verified);
        assert_eq!(report.trials.len(), options.trials);
    }
}

fn with_file(image: &[u8], f: impl FnOnce(&GraphFile)) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), image).unwrap();
    f(&GraphFile::open(file.path()).unwrap());
}

proptest! {
    #![proptest_config(littoral_testing::cases(48))]

    #[test]
    fn answers_verify_in_memory(
        edges in edges(), build in build_options(), threads in 1usize..4, contexts in 1u32..80,
        source in any::<prop::sample::Index>(),
    ) {
        let source = source.index(edges.vertices as usize) as u32;
        let (image, _) = build_in_memory(edges, &build, &mut Hooks::none()).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        let dram = Store::in_dram(&graph).unwrap();
        let options = Options {
            threads, contexts: Some(contexts), trials: 2, sources: vec![source], verify: true, ..Options::default()
        };
        check_all(&graph, &dram, &options);
        check_all(&graph, &flash(&dram, Transfer::Pointer), &options);
        check_all(&graph, &flash(&dram, Transfer::Copy), &options);
        let profile = Profile::named("nvme-optane").unwrap();
        let nvme = profile.with("read.latency", "2us").unwrap();
        check_all(&graph, &dram.behind(&nvme, Transfer::Pointer).unwrap(), &options);
    }

    #[test]
    fn media_agree_on_what_is_deterministic(edges in edges(), build in build_options()) {
        let (image, _) = build_in_memory(edges, &build, &mut Hooks::none()).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        let dram = Store::in_dram(&graph).unwrap();
        let flash = flash(&dram, Transfer::Pointer);
        let options = Options::default();
        let clock = WallClock::new();
        let (a, labels) = run(&graph, &dram, Kernel::Components, &options, &clock).unwrap();
        let (b, same) = run(&graph, &flash, Kernel::Components, &options, &clock).unwrap();
        prop_assert_eq!(labels, same);
        prop_assert_eq!(a.trials[0].summary, b.trials[0].summary);
        for weights in [Weights::Auto, Weights::Seeded] {
            let kernel = Kernel::Sssp(weights);
            let both = Options { threads: 2, ..Options::default() };
            let (_, distances) = run(&graph, &dram, kernel, &options, &clock).unwrap();
            for (store, options) in [(&flash, &options), (&dram, &both), (&flash, &both)] {
                prop_assert_eq!(&distances, &run(&graph, store, kernel, options, &clock).unwrap().1);
            }
        }
        let (a, _) = run(&graph, &dram, Kernel::Bfs, &options, &clock).unwrap();
        let (b, _) = run(&graph, &flash, Kernel::Bfs, &options, &clock).unwrap();
        prop_assert_eq!(a.trials[0].summary, b.trials[0].summary);
        prop_assert_eq!(a.trials[0].source, b.trials[0].source);
    }
}

/// Few vertices: betweenness from all of them is as many searches.
fn few_edges() -> impl Strategy<Value = EdgeList> {
    let random = (1u32..50, any::<bool>(), proptest::collection::vec((0u32..50, 0u32..50), 0..200));
    random.prop_map(|(n, directed, list)| {
        EdgeList::new(n, directed, list.iter().map(|e| [e.0 % n, e.1 % n]).collect())
    })
}

proptest! {
    #![proptest_config(littoral_testing::cases(16))]

    #[test]
    fn betweenness_from_many_sources_verifies_on_flash_and_from_a_file(
        edges in few_edges(), threads in 1usize..4, contexts in 1u32..80,
    ) {
        let build = BuildOptions { page_bytes: 512, ..BuildOptions::default() };
        let (image, _) = build_in_memory(edges, &build, &mut Hooks::none()).unwrap();
        with_file(&image, |graph| {
            let dram = Store::in_dram(graph).unwrap();
            let file = FlashDevice::file(graph.path(), Access::Pread).unwrap();
            let stores = [
                flash(&dram, Transfer::Pointer),
                flash(&dram, Transfer::Copy),
                Store::new(graph, file).unwrap(),
                dram,
            ];
            let contexts = Some(contexts);
            let options = Options { threads, contexts, verify: true, ..Options::default() };
            for (store, sources) in
                stores.iter().flat_map(|s| [(s, Sources::Sampled), (s, Sources::All)])
            {
                let kernel = Kernel::Bc(sources);
                run(graph, store, kernel, &options, &WallClock::new()).unwrap();
            }
        });
    }
}

proptest! {
    #![proptest_config(littoral_testing::cases(6))]

    #[test]
    fn answers_verify_from_files(edges in edges(), build in build_options(), threads in 1usize..3) {
        let (image, _) = build_in_memory(edges, &build, &mut Hooks::none()).unwrap();
        with_file(&image, |graph| {
            let options = Options { threads, trials: 1, verify: true, ..Options::default() };
            for access in [Access::Pread, Access::Uring, Access::Mmap] {
                let device = FlashDevice::file(graph.path(), access).unwrap();
                check_all(graph, &Store::new(graph, device).unwrap(), &options);
            }
        });
    }
}

fn path_of(n: u32) -> GraphFile {
    let edges = EdgeList::new(n, false, (1..n).map(|v| [v - 1, v]).collect());
    let (image, _) = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none()).unwrap();
    GraphFile::from_image(image).unwrap()
}

/// The verifiers must be able to say no: each wrong answer here is one they have to refuse.
#[test]
fn verifiers_refute_wrong_answers() {
    let graph = path_of(50);
    let store = Store::in_dram(&graph).unwrap();
    let refuted = |kernel: Kernel, answer: Answer| {
        let source = 0;
        check(&graph, kernel, source, &answer).is_err_and(|e| e.kind() == Kind::Refuted)
    };
    for kernel in kernels() {
        let options = Options { sources: vec![0], ..Options::default() };
        let (_, answer) = run(&graph, &store, kernel, &options, &WallClock::new()).unwrap();
        check(&graph, kernel, 0, &answer).unwrap();
        match answer {
            Answer::Bfs(parents) => {
                for v in 0..50 {
                    let mut wrong = parents.clone();
                    wrong[v] = if wrong[v] == 49 { UNREACHED } else { 49 };
                    assert!(refuted(kernel, Answer::Bfs(wrong)), "parent of {v}");
                }
                assert!(refuted(kernel, Answer::Bfs(parents[1..].to_vec())));
            }
            Answer::PageRank(ranks) => {
                let mut wrong = ranks.clone();
                wrong[7] *= 1.01;
                assert!(refuted(kernel, Answer::PageRank(wrong)));
                assert!(refuted(kernel, Answer::PageRank(vec![f32::NAN; 50])));
            }
            Answer::Components(labels) => {
                let mut wrong = labels.clone();
                wrong[7] = 7;
                assert!(refuted(kernel, Answer::Components(wrong)));
                assert!(refuted(kernel, Answer::Components((0..50).collect())));
            }
            Answer::Sssp(distances) => {
                for v in 0..50 {
                    let mut wrong = distances.clone();
                    wrong[v] += 1.0;
                    assert!(refuted(kernel, Answer::Sssp(wrong)), "distance of {v}");
                }
                assert!(refuted(kernel, Answer::Sssp(vec![f32::NAN; 50])));
            }
            Answer::Bc(scores) => {
                for v in 0..50 {
                    let mut wrong = scores.clone();
                    wrong[v] += 1e-3;
                    assert!(refuted(kernel, Answer::Bc(wrong)), "score of {v}");
                }
                assert!(refuted(kernel, Answer::Bc(vec![f64::NAN; 50])));
            }
            Answer::Kcore(cores) => {
                for v in 0..50 {
                    let mut wrong = cores.clone();
                    wrong[v] += 1;
                    assert!(refuted(kernel, Answer::Kcore(wrong)), "core of {v}");
                }
                assert!(refuted(kernel, Answer::Kcore(vec![0; 50])));
            }
            Answer::Tc(triangles) => {
                for v in 0..50 {
                    let mut wrong = triangles.clone();
                    wrong[v] += 1;
                    assert!(refuted(kernel, Answer::Tc(wrong)), "triangles of {v}");
                }
                assert!(refuted(kernel, Answer::Tc(vec![7; 50])));
            }
            _ => unreachable!("kernels answer in kind"),
        }
    }
}

#[test]
fn a_split_that_joins_two_components_is_refuted() {
    let edges = EdgeList::new(4, false, vec![[0, 1], [2, 3]]);
    let (image, _) = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none()).unwrap();
    let graph = GraphFile::from_image(image).unwrap();
    let wrong = check(&graph, Kernel::Components, 0, &Answer::Components(vec![0; 4])).unwrap_err();
    assert_eq!(wrong.kind(), Kind::Refuted);
}

#[test]
fn forged_neighbours_are_an_error_on_every_road() {
    let edges = EdgeList::new(3000, false, (1..3000).map(|v| [v - 1, v]).collect());
    let options = BuildOptions { heads: 0, ..BuildOptions::default() };
    let (mut image, _) = build_in_memory(edges, &options, &mut Hooks::none()).unwrap();
    let graph = GraphFile::from_image(image.clone()).unwrap();
    let at = graph.outgoing().pages().offset as usize;
    image[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let graph = GraphFile::from_image(image).unwrap();
    let dram = Store::in_dram(&graph).unwrap();
    for store in [&dram, &flash(&dram, Transfer::Copy)] {
        for kernel in kernels() {
            let options = Options { sources: vec![0], ..Options::default() };
            let error = run(&graph, store, kernel, &options, &WallClock::new()).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{kernel:?}: {error}");
        }
    }
}

#[test]
fn lists_that_lead_back_are_not_read_except_for_the_source() {
    // A path of 400 vertices, each of them with a leaf.
    let path = 400u32;
    let leaves = (0..path).map(|v| [v, path + v]);
    let edges = (1..path).map(|v| [v - 1, v]).chain(leaves).collect();
    let options = BuildOptions { order: Order::Input, threads: 1, ..BuildOptions::default() };
    let list = EdgeList::new(2 * path, false, edges);
    let (image, _) = build_in_memory(list, &options, &mut Hooks::none()).unwrap();
    let graph = GraphFile::from_image(image).unwrap();
    let dram = Store::in_dram(&graph).unwrap();
    for store in [&dram, &flash(&dram, Transfer::Pointer)] {
        for source in [0, path] {
            let options = Options { sources: vec![source], verify: true, ..Options::default() };
            let reads = |kernel| {
                let (report, _) = run(&graph, store, kernel, &options, &WallClock::new()).unwrap();
                report.trials[0].traffic.reads_count
            };
            let of_source = u64::from(source >= path);
            assert_eq!(reads(Kernel::Sssp(Weights::Seeded)), u64::from(path) + of_source);
            // Forward and backward; the source's list is read once.
            let twice = 2 * u64::from(path);
            assert_eq!(reads(Kernel::Bc(Sources::One)), twice - 1 + 2 * of_source);
            // Some 390 steps go down, the last ones read up to 6 units of HEADS each.
            let found = reads(Kernel::Bfs);
            assert!(found < 600, "{found} reads from {source}");
        }
    }
}

#[test]
fn stores_run_in_turn_on_the_same_sources() {
    let graph = path_of(300);
    let dram = Store::in_dram(&graph).unwrap();
    let flash = flash(&dram, Transfer::Pointer);
    let options = Options { trials: 4, sources: vec![7, 250], verify: true, ..Options::default() };
    for kernel in kernels() {
        let clock = WallClock::new();
        let reports = run_in_turn(&graph, &[&dram, &flash], kernel, &options, &clock).unwrap();
        let mediums: Vec<_> = reports.iter().map(|r| r.medium).collect();
        assert_eq!(mediums, ["dram", "flash"]);
        for (a, b) in reports[0].trials.iter().zip(&reports[1].trials) {
            assert_eq!(a.source, b.source);
            assert!(a.traffic.contexts == 0 && b.traffic.contexts > 0);
        }
        assert_eq!(reports[1].trials.len(), 4);
    }
    let many = Options { threads: 2, ..options };
    let refused = run_in_turn(&graph, &[&dram], Kernel::Bfs, &many, &WallClock::new());
    assert_eq!(refused.unwrap_err().kind(), Kind::Argument);
}

#[test]
fn impossible_options_are_refused_with_words() {
    let graph = path_of(3);
    let store = Store::in_dram(&graph).unwrap();
    let clock = WallClock::new();
    for options in [
        Options { threads: 0, ..Options::default() },
        Options { threads: 1 << 30, ..Options::default() },
        Options { trials: 0, ..Options::default() },
        Options { sources: vec![3], ..Options::default() },
    ] {
        let error = run(&graph, &store, Kernel::Bfs, &options, &clock).unwrap_err();
        assert_eq!(error.kind(), Kind::Argument, "{error}");
    }
}

#[test]
fn a_device_that_holds_something_else_is_refused() {
    let (graph, other) = (path_of(3), path_of(9));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), other.as_image().unwrap()).unwrap();
    let device = FlashDevice::file(file.path(), Access::Pread).unwrap();
    let refused = Store::new(&graph, device.clone()).unwrap_err();
    assert_eq!(refused.kind(), Kind::Device);
    assert!(refused.to_string().contains("holds something else"), "{refused}");
    assert!(Store::new(&other, device).is_ok());
    let small = FlashDevice::dram(Region::from_bytes(&[0; 64]).unwrap()).with_capacity(64);
    assert_eq!(Store::new(&graph, small).unwrap_err().kind(), Kind::Device);
}

#[test]
fn a_run_reads_the_graph_it_opened_though_another_takes_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (file, other) = (dir.path().join("a.lg"), dir.path().join("b.lg"));
    for access in [Access::Pread, Access::Uring, Access::Mmap] {
        std::fs::write(&file, path_of(300).as_image().unwrap()).unwrap();
        std::fs::write(&other, path_of(900).as_image().unwrap()).unwrap();
        let graph = GraphFile::open(&file).unwrap();
        let store = Store::new(&graph, FlashDevice::file(&file, access).unwrap()).unwrap();
        std::fs::rename(&other, &file).unwrap();
        let options = Options { verify: true, sources: vec![0], ..Options::default() };
        let (_, found) = run(&graph, &store, Kernel::Bfs, &options, &WallClock::new()).unwrap();
        let dram = Store::in_dram(&graph).unwrap();
        let (_, wanted) = run(&graph, &dram, Kernel::Bfs, &options, &WallClock::new()).unwrap();
        assert_eq!(found, wanted, "{access:?}");
    }
}

#[test]
fn a_graph_without_arcs_has_answers_too() {
    let edges = EdgeList::new(5, true, vec![[2, 2]]);
    let (image, _) = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none()).unwrap();
    let graph = GraphFile::from_image(image).unwrap();
    let store = Store::in_dram(&graph).unwrap();
    let options = Options { verify: true, ..Options::default() };
    for kernel in kernels() {
        let (report, _) = run(&graph, &store, kernel, &options, &WallClock::new()).unwrap();
        if let Summary::Components(c) = report.trials[0].summary {
            assert_eq!((c.components_count, c.largest_count), (5, 1));
        }
    }
}
