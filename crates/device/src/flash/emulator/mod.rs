//! The two-core emulator: the paper's lightweight interface with every fault it leaves open.
//!
//! A host side (this thread, behind [`ReadDevice`]) and a device side (another thread, or this one
//! between polls) share a submission ring, data lines and completion words
//! ([`super::protocol`]) and nothing else. It exists for correctness: a software device on a second
//! core cannot represent tens of millions of reads a second, and none of its times is reported.
//!
//! Invariants
//! - `slots <= depth - 1`, or the constructor refuses: an unfetched entry is never overwritten.
//!   Checked by `options_that_break_the_protocol_are_refused_with_the_nearest`.
//! - Time is the device's step count, in both drives, so a descheduled device stops the clock and
//!   no deadline passes for lack of a processor. Checked by
//!   `a_device_that_stands_still_stops_the_clock`.
//! - Data handed out are a private copy, proven by the completion rule. Late, duplicate or stray
//!   writes of the device reach only the shared lines. Checked by
//!   `what_the_device_writes_later_does_not_reach_data_handed_out`.
//! - Rules without identity (reserved word, two sentinels) submit on a slot only when no answer to
//!   its earlier requests can come any more, and take only deadlines beyond the device's slowest
//!   answer. Checked by `any_mixture_of_faults_and_shapes_is_survived`,
//!   `options_that_break_the_protocol_are_refused_with_the_nearest`.
//!
//! Lifecycle of a request: marked and submitted; looked for at each poll; at its deadline, or when
//! an answer proves wrong, submitted again with a new tag, at most `attempts` times; then its
//! status says what was seen last. An abandoned request's slot is free once it is answered or
//! overdue.
//!
//! ```
//! use littoral_device::flash::emulator::{Emulator, EmulatorOptions, Format, Pattern};
//! use littoral_device::read::{ReadDevice, Slot, Status};
//! let content = Pattern { seed: 1, capacity_bytes: 1 << 20, format: Format::Arbitrary };
//! let plan = "seed=7 read:drop=1/4 read:shuffle=1/4".parse()?;
//! let options = EmulatorOptions { plan, ..EmulatorOptions::default() };
//! let emulator = Emulator::new(std::sync::Arc::new(content), options)?;
//! emulator.issue(Slot(0), 4096, 128);
//! while emulator.poll(Slot(0)).is_none() {
//!     emulator.reap();
//! }
//! assert_eq!(emulator.poll(Slot(0)), Some(Status::Ok));
//! assert_eq!(emulator.copy(Slot(0))[..8], content.word(512).to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::{Cell, RefCell};

use littoral_base::clock::ClockKind;
use littoral_base::counters::bump;
use littoral_base::fault::Plan;
use littoral_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use littoral_base::sync::{Arc, spin_loop, thread};

use super::pread::is_legal;
use super::protocol::{CompletionWords, LINE_BYTES, Lines, Request, SubmissionRing, next_tag};
use super::slots::Slots;
use super::slots::raw::LentCells;
use crate::error::{Error, Kind, Result};
use crate::read::{Completion, Lease, Limits, ReadDevice, Slot, Status};

mod content;
mod device;
pub mod faults;
mod host;
mod sentinel;

pub use content::{Content, Format, Pattern, RegionContent, verified_page_no};
use device::{DeviceSide, Manners, answer_steps_max};
use host::{Flight, Seen};
pub use sentinel::{SENTINEL_A, SENTINEL_B};

const LINE: u64 = LINE_BYTES as u64;

/// How the arrival of a whole read is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A separate completion word `{tag, status, crc32c}` after the data: for any data.
    Word,
    /// Pages of this many bytes end in `{page_no, generation, info, crc32c}`: no word at all.
    PageTrailer {
        /// Bytes of a page; reads are whole pages.
        page_bytes: u32,
    },
    /// The format keeps the last 32-bit word of each line free of all ones.
    ReservedWord,
    /// Any data; a line that equals one sentinel is asked for again under the other.
    TwoSentinels,
    /// Wrong on purpose: believes a whole read as soon as its first line changes. A suite that does
    /// not catch it proves nothing.
    CanaryFirstLine,
}

