//! How long a job would take on a device: the job's counts, this processor's time, the device's
//! figures.
//!
//! Input
//! - *Counts*: the job's phases ([`Phase`]): reads, bytes, chains of dependent reads. They are the
//!   same on every device of one granule and longest read.
//! - *Processor time* of each phase: measured on the same code and interface with a *near* device,
//!   which has a short latency and no other limit: it is the time that makes the model explain
//!   that measurement ([`Counts::explain`]). A device without any latency would not do: a read's
//!   data would come from DRAM only when they are used, which no other device's do.
//! - *Figures*: latency, reads per second, link, contexts.
//!
//! A phase is replayed as a queue with one server: the processor serves one answer at a time, in
//! the order of arrival; a context that has been served issues its next read at once; the device
//! starts reads no closer than its rate allows, answers after its latency, and sends data over the
//! link one after another. A phase ends with its last answer served. The job's time is the sum of
//! its phases and of the processor's work between them.
//!
//! What the model leaves out: the processor's caches fill with answers not yet served, polls of
//! contexts that wait delay an answer by some tens of nanoseconds, and contexts beyond the number
//! that the processor time was measured with cost a little more each.
//!
//! Invariants
//! - Same input, same prediction: nothing here reads a clock. Checked by
//!   `a_prediction_is_never_below_a_bound`.
//! - A prediction is never below any of its bounds ([`Bounds`]). Checked by
//!   `a_prediction_is_never_below_a_bound`.

use std::collections::VecDeque;

use littoral_graph::kernels::Phase;
use serde::{Deserialize, Serialize};

/// What limits a job on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Reads that wait for one another, or too few contexts for the latency.
    Latency,
    /// The device's reads per second.
    Reads,
    /// The link's bytes per second.
    Link,
    /// The processor.
    Processor,
}

impl Bound {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Latency => "latency",
            Bound::Reads => "reads",
            Bound::Link => "link",
            Bound::Processor => "processor",
        }
    }
}

/// A device as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Read latency.
    pub latency_ns: f64,
    /// Reads per second of one core.
    pub reads_per_s: f64,
    /// Bytes per second of the link.
    pub link_bytes_per_s: f64,
    /// Contexts of the ring.
    pub contexts: u32,
}

/// A job as the model sees it: its phases, whose `time_ns` is processor time, and the processor's
/// work between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// The phases in order, of all sources.
    pub phases: Vec<Phase>,
    /// Processor time outside phases.
    pub between_ns: f64,
}

/// The least time each limit alone would allow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Chains of dependent reads, and Little's law for the contexts.
    pub latency_ns: f64,
    /// Reads over the rate.
    pub reads_ns: f64,
    /// Bytes over the link.
    pub link_ns: f64,
    /// All processor time.
    pub processor_ns: f64,
}

impl Bounds {
    /// The greatest.
    pub fn binding(self) -> Bound {
        let all = [
            (self.latency_ns, Bound::Latency),
            (self.reads_ns, Bound::Reads),
            (self.link_ns, Bound::Link),
            (self.processor_ns, Bound::Processor),
        ];
        all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(Bound::Processor, |(_, b)| b)
    }
}

/// What the model says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The job's time.
    pub time_ns: f64,
    /// What stands behind it.
    pub bounds: Bounds,
}

impl Counts {
    /// Counts whose processor times explain `phases` as they were measured on a device `near`.
    pub fn explain(mut phases: Vec<Phase>, between_ns: f64, near: &Figures) -> Counts {
        for phase in &mut phases {
            let measured_ns = phase.time_ns;
            // Processor time is at most all of it; less explains less, so halving finds it.
            let (mut low, mut high) = (0.0, measured_ns);
            for _ in 0..HALVINGS {
                phase.time_ns = (low + high) / 2.0;
                if replay(phase, near) > measured_ns {
                    high = phase.time_ns;
                } else {
                    low = phase.time_ns;
                }
            }
            phase.time_ns = high;
        }
        Counts { phases, between_ns }
    }

    /// Reads of all phases.
    pub fn reads_count(&self) -> u64 {
        self.phases.iter().map(|p| p.reads_count).sum()
    }

    /// Bytes of all phases.
    pub fn read_bytes(&self) -> u64 {
        self.phases.iter().map(|p| p.read_bytes).sum()
    }

    /// Reads that wait for one another from begin to end: the longest chains of all phases.
    pub fn depth_count(&self) -> u64 {
        self.phases.iter().map(|p| u64::from(p.depth())).sum()
    }

