//! Pages that are sent before they are asked for, and differences that need no acknowledgement.
//!
//! - A *wanted* page is one that this rank will probably use after a grant or a departure. It is
//!   named to the manager in front of the request or arrival. Under a lock these are the pages that
//!   the lock's last section wrote here. At a barrier they are pages with a [`Lease`].
//! - The manager of a lock sends wanted pages that it is the home of in front of the grant: those
//!   that are absent, and those that the grant invalidates.
//! - The barrier's manager tells every home which wanted pages the barrier invalidates (*push*);
//!   the homes send them, one message a rank. A rank expects exactly the pages that it wanted and
//!   that the departure names, so its barrier ends when they have come.
//! - A *rhythm* is the number of barriers between writes of a page outside of sections. A page with
//!   a steady rhythm becomes writable, with a twin, at the barrier at which its next write is due.
//! - A *run* is pages that miss one after another. A miss through a raw pointer fetches the pages
//!   behind it too, twice as many each time the run goes on.
//!
//! Invariants
//! - A wrong prediction costs bytes and a comparison, never an answer: a page that comes is one
//!   that this rank could have asked for at that moment. A page of a grant is read when the grant
//!   is given, not when it is asked for (mutant `dsm_page_ahead_of_grant`). Checked by
//!   `pages_come_with_departures_in_a_program_of_two_colours`.
//! - A page that was neither asked for nor wanted is a protocol error. Checked by
//!   `messages_no_peer_sends_are_refused_and_change_nothing`.
//! - What is remembered is bounded by the pages fetched or written in the last [`REMEMBERED`]
//!   barriers, and by [`PAGES_MAX`]. Checked by
//!   `a_lease_doubles_when_its_page_misses_after_it_and_ends_when_no_barrier_names_it`.

use std::collections::{BTreeMap, BTreeSet};

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::want::Demand;
use super::{Access, BARRIER_MANAGER, Envelope, Outcome, PageId, Rank, Waiting, protocol, unasked};
use crate::core::barrier::is_news;
use crate::core::frames::Frames;
use crate::core::message::{LockId, Message, Notice, Notices};
use crate::core::pages::PageSet;
use crate::error::Result;

/// Barriers after which a lease or rhythm that nothing has renewed is forgotten.
const REMEMBERED: u64 = 4;
/// Times that a page is pushed after a miss, at first and at most. A page sent in vain costs some
/// hundredths of a miss's round trip, so that eight in vain for one in use still gain.
const PUSHES: std::ops::RangeInclusive<u8> = 8..=64;
/// Most pages with a lease, and most with a rhythm, where the limit of copies allows so many:
/// others are fetched and written as without.
const PAGES_MAX: usize = 1 << 14;
/// Most pages that a run fetches at once.
const RUN_PAGES_MAX: u32 = 64;
/// Runs that are followed at one time.
const RUNS: usize = 4;

/// How long a page is wanted without having missed again: use of a page that is there is not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lease {
    /// Pushes left; after the last one a miss shows that the page is still in use.
    left: u8,
    /// Pushes that the last miss gave.
    given: u8,
    /// The barrier before which the page was fetched or named last.
    since: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Rhythm {
    last: u64,
    interval: u64,
    is_steady: bool,
}

/// Pages of the last run that missed, and where it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Run {
    start: u32,
    next: u32,
}

/// What a rank wants with a grant or departure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Wants {
    absent: Vec<PageId>,
    held: Vec<PageId>,
}

/// See the module's page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Along {
    /// Most pages with a lease, and most with a rhythm.
    pages_max: usize,
    leases: BTreeMap<PageId, Lease>,
    rhythms: BTreeMap<PageId, Rhythm>,
    /// Pages written outside of sections since the last barrier.
    wrote: PageSet,
    /// Pages wanted with the answer that is awaited.
    expected: BTreeSet<PageId>,
    /// Those of them that have come before the answer.
    arrived: BTreeMap<PageId, Vec<u8>>,
    runs: [Run; RUNS],
    /// What other ranks want of this one as a manager.
    wants: BTreeMap<NodeId, Wants>,
}

impl Along {
    fn new() -> Along {
        Along { pages_max: PAGES_MAX, ..Along::default() }
    }

    /// Predicts no more than `pages` pages for one barrier.
    pub(super) fn limit(&mut self, pages: usize) {
        self.pages_max = PAGES_MAX.min(pages);
    }

