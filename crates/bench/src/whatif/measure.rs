//! The measurements of a study: one job on DRAM, on near devices, and on every device,
//! by turns.
//!
//! - *Clock.* Processor time of the measuring thread. It never sleeps, so this is elapsed time less
//!   what the system took away, and a paced device's time stands still meanwhile
//!   ([`littoral_device::flash::pacer`]). A busy neighbour costs cache, not the thread's clock.
//! - *Trial of forms.* The job in DRAM runs in every form ([`DramForm::ALL`]) by turns; the form
//!   with the least median is the denominator.
//! - *Rounds.* A turn runs DRAM, a few devices, and the near devices that stand for these in the
//!   model, once each. First every few devices get [`ROUNDS_MIN`] turns, those nearest to the limit
//!   first; then all of them get more, until the time is over and at least the asked time has been
//!   measured in DRAM. Medians and quartiles are over turns.
//! - *Pairs.* Another load of the machine changes the times of a whole turn. So times are compared
//!   within a turn, and the medians of these ratios count ([`Measured`]).
//! - A device that the time does not reach is left to the model, unless the plan asks for all. No
//!   device has fewer rounds than [`ROUNDS_MIN`].

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
/// Sources of a sample of kernels that read every list from each source, and the arcs over which
/// they go in all.
const PASSES: (usize, usize) = (4, 16);
const PASSED: u64 = 1 << 22;
const SEED: u64 = 27_491_095;

impl Job {
    /// A job on `graph`; `at_once` searches at once, more than one of which are one sample.
    pub fn of(graph: &GraphFile, kernel: Kernel, at_once: usize) -> Job {
        let searches = SEARCHED / graph.vertices().max(1) as usize;
        let passes = (PASSED / graph.header().arcs.max(1)) as usize;
        let spec = kernel.spec();
        let count = match (spec.has_source, spec.jobs.at_once) {
            (false, _) => 0,
            (true, Some(_)) => searches.clamp(SEARCHES.0, SEARCHES.1).next_multiple_of(at_once),
            (true, None) => passes.clamp(PASSES.0, PASSES.1),
        };
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
    /// For each device the place of its near device; empty where there are none.
    pub near_of: &'p [usize],
    /// The devices.
    pub devices: &'p [Store],
    /// How far a device is from the limit, once counts and times are known: the nearest first.
    pub distance: &'p dyn Fn(usize, &[Counts], f64) -> f64,
    /// The time there is.
    pub time: Duration,
    /// Whether the devices are all measured even beyond that time.
    pub reaches_all: bool,
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
    /// Each near device's times, to whose median the processor time adds up.
    pub near: Vec<Samples>,
    /// Each near device's time over DRAM's of the same turn.
    pub near_ratios: Vec<Samples>,
    /// Each device's times.
    pub devices: Vec<Samples>,
    /// Each device's time over DRAM's of the same turn.
    pub ratios: Vec<Samples>,
    /// Each device's time over its near device's of the same turn; empty where it has none.
    pub over_near: Vec<Samples>,
    /// Bytes of vertex state.
    pub state_bytes: u64,
    /// Rounds begun.
    pub rounds: u64,
}

/// The times of one turn.
#[derive(Debug, Default)]
struct Turn {
    dram_ns: f64,
    /// Near devices that ran: place and time.
    near: Vec<(usize, f64)>,
    /// Devices that ran: place and time.
    devices: Vec<(usize, f64)>,
}

impl Measured {
    fn of(near: usize, devices: usize) -> Measured {
        Measured {
            near: vec![Samples::default(); near],
            near_ratios: vec![Samples::default(); near],
            devices: vec![Samples::default(); devices],
            ratios: vec![Samples::default(); devices],
            over_near: vec![Samples::default(); devices],
            ..Measured::default()
        }
    }

