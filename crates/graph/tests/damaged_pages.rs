//! Damaged pages: a kernel that reads whole pages refuses them, and says what it verified.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use littoral_base::clock::WallClock;
use littoral_device::profile::Profile;
use littoral_graph::Kind;
use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
use littoral_graph::format::Direction;
use littoral_graph::format::file::GraphFile;
use littoral_graph::format::header::SectionKind;
use littoral_graph::kernels::{Kernel, Options, PageRankOptions, run};
use littoral_graph::medium::{Store, Transfer};

fn image() -> Vec<u8> {
    let n = 2000u32;
    let edges = (0..n).flat_map(|v| [[v, (v + 1) % n], [v, (v * 7 + 3) % n]]).collect();
    let list = EdgeList::new(n, true, edges);
    build_in_memory(list, &BuildOptions::default(), &mut Hooks::none()).unwrap().0
}

fn stores(graph: &GraphFile) -> [Store; 2] {
    let dram = Store::in_dram(graph).unwrap();
    let flash = dram.behind(&Profile::named("xlfdd").unwrap(), Transfer::Pointer).unwrap();
    [dram, flash]
}

#[test]
fn a_page_with_one_flipped_bit_is_refused_by_name_wherever_it_is_read_whole() {
    let whole = image();
    let graph = GraphFile::from_image(whole.clone()).unwrap();
    let pages = graph.incoming().pages();
    // A neighbour's lowest bit: the word still names a vertex, so bounds checks see nothing.
    let mut damaged = whole;
    damaged[pages.offset as usize] ^= 1;
    let graph = GraphFile::from_image(damaged).unwrap();
    for (store, threads) in stores(&graph).iter().zip([1, 2]) {
        let kernel = Kernel::PageRank(PageRankOptions::default());
        let options = Options { threads, ..Options::default() };
        let error = run(&graph, store, kernel, &options, &WallClock::new()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("In Pages page 0: checksum mismatch"), "{error}");
        assert_eq!(error.place().page, Some(0), "{error}");
        assert!(error.place().path.is_some(), "{error}");
    }
}

#[test]
fn a_run_counts_the_pages_it_verified_once_per_store() {
    let graph = GraphFile::from_image(image()).unwrap();
    let pages = graph.incoming().pages().bytes / graph.layout().page_bytes() as u64;
    for store in stores(&graph) {
        let options = Options { trials: 2, ..Options::default() };
        let count = |kernel| {
            let (report, _) = run(&graph, &store, kernel, &options, &WallClock::new()).unwrap();
            report.pages_verified_count()
        };
        assert_eq!(count(Kernel::Bfs), 0, "parts of pages are not verified");
        assert_eq!(count(Kernel::PageRank(PageRankOptions::default())), pages);
        assert_eq!(count(Kernel::PageRank(PageRankOptions::default())), 0, "verified before");
    }
}

#[test]
fn an_error_in_a_file_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let whole = image();
    for (name, bytes) in [
        ("foreign.lg", b"no graph at all".to_vec()),
        ("empty.lg", Vec::new()),
        ("short.lg", whole[..whole.len() / 2].to_vec()),
        ("flipped.lg", [&whole[..20], &[whole[20] ^ 1], &whole[21..]].concat()),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = GraphFile::open(&path).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.place().path.as_ref(), Some(&path), "{error}");
    }
    let absent = GraphFile::open(dir.path().join("absent.lg")).map(|_| ()).unwrap_err();
    assert!(absent.to_string().contains("absent.lg"), "{absent}");
}

/// A section that is loaded whole: its file and its first byte are fields of the error.
#[test]
fn a_damaged_section_is_refused_with_its_file_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    let whole = image();
    let graph = GraphFile::from_image(whole.clone()).unwrap();
    let path = dir.path().join("section.lg");
    for direction in [Direction::Out, Direction::In] {
        let section = graph.header().section(SectionKind::Vertices, direction).unwrap();
        let offset = section.extent.offset;
        let mut damaged = whole.clone();
        damaged[offset as usize + 9] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let error = GraphFile::open(&path).map(|_| ()).unwrap_err();
        let at = (error.kind(), error.place().path.as_ref(), error.place().offset);
        assert_eq!(at, (Kind::Corrupt, Some(&path), Some(offset)), "{error}");
    }
}
