//! How long the emulated zoned device takes, in virtual time, and the shipped profiles.
//!
//! - A zone lives on one channel (`zone % channels`); a channel serves one request at a time, in
//!   the order of the requests; reads overtake nothing.
//! - A worn zone is slower: every `wear_step_resets` resets add `wear_step_percent` to its
//!   latencies.
//! - Profiles are data: [`Profile::named`] returns the shipped ones, [`Profile::parse`] reads TOML.
//!
//! The model is one request at a time a channel with fixed latencies a block; striping inside a
//! zone and write buffers are in the figures of a profile, not in the model.

use littoral_base::sim::Resource;
use littoral_base::units::{Picos, ZoneId};
use serde::{Deserialize, Serialize};

use super::zones::Geometry;
use crate::error::{Error, Kind, Result};

/// Latencies of a zoned device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Reading one block, in nanoseconds.
    pub read_ns: u64,
    /// Programming one block of a sequential zone, in nanoseconds.
    pub program_ns: u64,
    /// Writing one block of a conventional zone, in nanoseconds.
    pub conventional_ns: u64,
    /// Resetting a zone, in nanoseconds.
    pub reset_ns: u64,
    /// Finishing a zone, in nanoseconds.
    pub finish_ns: u64,
    /// A flush with nothing outstanding, in nanoseconds.
    pub flush_ns: u64,
    /// Requests served at once.
    pub channels: usize,
    /// Resets after which a zone is one step slower; zero means no wear.
    pub wear_step_resets: u64,
    /// How much slower a step makes a zone, in per cent.
    pub wear_step_percent: u64,
    /// Where the figures come from.
    pub source: String,
}

/// A shipped device: its geometry and its latencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The shape.
    pub geometry: Geometry,
    /// The latencies.
    pub timing: Timing,
}

const SHIPPED: [(&str, &str); 3] = [
    ("zns-paper", include_str!("profiles/zns-paper.toml")),
    ("zns-ssd", include_str!("profiles/zns-ssd.toml")),
    ("smr-disk", include_str!("profiles/smr-disk.toml")),
];

impl Profile {
    /// Names of the shipped profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// A shipped profile.
    ///
    /// # Errors
    /// `Kind::Profile` listing the names there are.
    pub fn named(name: &str) -> Result<Profile> {
        let found = SHIPPED.iter().find(|(n, _)| *n == name);
        let names: Vec<_> = Profile::names().collect();
        let unknown = || format!("no zoned profile '{name}'; there are {}", names.join(", "));
        let (_, text) = found.ok_or_else(|| Error::new(Kind::Profile, unknown()))?;
        Profile::parse(text)
    }

    /// Reads a profile from TOML and checks it.
    ///
    /// # Errors
    /// `Kind::Profile` naming the field.
    pub fn parse(text: &str) -> Result<Profile> {
        let profile: Profile = toml::from_str(text)
            .map_err(|e| Error::with_source(Kind::Profile, "zoned profile", e))?;
        profile.geometry.validate()?;
        if profile.timing.channels == 0 {
            return Err(Error::new(Kind::Profile, "channels = 0: the nearest legal is 1"));
        }
        Ok(profile)
    }
}

/// The virtual time line of one emulated device.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    timing: Timing,
    channels: Resource,
    now: Picos,
}

impl Timeline {
    pub(super) fn new(timing: Timing) -> Timeline {
        let channels = Resource::new(timing.channels);
        Timeline { timing, channels, now: Picos::ZERO }
    }

    pub(super) fn timing(&self) -> &Timing {
        &self.timing
    }

    pub(super) fn now(&self) -> Picos {
        self.now
    }

    pub(super) fn advance_to(&mut self, to: Picos) {
        self.now = self.now.max(to);
    }

    /// Serves a request of `nanos` on the zone's channel and says when it ends.
    pub(super) fn serve(&mut self, zone: ZoneId, resets: u64, nanos: u64) -> Picos {
        let channel = zone.index() % self.timing.channels;
        let length = Picos::from_nanos(self.worn(resets, nanos));
        self.channels.acquire_unit(channel, self.now, length).end
    }

    fn worn(&self, resets: u64, nanos: u64) -> u64 {
        let steps = resets.checked_div(self.timing.wear_step_resets).unwrap_or(0);
        nanos + nanos.saturating_mul(steps * self.timing.wear_step_percent) / 100
    }

    /// When everything submitted so far has ended.
    pub(super) fn drained(&self) -> Picos {
        let ends = (0..self.channels.width()).map(|c| self.channels.free_at(c));
        ends.max().expect("invariant: a device has at least one channel").max(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_profiles_are_legal_and_name_their_sources() {
        for name in Profile::names() {
            let p = Profile::named(name).unwrap();
            assert!(!p.timing.source.is_empty(), "{name}");
        }
        let e = Profile::named("x").unwrap_err().to_string();
        assert!(e.contains("zns-paper"), "{e}");
        assert!(Profile::parse("[geometry]").is_err());
    }

    #[test]
    fn a_worn_zone_is_slower_and_channels_overlap() {
        let mut timing = Profile::named("zns-paper").unwrap().timing;
        (timing.channels, timing.wear_step_resets, timing.wear_step_percent) = (2, 10, 50);
        let mut t = Timeline::new(timing);
        assert_eq!(t.serve(ZoneId(0), 0, 100), Picos::from_nanos(100));
        assert_eq!(t.serve(ZoneId(1), 25, 100), Picos::from_nanos(200));
        assert_eq!(t.serve(ZoneId(2), 0, 100), Picos::from_nanos(200));
        assert_eq!(t.drained(), Picos::from_nanos(200));
    }
}
