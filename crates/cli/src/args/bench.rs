//! What `littoral bench` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use littoral::base::units::Bytes;

use super::graph::{ReadingArgs, kernel_names};
use super::{BenchKvArgs, MachineFileArgs, ShownArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The coroutine ring: cost of a step, bounds reached, interfaces compared
    Ring(BenchRingArgs),
    /// Durable transactions beside undo logging, redo logging, replaying and the paper's protocol
    Heap(BenchHeapArgs),
    /// Graph kernels on modelled flash beside the same in DRAM, on a graph of yours
    Graph(Box<BenchGraphArgs>),
    /// Key-value operations at a steady rate: latencies from their intended start
    Kv(Box<BenchKvArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct BenchHeapArgs {
    /// Rounds in which the engines take turns; the median of each counts
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub(crate) trials: u32,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BenchGraphArgs {
    /// A graph file, or an edge list to take into memory first
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The kernels that are measured, commas between
    #[arg(long, value_name = "K,..", value_delimiter = ',', value_parser = kernel_names(),
          default_value = "bfs,sssp,bc,pr")]
    pub(crate) kernels: Vec<String>,
    /// Rounds in which the forms take turns; the least of each source counts
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub(crate) trials: u32,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BenchRingArgs {
    /// Interleaved repetitions; the least of each counts
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub(crate) trials: u32,
    /// Bytes of the large array, a power of two
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) array: Bytes,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
