//! The house rules over this repository: an empty list of findings, or the test fails with the
//! list.

use std::path::Path;
use std::process::Command;

#[test]
fn circles_that_wait_to_be_untied_are_listed() {
    let rows = littoral_tidy::circles::still_tied();
    println!("house.circles.tied = {} (count), to be untied:", rows.len());
    rows.iter().for_each(|row| println!("  {row}"));
    // The list only gets shorter: fifteen circles stood when it was made.
    assert!(rows.len() <= 15, "a circle is untied, not listed");
}

#[test]
fn the_tree_keeps_the_house_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let findings = littoral_tidy::check(&root, std::str::from_utf8(&metadata.stdout).unwrap());
    let findings = findings.unwrap();
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} findings:\n{}", list.len(), list.join("\n"));
}
