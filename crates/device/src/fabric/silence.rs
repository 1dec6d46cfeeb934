//! How long another node has been silent, as far as this one has listened.
//!
//! Invariants
//! - Only silence that was listened to counts: a node that did not look for half of [`SILENCE_MAX`]
//!   (its process was stopped, the whole machine paused, or it got no processor) begins anew, since
//!   the other may have slept as well.

use std::time::{Duration, Instant};

/// A node that has shown no sign of life for this long is dead.
pub(super) const SILENCE_MAX: Duration = Duration::from_millis(900);

/// The silence of one node; see the module's page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    since: Instant,
    looked: Instant,
}

impl Silence {
    pub(super) fn from(now: Instant) -> Self {
        Silence { since: now, looked: now }
    }

    /// A sign of life.
    pub(super) fn end(&mut self, now: Instant) {
        self.since = now;
    }

    /// How long it has lasted, if that is too long.
    pub(super) fn look(&mut self, now: Instant) -> Option<Duration> {
        if now.duration_since(self.looked) > SILENCE_MAX / 2 {
            self.since = now;
        }
        self.looked = now;
        Some(now.duration_since(self.since)).filter(|silent| *silent > SILENCE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(100);

    #[test]
    fn silence_counts_while_somebody_listens() {
        let start = Instant::now();
        let mut silence = Silence::from(start);
        let mut look = |steps: u32| silence.look(start + STEP * steps);
        assert!((1..=9).all(|steps| look(steps).is_none()));
        assert_eq!(look(10), Some(STEP * 10));
        assert_eq!(look(30), None, "nobody listened");
        assert!((31..=39).all(|steps| look(steps).is_none()));
        assert_eq!(look(40), Some(STEP * 10));
        silence.end(start + STEP * 41);
        assert_eq!(silence.look(start + STEP * 42), None);
    }
}
