//! Where time goes when ranks exchange messages: processors, interfaces, a lock manager.
//!
//! The network knows nothing of the protocol. Its driver takes the next [`Turn`], lets the rank act
//! and says what came of it ([`Network::compute`], [`Network::begin`], [`Network::served`]); the
//! network charges the constants of a [`Timing`] and keeps the paper's account of each rank.
//!
//! - A message takes the sender's processor for `send`, its interface for its bytes, and arrives
//!   `latency` later. Where messages are acknowledged one by one the sender's processor is held
//!   until `acknowledge` after the last byte.
//! - Taking a message in is `trap` of the receiver's processor, then what it sends in turn, one
//!   message after another. A rank that computes goes on that much later (*server*); one that
//!   waits loses nothing, unless messages are still queued when its wait ends.
//! - With `trap` zero hardware serves: it takes no node's processor.
//! - With a board, messages of locks and barriers take one operation of it and no processor but the
//!   asker's.
//!
//! Invariants
//! - Equal calls give equal turns: the queue breaks ties by order of scheduling. Checked by
//!   `equal_jobs_are_equal_to_the_last_picosecond`, `a_board_spares_the_manager`.
//! - Messages of one rank to another arrive in order. Checked by
//!   `a_processor_takes_one_message_after_another_and_sends_in_between`.
//! - A rank's parts and the times in which it was done add up to the total. Checked by
//!   `serving_lengthens_the_computing_of_the_server_only`,
//!   `a_read_miss_takes_fault_request_service_and_page`.

pub use crate::turn::Wait;
use std::collections::VecDeque;

use littoral_base::sim::Queue;
use littoral_base::units::{NodeId, Picos};
use littoral_fabric::timing::Timing;

/// Bytes of a message beyond the protocol's own: UDP, IP and frame.
pub const HEAD_BYTES: u64 = 64;

/// What the network must know of a message.
pub trait Load {
    /// Bytes of it.
    fn bytes(&self) -> u64;
    /// Whether a lock manager in hardware carries it.
    fn is_boards(&self) -> bool;
    /// Whether it costs nothing: what jobs say outside of the protocol.
    fn is_free(&self) -> bool {
        false
    }
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
    /// Serving others while it could have computed.
    pub server: Picos,
}

/// What travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages between ranks, or between a rank and the board.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Whose turn it is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn<M> {
    /// The rank's program goes on.
    Go(usize),
    /// The rank takes a message in.
    Take(usize, NodeId, M),
}

enum Event<M> {
    Go(usize),
    /// A message is in a rank's memory.
    Arrive(usize, NodeId, M),
    /// The rank's processor has taken its oldest message in.
    Served(usize),
    /// A message that takes no processor.
    Direct(usize, NodeId, M),
}

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Computing,
    Waiting(Wait),
    Done,
}

struct Place<M> {
    doing: Doing,
    since: Picos,
    inbox: VecDeque<(NodeId, M)>,
    /// When the service under way began, and whether the rank could have computed instead.
    service: Option<(Picos, bool)>,
    /// The turn given last was a message that took no processor.
    direct: bool,
    /// Service time that the program has not yet been delayed by.
    stolen: Picos,
    /// When the program would have gone on, had the processor not been serving.
    held: Option<Picos>,
    /// When the service that ended last has sent everything.
    free: Picos,
    interface_free: Picos,
    parts: Parts,
}

/// See the module's page.
pub struct Network<M> {
    timing: Timing,
    queue: Queue<Event<M>>,
    places: Vec<Place<M>>,
    traffic: Traffic,
    total: Picos,
}

fn node(n: usize) -> NodeId {
    NodeId(u16::try_from(n).expect("invariant: ranks are a u16"))
}

impl<M: Load> Network<M> {
    /// A network of `ranks` ranks, each of which has its first turn at time zero.
    pub fn new(ranks: u16, timing: Timing) -> Self {
        let place = |_| Place {
            doing: Doing::Computing,
            since: Picos::ZERO,
            inbox: VecDeque::new(),
            service: None,
            direct: false,
            stolen: Picos::ZERO,
            held: None,
            free: Picos::ZERO,
            interface_free: Picos::ZERO,
            parts: Parts::default(),
        };
        let mut queue = Queue::new();
        (0..usize::from(ranks)).for_each(|n| queue.schedule(Picos::ZERO, Event::Go(n)));
        let places = (0..ranks).map(place).collect();
        Network { timing, queue, places, traffic: Traffic::default(), total: Picos::ZERO }
    }

