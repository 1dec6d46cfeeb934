//! Exits of translated code lead to blocks that are translated after them, without leaving once
//! each.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::Trap;

const CODE: u64 = 0x1000;
const FUNCTIONS: i64 = 64;
const LOOP_WORDS: i64 = 6;

#[test]
fn exits_that_wait_for_one_block_are_linked_together() {
    let mut core = Bare::new(1 << 16);
    let coded = |name: &str, operands: &[i64]| word(name, operands).expect(name);
    // Calls every function in turn.
    let mut code = vec![
        coded("jirl", &[1, 23, 0]),
        coded("addi.d", &[23, 23, 8]),
        coded("addi.d", &[24, 24, -1]),
        coded("bnez", &[24, -12]),
        coded("break", &[0]),
        coded("break", &[0]),
    ];
    assert_eq!(code.len() as i64, LOOP_WORDS);
    // Each returns, or goes to the one behind all of them if register 12 is set.
    for n in 0..FUNCTIONS {
        code.push(coded("bnez", &[12, 8 * (FUNCTIONS - n)]));
        code.push(coded("jirl", &[0, 1, 0]));
    }
    code.push(coded("addi.d", &[4, 4, 1]));
    code.push(coded("jirl", &[0, 1, 0]));
    let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    core.write(CODE, &bytes).expect("inside");
    core.may_write_code(false);
    let mut run = |goes_on: u64| {
        let state = core.state_mut();
        state.pc = CODE;
        state.x[12] = goes_on;
        state.x[23] = CODE + 4 * LOOP_WORDS as u64;
        state.x[24] = FUNCTIONS as u64;
        assert_eq!(core.run(1 << 20), Trap::Break(0));
        core.exits()
    };
    let first = run(0);
    let again = run(0);
    let taken = run(1);
    assert!(first >= FUNCTIONS as u64, "{first} exits while functions are translated");
    assert!(again - first < 8, "{} exits when all is translated", again - first);
    assert!(taken - again < 12, "{} exits when every function goes on", taken - again);
    assert_eq!(core.state().x[4], FUNCTIONS as u64);
}

/// The table of indirect branches has an entry per word of 64 KiB.
#[test]
fn branches_to_addresses_that_share_an_entry_stay_in_code() {
    const APART: u64 = 64 << 10;
    const ROUNDS: u64 = 1000;
    let mut core = Bare::new(4 * APART);
    let coded = |name: &str, operands: &[i64]| word(name, operands).expect(name);
    let bytes = |code: &[u32]| code.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let code = [
        coded("jirl", &[1, 23, 0]),
        coded("jirl", &[1, 25, 0]),
        coded("jirl", &[1, 26, 0]),
        coded("addi.d", &[24, 24, -1]),
        coded("bnez", &[24, -16]),
        coded("break", &[0]),
    ];
    core.write(CODE, &bytes(&code)).expect("inside");
    let function = [coded("addi.d", &[4, 4, 1]), coded("jirl", &[0, 1, 0])];
    let functions = [1, 2, 3].map(|n| n * APART);
    for at in functions {
        core.write(at, &bytes(&function)).expect("inside");
    }
    core.may_write_code(false);
    let mut run = || {
        let state = core.state_mut();
        state.pc = CODE;
        (state.x[23], state.x[25], state.x[26]) = (functions[0], functions[1], functions[2]);
        (state.x[4], state.x[24]) = (0, ROUNDS);
        assert_eq!(core.run(1 << 20), Trap::Break(0));
        assert_eq!(core.state().x[4], 3 * ROUNDS);
        core.exits()
    };
    let first = run();
    let again = run() - first;
    assert!(again < 20, "{again} exits in {ROUNDS} rounds");
}
