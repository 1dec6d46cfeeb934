//! Whether any rank of the job still goes on.
//!
//! A rank whose program waits for a letter, a condition variable or a lock goes on when a message
//! comes that another rank's program is the cause of, or a lock is handed to it by a word of
//! memory. Where every other rank waits so too, or leaves, and no message or lock is under way,
//! none comes any more. A rank that has waited for a while therefore *reports* what it waits for,
//! how many messages it has sent to each rank and taken from each, and how many locks it has handed
//! to each and was handed. A rank that leaves answers such a report by its own.
//!
//! When a rank reports, and which one does not, is `super::waiting`'s part.
//!
//! Why equal numbers suffice (the channel counting of Mattern, "Algorithms for distributed
//! termination detection", 1987): after its report a rank acts only when it takes a message. The
//! first of all ranks to act after its report would take one that its sender sent before the
//! sender's own report. That report counts it as sent and the first rank's does not count it as
//! taken, so the numbers differ. A lock that is handed over counts as a message; who was handed one
//! does not learn by whom, so these are compared in sum. The sums suffice because each counts all
//! that was handed over before any rank acted, and a rank that leaves hands no lock over.
//!
//! Invariants
//! - A wait fails only when each rank has reported since it last acted, and each message of one
//!   rank to another is taken. Checked by `a_message_under_way_or_a_silent_rank_may_end_a_wait`.
//! - A lock that is handed over is under way until its rank has seen it. Checked by
//!   `a_lock_that_was_handed_over_ends_a_wait`.
//! - Reports are not messages in that sense: neither side counts them. Checked by
//!   `a_rank_that_leaves_answers_a_report_and_counts_neither`.
//! - A wait that no rank can end fails. Checked by `ranks_that_wait_when_no_other_goes_on_say_so`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use littoral_base::codec::{Reader, Writer};
use littoral_base::mutant;
use littoral_base::units::NodeId;

use crate::core::message::LockId;
use crate::error::{Error, Kind, Result};

/// What a rank's program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaits {
    /// Nothing: it leaves the job.
    Leave,
    /// A condition variable.
    Flag(u32),
    /// A letter, of one rank or of any.
    Letter(Option<NodeId>),
    /// A lock.
    Lock(LockId),
}

impl Awaits {
    fn code(self) -> (u8, u32) {
        match self {
            Awaits::Leave => (0, 0),
            Awaits::Flag(cv) => (1, cv),
            Awaits::Letter(Some(rank)) => (2, u32::from(rank.0)),
            Awaits::Letter(None) => (3, 0),
            Awaits::Lock(lock) => (4, lock.0),
        }
    }

    fn of_code(code: u8, value: u32) -> Option<Awaits> {
        Some(match code {
            0 => Awaits::Leave,
            1 => Awaits::Flag(value),
            2 => Awaits::Letter(Some(NodeId(u16::try_from(value).ok()?))),
            3 => Awaits::Letter(None),
            4 => Awaits::Lock(LockId(value)),
            _ => return None,
        })
    }
}

impl fmt::Display for Awaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaits::Leave => f.write_str("leaves the job"),
            Awaits::Flag(cv) => write!(f, "waits for condition variable {cv}"),
            Awaits::Letter(Some(rank)) => write!(f, "waits for a message of rank {rank}"),
            Awaits::Letter(None) => f.write_str("waits for a message of any rank"),
            Awaits::Lock(lock) => write!(f, "waits for lock {}", lock.0),
        }
    }
}

/// What a rank says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) awaits: Awaits,
    /// Messages that it has sent to each rank.
    pub(super) sent: Vec<u64>,
    /// Messages that it has taken from each rank.
    pub(super) taken: Vec<u64>,
    /// Locks that it has handed to each rank by words of memory.
    pub(super) handed: Vec<u64>,
    /// Locks that it was handed so.
    pub(super) was_handed: u64,
}

