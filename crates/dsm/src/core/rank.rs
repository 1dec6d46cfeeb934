//! One rank of a job: its view of the shared pages, its open sections, and the homes it keeps.
//!
//! Page states: `Invalid -> Shared -> Written -> Shared` and `Shared -> Invalid`; a home page is
//! never invalid. A written copy has a twin; a written home page has none, since the home's bytes
//! are the page.
//!
//! Life of a section of lock `l`
//! 1. `lock(l)`: what was written in the enclosing scope is sent home and acknowledged, then the
//!    request goes to the manager.
//! 2. The grant names pages others wrote under `l`; cached copies of them are invalidated. Pages
//!    that this rank wrote in its last section of `l` are *predicted*: fetched at once if invalid
//!    and made writable, so that a repeated section takes no fault.
//! 3. Reads and writes; a miss fetches the page from its home.
//! 4. `unlock(l)`: diffs go home and are acknowledged, and only then the release with its notices
//!    goes to the manager. The order matters: a release that overtakes a diff is a lost update (the
//!    paper's text gives no fence).
//! 5. The section's notices are merged into the enclosing scope, so an outer lock's next holder and
//!    the barrier see them too.
//!
//! Invariants
//! - A rank has at most one operation under way; messages are served at any time, also while
//!   waiting. Checked by `misuse_is_named_and_changes_nothing`, `three_ranks_share_a_lock`.
//! - No copy is `Written` while a lock or barrier operation waits for its manager, so an
//!   invalidation never meets unsent bytes; home pages are never invalidated. Checked by
//!   `race_free_programs_read_what_they_should`, `three_ranks_share_a_lock`.
//! - Every page written in a scope is noticed in that scope, whether or not its bytes changed: the
//!   next holder may have an older copy than this writer had. Checked by
//!   `a_predicted_store_of_the_same_value_is_published`,
//!   `a_page_handed_out_at_any_point_is_noticed_from_then_on`.
//!
//! With [`Rank::keep_unshared_home`] a home page of which no other rank has a copy is *unshared*:
//! its home writes it without noticing, since there is no other holder to be told (JIAJIA 2.1's
//! adaptive write detection, here by knowledge instead of prediction). It ends when the page is
//! first sent, from when on it is noticed as written in the scope it was sent in, and begins again
//! when a barrier has made all ranks drop a copy and none has asked since.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

mod along;
mod cache;
mod early;
mod exchange;
mod flush;
mod gather;
mod open;
mod sharing;
mod short;
mod want;

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::barrier::Barrier;
use super::diff::Diff;
use super::frames::{Frames, Permission, PlainFrames};
use super::lock::ManagedLock;
use super::message::{LockId, Message, Notice, Notices, PageId, PageRun};
use super::pages::PageSet;
use crate::error::{Error, Kind, Result};
use along::Along;
use cache::Cache;
use exchange::Exchange;
use flush::UNDER_WAY_MAX;
use gather::Gather;
pub(crate) use gather::allocated_differently;
use open::Open;
pub use short::{Ending, Next, Shelf};
use want::Wish;

/// The shape of a job; equal on every rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Ranks.
    pub ranks: u16,
    /// Pages of shared memory.
    pub pages: u32,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Locks.
    pub locks: u32,
    /// Notices a lock's log can hold.
    pub log_capacity: usize,
    /// Whether pages written in the last section of a lock are fetched with its grant.
    pub predict: bool,
}

impl Shape {
    /// The home of a page: page-cyclic from rank zero.
    pub fn home(&self, page: PageId) -> NodeId {
        rank_of(page.0, self.ranks)
    }

    /// The manager of a lock.
    pub fn manager(&self, lock: LockId) -> NodeId {
        rank_of(lock.0, self.ranks)
    }
}

fn rank_of(id: u32, ranks: u16) -> NodeId {
    if id < u32::from(ranks) {
        return NodeId(id as u16);
    }
    NodeId(u16::try_from(id % u32::from(ranks)).expect("invariant: a remainder of a u16 fits u16"))
}

