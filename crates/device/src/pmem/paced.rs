//! A domain in real time against a modelled part: each fence returns no sooner than the part would.
//!
//! - Latency: a fence that covers write-backs returns at least `write_latency_ns` after it began.
//! - Bandwidth: each distinct media line since this domain's last fence books its time on one queue
//!   shared by all threads; a fence waits until what is booked beyond the part's buffer has
//!   drained.
//! - Not modelled: read latency on cache misses, reordering inside the part, other processes'
//!   traffic.
//!
//! The clock of every figure taken over this domain is *paced*; the processor is shared with the
//! model only while a fence spins.

use std::collections::BTreeSet;
use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use littoral_base::clock::{Clock, WallClock};
use littoral_base::units::Picos;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};
use crate::memory::{Domain, Promise};

/// A persistent-memory part as data; every field is checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PmemProfile {
    /// The name reports carry.
    pub name: String,
    /// One sentence on what it stands for; no part of the hash.
    #[serde(default, skip_serializing)]
    pub summary: String,
    /// Where the figures come from; no part of the hash.
    #[serde(default, skip_serializing)]
    pub source: String,
    /// Time from a fence to durability of one line, idle, in nanoseconds.
    pub write_latency_ns: u64,
    /// The unit the medium writes, in bytes: a power of two from 64 on.
    pub media_line_bytes: u64,
    /// Sustained random write bandwidth in bytes a second.
    pub write_bandwidth_bytes_per_s: u64,
    /// Random read latency in nanoseconds; reported, not charged.
    pub read_latency_ns: u64,
    /// Bytes the part accepts ahead of its medium.
    pub buffer_bytes: u64,
}

impl PmemProfile {
    /// Reads a profile from TOML text; `origin` names it in errors.
    ///
    /// # Errors
    /// `Kind::Profile` naming the field and the nearest legal value.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let parsed: PmemProfile = toml::from_str(text)
            .map_err(|e| Error::with_source(Kind::Profile, format!("{origin}: pmem profile"), e))?;
        parsed.check(origin)?;
        Ok(parsed)
    }

    /// The name of the shipped profile.
    pub const SHIPPED: &str = "optane-dcpmm";

    /// XXH3-64 of name and values, sixteen hexadecimal digits.
    pub fn hash(&self) -> String {
        let text = toml::to_string(self).expect("invariant: a profile is a table of numbers");
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    }

    /// The first Optane DC module.
    pub fn optane_dcpmm() -> Self {
        let text = include_str!("../../profiles/optane-dcpmm.toml");
        Self::parse(text, Self::SHIPPED).expect("invariant: the shipped profile is legal")
    }

    fn check(&self, origin: &str) -> Result<()> {
        let bad = |field: &str, value: u64, legal: u64| {
            let text = format!("{origin}: {field} = {value}; the nearest legal value is {legal}");
            Err(Error::new(Kind::Profile, text))
        };
        if !self.media_line_bytes.is_power_of_two() || self.media_line_bytes < 64 {
            let legal =
                self.media_line_bytes.max(64).checked_next_power_of_two().unwrap_or(1 << 63);
            return bad("media_line_bytes", self.media_line_bytes, legal);
        }
        if self.write_bandwidth_bytes_per_s == 0 {
            return bad("write_bandwidth_bytes_per_s", 0, 1);
        }
        if self.write_latency_ns > 1_000_000_000 {
            return bad("write_latency_ns", self.write_latency_ns, 1_000_000_000);
        }
        Ok(())
    }

    fn media_line_time(&self) -> Picos {
        let line = u128::from(self.media_line_bytes) * 1_000_000_000_000;
        let picos = line / u128::from(self.write_bandwidth_bytes_per_s);
        Picos(u64::try_from(picos).unwrap_or(u64::MAX / 4))
    }

    fn buffer_time(&self) -> Picos {
        let lines = self.buffer_bytes / self.media_line_bytes;
        Picos(self.media_line_time().0.saturating_mul(lines))
    }
}

/// A domain paced by a profile.
#[derive(Debug)]
pub struct Paced<D, C = WallClock> {
    inner: D,
    profile: PmemProfile,
    clock: C,
    dirty: Mutex<BTreeSet<usize>>,
    busy_until: Mutex<Picos>,
}

