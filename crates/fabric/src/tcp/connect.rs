//! The beginning of a job over TCP: a node dials those before it and accepts those after it.
//!
//! Greeting, 18 bytes, sent by the node that dials and answered by the node that accepts:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | `LTRLDSM3` |
//! | 8..16 | the job's key, little-endian |
//! | 16..18 | number of the sender, little-endian |
//!
//! All nodes have until one deadline; one that is missing then is named.
//!
//! Invariants
//! - A connection gets a node's seat only by a whole greeting with the job's key, the number of a
//!   node that dials this one, and a seat that is free. Every other connection is dropped, and the
//!   node goes on waiting; one that says nothing keeps no other from being served. Checked by
//!   `strangers_on_the_port_are_dropped_and_the_job_starts`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use littoral_base::mutant;
use littoral_base::units::NodeId;
use rustix::event::{PollFd, PollFlags, poll};

use super::{CONNECT_MAX, Peer, io_error, node_id, timespec};
use crate::Result;
use crate::refusal::missed;

const GREETING_BYTES: usize = 18;
const MAGIC: [u8; 8] = *b"LTRLDSM3";
/// How long one attempt to connect may take.
const TRY_MAX: Duration = Duration::from_secs(1);
/// Connections that may be in the middle of their greeting; the oldest gives way to one more.
const STRANGERS_MAX: usize = 64;

fn peer_of(stream: TcpStream) -> Result<Peer> {
    let failed = |e| io_error("a connection to another node", e);
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_nonblocking(true).map_err(failed)?;
    let outgoing = Mutex::default();
    let zero = || AtomicU64::new(0);
    let (acknowledged, sent, applied) = (zero(), zero(), zero());
    Ok(Peer { stream, outgoing, acknowledged, sent, applied, broken: OnceLock::new() })
}

fn greeting(key: u64, node: NodeId) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&key.to_le_bytes());
    bytes[16..].copy_from_slice(&node.0.to_le_bytes());
    bytes
}

pub(super) fn dial(
    me: NodeId,
    key: u64,
    n: NodeId,
    address: SocketAddr,
    deadline: Instant,
) -> Result<Peer> {
    loop {
        let stream = TcpStream::connect_timeout(&address, TRY_MAX);
        match stream.and_then(|s| greet(s, me, key, n, deadline)) {
            Ok(stream) => return peer_of(stream),
            Err(e) if Instant::now() >= deadline => {
                let failed = io_error(format!("node {n} at {address} does not answer"), e);
                return Err(failed.at_rank(me).at_peer(n).at_address(address));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Says who dials and hears who has accepted.
fn greet(
    mut stream: TcpStream,
    me: NodeId,
    key: u64,
    n: NodeId,
    deadline: Instant,
) -> io::Result<TcpStream> {
    let left = deadline.saturating_duration_since(Instant::now());
    stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    stream.write_all(&greeting(key, me))?;
    let mut answer = [0; GREETING_BYTES];
    stream.read_exact(&mut answer)?;
    stream.set_read_timeout(None)?;
    if answer != greeting(key, n) {
        return Err(io::Error::other("what answers there is no node of this job"));
    }
    Ok(stream)
}

/// A connection whose greeting is not whole yet.
struct Stranger {
    stream: TcpStream,
    said: Vec<u8>,
}

/// What came of listening to a connection.
enum Heard {
    /// More is to come.
    Part,
    /// A node of the job.
    Node(usize),
    /// Something else.
    Nothing,
}

impl Stranger {
    /// Takes what has arrived; `is_free` tells whether a seat may be given.
    fn listen(&mut self, key: u64, is_free: impl Fn(usize) -> bool) -> Heard {
        let mut bytes = [0; GREETING_BYTES];
        let missing = GREETING_BYTES - self.said.len();
        match self.stream.read(&mut bytes[..missing]) {
            Ok(0) => return Heard::Nothing,
            Ok(read) => self.said.extend_from_slice(&bytes[..read]),
            Err(e) if is_passing(&e) => return Heard::Part,
            Err(_) => return Heard::Nothing,
        }
        let known = &greeting(key, NodeId(0))[..GREETING_BYTES - 2];
        let same = self.said.iter().zip(known).all(|(a, b)| a == b);
        if !same && !mutant!("tcp_any_greeting_gets_a_seat") {
            return Heard::Nothing;
        }
        let Some(number) = self.said.get(GREETING_BYTES - 2..) else { return Heard::Part };
        let Ok(number) = number.try_into().map(u16::from_le_bytes) else { return Heard::Part };
        let n = usize::from(number);
        if is_free(n) { Heard::Node(n) } else { Heard::Nothing }
    }
}

fn is_passing(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Waits for the nodes after `me`, and seats them among `peers`.
pub(super) fn accept(
    listener: &TcpListener,
    me: NodeId,
    key: u64,
    peers: &mut [Option<Peer>],
    deadline: Instant,
) -> Result<()> {
    let failed = |e| io_error("waiting for the other nodes", e).at_rank(me);
    let mut strangers: Vec<Stranger> = Vec::new();
    listener.set_nonblocking(true).map_err(failed)?;
    while let Some(missing) = (me.index() + 1..peers.len()).find(|n| peers[*n].is_none()) {
        if !wait_for_one(listener, &strangers, deadline).map_err(failed)? {
            let limit = CONNECT_MAX.as_secs();
            let what = format!("node {missing} did not connect within {limit} s");
            return Err(missed(me, node_id(missing), what));
        }
        if let Some(stream) = next_of(listener).map_err(failed)? {
            if strangers.len() == STRANGERS_MAX {
                strangers.remove(0);
            }
            strangers.push(Stranger { stream, said: Vec::new() });
        }
        for mut stranger in std::mem::take(&mut strangers) {
            let is_free = |n: usize| n > me.index() && peers.get(n).is_some_and(Option::is_none);
            match stranger.listen(key, is_free) {
                Heard::Part => strangers.push(stranger),
                // A node that ended meanwhile leaves its seat free.
                Heard::Node(n) => {
                    let answered = stranger.stream.write_all(&greeting(key, me));
                    peers[n] = answered.ok().map(|()| peer_of(stranger.stream)).transpose()?;
                }
                Heard::Nothing => {}
            }
        }
    }
    listener.set_nonblocking(false).map_err(failed)
}

/// Waits until the listener or a stranger has something, or the deadline; which of the two.
fn wait_for_one(
    listener: &TcpListener,
    strangers: &[Stranger],
    deadline: Instant,
) -> io::Result<bool> {
    loop {
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(strangers.iter().map(|s| PollFd::new(&s.stream, PollFlags::IN)));
        let left = deadline.saturating_duration_since(Instant::now());
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// The next connection, if there is one by now.
fn next_of(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => stream.set_nonblocking(true).map(|()| Some(stream)),
        // Also one that was given up before it was taken.
        Err(e) if is_passing(&e) || e.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
        Err(e) => Err(e),
    }
}
