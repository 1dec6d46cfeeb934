//! What a kernel read through a ring, phase by phase: the counts a model of its time starts from.
//!
//! A *phase* is one run of the ring: all of its reads are independent except along *chains*. A
//! chain is a sequence of reads by one context, each issued when the one before it was used: the
//! units of one span, or the growing parts of one list. Phases follow one another.
//!
//! Invariants
//! - Counts depend on the graph, the kernel and the device's granule and longest read only, never
//!   on time: levels, directions and where a list is left are the same on every device. Checked by
//!   `counts_do_not_depend_on_latency`, `counts_of_other_kernels_do_not_depend_on_latency`.
//!   Two kernels use values in the order of answers. Of delta-stepping all counts may differ by
//!   that, of PageRank the number of iterations, never what one of them reads.
//! - `sum(depth * count) * reads_at_once` is `reads_count`. Checked by
//!   `a_phase_holds_its_chains_and_none_is_recorded_while_off`.

use std::cell::{Cell, RefCell};

use littoral_device::ticks;

use crate::error::Result;

/// Chains of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Reads that wait for one another.
    pub depth: u32,
    /// How many chains are that long.
    pub count: u64,
}

/// One run of a ring.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// Read requests.
    pub reads_count: u64,
    /// Bytes asked for.
    pub read_bytes: u64,
    /// Reads of those that were answered from DRAM.
    pub held_count: u64,
    /// Bytes of those that were answered from DRAM.
    pub held_bytes: u64,
    /// The chains, shortest first.
    pub chains: Vec<Chain>,
    /// Reads that a context has under way at once.
    pub reads_at_once: u32,
    /// Most contexts that could run, whatever the ring has; `u32::MAX` without such a limit.
    pub contexts_max: u32,
    /// From begin to end, on the time-stamp counter.
    pub time_ns: f64,
}

impl Phase {
    /// Reads of the longest chain.
    pub fn depth(&self) -> u32 {
        self.chains.last().map_or(0, |c| c.depth)
    }
}

/// What was read so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    /// Reads and bytes answered from DRAM.
    pub(crate) held: (u64, u64),
}

/// Records phases while it is on.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    on: Cell<bool>,
    /// `depths[d]` chains of `d` reads in the phase under way.
    depths: RefCell<Vec<u64>>,
    phases: RefCell<Vec<Phase>>,
}

impl Recorder {
    /// Switches recording; phases recorded before are forgotten.
    pub(crate) fn switch(&self, on: bool) {
        self.on.set(on);
        self.phases.borrow_mut().clear();
    }

    /// What has been recorded.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        self.phases.borrow().clone()
    }

    /// Notes a chain of `depth` reads.
    #[inline(always)]
    pub(crate) fn chain(&self, depth: u32) {
        if self.on.get() && depth > 0 {
            self.add_chain(depth as usize);
        }
    }

    #[inline(never)]
    fn add_chain(&self, depth: usize) {
        let mut depths = self.depths.borrow_mut();
        if depths.len() <= depth {
            depths.resize(depth + 1, 0);
        }
        depths[depth] += 1;
    }

    /// Runs a phase; `counted` answers what was read so far.
    ///
    /// # Errors
    /// What `run` ends with.
    #[inline(always)]
    pub(crate) fn phase(
        &self,
        contexts_max: u32,
        reads_at_once: u32,
        counted: impl Fn() -> Counted,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !self.on.get() {
            return run();
        }
        let before = counted();
        let start = ticks::now();
        run()?;
        let time_ns = ticks::to_ns((ticks::now() - start) as f64);
        let after = counted();
        let reads_count = after.reads - before.reads;
        let mut depths = self.depths.borrow_mut();
        let mut chains: Vec<Chain> = (0u32..).zip(depths.drain(..)).map(chain_of).collect();
        chains.retain(|c| c.count > 0);
        if chains.is_empty() && reads_count > 0 {
            // Whole lists: no read waits for another.
            chains.push(Chain { depth: 1, count: reads_count / u64::from(reads_at_once) });
        }
        let phase = Phase {
            reads_count,
            read_bytes: after.bytes - before.bytes,
            held_count: after.held.0 - before.held.0,
            held_bytes: after.held.1 - before.held.1,
            chains,
            reads_at_once,
            contexts_max,
            time_ns,
        };
        self.phases.borrow_mut().push(phase);
        Ok(())
    }
}

fn chain_of((depth, count): (u32, u64)) -> Chain {
    Chain { depth, count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_holds_its_chains_and_none_is_recorded_while_off() {
        let recorder = Recorder::default();
        let reads = Cell::new(0u64);
        let go = |depths: &[u32]| {
            let run = || {
                depths.iter().for_each(|&d| recorder.chain(d));
                reads.set(reads.get() + depths.iter().map(|&d| u64::from(d)).sum::<u64>());
                Ok(())
            };
            let counted = || Counted { reads: reads.get(), bytes: 64 * reads.get(), held: (0, 0) };
            recorder.phase(64, 1, counted, run).unwrap();
        };
        go(&[1, 1]);
        assert!(recorder.phases().is_empty());
        recorder.switch(true);
        go(&[3, 1, 0, 1]);
        let phases = recorder.phases();
        assert_eq!(phases.len(), 1);
        assert_eq!((phases[0].reads_count, phases[0].read_bytes, phases[0].depth()), (5, 320, 3));
        assert_eq!(phases[0].chains, [Chain { depth: 1, count: 2 }, Chain { depth: 3, count: 1 }]);
        recorder.switch(true);
        assert!(recorder.phases().is_empty(), "what was recorded before is forgotten");
    }
}
