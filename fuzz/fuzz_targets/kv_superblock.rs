//! Superblocks of a real store, changed and sealed again: any answer but a panic.
//!
//! An input is a list of {which unit, where in it, four bytes}; the unit's checksum is made good,
//! so that the checks behind the checksums are reached. The store is left as a kill leaves it.
//!
//! Canary: before the first input the whole store must answer right, and of single flipped bits
//! some must be refused and none answered wrongly; a harness that reaches nothing is red at once.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_assure::index::damage::{Part, Sample};
use littoral_index::index::Engine;

static STORE: LazyLock<(tempfile::TempDir, Sample)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a folder");
    let sample = Sample::create(&dir.path().join("store"), Engine::Zb, 160, false, 3);
    let sample = sample.expect("a store");
    assert!(sample.is_judged_rightly().expect("the file can be changed"), "canary");
    (dir, sample)
});

fuzz_target!(|data: &[u8]| {
    let sample = &STORE.1;
    sample.forge(Part::Superblock, data).expect("the file can be changed");
});
