//! When a thread that attended gives its connections back: at once, or a little later where the
//! program goes on from one wait to the next.
//!
//! A *run* is waits of one program with at most [`GAP_MAX`] between them. What a peer sends during
//! a run is most often for the program's next wait, and waking another thread for it costs more
//! than the wait itself. So once a run has lasted [`RUN_MIN`] the connections are given back by a
//! timer: after a quarter of the run's length, [`DELAY_MAX`] at most.
//!
//! The timer is not moved by each wait, since setting one costs as much as a wait does: it fires,
//! finds that the program waited lately, and is set again for what is left.
//!
//! Invariants
//! - What comes after the last wait of a run is heard within a quarter of the time that the run
//!   took, and within [`DELAY_MAX`]; without a run, at once. Checked by
//!   `connections_are_late_only_after_a_run_and_never_by_more_than_its_quarter`.

use std::time::{Duration, Instant};

use littoral_base::mutant;

/// Longest time between two waits of a run: more than the other thread takes where it is woken in
/// between, or no run would begin.
pub(super) const GAP_MAX: Duration = Duration::from_micros(50);
/// How long a run has lasted before connections are given back late.
pub(super) const RUN_MIN: Duration = Duration::from_micros(400);
/// How long after a wait they are given back at the latest.
pub(super) const DELAY_MAX: Duration = Duration::from_millis(1);
/// The shortest time that a timer is set for.
const TIMER_MIN: Duration = Duration::from_micros(10);
/// The part of a run's length that they may be late by.
const PART: u32 = 4;

/// See the module's page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    began: Instant,
    left: Instant,
}

/// When connections are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    Now,
    /// After so long, unless the program waits again.
    In(Duration),
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace { began: now, left: now }
    }

    /// A wait begins.
    pub(super) fn comes(&mut self, now: Instant) {
        if now.saturating_duration_since(self.left) > GAP_MAX {
            self.began = now;
        }
    }

    /// A wait ends.
    pub(super) fn leaves(&mut self, now: Instant) -> Back {
        self.left = now;
        self.back(now)
    }

    /// What is left until connections are given back, no wait having begun since the last ended.
    pub(super) fn back(&self, now: Instant) -> Back {
        let run = self.left.saturating_duration_since(self.began);
        if run < RUN_MIN {
            return Back::Now;
        }
        let delay = (run / PART).min(DELAY_MAX);
        let left = delay.saturating_sub(now.saturating_duration_since(self.left));
        if left.is_zero() && !mutant!("tcp_connections_stay_with_who_left") {
            return Back::Now;
        }
        Back::In(left.max(TIMER_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_late_only_after_a_run_and_never_by_more_than_its_quarter() {
        let start = Instant::now();
        let at = |micros: u64| start + Duration::from_micros(micros);
        let mut pace = Pace::new(start);
        pace.comes(at(0));
        assert_eq!(pace.leaves(at(300)), Back::Now, "a run is too short");
        pace.comes(at(310));
        assert_eq!(pace.leaves(at(400)), Back::In(Duration::from_micros(100)));
        assert_eq!(pace.back(at(440)), Back::In(Duration::from_micros(60)));
        assert_eq!(pace.back(at(500)), Back::Now, "a quarter of the run is over");
        pace.comes(at(410));
        assert_eq!(pace.leaves(at(9_000)), Back::In(DELAY_MAX), "one wait may be long");
        assert_eq!(pace.back(at(10_000)), Back::Now);
        pace.comes(at(9_051));
        assert_eq!(pace.leaves(at(9_060)), Back::Now, "the program computed: a new run");
        assert_eq!(pace.back(at(9_061)), Back::Now);
    }
}
