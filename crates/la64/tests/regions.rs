//! Regions: loops of many blocks with calls, forks and inner loops end on tier 2 in the registers,
//! memory, count and trap of tier 0, whatever budget, fault or signal ends them.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::asm::word;
use littoral_la64::bare::{Alarm, Bare};
use littoral_la64::interp::{Limits, Tier, Trap};

const CODE: u64 = 0x1000;
const DATA: u64 = 0x2000;
const LEN: u64 = 1 << 18;
const TIERS: [Tier; 2] = [Tier::Interpreter, Tier::Regions];

type Line<'a> = (&'a str, &'a [i64]);

fn bytes_of(lines: &[Line<'_>]) -> Vec<u8> {
    lines.iter().flat_map(|(name, o)| word(name, o).expect(name).to_le_bytes()).collect()
}

fn prepared(tier: Tier, lines: &[Line<'_>], registers: &[(usize, u64)]) -> Bare {
    let mut core = Bare::between_refusals(tier, LEN).expect("executable memory");
    core.write(CODE, &bytes_of(lines)).expect("inside");
    let data: Vec<u8> = (0..LEN - DATA).map(|n| (n * 7 + n / 255) as u8).collect();
    core.write(DATA, &data).expect("inside");
    core.may_write_code(false);
    core.state_mut().pc = CODE;
    registers.iter().for_each(|&(n, value)| core.state_mut().x[n] = value);
    core
}

fn memory(core: &Bare) -> Vec<u8> {
    let mut bytes = vec![0; LEN as usize];
    core.read(0, &mut bytes).expect("inside");
    bytes
}

/// Runs `lines` on both tiers to a trap, stopping at budgets on the way; the trap.
fn same_within(
    lines: &[Line<'_>],
    registers: &[(usize, u64)],
    budgets: impl Iterator<Item = u64>,
) -> (Trap, Bare) {
    let [mut first, mut second] = TIERS.map(|tier| prepared(tier, lines, registers));
    let mut trap = Trap::OutOfBudget;
    for budget in budgets {
        trap = first.run(budget);
        assert_eq!(trap, second.run(budget), "{registers:x?}");
        assert_eq!(first.state(), second.state(), "{registers:x?}");
        if trap != Trap::OutOfBudget {
            break;
        }
    }
    assert!(memory(&first) == memory(&second), "memory differs: {registers:x?}");
    (trap, second)
}

/// As `same_within`, in a few long stays; there must be a region.
fn same(lines: &[Line<'_>], registers: &[(usize, u64)]) -> Trap {
    let budgets = [5_000, 7_001, 20_003, 1 << 24, 1 << 24];
    let (trap, core) = same_within(lines, registers, budgets.into_iter());
    assert!(core.regions() > 0, "no region");
    trap
}

/// Two loops inside each other, and a fork in the inner one.
const NESTED: [Line<'static>; 14] = [
    // r4: address, r5: rounds of the outer loop
    ("addi.d", &[6, 0, 9]),
    ("or", &[7, 4, 0]),
    ("ld.w", &[12, 7, 0]),
    ("andi", &[13, 12, 3]),
    ("beqz", &[13, 16]),
    ("add.w", &[14, 14, 12]),
    ("slt", &[15, 14, 5]),
    ("beqz", &[15, 8]),
    ("st.w", &[14, 7, 4]),
    ("addi.d", &[7, 7, 4]),
    ("addi.d", &[6, 6, -1]),
    ("bnez", &[6, -36]),
    ("addi.d", &[5, 5, -1]),
    ("bnez", &[5, -52]),
];

fn nested() -> Vec<Line<'static>> {
    [&NESTED[..], &[("syscall", &[0])]].concat()
}

#[test]
fn loops_inside_each_other_agree() {
    assert_eq!(same(&nested(), &[(4, 0x4000), (5, 20_000)]), Trap::Syscall);
}

#[test]
fn every_budget_ends_where_it_says() {
    for first in [3_000, 4_096] {
        let budgets = [first].into_iter().chain((0..1_500).map(|n| 1_100 + n % 700));
        same_within(&nested(), &[(4, 0x4000), (5, 1 << 40)], budgets);
    }
}

/// A condition that a branch tests is in its register on both sides.
#[test]
fn conditions_are_in_their_registers_behind_the_branch() {
    for (set, test) in [("slt", "bnez"), ("slt", "beqz"), ("sltu", "bnez"), ("sltu", "beqz")] {
        let lines: [Line<'_>; 10] = [
            ("addi.d", &[6, 6, 37]),
            ("andi", &[7, 6, 127]),
            (set, &[12, 7, 8]),
            (test, &[12, 12]),
            ("add.d", &[13, 13, 12]),
            ("b", &[8]),
            ("sub.d", &[14, 14, 12]),
            ("addi.d", &[5, 5, -1]),
            ("bnez", &[5, -32]),
            ("syscall", &[0]),
        ];
        for limit in [0, 64, 200] {
            same(&lines, &[(5, 3_000), (8, limit)]);
        }
    }
}

/// The condition of a loop that is left by it, and nothing else writes.
#[test]
fn conditions_are_in_their_registers_behind_the_loop() {
    let lines: [Line<'_>; 5] = [
        ("addi.d", &[6, 6, 1]),
        ("slt", &[12, 6, 5]),
        ("bnez", &[12, -8]),
        ("add.d", &[13, 12, 13]),
        ("syscall", &[0]),
    ];
    assert_eq!(same(&lines, &[(5, 9_000), (12, 77)]), Trap::Syscall);
}

/// A leaf that is called from two places, and a function that keeps its return address in memory.
#[test]
fn calls_and_returns_inside_a_region_agree() {
    const NOP: Line<'_> = ("andi", &[0, 0, 0]);
    let lines: [Line<'_>; 18] = [
        // The loop.
        ("bl", &[36]),
        ("bl", &[32]),
        ("bl", &[40]),
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -16]),
        ("syscall", &[0]),
        NOP,
        NOP,
        NOP,
        // A leaf.
        ("add.d", &[6, 6, 1]),
        ("jirl", &[0, 1, 0]),
        NOP,
        // Calls the leaf.
        ("addi.d", &[3, 3, -16]),
        ("st.d", &[1, 3, 8]),
        ("bl", &[-20]),
        ("ld.d", &[1, 3, 8]),
        ("addi.d", &[3, 3, 16]),
        ("jirl", &[0, 1, 0]),
    ];
    assert_eq!(same(&lines, &[(3, LEN - 64), (5, 8_000)]), Trap::Syscall);
    let budgets = (0..400).map(|n| 1_300 + n % 97);
    same_within(&lines, &[(3, LEN - 64), (5, 1 << 40)], budgets);
}

/// A function that calls itself twice.
#[test]
fn recursion_agrees() {
    let lines: [Line<'_>; 20] = [
        ("addi.d", &[4, 0, 14]),
        ("bl", &[16]),
        ("addi.d", &[24, 24, -1]),
        ("bnez", &[24, -12]),
        ("syscall", &[0]),
        ("addi.d", &[3, 3, -32]),
        ("st.d", &[1, 3, 0]),
        ("st.d", &[23, 3, 8]),
        ("slti", &[12, 4, 2]),
        ("bnez", &[12, 28]),
        ("addi.d", &[23, 4, -2]),
        ("addi.d", &[4, 4, -1]),
        ("bl", &[-28]),
        ("st.d", &[4, 3, 16]),
        ("or", &[4, 23, 0]),
        ("bl", &[-40]),
        ("ld.d", &[1, 3, 0]),
        ("ld.d", &[23, 3, 8]),
        ("addi.d", &[3, 3, 32]),
        ("jirl", &[0, 1, 0]),
    ];
    assert_eq!(same(&lines, &[(3, LEN - 64), (24, 40)]), Trap::Syscall);
}

/// A return that is not to the caller, once in many calls.
#[test]
fn a_return_elsewhere_leaves_the_region() {
    let lines: [Line<'_>; 12] = [
        ("bl", &[28]),
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -8]),
        ("syscall", &[0]),
        // Where the odd return leads.
        ("addi.d", &[7, 7, 1]),
        ("addi.d", &[5, 5, -1]),
        ("b", &[-16]),
        ("st.d", &[1, 4, 0]),
        ("andi", &[12, 5, 63]),
        ("sltui", &[12, 12, 1]),
        ("alsl.d", &[1, 12, 1, 4]),
        ("jirl", &[0, 1, 0]),
    ];
    // Returns 16 bytes behind the call each 64th time.
    for rounds in [4_000, 4_001] {
        assert_eq!(same(&lines, &[(4, 0x4000), (5, rounds)]), Trap::Syscall);
    }
}

