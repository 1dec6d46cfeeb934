//! What a device does with commands, without a clock of its own: sessions, programs, page
//! functions, totals. [`super::Local`] runs a command when it comes; a server runs it when a
//! modelled core is free.
//!
//! A read of a page goes [`Engine::admit`], [`Engine::run`], [`Engine::end`]; the other commands go
//! through [`Engine::control`].
//!
//! Invariants
//! - No page function runs on a page that does not verify, lies in another's place or has another
//!   format. Checked by `a_damaged_page_is_asked_for_again_and_then_named`,
//!   `a_page_in_anothers_place_is_named_on_every_road`,
//!   `a_page_of_another_format_is_named_on_every_road`.
//! - No answer is computed of two data sets. Checked by
//!   `a_data_set_that_is_replaced_in_a_scan_is_scanned_from_its_beginning`,
//!   `a_server_that_returns_with_other_data_is_scanned_from_its_beginning`.
//! - A run that fails leaves the totals as they were. Checked by
//!   `hostile_programs_give_the_answer_by_another_road`.
//! - The tasks of a session take no more memory than the settings allow, cores included. Checked by
//!   `the_cores_of_a_session_are_part_of_its_memory`.
//! - A new data set in memory takes no more than the settings allow. Checked by
//!   `a_data_set_beyond_the_devices_memory_is_refused_and_changes_nothing`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use littoral_base::fault::{Op, Plan, Verdict};
use littoral_base::mutant;
use littoral_base::units::Picos;

use super::HEADER_ADDRESS;
use super::set::{About, DataSet};
use super::stored::{Payload, Stored};
use super::wire::Program;
use crate::catalogue::{self, Entry};
use crate::command::{
    Admission, Command, Completion, Ending, Generation, NOTE_BYTES, Opcode, Quotas, Sessions,
    Status,
};
use crate::error::{Error, Kind, Result};
use crate::fault::run_of;
use crate::function::{Answer, Compiled, Function, Machine, Output, PageResult, Params, Run, Test};
use crate::page;
use crate::policy::Commit;

/// How page functions are executed. Answers and instruction counts are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// LA64 code, instruction by instruction.
    Interpreter,
    /// The native twin, which knows the code's count.
    Twin,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether it runs page functions at all.
    pub computes: bool,
    /// How.
    pub cores: Cores,
    /// Instructions that a page function may spend on one page.
    pub budget: u64,
    /// Bytes for the totals of one task, and for its program.
    pub memory_bytes: u64,
    /// Bytes for all tasks of one session: cores that run code, programs, totals, and what the
    /// device notes of each page.
    pub session_bytes: u64,
    /// Bytes for the pages of a data set that replaces one in memory; a file has no such bound.
    pub store_bytes: u64,
    /// Sessions, tasks, pages, lease.
    pub quotas: Quotas,
}

impl Default for Settings {
    fn default() -> Settings {
        let quotas = Quotas { sessions: 64, tasks: 16, pages: 1 << 32, lease: Picos(u64::MAX) };
        let (budget, memory_bytes) = (1 << 24, 1 << 20);
        let (computes, cores) = (true, Cores::Interpreter);
        let (session_bytes, store_bytes) = (256 << 20, u64::MAX);
        Settings { computes, cores, budget, memory_bytes, session_bytes, store_bytes, quotas }
    }
}

/// The device's part of a hand-coded split: the function's filter and the columns its output
/// needs.
pub fn split_of(function: &Function) -> Function {
    let Output::Aggregate { .. } = &function.output else { return function.clone() };
    let mut columns = Vec::new();
    function.output.columns(&mut |c| columns.push(c));
    columns.sort_unstable();
    columns.dedup();
    if columns.is_empty() {
        columns.extend(function.schema.columns.iter().position(page::Column::is_number));
    }
    Function { output: Output::Rows(columns), ..function.clone() }
}