    /// Adds a turn's times and their ratios.
    fn add(&mut self, turn: &Turn, near_of: &[usize]) {
        for &(near, time_ns) in &turn.near {
            self.near[near].push(time_ns);
            self.near_ratios[near].push(time_ns / turn.dram_ns);
        }
        for &(device, time_ns) in &turn.devices {
            self.devices[device].push(time_ns);
            self.ratios[device].push(time_ns / turn.dram_ns);
            let near = turn.near.iter().find(|(near, _)| near_of.get(device) == Some(near));
            if let Some(&(near, near_ns)) = near {
                let other_turns = mutant!("whatif_near_of_other_turns");
                let near_ns = if other_turns { self.near[near].median() } else { near_ns };
                self.over_near[device].push(time_ns / near_ns);
            }
        }
    }

    /// A device's time at the machine's speed at which the processor time of its near device was
    /// found, so that the model's prediction can be held against it; not a number without samples.
    pub fn device_ns(&self, device: usize, near: Option<usize>) -> f64 {
        match near {
            Some(near) => self.over_near[device].median() * self.near[near].median(),
            None => self.devices[device].median(),
        }
    }

    /// What time in DRAM goes with a time that was predicted by a near device, and the spread of
    /// the two's ratio.
    pub fn dram_ns(&self, near: Option<usize>) -> (f64, f64) {
        match near {
            Some(near) => {
                let ratios = &self.near_ratios[near];
                (self.near[near].median() / ratios.median(), ratios.median_spread())
            }
            None => (self.dram.median(), self.dram.median_spread()),
        }
    }
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
    let mut found = Measured::of(plan.near.len(), plan.devices.len());
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
        near_of: &[],
        devices: &[],
        distance: &|_, _, _| 0.0,
        time,
        reaches_all: false,
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
        self.warm(&mut near)?;
        let order = self.order(&near);
        let mut reached = 0;
        for few in order.chunks(DEVICES_PER_DRAM) {
            if reached > 0 && self.share_gone() >= 1.0 && !self.plan.reaches_all {
                break;
            }
            self.record_near(&mut near)?;
            for _ in 0..rounds_min() {
                self.turn(way, few)?;
                progress(self.share_gone());
            }
            reached += few.len();
        }
        self.found.rounds = rounds_min() as u64;
        while !self.is_over() {
            self.found.rounds += 1;
            self.record_near(&mut near)?;
            self.run_dram(way)?;
            for few in order[..reached].chunks(DEVICES_PER_DRAM) {
                if !self.is_over() {
                    self.turn(way, few)?;
                }
                progress(self.share_gone());
            }
        }
        self.found.counts = self.counts(&near);
        Ok(())
    }

    /// Runs DRAM, the near devices that stand for `few` devices, and these, once each.
    fn turn(&mut self, way: DramWay, few: &[usize]) -> littoral_graph::Result<()> {
        let mut turn = Turn { dram_ns: self.run_dram(way)?, ..Turn::default() };
        let mut near: Vec<usize> = few.iter().filter_map(|&d| self.near_of(d)).collect();
        near.sort_unstable();
        near.dedup();
        if self.job.at_once > 1
            && let Some(&first) = near.first()
        {
            // Not timed: it brings the state of searches at once, which runs in DRAM have pushed
            // out, back into the caches. Timed first, near devices came out 3 to 14 % slower than
            // the devices that followed them.
            self.run_near(first)?;
        }
        for near in near {
            turn.near.push((near, self.run_near(near)?));
        }
        for &device in few {
            turn.devices.push((device, self.run_device(device)?));
        }
        self.found.add(&turn, self.plan.near_of);
        Ok(())
    }