/// A table of targets, one of which control takes rarely.
#[test]
fn branches_by_register_agree() {
    const ADD: [&[i64]; 4] = [&[6, 6, 1], &[6, 6, 5], &[6, 6, 9], &[6, 6, 77]];
    // The cases lead back to the decrement.
    const BACK: [&[i64]; 4] = [&[-36], &[-44], &[-52], &[-60]];
    let mut lines: Vec<Line<'_>> = vec![
        // r8: address of the first case
        ("b", &[12]),
        ("syscall", &[0]),
        ("syscall", &[0]),
        ("addi.d", &[5, 5, -1]),
        ("beqz", &[5, -12]),
        ("mul.d", &[7, 7, 9]),
        ("addi.d", &[7, 7, 13]),
        ("srli.d", &[12, 7, 40]),
        ("andi", &[12, 12, 3]),
        ("alsl.d", &[12, 12, 8, 3]),
        ("jirl", &[0, 12, 0]),
    ];
    (0..4).for_each(|n| lines.extend([("addi.d", ADD[n]), ("b", BACK[n])]));
    let at = CODE + 4 * 11;
    let registers = [(5, 20_000), (7, 1), (8, at), (9, 6_364_136_223_846_793_005)];
    assert_eq!(same(&lines, &registers), Trap::Syscall);
    let budgets = (0..300).map(|n| 1_200 + n % 311);
    same_within(&lines, &[(5, 1 << 40), registers[1], registers[2], registers[3]], budgets);
}

