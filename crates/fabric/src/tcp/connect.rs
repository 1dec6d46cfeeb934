//! The beginning of a job over TCP: a node dials those before it and accepts those after it.
//!
//! - Who dials says its number first, two bytes, little-endian.
//! - All nodes have until one deadline; those missing then are named.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use littoral_base::units::NodeId;
use rustix::event::{PollFd, PollFlags, poll};

use super::{CONNECT_MAX, Peer, io_error, timespec};
use crate::{Error, Kind, Result};

/// How long one attempt to connect may take.
const TRY_MAX: Duration = Duration::from_secs(1);

fn peer_of(stream: TcpStream) -> Result<Peer> {
    let failed = |e| io_error("a connection to another node", e);
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_nonblocking(true).map_err(failed)?;
    let outgoing = Mutex::default();
    let zero = || AtomicU64::new(0);
    let (acknowledged, sent, applied) = (zero(), zero(), zero());
    Ok(Peer { stream, outgoing, acknowledged, sent, applied, broken: OnceLock::new() })
}

pub(super) fn dial(me: NodeId, n: usize, address: SocketAddr, deadline: Instant) -> Result<Peer> {
    loop {
        match TcpStream::connect_timeout(&address, TRY_MAX) {
            Ok(mut stream) => {
                let greeted = stream.write_all(&me.0.to_le_bytes());
                greeted.map_err(|e| io_error(format!("greeting node {n} at {address}"), e))?;
                return peer_of(stream);
            }
            Err(e) if Instant::now() >= deadline => {
                return Err(io_error(format!("node {n} at {address} does not answer"), e));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

pub(super) fn accept(
    listener: &TcpListener,
    nodes: usize,
    deadline: Instant,
) -> Result<(usize, Peer)> {
    let failed = |e| io_error("waiting for the other nodes", e);
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    let left = deadline.saturating_duration_since(Instant::now());
    let ready = poll(&mut fds, Some(&timespec(left))).map_err(|e| failed(e.into()))?;
    if ready == 0 {
        let what = format!("not every node connected within {} s", CONNECT_MAX.as_secs());
        return Err(Error::new(Kind::Io, what));
    }
    let (mut stream, from) = listener.accept().map_err(failed)?;
    let left = deadline.saturating_duration_since(Instant::now());
    stream.set_read_timeout(Some(left.max(TRY_MAX))).map_err(failed)?;
    let mut id = [0; 2];
    stream.read_exact(&mut id).map_err(failed)?;
    stream.set_read_timeout(None).map_err(failed)?;
    let n = usize::from(u16::from_le_bytes(id));
    if n >= nodes {
        let what = format!("{from} says it is node {n} of a job with {nodes}");
        return Err(Error::new(Kind::IllegalRequest, what));
    }
    Ok((n, peer_of(stream)?))
}
