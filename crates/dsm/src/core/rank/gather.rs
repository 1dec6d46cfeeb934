//! The barrier of three ranks or more without a manager: arrivals spread by dissemination.
//!
//! ```text
//!    round 0          round 1                       n = 5: three rounds
//!    0 -> 1           0 -> 2   {0, 4}
//!    1 -> 2           1 -> 3   {1, 0}               in round k each rank tells the one 2^k
//!    ...              ...                           after it what it has gathered so far
//!    4 -> 0           4 -> 1   {4, 3}
//! ```
//!
//! Before round `k` a rank has gathered the arrivals of the `2^k` ranks up to itself, which are
//! what the rank `2^k` after it lacks. After `ceil(log2 n)` rounds it has all of them, with their
//! notices and wanted pages, and departs. Each rank computes the same departure, so each home knows
//! which of its pages to send to whom, and each rank which pages come.
//!
//! Invariants
//! - A rank departs with the arrivals of all, once a generation (mutants
//!   `dsm_gather_departs_a_round_early`, `dsm_gather_loses_what_was_forwarded`). Checked by
//!   `any_number_of_ranks_departs_with_all_arrivals`, `barriers_of_many_ranks_publish_everything`.
//! - Differences are acknowledged by their homes before the arrival is told at all: a third rank
//!   may hear of them, and depart, before a home that is told them on the same channel has taken
//!   them in (mutant `dsm_gather_diffs_ride`). Checked by
//!   `barriers_of_many_ranks_publish_everything`.
//! - A message of the next generation may come before this rank has departed, for its sender may
//!   have; it waits. It is never one of two generations ahead, since that sender would have this
//!   rank's arrival of the next one. Checked by
//!   `what_comes_early_waits_and_what_no_rank_sends_is_refused`,
//!   `barriers_of_many_ranks_publish_everything`.
//! - Every rank compares what all have allocated before it departs (mutant
//!   `dsm_gather_compares_nothing`). Checked by `ranks_that_allocate_differently_are_told`.

use std::collections::BTreeMap;

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::{Outcome, PageId, Rank, Waiting, misuse, protocol};
use crate::core::barrier::in_order;
use crate::core::frames::Frames;
use crate::core::message::{Arrival, Message, Notice, PageRun};
use crate::core::pages::united;
use crate::error::{Error, Result};

/// What a rank has gathered of the barrier that comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Gather {
    /// Arrivals of the `2^round` ranks up to this one, from its own arrival on.
    known: BTreeMap<NodeId, Arrival>,
    /// The round whose message is awaited.
    round: u8,
    /// Messages that have come before they were awaited, by generation and round.
    early: BTreeMap<(u64, u8), Vec<Arrival>>,
    /// How often this rank has allocated, and one number for all of it.
    made: (u32, u64),
    /// Pages that this rank wants with its departure.
    wanted: Vec<PageId>,
}

/// Rounds after which each of `ranks` ranks has all arrivals.
fn rounds(ranks: u16) -> u8 {
    let bits = u16::BITS - (ranks - 1).leading_zeros();
    u8::try_from(bits).expect("invariant: a u16 has 16 bits")
}

impl<F: Frames> Rank<F> {
    /// From now on this rank and the others gather their arrivals and depart without a manager;
    /// call on every rank, before the first operation or message.
    ///
    /// # Panics
    /// When the job has fewer than three ranks, or something has been written already.
    pub fn gather_arrivals(&mut self) {
        assert!(self.shape.ranks > 2, "two ranks exchange their arrivals");
        assert!(self.open.is_empty() && self.generation == 0, "a barrier may be under way");
        self.gather = Some(Gather::default());
    }

    /// Whether this rank's arrivals carry what it has allocated.
    pub(crate) fn gathers_arrivals(&self) -> bool {
        self.gather.is_some()
    }

    /// What this rank has allocated, for its next arrival: how often, and one number for all of it.
    pub(crate) fn has_made(&mut self, count: u32, sum: u64) {
        self.gather.iter_mut().for_each(|gather| gather.made = (count, sum));
    }

    /// Keeps wanted pages for the arrival that they travel with; whether they travel so.
    pub(super) fn gather_wanted(&mut self, wanted: &[PageId]) -> bool {
        self.gather.iter_mut().for_each(|gather| gather.wanted = wanted.to_vec());
        self.gather.is_some()
    }

    /// The rank `2^round` places after this one, or before it.
    fn partner(&self, round: u8, after: bool) -> NodeId {
        let (n, step) = (u32::from(self.shape.ranks), 1 << round);
        let at = u32::from(self.me.0) + if after { step } else { n - step };
        NodeId(u16::try_from(at % n).expect("invariant: below the number of ranks"))
    }

    /// The rank that hears of this one's arrival first.
    pub(super) fn first_told(&self) -> NodeId {
        self.partner(0, true)
    }

