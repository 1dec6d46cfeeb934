//! What the command line may say.
//!
//! Nouns come first (`littoral graph info`), a noun is absent until it is built, and every command
//! and long option is named in the book's reference page (a test below).

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use littoral::base::units::{Bytes, PerSecond, Picos, Span};

use crate::out::Format;

mod kv;
pub(crate) use kv::{
    BenchKvArgs, KvAtArgs, KvCommand, KvCreateArgs, KvLoadArgs, KvPutArgs, KvScanArgs, MachineVerb,
    ReproZbtreeArgs, ZonesArgs,
};

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
    /// Breadth-first search from a vertex
    Bfs(RunArgs),
    /// PageRank
    Pr(RunArgs),
    /// Connected components (of a directed graph, the weak ones)
    Cc(RunArgs),
    /// Ask what a flash device would do to jobs on this graph
    Whatif(WhatifArgs),
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

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A graph file, or an edge list to take into memory first
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where a search begins: a vertex's name; without it a vertex is picked by a fixed seed
    #[arg(long, value_name = "N|LABEL")]
    pub(crate) source: Option<String>,
    /// Where the edges are: really (dram, uring, pread, mmap) or as a model (flash, nvme)
    #[arg(long, value_parser = ["dram", "flash", "nvme", "uring", "pread", "mmap"])]
    #[arg(default_value = "dram")]
    pub(crate) medium: String,
    /// The model's figures: a shipped profile's name or a file
    #[arg(long, value_name = "P")]
    pub(crate) profile: Option<String>,
    /// Charge the copy of every byte to the host, instead of handing out pointers (flash only)
    #[arg(long)]
    pub(crate) copy: bool,
    /// Threads, each with its own ring and queue
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Contexts of each ring; without it the ring tunes itself
    #[arg(long, value_name = "N")]
    pub(crate) contexts: Option<u32>,
    /// How often to run
    #[arg(long, value_name = "K", default_value_t = 3)]
    pub(crate) trials: usize,
    /// Check every answer by an independent serial method, outside the times
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WhatifArgs {
    /// A graph file, or an edge list to take into memory first
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Read latencies to try, such as 1us..20us
    #[arg(long, value_name = "A..B", default_value = "1us..20us")]
    pub(crate) latency: Span<Picos>,
    /// Reads a second to try, such as 5M..100M
    #[arg(long, value_name = "A..B", default_value = "5M..100M")]
    pub(crate) iops: Span<PerSecond>,
    /// DRAM you would grant: says what of the graph would fit
    #[arg(long, value_name = "SIZE")]
    pub(crate) dram: Option<Bytes>,
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
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct MachineArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<MachineVerb>,
    /// A machine file; without it machine.toml of this folder, or everything emulated
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Show one profile's figures with their sources instead
    #[arg(long, value_name = "P", conflicts_with = "file")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DsmCommand {
    /// Start a program as the ranks of one job and wait for its end
    Run(DsmRunArgs),
    /// Measure locks, barriers and the paper's two codes on a fabric
    Bench(DsmBenchArgs),
    /// Say where the time of the paper's programs goes on an interconnect, in virtual time
    Model(DsmModelArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DsmBenchArgs {
    /// What is measured; all of them unless some are named
    #[arg(value_name = "WHAT", value_parser = ["lock", "barrier", "code1", "code2"])]
    pub(crate) what: Vec<String>,
    /// What carries the operations; sim is virtual time, the others are this machine
    #[arg(long, value_name = "FABRIC", default_value = "shm", value_parser = ["shm", "pool", "tcp", "sim"])]
    pub(crate) fabric: String,
    /// Ranks
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) ranks: u16,
    /// With sim: the interconnect's profile
    #[arg(long, value_name = "PROFILE", default_value = "loongson-2e:manager")]
    pub(crate) profile: String,
    /// Fewer repetitions
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DsmModelArgs {
    /// Programs; all six unless some are named
    #[arg(value_name = "PROGRAM", value_parser = ["is", "lu", "sor", "tsp", "water", "ocean"])]
    pub(crate) programs: Vec<String>,
    /// Interconnects' profiles, commas between
    #[arg(
        long,
        value_name = "PROFILES",
        value_delimiter = ',',
        default_value = "loongson-2e:cluster,loongson-2e:remote,loongson-2e:manager"
    )]
    pub(crate) profile: Vec<String>,
    /// Numbers of ranks, commas between
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_value = "4", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) ranks: Vec<u16>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DsmRunArgs {
    /// Ranks
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) ranks: u16,
    /// What carries the job: shm, shm-pages, pool, pool-pages, tcp, or sim, which is virtual time;
    /// shm unless other options ask for another
    #[arg(long, value_name = "FABRIC", value_parser = ["shm", "shm-pages", "pool", "pool-pages", "tcp", "sim"])]
    pub(crate) fabric: Option<String>,
    /// With sim: the interconnect's profile, a shipped one's name or a file, and its configuration
    #[arg(long, value_name = "PROFILE", default_value = "loongson-2e:manager")]
    pub(crate) profile: String,
    /// With sim: what computing takes, by the operations the program declares or by processor time
    #[arg(long, value_name = "BY", default_value = "declared", value_parser = ["declared", "processor"])]
    pub(crate) compute: String,
    /// With sim: where each rank's time went, as JSON in a new file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// A line a rank: ADDRESS:PORT, and the command that starts a program there
    #[arg(long, value_name = "FILE")]
    pub(crate) hosts: Option<PathBuf>,
    /// Where the pool is: a new file, or a DAX device; memory without a name otherwise
    #[arg(long, value_name = "FILE")]
    pub(crate) pool: Option<PathBuf>,
    /// Most bytes the job can share
    #[arg(long, value_name = "SIZE", default_value = "64GiB")]
    pub(crate) bytes: Bytes,
    /// How raw accesses are noticed; the better one that works here otherwise
    #[arg(long, value_name = "HOW", value_parser = ["userfaultfd", "mprotect"])]
    pub(crate) faults: Option<String>,
    /// The program
    #[arg(value_name = "PROG")]
    pub(crate) program: std::ffi::OsString,
    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The coroutine ring: cost of a step, bounds reached, interfaces compared
    Ring(BenchRingArgs),
    /// Durable transactions beside undo logging, redo logging, replaying and the paper's protocol
    Heap(BenchHeapArgs),
    /// Key-value operations at a steady rate: latencies from their intended start
    Kv(BenchKvArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchHeapArgs {
    /// Rounds in which the engines take turns; the median of each counts
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub(crate) trials: u32,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HeapCommand {
    /// Make an empty pool
    Create(HeapCreateArgs),
    /// Say what a pool holds and what this file system promises, changing nothing
    Info(PoolArgs),
    /// Walk every version, slab and root of a pool, changing nothing
    Check(PoolArgs),
    /// Print every live object of a pool, changing nothing
    Dump(PoolArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HeapCreateArgs {
    /// The file to make
    #[arg(value_name = "POOL")]
    pub(crate) pool: PathBuf,
    /// Bytes of the pool, rounded up to whole pages
    #[arg(long, value_name = "S")]
    pub(crate) size: Bytes,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PoolArgs {
    /// A pool's file
    #[arg(value_name = "POOL")]
    pub(crate) pool: PathBuf,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BenchRingArgs {
    /// Interleaved repetitions; the least of each counts
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub(crate) trials: u32,
    /// Bytes of the large array
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) array: Bytes,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReproCommand {
    /// Microsecond flash for small random reads (paper 003)
    Flash(ReproArgs),
    /// The ZB+-tree on zoned flash (paper 000)
    Zbtree(ReproZbtreeArgs),
    /// Durable transactions on persistent memory (paper 004)
    Sdtm(ReproArgs),
    /// Shared memory coherent by locks and its lock manager (paper 002)
    Jiajia(ReproArgs),
    /// LoongArch: instruction set, interpreter, Linux programs (paper 000's tables)
    Loongarch(ReproArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ReproArgs {
    /// Fewer repetitions, the same sizes
    #[arg(long)]
    pub(crate) quick: bool,
    /// A folder with peers: the GAP suite under gapbs/, fio (both are also looked for in PATH)
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,
    /// Also write the results here, for `littoral report`
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Only claims whose id begins with this, such as flash.ring
    #[arg(long, value_name = "PREFIX")]
    pub(crate) only: Option<String>,
    /// Where graphs and files that are measured on are put; needs about 10 GiB
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// End with code 1 when a claim is short
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Results written by `repro --json` or by `--format json`
    #[arg(required = true, value_name = "RUN.json")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where the page goes; a name that ends in .md gets Markdown tables instead
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
