//! A fabric over pooled memory that every node maps: nothing but stores, write-backs and fences.
//!
//! The pool is reached through a [`Domain`] and treated as non-coherent, so the same code serves
//! the hostile emulator, shared memory of one machine, and CXL-attached memory. There is no
//! read-modify-write anywhere: every line has one writer.
//!
//! Layout, in 64-byte lines: one *beat* line per node, {beat, state, process, start, machine,
//! network} ([`super::process::Identity`]); then, for every ordered pair of nodes, a ring
//! {tail line, head line, `RING_BYTES` of frames}; then the mailboxes of boards
//! ([`super::mailbox`]); then one window a node. A frame is {length u64, bytes, padding to 8}; tail
//! and head count bytes for ever, the tail written by the sender, the head by the receiver.
//!
//! Order of a post: frame bytes stored, written back, fenced; then the tail. Order of a receive:
//! the tail's line invalidated and read; the frame's lines invalidated and read; then the head
//! stored, written back, fenced, which gives the space back. Any step left out is seen by the tests
//! on the hostile pool.
//!
//! Invariants
//! - A put is visible at the owner after [`Fabric::flush`] (or the next post to anyone, whose fence
//!   covers it) and the owner's next get; a line of a window has one writer at a time, since a line
//!   goes back whole. Messages go through [`Fabric::post`] and need no such care. Checked by
//!   `a_flushed_put_is_seen_by_the_owner`.
//! - A full ring holds the sender back until the receiver has read, or is dead. Checked by
//!   `a_dead_receiver_does_not_hold_a_sender_back_for_ever`,
//!   `messages_arrive_whole_and_in_order_on_the_hostile_pool`.
//! - A node publishes its identity before its state says *joined*, and *left* when it is dropped.
//!   Checked by `an_identity_is_on_the_medium_before_its_node_has_joined`.
//! - When a node is dead: `docs/design/dsm.md`, *Liveness*. Its beat decides only when its process
//!   is not one of this machine. Checked by `silence_is_no_death_on_one_machine`,
//!   `a_dead_receiver_does_not_hold_a_sender_back_for_ever`.
//! - `fetch_add` is refused: a non-coherent pool has no atomic read-modify-write. Checked by
//!   `what_a_pool_cannot_do_is_refused`.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::mailbox::{Asking, Request};
pub use super::pool_layout::{PoolLayout, RING_BYTES};
use super::process::{Identity, Standing, Watch};
use super::refusal;
use super::silence::{self, BEAT, JOIN_MAX, SILENCE_DEFAULT, Silence};
use super::{Fabric, Liveness};
use crate::{Error, Kind, Result};
use littoral_device::memory::{Domain, LINE_BYTES};

const ORDER: Ordering = Ordering::Relaxed;
const SPIN_TURNS: u32 = 500;
const YIELD_TURNS: u32 = 1000;
const NAP: Duration = Duration::from_micros(50);
/// How long an answer of the kernel about a process is good for.
const FRESH: Duration = Duration::from_millis(1);

/// States of a node, in word 1 of its beat line.
const ABSENT: u64 = 0;
const JOINED: u64 = 1;
const LEFT: u64 = 2;
const LEAVES: &str = "it left the job";

/// What a node knows of another one's life.
#[derive(Debug)]
struct Heard {
    watch: Option<Watch>,
    /// When the kernel said last that it lives.
    asked: Option<Instant>,
    beat: u64,
    silence: Silence,
}

/// One node of a pool fabric; see the module's page.
pub struct PoolFabric<D: Domain> {
    domain: D,
    layout: PoolLayout,
    me: NodeId,
    beat: Cell<u64>,
    /// When the beat last moved.
    shown: Cell<Instant>,
    heard: RefCell<Vec<Heard>>,
    turn: Cell<usize>,
    identity: Identity,
    joined: Instant,
    silence_max: Duration,
}

impl<D: Domain> PoolFabric<D> {
    /// Node `me` of the job whose pool `domain` is. A new pool is all zeros.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` when the pool is too small or there is no such node.
    pub fn new(domain: D, layout: PoolLayout, me: NodeId) -> Result<Self> {
        Self::new_as(domain, layout, me, Identity::own())
    }