/// The host's part: everything behind the filter.
pub(super) fn rest_of(function: &Function) -> Function {
    Function { filter: Test::And(vec![]), ..function.clone() }
}

/// A task's functions and parameters, shared with the threads that compute its pages.
#[derive(Debug)]
struct Loaded {
    whole: Compiled,
    split: Option<Compiled>,
    params: Params,
    schema_crc: u32,
    /// A core with the code; none where the twin computes.
    core: Option<Mutex<Machine>>,
    /// Its entry in the library.
    key: Key,
}

struct Task {
    generation: Generation,
    loaded: Arc<Loaded>,
    totals: Vec<u64>,
    /// What it takes of its session's memory.
    bytes: u64,
}

/// A command that was admitted, for the task that the device knew by its number then.
#[derive(Clone, Copy, Debug)]
pub struct Admitted {
    /// The command.
    pub command: Command,
    generation: Generation,
}

impl Admitted {
    /// The task's number, which a later task may have too.
    pub fn key(&self) -> (u32, u16) {
        (self.command.session, self.command.task)
    }

    /// The task's generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }
}

/// What tells a function from others: CRC32C of its code and of its schema's text.
type Key = (u32, u32);

/// What became of a page on a core or on the way to the link.
#[derive(Debug)]
pub struct Ran {
    /// Instructions that the core spends.
    pub instructions: u64,
    ending: Ending,
    partial: Option<crate::function::Scratch>,
    /// What goes to the host.
    pub payload: Payload,
}

impl Ran {
    fn shipped(status: Status, instructions: u64, payload: Payload) -> Ran {
        Ran { instructions, ending: Ending::Shipped(status), partial: None, payload }
    }

    /// A page that goes to the host without its contents.
    fn without(status: Status) -> Ran {
        Ran::shipped(status, 0, Payload::none())
    }

    /// A page whose host is gone.
    pub(crate) fn dropped() -> Ran {
        Ran::without(Status::Raw)
    }

    /// Whether a run on a core ended without a result.
    pub fn fell_back(&self) -> bool {
        matches!(self.ending, Ending::Shipped(Status::Raw | Status::MediaError))
    }
}

/// The run of a page function, apart from the device's state: any thread may compute it.
#[derive(Debug)]
pub struct Work {
    page: Arc<Stored>,
    header: page::Header,
    loaded: Arc<Loaded>,
    is_filter: bool,
    verdict: Verdict,
    budget: u64,
}

/// A page whose run has begun.
#[derive(Debug)]
pub enum Begun {
    /// It needs no computation.
    Ended(Ran),
    /// [`Work::compute`] ends it.
    Work(Box<Work>),
}

/// A device's state.
pub struct Engine {
    set: DataSet,
    /// The set's header, which answers share: hosts may ask for many and take none.
    header: Arc<Stored>,
    settings: Settings,
    sessions: Sessions,
    tasks: BTreeMap<(u32, u16), Task>,
    /// Functions that tasks have loaded, with what their pages took.
    library: BTreeMap<Key, Entry>,
    schema_crc: u32,
    /// Number of the data set; one that replaces it has the next.
    stores: u32,
    faults: Plan,
}

/// Most instructions of a function whose runs take a time that others may wait for. Each record may
/// take them all, and a function's branches reach over some thirty times as many.
const SHORT_WORDS: usize = 1024;
/// Most parts of such a function, and most tokens of its query: each record may take them all too.
const SHORT_PARTS: usize = 4 * SHORT_WORDS;
const SHORT_TOKENS: usize = SHORT_WORDS;
/// Most functions in the library; the one with the fewest pages makes room.
const LIBRARY_MAX: usize = 1024;

/// A completion and the data that go with it.
pub type Reply = (Completion, Payload);

/// An answer to `command`.
pub(crate) fn reply(command: &Command, status: Status, data: Vec<u8>) -> Reply {
    let (id, attempt, bytes) = (command.id, command.attempt, data.len() as u32);
    (Completion { id, attempt, status, bytes, merged: 0 }, Payload::Own(data))
}