impl Rule {
    /// The rule in words.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Word => "the completion word",
            Rule::PageTrailer { .. } => "the page trailer",
            Rule::ReservedWord => "the reserved word",
            Rule::TwoSentinels => "two sentinels",
            Rule::CanaryFirstLine => "the first line (a canary)",
        }
    }

    fn granule_bytes(self) -> u64 {
        match self {
            Rule::PageTrailer { page_bytes } => u64::from(page_bytes),
            _ => LINE,
        }
    }

    fn completion(self) -> Completion {
        match self {
            Rule::Word => Completion::Word,
            Rule::PageTrailer { .. } => Completion::PageTrailer,
            Rule::ReservedWord | Rule::CanaryFirstLine => Completion::ReservedWord,
            Rule::TwoSentinels => Completion::TwoSentinels,
        }
    }

    /// Whether an answer says which request it answers.
    fn has_identity(self) -> bool {
        matches!(self, Rule::Word | Rule::PageTrailer { .. } | Rule::CanaryFirstLine)
    }
}

/// Who runs the device side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drive {
    /// This thread, one step a `reap`: deterministic and quick.
    Stepped,
    /// A thread of its own that polls the submission ring: real concurrency.
    Threaded,
}

/// How to build an emulator. Times are in device steps.
#[derive(Clone, Debug)]
pub struct EmulatorOptions {
    /// Slots; at most `depth - 1`.
    pub slots: u32,
    /// Entries of the submission ring.
    pub depth: u32,
    /// Longest single read in bytes.
    pub read_bytes_max: u32,
    /// How arrival is recognised.
    pub rule: Rule,
    /// Who runs the device.
    pub drive: Drive,
    /// What goes wrong.
    pub plan: Plan,
    /// From fetch to answer when nothing goes wrong.
    pub latency: u64,
    /// How much later a delayed answer comes at most.
    pub delay_max: u64,
    /// From submission to the next attempt; zero means twice the device's slowest answer.
    pub deadline: u64,
    /// Attempts before a request ends with its last failure.
    pub attempts: u32,
}

impl Default for EmulatorOptions {
    fn default() -> Self {
        EmulatorOptions {
            slots: 32,
            depth: 64,
            read_bytes_max: 2048,
            rule: Rule::Word,
            drive: Drive::Stepped,
            plan: Plan::none(),
            latency: 4,
            delay_max: 64,
            deadline: 0,
            attempts: 16,
        }
    }
}

/// The memory both sides touch.
struct Wire {
    ring: SubmissionRing,
    lines: Lines,
    answers: CompletionWords,
    steps: AtomicU64,
    stop: AtomicBool,
}