    /// Virtual time.
    pub fn now(&self) -> Picos {
        self.queue.now()
    }

    /// When the last rank was done.
    pub fn total(&self) -> Picos {
        self.total
    }

    /// What has travelled.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Where each rank's time went.
    pub fn parts(&self) -> Vec<Parts> {
        self.places.iter().map(|p| p.parts).collect()
    }

    /// Ranks that are not done.
    pub fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.places.len()).filter(|n| self.places[*n].doing != Doing::Done)
    }

    /// The next turn; `None` when nothing is under way.
    pub fn next_turn(&mut self) -> Option<Turn<M>> {
        loop {
            match self.queue.pop()?.1 {
                Event::Go(n) => {
                    if self.goes(n) {
                        return Some(Turn::Go(n));
                    }
                }
                Event::Arrive(n, from, message) => self.arrive(n, from, message),
                Event::Served(n) => {
                    let taken = self.places[n].inbox.pop_front();
                    let (from, message) = taken.expect("invariant: a service has its message");
                    self.places[n].direct = false;
                    return Some(Turn::Take(n, from, message));
                }
                Event::Direct(n, from, message) => {
                    self.places[n].direct = true;
                    return Some(Turn::Take(n, from, message));
                }
            }
        }
    }

    /// Whether the program goes on now; otherwise it is called again later.
    fn goes(&mut self, n: usize) -> bool {
        let now = self.queue.now();
        let place = &mut self.places[n];
        if place.service.is_some() {
            place.held.get_or_insert(now);
            return false;
        }
        let stolen = std::mem::take(&mut place.stolen);
        if stolen > Picos::ZERO {
            place.parts.server += stolen;
            self.queue.schedule_in(stolen, Event::Go(n));
            return false;
        }
        true
    }

    fn arrive(&mut self, n: usize, from: NodeId, message: M) {
        self.places[n].inbox.push_back((from, message));
        if self.places[n].service.is_none() {
            let begin = self.queue.now().max(self.places[n].free);
            self.serve_next(n, begin);
        }
    }

    fn serve_next(&mut self, n: usize, at: Picos) {
        let place = &mut self.places[n];
        if place.inbox.is_empty() {
            (place.service, place.free) = (None, at);
            if let Some(held) = place.held.take() {
                let go = at.max(held + std::mem::take(&mut place.stolen));
                place.parts.server += go - held;
                self.queue.schedule(go, Event::Go(n));
            }
            return;
        }
        place.service = Some((at, place.doing == Doing::Computing));
        self.queue.schedule(at + self.timing.trap, Event::Served(n));
    }

    /// The rank's program computes.
    pub fn compute(&mut self, n: usize, length: Picos) {
        self.places[n].parts.busy += length;
        self.queue.schedule_in(length, Event::Go(n));
    }

    /// The rank's program has begun an operation, after a fault or without one, and sends; it goes
    /// on when the messages are sent, or when `served` says that the operation has ended.
    pub fn begin(
        &mut self,
        n: usize,
        wait: Wait,
        faulted: bool,
        send: Vec<(NodeId, M)>,
        done: bool,
    ) {
        let fault = if faulted { self.timing.fault } else { Picos::ZERO };
        let from = self.queue.now() + fault;
        self.places[n].parts.segv += fault;
        self.places[n].doing = Doing::Waiting(wait);
        self.places[n].since = from;
        let sent = self.send_all(n, from, send);
        if done {
            self.resume(n, sent);
        }
    }

    /// What came of the message that the rank took in: what it sends, and whether its program's
    /// operation has ended.
    pub fn served(&mut self, n: usize, send: Vec<(NodeId, M)>, ended: bool) {
        let now = self.queue.now();
        if self.places[n].direct {
            for (to, message) in send {
                self.send_by_hardware(n, to, message);
            }
            if ended {
                self.resume(n, now);
            }
            return;
        }
        let free = self.send_all(n, now, send);
        let service = self.places[n].service;
        let (began, computing) = service.expect("invariant: a message was taken in");
        if computing {
            self.places[n].stolen += free - began;
        }
        if ended {
            self.resume(n, free);
        }
        self.serve_next(n, free);
    }

    /// The rank says what costs nothing; anything else would be sent by `begin`.
    pub fn say(&mut self, n: usize, send: Vec<(NodeId, M)>) {
        for (to, message) in send.into_iter().filter(|(_, m)| m.is_free()) {
            self.send_by_hardware(n, to, message);
        }
    }

    /// The rank's program has ended.
    pub fn finish(&mut self, n: usize) {
        self.places[n].doing = Doing::Done;
        self.total = self.total.max(self.queue.now());
    }

    fn resume(&mut self, n: usize, at: Picos) {
        let place = &mut self.places[n];
        let waited = at - place.since;
        match place.doing {
            Doing::Waiting(Wait::Data) => place.parts.data += waited,
            _ => place.parts.syn += waited,
        }
        place.doing = Doing::Computing;
        self.queue.schedule(at, Event::Go(n));
    }

    /// Sends from a rank's processor, one message after another; when it is free again.
    fn send_all(&mut self, n: usize, from: Picos, messages: Vec<(NodeId, M)>) -> Picos {
        messages.into_iter().fold(from, |at, (to, message)| self.send(n, to, message, at))
    }

    fn send(&mut self, n: usize, to: NodeId, message: M, at: Picos) -> Picos {
        if self.is_direct(n, to, &message) {
            self.send_direct(n, to, message, at);
            return at;
        }
        let ready = at + self.timing.send;
        let sent = self.transmit(n, to, message, ready);
        if self.timing.acknowledge > Picos::ZERO { sent + self.timing.acknowledge } else { ready }
    }

    fn send_by_hardware(&mut self, n: usize, to: NodeId, message: M) {
        let now = self.queue.now();
        if self.is_direct(n, to, &message) {
            self.send_direct(n, to, message, now);
        } else {
            self.transmit(n, to, message, now);
        }
    }

    /// Whether a message passes neither a processor nor an interface.
    fn is_direct(&self, n: usize, to: NodeId, message: &M) -> bool {
        message.is_free() || to == node(n) || self.timing.board.is_some() && message.is_boards()
    }

    fn send_direct(&mut self, n: usize, to: NodeId, message: M, at: Picos) {
        let board = self.timing.board.filter(|_| message.is_boards() && !message.is_free());
        if board.is_some() {
            self.count(&message);
        }
        let at = at + board.unwrap_or(Picos::ZERO);
        self.queue.schedule(at, Event::Direct(to.index(), node(n), message));
    }

    /// Puts a message on the interface; when its last byte has left.
    fn transmit(&mut self, n: usize, to: NodeId, message: M, ready: Picos) -> Picos {
        self.count(&message);
        let bytes = message.bytes() + HEAD_BYTES;
        let depart = ready.max(self.places[n].interface_free);
        let sent = depart + Picos(self.timing.byte.0 * bytes);
        self.places[n].interface_free = sent;
        let arrives = sent + self.timing.latency;
        let event = match self.timing.trap {
            Picos::ZERO => Event::Direct(to.index(), node(n), message),
            _ => Event::Arrive(to.index(), node(n), message),
        };
        self.queue.schedule(arrives, event);
        sent
    }

    fn count(&mut self, message: &M) {
        self.traffic.messages += 1;
        self.traffic.bytes += message.bytes() + HEAD_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: Timing = Timing {
        send: Picos(50),
        latency: Picos(40),
        byte: Picos(1),
        acknowledge: Picos::ZERO,
        trap: Picos(300),
        fault: Picos(20),
        board: None,
        operation: Picos(1),
    };

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Word(u64);

    impl Load for Word {
        fn bytes(&self) -> u64 {
            self.0
        }
        fn is_boards(&self) -> bool {
            self.0 == 7
        }
    }

    fn both_start(net: &mut Network<Word>) {
        assert_eq!(net.next_turn(), Some(Turn::Go(0)));
        assert_eq!(net.next_turn(), Some(Turn::Go(1)));
    }

    #[test]
    fn a_computing_rank_goes_on_later_by_what_serving_took() {
        let mut net = Network::new(2, LAN);
        both_start(&mut net);
        net.compute(1, Picos(10_000));
        net.begin(0, Wait::Data, true, vec![(NodeId(1), Word(5))], false);
        assert_eq!(net.next_turn(), Some(Turn::Take(1, NodeId(0), Word(5))));
        assert_eq!(net.now(), Picos(20 + 50 + 69 + 40 + 300));
        net.served(1, vec![(NodeId(0), Word(5))], false);
        assert_eq!(net.next_turn(), Some(Turn::Take(0, NodeId(1), Word(5))));
        net.served(0, vec![], true);
        assert_eq!(net.next_turn(), Some(Turn::Go(0)));
        net.finish(0);
        assert_eq!(net.next_turn(), Some(Turn::Go(1)));
        assert_eq!(net.now(), Picos(10_350));
        assert_eq!(net.parts()[1].server, Picos(350));
        assert_eq!(
            net.parts()[0],
            Parts { data: Picos(2 * 459), segv: Picos(20), ..Parts::default() }
        );
    }

    #[test]
    fn computing_that_ends_within_a_service_is_delayed_by_the_whole_of_it() {
        let mut net = Network::new(2, LAN);
        both_start(&mut net);
        net.compute(1, Picos(300));
        net.begin(0, Wait::Syn, false, vec![(NodeId(1), Word(5))], true);
        assert_eq!(net.next_turn(), Some(Turn::Go(0)));
        net.finish(0);
        assert_eq!(net.next_turn(), Some(Turn::Take(1, NodeId(0), Word(5))));
        net.served(1, vec![], false);
        assert_eq!(net.next_turn(), Some(Turn::Go(1)));
        assert_eq!((net.now(), net.parts()[1].server), (Picos(600), Picos(300)));
    }

    #[test]
    fn a_processor_takes_one_message_after_another_and_sends_in_between() {
        let mut net = Network::new(3, Timing { acknowledge: Picos(80), ..LAN });
        let _ = [net.next_turn(), net.next_turn(), net.next_turn()];
        net.begin(0, Wait::Data, false, vec![(NodeId(2), Word(5))], false);
        net.begin(1, Wait::Data, false, vec![(NodeId(2), Word(6))], false);
        net.begin(2, Wait::Syn, false, vec![], false);
        assert_eq!(net.next_turn(), Some(Turn::Take(2, NodeId(0), Word(5))));
        let first = net.now();
        net.served(2, vec![(NodeId(0), Word(36))], false);
        let second = Some(Turn::Take(2, NodeId(1), Word(6)));
        let mut turns = std::iter::from_fn(|| net.next_turn());
        assert!(turns.any(|t| Some(&t) == second.as_ref()));
        // Send, bytes and the acknowledgement, then the next message's trap.
        assert_eq!(net.now() - first, Picos(50 + 100 + 80 + 300));
        assert_eq!(net.parts()[2].server, Picos::ZERO, "it was waiting");
    }

    #[test]
    fn messages_queued_when_a_wait_ends_are_served_before_the_program_goes_on() {
        let mut net = Network::new(2, LAN);
        both_start(&mut net);
        net.begin(1, Wait::Syn, false, vec![], false);
        let two = vec![(NodeId(1), Word(5)), (NodeId(1), Word(6))];
        net.begin(0, Wait::Syn, false, two, true);
        assert_eq!(net.next_turn(), Some(Turn::Go(0)));
        net.finish(0);
        assert!(matches!(net.next_turn(), Some(Turn::Take(1, ..))));
        net.served(1, vec![], true);
        assert!(matches!(net.next_turn(), Some(Turn::Take(1, ..))));
        net.served(1, vec![], false);
        assert_eq!(net.next_turn(), Some(Turn::Go(1)));
        assert_eq!(net.parts()[1].server, Picos(300));
    }

    #[test]
    fn the_board_takes_nobodys_processor() {
        let mut net = Network::new(2, Timing { board: Some(Picos(2)), ..LAN });
        both_start(&mut net);
        net.compute(1, Picos(1000));
        net.begin(0, Wait::Syn, false, vec![(NodeId(1), Word(7))], false);
        assert_eq!(net.next_turn(), Some(Turn::Take(1, NodeId(0), Word(7))));
        net.served(1, vec![(NodeId(0), Word(7))], false);
        assert_eq!(net.next_turn(), Some(Turn::Take(0, NodeId(1), Word(7))));
        assert_eq!((net.now(), net.traffic().messages), (Picos(4), 2));
        net.served(0, vec![], true);
        assert_eq!(net.next_turn(), Some(Turn::Go(0)));
        net.finish(0);
        assert_eq!(net.next_turn(), Some(Turn::Go(1)));
        assert_eq!((net.now(), net.parts()[1].server), (Picos(1000), Picos::ZERO));
    }
}
