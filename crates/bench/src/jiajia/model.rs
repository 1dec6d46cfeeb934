//! The real protocol core driven by a program's accesses in virtual time.
//!
//! A program is, for each rank, a sequence of computing, page accesses, locks and barriers. Every
//! access goes to a [`Rank`] of `littoral-dsm`; the messages it wants sent travel with the costs of
//! a [`Costs`], and what comes of them is what the core says. Nothing of the protocol is restated
//! here: only time is added.
//!
//! Where time goes (the paper's parts): *busy* is computing; *data* is waiting for pages, *segv*
//! entering and leaving the fault handler; *syn* is waiting for locks and barriers and for diffs to
//! be acknowledged; *server* is what serving others takes from a rank that was computing.
//!
//! Invariants
//! - Equal programs give equal runs: the queue breaks ties by order of scheduling.
//! - A message takes the sender's processor for `send`, its interface for its bytes, and arrives
//!   `latency` later; messages between two ranks stay in order.
//! - Serving takes `trap` of the receiver's processor, one message after another; a rank that waits
//!   loses nothing by it, one that computes computes on that much later.
//! - With a board, requests, grants, releases, arrivals and departures cost no processor but the
//!   asker's, and pages and diffs are moved by the hardware.

use littoral_base::sim::Queue;
use littoral_base::units::{NodeId, Picos};
use littoral_dsm::core::message::{LockId, Message, PageId};
use littoral_dsm::core::rank::{Envelope, Outcome, Rank, Shape};
use littoral_dsm::core::wire;

/// Bytes of a page of the paper's system.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a message beyond the protocol's own: UDP, IP and frame.
const HEAD_BYTES: u64 = 64;

/// What a platform's operations take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Processor time to hand a message to the network.
    pub send: Picos,
    /// From the last byte sent to the message in the receiver's memory.
    pub latency: Picos,
    /// A byte on the interface.
    pub byte: Picos,
    /// Processor time to serve a message: interrupt, handler, copies.
    pub trap: Picos,
    /// Entering and leaving the fault handler, twin included.
    pub fault: Picos,
    /// One operation of the lock manager in hardware; absent where a rank manages locks.
    pub board: Option<Picos>,
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computing.
    Compute(Picos),
    /// Reading a page.
    Read(u32),
    /// Writing so many bytes of a page.
    Write(u32, u16),
    /// Entering a section.
    Lock(u32),
    /// Leaving it.
    Unlock(u32),
    /// A barrier.
    Barrier,
}

/// A program as its ranks' steps; each call gives the next stretch of a rank's, until none is left.
pub trait Workload {
    /// Pages, each rank keeping an equal block of them.
    fn pages(&self, ranks: u16) -> u32;
    /// The next steps of `rank` of `ranks`.
    fn stretch(&mut self, rank: u16, ranks: u16) -> Option<Vec<Step>>;
}

/// Where the time of a rank went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Computing.
    pub busy: Picos,
    /// Waiting for pages.
    pub data: Picos,
    /// The fault handler.
    pub segv: Picos,
    /// Waiting for locks, barriers, acknowledgements.
    pub syn: Picos,
    /// Serving others while computing.
    pub server: Picos,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// When the last rank was done.
    pub total: Picos,
    /// Where each rank's time went.
    pub parts: Vec<Parts>,
    /// Messages between ranks, or between a rank and the board.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Faults: misses and first writes.
    pub faults: u64,
}

impl Ended {
    /// Shares of the total, means over ranks: data with segv, syn, server, in per cent.
    pub fn shares(&self) -> [f64; 3] {
        let total = self.total.0 as f64 * self.parts.len() as f64 / 100.0;
        let sum = |f: fn(&Parts) -> u64| self.parts.iter().map(f).sum::<u64>() as f64 / total;
        [sum(|p| p.data.0 + p.segv.0), sum(|p| p.syn.0), sum(|p| p.server.0)]
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Computing,
    Data,
    Syn,
    Done,
}

enum Event {
    /// A rank's program goes on.
    Go(usize),
    /// A message is in a rank's memory.
    Arrive(usize, NodeId, Message),
    /// It has been served.
    Serve(usize, NodeId, Message),
}

struct Place {
    rank: Rank,
    steps: std::vec::IntoIter<Step>,
    doing: Doing,
    since: Picos,
    /// A write whose page is being fetched.
    pending: Option<(u32, u16)>,
    stolen: Picos,
    interface_free: Picos,
    server_free: Picos,
    parts: Parts,
    writes: u64,
}

struct Job<'w> {
    workload: &'w mut dyn Workload,
    costs: Costs,
    queue: Queue<Event>,
    places: Vec<Place>,
    ended: Ended,
}

