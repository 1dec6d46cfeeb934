//! The zone state machine: geometry, states, write pointers and limits, without any data.
//!
//! One table serves every emulated backend, so a model and a file refuse exactly the same requests.
//! States follow ZBC and NVMe ZNS: a write opens a zone implicitly; at the open limit the device
//! closes the implicitly opened zone that was opened longest ago, and refuses only when every open
//! zone was opened by command; the active limit (open + closed) always refuses.
//!
//! Invariants
//! - `open <= open_zones_max` and `open + closed <= active_zones_max` whenever a limit is not zero.
//!   Checked by `ZoneTable::open_for`, `the_model_agrees_with_the_textbook`.
//! - A sequential zone's write pointer is within `[0, capacity]`; it is `capacity` exactly in
//!   `Full` and `0` exactly in `Empty` (an explicitly opened zone may also be at 0). Checked by
//!   `ZoneTable::enter`, `ZoneTable::verify`.
//! - A refused request changes nothing. Checked by `the_model_agrees_with_the_textbook`.

use littoral_base::units::{Lba, ZoneId};

use super::refusal::Refusal;
use super::{ZoneKind, ZoneReport, ZoneState, ZonedLimits};
use crate::error::{Error, Kind, Result};

/// The shape and the limits of an emulated zoned device. Conventional zones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a logical block; a power of two from 512 to 65536.
    pub block_bytes: u32,
    /// Zones written in place; they come first.
    pub conventional_zones: u32,
    /// Zones with a write pointer.
    pub sequential_zones: u32,
    /// Address space of a zone in blocks.
    pub zone_blocks: u64,
    /// Writable blocks of a sequential zone, at most `zone_blocks`; need not be a power of two.
    pub capacity_blocks: u64,
    /// Most zones open at once; zero means no limit.
    pub open_zones_max: u32,
    /// Most zones active at once; zero means no limit.
    pub active_zones_max: u32,
    /// Longest append in blocks; zero means the device has no append command.
    pub append_blocks_max: u32,
}

impl Geometry {
    /// The device of paper 000: one conventional and 40 sequential zones of 2 GiB, 4 KiB blocks.
    pub const fn paper() -> Geometry {
        Geometry {
            block_bytes: 4096,
            conventional_zones: 1,
            sequential_zones: 40,
            zone_blocks: 524_288,
            capacity_blocks: 524_288,
            open_zones_max: 0,
            active_zones_max: 0,
            append_blocks_max: 31,
        }
    }

    /// Zones in all.
    pub const fn zones(&self) -> u32 {
        self.conventional_zones + self.sequential_zones
    }

    /// Checks every field.
    ///
    /// # Errors
    /// `Kind::Profile` naming the field, its value and a legal one.
    pub fn validate(&self) -> Result<()> {
        let bad = |field: &str, value: u64, legal: String| {
            Err(Error::new(
                Kind::Profile,
                format!("{field} = {value}: the nearest legal is {legal}"),
            ))
        };
        let b = self.block_bytes;
        if !b.is_power_of_two() || !(512..=65_536).contains(&b) {
            let near = b.clamp(512, 65_536).next_power_of_two();
            return bad("block_bytes", b.into(), near.to_string());
        }
        if self.conventional_zones.checked_add(self.sequential_zones).is_none_or(|z| z == 0) {
            return bad("sequential_zones", self.sequential_zones.into(), "1".into());
        }
        if self.zone_blocks == 0 {
            return bad("zone_blocks", 0, "1".into());
        }
        if self.capacity_blocks == 0 || self.capacity_blocks > self.zone_blocks {
            return bad("capacity_blocks", self.capacity_blocks, self.zone_blocks.to_string());
        }
        let (open, active) = (self.open_zones_max, self.active_zones_max);
        if active != 0 && open > active {
            return bad("open_zones_max", open.into(), active.to_string());
        }
        let bytes = u64::from(self.zones()).checked_mul(self.zone_blocks);
        if bytes.and_then(|n| n.checked_mul(b.into())).is_none_or(|n| n > i64::MAX as u64) {
            return bad(
                "zone_blocks",
                self.zone_blocks,
                "one that keeps the device under 8 EiB".into(),
            );
        }
        Ok(())
    }

    /// What a device of this geometry can take.
    pub const fn limits(&self) -> ZonedLimits {
        ZonedLimits {
            block_bytes: self.block_bytes,
            zones: self.zones(),
            open_zones_max: self.open_zones_max,
            active_zones_max: self.active_zones_max,
            append_blocks_max: self.append_blocks_max,
        }
    }

    /// How a zone is written.
    pub const fn kind(&self, zone: ZoneId) -> ZoneKind {
        if zone.0 < self.conventional_zones { ZoneKind::Conventional } else { ZoneKind::Sequential }
    }

