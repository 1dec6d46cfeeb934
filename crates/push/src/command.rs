//! Commands and completions between host and device, sessions, and exactly-once accounting.
//!
//! A command is an entry of 64 bytes, a completion one of 16, both little-endian
//! (`docs/design/push.md` has the bytes). A session is one host's use of the device; it has a quota
//! of tasks and a lease that every command renews, and every page that a served device has ended.
//! It does not run out while a page is under way.
//!
//! How a page is counted once although requests are retried, reordered and answered late:
//! - each request of a page carries an attempt number; the host accepts answers to the last attempt
//!   that it made and no other;
//! - the device runs a request only if no later attempt of that page has reached it, merges a page
//!   at most once, and answers `Processed` to every later attempt of a merged page;
//! - each INIT has a generation, which its admitted pages carry: a page of a task that has ended is
//!   not merged into a later task of the same number;
//! - FINAL waits until no request that arrived before it is under way; it ends the task, so that
//!   a request that arrives later is refused. Its answer carries the count of merged pages.
//!
//! Invariants
//! - Bytes that decode encode to the same bytes. Checked by `entries_come_back`.
//! - A page is counted by the device or by the host, once. Checked by
//!   `a_page_is_counted_once_in_any_interleaving`.
//! - FINAL answers after the last page under way. Checked by `final_is_a_barrier`.
//! - A page ends in the task that asked for it or in none. Checked by
//!   `a_page_of_an_ended_task_is_not_merged_into_a_later_one_of_its_number`.

use std::collections::BTreeMap;

use littoral_base::mutant;
use littoral_base::units::Picos;

use crate::error::{Error, Kind, Result};

/// Bytes of a command.
pub const COMMAND_BYTES: usize = 64;
/// Bytes of a completion.
pub const COMPLETION_BYTES: usize = 16;

/// What a command asks for, by its opcode; the low two bits say which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// Writes a page or a header; a device without page functions has it too.
    Write = 0x01,
    /// Reads a page or a header as it is.
    Read = 0x02,
    /// Begins a task: parameters to the device.
    Init = 0xc1,
    /// Reads a page for its page function.
    ReadProc = 0xc2,
    /// Reads a page for its filter.
    ReadFilt = 0xc6,
    /// Fetches the task's result and ends it.
    Final = 0xca,
    /// Ends a task without a result.
    Abort = 0xcc,
    /// Lists the device's functions: [`crate::catalogue`].
    Catalogue = 0xce,
}

/// Every opcode.
pub const OPCODES: [Opcode; 8] = [
    Opcode::Write,
    Opcode::Read,
    Opcode::Init,
    Opcode::ReadProc,
    Opcode::ReadFilt,
    Opcode::Final,
    Opcode::Abort,
    Opcode::Catalogue,
];

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What is asked.
    pub opcode: Opcode,
    /// The host's number of the request, returned in the completion.
    pub id: u16,
    /// The session.
    pub session: u32,
    /// The task of the session.
    pub task: u16,
    /// Which attempt at the page this is, from one.
    pub attempt: u16,
    /// The page, counted from the scan's first; INIT: how many pages come.
    pub page: u64,
    /// Logical address of the page.
    pub address: u64,
    /// Address of the host's buffer.
    pub buffer: u64,
    /// Bytes of the buffer or of the parameters.
    pub bytes: u32,
    /// Picoseconds until a core of the host is free.
    pub backlog: u64,
    /// Picoseconds of a host core that a raw page of the task takes; 0 while none was computed.
    pub host_page: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The page was merged on the device.
    Processed = 0,
    /// The records that pass are in the buffer.
    Filtered = 1,
    /// The page is in the buffer as it is.
    Raw = 2,
    /// The page cannot be read.
    MediaError = 3,
    /// The device does not know the session or the task.
    SessionGone = 4,
    /// A quota is used up.
    Exhausted = 5,
    /// The command makes no sense.
    Refused = 6,
    /// The result is in the buffer.
    Result = 7,
}

