//! How long the emulated zoned device takes, in virtual time, and the shipped profiles.
//!
//! - A zone lives on one chip of the NAND model ([`crate::nand::Chips`]), `zone % channels`, which
//!   serves one request at a time, in the order of the requests; reads overtake nothing.
//! - A worn zone is slower: every `wear_step_resets` resets add `wear_step_percent` to its
//!   latencies.
//! - Profiles are data: [`Profile::named`] returns the shipped ones, [`Profile::parse`] reads TOML.
//!
//! Latencies a block are fixed; striping inside a zone and write buffers are in the figures of a
//! profile, not in the model.

use littoral_base::units::{Picos, ZoneId};
use serde::{Deserialize, Serialize};

use super::zones::Geometry;
use crate::error::{Error, Kind, Result};
use crate::nand::Chips;

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
    /// One sentence on what it stands for; no part of the hash.
    #[serde(default, skip_serializing)]
    pub summary: String,
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
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
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

    /// A shipped profile, or the file at `name` when `name` looks like a path (has a `/` or ends in
    /// `.toml`).
    ///
    /// # Errors
    /// `Kind::Io` when the file cannot be read; else as [`Profile::named`] and [`Profile::parse`].
    pub fn open(name: &str) -> Result<Profile> {
        if !(name.contains('/') || name.ends_with(".toml")) {
            return Self::named(name);
        }
        let text = std::fs::read_to_string(name)
            .map_err(|e| Error::with_source(Kind::Io, format!("reading profile {name}"), e))?;
        Self::parse(&text).map_err(|e| e.in_context(name))
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

    /// XXH3-64 of every value, sixteen hexadecimal digits; the source's words do not count.
    pub fn hash(&self) -> String {
        let mut values = self.clone();
        values.timing.source.clear();
        let text = toml::to_string(&values).expect("invariant: a profile is a table of numbers");
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    }
}

/// The virtual time line of one emulated device.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    timing: Timing,
    chips: Chips,
    now: Picos,
}

impl Timeline {
    pub(super) fn new(timing: Timing) -> Timeline {
        let chips = Chips::new(timing.channels);
        Timeline { timing, chips, now: Picos::ZERO }
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

    /// Serves a request of `nanos` on the zone's chip and says when it ends.
    pub(super) fn serve(&mut self, zone: ZoneId, resets: u64, nanos: u64) -> Picos {
        let chip = zone.index() % self.timing.channels;
        self.chips.submit(self.now, chip, Picos::from_nanos(self.worn(resets, nanos)))
    }

    fn worn(&self, resets: u64, nanos: u64) -> u64 {
        let steps = resets.checked_div(self.timing.wear_step_resets).unwrap_or(0);
        nanos + nanos.saturating_mul(steps * self.timing.wear_step_percent) / 100
    }

    /// When everything submitted so far has ended.
    pub(super) fn drained(&self) -> Picos {
        self.chips.idle_at().max(self.now)
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
            let (mut words, mut value) = (p.clone(), p.clone());
            words.timing.source.push('.');
            value.timing.read_ns += 1;
            assert_eq!(words.hash(), p.hash(), "{name}");
            assert_ne!(value.hash(), p.hash(), "{name}");
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
