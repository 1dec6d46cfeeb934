//! Copies that take memory: at most so many, the oldest dropped first.
//!
//! A copy takes memory from when it is first filled until it is *evicted*, also while it is
//! invalid; a twin takes as much. Room is made before pages are fetched or written, and in a flush
//! for what is predicted to come with the answer. A clean copy is dropped; a written one sends its
//! difference home first, and its notice stays in the scope that wrote it.
//!
//! Invariants
//! - Twins of home pages count too: a page that is handed out while the program may write it gets
//!   one only where it fits, and is noticed at once elsewhere (mutant `dsm_home_twins_unbounded`).
//!   Checked by `pages_handed_out_while_they_are_written_get_no_more_twins_than_fit`.
//! - What a prediction brings fits the limit too. Checked by
//!   `what_a_lock_predicts_finds_room_in_the_cache`,
//!   `what_comes_with_a_barrier_finds_room_in_the_cache`.
//! - An eviction that the system refuses changes nothing. Checked by
//!   `a_refused_protection_loses_nothing`.
//! - A page that a guard is on, or that the operation under way wants, is not evicted: the limit is
//!   exceeded by those. Checked by `pages_under_guards_stay_when_the_cache_is_full`.
//! - A flush waits for the acknowledgements of evicted differences too, since its message tells of
//!   them (mutant `dsm_evicted_diffs_unawaited`). Checked by
//!   `an_evicted_difference_is_home_before_its_release`.

use std::collections::{BTreeSet, VecDeque};

use littoral_base::mutant;

use super::want::{Demand, Wish};
use super::{Access, AfterFlush, Along, Message, Outcome, PageId, PageRun, Rank, UNDER_WAY_MAX};
use crate::core::frames::Frames;
use crate::core::pages::PageSet;
use crate::error::Result;

/// See the module's page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cache {
    limit: usize,
    oldest_first: VecDeque<PageId>,
    resident: BTreeSet<PageId>,
}

impl Cache {
    /// A copy of a page has been filled.
    pub(super) fn filled(&mut self, page: PageId) {
        if self.resident.insert(page) {
            self.oldest_first.push_back(page);
        }
    }
}

impl<F: Frames> Rank<F> {
    /// From now on at most `pages` copies of other ranks' pages take memory, but for those in use;
    /// call before the first operation or message.
    ///
    /// # Panics
    /// When pages are lines in place, of which there are no copies.
    pub fn limit_copies(&mut self, pages: usize) {
        assert!(!self.in_place, "lines in place are not copied");
        let (oldest_first, resident) = (VecDeque::new(), BTreeSet::new());
        self.cache = Some(Cache { limit: pages, oldest_first, resident });
        let most = self.predicted_max();
        self.along.iter_mut().for_each(|along| along.limit(most));
    }

    /// Most pages that one prediction may name: with their twins they fit the limit.
    pub(super) fn predicted_max(&self) -> usize {
        self.cache.as_ref().map_or(usize::MAX, |cache| cache.limit / 2)
    }

    /// Whether one twin more fits the limit.
    pub(super) fn has_room_for_twin(&self) -> bool {
        let fits = |cache: &Cache| cache.resident.len() + self.frames.twins() < cache.limit;
        self.cache.as_ref().is_none_or(fits) || mutant!("dsm_home_twins_unbounded")
    }