impl Report {
    pub(super) fn encode(&self, w: &mut Writer) {
        let lengths = [self.taken.len(), self.handed.len()];
        debug_assert_eq!(lengths, [self.sent.len(); 2], "one number for each rank");
        let (code, value) = self.awaits.code();
        let ranks = u16::try_from(self.sent.len()).expect("invariant: ranks fit u16");
        w.u8(code).u32(value).u16(ranks);
        let counts = self.sent.iter().chain(&self.taken).chain(&self.handed);
        counts.for_each(|count| _ = w.u64(*count));
        w.u64(self.was_handed);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Option<Report> {
        let awaits = Awaits::of_code(r.u8()?, r.u32()?)?;
        let ranks = usize::from(r.u16()?);
        let mut counts = || (0..ranks).map(|_| r.u64()).collect::<Option<Vec<u64>>>();
        let (sent, taken, handed) = (counts()?, counts()?, counts()?);
        Some(Report { awaits, sent, taken, handed, was_handed: r.u64()? })
    }
}

/// Locks that this rank has handed over and was handed by words of memory. One thread at a time
/// counts; the server reads.
pub(super) struct Grants {
    given: Vec<AtomicU64>,
    taken: AtomicU64,
}

impl Grants {
    fn new(ranks: usize) -> Self {
        Grants { given: (0..ranks).map(|_| AtomicU64::new(0)).collect(), taken: AtomicU64::new(0) }
    }

    /// A lock was handed to a rank that waited for it.
    pub(super) fn give(&self, to: NodeId) {
        count(&self.given[to.index()]);
    }

    /// This rank has waited for a lock and was handed it.
    pub(super) fn take(&self) {
        count(&self.taken);
    }
}

fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// What this rank knows of who goes on.
pub(super) struct Standstill {
    me: NodeId,
    /// Messages taken from each rank, without reports.
    taken: Vec<u64>,
    /// The last report of each other rank.
    reports: Vec<Option<Report>>,
    grants: Arc<Grants>,
    leaves: bool,
}

impl Standstill {
    pub(super) fn new(me: NodeId, ranks: u16) -> Self {
        let ranks = usize::from(ranks);
        let (taken, reports) = (vec![0; ranks], vec![None; ranks]);
        Standstill { me, taken, reports, grants: Arc::new(Grants::new(ranks)), leaves: false }
    }

    /// Where locks are counted that words of memory hand over.
    pub(super) fn grants(&self) -> Arc<Grants> {
        Arc::clone(&self.grants)
    }

    /// Messages taken so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken.iter().sum()
    }

    /// Counts a message of a rank, which is no report.
    pub(super) fn take(&mut self, from: NodeId) {
        self.taken[from.index()] += 1;
    }

    /// This rank leaves the job: its program does nothing more.
    pub(super) fn leave(&mut self) {
        self.leaves = true;
    }

    /// What this rank says that has sent so many messages to each.
    pub(super) fn report(&self, awaits: Awaits, sent: Vec<u64>) -> Report {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let handed = self.grants.given.iter().map(count).collect();
        let was_handed = count(&self.grants.taken);
        Report { awaits, sent, taken: self.taken.clone(), handed, was_handed }
    }

    /// Keeps a report; whether this rank answers it.
    ///
    /// # Errors
    /// `Kind::Protocol` for one of a job with another number of ranks.
    pub(super) fn hear(&mut self, from: NodeId, report: Report) -> Result<bool> {
        let ranks = self.reports.len();
        let lengths = [&report.sent, &report.taken, &report.handed].map(Vec::len);
        if lengths != [ranks; 3] {
            let what = format!("rank {from} reports of a job with {} ranks", report.sent.len());
            return Err(Error::new(Kind::Protocol, what).at_rank(self.me).at_peer(from));
        }
        let answers = self.leaves && report.awaits != Awaits::Leave;
        self.reports[from.index()] = Some(report);
        Ok(answers)
    }

    /// Fails where this rank, which has just looked in vain for what `mine` says that it waits for,
    /// and every other one wait for ever.
    ///
    /// # Errors
    /// `Kind::Misuse`.
    pub(super) fn refuse(&self, mine: &Report) -> Result<()> {
        let report = |n: usize| match n == self.me.index() {
            true => Some(mine),
            false => self.reports[n].as_ref(),
        };
        let all: Option<Vec<&Report>> = (0..self.reports.len()).map(report).collect();
        match all {
            Some(all) if are_taken(&all) && are_seen(&all) => Err(self.error(&all)),
            _ => Ok(()),
        }
    }

    fn error(&self, all: &[&Report]) -> Error {
        let (me, mine) = (self.me, all[self.me.index()].awaits);
        let mut what = format!("rank {me} {mine}, and no other rank goes on");
        let others = (0u16..).zip(all).filter(|(rank, _)| *rank != me.0);
        let others: Vec<String> =
            others.map(|(rank, report)| format!("rank {rank} {}", report.awaits)).collect();
        if !others.is_empty() {
            what += &format!(" ({})", others.join(", "));
        }
        what += "; send, set or unlock what a rank waits for before the others wait or leave";
        Error::new(Kind::Misuse, what).at_rank(me)
    }
}

