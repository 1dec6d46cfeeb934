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
mod pagerank;
mod run;
mod team;

pub use crate::edges::Traffic;
pub use crate::edges::hint::Hint;
pub use crate::edges::phase::{Chain, Phase};
pub use bfs::{BfsSummary, UNREACHED};
pub use compare::{Ask, Compared, Run, compare, run_in_turn};
pub use components::ComponentsSummary;
pub use pagerank::{DAMPING, Dangling, PageRankOptions, PageRankSummary};
pub use run::{Answer, Kernel, Options, RunReport, Summary, Trial, check, pick_sources, run};
