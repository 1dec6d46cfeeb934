//! Lists of mutants: each entry of `scripts/mutants-equivalent.txt` names a line that the source
//! still has, and gives a reason.
//!
//! - An entry is a line `FILE: WHAT`, a line `@ SOURCE LINE` and at least one indented line.
//! - That cargo-mutants still makes the change is checked by `scripts/cargo-mutants.sh list`; this
//!   rule needs no tool.

use crate::{Finding, Tree};

/// Where the list is.
const LIST: &str = "scripts/mutants-equivalent.txt";

/// Entries whose source line has gone or that give no reason.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(LIST) else { return Vec::new() };
    let lines: Vec<(usize, &str)> = (1..).zip(text.lines()).collect();
    let entries = lines.iter().enumerate().filter(|(_, (_, l))| l.starts_with("crates/"));
    entries
        .filter_map(|(at, &(number, what))| breach(tree, number, what, &lines[at + 1..]))
        .collect()
}

fn breach(tree: &Tree, number: usize, what: &str, rest: &[(usize, &str)]) -> Option<Finding> {
    let find =
        |words: String| Some(Finding::new("mutants-list", format!("{LIST}:{number}"), words));
    let (file, _) = what.split_once(": ").unwrap_or((what, ""));
    let Some(source) = tree.text(file) else { return find(format!("{file} is not in the tree")) };
    let Some(line) = rest.first().and_then(|(_, l)| l.strip_prefix("@ ")) else {
        return find("the next line must be `@ ` with the source line".to_owned());
    };
    if !source.lines().any(|l| l.trim_start() == line) {
        return find(format!("{file} no longer has the line `{line}`"));
    }
    let reason = rest.get(1).is_some_and(|(_, l)| l.starts_with(' ') && !l.trim().is_empty());
    if reason { None } else { find("gives no reason in an indented line".to_owned()) }
}
