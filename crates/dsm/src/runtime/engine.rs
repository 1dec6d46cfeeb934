//! What a rank knows, under one lock: the protocol, its channels, its peers and their state.
//!
//! How the loss of a rank is handled
//! 1. A fabric, a process handle, a conductor or another rank's failure report says that `r` left
//!    before its goodbye. What it and every other rank that is gone has sent is taken in first: a
//!    rank that ended because another one did has said so.
//! 2. The ranks that are still missing then are judged at one time. Where ranks share a board, the
//!    locks are read there and the first verdict on it stands; the job fails at once.
//! 3. Elsewhere this rank tells every other, with the locks it manages that `r` holds, and awaits
//!    their failure reports for [`GRACE_PERIOD`].
//! 4. Every operation of this rank fails from now on with who died, holding what, and how.
//!
//! Invariants
//! - Messages to one rank leave in the order in which the protocol gave them. Checked by
//!   `bodies_arrive_whole_and_in_order_however_frames_are_swapped`,
//!   `every_program_agrees_with_one_process_on_every_fabric`.
//! - `failed` is set once and never cleared; nothing is sent after it but the abort itself. Checked
//!   by `misuse_ends_every_rank_with_a_message`.
//! - Ranks judged are those noticed first: who is found missing later died of it. When several are
//!   missing at once and nothing tells who was first, all of them are named. Checked by
//!   `without_a_board_those_noticed_first_are_named`,
//!   `ranks_of_which_nothing_tells_who_was_first_are_all_named`.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use littoral_base::error::Place;
use littoral_base::mutant;
use littoral_base::units::NodeId;
use littoral_fabric::process::{Halt, Identity, Standing, Watch};

use super::board::{Board, Verdict};
use super::carrier::Carrier;
use super::control::{Body, CvAct, LEAVES, combine};
use super::farewell::Farewell;
use super::guards::Guards;
use super::leavers::Leavers;
use super::link::Link;
use super::mailbox::Mailbox;
use super::standstill::{Awaits, Report, Standstill};
use crate::core::diff::Diff;
use crate::core::message::{LockId, Message, PageId};
use crate::core::rank::{Outcome, Rank, allocated_differently};
use crate::error::{Error, Kind, Result};
use crate::memory::Segment;

/// How long failure reports of others are awaited where no board is shared.
const GRACE_PERIOD: Duration = Duration::from_millis(40);

/// Why a rank can do nothing more.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) place: Place,
}

impl Failure {
    pub(super) fn error(&self) -> Error {
        Error::new(self.kind, self.text.clone()).at(self.place.clone())
    }
}

#[derive(Default)]
struct Peer {
    /// Since its greeting has come.
    watch: Option<Watch>,
    /// Since when its process is seen to be stopped, and whether that was said.
    halted: Option<(Instant, bool)>,
    finished: bool,
    dead: Option<String>,
    /// Locks it held, as other managers say.
    held: Vec<LockId>,
}

/// What came of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// This rank's operation has ended.
    pub(super) has_ended: bool,
    /// A thread that waits for a letter, a condition variable or a farewell must look again.
    pub(super) is_news: bool,
    /// The sender leaves at its barrier of this number.
    pub(super) leaves_at: Option<u64>,
}

/// See the module's page.
pub(super) struct Engine {
    pub(super) rank: Rank<Segment>,
    pub(super) failed: Option<Failure>,
    pub(super) guards: Guards,
    me: NodeId,
    page_bytes: usize,
    link: Link,
    /// Whether messages to one rank are one body; in virtual time each has a cost of its own.
    combines: bool,
    board: Option<Board>,
    farewell: Option<Farewell>,
    pub(super) leavers: Leavers,
    pub(super) standstill: Standstill,
    peers: Vec<Peer>,
    identity: Identity,
    grace_period: Option<(Vec<NodeId>, Instant)>,
    agreed: BTreeMap<u32, (u64, u16)>,
    pub(super) mailbox: Mailbox,
    /// A page that is being copied out of another rank's frames.
    pub(super) copied: Vec<u8>,
}

