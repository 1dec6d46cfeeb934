//! The host: STORE, READ, COMPUTE and GATHER over any [`Device`].
//!
//! Lifecycle of a scan: INIT; pages asked with up to `depth` under way; each answer counted by
//! [`Account`]; FINAL; the device's totals added to the host's. After the loss of a device or a
//! session: reconnect, INIT, and the pages that the device had counted are asked for again.
//!
//! Invariants
//! - A page is counted once. Checked by `any_road_of_each_page_gives_the_plain_answer`.
//! - A scan ends: attempts per page and losses per scan are bounded. Checked by
//!   `a_device_that_stays_away_is_an_error`.
//! - An answer belongs to the scan that asked for it: a request's number is not used again before
//!   it is answered, whichever scan made it. Checked by
//!   `late_answers_of_a_scan_that_failed_are_not_taken_for_the_next_ones`.
//! - A scan that fails leaves no task on the device. Checked by
//!   `late_answers_of_a_scan_that_failed_are_not_taken_for_the_next_ones`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use littoral_base::mutant;
use littoral_base::units::Picos;

use super::engine::{rest_of, split_of};
use super::set::{About, records_of};
use super::wire::Program;
use super::{Device, HEADER_ADDRESS};
use crate::catalogue::{self, Entry};
use crate::command::{Account, Answer as Counted, Command, Completion, Opcode, Status};
use crate::error::{Error, Kind, Result};
use crate::function::{Answer, Compiled, Output, PageResult, reference};
use crate::page::{self, Record};

/// Attempts at a page.
const ATTEMPTS_MAX: u16 = 4;
/// Bytes of pages under way: a served device closes the connection of a host that leaves more bytes
/// of answers unread than one and a half times this.
const UNDER_WAY_MAX: usize = 64 << 20;
/// Losses of the device or the session in one scan.
const LOSSES_MAX: u32 = 3;
/// Requests of earlier scans without an answer beyond which the device counts as lost: half of the
/// numbers that a request may have.
const LATE_MAX: usize = 1 << 15;

/// How a scan asks for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// READ_PROC: the device decides.
    Push,
    /// READ_FILT: the device filters, the host does the rest.
    Filter,
    /// READ: every page is fetched.
    Fetch,
}

impl Plan {
    fn opcode(self) -> Opcode {
        match self {
            Plan::Push => Opcode::ReadProc,
            Plan::Filter => Opcode::ReadFilt,
            Plan::Fetch => Opcode::Read,
        }
    }
}

/// What a scan did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The answer.
    pub answer: Answer,
    /// Pages that the device counted.
    pub on_device: u64,
    /// Pages of which the device sent the records that pass.
    pub filtered: u64,
    /// Pages that came as they are.
    pub raw: u64,
    /// Attempts beyond the first of each page.
    pub retries: u64,
    /// Times that the device or the session was lost.
    pub losses: u32,
    /// Bytes from the device: pages, records, totals, completions.
    pub link_bytes: u64,
    /// Why every page was fetched although the device was asked to compute.
    pub refused: Option<String>,
    /// Time of this host's processor per raw page; zero without one.
    pub host_page: Picos,
    /// Instructions per page that the device told before the scan; none for a new function.
    pub instructions_known: Option<u64>,
    /// Milliseconds without a command after which the device forgets the session; 0: never.
    pub lease_ms: u32,
}

/// A host with a device.
pub struct Host<D> {
    device: D,
    session: u32,
    task: u16,
    depth: usize,
    /// The number of the latest request for a page. Other commands have number 0, as none of them
    /// is under way beside another command.
    last_id: u16,
    /// Requests of scans that have failed or begun again, whose answers have not come yet.
    late: BTreeSet<u16>,
}

/// What the device stores: its header, and its number, which changes when it is replaced.
type Stored = (About, u32);

/// A scan under way.
struct Job<'a> {
    program: &'a Program,
    plan: Plan,
    /// The data set that is scanned; none before the first try.
    stored: Option<Stored>,
    whole: Compiled,
    split: Option<Compiled>,
    /// The function as the device granted it.
    granted: Option<Compiled>,
    account: Account,
    open: VecDeque<usize>,
    asked: BTreeMap<u16, usize>,
    opcode: Opcode,
    outcome: Outcome,
}

