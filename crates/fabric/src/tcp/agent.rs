//! The agent of a node on TCP: the event loop that carries out the operations of other nodes.
//!
//! Invariants
//! - It never blocks in a write: what a socket does not take waits in the peer's queue. Checked by
//!   `both_ways_at_once_never_locks_up`.
//! - A peer is marked dead only after all that has come from it is read. Checked by
//!   `what_a_peer_said_before_it_died_is_received`.
//! - Silence of a peer counts only when its process cannot be watched, or when the two are in
//!   different network namespaces, where a cut connection shows nothing else. Checked by
//!   `a_silent_peer_of_this_machine_is_alive_until_its_stream_ends`,
//!   `a_silent_peer_of_another_machine_is_dead_and_a_wait_on_it_ends`.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use littoral_base::codec::{Reader, Writer};
use littoral_base::units::NodeId;
use rustix::event::{PollFd, PollFlags, poll};

use super::{Peer, Shared, locked, node_id};
use crate::Result;
use crate::frames::{
    ADD, ANSWER, BEAT_FRAME, BOARD_READ, BOARD_WRITE, BODY_BYTES_MAX, CHANGE, FLUSH, GET, IDENTITY,
    POST, PUT, Split, WAKE, drain, is_operation, read_change, split_frame,
};
use crate::process::{Identity, Standing, Watch};
use crate::shm::timespec;
use crate::silence::{BEAT, JOIN_MAX, Silence};

/// How long a closing agent goes on writing what still waits for its peers.
const CLOSING_MAX: Duration = Duration::from_secs(5);

/// What an agent knows of a peer's life.
struct Heard {
    silence: Silence,
    /// Since its identity has come.
    watch: Option<Watch>,
}

/// The event loop of one node.
pub(super) struct Agent<'s> {
    shared: &'s Shared,
    bell: UnixStream,
    buffers: Vec<Vec<u8>>,
    heard: Vec<Heard>,
    beat: Instant,
    identity: Identity,
    silence_max: Duration,
}

impl<'s> Agent<'s> {
    pub(super) fn new(shared: &'s Shared, bell: UnixStream, silence_max: Duration) -> Self {
        let n = shared.peers.len();
        let now = Instant::now();
        let heard = (0..n).map(|_| Heard { silence: Silence::from(now), watch: None }).collect();
        let buffers = vec![Vec::new(); n];
        Agent { shared, bell, buffers, heard, beat: now, identity: Identity::own(), silence_max }
    }

    pub(super) fn run(&mut self) {
        let mut closing = None;
        for n in self.alive() {
            // A failure marks the peer broken inside `send`.
            let _ = self.shared.send(node_id(n), IDENTITY, &self.identity.encode());
        }
        loop {
            let alive = self.alive();
            if self.shared.closing.load(Ordering::Acquire) {
                let since = *closing.get_or_insert_with(Instant::now);
                if since.elapsed() > CLOSING_MAX || !self.has_unsent(&alive) {
                    return;
                }
            }
            let ready = self.poll(&alive);
            let mut moved = false;
            for n in ready {
                moved |= self.read(n);
            }
            for &n in &alive {
                moved |= self.is_broken(n) && self.exhaust(n);
            }
            if moved {
                self.shared.tell_waiting();
            }
            self.beat_and_listen(&alive);
        }
    }

    fn alive(&self) -> Vec<usize> {
        let waits = locked(&self.shared.waits);
        let connected = |n: &usize| self.shared.peers[*n].is_some();
        let dead = |n: usize| waits.dead.contains_key(&node_id(n));
        (0..self.shared.peers.len()).filter(connected).filter(|&n| !dead(n)).collect()
    }

    /// Whether something waits for a peer that can still be written to.
    fn has_unsent(&self, alive: &[usize]) -> bool {
        let peers = alive.iter().filter_map(|&n| self.shared.peers[n].as_ref());
        peers.into_iter().any(|p| p.broken.get().is_none() && !locked(&p.outgoing).is_empty())
    }

    fn is_broken(&self, n: usize) -> bool {
        self.shared.peers[n].as_ref().is_some_and(|p| p.broken.get().is_some())
    }

    /// Reads the last of a peer that nothing can be written to, and marks it as failed.
    fn exhaust(&mut self, n: usize) -> bool {
        let mut moved = false;
        while self.read(n) {
            moved = true;
        }
        let how = self.shared.peers[n].as_ref().and_then(|p| p.broken.get());
        self.shared.mark_failed(node_id(n), how.cloned().unwrap_or_default());
        moved
    }

    /// Waits for news; the peers that have some, after sending what their sockets now take.
    fn poll(&self, alive: &[usize]) -> Vec<usize> {
        let peers = || alive.iter().filter_map(|&n| Some((n, self.shared.peers[n].as_ref()?)));
        let interest = |p: &Peer| {
            let idle = locked(&p.outgoing).is_empty() || p.broken.get().is_some();
            if idle { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
        };
        let mut fds = vec![PollFd::new(&self.bell, PollFlags::IN)];
        fds.extend(peers().map(|(_, p)| PollFd::from_borrowed_fd(p.stream.as_fd(), interest(p))));
        // An interrupted poll is a poll without news.
        let _ = poll(&mut fds, Some(&timespec(BEAT)));
        if fds[0].revents().contains(PollFlags::IN) {
            let _ = (&self.bell).read(&mut [0; 64]);
        }
        let mut ready = Vec::new();
        for ((n, peer), fd) in peers().zip(&fds[1..]) {
            if fd.revents().contains(PollFlags::OUT)
                && let Err(e) = drain(&peer.stream, &mut locked(&peer.outgoing))
            {
                self.shared.give_up(peer, &e);
            }
            if fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                ready.push(n);
            }
        }
        ready
    }

