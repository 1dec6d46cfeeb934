//! What `littoral graph` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use littoral::base::units::{Bytes, PerSecond, Picos, Span};

use super::ShownArgs;

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
    /// Read latencies of the grid of devices, such as 1us..20us
    #[arg(long, value_name = "A..B", default_value = "1us..20us")]
    pub(crate) latency: Span<Picos>,
    /// Reads per second of the grid's devices, such as 5M..100M
    #[arg(long, value_name = "A..B", default_value = "5M..100M")]
    pub(crate) iops: Span<PerSecond>,
    /// Devices instead of a grid: names of shipped profiles and files, commas between
    #[arg(long, value_name = "P,..", value_delimiter = ',', conflicts_with_all = ["latency", "iops"])]
    pub(crate) profile: Vec<String>,
    /// How many searches run at once, one job for each number, commas between
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "4,16,64")]
    pub(crate) concurrency: Vec<u32>,
    /// DRAM you would grant: says whether the vertex state fits
    #[arg(long, value_name = "SIZE")]
    pub(crate) dram: Option<Bytes>,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub(crate) time: Picos,
    /// Also write the study as a page with heat maps and curves
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
