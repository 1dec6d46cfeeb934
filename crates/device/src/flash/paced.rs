//! Analytic microsecond flash behind the paper's lightweight interface (paper 003).
//!
//! Issuing writes one slot entry (the submission entry and the completion place in one); there is
//! no doorbell and no completion queue; polling compares the entry's deadline with the latest
//! timestamp. Deadlines come from [`Pacer`]. The contents are a [`Region`] in DRAM; issuing
//! prefetches them, as a real device's transfer would leave them near the processor (with DDIO, in
//! the last-level cache).
//!
//! Two bounds of what the transfer costs the host, and both are to be reported:
//! - [`PacedPtr`] hands out a slice of the region: the transfer is free;
//! - [`PacedCopy`] copies into the slot's buffer when the answer is noticed: the host pays for what
//!   a DMA engine would have done.
//!
//! The device never yields the processor: its time passes when the caller reads the clock
//! ([`ReadDevice::reap`]).
//!
//! Invariants
//! - A request outside the region, misaligned or too long completes at once with `Status::Refused`.
//!   Checked by `illegal_requests_are_refused_at_once`.
//! - A slot released before its deadline is abandoned until the deadline has passed. Checked by
//!   `an_abandoned_slot_stays_reserved_until_the_answer_is_in`.
//!
//! Deviations from the paper: the device is arithmetic, not a second agent, so no sentinel is
//! needed and no line is contended; `emulator` has both, for correctness.

use std::cell::Cell;

use littoral_base::clock::ClockKind;
use littoral_base::counters::bump;
use littoral_base::units::PerSecond;

use super::pacer::{Pacer, SharedRate, Timing};
use super::raw::buffers::Buffers;
use super::raw::slots::{Entry, SlotTable, State};
use crate::profile::Flash;
use crate::raw::cpu::{prefetch_array, prefetch_slice};
use crate::read::{Completion, Lease, Limits, ReadDevice, Slot, Status};
use crate::region::Region;
use crate::ticks;

/// How a paced device behaves.
#[derive(Clone, Debug)]
pub struct PacedOptions {
    /// Latency, rates, link.
    pub timing: Timing,
    /// Requests outstanding at most.
    pub slots: u32,
    /// Addresses and lengths are multiples of this (a power of two).
    pub granule_bytes: u32,
    /// Longest single read in bytes.
    pub read_bytes_max: u32,
}

impl Default for PacedOptions {
    /// No latency and no limits: the interface alone.
    fn default() -> Self {
        PacedOptions {
            timing: Timing::default(),
            slots: 1024,
            granule_bytes: 1,
            read_bytes_max: 4096,
        }
    }
}

impl PacedOptions {
    /// One core's queue of the device a profile describes, cores sharing `shared` if given.
    pub fn of(flash: &Flash, shared: Option<SharedRate>) -> PacedOptions {
        PacedOptions {
            timing: Timing {
                latency: flash.latency,
                reads_per_core_max: Some(PerSecond(flash.reads_per_core_max as f64)),
                shared,
                link_bytes_per_s: Some(flash.link_bytes_per_s as f64),
                ..Timing::default()
            },
            slots: flash.queue_depth.saturating_sub(1),
            granule_bytes: flash.granule_bytes,
            read_bytes_max: flash.read_bytes_max,
        }
    }
}

littoral_base::counters! {
    /// Counters of a paced device.
    pub struct PacedCounters => PacedCounts {
        /// Requests taken.
        reads_count,
        /// Bytes asked for.
        read_bytes,
        /// Most requests under way at a sample (every 4096th timestamp); reads of a fixed length,
        /// which have no slot entry, are not among them.
        outstanding_max_count,
        /// Nanoseconds between timestamps in which requests were under way and none was made: the
        /// host waited.
        starved_ns,
        /// Timestamps read.
        stamps_count,
        /// Times the host stood still with requests under way.
        pauses_count,
        /// Nanoseconds of it, which the device did not get.
        paused_ns,
    }
}

/// A paced device that hands out pointers into its contents.
pub type PacedPtr = Paced<false>;
/// A paced device that copies into slot-owned buffers at the host's expense.
pub type PacedCopy = Paced<true>;

