//! Files against an oracle: whatever edges go in, exactly their simple graph comes out, list by
//! list.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, Order, build_in_memory};
use littoral_graph::format::file::GraphFile;
use littoral_graph::format::page::PageView;
use littoral_graph::format::{Direction, HEAD_BLOCK_VERTICES};
use littoral_graph::names::Labels;
use littoral_graph::pack::plan;
use proptest::prelude::*;

fn edges(max_vertices: u32, max_edges: usize) -> impl Strategy<Value = EdgeList> {
    let graph = (1..=max_vertices, any::<bool>(), any::<bool>(), any::<bool>());
    graph.prop_flat_map(move |(n, directed, weighted, hub)| {
        let edge = [0..n, if hub { 0..1 } else { 0..n }];
        let list = proptest::collection::vec((edge, 0u8..50), 0..max_edges);
        list.prop_map(move |list| EdgeList {
            vertices: n,
            directed,
            weights: weighted.then(|| list.iter().map(|&(_, w)| f32::from(w)).collect()),
            edges: list.into_iter().map(|(e, _)| e).collect(),
            labels: Labels::Identity,
        })
    })
}

fn options() -> impl Strategy<Value = BuildOptions> {
    (0u32..4, 0u32..5, any::<bool>(), 1usize..9, 1usize..4).prop_map(
        |(p, heads, by, window, threads)| BuildOptions {
            page_bytes: 512 << p,
            heads,
            order: if by { Order::Degree } else { Order::Input },
            window_pages: Some(window),
            threads,
            memory_bytes: None,
        },
    )
}

type Adjacency = BTreeMap<u32, BTreeMap<u32, f32>>;

/// The textbook answer: neighbour -> smallest weight, by original number.
fn oracle(edges: &EdgeList, into: bool) -> Adjacency {
    let mut lists = Adjacency::new();
    for (i, &[a, b]) in edges.edges.iter().enumerate().filter(|(_, e)| e[0] != e[1]) {
        let weight = edges.weights.as_ref().map_or(0.0, |w| w[i]);
        let mut add = |from, to| {
            let w = lists.entry(from).or_default().entry(to).or_insert(weight);
            *w = w.min(weight);
        };
        match (edges.directed, into) {
            (true, false) => add(a, b),
            (true, true) => add(b, a),
            (false, _) => {
                add(a, b);
                add(b, a);
            }
        }
    }
    lists
}

fn words(graph: &GraphFile, extent: littoral_graph::format::Extent) -> Vec<u32> {
    let mut words = vec![0u32; extent.bytes as usize / 4];
    graph.read_extent(extent, bytemuck::cast_slice_mut(&mut words)).unwrap();
    words
}

/// What the file says, by original number, through the vertex table.
fn read_back(graph: &GraphFile, direction: Direction) -> Adjacency {
    let lists = graph.lists(direction);
    let arcs = graph.load_arcs(direction).unwrap();
    let names = graph.names().unwrap();
    let original = |v: u32| names.name(v).parse::<u32>().unwrap();
    let mut out = Adjacency::new();
    for v in 0..graph.vertices() {
        let list = lists.locate(v);
        for piece in graph.layout().pieces(list.addr, list.degree) {
            for (k, &to) in arcs.neighbours(piece).iter().enumerate() {
                let weight = arcs.weights(piece).get(k).map_or(0.0, |&w| f32::from_bits(w));
                let old = out.entry(original(v)).or_default().insert(original(to), weight);
                assert_eq!(old, None, "a neighbour twice");
            }
        }
    }
    out
}

/// What the file says through the pages' directories alone, as a scan sees it.
fn scan(graph: &GraphFile, direction: Direction) -> BTreeMap<u32, Vec<u32>> {
    let mut out = BTreeMap::<u32, Vec<u32>>::new();
    for page in
        words(graph, graph.lists(direction).pages()).chunks_exact(graph.layout().page_words())
    {
        for (entry, list) in PageView::from_words(page).lists() {
            out.entry(entry.vertex).or_default().extend(list);
        }
    }
    out
}

