//! The table of odd edge lists: `cargo test -p littoral-graph --test import_table -- --nocapture`
//! prints how many of them are read wrongly.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;

use littoral_graph::import::cases::{count, wrong};

#[test]
fn odd_files_give_the_right_graph_or_a_refusal_in_place() {
    let scratch = tempfile::tempdir().unwrap();
    let list = wrong(scratch.path()).unwrap();
    writeln!(std::io::stdout(), "import.wrong {} of {}", list.len(), count()).unwrap();
    assert!(list.is_empty(), "\n{}", list.join("\n"));
    assert!(count() >= 60, "{} cases", count());
}
