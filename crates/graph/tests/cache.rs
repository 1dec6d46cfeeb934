//! Lists through a cache of pages: right answers, fewer reads, damage refused.
#![allow(clippy::unwrap_used)] // Reason: a test's helpers may fail like the test.

use littoral_base::clock::WallClock;
use littoral_device::flash::opened::Access;
use littoral_device::profile::Profile;
use littoral_graph::Kind;
use littoral_graph::builder::{BuildOptions, Hooks, Order, build_in_memory};
use littoral_graph::format::Direction;
use littoral_graph::format::file::GraphFile;
use littoral_graph::generate::{Model, generate, weigh};
use littoral_graph::kernels::{Kernel, Options, RunReport, run};
use littoral_graph::medium::{FlashDevice, Store, Transfer};

fn image(model: Model, scale: u32, order: Order) -> Vec<u8> {
    let mut edges = generate(model, scale, 1, 1, &mut Hooks::none()).unwrap();
    weigh(&mut edges);
    let options = BuildOptions { order, threads: 1, ..BuildOptions::default() };
    build_in_memory(edges, &options, &mut Hooks::none()).unwrap().0
}

/// The graph on modelled flash.
fn flash(graph: &GraphFile) -> Store {
    let profile = Profile::named("xlfdd").unwrap();
    Store::in_dram(graph).unwrap().behind(&profile, Transfer::Pointer).unwrap()
}

fn pages_bytes(graph: &GraphFile) -> u64 {
    graph.lists(Direction::Out).pages().bytes
}

fn report(graph: &GraphFile, store: &Store, kernel: Kernel, threads: usize) -> RunReport {
    let options = Options { threads, verify: true, sources: vec![1], ..Options::default() };
    run(graph, store, kernel, &options, &WallClock::new()).unwrap().0
}

#[test]
fn kernels_over_a_cache_of_any_size_give_right_answers() {
    for (model, order) in [(Model::Kron, Order::Degree), (Model::Road, Order::Bfs)] {
        let graph = GraphFile::from_image(image(model, 9, order)).unwrap();
        for kernel in Kernel::all() {
            for (bytes, threads) in [(1, 1), (pages_bytes(&graph) / 3, 2), (1 << 30, 1)] {
                let store = flash(&graph).with_cache(bytes);
                let found = report(&graph, &store, kernel, threads);
                assert!(found.verified && found.wording.contains("cached"), "{}", found.wording);
            }
        }
    }
}

#[test]
fn lists_of_one_page_that_are_asked_for_together_cost_one_read() {
    let graph = GraphFile::from_image(image(Model::Road, 14, Order::Auto)).unwrap();
    let one_by_one = report(&graph, &flash(&graph), Kernel::Bfs, 1).trials[0].traffic;
    let store = flash(&graph).with_cache(pages_bytes(&graph) / 10);
    let cached = report(&graph, &store, Kernel::Bfs, 1).trials[0].traffic;
    // Two reads make a page on this device.
    assert!(cached.reads_count * 10 <= one_by_one.reads_count, "{cached:?} for {one_by_one:?}");
    assert!(cached.cache_hits_count > 0 && cached.pages_verified_count > 0, "{cached:?}");
}

#[test]
fn a_damaged_page_is_refused_where_lists_are_read_by_pages() {
    let sound = image(Model::Road, 9, Order::Bfs);
    let at = {
        let graph = GraphFile::from_image(sound.clone()).unwrap();
        graph.lists(Direction::Out).pages().offset as usize
    };
    let mut refused = 0;
    for bit in 0..64 {
        let mut image = sound.clone();
        image[at + 8 + bit / 8] ^= 1 << (bit % 8);
        let graph = GraphFile::from_image(image).unwrap();
        let options = Options { sources: vec![1], ..Options::default() };
        let store = flash(&graph).with_cache(1 << 20);
        let outcome = run(&graph, &store, Kernel::Bfs, &options, &WallClock::new());
        refused += u32::from(outcome.is_err_and(|e| e.kind() == Kind::Corrupt));
    }
    assert_eq!(refused, 64);
}

#[test]
fn a_device_that_does_not_open_is_refused_with_its_reason() {
    let image = image(Model::Kron, 7, Order::Degree);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lg");
    std::fs::write(&path, image).unwrap();
    let graph = GraphFile::open(&path).unwrap();
    let store = Store::new(&graph, FlashDevice::file(&path, Access::Pread).unwrap()).unwrap();
    for threads in [1, 2] {
        let options = Options { threads, contexts: Some(1000), ..Options::default() };
        let clock = WallClock::new();
        let e = run(&graph, &store, Kernel::Components, &options, &clock).unwrap_err();
        assert!(e.to_string().contains("1000 contexts need at least 1000 slots"), "{e}");
    }
}
