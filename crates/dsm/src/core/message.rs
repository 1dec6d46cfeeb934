//! The messages ranks exchange, and the identifiers in them.
//!
//! Delivery rule the protocol relies on: messages from one rank to another arrive in order and
//! exactly once. Nothing is assumed between different pairs.

use littoral_base::units::NodeId;

use super::diff::Diff;

/// A page of shared memory, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// Pages that follow each other: at least one, and none beyond page 2^32 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRun {
    first: PageId,
    count: u32,
}

impl PageRun {
    /// `count` pages from `first` on; `None` for no pages, or pages that do not exist.
    pub fn new(first: PageId, count: u32) -> Option<PageRun> {
        let run = PageRun { first, count };
        (count > 0 && run.end() <= 1 << 32).then_some(run)
    }

    /// The first page.
    pub fn first(self) -> PageId {
        self.first
    }

    /// How many pages.
    pub fn count(self) -> u32 {
        self.count
    }

    /// The number after that of the last page; it may be 2^32.
    pub fn end(self) -> u64 {
        u64::from(self.first.0) + u64::from(self.count)
    }

    /// Whether `page` is one of them.
    pub fn contains(self, page: PageId) -> bool {
        self.first <= page && u64::from(page.0) < self.end()
    }

    /// The pages, ascending.
    pub fn pages(self) -> impl Iterator<Item = PageId> {
        (self.first.0..=self.first.0 + (self.count - 1)).map(PageId)
    }
}

impl From<PageId> for PageRun {
    fn from(first: PageId) -> PageRun {
        PageRun { first, count: 1 }
    }
}

/// A lock, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(pub u32);

/// "This rank wrote these pages": what an acquirer must invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Notice {
    /// The pages.
    pub pages: PageRun,
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

/// What a rank says as it reaches a barrier, as it spreads where there is no manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// Who has arrived.
    pub rank: NodeId,
    /// How often it has allocated, and one number for all of it.
    pub made: (u32, u64),
    /// Pages written since the last barrier.
    pub pages: Vec<PageRun>,
    /// Pages that it will probably use, of which the barrier may make its copies invalid.
    pub wanted: Vec<PageId>,
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
        pages: Vec<PageRun>,
    },
    /// I have reached the barrier; these pages I have written since the last one.
    Arrive {
        /// Which barrier, counted from zero.
        generation: u64,
        /// Pages written since the last barrier.
        pages: Vec<PageRun>,
    },
    /// Everyone has; this is the union.
    Depart {
        /// Which barrier, counted from zero.
        generation: u64,
        /// Everything written since the last barrier: by writer, then ascending; runs of one writer
        /// have gaps between them.
        notices: Vec<Notice>,
    },
    /// Where no manager lets ranks go: what I have gathered for a barrier.
    Gather {
        /// Which barrier, counted from zero.
        generation: u64,
        /// Which round of it, counted from zero.
        round: u8,
        /// The arrivals of as many ranks up to me, by rank.
        arrivals: Vec<Arrival>,
    },
}
