//! Fabrics of a machine: opened for the threads of this process, or described to the launcher of a
//! job's processes.
//!
//! | medium | with a profile | carries a job by |
//! |---|---|---|
//! | `ram` | no | shared memory of this host; `pages = "own"`: messages through it |
//! | `ram` | yes | the interconnect's model, in virtual time |
//! | `pool`, `pool:PATH` | no | memory that nothing keeps coherent; `pages = "own"`: messages in it |
//! | `tcp:ADDRESS:PORT,...` | no | TCP, one address per node |
//!
//! A [`Word`] is read in one place and becomes a description; what a description is carried by is
//! decided in `carrier_of` alone.

use std::path::PathBuf;
use std::str::FromStr;

use littoral_device::profile::machine::{DeviceSpec, MachineSpec, Medium};
use littoral_device::profile::{DeviceKind, Profile, suggestion};
use littoral_device::{Error, Kind, Result};
use littoral_fabric::opened::{Carrier, FabricDevice};

use super::Machine;
use super::open::{described, not_built};

/// Bytes of each node's window where a description gives none.
const WINDOW_BYTES: u64 = 4096;

/// A fabric as an option spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Shared memory of one host, shared in place.
    Shm,
    /// Messages through it; each node keeps its own pages.
    ShmPages,
    /// Memory that nothing keeps coherent, shared in place.
    Pool,
    /// Messages in it; each node keeps its own pages.
    PoolPages,
    /// TCP.
    Tcp,
    /// A profile's interconnect, in virtual time.
    Sim,
}

impl Word {
    /// Every word with its fabric.
    pub const ALL: [(&'static str, Word); 6] = [
        ("shm", Word::Shm),
        ("shm-pages", Word::ShmPages),
        ("pool", Word::Pool),
        ("pool-pages", Word::PoolPages),
        ("tcp", Word::Tcp),
        ("sim", Word::Sim),
    ];

    /// The word.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, w)| *w == self).expect("invariant: every word is listed").0
    }

    /// A machine of one fabric of `nodes` nodes, called `fabric`. A pool is at `pool`, a model has
    /// the constants of `profile`.
    ///
    /// # Errors
    /// `Kind::Profile` for a number of nodes out of range or a profile of no interconnect.
    pub fn machine(self, nodes: u16, pool: Option<PathBuf>, profile: &str) -> Result<Machine> {
        let local = || vec!["127.0.0.1:0"; usize::from(nodes)].join(",");
        let medium = match self {
            Word::Shm | Word::ShmPages | Word::Sim => Medium::Ram,
            Word::Pool | Word::PoolPages => Medium::Pool(pool),
            Word::Tcp => Medium::Tcp(local()),
        };
        let device = DeviceSpec::new("fabric", DeviceKind::Fabric, medium);
        let mut device = device.with_figure("nodes", u64::from(nodes))?;
        device.has_own_pages = matches!(self, Word::ShmPages | Word::PoolPages);
        if self == Word::Sim {
            let (profile, configuration) = Profile::configured(profile)?;
            (device.profile, device.configuration) = (Some(profile), Some(configuration));
        }
        Ok(Machine::of(MachineSpec::one(device), "options"))
    }
}

impl FromStr for Word {
    type Err = Error;
    fn from_str(text: &str) -> Result<Word> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, word)| *word).ok_or_else(|| {
            let hint = suggestion(text, Self::ALL.map(|(name, _)| name).into_iter());
            Error::new(Kind::Profile, format!("unknown fabric `{text}`{hint}"))
        })
    }
}

impl Machine {
    /// Opens a fabric: what its nodes share is made, and each node attaches to it.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown device or one of another kind; else as
    /// [`FabricDevice::open`].
    pub fn fabric(&self, name: &str) -> Result<FabricDevice> {
        let device = self.named(name, DeviceKind::Fabric)?;
        let window = device.geometry("window").unwrap_or(WINDOW_BYTES);
        let open = || {
            let window = usize::try_from(window).map_err(|_| {
                Error::new(Kind::Unsupported, format!("windows of {window} B do not fit"))
            })?;
            FabricDevice::open(carrier_of(device)?, nodes_of(device)?, window)
        };
        open().map_err(|e| described(device, e))
    }

    /// What carries a fabric's operations, without opening it.
    ///
    /// # Errors
    /// As [`Machine::fabric`].
    pub fn carrier(&self, name: &str) -> Result<Carrier> {
        let device = self.spec().choose(DeviceKind::Fabric, Some(name))?;
        carrier_of(device).map_err(|e| described(device, e))
    }

    /// What the launcher of a job's processes is told about a fabric; processes of a modelled
    /// interconnect charge what they compute by `compute`.
    ///
    /// # Errors
    /// As [`Machine::fabric`].
    #[cfg(feature = "dsm")]
    pub fn job(&self, name: &str, compute: littoral_dsm::virtual_time::Compute) -> Result<Job> {
        use littoral_dsm::launch::hosts::Host;
        use littoral_dsm::launch::run::Fabric;
        let device = self.named(name, DeviceKind::Fabric)?;
        let (nodes, own) = (nodes_of(device)?, device.has_own_pages);
        let mut job = Job { nodes, fabric: Fabric::Shm, hosts: None, pool: None };
        match carrier_of(device).map_err(|e| described(device, e))? {
            Carrier::Shm => job.fabric = if own { Fabric::ShmPages } else { Fabric::Shm },
            Carrier::Pool(path) => {
                job.fabric = if own { Fabric::PoolPages } else { Fabric::Pool };
                job.pool = path;
            }
            Carrier::Tcp(addresses) => {
                job.fabric = Fabric::Tcp;
                // Ports that the system chooses are the launcher's to hand out.
                let is_here = addresses.iter().all(|a| a.port() == 0);
                let host = |address| Host { address, command: Vec::new() };
                job.hosts = (!is_here).then(|| addresses.into_iter().map(host).collect());
            }
            Carrier::Sim { timing, .. } => job.fabric = Fabric::Sim { timing, compute },
        }
        Ok(job)
    }
}