/// Analytic flash behind the lightweight interface; see the module's page.
///
/// ```
/// use littoral_device::flash::paced::{PacedOptions, PacedPtr};
/// use littoral_device::{profile::Profile, read::{ReadDevice, Slot, Status}, region::Region};
///
/// let options = PacedOptions::of(&Profile::named("xlfdd")?.flash()?, None);
/// let device = PacedPtr::new(Region::from_bytes(&[7; 4096])?, options);
/// device.issue(Slot(0), 64, 64);
/// assert_eq!(device.poll(Slot(0)), None, "4 us have not passed");
/// while device.poll(Slot(0)).is_none() {
///     device.reap();
/// }
/// assert_eq!(device.copy(Slot(0)), [7; 64]);
/// device.release(Slot(0));
/// # Ok::<(), littoral_device::Error>(())
/// ```
pub struct Paced<const COPY: bool> {
    slots: SlotTable,
    buffers: Buffers,
    pacer: Pacer,
    read_bytes_max: u32,
    counters: PacedCounters,
    /// Requests since the latest stamp and, in the upper half, their bytes: one store a request.
    recent: Cell<u64>,
    /// The same for reads of a fixed length.
    recent_fixed: Cell<u64>,
    /// Fixed reads before those.
    settled_fixed: Cell<u64>,
    starved_ticks: Cell<u64>,
}

impl<const COPY: bool> Paced<COPY> {
    /// A device with `region` as its contents.
    ///
    /// # Panics
    /// When the granule is not a power of two: a profile has checked it.
    pub fn new(region: Region, options: PacedOptions) -> Self {
        let buffer_bytes = if COPY { options.read_bytes_max } else { 0 };
        Paced {
            slots: SlotTable::new(
                region,
                options.slots,
                options.granule_bytes,
                options.read_bytes_max,
            ),
            buffers: Buffers::new(if COPY { options.slots } else { 0 }, buffer_bytes),
            pacer: Pacer::new(&options.timing),
            read_bytes_max: options.read_bytes_max,
            counters: PacedCounters::default(),
            recent: Cell::new(0),
            recent_fixed: Cell::new(0),
            settled_fixed: Cell::new(0),
            starved_ticks: Cell::new(0),
        }
    }

    /// What has been counted so far.
    pub fn counts(&self) -> PacedCounts {
        self.settle();
        let counted = self.counters.snapshot();
        PacedCounts {
            starved_ns: ticks::to_ns(self.starved_ticks.get() as f64) as u64,
            stamps_count: self.pacer.stamps_count(),
            pauses_count: self.pacer.pauses_count(),
            paused_ns: self.pacer.paused_ns(),
            ..counted
        }
    }

    /// The memory behind the device.
    pub fn region(&self) -> &Region {
        self.slots.region()
    }

    #[inline(always)]
    fn is_answered(&self, entry: &Entry) -> bool {
        entry.due.get() <= self.pacer.now()
    }

    /// Whether a request taken has not been answered at the latest stamp.
    #[inline(always)]
    fn is_busy(&self) -> bool {
        self.pacer.last_due() > self.pacer.now()
    }

    #[inline(always)]
    fn issue_on(&self, entry: &Entry, addr: u64, len: u32) {
        let recent = self.recent.get();
        if recent == 0 {
            std::hint::cold_path();
            self.wake();
        }
        if let Some(bytes) = self.slots.place(entry, addr, len) {
            let recent = recent + (1 | u64::from(len) << 32);
            self.recent.set(recent);
            if recent > RECENT_MAX {
                self.settle_early();
            }
            entry.due.set(self.pacer.admit(len));
            prefetch_slice(bytes);
        }
    }

    /// The first request since the latest stamp: after an idle time that may be arbitrarily old.
    #[inline(always)]
    fn wake(&self) {
        if !self.pacer.is_instant() && !self.is_busy() {
            self.stamp_late();
        }
    }

    #[cold]
    #[inline(never)]
    fn stamp_late(&self) {
        self.pacer.stamp(|| false);
    }

    #[cold]
    #[inline(never)]
    fn settle_early(&self) {
        self.settle();
    }

