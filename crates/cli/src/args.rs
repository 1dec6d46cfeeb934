//! What the command line may say.
//!
//! Nouns come first (`littoral graph info`), a noun is absent until it is built, and every command
//! and long option is named in the book's reference page (a test below).

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{
    ArgAction, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum,
};

use crate::out::{self, Format};

mod bench;
mod choice;
mod doctor;
mod dsm;
mod examples;
mod graph;
mod heap;
mod kv;
mod machine;
mod on;
mod push;
mod report;
mod repro;

pub(crate) use bench::{BenchCommand, BenchGraphArgs, BenchHeapArgs, BenchRingArgs};
pub(crate) use doctor::DoctorArgs;
pub(crate) use dsm::{DsmBenchArgs, DsmCommand, DsmModelArgs, DsmRunArgs};
pub(crate) use graph::{
    AnswerFormat, ConvertArgs, DegreeArgs, FileArgs, GenArgs, GraphCommand, ImportArgs, KernelArgs,
    MakingArgs, NeighborsArgs, OutputArgs, PathArgs, ReadingArgs, RunArgs, WhatifArgs,
};
pub(crate) use heap::{HeapCommand, HeapCreateArgs, PoolArgs};
pub(crate) use kv::{
    BenchKvArgs, KvAtArgs, KvBackupArgs, KvCommand, KvCreateArgs, KvGetArgs, KvKeyArgs, KvLoadArgs,
    KvOpenArgs, KvPutArgs, KvRepairArgs, KvRestoreArgs, KvScanArgs, ZonesArgs,
};
pub(crate) use machine::{
    MachineArgs, MachineCheckArgs, MachineNewArgs, MachineVerb, ProfilesArgs,
};
pub(crate) use on::{MachineFileArgs, OnArgs};
pub(crate) use push::{
    CoresSpan, GridSetArgs, PagesArgs, PolicyWord, PushCommand, PushGenArgs, PushGridArgs,
    PushLoadArgs, PushRunArgs, PushServeArgs, PushWhatifArgs, QueryWord, ScanArgs,
};
pub(crate) use report::{CompletionsArgs, ReportArgs};
pub(crate) use repro::ReproArgs;

/// Run your data on the storage and memory you have, or on a model of the part you are
/// considering.
///
/// Every number says which clock stands behind it: count, virtual, paced or wall.
#[derive(Debug, Parser)]
#[command(name = "littoral", version = version(), max_term_width = 100)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
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
    /// What this host offers, and what to do about what is missing
    Doctor(DoctorArgs),
    /// LoongArch, MIPS64 and x86-64 programs on this host, translated or interpreted
    #[command(subcommand)]
    La64(littoral::la64_linux::command::Command),
    /// Heaps of durable transactions in a file
    #[command(subcommand)]
    Heap(HeapCommand),
    /// Scans on devices that compute on pages before they send them
    #[command(subcommand)]
    Push(PushCommand),
    /// Programs whose processes share memory, kept coherent by locks
    #[command(subcommand)]
    Dsm(DsmCommand),
    /// Measure a part by itself
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Run a paper's system and judge its claims
    Repro(ReproArgs),
    /// Turn results into one self-contained HTML page
    Report(ReportArgs),
    /// Print a shell's completion script, or the manual
    Completions(CompletionsArgs),
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct GlobalArgs {
    /// Say what is opened and chosen; twice: recoveries and fallbacks too; thrice: everything
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Say nothing but errors, and draw no progress
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Log at a level (error, warn, info, debug, trace) to standard error, or to a file
    #[arg(long, global = true, value_name = "FILE|LEVEL")]
    pub(crate) log: Option<String>,
    /// When help, errors and the log are coloured; auto honours NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// When output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// Version, revision and the revision's date.
fn version() -> &'static str {
    littoral_bench::host::version()
}

/// The command line's definition, with examples and exit codes.
pub(crate) fn command() -> clap::Command {
    examples::added_to(Cli::command())
}