    /// The job's time on a device.
    pub fn predict(&self, on: &Figures) -> Prediction {
        let mut bounds = Bounds { processor_ns: self.between_ns, ..Bounds::default() };
        let mut time_ns = self.between_ns;
        for phase in &self.phases {
            let b = bounds_of(phase, on);
            bounds.latency_ns += b.latency_ns;
            bounds.reads_ns += b.reads_ns;
            bounds.link_ns += b.link_ns;
            bounds.processor_ns += b.processor_ns;
            let least = b.latency_ns.max(b.reads_ns).max(b.link_ns).max(b.processor_ns);
            time_ns += replay(phase, on).max(least);
        }
        Prediction { time_ns, bounds }
    }
}

fn per(count: f64, rate: f64) -> f64 {
    if rate > 0.0 { count / rate * 1e9 } else { 0.0 }
}

fn bounds_of(phase: &Phase, on: &Figures) -> Bounds {
    let rounds: f64 = phase.chains.iter().map(|c| f64::from(c.depth) * c.count as f64).sum();
    let contexts = f64::from(contexts_of(phase, on));
    let far = 1.0 - held_share(phase);
    Bounds {
        latency_ns: on.latency_ns * (f64::from(phase.depth()).max(rounds / contexts) * far).floor(),
        reads_ns: per(phase.reads_count.saturating_sub(phase.held_count) as f64, on.reads_per_s),
        link_ns: per(phase.read_bytes.saturating_sub(phase.held_bytes) as f64, on.link_bytes_per_s),
        processor_ns: phase.time_ns,
    }
}

/// The share of a phase's reads that DRAM answers.
fn held_share(phase: &Phase) -> f64 {
    phase.held_count as f64 / phase.reads_count.max(1) as f64
}

/// Contexts that have something to do in a phase.
fn contexts_of(phase: &Phase, on: &Figures) -> u32 {
    let chains: u64 = phase.chains.iter().map(|c| c.count).sum();
    chains.min(u64::from(on.contexts.min(phase.contexts_max))).max(1) as u32
}

/// Steps in which a phase's processor time is found: to one part in 65536 of the phase.
const HALVINGS: u32 = 16;
/// The share of a read's processor time that is spent before the device has it.
const ISSUE_SHARE: f64 = 0.4;
/// Most of it, whatever is done with the data: finding a slot, the request itself.
const ISSUE_NS_MAX: f64 = 15.0;

/// The device's side of a replay: when a round of reads issued now will have arrived.
struct Pace {
    latency_ns: f64,
    interval_ns: f64,
    transfer_ns: f64,
    start_next: f64,
    link_free: f64,
    /// The share of reads that DRAM answers, and what of it is due.
    held_share: f64,
    held_due: f64,
}

impl Pace {
    fn admit(&mut self, now: f64, reads: u32) -> f64 {
        let mut arrived = now;
        for _ in 0..reads {
            self.held_due += self.held_share;
            if self.held_due >= 1.0 {
                self.held_due -= 1.0;
                continue;
            }
            let start = now.max(self.start_next);
            self.start_next = start + self.interval_ns;
            self.link_free = (start + self.latency_ns).max(self.link_free) + self.transfer_ns;
            arrived = self.link_free;
        }
        arrived
    }
}

/// Answers not yet served: when they are due, and the rounds left of their chains.
#[derive(Default)]
struct Waiting {
    /// From DRAM: due when they were asked for.
    held: VecDeque<(f64, u32)>,
    /// From the device, whose answers come in the order of the requests.
    far: VecDeque<(f64, u32)>,
}

impl Waiting {
    fn push(&mut self, now: f64, due: f64, left: u32) {
        if due <= now { &mut self.held } else { &mut self.far }.push_back((due, left));
    }

    fn pop(&mut self) -> Option<(f64, u32)> {
        self.held.pop_front().or_else(|| self.far.pop_front())
    }
}

/// Chains of a phase in an order that mixes lengths, as vertices do.
struct Supply<'p> {
    phase: &'p Phase,
    total: u64,
    stride: u64,
    taken: u64,
}