    /// How many pages a departure may bring, and how many twins it may make, at most.
    pub(super) fn may_come(&self) -> (usize, usize) {
        (self.leases.len(), self.rhythms.len())
    }

    /// Pages that a departure may bring or make writable.
    pub(super) fn may_come_pages(&self) -> impl Iterator<Item = PageId> {
        self.leases.keys().chain(self.rhythms.keys()).copied()
    }

    /// A page has missed before barrier `now`.
    fn lease(&mut self, page: PageId, now: u64) {
        if self.leases.len() >= self.pages_max && !self.leases.contains_key(&page) {
            return;
        }
        let lease = self.leases.entry(page).or_insert(Lease { left: 0, given: 0, since: now });
        if lease.left == 0 {
            lease.given = lease.given.saturating_mul(2).clamp(*PUSHES.start(), *PUSHES.end());
        }
        *lease = Lease { left: lease.given, since: now, ..*lease };
    }

    /// Ends the phase before barrier `now`: what was written in it, and what is too old.
    fn end_phase(&mut self, now: u64) {
        for page in std::mem::take(&mut self.wrote).iter() {
            if self.rhythms.len() >= self.pages_max && !self.rhythms.contains_key(&page) {
                continue;
            }
            let first = Rhythm { last: now, interval: 0, is_steady: false };
            let rhythm = self.rhythms.entry(page).or_insert(first);
            let interval = now - rhythm.last;
            let is_steady = interval == rhythm.interval && interval > 0;
            *rhythm = Rhythm { last: now, interval, is_steady };
        }
        self.rhythms.retain(|_, rhythm| rhythm.last + REMEMBERED > now);
        self.leases.retain(|_, lease| lease.since + REMEMBERED > now);
    }

    /// Pages whose next write is due before barrier `now`.
    fn due(&self, now: u64) -> Vec<PageId> {
        let due = |(_, r): &(&PageId, &Rhythm)| r.is_steady && r.last + r.interval == now;
        self.rhythms.iter().filter(due).map(|(page, _)| *page).collect()
    }

    /// The run that a miss of `page` goes on, or the oldest one.
    fn run(&mut self, page: u32) -> (Run, bool) {
        let found = self.runs.iter().position(|run| run.next == page && run.next > run.start);
        let run = self.runs[found.unwrap_or(RUNS - 1)];
        let at = found.unwrap_or(RUNS - 1);
        self.runs[..=at].rotate_right(1);
        (run, found.is_some())
    }
}

impl<F: Frames> Rank<F> {
    /// From now on differences travel with the message that follows them, and pages that are
    /// probably used next with the answer; call before the first operation or message.
    ///
    /// # Panics
    /// When pages are lines in place: nothing is fetched there.
    pub fn send_along(&mut self) {
        assert!(!self.in_place, "lines in place are not fetched");
        let mut along = Along::new();
        along.limit(self.predicted_max());
        self.along = Some(along);
    }

    pub(super) fn missed(&mut self, page: PageId) {
        let now = self.generation;
        if let Some(along) = &mut self.along {
            along.lease(page, now);
        }
    }

    /// The page was written: what a lease waits to see.
    pub(super) fn used(&mut self, page: PageId) {
        let lease = self.along.as_mut().and_then(|along| along.leases.get_mut(&page));
        lease.into_iter().for_each(|lease| lease.left = lease.given);
    }

    /// The page was written outside of sections.
    pub(super) fn wrote(&mut self, page: PageId) {
        let outside = self.scopes.len() == 1;
        if let Some(along) = self.along.as_mut().filter(|_| outside) {
            along.wrote.insert(page);
        }
    }

    /// As [`Rank::want`] for one page that a raw pointer has missed, with the pages that probably
    /// miss next; how many pages from `page` on are there at the end.
    ///
    /// # Errors
    /// As [`Rank::read`].
    pub fn want_run(&mut self, page: PageId, write: bool) -> Result<(Outcome, u32)> {
        self.idle()?;
        let count = self.run_length(page);
        let demand = if write { Demand::Write } else { Demand::Read };
        Ok((self.demand(page, 1, count - 1, demand)?, count))
    }

