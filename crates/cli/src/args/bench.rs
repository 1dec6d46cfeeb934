//! What `littoral bench` takes.

use clap::{Args, Subcommand};
use littoral::base::units::Bytes;

use super::{BenchKvArgs, MachineFileArgs, ShownArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The coroutine ring: cost of a step, bounds reached, interfaces compared
    Ring(BenchRingArgs),
    /// Durable transactions beside undo logging, redo logging, replaying and the paper's protocol
    Heap(BenchHeapArgs),
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
pub(crate) struct BenchRingArgs {
    /// Interleaved repetitions; the least of each counts
    #[arg(long, value_name = "K", default_value_t = 5)]
    pub(crate) trials: u32,
    /// Bytes of the large array
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) array: Bytes,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
