//! When a modelled request would be answered: latency, rates and link as arithmetic on timestamps.
//!
//! A request admitted at device time `t` starts at the later of `t` and the next free place of the
//! core's rate (and of the rate all cores share), takes the latency, then crosses the link behind
//! the requests before it. There is no burst: at a rate of r reads a second starts are 1/r apart.
//!
//! Device time
//! - Ticks of the time-stamp counter since the pacer was made, in fixed point with 12 fractional
//!   bits (a byte at 100 GB/s is a fortieth of a tick; 2^52 ticks last weeks).
//! - Read once per [`Pacer::stamp`], not per request. Admission and detection use the same stamp,
//!   so the stamps at which one context's successive requests are admitted are at least the latency
//!   apart, and no number of contexts can exceed Little's bound. A single request may be answered
//!   up to one stamp interval early or late; `stamps_count` tells how long that is. The first
//!   request on an idle device takes a stamp of its own.
//! - Stands still while the host does: a gap between stamps longer than `pause_min` with requests
//!   under way means that the host was descheduled (or computed for long). The device did not get
//!   that time as a present: it is subtracted, and counted.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use littoral_base::units::{PerSecond, Picos};

use crate::ticks;

const FRACTION_BITS: u32 = 12;
/// Requests for which a core books the shared rate at once.
const SHARED_BATCH: u32 = 32;

/// The figures a pacer works with; zero or `None` means no limit.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    /// From admission of a request to its first byte on the link.
    pub latency: Picos,
    /// Most reads a second of this core's queue.
    pub reads_per_core_max: Option<PerSecond>,
    /// The rate that several cores share.
    pub shared: Option<SharedRate>,
    /// Most bytes a second over this queue's link.
    pub link_bytes_per_s: Option<f64>,
    /// A longer gap between stamps with requests under way is a paused host; zero means 20 us.
    pub pause_min: Picos,
}

const PAUSE_MIN_DEFAULT: Picos = Picos::from_micros(20);

/// A rate of reads shared by the queues of several cores, booked in batches.
#[derive(Clone, Debug)]
pub struct SharedRate {
    /// Ticks in fixed point since the epoch at which the next free place begins.
    next: Arc<AtomicU64>,
    epoch: u64,
    interval: u64,
}

impl SharedRate {
    /// At most `rate` reads a second over all queues with a clone of this value.
    pub fn new(rate: PerSecond) -> SharedRate {
        SharedRate { next: Arc::default(), epoch: ticks::now(), interval: interval(rate) }
    }

    /// Books `SHARED_BATCH` places from `now` on; answers where the first begins.
    fn book(&self, now: u64) -> u64 {
        let batch = self.interval * u64::from(SHARED_BATCH);
        let end = |next: u64| next.max(now) + batch;
        // Relaxed: the word guards nothing but itself.
        let booked = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(end(n)));
        booked.expect("invariant: the closure always answers").max(now)
    }
}

/// A core's places of the shared rate.
#[derive(Debug)]
struct Share {
    rate: SharedRate,
    next: Cell<u64>,
    left: Cell<u32>,
}

/// Fixed-point ticks between requests at a rate.
fn interval(rate: PerSecond) -> u64 {
    if rate.0 > 0.0 { fixed(ticks::per_second() / rate.0) } else { 0 }
}

fn fixed(ticks: f64) -> u64 {
    (ticks * f64::from(1u32 << FRACTION_BITS)).round() as u64
}

fn ticks_in(time: Picos) -> f64 {
    ticks::from_ns(time.0 as f64 / 1e3)
}

/// Decides when requests are answered; see the module's page.
#[derive(Debug)]
pub struct Pacer {
    now: Cell<u64>,
    start_next: Cell<u64>,
    link_free: Cell<u64>,
    latency: u64,
    /// The latency, or the least time there is.
    latency_min: u64,
    interval: u64,
    byte: u64,
    share: Option<Share>,
    /// Neither rate nor link: the latency is all, and no request waits for the one before it.
    limitless: bool,
    stamp_last: Cell<u64>,
    epoch: u64,
    paused_ticks: Cell<u64>,
    pauses: Cell<u64>,
    stamps: Cell<u64>,
    pause_min_ticks: u64,
}

