//! `littoral kv` under kill -9, on full devices, with foreign data and two openers.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Nothing takes so long unless it hangs.
const HANG: Duration = Duration::from_secs(300);

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
    command.args(args).current_dir(folder);
    command
}

fn littoral(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs what must succeed; its output.
fn done(folder: &Path, args: &[&str]) -> String {
    let output = littoral(folder, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs what must fail with `code` and name each of `words`; what it says.
fn refused(folder: &Path, args: &[&str], code: i32, words: &[&str]) -> String {
    let output = littoral(folder, args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{args:?}: '{word}' is not in: {message}");
    }
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    message
}

/// The shares in use of a load's lines about its pace: `N % of the medium in use, N records loaded,
/// N records per second since the line before`.
fn shares_in_use(message: &str) -> Vec<u64> {
    let share = |line: &str| {
        let (percent, rest) =
            line.strip_prefix("littoral: ")?.split_once(" % of the medium in use, ")?;
        let (loaded, rest) = rest.split_once(" records loaded, ")?;
        let rate = rest.strip_suffix(" records per second since the line before")?;
        let numbers = [percent, loaded, rate].map(|number| number.parse::<u64>().unwrap());
        assert!(numbers[1] > 0, "{line}");
        Some(numbers[0])
    };
    message.lines().filter_map(share).collect()
}

/// Looks again and again until `done`.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < HANG, "{what}: not after {} s", HANG.as_secs());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process has an open file at `path` that is locked.
fn has_locked(process: u32, path: &Path) -> bool {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut there = files.filter(|f| fs::read_link(f.path()).is_ok_and(|target| target == path));
    there.any(|f| {
        let info = Path::new("/proc").join(process.to_string()).join("fdinfo").join(f.file_name());
        fs::read_to_string(info).is_ok_and(|text| text.contains("FLOCK"))
    })
}

/// Lines of eight scattered digits each, tab, number.
fn lines(from: u64, to: u64) -> String {
    (from..to).map(|i| format!("{:08}\t{i}\n", i.wrapping_mul(48_271) % 99_999_989)).collect()
}

const SMALL: &str = r#"
schema = "littoral.machine/1"
[device.small]
kind = "zoned"
medium = "ram"
block_bytes = 4096
zones = 12
conventional_zones = 1
zone_size = "512KiB"
zone_capacity = "400KiB"
open_zones_max = 2
"#;

#[test]
fn kill_9_at_any_moment_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    for engine in ["zb", "cow"] {
        let ack = dir.path().join(format!("{engine}.ack"));
        done(dir.path(), &["kv", "create", engine, "--engine", engine]);
        for round in 0..5u64 {
            let args = ["kv", "load", engine, "-", "--ack", ack.to_str().unwrap()];
            let mut child =
                command(dir.path(), &args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
            let child = child.as_mut().unwrap();
            let mut input = child.stdin.take().unwrap();
            let writer = std::thread::spawn(move || {
                // The reader is killed: the pipe breaks.
                let _ = input.write_all(lines(round * 100_000, (round + 1) * 100_000).as_bytes());
            });
            std::thread::sleep(Duration::from_millis(60 + 61 * round));
            if round == 4 {
                let some = || fs::metadata(&ack).is_ok_and(|file| file.len() > 0);
                until("something to be acknowledged", some);
            }
            child.kill().unwrap();
            child.wait().unwrap();
            writer.join().unwrap();
            let dump = done(dir.path(), &["kv", "dump", engine]);
            let held: BTreeSet<&str> = dump.lines().filter_map(|l| l.split('\t').next()).collect();
            let acknowledged = fs::read_to_string(&ack).unwrap_or_default();
            // The last line may have been cut short by the kill.
            for key in acknowledged.lines().filter(|l| l.len() == 8) {
                assert!(held.contains(key), "{engine}, round {round}: {key} is gone");
            }
            done(dir.path(), &["kv", "check", engine]);
        }
    }
}

/// A deletion that was told to have happened has; one that was killed has or has not; nothing else
/// is touched.
#[test]
fn kill_9_during_deletions_leaves_all_or_nothing_of_each() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small.toml"), SMALL).unwrap();
    fs::write(dir.path().join("some.tsv"), lines(0, 3000)).unwrap();
    done(dir.path(), &["kv", "create", "s", "--machine", "small.toml"]);
    done(dir.path(), &["kv", "load", "s", "some.tsv"]);
    let keys: Vec<String> = lines(0, 40).lines().map(|l| l[..8].to_owned()).collect();
    let (mut told, mut killed) = (Vec::new(), Vec::new());
    for (i, key) in keys.iter().enumerate() {
        let mut child = command(dir.path(), &["kv", "del", "s", key]).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(300 * i as u64));
        let _ = child.kill();
        let list = if child.wait().unwrap().success() { &mut told } else { &mut killed };
        list.push(key.as_str());
    }
    done(dir.path(), &["kv", "check", "s"]);
    let dump = done(dir.path(), &["kv", "dump", "s"]);
    let held: BTreeSet<&str> = dump.lines().filter_map(|l| l.split('\t').next()).collect();
    assert!(told.iter().all(|k| !held.contains(k)), "told, and still there");
    assert!(!killed.is_empty() && held.len() + told.len() + killed.len() >= 3000);
    let others = lines(40, 3000);
    assert!(
        others.lines().all(|l| held.contains(&l[..8])),
        "a record that was not deleted is gone"
    );
}

#[test]
fn a_quiet_load_says_nothing_of_its_pace() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small.toml"), SMALL).unwrap();
    fs::write(dir.path().join("many.tsv"), lines(0, 200_000)).unwrap();
    done(dir.path(), &["kv", "create", "s", "--machine", "small.toml"]);
    let message = refused(dir.path(), &["kv", "load", "s", "many.tsv", "-q"], 3, &["no room"]);
    assert!(shares_in_use(&message).is_empty(), "{message}");
}

