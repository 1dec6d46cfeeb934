//! A fabric in virtual time: any number of nodes, costs after LogGP, bit-equal on replay.
//!
//! Every node is a thread of its own and runs ordinary blocking code against [`Fabric`], but only
//! one runs at a time: a node that blocks hands over to the node that the next event wakes. Time
//! is the event queue's; code between two calls takes none, except what it says through
//! [`SimFabric::compute`].
//!
//! Costs of an operation of `n` bytes (LogGP, Alexandrov and others 1995): the sender's processor
//! is busy for `o`, its interface for `g + nG`, the bytes arrive `L` later. What a node's memory or
//! its agent does with them takes `service`, one after another; a board takes `board`. An answer
//! travels the same way back. A message costs its receiver `o` again.
//!
//! Invariants
//! - Operations of one node on another take effect in program order: interface and service are
//!   first come, first served. Checked by `the_gap_and_the_server_hold_a_stream_of_writes_back`.
//! - Equal programs give equal runs: the baton is handed on in the order of events and nothing
//!   else. Checked by `equal_programs_give_equal_runs`.
//! - When every node waits and no event is left, every wait ends with `Kind::Io` saying so; nothing
//!   hangs. A node whose body panics ends the job the same way. Checked by
//!   `waits_end_by_time_and_a_job_that_would_hang_is_told`,
//!   `a_node_that_panics_takes_the_job_down_and_no_wait_hangs`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use littoral_base::sim::{Queue, Resource};
use littoral_base::units::{NodeId, Picos};

use super::board::{Board, DmaWrite};
use super::refusal;
use super::window::{Window, in_window};
use super::{Fabric, Liveness, Rmw};
use crate::{Error, Kind, Result};

/// Bytes of an operation's head on the wire.
pub const HEAD_BYTES: u64 = 16;

/// The constants of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGp {
    /// `L`: from the last byte leaving one interface to the last byte in the other.
    pub latency: Picos,
    /// `o`: processor time to send or to receive.
    pub overhead: Picos,
    /// `g`: interface time a message beyond its bytes.
    pub gap: Picos,
    /// `G`: interface time a byte.
    pub byte: Picos,
    /// What carrying out a one-sided operation takes at its target.
    pub service: Picos,
    /// What an operation on a board takes there.
    pub board: Picos,
}

/// What the nodes of a simulated job did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SimCounts {
    /// Operations, messages and answers that left a node.
    pub messages: u64,
    /// Their bytes, heads included.
    pub bytes: u64,
    /// Writes of boards into windows.
    pub dma_writes: u64,
}

/// How a simulated job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimReport<T> {
    /// What each node's body returned.
    pub results: Vec<T>,
    /// When the last body returned.
    pub end: Picos,
    /// What travelled.
    pub counts: SimCounts,
}

enum Op {
    Put { offset: usize, data: Vec<u8> },
    Get { offset: usize, len: usize, id: u64 },
    Change { offset: usize, op: Rmw, id: u64 },
    BoardWrite { data: Vec<u8> },
    BoardRead { data: Vec<u8>, id: u64 },
    Post { data: Vec<u8> },
    Answer { id: u64, data: Result<Vec<u8>> },
}

impl Op {
    fn bytes(&self) -> u64 {
        let body = match self {
            Op::Put { data, .. } | Op::BoardWrite { data } | Op::Post { data } => data.len(),
            Op::BoardRead { data, .. } => data.len(),
            Op::Answer { data, .. } => data.as_ref().map_or(0, Vec::len),
            Op::Get { .. } | Op::Change { .. } => 8,
        };
        HEAD_BYTES + body as u64
    }
}

enum Event {
    Arrive { from: usize, to: usize, op: Op },
    Apply { from: usize, to: usize, op: Op },
    Acknowledged { node: usize, by: usize },
    Timer { node: usize, epoch: u64 },
}

#[derive(Clone, Copy, PartialEq)]
enum Wait {
    Running,
    Timer,
    Window,
    Post,
    Answer,
    Acknowledgement,
}

