//! A fabric over the coherent shared memory of one machine: direct loads, stores and atomics, and a
//! futex for those who sleep.
//!
//! Every node maps one file (memfd, or under /dev/shm). Layout, in bytes: one page {magic, nodes,
//! window bytes}; then per node four lines {state, process, beat, start, machine, network}
//! {post bell} {word bell} {spare}; then, for every ordered pair of nodes, a ring {tail line, head
//! line, `RING_BYTES` of frames}; then one window per node. A frame is {length and a flag *more
//! follows*, bytes, padding to 8}; a message longer than a frame may be travels in pieces and is
//! put together by the receiver.
//!
//! A watcher thread per handle beats and watches the other processes ([`super::process`]): one that
//! ends is noticed at once. Beats decide about processes of other pid namespaces only.
//!
//! Waiting spins for about [`SPIN_TURNS`] looks, or gives the processor away [`YIELD_TURNS`] times
//! when the job has more nodes than the machine has processors, and then sleeps; see
//! [`super::bell`].
//!
//! Invariants
//! - The memory is coherent: a put is visible when it returns, `flush` has nothing to do. Checked
//!   by `windows_are_byte_arrays_with_atomics_and_words_that_wake`.
//! - A thread that waits for room in a ring takes in what others have sent meanwhile, so two nodes
//!   that send each other more than a ring holds do not wait for each other. Checked by
//!   `nodes_that_send_each_other_more_than_rings_hold_do_not_wait_for_each_other`.
//! - A node that left or is dead (`docs/design/dsm.md`, *Liveness*): operations on it fail with
//!   `Kind::Io` naming it, waits on it end. What it sent before is still delivered. Checked by
//!   `who_leaves_is_gone_but_its_messages_arrive`, `a_killed_process_is_dead_and_named`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use littoral_base::units::NodeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::futex;

use super::bell::{Bell, ring, sleep_unless};
use super::order;
use super::process::{Identity, Standing, Watch};
use super::raw::SharedWords;
use super::refusal;
use super::silence::{self, BEAT, SILENCE_DEFAULT, Silence};
use super::window::{aligned_word, change, copy_in, copy_out, in_window};
use super::{Fabric, Liveness, Rmw};
use crate::{Error, Kind, Result};
use littoral_device::memory::LINE_BYTES;

/// Bytes that one node can send another ahead of its reading.
pub const RING_BYTES: usize = 1 << 16;
/// How often a waiter looks before it sleeps: a few microseconds.
pub const SPIN_TURNS: u32 = 300;
/// How often it gives its processor to another rank instead, when there are more nodes than
/// processors.
pub const YIELD_TURNS: u32 = 10;
/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = 1 << 26;

const MAGIC: u64 = u64::from_le_bytes(*b"LITSHM02");
const HEADER_BYTES: usize = 4096;
const NODE_LINES: usize = 4;
const PIECE_BYTES: usize = RING_BYTES / 4;
const MORE: u64 = 1 << 63;
const WORD: usize = 8;
// A frame lies in the ring at once, and its words never straddle the ring's end.
const _: () = assert!(WORD + PIECE_BYTES <= RING_BYTES && RING_BYTES.is_multiple_of(WORD));
/// Sleeps are cut into pieces of this length, so that a lost process is noticed even by a waiter
/// whose watcher could not wake it.
const NAP: Duration = Duration::from_millis(200);

const JOINED: u64 = 1;
const LEFT: u64 = 2;

/// Where everything lies in the memory of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmLayout {
    nodes: usize,
    window_bytes: usize,
}

impl ShmLayout {
    /// The layout of a job with `nodes` nodes and windows of at least `window_bytes`.
    pub fn new(nodes: u16, window_bytes: usize) -> Self {
        let window_bytes = window_bytes.next_multiple_of(4096);
        ShmLayout { nodes: usize::from(nodes), window_bytes }
    }

    /// Bytes of shared memory the job needs; what is never touched takes no memory.
    pub fn bytes(&self) -> usize {
        self.window(self.nodes)
    }

