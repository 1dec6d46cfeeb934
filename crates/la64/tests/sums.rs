//! Accesses that need no check because of one before them: on a window beside which the host
//! refuses accesses, with memory of nothing behind that, all tiers end in the same registers,
//! memory, count and trap. So do constants that instructions take as numbers, and flags that are
//! moved.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::{Tier, Trap};
use littoral_la64::state::fcsr;

const CODE: u64 = 0x1000;
const LEN: u64 = 1 << 18;
/// The first address behind the bytes that the host refuses.
const BEHIND: u64 = LEN + (1 << 16);
/// Where programs have a table of doublewords.
const TABLE: u64 = 0x8000;

type Line<'a> = (&'a str, &'a [i64]);

fn prepared(tier: Tier, lines: &[Line<'_>], registers: &[(usize, u64)], table: &[u64]) -> Bare {
    let mut core = Bare::between_refusals(tier, LEN).expect("executable memory");
    let bytes = lines.iter().flat_map(|(name, o)| word(name, o).expect(name).to_le_bytes());
    core.write(CODE, &bytes.collect::<Vec<u8>>()).expect("inside");
    let data: Vec<u8> = (0..LEN - 0x2000).map(|n| (n * 7 + n / 255) as u8).collect();
    core.write(0x2000, &data).expect("inside");
    let table: Vec<u8> = table.iter().flat_map(|value| value.to_le_bytes()).collect();
    core.write(TABLE, &table).expect("inside");
    core.may_write_code(false);
    core.state_mut().pc = CODE;
    registers.iter().for_each(|&(n, value)| core.state_mut().x[n] = value);
    (0..32).for_each(|n| core.state_mut().v[n].0 = [n as u64 * 0x1_0000_0001, !0, 5, 6]);
    core
}

/// Runs `lines` on all tiers to a trap: the trap, and the regions there were.
fn same(lines: &[Line<'_>], registers: &[(usize, u64)], table: &[u64]) -> (Trap, u64) {
    let tiers = [Tier::Interpreter, Tier::Blocks, Tier::Regions];
    let mut cores = tiers.map(|tier| prepared(tier, lines, registers, table));
    let traps = cores.each_mut().map(|core| core.run(1 << 22));
    let memory = cores.each_ref().map(|core| {
        let mut bytes = vec![0; LEN as usize];
        core.read(0, &mut bytes).expect("inside");
        bytes
    });
    // Translated arithmetic keeps no cause.
    cores.iter_mut().for_each(|core| core.state_mut().fcsr &= !fcsr::CAUSE);
    for n in [1, 2] {
        assert_eq!(traps[0], traps[n], "{registers:x?}");
        assert_eq!(cores[0].state(), cores[n].state(), "{registers:x?}");
        assert!(memory[0] == memory[n], "memory differs: {registers:x?}");
    }
    assert!(cores[1].translations() > 0);
    (traps[0], cores[2].regions())
}

/// An inner loop whose addresses are sums of three registers, one of which the outer loop reads
/// from a table: its last value leads astray.
#[test]
fn an_inner_loop_checks_where_it_is_entered() {
    // As long as a path is without another round of the loop.
    let others: [Line<'_>; 34] = [("xor", &[16, 16, 6]); 34];
    let lines: Vec<Line<'_>> = [
        &[("ld.d", &[8, 4, 0][..]), ("addi.d", &[4, 4, 8]), ("addi.d", &[6, 0, 0])][..],
        &[("add.d", &[9, 8, 6]), ("ldx.d", &[12, 9, 7]), ("add.d", &[13, 13, 12])],
        &others,
        &[("st.w", &[13, 9, 16]), ("addi.d", &[6, 6, 8]), ("bne", &[6, 10, -156])],
        &[("addi.d", &[5, 5, -1]), ("bnez", &[5, -176]), ("syscall", &[0])],
    ]
    .concat();
    const ROUNDS: u64 = 100;
    let inside = [0x4000, BEHIND - 0x4000, LEN - 0x100];
    let outside = [BEHIND + 64, BEHIND - 0x80, BEHIND + 0x800, 1 << 40, 1 << 63];
    for (index, last) in [(0x100, inside[0]), (0x100, LEN - 0x118), (0x1000, BEHIND - 0x20)]
        .into_iter()
        .chain(outside.map(|p| (0x100, p)))
    {
        let mut table: Vec<u64> = (0..ROUNDS - 1).map(|n| 0x10000 + 0x210 * (n % 60)).collect();
        table.push(last);
        let registers = [(4, TABLE), (5, ROUNDS), (7, index), (10, 3 * 8)];
        let (trap, regions) = same(&lines, &registers, &table);
        assert!(regions > 0);
        let is_inside = last + index + 3 * 8 <= LEN;
        assert_eq!(trap == Trap::Syscall, is_inside, "{last:x} {trap:?}");
    }
}

/// The same, where the inner loop steps without an access on most of its rounds.
#[test]
fn a_sum_that_steps_without_an_access_is_checked_again() {
    let lines: [Line<'_>; 14] = [
        ("ld.d", &[8, 4, 0]),
        ("addi.d", &[4, 4, 8]),
        ("addi.d", &[6, 0, 0]),
        ("add.d", &[9, 8, 6]),
        ("addi.d", &[14, 14, 1]),
        ("andi", &[15, 14, 7]),
        ("bnez", &[15, 12]),
        ("ldx.d", &[12, 9, 7]),
        ("add.d", &[13, 13, 12]),
        ("add.d", &[6, 6, 11]),
        ("bne", &[6, 10, -28]),
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -48]),
        ("syscall", &[0]),
    ];
    const ROUNDS: u64 = 90;
    for last in [0x4000, LEN - 0x1000, LEN - 0x7000, BEHIND + 64] {
        for step in [0x10, 0x7f0] {
            let mut table: Vec<u64> = (0..ROUNDS - 1).map(|n| 0x2000 + 0x210 * (n % 40)).collect();
            table.push(last);
            let registers = [(4, TABLE), (5, ROUNDS), (7, 0x100), (11, step), (10, 48 * step)];
            assert!(same(&lines, &registers, &table).1 > 0);
        }
    }
}

