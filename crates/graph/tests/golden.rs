//! Bytes that must not change: what the builder writes, and files of every version kept for ever.
//!
//! `tests/golden/tiny.lg.zst` is what today's builder writes, byte for byte; after a deliberate
//! change of format or builder, `LITTORAL_BLESS=1 cargo test -p littoral-graph --test golden`
//! writes it anew. `tests/fixtures/v1` and `v2` are never rewritten: every later build reads
//! them, or refuses them by their version.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, Order, build_in_memory};
use littoral_graph::check::check;
use littoral_graph::format::Direction;
use littoral_graph::format::file::GraphFile;
use littoral_graph::lists::ListReader;
use littoral_graph::names::{Labels, TextNames};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn unpack(name: &str) -> Vec<u8> {
    zstd::decode_all(&std::fs::read(path(name)).unwrap()[..]).unwrap()
}

/// Directed, weighted, named, with a list over three pages.
fn tiny() -> Vec<u8> {
    let mut text = TextNames::new();
    (0..300).for_each(|v| text.push(&format!("v{v}")));
    let edges: Vec<_> =
        (1..300u32).map(|v| [0, v]).chain([[5, 0], [7, 5], [7, 7], [5, 0]]).collect();
    let list = EdgeList {
        weights: Some(edges.iter().map(|e| e[1] as f32 / 4.0).collect()),
        labels: Labels::Text(text),
        ..EdgeList::new(300, true, edges)
    };
    let options =
        BuildOptions { page_bytes: 512, heads: 2, order: Order::Degree, ..Default::default() };
    build_in_memory(list, &options, &mut Hooks::none()).unwrap().0
}

#[test]
fn the_builder_writes_the_golden_bytes() {
    let (name, image) = ("golden/tiny.lg.zst", tiny());
    if std::env::var_os("LITTORAL_BLESS").is_some() {
        std::fs::write(path(name), zstd::encode_all(&image[..], 19).unwrap()).unwrap();
    }
    let golden = unpack(name);
    let differs = image.iter().zip(&golden).position(|(a, b)| a != b);
    assert_eq!((differs, image.len()), (None, golden.len()), "first differing byte, length");
    assert_eq!(&image[..16], b"LITGRAPH\x02\0\0\0\x1b\0\0\0", "magic, version, flags");
}

#[test]
fn files_of_both_versions_are_read() {
    for (version, arcs_a_piece) in [(1, 122), (2, 61)] {
        let image = unpack(&format!("fixtures/v{version}/tiny.lg.zst"));
        let graph = GraphFile::from_image(image).unwrap();
        check(&graph, &mut Hooks::none()).unwrap();
        let header = graph.header();
        assert_eq!((header.version, header.vertices, header.edges()), (version, 300, 301));
        assert_eq!((header.loops_removed, header.duplicates_removed), (1, 1));
        let names = graph.names().unwrap();
        let (hub, five) = (names.find("v0").unwrap(), names.find("v5").unwrap());
        let arcs = graph.load_arcs(Direction::Out).unwrap();
        let list = graph.outgoing().locate(hub);
        let pieces: Vec<_> = graph.layout().pieces(list.addr, list.degree).collect();
        let last = pieces.len() as u32 - 1;
        assert_eq!((list.degree, pieces[0].len), (299, arcs_a_piece));
        assert_eq!((last, pieces[last as usize].len), (299 / arcs_a_piece, 299 % arcs_a_piece));
        let first = arcs.neighbours(pieces[0])[0];
        assert_eq!(first, five, "the neighbour of highest degree comes first");
        assert_eq!(f32::from_bits(arcs.weights(pieces[0])[0]), 1.25);
        let mut reader = ListReader::new(&graph, Direction::Out);
        let (targets, weights) = reader.list(hub).unwrap();
        assert_eq!((targets.len(), weights.len()), (299, 299));
        for (&to, &weight) in targets.iter().zip(weights) {
            assert_eq!(weight, names.name(to)[1..].parse::<f32>().unwrap() / 4.0);
        }
    }
}
