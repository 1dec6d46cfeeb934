//! `ll.d`, `ld.d` and `sc.q`: every tier compares the pair that the program read.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::{Tier, Trap};

const CODE: u64 = 0x1000;
const PAIR: u64 = 0x2000;
const LEN: u64 = 1 << 16;
const ROUNDS: u64 = 1000;

/// Links the pair at register 4, whose second half register 6 is for the moment in which it is read
/// and register 7 afterwards, and stores registers 5 and 8. Register 15 counts what was stored.
fn code() -> Vec<u32> {
    let lines: [(&str, &[i64]); 10] = [
        ("ll.d", &[12, 4, 0]),
        ("st.d", &[6, 4, 8]),
        ("ld.d", &[13, 4, 8]),
        ("st.d", &[7, 4, 8]),
        ("or", &[14, 5, 0]),
        ("sc.q", &[14, 8, 4]),
        ("add.d", &[15, 15, 14]),
        ("addi.d", &[16, 16, -1]),
        ("bnez", &[16, -32]),
        ("break", &[0]),
    ];
    lines.iter().map(|(name, operands)| word(name, operands).expect(name)).collect()
}

/// How many of the rounds stored.
fn stored(tier: Tier, in_steps: bool, (first, moment, after): (u64, u64, u64)) -> u64 {
    let mut core = Bare::on(tier, LEN);
    let bytes: Vec<u8> = code().iter().flat_map(|w| w.to_le_bytes()).collect();
    core.write(CODE, &bytes).expect("inside");
    core.write(PAIR + 8, &first.to_le_bytes()).expect("inside");
    core.may_write_code(false);
    let state = core.state_mut();
    state.pc = CODE;
    for (n, value) in [(4, PAIR), (5, 1), (6, moment), (7, after), (8, after), (16, ROUNDS)] {
        state.x[n] = value;
    }
    let trap = match in_steps {
        true => std::iter::repeat_with(|| core.step()).find(|trap| *trap != Trap::OutOfBudget),
        false => Some(core.run(1 << 20)),
    };
    assert_eq!(trap, Some(Trap::Break(0)));
    core.state().x[15]
}

#[test]
fn a_pair_is_compared_with_what_the_program_read() {
    for tier in [Tier::Interpreter, Tier::Blocks, Tier::Regions] {
        for in_steps in [false, true] {
            let stored = |halves| stored(tier, in_steps, halves);
            assert_eq!(stored((5, 7, 5)), 0, "{tier:?}: a half that was there for a moment");
            assert_eq!(stored((5, 7, 7)), ROUNDS, "{tier:?}: a half that came behind the link");
            assert_eq!(stored((5, 5, 5)), ROUNDS, "{tier:?}: a half that stayed");
        }
    }
}
