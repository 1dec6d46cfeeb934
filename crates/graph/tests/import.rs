//! Imports: every format against the same oracle graph, and every way an input can be wrong.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use littoral_graph::builder::{BuildOptions, EdgeList, Existing, Hooks, Order, build_file};
use littoral_graph::format::file::GraphFile;
use littoral_graph::format::{Direction, header::flag};
use littoral_graph::import::{Format, Ids, ImportOptions, SgIds, export_sg, import, read};
use littoral_graph::{Error, Kind};
use proptest::prelude::*;

fn file(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    w.write_all(bytes).unwrap();
    w.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

type Edges = BTreeSet<(String, String, u32)>;

/// The arcs of a graph by name, weights as bits.
fn arcs(graph: &GraphFile, direction: Direction) -> Edges {
    let (arcs, names) = (graph.load_arcs(direction).unwrap(), graph.names().unwrap());
    let lists = graph.lists(direction);
    let mut out = Edges::new();
    for v in 0..graph.vertices() {
        let list = lists.locate(v);
        for piece in graph.layout().pieces(list.addr, list.degree) {
            for (k, &to) in arcs.neighbours(piece).iter().enumerate() {
                let weight = arcs.weights(piece).get(k).copied().unwrap_or(0);
                out.insert((names.name(v), names.name(to), weight));
            }
        }
    }
    out
}

fn import_default(path: &Path, options: &ImportOptions) -> Result<GraphFile, Error> {
    let out = path.with_extension("lg");
    let build = BuildOptions::default();
    import(path, &out, Existing::Replace, options, &build, &mut Hooks::none())?;
    GraphFile::open(out)
}

/// What a simple directed graph of `edges` has for arcs; the lightest of equal edges stays.
fn expected(edges: &[(String, String, f32)], directed: bool) -> Edges {
    let mut lightest = std::collections::BTreeMap::new();
    let mut add = |a: &str, b: &str, w: f32| {
        let e = lightest.entry((a.to_owned(), b.to_owned())).or_insert(w);
        *e = e.min(w);
    };
    for (a, b, w) in edges.iter().filter(|(a, b, _)| a != b) {
        add(a, b, *w);
        if !directed {
            add(b, a, *w);
        }
    }
    lightest.into_iter().map(|((a, b), w)| (a, b, w.to_bits())).collect()
}

fn named_edges(text: bool) -> impl Strategy<Value = Vec<(String, String, f32)>> {
    let id = prop_oneof![0u64..20, (1u64 << 31) - 3..(1 << 31) + 3, u64::MAX - 3..=u64::MAX];
    let name = id.prop_map(move |i| if text { format!("p{i:x}") } else { i.to_string() });
    proptest::collection::vec((name.clone(), name, (0u8..9).prop_map(f32::from)), 1..60)
}

fn render(edges: &[(String, String, f32)], format: Format) -> String {
    let mut out = match format {
        Format::Csv => "from,to,note,weight\n".to_owned(),
        Format::Tsv => "from\tto\tweight\n".to_owned(),
        Format::Snap => "# Undirected graph: x.txt\n# FromNodeId\tToNodeId\n".to_owned(),
        _ => String::new(),
    };
    for (a, b, w) in edges {
        out += &match format {
            Format::Csv => format!("\"{a}\",{b},\"x, y\",{w}\r\n"),
            Format::Tsv => format!("{a}\t{b}\t{w}\n"),
            Format::Wel => format!("{a} {b}  {w}\n"),
            _ => format!("{a}\t{b}\n\n"),
        };
    }
    out
}

proptest! {
    #![proptest_config(littoral_testing::cases(60))]

    #[test]
    fn every_text_format_yields_the_same_graph(
        edges in prop_oneof![named_edges(false), named_edges(true)], packing in 0u8..3,
    ) {
        let dir = tempfile::tempdir().unwrap();
        for (format, name) in [
            (Format::El, "g.el"), (Format::Wel, "g.wel"), (Format::Snap, "g.txt"),
            (Format::Csv, "g.csv"), (Format::Tsv, "g.tsv"),
        ] {
            let text = render(&edges, format).into_bytes();
            let path = match packing {
                0 => file(dir.path(), name, text),
                1 => file(dir.path(), &format!("{name}.gz"), gzip(&text)),
                _ => file(dir.path(), &format!("{name}.zst"), zstd(&text)),
            };
            let graph = import_default(&path, &ImportOptions::default()).unwrap();
            let weighted = matches!(format, Format::Wel | Format::Csv | Format::Tsv);
            prop_assert_eq!(graph.header().has(flag::WEIGHTED), weighted);
            let directed = format != Format::Snap;
            prop_assert_eq!(graph.is_directed(), directed);
            let plain: Vec<_> = edges.iter()
                .map(|(a, b, w)| (a.clone(), b.clone(), if weighted { *w } else { 0.0 })).collect();
            let want = expected(&plain, directed);
            prop_assert_eq!(arcs(&graph, Direction::Out), want.clone());
            if directed {
                let turned: Edges = want.into_iter().map(|(a, b, w)| (b, a, w)).collect();
                prop_assert_eq!(arcs(&graph, Direction::In), turned);
            }
        }
    }

    #[test]
    fn gap_files_go_out_and_come_back(
        n in 1u32..40, directed: bool, weighted: bool, order: bool,
        list in proptest::collection::vec((0u32..40, 0u32..40, 0u16..999), 0..200),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let edges = EdgeList {
            weights: weighted.then(|| list.iter().map(|e| f32::from(e.2)).collect()),
            ..EdgeList::new(n, directed, list.iter().map(|e| [e.0 % n, e.1 % n]).collect())
        };
        let order = if order { Order::Degree } else { Order::Input };
        let options = BuildOptions { order, ..BuildOptions::default() };
        let lg = dir.path().join("a.lg");
        build_file(edges, &options, &lg, Existing::Replace, &mut Hooks::none()).unwrap();
        let graph = GraphFile::open(&lg).unwrap();
        let name = if weighted { "b.wsg" } else { "b.sg" };
        let sg = dir.path().join(name);
        export_sg(&graph, SgIds::Original, &sg, &mut Hooks::none()).unwrap();
        let back = import_default(&sg, &ImportOptions::default()).unwrap();
        prop_assert_eq!(back.vertices(), n);
        for &direction in graph.header().directions() {
            prop_assert_eq!(arcs(&back, direction), arcs(&graph, direction));
        }
        let taken = export_sg(&graph, SgIds::Original, &sg, &mut Hooks::none()).unwrap_err();
        prop_assert_eq!(taken.kind(), Kind::Argument);
    }
}

#[test]
fn a_serialized_graph_has_the_bytes_the_suite_reads() {
    let dir = tempfile::tempdir().unwrap();
    let lg = dir.path().join("a.lg");
    let edges = EdgeList::new(3, false, vec![[2, 0], [0, 1]]);
    build_file(edges, &BuildOptions::default(), &lg, Existing::Refuse, &mut Hooks::none()).unwrap();
    let sg = dir.path().join("a.sg");
    let graph = GraphFile::open(&lg).unwrap();
    export_sg(&graph, SgIds::Original, &sg, &mut Hooks::none()).unwrap();
    let mut want = vec![0u8];
    [4i64, 3, 0, 2, 3, 4].iter().for_each(|x| want.extend(x.to_le_bytes()));
    [1i32, 2, 0, 0].iter().for_each(|x| want.extend(x.to_le_bytes()));
    assert_eq!(std::fs::read(sg).unwrap(), want);
}

#[test]
fn wrong_inputs_are_refused_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty.el", b"", "empty.el:1:1: the graph is empty"),
        ("comments.txt", b"# nothing\n\n", "the graph is empty"),
        ("header.csv", b"source,target\n", "the graph is empty"),
        ("negative.el", b"1 2\n-1 2\n", "negative.el:2:1: '-1' cannot be an id"),
        ("huge.el", b"1 2\n18446744073709551616 2\n", "huge.el:2:1: '18446744073709551616'"),
        ("fraction.el", b"1 2\n1.5 2\n", "fraction.el:2:1: '1.5'"),
        ("one.el", b"1 2\n3\n", "one.el:2:2: 1 column where 2"),
        ("three.el", b"1 2\n3 4 5\n", "three.el:2:5: 3 columns where 2"),
        ("two.wel", b"1 2 3\n3 4\n", "two.wel:2:4: 2 columns where 3"),
        ("short.csv", b"a,b,weight\n1,2,3\n1,2\n", "short.csv:3:4: 2 columns where 3"),
        ("minus.wel", b"1 2 3\n2 3 -0.5\n", "minus.wel:2:5: weight '-0.5'"),
        ("nan.wel", b"1 2 nan\n", "nan.wel:1:5: weight 'nan'"),
        ("inf.wel", b"1 2 3\n\n1 2 inf\n", "inf.wel:3:5: weight 'inf'"),
        ("word.wel", b"1 2 heavy\n", "word.wel:1:5: weight 'heavy'"),
        ("hole.csv", b"source,target\nx,\n", "hole.csv:2:3: an empty id"),
        ("quote.csv", b"a,b\n\"x,y\n", "quote.csv:2:1: a quote that opens here is not closed"),
        ("latin.el", b"caf\xe9 b\n", "latin.el:1:4: not UTF-8"),
        ("packed.el", b"BZh91AY&SY", "bzip2"),
        ("g.lg", b"LITGRAPH", "a littoral graph already"),
        ("tiny.sg", b"\0\0", "shorter than a serialized graph's header"),
        ("foreign.sg", b"%PDF-1.7 and so on and on", "neither 0 nor 1"),
    ];
    for (name, bytes, wanted) in cases {
        let path = file(dir.path(), name, bytes);
        let out = dir.path().join("out.lg");
        let options = (ImportOptions::default(), BuildOptions::default());
        let e = import(&path, &out, Existing::Refuse, &options.0, &options.1, &mut Hooks::none())
            .unwrap_err();
        assert!(e.to_string().contains(wanted), "{name}: {e}");
        assert!(
            e.class().exit_code() == 2 || e.kind() == Kind::Unsupported,
            "{name}: {:?}",
            e.kind()
        );
        assert!(!out.exists() && std::fs::read(&path).unwrap() == *bytes);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), cases.len(), "nothing left behind");
}

