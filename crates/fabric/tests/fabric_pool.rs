//! The pool fabric on the hostile pool: every message and every window, whatever the caches do.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use littoral_base::rng::{self, Rng};
use littoral_base::units::NodeId;
use littoral_device::Kind;
use littoral_device::memory::{Domain, Promise};
use littoral_device::pmem::FlushFence;
use littoral_fabric::board::{Board, DmaWrite};
use littoral_fabric::hostile::{HostilePool, HostileView};
use littoral_fabric::mailbox::PoolAgent;
use littoral_fabric::pool::{PoolFabric, PoolLayout, RING_BYTES};
use littoral_fabric::process::Identity;
use littoral_fabric::{Fabric, Liveness, SILENCE_MIN};

/// Nothing takes so long unless it hangs.
const LONG: Duration = Duration::from_secs(120);

fn hostile(nodes: u16, window: usize, seed: u64) -> Vec<PoolFabric<HostileView>> {
    let layout = PoolLayout::new(nodes, window);
    let pool = HostilePool::new(layout.pool_bytes(), seed, 20);
    let node = |n| PoolFabric::new(pool.view(n), layout, NodeId(n)).unwrap();
    (0..nodes).map(node).collect()
}

fn body(sender: u64, number: u64) -> Vec<u8> {
    let mut r = rng::stream(sender << 32 | number, "body");
    let length = if number.is_multiple_of(50) { 20_000 } else { r.random_range(0..200) };
    (0..length).map(|_| r.random()).collect()
}

/// Two nodes send each other numbered bodies through small rings, in any interleaving.
fn exchange<D: Domain>(nodes: Vec<PoolFabric<D>>, messages: u64) {
    std::thread::scope(|s| {
        for fabric in nodes {
            s.spawn(move || {
                let me = u64::from(fabric.me().0);
                let other = NodeId(1 - fabric.me().0);
                let mut got = 0;
                let mut take = |wait| {
                    if let Some((from, message)) = fabric.receive(wait).unwrap() {
                        assert_eq!((from, message), (other, body(1 - me, got)), "message {got}");
                        got += 1;
                    }
                    got
                };
                for number in 0..messages {
                    fabric.post(other, &body(me, number)).unwrap();
                    take(Duration::ZERO);
                }
                let mut last = take(Duration::ZERO);
                while last < messages {
                    let now = take(LONG);
                    assert!(now > last, "message {last} never came");
                    last = now;
                }
            });
        }
    });
}

#[test]
fn messages_arrive_whole_and_in_order_on_the_hostile_pool() {
    for seed in 0..3 {
        exchange(hostile(2, 0, seed), 200);
    }
}

/// A node's view with a hook after every write-back, before its fence, and one before every store.
struct Watched {
    view: HostileView,
    look: Arc<dyn Fn() + Send + Sync>,
    stored: Arc<dyn Fn(usize) + Send + Sync>,
}

impl Watched {
    /// Calls `look` after every write-back.
    fn at_write_backs(view: HostileView, look: Arc<dyn Fn() + Send + Sync>) -> Watched {
        Watched { view, look, stored: Arc::new(|_| ()) }
    }

    /// Calls `stored` with the offset of every store.
    fn at_stores(view: HostileView, stored: impl Fn(usize) + Send + Sync + 'static) -> Watched {
        Watched { view, look: Arc::new(|| ()), stored: Arc::new(stored) }
    }
}

impl Domain for Watched {
    fn len(&self) -> usize {
        self.view.len()
    }
    fn promise(&self) -> Promise {
        self.view.promise()
    }
    fn word(&self, offset: usize, order: Ordering) -> u64 {
        self.view.word(offset, order)
    }
    fn store(&self, offset: usize, value: u64, order: Ordering) {
        (self.stored)(offset);
        self.view.store(offset, value, order);
    }
    fn compare_exchange(
        &self,
        offset: usize,
        _: u64,
        _: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        panic!("a read-modify-write of the word at {offset}; a pool has none");
    }
    fn write_back(&self, offset: usize, len: usize) {
        self.view.write_back(offset, len);
        (self.look)();
    }
    fn invalidate(&self, offset: usize, len: usize) {
        self.view.invalidate(offset, len);
    }
    fn fence(&self) -> littoral_device::Result<()> {
        self.view.fence()
    }
}

