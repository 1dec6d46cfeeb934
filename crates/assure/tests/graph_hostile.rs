//! Hostile files: any damage ends in a clear error, never in a panic or a wild allocation.
//!
//! Plain damage (flips, cuts) must be found by opening or checking. Forged damage, with every
//! checksum made good again, may go unseen where it makes another valid graph, but must never
//! panic.

#![allow(clippy::unwrap_used)]

use littoral_assure::graph::reseal;
use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, Order, build_in_memory};
use littoral_graph::check::check;
use littoral_graph::format::file::GraphFile;
use littoral_graph::format::header::Header;
use littoral_graph::info::info;
use littoral_graph::names::{Labels, TextNames};
use littoral_graph::{Error, Kind};
use proptest::prelude::*;
use proptest::sample::Index;

fn image(kind: u8) -> Vec<u8> {
    let n = 90u32;
    let ring = (0..n).map(|v| [v, (v + 1) % n]);
    let hub = (1..n).map(|v| [0, v]);
    let edges: Vec<_> = ring.chain(hub).chain((0..40).map(|i| [i, (i * 7 + 3) % n])).collect();
    let mut text = TextNames::new();
    (0..n).for_each(|v| text.push(&format!("vertex-{v}")));
    let labels = match kind % 3 {
        0 => Labels::Identity,
        1 => Labels::Numbers((0..u64::from(n)).map(|v| v * v + (1 << 33)).collect()),
        _ => Labels::Text(text),
    };
    let weights = (kind & 8 != 0).then(|| edges.iter().map(|e| e[0] as f32 / 2.0).collect());
    let list = EdgeList { weights, labels, ..EdgeList::new(n, kind & 4 != 0, edges) };
    let order = if kind & 16 != 0 { Order::Degree } else { Order::Input };
    let options = BuildOptions { page_bytes: 512, order, threads: 1, ..BuildOptions::default() };
    build_in_memory(list, &options, &mut Hooks::none()).unwrap().0
}

/// Everything a user can do with a file short of a kernel.
fn use_all(image: Vec<u8>) -> Result<(), Error> {
    let graph = GraphFile::from_image(image)?;
    let shown = info(&graph);
    assert!(shown.vertices_count > 0);
    let named = graph.names().map(|names| {
        let last = names.name(graph.vertices() - 1);
        let _ = names.find(&last);
        let _ = names.find("9");
    });
    for &direction in graph.header().directions() {
        let _ = graph.load_pages(direction);
    }
    named.and(check(&graph, &mut Hooks::none()).map(|_| ()))
}

#[test]
fn the_undamaged_images_pass() {
    for kind in 0..32 {
        let mut whole = image(kind);
        use_all(whole.clone()).unwrap();
        let before = whole.clone();
        reseal(&mut whole);
        assert!(whole == before, "forging an undamaged image changes nothing");
    }
}

