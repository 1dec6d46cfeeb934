//! What a node hears: its connections and its bell, in one epoll.
//!
//! ```text
//!                     +-- connections
//!    outer -- inner --+-- bell
//!      |              +-- call
//!      +-- bell
//!      +-- timer
//! ```
//!
//! A thread that *attends* sleeps on `inner`, every other one on `outer`, which does not look at
//! `inner` for as long as a thread attends: what comes then wakes that thread alone. The bell is
//! taken by whichever thread hears it first; the *call* is for the thread that attends. When that
//! thread leaves, `outer` looks at `inner` again: at once, or when the timer fires ([`pace`]).
//!
//! Invariants
//! - A thread that sleeps is woken by the bell, whichever of the two it sleeps on. Checked by
//!   `the_bell_wakes_who_attends_and_who_does_not`.
//! - A call wakes the thread that attends, whichever others listen, and no thread once none attends
//!   (mutant `tcp_call_is_taken_by_others`). Checked by `a_call_wakes_who_attends`.
//! - What came while a thread attended wakes another one as soon as that ends. Checked by
//!   `what_is_left_by_the_thread_that_attended_wakes_another`.
//! - In a run of waits it wakes no other one, and after the run another one within the delay
//!   (mutants `tcp_connections_given_back_in_a_run`, `tcp_connections_stay_with_who_left`). Checked
//!   by `a_run_of_waits_wakes_no_other_thread_and_its_end_does`.
//!
//! [`pace`]: super::pace

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use littoral_base::mutant;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::pace::{Back, Pace};
use super::{Peer, locked};
use crate::shm::timespec;

/// The bell's number; connections have those of their nodes.
const BELL: u64 = u64::MAX;
const CALL: u64 = u64::MAX - 1;
const TIMER: u64 = u64::MAX - 2;
/// Number of `inner` in `outer`.
const INNER: u64 = 0;
const EVENTS: usize = 32;

/// See the module's page.
pub(super) struct Ears {
    inner: OwnedFd,
    outer: OwnedFd,
    call: OwnedFd,
    timer: OwnedFd,
    attention: Mutex<Attention>,
    /// A thread attends.
    is_attended: AtomicBool,
    /// A call may be under way.
    is_calling: AtomicBool,
    /// The thread that attends has heard a call.
    is_called: AtomicBool,
    /// Whether room in a connection is heard of too.
    for_room: Vec<AtomicBool>,
}

/// Which threads connections wake, and for how long yet.
struct Attention {
    pace: Pace,
    /// `outer` does not look at `inner`.
    is_deaf: bool,
    /// The timer will fire.
    is_set: bool,
}

/// Whether another thread hears of what the one that attended has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It attends yet.
    Nothing,
    /// By the connections alone.
    Now,
    /// When the timer fires, then it looks at everything.
    Later,
}

/// What a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) node: usize,
    pub(super) has_room: bool,
    /// Bytes, its end or an error.
    pub(super) has_more: bool,
}

