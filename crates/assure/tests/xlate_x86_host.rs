//! Random x86-64 programs on the translator and on the host processor; see
//! `littoral_assure::xlate::x86`.
//!
//! - `LITTORAL_CASES_TIMES=700` makes a million programs of it; the last line of the output is
//!   `latx.fuzz.unexplained`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use littoral_assure::xlate::x86::child::{CODE, DATA, PAGE, Registers};
use littoral_assure::xlate::x86::programs::{
    Program, Random, accesses, carry_rows, comparisons, flag_rows, mmx_rows, program, program_of,
    rows_named, vector_rows, x87_rows,
};
use littoral_assure::xlate::x86::{self, Bench, Verdict, WINDOW_LEN, describe, layout, translated};
use littoral_la64::interp::{Cache, Cpu, Features, Tier};
use littoral_la64::memory::Memory;
use littoral_xlate::engine::Engine;
use littoral_xlate::event::Event;
use littoral_xlate::x86::float::Vectors;
use littoral_xlate::x86::isa::Row;
use littoral_xlate::x86::registers::Machine;
use littoral_xlate::x86::{Conventions, X86};
use std::sync::atomic::AtomicBool;

fn bench() -> Bench {
    Bench::new().expect("the host's process starts")
}

/// One whose programs run without LBT.
fn plain_bench() -> Bench {
    Bench { without_lbt: true, ..bench() }
}

fn judge(seed: u64, programs: u64, make: fn(&mut Random) -> Program) -> Verdict {
    x86::judge(seed, programs, make).expect("the host's process starts")
}

/// `LITTORAL_CASES_TIMES`.
fn times() -> u64 {
    std::env::var("LITTORAL_CASES_TIMES").ok().and_then(|t| t.parse().ok()).unwrap_or(1)
}

/// Programs of each row; the first that differs of each is described.
fn judge_rows(
    mut bench: Bench,
    seed: u64,
    programs: u64,
    rows: impl Iterator<Item = &'static Row>,
) {
    let mut random = Random(seed);
    let mut wrong = Vec::new();
    for (n, row) in rows.enumerate() {
        let before = bench.whole;
        for m in 0..programs * times() {
            let program = program_of(&mut random, row);
            let is_known = wrong.last().is_some_and(|(last, _)| *last == n);
            if let Some(Err(what)) = bench.check(&program, m)
                && !is_known
            {
                wrong.push((n, bench.reduced(program, m, what)));
            }
        }
        assert!(bench.whole > before, "no program of {} came to its end", row.name);
    }
    let texts: Vec<_> = wrong.into_iter().map(|(_, what)| what).collect();
    assert!(texts.is_empty(), "{} rows: {}", texts.len(), texts.join("\n"));
}

#[test]
fn every_x87_instruction_ends_as_on_the_host() {
    judge_rows(bench(), 19_800_087, 100, x87_rows());
}

/// A product just below the smallest normal number that rounding makes that number: the processor
/// calls a result tiny after it was rounded, so it neither underflows nor waits for an event.
#[test]
fn results_that_rounding_makes_normal_do_not_underflow() {
    // fninit; fldcw [rbx + 48]; fld tbyte [rbx]; fmul dword [rbx + 16]; fwait; fnstsw ax;
    // fstp tbyte [rbx + 32]; int3
    const CODE_OF: [u8; 17] = [
        0xdb, 0xe3, 0xd9, 0x6b, 0x30, 0xdb, 0x2b, 0xd8, 0x4b, 0x10, 0x9b, 0xdf, 0xe0, 0xdb, 0x7b,
        0x20, 0xcc,
    ];
    // All ones, ones down to the last bit of a double, of a single, and one that stays tiny.
    const SIGNIFICANDS: [u64; 4] =
        [u64::MAX, u64::MAX << 10, u64::MAX << 39, 0x8000_0000_0000_0001];
    let mut bench = bench();
    // Every precision and rounding, with underflow masked and not.
    let controls = (0..16u16).flat_map(|n| [0x3f, 0x2f].map(|masks| n << 8 | masks));
    for (control, m) in controls.flat_map(|c| SIGNIFICANDS.map(|m| (c, m))) {
        for sign in [0, 0x8000u16] {
            let mut data = vec![0; PAGE];
            data[0x100..0x108].copy_from_slice(&m.to_le_bytes());
            data[0x108..0x10a].copy_from_slice(&(sign | 1).to_le_bytes());
            data[0x110..0x114].copy_from_slice(&0.5f32.to_le_bytes());
            data[0x130..0x132].copy_from_slice(&control.to_le_bytes());
            let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
            registers.gpr[3] = DATA + 0x100;
            registers.vectors.mxcsr = 0x1f80;
            let starts = vec![CODE, CODE + CODE_OF.len() as u64];
            let code = CODE_OF.to_vec();
            let program = Program { code, starts, registers, data, adjust_is_open: false };
            let ended = bench.check(&program, 1);
            assert_eq!(ended, Some(Ok(())), "{control:x} {sign:x} {m:x}");
        }
    }
    assert!(bench.whole > 0, "programs come to their ends");
}

