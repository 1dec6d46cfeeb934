//! A zoned block device of Linux: NVMe ZNS, host-managed SMR, null_blk, scsi_debug.
//!
//! - Our own ioctls (`linux/raw.rs`) and direct I/O. Blocks are 4096 bytes, or the device's own if
//!   those are larger, so that a page of an engine is one request.
//! - The drive is the judge: a request is refused because the drive refused it. Linux answers most
//!   refusals with EIO, so the zone's report is asked for the reason, and the error carries the
//!   same [`Refusal`] as the model's; 109, 75 and 28 speak for themselves. Only what Linux would
//!   silently split or round (a write over a zone's end, a range past the device, part of a block)
//!   is refused here.
//! - Write pointers are kept beside the drive's: the device has one owner, so they are the same,
//!   and reads behind them are zeros without asking the drive. After an error they are read again.
//! - Linux has no append for block devices: [`LinuxDevice::append`] writes at the pointer, which
//!   with one owner comes to the same.
//! - Durability: `flush` is `fdatasync`, which sends the drive a flush. After a failed one the
//!   handle is poisoned.

mod raw;

use std::fs::File;
use std::io::Error as IoError;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use littoral_base::units::{Lba, ZoneId};

use super::direct::{DirectFile, Tickets};
use super::refusal::Refusal;
use super::{Ticket, ZoneKind, ZoneReport, ZoneState, ZonedDevice, ZonedLimits};
use crate::error::{Error, Kind, Result};
use raw::{RawCommand, RawZone};

const SECTOR_BYTES: u64 = 512;
const BLOCK_BYTES_MIN: u64 = 4096;
/// Zones asked for in one report.
const REPORT_ZONES: u32 = 4096;

/// A Linux zoned block device.
#[derive(Debug)]
pub struct LinuxDevice {
    disk: DirectFile,
    limits: ZonedLimits,
    zone_blocks: u64,
    /// The write pointer and the end of each zone's capacity; of a conventional zone its end twice.
    known: Vec<(u64, u64)>,
    tickets: Tickets<Lba>,
    poisoned: bool,
}

/// Why a drive refused a request that Linux answered with `errno`, by the zone's report after it.
fn reason(errno: i32, zone: &ZoneReport, request: Request) -> Option<Refusal> {
    let named = Refusal::from_errno(errno).filter(|r| *r != Refusal::DriveError);
    if named.is_some() {
        return named;
    }
    let refused = match (request, zone.state) {
        (_, ZoneState::Offline) => Refusal::Offline,
        (Request::Read, _) => return Refusal::from_errno(errno),
        (_, ZoneState::ReadOnly) => Refusal::ReadOnly,
        (Request::Command, ZoneState::NotWritePointer) => Refusal::Conventional,
        (Request::Command, _) => Refusal::WrongState,
        (Request::Write(..), ZoneState::Full) => Refusal::ZoneFull,
        (Request::Write(at, _), _) if at != zone.write_pointer => Refusal::NotAtWritePointer,
        (Request::Write(at, n), _) if at.0 + n > zone.start.0 + zone.capacity_blocks => {
            Refusal::PastCapacity
        }
        _ => return Refusal::from_errno(errno),
    };
    Some(refused)
}

#[derive(Clone, Copy)]
enum Request {
    Read,
    Write(Lba, u64),
    Command,
}

fn state(condition: u8) -> ZoneState {
    match condition {
        0x0 => ZoneState::NotWritePointer,
        0x1 => ZoneState::Empty,
        0x2 => ZoneState::ImplicitOpen,
        0x3 => ZoneState::ExplicitOpen,
        0x4 => ZoneState::Closed,
        0xd => ZoneState::ReadOnly,
        0xe => ZoneState::Full,
        _ => ZoneState::Offline,
    }
}

/// A number of the device's queue in sysfs; zero when the kernel does not tell.
fn queue(file: &File, name: &str) -> u64 {
    let number = |rdev: u64| {
        let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
        std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/queue/{name}")).ok()
    };
    let text = file.metadata().ok().and_then(|m| number(m.rdev()));
    text.and_then(|t| t.trim().parse().ok()).unwrap_or(0)
}

