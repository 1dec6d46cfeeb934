//! Graphs as files of other formats, read back.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use std::sync::atomic::AtomicBool;

use littoral_graph::Kind;
use littoral_graph::builder::{BuildOptions, EdgeList, Existing, Hooks, build_in_memory};
use littoral_graph::export::{export, save};
use littoral_graph::format::Direction;
use littoral_graph::format::file::GraphFile;
use littoral_graph::import::{Format, ImportOptions, import_in_memory};
use littoral_graph::lists::ListReader;
use littoral_graph::names::{Labels, TextNames};

const EDGES: [[u32; 2]; 6] = [[0, 1], [1, 2], [2, 0], [2, 3], [4, 2], [1, 4]];

fn graph(directed: bool, weighted: bool, labels: Labels) -> GraphFile {
    let weights = weighted.then(|| (1u8..7).map(|w| f32::from(w) * 3.0).collect());
    let list = EdgeList { weights, labels, ..EdgeList::new(5, directed, EDGES.to_vec()) };
    let (image, _) = build_in_memory(list, &BuildOptions::default(), &mut Hooks::none()).unwrap();
    GraphFile::from_image(image).unwrap()
}

/// Every arc by names, with its weight.
fn arcs(graph: &GraphFile) -> Vec<String> {
    let (names, mut reader) = (graph.names().unwrap(), ListReader::new(graph, Direction::Out));
    let mut all = Vec::new();
    for v in 0..graph.vertices() {
        let (targets, weights) = reader.list(v).unwrap();
        for (i, &to) in targets.iter().enumerate() {
            let weight = if graph.is_weighted() { weights[i] } else { 0.0 };
            all.push(format!("{} {} {weight}", names.name(v), names.name(to)));
        }
    }
    all.sort();
    all
}

fn numbers() -> Labels {
    Labels::Numbers((1..=5).collect())
}

#[test]
fn every_format_gives_the_graph_back() {
    let folder = tempfile::tempdir().unwrap();
    for (file, directed, weighted) in [
        ("a.el", true, false),
        ("a.el", false, false),
        ("a.wel", true, true),
        ("a.csv", true, true),
        ("a.tsv", false, false),
        ("a.txt", false, false),
        ("a.mtx", true, false),
        ("a.mtx", true, true),
        ("a.mtx", false, true),
        ("a.graph", false, false),
        ("a.graph", false, true),
        ("a.gr", true, true),
        ("a.gr", false, false),
        ("a.sg", true, false),
        ("a.wsg", false, true),
    ] {
        let given = graph(directed, weighted, numbers());
        let path = folder.path().join(file);
        let format = Format::of_path(&path);
        export(&given, format, &path, Existing::Replace, &mut Hooks::none()).unwrap();
        let refused = export(&given, format, &path, Existing::Refuse, &mut Hooks::none());
        assert_eq!(refused.unwrap_err().kind(), Kind::Argument, "{file} exists");
        let says_direction = !matches!(format, Format::Mtx | Format::Metis | Format::Dimacs);
        let options = ImportOptions {
            directed: says_direction.then_some(directed),
            ..ImportOptions::default()
        };
        let build = BuildOptions::default();
        let (image, _, _) = import_in_memory(&path, &options, &build, &mut Hooks::none()).unwrap();
        let back = GraphFile::from_image(image).unwrap();
        assert_eq!(back.is_directed(), directed, "{file}");
        assert_eq!(arcs(&back), arcs(&given), "{file} {directed} {weighted}");
    }
}