#[test]
fn every_mmx_instruction_ends_as_on_the_host() {
    judge_rows(bench(), 19_970_108, 40, mmx_rows());
}

/// Accesses whose logic leaves the adjust flag as the manual allows.
fn open_accesses(random: &mut Random) -> Program {
    Program { adjust_is_open: true, ..accesses(random) }
}

/// The processor has no LBT here, so an instruction of LBT would be an unknown one.
#[test]
fn every_flag_without_lbt_is_the_hosts() {
    judge_rows(plain_bench(), 4_004, 20, flag_rows());
    for (seed, programs, make) in [
        (40_041, 800, program as fn(&mut Random) -> Program),
        (40_042, 1500, comparisons),
        (40_043, 300, open_accesses),
    ] {
        let Verdict { compared, different, first, .. } =
            x86::judge_on(plain_bench(), seed, programs * times(), make);
        println!("without LBT: {different} of {compared} programs differ");
        assert_eq!(different, 0, "{}", first.join("\n"));
        assert!(compared > programs / 4, "{compared} programs compared");
    }
}

/// Random programs with the trap flag set: where both stop, and with which registers.
#[test]
fn programs_that_step_stop_as_on_the_host() {
    const STRINGS: [&str; 5] = ["movs", "cmps", "stos", "lods", "scas"];
    let mut bench = bench();
    for (seed, programs, make) in [
        (17_001, 250, program as fn(&mut Random) -> Program),
        (17_002, 150, comparisons),
        (17_003, 100, open_accesses),
    ] {
        let (mut random, mut compared) = (Random(seed), 0);
        for n in 0..programs * times() {
            let program = make(&mut random);
            match bench.check_steps(&program, n) {
                None => {}
                Some(Ok(())) => compared += 1,
                Some(Err(what)) => panic!("{}", describe(&program, n, &what)),
            }
        }
        assert!(compared > programs / 4, "{compared} programs compared");
    }
    // Strings, whose repetitions are stops.
    let mut random = Random(17_004);
    for (n, row) in (0..20 * times()).flat_map(|n| rows_named(&STRINGS).map(move |row| (n, row))) {
        let program = program_of(&mut random, row);
        if let Some(Err(what)) = bench.check_steps(&program, n) {
            panic!("{}", describe(&program, n, &what));
        }
    }
    let (whole, stops) = (bench.whole, bench.stops);
    println!("{stops} stops compared; {whole} programs came to their ends");
    assert!(whole > 50 && stops > 20 * whole, "{stops} stops in {whole} whole programs");
}

#[test]
fn every_vector_instruction_ends_as_on_the_host() {
    judge_rows(bench(), 19_992_001, 12, vector_rows());
}

/// Operations of SSE3 and SSE4.1 that are several of LA64: NaNs, rounding modes, exceptions that
/// are not masked.
#[test]
fn floats_of_several_operations_end_as_on_the_host() {
    const STEMS: [&str; 12] = [
        "addsubps", "addsubpd", "haddps", "haddpd", "hsubps", "hsubpd", "roundps", "roundpd",
        "roundss", "roundsd", "dpps", "dppd",
    ];
    judge_rows(bench(), 20_070_128, 150, rows_named(&STEMS));
}

/// Products and quotients beyond the range, exact ones and others, with overflow not masked: the
/// program learns whether they would be inexact with a greater exponent.
#[test]
fn products_and_quotients_far_beyond_the_range_raise_what_the_hosts_do() {
    const OVERFLOW_NOT_MASKED: u32 = 0x1b80;
    /// Bits of fraction and of the exponent's bias.
    const FORMATS: [(u8, u32, u64); 2] = [(0xf3, 23, 127), (0xf2, 52, 1023)];
    const FRACTIONS: [u64; 3] = [0, 1, 5];
    let mut bench = bench();
    for (prefix, fraction, bias) in FORMATS {
        // The least and the greatest number, and some between them, denormal ones too.
        let exponents = [0, 1, 40, bias / 2, bias, bias + bias / 2 + 1, 2 * bias];
        let values = || exponents.iter().flat_map(|e| FRACTIONS.map(|f| e << fraction | f << 3));
        for (a, b, opcode) in values()
            .flat_map(|a| values().map(move |b| (a, b)))
            .flat_map(|(a, b)| [0x59, 0x5e].map(|opcode| (a, b, opcode)))
        {
            // mulss or divss xmm1, xmm2, or those of doubles; int3
            let code = vec![prefix, 0x0f, opcode, 0xca, 0xcc];
            let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
            registers.vectors.mxcsr = OVERFLOW_NOT_MASKED;
            (registers.vectors.xmm[1], registers.vectors.xmm[2]) = ([a, 7], [b, 9]);
            let starts = vec![CODE, CODE + code.len() as u64];
            let data = vec![0; PAGE];
            let program = Program { code, starts, registers, data, adjust_is_open: false };
            let ended = bench.check(&program, 2);
            assert_eq!(ended, Some(Ok(())), "{prefix:x} {opcode:x} {a:x} {b:x}");
        }
    }
    assert!(bench.whole > 0, "programs come to their ends");
}

