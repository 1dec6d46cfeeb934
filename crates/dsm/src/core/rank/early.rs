//! Requests for pages that their home has not allocated yet.
//!
//! Every rank allocates the same in the same order without waiting: a fast rank may ask for a page
//! that exists for it alone so far. Such a request is kept until the home has allocated. Checked by
//! `a_request_for_a_page_that_its_home_has_not_allocated_waits`.
//!
//! Invariants
//! - A rank that waits at a barrier allocates nothing before the asker has its page, and the asker
//!   reaches no barrier before: such a request is the program's error and is refused in words.
//!   Checked by `a_page_that_its_home_never_allocates_is_refused_at_the_barrier`.

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::{Outcome, PageId, Rank, Waiting, misuse};
use crate::core::frames::Frames;
use crate::error::Result;

impl<F: Frames> Rank<F> {
    /// From now on a request for a page that is not allocated here yet waits; call before the
    /// first message.
    pub fn keep_early_requests(&mut self) {
        self.early = Some(Vec::new());
    }

    pub(super) fn is_early(&self, page: PageId) -> bool {
        self.early.is_some() && page.0 >= self.shape.pages && !mutant!("dsm_early_request_refused")
    }

    pub(super) fn keep_early(&mut self, from: NodeId, page: PageId) -> Result<()> {
        self.early.get_or_insert_default().push((from, page));
        let stands_still = self.waiting == Waiting::Depart;
        if stands_still { self.refuse_unallocated() } else { Ok(()) }
    }

    /// # Errors
    /// `Kind::Misuse` when a request waits for a page that this rank has not allocated.
    pub(super) fn refuse_unallocated(&self) -> Result<()> {
        let Some((from, page)) = self.early.iter().flatten().next() else { return Ok(()) };
        Err(misuse(format!(
            "rank {from} uses page {}, and rank {} reaches a barrier with {} pages allocated: every \
             rank allocates the same lengths in the same order",
            page.0, self.me, self.shape.pages
        )))
    }

    /// Answers the requests that have waited for pages that are allocated now.
    ///
    /// # Errors
    /// `Kind::Protocol` for a page whose home this rank is not.
    pub fn answer_early(&mut self) -> Result<Outcome> {
        let mut out = Outcome::default();
        for (from, page) in self.early.replace(Vec::new()).into_iter().flatten() {
            if self.is_early(page) {
                self.keep_early(from, page)?;
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
            Shape { ranks: 2, pages: 0, page_bytes: 64, locks: 1, log_capacity: 1, predict: false };
        let mut rank = Rank::new(NodeId(me), shape);
        rank.keep_early_requests();
        rank
    }

    #[test]
    fn a_page_that_its_home_never_allocates_is_refused_at_the_barrier() {
        let ask = || Message::GetPage { page: PageId(1) };
        let mut before = rank(0);
        assert_eq!(before.receive(NodeId(1), ask()).unwrap(), Outcome::default());
        assert_eq!(before.barrier().unwrap_err().kind(), Kind::Misuse);
        let mut after = rank(1);
        after.barrier().unwrap();
        assert_eq!(after.receive(NodeId(0), ask()).unwrap_err().kind(), Kind::Misuse);
    }

    #[test]
    fn a_kept_request_is_answered_once_its_page_is_there() {
        let mut home = rank(0);
        home.receive(NodeId(1), Message::GetPage { page: PageId(2) }).unwrap();
        home.extend(1, 1, NodeId(0));
        assert_eq!(home.answer_early().unwrap().send, []);
        home.extend(2, 2, NodeId(0));
        let answers = home.answer_early().unwrap().send;
        assert!(matches!(&answers[..], [(NodeId(1), Message::Page { page: PageId(2), .. })]));
        assert_eq!(home.answer_early().unwrap().send, []);
    }
}
