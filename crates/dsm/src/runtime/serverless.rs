//! Pages without a server: ranks of one machine copy pages out of each other's frames and write
//! differences into them, and no message is sent.
//!
//! The protocol is the one of `core::rank`. What it wants sent is carried out here, on the thread
//! whose operation it is, and answered at once:
//!
//! | message | what happens | answer |
//! |---|---|---|
//! | `GetPage` | the home's ring names the page, then it is copied | `Page` |
//! | `Diffs` | written into the home's frames under its latch | `DiffsApplied` |
//! | `DiffsAlong` | likewise | - |
//! | `Acquire` | the queue in shared memory, then the lock's log | `Grant` |
//! | `Release` | the lock's log, then the queue | - |
//! | `Arrive` | this rank's list, the barrier, the others' lists | `Page`s wanted, `Depart` |
//!
//! Invariants
//! - What has been copied out of this rank's frames is taken in before a scope ends, so that a page
//!   written in it is noticed in it unless no other rank has a copy (mutants
//!   `dsm_copied_page_stays_unnoticed`, `dsm_copied_page_as_its_twin`). Checked by
//!   `a_page_handed_out_at_any_point_is_noticed_from_then_on`,
//!   `a_value_that_was_served_and_taken_back_is_invalidated`.
//! - Differences are in their home's frames before the log and the list that tell of them are
//!   written, and those before the lock is left or the barrier is reached. Checked by
//!   `race_free_programs_agree_with_one_memory`.
//! - The engine is not locked while this rank waits for another one, which may have died. Checked
//!   by `a_rank_that_is_gone_ends_who_waits_for_its_lock`.

use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::time::Duration;

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::carrier::Carrier;
use super::engine::Engine;
use super::road::{Road, State, fabric};
use super::shared_pages::{Layout, Refused, SharedPages};
use super::{Common, Config, Inside, environment};
use crate::core::barrier::{in_order, is_news};
use crate::core::diff::Diff;
use crate::core::lock::LOG_RUNS_MAX;
use crate::core::message::{LockId, Message, Notice, Notices, PageId, PageRun};
use crate::core::rank::{Envelope, Outcome, Rank, Shelf, allocated_differently};
use crate::core::shared::before_drain;
use crate::error::{Error, Kind, Result};
use crate::memory::Segment;

/// Looks at a latch that is taken before its waiter sleeps.
const LOOKS: u32 = 500;
/// How long it sleeps: who has the latch may be off its processor, or have guards not shown.
const NAP: Duration = Duration::from_micros(50);
/// Pages copied at once: their bytes are in memory twice until they are taken in.
const COPIED_MAX: u32 = 256;

/// A rank's side; see the module's page.
pub(super) struct Serverless {
    road: Road,
    pages: SharedPages,
    log_runs: usize,
}

/// A lock, unlock or barrier: what it changes, and before a barrier what this rank has allocated.
pub(super) struct Sync<'s> {
    pub(super) state: &'s mut State,
    pub(super) own: &'s mut OwnPages,
    pub(super) made: (u32, u64),
}

/// What operations of a rank change where no server takes part in them.
#[derive(Default)]
pub(super) struct OwnPages {
    /// Copies of pages that this rank has not allocated yet.
    early: Vec<(NodeId, PageRun)>,
    pub(super) shelf: Shelf,
}

impl Serverless {
    /// The side of a rank whose pages lie in memory that all ranks map, where the fabric's windows
    /// have room for locks: so it is for every rank of a job or for none.
    ///
    /// # Errors
    /// `Kind::Environment` when that memory cannot be mapped.
    pub(super) fn open(carrier: &dyn Carrier, config: &Config) -> Result<Option<Serverless>> {
        let Some(file) = &config.frames else { return Ok(None) };
        let Some(road) = Road::open(carrier, config.locks, None)? else { return Ok(None) };
        let layout = Layout::new(carrier.ranks(), config.bytes_max, config.locks);
        let pages = SharedPages::open(file, layout, carrier.me());
        let pages = pages.map_err(|e| environment("mapping the pages of other ranks", e))?;
        let log_runs = config.log_capacity.min(LOG_RUNS_MAX);
        Ok(Some(Serverless { road, pages, log_runs }))
    }

