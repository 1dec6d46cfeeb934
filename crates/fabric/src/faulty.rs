//! The fabric adapter of the fault plan: what a plan's verdicts do to messages and one-sided
//! operations.
//!
//! | verdict | message, put, board write | get, read-modify-write, board read |
//! |---|---|---|
//! | fail | refused with `Kind::Io`, no effect | the same |
//! | drop | reported as sent, no effect | `Kind::Io`: no answer |
//! | duplicate | takes effect twice | carried out twice, answered once |
//! | delay | held back; later operations on that node wait behind it | waits up to 1 ms first |
//! | cut | this node is cut off from here on | the same |
//! | others | refused when the plan is installed | the same |
//!
//! Invariants
//! - Operations of one node on another take effect in program order, delayed or not. Checked by
//!   `one_sided_operations_meet_their_fates_in_program_order`.
//! - A held operation takes effect after at most [`HELD_CALLS_MAX`] more calls on its node's
//!   handle, at the latest before its `flush` or `notify` returns, or when the handle is dropped.
//!   Checked by `delayed_messages_arrive_in_order_and_all_of_them`.
//! - A node that is cut off is dead to the others and every operation of it fails with `Kind::Io`.
//!   Checked by `a_node_that_is_cut_off_is_dead_to_the_others`.
//! - All nodes of a job share one plan. In virtual time its verdicts repeat from run to run; where
//!   nodes run at the same time the order of their operations decides who meets which. Checked by
//!   `a_plan_and_its_replay_string_give_equal_runs`.
//! - Operations on a node's own window are not judged: they do not leave it. Checked by
//!   `operations_on_the_own_window_meet_no_fault`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use littoral_base::fault::{Adapter, Op, Plan, Verdict};
use littoral_base::units::NodeId;

use crate::{Error, Fabric, Kind, Liveness, Result, Rmw, forward_fabric};

/// Calls on a node's handle for which an operation is held back at most.
pub const HELD_CALLS_MAX: u64 = 16;
/// The longest delay of an operation that has an answer, in microseconds.
const ANSWER_DELAY_US_MAX: u64 = 1000;
/// How long a node waits at a time while it holds operations back.
const SLICE: Duration = Duration::from_micros(200);

/// The adapter of the fault plan for fabrics.
#[derive(Clone, Copy, Debug)]
pub struct SendFaults;

impl Adapter for SendFaults {
    fn ops(&self) -> &'static [Op] {
        &[Op::Send]
    }

    fn refusal(&self, _op: Op, verdict: Verdict) -> Option<&'static str> {
        match verdict {
            Verdict::Pass
            | Verdict::Fail
            | Verdict::Drop
            | Verdict::Duplicate
            | Verdict::Delay(_)
            | Verdict::Cut => None,
            Verdict::Shuffle(_)
            | Verdict::Misdirect(_)
            | Verdict::Corrupt(_)
            | Verdict::Alias(_)
            | Verdict::Torn(_) => Some("a fabric delivers whole messages or none"),
        }
    }
}

/// The plan of a job's nodes, and who has been cut off.
#[derive(Debug)]
pub struct Faults {
    plan: Mutex<Plan>,
    cut: Vec<AtomicBool>,
    struck: AtomicU64,
}

impl Faults {
    /// Puts the fabric of `nodes` nodes under `plan`.
    ///
    /// # Errors
    /// `Kind::Unsupported` for a verdict that a fabric cannot act out.
    pub fn new(nodes: u16, plan: Plan) -> Result<Arc<Faults>> {
        SendFaults.check(&plan).map_err(|refused| {
            let what = format!("fault plan `{plan}`: a fabric cannot act out {refused}");
            Error::new(Kind::Unsupported, what)
        })?;
        let cut = (0..nodes).map(|_| AtomicBool::new(false)).collect();
        Ok(Arc::new(Faults { plan: Mutex::new(plan), cut, struck: AtomicU64::new(0) }))
    }

