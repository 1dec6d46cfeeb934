//! What `littoral machine` takes.

use std::path::PathBuf;

use clap::Args;

use super::{MachineVerb, ShownArgs};

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