#[test]
fn a_full_device_is_said_before_anything_is_acknowledged_and_still_serves() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small.toml"), SMALL).unwrap();
    fs::write(dir.path().join("many.tsv"), lines(0, 200_000)).unwrap();
    for engine in ["zb", "cow"] {
        let create = ["kv", "create", engine, "--engine", engine, "--machine", "small.toml"];
        done(dir.path(), &create);
        let load = ["kv", "load", engine, "many.tsv", "--ack", "ack"];
        let message = refused(dir.path(), &load, 3, &["many.tsv:", "no room", "delete"]);
        let shares = shares_in_use(&message);
        let grows = shares.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(shares.len() >= 5 && grows && shares.iter().all(|s| s % 5 == 0), "{message}");
        let ack = fs::read_to_string(dir.path().join("ack")).unwrap();
        fs::remove_file(dir.path().join("ack")).unwrap();
        let dump = done(dir.path(), &["kv", "dump", engine]);
        let held: BTreeSet<&str> = dump.lines().filter_map(|l| l.split('\t').next()).collect();
        let keys: Vec<&str> = ack.lines().collect();
        assert!(keys.len() > 5000 && keys.iter().all(|k| held.contains(k)), "{engine}");
        done(dir.path(), &["kv", "check", engine]);
        // Reads and deletions go on, and in the ZB+-tree overwrites.
        for key in &keys[..6] {
            done(dir.path(), &["kv", "get", engine, key]);
            if engine == "zb" {
                done(dir.path(), &["kv", "put", engine, key, "again"]);
                assert_eq!(done(dir.path(), &["kv", "get", engine, key]), "again\n");
            }
            done(dir.path(), &["kv", "del", engine, key]);
            refused(dir.path(), &["kv", "get", engine, key], 1, &[key]);
        }
        done(dir.path(), &["kv", "check", engine]);
    }
}

#[test]
fn foreign_and_damaged_media_are_refused_by_name_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let zones = dir.path().join("s/zones");
    fs::write(dir.path().join("small.toml"), SMALL).unwrap();
    done(dir.path(), &["kv", "create", "s", "--machine", "small.toml"]);
    done(dir.path(), &["kv", "put", "s", "k", "v"]);
    let good = fs::read(&zones).unwrap();
    let store = good.windows(8).position(|w| w == b"LITSTORE").unwrap();
    // Every copy: the header has eight, the superblock two of each generation.
    let with = |places: &[usize], byte: u8| {
        let mut bytes = good.clone();
        places.iter().for_each(|&at| bytes[at] = byte);
        bytes
    };
    let header = |at: usize| (0..8).map(|copy| copy * 512 + at).collect::<Vec<_>>();
    let superblocks: Vec<usize> = (0..4).map(|block| store + block * 4096 + 8).collect();
    for (bytes, words) in [
        (b"dear diary".to_vec(), "no littoral zoned device"),
        (with(&header(8), 77), "version 77"),
        (with(&header(20), 1), "none of its copies verifies"),
        (with(&superblocks, 9), "format 9"),
    ] {
        fs::write(&zones, &bytes).unwrap();
        for verb in ["check", "dump", "stats"] {
            refused(dir.path(), &["kv", verb, "s"], 4, &[words, "s"]);
        }
        refused(dir.path(), &["kv", "put", "s", "k", "w"], 4, &[words]);
        assert!(fs::read(&zones).unwrap() == bytes, "{words}: untouched");
    }
    fs::write(&zones, &good).unwrap();
    assert_eq!(done(dir.path(), &["kv", "get", "s", "k"]), "v\n");
}

