//! Stores in files that are damaged.
//!
//! - One flipped bit anywhere is refused with its place or harmless, never a wrong answer;
//!   `LITTORAL_FLIP_ONE_OF=1 LITTORAL_FLIP_RECORDS=900` flips as many as the repro.
//! - Superblocks, redo parts, pages, headers and zone records that verify and were never written:
//!   any answer but a panic. `littoral repro zbtree --only store.hostile` runs ten thousand of them
//!   and a million with `--paper`; here `LITTORAL_HOSTILE_IMAGES=10000` asks for as many.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_assure::index::damage::{Answer, Part, Sample};
use littoral_base::rng::Rng as _;
use littoral_index::index::Engine;

/// A number that the environment gives, or else the one that the suite has time for.
fn asked(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |n| n.parse().unwrap())
}

/// A store that every test here calls killed must not have been closed on the way.
#[test]
fn a_killed_sample_has_groups_behind_the_first_and_a_closed_one_has_none() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        for seed in 1..8 {
            let made = [true, false].map(|is_closed| {
                let path = dir.path().join(format!("{}-{is_closed}-{seed}", engine.name()));
                Sample::create(&path, engine, 160, is_closed, seed).unwrap()
            });
            let [closed, killed] = made.each_ref().map(Sample::later_groups);
            assert!(closed == 0 && killed >= 1, "{engine:?}, seed {seed}: {closed}, {killed}");
        }
    }
}

#[test]
fn crafted_images_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        for is_closed in [true, false] {
            let path = dir.path().join(format!("{}-{is_closed}", engine.name()));
            let sample = Sample::create(&path, engine, 160, is_closed, 11).unwrap();
            for n in 0..asked("LITTORAL_HOSTILE_IMAGES", 400) as u64 / 2 {
                assert!(sample.craft(n).unwrap(), "{engine:?}, closed {is_closed}: image {n}");
            }
        }
    }
}

#[test]
fn one_bit_in_every_64_bytes_is_refused_or_harmless_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        for is_closed in [true, false] {
            let path = dir.path().join(format!("{}-{is_closed}", engine.name()));
            let records = asked("LITTORAL_FLIP_RECORDS", 160) as u32;
            let sample = Sample::create(&path, engine, records, is_closed, 5).unwrap();
            // A prime stride, so that every kind of field is met; the repro walks all of them.
            let report = sample.flip_every(64, asked("LITTORAL_FLIP_ONE_OF", 7)).unwrap();
            println!("{engine:?}, closed {is_closed}: {report:?}");
            let at = format!("{engine:?}, closed {is_closed}: {report:?}");
            assert!(report.flips > 100 && report.right > 0 && report.refused > 0, "{at}");
            assert_eq!((report.wrong, report.panics), (0, 0), "{at}");
            assert_eq!(report.repaired, report.flips, "{at}");
        }
    }
}

/// The scripts of the fuzz targets reach every kind of unit and leave the store as it was.
#[test]
fn forged_units_never_panic_and_are_put_back() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let at = dir.path().join(engine.name());
        let sample = Sample::create(&at, engine, 120, false, 3).unwrap();
        let mut rng = littoral_base::rng::seeded(8);
        for part in [Part::File, Part::Superblock, Part::Redo, Part::Page] {
            for _ in 0..40 {
                let script: Vec<u8> = (0..32).map(|_| rng.random()).collect();
                sample.forge(part, &script).unwrap();
            }
        }
        assert_eq!(sample.answer().unwrap(), Answer::Right, "{engine:?}");
    }
}

/// The judge itself: a store that answers with an old state must be called wrong.
#[test]
fn the_judge_calls_a_lost_record_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let mut sample = Sample::create(&dir.path().join("zb"), Engine::Zb, 40, true, 5).unwrap();
    assert_eq!(sample.answer().unwrap(), Answer::Right);
    sample.expect_one_more();
    assert!(matches!(sample.answer().unwrap(), Answer::Wrong(_)));
}