    /// Takes in what other ranks have copied out of this one's frames.
    pub(super) fn drain(
        &self,
        rank: &mut Rank<Segment>,
        own: &mut OwnPages,
        carrier: &dyn Carrier,
    ) -> Result<()> {
        before_drain();
        let mut found = std::mem::take(&mut own.early);
        for from in (0..carrier.ranks()).map(NodeId).filter(|from| *from != carrier.me()) {
            if !self.pages.drain(from.0, |run| found.push((from, run))) {
                rank.all_copied();
            }
        }
        for (from, run) in found {
            let known = u64::from(rank.pages()).min(run.end());
            let first = u64::from(run.first().0);
            let run_of = |from: u64, end: u64| {
                PageRun::new(PageId(from as u32), end.saturating_sub(from) as u32)
            };
            run_of(first, known).map_or(Ok(()), |run| rank.copied(from, run))?;
            own.early.extend(run_of(first.max(known), run.end()).map(|run| (from, run)));
        }
        Ok(())
    }

    /// Retries `act` until it could be done: awake for a moment, then in naps. Asks now and then
    /// whether the job still runs.
    fn patiently<T>(common: &Common, mut act: impl FnMut() -> Option<T>) -> Result<T> {
        let mut looks = 0;
        loop {
            if let Some(done) = act() {
                return Ok(done);
            }
            std::hint::spin_loop();
            looks += 1;
            if looks >= LOOKS {
                looks = 0;
                common.check()?;
                fabric(common).pause(NAP);
            }
        }
    }

    /// Shows a guard on bytes `start..end` to the ranks that may write there.
    pub(super) fn show(&self, common: &Common, start: usize, end: usize) -> Result<()> {
        Self::patiently(common, || self.pages.show(start, end).then_some(()))
    }

    /// Ends a guard.
    pub(super) fn unshow(&self, common: &Common, start: usize, end: usize) -> Result<()> {
        Self::patiently(common, || self.pages.unshow(start, end).then_some(()))
    }

    /// Writes differences into their home's frames when its latch and its guards allow it.
    pub(super) fn merge(
        &self,
        common: &Common,
        home: NodeId,
        diffs: &[(PageId, Diff)],
    ) -> Result<()> {
        Self::patiently(common, || self.try_merge(common, home, diffs))?
    }

    /// As `merge` where that can be done now.
    pub(super) fn try_merge(
        &self,
        common: &Common,
        home: NodeId,
        diffs: &[(PageId, Diff)],
    ) -> Option<Result<()>> {
        if diffs.is_empty() {
            return Some(Ok(()));
        }
        match self.pages.merge(home, diffs) {
            Err(Refused::Later) => None,
            Err(Refused::Race(low, high)) => Some(Err(race(common, home, low, high))),
            Ok(()) => Some(Ok(())),
        }
    }

    /// Where locks are taken and barriers are met.
    pub(super) fn road(&self) -> &Road {
        &self.road
    }

    /// What earlier sections have told that this rank has not heard, and the log's version; the
    /// memory of `news` is used.
    pub(super) fn news(
        &self,
        lock: LockId,
        seen: u64,
        generation: u64,
        mut news: Vec<Notice>,
    ) -> (Notices, u64) {
        let version = self.pages.version(lock);
        if version == seen {
            news.clear();
            return (Notices::These(news), version);
        }
        match self.pages.news(lock, seen, generation, &mut news) {
            true => (Notices::These(news), version),
            false => (Notices::Everything, version),
        }
    }

    /// Leaves a section, and tells what was written in it.
    pub(super) fn release(
        &self,
        common: &Common,
        lock: LockId,
        generation: u64,
        written: &[PageRun],
    ) -> Result<()> {
        if !written.is_empty() {
            self.pages.record(lock, self.log_runs, generation, written);
        }
        self.road.leave(common, lock)
    }

    /// Every rank compares with every other one, so that none departs where two differ.
    fn compare(&self, common: &Common, parity: usize, made: (u32, u64)) -> Result<()> {
        let me = common.carrier.me();
        let differs = |rank: &u16| self.pages.made(*rank, parity) != made;
        let found = (0..common.carrier.ranks()).find(differs).map(NodeId);
        let Some(rank) = found.filter(|_| !mutant!("dsm_road_compares_nothing")) else {
            return Ok(());
        };
        let named = if rank == NodeId(0) { me } else { rank };
        Err(allocated_differently(named, made.0).at_rank(me))
    }

