//! Any bytes: the x86-64 decoder reads no more than it is given and no more than 15, and what it
//! reads depends on nothing behind it.
//!
//! Canary: before the first input a known instruction must decode and an undefined one must not.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_xlate::x86::decode::{LEN_MAX, Undecoded, decode};

static CANARY: LazyLock<()> = LazyLock::new(|| {
    let name = decode(0, &[0x48, 0x01, 0xd8]).map(|inst| inst.row.name.clone());
    assert_eq!(name.as_deref(), Ok("add"), "canary: a known instruction");
    assert!(decode(0, &[0x06]).is_err(), "canary: no instruction");
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    let mut at = 0;
    while at < data.len() {
        let rest = &data[at..];
        let Ok(inst) = decode(at as u64, rest) else {
            at += 1;
            continue;
        };
        let len = usize::from(inst.len);
        assert!((1..=LEN_MAX.min(rest.len())).contains(&len));
        let alone = decode(at as u64, &rest[..len]).expect("the same bytes");
        assert!(alone.operands().eq(inst.operands()) && alone.row.name == inst.row.name);
        for short in 0..len {
            let early = decode(at as u64, &rest[..short]).unwrap_err();
            assert_eq!(early, Undecoded::Truncated, "{short} of {len} bytes");
        }
        assert_eq!(inst.operands().count(), inst.row.operands.len());
        at += len;
    }
});