/// An answer to a plain read, which copies nothing.
fn shared(command: &Command, page: Arc<Stored>) -> Reply {
    let (mut completion, _) = reply(command, Status::Raw, Vec::new());
    completion.bytes = page.bytes().len() as u32;
    (completion, Payload::Page(page))
}

impl Engine {
    /// A device with a data set.
    pub fn new(set: DataSet, settings: Settings) -> Engine {
        let sessions = Sessions::new(settings.quotas);
        let (tasks, library) = (BTreeMap::new(), BTreeMap::new());
        let schema_crc = set.about().schema.crc();
        let (header, faults) = (Stored::new(set.about().to_bytes()), Plan::none());
        Engine { set, header, settings, sessions, tasks, library, schema_crc, stores: 0, faults }
    }

    /// The same device, whose data set is numbered by its contents: a host that comes back to a
    /// device which has begun again knows whether the pages that it has are still the data set's.
    pub(crate) fn numbered_by_contents(mut self) -> Engine {
        if !mutant!("push_servers_number_from_zero") {
            self.stores = self.set.contents_number();
        }
        self
    }

    /// Faults of page functions ([`Op::Task`]).
    pub fn set_faults(&mut self, faults: Plan) {
        self.faults = faults;
    }

    /// The data set.
    pub fn set(&self) -> &DataSet {
        &self.set
    }

    /// Gives up the data set that is being written.
    pub fn abandon_draft(&mut self) {
        self.set.abandon();
    }

    /// Instructions that a page function may spend on one page.
    pub fn budget(&self) -> u64 {
        self.settings.budget
    }

