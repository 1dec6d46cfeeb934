//! Where everything lies in the memory that ranks of one machine keep their pages in, and what they
//! tell each other there.
//!
//! | part | a | holds |
//! |---|---|---|
//! | frames | rank | its home pages and copies, each at its own offset |
//! | guards | rank | {latch, guards shown, guards not shown} in a line, then {start, end} a guard |
//! | lists | rank | twice {runs or [`EVERYTHING`], allocations, one number}, then the runs noticed |
//! | rings | ordered pair | pages that one rank has copied out of the other's frames |
//! | logs | lock | {version, forgotten, entries, 0}, then the entries, in two parts |
//!
//! Address space for all of it costs nothing; what is touched costs memory.
//!
//! Invariants
//! - A rank that applies differences holds the latch of their home, and finds no guard on their
//!   bytes, or applies none. Checked by `a_data_race_with_a_guard_is_reported`.
//! - A home has more guards than its table shows only while its program computes, so that who waits
//!   for their end waits for no rank that waits. Checked by
//!   `more_guards_than_are_shown_hold_differences_back`.
//! - List `g % 2` of a rank is rewritten before barrier `g + 2`, when every rank has read it: they
//!   did so before they came to barrier `g + 1`. Checked by
//!   `a_line_is_not_rewritten_while_it_is_read`.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use littoral_base::mutant;
use littoral_base::units::NodeId;

use crate::core::diff::Diff;
use crate::core::lock::{LOG_NEAR_WORDS, LOG_WORDS, Log};
use crate::core::message::{LockId, Notice, PageId, PageRun};
use crate::core::shared::{Handed, Latch, RING_WORDS, Words, run_of, word_of};
use crate::memory::{Memory, page_bytes};

const WORD: usize = 8;
const LINE_BYTES: usize = 64;
/// Guards of a rank that others see.
const GUARDS_SHOWN: usize = 1 << 11;
/// Runs of a list; a rank that has noticed more says [`EVERYTHING`].
const LIST_RUNS: usize = 1 << 16;
const EVERYTHING: u64 = u64::MAX;

const GUARDS_BYTES: usize = LINE_BYTES + GUARDS_SHOWN * 2 * WORD;
const LIST_BYTES: usize = LINE_BYTES + LIST_RUNS * WORD;
const RING_BYTES: usize = (RING_WORDS * WORD).next_multiple_of(LINE_BYTES);
const NEAR_BYTES: usize = LOG_NEAR_WORDS * WORD;
const FAR_BYTES: usize = (LOG_WORDS - LOG_NEAR_WORDS) * WORD;

/// Where a rank's frames begin, and how many bytes of memory a job of `ranks` ranks needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    ranks: usize,
    frames_bytes: usize,
    locks: usize,
}

/// Bytes of memory in which `ranks` ranks of one machine, which share at most `bytes_max` bytes and
/// have `locks` locks, keep their pages.
pub fn pages_bytes(ranks: u16, bytes_max: usize, locks: u32) -> usize {
    Layout::new(ranks, bytes_max, locks).bytes()
}

impl Layout {
    pub(super) fn new(ranks: u16, bytes_max: usize, locks: u32) -> Layout {
        let frames_bytes = bytes_max.max(1).next_multiple_of(page_bytes());
        Layout { ranks: usize::from(ranks), frames_bytes, locks: locks as usize }
    }

    fn bytes(&self) -> usize {
        self.far_logs() + self.locks * FAR_BYTES
    }

    pub(super) fn frames(&self, rank: NodeId) -> usize {
        debug_assert!(rank.index() < self.ranks, "frames of rank {rank} of {}", self.ranks);
        rank.index() * self.frames_bytes
    }

    fn guards(&self, rank: usize) -> usize {
        self.ranks * self.frames_bytes + rank * GUARDS_BYTES
    }

    fn list(&self, rank: usize, parity: usize) -> usize {
        debug_assert!(parity < 2, "a rank has two lists");
        self.guards(self.ranks) + (2 * rank + parity) * LIST_BYTES
    }

    fn ring(&self, from: usize, home: usize) -> usize {
        self.list(self.ranks, 0) + (home * self.ranks + from) * RING_BYTES
    }

