//! The served device in virtual time: sessions that misbehave beside sessions that do not.
//!
//! Three tenants share a device of four cores: one scans, one reads plain pages, the third does
//! what [`Third`] says. What the first two get and how long each of their pages takes is compared
//! with the same beside a third tenant that reads.
//!
//! Invariants
//! - A run is a function of its argument: no clock of the machine is read. Checked by
//!   `others_are_served_beside_sessions_that_misbehave`.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use littoral_base::units::Picos;
use littoral_la64::elf;
use littoral_push::api::{
    About, Cores, DataSet, Device, Engine, Host, Plan, Program, Scan, Settings,
};
use littoral_push::command::{Command, Completion, Opcode, Quotas, Status};
use littoral_push::device::{Machine, served};
use littoral_push::error::{Error, Kind, Result};
use littoral_push::function::Answer;
use littoral_push::page::{Column, Format, Schema, Value};
use littoral_push::policy::Policy;
use littoral_push::serve::paced::Paced;

/// Records of the scan.
pub const ROWS: i64 = 6_000_000;
const DEPTH: usize = 16;
/// LA64: a branch to itself.
const LOOP: u32 = 0x5000_0000;
/// LA64: a store at the address of r0, which is 0.
const WILD_STORE: u32 = 0x29c0_0000;
/// Sessions of a tenant that has many.
const MANY: u64 = 60;
/// The tenants by number.
const SCAN: u32 = 1;
const READER: u32 = 2;
const THIRD: u32 = 3;

/// What the third tenant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Third {
    /// Reads pages.
    Reads,
    /// Asks for pages with a function that never ends, and begins anew when it is through.
    Loops,
    /// Begins a scan, asks for pages and is silent.
    IsForgotten,
    /// Begins a scan, asks for pages and loses its connection, again and again.
    IsHalfOpen,
    /// Asks for pages with a function that stores outside its memory.
    StoresWildly,
    /// Asks for pages with a function whose groups have no room in the device's table.
    Spills,
    /// Begins tasks with another processor's ELF file, one behind the other.
    IsForeign,
    /// Begins tasks with an ELF file that wants a terabyte, one behind the other.
    IsHuge,
    /// Scans in one session.
    Scans,
    /// Scans in [`MANY`] sessions, as many pages under way as one.
    HasManySessions,
}

impl Third {
    /// The tenant that asks for as much and does not misbehave.
    pub fn calm(self) -> Third {
        match self {
            Third::Scans | Third::HasManySessions => Third::Scans,
            _ => Third::Reads,
        }
    }

    /// Whether its tasks are refused.
    fn is_refused(self) -> bool {
        matches!(self, Third::IsForeign | Third::IsHuge)
    }

    /// Whether its functions give no result, so that its pages come back as they are.
    pub fn fails(self) -> bool {
        matches!(self, Third::Loops | Third::StoresWildly | Third::Spills)
    }

    /// The sessions that it has at a time.
    fn sessions(self) -> u64 {
        if self == Third::HasManySessions { MANY } else { 1 }
    }
}

fn set() -> Result<DataSet> {
    let schema = Schema::new(vec![Column::int("n", 0, 99), Column::int("m", 0, 9)])?;
    let about = About::new(&schema, Format::Columns, 4096);
    let record = |n: i64| Ok(vec![Value::Int(n % 100), Value::Int(n % 10)]);
    DataSet::of_records(&about, (0..ROWS).map(record))
}

fn machine() -> Result<Machine> {
    served(300_000_000, 4, 400, 4096)
}

fn program(about: &About) -> Result<Program> {
    let (filter, sums) = (Some("n < 50".to_owned()), vec!["n * m".to_owned()]);
    let scan = Scan { filter, keys: vec!["m".to_owned()], sums, columns: vec![] };
    Ok(scan.plan(about)?.0)
}

/// What a tenant does that misbehaves.
pub const HOSTILE: [Third; 8] = [
    Third::Loops,
    Third::IsForgotten,
    Third::IsHalfOpen,
    Third::StoresWildly,
    Third::Spills,
    Third::IsForeign,
    Third::IsHuge,
    Third::HasManySessions,
];

