//! From ratios to a verdict: which devices of a grid make a job as good as in DRAM.
//!
//! The verdict of a job rests on the model's prediction for each device ([`super::model`]): counts
//! do not vary from run to run, and the processor's time and the time in DRAM are medians of many
//! interleaved trials. The paced measurement of each device stands beside it as a check.
//!
//! Rules
//! - *How good at best*: the least ratio of the grid: near DRAM, or slower, and then as an interval
//!   of round figures ([`FIGURES`]). The limit lies in a gap that the jobs of the study leave below
//!   [`NEAR_MAX`] ([`limit`]), so no job lies close to it.
//! - *A cell alone* is graded against [`AS_GOOD`]: too close to call within [`MARGIN`] of it, or
//!   within its own spread where that is larger.
//! - *Which device is enough*: the slowest one on which the job takes less than [`WITHIN`] times
//!   the best. Both are predictions with the same processor time, so its noise cancels. The exact
//!   limit lies in the first gap below [`WITHIN`] that the ratios of the devices leave which could
//!   be named, so that none of them lies close to the limit.
//! - *A verdict that the spread could flip* says so ([`Verdict::could_flip`]): the least ratio and
//!   its spread reach across the limit.
//! - *Better devices never get worse verdicts*: a device's ratio is the least of its own and of all
//!   devices that are no better in latency and in rate.

use littoral_base::mutant;
use littoral_base::units::{PerSecond, Picos};
use serde::{Deserialize, Serialize};

/// A device is as good as DRAM when the job takes at most this many times as long.
pub const AS_GOOD: f64 = 1.10;
/// Two studies on one processor may differ by this share: of eleven beside six to twelve other
/// busy threads, no ratio was farther than 6 % from the median of all.
pub const MARGIN: f64 = 0.075;

/// A job that takes this many times as long as in DRAM or more is never near it.
pub const NEAR_MAX: f64 = 1.45;

/// A device's figures and the job's time on it over its time in DRAM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Read latency.
    pub latency_ns: f64,
    /// Reads per second of one core.
    pub reads_per_s: f64,
    /// Time over the time in DRAM.
    pub ratio: f64,
    /// How far that may be off, as a share of it.
    pub spread: f64,
}

impl Point {
    /// Whether a ratio within the spread is on the other side of `limit`.
    fn could_cross(&self, limit: f64) -> bool {
        let spread = if mutant!("whatif_grid_spread_ignored") { 0.0 } else { self.spread };
        let is_below = |ratio: f64| ratio <= limit;
        let factor = 1.0 + spread;
        is_below(self.ratio / factor) != is_below(self.ratio * factor)
    }
}

/// One device against the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// As good as DRAM; of a job on its best device: as good or close to it.
    AsGood,
    /// The spread reaches across the limit; of cells only.
    TooClose,
    /// Slower.
    Slower,
}

