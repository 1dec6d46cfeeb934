//! The device core: counts, budgets to the instruction, and code that tries to get out.

use littoral_la64::device::{Core, End};
use littoral_la64::error::Kind;
use littoral_la64::interp::Trap;
use littoral_la64::{asm, elf};

const AT: u64 = 0x1_0000;
const A0: i64 = 4;
const A1: i64 = 5;
const T0: i64 = 12;

fn word(mnemonic: &str, operands: &[i64]) -> u32 {
    asm::word(mnemonic, operands).expect("an instruction")
}

fn core(code: &[u32]) -> Core {
    Core::load(&elf::executable(AT, code), 1 << 20).expect("loads")
}

fn ret() -> u32 {
    word("jirl", &[0, 1, 0])
}

/// Sum of 1 to a0.
fn sum_loop() -> Vec<u32> {
    vec![
        word("or", &[T0, A0, 0]),
        word("or", &[A0, 0, 0]),
        word("add.d", &[A0, A0, T0]),
        word("addi.d", &[T0, T0, -1]),
        word("bnez", &[T0, -8]),
        ret(),
    ]
}

#[test]
fn instructions_are_counted_exactly_and_reproducibly() {
    let mut core = core(&sum_loop());
    for n in [1, 2, 10, 1000] {
        let first = core.run(core.entry(), &[n], u64::MAX);
        assert_eq!(first.end, End::Done(n * (n + 1) / 2));
        assert_eq!(first.instructions, 3 + 3 * n);
        assert_eq!(core.run(core.entry(), &[n], u64::MAX), first);
    }
}

#[test]
fn every_budget_stops_at_its_instruction_and_resumes() {
    let mut core = core(&sum_loop());
    let whole = core.run(core.entry(), &[20], u64::MAX);
    for budget in 1..whole.instructions {
        let mut outcome = core.run(core.entry(), &[20], budget);
        let mut total = 0;
        while outcome.end == End::OutOfBudget {
            assert_eq!(outcome.instructions, budget);
            total += outcome.instructions;
            outcome = core.resume(budget);
        }
        assert_eq!((outcome.end, total + outcome.instructions), (whole.end, whole.instructions));
    }
}

#[test]
fn the_zero_register_reads_zero_whatever_is_written() {
    let mut core = core(&[
        word("addi.d", &[0, A0, 5]),
        word("ld.d", &[0, 3, -16]),
        word("add.d", &[A0, 0, 0]),
        ret(),
    ]);
    let outcome = core.run(core.entry(), &[7], u64::MAX);
    assert_eq!((outcome.end, outcome.instructions), (End::Done(0), 4));
}

#[test]
fn doubles_are_the_low_half_of_vectors() {
    let mut core = core(&[
        word("movgr2fr.d", &[1, A0]),
        word("vpickve2gr.d", &[A0, 1, 0]),
        word("vinsgr2vr.d", &[2, A1, 0]),
        word("movfr2gr.d", &[T0, 2]),
        word("add.d", &[A0, A0, T0]),
        ret(),
    ]);
    let outcome = core.run(core.entry(), &[1 << 40 | 5, 1 << 50], u64::MAX);
    assert_eq!(outcome.end, End::Done((1 << 40 | 5) + (1 << 50)));
}

#[test]
fn an_endless_loop_ends_with_its_budget() {
    let mut core = core(&[word("b", &[0])]);
    let outcome = core.run(core.entry(), &[], 12_345);
    assert_eq!((outcome.end, outcome.instructions), (End::OutOfBudget, 12_345));
}

/// The trap of one instruction after `a0` and `a1` are set, and that it is precise.
fn trap_of(mnemonic: &str, operands: &[i64], a0: u64, a1: u64) -> Trap {
    let mut core = core(&[word("andi", &[0, 0, 0]), word(mnemonic, operands), ret()]);
    let outcome = core.run(core.entry(), &[a0, a1], 100);
    match outcome.end {
        End::Trap { trap, pc } => {
            assert_eq!((pc, outcome.instructions), (core.entry() + 4, 1), "{mnemonic}");
            assert_eq!(core.state().x[4..6], [a0, a1], "{mnemonic}: registers are as before");
            trap
        }
        other => panic!("{mnemonic}: {other:?}"),
    }
}

