//! The machine an application runs on: memory devices by name, opened and described.
//!
//! ```
//! use littoral::device::memory::Domain;
//! use littoral::machine::Machine;
//! let machine = Machine::open(None)?;
//! let names: Vec<_> = machine.spec().devices.iter().map(|d| d.name.as_str()).collect();
//! assert_eq!(names, ["flash", "memory", "zoned"]);
//! let memory = machine.memory("memory")?;
//! assert_eq!(memory.len(), 256 << 20);
//! # Ok::<(), littoral::device::Error>(())
//! ```
//!
//! Media are opened here alone. Engines take the opened device, which says what is modelled, which
//! clock stands behind its times and what its threads share.
//!
//! Invariants
//! - Opening a machine touches no medium; a device is touched when it is opened. Checked by
//!   `a_machine_is_opened_without_its_media`.
//! - A description says what is modelled and what is real; a modelled device carries its profile's
//!   name and hash. Checked by `a_description_covers_host_and_devices`.
//! - Nothing that exists is overwritten: files are created only where there are none. Checked by
//!   `what_exists_is_not_overwritten`.
//! - A device with contents of its own has one owner: a second opening is `Kind::Busy`. Checked by
//!   `a_folder_keeps_what_was_put_there`.

use std::path::Path;

use littoral_device::profile::machine::MachineSpec;
use littoral_device::{Error, Kind, Result};

pub mod choice;
#[cfg(feature = "fabric")]
pub mod fabric;
pub mod facts;
pub mod host;
pub mod new;
mod open;
#[cfg(feature = "push")]
pub mod push;

pub use open::DeviceCheck;

/// The file a machine is described in when none is named and it exists in the working folder.
pub const DEFAULT_FILE: &str = "machine.toml";

/// A machine; see the module's page.
#[derive(Clone, Debug)]
pub struct Machine {
    spec: MachineSpec,
    origin: String,
}

impl Machine {
    /// The machine described at `path`, or in `machine.toml` of the working folder, or else
    /// everything emulated in memory.
    ///
    /// # Errors
    /// As [`MachineSpec::load`].
    pub fn open(path: Option<&Path>) -> Result<Machine> {
        match path {
            Some(path) => Self::load(path),
            None if Path::new(DEFAULT_FILE).exists() => Self::load(Path::new(DEFAULT_FILE)),
            None => {
                let origin = "no machine file: everything is emulated in memory".to_owned();
                Ok(Machine { spec: MachineSpec::emulated(None), origin })
            }
        }
    }

    /// A machine whose devices are emulated in the files of `folder`, which is made if absent.
    ///
    /// # Errors
    /// `Kind::Io` when the folder cannot be made.
    pub fn in_folder(folder: &Path) -> Result<Machine> {
        std::fs::create_dir_all(folder).map_err(|e| {
            Error::with_source(Kind::Io, format!("making the folder {}", folder.display()), e)
        })?;
        let origin = format!("no machine file: everything is emulated in {}", folder.display());
        Ok(Machine { spec: MachineSpec::emulated(Some(folder)), origin })
    }

    /// A machine of these devices; `origin` says where they come from.
    pub fn of(spec: MachineSpec, origin: &str) -> Machine {
        Machine { spec, origin: origin.to_owned() }
    }

    fn load(path: &Path) -> Result<Machine> {
        let origin = format!("machine file {}", path.display());
        Ok(Machine { spec: MachineSpec::load(path)?, origin })
    }

    /// The devices.
    pub fn spec(&self) -> &MachineSpec {
        &self.spec
    }

    /// Where the description comes from, in words.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What is real on this host and what the machine's devices are.
    pub fn describe(&self) -> facts::Description {
        facts::describe(self)
    }
}
