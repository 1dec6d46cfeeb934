//! A store whose host has no room left.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_assure::index::host_full::{host_full, words};
use littoral_index::index::Engine;

#[test]
fn deletions_go_on_when_the_host_is_full_and_room_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let told = host_full(&dir.path().join(engine.name()), engine, 1).unwrap();
        println!("{}", words(engine, &told));
        assert!(told.is_served(), "{}", words(engine, &told));
    }
}
