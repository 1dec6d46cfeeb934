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
//! Where ranks share memory in place of messages the log lies there, and the rank that holds the
//! lock reads and writes it ([`Log::news_in`], [`Log::record_in`]). One run is recorded in place
//! where the log has few entries and the run is one of them, or meets none of its writer's.
//!
//! An entry is a run of pages. A newer run of a rank takes its pages out of that rank's older ones,
//! so that the log says of each page what a log of single pages says.
//!
//! Invariants
//! - Requests are granted in order of arrival; at most one rank holds a lock. Checked by
//!   `first_come_first_served_with_only_what_is_new`.
//! - A rank's newest entry of a page is the one there is (mutant `dsm_newer_run_drops_older`).
//!   Checked by `a_log_of_runs_tells_what_a_log_of_pages_tells`.
//! - What is recorded in place is what a log that is taken out and put back has (mutants
//!   `dsm_log_entry_stays_in_place`, `dsm_log_meets_itself`). Checked by
//!   `a_log_in_shared_memory_tells_what_a_managers_log_tells`.
//! - Only the holder can release; a release by another is a protocol error, not a state change.
//!   Checked by `strangers_cannot_release_and_no_rank_queues_twice`.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::message::{LockId, Message, Notice, Notices, PageRun};
use super::pages::{meets, united, without};
use super::shared::{Words, run_of, word_of};
use crate::error::{Error, Kind, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    version: u64,
    generation: u64,
    notice: Notice,
}

/// What was written under one lock, newest last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Log {
    entries: VecDeque<Entry>,
    version: u64,
    /// Versions up to this one have been dropped for lack of room.
    forgotten: u64,
    capacity: usize,
}

/// Words of a log in memory that ranks share: {version, forgotten, entries, 0}, then {version,
/// generation, run, writer} an entry.
pub const LOG_WORDS: usize = 1 << 12;
/// The first words of it, with the entries that most logs have; the others are touched by longer
/// logs alone.
pub const LOG_NEAR_WORDS: usize = LOG_HEAD + NEAR_ENTRIES * ENTRY_WORDS;
const NEAR_ENTRIES: usize = 7;
/// Most runs of such a log.
pub const LOG_RUNS_MAX: usize = (LOG_WORDS - LOG_HEAD) / ENTRY_WORDS;
const LOG_HEAD: usize = 4;
const ENTRY_WORDS: usize = 4;

/// The state of one lock at its manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ManagedLock {
    lock: LockId,
    holder: Option<NodeId>,
    queue: VecDeque<(NodeId, u64)>,
    log: Log,
}

impl ManagedLock {
    /// A free lock whose log holds at most `capacity` runs.
    pub fn new(lock: LockId, capacity: usize) -> Self {
        ManagedLock { lock, holder: None, queue: VecDeque::new(), log: Log::new(capacity) }
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
        pages: &[PageRun],
    ) -> Result<Option<(NodeId, Message)>> {
        if self.holder != Some(rank) {
            return Err(self.violation(rank, "released without holding"));
        }
        self.holder = None;
        self.log.record(rank, generation, pages);
        Ok(self.grant_next())
    }

    /// Forgets what barriers before `generation` have published.
    pub fn forget_before(&mut self, generation: u64) {
        self.log.forget_before(generation);
    }

    fn violation(&self, rank: NodeId, what: &str) -> Error {
        let what = format!("lock {}: rank {rank} {what}", self.lock.0);
        Error::new(Kind::Protocol, what).at_peer(rank).at_lock(self.lock.0)
    }

    fn grant_next(&mut self) -> Option<(NodeId, Message)> {
        if self.holder.is_some() {
            return None;
        }
        let (rank, seen) = self.queue.pop_front()?;
        self.holder = Some(rank);
        debug_assert!(self.queue.iter().all(|(r, _)| *r != rank), "rank {rank} waits and holds");
        let notices = self.log.news_for(rank, seen);
        Some((rank, Message::Grant { lock: self.lock, notices, version: self.log.version }))
    }
}

impl Log {
    /// A log of at most `capacity` runs.
    pub fn new(capacity: usize) -> Self {
        Log { entries: VecDeque::new(), version: 0, forgotten: 0, capacity }
    }