    fn run_length(&mut self, page: PageId) -> u32 {
        let is_miss = page.0 < self.shape.pages && self.access(page) == Access::Invalid;
        let (Some(along), true) = (&mut self.along, is_miss) else { return 1 };
        let (before, goes_on) = along.run(page.0);
        let length = before.next - before.start;
        let most = if goes_on { (2 * length).min(RUN_PAGES_MAX) } else { 2 };
        let used = if goes_on { before.start..before.next } else { 0..0 };
        let end = self.block_end(page).min(page.0.saturating_add(most));
        let stop = (page.0 + 1..end).find(|p| self.access(PageId(*p)) != Access::Invalid);
        let next = stop.unwrap_or(end);
        let now = self.generation;
        if let Some(along) = &mut self.along {
            along.runs[0] = Run { start: page.0, next };
            used.for_each(|p| along.lease(PageId(p), now));
        }
        next - page.0
    }

    /// Names the pages that the lock's last section wrote, to a manager that is their home.
    pub(super) fn tell_wanted_under(&mut self, lock: LockId, out: &mut Outcome) {
        let manager = self.shape.manager(lock);
        if self.along.is_none() || manager == self.me {
            return;
        }
        let predicted = self.predicted.get(&lock).into_iter().flat_map(PageSet::iter);
        let its = predicted.filter(|page| self.home(*page) == manager);
        let (absent, held) = its.partition(|page| self.access(*page) == Access::Invalid);
        self.tell_wanted(manager, Wants { absent, held }, out);
    }

    /// Names the pages that this rank has fetched lately.
    pub(super) fn tell_wanted_after_barrier(&mut self, out: &mut Outcome) {
        let now = self.generation;
        let Some(along) = &mut self.along else { return };
        along.end_phase(now);
        let leased = along.leases.iter().filter(|(_, lease)| lease.left > 0);
        let held: Vec<PageId> = leased.map(|(page, _)| *page).collect();
        if self.gather_wanted(&held) {
            return self.expect(held);
        }
        self.tell_wanted(self.arrives_at(), Wants { absent: Vec::new(), held }, out);
    }

    fn tell_wanted(&mut self, manager: NodeId, wants: Wants, out: &mut Outcome) {
        let Wants { absent, held } = wants;
        self.expect(absent.iter().chain(&held).copied());
        if !(absent.is_empty() && held.is_empty()) {
            out.send.push((manager, Message::Wanted { absent, held }));
        }
    }

    /// Remembers which pages are wanted with the answer that is awaited next.
    fn expect(&mut self, pages: impl IntoIterator<Item = PageId>) {
        let Some(along) = &mut self.along else { return };
        along.arrived.clear();
        along.expected = pages.into_iter().collect();
    }

    pub(super) fn keep_wanted(
        &mut self,
        from: NodeId,
        absent: Vec<PageId>,
        held: Vec<PageId>,
        out: &mut Outcome,
    ) -> Result<()> {
        if mutant!("dsm_page_ahead_of_grant") {
            return absent.into_iter().try_for_each(|page| self.serve_page(from, page, out));
        }
        let along = self.along.as_mut().filter(|along| !along.wants.contains_key(&from));
        let along = along.ok_or_else(|| protocol(format!("rank {from} wants pages twice")))?;
        along.wants.insert(from, Wants { absent, held });
        Ok(())
    }

    pub(super) fn take_wants(&mut self) -> BTreeMap<NodeId, Wants> {
        self.along.as_mut().map(|along| std::mem::take(&mut along.wants)).unwrap_or_default()
    }

    /// Sends a grant, behind the pages that its rank wants and that are kept here.
    pub(super) fn send_grant(&mut self, grant: Option<Envelope>, out: &mut Outcome) -> Result<()> {
        let Some((to, grant)) = grant else { return Ok(()) };
        let wants = self.along.as_mut().and_then(|along| along.wants.remove(&to));
        if let (Some(wants), Message::Grant { notices, .. }) = (wants, &grant) {
            let is_news = |page: &PageId| match notices {
                Notices::These(list) => {
                    list.iter().any(|n| n.pages.contains(*page) && n.writer != to)
                }
                Notices::Everything => true,
            };
            let held = wants.held.into_iter().filter(is_news);
            let pages: BTreeSet<PageId> = wants.absent.into_iter().chain(held).collect();
            pages.into_iter().try_for_each(|page| self.serve_page(to, page, out))?;
        }
        out.send.push((to, grant));
        Ok(())
    }