    fn near_logs(&self) -> usize {
        self.ring(0, self.ranks).next_multiple_of(NEAR_BYTES)
    }

    fn far_logs(&self) -> usize {
        self.near_logs() + self.locks * NEAR_BYTES
    }

    /// Where the first words of a lock's log lie, and the others.
    fn log(&self, lock: LockId) -> (usize, usize) {
        debug_assert!((lock.0 as usize) < self.locks, "lock {} of {}", lock.0, self.locks);
        let n = lock.0 as usize;
        (self.near_logs() + n * NEAR_BYTES, self.far_logs() + n * FAR_BYTES)
    }
}

/// Words from a byte of the memory on.
#[derive(Clone, Copy)]
struct Part<'m> {
    memory: &'m Memory,
    at: usize,
}

impl Words for Part<'_> {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.memory.word(self.at + at * WORD).load(order)
    }
    fn store(&self, at: usize, value: u64, order: Ordering) {
        self.memory.word(self.at + at * WORD).store(value, order);
    }
    fn change(&self, at: usize, current: u64, new: u64, order: Ordering) -> bool {
        let word = self.memory.word(self.at + at * WORD);
        word.compare_exchange(current, new, order, Ordering::Relaxed).is_ok()
    }
}

/// The words of a log: the first ones beside those of other locks, so that a lock without a long
/// log takes little memory.
struct LogPart<'m> {
    near: Part<'m>,
    far: Part<'m>,
}

impl LogPart<'_> {
    fn of(&self, at: usize) -> (&Part<'_>, usize) {
        if at < LOG_NEAR_WORDS { (&self.near, at) } else { (&self.far, at - LOG_NEAR_WORDS) }
    }
}

impl Words for LogPart<'_> {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        let (part, at) = self.of(at);
        part.load(at, order)
    }
    fn store(&self, at: usize, value: u64, order: Ordering) {
        let (part, at) = self.of(at);
        part.store(at, value, order);
    }
    fn change(&self, at: usize, current: u64, new: u64, order: Ordering) -> bool {
        let (part, at) = self.of(at);
        part.change(at, current, new, order)
    }
}

/// Why differences were not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Bytes `start..end` of them are under a guard of their home's program.
    Race(usize, usize),
    /// Guards of the home are not all shown, or another rank has the latch: later.
    Later,
}

/// Pages of other ranks that count as memory of this one, before they are let go.
const REACHED_MAX: usize = 256;

/// The memory, as one rank reaches it.
pub(super) struct SharedPages {
    memory: Memory,
    layout: Layout,
    me: usize,
    /// Pages of other ranks reached since they were let go.
    reached: AtomicUsize,
}

impl SharedPages {
    /// # Errors
    /// When the file is too short or cannot be mapped.
    pub(super) fn open(file: &File, layout: Layout, me: NodeId) -> io::Result<SharedPages> {
        let memory = Memory::direct(file, layout.bytes(), None)?;
        Ok(SharedPages { memory, layout, me: me.index(), reached: AtomicUsize::new(0) })
    }

    /// This rank.
    pub(super) fn me(&self) -> u16 {
        self.me as u16
    }

