//! The end of a scope: differences go home, then the request, release or arrival leaves.
//!
//! Differences are made as they are sent: at most [`UNDER_WAY_MAX`] messages of them exist at a
//! time, and their twins are free as soon as they are made.
//!
//! Invariants
//! - A difference is acknowledged by its home before the next message of a lock or barrier is sent,
//!   unless that message goes to the same home: then the difference is in front of it on the same
//!   channel (*riding*, with [`Rank::send_along`]; mutants `dsm_release_overtakes_diffs` and
//!   `dsm_riding_diffs_behind`). Checked by `repeated_contended_sections`.
//! - A home that differences rode to is *unconfirmed* until it has sent an answer. Before a barrier
//!   or an outer section tells others of those differences, the home acknowledges (mutant
//!   `dsm_riding_diffs_unconfirmed`). Checked by
//!   `what_travels_with_a_release_is_home_before_others_are_told`.
//! - A page that was made writable at a barrier by prediction and has not changed is not noticed at
//!   the next barrier: every other copy that is older was named by the notice of the write that
//!   made it so, and a copy that was served between two writes of this phase is noticed when it is
//!   served. Checked by `a_page_that_two_ranks_write_comes_writable_with_departures`,
//!   `a_value_that_was_served_and_taken_back_is_invalidated`.

use std::collections::{BTreeMap, BTreeSet};

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::{Access, AfterFlush, Diff, Envelope, Open, Outcome, PageId, PageRun, Rank, Waiting};
use crate::core::frames::Frames;
use crate::core::message::{LockId, Message};
use crate::error::Result;

/// Bytes of differences that travel in one message, as soon as there are so many.
const DIFF_MESSAGE_BYTES: usize = 1 << 18;
/// Messages of differences that may be made and not acknowledged: 1 MiB. Each is in memory several
/// times on its way: as differences, as a body, as frames, and at its home.
pub(super) const UNDER_WAY_MAX: usize = 4;

impl<F: Frames> Rank<F> {
    /// Sends every written copy's difference home; what follows waits for the acknowledgements.
    pub(super) fn flush(&mut self, then: AfterFlush) -> Result<Outcome> {
        debug_assert!(self.unsent.is_empty(), "one flush at a time");
        let evicted = self.victims_of_prediction(&then);
        let runs = self.open.pages().runs();
        self.lower_all(&evicted, &runs)?;
        self.drop_clean(evicted);
        let open = std::mem::take(&mut self.open);
        if self.in_place {
            open.untwinned(runs).into_iter().for_each(|run| self.frames.write_back(run));
        }
        self.queue_differences(&open, &mut Diff::default());
        let mut out = Outcome::default();
        let owed = std::mem::take(&mut self.owed);
        self.send_differences(then, owed, &mut out)?;
        Ok(out)
    }

    /// Ends writing of the pages with a twin: those at home here at once, the others when their
    /// differences are made.
    pub(super) fn queue_differences(&mut self, open: &Open, spare: &mut Diff) {
        for page in open.twinned() {
            if self.home(page) == self.me {
                self.clean_into(page, spare);
            } else {
                self.unsent.push_back(page);
            }
        }
    }

    /// Makes and sends differences until the limit is under way, then waits for acknowledgements.
    /// The last differences ride where they may; what follows the flush follows them.
    pub(super) fn send_differences(
        &mut self,
        then: AfterFlush,
        mut acks: usize,
        out: &mut Outcome,
    ) -> Result<()> {
        let messages = self.take_diffs(UNDER_WAY_MAX.saturating_sub(acks));
        let is_last = self.unsent.is_empty();
        let rides = is_last && self.along.is_some();
        let manager = self.manager_of(&then).filter(|_| rides);
        let mut unconfirmed = if is_last { self.to_confirm(&then) } else { BTreeSet::new() };
        let mut riding = Vec::new();
        for (home, diffs) in messages {
            if manager == Some(home) {
                riding.push((home, Message::DiffsAlong { diffs }));
            } else {
                unconfirmed.remove(&home);
                acks += 1;
                out.send.push((home, Message::Diffs { diffs }));
            }
        }
        acks += unconfirmed.len();
        let ask = |home| (home, Message::Diffs { diffs: Vec::new() });
        out.send.extend(unconfirmed.into_iter().map(ask));
        if self.in_place && !mutant!("pool_lines_not_fenced") {
            self.frames.fence();
        }
        if is_last && (acks == 0 || mutant!("dsm_release_overtakes_diffs")) {
            return self.after_flush(then, riding, out);
        }
        self.waiting = Waiting::Flush { acks, then, riding };
        Ok(())
    }