impl LinuxDevice {
    /// Opens the zoned block device at `path`, alone.
    ///
    /// # Errors
    /// `Kind::Unsupported` when it is no zoned block device or its zones are no whole blocks of
    /// 4096 bytes, `Kind::Busy` when it is mounted or open elsewhere, `Kind::Io`.
    pub fn open(path: &Path) -> Result<LinuxDevice> {
        let disk = DirectFile::open(path)?;
        let not_zoned = || {
            let text = format!("{}: is no zoned block device; see `littoral machine`", disk.path());
            Error::new(Kind::Unsupported, text)
        };
        let file = disk.to_read().map_err(|_| not_zoned())?;
        let sectors = u64::from(raw::zone_sectors(file).map_err(|_| not_zoned())?);
        if sectors == 0 {
            return Err(not_zoned());
        }
        let zones = raw::zones(file).map_err(|_| not_zoned())?;
        let block = BLOCK_BYTES_MIN.max(queue(file, "physical_block_size"));
        if !(sectors * SECTOR_BYTES).is_multiple_of(block) {
            let text = format!("{}: zones are no whole blocks of {block} bytes", disk.path());
            return Err(Error::new(Kind::Unsupported, text));
        }
        let small = |name: &str| u32::try_from(queue(file, name)).unwrap_or(u32::MAX);
        let limits = ZonedLimits {
            block_bytes: block as u32,
            zones,
            open_zones_max: small("max_open_zones"),
            active_zones_max: small("max_active_zones"),
            append_blocks_max: (queue(file, "max_sectors_kb") * 1024 / block) as u32,
        };
        let zone_blocks = sectors * SECTOR_BYTES / block;
        let tickets = Tickets::default();
        let mut device =
            LinuxDevice { disk, limits, zone_blocks, known: Vec::new(), tickets, poisoned: false };
        let report = device.report(ZoneId(0), zones)?;
        device.known = report.iter().map(known).collect();
        Ok(device)
    }

    fn sectors_per_block(&self) -> u64 {
        u64::from(self.limits.block_bytes) / SECTOR_BYTES
    }

    fn zone_of(&self, at: Lba) -> ZoneId {
        ZoneId((at.0 / self.zone_blocks) as u32)
    }

    fn zone_report(&self, z: &RawZone) -> ZoneReport {
        let blocks = |sectors: u64| sectors / self.sectors_per_block();
        let (start, capacity) = (blocks(z.start), blocks(z.capacity));
        let state = state(z.condition);
        ZoneReport {
            zone: ZoneId((start / self.zone_blocks) as u32),
            kind: if z.kind == 1 { ZoneKind::Conventional } else { ZoneKind::Sequential },
            state,
            start: Lba(start),
            size_blocks: blocks(z.len),
            capacity_blocks: capacity,
            write_pointer: Lba(pointer(state, start, capacity, blocks(z.write_pointer))),
        }
    }

    /// The error of a request on `zone` that Linux failed; what is known of the zone is read again.
    #[cold]
    fn refused(&mut self, zone: ZoneId, request: Request, what: String, e: IoError) -> Error {
        let Ok(report) = self.report(zone, 1) else { return self.io(&what, e) };
        self.known[zone.index()] = known(&report[0]);
        self.named(&report[0], request, what, e)
    }

    fn named(&self, zone: &ZoneReport, request: Request, what: String, e: IoError) -> Error {
        let context = format!("{}: {what}", self.disk.path());
        match e.raw_os_error().and_then(|errno| reason(errno, zone, request)) {
            Some(refusal) => refusal.error(context),
            None => Error::with_source(Kind::Io, context, e),
        }
    }

    fn io(&self, what: &str, e: IoError) -> Error {
        Error::with_source(Kind::Io, format!("{}: {what}", self.disk.path()), e)
    }

