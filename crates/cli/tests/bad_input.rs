//! Bad input: a clear error with its place, the documented exit code, nothing overwritten, never a
//! panic.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Nothing takes so long unless it hangs.
const HANG: Duration = Duration::from_secs(120);
/// The interrupt signal's bit in a mask of signals.
const INTERRUPT: u64 = 1 << (2 - 1);

fn littoral(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_littoral")).args(args).current_dir(folder).output().unwrap()
}

/// Runs and asserts the exit code and that standard error names each of `words`.
fn refused(folder: &Path, args: &[&str], code: i32, words: &[&str]) {
    let output = littoral(folder, args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{args:?}: '{word}' is not in: {message}");
    }
    assert!(!message.contains("panicked"), "{args:?}: {message}");
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_data_set_on_a_misspelt_medium_is_refused_with_the_nearest_word() {
    let folder = tempfile::tempdir().unwrap();
    let run = |set: &'static str| ["push", "run", set, "--sum", "qty"];
    refused(folder.path(), &run("unx:p"), 2, &["unx:p", "unix:"]);
    refused(folder.path(), &run("dax:p"), 2, &["dax:p", "takes ram, file:, unix:"]);
}

#[test]
fn a_scratch_folder_that_cannot_be_made_is_named_with_its_option() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"").unwrap();
    let args = ["repro", "flash", "--only", "import", "--scratch", "file/inside"];
    refused(folder.path(), &args, 3, &["--scratch", "file/inside"]);
}

#[test]
fn malformed_edge_lists_are_refused_with_their_line() {
    let cases: &[(&str, &[u8], &[&str])] = &[
        ("empty.el", b"", &["empty.el"]),
        ("comments.txt", b"# nothing\n", &["comments.txt"]),
        ("columns.el", b"0 1\n2\n", &["columns.el:2"]),
        ("negative.wel", b"0 1 2.5\n1 2 -3\n", &["negative.wel:2", "-3"]),
        ("nan.wel", b"0 1 NaN\n", &["nan.wel:1"]),
        ("fraction.el", b"0 1\n1 2.5\n", &["fraction.el:2:3", "'2.5'", "--ids text"]),
        ("unclear.csv", b"ann,bob\ncid,dan\n", &["unclear.csv:1:1", "--header or --no-header"]),
        ("several.csv", b"id,name,from,to,source\n1,x,a,b,c\n", &["--columns", "id, name, from"]),
        ("both.csv", b"1,2;3,4\n5,6;7,8\n", &["both.csv:1:1", "--delimiter"]),
        ("quote.csv", b"from,to\na,b\nc,\"d\n", &["quote.csv:3:3", "not closed"]),
        ("huge.el", b"0 1\n0 99999999999999999999999\n", &["huge.el:2"]),
        ("binary.el", b"0 1\n\x00\xff\xfe 3\n", &["binary.el:2"]),
        ("cut.el.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1], &["cut.el.gz"]),
        ("cut.tsv.zst", &[0x28, 0xb5, 0x2f, 0xfd, 4], &["cut.tsv.zst"]),
        ("short.sg", b"\x00\x01", &["short.sg"]),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes, words) in cases {
        fs::write(dir.path().join(name), bytes).unwrap();
        refused(dir.path(), &["graph", "import", name, "out.lg"], 2, words);
    }
    assert!(!dir.path().join("out.lg").exists(), "a refused import writes nothing");
    assert_eq!(entries(dir.path()).len(), cases.len(), "and leaves no draft");
}

#[test]
fn betweenness_from_many_vertices_takes_no_source_and_reports_none() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("path.el"), "1 2\n2 3\n3 7\n").unwrap();
    for which in ["all", "sampled"] {
        let args = ["graph", "bc", "path.el", "--sources", which, "--format", "json"];
        refused(dir.path(), &[&args[..], &["--source", "7"]].concat(), 2, &["--source", "one"]);
        let output = littoral(dir.path(), &args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["trials"][0].get("source"), None, "{which}");
    }
    let one = ["graph", "bc", "path.el", "--source", "7", "--format", "json"];
    let value: serde_json::Value =
        serde_json::from_slice(&littoral(dir.path(), &one).stdout).unwrap();
    assert_eq!(value["trials"][0]["source"].as_u64(), Some(7));
}

