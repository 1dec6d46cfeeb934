//! Redo groups and superblocks that verify and were never written: each is refused with its place,
//! and repair reads what lies before them.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;
#[path = "common/one_page.rs"]
mod one_page;

use std::collections::BTreeSet;

use littoral_base::codec::{Reader, Writer, seal};
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::{ZoneKind, ZonedDevice as _};
use littoral_store::error::Kind;
use littoral_store::pages::{Pages as _, Patch, Root};
use littoral_store::redo::{GroupId, put_image, put_patches, put_root};
use littoral_store::store::Store;
use littoral_store::superblock::SALT;

use common::{BLOCK_BYTES, geometry};
use one_page::one_page;

const ID: u64 = 3;
/// The first block of a sequential zone that holds pages.
const SEQUENTIAL: Lba = Lba(3 * 98);

/// A closed store of one page in place, its page, and the redo zone in use.
fn closed() -> (ModelDevice, Lba, ZoneId) {
    let (store, page) = one_page(*b"hostile\0", ID);
    let zone = store.redo_zone_ids()[0];
    (store.into_device(), page, zone)
}

fn write(device: &mut ModelDevice, at: Lba, bytes: &[u8]) {
    let ticket = device.write(at, bytes).unwrap();
    device.wait(ticket).unwrap();
    device.flush().unwrap();
}

/// The newest superblock and where it lies.
fn superblock(device: &ModelDevice) -> (u64, Vec<u8>) {
    let blocks = (0..4).map(|at| {
        let mut block = vec![0; BLOCK_BYTES];
        device.read(Lba(at), &mut block).unwrap();
        block
    });
    let generation = |block: &[u8]| Reader::new(&block[20..]).u64().unwrap();
    blocks.map(|b| (generation(&b), b)).max_by_key(|(g, _)| *g).unwrap()
}

fn epoch(device: &ModelDevice) -> u64 {
    Reader::new(&superblock(device).1[36..]).u64().unwrap()
}

/// The store with one more group of this body behind its log.
fn with_group(body: &[u8]) -> (ModelDevice, Lba) {
    let (mut device, page, zone) = closed();
    let id = GroupId { store: ID, epoch: epoch(&device), sequence: 1 };
    let at = device.report(zone, 1).unwrap()[0].write_pointer;
    write(&mut device, at, &id.encode(body, BLOCK_BYTES));
    (device, page)
}

fn body(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    fill(&mut w);
    w.finish()
}

#[test]
fn a_group_that_fits_is_applied() {
    let (_, page, _) = closed();
    let body = body(|w| {
        put_image(w, page, b"second").unwrap();
        put_patches(w, page, &[Patch::Put { at: 0, bytes: b"x" }]).unwrap();
        put_root(w, Root { top: page, height: 4, records: 9 });
    });
    let store = Store::open(with_group(&body).0).unwrap();
    assert_eq!(&store.read(page).unwrap()[..6], b"xecond");
    assert_eq!(store.root(), Root { top: page, height: 4, records: 9 });
}

#[test]
fn entries_that_cannot_be_are_refused_with_their_page_and_left_out_by_repair() {
    let (_, page, _) = closed();
    let blank = Lba(page.0 + 1);
    let put = |at: usize, bytes: &'static [u8]| [Patch::Put { at, bytes }];
    let moved = [Patch::Move { from: 0, to: 500, len: 100 }];
    let cases: [(&str, Lba, Vec<u8>); 8] = [
        (
            "an image of a sequential page",
            SEQUENTIAL,
            body(|w| put_image(w, SEQUENTIAL, b"x").unwrap()),
        ),
        (
            "an image past the device",
            Lba(1 << 40),
            body(|w| put_image(w, Lba(1 << 40), b"x").unwrap()),
        ),
        ("an image longer than a page", page, body(|w| put_image(w, page, &[1; 513]).unwrap())),
        (
            "a patch of a sequential page",
            SEQUENTIAL,
            body(|w| put_patches(w, SEQUENTIAL, &put(0, b"x")).unwrap()),
        ),
        (
            "a patch of a page never written",
            blank,
            body(|w| put_patches(w, blank, &put(0, b"x")).unwrap()),
        ),
        ("a patch past the page", page, body(|w| put_patches(w, page, &put(510, b"xyz")).unwrap())),
        ("a move past the page", page, body(|w| put_patches(w, page, &moved).unwrap())),
        ("an unknown tag", Lba(0), body(|w| _ = w.u8(9).u64(1))),
    ];
    for (name, at, body) in cases {
        let (device, page) = with_group(&body);
        let refused = Store::open(device).map(drop).unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt, "{name}: {refused}");
        assert_eq!(refused.place().page, Some(at.0), "{name}: {refused}");
        let store = Store::open_damaged(with_group(&body).0).unwrap();
        let is_first = store.read(page).is_ok_and(|bytes| bytes.starts_with(b"first"));
        assert!(is_first, "{name}: the page before the group");
        // A patch of a page that is lost is passed over: the tree misses the page itself.
        assert_eq!(store.is_log_cut(), name != "a patch of a page never written", "{name}");
    }
}