    /// The error of a write over the zone's end, which Linux would split.
    #[cold]
    fn crossing(&self, zone: ZoneId, what: String) -> Error {
        let state = self.report(zone, 1).map(|r| r[0].state);
        let refusal = match state {
            Ok(ZoneState::Full) => Refusal::ZoneFull,
            Ok(ZoneState::ReadOnly) => Refusal::ReadOnly,
            Ok(ZoneState::Offline) => Refusal::Offline,
            _ => Refusal::CrossesZones,
        };
        refusal.error(format!("{}: {what}", self.disk.path()))
    }

    fn usable(&self) -> Result<()> {
        if self.poisoned {
            let text = format!("{}: an earlier flush failed; reopen the device", self.disk.path());
            return Err(Error::new(Kind::Poisoned, text));
        }
        // What this process knows of the pointers ends with a fork.
        self.disk.to_read().map(|_| ()).map_err(|e| self.io("request", e))
    }

    /// The blocks of a request of `len` bytes at `at`, or the rule that it breaks before a drive
    /// sees it.
    fn blocks(&self, at: Lba, len: usize) -> std::result::Result<u64, Refusal> {
        let block = self.limits.block_bytes as usize;
        if len == 0 || !len.is_multiple_of(block) {
            return Err(Refusal::Misaligned);
        }
        let n = (len / block) as u64;
        let end = at.0.checked_add(n).ok_or(Refusal::OutOfRange)?;
        let device = u64::from(self.limits.zones) * self.zone_blocks;
        if end > device { Err(Refusal::OutOfRange) } else { Ok(n) }
    }

    fn command(&mut self, zone: ZoneId, command: RawCommand) -> Result<()> {
        self.usable()?;
        let what = format!("{command:?} of zone {zone}");
        if zone.0 >= self.limits.zones {
            return Err(Refusal::OutOfRange.error(what));
        }
        // The kernel takes an open or a close of what cannot be opened for done now and then;
        // the state machine's answer is the same on every drive.
        let before = self.report(zone, 1)?[0];
        if let Some(refusal) = never(command, &before) {
            return Err(refusal.error(format!("{}: {what}", self.disk.path())));
        }
        let sectors = self.sectors_per_block();
        let (at, len) = (before.start.0 * sectors, before.size_blocks * sectors);
        let done = self.disk.to_change().and_then(|file| raw::command(file, command, at, len));
        if let Err(e) = done {
            return Err(self.refused(zone, Request::Command, what, e));
        }
        self.known[zone.index()] = known(&self.report(zone, 1)?[0]);
        Ok(())
    }
}

/// The rule that a command breaks in the zone's present state, whatever the drive.
fn never(command: RawCommand, zone: &ZoneReport) -> Option<Refusal> {
    match (zone.state, command) {
        (ZoneState::NotWritePointer, _) => Some(Refusal::Conventional),
        (ZoneState::Offline, _) => Some(Refusal::Offline),
        (ZoneState::ReadOnly, _) => Some(Refusal::ReadOnly),
        (ZoneState::Full, RawCommand::Open) => Some(Refusal::WrongState),
        (ZoneState::Full | ZoneState::Empty, RawCommand::Close) => Some(Refusal::WrongState),
        _ => None,
    }
}

/// The write pointer of a zone, in blocks. Drives say what they like about the pointer of a zone
/// that takes no more; what a READ_ONLY one holds may lie anywhere in it.
fn pointer(state: ZoneState, start: u64, capacity: u64, said: u64) -> u64 {
    let end = start + capacity;
    match state {
        ZoneState::NotWritePointer | ZoneState::Empty | ZoneState::Offline => start,
        ZoneState::Full | ZoneState::ReadOnly => end,
        _ => said.clamp(start, end),
    }
}

/// Up to where reads ask the drive, and the end of the zone. Behind the first there are zeros; an
/// OFFLINE zone has none, so that the drive refuses.
fn known(z: &ZoneReport) -> (u64, u64) {
    let end = z.start.0 + z.capacity_blocks;
    match (z.kind, z.state) {
        (ZoneKind::Conventional, _) | (_, ZoneState::Offline) => (end, end),
        (ZoneKind::Sequential, _) => (z.write_pointer.0, end),
    }
}