#[test]
fn a_list_of_edges_says_which_vertices_it_leaves_out() {
    let dir = tempfile::tempdir().unwrap();
    let mtx = "%%MatrixMarket matrix coordinate pattern general\n6 6 2\n1 2\n3 4\n";
    fs::write(dir.path().join("in.mtx"), mtx).unwrap();
    for (output, left_out) in [("out.csv", 2), ("out.lg", 0), ("out.mtx", 0)] {
        let found = littoral(dir.path(), &["graph", "convert", "in.mtx", output, "--format=json"]);
        let said = String::from_utf8_lossy(&found.stderr);
        assert!(found.status.success(), "{said}");
        let value: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        assert_eq!(value["isolated_left_out_count"], left_out, "{output}");
        assert_eq!(said.contains("2 vertices without edges"), left_out == 2, "{said}");
    }
}

#[test]
fn awkward_but_legal_lists_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("loops.el"), "3 3\n1 2\n1 2\n2147483647 2147483648\n").unwrap();
    let output =
        littoral(dir.path(), &["graph", "import", "loops.el", "loops.lg", "--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&value["vertices_count"], &value["edges_count"]), (&5.into(), &2.into()));
    assert_eq!(value["self_loops_removed_count"], 1);
    assert_eq!(value["duplicates_removed_count"], 1);
    let hub: String = (1..=1_000_000).map(|v| format!("0 {v}\n")).collect();
    fs::write(dir.path().join("hub.el"), hub).unwrap();
    let output = littoral(dir.path(), &["graph", "import", "hub.el", "hub.lg"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_list_on_standard_input_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["graph", "import", "-", "g.lg"][..], &["graph", "cc", "-"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_littoral"))
            .args(args)
            .arg("--format=json")
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"1 2\n2 3\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&value["vertices_count"], &value["edges_count"]), (&3.into(), &2.into()));
    }
}

#[test]
fn a_list_in_a_named_pipe_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("list");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let writer = std::thread::spawn(move || fs::write(path, "1 2\n2 3\n"));
    let output = littoral(dir.path(), &["graph", "cc", "list", "--format=json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    writer.join().unwrap().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["edges_count"], 2);
}

#[test]
fn damaged_and_foreign_graph_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let made = littoral(dir.path(), &["graph", "gen", "kron", "--scale", "8", "good.lg"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let good = fs::read(dir.path().join("good.lg")).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    let mut flipped = good.clone();
    flipped[16] ^= 1;
    write("flipped.lg", &flipped);
    let mut future = good.clone();
    future[8] = 200;
    write("future.lg", &future);
    write("cut.lg", &good[..good.len() / 2]);
    write("foreign.lg", b"This is a letter, not a graph.");
    for (name, code) in [("flipped.lg", 4), ("cut.lg", 4), ("foreign.lg", 4), ("future.lg", 5)] {
        refused(dir.path(), &["graph", "info", name], code, &[name]);
    }
    let mut late = good.clone();
    let middle = late.len() / 2;
    late[middle] ^= 0x10;
    write("late.lg", &late);
    refused(dir.path(), &["graph", "check", "late.lg"], 4, &["late.lg"]);
    assert!(littoral(dir.path(), &["graph", "check", "good.lg"]).status.success());
    refused(dir.path(), &["graph", "info", "absent.lg"], 3, &["absent.lg"]);
}

#[test]
fn foreign_damaged_and_later_pools_are_refused_and_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let made = littoral(dir.path(), &["heap", "create", "good.pool", "--size", "1MiB"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let good = fs::read(dir.path().join("good.pool")).unwrap();
    let spoiled = |at: usize, xor: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= xor;
        bytes
    };
    let cases: [(&str, Vec<u8>, i32, &str); 6] = [
        ("letter.pool", b"This is a letter, not a pool.".to_vec(), 4, "letter.pool"),
        ("foreign.pool", vec![0x5a; 4096], 4, "another program's file"),
        ("cut.pool", good[..good.len() / 2].to_vec(), 4, "its file 524288"),
        ("later.pool", spoiled(8, 200), 5, "pool format"),
        ("flipped.pool", spoiled(17, 1), 4, "checksum"),
        ("slab.pool", spoiled(256 + 64 * 256, 1), 4, "slab table entry 0"),
    ];
    for (name, bytes, code, word) in &cases {
        fs::write(dir.path().join(name), bytes).unwrap();
        for verb in ["info", "check", "dump"] {
            refused(dir.path(), &["heap", verb, name], *code, &[name, word]);
        }
        assert_eq!(&fs::read(dir.path().join(name)).unwrap(), bytes, "{name}: nothing changed");
    }
    fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
    refused(dir.path(), &["heap", "create", "thesis.txt", "--size", "1MiB"], 2, &["exists"]);
    assert_eq!(fs::read(dir.path().join("thesis.txt")).unwrap(), b"years of work");
}

#[test]
fn a_pool_with_a_damaged_name_is_refused_by_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let memory = littoral::device::pmem::AnyDomain::create(&path, 1 << 20).unwrap();
    let pool = littoral::heap::create(memory, &littoral::heap::Options::default()).unwrap();
    let made = pool.thread().unwrap().atomically(|tx| {
        let list = littoral::heap::structures::SortedList::create(tx)?;
        tx.set_root("counts", list.at())
    });
    made.unwrap();
    drop(pool);
    let mut bytes = fs::read(&path).unwrap();
    let name = bytes.windows(8).position(|eight| eight == b"counts\0\0").unwrap();
    bytes[name] ^= 1;
    fs::write(&path, &bytes).unwrap();
    for verb in ["info", "check", "dump"] {
        refused(dir.path(), &["heap", verb, "a.pool"], 4, &["a.pool: ", "root record's checksum"]);
    }
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_pool_that_may_only_be_read_is_looked_at_and_says_what_it_cannot_promise() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let made = littoral(dir.path(), &["heap", "create", "a.pool", "--size", "1MiB"]);
    assert!(made.status.success());
    let path = dir.path().join("a.pool");
    let before = fs::read(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let shown = littoral(dir.path(), &["heap", "info", "a.pool", "--format", "json"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let value: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&value["pool_bytes"], &value["threads_max"]), (&(1 << 20).into(), &64.into()));
    // Root may write any file; another user is told.
    let told = value["promise"].as_str().unwrap();
    let may_write = fs::OpenOptions::new().write(true).open(&path).is_ok();
    assert_eq!(told.contains("open for reading and writing"), !may_write, "{told}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_pool_that_a_process_has_open_shows_its_parts_and_nothing_that_changes() {
    let dir = tempfile::tempdir().unwrap();
    let made = littoral(dir.path(), &["heap", "create", "a.pool", "--size", "1MiB"]);
    assert!(made.status.success());
    let path = dir.path().join("a.pool");
    let before = fs::read(&path).unwrap();
    let owner = fs::File::open(&path).unwrap();
    owner.lock().unwrap();
    let shown = littoral(dir.path(), &["heap", "info", "a.pool", "--format", "json"]);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let value: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&value["in_use"], &value["roots_max"]), (&true.into(), &64.into()));
    assert!(value.get("roots").is_none() && value["types"][0].get("objects_count").is_none());
    for verb in ["check", "dump"] {
        refused(dir.path(), &["heap", verb, "a.pool"], 3, &["a.pool", "in use by another owner"]);
    }
    drop(owner);
    let shown = littoral(dir.path(), &["heap", "info", "a.pool", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(value["in_use"], false);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn nothing_that_is_no_graph_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.el"), "0 1\n").unwrap();
    fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
    refused(dir.path(), &["graph", "import", "in.el", "thesis.txt"], 2, &["thesis.txt"]);
    refused(dir.path(), &["graph", "gen", "kron", "--scale", "6", "thesis.txt"], 2, &["thesis"]);
    refused(dir.path(), &["graph", "import", "in.el", "in.el"], 2, &["in.el"]);
    let gen_lines = ["push", "gen", "thesis.txt", "--scale", "0.001"];
    refused(dir.path(), &gen_lines, 2, &["thesis.txt exists and is no data set"]);
    assert_eq!(fs::read(dir.path().join("thesis.txt")).unwrap(), b"years of work");
    assert_eq!(fs::read(dir.path().join("in.el")).unwrap(), b"0 1\n");
}

/// The request names it, and the same request never succeeds: code 2, whatever is to be made.
#[test]
fn a_name_that_is_taken_is_code_2_for_every_verb_and_what_has_it_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.el"), "0 1\n1 2\n").unwrap();
    fs::write(dir.path().join("t.csv"), "a,b\n1,2\n").unwrap();
    fs::write(dir.path().join("taken"), "years of work").unwrap();
    for made in [
        &["kv", "create", "s"][..],
        &["kv", "create", "t"],
        &["kv", "backup", "s", "saved"],
        &["graph", "import", "in.el", "g.lg"],
    ] {
        let output = littoral(dir.path(), made);
        assert!(output.status.success(), "{made:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let before = entries(dir.path());
    for args in [
        &["graph", "import", "in.el", "taken"][..],
        &["graph", "gen", "kron", "--scale", "6", "taken"],
        &["graph", "convert", "in.el", "g.lg"],
        &["graph", "degree", "g.lg", "--output-format", "csv", "--output", "taken"],
        &["machine", "new", "taken"],
        &["heap", "create", "taken", "--size", "1MiB"],
        &["kv", "create", "t"],
        &["kv", "backup", "s", "taken"],
        &["kv", "restore", "saved", "t"],
        &["kv", "repair", "s", "t"],
        &["push", "gen", "taken", "--scale", "0.001"],
        &["push", "load", "t.csv", "taken"],
        &["dsm", "run", "-n", "1", "--fabric", "sim", "--report", "taken", "true"],
        &["dsm", "run", "-n", "1", "--fabric", "pool", "--pool", "taken", "true"],
    ] {
        refused(dir.path(), args, 2, &["exists"]);
        assert_eq!(fs::read(dir.path().join("taken")).unwrap(), b"years of work", "{args:?}");
    }
    assert_eq!(entries(dir.path()), before);
    // A link to nothing is a name that is taken, too.
    std::os::unix::fs::symlink("nothing", dir.path().join("link")).unwrap();
    for args in [&["machine", "new", "link"][..], &["kv", "backup", "s", "link"]] {
        refused(dir.path(), args, 2, &["exists"]);
        assert!(dir.path().join("link").is_symlink() && !dir.path().join("nothing").exists());
    }
}

#[test]
fn existing_graph_files_and_answers_are_overwritten_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.el"), "0 1\n").unwrap();
    fs::write(dir.path().join("more.el"), "0 1\n1 2\n").unwrap();
    assert!(littoral(dir.path(), &["graph", "import", "in.el", "a.lg"]).status.success());
    let first = fs::read(dir.path().join("a.lg")).unwrap();
    for again in [&["import", "more.el", "a.lg"][..], &["gen", "kron", "--scale", "6", "a.lg"]] {
        refused(dir.path(), &[&["graph"], again].concat(), 2, &["a.lg exists", "--force"]);
        assert_eq!(fs::read(dir.path().join("a.lg")).unwrap(), first);
    }
    let forced = littoral(dir.path(), &["graph", "import", "more.el", "a.lg", "--force"]);
    assert!(forced.status.success() && fs::read(dir.path().join("a.lg")).unwrap() != first);
    let answer = ["graph", "degree", "a.lg", "--output", "d.csv"];
    assert!(littoral(dir.path(), &answer).status.success());
    let wanted = "vertex,degree,out,in\n1,2,1,1\n0,1,1,0\n2,1,0,1\n";
    assert_eq!(fs::read_to_string(dir.path().join("d.csv")).unwrap(), wanted);
    refused(dir.path(), &answer, 2, &["d.csv exists", "--force"]);
    let forced = littoral(dir.path(), &[&answer[..], &["--force"]].concat());
    assert!(forced.status.success());
    assert_eq!(entries(dir.path()), ["a.lg", "d.csv", "in.el", "more.el"]);
}

#[test]
fn an_answer_that_cannot_be_written_leaves_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let made = littoral(dir.path(), &["graph", "gen", "kron", "--scale", "12", "g.lg"]);
    assert!(made.status.success());
    let ask = |output: &[&'static str]| [&["graph", "degree", "g.lg", "--output"], output].concat();
    let full = ["/dev/full", "--output-format", "tsv"];
    refused(dir.path(), &ask(&full), 3, &["/dev/full", "No space left"]);
    refused(dir.path(), &ask(&["missing/d.csv"]), 3, &["missing/d.csv", "there is no folder"]);
    refused(dir.path(), &ask(&["."]), 2, &["folder"]);
    refused(dir.path(), &ask(&["d.xlsx"]), 2, &["d.xlsx", "--output-format"]);
    if !cfg!(feature = "arrow") {
        refused(dir.path(), &ask(&["d.parquet"]), 5, &["d.parquet", "--features arrow", "Python"]);
        let import = ["graph", "import", "g.lg", "out.lg", "--from", "parquet"];
        refused(dir.path(), &import, 5, &["g.lg is a Parquet file", "--features arrow", "CSV"]);
        let convert = ["graph", "convert", "g.lg", "out.arrow"];
        refused(dir.path(), &convert, 5, &["out.arrow", "--features arrow"]);
    }
    // Before any work: the graph is not even looked for.
    for kernel in ["bfs", "pr", "cc"] {
        let early = ["graph", kernel, "absent.lg", "--output", "missing/d.csv"];
        refused(dir.path(), &early, 3, &["missing/d.csv"]);
    }
    assert_eq!(entries(dir.path()), ["g.lg"]);
}

/// Runs with a limit of 4 KiB on the length of a file: to the program a file system without room.
fn without_room(folder: &Path, args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_littoral");
    let script = format!("trap '' XFSZ; ulimit -f 8; exec {program} \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).args(args).current_dir(folder).output().unwrap()
}

/// Commands that write a file of more than 4 KiB, and its name; over what the test makes.
const OUTPUTS: &[(&[&str], &str)] = &[
    (&["graph", "degree", "g.lg", "-o", "d.jsonl"], "d.jsonl"),
    (&["graph", "bfs", "g.lg", "--trials", "1", "--output", "b.csv"], "b.csv"),
    (&["graph", "convert", "g.lg", "c.csv"], "c.csv"),
    (&["graph", "gen", "kron", "--scale", "12", "h.lg"], "h.lg"),
    (&["graph", "import", "rows.csv", "i.lg"], "i.lg"),
    (
        &["graph", "whatif", "g.lg", "--time", "20ms", "--kernels", "cc", "--html", "w.html"],
        "w.html",
    ),
    (&["kv", "backup", "s", "s.kvbak"], "s.kvbak"),
    (&["push", "load", "rows.csv", "other.set"], "other.set"),
    (&["push", "run", "rows.set", "--columns", "from,to", "-o", "r.csv"], "r.csv"),
];

#[test]
fn a_file_system_without_room_is_code_3_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Vec<(u32, u32)> = (0..3000).map(|n| (n, n * 7 % 3000)).collect();
    let lines = rows.iter().map(|(a, b)| format!("{a},{b}\n")).collect::<String>();
    fs::write(dir.path().join("rows.csv"), format!("from,to\n{lines}")).unwrap();
    fs::write(dir.path().join("rows.tsv"), lines.replace(',', "\t")).unwrap();
    for args in [
        &["graph", "gen", "kron", "--scale", "12", "g.lg"][..],
        &["kv", "create", "s"],
        &["kv", "load", "s", "rows.tsv"],
        &["push", "load", "rows.csv", "rows.set"],
    ] {
        let made = littoral(dir.path(), args);
        assert!(made.status.success(), "{args:?}: {}", String::from_utf8_lossy(&made.stderr));
    }
    let before = entries(dir.path());
    for (args, file) in OUTPUTS {
        let limited = without_room(dir.path(), args);
        let message = String::from_utf8_lossy(&limited.stderr);
        assert_eq!(limited.status.code(), Some(3), "{args:?}: {message}");
        assert!(message.contains(file) && !message.contains("panicked"), "{args:?}: {message}");
        assert_eq!(entries(dir.path()), before, "{args:?}: neither file nor draft is left");
    }
}

#[test]
fn an_answer_into_a_closed_pipe_is_no_error_and_a_full_output_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let made = littoral(dir.path(), &["graph", "gen", "kron", "--scale", "12", "g.lg"]);
    assert!(made.status.success());
    let answer = ["graph", "pr", "g.lg", "--trials", "1", "--output", "-"];
    let start = |stdout: Stdio| {
        Command::new(env!("CARGO_BIN_EXE_littoral"))
            .args(answer)
            .current_dir(dir.path())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut closed = start(Stdio::piped());
    drop(closed.stdout.take());
    let output = closed.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = start(full.into()).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn questions_about_vertices_are_refused_with_words() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("g.csv"), "from,to\na,b\nc,d\n").unwrap();
    refused(
        dir.path(),
        &["graph", "path", "g.csv", "a", "d"],
        1,
        &["no path leads from 'a' to 'd'"],
    );
    refused(dir.path(), &["graph", "path", "g.csv", "b", "a"], 1, &["no path"]);
    refused(dir.path(), &["graph", "neighbors", "g.csv", "x"], 2, &["no vertex is called 'x'"]);
    refused(dir.path(), &["graph", "degree", "g.csv", "-1"], 2, &["no vertex is called '-1'"]);
    refused(
        dir.path(),
        &["graph", "cc", "g.csv", "--columns", "from,zu"],
        2,
        &["'zu'", "from, to"],
    );
    assert!(littoral(dir.path(), &["graph", "import", "g.csv", "g.lg"]).status.success());
    let twice = ["graph", "bfs", "g.lg", "--delimiter", "tab"];
    refused(dir.path(), &twice, 2, &["g.lg is a graph file"]);
    refused(dir.path(), &["graph", "import", "g.csv", "h.lg", "--heads", "17"], 2, &["16"]);
    refused(
        dir.path(),
        &["graph", "import", "g.csv", "h.lg", "--page", "1000"],
        2,
        &["power of two"],
    );
    fs::write(dir.path().join("g.mtx"), "%%MatrixMarket matrix coordinate\n").unwrap();
    refused(dir.path(), &["graph", "import", "g.mtx", "h.lg"], 2, &["g.mtx:1:", "Matrix Market"]);
}

#[test]
fn wrong_requests_are_usage_errors() {
    let dir = tempfile::tempdir().unwrap();
    refused(dir.path(), &["graph", "gen", "kron", "--scale", "31", "x.lg"], 2, &["31"]);
    refused(dir.path(), &["graph", "gen", "ring", "--scale", "4", "x.lg"], 2, &["kron"]);
    refused(dir.path(), &["graph", "import", "absent.el", "x.lg"], 3, &["absent.el"]);
    refused(dir.path(), &["sail"], 2, &["sail"]);
    refused(dir.path(), &["bench", "ring", "--array", "3GiB"], 2, &["power of two"]);
    for option in ["--threads", "--trials"] {
        let many = ["graph", "bfs", "g.lg", option, "10000000000"];
        refused(dir.path(), &many, 2, &[option, "10000000000"]);
    }
    assert!(entries(dir.path()).is_empty());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_littoral"))
        .args(["completions", "bash"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

fn catches_interrupts(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & INTERRUPT != 0)
}

fn interrupt(process: u32) {
    let sent = Command::new("kill").args(["-INT", &process.to_string()]).status().unwrap();
    assert!(sent.success());
}

fn begun(process: u32) {
    let begun = Instant::now();
    while !catches_interrupts(process) {
        assert!(begun.elapsed() < HANG, "the program never comes to catch interrupts");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A program that reads `line` again and again until it is interrupted; its exit code.
fn interrupted_while_reading(
    folder: &Path,
    args: &[&str],
    line: fn(u64) -> String,
    is_under_way: impl Fn() -> bool,
) -> Option<i32> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_littoral"))
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let mut blocks = 0..;
        let block = |n: u64| (n * 4096..(n + 1) * 4096).map(line).collect::<String>();
        // The pipe breaks when the program ends.
        while input.write_all(block(blocks.next().unwrap()).as_bytes()).is_ok() {}
    });
    begun(child.id());
    while !is_under_way() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(child.id());
    let code = child.wait().unwrap().code();
    writer.join().unwrap();
    code
}

#[test]
fn ctrl_c_during_a_load_keeps_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    assert!(littoral(dir.path(), &["kv", "create", "s"]).status.success());
    let load = ["kv", "load", "s", "-", "--ack", "ack"];
    let line = |n: u64| format!("{:08}\t{n}\n", n.wrapping_mul(48_271) % 99_999_989);
    let acknowledged = || fs::metadata(dir.path().join("ack")).is_ok_and(|file| file.len() > 0);
    assert_eq!(interrupted_while_reading(dir.path(), &load, line, acknowledged), Some(130));
    let dump = littoral(dir.path(), &["kv", "dump", "s"]);
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let dump = String::from_utf8_lossy(&dump.stdout).into_owned();
    let held: HashSet<&str> = dump.lines().filter_map(|l| l.split('\t').next()).collect();
    let acknowledged = fs::read_to_string(dir.path().join("ack")).unwrap();
    assert!(acknowledged.lines().filter(|l| l.len() == 8).all(|key| held.contains(key)));
    let checked = littoral(dir.path(), &["kv", "check", "s"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn ctrl_c_during_an_import_leaves_neither_file_nor_draft() {
    let dir = tempfile::tempdir().unwrap();
    let import = ["graph", "import", "/dev/stdin", "out.lg", "--from", "el"];
    let line = |n: u64| format!("{} {}\n", n % 65_521, n.wrapping_mul(48_271) % 65_521);
    // Nothing shows how far an import is; wherever it is interrupted, it leaves nothing.
    let soon = || {
        std::thread::sleep(Duration::from_millis(100));
        true
    };
    assert_eq!(interrupted_while_reading(dir.path(), &import, line, soon), Some(130));
    assert_eq!(entries(dir.path()), Vec::<String>::new());
}

#[test]
fn ctrl_c_ends_with_130_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_littoral"))
        .args(["graph", "gen", "urand", "--scale", "22", "big.lg"])
        .current_dir(dir.path())
        .spawn()
        .unwrap();
    begun(child.id());
    std::thread::sleep(Duration::from_millis(200));
    interrupt(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(entries(dir.path()), Vec::<String>::new(), "neither file nor draft is left");
}