struct Node {
    window: Window,
    inbox: VecDeque<(NodeId, Vec<u8>)>,
    answers: BTreeMap<u64, Result<Vec<u8>>>,
    unacknowledged: Vec<u64>,
    interface_free: Picos,
    server: Resource,
    board: Option<Box<dyn Board>>,
    wait: Wait,
    epoch: u64,
    finished: bool,
}

struct State {
    model: LogGp,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    ready: VecDeque<usize>,
    running: Option<usize>,
    stuck: Option<String>,
    next_id: u64,
    counts: SimCounts,
    end: Picos,
}

struct World {
    state: Mutex<State>,
    wake: Vec<Condvar>,
}

/// One node of a simulated job; see the module's page.
pub struct SimFabric {
    world: Arc<World>,
    me: usize,
    nodes: u16,
    window_bytes: usize,
}

/// Runs `body` on each of `nodes` nodes with windows of `window_bytes`, in virtual time.
///
/// # Panics
/// When a body panics, after every other has been let go.
pub fn run<T: Send>(
    nodes: u16,
    window_bytes: usize,
    model: LogGp,
    body: impl Fn(&SimFabric) -> T + Sync,
) -> SimReport<T> {
    let window_bytes = window_bytes.next_multiple_of(8);
    let count = usize::from(nodes);
    let state = State::new(count, window_bytes, model);
    let wake = (0..count).map(|_| Condvar::new()).collect();
    let world = Arc::new(World { state: Mutex::new(state), wake });
    let body = &body;
    let results = std::thread::scope(|s| {
        let start = |me| {
            let fabric = SimFabric { world: Arc::clone(&world), me, nodes, window_bytes };
            std::thread::Builder::new()
                .stack_size(1 << 20)
                .spawn_scoped(s, move || {
                    let leave = Leave(&fabric);
                    drop(fabric.resume(fabric.lock()));
                    let result = body(&fabric);
                    drop(leave);
                    result
                })
                .expect("invariant: the machine can start a thread a simulated node")
        };
        let threads: Vec<_> = (0..count).map(start).collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, T>| {
            t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let state = world.state.lock().unwrap_or_else(PoisonError::into_inner);
    SimReport { results, end: state.end, counts: state.counts }
}

/// Hands the baton on when a body ends, however it ends.
struct Leave<'f>(&'f SimFabric);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.nodes[self.0.me].finished = true;
        state.end = state.end.max(state.queue.now());
        if std::thread::panicking() {
            state.stuck = Some(format!("node {} panicked", self.0.me));
        }
        state.running = None;
        if state.stuck.is_none() && !state.nodes.iter().all(|n| n.finished) {
            state.dispatch();
        }
        self.0.pass_on(&state);
    }
}

fn node_id(n: usize) -> NodeId {
    NodeId(u16::try_from(n).expect("invariant: a job has at most 65535 nodes"))
}

fn picos(d: Duration) -> Option<Picos> {
    u64::try_from(d.as_nanos()).ok().and_then(|ns| ns.checked_mul(1000)).map(Picos)
}

impl State {
    fn new(count: usize, window_bytes: usize, model: LogGp) -> Self {
        let node = |_| Node {
            window: Window::new(window_bytes),
            inbox: VecDeque::new(),
            answers: BTreeMap::new(),
            unacknowledged: vec![0; count],
            interface_free: Picos::ZERO,
            server: Resource::new(1),
            board: None,
            wait: Wait::Running,
            epoch: 0,
            finished: false,
        };
        State {
            model,
            queue: Queue::new(),
            nodes: (0..count).map(node).collect(),
            ready: (0..count).collect(),
            running: None,
            stuck: None,
            next_id: 0,
            counts: SimCounts::default(),
            end: Picos::ZERO,
        }
    }

    /// Picks who runs next, letting events happen until a node is ready.
    fn dispatch(&mut self) {
        while self.running.is_none() && self.stuck.is_none() {
            self.running = self.ready.pop_front();
            if let Some(n) = self.running {
                debug_assert!(!self.nodes[n].finished, "node {n} runs on after its body ended");
                return;
            }
            match self.queue.pop() {
                Some((_, event)) => self.happen(event),
                None => {
                    let waiting = (0..self.nodes.len()).filter(|&n| !self.nodes[n].finished);
                    let names: Vec<String> = waiting.map(|n| n.to_string()).collect();
                    self.stuck = Some(format!("nodes {} wait for ever", names.join(", ")));
                }
            }
        }
    }

