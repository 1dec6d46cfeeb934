//! Bad media: each kind of bad input is answered right, or refused with its place and the file as
//! it was. This list names the test of each case.
//!
//! - Truncated, grown, foreign, of a newer version. Store:
//!   `stores_cut_short_grown_foreign_or_of_a_later_version`. Pool:
//!   `pools_cut_short_grown_foreign_or_of_another_version_are_refused_unchanged`.
//! - READ_ONLY at any moment. Store: `media_that_turn_read_only_at_any_moment_lose_nothing`. Pool:
//!   `a_fence_that_fails_at_any_moment_loses_nothing`.
//! - No room. Store: `deletions_go_on_when_the_host_is_full_and_room_comes_back`,
//!   `a_host_without_room_for_what_a_store_keeps_is_refused_at_creation`. Pool:
//!   `a_full_pool_fails_that_transaction_whole_and_freeing_makes_room`.
//! - Opened twice. Store: `a_store_that_is_opened_twice_is_refused_unchanged`. Pool:
//!   `looking_changes_nothing_and_waits_for_no_owner`.
//! - After fork. Store: `a_forked_child_is_refused_and_changes_nothing`. Pool:
//!   `a_forked_child_is_refused_before_it_touches_the_medium`.
//! - A user who may only read. Store: `a_user_who_may_only_read_reads`. Pool:
//!   `a_user_who_may_only_read_looks_at_a_pool_and_is_told`.

#![cfg(all(feature = "index", feature = "heap"))]
#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod small;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use littoral::heap::structures::{HashMap, Map};
use littoral::heap::{self, Options};
use littoral::kv::{self, Access, Engine, Kv};
use littoral::machine::Machine;
use littoral_base::codec::seal;
use littoral_device::profile::DeviceKind;
use littoral_device::profile::machine::{DeviceSpec, MachineSpec, Medium};
use littoral_index::Kind;

use small::small;

const RECORDS: u64 = 300;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A closed store in `dir`; what it holds.
fn store(dir: &Path, engine: Engine) -> Contents {
    let mut kv = kv::create_file(dir, &small(engine)).unwrap();
    for i in 0..RECORDS {
        kv.put(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &i.to_be_bytes()).unwrap();
    }
    let held = contents(&kv);
    assert_eq!(held.len() as u64, RECORDS);
    held
}

fn contents(kv: &Kv) -> Contents {
    let mut found = Contents::new();
    kv.scan(None, None, |k, v| found.insert(k.to_vec(), v.to_vec()).is_none()).unwrap();
    found
}

/// The header's copies with another version, sealed.
fn with_version(mut file: Vec<u8>, version: u32) -> Vec<u8> {
    for copy in file[..4096].chunks_mut(512) {
        copy[8..12].copy_from_slice(&version.to_le_bytes());
        seal(copy, 0);
    }
    file
}

#[test]
fn stores_cut_short_grown_foreign_or_of_a_later_version() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let at = dir.path().join(engine.name());
        let held = store(&at, engine);
        let zones = at.join("zones");
        let good = std::fs::read(&zones).unwrap();
        let len = good.len();
        let cases: [(&str, Vec<u8>, Kind, &str); 8] = [
            ("empty", Vec::new(), Kind::Foreign, "shorter than a header"),
            ("cut inside its header", good[..100].to_vec(), Kind::Foreign, "shorter than a header"),
            ("cut behind its header", good[..4096].to_vec(), Kind::Corrupt, "cut short"),
            ("cut in half", good[..len / 2].to_vec(), Kind::Corrupt, "cut short"),
            ("a byte short", good[..len - 1].to_vec(), Kind::Corrupt, "cut short"),
            ("zeros", vec![0; len], Kind::Foreign, "LITZONED"),
            ("a text", b"a letter, not a store\n".repeat(len / 22 + 1), Kind::Foreign, "LITZONED"),
            ("of a later version", with_version(good.clone(), 9), Kind::Foreign, "version 9"),
        ];
        for (name, bytes, kind, words) in cases {
            std::fs::write(&zones, &bytes).unwrap();
            for access in [Access::Read, Access::Write] {
                let refused = kv::open(&at, access).map(drop).unwrap_err();
                let text = refused.to_string();
                assert_eq!(refused.kind(), kind, "{engine:?}, {name}: {text}");
                assert!(text.contains(words) && text.contains("zones"), "{name}: {text}");
            }
            assert!(std::fs::read(&zones).unwrap() == bytes, "{engine:?}, {name}: changed");
        }
        // What is behind the zones belongs to nothing: a copy onto a larger device is read.
        std::fs::write(&zones, [&good[..], &[0x5a; 70_000]].concat()).unwrap();
        for access in [Access::Read, Access::Write] {
            let kv = kv::open(&at, access).unwrap();
            assert!(contents(&kv) == held, "{engine:?}, grown");
            kv.check().unwrap();
        }
    }
}

#[test]
fn a_store_that_is_opened_twice_is_refused_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let at = dir.path().join(engine.name());
        let held = store(&at, engine);
        let kv = kv::open(&at, Access::Write).unwrap();
        let before = std::fs::read(at.join("zones")).unwrap();
        for access in [Access::Read, Access::Write] {
            let refused = kv::open(&at, access).map(drop).unwrap_err();
            assert_eq!(refused.kind(), Kind::Busy, "{refused}");
        }
        let taken = kv::create_file(&at, &small(engine)).map(drop).unwrap_err();
        assert_eq!(taken.kind(), Kind::Exists, "{taken}");
        assert!(std::fs::read(at.join("zones")).unwrap() == before);
        assert!(contents(&kv) == held);
    }
}

fn machine(path: &Path) -> Machine {
    let device = DeviceSpec::new("m", DeviceKind::Memory, Medium::File(path.to_owned()));
    Machine::of(MachineSpec::one(device.with_figure("capacity", 1 << 20).unwrap()), "test")
}

/// Stands in for another user: looks at the pool that another test made, and is told what it may
/// not do.
#[test]
#[ignore = "asks as another user; another test starts it"]
fn look_as_another_user() {
    let machine = machine(Path::new(&std::env::var("BAD_MEDIA").unwrap()));
    let look = heap::look_on(&machine, "m").unwrap();
    let found = look.pool.thread().unwrap().read_only(|tx| {
        let at = tx.root("map")?.expect("the name is there");
        HashMap::open(tx, at)?.get(tx, 7)
    });
    assert_eq!(found.unwrap(), Some(70));
    drop(look);
    let told = heap::open_on(&machine, "m").map(drop).unwrap_err();
    let text = told.to_string();
    assert!(told.kind() == heap::Kind::Device && text.contains("pool"), "{text}");
}

#[test]
fn a_user_who_may_only_read_looks_at_a_pool_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = heap::create_on(&machine(&path), "m", &Options::default()).unwrap();
    let filled = pool.thread().unwrap().atomically(|tx| {
        let map = HashMap::create(tx, 4)?;
        map.insert(tx, 7, 70)?;
        tx.set_root("map", map.at())
    });
    filled.unwrap();
    drop(pool);
    let before = std::fs::read(&path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    // Through this link another user starts the test where the folders above it are closed.
    let mut other = Command::new("/proc/self/exe");
    other.args(["look_as_another_user", "--exact", "--ignored"]).env("BAD_MEDIA", &path);
    // Root may write any file, so another user asks; any other user asks as itself.
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        other.uid(65_534).gid(65_534);
    }
    let output = other.current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert!(std::fs::read(&path).unwrap() == before, "nothing changed");
}