    /// Writable blocks of a zone.
    pub const fn capacity(&self, zone: ZoneId) -> u64 {
        match self.kind(zone) {
            ZoneKind::Conventional => self.zone_blocks,
            ZoneKind::Sequential => self.capacity_blocks,
        }
    }

    /// The first block of a zone.
    pub const fn start(&self, zone: ZoneId) -> Lba {
        Lba(zone.0 as u64 * self.zone_blocks)
    }

    /// The zone of a block and the block's offset in it; the block may be past the last zone.
    pub const fn place(&self, at: Lba) -> (ZoneId, u64) {
        (ZoneId((at.0 / self.zone_blocks) as u32), at.0 % self.zone_blocks)
    }

    /// Blocks of address space.
    pub const fn blocks(&self) -> u64 {
        self.zones() as u64 * self.zone_blocks
    }
}

/// One zone's changing part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its state.
    pub state: ZoneState,
    /// Blocks behind the write pointer, from the zone's start.
    pub written_blocks: u64,
    /// Resets so far: the zone's wear.
    pub resets: u64,
}

/// A command that manages a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Open explicitly.
    Open,
    /// Close, staying active.
    Close,
    /// Move the write pointer to the capacity.
    Finish,
    /// Erase.
    Reset,
}

/// States and write pointers of all zones of a device.
#[derive(Clone, Debug)]
pub struct ZoneTable {
    geometry: Geometry,
    zones: Vec<Zone>,
    /// Open zones, the one opened longest ago first.
    open: Vec<ZoneId>,
    closed_count: u32,
}

fn is_open(state: ZoneState) -> bool {
    matches!(state, ZoneState::ImplicitOpen | ZoneState::ExplicitOpen)
}

impl ZoneTable {
    /// A table of empty zones.
    ///
    /// # Errors
    /// `Kind::Profile` when the geometry is not legal.
    pub fn new(geometry: Geometry) -> Result<ZoneTable> {
        geometry.validate()?;
        let zone = |i: u32| Zone {
            state: match geometry.kind(ZoneId(i)) {
                ZoneKind::Conventional => ZoneState::NotWritePointer,
                ZoneKind::Sequential => ZoneState::Empty,
            },
            written_blocks: 0,
            resets: 0,
        };
        let zones = (0..geometry.zones()).map(zone).collect();
        Ok(ZoneTable { geometry, zones, open: Vec::new(), closed_count: 0 })
    }

    /// The geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// One zone, if it exists.
    pub fn get(&self, zone: ZoneId) -> Option<Zone> {
        self.zones.get(zone.index()).copied()
    }

    /// Zones open now.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Zones active (open or closed) now.
    pub fn active_count(&self) -> usize {
        self.open.len() + self.closed_count as usize
    }

    /// Replaces a zone's record as found on a medium or after a power cut: open zones come back
    /// closed, or empty when nothing was written.
    pub fn restore(&mut self, zone: ZoneId, mut record: Zone) {
        self.leave(zone);
        if is_open(record.state) || record.state == ZoneState::Closed {
            record.state = match record.written_blocks {
                0 => ZoneState::Empty,
                _ => ZoneState::Closed,
            };
        }
        self.zones[zone.index()] = record;
        self.enter(zone, record.state);
    }

    fn leave(&mut self, zone: ZoneId) {
        match self.zones[zone.index()].state {
            s if is_open(s) => self.open.retain(|&z| z != zone),
            ZoneState::Closed => self.closed_count -= 1,
            _ => {}
        }
    }

    fn enter(&mut self, zone: ZoneId, state: ZoneState) {
        self.zones[zone.index()].state = state;
        match state {
            s if is_open(s) => self.open.push(zone),
            ZoneState::Closed => self.closed_count += 1,
            _ => {}
        }
        debug_assert!(self.is_possible(zone), "{zone:?} is {:?}", self.zones[zone.index()]);
    }

    /// Whether a zone's state and its write pointer go together.
    fn is_possible(&self, zone: ZoneId) -> bool {
        let Zone { state, written_blocks, .. } = self.zones[zone.index()];
        let has_room = written_blocks < self.geometry.capacity_blocks;
        match state {
            ZoneState::NotWritePointer | ZoneState::Empty => written_blocks == 0,
            ZoneState::Full => written_blocks == self.geometry.capacity_blocks,
            ZoneState::Closed => written_blocks > 0 && has_room,
            ZoneState::ReadOnly | ZoneState::Offline => true,
            ZoneState::ImplicitOpen | ZoneState::ExplicitOpen => has_room,
        }
    }

