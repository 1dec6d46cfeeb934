//! What programs send each other beside shared memory: mail, and condition variables.
//!
//! A *condition variable* is a flag at one rank, its manager: set, reset, or waited for until it is
//! set. *Mail* is bytes under a channel and a tag, taken by the receiver in the order in which one
//! sender gave them. None of this makes memory coherent: a lock or a barrier does. In virtual time
//! neither exists, since no model says what they take.
//!
//! Invariants
//! - A rank keeps letters of a bounded size for a program that computes (`super::mailbox`); their
//!   sender waits. Checked by `letters_wait_at_the_sender_while_their_receiver_computes`.
//! - A letter and a grant reach the rank they are for, this one included. Checked by
//!   `letters_and_condition_variables_reach_the_other_rank`.
//! - A wait for what no rank sends or sets any more ends with an error. Checked by
//!   `a_wait_for_a_letter_of_a_rank_that_leaves_fails`,
//!   `a_wait_for_a_variable_that_no_rank_sets_any_more_fails`,
//!   `ranks_that_wait_when_no_other_goes_on_say_so`.
//! - A condition variable is changed when the call that changes it returns, so that what ranks do
//!   to it takes the order that a lock, a barrier or a letter gives their calls: messages of two
//!   ranks to its manager have none. Checked by
//!   `a_condition_variable_is_changed_when_its_manager_has_said_so`.

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::carrier::Carrier;
use super::control::{Body, CvAct};
use super::engine::Engine;
use super::standstill::Awaits;
use super::{FULL, Inside, Node};
use crate::error::{Error, Kind, Result};

/// Bytes that may wait for room at a receiver before its sender does.
const WAITING_MAX: usize = 256 << 10;
/// How many rounds of the ranks a manager's condition variable lies behind its first one that no
/// program has.
const PROBE_ROUNDS: u32 = 1 << 15;

/// The error of a wait for a letter of a rank that has sent its last one.
fn silent(me: NodeId, from: NodeId) -> Error {
    let what = format!(
        "rank {me} waits for a message of rank {from}, which leaves the job and sends nothing more"
    );
    Error::new(Kind::Misuse, what).at_rank(me).at_peer(from)
}

/// The error of a wait for a condition variable that no rank sets any more.
fn unset(me: NodeId, cv: u32) -> Error {
    let what = format!(
        "rank {me} waits for condition variable {cv}, and all other ranks leave the job without \
         having set it"
    );
    Error::new(Kind::Misuse, what).at_rank(me)
}

impl Node {
    /// Sends `bytes` to a rank, this one included.
    pub(crate) fn send(&self, to: NodeId, channel: u8, tag: i32, bytes: &[u8]) -> Result<()> {
        let bytes = bytes.to_vec();
        if to == self.me() {
            return self.here(|engine, _| engine.mailbox.put(to, channel, tag, bytes));
        }
        self.check_rank(to)?;
        self.wait_for_credit(to)?;
        let length = bytes.len();
        self.here(|engine, carrier| {
            engine.mailbox.trust(to, length);
            engine.post(carrier, to, &Body::Mail { channel, tag, bytes });
        })?;
        self.wait_for_room(to)
    }

    /// Waits while the receiver keeps many letters that its program has not taken.
    fn wait_for_credit(&self, to: NodeId) -> Result<()> {
        if !self.common.locked().mailbox.must_wait(to) {
            return Ok(());
        }
        self.common.wait_for(None, |engine| (!engine.mailbox.must_wait(to)).then_some(()))
    }

    /// Waits while much has found no room at the receiver: mail to a rank that takes nothing in
    /// would fill this one's memory.
    fn wait_for_room(&self, to: NodeId) -> Result<()> {
        let common = &self.common;
        let mut engine = common.locked();
        if engine.waiting_bytes(to) <= WAITING_MAX {
            return Ok(());
        }
        engine.begin_waiting(&*common.carrier);
        while engine.waiting_bytes(to) > WAITING_MAX && engine.failed.is_none() {
            engine.drain(&*common.carrier);
            engine = common.changed.wait(engine, FULL);
        }
        engine.mailbox.end_waiting();
        engine.check()
    }

