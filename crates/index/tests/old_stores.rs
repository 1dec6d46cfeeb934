//! Stores of earlier versions of the format, as small committed files: this version reads them, or
//! refuses them by name.
//!
//! - `tests/fixtures/vN/NAME.blocks` is a store whose superblocks have version N: the file of its
//!   device, packed (`littoral_testing::fixtures`).
//! - `LITTORAL_FIXTURES=DIR cargo test -p littoral-index --test old_stores` writes those of this
//!   version to `DIR`. A new version of the format gets a new folder; the old ones stay.
//! - Each store holds what [`contents`] says. `closed` ones end with a checkpoint; `killed`
//!   ones have groups in the redo log that no checkpoint has written in place: patches, images and
//!   roots.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_index::zb::Direction;
use littoral_store::store::Durability;
use littoral_testing::fixtures::{Fixtures, offer, pack};

use common::{GEOMETRY, key};

const BLOCK: usize = 512;
const RECORDS: u64 = 60;
/// Operations that become durable together.
const BATCH: u64 = 8;

/// What every fixture holds: inserts, every fifth deleted, every seventh replaced.
fn contents() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let kept = (0..RECORDS).filter(|i| i % 5 != 0);
    let value = |i: u64| if i.is_multiple_of(7) { i + 1000 } else { i };
    kept.map(|i| (key(i).to_vec(), value(i).to_le_bytes().to_vec())).collect()
}

fn make(path: &Path, engine: Engine, is_closed: bool) {
    let geometry = Geometry { sequential_zones: 7, ..GEOMETRY };
    let device = FileDevice::create(path, geometry).unwrap();
    let mut index = Index::create(device, engine, Shape::paper(6, 8, 8), 7).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    for i in 0..RECORDS {
        index.put(&key(i), &i.to_le_bytes()).unwrap();
        if i % BATCH == 0 {
            index.sync().unwrap();
        }
    }
    index.store_mut().checkpoint().unwrap();
    (0..RECORDS).step_by(5).for_each(|i| assert!(index.delete(&key(i)).unwrap()));
    for i in (0..RECORDS).step_by(7).filter(|i| i % 5 != 0) {
        index.put(&key(i), &(i + 1000).to_le_bytes()).unwrap();
    }
    index.sync().unwrap();
    if is_closed {
        index.close().unwrap();
    }
}

fn names() -> impl Iterator<Item = (Engine, bool, String)> {
    let both = |engine: Engine| [(engine, true, "closed"), (engine, false, "killed")];
    let all = [Engine::Zb, Engine::Cow].into_iter().flat_map(both);
    all.map(|(engine, is_closed, end)| {
        (engine, is_closed, format!("{}-{end}.blocks", engine.name()))
    })
}

fn fixtures() -> Fixtures {
    Fixtures::of(env!("CARGO_MANIFEST_DIR"), "v2")
}

fn read(index: &Index<FileDevice>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut note = |k: &[u8], v: &[u8]| found.insert(k.to_vec(), v.to_vec()).is_none();
    index.scan(None, None, Direction::Forward, &mut note).unwrap();
    found
}

#[test]
fn stores_of_version_2_are_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    for (engine, _, name) in names() {
        let path = dir.path().join(&name);
        std::fs::write(&path, fixtures().unpacked(&name)).unwrap();
        let index = Index::open_to_read(FileDevice::open_to_read(&path).unwrap()).unwrap();
        assert_eq!(index.engine(), engine);
        assert!(read(&index) == contents(), "{name}");
        index.check().unwrap();
        drop(index);
        let mut index = Index::open(FileDevice::open(&path).unwrap()).unwrap();
        index.put(&key(RECORDS), &[1; 8]).unwrap();
        index.close().unwrap();
        drop(index);
        let index = Index::open_to_read(FileDevice::open_to_read(&path).unwrap()).unwrap();
        assert_eq!(index.len(), contents().len() as u64 + 1, "{name}");
        index.check().unwrap();
    }
}

/// A store of a version that this build does not know is refused with the number.
#[test]
fn a_store_of_a_later_version_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for (_, _, name) in names() {
        let mut file = fixtures().unpacked(&name);
        let magic = b"LITSTORE";
        let found: Vec<usize> =
            (0..file.len() - 12).filter(|&at| &file[at..at + 8] == magic).collect();
        assert!(found.len() >= 2, "{name}");
        for at in found {
            file[at + 8..at + 12].copy_from_slice(&3u32.to_le_bytes());
            littoral_base::codec::seal(&mut file[at..at + BLOCK], littoral_store::superblock::SALT);
        }
        let path = dir.path().join(&name);
        std::fs::write(&path, &file).unwrap();
        let e = Index::open(FileDevice::open(&path).unwrap()).unwrap_err();
        assert!(e.kind() == Kind::Foreign && e.to_string().contains('3'), "{name}: {e}");
        assert!(std::fs::read(&path).unwrap() == file, "{name}: the file is unchanged");
    }
}

/// This version's stores stay small; with `LITTORAL_FIXTURES` they are written there.
#[test]
fn fixtures_are_made_as_the_header_says() {
    let dir = tempfile::tempdir().unwrap();
    for (engine, is_closed, name) in names() {
        let path = dir.path().join(&name);
        make(&path, engine, is_closed);
        let packed = pack(&std::fs::read(&path).unwrap());
        assert!(packed.len() < 1 << 16, "{name}: {}", packed.len());
        offer(&name, &packed);
    }
}
