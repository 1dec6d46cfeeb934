//! The run of a workload on a modelled device in virtual time: one event queue, integer
//! picoseconds.
//!
//! Host and device exchange the entries of [`crate::command`] through [`Queues`], as a local and a
//! served device do; the device admits pages by [`Sessions`], the host counts them by
//! [`crate::command::Account`]. Entries take no time of their own: what a completion takes of the
//! link is charged by its bytes.
//!
//! Firmware is ahead of users everywhere: its commands overtake waiting reads on their chip, and it
//! interrupts a running page function, whose end moves by the interruption.
//!
//! Invariants
//! - No resource works for two at once: chips and channels by [`Nand`], bus and host cores by
//!   [`Resource`], link and cores by their states here. Checked by `start_link`, `start_core`.
//! - A page is counted once, and FINAL counts the pages that the device merged. Checked by
//!   `a_page_is_accounted_once_under_every_policy`.

mod host;
mod loss;
mod writes;

use std::collections::VecDeque;

use littoral_base::fault::{Op, Plan, Verdict};
use littoral_base::sim::{Queue, Resource};
use littoral_base::units::Picos;
use littoral_device::nand::{self, Finished, Nand, Rank};

use super::{COMPLETION_BYTES, Disposition, Machine, Outcome, Stream, Workload};
use crate::command::{
    Admission, Command, Completion, Ending, Generation, Opcode, Quotas, Sessions, Status,
};
use crate::cost::PageCost;
use crate::queue::Queues;
use host::Front;
use writes::{KIND_SHIFT, Writes};

pub use writes::Writer;

use crate::policy::{Commit, Known, Policy, State, TaskView, View};

/// What changes while a run goes on.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// A tenant that writes.
    pub writer: Option<Writer>,
    /// Faults of page functions ([`Op::Task`]).
    pub faults: Plan,
    /// Consecutive fallen-back pages after which a task leaves the device; zero: never.
    pub strikes: u32,
}

/// Runs `workload` under `policy`.
///
/// # Panics
/// When the workload names a page or task that is not there.
pub fn run(machine: &Machine, workload: &Workload, policy: &Policy) -> Outcome {
    run_under(machine, workload, policy, Conditions::default())
}

/// Runs `workload` under `policy` and `conditions`.
///
/// # Panics
/// When the workload names a page or task that is not there.
pub fn run_under(
    machine: &Machine,
    workload: &Workload,
    policy: &Policy,
    conditions: Conditions,
) -> Outcome {
    let mut sim = Sim::new(machine, workload, policy, conditions);
    for stream in 0..workload.streams.len() {
        sim.begin(stream);
        sim.issue(stream);
    }
    sim.go();
    sim.finish()
}

/// What a fetched page is run for on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Function,
    Filter,
}

/// What happens; the last number is the connection's: events of a lost one are ignored.
enum Event {
    /// A page is in device DRAM.
    Arrived(u32, u32),
    LinkDone(u32),
    CoreDone(u32, u32),
    HostDone(u32),
    Reconnected,
    WriteDue,
    WriteReady(u32),
}

#[derive(Clone, Copy)]
struct Parcel {
    id: u32,
    bytes: u64,
    disposition: Disposition,
}

struct Running {
    id: u32,
    work: Work,
    since: Picos,
    falls_back: bool,
}

#[derive(Default)]
struct Core {
    running: Option<Running>,
    end: Picos,
    firmware_free: Picos,
}

struct Page {
    stream: u16,
    task: u16,
    page: u32,
    /// Its number among the pages that INIT announced, of the last request its number and attempt.
    number: u32,
    slot: u16,
    attempt: u16,
    /// The task of the device that asked for it last.
    generation: Generation,
    issued: Picos,
    /// How it left the device, once it has.
    disposition: Option<Disposition>,
    is_done: bool,
}

