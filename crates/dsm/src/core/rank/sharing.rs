//! What is shared of a page: copies, nothing, or the page itself.
//!
//! - *Unshared* home pages ([`Rank::keep_unshared_home`]) are written unnoticed.
//! - *In place* ([`Rank::share_in_place`]): every rank reaches the pages themselves through memory
//!   without hardware coherence, and a page is a line. Nothing is fetched: a line that a notice has
//!   named is dropped from this rank's cache at its next access. A line goes back to the medium
//!   whole, so it must have one writer at a time: its home, or a rank that writes all of it
//!   (another rank that touched a byte of it then would race). A rank that writes part of a line
//!   elsewhere at home writes a private copy and sends the difference home, which merges it.
//!
//! Orders in place (each has a mutant)
//! 1. Lines written in place are written back and fenced before the acquire, release or arrival
//!    that tells of them is sent.
//! 2. A home drops its copy of a line before it merges a difference into it, unless it is writing
//!    the line itself: another rank may have written the whole line meanwhile.
//! 3. A home acknowledges differences when they are on the medium.
//! 4. What this rank sent home it drops from its cache: the merged line is newer.

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::{Access, PageId, PageRun, Rank, protocol};
use crate::core::diff::Diff;
use crate::core::frames::Frames;
use crate::error::Result;

impl<F: Frames> Rank<F> {
    /// From now on home pages of which no other rank has a copy are written unnoticed; call before
    /// the first operation or message.
    ///
    /// # Panics
    /// When something has been written already.
    pub fn keep_unshared_home(&mut self) {
        assert!(self.open.is_empty() && self.generation == 0, "copies may have been handed out");
        let pages = (0..self.shape.pages).map(PageId);
        self.unshared = Some(pages.map(|page| self.home(page) == self.me).collect());
    }

    /// From now on pages are lines that every rank reaches in place; call before the first
    /// operation or message.
    ///
    /// # Panics
    /// When something has been written already.
    pub fn share_in_place(&mut self) {
        assert!(self.open.is_empty() && self.generation == 0, "copies may have been handed out");
        self.in_place = true;
        self.access.fill(Access::Invalid);
    }

    /// Drops this rank's copies of lines, so that the next loads see the medium.
    pub(super) fn refresh(&mut self, run: PageRun) {
        self.frames.refresh(run);
        self.set_access_run(run, Access::Shared);
    }

    /// Lets the program write lines in place.
    pub(super) fn write_in_place(&mut self, run: PageRun) {
        self.set_access_run(run, Access::Written);
        self.open.insert_run(run);
        self.note_run(run);
    }

    /// Drops a line whose difference goes home.
    pub(super) fn drop_merged(&mut self, page: PageId) {
        if !mutant!("pool_lines_kept_after_diff") {
            self.set_access(page, Access::Invalid);
        }
    }

    pub(super) fn is_unshared(&self, page: PageId) -> bool {
        self.unshared.as_ref().is_some_and(|u| u[page.0 as usize])
    }

    /// Ends a home page's being unshared: what is written to it from now on is noticed, beginning
    /// with what this scope may still write.
    pub(super) fn hand_out(&mut self, page: PageId) {
        self.published.remove(page);
        let Some(unshared) = &mut self.unshared else { return };
        let was = std::mem::replace(&mut unshared[page.0 as usize], false);
        if was && self.access(page) == Access::Written && !mutant!("dsm_unshared_page_handed_out") {
            // With a twin of what is sent, only a write after it is noticed.
            let may_have = self.along.is_some() && !self.frames.is_hidden(page);
            let has_twin = may_have && self.has_room_for_twin();
            if has_twin {
                self.frames.keep_twin(page);
            }
            self.reopen(page, has_twin);
        }
    }

    /// Rank `from` has copied pages out of this rank's frames since this was said last, or what it
    /// has copied is not known to be less: where ranks reach each other's frames. A home says so
    /// before a scope ends.
    ///
    /// # Errors
    /// `Kind::Protocol` for pages whose home this rank is not.
    pub fn copied(&mut self, from: NodeId, run: PageRun) -> Result<()> {
        run.pages().try_for_each(|page| {
            self.at_home(from, page)?;
            self.note_copied(page);
            Ok(())
        })
    }

