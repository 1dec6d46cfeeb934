//! The measurements of a study: one job on DRAM, on near devices, and on every device,
//! by turns.
//!
//! - *Clock.* Processor time of the measuring thread. It never sleeps, so this is elapsed time less
//!   what the system took away, and a paced device's time stands still meanwhile
//!   ([`littoral_device::flash::pacer`]). A busy neighbour costs cache, not the thread's clock.
//! - *Trial of forms.* The job in DRAM runs in every form ([`DramForm::ALL`]) by turns; the form
//!   with the least median is the denominator.
//! - *Rounds.* A turn runs DRAM and a few devices once each. First every few devices get
//!   [`ROUNDS_MIN`] turns, those nearest to the limit first; then all of them get more, until the
//!   time is over and at least the asked time has been measured in DRAM. Near devices (for the
//!   model's processor time) run between. Medians and quartiles are over turns.
//! - A device that the time does not reach is left to the model. No device has fewer rounds than
//!   [`ROUNDS_MIN`].

use std::time::{Duration, Instant};

use littoral_base::clock::{Clock, ClockKind};
use littoral_base::mutant;
use littoral_base::units::Picos;
use littoral_graph::format::file::GraphFile;
use littoral_graph::kernels::{
    Ask, Kernel, Options as RunOptions, Phase, Run, compare, pick_sources,
};
use littoral_graph::medium::{DramForm, Store};
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Error, Kind, Result};
use crate::whatif::model::{Counts, Figures};

/// Processor time of this thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadClock;

impl Clock for ThreadClock {
    fn now(&self) -> Picos {
        let t = clock_gettime(ClockId::ThreadCPUTime);
        Picos::from_nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
    }

    fn kind(&self) -> ClockKind {
        ClockKind::Wall
    }
}

/// Times of one form, in nanoseconds of a whole job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Samples from times.
    pub fn of(times: Vec<f64>) -> Samples {
        Samples(times)
    }

    /// Adds one.
    pub fn push(&mut self, time_ns: f64) {
        self.0.push(time_ns);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// The value below which a share of them lies, between neighbours by proportion; not a number
    /// without samples.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = share * sorted.len().saturating_sub(1) as f64;
        let (low, high) = (sorted.get(at.floor() as usize), sorted.get(at.ceil() as usize));
        match (low, high) {
            (Some(low), Some(high)) => low + (high - low) * at.fract(),
            _ => f64::NAN,
        }
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// How far the median may be off, as a share of it: 1.25 standard deviations, told by the
    /// quartiles, over the root of the count.
    pub fn median_spread(&self) -> f64 {
        if self.0.len() < 4 {
            return 0.0;
        }
        let deviation = (self.quantile(0.75) - self.quantile(0.25)) / 1.35;
        1.25 * deviation / (self.0.len() as f64).sqrt() / self.median()
    }
}

/// A job: a kernel, and searches one by one or at once.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is run.
    pub kernel: Kernel,
    /// Sources; empty where there are none.
    pub sources: Vec<u32>,
    /// How many searches run at once.
    pub at_once: usize,
}

/// Searches in a sample: so many that a processor cannot learn their branches by heart, as it does
/// when eight small ones are repeated; fewer where each takes long.
const SEARCHES: (usize, usize) = (8, 64);
/// Vertices over which a sample's searches go in all.
const SEARCHED: usize = 1 << 22;
const SEED: u64 = 27_491_095;

impl Job {
    /// A job on `graph`; `at_once` searches at once, more than one of which are one sample.
    pub fn of(graph: &GraphFile, kernel: Kernel, at_once: usize) -> Job {
        let wanted = SEARCHED / graph.vertices().max(1) as usize;
        let searches = || wanted.clamp(SEARCHES.0, SEARCHES.1).next_multiple_of(at_once);
        let count = if kernel.spec().has_source { searches() } else { 0 };
        Job { kernel, sources: pick_sources(graph, count, SEED), at_once }
    }

