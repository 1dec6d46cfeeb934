//! The barrier of two ranks without a manager: each sends the other its arrival, and each computes
//! its own departure.
//!
//! ```text
//!    rank 0                                    rank 1
//!     | DiffsAlong, Wanted, Arrive ------------> |   in either order
//!     | <------------ DiffsAlong, Wanted, Arrive |
//!     | Page ----------------------------------> |   what rank 1 wants and rank 0 has written,
//!     | <---------------------------------- Page |   and the other way round
//! ```
//!
//! A rank departs when it has arrived and the other's arrival of the same generation is here. The
//! notices of both arrivals are the departure that a manager would have sent. Both ranks know what
//! each of them wants, so each sends the pages that it is the home of at its departure.
//!
//! Invariants
//! - A rank departs with the notices of both, after its own arrival and the other's, once a
//!   generation (mutants `dsm_exchange_departs_alone`, `dsm_exchange_loses_notices`,
//!   `dsm_exchange_any_generation`, `dsm_exchange_second_arrival`). Checked by
//!   `two_ranks_let_themselves_go`, `an_arrival_that_no_correct_rank_sends_is_refused`.
//! - An arrival is behind its sender's differences on one channel, so the receiver's pages have
//!   them when it departs. Whatever the sender asks for later is behind them too, so it does not
//!   wait for an acknowledgement. Checked by `barriers_publish_everything`.
//! - A wanted page is sent when both have arrived: before that its home may still write it (mutant
//!   `dsm_exchange_pages_early`). Checked by
//!   `pages_come_with_departures_in_a_program_of_two_colours`.
//! - A message of the next generation finds this rank departed: its sender departs after this
//!   rank's arrival, and its own arrival is in front of that message. Checked by
//!   `sections_and_barriers_mix`.
//! - A page handed out while differences are awaited, before the arrival is sent, is noticed in
//!   the next phase too (mutant `dsm_handed_out_in_barrier_unnoticed`). Checked by
//!   `a_page_handed_out_before_the_arrival_is_noticed_after_the_barrier`.

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::{BARRIER_MANAGER, Outcome, PageId, Rank, Waiting, protocol};
use crate::core::barrier::in_order;
use crate::core::frames::Frames;
use crate::core::message::{Message, Notice, PageRun};
use crate::core::pages::united;
use crate::error::Result;

/// What two ranks have told each other of the barrier that comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Exchange {
    /// Pages noticed in this rank's arrival, while it waits.
    told: Vec<PageRun>,
    /// Pages noticed in the other's arrival, until this rank departs.
    heard: Option<Vec<PageRun>>,
}

impl<F: Frames> Rank<F> {
    /// From now on this rank tells the other of its arrivals and departs without a manager; call on
    /// both ranks, before the first operation or message.
    ///
    /// # Panics
    /// When the job has another number of ranks than two, or something has been written already.
    pub fn exchange_arrivals(&mut self) {
        assert_eq!(self.shape.ranks, 2, "two ranks exchange their arrivals");
        assert!(self.open.is_empty() && self.generation == 0, "a barrier may be under way");
        self.exchange = Some(Exchange::default());
    }

    /// Whether this rank departs from barriers without a manager.
    pub(crate) fn exchanges_arrivals(&self) -> bool {
        self.exchange.is_some()
    }

    /// Who gets this rank's arrivals, where that is one rank for all that is told with them.
    pub(crate) fn arrives_at(&self) -> NodeId {
        if self.exchange.is_some() { NodeId(1 - self.me.0) } else { BARRIER_MANAGER }
    }

    /// Whether a manager lets the ranks go.
    pub(super) fn has_barrier_manager(&self) -> bool {
        self.exchange.is_none() && self.gather.is_none()
    }

    /// This rank has arrived: sends `pages`, and departs where the other has come before.
    pub(super) fn send_arrival(&mut self, pages: Vec<PageRun>, out: &mut Outcome) -> Result<()> {
        if self.gather.is_some() {
            return self.start_gathering(pages, out);
        }
        self.waiting = Waiting::Depart;
        if let Some(exchange) = &mut self.exchange {
            exchange.told.clone_from(&pages);
        }
        let generation = self.generation;
        out.send.push((self.arrives_at(), Message::Arrive { generation, pages }));
        self.depart_if_both_arrived(out)
    }

