//! BFS, PageRank and components: vertex state in DRAM, edges on any medium (paper 003).
//!
//! - [`run`]: threads, trials, times, verification; the way in.
//! - One algorithm each (`bfs`, `pagerank`, `components`), generic over how edges are read
//!   (`edges`): from memory as slices (`resident`) or through a ring over a device (`ringed`).
//! - `team` keeps threads in step; `bits` and `raw` are what hot loops are made of.
//!
//! Deviations from the paper: its BFS is top-down only; ours turns round (Beamer). Its SSSP and BC
//! are not here. Switch rules and what was measured: `docs/design/graph-kernels.md`.

mod bfs;
mod bits;
mod compare;
mod components;
pub(crate) mod edges;
mod pagerank;
mod phase;
pub(crate) mod raw;
pub(crate) mod resident;
pub(crate) mod ringed;
mod run;
mod team;

pub use bfs::{BfsSummary, UNREACHED};
pub use compare::{Ask, Compared, Run, compare, run_in_turn};
pub use components::ComponentsSummary;
pub use edges::Traffic;
pub use pagerank::{DAMPING, Dangling, PageRankOptions, PageRankSummary};
pub use phase::{Chain, Phase};
pub use resident::Hint;
pub use run::{Answer, Kernel, Options, RunReport, Summary, Trial, check, pick_sources, run};
