//! What a ring counts while it runs.
#![allow(unreachable_pub)] // Reason: the live counters stay private, their snapshot is public.

littoral_base::counters! {
    /// Counters of one ring.
    pub struct RingCounters => RingCounts {
        /// Reads that contexts have waited for.
        reads_count,
        /// Polls that found a read not yet answered.
        waits_count,
        /// Polls of contexts.
        polls_count,
        /// Sweeps over all live contexts.
        sweeps_count,
        /// Sweeps in which no context got any further.
        idle_sweeps_count,
        /// Times a context gave way without reading.
        yields_count,
        /// Times a read found no free slot.
        starved_count,
        /// Slots released before their answer had arrived.
        abandoned_count,
        /// Runs and single-context calls.
        runs_count,
    }
}

impl RingCounts {
    /// Polls of contexts for each read; zero without reads.
    pub fn polls_per_read(&self) -> f64 {
        if self.reads_count == 0 { 0.0 } else { self.polls_count as f64 / self.reads_count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_per_read_is_a_quotient_and_zero_without_reads() {
        let counts = RingCounts { polls_count: 6, reads_count: 4, ..RingCounts::default() };
        assert_eq!(counts.polls_per_read(), 1.5);
        let idle = RingCounts { polls_count: 6, ..RingCounts::default() };
        assert_eq!(idle.polls_per_read(), 0.0);
    }
}
