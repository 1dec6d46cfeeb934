//! The `littoral` command: `littoral <noun> <verb>`, text for people, `--format json` for programs.
//!
//! - Results go to standard output, progress and messages to standard error.
//! - The exit code is the failure's class (`docs/book/src/reference/exit-codes.md`); nothing else
//!   decides it.
//! - A closed pipe ends the run quietly with code 0.
//! - Files are written whole or not at all, also under Ctrl-C.

mod args;
mod bench;
mod completions;
mod doctor;
mod dsm;
mod failure;
mod graph;
mod heap;
mod interrupt;
mod kv;
mod la64;
mod logging;
mod machine;
mod out;
mod progress;
mod push;
mod report;
mod repro;

use std::process::ExitCode;

use args::{Cli, Command};
use failure::Outcome;

fn main() -> ExitCode {
    littoral_bench::host::built_from(env!("LITTORAL_REVISION"), env!("LITTORAL_REVISION_DATE"));
    // `repro jiajia` measures jobs whose ranks are processes of this program.
    if let Some(code) = littoral_papers::jiajia::be_a_rank() {
        return code;
    }
    let cli = match args::parse(la64::arguments()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: Cli) -> Outcome {
    logging::install(&cli.global)?;
    progress::set_quiet(cli.global.quiet);
    // A guest of la64 has the process to itself, Ctrl-C too.
    if !matches!(cli.command, Command::La64(_)) {
        interrupt::install()?;
    }
    match cli.command {
        Command::Graph(command) => graph::run(&command),
        Command::Dsm(command) => dsm::run(&command),
        Command::Heap(command) => heap::run(&command),
        Command::Push(command) => push::run(&command),
        Command::Bench(command) => bench::run(&command),
        Command::Kv(command) => kv::run(&command),
        Command::La64(command) => la64::run(command),
        Command::Machine(args) => machine::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Repro(command) => repro::run(&command),
        Command::Report(args) => report::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
