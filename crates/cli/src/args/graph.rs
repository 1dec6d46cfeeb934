//! What `littoral graph` takes.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand, ValueEnum};
use littoral::base::units::{Bytes, PerSecond, Picos, Span};
use littoral::graph::builder::Order;
use littoral::graph::generate::Model;
use littoral::graph::import::Ids;
use littoral::graph::kernels::{Kernel, Spec, THREADS_MAX};

use super::choice::OneOf;
use super::{OnArgs, ShownArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Turn an edge list into a graph file
    Import(ImportArgs),
    /// Write a graph file or an edge list as another format
    #[command(visible_alias = "export")]
    Convert(ConvertArgs),
    /// Make a synthetic graph: kron and urand have 16 edges per vertex, road fewer than 2
    Gen(GenArgs),
    /// Say what a graph file holds
    Info(FileArgs),
    /// Walk every invariant of a graph file, changing nothing
    Check(FileArgs),
    #[command(flatten)]
    Kernel(KernelArgs),
    /// List the neighbors of a vertex, with weights when the graph has them
    Neighbors(NeighborsArgs),
    /// Find the shortest path between two vertices: of least weight, or of fewest edges
    Path(PathArgs),
    /// Say the degrees of a vertex, or which vertices have the highest
    Degree(DegreeArgs),
    /// Ask what a flash device would do to jobs on this graph
    Whatif(WhatifArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// An edge list: .el .wel .csv .tsv, a SNAP list, .mtx, METIS' .graph, DIMACS' .gr, or the GAP
    /// suite's .sg .wsg; gzip or zstd too. Builds with Arrow read .parquet .arrow .feather; `-` is
    /// a text on standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The graph file to write
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// The most memory to use, at least 8MiB: edges are sorted in temporary files beside OUT, by
    /// --order degree or input; without it they are sorted in memory, however many they are
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Bytes>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) making: MakingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// A graph file, or anything that graph import reads
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The file to write: .lg .el .wel .csv .tsv .mtx, METIS' .graph, DIMACS' .gr, the GAP suite's
    /// .sg .wsg, in builds with Arrow .parquet .arrow
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// OUT's format, where its name does not tell it: as --from, or lg
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// Overwrite OUT when it exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

/// What to take for granted about an edge list instead of finding out.
#[derive(Debug, Default, Args, PartialEq, Eq)]
#[command(next_help_heading = "Options for edge lists")]
pub(crate) struct ReadingArgs {
    /// The list's format: el, wel, snap, csv, tsv, sg, wsg, mtx, graph (METIS), gr (DIMACS),
    /// parquet or arrow
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,
    /// The columns of source, target and weight, by name or by number from 1
    #[arg(long, value_name = "A,B[,W]", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// The first line names the columns
    #[arg(long, conflicts_with = "no_header")]
    pub(crate) header: bool,
    /// The first line is an edge
    #[arg(long)]
    pub(crate) no_header: bool,
    /// What separates fields: comma, tab, semicolon, pipe, space, or a character
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub(crate) delimiter: Option<String>,
    /// Lines that begin with this character are comments; `none`: no line is
    #[arg(long, value_name = "C")]
    pub(crate) comment: Option<String>,
    /// What ids are: numbers or text
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) ids: Option<OneOf<Ids>>,
    /// Edges lead from the first vertex to the second only
    #[arg(long, conflicts_with = "undirected")]
    pub(crate) directed: bool,
    /// Edges lead both ways
    #[arg(long)]
    pub(crate) undirected: bool,
}

