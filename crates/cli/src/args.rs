//! What the command line may say.
//!
//! Nouns come first (`littoral graph info`), a noun is absent until it is built, and every command
//! and long option is named in the book's reference page (a test below).

use clap::{Args, Parser, Subcommand};

use crate::out::Format;

mod bench;
mod dsm;
mod graph;
mod heap;
mod kv;
mod machine;
mod report;
mod repro;

pub(crate) use bench::{BenchCommand, BenchHeapArgs, BenchRingArgs};
pub(crate) use dsm::{DsmBenchArgs, DsmCommand, DsmModelArgs, DsmRunArgs};
pub(crate) use graph::{
    FileArgs, GenArgs, GraphCommand, ImportArgs, ReadingArgs, RunArgs, WhatifArgs,
};
pub(crate) use heap::{HeapCommand, HeapCreateArgs, PoolArgs};
pub(crate) use kv::{
    BenchKvArgs, KvAtArgs, KvCommand, KvCreateArgs, KvLoadArgs, KvPutArgs, KvScanArgs, MachineVerb,
    ReproZbtreeArgs, ZonesArgs,
};
pub(crate) use machine::MachineArgs;
pub(crate) use report::{CompletionsArgs, ReportArgs};
pub(crate) use repro::{ReproArgs, ReproCommand};

/// Run your data on the storage and memory you have, or on a model of the part you are
/// considering.
///
/// Every number says which clock stands behind it: count, virtual, paced or wall.
#[derive(Debug, Parser)]
#[command(name = "littoral", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Graphs whose edges live on a medium
    #[command(subcommand)]
    Graph(GraphCommand),
    /// Ordered key-value stores in directories, on zones
    #[command(subcommand)]
    Kv(KvCommand),
    /// What is real on this host, and what a machine's devices are
    Machine(MachineArgs),
    /// LoongArch programs on this host, interpreted exactly
    #[command(subcommand)]
    La64(littoral::la64::command::Command),
    /// Heaps of durable transactions in a file
    #[command(subcommand)]
    Heap(HeapCommand),
    /// Programs whose processes share memory, kept coherent by locks
    #[command(subcommand)]
    Dsm(DsmCommand),
    /// Measure a part by itself
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Run a paper's system and judge its claims
    #[command(subcommand)]
    Repro(ReproCommand),
    /// Turn results into one self-contained HTML page
    Report(ReportArgs),
    /// Print a shell's completion script, or the manual
    Completions(CompletionsArgs),
}

/// How the result is shown.
#[derive(Debug, Args)]
pub(crate) struct ShownArgs {
    /// Text for people, JSON for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    const REFERENCE: &str = include_str!("../../../docs/book/src/reference/cli.md");

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    fn missing(command: &clap::Command, path: &str, list: &mut Vec<String>) {
        if !REFERENCE.contains(&format!("`{path}")) {
            list.push(path.to_owned());
        }
        let options = command.get_arguments().filter_map(|a| a.get_long());
        for option in options.filter(|o| !["help", "version"].contains(o)) {
            if !REFERENCE.contains(&format!("--{option}")) {
                list.push(format!("{path} --{option}"));
            }
        }
        for verb in command.get_subcommands().filter(|c| c.get_name() != "help") {
            missing(verb, &format!("{path} {}", verb.get_name()), list);
        }
    }

    #[test]
    fn every_command_and_option_is_in_the_book() {
        let mut list = Vec::new();
        missing(&Cli::command(), "littoral", &mut list);
        assert!(list.is_empty(), "docs/book/src/reference/cli.md does not name: {list:?}");
    }
}