struct Sim<'a> {
    machine: &'a Machine,
    workload: &'a Workload,
    state: State,
    nand: Nand,
    /// Entries under way; hosts are told apart by their stream.
    queues: Queues<u16, ()>,
    sessions: Sessions,
    queue: Queue<Event>,
    now: Picos,
    pages: Vec<Page>,
    fronts: Vec<Front>,
    bus: Resource,
    host: Resource,
    link: Option<(Parcel, Picos)>,
    link_queue: VecDeque<Parcel>,
    /// Bytes of completion entries that the link has yet to move, and since when it is idle.
    link_debt: u64,
    link_idle_since: Picos,
    cores: Vec<Core>,
    core_queue: VecDeque<(u32, Work)>,
    held: Vec<VecDeque<u32>>,
    registered: u32,
    view: View,
    strikes: Vec<u32>,
    conditions: Conditions,
    writes: Option<Writes>,
    /// Connections before this one, and whether there is none now.
    connection: u32,
    is_away: bool,
    outcome: Outcome,
}

/// From the loss of a device to a new connection with the tasks initialised again.
const RECONNECT: Picos = Picos::from_micros(2_000);
/// Losses after which the host computes on everything that is left.
const LOSSES_MAX: u32 = 3;

impl<'a> Sim<'a> {
    fn new(
        machine: &'a Machine,
        workload: &'a Workload,
        policy: &Policy,
        conditions: Conditions,
    ) -> Sim<'a> {
        let tasks = workload.tasks.len();
        let mut pages = Vec::with_capacity(workload.pages());
        let mut fronts = Vec::new();
        let mut view = View { tasks: vec![TaskView::default(); tasks], ..View::default() };
        for (index, stream) in workload.streams.iter().enumerate() {
            let base = pages.len() as u32;
            pages.extend(stream.order.iter().map(|p| new_page(index as u16, p.task, p.page)));
            let window = stream.depth.min(machine.dram_pages).max(1);
            fronts.push(Front::new(base, window, stream.order.len(), tasks));
            if !stream.is_plain {
                view.depth += window;
            }
        }
        view.cores = vec![None; machine.cores as usize];
        let mut sim = Sim {
            machine,
            workload,
            state: State::new(policy, tasks, known(machine)),
            nand: Nand::new(machine.nand),
            queues: Queues::default(),
            sessions: sessions(),
            queue: Queue::new(),
            now: Picos::ZERO,
            pages,
            fronts,
            bus: Resource::new(1),
            host: Resource::new(machine.host_cores as usize),
            link: None,
            link_queue: VecDeque::new(),
            link_debt: 0,
            link_idle_since: Picos::ZERO,
            cores: (0..machine.cores).map(|_| Core::default()).collect(),
            core_queue: VecDeque::new(),
            held: vec![VecDeque::new(); tasks],
            registered: 0,
            view,
            strikes: vec![0; tasks],
            writes: conditions.writer.map(|w| Writes::new(machine, w)),
            conditions,
            connection: 0,
            is_away: false,
            outcome: Outcome::default(),
        };
        if let Some(writes) = &sim.writes {
            sim.queue.schedule(writes.writer.period, Event::WriteDue);
        }
        sim
    }

    fn stream(&self, stream: usize) -> &'a Stream {
        &self.workload.streams[stream]
    }

    fn cost(&self, id: u32) -> &'a PageCost {
        let page = &self.pages[id as usize];
        &self.workload.tasks[page.task as usize].pages[page.page as usize]
    }

    fn go(&mut self) {
        let all = self.pages.len();
        self.exchange();
        while self.outcome.pages.len() < all {
            let limit = self.queue.peek_time().unwrap_or(Picos::MAX);
            if let Some(finished) = self.nand.finished_until(limit) {
                self.now = finished.end;
                self.fetched(finished);
            } else if let Some((now, event)) = self.queue.pop() {
                self.now = now;
                self.happen(event);
            } else {
                self.push_back();
            }
            self.exchange();
            self.dispatch();
        }
    }

    /// The device takes what is in the request queue, the hosts what is in the response queue.
    fn exchange(&mut self) {
        loop {
            if let Some((_, request)) = self.queues.next_request() {
                let (command, _) = request.expect("invariant: hosts send commands");
                self.outcome.commands += 1;
                self.take(&command);
            } else if let Some((stream, entry, ())) = self.queues.next_response() {
                let completion = Completion::decode(&entry);
                let completion = completion.expect("invariant: the device sends completions");
                self.hear(stream.into(), &completion);
            } else {
                return;
            }
        }
    }

    fn take(&mut self, command: &Command) {
        let task = usize::from(command.task);
        let (status, merged) = match command.opcode {
            Opcode::ReadProc | Opcode::ReadFilt => match self.sessions.admit(self.now, command) {
                Admission::Admitted(generation) => {
                    self.pages[command.address as usize].generation = generation;
                    if command.host_page > 0 {
                        self.state.host_done(command.task, Picos(command.host_page));
                    }
                    self.state.host_free(command.task, self.now + Picos(command.backlog));
                    self.view.tasks[task].unasked -= 1;
                    self.view.tasks[task].coming += 1;
                    return self.fetch(command.address);
                }
                Admission::Answered(status) => (status, 0),
            },
            Opcode::Read => return self.fetch(command.address),
            Opcode::Init => {
                self.view.tasks[task].unasked += command.page as u32;
                (self.sessions.init(self.now, command.session, command.task, command.page), 0)
            }
            Opcode::Final => {
                let result = self.sessions.finish(self.now, command.session, command.task);
                result.expect("invariant: FINAL is sent when every page is answered")
            }
            Opcode::Write | Opcode::Abort | Opcode::Catalogue => (Status::Refused, 0),
        };
        let (id, attempt, bytes) = (command.id, command.attempt, 0);
        let completion = Completion { id, attempt, status, bytes, merged };
        self.queues.respond(command.session as u16, &completion, ());
    }

    fn fetch(&mut self, address: u64) {
        let at = self.firmware(self.machine.firmware.read);
        let chip = self.nand.place(address);
        let read = nand::Command::Read { bytes: self.machine.nand.page_bytes };
        let tag = address | u64::from(self.connection) << 32;
        self.nand.submit_tagged(at, read, chip, Rank::User, tag);
    }

    /// A page has come to its end on the device; its host is told.
    fn answer(&mut self, id: u32, ending: Ending) {
        let Page { stream, task, number, slot, attempt, generation, .. } = self.pages[id as usize];
        let (session, page) = (stream.into(), number.into());
        let is_plain = self.stream(stream.into()).is_plain;
        let command =
            Command { session, task, attempt, page, ..Command::plain(Opcode::ReadProc, id.into()) };
        let status = match is_plain {
            true => Status::Raw,
            false => self.sessions.ended(&command, generation, ending),
        };
        let completion = Completion { id: slot, attempt, status, bytes: 0, merged: 0 };
        self.queues.respond(stream, &completion, ());
    }

    /// Nothing is under way and pages wait: the oldest goes to the host.
    fn push_back(&mut self) {
        let held = self.held.iter().filter_map(|h| h.front().copied()).min();
        let id = held.expect("invariant: a run that has not ended has an event or a held page");
        let task = self.pages[id as usize].task as usize;
        self.held[task].pop_front();
        self.view.tasks[task].held -= 1;
        self.send(id, Disposition::Raw);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrived(_, c) | Event::LinkDone(c) | Event::CoreDone(_, c)
                if c != self.connection => {}
            Event::Arrived(id, _) => self.arrived(id),
            Event::LinkDone(_) => self.link_done(),
            Event::CoreDone(core, _) => self.core_done(core as usize),
            Event::Reconnected => self.reconnected(),
            Event::HostDone(id) => self.host_done(id),
            Event::WriteDue => self.write_due(),
            Event::WriteReady(write) => self.write_ready(write),
        }
    }

    fn fetched(&mut self, finished: Finished) {
        match finished.tag >> KIND_SHIFT {
            0 => {
                let service = self.bus.acquire(self.now, self.machine.bus_time());
                let connection = (finished.tag >> 32) as u32;
                self.queue.schedule(service.end, Event::Arrived(finished.tag as u32, connection));
            }
            _ => self.written(finished),
        }
    }

    fn arrived(&mut self, id: u32) {
        let page = &self.pages[id as usize];
        if self.stream(page.stream as usize).is_plain {
            return self.send(id, Disposition::Plain);
        }
        let task = page.task;
        self.view.tasks[task as usize].coming -= 1;
        let is_out =
            self.conditions.strikes > 0 && self.strikes[task as usize] >= self.conditions.strikes;
        if is_out || self.connection >= LOSSES_MAX {
            return self.send(id, Disposition::Raw);
        }
        match self.state.arrived(task, self.registered) {
            Commit::Link => self.send(id, Disposition::Raw),
            Commit::Core => self.register(id, Work::Function),
            Commit::Filter => self.register(id, Work::Filter),
            Commit::Hold => {
                self.held[task as usize].push_back(id);
                self.view.tasks[task as usize].held += 1;
            }
        }
    }

    fn send(&mut self, id: u32, disposition: Disposition) {
        let bytes = match disposition {
            Disposition::Filtered => u64::from(self.cost(id).filtered_bytes),
            _ => u64::from(self.machine.nand.page_bytes),
        };
        self.link_queue.push_back(Parcel { id, bytes, disposition });
    }

    fn register(&mut self, id: u32, work: Work) {
        self.registered += 1;
        self.core_queue.push_back((id, work));
    }

    fn dispatch(&mut self) {
        loop {
            let mut is_done = true;
            self.view.now = self.now;
            for core in 0..self.cores.len() {
                if self.cores[core].running.is_none()
                    && let Some((id, work)) = self.next_for_core()
                {
                    self.start_core(core, id, work);
                    is_done = false;
                }
            }
            if self.link.is_none()
                && let Some(parcel) = self.next_for_link()
            {
                self.start_link(parcel);
                is_done = false;
            }
            if is_done {
                return;
            }
        }
    }

    fn next_for_core(&mut self) -> Option<(u32, Work)> {
        if let Some(next) = self.core_queue.pop_front() {
            return Some(next);
        }
        if !self.state.holds() {
            return None;
        }
        let task = self.state.for_core(&self.view)? as usize;
        let id = self.held[task].pop_front()?;
        self.view.tasks[task].held -= 1;
        self.registered += 1;
        Some((id, Work::Function))
    }

    fn next_for_link(&mut self) -> Option<Parcel> {
        if let Some(next) = self.link_queue.pop_front() {
            return Some(next);
        }
        if !self.state.holds() {
            return None;
        }
        let task = self.state.for_link(&self.view)? as usize;
        let id = self.held[task].pop_front()?;
        self.view.tasks[task].held -= 1;
        let bytes = u64::from(self.machine.nand.page_bytes);
        Some(Parcel { id, bytes, disposition: Disposition::Raw })
    }

    fn start_link(&mut self, parcel: Parcel) {
        assert!(self.link.is_none(), "the link moves one page at a time");
        self.owe(0);
        let bytes = parcel.bytes + COMPLETION_BYTES + std::mem::take(&mut self.link_debt);
        let time = self.machine.link_time(bytes);
        self.outcome.link_bytes += bytes;
        self.outcome.link_busy += time;
        self.link = Some((parcel, self.now));
        self.view.is_link_busy = true;
        self.view.link_free_at = self.now + time;
        self.queue.schedule(self.now + time, Event::LinkDone(self.connection));
    }

    /// Adds bytes that go between pages; an idle link has moved what it owed meanwhile.
    fn owe(&mut self, bytes: u64) {
        if self.link.is_none() {
            let idle = self.now - self.link_idle_since;
            let rate = u128::from(self.machine.link_bytes_per_s);
            let moved = u128::from(idle.0) * rate / 1_000_000_000_000;
            let moved = self.link_debt.min(u64::try_from(moved).unwrap_or(u64::MAX));
            self.link_debt -= moved;
            self.outcome.link_bytes += moved;
            self.link_idle_since = self.now;
        }
        self.link_debt += bytes;
    }

    fn link_done(&mut self) {
        let (parcel, since) = self.link.take().expect("invariant: a transfer was under way");
        self.view.is_link_busy = false;
        self.link_idle_since = self.now;
        let Parcel { id, disposition, .. } = parcel;
        self.pages[id as usize].disposition = Some(disposition);
        let status = match disposition {
            Disposition::Filtered => Status::Filtered,
            Disposition::Raw => {
                let task = Some(self.pages[id as usize].task);
                self.state.link_done(task, self.now - since, self.now);
                Status::Raw
            }
            Disposition::Returned | Disposition::Plain | Disposition::Processed => Status::Raw,
        };
        self.answer(id, Ending::Shipped(status));
    }

    fn start_core(&mut self, core: usize, id: u32, work: Work) {
        assert!(self.cores[core].running.is_none(), "a core runs one page function at a time");
        let cost = self.cost(id);
        let wanted = match work {
            Work::Function => cost.instructions,
            Work::Filter => cost.filter_instructions,
        };
        let budget = self.machine.budget;
        let verdict = self.conditions.faults.judge(Op::Task);
        if verdict == Verdict::Cut {
            return self.lose_device();
        }
        let (spent, falls_back) = crate::fault::run_of(verdict, wanted, budget);
        let begin = self.now.max(self.cores[core].firmware_free);
        let time = self.machine.core_time(spent);
        self.outcome.core_busy += time;
        let task = self.pages[id as usize].task;
        self.view.cores[core] = Some((Some(task), self.now));
        let c = &mut self.cores[core];
        c.end = begin + time;
        c.running = Some(Running { id, work, since: self.now, falls_back });
        self.queue.schedule(c.end, Event::CoreDone(core as u32, self.connection));
    }

    fn core_done(&mut self, core: usize) {
        let c = &mut self.cores[core];
        if self.now < c.end {
            // Firmware came between.
            let again = Event::CoreDone(core as u32, self.connection);
            return self.queue.schedule(c.end, again);
        }
        let Running { id, work, since, falls_back } =
            c.running.take().expect("invariant: a page function was running");
        self.view.cores[core] = None;
        self.registered -= 1;
        let task = self.pages[id as usize].task;
        self.state.core_done(task, self.now - since, falls_back);
        if falls_back {
            self.strikes[task as usize] += 1;
            return self.send(id, Disposition::Returned);
        }
        self.strikes[task as usize] = 0;
        match work {
            Work::Filter => self.send(id, Disposition::Filtered),
            Work::Function => {
                self.owe(COMPLETION_BYTES);
                self.answer(id, Ending::Computed);
            }
        }
    }

    /// Charges firmware to the core that can begin it first; its end.
    fn firmware(&mut self, instructions: u64) -> Picos {
        if instructions == 0 {
            return self.now;
        }
        let time = self.machine.core_time(instructions);
        self.outcome.firmware_busy += time;
        let first = |c: &&mut Core| (c.firmware_free, c.running.is_some());
        let core = self.cores.iter_mut().min_by_key(first).expect("invariant: there is a core");
        let begin = self.now.max(core.firmware_free);
        core.firmware_free = begin + time;
        if core.running.is_some() {
            core.end += time;
        }
        core.firmware_free
    }

    fn finish(mut self) -> Outcome {
        self.gather();
        self.owe(0);
        let mut has_result = vec![false; self.workload.tasks.len()];
        for page in &self.outcome.pages {
            has_result[page.page.task as usize] |= page.disposition == Disposition::Processed;
        }
        let results = self.workload.tasks.iter().zip(&has_result).filter(|(_, has)| **has);
        let bytes: u64 = results.map(|(t, _)| u64::from(t.result_bytes) + COMPLETION_BYTES).sum();
        let bytes = bytes + self.link_debt;
        let time = self.machine.link_time(bytes);
        self.outcome.link_bytes += bytes;
        self.outcome.link_busy += time;
        self.outcome.total = self.now + time;
        if let Some(writes) = self.writes {
            writes.ftl.check();
            self.outcome.writes = writes.done;
            self.outcome.erases = writes.erases;
            self.outcome.moved = writes.moved;
        }
        self.outcome
    }
}

fn new_page(stream: u16, task: u16, page: u32) -> Page {
    Page {
        stream,
        task,
        page,
        number: 0,
        slot: 0,
        attempt: 0,
        generation: 0,
        issued: Picos::ZERO,
        disposition: None,
        is_done: false,
    }
}

/// A device that remembers any number of sessions for ever.
fn sessions() -> Sessions {
    let (sessions, tasks) = (usize::MAX, usize::MAX);
    Sessions::new(Quotas { sessions, tasks, pages: u64::MAX, lease: Picos::MAX })
}

/// What late binding knows of a device before it has seen a page.
pub fn known(machine: &Machine) -> Known {
    Known {
        link: machine.link_time(u64::from(machine.nand.page_bytes) + COMPLETION_BYTES),
        bus: machine.bus_time(),
        fetch: machine.fetch_time(),
        cores: machine.cores,
        host_cores: machine.host_cores,
    }
}
