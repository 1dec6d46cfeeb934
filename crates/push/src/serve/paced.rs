//! The served device without its sockets and its clock: what happens to requests at which modelled
//! time. A server calls it with the wall clock's times, a test with times of its own.
//!
//! Requests come from a request queue, answers go to a response queue, both as entries. Events
//! happen at modelled times. What follows from an event begins at the event's time, so that a late
//! call does not slow the model down.
//!
//! Invariants
//! - A host with [`UNANSWERED_MAX`] unanswered requests is not read. Checked by
//!   `a_host_with_many_requests_is_not_read_meanwhile`.
//! - The link moves one parcel at a time and a core computes one page at a time. Checked by
//!   `start_link`, `start_core`.
//! - A host that waits for its pages keeps its session, however long they take. Checked by
//!   `a_lease_lasts_while_pages_end`, `a_lease_lasts_while_one_page_takes_longer`.
//! - A time in which the device heard no host counts for no lease. Checked by
//!   `a_device_that_stands_still_ends_no_session`.
//! - A session that misbehaves does not change the answers of the others, nor their times by more
//!   than 2 %. Checked by `others_are_served_beside_sessions_that_misbehave`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use littoral_base::mutant;
use littoral_base::units::Picos;

use super::finals::{Finals, Key};
use super::workers::{Job, Workers};
use crate::api::{Admitted, Begun, Engine, Payload, Ran, Reply, reply};
use crate::command::{
    COMMAND_BYTES, COMPLETION_BYTES, Command, Completion, Generation, Opcode, Status,
};
use crate::device::{Machine, budget_on};
use crate::policy::{Commit, Policy, State, TaskView, View};
use crate::queue::Queues;

/// Runs in a row without a result after which a session's function leaves the cores.
const STRIKES_MAX: u32 = 3;
/// Link times of a page that the first run of a file's function may take; each further run after a
/// failure may take [`LIMIT_GROWTH`] times as much, up to the budget.
const FIRST_LIMIT: u64 = 16;
const LIMIT_GROWTH: u64 = 4;
/// Time before the next run of a function that failed, over the time that the run may take: failing
/// runs take less than one per cent of one core.
const RETRY_SPAN: u64 = 128;
/// Requests of a host without an answer beyond which no more of them are read.
pub(super) const UNANSWERED_MAX: usize = 1024;
/// The engine's number for a session that it does not know.
const NO_SESSION: u32 = 0;
/// Functions whose strikes are remembered.
const STRUCK_MAX: usize = 4096;

/// A page that was admitted and waits.
#[derive(Debug)]
struct Waiting<H> {
    host: H,
    page: Admitted,
    /// Its computation, where it has begun ahead of the modelled core.
    job: Option<Job>,
}

/// What the link moves.
struct Parcel<H> {
    host: H,
    completion: Completion,
    data: Payload,
    /// A raw page that is counted when it has arrived.
    raw: Option<(Admitted, Ran)>,
    since: Picos,
}

impl<H> Parcel<H> {
    fn bytes(&self) -> u64 {
        (COMPLETION_BYTES + self.data.bytes().len()) as u64
    }
}

/// A page on a core; its end is known once it has been computed.
struct Running<H> {
    waiting: Waiting<H>,
    ran: Option<Ran>,
    since: Picos,
}

struct Core<H> {
    running: Option<Running<H>>,
    end: Picos,
}

/// A task as the policy sees it.
struct Tracked<H> {
    key: (u32, u16),
    generation: Generation,
    held: VecDeque<Waiting<H>>,
    unasked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    LinkDone,
    CoreDone(usize),
}

/// A session and one of its functions.
type Function = (u32, (u32, u32));

/// Failed runs of a function.
#[derive(Clone, Copy, Debug)]
struct Strikes {
    count: u32,
    /// Instructions that the next run may spend, and when it may begin.
    limit: u64,
    retry_at: Picos,
}

