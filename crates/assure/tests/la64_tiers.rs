//! The translator against the interpreter: random programs of every instruction, with branches,
//! loops, faults and budgets that end inside blocks, are equal at every exit.
//!
//! `LA64_TIER_BLOCKS` is the number of blocks (a slice of a few seconds by default),
//! `LA64_TIER_SEED` the first seed.

use littoral_assure::la64::tiers::{Outcome, compare, compare_kept};
use littoral_la64::interp::Tier;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |v| v.parse().expect("a number"))
}

#[test]
fn tiers_agree_at_every_exit() {
    let seed = number("LA64_TIER_SEED", 1);
    println!("{}", agree(Tier::Blocks, seed).1);
}

#[test]
fn regions_agree_at_every_exit() {
    let seed = number("LA64_TIER_SEED", 1);
    let (regions, words) = agree(Tier::Regions, seed);
    assert!(regions > 100 || littoral_la64::bare::Alarm::new().is_none(), "{words}");
    println!("{words}");
}

/// The regions that were compared, and all that was in words.
fn agree(tier: Tier, seed: u64) -> (u64, String) {
    let outcome = compare(tier, seed, number("LA64_TIER_BLOCKS", 20_000));
    assert!(outcome.different.is_empty(), "seed {seed}: {}", outcome.different.join("\n"));
    assert!(outcome.traps > 100 && outcome.exits > outcome.traps, "{outcome:?}");
    // A host without the translator has no alarm.
    let is_alarmed = littoral_la64::bare::Alarm::new().is_some();
    assert!(outcome.interrupted > 0 || !is_alarmed, "{outcome:?}");
    let Outcome { exits, interrupted, regions, .. } = outcome;
    (regions, format!("{exits} exits, {interrupted} by signals, {regions} regions"))
}

#[test]
fn code_that_was_kept_agrees_elsewhere() {
    let seed = number("LA64_TIER_SEED", 1);
    let Some(outcome) = compare_kept(seed, number("LA64_TIER_BLOCKS", 4_000)) else { return };
    assert!(outcome.different.is_empty(), "seed {seed}: {}", outcome.different.join("\n"));
    assert!(outcome.traps > 20 && outcome.blocks_read > outcome.blocks / 4, "{outcome:?}");
    println!("{} exits, {} blocks read", outcome.exits, outcome.blocks_read);
}
