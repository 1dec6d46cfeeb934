//! A zoned device in software: the zone state machine over any medium, with faults and virtual
//! time.
//!
//! - [`ModelDevice`](super::model::ModelDevice) keeps blocks in memory and can lose power;
//!   [`FileDevice`](super::file::FileDevice) keeps them in a sparse file.
//! - Every request is first judged by the fault plan (one operation each), then by the zone table;
//!   only then is the medium touched. A refused or failed request changes nothing.
//! - Verdicts it can act on: `Pass`, `Fail` (an I/O error without effect), `Corrupt` (one bit of a
//!   read is wrong), `Torn` (part of a write, then power is lost), `Cut`. A plan with others is
//!   refused.
//! - After a cut every request ends with `Kind::PowerCut`; after a failed flush every request ends
//!   with `Kind::Poisoned`.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use littoral_base::fault::{Adapter, Op, Plan, Verdict};
use littoral_base::units::{Lba, Picos, ZoneId};

use super::refusal::Refusal;
use super::timing::{Timeline, Timing};
use super::zones::{Command, Geometry, Zone, ZoneTable};
use super::{Ticket, ZoneKind, ZoneReport, ZoneState, ZonedDevice, ZonedLimits};
use crate::error::{Error, Kind, Result};

/// Where the blocks of an emulated device live. Ranges are legal when they arrive here.
pub trait Medium {
    /// Reads whole blocks; blocks never written read as zeros.
    ///
    /// # Errors
    /// `Kind::Io`.
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()>;
    /// Writes whole blocks in one zone.
    ///
    /// # Errors
    /// `Kind::Io`.
    fn write(&mut self, at: Lba, data: &[u8]) -> Result<()>;
    /// Erases a zone's blocks.
    ///
    /// # Errors
    /// `Kind::Io`.
    fn erase(&mut self, zone: ZoneId) -> Result<()>;
    /// Takes note of a zone's record after every change of it.
    ///
    /// # Errors
    /// `Kind::Io`.
    fn note(&mut self, zone: ZoneId, record: Zone) -> Result<()>;
    /// Makes everything durable.
    ///
    /// # Errors
    /// `Kind::Io`.
    fn flush(&mut self) -> Result<()>;
    /// As [`ZonedDevice::keep_room`].
    ///
    /// # Errors
    /// `Kind::Exhausted`, `Kind::Io`.
    fn keep_room(&mut self, _zones: &[ZoneId], _spare_blocks: u64) -> Result<()> {
        Ok(())
    }
    /// As [`ZonedDevice::shares_room`].
    fn shares_room(&self) -> bool {
        false
    }
    /// As [`ZonedDevice::has_spare_room`].
    ///
    /// # Errors
    /// `Kind::Io`.
    fn has_spare_room(&mut self) -> Result<bool> {
        Ok(true)
    }
    /// As [`ZonedDevice::discard`].
    ///
    /// # Errors
    /// `Kind::Io`.
    fn discard(&mut self, _at: Lba, _blocks: u64) -> Result<()> {
        Ok(())
    }
}

littoral_base::counters! {
    /// What an emulated device did.
    pub struct ZonedCounters => ZonedCounts {
        /// Read requests.
        reads_count,
        /// Bytes read.
        read_bytes,
        /// Write and append requests to sequential zones.
        sequential_writes_count,
        /// Bytes written to sequential zones.
        sequential_write_bytes,
        /// Write requests to conventional zones.
        conventional_writes_count,
        /// Bytes written to conventional zones.
        conventional_write_bytes,
        /// Flushes.
        flushes_count,
        /// Zone resets.
        resets_count,
        /// Zone finishes.
        finishes_count,
        /// Requests refused for breaking a rule or meeting a limit.
        refusals_count,
    }
}

/// What changes on a read, and so is behind a lock: readers share the device.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    counts: ZonedCounts,
    timeline: Option<Timeline>,
}

/// A zoned device in software over `M`.
#[derive(Debug)]
pub struct Emulated<M> {
    pub(super) medium: M,
    pub(super) table: ZoneTable,
    shared: Mutex<Shared>,
    ends: Vec<(Lba, Picos)>,
    first_ticket: u64,
    poisoned: bool,
    unreadable: BTreeSet<u64>,
}

/// Tickets kept: a ticket this much older than the newest was waited for implicitly.
const TICKETS_KEPT: usize = 1 << 16;