    /// As `new`, for a node that stands in for another process, such as one of another machine in a
    /// test of what happens there.
    ///
    /// # Errors
    /// As `new`.
    pub fn new_as(domain: D, layout: PoolLayout, me: NodeId, identity: Identity) -> Result<Self> {
        if domain.len() < layout.pool_bytes() || me.index() >= layout.nodes {
            let what = format!(
                "node {me} of {} on a pool of {} bytes; the layout needs {}",
                layout.nodes,
                domain.len(),
                layout.pool_bytes()
            );
            return Err(Error::new(Kind::IllegalRequest, what).at_rank(me));
        }
        let now = Instant::now();
        let unheard = |_| Heard { watch: None, asked: None, beat: 0, silence: Silence::from(now) };
        let heard = RefCell::new((0..layout.nodes).map(unheard).collect());
        let (beat, turn, shown) = (Cell::new(0), Cell::new(0), Cell::new(now));
        let silence_max = SILENCE_DEFAULT;
        let node = PoolFabric {
            domain,
            layout,
            me,
            beat,
            shown,
            heard,
            turn,
            identity,
            joined: now,
            silence_max,
        };
        node.join()?;
        Ok(node)
    }

    /// The same node; nodes of other machines may be silent for `silence_max`.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for a limit below [`super::SILENCE_MIN`].
    pub fn with_silence(mut self, silence_max: Duration) -> Result<Self> {
        self.silence_max = silence::checked(silence_max)?;
        Ok(self)
    }

    /// Waits until every node has joined, at most for `timeout`.
    ///
    /// # Errors
    /// `Kind::Io` naming the first that has not.
    pub fn wait_for_all(&self, timeout: Duration) -> Result<()> {
        let absent = |n: &usize| self.fresh(self.layout.beat(*n) + 8) == ABSENT;
        let others = || (0..self.layout.nodes).filter(|n| *n != self.me.index());
        let joined = || Ok((!others().any(|n| absent(&n))).then_some(()));
        if self.until(timeout, joined)?.is_some() {
            return Ok(());
        }
        let missing = others().find(absent);
        let name = missing.map_or("a node".into(), |n| format!("node {n}"));
        let what = format!("{name} has not joined within {} ms", timeout.as_millis());
        let failed = Error::new(Kind::Io, what).at_rank(self.me);
        let missing = missing.and_then(|n| u16::try_from(n).ok());
        Err(missing.into_iter().fold(failed, |e, n| e.at_peer(NodeId(n))))
    }

    /// Publishes who this node is, then that it has joined.
    fn join(&self) -> Result<()> {
        let line = self.layout.beat(self.me.index());
        for (i, word) in self.identity.words().into_iter().enumerate() {
            self.domain.store(line + 8 * (2 + i), word, ORDER);
        }
        self.domain.write_back(line, LINE_BYTES);
        self.domain.fence()?;
        self.publish(line + 8, JOINED)
    }

    fn identity_of(&self, n: usize) -> Identity {
        let words = self.layout.beat(n) + 16;
        self.domain.invalidate(words, 32);
        Identity::from_words([0, 1, 2, 3].map(|i| self.domain.word(words + 8 * i, ORDER)))
    }

    /// How node `n`, which has joined, is dead; `None` when it is not.
    fn judge(&self, n: usize) -> Option<String> {
        let (mut heard, now) = (self.heard.borrow_mut(), Instant::now());
        let heard = &mut heard[n];
        if heard.asked.is_some_and(|asked| now.duration_since(asked) < FRESH) {
            return None;
        }
        let watch =
            heard.watch.get_or_insert_with(|| Watch::open(&self.identity, self.identity_of(n)));
        heard.asked = None;
        match watch.standing() {
            Standing::Alive => {
                heard.asked = Some(now);
                None
            }
            // It may have left in good order before it ended.
            Standing::Ended if self.fresh(self.layout.beat(n) + 8) == LEFT => Some(LEAVES.into()),
            Standing::Ended => Some(format!("process {} ended", watch.identity().process)),
            Standing::Unknown => {
                let beat = self.fresh(self.layout.beat(n));
                if beat != std::mem::replace(&mut heard.beat, beat) {
                    heard.silence.end(now);
                }
                let silent = heard.silence.look(now, self.silence_max)?;
                Some(format!("no sign of life for {} ms", silent.as_millis()))
            }
        }
    }

    /// The pool's memory, for its counters.
    pub fn domain(&self) -> &D {
        &self.domain
    }

    fn node(&self, node: NodeId) -> Result<usize> {
        if node.index() < self.layout.nodes {
            return Ok(node.index());
        }
        Err(refusal::no_such_node(self.me, node, self.layout.nodes))
    }

