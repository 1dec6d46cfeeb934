//! A flash profile in virtual time: what a closed loop of reads would reach, without any host.
//!
//! Each read passes the core's queue (`read.per_core_max`), the flash (the NAND model, or a fixed
//! latency where the profile describes no flash) and the link (`link.bytes_max`). The result bounds
//! what paced and real runs can reach, and shows whether a profile's own figures agree with each
//! other.
//!
//! Invariants
//! - Exactly `outstanding` reads are in the system until the last ones drain. Checked by
//!   `little_s_law_holds`.
//! - Integer picoseconds, seeded addresses: bit-equal on replay. Clock: virtual. Checked by
//!   `little_s_law_holds`.

use std::collections::BTreeMap;

use littoral_base::rng;
use littoral_base::sim::{Queue, Resource};
use littoral_base::units::Picos;

use crate::error::{Error, Kind, Result};
use crate::nand::{Command, CommandId, Nand, duration};
use crate::profile::Flash;

/// What a closed loop reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopReport {
    /// Reads finished.
    pub reads_count: u64,
    /// Virtual time from the first submission to the last answer.
    pub elapsed: Picos,
    /// Mean time from submission to answer.
    pub latency_mean: Picos,
    /// Longest time from submission to answer.
    pub latency_max: Picos,
}

impl LoopReport {
    /// Reads a virtual second.
    pub fn reads_per_s(&self) -> f64 {
        self.reads_count as f64 / self.elapsed.as_secs_f64()
    }
}

/// A closed loop on one core's queue.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Reads in flight.
    pub outstanding: u32,
    /// Bytes of each read.
    pub read_bytes: u32,
    /// Reads in all.
    pub reads: u64,
    /// Seed of the addresses.
    pub seed: u64,
}

enum Event {
    /// A read reaches the flash.
    Admitted(u64),
    /// Its data are at the controller.
    Fetched(u64),
    /// Its data are in memory.
    Arrived(u64),
}

struct Loop {
    flash: Flash,
    load: Load,
    nand: Option<Nand>,
    in_flash: BTreeMap<CommandId, u64>,
    events: Queue<Event>,
    queue: Resource,
    link: Resource,
    submitted_at: Vec<Picos>,
    report: LoopReport,
    latency_sum: u128,
}

/// Runs `load` against `flash`.
///
/// # Errors
/// `Kind::IllegalRequest` when the load breaks the profile's limits.
pub fn closed_loop(flash: &Flash, load: Load) -> Result<LoopReport> {
    let depth = flash.queue_depth - 1;
    if load.outstanding == 0 || load.outstanding > depth || load.reads == 0 {
        let nearest = load.outstanding.clamp(1, depth);
        let message =
            format!("{} reads in flight; nearest legal value {nearest}", load.outstanding);
        return Err(Error::new(Kind::IllegalRequest, message));
    }
    if load.read_bytes == 0 || load.read_bytes > flash.read_bytes_max {
        let message =
            format!("reads of {} B; the longest is {}", load.read_bytes, flash.read_bytes_max);
        return Err(Error::new(Kind::IllegalRequest, message));
    }
    let zero = Picos::ZERO;
    let report =
        LoopReport { reads_count: 0, elapsed: zero, latency_mean: zero, latency_max: zero };
    let mut state = Loop {
        flash: *flash,
        load,
        nand: flash.nand.map(Nand::new),
        in_flash: BTreeMap::new(),
        events: Queue::new(),
        queue: Resource::new(1),
        link: Resource::new(1),
        submitted_at: Vec::new(),
        report,
        latency_sum: 0,
    };
    for _ in 0..load.outstanding {
        state.submit(zero);
    }
    state.run();
    state.report.latency_mean =
        Picos((state.latency_sum / u128::from(state.report.reads_count)) as u64);
    Ok(state.report)
}

impl Loop {
    fn submit(&mut self, now: Picos) {
        let id = self.submitted_at.len() as u64;
        if id >= self.load.reads {
            return;
        }
        self.submitted_at.push(now);
        let slot = self.queue.acquire(now, duration(1, self.flash.reads_per_core_max));
        self.events.schedule(slot.begin, Event::Admitted(id));
    }

    fn run(&mut self) {
        loop {
            let limit = self.events.peek_time().unwrap_or(Picos::MAX);
            if let Some(done) = self.nand.as_mut().and_then(|n| n.finished_until(limit)) {
                let id = self.in_flash.remove(&done.id).expect("invariant: submitted here");
                let at = done.end + self.overhead();
                self.events.schedule(at, Event::Fetched(id));
                continue;
            }
            match self.events.pop() {
                Some((now, Event::Admitted(id))) => self.fetch(id, now),
                Some((now, Event::Fetched(id))) => self.send(id, now),
                Some((now, Event::Arrived(id))) => self.arrive(id, now),
                None => return,
            }
        }
    }

