//! What a thread sees of its peers: how far each has come, and whether any has committed since.
//!
//! - Each thread slot has a mark on a line of its own: twice its clock, plus one from before its
//!   transaction announces itself until after it has released its records (or given up). Only the
//!   owner stores to it, so disjoint transactions still share no written line.
//! - The registration word counts every taking and giving back of a slot and says which slots may
//!   be in use, so that a newcomer is not overlooked.
//! - A [`Watch`] is a picture of registered threads and marks, taken when nothing has been read. It
//!   teaches the clocks that peers have reached, so that their versions need no extension. While it
//!   holds and every mark in it was even, no thread has published anything since: a read set made
//!   meanwhile need not be walked.
//! - A watch may be older than the attempt that asks it; it then holds less often, never wrongly.
//!
//! Ordering: the odd mark is stored before the first announcement (a Release store or the barrier),
//! so a thread that has seen an announcement or a published version and loads the mark afterwards
//! finds it changed. Of a committer that asks its watch and another whose mark it watches, both
//! past their barrier, at least one sees the other, as with records.
//!
//! Not in paper 004, where a thread learns clocks from the data alone.

use std::sync::atomic::AtomicUsize as Plain;

use littoral_base::mutant;
use littoral_base::sync::atomic::{AtomicU64, Ordering::*};

use crate::word::{Starts, THREADS_MAX};

/// Peers that are watched; with more nothing is learnt and nothing holds.
pub(crate) const PEERS_MAX: usize = 6;
/// What no mark ever is.
const NEVER: u64 = u64::MAX;
const REGISTERED_BITS: u32 = 8;

#[derive(Debug)]
#[repr(align(128))]
struct Mark {
    mark: AtomicU64,
    /// The thread of the operating system whose update transaction used the slot last.
    runs_on: Plain,
}

/// A number of the calling thread of the operating system; zero under a model, whose threads share
/// one.
#[inline(always)]
pub(crate) fn here() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    if cfg!(any(loom, shuttle)) { 0 } else { HERE.with(|h| std::ptr::from_ref(h).addr()) }
}

/// The marks of a pool's thread slots, and the registration word.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Changes of registered threads so far << 8 | slots below this number may be in use.
    registered: AtomicU64,
    marks: Box<[Mark]>,
}

impl Marks {
    pub(crate) fn new(threads: usize) -> Marks {
        const { assert!(THREADS_MAX < 1 << REGISTERED_BITS) }
        let mark = |_| Mark { mark: AtomicU64::new(0), runs_on: Plain::new(0) };
        let marks = (0..threads).map(mark).collect();
        Marks { registered: AtomicU64::new(0), marks }
    }

    /// The mark of a slot.
    pub(crate) fn of(&self, tid: usize) -> &AtomicU64 {
        &self.marks[tid].mark
    }

    /// Notes that an update transaction of slot `tid` begins on the calling thread. Records locked
    /// afterwards (AcqRel) show this to a thread that finds them locked.
    #[inline(always)]
    pub(crate) fn begin_here(&self, tid: usize) {
        self.marks[tid].runs_on.store(here(), Relaxed);
    }

    /// Whether slot `tid`, found to hold or to have written a record, did so on the calling thread.
    pub(crate) fn is_here(&self, tid: usize) -> bool {
        let runs_on = self.marks.get(tid).map_or(0, |m| m.runs_on.load(Relaxed));
        runs_on != 0 && runs_on == here()
    }

    /// Notes that slots below `below` may be in use; callers hold the lock over slots.
    pub(crate) fn set_registered(&self, below: usize) {
        let changes = self.registered.load(Relaxed) >> REGISTERED_BITS;
        let changes = if mutant!("stm_newcomer_overlooked") { 0 } else { changes + 1 };
        self.registered.store(changes << REGISTERED_BITS | below as u64, SeqCst);
    }
}

/// The mark of a slot at `clock`, committing or not.
#[inline(always)]
pub(crate) fn mark(clock: u64, commits: bool) -> u64 {
    clock << 1 | u64::from(commits)
}

/// What a thread saw of its peers when it last had read nothing.
#[derive(Debug)]
pub(crate) struct Watch<'p> {
    marks: &'p Marks,
    me: usize,
    registered: u64,
    /// The registration word of more peers than are watched; `registered` is none then.
    crowd: u64,
    peers: [&'p AtomicU64; PEERS_MAX],
    tids: [usize; PEERS_MAX],
    seen: [u64; PEERS_MAX],
    peers_count: usize,
}

