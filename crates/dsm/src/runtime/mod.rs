//! A rank at work: the protocol over a fabric, on the program's thread and one that serves.
//!
//! The program's thread carries out its own operations; the *server* thread takes messages in at
//! any time, also while the program computes, and watches the other ranks. Both work on one
//! [`engine::Engine`] under one lock. A waiting program thread takes messages itself for a moment
//! before it sleeps, so that an answer that comes soon costs no change of thread; where a fabric
//! can wake that thread alone, it takes them for as long as it waits. In coherent memory of one
//! machine operations send no messages ([`road`], [`serverless`]); the server watches then.
//!
//! The lock is never held while the program's memory is touched through the view: a fault there
//! would wait for the thread that holds the lock.
//!
//! Invariants
//! - An operation of the program ends when the protocol says so, or fails: a rank that is gone
//!   fails every operation of the others. It waits for a rank that is slow, stopped or held by a
//!   debugger for as long as that lasts (`docs/design/dsm.md`, *Liveness*). Checked by
//!   `when_a_rank_is_killed_the_others_say_who_held_what`,
//!   `when_a_rank_is_stopped_the_others_wait_and_the_job_goes_on_with_it`.
//! - Permissions of the view are settled before the program runs on. Checked by
//!   `race_free_programs_agree_with_one_memory`,
//!   `pages_are_read_only_before_their_diff_where_many_threads_write`.
//! - No rank is judged dead while a message of its is on its way or in a thread's hand. Checked by
//!   `a_process_that_ended_is_missing_once_its_messages_are_here`.

mod allocate;
mod board;
pub mod carrier;
mod changes;
mod config;
mod control;
mod ending;
mod engine;
mod farewell;
mod guards;
mod inside;
mod leavers;
mod leaving;
mod lend;
mod link;
mod mail;
mod mailbox;
mod range;
mod raw;
mod road;
mod serverless;
mod setup;
mod shared_pages;
mod short;
mod spin;
mod standstill;
mod turns;
mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use littoral_base::units::NodeId;
use littoral_device::memory::LINE_BYTES;
use littoral_fabric::process::Identity;

use crate::core::message::{LockId, PageId};
use crate::core::rank::{Counts, Ending, Outcome, Rank, Shape};
use crate::error::{Error, Kind, Result};
use crate::memory::{Mechanism, Memory, MemoryCounts, OnFault, Registration, Segment, page_bytes};
use allocate::Made;
use board::Board;
pub(crate) use board::{board_bytes, has_joined, has_left, suspects};
use carrier::Carrier;
use changes::Changes;
pub use config::{CACHE_DEFAULT, CACHE_MIN, Config, OnLoss};
use control::Body;
pub(crate) use engine::waiting_for;
use engine::{Engine, Taken};
pub(crate) use farewell::MARK;
pub use inside::Inside;
use leaving::{Leaving, left_behind};
pub(crate) use lend::Own;
use road::Road;
pub use road::road_bytes;
use serverless::{Serverless, Sync};
use setup::{limit_copies, prepare, segment_of};
pub use shared_pages::pages_bytes;
use spin::Spin;
use standstill::{Awaits, Grants};
use turns::{FAULT, SYNC, Why};
use waiting::Patience;

pub use raw::leave;
pub(crate) use raw::without_signals;

/// How often the server looks after deaths, signs of life and messages that found no room.
const ROUND: Duration = Duration::from_millis(10);
/// How long a waiting program thread takes messages itself, where ranks have cores of their own.
const SPIN: Duration = Duration::from_micros(30);
/// How often the server looks for stopped processes, where it is the one to say so.
const HALTS: Duration = Duration::from_millis(250);
/// How often a full peer is tried again.
const FULL: Duration = Duration::from_micros(200);
/// Ranges that [`Node::touch`] has made present, until the next lock, unlock or barrier.
const TOUCHED: u64 = u64::MAX;

/// What a rank has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCounts {
    /// The protocol's work.
    pub protocol: Counts,
    /// The memory layer's.
    pub memory: MemoryCounts,
    /// Messages sent to other ranks.
    pub messages: u64,
    /// Their bytes.
    pub message_bytes: u64,
}

