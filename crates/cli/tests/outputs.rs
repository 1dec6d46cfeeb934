//! Where results go wrong to write: full devices, closed pipes, folders that cannot be written.
//!
//! - The exit code is the table's: 3 for an environment that fails, 0 for a reader that has gone.
//! - What cannot be written is refused before anything is measured, and leaves nothing behind.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Nothing takes so long unless it hangs.
const HANG: Duration = Duration::from_secs(300);

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

fn littoral(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A folder with a graph, a store, a pool and a results file.
fn furnished() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.tsv"), "a\tb\nb\tc\nc\ta\n").unwrap();
    for args in [
        &["graph", "gen", "kron", "--scale", "6", "k.lg"][..],
        &["kv", "create", "s"],
        &["kv", "load", "s", "in.tsv"],
        &["heap", "create", "a.pool", "--size", "1MiB"],
        &["repro", "loongarch", "--only", "la64.isa.rows", "--json", "r.json"],
    ] {
        let made = littoral(dir.path(), args);
        assert!(made.status.success(), "{args:?}: {}", text(&made.stderr));
    }
    dir
}

/// An answer about a file, or the file in another form, never takes its place.
#[test]
fn what_is_asked_about_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("e.el"), "0 1\n1 2\n").unwrap();
    fs::write(dir.path().join("t.csv"), "a,b\n1,2\n").unwrap();
    symlink("e.el", dir.path().join("link")).unwrap();
    let made = littoral(dir.path(), &["push", "load", "t.csv", "t.set"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let answer = ["--output-format", "csv", "--output"];
    for (verb, file, options, output) in [
        (&["graph", "bfs"][..], "e.el", &answer[..], "./e.el"),
        (&["graph", "degree"], "e.el", &answer, "link"),
        (&["push", "run", "--sum", "a"], "t.set", &answer, "t.set"),
        (&["graph", "convert"], "t.csv", &[], "./t.csv"),
    ] {
        let before = fs::read(dir.path().join(file)).unwrap();
        let refused =
            littoral(dir.path(), &[verb, &[file], options, &[output, "--force"]].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("both input and output"), "{said}");
        assert_eq!(fs::read(dir.path().join(file)).unwrap(), before);
    }
}

/// Nor does a page, a list of what is durable, or an answer about a machine's device.
#[test]
fn no_output_takes_the_place_of_what_it_is_made_from() {
    let dir = furnished();
    fs::write(dir.path().join("t.csv"), "a,b\n1,2\n").unwrap();
    let machine = "schema = \"littoral.machine/1\"\n[device.near]\nkind = \"push\"\n\
                   medium = \"file:t.set\"\n";
    fs::write(dir.path().join("m.toml"), machine).unwrap();
    let made = littoral(dir.path(), &["push", "load", "t.csv", "t.set"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let scan = ["push", "run", "--machine", "m.toml", "--sum", "a", "--output-format", "csv"];
    for (args, file) in [
        (&["report", "r.json", "--output", "./r.json"][..], "r.json"),
        (&["graph", "whatif", "k.lg", "--time", "20ms", "--html", "k.lg"], "k.lg"),
        (&["kv", "load", "s", "in.tsv", "--ack", "in.tsv"], "in.tsv"),
        (&["graph", "convert", "k.lg", "k.lg", "--to", "sg", "--force"], "k.lg"),
        (&[&scan[..], &["--force", "-o", "t.set"]].concat(), "t.set"),
    ] {
        let before = fs::read(dir.path().join(file)).unwrap();
        let refused = littoral(dir.path(), args);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("both input and output"), "{args:?}: {said}");
        assert_eq!(fs::read(dir.path().join(file)).unwrap(), before, "{args:?}");
    }
}

#[test]
fn what_a_measurement_keeps_lies_in_the_scratch_folder_and_goes_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["repro", "zbtree", "--quick", "--only", "kv.full", "--scratch", "here"];
    // There is no other folder for temporary files.
    let output =
        command(dir.path(), &args).env("TMPDIR", dir.path().join("absent")).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains("1 claims hold"), "{said}");
    assert_eq!(entries(&dir.path().join("here")), Vec::<String>::new());
}

