//! A stranger's hundred-line log store meets the zoned model, which finds its two mistakes.
//!
//! The store appends length-prefixed records to one sequential zone. Version one (`Mode::Hasty`)
//! rewrites its last block in place to add a record to it, and acknowledges a record when the write
//! has completed. The model rejects the rewrite, naming the rule; with that repaired, a power cut
//! after an acknowledgement loses the record, since nothing was flushed. `Mode::Careful` does
//! neither.
//!
//! Run: `cargo run -p littoral-device --example log_store`
#![allow(clippy::print_stdout, clippy::unwrap_used)] // an example prints, and stops when surprised

use littoral_base::units::{Lba, ZoneId};
use littoral_device::Result;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::refusal::Refusal;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{ZonedDevice, ZonedLimits};

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// Packs records into the last block by writing it again.
    Hasty,
    /// One block a record, acknowledged when written.
    Unflushed,
    /// One block a record, acknowledged when flushed.
    Careful,
}

/// A log of records in zone 0.
struct LogStore<D> {
    device: D,
    mode: Mode,
    next: Lba,
    tail: Vec<u8>,
}

impl<D: ZonedDevice> LogStore<D> {
    fn open(device: D, mode: Mode) -> Result<Self> {
        let next = device.report(ZoneId(0), 1)?[0].write_pointer;
        Ok(LogStore { device, mode, next, tail: Vec::new() })
    }

    fn limits(&self) -> ZonedLimits {
        self.device.limits()
    }

    /// Adds a record; returning is the acknowledgement.
    fn add(&mut self, record: &[u8]) -> Result<()> {
        let block = self.limits().block_bytes as usize;
        if self.mode == Mode::Hasty && !self.tail.is_empty() {
            // The tail block has room: put the record there and write the block again.
            self.tail.push(record.len() as u8);
            self.tail.extend_from_slice(record);
            let mut bytes = self.tail.clone();
            bytes.resize(block, 0);
            let ticket = self.device.write(Lba(self.next.0 - 1), &bytes)?;
            return self.device.wait(ticket).map(|_| ());
        }
        self.tail = vec![record.len() as u8];
        self.tail.extend_from_slice(record);
        let mut bytes = self.tail.clone();
        bytes.resize(block, 0);
        let ticket = self.device.write(self.next, &bytes)?;
        self.device.wait(ticket)?;
        self.next = Lba(self.next.0 + 1);
        if self.mode == Mode::Careful { self.device.flush() } else { Ok(()) }
    }

    /// Every record in the log, oldest first.
    fn records(&self) -> Result<Vec<Vec<u8>>> {
        let mut block = vec![0; self.limits().block_bytes as usize];
        let mut found = Vec::new();
        for lba in 0..self.next.0 {
            self.device.read(Lba(lba), &mut block)?;
            let mut rest = &block[..];
            while let [len, bytes @ ..] = rest {
                if *len == 0 {
                    break;
                }
                let (record, after) = bytes.split_at(usize::from(*len));
                found.push(record.to_vec());
                rest = after;
            }
        }
        Ok(found)
    }
}

fn device() -> ModelDevice {
    let geometry = Geometry {
        conventional_zones: 0,
        sequential_zones: 1,
        zone_blocks: 64,
        ..Geometry::paper()
    };
    ModelDevice::new(Geometry { capacity_blocks: 64, ..geometry }).unwrap()
}

/// Adds records until power is cut before operation `cut`, and counts the acknowledged ones that
/// are missing when power is back.
fn lost_at(mode: Mode, cut: u64, seed: u64) -> Result<usize> {
    let mut model = device();
    model.install(format!("cut={cut}").parse().unwrap())?;
    let mut store = LogStore::open(model, mode)?;
    let mut acknowledged = 0;
    while acknowledged < 20 && store.add(format!("record {acknowledged}").as_bytes()).is_ok() {
        acknowledged += 1;
    }
    let mut model = store.device;
    model.power_cycle(seed);
    let found = LogStore::open(model, mode)?.records()?.len();
    Ok(acknowledged - found.min(acknowledged))
}

fn lost(mode: Mode) -> usize {
    (0..40).map(|cut| lost_at(mode, cut, cut).unwrap()).sum()
}

fn main() {
    let mut store = LogStore::open(device(), Mode::Hasty).unwrap();
    store.add(b"first").unwrap();
    let error = store.add(b"second").unwrap_err();
    assert_eq!(Refusal::of(&error), Some(Refusal::NotAtWritePointer));
    println!("illegal write found: {error}");

    let unflushed = lost(Mode::Unflushed);
    assert!(unflushed > 0, "the model missed the lost updates");
    println!("without a flush: {unflushed} acknowledged records lost over 40 power cuts");

    assert_eq!(lost(Mode::Careful), 0, "a careful store loses nothing");
    println!("with a flush before the acknowledgement: none lost");
}
