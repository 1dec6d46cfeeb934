//! A closed enum of the read devices, for one chosen at run time.
//!
//! A kernel matches on it once per thread and is compiled for DRAM and for the paced device.
//! Through the enum itself each call has one more branch, which is small beside a system call or a
//! queue pair's doorbell. No figure of DRAM or of the paced device is measured that way, except
//! where a part of a modelled device's contents is held in DRAM.

use std::time::Duration;

use super::dram::Dram;
use super::emulator::Emulator;
use super::paced::Paced;
use super::pread::Pread;
use super::queue_pair::QueuePair;
use super::uring::Uring;
use crate::read::{Lease, Limits, ReadDevice, Slot, Status};

/// A read device chosen at run time.
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
    /// The paced device, data handed out by pointer.
    Pointed(Box<Paced<false>>),
    /// The paced device behind a queue pair with doorbells.
    QueuePair(Box<QueuePair>),
}

macro_rules! each {
    ($self:ident, $device:ident => $call:expr) => {
        match $self {
            AnyDevice::Uring($device) => $call,
            AnyDevice::Pread($device) => $call,
            AnyDevice::Emulator($device) => $call,
            AnyDevice::Dram($device) => $call,
            AnyDevice::Paced($device) => $call,
            AnyDevice::Pointed($device) => $call,
            AnyDevice::QueuePair($device) => $call,
        }
    };
}

impl ReadDevice for AnyDevice {
    const FAST: bool = false;

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