const STATUSES: [Status; 8] = [
    Status::Processed,
    Status::Filtered,
    Status::Raw,
    Status::MediaError,
    Status::SessionGone,
    Status::Exhausted,
    Status::Refused,
    Status::Result,
];

/// One completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's number.
    pub id: u16,
    /// The attempt that is answered.
    pub attempt: u16,
    /// What became of it.
    pub status: Status,
    /// Bytes in the buffer.
    pub bytes: u32,
    /// FINAL: pages merged.
    pub merged: u32,
}

fn corrupt(what: String) -> Error {
    Error::new(Kind::Corrupt, what)
}

impl Command {
    /// A command outside a session, such as a plain read of a page.
    pub fn plain(opcode: Opcode, address: u64) -> Command {
        let (id, session, task, attempt, bytes) = (0, 0, 0, 0, 0);
        let (page, buffer, backlog, host_page) = (0, 0, 0, 0);
        Command {
            opcode,
            id,
            session,
            task,
            attempt,
            page,
            address,
            buffer,
            bytes,
            backlog,
            host_page,
        }
    }

    /// The entry.
    pub fn encode(&self) -> [u8; COMMAND_BYTES] {
        let mut out = [0; COMMAND_BYTES];
        out[0] = self.opcode as u8;
        out[2..4].copy_from_slice(&self.id.to_le_bytes());
        out[4..8].copy_from_slice(&self.session.to_le_bytes());
        out[8..10].copy_from_slice(&self.task.to_le_bytes());
        out[10..12].copy_from_slice(&self.attempt.to_le_bytes());
        out[12..16].copy_from_slice(&self.bytes.to_le_bytes());
        out[16..24].copy_from_slice(&self.page.to_le_bytes());
        out[24..32].copy_from_slice(&self.buffer.to_le_bytes());
        out[32..40].copy_from_slice(&self.address.to_le_bytes());
        out[40..48].copy_from_slice(&self.backlog.to_le_bytes());
        out[48..56].copy_from_slice(&self.host_page.to_le_bytes());
        out
    }

    /// The command of an entry.
    ///
    /// # Errors
    /// `Kind::Corrupt` for another length, an unknown opcode or a reserved byte that is not zero.
    pub fn decode(entry: &[u8]) -> Result<Command> {
        if entry.len() != COMMAND_BYTES {
            let what = format!("a command of {} bytes; entries have {COMMAND_BYTES}", entry.len());
            return Err(corrupt(what));
        }
        let known = |o: &&Opcode| **o as u8 == entry[0];
        let Some(opcode) = OPCODES.iter().find(known) else {
            return Err(corrupt(format!("opcode {:#04x} is none of the device's", entry[0])));
        };
        if entry[1] != 0 || entry[56..].iter().any(|b| *b != 0) {
            return Err(corrupt("a reserved byte of a command is not zero".to_owned()));
        }
        Ok(Command {
            opcode: *opcode,
            id: u16::from_le_bytes([entry[2], entry[3]]),
            session: word(entry, 4),
            task: u16::from_le_bytes([entry[8], entry[9]]),
            attempt: u16::from_le_bytes([entry[10], entry[11]]),
            bytes: word(entry, 12),
            page: long(entry, 16),
            buffer: long(entry, 24),
            address: long(entry, 32),
            backlog: long(entry, 40),
            host_page: long(entry, 48),
        })
    }
}

impl Completion {
    /// The entry.
    pub fn encode(&self) -> [u8; COMPLETION_BYTES] {
        let mut out = [0; COMPLETION_BYTES];
        out[0..4].copy_from_slice(&self.bytes.to_le_bytes());
        out[4..8].copy_from_slice(&self.merged.to_le_bytes());
        out[8..10].copy_from_slice(&self.attempt.to_le_bytes());
        out[10] = self.status as u8;
        out[12..14].copy_from_slice(&self.id.to_le_bytes());
        out
    }

