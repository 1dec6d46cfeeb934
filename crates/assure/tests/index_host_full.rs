//! A store whose host has no room left.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_assure::index::host_full::{Case, host_full, words};
use littoral_index::index::Engine;

/// In memory where the system has such a place: the stores are flushed at every change.
fn folder() -> tempfile::TempDir {
    let shared = std::path::Path::new("/dev/shm");
    if shared.is_dir() {
        tempfile::tempdir_in(shared).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

#[test]
fn deletions_go_on_when_the_host_is_full_and_room_comes_back() {
    let dir = folder();
    for engine in [Engine::Zb, Engine::Cow] {
        let told = host_full(&dir.path().join(engine.name()), engine, Case::SMALL, 1).unwrap();
        println!("{}", words(engine, &told));
        assert!(told.is_served(), "{}", words(engine, &told));
    }
}

/// Deletions all over a device of many zones leave a little garbage in each: in all of them more
/// than the store keeps of the host, and in none enough to be worth emptying while there is room.
#[test]
fn deletions_spread_over_many_zones_go_on_when_the_host_is_full() {
    let dir = folder();
    for engine in [Engine::Zb, Engine::Cow] {
        let told = host_full(&dir.path().join(engine.name()), engine, Case::SPREAD, 1).unwrap();
        println!("{}", words(engine, &told));
        assert!(told.is_served(), "{}", words(engine, &told));
    }
}
