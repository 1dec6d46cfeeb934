//! Measures the ZB+-tree's claims and prints each beside its target.
//!
//! Run: `cargo run --release -p littoral-bench --example zbtree --
//! [quick|paper|tables|ratios|counts|times|resets|fig21|hotcold|crash] [SEED]`
#![allow(clippy::print_stdout)] // an example prints

use littoral_bench::Result;
use littoral_bench::claims::Targets;
use littoral_bench::zbtree::figures::{Bench, Measured};

fn measure(bench: &mut Bench, part: &str) -> Result<Vec<Measured>> {
    match part {
        "tables" => bench.tables(3),
        "ratios" => bench.ratios(),
        "counts" => bench.counts(500_000),
        "times" => bench.times(3),
        "resets" => bench.resets(),
        "fig21" => bench.conventional(),
        "crash" => bench.crash(20_000),
        "hotcold" => bench.hot_cold(),
        "paper" => bench.all(false),
        _ => bench.all(true),
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let part = args.next().unwrap_or_default();
    let targets = Targets::of("zbtree")?;
    let seed = args.next().and_then(|s| s.parse().ok()).unwrap_or(targets.seed);
    for (id, figure) in measure(&mut Bench::new(seed), &part)? {
        let claim = targets.get(&id).measured(&figure);
        let ours = claim.ours.unwrap_or(f64::NAN);
        println!("{id} {ours:.4} (target {}) {:?}: {}", claim.target, claim.status, claim.why);
    }
    Ok(())
}