    /// As many from now on, as where the data set has other pages.
    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.settings.budget = budget;
    }

    /// Sessions that the device remembers.
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }

    /// Whether the device remembers a session.
    pub fn has_session(&self, session: u32) -> bool {
        self.sessions.has(session)
    }

    /// Forgets a session.
    pub fn forget(&mut self, session: u32) {
        self.sessions.forget(session);
        self.tasks.retain(|key, _| key.0 != session);
    }

    /// The generation of a task; none if the device does not remember it.
    pub fn generation(&self, (session, task): (u32, u16)) -> Option<Generation> {
        self.sessions.generation(session, task)
    }

    /// Power has come back: sessions and totals are lost.
    pub fn restart(&mut self) {
        self.sessions.forget_all();
        self.tasks.clear();
        self.faults.restore_power();
    }

    /// Whether pages of a task are under way.
    pub fn is_at_work(&self, (session, task): (u32, u16)) -> bool {
        self.sessions.under_way(session, task) > 0
    }

    /// What tells a task's function from others; none for an unknown task.
    pub fn function_of(&self, key: (u32, u16)) -> Option<(u32, u32)> {
        self.tasks.get(&key).map(|task| task.loaded.key)
    }

    /// A page of a session has ended: its lease begins anew.
    pub fn renew(&mut self, now: Picos, session: u32) {
        self.sessions.renew(now, session);
    }

    /// Forgets sessions past their lease.
    pub fn expire(&mut self, now: Picos) {
        self.sessions.expire(now);
        let sessions = &self.sessions;
        self.tasks.retain(|key, _| sessions.knows(key.0, key.1));
    }

    /// Answers a command that reads no page for a function; `None` for FINAL while pages are under
    /// way: ask again.
    pub fn control(&mut self, now: Picos, command: &Command, payload: &[u8]) -> Option<Reply> {
        let is_plain = matches!(command.opcode, Opcode::Read | Opcode::Write);
        if !is_plain && !self.settings.computes {
            return Some(reply(command, Status::Refused, Vec::new()));
        }
        Some(match command.opcode {
            Opcode::Write => self.write(command, payload),
            Opcode::Read => self.read(command),
            Opcode::Init => self.init(now, command, payload),
            Opcode::Final => return self.finish(now, command),
            Opcode::Abort => {
                self.sessions.abort(command.session, command.task);
                self.tasks.remove(&(command.session, command.task));
                reply(command, Status::Processed, Vec::new())
            }
            Opcode::Catalogue => {
                let entries: Vec<Entry> = self.library.values().cloned().collect();
                let bytes = catalogue::encode(&entries).expect("invariant: names are CRCs");
                reply(command, Status::Result, bytes)
            }
            Opcode::ReadProc | Opcode::ReadFilt => reply(command, Status::Refused, Vec::new()),
        })
    }

    /// WRITE; a write that is not made says why in words.
    fn write(&mut self, command: &Command, payload: &[u8]) -> Reply {
        let done = if command.address == HEADER_ADDRESS {
            About::parse(payload).and_then(|about| match about.pages {
                0 if about.rows == 0 => self.set.begin(&about),
                _ => {
                    self.set.commit(&about)?;
                    self.replaced(&about);
                    Ok(())
                }
            })
        } else {
            self.put(command.address, payload)
        };
        // A host whose write is refused cannot go on with its data set: another may store.
        if done.is_err() && !mutant!("push_refused_write_keeps_draft") {
            self.set.abandon();
        }
        let Err(e) = done else { return reply(command, Status::Processed, Vec::new()) };
        let status = match e.kind() {
            Kind::Io => Status::MediaError,
            Kind::Exhausted => Status::Exhausted,
            Kind::Usage | Kind::Corrupt | Kind::SessionGone | Kind::Unsupported => Status::Refused,
        };
        reply(command, status, e.to_string().into_bytes())
    }

    /// Writes a page of the new data set, within the memory that the settings allow.
    fn put(&mut self, page: u64, payload: &[u8]) -> Result<()> {
        let most = self.settings.store_bytes;
        let wanted = self.set.draft_memory().map(|bytes| bytes + payload.len() as u64);
        if wanted.is_some_and(|bytes| bytes > most) && !mutant!("push_store_without_bound") {
            let what = format!("the device has memory for {most} bytes of a new data set's pages");
            return Err(Error::new(Kind::Exhausted, what));
        }
        self.set.put(page, payload)
    }

    /// The data set is another: what was computed of the old one belongs to no scan of this one.
    fn replaced(&mut self, about: &About) {
        self.schema_crc = about.schema.crc();
        self.header = Stored::new(self.set.about().to_bytes());
        self.stores = self.stores.wrapping_add(1);
        if !mutant!("push_store_keeps_sessions") {
            self.sessions.forget_all();
            self.tasks.clear();
        }
    }

    /// READ: the completion's `merged` is the number of the data set.
    fn read(&self, command: &Command) -> Reply {
        let mut answer = self.contents(command);
        answer.0.merged = self.stores;
        answer
    }

    fn contents(&self, command: &Command) -> Reply {
        if command.address == HEADER_ADDRESS {
            return shared(command, Arc::clone(&self.header));
        }
        match self.set.read(command.address) {
            Ok(page) => shared(command, page),
            Err(e) if e.kind() == Kind::Usage => reply(command, Status::Refused, Vec::new()),
            Err(_) => reply(command, Status::MediaError, Vec::new()),
        }
    }

    /// INIT: the command's address is the number that came with the header; the completion's
    /// `bytes` are the slots of the group table, its `merged` the lease.
    fn init(&mut self, now: Picos, command: &Command, payload: &[u8]) -> Reply {
        if payload.len() as u64 > self.settings.memory_bytes {
            return reply(command, Status::Exhausted, Vec::new());
        }
        if command.address != u64::from(self.stores) {
            return reply(command, Status::SessionGone, Vec::new());
        }
        let stored = self.set.about().pages;
        if command.page > stored && !mutant!("push_init_of_any_size") {
            let words = format!("{} pages are announced, the data set has {stored}", command.page);
            return reply(command, Status::Refused, words.into_bytes());
        }
        // Sessions past their lease take no memory.
        self.expire(now);
        let (held, room) = (payload.len() as u64 + NOTE_BYTES * command.page, self.room(command));
        let task = match Program::parse(payload).and_then(|p| self.task(p, held, room)) {
            Ok(task) => task,
            Err(e) if e.kind() == Kind::Exhausted => {
                return reply(command, Status::Exhausted, e.to_string().into_bytes());
            }
            Err(e) => {
                log::debug!("INIT is refused: {e}");
                return reply(command, Status::Refused, e.to_string().into_bytes());
            }
        };
        let (session, number) = (command.session, command.task);
        let status = self.sessions.init(now, session, number, command.page);
        let mut answer = reply(command, status, Vec::new());
        let generation = self.sessions.generation(session, number);
        if let Some(generation) = generation.filter(|_| status == Status::Processed) {
            answer.0.bytes = task.loaded.whole.function().slots_max as u32;
            answer.0.merged = lease_ms(self.settings.quotas.lease);
            self.tasks.insert((session, number), Task { generation, ..task });
        }
        answer
    }

    /// Bytes that the other tasks of a command's session leave.
    fn room(&self, command: &Command) -> u64 {
        let all = self.tasks.range((command.session, 0)..=(command.session, u16::MAX));
        let others = all.filter(|(key, _)| key.1 != command.task);
        let taken: u64 = others.map(|(_, task)| task.bytes).sum();
        self.settings.session_bytes.saturating_sub(taken)
    }

    /// Makes a task of a program. It takes `held` bytes beside those of its totals and its core,
    /// and `room` bytes at most.
    fn task(&mut self, program: Program, held: u64, room: u64) -> Result<Task> {
        let Program { mut function, format, params, elf } = program;
        let slot_bytes = match &function.output {
            Output::Aggregate { sums, .. } => 8 + 24 * sums.len() as u64,
            Output::Rows(_) => 8,
        };
        let slots = (self.settings.memory_bytes / slot_bytes).max(1);
        function.slots_max = function.slots_max.min(usize::try_from(slots).unwrap_or(usize::MAX));
        let whole = Compiled::new(&function, format)?;
        whole.check_params(&params)?;
        let has_core = elf.is_some() || self.settings.cores == Cores::Interpreter;
        let is_counted = has_core && !mutant!("push_cores_are_not_counted");
        let core_bytes = if is_counted { Machine::HELD_BYTES } else { 0 };
        let bytes = held + whole.totals_bytes() + core_bytes;
        if bytes > room {
            let what = format!("the task needs {bytes} bytes, its session has {room} left");
            return Err(Error::new(Kind::Exhausted, what));
        }
        let core = match (&elf, self.settings.cores) {
            (Some(elf), _) => Some(Machine::with_file(&whole, &params, elf)?),
            (None, Cores::Interpreter) => Some(Machine::new(&whole, &params)?),
            (None, Cores::Twin) => None,
        };
        // A split that does not compile is no reason to refuse the whole: its pages go raw.
        let split = Compiled::new(&split_of(&function), format).ok();
        let totals = if whole.returns_rows() { Vec::new() } else { whole.totals() };
        let (schema_crc, core) = (whole.function().schema.crc(), core.map(Mutex::new));
        let key = self.enlist(&whole, elf.as_deref());
        let loaded = Loaded { whole, split, params, schema_crc, core, key };
        Ok(Task { generation: 0, loaded: Arc::new(loaded), totals, bytes })
    }

    /// Enters a function into the library, where it is not there yet.
    fn enlist(&mut self, whole: &Compiled, elf: Option<&[u8]>) -> Key {
        let entry = Entry::of_program(whole, elf);
        let key = (entry.code_crc, entry.schema_crc);
        if !self.library.contains_key(&key) && self.library.len() >= LIBRARY_MAX {
            let least = self.library.iter().min_by_key(|(_, e)| e.pages).map(|(k, _)| *k);
            least.map(|key| self.library.remove(&key));
        }
        self.library.entry(key).or_insert(entry);
        key
    }

    fn finish(&mut self, now: Picos, command: &Command) -> Option<Reply> {
        let (status, merged) = self.sessions.finish(now, command.session, command.task)?;
        let task = self.tasks.remove(&(command.session, command.task));
        let totals = task.filter(|_| status == Status::Result).map(|t| t.totals);
        let bytes = totals.unwrap_or_default().iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut answer = reply(command, status, bytes);
        answer.0.merged = merged;
        Some(answer)
    }

    /// READ_PROC, READ_FILT: the page is to be read.
    ///
    /// # Errors
    /// The answer of a command that is not admitted.
    pub fn admit(&mut self, now: Picos, command: &Command) -> std::result::Result<Admitted, Reply> {
        if !self.settings.computes {
            return Err(reply(command, Status::Refused, Vec::new()));
        }
        match self.sessions.admit(now, command) {
            Admission::Admitted(generation) => Ok(Admitted { command: *command, generation }),
            Admission::Answered(status) => Err(reply(command, status, Vec::new())),
        }
    }

    /// The task that a page was admitted for; none if it has ended.
    fn task_of(&self, page: &Admitted) -> Option<&Task> {
        let is_own = |t: &&Task| {
            t.generation == page.generation || mutant!("push_page_ends_in_a_later_task")
        };
        self.tasks.get(&page.key()).filter(is_own)
    }

    /// What an admitted page gives under a policy's decision. The page is not counted before
    /// [`Engine::end`].
    ///
    /// # Errors
    /// [`Kind::Io`] when a fault cuts the device off.
    pub fn run(&mut self, page: &Admitted, commit: Commit) -> Result<Ran> {
        Ok(match self.begin(page, commit, u64::MAX)? {
            Begun::Ended(ran) => ran,
            Begun::Work(work) => work.compute(),
        })
    }

    /// As [`Engine::run`], up to the computation, which another thread may do. An ELF file's
    /// function may spend no more than `limit` instructions.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn begin(&mut self, asked: &Admitted, commit: Commit, limit: u64) -> Result<Begun> {
        let ended = |status| Ok(Begun::Ended(Ran::without(status)));
        let Some(task) = self.task_of(asked) else {
            return ended(Status::SessionGone);
        };
        let Ok(page) = self.set.read(asked.command.address) else {
            return ended(Status::MediaError);
        };
        let loaded = Arc::clone(&task.loaded);
        // A page that lies in another's place verifies too: its number tells.
        let is_own = |h: &page::Header| {
            h.number == asked.command.address || mutant!("push_page_of_another_place")
        };
        let header = page.header(&self.set.about().schema).filter(is_own);
        let is_for = |h: &page::Header| {
            loaded.schema_crc == self.schema_crc && h.format == loaded.whole.format()
        };
        let Some(header) = header.filter(is_for) else {
            return ended(Status::MediaError);
        };
        let is_filter = match commit {
            Commit::Link | Commit::Hold => {
                let page = Payload::Page(page);
                return Ok(Begun::Ended(Ran::shipped(Status::Raw, 0, page)));
            }
            Commit::Core => asked.command.opcode == Opcode::ReadFilt,
            Commit::Filter => true,
        };
        let verdict = self.faults.judge(Op::Task);
        if verdict == Verdict::Cut {
            return Err(Error::new(Kind::Io, "the device has lost power: reconnect"));
        }
        let is_native = loaded.core.is_none();
        let budget = self.settings.budget.min(if is_native { u64::MAX } else { limit });
        let work = Work { page, header, loaded, is_filter, verdict, budget };
        Ok(Begun::Work(Box::new(work)))
    }

    /// Counts a page and answers its command.
    pub fn end(&mut self, page: &Admitted, ran: Ran) -> Reply {
        let command = &page.command;
        let merged = |e: &Self| e.sessions.merged(command.session, command.task);
        let before = merged(self);
        self.note(page, &ran);
        let status = self.sessions.ended(command, page.generation, ran.ending);
        if merged(self) > before {
            let task = self.tasks.get_mut(&(command.session, command.task));
            let (task, scratch) = task.zip(ran.partial).expect("invariant: it was computed");
            task.loaded.whole.merge(&scratch, &mut task.totals);
        }
        let has_data = matches!(status, Status::Raw | Status::Filtered);
        let mut answer = reply(command, status, Vec::new());
        if has_data {
            answer.0.bytes = ran.payload.bytes().len() as u32;
            answer.1 = ran.payload;
        }
        answer
    }

    /// Notes in the library what a page took on a core.
    fn note(&mut self, page: &Admitted, ran: &Ran) {
        let task = self.task_of(page);
        let key = task.filter(|_| ran.instructions > 0).map(|t| t.loaded.key);
        if let Some(entry) = key.and_then(|key| self.library.get_mut(&key)) {
            entry.pages += 1;
            entry.instructions += ran.instructions;
        }
    }
}