impl ZonedDevice for LinuxDevice {
    fn limits(&self) -> ZonedLimits {
        self.limits
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        let end = first.0.checked_add(count).filter(|&e| e <= self.limits.zones);
        let what = || format!("report of {count} zones from {first}");
        let end = end.ok_or_else(|| Refusal::OutOfRange.error(what()))?;
        let mut zones = Vec::with_capacity(count as usize);
        let mut next = first.0;
        while next < end {
            let sector = u64::from(next) * self.zone_blocks * self.sectors_per_block();
            let count = (end - next).min(REPORT_ZONES);
            let found = self.disk.to_read().and_then(|file| raw::report(file, sector, count));
            let found = found.map_err(|e| self.io(&what(), e))?;
            if found.is_empty() {
                let text = format!("{}: {}: no zone came back", self.disk.path(), what());
                return Err(Error::new(Kind::Io, text));
            }
            next += found.len() as u32;
            zones.extend(found.iter().map(|z| self.zone_report(z)));
        }
        Ok(zones)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.usable()?;
        let what = || format!("read of {} bytes at block {at}", into.len());
        self.blocks(at, into.len()).map_err(|r| r.error(what()))?;
        let block = self.limits.block_bytes as usize;
        let (mut at, mut rest) = (at, into);
        while !rest.is_empty() {
            let zone = self.zone_of(at);
            let here = ((zone.0 as u64 + 1) * self.zone_blocks - at.0) as usize * block;
            let (part, more) = rest.split_at_mut(here.min(rest.len()));
            let written = self.known[zone.index()].0.saturating_sub(at.0) as usize * block;
            let (data, zeros) = part.split_at_mut(written.min(part.len()));
            zeros.fill(0);
            if !data.is_empty() {
                let what = format!("read of {} bytes at block {at}", data.len());
                let done = self.disk.read(data, at.0 * block as u64);
                done.map_err(|e| match self.report(zone, 1) {
                    Ok(report) => self.named(&report[0], Request::Read, what, e),
                    Err(_) => self.io(&what, e),
                })?;
            }
            (at, rest) = (Lba(at.0 + (part.len() / block) as u64), more);
        }
        Ok(())
    }

    fn write(&mut self, at: Lba, data: &[u8]) -> Result<Ticket> {
        self.usable()?;
        let what = || format!("write of {} bytes at block {at}", data.len());
        let zone = self.zone_of(at);
        let edge = (u64::from(zone.0) + 1) * self.zone_blocks;
        let blocks = match self.blocks(at, data.len()) {
            Ok(n) if at.0 + n > edge => return Err(self.crossing(zone, what())),
            Err(Refusal::OutOfRange) if zone.0 < self.limits.zones => {
                return Err(self.crossing(zone, what()));
            }
            found => found.map_err(|r| r.error(what()))?,
        };
        // A write beyond the capacity may be split, and its first part written.
        let (pointer, end) = self.known[zone.index()];
        if at.0 + blocks > end && at.0 == pointer && pointer < end {
            return Err(Refusal::PastCapacity.error(what()));
        }
        let done = self.disk.write(data, at.0 * u64::from(self.limits.block_bytes));
        done.map_err(|e| self.refused(zone, Request::Write(at, blocks), what(), e))?;
        if pointer < end {
            self.known[zone.index()].0 = at.0 + blocks;
        }
        Ok(self.tickets.issue(at))
    }

