//! Random instructions and random blocks against QEMU's LoongArch user mode.
//!
//! `LA64_QEMU` names it (or `qemu-loongarch64` in PATH, version 9 or later: older ones lack LASX);
//! `LA64_FUZZ_WORDS` sets how many words are tried, `LA64_FUZZ_SEED` from which seed. Without QEMU
//! the test says loudly that nothing was compared. Explained differences are masked by `Report`.

#![cfg(unix)]

use littoral_assure::la64::{BATCH, Case, Cases, Ours, Report, Shape, runner, soak};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn random_instructions_agree_with_qemu() {
    let qemu = std::env::var("LA64_QEMU").unwrap_or("qemu-loongarch64".into());
    if Command::new(&qemu).arg("--version").output().is_err() {
        let why = "NOT COMPARED: no QEMU for LoongArch (set LA64_QEMU), \
                   see crates/la64-linux/scripts/qemu-user.sh";
        // Past the test runner's capture, so that a skip cannot read as a pass.
        return writeln!(std::io::stderr(), "{why}").expect("stderr");
    }
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = dir.path().join("runner");
    std::fs::write(&program, runner::program()).expect("write runner");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let command = || {
        let mut command = Command::new(&qemu);
        command.args(["-cpu", "max"]).arg(&program);
        command
    };
    let words = number("LA64_FUZZ_WORDS", 100_000);
    let report = soak(number("LA64_FUZZ_SEED", 1), words, command).expect("QEMU runs the runner");
    assert!(report.words >= words);
    let list = report.describe().join("\n");
    assert!(list.is_empty(), "{} of {} differ:\n{list}", report.unexplained(), report.compared);
}

/// What a comparison of our results with damaged copies of them finds.
fn damaged(shape: Shape) -> Report {
    let (mut cases, mut ours, mut report) =
        (Cases::new(5, shape), Ours::default(), Report::default());
    for n in 0..BATCH {
        let before = cases.case();
        let after = ours.execute(&before);
        let mut other: Case = after.clone();
        // Register 9 of the general ones: nothing explains a difference there.
        other.0[8 + 8 * 9 + n % 8] ^= 1;
        report.compare(&before, &after, &other);
    }
    report
}

#[test]
fn a_difference_is_noticed() {
    for shape in [Shape::Single, Shape::Block] {
        let report = damaged(shape);
        assert_eq!((report.compared, report.unexplained()), (BATCH as u64, BATCH as u64));
    }
}

#[test]
fn the_same_seed_gives_the_same_cases() {
    for shape in [Shape::Single, Shape::Block] {
        let of = |seed| {
            let mut cases = Cases::new(seed, shape);
            (0..BATCH).map(|_| cases.case().0).collect::<Vec<_>>()
        };
        assert!(of(5) == of(5) && of(5) != of(7), "{shape:?}");
    }
}
