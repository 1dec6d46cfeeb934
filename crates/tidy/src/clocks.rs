//! Engines ask no clock of the operating system: they take a clock, or a device that has one.
//!
//! - [`ENGINES`] are the crates that the rule holds. A call of [`CALLS`] in their sources is a
//!   finding, in tests too.
//! - [`EXEMPT`] lists the files that may make one, each with the reason, which the engine's design
//!   page gives in full. A row that no file needs is a finding.

use crate::{Finding, Tree};

/// Folders of the engines.
const ENGINES: &[&str] = &["store", "index", "stm", "graph", "dsm", "push", "xlate"];

/// What reads the operating system's clock or waits by it.
const CALLS: &[&str] = &["Instant::now", "SystemTime::now", "thread::sleep"];

/// Files that may, and why (`docs/design/dsm-runtime.md`, "Clocks"; the file's header).
pub const EXEMPT: &[(&str, &str)] = &[
    ("crates/dsm/src/runtime/engine.rs", "a peer's silence is measured in wall time"),
    ("crates/dsm/src/runtime/carrier.rs", "waits of a rank on real fabrics have time limits"),
    ("crates/dsm/src/runtime/mod.rs", "the service thread looks at its peers now and then"),
    ("crates/dsm/src/launch/run.rs", "the launcher watches processes"),
    ("crates/dsm/src/virtual_time/conductor.rs", "a run that stands still is ended"),
    ("crates/push/src/api/remote.rs", "a host waits for a server that is starting"),
];

/// Calls outside the list, and rows that are not needed.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = Vec::new();
    let is_engine =
        |path: &str| ENGINES.iter().any(|e| path.starts_with(&format!("crates/{e}/src/")));
    for (path, text) in tree.rust().filter(|(path, _)| is_engine(path)) {
        let code = (1..).zip(text.lines()).filter(|(_, l)| !l.trim_start().starts_with("//"));
        for (n, line) in code {
            let Some(call) = CALLS.iter().find(|c| line.contains(**c)) else { continue };
            needed.push(path);
            if !EXEMPT.iter().any(|(file, _)| *file == path) {
                let what = format!("{call} in an engine: take a clock, or give the file a row");
                findings.push(Finding::new("clock", format!("{path}:{n}"), what));
            }
        }
    }
    let idle = EXEMPT.iter().filter(|(file, _)| tree.holds(file) && !needed.contains(file));
    findings.extend(idle.map(|(file, _)| {
        let what = format!("the row of {file} is not needed: remove it");
        Finding::new("clock", "crates/tidy/src/clocks.rs", what)
    }));
    findings
}