    /// How often something was recorded.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Forgets what barriers before `generation` have published.
    pub fn forget_before(&mut self, generation: u64) {
        self.entries.retain(|e| e.generation >= generation);
    }

    /// What `writer` has written in a section that ends in barrier generation `generation`.
    pub fn record(&mut self, writer: NodeId, generation: u64, pages: &[PageRun]) {
        let fresh = united(pages.to_vec());
        if fresh.is_empty() {
            return;
        }
        self.version += 1;
        let is_named = |e: &Entry| e.notice.writer == writer && meets(e.notice.pages, &fresh);
        if self.entries.iter().any(is_named) {
            let old = std::mem::take(&mut self.entries);
            for e in old {
                let parts = match is_named(&e) {
                    true if mutant!("dsm_newer_run_drops_older") => Vec::new(),
                    true => without(e.notice.pages, &fresh),
                    false => vec![e.notice.pages],
                };
                let part = |pages| Entry { notice: Notice { pages, ..e.notice }, ..e };
                self.entries.extend(parts.into_iter().map(part));
            }
        }
        let version = self.version;
        let entry = |pages| Entry { version, generation, notice: Notice { pages, writer } };
        self.entries.extend(fresh.into_iter().map(entry));
        while self.entries.len() > self.capacity {
            let dropped = self.entries.pop_front().expect("invariant: a full log has a front");
            self.forgotten = self.forgotten.max(dropped.version);
        }
        debug_assert!(self.entries.iter().is_sorted_by_key(|e| e.version), "old entries go first");
        debug_assert!(self.forgotten <= self.version, "only what was recorded is forgotten");
    }

    /// What a rank that has seen version `seen` is told.
    pub fn news_for(&self, rank: NodeId, seen: u64) -> Notices {
        if seen < self.forgotten && !mutant!("dsm_overflow_forgotten") {
            return Notices::Everything;
        }
        let fresh = self.entries.iter().filter(|e| e.version > seen && e.notice.writer != rank);
        Notices::These(fresh.map(|e| e.notice).collect())
    }

    /// The version of a log in shared memory.
    pub fn version_in(words: &impl Words) -> u64 {
        words.load(0, Ordering::Relaxed)
    }

    /// As `news_for` of a log in shared memory, whose lock the caller holds in barrier generation
    /// `generation`: in place of what is in `news`; `false` for everything.
    #[must_use]
    pub fn news_in(
        words: &impl Words,
        rank: NodeId,
        seen: u64,
        generation: u64,
        news: &mut Vec<Notice>,
    ) -> bool {
        news.clear();
        if seen < words.load(1, Ordering::Relaxed) && !mutant!("dsm_overflow_forgotten") {
            return false;
        }
        let entries = (0..entries_in(words)).filter_map(|n| entry_in(words, n));
        let is_fresh = |e: &Entry| e.version > seen && e.generation >= generation;
        let fresh = entries.filter(|e| is_fresh(e) && e.notice.writer != rank);
        news.extend(fresh.map(|e| e.notice));
        true
    }

    /// As `record` of a log in shared memory, whose lock the caller holds, of at most `capacity`
    /// runs; forgets what earlier barriers have published.
    pub fn record_in(
        words: &impl Words,
        capacity: usize,
        writer: NodeId,
        generation: u64,
        pages: &[PageRun],
    ) {
        if let [run] = pages
            && let Some(at) = place_for(words, capacity, Notice { pages: *run, writer })
        {
            let version = Log::version_in(words) + 1;
            let notice = Notice { pages: *run, writer };
            put_entry(words, at, &Entry { version, generation, notice });
            words.store(0, version, Ordering::Relaxed);
            words.store(2, at as u64 + 1, Ordering::Relaxed);
            return;
        }
        let mut log = Log::load(words, capacity);
        log.forget_before(generation);
        log.record(writer, generation, pages);
        log.store(words);
    }

    /// A log in shared memory, whose lock the caller holds; at most `capacity` runs of it, no more
    /// than [`LOG_RUNS_MAX`].
    fn load(words: &impl Words, capacity: usize) -> Self {
        let word = |at| words.load(at, Ordering::Relaxed);
        let entries = (0..entries_in(words)).filter_map(|n| entry_in(words, n)).collect();
        Log { entries, version: word(0), forgotten: word(1), capacity }
    }