    /// Makes `file` the memory of a new job: all zeros and a header.
    ///
    /// # Errors
    /// `Kind::Busy` when the file is not empty, `Kind::Io` when the system refuses.
    pub fn create(&self, file: &File) -> Result<()> {
        let io = |e| Error::with_source(Kind::Io, "making the shared memory of a job", e);
        if file.metadata().map_err(io)?.len() != 0 {
            let what = "the file for a job's shared memory is not empty; nothing changed";
            return Err(Error::new(Kind::Busy, what));
        }
        file.set_len(self.bytes() as u64).map_err(io)?;
        let words = SharedWords::map(file, self.bytes())?;
        let header = words.words();
        header[1].store(self.nodes as u64, Ordering::Relaxed);
        header[2].store(self.window_bytes as u64, Ordering::Relaxed);
        header[0].store(MAGIC, Ordering::Release);
        Ok(())
    }

    fn node(&self, node: usize) -> usize {
        HEADER_BYTES + node * NODE_LINES * LINE_BYTES
    }

    fn ring(&self, from: usize, to: usize) -> usize {
        let ring = from * self.nodes + to;
        let rings = self.node(self.nodes).next_multiple_of(4096);
        rings + ring * (2 * LINE_BYTES + RING_BYTES)
    }

    fn window(&self, node: usize) -> usize {
        self.ring(self.nodes, 0).next_multiple_of(4096) + node * self.window_bytes
    }
}

/// Which of a node's two bells.
#[derive(Clone, Copy)]
enum Which {
    /// Rung when a message or room for one has come.
    Post,
    /// Rung when a word of the window was signalled.
    Word,
}

struct ShmBell<'m> {
    memory: &'m SharedWords,
    at: usize,
}

impl Bell for ShmBell<'_> {
    fn count(&self) -> u32 {
        self.memory.half(self.at).load(Ordering::SeqCst)
    }
    fn strike(&self) {
        self.memory.half(self.at).fetch_add(1, Ordering::SeqCst);
    }
    #[inline(always)]
    fn sleepers(&self) -> u64 {
        self.memory.words()[self.at / WORD + 1].load(Ordering::SeqCst)
    }
    fn announce(&self) {
        self.memory.words()[self.at / WORD + 1].fetch_add(1, Ordering::SeqCst);
    }
    fn withdraw(&self) {
        self.memory.words()[self.at / WORD + 1].fetch_sub(1, Ordering::SeqCst);
    }
    fn sleep(&self, seen: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(timespec);
        let word = self.memory.half(self.at);
        // A changed count, an interruption and a time-out all mean: look again.
        let _ = futex::wait(word, futex::Flags::empty(), seen, timeout.as_ref());
    }
    fn wake(&self) {
        let word = self.memory.half(self.at);
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}

pub(super) fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: d.as_secs() as i64, tv_nsec: i64::from(d.subsec_nanos()) }
}

#[derive(Default)]
struct Inbox {
    ready: VecDeque<(NodeId, Vec<u8>)>,
    /// Pieces of a long message, a sender.
    partial: Vec<Vec<u8>>,
    turn: usize,
}

struct Shared {
    memory: SharedWords,
    layout: ShmLayout,
    me: usize,
    spin_turns: u32,
    yield_turns: u32,
    inbox: Mutex<Inbox>,
    sending: Vec<Mutex<()>>,
    dead: Vec<OnceLock<String>>,
    closing: AtomicBool,
    identity: Identity,
    silence_max: Duration,
}

/// One node of a job in shared memory; see the module's page. Threads of a node may share it.
pub struct ShmFabric {
    shared: Arc<Shared>,
    /// Written to when the watcher should end.
    stop: UnixStream,
    watcher: Option<JoinHandle<()>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn node_id(n: usize) -> NodeId {
    NodeId(u16::try_from(n).expect("invariant: a layout is made of a u16"))
}

impl ShmFabric {
    /// Joins the job whose memory `file` is, as node `me`; does not wait for the others.
    ///
    /// # Errors
    /// `Kind::Foreign` when the file is not the memory of a job with this layout, `Kind::Busy` when
    /// a process is node `me` already, `Kind::IllegalRequest` when there is no such node,
    /// `Kind::Io` when the system refuses.
    pub fn attach(file: &File, layout: ShmLayout, me: NodeId) -> Result<Self> {
        Self::attach_with_silence(file, layout, me, SILENCE_DEFAULT)
    }

