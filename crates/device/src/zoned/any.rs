//! A closed enum of the zoned devices, for one chosen at run time.
//!
//! Each call has one more branch than the device itself, which is small beside a block written.
//! [`AnyZoned::clock`] and [`AnyZoned::describe`] are the only source of the words about what is
//! measured and what is modelled.

use littoral_base::clock::ClockKind;
use littoral_base::units::{Lba, Picos, ZoneId};

use super::file::FileDevice;
use super::joined::Joined;
use super::linux::LinuxDevice;
use super::model::ModelDevice;
use super::{Ticket, ZoneReport, ZonedDevice, ZonedLimits};
use crate::error::Result;

/// A zoned device chosen at run time.
#[derive(Debug)]
pub enum AnyZoned {
    /// Zones in this process's memory, in virtual time; the profile's name where it has one.
    Model(Box<ModelDevice>, Option<String>),
    /// Zones in a sparse file.
    File(Box<FileDevice>),
    /// A zoned block device.
    Drive(Box<LinuxDevice>),
    /// A zoned block device with its conventional zones on another device.
    Joined(Box<Joined<LinuxDevice>>),
}

impl AnyZoned {
    /// Which clock stands behind a time on this device.
    pub fn clock(&self) -> ClockKind {
        match self {
            AnyZoned::Model(..) => ClockKind::Virtual,
            AnyZoned::File(_) | AnyZoned::Drive(_) | AnyZoned::Joined(_) => ClockKind::Wall,
        }
    }

    /// What is real and what is modelled, in one line.
    pub fn describe(&self) -> String {
        match self {
            AnyZoned::Model(_, Some(profile)) => {
                format!("zones modelled in memory, latencies of profile {profile}")
            }
            AnyZoned::Model(_, None) => "zones modelled in memory, without latencies".to_owned(),
            AnyZoned::File(_) => "zones modelled in a file".to_owned(),
            AnyZoned::Drive(_) => "a zoned drive; nothing modelled".to_owned(),
            AnyZoned::Joined(_) => {
                "a zoned drive and the device of its conventional zones; nothing modelled"
                    .to_owned()
            }
        }
    }

    /// Lets virtual time pass until `time`; a device that has none takes no notice.
    pub fn idle_until(&self, time: Picos) {
        if let AnyZoned::Model(model, _) = self {
            model.idle_until(time);
        }
    }
}

macro_rules! each {
    ($self:ident, $device:ident => $call:expr) => {
        match $self {
            AnyZoned::Model($device, _) => $call,
            AnyZoned::File($device) => $call,
            AnyZoned::Drive($device) => $call,
            AnyZoned::Joined($device) => $call,
        }
    };
}

impl ZonedDevice for AnyZoned {
    fn limits(&self) -> ZonedLimits {
        each!(self, d => d.limits())
    }
    fn virtual_now(&self) -> Option<Picos> {
        each!(self, d => d.virtual_now())
    }
    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        each!(self, d => d.report(first, count))
    }
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        each!(self, d => d.read(at, into))
    }
    fn write(&mut self, at: Lba, data: &[u8]) -> Result<Ticket> {
        each!(self, d => d.write(at, data))
    }
    fn append(&mut self, zone: ZoneId, data: &[u8]) -> Result<Ticket> {
        each!(self, d => d.append(zone, data))
    }
    fn wait(&mut self, ticket: Ticket) -> Result<Lba> {
        each!(self, d => d.wait(ticket))
    }
    fn flush(&mut self) -> Result<()> {
        each!(self, d => d.flush())
    }
    fn open(&mut self, zone: ZoneId) -> Result<()> {
        each!(self, d => d.open(zone))
    }
    fn close(&mut self, zone: ZoneId) -> Result<()> {
        each!(self, d => d.close(zone))
    }
    fn finish(&mut self, zone: ZoneId) -> Result<()> {
        each!(self, d => d.finish(zone))
    }
    fn reset(&mut self, zone: ZoneId) -> Result<()> {
        each!(self, d => d.reset(zone))
    }
    fn keep_room(&mut self, zones: &[ZoneId], spare_blocks: u64) -> Result<()> {
        each!(self, d => d.keep_room(zones, spare_blocks))
    }
    fn has_spare_room(&mut self) -> Result<bool> {
        each!(self, d => d.has_spare_room())
    }
    fn discard(&mut self, at: Lba, blocks: u64) -> Result<()> {
        each!(self, d => d.discard(at, blocks))
    }
}