/// Whether each message of one of the ranks to another has been taken.
fn are_taken(all: &[&Report]) -> bool {
    let ranks = all.len();
    let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
    let mut pairs = pairs.filter(|(from, to)| from != to);
    pairs.all(|(from, to)| all[from].sent[to] == all[to].taken[from])
        || mutant!("dsm_standstill_amid_messages")
}

/// Whether each rank that was handed a lock has seen so.
fn are_seen(all: &[&Report]) -> bool {
    let handed_to = |to: usize| all.iter().map(|report| report.handed[to]).sum::<u64>();
    all.iter().enumerate().all(|(to, report)| report.was_handed == handed_to(to))
        || mutant!("dsm_standstill_amid_grants")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(awaits: Awaits, sent: [u64; 3], taken: [u64; 3]) -> Report {
        let (sent, taken, handed) = (sent.to_vec(), taken.to_vec(), vec![0; 3]);
        Report { awaits, sent, taken, handed, was_handed: 0 }
    }

    /// Rank 0 has asked rank 2 for a variable, which tells all that it leaves.
    #[test]
    fn a_message_under_way_or_a_silent_rank_may_end_a_wait() {
        let mut known = Standstill::new(NodeId(0), 3);
        known.take(NodeId(2));
        let mine = known.report(Awaits::Flag(2), vec![0, 0, 1]);
        assert_eq!(mine, report(Awaits::Flag(2), [0, 0, 1], [0, 0, 1]));
        assert!(known.refuse(&mine).is_ok(), "the others have said nothing");
        let leaves = report(Awaits::Leave, [1, 1, 0], [1, 0, 0]);
        assert!(!known.hear(NodeId(2), leaves).unwrap());
        assert!(known.refuse(&mine).is_ok(), "rank 1 may set it");
        let letter = Awaits::Letter(None);
        known.hear(NodeId(1), report(letter, [0, 0, 0], [0, 0, 0])).unwrap();
        assert!(known.refuse(&mine).is_ok(), "rank 1 may set it when it hears of rank 2");
        known.hear(NodeId(1), report(letter, [1, 0, 0], [0, 0, 1])).unwrap();
        assert!(known.refuse(&mine).is_ok(), "what rank 1 has sent is not here");
        known.hear(NodeId(1), report(letter, [0, 0, 0], [0, 0, 1])).unwrap();
        let e = known.refuse(&mine).unwrap_err();
        let why = "rank 0 waits for condition variable 2, and no other rank goes on (rank 1 waits \
                   for a message of any rank, rank 2 leaves the job); ";
        assert!(e.kind() == Kind::Misuse && e.to_string().starts_with(why), "{e}");
    }

    /// Rank 1 has left a section of the lock that rank 0 waits for.
    #[test]
    fn a_lock_that_was_handed_over_ends_a_wait() {
        let mut known = Standstill::new(NodeId(0), 3);
        let theirs = Report { handed: vec![1, 0, 0], ..report(Awaits::Flag(1), [0; 3], [0; 3]) };
        known.hear(NodeId(1), theirs).unwrap();
        known.hear(NodeId(2), report(Awaits::Leave, [0; 3], [0; 3])).unwrap();
        let mine = |known: &Standstill| known.report(Awaits::Lock(LockId(4)), vec![0; 3]);
        assert!(known.refuse(&mine(&known)).is_ok(), "it has not looked since");
        known.grants().take();
        let e = known.refuse(&mine(&known)).unwrap_err().to_string();
        assert!(e.starts_with("rank 0 waits for lock 4, and no other rank goes on"), "{e}");
    }

    #[test]
    fn a_report_of_another_job_is_refused() {
        let mut known = Standstill::new(NodeId(1), 2);
        let e = known.hear(NodeId(0), report(Awaits::Leave, [0; 3], [0; 3])).unwrap_err();
        assert_eq!(e.kind(), Kind::Protocol, "{e}");
    }

    #[test]
    fn what_is_awaited_comes_back_from_its_code() {
        let letter = |rank| Awaits::Letter(Some(NodeId(rank)));
        let lock = Awaits::Lock(LockId(1 << 20));
        let flag = Awaits::Flag(u32::MAX);
        for awaits in [Awaits::Leave, flag, letter(65535), Awaits::Letter(None), lock] {
            let (code, value) = awaits.code();
            assert_eq!(Awaits::of_code(code, value), Some(awaits));
        }
        assert_eq!([Awaits::of_code(2, 1 << 16), Awaits::of_code(5, 0)], [None; 2]);
    }
}
