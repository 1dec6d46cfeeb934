//! Stores of version 2 of the format, as small committed files: this build reads every page, names
//! what the superblock says, and writes superblocks and redo log to the same bytes.
//!
//! - `tests/fixtures/v2/placed.blocks` has a conventional zone: pages in place and redo groups with
//!   patches, an image and a root behind the last checkpoint. `appended.blocks` has none: its
//!   superblocks are in sequential zones. Both are files of a zoned device, packed
//!   (`littoral_testing::fixtures`), left as a kill leaves them.
//! - `LITTORAL_FIXTURES=DIR cargo test -p littoral-store --test old_stores` writes those of this
//!   version to `DIR`. A new version gets a new folder; the old ones stay.
//! - The trees' own pages are in the fixtures of the crate `index`.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use littoral_base::codec::{self, Reader, unseal};
use littoral_base::units::Lba;
use littoral_device::zoned::file::FileDevice;
use littoral_store::error::Kind;
use littoral_store::pages::{Heat, Pages as _, Patch, Root};
use littoral_store::redo;
use littoral_store::store::Store;
use littoral_store::superblock;
use littoral_testing::fixtures::{Fixtures, offer, pack};

use common::{BLOCK_BYTES, geometry};

const ENGINE: [u8; 8] = *b"fixture\0";
const LABEL: &[u8] = b"the engine's own words";
const ID: u64 = 0x0123_4567_89ab_cdef;
/// What a page in place holds after its patches, and the appended one.
const PATCHED: &[u8] = b"abcXefgabcdeop";
const APPENDED: &[u8] = b"appended once and never changed";

/// A store of the fixtures: whether it has a conventional zone, and its file.
const STORES: [(u32, &str); 2] = [(1, "placed.blocks"), (0, "appended.blocks")];

fn fixtures() -> Fixtures {
    Fixtures::of(env!("CARGO_MANIFEST_DIR"), "v2")
}

/// An image that fits no half block, so its redo group takes two blocks.
fn image() -> Vec<u8> {
    (0..300u32).map(|i| (i * 7 % 251) as u8).collect()
}

/// Pages of a store: those in place, and those appended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Made {
    placed: Vec<Lba>,
    appended: Vec<Lba>,
}

fn make(path: &Path, conventional_zones: u32) -> Made {
    let device = FileDevice::create(path, geometry(conventional_zones)).unwrap();
    let mut store = Store::create(device, ENGINE, LABEL, ID).unwrap();
    let mut made = Made::default();
    if store.has_conventional() {
        let at = store.allocate().unwrap();
        store.put(at, b"abcdefghijklmnop").unwrap();
        made.placed.push(at);
    }
    made.appended.push(store.append(Heat::Hot, APPENDED).unwrap());
    store.set_root(Root { top: made.appended[0], height: 1, records: 1 });
    store.commit().unwrap();
    store.checkpoint().unwrap();
    if store.has_conventional() {
        let patches = [
            Patch::Move { from: 0, to: 7, len: 5 },
            Patch::Put { at: 3, bytes: b"X" },
            Patch::Move { from: 14, to: 12, len: 2 },
        ];
        store.patch(made.placed[0], &patches).unwrap();
        store.commit().unwrap();
        let at = store.allocate().unwrap();
        store.put(at, &image()).unwrap();
        made.placed.push(at);
    }
    made.appended.push(store.append(Heat::Cold, &image()).unwrap());
    store.set_root(Root { top: made.appended[1], height: 2, records: 77 });
    store.commit().unwrap();
    made
}

fn check(store: &Store<FileDevice>, made: &Made) {
    assert_eq!(store.engine(), (ENGINE, LABEL));
    assert!(store.notes().is_empty(), "{:?}", store.notes());
    assert_eq!(store.root(), Root { top: made.appended[1], height: 2, records: 77 });
    let begins = |at: Lba, wanted: &[u8]| {
        let page = store.read(at).unwrap();
        assert_eq!(&page[..wanted.len()], wanted, "page {at}");
    };
    begins(made.appended[0], APPENDED);
    begins(made.appended[1], &image());
    if let [first, second] = made.placed[..] {
        begins(first, PATCHED);
        begins(second, &image());
    }
}

/// Where the pages of a fixture lie.
fn pages_of(conventional_zones: u32) -> Made {
    let all = |blocks: &[u64]| blocks.iter().copied().map(Lba).collect();
    match conventional_zones {
        0 => Made { placed: all(&[]), appended: all(&[392, 490]) },
        _ => Made { placed: all(&[4, 5]), appended: all(&[294, 392]) },
    }
}

