//! The agent of a node on TCP: reads what other nodes send and carries out their operations.
//!
//! It is a loop on a thread of its own ([`Agent::run`]), or its turns are taken by the node's
//! threads that wait ([`Agent::turn`]).
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
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use littoral_base::codec::{Reader, Writer};
use littoral_base::units::NodeId;

use super::{Peer, Shared, locked, node_id};
use crate::Result;
use crate::frames::{
    ADD, ANSWER, BEAT_FRAME, BOARD_READ, BOARD_WRITE, BODY_BYTES_MAX, CHANGE, FLUSH, GET, IDENTITY,
    POST, PUT, Split, WAKE, is_operation, read_change, split_frame,
};
use crate::process::{Identity, Standing, Watch};
use crate::silence::{BEAT, JOIN_MAX, Silence};

/// How long a closing agent goes on writing what still waits for its peers.
pub(super) const CLOSING_MAX: Duration = Duration::from_secs(5);
/// Bytes that one read takes.
const CHUNK_BYTES: usize = 1 << 16;

/// What an agent knows of a peer's life.
struct Heard {
    silence: Silence,
    /// Since its identity has come.
    watch: Option<Watch>,
}

/// What reads for one node.
pub(super) struct Agent {
    buffers: Vec<Vec<u8>>,
    chunk: Vec<u8>,
    heard: Vec<Heard>,
    beat: Instant,
    identity: Identity,
    silence_max: Duration,
    /// More than posts and beats has come: threads may wait for it.
    is_news: bool,
}

impl Agent {
    pub(super) fn new(peers: usize, silence_max: Duration) -> Self {
        let now = Instant::now();
        let heard =
            (0..peers).map(|_| Heard { silence: Silence::from(now), watch: None }).collect();
        let (buffers, chunk) = (vec![Vec::new(); peers], vec![0; CHUNK_BYTES]);
        let identity = Identity::own();
        Agent { buffers, chunk, heard, beat: now, identity, silence_max, is_news: false }
    }

    /// Tells every other node who this one is.
    pub(super) fn introduce(&self, shared: &Shared) {
        for n in shared.alive() {
            // A failure marks the peer broken inside `send`.
            let _ = shared.send(node_id(n), IDENTITY, &self.identity.encode());
        }
    }

    /// The loop of the node's own thread.
    pub(super) fn run(&mut self, shared: &Shared) {
        let mut closing = None;
        self.introduce(shared);
        loop {
            let alive = shared.alive();
            if shared.closing.load(Ordering::Acquire) {
                let since = *closing.get_or_insert_with(Instant::now);
                if since.elapsed() > CLOSING_MAX || !shared.has_unsent(&alive) {
                    return;
                }
            }
            let ready = shared.poll(&alive, BEAT, true);
            if self.turn(shared, &alive, &ready) {
                shared.tell_waiting();
            }
        }
    }

    /// Reads from the peers that may have something; whether there was anything.
    pub(super) fn turn(&mut self, shared: &Shared, alive: &[usize], ready: &[usize]) -> bool {
        let mut moved = false;
        for &n in ready {
            moved |= self.read(shared, n);
        }
        for &n in alive {
            moved |= shared.is_broken(n) && self.exhaust(shared, n);
        }
        self.beat_and_listen(shared, alive);
        moved
    }

    /// Whether something has come that other threads may wait for, since this was asked last.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// Reads the last of a peer that nothing can be written to, and marks it as failed.
    fn exhaust(&mut self, shared: &Shared, n: usize) -> bool {
        let mut moved = false;
        while self.read(shared, n) {
            moved = true;
        }
        let how = shared.peers[n].as_ref().and_then(|p| p.broken.get());
        shared.mark_failed(node_id(n), how.cloned().unwrap_or_default());
        moved
    }

    /// Reads what a peer has sent and carries out every whole frame; whether there was anything.
    fn read(&mut self, shared: &Shared, n: usize) -> bool {
        let Some(peer) = &shared.peers[n] else { return false };
        match (&peer.stream).read(&mut self.chunk) {
            Ok(0) => shared.mark_failed(node_id(n), "it closed the connection".into()),
            Ok(got) => {
                self.heard[n].silence.end(Instant::now());
                self.buffers[n].extend_from_slice(&self.chunk[..got]);
                self.frames(shared, n, peer);
                return true;
            }
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(e) => shared.mark_failed(node_id(n), format!("reading from it failed: {e}")),
        }
        false
    }

