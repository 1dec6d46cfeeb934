//! Running a kernel: threads, trials, times, verification, and a report that says what was
//! modelled.
//!
//! Lifecycle: open the medium ([`Store`]) -> state for the kernel -> each thread opens its device
//! -> per trial: barrier, clock, kernel, clock -> optional verification of every answer, outside
//! the times.
//!
//! State is allocated and touched once, before the first trial; forgetting the last answer is part
//! of a trial's time.
//!
//! One thread runs on the caller's thread and executes no locked instruction per vertex or arc.
//!
//! Times come from the clock that is passed in.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use littoral_base::clock::{Clock, ClockKind};
use littoral_base::rng::{Rng, seeded};
use littoral_runtime::{Pinning, run_on_cores};

use super::registry::{Answer, Kernel, State, Summary, check};
use super::team::{Member, Stepped, Team};
use crate::edges::{Edges, Traffic};
use crate::error::{Error, Kind, Result};
use crate::format::file::GraphFile;
use crate::medium::{Store, Visit};

/// The most threads of a run: a kernel has state per thread, some of it per vertex too.
pub const THREADS_MAX: usize = 4096;

/// How to run it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads, each with its own device and ring; at most [`THREADS_MAX`].
    pub threads: usize,
    /// Whether each thread stays on a processor of its own.
    pub pinned: bool,
    /// Contexts a ring runs; `None` tunes them where that makes sense.
    pub contexts: Option<u32>,
    /// How often to run.
    pub trials: usize,
    /// Sources of searches, in turn; empty: [`pick_sources`] picks one a trial.
    pub sources: Vec<u32>,
    /// Whether to check every answer.
    pub verify: bool,
    /// Ends the run with `Kind::Interrupted` after the step in which it is set, or amid the step
    /// where it reads pages or a device.
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: 1,
            pinned: false,
            contexts: None,
            trials: 1,
            sources: Vec::new(),
            verify: false,
            interrupt: None,
        }
    }
}

/// One trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Where a search began; none where a kernel with its options begins at no source.
    pub source: Option<u32>,
    /// How long it took.
    pub time_ns: u64,
    /// What was read, all threads together.
    pub traffic: Traffic,
    /// What was found.
    pub summary: Summary,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// The kernel's name.
    pub kernel: &'static str,
    /// The medium's name.
    pub medium: &'static str,
    /// What is real and what modelled.
    pub wording: String,
    /// Hash of the profile, when something is modelled.
    pub profile_hash: Option<String>,
    /// Which clock the times are of.
    pub clock: ClockKind,
    /// Threads.
    pub threads: usize,
    /// Contexts of each ring at the end; 0 where there is no ring.
    pub contexts: u32,
    /// The trials, in order.
    pub trials: Vec<Trial>,
    /// Whether every answer was verified (none is wrong, or there would be no report).
    pub verified: bool,
    /// Bytes of vertex state in DRAM, the vertex tables included.
    pub state_bytes: u64,
}

impl RunReport {
    /// The shortest trial.
    pub fn time_ns_min(&self) -> u64 {
        self.trials.iter().map(|t| t.time_ns).min().unwrap_or(0)
    }

    /// Whole pages verified against their trailers, over all trials: those that nothing had read
    /// before on this store. Reads of parts of pages are bounds-checked only.
    pub fn pages_verified_count(&self) -> u64 {
        self.trials.iter().map(|t| t.traffic.pages_verified_count).sum()
    }

    /// Parts of lists that needed no read of their own because of a cache of pages.
    pub fn cache_hits_count(&self) -> u64 {
        self.trials.iter().map(|t| t.traffic.cache_hits_count).sum()
    }

    /// Polls of contexts for each read over all trials; zero where there is no ring.
    pub fn polls_per_read(&self) -> f64 {
        let sum = self.trials.iter().fold(Traffic::default(), |s, t| s.plus(t.traffic));
        if sum.reads_count == 0 { 0.0 } else { sum.polls_count as f64 / sum.reads_count as f64 }
    }
}

/// `count` sources that have outgoing arcs, at random under `seed`; fewer when there are none.
pub fn pick_sources(graph: &GraphFile, count: usize, seed: u64) -> Vec<u32> {
    const TRIES: usize = 1000;
    let mut rng = seeded(seed);
    let mut pick = || {
        let tries = (0..TRIES).map(|_| rng.random_range(0..graph.vertices()));
        let mut tries = tries.filter(|&v| graph.outgoing().degree(v) > 0);
        tries.next().or_else(|| (0..graph.vertices()).find(|&v| graph.outgoing().degree(v) > 0))
    };
    (0..count).map_while(|_| pick()).collect()
}

