//! `littoral graph import --memory`: graphs several times larger than the memory, names, full
//! disks, Ctrl-C.
//!
//! Invariant: whatever ends an import, its folder holds afterwards what it held before, or the
//! whole graph file as well.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_littoral");
const MEMORY: &str = "8MiB";
/// What an import takes beside its bound: the program's own pages and what its threads parse.
const BESIDE_BYTES: u64 = 6 << 20;

fn littoral(folder: &Path, args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).current_dir(folder).output().unwrap()
}

fn succeeds(folder: &Path, args: &[&str]) -> String {
    let output = littoral(folder, args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        names.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Writes `count` edges between `vertices` vertices, each line by `line`.
fn edges(path: &Path, count: u64, vertices: u64, line: impl Fn(u64, u64, u64) -> String) {
    let mut out = BufWriter::new(fs::File::create(path).unwrap());
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % vertices
    };
    for _ in 0..count {
        let (a, b, weight) = (next(), next(), next() % 100);
        out.write_all(line(a, b, weight).as_bytes()).unwrap();
    }
    out.flush().unwrap();
}

#[test]
fn a_graph_four_times_the_memory_is_built_checked_and_searched() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    // 16 B of pages per weighted edge.
    let list = folder.join("large.wel");
    edges(&list, 2_200_000, 100_000, |a, b, w| format!("{a} {b} {w}\n"));
    let import = ["graph", "import", "large.wel", "large.lg", "--undirected", "--memory", MEMORY];
    // Threads parse text beside the bound, so their number is given.
    let shown = ["--threads", "2", "--format", "json"];
    let output = littoral(folder, &[&import[..], &shown].concat());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    for words in ["at most 8 MiB of memory", "sorted runs", "temporary files in ."] {
        assert!(told.contains(words), "'{words}' is not in: {told}");
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |key: &str| report[key].as_u64().unwrap();
    assert!(count("file_bytes") >= 4 * count("memory_bytes"), "{report}");
    assert!(count("runs_count") > 2 && count("passes_count") >= 3, "{report}");
    assert!(count("temporary_bytes") as f64 <= 2.2 * 12.0 * 2_200_000.0, "{report}");
    let peak = count("memory_peak_bytes");
    assert!(peak <= count("memory_bytes") + BESIDE_BYTES, "{report}");
    assert_eq!(entries(folder), ["large.lg", "large.wel"]);
    succeeds(folder, &["graph", "check", "large.lg"]);
    // The edges stay in the file: io_uring, or threads where it is forbidden, and 2 MiB of pages.
    let search = ["graph", "bfs", "large.lg", "--trials", "1", "--verify", "--medium", "uring"];
    let search = [&search[..], &["--cache", "2MiB", "--format", "json"]].concat();
    let found: serde_json::Value = serde_json::from_str(&succeeds(folder, &search)).unwrap();
    assert!(found["cache_hits_count"].as_u64().unwrap() > 0, "{found}");
    assert_eq!(found["verified"], true, "{found}");
    succeeds(folder, &["graph", "import", "large.wel", "same.lg", "--undirected"]);
    let same =
        fs::read(folder.join("same.lg")).unwrap() == fs::read(folder.join("large.lg")).unwrap();
    assert!(same, "the file depends on edges and options alone");
}

#[test]
fn names_stay_within_the_memory_or_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let named = |a: u64, b: u64, _: u64| format!("vertex {a},vertex {b}\n");
    edges(&folder.join("few.csv"), 300_000, 20_000, named);
    let import = |from, to| ["graph", "import", from, to, "--no-header", "--memory", MEMORY];
    succeeds(folder, &import("few.csv", "few.lg"));
    succeeds(folder, &["graph", "import", "few.csv", "same.lg", "--no-header"]);
    let same =
        fs::read(folder.join("same.lg")).unwrap() == fs::read(folder.join("few.lg")).unwrap();
    assert!(same, "names are the same as without a bound");
    edges(&folder.join("many.csv"), 300_000, 250_000, named);
    let output = littoral(folder, &import("many.csv", "many.lg"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("the names of vertices take more than --memory 8 MiB"), "{message}");
    assert_eq!(entries(folder), ["few.csv", "few.lg", "many.csv", "same.lg"]);
}

#[test]
fn a_weighted_file_of_whole_batches_is_sorted_too() {
    let dir = tempfile::tempdir().unwrap();
    for count in [0, 1 << 14, 1 << 15] {
        let arcs: String =
            (0..count).map(|i| format!("a {} {} 3\n", 1 + i / 200, 1 + i % 200)).collect();
        fs::write(dir.path().join("in.gr"), format!("p sp 200 {count}\n{arcs}")).unwrap();
        let import = ["graph", "import", "in.gr", "out.lg", "--force"];
        let in_memory = succeeds(dir.path(), &import);
        let file = fs::read(dir.path().join("out.lg")).unwrap();
        let sorted = succeeds(dir.path(), &[&import[..], &["--memory", MEMORY]].concat());
        assert_eq!(file, fs::read(dir.path().join("out.lg")).unwrap(), "{in_memory}{sorted}");
    }
}

#[test]
fn a_full_disk_leaves_no_temporary_file() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    edges(&folder.join("in.el"), 300_000, 10_000, |a, b, _| format!("{a} {b}\n"));
    // A limit of 512 KiB per file fails the same call as a full disk.
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\"";
    let args = ["graph", "import", "in.el", "out.lg", "--memory", MEMORY];
    let mut limited = Command::new("sh");
    limited.args(["-c", script, PROGRAM]).args(args).current_dir(folder);
    let output = limited.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("cannot write a temporary file in ."), "{message}");
    assert_eq!(entries(folder), ["in.el"]);
}

#[test]
fn ctrl_c_leaves_no_temporary_file() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let fifo = folder.join("in.el");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut import = Command::new(PROGRAM)
        .args(["graph", "import", "in.el", "out.lg", "--memory", MEMORY, "--threads", "1"])
        .current_dir(folder)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut feed = BufWriter::new(fs::OpenOptions::new().write(true).open(&fifo).unwrap());
    let lines: String = (0..400_000).map(|i| format!("{} {}\n", i % 9973, i % 9967)).collect();
    feed.write_all(lines.as_bytes()).unwrap();
    feed.flush().unwrap();
    // The plan is stated when reading has begun.
    let mut told = BufReader::new(import.stderr.take().unwrap());
    let mut plan = String::new();
    told.read_line(&mut plan).unwrap();
    assert!(plan.contains("of memory"), "{plan}");
    let interrupt = Command::new("kill").args(["-INT", &import.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    // The next block lets the import see the interrupt.
    let _ = feed.write_all(lines.as_bytes()).and_then(|()| feed.flush());
    drop(feed);
    assert_eq!(import.wait().unwrap().code(), Some(130));
    assert_eq!(entries(folder), ["in.el"]);
}

#[test]
fn a_bound_that_is_too_small_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.el"), "1 2\n").unwrap();
    let args = ["graph", "import", "in.el", "out.lg", "--memory", "1MiB"];
    let output = littoral(dir.path(), &args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--memory 1 MiB: at least 8 MiB is needed"), "{message}");
}