/// Reads `arguments`.
///
/// # Errors
/// The exit code where there is nothing to run: help and version have been printed, or a mistake
/// named.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Cli, ExitCode> {
    let color = match color_asked(&arguments) {
        Color::Auto => clap::ColorChoice::Auto,
        Color::Always => clap::ColorChoice::Always,
        Color::Never => clap::ColorChoice::Never,
    };
    if let Some(cli) = of_guest(&arguments) {
        return Ok(cli);
    }
    let matches = command().color(color).try_get_matches_from(arguments).map_err(|e| print(&e))?;
    Cli::from_arg_matches(&matches).map_err(|e| print(&e))
}

/// The part of the command line that runs guests. Building all of it takes longer than a start.
#[derive(Debug, Parser)]
#[command(name = "littoral")]
struct Guests {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: GuestNoun,
}

#[derive(Debug, Subcommand)]
enum GuestNoun {
    #[command(subcommand)]
    La64(littoral::la64_linux::command::Command),
}

/// Reads arguments that run a guest; `None` for all others, for help and for mistakes.
fn of_guest(arguments: &[OsString]) -> Option<Cli> {
    if arguments.get(1).is_none_or(|noun| noun != "la64") {
        return None;
    }
    let Guests { global, command: GuestNoun::La64(command) } =
        Guests::try_parse_from(arguments).ok()?;
    Some(Cli { global, command: Command::La64(command) })
}

/// Prints help, version or a mistake; the exit code is clap's unless printing fails.
fn print(said: &clap::Error) -> ExitCode {
    match said.print() {
        Ok(()) => ExitCode::from(said.exit_code() as u8),
        Err(e) => out::cannot_write(&e).report(),
    }
}

/// What `--color` says before the arguments are read: their mistakes are coloured by it too.
fn color_asked(arguments: &[OsString]) -> Color {
    let words: Vec<&str> = arguments.iter().filter_map(|a| a.to_str()).collect();
    let words = words.split(|w| *w == "--").next().unwrap_or_default();
    let after = words.windows(2).rev().find(|pair| pair[0] == "--color").map(|pair| pair[1]);
    let joined = words.iter().rev().find_map(|w| w.strip_prefix("--color="));
    let asked = joined.or(after).unwrap_or("auto");
    Color::from_str(asked, false).unwrap_or(Color::Auto)
}

/// How the result is shown.
#[derive(Debug, Args)]
pub(crate) struct ShownArgs {
    /// Text for people, JSON for programs
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = None::<&'static str>)]
    pub(crate) format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;
    const REFERENCE: &str = include_str!("../../../docs/book/src/reference/cli.md");