impl Ears {
    pub(super) fn new(peers: &[Option<Peer>], rung: &UnixStream) -> io::Result<Ears> {
        let make = || epoll::create(CreateFlags::CLOEXEC);
        let (inner, outer) = (make()?, make()?);
        for (n, peer) in (0..).zip(peers) {
            if let Some(peer) = peer {
                epoll::add(&inner, &peer.stream, EventData::new_u64(n), EventFlags::IN)?;
            }
        }
        for ears in [&inner, &outer] {
            epoll::add(ears, rung, EventData::new_u64(BELL), EventFlags::IN)?;
        }
        epoll::add(&outer, &inner, EventData::new_u64(INNER), EventFlags::IN)?;
        let call = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&inner, &call, EventData::new_u64(CALL), EventFlags::IN)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&outer, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let pace = Pace::new(Instant::now());
        let no = || AtomicBool::new(false);
        Ok(Ears {
            inner,
            outer,
            call,
            timer,
            attention: Mutex::new(Attention { pace, is_deaf: false, is_set: false }),
            is_attended: no(),
            is_calling: no(),
            is_called: no(),
            for_room: peers.iter().map(|_| no()).collect(),
        })
    }

    /// Lets one thread alone be woken by connections, or all again.
    pub(super) fn attend(&self, begins: bool) -> Left {
        self.is_attended.store(begins, Ordering::Release);
        if self.is_calling.swap(false, Ordering::AcqRel) {
            self.take_call();
        }
        self.is_called.store(false, Ordering::Release);
        let mut attention = locked(&self.attention);
        let now = Instant::now();
        if begins {
            attention.pace.comes(now);
            self.be_deaf(&mut attention, !mutant!("tcp_all_hear_what_one_attends"));
            return Left::Nothing;
        }
        match attention.pace.leaves(now) {
            Back::In(after) if !mutant!("tcp_connections_given_back_in_a_run") => {
                self.set_timer(&mut attention, after);
                Left::Later
            }
            _ => {
                self.be_deaf(&mut attention, false);
                Left::Now
            }
        }
    }

    fn be_deaf(&self, attention: &mut Attention, is_deaf: bool) {
        if std::mem::replace(&mut attention.is_deaf, is_deaf) == is_deaf {
            return;
        }
        let flags = if is_deaf { EventFlags::empty() } else { EventFlags::IN };
        // Both are open for as long as this value, so it cannot fail.
        let changed = epoll::modify(&self.outer, &self.inner, EventData::new_u64(INNER), flags);
        debug_assert!(changed.is_ok(), "{changed:?}");
    }

    fn set_timer(&self, attention: &mut Attention, after: Duration) {
        if std::mem::replace(&mut attention.is_set, true) {
            return;
        }
        let once = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(after) };
        // The time is one and not zero, so it cannot fail.
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        debug_assert!(set.is_ok(), "{set:?}");
    }

    /// The timer has fired: gives the connections back unless a thread attends or has lately;
    /// whether the calling thread is to look at them.
    fn fired(&self) -> bool {
        let mut attention = locked(&self.attention);
        if rustix::io::read(&self.timer, &mut [0; 8]).is_err() {
            // Another thread was first.
            return !attention.is_deaf;
        }
        attention.is_set = false;
        if !self.is_attended.load(Ordering::Acquire) {
            match attention.pace.back(Instant::now()) {
                Back::In(after) => self.set_timer(&mut attention, after),
                Back::Now => self.be_deaf(&mut attention, false),
            }
        }
        !attention.is_deaf
    }

    /// Wakes the thread that attends.
    pub(super) fn call(&self) {
        self.is_calling.store(true, Ordering::Release);
        // A full counter is a call that is not taken yet.
        let _ = rustix::io::write(&self.call, &1u64.to_ne_bytes());
    }

    /// Whether the thread that attends has heard a call since it asked last.
    pub(super) fn was_called(&self) -> bool {
        self.is_called.swap(false, Ordering::AcqRel)
    }

    fn take_call(&self) {
        let _ = rustix::io::read(&self.call, &mut [0; 8]);
    }

    /// Hears of room in the connection to node `n` for as long as something waits for it. Two
    /// threads do so in turn, so that what is heard of is what the last of them has seen.
    pub(super) fn hear_of_room(&self, n: usize, peer: &Peer) {
        let queue = locked(&peer.outgoing);
        let wanted = !queue.is_empty() && peer.broken.get().is_none();
        if self.for_room[n].swap(wanted, Ordering::AcqRel) != wanted {
            let flags = if wanted { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            // A connection that is gone is deaf to room, and heard as gone.
            let _ = epoll::modify(&self.inner, &peer.stream, EventData::new_u64(n as u64), flags);
        }
    }

    /// Hears no more of a connection that is dead.
    pub(super) fn forget(&self, peer: &Peer) {
        // Another thread may have been first.
        let _ = epoll::delete(&self.inner, &peer.stream);
    }

    /// Waits at most for `timeout` for news; what each connection has.
    pub(super) fn listen(&self, rung: &UnixStream, timeout: Duration, attends: bool) -> Vec<Heard> {
        let is_direct = attends || timeout.is_zero();
        if !is_direct {
            let woken = events(&self.outer, timeout);
            let is_timer = |event: &Event| event.data.u64() == TIMER;
            let is_back = woken.iter().any(is_timer) && self.fired();
            if !is_back && woken.iter().all(is_timer) {
                return Vec::new();
            }
        }
        let left = if is_direct { timeout } else { Duration::ZERO };
        let mut heard = Vec::new();
        for event in events(&self.inner, left) {
            let (flags, number) = (event.flags, event.data.u64());
            if number == BELL {
                let _ = (&*rung).read(&mut [0; 64]);
                continue;
            }
            if number == CALL {
                let is_ours = attends || !self.is_attended.load(Ordering::Acquire);
                if is_ours || mutant!("tcp_call_is_taken_by_others") {
                    self.take_call();
                    self.is_called.store(attends, Ordering::Release);
                }
                continue;
            }
            let more = EventFlags::IN | EventFlags::HUP | EventFlags::ERR;
            heard.push(Heard {
                node: number as usize,
                has_room: flags.contains(EventFlags::OUT),
                has_more: flags.intersects(more),
            });
        }
        heard
    }
}