#[test]
fn code_cannot_leave_its_memory() {
    for at in [1 << 20, (1 << 20) - 7, u64::MAX, u64::MAX - 7, 1 << 40, 1 << 63] {
        assert_eq!(trap_of("ld.d", &[A0, A1, 0], 7, at), Trap::Load(at));
        assert_eq!(trap_of("st.d", &[A0, A1, 0], 7, at), Trap::Store(at));
        assert_eq!(trap_of("xvld", &[1, A1, 0], 7, at), Trap::Load(at));
        assert_eq!(trap_of("xvst", &[1, A1, 0], 7, at), Trap::Store(at));
    }
    assert_eq!(trap_of("amadd.d", &[T0, A0, A1], 1, 4), Trap::Unaligned(4));
    assert_eq!(trap_of("ldle.d", &[A0, A1, A0], 7, 8), Trap::Bound(8));
    assert_eq!(trap_of("break", &[5], 0, 0), Trap::Break(5));
    assert_eq!(
        trap_of("csrxchg", &[A0, A1, 0], 0, 0),
        Trap::Illegal(word("csrxchg", &[A0, A1, 0]))
    );
}

#[test]
fn jumps_into_nowhere_trap_where_they_land() {
    for target in [0u64, 8, 1 << 19, u64::MAX - 7, AT + 2] {
        let mut core = core(&[word("jirl", &[0, A0, 0])]);
        let outcome = core.run(core.entry(), &[target], 100);
        assert_eq!(outcome.end, End::Trap { trap: Trap::Fetch(target), pc: target });
        assert_eq!(outcome.instructions, 1);
    }
}

#[test]
fn system_calls_do_nothing_but_trap() {
    let mut core = core(&[word("syscall", &[0]), ret()]);
    let outcome = core.run(core.entry(), &[1], 100);
    assert!(matches!(outcome.end, End::Trap { trap: Trap::Syscall, .. }), "{outcome:?}");
}

#[test]
fn code_that_rewrites_itself_is_seen_after_ibar() {
    let new = word("ori", &[A0, 0, 42]);
    let patch = [
        word("pcaddi", &[T0, 4]),
        word("st.w", &[A0, T0, 0]),
        word("ibar", &[0]),
        word("ori", &[A0, 0, 0]),
        word("ori", &[A0, 0, 1]),
        ret(),
    ];
    let mut core = core(&patch);
    let outcome = core.run(core.entry(), &[u64::from(new)], 100);
    assert_eq!((outcome.end, outcome.instructions), (End::Done(42), 6));
}

/// A function is rewritten and called by a direct call, again and again: the link of the call leads
/// from each version to the next, also when stale versions are dropped.
#[test]
fn each_new_version_of_a_function_is_seen_through_its_links() {
    const ROUNDS: u64 = 5000;
    const S0: i64 = 23;
    const S1: i64 = 24;
    const T1: i64 = 13;
    const RA: i64 = 1;
    let code = [
        word("or", &[S0, RA, 0]),
        word("or", &[S1, 0, 0]),
        word("pcaddi", &[T0, 8]),
        // The function adds one more in each version: `addi.d s1, s1, n`, n from the argument.
        word("st.w", &[A0, T0, 0]),
        word("ibar", &[0]),
        word("bl", &[20]),
        word("addu16i.d", &[A0, A0, 0]),
        word("addi.d", &[A1, A1, -1]),
        word("bnez", &[A1, 20]),
        word("jirl", &[0, S0, 0]),
        word("addi.d", &[S1, S1, 0]),
        ret(),
        word("ori", &[T1, 0, 1]),
        // The next version: the immediate goes from 0 to 7 and round.
        word("bstrpick.d", &[T0, A1, 2, 0]),
        word("bstrins.d", &[A0, T0, 12, 10]),
        word("pcaddi", &[T0, -5]),
        word("b", &[-52]),
    ];
    let mut core = core(&code);
    let first = u64::from(word("addi.d", &[S1, S1, 1]));
    let outcome = core.run(core.entry(), &[first, ROUNDS], 1_000_000);
    assert!(matches!(outcome.end, End::Done(_)), "{outcome:?}");
    // The first version adds 1, each other one the low three bits of the rounds left.
    let sum: u64 = 1 + (1..ROUNDS).map(|left| left % 8).sum::<u64>();
    assert_eq!(core.state().x[S1 as usize], sum);
}

#[test]
fn programs_that_do_not_fit_are_refused() {
    let file = elf::executable(AT, &[ret()]);
    assert_eq!(Core::load(&file, 0x1_0000).unwrap_err().kind(), Kind::Memory);
    assert_eq!(
        Core::load(&elf::executable(0, &[ret()]), 1 << 20).unwrap_err().kind(),
        Kind::Memory
    );
    assert_eq!(Core::load(b"#!/bin/sh\n", 1 << 20).unwrap_err().kind(), Kind::BadElf);
}
