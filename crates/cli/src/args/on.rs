//! Which device a command runs on, said the same way everywhere.

use std::path::PathBuf;

use clap::Args;
use littoral::machine::choice::{Choice, Word};

/// A machine file and one of its devices.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options for the device")]
pub(crate) struct MachineFileArgs {
    /// Use a device of the machine that this file describes
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Which device of the machine, where it has several of the kind
    #[arg(long, value_name = "NAME", requires = "machine")]
    pub(crate) device: Option<String>,
}

/// A machine's device, or shorthand that builds a machine of one device.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options for the device")]
pub(crate) struct OnArgs {
    #[command(flatten)]
    pub(crate) file: MachineFileArgs,
    /// Without a machine file: dram, flash or nvme (models), uring, pread or mmap (this file), or a
    /// medium as machine files spell it, such as ram or uring:PATH
    #[arg(long, value_name = "MEDIUM", conflicts_with = "machine")]
    pub(crate) medium: Option<Word>,
    /// What the device is modelled by: a shipped profile's name or a file
    #[arg(long, value_name = "P", conflicts_with = "machine")]
    pub(crate) profile: Option<String>,
}

impl MachineFileArgs {
    /// The same as the library reads it.
    pub(crate) fn choice(&self) -> Choice {
        let (machine, device) = (self.machine.clone(), self.device.clone());
        Choice { machine, device, ..Choice::default() }
    }
}

impl OnArgs {
    /// The same as the library reads it.
    pub(crate) fn choice(&self) -> Choice {
        let (medium, profile) = (self.medium.clone(), self.profile.clone());
        Choice { medium, profile, ..self.file.choice() }
    }
}
