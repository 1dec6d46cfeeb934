//! Promises of the store that one-line defects break without any other test noticing.
//!
//! - A page whose bytes were damaged on the medium is refused by name.
//! - An aborted operation leaves each page as it was before the operation, not before its last
//!   call.
//! - A live page lies below its zone's write pointer.
//! - However full the device is, one zone stays empty for the collector.
//! - A power cut after a restart loses nothing that the process before has acknowledged.
//! - A medium whose superblocks are gone is damaged, not empty.
//! - A store that is killed again and again opens.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::collections::BTreeSet;

use littoral_base::fault::{Plan, Verdict};
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{Ticket, ZoneKind, ZoneReport, ZonedDevice, ZonedLimits};
use littoral_device::{Error as DeviceError, Kind as DeviceKind, Result as DeviceResult};
use littoral_store::error::Kind;
use littoral_store::pages::{Heat, Pages as _, Patch, Root};
use littoral_store::store::{Durability, Store};

use common::{BLOCK_BYTES, geometry};

const ZONE_BLOCKS: u64 = 98;

/// Draws of what a power cut loses, for each place of the cut.
const LOSSES: u64 = 16;

fn device() -> ModelDevice {
    ModelDevice::new(geometry(1)).unwrap()
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
    assert_eq!(store.counts().tree_blocks, written, "what was refused is not counted");
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

/// A device under a process that is killed before its change or flush number `left`: what it did
/// stays as it is, flushed or not.
#[derive(Debug)]
struct Mortal<'d> {
    inner: &'d mut ModelDevice,
    left: u64,
}

impl Mortal<'_> {
    fn alive(&mut self) -> DeviceResult<&mut ModelDevice> {
        let dead = || DeviceError::new(DeviceKind::PowerCut, "the process was killed");
        self.left = self.left.checked_sub(1).ok_or_else(dead)?;
        Ok(self.inner)
    }
}

impl ZonedDevice for Mortal<'_> {
    fn limits(&self) -> ZonedLimits {
        self.inner.limits()
    }
    fn report(&self, first: ZoneId, count: u32) -> DeviceResult<Vec<ZoneReport>> {
        self.inner.report(first, count)
    }
    fn read(&self, at: Lba, into: &mut [u8]) -> DeviceResult<()> {
        self.inner.read(at, into)
    }
    fn write(&mut self, at: Lba, data: &[u8]) -> DeviceResult<Ticket> {
        self.alive()?.write(at, data)
    }
    fn append(&mut self, zone: ZoneId, data: &[u8]) -> DeviceResult<Ticket> {
        self.alive()?.append(zone, data)
    }
    fn wait(&mut self, ticket: Ticket) -> DeviceResult<Lba> {
        self.inner.wait(ticket)
    }
    fn flush(&mut self) -> DeviceResult<()> {
        self.alive()?.flush()
    }
    fn open(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.alive()?.open(zone)
    }
    fn close(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.alive()?.close(zone)
    }
    fn finish(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.alive()?.finish(zone)
    }
    fn reset(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.alive()?.reset(zone)
    }
}

/// A store whose page was acknowledged as `second` and whose process was killed in the checkpoint
/// that followed; whether it was.
fn killed_in_a_checkpoint(device: &mut ModelDevice, killed: u64) -> (Lba, Lba, bool) {
    let (placed, appended) = {
        let (mut store, placed, appended) = store(device);
        store.put(placed, b"second").unwrap();
        store.commit().unwrap();
        (placed, appended)
    };
    let ended = Store::open(Mortal { inner: device, left: killed }).and_then(|mut store| {
        store.recovered(&BTreeSet::from([placed, appended]))?;
        store.checkpoint()
    });
    (placed, appended, ended.is_err())
}

#[test]
fn a_power_cut_after_a_restart_loses_nothing() {
    let (mut kills, mut cuts) = (0, 0);
    for killed in 0.. {
        let mut is_killed = false;
        // Reads are requests too. Cut at each, until the second process is done before the cut.
        for cut in 0.. {
            // What is lost beside what survives: both copies of a superblock beside one reset, say.
            let mut is_done = false;
            for seed in 0..LOSSES {
                let place = format!("killed before change {killed}, cut at {cut}, loss {seed}");
                let mut device = device();
                let (placed, appended, died) = killed_in_a_checkpoint(&mut device, killed);
                device.install(Plan::none().cut_at(cut)).unwrap();
                let again = Store::open(&mut device)
                    .and_then(|mut store| store.recovered(&BTreeSet::from([placed, appended])));
                device.power_cycle(seed);
                device.install(Plan::none()).unwrap();
                let store = Store::open(&mut device).unwrap_or_else(|e| panic!("{place}: {e}"));
                assert_eq!(&store.read(placed).unwrap()[..6], b"second", "{place}");
                is_killed = died;
                match again {
                    Ok(()) => is_done = true,
                    Err(e) => assert_eq!(e.kind(), Kind::PowerCut, "{place}: {e}"),
                }
            }
            if is_done {
                break;
            }
            cuts += 1;
        }
        if !is_killed {
            break;
        }
        kills += 1;
    }
    assert!(kills > 10 && cuts > 300, "{kills} kills, {cuts} cuts");
}