    /// About the bytes of vertex state it needs in DRAM.
    pub fn state_bytes(&self, graph: &GraphFile) -> u64 {
        let per_vertex = self.kernel.spec().state_bytes_per_vertex * self.at_once as u64;
        per_vertex * u64::from(graph.vertices())
    }

    /// The sources of each trial of one sample.
    fn asks(&self) -> Vec<&[u32]> {
        if self.sources.is_empty() {
            vec![&[]]
        } else {
            self.sources.chunks(self.at_once).collect()
        }
    }

    /// One search after the other, whatever the job does at once.
    fn one_by_one(&self) -> Vec<&[u32]> {
        if self.sources.is_empty() { vec![&[]] } else { self.sources.chunks(1).collect() }
    }

    /// How many jobs one sample is.
    pub fn per_sample(&self) -> f64 {
        self.sources.len().max(1) as f64
    }
}

/// How a job runs in DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramWay {
    /// How edges are read.
    pub form: DramForm,
    /// Whether searches that the job runs at once run at once in DRAM, too.
    pub at_once: bool,
}

impl DramWay {
    /// The way in words.
    pub fn describe(self, job: &Job) -> String {
        let form = self.form.describe();
        match (job.at_once > 1, self.at_once) {
            (true, true) => format!("{form}, {} searches at once", job.at_once),
            (true, false) => format!("{form}, one search after the other"),
            _ => form,
        }
    }
}

/// Which stores a job is measured on.
pub struct Plan<'p> {
    /// The graph in DRAM, one store per form of [`DramForm::ALL`].
    pub forms: &'p [Store],
    /// Near devices, for processor time.
    pub near: &'p [Store],
    /// They as the model sees them.
    pub near_figures: &'p [Figures],
    /// The devices.
    pub devices: &'p [Store],
    /// How far a device is from the limit, once counts and times are known: the nearest first.
    pub distance: &'p dyn Fn(usize, &[Counts], f64) -> f64,
    /// The time there is.
    pub time: Duration,
    /// The least time to measure in DRAM.
    pub measured_min: Duration,
}

/// What was measured of a job.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The way that the trial chose.
    pub way: Option<DramWay>,
    /// Every way with the median of its trials.
    pub ways: Vec<(DramWay, f64)>,
    /// The job in DRAM in that way.
    pub dram: Samples,
    /// Counts and processor time by each near device.
    pub counts: Vec<Counts>,
    /// The spread of the median of that processor time.
    pub near_spread: f64,
    /// Each device's times.
    pub devices: Vec<Samples>,
    /// Each device's time over DRAM's of the same round.
    pub ratios: Vec<Samples>,
    /// Bytes of vertex state.
    pub state_bytes: u64,
    /// Rounds begun.
    pub rounds: u64,
}

/// Measures one job.
///
/// # Errors
/// `Kind::Environment` when a store cannot be opened or a read fails.
pub fn measure(
    graph: &GraphFile,
    job: &Job,
    plan: &Plan<'_>,
    progress: &mut dyn FnMut(f64),
) -> Result<Measured> {
    let stores: Vec<&Store> = plan.forms.iter().chain(plan.near).chain(plan.devices).collect();
    let options = RunOptions::default();
    let mut found = Measured::default();
    let mut body = |run: Run<'_>| {
        let mut bench = Bench { run, job, plan, found: &mut found, began: Instant::now() };
        bench.choose_way()?;
        bench.rounds(progress)
    };
    let state = compare(graph, &stores, job.kernel, job.at_once, &options, &ThreadClock, &mut body);
    let state_bytes =
        state.map_err(|e| Error::with_source(Kind::Environment, "what-if study", e))?;
    found.state_bytes = state_bytes;
    Ok(found)
}

/// The chosen form in DRAM beside all of them.
#[derive(Clone, Debug)]
pub struct Denominator {
    /// What the trial chose.
    pub chosen: DramForm,
    /// Its median, measured afterwards as a series of its own.
    pub chosen_ns: f64,
    /// The median of every form, measured beside it.
    pub times: Vec<(DramForm, f64)>,
}