impl<M: Medium> Emulated<M> {
    pub(super) fn over(medium: M, table: ZoneTable) -> Self {
        let shared = Shared { plan: Plan::none(), counts: ZonedCounts::default(), timeline: None };
        let shared = Mutex::new(shared);
        Emulated {
            medium,
            table,
            shared,
            ends: Vec::new(),
            first_ticket: 0,
            poisoned: false,
            unreadable: BTreeSet::new(),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("invariant: nothing panics while it holds the device's lock")
    }

    /// Starts charging virtual time.
    pub fn set_timing(&mut self, timing: Timing) {
        self.shared().timeline = Some(Timeline::new(timing));
    }

    /// The device's virtual time, zero when it has no timing.
    pub fn now(&self) -> Picos {
        self.shared().timeline.as_ref().map_or(Picos::ZERO, Timeline::now)
    }

    /// Lets virtual time pass until `time`, with nothing to do; a time in the past changes nothing.
    pub fn idle_until(&self, time: Picos) {
        self.advance_to(time);
    }

    /// Installs a fault plan.
    ///
    /// # Errors
    /// `Kind::Unsupported` when the plan can speak a verdict that this device cannot act on.
    pub fn install(&mut self, plan: Plan) -> Result<()> {
        ZoneFaults.check(&plan).map_err(|refused| {
            let text = format!("a zoned device cannot act on {refused}");
            Error::new(Kind::Unsupported, text)
        })?;
        self.shared().plan = plan;
        Ok(())
    }

    /// How many operations the plan has judged so far.
    pub fn judged(&self) -> u64 {
        self.shared().plan.judged()
    }

    /// What the device did so far.
    pub fn counts(&self) -> ZonedCounts {
        self.shared().counts
    }

    /// The geometry.
    pub fn geometry(&self) -> &Geometry {
        self.table.geometry()
    }

    /// Resets of a zone so far; zero for a zone that does not exist.
    pub fn resets(&self, zone: ZoneId) -> u64 {
        self.table.get(zone).map_or(0, |z| z.resets)
    }

    /// Declares a zone READ_ONLY or OFFLINE, as a drive does when it wears out.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` when there is no such zone or `state` is another one.
    pub fn fail_zone(&mut self, zone: ZoneId, state: ZoneState) -> Result<()> {
        let legal = matches!(state, ZoneState::ReadOnly | ZoneState::Offline);
        if self.table.get(zone).is_none() || !legal {
            return Err(Refusal::WrongState.error(format!("failing zone {zone} as {state:?}")));
        }
        self.table.fail(zone, state);
        self.note(zone)
    }

    /// Makes these blocks, and no others, fail to be read, as sectors of a drive wear out: a read
    /// that covers one ends with `Kind::Io` and gives no data.
    pub fn fail_reads(&mut self, blocks: impl IntoIterator<Item = u64>) {
        self.unreadable = blocks.into_iter().collect();
    }

    pub(super) fn restore_power(&mut self) {
        self.shared().plan.restore_power();
        self.poisoned = false;
    }

    fn note(&mut self, zone: ZoneId) -> Result<()> {
        let record = self.table.get(zone).expect("invariant: the zone was found before");
        self.medium.note(zone, record)
    }

    fn judge(&self, op: Op, what: impl Fn() -> String) -> Result<Verdict> {
        if self.poisoned {
            return Err(Error::new(Kind::Poisoned, format!("{}: an earlier flush failed", what())));
        }
        let verdict = fitted(op, self.shared().plan.judge(op));
        match verdict {
            Verdict::Cut => Err(Error::new(Kind::PowerCut, format!("{}: power was cut", what()))),
            Verdict::Fail => Err(Error::new(Kind::Io, format!("{}: injected failure", what()))),
            other => Ok(other),
        }
    }

    fn refuse(&self, refusal: Refusal, context: String) -> Error {
        self.shared().counts.refusals_count += 1;
        refusal.error(context)
    }

    fn blocks_of(&self, len: usize) -> std::result::Result<u64, Refusal> {
        let block = self.geometry().block_bytes as usize;
        if len == 0 || !len.is_multiple_of(block) {
            Err(Refusal::Misaligned)
        } else {
            Ok((len / block) as u64)
        }
    }

    /// Where the data go now that the request is legal; the ticket's end is its modelled end.
    fn place_write(
        &mut self,
        at: Lba,
        data: &[u8],
        verdict: Verdict,
        before: Zone,
    ) -> Result<Ticket> {
        let (zone, _) = self.geometry().place(at);
        if let Verdict::Torn(word) = verdict {
            return self.tear(at, data, word);
        }
        if let Err(e) = self.medium.write(at, data) {
            // A write that failed moves no pointer.
            self.table.restore(zone, before);
            return Err(e);
        }
        self.note(zone)?;
        let kind = self.geometry().kind(zone);
        self.count_write(kind, data.len() as u64);
        let blocks = (data.len() / self.geometry().block_bytes as usize) as u64;
        let end = self.charge(zone, |t| match kind {
            ZoneKind::Sequential => Picos(t.program.0 * blocks),
            ZoneKind::Conventional => Picos(t.conventional.0 * blocks),
        });
        Ok(self.issue_ticket(at, end))
    }

    /// Part of the write reaches the medium, in whole blocks from the front, and power is lost.
    fn tear(&mut self, at: Lba, data: &[u8], word: u64) -> Result<Ticket> {
        let block = self.geometry().block_bytes as usize;
        let kept = (word % (data.len() / block + 1) as u64) as usize * block;
        let (zone, _) = self.geometry().place(at);
        if kept > 0 {
            self.medium.write(at, &data[..kept])?;
        }
        self.table.rewind(zone, ((data.len() - kept) / block) as u64);
        self.note(zone)?;
        self.shared().plan = Plan::none().cut_at(0);
        Err(Error::new(Kind::PowerCut, format!("write at block {at}: power was cut inside it")))
    }

    fn count_write(&self, kind: ZoneKind, bytes: u64) {
        let counts = &mut self.shared().counts;
        let (n, b) = match kind {
            ZoneKind::Sequential => {
                (&mut counts.sequential_writes_count, &mut counts.sequential_write_bytes)
            }
            ZoneKind::Conventional => {
                (&mut counts.conventional_writes_count, &mut counts.conventional_write_bytes)
            }
        };
        *n += 1;
        *b += bytes;
    }

    fn charge(&self, zone: ZoneId, time: impl Fn(&Timing) -> Picos) -> Picos {
        let resets = self.resets(zone);
        let mut shared = self.shared();
        let Some(line) = shared.timeline.as_mut() else { return Picos::ZERO };
        let time = time(line.timing());
        line.serve(zone, resets, time)
    }

    fn advance_to(&self, end: Picos) {
        if let Some(line) = self.shared().timeline.as_mut() {
            line.advance_to(end);
        }
    }

    fn issue_ticket(&mut self, at: Lba, end: Picos) -> Ticket {
        if self.ends.len() == TICKETS_KEPT {
            self.ends.drain(..TICKETS_KEPT / 2);
            self.first_ticket += (TICKETS_KEPT / 2) as u64;
        }
        self.ends.push((at, end));
        Ticket(self.first_ticket + self.ends.len() as u64 - 1)
    }

    fn command(&mut self, zone: ZoneId, command: Command) -> Result<()> {
        let what = || format!("{command:?} of zone {zone}");
        self.judge(Op::Zone, what)?;
        self.table.command(zone, command).map_err(|r| self.refuse(r, what()))?;
        if command == Command::Reset {
            self.medium.erase(zone)?;
        }
        self.note(zone)?;
        let end = self.charge(zone, |t| match command {
            Command::Reset => t.reset,
            Command::Finish => t.finish,
            Command::Open | Command::Close => Picos::ZERO,
        });
        self.advance_to(end);
        let counts = &mut self.shared().counts;
        counts.resets_count += u64::from(command == Command::Reset);
        counts.finishes_count += u64::from(command == Command::Finish);
        Ok(())
    }
}

/// The adapter of the fault plan for zoned devices.
#[derive(Clone, Copy, Debug)]
pub struct ZoneFaults;

impl Adapter for ZoneFaults {
    fn ops(&self) -> &'static [Op] {
        &[Op::Read, Op::Write, Op::Append, Op::Flush, Op::Zone]
    }

