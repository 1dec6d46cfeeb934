//! A conventional class kept apart: an ordinary namespace, disk or file in front of a zoned device.
//!
//! NVMe ZNS knows sequential zones only, so an engine that needs blocks written in place gets them
//! from a namespace beside (or a file). The ordinary part is cut into zones of the zoned device's
//! size, numbered first; its last zone's capacity is what is left of it.
//!
//! - Both parts are flushed by one flush, the ordinary one first. Engines may not rely on the
//!   order: the trait promises none.
//! - Limits are the zoned device's: a conventional zone is never open.

use std::path::Path;

use littoral_base::units::{Lba, ZoneId};

use super::direct::{DirectFile, Tickets};
use super::refusal::Refusal;
use super::{Ticket, ZoneKind, ZoneReport, ZoneState, ZonedDevice, ZonedLimits};
use crate::error::{Error, Kind, Result};

/// Conventional zones on something ordinary, then the zones of `S`.
#[derive(Debug)]
pub struct Joined<S> {
    ordinary: DirectFile,
    ordinary_blocks: u64,
    ordinary_zones: u32,
    zone_blocks: u64,
    sequential: S,
    tickets: Tickets<Write>,
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Ordinary(Lba),
    Sequential(Ticket),
}

impl<S: ZonedDevice> Joined<S> {
    /// Puts the ordinary device or file at `path` in front of `sequential`. The file's size decides
    /// how many blocks are conventional.
    ///
    /// # Errors
    /// `Kind::Unsupported` when it holds no whole block, `Kind::Busy` when it has another owner,
    /// `Kind::Io`.
    pub fn open(path: &Path, sequential: S) -> Result<Joined<S>> {
        let ordinary = DirectFile::open(path)?;
        let zone_blocks = sequential.report(ZoneId(0), 1)?[0].size_blocks;
        let blocks = ordinary.len()? / u64::from(sequential.limits().block_bytes);
        let zones = u32::try_from(blocks.div_ceil(zone_blocks)).ok().filter(|&z| z > 0);
        let ordinary_zones = zones.ok_or_else(|| {
            let text = format!("{}: {blocks} blocks cannot be conventional zones", path.display());
            Error::new(Kind::Unsupported, text)
        })?;
        Ok(Joined {
            ordinary,
            ordinary_blocks: blocks,
            ordinary_zones,
            zone_blocks,
            sequential,
            tickets: Tickets::default(),
        })
    }

    /// The zoned device behind.
    pub fn sequential(&self) -> &S {
        &self.sequential
    }

    fn edge(&self) -> u64 {
        u64::from(self.ordinary_zones) * self.zone_blocks
    }

    fn is_ordinary(&self, at: Lba) -> bool {
        at.0 < self.edge()
    }

    fn behind(&self, at: Lba) -> Lba {
        Lba(at.0 - self.edge())
    }

    fn zone_behind(&self, zone: ZoneId, what: &str) -> Result<ZoneId> {
        let behind = zone.0.checked_sub(self.ordinary_zones).map(ZoneId);
        behind.ok_or_else(|| Refusal::Conventional.error(format!("{what} of zone {zone}")))
    }

    fn ordinary_report(&self, zone: u32) -> ZoneReport {
        let start = u64::from(zone) * self.zone_blocks;
        ZoneReport {
            zone: ZoneId(zone),
            kind: ZoneKind::Conventional,
            state: ZoneState::NotWritePointer,
            start: Lba(start),
            size_blocks: self.zone_blocks,
            capacity_blocks: self.zone_blocks.min(self.ordinary_blocks - start),
            write_pointer: Lba(start),
        }
    }

    fn moved(&self, z: ZoneReport) -> ZoneReport {
        ZoneReport {
            zone: ZoneId(z.zone.0 + self.ordinary_zones),
            start: Lba(z.start.0 + self.edge()),
            write_pointer: Lba(z.write_pointer.0 + self.edge()),
            ..z
        }
    }

