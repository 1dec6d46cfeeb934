//! Paper 001: computing near storage, its figures 5 to 7, and late binding beside the best split.
//!
//! - [`figures`]: the paper's figures on its board (profile `summarizer-board`);
//! - [`cells`]: every policy in 960 cells, beside the best static split and the fluid bound;
//! - [`host`]: the host's vectorised form beside DuckDB, by processor time;
//! - [`wall`]: scans through a served device, in paced time;
//! - [`others`]: garbage collection, changing costs, other tenants, replay.
//!
//! All other times are virtual. One cost per instruction, one pair of bandwidths and one queue
//! depth hold for all queries; they are printed with each figure.

pub mod cells;
pub mod figures;
pub mod host;
pub mod others;
mod steps;
pub mod wall;

pub use steps::SYSTEM;

use littoral_bench::claims::Figure;
use littoral_push::cost::{Means, TEXT, TaskCosts, synthetic};
use littoral_push::device::{Machine, Workload, profiled};

/// Claims with their figures, or the reason there is none.
pub type Figures = Result<Vec<(String, Figure)>, String>;

/// Pages of a scan: the text of TPC-H's lineitem at scale factor 0.1 in pages of 8 KiB.
const PAGES: usize = 9_000;

/// The board of the paper and its queue depth.
fn board() -> Result<(Machine, u32), String> {
    profiled("summarizer-board").map_err(|e| e.to_string())
}

/// The paper's four tasks by the names of its claims, on text pages.
fn tasks() -> [(&'static str, Means); 4] {
    [("q14", TEXT[0]), ("q6", TEXT[1]), ("q1", TEXT[2]), ("sj", TEXT[3])]
}

/// A task's pages.
fn costs(means: &Means, pages: usize) -> TaskCosts {
    synthetic(means, 8192, pages, 2017)
}

/// One task over a scan of the board.
fn scan(means: &Means, depth: u32) -> Workload {
    Workload::interleaved(vec![costs(means, PAGES)], depth)
}

/// The settings that hold for every figure, in words.
fn settings(machine: &Machine, depth: u32) -> String {
    format!(
        "CPI {}, {} core of {} MHz, internal {} and link {} MB/s, depth {depth}; costs per byte of \
         text pages as functions on such pages showed, within 10 %",
        machine.cpi_milli as f64 / 1000.0,
        machine.cores,
        machine.core_mhz,
        machine.bus_bytes_per_s / 1_000_000,
        machine.link_bytes_per_s / 1_000_000
    )
}