    fn ready(&mut self, n: usize, wait: Wait) {
        if self.nodes[n].wait == wait {
            debug_assert!(self.running != Some(n), "node {n} runs and waits");
            self.nodes[n].wait = Wait::Running;
            self.nodes[n].epoch += 1;
            self.ready.push_back(n);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { from, to, op } => self.arrive(from, to, op),
            Event::Apply { from, to, op } => self.apply(from, to, op),
            Event::Acknowledged { node, by } => {
                self.nodes[node].unacknowledged[by] -= 1;
                self.ready(node, Wait::Acknowledgement);
            }
            Event::Timer { node, epoch } if self.nodes[node].epoch == epoch => {
                let wait = self.nodes[node].wait;
                if wait != Wait::Running {
                    self.ready(node, wait);
                }
            }
            Event::Timer { .. } => {}
        }
    }

    /// Puts an operation on its way.
    fn transmit(&mut self, from: usize, to: usize, op: Op) {
        let now = self.queue.now();
        if from == to {
            return self.queue.schedule(now, Event::Arrive { from, to, op });
        }
        let bytes = op.bytes();
        self.counts.messages += 1;
        self.counts.bytes += bytes;
        let depart = now.max(self.nodes[from].interface_free);
        let sent = depart + Picos(self.model.byte.0 * bytes);
        self.nodes[from].interface_free = sent + self.model.gap;
        self.queue.schedule(sent + self.model.latency, Event::Arrive { from, to, op });
    }

    fn arrive(&mut self, from: usize, to: usize, op: Op) {
        let length = match &op {
            Op::Post { .. } | Op::Answer { .. } => return self.apply(from, to, op),
            Op::BoardWrite { .. } | Op::BoardRead { .. } => self.model.board,
            _ => self.model.service,
        };
        let served = self.nodes[to].server.acquire(self.queue.now(), length);
        self.queue.schedule(served.end, Event::Apply { from, to, op });
    }

    fn apply(&mut self, from: usize, to: usize, op: Op) {
        match op {
            Op::Put { offset, data } => {
                // Ranges are checked before an operation is sent.
                let _ = self.nodes[to].window.put(offset, &data);
                self.ready(to, Wait::Window);
                if from != to {
                    let at = self.queue.now() + self.model.latency;
                    self.queue.schedule(at, Event::Acknowledged { node: from, by: to });
                }
            }
            Op::Get { offset, len, id } => {
                let mut data = vec![0; len];
                let done = self.nodes[to].window.get(offset, &mut data).map(|()| data);
                self.transmit(to, from, Op::Answer { id, data: done });
            }
            Op::Change { offset, op, id } => {
                let done = self.nodes[to].window.rmw(offset, op);
                self.ready(to, Wait::Window);
                let data = done.map(|old| old.to_le_bytes().to_vec());
                self.transmit(to, from, Op::Answer { id, data });
            }
            Op::BoardWrite { data } => {
                let mut dma = Vec::new();
                if let Some(board) = &mut self.nodes[to].board {
                    board.write(node_id(from), &data, &mut dma);
                }
                self.dma(to, dma);
            }
            Op::BoardRead { data, id } => {
                let mut dma = Vec::new();
                let answer = match &mut self.nodes[to].board {
                    Some(board) => Ok(board.read(node_id(from), &data, &mut dma)),
                    None => Err(no_board(node_id(to))),
                };
                self.transmit(to, from, Op::Answer { id, data: answer });
                self.dma(to, dma);
            }
            Op::Post { data } => {
                self.nodes[to].inbox.push_back((node_id(from), data));
                self.ready(to, Wait::Post);
            }
            Op::Answer { id, data } => {
                self.nodes[to].answers.insert(id, data);
                self.ready(to, Wait::Answer);
            }
        }
    }

