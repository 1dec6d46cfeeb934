//! A what-if study as a results file holds it: schema `littoral.whatif/2`.
//!
//! One [`JobStudy`] per kind of job; in it one [`Cell`] per device: what the model predicts, what
//! the paced run measured, and the limit that binds. Keys are plain and end in their unit; figures
//! are numbers. Version 1 had one sum over all jobs and no model; it is refused by name.

use littoral_base::clock::ClockKind;
use serde::{Deserialize, Serialize};

use super::model::Bound;
use super::verdict::{Grade, Verdict};
use crate::host::Environment;

/// The schema's name and version.
pub const SCHEMA: &str = "littoral.whatif/2";

/// Jobs on a set of devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// [`SCHEMA`].
    pub schema: String,
    /// The user's file.
    pub graph: String,
    /// Vertices of the graph.
    pub vertices_count: u64,
    /// Arcs of the graph, each direction of an undirected edge counted.
    pub arcs_count: u64,
    /// Which clock stands behind the cells' measurements.
    pub clock: ClockKind,
    /// The day the study was made, as year-month-day.
    pub date: String,
    /// The revision of the program.
    pub revision: String,
    /// Where it ran.
    pub environment: Environment,
    /// The processor's last-level cache; absent where the system does not say.
    pub cache_bytes: Option<u64>,
    /// Whether edges and vertex state fit that cache, so that "DRAM" means the cache.
    pub fits_cache: bool,
    /// What it needs of DRAM, and what it would get.
    pub memory: Memory,
    /// Whether the devices are a grid of latencies and rates, or devices by name.
    pub is_grid: bool,
    /// The devices.
    pub devices: Vec<DeviceRow>,
    /// One entry per kind of job.
    pub jobs: Vec<JobStudy>,
    /// Cells whose prediction and measurement differ by more than 15 %.
    pub disagreeing_cells_count: u64,
    /// The worst cell's |predicted - measured| / measured; absent where nothing was measured.
    pub model_error_ratio: Option<f64>,
    /// The answer, a sentence per line: what a person can act on.
    pub answer: Vec<String>,
    /// Why some of it should be measured again; these vary from run to run, the answer does not.
    pub warnings: Vec<String>,
    /// What was modelled and what was measured.
    pub notes: Vec<String>,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRow {
    /// Its name, or the two figures of a grid's device.
    pub name: String,
    /// Hash of its profile.
    pub profile_hash: String,
    /// Read latency.
    pub latency_ns: f64,
    /// Most reads per second of one core.
    pub reads_per_s: f64,
    /// Most bytes per second over the link.
    pub link_bytes_per_s: f64,
    /// Addresses and lengths of reads are multiples of it.
    pub granule_bytes: u64,
    /// The longest read.
    pub read_max_bytes: u64,
    /// Price of the edges' capacity, in the profile's currency.
    pub edges_price: Option<f64>,
    /// Power while reading, in watts.
    pub power_w: Option<f64>,
    /// Geometric mean over jobs of time over DRAM: the order of the ranking.
    pub mean_ratio: f64,
}

/// A kind of job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobStudy {
    /// The kernel's name; empty in files of older versions.
    #[serde(default)]
    pub kernel: String,
    /// `search`, `searches`, `pagerank`, `components`, `paths`, `betweenness`, `cores` or
    /// `triangles`.
    pub kind: String,
    /// The kind in words.
    pub name: String,
    /// Searches that run at once; 1 for other jobs.
    pub at_once_count: u64,
    /// The job in DRAM.
    pub dram: DramTime,
    /// Reads of the job on the first device.
    pub reads_count: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Reads that wait for one another from begin to end.
    pub depth_count: u64,
    /// Processor time of the job on the first device.
    pub processor_ns: f64,
    /// One per device, in the order of devices.
    pub cells: Vec<Cell>,
    /// The verdict over a grid; absent where devices are named.
    pub verdict: Option<Verdict>,
    /// The verdict in words.
    pub sentence: String,
}

/// A job's time in DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DramTime {
    /// The form that the trial chose.
    pub form: String,
    /// Median of the time of one job.
    pub time_ns: f64,
    /// First quartile.
    pub time_ns_p25: f64,
    /// Third quartile.
    pub time_ns_p75: f64,
    /// Repetitions behind them.
    pub repetitions_count: u64,
    /// How long was measured in all.
    pub measured_ns: f64,
    /// Every form that was tried, with its median.
    pub forms: Vec<FormTime>,
}

/// One form of reading edges in DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FormTime {
    /// The form in words.
    pub form: String,
    /// Median of its trials.
    pub time_ns: f64,
}

/// A job on a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What the model says one job takes.
    pub predicted_ns: f64,
    /// That over the time in DRAM, in the turns in which the processor time was measured.
    pub predicted_ratio: f64,
    /// How far that ratio may be off by the scatter of this run, as a share of it; 0 in files of
    /// older versions.
    #[serde(default)]
    pub spread_ratio: f64,
    /// The paced runs: the median of their ratios to the near device's run of the same turn, times
    /// the near device's median; absent where the time did not suffice to run it.
    pub measured_ns: Option<f64>,
    /// The median of the paced runs' ratios to DRAM in the same turn.
    pub measured_ratio: Option<f64>,
    /// First quartile of that ratio.
    pub measured_ratio_p25: Option<f64>,
    /// Third quartile of that ratio.
    pub measured_ratio_p75: Option<f64>,
    /// The limit that binds.
    pub bound: Bound,
    /// Against DRAM.
    pub grade: Grade,
    /// Whether prediction and measurement differ by more than 15 %.
    pub disagrees: bool,
    /// Energy of the device during the job, where its profile says its power.
    pub energy_j: Option<f64>,
}

impl Cell {
    /// |predicted - measured| / measured.
    pub fn error_ratio(&self) -> Option<f64> {
        self.measured_ns.map(|m| (self.predicted_ns - m).abs() / m)
    }

    /// The device's energy during the job in words, where its profile says its power.
    pub fn energy(&self) -> Option<String> {
        let shown = |j: f64| match j {
            j if j >= 1.0 => format!("{j:.2} J"),
            j if j >= 1e-3 => format!("{:.2} mJ", j * 1e3),
            j => format!("{:.2} uJ", j * 1e6),
        };
        self.energy_j.map(shown)
    }
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
    /// Edges held in DRAM of what is granted, the hottest first.
    pub cached_bytes: Option<u64>,
}