    /// The byte where an ordinary request begins.
    fn ordinary_place(&self, at: Lba, len: usize) -> std::result::Result<u64, Refusal> {
        let block = self.limits().block_bytes as usize;
        if len == 0 || !len.is_multiple_of(block) {
            return Err(Refusal::Misaligned);
        }
        let end = at.0 + (len / block) as u64;
        let zone_end = (at.0 / self.zone_blocks + 1) * self.zone_blocks;
        if end > zone_end {
            return Err(Refusal::CrossesZones);
        }
        let fits = end <= self.ordinary_blocks;
        if fits { Ok(at.0 * block as u64) } else { Err(Refusal::PastCapacity) }
    }

    fn failed(&self, what: String, e: std::io::Error) -> Error {
        Error::with_source(Kind::Io, format!("{}: {what}", self.ordinary.path()), e)
    }
}

impl<S: ZonedDevice> ZonedDevice for Joined<S> {
    fn limits(&self) -> ZonedLimits {
        let behind = self.sequential.limits();
        ZonedLimits { zones: behind.zones + self.ordinary_zones, ..behind }
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        let what = || format!("report of {count} zones from {first}");
        let end = first.0.checked_add(count).filter(|&e| e <= self.limits().zones);
        let end = end.ok_or_else(|| Refusal::OutOfRange.error(what()))?;
        let edge = self.ordinary_zones.clamp(first.0, end);
        let mut zones: Vec<ZoneReport> = (first.0..edge).map(|z| self.ordinary_report(z)).collect();
        if edge < end {
            let from = ZoneId(edge - self.ordinary_zones);
            let behind = self.sequential.report(from, end - edge)?;
            zones.extend(behind.into_iter().map(|z| self.moved(z)));
        }
        Ok(zones)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        if !self.is_ordinary(at) {
            return self.sequential.read(self.behind(at), into);
        }
        let what = || format!("read of {} bytes at block {at}", into.len());
        let place = self.ordinary_place(at, into.len()).map_err(|r| r.error(what()))?;
        let what = what();
        self.ordinary.read(into, place).map_err(|e| self.failed(what, e))
    }

    fn write(&mut self, at: Lba, data: &[u8]) -> Result<Ticket> {
        if !self.is_ordinary(at) {
            let ticket = self.sequential.write(self.behind(at), data)?;
            return Ok(self.tickets.issue(Write::Sequential(ticket)));
        }
        let what = || format!("write of {} bytes at block {at}", data.len());
        let place = self.ordinary_place(at, data.len()).map_err(|r| r.error(what()))?;
        self.ordinary.write(data, place).map_err(|e| self.failed(what(), e))?;
        Ok(self.tickets.issue(Write::Ordinary(at)))
    }

