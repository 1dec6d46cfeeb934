//! A device in this process. With a model its policy decides in virtual time: INIT learns the
//! cost of every page from the twin, the simulated device runs the scan, and each page is computed
//! where it was computed there.
//!
//! Invariants
//! - A page's side is the simulated run's. Checked by
//!   `a_modelled_scan_takes_the_simulated_time_and_sides`.

use std::collections::BTreeMap;

use littoral_base::fault::Plan;
use littoral_base::units::Picos;

use super::Device;
use super::engine::{Engine, Reply, Settings, split_of};
use super::set::DataSet;
use super::stored::Payload;
use super::wire::Program;
use crate::command::{Command, Completion, Opcode, Status};
use crate::device::sim;
use crate::device::{Disposition, Machine, Outcome, Workload};
use crate::error::{Error, Kind, Result};
use crate::function::Compiled;
use crate::policy::{Commit, Policy};
use crate::query::{costs_of, count_file};
use crate::queue::Queues;

/// What a device is modelled by.
#[derive(Clone, Debug)]
struct Model {
    machine: Machine,
    depth: u32,
    policy: Policy,
}

/// A device in this process.
pub struct Local {
    engine: Engine,
    model: Option<Model>,
    plans: BTreeMap<(u32, u16), Vec<Commit>>,
    outcome: Option<Outcome>,
    queues: Queues<(), Payload>,
    /// The time by which leases run.
    now: Picos,
    /// Sides of pages where there is no model, in turn.
    sides: Vec<Commit>,
    is_gone: bool,
    returns: bool,
}

impl Local {
    /// A device without a model, which computes on every page.
    pub fn new(set: DataSet, settings: Settings) -> Local {
        Local {
            engine: Engine::new(set, settings),
            model: None,
            plans: BTreeMap::new(),
            outcome: None,
            queues: Queues::default(),
            now: Picos(0),
            sides: vec![Commit::Core],
            is_gone: false,
            returns: true,
        }
    }

    /// The same device, modelled: `policy` decides where a page is computed, `depth` is the host's
    /// queue depth.
    pub fn modelled(mut self, machine: Machine, depth: u32, policy: Policy) -> Local {
        self.model = Some(Model { machine, depth, policy });
        self
    }

    /// Lets time pass, by which leases run out.
    pub fn pass(&mut self, time: Picos) {
        self.now = Picos(self.now.0.saturating_add(time.0));
    }

    /// The same device with faults of page functions.
    pub fn with_faults(mut self, faults: Plan) -> Local {
        self.engine.set_faults(faults);
        self
    }

    /// The same device without a model, where pages go to these sides in turn.
    pub fn on_sides(mut self, sides: Vec<Commit>) -> Local {
        assert!(!sides.is_empty(), "a page goes somewhere");
        self.sides = sides;
        self
    }

    /// The same device, which does not come back once it has lost power.
    pub fn that_stays_away(mut self) -> Local {
        self.returns = false;
        self
    }