/// The manager of the barrier.
pub const BARRIER_MANAGER: NodeId = NodeId(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Access {
    Invalid,
    Shared,
    Written,
}

/// Who keeps a run of pages: blocks of `block_pages` dealt round from rank `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Placement {
    start: u32,
    block_pages: u32,
    first: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Scope {
    lock: Option<LockId>,
    /// Pages to be noticed: written, or made writable by prediction.
    written: PageSet,
    /// Those of them that were predicted in vain; they are noticed all the same, because a store of
    /// the value already there cannot be told from no store, and the next holder may rely on it.
    idle: PageSet,
    /// Homes that have not yet answered after differences that rode to them.
    unconfirmed: BTreeSet<NodeId>,
}

/// What a waiting rank does when its diffs are home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum AfterFlush {
    Acquire(LockId),
    Release(LockId),
    Arrive,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Waiting {
    Nothing,
    /// Acknowledgements of evicted differences, before others are made and the pages fetched.
    Room(Wish),
    /// Pages on their way; some become writable, with twins where that is a prediction.
    Pages {
        missing: BTreeSet<PageId>,
        write: BTreeSet<PageId>,
        predicted: bool,
    },
    /// Acknowledgements; what travels with the next message comes after them.
    Flush {
        acks: usize,
        then: AfterFlush,
        riding: Vec<Envelope>,
    },
    Grant(LockId),
    Depart,
}

/// A message and where it goes.
pub type Envelope = (NodeId, Message);

/// What came of an operation or a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Messages to send, in order.
    pub send: Vec<Envelope>,
    /// Whether the rank's operation has ended with this step.
    pub done: bool,
}

/// Counts of one rank's protocol work; deterministic under a deterministic fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Reads or writes that found their page invalid.
    pub misses: u64,
    /// Writes that found their page shared.
    pub upgrades: u64,
    /// Pages fetched because a lock's last section wrote them.
    pub predicted_fetches: u64,
    /// Diffs sent home.
    pub diffs: u64,
    /// Bytes of those diffs on the wire.
    pub diff_bytes: u64,
    /// Pages invalidated by notices.
    pub invalidations: u64,
}

/// One rank; see the module's page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rank<F = PlainFrames> {
    me: NodeId,
    shape: Shape,
    frames: F,
    access: Vec<Access>,
    placements: Vec<Placement>,
    /// Pages in `Access::Written` that are noticed.
    open: Open,
    scopes: Vec<Scope>,
    seen: BTreeMap<LockId, u64>,
    predicted: BTreeMap<LockId, PageSet>,
    generation: u64,
    /// Whether every rank reaches the pages themselves, which are lines then.
    in_place: bool,
    /// Which home pages no other rank has a copy of; `None` when that is not kept.
    unshared: Option<Vec<bool>>,
    /// Which pages were copied is not known since the last barrier: others may have allocated more.
    names_lost: bool,
    /// Written copies whose differences the flush or eviction under way has not sent yet.
    unsent: VecDeque<PageId>,
    /// Acknowledgements of differences of evicted pages that have not come.
    owed: usize,
    /// Copies that take memory, oldest first, and how many may; `None` when that is not kept.
    cache: Option<Cache>,
    /// Home pages noticed in the arrival under way that no rank has asked for since.
    published: PageSet,
    /// Requests for pages that this rank has not allocated yet; `None` when there can be none.
    early: Option<Vec<(NodeId, PageId, u32)>>,
    /// What is predicted and what travels along; `None` when each message stands alone.
    along: Option<Along>,
    /// What two ranks tell each other of a barrier; `None` where a manager lets all go.
    exchange: Option<Exchange>,
    /// What more ranks tell each other of one; `None` likewise.
    gather: Option<Gather>,
    waiting: Waiting,
    managed: BTreeMap<LockId, ManagedLock>,
    barrier: Barrier,
    counts: Counts,
}

impl Rank {
    /// Rank `me` of a job over plain frames; its home pages are zero, every other page is invalid.
    pub fn new(me: NodeId, shape: Shape) -> Self {
        let frames = PlainFrames::new(shape.page_bytes);
        Rank::over(me, shape, frames)
    }

    /// The bytes of a page if they may be read now, without a fault.
    pub fn readable(&self, page: PageId) -> Option<&[u8]> {
        let access = *self.access.get(page.0 as usize)?;
        (access != Access::Invalid).then(|| self.frames.page(page))
    }

    /// The bytes of a page if they may be written now, without a fault.
    pub fn writable(&mut self, page: PageId) -> Option<&mut [u8]> {
        let access = *self.access.get(page.0 as usize)?;
        (access == Access::Written).then(|| self.frames.page_mut(page))
    }
}

