//! Signals of the host in translated code: it leaves at its next exit, wherever the signal came,
//! and the count stays exact.

#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::bare::{Alarm, Bare};
use littoral_la64::interp::{Limits, Tier, Trap};
use littoral_la64::isa;

const CODE: u64 = 0x1000;
/// Slices as long as possible: some 100 ms.
const LIMITS: Limits = Limits {
    code_len: 1 << 20,
    separate: false,
    uncounted: false,
    slice: Limits::SLICE_MAX,
    watch: 300,
    aside: false,
};
/// A loop's last round, and what a block may retire beyond the end of a slice.
const BLOCK_MAX: u64 = 512;

fn word(mnemonic: &str, operands: &[i64]) -> u32 {
    isa::encode(isa::find(mnemonic).expect(mnemonic), operands).expect("operands fit")
}

fn core(tier: Tier, code: &[u32]) -> Bare {
    let mut core = Bare::on_within(tier, LIMITS, 1 << 16);
    let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    core.write(CODE, &bytes).expect("inside");
    core.may_write_code(false);
    core.state_mut().pc = CODE;
    core
}

/// Runs a loop until alarms have ended it often, in blocks and in regions; it must not have run to
/// the ends of slices.
fn ends_inside_slices(code: &[u32]) {
    for tier in [Tier::Blocks, Tier::Regions] {
        ends_inside_slices_on(tier, code);
    }
}

fn ends_inside_slices_on(tier: Tier, code: &[u32]) {
    let alarm = Alarm::new().expect("a translator");
    let mut core = core(tier, code);
    let mut inside = 0;
    for ns in [10_000, 300_000, 1_000_000, 3_000_000, 2_000_000] {
        let before = core.state().instructions;
        assert_eq!(core.run_until(&alarm, ns, u64::MAX >> 1), Trap::Attention);
        let rest = (core.state().instructions - before) % Limits::SLICE_MAX;
        inside += u32::from((BLOCK_MAX..Limits::SLICE_MAX - BLOCK_MAX).contains(&rest));
        // Counted exactly: register 4 counts rounds of this many instructions.
        let round = code.len() as u64;
        let state = core.state();
        assert_eq!(state.instructions, round * state.x[4] + (state.pc - CODE) / 4);
    }
    assert_eq!(core.regions() > 0, tier == Tier::Regions);
    // One may come before the code is entered.
    assert!(inside >= 3, "{inside} of 5 ended inside a slice");
}

#[test]
fn a_signal_ends_a_loop_inside_its_slice() {
    ends_inside_slices(&[word("addi.d", &[4, 4, 1]), word("b", &[-4])]);
}

#[test]
fn a_signal_during_a_call_of_tier_0_ends_the_slice_too() {
    // Most of the time of this loop is spent in tier 0.
    let slow = word("crc.w.d.w", &[5, 6, 7]);
    ends_inside_slices(&[slow, slow, slow, word("addi.d", &[4, 4, 1]), word("b", &[-16])]);
}

#[test]
fn code_without_a_count_calls_and_returns() {
    let limits = Limits { uncounted: true, ..Limits::default() };
    let mut core = Bare::within(limits, 1 << 16);
    // A million calls that return, and as many that never do.
    let code = [
        word("lu12i.w", &[5, 244]),
        word("bl", &[24]),
        word("addi.d", &[5, 5, -1]),
        word("bnez", &[5, -8]),
        word("lu12i.w", &[5, 244]),
        word("bl", &[16]),
        word("break", &[1]),
        word("addi.d", &[4, 4, 1]),
        word("jirl", &[0, 1, 0]),
        word("addi.d", &[5, 5, -1]),
        word("bnez", &[5, -20]),
        word("break", &[7]),
    ];
    let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    core.write(CODE, &bytes).expect("inside");
    core.may_write_code(false);
    core.state_mut().pc = CODE;
    assert_eq!(core.run(u64::MAX >> 1), Trap::Break(7));
    assert_eq!(core.state().x[4], 244 << 12);
}
