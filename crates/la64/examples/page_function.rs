//! A page function on a device core: counts the words of a page that are below a limit.
//!
//! The function is eight lines of LoongArch code. The core runs it over pages in its own memory,
//! with an exact count of instructions and a budget that no page can exceed. A store outside the
//! core's memory would end the run at its instruction.
//!
//! Run: `cargo run -p littoral-la64 --example page_function`
#![allow(clippy::print_stdout)] // an example prints

use littoral_la64::device::{Core, End};
use littoral_la64::{elf, isa};

const PAGE_BYTES: usize = 4096;
/// Registers by their numbers: arguments and result, temporaries, return address.
const A0: i64 = 4;
const A1: i64 = 5;
const A2: i64 = 6;
const T0: i64 = 12;
const T1: i64 = 13;
const RA: i64 = 1;

fn word(mnemonic: &str, operands: &[i64]) -> Result<u32, String> {
    let row = isa::find(mnemonic).ok_or(format!("no instruction {mnemonic}"))?;
    isa::encode(row, operands).ok_or(format!("{mnemonic} does not take {operands:?}"))
}

/// `count(page: a0, end: a1, limit: a2)`: how many 8-byte words are below the limit, unsigned.
fn count_below() -> Result<Vec<u32>, String> {
    [
        word("or", &[T0, 0, 0]),
        word("ld.d", &[T1, A0, 0]),
        word("sltu", &[T1, T1, A2]),
        word("add.d", &[T0, T0, T1]),
        word("addi.d", &[A0, A0, 8]),
        word("bne", &[A0, A1, -16]),
        word("or", &[A0, T0, 0]),
        word("jirl", &[0, RA, 0]),
    ]
    .into_iter()
    .collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut core = Core::load(&elf::executable(0x1_0000, &count_below()?), 1 << 20)?;
    let at = core.heap();
    let mut all = 0;
    for page in 0..4u64 {
        let words = (0..PAGE_BYTES as u64 / 8).map(|i| (page * 512 + i) * 2_654_435_761 % 1000);
        let words: Vec<u64> = words.collect();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        core.write(at, &bytes).ok_or("the page fits the core's memory")?;
        let outcome = core.run(core.entry(), &[at, at + PAGE_BYTES as u64, 100], 10_000);
        let below = words.iter().filter(|w| **w < 100).count() as u64;
        assert_eq!(outcome.end, End::Done(below), "the host counts the same");
        all += outcome.instructions;
        println!("page {page}: {below} words below 100, {} instructions", outcome.instructions);
    }
    println!("{} instructions per 4 KiB page (count)", all / 4);
    Ok(())
}
