//! A fabric over TCP: framed messages, one event loop a node standing in for remote-memory
//! hardware.
//!
//! Every pair of nodes has one connection. A node's *agent* waits on all its connections, carries
//! out the puts, gets and additions of the others on this node's window, and takes answers and
//! posts; the node's own threads write requests themselves. The agent never blocks in a write: what
//! a socket does not take is queued and sent when it does, so two agents answering each other
//! cannot wait for each other.
//!
//! - [`TcpFabric::connect`]: the agent has a thread of its own, and other threads wait for it to
//!   bring the answer, spinning a little before they sleep.
//! - [`TcpFabric::connect_without_agent`]: a thread that waits reads the connections itself. It is
//!   for nodes of which one thread always receives; other nodes' operations on this one take effect
//!   while a thread waits. A message then costs one change of thread, where the agent's costs two.
//!   A thread that *attends* is woken in place of the others ([`ears`]).
//!
//! A frame is {length u32, kind u8, applied u64, body}. `applied` tells the receiver how many of
//! its own operations the sender has carried out, so acknowledgements ride on whatever travels
//! anyway; a flush asks for one only when none has come.
//!
//! Invariants
//! - Operations of one node on another take effect in program order (one connection, one queue).
//!   Checked by `operations_take_effect_in_program_order`.
//! - A node's own threads are held back while more than [`QUEUE_BYTES_MAX`] wait for a peer.
//!   Checked by `a_thread_waits_while_too_much_waits_for_a_peer`.
//! - A peer that closes its connection is dead, and so is one whose silence counts and lasts too
//!   long (`docs/design/dsm.md`, *Liveness*): every wait on it ends with `Kind::Io` naming it.
//!   Agents send their identity first and then a beat every [`BEAT`]; a node has joined when it has
//!   heard the identity of every other, so silence has its short limit from the job's first step.
//!   Checked by `a_node_that_leaves_is_named_and_no_wait_hangs`,
//!   `a_silent_peer_of_another_machine_is_dead_and_a_wait_on_it_ends`,
//!   `a_job_begins_when_every_agent_has_been_heard`.
//! - A peer is dead only after all that has come from it is read, also where writing to it failed
//!   before: what it said last is received. Checked by
//!   `what_a_peer_said_before_it_died_is_received`.
//! - A frame that is no frame kills the connection, not the node. Checked by
//!   `noise_kills_the_connection_and_not_the_node`.

mod agent;
mod connect;
mod ears;
mod pace;
mod reading;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use littoral_base::codec::Writer;
use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::board::{Board, DmaWrite};
pub use super::frames::BODY_BYTES_MAX;
use super::frames::{
    ADD, BOARD_READ, BOARD_WRITE, CHANGE, FLUSH, GET, POST, PUT, WAKE, board_sized, drain,
    is_operation, write_change,
};
use super::refusal;
use super::shm::timespec;
use super::silence::{self, BEAT, SILENCE_DEFAULT};
use super::window::{Window, aligned_word};
use super::{Fabric, Liveness, Rmw};
use crate::{Error, Kind, Result};
use agent::{Agent, CLOSING_MAX};
use connect::{accept, dial};
use ears::{Ears, Left};

/// How long `TcpFabric::connect` waits for the other nodes to come up.
pub const CONNECT_MAX: Duration = super::JOIN_MAX;
/// Bytes that may wait for a peer before its askers are held back.
pub const QUEUE_BYTES_MAX: usize = 1 << 23;

/// Longest transfer between windows: an answer takes nine bytes of its frame beside the data, a put
/// eight.
const TRANSFER_BYTES_MAX: usize = BODY_BYTES_MAX - 16;
const SPIN_TURNS: u32 = 400;
/// A wait for a peer ends when the peer is dead, not earlier: a stopped process answers once it
/// goes on. The length is one that can be added to an instant.
const UNTIL_DEAD: Duration = Duration::from_secs(1 << 30);

