//! `littoral la64`: the stand-alone `la64`, word for word; both call one function.

use std::ffi::OsString;

use littoral::la64_linux::command::{self, Command};

use littoral::la64::front::Front;
use littoral::xlate::mips64::front::Latm;
use littoral::xlate::x86::front::Latx;

use crate::failure::Outcome;

/// What leads from this program's name to the commands of `la64`.
const PREFIX: [&str; 1] = ["la64"];

/// What runs programs of other architectures than LoongArch.
static FRONTS: [&dyn Front; 2] = [&Latm, &Latx];

/// This process's arguments; started as `la64-run`, those of `littoral la64 run`.
pub(crate) fn arguments() -> Vec<OsString> {
    command::arguments(&PREFIX)
}

/// Does what the command says; a program that ran ends this process with its own status.
pub(crate) fn run(command: Command) -> Outcome {
    Ok(command::run(command, &PREFIX, &FRONTS)?)
}
