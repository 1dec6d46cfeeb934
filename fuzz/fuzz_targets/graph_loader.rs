//! Hostile graph files: opened, named, described, loaded and checked; any panic is a finding.
//!
//! An input is either an image as it is, or patches of {place, word} on a small valid image, with
//! or without its checksums made good again, so that the checks behind the checksums are reached.
//!
//! Canary: before the first input, an image with one flipped bit must be refused and the whole one
//! accepted; a harness that reaches nothing, or a loader that accepts everything, is red at once.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_assure::graph::reseal;
use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, Order, build_in_memory};
use littoral_graph::check::check;
use littoral_graph::format::file::GraphFile;
use littoral_graph::info::info;
use littoral_graph::names::{Labels, TextNames};

/// A directed, weighted and named graph, and an undirected plain one.
static IMAGES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let images = [true, false].map(image);
    images.iter().for_each(|i| assert!(use_all(i.clone()), "the whole image is accepted"));
    let mut flipped = images[0].clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    assert!(!use_all(flipped), "canary: a flipped bit went unseen");
    images
});

fn image(rich: bool) -> Vec<u8> {
    let edges: Vec<_> = (1..160u32).flat_map(|v| [[0, v], [v, v * 7 % 160]]).collect();
    let mut text = TextNames::new();
    (0..160).for_each(|v| text.push(&format!("v{v}")));
    let list = EdgeList {
        weights: rich.then(|| edges.iter().map(|e| e[1] as f32).collect()),
        labels: if rich { Labels::Text(text) } else { Labels::Identity },
        ..EdgeList::new(160, rich, edges)
    };
    let order = if rich { Order::Input } else { Order::Degree };
    let options = BuildOptions { page_bytes: 512, order, threads: 1, ..BuildOptions::default() };
    build_in_memory(list, &options, &mut Hooks::none()).expect("a valid graph").0
}

fn use_all(image: Vec<u8>) -> bool {
    let Ok(graph) = GraphFile::from_image(image) else { return false };
    info(&graph);
    let named = graph.names().map(|names| {
        let last = names.name(graph.vertices() - 1);
        assert_eq!(names.find(&last).ok(), Some(graph.vertices() - 1), "a name finds its vertex");
    });
    let loaded = graph.header().directions().iter().all(|&d| graph.load_pages(d).is_ok());
    named.is_ok() && check(&graph, &mut Hooks::none()).is_ok() && loaded
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    let mut image = match mode % 4 {
        0 => rest.to_vec(),
        which => IMAGES[usize::from(which & 1)].clone(),
    };
    if mode % 4 != 0 {
        for patch in rest.chunks_exact(7) {
            let place = u32::from_le_bytes([patch[0], patch[1], patch[2], 0]) as usize;
            let at = place % (image.len() - 4);
            image[at..at + 4].copy_from_slice(&patch[3..]);
        }
    }
    if mode & 4 != 0 {
        reseal(&mut image);
    }
    use_all(image);
});
