//! A rank's side of a job in virtual time: a carrier whose messages wait for the rank's next turn.
//!
//! Between two turns nothing reaches the conductor and nothing comes from it.
//!
//! Invariants
//! - A seat that is given up says so, with what was posted last; one that ends without that is a
//!   lost rank. Checked by `a_rank_that_says_nothing_is_lost_and_the_others_are_told`,
//!   `a_rank_that_ends_is_named_by_the_others`.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use littoral_base::units::{NodeId, Picos};
use littoral_fabric::Liveness;
use rustix::time::{ClockId, clock_gettime};

use super::{Ask, Compute, Posts, Turns, Wake, decode_wake, encode_ask};
use crate::error::{Error, Kind, Result};
use crate::runtime::carrier::Carrier;

/// The longest wake that is read; frames are at most a megabyte.
const WAKE_BYTES_MAX: usize = 1 << 24;

struct State {
    stream: UnixStream,
    posts: Posts,
    lost: Vec<(NodeId, String)>,
    operations: u64,
    /// The thread's processor time when its turn began.
    began: Picos,
    now: Picos,
    left: bool,
}

/// See the module's page.
pub struct Seat {
    me: NodeId,
    ranks: u16,
    compute: Compute,
    state: Mutex<State>,
}

fn thread_time() -> Picos {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
    Picos::from_nanos(nanos)
}

fn gone(e: std::io::Error) -> Error {
    Error::with_source(Kind::PeerLost, "the conductor of the simulated job is gone", e)
}

impl Seat {
    /// Rank `me` of `ranks`, whose conductor is at the other end of `stream`.
    pub fn new(me: NodeId, ranks: u16, stream: UnixStream, compute: Compute) -> Seat {
        let state = State {
            stream,
            posts: Vec::new(),
            lost: Vec::new(),
            operations: 0,
            began: thread_time(),
            now: Picos::ZERO,
            left: false,
        };
        Seat { me, ranks, compute, state: Mutex::new(state) }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn say(&mut self, ask: Ask) -> Result<()> {
        let body = encode_ask(ask, &std::mem::take(&mut self.posts));
        let length = u32::try_from(body.len()).expect("invariant: a turn has less than 4 GiB");
        self.stream.write_all(&length.to_le_bytes()).map_err(gone)?;
        self.stream.write_all(&body).map_err(gone)
    }

    fn hear(&mut self) -> Result<Wake> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(gone)?;
        let length = u32::from_le_bytes(length) as usize;
        let bad = || Error::new(Kind::Protocol, "the conductor sent no wake");
        if length > WAKE_BYTES_MAX {
            return Err(bad());
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).map_err(gone)?;
        let (wake, now) = decode_wake(&body).ok_or_else(bad)?;
        self.now = now;
        Ok(wake)
    }
}

impl Turns for Seat {
    fn give(&self, ask: Ask) -> Result<Wake> {
        let mut state = self.locked();
        if state.left {
            return Err(Error::new(Kind::PeerLost, "this rank has left the simulated job"));
        }
        state.left = ask == Ask::Leave;
        state.say(ask)?;
        if state.left {
            return Ok(Wake::Go);
        }
        let wake = state.hear()?;
        if let Wake::Lost(rank, how) = &wake {
            let lost = (*rank, how.clone());
            state.lost.push(lost);
        }
        if wake == Wake::Go {
            state.began = thread_time();
        }
        Ok(wake)
    }

    fn has_posts(&self) -> bool {
        !self.locked().posts.is_empty()
    }

    fn declare(&self, operations: u64) {
        let mut state = self.locked();
        state.operations = state.operations.saturating_add(operations);
    }

    fn computed(&self) -> Option<Ask> {
        let mut state = self.locked();
        let operations = std::mem::take(&mut state.operations);
        let ask = match self.compute {
            Compute::Declared => Ask::Compute { operations, processor: Picos::ZERO },
            Compute::Processor => {
                let now = thread_time();
                let spent = now - std::mem::replace(&mut state.began, now);
                Ask::Compute { operations: 0, processor: spent }
            }
        };
        let nothing = Ask::Compute { operations: 0, processor: Picos::ZERO };
        (ask != nothing).then_some(ask)
    }

    fn now(&self) -> Picos {
        self.locked().now
    }
}

impl Carrier for Seat {
    fn me(&self) -> NodeId {
        self.me
    }

    fn ranks(&self) -> u16 {
        self.ranks
    }

    fn post_bytes_max(&self) -> usize {
        1 << 24
    }

    fn try_post(&self, to: NodeId, message: &[u8]) -> Result<bool> {
        self.locked().posts.push((to, message.to_vec()));
        Ok(true)
    }

    /// Messages come with turns only.
    fn receive(&self, _timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        Ok(None)
    }

    fn show_life(&self) -> Result<()> {
        Ok(())
    }

    fn liveness(&self, rank: NodeId) -> Liveness {
        let state = self.locked();
        let found = state.lost.iter().find(|(lost, _)| *lost == rank);
        found.map_or(Liveness::Alive, |(_, how)| Liveness::Dead(how.clone()))
    }

    fn turns(&self) -> Option<&dyn Turns> {
        Some(self)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.locked();
        if !state.left {
            // The conductor may be gone; then there is nothing to tell.
            let _ = state.say(Ask::Leave);
        }
    }
}
