//! Reads the emulated device for long with every fault on and says what was believed although
//! wrong.
//!
//! ```text
//! cargo run --release -p littoral-papers --example fault_soak -- 1000000000
//! ```
//!
//! Ten million reads take some 15 s of processor time, a thousand million some 25 minutes; an
//! optional second number is the seed. Exit code 1 when anything wrong was believed. Clock: count.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use littoral_papers::flash::media::{FaultFigures, faults_undetected};

fn number(text: Option<String>, default: u64) -> Option<u64> {
    text.map_or(Some(default), |t| t.parse().ok())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let reads = number(arguments.next(), 10_000_000);
    let seed = number(arguments.next(), 7);
    let (Some(reads), Some(seed)) = (reads, seed) else {
        eprintln!("usage: fault_soak [READS [SEED]]");
        return ExitCode::from(2);
    };
    match faults_undetected(reads, seed) {
        Ok(figures) => show(&figures),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(3)
        }
    }
}

fn show(figures: &FaultFigures) -> ExitCode {
    for (rule, plan, report) in &figures.rules {
        let (ok, failed) = (report.ok_count, report.failed_count);
        let (again, wrong) = (report.host.reissues_count, report.host.wrong_answers_count);
        println!(
            "{rule}: {ok} read, {failed} failed with a status, {again} asked again, {wrong} wrong answers seen"
        );
        println!("  plan: {plan}");
    }
    println!("canary: {} wrong reads believed, as it must", figures.canary_caught_count);
    println!("undetected: {} of {}", figures.undetected_count, figures.reads_count);
    ExitCode::from(u8::from(figures.undetected_count > 0))
}
