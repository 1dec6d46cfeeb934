//! What is real on this host, and what a machine's devices are, in plain words.
//!
//! The host's facts are [`super::host`]'s. `littoral machine` prints a [`Description`].

use littoral_device::profile::machine::DeviceSpec;
use littoral_device::profile::{DeviceKind, Profile};

use super::Machine;
pub use super::host::Fact;
use super::host::Host;

/// One device of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFact {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Whether its timing or its medium is modelled rather than real.
    pub modelled: bool,
    /// In words: medium, geometry, profile with its hash.
    pub words: String,
}

/// Everything `littoral machine` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Where the machine's description comes from.
    pub origin: String,
    /// The host.
    pub host: Vec<Fact>,
    /// The devices.
    pub devices: Vec<DeviceFact>,
}

pub(super) fn describe(machine: &Machine) -> Description {
    let devices = machine.spec().devices.iter().map(device_fact).collect();
    Description { origin: machine.origin().to_owned(), host: Host::default().summary(), devices }
}

/// A profile in one line, with its hash.
pub fn profile_words(profile: &Profile) -> String {
    let (name, hash) = (profile.name(), profile.hash());
    let key = |wanted: &str| {
        let found = profile.figures().find(|(key, ..)| key == wanted);
        found.map_or("unknown".to_owned(), |(_, row, figure)| row.unit.show(figure.value))
    };
    let figures = match profile.kind() {
        DeviceKind::Flash => {
            format!("{}, {} reads per core", key("read.latency"), key("read.per_core_max"))
        }
        DeviceKind::Zoned => {
            format!("{} per read, {} per program", key("timing.read"), key("timing.program"))
        }
        DeviceKind::Memory => {
            format!("{} per write, {}", key("write.latency"), key("write.bytes_max"))
        }
        DeviceKind::Push => {
            format!(
                "{} cores at {} MHz, link {}",
                key("core.count"),
                key("core.clock_mhz"),
                key("link.bytes_max")
            )
        }
        DeviceKind::Fabric => format!("configurations {}", profile.configurations().join(", ")),
    };
    format!("profile {name} (hash {hash}): {figures}")
}

fn device_fact(device: &DeviceSpec) -> DeviceFact {
    let medium = match device.medium.path() {
        Some(path) => format!("{}{}", device.medium.scheme(), path.display()),
        None => device.medium.scheme().to_owned(),
    };
    let mut words = vec![medium];
    words.extend(device.figures().map(|(row, v)| format!("{} {}", row.field(), row.unit.show(v))));
    words.extend(device.profile.as_ref().map(profile_words));
    words.extend(device.configuration.as_ref().map(|c| format!("configuration {c}")));
    // A file stands in for zones and persistent memory, but holds flash data as any file does.
    let is_real = matches!(device.medium.scheme(), "uring:" | "zbd:" | "dax:" | "tcp:");
    let (name, kind) = (device.name.clone(), device.kind.name());
    DeviceFact { name, kind, modelled: !is_real, words: words.join(", ") }
}