#[test]
fn an_entry_that_ends_inside_is_refused() {
    let (_, page, _) = closed();
    let whole = body(|w| put_image(w, page, b"image").unwrap());
    for len in 1..whole.len() {
        let refused = Store::open(with_group(&whole[..len]).0).map(drop).unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt, "{len} bytes: {refused}");
    }
}

/// A superblock whose epoch is the last there can be: the store is read, and changes are refused
/// before the counter wraps.
#[test]
fn counters_at_their_end_refuse_the_next_epoch() {
    let (mut device, page, zone) = closed();
    let (generation, mut block) = superblock(&device);
    assert_eq!(epoch(&device) % 2, u64::MAX % 2, "the last epoch has this zone");
    let generation = generation + 1;
    block[20..28].copy_from_slice(&generation.to_le_bytes());
    block[36..44].copy_from_slice(&u64::MAX.to_le_bytes());
    seal(&mut block, SALT);
    let home = 2 * (generation % 2);
    write(&mut device, Lba(home), &block);
    write(&mut device, Lba(home + 1), &block);
    device.reset(zone).unwrap();
    let id = GroupId { store: ID, epoch: u64::MAX, sequence: 0 };
    let root = body(|w| put_root(w, Root { top: page, height: 0, records: 1 }));
    let start = device.report(zone, 1).unwrap()[0].start;
    write(&mut device, start, &id.encode(&root, BLOCK_BYTES));
    let mut store = Store::open(device).unwrap();
    assert_eq!(&store.read(page).unwrap()[..5], b"first");
    let refused = store.recovered(&BTreeSet::from([page])).unwrap_err();
    assert_eq!(refused.kind(), Kind::Corrupt);
    assert!(refused.to_string().contains("counters are at their end"), "{refused}");
}

/// A copy of a device whose blocks `damage` has changed (block number, bytes).
fn copied(device: &ModelDevice, damage: impl Fn(u64, &mut [u8])) -> ModelDevice {
    let mut copy = ModelDevice::new(geometry(1)).unwrap();
    for z in device.report(ZoneId(0), device.limits().zones).unwrap() {
        let is_conventional = z.kind == ZoneKind::Conventional;
        let end = if is_conventional { z.start.0 + z.capacity_blocks } else { z.write_pointer.0 };
        for at in z.start.0..end {
            let mut block = vec![0; BLOCK_BYTES];
            device.read(Lba(at), &mut block).unwrap();
            damage(at, &mut block);
            write(&mut copy, Lba(at), &block);
        }
    }
    copy
}

/// The blocks of the first group of the log's epoch.
fn first_group() -> (ZoneId, std::ops::Range<u64>) {
    let (device, _, zone) = closed();
    let found = device.report(zone, 1).unwrap()[0];
    (zone, found.start.0..found.write_pointer.0)
}

/// A later group is written only once the first one's pages are in place, so they are there.
#[test]
fn a_lost_first_group_with_a_later_one_behind_it_is_noted_and_passed_over() {
    let (zone, first) = first_group();
    let (_, page, _) = closed();
    let (device, page) = with_group(&body(|w| put_image(w, page, b"second").unwrap()));
    let lost = |at: u64, block: &mut [u8]| {
        if first.contains(&at) {
            block.fill(0);
        }
    };
    let store = Store::open(copied(&device, lost)).unwrap();
    assert_eq!(&store.read(page).unwrap()[..6], b"second");
    let notes = store.notes();
    let is_named = |n: &String| n.contains(&format!("redo zone {zone}")) && n.contains("is lost");
    assert!(notes.iter().any(is_named), "{notes:?}");
}

#[test]
fn a_lost_first_group_with_nothing_behind_it_is_refused_with_zone_and_block() {
    let (zone, first) = first_group();
    let (device, page, _) = closed();
    let hurt = || {
        copied(&device, |at, block| {
            if first.contains(&at) {
                block.fill(0);
            }
        })
    };
    let refused = Store::open(hurt()).map(drop).unwrap_err();
    let at = (refused.kind(), refused.place().zone, refused.place().page);
    assert_eq!(at, (Kind::Corrupt, Some(zone.0), Some(first.start)), "{refused}");
    let saved = Store::open_damaged(hurt()).unwrap();
    assert!(saved.is_log_cut() && saved.read(page).unwrap().starts_with(b"first"));
}

#[test]
fn superblocks_that_do_not_verify_and_other_contents_are_told_apart() {
    let (device, ..) = closed();
    let hurt = copied(&device, |at, block| block[BLOCK_BYTES - 9] ^= u8::from(at < 4));
    assert_eq!(Store::open(hurt).map(drop).unwrap_err().kind(), Kind::Corrupt);
    for at in [0, 3, 97] {
        let mut other = ModelDevice::new(geometry(1)).unwrap();
        write(&mut other, Lba(at), &[7; BLOCK_BYTES]);
        let refused = Store::create(&mut other, *b"hostile\0", &[], ID).map(drop).unwrap_err();
        assert_eq!(refused.kind(), Kind::Foreign, "block {at}: {refused}");
        assert_eq!(Store::open(&mut other).map(drop).unwrap_err().kind(), Kind::Foreign);
        let mut found = vec![0; BLOCK_BYTES];
        other.read(Lba(at), &mut found).unwrap();
        assert_eq!(found, [7; BLOCK_BYTES], "nothing is written over it");
    }
}