/// Runs `workload` on `ranks` ranks.
///
/// # Errors
/// What the protocol refused; a workload that keeps its rules is refused nothing.
pub fn run(workload: &mut dyn Workload, ranks: u16, costs: Costs) -> Result<Ended, String> {
    let pages = workload.pages(ranks).next_multiple_of(u32::from(ranks));
    let shape = Shape {
        ranks,
        pages: 0,
        page_bytes: PAGE_BYTES,
        locks: 64,
        log_capacity: 4096,
        predict: false,
    };
    let place = |n| {
        let mut rank = Rank::new(NodeId(n), shape.clone());
        rank.extend(pages, (pages / u32::from(ranks)).max(1), NodeId(0));
        Place {
            rank,
            steps: Vec::new().into_iter(),
            doing: Doing::Computing,
            since: Picos::ZERO,
            pending: None,
            stolen: Picos::ZERO,
            interface_free: Picos::ZERO,
            server_free: Picos::ZERO,
            parts: Parts::default(),
            writes: 0,
        }
    };
    let places = (0..ranks).map(place).collect();
    let ended = Ended::default();
    let mut job = Job { workload, costs, queue: Queue::new(), places, ended };
    (0..usize::from(ranks)).for_each(|n| job.queue.schedule(Picos::ZERO, Event::Go(n)));
    job.drive()?;
    Ok(job.close())
}

fn by_board(message: &Message) -> bool {
    !matches!(message, Message::GetPage { .. } | Message::Page { .. } | Message::Diffs { .. })
        && *message != Message::DiffsApplied
}

fn node(n: usize) -> NodeId {
    NodeId(u16::try_from(n).expect("invariant: ranks are a u16"))
}