#[test]
fn stores_of_version_2_are_read_page_by_page_and_written() {
    let dir = tempfile::tempdir().unwrap();
    for (conventional_zones, name) in STORES {
        let path = dir.path().join(name);
        std::fs::write(&path, fixtures().unpacked(name)).unwrap();
        let made = pages_of(conventional_zones);
        let live: BTreeSet<Lba> = made.placed.iter().chain(&made.appended).copied().collect();
        let mut store = Store::open(FileDevice::open_to_read(&path).unwrap()).unwrap();
        store.opened_to_read(&live).unwrap();
        check(&store, &made);
        drop(store);
        let mut store = Store::open(FileDevice::open(&path).unwrap()).unwrap();
        store.recovered(&live).unwrap();
        check(&store, &made);
        store.close().unwrap();
        drop(store);
        check(&Store::open(FileDevice::open(&path).unwrap()).unwrap(), &made);
    }
}

/// Superblocks and parts of the redo log of a store, with the blocks that they lie in.
fn logged(file: &[u8]) -> Vec<(usize, &[u8])> {
    let blocks = file.chunks_exact(BLOCK_BYTES).enumerate();
    let is_logged = |(_, block): &(usize, &[u8])| {
        unseal(block, superblock::SALT).is_some() || redo::Part::all_in(block).next().is_some()
    };
    blocks.filter(is_logged).collect()
}

#[test]
fn superblocks_and_redo_log_are_written_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    for (conventional_zones, name) in STORES {
        let path = dir.path().join(name);
        assert_eq!(make(&path, conventional_zones), pages_of(conventional_zones), "{name}");
        let file = std::fs::read(&path).unwrap();
        offer(name, &pack(&file));
        let fixture = fixtures().unpacked(name);
        assert!(logged(&file).len() >= 8, "{name}: two generations twice, two epochs");
        assert!(logged(&file) == logged(&fixture), "{name}: the bytes of version 2 changed");
    }
}

/// The newest superblock, read by the page's table alone.
#[test]
fn a_superblock_says_what_the_page_says() {
    for (conventional_zones, name) in STORES {
        let fixture = fixtures().unpacked(name);
        let superblocks = fixture.chunks_exact(BLOCK_BYTES).filter(|b| b.starts_with(b"LITSTORE"));
        let generation = |b: &&[u8]| Reader::new(&b[20..]).u64().unwrap();
        let newest = superblocks.max_by_key(generation).unwrap();
        let mut r = Reader::new(unseal(newest, superblock::SALT).unwrap());
        assert_eq!((r.bytes(8).unwrap(), r.u32()), (&b"LITSTORE"[..], Some(2)), "{name}");
        assert_eq!(r.bytes(8).unwrap(), ENGINE);
        let (generation, id, epoch) = (r.u64().unwrap(), r.u64(), r.u64().unwrap());
        assert_eq!((generation, id, epoch), (2, Some(ID), 2), "{name}: created, one checkpoint");
        let zones: Vec<u32> = (0..4).map(|_| r.u32().unwrap()).collect();
        let wanted = match conventional_zones {
            0 => [2, 3, 0, 1],
            _ => [1, 2, u32::MAX, u32::MAX],
        };
        assert_eq!(zones, wanted, "{name}: redo zones, superblock zones");
        assert_eq!(r.short_bytes(), Some(LABEL));
        assert!(r.bytes(r.remaining()).unwrap().iter().all(|&b| b == 0), "{name}");
    }
}

#[test]
fn a_store_of_another_version_is_refused_by_number_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (version, (_, name)) in [1u32, 3].into_iter().zip(STORES) {
        let mut file = fixtures().unpacked(name);
        for block in file.chunks_exact_mut(BLOCK_BYTES).filter(|b| b.starts_with(b"LITSTORE")) {
            block[8..12].copy_from_slice(&version.to_le_bytes());
            codec::seal(block, superblock::SALT);
        }
        let path = dir.path().join(name);
        std::fs::write(&path, &file).unwrap();
        let e = Store::open(FileDevice::open(&path).unwrap()).unwrap_err();
        let wanted = format!("store format {version}");
        assert!(e.kind() == Kind::Foreign && e.to_string().contains(&wanted), "{e}");
        assert!(std::fs::read(&path).unwrap() == file, "{name}");
    }
}
