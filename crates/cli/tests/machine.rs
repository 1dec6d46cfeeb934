//! One machine file for every verb, and what is refused of it: file, line and the nearest word.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn littoral(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_littoral")).args(args).current_dir(folder).output().unwrap()
}

fn done(folder: &Path, line: &str) -> String {
    let args: Vec<&str> = line.split(' ').collect();
    let output = littoral(folder, &args);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs and asserts the exit code and that standard error names each of `words`.
fn refused(folder: &Path, line: &str, code: i32, words: &[&str]) {
    let args: Vec<&str> = line.split(' ').collect();
    let output = littoral(folder, &args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}: {message}");
    for word in words {
        assert!(message.contains(word), "{line}: '{word}' is not in: {message}");
    }
}

const MACHINE: &str = r#"schema = "littoral.machine/1"
[device.fast]
kind = "flash"
medium = "ram"
profile = "xlfdd"
capacity = "64MiB"
[device.bells]
kind = "flash"
medium = "ram"
profile = "nvme-optane"
capacity = "64MiB"
[device.real]
kind = "flash"
medium = "file:k.lg"
[device.mapped]
kind = "flash"
medium = "mmap:k.lg"
[device.small]
kind = "flash"
medium = "ram"
capacity = "4KiB"
[device.zones]
kind = "zoned"
medium = "file:drive.img"
block_bytes = 4096
zones = 24
conventional_zones = 4
zone_size = "1MiB"
[device.pool]
kind = "memory"
medium = "file:counts.pool"
capacity = "1MiB"
[device.ranks]
kind = "fabric"
medium = "ram"
nodes = 2
window = "4KiB"
[device.slow]
kind = "fabric"
medium = "ram"
profile = "rdma"
nodes = 2
window = "4KiB"
"#;

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.toml"), MACHINE).unwrap();
    done(dir.path(), "graph gen kron --scale 8 k.lg");
    dir
}

/// What a report says beside `key`.
fn value(report: &str, key: &str) -> String {
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    report[key].to_string()
}

#[test]
fn every_verb_of_graph_runs_on_every_device_and_says_what_it_was() {
    let dir = folder();
    let plain = done(dir.path(), "graph cc k.lg --format json");
    let plain_degree = done(dir.path(), "graph degree k.lg --format json");
    for (device, medium, clock) in [
        ("fast", "\"flash\"", "\"paced\""),
        ("bells", "\"nvme\"", "\"paced\""),
        ("real", "\"pread\"", "\"wall\""),
        ("mapped", "\"mmap\"", "\"wall\""),
    ] {
        let on = format!("k.lg --machine m.toml --device {device} --format json");
        let found = done(dir.path(), &format!("graph cc {on} --verify"));
        assert_eq!(
            (value(&found, "medium"), value(&found, "clock")),
            (medium.into(), clock.into())
        );
        assert_eq!(value(&found, "top"), value(&plain, "top"));
        let is_modelled = value(&found, "profile_hash") != "null";
        assert_eq!(is_modelled, clock == "\"paced\"", "{found}");
        for verb in ["info", "check", "degree"] {
            let found = done(dir.path(), &format!("graph {verb} {on}"));
            assert_eq!(value(&found, "medium"), medium, "{verb}");
            assert_eq!(value(&found, "conditions").contains("modelled:"), is_modelled, "{found}");
        }
        let degrees = done(dir.path(), &format!("graph degree {on}"));
        assert_eq!(value(&degrees, "degrees"), value(&plain_degree, "degrees"));
    }
    let ranked = "graph whatif k.lg --machine m.toml --time 20ms --concurrency 2 --kernels bfs,pr";
    let study = done(dir.path(), ranked);
    assert!(study.contains("fast") && study.contains("bells"), "the parts by name: {study}");
    assert!(!study.contains("mapped"), "a real device is no part to predict: {study}");
    refused(
        dir.path(),
        &format!("{ranked} --device real"),
        2,
        &["m.toml:13", "nothing to predict"],
    );
}

