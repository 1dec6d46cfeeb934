//! A job in a box: ranks, in-order channels between every pair, small programs, and the oracle.
//!
//! Programs are free of data races by construction: every location belongs to one lock and is
//! touched only in that lock's sections, or belongs to a barrier phase and is written by one rank.
//! So a plain shadow memory, updated in the order in which operations end, is what scope
//! consistency promises each read; no reading of the protocol's own state enters it.

#![allow(dead_code, clippy::unwrap_used)]

mod alone;

use std::collections::{BTreeMap, VecDeque};

use littoral_base::units::NodeId;
use littoral_dsm::core::message::{LockId, Message, PageId};
use littoral_dsm::core::rank::{Ending, Outcome, Rank, Shape};

use alone::Alone;
pub(crate) use alone::Way;

/// A byte of shared memory.
pub(crate) type Place = (u32, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Lock(u32),
    Unlock(u32),
    Barrier,
    /// Reads and compares with the oracle.
    Read(Place),
    /// Writes a value.
    Write(Place, u8),
    /// Reads, compares, writes the value plus one.
    Increment(Place),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Job {
    pub(crate) ranks: Vec<Rank>,
    pub(crate) channels: BTreeMap<(NodeId, NodeId), VecDeque<Message>>,
    pub(crate) programs: Vec<VecDeque<Step>>,
    /// The step each rank has begun and not ended.
    pub(crate) begun: Vec<Option<Step>>,
    pub(crate) shadow: BTreeMap<Place, u8>,
    /// What went wrong, if anything did.
    pub(crate) verdict: Option<String>,
    /// Where ranks reach each other's frames: no message is sent then.
    pub(crate) alone: Option<Alone>,
}

/// One thing that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Move {
    Run(usize),
    Deliver(NodeId, NodeId),
    /// A step of an operation that needs no other rank's.
    GoOn(usize),
}

impl Job {
    pub(crate) fn new(shape: &Shape, programs: &[&[Step]]) -> Self {
        let n = programs.len();
        assert_eq!(n, usize::from(shape.ranks));
        let rank = |r| Rank::new(NodeId(r), shape.clone());
        Job {
            ranks: (0..shape.ranks).map(rank).collect(),
            channels: BTreeMap::new(),
            programs: programs.iter().map(|p| p.iter().copied().collect()).collect(),
            begun: vec![None; n],
            shadow: BTreeMap::new(),
            verdict: None,
            alone: None,
        }
    }

    /// Has the ranks reach each other's frames, locks and notices in shared memory.
    pub(crate) fn without_server(mut self, log_capacity: usize, way: Way) -> Self {
        self.alone = Some(Alone::new(self.ranks.len(), log_capacity, way));
        self
    }

    /// Has every home write unnoticed what no other rank has a copy of.
    pub(crate) fn keep_unshared_homes(mut self) -> Self {
        self.ranks.iter_mut().for_each(Rank::keep_unshared_home);
        self
    }

    /// Has differences travel with the next message and pages come before they are asked for.
    pub(crate) fn send_along(mut self) -> Self {
        self.ranks.iter_mut().for_each(Rank::send_along);
        self
    }

    /// Has the two ranks tell each other of their arrivals at barriers.
    pub(crate) fn exchange_arrivals(mut self) -> Self {
        self.ranks.iter_mut().for_each(Rank::exchange_arrivals);
        self
    }

    /// Has three ranks or more gather their arrivals at barriers.
    pub(crate) fn gather_arrivals(mut self) -> Self {
        self.ranks.iter_mut().for_each(Rank::gather_arrivals);
        self
    }

    /// Has every rank keep at most so many copies and twins.
    pub(crate) fn limit_copies(mut self, pages: usize) -> Self {
        self.ranks.iter_mut().for_each(|rank| rank.limit_copies(pages));
        self
    }

    pub(crate) fn moves(&self) -> Vec<Move> {
        if self.verdict.is_some() {
            return Vec::new();
        }
        let is_short = |r| self.alone.as_ref().is_some_and(|alone| alone.is_on_short_way(r));
        let is_busy = |r: usize| self.ranks[r].is_waiting() || is_short(r);
        let can_run = |&r: &usize| !is_busy(r) && !self.programs[r].is_empty();
        let run = (0..self.ranks.len()).filter(can_run).map(Move::Run);
        let full = self.channels.iter().filter(|(_, q)| !q.is_empty());
        let alone = |r: &usize| self.alone.as_ref().is_some_and(|alone| alone.can_go_on(*r));
        let go_on = (0..self.ranks.len()).filter(alone).map(Move::GoOn);
        run.chain(full.map(|((a, b), _)| Move::Deliver(*a, *b))).chain(go_on).collect()
    }

