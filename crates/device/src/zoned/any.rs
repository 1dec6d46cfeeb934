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
use super::{Ticket, ZoneReport, ZonedDevice, ZonedLimits, forward_zoned};
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
    ($self:ident, $($call:tt)+) => {
        match $self {
            AnyZoned::Model(device, _) => device.$($call)+,
            AnyZoned::File(device) => device.$($call)+,
            AnyZoned::Drive(device) => device.$($call)+,
            AnyZoned::Joined(device) => device.$($call)+,
        }
    };
}

impl ZonedDevice for AnyZoned {
    forward_zoned!(each);
}