    fn refusal(&self, _op: Op, verdict: Verdict) -> Option<&'static str> {
        match verdict {
            Verdict::Pass
            | Verdict::Fail
            | Verdict::Cut
            | Verdict::Corrupt(_)
            | Verdict::Torn(_) => None,
            Verdict::Drop
            | Verdict::Duplicate
            | Verdict::Delay(_)
            | Verdict::Shuffle(_)
            | Verdict::Misdirect(_)
            | Verdict::Alias(_) => {
                Some("each request is answered once, in order; use fail, torn, corrupt or cut")
            }
        }
    }
}

/// A pinned verdict may meet an operation of another kind: what cannot be torn is cut, what has no
/// data to corrupt fails.
fn fitted(op: Op, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Torn(_) if !matches!(op, Op::Write | Op::Append) => Verdict::Cut,
        Verdict::Corrupt(_) if op != Op::Read => Verdict::Fail,
        other => other,
    }
}

impl<M: Medium> ZonedDevice for Emulated<M> {
    fn limits(&self) -> ZonedLimits {
        self.geometry().limits()
    }

    fn virtual_now(&self) -> Option<Picos> {
        self.shared().timeline.as_ref().map(Timeline::now)
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        let what = || format!("report of {count} zones from {first}");
        if self.shared().plan.is_dark() {
            return Err(Error::new(Kind::PowerCut, format!("{}: power was cut", what())));
        }
        self.table.report(first, count).map_err(|r| self.refuse(r, what()))
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let what = || format!("read of {} bytes at block {at}", into.len());
        let verdict = self.judge(Op::Read, what)?;
        let legal =
            self.blocks_of(into.len()).and_then(|n| self.table.check_read(at, n).map(|()| n));
        let blocks = legal.map_err(|r| self.refuse(r, what()))?;
        if let Some(block) = self.unreadable.range(at.0..at.0 + blocks).next() {
            return Err(Error::new(Kind::Io, format!("{}: block {block} cannot be read", what())));
        }
        self.medium.read(at, into)?;
        if let Verdict::Corrupt(word) = verdict {
            let bit = word % (into.len() as u64 * 8);
            into[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        let end = self.charge(self.geometry().place(at).0, |t| Picos(t.read.0 * blocks));
        self.advance_to(end);
        let counts = &mut self.shared().counts;
        counts.reads_count += 1;
        counts.read_bytes += into.len() as u64;
        Ok(())
    }

    fn write(&mut self, at: Lba, data: &[u8]) -> Result<Ticket> {
        let what = || format!("write of {} bytes at block {at}", data.len());
        let kind = self.geometry().kind(self.geometry().place(at).0);
        let op = if kind == ZoneKind::Sequential { Op::Append } else { Op::Write };
        let verdict = self.judge(op, what)?;
        let before = self.table.get(self.geometry().place(at).0);
        let legal = self.blocks_of(data.len()).and_then(|n| self.table.write(at, n));
        legal.map_err(|r| self.refuse(r, what()))?;
        let before = before.expect("invariant: a legal write is in a zone");
        self.place_write(at, data, verdict, before)
    }

    fn append(&mut self, zone: ZoneId, data: &[u8]) -> Result<Ticket> {
        let what = || format!("append of {} bytes to zone {zone}", data.len());
        let verdict = self.judge(Op::Append, what)?;
        let before = self.table.get(zone);
        let legal = self.blocks_of(data.len()).and_then(|n| self.table.append(zone, n));
        let at = legal.map_err(|r| self.refuse(r, what()))?;
        let before = before.expect("invariant: a legal append is in a zone");
        self.place_write(at, data, verdict, before)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Lba> {
        let index = ticket.0.checked_sub(self.first_ticket).map(|i| i as usize);
        let Some(&(at, end)) = index.and_then(|i| self.ends.get(i)) else {
            let text = format!("ticket {} was never issued or is too old", ticket.0);
            return Err(Error::new(Kind::IllegalRequest, text));
        };
        self.advance_to(end);
        Ok(at)
    }

    fn flush(&mut self) -> Result<()> {
        let judged = self.judge(Op::Flush, || "flush".to_owned());
        if let Err(e) = judged.and_then(|_| self.medium.flush()) {
            self.poisoned |= e.kind() == Kind::Io;
            return Err(e);
        }
        let mut shared = self.shared();
        shared.counts.flushes_count += 1;
        if let Some(line) = shared.timeline.as_mut() {
            let end = line.drained() + line.timing().flush;
            line.advance_to(end);
        }
        Ok(())
    }

    fn open(&mut self, zone: ZoneId) -> Result<()> {
        self.command(zone, Command::Open)
    }
    fn close(&mut self, zone: ZoneId) -> Result<()> {
        self.command(zone, Command::Close)
    }
    fn finish(&mut self, zone: ZoneId) -> Result<()> {
        self.command(zone, Command::Finish)
    }
    fn reset(&mut self, zone: ZoneId) -> Result<()> {
        self.command(zone, Command::Reset)
    }
    fn keep_room(&mut self, zones: &[ZoneId], spare_blocks: u64) -> Result<()> {
        self.medium.keep_room(zones, spare_blocks)
    }
    fn shares_room(&self) -> bool {
        self.medium.shares_room()
    }
    fn has_spare_room(&mut self) -> Result<bool> {
        self.medium.has_spare_room()
    }
    fn discard(&mut self, at: Lba, blocks: u64) -> Result<()> {
        let end =
            at.0.checked_add(blocks).filter(|&end| blocks > 0 && end <= self.geometry().blocks());
        let is_legal = end.is_some_and(|end| {
            let g = self.geometry();
            let is_written = |zone: ZoneId| {
                let start = g.start(zone).0;
                let here = end.min(start + g.zone_blocks) - start;
                self.table.get(zone).is_some_and(|z| here <= z.written_blocks)
            };
            let (first, last) = (g.place(at).0, g.place(Lba(end - 1)).0);
            let mut zones = (first.0..=last.0).map(ZoneId);
            zones.all(|z| g.kind(z) == ZoneKind::Conventional || is_written(z))
        });
        if !is_legal {
            let what = format!("discard of {blocks} blocks at block {at}");
            return Err(self.refuse(Refusal::WrongState, what));
        }
        self.medium.discard(at, blocks)
    }
}
