//! A function that is rewritten before each call: the new code runs, on either tier, and a
//! translation is made only of code that stays.

use littoral_la64::bare::Bare;
use littoral_la64::interp::{Tier, Trap};
use littoral_la64::isa;

const CALLER: u64 = 0x1000;
const FUNCTION: u64 = 0x4000;

fn word(mnemonic: &str, operands: &[i64]) -> u32 {
    isa::encode(isa::find(mnemonic).expect(mnemonic), operands).expect("operands fit")
}

fn write(core: &mut Bare, at: u64, code: &[u32]) {
    let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    core.write(at, &bytes).expect("inside");
}

/// A core with a caller of the function: `ibar`, the call, `break`.
fn prepared(tier: Tier) -> Bare {
    let mut core = Bare::on(tier, 1 << 20);
    let offset = (FUNCTION - CALLER) as i64 - 4;
    write(&mut core, CALLER, &[word("ibar", &[0]), word("bl", &[offset]), word("break", &[0])]);
    core
}

fn rewrite(core: &mut Bare, answer: i64) {
    let code = [word("addi.d", &[4, 0, answer]), word("jirl", &[0, 1, 0])];
    write(core, FUNCTION, &code);
}

/// What the function answers.
fn call(core: &mut Bare) -> u64 {
    core.state_mut().pc = CALLER;
    assert_eq!(core.run(10_000), Trap::Break(0));
    core.state().x[4]
}

#[test]
fn the_code_that_was_written_last_runs() {
    for tier in [Tier::Interpreter, Tier::Blocks] {
        let mut core = prepared(tier);
        for n in 0..1500 {
            rewrite(&mut core, n);
            assert_eq!(call(&mut core), n as u64, "{tier:?}");
        }
    }
}

#[test]
fn code_that_changes_often_is_translated_seldom() {
    let mut core = prepared(Tier::Blocks);
    for n in 0..1500 {
        rewrite(&mut core, n);
        call(&mut core);
    }
    assert!(core.translations() < 30, "{} translations", core.translations());
}

#[test]
fn code_that_stays_is_translated_again() {
    let mut core = prepared(Tier::Blocks);
    for n in 0..2 {
        rewrite(&mut core, n);
        call(&mut core);
    }
    let before = core.translations();
    for _ in 0..200 {
        assert_eq!(call(&mut core), 1);
    }
    // On a host without the translator there is none before and none after.
    assert!(core.translations() > before || before == 0, "{before}");
}