#[test]
fn a_first_record_that_does_not_end_is_refused_with_and_without_a_header() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "long.csv", format!("# note\n{},b\n1,2\n", "a".repeat(2 << 20)));
    for header in [None, Some(true)] {
        let options = ImportOptions { header, ..ImportOptions::default() };
        let e = read(&path, &options, &mut Hooks::none()).unwrap_err();
        let wanted = "long.csv:2:1: no record ends in the first 1048576 bytes";
        assert!(e.kind() == Kind::Input && e.to_string().contains(wanted), "{header:?}: {e}");
    }
}

#[test]
fn compression_is_told_by_the_first_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let text = "1 2\n2 3\n";
    let plain = import_default(&file(dir.path(), "a.el", text), &ImportOptions::default()).unwrap();
    for (name, bytes) in [
        ("b.el", gzip(text.as_bytes())),
        ("c.el", zstd(text.as_bytes())),
        ("d.el.gz", zstd(text.as_bytes())),
        ("e.el.zst", text.as_bytes().to_vec()),
    ] {
        let path = file(dir.path(), name, bytes);
        let graph = import_default(&path, &ImportOptions::default()).unwrap();
        assert_eq!(arcs(&graph, Direction::Out), arcs(&plain, Direction::Out), "{name}");
    }
}