proptest! {
    #![proptest_config(littoral_testing::cases(600))]

    #[test]
    fn any_flipped_bit_is_found(kind in 0u8..32, at: Index, bit in 0u8..8) {
        let mut image = image(kind);
        let at = at.index(image.len());
        image[at] ^= 1 << bit;
        let e = use_all(image).unwrap_err();
        let known = [Kind::Corrupt, Kind::Foreign, Kind::Unsupported];
        prop_assert!(known.contains(&e.kind()), "{:?} {}", e.kind(), e);
    }

    #[test]
    fn any_truncation_or_extension_is_found(kind in 0u8..32, at: Index, tail in 1usize..5000) {
        let whole = image(kind);
        prop_assert!(use_all(whole[..at.index(whole.len())].to_vec()).is_err());
        let mut longer = whole.clone();
        longer.resize(whole.len() + tail, 0);
        prop_assert!(use_all(longer).is_err());
    }

    #[test]
    fn forged_damage_never_panics(
        kind in 0u8..32,
        hits in proptest::collection::vec((any::<Index>(), any::<u64>(), 0u8..4), 1..6),
    ) {
        let mut image = image(kind);
        for (at, value, shape) in hits {
            let header = shape & 1 != 0;
            let room = if header { 600 } else { image.len() };
            let at = at.index(room - 8) & !3;
            let value = if shape & 2 != 0 { value } else { u64::from(value as u8 % 4) };
            image[at..at + 4].copy_from_slice(&value.to_le_bytes()[..4]);
        }
        reseal(&mut image);
        let _ = use_all(image);
    }

    #[test]
    fn forged_section_bytes_never_panic(
        kind in 0u8..32, which: Index, at: Index, value in prop_oneof![0u32..200, any::<u32>()],
    ) {
        let mut image = image(kind);
        let header = Header::decode(&image[..4096], image.len() as u64).unwrap();
        let sections: Vec<_> = header.sections.iter().filter(|s| s.extent.bytes >= 8).collect();
        let s = sections[which.index(sections.len())];
        let at = s.extent.offset as usize + at.index(s.extent.bytes as usize / 4) * 4;
        image[at..at + 4].copy_from_slice(&value.to_le_bytes());
        reseal(&mut image);
        let _ = use_all(image);
    }

    #[test]
    fn arbitrary_bytes_are_foreign(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
        prop_assert_eq!(use_all(bytes).unwrap_err().kind(), Kind::Foreign);
    }
}

fn refusal(mut image: Vec<u8>, at: u64, bytes: &[u8]) -> String {
    let at = at as usize;
    image[at..at + bytes.len()].copy_from_slice(bytes);
    reseal(&mut image);
    let graph = GraphFile::from_image(image).unwrap();
    check(&graph, &mut Hooks::none()).unwrap_err().to_string()
}

#[test]
fn sections_that_overlap_are_refused() {
    for kind in 0..32 {
        let image = image(kind);
        let header = Header::decode(&image[..4096], image.len() as u64).unwrap();
        let has_bytes: Vec<_> = header.sections.iter().filter(|s| s.extent.bytes > 0).collect();
        for pair in has_bytes.windows(2) {
            let [before, own] = [&pair[0].extent, &pair[1].extent];
            let place = [own.offset.to_le_bytes(), own.bytes.to_le_bytes()].concat();
            let at = image[..4096].windows(16).position(|bytes| bytes == place).unwrap();
            let mut forged = image.clone();
            forged[at..at + 8].copy_from_slice(&before.offset.to_le_bytes());
            reseal(&mut forged);
            let e = use_all(forged).unwrap_err().to_string();
            assert!(e.contains("overlaps"), "kind {kind}, {:?}: {e}", pair[1].kind);
        }
    }
}

/// Forgeries that keep every checksum and count right, each found by its own rule.
#[test]
fn swapped_neighbours_and_missing_counterparts_are_found() {
    let image = image(0);
    let graph = GraphFile::from_image(image.clone()).unwrap();
    let list = (0..90).map(|v| graph.outgoing().locate(v)).find(|l| l.degree == 3).unwrap();
    let at = graph.outgoing().pages().offset + list.addr_bytes();
    let (a, b) = (at as usize, at as usize + 4);
    let swapped = [&image[b..b + 4], &image[a..a + 4]].concat();
    let e = refusal(image, at, &swapped);
    assert!(e.contains("not hub-first") && e.contains("Out page "), "{e}");

    let edges = EdgeList::new(5, true, vec![[0, 1], [1, 2], [2, 3], [3, 4]]);
    let options = BuildOptions { heads: 0, order: Order::Input, ..BuildOptions::default() };
    let (image, _) = build_in_memory(edges, &options, &mut Hooks::none()).unwrap();
    let graph = GraphFile::from_image(image.clone()).unwrap();
    let at = graph.outgoing().pages().offset + graph.outgoing().locate(3).addr_bytes();
    let e = refusal(image, at, &1u32.to_le_bytes());
    assert!(e.contains("no counterpart"), "{e}");
}