impl<D: Device> Host<D> {
    /// A host that keeps up to `depth` pages under way, of 64 MiB at most; `session` tells it from
    /// other hosts of the device.
    pub fn new(device: D, session: u32, depth: usize) -> Host<D> {
        assert!((1..=4096).contains(&depth), "a queue has 1 to 4096 slots");
        Host { device, session, task: 0, depth, last_id: 0, late: BTreeSet::new() }
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn command(&self, opcode: Opcode, id: u16, address: u64) -> Command {
        let (session, task) = (self.session, self.task);
        Command { id, session, task, ..Command::plain(opcode, address) }
    }

    /// Sends a command while none is under way and waits for its answer.
    fn call(&mut self, command: Command, payload: &[u8]) -> Result<(Completion, Vec<u8>)> {
        self.device.submit(&command, payload)?;
        loop {
            let (completion, data) = self.device.wait()?;
            if completion.id == command.id {
                return Ok((completion, data));
            }
            self.late.remove(&completion.id);
        }
    }

    /// The next answer to a request for a page; late answers of other scans are dropped.
    fn answer(&mut self) -> Result<(Completion, Vec<u8>)> {
        loop {
            let (completion, data) = self.device.wait()?;
            if !self.late.remove(&completion.id) {
                return Ok((completion, data));
            }
        }
    }

    /// A number that no request under way has.
    fn next_id(&mut self, asked: &BTreeMap<u16, usize>) -> u16 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            let id = self.last_id;
            if id != 0 && !asked.contains_key(&id) && !self.late.contains(&id) {
                return id;
            }
        }
    }

    /// What is known of the device's data set.
    ///
    /// # Errors
    /// [`Kind::Io`] when the device is lost, [`Kind::Corrupt`] for a damaged header.
    pub fn about(&mut self) -> Result<About> {
        Ok(self.stored()?.0)
    }

    fn stored(&mut self) -> Result<Stored> {
        let (completion, header) = self.call(self.command(Opcode::Read, 0, HEADER_ADDRESS), &[])?;
        Ok((About::parse(&header)?, completion.merged))
    }

    /// The functions that the device has loaded so far; none if it runs no page functions.
    ///
    /// # Errors
    /// [`Kind::Io`] when the device is lost, [`Kind::Corrupt`] for bytes that are no catalogue.
    pub fn catalogue(&mut self) -> Result<Option<Vec<Entry>>> {
        let (completion, bytes) = self.call(self.command(Opcode::Catalogue, 0, 0), &[])?;
        let is_known = completion.status == Status::Result;
        is_known.then(|| catalogue::decode(&bytes)).transpose()
    }

    /// Whether the device runs page functions, and what it knows of the program's.
    fn discover(&mut self, job: &mut Job<'_>) -> Result<()> {
        let Some(entries) = self.catalogue()? else {
            let why = "the device runs no page functions";
            log::info!("{why}; every page is fetched");
            job.outcome.refused = Some(why.to_owned());
            job.opcode = Opcode::Read;
            return Ok(());
        };
        let own = Entry::of_program(&job.whole, job.program.elf.as_deref());
        let found = entries.iter().find(|e| e.name == own.name && e.version == own.version);
        job.outcome.instructions_known = found.and_then(Entry::mean);
        Ok(())
    }

    /// STORE: replaces the device's data set by these records; what is now there.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a size that pages do not have, or for a record that the schema does not
    /// allow or that exceeds a page,
    /// [`Kind::Io`] when the device refuses a write or is lost. The old data set is then untouched.
    pub fn store(
        &mut self,
        about: &About,
        records: impl IntoIterator<Item = Result<Record>>,
    ) -> Result<About> {
        // The device would refuse such a header without a reason.
        page::Writer::new(&about.schema, about.format, about.page_bytes)?;
        self.revive()?;
        let empty = About { pages: 0, rows: 0, ..about.clone() };
        self.write(HEADER_ADDRESS, &empty.to_bytes())?;
        let mut is_refused = false;
        let put = |n, page: &[u8]| self.write(n, page).inspect_err(|_| is_refused = true);
        let written = records_of(about, records, put);
        let written = written.and_then(|(pages, rows)| match rows {
            0 => Err(Error::new(Kind::Usage, "there is no record to store")),
            _ => Ok((pages, rows)),
        });
        if written.is_err() && !is_refused {
            // A header without bytes: the device refuses it and gives the new data set up, as it
            // did where it refused a page.
            let _ = self.write(HEADER_ADDRESS, &[]);
        }
        let (pages, rows) = written?;
        let about = About { pages, rows, ..about.clone() };
        self.write(HEADER_ADDRESS, &about.to_bytes())?;
        Ok(about)
    }

    /// Connects again to a device that has closed the connection: a host that reads a long table
    /// before it stores is silent for longer than a lease.
    fn revive(&mut self) -> Result<()> {
        match self.about() {
            Err(e) if e.kind() == Kind::Io && !mutant!("push_store_to_a_closed_connection") => {
                log::info!("{e}; connecting again");
                self.device.reconnect()?;
                self.late.clear();
                Ok(())
            }
            // What is stored now may be damaged: it is replaced.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<()> {
        let (completion, words) = self.call(self.command(Opcode::Write, 0, address), data)?;
        if completion.status == Status::Processed {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&words);
        let why = if words.is_empty() { String::new() } else { format!(": {words}") };
        let what = format!("the device answered {:?} to a write{why}", completion.status);
        let what = format!("{what}; the old data set is still there");
        Err(Error::new(Kind::Io, what))
    }

    /// READ, COMPUTE and GATHER: runs a program over the device's pages.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a program that does not fit the data set, [`Kind::Corrupt`] naming a
    /// page that does not verify, [`Kind::Io`] when the device is lost and does not come back.
    pub fn scan(&mut self, program: &Program, plan: Plan) -> Result<Outcome> {
        let mut job = Job::new(program, plan)?;
        loop {
            let done = self.go(&mut job);
            self.leave(&mut job);
            match done {
                Ok(()) => return Ok(job.outcome),
                Err(e) if matches!(e.kind(), Kind::Io | Kind::SessionGone) => {
                    self.recover(&mut job, e)?;
                }
                Err(e) => {
                    self.give_up(&job);
                    return Err(e);
                }
            }
        }
    }

    /// Notes what is still under way: its answers belong to no scan any more.
    fn leave(&mut self, job: &mut Job<'_>) {
        let asked = std::mem::take(&mut job.asked);
        if mutant!("push_late_answers_are_taken") {
            self.last_id = 0;
            return;
        }
        self.late.extend(asked.into_keys());
    }

    /// Ends the task of a scan that fails, where the device has begun one.
    fn give_up(&mut self, job: &Job<'_>) {
        if job.granted.is_some() {
            // The scan's own error is told; a device that is lost has no task left.
            let _ = self.call(self.command(Opcode::Abort, 0, 0), &[]);
        }
    }

    /// Makes the device usable again, or gives up with the error that lost it.
    fn recover(&mut self, job: &mut Job<'_>, lost: Error) -> Result<()> {
        job.outcome.losses += 1;
        if job.outcome.losses > LOSSES_MAX {
            return Err(lost.in_context(format!("lost {LOSSES_MAX} times and again")));
        }
        if lost.kind() == Kind::Io {
            self.device.reconnect()?;
            // What was under way is not answered.
            self.late.clear();
        }
        let again = job.account.lost().len();
        log::info!("{lost}; {again} pages are asked for again");
        Ok(())
    }

    /// From INIT to FINAL, for what is open: everything if the data set is another.
    fn go(&mut self, job: &mut Job<'_>) -> Result<()> {
        let stored = self.stored()?;
        if job.stored.as_ref() != Some(&stored) {
            job.begin(stored)?;
        }
        self.task = self.task.wrapping_add(1);
        job.open = (0..job.account.len()).filter(|&p| job.account.is_open(p)).collect();
        job.granted = None;
        if job.opcode != Opcode::Read {
            self.discover(job)?;
        }
        if job.opcode != Opcode::Read {
            self.init(job)?;
        }
        let page_bytes = job.stored.as_ref().map_or(1, |s| s.0.page_bytes);
        let depth = self.depth.min(UNDER_WAY_MAX / page_bytes);
        while !job.open.is_empty() || !job.asked.is_empty() {
            while job.asked.len() < depth {
                let Some(page) = job.open.pop_front() else { break };
                self.ask(job, page)?;
            }
            let began = processor_time();
            let (completion, data) = self.answer()?;
            job.outcome.link_bytes += (data.len() + crate::command::COMPLETION_BYTES) as u64;
            job.take(&completion, data)?;
            if completion.status == Status::Raw {
                job.observe(Picos(processor_time().0 - began.0));
            }
        }
        job.outcome.answer.rows.sort_unstable();
        self.gather(job)
    }

    fn init(&mut self, job: &mut Job<'_>) -> Result<()> {
        let payload = job.program.to_bytes();
        let mut command = self.command(Opcode::Init, 0, job.stores().into());
        (command.page, command.bytes) = (job.account.len() as u64, payload.len() as u32);
        let (completion, words) = self.call(command, &payload)?;
        match completion.status {
            Status::Processed => {
                let slots_max = completion.bytes as usize;
                job.outcome.lease_ms = completion.merged;
                let function = job.program.function.clone();
                let function = crate::function::Function { slots_max, ..function };
                job.granted = Some(Compiled::new(&function, job.program.format)?);
            }
            Status::Refused | Status::Exhausted => {
                let words = String::from_utf8_lossy(&words).into_owned();
                let why = format!("the device answered {:?} to INIT {words}", completion.status);
                log::info!("{why}; every page is fetched");
                job.outcome.refused = Some(why.trim_end().to_owned());
                job.opcode = Opcode::Read;
            }
            Status::SessionGone => return Err(gone()),
            Status::Filtered | Status::Raw | Status::MediaError | Status::Result => {
                let what = format!("the device answered {:?} to INIT", completion.status);
                return Err(Error::new(Kind::Corrupt, what));
            }
        }
        Ok(())
    }

    fn ask(&mut self, job: &mut Job<'_>, page: usize) -> Result<()> {
        let attempt = job.account.attempt(page);
        job.outcome.retries += u64::from(attempt > 1);
        if self.late.len() > LATE_MAX {
            let what = format!("the device leaves {} requests without an answer", self.late.len());
            return Err(Error::new(Kind::Io, what));
        }
        let id = self.next_id(&job.asked);
        let mut command = self.command(job.opcode, id, page as u64);
        (command.page, command.attempt) = (page as u64, attempt);
        command.bytes = job.stored.as_ref().map_or(0, |s| s.0.page_bytes as u32);
        // This thread computes on a page before it asks for the next: its backlog is none.
        (command.host_page, command.backlog) = (job.outcome.host_page.0, 0);
        let other = job.asked.insert(id, page);
        debug_assert!(other.is_none(), "request {id} is under way");
        self.device.submit(&command, &[])
    }

    /// GATHER: FINAL's totals.
    fn gather(&mut self, job: &mut Job<'_>) -> Result<()> {
        let Some(granted) = &job.granted else { return Ok(()) };
        let (completion, data) = self.call(self.command(Opcode::Final, 0, 0), &[])?;
        job.outcome.link_bytes += (data.len() + crate::command::COMPLETION_BYTES) as u64;
        if completion.status == Status::SessionGone {
            return Err(gone());
        }
        job.account.check(completion.merged)?;
        if granted.returns_rows() {
            return Ok(());
        }
        if data.len() as u64 != granted.totals_bytes() {
            let what = format!("FINAL brought {} bytes of totals; run the scan again", data.len());
            return Err(Error::new(Kind::Corrupt, what));
        }
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("invariant: eight bytes"));
        let words: Vec<u64> = data.chunks(8).map(word).collect();
        job.outcome.answer.add_totals(granted, &words);
        job.outcome.on_device = completion.merged.into();
        Ok(())
    }

    /// The same device for another host; late answers to this one are waited for and dropped.
    pub fn into_device(mut self) -> D {
        // A device that is lost has none.
        while !self.late.is_empty() {
            let Ok((completion, _)) = self.device.wait() else { break };
            self.late.remove(&completion.id);
        }
        self.device
    }
}