/// Commands that print results, over what [`furnished`] made.
const PRINTING: &[&[&str]] = &[
    &["graph", "info", "k.lg"],
    &["graph", "check", "k.lg"],
    &["graph", "bfs", "k.lg"],
    &["graph", "cc", "k.lg", "--format", "json"],
    &["--help"],
    &["graph", "whatif", "-h"],
    &["-V"],
    &["kv", "dump", "s"],
    &["kv", "scan", "s", "a"],
    &["kv", "get", "s", "a"],
    &["kv", "stats", "s"],
    &["kv", "check", "s"],
    &["machine"],
    &["machine", "zones"],
    &["heap", "info", "a.pool"],
    &["heap", "dump", "a.pool", "--format", "json"],
    &["dsm", "model", "is", "--ranks", "2", "--profile", "rdma"],
    &["bench", "kv", "--records", "100", "--operations", "50"],
    &["completions", "zsh"],
    &["completions", "man"],
];

#[test]
fn standard_output_on_a_full_device_is_code_3_and_a_closed_pipe_no_error() {
    let dir = furnished();
    for args in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output =
            command(dir.path(), args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {message}");
        assert!(message.contains("cannot write the output"), "{args:?}: {message}");
        let mut child = command(dir.path(), args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{args:?}: {}", text(&output.stderr));
    }
}

/// Commands that write a file, without the file's name.
const WRITING: &[&[&str]] = &[
    &["report", "r.json", "--output"],
    &["repro", "loongarch", "--only", "la64.isa.rows", "--json"],
    &["graph", "gen", "kron", "--scale", "6"],
    &["graph", "import", "in.tsv"],
    &["heap", "create", "--size", "1MiB"],
    &["completions", "man", "--output"],
    &["graph", "whatif", "k.lg", "--time", "20ms", "--html"],
    &["graph", "convert", "k.lg", "--to", "csv"],
    &["kv", "backup", "s"],
];

#[test]
fn a_file_that_cannot_be_written_is_code_3_and_nothing_is_left() {
    let dir = furnished();
    let before = entries(dir.path());
    for args in WRITING {
        let path = "absent/out.html";
        let output = littoral(dir.path(), &[args, &[path][..]].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {message}");
        assert!(message.contains("absent"), "{args:?} names the path: {message}");
        assert!(!message.contains("panicked"), "{args:?}: {message}");
    }
    for args in &WRITING[..2] {
        let output = littoral(dir.path(), &[args, &["/dev/full"][..]].concat());
        assert_eq!(output.status.code(), Some(3), "{args:?}: {}", text(&output.stderr));
        let output = littoral(dir.path(), &[args, &["/dev/null"][..]].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    }
    let is_device = |path: &str| fs::metadata(path).unwrap().file_type().is_char_device();
    assert!(is_device("/dev/full") && is_device("/dev/null"), "devices are not replaced");
    assert_eq!(entries(dir.path()), before);
}

#[test]
fn an_answer_that_cannot_be_written_is_named_as_the_user_named_it() {
    let dir = furnished();
    let before = entries(dir.path());
    let answer = |path: &str| {
        let args = ["graph", "degree", "k.lg", "--output-format", "csv", "--force", "-o", path];
        littoral(dir.path(), &args)
    };
    for (path, words) in [
        ("absent/a.csv", "cannot write the answer to absent/a.csv: there is no folder absent"),
        ("in.tsv/a.csv", "cannot write the answer to in.tsv/a.csv: in.tsv is no folder"),
        ("/dev/full", "cannot write the answer to /dev/full: No space left"),
    ] {
        let output = answer(path);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{path}: {message}");
        assert!(message.contains(words) && !message.contains(".partial"), "{path}: {message}");
    }
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command(dir.path(), &["graph", "degree", "k.lg", "-o", "-"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("cannot write the answer to standard output"), "{message}");
    assert_eq!(entries(dir.path()), before, "nothing is left behind");
}

#[test]
fn the_target_of_an_answer_is_opened_before_the_graph() {
    let dir = tempfile::tempdir().unwrap();
    let output = littoral(dir.path(), &["graph", "bfs", "absent.lg", "-o", "absent/a.csv"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("there is no folder absent"), "{message}");
    assert!(!message.contains("absent.lg"), "the graph was opened first: {message}");
}

#[test]
fn an_answer_has_its_name_only_when_it_is_whole() {
    let dir = furnished();
    let before = entries(dir.path());
    let output = littoral(dir.path(), &["graph", "bfs", "absent.lg", "-o", "a.csv"]);
    assert!(!output.status.success());
    assert_eq!(entries(dir.path()), before, "a failure leaves no file");
    let made = littoral(dir.path(), &["graph", "bfs", "k.lg", "-o", "a.csv"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let whole = fs::read(dir.path().join("a.csv")).unwrap();
    let again = littoral(dir.path(), &["graph", "bfs", "absent.lg", "--force", "-o", "a.csv"]);
    assert!(!again.status.success());
    assert_eq!(fs::read(dir.path().join("a.csv")).unwrap(), whole, "the old answer stays");
}

#[test]
fn a_results_path_is_tried_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    // The whole system takes minutes: an answer without progress lines means nothing was begun.
    let output = littoral(dir.path(), &["repro", "zbtree", "-v", "--json", "absent/r.json"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("absent/r.json") && !message.contains("step 1"), "{message}");
    assert_eq!(entries(dir.path()), Vec::<String>::new());
}

#[test]
fn a_prefix_without_claims_is_a_usage_error_that_names_the_nearest() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["repro", "loongarch", "--only", "la64.isa.rwos", "--json", "r.json"];
    let output = littoral(dir.path(), &args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("la64.isa.rows"), "{message}");
    assert_eq!(entries(dir.path()), Vec::<String>::new());
}

/// A peer that ends with an error is no peer that is missing.
#[test]
fn a_measurement_that_fails_is_not_a_claim_that_was_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let repro = ["repro", "flash", "--only", "python.ingest", "--peers", ".", "--json", "r.json"];
    let status = |strict: bool| {
        let mut run = command(dir.path(), &repro);
        let output = run.args(strict.then_some("--strict")).env("PATH", "").output().unwrap();
        let file = fs::read_to_string(dir.path().join("r.json")).unwrap();
        let runs: serde_json::Value = serde_json::from_str(&file).unwrap();
        let words = |key: &str| runs[0]["claims"][0][key].as_str().unwrap().to_owned();
        (output.status.code(), words("status"), words("why"))
    };
    let (code, skipped, why) = status(true);
    assert_eq!((code, skipped.as_str()), (Some(0), "skipped"), "{why}");
    fs::create_dir(dir.path().join("bin")).unwrap();
    symlink("/bin/false", dir.path().join("bin/python3")).unwrap();
    let (code, failed, why) = status(false);
    assert_eq!((code, failed.as_str()), (Some(0), "failed"), "{why}");
    assert!(why.starts_with("./bin/python3: "), "{why}");
    assert_eq!(status(true).0, Some(1));
    for page in ["page.html", "page.md"] {
        let made = littoral(dir.path(), &["report", "r.json", "-o", page]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let page = fs::read_to_string(dir.path().join(page)).unwrap().replace("&#x2f;", "/");
        assert!(page.contains("failed") && page.contains("./bin/python3: "), "{page}");
    }
}

/// Looks again and again until `done`.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < HANG, "{what}: not after {} s", HANG.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_repro_keeps_its_claims_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["repro", "jiajia", "--quick", "--json", "r.json", "--scratch", "scratch"];
    // A file, since ranks that end a little later would hold a pipe open.
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut run = command(dir.path(), &args);
    let mut child = run.stderr(said.reopen().unwrap()).stdout(Stdio::null()).spawn().unwrap();
    let part = dir.path().join("r.json.part");
    until("a claim to be judged", || {
        fs::read_to_string(&part).is_ok_and(|text| text.contains("\"status\""))
    });
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let said = fs::read_to_string(said.path()).unwrap();
    assert!(said.contains("interrupted; r.json.part keeps the claims"), "{said}");
    assert_eq!(entries(dir.path()), ["r.json.part", "scratch"], "no draft, no final file");
    let kept: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&part).unwrap()).unwrap();
    assert_eq!(kept[0]["is_complete"], false);
    assert!(kept[0]["claims"].as_array().is_some_and(|c| !c.is_empty()));
    let refused = littoral(dir.path(), &args);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("--resume"), "{}", text(&refused.stderr));
    let other = ["repro", "jiajia", "--json", "r.json", "--resume"];
    let other = littoral(dir.path(), &other);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("--quick"), "{}", text(&other.stderr));
    // An unfinished run can be shown as it is.
    let shown = littoral(dir.path(), &["report", "r.json.part", "-o", "part.md"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let page = fs::read_to_string(dir.path().join("part.md")).unwrap();
    assert!(page.contains("The run was cut short"), "{page}");
}

#[test]
fn a_repro_that_is_interrupted_before_a_claim_is_judged_names_no_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bin")).unwrap();
    let python = dir.path().join("bin/python3");
    let go_on = dir.path().join("go-on");
    assert!(Command::new("mkfifo").arg(&go_on).status().unwrap().success());
    // A peer that waits until the run is over.
    fs::write(&python, "#!/bin/sh\n: >started\nread -r line <go-on\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["repro", "flash", "--only", "python.ingest", "--peers", ".", "--json", "r.json"];
    let child = command(dir.path(), &args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let child = child.unwrap();
    until("the peer to start", || dir.path().join("started").exists());
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ended = child.wait_with_output().unwrap();
    fs::write(&go_on, "\n").unwrap();
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(!said.contains("keeps the claims"), "{said}");
    assert!(!dir.path().join("r.json.part").exists());
}

#[test]
fn the_version_names_a_revision_and_mistakes_name_what_is_near() {
    let dir = tempfile::tempdir().unwrap();
    let version = text(&littoral(dir.path(), &["-V"]).stdout);
    assert!(
        version.starts_with(concat!("littoral ", env!("CARGO_PKG_VERSION"), " (")),
        "{version}"
    );
    assert!(!version.contains('/'), "no path of the build: {version}");
    for (args, near) in [
        (&["grpah"][..], "graph"),
        (&["graph", "imprt"], "import"),
        (&["graph", "info", "--formt"], "--format"),
    ] {
        let output = littoral(dir.path(), args);
        assert_eq!(output.status.code(), Some(2));
        let message = text(&output.stderr);
        assert!(message.contains(near), "{args:?}: {message}");
    }
}

#[test]
fn messages_follow_their_options() {
    let dir = furnished();
    let run = |args: &[&str]| text(&littoral(dir.path(), args).stderr);
    assert_eq!(run(&["kv", "stats", "s"]), "");
    assert!(run(&["kv", "stats", "s", "-v"]).contains("opening the store of s"));
    assert!(run(&["-vv", "kv", "stats", "s"]).contains("groups replayed"));
    assert_eq!(run(&["kv", "stats", "s", "--log", "run.log"]), "");
    let log = fs::read_to_string(dir.path().join("run.log")).unwrap();
    assert!(log.contains("DEBUG littoral_store") && !log.contains('\u{1b}'), "{log}");
    assert!(run(&["kv", "stats", "s", "-v", "--color", "always"]).contains('\u{1b}'));
    assert!(!run(&["kv", "stats", "s", "-v", "--color", "auto"]).contains('\u{1b}'));
    let output = littoral(dir.path(), &["kv", "stats", "s", "--log", "absent/run.log"]);
    assert_eq!(output.status.code(), Some(3));
    let both = littoral(dir.path(), &["machine", "-v", "-q"]);
    assert_eq!(both.status.code(), Some(2));
    let coloured = littoral(dir.path(), &["--color", "always", "--help"]);
    assert!(text(&coloured.stdout).contains('\u{1b}'));
    assert!(!text(&littoral(dir.path(), &["--help"]).stdout).contains('\u{1b}'));
}