    /// Another rank's arrival, or at the manager this rank's own.
    pub(super) fn take_arrival(
        &mut self,
        from: NodeId,
        generation: u64,
        pages: Vec<PageRun>,
        out: &mut Outcome,
    ) -> Result<()> {
        let Some(exchange) = &self.exchange else {
            if self.gather.is_some() {
                return Err(protocol(format!("rank {from} arrived where no rank manages")));
            }
            self.managing_barrier(from)?;
            let departures = self.barrier.arrive(from, generation, &pages)?;
            return self.send_departures(departures, out);
        };
        let is_now = generation == self.generation || mutant!("dsm_exchange_any_generation");
        let is_first = exchange.heard.is_none() || mutant!("dsm_exchange_second_arrival");
        if from == self.me || !is_now || !is_first {
            let at = self.generation;
            let what = format!("barrier {at}: rank {from} arrived for {generation} or twice");
            return Err(protocol(what).at_generation(generation));
        }
        self.wanted_by(from).try_for_each(|page| self.at_home(from, page))?;
        if mutant!("dsm_exchange_pages_early") && self.waiting != Waiting::Depart {
            let wanted: Vec<PageId> = self.wanted_by(from).collect();
            self.take_wants();
            wanted.into_iter().try_for_each(|page| self.serve_page(from, page, out))?;
        }
        self.exchange = self.exchange.take().map(|e| Exchange { heard: Some(pages), ..e });
        self.depart_if_both_arrived(out)
    }