/// crc32 of every width; ptest, whose flags something reads; the same without LBT.
#[test]
fn checksums_and_tests_of_bits_end_as_on_the_host() {
    judge_rows(bench(), 20_081_117, 60, rows_named(&["crc32", "ptest"]));
    judge_rows(plain_bench(), 20_081_118, 30, rows_named(&["crc32", "ptest"]));
    let mut bench = bench();
    // crc32 eax, cx; crc32 rax, rcx; crc32 rax, cl; crc32 ecx, word [rbx]; int3
    let code = vec![
        0x66, 0xf2, 0x0f, 0x38, 0xf1, 0xc1, 0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xc1, 0xf2, 0x48, 0x0f,
        0x38, 0xf0, 0xc1, 0x66, 0xf2, 0x0f, 0x38, 0xf1, 0x0b, 0xcc,
    ];
    let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
    registers.gpr[..4].copy_from_slice(&[u64::MAX - 5, 0x0123_4567_89ab_cdef, 7, DATA + 0x101]);
    registers.vectors.mxcsr = 0x1f80;
    let starts = vec![CODE, CODE + code.len() as u64];
    let data = (0..PAGE).map(|n| n as u8).collect();
    let program = Program { code, starts, registers, data, adjust_is_open: false };
    assert_eq!(bench.check(&program, 1), Some(Ok(())));
    assert_eq!(bench.whole, 1, "it came to its end");
}

/// Vectors with the same bits in ptest's operands, none, some; and what is read of its flags.
#[test]
fn tests_of_equal_and_empty_vectors_set_the_hosts_flags() {
    const VALUES: [[u64; 2]; 5] = [[0, 0], [5, 0], [0, 5], [u64::MAX, u64::MAX], [4, 1 << 63]];
    for mut bench in [bench(), plain_bench()] {
        for (a, b) in VALUES.into_iter().flat_map(|a| VALUES.map(|b| (a, b))) {
            // ptest xmm1, xmm2; seta al; setc cl; sete dl; int3, which shows all flags.
            let code = vec![
                0x66, 0x0f, 0x38, 0x17, 0xca, 0x0f, 0x97, 0xc0, 0x0f, 0x92, 0xc1, 0x0f, 0x94, 0xc2,
                0xcc,
            ];
            let mut registers = Registers { rip: CODE, flags: 0x8d7, ..Registers::default() };
            registers.vectors.mxcsr = 0x1f80;
            (registers.vectors.xmm[1], registers.vectors.xmm[2]) = (a, b);
            let starts = vec![CODE, CODE + code.len() as u64];
            let data = vec![0; PAGE];
            let program = Program { code, starts, registers, data, adjust_is_open: false };
            assert_eq!(bench.check(&program, 1), Some(Ok(())), "{a:x?} {b:x?}");
        }
    }
}

/// xmm0 says which elements are blended, though no operand names it: nothing of it is dead before,
/// whether a load clears its upper half, a move from a general register, or a sum keeps it.
#[test]
fn the_mask_of_a_blend_is_read_whole() {
    let mut bench = bench();
    // movsd xmm0, [rbx]; movq xmm0, rbx; addsd xmm0, [rbx]
    let writes: [&[u8]; 3] =
        [&[0xf2, 0x0f, 0x10, 0x03], &[0x66, 0x48, 0x0f, 0x6e, 0xc3], &[0xf2, 0x0f, 0x58, 0x03]];
    // pblendvb, blendvps, blendvpd
    for (opcode, before) in [0x10, 0x14, 0x15].into_iter().flat_map(|o| writes.map(|w| (o, w))) {
        // The blend of xmm1 with xmm2; movups [rbx + 32], xmm1; xorps xmm0, xmm0; xorps xmm1, xmm1;
        // int3
        let behind = [
            0x66, 0x0f, 0x38, opcode, 0xca, 0x0f, 0x11, 0x4b, 0x20, 0x0f, 0x57, 0xc0, 0x0f, 0x57,
            0xc9, 0xcc,
        ];
        let code = [before, &behind].concat();
        let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
        registers.gpr[3] = DATA + 0x100;
        registers.vectors.mxcsr = 0x1f80;
        registers.vectors.xmm[0] = [0, u64::MAX];
        registers.vectors.xmm[1] = [1, 2];
        registers.vectors.xmm[2] = [3, 4];
        let starts = vec![CODE, CODE + code.len() as u64];
        let data = vec![0x85; PAGE];
        let program = Program { code, starts, registers, data, adjust_is_open: false };
        assert_eq!(bench.check(&program, 1), Some(Ok(())), "{opcode:x} behind {before:x?}");
    }
}

