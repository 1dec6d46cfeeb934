//! Blocks that the device fails to read: a second copy or the parity stands in for one, and none is
//! taken for the end of the redo log.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;
#[path = "common/one_page.rs"]
mod one_page;

use littoral_base::units::Lba;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::{ZoneState, ZonedDevice as _};
use littoral_store::error::Kind;
use littoral_store::pages::{Heat, Pages as _, Patch, Root};
use littoral_store::store::Store;

use common::{BLOCK_BYTES, geometry};
use one_page::one_page;

/// The device, with these blocks only unreadable.
fn failing(mut device: ModelDevice, unreadable: impl IntoIterator<Item = u64>) -> ModelDevice {
    device.fail_reads(unreadable);
    device
}

fn store() -> (Store<ModelDevice>, Lba) {
    one_page(*b"unread\0\0", 3)
}

#[test]
fn a_superblock_with_an_unreadable_copy_is_found_by_the_other() {
    for at in 0..4 {
        let (store, page) = store();
        let device = failing(store.into_device(), [at]);
        let store = Store::open(device).unwrap();
        assert_eq!(&store.read(page).unwrap()[..5], b"first", "block {at}");
        let named = format!("block {at}, which may hold a copy, cannot be read");
        assert!(store.notes().iter().any(|n| n.contains(&named)), "{:?}", store.notes());
    }
    // Two may be both copies of the newest.
    for pair in [[0, 1], [2, 3], [0, 3]] {
        let (store, page) = store();
        let device = failing(store.into_device(), pair);
        let error = Store::open(device).map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Io, "{pair:?}: {error}");
        let (store, _) = self::store();
        let found = Store::open_damaged(failing(store.into_device(), pair)).unwrap();
        assert_eq!(&found.read(page).unwrap()[..5], b"first", "{pair:?}");
    }
}

#[test]
fn a_dead_page_that_cannot_be_read_keeps_no_store_without_conventional_zones_from_opening() {
    let device = ModelDevice::new(geometry(0)).unwrap();
    let mut store = Store::create(device, *b"unread\0\0", &[], 3).unwrap();
    let dead = store.append(Heat::Hot, b"dead").unwrap();
    let live = store.append(Heat::Hot, b"live").unwrap();
    store.set_root(Root { top: live, height: 0, records: 1 });
    store.commit().unwrap();
    let store = Store::open(failing(store.into_device(), [dead.0])).unwrap();
    assert_eq!(&store.read(live).unwrap()[..4], b"live");
}

/// A store whose last group has this image of its page, and the group's blocks.
fn logged(image: &[u8]) -> (ModelDevice, Lba, Vec<u64>) {
    let (mut store, page) = store();
    let zone = store.redo_zone_ids()[0];
    let end =
        |store: &Store<ModelDevice>| store.device().report(zone, 1).unwrap()[0].write_pointer.0;
    let from = end(&store);
    store.put(page, image).unwrap();
    store.commit().unwrap();
    let blocks = (from..end(&store)).collect();
    (store.into_device(), page, blocks)
}

#[test]
fn an_unreadable_block_of_a_group_is_made_good_and_two_are_no_torn_write() {
    let image = [2; BLOCK_BYTES - 4];
    let (_, page, blocks) = logged(&image);
    assert_eq!(blocks.len(), 3, "two pieces and the parity");
    for (i, &at) in blocks.iter().enumerate() {
        let store = Store::open(failing(logged(&image).0, [at])).unwrap();
        assert_eq!(store.read(page).unwrap()[..5], image[..5], "block {at}");
        assert!(store.notes().iter().any(|n| n.contains("damaged block")), "{:?}", store.notes());
        let two = [at, blocks[(i + 1) % 3]];
        let error = Store::open(failing(logged(&image).0, two)).map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Io, "{two:?}: {error}");
    }
    // A small group is in one block, whose halves are lost together.
    let (device, _, blocks) = logged(b"second");
    assert_eq!(blocks.len(), 1);
    let error = Store::open(failing(device, blocks)).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
}

/// A store whose older log is in a zone that has worn out, its page, and the blocks of that zone.
fn beside_an_older_log() -> (ModelDevice, Lba, Vec<u64>) {
    let (mut store, page) = store();
    let zone = store.redo_zone_ids()[0];
    store.device_mut().fail_zone(zone, ZoneState::ReadOnly).unwrap();
    store.checkpoint().unwrap();
    let found = store.device().report(zone, 1).unwrap()[0];
    let blocks = (found.start.0..found.start.0 + found.capacity_blocks).collect();
    (store.into_device(), page, blocks)
}

#[test]
fn an_unreadable_block_of_an_older_log_is_passed_over() {
    let (device, page, blocks) = beside_an_older_log();
    let store = Store::open(failing(device, [blocks[0]])).unwrap();
    assert_eq!(&store.read(page).unwrap()[..5], b"first");
    // Where nothing of the zone can be read, it may be the log of a newer epoch.
    let (device, page, blocks) = beside_an_older_log();
    let error = Store::open(failing(device, blocks)).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    let (device, _, blocks) = beside_an_older_log();
    let found = Store::open_damaged(failing(device, blocks)).unwrap();
    assert_eq!(&found.read(page).unwrap()[..5], b"first");
}

#[test]
fn a_page_that_repair_could_not_change_is_missed_when_it_can_be_read_again() {
    let (mut store, page) = store();
    store.patch(page, &[Patch::Put { at: 0, bytes: b"later" }]).unwrap();
    store.commit().unwrap();
    let device = failing(store.into_device(), [page.0]);
    let mut found = Store::open_damaged(device).unwrap();
    found.device_mut().fail_reads([]);
    let error = found.read(page).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}