struct Common {
    engine: Mutex<Engine>,
    changed: Changes,
    /// How operations are carried out where no message is needed for copies of pages.
    alone: Option<Serverless>,
    /// Held by the thread of the program whose operation is under way; the others wait.
    gate: Mutex<()>,
    /// Held by the program's thread while it takes messages, and by the server to judge.
    taking: Mutex<()>,
    /// The server wants `taking`.
    judging: AtomicBool,
    /// The thread that attends is asleep, or about to be.
    attends_asleep: AtomicBool,
    /// An operation of the program has not ended.
    busy: AtomicBool,
    /// The program waits for the others' farewells.
    parting: AtomicBool,
    leaving: Leaving,
    grants: Arc<Grants>,
    /// The job has failed, as the engine says.
    lost: AtomicBool,
    closing: AtomicBool,
    carrier: Box<dyn Carrier>,
    on_loss: OnLoss,
    name_stopped: Option<Duration>,
    spin: Duration,
    /// The server's processor is one that a program needs.
    is_crowded: bool,
    page_bytes: usize,
}

/// A rank of a running job, without types: what the safe interface stands on.
pub(crate) struct Node {
    common: Arc<Common>,
    server: Mutex<Option<JoinHandle<()>>>,
    registration: Mutex<Option<Registration>>,
    memory: Arc<Memory>,
    direct: bool,
    /// Sections and barriers without a server, where pages are shared in coherent memory.
    road: Option<Road>,
    /// Lines of a pool shared in place.
    in_place: bool,
    bytes_max: usize,
    made: Mutex<Made>,
    joined: Instant,
    finished: AtomicBool,
}

/// Pages that follow each other, kept in blocks dealt round from a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) bytes: usize,
    pub(crate) block_pages: u32,
    pub(crate) first: NodeId,
}

fn environment(what: &str, e: std::io::Error) -> Error {
    Error::with_source(Kind::Environment, what, e)
}

impl Node {
    pub(crate) fn start(carrier: Box<dyn Carrier>, config: Config) -> Result<Node> {
        let (me, ranks) = (carrier.me(), carrier.ranks());
        let in_place = config.pool.is_some();
        let base = config.base;
        let segment = segment_of(&config, me, ranks)?;
        let (memory, direct) = (segment.memory(), segment.is_direct() && !in_place);
        let page_bytes = if in_place { LINE_BYTES } else { page_bytes() };
        let shape = Shape {
            ranks,
            pages: 0,
            page_bytes,
            locks: config.locks,
            log_capacity: config.log_capacity,
            predict: config.predict && !in_place,
        };
        let board = config.board.as_ref().map(|f| Board::open(f, ranks, me)).transpose();
        let board = board.map_err(|e| environment("mapping the job's board", e))?;
        let mut rank = Rank::over(me, shape, segment);
        let is_copied = !direct && !in_place;
        let alone = if is_copied { Serverless::open(&*carrier, &config)? } else { None };
        prepare(&mut rank, &*carrier, in_place, alone.is_some(), &config);
        limit_copies(&mut rank, &config, !is_copied)?;
        let road =
            if direct { Road::open(&*carrier, config.locks, config.board.as_ref())? } else { None };
        let mut engine = Engine::new(&*carrier, rank, page_bytes, board, Identity::own());
        engine.tells_launcher(config.tells_launcher);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let common = Arc::new(Common {
            grants: engine.standstill.grants(),
            engine: Mutex::new(engine),
            changed: Changes::default(),
            alone,
            gate: Mutex::new(()),
            taking: Mutex::new(()),
            judging: AtomicBool::new(false),
            attends_asleep: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            parting: AtomicBool::new(false),
            leaving: Leaving::new(),
            lost: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            carrier,
            on_loss: config.on_loss,
            name_stopped: config.name_stopped,
            spin: if usize::from(ranks) <= cores { SPIN } else { Duration::ZERO },
            is_crowded: 2 * usize::from(ranks) > cores,
            page_bytes,
        });
        common.locked().say_hello(&*common.carrier);
        if let (Some(base), false) = (base, in_place) {
            common.locked().tell_agreed(&*common.carrier, 0, base as u64)?;
        }
        let registration = if is_copied { Some(register(&common, &memory)?) } else { None };
        let server = if common.carrier.turns().is_some() { None } else { Some(serve(&common)?) };
        Ok(Node {
            common,
            server: Mutex::new(server),
            registration: Mutex::new(registration),
            memory,
            direct,
            road,
            in_place,
            bytes_max: config.bytes_max,
            made: Mutex::default(),
            joined: Instant::now(),
            finished: AtomicBool::new(false),
        })
    }