    /// Moves the recent requests into the counters; answers whether there were any.
    #[inline(always)]
    fn settle(&self) -> bool {
        let (recent, fixed) = (self.recent.replace(0), self.recent_fixed.replace(0));
        bump(&self.settled_fixed, low(fixed));
        bump(&self.counters.reads_count, low(recent) + low(fixed));
        bump(&self.counters.read_bytes, (recent >> 32) + (fixed >> 32));
        recent | fixed != 0
    }

    #[cold]
    fn sample_outstanding(&self) {
        let waiting = |e: &&Entry| e.state() != State::Free && !self.is_answered(e);
        let waiting = self.slots.entries().iter().filter(waiting).count() as u64;
        let most = &self.counters.outstanding_max_count;
        most.set(most.get().max(waiting));
    }
}

/// Above this the recent requests are settled, stamp or none: one more may have 2^31 bytes.
const RECENT_MAX: u64 = i64::MAX as u64;
const STAMPS_PER_SAMPLE: u64 = 4096;

/// The requests in a word of recent ones.
#[inline(always)]
fn low(recent: u64) -> u64 {
    recent & u64::from(u32::MAX)
}

impl<const COPY: bool> ReadDevice for Paced<COPY> {
    fn limits(&self) -> Limits {
        Limits {
            slots: self.slots.slots(),
            granule_bytes: self.slots.granule_bytes(),
            read_bytes_max: self.read_bytes_max,
            capacity_bytes: self.slots.region().len() as u64,
            completion: Completion::Deadline,
            clock: ClockKind::Paced,
            can_park: false,
        }
    }

    #[inline(always)]
    fn issue(&self, slot: Slot, addr: u64, len: u32) {
        self.issue_on(self.slots.entry(slot), addr, len);
    }

    #[inline(always)]
    fn try_issue(&self, slot: Slot, addr: u64, len: u32) -> bool {
        let entry = self.slots.entry(slot);
        let free = entry.is_free() || self.is_free(slot);
        if free {
            self.issue_on(entry, addr, len);
        }
        free
    }

    #[inline(always)]
    fn reap(&self) {
        let was_busy = self.is_busy();
        let gap = self.pacer.stamp(|| was_busy);
        if !self.settle() && was_busy {
            bump(&self.starved_ticks, gap);
        }
        if self.pacer.stamps_count() % STAMPS_PER_SAMPLE == 1 {
            self.sample_outstanding();
        }
    }

    #[inline(always)]
    fn poll(&self, slot: Slot) -> Option<Status> {
        let entry = self.slots.entry(slot);
        if !self.is_answered(entry) {
            return None;
        }
        if COPY {
            self.buffers.fill(slot, self.slots.bytes(entry));
        }
        Some(entry.status())
    }

    #[inline(always)]
    fn data(&self, slot: Slot, _: Lease) -> &[u8] {
        let direct = self.slots.bytes(self.slots.entry(slot));
        if COPY { self.buffers.bytes(slot, direct.len()) } else { direct }
    }

    #[inline(always)]
    fn answer(&self, slot: Slot, _: Lease) -> Option<std::result::Result<&[u8], Status>> {
        let entry = self.slots.entry(slot);
        if !self.is_answered(entry) {
            return None;
        }
        let answer = self.slots.answer(entry);
        if !COPY {
            return Some(answer);
        }
        Some(answer.map(|direct| {
            self.buffers.fill(slot, direct);
            self.buffers.bytes(slot, direct.len())
        }))
    }

    #[inline(always)]
    fn has_fixed(&self) -> bool {
        !COPY
    }

    #[inline(always)]
    fn issue_fixed<const N: usize>(&self, addr: u64) -> Option<(&[u8; N], u64)> {
        if COPY {
            return None;
        }
        let bytes = self.slots.fixed::<N>(addr)?;
        // The caller stamps at least once in 2^31 bytes, so the word does not overflow.
        let recent = self.recent_fixed.get();
        self.recent_fixed.set(recent.wrapping_add(1 | (N as u64) << 32));
        let due = self.pacer.admit_after_now(N as u32);
        prefetch_array(bytes);
        Some((bytes, due))
    }

    #[inline(always)]
    fn is_due(&self, due: u64) -> bool {
        due <= self.pacer.now()
    }

    #[inline(always)]
    fn fixed_count(&self) -> u64 {
        self.settled_fixed.get() + low(self.recent_fixed.get())
    }

