//! The paper's baseline: the same flash behind an NVMe queue pair (paper 003).
//!
//! Host side, and so the host's cost: write a 64-byte submission entry; a store fence and a
//! doorbell, once a request or once a `kick`; find completion entries by their phase bit and
//! read them; ring the completion doorbell once per batch; then the data are used.
//! Device side: fetch the entry, decide by [`Pacer`] when it is answered, write the
//! completion entry. The device is arithmetic on the host's core; what its side costs can be
//! measured on its own ([`QueuePair::rehearse_device_side`]) and taken off.
//!
//! What cannot be had in user space is the doorbell itself: an uncached write over PCIe.
//! [`Doorbell`] names what stands in for it; `Plain`, an ordinary cached store, is a lower bound.
//!
//! Data are handed out as slices of the region (a real drive's DMA is free for the host as well).
//!
//! Invariants
//! - At most `depth - 1` requests are outstanding, so no entry is overwritten before it is fetched.
//!   Checked by `QueuePair::submit`.
//! - A completion is believed only when its slot's generation is the one that was sent, so that a
//!   late answer cannot be taken for a later request's. Checked by
//!   `an_answer_of_an_earlier_generation_is_dropped`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use littoral_base::clock::ClockKind;
use littoral_base::counters::bump;

use super::paced::PacedOptions;
use super::pacer::Pacer;
use super::raw::slots::{SlotTable, State};
use crate::error::{Error, Kind, Result};
use crate::raw::cpu;
use crate::read::{Completion, Lease, Limits, ReadDevice, Slot, Status};
use crate::region::Region;
use crate::ticks;

/// What stands in for an uncached doorbell write.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Doorbell {
    /// A store to an ordinary cached line: a lower bound.
    #[default]
    Plain,
    /// A locked exchange: drains the store buffer, as an uncached store makes later ones wait.
    Locked,
    /// A store and a flush of its line: the next store fetches the line from memory again.
    Flushed,
    /// The processor is busy for so many nanoseconds: a profile's figure.
    BusyNs(f64),
}

/// When the submission doorbell rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batching {
    /// After every request, as in the paper.
    #[default]
    PerRequest,
    /// Once a `kick`, as careful drivers do.
    PerKick,
}

/// A doorbell register on a line of its own.
#[repr(align(128))]
struct Register {
    word: AtomicU32,
    kind: Doorbell,
    busy_ticks: u64,
}

impl Register {
    fn new(kind: Doorbell) -> Register {
        let busy = if let Doorbell::BusyNs(ns) = kind { ticks::from_ns(ns) as u64 } else { 0 };
        Register { word: AtomicU32::new(0), kind, busy_ticks: busy }
    }

    #[inline(always)]
    fn ring(&self, value: u32) {
        match self.kind {
            Doorbell::Plain => self.word.store(value, Ordering::Release),
            Doorbell::Locked => {
                self.word.swap(value, Ordering::SeqCst);
            }
            Doorbell::Flushed => {
                self.word.store(value, Ordering::Release);
                cpu::flush_line(&self.word);
            }
            Doorbell::BusyNs(_) => {
                self.word.store(value, Ordering::Release);
                let until = ticks::now() + self.busy_ticks;
                while ticks::now() < until {}
            }
        }
    }
}

/// A submission entry: command and identifier, address, length; the rest is written as zeros.
#[repr(align(64))]
#[derive(Default)]
struct Submission {
    words: [AtomicU64; 8],
}

/// A completion entry: {generation, -}, {head, identifier, phase and status}.
#[repr(align(16))]
#[derive(Default)]
struct Answer {
    detail: AtomicU64,
    /// Written last: identifier in bits 0..32, status in 33.., phase in bit 32.
    word: AtomicU64,
}

const PHASE: u64 = 1 << 32;
const READ_COMMAND: u64 = 0x02;