    /// Waits for every rank; what all have noticed, in place of what is in `notices`.
    pub(super) fn meet(
        &self,
        common: &Common,
        state: &mut State,
        made: (u32, u64),
        written: &[PageRun],
        pages: u32,
        notices: &mut Vec<Notice>,
    ) -> Result<()> {
        let parity = state.parity();
        self.pages.tell(parity, written, made);
        self.road.meet(common, state, made)?;
        self.compare(common, parity, made)?;
        notices.clear();
        for writer in (0..common.carrier.ranks()).map(NodeId) {
            if !self.pages.told(writer.0, parity, notices) {
                let all = PageRun::new(PageId(0), pages).into_iter();
                notices.extend(all.map(|pages| Notice { pages, writer }));
            }
        }
        in_order(notices);
        Ok(())
    }

    /// Copies the pages that were wanted with a departure and that it names.
    pub(super) fn bring(
        &self,
        rank: &mut Rank<Segment>,
        wanted: &[PageId],
        notices: &[Notice],
    ) -> Result<()> {
        let (me, mut copied) = (NodeId(self.pages.me()), Vec::new());
        for page in wanted.iter().copied().filter(|page| is_news(notices, *page, me)) {
            let home = rank.home(page);
            self.pages.copy(home, page.into(), &mut copied, |page, bytes| {
                let came = rank.copied_in(home, page, bytes)?;
                debug_assert!(came.send.is_empty(), "a wanted page waits for the departure");
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    }

    /// Ends an operation: pages of other ranks that it has reached are let go now and then.
    pub(super) fn end(&self, rank: &mut Rank<Segment>) -> Result<()> {
        let let_go = self.pages.let_go();
        let_go.map_err(|e| environment("letting go of pages of other ranks", e))?;
        rank.frames_mut().settle()
    }
}

#[cold]
fn race(common: &Common, home: NodeId, low: usize, high: usize) -> Error {
    let me = common.carrier.me();
    let what = format!(
        "data race: rank {me} wrote bytes {low}..{high} of shared memory while rank {home} had a \
         guard on them; order the two by a lock or a barrier"
    );
    let page = (low / common.page_bytes) as u32;
    let race = Error::new(Kind::Misuse, what).at_rank(me).at_peer(home);
    race.at_page(page).at_offset(low as u64)
}

/// An operation of the program on its way through what the protocol wants sent.
pub(super) struct Errand<'c> {
    common: &'c Common,
    way: &'c Serverless,
    /// What is to be sent.
    queue: VecDeque<Envelope>,
    done: bool,
    /// Pages wanted with the departure.
    wanted: Vec<PageId>,
}

impl Common {
    /// Carries out one operation of the program that makes pages accessible, without a server.
    pub(super) fn operate_alone(
        &self,
        way: &Serverless,
        op: impl FnOnce(&mut Rank<Segment>) -> Result<Outcome>,
    ) -> Result<()> {
        let _inside = Inside::enter();
        let _alone = self.alone();
        let mut engine = self.locked();
        engine.check()?;
        let outcome = op(&mut engine.rank)?;
        let done = Errand::new(self, way, outcome).run(engine, &mut None).map(drop);
        done.inspect_err(|e| self.fail(&mut self.locked(), e))
    }
}

impl<'c> Errand<'c> {
    pub(super) fn new(common: &'c Common, way: &'c Serverless, outcome: Outcome) -> Self {
        let Outcome { send, done } = outcome;
        Errand { common, way, queue: send.into(), done, wanted: Vec::new() }
    }

    /// Carries out all that is to be sent, answers included.
    pub(super) fn run(
        mut self,
        mut engine: MutexGuard<'c, Engine>,
        sync: &mut Option<Sync<'_>>,
    ) -> Result<MutexGuard<'c, Engine>> {
        while let Some((to, message)) = self.queue.pop_front() {
            engine = match message {
                Message::GetPage { page, .. } => self.copy(engine, to, page)?,
                message => self.go(engine, to, message, sync)?,
            };
        }
        debug_assert!(self.done, "an operation stands still");
        self.way.end(&mut engine.rank)?;
        Ok(engine)
    }

    fn answer(&mut self, engine: &mut Engine, from: NodeId, message: Message) -> Result<()> {
        let Outcome { send, done } = engine.rank.receive(from, message)?;
        self.done |= done;
        self.queue.extend(send);
        Ok(())
    }

    /// Copies a page, with those behind it that are asked of the same home.
    fn copy(
        &mut self,
        mut engine: MutexGuard<'c, Engine>,
        home: NodeId,
        first: PageId,
    ) -> Result<MutexGuard<'c, Engine>> {
        let run = run_at_front(&mut self.queue, home, first);
        let mut bytes = std::mem::take(&mut engine.copied);
        let (rank, mut done) = (&mut engine.rank, false);
        self.way.pages.copy(home, run, &mut bytes, |page, bytes| {
            let outcome = rank.copied_in(home, page, bytes)?;
            done |= outcome.done;
            self.queue.extend(outcome.send);
            Ok::<_, Error>(())
        })?;
        self.done |= done;
        engine.copied = bytes;
        Ok(engine)
    }

