//! Tests of the connections of one process.

use super::*;
use crate::process::Identity;
use std::io::Read as _;

#[test]
fn a_transfer_that_no_frame_holds_is_refused() {
    let window = 2 * BODY_BYTES_MAX;
    assert!(in_window(8, TRANSFER_BYTES_MAX, window).is_ok());
    let refused = in_window(8, BODY_BYTES_MAX, window).unwrap_err();
    assert_eq!((refused.kind(), refused.place().offset), (Kind::IllegalRequest, Some(8)));
}

#[test]
fn a_thread_waits_while_too_much_waits_for_a_peer() {
    const BLOCK: usize = 1 << 20;
    const PUTS: usize = 24;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut slow = None;
    let fabric = std::thread::scope(|s| {
        let all = [address, address];
        let listener = &listener;
        let node = s.spawn(move || TcpFabric::connect(NodeId(0), &all, listener, BLOCK).unwrap());
        let stream = slow.insert(TcpStream::connect(address).unwrap());
        let greeting = [&b"LTRLDSM3"[..], &0u64.to_le_bytes(), &1u16.to_le_bytes()].concat();
        let mut first = Writer::new();
        first.u32(32).u8(super::super::frames::IDENTITY).u64(0).raw(&Identity::own().encode());
        stream.write_all(&[greeting, first.finish()].concat()).unwrap();
        node.join().unwrap()
    });
    let mut slow = slow.unwrap();
    std::thread::scope(|s| {
        let waiting = || locked(&fabric.shared.peers[1].as_ref().unwrap().outgoing).len();
        let writer = s.spawn(|| {
            (0..PUTS).for_each(|_| fabric.put(NodeId(1), 0, &[7; BLOCK]).unwrap());
        });
        while waiting() <= QUEUE_BYTES_MAX {
            assert!(!writer.is_finished(), "all was sent and nothing waits");
            std::thread::yield_now();
        }
        for _ in 0..200 {
            let bytes = waiting();
            assert!(bytes <= QUEUE_BYTES_MAX + BLOCK + 64, "{bytes} bytes wait");
            assert!(!writer.is_finished(), "nothing holds the writer back");
            std::thread::yield_now();
        }
        let mut read = 0;
        let mut chunk = vec![0; 1 << 16];
        while read < PUTS * BLOCK {
            read += slow.read(&mut chunk).unwrap();
        }
        writer.join().unwrap();
    });
}