/// What a base register may point at in the end: inside, at either end, in the refused bytes,
/// behind them.
const POINTERS: [u64; 6] =
    [0x4000, LEN - 8, LEN + 100, LEN + (1 << 16) + 64, (-16i64) as u64, 1 << 63];

/// Each access of a region meets each pointer, after many rounds.
#[test]
fn a_fault_at_each_access_leaves_registers_exact() {
    for access in 0..3 {
        let mut lines: Vec<Line<'_>> = vec![
            ("addi.d", &[6, 6, 1]),
            ("andi", &[7, 6, 7]),
            ("bne", &[6, 5, 8]),
            // Round r5: the pointer goes astray.
            ("or", &[8, 9, 0]),
            ("beqz", &[7, 16]),
            ("ld.d", &[12, 4, 0]),
            ("add.d", &[13, 13, 12]),
            ("b", &[12]),
            ("st.w", &[13, 4, 8]),
            ("lu12i.w", &[14, 5]),
            ("ldx.bu", &[15, 4, 7]),
            ("addi.d", &[4, 8, 0]),
            ("addi.w", &[16, 16, 3]),
            ("bne", &[6, 10, -52]),
            ("syscall", &[0]),
        ];
        if access > 0 {
            // The other accesses are by a register that stays.
            let stays: [&'static [i64]; 3] = [&[12, 11, 0], &[13, 11, 8], &[15, 11, 7]];
            for (n, at) in [5, 8, 10].into_iter().enumerate().filter(|&(n, _)| n != access) {
                lines[at].1 = stays[n];
            }
        }
        for p in POINTERS {
            for round in [3_000, 3_001, 3_007] {
                let registers = [(4, 0x3000), (8, 0x3000), (9, p), (11, 0x5000)];
                let rounds = [(5, round), (10, 3_500)];
                same(&lines, &[&registers[..], &rounds].concat());
            }
        }
    }
}

