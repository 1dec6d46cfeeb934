//! Random MIPS64 programs on the exact interpreter, the translator's oracle, and on QEMU's user
//! mode.
//!
//! `MIPS64_QEMU` names it (or `qemu-mips64el` in PATH); `LITTORAL_CASES_TIMES` multiplies the
//! number of programs. Without QEMU the tests say loudly that nothing was compared. What is taken
//! out of programs and not compared is listed in `littoral_assure::xlate::mips64::qemu`.

#![cfg(unix)]

use littoral_assure::xlate::mips64::qemu::{canary, judge};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// QEMU, or loud words that the test of this name was not run.
fn qemu(test: &str) -> Option<PathBuf> {
    let qemu = PathBuf::from(std::env::var("MIPS64_QEMU").unwrap_or("qemu-mips64el".into()));
    if Command::new(&qemu).arg("--version").output().is_ok() {
        return Some(qemu);
    }
    let why = "no QEMU for MIPS64 (set MIPS64_QEMU), see crates/la64-linux/scripts/qemu-user.sh";
    // Past the test runner's capture, so that a skip cannot read as a pass.
    writeln!(std::io::stderr(), "NOT COMPARED: {test}: {why}").expect("stderr");
    None
}

#[test]
fn random_programs_end_as_on_qemu() {
    const PROGRAMS: u64 = 3000;
    let Some(qemu) = qemu("random_programs_end_as_on_qemu") else { return };
    let times = std::env::var("LITTORAL_CASES_TIMES").ok().and_then(|t| t.parse().ok());
    let dir = tempfile::tempdir().expect("temporary directory");
    let programs = PROGRAMS * times.unwrap_or(1);
    let verdict = judge(&qemu, dir.path(), 64, programs).expect("QEMU runs the programs");
    println!(
        "latm.qemu: {} of {} programs differ, {} instructions; {} set aside",
        verdict.different, verdict.programs_count, verdict.instructions_count, verdict.set_aside
    );
    assert_eq!(verdict.different, 0, "{}", verdict.first.unwrap_or_default());
    assert!(verdict.programs_count > programs / 2, "{verdict:?}");
}

#[test]
fn a_wrong_bit_is_noticed() {
    let Some(qemu) = qemu("a_wrong_bit_is_noticed") else { return };
    let dir = tempfile::tempdir().expect("temporary directory");
    let verdict = canary(&qemu, dir.path(), 65, 70).expect("QEMU runs the programs");
    assert_eq!(verdict.different, verdict.programs_count);
    assert!(verdict.programs_count > 35, "{verdict:?}");
}
