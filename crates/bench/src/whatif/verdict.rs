//! From ratios to a verdict: which devices of a grid make a job as good as in DRAM.
//!
//! The verdict of a job rests on the model's prediction for each device ([`super::model`]): counts
//! do not vary from run to run, and the processor's time and the time in DRAM are medians of many
//! interleaved trials. The paced measurement of each device stands beside it as a check.
//!
//! Rules
//! - *Better devices never get worse verdicts*: a device's ratio is the least of its own and of all
//!   devices that are no better in latency and in rate.
//! - *As good* is a ratio of at most [`AS_GOOD`].
//! - *Too close to call* is a ratio whose spread, or the margin that two runs may differ by
//!   ([`MARGIN`]), reaches across that limit.
//! - Where nothing is as good, the verdict says how many times as long the best device takes, on a
//!   ladder of round figures: a sentence does not carry digits that the next run would not repeat.

use littoral_base::units::{PerSecond, Picos};
use serde::{Deserialize, Serialize};

/// A device is as good as DRAM when the job takes at most this many times as long.
pub const AS_GOOD: f64 = 1.10;
/// Two runs of one program on one processor may differ by this share.
pub const MARGIN: f64 = 0.03;

/// A device's figures and the job's time on it over its time in DRAM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Read latency.
    pub latency_ns: f64,
    /// Reads per second of one core.
    pub reads_per_s: f64,
    /// Time over the time in DRAM.
    pub ratio: f64,
    /// Half of the interquartile range of that ratio, as a share of it.
    pub spread: f64,
}

/// One device against the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// As good as DRAM.
    AsGood,
    /// The spread reaches across the limit.
    TooClose,
    /// Slower.
    Slower,
}

impl Grade {
    /// The grade of a ratio whose relative spread is `spread`.
    pub fn of(ratio: f64, spread: f64) -> Grade {
        let margin = 1.0 + spread.max(MARGIN);
        if ratio * margin <= AS_GOOD {
            Grade::AsGood
        } else if ratio / margin > AS_GOOD {
            Grade::Slower
        } else {
            Grade::TooClose
        }
    }

    /// The grade in words.
    pub fn name(self) -> &'static str {
        match self {
            Grade::AsGood => "as good as DRAM",
            Grade::TooClose => "too close to call",
            Grade::Slower => "slower than DRAM",
        }
    }
}

/// A device by its two figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Read latency.
    pub latency_ns: f64,
    /// Reads per second of one core.
    pub reads_per_s: f64,
}

impl Place {
    /// The figures in words.
    pub fn words(&self) -> String {
        let latency = Picos((self.latency_ns * 1e3).round() as u64);
        format!("{latency} and {} reads", PerSecond(self.reads_per_s))
    }
}

/// What a grid says about one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The slowest device that is as good as DRAM; absent where none is.
    pub as_good_from: Option<Place>,
    /// The slowest device that may be as good, where that is slower still.
    pub too_close_from: Option<Place>,
    /// How many times as long the best device takes, on the ladder; 1 where one is as good.
    pub best_ratio: f64,
    /// The best device.
    pub best: Option<Place>,
}

/// Round figures for how many times as long something takes.
const LADDER: [f64; 15] =
    [1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0, 200.0];

/// The nearest figure of the ladder, by ratio; above it, whole hundreds.
pub fn rounded(ratio: f64) -> f64 {
    if ratio > 250.0 {
        return (ratio / 100.0).round() * 100.0;
    }
    let off = |figure: &f64| (ratio / figure).ln().abs();
    LADDER.into_iter().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(ratio)
}

/// The least ratio of `p` and of all devices that are no better, with its spread.
fn at_most(p: &Point, points: &[Point]) -> Point {
    let no_better =
        points.iter().filter(|q| q.latency_ns >= p.latency_ns && q.reads_per_s <= p.reads_per_s);
    let least = no_better.min_by(|a, b| a.ratio.total_cmp(&b.ratio)).unwrap_or(p);
    Point { ratio: least.ratio, spread: least.spread, ..*p }
}

/// The slowest of `points`: the greatest latency, then the least rate.
fn slowest<'p>(points: impl Iterator<Item = &'p Point>) -> Option<Place> {
    let order = |a: &&Point, b: &&Point| {
        let latency = a.latency_ns.total_cmp(&b.latency_ns);
        latency.then(b.reads_per_s.total_cmp(&a.reads_per_s))
    };
    points.max_by(order).map(place)
}

fn place(p: &Point) -> Place {
    Place { latency_ns: p.latency_ns, reads_per_s: p.reads_per_s }
}

/// Judges a grid of devices.
pub fn judge(points: &[Point]) -> Verdict {
    let points: Vec<Point> = points.iter().map(|p| at_most(p, points)).collect();
    let grade = |p: &Point| Grade::of(p.ratio, p.spread);
    let as_good = slowest(points.iter().filter(|p| grade(p) == Grade::AsGood));
    let perhaps = slowest(points.iter().filter(|p| grade(p) <= Grade::TooClose));
    let best = points.iter().min_by(|a, b| {
        let better = b.reads_per_s.total_cmp(&a.reads_per_s);
        a.ratio.total_cmp(&b.ratio).then(a.latency_ns.total_cmp(&b.latency_ns)).then(better)
    });
    Verdict {
        too_close_from: perhaps.filter(|p| as_good.as_ref() != Some(p)),
        best_ratio: best.map_or(1.0, |b| if as_good.is_some() { 1.0 } else { rounded(b.ratio) }),
        as_good_from: as_good,
        best: best.map(place),
    }
}

