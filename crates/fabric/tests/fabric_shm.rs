//! The shared-memory fabric: order, long messages, sleeping and waking, processes that die or stop.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use littoral_base::rng::{self, Rng};
use littoral_base::units::NodeId;
use littoral_device::Kind;
use littoral_fabric::process::{Halt, halt_of};
use littoral_fabric::shm::{RING_BYTES, ShmFabric, ShmLayout};
use littoral_fabric::{Fabric, Liveness, Rmw, SILENCE_MIN};

/// Nothing takes so long unless it hangs.
const LONG: Duration = Duration::from_secs(120);

fn job(nodes: u16, window: usize) -> Vec<ShmFabric> {
    let layout = ShmLayout::new(nodes, window);
    let file = tempfile::tempfile().unwrap();
    layout.create(&file).unwrap();
    let job = (0..nodes).map(|n| ShmFabric::attach(&file, layout, NodeId(n)).unwrap());
    let job: Vec<_> = job.collect();
    job[0].wait_for_all(LONG).unwrap();
    job
}

fn body(sender: u64, number: u64) -> Vec<u8> {
    let mut r = rng::stream(sender << 32 | number, "body");
    let length = match number % 40 {
        7 => 3 * RING_BYTES + 5,
        _ => r.random_range(0..300),
    };
    (0..length).map(|_| r.random()).collect()
}

#[test]
fn nodes_that_send_each_other_more_than_rings_hold_do_not_wait_for_each_other() {
    const MESSAGES: u64 = 200;
    let job = job(3, 0);
    std::thread::scope(|s| {
        for fabric in &job {
            s.spawn(move || {
                let me = fabric.me().0;
                for number in 0..MESSAGES {
                    for to in (0..3).filter(|&to| to != me) {
                        fabric.post(NodeId(to), &body(u64::from(me), number)).unwrap();
                    }
                }
                let mut next = [0; 3];
                for _ in 0..2 * MESSAGES {
                    let (from, message) = fabric.receive(LONG).unwrap().unwrap();
                    let number = &mut next[from.index()];
                    assert_eq!(message, body(u64::from(from.0), *number));
                    *number += 1;
                }
                assert_eq!(fabric.receive(Duration::ZERO).unwrap(), None);
            });
        }
    });
}

/// A rank posts while it holds its engine, so it must return although the peer receives nothing.
#[test]
fn a_full_ring_refuses_a_message_without_waiting() {
    let job = job(2, 0);
    let longest = vec![7; job[0].try_post_bytes_max()];
    let sent = (0..100).take_while(|_| job[0].try_post(NodeId(1), &longest).unwrap()).count();
    assert_eq!(sent, 4);
    assert_eq!(job[1].receive(LONG).unwrap(), Some((NodeId(0), longest.clone())));
    assert!(job[0].try_post(NodeId(1), &longest).unwrap(), "room again");
    for _ in 0..4 {
        assert_eq!(job[1].receive(LONG).unwrap().unwrap().1, longest);
    }
    assert_eq!(job[1].receive(Duration::ZERO).unwrap(), None);
}

#[test]
fn windows_are_byte_arrays_with_atomics_and_words_that_wake() {
    let job = job(2, 4096);
    job[0].put(NodeId(1), 3, b"littoral").unwrap();
    let mut back = [0; 8];
    job[1].get(NodeId(1), 3, &mut back).unwrap();
    assert_eq!(&back, b"littoral");
    let add = |by| job[0].rmw(NodeId(1), 64, Rmw::Add(by)).unwrap();
    assert_eq!((add(5), add(1)), (0, 5));
    assert_eq!(job[1].rmw(NodeId(1), 64, Rmw::Swap(9)).unwrap(), 6);
    let exchange = |current, new| job[0].rmw(NodeId(1), 64, Rmw::CompareSwap { current, new });
    assert_eq!((exchange(8, 1).unwrap(), exchange(9, 2).unwrap()), (9, 9));
    assert_eq!(job[0].fetch_add(NodeId(1), 64, 0).unwrap(), 2);
    assert_eq!(job[0].wait_word(128, 0, Duration::from_millis(2)).unwrap(), None);
    assert_eq!(job[0].put(NodeId(1), 4090, &[0; 8]).unwrap_err().kind(), Kind::IllegalRequest);
    assert_eq!(job[0].put(NodeId(2), 0, &[0; 8]).unwrap_err().kind(), Kind::IllegalRequest);
    assert_eq!(job[0].signal(NodeId(1), 4, 1).unwrap_err().kind(), Kind::IllegalRequest);
}

