//! Programs over shared memory, to be run alone or by `littoral dsm run -n 4 programs NAME`.
//!
//! The paper's two codes and small versions of its six applications, by the safe interface; code1
//! and sor by raw pointers too. Every program gives an answer, a list of numbers that every rank
//! ends with; rank 0 runs the same program as a job of one process and compares. Where a result has
//! a property of its own (sorted, a factorisation, a tour) the program checks that as well.
//!
//! Usage: `programs NAME [SIZE [STEPS]]`. Exit code 0 when the answers agree, 1 when they do not.

#![allow(clippy::print_stdout, clippy::print_stderr)] // Reason: a program for a terminal.

mod codes;
mod is;
mod lu;
mod ocean;
mod raw;
mod sor;
mod tsp;
mod water;

use std::process::ExitCode;

use littoral_dsm::Result;
use littoral_dsm::job::Job;
use littoral_dsm::runtime::Config;
use littoral_dsm::runtime::carrier::Solo;

type Program = fn(&mut Job, usize, usize) -> Result<Vec<f64>>;

/// Name, program, size and steps where none are given, how far answers may differ.
const PROGRAMS: [(&str, Program, usize, usize, f64); 10] = [
    ("code1", codes::code1, 1, 1000, 0.0),
    ("code1-raw", raw::code1, 1, 1000, 0.0),
    ("code2", codes::code2, 1, 200, 0.0),
    ("sor", sor::run, 128, 20, 0.0),
    ("sor-raw", raw::sor, 128, 20, 0.0),
    ("lu", lu::run, 96, 16, 0.0),
    ("is", is::run, 1 << 15, 512, 0.0),
    ("tsp", tsp::run, 10, 0, 0.0),
    ("water", water::run, 96, 3, 1e-9),
    ("ocean", ocean::run, 64, 3, 0.0),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    run(&arguments)
}

/// Runs the program that the arguments name; also what the tests' ranks do.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let name = arguments.first().map_or("", String::as_str);
    let Some(program) = PROGRAMS.iter().find(|p| p.0 == name) else {
        let names: Vec<&str> = PROGRAMS.iter().map(|p| p.0).collect();
        eprintln!("programs NAME [SIZE [STEPS]]; the names are {}", names.join(", "));
        return ExitCode::from(2);
    };
    let number =
        |i: usize, default: usize| arguments.get(i).map_or(Some(default), |text| text.parse().ok());
    let (Some(size), Some(steps)) = (number(1, program.2), number(2, program.3)) else {
        eprintln!("SIZE and STEPS are numbers");
        return ExitCode::from(2);
    };
    match check(program, size, steps) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("programs {name}: {e}");
            ExitCode::from(e.class().exit_code())
        }
    }
}

fn check(
    &(name, program, _, _, within): &(&str, Program, usize, usize, f64),
    size: usize,
    steps: usize,
) -> Result<bool> {
    let mut job = Job::join()?;
    let (rank, ranks) = (job.rank(), job.ranks());
    // The codes count rounds of every rank: one process makes all of them.
    let alone = if name.starts_with("code1") { steps * usize::from(ranks) } else { steps };
    let ours = program(&mut job, size, steps)?;
    let counts = job.finish()?;
    if rank != 0 {
        return Ok(true);
    }
    let mut one = Job::start(Box::new(Solo), Config::default())?;
    let theirs = program(&mut one, size, alone)?;
    one.finish()?;
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= within * a.abs().max(b.abs());
    let agree = ours.len() == theirs.len() && ours.iter().zip(&theirs).all(near);
    let verdict = if agree { "agrees with one process" } else { "DIFFERS from one process" };
    let sum: f64 = ours.iter().sum();
    println!("{name} {size} {steps} on {ranks} ranks: {sum:.6e} {verdict}");
    let (faults, misses) = (counts.memory.faults, counts.protocol.misses);
    println!("rank 0: {} messages, {misses} misses, {faults} faults", counts.messages);
    Ok(agree)
}
