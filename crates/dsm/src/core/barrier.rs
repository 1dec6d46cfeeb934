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

use super::message::{Message, Notice, PageId};
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
        pages: &[PageId],
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
        self.notices.extend(pages.iter().map(|&page| Notice { page, writer: rank }));
        Ok(if self.arrived.iter().all(|&a| a) { self.depart() } else { Vec::new() })
    }

    fn depart(&mut self) -> Vec<(NodeId, Message)> {
        self.notices.sort_unstable();
        self.notices.dedup();
        let notices = std::mem::take(&mut self.notices);
        let generation = self.generation;
        self.generation += 1;
        self.arrived.fill(false);
        let go = |r| (NodeId(r), Message::Depart { generation, notices: notices.clone() });
        (0..self.ranks).map(go).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_arrival_lets_everyone_go_with_the_union() {
        let mut b = Barrier::new(2);
        assert!(b.arrive(NodeId(1), 0, &[PageId(3), PageId(3)]).unwrap().is_empty());
        assert!(b.arrive(NodeId(1), 0, &[]).is_err(), "twice");
        assert!(b.arrive(NodeId(0), 1, &[]).is_err(), "the next one too early");
        assert!(b.arrive(NodeId(9), 0, &[]).is_err(), "no such rank");
        let out = b.arrive(NodeId(0), 0, &[]).unwrap();
        let notices = vec![Notice { page: PageId(3), writer: NodeId(1) }];
        let want = |r| (NodeId(r), Message::Depart { generation: 0, notices: notices.clone() });
        assert_eq!(out, vec![want(0), want(1)]);
        assert!(b.arrive(NodeId(0), 1, &[]).unwrap().is_empty());
    }
}