impl Denominator {
    /// The chosen form's time over the least of all.
    pub fn ratio(&self) -> f64 {
        self.chosen_ns / self.times.iter().map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min)
    }
}

/// Chooses a form for `kernel` as a study does, then measures it and all forms by turns.
///
/// # Errors
/// `Kind::Environment` when the graph cannot be read.
pub fn denominator(graph: &GraphFile, kernel: Kernel, time: Duration) -> Result<Denominator> {
    let failed = |e| Error::with_source(Kind::Environment, "measuring forms in DRAM", e);
    let dram = Store::in_dram(graph).map_err(failed)?;
    let forms = DramForm::ALL.map(|form| dram.read_as(form).map_err(failed));
    let forms = forms.into_iter().collect::<Result<Vec<Store>>>()?;
    let plan = Plan {
        forms: &forms,
        near: &[],
        near_figures: &[],
        devices: &[],
        distance: &|_, _, _| 0.0,
        time,
        measured_min: Duration::ZERO,
    };
    let job = Job::of(graph, kernel, 1);
    let stores: Vec<&Store> = forms.iter().collect();
    let mut found = Measured::default();
    let mut times = vec![Samples::default(); forms.len()];
    let mut chosen = Samples::default();
    compare(graph, &stores, kernel, 1, &RunOptions::default(), &ThreadClock, &mut |run| {
        let mut bench =
            Bench { run, job: &job, plan: &plan, found: &mut found, began: Instant::now() };
        bench.choose_way()?;
        let way = bench.found.way.expect("invariant: the trial has found a way");
        while chosen.count() < ROUNDS_MIN || bench.share_gone() < 1.0 {
            for (store, times) in times.iter_mut().enumerate() {
                times.push(bench.sample(store, &job.asks())?);
            }
            chosen.push(bench.sample(Bench::store_of(way), &job.asks())?);
        }
        Ok(())
    })
    .map_err(failed)?;
    let medians = times.iter().map(Samples::median);
    Ok(Denominator {
        chosen: found.way.map_or(DramForm::ALL[0], |way| way.form),
        chosen_ns: chosen.median(),
        times: DramForm::ALL.into_iter().zip(medians).collect(),
    })
}

/// A job under measurement.
struct Bench<'b> {
    run: Run<'b>,
    job: &'b Job,
    plan: &'b Plan<'b>,
    found: &'b mut Measured,
    began: Instant,
}

/// The share of the time spent on finding the best way in DRAM.
const TRIAL_SHARE: f64 = 0.2;
/// Rounds of that trial.
const TRIAL_ROUNDS: (usize, usize) = (3, 60);
/// A way this much slower than the best after a round is not tried again.
const HOPELESS: f64 = 1.5;
/// Devices between two runs in DRAM.
const DEVICES_PER_DRAM: usize = 6;
/// Turns of DRAM in which the least time is to be measured, and most samples in one of them.
const DRAM_TURNS: f64 = 40.0;
const DRAM_REPEATS_MAX: usize = 1000;
/// Rounds are no more than this, however small the graph.
const ROUNDS_MAX: u64 = 400;
/// Runs of DRAM, of near devices, and of each device that is run at all, however large the graph.
const ROUNDS_MIN: usize = 3;