    /// The completion of an entry.
    ///
    /// # Errors
    /// `Kind::Corrupt` for another length, an unknown status or a reserved byte that is not zero.
    pub fn decode(entry: &[u8]) -> Result<Completion> {
        if entry.len() != COMPLETION_BYTES {
            let what = format!("a completion of {} bytes, not {COMPLETION_BYTES}", entry.len());
            return Err(corrupt(what));
        }
        let Some(status) = STATUSES.get(usize::from(entry[10])) else {
            return Err(corrupt(format!("status {} of a completion is unknown", entry[10])));
        };
        if [entry[11], entry[14], entry[15]] != [0; 3] {
            return Err(corrupt("a reserved byte of a completion is not zero".to_owned()));
        }
        Ok(Completion {
            bytes: word(entry, 0),
            merged: word(entry, 4),
            attempt: u16::from_le_bytes([entry[8], entry[9]]),
            status: *status,
            id: u16::from_le_bytes([entry[12], entry[13]]),
        })
    }
}

pub(crate) fn word(entry: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
}

pub(crate) fn long(entry: &[u8], at: usize) -> u64 {
    u64::from(word(entry, at)) | u64::from(word(entry, at + 4)) << 32
}

/// What a device allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Sessions at a time.
    pub sessions: usize,
    /// Tasks of a session.
    pub tasks: usize,
    /// Pages of a task's scan.
    pub pages: u64,
    /// Time without a command and without a page under way after which a session is forgotten.
    pub lease: Picos,
}

/// Bytes that the device notes of one page of a task.
pub(crate) const NOTE_BYTES: u64 = (size_of::<u16>() + size_of::<bool>()) as u64;

/// The number of an INIT, never given again: what tells a task from a later one of its number.
pub type Generation = u64;

#[derive(Debug)]
struct Task {
    generation: Generation,
    /// The latest attempt at each page that has reached the device. Notes of millions of pages are
    /// zeros, which the system clears when a page is asked for, not INIT while others wait.
    newest: Vec<u16>,
    /// Whether each page is merged.
    is_merged: Vec<bool>,
    merged: u32,
    under_way: u32,
    is_ending: bool,
}

#[derive(Debug, Default)]
struct Session {
    tasks: BTreeMap<u16, Task>,
    heard: Picos,
}

impl Session {
    /// Whether a page of it is under way.
    fn is_at_work(&self) -> bool {
        self.tasks.values().any(|task| task.under_way > 0)
    }
}

/// What the device does with a request for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is read for the task of this generation; [`Sessions::ended`] must follow.
    Admitted(Generation),
    /// It is answered at once.
    Answered(Status),
}

/// How a page's way through the device ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A core has its result in scratch memory.
    Computed,
    /// The page goes to the host: pushed back, trapped, over budget, or its filtered records.
    Shipped(Status),
}

/// The device's sessions.
#[derive(Debug)]
pub struct Sessions {
    quotas: Quotas,
    sessions: BTreeMap<u32, Session>,
    /// The generation of the latest INIT.
    generation: Generation,
}

impl Sessions {
    /// A device without sessions.
    pub fn new(quotas: Quotas) -> Sessions {
        Sessions { quotas, sessions: BTreeMap::new(), generation: 0 }
    }

    /// Whether the device remembers a session.
    pub fn has(&self, session: u32) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Forgets a session; what is under way ends in no later one of its number.
    pub fn forget(&mut self, session: u32) {
        self.sessions.remove(&session);
    }

    /// Forgets every session; what is under way ends in no later task.
    pub fn forget_all(&mut self) {
        self.sessions.clear();
    }

    /// Sessions that the device remembers.
    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    /// Forgets the sessions whose lease has run out. A host that waits for its pages is not
    /// silent, however long one of them takes.
    pub fn expire(&mut self, now: Picos) {
        let lease = self.quotas.lease;
        if lease == Picos::MAX {
            // A lease without end: no session is forgotten, and none is looked at.
            return;
        }
        self.sessions.retain(|_, s| {
            let is_heard = now.saturating_sub(s.heard) <= lease;
            is_heard || (s.is_at_work() && !mutant!("push_slow_pages_end_leases"))
        });
    }