/// pcmpestri, pcmpestrm, pcmpistri and pcmpistrm with each of their numbers, on strings of few
/// letters, with lengths around those of the vectors. Half of them show all flags, the others a
/// condition.
#[test]
fn comparisons_of_strings_end_as_on_the_host() {
    const LENGTHS: [u64; 12] =
        [0, 1, 3, 7, 8, 9, 15, 16, 17, u64::MAX, 1 << 63 | 5, 0xffff_fff3_8000_0000];
    let mut random = Random(20_081_119);
    for mut bench in [bench(), plain_bench()] {
        for (opcode, control) in (0x60..0x64u8).flat_map(|o| (0..128u8).map(move |c| (o, c))) {
            for n in 0..6 * times() {
                // With REX.W now and then: lengths of 64 bits.
                let wide: &[u8] = if random.one_in(3) { &[0x48] } else { &[] };
                let memory = random.one_in(4);
                let operands = if memory { 0x4b } else { 0xca };
                let tail: &[u8] = if memory { &[3, control] } else { &[control] };
                // setcc al; cmp edx, edx: only the condition's flags are read.
                let reads = [0x0f, 0x90 | random.below(16) as u8, 0xc0, 0x39, 0xd2];
                let reads: &[u8] = if random.one_in(2) { &reads } else { &[] };
                let head = [0x0f, 0x3a, opcode, operands];
                let code = [&[0x66], wide, &head, tail, reads, &[0xcc]].concat();
                let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
                registers.vectors.mxcsr = 0x1f80;
                registers.gpr[3] = DATA + 0x100;
                for register in [0, 2] {
                    registers.gpr[register] = LENGTHS[random.below(12) as usize];
                }
                // Words are letters too, with a byte of zeros or ones above.
                let above = [0, 0xff][random.below(2) as usize] * u64::from(control & 1);
                let mut letters = |n: u64| {
                    let letter = |n: u64| if n == 0 { 0 } else { 0x7e + n };
                    let byte = |random: &mut Random, k: u32| match (control & 1, k % 2) {
                        (1, 1) => above,
                        _ if random.one_in(n) => 0,
                        _ => letter(1 + random.below(4)),
                    };
                    (0..8).fold(0, |all, k| all | byte(&mut random, k) << (8 * k))
                };
                for xmm in [1, 2] {
                    registers.vectors.xmm[xmm] = [letters(20), letters(6)];
                }
                let mut data = vec![0; PAGE];
                for (n, half) in [letters(20), letters(6)].into_iter().enumerate() {
                    data[0x103 + 8 * n..][..8].copy_from_slice(&half.to_le_bytes());
                }
                let starts = vec![CODE, CODE + code.len() as u64];
                let program = Program { code, starts, registers, data, adjust_is_open: false };
                if let Some(Err(what)) = bench.check(&program, n) {
                    panic!("{opcode:x} by {control:x}: {}", describe(&program, n, &what));
                }
            }
        }
        assert!(bench.whole > 0, "programs come to their ends");
    }
}

#[test]
fn a_register_is_tested_again_when_it_was_written() {
    let mut bench = bench();
    // movaps xmm0, [rbx]; another address in rbx; movaps xmm1, [rbx + 32]; int3
    let first = [0x0f, 0x28, 0x03];
    let last = [0x0f, 0x28, 0x4b, 0x20, 0xcc];
    let writes: [&[u8]; 4] = [
        // lea rbx, [rbx + 8]; movq rbx, xmm2; pextrw ebx, xmm2, 0; pslldq xmm2, 8
        &[0x48, 0x8d, 0x5b, 0x08],
        &[0x66, 0x48, 0x0f, 0x7e, 0xd3],
        &[0x66, 0x0f, 0xc5, 0xda, 0x00],
        &[0x66, 0x0f, 0x73, 0xfa, 0x08],
    ];
    for (n, write) in writes.into_iter().enumerate() {
        let code = [&first, write, &last].concat();
        let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
        registers.gpr[3] = DATA + 0x100;
        registers.vectors.xmm[2] = [DATA + 0x108, 0];
        let starts = vec![CODE, CODE + code.len() as u64];
        let program =
            Program { code, starts, registers, data: vec![5; PAGE], adjust_is_open: false };
        let whole = bench.whole;
        assert_eq!(bench.check(&program, 1), Some(Ok(())), "{n}");
        assert_eq!(bench.whole > whole, n == 3, "only the last one is aligned again");
    }
    // movaps xmm0, [rcx]; pcmpistri xmm2, xmm3, 0; movaps xmm1, [rcx + 32]; int3
    let code =
        [0x0f, 0x28, 0x01, 0x66, 0x0f, 0x3a, 0x63, 0xd3, 0, 0x0f, 0x28, 0x49, 0x20, 0xcc].to_vec();
    let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
    registers.gpr[1] = DATA + 0x100;
    (registers.vectors.xmm[2], registers.vectors.xmm[3]) = ([5, 0], [0x0504_0302, 0]);
    let starts = vec![CODE, CODE + code.len() as u64];
    let program = Program { code, starts, registers, data: vec![5; PAGE], adjust_is_open: false };
    let whole = bench.whole;
    assert_eq!(bench.check(&program, 1), Some(Ok(())), "the place is no aligned address");
    assert_eq!(bench.whole, whole);
}