impl Bench<'_> {
    fn share_gone(&self) -> f64 {
        self.began.elapsed().as_secs_f64() / self.plan.time.as_secs_f64().max(1e-9)
    }

    /// Time of one sample.
    fn sample(&self, store: usize, asks: &[&[u32]]) -> littoral_graph::Result<f64> {
        let mut time_ns = 0;
        for sources in asks {
            time_ns += (self.run)(&Ask { store, sources, record: false })?.trial.time_ns;
        }
        Ok(time_ns as f64)
    }

    /// Phases of one sample, and its time.
    fn record(&self, store: usize) -> littoral_graph::Result<(f64, Vec<Phase>)> {
        let (mut time_ns, mut phases) = (0, Vec::new());
        for sources in self.job.asks() {
            let mut compared = (self.run)(&Ask { store, sources, record: true })?;
            time_ns += compared.trial.time_ns;
            phases.append(&mut compared.phases);
        }
        Ok((time_ns as f64, phases))
    }

    fn asks_of(&self, way: DramWay) -> Vec<&[u32]> {
        if way.at_once { self.job.asks() } else { self.job.one_by_one() }
    }

    fn store_of(way: DramWay) -> usize {
        DramForm::ALL.iter().position(|f| *f == way.form).unwrap_or(0)
    }

    /// Runs every way in DRAM by turns and keeps the one with the least median.
    fn choose_way(&mut self) -> littoral_graph::Result<()> {
        let at_once: &[bool] = if self.job.at_once > 1 { &[false, true] } else { &[true] };
        let every = DramForm::ALL.into_iter();
        let mut ways: Vec<(DramWay, Samples)> = every
            .flat_map(|form| at_once.iter().map(move |&at_once| DramWay { form, at_once }))
            .map(|way| (way, Samples::default()))
            .collect();
        for (way, _) in &ways {
            self.sample(Self::store_of(*way), &self.asks_of(*way))?;
        }
        for round in 0..TRIAL_ROUNDS.1 {
            if round >= TRIAL_ROUNDS.0 && self.share_gone() > TRIAL_SHARE {
                break;
            }
            let medians = ways.iter().map(|(_, s)| s.median()).filter(|m| m.is_finite());
            let best = medians.fold(f64::INFINITY, f64::min);
            for (way, samples) in &mut ways {
                if samples.count() == 0 || samples.median() < best * HOPELESS {
                    samples.push(self.sample(Self::store_of(*way), &self.asks_of(*way))?);
                }
            }
        }
        let medians: Vec<(DramWay, f64)> = ways.iter().map(|(w, s)| (*w, s.median())).collect();
        self.found.way = medians.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(way, _)| *way);
        self.found.ways = medians;
        Ok(())
    }

    /// Rounds over DRAM, near devices and devices.
    fn rounds(&mut self, progress: &mut dyn FnMut(f64)) -> littoral_graph::Result<()> {
        let way = self.found.way.expect("invariant: the trial has found a way");
        let mut near = vec![Near::default(); self.plan.near.len()];
        let devices = self.plan.devices.len();
        self.found.devices = vec![Samples::default(); devices];
        self.found.ratios = vec![Samples::default(); devices];
        self.warm(&mut near)?;
        let order = self.order(&near);
        let mut reached = 0;
        for few in order.chunks(DEVICES_PER_DRAM) {
            if reached > 0 && self.share_gone() >= 1.0 {
                break;
            }
            self.run_near(&mut near)?;
            for _ in 0..rounds_min() {
                self.turn(way, few)?;
                progress(self.share_gone());
            }
            reached += few.len();
        }
        self.found.rounds = rounds_min() as u64;
        while !self.is_over() {
            self.found.rounds += 1;
            self.run_near(&mut near)?;
            self.run_dram(way)?;
            for few in order[..reached].chunks(DEVICES_PER_DRAM) {
                if !self.is_over() {
                    self.turn(way, few)?;
                }
                progress(self.share_gone());
            }
        }
        self.found.near_spread = near.iter().map(|i| i.times.median_spread()).fold(0.0, f64::max);
        self.found.counts = self.counts(&near);
        Ok(())
    }

    /// Runs DRAM and each of `few` devices once; their ratios are over DRAM's median of this turn.
    fn turn(&mut self, way: DramWay, few: &[usize]) -> littoral_graph::Result<()> {
        let first = self.found.dram.count();
        self.run_dram(way)?;
        let dram = Samples(self.found.dram.0[first..].to_vec()).median();
        if let [device, ..] = few
            && self.job.at_once > 1
        {
            // Not timed: it brings the state of searches at once back into the caches.
            self.run_device(*device)?;
        }
        for &device in few {
            let time = self.run_device(device)?;
            self.found.devices[device].push(time);
            self.found.ratios[device].push(time / dram);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let measured = self.found.dram.sum() >= self.plan.measured_min.as_nanos() as f64
            || mutant!("whatif_measured_too_short");
        measured && (self.share_gone() >= 1.0 || self.found.rounds >= ROUNDS_MAX)
    }

    /// Runs DRAM and near devices often enough for a first estimate.
    fn warm(&mut self, near: &mut [Near]) -> littoral_graph::Result<()> {
        let way = self.found.way.expect("invariant: the trial has found a way");
        for _ in 0..ROUNDS_MIN {
            self.run_dram(way)?;
            self.run_near(near)?;
        }
        Ok(())
    }

    fn run_dram(&mut self, way: DramWay) -> littoral_graph::Result<()> {
        let median = self.found.dram.median();
        let wanted = self.plan.measured_min.as_nanos() as f64 / DRAM_TURNS / median;
        // Small graphs are run several times in a row, so that enough is measured in few turns.
        for _ in 0..(wanted.ceil() as usize).clamp(1, DRAM_REPEATS_MAX) {
            let time = self.sample(Self::store_of(way), &self.asks_of(way))?;
            self.found.dram.push(time);
        }
        Ok(())
    }

    fn run_near(&mut self, near: &mut [Near]) -> littoral_graph::Result<()> {
        // All are recorded before one is timed: searches at once have a state of their own, which
        // runs in DRAM have pushed out of the caches. Timed first, near devices came out 3 to 14 %
        // slower than the devices that followed them.
        let first = self.plan.forms.len();
        let recorded = (first..first + near.len()).map(|store| self.record(store));
        let recorded = recorded.collect::<littoral_graph::Result<Vec<_>>>()?;
        for (i, (near, (recorded_ns, phases))) in near.iter_mut().zip(recorded).enumerate() {
            near.add(recorded_ns, phases, self.sample(first + i, &self.job.asks())?);
        }
        Ok(())
    }

    fn run_device(&self, device: usize) -> littoral_graph::Result<f64> {
        let store = self.plan.forms.len() + self.plan.near.len() + device;
        self.sample(store, &self.job.asks())
    }

    fn counts(&self, near: &[Near]) -> Vec<Counts> {
        near.iter().zip(self.plan.near_figures).map(|(n, figures)| n.counts(figures)).collect()
    }

    /// The devices, nearest to the limit first.
    fn order(&self, near: &[Near]) -> Vec<usize> {
        let counts = self.counts(near);
        let dram = self.found.dram.median();
        let far = |i: &usize| (self.plan.distance)(*i, &counts, dram);
        let mut order: Vec<(f64, usize)> =
            (0..self.plan.devices.len()).map(|i| (far(&i), i)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        order.into_iter().map(|(_, i)| i).collect()
    }
}

/// [`ROUNDS_MIN`].
fn rounds_min() -> usize {
    if mutant!("whatif_one_round") { 1 } else { ROUNDS_MIN }
}

/// What a near device has shown.
#[derive(Clone, Debug, Default)]
struct Near {
    /// Whole samples.
    times: Samples,
    /// The least processor time outside phases, as a share of the sample.
    between_share: f64,
    /// The phases, each with its least time.
    phases: Vec<Phase>,
}

impl Near {
    fn add(&mut self, recorded_ns: f64, phases: Vec<Phase>, time_ns: f64) {
        self.times.push(time_ns);
        let inside: f64 = phases.iter().map(|p| p.time_ns).sum();
        let between = (1.0 - inside / recorded_ns).clamp(0.0, 1.0);
        if self.phases.len() != phases.len() {
            (self.phases, self.between_share) = (phases, between);
            return;
        }
        // A preempted phase looks long and leaves nothing between: the largest share is the truth.
        self.between_share = self.between_share.max(between);
        for (least, new) in self.phases.iter_mut().zip(phases) {
            least.time_ns = least.time_ns.min(new.time_ns);
        }
    }

    /// The phases, their times scaled so that all adds up to the median of whole samples, and then
    /// explained.
    fn counts(&self, figures: &Figures) -> Counts {
        let total = self.times.median();
        let inside: f64 = self.phases.iter().map(|p| p.time_ns).sum();
        let scale = if inside > 0.0 { total * (1.0 - self.between_share) / inside } else { 0.0 };
        let mut phases = self.phases.clone();
        phases.iter_mut().for_each(|p| p.time_ns *= scale);
        let between_ns = if inside > 0.0 { total * self.between_share } else { total };
        Counts::explain(phases, between_ns, figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_neighbours_and_spread_shrinks_with_the_count() {
        let samples = Samples::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|q| samples.quantile(q)), [1.0, 1.75, 2.5, 4.0]);
        assert!(Samples::default().median().is_nan());
        let many = Samples::of((0..400).map(|i| 100.0 + f64::from(i % 4)).collect());
        assert!(many.median_spread() < 0.002 && samples.median_spread() > 0.1);
        assert_eq!(Samples::of(vec![1.0, 9.0]).median_spread(), 0.0, "too few to tell");
    }

    #[test]
    fn a_preempted_trial_does_not_change_the_phases_times() {
        let phase = |time_ns| Phase { reads_count: 1, time_ns, ..Phase::default() };
        let mut near = Near::default();
        near.add(100.0, vec![phase(60.0), phase(20.0)], 100.0);
        near.add(100.0, vec![phase(60.0), phase(9000.0)], 100.0);
        near.add(100.0, vec![phase(70.0), phase(20.0)], 100.0);
        let none =
            Figures { latency_ns: 0.0, reads_per_s: 0.0, link_bytes_per_s: 0.0, contexts: 1 };
        let counts = near.counts(&none);
        let off = |i: usize, ns: f64| (counts.phases[i].time_ns - ns).abs();
        assert!(off(0, 60.0) < 0.1 && off(1, 20.0) < 0.1, "{counts:?}");
        assert!((counts.between_ns - 20.0).abs() < 1e-9);
    }

    #[test]
    fn each_device_has_its_rounds_and_dram_its_time_however_short_the_study() {
        let graph = crate::whatif::tests::ring(400);
        let dram = Store::in_dram(&graph).unwrap();
        let forms = DramForm::ALL.map(|form| dram.read_as(form).unwrap());
        let base = littoral_device::profile::Profile::named("xlfdd").unwrap();
        let flash = || dram.behind(&base, littoral_graph::medium::Transfer::Pointer).unwrap();
        let devices: Vec<Store> = (0..8).map(|_| flash()).collect();
        let measured = |measured_min: Duration| {
            let plan = Plan {
                forms: &forms,
                near: &[],
                near_figures: &[],
                devices: &devices,
                distance: &|device, _, _| device as f64,
                time: Duration::from_micros(1),
                measured_min,
            };
            let job = Job::of(&graph, Kernel::Components, 1);
            measure(&graph, &job, &plan, &mut |_| ()).unwrap()
        };
        let found = measured(Duration::ZERO);
        let rounds: Vec<usize> = found.devices.iter().map(Samples::count).collect();
        let (run, left) = rounds.split_at(DEVICES_PER_DRAM);
        assert!(run.iter().all(|&n| n >= 3), "{rounds:?}");
        assert!(left.iter().all(|&n| n == 0), "no time for them: {rounds:?}");
        let found = measured(Duration::from_millis(30));
        assert!(found.dram.sum() >= 30e6, "{} ns", found.dram.sum());
    }

    #[test]
    fn the_threads_clock_goes_on_while_it_works() {
        let before = ThreadClock.now();
        let mut x = 1u64;
        while ThreadClock.now().saturating_sub(before) < Picos::from_micros(200) {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert_eq!(ThreadClock.kind(), ClockKind::Wall);
    }
}
