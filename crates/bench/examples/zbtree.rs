//! Measures the ZB+-tree's claims and prints each beside its target: `repro zbtree` without the
//! command.
//!
//! Run: `cargo run --release -p littoral-bench --example zbtree -- [quick|paper|all] [PREFIX]`
#![allow(clippy::print_stdout)] // an example prints

use std::path::PathBuf;
use std::time::Instant;

use littoral_bench::Result;
use littoral_bench::peers::Peers;
use littoral_bench::repro::record::Place;
use littoral_bench::repro::{self, Options, zbtree};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let size = args.next().unwrap_or_default();
    let options = Options {
        quick: size == "quick",
        paper: size == "paper",
        peers: Peers::default(),
        scratch: PathBuf::new(),
        program: PathBuf::new(),
        only: args.next(),
    };
    let begin = Instant::now();
    let steps = zbtree::steps()?;
    let saved = repro::run(zbtree::SYSTEM, steps, &options, Place::default(), |name, i, n| {
        println!("-- {i} of {n}: {name}, at {:.1} s", begin.elapsed().as_secs_f64());
    })?;
    for c in saved.run.claims {
        let ours = c.ours.unwrap_or(f64::NAN);
        println!("{} {ours:.4} (target {:?}) {:?}: {}", c.id, c.target, c.status, c.why);
    }
    println!("-- {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}