    /// A page of a session has ended: a host that waits for its pages is not silent.
    pub fn renew(&mut self, now: Picos, session: u32) {
        let found = self.sessions.get_mut(&session);
        if let Some(found) = found.filter(|_| !mutant!("push_pages_renew_no_lease")) {
            found.heard = found.heard.max(now);
        }
    }

    /// INIT: begins a task of `pages` pages; a task of that number is begun anew.
    pub fn init(&mut self, now: Picos, session: u32, task: u16, pages: u64) -> Status {
        self.expire(now);
        let is_new = !self.sessions.contains_key(&session);
        if pages > self.quotas.pages || (is_new && self.sessions.len() >= self.quotas.sessions) {
            return Status::Exhausted;
        }
        let found = self.sessions.entry(session).or_default();
        found.heard = found.heard.max(now);
        if !found.tasks.contains_key(&task) && found.tasks.len() >= self.quotas.tasks {
            return Status::Exhausted;
        }
        if found.tasks.get(&task).is_some_and(|t| t.under_way > 0) {
            return Status::Refused;
        }
        self.generation += 1;
        let begun = Task {
            generation: self.generation,
            newest: vec![0; pages as usize],
            is_merged: vec![false; pages as usize],
            merged: 0,
            under_way: 0,
            is_ending: false,
        };
        found.tasks.insert(task, begun);
        Status::Processed
    }

    fn task(&mut self, now: Picos, session: u32, task: u16) -> Option<&mut Task> {
        self.expire(now);
        let found = self.sessions.get_mut(&session)?;
        found.heard = found.heard.max(now);
        found.tasks.get_mut(&task)
    }

    /// READ_PROC and READ_FILT: whether the page is to be read.
    pub fn admit(&mut self, now: Picos, c: &Command) -> Admission {
        let Some(task) = self.task(now, c.session, c.task) else {
            return Admission::Answered(Status::SessionGone);
        };
        let place = c.page as usize;
        let Some(newest) = task.newest.get_mut(place) else {
            return Admission::Answered(Status::Refused);
        };
        if task.is_ending {
            return Admission::Answered(Status::SessionGone);
        }
        if task.is_merged[place] && !mutant!("push_page_counted_twice") {
            return Admission::Answered(Status::Processed);
        }
        // An older attempt, or this one again: its answer is on the way or was thrown away.
        if c.attempt <= *newest {
            return Admission::Answered(Status::Refused);
        }
        *newest = c.attempt;
        task.under_way += 1;
        Admission::Admitted(task.generation)
    }

    /// A request admitted for the task of that generation has come to its end; what the host is
    /// told. A task that has ended since gets nothing, nor does a later one of its number.
    pub fn ended(&mut self, c: &Command, generation: Generation, ending: Ending) -> Status {
        let found = self.sessions.get_mut(&c.session).and_then(|s| s.tasks.get_mut(&c.task));
        let is_own =
            |t: &&mut Task| t.generation == generation || mutant!("push_page_ends_in_a_later_task");
        let Some(task) = found.filter(is_own) else { return Status::SessionGone };
        task.under_way = task.under_way.saturating_sub(1);
        let place = c.page as usize;
        let is_double = task.is_merged[place] && !mutant!("push_page_counted_twice");
        if is_double {
            return Status::Processed;
        }
        match ending {
            // A later attempt is under way: this one's answer would be thrown away.
            _ if task.newest[place] != c.attempt => Status::Refused,
            Ending::Shipped(status) => status,
            Ending::Computed => {
                task.is_merged[place] = true;
                task.merged += 1;
                Status::Processed
            }
        }
    }

    /// The generation of a task; none if the device does not remember it.
    pub fn generation(&self, session: u32, task: u16) -> Option<Generation> {
        Some(self.sessions.get(&session)?.tasks.get(&task)?.generation)
    }

    /// Whether the device remembers a task.
    pub fn knows(&self, session: u32, task: u16) -> bool {
        self.sessions.get(&session).is_some_and(|s| s.tasks.contains_key(&task))
    }

    /// Pages of a task merged so far; zero for an unknown task.
    pub fn merged(&self, session: u32, task: u16) -> u32 {
        let found = self.sessions.get(&session).and_then(|s| s.tasks.get(&task));
        found.map_or(0, |task| task.merged)
    }