/// A request the device has fetched and not yet answered.
#[derive(Clone, Copy)]
struct Fetched {
    slot: u32,
    generation: u32,
    due: u64,
}

littoral_base::counters! {
    /// Counters of a queue pair.
    pub struct QueueCounters => QueueCounts {
        /// Requests submitted.
        reads_count,
        /// Bytes asked for.
        read_bytes,
        /// Submission doorbells rung.
        submission_doorbells_count,
        /// Completion doorbells rung.
        completion_doorbells_count,
        /// Completion entries with the wrong generation, dropped.
        stale_count,
    }
}

/// NVMe-style flash; see the module's page.
///
/// ```
/// use littoral_device::flash::{paced::PacedOptions, queue_pair::*};
/// use littoral_device::{read::{ReadDevice, Slot, Status}, region::Region};
///
/// let flash = QueuePair::new(Region::from_bytes(b"contents")?, PacedOptions::default(),
///     Doorbell::Plain, Batching::PerRequest)?;
/// flash.issue(Slot(0), 0, 8);
/// while flash.poll(Slot(0)).is_none() {
///     flash.reap();
/// }
/// assert_eq!(flash.copy(Slot(0)), b"contents");
/// flash.release(Slot(0));
/// # Ok::<(), littoral_device::Error>(())
/// ```
pub struct QueuePair {
    slots: SlotTable,
    /// Whether a slot's answer has been taken off the completion queue, and its generation.
    marks: Box<[Cell<(bool, u32)>]>,
    submissions: Box<[Submission]>,
    answers: Box<[Answer]>,
    submission_doorbell: Register,
    completion_doorbell: Register,
    batching: Batching,
    tail: Cell<u32>,
    rung: Cell<u32>,
    head: Cell<u32>,
    /// Device side: where the next completion entry goes, and what is being read.
    answer_tail: Cell<u32>,
    fetched: RefCell<VecDeque<Fetched>>,
    pacer: Pacer,
    read_bytes_max: u32,
    counters: QueueCounters,
}

impl QueuePair {
    /// A device with `region` as its contents; queues are as deep as the slots ask for.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for more than 65535 slots (identifiers have 16 bits) or none.
    pub fn new(
        region: Region,
        options: PacedOptions,
        doorbell: Doorbell,
        batching: Batching,
    ) -> Result<QueuePair> {
        if options.slots == 0 || options.slots > u32::from(u16::MAX) {
            let what = format!("a queue pair has 1 to 65535 slots, not {}", options.slots);
            return Err(Error::new(Kind::IllegalRequest, what));
        }
        let depth = (options.slots + 1).next_power_of_two() as usize;
        Ok(QueuePair {
            slots: SlotTable::new(
                region,
                options.slots,
                options.granule_bytes,
                options.read_bytes_max,
            ),
            marks: (0..options.slots).map(|_| Cell::new((false, 0))).collect(),
            submissions: (0..depth).map(|_| Submission::default()).collect(),
            answers: (0..depth).map(|_| Answer::default()).collect(),
            submission_doorbell: Register::new(doorbell),
            completion_doorbell: Register::new(doorbell),
            batching,
            tail: Cell::new(0),
            rung: Cell::new(0),
            head: Cell::new(0),
            answer_tail: Cell::new(0),
            fetched: RefCell::new(VecDeque::with_capacity(depth)),
            pacer: Pacer::new(&options.timing),
            read_bytes_max: options.read_bytes_max,
            counters: QueueCounters::default(),
        })
    }

    /// What has been counted so far.
    pub fn counts(&self) -> QueueCounts {
        self.counters.snapshot()
    }

