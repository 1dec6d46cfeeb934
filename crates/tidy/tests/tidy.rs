//! The house rules over this repository: an empty list of findings, or the test fails with the
//! list. `cargo test -p littoral-tidy -- --nocapture` prints the figures of the house.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use littoral_tidy::{Tree, circles, invariants, words};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What the house looks like, as counts; [`the_tree_keeps_the_house_rules`] holds the limits.
#[test]
fn the_figures_of_the_house_are_printed() {
    let tree = Tree::read(&root()).unwrap();
    println!("house.circles = {} (count)", circles::find(&tree).len());

    let promises = invariants::promises(&tree);
    let all: usize = promises.values().map(|p| p.bullets).sum();
    let unchecked: usize = promises.values().map(|p| p.unchecked).sum();
    println!("house.invariants = {all} (count), of these without a named check: {unchecked}");
    for (package, p) in promises.iter().filter(|(_, p)| p.unchecked > 0) {
        println!("  {package}: {} of {}", p.unchecked, p.bullets);
    }
    assert!(all > 100, "the rule sees the headers' invariants");
    println!("house.assertions per function:");
    for (package, d) in invariants::densities(&tree) {
        let share = d.assertions as f64 / d.functions.max(1) as f64;
        println!("  {package}: {share:.3} ({} in {} functions)", d.assertions, d.functions);
    }
    println!("house.private_references = {} (count)", words::private(&tree).len());
    let lines: Vec<(&str, usize)> =
        words::WORDS.iter().map(|(word, _)| (*word, words::lines_with(&tree, word))).collect();
    println!("house.words = {} (lines)", lines.iter().map(|(_, n)| n).sum::<usize>());
    lines.iter().filter(|(_, n)| *n > 0).for_each(|(word, n)| println!("  {word}: {n}"));
}

#[test]
fn the_tree_keeps_the_house_rules() {
    let root = root();
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let findings = littoral_tidy::check(&root, std::str::from_utf8(&metadata.stdout).unwrap());
    let findings = findings.unwrap();
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let of = |rule: &str| findings.iter().filter(|f| f.rule == rule).count();
    let rules =
        ["layers", "circle", "clock", "invariant", "fn-length", "file-length", "private", "word"];
    for rule in rules.iter().chain(&["unused-dependency"]) {
        println!("house.findings.{rule} = {} (count)", of(rule));
    }
    assert!(list.is_empty(), "{} findings:\n{}", list.len(), list.join("\n"));
}
