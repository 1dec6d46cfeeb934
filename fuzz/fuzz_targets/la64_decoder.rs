//! Any words: decoding agrees with encoding and printing, and executing them neither leaves the
//! core's memory nor outruns its budget.
//!
//! Canary: before the first input a known word must decode to its row and zero must not decode.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_la64::device::{Core, End};
use littoral_la64::{elf, isa};

const BUDGET: u64 = 500;

static CANARY: LazyLock<()> = LazyLock::new(|| {
    let name = isa::decode(0x0010_a4c4).map(|id| id.row().mnemonic);
    assert_eq!(name, Some("add.d"), "canary: a known word");
    assert!(isa::decode(0).is_none(), "canary: no instruction");
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    let words: Vec<u32> = data.chunks_exact(4).take(64).map(word).collect();
    for &word in &words {
        let Some(id) = isa::decode(word) else {
            assert_eq!(isa::disassemble(word), None);
            continue;
        };
        let operands: Vec<i64> = isa::operands(id, word).map(i64::from).collect();
        assert_eq!(isa::encode(id, &operands), Some(word), "{}", id.row().mnemonic);
        let text = isa::disassemble(word).expect("what decodes prints");
        // binutils has names of their own for some forms of csrxchg.
        let name = id.row().mnemonic;
        assert!(text.starts_with(name) || name.ends_with("csrxchg"), "{text}: {name}");
    }
    if words.is_empty() {
        return;
    }
    let mut core = Core::load(&elf::executable(0x1_0000, &words), 1 << 18).expect("it fits");
    let outcome = core.run(core.entry(), &[0x1_0000, 0x2_0000, 8], BUDGET);
    assert!(outcome.instructions <= BUDGET);
    assert!(outcome.end != End::OutOfBudget || outcome.instructions == BUDGET);
});
