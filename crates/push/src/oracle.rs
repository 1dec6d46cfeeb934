//! The best static split of a workload, found exactly over a grid of shares, and the cells in which
//! policies are compared with it.
//!
//! A grid point is run unless its fluid time already exceeds the best run so far: the points are
//! looked at in order of that time, so that a few runs settle a grid of 41 points per task.
//!
//! Invariants
//! - The best of the grid is found. Checked by `pruning_finds_what_the_whole_grid_has`.

use littoral_base::units::Picos;

use crate::cost::{self, Means, TaskCosts};
use crate::device::sim::run;
use crate::device::{Machine, Workload};
use crate::fluid::{Fluid, Load};
use crate::policy::{Policy, STEPS};

/// The best static split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Best {
    /// Its time.
    pub time: Picos,
    /// Its shares in fortieths, one per task.
    pub shares: Vec<u32>,
    /// Runs that settled it.
    pub runs: u32,
}

/// What a point's fluid time may exceed its true least time by: means stand for pages that differ
/// by a tenth.
const SLACK: f64 = 0.99;

/// The best static split of one to three tasks over a grid of 41 points per task.
///
/// # Panics
/// When the workload has another number of tasks.
pub fn best_static(machine: &Machine, workload: &Workload) -> Best {
    let tasks = workload.tasks.len();
    assert!((1..=3).contains(&tasks), "a grid of {tasks} tasks");
    let depth = workload.streams.iter().map(|s| s.depth).sum();
    let (fluid, means) = (served(machine, depth), loads(machine, workload));
    let side = STEPS + 1;
    let point = |n: u32| {
        let shares = [n % side, n / side % side, n / side / side];
        let x = shares.map(|s| f64::from(s) / f64::from(STEPS));
        (fluid.time(&means, &x[..tasks]) * SLACK, shares)
    };
    let mut points: Vec<_> = (0..side.pow(tasks as u32)).map(point).collect();
    points.sort_by(|p, q| p.0.total_cmp(&q.0));
    let mut best = Best { time: Picos::MAX, shares: Vec::new(), runs: 0 };
    for (least, shares) in points {
        if least >= best.time.0 as f64 {
            break;
        }
        let shares = shares[..tasks].to_vec();
        let time = run(machine, workload, &Policy::Static(shares.clone())).total;
        best.runs += 1;
        if time < best.time {
            (best.time, best.shares) = (time, shares);
        }
    }
    best
}

/// What a machine serves with `depth` slots.
pub fn served(machine: &Machine, depth: u32) -> Fluid {
    let nand = &machine.nand;
    let chips = f64::from(nand.channels * nand.chips_per_channel);
    let moved =
        littoral_device::nand::duration(u64::from(nand.page_bytes), nand.channel_bytes_per_s);
    let chip = (nand.read.0 + moved.0) as f64 / chips;
    let channel = moved.0 as f64 / f64::from(nand.channels);
    Fluid {
        internal: (machine.bus_time().0 as f64).max(channel).max(chip),
        fetch: machine.fetch_time().0 as f64,
        cores: f64::from(machine.cores),
        host_cores: f64::from(machine.host_cores),
        depth: f64::from(depth.min(machine.dram_pages)),
        slot_weight: 0.0,
    }
}

/// The loads of a workload on a machine, by the means of its pages.
pub fn loads(machine: &Machine, workload: &Workload) -> Vec<Load> {
    let link = machine.link_time(u64::from(machine.nand.page_bytes)).0 as f64;
    let load = |task: &crate::cost::TaskCosts| {
        let pages = task.pages.len() as f64;
        let core: f64 = task.pages.iter().map(|p| machine.core_time(p.instructions).0 as f64).sum();
        let host: f64 = task.pages.iter().map(|p| p.host_raw.0 as f64).sum();
        Load { pages, core: core / pages, link, host: host / pages }
    };
    workload.tasks.iter().map(load).collect()
}

/// The fluid bound of a workload in picoseconds.
pub fn bound(machine: &Machine, workload: &Workload) -> f64 {
    let depth = workload.streams.iter().map(|s| s.depth).sum();
    served(machine, depth).best(&loads(machine, workload)).time
}

/// One cell: a machine and a workload.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Internal over link bandwidth.
    pub ratio: u32,
    /// Core speed over the slowest.
    pub speed: u32,
    /// Host slots.
    pub depth: u32,
    /// Names of the tasks.
    pub tasks: Vec<&'static str>,
    means: Vec<Means>,
}