/// The device, its tenants' scripts, and what each tenant's pages took.
struct World {
    device: Paced<u32>,
    now: Picos,
    about: About,
    program: Program,
    third: Third,
    asked: BTreeMap<(u32, u16), Picos>,
    times: BTreeMap<u32, Vec<Picos>>,
    answers: VecDeque<(Completion, Vec<u8>)>,
    next: BTreeMap<u32, u64>,
    begun: u32,
    steps: u32,
}

impl World {
    fn new(third: Third) -> Result<World> {
        let quotas = Quotas { sessions: 64, tasks: 4, pages: 1 << 20, lease: Picos(1 << 60) };
        let machine = machine()?;
        let budget = machine.budget;
        let settings = Settings { cores: Cores::Twin, quotas, budget, ..Settings::default() };
        let engine = Engine::new(set()?, settings);
        let about = engine.set().about().clone();
        let device = Paced::new(engine, machine, Policy::Late);
        let program = program(&about)?;
        let mut world = World {
            device,
            now: Picos(0),
            about,
            program,
            third,
            asked: BTreeMap::new(),
            times: BTreeMap::new(),
            answers: VecDeque::new(),
            next: BTreeMap::new(),
            begun: 0,
            steps: 0,
        };
        for _ in 0..DEPTH {
            world.ask(READER, Opcode::Read);
        }
        world.begin_third();
        Ok(world)
    }

    fn send(&mut self, tenant: u32, command: &Command, data: Vec<u8>) {
        self.asked.insert((tenant, command.id), self.now);
        self.device.request(tenant, command.encode(), data);
    }

    /// Asks for a tenant's next page; one with many sessions asks for a page of each in turn.
    fn ask(&mut self, tenant: u32, opcode: Opcode) {
        let next = self.next.entry(tenant).or_insert(0);
        *next += 1;
        let sessions = if tenant == THIRD { self.third.sessions() } else { 1 };
        let (page, id) = (*next / sessions % self.about.pages, *next as u16);
        let session = tenant + self.begun + (*next % sessions) as u32;
        let command = Command { id, session, page, attempt: 1, ..Command::plain(opcode, page) };
        self.send(tenant, &command, Vec::new());
    }

    /// The third tenant's page function.
    fn hostile(&self) -> Program {
        let mut program = self.program.clone();
        let mut code = elf::executable(0x1_0000, &[LOOP]);
        match self.third {
            Third::Loops => {}
            Third::StoresWildly => code = elf::executable(0x1_0000, &[WILD_STORE, LOOP]),
            Third::IsForeign => code[18] = 62,
            Third::IsHuge => code[104..112].copy_from_slice(&(1u64 << 40).to_le_bytes()),
            Third::Spills => program.function.slots_max = 1,
            Third::Reads
            | Third::IsForgotten
            | Third::IsHalfOpen
            | Third::Scans
            | Third::HasManySessions => {}
        }
        let is_file =
            self.third.is_refused() || matches!(self.third, Third::Loops | Third::StoresWildly);
        Program { elf: is_file.then_some(code), ..program }
    }

    /// INIT of one of the third tenant's sessions.
    fn init(&mut self, session: u32) {
        let (page, id) = (self.about.pages, u16::MAX);
        let init = Command { id, session, page, ..Command::plain(Opcode::Init, 0) };
        let program = self.hostile().to_bytes();
        self.send(THIRD, &init, program);
    }

    fn begin_third(&mut self) {
        if self.third == Third::Reads {
            (0..DEPTH).for_each(|_| self.ask(THIRD, Opcode::Read));
            return;
        }
        self.next.insert(THIRD, 0);
        for session in 0..self.third.sessions() {
            self.init(THIRD + self.begun + session as u32);
        }
        if self.third.is_refused() {
            return;
        }
        (0..DEPTH).for_each(|_| self.ask(THIRD, Opcode::ReadProc));
        if self.third == Third::IsHalfOpen {
            self.device.advance(self.now);
            self.device.drop_host(THIRD);
        }
    }

