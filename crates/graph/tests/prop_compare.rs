//! Comparisons: every form of DRAM and many searches at once give verified answers, and what is
//! counted does not depend on time.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use std::sync::Arc;

use littoral_base::clock::WallClock;
use littoral_device::profile::Profile;
use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, Order, build_in_memory};
use littoral_graph::format::file::GraphFile;
use littoral_graph::format::{Direction, Piece};
use littoral_graph::generate::{Model, generate, weigh};
use littoral_graph::kernels::{
    Ask, Kernel, Options, PageRankOptions, Phase, Weights, compare, pick_sources, run_in_turn,
};
use littoral_graph::medium::{DramForm, Store, Transfer, hottest_frames};
use proptest::prelude::*;

fn edges() -> impl Strategy<Value = EdgeList> {
    (2u32..3000, any::<bool>(), 1usize..6000, any::<u64>())
        .prop_map(|(n, directed, m, seed)| random_edges(n, directed, m, seed))
}

/// `m` random edges between `n` vertices, and a hub with an edge to every third vertex.
fn random_edges(n: u32, directed: bool, m: usize, seed: u64) -> EdgeList {
    let mut x = seed | 1;
    let mut draw = || {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((x >> 33) % u64::from(n)) as u32
    };
    let mut list: Vec<[u32; 2]> = (0..m).map(|_| [draw(), draw()]).collect();
    list.extend((0..n).step_by(3).map(|v| [0, v]));
    EdgeList::new(n, directed, list)
}

fn flash(dram: &Store, latency: &str) -> Store {
    let profile = Profile::named("xlfdd").unwrap().with("read.latency", latency).unwrap();
    dram.behind(&profile, Transfer::Pointer).unwrap()
}

fn graph_of(edges: EdgeList) -> GraphFile {
    graph_in(Order::Degree, edges)
}

fn graph_in(order: Order, edges: EdgeList) -> GraphFile {
    let build = BuildOptions { order, threads: 1, ..BuildOptions::default() };
    let (image, _) = build_in_memory(edges, &build, &mut Hooks::none()).unwrap();
    GraphFile::from_image(image).unwrap()
}

/// Phases of searches on `store`, without their times.
fn phases(graph: &GraphFile, store: &Store, sources: &[u32]) -> Vec<Phase> {
    phases_of(Kernel::Bfs, graph, store, sources)
}

fn phases_of(kernel: Kernel, graph: &GraphFile, store: &Store, sources: &[u32]) -> Vec<Phase> {
    let mut found = Vec::new();
    let options = Options { verify: true, ..Options::default() };
    let clock = WallClock::new();
    compare(graph, &[store], kernel, sources.len(), &options, &clock, &mut |run| {
        let compared = run(&Ask { store: 0, sources, record: true })?;
        let reads: u64 = compared.phases.iter().map(|p| p.reads_count).sum();
        assert_eq!(reads, compared.trial.traffic.reads_count, "every read is in a phase");
        found = compared.phases;
        Ok(())
    })
    .unwrap();
    found.into_iter().map(|p| Phase { time_ns: 0.0, contexts_max: 0, ..p }).collect()
}