/// Time that this thread has spent on a processor: what a page costs the host, however many other
/// programs it runs.
fn processor_time() -> Picos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Picos::from_nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

fn gone() -> Error {
    let what = "the device has forgotten the session: its lease ran out or its data were replaced";
    Error::new(Kind::SessionGone, what)
}

impl Job<'_> {
    fn new(program: &Program, plan: Plan) -> Result<Job<'_>> {
        let whole = Compiled::new(&program.function, program.format)?;
        whole.check_params(&program.params)?;
        Ok(Job {
            program,
            plan,
            stored: None,
            whole,
            split: Compiled::new(&split_of(&program.function), program.format).ok(),
            granted: None,
            account: Account::new(0),
            open: VecDeque::new(),
            asked: BTreeMap::new(),
            opcode: plan.opcode(),
            outcome: Outcome::default(),
        })
    }

    /// Begins with a data set: nothing of another one is kept.
    fn begin(&mut self, stored: Stored) -> Result<()> {
        let (about, function) = (&stored.0, &self.program.function);
        if function.schema != about.schema || self.program.format != about.format {
            let what = "the function was made for another schema or format of pages";
            return Err(Error::new(Kind::Usage, what));
        }
        // Commands count pages in 32 bits; what counts more is damaged, and memory for it is not
        // taken.
        let pages = u32::try_from(about.pages).map_err(|_| {
            let what = format!("the device's header counts {} pages; store the data", about.pages);
            Error::new(Kind::Corrupt, format!("{what} again"))
        })?;
        self.account = Account::new(pages as usize);
        self.opcode = self.plan.opcode();
        let Outcome { retries, losses, link_bytes, host_page, .. } = self.outcome;
        self.outcome = Outcome { retries, losses, link_bytes, host_page, ..Outcome::default() };
        self.stored = Some(stored);
        Ok(())
    }

    /// The number of the data set when its header was read.
    fn stores(&self) -> u32 {
        self.stored.as_ref().map_or(0, |s| s.1)
    }

    /// Takes one answer.
    fn take(&mut self, completion: &Completion, data: Vec<u8>) -> Result<()> {
        let Some(number) = self.asked.remove(&completion.id) else { return Ok(()) };
        // Pages that are only read belong to no session: their answers tell the data set.
        let is_replaced = self.opcode == Opcode::Read && completion.merged != self.stores();
        if completion.status == Status::SessionGone || is_replaced {
            return Err(gone());
        }
        // A raw page has travelled: it is verified here, and then no more.
        let check = || page::check(&data, &self.program.function.schema).ok();
        let header = (completion.status == Status::Raw).then(check).flatten();
        let is_own =
            |h: &page::Header| h.number == number as u64 && h.format == self.program.format;
        let header = header.filter(is_own);
        let is_damaged = completion.status == Status::Raw && header.is_none();
        let status = if is_damaged { Status::MediaError } else { completion.status };
        match self.account.answered(number, completion.attempt, status) {
            Counted::OnDevice => {}
            Counted::Compute => match header {
                Some(header) => self.compute(&data, &header)?,
                None => self.compute_rest(&data)?,
            },
            Counted::Ignore => {
                // The answer to the last attempt is still to come.
                self.asked.insert(completion.id, number);
            }
            Counted::Retry if completion.attempt >= ATTEMPTS_MAX => {
                let what = format!("page {number} cannot be read: {status:?} after");
                let what = format!("{what} {ATTEMPTS_MAX} attempts; store the data again");
                return Err(Error::new(Kind::Corrupt, what));
            }
            Counted::Retry => self.open.push_back(number),
        }
        Ok(())
    }

    /// Notes what a raw page took of the processor.
    fn observe(&mut self, time: Picos) {
        let mean = &mut self.outcome.host_page.0;
        *mean = if *mean == 0 { time.0 } else { *mean - *mean / 8 + time.0 / 8 };
    }

    /// COMPUTE on a raw page.
    fn compute(&mut self, page: &[u8], header: &page::Header) -> Result<()> {
        self.outcome.raw += 1;
        let Program { function, params, .. } = self.program;
        let run = self.whole.host_on(params, page, header)?;
        match &run.result {
            PageResult::Spilled => {
                self.outcome.answer.merge(&reference::answer(function, params, page)?);
            }
            PageResult::Rows(rows) => self.outcome.answer.add_rows(&self.whole, rows)?,
            partial @ PageResult::Partial(_) => self.outcome.answer.add(&self.whole, partial)?,
        }
        Ok(())
    }

    /// COMPUTE on the records that pass.
    fn compute_rest(&mut self, data: &[u8]) -> Result<()> {
        self.outcome.filtered += 1;
        let Program { function, params, .. } = self.program;
        if let Output::Rows(_) = function.output {
            return self.outcome.answer.add_rows(&self.whole, data);
        }
        let split = self.split.as_ref().map(Compiled::function);
        let split =
            split.ok_or_else(|| Error::new(Kind::Corrupt, "records that were not asked"))?;
        let part = reference::answer_packed(&rest_of(function), split, params, data)?;
        self.outcome.answer.merge(&part);
        Ok(())
    }
}