impl Wire {
    fn new(slots: u32, depth: u32, lines_per_slot: usize) -> Wire {
        Wire {
            ring: SubmissionRing::new(depth),
            lines: Lines::new(slots, lines_per_slot),
            answers: CompletionWords::new(slots),
            steps: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }
}

littoral_base::counters! {
    /// What the host side saw.
    pub struct EmulatorCounters => EmulatorCounts {
        /// Requests accepted.
        reads_count,
        /// Requests submitted again after a deadline or a wrong answer.
        reissues_count,
        /// Deadlines passed.
        timeouts_count,
        /// Answers that proved wrong.
        wrong_answers_count,
        /// Submissions that waited for the device to fetch an older entry.
        blocked_count,
    }
}

enum Side {
    Stepped(RefCell<Box<DeviceSide>>),
    Threaded(Option<thread::JoinHandle<()>>),
}

/// The emulated device; see the module's page.
pub struct Emulator {
    wire: Arc<Wire>,
    side: Side,
    slots: Slots,
    flights: Box<[Cell<Flight>]>,
    /// When no answer to an earlier request can reach the slot any more.
    quarantine: Box<[Cell<u64>]>,
    abandoned: RefCell<Vec<Slot>>,
    blocked: RefCell<Vec<Slot>>,
    /// Step at which each ring entry was last written.
    put_at: Box<[Cell<u64>]>,
    position: Cell<u64>,
    fetched: Cell<u64>,
    buffers: LentCells<Vec<u8>>,
    counters: EmulatorCounters,
    rule: Rule,
    answer_max: u64,
    deadline: u64,
    attempts: u32,
    limits: Limits,
}

const NO_FLIGHT: Flight = Flight {
    request: Request { addr: 0, len: 0, slot: 0, tag: 0 },
    attempt: 0,
    deadline: u64::MAX,
    position: 0,
    arrived: 0,
};
/// A flight whose entry is not in the ring yet.
const NOT_PUT: u64 = u64::MAX;

impl Emulator {
    /// An emulated device holding `content`.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for options that cannot be honoured, with the nearest that can, and
    /// for a fault plan whose verdicts the completion rule cannot act on.
    pub fn new(content: std::sync::Arc<dyn Content>, options: EmulatorOptions) -> Result<Emulator> {
        check(&options, content.capacity_bytes())?;
        faults::check(&options.plan, options.rule)?;
        let lines = u64::from(options.read_bytes_max) / LINE;
        let answer_max = answer_steps_max(options.latency, options.delay_max, lines);
        let wire = Arc::new(Wire::new(options.slots, options.depth, lines as usize));
        let limits = Limits {
            slots: options.slots,
            granule_bytes: options.rule.granule_bytes() as u32,
            read_bytes_max: options.read_bytes_max,
            capacity_bytes: content.capacity_bytes(),
            completion: options.rule.completion(),
            clock: ClockKind::Virtual,
            can_park: false,
        };
        let side = start(&wire, content, &options);
        Ok(Emulator {
            wire,
            side,
            slots: Slots::new(options.slots),
            flights: (0..options.slots).map(|_| Cell::new(NO_FLIGHT)).collect(),
            quarantine: (0..options.slots).map(|_| Cell::new(0)).collect(),
            abandoned: RefCell::default(),
            blocked: RefCell::default(),
            put_at: (0..options.depth).map(|_| Cell::new(0)).collect(),
            position: Cell::new(0),
            fetched: Cell::new(0),
            buffers: LentCells::new(options.slots as usize, Vec::new),
            counters: EmulatorCounters::default(),
            rule: options.rule,
            answer_max,
            deadline: if options.deadline == 0 { 2 * answer_max } else { options.deadline },
            attempts: options.attempts,
            limits,
        })
    }

    /// What the host side saw so far.
    pub fn counts(&self) -> EmulatorCounts {
        self.counters.snapshot()
    }

    /// The device's step count: this device's clock.
    pub fn now_steps(&self) -> u64 {
        self.wire.steps.load(Ordering::Acquire)
    }

    /// Puts the slot's flight into the ring, or leaves it for later when that would overwrite an
    /// entry not known to be fetched, or while answers to the slot's last request may still come.
    fn submit(&self, slot: Slot) {
        let position = self.position.get();
        let fetched = self.may_put(position);
        if !fetched || !self.is_quiet(slot) {
            bump(&self.counters.blocked_count, u64::from(!fetched));
            self.blocked.borrow_mut().push(slot);
            return;
        }
        let cell = &self.flights[slot.index()];
        let mut flight = cell.get();
        host::prepare(&self.wire, self.rule, &flight);
        flight.position = position;
        self.wire.ring.put(position, flight.request);
        self.position.set(position + 1);
        // The clock is read after the entry is visible, so the deadline errs on the late side.
        let now = self.now_steps();
        self.put_at[(position % self.wire.ring.depth()) as usize].set(now);
        flight.deadline = now + self.deadline;
        self.quarantine[slot.index()].set(now + self.answer_max);
        cell.set(flight);
    }

    /// The entry `depth` positions back must be known as fetched: an answer to it or to a later one
    /// says so (fetches are in order), or the device has made two whole steps since it was written.
    fn may_put(&self, position: u64) -> bool {
        let depth = self.wire.ring.depth();
        let Some(old) = position.checked_sub(depth) else { return true };
        let written = self.put_at[(old % depth) as usize].get();
        self.fetched.get() > old || self.now_steps() >= written + 2
    }

    /// Whether no answer to an earlier request of the slot could pass for one to the next.
    fn is_quiet(&self, slot: Slot) -> bool {
        self.rule.has_identity() || self.now_steps() >= self.quarantine[slot.index()].get()
    }

    fn launch(&self, slot: Slot, mut flight: Flight) {
        flight.request.tag = next_tag(flight.request.tag);
        flight.position = NOT_PUT;
        flight.deadline = u64::MAX;
        self.flights[slot.index()].set(flight);
        self.submit(slot);
    }