#[test]
fn truncated_gzip_and_zstd_are_refused_with_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let text: String =
        (0..20_000u32).map(|i| format!("{} {}\n", i, i.wrapping_mul(2_654_435_761))).collect();
    for (name, whole) in [("t.el.gz", gzip(text.as_bytes())), ("t.el.zst", zstd(text.as_bytes()))] {
        for cut in [whole.len() / 2, whole.len() - 3] {
            let path = file(dir.path(), name, &whole[..cut]);
            let e = read(&path, &ImportOptions::default(), &mut Hooks::none()).unwrap_err();
            assert_eq!(e.kind(), Kind::Input, "{e}");
            assert!(e.to_string().contains("truncated or damaged"), "{e}");
        }
    }
}

#[test]
fn forged_serialized_graphs_are_refused_before_memory_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let sg = |directed: u8, words: &[i64], list: &[i32]| {
        let mut bytes = vec![directed];
        words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
        list.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
        bytes
    };
    let cases = [
        (sg(0, &[i64::MAX, 2, 0, 0, 0], &[]), "truncated, or of the other kind"),
        (sg(0, &[2, i64::MAX, 0], &[]), "vertices; a graph has"),
        (sg(0, &[2, 2, 0, 2, 1], &[1, 0]), "offsets descend"),
        (sg(0, &[2, 2, 0, 1, 2], &[1, 7]), "list of vertex 1: neighbour 7"),
        (sg(0, &[2, 2, 0, 1, 2], &[1, -1]), "list of vertex 1: neighbour -1"),
        (sg(0, &[1, 2, 0, 1, 1], &[1]), "both arcs"),
    ];
    for (bytes, wanted) in cases {
        let path = file(dir.path(), "x.sg", bytes);
        let e = read(&path, &ImportOptions::default(), &mut Hooks::none()).unwrap_err();
        assert!(e.kind() == Kind::Input && e.to_string().contains(wanted), "{wanted}: {e}");
    }
    let mut negative = sg(0, &[1, 1, 0, 1], &[]);
    [0i32, -4].iter().for_each(|w| negative.extend(w.to_le_bytes()));
    let path = file(dir.path(), "x.wsg", negative);
    let e = read(&path, &ImportOptions::default(), &mut Hooks::none()).unwrap_err();
    assert!(e.to_string().contains("weight -4 is negative"), "{e}");
}

