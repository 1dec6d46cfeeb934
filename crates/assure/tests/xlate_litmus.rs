//! Translated litmus programs on threads in weak memory order: barriers forbid what x86-64 forbids,
//! and nothing else does. `littoral repro latx` has a million runs of it (`latx.litmus`), as has
//! `LITTORAL_CASES_TIMES=42` here.

use littoral_assure::xlate::litmus::{Rule, count};

/// Runs of each test: `LITTORAL_CASES_TIMES` times 4000.
fn runs() -> u64 {
    let times = std::env::var("LITTORAL_CASES_TIMES").ok().and_then(|t| t.parse().ok());
    4000 * times.unwrap_or(1)
}

#[test]
fn barriers_forbid_what_x86_forbids() {
    let runs = runs();
    for (litmus, seen) in count(17, runs, true) {
        println!("{} with barriers: {seen} of {runs}", litmus.name);
        match litmus.rule {
            Rule::Forbidden | Rule::Fenced => assert_eq!(seen, 0, "{}", litmus.name),
            Rule::Allowed => assert!(seen > 0, "{} is never seen", litmus.name),
        }
    }
}

#[test]
fn without_barriers_forbidden_outcomes_are_seen() {
    let runs = runs();
    for (litmus, seen) in count(18, runs, false) {
        println!("{} without barriers: {seen} of {runs}", litmus.name);
        let is_fenced = litmus.rule == Rule::Fenced;
        assert_eq!(seen == 0, is_fenced, "{}: {seen} of {runs}", litmus.name);
    }
}
