//! Pages that the program wants: room is made for them, then those that are missing are fetched.
//!
//! Invariants
//! - Nothing is fetched before the differences of evicted pages are made, and no more of those are
//!   made than may be under way. Checked by
//!   `what_a_long_guard_wrote_leaves_as_acknowledgements_come`.
//! - Lines in place are reached by runs. Checked by `runs_are_found_however_they_meet_blocks`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::{
    Access, Message, Outcome, PageId, PageRun, Rank, UNDER_WAY_MAX, Waiting, out_of_range,
    protocol, unasked,
};
use crate::core::frames::Frames;
use crate::core::pages::Runs;
use crate::error::Result;

/// Pages whose access is compared at a time.
const BLOCK: usize = 64;

/// What the program wants to do with pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Demand {
    Read,
    Write,
    /// Write every byte.
    Whole,
}

/// Pages that an operation of the program wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wish {
    pub(super) pages: Range<u32>,
    /// Pages after those that are fetched too: they probably miss next.
    pub(super) behind: u32,
    pub(super) demand: Demand,
}

impl<F: Frames> Rank<F> {
    /// Makes `page` readable.
    ///
    /// # Errors
    /// `Kind::OutOfRange` for a page the job does not have, `Kind::Misuse` while another operation
    /// is under way, `Kind::Environment` when the system refuses what an eviction needs; each
    /// changes nothing.
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
        self.demand(first, count, 0, if write { Demand::Write } else { Demand::Read })
    }

    /// Whether the program may use pages already, as [`Rank::want`] would let it.
    pub fn has(&self, pages: Range<u32>, write: bool) -> bool {
        let all = self.access.get(pages.start as usize..pages.end as usize);
        let may = |access: &Access| match access {
            Access::Invalid => false,
            Access::Shared => !write || mutant!("dsm_guard_writes_shared_pages"),
            Access::Written => true,
        };
        all.is_some_and(|all| all.iter().all(may))
    }

    /// As [`Rank::want`] for pages of which the program writes every byte, to the same values or
    /// others.
    ///
    /// # Errors
    /// As [`Rank::read`].
    pub fn want_whole(&mut self, first: PageId, count: u32) -> Result<Outcome> {
        self.demand(first, count, 0, Demand::Whole)
    }

    pub(super) fn demand(
        &mut self,
        first: PageId,
        count: u32,
        behind: u32,
        demand: Demand,
    ) -> Result<Outcome> {
        self.idle()?;
        let end = first.0.checked_add(count).filter(|end| *end <= self.shape.pages);
        let refused = || out_of_range("page", first.0, self.shape.pages).at_page(first.0);
        let end = end.ok_or_else(|| refused().at_rank(self.me))?;
        let wish = Wish { pages: first.0..end, behind, demand };
        self.make_room(&wish)?;
        self.waiting = Waiting::Room(wish);
        let mut out = Outcome::default();
        self.go_on(&mut out);
        Ok(out)
    }

    /// Sends differences of evicted pages, as many as may be under way; once all are sent, fetches
    /// the pages that they made room for.
    pub(super) fn go_on(&mut self, out: &mut Outcome) {
        let Waiting::Room(wish) = &self.waiting else { return };
        let wish = wish.clone();
        self.send_evicted(out);
        if self.unsent.is_empty() {
            self.fetch(wish, out);
        }
    }

    fn fetch(&mut self, wish: Wish, out: &mut Outcome) {
        let Wish { pages, behind, demand } = wish;
        let mut missing = BTreeSet::new();
        if self.in_place {
            self.reach(pages, demand);
            return self.await_pages(missing, BTreeSet::new(), false, out);
        }
        for page in pages.clone().map(PageId) {
            match self.access(page) {
                Access::Invalid => {
                    self.counts.misses += 1;
                    self.missed(page);
                    self.ask_for(page, &mut missing, out);
                }
                Access::Shared if demand != Demand::Read => {
                    self.counts.upgrades += 1;
                    self.make_writable(page, false);
                }
                Access::Shared | Access::Written => {}
            }
        }
        let write = if demand == Demand::Read { BTreeSet::new() } else { missing.clone() };
        for page in (pages.end..pages.end + behind).map(PageId) {
            self.ask_for(page, &mut missing, out);
        }
        self.await_pages(missing, write, false, out);
    }

    /// Makes lines readable or writable where they are: nothing is fetched.
    fn reach(&mut self, lines: Range<u32>, demand: Demand) {
        for run in self.runs_with(lines.clone(), Access::Invalid) {
            self.counts.misses += u64::from(run.count());
            self.refresh(run);
        }
        if demand == Demand::Read {
            return;
        }
        for run in self.runs_with(lines, Access::Shared) {
            self.counts.upgrades += u64::from(run.count());
            match demand {
                Demand::Whole => self.write_in_place(run),
                _ => run.pages().for_each(|line| self.make_writable(line, false)),
            }
        }
    }

    /// The runs of pages among `pages` with this access, [`BLOCK`] pages compared at a time.
    fn runs_with(&self, pages: Range<u32>, access: Access) -> Vec<PageRun> {
        let all = &self.access[pages.start as usize..pages.end as usize];
        let mut runs = Runs::default();
        for (first, block) in (u64::from(pages.start)..).step_by(BLOCK).zip(all.chunks(BLOCK)) {
            let found: usize = block.iter().map(|a| usize::from(*a == access)).sum();
            if found == block.len() {
                runs.add(first, first + found as u64);
            } else if found > 0 {
                let these = (first..).zip(block).filter(|(_, a)| **a == access);
                these.for_each(|(page, _)| runs.add(page, page + 1));
            }
        }
        runs.finish()
    }

    pub(super) fn ask_for(&self, page: PageId, missing: &mut BTreeSet<PageId>, out: &mut Outcome) {
        out.send.push((self.home(page), Message::GetPage { page, phase: self.phase() }));
        missing.insert(page);
    }

    pub(super) fn await_pages(
        &mut self,
        missing: BTreeSet<PageId>,
        write: BTreeSet<PageId>,
        predicted: bool,
        out: &mut Outcome,
    ) {
        self.waiting = Waiting::Pages { missing, write, predicted };
        self.end_if_all_came(out);
    }

    /// Ends the wait for pages when all are here and few differences of evicted ones are under way.
    pub(super) fn end_if_all_came(&mut self, out: &mut Outcome) {
        let all = matches!(&self.waiting, Waiting::Pages { missing, .. } if missing.is_empty());
        if all && self.owed <= UNDER_WAY_MAX {
            self.waiting = Waiting::Nothing;
            out.done = true;
        }
    }

    pub(super) fn take_page(
        &mut self,
        from: NodeId,
        page: PageId,
        bytes: Cow<'_, [u8]>,
        out: &mut Outcome,
    ) -> Result<()> {
        if bytes.len() != self.shape.page_bytes || page.0 >= self.shape.pages {
            let what = format!("rank {from} sent no page {}", page.0);
            return Err(protocol(what).at_page(page.0));
        }
        let Waiting::Pages { missing, write, predicted } = &mut self.waiting else {
            return self.keep_arrived(from, page, bytes.into_owned());
        };
        if !missing.remove(&page) {
            return Err(unasked(from, page));
        }
        let (write, predicted) = (write.remove(&page), *predicted);
        self.fill(page, &bytes);
        if write {
            self.make_writable(page, predicted);
        }
        self.end_if_all_came(out);
        Ok(())
    }

    pub(super) fn fill(&mut self, page: PageId, bytes: &[u8]) {
        debug_assert_eq!(self.access(page), Access::Invalid, "only an invalid page is fetched");
        self.frames.fill(page, bytes);
        self.set_access(page, Access::Shared);
        if let Some(cache) = &mut self.cache {
            cache.filled(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::rank::Shape;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn runs_are_found_however_they_meet_blocks(
            lengths in proptest::collection::vec(1u32..100, 1..12),
            cut in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let (page_bytes, locks, log_capacity) = (8, 1, 1);
            let pages = lengths.iter().sum();
            let shape = Shape { ranks: 1, pages, page_bytes, locks, log_capacity, predict: false };
            let mut rank = Rank::new(NodeId(0), shape);
            rank.share_in_place();
            let mut at = 0;
            for (n, length) in lengths.iter().enumerate() {
                let access = [Access::Shared, Access::Written, Access::Invalid][n % 3];
                rank.access[at as usize..(at + length) as usize].fill(access);
                at += length;
            }
            let (a, b) = (cut.0.index(pages as usize + 1), cut.1.index(pages as usize + 1));
            let within = a.min(b) as u32..a.max(b) as u32;
            for access in [Access::Shared, Access::Written, Access::Invalid] {
                let runs = rank.runs_with(within.clone(), access);
                let found: Vec<u32> = runs.iter().flat_map(|r| r.pages()).map(|p| p.0).collect();
                let has = |page: &u32| rank.access[*page as usize] == access;
                prop_assert_eq!(found, within.clone().filter(has).collect::<Vec<_>>());
                prop_assert!(runs.windows(2).all(|two| two[0].end() < u64::from(two[1].first().0)));
            }
        }
    }
}