/// The bytes of a serialized graph: counts and offsets, then the lists.
fn serialized(directed: u8, words: &[i64], list: &[i32]) -> Vec<u8> {
    let mut bytes = vec![directed];
    words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    list.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    bytes
}

#[test]
fn options_that_a_serialized_graph_contradicts_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "x.sg", serialized(0, &[2, 2, 0, 1, 2], &[1, 0]));
    let given = ImportOptions::default;
    let names = Some(vec!["1".to_owned(), "2".to_owned()]);
    for (options, words) in [
        (ImportOptions { directed: Some(true), ..given() }, "--directed: the file says"),
        (ImportOptions { ids: Some(Ids::Text), ..given() }, "go with tables"),
        (ImportOptions { columns: names, ..given() }, "go with tables"),
        (ImportOptions { header: Some(true), ..given() }, "go with tables"),
    ] {
        let e = read(&path, &options, &mut Hooks::none()).unwrap_err();
        assert!(e.kind() == Kind::Argument && e.to_string().contains(words), "{words}: {e}");
    }
    let directed = file(dir.path(), "d.sg", serialized(1, &[1, 2, 0, 1, 1], &[1]));
    let both: Vec<u8> = [0i64, 0, 1].iter().flat_map(|w| w.to_le_bytes()).chain([0; 4]).collect();
    std::fs::write(&directed, [std::fs::read(&directed).unwrap(), both].concat()).unwrap();
    let options = ImportOptions { directed: Some(false), ..given() };
    let (edges, _) = read(&directed, &options, &mut Hooks::none()).unwrap();
    assert_eq!((edges.directed, edges.edges), (false, vec![[0, 1]]));
}

#[test]
fn an_undirected_serialized_graph_names_each_edge_from_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    for (name, words, list) in [
        // Arcs 0 to 1 and 3 to 2: as many ascend as descend.
        ("a.sg", &[2, 4, 0, 1, 1, 1, 2][..], &[1, 2][..]),
        ("b.wsg", &[2, 2, 0, 1, 2], &[1, 5, 0, 7]),
    ] {
        let path = file(dir.path(), name, serialized(0, words, list));
        let e = read(&path, &ImportOptions::default(), &mut Hooks::none()).unwrap_err();
        assert!(e.kind() == Kind::Input && e.to_string().contains("both arcs"), "{name}: {e}");
    }
    let same = file(dir.path(), "c.wsg", serialized(0, &[2, 2, 0, 1, 2], &[1, 5, 0, 5]));
    assert!(read(&same, &ImportOptions::default(), &mut Hooks::none()).is_ok());
}

