//! How threads that wait read the connections themselves, where no agent has a thread of its own.
//!
//! Invariants
//! - No thread holds the reader while it sleeps, so another one can read meanwhile. Checked by
//!   `posts_reach_threads_that_read_the_connections_themselves`.

use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use littoral_base::units::NodeId;

use super::agent::Agent;
use super::ears::Heard;
use super::{Shared, Waits, locked};
use crate::Result;
use crate::frames::drain;
use crate::silence::BEAT;

impl Shared {
    /// Waits for news at most for `timeout`; the peers that have some, after sending what their
    /// sockets now take. `attends`: the thread is the one that what comes is to wake.
    pub(super) fn poll(&self, alive: &[usize], timeout: Duration, attends: bool) -> Vec<usize> {
        for &n in alive {
            self.peers[n].iter().for_each(|peer| self.ears.hear_of_room(n, peer));
        }
        let mut ready = Vec::new();
        for Heard { node, has_room, has_more } in self.ears.listen(&self.rung, timeout, attends) {
            let Some(peer) = &self.peers[node] else { continue };
            if !alive.contains(&node) {
                self.ears.forget(peer);
                continue;
            }
            if has_room && let Err(e) = drain(&peer.stream, &mut locked(&peer.outgoing)) {
                self.give_up(peer, &e);
            }
            if has_more {
                ready.push(node);
            }
        }
        ready
    }

    /// Reads what has come, on the calling thread, which waits for it at most for `timeout`;
    /// without one it reads unless another thread does.
    pub(super) fn read(&self, reader: &Mutex<Agent>, timeout: Option<Duration>, attends: bool) {
        let alive = self.alive();
        // No thread holds the reader while it sleeps.
        let ready = timeout.map(|timeout| self.poll(&alive, timeout, attends));
        let mut agent = match timeout {
            Some(_) => locked(reader),
            None => match reader.try_lock() {
                Ok(agent) => agent,
                Err(TryLockError::Poisoned(agent)) => agent.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            },
        };
        agent.turn(self, &alive, ready.as_deref().unwrap_or(&alive));
        if agent.take_news() {
            self.ring_bell();
        }
    }

    /// As `wait`, by a thread that reads the connections itself.
    pub(super) fn wait_reading<T>(
        &self,
        reader: &Mutex<Agent>,
        node: Option<NodeId>,
        timeout: Duration,
        attends: bool,
        mut ready: impl FnMut(&mut Waits) -> Option<T>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + timeout;
        let mut has_read = false;
        loop {
            let mut waits = locked(&self.waits);
            if let Some(answer) = ready(&mut waits) {
                // Another thread may sleep that would take it; who attends does so itself.
                if has_read && timeout.is_zero() && !attends && !waits.inbox.is_empty() {
                    self.ring_bell();
                }
                return Ok(Some(answer));
            }
            if let Some((n, how)) = node.and_then(|n| waits.dead.get(&n).map(|how| (n, how))) {
                return Err(self.dead(n, how));
            }
            drop(waits);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() && has_read {
                return Ok(None);
            }
            if attends && has_read && self.ears.was_called() {
                return Ok(None);
            }
            has_read = true;
            self.read(reader, (!left.is_zero()).then_some(left.min(BEAT)), attends);
        }
    }
}
