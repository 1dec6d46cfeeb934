//! Rules on plain text: ASCII in code, line width, leftover markers, words that must not be
//! committed, configurations of property tests.
//!
//! - Code may hold one non-ASCII character, the micro sign, which users type.
//! - Machine paths say where somebody worked, not how the software works; they are never committed.
//! - `Cargo.lock` names the public registry only.

use crate::{Finding, Tree};

/// Most columns of a line of Rust.
pub const COLUMNS_MAX: usize = 100;

const MICRO_SIGNS: [char; 2] = ['\u{b5}', '\u{3bc}'];

/// Markers of unfinished work, spelt in two halves so that this file does not hold them.
const LEFTOVERS: &[&str] = &[concat!("FIX", "ME"), concat!("TO", "DO"), concat!("X", "XX")];

/// Places on somebody's machine.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tm", "p/t/"),
    concat!("/Us", "ers/"),
];

/// Whose configurations property tests have.
const SEEDS: &str = "littoral_testing::";

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Breaches of the text rules.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust() {
        findings.extend(numbered(text).filter_map(|(n, line)| check_code_line(path, n, line)));
        findings.extend(check_property_tests(path, text));
    }
    for (path, text) in tree.files(|_| true) {
        findings.extend(numbered(text).filter_map(|(n, line)| check_any_line(path, n, line)));
    }
    findings.extend(check_lock(tree));
    findings
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, line))
}

fn check_code_line(path: &str, n: usize, line: &str) -> Option<Finding> {
    let place = format!("{path}:{n}");
    if let Some(c) = line.chars().find(|c| !c.is_ascii() && !MICRO_SIGNS.contains(c)) {
        return Some(Finding::new("ascii", place, format!("non-ASCII character {c:?} in code")));
    }
    let columns = line.chars().count();
    let body = line.trim_start();
    // A table's row cannot be broken, nor can an address.
    let comment =
        body.starts_with("//") && !body.starts_with("//! |") && !body.starts_with("/// |");
    (comment && columns > COLUMNS_MAX && !line.contains("http"))
        .then(|| Finding::new("columns", place, format!("{columns} columns; at most 100")))
}

/// Without a configuration of `littoral_testing` a failing case rewrites a committed file of seeds.
fn check_property_tests<'a>(path: &'a str, text: &'a str) -> impl Iterator<Item = Finding> + 'a {
    let next = text.lines().skip(1).chain([""]);
    let lines = numbered(text).zip(next);
    let starts = lines.filter(|((_, line), _)| line.trim() == "proptest! {");
    let bare =
        starts.filter(|(_, next)| !next.contains("proptest_config(") || !next.contains(SEEDS));
    bare.map(move |((n, _), _)| {
        let what = "begin the block with #![proptest_config(littoral_testing::cases(N))]";
        Finding::new("proptest-config", format!("{path}:{n}"), what)
    })
}

fn check_any_line(path: &str, n: usize, line: &str) -> Option<Finding> {
    let place = || format!("{path}:{n}");
    if let Some(word) = LEFTOVERS.iter().find(|w| has_word(line, w)) {
        return Some(Finding::new(
            "leftover",
            place(),
            format!("the marker {word} was left behind"),
        ));
    }
    let found = MACHINE_PATHS.iter().find(|p| line.contains(**p))?;
    Some(Finding::new("machine-path", place(), format!("names the machine path {found}")))
}

fn has_word(line: &str, word: &str) -> bool {
    let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(i, _)| {
        edge(line[..i].chars().next_back()) && edge(line[i + word.len()..].chars().next())
    })
}

fn check_lock(tree: &Tree) -> Vec<Finding> {
    let Some(lock) = tree.text("Cargo.lock") else {
        return vec![Finding::new("registry", "Cargo.lock", "is missing; commit it")];
    };
    let sources = numbered(lock).filter_map(|(n, l)| Some((n, l.strip_prefix("source = ")?)));
    sources
        .filter(|(_, source)| source.trim_matches('"') != REGISTRY)
        .map(|(n, source)| {
            let what = format!("{source} is not the public registry");
            Finding::new("registry", format!("Cargo.lock:{n}"), what)
        })
        .collect()
}