    /// As `copied`, of every page at home here, and of those that are allocated before the next
    /// barrier: another rank may have allocated and copied them already.
    pub fn all_copied(&mut self) {
        self.names_lost = !mutant!("dsm_full_ring_forgets_new_pages");
        for page in (0..self.shape.pages).map(PageId) {
            if self.home(page) == self.me {
                self.note_copied(page);
            }
        }
    }

    /// A page that may be written in this scope, before or after it was copied, is noticed in it.
    fn note_copied(&mut self, page: PageId) {
        let unshared = self.unshared.as_mut().map(|unshared| &mut unshared[page.0 as usize]);
        let was = unshared.is_some_and(std::mem::take);
        if was && self.access(page) == Access::Written {
            if !mutant!("dsm_copied_page_stays_unnoticed") {
                self.reopen(page, false);
            }
        } else if self.open.twin_of(page) == Some(true) && !mutant!("dsm_copied_page_as_its_twin") {
            // The copy may be of a moment between two writes, of which the twin knows nothing.
            self.note(page);
        }
    }

    /// Notes a page that is writable already, as predicted where its twin will show a write.
    pub(super) fn reopen(&mut self, page: PageId, has_twin: bool) {
        self.open.insert(page, has_twin);
        self.note(page);
        if has_twin {
            let scope = self.scopes.last_mut();
            scope.expect("invariant: the barrier's scope is never left").idle.insert(page);
        }
    }

    /// A barrier has made every other rank drop what it had of these home pages.
    pub(super) fn take_back(&mut self) {
        let published = std::mem::take(&mut self.published);
        // All ranks have allocated the same when they come to a barrier.
        self.names_lost = false;
        let Some(unshared) = &mut self.unshared else { return };
        published.iter().for_each(|page| unshared[page.0 as usize] = true);
    }

    pub(super) fn apply_diffs(&mut self, from: NodeId, diffs: &[(PageId, Diff)]) -> Result<()> {
        for (page, diff) in diffs {
            self.at_home(from, *page)?;
            if !diff.fits(self.shape.page_bytes) {
                let what = format!("rank {from} sent a diff past page {}", page.0);
                return Err(protocol(what).at_page(page.0));
            }
        }
        diffs.iter().for_each(|(page, diff)| self.apply(*page, diff));
        if self.in_place && !mutant!("pool_lines_acknowledged_unfenced") {
            self.frames.fence();
        }
        Ok(())
    }

    fn apply(&mut self, page: PageId, diff: &Diff) {
        if !self.in_place {
            return self.frames.apply(page, diff);
        }
        if self.access(page) != Access::Written && !mutant!("pool_lines_merged_into_stale") {
            self.frames.refresh(page.into());
        }
        self.frames.apply(page, diff);
        self.frames.write_back(page.into());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::core::message::Message;
    use crate::core::rank::Shape;

    /// Another rank may allocate and copy page 1 before its home has allocated it. Page 0 is
    /// written unnoticed, and may be written still when the names are lost.
    #[test]
    fn pages_allocated_after_names_were_lost_are_noticed_until_a_barrier() {
        const HOME: NodeId = NodeId(0);
        let (page_bytes, locks, log_capacity) = (8, 1, 1);
        let shape = Shape { ranks: 2, pages: 0, page_bytes, locks, log_capacity, predict: false };
        let mut home = Rank::new(HOME, shape);
        home.keep_unshared_home();
        for generation in 0..3 {
            let is_lost = generation == 1;
            if is_lost {
                home.all_copied();
            }
            let page = home.extend(1, 1, HOME);
            assert!(home.write(page).unwrap().done);
            let both = PageRun::new(PageId(0), 2).unwrap();
            let pages = if is_lost { vec![both] } else { Vec::new() };
            let arrival = (HOME, Message::Arrive { generation, pages });
            assert_eq!(home.barrier().unwrap().send, [arrival], "barrier {generation}");
            home.receive(HOME, Message::Depart { generation, notices: Vec::new() }).unwrap();
        }
    }
}