struct Peer {
    stream: TcpStream,
    outgoing: Mutex<VecDeque<u8>>,
    /// Operations of ours that the peer says it has carried out.
    acknowledged: AtomicU64,
    /// Operations of ours sent to the peer.
    sent: AtomicU64,
    /// Operations of the peer's that our agent has carried out.
    applied: AtomicU64,
    /// How writing to it failed; it is dead once the agent has read what is still there.
    broken: OnceLock<String>,
}

#[derive(Default)]
struct Waits {
    answers: HashMap<u64, Vec<u8>>,
    inbox: VecDeque<(NodeId, Vec<u8>)>,
    dead: HashMap<NodeId, String>,
    /// Nodes whose agent has said who it is: each gives signs of life from then on.
    introduced: HashSet<NodeId>,
    wakes: u64,
    /// Threads of this node that sleep until something changes.
    asleep: u32,
}

struct Shared {
    me: NodeId,
    window: Window,
    peers: Vec<Option<Peer>>,
    waits: Mutex<Waits>,
    changed: Condvar,
    turns: AtomicU64,
    next_request: AtomicU64,
    closing: AtomicBool,
    board: Mutex<Option<Box<dyn Board>>>,
    /// Written to when who waits on the connections should look at the queues.
    bell: UnixStream,
    /// The bell's other end.
    rung: UnixStream,
    ears: Ears,
    /// Reads where no thread of its own does: a thread that waits takes its turns.
    reader: Option<Mutex<Agent>>,
}

/// How a node joins.
#[derive(Clone, Copy)]
struct Way<'a> {
    me: NodeId,
    addresses: &'a [SocketAddr],
    listener: &'a TcpListener,
    window_bytes: usize,
    silence_max: Duration,
    key: u64,
}

/// One node of a TCP fabric; see the module's page.
pub struct TcpFabric {
    shared: Arc<Shared>,
    agent: Option<JoinHandle<()>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn io_error(what: impl Into<String>, source: io::Error) -> Error {
    Error::with_source(Kind::Io, what, source)
}

impl TcpFabric {
    /// Joins a job as node `me`: `addresses[n]` is where node `n` listens, `listener` is bound to
    /// our own. Nodes connect to those before them and accept those after them.
    ///
    /// # Errors
    /// `Kind::Io` naming the node that could not be reached within [`CONNECT_MAX`],
    /// `Kind::IllegalRequest` when `me` has no address.
    pub fn connect(
        me: NodeId,
        addresses: &[SocketAddr],
        listener: &TcpListener,
        window_bytes: usize,
    ) -> Result<Self> {
        Self::connect_with_silence(me, addresses, listener, window_bytes, SILENCE_DEFAULT)
    }

    /// As `connect`; nodes of other machines and other network namespaces may be silent for
    /// `silence_max`.
    ///
    /// # Errors
    /// As `connect`; `Kind::IllegalRequest` for a limit below [`super::SILENCE_MIN`].
    pub fn connect_with_silence(
        me: NodeId,
        addresses: &[SocketAddr],
        listener: &TcpListener,
        window_bytes: usize,
        silence_max: Duration,
    ) -> Result<Self> {
        Self::connect_with_key(me, addresses, listener, window_bytes, silence_max, 0)
    }

    /// As `connect_with_silence`, in the job with this key: a connection that does not greet with
    /// it is dropped, and the node goes on waiting for its own.
    ///
    /// # Errors
    /// As `connect_with_silence`.
    pub fn connect_with_key(
        me: NodeId,
        addresses: &[SocketAddr],
        listener: &TcpListener,
        window_bytes: usize,
        silence_max: Duration,
        key: u64,
    ) -> Result<Self> {
        let way = Way { me, addresses, listener, window_bytes, silence_max, key };
        Self::join(&way, true)
    }

    /// As `connect_with_key`, without a thread for the agent: see the module's page.
    ///
    /// # Errors
    /// As `connect_with_silence`.
    pub fn connect_without_agent(
        me: NodeId,
        addresses: &[SocketAddr],
        listener: &TcpListener,
        window_bytes: usize,
        silence_max: Duration,
        key: u64,
    ) -> Result<Self> {
        let way = Way { me, addresses, listener, window_bytes, silence_max, key };
        Self::join(&way, false)
    }