impl<D: Domain> Paced<D> {
    /// Paces `inner` by `profile` in real time.
    pub fn new(inner: D, profile: PmemProfile) -> Self {
        Self::with_clock(inner, profile, WallClock::new())
    }
}

impl<D: Domain, C: Clock + Send + Sync> Paced<D, C> {
    /// Paces `inner` by `profile` on a clock of the caller's.
    pub fn with_clock(inner: D, profile: PmemProfile, clock: C) -> Self {
        let (dirty, busy_until) = (Mutex::default(), Mutex::default());
        Paced { inner, profile, clock, dirty, busy_until }
    }

    /// When the writes since the last fence, begun `now`, are accepted by the part.
    fn deadline(&self, now: Picos) -> Picos {
        let lines =
            std::mem::take(&mut *self.dirty.lock().expect("invariant: no panic inside")).len();
        if lines == 0 {
            return now;
        }
        let work = Picos(self.profile.media_line_time().0.saturating_mul(lines as u64));
        let mut busy = self.busy_until.lock().expect("invariant: no panic inside");
        *busy = (*busy).max(now) + work;
        let drained = busy.saturating_sub(self.profile.buffer_time());
        drained.max(now + Picos::from_nanos(self.profile.write_latency_ns))
    }
}

impl<D: Domain, C: Clock + Send + Sync> Domain for Paced<D, C> {
    fn len(&self) -> usize {
        self.inner.len()
    }
    fn owner_before_fork(&self) -> Option<u32> {
        self.inner.owner_before_fork()
    }
    fn promise(&self) -> Promise {
        self.inner.promise()
    }
    #[inline(always)]
    fn word(&self, offset: usize, order: Ordering) -> u64 {
        self.inner.word(offset, order)
    }
    #[inline(always)]
    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.inner.store(offset, value, order);
    }
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> std::result::Result<u64, u64> {
        self.inner.compare_exchange(offset, current, new, success, failure)
    }
    fn write_back(&self, offset: usize, len: usize) {
        let unit = self.profile.media_line_bytes as usize;
        let lines = offset / unit..(offset + len).div_ceil(unit);
        self.dirty.lock().expect("invariant: no panic inside").extend(lines);
        self.inner.write_back(offset, len);
    }
    fn invalidate(&self, offset: usize, len: usize) {
        self.inner.invalidate(offset, len);
    }
    fn fence(&self) -> Result<()> {
        let deadline = self.deadline(self.clock.now());
        let done = self.inner.fence();
        while self.clock.now() < deadline {
            spin_loop();
        }
        done
    }
    fn commit_point(&self) {
        self.inner.commit_point();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmem::Dram;

    #[test]
    fn a_burst_beyond_the_buffer_waits_for_the_medium_and_a_small_one_only_for_latency() {
        let p = Paced::new(Dram::new(1 << 20), PmemProfile::optane_dcpmm());
        p.write_back(0, 64);
        assert_eq!(p.deadline(Picos::ZERO), Picos::from_nanos(62));
        assert_eq!(
            p.deadline(Picos::ZERO),
            Picos::ZERO,
            "nothing written back, nothing to wait for"
        );
        p.write_back(0, 1 << 20);
        let picos_per_line = 256_000_000_000_000 / 2_300_000_000;
        let wanted = picos_per_line * (1 + 4096 - 64);
        assert_eq!(p.deadline(Picos::ZERO), Picos(wanted));
    }

    #[test]
    fn a_bad_profile_names_its_field_and_a_legal_value() {
        let good = include_str!("../../profiles/optane-dcpmm.toml");
        let bad = good.replace("media_line_bytes = 256", "media_line_bytes = 100");
        let e = PmemProfile::parse(&bad, "mine.toml").unwrap_err().to_string();
        assert!(
            e.contains("mine.toml") && e.contains("media_line_bytes") && e.contains("128"),
            "{e}"
        );
        let unknown = format!("{good}\nspeed = 3\n");
        assert_eq!(PmemProfile::parse(&unknown, "x").unwrap_err().kind(), Kind::Profile);
    }
}
