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
//!   waiting.
//! - No copy is `Written` while a lock or barrier operation waits for its manager, so an
//!   invalidation never meets unsent bytes; home pages are never invalidated.
//! - Every page written in a scope is noticed in that scope, whether or not its bytes changed: the
//!   next holder may have an older copy than this writer had.
//!
//! With [`Rank::keep_unshared_home`] a home page of which no other rank has a copy is *unshared*:
//! its home writes it without noticing, since there is no other holder to be told (JIAJIA 2.1's
//! adaptive write detection, here by knowledge instead of prediction). It ends when the page is
//! first sent, from when on it is noticed as written in the scope it was sent in, and begins again
//! when a barrier has made all ranks drop a copy and none has asked since.

use std::collections::{BTreeMap, BTreeSet};

mod early;
mod sharing;

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::barrier::Barrier;
use super::diff::Diff;
use super::frames::{Frames, Permission, PlainFrames};
use super::lock::ManagedLock;
use super::message::{LockId, Message, Notice, Notices, PageId};
use crate::error::{Error, Kind, Result};

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
    NodeId(u16::try_from(id % u32::from(ranks)).expect("invariant: a remainder of a u16 fits u16"))
}

/// The manager of the barrier.
pub const BARRIER_MANAGER: NodeId = NodeId(0);

/// Bytes of diffs that travel in one message, as soon as there are so many.
const DIFF_MESSAGE_BYTES: usize = 1 << 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Access {
    Invalid,
    Shared,
    Written,
}

