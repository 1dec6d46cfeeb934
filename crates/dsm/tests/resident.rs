//! Memory of copies and twins goes back to the system. A binary of its own: nothing else takes
//! memory meanwhile.

#![allow(clippy::unwrap_used)]

#[path = "common/pages.rs"]
mod pages;
mod support;

use littoral_dsm::runtime::CACHE_MIN;
use pages::{MIB, least, write_and_read};
use support::{Over, run_with};

/// Memory of this process, each page of it once however often it is mapped.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find(|line| line.starts_with("Pss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Both ranks are threads of this process: the home's 24 MiB, the limit of rank 1, and for each
/// rank 16 MiB for what is under way and what allocators keep. Without the limit there would be
/// 24 MiB of copies, of twins and of differences each.
#[test]
fn memory_of_copies_and_twins_is_given_back() {
    let before = resident();
    let after = run_with(Over::ShmPages, 2, least, |mut job| {
        write_and_read(&mut job);
        let after = resident();
        job.finish().unwrap();
        after
    });
    let grown = after.iter().map(|bytes| bytes.saturating_sub(before) / MIB).max().unwrap();
    let allowed = 24 + CACHE_MIN / MIB + 2 * 16;
    assert!(grown <= allowed, "{grown} MiB more than before, and {allowed} are enough");
}
