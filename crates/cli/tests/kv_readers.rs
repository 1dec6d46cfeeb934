//! `littoral kv` with several processes at one store: readers share it, without permission to write
//! it, and wait for a writer when they are told to.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A user who owns nothing.
const OTHER_USER: u32 = 65_534;

fn command(program: &Path, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder);
    command
}

fn littoral(folder: &Path, args: &[&str]) -> Command {
    command(Path::new(env!("CARGO_BIN_EXE_littoral")), folder, args)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn done(folder: &Path, args: &[&str]) -> String {
    printed(&littoral(folder, args).output().unwrap())
}

#[test]
fn readers_share_a_store_and_wait_for_a_writer_when_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    done(folder, &["kv", "create", "s"]);
    let mut load = littoral(folder, &["kv", "load", "s", "-", "--wait"]);
    let mut load = load.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    load.stdin.as_mut().unwrap().write_all(b"a\t1\n").unwrap();
    // The writer has the store once a reader is refused.
    let refusal = loop {
        let output = littoral(folder, &["kv", "get", "s", "a"]).output().unwrap();
        if output.status.code() == Some(3) {
            break text(&output.stderr);
        }
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    };
    assert!(refusal.contains("--wait") && refusal.contains('s'), "{refusal}");
    let refused = littoral(folder, &["kv", "put", "s", "b", "2"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    let reader = |verb| {
        let mut command = littoral(folder, &["kv", verb, "s", "--wait", "--cache", "1MiB"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let readers = ["scan", "dump", "scan"].map(reader);
    let mut writer = littoral(folder, &["kv", "put", "s", "b", "2", "--wait"]).spawn().unwrap();
    drop(load.stdin.take());
    assert!(load.wait().unwrap().success() && writer.wait().unwrap().success());
    for reader in readers {
        let seen = printed(&reader.wait_with_output().unwrap());
        assert!(["a\t1\n", "a\t1\nb\t2\n"].contains(&seen.as_str()), "{seen}");
    }
    assert_eq!(done(folder, &["kv", "dump", "s"]), "a\t1\nb\t2\n");
}

/// The program where any user can start it.
fn startable(folder: &Path) -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_littoral"));
    match Command::new(&program).arg("--version").uid(OTHER_USER).gid(OTHER_USER).output() {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            let copy = folder.join("littoral");
            fs::copy(&program, &copy).unwrap();
            copy
        }
        _ => program,
    }
}

/// Root is let through whatever the permissions say, so its test reads as another user.
#[test]
fn a_user_who_may_only_read_reads() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    done(folder, &["kv", "create", "s"]);
    done(folder, &["kv", "put", "s", "a", "1"]);
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let program = startable(folder);
    let mode = |path: &Path, bits| fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
    mode(folder, 0o755);
    mode(&folder.join("s"), 0o555);
    mode(&folder.join("s/zones"), 0o444);
    let run = |args: &[&str]| {
        let mut command = command(&program, folder, args);
        if is_root {
            command.uid(OTHER_USER).gid(OTHER_USER);
        }
        command.output().unwrap()
    };
    assert_eq!(printed(&run(&["kv", "get", "s", "a"])), "1\n");
    assert_eq!(printed(&run(&["kv", "scan", "s", "--wait"])), "a\t1\n");
    assert!(printed(&run(&["kv", "check", "s"])).contains("Every invariant holds"));
    let refused = run(&["kv", "put", "s", "b", "2"]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    mode(&folder.join("s"), 0o111);
    assert_eq!(printed(&run(&["kv", "get", "s", "a"])), "1\n", "a directory that is not listed");
    mode(&folder.join("s"), 0o755);
}
