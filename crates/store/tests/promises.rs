//! Promises of the store that one-line defects break without any other test noticing.
//!
//! - A page whose bytes were damaged on the medium is refused by name.
//! - An aborted operation leaves each page as it was before the operation, not before its last
//!   call.
//! - A live page lies below its zone's write pointer.
//! - However full the device is, one zone stays empty for the collector.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::collections::BTreeSet;

use littoral_base::fault::Plan;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{ZoneKind, ZonedDevice as _};
use littoral_store::error::Kind;
use littoral_store::pages::{Heat, Pages as _, Patch, Root};
use littoral_store::store::{Durability, Store};

const BLOCK_BYTES: usize = 512;
const ZONE_BLOCKS: u64 = 98;

fn device() -> ModelDevice {
    let geometry = Geometry {
        block_bytes: BLOCK_BYTES as u32,
        conventional_zones: 1,
        sequential_zones: 7,
        zone_blocks: ZONE_BLOCKS,
        capacity_blocks: ZONE_BLOCKS,
        open_zones_max: 4,
        active_zones_max: 6,
        append_blocks_max: 0,
    };
    ModelDevice::new(geometry).unwrap()
}

/// A store with one conventional page, in place on the medium, and one appended page.
fn store(device: &mut ModelDevice) -> (Store<&mut ModelDevice>, Lba, Lba) {
    let mut store = Store::create(device, *b"promises", &[], 3).unwrap();
    let placed = store.allocate().unwrap();
    store.put(placed, b"first").unwrap();
    let appended = store.append(Heat::Hot, b"appended").unwrap();
    store.set_root(Root { top: placed, height: 0, records: 1 });
    store.commit().unwrap();
    // The first checkpoint writes the page in place, the second drops its image from the redo log.
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    (store, placed, appended)
}

#[test]
fn a_page_damaged_on_the_medium_is_refused_by_name() {
    for at_byte in [0, 4, BLOCK_BYTES / 2, BLOCK_BYTES - 1] {
        let mut device = device();
        let placed = store(&mut device).1;
        let mut block = vec![0; BLOCK_BYTES];
        device.read(placed, &mut block).unwrap();
        block[at_byte] ^= 1;
        let ticket = device.write(placed, &block).unwrap();
        device.wait(ticket).unwrap();
        device.flush().unwrap();
        let store = Store::open(&mut device).unwrap();
        let error = store.read(placed).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "byte {at_byte}: {error}");
        assert_eq!(error.place().page, Some(placed.0), "{error}");
    }
}

#[test]
fn a_page_copied_to_another_address_is_refused() {
    let mut device = device();
    let placed = store(&mut device).1;
    let mut block = vec![0; BLOCK_BYTES];
    device.read(placed, &mut block).unwrap();
    let other = Lba(placed.0 + 1);
    let ticket = device.write(other, &block).unwrap();
    device.wait(ticket).unwrap();
    let store = Store::open(&mut device).unwrap();
    assert_eq!(&store.read(placed).unwrap()[..5], b"first");
    assert_eq!(store.read(other).map(|_| ()).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn an_aborted_operation_leaves_pages_as_they_were_before_it() {
    let mut device = device();
    let (mut store, placed, _) = store(&mut device);
    let put = |bytes: &'static [u8]| [Patch::Put { at: 0, bytes }];
    // Once with the page on the medium only, once with committed changes of it in memory.
    for before in [b"first", b"again"] {
        store.patch(placed, &put(b"secon")).unwrap();
        store.patch(placed, &put(b"third")).unwrap();
        store.abort();
        assert_eq!(&store.read(placed).unwrap()[..5], before);
        store.patch(placed, &put(b"again")).unwrap();
        store.commit().unwrap();
    }
    drop(store);
    let store = Store::open(&mut device).unwrap();
    assert_eq!(&store.read(placed).unwrap()[..5], b"again");
}

#[test]
fn a_live_page_at_the_write_pointer_is_refused() {
    let mut device = device();
    let (placed, appended) = {
        let (_, placed, appended) = store(&mut device);
        (placed, appended)
    };
    let zones = device.report(ZoneId(0), 8).unwrap();
    let zone = zones.iter().rfind(|z| z.start <= appended).unwrap();
    assert_eq!((zone.kind, zone.write_pointer.0), (ZoneKind::Sequential, appended.0 + 1));
    for (last, is_written) in [(appended, true), (zone.write_pointer, false)] {
        let mut store = Store::open(&mut device).unwrap();
        let found = store.recovered(&BTreeSet::from([placed, appended, last]));
        assert_eq!(found.is_ok(), is_written, "{last}: {found:?}");
        assert!(found.err().is_none_or(|e| e.kind() == Kind::Corrupt));
    }
}

#[test]
fn appending_until_full_leaves_the_collector_an_empty_zone() {
    let mut device = device();
    let (mut store, ..) = store(&mut device);
    store.set_durability(Durability::Batch);
    let mut n = 0;
    let full = loop {
        n += 1;
        assert!(n < 10_000, "the device has {ZONE_BLOCKS} blocks per zone");
        match store.append(Heat::Hot, b"page").and_then(|_| store.commit()) {
            Ok(()) => {}
            Err(e) => break e,
        }
    };
    assert_eq!(full.kind(), Kind::Full);
    let (_, written, all) = store.sequential_blocks();
    assert_eq!(all - written, ZONE_BLOCKS, "one zone and no more is left");
}

#[test]
fn a_store_whose_durable_write_failed_refuses_changes() {
    let mut device = device();
    let (mut store, placed, _) = store(&mut device);
    store.set_durability(Durability::Batch);
    store.put(placed, b"second").unwrap();
    store.commit().unwrap();
    store.device_mut().install(Plan::none().cut_at(0)).unwrap();
    assert_eq!(store.sync().unwrap_err().kind(), Kind::PowerCut);
    store.device_mut().power_cycle(1);
    store.device_mut().install(Plan::none()).unwrap();
    assert!(!store.is_usable());
    assert_eq!(store.append(Heat::Hot, b"page").unwrap_err().kind(), Kind::Poisoned);
    assert_eq!(store.sync().unwrap_err().kind(), Kind::Poisoned);
    drop(store);
    let store = Store::open(&mut device).unwrap();
    assert_eq!(&store.read(placed).unwrap()[..5], b"first", "what was durable before");
}