impl<'p> Supply<'p> {
    fn new(phase: &'p Phase) -> Supply<'p> {
        let total: u64 = phase.chains.iter().map(|c| c.count).sum();
        // A stride near the golden ratio visits every place once when it shares no factor.
        let mut stride = (total as f64 * 0.618) as u64 | 1;
        while total > 0 && gcd(stride, total) != 1 {
            stride += 2;
        }
        Supply { phase, total, stride, taken: 0 }
    }

    /// Rounds of the next chain.
    fn next(&mut self) -> Option<u32> {
        if self.taken == self.total {
            return None;
        }
        let chains = &self.phase.chains;
        self.taken += 1;
        if let [only] = chains[..] {
            return Some(only.depth);
        }
        let mut place =
            (u128::from(self.taken) * u128::from(self.stride) % u128::from(self.total)) as u64;
        for chain in chains {
            if place < chain.count {
                return Some(chain.depth);
            }
            place -= chain.count;
        }
        None
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The time of one phase by replaying it; see the module's page.
fn replay(phase: &Phase, on: &Figures) -> f64 {
    let rounds: u64 = phase.chains.iter().map(|c| u64::from(c.depth) * c.count).sum();
    if rounds == 0 {
        return phase.time_ns;
    }
    let served_ns = phase.time_ns / rounds as f64;
    let issue_ns = (served_ns * ISSUE_SHARE).min(ISSUE_NS_MAX);
    let use_ns = served_ns - issue_ns;
    let mut pace = Pace {
        latency_ns: on.latency_ns,
        interval_ns: per(1.0, on.reads_per_s),
        transfer_ns: per(phase.read_bytes as f64 / phase.reads_count as f64, on.link_bytes_per_s),
        start_next: 0.0,
        link_free: 0.0,
        held_share: held_share(phase),
        held_due: 0.0,
    };
    let reads = phase.reads_at_once.max(1);
    let mut supply = Supply::new(phase);
    let mut waiting = Waiting::default();
    let mut now = 0.0;
    for _ in 0..contexts_of(phase, on) {
        let Some(depth) = supply.next() else { break };
        now += issue_ns;
        waiting.push(now, pace.admit(now, reads), depth - 1);
    }
    while let Some((due, left)) = waiting.pop() {
        now = f64::max(now, due) + use_ns;
        let next = if left > 0 { Some(left) } else { supply.next() };
        if let Some(left) = next {
            now += issue_ns;
            waiting.push(now, pace.admit(now, reads), left - 1);
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_graph::kernels::Chain;
    use proptest::prelude::*;

    fn phase(chains: &[(u32, u64)], bytes: u64, time_ns: f64) -> Phase {
        let chains: Vec<Chain> =
            chains.iter().map(|&(depth, count)| Chain { depth, count }).collect();
        let reads: u64 = chains.iter().map(|c| u64::from(c.depth) * c.count).sum();
        Phase {
            reads_count: reads,
            read_bytes: reads * bytes,
            held_count: 0,
            held_bytes: 0,
            chains,
            reads_at_once: 1,
            contexts_max: u32::MAX,
            time_ns,
        }
    }

    fn figures(latency_ns: f64, reads_per_s: f64, contexts: u32) -> Figures {
        Figures { latency_ns, reads_per_s, link_bytes_per_s: 12.8e9, contexts }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 0.02 * b
    }

    #[test]
    fn one_read_costs_the_latency_and_its_own_time() {
        let job = Counts { phases: vec![phase(&[(1, 1)], 64, 50.0)], between_ns: 100.0 };
        let found = job.predict(&figures(4000.0, 44e6, 256));
        assert!(near(found.time_ns, 4000.0 + 150.0 + 5.0), "{found:?}");
        assert_eq!(found.bounds.binding(), Bound::Latency);
    }

    #[test]
    fn a_chain_waits_for_each_of_its_reads() {
        let job = Counts { phases: vec![phase(&[(10, 1)], 64, 500.0)], between_ns: 0.0 };
        assert!(near(job.predict(&figures(4000.0, 44e6, 256)).time_ns, 40_550.0));
        assert_eq!(job.depth_count(), 10);
    }

    #[test]
    fn many_reads_are_bound_by_processor_rate_link_or_contexts() {
        let many =
            |bytes, ns| Counts { phases: vec![phase(&[(1, 100_000)], bytes, ns)], between_ns: 0.0 };
        let cpu = many(64, 100.0 * 1e5).predict(&figures(4000.0, 44e6, 256));
        assert!(near(cpu.time_ns, 1e7) && cpu.bounds.binding() == Bound::Processor, "{cpu:?}");
        let rate = many(64, 20.0 * 1e5).predict(&figures(4000.0, 10e6, 256));
        assert!(near(rate.time_ns, 1e7) && rate.bounds.binding() == Bound::Reads, "{rate:?}");
        let link = many(2048, 20.0 * 1e5).predict(&figures(4000.0, 44e6, 256));
        assert!(near(link.time_ns, 1.6e7) && link.bounds.binding() == Bound::Link, "{link:?}");
        let few = many(64, 20.0 * 1e5).predict(&figures(20_000.0, 44e6, 64));
        assert!(near(few.time_ns, 3.12e7) && few.bounds.binding() == Bound::Latency, "{few:?}");
    }

    #[test]
    fn reads_that_dram_answers_wait_for_nothing() {
        let mut all = phase(&[(1, 10_000)], 64, 1e4 * 20.0);
        let on = figures(4000.0, 10e6, 256);
        let far = Counts { phases: vec![all.clone()], between_ns: 0.0 }.predict(&on);
        (all.held_count, all.held_bytes) = (5_000, 320_000);
        let half = Counts { phases: vec![all.clone()], between_ns: 0.0 }.predict(&on);
        assert!(near(half.time_ns * 2.0, far.time_ns), "{half:?} {far:?}");
        (all.held_count, all.held_bytes) = (10_000, 640_000);
        let none = Counts { phases: vec![all], between_ns: 0.0 }.predict(&on);
        assert!(near(none.time_ns, 2e5) && none.bounds.binding() == Bound::Processor, "{none:?}");
    }

    #[test]
    fn processor_time_is_found_from_what_a_near_device_took() {
        let near =
            Figures { latency_ns: 500.0, reads_per_s: 0.0, link_bytes_per_s: 0.0, contexts: 64 };
        for truth in
            [phase(&[(1, 1)], 64, 80.0), phase(&[(1, 300), (4, 20)], 64, 3e4), phase(&[], 0, 9.0)]
        {
            let took =
                Counts { phases: vec![truth.clone()], between_ns: 0.0 }.predict(&near).time_ns;
            let seen = Phase { time_ns: took, ..truth.clone() };
            let found = Counts::explain(vec![seen], 7.0, &near);
            assert!((found.phases[0].time_ns - truth.time_ns).abs() <= 0.01 * took, "{found:?}");
            assert_eq!(found.between_ns, 7.0);
        }
    }

    #[test]
    fn a_phase_without_reads_is_processor_time() {
        let job = Counts { phases: vec![phase(&[], 0, 70.0)], between_ns: 30.0 };
        assert_eq!(job.predict(&figures(1e3, 1e6, 64)).time_ns, 100.0);
    }

    fn phases() -> impl Strategy<Value = Vec<Phase>> {
        let chains = proptest::collection::btree_map(1u32..12, 1u64..400, 0..4);
        let one = (chains, 16u64..4096, 10.0f64..300.0, 1u32..600).prop_map(
            |(chains, bytes, ns, limit)| {
                let chains: Vec<(u32, u64)> = chains.into_iter().collect();
                let mut phase = phase(&chains, bytes, 0.0);
                phase.time_ns = ns * phase.reads_count as f64;
                phase.contexts_max = limit;
                phase
            },
        );
        proptest::collection::vec(one, 0..6)
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_prediction_is_never_below_a_bound(
            phases in phases(), latency in 100.0f64..50_000.0, rate in 1e5f64..2e8, contexts in 1u32..2048,
        ) {
            let on = figures(latency, rate, contexts);
            let job = Counts { phases, between_ns: 5.0 };
            let found = job.predict(&on);
            prop_assert_eq!(job.predict(&on).time_ns.to_bits(), found.time_ns.to_bits());
            let b = found.bounds;
            for bound in [b.latency_ns, b.reads_ns, b.link_ns, b.processor_ns] {
                prop_assert!(found.time_ns >= bound * 0.999_999, "{found:?}");
            }
            prop_assert!(found.time_ns <= 1.01 * (b.latency_ns * 2.0 + b.reads_ns + b.link_ns + b.processor_ns) + latency * 12.0);
        }

        #[test]
        fn a_better_device_never_takes_longer(
            phases in phases(), latency in 100.0f64..50_000.0, rate in 1e5f64..2e8, contexts in 1u32..2048,
            better in 0.2f64..1.0,
        ) {
            let job = Counts { phases, between_ns: 5.0 };
            let worse = job.predict(&figures(latency, rate, contexts)).time_ns;
            prop_assert!(job.predict(&figures(latency * better, rate, contexts)).time_ns <= worse * 1.01);
            prop_assert!(job.predict(&figures(latency, rate / better, contexts)).time_ns <= worse * 1.01);
        }
    }
}
