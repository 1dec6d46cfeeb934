//! Runs one system's steps and prints each claim beside its target: `littoral repro` without the
//! command, which builds faster.
//!
//! Run with `SYSTEM [quick|paper|all] [PREFIX]`:
//! `cargo run --release -p littoral-papers --example repro -- zbtree quick`
#![allow(clippy::print_stdout)] // an example prints

use std::collections::BTreeMap;
use std::time::Instant;

use littoral_bench::peers::Peers;
use littoral_bench::repro::record::Place;
use littoral_bench::repro::{self, Options};
use littoral_papers::SYSTEMS;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let names = SYSTEMS.map(|s| s.name).join(", ");
    let system = SYSTEMS.iter().find(|s| s.name == name).ok_or(format!("one of {names}"))?;
    let size = args.next().unwrap_or_default();
    let scratch = tempfile::tempdir()?;
    let options = Options {
        quick: size == "quick",
        paper: size == "paper",
        peers: Peers::new(None),
        scratch: scratch.path().to_owned(),
        program: std::env::current_exe()?,
        only: args.next(),
        kept: BTreeMap::new(),
    };
    let begin = Instant::now();
    let saved = repro::run(system, &options, Place::default(), |name, i, n| {
        println!("-- {i} of {n}: {name}, at {:.1} s", begin.elapsed().as_secs_f64());
    })?;
    for c in saved.run.claims {
        let ours = c.ours.unwrap_or(f64::NAN);
        println!("{} {ours:.4} (target {:?}) {:?}: {}", c.id, c.target, c.status, c.why);
    }
    println!("-- {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}