    /// This rank has arrived; `pages` are what it has written.
    pub(super) fn start_gathering(&mut self, pages: Vec<PageRun>, out: &mut Outcome) -> Result<()> {
        self.waiting = Waiting::Depart;
        let me = self.me;
        let gather = self.gather.as_mut().expect("invariant: only a rank that gathers starts");
        let wanted = std::mem::take(&mut gather.wanted);
        let own = Arrival { rank: me, made: gather.made, pages, wanted };
        gather.known = BTreeMap::from([(me, own)]);
        gather.round = 0;
        self.tell_gathered(out);
        self.gather_on(out)
    }

    /// Tells the partner of this round what this rank has gathered.
    fn tell_gathered(&self, out: &mut Outcome) {
        let Some(Gather { known, round, .. }) = &self.gather else { return };
        let arrivals = known.values().cloned().collect();
        let (generation, round) = (self.generation, *round);
        let to = self.partner(round, true);
        out.send.push((to, Message::Gather { generation, round, arrivals }));
    }

    /// Takes what another rank has gathered.
    pub(super) fn take_gathered(
        &mut self,
        from: NodeId,
        generation: u64,
        round: u8,
        arrivals: Vec<Arrival>,
        out: &mut Outcome,
    ) -> Result<()> {
        let now = self.generation;
        let refused = || {
            let what = format!("barrier {now}: rank {from} told of {generation}, round {round}");
            Err(protocol(what).at_generation(generation))
        };
        let n = self.shape.ranks;
        let Some(gather) = self.gather.as_ref().filter(|_| round < rounds(n)) else {
            return refused();
        };
        let is_waiting = self.waiting == Waiting::Depart;
        let is_awaited = generation == now && !(is_waiting && round < gather.round);
        // Its sender has departed, so this rank has arrived.
        let is_next = is_waiting && generation.checked_sub(1) == Some(now);
        let is_first = !gather.early.contains_key(&(generation, round));
        let senders = (0..1u32 << round).map(|back| {
            let at = u32::from(from.0) + u32::from(n) - back;
            NodeId((at % u32::from(n)) as u16)
        });
        let mut named: Vec<NodeId> = senders.collect();
        named.sort_unstable();
        let is_whole = arrivals.iter().map(|arrival| arrival.rank).eq(named);
        let is_partner = self.partner(round, false) == from;
        if !(is_partner && is_whole && is_first && (is_awaited || is_next)) {
            return refused();
        }
        if let Some(gather) = &mut self.gather {
            gather.early.insert((generation, round), arrivals);
        }
        self.gather_on(out)
    }

    /// Takes what has come of the rounds that are due, and departs after the last.
    fn gather_on(&mut self, out: &mut Outcome) -> Result<()> {
        while self.waiting == Waiting::Depart {
            let (now, last) = (self.generation, rounds(self.shape.ranks));
            let Some(round) = self.gather.as_ref().map(|gather| gather.round) else {
                return Ok(());
            };
            let from = self.partner(round, false);
            let Some(gather) = &mut self.gather else { return Ok(()) };
            let Some(mut arrivals) = gather.early.remove(&(now, round)) else {
                return Ok(());
            };
            if mutant!("dsm_gather_loses_what_was_forwarded") {
                let forwarded = arrivals.iter_mut().filter(|arrival| arrival.rank != from);
                forwarded.for_each(|arrival| arrival.pages.clear());
            }
            gather.known.extend(arrivals.into_iter().map(|arrival| (arrival.rank, arrival)));
            gather.round += 1;
            let early = u8::from(mutant!("dsm_gather_departs_a_round_early"));
            if gather.round >= last - early {
                return self.depart_gathered(out);
            }
            self.tell_gathered(out);
        }
        Ok(())
    }

    /// Sends what other ranks want of this one and departs.
    fn depart_gathered(&mut self, out: &mut Outcome) -> Result<()> {
        let gather = self.gather.as_mut().expect("invariant: only a rank that gathers departs so");
        let all = std::mem::take(&mut gather.known);
        let own = gather.made;
        let differs = |arrival: &&Arrival| arrival.made != own;
        if let Some(other) =
            all.values().find(differs).filter(|_| !mutant!("dsm_gather_compares_nothing"))
        {
            let e = allocated_differently(other.rank, other.made.0);
            return Err(e.at_rank(self.me).at_peer(other.rank));
        }
        let mut notices = Vec::new();
        for arrival in all.values() {
            let runs = united(arrival.pages.clone()).into_iter();
            notices.extend(runs.map(|pages| Notice { pages, writer: arrival.rank }));
        }
        in_order(&mut notices);
        let me = self.me;
        for arrival in all.values().filter(|arrival| arrival.rank != me) {
            self.send_gathered(arrival, &notices, out)?;
        }
        self.depart(&notices, out);
        Ok(())
    }

    /// Sends the pages kept here that a rank wants and the departure names.
    fn send_gathered(
        &mut self,
        arrival: &Arrival,
        notices: &[Notice],
        out: &mut Outcome,
    ) -> Result<()> {
        for page in arrival.wanted.iter().copied() {
            if self.is_wanted_here(page, arrival.rank, notices)? {
                self.serve_page(arrival.rank, page, out)?;
            }
        }
        Ok(())
    }
}