#[test]
fn a_store_on_a_machines_file_is_found_again_and_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let machine = SMALL.replace("\"ram\"", "\"file:drive.img\"");
    fs::write(dir.path().join("m.toml"), &machine).unwrap();
    done(dir.path(), &["kv", "create", "s", "--machine", "m.toml", "--engine", "cow"]);
    fs::remove_file(dir.path().join("m.toml")).unwrap();
    done(dir.path(), &["kv", "put", "s", "k", "v"]);
    assert_eq!(done(dir.path(), &["kv", "dump", "s"]), "k\tv\n");
    fs::write(dir.path().join("m.toml"), &machine).unwrap();
    refused(dir.path(), &["kv", "create", "t", "--machine", "m.toml"], 4, &["zone", "reset"]);
    refused(dir.path(), &["kv", "create", "s", "--machine", "m.toml"], 2, &["not overwritten"]);
    let zones = done(dir.path(), &["machine", "zones", "--file", "m.toml"]);
    assert!(zones.contains("Conventional") && zones.contains("Sequential"), "{zones}");
    // A load that waits for its input holds the store, once it has locked it. A lock on another
    // file that it inherits does not count.
    let inherited = fs::File::create(dir.path().join("inherited")).unwrap();
    inherited.lock().unwrap();
    let mut holder = command(dir.path(), &["kv", "load", "s", "-"]);
    holder.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(inherited);
    let mut holder = holder.spawn().unwrap();
    let drive = dir.path().canonicalize().unwrap().join("drive.img");
    until("the load to lock its store", || has_locked(holder.id(), &drive));
    refused(dir.path(), &["kv", "get", "s", "k"], 3, &["drive.img", "another process"]);
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
}

#[test]
fn wrong_lines_end_a_load_with_their_number_and_keep_what_came_before() {
    let dir = tempfile::tempdir().unwrap();
    done(dir.path(), &["kv", "create", "s"]);
    fs::write(dir.path().join("bad.tsv"), "a\t1\nb\t2\nno tab here\nc\t3\n").unwrap();
    refused(dir.path(), &["kv", "load", "s", "bad.tsv", "--ack", "ack"], 2, &["bad.tsv:3", "tab"]);
    assert_eq!(done(dir.path(), &["kv", "dump", "s"]), "a\t1\nb\t2\n");
    assert_eq!(fs::read_to_string(dir.path().join("ack")).unwrap(), "a\nb\n");
    fs::write(dir.path().join("long.tsv"), "a-key-too-long\t1\n").unwrap();
    refused(dir.path(), &["kv", "load", "s", "long.tsv"], 2, &["long.tsv:1", "takes 8"]);
    refused(dir.path(), &["kv", "load", "s", "absent.tsv"], 3, &["absent.tsv"]);
    refused(dir.path(), &["kv", "put", "s", "tab\tbed", "v"], 2, &["tab"]);
}

#[test]
fn records_that_no_line_holds_are_not_dumped_as_others() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    done(folder, &["kv", "create", "s"]);
    refused(folder, &["kv", "put", "s", "k", "v\r"], 2, &["line end"]);
    done(folder, &["kv", "put", "s", "a", "1"]);
    let mut kv = littoral::kv::open(&folder.join("s"), littoral::kv::Access::Write).unwrap();
    kv.put(&9u64.to_be_bytes(), &[1; 8]).unwrap();
    kv.close().unwrap();
    refused(folder, &["kv", "dump", "s"], 2, &["\\t", "kv backup"]);
    assert_eq!(done(folder, &["kv", "scan", "s"]).lines().count(), 2);
    done(folder, &["kv", "backup", "s", "saved"]);
    done(folder, &["kv", "restore", "saved", "t"]);
}