    /// As `attach`; nodes of other pid namespaces may be silent for `silence_max`.
    ///
    /// # Errors
    /// As `attach`; `Kind::IllegalRequest` for a limit below [`super::SILENCE_MIN`].
    pub fn attach_with_silence(
        file: &File,
        layout: ShmLayout,
        me: NodeId,
        silence_max: Duration,
    ) -> Result<Self> {
        let silence_max = silence::checked(silence_max)?;
        if me.index() >= layout.nodes {
            return Err(refusal::no_such_node(me, me, layout.nodes));
        }
        let memory = SharedWords::map(file, layout.bytes())?;
        let header = |i: usize| memory.words()[i].load(Ordering::Acquire);
        let found = (header(0), header(1), header(2));
        if found != (MAGIC, layout.nodes as u64, layout.window_bytes as u64) {
            let what = format!(
                "this is not the memory of a job of {} nodes with windows of {} bytes",
                layout.nodes, layout.window_bytes
            );
            return Err(Error::new(Kind::Foreign, what));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Shared {
            memory,
            layout,
            me: me.index(),
            spin_turns: if layout.nodes > cores { 0 } else { SPIN_TURNS },
            yield_turns: if layout.nodes > cores { YIELD_TURNS } else { 0 },
            inbox: Mutex::new(Inbox {
                partial: vec![Vec::new(); layout.nodes],
                ..Inbox::default()
            }),
            sending: (0..layout.nodes).map(|_| Mutex::new(())).collect(),
            dead: (0..layout.nodes).map(|_| OnceLock::new()).collect(),
            closing: AtomicBool::new(false),
            identity: Identity::own(),
            silence_max,
        };
        shared.take_seat()?;
        Self::watched(shared)
    }

    fn watched(shared: Shared) -> Result<Self> {
        let io = |e| Error::with_source(Kind::Io, "starting the watcher of a fabric", e);
        let shared = Arc::new(shared);
        let (stop, stopped) = UnixStream::pair().map_err(io)?;
        let watched = Arc::clone(&shared);
        let watcher = std::thread::Builder::new()
            .name(format!("littoral-shm-{}", shared.me))
            .spawn(move || Watcher::new(&watched, stopped).run())
            .map_err(io)?;
        Ok(ShmFabric { shared, stop, watcher: Some(watcher) })
    }

    /// Waits until every node has joined, at most for `timeout`.
    ///
    /// # Errors
    /// `Kind::Io` naming the first that has not.
    pub fn wait_for_all(&self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let absent = || (0..self.shared.layout.nodes).find(|&n| self.shared.state(n) == 0);
        while let Some(n) = absent() {
            if Instant::now() >= deadline {
                let what = format!("node {n} has not joined within {} ms", timeout.as_millis());
                return Err(refusal::missed(node_id(self.shared.me), node_id(n), what));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

impl Drop for ShmFabric {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        // A watcher that cannot be told ends with its next beat.
        let _ = self.stop.write(&[1]);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        self.shared.word(self.shared.layout.node(self.shared.me)).store(LEFT, Ordering::Release);
        for n in 0..self.shared.layout.nodes {
            self.shared.ring_bells(n);
        }
    }
}

impl Shared {
    #[inline(always)]
    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.memory.words()[offset / WORD]
    }

    fn take_seat(&self) -> Result<()> {
        let at = self.layout.node(self.me);
        let [process, start, machine, network] = self.identity.words();
        let seat = self.word(at);
        if seat.compare_exchange(0, JOINED << 32 | process, ORD, Ordering::Acquire).is_err() {
            let what = format!("node {} of this job was taken before; start a new job", self.me);
            return Err(Error::new(Kind::Busy, what).at_rank(node_id(self.me)));
        }
        let words = [(1, process), (3, start), (4, machine), (5, network)];
        words.into_iter().for_each(|(i, w)| self.word(at + i * WORD).store(w, Ordering::Relaxed));
        seat.store(JOINED, Ordering::Release);
        Ok(())
    }

    /// The identity of a node that has joined.
    fn identity_of(&self, n: usize) -> Identity {
        let at = self.layout.node(n);
        Identity::from_words([1, 3, 4, 5].map(|i| self.word(at + i * WORD).load(Ordering::Relaxed)))
    }

    #[inline]
    fn state(&self, n: usize) -> u64 {
        self.word(self.layout.node(n)).load(Ordering::Acquire)
    }

    fn bell(&self, n: usize, which: Which) -> ShmBell<'_> {
        let line = match which {
            Which::Post => 1,
            Which::Word => 2,
        };
        ShmBell { memory: &self.memory, at: self.layout.node(n) + line * LINE_BYTES }
    }

    fn ring_bells(&self, n: usize) {
        ring(&self.bell(n, Which::Post));
        ring(&self.bell(n, Which::Word));
    }

    fn mark_failed(&self, n: usize, how: String) {
        if self.dead[n].set(how).is_ok() {
            self.ring_bells(self.me);
        }
    }

    fn failure_report(&self, n: usize) -> Option<String> {
        if let Some(how) = self.dead[n].get() {
            return Some(how.clone());
        }
        (self.state(n) == LEFT && n != self.me).then(|| "it left the job".to_owned())
    }

    #[inline]
    fn alive(&self, node: NodeId) -> Result<usize> {
        let n = node.index();
        let is_here = |n: usize| self.dead[n].get().is_none() && self.state(n) != LEFT;
        if n < self.layout.nodes && (n == self.me || is_here(n)) {
            return Ok(n);
        }
        Err(self.gone(node))
    }

    #[cold]
    fn gone(&self, node: NodeId) -> Error {
        if node.index() >= self.layout.nodes {
            return refusal::no_such_node(node_id(self.me), node, self.layout.nodes);
        }
        let how = self.failure_report(node.index()).unwrap_or_default();
        refusal::gone(node_id(self.me), node, &how)
    }

    #[inline]
    fn window(&self, n: usize) -> &[AtomicU64] {
        let at = self.layout.window(n) / WORD;
        &self.memory.words()[at..at + self.layout.window_bytes / WORD]
    }

    /// Waits on one of this node's bells until `ready` answers or time is out.
    fn wait<T>(
        &self,
        which: Which,
        timeout: Duration,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let first = ready();
        if first.is_some() || timeout.is_zero() {
            return first;
        }
        self.look_again(&mut ready).or_else(|| self.sleep(which, timeout, ready))
    }

    /// Spins, or gives the processor away, for as long as waiting does before it sleeps.
    fn look_again<T>(&self, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..self.spin_turns {
            std::hint::spin_loop();
            if let Some(answer) = ready() {
                return Some(answer);
            }
        }
        for _ in 0..self.yield_turns {
            std::thread::yield_now();
            if let Some(answer) = ready() {
                return Some(answer);
            }
        }
        None
    }

    /// Sleeps on one of this node's bells until `ready` answers or time is out.
    fn sleep<T>(
        &self,
        which: Which,
        timeout: Duration,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let bell = self.bell(self.me, which);
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map_or(NAP, |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return ready();
            }
            if let Some(answer) = sleep_unless(&bell, Some(left.min(NAP)), &mut ready) {
                return Some(answer);
            }
        }
    }

    /// Takes whatever has come into the rings; whether a whole message is there.
    fn take_in(&self, inbox: &mut Inbox) {
        for _ in 0..self.layout.nodes {
            let from = inbox.turn;
            inbox.turn = (from + 1) % self.layout.nodes;
            while self.take_frame(inbox, from) {}
        }
    }

    fn next_message(&self) -> Option<(NodeId, Vec<u8>)> {
        let mut inbox = locked(&self.inbox);
        if inbox.ready.is_empty() {
            self.take_in(&mut inbox);
        }
        inbox.ready.pop_front()
    }

    fn take_frame(&self, inbox: &mut Inbox, from: usize) -> bool {
        let ring_at = self.layout.ring(from, self.me);
        let head_word = self.word(ring_at + LINE_BYTES);
        let head = head_word.load(Ordering::Relaxed);
        let tail = self.word(ring_at).load(Ordering::Acquire);
        if head == tail {
            return false;
        }
        let header = self.ring_word(ring_at, head).load(Ordering::Relaxed);
        let length = (header & !MORE) as usize;
        let end = head + WORD as u64 + length.next_multiple_of(WORD) as u64;
        if length > PIECE_BYTES || end > tail {
            self.mark_failed(
                from,
                format!("it wrote a frame of {length} bytes, which none can be"),
            );
            head_word.store(tail, Ordering::Release);
            return false;
        }
        let partial = &mut inbox.partial[from];
        let start = partial.len();
        partial.resize(start + length.next_multiple_of(WORD), 0);
        let mut into = partial[start..].chunks_exact_mut(WORD);
        for words in self.ring_words(ring_at, head + WORD as u64, length.div_ceil(WORD)) {
            for (word, bytes) in words.iter().zip(&mut into) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
        }
        partial.truncate(start + length);
        head_word.store(end, Ordering::Release);
        ring(&self.bell(from, Which::Post));
        if header & MORE == 0 {
            let message = std::mem::take(&mut inbox.partial[from]);
            inbox.ready.push_back((node_id(from), message));
        }
        true
    }

    #[inline(always)]
    fn ring_word(&self, ring_at: usize, count: u64) -> &AtomicU64 {
        self.word(ring_at + 2 * LINE_BYTES + (count as usize) % RING_BYTES)
    }

    /// Words of a ring from `count` on: up to the ring's end, then from its front.
    fn ring_words(&self, ring_at: usize, count: u64, words: usize) -> [&[AtomicU64]; 2] {
        let front = ring_at / WORD + 2 * LINE_BYTES / WORD;
        let ring = &self.memory.words()[front..front + RING_BYTES / WORD];
        let from = count as usize % RING_BYTES / WORD;
        let first = words.min(ring.len() - from);
        [&ring[from..from + first], &ring[..words - first]]
    }

    /// Waits until a frame of `bytes` fits the ring to `to`; takes messages in meanwhile.
    fn room(&self, to: usize, tail: u64, bytes: usize) -> Result<()> {
        let found = self.wait(Which::Post, Duration::MAX, || {
            if self.has_room(to, tail, bytes) {
                return Some(Ok(()));
            }
            if let Err(gone) = self.alive(node_id(to)) {
                return Some(Err(gone));
            }
            if let Ok(mut inbox) = self.inbox.try_lock() {
                self.take_in(&mut inbox);
            }
            None
        });
        found.unwrap_or(Ok(()))
    }

    fn has_room(&self, to: usize, tail: u64, bytes: usize) -> bool {
        let head = self.word(self.layout.ring(self.me, to) + LINE_BYTES).load(Ordering::Acquire);
        // A head beyond the tail is none that a receiver writes: the ring counts as full.
        tail.wrapping_sub(head).saturating_add(bytes as u64) <= RING_BYTES as u64
    }

    fn send_piece(&self, to: usize, piece: &[u8], more: bool) -> Result<()> {
        let tail = self.word(self.layout.ring(self.me, to)).load(Ordering::Relaxed);
        self.room(to, tail, frame_bytes(piece))?;
        self.put_piece(to, piece, more);
        Ok(())
    }

    /// Puts a piece in that has room.
    fn put_piece(&self, to: usize, piece: &[u8], more: bool) {
        debug_assert!(piece.len() <= PIECE_BYTES, "a frame of {} bytes", piece.len());
        let ring_at = self.layout.ring(self.me, to);
        let tail_word = self.word(ring_at);
        let tail = tail_word.load(Ordering::Relaxed);
        debug_assert!(self.has_room(to, tail, frame_bytes(piece)), "a head went back");
        let header = piece.len() as u64 | if more { MORE } else { 0 };
        self.ring_word(ring_at, tail).store(header, Ordering::Relaxed);
        let words = self.ring_words(ring_at, tail + WORD as u64, piece.len().div_ceil(WORD));
        let (whole, last) = piece.as_chunks::<WORD>();
        let mut padded = [0; WORD];
        padded[..last.len()].copy_from_slice(last);
        let mut from = whole.iter().chain((!last.is_empty()).then_some(&padded));
        for words in words {
            for (word, bytes) in words.iter().zip(&mut from) {
                word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
            }
        }
        tail_word.store(tail + frame_bytes(piece) as u64, Ordering::Release);
        ring(&self.bell(to, Which::Post));
    }
}

/// Bytes of the ring that a piece takes, with its header.
fn frame_bytes(piece: &[u8]) -> usize {
    WORD + piece.len().next_multiple_of(WORD)
}

const ORD: Ordering = Ordering::AcqRel;

/// The thread that beats, and marks nodes dead.
struct Watcher<'s> {
    shared: &'s Shared,
    stopped: UnixStream,
    others: Vec<Other>,
}

/// What the watcher knows of another node.
struct Other {
    watch: Option<Watch>,
    beat: u64,
    silence: Silence,
}

impl<'s> Watcher<'s> {
    fn new(shared: &'s Shared, stopped: UnixStream) -> Self {
        let other = |_| Other { watch: None, beat: 0, silence: Silence::from(Instant::now()) };
        let others = (0..shared.layout.nodes).map(other).collect();
        Watcher { shared, stopped, others }
    }