/// Two threads hand a word back and forth, now and then long enough apart for the other to sleep.
#[test]
fn no_wake_up_is_lost() {
    const TURNS: u64 = 2000;
    let job = job(2, 64);
    std::thread::scope(|s| {
        for (me, other) in [(0usize, NodeId(1)), (1, NodeId(0))] {
            let fabric = &job[me];
            s.spawn(move || {
                let mut r = rng::seeded(me as u64);
                for turn in 0..TURNS {
                    if r.random_range(0..20) == 0 {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    if me == 0 {
                        fabric.signal(other, 0, turn + 1).unwrap();
                    }
                    let began = Instant::now();
                    assert_eq!(fabric.wait_word(0, turn, LONG).unwrap(), Some(turn + 1));
                    // A lost wake-up would be mended by the sleep's own limit only.
                    assert!(began.elapsed() < LONG, "turn {turn}");
                    if me == 1 {
                        fabric.signal(other, 0, turn + 1).unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn a_seat_is_taken_once_and_other_memory_is_refused() {
    let layout = ShmLayout::new(2, 64);
    let file = tempfile::tempfile().unwrap();
    let kind = |layout, me| ShmFabric::attach(&file, layout, NodeId(me)).err().map(|e| e.kind());
    assert_eq!(kind(layout, 0), Some(Kind::Foreign), "the job has not been made yet");
    layout.create(&file).unwrap();
    assert_eq!(layout.create(&file).unwrap_err().kind(), Kind::Busy);
    let first = ShmFabric::attach(&file, layout, NodeId(0)).unwrap();
    assert_eq!(kind(layout, 0), Some(Kind::Busy));
    assert_eq!(kind(layout, 2), Some(Kind::IllegalRequest));
    assert_eq!(kind(ShmLayout::new(1, 64), 0), Some(Kind::Foreign));
    let absent = first.wait_for_all(Duration::from_millis(5)).unwrap_err();
    assert_eq!((absent.kind(), absent.to_string().contains("node 1")), (Kind::Io, true));
}

#[test]
fn who_leaves_is_gone_but_its_messages_arrive() {
    let mut job = job(2, 64);
    let leaver = job.pop().unwrap();
    leaver.post(NodeId(0), b"farewell").unwrap();
    drop(leaver);
    assert_eq!(job[0].receive(LONG).unwrap(), Some((NodeId(1), b"farewell".to_vec())));
    assert_eq!(job[0].liveness(NodeId(1)), Liveness::Dead("it left the job".into()));
    assert_eq!(job[0].post(NodeId(1), b"hello").unwrap_err().kind(), Kind::Io);
    assert_eq!(job[0].liveness(NodeId(0)), Liveness::Alive);
}

const PATH: &str = "LITTORAL_TEST_SHM";

/// The body of the other process: node 1 says that it is there and then does nothing.
#[test]
fn child_node() {
    let Ok(path) = std::env::var(PATH) else { return };
    let file = File::options().read(true).write(true).open(path).unwrap();
    let fabric = ShmFabric::attach(&file, ShmLayout::new(2, 64), NodeId(1)).unwrap();
    fabric.post(NodeId(0), b"here").unwrap();
    // Killed long before.
    std::thread::sleep(Duration::from_secs(600));
}

fn with_child(act: impl FnOnce(&ShmFabric, &mut Child)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let layout = ShmLayout::new(2, 64);
    layout.create(&file).unwrap();
    let fabric = ShmFabric::attach_with_silence(&file, layout, NodeId(0), SILENCE_MIN).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_node"]).env(PATH, &path);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Ended(command.spawn().unwrap());
    assert_eq!(fabric.receive(LONG).unwrap(), Some((NodeId(1), b"here".to_vec())));
    assert_eq!(fabric.liveness(NodeId(1)), Liveness::Alive);
    act(&fabric, &mut child.0);
}

/// A process that is ended when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn death(fabric: &ShmFabric) -> String {
    let began = Instant::now();
    loop {
        if let Liveness::Dead(how) = fabric.liveness(NodeId(1)) {
            return how;
        }
        assert!(began.elapsed() < LONG, "no waiter noticed");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_process_is_dead_and_named() {
    with_child(|fabric, child| {
        child.kill().unwrap();
        assert_eq!(death(fabric), format!("process {} ended", child.id()));
        let refused = fabric.signal(NodeId(1), 0, 1).unwrap_err();
        assert!(refused.to_string().starts_with("node 1 is gone: process"), "{refused}");
    });
}

/// Waits until a handle would have declared a silent node dead, however slowly this machine runs.
fn listen_for_longer_than(limit: Duration, mut look: impl FnMut()) {
    let began = Instant::now();
    while began.elapsed() < 2 * limit {
        look();
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_stopped_process_is_alive_until_it_ends() {
    with_child(|fabric, child| {
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        listen_for_longer_than(SILENCE_MIN, || {
            assert_eq!(fabric.liveness(NodeId(1)), Liveness::Alive);
        });
        child.kill().unwrap();
        assert_eq!(death(fabric), format!("process {} ended", child.id()));
    });
}

/// The debugger's part, with the little that is unsafe.
mod raw {
    #![allow(unsafe_code)] // Reason: holding a process as a debugger does.

    use std::ptr::null_mut;

    /// Takes hold of a process and halts it; whether that is allowed here.
    pub(super) fn hold(process: u32) -> bool {
        let ask = |request| {
            // SAFETY: neither request reads or writes memory of this process.
            unsafe { libc::ptrace(request, process, null_mut::<u8>(), null_mut::<u8>()) == 0 }
        };
        ask(libc::PTRACE_SEIZE) && ask(libc::PTRACE_INTERRUPT)
    }
}

#[test]
fn a_process_that_a_debugger_holds_is_alive() {
    with_child(|fabric, child| {
        if !raw::hold(child.id()) {
            let said = writeln!(std::io::stderr(), "SKIPPED: this system refuses debuggers");
            return said.unwrap();
        }
        let held = || matches!(halt_of(child.id()), Some(Halt::Traced(debugger)) if debugger > 0);
        let began = Instant::now();
        while !held() {
            assert!(began.elapsed() < LONG, "it is not held: {:?}", halt_of(child.id()));
        }
        listen_for_longer_than(SILENCE_MIN, || {
            assert_eq!(fabric.liveness(NodeId(1)), Liveness::Alive);
        });
    });
}