    fn part(&self, at: usize) -> Part<'_> {
        Part { memory: &self.memory, at }
    }

    fn place(&self, home: NodeId, page: PageId) -> usize {
        self.layout.frames(home) + page.0 as usize * page_bytes()
    }

    /// Lets go of other ranks' frames once many have been reached: they count as memory of this
    /// process for as long as it maps them. The next access maps them again.
    pub(super) fn let_go(&self) -> io::Result<()> {
        if self.reached.load(Ordering::Relaxed) < REACHED_MAX {
            return Ok(());
        }
        self.reached.store(0, Ordering::Relaxed);
        self.memory.unmap_pages(0, self.layout.guards(0))
    }

    /// Copies pages as they are at their home, which learns that this rank has them; `each` is
    /// given one after the other, in `bytes`.
    ///
    /// # Errors
    /// What `each` fails with.
    pub(super) fn copy<E>(
        &self,
        home: NodeId,
        run: PageRun,
        bytes: &mut Vec<u8>,
        mut each: impl FnMut(PageId, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let ring = Handed::over(self.part(self.layout.ring(self.me, home.index())));
        self.reached.fetch_add(run.count() as usize, Ordering::Relaxed);
        bytes.resize(page_bytes(), 0);
        ring.copy(run, || {
            run.pages().try_for_each(|page| {
                self.memory.load(self.place(home, page), bytes);
                each(page, bytes)
            })
        })
    }

    /// Pages at home here that rank `from` has copied since this was asked last; `false` where it
    /// may be any.
    #[must_use]
    pub(super) fn drain(&self, from: u16, found: impl FnMut(PageRun)) -> bool {
        let ring = self.layout.ring(usize::from(from), self.me);
        Handed::over(self.part(ring)).drain(found)
    }

    /// Does something under a rank's latch, with that rank's table of guards; `None` where another
    /// one has it.
    fn under_latch<T>(&self, rank: usize, act: impl FnOnce(&Part<'_>) -> T) -> Option<T> {
        let table = self.part(self.layout.guards(rank));
        let latch = Latch::over(table);
        if !latch.take() {
            return None;
        }
        let done = act(&table);
        latch.leave();
        Some(done)
    }

    /// Shows a guard on bytes `start..end`; whether it could be done now.
    pub(super) fn show(&self, start: usize, end: usize) -> bool {
        let shown = self.under_latch(self.me, |table| {
            let (shown, hidden) = counts(table);
            if shown < GUARDS_SHOWN {
                set_guard(table, shown, (start as u64, end as u64));
                set_counts(table, shown + 1, hidden);
            } else {
                set_counts(table, shown, hidden + 1);
            }
        });
        shown.is_some()
    }

    /// Ends a guard; whether it could be done now.
    pub(super) fn unshow(&self, start: usize, end: usize) -> bool {
        let ended = self.under_latch(self.me, |table| {
            let (shown, hidden) = counts(table);
            let is_it = |n: &usize| guard(table, *n) == (start as u64, end as u64);
            // The newest mostly ends first.
            match (0..shown).rev().find(is_it) {
                Some(n) => {
                    set_guard(table, n, guard(table, shown - 1));
                    set_counts(table, shown - 1, hidden);
                }
                None => {
                    debug_assert!(hidden > 0, "a guard on {start}..{end} was not shown");
                    set_counts(table, shown, hidden.saturating_sub(1));
                }
            }
        });
        ended.is_some()
    }

    /// Writes differences into their home's frames, all of them or none.
    pub(super) fn merge(&self, home: NodeId, diffs: &[(PageId, Diff)]) -> Result<(), Refused> {
        let merged = self.under_latch(home.index(), |table| {
            if let Some(refused) = refused(table, diffs) {
                return Err(refused);
            }
            self.reached.fetch_add(diffs.len(), Ordering::Relaxed);
            for (page, diff) in diffs {
                let start = self.place(home, *page);
                diff.runs().for_each(|(at, bytes)| self.memory.store(start + at, bytes));
            }
            Ok(())
        });
        merged.unwrap_or(Err(Refused::Later))
    }

    fn log_part(&self, lock: LockId) -> LogPart<'_> {
        let (near, far) = self.layout.log(lock);
        LogPart { near: self.part(near), far: self.part(far) }
    }

    /// What the log's version is, of a lock that this rank holds.
    pub(super) fn version(&self, lock: LockId) -> u64 {
        Log::version_in(&self.log_part(lock))
    }

    /// What this rank, which has seen version `seen` of the lock's log, has not heard, in place of
    /// what is in `news`; `false` for everything.
    pub(super) fn news(
        &self,
        lock: LockId,
        seen: u64,
        generation: u64,
        news: &mut Vec<Notice>,
    ) -> bool {
        Log::news_in(&self.log_part(lock), NodeId(self.me()), seen, generation, news)
    }

    /// Records what this rank has written under a lock that it holds.
    pub(super) fn record(&self, lock: LockId, runs_max: usize, generation: u64, runs: &[PageRun]) {
        let me = NodeId(self.me());
        Log::record_in(&self.log_part(lock), runs_max, me, generation, runs);
    }

    /// Tells what this rank has noticed and allocated, before a barrier of this parity.
    pub(super) fn tell(&self, parity: usize, runs: &[PageRun], (count, sum): (u32, u64)) {
        let list = self.part(self.layout.list(self.me, parity));
        // What stays as it is stays in the other ranks' caches.
        let put = |at, value| {
            if list.load(at, Ordering::Relaxed) != value {
                list.store(at, value, Ordering::Relaxed);
            }
        };
        put(1, u64::from(count));
        put(2, sum);
        if runs.len() > LIST_RUNS {
            return put(0, EVERYTHING);
        }
        let words = runs.iter().map(|run| word_of(*run)).enumerate();
        words.for_each(|(n, word)| put(LINE_BYTES / WORD + n, word));
        put(0, runs.len() as u64);
    }

    /// What a rank has allocated before a barrier of this parity, which is over.
    pub(super) fn made(&self, rank: u16, parity: usize) -> (u32, u64) {
        let list = self.part(self.layout.list(usize::from(rank), parity));
        (list.load(1, Ordering::Relaxed) as u32, list.load(2, Ordering::Relaxed))
    }

    /// Adds what it has noticed before that barrier; `false` for everything.
    pub(super) fn told(&self, rank: u16, parity: usize, notices: &mut Vec<Notice>) -> bool {
        let list = self.part(self.layout.list(usize::from(rank), parity));
        let count = usize::try_from(list.load(0, Ordering::Relaxed));
        let Some(count) = count.ok().filter(|count| *count <= LIST_RUNS) else { return false };
        let run = |n| run_of(list.load(LINE_BYTES / WORD + n, Ordering::Relaxed));
        let before = notices.len();
        let writer = NodeId(rank);
        notices.extend((0..count).map_while(run).map(|pages| Notice { pages, writer }));
        let is_whole = notices.len() - before == count;
        if !is_whole {
            notices.truncate(before);
        }
        is_whole
    }
}