#[test]
fn text_ids_may_be_digits_once_declared() {
    let dir = tempfile::tempdir().unwrap();
    let body = "package\tdepends_on\n2048\tlibc6\nlibc6\t7\n";
    let declared = file(dir.path(), "d.tsv", format!("# ids: text\n{body}"));
    let plain = file(dir.path(), "p.tsv", body);
    let forced = ImportOptions { ids: Some(Ids::Text), ..ImportOptions::default() };
    let found_out = ImportOptions::default();
    for (path, options) in [(&declared, &found_out), (&plain, &forced), (&plain, &found_out)] {
        let graph = import_default(path, options).unwrap();
        let names = graph.names().unwrap();
        assert_eq!(
            (graph.vertices(), names.name(names.find("2048").unwrap())),
            (3, "2048".to_owned())
        );
    }
}

/// Several blocks' worth of quoted records with line breaks, numbers first and names late.
fn many_blocks() -> Vec<u8> {
    let mut text = String::from("note,source,target,weight\n");
    for i in 0..90_000u64 {
        let (a, b) = (i * 7919 % 4096, i * 104_729 % 5003);
        let name = if i == 50_000 { "late".to_owned() } else { b.to_string() };
        text +=
            &format!("\"line one\nline \"\"two\"\" of {i}, end\",{a},\"{name}\",{}\r\n", i % 10);
    }
    text.into_bytes()
}

#[test]
fn any_number_of_threads_reads_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let text = many_blocks();
    assert!(text.len() > 3 << 20, "several blocks");
    let path = file(dir.path(), "many.csv.gz", gzip(&text));
    let with = |threads| {
        let options = ImportOptions { threads: Some(threads), ..ImportOptions::default() };
        let (edges, source) = read(&path, &options, &mut Hooks::none()).unwrap();
        (edges.edges, edges.weights.unwrap(), edges.labels, source)
    };
    let alone = with(1);
    assert_eq!((alone.3.lines, alone.3.ids), (180_001, Ids::Text));
    assert!(alone.3.columns == ["source", "target", "weight"] && alone.0.len() == 90_000);
    for threads in [2, 5] {
        assert!(with(threads) == alone, "{threads} threads");
    }
}

#[test]
fn any_number_of_threads_finds_the_same_first_fault() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    (0..700_000).for_each(|i| text += &format!("{i} {}\n", i + 1));
    let broken =
        text.replace("\n300000 300001\n", "\n300000 -4\n").replace("\n600000 ", "\n600000,");
    let path = file(dir.path(), "broken.el", broken);
    for threads in [1, 2, 5] {
        let options = ImportOptions { threads: Some(threads), ..ImportOptions::default() };
        let e = read(&path, &options, &mut Hooks::none()).unwrap_err();
        let wanted = "broken.el:600001:14: 1 column where 2 were expected";
        assert!(e.to_string().contains(wanted), "{threads}: {e}");
    }
    let odd = text.replace("\n300000 300001\n", "\n300000 -4\n");
    let path = file(dir.path(), "odd.el", odd);
    for threads in [1, 3] {
        let options = ImportOptions { threads: Some(threads), ..ImportOptions::default() };
        let e = read(&path, &options, &mut Hooks::none()).unwrap_err();
        assert!(e.to_string().contains("odd.el:300001:8: '-4'"), "{threads}: {e}");
    }
}

proptest! {
    #![proptest_config(littoral_testing::cases(200))]

    /// What a well-kept CSV writer writes is read back, whatever the names hold.
    #[test]
    fn csv_of_another_writer_is_read_back(
        names in proptest::collection::vec(("[a1, ;\"\n\r\t#]{1,6}", "[a1, ;\"\n\r\t#]{1,6}"), 1..20),
        tabs: bool, crlf: bool,
    ) {
        let delimiter = if tabs { b'\t' } else { b',' };
        let end = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let mut writer = csv::WriterBuilder::new()
            .delimiter(delimiter)
            .terminator(end)
            .quote_style(csv::QuoteStyle::Always)
            .from_writer(Vec::new());
        writer.write_record(["source", "target"]).unwrap();
        names.iter().for_each(|(a, b)| writer.write_record([a, b]).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let name = if tabs { "g.tsv" } else { "g.csv" };
        let path = file(dir.path(), name, writer.into_inner().unwrap());
        let options = ImportOptions { ids: Some(Ids::Text), ..ImportOptions::default() };
        let (edges, _) = read(&path, &options, &mut Hooks::none()).unwrap();
        let table = littoral_graph::names::Names::new(edges.labels, edges.vertices);
        let found: Vec<_> =
            edges.edges.iter().map(|e| (table.name(e[0]), table.name(e[1]))).collect();
        prop_assert_eq!(found, names);
    }
}

#[test]
fn loops_duplicates_and_a_vertex_with_a_million_neighbours() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::from("0 0\n0 1\n0 1\n");
    (1..=1_000_000u32).for_each(|i| text += &format!("0 {i}\n"));
    let path = file(dir.path(), "star.el.zst", zstd(text.as_bytes()));
    let graph =
        import_default(&path, &ImportOptions { directed: Some(false), ..Default::default() })
            .unwrap();
    let header = graph.header();
    assert_eq!((header.loops_removed, header.duplicates_removed), (1, 2));
    assert_eq!((header.edges(), graph.outgoing().degree(0)), (1_000_000, 1_000_000));
    assert_eq!(arcs(&graph, Direction::Out).len(), 2_000_000);
}

