//! Room of a full host: a checkpoint gives that of free conventional pages back, and no live
//! page's; a dead page whose room was given back is gone from memory too.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::{Ticket, ZoneReport, ZonedDevice, ZonedLimits};
use littoral_device::{Error as DeviceError, Kind as DeviceKind, Result as DeviceResult};
use littoral_store::error::Kind;
use littoral_store::pages::{Heat, Pages as _, Root};
use littoral_store::store::Store;

use common::{BLOCK_BYTES, geometry};

/// What a host is told, whether it has room, and whether giving room back fails.
#[derive(Clone, Debug, Default)]
struct Host {
    is_full: Rc<Cell<bool>>,
    takes_nothing: Rc<Cell<bool>>,
    discarded: Rc<RefCell<Vec<u64>>>,
}

/// A device whose blocks take a host's room.
#[derive(Debug)]
struct Hosted {
    inner: ModelDevice,
    host: Host,
}

impl ZonedDevice for Hosted {
    fn limits(&self) -> ZonedLimits {
        self.inner.limits()
    }
    fn report(&self, first: ZoneId, count: u32) -> DeviceResult<Vec<ZoneReport>> {
        self.inner.report(first, count)
    }
    fn read(&self, at: Lba, into: &mut [u8]) -> DeviceResult<()> {
        self.inner.read(at, into)?;
        let discarded = self.host.discarded.borrow();
        for (i, block) in into.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            if discarded.contains(&(at.0 + i as u64)) {
                block.fill(0);
            }
        }
        Ok(())
    }
    fn write(&mut self, at: Lba, data: &[u8]) -> DeviceResult<Ticket> {
        let written = at.0..at.0 + (data.len() / BLOCK_BYTES) as u64;
        self.host.discarded.borrow_mut().retain(|block| !written.contains(block));
        self.inner.write(at, data)
    }
    fn append(&mut self, zone: ZoneId, data: &[u8]) -> DeviceResult<Ticket> {
        self.inner.append(zone, data)
    }
    fn wait(&mut self, ticket: Ticket) -> DeviceResult<Lba> {
        self.inner.wait(ticket)
    }
    fn flush(&mut self) -> DeviceResult<()> {
        self.inner.flush()
    }
    fn open(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.inner.open(zone)
    }
    fn close(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.inner.close(zone)
    }
    fn finish(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.inner.finish(zone)
    }
    fn reset(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.inner.reset(zone)
    }
    fn shares_room(&self) -> bool {
        true
    }
    fn has_spare_room(&mut self) -> DeviceResult<bool> {
        Ok(!self.host.is_full.get())
    }
    fn discard(&mut self, at: Lba, blocks: u64) -> DeviceResult<()> {
        if self.host.takes_nothing.get() {
            return Err(DeviceError::new(DeviceKind::Io, "giving blocks back"));
        }
        self.host.discarded.borrow_mut().extend(at.0..at.0 + blocks);
        Ok(())
    }
}

#[test]
fn a_checkpoint_on_a_full_host_gives_the_room_of_free_pages_back() {
    let host = Host::default();
    let inner = ModelDevice::new(geometry(1)).unwrap();
    let device = Hosted { inner, host: host.clone() };
    let mut store = Store::create(device, *b"hostroom", &[], 3).unwrap();
    let pages: Vec<Lba> = (0..30u8)
        .map(|n| {
            let at = store.allocate().unwrap();
            store.put(at, &[n; 16]).unwrap();
            at
        })
        .collect();
    store.set_root(Root { top: pages[1], height: 0, records: 1 });
    store.commit().unwrap();
    store.checkpoint().unwrap();
    let (live, dead): (Vec<Lba>, Vec<Lba>) = pages.iter().partition(|at| at.0 % 3 == 0);
    dead.iter().for_each(|&at| store.free(at));
    store.set_root(Root { top: live[0], height: 0, records: 1 });
    store.commit().unwrap();
    store.checkpoint().unwrap();
    assert!(host.discarded.borrow().is_empty(), "the host has room");

    host.is_full.set(true);
    store.sync().unwrap();
    assert!(host.discarded.borrow().is_empty(), "the redo log may name what was freed");
    store.checkpoint().unwrap();
    let discarded = host.discarded.borrow().clone();
    assert!(dead.iter().all(|at| discarded.contains(&at.0)), "{dead:?} in {discarded:?}");
    assert!(live.iter().all(|at| !discarded.contains(&at.0)), "{live:?} not in {discarded:?}");
    for &at in &live {
        let n = pages.iter().position(|p| *p == at).unwrap() as u8;
        assert_eq!(&store.read(at).unwrap()[..16], &[n; 16]);
    }
}

#[test]
fn a_dead_page_whose_room_was_given_back_is_not_read_from_memory() {
    let host = Host::default();
    let inner = ModelDevice::new(geometry(1)).unwrap();
    let device = Hosted { inner, host: host.clone() };
    let mut store = Store::create(device, *b"hostroom", &[], 3).unwrap();
    let (live, dead) = (store.append(Heat::Hot, b"live"), store.append(Heat::Hot, b"dead"));
    let (live, dead) = (live.unwrap(), dead.unwrap());
    store.set_root(Root { top: live, height: 0, records: 2 });
    store.commit().unwrap();
    store.free(dead);
    store.set_root(Root { top: live, height: 0, records: 1 });
    store.commit().unwrap();
    // The collector looks through dead pages for copies that it can use.
    assert_eq!(&store.read(dead).unwrap()[..4], b"dead");
    host.is_full.set(true);
    assert!(!store.give_dead_pages_back().unwrap(), "the host stays full");
    assert!(host.discarded.borrow().contains(&dead.0), "the page's room was given back");
    let error = store.read(dead).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert_eq!(&store.read(live).unwrap()[..4], b"live");
}

#[test]
fn a_dead_page_whose_room_could_not_be_given_back_is_found_again() {
    let host = Host::default();
    let inner = ModelDevice::new(geometry(1)).unwrap();
    let device = Hosted { inner, host: host.clone() };
    let mut store = Store::create(device, *b"hostroom", &[], 3).unwrap();
    let live = store.append(Heat::Hot, b"live").unwrap();
    let dead = store.append(Heat::Hot, b"dead").unwrap();
    store.set_root(Root { top: live, height: 0, records: 2 });
    store.commit().unwrap();
    host.is_full.set(true);
    // All zones are looked through; from now on pages are noted as they are freed.
    assert!(!store.give_dead_pages_back().unwrap(), "the host stays full");
    store.free(dead);
    store.set_root(Root { top: live, height: 0, records: 1 });
    store.commit().unwrap();
    host.takes_nothing.set(true);
    assert_eq!(store.give_dead_pages_back().unwrap_err().kind(), Kind::Io);
    host.takes_nothing.set(false);
    assert!(!store.give_dead_pages_back().unwrap(), "the host stays full");
    assert!(host.discarded.borrow().contains(&dead.0), "the page's room was given back");
}