/// Times of a cell in picoseconds.
#[derive(Clone, Debug)]
pub struct Times {
    /// Host-only.
    pub host: f64,
    /// The best static split.
    pub best: Best,
    /// The paper's dynamic mode with the best queue of [`QUEUES`].
    pub dynamic: f64,
    /// Every page filtered on the device.
    pub filtered: f64,
    /// Late binding.
    pub ours: f64,
    /// The fluid bound.
    pub bound: f64,
}

/// Task queues that the dynamic mode may choose from in each cell.
pub const QUEUES: [u32; 4] = [1, 2, 4, 8];
/// Internal over link bandwidth.
pub const RATIOS: [u32; 4] = [1, 2, 4, 8];
/// Core speeds over the slowest.
pub const SPEEDS: [u32; 5] = [1, 2, 4, 8, 16];
/// Host slots.
pub const DEPTHS: [u32; 4] = [8, 32, 64, 256];

/// Synthetic tasks.
fn all_means() -> impl Iterator<Item = Means> {
    cost::TEXT.into_iter().chain(cost::PAX)
}

fn named(name: &str) -> Means {
    all_means().find(|m| m.name == name).expect("invariant: a known task")
}

/// The workloads: seven single tasks and five pairs.
pub fn workloads() -> Vec<Vec<Means>> {
    let mut out: Vec<Vec<Means>> = all_means().map(|m| vec![m]).collect();
    let pairs =
        [("q6", "q1"), ("q14", "join"), ("q6-pax", "q1-pax"), ("q6-pax", "join"), ("q1-pax", "q6")];
    out.extend(pairs.map(|(a, b)| vec![named(a), named(b)]));
    out
}

/// Every cell.
pub fn cells() -> Vec<Cell> {
    grid(&workloads(), (&RATIOS, &SPEEDS, &DEPTHS))
}

/// Cells of three tasks.
pub fn triples() -> Vec<Cell> {
    let triples = [["q6", "q1", "join"], ["q6-pax", "q1-pax", "join"], ["q14", "q1-pax", "q6-pax"]];
    let workloads = triples.map(|t| t.map(named).to_vec());
    grid(&workloads, (&[2, 4], &[1, 4, 16], &[64]))
}

/// Cells of each workload on each machine.
fn grid(workloads: &[Vec<Means>], machines: (&[u32], &[u32], &[u32])) -> Vec<Cell> {
    let (ratios, speeds, depths) = machines;
    let mut out = Vec::new();
    for means in workloads {
        for &ratio in ratios {
            for &speed in speeds {
                for &depth in depths {
                    let tasks = means.iter().map(|m| m.name).collect();
                    out.push(Cell { ratio, speed, depth, tasks, means: means.clone() });
                }
            }
        }
    }
    out
}

impl Cell {
    /// The cell's machine: the link and the cores of `board` changed.
    pub fn machine(&self, board: &Machine) -> Machine {
        let mut machine = *board;
        machine.link_bytes_per_s = board.bus_bytes_per_s / u64::from(self.ratio);
        set_speed(&mut machine, board, self.speed);
        machine
    }

    /// The cell's workload of `pages` pages in all.
    pub fn workload(&self, page_bytes: u32, pages: usize) -> Workload {
        let each = pages / self.means.len();
        let costs = |m: &Means| cost::synthetic(m, page_bytes, each, 17);
        let tasks: Vec<TaskCosts> = self.means.iter().map(costs).collect();
        Workload::interleaved(tasks, self.depth)
    }

    /// Runs every policy in the cell.
    pub fn times(&self, board: &Machine, pages: usize) -> Times {
        let machine = self.machine(board);
        let workload = self.workload(machine.nand.page_bytes, pages);
        let time = |policy: &Policy| run(&machine, &workload, policy).total.0 as f64;
        let dynamic = QUEUES.map(|queue| time(&Policy::Dynamic { queue }));
        Times {
            host: time(&Policy::Host),
            best: best_static(&machine, &workload),
            dynamic: dynamic.into_iter().fold(f64::INFINITY, f64::min),
            filtered: time(&Policy::HandCoded),
            ours: time(&Policy::Late),
            bound: bound(&machine, &workload),
        }
    }
}

/// Sets a machine's cores as the paper did: the clock up to eightfold, then twice the cores.
pub fn set_speed(machine: &mut Machine, board: &Machine, speed: u32) {
    let cores = if speed > 8 { speed / 8 } else { 1 };
    machine.cores = board.cores * cores;
    machine.core_mhz = board.core_mhz * u64::from(speed / cores);
}