impl<F: Frames> Rank<F> {
    /// Rank `me` of a job over `frames`, which must have no page yet. The shape's pages are dealt
    /// round from rank zero; [`Rank::extend`] adds others.
    pub fn over(me: NodeId, shape: Shape, frames: F) -> Self {
        let barrier = Barrier::new(shape.ranks);
        let pages = shape.pages;
        let mut rank = Rank {
            me,
            shape: Shape { pages: 0, ..shape },
            frames,
            access: Vec::new(),
            placements: Vec::new(),
            open: Open::default(),
            scopes: vec![Scope::default()],
            seen: BTreeMap::new(),
            predicted: BTreeMap::new(),
            generation: 0,
            in_place: false,
            unshared: None,
            names_lost: false,
            unsent: VecDeque::new(),
            owed: 0,
            cache: None,
            published: PageSet::default(),
            early: None,
            along: None,
            exchange: None,
            gather: None,
            waiting: Waiting::Nothing,
            managed: BTreeMap::new(),
            barrier,
            counts: Counts::default(),
        };
        rank.extend(pages, 1, NodeId(0));
        rank
    }

    /// Adds `pages` zero pages, kept in blocks of `block_pages` dealt round from rank `first`; the
    /// first of them. Every rank extends alike before any of them touches the new pages.
    ///
    /// # Panics
    /// When the job would have 2^32 pages, or a block none.
    pub fn extend(&mut self, pages: u32, block_pages: u32, first: NodeId) -> PageId {
        assert!(block_pages > 0, "a block has at least one page");
        let start = self.shape.pages;
        self.shape.pages = start.checked_add(pages).expect("fewer than 2^32 pages");
        self.placements.push(Placement { start, block_pages, first: first.0 });
        self.frames.extend(pages);
        for page in start..self.shape.pages {
            let at_home = self.home(PageId(page)) == self.me && !self.in_place;
            self.access.push(if at_home { Access::Shared } else { Access::Invalid });
            if let Some(unshared) = &mut self.unshared {
                unshared.push(at_home && !self.names_lost);
            }
            if at_home {
                self.frames.allow(PageId(page), Permission::Read);
            }
        }
        PageId(start)
    }

    /// Pages of the job so far.
    pub fn pages(&self) -> u32 {
        self.shape.pages
    }

    /// The home of a page.
    pub fn home(&self, page: PageId) -> NodeId {
        let after = self.placements.partition_point(|p| p.start <= page.0);
        let p = self.placements[after - 1];
        let into = page.0 - p.start;
        // Two divisions would be most of the work.
        let block = if into < p.block_pages { 0 } else { into / p.block_pages };
        rank_of(block + u32::from(p.first), self.shape.ranks)
    }

    /// Where the block of pages that `page` is in ends: they have one home.
    fn block_end(&self, page: PageId) -> u32 {
        let after = self.placements.partition_point(|p| p.start <= page.0);
        let p = self.placements[after - 1];
        let end = self.placements.get(after).map_or(self.shape.pages, |next| next.start);
        let into = (page.0 - p.start) % p.block_pages;
        page.0.saturating_add(p.block_pages - into).min(end)
    }

    /// Barriers that this rank has departed from.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether an operation is under way.
    pub fn is_waiting(&self) -> bool {
        self.waiting != Waiting::Nothing
    }

    /// The lock whose grant is awaited.
    pub fn awaited_lock(&self) -> Option<LockId> {
        if let Waiting::Grant(lock) = self.waiting { Some(lock) } else { None }
    }