    pub(crate) fn me(&self) -> NodeId {
        self.common.carrier.me()
    }

    pub(crate) fn ranks(&self) -> u16 {
        self.common.carrier.ranks()
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Whether guards are copies, since other ranks write the memory they are on.
    pub(crate) fn lends_copies(&self) -> bool {
        self.direct || self.in_place
    }

    pub(crate) fn is_in_place(&self) -> bool {
        self.in_place
    }

    pub(crate) fn counts(&self) -> RankCounts {
        let _inside = Inside::enter();
        let engine = self.common.locked();
        let (messages, message_bytes) = engine.traffic();
        let memory = engine.rank.frames().counts();
        RankCounts { protocol: engine.rank.counts(), memory, messages, message_bytes }
    }

    /// Whether ranks run one at a time, in virtual time.
    pub(crate) fn is_in_turns(&self) -> bool {
        self.common.carrier.turns().is_some()
    }

    /// Ends the job for every rank, for this reason.
    pub(crate) fn abandon(&self, why: &str) {
        let _inside = Inside::enter();
        self.common.abandon(why.to_owned());
    }

    /// The program declares so many operations of computing.
    pub(crate) fn declare(&self, operations: u64) {
        if let Some(turns) = self.common.carrier.turns() {
            turns.declare(operations);
        }
    }

    /// Time since this rank joined: virtual where the job is.
    pub(crate) fn elapsed(&self) -> Duration {
        match self.common.carrier.turns() {
            Some(turns) => Duration::from_nanos(turns.now().as_nanos()),
            None => self.joined.elapsed(),
        }
    }

    pub(crate) fn mechanism(&self) -> Option<Mechanism> {
        self.common.locked().rank.frames().mechanism()
    }

    pub(crate) fn lock(&self, own: &mut Own, lock: LockId) -> Result<()> {
        if let Some(road) = &self.road {
            own.guards.refuse_leaked()?;
            return road.lock(&self.common, &mut own.road, lock);
        }
        self.synchronise(own, Ending::Lock(lock))
    }

    pub(crate) fn unlock(&self, own: &mut Own, lock: LockId) -> Result<()> {
        if let Some(road) = &self.road {
            own.guards.refuse_leaked()?;
            return road.unlock(&self.common, &mut own.road, lock);
        }
        self.synchronise(own, Ending::Unlock(lock))
    }

    pub(crate) fn barrier(&self, own: &mut Own) -> Result<()> {
        self.common.at_barrier(false, || self.publish(own))
    }

    fn publish(&self, own: &mut Own) -> Result<()> {
        if let Some(road) = &self.road {
            own.guards.refuse_leaked()?;
            return road.barrier(&self.common, &mut own.road, self.made());
        }
        let _inside = Inside::enter();
        if self.common.alone.is_none() {
            self.tell_allocations()?;
        }
        self.synchronise(own, Ending::Barrier)
    }

    /// Where ranks share pages in place: waits for every rank, in a section too, and compares
    /// nothing. Whether it is so.
    pub(crate) fn meet(&self, own: &mut Own) -> Result<bool> {
        let Some(road) = &self.road else { return Ok(false) };
        let meet = || road.meet(&self.common, &mut own.road, self.made());
        self.common.at_barrier(false, meet).map(|()| true)
    }

    /// Carries out a lock, unlock or barrier, which ends what `touch` holds and finds no guard.
    fn synchronise(&self, own: &mut Own, ending: Ending) -> Result<()> {
        let _inside = Inside::enter();
        own.guards.refuse_leaked()?;
        if let Some(alone) = &self.common.alone {
            let made = if ending == Ending::Barrier { self.made() } else { (0, 0) };
            let sync = Sync { state: &mut own.road, own: &mut own.pages, made };
            return self.common.synchronise_alone(alone, sync, ending);
        }
        self.common.locked().guards.refuse_leaked()?;
        self.common.operate(SYNC, |r| {
            r.frames_mut().show(TOUCHED);
            r.end_by(ending)
        })?;
        self.common.locked().show_held();
        Ok(())
    }

    /// Ends the job for this rank: all ranks' writes are published, then every rank takes leave.
    pub(crate) fn finish(&self, own: &mut Own) -> Result<()> {
        let _inside = Inside::enter();
        let common = &self.common;
        self.refuse_to_leave(own)?;
        common.at_barrier(true, || self.publish(own))?;
        if let Some(turns) = common.carrier.turns() {
            common.part_in_turns(turns)?;
            common.locked().show_left();
            self.finished.store(true, Ordering::Release);
            return Ok(());
        }
        let mut engine = common.locked();
        engine.broadcast(&*common.carrier, &Body::Goodbye);
        // It waits for the others from here on.
        engine.begin_waiting(&*common.carrier);
        loop {
            let sent = engine.drain(&*common.carrier);
            if sent && engine.all_finished() {
                engine.show_left();
                self.finished.store(true, Ordering::Release);
                return Ok(());
            }
            engine.check()?;
            engine = common.changed.wait(engine, ROUND);
        }
    }
}

impl Node {
    /// Ends a rank that has finished, and stays: its shared memory is gone, an access is a
    /// segmentation fault.
    ///
    /// # Errors
    /// `Kind::Environment` when the system does not take the memory back.
    pub(crate) fn close(&self) -> Result<()> {
        let _inside = Inside::enter();
        self.end_threads();
        self.memory.close(self.allocated()).map_err(|e| environment("closing shared memory", e))
    }