/// Runs `kernel` on the edges in `store`; the answer is the last trial's.
///
/// ```
/// use littoral_base::clock::WallClock;
/// use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
/// use littoral_graph::format::file::GraphFile;
/// use littoral_graph::kernels::{Answer, Kernel, Options, run};
/// use littoral_graph::medium::Store;
///
/// let edges = EdgeList::new(4, false, vec![[0, 1], [1, 2]]);
/// let (image, _) = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none())?;
/// let graph = GraphFile::from_image(image)?;
/// let store = Store::in_dram(&graph)?;
/// let options = Options { verify: true, ..Options::default() };
/// let (report, answer) = run(&graph, &store, Kernel::Components, &options, &WallClock::new())?;
/// let Answer::Components(labels) = answer else { unreachable!() };
/// let distinct: std::collections::BTreeSet<_> = labels.iter().collect();
/// assert_eq!((distinct.len(), report.trials.len()), (2, 1));
/// # Ok::<(), littoral_graph::Error>(())
/// ```
///
/// # Errors
/// `Kind::Argument` for options out of range, `Kind::Device` and `Kind::Corrupt` from reading,
/// `Kind::Refuted` when verification was asked for and failed, `Kind::Interrupted`.
pub fn run(
    graph: &GraphFile,
    store: &Store,
    kernel: Kernel,
    options: &Options,
    clock: &(dyn Clock + Sync),
) -> Result<(RunReport, Answer)> {
    let sources = checked_sources(graph, kernel, options)?;
    let threads = NonZeroUsize::new(options.threads).filter(|t| t.get() <= THREADS_MAX);
    let threads = threads.ok_or_else(|| {
        let what = format!("{} threads; a run has 1 to {THREADS_MAX}", options.threads);
        Error::new(Kind::Argument, what)
    })?;
    let state = State::new(graph, kernel, options.threads, 1);
    let team = Team::new(options.threads).interrupted_by(options.interrupt.clone());
    let shared = Shared {
        graph,
        store,
        kernel,
        options,
        sources: &sources,
        clock,
        state: &state,
        team: &team,
        trials: Mutex::new(Vec::new()),
        traffic: Mutex::new(Traffic::default()),
    };
    let pinning = if options.pinned { Pinning::Pinned } else { Pinning::Free };
    run_on_cores(threads, pinning, |core| shared.member(core))
        .map_err(|e| Error::with_source(Kind::Device, "starting threads", e))?;
    let trials = shared.trials.into_inner().unwrap_or_else(PoisonError::into_inner);
    let wording = wording(store, &trials);
    let contexts = trials.last().map_or(0, |t| t.traffic.contexts);
    team.into_result()?;
    let report = RunReport {
        kernel: kernel.name(),
        medium: store.name(),
        wording,
        profile_hash: store.profile_hash(),
        clock: store.clock(),
        threads: options.threads,
        contexts,
        trials,
        verified: options.verify,
        state_bytes: state.bytes() + graph.resident_bytes(),
    };
    Ok((report, state.answer(0)))
}

pub(super) fn checked_sources(
    graph: &GraphFile,
    kernel: Kernel,
    options: &Options,
) -> Result<Vec<u32>> {
    const SEED: u64 = 27491095;
    if options.trials == 0 {
        return Err(Error::new(Kind::Argument, "trials must be at least 1"));
    }
    if !kernel.begins_at_source() {
        return Ok(Vec::new());
    }
    let mut sources = options.sources.clone();
    if sources.is_empty() {
        sources = pick_sources(graph, options.trials, SEED);
    }
    if sources.is_empty() {
        // Without arcs any vertex will do: it reaches itself.
        sources.push(0);
    }
    match sources.iter().find(|&&v| v >= graph.vertices()) {
        Some(v) => {
            let what = format!("source {v}: the graph has {} vertices", graph.vertices());
            Err(Error::new(Kind::Argument, what))
        }
        None => Ok(sources),
    }
}

/// What is real and what modelled, and what the trial of hints found.
pub(super) fn wording(store: &Store, trials: &[Trial]) -> String {
    let mut words = store.describe();
    let Some(last) = trials.last() else { return words };
    if store.is_read_by_trial() {
        let hints = [("pages", last.traffic.page_hint), ("lists", last.traffic.list_hint)];
        for (what, hint) in hints.into_iter().filter_map(|(what, hint)| Some((what, hint?))) {
            words += &format!("; {what} prefetched with {}, chosen by trial", hint.name());
        }
    }
    words
}

/// What all members of a run see.
struct Shared<'r> {
    graph: &'r GraphFile,
    store: &'r Store,
    kernel: Kernel,
    options: &'r Options,
    sources: &'r [u32],
    clock: &'r (dyn Clock + Sync),
    state: &'r State<'r>,
    team: &'r Team,
    trials: Mutex<Vec<Trial>>,
    /// All members' traffic so far.
    traffic: Mutex<Traffic>,
}

/// One member's part of a run, on whatever form the edges have.
struct Part<'r> {
    shared: &'r Shared<'r>,
    me: Member<'r>,
}

impl Visit for Part<'_> {
    type Output = Stepped;

    fn visit<E: Edges>(self, edges: &E) -> Stepped {
        (0..self.shared.options.trials).try_for_each(|i| self.trial(edges, i))
    }
}

impl Part<'_> {
    fn trial<E: Edges>(&self, edges: &E, number: usize) -> Stepped {
        let (shared, me) = (self.shared, self.me);
        let source = shared.sources.get(number % shared.sources.len().max(1)).copied();
        let before = edges.traffic();
        me.lead(|| *lock(&shared.traffic) = Traffic::default())?;
        let start = shared.clock.now();
        shared.state.run(me, edges, source.unwrap_or(0))?;
        let time = shared.clock.now().saturating_sub(start);
        me.each(|| {
            let mut sum = lock(&shared.traffic);
            *sum = sum.plus(edges.traffic().since(before));
        })?;
        me.all(|| {
            if !me.leads() {
                return Ok(());
            }
            let traffic = *lock(&shared.traffic);
            let summary = shared.state.summary();
            let time_ns = time.as_nanos();
            lock(&shared.trials).push(Trial { source, time_ns, traffic, summary });
            if shared.options.verify {
                let answer = shared.state.answer(0);
                check(shared.graph, shared.kernel, source.unwrap_or(0), &answer)?;
            }
            Ok(())
        })
    }
}

impl Shared<'_> {
    fn member(&self, core: usize) {
        let _leaving = self.team.leaving();
        let me = Member::new(self.team, core);
        let members = self.options.threads;
        let part = Part { shared: self, me };
        let how = (self.options.contexts, self.options.interrupt.clone());
        if let Err(e) = self.store.with_edges(self.graph, members, how, part) {
            // The others wait for this member's first step.
            let _ = me.all(|| Err(e));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