/// A device in paced or virtual time; `H` tells hosts apart.
pub struct Paced<H> {
    engine: Engine,
    machine: Machine,
    /// Bytes of the data set's pages.
    page_bytes: u32,
    /// The same when the device began, and what a function could spend on such a page.
    first: (u32, u64),
    policy: Policy,
    state: State,
    workers: Option<Workers>,
    queues: Queues<H, Payload>,
    /// Requests of each host that are not answered yet.
    unanswered: BTreeMap<H, usize>,
    /// The engine's numbers of sessions: hosts choose theirs without knowing of each other.
    sessions: BTreeMap<(H, u32), u32>,
    last_session: u32,
    /// The host that writes a new data set.
    writer: Option<H>,
    tasks: Vec<Tracked<H>>,
    cores: Vec<Core<H>>,
    /// Pages that an early policy has given to the cores.
    committed: VecDeque<(Waiting<H>, Commit)>,
    link: Option<Parcel<H>>,
    link_end: Picos,
    small: VecDeque<Parcel<H>>,
    large: VecDeque<Parcel<H>>,
    /// Bytes that wait for the link.
    queued: u64,
    finals: Finals<H>,
    events: BinaryHeap<Reverse<(Picos, Event)>>,
    strikes: BTreeMap<Function, Strikes>,
    now: Picos,
    /// Part of the time that leases do not count.
    stalled: Picos,
}

impl<H: Copy + Ord> Paced<H> {
    /// A device whose pages are computed when a modelled core begins them.
    pub fn new(engine: Engine, machine: Machine, policy: Policy) -> Paced<H> {
        let cores = (0..machine.cores).map(|_| Core { running: None, end: Picos(0) }).collect();
        let page_bytes = engine.set().about().page_bytes as u32;
        Paced {
            state: State::new(&policy, 0, machine.known_in_memory()),
            page_bytes,
            first: (page_bytes, engine.budget()),
            engine,
            machine,
            policy,
            workers: None,
            queues: Queues::default(),
            unanswered: BTreeMap::new(),
            sessions: BTreeMap::new(),
            last_session: NO_SESSION,
            writer: None,
            tasks: Vec::new(),
            cores,
            committed: VecDeque::new(),
            link: None,
            link_end: Picos(0),
            small: VecDeque::new(),
            large: VecDeque::new(),
            queued: 0,
            finals: Finals::new(),
            events: BinaryHeap::new(),
            strikes: BTreeMap::new(),
            now: Picos(0),
            stalled: Picos(0),
        }
    }

    /// The same device with threads that compute pages.
    pub(super) fn with_workers(mut self, workers: Workers) -> Paced<H> {
        self.workers = Some(workers);
        self
    }

    /// Its state.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Functions whose failures are remembered.
    pub fn struck(&self) -> usize {
        self.strikes.len()
    }

    /// Modelled time.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Leases do not count `time`, in which no host was heard: part of what passes until the next
    /// call of [`Paced::advance`].
    pub fn stall(&mut self, time: Picos) {
        if !mutant!("push_leases_count_stalls") {
            self.stalled = Picos(self.stalled.0.saturating_add(time.0));
        }
    }

    /// The time by which leases run at a modelled time.
    pub fn lease_time(&self, at: Picos) -> Picos {
        at.saturating_sub(self.stalled)
    }

    /// A host adds an entry to the request queue.
    pub fn request(&mut self, host: H, entry: [u8; COMMAND_BYTES], data: Vec<u8>) {
        *self.unanswered.entry(host).or_default() += 1;
        self.queues.request(host, entry, data);
    }

    /// Requests of a host that are not answered yet.
    pub fn unanswered(&self, host: H) -> usize {
        self.unanswered.get(&host).copied().unwrap_or(0)
    }

    /// Whether a host may ask for more now.
    pub fn has_room(&self, host: H) -> bool {
        self.unanswered(host) < UNANSWERED_MAX || mutant!("push_reads_without_limit")
    }

    /// The oldest answer and the host that it is for.
    pub fn response(&mut self) -> Option<(H, [u8; COMPLETION_BYTES], Payload)> {
        let response = self.queues.next_response();
        if let Some(count) = response.as_ref().and_then(|r| self.unanswered.get_mut(&r.0)) {
            *count = count.saturating_sub(1);
        }
        response
    }

    /// When the next event is due; none while the device is idle or computes.
    pub fn next(&self) -> Option<Picos> {
        self.events.peek().map(|Reverse((at, _))| *at)
    }

    /// Acts out what is due by `to`, then takes the request queue's entries at that time; the hosts
    /// that sent what is no command.
    pub fn advance(&mut self, to: Picos) -> Vec<H> {
        if let Some(workers) = &mut self.workers {
            workers.exchange();
        }
        self.act(to);
        let mut wrong = Vec::new();
        while let Some((host, request)) = self.queues.next_request() {
            match request {
                Ok((command, data)) => self.take(host, command, &data),
                Err(_) => wrong.push(host),
            }
        }
        self.schedule();
        self.act(to);
        wrong
    }

