//! Time as littoral knows it: three clocks and a count.
//!
//! - *virtual*: discrete events in integer picoseconds, bit-equal on replay;
//! - *paced*: our code in real time against a modelled device's deadlines;
//! - *wall*: nothing modelled;
//! - *count*: no time at all, only what is deterministic under the seed.
//!
//! Every figure carries a [`ClockKind`]; a modelled time is never presented as a measurement.
//! Engines take a [`Clock`] and call no operating-system clock themselves.

use std::cell::Cell;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::units::Picos;

/// Which clock stands behind a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockKind {
    /// A deterministic count: no clock at all.
    Count,
    /// Discrete-event time.
    Virtual,
    /// Real time against a modelled device's deadlines.
    Paced,
    /// Real time, nothing modelled.
    Wall,
}

impl ClockKind {
    /// The name as results spell it.
    pub const fn name(self) -> &'static str {
        match self {
            ClockKind::Count => "count",
            ClockKind::Virtual => "virtual",
            ClockKind::Paced => "paced",
            ClockKind::Wall => "wall",
        }
    }
}

/// A source of time in picoseconds since its own start.
pub trait Clock {
    /// Picoseconds since this clock's start; never decreases.
    fn now(&self) -> Picos;
    /// Which kind of time this is.
    fn kind(&self) -> ClockKind;
}

/// A clock that advances only when told to.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: Cell<u64>,
}

impl VirtualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances to `to`; a time in the past leaves the clock where it is.
    pub fn advance_to(&self, to: Picos) {
        self.now.set(self.now.get().max(to.0));
    }

    /// Advances by `by`.
    pub fn advance(&self, by: Picos) {
        self.now.set(self.now.get().checked_add(by.0).expect("invariant: virtual time fits u64"));
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Picos {
        Picos(self.now.get())
    }
    fn kind(&self) -> ClockKind {
        ClockKind::Virtual
    }
}

/// The operating system's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    start: Instant,
}

impl Default for WallClock {
    fn default() -> Self {
        WallClock { start: Instant::now() }
    }
}

impl WallClock {
    /// A clock that starts now.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Clock for WallClock {
    fn now(&self) -> Picos {
        Picos::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
    fn kind(&self) -> ClockKind {
        ClockKind::Wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_moves_only_forward_and_only_when_told() {
        let c = VirtualClock::new();
        c.advance(Picos(5));
        c.advance_to(Picos(3));
        assert_eq!(c.now(), Picos(5));
        c.advance_to(Picos(9));
        assert_eq!((c.now(), c.kind()), (Picos(9), ClockKind::Virtual));
    }

    #[test]
    fn wall_time_does_not_go_back() {
        let c = WallClock::new();
        let a = c.now();
        assert!(c.now() >= a);
    }
}