    /// Runs the device's side alone over `rounds` times `batch` entries as the host last
    /// left them, with nothing outstanding: what a run pays for the model and not for the
    /// interface.
    ///
    /// # Panics
    /// When requests are under way.
    pub fn rehearse_device_side(&self, rounds: u32, batch: u32) {
        assert!(self.fetched.borrow().is_empty(), "the device's side is rehearsed while idle");
        for _ in 0..rounds {
            let from = self.rung.get();
            let to = from.wrapping_add(batch.min(self.depth() - 1));
            self.device_fetch(from, to);
            while !self.fetched.borrow().is_empty() {
                self.pacer.stamp(|| false);
                self.device_answer();
            }
            self.rung.set(to);
        }
        self.tail.set(self.rung.get());
        self.head.set(self.answer_tail.get());
    }

    fn depth(&self) -> u32 {
        self.submissions.len() as u32
    }

    /// The phase of a lap: bit set on even laps, as the queue starts zeroed.
    #[inline(always)]
    fn phase(&self, position: u32) -> u64 {
        if position & self.depth() == 0 { PHASE } else { 0 }
    }

    /// All 64 bytes are written, as a driver must.
    #[inline(always)]
    fn submit(&self, slot: Slot, generation: u32, addr: u64, len: u32) {
        let tail = self.tail.get();
        debug_assert!(
            tail.wrapping_sub(self.head.get()) < self.depth() - 1,
            "one entry of the submission queue stays free"
        );
        let entry = &self.submissions[(tail & (self.depth() - 1)) as usize];
        let identifier = u64::from(slot.0) << 16;
        let words = [READ_COMMAND | identifier, u64::from(generation), 0, 0, 0, addr, 0, 0];
        for (to, word) in entry.words.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        entry.words[6].store(u64::from(len), Ordering::Relaxed);
        self.tail.set(tail.wrapping_add(1));
    }

    /// Rings the doorbell, which sets off the device's fetch.
    #[inline(always)]
    fn ring(&self) {
        let tail = self.tail.get();
        if tail == self.rung.get() {
            return;
        }
        cpu::store_fence();
        self.submission_doorbell.ring(tail);
        bump(&self.counters.submission_doorbells_count, 1);
        self.device_fetch(self.rung.replace(tail), tail);
    }

    /// Device: reads the new entries and begins their flash reads.
    #[inline(always)]
    fn device_fetch(&self, from: u32, to: u32) {
        if self.pacer.last_due() <= self.pacer.now() && !self.pacer.is_instant() {
            // After an idle time the latest stamp may be arbitrarily old.
            self.pacer.stamp(|| false);
        }
        let mut fetched = self.fetched.borrow_mut();
        let mut position = from;
        while position != to {
            let entry = &self.submissions[(position & (self.depth() - 1)) as usize];
            let command = entry.words[0].load(Ordering::Relaxed);
            let len = entry.words[6].load(Ordering::Relaxed) as u32;
            fetched.push_back(Fetched {
                slot: (command >> 16) as u32,
                generation: entry.words[1].load(Ordering::Relaxed) as u32,
                due: self.pacer.admit(len),
            });
            position = position.wrapping_add(1);
        }
    }

    /// Device: writes the completion entries that are due, the word with the phase last.
    #[inline(always)]
    fn device_answer(&self) {
        let mut fetched = self.fetched.borrow_mut();
        while fetched.front().is_some_and(|f| f.due <= self.pacer.now()) {
            let Some(next) = fetched.pop_front() else { return };
            let position = self.answer_tail.get();
            let entry = &self.answers[(position & (self.depth() - 1)) as usize];
            entry.detail.store(u64::from(next.generation), Ordering::Relaxed);
            entry.word.store(u64::from(next.slot) | self.phase(position), Ordering::Release);
            self.answer_tail.set(position.wrapping_add(1));
        }
    }

    /// Takes every new completion entry, then rings the doorbell once.
    #[inline(always)]
    fn take_answers(&self) {
        let first = self.head.get();
        let mut position = first;
        loop {
            let entry = &self.answers[(position & (self.depth() - 1)) as usize];
            let word = entry.word.load(Ordering::Acquire);
            if word & PHASE != self.phase(position) {
                break;
            }
            self.take(word as u32, entry.detail.load(Ordering::Relaxed) as u32);
            position = position.wrapping_add(1);
        }
        if position != first {
            self.head.set(position);
            self.completion_doorbell.ring(position);
            bump(&self.counters.completion_doorbells_count, 1);
        }
    }

