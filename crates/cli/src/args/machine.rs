//! What `littoral machine` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ShownArgs, ZonesArgs};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct MachineArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<MachineVerb>,
    /// A machine file; without it machine.toml of this folder, or everything emulated
    #[arg(long, value_name = "FILE", visible_alias = "machine")]
    pub(crate) file: Option<PathBuf>,
    /// Show one profile's figures with their sources instead, as `machine profiles P` does
    #[arg(long, value_name = "P", conflicts_with = "file")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MachineVerb {
    /// Report the zones of a machine's zoned devices
    Zones(ZonesArgs),
    /// List the shipped profiles, or show the figures of one with basis and source
    Profiles(ProfilesArgs),
    /// Read a machine file and open every device that is there; code 1 when one cannot be opened
    Check(MachineCheckArgs),
    /// Write a commented machine file for this host
    New(MachineNewArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ProfilesArgs {
    /// A shipped profile's name, or a file
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MachineCheckArgs {
    /// A machine file; without it machine.toml of this folder, or everything emulated
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MachineNewArgs {
    /// The file to write
    #[arg(value_name = "PATH", default_value = "machine.toml")]
    pub(crate) path: PathBuf,
    /// Overwrite PATH when it exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
