//! Whether any rank of the job still goes on.
//!
//! A rank whose program waits for a letter or a condition variable goes on when a message comes
//! that another rank's program is the cause of. Where every other rank waits so too, or leaves, and
//! no message is under way, none comes any more. A rank that has waited for a while therefore
//! *reports* what it waits for, and how many messages it has sent to each rank and taken from each.
//! A rank that leaves answers such a report by its own.
//!
//! A rank of which another thread may still act does not report: its program is one thread.
//!
//! Why equal numbers suffice (the channel counting of Mattern, "Algorithms for distributed
//! termination detection", 1987): after its report a rank acts only when it takes a message. The
//! first of all ranks to act after its report would take one that its sender sent before the
//! sender's own report. That report counts it as sent and the first rank's does not count it as
//! taken, so the numbers differ.
//!
//! Invariants
//! - A wait fails only when each rank has reported since it last acted, and each message of one
//!   rank to another is taken. Checked by `a_message_under_way_or_a_silent_rank_may_end_a_wait`.
//! - Reports are not messages in that sense: neither side counts them. Checked by
//!   `a_rank_that_leaves_answers_a_report_and_counts_neither`.
//! - A wait that no rank can end fails. Checked by `ranks_that_wait_when_no_other_goes_on_say_so`.

use std::fmt;

use littoral_base::codec::{Reader, Writer};
use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::engine::Engine;
use super::{Common, Inside};
use crate::error::{Error, Kind, Result};

/// Rounds of a wait without a message until its rank reports, for the first time.
const ROUNDS_FIRST: u32 = 20;
/// Most rounds until it reports again; each time they double.
const ROUNDS_MAX: u32 = 1000;
/// Most ranks of a job that report: what all of them say grows with the number's third power.
const RANKS_MAX: usize = 64;
/// How the names of the library's threads begin.
const OWN_THREADS: &[u8] = b"littoral-";

/// What a rank's program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaits {
    /// Nothing: it leaves the job.
    Leave,
    /// A condition variable.
    Flag(u32),
    /// A letter, of one rank or of any.
    Letter(Option<NodeId>),
}

impl Awaits {
    fn code(self) -> (u8, u32) {
        match self {
            Awaits::Leave => (0, 0),
            Awaits::Flag(cv) => (1, cv),
            Awaits::Letter(Some(rank)) => (2, u32::from(rank.0)),
            Awaits::Letter(None) => (3, 0),
        }
    }