    #[inline(always)]
    fn take(&self, slot: u32, generation: u32) {
        let mark = &self.marks[slot as usize];
        if mark.get() != (false, generation) {
            bump(&self.counters.stale_count, 1);
            return;
        }
        mark.set((true, generation));
        let entry = self.slots.entry(Slot(slot));
        if entry.state() == State::Abandoned {
            entry.release();
        }
    }
}

impl ReadDevice for QueuePair {
    fn limits(&self) -> Limits {
        Limits {
            slots: self.slots.slots(),
            granule_bytes: self.slots.granule_bytes(),
            read_bytes_max: self.read_bytes_max,
            capacity_bytes: self.slots.region().len() as u64,
            completion: Completion::Queue,
            clock: ClockKind::Paced,
            can_park: false,
        }
    }

    #[inline(always)]
    fn issue(&self, slot: Slot, addr: u64, len: u32) {
        let entry = self.slots.entry(slot);
        let mark = &self.marks[slot.index()];
        let generation = mark.get().1.wrapping_add(1);
        mark.set((false, generation));
        if let Some(bytes) = self.slots.place(entry, addr, len) {
            bump(&self.counters.reads_count, 1);
            bump(&self.counters.read_bytes, u64::from(len));
            cpu::prefetch_slice(bytes);
            self.submit(slot, generation, addr, len);
            if self.batching == Batching::PerRequest {
                self.ring();
            }
            return;
        }
        mark.set((true, generation));
    }

    #[inline(always)]
    fn kick(&self) {
        self.ring();
    }

    #[inline(always)]
    fn reap(&self) {
        self.pacer.stamp(|| self.pacer.last_due() > self.pacer.now());
        self.device_answer();
        self.take_answers();
    }

    #[inline(always)]
    fn poll(&self, slot: Slot) -> Option<Status> {
        let (done, _) = self.marks[slot.index()].get();
        done.then(|| self.slots.entry(slot).status())
    }

    #[inline(always)]
    fn data(&self, slot: Slot, _: Lease) -> &[u8] {
        self.slots.bytes(self.slots.entry(slot))
    }

    #[inline(always)]
    fn answer(&self, slot: Slot, _: Lease) -> Option<std::result::Result<&[u8], Status>> {
        let (done, _) = self.marks[slot.index()].get();
        done.then(|| self.slots.answer(self.slots.entry(slot)))
    }

    #[inline(always)]
    fn release(&self, slot: Slot) {
        let entry = self.slots.entry(slot);
        if self.marks[slot.index()].get().0 { entry.release() } else { entry.abandon() }
    }

    #[inline(always)]
    fn is_free(&self, slot: Slot) -> bool {
        self.slots.entry(slot).state() == State::Free
    }