/// Where the processors of the two makers go different ways, a program is compared only if the host
/// goes the translator's.
#[test]
fn stores_that_raise_and_fault_are_set_aside_by_the_hosts_rule() {
    let mut bench = bench();
    let mut check = |code: &[u8], control: u64| {
        let (code, mut registers) = (code.to_vec(), Registers::default());
        (registers.rip, registers.flags, registers.vectors.mxcsr) = (CODE, 0x202, 0x1f80);
        // Missing memory for the store, and another place of it for what follows.
        (registers.gpr[3], registers.gpr[6]) = (WINDOW_LEN, WINDOW_LEN + 0x1_0000);
        (registers.gpr[7], registers.x87[0]) = (WINDOW_LEN, control);
        registers.x87[5] = u64::MAX;
        let starts = vec![CODE, CODE + code.len() as u64];
        let program =
            Program { code, starts, registers, data: vec![5; PAGE], adjust_is_open: false };
        bench.check(&program, 0)
    };
    // fstp dword [rbx] of an empty register, masked or not; mov rax, [rsi]; int3
    let store = [0xd9, 0x1b, 0x48, 0x8b, 0x06, 0xcc];
    assert_eq!(check(&store, 0x37f), Some(Ok(())), "both fault at the store");
    let unmasked = check(&store, 0x37e);
    // maskmovq mm0, mm1; int3
    assert_eq!(check(&[0x0f, 0xf7, 0xc1, 0xcc], 0x37f), None, "the top of a store that faults");
    let expected = if bench.rules.stores_fault_first { None } else { Some(Ok(())) };
    assert_eq!(unmasked, expected);
}