fn check_order(graph: &GraphFile, direction: Direction) {
    let total = |v: u32| {
        let d = u64::from(graph.outgoing().degree(v));
        if graph.is_directed() { d + u64::from(graph.incoming().degree(v)) } else { d }
    };
    for (v, list) in scan(graph, direction) {
        assert!(list.windows(2).all(|w| total(w[0]) >= total(w[1])), "list of {v} is hub-first");
        let heads = words(graph, graph.lists(direction).heads());
        let (block, at) = (v as usize / HEAD_BLOCK_VERTICES, v as usize % HEAD_BLOCK_VERTICES);
        let index = graph.lists(direction).head_index();
        let units = index[block] as usize..index[block + 1] as usize;
        let degrees = (v - at as u32..graph.vertices()).take(HEAD_BLOCK_VERTICES);
        let longest = degrees.map(|w| graph.lists(direction).degree(w)).max().unwrap();
        assert_eq!(units.len() as u32, longest.min(graph.header().heads));
        for (k, unit) in units.enumerate() {
            let want = list.get(k).copied().unwrap_or(u32::MAX);
            assert_eq!(heads[unit * HEAD_BLOCK_VERTICES + at], want, "neighbour {k} of {v}");
        }
    }
}

proptest! {
    #![proptest_config(littoral_testing::cases(160))]

    #[test]
    fn every_list_comes_back_through_table_and_scan(
        edges in prop_oneof![4 => edges(60, 900), 1 => edges(2500, 900)],
        options in options(),
    ) {
        let (image, report) = build_in_memory(edges.clone(), &options, &mut Hooks::none()).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        for direction in graph.header().directions() {
            let want = oracle(&edges, *direction == Direction::In);
            prop_assert_eq!(&read_back(&graph, *direction), &want);
            let arcs: usize = scan(&graph, *direction).values().map(Vec::len).sum();
            prop_assert_eq!(arcs as u64, graph.header().arcs);
            check_order(&graph, *direction);
        }
        let removed = report.loops_removed + report.duplicates_removed;
        prop_assert_eq!(report.edges + removed, edges.edges.len() as u64);
        prop_assert_eq!(report.edges, graph.header().edges());
        if options.order == Order::Degree {
            let total = |v| {
                let into = if edges.directed { graph.incoming().degree(v) } else { 0 };
                graph.outgoing().degree(v) + into
            };
            prop_assert!((1..edges.vertices).all(|v| total(v - 1) >= total(v)));
        }
    }

    #[test]
    fn threads_do_not_change_a_byte(edges in edges(200, 2000), options in options()) {
        let build = |threads| {
            let options = BuildOptions { threads, ..options };
            build_in_memory(edges.clone(), &options, &mut Hooks::none()).unwrap().0
        };
        prop_assert!(build(1) == build(5));
    }

    #[test]
    fn placement_never_splits_a_list_that_fits(
        degrees in proptest::collection::vec(prop_oneof![0u32..40, 100u32..130, 0u32..700], 0..400),
        window in 1usize..40,
    ) {
        let layout = littoral_graph::format::Layout::new(512).unwrap();
        let plan = plan(&degrees, layout, window).unwrap();
        let mut taken = BTreeSet::new();
        let (mut used, mut pieces) = (0u64, 0u64);
        for (&degree, &addr) in degrees.iter().zip(&plan.addr) {
            if degree as usize > layout.piece_words() {
                prop_assert_eq!(addr % 128, 0, "a long list begins a page");
            }
            let parts: Vec<_> = layout.pieces(addr, degree).collect();
            prop_assert_eq!(parts.iter().map(|p| p.len).sum::<u32>(), degree);
            for p in parts {
                prop_assert!(p.addr % 128 + u64::from(p.len) <= 122, "within its page");
                for w in p.addr..p.addr + u64::from(p.len) {
                    prop_assert!(taken.insert(w), "word {} twice", w);
                }
                used += u64::from(p.len);
                pieces += 1;
            }
        }
        prop_assert_eq!(plan.padding_words, u64::from(plan.pages) * 124 - used - 2 * pieces);
        let closed = u64::from(plan.pages).saturating_sub(window as u64);
        let longest_fitting = degrees.iter().filter(|&&d| d <= 122).max().copied().unwrap_or(0);
        let window = window as u64;
        let bound = (closed + window) * (u64::from(longest_fitting) + 2) + 122 * window;
        prop_assert!(plan.padding_words <= bound);
    }
}