    /// The locks held, outermost first.
    pub fn held(&self) -> impl Iterator<Item = LockId> + '_ {
        self.scopes.iter().filter_map(|s| s.lock)
    }

    /// The locks managed here that `rank` holds.
    pub fn held_by(&self, rank: NodeId) -> Vec<LockId> {
        let its = |(_, l): &(&LockId, &ManagedLock)| l.holder() == Some(rank);
        self.managed.iter().filter(its).map(|(lock, _)| *lock).collect()
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The memory the pages are in.
    pub fn frames(&self) -> &F {
        &self.frames
    }

    /// The memory the pages are in, for settling what `allow` has asked.
    pub fn frames_mut(&mut self) -> &mut F {
        &mut self.frames
    }

    /// Enters a section of `lock`.
    ///
    /// # Errors
    /// `Kind::Misuse` when this rank holds the lock already or is busy, `Kind::OutOfRange` for a
    /// lock the job does not have.
    pub fn lock(&mut self, lock: LockId) -> Result<Outcome> {
        self.end_by(Ending::Lock(lock))
    }

    /// Leaves the innermost section, which must be `lock`'s.
    ///
    /// # Errors
    /// `Kind::Misuse` when `lock` is not the innermost one held, or the rank is busy.
    pub fn unlock(&mut self, lock: LockId) -> Result<Outcome> {
        self.end_by(Ending::Unlock(lock))
    }

    /// Waits for every rank, and publishes every write to every rank.
    ///
    /// # Errors
    /// `Kind::Misuse` inside a section, or when the rank is busy.
    pub fn barrier(&mut self) -> Result<Outcome> {
        self.end_by(Ending::Barrier)
    }

    /// As `lock`, `unlock` or `barrier`.
    ///
    /// # Errors
    /// As these.
    pub fn end_by(&mut self, ending: Ending) -> Result<Outcome> {
        let then = self.allowed(ending)?;
        self.flush(then)
    }

    /// Refuses what the program may not do now; what follows the flush.
    fn allowed(&self, ending: Ending) -> Result<AfterFlush> {
        self.idle()?;
        match ending {
            Ending::Lock(lock) if lock.0 >= self.shape.locks => {
                let e = out_of_range("lock", lock.0, self.shape.locks);
                Err(e.at_rank(self.me).at_lock(lock.0))
            }
            Ending::Lock(lock) if self.held().any(|l| l == lock) => Err(taken_twice(self.me, lock)),
            Ending::Lock(lock) => Ok(AfterFlush::Acquire(lock)),
            Ending::Unlock(lock) if self.innermost().lock != Some(lock) => {
                Err(not_innermost(self.me, lock))
            }
            Ending::Unlock(lock) => Ok(AfterFlush::Release(lock)),
            Ending::Barrier => {
                if let Some(lock) = self.innermost().lock {
                    return Err(in_section(self.me, lock).at_generation(self.generation));
                }
                self.refuse_unallocated()?;
                Ok(AfterFlush::Arrive)
            }
        }
    }

    /// Takes a message.
    ///
    /// # Errors
    /// `Kind::Protocol` for a message no correct peer sends now; the rank's state is unchanged.
    pub fn receive(&mut self, from: NodeId, message: Message) -> Result<Outcome> {
        let me = self.me;
        self.take(from, message).map_err(|e| about(e.at_rank(me), from))
    }

    fn take(&mut self, from: NodeId, message: Message) -> Result<Outcome> {
        let mut out = Outcome::default();
        self.confirm(from, &message);
        match message {
            Message::GetPage { page, phase } if self.is_early(page) => {
                self.keep_early(from, page, phase)?;
            }
            Message::GetPage { page, .. } => self.serve_page(from, page, &mut out)?,
            Message::Diffs { diffs } => {
                self.apply_diffs(from, &diffs)?;
                out.send.push((from, Message::DiffsApplied));
            }
            Message::DiffsAlong { diffs } => self.apply_diffs(from, &diffs)?,
            Message::Wanted { absent, held } => self.keep_wanted(from, absent, held, &mut out)?,
            Message::Push { pages } => self.push(from, &pages, &mut out)?,
            Message::Acquire { lock, seen } => {
                let grant = self.managed(lock)?.acquire(from, seen)?;
                self.send_grant(grant, &mut out)?;
            }
            Message::Release { lock, generation, pages } => {
                let grant = self.managed(lock)?.release(from, generation, &pages)?;
                self.send_grant(grant, &mut out)?;
            }
            Message::Arrive { generation, pages } => {
                self.take_arrival(from, generation, pages, &mut out)?;
            }
            Message::Gather { generation, round, arrivals } => {
                self.take_gathered(from, generation, round, arrivals, &mut out)?;
            }
            Message::Page { page, bytes } => {
                self.take_page(from, page, Cow::Owned(bytes), &mut out)?;
            }
            Message::DiffsApplied => self.take_ack(from, &mut out)?,
            Message::Grant { lock, notices, version } => {
                self.take_grant(from, lock, &notices, version, &mut out)?;
            }
            Message::Depart { generation, notices } => {
                self.take_departure(from, generation, &notices, &mut out)?;
            }
        }
        Ok(out)
    }

    fn access(&self, page: PageId) -> Access {
        self.access[page.0 as usize]
    }

    fn set_access(&mut self, page: PageId, access: Access) {
        self.access[page.0 as usize] = access;
        self.frames.allow(page, permission_of(access));
    }

    /// As `set_access`, of a run of pages.
    fn set_access_run(&mut self, run: PageRun, access: Access) {
        self.access[range_of(run)].fill(access);
        self.frames.allow_run(run, permission_of(access));
    }

    fn innermost(&self) -> &Scope {
        self.scopes.last().expect("invariant: the barrier's scope is never left")
    }

    fn idle(&self) -> Result<()> {
        if self.is_waiting() {
            let what = format!("rank {} has an operation under way", self.me);
            return Err(misuse(what).at_rank(self.me));
        }
        Ok(())
    }

    fn note(&mut self, page: PageId) {
        let scope = self.scopes.last_mut().expect("invariant: the barrier's scope is never left");
        scope.written.insert(page);
        scope.idle.remove(page);
    }

    /// As `note`, of a run of pages.
    fn note_run(&mut self, run: PageRun) {
        let scope = self.scopes.last_mut().expect("invariant: the barrier's scope is never left");
        scope.written.insert_run(run);
        scope.idle.remove_run(run);
    }

    /// Makes a valid page writable, with a twin unless this rank is its home and knows of the
    /// write.
    fn make_writable(&mut self, page: PageId, predicted: bool) {
        debug_assert_eq!(self.access(page), Access::Shared, "a twin is made of a clean page");
        if self.is_unshared(page) {
            return self.set_access(page, Access::Written);
        }
        let needs_twin = predicted || self.home(page) != self.me;
        if needs_twin {
            self.frames.keep_twin(page);
        }
        self.set_access(page, Access::Written);
        self.open.insert(page, needs_twin);
        self.note(page);
        if predicted {
            let scope =
                self.scopes.last_mut().expect("invariant: the barrier's scope is never left");
            scope.idle.insert(page);
        } else {
            self.wrote(page);
        }
    }

    fn serve_page(&mut self, from: NodeId, page: PageId, out: &mut Outcome) -> Result<()> {
        self.at_home(from, page)?;
        self.hand_out(page);
        let is_hidden = self.frames.is_hidden(page);
        let bytes = self.frames.bytes(page);
        if let Some(has_twin) = self.open.twin_of(page) {
            let is_between = has_twin && !self.frames.is_twin(page, &bytes);
            // What is left out, or sent as it is between two writes, must be fetched again, also
            // when the page is as its twin in the end.
            if is_hidden || (is_between && !mutant!("dsm_value_between_unnoticed")) {
                self.note(page);
            }
        }
        out.send.push((from, Message::Page { page, bytes }));
        Ok(())
    }

    fn at_home(&self, from: NodeId, page: PageId) -> Result<()> {
        if page.0 >= self.shape.pages || self.home(page) != self.me {
            let what = format!("rank {from} took rank {} for the home of page {}", self.me, page.0);
            return Err(protocol(what).at_page(page.0));
        }
        Ok(())
    }

    fn managed(&mut self, lock: LockId) -> Result<&mut ManagedLock> {
        if lock.0 >= self.shape.locks || self.shape.manager(lock) != self.me {
            let what = format!("rank {} does not manage lock {}", self.me, lock.0);
            return Err(protocol(what).at_lock(lock.0));
        }
        let capacity = self.shape.log_capacity;
        let new = || ManagedLock::new(lock, capacity);
        Ok(self.managed.entry(lock).or_insert_with(new))
    }

    fn managing_barrier(&self, from: NodeId) -> Result<()> {
        if self.me != BARRIER_MANAGER {
            return Err(protocol(format!("rank {from} arrived at rank {}", self.me)));
        }
        Ok(())
    }

    fn take_ack(&mut self, from: NodeId, out: &mut Outcome) -> Result<()> {
        if let Waiting::Flush { acks, then, riding } = &mut self.waiting {
            *acks -= 1;
            if !self.unsent.is_empty() && *acks <= UNDER_WAY_MAX / 2 {
                let (then, acks) = (then.clone(), *acks);
                self.send_differences(then, acks, out)?;
            } else if *acks == 0 {
                let (then, riding) = (then.clone(), std::mem::take(riding));
                self.waiting = Waiting::Nothing;
                self.after_flush(then, riding, out)?;
            }
            return Ok(());
        }
        if self.owed == 0 {
            return Err(protocol(format!("rank {from} acknowledged diffs that were not sent")));
        }
        self.owed -= 1;
        self.go_on(out);
        self.end_if_all_came(out);
        Ok(())
    }

    fn take_grant(
        &mut self,
        from: NodeId,
        lock: LockId,
        notices: &Notices,
        version: u64,
        out: &mut Outcome,
    ) -> Result<()> {
        if self.waiting != Waiting::Grant(lock) || self.shape.manager(lock) != from {
            let what = format!("rank {from} granted lock {} unasked", lock.0);
            return Err(protocol(what).at_lock(lock.0));
        }
        match notices {
            Notices::These(list) => self.invalidate(list),
            Notices::Everything => self.invalidate_all(),
        }
        self.seen.insert(lock, version);
        // Only a page handed out while the grant was awaited is writable already.
        let written = self.open.pages().clone();
        self.scopes.push(Scope { lock: Some(lock), written, ..Scope::default() });
        self.arm_predicted(lock, out);
        Ok(())
    }

    fn invalidate(&mut self, notices: &[Notice]) {
        for notice in notices {
            if notice.writer != self.me {
                self.invalidate_run(notice.pages);
            }
        }
    }

    fn invalidate_all(&mut self) {
        // A job has fewer than 2^32 pages.
        PageRun::new(PageId(0), self.shape.pages)
            .into_iter()
            .for_each(|all| self.invalidate_run(all));
    }

    /// Invalidates the pages of a run that this rank has allocated: the writer may have more.
    fn invalidate_run(&mut self, run: PageRun) {
        let lost = u64::from(run.count() > 1 && mutant!("dsm_run_loses_its_last_page"));
        let end = (run.end() - lost).min(u64::from(self.shape.pages));
        let count = end.saturating_sub(u64::from(run.first().0)) as u32;
        let Some(run) = PageRun::new(run.first(), count) else { return };
        if self.in_place {
            return self.invalidate_lines(run);
        }
        run.pages().for_each(|page| self.invalidate_page(page));
    }

    /// Lines are invalidated wherever they are at home.
    fn invalidate_lines(&mut self, run: PageRun) {
        let lines = &self.access[range_of(run)];
        let have = |access| lines.iter().map(|a| u64::from(*a == access)).sum::<u64>();
        debug_assert_eq!(have(Access::Written), 0, "unsent bytes meet no invalidation");
        let shared = have(Access::Shared);
        if shared > 0 {
            self.set_access_run(run, Access::Invalid);
            self.counts.invalidations += shared;
        }
    }

    fn invalidate_page(&mut self, page: PageId) {
        if self.home(page) == self.me {
            return;
        }
        debug_assert_ne!(self.access(page), Access::Written, "unsent bytes meet no invalidation");
        if self.access(page) == Access::Shared {
            self.set_access(page, Access::Invalid);
            self.counts.invalidations += 1;
        }
    }
}

