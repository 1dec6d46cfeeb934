//! What an interconnect's operations take: the simulator's constants, from a profile.
//!
//! A configuration is named `profile:configuration`, or by its profile alone when it is the only
//! one. The shipped profiles are `loongson-2e` (paper 002's cluster, its board with TCP/IP over
//! remote memory, and its board with the lock manager), `tcp`, `rdma` and `cxl-pool`.
//!
//! ```
//! use littoral_fabric::timing::Timing;
//! let cluster = Timing::open("loongson-2e:cluster")?;
//! assert!(cluster.board.is_none());
//! # Ok::<(), littoral_fabric::Error>(())
//! ```
//!
//! - Nothing here is a measurement of this machine; results say *modelled* and carry the profile's
//!   hash.

use littoral_base::units::Picos;
use littoral_device::profile::{DeviceKind, Profile};

use super::sim::LogGp;
use crate::{Error, Kind, Result};

/// What a configuration's operations take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Processor time to hand a message to the network.
    pub send: Picos,
    /// From the last byte sent to the message in the receiver's memory.
    pub latency: Picos,
    /// A byte on the interface.
    pub byte: Picos,
    /// What a sender waits after its last byte for the receiver's acknowledgement, where messages
    /// are sent one by one; zero where they are not.
    pub acknowledge: Picos,
    /// Processor time to take a message in: interrupt, handler, copies. Zero where hardware does.
    pub trap: Picos,
    /// Entering and leaving the fault handler, twin included.
    pub fault: Picos,
    /// One operation of the lock manager in hardware; absent where a rank manages locks.
    pub board: Option<Picos>,
    /// One operation that a program declares (`Job::work`).
    pub operation: Picos,
}

impl Timing {
    /// The configuration of that name; see the module's page.
    ///
    /// # Errors
    /// As [`Profile::configured`].
    pub fn open(name: &str) -> Result<Timing> {
        Self::resolve(name).map(|(_, _, timing)| timing)
    }

    /// The profile, configuration and constants that `profile[:configuration]` names.
    ///
    /// # Errors
    /// As [`Profile::configured`].
    pub fn resolve(name: &str) -> Result<(Profile, String, Timing)> {
        let (profile, configuration) = Profile::configured(name)?;
        let timing = Self::of(&profile, &configuration)?;
        Ok((profile, configuration, timing))
    }

    /// The constants of a configuration of `profile`.
    ///
    /// # Errors
    /// `Kind::Profile` when the profile is of another kind or has no such configuration.
    pub fn of(profile: &Profile, configuration: &str) -> Result<Timing> {
        profile.expect_kind(DeviceKind::Fabric)?;
        let value = |key: &str| profile.value(&format!("{configuration}.{key}"));
        let time = |key: &str| {
            value(key).map(Picos).ok_or_else(|| {
                let what = format!("profile `{}` has no `{configuration}.{key}`", profile.name());
                Error::new(Kind::Profile, what)
            })
        };
        Ok(Timing {
            send: time("send")?,
            latency: time("latency")?,
            byte: time("byte")?,
            acknowledge: time("acknowledge")?,
            trap: time("trap")?,
            fault: time("fault")?,
            board: value("board").map(Picos),
            operation: time("operation")?,
        })
    }

    /// The constants of the simulated fabric's one-sided operations, which an agent carries out
    /// where there is no hardware.
    pub fn loggp(&self) -> LogGp {
        LogGp {
            latency: self.latency,
            overhead: self.send,
            gap: self.acknowledge,
            byte: self.byte,
            service: self.trap,
            board: self.board.unwrap_or(self.trap),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_that_is_shipped_has_its_constants() {
        for name in Profile::shipped_of(DeviceKind::Fabric) {
            let profile = Profile::named(name).unwrap();
            for configuration in profile.configurations() {
                let timing = Timing::of(&profile, configuration).unwrap();
                assert!(timing.operation > Picos::ZERO, "{name}:{configuration}");
            }
            assert_eq!(Timing::of(&profile, "absent").unwrap_err().kind(), Kind::Profile);
        }
        let flash = Profile::named("xlfdd").unwrap();
        assert_eq!(Timing::of(&flash, "read").unwrap_err().kind(), Kind::Profile);
    }

    #[test]
    fn names_lead_to_configurations_or_say_which_there_are() {
        assert!(Timing::open("rdma").is_ok());
        let several = Timing::open("loongson-2e").unwrap_err().to_string();
        assert!(several.contains("loongson-2e:cluster"), "{several}");
        let typo = Timing::open("loongson-2e:clutser").unwrap_err().to_string();
        assert!(typo.contains("did you mean `cluster`?"), "{typo}");
        let typo = Timing::open("rdam").unwrap_err().to_string();
        assert!(typo.contains("did you mean `rdma`?"), "{typo}");
        let flash = Timing::open("xlfdd").unwrap_err().to_string();
        assert!(flash.contains("describes a flash device, wanted fabric"), "{flash}");
    }
}