    fn run(&mut self) {
        while !self.shared.closing.load(Ordering::Acquire) {
            let beat = self.shared.layout.node(self.shared.me) + 2 * WORD;
            self.shared.word(beat).fetch_add(1, Ordering::Release);
            for n in (0..self.shared.layout.nodes).filter(|&n| n != self.shared.me) {
                if let Some(how) = self.look_at(n) {
                    self.shared.mark_failed(n, how);
                }
            }
            self.sleep();
        }
    }

    /// Begins to watch a node's process once it has joined; how it is dead, if it is.
    fn look_at(&mut self, n: usize) -> Option<String> {
        let (shared, now) = (self.shared, Instant::now());
        let other = &mut self.others[n];
        if shared.state(n) != JOINED || shared.dead[n].get().is_some() {
            other.silence = Silence::from(now);
            return None;
        }
        let open = || Watch::open(&shared.identity, shared.identity_of(n));
        let watch = other.watch.get_or_insert_with(open);
        let process = watch.identity().process;
        match watch.standing() {
            Standing::Alive => None,
            // It may have left in good order before it ended.
            Standing::Ended if shared.state(n) != JOINED => None,
            Standing::Ended => Some(format!("process {process} ended")),
            Standing::Unknown => {
                let beat = shared.word(shared.layout.node(n) + 2 * WORD).load(Ordering::Acquire);
                if beat != std::mem::replace(&mut other.beat, beat) {
                    other.silence.end(now);
                }
                let silent = other.silence.look(now, shared.silence_max)?;
                let ms = silent.as_millis();
                Some(format!("process {process} has shown no sign of life for {ms} ms"))
            }
        }
    }

