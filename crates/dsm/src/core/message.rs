//! The messages ranks exchange, and the identifiers in them.
//!
//! Delivery rule the protocol relies on: messages from one rank to another arrive in order and
//! exactly once. Nothing is assumed between different pairs.

use littoral_base::units::NodeId;

use super::diff::Diff;

/// A page of shared memory, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// A lock, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(pub u32);

/// "This rank wrote this page": what an acquirer must invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Notice {
    /// The page.
    pub page: PageId,
    /// Who wrote it.
    pub writer: NodeId,
}

/// What an acquirer is told about earlier sections of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Notices {
    /// Exactly these pages were written since the acquirer last held the lock.
    These(Vec<Notice>),
    /// The log could not hold them: every cached page is suspect. Always safe.
    Everything,
}

/// A message of the protocol; the names are the paper's where it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// GETP: send me this page, whose home you are.
    GetPage {
        /// The page.
        page: PageId,
        /// The asker's barrier generation, its lower half.
        phase: u32,
    },
    /// The page, whole.
    Page {
        /// The page.
        page: PageId,
        /// Its bytes at the home.
        bytes: Vec<u8>,
    },
    /// DIFF: what I changed in pages whose home you are.
    Diffs {
        /// Page by page.
        diffs: Vec<(PageId, Diff)>,
    },
    /// As `Diffs`, in front of a request, a release or an arrival on one channel: what follows
    /// takes the place of the acknowledgement.
    DiffsAlong {
        /// Page by page.
        diffs: Vec<(PageId, Diff)>,
    },
    /// Pages that I will probably use after the grant or departure that I ask for next.
    Wanted {
        /// Those that I have no copy of.
        absent: Vec<PageId>,
        /// Those of which the answer may make my copy invalid.
        held: Vec<PageId>,
    },
    /// Send these pages, whose home you are, to these ranks, whose copies the barrier invalidates.
    Push {
        /// The pages and who wants them.
        pages: Vec<(PageId, NodeId)>,
    },
    /// DIFFGRANT: your diffs are in the home's pages.
    DiffsApplied,
    /// ACQ: queue me for this lock.
    Acquire {
        /// The lock.
        lock: LockId,
        /// The version of the lock's log that I have seen.
        seen: u64,
    },
    /// The lock is yours.
    Grant {
        /// The lock.
        lock: LockId,
        /// What was written under it since `seen`.
        notices: Notices,
        /// The log's version now.
        version: u64,
    },
    /// REL: I have left the section; these pages were written in it.
    Release {
        /// The lock.
        lock: LockId,
        /// The barrier generation the section belongs to.
        generation: u64,
        /// Pages written in the section.
        pages: Vec<PageId>,
    },
    /// I have reached the barrier; these pages I have written since the last one.
    Arrive {
        /// Which barrier, counted from zero.
        generation: u64,
        /// Pages written since the last barrier.
        pages: Vec<PageId>,
    },
    /// Everyone has; this is the union.
    Depart {
        /// Which barrier, counted from zero.
        generation: u64,
        /// Everything written since the last barrier.
        notices: Vec<Notice>,
    },
}