    /// Puts a log into shared memory, whose lock the caller holds.
    ///
    /// # Panics
    /// When it has more than [`LOG_RUNS_MAX`] runs.
    fn store(&self, words: &impl Words) {
        assert!(self.entries.len() <= LOG_RUNS_MAX, "a log of {} runs", self.entries.len());
        let put = |at, value| words.store(at, value, Ordering::Relaxed);
        let all = self.entries.iter().enumerate();
        all.for_each(|(n, entry)| put_entry(words, n, entry));
        put(0, self.version);
        put(1, self.forgotten);
        put(2, self.entries.len() as u64);
    }
}

fn entries_in(words: &impl Words) -> usize {
    let count = usize::try_from(words.load(2, Ordering::Relaxed));
    count.map_or(0, |count| count.min(LOG_RUNS_MAX))
}

/// An entry of a log in shared memory; `None` for what no rank writes.
fn entry_in(words: &impl Words, n: usize) -> Option<Entry> {
    let word = |at| words.load(LOG_HEAD + n * ENTRY_WORDS + at, Ordering::Relaxed);
    let notice = Notice { pages: run_of(word(2))?, writer: NodeId(word(3) as u16) };
    Some(Entry { version: word(0), generation: word(1), notice })
}

fn put_entry(words: &impl Words, n: usize, entry: &Entry) {
    let put = |at, value| words.store(LOG_HEAD + n * ENTRY_WORDS + at, value, Ordering::Relaxed);
    put(0, entry.version);
    put(1, entry.generation);
    put(2, word_of(entry.notice.pages));
    put(3, u64::from(entry.notice.writer.0));
}