/// Functions that no fraction gives: within one unit of the last place, and all flags equal but
/// the direction of the rounding, and underflow where the neighbours are denormal.
#[test]
fn transcendental_functions_are_near_the_hosts() {
    const C1: u64 = 0x200 << 16;
    const UNDERFLOW: u64 = 0x10 << 16;
    let codes: [u8; 8] = [0xfe, 0xff, 0xfb, 0xf2, 0xf3, 0xf0, 0xf1, 0xf9];
    let mut bench = bench();
    let mut random = Random(271_828);
    let (mut equal, mut near, mut wrong) = (0, 0, Vec::new());
    for n in 0..4000 * times() {
        let mut program = program(&mut random);
        let code = codes[(n % 8) as usize];
        program.code = vec![0xd9, code, 0xcc];
        program.registers.rip = CODE;
        let exp = program.registers.x87[4] & 0x7fff;
        // Beyond its range the manual leaves the result open.
        if code == 0xf0 && exp >= 0x3fff || code == 0xf9 && exp >= 0x3ffd {
            continue;
        }
        let is_of_angle = matches!(code, 0xfe | 0xff | 0xfb | 0xf2);
        if is_of_angle && exp >= 0x3ffe && !bench.rules.reduces_as_here {
            continue;
        }
        let theirs = bench.host.run(&program.code, &program.data, &program.registers);
        let way = Conventions::default();
        let (ours, _) = translated(bench.window, &program, Tier::Blocks, u64::MAX, way);
        let [a, b] = [ours.registers.x87, theirs.registers.x87].map(|x87| bench.rules.mask(x87));
        // Neighbours in another binade are near too.
        let place =
            |w: &[u64; 19], n: usize| u128::from(w[n + 1]) << 63 | u128::from(w[n] & !(1 << 63));
        let is_near =
            |n: usize| a[n..n + 2] == b[n..n + 2] || place(&a, n).abs_diff(place(&b, n)) == 1;
        // A denormal result that one has exactly underflows only at the other.
        let is_denormal = |w: &[u64; 19], n: usize| w[n + 1] & 0x7fff == 0;
        let is_tiny =
            (3..19).step_by(2).any(|n| a[n] != b[n] && (is_denormal(&a, n) || is_denormal(&b, n)));
        let open = if is_tiny { C1 | UNDERFLOW } else { C1 };
        if (a[0] ^ b[0]) & !open != 0 || !(3..19).step_by(2).all(is_near) {
            let begin = program.registers.x87;
            wrong.push(format!("d9 {code:x}: {begin:x?}\n{a:x?} not\n{b:x?}"));
        } else if a[3..] == b[3..] {
            equal += 1;
        } else {
            near += 1;
        }
    }
    println!("x87.transcendental: {equal} equal, {near} differ by one unit, {}", wrong.len());
    assert!(
        wrong.is_empty(),
        "{} differ: {}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
}

/// Whether an approximation is the host's: within the bound of both, or the same where there is no
/// bound.
fn approximates(ours: u32, host: u32) -> bool {
    // 1.5 / 2^12 is each one's own relative error.
    const BOUND: f64 = 3.0 / 4096.0;
    let (x, y) = (f32::from_bits(ours), f32::from_bits(host));
    if !y.is_normal() {
        return ours == host;
    }
    (f64::from(x) / f64::from(y) - 1.0).abs() <= BOUND
}

#[test]
fn approximations_stay_within_the_manuals_bound() {
    // rcpps xmm1, xmm0; rsqrtps xmm2, xmm0; rcpss xmm3, [rbx]; rsqrtss xmm4, xmm0; int3
    let code = vec![
        0x0f, 0x53, 0xc8, 0x0f, 0x52, 0xd0, 0xf3, 0x0f, 0x53, 0x1b, 0xf3, 0x0f, 0x52, 0xe0, 0xcc,
    ];
    let mut bench = bench();
    let mut random = Random(12);
    for n in 0..400 * times() {
        let mut program = program(&mut random);
        program.code.clone_from(&code);
        program.registers.gpr[3] = DATA + 0x100;
        program.registers.vectors.mxcsr |= 0x1f80;
        let theirs = bench.host.run(&program.code, &program.data, &program.registers);
        let (ours, _) =
            translated(bench.window, &program, Tier::Blocks, u64::MAX, Conventions::default());
        let (v, w) = (ours.registers.vectors, theirs.registers.vectors);
        assert_eq!((v.mxcsr, theirs.signal), (w.mxcsr, 5), "program {n}");
        let lanes = |v: &Vectors| {
            let words = |&d: &u64| [d as u32, (d >> 32) as u32];
            v.xmm.iter().flatten().flat_map(words).collect::<Vec<u32>>()
        };
        let (v, w) = (lanes(&v), lanes(&w));
        for (lane, (&a, &b)) in v.iter().zip(&w).enumerate() {
            let begin = program.registers.vectors.xmm[0];
            let is_new = (4..20).contains(&lane) && a != b;
            assert!(a == b || is_new && approximates(a, b), "{n}, {lane}: {a:x} {b:x} {begin:x?}");
        }
    }
}

#[test]
fn random_programs_end_as_on_the_host() {
    let Verdict { compared, aside, different, first } = judge(20_211_231, 1500 * times(), program);
    println!("latx.fuzz.unexplained = {different} of {compared} programs; {aside} set aside");
    assert_eq!(different, 0, "{}", first.join("\n"));
    assert!(compared > 500, "{compared} programs compared, {aside} set aside");
}

#[test]
fn sums_with_a_carry_end_as_on_the_host() {
    let mut bench = bench();
    let mut random = Random(1_248);
    let mut wrong = Vec::new();
    for row in carry_rows() {
        for n in 0..100 * times() {
            let program = program_of(&mut random, row);
            if let Some(Err(what)) = bench.check(&program, n) {
                wrong.push(bench.reduced(program, n, what));
            }
        }
    }
    assert!(bench.whole > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn accesses_with_far_displacements_end_as_on_the_host() {
    let Verdict { compared, different, first, .. } = judge(9_011, 2000 * times(), accesses);
    assert_eq!(different, 0, "{}", first.join("\n"));
    assert!(compared > 1500, "{compared} programs compared");
}

#[test]
fn comparisons_and_their_readers_end_as_on_the_host() {
    let Verdict { compared, different, first, .. } = judge(77_421, 3000 * times(), comparisons);
    assert_eq!(different, 0, "{}", first.join("\n"));
    assert!(compared > 2000, "{compared} programs compared");
}

/// fld1; fldz; fdivp, which divides by zero and is not masked; then a conversion from memory, which
/// names no register of MMX, or from a register.
#[test]
fn only_what_names_a_register_of_mmx_waits_for_x87() {
    const ZERO_NOT_MASKED: u64 = 0x37b;
    const DIVISION: [u8; 6] = [0xd9, 0xe8, 0xd9, 0xee, 0xde, 0xf9];
    let mut bench = bench();
    // cvtpi2ps and cvtpi2pd.
    for (prefix, operand) in [&[][..], &[0x66]].into_iter().flat_map(|p| [(p, 0x03), (p, 0xc0)]) {
        let code = [&DIVISION[..], prefix, &[0x0f, 0x2a, operand, 0xcc]].concat();
        let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
        registers.gpr[3] = DATA + 0x100;
        registers.vectors.mxcsr = 0x1f80;
        registers.x87[0] = ZERO_NOT_MASKED;
        let starts = vec![CODE, CODE + code.len() as u64];
        let program =
            Program { code, starts, registers, data: vec![5; PAGE], adjust_is_open: false };
        let whole = bench.whole;
        assert_eq!(bench.check(&program, 1), Some(Ok(())), "{prefix:x?} {operand:x}");
        assert_eq!(bench.whole > whole, operand == 0x03, "a register waits, memory does not");
    }
}

/// A comparison of scalars, what reads its condition, and a comparison that sets all flags again:
/// `reader` is the opcode of a branch, `setcc` or `cmovcc`.
fn float_comparison(opcode: &[u8], memory: bool, reader: &[u8], pair: [u64; 2]) -> Program {
    let operand = [if memory { 0x03 } else { 0xc1 }];
    let behind: &[u8] = match reader {
        // Over mov r8d, 1.
        [_] => &[6, 0x41, 0xb8, 1, 0, 0, 0],
        // Of al, or of eax and ecx.
        [_, code] if *code >= 0x90 => &[0xc0],
        _ => &[0xc1],
    };
    // cmp rcx, rdx; int3
    let code = [opcode, &operand, reader, behind, &[0x48, 0x39, 0xd1, 0xcc]].concat();
    let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
    registers.gpr[..4].copy_from_slice(&[0x55, 0xaa, 7, DATA + 0x100]);
    registers.vectors.mxcsr = 0x1f80;
    registers.vectors.xmm[0] = [pair[0], 0];
    registers.vectors.xmm[1] = [pair[1], 0];
    let mut data = vec![0; PAGE];
    data[0x100..0x108].copy_from_slice(&pair[1].to_le_bytes());
    let starts = vec![CODE, CODE + code.len() as u64];
    Program { code, starts, registers, data, adjust_is_open: false }
}

#[test]
fn float_comparisons_keep_the_order_of_their_operands() {
    for without_lbt in [false, true] {
        judge_float_comparisons(Bench { without_lbt, ..bench() });
    }
}

fn judge_float_comparisons(mut bench: Bench) {
    // Above, not below and their kin, equality, parity: what two numbers tell.
    const CONDITIONS: [u8; 8] = [2, 3, 4, 5, 6, 7, 10, 11];
    const NUMBERS: [f64; 5] = [1.0, 2.0, -1.0, f64::INFINITY, f64::NAN];
    let pairs = || NUMBERS.into_iter().flat_map(|a| NUMBERS.map(|b| (a, b)));
    // ucomiss, ucomisd, comiss, comisd.
    let stems: [&[u8]; 4] =
        [&[0x0f, 0x2e], &[0x66, 0x0f, 0x2e], &[0x0f, 0x2f], &[0x66, 0x0f, 0x2f]];
    for (stem, condition) in stems.into_iter().flat_map(|s| CONDITIONS.map(|c| (s, c))) {
        let readers: [&[u8]; 3] =
            [&[0x70 | condition], &[0x0f, 0x90 | condition], &[0x0f, 0x40 | condition]];
        for (reader, memory) in readers.into_iter().flat_map(|r| [(r, false), (r, true)]) {
            for (a, b) in pairs() {
                let bits = |x: f64| match stem.len() {
                    2 => u64::from((x as f32).to_bits()),
                    _ => x.to_bits(),
                };
                let program = float_comparison(stem, memory, reader, [bits(a), bits(b)]);
                let result = bench.check(&program, 1).expect("it reaches no other memory");
                let of = format!("{stem:x?} {reader:x?} of {a} and {b}, in memory: {memory}");
                assert_eq!(result, Ok(()), "{of}");
            }
        }
    }
    assert_eq!(bench.whole, 4 * 8 * 6 * 25, "every program came to its end");
}

/// Slices are longer than the code that counts, so each of them comes further.
#[test]
fn a_count_does_not_depend_on_where_a_program_stops() {
    const COUNTING: u64 = 6;
    const PROGRAMS: u64 = 100;
    let mut bench = bench();
    let mut random = Random(20_261_123);
    let conventions = Conventions { counts: true, ..Conventions::default() };
    let (mut early, mut aside) = (0, 0);
    for n in 0..PROGRAMS * times() {
        let program = program(&mut random);
        // A program that leaves its pages here, as a long `rep movs` does, overwrites the code that
        // is made of it and may never end.
        let theirs = bench.host.run(&program.code, &program.data, &program.registers);
        if theirs.leaves_its_pages() {
            aside += 1;
            continue;
        }
        let count =
            |slice| translated(bench.window, &program, Tier::Interpreter, slice, conventions);
        let (whole, expected) = count(u64::MAX);
        let (sliced, found) = count(COUNTING + 1 + n % 9);
        // It wrote to the translator's own memory, which is not protected here.
        if sliced.event != whole.event {
            aside += 1;
            continue;
        }
        assert_eq!(found, expected, "{}", describe(&program, n, "counts"));
        early += u64::from(!matches!(whole.event, Event::Break(_)));
    }
    let programs = PROGRAMS * times();
    assert!(early > programs / 10, "programs end by faults too: {early}");
    assert!(aside < programs / 20, "most programs are compared: {aside} are not");
}

/// Behind an instruction that runs outside translated code, control enters the same region again.
#[test]
fn instructions_outside_translated_code_leave_one_region() {
    // fld1; fstp st0; stmxcsr [rdi]; cpuid; mov [rdi], eax.
    let round = [0xd9, 0xe8, 0xdd, 0xd8, 0x0f, 0xae, 0x1f, 0x0f, 0xa2, 0x89, 0x07];
    let window = Memory::leaked(WINDOW_LEN);
    let code = [round.repeat(20), vec![0xcc]].concat();
    assert!(window.write(CODE, &code).is_some(), "the program lies in the window");
    let engine = Engine::new(layout(), X86(Conventions::default()));
    let mut cpu = Cpu::new(window, Features::ALL);
    engine.prepare(&mut cpu.state);
    let mut machine = Machine { rip: CODE, flags: 0x202, ..Machine::default() };
    machine.gpr[7] = DATA;
    machine.write(&mut cpu.state);
    let executable = |pc: u64| (CODE..CODE + PAGE as u64).contains(&pc);
    let mut cache = Cache::new(Tier::Blocks);
    let never = AtomicBool::new(false);
    let event = engine.run((&mut cpu, &mut cache), &executable, &never, 100_000);
    assert_eq!((event, cpu.state.pc), (Event::Break(3), CODE + code.len() as u64 - 1));
    assert_eq!(engine.figures().regions_count, 1);
}

/// An operation of the accumulator and rcx, of each size, with and without a carry from before, on
/// numbers at the ends of their ranges; it leaves its flags at the end.
#[test]
fn sums_at_the_ends_of_ranges_have_the_hosts_flags() {
    const OPCODES: [u8; 5] = [0x00, 0x10, 0x18, 0x28, 0x38];
    let sizes: [(&[u8], u8, u32); 4] =
        [(&[], 0, 8), (&[0x66], 1, 16), (&[], 1, 32), (&[0x48], 1, 64)];
    let numbers = |bits: u32| {
        let least = 1u64 << (bits - 1);
        [0, 1, least - 1, least, (least - 1) << 1 | 1]
    };
    for mut bench in [bench(), plain_bench()] {
        for (opcode, (prefix, wide, bits)) in
            OPCODES.into_iter().flat_map(|o| sizes.map(|s| (o, s)))
        {
            let code = [prefix, &[opcode | wide, 0xc8, 0xcc]].concat();
            let pairs = numbers(bits).map(|a| numbers(bits).map(|b| (a, b))).concat();
            for ((a, b), carry) in pairs.into_iter().flat_map(|p| [(p, 0), (p, 1)]) {
                let mut registers =
                    Registers { rip: CODE, flags: 0x202 | carry, ..Registers::default() };
                (registers.gpr[0], registers.gpr[1]) = (a, b);
                let starts = vec![CODE, CODE + code.len() as u64];
                let (code, data) = (code.clone(), vec![0; PAGE]);
                let program = Program { code, starts, registers, data, adjust_is_open: false };
                let result = bench.check(&program, 1).expect("it reaches no memory");
                assert_eq!(result, Ok(()), "{opcode:x} of {bits} bits: {a:x} {b:x} {carry}");
            }
        }
    }
}

/// A rotation of the accumulator by cl, then the carry in r8: `group` is the code of the rotation.
fn rotation(size: usize, group: u8, count: u8) -> Program {
    let prefix: &[u8] = [&[][..], &[0x66], &[], &[0x48]][size];
    let opcode = if size == 0 { 0xd2 } else { 0xd3 };
    let code = [
        &[0xb9, count, 0, 0, 0][..],
        prefix,
        &[opcode, 0xc0 | group << 3],
        // setc r8b; cmp rcx, rdx, which sets what the rotation leaves undefined.
        &[0x41, 0x0f, 0x92, 0xc0, 0x48, 0x39, 0xd1, 0xcc],
    ]
    .concat();
    let mut registers = Registers { rip: CODE, flags: 0x203, ..Registers::default() };
    registers.gpr[0] = 0x0123_4567_89ab_cd6e;
    let starts = vec![CODE, CODE + code.len() as u64];
    Program { code, starts, registers, data: vec![0; PAGE], adjust_is_open: false }
}

#[test]
fn rotations_by_every_kind_of_count_carry_as_on_the_host() {
    for mut bench in [bench(), plain_bench()] {
        for (size, group) in (0..4).flat_map(|size| (0..4).map(move |group| (size, group))) {
            for count in [0, 1, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 64] {
                let program = rotation(size, group, count);
                let result = bench.check(&program, 1).expect("it reaches no memory");
                assert_eq!(result, Ok(()), "rotation {group} of size {size} by {count}");
            }
        }
    }
}
