//! A what-if study as a results file holds it: schema `littoral.whatif/1`.
//!
//! One point a pair of latency and read rate: the time of the user's own job on a device of those
//! two, over its time with everything in DRAM on the same host.

use littoral_base::clock::ClockKind;
use serde::{Deserialize, Serialize};

/// The schema's name and version.
pub const SCHEMA: &str = "littoral.whatif/1";

/// A job on a grid of device parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// [`SCHEMA`].
    pub schema: String,
    /// The user's file.
    pub graph: String,
    /// What was run on it.
    pub kernel: String,
    /// Vertices of the graph.
    pub vertices_count: u64,
    /// Arcs of the graph, each direction of an undirected edge counted.
    pub arcs_count: u64,
    /// Which clock stands behind the points.
    pub clock: ClockKind,
    /// The job's time with everything in DRAM.
    pub dram_time_ns: f64,
    /// What it needs of DRAM, and what it would get.
    #[serde(default)]
    pub memory: Option<Memory>,
    /// The answer.
    pub sentence: String,
    /// What was modelled and what was measured.
    pub notes: Vec<String>,
    /// The grid.
    pub points: Vec<Point>,
}

/// One device of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The device's read latency.
    pub latency_ns: f64,
    /// Its cap on reads a second.
    pub reads_per_s: f64,
    /// The job's time on it.
    pub time_ns: f64,
    /// That time over the time in DRAM.
    pub time_over_dram_ratio: f64,
    /// The same for the searches alone.
    pub searches_over_dram_ratio: f64,
    /// The same for PageRank alone.
    pub pagerank_over_dram_ratio: f64,
    /// The same for components alone.
    pub components_over_dram_ratio: f64,
}

/// DRAM of a job whose edges are on the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Vertex state and list addresses: must fit.
    pub state_bytes: u64,
    /// Edges: on the device.
    pub edges_bytes: u64,
    /// What the user would grant.
    pub granted_bytes: Option<u64>,
    /// How much of the edges the rest of it would hold.
    pub edges_that_fit_share: Option<f64>,
}