impl Engine {
    pub(super) fn new(
        carrier: &dyn Carrier,
        rank: Rank<Segment>,
        page_bytes: usize,
        board: Option<Board>,
        identity: Identity,
    ) -> Self {
        Engine {
            rank,
            failed: None,
            guards: Guards::default(),
            me: carrier.me(),
            page_bytes,
            link: Link::new(carrier),
            combines: carrier.turns().is_none(),
            board,
            farewell: None,
            leavers: Leavers::among(carrier.ranks()),
            standstill: Standstill::new(carrier.me(), carrier.ranks()),
            peers: (0..carrier.ranks()).map(|_| Peer::default()).collect(),
            identity,
            grace_period: None,
            agreed: BTreeMap::new(),
            mailbox: Mailbox::default(),
            copied: Vec::new(),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |f| Err(f.error()))
    }

    pub(super) fn traffic(&self) -> (u64, u64) {
        self.link.traffic()
    }

    /// Shows the locks held to the ranks of this machine.
    pub(super) fn show_held(&self) {
        if let Some(board) = &self.board {
            board.show(self.rank.held());
        }
    }

    /// Has the launcher told by standard error when this rank has left.
    pub(super) fn tells_launcher(&mut self, tells: bool) {
        self.farewell = if tells { Farewell::of_this_process() } else { None };
    }

    /// Shows the launcher that this rank has left in good order.
    pub(super) fn show_left(&self) {
        self.board.iter().for_each(Board::leave);
        self.farewell.into_iter().for_each(Farewell::say);
    }

    pub(super) fn broadcast(&mut self, carrier: &dyn Carrier, body: &Body) {
        let bytes = body.encode();
        for n in 0..carrier.ranks() {
            if NodeId(n) != self.me && self.peers[usize::from(n)].dead.is_none() {
                self.link.send(carrier, NodeId(n), &bytes);
            }
        }
    }

    pub(super) fn say_hello(&mut self, carrier: &dyn Carrier) {
        let hello = Body::Hello(self.identity);
        self.broadcast(carrier, &hello);
    }

    /// Sends what a step of the protocol asks for, and takes the steps that follow at this rank
    /// itself; whether the rank's operation has ended. What goes to one rank is one body, where
    /// bodies may be combined.
    pub(super) fn absorb(&mut self, carrier: &dyn Carrier, outcome: Outcome) -> Result<bool> {
        let mut done = outcome.done;
        let mut queue: VecDeque<_> = outcome.send.into();
        let mut bodies: BTreeMap<NodeId, Vec<Message>> = BTreeMap::new();
        while let Some((to, message)) = queue.pop_front() {
            if to == self.me {
                let next = self.rank.receive(self.me, message)?;
                done |= next.done;
                queue.extend(next.send);
            } else if self.combines {
                bodies.entry(to).or_default().push(message);
            } else {
                self.link.send(carrier, to, Body::Protocol(message).encode());
            }
        }
        for (to, mut messages) in bodies {
            let body = match messages.pop() {
                Some(only) if messages.is_empty() => Body::Protocol(only).encode(),
                last => combine(messages.into_iter().chain(last)),
            };
            self.link.send(carrier, to, body);
        }
        Ok(done)
    }

    /// Takes messages of the protocol in, then sends what they ask for.
    fn take_messages(
        &mut self,
        carrier: &dyn Carrier,
        from: NodeId,
        messages: Vec<Message>,
    ) -> Result<bool> {
        let mut all = Outcome::default();
        for message in messages {
            self.refuse_race(from, &message)?;
            let outcome = self.rank.receive(from, message)?;
            all.done |= outcome.done;
            all.send.extend(outcome.send);
        }
        self.absorb(carrier, all)
    }

    /// Takes a frame off the carrier.
    pub(super) fn take(
        &mut self,
        carrier: &dyn Carrier,
        from: NodeId,
        frame: Vec<u8>,
    ) -> Result<Taken> {
        let mut taken = Taken::default();
        for bytes in self.link.accept(from, frame).map_err(|e| e.at_rank(self.me))? {
            let body = Body::decode(&bytes).map_err(|e| e.at_rank(self.me).at_peer(from))?;
            taken.is_news |= matches!(
                body,
                Body::Goodbye
                    | Body::Mail { .. }
                    | Body::Cv { .. }
                    | Body::Credit { .. }
                    | Body::Report(_)
            );
            if !matches!(body, Body::Report(_)) {
                self.standstill.take(from);
            }
            match body {
                Body::Protocol(message) => {
                    taken.has_ended |= self.take_messages(carrier, from, vec![message])?;
                }
                Body::Combined(messages) => {
                    taken.has_ended |= self.take_messages(carrier, from, messages)?;
                }
                Body::Hello(identity) => {
                    self.peers[from.index()].watch = Some(Watch::open(&self.identity, identity));
                }
                Body::Goodbye => self.peers[from.index()].finished = true,
                Body::FailureReport { rank, held, how } => {
                    self.take_failure_report(carrier, rank, &held, how)?
                }
                Body::Abort { why } => return Err(self.aborted(from, why)),
                Body::Agreed { count: LEAVES, fingerprint } => {
                    self.leavers.add(from);
                    taken.is_news = true;
                    taken.leaves_at = Some(fingerprint);
                }
                Body::Agreed { count, fingerprint } => self.agree(from, count, fingerprint)?,
                Body::Mail { channel, tag, bytes } => {
                    self.mailbox.put(from, channel, tag, bytes);
                    self.give_credit(carrier);
                }
                Body::Credit { bytes } if self.mailbox.take_credit(from, bytes) => {}
                Body::Credit { bytes } => return Err(uncalled_for(from, bytes).at_rank(self.me)),
                Body::Cv { act, cv } => self.take_cv(carrier, from, act, cv),
                Body::Report(report) => self.take_report(carrier, from, report)?,
            }
        }
        Ok(taken)
    }

