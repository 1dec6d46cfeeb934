//! The fluid bound: the least time in which any split of the pages can end.
//!
//! Pages are taken as divisible, so that no order, queue or end of a scan costs anything. With `n`
//! pages of each task and a share `x` of them on the device, the time is at least each of
//! - internal: all pages over the internal bus, and over the channels, and out of the chips;
//! - cores: `n x d / cores`;
//! - link: `n (1 - x) l`;
//! - host: `n (1 - x) h / host cores`;
//! - slots: every page holds one of `depth` slots from its request to its end.
//!
//! For one task this is `min(I, D + min(L, H))` in pages per second, with the slots beside it.
//!
//! Invariants
//! - [`Fluid::best`] is no less than the time of any other split. Checked by
//!   `no_split_beats_the_best`.

/// The pages of one task that are left, and what one of them takes, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Pages.
    pub pages: f64,
    /// Time of one core.
    pub core: f64,
    /// Time of the link.
    pub link: f64,
    /// Time of one host core.
    pub host: f64,
}

/// What serves the loads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fluid {
    /// Time between two pages at the full internal rate.
    pub internal: f64,
    /// From a request to its page in DRAM, device idle.
    pub fetch: f64,
    /// Cores.
    pub cores: f64,
    /// Cores of the host.
    pub host_cores: f64,
    /// Host slots.
    pub depth: f64,
    /// What the slots' time adds to the time of a split; zero in the bound.
    pub slot_weight: f64,
}

/// The best split: its time and each task's share on the device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// In picoseconds.
    pub time: f64,
    /// One share per task.
    pub shares: Vec<f64>,
}

/// Rounds over all pairs of tasks.
const ROUNDS: u32 = 4;
/// Tasks beyond which pairs are not looked at: the work grows with the third power of the tasks.
const PAIRS_MAX: usize = 8;

impl Fluid {
    /// The least time of a split.
    pub fn time(&self, loads: &[Load], shares: &[f64]) -> f64 {
        let (mut pages, mut core, mut link, mut host, mut slots) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (l, &x) in loads.iter().zip(shares) {
            pages += l.pages;
            core += l.pages * x * l.core;
            let shipped = l.pages * (1.0 - x);
            link += shipped * l.link;
            host += shipped * l.host;
            slots += l.pages * (self.fetch + x * l.core) + shipped * (l.link + l.host);
        }
        (pages * self.internal)
            .max(core / self.cores)
            .max(link)
            .max(host / self.host_cores)
            .max(slots / self.depth)
            + self.slot_weight * slots / self.depth
    }

    /// As [`Fluid::best`], but of splits that are as good the one that holds slots for the least
    /// time: what is not divisible after all queues for them first.
    pub fn lean(&self, loads: &[Load]) -> Split {
        Fluid { slot_weight: 0.1, ..*self }.best(loads)
    }

    /// The best split of one to three tasks, and a good one of more: the best threshold split
    /// (tasks go to the device in order of core time for the link or host time saved), then the
    /// shares of two tasks at a time while that makes it shorter, for up to [`PAIRS_MAX`] tasks.
    pub fn best(&self, loads: &[Load]) -> Split {
        let mut best = self.threshold(loads, |l| l.core / l.link);
        let other = self.threshold(loads, |l| l.core / l.host.max(1.0));
        if other.time < best.time {
            best = other;
        }
        let rounds = if loads.len() > PAIRS_MAX { 0 } else { ROUNDS };
        for _ in 0..rounds {
            let before = best.time;
            for a in 0..loads.len() {
                for b in a + 1..loads.len() {
                    let found = self.pair(loads, &best.shares, (a, b));
                    if found.time < best.time {
                        best = found;
                    }
                }
            }
            if loads.len() < 3 || best.time > before * 0.999 {
                break;
            }
        }
        // Pairs can be stuck at an edge where only a change of all three helps.
        if loads.len() == 3 {
            let found = self.triple(loads, &best.shares);
            if found.time < best.time {
                best = found;
            }
        }
        best
    }

    /// The best shares of three tasks.
    fn triple(&self, loads: &[Load], shares: &[f64]) -> Split {
        let mut own = shares.to_vec();
        let mut inner = |x: f64| {
            own[0] = x;
            self.pair(loads, &own, (1, 2))
        };
        let x = least(0.0, 1.0, |x| inner(x).time);
        inner(x)
    }

