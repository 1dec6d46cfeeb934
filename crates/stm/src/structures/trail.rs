//! A walk along links that notices when it has come back to where it was.
//!
//! - Sound links have an end. Damaged ones may lead back into themselves, and a walk without this
//!   would go on for ever: it ends with `Kind::Corrupt` instead.
//! - The walk remembers one object and compares each next one with it; after 1, 2, 4, ... further
//!   steps it remembers another. A ring of n objects that begins after m steps is found in fewer
//!   than 3 (m + n) steps, without memory (Brent, "An improved Monte Carlo factorization
//!   algorithm", BIT 20, 1980).
//!
//! Callers: chains of the hash map and paths of the search tree. Where keys must ascend along the
//! links, the keys are compared instead.

use crate::error::{Abort, Error, Kind};
use crate::record::Ref;

/// A walk; see the module's page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trail {
    /// The offset of the object that is remembered; zero at first, where no object is.
    remembered: u64,
    /// Steps until another is remembered, and how many they were.
    left: u64,
    steps: u64,
}

impl Trail {
    pub(super) const fn new() -> Trail {
        Trail { remembered: 0, left: 1, steps: 1 }
    }

    /// Notes that the walk is at the object at `at`.
    ///
    /// # Errors
    /// `Kind::Corrupt` when it was there before; not at every object of a ring at once.
    #[inline(always)]
    pub(super) fn step<T>(&mut self, at: Ref<T>) -> Result<(), Abort> {
        if at.offset() == self.remembered {
            return Err(round(at));
        }
        self.left -= 1;
        if self.left == 0 {
            self.steps *= 2;
            (self.remembered, self.left) = (at.offset(), self.steps);
        }
        Ok(())
    }
}

#[cold]
fn round<T>(at: Ref<T>) -> Abort {
    let text = format!(
        "offset {:#x}: the links from there lead back to it: the structure is damaged",
        at.offset()
    );
    Error::new(Kind::Corrupt, text).at_offset(at.offset()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps until a walk of `before` objects and then round a ring of `ring` is given up.
    fn steps_until_noticed(before: u64, ring: u64) -> u64 {
        let mut trail = Trail::new();
        let at = |step: u64| if step < before { step } else { before + (step - before) % ring };
        let is_noticed =
            |&step: &u64| trail.step(Ref::<()>::from_offset(64 * (1 + at(step)))).is_err();
        (0..100_000).find(is_noticed).expect("a ring is noticed")
    }

    #[test]
    fn a_ring_is_noticed_soon_and_a_walk_with_an_end_is_not_disturbed() {
        for before in 0..40 {
            for ring in 1..40 {
                let steps = steps_until_noticed(before, ring);
                assert!(steps >= before + ring, "{before} {ring}: nothing came twice yet");
                assert!(steps <= 3 * (before + ring), "{before} {ring}: {steps}");
            }
        }
        let mut trail = Trail::new();
        for object in 1..10_000 {
            trail.step(Ref::<()>::from_offset(64 * object)).unwrap();
        }
    }
}
