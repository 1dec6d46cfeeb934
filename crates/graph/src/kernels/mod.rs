//! Graph kernels: vertex state in DRAM, edges on any medium (paper 003).
//!
//! - [`run`]: threads, trials, times, verification; the way in.
//! - `algorithm`: what a kernel is; `registry`: the kernels there are, one line each.
//! - One module each (`bfs`, `pagerank`, `components`, `sssp`, `bc`, `kcore`, `tc`) with state,
//!   loops, options, verifier and table, generic over how edges are read (`crate::edges`): from
//!   memory as slices or through a ring over a device.
//! - `team` keeps threads in step; `bits` are sets of vertices.
//!
//! Deviations from the paper: its BFS is top-down only; ours changes direction (Beamer). Switch
//! rules and what was measured: `docs/design/graph-kernels.md`.

mod algorithm;
mod bc;
mod bfs;
mod bits;
mod compare;
mod components;
mod hubs;
mod kcore;
mod pagerank;
mod registry;
mod run;
mod sssp;
mod tc;
mod team;
mod weights;

pub use crate::edges::Traffic;
pub use crate::edges::hint::Hint;
pub use crate::edges::phase::{Chain, Phase};
pub use algorithm::{Figure, FigureValue, Given, Jobs, OptionSpec, Spec};
pub use bc::{BcSummary, SAMPLED_SOURCES, Sources};
pub use bfs::{BfsSummary, UNREACHED};
pub use compare::{Ask, Compared, Run, compare, run_in_turn};
pub use components::ComponentsSummary;
pub use kcore::KcoreSummary;
pub use pagerank::{DAMPING, Dangling, PageRankOptions, PageRankSummary};
pub use registry::{Answer, Kernel, Summary, check};
pub use run::{Options, RunReport, THREADS_MAX, Trial, pick_sources, run};
pub use sssp::{SsspSummary, UNREACHED_DISTANCE};
pub use tc::TcSummary;
pub use weights::{Weights, seeded_weight};