/// A pointer that steps through the window on paths of which one alone makes the access, each
/// fourth time: between two of them it passes all that the host refuses.
#[test]
fn a_pointer_that_steps_on_paths_without_access_is_checked() {
    const STEPS: u64 = 9 * 2040;
    let steps: [Line<'_>; 9] = [("addi.d", &[4, 4, 2040]); 9];
    let others: [Line<'_>; 24] = [("xor", &[16, 16, 6]); 24];
    let lines: Vec<Line<'_>> = [
        // r8: where the pointer begins, r17: how often, r18: where it begins in the end
        &[("or", &[4, 8, 0][..]), ("addi.d", &[6, 0, 0][..])][..],
        &[("addi.d", &[6, 6, 1]), ("andi", &[7, 6, 3]), ("bnez", &[7, 12])],
        &[("ld.d", &[12, 4, 0]), ("add.d", &[14, 14, 12])],
        &steps,
        &others,
        &[("bne", &[6, 5, -152]), ("addi.d", &[17, 17, -1]), ("bnez", &[17, -168])],
        &[("or", &[8, 18, 0]), ("addi.d", &[17, 0, 2]), ("b", &[-180])],
    ]
    .concat();
    // The third access of the last round is behind what is refused.
    let last = LEN + (1 << 16) + 4096 - 11 * STEPS;
    for rounds in [60, 61, 62] {
        let registers = [(8, 0x3000), (5, 13), (17, rounds), (18, last)];
        assert!(matches!(same(&lines, &registers), Trap::Load(_)));
    }
}

/// Short numbers are added to addresses again and again: at some sum a check is due, because it may
/// be behind the bytes that the host refuses.
#[test]
fn sums_of_addresses_and_short_numbers_are_checked_in_time() {
    const SLACK: u64 = (1 << 36) + (1 << 16);
    let lines: [Line<'_>; 12] = [
        ("addi.d", &[6, 6, 1]),
        ("alsl.d", &[17, 6, 11, 2]),
        ("ld.w", &[12, 17, 0]),
        ("andi", &[16, 6, 7]),
        ("alsl.d", &[7, 12, 4, 4]),
        ("ldx.bu", &[13, 4, 16]),
        ("alsl.d", &[7, 12, 7, 4]),
        ("alsl.d", &[7, 12, 7, 4]),
        ("ld.bu", &[14, 7, 0]),
        ("add.d", &[15, 15, 14]),
        ("bne", &[6, 10, -40]),
        ("syscall", &[0]),
    ];
    // In one round three times 16 times a word lead from the address to behind what is refused.
    let word = ((SLACK + LEN + 640 - 0x4000) / 48) as u32;
    for word in [word, word.wrapping_neg(), 0x7fff_ffff, 1 << 31, 40] {
        for round in [2_000, 2_001, 2_002] {
            let mut cores = TIERS.map(|tier| {
                let mut core = Bare::between(tier, LEN, SLACK).expect("executable memory");
                core.write(CODE, &bytes_of(&lines)).expect("inside");
                let words = [40u32.to_le_bytes(); 2_501].concat();
                core.write(0x8000, &words).expect("inside");
                core.write(0x8000 + 4 * round, &word.to_le_bytes()).expect("inside");
                core.may_write_code(false);
                core.state_mut().pc = CODE;
                for (n, value) in [(4, 0x4000), (11, 0x8000), (10, 2_500)] {
                    core.state_mut().x[n] = value;
                }
                core
            });
            let traps = cores.each_mut().map(|core| core.run(1 << 20));
            assert_eq!(traps[0], traps[1], "{word:x}");
            assert_eq!(cores[0].state(), cores[1].state(), "{word:x}");
            assert!(cores[1].regions() > 0);
        }
    }
}

/// A number that a region took for short, because it was when the region was made, is long later.
#[test]
fn a_number_that_is_not_short_any_more_is_seen() {
    const SLACK: u64 = (1 << 36) + (1 << 16);
    let lines: [Line<'_>; 12] = [
        ("addi.d", &[6, 0, 200]),
        ("ld.bu", &[15, 4, 0]),
        ("alsl.d", &[14, 7, 4, 1]),
        ("ld.bu", &[12, 14, 0]),
        ("add.d", &[13, 13, 12]),
        ("addi.d", &[6, 6, -1]),
        ("bnez", &[6, -20]),
        ("addi.d", &[6, 0, 200]),
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -32]),
        ("or", &[7, 8, 0]),
        ("b", &[-40]),
    ];
    for far in [(SLACK + LEN + 64 - 0x4000) / 2, 1 << 31, (1 << 40) + 5, 1 << 62] {
        let mut cores = TIERS.map(|tier| {
            let mut core = Bare::between(tier, LEN, SLACK).expect("executable memory");
            core.write(CODE, &bytes_of(&lines)).expect("inside");
            core.may_write_code(false);
            core.state_mut().pc = CODE;
            [(4, 0x4000), (5, 30), (7, 24), (8, far)]
                .into_iter()
                .for_each(|(n, value)| core.state_mut().x[n] = value);
            core
        });
        let traps = cores.each_mut().map(|core| core.run(1 << 20));
        assert_eq!(traps[0], traps[1], "{far:x}");
        assert!(matches!(traps[0], Trap::Load(_)), "{traps:?}");
        assert_eq!(cores[0].state(), cores[1].state(), "{far:x}");
        assert!(cores[1].regions() > 0);
    }
}

