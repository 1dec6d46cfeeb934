//! The conductor of a job in virtual time: gives each rank its turns and carries its messages.
//!
//! Life of a turn: the network names the rank; the conductor wakes it and waits for what it does
//! next; the network charges that. Only the rank that was woken runs, so a job is as deterministic
//! as its ranks.
//!
//! Fault model: a rank's stream that ends without `Leave` is a lost rank; so is one that has not
//! joined after [`START_MAX`]. Every other rank is told at once and is expected to leave. A process
//! that is stopped while it has the turn is waited for; the launcher says so.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use littoral_base::units::{NodeId, Picos};
use littoral_fabric::JOIN_MAX;
use littoral_fabric::timing::Timing;

use super::network::{Load, Network, Parts, Traffic, Turn};
use super::{Ask, Posts, Wake, decode_ask, encode_wake};

/// How long a rank may take to join.
pub const START_MAX: Duration = JOIN_MAX;
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of a frame's head on the link, and of its body's tag.
const LINK_BYTES: usize = 5;

/// How a job in virtual time ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// When the last rank left.
    pub total: Picos,
    /// Where each rank's time went.
    pub parts: Vec<Parts>,
    /// What travelled.
    pub traffic: Traffic,
}

/// What the network must know of a frame: the conductor reads no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Pages and diffs.
    Data,
    /// Locks and barriers.
    Board,
    /// Greetings, farewells, failure reports: no part of the protocol.
    Free,
}

struct Frame {
    class: Class,
    bytes: Vec<u8>,
}

impl Load for Frame {
    /// As the protocol's own encoding: without the link's head and the body's tag.
    fn bytes(&self) -> u64 {
        self.bytes.len().saturating_sub(LINK_BYTES + 1) as u64
    }
    fn is_boards(&self) -> bool {
        self.class == Class::Board
    }
    fn is_free(&self) -> bool {
        self.class == Class::Free
    }
}

/// The class of a body: its tag, then for the protocol the message's (`core::wire`).
fn class(body: &[u8]) -> Class {
    match body {
        [0, 1..=4, ..] => Class::Data,
        [0, ..] => Class::Board,
        _ => Class::Free,
    }
}

struct Place {
    stream: Option<UnixStream>,
    unread: Vec<u8>,
    started: bool,
    /// For each receiver, the class of a body of which more frames follow.
    open: Vec<Option<Class>>,
}

/// See the module's page.
pub struct Conductor<'a> {
    network: Network<Frame>,
    operation: Picos,
    places: Vec<Place>,
    abandoned: &'a dyn Fn() -> bool,
}

/// Why a rank cannot be heard.
type Gone = String;

impl<'a> Conductor<'a> {
    /// A conductor of the ranks at the other ends of `streams`. It gives the job up when
    /// `abandoned` says so.
    pub fn new(streams: Vec<UnixStream>, timing: Timing, abandoned: &'a dyn Fn() -> bool) -> Self {
        let ranks = u16::try_from(streams.len()).expect("invariant: ranks are a u16");
        let place = |stream: UnixStream| Place {
            stream: Some(stream),
            unread: Vec::new(),
            started: false,
            open: vec![None; usize::from(ranks)],
        };
        Conductor {
            network: Network::new(ranks, timing),
            operation: timing.operation,
            places: streams.into_iter().map(place).collect(),
            abandoned,
        }
    }

    /// Conducts the job to its end.
    pub fn conduct(mut self) -> Report {
        while self.places.iter().any(|p| p.stream.is_some()) {
            match self.network.next_turn() {
                Some(Turn::Go(n)) => self.go(n),
                Some(Turn::Take(n, from, frame)) => self.hand(n, from, frame),
                None => self.stuck(),
            }
        }
        let (total, traffic) = (self.network.total(), self.network.traffic());
        Report { total, parts: self.network.parts(), traffic }
    }