    fn own_report(&self, awaits: Awaits) -> Report {
        self.standstill.report(awaits, self.link.bodies())
    }

    fn take_report(&mut self, carrier: &dyn Carrier, from: NodeId, report: Report) -> Result<()> {
        if self.standstill.hear(from, report)? {
            let answer = Body::Report(self.own_report(Awaits::Leave));
            self.link.send_uncounted(carrier, from, answer.encode());
        }
        Ok(())
    }

    /// Tells the other ranks what the program waits for.
    pub(super) fn report(&mut self, carrier: &dyn Carrier, awaits: Awaits) {
        let body = Body::Report(self.own_report(awaits)).encode();
        for rank in (0..carrier.ranks()).map(NodeId).filter(|rank| *rank != carrier.me()) {
            self.link.send_uncounted(carrier, rank, &body);
        }
    }

    /// Fails where the program, which has just looked in vain for what it waits for, and every
    /// other rank's wait for ever.
    ///
    /// # Errors
    /// `Kind::Misuse`.
    pub(super) fn refuse_standstill(&self, awaits: Awaits) -> Result<()> {
        self.standstill.refuse(&self.own_report(awaits))
    }

    /// Tells senders which of their letters take no room here any more.
    pub(super) fn give_credit(&mut self, carrier: &dyn Carrier) {
        for (rank, bytes) in self.mailbox.credit() {
            if rank != self.me {
                self.post(carrier, rank, &Body::Credit { bytes });
            }
        }
    }

    /// A thread of the program begins to wait for another rank.
    pub(super) fn begin_waiting(&mut self, carrier: &dyn Carrier) {
        self.mailbox.begin_waiting();
        self.give_credit(carrier);
    }

    /// Acts on a condition variable that this rank manages, or waits for.
    pub(super) fn take_cv(&mut self, carrier: &dyn Carrier, from: NodeId, act: CvAct, cv: u32) {
        for rank in self.mailbox.act(from, act, cv) {
            let granted = CvAct::Granted;
            if rank == self.me {
                self.mailbox.act(rank, granted, cv);
            } else {
                self.post(carrier, rank, &Body::Cv { act: granted, cv });
            }
        }
        if from != self.me && matches!(act, CvAct::Set | CvAct::Reset) {
            self.post(carrier, from, &Body::Cv { act: CvAct::Heard, cv });
        }
    }

    /// Sends a body to another rank.
    pub(super) fn post(&mut self, carrier: &dyn Carrier, to: NodeId, body: &Body) {
        self.link.send(carrier, to, body.encode());
    }

    /// Diffs over bytes that the program has a guard on are a data race of the program.
    fn refuse_race(&self, from: NodeId, message: &Message) -> Result<()> {
        let (Message::Diffs { diffs } | Message::DiffsAlong { diffs }) = message else {
            return Ok(());
        };
        if self.guards.is_empty() || mutant!("dsm_race_with_a_guard_unseen") {
            return Ok(());
        }
        diffs.iter().try_for_each(|(page, diff)| self.refuse_overlap(from, *page, diff))
    }

