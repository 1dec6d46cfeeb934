//! The *short way*: a lock, unlock or barrier in steps that make no message, where this rank itself
//! reaches the homes' frames, the locks' logs and the other ranks' lists.
//!
//! ```text
//!    begin_short -> differences of one home -> ... -> end_scope -> granted, departed, or nothing
//! ```
//!
//! 1. [`Rank::begin_short`] says whether the way is open, by one predicate, `is_short`.
//! 2. [`Rank::next_differences`] makes the differences of one home after the other; the caller has
//!    written them into that home's frames before it asks for the next ones.
//! 3. [`Rank::end_scope`] says what comes then. The caller takes the lock and reads its log
//!    ([`Rank::granted`]), or writes the log and leaves the lock, or tells the other ranks what was
//!    noticed and reads their lists ([`Rank::departed`]).
//! 4. Pages that are missing then are asked for as they always are.
//!
//! Invariants
//! - All differences are at home before the scope ends (mutants `dsm_short_way_keeps_differences`,
//!   `dsm_short_way_loses_a_home`). Checked by `repeated_contended_sections`,
//!   `a_section_writes_pages_of_two_homes`.
//! - Nothing is evicted and no acknowledgement is awaited on the short way. Checked by
//!   `begin_short`.

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::{AfterFlush, BARRIER_MANAGER, Outcome, Rank, Waiting};
use crate::core::diff::Diff;
use crate::core::frames::Frames;
use crate::core::message::{LockId, Message, Notice, Notices, PageId, PageRun};
use crate::error::Result;

/// Most written pages of a scope that ends by the short way: their differences are made in one
/// piece for each home, and its latch is held while they are written.
const PAGES_MAX: usize = 64;

/// An operation that ends a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Enters a section.
    Lock(LockId),
    /// Leaves the innermost section.
    Unlock(LockId),
    /// Waits for every rank.
    Barrier,
}

/// What follows the end of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Take the lock; the version of its log that this rank has seen.
    Take(LockId, u64),
    /// Write what the shelf tells into the lock's log, and leave the lock.
    Leave(LockId),
    /// Tell the other ranks what the shelf tells, wait for them; pages wanted with the departure.
    Meet(Vec<PageId>),
}

/// Memory that the steps use, and use again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shelf {
    /// Differences; the first `made` of them are those of the home that is next.
    diffs: Vec<(PageId, Diff)>,
    made: usize,
    /// What is told at the end of a scope.
    pub told: Vec<PageRun>,
    /// What the others have told.
    pub heard: Vec<Notice>,
}

impl Shelf {
    /// Differences of one home.
    pub fn differences(&self) -> &[(PageId, Diff)] {
        &self.diffs[..self.made]
    }

    fn slot(&mut self, page: PageId) -> &mut Diff {
        if self.made == self.diffs.len() {
            self.diffs.push((page, Diff::default()));
        }
        let slot = &mut self.diffs[self.made];
        slot.0 = page;
        &mut slot.1
    }
}

impl<F: Frames> Rank<F> {
    /// Whether a scope may end by the short way: it wrote few pages, no difference is under way, no
    /// copy has to be evicted, and no message of another rank is part of the operation.
    fn is_short(&self, then: &AfterFlush) -> bool {
        !self.in_place
            && self.has_barrier_manager()
            && self.owed == 0
            && self.open.pages().len() <= PAGES_MAX
            && self.prediction_fits(then)
    }

    /// Begins an operation by the short way; `false` where it must go by messages, and nothing has
    /// begun.
    ///
    /// # Errors
    /// As [`Rank::lock`], [`Rank::unlock`], [`Rank::barrier`].
    pub fn begin_short(&mut self, ending: Ending, shelf: &mut Shelf) -> Result<bool> {
        let then = self.allowed(ending)?;
        if !self.is_short(&then) {
            return Ok(false);
        }
        debug_assert!(self.unsent.is_empty() && self.owed == 0, "differences are under way");
        if !self.open.is_empty() {
            self.open.pages().runs_into(&mut shelf.told);
            self.lower_all(&[], &shelf.told)?;
            let open = std::mem::take(&mut self.open);
            shelf.made = 0;
            self.queue_differences(&open, shelf.slot(PageId(0)));
        }
        self.waiting = Waiting::Flush { acks: 0, then, riding: Vec::new() };
        Ok(true)
    }

    /// Puts the differences of one home's pages on the shelf, to be written there before the next
    /// step; `None` when all are home.
    pub fn next_differences(&mut self, shelf: &mut Shelf) -> Option<NodeId> {
        shelf.made = 0;
        if mutant!("dsm_short_way_keeps_differences") {
            self.unsent.clear();
        }
        while let Some(first) = self.unsent.front() {
            let home = self.home(*first);
            for _ in 0..self.unsent.len() {
                let Some(page) = self.unsent.pop_front() else { break };
                if self.home(page) != home {
                    self.unsent.push_back(page);
                } else if self.clean_into(page, shelf.slot(page)) {
                    shelf.made += 1;
                }
            }
            if mutant!("dsm_short_way_loses_a_home") {
                self.unsent.clear();
            }
            if shelf.made > 0 {
                return Some(home);
            }
        }
        None
    }

    /// Ends the scope, whose differences are home; what follows.
    ///
    /// # Panics
    /// When no operation was begun by the short way.
    pub fn end_scope(&mut self, shelf: &mut Shelf) -> Next {
        debug_assert!(self.unsent.is_empty(), "differences are not home");
        let before = std::mem::replace(&mut self.waiting, Waiting::Nothing);
        let Waiting::Flush { then, .. } = before else { panic!("no scope ends by the short way") };
        match then {
            AfterFlush::Acquire(lock) => {
                self.waiting = Waiting::Grant(lock);
                Next::Take(lock, self.seen.get(&lock).copied().unwrap_or(0))
            }
            AfterFlush::Release(lock) => {
                self.close_section(lock, &mut shelf.told);
                Next::Leave(lock)
            }
            AfterFlush::Arrive => {
                let mut out = Outcome::default();
                self.close_phase(&mut shelf.told, &mut out);
                self.waiting = Waiting::Depart;
                let wanted = out.send.into_iter().find_map(|(_, message)| match message {
                    Message::Wanted { held, .. } => Some(held),
                    _ => None,
                });
                Next::Meet(wanted.unwrap_or_default())
            }
        }
    }

    /// A page that this rank has copied out of its home's frames, as one that was sent.
    ///
    /// # Errors
    /// `Kind::Protocol` for a page that was not asked for.
    pub fn copied_in(&mut self, home: NodeId, page: PageId, bytes: &[u8]) -> Result<Outcome> {
        let mut out = Outcome::default();
        self.take_page(home, page, bytes.into(), &mut out)?;
        Ok(out)
    }

    /// The lock is this rank's, which has read its log.
    ///
    /// # Errors
    /// `Kind::Protocol` when this rank does not wait for it.
    pub fn granted(&mut self, lock: LockId, notices: &Notices, version: u64) -> Result<Outcome> {
        let (mut out, manager) = (Outcome::default(), self.shape.manager(lock));
        self.take_grant(manager, lock, notices, version, &mut out)?;
        Ok(out)
    }

    /// Every rank has come to the barrier, and these are the notices of all, as in a departure.
    ///
    /// # Errors
    /// `Kind::Protocol` when this rank has not arrived.
    pub fn departed(&mut self, notices: &[Notice]) -> Result<Outcome> {
        let (mut out, generation) = (Outcome::default(), self.generation);
        self.take_departure(BARRIER_MANAGER, generation, notices, &mut out)?;
        Ok(out)
    }
}
