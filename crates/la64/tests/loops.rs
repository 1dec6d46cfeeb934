//! Loops whose accesses are checked once ahead of them: on a window beside which the host refuses
//! accesses, with memory of nothing behind that, both tiers end in the same registers, memory,
//! count and trap.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::{Tier, Trap};

const CODE: u64 = 0x1000;
const LEN: u64 = 1 << 18;
/// The first address behind the bytes that the host refuses.
const BEHIND: u64 = LEN + (1 << 16);

type Line<'a> = (&'a str, &'a [i64]);

fn prepared(tier: Tier, code: &[u32], registers: &[(usize, u64)]) -> Bare {
    let mut core = Bare::between_refusals(tier, LEN).expect("executable memory");
    let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    core.write(CODE, &bytes).expect("inside");
    let data: Vec<u8> = (0..LEN - 0x2000).map(|n| (n * 7 + n / 255) as u8).collect();
    core.write(0x2000, &data).expect("inside");
    core.may_write_code(false);
    core.state_mut().pc = CODE;
    registers.iter().for_each(|&(n, value)| core.state_mut().x[n] = value);
    core
}

/// Runs `lines` on both tiers to a trap or the end of a budget; the trap.
fn same(lines: &[Line<'_>], registers: &[(usize, u64)]) -> Trap {
    let code: Vec<u32> = lines.iter().map(|(name, o)| word(name, o).expect(name)).collect();
    let mut cores = [Tier::Interpreter, Tier::Blocks].map(|t| prepared(t, &code, registers));
    let traps = cores.each_mut().map(|core| core.run(50_000));
    let [first, second] = &cores;
    assert!(second.translations() > 0);
    assert_eq!(traps[0], traps[1], "{registers:x?}");
    assert_eq!(first.state(), second.state(), "{registers:x?}");
    let bytes = [first, second].map(|core| {
        let mut bytes = vec![0; LEN as usize];
        core.read(0, &mut bytes).expect("inside");
        bytes
    });
    assert!(bytes[0] == bytes[1], "memory differs: {registers:x?}");
    traps[0]
}

/// What a base register may point at: inside, at either end, in the refused bytes, behind them.
const POINTERS: [u64; 9] = [
    0x4000,
    LEN - 64,
    LEN - 8,
    LEN,
    LEN + 100,
    BEHIND + 64,
    (-16i64) as u64,
    (-(1i64 << 16) - 64) as u64,
    1 << 63,
];

#[test]
fn a_base_that_the_loop_keeps_is_checked_ahead_of_it() {
    let lines: [Line<'_>; 6] = [
        ("ld.d", &[12, 4, 16]),
        ("add.d", &[13, 13, 12]),
        ("st.w", &[13, 4, -8]),
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -16]),
        ("syscall", &[0]),
    ];
    let traps = POINTERS.map(|p| same(&lines, &[(4, p), (5, 100)]));
    assert_eq!(traps[0], Trap::Syscall);
    assert!(traps[3..].iter().all(|t| matches!(t, Trap::Load(_) | Trap::Store(_))), "{traps:x?}");
}

#[test]
fn a_wild_base_that_the_loop_does_not_use_does_no_harm() {
    let lines: [Line<'_>; 6] = [
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -4]),
        ("ld.d", &[12, 4, 0]),
        ("addi.d", &[6, 6, -1]),
        ("bnez", &[6, -16]),
        ("syscall", &[0]),
    ];
    for p in POINTERS {
        same(&lines, &[(4, p), (5, 300), (6, 2)]);
        same(&lines, &[(4, p), (5, 300), (6, 1)]);
    }
}

#[test]
fn a_pointer_that_steps_out_of_the_window_faults_at_its_access() {
    for step in [8, -8, 24, 2047, -2048] {
        let lines: [Line<'_>; 6] = [
            ("ld.d", &[12, 4, 0]),
            ("ld.bu", &[14, 4, 2047]),
            ("add.d", &[13, 13, 12]),
            ("addi.d", &[4, 4, step]),
            ("bnez", &[5, -16]),
            ("syscall", &[0]),
        ];
        let start = if step > 0 { LEN - 0x4000 } else { 0x4000 };
        let trap = same(&lines, &[(4, start), (5, 1)]);
        assert!(matches!(trap, Trap::Load(_) | Trap::Store(_)), "{trap:?}");
    }
}

/// The register steps in every round, but the access comes only after many: it is checked.
#[test]
fn an_access_that_not_each_round_makes_is_checked() {
    let lines: [Line<'_>; 7] = [
        ("addi.d", &[4, 4, 2040]),
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -8]),
        ("ld.d", &[12, 4, 0]),
        ("addi.d", &[6, 6, -1]),
        ("bnez", &[6, -20]),
        ("syscall", &[0]),
    ];
    for rounds in [10, 100, 150, 200, 300] {
        same(&lines, &[(4, 0x2000), (5, rounds), (6, 1)]);
        same(&lines, &[(4, 0x2000), (5, rounds), (6, 2)]);
    }
}

#[test]
fn sums_of_a_base_and_an_index_are_checked_ahead_of_the_loop() {
    for step in [8, -8, 2047] {
        let lines: [Line<'_>; 8] = [
            ("ldx.d", &[12, 4, 6]),
            ("ldx.wu", &[14, 7, 6]),
            ("add.d", &[13, 13, 12]),
            ("stx.d", &[13, 4, 6]),
            ("addi.d", &[6, 6, step]),
            ("addi.d", &[5, 5, -1]),
            ("bnez", &[5, -24]),
            ("syscall", &[0]),
        ];
        for p in POINTERS {
            for (base, index) in [(p, 0), (0x8000, p.wrapping_sub(0x8000)), (p ^ 1 << 62, 1 << 62)]
            {
                same(&lines, &[(4, base), (7, 0x4000), (6, index), (5, 60)]);
                same(&lines, &[(4, base), (7, base), (6, index), (5, 60)]);
            }
        }
    }
}

/// A constant that is due when an access faults is in its register afterwards.
#[test]
fn constants_that_nothing_has_read_are_there_after_a_fault() {
    for p in POINTERS {
        let lines: [Line<'_>; 7] = [
            ("lu12i.w", &[12, 0x12345]),
            ("ori", &[12, 12, 0x678]),
            ("addi.d", &[20, 0, -1]),
            ("ld.d", &[13, 4, 0]),
            ("lu12i.w", &[12, 1]),
            ("ld.d", &[12, 12, 8]),
            ("syscall", &[0]),
        ];
        same(&lines, &[(4, p)]);
    }
}