    fn join(way: &Way, has_agent: bool) -> Result<Self> {
        let Way { me, addresses, listener, key, .. } = *way;
        silence::checked(way.silence_max)?;
        if me.index() >= addresses.len() {
            let what = format!("node {me} of a job with {} addresses", addresses.len());
            return Err(Error::new(Kind::IllegalRequest, what).at_rank(me));
        }
        let deadline = Instant::now() + CONNECT_MAX;
        let mut peers: Vec<Option<Peer>> = Vec::new();
        for (n, address) in addresses.iter().enumerate().take(me.index()) {
            peers.push(Some(dial(me, key, node_id(n), *address, deadline)?));
        }
        peers.resize_with(addresses.len(), || None);
        accept(listener, me, key, &mut peers, deadline)?;
        let fabric = Self::start(way, peers, has_agent)?;
        fabric.meet(deadline)?;
        Ok(fabric)
    }

    /// Waits until every other node's agent has been heard, or is dead: before that a node is still
    /// connecting, and its silence has the long limit.
    fn meet(&self, deadline: Instant) -> Result<()> {
        let connected = |n: &usize| self.shared.peers[*n].is_some();
        let others: Vec<NodeId> =
            (0..self.shared.peers.len()).filter(connected).map(node_id).collect();
        let is_heard = |w: &Waits, n: &NodeId| w.introduced.contains(n) || w.dead.contains_key(n);
        let missing = |w: &Waits| others.iter().find(|n| !is_heard(w, n)).copied();
        if mutant!("tcp_job_begins_unheard") {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let met = |w: &mut Waits| missing(w).is_none().then_some(());
        if self.shared.wait(None, left, met)?.is_some() {
            return Ok(());
        }
        let missing = missing(&locked(&self.shared.waits));
        missing.map_or(Ok(()), |n| {
            let what = format!("node {n} connected and then said nothing for as long as it may");
            Err(refusal::missed(self.shared.me, n, what))
        })
    }

    fn start(way: &Way, peers: Vec<Option<Peer>>, has_agent: bool) -> Result<Self> {
        let failed = |e| io_error("starting the agent of a TCP fabric", e);
        let (bell, rung) = UnixStream::pair().map_err(failed)?;
        bell.set_nonblocking(true).map_err(failed)?;
        rung.set_nonblocking(true).map_err(failed)?;
        let ears = Ears::new(&peers, &rung).map_err(failed)?;
        let mut agent = Agent::new(peers.len(), way.silence_max);
        let mut shared = Shared {
            me: way.me,
            window: Window::new(way.window_bytes),
            peers,
            waits: Mutex::default(),
            changed: Condvar::new(),
            turns: AtomicU64::new(0),
            next_request: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            board: Mutex::new(None),
            bell,
            rung,
            ears,
            reader: None,
        };
        if !has_agent {
            agent.introduce(&shared);
            shared.reader = Some(Mutex::new(agent));
            return Ok(TcpFabric { shared: Arc::new(shared), agent: None });
        }
        let shared = Arc::new(shared);
        let for_agent = Arc::clone(&shared);
        let agent = std::thread::Builder::new()
            .name(format!("littoral-tcp-{}", way.me))
            .spawn(move || agent.run(&for_agent))
            .map_err(failed)?;
        Ok(TcpFabric { shared, agent: Some(agent) })
    }

    /// Puts a board into this node: its agent serves it.
    pub fn host(&self, board: Box<dyn Board>) {
        *locked(&self.shared.board) = Some(board);
    }

    /// Operations sent to `node` so far.
    pub fn operations_sent(&self, node: NodeId) -> u64 {
        let peer = self.shared.peers.get(node.index()).and_then(Option::as_ref);
        peer.map_or(0, |p| p.sent.load(Ordering::Relaxed))
    }

    /// How often other nodes have called [`Fabric::notify`] on this one.
    pub fn wakes(&self) -> u64 {
        locked(&self.shared.waits).wakes
    }
}

impl Drop for TcpFabric {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.ring_bell();
        if let Some(agent) = self.agent.take() {
            let _ = agent.join();
        }
        self.send_rest();
        for peer in self.shared.peers.iter().flatten() {
            // The peer sees the end of the stream; nothing can be done about a failure here.
            let _ = peer.stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Shared {
    fn peer(&self, node: NodeId) -> Result<&Peer> {
        let peer = self.peers.get(node.index()).and_then(Option::as_ref);
        peer.ok_or_else(|| refusal::no_such_node(self.me, node, self.peers.len()))
    }

    fn dead(&self, node: NodeId, how: &str) -> Error {
        refusal::gone(self.me, node, how)
    }

    /// Sends one frame; our own operations on the peer are counted, answers and beats are not.
    fn send(&self, node: NodeId, kind: u8, body: &[u8]) -> Result<u64> {
        let peer = self.peer(node)?;
        if let Some(how) = locked(&self.waits).dead.get(&node) {
            return Err(self.dead(node, how));
        }
        if let Some(how) = peer.broken.get() {
            return Err(self.dead(node, how));
        }
        let mut queue = locked(&peer.outgoing);
        let counted = is_operation(kind);
        let number = peer.sent.fetch_add(u64::from(counted), Ordering::AcqRel) + u64::from(counted);
        let mut frame = Writer::new();
        debug_assert!(body.len() <= BODY_BYTES_MAX, "a frame of {} bytes is refused", body.len());
        let length = u32::try_from(body.len()).expect("invariant: bodies are checked before");
        frame.u32(length).u8(kind).u64(peer.applied.load(Ordering::Acquire));
        queue.extend(frame.finish());
        queue.extend(body);
        let left = drain(&peer.stream, &mut queue);
        drop(queue);
        match left {
            Ok(0) => {}
            Ok(_) => self.ring_bell(),
            Err(e) => {
                self.give_up(peer, &e);
                return Err(self.dead(node, &e.to_string()));
            }
        }
        Ok(number)
    }

    /// Nothing more can be written to a peer; the agent reads what there is and marks it as failed.
    fn give_up(&self, peer: &Peer, e: &io::Error) {
        // The thread that noticed first says how.
        let _ = peer.broken.set(format!("writing to it failed: {e}"));
        self.ring_bell();
    }

    /// Holds a thread of this node back until a peer's queue is short again.
    fn hold_back(&self, node: NodeId) -> Result<()> {
        let peer = self.peer(node)?;
        while locked(&peer.outgoing).len() > QUEUE_BYTES_MAX {
            if let Some(how) = locked(&self.waits).dead.get(&node).or(peer.broken.get()) {
                return Err(self.dead(node, how));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// Carries a write or a read to this node's board, and out what the board writes in turn.
    fn on_board(&self, from: NodeId, kind: u8, body: &[u8]) -> Result<Vec<u8>> {
        let mut dma = Vec::new();
        let mut hosted = locked(&self.board);
        let Some(board) = hosted.as_mut() else {
            return Err(refusal::no_board(self.me, "").at_rank(self.me).at_peer(from));
        };
        let answer = match kind {
            BOARD_READ => board.read(from, body, &mut dma),
            _ => {
                board.write(from, body, &mut dma);
                Vec::new()
            }
        };
        drop(hosted);
        // The others' first: theirs has the way over the wire still before it.
        dma.sort_by_key(|write| write.node == self.me);
        dma.iter().for_each(DmaWrite::assert_whole);
        dma.into_iter().for_each(|write| self.deliver(&write));
        Ok(answer)
    }

    fn deliver(&self, DmaWrite { node, offset, data }: &DmaWrite) {
        if *node == self.me {
            // A board that writes outside the window harms only the node that asked it to.
            let _ = self.window.put(*offset, data);
            self.tell_waiting();
            return;
        }
        let mut body = Writer::new();
        body.u64(*offset as u64).raw(data);
        // A peer that died meanwhile is told nothing.
        let _ = self.send(*node, PUT, &body.finish());
    }

    /// Lets waiting threads look again. The lock is taken after the change, so a thread that found
    /// nothing is asleep, and counted, before it is asked who sleeps.
    fn tell_waiting(&self) {
        if self.reader.is_some() {
            return self.ring_bell();
        }
        self.turns.fetch_add(1, Ordering::AcqRel);
        if locked(&self.waits).asleep > 0 {
            self.changed.notify_all();
        }
    }

    fn ring_bell(&self) {
        // A full pipe means that the agent has not yet heard the last ring.
        let _ = (&self.bell).write(&[1]);
    }

    fn mark_failed(&self, node: NodeId, how: String) {
        locked(&self.waits).dead.entry(node).or_insert(how);
        self.wake_all();
    }

    fn wake_all(&self) {
        match self.reader {
            Some(_) => self.ring_bell(),
            None => self.changed.notify_all(),
        }
    }

    fn alive(&self) -> Vec<usize> {
        let waits = locked(&self.waits);
        let connected = |n: &usize| self.peers[*n].is_some();
        let dead = |n: usize| waits.dead.contains_key(&node_id(n));
        (0..self.peers.len()).filter(connected).filter(|&n| !dead(n)).collect()
    }

    /// Whether something waits for a peer that can still be written to.
    fn has_unsent(&self, alive: &[usize]) -> bool {
        let mut peers = alive.iter().filter_map(|&n| self.peers[n].as_ref());
        peers.any(|p| p.broken.get().is_none() && !locked(&p.outgoing).is_empty())
    }

    fn is_broken(&self, n: usize) -> bool {
        self.peers[n].as_ref().is_some_and(|p| p.broken.get().is_some())
    }

    /// Waits until `ready` answers or `node`, if one is named, is dead; `None` after `timeout`.
    fn wait<T>(
        &self,
        node: Option<NodeId>,
        timeout: Duration,
        mut ready: impl FnMut(&mut Waits) -> Option<T>,
    ) -> Result<Option<T>> {
        if let Some(reader) = &self.reader {
            return self.wait_reading(reader, node, timeout, false, ready);
        }
        let deadline = Instant::now() + timeout;
        let mut seen = u64::MAX;
        let mut spins = 0;
        loop {
            let turn = self.turns.load(Ordering::Acquire);
            if turn == seen && spins < SPIN_TURNS {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            seen = turn;
            let mut waits = locked(&self.waits);
            if let Some(answer) = ready(&mut waits) {
                return Ok(Some(answer));
            }
            if let Some((n, how)) = node.and_then(|n| waits.dead.get(&n).map(|how| (n, how))) {
                return Err(self.dead(n, how));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if spins >= SPIN_TURNS {
                waits.asleep += 1;
                let slept = self.changed.wait_timeout(waits, left.min(BEAT));
                slept.unwrap_or_else(PoisonError::into_inner).0.asleep -= 1;
            }
        }
    }

    fn ask(&self, node: NodeId, kind: u8, body: Writer) -> Result<Vec<u8>> {
        let id = self.begin(node, kind, body)?;
        self.answer_to(node, id)
    }

    /// Sends a request; the number of its answer.
    fn begin(&self, node: NodeId, kind: u8, mut body: Writer) -> Result<u64> {
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        body.u64(id);
        self.send(node, kind, &body.finish()).map(|_| id)
    }

    fn answer_to(&self, node: NodeId, id: u64) -> Result<Vec<u8>> {
        let found = self.wait(Some(node), UNTIL_DEAD, |w| w.answers.remove(&id))?;
        let answer = found.ok_or_else(|| self.dead(node, "it did not answer a request"))?;
        match answer.split_first() {
            Some((1, data)) => Ok(data.to_vec()),
            _ => {
                let what = format!("node {node} refused: outside its window, or misaligned");
                let refused = Error::new(Kind::IllegalRequest, what);
                Err(refused.at_rank(self.me).at_peer(node))
            }
        }
    }
}

fn node_id(n: usize) -> NodeId {
    NodeId(u16::try_from(n).expect("invariant: a job has at most 65536 nodes"))
}

impl Fabric for TcpFabric {
    fn me(&self) -> NodeId {
        self.shared.me
    }

    fn nodes(&self) -> u16 {
        u16::try_from(self.shared.peers.len()).expect("invariant: a job has at most 65535 nodes")
    }

    fn window_bytes(&self) -> usize {
        self.shared.window.len()
    }

    fn put(&self, node: NodeId, offset: usize, data: &[u8]) -> Result<()> {
        if node == self.shared.me {
            return self.shared.window.put(offset, data);
        }
        in_window(offset, data.len(), self.window_bytes())?;
        self.shared.hold_back(node)?;
        let mut body = Writer::new();
        body.u64(offset as u64).raw(data);
        self.shared.send(node, PUT, &body.finish()).map(drop)
    }

    fn get(&self, node: NodeId, offset: usize, into: &mut [u8]) -> Result<()> {
        if node == self.shared.me {
            return self.shared.window.get(offset, into);
        }
        in_window(offset, into.len(), self.window_bytes())?;
        let mut body = Writer::new();
        body.u64(offset as u64).u64(into.len() as u64);
        let data = self.shared.ask(node, GET, body)?;
        if data.len() != into.len() {
            return Err(self.shared.dead(node, "it answered with too few bytes"));
        }
        into.copy_from_slice(&data);
        Ok(())
    }

    fn fetch_add(&self, node: NodeId, offset: usize, add: u64) -> Result<u64> {
        if node == self.shared.me {
            return self.shared.window.fetch_add(offset, add);
        }
        let mut body = Writer::new();
        body.u64(offset as u64).u64(add);
        let data = self.shared.ask(node, ADD, body)?;
        let word = data.try_into().map(u64::from_le_bytes);
        word.map_err(|_| self.shared.dead(node, "it answered with too few bytes"))
    }

    fn flush(&self, node: NodeId) -> Result<()> {
        if node == self.shared.me {
            return Ok(());
        }
        let peer = self.shared.peer(node)?;
        let sent = peer.sent.load(Ordering::Acquire);
        if peer.acknowledged.load(Ordering::Acquire) >= sent {
            return Ok(());
        }
        let number = self.shared.send(node, FLUSH, &[])?;
        let there =
            |_: &mut Waits| (peer.acknowledged.load(Ordering::Acquire) >= number).then_some(());
        let done = self.shared.wait(Some(node), UNTIL_DEAD, there)?;
        done.ok_or_else(|| self.shared.dead(node, "it did not acknowledge a flush"))
    }

    fn post(&self, node: NodeId, message: &[u8]) -> Result<()> {
        if message.len() > BODY_BYTES_MAX {
            let what = format!("a message of {} bytes; at most {BODY_BYTES_MAX}", message.len());
            let refused = Error::new(Kind::IllegalRequest, what);
            return Err(refused.at_rank(self.shared.me).at_peer(node));
        }
        if node == self.shared.me {
            locked(&self.shared.waits).inbox.push_back((node, message.to_vec()));
            self.shared.wake_all();
            return Ok(());
        }
        self.shared.hold_back(node)?;
        self.shared.send(node, POST, message).map(drop)
    }

    fn post_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    fn try_post(&self, node: NodeId, message: &[u8]) -> Result<bool> {
        let full = |p: &Peer| locked(&p.outgoing).len() > QUEUE_BYTES_MAX;
        if node != self.shared.me && full(self.shared.peer(node)?) {
            return Ok(false);
        }
        self.post(node, message).map(|()| true)
    }

    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.shared.wait(None, timeout, |w| w.inbox.pop_front())
    }

    fn attend(&self, begins: bool) -> bool {
        if self.shared.reader.is_none() {
            return false;
        }
        let is_heard = self.shared.ears.attend(begins) != Left::Now;
        if !is_heard && !locked(&self.shared.waits).inbox.is_empty() {
            self.shared.ring_bell();
        }
        true
    }

    fn call(&self) {
        self.shared.ears.call();
    }

    fn receive_attending(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        match &self.shared.reader {
            Some(reader) => {
                self.shared.wait_reading(reader, None, timeout, true, |w| w.inbox.pop_front())
            }
            None => self.receive(timeout),
        }
    }

    fn notify(&self, node: NodeId) -> Result<()> {
        if node == self.shared.me {
            locked(&self.shared.waits).wakes += 1;
            self.shared.wake_all();
            return Ok(());
        }
        self.shared.send(node, WAKE, &[]).map(drop)
    }

    fn rmw(&self, node: NodeId, offset: usize, op: Rmw) -> Result<u64> {
        if node == self.shared.me {
            return self.shared.window.rmw(offset, op);
        }
        aligned_word(offset, self.window_bytes())?;
        let mut body = Writer::new();
        body.u64(offset as u64);
        write_change(&mut body, op);
        let data = self.shared.ask(node, CHANGE, body)?;
        let word = data.try_into().map(u64::from_le_bytes);
        word.map_err(|_| self.shared.dead(node, "it answered with too few bytes"))
    }

    /// The write wakes a wait by itself, so one frame is enough.
    fn signal(&self, node: NodeId, offset: usize, word: u64) -> Result<()> {
        if node != self.shared.me {
            return self.put(node, offset, &word.to_le_bytes());
        }
        let data = word.to_le_bytes().to_vec();
        aligned_word(offset, self.window_bytes())?;
        self.shared.deliver(&DmaWrite { node, offset, data });
        Ok(())
    }

    fn wait_word(&self, offset: usize, unlike: u64, timeout: Duration) -> Result<Option<u64>> {
        aligned_word(offset, self.window_bytes())?;
        self.shared.wait(None, timeout, |_| {
            let mut bytes = [0; 8];
            self.shared.window.get(offset, &mut bytes).ok()?;
            let word = u64::from_le_bytes(bytes);
            (word != unlike).then_some(word)
        })
    }

    fn board_write(&self, node: NodeId, data: &[u8]) -> Result<()> {
        board_sized(data)?;
        if node == self.shared.me {
            return self.shared.on_board(node, BOARD_WRITE, data).map(drop);
        }
        self.shared.hold_back(node)?;
        self.shared.send(node, BOARD_WRITE, data).map(drop)
    }

    fn board_read(&self, node: NodeId, question: &[u8]) -> Result<Vec<u8>> {
        board_sized(question)?;
        if node == self.shared.me {
            return self.shared.on_board(node, BOARD_READ, question);
        }
        let mut body = Writer::new();
        body.raw(question);
        self.shared.ask(node, BOARD_READ, body)
    }

    fn board_ask(&self, node: NodeId, question: &[u8]) -> Result<Option<u64>> {
        board_sized(question)?;
        if node == self.shared.me {
            return Ok(None);
        }
        let mut body = Writer::new();
        body.raw(question);
        self.shared.begin(node, BOARD_READ, body).map(Some)
    }

    fn board_answer(&self, node: NodeId, asked: u64) -> Result<Vec<u8>> {
        self.shared.answer_to(node, asked)
    }

    /// Where no agent does, it sends what waits and reads what has come.
    fn show_life(&self) -> Result<()> {
        if let Some(reader) = &self.shared.reader {
            self.shared.read(reader, Some(Duration::ZERO), false);
        }
        Ok(())
    }

    fn send_rest(&self) {
        let Some(reader) = &self.shared.reader else { return };
        let begun = Instant::now();
        while begun.elapsed() < CLOSING_MAX && self.shared.has_unsent(&self.shared.alive()) {
            self.shared.read(reader, Some(Duration::from_millis(1)), false);
        }
    }

    fn liveness(&self, node: NodeId) -> Liveness {
        match locked(&self.shared.waits).dead.get(&node) {
            Some(how) => Liveness::Dead(how.clone()),
            None => Liveness::Alive,
        }
    }

    fn has_delivered(&self, node: NodeId) -> bool {
        locked(&self.shared.waits).dead.contains_key(&node)
    }
}

fn in_window(offset: usize, len: usize, window: usize) -> Result<()> {
    let inside = offset.checked_add(len).is_some_and(|end| end <= window);
    let most =
        if mutant!("tcp_transfer_without_frame") { BODY_BYTES_MAX } else { TRANSFER_BYTES_MAX };
    if inside && len <= most {
        return Ok(());
    }
    let what = format!(
        "bytes {offset}..+{len} of a window of {window} bytes; at most {TRANSFER_BYTES_MAX} at a \
         time"
    );
    Err(Error::new(Kind::IllegalRequest, what).at_offset(offset as u64))
}

#[cfg(test)]
mod tests;
