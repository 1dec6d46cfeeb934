//! A rank at work in virtual time: its program's thread does everything, in turns.
//!
//! There is no server thread. Messages come while the program is inside an operation, computing
//! included: what it computed is told first, and what arrives in that time is served before the
//! operation itself begins.
//!
//! An operation that neither sends nor waits takes no turn and no time.
//!
//! Invariants
//! - Nothing is taken in outside of a turn. Checked by
//!   `equal_jobs_are_equal_to_the_last_picosecond`.

use std::sync::atomic::Ordering;

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::Common;
use super::control::Body;
use crate::core::rank::{Outcome, Rank};
use crate::error::{Error, Kind, Result};
use crate::memory::Segment;
use crate::turn::{Ask, Turns, Wait, Wake};

/// What an operation waits for, and whether a fault began it.
#[derive(Clone, Copy)]
pub(super) struct Why {
    wait: Wait,
    faulted: bool,
}

/// A lock, an unlock, a barrier.
pub(super) const SYNC: Why = Why { wait: Wait::Syn, faulted: false };
/// A guard's range.
pub(super) const MISS: Why = Why { wait: Wait::Data, faulted: false };
/// A raw pointer's page.
pub(super) const FAULT: Why = Why { wait: Wait::Data, faulted: true };

impl Common {
    pub(super) fn operate_in_turns(
        &self,
        turns: &dyn Turns,
        why: Why,
        op: impl FnOnce(&mut Rank<Segment>) -> Result<Outcome>,
    ) -> Result<()> {
        self.locked().check()?;
        if let Some(computed) = turns.computed() {
            self.drive(turns, computed)?;
        }
        let mut engine = self.locked();
        self.begin(&mut engine, op)?;
        engine.check()?;
        drop(engine);
        let done = !self.busy.load(Ordering::Acquire);
        if done && !why.faulted && !turns.has_posts() {
            return Ok(());
        }
        self.drive(turns, Ask::Begin { wait: why.wait, faulted: why.faulted, done })
    }

    /// Takes leave of every rank and waits until all have.
    pub(super) fn part_in_turns(&self, turns: &dyn Turns) -> Result<()> {
        let done = {
            let mut engine = self.locked();
            engine.broadcast(&*self.carrier, &Body::Goodbye);
            engine.all_finished()
        };
        self.parting.store(true, Ordering::Release);
        self.busy.store(!done, Ordering::Release);
        self.drive(turns, Ask::Begin { wait: Wait::Syn, faulted: false, done })?;
        turns.give(Ask::Leave).map(drop)
    }

    /// Gives the turn away and serves what comes until the program goes on.
    fn drive(&self, turns: &dyn Turns, first: Ask) -> Result<()> {
        let mut ask = first;
        loop {
            let wake = turns.give(ask).map_err(|e| self.fail_with(e))?;
            let was_busy = self.busy.load(Ordering::Acquire);
            match wake {
                Wake::Go => return Ok(()),
                Wake::Message(from, frame) => self.take_in(from, frame),
                Wake::Lost(rank, how) => return Err(self.lose(rank, how)),
                Wake::Stuck(how) => {
                    return Err(self.fail_with(Error::new(Kind::Misuse, how)));
                }
            }
            if self.parting.load(Ordering::Acquire) && self.locked().all_finished() {
                self.busy.store(false, Ordering::Release);
            }
            self.locked().check()?;
            ask = Ask::Served { ended: was_busy && !self.busy.load(Ordering::Acquire) };
        }
    }

    /// The conductor says who was lost. To look for processes that have ended would not tell: ranks
    /// that were woken before this one have ended of it by now.
    fn lose(&self, mut rank: NodeId, mut how: String) -> Error {
        let mut engine = self.locked();
        if mutant!("dsm_verdict_unread") {
            let looked_at = engine.missing(&*self.carrier).into_iter().next();
            (rank, how) = looked_at.unwrap_or((rank, how));
        }
        let e = engine.lose(&*self.carrier, rank, how);
        self.fail(&mut engine, &e);
        e
    }

    fn fail_with(&self, e: Error) -> Error {
        self.fail(&mut self.locked(), &e);
        e
    }
}
