//! `la64`: runs LoongArch Linux programs on this machine, and shows their instructions.
//!
//! Exit status: the guest's; otherwise 2 for usage, 3 for the environment, 4 for a file that is no
//! LoongArch program, 5 for a host that cannot run any.

use clap::Parser;
use littoral_la64_linux::command::{self, Command};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "la64", version, about = "Runs LoongArch Linux programs", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(command::arguments(&[]));
    match command::run(cli.command, &[], &[]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            use std::io::Write as _;
            // With stderr closed an error cannot be shown.
            let _ = writeln!(std::io::stderr(), "la64: {e}");
            ExitCode::from(e.class().exit_code())
        }
    }
}