    /// Sends what the other rank wants and departs, once both arrivals are known.
    fn depart_if_both_arrived(&mut self, out: &mut Outcome) -> Result<()> {
        let Some(exchange) = self.exchange.as_mut().filter(|_| self.waiting == Waiting::Depart)
        else {
            return Ok(());
        };
        let alone = mutant!("dsm_exchange_departs_alone").then(Vec::new);
        let Some(mut heard) = exchange.heard.take().or(alone) else { return Ok(()) };
        if mutant!("dsm_exchange_loses_notices") {
            heard.clear();
        }
        let told = std::mem::take(&mut exchange.told);
        let by = |writer| move |pages| Notice { pages, writer };
        let ours = told.into_iter().map(by(self.me));
        let theirs = united(heard).into_iter().map(by(self.arrives_at()));
        let mut notices: Vec<Notice> = ours.chain(theirs).collect();
        in_order(&mut notices);
        self.send_wanted(&notices, out)?;
        self.depart(&notices, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::rank::Shape;
    use crate::error::Kind;

    const ZERO: NodeId = NodeId(0);
    const ONE: NodeId = NodeId(1);

    /// Pages 0 and 2 are at home at rank 0, pages 1 and 3 at rank 1.
    fn pair(prepare: impl Fn(&mut Rank)) -> [Rank; 2] {
        let (page_bytes, locks, log_capacity) = (2, 1, 8);
        let shape = Shape { ranks: 2, pages: 4, page_bytes, locks, log_capacity, predict: true };
        [ZERO, ONE].map(|me| {
            let mut rank = Rank::new(me, shape.clone());
            rank.exchange_arrivals();
            rank.keep_unshared_home();
            rank.send_along();
            prepare(&mut rank);
            rank
        })
    }

    /// The messages of a step, all of which go to the other rank, and whether it ended an
    /// operation.
    fn step(
        rank: &mut Rank,
        op: impl FnOnce(&mut Rank) -> Result<Outcome>,
    ) -> (Vec<Message>, bool) {
        let other = rank.arrives_at();
        let out = op(rank).unwrap();
        let sent = out.send.into_iter().map(|(to, message)| {
            assert_eq!(to, other);
            message
        });
        (sent.collect(), out.done)
    }

    /// Delivers messages from rank `from` to the other until none is left; whether its operation
    /// and then the other's ended.
    fn deliver(ranks: &mut [Rank; 2], from: NodeId, messages: Vec<Message>) -> [bool; 2] {
        let (mut ended, mut queue) = ([false; 2], vec![(from, messages)]);
        while let Some((from, messages)) = queue.pop() {
            let to = 1 - from.index();
            for message in messages {
                let (answers, done) = step(&mut ranks[to], |r| r.receive(from, message));
                ended[to] |= done;
                queue.push((NodeId(to as u16), answers));
            }
        }
        ended
    }

    fn read(ranks: &mut [Rank; 2], of: NodeId, page: u32) {
        let (ask, done) = step(&mut ranks[of.index()], |r| r.read(PageId(page)));
        assert!(done || deliver(ranks, of, ask)[of.index()]);
    }

    fn arrive(generation: u64, pages: &[u32]) -> Message {
        Message::Arrive {
            generation,
            pages: pages.iter().map(|page| PageId(*page).into()).collect(),
        }
    }

    #[test]
    fn two_ranks_let_themselves_go() {
        let mut ranks = pair(|_| ());
        for generation in 0..4 {
            read(&mut ranks, ONE, 0);
            let [zero, one] = &mut ranks;
            step(zero, |r| r.write(PageId(0)));
            zero.writable(PageId(0)).unwrap()[0] += 1;
            let (first, second) = if generation % 2 == 0 { (zero, one) } else { (one, zero) };
            let (told, done) = step(first, Rank::barrier);
            assert!(!done, "barrier {generation}: a rank departs before the other has arrived");
            let mut answers = Vec::new();
            for message in told {
                let (sent, done) = step(second, |r| r.receive(first.me, message));
                assert!(sent.is_empty() && !done);
            }
            let (told, done) = step(second, Rank::barrier);
            assert!(told.contains(&arrive(generation, &[0])) || second.me == ONE);
            let mut ended = [done, false];
            for message in told {
                let (sent, done) = step(first, |r| r.receive(second.me, message));
                answers.extend(sent);
                ended[1] |= done;
            }
            for message in answers {
                ended[0] |= step(second, |r| r.receive(first.me, message)).1;
            }
            assert_eq!(ended, [true; 2], "barrier {generation}");
            // It came with the departure, since rank 1 has a lease from the first read on.
            let value = ranks[1].readable(PageId(0)).map(|bytes| bytes[0]);
            assert_eq!(value, Some(generation as u8 + 1));
        }
    }

    #[test]
    fn an_arrival_that_no_correct_rank_sends_is_refused() {
        let [mut rank, _] = pair(|_| ());
        let refused = |rank: &mut Rank, from, message| {
            let before = rank.clone();
            let e = rank.receive(from, message).unwrap_err();
            assert_eq!((e.kind(), &*rank), (Kind::Protocol, &before), "{e}");
            e
        };
        assert_eq!(refused(&mut rank, ONE, arrive(1, &[])).place().generation, Some(1));
        refused(&mut rank, ZERO, arrive(0, &[]));
        rank.receive(ONE, arrive(0, &[])).unwrap();
        let e = refused(&mut rank, ONE, arrive(0, &[])).to_string();
        assert_eq!(e, "barrier 0: rank 1 arrived for 0 or twice");
        assert!(rank.barrier().unwrap().done);
        refused(&mut rank, ONE, arrive(0, &[]));
        assert!(!rank.barrier().unwrap().done);
        refused(&mut rank, ONE, arrive(2, &[]));
        let generation = 1;
        refused(&mut rank, ONE, Message::Depart { generation, notices: Vec::new() });
        refused(&mut rank, ONE, Message::Push { pages: vec![(PageId(0), ONE)] });
        for page in [PageId(1), PageId(4)] {
            let mut rank = rank.clone();
            let wanted = Message::Wanted { absent: Vec::new(), held: vec![page] };
            rank.receive(ONE, wanted).unwrap();
            refused(&mut rank, ONE, arrive(generation, &[]));
        }
    }

    /// Rank 0 evicts a written copy without fetching anything, so that its difference is not
    /// acknowledged when the barrier begins. Rank 1 asks for page 0 in that time.
    #[test]
    fn a_page_handed_out_before_the_arrival_is_noticed_after_the_barrier() {
        let mut ranks = pair(|rank| rank.limit_copies(3));
        let set = |ranks: &mut [Rank; 2], page, value| {
            ranks[0].writable(PageId(page)).unwrap()[0] = value;
        };
        step(&mut ranks[0], |r| r.write(PageId(0)));
        set(&mut ranks, 0, 7);
        read(&mut ranks, ZERO, 3);
        read(&mut ranks, ZERO, 1);
        step(&mut ranks[0], |r| r.write(PageId(1)));
        set(&mut ranks, 1, 1);
        let (evicted, done) = step(&mut ranks[0], |r| r.write(PageId(3)));
        assert!(done && matches!(evicted[..], [Message::Diffs { .. }]), "{evicted:?}");
        set(&mut ranks, 3, 1);
        let (ask, _) = step(&mut ranks[1], |r| r.read(PageId(0)));
        let (told, _) = step(&mut ranks[0], Rank::barrier);
        assert_eq!(told, [], "the arrival waits");
        assert_eq!(deliver(&mut ranks, ONE, ask), [false, true]);
        deliver(&mut ranks, ZERO, evicted);
        let (told, _) = step(&mut ranks[1], Rank::barrier);
        assert!(deliver(&mut ranks, ONE, told)[0]);
        assert!(ranks.iter().all(|rank| !rank.is_waiting()));
        set(&mut ranks, 0, 9);
        let (told, _) = step(&mut ranks[0], Rank::barrier);
        assert!(told.contains(&arrive(1, &[0])), "{told:?}");
    }
}
