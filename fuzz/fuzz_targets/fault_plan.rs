//! Fault plans, raw and as edits of a whole one: refused by part, or a plan whose replay string is
//! the same plan.
//!
//! Canary: before the first input the whole plan must be taken and act, and a misspelt fault
//! refused.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_base::fault::{Op, Plan, Verdict};

const WHOLE: &str = "seed=7 read:drop=1/4 write:torn=1/3 flush:fail=1/9 send:delay=1/2 zone:fail=1/5 \
                     task:corrupt=1/7 @2=fail @11=duplicate cut=40";

/// Operations that a plan judges: more than the whole plan's cut.
const OPERATIONS: usize = 64;

fn verdicts(plan: &mut Plan) -> Vec<Verdict> {
    (0..OPERATIONS).map(|i| plan.judge(Op::ALL[i % Op::ALL.len()])).collect()
}

fn read(text: &str) -> Option<Vec<Verdict>> {
    let mut plan: Plan = text.parse().ok()?;
    let replay = plan.replay();
    let mut again: Plan = replay.parse().expect("a replay string is a plan");
    assert_eq!(again.replay(), replay, "the replay string of {text:?} says itself");
    let found = verdicts(&mut plan);
    assert_eq!(found, verdicts(&mut again), "the replay string of {text:?} repeats it");
    Some(found)
}

static CANARY: LazyLock<()> = LazyLock::new(|| {
    let found = read(WHOLE).expect("canary: the whole plan");
    assert!(found[2] == Verdict::Fail && found[50] == Verdict::Cut, "canary: {found:?}");
    assert!(read(&WHOLE.replace("torn", "tron")).is_none(), "canary: an unknown fault");
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    littoral_fuzz::text(WHOLE, data).map(|text| read(&text));
});