    /// Takes the next letter from a rank, waiting for it.
    pub(crate) fn receive(&self, from: NodeId, channel: u8, tag: i32) -> Result<Vec<u8>> {
        self.receive_matching(Some(from), channel, Some(tag))
    }

    /// As `receive`, from any rank and with any tag where none is given.
    pub(crate) fn receive_matching(
        &self,
        from: Option<NodeId>,
        channel: u8,
        tag: Option<i32>,
    ) -> Result<Vec<u8>> {
        self.check_rank(from.unwrap_or(self.me()))?;
        let me = self.me();
        let letter = self.common.wait_for(Some(Awaits::Letter(from)), |engine| {
            let letter = engine.mailbox.take(from, channel, tag).map(Ok);
            let leaves = match from {
                Some(rank) => engine.leavers.has(rank).then_some(rank),
                None => engine.leavers.first().filter(|_| engine.leavers.are_all()),
            };
            letter.or_else(|| leaves.map(|rank| Err(silent(me, rank))))
        })??;
        self.common.locked().give_credit(&*self.common.carrier);
        Ok(letter)
    }

    /// Sets a condition variable, or resets it; it is so when this returns.
    pub(crate) fn set_flag(&self, cv: u32, on: bool) -> Result<()> {
        self.act(if on { CvAct::Set } else { CvAct::Reset }, cv)?;
        if self.manager(cv) == self.me() || mutant!("dsm_variables_changed_later") {
            return Ok(());
        }
        self.common.wait_for(None, |engine| engine.mailbox.take_heard(cv))
    }

    fn act(&self, act: CvAct, cv: u32) -> Result<()> {
        let (me, manager) = (self.me(), self.manager(cv));
        if manager == me {
            return self.here(|engine, carrier| engine.take_cv(carrier, me, act, cv));
        }
        self.give(manager, &Body::Cv { act, cv })
    }

    /// Waits until a condition variable is set.
    pub(crate) fn wait_flag(&self, cv: u32) -> Result<()> {
        self.act(CvAct::Wait, cv)?;
        let is_granted = self.common.wait_for(Some(Awaits::Flag(cv)), |engine| {
            let granted = engine.mailbox.take_grant(cv).map(|()| true);
            granted.or_else(|| engine.leavers.are_all().then_some(false))
        })?;
        if is_granted { Ok(()) } else { self.wait_alone(cv) }
    }

    /// All other ranks leave, so what they have set is set at its manager. A grant may be on its
    /// way: what the manager says of a change that is asked for now comes behind it.
    fn wait_alone(&self, cv: u32) -> Result<()> {
        let ranks = u32::from(self.ranks());
        self.set_flag(cv % ranks + ranks * PROBE_ROUNDS, false)?;
        let granted = self.common.locked().mailbox.take_grant(cv);
        granted.ok_or_else(|| unset(self.me(), cv))
    }

    fn manager(&self, cv: u32) -> NodeId {
        let rank = cv % u32::from(self.ranks());
        NodeId(u16::try_from(rank).expect("invariant: a remainder of a u16 fits u16"))
    }

    fn check_rank(&self, rank: NodeId) -> Result<()> {
        if self.common.carrier.turns().is_some() {
            let what = "messages and condition variables have no model in virtual time; use locks \
                        and barriers, or another fabric";
            return Err(Error::new(Kind::Unsupported, what).at_rank(self.me()));
        }
        if rank.0 >= self.ranks() {
            let what = format!("rank {rank} of a job with {}", self.ranks());
            let refused = Error::new(Kind::OutOfRange, what);
            return Err(refused.at_rank(self.me()).at_peer(rank));
        }
        Ok(())
    }

    fn give(&self, to: NodeId, body: &Body) -> Result<()> {
        self.check_rank(to)?;
        self.here(|engine, carrier| engine.post(carrier, to, body))
    }

    /// Does something to this rank's own box, and wakes its threads.
    fn here(&self, act: impl FnOnce(&mut Engine, &dyn Carrier)) -> Result<()> {
        self.check_rank(self.me())?;
        let _inside = Inside::enter();
        let common = &self.common;
        let mut engine = common.locked();
        engine.check()?;
        act(&mut engine, &*common.carrier);
        common.changed.notify(&mut *engine);
        Ok(())
    }
}