    fn of_code(code: u8, value: u32) -> Option<Awaits> {
        Some(match code {
            0 => Awaits::Leave,
            1 => Awaits::Flag(value),
            2 => Awaits::Letter(Some(NodeId(u16::try_from(value).ok()?))),
            3 => Awaits::Letter(None),
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
}

impl Report {
    pub(super) fn encode(&self, w: &mut Writer) {
        debug_assert_eq!(self.sent.len(), self.taken.len(), "one number for each rank");
        let (code, value) = self.awaits.code();
        let ranks = u16::try_from(self.sent.len()).expect("invariant: ranks fit u16");
        w.u8(code).u32(value).u16(ranks);
        self.sent.iter().chain(&self.taken).for_each(|count| _ = w.u64(*count));
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Option<Report> {
        let awaits = Awaits::of_code(r.u8()?, r.u32()?)?;
        let ranks = usize::from(r.u16()?);
        let mut counts = || (0..ranks).map(|_| r.u64()).collect::<Option<Vec<u64>>>();
        Some(Report { awaits, sent: counts()?, taken: counts()? })
    }
}

/// What this rank knows of who goes on.
pub(super) struct Standstill {
    me: NodeId,
    /// Messages taken from each rank, without reports.
    taken: Vec<u64>,
    /// The last report of each other rank.
    reports: Vec<Option<Report>>,
    leaves: bool,
}

impl Standstill {
    pub(super) fn new(me: NodeId, ranks: u16) -> Self {
        let ranks = usize::from(ranks);
        Standstill { me, taken: vec![0; ranks], reports: vec![None; ranks], leaves: false }
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
        Report { awaits, sent, taken: self.taken.clone() }
    }

    /// Keeps a report; whether this rank answers it.
    ///
    /// # Errors
    /// `Kind::Protocol` for one of a job with another number of ranks.
    pub(super) fn hear(&mut self, from: NodeId, report: Report) -> Result<bool> {
        let ranks = self.reports.len();
        if report.sent.len() != ranks || report.taken.len() != ranks {
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
            Some(all) if are_taken(&all) => Err(self.error(&all)),
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
        what += "; send or set what a rank waits for before the others wait or leave";
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

/// When a wait of the program is reported.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Messages that had come at the last change.
    taken: u64,
    rounds: u32,
    /// Rounds until the next report; zero before the first round.
    rounds_max: u32,
    has_reported: bool,
}

impl Patience {
    /// A round of the wait has passed, and so many messages have come by now; whether a report is
    /// due.
    fn ends(&mut self, taken: u64) -> bool {
        if self.rounds_max == 0 || self.taken != taken {
            (self.taken, self.rounds, self.rounds_max) = (taken, 0, ROUNDS_FIRST);
        }
        self.rounds += 1;
        if self.rounds < self.rounds_max {
            return false;
        }
        (self.rounds, self.rounds_max) = (0, (2 * self.rounds_max).min(ROUNDS_MAX));
        true
    }
}

/// Whether one thread is all that the program has in this process; no, where that cannot be seen.
fn has_one_thread() -> bool {
    let mut programs = 0;
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    for thread in threads {
        let name = thread.and_then(|thread| std::fs::read(thread.path().join("comm")));
        let Ok(name) = name else { return false };
        programs += u32::from(!name.starts_with(OWN_THREADS));
    }
    programs == 1
}

impl Common {
    /// Waits until `look` finds something, or the job fails; takes messages itself for a moment.
    /// Where only another rank's program is the cause of it, `awaits` says what is waited for.
    pub(super) fn wait_for<T>(
        &self,
        awaits: Option<Awaits>,
        mut look: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Result<T> {
        let _inside = Inside::enter();
        if let Some(found) = look(&mut self.locked()) {
            return Ok(found);
        }
        self.locked().begin_waiting(&*self.carrier);
        let found = self.wait_until(awaits, look);
        self.locked().mailbox.end_waiting();
        found
    }

    /// A round of a wait, which has just looked in vain: reports it now and then, and fails where
    /// no rank goes on.
    pub(super) fn pass_round(
        &self,
        engine: &mut Engine,
        awaits: Awaits,
        patience: &mut Patience,
    ) -> Result<()> {
        let ranks = usize::from(self.carrier.ranks());
        if ranks > RANKS_MAX || mutant!("dsm_standstill_lasts") {
            return Ok(());
        }
        if patience.ends(engine.standstill.taken.iter().sum()) && has_one_thread() {
            patience.has_reported = true;
            engine.report(&*self.carrier, awaits);
        }
        if patience.has_reported { engine.refuse_standstill(awaits) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(awaits: Awaits, sent: [u64; 3], taken: [u64; 3]) -> Report {
        Report { awaits, sent: sent.to_vec(), taken: taken.to_vec() }
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

    #[test]
    fn a_report_of_another_job_is_refused() {
        let mut known = Standstill::new(NodeId(1), 2);
        let e = known.hear(NodeId(0), report(Awaits::Leave, [0; 3], [0; 3])).unwrap_err();
        assert_eq!(e.kind(), Kind::Protocol, "{e}");
    }

    #[test]
    fn a_wait_is_reported_again_more_and_more_seldom_until_something_comes() {
        let mut patience = Patience::default();
        let mut until_due = |taken| (1..).find(|_| patience.ends(taken)).unwrap();
        assert_eq!([0; 3].map(&mut until_due), [1, 2, 4].map(|n| n * ROUNDS_FIRST));
        assert_eq!(until_due(7), ROUNDS_FIRST);
        let last = (0..20).map(|_| until_due(7)).last();
        assert_eq!(last, Some(ROUNDS_MAX));
    }

    #[test]
    fn what_is_awaited_comes_back_from_its_code() {
        let letter = |rank| Awaits::Letter(Some(NodeId(rank)));
        for awaits in [Awaits::Leave, Awaits::Flag(u32::MAX), letter(65535), Awaits::Letter(None)] {
            let (code, value) = awaits.code();
            assert_eq!(Awaits::of_code(code, value), Some(awaits));
        }
        assert_eq!([Awaits::of_code(2, 1 << 16), Awaits::of_code(4, 0)], [None; 2]);
    }
}