    /// The latency outside the flash: what `read.latency` holds beyond an idle cell read.
    fn overhead(&self) -> Picos {
        let Some(p) = self.flash.nand else { return Picos::ZERO };
        let bytes = u64::from(self.load.read_bytes);
        let idle = p.read + duration(bytes, p.channel_bytes_per_s) + self.link_time();
        self.flash.latency.saturating_sub(idle)
    }

    fn link_time(&self) -> Picos {
        duration(u64::from(self.load.read_bytes), self.flash.link_bytes_per_s)
    }

    fn fetch(&mut self, id: u64, now: Picos) {
        let Some(nand) = &mut self.nand else {
            let flash = self.flash.latency.saturating_sub(self.link_time());
            self.events.schedule(now + flash, Event::Fetched(id));
            return;
        };
        let chip = nand.place(rng::mix(self.load.seed ^ rng::mix(id)));
        let command = nand.submit(now, Command::Read { bytes: self.load.read_bytes }, chip);
        self.in_flash.insert(command, id);
    }

    fn send(&mut self, id: u64, now: Picos) {
        let sent = self.link.acquire(now, self.link_time());
        self.events.schedule(sent.end, Event::Arrived(id));
    }

    fn arrive(&mut self, id: u64, now: Picos) {
        let latency = now - self.submitted_at[id as usize];
        self.latency_sum += u128::from(latency.0);
        self.report.latency_max = self.report.latency_max.max(latency);
        self.report.reads_count += 1;
        self.report.elapsed = now;
        self.submit(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use proptest::prelude::*;

    fn load(outstanding: u32, reads: u64) -> Load {
        Load { outstanding, read_bytes: 512, reads, seed: 9 }
    }

    #[test]
    fn one_read_at_a_time_takes_the_profile_s_latency() {
        for name in Profile::shipped_of(crate::profile::DeviceKind::Flash) {
            let flash = Profile::named(name).unwrap().flash().unwrap();
            let report = closed_loop(&flash, load(1, 50)).unwrap();
            let wanted = flash.latency.0 as f64;
            let found = report.latency_mean.0 as f64;
            assert!((found / wanted - 1.0).abs() < 0.01, "{name}: {found} ps, wanted {wanted}");
        }
    }

    #[test]
    fn every_shipped_profile_reaches_the_rate_it_names() {
        for name in Profile::shipped_of(crate::profile::DeviceKind::Flash) {
            let flash = Profile::named(name).unwrap().flash().unwrap();
            let link = flash.link_bytes_per_s / 512;
            let bound = flash.reads_per_core_max.min(link) as f64;
            let deep = load(flash.queue_depth - 1, 200_000);
            let rate = closed_loop(&flash, deep).unwrap().reads_per_s();
            assert!(rate > 0.9 * bound && rate < 1.02 * bound, "{name}: {rate:.0} of {bound:.0}");
        }
    }

    proptest! {
        #![proptest_config(littoral_testing::cases(24))]

        #[test]
        fn little_s_law_holds(outstanding in 1u32..600, read_bytes in 16u32..2048, seed: u64) {
            let flash = Profile::named("xlfdd").unwrap().flash().unwrap();
            let reads = 20_000;
            let load = Load { outstanding, read_bytes, reads, seed };
            let r = closed_loop(&flash, load).unwrap();
            prop_assert_eq!(closed_loop(&flash, load).unwrap(), r, "replay differs");
            prop_assert_eq!(r.reads_count, reads);
            let in_system = r.reads_per_s() * r.latency_mean.as_secs_f64();
            let ratio = in_system / f64::from(outstanding);
            // The last reads drain with fewer than `outstanding` in flight.
            prop_assert!(ratio <= 1.0001 && ratio > 1.0 - 2.0 * f64::from(outstanding) / reads as f64 - 0.01, "{}", ratio);
        }
    }

    #[test]
    fn loads_out_of_range_are_refused_with_the_nearest() {
        let flash = Profile::named("xlfdd").unwrap().flash().unwrap();
        let e = closed_loop(&flash, load(5000, 1)).unwrap_err().to_string();
        assert!(e.contains("nearest legal value 4095"), "{e}");
        assert!(closed_loop(&flash, Load { read_bytes: 4096, ..load(1, 1) }).is_err());
        assert!(closed_loop(&flash, load(1, 0)).is_err());
    }
}