    /// Sends departures, behind what tells the homes which of the pages they name are wanted.
    pub(super) fn send_departures(
        &mut self,
        departures: Vec<Envelope>,
        out: &mut Outcome,
    ) -> Result<()> {
        if let Some((_, Message::Depart { notices, .. })) = departures.first() {
            self.send_wanted(notices, out)?;
        }
        out.send.extend(departures);
        Ok(())
    }

    /// Has the wanted pages that a departure names sent: those kept here at once.
    pub(super) fn send_wanted(&mut self, notices: &[Notice], out: &mut Outcome) -> Result<()> {
        let mut pushes: BTreeMap<NodeId, Vec<(PageId, NodeId)>> = BTreeMap::new();
        for (rank, wants) in self.take_wants() {
            for page in wants.held.into_iter().filter(|page| is_news(notices, *page, rank)) {
                self.check_allocated(rank, page)?;
                pushes.entry(self.home(page)).or_default().push((page, rank));
            }
        }
        for (home, pages) in pushes {
            if home == self.me {
                pages.into_iter().try_for_each(|(page, to)| self.serve_page(to, page, out))?;
            } else {
                out.send.push((home, Message::Push { pages }));
            }
        }
        Ok(())
    }

    /// The pages that `rank` wants with the departure it waits for.
    pub(super) fn wanted_by(&self, rank: NodeId) -> impl Iterator<Item = PageId> {
        let wants = self.along.as_ref().and_then(|along| along.wants.get(&rank));
        wants.into_iter().flat_map(|wants| wants.held.iter().copied())
    }

    /// Whether this rank sends `page` to `rank`, which wants it with a departure.
    pub(super) fn is_wanted_here(
        &self,
        page: PageId,
        rank: NodeId,
        notices: &[Notice],
    ) -> Result<bool> {
        if !is_news(notices, page, rank) {
            return Ok(false);
        }
        self.check_allocated(rank, page)?;
        Ok(self.home(page) == self.me)
    }

    fn check_allocated(&self, rank: NodeId, page: PageId) -> Result<()> {
        if page.0 < self.shape.pages {
            return Ok(());
        }
        Err(self.unallocated(rank, page))
    }

    /// Sends pages kept here to ranks whose copies the barrier invalidates.
    pub(super) fn push(
        &mut self,
        from: NodeId,
        pages: &[(PageId, NodeId)],
        out: &mut Outcome,
    ) -> Result<()> {
        let is_rank = |(_, to): &(PageId, NodeId)| to.0 < self.shape.ranks;
        let managed = self.has_barrier_manager() && from == BARRIER_MANAGER;
        let in_barrier = managed && self.waiting == Waiting::Depart;
        if !in_barrier || !pages.iter().all(is_rank) {
            return Err(protocol(format!("rank {from} has pages pushed outside of a barrier")));
        }
        pages.iter().try_for_each(|(page, to)| self.serve_page(*to, *page, out))
    }

    /// Keeps a wanted page until its grant or departure has come.
    pub(super) fn keep_arrived(
        &mut self,
        from: NodeId,
        page: PageId,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let awaited = matches!(self.waiting, Waiting::Grant(_) | Waiting::Depart);
        let is_home = self.home(page) == from;
        let along =
            self.along.as_mut().filter(|a| awaited && is_home && a.expected.contains(&page));
        let along = along.ok_or_else(|| unasked(from, page))?;
        along.arrived.insert(page, bytes);
        Ok(())
    }

    /// Puts a page in that has come before its grant or departure; whether it had.
    fn take_arrived(&mut self, page: PageId) -> bool {
        let arrived = self.along.as_mut().and_then(|along| along.arrived.remove(&page));
        arrived.inspect(|bytes| self.fill(page, bytes)).is_some()
    }

    /// Fetches the invalid pages among those predicted for `lock` and makes the others writable.
    pub(super) fn arm_predicted(&mut self, lock: LockId, out: &mut Outcome) {
        let predicted = self.predicted.get_mut(&lock).map(std::mem::take).unwrap_or_default();
        let mut missing = BTreeSet::new();
        for page in predicted.iter() {
            match self.access(page) {
                Access::Invalid => {
                    self.counts.predicted_fetches += 1;
                    if self.take_arrived(page) {
                        self.make_writable(page, true);
                    } else {
                        self.ask_for(page, &mut missing, out);
                    }
                }
                Access::Shared => self.make_writable(page, true),
                // A home page, and noticed if any rank has a copy.
                Access::Written => {}
            }
        }
        self.await_pages(missing.clone(), missing, true, out);
    }