impl Job<'_> {
    fn drive(&mut self) -> Result<(), String> {
        while let Some((_, event)) = self.queue.pop() {
            match event {
                Event::Go(n) => self.go(n)?,
                Event::Arrive(n, from, message) => self.arrive(n, from, message),
                Event::Serve(n, from, message) => self.serve(n, from, message)?,
            }
        }
        match self.places.iter().position(|p| p.doing != Doing::Done) {
            Some(n) => Err(format!("rank {n} waits for ever")),
            None => Ok(()),
        }
    }

    fn close(mut self) -> Ended {
        self.ended.parts = self.places.iter().map(|p| p.parts).collect();
        let faults = |p: &Place| p.rank.counts().misses + p.rank.counts().upgrades;
        self.ended.faults = self.places.iter().map(faults).sum();
        self.ended
    }

    /// Takes the next steps of a rank until one takes time.
    fn go(&mut self, n: usize) -> Result<(), String> {
        let stolen = std::mem::take(&mut self.places[n].stolen);
        if stolen > Picos::ZERO {
            self.places[n].parts.server += stolen;
            self.queue.schedule_in(stolen, Event::Go(n));
            return Ok(());
        }
        loop {
            let Some(step) = self.next_step(n) else {
                self.places[n].doing = Doing::Done;
                self.ended.total = self.ended.total.max(self.queue.now());
                return Ok(());
            };
            if self.take(n, step)? {
                return Ok(());
            }
        }
    }

    fn next_step(&mut self, n: usize) -> Option<Step> {
        loop {
            if let Some(step) = self.places[n].steps.next() {
                return Some(step);
            }
            let ranks = node(self.places.len()).0;
            self.places[n].steps = self.workload.stretch(node(n).0, ranks)?.into_iter();
        }
    }

    /// Carries out a step; whether the rank is under way with it.
    fn take(&mut self, n: usize, step: Step) -> Result<bool, String> {
        let place = &mut self.places[n];
        let words = |e: littoral_dsm::Error| e.to_string();
        let (outcome, doing) = match step {
            Step::Compute(length) => {
                place.parts.busy += length;
                place.doing = Doing::Computing;
                self.queue.schedule_in(length, Event::Go(n));
                return Ok(true);
            }
            Step::Read(page) => return self.access(n, page, None),
            Step::Write(page, bytes) => return self.access(n, page, Some(bytes)),
            Step::Lock(lock) => (place.rank.lock(LockId(lock)).map_err(words)?, Doing::Syn),
            Step::Unlock(lock) => (place.rank.unlock(LockId(lock)).map_err(words)?, Doing::Syn),
            Step::Barrier => (place.rank.barrier().map_err(words)?, Doing::Syn),
        };
        self.wait(n, doing, outcome)
    }

    fn access(&mut self, n: usize, page: u32, write: Option<u16>) -> Result<bool, String> {
        let place = &mut self.places[n];
        let before = place.rank.counts();
        let outcome = match write {
            None => place.rank.read(PageId(page)),
            Some(_) => place.rank.write(PageId(page)),
        };
        let outcome = outcome.map_err(|e| e.to_string())?;
        let after = place.rank.counts();
        if outcome.done {
            write.into_iter().for_each(|bytes| place.scribble(page, bytes));
        } else {
            place.pending = write.map(|bytes| (page, bytes));
        }
        if (before.misses, before.upgrades) == (after.misses, after.upgrades) {
            return Ok(false);
        }
        place.parts.segv += self.costs.fault;
        if outcome.done {
            place.doing = Doing::Computing;
            self.queue.schedule_in(self.costs.fault, Event::Go(n));
            return Ok(true);
        }
        let begun = self.queue.now() + self.costs.fault;
        self.begin(n, Doing::Data, begun);
        self.send_all(n, begun, outcome.send);
        Ok(true)
    }

    fn wait(&mut self, n: usize, doing: Doing, outcome: Outcome) -> Result<bool, String> {
        let now = self.queue.now();
        self.begin(n, doing, now);
        let sent = self.send_all(n, now, outcome.send);
        if outcome.done {
            self.places[n].parts.syn += Picos(sent.0 - now.0);
            self.places[n].doing = Doing::Computing;
            self.queue.schedule(sent, Event::Go(n));
        }
        Ok(true)
    }

    fn begin(&mut self, n: usize, doing: Doing, since: Picos) {
        (self.places[n].doing, self.places[n].since) = (doing, since);
    }

    /// Sends from a rank's processor, one message after another; when it is free again.
    fn send_all(&mut self, n: usize, from: Picos, envelopes: Vec<Envelope>) -> Picos {
        let mut at = from;
        for (to, message) in envelopes {
            at = self.send(n, to, message, at);
        }
        at
    }

    fn send(&mut self, n: usize, to: NodeId, message: Message, at: Picos) -> Picos {
        let bytes = wire::encode(&message).len() as u64 + HEAD_BYTES;
        let to = to.index();
        let board = self.costs.board.filter(|_| by_board(&message));
        if to != n || board.is_some() {
            self.ended.messages += 1;
            self.ended.bytes += bytes;
        }
        if let Some(operation) = board {
            // A request or a grant: the hardware's, whoever manages the lock in the core.
            self.queue.schedule(at + operation, Event::Serve(to, node(n), message));
            return at;
        }
        if to == n {
            self.queue.schedule(at, Event::Serve(to, node(n), message));
            return at;
        }
        let ready = at + self.costs.send;
        let depart = ready.max(self.places[n].interface_free);
        let sent = depart + Picos(self.costs.byte.0 * bytes);
        self.places[n].interface_free = sent;
        self.queue.schedule(sent + self.costs.latency, Event::Arrive(to, node(n), message));
        ready
    }

    /// A message takes the processor it came to, in turn, unless hardware serves it or the rank
    /// itself waits for it.
    fn arrive(&mut self, n: usize, from: NodeId, message: Message) {
        let place = &mut self.places[n];
        let now = self.queue.now();
        let begin = now.max(place.server_free);
        let served = match self.costs.board {
            Some(_) => begin,
            None => begin + self.costs.trap,
        };
        place.server_free = served;
        let answers = matches!(
            message,
            Message::Page { .. }
                | Message::DiffsApplied
                | Message::Grant { .. }
                | Message::Depart { .. }
        );
        if place.doing == Doing::Computing && !answers {
            place.stolen += Picos(served.0 - begin.0);
        }
        self.queue.schedule(served, Event::Serve(n, from, message));
    }

    fn serve(&mut self, n: usize, from: NodeId, message: Message) -> Result<(), String> {
        let outcome = self.places[n].rank.receive(from, message).map_err(|e| e.to_string())?;
        let now = self.queue.now();
        let sends = !outcome.send.is_empty();
        let free = self.send_all(n, now, outcome.send);
        if sends {
            let place = &mut self.places[n];
            place.server_free = place.server_free.max(free);
            if place.doing == Doing::Computing {
                place.stolen += Picos(free.0 - now.0);
            }
        }
        if outcome.done {
            self.resume(n, now.max(free));
        }
        Ok(())
    }

    fn resume(&mut self, n: usize, at: Picos) {
        let place = &mut self.places[n];
        let waited = Picos(at.0 - place.since.0);
        match place.doing {
            Doing::Data => place.parts.data += waited,
            _ => place.parts.syn += waited,
        }
        place.doing = Doing::Computing;
        if let Some((page, bytes)) = place.pending.take() {
            place.scribble(page, bytes);
        }
        self.queue.schedule(at, Event::Go(n));
    }
}

