//! `littoral push` as a person meets it: a device of another process, tables of dbgen, page
//! functions in files, and the exit codes of what fails.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use littoral::push::data::tbl_line;

fn littoral(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// What `littoral push` prints.
fn push(folder: &Path, arguments: &[&str]) -> String {
    let output = littoral(folder, &[&["push"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The exit code and the words of a command that fails.
fn failure(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = littoral(folder, &[&["push"], arguments].concat());
    assert!(!output.status.success(), "{arguments:?} succeeds: {}", text(&output.stdout));
    (output.status.code(), text(&output.stderr))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server process, ended with this value.
struct Served(Child);

impl Served {
    fn start(folder: &Path, set: &str, socket: &str, options: &[&str]) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
        command.current_dir(folder).args(["push", "serve", set, "--socket", socket]).args(options);
        Served::begin(command)
    }

    fn begin(mut command: Command) -> Served {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("serving "), "{line}");
        Served(child)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn write_table(folder: &Path, name: &str, rows: u64) {
    let row = |n: u64| format!("{},{}.{:02},{}\n", n, n * 7 % 90 + 1, n % 100, n % 13);
    let table = (0..rows).map(row).fold("id,price,qty\n".to_owned(), |text, row| text + &row);
    std::fs::write(folder.join(name), table).unwrap();
}

const SCAN: [&str; 6] = ["--where", "price > 60.00", "--sum", "price * qty", "--by", "qty"];

fn answer(folder: &Path, set: &str, options: &[&str]) -> String {
    push(folder, &[&["run", set], &SCAN[..], &["--output", "-"], options].concat())
}

#[test]
fn a_served_device_is_loaded_and_scanned_by_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_table(folder, "own.csv", 3_000);
    write_table(folder, "other.csv", 5_000);
    push(folder, &["load", "own.csv", "own.set"]);
    push(folder, &["load", "other.csv", "other.set"]);
    let expected = answer(folder, "own.set", &[]);
    let _served = Served::start(folder, "own.set", "device", &["--link", "100M", "--cores", "2"]);
    for policy in ["late", "host", "filter"] {
        assert_eq!(answer(folder, "unix:device", &["--policy", policy]), expected, "{policy}");
    }
    // STORE over the socket: later scans see the new data set.
    let shown = push(folder, &["load", "other.csv", "unix:device", "--format", "json"]);
    assert!(shown.contains("\"records_count\": 5000"), "{shown}");
    assert_eq!(answer(folder, "unix:device", &[]), answer(folder, "other.set", &[]));
}

#[test]
fn a_static_share_of_the_pages_goes_to_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_table(folder, "own.csv", 20_000);
    push(folder, &["load", "own.csv", "own.set", "--page", "4KiB"]);
    let expected = answer(folder, "own.set", &[]);
    for options in [
        &["--policy", "static:0.25"][..],
        &["--policy", "static:0.25", "--profile", "summarizer-board"],
    ] {
        assert_eq!(answer(folder, "own.set", options), expected);
        let json = [&["run", "own.set"], &SCAN[..], options, &["--format", "json"]].concat();
        let value: serde_json::Value = serde_json::from_str(&push(folder, &json)).unwrap();
        assert_eq!(value["policy"], "static:0.25");
        let pages = value["pages_count"].as_u64().unwrap();
        assert!(pages > 20 && value["on_device_count"].as_u64() == Some(pages / 4), "{value}");
    }
    let (code, words) = failure(folder, &["run", "own.set", "--policy", "static:2"]);
    assert_eq!(code, Some(2));
    assert!(words.contains("static:SHARE with a share from 0 to 1"), "{words}");
}

#[test]
fn lineitem_from_elsewhere_answers_the_queries() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("lineitem.tbl"), tbl_line(0.002).collect::<String>()).unwrap();
    push(folder, &["load", "lineitem.tbl", "loaded.set"]);
    push(folder, &["gen", "made.set", "--scale", "0.002"]);
    for query in ["q1", "q6", "q14"] {
        let rows = |set| push(folder, &["run", set, "--query", query, "--output", "-"]);
        assert_eq!(rows("loaded.set"), rows("made.set"), "{query}");
    }
    write_table(folder, "own.csv", 10);
    push(folder, &["load", "own.csv", "own.set"]);
    let (code, words) = failure(folder, &["run", "own.set", "--query", "q6"]);
    assert_eq!(code, Some(2));
    assert!(words.contains("is about lineitem"), "{words}");
}

#[test]
fn a_page_function_in_a_file_runs_in_place_of_the_compiled_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let function: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../push/functions/q6.elf");
    let function = function.to_str().unwrap();
    push(folder, &["gen", "made.set", "--scale", "0.002"]);
    let q6 = ["run", "made.set", "--query", "q6", "--format", "json"];
    let run = |options: &[&str]| -> serde_json::Value {
        serde_json::from_str(&push(folder, &[&q6[..], options].concat())).unwrap()
    };
    let expected = run(&["--policy", "host"]);
    let own = run(&["--function", function]);
    assert_eq!((&own["rows"], &own["raw_count"]), (&expected["rows"], &0.into()));
    assert_eq!(own["on_device_count"], own["pages_count"]);
    let profile = ["--profile", "summarizer-board", "--policy", "device"];
    let modelled = run(&[&profile[..], &["--function", function]].concat());
    assert_eq!(modelled["rows"], expected["rows"]);
    assert_ne!(modelled["time_ns"], run(&profile)["time_ns"], "its own instructions are charged");
    // A file that is no function: the pages are fetched, and the answer says why.
    std::fs::write(folder.join("no.elf"), "#!/bin/sh\n").unwrap();
    let fetched = run(&["--function", "no.elf"]);
    assert_eq!((&fetched["rows"], &fetched["on_device_count"]), (&expected["rows"], &0.into()));
    assert!(fetched["fetched_because"].as_str().unwrap().contains("INIT"), "{fetched}");
    let missing = ["run", "made.set", "--query", "q6", "--function", "absent.elf"];
    let (code, words) = failure(folder, &missing);
    assert_eq!(code, Some(3));
    assert!(words.contains("absent.elf"), "{words}");
}

#[test]
fn what_fails_ends_with_its_code_and_names_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_table(folder, "own.csv", 20_000);
    push(folder, &["load", "own.csv", "own.set"]);
    // A damaged page.
    let path = folder.join("own.set");
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    let at = damaged.len() - 16_000;
    damaged[at] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let (code, words) = failure(folder, &[&["run", "own.set"], &SCAN[..]].concat());
    assert_eq!(code, Some(4), "{words}");
    assert!(words.contains("page ") && words.contains("cannot be read"), "{words}");
    // A damaged head.
    damaged.clone_from(&whole);
    damaged[20] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let (code, words) = failure(folder, &["run", "own.set", "--sum", "qty"]);
    assert_eq!(code, Some(4), "{words}");
    assert!(words.contains("own.set"), "{words}");
    // A record larger than a page: the old data set stays.
    std::fs::write(&path, &whole).unwrap();
    let expected = answer(folder, "own.set", &[]);
    // So many different words are stored as text.
    let notes = (0..5_000).map(|n| format!("{n},note {n}\n")).collect::<String>();
    let large = format!("id,note\n{notes}9,{}\n", "x".repeat(70_000));
    std::fs::write(folder.join("large.csv"), large).unwrap();
    let (code, words) =
        failure(folder, &["load", "large.csv", "own.set", "--page", "64KiB", "--pages", "text"]);
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("large.csv"), "{words}");
    assert_eq!(answer(folder, "own.set", &[]), expected);
    // A lease within which no host is heard, and a socket where something else is.
    for (socket, lease, wanted) in [("device", "0s", "--lease"), ("own.csv", "60s", "no socket")] {
        let options = ["serve", "own.set", "--socket", socket, "--lease", lease];
        let (code, words) = failure(folder, &options);
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains(wanted), "{words}");
    }
    assert!(folder.join("own.csv").exists(), "what is no socket stays");
    // What a served device decides itself.
    for options in [&["--policy", "device"][..], &["--profile", "summarizer-board"]] {
        let options = [&["run", "unix:nothing", "--sum", "qty"][..], options].concat();
        let (code, words) = failure(folder, &options);
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains("a served device"), "{words}");
    }
    // No device.
    let (code, words) = failure(folder, &["run", "unix:nothing", "--sum", "qty"]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("push serve"), "{words}");
    // No data set under this name.
    let (code, words) = failure(folder, &["run", "onw.set", "--sum", "qty"]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("onw.set"), "{words}");
}