    /// Sleeps until the next beat, the end of a process, or the end of this handle.
    fn sleep(&mut self) {
        let shared = self.shared;
        let goes_on = |n: usize| shared.dead[n].get().is_none() && shared.state(n) == JOINED;
        let others = self.others.iter().enumerate().filter(|(n, _)| goes_on(*n));
        let mut fds = vec![PollFd::new(&self.stopped, PollFlags::IN)];
        let handles = others.filter_map(|(_, other)| other.watch.as_ref()?.handle());
        fds.extend(handles.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // An interrupted poll is a poll without news; the next look asks each process again.
        let _ = poll(&mut fds, Some(&timespec(BEAT)));
        if self.shared.closing.load(Ordering::Acquire) {
            let _ = (&self.stopped).read(&mut [0; 8]);
        }
    }
}

impl Fabric for ShmFabric {
    fn me(&self) -> NodeId {
        node_id(self.shared.me)
    }

    fn nodes(&self) -> u16 {
        node_id(self.shared.layout.nodes).0
    }

    fn window_bytes(&self) -> usize {
        self.shared.layout.window_bytes
    }

    #[inline]
    fn put(&self, node: NodeId, offset: usize, data: &[u8]) -> Result<()> {
        let n = self.shared.alive(node)?;
        in_window(offset, data.len(), self.shared.layout.window_bytes)?;
        copy_in(self.shared.window(n), offset, data);
        Ok(())
    }