    #[test]
    fn guests_are_read_as_by_the_whole_definition() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let whole = |line: &str| {
            let matches = command().try_get_matches_from(words(line)).ok()?;
            Cli::from_arg_matches(&matches).ok()
        };
        for line in [
            "littoral la64 run true",
            "littoral la64 run --tier 0 --stats -E A=b -L /root prog --stats -q",
            "littoral la64 -v run --look 5 prog",
            "littoral la64 run --log debug --color never prog x",
        ] {
            let (short, whole) = (of_guest(&words(line)), whole(line));
            assert_eq!(format!("{:?}", short.unwrap()), format!("{:?}", whole.unwrap()), "{line}");
        }
        for line in ["littoral la64 run", "littoral la64 --help", "littoral doctor", "littoral"] {
            assert!(of_guest(&words(line)).is_none(), "{line}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn colour_is_known_before_mistakes_are_shown() {
        for (line, wanted) in [
            ("littoral graph", Color::Auto),
            ("littoral --color never graph", Color::Never),
            ("littoral graph --color=always --color", Color::Always),
            ("littoral dsm run -n 2 -- prog --color never", Color::Auto),
            ("littoral --color purple", Color::Auto),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(color_asked(&words), wanted, "{line}");
        }
    }

    /// Verbs that take no machine file, and why.
    const WITHOUT_MACHINE: [(&str, &str); 15] = [
        ("graph import", "a file of the host becomes another"),
        ("graph convert", "a file of the host becomes another"),
        ("graph gen", "writes a file of the host"),
        ("machine profiles", "shows profiles, opens nothing"),
        ("machine check", "the machine file is its argument"),
        ("machine new", "writes a machine file"),
        ("doctor", "looks at the host, at no device"),
        ("la64 run", "runs a program of the host's file system"),
        ("la64 disasm", "reads a program's file"),
        ("la64 binfmt", "prints a registration"),
        ("dsm model", "models the paper's machine"),
        ("bench graph", "compares a profile's model with DRAM"),
        ("repro", "runs on the profiles of the paper"),
        ("report", "reads results"),
        ("completions", "prints the shell's completions"),
    ];

    fn leaves<'a>(
        command: &'a clap::Command,
        path: &str,
        found: &mut Vec<(String, &'a clap::Command)>,
    ) {
        for verb in command.get_subcommands().filter(|c| c.get_name() != "help") {
            let path = format!("{path} {}", verb.get_name()).trim_start().to_owned();
            match verb.has_subcommands() {
                true => leaves(verb, &path, found),
                false => found.push((path, verb)),
            }
        }
    }

    #[test]
    fn every_verb_takes_a_machine_file_or_has_its_reason() {
        let (command, mut found) = (command(), Vec::new());
        leaves(&command, "", &mut found);
        assert!(found.len() > 40, "{found:?}");
        let is_machine = |a: &clap::Arg| {
            let names = a.get_long_and_visible_aliases().unwrap_or_default();
            names.contains(&"machine")
        };
        let takes = |verb: &clap::Command| verb.get_arguments().any(is_machine);
        for (path, _) in found.iter().filter(|(_, verb)| !takes(verb)) {
            let has_reason = WITHOUT_MACHINE.iter().any(|(verb, _)| verb == path);
            assert!(has_reason, "`littoral {path}` takes no --machine: give it one or a reason");
        }
        for (verb, _) in WITHOUT_MACHINE {
            assert!(found.iter().any(|(path, _)| path == verb), "`{verb}` is no verb any more");
        }
    }

    /// The verbs of every command that say the same as another one beside them, or nothing.
    fn vague(command: &clap::Command, path: &str, list: &mut Vec<String>) {
        let mut said = std::collections::BTreeSet::new();
        for verb in command.get_subcommands().filter(|c| c.get_name() != "help") {
            let path = format!("{path} {}", verb.get_name());
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            if about.is_empty() || !said.insert(about.clone()) {
                list.push(format!("{path}: `{about}`"));
            }
            vague(verb, &path, list);
        }
    }

    #[test]
    fn every_verb_says_what_it_alone_does() {
        let mut list = Vec::new();
        vague(&command(), "littoral", &mut list);
        assert!(list.is_empty(), "{list:#?}");
    }

    /// The verbs that have no `--format`.
    fn without_format(command: &clap::Command, path: &str, list: &mut Vec<String>) {
        let verbs = || command.get_subcommands().filter(|c| c.get_name() != "help");
        let has_format = command.get_arguments().any(|a| a.get_long() == Some("format"));
        if verbs().next().is_none() && !has_format {
            list.push(path.trim_start().to_owned());
        }
        for verb in verbs() {
            without_format(verb, &format!("{path} {}", verb.get_name()), list);
        }
    }

    #[test]
    fn every_verb_without_json_is_named_in_the_book() {
        let book = include_str!("../../../docs/book/src/reference/schemas.md");
        let (_, table) = book.split_once("have no `--format`").expect("the table");
        let mut list = Vec::new();
        without_format(&command(), "", &mut list);
        let unnamed: Vec<&String> =
            list.iter().filter(|verb| !table.contains(&format!("`{verb}`"))).collect();
        assert!(unnamed.is_empty(), "{unnamed:?} of {list:?}");
        assert!(list.len() > 4 && !table.contains("`kv get`"), "{list:?}");
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
        missing(&command(), "littoral", &mut list);
        assert!(list.is_empty(), "docs/book/src/reference/cli.md does not name: {list:?}");
    }
}
