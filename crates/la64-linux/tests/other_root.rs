//! The engine in a root that holds nothing but itself and its programs: neither libraries nor
//! `/proc`. `LA64_STATIC` names an engine built without shared libraries (see scripts/static.sh).

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;
use std::path::PathBuf;
use std::process::Command;

const EXECVE: i64 = 221;

/// `chroot`, in a namespace where anyone may use it unless we are root.
fn chroot() -> Command {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    if id.stdout.trim_ascii() == b"0" {
        return Command::new("chroot");
    }
    let mut command = Command::new("unshare");
    command.args(["-r", "chroot"]);
    command
}

#[test]
fn programs_start_each_other_in_a_bare_root() {
    let Some(engine) = std::env::var_os("LA64_STATIC").map(PathBuf::from) else {
        use std::io::Write as _;
        let why = "NOT RUN: no static engine (set LA64_STATIC); see scripts/static.sh";
        return writeln!(std::io::stderr(), "{why}").expect("stderr");
    };
    let dir = tempfile::tempdir().expect("temporary directory");
    std::fs::copy(&engine, dir.path().join("la64")).expect("copy");
    let path = |name: &[u8; 8]| [u64::from_le_bytes(*name), 0];
    let mut asm = Asm::default();
    asm.address(A0, "second").address(A1, "argv").op("st.d", &[A0, A1, 0]);
    asm.op("ori", &[A2, 0, 0]).call(EXECVE).exit(11);
    asm.data("second", &path(b"/second\0")).data("argv", &[0, 0]);
    write_program(&dir.path().join("first"), &asm.file());
    write_program(&dir.path().join("second"), &Asm::default().exit(7).file());
    for arguments in [["/la64", "run", "/first"], ["/la64", "run", "/second"]] {
        let output = chroot().arg(dir.path()).args(arguments).output().expect("chroot runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{arguments:?}: {text}");
    }
}
