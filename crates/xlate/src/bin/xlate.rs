//! `xlate`: `la64` with translators: runs Linux programs of other architectures on the LoongArch
//! engine, and shows their instructions.
//!
//! Exit status: the guest's; otherwise 2 for usage, 3 for the environment, 4 for a file that is not
//! a program, 5 for a program of another kind or a host that cannot run programs.

use clap::Parser;
use littoral_la64::front::Front;
use littoral_la64_linux::command::{self, Command};
use littoral_xlate::mips64::front::Latm;
use littoral_xlate::x86::front::Latx;
use std::process::ExitCode;

static FRONTS: [&dyn Front; 2] = [&Latm, &Latx];

#[derive(Parser)]
#[command(name = "xlate", version, max_term_width = 100)]
#[command(about = "Runs MIPS64, x86-64 and LoongArch Linux programs on a LoongArch engine")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(command::arguments(&[]));
    match command::run(cli.command, &[], &FRONTS) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            use std::io::Write as _;
            // With stderr closed an error cannot be shown.
            let _ = writeln!(std::io::stderr(), "xlate: {e}");
            ExitCode::from(e.class().exit_code())
        }
    }
}