    /// Looks for the answer of an owed slot; true when the slot owes nothing any more.
    fn progress(&self, slot: Slot) -> bool {
        let cell = &self.flights[slot.index()];
        let mut flight = cell.get();
        if flight.position == NOT_PUT {
            return false;
        }
        let overdue = self.now_steps() >= flight.deadline;
        let look =
            |buffer: &mut Vec<u8>| host::look(&self.wire, self.rule, &mut flight, buffer, overdue);
        let seen = self.buffers.change(slot.index(), look);
        cell.set(flight);
        match seen {
            Seen::Nothing if overdue => {
                bump(&self.counters.timeouts_count, 1);
                self.retry(slot, flight, Status::TimedOut)
            }
            Seen::Nothing => false,
            Seen::Bad(status) => {
                bump(&self.counters.wrong_answers_count, 1);
                self.retry(slot, flight, status)
            }
            Seen::Answer(status) => {
                self.fetched.set(self.fetched.get().max(flight.position + 1));
                self.slots.complete(slot, status);
                true
            }
        }
    }

    fn retry(&self, slot: Slot, mut flight: Flight, reason: Status) -> bool {
        flight.attempt += 1;
        if flight.attempt >= self.attempts || self.slots.is_abandoned(slot) {
            self.slots.complete(slot, reason);
            return true;
        }
        bump(&self.counters.reissues_count, 1);
        self.launch(slot, flight);
        false
    }
}

fn check(options: &EmulatorOptions, capacity: u64) -> Result<()> {
    let bad = |m: String| Err(Error::new(Kind::IllegalRequest, format!("emulator: {m}")));
    let (slots, depth) = (options.slots, options.depth);
    if slots == 0 || depth < 2 || slots > depth - 1 {
        let nearest = slots.clamp(1, depth.max(2) - 1);
        return bad(format!(
            "{slots} slots on a ring of {depth} entries: an unfetched entry could be overwritten; \
             slots are 1 to depth - 1; nearest legal value {nearest}"
        ));
    }
    let granule = options.rule.granule_bytes();
    if granule == 0 || !granule.is_multiple_of(LINE) {
        return bad(format!("pages of {granule} B: wanted a multiple of {LINE}"));
    }
    let longest = u64::from(options.read_bytes_max);
    if longest == 0 || !longest.is_multiple_of(granule) {
        let nearest = longest.next_multiple_of(granule).max(granule);
        return bad(format!(
            "longest read {longest} B is no multiple of {granule}; nearest legal value {nearest}"
        ));
    }
    if options.rule == Rule::TwoSentinels && longest > 64 * LINE {
        return bad(format!(
            "two sentinels keep track of 64 lines; longest read {longest} B; nearest legal value 4096"
        ));
    }
    if capacity < longest || !capacity.is_multiple_of(granule) {
        return bad(format!(
            "a medium of {capacity} B: wanted a multiple of {granule}, at least {longest}"
        ));
    }
    if options.attempts == 0 {
        return bad("no attempts; nearest legal value 1".to_owned());
    }
    let slowest = answer_steps_max(options.latency, options.delay_max, longest / LINE);
    if !options.rule.has_identity() && options.deadline != 0 && options.deadline < slowest {
        return bad(format!(
            "deadline {} with {}: late answers cannot be told apart; nearest legal value {slowest}",
            options.deadline,
            options.rule.name()
        ));
    }
    Ok(())
}

fn start(
    wire: &Arc<Wire>,
    content: std::sync::Arc<dyn Content>,
    options: &EmulatorOptions,
) -> Side {
    let (latency, delay_max) = (options.latency, options.delay_max);
    let manners = Manners { rule: options.rule, latency, delay_max, slots: options.slots };
    let mut side = DeviceSide::new(Arc::clone(wire), content, options.plan.clone(), manners);
    match options.drive {
        Drive::Stepped => Side::Stepped(RefCell::new(Box::new(side))),
        Drive::Threaded => {
            let wire = Arc::clone(wire);
            Side::Threaded(Some(thread::spawn(move || run(&wire, &mut side))))
        }
    }
}

/// The device thread: polls until told to stop, giving way after a while without work.
fn run(wire: &Wire, side: &mut DeviceSide) {
    let mut idle = 0u32;
    while !wire.stop.load(Ordering::Acquire) {
        idle = if side.step() { 0 } else { idle + 1 };
        if idle > 64 {
            thread::yield_now();
        } else {
            spin_loop();
        }
    }
}

impl ReadDevice for Emulator {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn issue(&self, slot: Slot, addr: u64, len: u32) {
        let granule = self.limits.granule_bytes;
        let whole = len > 0 && len.is_multiple_of(granule);
        let tag = self.flights[slot.index()].get().request.tag;
        let request = Request { addr, len, slot: slot.0, tag };
        if !whole || !is_legal(&self.limits, addr, len) {
            // Its place is for messages, its tag for the next request.
            self.flights[slot.index()].set(Flight { request, ..NO_FLIGHT });
            self.buffers.change(slot.index(), Vec::clear);
            self.slots.finish_at_issue(slot, Status::Refused);
            return;
        }
        bump(&self.counters.reads_count, 1);
        self.slots.issue(slot);
        self.launch(slot, Flight { request, ..NO_FLIGHT });
    }