impl<'p> Watch<'p> {
    /// A watch that holds nothing yet.
    pub(crate) fn new(marks: &'p Marks, me: usize) -> Self {
        Watch {
            marks,
            me,
            registered: NEVER,
            crowd: NEVER,
            peers: [marks.of(me); PEERS_MAX],
            tids: [me; PEERS_MAX],
            seen: [NEVER; PEERS_MAX],
            peers_count: 0,
        }
    }

    /// Looks at every peer anew and learns their clocks into `starts`: nothing has been read, so
    /// any clock that a peer has reached may be known.
    #[inline(always)]
    pub(crate) fn begin(&mut self, starts: &mut Starts) {
        let registered = self.marks.registered.load(Acquire);
        if registered != self.registered {
            if registered == self.crowd {
                return;
            }
            self.list(registered);
        }
        let peers = self.peers.iter().zip(&self.tids).zip(&mut self.seen);
        for ((peer, &tid), seen) in peers.take(self.peers_count) {
            let mark = peer.load(Acquire);
            let commits = mark & 1 == 1;
            *seen = if commits { NEVER } else { mark };
            starts.learn(tid, mark >> 1);
        }
    }

    #[cold]
    #[inline(never)]
    fn list(&mut self, registered: u64) {
        let below = (registered & ((1 << REGISTERED_BITS) - 1)) as usize;
        let others = (0..below).filter(|&t| t != self.me);
        self.peers_count = 0;
        (self.registered, self.crowd) = match others.clone().count() > PEERS_MAX {
            true => (NEVER, registered),
            false => (registered, NEVER),
        };
        if self.registered == NEVER {
            return;
        }
        for (i, tid) in others.enumerate() {
            (self.tids[i], self.peers[i]) = (tid, self.marks.of(tid));
            self.peers_count = i + 1;
        }
    }

    /// Whether no thread has begun to commit since [`Watch::begin`], nor was about to then; the
    /// caller has ordered its loads before this.
    pub(crate) fn holds(&self) -> bool {
        let mut peers = self.peers.iter().zip(&self.seen).take(self.peers_count);
        self.marks.registered.load(Relaxed) == self.registered
            && peers.all(|(peer, &seen)| peer.load(Relaxed) == seen)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn begun(watch: &mut Watch<'_>) -> Starts {
        let mut starts = Starts::none();
        watch.begin(&mut starts);
        starts
    }

    #[test]
    fn a_watch_holds_until_a_peer_commits_or_the_registered_threads_change() {
        let marks = Marks::new(4);
        marks.set_registered(2);
        let mut watch = Watch::new(&marks, 0);
        assert!(!watch.holds(), "nothing was looked at");
        begun(&mut watch);
        assert!(watch.holds());
        marks.of(1).store(mark(0, true), Release);
        assert!(!watch.holds());
        begun(&mut watch);
        assert!(!watch.holds(), "odd from the start");
        marks.of(1).store(mark(1, false), Release);
        assert!(!watch.holds(), "it may have published in between");
        let starts = begun(&mut watch);
        assert_eq!([0, 1, 2].map(|t| starts.reach(t, 1)), [false, true, false]);
        assert!(watch.holds());
        marks.of(0).store(mark(9, true), Release);
        assert!(watch.holds(), "its own mark is not watched");
        marks.set_registered(3);
        assert!(!watch.holds());
        marks.set_registered(2);
        assert!(!watch.holds(), "a thread came and went");
    }

    #[test]
    fn a_crowd_is_not_watched() {
        let marks = Marks::new(PEERS_MAX + 3);
        let mut watch = Watch::new(&marks, 1);
        marks.of(0).store(mark(7, false), Release);
        marks.set_registered(PEERS_MAX + 1);
        assert!(begun(&mut watch).reach(0, 7));
        assert!(watch.holds());
        marks.set_registered(PEERS_MAX + 2);
        assert!(!begun(&mut watch).reach(0, 1));
        assert!(!watch.holds());
        marks.set_registered(2);
        begun(&mut watch);
        assert!(watch.holds());
    }
}