/// Sends a signal, such as `-INT`.
fn send(signal: &str, to: &Child) {
    let sent = Command::new("kill").args([signal, &to.id().to_string()]).status().unwrap();
    assert!(sent.success(), "{signal}");
}

#[test]
fn a_server_ends_in_good_order_by_either_signal() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_table(folder, "own.csv", 3_000);
    push(folder, &["load", "own.csv", "own.set"]);
    let expected = answer(folder, "own.set", &[]);
    let socket = folder.join("device");
    for signal in ["-INT", "-TERM"] {
        let mut served = Served::start(folder, "own.set", "device", &[]);
        assert_eq!(answer(folder, "unix:device", &[]), expected);
        send(signal, &served.0);
        assert_eq!(served.0.wait().unwrap().code(), Some(0), "{signal}");
        assert!(!socket.exists(), "{signal} leaves a socket");
    }
    // A process that was started with the signal ignored goes on.
    let program = env!("CARGO_BIN_EXE_littoral");
    let words = format!("trap '' TERM; exec '{program}' push serve own.set --socket device");
    let mut command = Command::new("sh");
    command.current_dir(folder).args(["-c", &words]);
    let mut served = Served::begin(command);
    send("-TERM", &served.0);
    assert_eq!(answer(folder, "unix:device", &[]), expected);
    send("-INT", &served.0);
    assert_eq!(served.0.wait().unwrap().code(), Some(0));
}

