//! Hostile Parquet and Arrow IPC files; a panic that the reader does not catch is a finding.
//!
//! An input is either a file as it is, or patches of {place, byte} on a small valid file. What
//! imports is built, checked, and must hold as many edges as the report says.
//!
//! Canary: before the first input, each valid file must be read and each cut one refused.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_graph::answer::{Cells, Column, Table};
use littoral_graph::builder::{BuildOptions, Hooks};
use littoral_graph::check::check;
use littoral_graph::columnar;
use littoral_graph::format::file::GraphFile;
use littoral_graph::import::{Format, ImportOptions, import_in_memory};
use littoral_graph::names::{Labels, Names, TextNames};

struct Setting {
    directory: tempfile::TempDir,
    /// Valid files with their names: text and numbers as ids, in both formats.
    files: Vec<(&'static str, Vec<u8>)>,
}

static SETTING: LazyLock<Setting> = LazyLock::new(|| {
    // The reader catches panics of the decoders; the fuzzer's own hook would end the process.
    std::panic::set_hook(Box::new(|_| ()));
    let in_memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = in_memory.expect("a place for inputs");
    let mut text = TextNames::new();
    (0..60).for_each(|v| text.push(&format!("v{v}")));
    let names = [Labels::Identity, Labels::Text(text)].map(|labels| Names::new(labels, 60));
    let mut files = Vec::new();
    for names in &names {
        for (format, name) in [(Format::Parquet, "f.parquet"), (Format::Arrow, "f.arrow")] {
            files.push((name, file(format, names)));
        }
    }
    for (name, bytes) in &files {
        assert!(import_bytes(directory.path().join(name), bytes), "a valid file is read");
        let cut = &bytes[..bytes.len() / 2];
        assert!(!import_bytes(directory.path().join(name), cut), "canary: a cut went unseen");
    }
    Setting { directory, files }
});

fn file(format: Format, names: &Names) -> Vec<u8> {
    let table = Table::new(vec![
        Column { name: "source", cells: Cells::Vertices((0..60).collect()) },
        Column { name: "target", cells: Cells::Vertices((0..60).map(|v| v * 7 % 60).collect()) },
        Column { name: "weight", cells: Cells::Singles((0..60u8).map(f32::from).collect()) },
    ]);
    let mut out = Vec::new();
    columnar::write(format, &table, names, &mut out).expect("memory takes a table");
    out
}

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
    let Some((&mode, rest)) = data.split_first() else { return };
    let (name, valid) = &SETTING.files[usize::from(mode) % SETTING.files.len()];
    let mut bytes = if mode & 0x80 != 0 { rest.to_vec() } else { valid.clone() };
    if mode & 0x80 == 0 {
        for patch in rest.chunks_exact(3) {
            let place = usize::from(u16::from_le_bytes([patch[0], patch[1]]));
            let at = place % bytes.len();
            bytes[at] = patch[2];
        }
    }
    import_bytes(SETTING.directory.path().join(name), &bytes);
});