    fn near_of(&self, device: usize) -> Option<usize> {
        self.plan.near_of.get(device).copied()
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
            let dram_ns = self.run_dram(way)?;
            // Recorded before it is timed, for the caches as in a turn.
            self.record_near(near)?;
            let times = (0..near.len()).map(|i| self.run_near(i).map(|time| (i, time)));
            let times = times.collect::<littoral_graph::Result<_>>()?;
            let turn = Turn { dram_ns, near: times, ..Turn::default() };
            self.found.add(&turn, self.plan.near_of);
        }
        Ok(())
    }

    /// Runs DRAM for a turn; its median time there.
    fn run_dram(&mut self, way: DramWay) -> littoral_graph::Result<f64> {
        let first = self.found.dram.count();
        let median = self.found.dram.median();
        let wanted = self.plan.measured_min.as_nanos() as f64 / DRAM_TURNS / median;
        // Small graphs are run several times in a row, so that enough is measured in few turns.
        for _ in 0..(wanted.ceil() as usize).clamp(1, DRAM_REPEATS_MAX) {
            let time = self.sample(Self::store_of(way), &self.asks_of(way))?;
            self.found.dram.push(time);
        }
        Ok(Samples(self.found.dram.0[first..].to_vec()).median())
    }

    fn record_near(&self, near: &mut [Near]) -> littoral_graph::Result<()> {
        for (i, near) in near.iter_mut().enumerate() {
            let (recorded_ns, phases) = self.record(self.plan.forms.len() + i)?;
            near.add(recorded_ns, phases);
        }
        Ok(())
    }

    fn run_near(&self, near: usize) -> littoral_graph::Result<f64> {
        self.sample(self.plan.forms.len() + near, &self.job.asks())
    }

    fn run_device(&self, device: usize) -> littoral_graph::Result<f64> {
        let store = self.plan.forms.len() + self.plan.near.len() + device;
        self.sample(store, &self.job.asks())
    }

    fn counts(&self, near: &[Near]) -> Vec<Counts> {
        let medians = self.found.near.iter().map(Samples::median);
        let all = near.iter().zip(medians).zip(self.plan.near_figures);
        all.map(|((near, total_ns), figures)| near.counts(total_ns, figures)).collect()
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
    /// The least processor time outside phases, as a share of the sample.
    between_share: f64,
    /// The phases, each with its least time.
    phases: Vec<Phase>,
}

impl Near {
    fn add(&mut self, recorded_ns: f64, phases: Vec<Phase>) {
        let inside: f64 = phases.iter().map(|p| p.time_ns).sum();
        let between = (1.0 - inside / recorded_ns).clamp(0.0, 1.0);
        let reads = |phases: &[Phase]| phases.iter().map(|p| p.reads_count).collect::<Vec<u64>>();
        if reads(&self.phases) != reads(&phases) {
            // Delta-stepping does other work in another run: the run of least time counts whole.
            let least: f64 = self.phases.iter().map(|p| p.time_ns).sum();
            if self.phases.is_empty() || inside < least {
                (self.phases, self.between_share) = (phases, between);
            }
            return;
        }
        // A preempted phase looks long and leaves nothing between: the largest share is the truth.
        self.between_share = self.between_share.max(between);
        for (least, new) in self.phases.iter_mut().zip(phases) {
            least.time_ns = least.time_ns.min(new.time_ns);
        }
    }