    fn become_state(&mut self, zone: ZoneId, state: ZoneState) {
        if self.zones[zone.index()].state != state {
            self.leave(zone);
            self.enter(zone, state);
        }
    }

    fn find(&self, zone: ZoneId) -> std::result::Result<Zone, Refusal> {
        let found = self.get(zone).ok_or(Refusal::OutOfRange)?;
        match found.state {
            ZoneState::Offline => Err(Refusal::Offline),
            _ => Ok(found),
        }
    }

    /// Checks a read of `blocks` blocks.
    ///
    /// # Errors
    /// The rule that the read breaks.
    pub fn check_read(&self, at: Lba, blocks: u64) -> std::result::Result<(), Refusal> {
        let end = at.0.checked_add(blocks).ok_or(Refusal::OutOfRange)?;
        if blocks == 0 {
            return Err(Refusal::Misaligned);
        }
        if end > self.geometry.blocks() {
            return Err(Refusal::OutOfRange);
        }
        let (first, last) = (self.geometry.place(at).0, self.geometry.place(Lba(end - 1)).0);
        (first.0..=last.0).try_for_each(|z| self.find(ZoneId(z)).map(|_| ()))
    }

    /// Checks a write and, if it is legal, opens the zone and moves its write pointer.
    ///
    /// # Errors
    /// The rule that the write breaks; nothing has changed then.
    pub fn write(&mut self, at: Lba, blocks: u64) -> std::result::Result<(), Refusal> {
        let (zone, offset) = self.geometry.place(at);
        if at.0 >= self.geometry.blocks() {
            return Err(Refusal::OutOfRange);
        }
        if blocks == 0 {
            return Err(Refusal::Misaligned);
        }
        let found = self.writable(zone)?;
        if offset + blocks > self.geometry.zone_blocks {
            return Err(Refusal::CrossesZones);
        }
        if found.state == ZoneState::NotWritePointer {
            return Ok(());
        }
        if offset != found.written_blocks {
            return Err(Refusal::NotAtWritePointer);
        }
        if offset + blocks > self.geometry.capacity_blocks {
            return Err(Refusal::PastCapacity);
        }
        self.open_for(zone, found.state, ZoneState::ImplicitOpen)?;
        self.advance(zone, blocks);
        Ok(())
    }

    fn writable(&self, zone: ZoneId) -> std::result::Result<Zone, Refusal> {
        let found = self.find(zone)?;
        match found.state {
            ZoneState::Full => Err(Refusal::ZoneFull),
            ZoneState::ReadOnly => Err(Refusal::ReadOnly),
            _ => Ok(found),
        }
    }

    fn advance(&mut self, zone: ZoneId, blocks: u64) {
        let z = &mut self.zones[zone.index()];
        z.written_blocks += blocks;
        assert!(z.written_blocks <= self.geometry.capacity_blocks, "write pointer past capacity");
        if z.written_blocks == self.geometry.capacity_blocks {
            self.become_state(zone, ZoneState::Full);
        }
    }

    /// Where an append of `blocks` blocks lands; moves the write pointer.
    ///
    /// # Errors
    /// The rule that the append breaks; nothing has changed then.
    pub fn append(&mut self, zone: ZoneId, blocks: u64) -> std::result::Result<Lba, Refusal> {
        let longest = u64::from(self.geometry.append_blocks_max);
        match self.get(zone).ok_or(Refusal::OutOfRange)? {
            _ if longest == 0 => return Err(Refusal::NoAppend),
            z if z.state == ZoneState::NotWritePointer => return Err(Refusal::Conventional),
            _ if blocks > longest => return Err(Refusal::AppendTooLong),
            _ => {}
        }
        let at = self.geometry.start(zone).0 + self.writable(zone)?.written_blocks;
        self.write(Lba(at), blocks).map(|()| Lba(at))
    }

    fn open_for(
        &mut self,
        zone: ZoneId,
        state: ZoneState,
        wanted: ZoneState,
    ) -> std::result::Result<(), Refusal> {
        if is_open(state) {
            return Ok(());
        }
        let (open_max, active_max) =
            (self.geometry.open_zones_max as usize, self.geometry.active_zones_max as usize);
        let was_active = state == ZoneState::Closed;
        if active_max != 0 && !was_active && self.active_count() >= active_max {
            return Err(Refusal::ActiveLimit);
        }
        if open_max != 0 && self.open.len() >= open_max {
            let implicit = |&&z: &&ZoneId| self.zones[z.index()].state == ZoneState::ImplicitOpen;
            let victim = *self.open.iter().find(implicit).ok_or(Refusal::OpenLimit)?;
            self.become_state(victim, ZoneState::Closed);
        }
        self.become_state(zone, wanted);
        let is_within = |most: usize, count: usize| most == 0 || count <= most;
        debug_assert!(is_within(open_max, self.open.len()), "open limit");
        debug_assert!(was_active || is_within(active_max, self.active_count()), "active limit");
        Ok(())
    }