impl Grade {
    /// The grade of a ratio whose relative spread is `spread`.
    pub fn of(ratio: f64, spread: f64) -> Grade {
        let spread = if mutant!("whatif_spread_ignored") { 0.0 } else { spread };
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
    /// The best device against DRAM.
    pub grade: Grade,
    /// The job's time over DRAM on the best device, in words of round figures.
    pub best: String,
    /// The same on the worst device.
    pub worst: String,
    /// The slowest device that is enough: within twice the best.
    pub enough_from: Option<Place>,
    /// Whether that is every device of the grid.
    pub all_alike: bool,
    /// Whether the spread of the best device's ratio reaches across the limit, so that another run
    /// could give the other grade.
    #[serde(default)]
    pub could_flip: bool,
}

/// Round figures between which a ratio is given.
pub const FIGURES: [f64; 9] = [1.10, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];
/// Round figures for the worst device of a grid: its order of magnitude is enough.
pub const WORST_FIGURES: [f64; 4] = [2.0, 10.0, 100.0, 1000.0];
/// A device on which a job takes less than this times the best is enough.
pub const WITHIN: f64 = 2.0;
/// Devices up to this share of the best are always enough.
const ALWAYS_ENOUGH: f64 = 1.25;
/// A gap this wide is wide enough for the limit between devices: predictions on one grid share the
/// processor time. Twenty studies beside up to nine busy threads moved no such gap by over 4 %.
const DEVICE_GAP: f64 = 1.10;
/// The same between jobs.
const JOB_GAP: f64 = 1.05;

/// How many times as long, between round figures: few limits, so that the next run repeats it.
pub fn rounded(ratio: f64) -> String {
    between(ratio, &FIGURES)
}

/// The same in orders of magnitude.
fn magnitude(ratio: f64) -> String {
    between(ratio, &WORST_FIGURES)
}

fn between(ratio: f64, figures: &[f64]) -> String {
    let below = figures.iter().rev().find(|&&f| f <= ratio);
    let above = figures.iter().find(|&&f| f > ratio);
    match (below, above) {
        (Some(below), Some(above)) => format!("{below} to {above} times"),
        (Some(below), None) => format!("more than {below} times"),
        (None, Some(above)) => format!("at most {above} times"),
        (None, None) => format!("{ratio} times"),
    }
}

/// `p` with the least ratio of itself and of all devices that are no better, and that ratio's
/// spread.
fn at_most(p: &Point, points: &[Point]) -> Point {
    let no_better =
        points.iter().filter(|q| q.latency_ns >= p.latency_ns && q.reads_per_s <= p.reads_per_s);
    let least = no_better.min_by(|a, b| a.ratio.total_cmp(&b.ratio)).unwrap_or(p);
    Point { ratio: least.ratio, spread: least.spread, ..*p }
}

/// From the slowest to the fastest: by falling latency, then by rising rate.
fn from_slowest(a: &Point, b: &Point) -> std::cmp::Ordering {
    let latency = b.latency_ns.total_cmp(&a.latency_ns);
    latency.then(a.reads_per_s.total_cmp(&b.reads_per_s))
}

fn place(p: &Point) -> Place {
    Place { latency_ns: p.latency_ns, reads_per_s: p.reads_per_s }
}

/// The devices that can be named as the slowest that is enough, slowest first: no slower device has
/// a ratio as small.
fn candidates(points: &[Point]) -> Vec<Point> {
    let mut order = points.to_vec();
    order.sort_by(from_slowest);
    let mut least = f64::INFINITY;
    order.retain(|p| {
        let is_less = p.ratio < least;
        least = least.min(p.ratio);
        is_less
    });
    order
}

/// The middle of the first gap below `high` that `ratios` leave and that is `wide`, or of the
/// widest gap; the search ends at `low`.
fn first_gap(ratios: impl Iterator<Item = f64>, (low, high): (f64, f64), wide: f64) -> f64 {
    let mut edges: Vec<f64> = ratios.filter(|r| *r > low && *r < high).collect();
    edges.extend([low, high]);
    edges.sort_by(|a, b| b.total_cmp(a));
    let gaps = || edges.windows(2).map(|w| (w[0] / w[1], (w[0] * w[1]).sqrt()));
    let first = gaps().find(|&(width, _)| width >= wide);
    let widest = || gaps().max_by(|a, b| a.0.total_cmp(&b.0));
    first.or_else(widest).map_or(low, |(_, middle)| middle)
}

/// Most that a job near DRAM may take: in a gap between the least ratios of all jobs. A fixed limit
/// did not do: with any of them some job of the shipped graph was within 1 % of it on one processor
/// or the other. Nor did a second limit for jobs as good as DRAM: least ratios lie dense between
/// 1.0 and 1.2, closer than two runs repeat.
pub fn limit(bests: &[f64]) -> f64 {
    first_gap(bests.iter().copied(), (AS_GOOD, NEAR_MAX), JOB_GAP)
}

/// The point with the least ratio of a grid.
fn best(points: &[Point]) -> Option<&Point> {
    points.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio))
}

fn best_ratio(points: &[Point]) -> f64 {
    best(points).map_or(f64::INFINITY, |p| p.ratio)
}