proptest! {
    #![proptest_config(littoral_testing::cases(24))]

    #[test]
    fn many_searches_at_once_verify_on_every_medium(edges in edges(), count in 2usize..7, seed: u64) {
        let graph = graph_of(edges);
        let sources = pick_sources(&graph, count, seed);
        let dram = Store::in_dram(&graph).unwrap();
        let mut stores: Vec<Store> =
            DramForm::ALL.map(|form| dram.read_as(form).unwrap()).into();
        stores.extend([flash(&dram, "1us"), Store::in_dram(&graph).unwrap()]);
        let stores: Vec<&Store> = stores.iter().collect();
        let options = Options { verify: true, ..Options::default() };
        compare(&graph, &stores, Kernel::Bfs, count, &options, &WallClock::new(), &mut |run| {
            for store in 0..stores.len() {
                run(&Ask { store, sources: &sources, record: false })?;
                run(&Ask { store, sources: &sources[..1], record: true })?;
            }
            Ok(())
        }).unwrap();
        for kernel in [Kernel::PageRank(PageRankOptions { iterations_max: 100, ..Default::default() }), Kernel::Components] {
            run_in_turn(&graph, &stores, kernel, &options, &WallClock::new()).unwrap();
        }
    }

    #[test]
    fn counts_do_not_depend_on_latency(edges in edges(), seed: u64) {
        let graph = graph_of(edges);
        let sources = pick_sources(&graph, 3, seed);
        let dram = Store::in_dram(&graph).unwrap();
        let (near, far) = (flash(&dram, "1ps"), flash(&dram, "9us"));
        prop_assert_eq!(phases(&graph, &near, &sources[..1]), phases(&graph, &far, &sources[..1]));
        prop_assert_eq!(phases(&graph, &near, &sources), phases(&graph, &far, &sources));
    }

    #[test]
    fn counts_of_other_kernels_do_not_depend_on_latency(edges in edges(), seed: u64) {
        let graph = graph_of(edges);
        let source = pick_sources(&graph, 1, seed);
        let dram = Store::in_dram(&graph).unwrap();
        let (near, far) = (flash(&dram, "1ps"), flash(&dram, "9us"));
        // Breadth-first search has a test of its own. Delta-stepping relaxes in the order of
        // answers, so its counts may differ.
        let differs = |kernel: &Kernel| matches!(kernel, Kernel::Bfs | Kernel::Sssp(_));
        for kernel in Kernel::all().into_iter().filter(|kernel| !differs(kernel)) {
            let source = if kernel.spec().has_source { &source[..] } else { &[] };
            let [mut a, mut b] = [&near, &far].map(|store| phases_of(kernel, &graph, store, source));
            if matches!(kernel, Kernel::PageRank(_)) {
                // It uses new values in the order of answers: its iterations may differ in number.
                let iterations = a.len().min(b.len());
                a.truncate(iterations);
                b.truncate(iterations);
            }
            prop_assert_eq!(a, b, "{}", kernel.name());
        }
    }
}

#[test]
fn counts_of_components_do_not_depend_on_latency() {
    // In these graphs an answer can link a root outside of the giant component before the root's
    // own list is asked for, or after it. Devices are paced, so it takes several rounds to see.
    let found = [(2876u64, 2612), (3646, 3102), (4948, 3276)];
    for (seed, edges_count) in found.into_iter().cycle().take(60) {
        let edges = random_edges(2000, true, edges_count, seed * 0x9e37_79b9 + 1);
        let graph = graph_of(edges);
        let dram = Store::in_dram(&graph).unwrap();
        let [a, b] = ["1ps", "9us"]
            .map(|latency| phases_of(Kernel::Components, &graph, &flash(&dram, latency), &[]));
        assert_eq!(a, b, "seed {seed}");
    }
}

/// Whom the first direction's lists join to the giant component is inside when the second one's are
/// chosen, whatever labels lie between and wherever the smallest id is.
#[test]
fn the_second_direction_reads_no_list_of_whom_the_first_one_joined() {
    // A star is the giant component. What the last entry of one long list joins to it lies behind
    // all that the heads of lists show, since entries go by degree.
    let (leaves, friends, pendants) = (2999u32, 40u32, 10u32);
    let others = 1 + friends * (pendants + 1);
    for (order, star, joins) in [(Order::Degree, 0, leaves + 1), (Order::Input, others, 0)] {
        let mut list: Vec<[u32; 2]> = (1..=leaves).map(|leaf| [star + leaf, star]).collect();
        for friend in (0..friends).map(|i| joins + 1 + i * (pendants + 1)) {
            list.push([joins, friend]);
            list.extend((1..=pendants).map(|pendant| [friend + pendant, friend]));
        }
        list.push([joins, star + leaves]);
        let graph = graph_in(order, EdgeList::new(leaves + 1 + others, true, list));
        let dram = Store::in_dram(&graph).unwrap();
        let found = phases_of(Kernel::Components, &graph, &flash(&dram, "1ps"), &[]);
        let reads: Vec<u64> = found.iter().map(|p| p.reads_count).collect();
        let [.., first, second] = reads[..] else { panic!("{reads:?}") };
        assert!(first > u64::from(friends), "the pieces outside are read: {order:?} {reads:?}");
        assert_eq!(second, 0, "none is left outside: {order:?} {reads:?}");
    }
}