impl Place {
    /// Changes the first bytes of a writable page, so that its diff is as long as the program's.
    fn scribble(&mut self, page: u32, bytes: u16) {
        self.writes += 1;
        let value = self.writes.to_le_bytes();
        if let Some(page) = self.rank.writable(PageId(page)) {
            let changed = &mut page[..usize::from(bytes).min(PAGE_BYTES)];
            changed.iter_mut().enumerate().for_each(|(i, b)| *b = value[i % 2].wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: Costs = Costs {
        send: Picos(50_000_000),
        latency: Picos(50_000_000),
        byte: Picos(80_000),
        trap: Picos(300_000_000),
        fault: Picos(20_000_000),
        board: None,
    };

    struct Once(Vec<Option<Vec<Step>>>);

    impl Workload for Once {
        fn pages(&self, ranks: u16) -> u32 {
            u32::from(ranks)
        }
        fn stretch(&mut self, rank: u16, _: u16) -> Option<Vec<Step>> {
            self.0[usize::from(rank)].take()
        }
    }

    #[test]
    fn a_read_miss_takes_fault_request_service_and_page() {
        let steps = vec![Some(vec![Step::Read(1)]), Some(vec![])];
        let ended = run(&mut Once(steps), 2, LAN).unwrap();
        let parts = ended.parts[0];
        assert_eq!((parts.segv, parts.syn, parts.busy), (LAN.fault, Picos(0), Picos(0)));
        let request = 50_000_000 + (64 + 5) * 80_000 + 50_000_000 + 300_000_000;
        let page = 50_000_000 + (64 + 9 + 4096) * 80_000 + 50_000_000 + 300_000_000;
        assert_eq!(parts.data, Picos(request + page));
        assert_eq!((ended.messages, ended.faults), (2, 1));
    }

    #[test]
    fn serving_lengthens_the_computing_of_the_server_only() {
        let long = Picos(10_000_000_000);
        let steps = vec![Some(vec![Step::Read(1)]), Some(vec![Step::Compute(long)])];
        let ended = run(&mut Once(steps), 2, LAN).unwrap();
        assert_eq!(ended.parts[1].server, Picos(300_000_000 + 50_000_000));
        assert_eq!(ended.total, Picos(long.0 + 350_000_000));
    }

    #[test]
    fn a_board_spares_the_manager() {
        let section = vec![Step::Lock(1), Step::Write(0, 8), Step::Unlock(1), Step::Barrier];
        let both = || Once(vec![Some(section.clone()), Some(section.clone())]);
        let software = run(&mut both(), 2, LAN).unwrap();
        let board = Costs { board: Some(Picos(1_000_000)), ..LAN };
        let hardware = run(&mut both(), 2, board).unwrap();
        assert!(hardware.total < software.total);
        assert_eq!(hardware, run(&mut both(), 2, board).unwrap(), "equal runs");
    }
}