    /// Requests of a task that were admitted and have not come to their end.
    pub fn under_way(&self, session: u32, task: u16) -> u32 {
        let found = self.sessions.get(&session).and_then(|s| s.tasks.get(&task));
        found.map_or(0, |task| task.under_way)
    }

    /// FINAL: none while pages are under way (ask again when one has ended), then the count.
    pub fn finish(&mut self, now: Picos, session: u32, task: u16) -> Option<(Status, u32)> {
        let Some(found) = self.task(now, session, task) else {
            return Some((Status::SessionGone, 0));
        };
        found.is_ending = true;
        if found.under_way > 0 && !mutant!("push_final_without_barrier") {
            return None;
        }
        let merged = found.merged;
        self.abort(session, task);
        Some((Status::Result, merged))
    }

    /// ABORT: forgets a task, and the session with its last one.
    pub fn abort(&mut self, session: u32, task: u16) {
        if let Some(found) = self.sessions.get_mut(&session) {
            found.tasks.remove(&task);
            if found.tasks.is_empty() {
                self.sessions.remove(&session);
            }
        }
    }
}

/// What the host does with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The device has counted the page.
    OnDevice,
    /// The host computes on what is in the buffer.
    Compute,
    /// Nothing: a later attempt was made, or the page is counted.
    Ignore,
    /// The page must be asked for again.
    Retry,
}

/// The host's account of one scan.
#[derive(Clone, Debug)]
pub struct Account {
    attempts: Vec<u16>,
    counted: Vec<Option<bool>>,
}

impl Account {
    /// An account of `pages` pages, none counted.
    pub fn new(pages: usize) -> Account {
        Account { attempts: vec![0; pages], counted: vec![None; pages] }
    }

    /// Pages of the scan.
    pub fn len(&self) -> usize {
        self.attempts.len()
    }

    /// Whether the scan has no pages.
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Whether a page is not counted yet.
    pub fn is_open(&self, page: usize) -> bool {
        self.counted[page].is_none()
    }

    /// Makes the next attempt at a page that is open; its number.
    ///
    /// # Panics
    /// When the page is counted: it could be counted again.
    pub fn attempt(&mut self, page: usize) -> u16 {
        assert!(self.is_open(page), "page {page} is counted");
        self.attempts[page] += 1;
        self.attempts[page]
    }

    /// Takes an answer.
    pub fn answered(&mut self, page: usize, attempt: u16, status: Status) -> Answer {
        if self.counted[page].is_some() || attempt != self.attempts[page] {
            return Answer::Ignore;
        }
        match status {
            Status::Processed => self.counted[page] = Some(true),
            Status::Filtered | Status::Raw => self.counted[page] = Some(false),
            _ => return Answer::Retry,
        }
        if self.counted[page] == Some(true) { Answer::OnDevice } else { Answer::Compute }
    }

    /// The device is lost with its results: pages counted there must be asked for again.
    pub fn lost(&mut self) -> Vec<usize> {
        let lost = |&p: &usize| self.counted[p] != Some(false);
        let pages: Vec<usize> = (0..self.counted.len()).filter(lost).collect();
        for &page in &pages {
            self.counted[page] = None;
        }
        pages
    }

    /// Pages not counted yet.
    pub fn open(&self) -> usize {
        self.counted.iter().filter(|c| c.is_none()).count()
    }

    /// Pages counted on the device.
    pub fn on_device(&self) -> u32 {
        self.counted.iter().filter(|c| **c == Some(true)).count() as u32
    }

    /// Checks FINAL's count.
    ///
    /// # Errors
    /// `Kind::Corrupt` when the device merged another number of pages than it answered for.
    pub fn check(&self, merged: u32) -> Result<()> {
        let own = self.on_device();
        if self.open() == 0 && own == merged {
            return Ok(());
        }
        let open = self.open();
        Err(corrupt(format!(
            "FINAL counts {merged} pages and the host {own} with {open} open; run the scan again"
        )))
    }
}