    /// Carries out a zone-management command.
    ///
    /// # Errors
    /// The rule that the command breaks; nothing has changed then.
    pub fn command(&mut self, zone: ZoneId, command: Command) -> std::result::Result<(), Refusal> {
        let found = self.find(zone)?;
        match (found.state, command) {
            (ZoneState::NotWritePointer, _) => Err(Refusal::Conventional),
            (ZoneState::ReadOnly, _) => Err(Refusal::ReadOnly),
            (s, Command::Open) if s != ZoneState::Full => self.open_explicitly(zone, s),
            (s, Command::Close) if is_open(s) => {
                let empty = found.written_blocks == 0;
                let next = if empty { ZoneState::Empty } else { ZoneState::Closed };
                self.become_state(zone, next);
                Ok(())
            }
            (ZoneState::Closed, Command::Close) => Ok(()),
            (_, Command::Finish) => {
                self.zones[zone.index()].written_blocks = self.geometry.capacity_blocks;
                self.become_state(zone, ZoneState::Full);
                Ok(())
            }
            (_, Command::Reset) => {
                let z = &mut self.zones[zone.index()];
                z.written_blocks = 0;
                z.resets += 1;
                self.become_state(zone, ZoneState::Empty);
                Ok(())
            }
            _ => Err(Refusal::WrongState),
        }
    }

    fn open_explicitly(
        &mut self,
        zone: ZoneId,
        state: ZoneState,
    ) -> std::result::Result<(), Refusal> {
        self.open_for(zone, state, ZoneState::ExplicitOpen)?;
        self.become_state(zone, ZoneState::ExplicitOpen);
        Ok(())
    }

    /// Declares a zone READ_ONLY or OFFLINE, as a drive does when a zone wears out.
    pub fn fail(&mut self, zone: ZoneId, state: ZoneState) {
        debug_assert!(matches!(state, ZoneState::ReadOnly | ZoneState::Offline));
        self.become_state(zone, state);
    }

    /// One zone as a report shows it.
    ///
    /// # Panics
    /// When the zone does not exist; [`ZoneTable::report`] answers instead.
    pub fn show(&self, zone: ZoneId) -> ZoneReport {
        let (z, g) = (&self.zones[zone.index()], &self.geometry);
        ZoneReport {
            zone,
            kind: g.kind(zone),
            state: z.state,
            start: g.start(zone),
            size_blocks: g.zone_blocks,
            capacity_blocks: g.capacity(zone),
            write_pointer: Lba(g.start(zone).0 + z.written_blocks),
        }
    }

    /// Reports `count` zones from `first` on.
    ///
    /// # Errors
    /// `Refusal::OutOfRange` past the last zone.
    pub fn report(
        &self,
        first: ZoneId,
        count: u32,
    ) -> std::result::Result<Vec<ZoneReport>, Refusal> {
        let end = first.0.checked_add(count).filter(|&e| e <= self.geometry.zones());
        Ok((first.0..end.ok_or(Refusal::OutOfRange)?).map(|z| self.show(ZoneId(z))).collect())
    }

    /// Checks the table's own invariants (tests and `verify` switches).
    ///
    /// # Panics
    /// When one does not hold.
    pub fn verify(&self) {
        let count = |f: fn(ZoneState) -> bool| self.zones.iter().filter(|z| f(z.state)).count();
        assert_eq!(count(is_open), self.open.len(), "open zones are listed");
        assert_eq!(count(|s| s == ZoneState::Closed), self.closed_count as usize, "closed count");
        let within = |max: u32, n: usize| max == 0 || n <= max as usize;
        assert!(within(self.geometry.open_zones_max, self.open_count()), "open limit");
        assert!(within(self.geometry.active_zones_max, self.active_count()), "active limit");
        for i in 0..self.geometry.zones() {
            let zone = ZoneId(i);
            assert!(self.is_possible(zone), "{zone:?} is {:?}", self.zones[zone.index()]);
        }
    }
}

impl ZoneTable {
    /// Takes back the last `blocks` blocks of a write that power was cut inside of.
    pub(super) fn rewind(&mut self, zone: ZoneId, blocks: u64) {
        if self.geometry.kind(zone) == ZoneKind::Conventional || blocks == 0 {
            return;
        }
        let mut record = self.zones[zone.index()];
        record.written_blocks -= blocks;
        record.state = ZoneState::Closed;
        self.restore(zone, record);
    }
}