impl Pacer {
    /// A pacer whose time starts now.
    pub fn new(timing: &Timing) -> Pacer {
        let pause_min =
            if timing.pause_min == Picos::ZERO { PAUSE_MIN_DEFAULT } else { timing.pause_min };
        let rate = timing.link_bytes_per_s.filter(|&r| r > 0.0);
        let share = timing.shared.clone();
        let epoch = share.as_ref().map_or_else(ticks::now, |rate| rate.epoch);
        let interval = timing.reads_per_core_max.map_or(0, interval);
        let byte = rate.map_or(0, |r| fixed(ticks::per_second() / r));
        let pacer = Pacer {
            now: Cell::new(0),
            start_next: Cell::new(0),
            link_free: Cell::new(0),
            latency: fixed(ticks_in(timing.latency)),
            latency_min: fixed(ticks_in(timing.latency)).max(1),
            interval,
            byte,
            limitless: interval == 0 && byte == 0 && share.is_none(),
            share: share.map(|rate| Share { rate, next: Cell::new(0), left: Cell::new(0) }),
            stamp_last: Cell::new(epoch),
            epoch,
            paused_ticks: Cell::new(0),
            pauses: Cell::new(0),
            stamps: Cell::new(0),
            pause_min_ticks: ticks_in(pause_min) as u64,
        };
        pacer.stamp(|| false);
        pacer
    }

    /// Device time at the latest stamp.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// When the latest request admitted is complete; every earlier one is complete by then.
    #[inline(always)]
    pub fn last_due(&self) -> u64 {
        self.link_free.get()
    }

    /// Whether a request on an idle device is complete as soon as it is admitted.
    #[inline(always)]
    pub fn is_instant(&self) -> bool {
        self.latency == 0
    }

    /// Reads the time; `under_way` is asked only after a long gap. Answers the ticks since the
    /// stamp before, pauses excluded.
    #[inline(always)]
    pub fn stamp(&self, under_way: impl FnOnce() -> bool) -> u64 {
        let now = ticks::now();
        let mut gap = now.saturating_sub(self.stamp_last.get());
        self.stamp_last.set(now);
        if gap > self.pause_min_ticks && under_way() {
            self.pause(gap);
            gap = 0;
        }
        self.stamps.set(self.stamps.get() + 1);
        self.now.set((now - self.epoch - self.paused_ticks.get()) << FRACTION_BITS);
        gap
    }

    #[cold]
    fn pause(&self, gap: u64) {
        self.paused_ticks.set(self.paused_ticks.get() + gap);
        self.pauses.set(self.pauses.get() + 1);
    }

    /// Admits a request for `len` bytes at the latest stamp; answers when it is complete. Answers
    /// never decrease.
    #[inline(always)]
    pub fn admit(&self, len: u32) -> u64 {
        if self.limitless {
            // Stamps never go back, so these answers do not either.
            let arrived = self.now.get() + self.latency;
            self.link_free.set(arrived);
            return arrived;
        }
        self.admit_in_turn(len)
    }

    /// As [`Pacer::admit`], but complete at the next stamp at the earliest.
    #[inline(always)]
    pub fn admit_after_now(&self, len: u32) -> u64 {
        if self.limitless {
            let arrived = self.now.get() + self.latency_min;
            self.link_free.set(arrived);
            return arrived;
        }
        self.admit_in_turn(len).max(self.now.get() + 1)
    }

    #[inline]
    fn admit_in_turn(&self, len: u32) -> u64 {
        let mut start = self.now.get().max(self.start_next.get());
        if self.share.is_some() {
            start = self.book(start);
        }
        self.start_next.set(start + self.interval);
        let arrived = (start + self.latency).max(self.link_free.get()) + u64::from(len) * self.byte;
        self.link_free.set(arrived);
        arrived
    }

