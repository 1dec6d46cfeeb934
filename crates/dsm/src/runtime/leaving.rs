//! Whether the ranks leave the job at one barrier.
//!
//! A rank that leaves waits at one last barrier for the others. Before it does, it tells them the
//! number of that barrier; in a section it is refused, and they are told nothing. Another rank that
//! leaves at the same number meets it there. One that has got further, or goes on beside it, would
//! wait for it for ever, and fails the job in words. In virtual time the conductor notices such
//! ranks, and nothing is told.
//!
//! Invariants
//! - A rank that begins a barrier that a leaving rank does not reach learns of it: it counts its
//!   barrier and then looks at what it was told, what tells it notes that and then looks at the
//!   count. No atomic read-modify-write orders these, which each barrier would pay for, so both may
//!   look too early; the server therefore looks again every round. Checked by
//!   `a_barrier_and_a_leave_that_do_not_meet_are_seen_from_either_side`,
//!   `a_rank_that_goes_on_when_another_leaves_says_so`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::control::{Body, LEAVES};
use super::{Common, Inside, Node, Own};
use crate::core::rank::in_section;
use crate::error::{Error, Kind, Result};

/// The barriers of this rank, and the one at which others leave.
pub(super) struct Leaving {
    /// Barriers that this rank has begun.
    begun: AtomicU64,
    /// It leaves at the last of them.
    is_last: AtomicBool,
    /// The first at which another rank leaves; all ones while none does.
    others: AtomicU64,
}

impl Leaving {
    pub(super) fn new() -> Self {
        let (begun, others) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Leaving { begun, is_last: AtomicBool::new(false), others }
    }

    /// This rank begins a barrier, and leaves at it where `is_last`; its number. One thread at a
    /// time begins barriers and takes them back.
    fn begin(&self, is_last: bool) -> u64 {
        // Mostly it is what is there. Who sees the barrier sees this too.
        if self.is_last.load(Ordering::Relaxed) != is_last {
            self.is_last.store(is_last, Ordering::Relaxed);
        }
        let number = self.begun.load(Ordering::Relaxed) + 1;
        self.begun.store(number, Ordering::Release);
        number
    }

    /// The barrier that was begun was refused.
    fn take_back(&self) {
        let begun = self.begun.load(Ordering::Relaxed);
        debug_assert!(begun > 0, "a barrier that is taken back was begun");
        self.begun.store(begun - 1, Ordering::Release);
    }

    /// Another rank leaves at its barrier of this number; whether this one may still meet it.
    pub(super) fn hear(&self, number: u64) -> bool {
        self.others.fetch_min(number, Ordering::AcqRel);
        self.may_meet_others()
    }

    /// Whether this rank has begun no barrier that another one, which leaves, does not reach.
    pub(super) fn may_meet_others(&self) -> bool {
        let others = self.others.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        let leaves_there = begun == others && self.is_last.load(Ordering::Relaxed);
        begun < others || leaves_there || mutant!("dsm_leaves_at_any_barrier")
    }
}

/// The error of `me`, which goes on while `other` leaves.
pub(super) fn left_behind(me: NodeId, other: NodeId) -> Error {
    let what = format!(
        "rank {other} leaves the job and rank {me} goes on; every rank makes the same number of \
         barriers and leaves after its last one"
    );
    Error::new(Kind::Misuse, what).at_rank(me).at_peer(other)
}

impl Node {
    /// Refuses what the last barrier would refuse, before the others are told of it.
    pub(super) fn refuse_to_leave(&self, own: &Own) -> Result<()> {
        self.common.check()?;
        own.guards.refuse_leaked()?;
        let held = match &self.road {
            Some(_) => own.road.innermost(),
            None => {
                let engine = self.common.locked();
                engine.guards.refuse_leaked()?;
                engine.rank.held().last()
            }
        };
        held.map_or(Ok(()), |lock| Err(in_section(self.me(), lock)))
    }
}

impl Common {
    /// Carries out a barrier, at which this rank leaves where `is_last`.
    pub(super) fn at_barrier(
        &self,
        is_last: bool,
        meet: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.check()?;
        let number = self.leaving.begin(is_last);
        if is_last && self.carrier.turns().is_none() {
            let leaves = Body::Agreed { count: LEAVES, fingerprint: number };
            let mut engine = self.locked();
            engine.standstill.leave();
            engine.broadcast(&*self.carrier, &leaves);
        }
        let done = if self.leaving.may_meet_others() { meet() } else { Err(self.behind()) };
        if done.is_err() {
            self.leaving.take_back();
        }
        done
    }

    /// Fails the job, since this rank goes on behind the barrier at which another leaves.
    #[cold]
    pub(super) fn behind(&self) -> Error {
        let _inside = Inside::enter();
        let mut engine = self.locked();
        let me = self.carrier.me();
        let e = left_behind(me, engine.leavers.first().unwrap_or(me));
        self.fail(&mut engine, &e);
        e
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_and_a_leave_that_do_not_meet_are_seen_from_either_side() {
        let fine = Leaving::new();
        assert_eq!([fine.begin(false), fine.begin(false)], [1, 2]);
        assert!(fine.hear(3), "it may leave at its next one");
        fine.begin(true);
        assert!(fine.may_meet_others());
        assert!(fine.hear(3));

        let further = Leaving::new();
        further.begin(false);
        assert!(!further.hear(1), "it is at a barrier and goes on behind it");
        let later = Leaving::new();
        assert!(later.hear(1));
        later.begin(false);
        assert!(!later.may_meet_others());
        let earlier = Leaving::new();
        assert!(earlier.hear(2));
        earlier.begin(true);
        assert!(earlier.may_meet_others(), "the other one is told, and goes on");
        let refused = Leaving::new();
        refused.begin(false);
        refused.take_back();
        assert!(refused.hear(1));
    }
}