    /// How many operations met a verdict other than pass.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::SeqCst)
    }

    /// Cuts `node` off, as a verdict does.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn cut(&self, node: NodeId) {
        self.cut[node.index()].store(true, Ordering::SeqCst);
    }

    /// Whether `node` has been cut off.
    pub fn is_cut(&self, node: NodeId) -> bool {
        self.cut.get(node.index()).is_some_and(|cut| cut.load(Ordering::SeqCst))
    }

    fn judge(&self, me: NodeId) -> Verdict {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = plan.judge(Op::Send);
        if verdict == Verdict::Cut {
            // The cut is this node's; the plan goes on for the others.
            plan.restore_power();
            self.cut(me);
        }
        if verdict != Verdict::Pass {
            self.struck.fetch_add(1, Ordering::SeqCst);
        }
        verdict
    }
}

/// An operation that is held back.
#[derive(Debug)]
enum Late {
    Post(Vec<u8>),
    Put { offset: usize, data: Vec<u8> },
}

/// What a node holds back, by receiver; each with the call from which on it may go.
#[derive(Debug, Default)]
struct Held {
    calls: u64,
    queues: BTreeMap<NodeId, VecDeque<(u64, Late)>>,
}

/// One node's fabric under a fault plan; see the module's page.
#[derive(Debug)]
pub struct Faulty<F: Fabric> {
    fabric: F,
    faults: Arc<Faults>,
    held: Mutex<Held>,
}

