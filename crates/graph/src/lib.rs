//! Graphs whose edges live on flash: file format, import, generators, kernels.
//!
//! - [`format`](mod@format): the graph file and [`format::file::GraphFile`];
//! - [`builder`]: from edges to a file; [`pack`]: which page a list goes to; [`generate`]:
//!   synthetic graphs;
//! - [`import`]: other people's edge lists; [`export`]: files of their formats;
//! - [`check`]: every invariant walked; [`info`]: what a file holds;
//! - [`names`]: what vertices are called;
//! - [`kernels`]: BFS, PageRank, components, shortest paths, betweenness, core numbers,
//!   triangles on any [`medium`], each with an independent check;
//! - [`answer`]: what kernels found, as tables; [`lists`], [`path`]: questions about few vertices.
//!
//! Paper 003 (microsecond flash): vertex state and list addresses stay in DRAM, lists are read from
//! the medium; a list that fits a page never crosses one.

pub mod answer;
pub mod builder;
pub mod check;
pub mod columnar;
pub(crate) mod edges;
pub mod error;
pub mod export;
pub(crate) mod feature;
pub mod format;
pub mod generate;
pub mod import;
pub mod info;
pub mod kernels;
pub mod lists;
pub mod medium;
pub mod names;
pub mod pack;
pub mod path;
pub(crate) mod table;
pub(crate) mod verify;

pub use error::{Error, Kind, Result};