#[test]
fn the_socket_of_a_killed_server_is_replaced_and_that_of_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_table(folder, "own.csv", 3_000);
    push(folder, &["load", "own.csv", "own.set"]);
    drop(Served::start(folder, "own.set", "device", &[]));
    assert!(folder.join("device").exists(), "a killed server removes nothing");
    let _served = Served::start(folder, "own.set", "device", &[]);
    let (code, words) = failure(folder, &["serve", "own.set", "--socket", "device"]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("device: another server listens here"), "{words}");
    assert_eq!(answer(folder, "unix:device", &[]), answer(folder, "own.set", &[]));
}

#[test]
fn a_table_in_a_pipe_is_refused_before_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = Command::new("mkfifo").arg(folder.join("pipe.csv")).status().unwrap();
    assert!(made.success());
    // Without a writer, opening it would wait.
    for arguments in [&["load", "pipe.csv", "own.set"][..], &["whatif", "pipe.csv"]] {
        let (code, words) = failure(folder, arguments);
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains("pipe.csv: a table is read more than once"), "{words}");
    }
    assert!(!folder.join("own.set").exists());
}

#[test]
fn a_scale_without_suppliers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = push(folder, &["gen", "li.set", "--scale", "0.0001", "--format", "json"]);
    for scale in ["0.00005", "0.0000001", "0", "-1", "101", "nan", "inf"] {
        let (code, words) = failure(folder, &["gen", "li.set", &format!("--scale={scale}")]);
        assert_eq!(code, Some(2), "{scale}: {words}");
        assert!(words.contains("in 0.0001 to 100"), "{scale}: {words}");
    }
    let found = push(folder, &["run", "li.set", "--format", "json"]);
    let [made, found]: [serde_json::Value; 2] =
        [made, found].map(|text| serde_json::from_str(&text).unwrap());
    assert_eq!(found["rows"][0][0], made["records_count"].to_string(), "the old data set stays");
}

#[test]
fn a_reader_of_the_answer_that_goes_is_no_error_and_a_full_device_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_table(folder, "own.csv", 20_000);
    push(folder, &["load", "own.csv", "own.set"]);
    for format in ["csv", "tsv", "jsonl"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
        command.current_dir(folder).args(["push", "run", "own.set", "--columns", "id,qty"]);
        command.args(["--output", "-", "--output-format", format]).stderr(Stdio::piped());
        let mut run = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(run.stdout.take());
        let output = run.wait_with_output().unwrap();
        let words = text(&output.stderr);
        assert_eq!((output.status.code(), words.as_str()), (Some(0), ""), "{format}");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{format}: {words}");
        assert!(words.contains("cannot write the answer to standard output"), "{format}: {words}");
    }
}

#[test]
fn a_device_that_vanishes_ends_a_scan_with_code_3() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_table(folder, "own.csv", 40_000);
    push(folder, &["load", "own.csv", "own.set"]);
    // The link takes seconds per page, so that the scan is under way when its device ends.
    let served = Served::start(folder, "own.set", "device", &["--link", "5K", "--policy", "host"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
    command.current_dir(folder).args(["push", "run", "unix:device", "--policy", "host"]);
    let run = command.args(SCAN).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    drop(served);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