/// An interrupted wait is one without news.
fn events(ears: &OwnedFd, timeout: Duration) -> Vec<Event> {
    let mut found = Vec::with_capacity(EVENTS);
    let _ = epoll::wait(ears, spare_capacity(&mut found), Some(&timespec(timeout)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::pace::RUN_MIN;
    use std::collections::VecDeque;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::AtomicU64;
    use std::sync::{Mutex, OnceLock};

    const LONG: Duration = Duration::from_secs(10);

    /// Ears on one connection, its other end, and both ends of the bell.
    fn ears() -> (Vec<Option<Peer>>, Ears, TcpStream, UnixStream, UnixStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let zero = || AtomicU64::new(0);
        let (acknowledged, sent, applied) = (zero(), zero(), zero());
        let outgoing = Mutex::new(VecDeque::new());
        let peer = Peer { stream, outgoing, acknowledged, sent, applied, broken: OnceLock::new() };
        let peers = vec![None, Some(peer)];
        let (bell, rung) = UnixStream::pair().unwrap();
        rung.set_nonblocking(true).unwrap();
        let ears = Ears::new(&peers, &rung).unwrap();
        (peers, ears, other, bell, rung)
    }

    /// What there is to hear, but for the timer: a thread that is kept off its processor makes any
    /// wait a run, whose end sets it.
    fn news(ears: &OwnedFd, timeout: Duration) -> Vec<u64> {
        let numbers = events(ears, timeout).into_iter().map(|event| event.data.u64());
        numbers.filter(|number| *number != TIMER).collect()
    }

    #[test]
    fn what_is_left_by_the_thread_that_attended_wakes_another() {
        let (_peers, ears, mut other, _bell, rung) = ears();
        ears.attend(true);
        other.write_all(&[7]).unwrap();
        let more = [Heard { node: 1, has_room: false, has_more: true }];
        assert_eq!(ears.listen(&rung, LONG, true), more);
        assert_eq!(news(&ears.outer, Duration::ZERO), [0; 0], "a thread that does not attend");
        ears.attend(false);
        assert_eq!(ears.listen(&rung, LONG, false), more);
    }

    /// Waits one after another until they are a run.
    fn run(ears: &Ears) {
        let begun = Instant::now();
        let is_run = (0..1_000_000).any(|_| {
            ears.attend(true);
            ears.attend(false) == Left::Later && begun.elapsed() > 4 * RUN_MIN
        });
        assert!(is_run, "waits one after another are no run");
    }

    #[test]
    fn a_run_of_waits_wakes_no_other_thread_and_its_end_does() {
        let (peers, ears, mut other, _bell, rung) = ears();
        let mut in_run = false;
        // A thread that is kept off its processor begins a new run.
        for _ in 0..1000 {
            run(&ears);
            ears.attend(true);
            other.write_all(&[7]).unwrap();
            assert_eq!(news(&ears.inner, LONG), [1]);
            let is_later = ears.attend(false) == Left::Later;
            in_run = is_later && news(&ears.outer, Duration::ZERO).is_empty();
            if in_run {
                break;
            }
            other_bytes(&peers);
        }
        assert!(in_run, "a connection wakes a thread that did not attend");
        let begun = Instant::now();
        while ears.listen(&rung, LONG, false).is_empty() {
            assert!(begun.elapsed() < LONG, "what came is never heard");
        }
    }

    /// Reads what has come.
    fn other_bytes(peers: &[Option<Peer>]) {
        let _ = (&peers[1].as_ref().unwrap().stream).read(&mut [0; 8]);
    }

    #[test]
    fn the_bell_wakes_who_attends_and_who_does_not() {
        let (_peers, ears, _other, mut bell, rung) = ears();
        for attends in [true, false] {
            ears.attend(true);
            bell.write_all(&[1]).unwrap();
            assert_eq!(news(if attends { &ears.inner } else { &ears.outer }, LONG), [BELL]);
            assert_eq!(ears.listen(&rung, LONG, attends), [], "the bell is taken");
            assert_eq!(news(&ears.outer, Duration::ZERO), [0; 0]);
            ears.attend(false);
        }
    }

    #[test]
    fn a_call_wakes_who_attends() {
        let (_peers, ears, _other, _bell, rung) = ears();
        ears.attend(true);
        ears.call();
        assert_eq!(news(&ears.outer, Duration::ZERO), [0; 0], "a thread that does not attend");
        assert_eq!(ears.listen(&rung, Duration::ZERO, false), []);
        assert_eq!(events(&ears.inner, Duration::ZERO).len(), 1, "it is not taken by another");
        assert!(!ears.was_called());
        assert_eq!(ears.listen(&rung, LONG, true), []);
        assert!(ears.was_called() && !ears.was_called());
        assert!(events(&ears.inner, Duration::ZERO).is_empty(), "it is taken");
        ears.call();
        ears.attend(false);
        assert_eq!(news(&ears.outer, Duration::ZERO), [0; 0], "no thread attends");
        // A call that comes when the thread has just ended is no news for ever.
        ears.call();
        assert_eq!(ears.listen(&rung, LONG, false), []);
        assert_eq!(news(&ears.outer, Duration::ZERO), [0; 0]);
    }

    #[test]
    fn room_is_heard_of_while_bytes_wait_and_a_dead_connection_no_more() {
        let (peers, ears, other, _bell, rung) = ears();
        let peer = peers[1].as_ref().unwrap();
        locked(&peer.outgoing).push_back(7);
        ears.hear_of_room(1, peer);
        let room = [Heard { node: 1, has_room: true, has_more: false }];
        assert_eq!(ears.listen(&rung, LONG, false), room);
        locked(&peer.outgoing).clear();
        ears.hear_of_room(1, peer);
        assert_eq!(ears.listen(&rung, Duration::ZERO, false), []);
        drop(other);
        assert!(ears.listen(&rung, LONG, false)[0].has_more, "its end");
        ears.forget(peer);
        ears.forget(peer);
        assert_eq!(ears.listen(&rung, Duration::ZERO, false), []);
    }
}