    /// Who gets the message that follows, if that rank alone acts on it.
    fn manager_of(&self, then: &AfterFlush) -> Option<NodeId> {
        match then {
            AfterFlush::Acquire(lock) | AfterFlush::Release(lock) => {
                Some(self.shape.manager(*lock))
            }
            AfterFlush::Arrive if self.gathers_arrivals() => {
                mutant!("dsm_gather_diffs_ride").then(|| self.first_told())
            }
            AfterFlush::Arrive => Some(self.arrives_at()),
        }
    }

    /// Homes that must have answered before the message that follows: it tells others of what rode
    /// to them. The one that gets it answers by it.
    fn to_confirm(&self, then: &AfterFlush) -> BTreeSet<NodeId> {
        let mut homes = match then {
            AfterFlush::Acquire(_) => BTreeSet::new(),
            AfterFlush::Release(_) | AfterFlush::Arrive => self.innermost().unconfirmed.clone(),
        };
        self.manager_of(then).into_iter().for_each(|manager| _ = homes.remove(&manager));
        if mutant!("dsm_riding_diffs_unconfirmed") { BTreeSet::new() } else { homes }
    }

    /// A home has answered what was sent after the differences that rode to it.
    pub(super) fn confirm(&mut self, from: NodeId, message: &Message) {
        let answers = matches!(
            message,
            Message::Page { .. }
                | Message::DiffsApplied
                | Message::Grant { .. }
                | Message::Depart { .. }
        );
        if answers {
            self.scopes.iter_mut().for_each(|scope| _ = scope.unconfirmed.remove(&from));
        }
    }

    /// The differences of pages that are not sent yet, message by message, at most so many messages
    /// and one a home. Evicted pages are dropped.
    pub(super) fn take_diffs(&mut self, messages: usize) -> Vec<(NodeId, Vec<(PageId, Diff)>)> {
        let (mut whole, mut evicted) = (Vec::new(), Vec::new());
        let mut by_home: BTreeMap<NodeId, (usize, Vec<(PageId, Diff)>)> = BTreeMap::new();
        while whole.len() < messages.max(1) {
            let Some(page) = self.unsent.pop_front() else { break };
            evicted.extend((self.access(page) == Access::Invalid).then_some(page));
            let Some(diff) = self.clean(page) else { continue };
            let home = self.home(page);
            let (bytes, diffs) = by_home.entry(home).or_default();
            *bytes += diff.wire_bytes();
            diffs.push((page, diff));
            if *bytes >= DIFF_MESSAGE_BYTES {
                *bytes = 0;
                whole.push((home, std::mem::take(diffs)));
            }
        }
        self.frames.drop_pages(&evicted);
        let rest = by_home.into_iter().map(|(home, (_, diffs))| (home, diffs));
        whole.extend(rest.filter(|(_, diffs)| !diffs.is_empty()));
        whole
    }

    /// Ends writing of a page with a twin; its difference, if bytes changed and the page's home is
    /// elsewhere.
    pub(super) fn clean(&mut self, page: PageId) -> Option<Diff> {
        let mut diff = Diff::default();
        self.clean_into(page, &mut diff).then(|| {
            diff.shrink();
            diff
        })
    }

