//! `littoral kv` on damaged stores: checked, repaired, backed up and restored; what is there is
//! never overwritten.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn littoral(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_littoral")).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs what must end with `code`; its output and its message.
fn ends(folder: &Path, args: &[&str], code: i32) -> (String, String) {
    let output = littoral(folder, args);
    let (out, message) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{message}");
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    (out, message)
}

fn done(folder: &Path, args: &[&str]) -> String {
    ends(folder, args, 0).0
}

const SMALL: &str = r#"
schema = "littoral.machine/1"
[device.small]
kind = "zoned"
medium = "ram"
block_bytes = 512
zones = 12
conventional_zones = 1
zone_size = "64KiB"
zone_capacity = "50KiB"
open_zones_max = 3
"#;

/// Where zone 0 begins in the sparse file of so small a device.
const ZONES_AT: usize = 1 << 20;

fn made(folder: &Path, engine: &str) -> String {
    fs::write(folder.join("small.toml"), SMALL).unwrap();
    let lines: String =
        (0..300u64).map(|i| format!("{:08}\t{i}\n", i * 48_271 % 99_999_989)).collect();
    fs::write(folder.join("some.tsv"), lines).unwrap();
    done(folder, &["kv", "create", engine, "--engine", engine, "--machine", "small.toml"]);
    done(folder, &["kv", "load", engine, "some.tsv"]);
    done(folder, &["kv", "dump", engine])
}

#[test]
fn a_backup_is_restored_verified_and_overwrites_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    for engine in ["zb", "cow"] {
        let dump = made(at, engine);
        let before = fs::read(at.join(engine).join("zones")).unwrap();
        let (file, again) = (format!("{engine}.bak"), format!("{engine}-again"));
        assert!(done(at, &["kv", "backup", engine, &file]).contains("300"));
        let (_, message) = ends(at, &["kv", "backup", engine, &file], 2);
        assert!(message.contains("not overwritten"), "{message}");
        done(at, &["kv", "restore", &file, &again]);
        assert_eq!(done(at, &["kv", "dump", &again]), dump);
        done(at, &["kv", "check", &again]);
        ends(at, &["kv", "restore", &file, &again], 2);
        assert_eq!(done(at, &["kv", "dump", &again]), dump);
        assert!(before == fs::read(at.join(engine).join("zones")).unwrap(), "untouched");
        // Damaged, cut short, grown and foreign backups make no store.
        let whole = fs::read(at.join(&file)).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        let longer = [&whole[..], b"x"].concat();
        let bad = [(&flipped[..], 4), (&whole[..whole.len() - 9], 4), (&longer, 4), (b"text", 4)];
        for (n, (bytes, code)) in bad.into_iter().enumerate() {
            fs::write(at.join("bad.bak"), bytes).unwrap();
            let (_, message) = ends(at, &["kv", "restore", "bad.bak", "none"], code);
            assert!(message.contains("bad.bak"), "{n}: {message}");
            assert!(!at.join("none").exists(), "{n}");
        }
    }
}

#[test]
fn a_damaged_page_is_missed_by_its_keys_and_the_rest_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    for engine in ["zb", "cow"] {
        let dump = made(at, engine);
        let path = at.join(engine).join("zones");
        let whole = fs::read(&path).unwrap();
        let (mut saved_all, mut missed) = (0, 0);
        // Every seventh block, wiped where it holds anything.
        for block in (0..1536).step_by(7) {
            let from = ZONES_AT + block * 512;
            if whole[from..from + 512].iter().all(|&b| b == 0) {
                continue;
            }
            let mut hurt = whole.clone();
            hurt[from + 20..from + 500].fill(0x5a);
            fs::write(&path, &hurt).unwrap();
            let output = littoral(at, &["kv", "repair", engine, "saved"]);
            assert!(hurt == fs::read(&path).unwrap(), "SRC is untouched");
            let (out, code) = (text(&output.stdout), output.status.code());
            assert!(matches!(code, Some(0 | 1 | 4)), "{block}: {out}{}", text(&output.stderr));
            if code != Some(4) {
                let found = done(at, &["kv", "dump", "saved"]);
                assert!(found.lines().all(|l| dump.contains(l)), "{block}: nothing is invented");
                assert_eq!(code == Some(0), found == dump, "{block}: {out}");
                saved_all += u64::from(code == Some(0));
                if code == Some(1) {
                    missed += 1;
                    assert!(out.contains("missing"), "{out}");
                    assert!(littoral(at, &["kv", "dump", engine]).status.code() == Some(4));
                }
                fs::remove_dir_all(at.join("saved")).unwrap();
            }
        }
        assert!(saved_all > 0 && missed > 0, "{engine}: {saved_all} whole, {missed} in part");
        fs::write(&path, &whole).unwrap();
        ends(at, &["kv", "repair", engine, engine], 2);
    }
}

#[test]
fn one_flipped_bit_is_named_by_check_and_gone_after_the_next_change() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    made(at, "zb");
    let path = at.join("zb").join("zones");
    let mut bytes = fs::read(&path).unwrap();
    // The first copy of either generation of the superblock.
    for block in [0, 2] {
        bytes[ZONES_AT + block * 512 + 40] ^= 1;
    }
    fs::write(&path, &bytes).unwrap();
    let out = done(at, &["kv", "check", "zb"]);
    assert!(out.contains("superblock") && out.contains("made good"), "{out}");
    done(at, &["kv", "put", "zb", "new", "1"]);
    let out = done(at, &["kv", "check", "zb"]);
    assert!(out.contains("Every invariant holds.") && !out.contains("made good"), "{out}");
}

#[test]
fn stores_cut_short_are_refused_and_grown_ones_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let dump = made(at, "zb");
    let path = at.join("zb").join("zones");
    let whole = fs::read(&path).unwrap();
    for len in [0, 4000, ZONES_AT, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        for command in ["dump", "check", "stats"] {
            let (_, message) = ends(at, &["kv", command, "zb"], 4);
            assert!(message.contains("zones"), "{len}: {message}");
        }
        ends(at, &["kv", "put", "zb", "a", "b"], 4);
        assert_eq!(fs::read(&path).unwrap().len(), len, "untouched");
    }
    fs::write(&path, [&whole[..], &[7; 5000]].concat()).unwrap();
    assert_eq!(done(at, &["kv", "dump", "zb"]), dump);
}