    fn reap(&self) {
        if let Side::Stepped(side) = &self.side {
            side.borrow_mut().step();
        }
        let waiting = std::mem::take(&mut *self.blocked.borrow_mut());
        waiting.into_iter().for_each(|slot| self.submit(slot));
        let abandoned = std::mem::take(&mut *self.abandoned.borrow_mut());
        let still = abandoned.into_iter().filter(|slot| !self.progress(*slot));
        let still: Vec<Slot> = still.collect();
        self.abandoned.borrow_mut().extend(still);
    }

    fn poll(&self, slot: Slot) -> Option<Status> {
        let done = self.slots.poll(slot);
        if done.is_none() && self.slots.is_wanted(slot) && self.progress(slot) {
            return self.slots.poll(slot);
        }
        done
    }

    fn data(&self, slot: Slot, _: Lease) -> &[u8] {
        assert!(self.slots.poll(slot).is_some(), "{slot:?} is not finished");
        self.buffers.lend(slot.index())
    }

    fn release(&self, slot: Slot) {
        if self.slots.is_wanted(slot) {
            self.abandoned.borrow_mut().push(slot);
        }
        self.slots.release(slot);
    }

    fn is_free(&self, slot: Slot) -> bool {
        self.slots.is_free(slot)
    }

    fn request(&self, slot: Slot) -> Option<(u64, u32)> {
        let Request { addr, len, .. } = self.flights[slot.index()].get().request;
        (!self.slots.is_free(slot)).then_some((addr, len))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.wire.stop.store(true, Ordering::Release);
        if let Side::Threaded(thread) = &mut self.side
            && let Some(thread) = thread.take()
        {
            // A device thread that panicked has reported it; the emulator is going away either way.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::flash::protocol::CompletionWord;

    fn emulator(plan: &str) -> Emulator {
        let content = Pattern { seed: 1, capacity_bytes: 1 << 12, format: Format::Arbitrary };
        let plan = plan.parse().expect("a plan");
        let options = EmulatorOptions { plan, ..EmulatorOptions::default() };
        Emulator::new(std::sync::Arc::new(content), options).expect("legal options")
    }

    #[test]
    fn what_the_device_writes_later_does_not_reach_data_handed_out() {
        let emulator = emulator("seed=1");
        emulator.issue(Slot(3), 128, 64);
        while emulator.poll(Slot(3)).is_none() {
            emulator.reap();
        }
        let before = emulator.copy(Slot(3));
        assert!(before.iter().any(|byte| *byte != 0));
        emulator.wire.lines.deliver(3, 0, &[0; 8]);
        emulator.wire.answers.answer(3, CompletionWord(0));
        emulator.reap();
        assert_eq!((emulator.poll(Slot(3)), emulator.copy(Slot(3))), (Some(Status::Ok), before));
    }

    #[test]
    fn a_device_that_stands_still_stops_the_clock() {
        let emulator = emulator("seed=1 read:drop=1/1");
        emulator.issue(Slot(0), 0, 64);
        let now = emulator.now_steps();
        for _ in 0..10_000 {
            assert_eq!(emulator.poll(Slot(0)), None, "no deadline passes without a step");
        }
        assert_eq!((emulator.now_steps(), emulator.counts().timeouts_count), (now, 0));
        while emulator.poll(Slot(0)).is_none() {
            emulator.reap();
        }
        assert_eq!(emulator.poll(Slot(0)), Some(Status::TimedOut));
    }
}