    fn dma(&mut self, board: usize, writes: Vec<DmaWrite>) {
        for write in writes {
            write.assert_whole();
            let DmaWrite { node, offset, data } = write;
            self.counts.dma_writes += 1;
            if node.index() != board {
                self.nodes[board].unacknowledged[node.index()] += 1;
            }
            self.transmit(board, node.index(), Op::Put { offset, data });
        }
    }
}

fn no_board(node: NodeId) -> Error {
    refusal::no_board(node, "")
}

impl SimFabric {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.world.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Virtual time now.
    pub fn now(&self) -> Picos {
        self.lock().queue.now()
    }

    /// This node's processor computes for `length`.
    pub fn compute(&self, length: Picos) {
        let state = self.lock();
        drop(self.spend(state, length));
    }

    /// Puts a board into this node's IO bridge.
    pub fn host(&self, board: Box<dyn Board>) {
        self.lock().nodes[self.me].board = Some(board);
    }

    fn pass_on(&self, state: &State) {
        match state.running {
            Some(n) if n != self.me => self.world.wake[n].notify_one(),
            _ if state.stuck.is_some() => self.world.wake.iter().for_each(Condvar::notify_one),
            _ => {}
        }
    }

    /// Waits for the baton.
    fn resume<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        loop {
            if state.running.is_none() {
                state.dispatch();
                self.pass_on(&state);
            }
            if state.running == Some(self.me) || state.stuck.is_some() {
                return state;
            }
            let woken = self.world.wake[self.me].wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn block<'s>(&'s self, mut state: MutexGuard<'s, State>, wait: Wait) -> MutexGuard<'s, State> {
        debug_assert_eq!(state.running, Some(self.me), "only the node that runs can block");
        state.nodes[self.me].wait = wait;
        state.running = None;
        self.resume(state)
    }

    fn spend<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        length: Picos,
    ) -> MutexGuard<'s, State> {
        if length == Picos::ZERO || state.stuck.is_some() {
            return state;
        }
        self.alarm(&mut state, length);
        self.block(state, Wait::Timer)
    }

    fn alarm(&self, state: &mut State, length: Picos) {
        let epoch = state.nodes[self.me].epoch;
        state.queue.schedule_in(length, Event::Timer { node: self.me, epoch });
    }

    fn check<'s>(&self, state: MutexGuard<'s, State>) -> Result<MutexGuard<'s, State>> {
        match &state.stuck {
            Some(how) => Err(Error::new(Kind::Io, format!("the simulated job is stuck: {how}"))),
            None => Ok(state),
        }
    }

    fn no_such(&self, node: NodeId) -> Error {
        refusal::no_such_node(node_id(self.me), node, usize::from(self.nodes))
    }

    /// Pays the sender's overhead; the state afterwards.
    fn begin(&self, node: NodeId) -> Result<MutexGuard<'_, State>> {
        if node.0 >= self.nodes {
            return Err(self.no_such(node));
        }
        let state = self.check(self.lock())?;
        let overhead = state.model.overhead;
        self.check(self.spend(state, overhead))
    }

    fn ask(&self, node: NodeId, op: impl FnOnce(u64) -> Op) -> Result<Vec<u8>> {
        let mut state = self.begin(node)?;
        let id = state.next_id;
        state.next_id += 1;
        state.transmit(self.me, node.index(), op(id));
        loop {
            if let Some(answer) = state.nodes[self.me].answers.remove(&id) {
                return answer;
            }
            state = self.check(self.block(state, Wait::Answer))?;
        }
    }

    /// Waits until `ready` answers, at most for `timeout`.
    fn until<T>(
        &self,
        wait: Wait,
        timeout: Duration,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut state = self.check(self.lock())?;
        let deadline = picos(timeout).and_then(|t| state.queue.now().0.checked_add(t.0));
        loop {
            if let Some(answer) = ready(&mut state) {
                return Ok(Some(answer));
            }
            if let Some(deadline) = deadline {
                let left = Picos(deadline.saturating_sub(state.queue.now().0));
                if left == Picos::ZERO {
                    return Ok(None);
                }
                self.alarm(&mut state, left);
            }
            state = self.check(self.block(state, wait))?;
        }
    }
}