    fn request(&self, slot: Slot) -> Option<(u64, u32)> {
        self.slots.request(self.slots.entry(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pacer::Timing;
    use super::*;
    use littoral_base::units::Picos;

    fn device(slots: u32, latency: Picos, batching: Batching) -> QueuePair {
        let region = Region::build(1 << 12, |b| b[64..128].fill(9)).unwrap();
        let timing = Timing { latency, pause_min: Picos::MAX, ..Timing::default() };
        let options = PacedOptions { timing, slots, granule_bytes: 16, read_bytes_max: 2048 };
        QueuePair::new(region, options, Doorbell::Locked, batching).unwrap()
    }

    fn wait(device: &QueuePair, slot: Slot) -> Status {
        loop {
            device.kick();
            device.reap();
            if let Some(status) = device.poll(slot) {
                return status;
            }
        }
    }

    #[test]
    fn phases_tell_new_answers_from_old_over_many_laps() {
        let device = device(3, Picos::ZERO, Batching::PerRequest);
        for round in 0..50u64 {
            for s in 0..3 {
                device.issue(Slot(s), 64, 64);
            }
            for s in [2, 0, 1] {
                assert_eq!(wait(&device, Slot(s)), Status::Ok);
                assert_eq!(device.copy(Slot(s)), [9; 64]);
                device.release(Slot(s));
            }
            assert_eq!(device.counts().submission_doorbells_count, 3 * (round + 1));
        }
        assert_eq!(device.counts().stale_count, 0);
    }

    #[test]
    fn an_answer_of_an_earlier_generation_is_dropped() {
        let device = device(2, Picos::from_micros(100), Batching::PerRequest);
        device.issue(Slot(0), 64, 64);
        let (_, generation) = device.marks[0].get();
        let late = Fetched { slot: 0, generation: generation.wrapping_sub(1), due: 0 };
        device.fetched.borrow_mut().push_front(late);
        device.device_answer();
        device.take_answers();
        assert_eq!((device.poll(Slot(0)), device.counts().stale_count), (None, 1));
        assert_eq!(wait(&device, Slot(0)), Status::Ok);
        assert_eq!((device.copy(Slot(0)), device.counts().stale_count), (vec![9; 64], 1));
    }

    #[test]
    fn a_rehearsal_leaves_the_queues_in_step() {
        let device = device(4, Picos::ZERO, Batching::PerRequest);
        device.rehearse_device_side(37, 3);
        for _ in 0..20 {
            device.issue(Slot(1), 64, 16);
            assert_eq!(wait(&device, Slot(1)), Status::Ok);
            device.release(Slot(1));
        }
        assert_eq!(device.counts().stale_count, 0);
    }

    #[test]
    fn a_batch_has_one_doorbell_and_nothing_is_answered_before_it() {
        let device = device(8, Picos::ZERO, Batching::PerKick);
        (0..8).for_each(|s| device.issue(Slot(s), 0, 16));
        device.reap();
        assert!((0..8).all(|s| device.poll(Slot(s)).is_none()));
        device.kick();
        device.reap();
        assert!((0..8).all(|s| device.poll(Slot(s)) == Some(Status::Ok)));
        assert_eq!(device.counts().submission_doorbells_count, 1);
        assert_eq!(device.counts().completion_doorbells_count, 1);
    }

    #[test]
    fn abandoned_slots_come_back_with_their_answer_and_generations_wrap() {
        let device = device(1, Picos::from_micros(50), Batching::PerRequest);
        device.marks[0].set((false, u32::MAX - 1));
        for _ in 0..4 {
            device.issue(Slot(0), 0, 16);
            device.release(Slot(0));
            assert!(!device.is_free(Slot(0)));
            while !device.is_free(Slot(0)) {
                device.reap();
            }
        }
        device.issue(Slot(0), 64, 16);
        assert_eq!((wait(&device, Slot(0)), device.marks[0].get()), (Status::Ok, (true, 3)));
        assert_eq!(device.copy(Slot(0)), [9; 16]);
    }

    #[test]
    fn illegal_requests_are_refused_and_too_many_slots_too() {
        let device = device(1, Picos::ZERO, Batching::PerRequest);
        for (addr, len) in [(8, 16), (0, 4096), (1 << 12, 16)] {
            device.issue(Slot(0), addr, len);
            assert_eq!(device.poll(Slot(0)), Some(Status::Refused));
            device.release(Slot(0));
        }
        let options = PacedOptions { slots: 1 << 16, ..PacedOptions::default() };
        let region = Region::from_bytes(&[0; 16]).unwrap();
        let error = QueuePair::new(region, options, Doorbell::Plain, Batching::PerKick).err();
        assert_eq!(error.unwrap().kind(), Kind::IllegalRequest);
    }
}
