//! Floor 4 of littoral: what any user measures. Workloads, what-if studies, claims and reports.
//!
//! - [`claims`]: the schema `littoral.repro/1` and the targets each claim is judged by; [`chart`]:
//!   the series behind a claim;
//! - [`repro`]: runs a system's steps and judges its claims (the papers' systems are in `papers`);
//! - [`whatif`]: the user's graph on a grid of modelled devices;
//! - [`report`]: turns results into one self-contained HTML page;
//! - [`kv`]: a store at a steady rate; [`ycsb`]: the requests; [`ring`]: the coroutine ring;
//! - [`host`], [`peers`]: where a number was measured and what stood beside it;
//! - [`files`]: results are written whole or not at all.
//!
//! Invariants
//! - A figure is measured by the function that returns it or it is absent; nothing is extrapolated
//!   and no expected value is ever printed in place of a measured one. Checked by
//!   `every_claim_gets_a_verdict_and_nothing_is_made_up`,
//!   `a_form_that_reads_wrong_bytes_has_no_figure`.
//! - Every figure carries its clock and unit. Checked by `a_targets_file_is_read_whole_or_refused`.

pub mod chart;
pub mod claims;
pub mod device;
pub mod error;
pub mod files;
pub mod host;
pub mod kv;
pub mod peers;
pub mod report;
pub mod repro;
pub mod ring;
pub mod whatif;
pub mod ycsb;

pub use error::{Error, Kind, Result};