#[test]
fn held_frames_take_reads_off_the_device_and_change_no_answer() {
    let graph = graph_of(generate(Model::Kron, 11, 1, 1, &mut Hooks::none()).unwrap());
    let dram = Store::in_dram(&graph).unwrap();
    let held = |bytes: u64| {
        let frames = Arc::new(hottest_frames(&graph, bytes));
        let store = flash(&dram, "1us").with_frames(frames.clone());
        let found = phases(&graph, &store, &pick_sources(&graph, 2, 5));
        let sum = |f: fn(&Phase) -> u64| found.iter().map(f).sum::<u64>();
        (frames.bytes(), sum(|p| p.held_count), sum(|p| p.reads_count))
    };
    let (none, some, all) = (held(0), held(64 << 10), held(1 << 30));
    assert_eq!((none.0, none.1), (0, 0));
    assert_eq!(some.0, 64 << 10);
    assert!(some.1 > 0 && some.1 < some.2, "{some:?}");
    assert_eq!(all.1, all.2, "everything is held");
    assert_eq!((none.2, some.2), (all.2, all.2), "the same reads");
}

#[test]
fn frames_hold_every_piece_of_a_long_list_with_its_weights() {
    let leaves = 5000u32;
    let edges: Vec<[u32; 2]> = (1..=leaves).map(|leaf| [0, leaf]).collect();
    let weights = (1..=leaves).map(|w| w as f32).collect();
    let star = |weights| EdgeList { weights, ..EdgeList::new(leaves + 1, true, edges.clone()) };
    for list in [star(None), star(Some(weights))] {
        let graph = graph_of(list);
        let (layout, lists) = (graph.layout(), graph.lists(Direction::Out));
        let hub = (0..graph.vertices()).map(|v| lists.locate(v)).max_by_key(|l| l.degree).unwrap();
        assert_eq!(hub.degree, leaves);
        let pieces: Vec<Piece> = layout.pieces(hub.addr, hub.degree).collect();
        assert!(pieces.len() > 1, "the hub's list is longer than a page");
        let frames = hottest_frames(&graph, 1 << 40);
        for piece in pieces {
            let at = lists.pages().offset + piece.addr * 4;
            let bytes = piece.len * 4 * layout.arc_words() as u32;
            assert!(frames.holds(at, bytes), "{piece:?}, weighted {}", graph.is_weighted());
        }
    }
}

#[test]
fn weighted_searches_from_a_hub_read_nothing_when_all_frames_are_held() {
    let mut edges = generate(Model::Kron, 11, 1, 1, &mut Hooks::none()).unwrap();
    weigh(&mut edges);
    let options = BuildOptions { page_bytes: 512, ..BuildOptions::default() };
    let (image, _) = build_in_memory(edges, &options, &mut Hooks::none()).unwrap();
    let graph = GraphFile::from_image(image).unwrap();
    let dram = Store::in_dram(&graph).unwrap();
    let frames = Arc::new(hottest_frames(&graph, 1 << 40));
    let store = flash(&dram, "1us").with_frames(frames);
    for kernel in [Kernel::Bfs, Kernel::Sssp(Weights::Stored)] {
        let found = phases_of(kernel, &graph, &store, &pick_sources(&graph, 1, 5));
        let sum = |f: fn(&Phase) -> u64| found.iter().map(f).sum::<u64>();
        let (held, reads) = (sum(|p| p.held_count), sum(|p| p.reads_count));
        assert!(reads > 0);
        assert_eq!(held, reads, "{}", kernel.name());
    }
}

#[test]
fn a_step_over_one_vertex_makes_no_more_contexts_than_it_has_reads() {
    let graph = graph_of(generate(Model::Urand, 10, 1, 1, &mut Hooks::none()).unwrap());
    let dram = Store::in_dram(&graph).unwrap();
    let store = flash(&dram, "10us");
    let sources = pick_sources(&graph, 1, 7);
    let options = Options::default();
    compare(&graph, &[&store], Kernel::Bfs, 1, &options, &WallClock::new(), &mut |run| {
        let phases = run(&Ask { store: 0, sources: &sources, record: true })?.phases;
        assert_eq!((phases[0].reads_count, phases[0].contexts_max), (1, 1), "the source's list");
        Ok(())
    })
    .unwrap();
}