    fn act(&mut self, to: Picos) {
        self.collect();
        while self.next().is_some_and(|at| at <= to) {
            let Some(Reverse((at, event))) = self.events.pop() else { break };
            self.now = at;
            match event {
                Event::LinkDone => self.link_done(),
                Event::CoreDone(core) => self.core_done(core),
            }
            self.schedule();
            self.collect();
        }
        self.now = self.now.max(to);
    }

    /// Jobs that modelled cores wait for.
    fn awaited(&self) -> Vec<Job> {
        let running = self.cores.iter().filter_map(|c| c.running.as_ref());
        running.filter(|r| r.ran.is_none()).filter_map(|r| r.waiting.job).collect()
    }

    /// Computes a page on the calling thread if a modelled core waits for one. False when none
    /// waits, or when the threads compute all that is left: then one of them rings the bell.
    pub(super) fn help(&mut self) -> bool {
        let awaited = self.awaited();
        match &mut self.workers {
            Some(workers) if !awaited.is_empty() => workers.help(&awaited),
            Some(workers) => {
                workers.exchange();
                false
            }
            None => false,
        }
    }

    /// Takes results that modelled cores wait for.
    fn collect(&mut self) {
        let Some(workers) = &mut self.workers else { return };
        for (n, core) in self.cores.iter_mut().enumerate() {
            let Some(running) = core.running.as_mut().filter(|r| r.ran.is_none()) else { continue };
            let Some(ran) = running.waiting.job.and_then(|job| workers.take(job)) else { continue };
            core.end = Picos(running.since.0 + self.machine.core_time(ran.instructions).0);
            running.ran = Some(ran);
            self.events.push(Reverse((core.end, Event::CoreDone(n))));
        }
    }

    /// The engine's number of a host's session; INIT begins one.
    fn session_of(&mut self, host: H, command: &Command) -> u32 {
        let key = (host, command.session);
        if let Some(number) = self.sessions.get(&key) {
            return *number;
        }
        if command.opcode != Opcode::Init {
            return NO_SESSION;
        }
        loop {
            self.last_session = self.last_session.wrapping_add(1);
            let number = self.last_session;
            if number != NO_SESSION && !self.sessions.values().any(|n| *n == number) {
                self.sessions.insert(key, number);
                return number;
            }
        }
    }

    fn take(&mut self, host: H, command: Command, data: &[u8]) {
        let command = Command { session: self.session_of(host, &command), ..command };
        let is_page = matches!(command.opcode, Opcode::ReadProc | Opcode::ReadFilt);
        let is_others =
            self.writer.is_some_and(|writer| writer != host) && !mutant!("push_drafts_are_shared");
        if command.opcode == Opcode::Write && is_others {
            let words = "another host stores a data set: store again when it is done";
            let (completion, data) = reply(&command, Status::Refused, words.into());
            return self.send(host, completion, data);
        }
        if command.opcode == Opcode::Final && self.finals.has_that_of(&command) {
            let words = "the end of this task is asked for already";
            let (completion, data) = reply(&command, Status::Refused, words.into());
            return self.send(host, completion, data);
        }
        if !is_page {
            match self.engine.control(self.lease_time(self.now), &command, data) {
                Some(answer) => self.answer_control(host, &command, answer),
                None => self.finals.add(host, command),
            }
            return;
        }
        match self.engine.admit(self.lease_time(self.now), &command) {
            Ok(page) => self.take_page(host, page),
            Err((completion, data)) => self.send(host, completion, data),
        }
    }

    /// Decides on a page that was admitted.
    fn take_page(&mut self, host: H, page: Admitted) {
        let command = page.command;
        let task = self.place(&page).expect("invariant: a task that admits pages is tracked");
        let tracked = &mut self.tasks[usize::from(task)];
        tracked.unasked = tracked.unasked.saturating_sub(1);
        if command.host_page > 0 {
            self.state.host_done(task, Picos(command.host_page));
        }
        self.state.host_free(task, Picos(self.now.0.saturating_add(command.backlog)));
        let mut waiting = Waiting { host, page, job: None };
        if self.is_struck(&command) {
            return self.ship(waiting);
        }
        self.try_again(&command);
        let registered = self.committed.len() + self.busy();
        match self.state.arrived(task, registered as u32) {
            Commit::Hold => {
                waiting.job = self.begin_early(&page, Commit::Core);
                self.tasks[usize::from(task)].held.push_back(waiting);
            }
            Commit::Link => self.ship(waiting),
            commit @ (Commit::Core | Commit::Filter) => {
                waiting.job = self.begin_early(&page, commit);
                self.committed.push_back((waiting, commit));
            }
        }
    }

