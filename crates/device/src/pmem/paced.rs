//! A domain in real time against a modelled part: each fence returns no sooner than the part would.
//!
//! - Latency: a fence that covers write-backs returns at least the write latency after it began.
//! - Bandwidth: each distinct media line that a thread wrote back since its last fence books its
//!   time on one queue shared by all threads; a fence waits until what is booked beyond the part's
//!   buffer has drained.
//! - Not modelled: read latency on cache misses, reordering inside the part, other processes'
//!   traffic.
//!
//! The clock of every figure taken over this domain is *paced*; the processor is shared with the
//! model only while a fence spins.

use std::collections::{BTreeSet, HashMap};
use std::hint::spin_loop;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use littoral_base::clock::{Clock, WallClock};
use littoral_base::units::Picos;

use crate::error::Result;
use crate::forward_domain;
use crate::memory::Domain;
use crate::profile::Memory;

/// Time of one media line at the medium's bandwidth.
fn media_line_time(part: &Memory) -> Picos {
    let line = u128::from(part.line_bytes) * 1_000_000_000_000;
    Picos(u64::try_from(line / u128::from(part.write_bytes_per_s)).unwrap_or(u64::MAX / 4))
}

/// Time to drain a full buffer.
fn buffer_time(part: &Memory) -> Picos {
    Picos(media_line_time(part).0.saturating_mul(part.buffer_bytes / part.line_bytes))
}

/// A domain paced by a profile.
#[derive(Debug)]
pub struct Paced<D, C = WallClock> {
    inner: D,
    part: Memory,
    clock: C,
    /// Media lines that a thread wrote back and has not fenced.
    dirty: Mutex<HashMap<ThreadId, BTreeSet<usize>>>,
    busy_until: Mutex<Picos>,
}

impl<D: Domain> Paced<D> {
    /// Paces `inner` by the figures of `part` in real time.
    pub fn new(inner: D, part: Memory) -> Self {
        Self::with_clock(inner, part, WallClock::new())
    }
}

impl<D: Domain, C: Clock + Send + Sync> Paced<D, C> {
    /// Paces `inner` by the figures of `part` on a clock of the caller's.
    pub fn with_clock(inner: D, part: Memory, clock: C) -> Self {
        let (dirty, busy_until) = (Mutex::default(), Mutex::default());
        Paced { inner, part, clock, dirty, busy_until }
    }

    /// When the writes of this thread since its last fence, begun `now`, are accepted by the part.
    fn deadline(&self, now: Picos) -> Picos {
        let mut dirty = self.dirty.lock().expect("invariant: no panic inside");
        let mine = dirty.remove(&thread::current().id());
        drop(dirty);
        let Some(lines) = mine.filter(|lines| !lines.is_empty()) else { return now };
        let work = Picos(media_line_time(&self.part).0.saturating_mul(lines.len() as u64));
        let mut busy = self.busy_until.lock().expect("invariant: no panic inside");
        // A part may be so slow that what is booked ends beyond what the clock counts.
        *busy = Picos(busy.0.max(now.0).saturating_add(work.0));
        let drained = busy.saturating_sub(buffer_time(&self.part));
        drained.max(now + self.part.write_latency)
    }
}

macro_rules! inner {
    ($self:ident, $($call:tt)+) => {
        $self.inner.$($call)+
    };
}

impl<D: Domain, C: Clock + Send + Sync> Domain for Paced<D, C> {
    forward_domain!(inner: len owner_before_fork promise word store compare_exchange invalidate commit_point);

    fn write_back(&self, offset: usize, len: usize) {
        let unit = self.part.line_bytes as usize;
        let lines = offset / unit..(offset + len).div_ceil(unit);
        let mut dirty = self.dirty.lock().expect("invariant: no panic inside");
        dirty.entry(thread::current().id()).or_default().extend(lines);
        drop(dirty);
        self.inner.write_back(offset, len);
    }
    fn fence(&self) -> Result<()> {
        let deadline = self.deadline(self.clock.now());
        let done = self.inner.fence();
        while self.clock.now() < deadline {
            spin_loop();
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmem::Dram;
    use crate::profile::Profile;

    #[test]
    fn a_burst_beyond_the_buffer_waits_for_the_medium_and_a_small_one_only_for_latency() {
        let optane = Profile::named("optane-dcpmm").unwrap().memory().unwrap();
        let p = Paced::new(Dram::new(1 << 20), optane);
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
    fn a_part_of_a_byte_a_second_is_booked_to_the_end_of_time() {
        let optane = Profile::named("optane-dcpmm").unwrap().memory().unwrap();
        let part = Memory { write_bytes_per_s: 1, line_bytes: 1 << 20, buffer_bytes: 0, ..optane };
        let p = Paced::new(Dram::new(32 << 20), part);
        for _ in 0..2 {
            p.write_back(0, 32 << 20);
            assert_eq!(p.deadline(Picos(5)), Picos(u64::MAX));
        }
    }

    #[test]
    fn a_fence_waits_for_what_its_own_thread_wrote_back() {
        let optane = Profile::named("optane-dcpmm").unwrap().memory().unwrap();
        let p = Paced::new(Dram::new(1 << 20), optane);
        p.write_back(0, 64);
        let other = thread::scope(|s| s.spawn(|| p.deadline(Picos::ZERO)).join().unwrap());
        assert_eq!(other, Picos::ZERO, "that thread wrote nothing back");
        assert_eq!(p.deadline(Picos::ZERO), Picos::from_nanos(62));
    }
}
