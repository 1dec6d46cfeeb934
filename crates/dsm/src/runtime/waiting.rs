//! A program's waits for what other ranks send, and when they are reported (`super::standstill`).
//!
//! A wait that has lasted for some rounds without a message is reported to the other ranks, and
//! again more and more seldom. A rank of which another thread may still act reports none: its
//! program must be one thread.
//!
//! Invariants
//! - Nothing is reported of waits that end soon. Checked by
//!   `a_wait_is_reported_again_more_and_more_seldom_until_something_comes`.

use littoral_base::mutant;

use super::engine::Engine;
use super::standstill::Awaits;
use super::{Common, Inside};
use crate::error::Result;

/// Rounds of a wait without a message until its rank reports, for the first time.
const ROUNDS_FIRST: u32 = 20;
/// Most rounds until it reports again; each time they double.
const ROUNDS_MAX: u32 = 1000;
/// Most ranks of a job that report: what all of them say grows with the number's third power.
const RANKS_MAX: usize = 64;
/// How the names of the library's threads begin.
const OWN_THREADS: &[u8] = b"littoral-";

/// When a wait of the program is reported.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Messages that had come at the last change.
    taken: u64,
    rounds: u32,
    /// Rounds until the next report; zero before the first round.
    rounds_max: u32,
    has_reported: bool,
}

impl Patience {
    /// A round of the wait has passed, and so many messages have come by now; whether a report is
    /// due.
    fn ends(&mut self, taken: u64) -> bool {
        if self.rounds_max == 0 || self.taken != taken {
            (self.taken, self.rounds, self.rounds_max) = (taken, 0, ROUNDS_FIRST);
        }
        self.rounds += 1;
        if self.rounds < self.rounds_max {
            return false;
        }
        (self.rounds, self.rounds_max) = (0, (2 * self.rounds_max).min(ROUNDS_MAX));
        true
    }
}

/// Whether one thread is all that the program has in this process; no, where that cannot be seen.
fn has_one_thread() -> bool {
    let mut programs = 0;
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    for thread in threads {
        let name = thread.and_then(|thread| std::fs::read(thread.path().join("comm")));
        let Ok(name) = name else { return false };
        programs += u32::from(!name.starts_with(OWN_THREADS));
    }
    programs == 1
}

impl Common {
    /// Waits until `look` finds something, or the job fails; takes messages itself for a moment.
    /// Where only another rank's program is the cause of it, `awaits` says what is waited for.
    pub(super) fn wait_for<T>(
        &self,
        awaits: Option<Awaits>,
        mut look: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Result<T> {
        let _inside = Inside::enter();
        if let Some(found) = look(&mut self.locked()) {
            return Ok(found);
        }
        self.locked().begin_waiting(&*self.carrier);
        let found = self.wait_until(awaits, look);
        self.locked().mailbox.end_waiting();
        found
    }

    /// A round of a wait, which has just looked in vain: reports it now and then, and fails where
    /// no rank goes on.
    pub(super) fn pass_round(
        &self,
        engine: &mut Engine,
        awaits: Awaits,
        patience: &mut Patience,
    ) -> Result<()> {
        let ranks = usize::from(self.carrier.ranks());
        if ranks > RANKS_MAX || mutant!("dsm_standstill_lasts") {
            return Ok(());
        }
        if patience.ends(engine.standstill.taken()) && has_one_thread() {
            patience.has_reported = true;
            engine.report(&*self.carrier, awaits);
        }
        if patience.has_reported { engine.refuse_standstill(awaits) } else { Ok(()) }
    }

    /// As `pass_round`, of a wait for the end of an operation: where that is the grant of a lock.
    pub(super) fn pass_wait(&self, engine: &mut Engine, patience: &mut Patience) {
        let Some(lock) = engine.rank.awaited_lock() else { return };
        if let Err(e) = self.pass_round(engine, Awaits::Lock(lock), patience) {
            self.fail(engine, &e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_reported_again_more_and_more_seldom_until_something_comes() {
        let mut patience = Patience::default();
        let mut until_due = |taken| (1..).find(|_| patience.ends(taken)).unwrap();
        assert_eq!([0; 3].map(&mut until_due), [1, 2, 4].map(|n| n * ROUNDS_FIRST));
        assert_eq!(until_due(7), ROUNDS_FIRST);
        let last = (0..20).map(|_| until_due(7)).last();
        assert_eq!(last, Some(ROUNDS_MAX));
    }
}