    #[inline]
    fn get(&self, node: NodeId, offset: usize, into: &mut [u8]) -> Result<()> {
        let n = self.shared.alive(node)?;
        in_window(offset, into.len(), self.shared.layout.window_bytes)?;
        copy_out(self.shared.window(n), offset, into);
        Ok(())
    }

    #[inline]
    fn fetch_add(&self, node: NodeId, offset: usize, add: u64) -> Result<u64> {
        self.rmw(node, offset, Rmw::Add(add))
    }

    #[inline]
    fn rmw(&self, node: NodeId, offset: usize, op: Rmw) -> Result<u64> {
        let n = self.shared.alive(node)?;
        aligned_word(offset, self.shared.layout.window_bytes)?;
        Ok(change(&self.shared.window(n)[offset / WORD], op))
    }

    #[inline]
    fn is_coherent(&self) -> bool {
        true
    }

    fn signal(&self, node: NodeId, offset: usize, word: u64) -> Result<()> {
        let n = self.shared.alive(node)?;
        aligned_word(offset, self.shared.layout.window_bytes)?;
        self.shared.window(n)[offset / WORD].store(word, Ordering::Release);
        ring(&self.shared.bell(n, Which::Word));
        Ok(())
    }

    #[inline]
    fn wait_word(&self, offset: usize, unlike: u64, timeout: Duration) -> Result<Option<u64>> {
        aligned_word(offset, self.shared.layout.window_bytes)?;
        let word = &self.shared.window(self.shared.me)[offset / WORD];
        Ok(self.shared.wait(Which::Word, timeout, || {
            let found = word.load(order::load());
            (found != unlike).then_some(found)
        }))
    }

