//! Which other ranks leave the job.

use std::collections::BTreeSet;

use littoral_base::units::NodeId;

/// The other ranks that have said that they leave; they send the program nothing more.
pub(super) struct Leavers {
    others_count: usize,
    said: BTreeSet<NodeId>,
}

impl Leavers {
    /// None yet, of so many ranks.
    pub(super) fn among(ranks: u16) -> Self {
        Leavers { others_count: usize::from(ranks) - 1, said: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, rank: NodeId) {
        self.said.insert(rank);
        debug_assert!(self.said.len() <= self.others_count, "no rank hears itself");
    }

    pub(super) fn has(&self, rank: NodeId) -> bool {
        self.said.contains(&rank)
    }

    /// Whether there are other ranks and each has said so.
    pub(super) fn are_all(&self) -> bool {
        self.others_count > 0 && self.said.len() == self.others_count
    }

    /// The lowest of them.
    pub(super) fn first(&self) -> Option<NodeId> {
        self.said.first().copied()
    }
}
