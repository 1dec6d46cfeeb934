//! A closed enum of the read devices that no kernel is compiled for separately.
//!
//! DRAM, the paced device and io_uring are monomorphised into each kernel; a device chosen at run
//! time goes through [`AnyDevice`], whose one extra branch a call is small beside a system call. No
//! figure of DRAM or of the paced device is measured through it.

use std::path::Path;
use std::time::Duration;

use super::dram::Dram;
use super::emulator::Emulator;
use super::file::Direct;
use super::paced::Paced;
use super::pread::{Pread, PreadOptions};
use super::uring::{Uring, UringOptions};
use crate::error::{Kind, Result};
use crate::read::{Lease, Limits, ReadDevice, Slot, Status};

/// A read device chosen at run time.
#[non_exhaustive]
pub enum AnyDevice {
    /// io_uring on a file or block device.
    Uring(Box<Uring>),
    /// A pool of threads that pread a file.
    Pread(Pread),
    /// The two-core emulator.
    Emulator(Box<Emulator>),
    /// DRAM by prefetch.
    Dram(Dram),
    /// The paced device, copies charged to the host.
    Paced(Box<Paced<true>>),
}

/// What a file was opened with.
pub struct Opened {
    /// The device.
    pub device: AnyDevice,
    /// What is real, in words, with the reason when a fallback was taken.
    pub description: String,
}

impl AnyDevice {
    /// Opens a file through io_uring, or through a pread pool where io_uring is forbidden; the
    /// description says which and why.
    ///
    /// # Errors
    /// As [`Uring::open`] and [`Pread::open`].
    pub fn open_file(path: &Path, options: UringOptions) -> Result<Opened> {
        match Uring::open(path, options) {
            Ok(device) => {
                let description = device.describe();
                Ok(Opened { device: AnyDevice::Uring(Box::new(device)), description })
            }
            Err(e) if e.kind() == Kind::Unsupported && options.direct != Direct::Yes => {
                log::info!("a pool of pread threads stands in for io_uring: {}", e.context());
                let (slots, read_bytes_max) = (options.slots, options.read_bytes_max);
                let pool = PreadOptions { slots, read_bytes_max, ..PreadOptions::default() };
                let device = AnyDevice::Pread(Pread::open(path, pool)?);
                let description = format!("pread pool, page cache ({})", e.context());
                Ok(Opened { device, description })
            }
            Err(e) => Err(e),
        }
    }
}

macro_rules! each {
    ($self:ident, $device:ident => $call:expr) => {
        match $self {
            AnyDevice::Uring($device) => $call,
            AnyDevice::Pread($device) => $call,
            AnyDevice::Emulator($device) => $call,
            AnyDevice::Dram($device) => $call,
            AnyDevice::Paced($device) => $call,
        }
    };
}

impl ReadDevice for AnyDevice {
    fn limits(&self) -> Limits {
        each!(self, d => d.limits())
    }
    fn issue(&self, slot: Slot, addr: u64, len: u32) {
        each!(self, d => d.issue(slot, addr, len));
    }
    fn try_issue(&self, slot: Slot, addr: u64, len: u32) -> bool {
        each!(self, d => d.try_issue(slot, addr, len))
    }
    fn kick(&self) {
        each!(self, d => d.kick());
    }
    fn reap(&self) {
        each!(self, d => d.reap());
    }
    fn poll(&self, slot: Slot) -> Option<Status> {
        each!(self, d => d.poll(slot))
    }
    fn data(&self, slot: Slot, lease: Lease) -> &[u8] {
        each!(self, d => d.data(slot, lease))
    }
    fn answer(&self, slot: Slot, lease: Lease) -> Option<std::result::Result<&[u8], Status>> {
        each!(self, d => d.answer(slot, lease))
    }
    fn release(&self, slot: Slot) {
        each!(self, d => d.release(slot));
    }
    fn release_done(&self, slot: Slot) {
        each!(self, d => d.release_done(slot));
    }
    fn is_free(&self, slot: Slot) -> bool {
        each!(self, d => d.is_free(slot))
    }
    fn park(&self, timeout: Duration) {
        each!(self, d => d.park(timeout));
    }
    fn request(&self, slot: Slot) -> Option<(u64, u32)> {
        each!(self, d => d.request(slot))
    }
    fn last_error(&self) -> Option<String> {
        each!(self, d => d.last_error())
    }
}
