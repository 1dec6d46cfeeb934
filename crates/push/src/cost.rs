//! What each page of a task costs: the one table between page functions and the simulated device.
//!
//! Page functions are pure: a page's cost depends on the page and the parameters alone, not on the
//! side that computes it. The crate's functions fill a [`TaskCosts`] from real pages; [`synthetic`]
//! fills one from a mean number of instructions per byte, for studies of the device without data.
//!
//! Invariants
//! - Equal arguments give equal tables. Checked by `synthetic_costs_repeat_and_keep_their_mean`.
//!
//! Callers: the simulated device, the oracle, the reproduction of paper 001.

use littoral_base::rng::{self, Rng};
use littoral_base::units::Picos;

/// The cost of one page of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCost {
    /// LA64 instructions of the page function on this page, merge included.
    pub instructions: u64,
    /// LA64 instructions of the filter alone, for a hand-coded split.
    pub filter_instructions: u64,
    /// Bytes of the records that pass the filter, as the device returns them.
    pub filtered_bytes: u32,
    /// Time of one host core on the raw page.
    pub host_raw: Picos,
    /// Time of one host core on the filtered records.
    pub host_filtered: Picos,
}

/// The costs of a task's pages, in scan order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskCosts {
    /// The task's name, such as `q6`.
    pub name: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Bytes of the partial result that FINAL returns.
    pub result_bytes: u32,
    /// One cost per page.
    pub pages: Vec<PageCost>,
}

/// A task described by means, for [`synthetic`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// The task's name.
    pub name: &'static str,
    /// LA64 instructions per byte of the page function.
    pub instructions_per_byte: f64,
    /// Share of those instructions that the filter takes.
    pub filter_share: f64,
    /// Share of a page's bytes that passes the filter.
    pub selectivity: f64,
    /// Bytes of the partial result.
    pub result_bytes: u32,
}

/// Instructions per second of one host core of the paper's machine (3.2 GHz), at two per cycle.
pub const HOST_INSTRUCTIONS_PER_S: u64 = 6_400_000_000;

/// Text pages: the row is parsed before anything can be tested, so the filter takes nearly all.
pub const TEXT: [Means; 4] = [
    means("q14", 4.40, 0.97, 0.013, 32),
    means("q6", 4.45, 0.98, 0.02, 32),
    means("q1", 6.38, 0.70, 0.98, 512),
    means("join", 9.99, 0.90, 0.05, 4096),
];

/// Column pages: the filter reads the columns that it tests and no other.
pub const PAX: [Means; 3] = [
    means("q6-pax", 0.31, 0.90, 0.02, 32),
    means("q14-pax", 0.36, 0.85, 0.013, 32),
    means("q1-pax", 1.64, 0.15, 0.98, 512),
];

const fn means(
    name: &'static str,
    instructions_per_byte: f64,
    filter_share: f64,
    selectivity: f64,
    result_bytes: u32,
) -> Means {
    Means { name, instructions_per_byte, filter_share, selectivity, result_bytes }
}

/// Costs of `pages` pages around `means`; each page's instructions lie within 10 % of the mean.
pub fn synthetic(means: &Means, page_bytes: u32, pages: usize, seed: u64) -> TaskCosts {
    assert!(means.instructions_per_byte >= 0.0, "a page cannot cost less than nothing");
    let mut random = rng::stream(seed, means.name);
    let page = |_| {
        let factor = random.random_range(0.9..1.1);
        page_cost(means, page_bytes, factor)
    };
    TaskCosts {
        name: means.name.to_owned(),
        page_bytes,
        result_bytes: means.result_bytes,
        pages: (0..pages).map(page).collect(),
    }
}

fn page_cost(means: &Means, page_bytes: u32, factor: f64) -> PageCost {
    let instructions = (means.instructions_per_byte * f64::from(page_bytes) * factor) as u64;
    let filter_instructions = (instructions as f64 * means.filter_share) as u64;
    let rest = instructions - filter_instructions;
    PageCost {
        instructions,
        filter_instructions,
        filtered_bytes: (means.selectivity * f64::from(page_bytes)) as u32,
        host_raw: host_time(instructions),
        host_filtered: host_time(rest + (rest.max(instructions / 4)) / 8),
    }
}

/// Time of one host core for as many instructions of a page function.
pub fn host_time(instructions: u64) -> Picos {
    let picos = u128::from(instructions) * 1_000_000_000_000 / u128::from(HOST_INSTRUCTIONS_PER_S);
    Picos(u64::try_from(picos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_costs_repeat_and_keep_their_mean() {
        for means in TEXT.iter().chain(&PAX) {
            let costs = synthetic(means, 8192, 2000, 7);
            assert_eq!(costs, synthetic(means, 8192, 2000, 7));
            let total: u64 = costs.pages.iter().map(|p| p.instructions).sum();
            let mean = total as f64 / 2000.0 / 8192.0;
            assert!((mean / means.instructions_per_byte - 1.0).abs() < 0.01, "{mean}");
            assert!(costs.pages.iter().all(|p| p.filter_instructions <= p.instructions));
        }
    }
}