    /// Carries out what may wait for other ranks.
    fn go(
        &mut self,
        engine: MutexGuard<'c, Engine>,
        to: NodeId,
        message: Message,
        sync: &mut Option<Sync<'_>>,
    ) -> Result<MutexGuard<'c, Engine>> {
        let (common, way) = (self.common, self.way);
        let (generation, pages) = (engine.rank.generation(), engine.rank.pages());
        drop(engine);
        let answer = match message {
            Message::Diffs { diffs } => {
                way.merge(common, to, &diffs)?;
                Some(Message::DiffsApplied)
            }
            Message::DiffsAlong { diffs } => {
                way.merge(common, to, &diffs)?;
                None
            }
            Message::Wanted { held, .. } => {
                self.wanted = held;
                None
            }
            Message::Acquire { lock, seen } => {
                way.road.take(common, lock)?;
                let (notices, version) = way.news(lock, seen, generation, Vec::new());
                Some(Message::Grant { lock, notices, version })
            }
            Message::Release { lock, generation, pages } => {
                way.release(common, lock, generation, &pages)?;
                None
            }
            Message::Arrive { generation, pages: written } => {
                let sync = sync.as_mut().ok_or_else(unsynchronised)?;
                let mut notices = Vec::new();
                way.meet(common, sync.state, sync.made, &written, pages, &mut notices)?;
                Some(Message::Depart { generation, notices })
            }
            _ => return Err(unsynchronised()),
        };
        let mut engine = common.locked();
        engine.check()?;
        if let Some(Message::Depart { notices, .. }) = &answer {
            let wanted = std::mem::take(&mut self.wanted);
            way.bring(&mut engine.rank, &wanted, notices)?;
        }
        if let Some(answer) = answer {
            self.answer(&mut engine, to, answer)?;
        }
        Ok(engine)
    }
}

/// The run from `first` on whose pages are copied at once; the requests for the others are taken
/// from the front of the queue.
fn run_at_front(queue: &mut VecDeque<Envelope>, home: NodeId, first: PageId) -> PageRun {
    let mut run = PageRun::from(first);
    while (run.count() < COPIED_MAX || mutant!("dsm_copied_run_unbounded"))
        && let Some((to, Message::GetPage { page, .. })) = queue.front()
        && *to == home
        && u64::from(page.0) == run.end()
        && let Some(longer) = PageRun::new(first, run.count() + 1)
    {
        run = longer;
        queue.pop_front();
    }
    run
}

#[cold]
fn unsynchronised() -> Error {
    Error::new(Kind::Protocol, "the protocol wants sent what no rank without a server takes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_home_are_copied_together_and_not_without_limit() {
        let ask = |to, page| (NodeId(to), Message::GetPage { page: PageId(page), phase: 0 });
        let mut queue: VecDeque<Envelope> = (1..2 * COPIED_MAX).map(|n| ask(1, n)).collect();
        queue.extend([ask(2, 2 * COPIED_MAX), ask(2, 9)]);
        let mut runs = Vec::new();
        queue.push_front(ask(1, 0));
        while let Some((home, Message::GetPage { page, .. })) = queue.pop_front() {
            let run = run_at_front(&mut queue, home, page);
            runs.push((home.0, run.first().0, run.count()));
        }
        let halves = [(1, 0, COPIED_MAX), (1, COPIED_MAX, COPIED_MAX)];
        assert_eq!(runs[..2], halves);
        assert_eq!(runs[2..], [(2, 2 * COPIED_MAX, 1), (2, 9, 1)]);
    }
}