impl<F: Fabric> Faulty<F> {
    /// Puts `fabric` under the job's `faults`.
    pub fn new(fabric: F, faults: Arc<Faults>) -> Self {
        Faulty { fabric, faults, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call: lets go what has been held long enough.
    ///
    /// # Errors
    /// `Kind::Io` when this node, or `other`, is cut off.
    fn step(&self, other: Option<NodeId>) -> Result<()> {
        let me = self.fabric.me();
        if self.faults.is_cut(me) {
            return Err(gone(me));
        }
        {
            let mut held = self.held();
            held.calls += 1;
            let calls = held.calls;
            let queues = held.queues.iter_mut();
            queues.for_each(|(&node, queue)| self.let_go(node, queue, calls));
            held.queues.retain(|&node, queue| !queue.is_empty() && !self.faults.is_cut(node));
        }
        other.filter(|&node| self.faults.is_cut(node)).map_or(Ok(()), |node| Err(gone(node)))
    }

    /// Carries out what is due at the front of a queue. A receiver that is gone gets nothing.
    fn let_go(&self, node: NodeId, queue: &mut VecDeque<(u64, Late)>, calls: u64) {
        while let Some((due, late)) = queue.front() {
            if *due > calls {
                return;
            }
            let done = match late {
                Late::Post(message) => self.fabric.try_post(node, message),
                Late::Put { offset, data } => self.fabric.put(node, *offset, data).map(|()| true),
            };
            match done {
                Ok(true) => drop(queue.pop_front()),
                Ok(false) => return,
                Err(_) => return queue.clear(),
            }
        }
    }

    /// Carries out everything held for `node`: its earlier operations come first. While there is no
    /// room it waits without the lock, so that another thread of the node may go on receiving.
    fn settle(&self, node: NodeId) {
        while self.is_holding(node) && !self.faults.is_cut(node) {
            {
                let mut held = self.held();
                let Some(queue) = held.queues.get_mut(&node) else { return };
                self.let_go(node, queue, u64::MAX);
                if queue.is_empty() {
                    held.queues.remove(&node);
                    return;
                }
            }
            std::thread::yield_now();
        }
    }

    fn hold(&self, node: NodeId, word: Option<u64>, late: Late) {
        let mut held = self.held();
        let due = word.map_or(0, |w| held.calls + 1 + w % HELD_CALLS_MAX);
        held.queues.entry(node).or_default().push_back((due, late));
    }

    fn is_holding(&self, node: NodeId) -> bool {
        self.held().queues.contains_key(&node)
    }

    /// The fate of an operation on `node`.
    fn judge(&self, node: NodeId) -> Verdict {
        let me = self.fabric.me();
        if node == me { Verdict::Pass } else { self.faults.judge(me) }
    }

    /// An operation without an answer that cannot be held back.
    fn whole(&self, node: NodeId, act: impl Fn() -> Result<()>) -> Result<()> {
        self.step(Some(node))?;
        self.settle(node);
        match self.judge(node) {
            Verdict::Drop => Ok(()),
            verdict => self.acted(node, verdict, act),
        }
    }

    /// An operation with an answer.
    fn asked<T>(&self, node: NodeId, act: impl Fn() -> Result<T>) -> Result<T> {
        self.step(Some(node))?;
        self.settle(node);
        match self.judge(node) {
            Verdict::Drop => {
                let what = format!("the fault plan lost an operation on node {node}");
                Err(Error::new(Kind::Io, what).at_rank(self.fabric.me()).at_peer(node))
            }
            verdict => self.acted(node, verdict, act),
        }
    }

    fn acted<T>(&self, node: NodeId, verdict: Verdict, act: impl Fn() -> Result<T>) -> Result<T> {
        match verdict {
            Verdict::Pass => act(),
            Verdict::Fail => Err(failed(self.fabric.me(), node)),
            Verdict::Duplicate => {
                let first = act()?;
                act()?;
                Ok(first)
            }
            Verdict::Delay(word) => {
                self.fabric.pause(Duration::from_micros(1 + word % ANSWER_DELAY_US_MAX));
                act()
            }
            Verdict::Cut => Err(gone(self.fabric.me())),
            other => unreachable!("invariant: the adapter refuses {other:?}"),
        }
    }

    /// A message or a put, which may be held back. `now` answers whether there was room.
    fn sent(
        &self,
        node: NodeId,
        late: impl Fn() -> Late,
        now: impl Fn() -> Result<bool>,
    ) -> Result<bool> {
        self.step(Some(node))?;
        match self.judge(node) {
            Verdict::Pass if !self.is_holding(node) => now(),
            Verdict::Pass => {
                self.hold(node, None, late());
                Ok(true)
            }
            Verdict::Fail => Err(failed(self.fabric.me(), node)),
            Verdict::Drop => Ok(true),
            Verdict::Duplicate => {
                self.hold(node, None, late());
                self.hold(node, None, late());
                self.step(Some(node)).map(|()| true)
            }
            Verdict::Delay(word) => {
                self.hold(node, Some(word), late());
                Ok(true)
            }
            Verdict::Cut => Err(gone(self.fabric.me())),
            other => unreachable!("invariant: the adapter refuses {other:?}"),
        }
    }

    /// Waits in slices while operations are held back, so that waiting lets them go.
    fn sliced<T>(
        &self,
        timeout: Duration,
        wait: impl Fn(Duration) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            self.step(None)?;
            if self.held().queues.is_empty() {
                let left =
                    deadline.map_or(timeout, |d| d.saturating_duration_since(Instant::now()));
                return wait(left);
            }
            let found = wait(SLICE.min(timeout))?;
            if found.is_some() || deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(found);
            }
        }
    }
}

fn failed(me: NodeId, node: NodeId) -> Error {
    let what = format!("the fault plan failed an operation on node {node}");
    Error::new(Kind::Io, what).at_rank(me).at_peer(node)
}

fn gone(node: NodeId) -> Error {
    Error::new(Kind::Io, format!("the fault plan cut node {node} off")).at_peer(node)
}

impl<F: Fabric> Drop for Faulty<F> {
    fn drop(&mut self) {
        if self.faults.is_cut(self.fabric.me()) {
            return;
        }
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        let queues = std::mem::take(&mut held.queues);
        for (node, mut queue) in queues {
            self.let_go(node, &mut queue, u64::MAX);
        }
    }
}