    fn refuse_overlap(&self, from: NodeId, page: PageId, diff: &Diff) -> Result<()> {
        let start = page.0 as usize * self.page_bytes;
        for (at, bytes) in diff.runs() {
            let (low, high) = (start + at, start + at + bytes.len());
            if self.guards.meets(low, high) {
                let me = self.me;
                let what = format!(
                    "data race: rank {from} wrote bytes {low}..{high} of shared memory while rank \
                     {me} had a guard on them; order the two by a lock or a barrier"
                );
                let race = Error::new(Kind::Misuse, what).at_rank(me).at_peer(from);
                return Err(race.at_page(page.0).at_offset(low as u64));
            }
        }
        Ok(())
    }

    /// Compares the ranks' allocations: at rank 0, or at both ranks that depart by themselves.
    pub(super) fn agree(&mut self, from: NodeId, count: u32, fingerprint: u64) -> Result<()> {
        let ranks = u16::try_from(self.peers.len()).expect("invariant: ranks fit u16");
        let (first, heard) = self.agreed.entry(count).or_insert((fingerprint, 0));
        if *first != fingerprint && count == 0 {
            let what = format!(
                "rank {from} has shared memory at address {fingerprint:#x}, another rank at \
                 {first:#x}: pointers in shared memory need one address, so start every rank with \
                 the same --address"
            );
            return Err(Error::new(Kind::Misuse, what).at_rank(self.me).at_peer(from));
        }
        if *first != fingerprint {
            return Err(allocated_differently(from, count).at_rank(self.me).at_peer(from));
        }
        *heard += 1;
        if *heard == ranks {
            self.agreed.remove(&count);
        }
        Ok(())
    }

    pub(super) fn tell_agreed(
        &mut self,
        carrier: &dyn Carrier,
        count: u32,
        fingerprint: u64,
    ) -> Result<()> {
        let all = self.rank.exchanges_arrivals() && !mutant!("dsm_exchange_rank_0_compares");
        if all || self.me != NodeId(0) {
            let to = self.rank.arrives_at();
            self.post(carrier, to, &Body::Agreed { count, fingerprint });
        }
        if all || self.me == NodeId(0) {
            self.agree(self.me, count, fingerprint)?;
        }
        Ok(())
    }

    /// Peers that are gone without a goodbye, by the carrier or by their process. None, as long
    /// as messages of one that has ended are still on their way: they may say who was first.
    pub(super) fn missing(&self, carrier: &dyn Carrier) -> Vec<(NodeId, String)> {
        let looked_at = |n: &usize| {
            let p = &self.peers[*n];
            *n != self.me.index() && !p.finished && p.dead.is_none()
        };
        let gone = |n| self.is_gone(carrier, n);
        let gone: Vec<_> = (0..self.peers.len()).filter(looked_at).filter_map(gone).collect();
        let delivered = gone.iter().all(|(rank, _)| carrier.has_delivered(*rank));
        if delivered { gone } else { Vec::new() }
    }

    fn is_gone(&self, carrier: &dyn Carrier, n: usize) -> Option<(NodeId, String)> {
        use littoral_fabric::Liveness;
        let node = NodeId(u16::try_from(n).expect("invariant: ranks fit u16"));
        let standing = self.peers[n].watch.as_ref().map(Watch::standing);
        let liveness = match standing {
            Some(Standing::Ended) => return Some((node, "its process ended".into())),
            Some(Standing::Unknown) if !mutant!("dsm_signs_of_life_unasked") => {
                carrier.liveness_by_signs(node)
            }
            _ => carrier.liveness(node),
        };
        match liveness {
            Liveness::Alive => None,
            Liveness::Dead(how) => Some((node, how)),
        }
    }

    /// Whether `rank` has said goodbye or has failed; asked again after its last messages are read.
    pub(super) fn is_settled(&self, rank: NodeId) -> bool {
        let p = &self.peers[rank.index()];
        p.finished || p.dead.is_some()
    }

    /// Whether every other rank has said goodbye.
    pub(super) fn all_finished(&self) -> bool {
        let others = self.peers.iter().enumerate().filter(|(n, _)| *n != self.me.index());
        others.into_iter().all(|(_, p)| p.finished)
    }