/// A rank that has not allocated what the others have.
pub(crate) fn allocated_differently(rank: NodeId, count: u32) -> Error {
    misuse(format!(
        "rank {rank} made another allocation {count} than the ranks before it: every rank \
         allocates the same lengths in the same order"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::rank::Shape;
    use crate::error::Kind;
    use std::collections::VecDeque;

    fn ranks(n: u16) -> Vec<Rank> {
        let (page_bytes, locks, log_capacity) = (2, 1, 8);
        let pages = 2 * u32::from(n);
        let shape = Shape { ranks: n, pages, page_bytes, locks, log_capacity, predict: true };
        let rank = |me| {
            let mut rank = Rank::new(NodeId(me), shape.clone());
            rank.gather_arrivals();
            rank
        };
        (0..n).map(rank).collect()
    }

    #[test]
    fn rounds_are_as_few_as_can_be() {
        let wanted = [(3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (u16::MAX, 16)];
        wanted.into_iter().for_each(|(n, of)| assert_eq!(rounds(n), of, "{n} ranks"));
    }

    /// Every rank writes its own home page, of which the next rank has a copy. Messages of the
    /// highest ranks are delivered first, so that some come early.
    #[test]
    fn any_number_of_ranks_departs_with_all_arrivals() {
        for n in 3..12 {
            let mut ranks = ranks(n);
            let all = usize::from(n);
            for generation in 0..3 {
                let mut queues: Vec<VecDeque<(NodeId, Message)>> = vec![VecDeque::new(); all];
                let (mut done, mut sent) = (vec![false; all], 0);
                for me in 0..all {
                    let page = PageId(me as u32);
                    // Another rank's copy, which the barrier makes invalid.
                    ranks[(me + 1) % all].access[me] = super::super::Access::Shared;
                    ranks[me].write(page).unwrap();
                    let out = ranks[me].barrier().unwrap();
                    assert!(!out.done, "rank {me} departs before the others have arrived");
                    queues[me].extend(out.send);
                }
                while let Some(from) = (0..all).rev().find(|from| !queues[*from].is_empty()) {
                    let (to, message) = queues[from].pop_front().unwrap();
                    sent += 1;
                    let out = ranks[to.index()].receive(NodeId(from as u16), message).unwrap();
                    done[to.index()] |= out.done;
                    queues[to.index()].extend(out.send);
                }
                assert!(done.iter().all(|done| *done), "{n} ranks, barrier {generation}");
                assert_eq!(sent, all * usize::from(rounds(n)));
                for me in 0..all {
                    let copy = ranks[(me + 1) % all].readable(PageId(me as u32));
                    assert_eq!(copy, None, "rank {} keeps page {me}", (me + 1) % all);
                }
            }
        }
    }

    #[test]
    fn what_comes_early_waits_and_what_no_rank_sends_is_refused() {
        let mut all = ranks(4);
        let rank = &mut all[2];
        let arrival = |rank| Arrival {
            rank: NodeId(rank),
            made: (0, 0),
            pages: Vec::new(),
            wanted: Vec::new(),
        };
        let told = |generation, round, ranks: &[u16]| Message::Gather {
            generation,
            round,
            arrivals: ranks.iter().map(|rank| arrival(*rank)).collect(),
        };
        let refused = |rank: &mut Rank, from, message| {
            let before = rank.clone();
            let e = rank.receive(NodeId(from), message).unwrap_err();
            assert_eq!((e.kind(), &*rank), (Kind::Protocol, &before), "{e}");
        };
        // The second round comes first, of a rank that is ahead.
        assert_eq!(rank.receive(NodeId(0), told(0, 1, &[0, 3])).unwrap(), Outcome::default());
        refused(rank, 0, told(0, 1, &[0, 3]));
        refused(rank, 1, told(1, 0, &[1]));
        refused(rank, 0, told(0, 0, &[0]));
        refused(rank, 1, told(0, 0, &[3]));
        refused(rank, 1, told(0, 0, &[]));
        refused(rank, 1, told(0, 2, &[1]));
        refused(rank, 0, Message::Depart { generation: 0, notices: Vec::new() });
        refused(rank, 0, Message::Push { pages: Vec::new() });
        refused(rank, 1, Message::Arrive { generation: 0, pages: Vec::new() });
        assert!(!rank.barrier().unwrap().done);
        // The next generation may come now, the one after it not.
        assert!(!rank.receive(NodeId(0), told(1, 1, &[0, 3])).unwrap().done);
        refused(rank, 0, told(2, 1, &[0, 3]));
        assert!(rank.receive(NodeId(1), told(0, 0, &[1])).unwrap().done);
        refused(rank, 1, told(0, 0, &[1]));
        assert!(!rank.barrier().unwrap().done);
        assert!(rank.receive(NodeId(1), told(1, 0, &[1])).unwrap().done);
    }
}