    /// Runs `steps` steps of rank `r`, each to its end, delivering everything in between.
    pub(crate) fn run_alone(&mut self, r: usize, steps: usize) {
        for _ in 0..steps {
            self.apply(Move::Run(r));
            while let Some(m) = self.moves().into_iter().find(|m| !matches!(m, Move::Run(_))) {
                self.apply(m);
            }
            assert!(!self.ranks[r].is_waiting(), "rank {r} waits for a step of another");
        }
    }

    pub(crate) fn finished(&self) -> bool {
        self.programs.iter().all(VecDeque::is_empty)
            && self.begun.iter().all(Option::is_none)
            && self.channels.values().all(VecDeque::is_empty)
            && self.alone.as_ref().is_none_or(Alone::is_idle)
    }

    pub(crate) fn apply(&mut self, m: Move) {
        match m {
            Move::Run(r) => self.run(r),
            Move::Deliver(from, to) => {
                let queue = self.channels.get_mut(&(from, to)).unwrap();
                let message = queue.pop_front().unwrap();
                let outcome = self.ranks[to.index()].receive(from, message);
                self.absorb(to.index(), outcome);
            }
            Move::GoOn(r) => {
                let stepped = self.alone.as_mut().unwrap().step(r, &mut self.ranks);
                if let Some(outcome) = stepped {
                    self.absorb(r, outcome);
                }
            }
        }
    }

    fn run(&mut self, r: usize) {
        let step = self.programs[r].pop_front().unwrap();
        self.begun[r] = Some(step);
        let rank = &mut self.ranks[r];
        // Like a fault layer: an access that needs no fault is not reported to the protocol.
        let free = match step {
            Step::Read((page, _)) => rank.readable(PageId(page)).is_some(),
            Step::Write((page, _), _) | Step::Increment((page, _)) => {
                rank.writable(PageId(page)).is_some()
            }
            Step::Lock(_) | Step::Unlock(_) | Step::Barrier => false,
        };
        if free {
            let done = Outcome { done: true, ..Outcome::default() };
            return self.absorb(r, Ok(done));
        }
        let ending = match step {
            Step::Lock(l) => Some(Ending::Lock(LockId(l))),
            Step::Unlock(l) => Some(Ending::Unlock(LockId(l))),
            Step::Barrier => Some(Ending::Barrier),
            Step::Read(_) | Step::Write(..) | Step::Increment(_) => None,
        };
        if let (Some(alone), Some(ending)) = (&mut self.alone, ending) {
            alone.look_at_rings(r, &mut self.ranks);
            match alone.begin_short(r, ending, &mut self.ranks) {
                Ok(true) => return,
                Ok(false) => {}
                Err(e) => return self.absorb(r, Err(e)),
            }
        }
        let rank = &mut self.ranks[r];
        let outcome = match (ending, step) {
            (Some(ending), _) => rank.end_by(ending),
            (None, Step::Read((page, _))) => rank.read(PageId(page)),
            (None, Step::Write((page, _), _) | Step::Increment((page, _))) => {
                rank.write(PageId(page))
            }
            (None, other) => panic!("{other:?} ends a scope"),
        };
        self.absorb(r, outcome);
    }

    fn absorb(&mut self, r: usize, outcome: littoral_dsm::Result<Outcome>) {
        let outcome = match outcome {
            Ok(o) => o,
            Err(e) => {
                self.verdict = Some(e.to_string());
                return;
            }
        };
        let sent = match &mut self.alone {
            Some(alone) => {
                alone.send(r, outcome.send);
                Vec::new()
            }
            None => outcome.send,
        };
        for (to, message) in sent {
            self.channels.entry((NodeId(r as u16), to)).or_default().push_back(message);
        }
        if outcome.done {
            let step = self.begun[r].take().unwrap();
            self.carry_out(r, step);
        }
    }

    fn carry_out(&mut self, r: usize, step: Step) {
        match step {
            Step::Read(place) => {
                self.check(r, place);
            }
            Step::Write(place, value) => self.store(r, place, value),
            Step::Increment(place) => {
                let value = self.check(r, place);
                self.store(r, place, value.wrapping_add(1));
            }
            Step::Lock(_) | Step::Unlock(_) | Step::Barrier => {}
        }
    }

    fn check(&mut self, r: usize, place: Place) -> u8 {
        let found = self.ranks[r].readable(PageId(place.0)).expect("readable after read")[place.1];
        let wanted = self.shadow.get(&place).copied().unwrap_or(0);
        if found != wanted {
            self.verdict = Some(format!("rank {r} read {found} at {place:?}, wanted {wanted}"));
        }
        found
    }

    fn store(&mut self, r: usize, place: Place, value: u8) {
        self.ranks[r].writable(PageId(place.0)).expect("writable after write")[place.1] = value;
        self.shadow.insert(place, value);
    }
}