/// How a graph file is made.
#[derive(Debug, Args)]
pub(crate) struct MakingArgs {
    /// How vertices are numbered inside: by degree, highest first; as the input has them; bfs, so
    /// that neighbors share pages; or auto: by degree where few vertices hold most arcs, else bfs
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = OneOf(Order::Degree))]
    pub(crate) order: OneOf<Order>,
    /// Bytes of a page: a power of two from 512 to 65536
    #[arg(long, value_name = "SIZE", default_value = "4096")]
    pub(crate) page: Bytes,
    /// First neighbors of each vertex that are stored once more for bottom-up steps, 0 to 16
    #[arg(long, value_name = "N", default_value_t = littoral::graph::format::header::HEADS_DEFAULT)]
    pub(crate) heads: u32,
    /// Threads that read and sort; without it as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// Overwrite OUT when it exists
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// kron: Kronecker with Graph500's parameters; urand: uniform random; road: a grid with gaps,
    /// thousands of levels and at most 4 neighbors
    #[arg(value_enum)]
    pub(crate) model: OneOf<Model>,
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
    pub(crate) making: MakingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// A graph file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) on: OnArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

/// A kernel's verb, with what that kernel takes.
#[derive(Debug)]
pub(crate) struct KernelArgs {
    pub(crate) kernel: Kernel,
    /// Where it begins: a vertex's name.
    pub(crate) source: Option<String>,
    pub(crate) run: RunArgs,
}

/// The verb of one kernel, made of its row of the registry.
fn kernel_command(spec: &'static Spec) -> Command {
    let mut command = Command::new(spec.name);
    if spec.has_source {
        let source = Arg::new("source").long("source").value_name("N|LABEL");
        let help = "Where the search begins: a vertex's name; without it a vertex is picked by a \
                    fixed seed";
        command = command.arg(source.allow_hyphen_values(true).help(help));
    }
    for option in spec.options {
        let arg = Arg::new(option.name).long(option.name).value_name(option.value_name);
        let arg = arg.default_value(option.default).help(option.help);
        command = command.arg(match option.values {
            [] => arg.allow_hyphen_values(true),
            values => arg.value_parser(values.to_vec()),
        });
    }
    // A flattened group's comment would be taken for the verb's own, so the text comes last.
    RunArgs::augment_args(command).about(spec.about).long_about(None)
}

/// Numbers of things that memory is made for, each within reason.
fn counts(range: RangeInclusive<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}

/// The names of kernels, as values.
pub(super) fn kernel_names() -> PossibleValuesParser {
    Kernel::all().into_iter().map(Kernel::name).collect::<Vec<_>>().into()
}

impl Subcommand for KernelArgs {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(Kernel::all().iter().map(|k| kernel_command(k.spec())))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Kernel::all().iter().any(|k| k.name() == name)
    }
}

