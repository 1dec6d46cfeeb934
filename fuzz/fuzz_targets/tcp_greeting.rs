//! Greetings of strangers at the port of a job over TCP: dropped, and the job starts.
//!
//! An input is what a stranger says before the node that is waited for dials; its first byte says
//! whether the stranger stays or ends the stream. A right greeting of that node is no stranger's
//! and is left out.
//!
//! Canary: before the first input the job must start without a stranger.

#![no_main]

use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_base::units::NodeId;
use littoral_fabric::tcp::TcpFabric;
use littoral_fabric::{Fabric, SILENCE_DEFAULT};

const KEY: u64 = 0x1122_3344_5566_7788;
const GREETING_BYTES: usize = 18;

fn greeting(node: u16) -> Vec<u8> {
    [&b"LTRLDSM3"[..], &KEY.to_le_bytes(), &node.to_le_bytes()].concat()
}

fn start(stranger: Option<(&[u8], bool)>) {
    let listeners = [0; 2].map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
    let addresses = listeners.each_ref().map(|l| l.local_addr().expect("an address"));
    let said = stranger.map(|(bytes, stays)| {
        let mut stream = TcpStream::connect(addresses[0]).expect("the backlog takes it");
        stream.write_all(bytes).expect("the socket takes a greeting");
        if !stays {
            stream.shutdown(Shutdown::Write).expect("the stream is open");
        }
        stream
    });
    let join = |n: usize| {
        let (me, silence) = (NodeId(n as u16), SILENCE_DEFAULT);
        TcpFabric::connect_with_key(me, &addresses, &listeners[n], 4096, silence, KEY)
    };
    std::thread::scope(|s| {
        let second = s.spawn(|| join(1).map(|node| node.put(NodeId(0), 0, b"together")));
        let first = join(0).expect("the job starts");
        second.join().expect("node 1").expect("it joins").expect("it writes");
        drop(first);
    });
    drop(said);
}

static CANARY: LazyLock<()> = LazyLock::new(|| start(None));

/// Seeds: right greetings with one byte of the input's choice changed or cut off.
fn seeded(data: &[u8]) -> Vec<u8> {
    let [node, cut, at, byte, ..] = *data else { return data.to_vec() };
    let mut bytes = greeting(u16::from(node));
    bytes[usize::from(at) % GREETING_BYTES] = byte;
    bytes.truncate(usize::from(cut) % (GREETING_BYTES + 1));
    bytes.extend_from_slice(&data[4..]);
    bytes
}

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    let Some((first, rest)) = data.split_first() else { return };
    let bytes = if first & 2 == 0 { rest.to_vec() } else { seeded(rest) };
    if !bytes.starts_with(&greeting(1)) {
        start(Some((&bytes, first & 1 == 0)));
    }
});
