//! Calls and returns: translated code returns by the host's stack where the program keeps the order
//! of calls and returns, and exactly as the interpreter where it does not.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::{Tier, Trap};

const CODE: u64 = 0x1000;
const LEN: u64 = 1 << 22;
const RA: i64 = 1;
const SP: i64 = 3;

type Line<'a> = (&'a str, &'a [i64]);

/// Runs `lines` on both tiers until a trap, which is the same and comes with the same registers.
fn same(lines: &[Line<'_>], registers: &[(usize, u64)]) -> (Trap, u64) {
    let cores = [Tier::Interpreter, Tier::Blocks].map(|tier| {
        let mut core = Bare::on(tier, LEN);
        let code = lines.iter().flat_map(|(name, o)| word(name, o).expect(name).to_le_bytes());
        core.write(CODE, &code.collect::<Vec<u8>>()).expect("inside");
        core.state_mut().pc = CODE;
        core.state_mut().x[SP as usize] = LEN - 64;
        registers.iter().for_each(|&(n, value)| core.state_mut().x[n] = value);
        let trap = core.run(20_000_000);
        (trap, core)
    });
    let [(trap, first), (other, second)] = cores;
    assert_eq!(trap, other);
    assert_eq!(first.state(), second.state());
    (trap, first.state().instructions)
}

/// A function that calls itself twice.
const FIB: [Line<'static>; 17] = [
    ("bl", &[8]),
    ("syscall", &[0]),
    ("addi.d", &[SP, SP, -32]),
    ("st.d", &[RA, SP, 0]),
    ("st.d", &[23, SP, 8]),
    ("slti", &[12, 4, 2]),
    ("bnez", &[12, 28]),
    ("addi.d", &[23, 4, -2]),
    ("addi.d", &[4, 4, -1]),
    ("bl", &[-28]),
    ("st.d", &[4, SP, 16]),
    ("or", &[4, 23, 0]),
    ("bl", &[-40]),
    ("ld.d", &[RA, SP, 0]),
    ("ld.d", &[23, SP, 8]),
    ("addi.d", &[SP, SP, 32]),
    ("jirl", &[0, RA, 0]),
];

#[test]
fn calls_in_order_return() {
    let (trap, instructions) = same(&FIB, &[(4, 18)]);
    assert_eq!(trap, Trap::Syscall);
    assert!(instructions > 65_536, "more than a stay in code");
}

/// Many more calls than one stay in code has instructions, none of which returns before all are
/// made.
#[test]
fn deep_recursion_returns() {
    let lines: [Line<'_>; 10] = [
        ("bl", &[8]),
        ("syscall", &[0]),
        ("addi.d", &[SP, SP, -16]),
        ("st.d", &[RA, SP, 0]),
        ("addi.d", &[4, 4, -1]),
        ("beqz", &[4, 8]),
        ("bl", &[-16]),
        ("ld.d", &[RA, SP, 0]),
        ("addi.d", &[SP, SP, 16]),
        ("jirl", &[0, RA, 0]),
    ];
    assert_eq!(same(&lines, &[(4, 200_000)]).0, Trap::Syscall);
}

/// Calls that never return, and returns to where no call came from.
#[test]
fn returns_out_of_order_go_where_the_register_says() {
    let lines: [Line<'_>; 12] = [
        ("bl", &[8]),
        ("break", &[1]),
        // Here from the call: another call, which skips its caller's return.
        ("or", &[20, RA, 0]),
        ("bl", &[12]),
        ("break", &[2]),
        ("break", &[3]),
        ("addi.d", &[RA, RA, 20]),
        ("jirl", &[0, RA, 0]),
        ("break", &[4]),
        // Returned to: again, until the counter is zero, and then to the first caller.
        ("addi.d", &[4, 4, -1]),
        ("bnez", &[4, -28]),
        ("jirl", &[0, 20, 0]),
    ];
    assert_eq!(same(&lines, &[(4, 50_000)]).0, Trap::Break(1));
}

/// A chain of calls without an end: what code pushes is dropped at the end of each stay.
#[test]
fn calls_without_returns_do_not_exhaust_the_stack() {
    let lines: [Line<'_>; 5] = [
        ("bl", &[4]),
        ("bl", &[4]),
        ("addi.d", &[4, 4, -1]),
        ("bnez", &[4, -12]),
        ("syscall", &[0]),
    ];
    assert_eq!(same(&lines, &[(4, 1_000_000)]).0, Trap::Syscall);
}

/// A loop with many ways out, each of which writes every register: too long to be one block.
#[test]
fn a_loop_of_many_exits_is_translated_in_parts() {
    let mut lines: Vec<(&str, Vec<i64>)> = Vec::new();
    for n in 1..32 {
        lines.push(("lu52i.d", vec![n, 0, 0x123]));
    }
    for n in 0..4 {
        lines.push(("fmadd.d", vec![13 + 3 * n, 14 + 3 * n, 15 + 3 * n, 16 + 3 * n]));
    }
    lines.extend((0..220).map(|_| ("bcnez", vec![0, 8])));
    lines.push(("b", vec![-4 * lines.len() as i64]));
    let states = [Tier::Interpreter, Tier::Blocks].map(|tier| {
        let mut core = Bare::on(tier, LEN);
        let code = lines.iter().flat_map(|(name, o)| word(name, o).expect(name).to_le_bytes());
        core.write(CODE, &code.collect::<Vec<u8>>()).expect("inside");
        core.may_write_code(false);
        core.catch_invalid(true);
        core.state_mut().pc = CODE;
        assert_eq!(core.run(100_000), Trap::OutOfBudget);
        core.state().clone()
    });
    assert_eq!(states[0], states[1]);
}
