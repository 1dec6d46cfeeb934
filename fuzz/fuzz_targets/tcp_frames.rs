//! Frames of the TCP fabric from a hostile node: the connection ends, the node goes on.
//!
//! An input is what the other node of a job of two sends once it has greeted and said who it is.
//! Its first byte says how: even, the bytes as they are; odd, a list of {kind, length, body}, each
//! made a whole frame, so that the operations behind the frames are reached.
//!
//! Canary: before the first input a put must arrive in the window and be read back.

#![no_main]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_base::codec::Writer;
use littoral_base::units::NodeId;
use littoral_fabric::tcp::TcpFabric;
use littoral_fabric::{Fabric, Liveness};

const WINDOW_BYTES: usize = 4096;
const PUT: u8 = 1;
const FLUSH: u8 = 5;

fn greeting(node: u16) -> Vec<u8> {
    let mut w = Writer::new();
    w.raw(b"LTRLDSM3").u64(0).u16(node);
    w.finish()
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(body.len() as u32).u8(kind).u64(0).raw(body);
    w.finish()
}

/// Joins a job of two as node 1, sends `bytes` behind the identity that node 0's agent waits for,
/// and ends the stream; what node 0's window holds then.
fn send(bytes: &[u8]) -> Vec<u8> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let home = listener.local_addr().expect("an address");
    let addresses: [SocketAddr; 2] = [home; 2];
    let mut stream = TcpStream::connect(home).expect("the backlog takes it");
    stream.write_all(&greeting(1)).expect("a greeting");
    let mut other = stream.try_clone().expect("a second handle");
    let to_send = bytes.to_vec();
    let hostile = std::thread::spawn(move || {
        let mut answer = [0; 18];
        other.read_exact(&mut answer).expect("node 0 answers");
        assert_eq!(answer[..], greeting(0));
        // The node's own identity is one that it understands: it comes first, header and body.
        let mut head = [0; 13];
        other.read_exact(&mut head).expect("node 0 says who it is");
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let mut identity = vec![0; len as usize];
        other.read_exact(&mut identity).expect("node 0 says who it is");
        // The node may end the connection in the middle of what is sent.
        let _ = other.write_all(&frame(head[4], &identity));
        let _ = other.write_all(&to_send);
        let _ = other.shutdown(Shutdown::Write);
        // Whatever it answers, until it ends the connection or is dropped.
        let mut sink = [0; 4096];
        while matches!(other.read(&mut sink), Ok(n) if n > 0) {}
    });
    let node = TcpFabric::connect(NodeId(0), &addresses, &listener, WINDOW_BYTES);
    let node = node.expect("the job starts");
    // Node 1 is dead once all that it sent is read.
    while node.liveness(NodeId(1)) == Liveness::Alive {
        std::thread::yield_now();
    }
    let mut window = vec![0; WINDOW_BYTES];
    node.get(NodeId(0), 0, &mut window).expect("the node itself goes on");
    drop(node);
    // The node's end of the stream is gone by now.
    let _ = stream.shutdown(Shutdown::Both);
    hostile.join().expect("the hostile node");
    window
}

static CANARY: LazyLock<()> = LazyLock::new(|| {
    let mut body = Writer::new();
    body.u64(8).raw(b"arrived!");
    let frames = [frame(PUT, &body.finish()), frame(FLUSH, &[])].concat();
    assert_eq!(&send(&frames)[8..16], b"arrived!", "canary: a put");
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    let Some((first, mut rest)) = data.split_first() else { return };
    if first % 2 == 0 {
        send(rest);
        return;
    }
    let mut frames = Vec::new();
    while let [kind, len, after @ ..] = rest {
        let (body, after) = after.split_at(usize::from(*len).min(after.len()));
        frames.extend(frame(kind % 14, body));
        rest = after;
    }
    send(&frames);
});