/// Why differences cannot be written, if so, by the guards that their home shows.
fn refused(table: &Part<'_>, diffs: &[(PageId, Diff)]) -> Option<Refused> {
    let (shown, hidden) = counts(table);
    if hidden > 0 {
        return Some(Refused::Later);
    }
    if shown == 0 || mutant!("dsm_race_with_a_guard_unseen") {
        return None;
    }
    let meets = |(low, high): &(usize, usize)| {
        let one = |n| guard(table, n);
        (0..shown).map(one).any(|(start, end)| start < *high as u64 && (*low as u64) < end)
    };
    let runs = diffs.iter().flat_map(|(page, diff)| {
        let start = page.0 as usize * page_bytes();
        diff.runs().map(move |(at, bytes)| (start + at, start + at + bytes.len()))
    });
    let found = { runs }.find(meets);
    found.map(|(low, high)| Refused::Race(low, high))
}

/// Guards shown, and others.
fn counts(table: &Part<'_>) -> (usize, usize) {
    let word = |at| table.load(at, Ordering::Relaxed) as usize;
    (word(1).min(GUARDS_SHOWN), word(2))
}

fn set_counts(table: &Part<'_>, shown: usize, hidden: usize) {
    table.store(1, shown as u64, Ordering::Relaxed);
    table.store(2, hidden as u64, Ordering::Relaxed);
}

fn guard(table: &Part<'_>, n: usize) -> (u64, u64) {
    let at = LINE_BYTES / WORD + 2 * n;
    (table.load(at, Ordering::Relaxed), table.load(at + 1, Ordering::Relaxed))
}