/// Floating point: an invalid operation in a region, whose slow way goes on in it.
#[test]
fn invalid_operations_inside_a_region_agree() {
    let lines: [Line<'_>; 10] = [
        ("addi.d", &[6, 6, 1]),
        ("movgr2fr.d", &[20, 6]),
        ("ffint.d.l", &[20, 20]),
        ("fsub.d", &[21, 20, 22]),
        ("fsqrt.d", &[23, 21]),
        ("fcmp.clt.d", &[0, 23, 24]),
        ("bceqz", &[0, 8]),
        ("fadd.d", &[25, 25, 23]),
        ("bne", &[6, 5, -32]),
        ("syscall", &[0]),
    ];
    for catches in [false, true] {
        let cores = TIERS.map(|tier| {
            let mut core = prepared(tier, &lines, &[(5, 5_000)]);
            core.catch_invalid(catches);
            core.state_mut().v[22].0[0] = 2_500f64.to_bits();
            core.state_mut().v[24].0[0] = 30f64.to_bits();
            let trap = core.run(1 << 20);
            (trap, core)
        });
        let [(trap, first), (other, second)] = cores;
        assert_eq!((trap, other), (Trap::Syscall, Trap::Syscall));
        let mut states = [first.state().clone(), second.state().clone()];
        // Translated arithmetic keeps no cause.
        states.iter_mut().for_each(|s| s.fcsr &= !littoral_la64::state::fcsr::CAUSE);
        assert_eq!(states[0], states[1]);
        assert!(second.regions() > 0);
    }
}

#[test]
fn a_signal_ends_a_stay_inside_a_region_exactly() {
    let alarm = Alarm::new().expect("a translator");
    let registers = [(4, 0x4000), (5, 1u64 << 40)];
    let [mut first, mut second] = TIERS.map(|tier| prepared(tier, &nested(), &registers));
    for n in 0..400 {
        let before = second.state().instructions;
        let trap = second.run_until(&alarm, 1_000 + 911 * (n % 89), 1 << 40);
        assert_eq!(trap, Trap::Attention);
        let retired = second.state().instructions - before;
        assert_eq!(first.run(retired), Trap::OutOfBudget);
        assert_eq!(first.state(), second.state());
    }
    assert!(second.regions() > 0);
}

/// A loop that takes one way while it is looked at and another one later: its region gets both.
#[test]
fn a_loop_that_changes_its_way_is_made_again() {
    let lines: [Line<'_>; 11] = [
        ("addi.d", &[6, 6, 1]),
        ("slt", &[12, 6, 8]),
        ("beqz", &[12, 16]),
        ("add.d", &[13, 13, 6]),
        ("xor", &[14, 14, 13]),
        ("b", &[16]),
        ("sub.d", &[13, 13, 6]),
        ("add.d", &[14, 14, 13]),
        ("slli.w", &[15, 14, 3]),
        ("bne", &[6, 5, -36]),
        ("syscall", &[0]),
    ];
    let registers = [(5, 40_000), (8, 1_000)];
    let [mut first, mut second] = TIERS.map(|tier| prepared(tier, &lines, &registers));
    let mut regions = [0; 2];
    for (budget, regions) in [6_000, 1 << 20].into_iter().zip(&mut regions) {
        assert_eq!(first.run(budget), second.run(budget));
        assert_eq!(first.state(), second.state());
        *regions = second.regions();
    }
    assert_eq!(regions, [1, 2]);
}

/// The loop that a look is in most cannot be a region: of its instructions one is in none, which
/// links by another register than 1. The second loop of the look becomes one.
#[test]
fn a_refused_loop_leaves_the_look_to_the_next_one() {
    const JUMP: Line<'_> = ("jirl", &[13, 9, 0]);
    const STEP: Line<'_> = ("addi.d", &[6, 6, -1]);
    const BEGIN: Line<'_> = ("addi.d", &[6, 0, 60]);
    const BETWEEN: [Line<'_>; 2] = [("bnez", &[6, -8]), ("addi.d", &[7, 0, 16])];
    const WORK: [Line<'_>; 2] = [("add.d", &[12, 12, 7]), ("xor", &[14, 14, 12])];
    const END: [Line<'_>; 5] = [
        ("addi.d", &[7, 7, -1]),
        ("bnez", &[7, -60]),
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -88]),
        ("syscall", &[0]),
    ];
    let limits = Limits { watch: 4_096, slice: 1_500, aside: false, ..Limits::default() };
    // Behind the head the loop has a path of one instruction, which is always left.
    for (first, behind) in [([JUMP, STEP], CODE + 8), ([STEP, JUMP], CODE + 12)] {
        let mut lines = vec![BEGIN];
        lines.extend(first);
        lines.extend(BETWEEN);
        lines.extend(WORK.iter().cycle().take(14));
        lines.extend(END);
        let [first, second] = TIERS.map(|tier| {
            let mut core = Bare::on_within(tier, limits, LEN);
            core.write(CODE, &bytes_of(&lines)).expect("inside");
            core.may_write_code(false);
            core.state_mut().pc = CODE;
            [(5, 200), (9, behind)].into_iter().for_each(|(n, x)| core.state_mut().x[n] = x);
            assert_eq!(core.run(1 << 20), Trap::Syscall);
            core
        });
        assert_eq!(first.state(), second.state());
        assert!(second.regions() > 0, "no region of the second loop");
    }
}