/// What the program wants to do with pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    Read,
    Write,
    /// Write every byte.
    Whole,
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
    written: BTreeSet<PageId>,
    /// Those of them that were predicted in vain; they are noticed all the same, because a store of
    /// the value already there cannot be told from no store, and the next holder may rely on it.
    idle: BTreeSet<PageId>,
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
    Pages { missing: BTreeSet<PageId>, write: bool, predicted: bool },
    Flush { acks: usize, then: AfterFlush },
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
    /// Pages in `Access::Written`, and whether each has a twin. A home page has one only when it
    /// was made writable by prediction, to see whether it was written at all.
    open: BTreeMap<PageId, bool>,
    scopes: Vec<Scope>,
    seen: BTreeMap<LockId, u64>,
    predicted: BTreeMap<LockId, BTreeSet<PageId>>,
    generation: u64,
    /// Whether every rank reaches the pages themselves, which are lines then.
    in_place: bool,
    /// Which home pages no other rank has a copy of; `None` when that is not kept.
    unshared: Option<Vec<bool>>,
    /// Home pages noticed in the arrival under way that no rank has asked for since.
    published: BTreeSet<PageId>,
    /// Requests for pages that this rank has not allocated yet; `None` when there can be none.
    early: Option<Vec<(NodeId, PageId)>>,
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
            open: BTreeMap::new(),
            scopes: vec![Scope::default()],
            seen: BTreeMap::new(),
            predicted: BTreeMap::new(),
            generation: 0,
            in_place: false,
            unshared: None,
            published: BTreeSet::new(),
            early: None,
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
                unshared.push(at_home);
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
        let block = (page.0 - p.start) / p.block_pages + u32::from(p.first);
        rank_of(block, self.shape.ranks)
    }

    /// Whether an operation is under way.
    pub fn is_waiting(&self) -> bool {
        self.waiting != Waiting::Nothing
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

    /// Makes `page` readable.
    ///
    /// # Errors
    /// `Kind::OutOfRange` for a page the job does not have, `Kind::Misuse` while another operation
    /// is under way.
    pub fn read(&mut self, page: PageId) -> Result<Outcome> {
        self.want(page, 1, false)
    }

    /// Makes `page` writable and notes it in the innermost scope.
    ///
    /// # Errors
    /// As [`Rank::read`].
    pub fn write(&mut self, page: PageId) -> Result<Outcome> {
        self.want(page, 1, true)
    }

    /// Makes `count` pages from `first` on readable, or writable; all that are missing are fetched
    /// at once.
    ///
    /// # Errors
    /// As [`Rank::read`].
    pub fn want(&mut self, first: PageId, count: u32, write: bool) -> Result<Outcome> {
        self.demand(first, count, if write { Demand::Write } else { Demand::Read })
    }

    /// As [`Rank::want`] for pages of which the program writes every byte, to the same values or
    /// others.
    ///
    /// # Errors
    /// As [`Rank::read`].
    pub fn want_whole(&mut self, first: PageId, count: u32) -> Result<Outcome> {
        self.demand(first, count, Demand::Whole)
    }

    fn demand(&mut self, first: PageId, count: u32, demand: Demand) -> Result<Outcome> {
        self.idle()?;
        let end = first.0.checked_add(count).filter(|end| *end <= self.shape.pages);
        let end = end.ok_or_else(|| out_of_range("page", first.0, self.shape.pages))?;
        let mut out = Outcome::default();
        let mut missing = BTreeSet::new();
        for page in (first.0..end).map(PageId) {
            if self.in_place && self.access(page) == Access::Invalid {
                self.counts.misses += 1;
                self.refresh(page);
            }
            match self.access(page) {
                Access::Invalid => {
                    self.counts.misses += 1;
                    out.send.push((self.home(page), Message::GetPage { page }));
                    missing.insert(page);
                }
                Access::Shared if demand != Demand::Read => {
                    self.counts.upgrades += 1;
                    match demand {
                        Demand::Whole if self.in_place => self.write_in_place(page),
                        _ => self.make_writable(page, false),
                    }
                }
                Access::Shared | Access::Written => {}
            }
        }
        self.await_pages(missing, demand != Demand::Read, false, &mut out);
        Ok(out)
    }

    /// Enters a section of `lock`.
    ///
    /// # Errors
    /// `Kind::Misuse` when this rank holds the lock already or is busy, `Kind::OutOfRange` for a
    /// lock the job does not have.
    pub fn lock(&mut self, lock: LockId) -> Result<Outcome> {
        self.idle()?;
        if lock.0 >= self.shape.locks {
            return Err(out_of_range("lock", lock.0, self.shape.locks));
        }
        if self.held().any(|l| l == lock) {
            return Err(misuse(format!("rank {} takes lock {} twice", self.me, lock.0)));
        }
        self.flush(AfterFlush::Acquire(lock))
    }

    /// Leaves the innermost section, which must be `lock`'s.
    ///
    /// # Errors
    /// `Kind::Misuse` when `lock` is not the innermost one held, or the rank is busy.
    pub fn unlock(&mut self, lock: LockId) -> Result<Outcome> {
        self.idle()?;
        if self.innermost().lock != Some(lock) {
            let what = format!("rank {} leaves lock {}, not its innermost", self.me, lock.0);
            return Err(misuse(what));
        }
        self.flush(AfterFlush::Release(lock))
    }

    /// Waits for every rank, and publishes every write to every rank.
    ///
    /// # Errors
    /// `Kind::Misuse` inside a section, or when the rank is busy.
    pub fn barrier(&mut self) -> Result<Outcome> {
        self.idle()?;
        if let Some(lock) = self.innermost().lock {
            let what = format!("rank {} reaches a barrier holding lock {}", self.me, lock.0);
            return Err(misuse(what));
        }
        self.refuse_unallocated()?;
        self.flush(AfterFlush::Arrive)
    }

    /// Takes a message.
    ///
    /// # Errors
    /// `Kind::Protocol` for a message no correct peer sends now; the rank's state is unchanged.
    pub fn receive(&mut self, from: NodeId, message: Message) -> Result<Outcome> {
        let mut out = Outcome::default();
        match message {
            Message::GetPage { page } if self.is_early(page) => self.keep_early(from, page)?,
            Message::GetPage { page } => self.serve_page(from, page, &mut out)?,
            Message::Diffs { diffs } => self.apply_diffs(from, &diffs, &mut out)?,
            Message::Acquire { lock, seen } => {
                let grant = self.managed(lock)?.acquire(from, seen)?;
                out.send.extend(grant);
            }
            Message::Release { lock, generation, pages } => {
                let grant = self.managed(lock)?.release(from, generation, &pages)?;
                out.send.extend(grant);
            }
            Message::Arrive { generation, pages } => {
                self.managing_barrier(from)?;
                out.send = self.barrier.arrive(from, generation, &pages)?;
            }
            Message::Page { page, bytes } => self.take_page(from, page, bytes, &mut out)?,
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
        let permission = match access {
            Access::Invalid => Permission::Nothing,
            Access::Shared => Permission::Read,
            Access::Written => Permission::Write,
        };
        self.frames.allow(page, permission);
    }

    fn await_pages(
        &mut self,
        missing: BTreeSet<PageId>,
        write: bool,
        predicted: bool,
        out: &mut Outcome,
    ) {
        out.done = missing.is_empty();
        self.waiting =
            if out.done { Waiting::Nothing } else { Waiting::Pages { missing, write, predicted } };
    }

    fn innermost(&self) -> &Scope {
        self.scopes.last().expect("invariant: the barrier's scope is never left")
    }

    fn idle(&self) -> Result<()> {
        if self.is_waiting() {
            return Err(misuse(format!("rank {} has an operation under way", self.me)));
        }
        Ok(())
    }

    fn note(&mut self, page: PageId) {
        let scope = self.scopes.last_mut().expect("invariant: the barrier's scope is never left");
        scope.written.insert(page);
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
            let scope = self.scopes.last_mut().expect("invariant: prediction is in a section");
            scope.idle.insert(page);
        }
    }

    /// Sends every written copy's diff home; what follows waits for the acknowledgements.
    fn flush(&mut self, then: AfterFlush) -> Result<Outcome> {
        let mut out = Outcome::default();
        let mut by_home: BTreeMap<NodeId, (usize, Vec<(PageId, Diff)>)> = BTreeMap::new();
        let open: Vec<PageId> = self.open.keys().copied().collect();
        open.iter().for_each(|page| self.set_access(*page, Access::Shared));
        self.frames.lower()?;
        for (page, has_twin) in std::mem::take(&mut self.open) {
            let Some(diff) = self.clean(page, has_twin) else { continue };
            let home = self.home(page);
            let (bytes, diffs) = by_home.entry(home).or_default();
            *bytes += diff.wire_bytes();
            diffs.push((page, diff));
            if *bytes >= DIFF_MESSAGE_BYTES {
                *bytes = 0;
                let diffs = std::mem::take(diffs);
                out.send.push((home, Message::Diffs { diffs }));
            }
        }
        if self.in_place && !mutant!("pool_lines_not_fenced") {
            self.frames.fence();
        }
        let rest = by_home.into_iter().filter(|(_, (_, diffs))| !diffs.is_empty());
        out.send.extend(rest.map(|(home, (_, diffs))| (home, Message::Diffs { diffs })));
        let acks = out.send.len();
        if acks == 0 || mutant!("dsm_release_overtakes_diffs") {
            self.after_flush(then, &mut out);
        } else {
            self.waiting = Waiting::Flush { acks, then };
        }
        Ok(out)
    }

    /// Ends writing of one page; its diff, if bytes changed and the page's home is elsewhere.
    fn clean(&mut self, page: PageId, has_twin: bool) -> Option<Diff> {
        if self.in_place {
            self.settle_in_place(page, has_twin);
        }
        let diff = has_twin.then(|| self.frames.take_diff(page)).filter(|d| !d.is_empty())?;
        let scope = self.scopes.last_mut().expect("invariant: the barrier's scope is never left");
        scope.idle.remove(&page);
        if self.home(page) == self.me {
            return None;
        }
        self.counts.diffs += 1;
        self.counts.diff_bytes += diff.wire_bytes() as u64;
        Some(diff)
    }

    fn after_flush(&mut self, then: AfterFlush, out: &mut Outcome) {
        match then {
            AfterFlush::Acquire(lock) => {
                let seen = self.seen.get(&lock).copied().unwrap_or(0);
                self.waiting = Waiting::Grant(lock);
                out.send.push((self.shape.manager(lock), Message::Acquire { lock, seen }));
            }
            AfterFlush::Release(lock) => self.leave(lock, out),
            AfterFlush::Arrive => {
                let written = std::mem::take(&mut self.scopes[0].written);
                if self.unshared.is_some() {
                    let home = |page: &&PageId| self.home(**page) == self.me;
                    self.published = written.iter().filter(home).copied().collect();
                }
                let pages = written.into_iter().collect();
                self.waiting = Waiting::Depart;
                let generation = self.generation;
                out.send.push((BARRIER_MANAGER, Message::Arrive { generation, pages }));
            }
        }
    }

    fn leave(&mut self, lock: LockId, out: &mut Outcome) {
        let scope = self.scopes.pop().expect("invariant: a section is open");
        let mut pages: Vec<PageId> = scope.written.iter().copied().collect();
        if mutant!("dsm_silent_store_unnoticed") {
            pages.retain(|page| !scope.idle.contains(page));
        }
        if !mutant!("dsm_inner_notices_lost") {
            pages.iter().for_each(|&page| self.note(page));
        }
        if self.shape.predict {
            let useful = scope.written.difference(&scope.idle).copied().collect();
            self.predicted.insert(lock, useful);
        }
        self.waiting = Waiting::Nothing;
        out.done = true;
        let generation = self.generation;
        out.send.push((self.shape.manager(lock), Message::Release { lock, generation, pages }));
    }

    fn serve_page(&mut self, from: NodeId, page: PageId, out: &mut Outcome) -> Result<()> {
        self.at_home(from, page)?;
        self.hand_out(page);
        let bytes = self.frames.bytes(page);
        out.send.push((from, Message::Page { page, bytes }));
        Ok(())
    }

    fn at_home(&self, from: NodeId, page: PageId) -> Result<()> {
        if page.0 >= self.shape.pages || self.home(page) != self.me {
            let what = format!("rank {from} took rank {} for the home of page {}", self.me, page.0);
            return Err(protocol(what));
        }
        Ok(())
    }

    fn managed(&mut self, lock: LockId) -> Result<&mut ManagedLock> {
        if lock.0 >= self.shape.locks || self.shape.manager(lock) != self.me {
            let what = format!("rank {} does not manage lock {}", self.me, lock.0);
            return Err(protocol(what));
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

    fn take_page(
        &mut self,
        from: NodeId,
        page: PageId,
        bytes: Vec<u8>,
        out: &mut Outcome,
    ) -> Result<()> {
        if bytes.len() != self.shape.page_bytes || page.0 >= self.shape.pages {
            return Err(protocol(format!("rank {from} sent no page {}", page.0)));
        }
        let Waiting::Pages { missing, write, predicted } = &mut self.waiting else {
            return Err(protocol(format!("rank {from} sent page {} unasked", page.0)));
        };
        if !missing.remove(&page) {
            return Err(protocol(format!("rank {from} sent page {} unasked", page.0)));
        }
        let (write, predicted, last) = (*write, *predicted, missing.is_empty());
        self.fill(page, &bytes);
        if write {
            self.make_writable(page, predicted);
        }
        if last {
            self.waiting = Waiting::Nothing;
            out.done = true;
        }
        Ok(())
    }

    fn fill(&mut self, page: PageId, bytes: &[u8]) {
        debug_assert_eq!(self.access(page), Access::Invalid, "only an invalid page is fetched");
        self.frames.fill(page, bytes);
        self.set_access(page, Access::Shared);
    }

    fn take_ack(&mut self, from: NodeId, out: &mut Outcome) -> Result<()> {
        let Waiting::Flush { acks, then } = &mut self.waiting else {
            return Err(protocol(format!("rank {from} acknowledged diffs that were not sent")));
        };
        *acks -= 1;
        if *acks == 0 {
            let then = then.clone();
            self.waiting = Waiting::Nothing;
            self.after_flush(then, out);
        }
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
            return Err(protocol(format!("rank {from} granted lock {} unasked", lock.0)));
        }
        match notices {
            Notices::These(list) => self.invalidate(list),
            Notices::Everything => self.invalidate_all(),
        }
        self.seen.insert(lock, version);
        // Only a page handed out while the grant was awaited is writable already.
        let written = self.open.keys().copied().collect();
        self.scopes.push(Scope { lock: Some(lock), written, ..Scope::default() });
        self.arm_predicted(lock, out);
        Ok(())
    }

    /// Fetches the invalid pages among those predicted for `lock` and makes the others writable.
    fn arm_predicted(&mut self, lock: LockId, out: &mut Outcome) {
        let predicted = self.predicted.remove(&lock).unwrap_or_default();
        let mut missing = BTreeSet::new();
        for page in predicted {
            match self.access(page) {
                Access::Invalid => {
                    self.counts.predicted_fetches += 1;
                    out.send.push((self.home(page), Message::GetPage { page }));
                    missing.insert(page);
                }
                Access::Shared => self.make_writable(page, true),
                // A home page, and noticed if anybody has a copy.
                Access::Written => {}
            }
        }
        self.await_pages(missing, true, true, out);
    }

    fn take_departure(
        &mut self,
        from: NodeId,
        generation: u64,
        notices: &[Notice],
        out: &mut Outcome,
    ) -> Result<()> {
        if self.waiting != Waiting::Depart || generation != self.generation {
            return Err(protocol(format!("rank {from} ended barrier {generation} unasked")));
        }
        self.invalidate(notices);
        self.take_back();
        self.generation += 1;
        for lock in self.managed.values_mut() {
            let ahead = u64::from(mutant!("dsm_forgets_open_generation"));
            lock.forget_before(self.generation + ahead);
        }
        self.waiting = Waiting::Nothing;
        out.done = true;
        Ok(())
    }

    fn invalidate(&mut self, notices: &[Notice]) {
        for notice in notices {
            if notice.writer != self.me {
                self.invalidate_page(notice.page);
            }
        }
    }

    fn invalidate_all(&mut self) {
        for page in 0..self.shape.pages {
            self.invalidate_page(PageId(page));
        }
    }

    fn invalidate_page(&mut self, page: PageId) {
        if page.0 >= self.shape.pages || (self.home(page) == self.me && !self.in_place) {
            return;
        }
        debug_assert_ne!(self.access(page), Access::Written, "unsent bytes meet no invalidation");
        if self.access(page) == Access::Shared {
            self.set_access(page, Access::Invalid);
            self.counts.invalidations += 1;
        }
    }
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