    /// Stores a word of a line of our own and sees it to the medium.
    fn publish(&self, offset: usize, value: u64) -> Result<()> {
        self.domain.store(offset, value, Ordering::Release);
        self.domain.write_back(offset, 8);
        self.domain.fence()
    }

    /// The word of another node's line as it is on the medium.
    fn fresh(&self, offset: usize) -> u64 {
        if !mutant!("pool_counters_not_invalidated") {
            self.domain.invalidate(offset, 8);
        }
        self.domain.word(offset, Ordering::Acquire)
    }

    fn window(&self, node: NodeId, offset: usize, len: usize) -> Result<usize> {
        self.layout.window_at(node, offset, len)
    }

    fn mailbox(&self, board: NodeId) -> Result<Request<'_, D>> {
        self.node(board)?;
        Ok(Request { domain: &self.domain, at: self.layout.mailbox(self.me, board) })
    }

    /// Waits until a board has dealt with the last request, or its node is dead. An agent may serve
    /// a board whose node has not joined or has left; such a request waits for [`JOIN_MAX`].
    fn until_free(&self, board: NodeId, request: &Request<'_, D>) -> Result<()> {
        let began = Instant::now();
        let free = || {
            if request.is_free() {
                return Ok(Some(()));
            }
            let is_joined = self.fresh(self.layout.beat(board.index()) + 8) == JOINED;
            match is_joined || began.elapsed() > JOIN_MAX {
                true => self.alive(board).map(|()| None),
                false => Ok(None),
            }
        };
        self.until(Duration::MAX, free).map(drop)
    }

    fn alive(&self, node: NodeId) -> Result<()> {
        match self.liveness(node) {
            Liveness::Alive => Ok(()),
            Liveness::Dead(how) => Err(refusal::gone(self.me, node, &how)),
        }
    }

    fn ring_word(ring: usize, count: u64) -> usize {
        let within = usize::try_from(count % RING_BYTES as u64).expect("invariant: below the ring");
        ring + 2 * LINE_BYTES + within
    }

    /// Where bytes `from` to `to` of a ring's stream lie: a place and a length each.
    fn pieces(ring: usize, from: u64, to: u64) -> [(usize, usize); 2] {
        let (place, start) = (Self::ring_word(ring, from), ring + 2 * LINE_BYTES);
        let len = usize::try_from(to - from).expect("invariant: at most the ring");
        let first = len.min(start + RING_BYTES - place);
        [(place, first), (start, len - first)]
    }

    /// Stores a frame from byte `tail` of a ring on and starts its way to the medium.
    fn store_frame(&self, ring: usize, tail: u64, message: &[u8]) {
        debug_assert!(tail.is_multiple_of(8), "frames begin at words, not at byte {tail}");
        let mut words = Vec::with_capacity(1 + message.len().div_ceil(8));
        words.push(message.len() as u64);
        let (whole, rest) = message.as_chunks::<8>();
        words.extend(whole.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        if !rest.is_empty() {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            words.push(u64::from_le_bytes(bytes));
        }
        let mut left = &words[..];
        for (place, len) in Self::pieces(ring, tail, tail + 8 * words.len() as u64) {
            let (now, later) = left.split_at(len / 8);
            self.domain.store_words(place, now);
            if !mutant!("pool_frame_not_written_back") {
                self.domain.write_back(place, len);
            }
            left = later;
        }
    }

    fn load_frame(&self, ring: usize, head: u64, tail: u64) -> Result<(Vec<u8>, u64)> {
        let drop_lines = |place, len| {
            if len > 0 && !mutant!("pool_frame_not_invalidated") {
                self.domain.invalidate(place, len);
            }
        };
        let place = Self::ring_word(ring, head);
        drop_lines(place, 8);
        let length = self.domain.word(place, ORDER);
        let padded = length.checked_next_multiple_of(8).unwrap_or(u64::MAX);
        let end = head.saturating_add(8).saturating_add(padded);
        if length > RING_BYTES as u64 || end > tail {
            let left = tail.saturating_sub(head);
            let what = format!("a frame of {length} bytes in a ring with {left} left");
            return Err(Error::new(Kind::Corrupt, what).at_rank(self.me).at_offset(head));
        }
        let mut words = vec![0; length.div_ceil(8) as usize];
        let mut left = &mut words[..];
        for (place, len) in Self::pieces(ring, head + 8, end) {
            let (now, later) = left.split_at_mut(len / 8);
            drop_lines(place, len);
            self.domain.load_words(place, now);
            left = later;
        }
        let mut bytes = Vec::with_capacity(8 * words.len());
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.truncate(length as usize);
        Ok((bytes, end))
    }

    /// Takes one message from one ring.
    fn take_from(&self, from: usize) -> Result<Option<Vec<u8>>> {
        let ring = self.layout.ring(from, self.me.index());
        let (tail_at, head_at) = (ring, ring + LINE_BYTES);
        let head = self.domain.word(head_at, ORDER);
        let tail = self.fresh(tail_at);
        if head == tail {
            return Ok(None);
        }
        let (bytes, end) = self.load_frame(ring, head, tail)?;
        self.publish(head_at, end)?;
        Ok(Some(bytes))
    }

    /// Runs `attempt` until it answers or time is out, spinning, then yielding, then napping,
    /// showing and watching signs of life all the while.
    fn until<T>(
        &self,
        timeout: Duration,
        mut attempt: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut spins: u32 = 0;
        loop {
            let now = Instant::now();
            // Since the last time, not since this wait began: many short waits are life, too.
            if now.duration_since(self.shown.get()) > BEAT {
                self.show_life()?;
            }
            if let Some(answer) = attempt()? {
                return Ok(Some(answer));
            }
            if deadline.is_some_and(|d| now >= d) {
                return Ok(None);
            }
            spins = spins.saturating_add(1);
            match spins {
                0..SPIN_TURNS => std::hint::spin_loop(),
                SPIN_TURNS..YIELD_TURNS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
    }
}

impl<D: Domain> Fabric for PoolFabric<D> {
    fn me(&self) -> NodeId {
        self.me
    }

    fn nodes(&self) -> u16 {
        u16::try_from(self.layout.nodes).expect("invariant: a layout is made of a u16")
    }

    fn window_bytes(&self) -> usize {
        self.layout.window_bytes
    }

    /// Whole words only: offset and length are multiples of eight.
    fn put(&self, node: NodeId, offset: usize, data: &[u8]) -> Result<()> {
        let at = self.window(node, offset, data.len())?;
        whole_words(offset, data.len())?;
        for (i, chunk) in data.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(chunk.try_into().expect("invariant: chunks of eight"));
            self.domain.store(at + 8 * i, word, ORDER);
        }
        if !mutant!("pool_put_not_written_back") {
            self.domain.write_back(at, data.len());
        }
        Ok(())
    }

    /// Whole words only: offset and length are multiples of eight. Own unflushed puts to the range
    /// must have been flushed first.
    fn get(&self, node: NodeId, offset: usize, into: &mut [u8]) -> Result<()> {
        let at = self.window(node, offset, into.len())?;
        whole_words(offset, into.len())?;
        if !mutant!("pool_get_not_invalidated") {
            self.domain.invalidate(at, into.len());
        }
        for (i, chunk) in into.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.domain.word(at + 8 * i, ORDER).to_le_bytes());
        }
        Ok(())
    }

    fn fetch_add(&self, node: NodeId, _offset: usize, _add: u64) -> Result<u64> {
        let what = "a non-coherent pool has no remote atomics; post to the owner instead";
        Err(Error::new(Kind::Unsupported, what).at_rank(self.me).at_peer(node))
    }

    fn flush(&self, node: NodeId) -> Result<()> {
        self.node(node)?;
        self.domain.fence()
    }

    fn post(&self, node: NodeId, message: &[u8]) -> Result<()> {
        let room = || {
            if self.try_post(node, message)? {
                return Ok(Some(()));
            }
            self.alive(node).map(|()| None)
        };
        self.until(Duration::MAX, room).map(drop)
    }

    fn post_bytes_max(&self) -> usize {
        RING_BYTES - 8
    }

    fn try_post(&self, node: NodeId, message: &[u8]) -> Result<bool> {
        let to = self.node(node)?;
        let frame = 8 + message.len().next_multiple_of(8);
        if frame > RING_BYTES {
            let what = format!("a message of {} bytes; at most {}", message.len(), RING_BYTES - 8);
            let refused = Error::new(Kind::IllegalRequest, what);
            return Err(refused.at_rank(self.me).at_peer(node));
        }
        let ring = self.layout.ring(self.me.index(), to);
        let tail = self.domain.word(ring, ORDER);
        // A head beyond the tail is none that a receiver writes: the ring counts as full.
        let used = tail.wrapping_sub(self.fresh(ring + LINE_BYTES));
        if used.saturating_add(frame as u64) > RING_BYTES as u64 {
            return Ok(false);
        }
        self.store_frame(ring, tail, message);
        if !mutant!("pool_tail_overtakes_frame") {
            self.domain.fence()?;
        }
        self.publish(ring, tail + frame as u64).map(|()| true)
    }

    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.until(timeout, || {
            for _ in 0..self.layout.nodes {
                let from = self.turn.get();
                self.turn.set((from + 1) % self.layout.nodes);
                if let Some(message) = self.take_from(from)? {
                    let from = u16::try_from(from).expect("invariant: a layout is made of a u16");
                    return Ok(Some((NodeId(from), message)));
                }
            }
            Ok(None)
        })
    }

    fn wait_word(&self, offset: usize, unlike: u64, timeout: Duration) -> Result<Option<u64>> {
        let at = self.window(self.me, offset, 8)?;
        whole_words(offset, 8)?;
        self.until(timeout, || {
            let word = self.fresh(at);
            Ok((word != unlike).then_some(word))
        })
    }

    fn board_write(&self, node: NodeId, data: &[u8]) -> Result<()> {
        let request = self.mailbox(node)?;
        self.until_free(node, &request)?;
        request.place(Asking::Write, data)
    }

    fn board_read(&self, node: NodeId, question: &[u8]) -> Result<Vec<u8>> {
        let request = self.mailbox(node)?;
        self.until_free(node, &request)?;
        request.place(Asking::Read, question)?;
        self.until_free(node, &request)?;
        Ok(request.reply())
    }

    /// Waits here poll, so there is no sleeper to wake.
    fn notify(&self, node: NodeId) -> Result<()> {
        self.node(node).map(drop)
    }

    /// Every wait does it too; a node that computes for long calls it now and then.
    fn show_life(&self) -> Result<()> {
        self.shown.set(Instant::now());
        self.beat.set(self.beat.get() + 1);
        self.publish(self.layout.beat(self.me.index()), self.beat.get())
    }

    fn liveness(&self, node: NodeId) -> Liveness {
        if node.index() >= self.layout.nodes {
            return Liveness::Dead("there is no such node".into());
        }
        if node == self.me {
            return Liveness::Alive;
        }
        let dead = match self.fresh(self.layout.beat(node.index()) + 8) {
            ABSENT if self.joined.elapsed() > JOIN_MAX => {
                Some(format!("it has not joined within {} s", JOIN_MAX.as_secs()))
            }
            ABSENT => None,
            JOINED => self.judge(node.index()),
            LEFT => Some(LEAVES.into()),
            other => Some(format!("its beat line holds state {other}, which is none")),
        };
        dead.map_or(Liveness::Alive, Liveness::Dead)
    }
}

