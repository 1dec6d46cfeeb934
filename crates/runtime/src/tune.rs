//! How many contexts are enough: doubling from 64 until throughput no longer grows.
//!
//! At each number of contexts the tuner takes the best of several windows (one window disturbed by
//! another process must not decide) and compares with the number before. By Little's law throughput
//! grows in proportion while latency rules; it is flat once the device's rate, its link or this
//! core rules. The smallest number that is flat is kept: more contexts only cost cache.
//!
//! - Time is in ticks of the time-stamp counter; windows count only sweeps in which every context
//!   was alive, so the end of a short run does not look like a slow device.
//! - What was learnt is kept from run to run of the same ring.

use littoral_device::ticks;

/// Where tuning starts.
pub(crate) const CONTEXTS_FIRST: u32 = 64;
/// A doubling must bring this factor to be worth it.
const GAIN_MIN: f64 = 1.05;
/// Windows measured at each number of contexts.
const WINDOWS: u32 = 4;
/// Reads of each context in a window.
const READS_PER_CONTEXT: u64 = 32;

#[derive(Clone, Copy, Debug)]
struct Window {
    reads: u64,
    ticks: u64,
}

/// The state of the search.
#[derive(Debug)]
pub(crate) struct Tuner {
    contexts: u32,
    contexts_before: u32,
    contexts_max: u32,
    settled: bool,
    rate_before: f64,
    rate_best: f64,
    windows: u32,
    open: Option<Window>,
}

impl Tuner {
    /// A search upward from 64, or from `contexts_max` when that is less.
    pub(crate) fn upward(contexts_max: u32) -> Tuner {
        let contexts = CONTEXTS_FIRST.min(contexts_max);
        Tuner::new(contexts, contexts_max, contexts == contexts_max)
    }

    /// No search: always `contexts`.
    pub(crate) fn fixed(contexts: u32) -> Tuner {
        Tuner::new(contexts, contexts, true)
    }

    fn new(contexts: u32, contexts_max: u32, settled: bool) -> Tuner {
        Tuner {
            contexts,
            contexts_before: contexts,
            contexts_max,
            settled,
            rate_before: 0.0,
            rate_best: 0.0,
            windows: 0,
            open: None,
        }
    }

    /// How many contexts to run now.
    pub(crate) fn contexts(&self) -> u32 {
        self.contexts
    }

    /// Whether the search has ended.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Closes the window: what comes next does not continue what was.
    pub(crate) fn interrupt(&mut self) {
        self.open = None;
    }

    /// Takes note after a sweep in which every context was alive; `reads` counts since ever.
    pub(crate) fn observe(&mut self, reads: u64) {
        if !self.settled {
            self.observe_at(reads, ticks::now());
        }
    }

    fn observe_at(&mut self, reads: u64, now: u64) {
        let Some(open) = self.open else {
            self.open = Some(Window { reads, ticks: now });
            return;
        };
        let count = reads - open.reads;
        if count < READS_PER_CONTEXT * u64::from(self.contexts) {
            return;
        }
        let rate = count as f64 / (now - open.ticks).max(1) as f64;
        self.rate_best = self.rate_best.max(rate);
        self.windows += 1;
        self.open = Some(Window { reads, ticks: now });
        if self.windows == WINDOWS {
            self.decide();
        }
    }

    fn decide(&mut self) {
        if self.rate_best < self.rate_before * GAIN_MIN {
            self.contexts = self.contexts_before;
            self.settled = true;
        } else if self.contexts >= self.contexts_max {
            self.settled = true;
        } else {
            self.contexts_before = self.contexts;
            self.contexts = (self.contexts * 2).min(self.contexts_max);
            self.rate_before = self.rate_best;
        }
        (self.rate_best, self.windows, self.open) = (0.0, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a tuner against a device with a latency, a cap and a cost in ticks; answers its choice.
    fn settle(contexts_max: u32, latency: f64, ticks_per_read_min: f64) -> u32 {
        let mut tuner = Tuner::upward(contexts_max);
        let (mut reads, mut now) = (0u64, 0.0);
        for _ in 0..100_000 {
            if tuner.is_settled() {
                return tuner.contexts();
            }
            tuner.observe_at(reads, now as u64);
            let n = f64::from(tuner.contexts());
            reads += u64::from(tuner.contexts());
            now += latency.max(n * ticks_per_read_min);
        }
        panic!("never settled");
    }

    #[test]
    fn contexts_grow_until_the_device_or_the_core_is_the_limit() {
        assert_eq!(settle(4096, 10_000.0, 59.0), 256);
        assert_eq!(settle(4096, 10_000.0, 30.0), 512);
        assert_eq!(settle(4096, 100_000.0, 30.0), 4096);
        assert_eq!(settle(4096, 0.0, 30.0), 64);
    }

    #[test]
    fn the_slots_bound_the_search() {
        assert_eq!(settle(200, 100_000.0, 1.0), 200);
        assert_eq!(settle(200, 10_000.0, 78.0), 128);
        assert_eq!(Tuner::upward(20).contexts(), 20);
        assert!(Tuner::fixed(5).is_settled());
    }
}
