//! YCSB's request generators: uniform, scrambled zipfian, latest (Cooper et al., SoCC 2010).
//!
//! - [`Zipfian`] draws ranks by the rejection-free method of Gray et al. (SIGMOD 1994), as YCSB
//!   does; ranks 0 and 1 are exact, the others follow the continuous approximation.
//! - [`Requests::Scrambled`] draws a rank and hashes it onto the keys with FNV-1a over the rank's
//!   eight bytes, as YCSB does; the hot keys are scattered. YCSB's generator of that name draws
//!   from ten thousand million ranks whatever the number of records; ours draws from as many ranks
//!   as there are records, which is what explains the tables of paper 000 (with YCSB's constant,
//!   twice as many deletes would find their record).
//! - [`Requests::Latest`] makes the newest keys the hottest; it follows the key count as it grows.
//!
//! Everything is deterministic under the caller's generator.

use littoral_base::rng::{Generator, Rng};

/// YCSB's skew.
pub const THETA: f64 = 0.99;

/// The generalised harmonic number of order `theta`.
pub fn zeta(n: u64, theta: f64) -> f64 {
    (1..=n).map(|i| 1.0 / (i as f64).powf(theta)).sum()
}

/// YCSB's FNV-1a over the eight bytes of `value`, least significant first.
pub fn fnv(value: u64) -> u64 {
    let hash = value.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(1_099_511_628_211)
    });
    // YCSB takes the absolute value of a signed 64-bit number.
    (hash as i64).unsigned_abs()
}

/// The key of record `i`: hashed, so that records arrive in hash order, as bytes that sort as
/// numbers.
pub fn key(i: u64) -> [u8; 8] {
    fnv(i).to_be_bytes()
}

/// Ranks from 0 to `items - 1` with probabilities in proportion to `1 / (rank + 1)^theta`.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    zeta_items: f64,
    zeta_two: f64,
}

impl Zipfian {
    /// A generator over `items` ranks.
    pub fn new(items: u64, theta: f64) -> Zipfian {
        assert!(
            items > 0 && theta > 0.0 && theta < 1.0,
            "a zipfian has items and a skew below one"
        );
        let zeta_items = zeta(items, theta);
        Zipfian { items, theta, zeta_items, zeta_two: zeta(2, theta) }
    }

    /// Follows a growing number of items.
    pub fn grow_to(&mut self, items: u64) {
        let more = (self.items + 1..=items).map(|i| 1.0 / (i as f64).powf(self.theta));
        self.zeta_items += more.sum::<f64>();
        self.items = self.items.max(items);
    }

    /// The next rank.
    pub fn next(&self, rng: &mut Generator) -> u64 {
        let u: f64 = rng.random();
        let uz = u * self.zeta_items;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let alpha = 1.0 / (1.0 - self.theta);
        let eta = (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta))
            / (1.0 - self.zeta_two / self.zeta_items);
        let rank = self.items as f64 * (eta * u - eta + 1.0).powf(alpha);
        (rank as u64).min(self.items - 1)
    }
}

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Scrambled zipfian.
    Zipfian,
    /// Uniform.
    Uniform,
    /// The newest most often.
    Latest,
}

impl Distribution {
    /// The name in claim ids.
    pub const fn name(self) -> &'static str {
        match self {
            Distribution::Zipfian => "zipf",
            Distribution::Uniform => "uniform",
            Distribution::Latest => "latest",
        }
    }
}

impl std::str::FromStr for Distribution {
    type Err = String;
    fn from_str(name: &str) -> Result<Distribution, String> {
        let all = [Distribution::Zipfian, Distribution::Uniform, Distribution::Latest];
        let unknown = || format!("no distribution `{name}`; there are zipf, uniform and latest");
        all.into_iter().find(|d| d.name() == name).ok_or_else(unknown)
    }
}

/// A source of record numbers.
#[derive(Clone, Debug)]
pub enum Requests {
    /// Uniform over the records loaded.
    Uniform(u64),
    /// Scrambled zipfian over the records loaded.
    Scrambled(Zipfian, u64),
    /// Zipfian back from the newest record.
    Latest(Zipfian),
}

impl Requests {
    /// Requests over `records` loaded records.
    pub fn new(distribution: Distribution, records: u64) -> Requests {
        match distribution {
            Distribution::Uniform => Requests::Uniform(records),
            Distribution::Zipfian => {
                let ranks = Zipfian::new(records, THETA);
                Requests::Scrambled(ranks, records)
            }
            Distribution::Latest => Requests::Latest(Zipfian::new(records, THETA)),
        }
    }

    /// The next record number when `records` records have been inserted so far.
    pub fn next(&mut self, records: u64, rng: &mut Generator) -> u64 {
        match self {
            Requests::Uniform(n) => rng.random_range(0..*n),
            Requests::Scrambled(ranks, n) => fnv(ranks.next(rng)) % *n,
            Requests::Latest(ranks) => {
                ranks.grow_to(records);
                records - 1 - ranks.next(rng)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_base::rng::seeded;

    fn share(
        n: u64,
        draws: usize,
        hit: impl Fn(u64) -> bool,
        mut next: impl FnMut() -> u64,
    ) -> f64 {
        let hits = (0..draws).map(|_| next()).inspect(|&r| assert!(r < n)).filter(|&r| hit(r));
        hits.count() as f64 / draws as f64
    }

    #[test]
    fn zipfian_shares_follow_the_closed_form() {
        let (n, mut rng) = (1000, seeded(1));
        let z = Zipfian::new(n, THETA);
        let total = zeta(n, THETA);
        for rank in [0u64, 1] {
            let exact = 1.0 / ((rank + 1) as f64).powf(THETA) / total;
            let got = share(n, 400_000, |r| r == rank, || z.next(&mut rng));
            assert!((got / exact - 1.0).abs() < 0.03, "rank {rank}: {got} against {exact}");
        }
        for top in [10, 100, 500] {
            let exact = zeta(top, THETA) / total;
            let got = share(n, 400_000, |r| r < top, || z.next(&mut rng));
            assert!((got / exact - 1.0).abs() < 0.05, "first {top}: {got} against {exact}");
        }
    }

    #[test]
    fn scrambling_keeps_the_hottest_share_and_scatters_it() {
        let (n, mut rng) = (5000, seeded(2));
        let mut r = Requests::new(Distribution::Zipfian, n);
        let hottest = fnv(0) % n;
        let got = share(n, 400_000, |k| k == hottest, || r.next(n, &mut rng));
        let exact = 1.0 / zeta(n, THETA);
        assert!(got / exact > 0.97, "{got} against {exact}: other ranks may share the key");
        assert_ne!(fnv(0) % n, fnv(1) % n);
    }

    #[test]
    fn latest_follows_the_newest_and_uniform_is_flat() {
        let mut rng = seeded(3);
        let mut r = Requests::new(Distribution::Latest, 1000);
        let exact = 1.0 / zeta(2000, THETA);
        let got = share(2000, 200_000, |k| k == 1999, || r.next(2000, &mut rng));
        assert!((got / exact - 1.0).abs() < 0.05, "{got} against {exact}");
        let mut u = Requests::new(Distribution::Uniform, 10);
        let got = share(10, 100_000, |k| k < 3, || u.next(10, &mut rng));
        assert!((got - 0.3).abs() < 0.01, "{got}");
    }

    #[test]
    fn growing_a_zipfian_is_making_it_larger() {
        let mut grown = Zipfian::new(10, THETA);
        grown.grow_to(500);
        assert!((grown.zeta_items - zeta(500, THETA)).abs() < 1e-9);
    }
}