impl Fabric for SimFabric {
    fn me(&self) -> NodeId {
        node_id(self.me)
    }

    fn nodes(&self) -> u16 {
        self.nodes
    }

    fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    fn put(&self, node: NodeId, offset: usize, data: &[u8]) -> Result<()> {
        in_window(offset, data.len(), self.window_bytes)?;
        if node.index() == self.me {
            return self.lock().nodes[self.me].window.put(offset, data);
        }
        let mut state = self.begin(node)?;
        state.nodes[self.me].unacknowledged[node.index()] += 1;
        state.transmit(self.me, node.index(), Op::Put { offset, data: data.to_vec() });
        Ok(())
    }

    fn get(&self, node: NodeId, offset: usize, into: &mut [u8]) -> Result<()> {
        in_window(offset, into.len(), self.window_bytes)?;
        if node.index() == self.me {
            return self.lock().nodes[self.me].window.get(offset, into);
        }
        let len = into.len();
        into.copy_from_slice(&self.ask(node, |id| Op::Get { offset, len, id })?);
        Ok(())
    }

    fn fetch_add(&self, node: NodeId, offset: usize, add: u64) -> Result<u64> {
        self.rmw(node, offset, Rmw::Add(add))
    }

    fn rmw(&self, node: NodeId, offset: usize, op: Rmw) -> Result<u64> {
        let data = self.ask(node, |id| Op::Change { offset, op, id })?;
        Ok(u64::from_le_bytes(data.try_into().expect("invariant: the answer is a word")))
    }

    fn flush(&self, node: NodeId) -> Result<()> {
        let mut state = self.check(self.lock())?;
        while state.nodes[self.me].unacknowledged[node.index()] > 0 {
            state = self.check(self.block(state, Wait::Acknowledgement))?;
        }
        Ok(())
    }

    fn post(&self, node: NodeId, message: &[u8]) -> Result<()> {
        let mut state = self.begin(node)?;
        state.transmit(self.me, node.index(), Op::Post { data: message.to_vec() });
        Ok(())
    }

    fn post_bytes_max(&self) -> usize {
        1 << 26
    }

    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        let taken = self.until(Wait::Post, timeout, |s| s.nodes[self.me].inbox.pop_front())?;
        if taken.is_some() {
            let state = self.lock();
            let overhead = state.model.overhead;
            drop(self.spend(state, overhead));
        }
        Ok(taken)
    }

    /// A wait here is woken by what it waits for, so there is nothing to do.
    fn notify(&self, node: NodeId) -> Result<()> {
        (node.0 < self.nodes).then_some(()).ok_or_else(|| self.no_such(node))
    }

    fn liveness(&self, node: NodeId) -> Liveness {
        match self.lock().nodes.get(node.index()) {
            None => Liveness::Dead("there is no such node".into()),
            Some(n) if n.finished => Liveness::Dead("it left the job".into()),
            Some(_) => Liveness::Alive,
        }
    }

    fn signal(&self, node: NodeId, offset: usize, word: u64) -> Result<()> {
        self.put(node, offset, &word.to_le_bytes())
    }

    fn wait_word(&self, offset: usize, unlike: u64, timeout: Duration) -> Result<Option<u64>> {
        in_window(offset, 8, self.window_bytes)?;
        self.until(Wait::Window, timeout, |s| {
            let mut bytes = [0; 8];
            s.nodes[self.me].window.get(offset, &mut bytes).ok()?;
            let word = u64::from_le_bytes(bytes);
            (word != unlike).then_some(word)
        })
    }

    fn pause(&self, length: Duration) {
        self.compute(picos(length).unwrap_or(Picos::MAX));
    }

    fn board_write(&self, node: NodeId, data: &[u8]) -> Result<()> {
        let mut state = self.begin(node)?;
        if state.nodes[node.index()].board.is_none() {
            return Err(no_board(node));
        }
        state.transmit(self.me, node.index(), Op::BoardWrite { data: data.to_vec() });
        Ok(())
    }

    fn board_read(&self, node: NodeId, question: &[u8]) -> Result<Vec<u8>> {
        self.ask(node, |id| Op::BoardRead { data: question.to_vec(), id })
    }
}
