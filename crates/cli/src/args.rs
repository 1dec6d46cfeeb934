//! What the command line may say.
//!
//! Nouns come first (`littoral graph info`), a noun is absent until it is built, and every command
//! and long option is named in the book's reference page (a test below).

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::out::Format;

/// Run your graph on the storage and memory you have, or on a model of the part you are
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
    /// Turn results into one self-contained HTML page
    Report(ReportArgs),
    /// Print a shell's completion script, or the manual
    Completions(CompletionsArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Turn an edge list into a graph file
    Import(ImportArgs),
    /// Make a synthetic graph: 2^SCALE vertices, 16 edges a vertex
    Gen(GenArgs),
    /// Say what a graph file holds
    Info(FileArgs),
    /// Walk every invariant of a graph file, changing nothing
    Check(FileArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// An edge list: .el .wel .csv .tsv, a SNAP list, or the GAP suite's .sg .wsg; gzip or zstd too
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The graph file to write
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

/// What to take for granted about an edge list instead of finding out.
#[derive(Debug, Args)]
pub(crate) struct ReadingArgs {
    /// The input's format: el, wel, snap, csv, tsv, sg or wsg
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,
    /// What ids are: numbers or text
    #[arg(long, value_name = "KIND", value_parser = ["numbers", "text"])]
    pub(crate) ids: Option<String>,
    /// Edges lead from the first vertex to the second only
    #[arg(long, conflicts_with = "undirected")]
    pub(crate) directed: bool,
    /// Edges lead both ways
    #[arg(long)]
    pub(crate) undirected: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// Kronecker with Graph500's parameters, or uniform random
    #[arg(value_parser = ["kron", "urand"])]
    pub(crate) model: String,
    /// Power of two of the number of vertices
    #[arg(long, value_name = "S")]
    pub(crate) scale: u32,
    /// The graph is a function of model, scale and seed alone
    #[arg(long, value_name = "N", default_value_t = littoral::graph::generate::SEED)]
    pub(crate) seed: u64,
    /// The graph file to write
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// A graph file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

/// How the result is shown.
#[derive(Debug, Args)]
pub(crate) struct ShownArgs {
    /// Text for people, JSON for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Results written by `repro --json` or by `--format json`
    #[arg(required = true, value_name = "RUN.json")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where the page goes
    #[arg(short, long, value_name = "OUT.html")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell, or `man` for the manual pages
    #[arg(value_parser = ["bash", "elvish", "fish", "man", "powershell", "zsh"])]
    pub(crate) shell: String,
    /// With `man`: write one page a command into this folder instead of the first page to the
    /// output
    #[arg(long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
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