fn permission_of(access: Access) -> Permission {
    match access {
        Access::Invalid => Permission::Nothing,
        Access::Shared => Permission::Read,
        Access::Written => Permission::Write,
    }
}

/// A run's place in tables of pages.
fn range_of(run: PageRun) -> Range<usize> {
    run.first().0 as usize..run.end() as usize
}

/// The error as one about `from`, unless it is about another rank.
fn about(e: Error, from: NodeId) -> Error {
    if e.place().peer.is_some() || e.place().rank == Some(from) { e } else { e.at_peer(from) }
}

fn unasked(from: NodeId, page: PageId) -> Error {
    protocol(format!("rank {from} sent page {} unasked", page.0)).at_page(page.0)
}

pub(crate) fn taken_twice(rank: NodeId, lock: LockId) -> Error {
    misuse(format!("rank {rank} takes lock {} twice", lock.0)).at_rank(rank).at_lock(lock.0)
}

pub(crate) fn not_innermost(rank: NodeId, lock: LockId) -> Error {
    let what = format!("rank {rank} leaves lock {}, not its innermost", lock.0);
    misuse(what).at_rank(rank).at_lock(lock.0)
}

pub(crate) fn in_section(rank: NodeId, lock: LockId) -> Error {
    let what = format!("rank {rank} reaches a barrier holding lock {}", lock.0);
    misuse(what).at_rank(rank).at_lock(lock.0)
}

fn misuse(what: String) -> Error {
    Error::new(Kind::Misuse, what)
}

fn protocol(what: String) -> Error {
    Error::new(Kind::Protocol, what)
}

fn out_of_range(what: &str, id: u32, count: u32) -> Error {
    Error::new(Kind::OutOfRange, format!("{what} {id} of a job with {count}"))
}
