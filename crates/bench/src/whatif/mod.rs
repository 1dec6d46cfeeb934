//! What would this device buy us, on our data? Kinds of job on modelled devices, a verdict for
//! each, and one paragraph.
//!
//! - *Kinds of job*: one per kernel that was chosen, and for BFS also many searches at once, with
//!   the number as an axis. Each has its own verdict: a sum would hide the one that waits.
//! - *Denominator*: each job in DRAM in the form that a trial on this processor finds best.
//! - *Prediction*: from counts, processor time and the device's figures ([`model`]). The verdict
//!   rests on it, since it repeats from run to run ([`verdict`]).
//! - *Measurement*: the same code on the paced device ([`measure`]), beside each prediction; cells
//!   that differ by more than [`DISAGREES`] are marked.
//! - The model hands data out by pointer: the transfer costs the host nothing (`graph bfs --copy`
//!   shows the other bound).

use std::sync::Arc;
use std::time::Duration;

use littoral_base::clock::ClockKind;
use littoral_base::mutant;
use littoral_base::units::{Bytes, PerSecond, Picos, Span};
use littoral_device::flash::cached::Frames;
use littoral_device::profile::{Interface, Profile};
use littoral_graph::format::Direction;
use littoral_graph::format::file::GraphFile;
use littoral_graph::kernels::Kernel;
use littoral_graph::medium::{DramForm, Store, hottest_frames};

use crate::error::{Error, Kind, Result};
use crate::host;
use study::{Cell, DeviceRow, DramTime, FormTime, JobStudy, Memory, Study};

mod answer;
pub mod devices;
pub mod measure;
pub mod model;
pub mod study;
pub mod verdict;

use devices::Device;
use measure::{Job, Measured, Plan};
use model::Counts;
use verdict::{Grade, Point};

/// A cell is marked when prediction and measurement differ by more than this share.
pub const DISAGREES: f64 = 0.15;
/// Most DRAM that the states of searches at once may take; fewer run where they would take more.
const SEARCH_STATES_MAX: u64 = 1 << 30;

/// A device to compare by name.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it is called in the study.
    pub name: String,
    /// What it is modelled by.
    pub profile: Profile,
    /// How it talks to the host, where that is not the profile's interface.
    pub interface: Option<Interface>,
}

impl From<Profile> for Part {
    fn from(profile: Profile) -> Part {
        Part { name: profile.name().to_owned(), profile, interface: None }
    }
}

/// What to try.
#[derive(Clone, Debug)]
pub struct Options {
    /// Read latencies of the grid.
    pub latency: Span<Picos>,
    /// Reads per second that one core is served.
    pub iops: Span<PerSecond>,
    /// Devices instead of a grid.
    pub parts: Vec<Part>,
    /// The kernels whose jobs are studied; none: all of them.
    pub kernels: Vec<Kernel>,
    /// How many searches run at once, for each throughput job.
    pub concurrency: Vec<u32>,
    /// DRAM that the user would grant.
    pub dram: Option<Bytes>,
    /// The time to measure in all; each job gets its share.
    pub time: Duration,
    /// Whether every device is measured, however long that takes beyond the time.
    pub reaches_all: bool,
}

/// The least time measured in DRAM per job; a third of the job's share where that is less, which it
/// is not at the default time. A note of the study names the jobs that got less.
const MEASURED_MIN: Duration = Duration::from_secs(1);