impl Verdict {
    /// The verdict in words, without the job's name.
    pub fn words(&self) -> String {
        let close = self
            .too_close_from
            .as_ref()
            .map_or(String::new(), |p| format!("; down to {} it is too close to call", p.words()));
        match (&self.as_good_from, &self.too_close_from) {
            (Some(p), _) => format!("as good as DRAM from {} on{close}", p.words()),
            (None, Some(p)) => {
                format!("from {} on it is too close to call", p.words())
            }
            (None, None) => {
                let best = self.best.as_ref().map_or(String::new(), Place::words);
                format!(
                    "no device of the grid is as good as DRAM; the best, {best}, takes about {} \
                     times as long",
                    self.best_ratio
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(rows: &[(f64, f64, f64)]) -> Vec<Point> {
        let make = |&(latency_ns, reads_per_s, ratio)| Point {
            latency_ns,
            reads_per_s,
            ratio,
            spread: 0.0,
        };
        rows.iter().map(make).collect()
    }

    #[test]
    fn the_slowest_device_that_is_as_good_is_named() {
        let grid = [
            (1e3, 5e6, 1.30),
            (6e3, 5e6, 1.50),
            (1e3, 2e7, 1.02),
            (6e3, 2e7, 1.06),
            (2e4, 1e8, 1.40),
        ];
        let words = judge(&points(&grid)).words();
        assert_eq!(words, "as good as DRAM from 6 us and 20 M/s reads on");
    }

    #[test]
    fn a_latency_bound_job_is_not_hidden_and_its_factor_is_round() {
        let found = judge(&points(&[(1e3, 1e8, 2.9), (2e4, 1e8, 40.0)]));
        assert_eq!((found.as_good_from, found.best_ratio), (None, 3.0));
        assert!(found.words().contains("1 us and 100 M/s reads, takes about 3 times"));
        assert_eq!([1.2, 1.7, 11.0, 170.0, 640.0].map(rounded), [1.25, 1.5, 10.0, 200.0, 600.0]);
    }

    #[test]
    fn a_ratio_that_the_spread_could_flip_is_too_close_to_call() {
        assert_eq!(
            [1.06, 1.09, 1.12, 1.14].map(|r| Grade::of(r, 0.0)),
            [Grade::AsGood, Grade::TooClose, Grade::TooClose, Grade::Slower,]
        );
        assert_eq!(Grade::of(1.0, 0.2), Grade::TooClose, "a wide spread decides nothing");
        let found = judge(&points(&[(1e3, 1e8, 1.0), (2e3, 1e8, 1.11), (4e3, 1e8, 1.5)]));
        assert_eq!(
            found.words(),
            "as good as DRAM from 1 us and 100 M/s reads on; down to 2 us \
            and 100 M/s reads it is too close to call"
        );
        let found = judge(&points(&[(1e3, 1e8, 1.11), (4e3, 1e8, 1.5)]));
        assert_eq!(found.words(), "from 1 us and 100 M/s reads on it is too close to call");
    }

    fn grid() -> impl Strategy<Value = Vec<Point>> {
        let ratios = proptest::collection::vec((0.7f64..3.0, 0.0f64..0.2), 12);
        ratios.prop_map(|ratios| {
            let place = |i: usize| (1e3 * 2f64.powi(i as i32 % 4), 1e7 * 3f64.powi(i as i32 / 4));
            let make = |(i, (ratio, spread)): (usize, (f64, f64))| {
                let (latency_ns, reads_per_s) = place(i);
                Point { latency_ns, reads_per_s, ratio, spread }
            };
            ratios.into_iter().enumerate().map(make).collect()
        })
    }

    proptest! {
        #[test]
        fn a_better_device_never_gets_a_worse_verdict(grid in grid()) {
            let judged: Vec<Point> = grid.iter().map(|p| at_most(p, &grid)).collect();
            for a in &judged {
                for b in judged.iter().filter(|b| b.latency_ns >= a.latency_ns && b.reads_per_s <= a.reads_per_s) {
                    prop_assert!(a.ratio <= b.ratio, "{a:?} is better than {b:?}");
                }
            }
        }

        #[test]
        fn a_grade_holds_for_every_ratio_within_the_margin(ratio in 0.5f64..3.0, spread in 0.0f64..0.3, other in -1.0f64..1.0) {
            let near = ratio * (1.0 + spread.max(MARGIN)).powf(other);
            match Grade::of(ratio, spread) {
                Grade::AsGood => prop_assert!(near <= AS_GOOD * 1.000_001),
                Grade::Slower => prop_assert!(near > AS_GOOD * 0.999_999),
                Grade::TooClose => {}
            }
        }
    }
}