#[test]
fn a_receiver_that_looks_in_the_midst_of_a_post_sees_all_of_it_or_nothing() {
    let layout = PoolLayout::new(2, 0);
    let pool = HostilePool::new(layout.pool_bytes(), 11, 20);
    let receiver = Mutex::new(PoolFabric::new(pool.view(1), layout, NodeId(1)).unwrap());
    let got = Arc::new(Mutex::new(0));
    let seen = got.clone();
    let look = Arc::new(move || {
        if let Some((from, message)) = receiver.lock().unwrap().receive(Duration::ZERO).unwrap() {
            let mut got = seen.lock().unwrap();
            assert_eq!((from, message), (NodeId(0), body(0, *got)), "message {got}");
            *got += 1;
        }
    });
    let view = Watched::at_write_backs(pool.view(0), look.clone());
    let sender = PoolFabric::new(view, layout, NodeId(0)).unwrap();
    for number in 0..120 {
        sender.post(NodeId(1), &body(0, number)).unwrap();
        look();
        assert_eq!(*got.lock().unwrap(), number + 1);
    }
}

#[test]
fn an_identity_is_on_the_medium_before_its_node_has_joined() {
    const STATE: usize = 64 + 8;
    let layout = PoolLayout::new(2, 0);
    let pool = HostilePool::new(layout.pool_bytes(), 2, 3);
    let identity = Identity { process: 11, start: 12, machine: 13, network: 14 };
    let medium = pool.clone();
    let look = move || {
        let words = [2, 3, 4, 5].map(|i| medium.medium_word(64 + 8 * i));
        let has_joined = medium.medium_word(STATE) != 0;
        assert!(!has_joined || words == identity.words(), "joined as {words:?}");
    };
    let view = Watched::at_write_backs(pool.view(1), Arc::new(look));
    let node = PoolFabric::new_as(view, layout, NodeId(1), identity).unwrap();
    assert_eq!(pool.medium_word(STATE), 1, "joined");
    drop(node);
    assert_eq!(pool.medium_word(STATE), 2, "left");
}

#[test]
fn every_line_of_a_pool_has_one_writer() {
    let layout = PoolLayout::new(2, 512);
    let pool = HostilePool::new(layout.pool_bytes(), 8, 20);
    let windows = layout.pool_bytes() - 2 * 512;
    let writers = Arc::new(Mutex::new(BTreeMap::new()));
    let view = |node: u16| {
        let writers = Arc::clone(&writers);
        Watched::at_stores(pool.view(node), move |offset| {
            // A window's lines change hands; who writes them is the engine's affair.
            if offset < windows {
                let writer = *writers.lock().unwrap().entry(offset / 64).or_insert(node);
                assert_eq!(writer, node, "two writers of line {}", offset / 64);
            }
        })
    };
    let nodes = [0, 1].map(|n| PoolFabric::new(view(n), layout, NodeId(n)).unwrap());
    let mut agent = PoolAgent::new(view(2), layout, NodeId(1), Box::new(Echo)).unwrap();
    for number in 1..20 {
        for (from, to) in [(0, 1), (1, 0)] {
            nodes[from].post(NodeId(to), &body(u64::from(to), number)).unwrap();
            assert!(nodes[usize::from(to)].receive(LONG).unwrap().is_some());
            nodes[from].board_write(NodeId(1), &told(to, number)).unwrap();
            assert!(agent.turn().unwrap());
        }
    }
    let seen: BTreeSet<u16> = writers.lock().unwrap().values().copied().collect();
    assert_eq!(seen, BTreeSet::from([0, 1, 2]), "all three wrote");
}

#[test]
fn the_same_code_runs_on_coherent_memory() {
    let layout = PoolLayout::new(1, 256);
    let bytes = layout.pool_bytes().next_multiple_of(4096);
    let fabric = PoolFabric::new(FlushFence::anonymous(bytes).unwrap(), layout, NodeId(0)).unwrap();
    for number in 0..300 {
        fabric.post(NodeId(0), &body(0, number)).unwrap();
        assert_eq!(fabric.receive(LONG).unwrap(), Some((NodeId(0), body(0, number))));
    }
}

