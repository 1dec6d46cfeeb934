//! The TCP fabric on loopback: order, atomicity, hostile peers, death.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use littoral_base::units::NodeId;
use littoral_device::Kind;
use littoral_fabric::process::Identity;
use littoral_fabric::tcp::TcpFabric;
use littoral_fabric::{Fabric, Liveness, SILENCE_DEFAULT, SILENCE_MIN};

/// Nothing takes so long unless it hangs.
const LONG: Duration = Duration::from_secs(120);

fn job(nodes: u16, window: usize) -> Vec<TcpFabric> {
    joined(nodes, &|me, all, l| TcpFabric::connect(me, all, l, window).unwrap())
}

/// Nodes whose waiting threads read the connections themselves.
fn job_without_agents(nodes: u16) -> Vec<TcpFabric> {
    joined(nodes, &|me, all, l| {
        TcpFabric::connect_without_agent(me, all, l, 64, SILENCE_DEFAULT, 0).unwrap()
    })
}

type Join<'a> = &'a (dyn Fn(NodeId, &[SocketAddr], &TcpListener) -> TcpFabric + Sync);

fn joined(nodes: u16, join: Join<'_>) -> Vec<TcpFabric> {
    let listeners: Vec<_> = (0..nodes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<SocketAddr> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
    std::thread::scope(|s| {
        let start = |(n, l)| {
            let addresses = &addresses;
            s.spawn(move || join(NodeId(n as u16), addresses, l))
        };
        let handles: Vec<_> = listeners.iter().enumerate().map(start).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}

#[test]
fn puts_gets_and_additions_reach_every_window() {
    let job = job(3, 1 << 20);
    let big: Vec<u8> = (0..300_000u32).map(|i| (i * 7) as u8).collect();
    for (from, to) in [(0u16, 1u16), (1, 2), (2, 0), (1, 1)] {
        let fabric = &job[usize::from(from)];
        fabric.put(NodeId(to), 3, &big).unwrap();
        fabric.flush(NodeId(to)).unwrap();
        let mut back = vec![0; big.len()];
        job[usize::from(to)].get(NodeId(to), 3, &mut back).unwrap();
        assert_eq!(back, big, "after a flush the owner sees the put");
        fabric.get(NodeId(to), 3, &mut back).unwrap();
        assert_eq!(back, big);
    }
}

#[test]
fn operations_take_effect_in_program_order() {
    let job = job(2, 64);
    for i in 1..2000u64 {
        job[0].put(NodeId(1), 0, &i.to_le_bytes()).unwrap();
        job[0].put(NodeId(1), 8, &i.to_le_bytes()).unwrap();
        if i % 100 == 0 {
            let (mut first, mut second) = ([0; 8], [0; 8]);
            job[1].get(NodeId(1), 8, &mut second).unwrap();
            job[1].get(NodeId(1), 0, &mut first).unwrap();
            assert!(u64::from_le_bytes(first) >= u64::from_le_bytes(second));
        }
    }
    assert_eq!(job[0].fetch_add(NodeId(1), 8, 0).unwrap(), 1999);
}

#[test]
fn additions_of_many_nodes_lose_nothing() {
    let job = job(3, 64);
    std::thread::scope(|s| {
        for fabric in &job {
            s.spawn(move || {
                for _ in 0..500 {
                    fabric.fetch_add(NodeId(1), 16, 1).unwrap();
                }
            });
        }
    });
    assert_eq!(job[0].fetch_add(NodeId(1), 16, 0).unwrap(), 1500);
}

#[test]
fn both_ways_at_once_never_locks_up() {
    let job = job(2, 1 << 22);
    let block = vec![7u8; 1 << 21];
    std::thread::scope(|s| {
        for me in 0..2usize {
            let (job, block) = (&job, &block);
            s.spawn(move || {
                let other = NodeId(1 - me as u16);
                let mut back = vec![0; block.len()];
                for _ in 0..20 {
                    job[me].put(other, 0, block).unwrap();
                    job[me].get(other, 0, &mut back).unwrap();
                }
                assert_eq!(&back, block);
            });
        }
    });
}

#[test]
fn posts_arrive_in_order_and_a_wait_ends() {
    let job = job(2, 64);
    assert_eq!(job[1].receive(Duration::from_millis(1)).unwrap(), None);
    for i in 0..100u8 {
        job[0].post(NodeId(1), &[i]).unwrap();
    }
    for i in 0..100u8 {
        assert_eq!(job[1].receive(LONG).unwrap(), Some((NodeId(0), vec![i])));
    }
    job[1].notify(NodeId(0)).unwrap();
    job[1].flush(NodeId(0)).unwrap();
    assert_eq!(job[0].wakes(), 1);
}

/// Two threads of a node take what comes, one of which never sleeps, while a third sends more than
/// may wait for a peer.
#[test]
fn posts_reach_threads_that_read_the_connections_themselves() {
    const POSTS: usize = 300;
    let job = job_without_agents(2);
    let left = [0, 1].map(|_| AtomicUsize::new(POSTS));
    let taken = [0, 1].map(|_| Mutex::new(Vec::new()));
    let body = |n: usize| [&(n as u32).to_le_bytes()[..], &vec![n as u8; n * 200]].concat();
    std::thread::scope(|s| {
        for n in 0..2 {
            let (fabric, left, taken) = (&job[n], &left, &taken[n]);
            s.spawn(move || {
                (0..POSTS).for_each(|i| fabric.post(NodeId(1 - n as u16), &body(i)).unwrap());
            });
            for timeout in [Duration::from_millis(10), Duration::ZERO] {
                s.spawn(move || {
                    // Also what waits for the other node leaves while a thread waits.
                    while left.iter().any(|left| left.load(Ordering::SeqCst) > 0) {
                        if let Some((from, bytes)) = fabric.receive(timeout).unwrap() {
                            assert_eq!(from, NodeId(1 - n as u16));
                            taken.lock().unwrap().push(bytes);
                            left[n].fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        }
    });
    for taken in taken {
        let mut taken = taken.into_inner().unwrap();
        taken.sort();
        let mut all: Vec<_> = (0..POSTS).map(body).collect();
        all.sort();
        assert!(taken == all, "each post once and whole");
    }
}

#[test]
fn operations_take_effect_while_a_thread_waits() {
    let job = job_without_agents(2);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                assert_eq!(job[1].receive(Duration::from_millis(5)).unwrap(), None);
            }
        });
        job[0].put(NodeId(1), 8, &[7; 8]).unwrap();
        assert_eq!(job[0].fetch_add(NodeId(1), 8, 1).unwrap(), u64::from_le_bytes([7; 8]));
        let mut found = [0; 8];
        job[0].get(NodeId(1), 8, &mut found).unwrap();
        assert_eq!(u64::from_le_bytes(found), u64::from_le_bytes([7; 8]) + 1);
        job[0].flush(NodeId(1)).unwrap();
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    let job = job(2, 64);
    let kind = |r: littoral_device::Result<()>| r.unwrap_err().kind();
    assert_eq!(kind(job[0].put(NodeId(1), 60, &[0; 8])), Kind::IllegalRequest);
    assert_eq!(kind(job[0].get(NodeId(1), usize::MAX, &mut [0; 8])), Kind::IllegalRequest);
    assert_eq!(kind(job[0].post(NodeId(9), &[])), Kind::IllegalRequest);
    assert_eq!(job[0].fetch_add(NodeId(1), 4, 1).unwrap_err().kind(), Kind::IllegalRequest);
    assert_eq!(job[0].fetch_add(NodeId(1), 0, 1).unwrap(), 0, "the connection lives on");
}

#[test]
fn a_node_that_leaves_is_named_and_no_wait_hangs() {
    let mut job = job(3, 64);
    drop(job.remove(1));
    let begin = Instant::now();
    while job[0].liveness(NodeId(1)) == Liveness::Alive {
        assert!(begin.elapsed() < LONG, "the death of node 1 went unnoticed");
        std::thread::sleep(Duration::from_millis(5));
    }
    let error = job[0].get(NodeId(1), 0, &mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    assert!(error.to_string().contains("node 1"), "{error}");
    assert_eq!(job[0].fetch_add(NodeId(2), 0, 5).unwrap(), 0, "the others go on");
}

/// The frame by which an agent says who it is.
fn greeting(key: u64, node: u16) -> Vec<u8> {
    [&b"LTRLDSM3"[..], &key.to_le_bytes(), &node.to_le_bytes()].concat()
}

/// A connection that closes at once, says nothing, says two bytes, says other bytes, greets for
/// another job or for a seat that does not exist: each is dropped and the job starts.
#[test]
fn strangers_on_the_port_are_dropped_and_the_job_starts() {
    const KEY: u64 = 0x1234_5678_9abc;
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let all = listeners.each_ref().map(|l| l.local_addr().unwrap());
    let strangers = |address| {
        let mut open = Vec::new();
        let said = [
            vec![],
            vec![1, 0],
            vec![2, 0],
            b"GET / HTTP/1.1\r\nHost: node1\r\n\r\n".to_vec(),
            greeting(KEY + 1, 1),
            greeting(KEY, 0),
            greeting(KEY, 9),
            greeting(KEY, 1)[..17].to_vec(),
        ];
        for bytes in said {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&bytes).unwrap();
            open.push(stream);
        }
        drop(TcpStream::connect(address).unwrap());
        (0..70).for_each(|_| open.push(TcpStream::connect(address).unwrap()));
        open
    };
    let open = all[..2].iter().map(|address| strangers(*address)).collect::<Vec<_>>();
    std::thread::scope(|s| {
        let join = |n: usize| {
            let (l, all) = (&listeners[n], &all);
            let me = NodeId(n as u16);
            s.spawn(move || TcpFabric::connect_with_key(me, all, l, 64, LONG, KEY).unwrap())
        };
        let job = [0, 1, 2].map(join).map(|node| node.join().unwrap());
        assert_eq!(job[2].fetch_add(NodeId(0), 8, 1).unwrap(), 0);
        assert_eq!(job[0].fetch_add(NodeId(1), 8, 1).unwrap(), 0);
    });
    drop(open);
}

fn introduction(identity: Identity) -> Vec<u8> {
    let mut frame = 32u32.to_le_bytes().to_vec();
    frame.push(12);
    frame.extend([0; 8]);
    frame.extend(identity.encode());
    frame
}

/// Before a peer's agent has been heard its silence has the limit of a node that still connects,
/// two minutes, so a job that begins earlier would notice a lost peer only then.
#[test]
fn a_job_begins_when_every_agent_has_been_heard() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let all = [address, address, address];
    std::thread::scope(|s| {
        let node = s.spawn(|| TcpFabric::connect(NodeId(0), &all, &listener, 64).unwrap());
        let mut peers = [1u16, 2].map(|n| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&greeting(0, n)).unwrap();
            stream
        });
        std::thread::sleep(Duration::from_millis(100));
        assert!(!node.is_finished(), "the job began before its peers were heard");
        peers[0].write_all(&introduction(elsewhere())).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(!node.is_finished(), "the job began before its last peer was heard");
        drop(peers);
        let fabric = node.join().unwrap();
        let error = fabric.get(NodeId(2), 0, &mut [0; 8]).unwrap_err();
        assert!(error.to_string().contains("node 2"), "the dead are met, too: {error}");
    });
}

/// A peer that greets properly, says who it is, and then sends nothing, or noise.
fn with_stranger(
    has_agent: bool,
    identity: Identity,
    act: impl FnOnce(&mut TcpStream, &TcpFabric),
) -> TcpFabric {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let all = [address, address];
    std::thread::scope(|s| {
        let node = s.spawn(|| {
            let me = NodeId(0);
            match has_agent {
                true => TcpFabric::connect_with_silence(me, &all, &listener, 64, SILENCE_MIN),
                false => TcpFabric::connect_without_agent(me, &all, &listener, 64, SILENCE_MIN, 0),
            }
            .unwrap()
        });
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&greeting(0, 1)).unwrap();
        stream.write_all(&introduction(identity)).unwrap();
        let fabric = node.join().unwrap();
        act(&mut stream, &fabric);
        let begin = Instant::now();
        while fabric.liveness(NodeId(1)) == Liveness::Alive && begin.elapsed() < LONG {
            fabric.show_life().unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        fabric
    })
}

fn elsewhere() -> Identity {
    let own = Identity::own();
    Identity { machine: own.machine ^ 1, ..own }
}

fn failure_report(fabric: &TcpFabric) -> String {
    match fabric.liveness(NodeId(1)) {
        Liveness::Dead(how) => how,
        Liveness::Alive => panic!("node 1 passes for alive"),
    }
}

#[test]
fn a_silent_peer_of_another_machine_is_dead_and_a_wait_on_it_ends() {
    let cut_off = Identity { network: Identity::own().network ^ 1, ..Identity::own() };
    for (identity, has_agent) in [(elsewhere(), true), (cut_off, true), (elsewhere(), false)] {
        let fabric = with_stranger(has_agent, identity, |_, _| {});
        assert!(failure_report(&fabric).contains("silent"));
        assert_eq!(fabric.get(NodeId(1), 0, &mut [0; 8]).unwrap_err().kind(), Kind::Io);
    }
}

#[test]
fn a_silent_peer_of_this_machine_is_alive_until_its_stream_ends() {
    for has_agent in [true, false] {
        let fabric = with_stranger(has_agent, Identity::own(), |stream, fabric| {
            let begin = Instant::now();
            while begin.elapsed() < 2 * SILENCE_MIN {
                fabric.show_life().unwrap();
                assert_eq!(fabric.liveness(NodeId(1)), Liveness::Alive);
                std::thread::sleep(Duration::from_millis(20));
            }
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        });
        assert!(!failure_report(&fabric).contains("silent"));
    }
}

/// One frame by which node 1 sends node 0 a message of one byte.
fn message(byte: u8) -> Vec<u8> {
    [&1u32.to_le_bytes()[..], &[4], &[0; 8], &[byte]].concat()
}

#[test]
fn what_a_peer_said_before_it_died_is_received() {
    last_words_are_received(true);
    last_words_are_received(false);
}

fn last_words_are_received(has_agent: bool) {
    let said: Vec<u8> = (0..200).collect();
    let fabric = with_stranger(has_agent, elsewhere(), |stream, fabric| {
        let frames: Vec<u8> = said.iter().flat_map(|byte| message(*byte)).collect();
        stream.write_all(&frames).unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
        // Writing to it fails in time, also before its last word is read.
        while fabric.put(NodeId(1), 0, &[1; 8]).is_ok() {}
    });
    assert!(matches!(fabric.liveness(NodeId(1)), Liveness::Dead(_)));
    for byte in said {
        assert_eq!(fabric.receive(Duration::ZERO).unwrap(), Some((NodeId(1), vec![byte])));
    }
    assert_eq!(fabric.receive(Duration::ZERO).unwrap(), None);
}

#[test]
fn noise_kills_the_connection_and_not_the_node() {
    let fabric = with_stranger(true, elsewhere(), |s, _| s.write_all(&[0xff; 64]).unwrap());
    assert!(failure_report(&fabric).contains("frame"));
    let fabric = with_stranger(true, elsewhere(), |s, _| {
        let mut frame = 3u32.to_le_bytes().to_vec();
        frame.extend([2; 12]);
        s.write_all(&frame).unwrap();
    });
    assert!(
        failure_report(&fabric).contains("frame") || failure_report(&fabric).contains("silent")
    );
    fabric.put(NodeId(0), 0, &[1]).unwrap();
}