/// A load by an index that is shifted for it alone, into the index's register: by registers with
/// and without host registers of their own, until it leaves memory.
#[test]
fn scaled_loads_agree_until_one_faults() {
    for (load, by) in [("ldx.bu", 1), ("ldx.hu", 1), ("ldx.w", 2), ("ldx.d", 3), ("ldx.d", 4)] {
        for (base, swaps) in [(8, false), (8, true), (23, false), (24, true)] {
            let (j, k) = if swaps { (12, base) } else { (base, 12) };
            let lines: [Line<'_>; 9] = [
                ("addi.d", &[6, 6, 1]),
                ("or", &[12, 6, 0]),
                ("slli.d", &[12, 12, by]),
                (load, &[12, j, k]),
                ("add.d", &[13, 13, 12]),
                ("bstrpick.d", &[12, 12, 6, 0]),
                ("slli.w", &[12, 12, by.min(3)]),
                (load, &[12, j, k]),
                ("bne", &[12, 5, -32]),
            ];
            for lines in [&lines[..], &[&lines[..8], &[("b", &[-32])]].concat()] {
                let registers = [(5, u64::MAX), (base as usize, DATA)];
                assert!(matches!(same(lines, &registers), Trap::Load(_)), "{load} {by} {base}");
            }
        }
    }
}

/// Regions are taken away and put back while their loops run.
#[test]
fn regions_that_come_and_go_agree() {
    let leaf: [Line<'_>; 10] = [
        ("bl", &[28]),
        ("addi.d", &[5, 5, -1]),
        ("bnez", &[5, -8]),
        ("syscall", &[0]),
        ("andi", &[0, 0, 0]),
        ("andi", &[0, 0, 0]),
        ("andi", &[0, 0, 0]),
        ("add.d", &[6, 6, 1]),
        ("xor", &[7, 7, 6]),
        ("jirl", &[0, 1, 0]),
    ];
    for lines in [&nested()[..], &leaf] {
        let registers = [(4, 0x4000), (5, 1 << 40)];
        let [mut first, mut second] = TIERS.map(|tier| prepared(tier, lines, &registers));
        for (turn, budget) in (0..600).map(|n| (n, 1_100 + 997 * n % 3_000)) {
            assert_eq!(first.run(budget), second.run(budget));
            assert_eq!(first.state(), second.state(), "turn {turn}");
            if turn % 3 != 0 {
                second.turn_regions(turn % 2 == 0);
            }
        }
        assert!(second.regions() > 0);
        assert!(memory(&first) == memory(&second));
    }
}

/// Instructions in writable memory are compared with it, so they are in no region; others are
/// dropped when they change.
#[test]
fn changed_code_is_in_no_region() {
    let [mut first, mut second] =
        TIERS.map(|tier| prepared(tier, &nested(), &[(4, 0x4000), (5, 1 << 40)]));
    for core in [&mut first, &mut second] {
        core.run(20_000);
    }
    assert_eq!(first.state(), second.state());
    let regions = second.regions();
    assert!(regions > 0);
    let changed = word("sub.w", &[14, 14, 12]).expect("an instruction").to_le_bytes();
    for core in [&mut first, &mut second] {
        core.write(CODE + 20, &changed).expect("inside");
        core.forget_code();
        core.run(20_000);
    }
    assert_eq!(first.state(), second.state());
    assert!(second.regions() > regions, "the changed loop is a region again");
    let regions = second.regions();
    for core in [&mut first, &mut second] {
        core.may_write_code(true);
        core.run(50_000);
    }
    assert_eq!(first.state(), second.state());
    assert_eq!(second.regions(), regions);
}