/// Where one run is recorded in place, behind all other entries: a run that is an entry already has
/// left its place. `None` where the log must be taken out.
fn place_for(words: &impl Words, capacity: usize, notice: Notice) -> Option<usize> {
    let count = entries_in(words);
    if count > NEAR_ENTRIES.min(capacity) {
        return None;
    }
    let mut own = None;
    for n in 0..count {
        let other = entry_in(words, n)?.notice;
        if other == notice {
            own = Some(n);
        } else if other.writer == notice.writer && meets(other.pages, &[notice.pages]) {
            mutant!("dsm_log_meets_itself").then_some(())?;
        }
    }
    let Some(own) = own else {
        return (count < NEAR_ENTRIES.min(capacity)).then_some(count);
    };
    if mutant!("dsm_log_entry_stays_in_place") {
        return Some(count - 1);
    }
    for n in own + 1..count {
        put_entry(words, n - 1, &entry_in(words, n)?);
    }
    Some(count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::message::PageId;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};

    fn grant(to: u16, pages: &[(u32, u16)], version: u64) -> Option<(NodeId, Message)> {
        let notice = |&(p, w): &(u32, u16)| Notice { pages: PageId(p).into(), writer: NodeId(w) };
        let notices = Notices::These(pages.iter().map(notice).collect());
        Some((NodeId(to), Message::Grant { lock: LockId(0), notices, version }))
    }

    /// Any runs, or one of few.
    fn written() -> impl Strategy<Value = Vec<(u32, u32)>> {
        prop_oneof![vec((0u32..40, 1u32..12), 0..4), vec((0u32..6, 1u32..3), 1)]
    }

    #[test]
    fn first_come_first_served_with_only_what_is_new() {
        let mut l = ManagedLock::new(LockId(0), 8);
        assert_eq!(l.acquire(NodeId(0), 0).unwrap(), grant(0, &[], 0));
        assert_eq!(l.acquire(NodeId(2), 0).unwrap(), None);
        assert_eq!(l.acquire(NodeId(1), 0).unwrap(), None);
        assert_eq!(l.release(NodeId(0), 0, &[PageId(7).into()]).unwrap(), grant(2, &[(7, 0)], 1));
        assert_eq!(
            l.release(NodeId(2), 0, &[PageId(9).into()]).unwrap(),
            grant(1, &[(7, 0), (9, 2)], 2)
        );
        assert_eq!(l.release(NodeId(1), 0, &[]).unwrap(), None);
        assert_eq!(l.acquire(NodeId(2), 1).unwrap(), grant(2, &[], 2), "own writes are no news");
    }

    #[test]
    fn a_full_log_says_everything_and_only_to_those_who_missed_it() {
        let mut l = ManagedLock::new(LockId(0), 2);
        for page in 0..3 {
            let _ = l.acquire(NodeId(0), 0).unwrap();
            let _ = l.release(NodeId(0), 0, &[PageId(2 * page).into()]).unwrap();
        }
        let (_, late) = l.acquire(NodeId(1), 0).unwrap().unwrap();
        assert!(matches!(late, Message::Grant { notices: Notices::Everything, version: 3, .. }));
        let _ = l.release(NodeId(1), 0, &[]).unwrap();
        assert_eq!(l.acquire(NodeId(2), 1).unwrap(), grant(2, &[(2, 0), (4, 0)], 3));
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

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        /// Ranks write runs in turn; the oracle has the newest version of each page and writer.
        #[test]
        fn a_log_of_runs_tells_what_a_log_of_pages_tells(
            sections in vec((0u16..3, vec((0u32..40, 1u32..12), 0..4), 0u64..9), 1..24),
        ) {
            let mut lock = ManagedLock::new(LockId(0), usize::MAX);
            let (mut newest, mut version) = (BTreeMap::new(), 0);
            for (rank, written, behind) in sections {
                let seen = version.max(behind) - behind;
                let rank = NodeId(rank);
                let Some((_, Message::Grant { notices: Notices::These(told), .. })) =
                    lock.acquire(rank, seen).unwrap() else { panic!("no grant") };
                let pages = |n: Notice| n.pages.pages().map(move |page| (page, n.writer));
                let found: Vec<_> = told.into_iter().flat_map(pages).collect();
                let set: BTreeSet<_> = found.iter().copied().collect();
                prop_assert_eq!(found.len(), set.len(), "a page is told once for each writer");
                let news = |(key, at): (&(PageId, NodeId), &u64)| {
                    (*at > seen && key.1 != rank).then_some(*key)
                };
                prop_assert_eq!(set, newest.iter().filter_map(news).collect::<BTreeSet<_>>());
                let run = |(first, count)| PageRun::new(PageId(first), count).unwrap();
                let written: Vec<_> = written.into_iter().map(run).collect();
                version += u64::from(!written.is_empty());
                let each = written.iter().flat_map(|run| run.pages());
                each.for_each(|page| _ = newest.insert((page, rank), version));
                lock.release(rank, 0, &written).unwrap();
            }
        }

        /// A log that each holder takes out of shared memory and puts back is the manager's.
        #[test]
        fn a_log_in_shared_memory_tells_what_a_managers_log_tells(
            sections in vec((0u16..3, written(), 0u64..9, 0u64..3), 1..24),
            capacity in 1usize..12,
        ) {
            let words = RefCell::new(vec![0; LOG_WORDS]);
            let mut kept = Log::new(capacity);
            let (mut generation, mut news) = (0, Vec::new());
            for (rank, written, behind, barriers) in sections {
                generation += barriers / 2;
                prop_assert_eq!(Log::version_in(&&words), kept.version());
                kept.forget_before(generation);
                let seen = kept.version().max(behind) - behind;
                for rank in (0..3).map(NodeId) {
                    let told = Log::news_in(&&words, rank, seen, generation, &mut news)
                        .then(|| Notices::These(news.clone()));
                    prop_assert_eq!(told.unwrap_or(Notices::Everything), kept.news_for(rank, seen));
                }
                let rank = NodeId(rank);
                let run = |(first, count)| PageRun::new(PageId(first), count).unwrap();
                let written: Vec<_> = written.into_iter().map(run).collect();
                kept.record(rank, generation, &written);
                Log::record_in(&&words, capacity, rank, generation, &written);
                let mut taken = Log::load(&&words, capacity);
                taken.forget_before(generation);
                prop_assert_eq!(&taken, &kept);
            }
        }
    }
}