    /// Evicts copies so that the pages of a wish, and their twins where they are written, find
    /// room.
    pub(super) fn make_room(&mut self, wish: &Wish) -> Result<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let write = wish.demand != Demand::Read;
        let wanted = wish.pages.start..wish.pages.end + wish.behind;
        let used = cache.resident.len() + self.frames.twins();
        if used + wanted.len() * if write { 2 } else { 1 } <= cache.limit {
            return Ok(());
        }
        let copies = || wanted.clone().map(PageId).filter(|page| self.home(*page) != self.me);
        let new = copies().filter(|page| !cache.resident.contains(page)).count();
        let is_clean = |page: &PageId| write && self.access(*page) != Access::Written;
        let twins = copies().filter(is_clean).count();
        let over = (used + new + twins).saturating_sub(cache.limit);
        let victims = self.take_victims(over, true, |page| wanted.contains(&page.0));
        self.lower_all(&victims, &[])?;
        for page in self.drop_clean(victims) {
            self.open.remove(page);
            self.unsent.push_back(page);
        }
        Ok(())
    }

    /// Copies that the answer to the message after a flush may bring, and twins that it may make.
    fn may_come_after(&self, then: &AfterFlush) -> Option<(usize, usize)> {
        match (then, &self.along) {
            (AfterFlush::Acquire(lock), _) => {
                let under = self.predicted.get(lock).map_or(0, PageSet::len);
                Some((under, under))
            }
            (AfterFlush::Arrive, Some(along)) => Some(along.may_come()),
            (AfterFlush::Release(_) | AfterFlush::Arrive, _) => None,
        }
    }

    /// Whether these find room beside the copies that are there; a flush frees every twin.
    pub(super) fn prediction_fits(&self, then: &AfterFlush) -> bool {
        let Some((copies, twins)) = self.may_come_after(then) else { return true };
        let fits = |cache: &Cache| cache.resident.len() + copies + twins <= cache.limit;
        self.cache.as_ref().is_none_or(fits) || mutant!("dsm_prediction_exceeds_cache")
    }

    /// Copies to evict in a flush, which frees every twin, so that what the answer to the message
    /// after it may bring finds room.
    pub(super) fn victims_of_prediction(&mut self, then: &AfterFlush) -> Vec<PageId> {
        let Some(cache) = self.cache.as_ref().filter(|_| !self.prediction_fits(then)) else {
            return Vec::new();
        };
        let (_, twins) = self.may_come_after(then).unwrap_or_default();
        let pages: BTreeSet<PageId> = match (then, &self.along) {
            (AfterFlush::Acquire(lock), _) => {
                self.predicted.get(lock).into_iter().flat_map(PageSet::iter).collect()
            }
            (_, along) => along.iter().flat_map(Along::may_come_pages).collect(),
        };
        let is_new =
            |page: &&PageId| !cache.resident.contains(page) && self.home(**page) != self.me;
        let new = pages.iter().filter(is_new).count();
        let over = (cache.resident.len() + new + twins).saturating_sub(cache.limit);
        self.take_victims(over, false, |page| pages.contains(&page))
    }

    /// The oldest copies that are not in use nor to be kept, in ascending order: as many as take
    /// `over` pages of memory, with their twins unless those are freed anyway.
    fn take_victims(
        &mut self,
        mut over: usize,
        with_twins: bool,
        keep: impl Fn(PageId) -> bool,
    ) -> Vec<PageId> {
        let Some(mut cache) = self.cache.take() else { return Vec::new() };
        let mut victims = Vec::new();
        for _ in 0..cache.oldest_first.len() {
            if over == 0 {
                break;
            }
            let Some(page) = cache.oldest_first.pop_front() else { break };
            if keep(page) || self.frames.is_pinned(page) {
                cache.oldest_first.push_back(page);
                continue;
            }
            cache.resident.remove(&page);
            victims.push(page);
            let has_twin = with_twins && self.access(page) == Access::Written;
            over = over.saturating_sub(1 + usize::from(has_twin));
        }
        self.cache = Some(cache);
        victims.sort_unstable();
        let is_known = |cache: &Cache| cache.resident.len() == cache.oldest_first.len();
        debug_assert!(self.cache.as_ref().is_some_and(is_known), "a copy without an age");
        victims
    }

    /// Takes evicted pages away from the program, and from others, which it may write, the right to
    /// do so, for every thread of it. When the system refuses, all is as before.
    pub(super) fn lower_all(&mut self, evicted: &[PageId], others: &[PageRun]) -> Result<()> {
        let before: Vec<_> = evicted.iter().map(|page| (*page, self.access(*page))).collect();
        others.iter().for_each(|run| self.set_access_run(*run, Access::Shared));
        evicted.iter().for_each(|page| self.set_access(*page, Access::Invalid));
        let lowered = self.frames.lower();
        if lowered.is_err() && !mutant!("dsm_refused_protection_forgets") {
            others.iter().for_each(|run| self.set_access_run(*run, Access::Written));
            before.into_iter().for_each(|(page, access)| self.set_access(page, access));
            let Some(cache) = &mut self.cache else { return lowered };
            cache.resident.extend(evicted);
            evicted.iter().rev().for_each(|page| cache.oldest_first.push_front(*page));
        }
        lowered
    }

    /// Drops the evicted pages that are not written; the others.
    pub(super) fn drop_clean(&mut self, evicted: Vec<PageId>) -> Vec<PageId> {
        let is_written = |page: &PageId| self.open.contains(*page);
        let (written, clean): (Vec<_>, Vec<_>) = evicted.into_iter().partition(is_written);
        self.frames.drop_pages(&clean);
        written
    }

    /// Sends differences of evicted pages home, each message acknowledged, as many as may be under
    /// way.
    pub(super) fn send_evicted(&mut self, out: &mut Outcome) {
        let room = UNDER_WAY_MAX.saturating_sub(self.owed);
        let room = if mutant!("dsm_evicted_diffs_at_once") { usize::MAX } else { room };
        if room == 0 || self.unsent.is_empty() {
            return;
        }
        for (home, diffs) in self.take_diffs(room) {
            self.owed += usize::from(!mutant!("dsm_evicted_diffs_unawaited"));
            out.send.push((home, Message::Diffs { diffs }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::message::LockId;
    use crate::core::rank::Shape;
    use littoral_base::units::NodeId;

    const HOME: NodeId = NodeId(0);
    const COPIES: NodeId = NodeId(1);
    const LOCK: LockId = LockId(0);
    /// What may be made of differences and not be acknowledged, with a page more per message.
    const UNDER_WAY_BYTES: usize = UNDER_WAY_MAX * ((1 << 18) + (1 << 13));

    /// Two ranks, and how many bytes of differences are made and not acknowledged.
    struct Pair {
        ranks: [Rank; 2],
        under_way: Vec<usize>,
        most_under_way: usize,
    }

    impl Pair {
        /// `pages` pages at home at rank 0; rank 1 keeps at most `limit` copies and twins.
        fn new(pages: u32, page_bytes: usize, limit: usize, along: bool) -> Pair {
            Pair::over(pages, page_bytes, limit, along, |_| ())
        }

        fn over(
            pages: u32,
            page_bytes: usize,
            limit: usize,
            along: bool,
            prepare: impl Fn(&mut Rank),
        ) -> Pair {
            let (locks, log_capacity) = (1, pages as usize);
            let shape =
                Shape { ranks: 2, pages: 0, page_bytes, locks, log_capacity, predict: true };
            let rank = |me| {
                let mut rank = Rank::new(me, shape.clone());
                if along {
                    rank.send_along();
                }
                rank.limit_copies(limit);
                prepare(&mut rank);
                rank.extend(pages, pages, HOME);
                rank
            };
            Pair { ranks: [HOME, COPIES].map(rank), under_way: Vec::new(), most_under_way: 0 }
        }

        fn act(&mut self, me: NodeId, op: impl FnOnce(&mut Rank) -> Result<Outcome>) {
            let outcome = op(&mut self.ranks[me.index()]).unwrap();
            let done = self.deliver(me, outcome);
            assert!(done, "an operation of rank {me} stands still");
        }

        /// Delivers until nothing is on its way; whether an operation of `of` ended.
        fn deliver(&mut self, of: NodeId, outcome: Outcome) -> bool {
            let (mut done, mut queue) = (outcome.done, VecDeque::new());
            let post = |me, out: Outcome| out.send.into_iter().map(move |m| (me, m));
            queue.extend(post(of, outcome));
            self.count(&queue);
            while let Some((from, (to, message))) = queue.pop_front() {
                if message == Message::DiffsApplied {
                    self.under_way.remove(0);
                }
                let out = self.ranks[to.index()].receive(from, message).unwrap();
                done |= out.done && to == of;
                let first_new = queue.len();
                queue.extend(post(to, out));
                self.count(queue.make_contiguous().split_at(first_new).1);
            }
            done
        }

        fn count<'a>(&mut self, new: impl IntoIterator<Item = &'a (NodeId, (NodeId, Message))>) {
            for (_, (_, message)) in new {
                if let Message::Diffs { diffs } = message {
                    self.under_way.push(diffs.iter().map(|(_, diff)| diff.wire_bytes()).sum());
                }
            }
            self.most_under_way = self.most_under_way.max(self.under_way.iter().sum());
        }

        /// Memory of rank 1, in pages.
        fn taken(&self) -> usize {
            let rank = &self.ranks[COPIES.index()];
            rank.cache.as_ref().unwrap().resident.len() + rank.frames.twins()
        }

        fn fill(&mut self, page: u32, value: u8) {
            self.ranks[COPIES.index()].writable(PageId(page)).unwrap().fill(value);
        }
    }

    /// Rank 1 writes more than may be under way by one operation, as under a long guard.
    #[test]
    fn what_a_long_guard_wrote_leaves_as_acknowledgements_come() {
        let pages = 3 * UNDER_WAY_BYTES as u32 / 4096;
        for along in [false, true] {
            let mut pair = Pair::new(pages + 1, 4096, 8, along);
            pair.act(COPIES, |r| r.want(PageId(0), pages, true));
            (0..pages).for_each(|page| pair.fill(page, page as u8 | 1));
            pair.act(COPIES, |r| r.write(PageId(pages)));
            pair.fill(pages, 7);
            assert!(pair.most_under_way <= UNDER_WAY_BYTES, "{} bytes", pair.most_under_way);
            assert!(pair.taken() <= 8, "{} pages", pair.taken());
            let barrier = pair.ranks[0].barrier().unwrap();
            pair.deliver(HOME, barrier);
            pair.act(COPIES, |r| r.barrier());
            let at_home = |page| pair.ranks[0].readable(PageId(page)).unwrap();
            let right = |page| at_home(page).iter().all(|byte| *byte == page as u8 | 1);
            assert!((0..pages).all(right) && at_home(pages).iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn a_write_of_pages_that_were_read_makes_room_for_their_twins() {
        let mut pair = Pair::new(8, 8, 8, false);
        pair.act(COPIES, |r| r.want(PageId(0), 8, false));
        pair.act(COPIES, |r| r.want(PageId(0), 4, true));
        assert_eq!(pair.taken(), 8);
    }

    /// Rank 0 writes its home pages; rank 1 reads each while rank 0 may still write it.
    #[test]
    fn pages_handed_out_while_they_are_written_get_no_more_twins_than_fit() {
        let mut pair = Pair::over(40, 8, 8, true, |rank| rank.keep_unshared_home());
        for round in 1..4 {
            pair.act(HOME, |r| r.want(PageId(0), 40, true));
            for page in (0..40).map(PageId) {
                pair.ranks[0].writable(page).unwrap()[0] = round;
                pair.act(COPIES, |r| r.read(page));
                let twins = pair.ranks[0].frames.twins();
                assert!(twins <= 8, "{twins} twins at the home");
                pair.ranks[0].writable(page).unwrap()[1] = round;
            }
            assert!(pair.ranks[0].frames.twins() > 0 || round > 1, "none has a twin");
            let barrier = pair.ranks[0].barrier().unwrap();
            pair.deliver(HOME, barrier);
            pair.act(COPIES, |r| r.barrier());
            for page in (0..40).map(PageId) {
                pair.act(COPIES, |r| r.read(page));
                assert_eq!(pair.ranks[1].readable(page).unwrap()[..2], [round; 2]);
            }
            let barrier = pair.ranks[0].barrier().unwrap();
            pair.deliver(HOME, barrier);
            pair.act(COPIES, |r| r.barrier());
        }
    }

    #[test]
    fn what_a_lock_predicts_finds_room_in_the_cache() {
        for along in [false, true] {
            let mut pair = Pair::new(40, 8, 8, along);
            for round in 1..4 {
                for me in [HOME, COPIES] {
                    pair.act(me, |r| r.lock(LOCK));
                    assert!(pair.taken() <= 8, "{} pages", pair.taken());
                    for page in (0..32).map(PageId) {
                        pair.act(me, |r| r.write(page));
                        let byte = &mut pair.ranks[me.index()].writable(page).unwrap()[0];
                        *byte += 1;
                        assert_eq!(*byte, 2 * round - u8::from(me == HOME));
                    }
                    pair.act(me, |r| r.unlock(LOCK));
                }
            }
        }
    }

    /// A wish of more pages than the limit leaves them there; the lock was never taken before.
    #[test]
    fn a_lock_without_a_prediction_finds_a_cache_beyond_its_limit() {
        let mut pair = Pair::new(40, 8, 8, true);
        pair.act(COPIES, |r| r.want(PageId(0), 32, false));
        assert!(pair.taken() > 8, "{} pages", pair.taken());
        pair.act(COPIES, |r| r.lock(LOCK));
        assert!(pair.taken() <= 8, "{} pages", pair.taken());
    }

    #[test]
    fn what_comes_with_a_barrier_finds_room_in_the_cache() {
        let mut pair = Pair::new(40, 8, 8, true);
        for round in 1..9 {
            for page in (0..32).map(PageId) {
                pair.act(HOME, |r| r.write(page));
                pair.ranks[0].writable(page).unwrap()[0] = round;
                pair.act(COPIES, |r| r.write(page));
                pair.ranks[1].writable(page).unwrap()[1] = round;
            }
            let barrier = pair.ranks[0].barrier().unwrap();
            pair.deliver(HOME, barrier);
            pair.act(COPIES, |r| r.barrier());
            assert!(pair.taken() <= 8, "{} pages", pair.taken());
            assert!(pair.ranks[1].counts().predicted_fetches > 0 || round == 1);
            for page in (0..32).map(PageId) {
                pair.act(COPIES, |r| r.read(page));
                assert_eq!(pair.ranks[1].readable(page).unwrap()[..2], [round; 2]);
            }
            let barrier = pair.ranks[0].barrier().unwrap();
            pair.deliver(HOME, barrier);
            pair.act(COPIES, |r| r.barrier());
        }
    }
}