#[test]
fn stores_pools_and_jobs_live_on_the_machine() {
    let dir = folder();
    done(dir.path(), "kv create s --machine m.toml");
    done(dir.path(), "kv put s bergen 60N --machine m.toml --device zones");
    // The directory knows its device; the machine file says the same.
    assert_eq!(done(dir.path(), "kv get s bergen"), "60N\n");
    fs::remove_file(dir.path().join("s/device.toml")).unwrap();
    assert_eq!(done(dir.path(), "kv get s bergen --machine m.toml"), "60N\n");
    let made = done(dir.path(), "heap create --machine m.toml");
    assert!(made.contains("counts.pool") && made.contains("1 MiB"), "{made}");
    assert!(done(dir.path(), "heap check counts.pool").contains("sound"));
    assert_eq!(
        done(dir.path(), "heap info --machine m.toml --device pool"),
        done(dir.path(), "heap info counts.pool")
    );
    refused(dir.path(), "heap create --machine m.toml", 2, &["counts.pool", "exists already"]);
    let run = |rest: &str| done(dir.path(), &format!("dsm run --machine m.toml --device {rest}"));
    assert_eq!(run("ranks printenv LITTORAL_DSM_FABRIC"), "shm\nshm\n");
    assert_eq!(run("ranks -n 1 printenv LITTORAL_DSM_FABRIC"), "shm\n");
    let many = "dsm run --machine m.toml --device ranks -n 3 true";
    refused(dir.path(), many, 2, &["m.toml:34: device `ranks` has 2 nodes", "3 ranks"]);
    let bench = "bench kv --machine m.toml --records 200 --operations 100 --rate 1M";
    refused(dir.path(), bench, 3, &["bench kv"]);
    fs::remove_file(dir.path().join("drive.img")).unwrap();
    assert!(done(dir.path(), bench).contains("wall"));
    assert!(!dir.path().join("drive.img").exists(), "a file made for the measurement is removed");
}

const PARTS: &str = r#"schema = "littoral.machine/1"
[device.near]
kind = "push"
medium = "file:li.set"
[device.blank]
kind = "push"
medium = "ram"
[device.cxl]
kind = "fabric"
medium = "ram"
profile = "cxl-pool"
nodes = 4
window = "4KiB"
[device.far]
kind = "fabric"
medium = "tcp:10.0.0.1:7000,10.0.0.2:7000"
nodes = 2
window = "4KiB"
[device.own]
kind = "fabric"
medium = "ram"
pages = "own"
nodes = 2
window = "4KiB"
"#;

#[test]
fn a_fabric_of_the_machine_is_measured_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("p.toml"), PARTS).unwrap();
    let bench = "dsm bench lock --quick --format json --machine p.toml --device";
    let found = done(dir.path(), &format!("{bench} cxl"));
    assert_eq!(value(&found, "fabric"), "\"cxl\"");
    assert_eq!(value(&found, "ranks_count"), "4", "as many as the fabric has nodes");
    assert_eq!(value(&found, "clock"), "\"virtual\"");
    assert!(value(&found, "modelled_by").contains("cxl-pool:default"), "{found}");
    let fewer = done(dir.path(), &format!("{bench} cxl -n 2"));
    assert_eq!(value(&fewer, "ranks_count"), "2");
    for (rest, words) in [
        ("cxl -n 5", ["p.toml:9: device `cxl`", "has 4 nodes"]),
        ("far", ["p.toml:15: device `far`", "port 0"]),
        ("own", ["p.toml:20: device `own`", "pages make no difference"]),
        ("near", ["p.toml:3", "wanted fabric"]),
    ] {
        refused(dir.path(), &format!("{bench} {rest}"), 2, &words);
    }
}