    /// The simulated run of the last scan; none without a model.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Its state.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn plan(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        let Some(model) = &self.model else { return Ok(()) };
        // What an earlier task of this number took is no plan of this one.
        self.plans.remove(&(command.session, command.task));
        self.outcome = None;
        let program = Program::parse(payload)?;
        let Program { function, params, format, elf } = program;
        let set = self.engine.set();
        let pages = set.pages()?;
        // A damaged page has no cost: the scan will name it.
        let split = split_of(&function);
        let Ok(mut costs) = costs_of("scan", &function, &split, &params, &pages, format) else {
            return Ok(());
        };
        let machine = model.machine.on_pages(set.about().page_bytes as u32);
        if let Some(file) = elf {
            let whole = Compiled::new(&function, format)?;
            count_file(&mut costs, (&whole, &params), &file, &pages, machine.budget)?;
        }
        let workload = Workload::interleaved(vec![costs], model.depth);
        let outcome = sim::run(&machine, &workload, &model.policy);
        let mut sides = vec![Commit::Link; pages.len()];
        for done in &outcome.pages {
            sides[done.page.page as usize] = match done.disposition {
                Disposition::Processed => Commit::Core,
                Disposition::Filtered => Commit::Filter,
                Disposition::Raw | Disposition::Returned | Disposition::Plain => Commit::Link,
            };
        }
        self.outcome = Some(outcome);
        self.plans.insert((command.session, command.task), sides);
        Ok(())
    }

    /// Takes what is in the request queue and answers it.
    fn serve(&mut self) -> Result<()> {
        while let Some(((), request)) = self.queues.next_request() {
            let (command, data) = request?;
            if let Some((completion, payload)) = self.answer(&command, &data)? {
                self.queues.respond((), &completion, payload);
            }
        }
        Ok(())
    }

    fn answer(&mut self, command: &Command, payload: &[u8]) -> Result<Option<Reply>> {
        let now = self.now;
        self.engine.expire(now);
        if !matches!(command.opcode, Opcode::ReadProc | Opcode::ReadFilt) {
            let answer = self.engine.control(now, command, payload);
            let is_begun = answer.as_ref().is_some_and(|a| a.0.status == Status::Processed);
            if command.opcode == Opcode::Init && is_begun {
                self.plan(command, payload)?;
            }
            if matches!(command.opcode, Opcode::Final | Opcode::Abort) {
                self.plans.remove(&(command.session, command.task));
            }
            return Ok(answer);
        }
        let page = match self.engine.admit(now, command) {
            Ok(page) => page,
            Err(answer) => return Ok(Some(answer)),
        };
        let plan = self.plans.get(&(command.session, command.task));
        let planned = plan.and_then(|p| p.get(command.page as usize)).copied();
        let side = self.sides[command.page as usize % self.sides.len()];
        let ran = self.engine.run(&page, planned.unwrap_or(side))?;
        Ok(Some(self.engine.end(&page, ran)))
    }
}

fn gone() -> Error {
    Error::new(Kind::Io, "the device has lost power: reconnect")
}

impl Device for Local {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        if self.is_gone {
            return Err(gone());
        }
        self.queues.request((), command.encode(), payload.to_vec());
        self.serve().inspect_err(|e| self.is_gone |= e.kind() == Kind::Io)
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        if self.is_gone {
            return Err(gone());
        }
        let none = || Error::new(Kind::Usage, "no command is under way");
        let ((), entry, data) = self.queues.next_response().ok_or_else(none)?;
        Ok((Completion::decode(&entry)?, data.into_vec()))
    }

    fn reconnect(&mut self) -> Result<()> {
        if self.is_gone && !self.returns {
            return Err(Error::new(Kind::Io, "the device does not come back: check its power"));
        }
        self.is_gone = false;
        self.queues.clear();
        self.plans.clear();
        self.engine.restart();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{About, Host, Plan as Asked, Scan};
    use crate::device::profiled;
    use crate::page::{Column, Format, Schema, Value};

    #[test]
    fn a_plan_ends_with_its_task() {
        let schema = Schema::new(vec![Column::int("n", 0, 99)]).unwrap();
        let about = About::new(&schema, Format::Columns, 4096);
        let records = (0..20_000).map(|n| Ok(vec![Value::Int(n % 100)]));
        let set = DataSet::of_records(&about, records).unwrap();
        let mut pages = set.pages().unwrap();
        let (machine, depth) = profiled("summarizer-board").unwrap();
        let local = Local::new(set, Settings::default()).modelled(machine, depth, Policy::Late);
        let mut host = Host::new(local, 1, 4);
        let about = host.about().unwrap();
        let (program, _) = Scan::default().plan(&about).unwrap();
        host.scan(&program, Asked::Push).unwrap();
        assert!(host.device().outcome().is_some() && host.device().plans.is_empty());
        // A scan that has no model, as a page is damaged, has no times either.
        pages[1][300] ^= 1;
        let mut local = host.into_device();
        local.engine = Engine::new(DataSet::of_pages(&about, pages), Settings::default());
        let mut host = Host::new(local, 1, 4);
        assert!(host.scan(&program, Asked::Push).is_err());
        assert!(host.device().outcome().is_none() && host.device().plans.is_empty());
    }
}
