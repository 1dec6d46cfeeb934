//! Media that turn READ_ONLY at any moment: what was acknowledged is read, further changes are
//! refused, and the medium stays as it was.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::collections::BTreeMap;

use littoral_base::units::{Lba, ZoneId};
use littoral_device::Result as DeviceResult;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::{Ticket, ZoneReport, ZoneState, ZonedDevice, ZonedLimits};
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_index::zb::Direction;
use littoral_index::{Kind, Result};
use littoral_store::store::Durability;

use common::{GEOMETRY, key};

/// A device whose zones all turn READ_ONLY before the change number `left`.
#[derive(Debug)]
struct Wearing {
    inner: ModelDevice,
    left: u64,
}

impl Wearing {
    fn new(left: u64) -> Wearing {
        Wearing { inner: ModelDevice::new(GEOMETRY).unwrap(), left }
    }

    /// The device, one change older.
    fn changed(&mut self) -> &mut ModelDevice {
        if self.left == 1 {
            let zones = self.inner.limits().zones;
            (0..zones).for_each(|z| self.inner.fail_zone(ZoneId(z), ZoneState::ReadOnly).unwrap());
        }
        self.left = self.left.saturating_sub(1);
        &mut self.inner
    }
}

impl ZonedDevice for Wearing {
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
        self.changed().write(at, data)
    }
    fn append(&mut self, zone: ZoneId, data: &[u8]) -> DeviceResult<Ticket> {
        self.changed().append(zone, data)
    }
    fn wait(&mut self, ticket: Ticket) -> DeviceResult<Lba> {
        self.inner.wait(ticket)
    }
    fn flush(&mut self) -> DeviceResult<()> {
        self.inner.flush()
    }
    fn open(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.changed().open(zone)
    }
    fn close(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.changed().close(zone)
    }
    fn finish(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.changed().finish(zone)
    }
    fn reset(&mut self, zone: ZoneId) -> DeviceResult<()> {
        self.changed().reset(zone)
    }
}

type Contents = BTreeMap<[u8; 8], [u8; 8]>;

fn held<D: ZonedDevice>(index: &Index<D>) -> Contents {
    let mut found = Contents::new();
    let mut note =
        |k: &[u8], v: &[u8]| found.insert(k.try_into().unwrap(), v.try_into().unwrap()).is_none();
    index.scan(None, None, Direction::Forward, &mut note).unwrap();
    found
}

/// Change `i`: a key is put or, every fourth time, an earlier one deleted; now and then a
/// checkpoint follows.
fn change(index: &mut Index<Wearing>, i: u64) -> Result<()> {
    match i % 4 {
        3 => _ = index.delete(&key(i / 2))?,
        _ => _ = index.put(&key(i), &i.to_be_bytes())?,
    }
    match i % 16 {
        9 => index.store_mut().checkpoint(),
        _ => index.sync(),
    }
}

/// What the index holds after change `i` of one that held `before`.
fn after(before: &Contents, i: u64) -> Contents {
    let mut held = before.clone();
    match i % 4 {
        3 => _ = held.remove(&key(i / 2)),
        _ => _ = held.insert(key(i), i.to_be_bytes()),
    }
    held
}

const CHANGES: u64 = 40;

/// Runs the changes on a device that wears out before change `left` of its own; whether it did.
fn wears_out(engine: Engine, left: u64, durability: Durability) -> bool {
    let place = format!("{engine:?}, {durability:?}, change {left} of the device");
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let mut index = match Index::create(Wearing::new(left), engine, shape, 7) {
        Ok(index) => index,
        Err(e) => {
            assert!(matches!(e.kind(), Kind::Io | Kind::Full), "{place}: {e}");
            return true;
        }
    };
    index.store_mut().set_durability(durability);
    let (mut acknowledged, mut number) = (Contents::new(), 0);
    let failure = loop {
        if number == CHANGES {
            break None;
        }
        match change(&mut index, number) {
            Ok(()) => acknowledged = after(&acknowledged, number),
            Err(e) => break Some(e),
        }
        number += 1;
    };
    if index.store_ref().device().left > 0 {
        assert!(failure.is_none(), "{place}: {failure:?}");
        return false;
    }
    let told = failure.unwrap_or_else(|| index.put(&[0; 8], &[0; 8]).expect_err(&place));
    assert!(matches!(told.kind(), Kind::Io | Kind::Full | Kind::Poisoned), "{place}: {told}");
    assert!(index.put(&[0; 8], &[0; 8]).is_err(), "{place}: a later change is refused too");
    let index = Index::open_to_read(index.into_device());
    let index = index.unwrap_or_else(|e| panic!("{place}: {e}"));
    let found = held(&index);
    // The change under way is durable or not.
    let is_right = found == acknowledged || found == after(&acknowledged, number);
    assert!(is_right, "{place}: {} records, {} acknowledged", found.len(), acknowledged.len());
    index.check().unwrap_or_else(|e| panic!("{place}: {e}"));
    let refused = Index::open(index.into_device()).map(drop).expect_err(&place);
    assert!(matches!(refused.kind(), Kind::Io | Kind::Full), "{place}: {refused}");
    true
}

#[test]
fn media_that_turn_read_only_at_any_moment_lose_nothing() {
    for engine in [Engine::Zb, Engine::Cow] {
        for durability in [Durability::Operation, Durability::Batch] {
            let first = (1..).find(|&left| !wears_out(engine, left, durability));
            assert!(first > Some(CHANGES), "{engine:?}: the changes reach the device");
        }
    }
}
