//! Jobs of `littoral-dsm` whose ranks `mpirun` starts, over an installed MPI.
//!
//! ```no_run
//! use littoral_dsm::core::message::LockId;
//!
//! // As `mpirun -n 4 ./app` runs it.
//! littoral_dsm_mpi::run(|job| {
//!     let counter = job.alloc::<u64>()?;
//!     let section = job.enter(LockId(0))?;
//!     section.write(counter.whole())?[0] += 1;
//!     section.leave()
//! })?;
//! # Ok::<(), littoral_dsm::Error>(())
//! ```
//!
//! - [`run`] and [`run_with`] join the job, run the program and leave the job.
//! - [`beside`] is MPI's own barrier and window lock, which the program `littoral-mpi-beside`
//!   measures a job beside.
//!
//! Where all ranks run on one machine they share its memory, as ranks of `littoral dsm run` do, and
//! MPI only tells them where that is. Else MPI carries the protocol's messages.
//! `LITTORAL_MPI_CARRIER` chooses: `auto`, or `messages`.
//!
//! Without `mpirun` a program is a job of one.
//!
//! Invariants
//! - Every rank takes the same of the two ways. Checked by
//!   `ranks_that_mpirun_starts_agree_with_one_process`.
//!
//! MPI is ended only where the job has ended well: ending it waits for every rank, and one may be
//! gone.

pub mod beside;
mod calls;
mod messages;
mod raw;

use std::sync::Arc;

use littoral_base::units::NodeId;
use littoral_dsm::job::Job;
use littoral_dsm::launch::machine::{OneMachine, PLACE_BYTES};
use littoral_dsm::runtime::carrier::{Carrier, Solo};
use littoral_dsm::runtime::{Config, OnLoss};
use littoral_dsm::{Error, Kind, Result};
use littoral_fabric::SILENCE_DEFAULT;

use calls::Calls;
use messages::Messages;
use raw::Failed;

/// Levels of threads, as MPI orders them, and their names in `LITTORAL_MPI_THREADS`.
const LEVELS: [&str; 4] = ["single", "funneled", "serialized", "multiple"];
const FUNNELED: i32 = 1;
const SERIALIZED: i32 = 2;

/// This process's place among those that `mpirun` started.
pub(crate) struct World {
    pub(crate) calls: Arc<Calls>,
    pub(crate) me: NodeId,
    pub(crate) ranks: u16,
    /// For each rank the first one of its machine.
    machines: Vec<i32>,
}

pub(crate) fn failed(what: &'static str) -> impl Fn(Failed) -> Error {
    move |_| Error::new(Kind::Environment, format!("MPI: {what} failed"))
}

fn misuse(what: String) -> Error {
    Error::new(Kind::Misuse, what)
}