#[test]
fn a_flushed_put_is_seen_by_the_owner() {
    let nodes = hostile(3, 4096, 9);
    let mut r = rng::seeded(5);
    let mut oracle = vec![0u8; 4096];
    for _ in 0..500 {
        let writer = &nodes[r.random_range(0..3)];
        let line = r.random_range(0..64) * 64;
        let data: Vec<u8> = (0..64).map(|_| r.random()).collect();
        writer.put(NodeId(1), line, &data).unwrap();
        writer.flush(NodeId(1)).unwrap();
        oracle[line..line + 64].copy_from_slice(&data);
        let mut seen = vec![0; 4096];
        nodes[r.random_range(0..3)].get(NodeId(1), 0, &mut seen).unwrap();
        assert_eq!(seen, oracle);
    }
    assert!(nodes.iter().all(|n| n.domain().counts().lost_lines == 0));
}

#[test]
fn what_a_pool_cannot_do_is_refused() {
    let nodes = hostile(2, 64, 1);
    let a = &nodes[0];
    assert_eq!(a.fetch_add(NodeId(1), 0, 1).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(a.put(NodeId(1), 4, &[0; 8]).unwrap_err().kind(), Kind::IllegalRequest);
    assert_eq!(a.put(NodeId(1), 64, &[0; 8]).unwrap_err().kind(), Kind::IllegalRequest);
    assert_eq!(a.post(NodeId(1), &[0; RING_BYTES]).unwrap_err().kind(), Kind::IllegalRequest);
    assert_eq!(a.post(NodeId(2), &[]).unwrap_err().kind(), Kind::IllegalRequest);
    assert_eq!(a.receive(Duration::ZERO).unwrap(), None);
    let small = HostilePool::new(64, 1, 9).view(0);
    assert!(PoolFabric::new(small, PoolLayout::new(2, 64), NodeId(0)).is_err());
}

/// A node of another machine, as far as the others can tell.
fn stranger(view: HostileView, layout: PoolLayout, me: NodeId) -> PoolFabric<HostileView> {
    let own = Identity::own();
    let elsewhere = Identity { machine: own.machine ^ 1, ..own };
    PoolFabric::new_as(view, layout, me, elsewhere).unwrap()
}

#[test]
fn a_dead_receiver_does_not_hold_a_sender_back_for_ever() {
    let layout = PoolLayout::new(2, 0);
    let pool = HostilePool::new(layout.pool_bytes(), 3, 20);
    let other = stranger(pool.view(1), layout, NodeId(1));
    let node = PoolFabric::new(pool.view(0), layout, NodeId(0)).unwrap();
    let node = node.with_silence(SILENCE_MIN).unwrap();
    let message = vec![1; RING_BYTES / 2];
    let mut sent = 0;
    let error = loop {
        match node.post(NodeId(1), &message) {
            Ok(()) => sent += 1,
            Err(e) => break e,
        }
    };
    assert_eq!((sent, error.kind()), (1, Kind::Io));
    assert!(error.to_string().contains("node 1 is gone: no sign of life"), "{error}");
    assert!(matches!(node.liveness(NodeId(1)), Liveness::Dead(_)));
    other.show_life().unwrap();
    assert_eq!(node.liveness(NodeId(1)), Liveness::Alive, "a beat that moves is life");
    drop(other);
    assert_eq!(node.liveness(NodeId(1)), Liveness::Dead("it left the job".into()));
}

/// Looks at node 1 for longer than a silence that would be too long.
fn look_at_a_silent_node(node: &PoolFabric<HostileView>) {
    let began = Instant::now();
    while began.elapsed() < 2 * SILENCE_MIN {
        assert_eq!(node.liveness(NodeId(1)), Liveness::Alive);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that is ended when this is dropped.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn silence_is_no_death_on_one_machine() {
    let layout = PoolLayout::new(2, 0);
    let pool = HostilePool::new(layout.pool_bytes(), 4, 20);
    let node = PoolFabric::new(pool.view(0), layout, NodeId(0)).unwrap();
    let node = node.with_silence(SILENCE_MIN).unwrap();
    look_at_a_silent_node(&node);
    // Node 1 is a process that does nothing at all, then one that has ended.
    let mut command = Command::new("sleep");
    command.arg("1000").stdout(Stdio::null()).stderr(Stdio::null());
    let child = Sleeper(command.spawn().unwrap());
    let process = u64::from(child.0.id());
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap();
    let identity = Identity { process, start: start.parse().unwrap(), ..Identity::own() };
    let other = PoolFabric::new_as(pool.view(1), layout, NodeId(1), identity).unwrap();
    look_at_a_silent_node(&node);
    drop(child);
    let began = Instant::now();
    while node.liveness(NodeId(1)) == Liveness::Alive {
        assert!(began.elapsed() < LONG, "the end of process {process} went unnoticed");
    }
    let ended = Liveness::Dead(format!("process {process} ended"));
    assert_eq!(node.liveness(NodeId(1)), ended);
    drop(other);
    node.wait_for_all(Duration::ZERO).unwrap();
    let lone = HostilePool::new(layout.pool_bytes(), 5, 20);
    let lone = PoolFabric::new(lone.view(1), layout, NodeId(1)).unwrap();
    let absent = lone.wait_for_all(Duration::ZERO).unwrap_err();
    assert!(absent.to_string().contains("node 0 has not joined"), "{absent}");
    assert_eq!(lone.liveness(NodeId(0)), Liveness::Alive, "a node that has not joined is not dead");
    assert!(PoolFabric::new(pool.view(0), layout, NodeId(0)).unwrap().with_silence(LONG).is_ok());
    assert!(node.with_silence(SILENCE_MIN / 2).is_err());
}

/// Answers with what it was asked, garbled, and writes what it was told into the teller's window.
struct Echo;

impl Board for Echo {
    fn write(&mut self, from: NodeId, data: &[u8], dma: &mut Vec<DmaWrite>) {
        let offset = 512 - data.len();
        dma.push(DmaWrite { node: from, offset, data: data.to_vec() });
    }
    fn read(&mut self, _: NodeId, question: &[u8], _: &mut Vec<DmaWrite>) -> Vec<u8> {
        question.iter().map(|b| b ^ 0x5a).collect()
    }
}

/// Some words, the last one the number of the request.
fn told(node: u16, number: u64) -> Vec<u8> {
    let mut bytes = body(u64::from(node) + 7, number);
    bytes.resize(8 * (1 + number as usize % 40), 0xab);
    bytes.extend(number.to_le_bytes());
    bytes
}

/// One client of the board at node 1: what it tells comes back into its window, what it asks is
/// answered, byte by byte.
///
/// A client that is through goes on giving signs of life until all `busy` ones are.
fn talk(fabric: &PoolFabric<HostileView>, requests: u64, busy: &AtomicIsize) {
    let me = fabric.me();
    for number in 1..requests {
        let data = told(me.0, number);
        fabric.board_write(NodeId(1), &data).unwrap();
        assert_eq!(fabric.wait_word(504, number - 1, LONG).unwrap(), Some(number), "{me}");
        let mut seen = vec![0; data.len()];
        fabric.get(me, 512 - data.len(), &mut seen).unwrap();
        assert_eq!(seen, data, "node {me}, number {number}");
        let answer = fabric.board_read(NodeId(1), &data).unwrap();
        let garbled: Vec<u8> = data.iter().map(|b| b ^ 0x5a).collect();
        assert_eq!(answer, garbled, "node {me}, number {number}");
    }
    busy.fetch_sub(1, Ordering::AcqRel);
    while busy.load(Ordering::Acquire) > 0 {
        fabric.show_life().unwrap();
        std::thread::yield_now();
    }
}

/// Lets the others end when a client fails.
struct Failing<'s>(&'s AtomicIsize);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(0, Ordering::Release);
        }
    }
}

