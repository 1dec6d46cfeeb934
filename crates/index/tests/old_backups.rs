//! Backups of earlier versions of the format (`LITKVBAK`), as small committed files: this version
//! reads them value by value and writes the newest ones to the byte.
//!
//! - `tests/fixtures/v1/ENGINE.kvbak` is a backup of a store of that engine which holds what
//!   [`contents`] says. The bytes were put together from the table in `src/backup.rs` alone, by a
//!   program that shares no code with it.
//! - `LITTORAL_FIXTURES=DIR cargo test -p littoral-index --test old_backups` writes those of this
//!   version to `DIR`. A new version of the format gets a new folder; the old ones stay.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use littoral_device::zoned::file::FileDevice;
use littoral_index::Kind;
use littoral_index::backup::{Backup, write};
use littoral_index::index::Engine;
use littoral_index::kv::{Kv, Options};
use littoral_testing::fixtures::{Fixtures, offer};

use common::{GEOMETRY, key};

const RECORDS: u64 = 60;

fn contents() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let kept = (0..RECORDS).filter(|i| i % 5 != 0);
    let value = |i: u64| if i.is_multiple_of(7) { i + 1000 } else { i };
    kept.map(|i| (key(i).to_vec(), value(i).to_le_bytes().to_vec())).collect()
}

fn fixture(engine: Engine) -> (String, Vec<u8>) {
    let name = format!("{}.kvbak", engine.name());
    let bytes = Fixtures::of(env!("CARGO_MANIFEST_DIR"), "v1").bytes(&name);
    (name, bytes)
}

fn read(backup: &Backup) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let note = |k: &[u8], v: &[u8]| {
        assert!(found.insert(k.to_vec(), v.to_vec()).is_none());
        Ok(())
    };
    backup.for_each(note).unwrap();
    found
}

/// What this build writes for a store with [`contents`].
fn written(dir: &Path, engine: Engine) -> Vec<u8> {
    let device = FileDevice::create(&dir.join(engine.name()), GEOMETRY).unwrap();
    let options = Options { geometry: GEOMETRY, ..Options::new(engine, 7) };
    let mut kv = Kv::create_on(Box::new(device), &options).unwrap();
    for (key, value) in contents() {
        kv.put(&key, &value).unwrap();
    }
    let path = dir.join(format!("{}.kvbak", engine.name()));
    assert_eq!(write(&kv, &path).unwrap(), contents().len() as u64);
    std::fs::read(path).unwrap()
}

#[test]
fn backups_of_version_1_are_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let (name, bytes) = fixture(engine);
        let path = dir.path().join("old");
        std::fs::write(&path, &bytes).unwrap();
        let backup = Backup::open(&path).unwrap();
        assert_eq!((backup.engine, backup.key_bytes, backup.value_bytes), (engine, 8, 8));
        assert_eq!(backup.records, contents().len() as u64);
        assert!(read(&backup) == contents(), "{name}");
        let new = written(dir.path(), engine);
        offer(&name, &new);
        assert!(new == bytes, "{name}: the newest version is written to the byte");
    }
}

/// A backup of a version that this build does not know is refused with the number.
#[test]
fn a_backup_of_a_later_version_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mut bytes) = fixture(Engine::Zb);
    bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
    littoral_base::codec::seal(&mut bytes[..64], 0);
    let path = dir.path().join("later");
    std::fs::write(&path, bytes).unwrap();
    let e = Backup::open(&path).unwrap_err();
    assert!(e.kind() == Kind::Foreign && e.to_string().contains("format 2"), "{e}");
}

/// A damaged byte of the header or of a chunk, or a byte too many: the error has the file as a
/// field.
#[test]
fn a_damaged_backup_is_refused_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let (_, good) = fixture(Engine::Cow);
    let path = dir.path().join("damaged");
    for at in [20, 70, good.len() - 1, good.len()] {
        let mut bytes = good.clone();
        bytes.resize(bytes.len().max(at + 1), 0);
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let e = Backup::open(&path).unwrap_err();
        assert_eq!((e.kind(), e.place().path.as_ref()), (Kind::Corrupt, Some(&path)), "{at}: {e}");
    }
}