/// A lease in milliseconds, as INIT's completion tells it; 0 for one that does not end.
fn lease_ms(lease: Picos) -> u32 {
    u32::try_from(lease.as_nanos() / 1_000_000).map_or(0, |ms| ms.max(1))
}

impl Work {
    /// Whether the native twin computes it, and function and query are short, so that its time is
    /// bounded by the page's size.
    pub fn is_bounded(&self) -> bool {
        let Loaded { whole, split, core, params, .. } = &*self.loaded;
        let is_short = |c: &Compiled| {
            c.words().len() <= SHORT_WORDS
                && (c.parts() <= SHORT_PARTS || mutant!("push_shared_parts_are_free"))
        };
        let is_small = params.query.as_ref().is_none_or(|q| q.tokens().len() <= SHORT_TOKENS)
            || mutant!("push_queries_are_short");
        core.is_none() && is_small && is_short(whole) && split.as_ref().is_none_or(is_short)
    }

    /// What stands for a run that ended without a result: the page as it is, the budget spent.
    pub(crate) fn fallback(&self) -> Ran {
        Ran::shipped(Status::Raw, self.budget, Payload::Page(Arc::clone(&self.page)))
    }

    /// Runs the page function.
    pub fn compute(self) -> Ran {
        let (result, wanted) = self.result();
        let (instructions, falls_back) = run_of(self.verdict, wanted, self.budget);
        match result {
            Some(PageResult::Partial(scratch)) if !falls_back => {
                let (partial, payload) = (Some(scratch), Payload::none());
                Ran { instructions, ending: Ending::Computed, partial, payload }
            }
            Some(PageResult::Rows(rows)) if !falls_back => {
                Ran::shipped(Status::Filtered, instructions, Payload::Own(rows))
            }
            Some(_) | None => Ran::shipped(Status::Raw, instructions, Payload::Page(self.page)),
        }
    }