#[test]
fn a_page_whose_write_in_place_failed_is_read_as_it_was_acknowledged() {
    let mut failed = 0;
    for request in 0..14 {
        let mut device = device();
        let (mut store, placed, _) = store(&mut device);
        store.put(placed, b"second").unwrap();
        store.commit().unwrap();
        store.device_mut().install(Plan::none().pin(request, |_| Verdict::Fail)).unwrap();
        failed += u64::from(store.checkpoint().is_err());
        assert_eq!(&store.read(placed).unwrap()[..6], b"second", "request {request}");
    }
    assert!(failed > 3, "{failed} checkpoints failed");
}

#[test]
fn pages_of_the_largest_blocks_are_logged_again_after_a_restart() {
    let big = Geometry { block_bytes: 65_536, ..geometry(1) };
    let mut device = ModelDevice::new(big).unwrap();
    let mut store = Store::create(&mut device, *b"promises", &[], 3).unwrap();
    let placed = store.allocate().unwrap();
    let page = vec![7; 65_536 - 4];
    store.put(placed, &page).unwrap();
    store.set_root(Root { top: placed, height: 0, records: 1 });
    store.commit().unwrap();
    drop(store);
    for _ in 0..2 {
        let mut store = Store::open(&mut device).unwrap();
        store.recovered(&BTreeSet::from([placed])).unwrap();
        assert_eq!(store.read(placed).unwrap()[..page.len()], page);
    }
}

#[test]
fn a_medium_whose_superblocks_are_gone_is_not_called_empty() {
    let mut device = device();
    drop(store(&mut device));
    let homes: Vec<Lba> = {
        let zones = device.report(ZoneId(0), device.limits().zones).unwrap();
        let conventional = zones.iter().filter(|z| z.kind == ZoneKind::Conventional);
        conventional.flat_map(|z| (z.start.0..z.start.0 + 4).map(Lba)).collect()
    };
    for at in homes {
        let ticket = device.write(at, &[0; BLOCK_BYTES]).unwrap();
        device.wait(ticket).unwrap();
    }
    let error = Store::open(&mut device).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains("no superblock is left, but zone"), "{error}");
    assert!(error.place().zone.is_some(), "{error}");
    let empty = Store::open(&mut self::device()).map(drop).unwrap_err();
    assert_eq!(empty.kind(), Kind::Foreign);
    assert!(empty.to_string().contains("the medium is empty"), "{empty}");
}

#[test]
fn a_creation_that_was_cut_short_is_named() {
    let mut named = 0;
    // The reads that look for something on the medium are requests too.
    for request in 0.. {
        let mut device = device();
        device.install(Plan::none().pin(request, |_| Verdict::Fail)).unwrap();
        if Store::create(&mut device, *b"promises", &[], 3).is_ok() {
            break;
        }
        device.install(Plan::none()).unwrap();
        let found = Store::open(&mut device).map(drop);
        named +=
            u64::from(found.is_err_and(|e| {
                e.kind() == Kind::Foreign && e.to_string().contains("was cut short")
            }));
    }
    assert!(named > 0);
}

/// Changes the first byte of pages, durable together and without a checkpoint.
fn touch(store: &mut Store<ModelDevice>, pages: &[Lba], byte: u8) {
    let before = store.counts().checkpoints;
    for some in pages.chunks(20) {
        for &at in some {
            store.patch(at, &[Patch::Put { at: 0, bytes: &[byte] }]).unwrap();
        }
        store.commit().unwrap();
    }
    store.sync().unwrap();
    assert_eq!(store.counts().checkpoints, before, "the pages are in the redo log alone");
}

#[test]
fn a_store_that_is_killed_again_and_again_opens() {
    // Each part of the pages is as many as are changed between two checkpoints.
    const PART: usize = 200;
    let zone_blocks = 512;
    let big = Geometry {
        conventional_zones: 2,
        sequential_zones: 6,
        zone_blocks,
        capacity_blocks: zone_blocks,
        ..geometry(1)
    };
    let mut store = Store::create(ModelDevice::new(big).unwrap(), *b"promises", &[], 3).unwrap();
    store.set_durability(Durability::Batch);
    let mut pages = Vec::new();
    for n in 0..3 * PART {
        let at = store.allocate().unwrap();
        store.put(at, &[n as u8; BLOCK_BYTES - 4]).unwrap();
        store.set_root(Root { top: at, height: 0, records: 1 });
        store.commit().unwrap();
        pages.push(at);
    }
    store.checkpoint().unwrap();
    let live: BTreeSet<Lba> = pages.iter().copied().collect();
    let mut parts = pages.chunks(PART).zip(1..);
    let (part, byte) = parts.next().unwrap();
    touch(&mut store, part, byte);
    store.checkpoint().unwrap();
    for (part, byte) in parts {
        // Killed with the pages of the checkpoint and these in the log.
        touch(&mut store, part, byte);
        store = Store::open(store.into_device()).unwrap();
        store.recovered(&live).unwrap();
        store.set_durability(Durability::Batch);
    }
    let mut device = store.into_device();
    device.power_cycle(1);
    let store = Store::open(device).unwrap();
    for (n, &at) in pages.iter().enumerate() {
        let page = store.read(at).unwrap();
        assert_eq!(page[..2], [(n / PART) as u8 + 1, n as u8], "page {n}");
    }
}