macro_rules! through_fabric {
    ($self:ident, $($call:tt)+) => {
        $self.fabric.$($call)+
    };
}

impl<F: Fabric> Fabric for Faulty<F> {
    forward_fabric!(through_fabric:
        me nodes window_bytes post_bytes_max try_post_bytes_max send_rest has_delivered pause
        board_answer attend call);

    /// A plan may lose or delay a store, so nothing may rely on coherence.
    fn is_coherent(&self) -> bool {
        false
    }
    fn put(&self, node: NodeId, offset: usize, data: &[u8]) -> Result<()> {
        let late = || Late::Put { offset, data: data.to_vec() };
        self.sent(node, late, || self.fabric.put(node, offset, data).map(|()| true)).map(drop)
    }
    fn get(&self, node: NodeId, offset: usize, into: &mut [u8]) -> Result<()> {
        let len = into.len();
        let got = self.asked(node, || {
            let mut bytes = vec![0; len];
            self.fabric.get(node, offset, &mut bytes).map(|()| bytes)
        })?;
        into.copy_from_slice(&got);
        Ok(())
    }
    fn fetch_add(&self, node: NodeId, offset: usize, add: u64) -> Result<u64> {
        self.asked(node, || self.fabric.fetch_add(node, offset, add))
    }
    fn flush(&self, node: NodeId) -> Result<()> {
        self.step(Some(node))?;
        self.settle(node);
        self.fabric.flush(node)
    }
    fn post(&self, node: NodeId, message: &[u8]) -> Result<()> {
        let late = || Late::Post(message.to_vec());
        self.sent(node, late, || self.fabric.post(node, message).map(|()| true)).map(drop)
    }
    fn try_post(&self, node: NodeId, message: &[u8]) -> Result<bool> {
        let late = || Late::Post(message.to_vec());
        self.sent(node, late, || self.fabric.try_post(node, message))
    }
    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.sliced(timeout, |slice| self.fabric.receive(slice))
    }
    fn receive_asleep(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.sliced(timeout, |slice| self.fabric.receive_asleep(slice))
    }
    fn receive_attending(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.sliced(timeout, |slice| self.fabric.receive_attending(slice))
    }
    fn notify(&self, node: NodeId) -> Result<()> {
        self.step(Some(node))?;
        self.settle(node);
        self.fabric.notify(node)
    }
    fn show_life(&self) -> Result<()> {
        self.step(None)?;
        self.fabric.show_life()
    }
    fn liveness(&self, node: NodeId) -> Liveness {
        if self.faults.is_cut(node) {
            return Liveness::Dead("cut off by the fault plan".to_owned());
        }
        self.fabric.liveness(node)
    }
    fn rmw(&self, node: NodeId, offset: usize, op: Rmw) -> Result<u64> {
        self.asked(node, || self.fabric.rmw(node, offset, op))
    }
    fn signal(&self, node: NodeId, offset: usize, word: u64) -> Result<()> {
        self.whole(node, || self.fabric.signal(node, offset, word))
    }
    fn wait_word(&self, offset: usize, unlike: u64, timeout: Duration) -> Result<Option<u64>> {
        self.sliced(timeout, |slice| self.fabric.wait_word(offset, unlike, slice))
    }
    fn board_write(&self, node: NodeId, data: &[u8]) -> Result<()> {
        self.whole(node, || self.fabric.board_write(node, data))
    }
    fn board_read(&self, node: NodeId, question: &[u8]) -> Result<Vec<u8>> {
        self.asked(node, || self.fabric.board_read(node, question))
    }
    /// Judged when it is asked; the answer is the same operation's.
    fn board_ask(&self, node: NodeId, question: &[u8]) -> Result<Option<u64>> {
        self.asked(node, || self.fabric.board_ask(node, question))
    }
}
