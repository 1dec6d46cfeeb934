//! Messages between ranks: bytes are refused or are a message that encodes to bytes that decode to
//! the same message.
//!
//! Canary: before the first input a message must come back, and its beginning must be refused.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_dsm::core::message::{LockId, Message, PageId, PageRun};
use littoral_dsm::core::wire::{decode, encode};

static CANARY: LazyLock<()> = LazyLock::new(|| {
    let pages = vec![PageId(3).into(), PageRun::new(PageId(9), 65_536).expect("a run")];
    let release = Message::Release { lock: LockId(7), generation: 5, pages };
    let bytes = encode(&release);
    assert_eq!(decode(&bytes).ok(), Some(release), "canary: a message comes back");
    assert!(decode(&bytes[..bytes.len() - 1]).is_err(), "canary: a part is refused");
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    let Ok(message) = decode(data) else { return };
    let bytes = encode(&message);
    assert_eq!(bytes, data, "a message has one form");
    assert_eq!(decode(&bytes).ok(), Some(message));
});