    /// Ranks are gone, noticed at one time: fails by the board's verdict, or tells the others and
    /// fails after their failure reports.
    ///
    /// # Errors
    /// `Kind::PeerLost` when there is nothing to wait for.
    pub(super) fn judge(
        &mut self,
        carrier: &dyn Carrier,
        mut missing: Vec<(NodeId, String)>,
    ) -> Result<()> {
        missing.retain(|(rank, _)| !self.is_settled(*rank));
        if missing.is_empty() || self.failed.is_some() {
            return Ok(());
        }
        let suspects: Vec<NodeId> = missing.iter().map(|(rank, _)| *rank).collect();
        for (rank, how) in &missing {
            let held = self.rank.held_by(*rank);
            self.peers[rank.index()].dead = Some(how.clone());
            self.peers[rank.index()].held.extend(held);
        }
        if let Some(board) = &self.board {
            let verdict = self.verdict(suspects);
            return Err(self.judged(board.pronounce(&verdict).unwrap_or(verdict)));
        }
        for (rank, how) in missing {
            let held = self.rank.held_by(rank);
            self.broadcast(carrier, &Body::FailureReport { rank, held, how });
        }
        self.grace_period.get_or_insert((suspects, Instant::now() + GRACE_PERIOD));
        Ok(())
    }

    /// The failure of a job that `rank` was lost to, by the word of who conducts it.
    pub(super) fn lose(&mut self, carrier: &dyn Carrier, rank: NodeId, how: String) -> Error {
        let judged = self.judge(carrier, vec![(rank, how)]).err();
        judged.unwrap_or_else(|| self.judged(self.verdict(vec![rank])))
    }

    /// This rank's own failure: it becomes the job's unless there is one.
    pub(super) fn pronounce(&self, kind: Kind, text: &str) {
        let suspects = if kind == Kind::PeerLost { vec![] } else { vec![self.me] };
        if let Some(board) = &self.board {
            // The rank that came first said why the job ends; this rank ends for a reason of its
            // own.
            let _ = board.pronounce(&Verdict { suspects, text: text.to_owned() });
        }
    }

    fn take_failure_report(
        &mut self,
        carrier: &dyn Carrier,
        rank: NodeId,
        held: &[LockId],
        how: String,
    ) -> Result<()> {
        if rank == self.me || rank.index() >= self.peers.len() {
            return Err(self.judged(Verdict { suspects: vec![self.me], text: how }));
        }
        self.peers[rank.index()].held.extend(held);
        self.judge(carrier, vec![(rank, how)])
    }

    /// The failure that is due when failure reports have been awaited.
    pub(super) fn grace_period_over(&self) -> Option<Error> {
        let (ranks, until) = self.grace_period.as_ref()?;
        (Instant::now() >= *until).then(|| self.judged(self.verdict(ranks.clone())))
    }

    fn judged(&self, verdict: Verdict) -> Error {
        let Verdict { suspects, text } = verdict;
        let text = match suspects.contains(&self.me) {
            true => format!("the other ranks gave rank {} up: {text}", self.me),
            false => text,
        };
        let error = Error::new(Kind::PeerLost, text).at_rank(self.me);
        let Some(&rank) = suspects.first().filter(|_| !suspects.contains(&self.me)) else {
            return error;
        };
        let held = self.held_by(rank).into_iter().next();
        held.into_iter().fold(error.at_peer(rank), |e, lock| e.at_lock(lock.0))
    }

    /// The failure of a job that another rank has ended. Who sent the word need not be the rank
    /// that the failure is about; the verdict or the ranks that are gone tell.
    fn aborted(&self, from: NodeId, why: String) -> Error {
        let said = self.board.as_ref().and_then(Board::verdict).map(|v| v.suspects);
        let suspects = said.or_else(|| self.grace_period.as_ref().map(|(ranks, _)| ranks.clone()));
        let error = Error::new(Kind::PeerLost, why).at_rank(self.me);
        if mutant!("dsm_abort_blames_its_sender") {
            return error.at_peer(from);
        }
        let first = suspects.into_iter().flatten().find(|rank| *rank != self.me);
        first.into_iter().fold(error, Error::at_peer)
    }

    /// The locks that a rank that is gone held, as far as this rank can know.
    fn held_by(&self, rank: NodeId) -> Vec<LockId> {
        let mut held = match &self.board {
            Some(board) => board.held(rank),
            None => self.peers[rank.index()].held.clone(),
        };
        held.sort_unstable();
        held.dedup();
        held
    }

    fn verdict(&self, suspects: Vec<NodeId>) -> Verdict {
        let sentences: Vec<String> =
            suspects.iter().map(|rank| self.failure_report(*rank)).collect();
        Verdict { suspects, text: sentences.join("; ") }
    }

