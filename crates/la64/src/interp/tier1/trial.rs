//! Whether a region pays: its thread runs with it and without it in turn, and compares the times.
//!
//! - Stays in code are timed by the thread's own processor time, in phases: with, without, without,
//!   with, and so on, so that a program that becomes slower or faster meanwhile favours neither.
//!   The medians of both are compared. Checked by `a_drift_and_outliers_decide_nothing`.
//! - A region is taken away only if it costs more than the times scatter by. Checked by
//!   `a_region_goes_if_it_costs_more_than_the_margin` and `times_that_scatter_decide_nothing`.
//! - A trial ends after so many stays, however short they are. Checked by
//!   `short_stays_end_a_trial_and_change_nothing`.

use littoral_base::mutant;

/// Phases of a trial, a multiple of four.
const PHASES: usize = 16;
/// Timed stays of a phase. Those before them, in which control comes to the changed code, are not.
const STAYS: u32 = 3;
const STAYS_BEFORE: u32 = 1;
/// A shorter stay is not timed: what is around it takes too much of its time.
const INSTRUCTIONS_MIN: u64 = 1 << 14;
/// Stays of a trial, timed or not.
const STAYS_MAX: u32 = 4096;
/// A region is taken away if it takes more than this part longer.
const MARGIN: u64 = 64;
/// And if so many phases with it, of half of [`PHASES`], took longer than those without it beside.
const SLOWER_MIN: usize = 6;
/// Times are in nanoseconds per so many instructions.
const UNIT: u64 = 1 << 24;

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Next {
    /// The same again.
    Stay,
    /// The region is to be there, or not.
    Turn(bool),
    /// The trial is over, and the region stays, or not.
    Over(bool),
}

/// A trial under way.
#[derive(Debug, Default)]
pub(in super::super) struct Trial {
    phase: usize,
    /// Long stays of this phase, all stays of the trial.
    stays: u32,
    stays_of_all: u32,
    /// Nanoseconds and instructions of this phase.
    time: [u64; 2],
    /// What phases without and with the region took.
    rates: [Vec<u64>; 2],
}

/// Whether the region is there in a phase.
fn is_with(phase: usize) -> bool {
    matches!(phase % 4, 0 | 3)
}

impl Trial {
    /// A stay took so many nanoseconds of the thread for so many instructions.
    pub(in super::super) fn note(&mut self, ns: u64, instructions: u64) -> Next {
        self.stays_of_all += 1;
        if self.stays_of_all > STAYS_MAX {
            return Next::Over(true);
        }
        if instructions < INSTRUCTIONS_MIN {
            return Next::Stay;
        }
        self.stays += 1;
        if self.stays <= STAYS_BEFORE {
            return Next::Stay;
        }
        self.time[0] += ns;
        self.time[1] += instructions;
        if self.stays < STAYS_BEFORE + STAYS {
            return Next::Stay;
        }
        let [ns, instructions] = std::mem::take(&mut self.time);
        let rate = ns.saturating_mul(UNIT) / instructions;
        self.rates[usize::from(is_with(self.phase))].push(rate);
        self.stays = 0;
        self.phase += 1;
        if self.phase == PHASES {
            return Next::Over(self.pays());
        }
        match is_with(self.phase) {
            with if with == is_with(self.phase - 1) => Next::Stay,
            with => Next::Turn(with),
        }
    }

    /// Whether the region is no slower than the margin allows, or that is not sure.
    fn pays(&mut self) -> bool {
        let pairs = self.rates[0].iter().zip(&self.rates[1]);
        let slower = pairs.filter(|(without, with)| with > without).count();
        if slower < SLOWER_MIN && !mutant!("la64_trial_believes_scatter") {
            return true;
        }
        let [without, with] = self.rates.each_mut().map(|rates| {
            rates.sort_unstable();
            rates[rates.len() / 2]
        });
        with.saturating_sub(without) * MARGIN <= without
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a trial whose stays take what `ns` says for the number of the stay and whether the
    /// region is there; whether the region stays in the end, and how often it was turned.
    fn judged(instructions: u64, ns: impl Fn(u64, bool) -> u64) -> (bool, u32) {
        let (mut trial, mut with, mut turns) = (Trial::default(), true, 0);
        for stay in 0.. {
            match trial.note(ns(stay, with), instructions) {
                Next::Stay => {}
                Next::Turn(to) => {
                    assert_ne!(with, to);
                    (with, turns) = (to, turns + 1);
                }
                Next::Over(stays) => return (stays, turns),
            }
        }
        unreachable!("a trial ends")
    }

    #[test]
    fn a_region_goes_if_it_costs_more_than_the_margin() {
        for (with, stays) in [(500, true), (1000, true), (1010, true), (1030, false), (5000, false)]
        {
            let found = judged(1 << 18, |_, is_with| if is_with { 100 * with } else { 100_000 });
            assert_eq!(found, (stays, PHASES as u32 / 2), "{with}");
        }
    }

    #[test]
    fn a_drift_and_outliers_decide_nothing() {
        for slower in [true, false] {
            let drift =
                |stay: u64| if slower { 100_000 + 500 * stay } else { 200_000 - 500 * stay };
            assert!(judged(1 << 18, |stay, _| drift(stay)).0, "the same with and without");
            let worse = |stay, is_with| drift(stay) + if is_with { 30_000 } else { 0 };
            assert!(!judged(1 << 18, worse).0);
        }
        // Some stays take ten times as long, as where a page is read in.
        let odd = |stay: u64, is_with: bool, worse: u64| {
            let base = if is_with { worse } else { 100_000 };
            if stay % 29 == 5 { 10 * base } else { base }
        };
        assert!(judged(1 << 18, |stay, is_with| odd(stay, is_with, 90_000)).0);
        assert!(!judged(1 << 18, |stay, is_with| odd(stay, is_with, 110_000)).0);
    }

    /// Five phases of eight are slower by much, three are faster: nothing is sure of the region.
    #[test]
    fn times_that_scatter_decide_nothing() {
        let phase = |stay: u64| stay / u64::from(STAYS_BEFORE + STAYS);
        let ns = |stay, is_with| match (is_with, phase(stay) < 10) {
            (false, _) => 100_000,
            (true, true) => 120_000,
            (true, false) => 95_000,
        };
        assert!(judged(1 << 18, ns).0);
    }

    /// The first stay of a phase is that of the change.
    #[test]
    fn what_the_change_costs_decides_nothing() {
        let of_phase = |stay: u64| stay % u64::from(STAYS_BEFORE + STAYS);
        let ns = |stay, is_with| 100_000 + if is_with && of_phase(stay) == 0 { 900_000 } else { 0 };
        assert!(judged(1 << 18, ns).0);
    }

    #[test]
    fn short_stays_end_a_trial_and_change_nothing() {
        assert_eq!(judged(100, |_, with| if with { 9_000 } else { 10 }), (true, 0));
    }
}
