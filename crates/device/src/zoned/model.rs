//! A zoned device in memory that can lose power.
//!
//! - Blocks live in memory, zone by zone; nothing is kept when the process ends.
//! - The model remembers what a completed flush has not covered: for each block of a conventional
//!   zone every version since the last flush, for each sequential zone the durable write pointer
//!   and, if it was reset, what it held.
//! - [`ModelDevice::power_cycle`] keeps, drawn from a seed, a legal subset of that: a prefix of
//!   each sequential zone, any version of each part of a conventional block (torn at `torn_bytes`),
//!   a reset or its absence (a reset that is lost takes the zone's later writes with it).
//!
//! The subsets are a superset of what one particular drive does: an engine that survives all of
//! them needs nothing but the trait's promises.

use std::collections::BTreeMap;

use littoral_base::rng::{self, RngCore};
use littoral_base::units::{Lba, ZoneId};

use super::emulated::{Emulated, Medium};
use super::zones::{Geometry, Zone, ZoneTable};
use super::{ZoneKind, ZoneState};
use crate::error::Result;

/// A zoned device in memory.
pub type ModelDevice = Emulated<Ram>;

/// What a sequential zone held at the last flush, kept while it is not known to be durable.
#[derive(Clone, Debug)]
struct Durable {
    record: Zone,
    /// The blocks of the time before the first reset since the flush.
    before_reset: Option<(Zone, Vec<u8>)>,
}

/// Blocks in memory and what a power cut may undo.
#[derive(Clone, Debug)]
pub struct Ram {
    geometry: Geometry,
    torn_bytes: usize,
    sequential: Vec<Vec<u8>>,
    conventional: BTreeMap<u64, Box<[u8]>>,
    records: Vec<Zone>,
    old_zones: BTreeMap<ZoneId, Durable>,
    old_blocks: BTreeMap<u64, Vec<Box<[u8]>>>,
}

impl Ram {
    fn new(table: &ZoneTable) -> Ram {
        let geometry = *table.geometry();
        let ids = (0..geometry.zones()).map(ZoneId);
        Ram {
            geometry,
            torn_bytes: 512,
            sequential: vec![Vec::new(); geometry.zones() as usize],
            conventional: BTreeMap::new(),
            records: ids.filter_map(|z| table.get(z)).collect(),
            old_zones: BTreeMap::new(),
            old_blocks: BTreeMap::new(),
        }
    }

    fn block_bytes(&self) -> usize {
        self.geometry.block_bytes as usize
    }

    fn read_block(&self, at: Lba, into: &mut [u8]) {
        let (zone, offset) = self.geometry.place(at);
        let found = match self.geometry.kind(zone) {
            ZoneKind::Conventional => self.conventional.get(&at.0).map(|b| &b[..]),
            ZoneKind::Sequential => {
                let from = offset as usize * self.block_bytes();
                self.sequential[zone.index()].get(from..from + self.block_bytes())
            }
        };
        match found {
            Some(bytes) => into.copy_from_slice(bytes),
            None => into.fill(0),
        }
    }

    fn write_in_place(&mut self, at: Lba, data: &[u8]) {
        let size = self.block_bytes();
        for (i, bytes) in data.chunks_exact(size).enumerate() {
            let lba = at.0 + i as u64;
            let old = self.conventional.insert(lba, bytes.into());
            let versions = self.old_blocks.entry(lba).or_default();
            versions.push(old.unwrap_or_else(|| vec![0; size].into()));
        }
    }

    /// One of the versions of a block since the last flush, part by part.
    fn survive_block(&mut self, lba: u64, older: &[Box<[u8]>], rng: &mut rng::Generator) {
        let current = self.conventional.get_mut(&lba).expect("invariant: a block with versions");
        let part = self.torn_bytes.min(current.len());
        for (i, bytes) in current.chunks_mut(part).enumerate() {
            let pick = (rng.next_u64() % (older.len() as u64 + 1)) as usize;
            if let Some(version) = older.get(pick) {
                bytes.copy_from_slice(&version[i * part..i * part + bytes.len()]);
            }
        }
    }