/// Runs every job on DRAM and on every device; `progress` hears the share of the time gone.
///
/// # Errors
/// `Kind::Argument` for options out of range, `Kind::Environment` when the graph or a device cannot
/// be used, with the cause.
pub fn study(
    graph: &GraphFile,
    name: &str,
    options: &Options,
    mut progress: impl FnMut(f64),
) -> Result<Study> {
    let dram = Store::in_dram(graph).map_err(failed)?;
    let devices = devices::devices(options)?;
    let jobs = jobs(graph, options)?;
    let setup = Setup { graph, options, dram: &dram, devices: &devices };
    let mut studies = Vec::new();
    let mut state_bytes = 0;
    for (i, job) in jobs.iter().enumerate() {
        let mut heard = |share: f64| progress((i as f64 + share.min(1.0)) / jobs.len() as f64);
        let (study, bytes) = setup.study_job(job, jobs.len(), &mut heard)?;
        state_bytes = state_bytes.max(bytes.max(graph.resident_bytes() + job.state_bytes(graph)));
        studies.push(study);
    }
    if options.parts.is_empty() {
        settle(&mut studies, &devices);
    }
    Ok(setup.finish(name, studies, state_bytes))
}

/// Gives each job its verdict over the grid, which depends on all jobs of the study.
fn settle(jobs: &mut [JobStudy], devices: &[Device]) {
    let dram_ns: f64 = jobs.iter().map(|j| j.dram.time_ns).sum();
    let ratio = |job: &JobStudy, i: usize| match mutant!("whatif_verdict_of_sum") {
        true => jobs.iter().map(|j| j.cells[i].predicted_ns).sum::<f64>() / dram_ns,
        false => job.cells[i].predicted_ratio,
    };
    let point = |job: &JobStudy, (i, device): (usize, &Device)| Point {
        latency_ns: device.latency_ns(),
        reads_per_s: device.reads_per_s(),
        ratio: ratio(job, i),
        spread: job.cells[i].spread_ratio,
    };
    let points = |job| devices.iter().enumerate().map(|place| point(job, place)).collect();
    let points: Vec<Vec<Point>> = jobs.iter().map(points).collect();
    for (job, verdict) in jobs.iter_mut().zip(verdict::judge(&points)) {
        job.sentence = verdict.words();
        job.verdict = Some(verdict);
    }
}

pub(crate) fn failed(e: littoral_graph::Error) -> Error {
    Error::with_source(Kind::Environment, "what-if study", e)
}

/// The jobs of the kernels chosen: once at a time, and searches also at each number at once that
/// its states leave room for.
fn jobs(graph: &GraphFile, options: &Options) -> Result<Vec<Job>> {
    if options.concurrency.iter().any(|&n| !(1..=1024).contains(&n)) {
        let what = "searches at once must be from 1 to 1024";
        return Err(Error::new(Kind::Argument, what));
    }
    let of = |kernel, n: u32| Job::of(graph, kernel, n as usize);
    let fits = |kernel, n: u32| n > 1 && of(kernel, n).state_bytes(graph) <= SEARCH_STATES_MAX;
    let mut numbers = options.concurrency.clone();
    numbers.sort_unstable();
    numbers.dedup();
    let mut jobs = Vec::new();
    let mut kernels = options.kernels.clone();
    if kernels.is_empty() {
        kernels = Kernel::all();
    }
    for (i, &kernel) in kernels.iter().enumerate() {
        if kernels[..i].contains(&kernel) {
            continue;
        }
        jobs.push(of(kernel, 1));
        let runs_many = kernel.spec().jobs.at_once.is_some();
        let many = numbers.iter().filter(|&&n| runs_many && fits(kernel, n));
        jobs.extend(many.map(|&n| of(kernel, n)));
    }
    Ok(jobs)
}

/// Kind and name of a job.
fn names(job: &Job) -> (&'static str, String) {
    let jobs = job.kernel.spec().jobs;
    match (job.at_once, jobs.at_once) {
        (n @ 2.., Some((kind, words))) => (kind, format!("{n} {words}")),
        _ => (jobs.kind, jobs.words.to_owned()),
    }
}

/// What all jobs share.
struct Setup<'s> {
    graph: &'s GraphFile,
    options: &'s Options,
    dram: &'s Store,
    devices: &'s [Device],
}