#[test]
fn existing_files_are_replaced_only_on_request_and_interrupts_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let input = file(dir.path(), "g.el", "1 2\n2 3\n");
    let letters = file(dir.path(), "letters.txt", "dear sir");
    let import_with = |out: &Path, existing: Existing, hooks: &mut Hooks<'_>| {
        import(&input, out, existing, &ImportOptions::default(), &BuildOptions::default(), hooks)
    };
    let none = &mut Hooks::none();
    assert_eq!(import_with(&letters, Existing::Refuse, none).unwrap_err().kind(), Kind::Argument);
    for existing in [Existing::Refuse, Existing::Replace] {
        assert_eq!(import_with(&input, existing, none).unwrap_err().kind(), Kind::Argument);
        let folder = import_with(dir.path(), existing, none).unwrap_err();
        assert_eq!(folder.kind(), Kind::Argument);
    }
    assert_eq!(std::fs::read(&letters).unwrap(), b"dear sir");
    let out = dir.path().join("g.lg");
    import_with(&out, Existing::Refuse, none).unwrap();
    let first = std::fs::read(&out).unwrap();
    let e = import_with(&out, Existing::Refuse, none).unwrap_err();
    assert!(e.to_string().contains("--force"), "{e}");
    import_with(&out, Existing::Replace, none).unwrap();
    assert!(first == std::fs::read(&out).unwrap(), "the same input makes the same file");
    let run = |out: &Path, hooks: &mut Hooks<'_>| import_with(out, Existing::Replace, hooks);

    let (seen, flag) = (std::cell::Cell::new(0u32), AtomicBool::new(false));
    run(&out, &mut Hooks::new(|_, _, _| seen.set(seen.get() + 1), &flag)).unwrap();
    let steps = seen.get();
    assert!(steps >= 5);
    for stop in 0..steps {
        let (count, flag) = (std::cell::Cell::new(0), AtomicBool::new(false));
        let mut hooks = Hooks::new(
            |_, _, _| {
                flag.store(count.get() == stop, Ordering::Relaxed);
                count.set(count.get() + 1);
            },
            &flag,
        );
        let other = dir.path().join("never.lg");
        let e = run(&other, &mut hooks).unwrap_err();
        assert_eq!((e.kind(), e.class().exit_code()), (Kind::Interrupted, 130));
        assert!(!other.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "no temporary file stays");
    }
}

#[test]
fn the_package_graph_of_the_repository_imports() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/packages.tsv.zst");
    let (edges, source) = read(&path, &ImportOptions::default(), &mut Hooks::none()).unwrap();
    assert_eq!((source.ids, edges.directed, edges.weights.is_none()), (Ids::Text, true, true));
    assert_eq!(source.header.unwrap(), ["package", "depends_on", "kind"]);
    let options = BuildOptions::default();
    let (image, _) =
        littoral_graph::builder::build_in_memory(edges, &options, &mut Hooks::none()).unwrap();
    let graph = GraphFile::from_image(image).unwrap();
    let names = graph.names().unwrap();
    assert_eq!(names.name(0), "libc6", "what most packages depend on");
    assert!(names.find("2048").is_ok() && graph.header().edges() > 100_000);
}