    fn frames(&mut self, shared: &Shared, n: usize, peer: &Peer) {
        let mut buffer = std::mem::take(&mut self.buffers[n]);
        let mut rest = &buffer[..];
        loop {
            let (kind, applied, body, after) = match split_frame(rest) {
                Split::Frame(kind, applied, body, after) => (kind, applied, body, after),
                Split::More => break,
                Split::TooLong(bytes) => {
                    let how = format!("it sent a frame of {bytes} bytes");
                    return shared.mark_failed(node_id(n), how);
                }
            };
            peer.acknowledged.fetch_max(applied, Ordering::AcqRel);
            self.is_news |= !matches!(kind, POST | BEAT_FRAME);
            if self.frame(shared, n, peer, kind, body).is_none() {
                let how = format!("it sent a bad frame of kind {kind}");
                return shared.mark_failed(node_id(n), how);
            }
            rest = after;
        }
        // What has come of a long frame is not copied at each read: there are a thousand of 64 MiB.
        let taken = buffer.len() - rest.len();
        buffer.drain(..taken);
        self.buffers[n] = if buffer.is_empty() { Vec::new() } else { buffer };
    }

    fn frame(
        &mut self,
        shared: &Shared,
        n: usize,
        peer: &Peer,
        kind: u8,
        body: &[u8],
    ) -> Option<()> {
        let from = node_id(n);
        let mut r = Reader::new(body);
        match kind {
            PUT => {
                let offset = r.u64()?;
                let data = r.bytes(r.remaining())?;
                shared.window.put(usize::try_from(offset).ok()?, data).ok()?;
            }
            GET => {
                let (offset, len, id) = (r.u64()?, r.u64()?, r.u64()?);
                let mut data = vec![0; usize::try_from(len).ok().filter(|l| *l <= BODY_BYTES_MAX)?];
                let done = shared.window.get(usize::try_from(offset).ok()?, &mut data);
                answer(shared, from, id, done.map(|()| data));
            }
            ADD => {
                let (offset, add, id) = (r.u64()?, r.u64()?, r.u64()?);
                let done = shared.window.fetch_add(usize::try_from(offset).ok()?, add);
                answer(shared, from, id, done.map(|old| old.to_le_bytes().to_vec()));
            }
            CHANGE => {
                let (offset, op, id) = (r.u64()?, read_change(&mut r)?, r.u64()?);
                let done = shared.window.rmw(usize::try_from(offset).ok()?, op);
                answer(shared, from, id, done.map(|old| old.to_le_bytes().to_vec()));
            }
            BOARD_WRITE => _ = shared.on_board(from, kind, body),
            BOARD_READ => {
                let (question, id) = body.split_at_checked(body.len().checked_sub(8)?)?;
                let id = u64::from_le_bytes(id.try_into().ok()?);
                answer(shared, from, id, shared.on_board(from, kind, question));
            }
            POST => locked(&shared.waits).inbox.push_back((from, body.to_vec())),
            WAKE => locked(&shared.waits).wakes += 1,
            FLUSH | BEAT_FRAME => {}
            IDENTITY => {
                let watch = Watch::open(&self.identity, Identity::decode(body)?);
                self.heard[n].watch = Some(watch);
                locked(&shared.waits).introduced.insert(from);
            }
            ANSWER => {
                let id = r.u64()?;
                let data = r.bytes(r.remaining())?.to_vec();
                locked(&shared.waits).answers.insert(id, data);
            }
            _ => return None,
        }
        if is_operation(kind) {
            peer.applied.fetch_add(1, Ordering::AcqRel);
        }
        if kind == FLUSH {
            // The beat carries the acknowledgement; a dead peer is noticed by its silence.
            let _ = shared.send(from, BEAT_FRAME, &[]);
        }
        Some(())
    }

    fn beat_and_listen(&mut self, shared: &Shared, alive: &[usize]) {
        if self.beat.elapsed() < BEAT {
            return;
        }
        self.beat = Instant::now();
        for &n in alive {
            if let Some(silent) = self.silence_of(n) {
                let ms = silent.as_millis();
                shared.mark_failed(node_id(n), format!("it has been silent for {ms} ms"));
            } else {
                // A failure marks the peer broken inside `send`.
                let _ = shared.send(node_id(n), BEAT_FRAME, &[]);
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

fn answer(shared: &Shared, to: NodeId, id: u64, result: Result<Vec<u8>>) {
    let mut body = Writer::new();
    body.u64(id);
    match result {
        Ok(data) => _ = body.u8(1).raw(&data),
        Err(_) => _ = body.u8(0),
    }
    // A peer that died meanwhile needs no answer.
    let _ = shared.send(to, ANSWER, &body.finish());
}
