//! How long the emulated zoned device takes, in virtual time.
//!
//! - A zone lives on one chip of the NAND model ([`crate::nand::Chips`]), `zone % channels`, which
//!   serves one request at a time, in the order of the requests; reads overtake nothing.
//! - A worn zone is slower: every `wear_step_resets` resets add `wear_step_percent` to its
//!   latencies.
//! - Times are data: those of a profile ([`crate::profile::Profile::zoned`]).
//!
//! Latencies a block are fixed; striping inside a zone and write buffers are in the figures of a
//! profile, not in the model.

use littoral_base::units::{Picos, ZoneId};

use crate::nand::Chips;

/// Latencies of a zoned device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// Reading one block.
    pub read: Picos,
    /// Programming one block of a sequential zone.
    pub program: Picos,
    /// Writing one block of a conventional zone.
    pub conventional: Picos,
    /// Resetting a zone.
    pub reset: Picos,
    /// Finishing a zone.
    pub finish: Picos,
    /// A flush with nothing outstanding.
    pub flush: Picos,
    /// Requests served at once.
    pub channels: usize,
    /// Resets after which a zone is one step slower; zero means no wear.
    pub wear_step_resets: u64,
    /// How much slower a step makes a zone, in per cent.
    pub wear_step_percent: u64,
}

impl Timing {
    /// What a request of `time` on a new zone takes on one that was reset `resets` times.
    pub fn worn(&self, resets: u64, time: Picos) -> Picos {
        let steps = resets.checked_div(self.wear_step_resets).unwrap_or(0);
        Picos(time.0 + time.0.saturating_mul(steps * self.wear_step_percent) / 100)
    }
}

/// The virtual time line of one emulated device.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    timing: Timing,
    chips: Chips,
    now: Picos,
}

impl Timeline {
    pub(super) fn new(timing: Timing) -> Timeline {
        let chips = Chips::new(timing.channels);
        Timeline { timing, chips, now: Picos::ZERO }
    }

    pub(super) fn timing(&self) -> &Timing {
        &self.timing
    }

    pub(super) fn now(&self) -> Picos {
        self.now
    }

    pub(super) fn advance_to(&mut self, to: Picos) {
        self.now = self.now.max(to);
    }

    /// Serves a request on the zone's chip, which takes `time` when new, and says when it ends.
    pub(super) fn serve(&mut self, zone: ZoneId, resets: u64, time: Picos) -> Picos {
        let chip = zone.index() % self.timing.channels;
        self.chips.submit(self.now, chip, self.timing.worn(resets, time))
    }

    /// When everything submitted so far has ended.
    pub(super) fn drained(&self) -> Picos {
        self.chips.idle_at().max(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn a_worn_zone_is_slower_and_channels_overlap() {
        let mut timing = Profile::named("zns-paper").unwrap().zoned().unwrap().timing;
        (timing.channels, timing.wear_step_resets, timing.wear_step_percent) = (2, 10, 50);
        let mut t = Timeline::new(timing);
        assert_eq!(t.serve(ZoneId(0), 0, Picos::from_nanos(100)), Picos::from_nanos(100));
        assert_eq!(t.serve(ZoneId(1), 25, Picos::from_nanos(100)), Picos::from_nanos(200));
        assert_eq!(t.serve(ZoneId(2), 0, Picos::from_nanos(100)), Picos::from_nanos(200));
        assert_eq!(t.drained(), Picos::from_nanos(200));
    }
}