    /// The result, or none after a trap, a spent budget or records that do not parse; and the
    /// instructions that the core wants.
    fn result(&self) -> (Option<PageResult>, u64) {
        let Loaded { whole, split, params, core, .. } = &*self.loaded;
        let (page, header) = (self.page.bytes(), &self.header);
        if self.is_filter && !whole.returns_rows() {
            let split = split.as_ref().and_then(|s| s.host_on(params, page, header).ok());
            return self.of_twin(split);
        }
        let Some(core) = core else {
            return self.of_twin(whole.host_on(params, page, header).ok());
        };
        // A run resets the core, so that a thread that panicked in one leaves nothing behind.
        let mut core = core.lock().unwrap_or_else(PoisonError::into_inner);
        match core.run(page, self.budget) {
            Ok((PageResult::Rows(rows), n)) => {
                let parses = Answer::default().add_rows(whole, &rows).is_ok();
                (parses.then_some(PageResult::Rows(rows)), n)
            }
            Ok((result, n)) => {
                let wanted = n + whole.merge_instructions(&result);
                (Some(result), wanted)
            }
            Err(_) => (None, self.budget),
        }
    }

    /// A run of the twin as that of a core, which has no room for more records than its memory
    /// holds.
    fn of_twin(&self, run: Option<Run>) -> (Option<PageResult>, u64) {
        let Some(run) = run else { return (None, 0) };
        let is_long = |rows: &[u8]| rows.len() as u64 > Machine::ROWS_BYTES;
        match run.result {
            PageResult::Rows(rows) if is_long(&rows) && !mutant!("push_twin_has_more_room") => {
                (None, self.budget)
            }
            result => (Some(result), run.instructions + run.merge_instructions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{Compare, Expr, Query};
    use crate::page::{Column, Format, Schema, Value};

    /// The work of a page of numbers and lists.
    fn work(filter: Test, tokens: u32) -> Work {
        let schema = Schema::new(vec![Column::int("n", 0, 9), Column::list("l")]).unwrap();
        let about = About::new(&schema, Format::Columns, 4096);
        let record = |n: i64| Ok(vec![Value::Int(n), Value::List(vec![u32::MAX])]);
        let set = DataSet::of_records(&about, (0..9).map(record)).unwrap();
        let settings = Settings { cores: Cores::Twin, ..Settings::default() };
        let mut engine = Engine::new(set, settings);
        let output = Output::Aggregate { keys: vec![], sums: vec![Expr::Column(0)] };
        let function = Function::new(&schema, vec![], filter, output);
        let query = Some(Query::new((0..tokens).collect(), 1, 2).unwrap());
        let params = Params { query, ..Params::default() };
        let program = Program { function, format: Format::Columns, params, elf: None };
        let init = Command { session: 1, page: 1, ..Command::plain(Opcode::Init, 0) };
        let begun = engine.control(Picos(0), &init, &program.to_bytes()).unwrap().0;
        assert_eq!(begun.status, Status::Processed);
        let ask = Command { session: 1, attempt: 1, ..Command::plain(Opcode::ReadProc, 0) };
        let asked = engine.admit(Picos(0), &ask).unwrap();
        match engine.begin(&asked, Commit::Core, u64::MAX).unwrap() {
            Begun::Work(work) => *work,
            Begun::Ended(ran) => panic!("{ran:?}"),
        }
    }

    /// The code of none of these is long.
    #[test]
    fn long_walks_of_short_code_have_no_bound() {
        assert!(work(Test::Candidate(1), 100).is_bounded());
        assert!(!work(Test::Candidate(1), 2000).is_bounded(), "a record may walk the whole query");
        // Sums of eight parts, which the code computes once.
        let column = || Box::new(Expr::Column(0));
        let twice = |e: Box<Expr>| Box::new(Expr::Add(e.clone(), e));
        let sum = || *twice(twice(twice(column())));
        let tests = |count| {
            Test::And((0..count).map(|_| Test::Compare(Compare::LessEqual, sum(), sum())).collect())
        };
        assert!(work(tests(10), 1).is_bounded());
        let long = work(tests(300), 1);
        assert!(long.loaded.whole.words().len() <= SHORT_WORDS, "a branch per test");
        assert!(!long.is_bounded(), "the twin computes each of them");
    }

    #[test]
    fn answers_share_the_header() {
        let schema = Schema::new(vec![Column::int("n", 0, 9)]).unwrap();
        let about = About::new(&schema, Format::Columns, 4096);
        let set = DataSet::of_records(&about, (0..9).map(|n| Ok(vec![Value::Int(n)]))).unwrap();
        let mut engine = Engine::new(set, Settings::default());
        let read = Command::plain(Opcode::Read, HEADER_ADDRESS);
        let mut header = || match engine.control(Picos(0), &read, &[]).unwrap().1 {
            Payload::Page(header) => header,
            Payload::Own(_) => panic!("a header of its own for each answer"),
        };
        let (first, again) = (header(), header());
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(&About::parse(first.bytes()).unwrap(), engine.set().about());
    }
}
