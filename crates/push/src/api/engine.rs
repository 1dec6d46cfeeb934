//! What a device does with commands, without a clock of its own: sessions, programs, page
//! functions, totals. [`super::Local`] runs a command when it comes; a server runs it when a
//! modelled core is free.
//!
//! A read of a page goes [`Engine::admit`], [`Engine::run`], [`Engine::end`]; the other commands go
//! through [`Engine::control`].
//!
//! Invariants
//! - No page function runs on a page that does not verify. Checked by
//!   `a_damaged_page_is_asked_for_again_and_then_named`.
//! - A run that fails leaves the totals as they were. Checked by
//!   `hostile_programs_give_the_answer_by_another_road`.

use std::collections::BTreeMap;

use littoral_base::fault::{Op, Plan, Verdict};
use littoral_base::units::Picos;

use super::HEADER_ADDRESS;
use super::set::{About, DataSet};
use super::wire::Program;
use crate::command::{Admission, Command, Completion, Ending, Opcode, Quotas, Sessions, Status};
use crate::error::{Error, Kind, Result};
use crate::fault::run_of;
use crate::function::{Answer, Compiled, Function, Machine, Output, PageResult, Params, Test};
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
    /// Sessions, tasks, pages, lease.
    pub quotas: Quotas,
}

impl Default for Settings {
    fn default() -> Settings {
        let quotas = Quotas { sessions: 64, tasks: 16, pages: 1 << 32, lease: Picos(u64::MAX) };
        let (budget, memory_bytes) = (1 << 24, 1 << 20);
        Settings { computes: true, cores: Cores::Interpreter, budget, memory_bytes, quotas }
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

struct Task {
    whole: Compiled,
    split: Option<Compiled>,
    params: Params,
    core: Option<Machine>,
    totals: Vec<u64>,
}

/// What became of a page on a core or on the way to the link.
#[derive(Debug)]
pub struct Ran {
    /// Instructions that the core spends.
    pub instructions: u64,
    ending: Ending,
    partial: Option<crate::function::Scratch>,
    /// What goes to the host.
    pub payload: Vec<u8>,
}

impl Ran {
    fn shipped(status: Status, instructions: u64, payload: Vec<u8>) -> Ran {
        Ran { instructions, ending: Ending::Shipped(status), partial: None, payload }
    }

    /// A page whose host is gone.
    pub(crate) fn dropped() -> Ran {
        Ran::shipped(Status::Raw, 0, Vec::new())
    }

    /// Whether a run on a core ended without a result.
    pub fn fell_back(&self) -> bool {
        matches!(self.ending, Ending::Shipped(Status::Raw | Status::MediaError))
    }
}

/// A device's state.
pub struct Engine {
    set: DataSet,
    settings: Settings,
    sessions: Sessions,
    tasks: BTreeMap<(u32, u16), Task>,
    faults: Plan,
}

/// A completion and the data that go with it.
pub(super) type Reply = (Completion, Vec<u8>);

/// An answer to `command`.
pub(super) fn reply(command: &Command, status: Status, data: Vec<u8>) -> Reply {
    let (id, attempt, bytes) = (command.id, command.attempt, data.len() as u32);
    (Completion { id, attempt, status, bytes, merged: 0 }, data)
}

impl Engine {
    /// A device with a data set.
    pub fn new(set: DataSet, settings: Settings) -> Engine {
        let sessions = Sessions::new(settings.quotas);
        Engine { set, settings, sessions, tasks: BTreeMap::new(), faults: Plan::none() }
    }

    /// Faults of page functions ([`Op::Task`]).
    pub fn set_faults(&mut self, faults: Plan) {
        self.faults = faults;
    }

    /// The data set.
    pub fn set(&self) -> &DataSet {
        &self.set
    }

    /// Sessions that the device remembers.
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }

    /// Whether the device remembers a task.
    pub fn knows(&self, (session, task): (u32, u16)) -> bool {
        self.sessions.knows(session, task)
    }

    /// Power has come back: sessions and totals are lost.
    pub fn restart(&mut self) {
        self.sessions = Sessions::new(self.settings.quotas);
        self.tasks.clear();
        self.faults.restore_power();
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
            Opcode::Write => reply(command, self.write(command, payload), Vec::new()),
            Opcode::Read => self.read(command),
            Opcode::Init => self.init(now, command, payload),
            Opcode::Final => return self.finish(now, command),
            Opcode::Abort => {
                self.sessions.abort(command.session, command.task);
                self.tasks.remove(&(command.session, command.task));
                reply(command, Status::Processed, Vec::new())
            }
            Opcode::Catalogue => {
                let Settings { budget, memory_bytes, quotas, .. } = &self.settings;
                let (sessions, tasks) = (quotas.sessions, quotas.tasks);
                let text = format!(
                    "budget {budget}\nmemory {memory_bytes}\nsessions {sessions}\ntasks {tasks}\n"
                );
                reply(command, Status::Result, text.into_bytes())
            }
            Opcode::ReadProc | Opcode::ReadFilt => reply(command, Status::Refused, Vec::new()),
        })
    }

    fn write(&mut self, command: &Command, payload: &[u8]) -> Status {
        let done = if command.address == HEADER_ADDRESS {
            About::parse(payload).and_then(|about| match about.pages {
                0 if about.rows == 0 => self.set.begin(&about),
                _ => self.set.commit(&about),
            })
        } else {
            self.set.put(command.address, payload)
        };
        match done.map_err(|e| e.kind()) {
            Ok(()) => Status::Processed,
            Err(Kind::Io) => Status::MediaError,
            Err(
                Kind::Usage
                | Kind::Corrupt
                | Kind::Exhausted
                | Kind::SessionGone
                | Kind::Unsupported,
            ) => Status::Refused,
        }
    }

    fn read(&self, command: &Command) -> Reply {
        if command.address == HEADER_ADDRESS {
            return reply(command, Status::Raw, self.set.about().to_bytes());
        }
        match self.set.read(command.address) {
            Ok(page) => reply(command, Status::Raw, page.into_owned()),
            Err(e) if e.kind() == Kind::Usage => reply(command, Status::Refused, Vec::new()),
            Err(_) => reply(command, Status::MediaError, Vec::new()),
        }
    }

    /// INIT: the completion's `bytes` are the slots of the group table.
    fn init(&mut self, now: Picos, command: &Command, payload: &[u8]) -> Reply {
        if payload.len() as u64 > self.settings.memory_bytes {
            return reply(command, Status::Exhausted, Vec::new());
        }
        let task = match Program::parse(payload).and_then(|p| self.task(p)) {
            Ok(task) => task,
            Err(e) if e.kind() == Kind::Exhausted => {
                return reply(command, Status::Exhausted, Vec::new());
            }
            Err(e) => {
                log::debug!("INIT is refused: {e}");
                return reply(command, Status::Refused, e.to_string().into_bytes());
            }
        };
        let (session, number) = (command.session, command.task);
        let status = self.sessions.init(now, session, number, command.page);
        let mut answer = reply(command, status, Vec::new());
        if status == Status::Processed {
            answer.0.bytes = task.whole.function().slots_max as u32;
            self.tasks.insert((session, number), task);
        }
        answer
    }

    fn task(&self, program: Program) -> Result<Task> {
        let Program { mut function, format, params, elf } = program;
        let slot_bytes = match &function.output {
            Output::Aggregate { sums, .. } => 8 + 24 * sums.len() as u64,
            Output::Rows(_) => 8,
        };
        let slots = (self.settings.memory_bytes / slot_bytes).max(1);
        function.slots_max = function.slots_max.min(usize::try_from(slots).unwrap_or(usize::MAX));
        let whole = Compiled::new(&function, format)?;
        whole.check_params(&params)?;
        let core = match (&elf, self.settings.cores) {
            (Some(elf), _) => Some(Machine::with_file(&whole, &params, elf)?),
            (None, Cores::Interpreter) => Some(Machine::new(&whole, &params)?),
            (None, Cores::Twin) => None,
        };
        // A split that does not compile is no reason to refuse the whole: its pages go raw.
        let split = Compiled::new(&split_of(&function), format).ok();
        let totals = if whole.returns_rows() { Vec::new() } else { whole.totals() };
        Ok(Task { whole, split, params, core, totals })
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

    /// READ_PROC, READ_FILT: whether the page is to be read, or the answer at once.
    pub fn admit(&mut self, now: Picos, command: &Command) -> Option<(Completion, Vec<u8>)> {
        if !self.settings.computes {
            return Some(reply(command, Status::Refused, Vec::new()));
        }
        match self.sessions.admit(now, command) {
            Admission::Admitted => None,
            Admission::Answered(status) => Some(reply(command, status, Vec::new())),
        }
    }

    /// What an admitted page gives under a policy's decision. The page is not counted before
    /// [`Engine::end`].
    ///
    /// # Errors
    /// [`Kind::Io`] when a fault cuts the device off.
    pub fn run(&mut self, command: &Command, commit: Commit) -> Result<Ran> {
        let page = match self.set.read(command.address) {
            Ok(page) => page,
            Err(_) => return Ok(Ran::shipped(Status::MediaError, 0, Vec::new())),
        };
        let Some(task) = self.tasks.get_mut(&(command.session, command.task)) else {
            return Ok(Ran::shipped(Status::SessionGone, 0, Vec::new()));
        };
        let Ok(header) = page::check(&page, &task.whole.function().schema) else {
            return Ok(Ran::shipped(Status::MediaError, 0, Vec::new()));
        };
        let is_filter = match commit {
            Commit::Link | Commit::Hold => {
                return Ok(Ran::shipped(Status::Raw, 0, page.into_owned()));
            }
            Commit::Core => command.opcode == Opcode::ReadFilt,
            Commit::Filter => true,
        };
        let verdict = self.faults.judge(Op::Task);
        if verdict == Verdict::Cut {
            return Err(Error::new(Kind::Io, "the device has lost power: reconnect"));
        }
        let budget = self.settings.budget;
        let (result, wanted) = task.compute(&page, &header, is_filter, budget);
        let (instructions, falls_back) = run_of(verdict, wanted, budget);
        Ok(match result {
            Some(PageResult::Partial(scratch)) if !falls_back => {
                let (partial, payload) = (Some(scratch), Vec::new());
                Ran { instructions, ending: Ending::Computed, partial, payload }
            }
            Some(PageResult::Rows(rows)) if !falls_back => {
                Ran::shipped(Status::Filtered, instructions, rows)
            }
            Some(_) | None => Ran::shipped(Status::Raw, instructions, page.into_owned()),
        })
    }

    /// Counts a page and answers its command.
    pub fn end(&mut self, command: &Command, ran: Ran) -> (Completion, Vec<u8>) {
        let merged = |e: &Self| e.sessions.merged(command.session, command.task);
        let before = merged(self);
        let status = self.sessions.ended(command, ran.ending);
        if merged(self) > before {
            let task = self.tasks.get_mut(&(command.session, command.task));
            let (task, scratch) = task.zip(ran.partial).expect("invariant: it was computed");
            task.whole.merge(&scratch, &mut task.totals);
        }
        let has_data = matches!(status, Status::Raw | Status::Filtered);
        reply(command, status, if has_data { ran.payload } else { Vec::new() })
    }
}

impl Task {
    /// The result, or none after a trap, a spent budget or records that do not parse; and the
    /// instructions that the core wants.
    fn compute(
        &mut self,
        page: &[u8],
        header: &page::Header,
        is_filter: bool,
        budget: u64,
    ) -> (Option<PageResult>, u64) {
        let params = &self.params;
        if is_filter && !self.whole.returns_rows() {
            let split = self.split.as_ref().and_then(|s| s.host_on(params, page, header).ok());
            return split.map_or((None, 0), |run| (Some(run.result), run.instructions));
        }
        let Some(core) = &mut self.core else {
            let run = self.whole.host_on(params, page, header).ok();
            return run.map_or((None, 0), |run| {
                let wanted = run.instructions + run.merge_instructions;
                (Some(run.result), wanted)
            });
        };
        match core.run(page, budget) {
            Ok((PageResult::Rows(rows), n)) => {
                let parses = Answer::default().add_rows(&self.whole, &rows).is_ok();
                (parses.then_some(PageResult::Rows(rows)), n)
            }
            Ok((result, n)) => (Some(result), n),
            Err(_) => (None, budget),
        }
    }
}