/// Ends the agent's service also when a client fails.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Two clients of a board on a pool whose caches evict one line in `one_in` accesses.
fn talk_on_a_pool(one_in: u32) {
    let layout = PoolLayout::new(2, 512);
    let pool = HostilePool::new(layout.pool_bytes(), 4, one_in);
    let (stop, busy) = (AtomicBool::new(false), AtomicIsize::new(2));
    let mut agent = PoolAgent::new(pool.view(5), layout, NodeId(1), Box::new(Echo)).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| agent.serve(&stop).unwrap());
        let stopping = Stopping(&stop);
        let client = |n: u16| {
            let pool = &pool;
            let busy = &busy;
            s.spawn(move || {
                let _failing = Failing(busy);
                talk(&PoolFabric::new(pool.view(n), layout, NodeId(n)).unwrap(), 300, busy);
            })
        };
        let ended = [client(0), client(1)].map(|c| c.join());
        drop(stopping);
        ended.into_iter().for_each(|e| e.unwrap());
    });
}

#[test]
fn a_board_on_a_hostile_pool_hears_and_answers_every_byte() {
    talk_on_a_pool(20);
}

/// A cache that evicts nothing by itself never repairs a write-back or an invalidation left out.
#[test]
fn a_board_is_heard_though_no_line_is_ever_evicted() {
    talk_on_a_pool(u32::MAX);
}