impl Setup<'_> {
    /// Measures a job; gives the bytes of its vertex state, too.
    fn study_job(
        &self,
        job: &Job,
        jobs: usize,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(JobStudy, u64)> {
        let forms = DramForm::ALL.map(|form| self.dram.read_as(form).map_err(failed));
        let forms = forms.into_iter().collect::<Result<Vec<Store>>>()?;
        let frames = self.frames(job);
        let frames = frames.as_ref();
        let open = |d: &Device| Ok(devices::holding(d.store(self.dram)?, frames));
        let stores = self.devices.iter().map(open).collect::<Result<Vec<Store>>>()?;
        let near = devices::near(self.dram, self.devices, &stores, frames)?;
        let distance = |device: usize, counts: &[Counts], dram_ns: f64| {
            let at = near.of_device[device];
            let figures = self.devices[device].figures(&stores[device]);
            let ratio = counts[at].predict(&figures).time_ns / dram_ns;
            (ratio / verdict::AS_GOOD).ln().abs()
        };
        let time = self.options.time / jobs as u32;
        let plan = Plan {
            forms: &forms,
            near: &near.stores,
            near_figures: &near.figures,
            near_of: &near.of_device,
            devices: &stores,
            distance: &distance,
            time,
            reaches_all: self.options.reaches_all,
            measured_min: MEASURED_MIN.min(time / 3),
        };
        let measured = measure::measure(self.graph, job, &plan, progress)?;
        let figures = self.devices.iter().zip(&stores).map(|(d, s)| d.figures(s));
        let predictions: Vec<model::Prediction> = figures
            .zip(&near.of_device)
            .map(|(figures, &at)| measured.counts[at].predict(&figures))
            .collect();
        let state_bytes = measured.state_bytes;
        Ok((self.job_study(job, &measured, &near.of_device, &predictions), state_bytes))
    }

    /// The hottest frames of the edges that the DRAM granted holds beside the job's vertex state.
    fn frames(&self, job: &Job) -> Option<Arc<Frames>> {
        let granted = self.options.dram?.0;
        let state = self.graph.resident_bytes() + job.state_bytes(self.graph);
        Some(Arc::new(hottest_frames(self.graph, granted.saturating_sub(state))))
    }

    /// What was found of a job, its devices ranked; [`settle`] judges a grid.
    fn job_study(
        &self,
        job: &Job,
        measured: &Measured,
        near_of: &[usize],
        predictions: &[model::Prediction],
    ) -> JobStudy {
        let (kind, name) = names(job);
        let dram_ns = measured.dram.median();
        let per = job.per_sample();
        let cell = |i: usize| {
            let place = (i, near_of.get(i).copied());
            cell(measured, place, &predictions[i], per, self.devices[i].power_w())
        };
        let cells: Vec<Cell> = (0..self.devices.len()).map(cell).collect();
        let counts = near_of.first().map(|&at| &measured.counts[at]);
        let count = |f: fn(&Counts) -> u64| counts.map_or(0, |c| (f(c) as f64 / per) as u64);
        JobStudy {
            kernel: job.kernel.name().to_owned(),
            kind: kind.to_owned(),
            name,
            at_once_count: job.at_once as u64,
            dram: dram_time(job, measured, dram_ns),
            reads_count: count(Counts::reads_count),
            read_bytes: count(Counts::read_bytes),
            depth_count: count(Counts::depth_count),
            processor_ns: predictions.first().map_or(0.0, |p| p.bounds.processor_ns / per),
            sentence: answer::ranking(self.devices, &cells),
            cells,
            verdict: None,
        }
    }

    fn finish(&self, name: &str, jobs: Vec<JobStudy>, state_bytes: u64) -> Study {
        let memory = self.memory(state_bytes);
        let cache_bytes = host::last_cache_bytes();
        let whole = memory.state_bytes + memory.edges_bytes;
        let errors = jobs.iter().flat_map(|j| j.cells.iter().filter_map(Cell::error_ratio));
        let error = errors.fold(None, |worst: Option<f64>, e| Some(worst.map_or(e, |w| w.max(e))));
        let disagreeing = jobs.iter().flat_map(|j| &j.cells).filter(|c| c.disagrees).count();
        let notes = answer::notes(self.options, &jobs);
        let mut study = Study {
            schema: study::SCHEMA.to_owned(),
            graph: name.to_owned(),
            vertices_count: u64::from(self.graph.vertices()),
            arcs_count: self.graph.header().arcs,
            clock: ClockKind::Paced,
            date: host::today(),
            revision: host::revision().to_owned(),
            environment: host::environment(),
            cache_bytes,
            fits_cache: cache_bytes.is_some_and(|cache| whole <= cache),
            memory,
            is_grid: self.options.parts.is_empty(),
            devices: self.rows(&jobs, memory.edges_bytes),
            jobs,
            disagreeing_cells_count: disagreeing as u64,
            model_error_ratio: error,
            answer: Vec::new(),
            warnings: Vec::new(),
            notes,
        };
        study.answer = answer::answer(&study);
        study.warnings = answer::warnings(&study);
        study
    }

    fn rows(&self, jobs: &[JobStudy], edges_bytes: u64) -> Vec<DeviceRow> {
        let row = |(i, device): (usize, &Device)| {
            let logs: Vec<f64> = jobs.iter().map(|j| j.cells[i].predicted_ratio.ln()).collect();
            device.row(edges_bytes, (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp())
        };
        self.devices.iter().enumerate().map(row).collect()
    }

    fn memory(&self, state_bytes: u64) -> Memory {
        let direction = |d: Direction| {
            let lists = self.graph.lists(d);
            lists.pages().bytes + lists.heads().bytes
        };
        let directions = self.graph.header().directions();
        Memory {
            state_bytes,
            edges_bytes: directions.iter().map(|&d| direction(d)).sum(),
            granted_bytes: self.options.dram.map(|g| g.0),
            // The job with most vertex state leaves least to edges.
            cached_bytes: self.options.dram.map(|granted| granted.0.saturating_sub(state_bytes)),
        }
    }
}

/// The cell of device `i` from a job's times; `near` is the place of its near device, and `per`
/// jobs are a sample.
fn cell(
    measured: &Measured,
    (i, near): (usize, Option<usize>),
    prediction: &model::Prediction,
    per: f64,
    watts: Option<f64>,
) -> Cell {
    let ratios = &measured.ratios[i];
    let known = |value: f64| value.is_finite().then_some(value);
    let measured_ns = known(measured.device_ns(i, near));
    let (dram_ns, spread) = measured.dram_ns(near);
    let predicted_ns = match measured_ns {
        Some(measured) if mutant!("whatif_prediction_measured") => measured,
        _ => prediction.time_ns,
    };
    let predicted_ratio = predicted_ns / dram_ns;
    let off = |m: f64| (predicted_ns - m).abs() / m > DISAGREES;
    Cell {
        predicted_ns: predicted_ns / per,
        predicted_ratio,
        spread_ratio: spread,
        measured_ns: measured_ns.map(|m| m / per),
        measured_ratio: known(ratios.median()),
        measured_ratio_p25: known(ratios.quantile(0.25)),
        measured_ratio_p75: known(ratios.quantile(0.75)),
        bound: prediction.bounds.binding(),
        grade: Grade::of(predicted_ratio, spread),
        disagrees: measured_ns.is_some_and(off),
        energy_j: watts.map(|w| w * predicted_ns / per / 1e9),
    }
}

fn dram_time(job: &Job, measured: &Measured, dram_ns: f64) -> DramTime {
    let per = job.per_sample();
    let form = |(way, ns): &(measure::DramWay, f64)| FormTime {
        form: way.describe(job),
        time_ns: ns / per,
    };
    DramTime {
        form: measured.way.map_or(String::new(), |way| way.describe(job)),
        time_ns: dram_ns / per,
        time_ns_p25: measured.dram.quantile(0.25) / per,
        time_ns_p75: measured.dram.quantile(0.75) / per,
        repetitions_count: measured.dram.count() as u64,
        measured_ns: measured.dram.sum(),
        forms: measured.ways.iter().map(form).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Samples;

    /// A ring of `n` vertices with chords.
    pub(super) fn ring(n: u32) -> GraphFile {
        use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
        let edges = (0..n).flat_map(|v| [[v, (v + 1) % n], [v, (v * 7 + 3) % n]]);
        let edges = EdgeList::new(n, false, edges.collect());
        let image = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none()).unwrap().0;
        GraphFile::from_image(image).unwrap()
    }

    fn one_device(latency: Picos, dram: Option<Bytes>) -> Study {
        of_kernels(Vec::new(), latency, dram)
    }

    fn of_kernels(kernels: Vec<Kernel>, latency: Picos, dram: Option<Bytes>) -> Study {
        let options = Options {
            latency: Span { from: latency, to: latency },
            iops: Span { from: PerSecond(1e6), to: PerSecond(1e6) },
            parts: Vec::new(),
            kernels,
            concurrency: Vec::new(),
            dram,
            time: Duration::from_millis(10),
            reaches_all: false,
        };
        study(&ring(2000), "ring", &options, |_| ()).unwrap()
    }

    #[test]
    fn every_kernel_is_a_job_with_reads_of_its_own_unless_others_are_chosen() {
        let kernels = |study: &Study| -> Vec<String> {
            study.jobs.iter().map(|job| job.kernel.clone()).collect()
        };
        let all: Vec<&str> = Kernel::all().iter().map(|k| k.name()).collect();
        let study = one_device(Picos::from_micros(200), None);
        assert_eq!(kernels(&study), all);
        for job in &study.jobs {
            assert!(job.reads_count > 0 && job.verdict.is_some(), "{}", job.name);
            // At 200 us and a million reads per second no job is bound by the processor.
            assert_ne!(job.cells[0].bound, model::Bound::Processor, "{}", job.name);
        }
        let short = |note: &String| note.starts_with("measured in DRAM for less than 1 s");
        assert!(study.notes.iter().any(short), "10 ms in all: {:?}", study.notes);
        let chosen = vec![Kernel::Tc, Kernel::Bfs, Kernel::Tc];
        let study = of_kernels(chosen, Picos::from_micros(200), None);
        assert_eq!(kernels(&study), ["tc", "bfs"]);
    }

    #[test]
    fn each_job_is_judged_by_its_own_ratio() {
        let study = one_device(Picos::from_micros(200), None);
        for job in &study.jobs {
            let best = job.verdict.as_ref().map(|v| v.best.clone());
            let own = verdict::rounded(job.cells[0].predicted_ratio);
            assert_eq!(best, Some(own), "{}", job.name);
        }
    }

    #[test]
    fn edges_that_dram_holds_wait_for_no_device() {
        let study = one_device(Picos::from_micros(2000), Some(Bytes(1 << 30)));
        for job in &study.jobs {
            assert_eq!(job.cells[0].bound, model::Bound::Processor, "{}", job.name);
        }
    }

    #[test]
    fn a_prediction_does_not_lean_on_the_measurement_beside_it() {
        let measured = Measured {
            dram: Samples::of(vec![100.0; 3]),
            near: vec![Samples::of(vec![125.0; 3])],
            near_ratios: vec![Samples::of(vec![1.25; 3])],
            devices: vec![Samples::of(vec![200.0; 3])],
            ratios: vec![Samples::of(vec![2.0; 3])],
            over_near: vec![Samples::of(vec![1.6; 3])],
            ..Measured::default()
        };
        let bounds = model::Bounds { processor_ns: 120.0, ..model::Bounds::default() };
        let prediction = model::Prediction { time_ns: 120.0, bounds };
        let cell = cell(&measured, (0, Some(0)), &prediction, 2.0, None);
        assert_eq!((cell.predicted_ns, cell.measured_ns), (60.0, Some(100.0)));
        assert!(cell.disagrees && (cell.predicted_ratio - 1.2).abs() < 1e-9);
    }
}