/// What `name` says, one of `legal`; the first of these when it is not set.
fn setting(name: &str, legal: &[&'static str]) -> Result<&'static str> {
    let Ok(text) = std::env::var(name) else { return Ok(legal[0]) };
    let found = legal.iter().find(|l| **l == text);
    found.copied().ok_or_else(|| misuse(format!("{name}={text}; {}", legal.join(" or "))))
}

/// Refuses a level that is too low for a rank's threads.
fn check_level(level: i32, by_program: bool) -> Result<()> {
    let name = |level: i32| LEVELS.get(level as usize).copied().unwrap_or("none").to_uppercase();
    if by_program && level < SERIALIZED {
        return Err(Error::new(
            Kind::Unsupported,
            format!(
                "the program has initialised MPI with MPI_THREAD_{}; a rank's threads call MPI too, \
                 so initialise it by MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave it to run()",
                name(level)
            ),
        ));
    }
    if level < FUNNELED {
        return Err(Error::new(
            Kind::Unsupported,
            format!(
                "MPI gives MPI_THREAD_{}, and a rank has two threads; use an MPI that is built with \
                 threads (MPI_THREAD_FUNNELED or more)",
                name(level)
            ),
        ));
    }
    Ok(())
}

impl World {
    /// Initialises MPI.
    pub(crate) fn join() -> Result<World> {
        let wanted =
            setting("LITTORAL_MPI_THREADS", &["multiple", "serialized", "funneled", "single"])?;
        let wanted = LEVELS.iter().position(|l| *l == wanted).unwrap_or(0) as i32;
        let mut calls = Calls::start()?;
        let (level, by_program) =
            calls.make_there(move || raw::start(wanted)).map_err(failed("initialising"))?;
        check_level(level, by_program)?;
        if level >= SERIALIZED {
            calls.on_any_thread();
        }
        let (me, ranks) = calls.make(raw::join).map_err(failed("joining"))?;
        let few = u16::try_from(ranks).ok().zip(u16::try_from(me).ok());
        let (ranks, me) = few.ok_or_else(|| misuse(format!("{ranks} ranks; at most 65535")))?;
        let machines = calls.make(move || raw::machines(usize::from(ranks)));
        let machines = machines.map_err(failed("asking who runs where"))?;
        Ok(World { calls: Arc::new(calls), me: NodeId(me), ranks, machines })
    }

    /// Memory that all ranks share, where they run on one machine and each of them can reach it.
    fn one_machine(&self, bytes_max: usize) -> Result<Option<OneMachine>> {
        if self.machines.iter().any(|first| *first != 0) {
            return Ok(None);
        }
        let mut place = [0; PLACE_BYTES];
        let mut shared = None;
        if self.me == NodeId(0) {
            shared = OneMachine::create(self.ranks, bytes_max).ok();
            if let Some(found) = shared.as_ref().and_then(|s| s.place().ok()) {
                place = found;
            }
        }
        let place = self.calls.make(move || raw::broadcast(&mut place).map(|()| place));
        let place = place.map_err(failed("telling where memory is"))?;
        if self.me != NodeId(0) {
            shared = OneMachine::open(&place).ok();
        }
        let reached = i32::from(shared.is_some());
        let all = self.calls.make(move || raw::least(reached));
        let all = all.map_err(failed("asking who reaches memory"))? == 1;
        Ok(shared.filter(|_| all))
    }

    fn carrier(&self, mut config: Config) -> Result<(Box<dyn Carrier>, Config)> {
        if self.ranks == 1 {
            return Ok((Box::new(Solo), config));
        }
        config.name_stopped = Some(SILENCE_DEFAULT);
        let way = setting("LITTORAL_MPI_CARRIER", &["auto", "messages"])?;
        let shared = if way == "auto" { self.one_machine(config.bytes_max)? } else { None };
        if let Some(shared) = shared {
            return shared.join(self.me, self.ranks, SILENCE_DEFAULT, config);
        }
        let first = self.machines[self.me.index()];
        let is_near = self.machines.iter().map(|m| *m == first).collect();
        let calls = Arc::clone(&self.calls);
        Ok((Box::new(Messages::new(calls, self.me, is_near, SILENCE_DEFAULT)), config))
    }

    /// Ends MPI, which waits for every rank.
    pub(crate) fn finish(self) -> Result<()> {
        self.calls.make_there(raw::finish).map_err(failed("ending"))
    }
}

/// Runs `program` as a rank of the job that `mpirun` started. A rank that is lost ends every other
/// in words, with code 3.
///
/// # Errors
/// `Kind::Unsupported` when MPI gives too few threads, `Kind::Environment` when it or the system
/// fails, what the program fails with.
pub fn run<T>(program: impl FnOnce(&mut Job) -> Result<T>) -> Result<T> {
    run_with(Config { on_loss: OnLoss::Exit, ..Config::default() }, program)
}

/// As [`run`], with a configuration that is equal on every rank.
///
/// # Errors
/// As [`run`].
pub fn run_with<T>(config: Config, program: impl FnOnce(&mut Job) -> Result<T>) -> Result<T> {
    let world = World::join()?;
    let done = run_in(&world, config, program)?;
    world.finish()?;
    Ok(done)
}

pub(crate) fn run_in<T>(
    world: &World,
    config: Config,
    program: impl FnOnce(&mut Job) -> Result<T>,
) -> Result<T> {
    let (carrier, config) = world.carrier(config)?;
    let mut job = Job::start(carrier, config)?;
    let done = program(&mut job)?;
    job.finish()?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_without_threads_is_refused_in_words() {
        let refused = |level, by_program| check_level(level, by_program).map_err(|e| e.to_string());
        assert!(refused(0, false).is_err_and(|e| e.contains("MPI gives MPI_THREAD_SINGLE")));
        assert!(
            refused(1, true).is_err_and(|e| e.contains("initialised MPI with MPI_THREAD_FUNN"))
        );
        assert!(refused(1, false).is_ok() && refused(2, true).is_ok() && refused(3, true).is_ok());
    }
}