    fn append(&mut self, zone: ZoneId, data: &[u8]) -> Result<Ticket> {
        let what = || format!("append of {} bytes to zone {zone}", data.len());
        let report = self.report(zone, 1)?[0];
        let longest = u64::from(self.limits.append_blocks_max);
        let refusal = match report.state {
            _ if longest == 0 => Some(Refusal::NoAppend),
            ZoneState::NotWritePointer => Some(Refusal::Conventional),
            _ if data.len() as u64 > longest * u64::from(self.limits.block_bytes) => {
                Some(Refusal::AppendTooLong)
            }
            ZoneState::Offline => Some(Refusal::Offline),
            ZoneState::ReadOnly => Some(Refusal::ReadOnly),
            ZoneState::Full => Some(Refusal::ZoneFull),
            _ => None,
        };
        match refusal {
            Some(refusal) => Err(refusal.error(what())),
            None => self.write(report.write_pointer, data),
        }
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Lba> {
        self.tickets.find(ticket)
    }

    fn flush(&mut self) -> Result<()> {
        self.usable()?;
        let done = self.disk.flush();
        self.poisoned |= done.is_err();
        done
    }

    fn open(&mut self, zone: ZoneId) -> Result<()> {
        self.command(zone, RawCommand::Open)
    }
    fn close(&mut self, zone: ZoneId) -> Result<()> {
        self.command(zone, RawCommand::Close)
    }
    fn finish(&mut self, zone: ZoneId) -> Result<()> {
        self.command(zone, RawCommand::Finish)
    }
    fn reset(&mut self, zone: ZoneId) -> Result<()> {
        self.command(zone, RawCommand::Reset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(state: ZoneState) -> ZoneReport {
        ZoneReport {
            zone: ZoneId(1),
            kind: ZoneKind::Sequential,
            state,
            start: Lba(100),
            size_blocks: 100,
            capacity_blocks: 80,
            write_pointer: Lba(110),
        }
    }

    #[test]
    fn what_is_no_zoned_device_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plain");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let e = LinuxDevice::open(&path).unwrap_err();
        assert!(e.kind() == Kind::Unsupported && e.to_string().contains("plain"), "{e}");
        assert_eq!(LinuxDevice::open(&dir.path().join("gone")).unwrap_err().kind(), Kind::Io);
    }

    #[test]
    fn errno_and_report_together_name_the_rule() {
        use ZoneState::{Closed, Empty, Full, NotWritePointer, Offline, ReadOnly};
        let write = |at: u64, n: u64| Request::Write(Lba(at), n);
        for (errno, state, request, wanted) in [
            (109, Empty, write(100, 1), Refusal::OpenLimit),
            (75, Empty, Request::Command, Refusal::ActiveLimit),
            (28, Closed, write(110, 1), Refusal::NoSpace),
            (5, Closed, write(120, 1), Refusal::NotAtWritePointer),
            (5, Closed, write(110, 71), Refusal::PastCapacity),
            (5, Full, write(110, 1), Refusal::ZoneFull),
            (5, ReadOnly, write(110, 1), Refusal::ReadOnly),
            (5, Offline, Request::Read, Refusal::Offline),
            (5, NotWritePointer, Request::Command, Refusal::Conventional),
            (5, Closed, Request::Read, Refusal::DriveError),
            (5, Closed, write(110, 1), Refusal::DriveError),
        ] {
            assert_eq!(reason(errno, &zone(state), request), Some(wanted), "{errno} {state:?}");
        }
        assert_eq!(reason(22, &zone(Closed), write(110, 1)), None);
    }

    #[test]
    fn worn_zones_are_read_from_the_drive_wherever_their_pointer_is_said_to_be() {
        for state in [ZoneState::ReadOnly, ZoneState::Offline, ZoneState::Full] {
            for said in [0, 150, u64::MAX] {
                let write_pointer = Lba(pointer(state, 100, 64, said));
                assert!((100..=164).contains(&write_pointer.0), "{state:?}, {said}");
                let report = ZoneReport {
                    zone: ZoneId(1),
                    kind: ZoneKind::Sequential,
                    state,
                    start: Lba(100),
                    size_blocks: 64,
                    capacity_blocks: 64,
                    write_pointer,
                };
                assert_eq!(known(&report), (164, 164), "{state:?}, {said}");
            }
        }
        assert_eq!(pointer(ZoneState::Closed, 100, 64, 120), 120);
    }
}