/// What the launcher of a job is told about its fabric.
#[cfg(feature = "dsm")]
#[derive(Clone, Debug)]
pub struct Job {
    /// Ranks of the job.
    pub nodes: u16,
    /// What carries messages.
    pub fabric: littoral_dsm::launch::run::Fabric,
    /// Where ranks listen, where that is given.
    pub hosts: Option<Vec<littoral_dsm::launch::hosts::Host>>,
    /// The pool's file or device.
    pub pool: Option<PathBuf>,
}

fn nodes_of(device: &DeviceSpec) -> Result<u16> {
    let nodes = device.geometry("nodes").unwrap_or(1);
    u16::try_from(nodes).map_err(|_| {
        Error::new(Kind::Unsupported, format!("{nodes} nodes are more than a job can have"))
    })
}

fn carrier_of(device: &DeviceSpec) -> Result<Carrier> {
    match (&device.medium, &device.profile, &device.configuration) {
        (Medium::Ram, Some(profile), Some(configuration)) => {
            FabricDevice::simulated(profile, configuration)
        }
        (Medium::Ram, ..) => Ok(Carrier::Shm),
        (Medium::Pool(path), ..) => Ok(Carrier::Pool(path.clone())),
        (Medium::Tcp(addresses), ..) => {
            let parse = |a: &str| {
                a.trim().parse().map_err(|_| {
                    let what = format!("`{a}` is no ADDRESS:PORT, such as 10.0.0.1:7000");
                    Error::new(Kind::Profile, what)
                })
            };
            Ok(Carrier::Tcp(addresses.split(',').map(parse).collect::<Result<_>>()?))
        }
        _ => Err(not_built(device)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fabric_of_a_machine_file_is_opened_and_its_nodes_meet() {
        let text = "schema = \"littoral.machine/1\"\n\
                    [device.near]\nkind = \"fabric\"\nmedium = \"ram\"\nnodes = 2\nwindow = \"4KiB\"\n\
                    [device.far]\nkind = \"fabric\"\nmedium = \"tcp:127.0.0.1:0,127.0.0.1:0\"\n\
                    nodes = 2\nwindow = \"4KiB\"\n\
                    [device.old]\nkind = \"fabric\"\nmedium = \"ram\"\nprofile = \"tcp\"\nnodes = 2\n\
                    window = \"4KiB\"\n\
                    [device.bad]\nkind = \"fabric\"\nmedium = \"tcp:nowhere\"\nnodes = 1\n\
                    window = \"4KiB\"\n";
        let machine = Machine::of(MachineSpec::parse(text, "m.toml").unwrap(), "test");
        for (name, words) in [("near", "shared memory"), ("far", "TCP"), ("old", "modelled")] {
            let fabric = machine.fabric(name).unwrap();
            assert!(fabric.describe().starts_with(words), "{}", fabric.describe());
            assert_eq!(fabric.run(|f| f.me().0).unwrap(), [0, 1], "{name}");
        }
        let bad = machine.fabric("bad").unwrap_err().to_string();
        assert!(bad.contains("m.toml:19: device `bad`") && bad.contains("nowhere"), "{bad}");
        let several = machine.spec().choose(DeviceKind::Fabric, None).unwrap_err().to_string();
        assert!(several.contains("(bad, far, near, old)"), "{several}");
    }

    #[cfg(feature = "dsm")]
    #[test]
    fn every_word_is_carried_as_it_says() {
        use littoral_dsm::launch::run::Fabric;
        use littoral_dsm::virtual_time::Compute;
        for (name, word) in Word::ALL {
            assert_eq!((name.parse::<Word>().unwrap(), word.name()), (word, name));
            let machine = word.machine(2, None, "rdma").unwrap();
            let job = machine.job("fabric", Compute::Declared).unwrap();
            let is_right = match word {
                Word::Shm => job.fabric == Fabric::Shm,
                Word::ShmPages => job.fabric == Fabric::ShmPages,
                Word::Pool => job.fabric == Fabric::Pool,
                Word::PoolPages => job.fabric == Fabric::PoolPages,
                Word::Tcp => job.fabric == Fabric::Tcp && job.hosts.is_none(),
                Word::Sim => matches!(job.fabric, Fabric::Sim { .. }),
            };
            assert!(is_right && job.nodes == 2, "{job:?}");
        }
        let refused = "shmm".parse::<Word>().unwrap_err().to_string();
        assert!(refused.contains("did you mean `shm`?"), "{refused}");
        let refused = "bus".parse::<Word>().unwrap_err().to_string();
        assert_eq!(refused.matches("shm-pages").count(), 1, "{refused}");
    }
}