/// Judges the jobs of a study, each by its own grid of devices and by the [`limit`] of them all.
pub fn judge(jobs: &[Vec<Point>]) -> Vec<Verdict> {
    let limit = limit(&jobs.iter().map(|points| best_ratio(points)).collect::<Vec<f64>>());
    jobs.iter().map(|points| judge_job(points, limit)).collect()
}

fn judge_job(points: &[Point], near: f64) -> Verdict {
    let points: Vec<Point> = points.iter().map(|p| at_most(p, points)).collect();
    let could_flip = best(&points).is_some_and(|p| p.could_cross(near));
    let (best, worst) = (best_ratio(&points), points.iter().map(|p| p.ratio).fold(0.0, f64::max));
    let candidates = candidates(&points);
    let window = (ALWAYS_ENOUGH, WITHIN);
    let enough = best * first_gap(candidates.iter().map(|p| p.ratio / best), window, DEVICE_GAP);
    let first = candidates.iter().find(|p| p.ratio <= enough);
    Verdict {
        grade: if best <= near { Grade::AsGood } else { Grade::Slower },
        best: rounded(best),
        worst: magnitude(worst),
        enough_from: first.map(place),
        all_alike: points.iter().all(|p| p.ratio <= enough),
        could_flip,
    }
}

impl Verdict {
    /// The verdict in words, without the job's name.
    pub fn words(&self) -> String {
        let how = match self.grade {
            Grade::Slower => format!("{} as long as in DRAM at best", self.best),
            _ => format!(
                "as good as DRAM or close to it, less than {NEAR_MAX} times as long at best"
            ),
        };
        let enough = match &self.enough_from {
            _ if self.all_alike => "no device of the grid takes twice the best's time".to_owned(),
            Some(place) => format!(
                "from {} on it takes less than twice the best's time; {} on the worst of the grid",
                place.words(),
                self.worst
            ),
            None => "the grid has no device".to_owned(),
        };
        format!("{how}; {enough}")
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

    /// The verdict of a study of one job.
    fn alone(points: Vec<Point>) -> Verdict {
        judge(&[points]).remove(0)
    }

    #[test]
    fn the_slowest_device_that_is_enough_is_named() {
        let grid = [
            (1e3, 5e6, 2.30),
            (6e3, 5e6, 2.50),
            (1e3, 2e7, 1.01),
            (6e3, 2e7, 1.20),
            (2e4, 1e8, 2.40),
        ];
        let words = alone(points(&grid)).words();
        assert_eq!(
            words,
            "as good as DRAM or close to it, less than 1.45 times as long at best; from 6 us and \
             20 M/s reads on it takes less than twice the best's time; 2 to 10 times on the worst \
             of the grid"
        );
        let alike = alone(points(&[(1e3, 5e6, 1.5), (6e3, 5e6, 1.52)]));
        assert_eq!(
            alike.words(),
            "1.1 to 2 times as long as in DRAM at best; no device of the grid takes twice the \
             best's time"
        );
    }

    #[test]
    fn a_latency_bound_job_is_not_hidden_and_its_factor_is_round() {
        let found = alone(points(&[(1e3, 1e8, 2.7), (2e4, 1e8, 40.0)]));
        assert_eq!((found.grade, found.all_alike), (Grade::Slower, false));
        assert!(found.words().starts_with("2 to 5 times as long as in DRAM at best; from 1 us"));
        assert!(found.words().ends_with("10 to 100 times on the worst of the grid"));
        let words = [1.2, 11.0, 640.0, 0.9].map(rounded);
        assert_eq!(
            words,
            ["1.1 to 2 times", "10 to 20 times", "more than 500 times", "at most 1.1 times"]
        );
        assert_eq!([1.7, 2900.0].map(magnitude), ["at most 2 times", "more than 1000 times"]);
    }

    #[test]
    fn a_ratio_that_the_spread_could_flip_is_too_close_to_call() {
        assert_eq!(
            [1.02, 1.07, 1.16, 1.19].map(|r| Grade::of(r, 0.0)),
            [Grade::AsGood, Grade::TooClose, Grade::TooClose, Grade::Slower]
        );
        assert_eq!(Grade::of(1.0, 0.2), Grade::TooClose, "a wide spread decides nothing");
    }

    #[test]
    fn a_verdict_that_the_spread_could_flip_says_so() {
        // One job alone: the limit is the middle of 1.10 and 1.45 and of what its ratio leaves.
        let flips = |best: f64, spread: f64| {
            let mut grid = points(&[(1e3, 1e8, best), (2e4, 1e6, 9.0)]);
            grid[0].spread = spread;
            alone(grid).could_flip
        };
        let limit = limit(&[1.2]);
        assert!((1.30..1.35).contains(&limit), "{limit}");
        let found = [(1.2, 0.0), (1.2, 0.05), (1.2, 0.2), (9.0, 0.2), (0.9, 0.2)];
        assert_eq!(found.map(|(b, s)| flips(b, s)), [false, false, true, false, false]);
        // From above the limit as well; the spread of another device does not count.
        let mut grid = points(&[(1e3, 1e8, 1.5), (2e4, 1e6, 9.0)]);
        grid[1].spread = 0.9;
        assert!(!alone(grid.clone()).could_flip);
        grid[0].spread = 0.3;
        assert!(alone(grid).could_flip);
    }

    #[test]
    fn noise_of_jobs_does_not_move_them_across_the_limit() {
        // Least ratios of the shipped graph on one processor.
        let jobs = [0.997, 1.068, 1.106, 1.184, 1.238, 1.544];
        let near = |jobs: &[f64]| jobs.iter().map(|&b| b <= limit(jobs)).collect::<Vec<bool>>();
        let wanted = [true, true, true, true, true, false];
        for seed in 0..64u32 {
            let sign = |i: usize| if seed >> i & 1 == 0 { 0.97 } else { 1.03 };
            let noisy: Vec<f64> = jobs.iter().enumerate().map(|(i, best)| best * sign(i)).collect();
            assert_eq!(near(&noisy), wanted, "{seed}");
        }
        assert_eq!((limit(&[]) * 100.0).round(), 126.0);
    }

    #[test]
    fn noise_does_not_choose_between_two_gaps_of_like_width() {
        // Ratios of four searches at once: the gaps around 1.61 and 1.72 are equally wide, those
        // that faster devices of higher latency leave do not count.
        for noise in [-0.03, -0.01, 0.0, 0.01, 0.03] {
            let found = alone(points(&[
                (1e3, 5e7, 1.0),
                (2e3, 5e7, 1.137),
                (2e3, 2e7, 1.241 - noise),
                (1e3, 1e7, 1.446 + noise),
                (2e3, 1e7, 1.606 + noise),
                (5e3, 5e7, 1.631 - noise),
                (5e3, 2e7, 1.721 - noise),
                (5e3, 1e7, 2.087 + noise),
                (1e4, 5e7, 2.429),
            ]));
            let wanted = Some(Place { latency_ns: 5e3, reads_per_s: 2e7 });
            assert_eq!(found.enough_from, wanted, "{noise}");
        }
    }

    #[test]
    fn noise_of_a_plateau_does_not_move_the_device_that_is_enough() {
        let grid = |noise: f64| {
            alone(points(&[
                (1e3, 1e8, 1.04),
                (5e3, 1e8, 1.15 + noise),
                (1e4, 1e8, 1.39 - noise),
                (2e4, 1e8, 2.00 + noise),
            ]))
        };
        let place = Some(Place { latency_ns: 1e4, reads_per_s: 1e8 });
        for noise in [-0.06, 0.0, 0.02, 0.06] {
            assert_eq!(grid(noise).enough_from, place, "{noise}");
        }
    }

    fn grid() -> impl Strategy<Value = Vec<Point>> {
        let ratios = proptest::collection::vec(0.7f64..3.0, 12);
        ratios.prop_map(|ratios| {
            let place = |i: usize| (1e3 * 2f64.powi(i as i32 % 4), 1e7 * 3f64.powi(i as i32 / 4));
            let make = |(i, ratio): (usize, f64)| {
                let (latency_ns, reads_per_s) = place(i);
                Point { latency_ns, reads_per_s, ratio, spread: 0.0 }
            };
            ratios.into_iter().enumerate().map(make).collect()
        })
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
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
