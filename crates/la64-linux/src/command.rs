//! The command line of this crate, one for both who carry it: the stand-alone `la64` and
//! `littoral la64`, so that the two cannot differ.
//!
//! Invariants
//! - A program that ran decides the exit status; only what failed before it ran is an error here.
//!   Checked by `the_exit_status_and_the_count_are_the_guests`,
//!   `files_that_are_no_programs_are_named_errors`.
//! - Started under the name `la64-run`, which binfmt_misc uses, the first argument is the program.
//!   Checked by `under_the_name_of_binfmt_the_first_argument_is_the_program`.

use crate::error::{Error, Kind, Result};
use crate::options::Options;
use littoral_la64::front::Front;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name of [`Command::Run`].
const RUN: &str = "run";

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run a Linux program; its exit status is this command's
    #[command(name = RUN)]
    Run(Box<Run>),
    /// Print the instructions of a program's executable segments
    Disasm {
        /// An ELF file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the line that makes the kernel start LoongArch programs through this command
    Binfmt,
}

/// How to run a program.
#[derive(Debug, clap::Args)]
pub struct Run {
    #[command(flatten)]
    options: Options,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// This process's arguments; under the name `la64-run` with `prefix` (what leads to [`Command`])
/// and `run` put first.
pub fn arguments(prefix: &[&str]) -> Vec<OsString> {
    expanded(std::env::args_os().collect(), prefix)
}

fn expanded(mut arguments: Vec<OsString>, prefix: &[&str]) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|n| n == "la64-run") {
        arguments.splice(1..1, prefix.iter().chain(&[RUN, "--"]).map(OsString::from));
    }
    arguments
}

/// Does what the command says. `prefix` is what stands between this program's name and the
/// command; the guest's own `execve` starts this program again with it. `fronts` translate programs
/// of other architectures to LoongArch.
///
/// # Errors
/// The file cannot be read, or is not a program of LoongArch or of an architecture in `fronts`, or
/// the host cannot run programs.
pub fn run(command: Command, prefix: &[&str], fronts: &'static [&'static dyn Front]) -> Result<()> {
    match command {
        Command::Run(run) => start(*run, prefix, fronts),
        Command::Disasm { file } => {
            crate::tool::disasm(&file, fronts, &mut std::io::stdout().lock())
        }
        Command::Binfmt => crate::tool::binfmt(&mut std::io::stdout().lock()),
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "loongarch64")))]
fn start(run: Run, prefix: &[&str], fronts: &'static [&'static dyn Front]) -> Result<()> {
    let command = std::iter::once(own_path()?);
    let command = command.chain(prefix.iter().chain(&[RUN]).map(OsString::from)).collect();
    let Some((program, arguments)) = run.program.split_first() else {
        return Err(Error::new(Kind::Usage, "no program is named"));
    };
    crate::user::run(run.options, (command, fronts), program.as_ref(), arguments)
}

/// This command's own path; in a root without `/proc` the one it was started by.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "loongarch64")))]
fn own_path() -> Result<OsString> {
    let started_by = || std::env::args_os().next().filter(|name| Path::new(name).is_absolute());
    std::env::current_exe().map(OsString::from).or_else(|e| {
        let what = "cannot find this command's own path: mount /proc, or start it by a full path";
        started_by().ok_or_else(|| Error::with_source(Kind::Io, what, e))
    })
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "loongarch64"))))]
fn start(run: Run, _: &[&str], _: &'static [&'static dyn Front]) -> Result<()> {
    let what = "running Linux programs needs an x86-64 or LoongArch Linux host; disasm and binfmt work anywhere";
    Err(Error::new(Kind::Unsupported, format!("{:?}: {what}", run.program.first())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_the_name_of_binfmt_the_first_argument_is_the_program() {
        let list = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let given = list(&["/usr/bin/la64-run", "prog", "-x"]);
        let wanted = list(&["/usr/bin/la64-run", "la64", "run", "--", "prog", "-x"]);
        assert_eq!(expanded(given, &["la64"]), wanted);
        let plain = list(&["la64", "run", "prog"]);
        assert_eq!(expanded(plain.clone(), &[]), plain);
    }
}
