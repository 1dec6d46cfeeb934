//! Hostile edge lists: text of every dialect, matrices, METIS and DIMACS graphs, serialized graphs;
//! any panic is a finding.
//!
//! The first byte chooses the format. What imports is built, checked, and must hold as many edges
//! as the report says.
//!
//! Canary: before the first input, a list with a negative weight must be refused and a good one
//! read.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_graph::builder::{BuildOptions, Hooks};
use littoral_graph::check::check;
use littoral_graph::format::file::GraphFile;
use littoral_graph::import::{ImportOptions, import_in_memory};

const NAMES: [&str; 10] =
    ["f.el", "f.wel", "f.txt", "f.csv", "f.tsv", "f.sg", "f.wsg", "f.mtx", "f.graph", "f.gr"];

static DIRECTORY: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let in_memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = in_memory.expect("a place for inputs");
    let try_one = |text: &[u8]| import_bytes(directory.path().join("canary.wel"), text);
    assert!(try_one(b"1 2 3.5\n2 3 0\n"), "a good list is read");
    assert!(!try_one(b"1 2 3.5\n2 3 -1\n"), "canary: a negative weight went unseen");
    directory
});

fn import_bytes(path: PathBuf, bytes: &[u8]) -> bool {
    std::fs::write(&path, bytes).expect("inputs can be written");
    let build = BuildOptions { threads: 1, ..BuildOptions::default() };
    let imported = import_in_memory(&path, &ImportOptions::default(), &build, &mut Hooks::none());
    let Ok((image, report, _)) = imported else { return false };
    let graph = GraphFile::from_image(image).expect("what was built opens");
    check(&graph, &mut Hooks::none()).expect("what was built holds");
    assert_eq!(graph.header().edges(), report.edges);
    true
}

fuzz_target!(|data: &[u8]| {
    let Some((&format, bytes)) = data.split_first() else { return };
    let name = NAMES[usize::from(format) % NAMES.len()];
    import_bytes(DIRECTORY.path().join(name), bytes);
});