    /// The later of `start` and this core's next place of the shared rate.
    #[inline(never)]
    fn book(&self, start: u64) -> u64 {
        let Some(share) = &self.share else { return start };
        // The shared rate runs in time since the common epoch, pauses of single cores included.
        let paused = self.paused_ticks.get() << FRACTION_BITS;
        let wanted = start + paused;
        let stale = share.next.get() + share.rate.interval * u64::from(SHARED_BATCH) < wanted;
        if share.left.get() == 0 || stale {
            share.next.set(share.rate.book(wanted));
            share.left.set(SHARED_BATCH);
        }
        let place = share.next.get().max(wanted);
        share.next.set(share.next.get() + share.rate.interval);
        share.left.set(share.left.get() - 1);
        place - paused
    }

    /// Stamps taken.
    pub fn stamps_count(&self) -> u64 {
        self.stamps.get()
    }

    /// Pauses of the host noticed.
    pub fn pauses_count(&self) -> u64 {
        self.pauses.get()
    }

    /// Nanoseconds of them in total.
    pub fn paused_ns(&self) -> u64 {
        ticks::to_ns(self.paused_ticks.get() as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ns(fixed_ticks: u64) -> f64 {
        ticks::to_ns(fixed_ticks as f64 / f64::from(1u32 << FRACTION_BITS))
    }

    fn pacer(latency_ns: u64, rate: f64, link: f64) -> Pacer {
        Pacer::new(&Timing {
            latency: Picos::from_nanos(latency_ns),
            reads_per_core_max: Some(PerSecond(rate)),
            link_bytes_per_s: Some(link),
            ..Timing::default()
        })
    }

    #[test]
    fn an_idle_device_answers_after_latency_and_transfer() {
        let p = pacer(4000, 44e6, 12.8e9);
        let took = ns(p.admit(128) - p.now());
        assert!((took - 4010.0).abs() < 1.0, "{took} ns");
    }

    #[test]
    fn the_rate_and_the_link_each_space_a_crowd_out() {
        for (rate, link, len, gap_ns) in
            [(44e6, 1e12, 16, 1e9 / 44e6), (1e9, 12.8e9, 2048, 160.0), (0.0, 0.0, 64, 0.0)]
        {
            let p = pacer(4000, rate, link);
            let first = p.admit(len);
            let last = (0..1000).map(|_| p.admit(len)).last().unwrap();
            let gap = ns(last - first) / 1000.0;
            assert!((gap - gap_ns).abs() <= gap_ns * 0.005 + 0.1, "{gap} ns, wanted {gap_ns}");
        }
    }

    #[test]
    fn cores_share_a_rate() {
        let shared = SharedRate::new(PerSecond(10e6));
        let core = || Pacer::new(&Timing { shared: Some(shared.clone()), ..Timing::default() });
        let (a, b) = (core(), core());
        let last = (0..1600).map(|_| a.admit(64).max(b.admit(64))).max().unwrap();
        // One began later, by as long as this thread had no processor.
        let span = ns(last - a.now().max(b.now()));
        assert!((span - 320_000.0).abs() < 10_000.0, "3200 reads took {span} ns");
    }

    #[test]
    fn a_paused_host_gets_no_time_for_nothing() {
        let p = Pacer::new(&Timing { pause_min: Picos::from_micros(100), ..Timing::default() });
        let before = p.now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        p.stamp(|| true);
        assert!(ns(p.now() - before) < 4_000_000.0, "the pause counted as device time");
        assert!(p.pauses_count() >= 1 && p.paused_ns() >= 4_000_000);
        std::thread::sleep(std::time::Duration::from_millis(5));
        p.stamp(|| false);
        assert!(ns(p.now() - before) >= 4_900_000.0, "an idle device's time goes on");
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn answers_never_come_before_latency_nor_out_of_order(
            lens in proptest::collection::vec(0u32..5000, 1..200), rate in 1e6..1e9, link in 1e8..1e11,
        ) {
            let p = pacer(1000, rate, link);
            let mut last = 0;
            for len in lens {
                p.stamp(|| true);
                let due = p.admit(len);
                prop_assert!(due >= last && ns(due - p.now()) >= 999.0);
                last = due;
            }
        }
    }
}