    /// Gives a page whose time is bounded to the threads ahead of its modelled core.
    fn begin_early(&mut self, page: &Admitted, commit: Commit) -> Option<Job> {
        let workers = self.workers.as_mut()?;
        match self.engine.begin(page, commit, u64::MAX) {
            Ok(Begun::Work(work)) if work.is_bounded() => Some(workers.post(*work)),
            // The modelled core finds out again.
            Ok(Begun::Work(_) | Begun::Ended(_)) | Err(_) => None,
        }
    }

    fn function_of(&self, command: &Command) -> Option<Function> {
        let function = self.engine.function_of((command.session, command.task))?;
        Some((command.session, function))
    }

    fn strikes_of(&self, command: &Command) -> Option<&Strikes> {
        self.strikes.get(&self.function_of(command)?)
    }

    /// Whether the cores do not run a page's function, for now or any more.
    fn is_struck(&self, command: &Command) -> bool {
        let is_out = |s: &Strikes| s.count >= STRIKES_MAX || self.now < s.retry_at;
        self.strikes_of(command).is_some_and(is_out) && !mutant!("push_serve_without_strikes")
    }

    /// A function that failed runs on one page; others of its pages go to the host meanwhile.
    fn try_again(&mut self, command: &Command) {
        let wait = self.machine.core_time(self.limit_of(command)).0.saturating_mul(RETRY_SPAN);
        let retry_at = Picos(self.now.0.saturating_add(wait));
        let key = self.function_of(command);
        if let Some(strikes) = key.and_then(|key| self.strikes.get_mut(&key)) {
            strikes.retry_at = retry_at;
        }
    }

    /// Instructions that the next run of a page's function may spend.
    fn limit_of(&self, command: &Command) -> u64 {
        if mutant!("push_serve_without_strikes") {
            return u64::MAX;
        }
        self.strikes_of(command).map_or_else(|| self.first_limit(), |s| s.limit)
    }

    fn first_limit(&self) -> u64 {
        let link = self.machine.link_time(u64::from(self.machine.nand.page_bytes));
        let instructions = self.machine.core_time(1_000_000).0.max(1);
        link.0.saturating_mul(FIRST_LIMIT * 1_000_000) / instructions
    }

