//! Random instructions against QEMU's LoongArch user mode.
//!
//! `LA64_QEMU` names it (or `qemu-loongarch64` in PATH, version 9 or later: older ones lack LASX);
//! `LA64_FUZZ_WORDS` sets how many words are tried. Without QEMU the test says loudly that nothing
//! was compared. Explained differences are masked by `Report`.

#![cfg(unix)]

use littoral_la64::differential::{Case, Cases, Ours, RECORD_LEN, Report, runner};
use littoral_la64::interp::Cache;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

const BATCH: usize = 20_000;

fn words() -> usize {
    std::env::var("LA64_FUZZ_WORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40_000)
}

/// One batch through QEMU; `None` without it.
fn theirs(program: &std::path::Path, cases: &[Case]) -> Option<Vec<Case>> {
    let qemu = std::env::var("LA64_QEMU").unwrap_or("qemu-loongarch64".into());
    let input = tempfile::NamedTempFile::new().expect("temporary file");
    let bytes: Vec<u8> = cases.iter().flat_map(|c| c.0).collect();
    std::fs::write(input.path(), bytes).expect("write cases");
    let file = std::fs::File::open(input.path()).expect("open cases");
    let run =
        Command::new(&qemu).args(["-cpu", "max"]).arg(program).stdin(Stdio::from(file)).output();
    let output = run.ok()?;
    assert!(
        output.status.success(),
        "{qemu}: {} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let record = |bytes: &[u8]| Case(bytes.try_into().expect("whole records"));
    let list: Vec<Case> = output.stdout.chunks(RECORD_LEN).map(record).collect();
    assert_eq!(list.len(), cases.len(), "a record for each case");
    Some(list)
}

#[test]
fn random_instructions_agree_with_qemu() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = dir.path().join("runner");
    std::fs::write(&program, runner::program()).expect("write runner");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let mut cases = Cases::new(1);
    let (mut report, mut ours, mut cache) = (Report::default(), Ours::default(), Cache::default());
    while (report.compared as usize) < words() {
        let batch: Vec<Case> = (0..BATCH).map(|_| cases.case()).collect();
        let Some(theirs) = theirs(&program, &batch) else {
            let why = "NOT COMPARED: no QEMU for LoongArch (set LA64_QEMU): scripts/qemu-user.sh";
            // Past the test runner's capture, so that a skip cannot read as a pass.
            return writeln!(std::io::stderr(), "{why}").expect("stderr");
        };
        for (before, theirs) in batch.iter().zip(&theirs) {
            report.compare(before, &ours.execute(&mut cache, before), theirs);
        }
    }
    let list: Vec<_> =
        report.different.iter().map(|(m, (n, d))| format!("{m} ({n}): {d}")).collect();
    assert!(
        list.is_empty(),
        "{} of {} differ:\n{}",
        report.unexplained(),
        report.compared,
        list.join("\n")
    );
}