    fn end_threads(&self) {
        drop(self.registration.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.common.closing.store(true, Ordering::Release);
        if let Some(server) = self.server.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = server.join();
            // The process may go on, and nothing of this rank receives any more.
            self.common.carrier.send_rest();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let common = &self.common;
        if !self.finished.load(Ordering::Acquire) {
            let (me, pid) = (self.me(), std::process::id());
            let how =
                if std::thread::panicking() { "panicked" } else { "left the job before its end" };
            common.abandon(format!("rank {me} (process {pid}) {how}"));
        }
        self.end_threads();
    }
}

/// Starts the server thread of a rank.
fn serve(common: &Arc<Common>) -> Result<JoinHandle<()>> {
    let serving = Arc::clone(common);
    std::thread::Builder::new()
        .name(format!("littoral-dsm-{}", common.carrier.me()))
        .spawn(move || serving.serve())
        .map_err(|e| environment("starting the server thread", e))
}

/// Writes a line to standard error at once, so that lines of several ranks do not mix.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    // A closed standard error leaves nothing to be done.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn register(common: &Arc<Common>, memory: &Arc<Memory>) -> Result<Registration> {
    let faulted = Arc::clone(common);
    let on_fault: OnFault = Box::new(move |offset, write| faulted.fault(offset, write));
    let start = memory.view(0, memory.len()).addr();
    Registration::new(start, memory.len(), on_fault)
        .ok_or_else(|| Error::new(Kind::Environment, "too many segments in one process"))
}

impl Common {
    /// Keeps the program's other threads out of an operation of this one.
    fn alone(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out one operation of the program to its end.
    fn operate(
        &self,
        why: Why,
        op: impl FnOnce(&mut Rank<Segment>) -> Result<Outcome>,
    ) -> Result<()> {
        if let Some(alone) = &self.alone {
            return self.operate_alone(alone, op);
        }
        let _inside = Inside::enter();
        let _alone = self.alone();
        if let Some(turns) = self.carrier.turns() {
            return self.operate_in_turns(turns, why, op);
        }
        {
            let mut engine = self.locked();
            self.begin(&mut engine, op)?;
        }
        self.wait()
    }

    /// Puts an operation to the rank and sends what it wants sent; `busy` tells whether it goes on.
    fn begin(
        &self,
        engine: &mut Engine,
        op: impl FnOnce(&mut Rank<Segment>) -> Result<Outcome>,
    ) -> Result<()> {
        engine.check()?;
        let outcome = op(&mut engine.rank)?;
        self.busy.store(true, Ordering::Release);
        match engine.absorb(&*self.carrier, outcome) {
            Ok(true) => self.end_operation(engine),
            Ok(false) => {}
            Err(e) => self.fail(engine, &e),
        }
        Ok(())
    }

    fn end_operation(&self, engine: &mut Engine) {
        if let Err(e) = engine.rank.frames_mut().settle() {
            return self.fail(engine, &e);
        }
        self.end_wait(engine);
    }

    /// Wakes the program's thread, which waits for its operation no more. Either this sees that it
    /// sleeps, or it sees that it need not: both store, then load, in one order for all threads.
    fn end_wait(&self, engine: &mut Engine) {
        self.busy.store(false, Ordering::SeqCst);
        self.changed.notify(engine);
        if self.attends_asleep.load(Ordering::SeqCst) {
            self.carrier.call();
        }
    }

    /// Waits for the end of the program's operation: takes messages itself for as long as it is the
    /// thread that they wake, else for a moment, and then leaves them to the server.
    fn wait(&self) -> Result<()> {
        if self.busy.load(Ordering::Acquire) && !self.attend() && !self.spin.is_zero() {
            let until = Instant::now() + self.spin;
            while self.busy.load(Ordering::Acquire) && Instant::now() < until {
                if let Ok(_mine) = self.taking.try_lock() {
                    self.take_one(Duration::ZERO);
                }
            }
        }
        let (mut engine, mut patience) = (self.locked(), Patience::default());
        engine.begin_waiting(&*self.carrier);
        while self.busy.load(Ordering::Acquire) && engine.failed.is_none() {
            self.pass_wait(&mut engine, &mut patience);
            engine = self.changed.wait(engine, ROUND);
        }
        engine.mailbox.end_waiting();
        engine.check()
    }

    /// Takes messages on the program's thread until its operation ends or ranks are to be judged,
    /// asleep a moment after the last one; what comes wakes this thread and not the server. Whether
    /// the carrier can do so.
    fn attend(&self) -> bool {
        let Ok(_mine) = self.taking.try_lock() else { return false };
        // At once: a server that is woken beside this thread takes its processor time and the lock.
        if !self.carrier.attend(true) {
            return false;
        }
        let (begun, mut spin) = (Instant::now(), Spin::new(self.spin));
        let (mut sleeps, mut patience) = (false, Patience::default());
        while self.busy.load(Ordering::Acquire) && !self.judging.load(Ordering::Acquire) {
            let now = begun.elapsed();
            let mut timeout = Duration::ZERO;
            if !spin.goes_on(now) {
                let mut engine = self.locked();
                if !std::mem::replace(&mut sleeps, true) {
                    engine.begin_waiting(&*self.carrier);
                }
                self.pass_wait(&mut engine, &mut patience);
                timeout = if engine.drain(&*self.carrier) { ROUND } else { FULL };
                drop(engine);
                self.attends_asleep.store(true, Ordering::SeqCst);
                if !self.busy.load(Ordering::SeqCst) {
                    timeout = Duration::ZERO;
                }
            }
            let received = self.carrier.receive_attending(timeout);
            self.attends_asleep.store(false, Ordering::SeqCst);
            if self.take_received(received) {
                spin.came(begun.elapsed());
            }
        }
        self.carrier.attend(false);
        if sleeps {
            self.locked().mailbox.end_waiting();
        }
        true
    }

    fn wait_until<T>(
        &self,
        awaits: Option<Awaits>,
        mut look: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Result<T> {
        let (until, mut patience) = (Instant::now() + self.spin, Patience::default());
        loop {
            let mut engine = self.locked();
            if let Some(found) = look(&mut engine) {
                return Ok(found);
            }
            engine.check()?;
            if Instant::now() < until {
                drop(engine);
                if let Ok(_mine) = self.taking.try_lock() {
                    self.take_one(Duration::ZERO);
                }
                continue;
            }
            if let Some(awaits) = awaits {
                self.pass_round(&mut engine, awaits, &mut patience)?;
            }
            drop(self.changed.wait(engine, ROUND));
        }
    }

    fn take_in(&self, from: NodeId, frame: Vec<u8>) {
        let mut engine = self.locked();
        if engine.failed.is_none() {
            match engine.take(&*self.carrier, from, frame) {
                Ok(Taken { leaves_at: Some(n), .. }) if !self.leaving.hear(n) => {
                    self.fail(&mut engine, &left_behind(self.carrier.me(), from));
                }
                Ok(taken) if taken.has_ended => self.end_operation(&mut engine),
                Ok(taken) if taken.is_news => self.changed.notify(&mut *engine),
                // Woken for what its rank serves, the program would only go to sleep again.
                Ok(_) => {}
                Err(e) => self.fail(&mut engine, &e),
            }
        }
    }

    /// Takes at most one message in; whether there was one.
    fn take_one(&self, timeout: Duration) -> bool {
        let received = match self.is_crowded {
            true => self.carrier.receive_asleep(timeout),
            false => self.carrier.receive(timeout),
        };
        self.take_received(received)
    }

    /// Takes in what was received; whether it was a message.
    fn take_received(&self, received: Result<Option<(NodeId, Vec<u8>)>>) -> bool {
        match received {
            Ok(Some((from, frame))) => {
                self.take_in(from, frame);
                true
            }
            Ok(None) => false,
            Err(e) => {
                self.fail(&mut self.locked(), &e);
                false
            }
        }
    }

    /// The server thread.
    fn serve(&self) {
        // A handler that runs on this thread may neither call nor fault.
        let _inside = Inside::enter();
        let (mut looked, mut halts) = (Instant::now(), Instant::now());
        while !self.closing.load(Ordering::Acquire) {
            let mut engine = self.locked();
            // Also after a failure, whose report may have had no room.
            let has_sent = engine.drain(&*self.carrier);
            let failed = engine.failed.is_some();
            drop(engine);
            let round = if has_sent { ROUND } else { FULL };
            if failed {
                // Where this thread does the fabric's work, what could not be sent goes out so.
                let _ = self.carrier.show_life();
                std::thread::sleep(round);
                continue;
            }
            let took = self.take_one(round);
            if !took || looked.elapsed() > ROUND {
                looked = Instant::now();
                self.look_around();
                if let Some(after) = self.name_stopped.filter(|_| halts.elapsed() > HALTS) {
                    halts = looked;
                    let lines = self.locked().halts(after);
                    lines.iter().for_each(|line| say(line));
                }
            }
        }
    }

    fn look_around(&self) {
        if !self.leaving.may_meet_others() {
            return drop(self.behind());
        }
        let shown = self.carrier.show_life();
        let mut engine = self.locked();
        engine.drain(&*self.carrier);
        if let Err(e) = shown {
            return self.fail(&mut engine, &e);
        }
        let mut missing = engine.missing(&*self.carrier);
        drop(engine);
        // Their last messages first: a goodbye, or who else it was that died. The program's thread
        // may not have one in hand meanwhile, and gives way.
        self.judging.store(!missing.is_empty(), Ordering::Release);
        let _alone = (!missing.is_empty())
            .then(|| self.taking.lock().unwrap_or_else(PoisonError::into_inner));
        while !missing.is_empty() {
            while self.take_one(Duration::ZERO) {}
            let found = self.locked().missing(&*self.carrier);
            let known = |rank| missing.iter().any(|(other, _)| other == rank);
            let complete = found.iter().all(|(rank, _)| known(rank));
            missing = found;
            if complete {
                break;
            }
        }
        self.judging.store(false, Ordering::Release);
        let mut engine = self.locked();
        if engine.failed.is_some() {
            return;
        }
        if let Err(e) = engine.judge(&*self.carrier, missing) {
            return self.fail(&mut engine, &e);
        }
        if let Some(e) = engine.grace_period_over() {
            self.fail(&mut engine, &e);
        }
    }

    /// A fault of the program at `offset` of the view, on the thread that faulted.
    fn fault(&self, offset: usize, write: Option<bool>) -> bool {
        if Inside::is_marked() {
            inside::end_of_fault();
        }
        let _inside = Inside::enter();
        let page = PageId(u32::try_from(offset / self.page_bytes).unwrap_or(u32::MAX));
        let write = {
            let mut engine = self.locked();
            if page.0 >= engine.rank.pages() {
                return false;
            }
            let at_home = engine.rank.home(page) == self.carrier.me();
            let frames = engine.rank.frames_mut();
            frames.count_fault(at_home);
            write.unwrap_or_else(|| frames.is_readable(page))
        };
        let mut count = 1;
        let operated = self.operate(FAULT, |r| {
            let (outcome, pages) = r.want_run(page, write)?;
            count = pages;
            Ok(outcome)
        });
        let raise = |()| self.locked().rank.frames_mut().raise_run(page, count);
        match operated.and_then(raise) {
            Ok(()) => true,
            Err(e) => {
                self.fail(&mut self.locked(), &e);
                self.give_up(&e)
            }
        }
    }
}