    /// Notes whether a run on a core gave a result.
    fn judge(&mut self, command: &Command, ran: &Ran) {
        let Some(key) = self.function_of(command) else { return };
        if ran.instructions == 0 {
            // The page could not be read or did not verify: no fault of the function.
            return;
        }
        if !ran.fell_back() {
            self.strikes.remove(&key);
            return;
        }
        if self.strikes.len() >= STRUCK_MAX && !self.strikes.contains_key(&key) {
            return;
        }
        let limit = self.limit_of(command).saturating_mul(LIMIT_GROWTH);
        let limit = limit.min(self.engine.budget());
        let wait = self.machine.core_time(limit).0.saturating_mul(RETRY_SPAN);
        let retry_at = Picos(self.now.0.saturating_add(wait));
        let count = self.strikes.get(&key).map_or(0, |s| s.count) + 1;
        self.strikes.insert(key, Strikes { count, limit, retry_at });
        let task = self.tasks.iter_mut().find(|t| t.key == (command.session, command.task));
        let held = task.map(|t| std::mem::take(&mut t.held)).unwrap_or_default();
        let (ship, keep): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|w| self.is_struck(&w.page.command));
        ship.into_iter().for_each(|w| self.ship(w));
        if let Some(task) = self.tasks.iter_mut().find(|t| t.key == (command.session, command.task))
        {
            task.held = keep.into();
        }
    }

    fn busy(&self) -> usize {
        self.cores.iter().filter(|c| c.running.is_some()).count()
    }

    fn answer_control(&mut self, host: H, command: &Command, answer: Reply) {
        let is_done = answer.0.status == Status::Processed;
        let key = (command.session, command.task);
        match command.opcode {
            Opcode::Init if is_done => {
                self.track(key, command.page);
            }
            Opcode::Init | Opcode::Final | Opcode::Abort => self.retire(),
            Opcode::Write => {
                self.writer = self.engine.set().has_draft().then_some(host);
                if self.writer.is_none() {
                    self.fit_pages();
                    self.retire();
                }
            }
            Opcode::Catalogue | Opcode::Read | Opcode::ReadProc | Opcode::ReadFilt => {}
        }
        self.send(host, answer.0, answer.1);
    }

    /// Pages of a data set that replaces one of other pages take their own time on the link, and a
    /// function may spend on them what it may on as many bytes of the first one's.
    fn fit_pages(&mut self) {
        let page_bytes = self.engine.set().about().page_bytes as u32;
        if page_bytes == self.page_bytes {
            return;
        }
        debug_assert!(page_bytes.is_power_of_two(), "a header of pages of {page_bytes} bytes");
        (self.page_bytes, self.machine.nand.page_bytes) = (page_bytes, page_bytes);
        let (first, budget) = self.first;
        self.engine.set_budget(budget_on(budget, first, page_bytes));
    }

    /// The policy sees a task that INIT has begun.
    fn track(&mut self, key: (u32, u16), unasked: u64) {
        self.retire();
        let generation = self.engine.generation(key);
        let generation = generation.expect("invariant: INIT has just begun it");
        self.tasks.push(Tracked { key, generation, held: VecDeque::new(), unasked });
        self.renew();
    }

    /// Tasks that the engine has ended leave the policy, and their waiting pages are answered;
    /// nothing stays of sessions that it has forgotten.
    fn retire(&mut self) {
        let before = self.tasks.len();
        let all = std::mem::take(&mut self.tasks);
        let is_known = |t: &Tracked<H>| self.engine.generation(t.key) == Some(t.generation);
        let (known, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(is_known);
        self.tasks = known;
        self.sessions.retain(|_, number| self.engine.has_session(*number));
        self.strikes.retain(|(session, _), _| self.engine.has_session(*session));
        let keys: Vec<Key> = ended.iter().map(|task| task.key).collect();
        for waiting in ended.into_iter().flat_map(|t| t.held) {
            self.forget(waiting.job);
            let (completion, data) = self.engine.end(&waiting.page, Ran::dropped());
            self.send(waiting.host, completion, data);
        }
        if self.tasks.len() != before {
            self.renew();
        }
        // A task that was ended otherwise has no page whose end would answer its FINAL.
        keys.into_iter().for_each(|key| self.retry_final(key));
    }

    /// Another set of tasks: the policy observes anew.
    fn renew(&mut self) {
        let hosts: Vec<u32> = self.tasks.iter().map(|t| t.key.0).collect();
        let state = State::new(&self.policy, hosts.len(), self.machine.known_in_memory());
        self.state = state.of_hosts(&hosts);
    }

    fn send(&mut self, host: H, completion: Completion, data: Payload) {
        let parcel = Parcel { host, completion, data, raw: None, since: self.now };
        self.queued += parcel.bytes();
        let is_small = parcel.data.bytes().is_empty();
        let queue = if is_small { &mut self.small } else { &mut self.large };
        queue.push_back(parcel);
    }

    /// Sends a page as it is; it is counted when it has arrived.
    fn ship(&mut self, waiting: Waiting<H>) {
        let Waiting { host, page, job } = waiting;
        self.forget(job);
        let Ok(ran) = self.engine.run(&page, Commit::Link) else { return };
        let command = page.command;
        let data = ran.payload.clone();
        let (id, attempt, bytes) = (command.id, command.attempt, data.bytes().len() as u32);
        let completion = Completion { id, attempt, status: Status::Raw, bytes, merged: 0 };
        let (raw, since) = (Some((page, ran)), self.now);
        let parcel = Parcel { host, completion, data, raw, since };
        self.queued += parcel.bytes();
        self.large.push_back(parcel);
    }

    fn forget(&mut self, job: Option<Job>) {
        if let Some((workers, job)) = self.workers.as_mut().zip(job) {
            workers.forget(job);
        }
    }

    /// Gives free cores and a free link what the policy has for them.
    fn schedule(&mut self) {
        for core in 0..self.cores.len() {
            while self.cores[core].running.is_none() && self.next_for_core(core) {}
        }
        // One page of a scan at a time stands among the plain reads of others.
        let is_turn = self.link.is_none() && !self.large.iter().any(|p| p.raw.is_some());
        if is_turn
            && self.state.holds()
            && let Some(task) = self.state.for_link(&self.view())
            && let Some(waiting) = self.tasks[usize::from(task)].held.pop_front()
        {
            self.ship(waiting);
        }
        if self.link.is_none() {
            let next = self.small.pop_front().or_else(|| self.large.pop_front());
            if let Some(parcel) = next {
                self.queued -= parcel.bytes();
                self.start_link(parcel);
            }
        }
        // A policy that leaves pages waiting beside an idle device would wait for ever.
        if self.link.is_none() && self.busy() == 0 {
            let held = self.tasks.iter_mut().find_map(|t| t.held.pop_front());
            if let Some(waiting) = held {
                self.ship(waiting);
                self.schedule();
            }
        }
    }

    /// Whether a page was found for a core.
    fn next_for_core(&mut self, core: usize) -> bool {
        if let Some((waiting, commit)) = self.committed.pop_front() {
            self.start_core(core, waiting, commit);
            return true;
        }
        if !self.state.holds() || self.tasks.iter().all(|t| t.held.is_empty()) {
            return false;
        }
        let view = self.view();
        let Some(task) = self.state.for_core(&view) else { return false };
        let waiting = self.tasks[usize::from(task)].held.pop_front();
        waiting.is_some_and(|waiting| {
            self.start_core(core, waiting, Commit::Core);
            true
        })
    }

    fn view(&self) -> View {
        // A host that has nothing under way may never ask for what it announced.
        let coming = |t: &Tracked<H>| if self.engine.is_at_work(t.key) { t.unasked } else { 0 };
        let task = |t: &Tracked<H>| TaskView {
            held: t.held.len() as u32,
            coming: 0,
            unasked: u32::try_from(coming(t)).unwrap_or(u32::MAX),
        };
        let held: usize = self.tasks.iter().map(|t| t.held.len()).sum();
        let queued = self.machine.link_time(self.queued);
        // Tasks come and go while a core runs: its task's place is looked up each time.
        let running = |c: &Core<H>| c.running.as_ref().map(|r| (self.place_on_core(r), r.since));
        View {
            now: self.now,
            tasks: self.tasks.iter().map(task).collect(),
            cores: self.cores.iter().map(running).collect(),
            is_link_busy: self.link.is_some(),
            // Plain reads may keep the link busy for ever: a page that waits for it must not.
            link_free_at: Picos(self.now.max(self.link_end).0.saturating_add(queued.0)),
            depth: (held + self.busy() + self.large.len()).max(8) as u32,
        }
    }

    /// The place of a page's task among those that the policy sees; none if it has ended.
    fn place(&self, page: &Admitted) -> Option<u16> {
        let place = self.tasks.iter().position(|t| t.generation == page.generation());
        place.map(|place| place as u16)
    }

    fn place_on_core(&self, running: &Running<H>) -> Option<u16> {
        let behind_all =
            mutant!("push_core_keeps_an_ended_task").then_some(self.tasks.len() as u16);
        self.place(&running.waiting.page).or(behind_all)
    }

    fn start_core(&mut self, core: usize, waiting: Waiting<H>, commit: Commit) {
        assert!(self.cores[core].running.is_none(), "a core computes one page at a time");
        let since = self.now.max(self.cores[core].end);
        let mut running = Running { waiting, ran: None, since };
        if running.waiting.job.is_none() {
            // Only a fault plan cuts power, and a server has none.
            let limit = self.limit_of(&running.waiting.page.command);
            let begun = self.engine.begin(&running.waiting.page, commit, limit);
            match (begun, &mut self.workers) {
                (Ok(Begun::Ended(ran)), _) => running.ran = Some(ran),
                (Ok(Begun::Work(work)), Some(workers)) => {
                    running.waiting.job = Some(workers.post(*work));
                }
                (Ok(Begun::Work(work)), None) => running.ran = Some(work.compute()),
                (Err(_), _) => return,
            }
        }
        if let Some(ran) = &running.ran {
            let end = Picos(since.0 + self.machine.core_time(ran.instructions).0);
            self.cores[core].end = end;
            self.events.push(Reverse((end, Event::CoreDone(core))));
        }
        self.cores[core].running = Some(running);
        self.collect();
    }

    fn start_link(&mut self, parcel: Parcel<H>) {
        assert!(self.link.is_none(), "the link moves one parcel at a time");
        let bytes = parcel.bytes();
        let begin = self.now.max(self.link_end);
        let end = Picos(begin.0 + self.machine.link_time(bytes).0);
        (self.link, self.link_end) = (Some(parcel), end);
        self.events.push(Reverse((end, Event::LinkDone)));
    }

    fn core_done(&mut self, core: usize) {
        let Some(running) = self.cores[core].running.take() else { return };
        let Running { waiting, ran, since } = running;
        let ran = ran.expect("invariant: an end is scheduled when the result is there");
        if let Some(task) = self.place(&waiting.page) {
            let time = Picos(self.cores[core].end.0 - since.0);
            self.state.core_done(task, time, ran.fell_back());
        }
        self.judge(&waiting.page.command, &ran);
        let (completion, data) = self.engine.end(&waiting.page, ran);
        self.engine.renew(self.lease_time(self.now), waiting.page.command.session);
        self.send(waiting.host, completion, data);
        self.retry_final(waiting.page.key());
    }

    fn link_done(&mut self) {
        let Some(mut parcel) = self.link.take() else { return };
        if let Some((page, ran)) = parcel.raw.take() {
            let task = self.place(&page);
            // The answer to an older attempt carries no page.
            let (completion, _) = self.engine.end(&page, ran);
            self.engine.renew(self.lease_time(self.now), page.command.session);
            if completion.status != Status::Raw {
                (parcel.completion, parcel.data) = (completion, Payload::none());
            }
            // The wait behind others' parcels is part of what the link takes.
            let time = Picos(self.now.0.saturating_sub(parcel.since.0));
            self.state.link_done(task, time, self.now);
            self.retry_final(page.key());
        }
        self.queues.respond(parcel.host, &parcel.completion, parcel.data);
    }

    /// Answers the FINAL of a task, if one waits and no page of it is under way any more.
    fn retry_final(&mut self, key: Key) {
        let Some((host, command)) = self.finals.take(key) else { return };
        match self.engine.control(self.lease_time(self.now), &command, &[]) {
            Some(answer) => self.answer_control(host, &command, answer),
            None => self.finals.add(host, command),
        }
    }

    /// Forgets a host that is gone, with its sessions, which no other host can reach, and the data
    /// set that it was writing; its waiting pages are answered to no host.
    pub fn drop_host(&mut self, host: H) {
        if self.writer == Some(host) {
            self.writer = None;
            self.engine.abandon_draft();
        }
        self.unanswered.remove(&host);
        self.finals.drop_host(host);
        let mut gone: Vec<Waiting<H>> = Vec::new();
        for task in &mut self.tasks {
            let all = std::mem::take(&mut task.held);
            let (of_host, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|w| w.host == host);
            task.held = others.into();
            gone.extend(of_host);
        }
        let all = std::mem::take(&mut self.committed);
        let (of_host, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|w| w.0.host == host);
        self.committed = others.into();
        gone.extend(of_host.into_iter().map(|w| w.0));
        for waiting in gone {
            self.forget(waiting.job);
            self.engine.end(&waiting.page, Ran::dropped());
        }
        self.unload(host);
        for (_, number) in self.sessions.iter().filter(|((of, _), _)| *of == host) {
            self.engine.forget(*number);
        }
        self.retire();
    }

    /// Takes what waits to be sent to a host off the link's queues: others do not wait for it.
    fn unload(&mut self, host: H) {
        if mutant!("push_link_serves_the_gone") {
            return;
        }
        let all = std::mem::take(&mut self.small).into_iter();
        let (own, others): (Vec<_>, Vec<_>) = all.partition(|p| p.host == host);
        self.small = others.into();
        let all = std::mem::take(&mut self.large).into_iter();
        let (pages, others): (Vec<_>, Vec<_>) = all.partition(|p| p.host == host);
        self.large = others.into();
        for parcel in own.into_iter().chain(pages) {
            self.queued -= parcel.bytes();
            if let Some((page, ran)) = parcel.raw {
                self.engine.end(&page, ran);
            }
        }
    }

    /// Forgets sessions past their lease.
    pub fn expire(&mut self) {
        self.engine.expire(self.lease_time(self.now));
        self.retire();
    }
}
