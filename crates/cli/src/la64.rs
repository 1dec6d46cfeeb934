//! `littoral la64`: the stand-alone `la64`, word for word; both call one function.

use std::ffi::OsString;

use littoral::la64_linux::command::{self, Command};

use crate::failure::Outcome;

/// What leads from this program's name to the commands of `la64`.
const PREFIX: [&str; 1] = ["la64"];

/// This process's arguments; started as `la64-run`, those of `littoral la64 run`.
pub(crate) fn arguments() -> Vec<OsString> {
    command::arguments(&PREFIX)
}

/// Does what the command says; a program that ran ends this process with its own status.
pub(crate) fn run(command: Command) -> Outcome {
    Ok(command::run(command, &PREFIX)?)
}
