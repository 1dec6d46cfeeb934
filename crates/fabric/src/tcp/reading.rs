//! How threads that wait read the connections themselves, where no agent has a thread of its own.
//!
//! Invariants
//! - No thread holds the reader while it sleeps, so another one can read meanwhile. Checked by
//!   `posts_reach_threads_that_read_the_connections_themselves`.

use std::io::Read;
use std::os::fd::AsFd;
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use littoral_base::units::NodeId;
use rustix::event::{PollFd, PollFlags, poll};

use super::agent::Agent;
use super::{Peer, Shared, Waits, locked};
use crate::Result;
use crate::frames::drain;
use crate::shm::timespec;
use crate::silence::BEAT;

impl Shared {
    /// Waits for news at most for `timeout`; the peers that have some, after sending what their
    /// sockets now take.
    pub(super) fn poll(&self, alive: &[usize], timeout: Duration) -> Vec<usize> {
        let peers = || alive.iter().filter_map(|&n| Some((n, self.peers[n].as_ref()?)));
        let interest = |p: &Peer| {
            let idle = locked(&p.outgoing).is_empty() || p.broken.get().is_some();
            if idle { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
        };
        let mut fds = vec![PollFd::new(&self.rung, PollFlags::IN)];
        fds.extend(peers().map(|(_, p)| PollFd::from_borrowed_fd(p.stream.as_fd(), interest(p))));
        // An interrupted poll is a poll without news.
        let _ = poll(&mut fds, Some(&timespec(timeout)));
        if fds[0].revents().contains(PollFlags::IN) {
            let _ = (&self.rung).read(&mut [0; 64]);
        }
        let mut ready = Vec::new();
        for ((n, peer), fd) in peers().zip(&fds[1..]) {
            if fd.revents().contains(PollFlags::OUT)
                && let Err(e) = drain(&peer.stream, &mut locked(&peer.outgoing))
            {
                self.give_up(peer, &e);
            }
            if fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                ready.push(n);
            }
        }
        ready
    }

    /// Reads what has come, on the calling thread, which waits for it at most for `timeout`;
    /// without one it reads unless another thread does.
    pub(super) fn read(&self, reader: &Mutex<Agent>, timeout: Option<Duration>) {
        let alive = self.alive();
        // No thread holds the reader while it sleeps.
        let ready = timeout.map(|timeout| self.poll(&alive, timeout));
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
        mut ready: impl FnMut(&mut Waits) -> Option<T>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + timeout;
        let mut has_read = false;
        loop {
            let mut waits = locked(&self.waits);
            if let Some(answer) = ready(&mut waits) {
                // Another thread may sleep that would take it.
                if has_read && timeout.is_zero() && !waits.inbox.is_empty() {
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
            has_read = true;
            self.read(reader, (!left.is_zero()).then_some(left.min(BEAT)));
        }
    }
}