/// Two accesses by the same registers, which a number between them takes out of the window, behind
/// what the host refuses; or another write does.
#[test]
fn an_access_far_from_the_one_before_is_checked() {
    let far: [Line<'_>; 4] = [
        ("ldx.bu", &[12, 4, 6]),
        ("addu16i.d", &[6, 6, 2]),
        ("ldx.bu", &[13, 4, 6]),
        ("syscall", &[0]),
    ];
    let back: [Line<'_>; 5] = [
        ("ldx.bu", &[12, 4, 6]),
        ("addu16i.d", &[6, 6, -4]),
        ("addi.d", &[6, 6, -2048]),
        ("ldx.bu", &[13, 4, 6]),
        ("syscall", &[0]),
    ];
    let read: [Line<'_>; 4] =
        [("ldx.d", &[12, 4, 6]), ("ld.d", &[6, 5, 0]), ("ldx.d", &[13, 4, 6]), ("syscall", &[0])];
    let shifted: [Line<'_>; 7] = [
        ("slli.d", &[7, 6, 3]),
        ("ldx.d", &[12, 4, 7]),
        ("addi.d", &[6, 6, 1]),
        ("alsl.d", &[8, 6, 4, 3]),
        ("ld.d", &[13, 8, 0]),
        ("ldx.d", &[14, 8, 9]),
        ("syscall", &[0]),
    ];
    for start in [0x3000, LEN - 0x1000, LEN - 8] {
        let registers = [(4, start - 0x2000), (6, 0x2000), (5, TABLE)];
        same(&far, &registers, &[]);
        same(&back, &registers, &[]);
        for value in [0, 0x2008, BEHIND, 1 << 50] {
            same(&read, &registers, &[value]);
        }
        for nine in [0, 16, 1 << 15, BEHIND, 1 << 62] {
            same(&shifted, &[(4, start - 0x2000), (6, 0x400), (9, nine)], &[]);
        }
    }
}

/// An access at a register and a constant, in either field.
#[test]
fn constants_are_displacements_of_sums() {
    for address in [[0, 0x30], [4, 0], [15, 0xff0], [16, 0], [0x40, 0x10], [-1, 0], [0x7ffff, 1]] {
        for operands in [[13, 12, 6], [13, 6, 12], [12, 12, 6], [13, 12, 12], [13, 12, 0]] {
            let lines: [Line<'_>; 6] = [
                ("lu12i.w", &[12, address[0]]),
                ("ori", &[12, 12, address[1]]),
                ("ldx.d", &operands),
                ("stx.w", &[12, 12, 6]),
                ("ldx.bu", &[14, 6, 12]),
                ("syscall", &[0]),
            ];
            for index in [0, 0x3000, LEN - 0x4000, LEN - 8, BEHIND, (-0x3000i64) as u64, 1 << 63] {
                same(&lines, &[(6, index)], &[]);
            }
        }
    }
}

/// Branches that compare a register with a constant, in either field.
#[test]
fn constants_are_operands_of_branches() {
    for name in ["beq", "bne", "blt", "bge", "bltu", "bgeu"] {
        for number in [-2048, -1, 0, 1, 100, 2047] {
            for fields in [[4, 12, 8], [12, 4, 8], [12, 12, 8], [0, 12, 8], [12, 0, 8]] {
                let lines: [Line<'_>; 5] = [
                    ("addi.d", &[12, 0, number]),
                    (name, &fields),
                    ("addi.d", &[13, 13, 1]),
                    ("add.d", &[14, 12, 13]),
                    ("syscall", &[0]),
                ];
                for value in [0, 1, 100, 101, u64::MAX, number as u64, 1 << 63, u64::MAX >> 1] {
                    same(&lines, &[(4, value)], &[]);
                }
            }
        }
    }
}

/// Moves of flags to and from registers, and choices by them.
#[test]
fn flags_are_moved_and_choose() {
    for fields in [[5, 6, 7], [5, 5, 7], [5, 7, 5], [20, 21, 22], [20, 20, 22], [20, 22, 20]] {
        let [d, j, k] = fields;
        let lines: [Line<'_>; 12] = [
            ("movgr2cf", &[3, 4]),
            ("fsel", &[d, j, k, 3]),
            ("movfr2cf", &[2, 4]),
            ("movcf2gr", &[14, 2]),
            ("movcf2fr", &[9, 3]),
            ("movcf2fr", &[25, 2]),
            ("movgr2cf", &[1, 0]),
            ("movgr2cf", &[7, 5]),
            ("bceqz", &[7, 8]),
            ("addi.d", &[13, 13, 1]),
            ("fsel", &[k, d, j, 7]),
            ("syscall", &[0]),
        ];
        for value in [0, 1, 2, 3, u64::MAX, 1 << 32] {
            for other in [0, 1, 254, 255] {
                same(&lines, &[(4, value), (5, other)], &[]);
            }
        }
    }
}

/// Pointers that walk through memory on paths of many rounds: what reads them, slow ways that come
/// back (square roots of negative numbers), forks, and a fault at the end of memory, in each order
/// of an access and a step.
#[test]
fn steps_are_added_before_anything_sees_them() {
    let accesses: [Line<'_>; 8] = [
        ("ld.d", &[12, 4, 0]),
        ("st.w", &[12, 4, 24]),
        ("ldx.bu", &[14, 4, 7]),
        ("fld.d", &[1, 4, 0]),
        ("stx.d", &[13, 4, 7]),
        ("ld.d", &[4, 4, 16]),
        ("st.d", &[4, 4, 8]),
        ("vld", &[9, 4, 32]),
    ];
    let readers: [Line<'_>; 5] = [
        ("add.d", &[13, 13, 4]),
        ("andi", &[0, 0, 0]),
        ("slt", &[15, 4, 10]),
        ("bne", &[4, 10, 4]),
        ("alsl.d", &[16, 4, 13, 2]),
    ];
    let mut regions = 0;
    for (n, access) in accesses.into_iter().enumerate() {
        for reader in readers {
            let lines: [Line<'_>; 12] = [
                ("addi.d", &[4, 4, 8]),
                access,
                ("fld.d", &[2, 4, 8]),
                ("fsqrt.d", &[3, 2]),
                ("addi.d", &[4, 4, -4]),
                ("add.d", &[13, 13, 12]),
                reader,
                ("bne", &[4, 11, 8]),
                ("xori", &[13, 13, 5]),
                ("addi.d", &[5, 5, -1]),
                ("bnez", &[5, -40]),
                ("syscall", &[0]),
            ];
            // What the access at round 300 and later reads as an address is a table's own.
            let table: Vec<u64> = (0..1200).map(|n| TABLE + 4 * n + 8).collect();
            for (start, rounds) in [(TABLE, 900), (TABLE, 903), (LEN - 0x800, 1 << 20)] {
                let registers =
                    [(4, start), (5, rounds), (7, 16), (10, start + 0x900), (11, start + 0x740)];
                if n != 5 || start == TABLE {
                    regions += same(&lines, &registers, &table).1;
                }
            }
        }
    }
    assert!(regions > 0);
}
