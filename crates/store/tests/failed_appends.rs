//! Appends that fail although they reach the medium, as a drive's write whose answer was lost.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::collections::BTreeSet;

use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::{Ticket, ZoneReport, ZonedDevice, ZonedLimits};
use littoral_device::{Error as DeviceError, Kind as DeviceKind, Result as DeviceResult};
use littoral_store::pages::{Heat, Pages as _, Root};
use littoral_store::store::Store;

use common::geometry;

/// A device whose next write is done and fails, if it is to.
#[derive(Debug)]
struct Failing {
    inner: ModelDevice,
    fails: bool,
}

impl ZonedDevice for Failing {
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
        let ticket = self.inner.write(at, data)?;
        match std::mem::take(&mut self.fails) {
            true => Err(DeviceError::new(DeviceKind::Io, "the write's answer was lost")),
            false => Ok(ticket),
        }
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
}

#[test]
fn a_page_whose_append_failed_behind_its_end_goes_to_another_zone() {
    let inner = ModelDevice::new(geometry(1)).unwrap();
    let device = Failing { inner, fails: false };
    let mut store = Store::create(device, *b"failing\0", &[], 3).unwrap();
    let mut pages = vec![store.append(Heat::Hot, &[0; 8]).unwrap()];
    store.device_mut().fails = true;
    for n in 1..4u8 {
        pages.push(store.append(Heat::Hot, &[n; 8]).unwrap());
    }
    store.set_root(Root { top: pages[0], height: 0, records: 4 });
    store.commit().unwrap();
    let mut store = Store::open(store.into_device()).unwrap();
    store.recovered(&pages.iter().copied().collect::<BTreeSet<Lba>>()).unwrap();
    for (n, &at) in pages.iter().enumerate() {
        assert_eq!(store.read(at).unwrap()[..8], [n as u8; 8], "page {at}");
    }
    assert!(pages[1].0 > pages[0].0 + 1, "{pages:?}");
}
