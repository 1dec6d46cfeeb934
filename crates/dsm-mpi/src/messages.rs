//! MPI as a carrier of the protocol's messages.
//!
//! A message is one send of bytes to a rank; a message without bytes is a sign of life. Sends do
//! not block. What is being sent is kept until MPI has taken it, at most [`UNSENT_BYTES_MAX`] for a
//! rank: beyond that `try_post` refuses, and the runtime tries again.
//!
//! MPI tells nothing of a rank that has died. Ranks of one machine watch each other's processes, as
//! the runtime does on every carrier. A rank of another machine, or one whose process the kernel
//! cannot be asked about (without `/proc`, or in another process namespace), is dead when it has
//! been silent for longer than the limit.
//!
//! Invariants
//! - Bytes are received as they were sent, messages of any length that the runtime makes, in the
//!   order of their frames' numbers. Checked by
//!   `ranks_that_mpirun_starts_agree_with_one_process`.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use littoral_base::units::NodeId;
use littoral_dsm::runtime::carrier::Carrier;
use littoral_dsm::{Error, Kind, Result};
use littoral_fabric::{BEAT, Liveness, Silence};

use crate::calls::{Calls, locked};
use crate::raw::{self, Failed, Post};

/// Bytes that may wait for one rank before its sender is refused.
const UNSENT_BYTES_MAX: usize = 1 << 23;
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// How often a waiting thread asks MPI at once, and how long it sleeps between questions after
/// that. It does not yield: on a busy machine that gives away milliseconds.
const SPIN_TURNS: u32 = 200;
const NAP: Duration = Duration::from_micros(60);
/// How long the last messages may take.
const LAST_MAX: Duration = Duration::from_secs(5);

/// What is being sent, by receiver.
type Unsent = Arc<Mutex<Vec<Vec<Post>>>>;

/// How long each rank has been silent.
struct Heard {
    silences: Vec<Silence>,
    beat: Instant,
}

/// The job's ranks over MPI; see the module's page.
pub(crate) struct Messages {
    calls: Arc<Calls>,
    me: NodeId,
    /// Whether each rank is one of this machine.
    is_near: Vec<bool>,
    unsent: Unsent,
    heard: Mutex<Heard>,
    silence: Duration,
}

fn broken(what: &str) -> Error {
    Error::new(Kind::Environment, format!("MPI: {what} failed"))
}

fn node(n: usize) -> NodeId {
    NodeId(u16::try_from(n).expect("invariant: ranks fit u16"))
}

/// Forgets what is sent; the bytes that are not.
fn still_unsent(posts: &mut Vec<Post>) -> std::result::Result<usize, Failed> {
    let mut at = 0;
    while at < posts.len() {
        if posts[at].is_sent()? {
            drop(posts.swap_remove(at));
        } else {
            at += 1;
        }
    }
    Ok(posts.iter().map(Post::len).sum())
}

impl Messages {
    pub(crate) fn new(
        calls: Arc<Calls>,
        me: NodeId,
        is_near: Vec<bool>,
        silence: Duration,
    ) -> Messages {
        let now = Instant::now();
        let silences = is_near.iter().map(|_| Silence::from(now)).collect();
        let unsent = Arc::new(Mutex::new(is_near.iter().map(|_| Vec::new()).collect()));
        let heard = Mutex::new(Heard { silences, beat: now });
        Messages { calls, me, is_near, unsent, heard, silence }
    }

    fn post(&self, to: NodeId, bytes: Vec<u8>) -> Result<bool> {
        let unsent = Arc::clone(&self.unsent);
        let posted = self.calls.make(move || -> std::result::Result<bool, Failed> {
            let mut unsent = locked(&unsent);
            let posts = &mut unsent[to.index()];
            if still_unsent(posts)? > UNSENT_BYTES_MAX {
                return Ok(false);
            }
            posts.push(Post::new(i32::from(to.0), bytes)?);
            Ok(true)
        });
        let lost = |_| Error::new(Kind::PeerLost, format!("MPI: sending to rank {to} failed"));
        posted.map_err(lost)
    }

    /// The next message, and nothing but signs of life before it.
    fn next(&self) -> Result<Option<(NodeId, Vec<u8>)>> {
        loop {
            let found = self.calls.make(raw::receive).map_err(|_| broken("receiving"))?;
            let Some((from, bytes)) = found else { return Ok(None) };
            let from = u16::try_from(from).ok().map(NodeId);
            let from = from.filter(|from| from.index() < self.is_near.len());
            let from = from.ok_or_else(|| broken("naming a sender"))?;
            locked(&self.heard).silences[from.index()].end(Instant::now());
            if !bytes.is_empty() {
                return Ok(Some((from, bytes)));
            }
        }
    }

    /// The next message, asked for `spins` times at once and then between naps.
    fn receive_after(
        &self,
        timeout: Duration,
        mut spins: u32,
    ) -> Result<Option<(NodeId, Vec<u8>)>> {
        let deadline = Instant::now() + timeout;
        loop {
            let found = self.next()?;
            if found.is_some() || Instant::now() >= deadline {
                return Ok(found);
            }
            match spins.checked_sub(1) {
                Some(left) => spins = left,
                None => std::thread::sleep(NAP),
            }
        }
    }

    /// Waits until MPI has taken every message.
    fn send_the_last(&self) -> bool {
        let begun = Instant::now();
        loop {
            let unsent = Arc::clone(&self.unsent);
            let left = self.calls.make(move || {
                locked(&unsent).iter_mut().map(still_unsent).sum::<std::result::Result<usize, _>>()
            });
            match left {
                Ok(0) => return true,
                Ok(_) if begun.elapsed() < LAST_MAX => std::thread::sleep(NAP),
                Ok(_) | Err(_) => return false,
            }
        }
    }
}

impl Carrier for Messages {
    fn me(&self) -> NodeId {
        self.me
    }
    fn ranks(&self) -> u16 {
        u16::try_from(self.is_near.len()).expect("invariant: ranks fit u16")
    }
    fn post_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }
    fn try_post(&self, to: NodeId, message: &[u8]) -> Result<bool> {
        assert!(!message.is_empty(), "a message has bytes");
        self.post(to, message.to_vec())
    }
    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.receive_after(timeout, SPIN_TURNS)
    }
    fn receive_asleep(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.receive_after(timeout, 0)
    }
    fn show_life(&self) -> Result<()> {
        {
            let mut heard = locked(&self.heard);
            if heard.beat.elapsed() < BEAT {
                return Ok(());
            }
            heard.beat = Instant::now();
        }
        let others = (0..self.is_near.len()).filter(|n| *n != self.me.index());
        // A rank that takes nothing is noticed by its own silence.
        others.for_each(|n| drop(self.post(node(n), Vec::new())));
        Ok(())
    }
    fn send_rest(&self) {
        // Of a job that has failed there may be some that no rank takes any more.
        let _ = self.send_the_last();
    }
    fn liveness(&self, rank: NodeId) -> Liveness {
        match self.is_near[rank.index()] {
            true => Liveness::Alive,
            false => self.liveness_by_signs(rank),
        }
    }
    fn liveness_by_signs(&self, rank: NodeId) -> Liveness {
        let silent = locked(&self.heard).silences[rank.index()].look(Instant::now(), self.silence);
        silent.map_or(Liveness::Alive, |silent| {
            Liveness::Dead(format!("it has been silent for {} ms", silent.as_millis()))
        })
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.send_rest();
    }
}