    /// Time goes on to the next event; the tenants that have an answer ask again.
    fn step(&mut self) {
        self.steps += 1;
        let done: Vec<(u32, usize)> = self.times.iter().map(|(t, all)| (*t, all.len())).collect();
        let what = "the scan does not end: others keep it from its turn";
        assert!(self.steps < 100_000, "{what}: {} {done:?} of {}", self.now, self.about.pages);
        self.now = self.device.next().map_or(self.now, |at| at.max(self.now));
        assert!(self.device.advance(self.now).is_empty(), "every entry is a command");
        while let Some((tenant, entry, data)) = self.device.response() {
            let completion = Completion::decode(&entry);
            let completion = completion.expect("invariant: the device sends completions");
            let asked = self.asked.remove(&(tenant, completion.id));
            if let Some(asked) = asked.filter(|_| completion.id != u16::MAX) {
                self.times.entry(tenant).or_default().push(Picos(self.now.0 - asked.0));
            }
            match tenant {
                SCAN => self.answers.push_back((completion, data.into_vec())),
                READER => self.ask(READER, Opcode::Read),
                _ => self.third_answered(&completion),
            }
        }
    }

    fn third_answered(&mut self, completion: &Completion) {
        let is_init = completion.id == u16::MAX;
        match self.third {
            Third::Reads => self.ask(THIRD, Opcode::Read),
            Third::IsForgotten | Third::IsHalfOpen => {}
            Third::IsForeign | Third::IsHuge => {
                assert_eq!(completion.status, Status::Refused, "the file cannot be loaded");
                self.begun += 1;
                self.begin_third();
            }
            _ if is_init => assert_eq!(completion.status, Status::Processed, "INIT"),
            // The pages of each session are asked for once.
            _ if self.next[&THIRD] + 1 >= self.about.pages => self.begin_anew(),
            _ => {
                let is_raw = completion.status == Status::Raw;
                assert!(is_raw || !self.third.fails(), "the function never gives a result");
                self.ask(THIRD, Opcode::ReadProc);
            }
        }
    }

    /// Other sessions in place of those of the third tenant, once its last page is answered.
    fn begin_anew(&mut self) {
        if self.asked.keys().any(|(tenant, _)| *tenant == THIRD) {
            return;
        }
        for session in 0..self.third.sessions() {
            let session = THIRD + self.begun + session as u32;
            let abort = Command { id: u16::MAX, session, ..Command::plain(Opcode::Abort, 0) };
            self.send(THIRD, &abort, Vec::new());
        }
        self.asked.remove(&(THIRD, u16::MAX));
        self.begun += self.third.sessions() as u32;
        self.begin_third();
    }
}

/// The tenant that scans, in virtual time.
struct Tenant(Rc<RefCell<World>>);

impl Device for Tenant {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        // What a page takes of this machine's processor is no part of virtual time.
        let command = Command { host_page: 0, ..*command };
        self.0.borrow_mut().send(SCAN, &command, payload.to_vec());
        Ok(())
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        let mut world = self.0.borrow_mut();
        loop {
            if let Some(answer) = world.answers.pop_front() {
                return Ok(answer);
            }
            world.step();
            let again = u64::from(world.begun) << 30;
            if world.third == Third::IsHalfOpen && world.begun < 40 && world.now.0 > again {
                world.begun += 1;
                world.begin_third();
            }
        }
    }

    fn reconnect(&mut self) -> Result<()> {
        Err(Error::new(Kind::Io, "the device is never lost"))
    }
}

/// What the tenants got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The scan's answer.
    pub answer: Answer,
    /// 99th percentiles from request to answer of the scan's pages and of the reader's.
    pub p99: [Picos; 2],
    /// Pages of the third tenant that were answered.
    pub answered: usize,
}

/// Runs the three tenants until the scan is done.
///
/// # Errors
/// When the scan fails.
///
/// # Panics
/// When the scan does not end, or a host's entry is refused as no command.
pub fn beside(third: Third) -> Result<Outcome> {
    let world = Rc::new(RefCell::new(World::new(third)?));
    let mut host = Host::new(Tenant(Rc::clone(&world)), 77, DEPTH);
    let about = host.about()?;
    let outcome = host.scan(&program(&about)?, Plan::Push)?;
    let world = world.borrow();
    let p99 = |tenant| {
        let mut times = world.times[&tenant].clone();
        times.sort_unstable();
        times[(times.len() * 99).div_ceil(100) - 1]
    };
    let answered = world.times.get(&THIRD).map_or(0, Vec::len);
    Ok(Outcome { answer: outcome.answer, p99: [p99(SCAN), p99(READER)], answered })
}