    fn flush(&self, node: NodeId) -> Result<()> {
        self.shared.alive(node).map(drop)
    }

    fn post(&self, node: NodeId, message: &[u8]) -> Result<()> {
        let to = self.shared.alive(node)?;
        if message.len() > MESSAGE_BYTES_MAX {
            let what = format!("a message of {} bytes; at most {MESSAGE_BYTES_MAX}", message.len());
            let refused = Error::new(Kind::IllegalRequest, what);
            return Err(refused.at_rank(node_id(self.shared.me)).at_peer(node));
        }
        let _turn = locked(&self.shared.sending[to]);
        let mut rest = message;
        loop {
            let (piece, later) = rest.split_at(rest.len().min(PIECE_BYTES));
            self.shared.send_piece(to, piece, !later.is_empty())?;
            rest = later;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn post_bytes_max(&self) -> usize {
        MESSAGE_BYTES_MAX
    }

    fn try_post(&self, node: NodeId, message: &[u8]) -> Result<bool> {
        if message.len() > self.try_post_bytes_max() {
            return self.post(node, message).map(|()| true);
        }
        let to = self.shared.alive(node)?;
        // Who sends now may wait for room.
        let _turn = match self.shared.sending[to].try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        let tail = self.shared.word(self.shared.layout.ring(self.shared.me, to));
        let tail = tail.load(Ordering::Relaxed);
        let has_room = self.shared.has_room(to, tail, frame_bytes(message));
        if has_room {
            self.shared.put_piece(to, message, false);
        }
        Ok(has_room)
    }

    /// One frame, of which the ring holds four.
    fn try_post_bytes_max(&self) -> usize {
        PIECE_BYTES - WORD
    }

    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        Ok(self.shared.wait(Which::Post, timeout, || self.shared.next_message()))
    }

    fn receive_asleep(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        Ok(self.shared.sleep(Which::Post, timeout, || self.shared.next_message()))
    }

    fn notify(&self, node: NodeId) -> Result<()> {
        let n = self.shared.alive(node)?;
        for which in [Which::Post, Which::Word] {
            let bell = self.shared.bell(n, which);
            bell.strike();
            bell.wake();
        }
        Ok(())
    }

    fn liveness(&self, node: NodeId) -> Liveness {
        match self.shared.failure_report(node.index().min(self.shared.layout.nodes - 1)) {
            Some(how) => Liveness::Dead(how),
            None if node.index() >= self.shared.layout.nodes => {
                Liveness::Dead("there is no such node".into())
            }
            None => Liveness::Alive,
        }
    }
}