impl FromArgMatches for KernelArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, inner) = matches.subcommand().ok_or_else(missing)?;
        let given = |option: &str| inner.get_one::<String>(option).cloned();
        let kernel = Kernel::named(name, &given)
            .map_err(|e| clap::Error::raw(clap::error::ErrorKind::InvalidValue, e))?;
        let source = kernel.spec().has_source.then(|| given("source")).flatten();
        Ok(KernelArgs { kernel, source, run: RunArgs::from_arg_matches(inner)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The form of an answer in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerFormat {
    /// Comma-separated values (RFC 4180) with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// Typed columns in a Parquet file (builds with Arrow).
    Parquet,
    /// Typed columns in an Arrow IPC file (builds with Arrow).
    Arrow,
}

/// Where the whole answer goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for answers")]
pub(crate) struct OutputArgs {
    /// Write the whole answer to this file; `-` writes it to standard output, without the report
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The answer's form; without it the file's name tells it, and standard output gets CSV
    #[arg(long, value_enum, value_name = "FORMAT", requires = "output")]
    pub(crate) output_format: Option<AnswerFormat>,
    /// Overwrite the file when it exists
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NeighborsArgs {
    /// A graph file, or an edge list to take into memory first
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The vertex's name
    #[arg(value_name = "LABEL", allow_hyphen_values = true)]
    pub(crate) label: String,
    /// Neighbors that edges from the vertex lead to (the default)
    #[arg(long, conflicts_with = "incoming")]
    pub(crate) out: bool,
    /// Neighbors whose edges lead to the vertex
    #[arg(long = "in")]
    pub(crate) incoming: bool,
    /// Leave weights out
    #[arg(long)]
    pub(crate) unweighted: bool,
    #[command(flatten)]
    pub(crate) on: OnArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// A graph file, or an edge list to take into memory first
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The name of the vertex where the path begins
    #[arg(value_name = "A", allow_hyphen_values = true)]
    pub(crate) source: String,
    /// The name of the vertex where it ends
    #[arg(value_name = "B", allow_hyphen_values = true)]
    pub(crate) target: String,
    /// Fewest edges, also in a graph with weights
    #[arg(long)]
    pub(crate) unweighted: bool,
    #[command(flatten)]
    pub(crate) on: OnArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DegreeArgs {
    /// A graph file, or an edge list to take into memory first
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// A vertex's name; without it the vertices of highest degree
    #[arg(value_name = "LABEL", allow_hyphen_values = true)]
    pub(crate) label: Option<String>,
    /// How many vertices; 10 are shown and all are written without it
    #[arg(long, value_name = "N", conflicts_with = "label")]
    pub(crate) top: Option<usize>,
    #[command(flatten)]
    pub(crate) on: OnArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A graph file, or an edge list to take into memory first
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The nearest or highest vertices, or the largest components; 10 are shown and all are written
    /// without it
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    #[command(flatten)]
    pub(crate) on: OnArgs,
    /// Charge the copy of every byte to the host, instead of handing out pointers (flash only)
    #[arg(long, conflicts_with = "machine")]
    pub(crate) copy: bool,
    /// Threads, each with its own ring and queue
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = counts(1..=THREADS_MAX as u64))]
    pub(crate) threads: usize,
    /// Contexts of each ring; without it 128 on a file, and as many as latency and rate of a model
    /// need
    #[arg(long, value_name = "N")]
    pub(crate) contexts: Option<u32>,
    /// Keep so many bytes of pages in DRAM and read lists by whole pages; hubs' pages stay
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache: Option<Bytes>,
    /// How often to run
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = counts(1..=1_000_000))]
    pub(crate) trials: usize,
    /// Check every answer by an independent serial method, outside the times
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WhatifArgs {
    /// A graph file, or an edge list to take into memory first
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Read latencies of the grid of devices, such as 1us..20us
    #[arg(long, value_name = "A..B", default_value = "1us..20us")]
    pub(crate) latency: Span<Picos>,
    /// Reads per second of the grid's devices, such as 5M..100M
    #[arg(long, value_name = "A..B", default_value = "5M..100M")]
    pub(crate) iops: Span<PerSecond>,
    /// Devices instead of a grid: names of shipped profiles and files, commas between
    #[arg(long, value_name = "P,..", value_delimiter = ',', conflicts_with_all = ["latency", "iops"])]
    pub(crate) profile: Vec<String>,
    /// Devices instead of a grid: the modelled flash of the machine that this file describes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["latency", "iops", "profile"])]
    pub(crate) machine: Option<PathBuf>,
    /// Only this device of the machine
    #[arg(long, value_name = "NAME", requires = "machine")]
    pub(crate) device: Option<String>,
    /// The kernels whose jobs are studied, commas between; without it all of them
    #[arg(long, value_name = "K,..", value_delimiter = ',', value_parser = kernel_names())]
    pub(crate) kernels: Vec<String>,
    /// How many searches run at once, one job for each number, commas between
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "4,16,64")]
    pub(crate) concurrency: Vec<u32>,
    /// DRAM that may be used: vertex state first, the rest holds the hottest edges
    #[arg(long, value_name = "SIZE")]
    pub(crate) dram: Option<Bytes>,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) time: Picos,
    /// Also write the study as a page with heat maps and curves
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