    /// Reads what a peer has sent and carries out every whole frame; whether there was anything.
    fn read(&mut self, n: usize) -> bool {
        let Some(peer) = &self.shared.peers[n] else { return false };
        let mut chunk = [0; 65536];
        match (&peer.stream).read(&mut chunk) {
            Ok(0) => self.shared.mark_failed(node_id(n), "it closed the connection".into()),
            Ok(got) => {
                self.heard[n].silence.end(Instant::now());
                self.buffers[n].extend_from_slice(&chunk[..got]);
                self.frames(n, peer);
                return true;
            }
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(e) => self.shared.mark_failed(node_id(n), format!("reading from it failed: {e}")),
        }
        false
    }

    fn frames(&mut self, n: usize, peer: &Peer) {
        let buffer = std::mem::take(&mut self.buffers[n]);
        let mut rest = &buffer[..];
        loop {
            let (kind, applied, body, after) = match split_frame(rest) {
                Split::Frame(kind, applied, body, after) => (kind, applied, body, after),
                Split::More => break,
                Split::TooLong(bytes) => {
                    let how = format!("it sent a frame of {bytes} bytes");
                    return self.shared.mark_failed(node_id(n), how);
                }
            };
            peer.acknowledged.fetch_max(applied, Ordering::AcqRel);
            if self.frame(n, peer, kind, body).is_none() {
                return self
                    .shared
                    .mark_failed(node_id(n), format!("it sent a bad frame of kind {kind}"));
            }
            rest = after;
        }
        self.buffers[n] = rest.to_vec();
    }

    fn frame(&mut self, n: usize, peer: &Peer, kind: u8, body: &[u8]) -> Option<()> {
        let from = node_id(n);
        let mut r = Reader::new(body);
        match kind {
            PUT => {
                let offset = r.u64()?;
                let data = r.bytes(r.remaining())?;
                self.shared.window.put(usize::try_from(offset).ok()?, data).ok()?;
            }
            GET => {
                let (offset, len, id) = (r.u64()?, r.u64()?, r.u64()?);
                let mut data = vec![0; usize::try_from(len).ok().filter(|l| *l <= BODY_BYTES_MAX)?];
                let done = self.shared.window.get(usize::try_from(offset).ok()?, &mut data);
                self.answer(from, id, done.map(|()| data));
            }
            ADD => {
                let (offset, add, id) = (r.u64()?, r.u64()?, r.u64()?);
                let done = self.shared.window.fetch_add(usize::try_from(offset).ok()?, add);
                self.answer(from, id, done.map(|old| old.to_le_bytes().to_vec()));
            }
            CHANGE => {
                let (offset, op, id) = (r.u64()?, read_change(&mut r)?, r.u64()?);
                let done = self.shared.window.rmw(usize::try_from(offset).ok()?, op);
                self.answer(from, id, done.map(|old| old.to_le_bytes().to_vec()));
            }
            BOARD_WRITE => _ = self.shared.on_board(from, kind, body),
            BOARD_READ => {
                let (question, id) = body.split_at_checked(body.len().checked_sub(8)?)?;
                let id = u64::from_le_bytes(id.try_into().ok()?);
                self.answer(from, id, self.shared.on_board(from, kind, question));
            }
            POST => locked(&self.shared.waits).inbox.push_back((from, body.to_vec())),
            WAKE => locked(&self.shared.waits).wakes += 1,
            FLUSH | BEAT_FRAME => {}
            IDENTITY => {
                let watch = Watch::open(&self.identity, Identity::decode(body)?);
                self.heard[n].watch = Some(watch);
                locked(&self.shared.waits).introduced.insert(from);
            }
            ANSWER => {
                let id = r.u64()?;
                let data = r.bytes(r.remaining())?.to_vec();
                locked(&self.shared.waits).answers.insert(id, data);
            }
            _ => return None,
        }
        if is_operation(kind) {
            peer.applied.fetch_add(1, Ordering::AcqRel);
        }
        if kind == FLUSH {
            // The beat carries the acknowledgement; a dead peer is noticed by its silence.
            let _ = self.shared.send(from, BEAT_FRAME, &[]);
        }
        Some(())
    }

    fn answer(&self, to: NodeId, id: u64, result: Result<Vec<u8>>) {
        let mut body = Writer::new();
        body.u64(id);
        match result {
            Ok(data) => _ = body.u8(1).raw(&data),
            Err(_) => _ = body.u8(0),
        }
        // A peer that died meanwhile needs no answer.
        let _ = self.shared.send(to, ANSWER, &body.finish());
    }

    fn beat_and_listen(&mut self, alive: &[usize]) {
        if self.beat.elapsed() < BEAT {
            return;
        }
        self.beat = Instant::now();
        for &n in alive {
            if let Some(silent) = self.silence_of(n) {
                let ms = silent.as_millis();
                self.shared.mark_failed(node_id(n), format!("it has been silent for {ms} ms"));
            } else {
                // A failure marks the peer broken inside `send`.
                let _ = self.shared.send(node_id(n), BEAT_FRAME, &[]);
            }
        }
    }

    /// How long a peer has been silent, if its silence counts and has lasted too long.
    fn silence_of(&mut self, n: usize) -> Option<Duration> {
        let Heard { silence, watch } = &mut self.heard[n];
        let limit = match watch {
            // It may still be connecting to others.
            None => JOIN_MAX,
            Some(watch) => {
                let near = self.identity.shares_network(watch.identity());
                if near && watch.standing() == Standing::Alive {
                    silence.end(self.beat);
                }
                self.silence_max
            }
        };
        silence.look(self.beat, limit)
    }
}