#[test]
fn a_data_set_is_made_on_the_machine_and_served_from_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("p.toml"), PARTS).unwrap();
    let on = "--machine p.toml --device";
    let made = done(dir.path(), &format!("push gen --scale 0.001 --format json {on} near"));
    assert_eq!(value(&made, "set"), "\"near\"");
    let records = value(&made, "records_count");
    // Where records are stored by the device's own commands, as many arrive.
    let stored = done(dir.path(), &format!("push gen --scale 0.001 --format json {on} blank"));
    assert_eq!(value(&stored, "records_count"), records);
    let query = |set: &str| done(dir.path(), &format!("push run {set} --query q14 --output -"));
    assert_eq!(query(&format!("{on} near")), query("li.set"));
    let served = "push serve --socket here --machine p.toml --device";
    refused(dir.path(), &format!("{served} blank"), 2, &["p.toml:6: device `blank`", "`ram`"]);
    let mut server = Command::new(env!("CARGO_BIN_EXE_littoral"))
        .args(format!("{served} near").split(' '))
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut words = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut words).unwrap();
    assert!(words.starts_with("serving "), "{words}");
    assert_eq!(query("unix:here"), query("li.set"));
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn what_is_wrong_with_a_machine_is_named_with_its_place() {
    let dir = folder();
    for (line, code, words) in [
        (
            "graph bfs k.lg --machine m.toml",
            2,
            vec!["bells, fast, mapped, real, small", "--device"],
        ),
        ("graph bfs k.lg --machine m.toml --device fst", 2, vec!["m.toml", "did you mean `fast`?"]),
        ("graph bfs k.lg --machine m.toml --device zones", 2, vec!["m.toml:23", "wanted flash"]),
        ("graph bfs k.lg --machine m.toml --device small", 3, vec!["do not fit", "4096 B"]),
        ("graph bfs k.lg --machine gone.toml", 3, vec!["gone.toml"]),
        ("graph bfs k.lg --device fast", 2, vec!["--machine"]),
        ("graph bfs k.lg --machine m.toml --medium dram", 2, vec!["--medium"]),
        ("graph bfs k.lg --medium flsh", 2, vec!["did you mean `flash`?"]),
        ("graph bfs k.lg --medium zbd:/dev/null", 2, vec!["zbd:/dev/null", "a flash device takes"]),
        (
            "kv create s --machine m.toml --device fast",
            2,
            vec!["m.toml:3", "wanted zoned", "zones"],
        ),
        ("heap create --machine m.toml --device zone", 2, vec!["did you mean `zones`?"]),
        ("dsm run --machine m.toml true", 2, vec!["several fabric devices (ranks, slow)"]),
        ("dsm run -n 2 --fabric shmm true", 2, vec!["did you mean `shm`?"]),
        ("machine zones pool --file m.toml", 2, vec!["wanted zoned"]),
    ] {
        refused(dir.path(), line, code, &words);
    }
    done(dir.path(), "graph gen urand --scale 8 other.lg");
    let other = "graph bfs other.lg --machine m.toml --device real";
    refused(dir.path(), other, 3, &["holds something else", "other.lg"]);
    let shared = MACHINE.replace("file:drive.img", "file:counts.pool");
    fs::write(dir.path().join("two.toml"), shared).unwrap();
    let words = ["two.toml:30: device `pool`", "two.toml:23: device `zones`", "one owner"];
    refused(dir.path(), "machine --file two.toml", 2, &words);
    let unknown = MACHINE.replace("capacity = \"4KiB\"", "capacty = \"4KiB\"");
    fs::write(dir.path().join("field.toml"), unknown).unwrap();
    refused(
        dir.path(),
        "machine check field.toml",
        2,
        &["field.toml:21", "did you mean `capacity`?"],
    );
}

#[test]
fn a_new_machine_file_is_accepted_and_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    done(dir.path(), "machine new");
    let shown = done(dir.path(), "machine");
    assert!(shown.contains("machine file machine.toml"), "{shown}");
    let checked = done(dir.path(), "machine check");
    assert!(checked.contains("made when it is first used"), "{checked}");
    refused(dir.path(), "machine new", 2, &["machine.toml exists", "--force"]);
    done(dir.path(), "machine new --force");
    done(dir.path(), "kv create s --machine machine.toml");
    done(dir.path(), "heap create --machine machine.toml");
    assert!(done(dir.path(), "machine check").contains("zones modelled in a file"));
    assert_eq!(
        done(dir.path(), "machine profiles rdma"),
        done(dir.path(), "machine --profile rdma")
    );
    let gone = "[device.drive]\nkind = \"flash\"\nmedium = \"uring:gone\"\n";
    let text = format!("schema = \"littoral.machine/1\"\n{gone}");
    fs::write(dir.path().join("gone.toml"), text).unwrap();
    refused(dir.path(), "machine check gone.toml", 1, &["gone.toml:3: device `drive`", "gone"]);
}
