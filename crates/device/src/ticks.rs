//! The processor's time-stamp counter as a clock of ticks, calibrated once against the wall clock.
//!
//! - A tick is whatever the counter counts; [`per_second`] says how many there are in a second.
//! - The counter must be invariant (it is on every x86-64 server of the last decade); where there
//!   is none, ticks are nanoseconds of the monotonic clock.
//! - Reading it is not serialising: a reading may be a few nanoseconds early or late.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::raw::cpu;

const CALIBRATION: Duration = Duration::from_millis(10);
const ATTEMPTS: usize = 16;

/// The counter now, in ticks.
#[inline(always)]
pub fn now() -> u64 {
    cpu::ticks()
}

/// A tick count and a wall-clock reading taken as close together as `ATTEMPTS` tries allow.
fn pair() -> (u64, Instant) {
    let bracket = || {
        let before = now();
        let wall = Instant::now();
        let after = now();
        (after - before, (before + (after - before) / 2, wall))
    };
    let tries = (0..ATTEMPTS).map(|_| bracket());
    tries.min_by_key(|&(width, _)| width).expect("invariant: at least one attempt").1
}

fn calibrate() -> f64 {
    let (ticks_a, wall_a) = pair();
    while wall_a.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let (ticks_b, wall_b) = pair();
    (ticks_b - ticks_a) as f64 / (wall_b - wall_a).as_secs_f64()
}

/// Ticks in a second; the first call takes ten milliseconds to find out.
pub fn per_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(calibrate)
}

/// Ticks in `ns` nanoseconds.
pub fn from_ns(ns: f64) -> f64 {
    ns * per_second() / 1e9
}

/// Nanoseconds in `ticks` ticks.
pub fn to_ns(ticks: f64) -> f64 {
    ticks * 1e9 / per_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_between_a_hundredth_and_ten_nanoseconds_and_conversions_invert() {
        let rate = per_second();
        assert!((1e8..1e11).contains(&rate), "{rate} ticks a second");
        assert!((to_ns(from_ns(123.0)) - 123.0).abs() < 1e-6);
    }
}