    fn failure_report(&self, rank: NodeId) -> String {
        let peer = &self.peers[rank.index()];
        let names: Vec<String> = self.held_by(rank).iter().map(|l| l.0.to_string()).collect();
        let holding = match (&names[..], self.board.is_some()) {
            ([], true) => "no lock".to_owned(),
            ([], false) => "no lock that the others manage".to_owned(),
            ([one], _) => format!("lock {one}"),
            (many, _) => format!("locks {}", many.join(", ")),
        };
        let process = peer.watch.as_ref().map(|watch| watch.identity().process);
        let pid = process.map_or(String::new(), |p| format!(" (process {p})"));
        let how = peer.dead.as_deref().unwrap_or("gone");
        format!("rank {rank}{pid} died holding {holding}: {how}")
    }

    /// Lines about ranks of this machine that have been stopped for longer than `after`, one for
    /// each stop.
    pub(super) fn halts(&mut self, after: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        for (n, peer) in self.peers.iter_mut().enumerate() {
            let Some(watch) = peer.watch.as_ref().filter(|_| !peer.finished) else { continue };
            let Some(halt) = watch.halt() else {
                peer.halted = None;
                continue;
            };
            match &mut peer.halted {
                None => peer.halted = Some((Instant::now(), false)),
                Some((since, said)) if !*said && since.elapsed() >= after => {
                    *said = true;
                    lines.push(waiting_for(n, watch.identity().process, halt));
                }
                Some(_) => {}
            }
        }
        lines
    }

    /// Bytes to `to` that have found no room so far.
    pub(super) fn waiting_bytes(&self, to: NodeId) -> usize {
        self.link.waiting_bytes(to)
    }

    /// Sends what has waited for room; whether nothing is left.
    pub(super) fn drain(&mut self, carrier: &dyn Carrier) -> bool {
        self.link.drain(carrier)
    }
}

fn uncalled_for(from: NodeId, bytes: u64) -> Error {
    let what = format!("rank {from} gave credit for {bytes} bytes of letters, more than it got");
    Error::new(Kind::Protocol, what).at_peer(from)
}

