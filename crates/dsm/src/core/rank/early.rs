//! Requests for pages that their home has not allocated yet.
//!
//! Every rank allocates the same in the same order without waiting: a fast rank may ask for a page
//! that exists for it alone so far. Such a request is kept until the home has allocated. Checked by
//! `a_request_for_a_page_that_its_home_has_not_allocated_waits`.
//!
//! Invariants
//! - A rank that has called a barrier allocates nothing before it has left, and an asker that has
//!   not called it cannot before its page has come: such a request is the program's error and is
//!   refused in words. Checked by `a_page_that_its_home_never_allocates_is_refused_at_the_barrier`.
//! - An asker that has left the barrier already is no error: its request names a later barrier
//!   generation and is kept. Checked by `a_request_may_overtake_the_departure`.

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::{AfterFlush, Outcome, PageId, Rank, Waiting, misuse};
use crate::core::frames::Frames;
use crate::error::{Error, Result};

impl<F: Frames> Rank<F> {
    /// From now on a request for a page that is not allocated here yet waits; call before the
    /// first message.
    pub fn keep_early_requests(&mut self) {
        self.early = Some(Vec::new());
    }

    pub(super) fn is_early(&self, page: PageId) -> bool {
        self.early.is_some() && page.0 >= self.shape.pages && !mutant!("dsm_early_request_refused")
    }

    /// Keeps a request that was made in barrier generation `phase` of the asker.
    ///
    /// # Errors
    /// As [`Rank::refuse_unallocated`], where this rank has called the barrier.
    pub(super) fn keep_early(&mut self, from: NodeId, page: PageId, phase: u32) -> Result<()> {
        self.early.get_or_insert_default().push((from, page, phase));
        let at_barrier = match &self.waiting {
            Waiting::Depart => true,
            Waiting::Flush { then, .. } => *then == AfterFlush::Arrive,
            _ => false,
        };
        if at_barrier { self.refuse_unallocated() } else { Ok(()) }
    }

    /// The barrier generation as requests carry it; it wraps around.
    pub(super) fn phase(&self) -> u32 {
        self.generation as u32
    }

    /// # Errors
    /// `Kind::Misuse` when a request of this barrier generation waits for a page that this rank has
    /// not allocated.
    pub(super) fn refuse_unallocated(&self) -> Result<()> {
        let same = |phase| phase == self.phase() || mutant!("dsm_early_phase_ignored");
        let mut unallocated = self.early.iter().flatten().filter(|(_, _, phase)| same(*phase));
        let Some((from, page, _)) = unallocated.next() else { return Ok(()) };
        Err(self.unallocated(*from, *page))
    }

    /// `rank` uses a page that this rank, which reaches a barrier, has not allocated.
    #[cold]
    pub(super) fn unallocated(&self, rank: NodeId, page: PageId) -> Error {
        let what = format!(
            "rank {rank} uses page {}, and rank {} reaches a barrier with {} pages allocated: every \
             rank allocates the same lengths in the same order",
            page.0, self.me, self.shape.pages
        );
        let refused = misuse(what).at_rank(self.me).at_peer(rank).at_page(page.0);
        refused.at_generation(self.generation)
    }

    /// Answers the requests that have waited for pages that are allocated now.
    ///
    /// # Errors
    /// `Kind::Protocol` for a page whose home this rank is not.
    pub fn answer_early(&mut self) -> Result<Outcome> {
        let mut out = Outcome::default();
        for (from, page, phase) in self.early.replace(Vec::new()).into_iter().flatten() {
            if self.is_early(page) {
                self.keep_early(from, page, phase)?;
            } else {
                self.serve_page(from, page, &mut out)?;
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::message::Message;
    use crate::core::rank::Shape;
    use crate::error::Kind;

    fn rank(me: u16) -> Rank {
        let shape =
            Shape { ranks: 3, pages: 0, page_bytes: 64, locks: 1, log_capacity: 1, predict: false };
        let mut rank = Rank::new(NodeId(me), shape);
        rank.keep_early_requests();
        rank
    }

    #[test]
    fn a_page_that_its_home_never_allocates_is_refused_at_the_barrier() {
        let ask = || Message::GetPage { page: PageId(1), phase: 0 };
        let mut before = rank(0);
        assert_eq!(before.receive(NodeId(1), ask()).unwrap(), Outcome::default());
        assert_eq!(before.barrier().unwrap_err().kind(), Kind::Misuse);
        let mut after = rank(1);
        after.barrier().unwrap();
        assert_eq!(after.receive(NodeId(0), ask()).unwrap_err().kind(), Kind::Misuse);
    }

    #[test]
    fn a_request_may_overtake_the_departure() {
        let mut home = rank(1);
        home.barrier().unwrap();
        let ask = Message::GetPage { page: PageId(0), phase: 1 };
        assert_eq!(home.receive(NodeId(0), ask).unwrap(), Outcome::default());
        let depart = Message::Depart { generation: 0, notices: vec![] };
        home.receive(NodeId(0), depart).unwrap();
        home.extend(1, 1, NodeId(1));
        assert_eq!(home.answer_early().unwrap().send.len(), 1);
    }

    #[test]
    fn a_page_that_no_rank_allocates_is_refused_during_the_flush_too() {
        let mut home = rank(1);
        home.extend(1, 1, NodeId(2));
        home.write(PageId(0)).unwrap();
        let page = Message::Page { page: PageId(0), bytes: vec![0; 64] };
        home.receive(NodeId(2), page).unwrap();
        home.frames.page_mut(PageId(0))[0] = 1;
        home.barrier().unwrap();
        assert!(matches!(home.waiting, Waiting::Flush { .. }), "{:?}", home.waiting);
        let ask = Message::GetPage { page: PageId(1), phase: 0 };
        assert_eq!(home.receive(NodeId(0), ask).unwrap_err().kind(), Kind::Misuse);
    }

    #[test]
    fn a_kept_request_is_answered_once_its_page_is_there() {
        let mut home = rank(0);
        home.receive(NodeId(1), Message::GetPage { page: PageId(2), phase: 0 }).unwrap();
        home.extend(1, 1, NodeId(0));
        assert_eq!(home.answer_early().unwrap().send, []);
        home.extend(2, 2, NodeId(0));
        let answers = home.answer_early().unwrap().send;
        assert!(matches!(&answers[..], [(NodeId(1), Message::Page { page: PageId(2), .. })]));
        assert_eq!(home.answer_early().unwrap().send, []);
    }
}
