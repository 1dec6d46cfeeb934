//! Jobs whose launcher and ranks are processes of a test's own binary.
//!
//! Such a binary has an ordinary test called `process`, which passes at once unless the environment
//! says what it is to be: [`be_a_rank`] first, then the launcher of what [`launched`] names.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::process::{Command, ExitCode, Output, Stdio};

use littoral_dsm::launch::{Fabric, Plan};

const LAUNCH: &str = "DSM_TEST_LAUNCH";
const PROGRAM: &str = "DSM_TEST_PROGRAM";
const OWN: [&str; 3] = ["--exact", "process", "--nocapture"];

/// In a rank's process: runs the program it was started for and ends.
pub(crate) fn be_a_rank(run: impl FnOnce(&[String]) -> ExitCode) {
    if std::env::var_os("LITTORAL_DSM_RANK").is_some() {
        let line = std::env::var(PROGRAM).unwrap();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let code = run(&words);
        std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 1 });
    }
}

/// In a launcher's process: what it is to launch.
pub(crate) fn launched() -> Option<String> {
    std::env::var(LAUNCH).ok()
}

/// A launcher's process that finds `what` in [`launched`], its ranks running `program`; what they
/// say is captured.
pub(crate) fn launcher(what: &str, program: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(OWN).env(LAUNCH, what).env(PROGRAM, program);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A job of this binary's own processes.
pub(crate) fn plan(ranks: u16, fabric: Fabric, bytes_max: usize) -> Plan {
    Plan {
        ranks,
        fabric,
        hosts: None,
        pool: None,
        program: std::env::current_exe().unwrap().into(),
        arguments: OWN.map(Into::into).to_vec(),
        bytes_max,
        variables: vec![],
    }
}

pub(crate) fn say(line: &str) {
    let said = writeln!(std::io::stderr(), "{line}");
    said.unwrap();
}

pub(crate) fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}