    fn append(&mut self, zone: ZoneId, data: &[u8]) -> Result<Ticket> {
        let behind = self.zone_behind(zone, "append")?;
        let ticket = self.sequential.append(behind, data)?;
        Ok(self.tickets.issue(Write::Sequential(ticket)))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Lba> {
        match self.tickets.find(ticket)? {
            Write::Ordinary(at) => Ok(at),
            Write::Sequential(behind) => {
                self.sequential.wait(behind).map(|at| Lba(at.0 + self.edge()))
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.ordinary.flush()?;
        self.sequential.flush()
    }

    fn open(&mut self, zone: ZoneId) -> Result<()> {
        let behind = self.zone_behind(zone, "open")?;
        self.sequential.open(behind)
    }
    fn close(&mut self, zone: ZoneId) -> Result<()> {
        let behind = self.zone_behind(zone, "close")?;
        self.sequential.close(behind)
    }
    fn finish(&mut self, zone: ZoneId) -> Result<()> {
        let behind = self.zone_behind(zone, "finish")?;
        self.sequential.finish(behind)
    }
    fn reset(&mut self, zone: ZoneId) -> Result<()> {
        let behind = self.zone_behind(zone, "reset")?;
        self.sequential.reset(behind)
    }

    // The ordinary part has its room: it is a namespace, a disk, or a file of a fixed size.
    fn keep_room(&mut self, zones: &[ZoneId], spare_blocks: u64) -> Result<()> {
        let behind = |z: &ZoneId| z.0.checked_sub(self.ordinary_zones).map(ZoneId);
        let behind: Vec<ZoneId> = zones.iter().filter_map(behind).collect();
        self.sequential.keep_room(&behind, spare_blocks)
    }
    fn shares_room(&self) -> bool {
        self.sequential.shares_room()
    }
    fn has_spare_room(&mut self) -> Result<bool> {
        self.sequential.has_spare_room()
    }
    fn discard(&mut self, at: Lba, blocks: u64) -> Result<()> {
        let is_behind = !self.is_ordinary(at);
        if is_behind { self.sequential.discard(self.behind(at), blocks) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoned::model::ModelDevice;
    use crate::zoned::zones::Geometry;

    fn joined() -> (tempfile::TempDir, Joined<ModelDevice>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ordinary");
        std::fs::write(&path, vec![0; 24 * 4096]).unwrap();
        let geometry = Geometry {
            conventional_zones: 0,
            sequential_zones: 4,
            zone_blocks: 16,
            capacity_blocks: 12,
            ..Geometry::paper()
        };
        let joined = Joined::open(&path, ModelDevice::new(geometry).unwrap()).unwrap();
        (dir, joined)
    }

    #[test]
    fn the_parts_read_as_one_device() {
        let (_dir, mut device) = joined();
        let report = device.report(ZoneId(0), 6).unwrap();
        let capacities: Vec<u64> = report.iter().map(|z| z.capacity_blocks).collect();
        assert_eq!(capacities, [16, 8, 12, 12, 12, 12]);
        assert!(report.iter().enumerate().all(|(i, z)| z.start.0 == 16 * i as u64));
        for at in [0, 20, 32] {
            let ticket = device.write(Lba(at), &[at as u8 + 1; 4096]).unwrap();
            assert_eq!(device.wait(ticket).unwrap(), Lba(at));
        }
        let ticket = device.append(ZoneId(2), &[9; 4096]).unwrap();
        assert_eq!(device.wait(ticket).unwrap(), Lba(33));
        device.flush().unwrap();
        let mut block = [0; 4096];
        for (at, byte) in [(0, 1), (20, 21), (32, 33), (33, 9)] {
            device.read(Lba(at), &mut block).unwrap();
            assert_eq!(block, [byte; 4096], "block {at}");
        }
        assert_eq!(device.report(ZoneId(1), 2).unwrap()[1].write_pointer, Lba(34));
    }

    #[test]
    fn room_is_kept_in_the_zoned_part() {
        use crate::zoned::file::FileDevice;
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (ordinary, zones) = (dir.path().join("ordinary"), dir.path().join("zones"));
        std::fs::write(&ordinary, vec![0; 24 * 4096]).unwrap();
        let geometry = Geometry {
            conventional_zones: 0,
            sequential_zones: 4,
            zone_blocks: 64,
            capacity_blocks: 64,
            ..Geometry::paper()
        };
        let behind = FileDevice::create(&zones, geometry).unwrap();
        let mut device = Joined::open(&ordinary, behind).unwrap();
        let held = || std::fs::metadata(&zones).unwrap().blocks() * 512;
        let before = held();
        device.keep_room(&[ZoneId(2)], 0).unwrap();
        assert!(held() >= before + 64 * 4096, "{before} bytes before, {} after", held());
        assert!(device.has_spare_room().unwrap());
    }

    #[test]
    fn rules_of_both_parts_hold() {
        let (_dir, mut device) = joined();
        let refusal = |e: Error| Refusal::of(&e);
        let write = |d: &mut Joined<ModelDevice>, at| d.write(Lba(at), &[0; 4096]).map(|_| ());
        assert_eq!(refusal(write(&mut device, 24).unwrap_err()), Some(Refusal::PastCapacity));
        assert_eq!(refusal(write(&mut device, 35).unwrap_err()), Some(Refusal::NotAtWritePointer));
        let e = device.reset(ZoneId(1)).unwrap_err();
        assert_eq!(refusal(e), Some(Refusal::Conventional));
        assert_eq!(refusal(device.report(ZoneId(5), 2).unwrap_err()), Some(Refusal::OutOfRange));
        let e = device.write(Lba(15), &[0; 8192]).map(|_| ()).unwrap_err();
        assert_eq!(refusal(e), Some(Refusal::CrossesZones));
    }
}