impl<D: Domain> Drop for PoolFabric<D> {
    fn drop(&mut self) {
        // Where it fails the others notice the end of the process.
        let _ = self.publish(self.layout.beat(self.me.index()) + 8, LEFT);
    }
}

fn whole_words(offset: usize, len: usize) -> Result<()> {
    if offset.is_multiple_of(8) && len.is_multiple_of(8) {
        return Ok(());
    }
    let what = format!("bytes {offset}..+{len}: a pool moves whole words of eight bytes");
    Err(Error::new(Kind::IllegalRequest, what).at_offset(offset as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::HostilePool;

    #[test]
    fn counts_that_no_node_writes_are_refused_and_none_panics() {
        let layout = PoolLayout::new(2, 64);
        let pool = HostilePool::new(layout.pool_bytes(), 1, 1000);
        let node = |n| PoolFabric::new(pool.view(n), layout, NodeId(n)).unwrap();
        let (a, b) = (node(0), node(1));
        a.post(NodeId(1), b"one").unwrap();
        assert_eq!(b.receive(Duration::ZERO).unwrap(), Some((NodeId(0), b"one".to_vec())));
        // The receiver's count runs ahead of the sender's, then the sender's falls behind.
        let ring = layout.ring(0, 1);
        b.publish(ring + LINE_BYTES, 1 << 40).unwrap();
        assert!(!a.try_post(NodeId(1), b"two").unwrap());
        let corrupt = b.receive(Duration::ZERO).unwrap_err();
        assert_eq!(corrupt.kind(), Kind::Corrupt, "{corrupt}");
        let at = (corrupt.place().rank, corrupt.place().offset);
        assert_eq!(at, (Some(NodeId(1)), Some(1 << 40)));
    }
}