    /// The phases, their times scaled so that all adds up to the time of a whole sample, and then
    /// explained.
    fn counts(&self, total: f64, figures: &Figures) -> Counts {
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
        near.add(100.0, vec![phase(60.0), phase(20.0)]);
        near.add(100.0, vec![phase(60.0), phase(9000.0)]);
        near.add(100.0, vec![phase(70.0), phase(20.0)]);
        let none =
            Figures { latency_ns: 0.0, reads_per_s: 0.0, link_bytes_per_s: 0.0, contexts: 1 };
        let counts = near.counts(100.0, &none);
        let off = |i: usize, ns: f64| (counts.phases[i].time_ns - ns).abs();
        assert!(off(0, 60.0) < 0.1 && off(1, 20.0) < 0.1, "{counts:?}");
        assert!((counts.between_ns - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_device_is_held_against_its_near_device_of_the_same_turn() {
        let mut found = Measured::of(2, 3);
        // The near devices take 1.2 and 1.5 of DRAM's time, the devices 2, 3 and 4 of it. Another
        // load makes every second turn three times as slow, and device 1 runs in slow turns alone.
        for (i, slow) in [1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0].into_iter().enumerate() {
            let dram_ns = 100.0 * slow;
            let runs = |device: &usize| slow > 1.0 || *device != 1;
            let devices = (0..3).filter(runs).map(|d| (d, (d + 2) as f64 * dram_ns)).collect();
            // The second one is run in some turns only.
            let near = [(0, 1.2 * dram_ns), (1, 1.5 * dram_ns)];
            let near = near.into_iter().take(if i % 3 == 1 { 2 } else { 1 }).collect();
            found.dram.push(dram_ns);
            found.add(&Turn { dram_ns, near, devices }, &[0, 0, 1]);
        }
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * b;
        assert_eq!(found.over_near.iter().map(Samples::count).collect::<Vec<_>>(), [7, 3, 2]);
        // The processor time of near device 0 is that of a fast turn.
        let (dram_ns, spread) = found.dram_ns(Some(0));
        assert!(close(dram_ns, 100.0) && spread < 1e-9, "{dram_ns}");
        for device in [0, 1] {
            let time_ns = found.device_ns(device, Some(0));
            assert!(close(time_ns, (device + 2) as f64 * 100.0), "{device}: {time_ns}");
        }
        let (dram_ns, time_ns) = (found.dram_ns(Some(1)).0, found.device_ns(2, Some(1)));
        assert!(close(time_ns / dram_ns, 4.0), "{time_ns}");
        assert_eq!(found.devices[1].median(), 900.0, "by itself it looks three times as slow");
        assert!(
            found.device_ns(1, None) == 900.0 && Measured::of(1, 1).device_ns(0, None).is_nan()
        );
    }

    #[test]
    fn each_device_has_its_rounds_and_dram_its_time_however_short_the_study() {
        let graph = crate::whatif::tests::ring(400);
        let dram = Store::in_dram(&graph).unwrap();
        let forms = DramForm::ALL.map(|form| dram.read_as(form).unwrap());
        let base = littoral_device::profile::Profile::named("xlfdd").unwrap();
        let flash = || dram.behind(&base, littoral_graph::medium::Transfer::Pointer).unwrap();
        let devices: Vec<Store> = (0..8).map(|_| flash()).collect();
        let near = [flash(), flash()];
        let figures =
            Figures { latency_ns: 1.0, reads_per_s: 0.0, link_bytes_per_s: 0.0, contexts: 64 };
        let measured = |measured_min: Duration, reaches_all: bool| {
            let plan = Plan {
                forms: &forms,
                near: &near,
                near_figures: &[figures; 2],
                near_of: &[0, 1, 0, 0, 0, 0, 0, 0],
                devices: &devices,
                distance: &|device, _, _| device as f64,
                time: Duration::from_micros(1),
                reaches_all,
                measured_min,
            };
            let job = Job::of(&graph, Kernel::Components, 1);
            measure(&graph, &job, &plan, &mut |_| ()).unwrap()
        };
        let found = measured(Duration::ZERO, false);
        let rounds: Vec<usize> = found.devices.iter().map(Samples::count).collect();
        let (run, left) = rounds.split_at(DEVICES_PER_DRAM);
        assert!(run.iter().all(|&n| n >= 3), "{rounds:?}");
        assert!(left.iter().all(|&n| n == 0), "no time for them: {rounds:?}");
        let pairs: Vec<usize> = found.over_near.iter().map(Samples::count).collect();
        assert_eq!(pairs, rounds, "every time has that of its near device in the same turn");
        assert!(found.near_ratios.iter().all(|n| n.count() >= 3), "{found:?}");
        let found = measured(Duration::from_millis(30), false);
        assert!(found.dram.sum() >= 30e6, "{} ns", found.dram.sum());
        let found = measured(Duration::ZERO, true);
        assert!(found.devices.iter().all(|d| d.count() >= 3), "asked for all: {found:?}");
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
