//! The lock manager of paper 002: one queue a lock, grant by one message, release by one message.
//!
//! A section costs exactly three operations: request, grant, release; `p` contenders cost `3p`,
//! with no read-modify-write and no polling across the fabric. Write notices ride in the grant.
//!
//! The paper leaves open what happens when notices outgrow the board's memory, and when they may be
//! forgotten. Resolution: a versioned log with a capacity. A grant carries what the acquirer has
//! not seen; when that has been forgotten already, the grant says [`Notices::Everything`], which is
//! safe. Entries of barrier generations that everyone has left are forgotten for nothing in return,
//! since the barrier published them.
//!
//! Invariants
//! - Requests are granted in order of arrival; at most one rank holds a lock. Checked by
//!   `first_come_first_served_with_only_what_is_new`.
//! - Only the holder can release; a release by another is a protocol error, not a state change.
//!   Checked by `strangers_cannot_release_and_no_rank_queues_twice`.

use std::collections::{BTreeSet, VecDeque};

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::message::{LockId, Message, Notice, Notices, PageId};
use crate::error::{Error, Kind, Result};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    version: u64,
    generation: u64,
    notice: Notice,
}

/// The state of one lock at its manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManagedLock {
    lock: LockId,
    holder: Option<NodeId>,
    queue: VecDeque<(NodeId, u64)>,
    log: VecDeque<Entry>,
    version: u64,
    /// Versions up to this one have been dropped for lack of room.
    forgotten: u64,
    capacity: usize,
}

impl ManagedLock {
    /// A free lock whose log holds at most `capacity` notices.
    pub fn new(lock: LockId, capacity: usize) -> Self {
        ManagedLock {
            lock,
            holder: None,
            queue: VecDeque::new(),
            log: VecDeque::new(),
            version: 0,
            forgotten: 0,
            capacity,
        }
    }

