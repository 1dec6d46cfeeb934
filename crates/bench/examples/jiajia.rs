//! Runs the steps of `repro jiajia` whose claims begin with the first argument and prints them.

#![allow(clippy::print_stdout)]

use littoral_bench::peers::Peers;
use littoral_bench::repro::record::Place;
use littoral_bench::repro::{self, Options, jiajia};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = std::env::temp_dir().join(format!("littoral-jiajia-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let options = Options {
        quick: std::env::args().nth(2).is_some(),
        paper: false,
        peers: Peers::new(None),
        scratch: scratch.clone(),
        program: std::env::current_exe()?,
        only: std::env::args().nth(1),
    };
    let place = Place::default();
    let saved = repro::run(jiajia::SYSTEM, jiajia::steps(), &options, place, |_, _, _| ())?;
    std::fs::remove_dir_all(&scratch)?;
    println!("{}", serde_json::to_string_pretty(&saved.run.claims)?);
    Ok(())
}