    pub(super) fn take_departure(
        &mut self,
        from: NodeId,
        generation: u64,
        notices: &[Notice],
        out: &mut Outcome,
    ) -> Result<()> {
        let awaited = self.has_barrier_manager() && self.waiting == Waiting::Depart;
        if !awaited || generation != self.generation {
            let what = format!("rank {from} ended barrier {generation} unasked");
            return Err(protocol(what).at_generation(generation));
        }
        self.depart(notices, out);
        Ok(())
    }

    /// Ends a barrier with the notices of all ranks, but for wanted pages that have not come yet.
    pub(super) fn depart(&mut self, notices: &[Notice], out: &mut Outcome) {
        self.invalidate(notices);
        self.take_back();
        self.generation += 1;
        for lock in self.managed.values_mut() {
            let ahead = u64::from(mutant!("dsm_forgets_open_generation"));
            lock.forget_before(self.generation + ahead);
        }
        // Only a page handed out while the departure was awaited is writable already.
        if !mutant!("dsm_handed_out_in_barrier_unnoticed") {
            let writable = self.open.clone();
            let twinned = |page| (page, writable.twin_of(page).unwrap_or(false));
            let pages = writable.pages().iter().map(twinned);
            pages.for_each(|(page, has_twin)| self.reopen(page, has_twin));
        }
        let missing = self.take_expected(notices);
        let mut due = self.along.as_ref().map(|a| a.due(self.generation)).unwrap_or_default();
        due.retain(|page| missing.contains(page) || self.access(*page) == Access::Shared);
        let (later, now): (Vec<_>, Vec<_>) = due.into_iter().partition(|p| missing.contains(p));
        now.into_iter().for_each(|page| self.make_writable(page, true));
        self.await_pages(missing, later.into_iter().collect(), true, out);
    }

    /// Puts in the wanted pages that a departure names; those that have not come yet.
    fn take_expected(&mut self, notices: &[Notice]) -> BTreeSet<PageId> {
        let Some(along) = &mut self.along else { return BTreeSet::new() };
        let mut expected = std::mem::take(&mut along.expected);
        expected.retain(|page| is_news(notices, *page, self.me));
        for page in &expected {
            if let Some(lease) = along.leases.get_mut(page) {
                *lease = Lease { left: lease.left - 1, since: self.generation, ..*lease };
            }
        }
        self.counts.predicted_fetches += expected.len() as u64;
        expected.retain(|page| !self.take_arrived(*page));
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageId = PageId(3);

    #[test]
    fn a_lease_doubles_when_its_page_misses_after_it_and_ends_when_no_barrier_names_it() {
        let mut along = Along::new();
        for given in [8, 16, 32, 64, 64] {
            along.lease(PAGE, 5);
            let lease = along.leases.get_mut(&PAGE).unwrap();
            assert_eq!((lease.left, lease.given), (given, given));
            lease.left = 0;
        }
        along.end_phase(5 + REMEMBERED - 1);
        assert!(along.leases.contains_key(&PAGE));
        along.end_phase(5 + REMEMBERED);
        assert!(along.leases.is_empty());
    }

    #[test]
    fn a_page_is_due_when_its_rhythm_is_steady() {
        let mut along = Along::new();
        for now in 0..8 {
            [0, 2, 4, 7].contains(&now).then(|| along.wrote.insert(PAGE));
            along.end_phase(now);
            assert_eq!(along.due(now + 1) == [PAGE], now == 5, "after barrier {now}");
        }
        (8..12).for_each(|now| along.end_phase(now));
        assert!(along.rhythms.is_empty());
    }

    #[test]
    fn runs_are_followed_several_at_a_time() {
        let mut along = Along::new();
        for start in [10, 50, 90] {
            assert!(!along.run(start).1);
            along.runs[0] = Run { start, next: start + 2 };
        }
        for start in [12, 52, 92] {
            let (before, goes_on) = along.run(start);
            assert_eq!((before.next, goes_on), (start, true));
            along.runs[0] = Run { start, next: start + 4 };
        }
        assert!(!along.run(0).1, "a run that has not begun");
    }
}