    /// As `clean`, in place of what is in `diff`; whether there is a difference to be sent.
    pub(super) fn clean_into(&mut self, page: PageId, diff: &mut Diff) -> bool {
        if self.in_place {
            self.drop_merged(page);
        }
        self.frames.take_diff_into(page, diff);
        if diff.is_empty() {
            return false;
        }
        self.used(page);
        let scope = self.scopes.last_mut().expect("invariant: the barrier's scope is never left");
        if scope.idle.remove(page) {
            self.wrote(page);
        }
        if self.home(page) == self.me {
            return false;
        }
        self.counts.diffs += 1;
        self.counts.diff_bytes += diff.wire_bytes() as u64;
        true
    }

    pub(super) fn after_flush(
        &mut self,
        then: AfterFlush,
        riding: Vec<Envelope>,
        out: &mut Outcome,
    ) -> Result<()> {
        let late = mutant!("dsm_riding_diffs_behind");
        let homes: Vec<NodeId> = riding.iter().map(|(home, _)| *home).collect();
        self.scopes.last_mut().into_iter().for_each(|scope| scope.unconfirmed.extend(&homes));
        let (before, behind) = if late { (Vec::new(), riding) } else { (riding, Vec::new()) };
        out.send.extend(before);
        match then {
            AfterFlush::Acquire(lock) => {
                self.tell_wanted_under(lock, out);
                let seen = self.seen.get(&lock).copied().unwrap_or(0);
                self.waiting = Waiting::Grant(lock);
                out.send.push((self.shape.manager(lock), Message::Acquire { lock, seen }));
            }
            AfterFlush::Release(lock) => self.leave(lock, out),
            AfterFlush::Arrive => self.arrive(out)?,
        }
        out.send.extend(behind);
        Ok(())
    }

    fn arrive(&mut self, out: &mut Outcome) -> Result<()> {
        let mut noticed = Vec::new();
        self.close_phase(&mut noticed, out);
        self.send_arrival(noticed, out)
    }

    /// Ends the phase outside of sections; `noticed` are the pages to be told.
    pub(super) fn close_phase(&mut self, noticed: &mut Vec<PageRun>, out: &mut Outcome) {
        self.tell_wanted_after_barrier(out);
        let scope = std::mem::take(&mut self.scopes[0]);
        let pages = scope.written.without(&scope.idle);
        if self.unshared.is_some() {
            self.published = pages.iter().filter(|page| self.home(*page) == self.me).collect();
        }
        pages.runs_into(noticed);
    }

    fn leave(&mut self, lock: LockId, out: &mut Outcome) {
        let mut pages = Vec::new();
        self.close_section(lock, &mut pages);
        self.waiting = Waiting::Nothing;
        out.done = true;
        let generation = self.generation;
        out.send.push((self.shape.manager(lock), Message::Release { lock, generation, pages }));
    }

    /// Ends a section; `pages` are those to be told.
    pub(super) fn close_section(&mut self, lock: LockId, pages: &mut Vec<PageRun>) {
        let scope = self.scopes.pop().expect("invariant: a section is open");
        let useful = scope.written.without(&scope.idle);
        let silent = mutant!("dsm_silent_store_unnoticed");
        if silent { &useful } else { &scope.written }.runs_into(pages);
        if !mutant!("dsm_inner_notices_lost") {
            pages.iter().for_each(|run| self.note_run(*run));
        }
        let outer = self.scopes.last_mut().expect("invariant: the barrier's scope is never left");
        outer.unconfirmed.extend(scope.unconfirmed.iter().copied());
        if self.shape.predict {
            let most = self.predicted_max();
            let few = useful.len() <= most;
            let next = if few { useful } else { useful.iter().take(most).collect() };
            *self.predicted.entry(lock).or_default() = next;
        }
        // What this section tells is the log's next version, since no other rank is in one.
        let told = u64::from(!pages.is_empty() && !mutant!("dsm_own_section_unseen"));
        *self.seen.entry(lock).or_default() += told;
    }
}
