//! `la64`: runs LoongArch Linux programs on this machine, and shows their instructions.
//!
//! Exit status: the guest's; otherwise 2 for usage, 3 for the environment, 4 for a file that is no
//! LoongArch program.

use clap::{Parser, Subcommand};
use littoral_la64::error::Result;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "la64", version, about = "Runs LoongArch Linux programs")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program.
    Run(Run),
    /// Print the instructions of a program's executable segments.
    Disasm {
        /// ELF file.
        file: PathBuf,
    },
    /// Print the line that makes the kernel start LoongArch programs through this command.
    Binfmt,
}

#[derive(clap::Args)]
struct Run {
    /// Look absolute paths up here first.
    #[arg(short = 'L', long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// Report retired instructions at exit.
    #[arg(long)]
    stats: bool,
    /// Name each system call on stderr.
    #[arg(long)]
    strace: bool,
    /// Name each instruction on stderr.
    #[arg(long)]
    trace: bool,
    /// The program's own name for itself.
    #[arg(long, value_name = "NAME")]
    argv0: Option<OsString>,
    /// Program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

fn main() -> ExitCode {
    match command(Cli::parse_from(arguments()).command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            use std::io::Write as _;
            // With stderr closed there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "la64: {e}");
            ExitCode::from(e.class().exit_code())
        }
    }
}

/// The arguments; under the name `la64-run`, which binfmt_misc uses, with `run` put first.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let name = arguments.first().map(PathBuf::from);
    if name.is_some_and(|n| n.file_name().is_some_and(|f| f == "la64-run")) {
        arguments.splice(1..1, ["run".into(), "--".into()]);
    }
    arguments
}

fn command(command: Command) -> Result<()> {
    match command {
        Command::Run(run) => start(run),
        Command::Disasm { file } => {
            littoral_la64::tool::disasm(&file, &mut std::io::stdout().lock())
        }
        Command::Binfmt => littoral_la64::tool::binfmt(&mut std::io::stdout().lock()),
    }
}

fn start(run: Run) -> Result<()> {
    let own = std::env::current_exe().unwrap_or_else(|_| "la64".into());
    let options = littoral_la64::linux::Options {
        sysroot: run.sysroot,
        stats: run.stats,
        strace: run.strace,
        trace: run.trace,
        argv0: run.argv0,
        reexec: vec![own.into(), "run".into()],
    };
    let (program, arguments) = run.program.split_first().expect("invariant: clap requires one");
    littoral_la64::linux::run(options, program.as_ref(), arguments)
}
