//! Any words: what the MIPS64 decoder makes of one keeps the row's fixed bits, prints, and names
//! registers that exist; the region that begins with the words is made, unless
//! the first word, or the delay slot of a branch there, cannot be read.
//!
//! Canary: before the first input a known word must decode to its row, an undefined one to none.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_xlate::guest::Architecture;
use littoral_xlate::mips64::Mips64;
use littoral_xlate::mips64::isa::{Field, Inst, decode};

const CODE: u64 = 0x1_0000;
const BASE: u64 = 0xf200_0000;
const WORDS_MAX: usize = 64;

static CANARY: LazyLock<()> = LazyLock::new(|| {
    let name = decode(0x0085_1021).map(|row| row.mnemonic);
    assert_eq!(name, Some("addu"), "canary: a known word");
    assert!(decode(0x7c00_003f).is_none(), "canary: no instruction");
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    let words: Vec<u32> = data.chunks_exact(4).take(WORDS_MAX).map(word).collect();
    for (n, &word) in words.iter().enumerate() {
        let Some(inst) = Inst::decode(CODE + 4 * n as u64, word) else { continue };
        assert_eq!(word & inst.row.mask, inst.row.word, "{}", inst.row.mnemonic);
        let name = if word == 0 { "nop" } else { inst.row.mnemonic };
        assert!(inst.text().starts_with(name), "{}", inst.text());
        assert!([Field::S, Field::T, Field::D].iter().all(|&f| inst.reg(f) < 32));
        assert!(!inst.writes().has(0), "register 0 is never written: {}", inst.text());
    }
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let fetch = |at: u64, buffer: &mut [u8]| {
        let rest = bytes.get(at.wrapping_sub(CODE) as usize..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        len
    };
    let region = Mips64::default().translate(CODE, BASE, &fetch);
    let entry = words.first().map(|&word| Inst::decode(CODE, word));
    let slot_missing = words.len() == 1 && entry.flatten().is_some_and(|inst| inst.is_branch());
    let readable = entry.is_some() && !slot_missing;
    assert_eq!(region.is_ok(), readable, "a word is a region, also one that is none");
    if let Ok(region) = region {
        assert!((1..=Mips64::WORDS_MAX).contains(&region.words.len()));
    }
});