#[test]
fn vertices_without_edges_are_kept_or_counted_as_left_out() {
    let folder = tempfile::tempdir().unwrap();
    // Vertex 3 has an edge that leads to it alone; vertex 5 has none.
    let given = |directed, weighted: bool| {
        let weights = weighted.then(|| vec![1.0; EDGES.len()]);
        let labels = Labels::Numbers((1..=6).collect());
        let list = EdgeList { weights, labels, ..EdgeList::new(6, directed, EDGES.to_vec()) };
        let made = build_in_memory(list, &BuildOptions::default(), &mut Hooks::none());
        GraphFile::from_image(made.unwrap().0).unwrap()
    };
    for (file, directed, weighted, left_out) in [
        ("a.csv", true, false, 1),
        ("a.csv", false, true, 1),
        ("a.tsv", true, true, 1),
        ("a.el", true, false, 1),
        ("a.wel", false, true, 1),
        ("a.txt", true, false, 1),
        ("a.mtx", true, false, 0),
        ("a.graph", false, false, 0),
        ("a.gr", true, true, 0),
    ] {
        let graph = given(directed, weighted);
        assert_eq!(graph.vertices(), 6);
        let path = folder.path().join(file);
        let format = Format::of_path(&path);
        let found = export(&graph, format, &path, Existing::Replace, &mut Hooks::none()).unwrap();
        assert_eq!(found, left_out, "{file}");
        let (options, build) = (ImportOptions::default(), BuildOptions::default());
        let (image, _, _) = import_in_memory(&path, &options, &build, &mut Hooks::none()).unwrap();
        let back = GraphFile::from_image(image).unwrap();
        assert_eq!(back.vertices() + found, graph.vertices(), "{file}");
    }
}

#[test]
fn a_graph_is_saved_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (given, path) = (graph(true, true, numbers()), folder.path().join("a.lg"));
    let mut none = Hooks::none();
    save(&given, &path, Existing::Refuse, &mut none).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), given.as_image().unwrap());
    assert_eq!(
        save(&given, &path, Existing::Refuse, &mut none).unwrap_err().kind(),
        Kind::Argument
    );
    let again = GraphFile::open(&path).unwrap();
    save(&again, &folder.path().join("b.lg"), Existing::Refuse, &mut none).unwrap();
    assert_eq!(arcs(&GraphFile::open(folder.path().join("b.lg")).unwrap()), arcs(&given));
}

#[test]
fn an_interrupted_save_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = AtomicBool::new(true);
    let mut hooks = Hooks::new(|_, _, _| {}, &interrupt);
    let given = graph(true, true, numbers());
    let error = save(&given, &folder.path().join("a.lg"), Existing::Refuse, &mut hooks);
    assert_eq!(error.unwrap_err().kind(), Kind::Interrupted);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn names_with_delimiters_and_quotes_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = TextNames::new();
    for name in ["New York", "a,b", "say \"so\"", "x\ty", "plain"] {
        text.push(name);
    }
    let given = graph(true, false, Labels::Text(text));
    for file in ["n.csv", "n.tsv"] {
        let path = folder.path().join(file);
        export(&given, Format::of_path(&path), &path, Existing::Refuse, &mut Hooks::none())
            .unwrap();
        let options = ImportOptions { header: Some(true), ..ImportOptions::default() };
        let build = BuildOptions::default();
        let (image, _, _) = import_in_memory(&path, &options, &build, &mut Hooks::none()).unwrap();
        assert_eq!(arcs(&GraphFile::from_image(image).unwrap()), arcs(&given), "{file}");
    }
}

#[test]
fn a_graph_that_a_format_cannot_hold_is_refused_with_another_format() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = TextNames::new();
    "abcde".chars().for_each(|c| text.push(&c.to_string()));
    for (file, given, words) in [
        ("r.el", graph(true, true, numbers()), ".wel"),
        ("r.wel", graph(true, false, numbers()), ".el"),
        ("r.el", graph(true, false, Labels::Text(text)), ".csv"),
        ("r.graph", graph(true, false, numbers()), ".mtx"),
        ("r.gr", graph(false, true, numbers()), ".mtx"),
        ("r.gr", graph(true, false, numbers()), ".el"),
        ("r.sg", graph(true, true, numbers()), ".wsg"),
        ("r.wsg", graph(true, false, numbers()), ".sg"),
    ] {
        let path = folder.path().join(file);
        let format = Format::of_path(&path);
        let refused = export(&given, format, &path, Existing::Refuse, &mut Hooks::none());
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), Kind::Argument);
        assert!(refused.to_string().contains(words), "{file}: {refused}");
        assert!(!path.exists(), "{file}");
    }
}
