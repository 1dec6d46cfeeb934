//! `littoral kv` on a file system that is really full: a small tmpfs in a namespace of its own.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::fs;
use std::io::Write;
use std::process::Command;

const MACHINE: &str = r#"
schema = "littoral.machine/1"
[device.small]
kind = "zoned"
medium = "ram"
block_bytes = 4096
zones = 20
conventional_zones = 8
zone_size = "512KiB"
zone_capacity = "512KiB"
"#;

/// Fills the file system, deletes the records that `gone` names, and puts others.
const SCRIPT: &str = r#"
set -eu
mkdir disk
mount -t tmpfs -o size=5m none disk
"$LITTORAL" kv create disk/s --machine small.toml --engine "$ENGINE" --value-size 1000
code=0
"$LITTORAL" kv load disk/s many.tsv --ack ack 2>refusal || code=$?
echo "load $code"
sort ack | head -n 300 >gone
while read -r key; do
    "$LITTORAL" kv del disk/s "$key" || { echo "del $key $?"; exit 1; }
done <gone
echo "deleted"
for key in new1 new2 new3; do
    "$LITTORAL" kv put disk/s "$key" v || { echo "put $key $?"; exit 1; }
done
"$LITTORAL" kv check disk/s >check
"$LITTORAL" kv dump disk/s | cut -f 1 | sort >held
"#;

fn has_namespaces() -> bool {
    let mut mount = Command::new("unshare");
    mount.args(["--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]);
    mount.output().is_ok_and(|o| o.status.success())
}

fn a_full_file_system_keeps_everything(engine: &str) {
    if !has_namespaces() {
        // Past the harness, which shows what tests print only when they fail.
        let text = "NOT RUN: kv_full: this kernel lets no user mount a tmpfs; index_host_full of \
                    littoral-assure has the model of it\n";
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("small.toml"), MACHINE).unwrap();
    let line = |i: u64| format!("{:08}\t{i}\n", i * 48_271 % 99_999_989);
    fs::write(at("many.tsv"), (0..20_000).map(line).collect::<String>()).unwrap();
    let mut script = Command::new("unshare");
    script.args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT]);
    script.current_dir(dir.path()).env("LITTORAL", env!("CARGO_BIN_EXE_littoral"));
    script.env("ENGINE", engine);
    let output = script.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}{errors}");
    let refusal = fs::read_to_string(at("refusal")).unwrap();
    assert!(told.contains("\nload 3\n") && refusal.contains("host"), "{told}{refusal}");
    let read = |name: &str| fs::read_to_string(at(name)).unwrap();
    let (held, gone) = (read("held"), read("gone"));
    assert_eq!(gone.lines().count(), 300);
    let held: std::collections::BTreeSet<&str> = held.lines().collect();
    let gone: std::collections::BTreeSet<&str> = gone.lines().collect();
    assert!(held.is_disjoint(&gone) && held.contains("new3"));
    let acknowledged = read("ack");
    assert!(acknowledged.lines().all(|k| gone.contains(k) || held.contains(k)));
}

#[test]
fn a_full_file_system_keeps_everything_and_takes_deletions() {
    a_full_file_system_keeps_everything("zb");
}

#[test]
fn a_full_file_system_takes_deletions_of_a_copy_on_write_tree() {
    a_full_file_system_keeps_everything("cow");
}
