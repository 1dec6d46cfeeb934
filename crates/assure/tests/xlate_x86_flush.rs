//! Random x86-64 programs that have denormal numbers count as zeros, on the translator and on the
//! host processor; see `littoral_assure::xlate::x86`.
//!
//! - Operands are numbers around the least normal ones, and such whose products lie there.
//! - `LITTORAL_CASES_TIMES` makes more programs, as of `xlate_x86_host`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use littoral_assure::xlate::x86::Bench;
use littoral_assure::xlate::x86::child::{CODE, DATA, PAGE, Registers};
use littoral_assure::xlate::x86::programs::{Program, Random, mmx_rows, program_of, vector_rows};

/// Bits of MXCSR: denormal operands as zeros, denormal results as zeros, both.
const ZEROS: [u32; 3] = [0x40, 0x8000, 0x8040];
const MASKED: u32 = 0x1f80;

fn bench() -> Bench {
    Bench::new().expect("the host's process starts")
}

fn times() -> u64 {
    std::env::var("LITTORAL_CASES_TIMES").ok().and_then(|t| t.parse().ok()).unwrap_or(1)
}

/// A number with one of some exponents, and few, all or any bits below it.
fn number(random: &mut Random, exponents: &[u64], fraction: u32) -> u64 {
    let exponent = exponents[random.below(exponents.len() as u64) as usize];
    let mask = (1 << fraction) - 1;
    let low = match random.below(6) {
        0 => 0,
        1 => 1,
        2 => mask,
        3 => mask ^ 1,
        4 => 1 << random.below(fraction.into()),
        _ => random.draw() & mask,
    };
    exponent << fraction | low
}

/// A double, or two singles.
fn small(random: &mut Random) -> u64 {
    // The least exponents, half of them, that of one; those of doubles that are small as singles.
    const SINGLES: [u64; 9] = [0, 0, 0, 1, 2, 24, 63, 64, 127];
    const DOUBLES: [u64; 12] = [0, 0, 0, 1, 2, 53, 511, 512, 0x36a, 0x380, 0x381, 0x3ff];
    let sign = random.below(2);
    if random.one_in(2) {
        return sign << 63 | number(random, &DOUBLES, 52);
    }
    let [low, high] = [0, 0].map(|_: u64| random.below(2) << 31 | number(random, &SINGLES, 23));
    high << 32 | low
}

/// A program's registers and memory hold small numbers, its MXCSR has them count as zeros.
fn with_small_numbers(mut program: Program, random: &mut Random) -> Program {
    let vectors = &mut program.registers.vectors;
    vectors.xmm = std::array::from_fn(|_| [small(random), small(random)]);
    let zeros = ZEROS[random.below(3) as usize];
    // Sometimes exceptions that trap, but not those of denormal operands and of underflow.
    let open = if random.one_in(8) { random.draw() as u32 & 0x1680 } else { 0 };
    vectors.mxcsr = (random.below(4) as u32) << 13 | MASKED & !open | zeros;
    program.data = (0..PAGE / 8).flat_map(|_| small(random).to_le_bytes()).collect();
    program
}

#[test]
fn every_operation_flushes_as_the_host_does() {
    const PROGRAMS: u64 = 60;
    let mut bench = bench();
    let mut random = Random(19_992_012);
    let rows = vector_rows().chain(mmx_rows()).filter(|row| row.float);
    let mut texts = Vec::new();
    for row in rows {
        let before = bench.whole;
        for n in 0..PROGRAMS * times() {
            let program = program_of(&mut random, row);
            let program = with_small_numbers(program, &mut random);
            if let Some(Err(what)) = bench.check(&program, n) {
                texts.push(bench.reduced(program, n, what));
                break;
            }
        }
        assert!(bench.whole > before, "no program of {} came to its end", row.name);
    }
    assert!(texts.is_empty(), "{} rows: {}", texts.len(), texts.join("\n"));
}

/// Products and quotients of all numbers around the ends of the range of normal ones, in each
/// rounding mode: those among them that are tiny although they would be rounded to a normal number.
#[test]
fn products_at_the_least_normal_number_flush_as_on_the_host() {
    const OPERATIONS: [u8; 3] = [0x58, 0x59, 0x5e];
    const SINGLES: [u64; 8] = [
        0x0080_0000,
        0x0080_0001,
        0x007f_ffff,
        0x0000_0001,
        0x3f7f_ffff,
        0x3f7f_fffe,
        0x3f80_0001,
        0x8080_0001,
    ];
    let mut bench = bench();
    let pairs = SINGLES.into_iter().flat_map(|a| SINGLES.map(|b| (a, b)));
    for (a, b) in pairs {
        // addss, mulss or divss xmm1, xmm2, behind each the comparison of xmm1 with xmm2; int3.
        for (opcode, mode) in OPERATIONS.into_iter().flat_map(|o| (0..4u32).map(move |m| (o, m))) {
            let code = vec![0xf3, 0x0f, opcode, 0xca, 0x0f, 0x2e, 0xca, 0xcc];
            let starts = vec![CODE, CODE + 4, CODE + 7, CODE + 8];
            let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
            registers.gpr[3] = DATA;
            registers.vectors.mxcsr = MASKED | mode << 13 | ZEROS[(mode as usize + 1) % 3];
            (registers.vectors.xmm[1], registers.vectors.xmm[2]) = ([a, 7], [b, 9]);
            let data = vec![0; PAGE];
            let program = Program { code, starts, registers, data, adjust_is_open: false };
            let ended = bench.check(&program, 2);
            assert_eq!(ended, Some(Ok(())), "{opcode:x} {mode} {a:x} {b:x}");
        }
    }
    assert!(bench.whole > 0, "programs come to their ends");
}
