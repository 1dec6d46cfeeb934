//! How long another node has been silent, as far as this one has listened.
//!
//! Silence decides only about nodes whose process this machine's kernel cannot be asked about
//! (`docs/design/dsm.md`, *Liveness*).
//!
//! Invariants
//! - Only silence that was listened to counts: a node that did not look for half of the limit (its
//!   process was stopped, the whole machine paused, or it got no processor) begins anew, since the
//!   other may have slept as well. Checked by `silence_counts_while_a_node_listens`.

use std::time::{Duration, Instant};

use crate::{Error, Kind, Result};

/// How long a node of another machine may be silent before it is declared dead, unless a job says
/// otherwise.
pub const SILENCE_DEFAULT: Duration = Duration::from_secs(5);
/// How often a node gives a sign of life.
pub const BEAT: Duration = Duration::from_millis(150);
/// The shortest limit that can be chosen: four signs of life.
pub const SILENCE_MIN: Duration = Duration::from_millis(600);
/// How long a node waits for one that has not joined yet.
pub const JOIN_MAX: Duration = Duration::from_secs(120);

/// `limit` if it can be one.
pub(super) fn checked(limit: Duration) -> Result<Duration> {
    if limit >= SILENCE_MIN {
        return Ok(limit);
    }
    let what = format!(
        "a silence limit of {} ms; nodes give a sign of life each {} ms, so choose at least {} ms",
        limit.as_millis(),
        BEAT.as_millis(),
        SILENCE_MIN.as_millis()
    );
    Err(Error::new(Kind::IllegalRequest, what))
}

/// The silence of one node; see the module's page.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    since: Instant,
    looked: Instant,
}

impl Silence {
    /// Listening begins.
    pub fn from(now: Instant) -> Self {
        Silence { since: now, looked: now }
    }

    /// A sign of life.
    pub fn end(&mut self, now: Instant) {
        self.since = now;
    }

    /// How long it has lasted, if that is longer than `limit`.
    pub fn look(&mut self, now: Instant, limit: Duration) -> Option<Duration> {
        if now.duration_since(self.looked) > limit / 2 {
            self.since = now;
        }
        self.looked = now;
        Some(now.duration_since(self.since)).filter(|silent| *silent > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(100);

    #[test]
    fn silence_counts_while_a_node_listens() {
        let start = Instant::now();
        let mut silence = Silence::from(start);
        let mut look = |steps: u32| silence.look(start + STEP * steps, STEP * 9);
        assert!((1..=9).all(|steps| look(steps).is_none()));
        assert_eq!(look(10), Some(STEP * 10));
        assert_eq!(look(30), None, "no listener");
        assert!((31..=39).all(|steps| look(steps).is_none()));
        assert_eq!(look(40), Some(STEP * 10));
        silence.end(start + STEP * 41);
        assert_eq!(silence.look(start + STEP * 42, STEP * 9), None);
    }

    #[test]
    fn a_limit_of_fewer_than_four_signs_of_life_is_refused() {
        assert_eq!(checked(SILENCE_MIN).unwrap(), SILENCE_MIN);
        let refused = checked(SILENCE_MIN - STEP).unwrap_err();
        assert_eq!(refused.kind(), Kind::IllegalRequest);
        assert!(refused.to_string().contains("at least 600 ms"), "{refused}");
    }
}