    fn go(&mut self, n: usize) {
        if self.places[n].stream.is_none() {
            return;
        }
        let woken = match self.places[n].started {
            true => self.wake(n, &Wake::Go),
            false => Ok(()),
        };
        match woken.and_then(|()| self.hear(n)) {
            Ok((ask, posts)) => self.act(n, ask, posts),
            Err(how) => self.lose(n, how),
        }
    }

    fn act(&mut self, n: usize, ask: Ask, posts: Posts) {
        let frames = self.frames(n, posts);
        match ask {
            Ask::Compute { operations, processor } => {
                self.network.say(n, frames);
                let length = self.operation.0.saturating_mul(operations);
                self.network.compute(n, Picos(length.saturating_add(processor.0)));
            }
            Ask::Begin { wait, faulted, done } => {
                self.network.begin(n, wait, faulted, frames, done);
            }
            Ask::Leave => {
                self.network.say(n, frames);
                self.network.finish(n);
                self.places[n].stream = None;
            }
            Ask::Served { .. } => self.lose(n, "it spoke out of turn".into()),
        }
    }

    /// Hands a rank a message, and hears what comes of it.
    fn hand(&mut self, n: usize, from: NodeId, frame: Frame) {
        if self.places[n].stream.is_none() {
            return self.network.served(n, Vec::new(), false);
        }
        let heard = self.ask(n, &Wake::Message(from, frame.bytes));
        match heard {
            Ok((Ask::Served { ended }, posts)) => {
                let frames = self.frames(n, posts);
                self.network.served(n, frames, ended);
            }
            Ok((Ask::Leave, posts)) => {
                self.network.served(n, Vec::new(), false);
                self.act(n, Ask::Leave, posts);
            }
            Ok(_) => self.lose(n, "it spoke out of turn".into()),
            Err(how) => self.lose(n, how),
        }
    }

    /// Every rank that is left waits, and nothing is under way.
    fn stuck(&mut self) {
        let names: Vec<String> = self.live().iter().map(usize::to_string).collect();
        let how = format!("ranks {} wait for each other for ever", names.join(", "));
        for n in self.live() {
            self.dismiss(n, &Wake::Stuck(how.clone()));
        }
    }

    fn live(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|n| self.places[*n].stream.is_some()).collect()
    }

    /// Rank `n` is gone: all others are told, and leave.
    fn lose(&mut self, n: usize, how: Gone) {
        self.places[n].stream = None;
        self.network.finish(n);
        let lost = Wake::Lost(node(n), how);
        for other in self.live() {
            self.dismiss(other, &lost);
        }
    }

    /// Tells a rank the end of the job and waits until it has left.
    fn dismiss(&mut self, n: usize, wake: &Wake) {
        let started = self.places[n].started;
        let mut heard = if started { self.ask(n, wake) } else { self.hear(n) };
        while matches!(heard, Ok((ref ask, _)) if *ask != Ask::Leave) {
            heard = self.ask(n, wake);
        }
        self.places[n].stream = None;
        self.network.finish(n);
    }

    fn frames(&mut self, n: usize, posts: Posts) -> Vec<(NodeId, Frame)> {
        let ranks = self.places.len();
        let known = posts.into_iter().filter(|(to, _)| to.index() < ranks);
        let open = &mut self.places[n].open;
        let frame = |(to, bytes): (NodeId, Vec<u8>)| {
            let body = bytes.get(LINK_BYTES..).unwrap_or(&[]);
            let class = open[to.index()].take().unwrap_or_else(|| class(body));
            if bytes.get(LINK_BYTES - 1).is_some_and(|more| *more != 0) {
                open[to.index()] = Some(class);
            }
            (to, Frame { class, bytes })
        };
        known.map(frame).collect()
    }

    fn ask(&mut self, n: usize, wake: &Wake) -> Result<(Ask, Posts), Gone> {
        self.wake(n, wake)?;
        self.hear(n)
    }

    fn wake(&mut self, n: usize, wake: &Wake) -> Result<(), Gone> {
        let body = encode_wake(wake, self.network.now());
        let length = u32::try_from(body.len()).expect("invariant: frames are at most a megabyte");
        let stream = self.places[n].stream.as_mut().ok_or("it has left")?;
        let all = [&length.to_le_bytes()[..], &body].concat();
        stream.write_all(&all).map_err(|e| ended(&e))
    }

    /// What a rank does next.
    fn hear(&mut self, n: usize) -> Result<(Ask, Posts), Gone> {
        let began = Instant::now();
        loop {
            if let Some(body) = self.places[n].whole() {
                self.places[n].started = true;
                return decode_ask(&body).ok_or_else(|| "it sent no turn".into());
            }
            if !self.places[n].read()? {
                if (self.abandoned)() {
                    return Err("the job was given up".into());
                }
                if !self.places[n].started && began.elapsed() > START_MAX {
                    return Err(format!("it has not joined after {} s", START_MAX.as_secs()));
                }
            }
        }
    }
}