    /// Who holds the lock.
    pub fn holder(&self) -> Option<NodeId> {
        self.holder
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Takes a request; the answer is a grant when the lock was free.
    ///
    /// # Errors
    /// `Kind::Protocol` when the rank holds the lock or waits for it already.
    pub fn acquire(&mut self, rank: NodeId, seen: u64) -> Result<Option<(NodeId, Message)>> {
        if self.holder == Some(rank) || self.queue.iter().any(|(r, _)| *r == rank) {
            return Err(self.violation(rank, "asked twice"));
        }
        self.queue.push_back((rank, seen));
        Ok(self.grant_next())
    }

    /// Takes a release; the answer is the grant to the next in the queue.
    ///
    /// # Errors
    /// `Kind::Protocol` when the rank is not the holder.
    pub fn release(
        &mut self,
        rank: NodeId,
        generation: u64,
        pages: &[PageId],
    ) -> Result<Option<(NodeId, Message)>> {
        if self.holder != Some(rank) {
            return Err(self.violation(rank, "released without holding"));
        }
        self.holder = None;
        self.record(rank, generation, pages);
        Ok(self.grant_next())
    }

    /// Forgets what barriers before `generation` have published.
    pub fn forget_before(&mut self, generation: u64) {
        self.log.retain(|e| e.generation >= generation);
    }

    fn violation(&self, rank: NodeId, what: &str) -> Error {
        let what = format!("lock {}: rank {rank} {what}", self.lock.0);
        Error::new(Kind::Protocol, what).at_peer(rank).at_lock(self.lock.0)
    }

    fn record(&mut self, writer: NodeId, generation: u64, pages: &[PageId]) {
        if pages.is_empty() {
            return;
        }
        self.version += 1;
        let fresh: BTreeSet<PageId> = pages.iter().copied().collect();
        let replaced = |n: &Notice| n.writer == writer && fresh.contains(&n.page);
        self.log.retain(|e| !replaced(&e.notice));
        let version = self.version;
        let entry = |page| Entry { version, generation, notice: Notice { page, writer } };
        self.log.extend(fresh.iter().map(|&page| entry(page)));
        while self.log.len() > self.capacity {
            let dropped = self.log.pop_front().expect("invariant: a full log has a front");
            self.forgotten = self.forgotten.max(dropped.version);
        }
        debug_assert!(self.log.iter().is_sorted_by_key(|e| e.version), "old entries go first");
        debug_assert!(self.forgotten <= self.version, "only what was recorded is forgotten");
    }

    fn grant_next(&mut self) -> Option<(NodeId, Message)> {
        if self.holder.is_some() {
            return None;
        }
        let (rank, seen) = self.queue.pop_front()?;
        self.holder = Some(rank);
        debug_assert!(self.queue.iter().all(|(r, _)| *r != rank), "rank {rank} waits and holds");
        let notices = self.news_for(rank, seen);
        Some((rank, Message::Grant { lock: self.lock, notices, version: self.version }))
    }

    fn news_for(&self, rank: NodeId, seen: u64) -> Notices {
        if seen < self.forgotten && !mutant!("dsm_overflow_forgotten") {
            return Notices::Everything;
        }
        let fresh = self.log.iter().filter(|e| e.version > seen && e.notice.writer != rank);
        Notices::These(fresh.map(|e| e.notice).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(to: u16, pages: &[(u32, u16)], version: u64) -> Option<(NodeId, Message)> {
        let notice = |&(p, w): &(u32, u16)| Notice { page: PageId(p), writer: NodeId(w) };
        let notices = Notices::These(pages.iter().map(notice).collect());
        Some((NodeId(to), Message::Grant { lock: LockId(0), notices, version }))
    }

    #[test]
    fn first_come_first_served_with_only_what_is_new() {
        let mut l = ManagedLock::new(LockId(0), 8);
        assert_eq!(l.acquire(NodeId(0), 0).unwrap(), grant(0, &[], 0));
        assert_eq!(l.acquire(NodeId(2), 0).unwrap(), None);
        assert_eq!(l.acquire(NodeId(1), 0).unwrap(), None);
        assert_eq!(l.release(NodeId(0), 0, &[PageId(7)]).unwrap(), grant(2, &[(7, 0)], 1));
        assert_eq!(l.release(NodeId(2), 0, &[PageId(9)]).unwrap(), grant(1, &[(7, 0), (9, 2)], 2));
        assert_eq!(l.release(NodeId(1), 0, &[]).unwrap(), None);
        assert_eq!(l.acquire(NodeId(2), 1).unwrap(), grant(2, &[], 2), "own writes are no news");
    }

    #[test]
    fn a_full_log_says_everything_and_only_to_those_who_missed_it() {
        let mut l = ManagedLock::new(LockId(0), 2);
        for page in 0..3 {
            let _ = l.acquire(NodeId(0), 0).unwrap();
            let _ = l.release(NodeId(0), 0, &[PageId(page)]).unwrap();
        }
        let (_, late) = l.acquire(NodeId(1), 0).unwrap().unwrap();
        assert!(matches!(late, Message::Grant { notices: Notices::Everything, version: 3, .. }));
        let _ = l.release(NodeId(1), 0, &[]).unwrap();
        assert_eq!(l.acquire(NodeId(2), 1).unwrap(), grant(2, &[(1, 0), (2, 0)], 3));
    }

    #[test]
    fn strangers_cannot_release_and_no_rank_queues_twice() {
        let mut l = ManagedLock::new(LockId(4), 2);
        assert_eq!(l.release(NodeId(0), 0, &[]).unwrap_err().kind(), Kind::Protocol);
        let _ = l.acquire(NodeId(0), 0).unwrap();
        assert_eq!(l.acquire(NodeId(0), 0).unwrap_err().kind(), Kind::Protocol);
        let e = l.release(NodeId(1), 0, &[]).unwrap_err();
        assert_eq!(
            (l.holder(), e.to_string()),
            (Some(NodeId(0)), "lock 4: rank 1 released without holding".into())
        );
    }
}
