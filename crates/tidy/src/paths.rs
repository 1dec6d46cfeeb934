//! Paths that documents and comments name exist: `crates/...`, `docs/...`, `scripts/...`,
//! `examples/...`, `fuzz/...` between backticks, from the root of the repository.
//!
//! - What follows a space or a colon in the backticks is arguments or a line. A part with a
//!   placeholder (`NAME`, `<name>`, `*`, `vN`) ends what is looked for.
//! - The changelog is left out: it tells of files that were removed since.
//! - A format's row in CONTRIBUTING names the versions that are committed as fixtures.

use std::collections::BTreeSet;

use crate::{Finding, Tree};

const ROOTS: &[&str] = &["crates/", "docs/", "scripts/", "examples/", "fuzz/"];
const ROADS: &str = "CONTRIBUTING.md";

/// Named paths that do not exist, and versions of formats without fixtures.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files(|p| p.ends_with(".md") && p != "CHANGELOG.md");
    let code = tree.rust().filter(|(p, _)| !p.starts_with("crates/tidy/"));
    let mut findings = Vec::new();
    for (path, text) in pages.chain(code) {
        let is_code = path.ends_with(".rs");
        for (n, line) in (1..).zip(text.lines()) {
            if is_code && !line.trim_start().starts_with("//") {
                continue;
            }
            let absent = named(line).filter(|p| !tree.holds(p));
            findings.extend(
                absent.map(|p| {
                    Finding::new("path", format!("{path}:{n}"), format!("there is no {p}"))
                }),
            );
        }
    }
    findings.extend(check_formats(tree));
    findings
}

/// The paths between a line's backticks.
fn named(line: &str) -> impl Iterator<Item = String> {
    let ticked = line.split('`').skip(1).step_by(2);
    let paths = ticked.filter(|t| ROOTS.iter().any(|r| t.starts_with(r)));
    paths.map(|t| {
        let path = t.split([' ', ':']).next().unwrap_or(t);
        let parts: Vec<&str> = path.split('/').take_while(|p| !is_placeholder(p)).collect();
        parts.join("/").trim_end_matches('/').to_owned()
    })
}

fn is_placeholder(part: &str) -> bool {
    let capitals = |p: &str| p.len() > 1 && p.chars().all(|c| c.is_ascii_uppercase() || c == '-');
    let stem = part.split('.').next().unwrap_or(part);
    part.contains(['<', '*', '{', '$']) || capitals(stem) || part == "vN"
}

/// A row "| format | `CRATE`, `TEST` | VERSIONS |" against `crates/CRATE/tests/fixtures`.
fn check_formats(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(ROADS) else { return Vec::new() };
    let mut findings = Vec::new();
    for (n, line) in (1..).zip(page.lines()) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [_, place, versions] = cells[..] else { continue };
        let folder = place.split('`').nth(1).map(|c| format!("crates/{c}/tests/fixtures/v"));
        let numbers = versions.split([',', ';']).map(|v| v.trim().parse::<u32>());
        let (Some(folder), Ok(told)) = (folder, numbers.collect::<Result<BTreeSet<_>, _>>()) else {
            continue;
        };
        let held = tree.files(|p| p.starts_with(&folder)).filter_map(|(p, _)| version(p, &folder));
        let held: BTreeSet<u32> =
            held.chain(tree.binaries(&folder).filter_map(|p| version(p, &folder))).collect();
        if held != told {
            let what = format!("names versions {told:?}; {folder}N are {held:?}");
            findings.push(Finding::new("format", format!("{ROADS}:{n}"), what));
        }
    }
    findings
}

fn version(path: &str, folder: &str) -> Option<u32> {
    path.strip_prefix(folder)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_up_to_their_placeholder() {
        for (line, wanted) in [
            ("see `crates/a/src/x.rs:12` and `b`", vec!["crates/a/src/x.rs"]),
            ("`scripts/fuzz.sh 60`, `docs/<page>`", vec!["scripts/fuzz.sh", "docs"]),
            ("`crates/CRATE/tests` `crates/a/NAME.toml`", vec!["crates", "crates/a"]),
            ("crates/a is no code, `cratesX/b` no path", vec![]),
        ] {
            assert_eq!(named(line).collect::<Vec<_>>(), wanted, "{line}");
        }
    }
}