fn set_guard(table: &Part<'_>, n: usize, (start, end): (u64, u64)) {
    let at = LINE_BYTES / WORD + 2 * n;
    table.store(at, start, Ordering::Relaxed);
    table.store(at + 1, end, Ordering::Relaxed);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    /// Two ranks with two pages and four locks, in one memory.
    fn two() -> [SharedPages; 2] {
        let layout = Layout::new(2, 2 * page_bytes(), 4);
        let file = File::from(memfd_create("pages", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(layout.bytes() as u64).unwrap();
        [0, 1].map(|me| SharedPages::open(&file, layout, NodeId(me)).unwrap())
    }

    fn diff(at: usize) -> Vec<(PageId, Diff)> {
        let (old, mut new) = (vec![0; page_bytes()], vec![0; page_bytes()]);
        new[at] = 7;
        vec![(PageId(1), Diff::between(&old, &new))]
    }

    #[test]
    fn what_no_list_holds_is_everything() {
        let [one, other] = two();
        let run = |n| PageRun::new(PageId(2 * n as u32), 1).unwrap();
        let most: Vec<PageRun> = (0..LIST_RUNS).map(run).collect();
        let told = |rank, parity| {
            let mut notices = Vec::new();
            let is_whole = other.told(rank, parity, &mut notices);
            assert!(notices.iter().all(|n| n.writer == NodeId(rank)));
            is_whole.then(|| notices.into_iter().map(|n| n.pages).collect::<Vec<_>>())
        };
        one.tell(0, &most, (3, 4));
        one.tell(1, &most[..2], (5, 6));
        assert_eq!((told(0, 0), other.made(0, 0)), (Some(most.clone()), (3, 4)));
        assert_eq!((told(0, 1), other.made(0, 1)), (Some(most[..2].to_vec()), (5, 6)));
        one.tell(0, &[&most[..], &most[..1]].concat(), (7, 8));
        assert_eq!((told(0, 0), other.made(0, 0)), (None, (7, 8)));
        assert_eq!(told(1, 0), Some(Vec::new()), "it has told nothing");
    }

    #[test]
    fn differences_reach_their_home_unless_a_guard_is_on_their_bytes() {
        let [home, other] = two();
        let at = page_bytes() + 40;
        assert!(home.show(at - 8, at + 1) && home.show(at, at + 1) && home.show(at + 1, at + 9));
        assert_eq!(other.merge(NodeId(0), &diff(40)), Err(Refused::Race(at, at + 1)));
        assert!(home.unshow(at - 8, at + 1));
        assert_eq!(other.merge(NodeId(0), &diff(40)), Err(Refused::Race(at, at + 1)));
        assert!(home.unshow(at, at + 1));
        assert_eq!(other.merge(NodeId(0), &diff(40)), Ok(()));
        let mut seen = Vec::new();
        let keep = |page: PageId, bytes: &[u8]| {
            seen.push((page.0, bytes[39..42].to_vec()));
            Ok::<_, ()>(())
        };
        other.copy(NodeId(0), PageId(1).into(), &mut Vec::new(), keep).unwrap();
        assert_eq!(seen, [(1, vec![0, 7, 0])]);
        assert_eq!(other.merge(NodeId(0), &diff(41)), Err(Refused::Race(at + 1, at + 2)));
        let mut copied = Vec::new();
        assert!(home.drain(1, |run| copied.push(run)) && home.drain(0, |_| panic!("none")));
        assert_eq!(copied, [PageId(1).into()]);
    }

    #[test]
    fn while_guards_are_hidden_nothing_is_merged() {
        let [home, other] = two();
        (0..GUARDS_SHOWN).for_each(|n| assert!(home.show(n, n + 1)));
        assert_eq!(other.merge(NodeId(0), &diff(40)), Ok(()));
        assert!(home.show(5000, 5001));
        assert_eq!(other.merge(NodeId(0), &diff(40)), Err(Refused::Later));
        assert!(home.unshow(5000, 5001));
        assert_eq!(other.merge(NodeId(0), &diff(40)), Ok(()));
        (0..GUARDS_SHOWN).for_each(|n| assert!(home.unshow(n, n + 1)));
        assert_eq!(counts(&home.part(home.layout.guards(0))), (0, 0));
    }

    #[test]
    fn the_log_of_a_lock_is_no_other_ones() {
        let [one, other] = two();
        for lock in 0..4 {
            let record = |n| one.record(LockId(lock), 300, 0, &[PageId(2 * n).into()]);
            (0..=50 * lock).for_each(record);
        }
        let mut news = Vec::new();
        for lock in 0..4 {
            assert_eq!(other.version(LockId(lock)), 50 * u64::from(lock) + 1);
            assert!(other.news(LockId(lock), 0, 0, &mut news), "all fits");
            assert_eq!(news.len() as u64, other.version(LockId(lock)));
        }
    }
}