fn node(n: usize) -> NodeId {
    NodeId(u16::try_from(n).expect("invariant: ranks are a u16"))
}

fn ended(_: &std::io::Error) -> Gone {
    "its process ended".into()
}

impl Place {
    /// Takes a whole turn from what was read.
    fn whole(&mut self) -> Option<Vec<u8>> {
        let length = u32::from_le_bytes(*self.unread.first_chunk()?) as usize;
        if self.unread.len() < 4 + length {
            return None;
        }
        let rest = self.unread.split_off(4 + length);
        let turn = std::mem::replace(&mut self.unread, rest);
        Some(turn[4..].to_vec())
    }

    /// Reads what there is; whether there was anything within [`LOOK`].
    fn read(&mut self) -> Result<bool, Gone> {
        let stream = self.stream.as_mut().ok_or("it has left")?;
        stream.set_read_timeout(Some(LOOK)).map_err(|e| ended(&e))?;
        let mut piece = [0; 1 << 16];
        match stream.read(&mut piece) {
            Ok(0) => Err("its process ended".into()),
            Ok(n) => {
                self.unread.extend_from_slice(&piece[..n]);
                Ok(true)
            }
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(false),
                _ => Err(ended(&e)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::message::{LockId, Message, PageId};
    use crate::core::wire;

    #[test]
    fn classes_are_those_of_the_protocols_messages() {
        let body = |m: &Message| [&[0][..], &wire::encode(m)].concat();
        let page = PageId(1);
        for data in [
            Message::GetPage { page, phase: 0 },
            Message::Page { page, bytes: vec![0; 8] },
            Message::Diffs { diffs: vec![] },
            Message::DiffsApplied,
        ] {
            assert_eq!(class(&body(&data)), Class::Data, "{data:?}");
        }
        for board in [
            Message::Acquire { lock: LockId(0), seen: 0 },
            Message::Release { lock: LockId(0), generation: 0, pages: vec![] },
            Message::Arrive { generation: 0, pages: vec![] },
            Message::Depart { generation: 0, notices: vec![] },
        ] {
            assert_eq!(class(&body(&board)), Class::Board, "{board:?}");
        }
        assert_eq!(class(&[2]), Class::Free);
    }

    #[test]
    fn a_rank_that_says_nothing_is_lost_and_the_others_are_told() {
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..2).map(|_| UnixStream::pair().unwrap()).unzip();
        let mut theirs = theirs.into_iter();
        let (first, second) = (theirs.next().unwrap(), theirs.next().unwrap());
        drop(second);
        let never = || false;
        let waiting = std::thread::spawn(move || {
            use crate::virtual_time::network::Wait;
            use crate::virtual_time::seat::Seat;
            use crate::virtual_time::{Compute, Turns as _};
            let seat = Seat::new(NodeId(0), 2, first, Compute::Declared);
            seat.give(Ask::Begin { wait: Wait::Syn, faulted: false, done: false }).unwrap()
        });
        let report = Conductor::new(ours, Timing::open("tcp").unwrap(), &never).conduct();
        assert_eq!(waiting.join().unwrap(), Wake::Lost(NodeId(1), "its process ended".into()));
        assert_eq!(report.total, Picos::ZERO);
    }
}
