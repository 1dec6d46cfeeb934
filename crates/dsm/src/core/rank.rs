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
//! - No page is `Written` while a lock or barrier operation waits for its manager, so an
//!   invalidation never meets unsent bytes.
//! - Every page written in a scope is noticed in that scope, whether or not its bytes changed: the
//!   next holder may have an older copy than this writer had.

use std::collections::{BTreeMap, BTreeSet};

use littoral_base::units::NodeId;

use super::barrier::Barrier;
use super::diff::Diff;
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Access {
    Invalid,
    Shared,
    /// Writable; the twin is the page as it was. A home page has one only when it was made writable
    /// by prediction, to see whether it was written at all.
    Written(Option<Vec<u8>>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Page {
    access: Access,
    bytes: Vec<u8>,
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
    Page { page: PageId, write: bool },
    Flush { acks: usize, then: AfterFlush },
    Grant(LockId),
    Predicted { missing: BTreeSet<PageId> },
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
pub struct Rank {
    me: NodeId,
    shape: Shape,
    pages: Vec<Page>,
    scopes: Vec<Scope>,
    seen: BTreeMap<LockId, u64>,
    predicted: BTreeMap<LockId, BTreeSet<PageId>>,
    generation: u64,
    waiting: Waiting,
    managed: BTreeMap<LockId, ManagedLock>,
    barrier: Barrier,
    counts: Counts,
}

impl Rank {
    /// Rank `me` of a job; its home pages are zero, every other page is invalid.
    pub fn new(me: NodeId, shape: Shape) -> Self {
        let page = |p| {
            let at_home = shape.home(PageId(p)) == me;
            let access = if at_home { Access::Shared } else { Access::Invalid };
            Page { access, bytes: vec![0; shape.page_bytes] }
        };
        let pages = (0..shape.pages).map(page).collect();
        let barrier = Barrier::new(shape.ranks);
        Rank {
            me,
            shape,
            pages,
            scopes: vec![Scope::default()],
            seen: BTreeMap::new(),
            predicted: BTreeMap::new(),
            generation: 0,
            waiting: Waiting::Nothing,
            managed: BTreeMap::new(),
            barrier,
            counts: Counts::default(),
        }
    }

    /// Whether an operation is under way.
    pub fn is_waiting(&self) -> bool {
        self.waiting != Waiting::Nothing
    }

    /// The locks held, outermost first.
    pub fn held(&self) -> impl Iterator<Item = LockId> + '_ {
        self.scopes.iter().filter_map(|s| s.lock)
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The bytes of a page if they may be read now, without a fault.
    pub fn readable(&self, page: PageId) -> Option<&[u8]> {
        let p = self.pages.get(page.0 as usize)?;
        (p.access != Access::Invalid).then_some(&p.bytes[..])
    }

    /// The bytes of a page if they may be written now, without a fault.
    pub fn writable(&mut self, page: PageId) -> Option<&mut [u8]> {
        let p = self.pages.get_mut(page.0 as usize)?;
        matches!(p.access, Access::Written(_)).then_some(&mut p.bytes[..])
    }

    /// Makes `page` readable.
    ///
    /// # Errors
    /// `Kind::OutOfRange` for a page the job does not have, `Kind::Misuse` while another operation
    /// is under way.
    pub fn read(&mut self, page: PageId) -> Result<Outcome> {
        self.begin(page)?;
        let mut out = Outcome::default();
        if self.page(page).access == Access::Invalid {
            self.miss(page, false, &mut out);
        } else {
            out.done = true;
        }
        Ok(out)
    }

    /// Makes `page` writable and notes it in the innermost scope.
    ///
    /// # Errors
    /// As [`Rank::read`].
    pub fn write(&mut self, page: PageId) -> Result<Outcome> {
        self.begin(page)?;
        let mut out = Outcome::default();
        match self.page(page).access {
            Access::Invalid => self.miss(page, true, &mut out),
            Access::Shared => {
                self.counts.upgrades += 1;
                self.make_writable(page, false);
                out.done = true;
            }
            Access::Written(_) => out.done = true,
        }
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
        self.flush(AfterFlush::Arrive)
    }

    /// Takes a message.
    ///
    /// # Errors
    /// `Kind::Protocol` for a message no correct peer sends now; the rank's state is unchanged.
    pub fn receive(&mut self, from: NodeId, message: Message) -> Result<Outcome> {
        let mut out = Outcome::default();
        match message {
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

    fn page(&self, page: PageId) -> &Page {
        &self.pages[page.0 as usize]
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

    fn begin(&self, page: PageId) -> Result<()> {
        if page.0 >= self.shape.pages {
            return Err(out_of_range("page", page.0, self.shape.pages));
        }
        self.idle()
    }

    fn note(&mut self, page: PageId) {
        let scope = self.scopes.last_mut().expect("invariant: the barrier's scope is never left");
        scope.written.insert(page);
    }

    fn miss(&mut self, page: PageId, write: bool, out: &mut Outcome) {
        self.counts.misses += 1;
        self.waiting = Waiting::Page { page, write };
        out.send.push((self.shape.home(page), Message::GetPage { page }));
    }

    /// Makes a valid page writable, with a twin unless this rank is its home and knows of the
    /// write.
    fn make_writable(&mut self, page: PageId, predicted: bool) {
        let needs_twin = predicted || self.shape.home(page) != self.me;
        let p = &mut self.pages[page.0 as usize];
        debug_assert_eq!(p.access, Access::Shared, "a twin is made of a clean page");
        p.access = Access::Written(needs_twin.then(|| p.bytes.clone()));
        self.note(page);
        if predicted {
            let scope = self.scopes.last_mut().expect("invariant: prediction is in a section");
            scope.idle.insert(page);
        }
    }

    /// Sends every written copy's diff home; what follows waits for the acknowledgements.
    fn flush(&mut self, then: AfterFlush) -> Result<Outcome> {
        let mut by_home: BTreeMap<NodeId, Vec<(PageId, Diff)>> = BTreeMap::new();
        for index in 0..self.shape.pages {
            let page = PageId(index);
            if let Some(diff) = self.clean(page) {
                by_home.entry(self.shape.home(page)).or_default().push((page, diff));
            }
        }
        let mut out = Outcome::default();
        let acks = by_home.len();
        let sends = by_home.into_iter().map(|(home, diffs)| (home, Message::Diffs { diffs }));
        out.send.extend(sends);
        if acks == 0 || cfg!(mutant = "dsm_release_overtakes_diffs") {
            self.after_flush(then, &mut out);
        } else {
            self.waiting = Waiting::Flush { acks, then };
        }
        Ok(out)
    }

    /// Ends writing of one page; its diff, if bytes changed and the page's home is elsewhere.
    fn clean(&mut self, page: PageId) -> Option<Diff> {
        let at_home = self.shape.home(page) == self.me;
        let p = &mut self.pages[page.0 as usize];
        let Access::Written(twin) = &p.access else { return None };
        let diff = twin.as_ref().map(|t| Diff::between(t, &p.bytes)).filter(|d| !d.is_empty());
        p.access = Access::Shared;
        let diff = diff?;
        let scope = self.scopes.last_mut().expect("invariant: the barrier's scope is never left");
        scope.idle.remove(&page);
        if at_home {
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
        if cfg!(mutant = "dsm_silent_store_unnoticed") {
            pages.retain(|page| !scope.idle.contains(page));
        }
        if !cfg!(mutant = "dsm_inner_notices_lost") {
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
        let bytes = self.page(page).bytes.clone();
        out.send.push((from, Message::Page { page, bytes }));
        Ok(())
    }

    fn apply_diffs(
        &mut self,
        from: NodeId,
        diffs: &[(PageId, Diff)],
        out: &mut Outcome,
    ) -> Result<()> {
        for (page, diff) in diffs {
            self.at_home(from, *page)?;
            if !diff.fits(self.shape.page_bytes) {
                return Err(protocol(format!("rank {from} sent a diff past page {}", page.0)));
            }
        }
        for (page, diff) in diffs {
            diff.apply(&mut self.pages[page.0 as usize].bytes);
        }
        out.send.push((from, Message::DiffsApplied));
        Ok(())
    }

    fn at_home(&self, from: NodeId, page: PageId) -> Result<()> {
        if page.0 >= self.shape.pages || self.shape.home(page) != self.me {
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
        match &mut self.waiting {
            Waiting::Page { page: wanted, write } if *wanted == page => {
                let write = *write;
                self.waiting = Waiting::Nothing;
                self.fill(page, bytes);
                if write {
                    self.make_writable(page, false);
                }
                out.done = true;
            }
            Waiting::Predicted { missing } if missing.contains(&page) => {
                missing.remove(&page);
                let last = missing.is_empty();
                self.fill(page, bytes);
                self.make_writable(page, true);
                if last {
                    self.waiting = Waiting::Nothing;
                    out.done = true;
                }
            }
            _ => return Err(protocol(format!("rank {from} sent page {} unasked", page.0))),
        }
        Ok(())
    }

    fn fill(&mut self, page: PageId, bytes: Vec<u8>) {
        let p = &mut self.pages[page.0 as usize];
        debug_assert_eq!(p.access, Access::Invalid, "only an invalid page is fetched");
        *p = Page { access: Access::Shared, bytes };
    }

    fn take_ack(&mut self, from: NodeId, out: &mut Outcome) -> Result<()> {
        let Waiting::Flush { acks, then } = &mut self.waiting else {
            return Err(protocol(format!("rank {from} acknowledged diffs nobody sent")));
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
        self.scopes.push(Scope { lock: Some(lock), ..Scope::default() });
        self.arm_predicted(lock, out);
        Ok(())
    }

    /// Fetches the invalid pages among those predicted for `lock` and makes the others writable.
    fn arm_predicted(&mut self, lock: LockId, out: &mut Outcome) {
        let predicted = self.predicted.remove(&lock).unwrap_or_default();
        let mut missing = BTreeSet::new();
        for page in predicted {
            if self.page(page).access == Access::Invalid {
                self.counts.predicted_fetches += 1;
                out.send.push((self.shape.home(page), Message::GetPage { page }));
                missing.insert(page);
            } else {
                self.make_writable(page, true);
            }
        }
        out.done = missing.is_empty();
        self.waiting = if out.done { Waiting::Nothing } else { Waiting::Predicted { missing } };
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
        self.generation += 1;
        for lock in self.managed.values_mut() {
            let ahead = u64::from(cfg!(mutant = "dsm_forgets_open_generation"));
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
        if self.shape.home(page) == self.me {
            return;
        }
        let Some(p) = self.pages.get_mut(page.0 as usize) else { return };
        debug_assert!(!matches!(p.access, Access::Written(_)), "unsent bytes meet no invalidation");
        if p.access == Access::Shared {
            p.access = Access::Invalid;
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