/// What is said of a rank that the others wait for because it is stopped.
pub(crate) fn waiting_for(rank: usize, process: u64, halt: Halt) -> String {
    match halt {
        Halt::Stopped => format!(
            "littoral dsm: waiting for rank {rank} (process {process}), which is stopped; kill -CONT \
             {process} lets it go on"
        ),
        Halt::Traced(debugger) => format!(
            "littoral dsm: waiting for rank {rank} (process {process}), which a debugger (process \
             {debugger}) holds"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::rank::Shape;
    use crate::runtime::board;
    use littoral_fabric::Liveness;
    use rustix::process::{Pid, Signal, kill_process};
    use std::fs::File;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Rank 2 of three, on a carrier that takes everything and brings nothing.
    struct Quiet {
        me: NodeId,
        delivered: AtomicBool,
    }

    impl Carrier for Quiet {
        fn me(&self) -> NodeId {
            self.me
        }
        fn ranks(&self) -> u16 {
            3
        }
        fn post_bytes_max(&self) -> usize {
            1 << 20
        }
        fn try_post(&self, _to: NodeId, _message: &[u8]) -> Result<bool> {
            Ok(true)
        }
        fn receive(&self, _timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
            Ok(None)
        }
        fn show_life(&self) -> Result<()> {
            Ok(())
        }
        fn liveness(&self, _rank: NodeId) -> Liveness {
            Liveness::Alive
        }
        fn liveness_by_signs(&self, _rank: NodeId) -> Liveness {
            Liveness::Dead("it is silent".into())
        }
        fn has_delivered(&self, _rank: NodeId) -> bool {
            self.delivered.load(Ordering::Relaxed)
        }
    }

    fn engine(me: u16, board: Option<&File>) -> (Quiet, Engine) {
        let me = NodeId(me);
        let carrier = Quiet { me, delivered: AtomicBool::new(true) };
        let shape = Shape {
            ranks: 3,
            pages: 0,
            page_bytes: 4096,
            locks: 8,
            log_capacity: 8,
            predict: false,
        };
        let rank = Rank::over(me, shape, Segment::private(4096, None).unwrap());
        let board = board.map(|file| Board::open(file, 3, me).unwrap());
        let engine = Engine::new(&carrier, rank, 4096, board, Identity::own());
        (carrier, engine)
    }

    fn missing(ranks: &[u16]) -> Vec<(NodeId, String)> {
        ranks.iter().map(|r| (NodeId(*r), "its process ended".to_owned())).collect()
    }

    #[test]
    fn a_rank_that_died_of_anothers_death_is_not_the_one_named() {
        let file = board::tests::blank(3);
        let ((first_carrier, mut first), (last_carrier, mut last)) =
            (engine(0, Some(&file)), engine(2, Some(&file)));
        let told = first.judge(&first_carrier, missing(&[1])).unwrap_err().to_string();
        assert_eq!(told, "rank 1 died holding no lock: its process ended");
        let late = last.judge(&last_carrier, missing(&[0, 1])).unwrap_err().to_string();
        assert_eq!(late, told);
        let (carrier, mut given_up) = engine(1, Some(&file));
        let e = given_up.judge(&carrier, missing(&[0, 2])).unwrap_err().to_string();
        assert_eq!(e, format!("the other ranks gave rank 1 up: {told}"));
    }

    #[test]
    fn ranks_of_which_nothing_tells_who_was_first_are_all_named() {
        let file = board::tests::blank(3);
        for board in [Some(&file), None] {
            let (carrier, mut engine) = engine(2, board);
            let judged = engine.judge(&carrier, missing(&[0, 1]));
            if let Some((_, until)) = &mut engine.grace_period {
                *until = Instant::now();
            }
            let e = judged.err().or_else(|| engine.grace_period_over()).unwrap().to_string();
            assert!(
                e.contains("rank 0 died holding") && e.contains("; rank 1 died holding"),
                "{e}"
            );
        }
    }

    #[test]
    fn without_a_board_those_noticed_first_are_named() {
        let (carrier, mut engine) = engine(2, None);
        engine.judge(&carrier, missing(&[1])).unwrap();
        assert!(engine.grace_period_over().is_none());
        engine.judge(&carrier, missing(&[0])).unwrap();
        engine.grace_period.as_mut().unwrap().1 = Instant::now();
        let e = engine.grace_period_over().unwrap().to_string();
        assert!(e.contains("rank 1 died") && !e.contains("rank 0 died"), "{e}");
    }

    /// A rank that is told of the end knows who is to blame by the board, or by what it was told
    /// before; the rank that tells need not be the one.
    #[test]
    fn a_rank_that_died_and_its_lock_are_fields_of_the_error() {
        let file = board::tests::blank(3);
        let dead = |e: &Error| (e.kind(), e.place().rank, e.place().peer, e.place().lock);
        let peer = Some(NodeId(1));
        let lost = |me, lock| (Kind::PeerLost, Some(NodeId(me)), peer, lock);
        Board::open(&file, 3, NodeId(1)).unwrap().show([LockId(5)].into_iter());
        let (carrier, mut first) = engine(0, Some(&file));
        let e = first.judge(&carrier, missing(&[1])).unwrap_err();
        assert_eq!(dead(&e), lost(0, Some(5)), "{e}");
        let abort = [&0u32.to_le_bytes()[..], &[0], &Body::Abort { why: "why".into() }.encode()];
        let (carrier, mut told) = engine(2, Some(&file));
        let e = told.take(&carrier, NodeId(0), abort.concat()).unwrap_err();
        assert_eq!(dead(&e), lost(2, None), "{e}");
        let (carrier, mut alone) = engine(2, None);
        alone.judge(&carrier, missing(&[1])).unwrap();
        let e = alone.take(&carrier, NodeId(0), abort.concat()).unwrap_err();
        assert_eq!(dead(&e), lost(2, None), "{e}");
        alone.peers[1].held = vec![LockId(7)];
        alone.grace_period.as_mut().unwrap().1 = Instant::now();
        assert_eq!(dead(&alone.grace_period_over().unwrap()), lost(2, Some(7)));
        let (carrier, mut given_up) = engine(1, Some(&file));
        let e = given_up.judge(&carrier, missing(&[0, 2])).unwrap_err();
        assert_eq!(e.place().peer, None, "it is this rank that was given up: {e}");
    }

    #[test]
    fn a_conductors_word_needs_no_failure_reports() {
        let (carrier, mut engine) = engine(2, None);
        let e = engine.lose(&carrier, NodeId(1), "gone".into()).to_string();
        assert_eq!(e, "rank 1 died holding no lock that the others manage: gone");
    }

    /// A program that waits for its own operation sleeps on while its rank serves others.
    #[test]
    fn what_is_served_is_no_news_to_the_program_and_a_letter_is() {
        let (carrier, mut engine) = engine(2, None);
        let mut take = |n: u32, body: &Body| {
            let frame = [&n.to_le_bytes()[..], &[0], &body.encode()].concat();
            engine.take(&carrier, NodeId(0), frame).unwrap()
        };
        let served = Body::Protocol(Message::Acquire { lock: LockId(2), seen: 0 });
        assert_eq!(take(0, &served), Taken::default());
        let news = Taken { is_news: true, ..Taken::default() };
        assert_eq!(take(1, &Body::Mail { channel: 0, tag: 1, bytes: vec![2] }), news);
        assert_eq!(take(2, &Body::Goodbye), news);
        let leaves = Body::Agreed { count: LEAVES, fingerprint: 3 };
        assert_eq!(take(3, &leaves), Taken { leaves_at: Some(3), ..news });
    }

    /// What this rank would say is what an answer says.
    #[test]
    fn a_rank_that_leaves_answers_a_report_and_counts_neither() {
        let (carrier, mut engine) = engine(2, None);
        let mut number = 0u32;
        let mut take = |engine: &mut Engine, body: &Body| {
            let frame = [&number.to_le_bytes()[..], &[0], &body.encode()].concat();
            number += 1;
            engine.take(&carrier, NodeId(0), frame).unwrap()
        };
        let waits = engine.own_report(Awaits::Flag(1));
        let news = Taken { is_news: true, ..Taken::default() };
        assert_eq!(take(&mut engine, &Body::Report(waits.clone())), news);
        take(&mut engine, &Body::Cv { act: CvAct::Set, cv: 2 });
        let messages = engine.traffic().0;
        engine.standstill.leave();
        take(&mut engine, &Body::Report(waits));
        let leaves = engine.own_report(Awaits::Leave);
        take(&mut engine, &Body::Report(leaves.clone()));
        assert_eq!(engine.traffic().0, messages + 1, "who leaves too is not answered");
        // The manager of the variable has said that it is set.
        assert_eq!((leaves.sent, leaves.taken), (vec![1, 0, 0], vec![1, 0, 0]));
    }

    #[test]
    fn a_process_that_ended_is_missing_once_its_messages_are_here() {
        let (carrier, mut engine) = engine(2, None);
        let child = Command::new("true").spawn().unwrap();
        let process = u64::from(child.id());
        let ended = Identity { process, start: 0, ..engine.identity };
        child.wait_with_output().unwrap();
        engine.peers[0].watch = Some(Watch::open(&engine.identity, ended));
        carrier.delivered.store(false, Ordering::Relaxed);
        assert_eq!(engine.missing(&carrier), []);
        carrier.delivered.store(true, Ordering::Relaxed);
        assert_eq!(engine.missing(&carrier), missing(&[0]));
    }

    /// As in a container of its own on this machine, or without `/proc`.
    #[test]
    fn a_rank_that_the_kernel_does_not_know_is_judged_by_its_signs_of_life() {
        let (carrier, mut engine) = engine(2, None);
        let own = engine.identity;
        engine.peers[1].watch = Some(Watch::open(&own, own));
        assert_eq!(engine.missing(&carrier), [], "rank 0 has not said who it is");
        let unknown = Identity { machine: 0, ..own };
        engine.peers[0].watch = Some(Watch::open(&own, unknown));
        assert_eq!(engine.missing(&carrier), [(NodeId(0), "it is silent".to_owned())]);
    }

    #[test]
    fn a_stopped_process_is_not_missing_and_is_said_once_per_stop() {
        let (carrier, mut engine) = engine(2, None);
        let mut command = Command::new("sleep");
        // A failure leaves the process for a while; it holds no pipe of a reader's.
        command.arg("1000").stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
        let start = start.parse().unwrap();
        let process = Identity { process: u64::from(child.id()), start, ..engine.identity };
        engine.peers[1].watch = Some(Watch::open(&engine.identity, process));
        let lines = |engine: &mut Engine, stopped: bool| {
            let halt = |e: &Engine| e.peers[1].watch.as_ref().unwrap().halt().is_some();
            while halt(engine) != stopped {
                std::thread::yield_now();
            }
            [Duration::ZERO, Duration::ZERO, Duration::MAX].map(|after| engine.halts(after).len())
        };
        for _ in 0..2 {
            kill_process(pid, Signal::STOP).unwrap();
            assert_eq!(lines(&mut engine, true), [0, 1, 0]);
            assert_eq!(engine.missing(&carrier), []);
            kill_process(pid, Signal::CONT).unwrap();
            assert_eq!(lines(&mut engine, false), [0; 3]);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(engine.missing(&carrier), missing(&[1]));
    }
}