    fn threshold(&self, loads: &[Load], key: impl Fn(&Load) -> f64) -> Split {
        let mut order: Vec<usize> = (0..loads.len()).collect();
        order.sort_by(|&a, &b| key(&loads[a]).total_cmp(&key(&loads[b])));
        let split = |level: f64| {
            let mut shares = vec![0.0; loads.len()];
            for (rank, &task) in order.iter().enumerate() {
                shares[task] = (level - rank as f64).clamp(0.0, 1.0);
            }
            shares
        };
        // Piecewise: within a step of the order the time is convex in the level.
        let mut best = Split { time: f64::INFINITY, shares: Vec::new() };
        for rank in 0..loads.len().max(1) {
            let from = rank as f64;
            let level = least(from, from + 1.0, |level| self.time(loads, &split(level)));
            let shares = split(level);
            let time = self.time(loads, &shares);
            if time < best.time {
                best = Split { time, shares };
            }
        }
        best
    }

    /// The best shares of tasks `a` and `b`, those of the others being `shares`.
    fn pair(&self, loads: &[Load], shares: &[f64], (a, b): (usize, usize)) -> Split {
        let mut own = shares.to_vec();
        let mut time = |x: f64, y: f64| {
            (own[a], own[b]) = (x, y);
            self.time(loads, &own)
        };
        let mut inner = |x: f64| {
            let y = least(0.0, 1.0, |y| time(x, y));
            (y, time(x, y))
        };
        let x = least(0.0, 1.0, |x| inner(x).1);
        let (y, time) = inner(x);
        (own[a], own[b]) = (x, y);
        Split { time, shares: own }
    }
}

/// Where a convex function is least, by the golden section.
fn least(mut from: f64, mut to: f64, mut f: impl FnMut(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let ends = [(from, f(from)), (to, f(to))];
    let (mut a, mut b) = (to - RATIO * (to - from), from + RATIO * (to - from));
    let (mut fa, mut fb) = (f(a), f(b));
    for _ in 0..32 {
        if fa <= fb {
            (to, b, fb) = (b, a, fa);
            a = to - RATIO * (to - from);
            fa = f(a);
        } else {
            (from, a, fa) = (a, b, fb);
            b = from + RATIO * (to - from);
            fb = f(b);
        }
    }
    let middle = (a, fa);
    let best = ends.into_iter().chain([middle]).min_by(|p, q| p.1.total_cmp(&q.1));
    best.expect("invariant: there are three points").0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load() -> impl Strategy<Value = Load> {
        (1u32..1000, 1u32..500, 1u32..100, 0u32..200).prop_map(|(pages, core, link, host)| Load {
            pages: pages.into(),
            core: core.into(),
            link: link.into(),
            host: host.into(),
        })
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn no_split_beats_the_best(
            loads in proptest::collection::vec(load(), 1..3), cores in 1u32..4, depth in 1u32..100,
        ) {
            let fluid = Fluid { internal: 10.0, fetch: 40.0, cores: cores.into(),
                host_cores: 4.0, depth: depth.into(), slot_weight: 0.0 };
            let best = fluid.best(&loads);
            prop_assert!((fluid.time(&loads, &best.shares) - best.time).abs() < 1e-6 * best.time);
            for x in 0..=40 {
                for y in 0..=40 {
                    let shares = [f64::from(x) / 40.0, f64::from(y) / 40.0];
                    let other = fluid.time(&loads, &shares[..loads.len()]);
                    prop_assert!(best.time <= other * 1.0001, "{} > {} at {:?}", best.time, other, shares);
                }
            }
        }

        #[test]
        fn a_split_of_three_tasks_is_within_two_per_cent_of_the_grid(
            loads in proptest::collection::vec(load(), 3), cores in 1u32..4, depth in 1u32..100,
        ) {
            let fluid = Fluid { internal: 10.0, fetch: 40.0, cores: cores.into(),
                host_cores: 4.0, depth: depth.into(), slot_weight: 0.0 };
            let best = fluid.best(&loads);
            prop_assert!((fluid.time(&loads, &best.shares) - best.time).abs() < 1e-6 * best.time);
            for point in 0..21 * 21 * 21 {
                let shares = [point % 21, point / 21 % 21, point / 441].map(|s| f64::from(s) / 20.0);
                let other = fluid.time(&loads, &shares);
                prop_assert!(best.time <= other * 1.02, "{} > {} at {:?}", best.time, other, shares);
            }
        }

        #[test]
        fn one_task_is_the_closed_form(l in load(), cores in 1u32..4) {
            let fluid = Fluid { internal: 10.0, fetch: 0.0, cores: cores.into(), host_cores: 4.0, depth: 1e9, slot_weight: 0.0 };
            let rates = (1.0 / 10.0, f64::from(cores) / l.core, 1.0 / l.link, 4.0 / l.host.max(1e-9));
            let closed = f64::min(rates.0, rates.1 + f64::min(rates.2, rates.3));
            let best = l.pages / fluid.best(&[l]).time;
            prop_assert!((best / closed - 1.0).abs() < 1e-3, "{} and {}", best, closed);
        }
    }
}