    fn survive_zone(&mut self, zone: ZoneId, durable: Durable, rng: &mut rng::Generator) {
        let (i, bytes_per_block) = (zone.index(), self.block_bytes());
        let mut floor = durable.record.written_blocks;
        if let Some((record, data)) = durable.before_reset {
            if rng.next_u64().is_multiple_of(2) {
                let resets = self.records[i].resets;
                self.records[i] = Zone { resets, ..record };
                self.sequential[i] = data;
            } else {
                floor = 0;
            }
        }
        let ceiling = self.records[i].written_blocks;
        let kept = floor.min(ceiling) + rng.next_u64() % (ceiling - floor.min(ceiling) + 1);
        let record = &mut self.records[i];
        if kept < ceiling && !matches!(record.state, ZoneState::ReadOnly | ZoneState::Offline) {
            record.state = ZoneState::Closed;
        }
        record.written_blocks = kept;
        let data = &mut self.sequential[i];
        data.truncate(data.len().min(kept as usize * bytes_per_block));
    }

    fn lose_power(&mut self, rng: &mut rng::Generator) {
        for (lba, older) in std::mem::take(&mut self.old_blocks) {
            self.survive_block(lba, &older, rng);
        }
        for (zone, durable) in std::mem::take(&mut self.old_zones) {
            self.survive_zone(zone, durable, rng);
        }
    }
}

impl Medium for Ram {
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let size = self.block_bytes();
        for (i, block) in into.chunks_exact_mut(size).enumerate() {
            self.read_block(Lba(at.0 + i as u64), block);
        }
        Ok(())
    }

    fn write(&mut self, at: Lba, data: &[u8]) -> Result<()> {
        let (zone, offset) = self.geometry.place(at);
        match self.geometry.kind(zone) {
            ZoneKind::Conventional => self.write_in_place(at, data),
            ZoneKind::Sequential => {
                let bytes = &mut self.sequential[zone.index()];
                bytes.resize(offset as usize * self.geometry.block_bytes as usize, 0);
                bytes.extend_from_slice(data);
            }
        }
        Ok(())
    }

    fn erase(&mut self, zone: ZoneId) -> Result<()> {
        let record = self.records[zone.index()];
        let data = std::mem::take(&mut self.sequential[zone.index()]);
        let fresh = || Durable { record, before_reset: None };
        let old = self.old_zones.entry(zone).or_insert_with(fresh);
        old.before_reset.get_or_insert((record, data));
        Ok(())
    }

    fn note(&mut self, zone: ZoneId, record: Zone) -> Result<()> {
        let known = std::mem::replace(&mut self.records[zone.index()], record);
        if self.geometry.kind(zone) == ZoneKind::Sequential {
            let fresh = || Durable { record: known, before_reset: None };
            self.old_zones.entry(zone).or_insert_with(fresh);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.old_zones.clear();
        self.old_blocks.clear();
        Ok(())
    }
}

impl ModelDevice {
    /// An empty device.
    ///
    /// # Errors
    /// `Kind::Profile` when the geometry is not legal.
    pub fn new(geometry: Geometry) -> Result<ModelDevice> {
        let table = ZoneTable::new(geometry)?;
        Ok(Emulated::over(Ram::new(&table), table))
    }

    /// Sets the unit at which a write to a conventional block may be torn (512 bytes at first).
    ///
    /// # Panics
    /// When it is zero.
    pub fn set_torn_bytes(&mut self, bytes: usize) {
        assert!(bytes > 0, "a torn unit has at least one byte");
        self.medium.torn_bytes = bytes;
    }

    /// Loses power now and comes back: a legal subset of the unflushed writes, drawn from `seed`,
    /// survives. Open zones come back closed. Ends a cut of the fault plan.
    pub fn power_cycle(&mut self, seed: u64) {
        let mut rng = rng::stream(seed, "zoned power cut");
        self.medium.lose_power(&mut rng);
        for z in (0..self.geometry().zones()).map(ZoneId) {
            let record = self.medium.records[z.index()];
            self.table.restore(z, record);
            self.medium.records[z.index()] =
                self.table.get(z).expect("invariant: the model has a record a zone");
        }
        self.restore_power();
    }
}
