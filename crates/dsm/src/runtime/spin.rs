//! How long a thread that takes messages looks for the next one before it sleeps.
//!
//! It looks for a moment when it begins to wait and again after each message that came in time. A
//! look in vain costs its length, so that after `n` of them one after another the next `2^n`
//! messages, 64 at most, find the thread asleep.
//!
//! Invariants
//! - At most one look of 65 is in vain in the long run. Checked by
//!   `looks_in_vain_become_seldom_and_one_that_is_not_begins_anew`.

use std::time::Duration;

/// Most messages that find the thread asleep between two looks.
const REST_MAX: u32 = 64;

/// See the module's page; times are since the wait began.
pub(super) struct Spin {
    length: Duration,
    until: Duration,
    /// Messages after the last look in vain that find the thread asleep.
    missed: u32,
    /// Those of them that are left.
    rest: u32,
}

impl Spin {
    /// Looks of this length; none where it is zero.
    pub(super) fn new(length: Duration) -> Spin {
        Spin { length, until: length, missed: 0, rest: 0 }
    }

    /// Whether the thread looks on.
    pub(super) fn goes_on(&self, now: Duration) -> bool {
        now < self.until
    }

    /// A message has come.
    pub(super) fn came(&mut self, now: Duration) {
        if now <= self.until {
            (self.missed, self.rest) = (0, 0);
        } else if self.rest > 0 {
            self.rest -= 1;
            return;
        } else {
            self.missed = (2 * self.missed).clamp(1, REST_MAX);
            self.rest = self.missed;
        }
        self.until = now + self.length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_micros(30);

    #[test]
    fn looks_in_vain_become_seldom_and_one_that_is_not_begins_anew() {
        let mut spin = Spin::new(LENGTH);
        let mut now = Duration::ZERO;
        let mut looks = Vec::new();
        for message in 0..400 {
            now += 10 * LENGTH;
            assert!(!spin.goes_on(now));
            spin.came(now);
            looks.extend(spin.goes_on(now).then_some(message));
        }
        assert_eq!(looks[..8], [0, 2, 5, 10, 19, 36, 69, 134]);
        assert_eq!(looks[8] - looks[7], 65);
        while !spin.goes_on(now) {
            now += 10 * LENGTH;
            spin.came(now);
        }
        for _ in 0..9 {
            now += LENGTH / 2;
            assert!(spin.goes_on(now));
            spin.came(now);
        }
        now += 10 * LENGTH;
        spin.came(now);
        assert!(spin.goes_on(now), "the first message after a sleep is followed by a look");
    }

    #[test]
    fn a_thread_without_a_processor_of_its_own_never_looks() {
        let mut spin = Spin::new(Duration::ZERO);
        for micros in 0..9 {
            let now = Duration::from_micros(micros);
            assert!(!spin.goes_on(now));
            spin.came(now);
        }
    }
}