    fn hold(&self, slot: Slot) -> bool {
        let free = !COPY && self.is_free(slot);
        if free {
            let entry = self.slots.entry(slot);
            entry.hold();
            entry.due.set(0);
        }
        free
    }

    fn release_due(&self, slot: Slot, due: u64) {
        self.slots.entry(slot).due.set(due);
        self.release(slot);
    }

    #[inline(always)]
    fn release(&self, slot: Slot) {
        let entry = self.slots.entry(slot);
        if self.is_answered(entry) { entry.release() } else { entry.abandon() }
    }

    #[inline(always)]
    fn release_done(&self, slot: Slot) {
        self.slots.entry(slot).release();
    }

    #[inline(always)]
    fn is_free(&self, slot: Slot) -> bool {
        let entry = self.slots.entry(slot);
        match entry.state() {
            State::Free => true,
            State::Issued => false,
            State::Abandoned => self.is_answered(entry),
        }
    }

    fn request(&self, slot: Slot) -> Option<(u64, u32)> {
        self.slots.request(self.slots.entry(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_base::units::Picos;

    fn region() -> Region {
        Region::build(1 << 16, |b| b.iter_mut().enumerate().for_each(|(i, x)| *x = (i >> 4) as u8))
            .unwrap()
    }

    fn options(latency: Picos) -> PacedOptions {
        PacedOptions {
            timing: Timing { latency, pause_min: Picos::MAX, ..Timing::default() },
            slots: 4,
            granule_bytes: 16,
            read_bytes_max: 2048,
        }
    }

    fn wait<const COPY: bool>(device: &Paced<COPY>, slot: Slot) -> Status {
        loop {
            device.reap();
            if let Some(status) = device.poll(slot) {
                return status;
            }
        }
    }

    fn delivers_after_the_latency<const COPY: bool>() {
        let device = Paced::<COPY>::new(region(), options(Picos::from_micros(200)));
        let start = std::time::Instant::now();
        device.issue(Slot(3), 4096, 2048);
        assert_eq!(wait(&device, Slot(3)), Status::Ok);
        assert!(start.elapsed().as_micros() >= 198);
        assert_eq!(device.copy(Slot(3)), &region()[4096..6144]);
        device.release(Slot(3));
        let counts = device.counts();
        assert_eq!((counts.reads_count, counts.read_bytes), (1, 2048));
        assert!(counts.starved_ns > 0 && counts.stamps_count > 1);
    }

    #[test]
    fn pointers_arrive_after_the_latency() {
        delivers_after_the_latency::<false>();
    }

    #[test]
    fn copies_arrive_after_the_latency() {
        delivers_after_the_latency::<true>();
    }

    #[test]
    fn illegal_requests_are_refused_at_once() {
        let device = PacedCopy::new(region(), options(Picos::from_micros(1000)));
        for (addr, len) in [(8, 16), (16, 8), (0, 4096), (1 << 16, 16), (u64::MAX - 15, 16)] {
            device.issue(Slot(0), addr, len);
            assert_eq!(device.poll(Slot(0)), Some(Status::Refused), "{addr}+{len}");
            assert!(device.copy(Slot(0)).is_empty());
            device.release(Slot(0));
            assert!(device.is_free(Slot(0)));
        }
    }

    #[test]
    fn an_abandoned_slot_stays_reserved_until_the_answer_is_in() {
        let device = PacedCopy::new(region(), options(Picos::from_micros(300)));
        device.issue(Slot(1), 0, 16);
        device.release(Slot(1));
        assert!(!device.is_free(Slot(1)));
        while !device.is_free(Slot(1)) {
            device.reap();
        }
        device.issue(Slot(1), 16, 16);
        assert_eq!(wait(&device, Slot(1)), Status::Ok);
        assert_eq!(device.copy(Slot(1)), &region()[16..32]);
    }

    #[test]
    fn counters_survive_more_bytes_than_fit_between_stamps() {
        let device = PacedPtr::new(region(), options(Picos::ZERO));
        for _ in 0..3 << 20 {
            device.issue(Slot(0), 0, 2048);
            device.release(Slot(0));
        }
        let counts = device.counts();
        assert_eq!((counts.reads_count, counts.read_bytes), (3 << 20, 3 << 31));
    }
}
