//! The barrier manager: counts arrivals, unites notices, lets everyone go by one message a rank.
//!
//! The paper says that its barrier uses the lock manager's hardware but not how. Resolution: a
//! count and a union of notices at one rank, and a generation number, so that a late message of one
//! barrier can never be taken for one of the next. Two ranks of a running job need no manager, see
//! `core::rank::exchange`.
//!
//! Invariants
//! - Each rank arrives once a generation; a second arrival or a wrong generation is a protocol
//!   error. Checked by `the_last_arrival_lets_everyone_go_with_the_union`.
//! - Departure messages of a generation carry every notice of that generation. Checked by
//!   `the_last_arrival_lets_everyone_go_with_the_union`.

use littoral_base::units::NodeId;

use super::message::{Message, Notice, PageId, PageRun};
use super::pages::united;
use crate::error::{Error, Kind, Result};

/// The state of the one barrier at its manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Barrier {
    ranks: u16,
    generation: u64,
    arrived: Vec<bool>,
    notices: Vec<Notice>,
}

impl Barrier {
    /// The barrier of a job with `ranks` ranks.
    pub fn new(ranks: u16) -> Self {
        let arrived = vec![false; usize::from(ranks)];
        Barrier { ranks, generation: 0, arrived, notices: Vec::new() }
    }

    /// Takes an arrival; after the last one the answers let all ranks go.
    ///
    /// # Errors
    /// `Kind::Protocol` on a second arrival or another generation.
    pub fn arrive(
        &mut self,
        rank: NodeId,
        generation: u64,
        pages: &[PageRun],
    ) -> Result<Vec<(NodeId, Message)>> {
        let slot = self.arrived.get_mut(rank.index());
        match slot {
            Some(seen) if generation == self.generation && !*seen => *seen = true,
            _ => {
                let at = self.generation;
                let what = format!("barrier {at}: rank {rank} arrived for {generation} or twice");
                let refused = Error::new(Kind::Protocol, what);
                return Err(refused.at_peer(rank).at_generation(generation));
            }
        }
        let runs = united(pages.to_vec()).into_iter();
        self.notices.extend(runs.map(|pages| Notice { pages, writer: rank }));
        Ok(if self.arrived.iter().all(|&a| a) { self.depart() } else { Vec::new() })
    }

    fn depart(&mut self) -> Vec<(NodeId, Message)> {
        let mut notices = std::mem::take(&mut self.notices);
        in_order(&mut notices);
        let generation = self.generation;
        self.generation += 1;
        self.arrived.fill(false);
        let go = |r| (NodeId(r), Message::Depart { generation, notices: notices.clone() });
        (0..self.ranks).map(go).collect()
    }
}

/// Orders the notices of a departure: by writer, then ascending. Those of each writer are runs with
/// gaps between them.
pub(crate) fn in_order(notices: &mut [Notice]) {
    notices.sort_unstable_by_key(|n| (n.writer, n.pages));
}

/// Whether the notices of a departure name `page` as written by another rank than `rank`.
pub(crate) fn is_news(notices: &[Notice], page: PageId, rank: NodeId) -> bool {
    let by_writer = notices.chunk_by(|a, b| a.writer == b.writer);
    by_writer.filter(|of| of[0].writer != rank).any(|of| {
        let at = of.partition_point(|n| n.pages.end() <= u64::from(page.0));
        of.get(at).is_some_and(|n| n.pages.contains(page))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn the_last_arrival_lets_everyone_go_with_the_union() {
        let mut b = Barrier::new(2);
        assert!(b.arrive(NodeId(1), 0, &[PageId(3).into(), PageId(3).into()]).unwrap().is_empty());
        assert!(b.arrive(NodeId(1), 0, &[]).is_err(), "twice");
        assert!(b.arrive(NodeId(0), 1, &[]).is_err(), "the next one too early");
        assert!(b.arrive(NodeId(9), 0, &[]).is_err(), "no such rank");
        let out = b.arrive(NodeId(0), 0, &[]).unwrap();
        let notices = vec![Notice { pages: PageId(3).into(), writer: NodeId(1) }];
        let want = |r| (NodeId(r), Message::Depart { generation: 0, notices: notices.clone() });
        assert_eq!(out, vec![want(0), want(1)]);
        assert!(b.arrive(NodeId(0), 1, &[]).unwrap().is_empty());
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_departure_names_what_the_arrivals_named(
            arrivals in vec(vec((0u32..60, 1u32..9), 0..8), 3),
        ) {
            let mut barrier = Barrier::new(3);
            let mut departures = Vec::new();
            for (rank, runs) in (0..).zip(&arrivals) {
                let run = |(first, count): &(u32, u32)| PageRun::new(PageId(*first), *count).unwrap();
                let runs: Vec<_> = runs.iter().map(run).collect();
                departures = barrier.arrive(NodeId(rank), 0, &runs).unwrap();
            }
            let Some((_, Message::Depart { notices, .. })) = departures.pop() else {
                panic!("all have arrived")
            };
            for page in 0..70 {
                let wrote = |rank: usize| {
                    arrivals[rank].iter().any(|(first, count)| (*first..first + count).contains(&page))
                };
                for rank in 0..3 {
                    let wanted = (0..3).any(|other| other != rank && wrote(other));
                    let found = is_news(&notices, PageId(page), NodeId(rank as u16));
                    prop_assert_eq!(found, wanted, "page {} for rank {}", page, rank);
                }
            }
        }
    }
}
