//! Making a store: one of two that make it at once, and nothing left where it fails.

#![cfg(feature = "index")]
#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod small;

use std::path::Path;
use std::sync::Barrier;

use littoral::kv::{self, Access, Engine, New};
use littoral::machine::Machine;
use littoral_index::Kind;

use small::small;

/// The key or value of a number.
fn word(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A machine with one zoned device on the file `zones` of `folder`.
fn machine(folder: &Path, conventional_zones: u32) -> Machine {
    let (path, file) = (folder.join("zones"), folder.join("machine.toml"));
    let text = format!(
        "schema = \"littoral.machine/1\"\n[device.z]\nkind = \"zoned\"\nmedium = 'file:{}'\n\
         block_bytes = 4096\nzones = 8\nconventional_zones = {conventional_zones}\n\
         zone_size = \"512KiB\"\n",
        path.display()
    );
    std::fs::write(&file, text).unwrap();
    Machine::open(Some(&file)).unwrap()
}

#[test]
fn of_two_creations_of_one_directory_one_makes_the_store() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..40u64 {
        let (at, start) = (dir.path().join(round.to_string()), Barrier::new(2));
        let make = |value: u64| {
            start.wait();
            let mut kv = kv::create_file(&at, &small(Engine::Zb))?;
            kv.put(&word(round), &word(value))?;
            kv.close()?;
            littoral_index::Result::Ok(value)
        };
        let made = std::thread::scope(|scope| {
            [1, 2].map(|value| scope.spawn(move || make(value))).map(|made| made.join().unwrap())
        });
        let made: Vec<u64> = made
            .into_iter()
            .filter_map(|made| {
                // It met the other one at work, or its store.
                let is_refusal = |kind| matches!(kind, Kind::Busy | Kind::Exists);
                made.map_err(|e| assert!(is_refusal(e.kind()), "{e}")).ok()
            })
            .collect();
        assert_eq!(made.len(), 1, "round {round}");
        let kv = kv::open(&at, Access::Read).unwrap();
        assert_eq!(kv.get(&word(round)).unwrap(), Some(word(made[0]).to_vec()));
    }
}

#[test]
fn a_restore_or_repair_that_does_not_fit_leaves_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let (source, saved) = (dir.path().join("source"), dir.path().join("saved"));
    let new = New { id: 9, ..New::default() };
    let mut kv = kv::create(&source, &new).unwrap();
    kv.fill(|put| (0..200_000u64).try_for_each(|n| put(&word(n), &word(n)))).unwrap();
    kv::backup(&kv, &saved).unwrap();
    kv.close().unwrap();
    let tight = |folder: &Path| {
        std::fs::create_dir(folder).unwrap();
        New { machine: Some(machine(folder, 1)), ..new.clone() }
    };
    let (restored, repaired) = (dir.path().join("restored"), dir.path().join("repaired"));
    let restore = tight(&dir.path().join("a"));
    assert_eq!(kv::restore(&saved, &restored, &restore).unwrap_err().kind(), Kind::Full);
    let repair = tight(&dir.path().join("b"));
    assert_eq!(kv::repair(&source, &repaired, &repair).unwrap_err().kind(), Kind::Full);
    for (at, folder) in [(restored, "a"), (repaired, "b")] {
        assert_eq!(kv::open(&at, Access::Read).unwrap_err().kind(), Kind::Io);
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0);
        assert!(!dir.path().join(folder).join("zones").exists(), "its device goes with it");
    }
}

#[test]
fn a_failed_creation_on_a_file_does_not_keep_its_geometry() {
    let dir = tempfile::tempdir().unwrap();
    let create = |zones: u32| {
        let new = New { machine: Some(machine(dir.path(), zones)), id: 9, ..New::default() };
        kv::create(&dir.path().join("store"), &new)
    };
    assert_eq!(create(0).unwrap_err().kind(), Kind::Unsupported);
    create(1).unwrap().close().unwrap();
}

#[test]
fn a_creation_that_cannot_name_its_device_leaves_none() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("store");
    // A folder where the name is drafted: it cannot be written.
    let taken = at.join("device.toml.new");
    std::fs::create_dir_all(&taken).unwrap();
    let create = || {
        let new = New { machine: Some(machine(dir.path(), 1)), id: 9, ..New::default() };
        kv::create(&at, &new)
    };
    assert_eq!(create().unwrap_err().kind(), Kind::Io);
    assert!(!dir.path().join("zones").exists(), "its device goes with it");
    std::fs::remove_dir(&taken).unwrap();
    create().unwrap().close().unwrap();
}

#[test]
fn a_repair_makes_no_file_where_the_source_has_none_and_mends_one_on_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (source, zones) = (dir.path().join("source"), dir.path().join("zones"));
    let new = New { machine: Some(machine(dir.path(), 1)), id: 9, ..New::default() };
    let mut kv = kv::create(&source, &new).unwrap();
    kv.put(&word(1), &word(2)).unwrap();
    kv.close().unwrap();
    let mut bytes = std::fs::read(&zones).unwrap();
    // A bit of the record of the first zone, behind the header.
    bytes[4096 + 32] ^= 1;
    std::fs::write(&zones, &bytes).unwrap();
    let plain = New { id: 10, ..New::default() };
    let saved = kv::repair(&source, &dir.path().join("mended"), &plain).unwrap();
    assert_eq!(saved.records, 1);
    std::fs::remove_file(&zones).unwrap();
    let error = kv::repair(&source, &dir.path().join("other"), &plain).unwrap_err();
    assert!(!error.to_string().contains("empty") && !zones.exists(), "{error}");
}

#[cfg(feature = "heap")]
#[test]
fn a_heap_that_cannot_be_made_leaves_the_file_that_was_there() {
    use littoral::heap::{Options, create_on};
    use littoral_device::profile::DeviceKind;
    use littoral_device::profile::machine::{DeviceSpec, MachineSpec, Medium};

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let mut bytes = vec![0; 1 << 20];
    // Behind the first page, where the slab table goes.
    bytes[5000] = 1;
    std::fs::write(&path, &bytes).unwrap();
    let device = DeviceSpec::new("m", DeviceKind::Memory, Medium::Dax(path.clone()));
    let machine = Machine::of(MachineSpec::one(device), "test");
    let error = create_on(&machine, "m", &Options::default()).unwrap_err();
    assert_eq!(error.kind(), littoral::heap::Kind::Foreign, "{error}");
    assert!(std::fs::read(&path).unwrap() == bytes, "the file is as it was");
}
