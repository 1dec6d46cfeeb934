//! Paper 001: computing near storage, its figures 5 to 7, and late binding beside the best split.
//!
//! - [`data`]: the pages that are scanned and what each of them costs each query;
//! - [`answers`]: equal answers on every road, counts of twin and interpreter;
//! - [`figures`]: the paper's figures on its board (profile `summarizer-board`);
//! - [`cells`]: every policy in 960 cells, beside the best static split and the fluid bound;
//! - [`host`]: the host's vectorised form beside DuckDB, by processor time;
//! - [`wall`]: scans through a served device, in paced time;
//! - [`others`]: garbage collection, changing costs, other tenants, replay.
//!
//! All other times are virtual. One cost per instruction, one pair of bandwidths and one queue
//! depth hold for all queries; they are printed with each figure.

pub mod answers;
pub mod cells;
pub mod data;
pub mod figures;
pub mod host;
pub mod others;
mod steps;
pub mod wall;

pub use steps::SYSTEM;

use littoral_bench::claims::Figure;
use littoral_bench::repro::Unanswered;
use littoral_push::cost::{Means, TaskCosts, synthetic};
use littoral_push::device::{Machine, Workload, profiled};

/// Claims with their figures, or the reason there is none.
pub type Figures = Result<Vec<(String, Figure)>, Unanswered>;

/// The board of the paper and its queue depth.
fn board() -> Result<(Machine, u32), String> {
    profiled("summarizer-board").map_err(|e| e.to_string())
}

/// Synthetic pages of a task, for what needs no data: the cells, changing costs.
fn costs(means: &Means, pages: usize) -> TaskCosts {
    synthetic(means, 8192, pages, 2017)
}

/// One task over a scan of the board.
fn scan(task: &TaskCosts, depth: u32) -> Workload {
    Workload::interleaved(vec![task.clone()], depth)
}

/// The settings that hold for every figure, in words.
fn settings(machine: &Machine, depth: u32) -> String {
    format!(
        "CPI {}, {} core of {} MHz, internal {} and link {} MB/s, depth {depth}",
        machine.cpi_milli as f64 / 1000.0,
        machine.cores,
        machine.core_mhz,
        machine.bus_bytes_per_s / 1_000_000,
        machine.link_bytes_per_s / 1_000_000
    )
}
