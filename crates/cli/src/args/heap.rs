//! What `littoral heap` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use littoral::base::units::Bytes;

use super::{MachineFileArgs, ShownArgs};

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
    #[arg(value_name = "POOL", required_unless_present = "machine", conflicts_with = "machine")]
    pub(crate) pool: Option<PathBuf>,
    /// Bytes of the pool, rounded up to whole pages; a machine's device has its own
    #[arg(long, value_name = "S")]
    #[arg(required_unless_present = "machine", conflicts_with = "machine")]
    pub(crate) size: Option<Bytes>,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PoolArgs {
    /// A pool's file
    #[arg(value_name = "POOL", required_unless_present = "machine", conflicts_with = "machine")]
    pub(crate) pool: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) on: MachineFileArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
