//! One kernel on several stores by turns: the measurements behind every ratio of two media.
//!
//! One thread, one state in DRAM for all stores, so that neither the place of the state in the
//! caches nor a busy neighbour favours one of them. The caller says which store has its turn when,
//! and may ask for the counts of each phase.
//!
//! All devices and rings are opened once, before the first trial.
//!
//! A trial's time is the caller's clock around the kernel and nothing else.

use littoral_base::clock::Clock;

use super::registry::{Kernel, State, check};
use super::run::{Options, RunReport, Trial, checked_sources, wording};
use super::team::{Member, Team};
use crate::edges::Edges;
use crate::edges::phase::Phase;
use crate::error::{Error, Kind, Result};
use crate::format::file::GraphFile;
use crate::medium::{Store, Visit};

/// One trial to run.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Which of the stores.
    pub store: usize,
    /// Sources of searches that run at once; none for kernels without sources.
    pub sources: &'a [u32],
    /// Whether its phases are wanted: recording costs some 50 ns a phase.
    pub record: bool,
}

/// What a trial found.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Time, traffic and summary; of several searches, the first one's summary.
    pub trial: Trial,
    /// What was read phase by phase, where that was asked for and there is a ring.
    pub phases: Vec<Phase>,
}

/// Runs one trial of a comparison.
pub type Run<'r> = &'r dyn Fn(&Ask<'_>) -> Result<Compared>;

/// Opens every store for `kernel`, lets `body` run trials in whatever order it likes, and answers
/// the bytes of vertex state. `searches_max` is how many searches a trial may run at once.
///
/// # Errors
/// What `body` ends with; `Kind::Device` when a store cannot be opened.
pub fn compare(
    graph: &GraphFile,
    stores: &[&Store],
    kernel: Kernel,
    searches_max: usize,
    options: &Options,
    clock: &dyn Clock,
    body: &mut dyn FnMut(Run<'_>) -> Result<()>,
) -> Result<u64> {
    if options.threads != 1 {
        return Err(Error::new(Kind::Argument, "stores are compared with one thread each"));
    }
    let one = State::new(graph, kernel, 1, 1);
    let has_many = kernel.spec().has_source && searches_max > 1;
    let many = has_many.then(|| State::new(graph, kernel, 1, searches_max));
    let state = CompareState { one, many };
    let turn = Turn { graph, stores, kernel, options, clock, state: &state };
    turn.open(&Ready::None, 0, body)?;
    Ok(state.one.bytes() + graph.resident_bytes())
}

/// Runs `kernel` on several stores in turn, trial by trial, for a fair comparison: one thread, one
/// state in DRAM for all of them, and whatever disturbs the machine disturbs them alike.
///
/// Trial `i` is run on every store before trial `i + 1` is begun. One report a store, in order.
///
/// # Errors
/// As [`super::run()`]; `Kind::Argument` also for more than one thread.
pub fn run_in_turn(
    graph: &GraphFile,
    stores: &[&Store],
    kernel: Kernel,
    options: &Options,
    clock: &dyn Clock,
) -> Result<Vec<RunReport>> {
    let sources = checked_sources(graph, kernel, options)?;
    let mut trials = vec![Vec::new(); stores.len()];
    let state_bytes = compare(graph, stores, kernel, 1, options, clock, &mut |run| {
        for number in 0..options.trials {
            let at = number % sources.len().max(1);
            let sources = sources.get(at..=at).unwrap_or(&[]);
            for (store, trials) in trials.iter_mut().enumerate() {
                trials.push(run(&Ask { store, sources, record: false })?.trial);
            }
        }
        Ok(())
    })?;
    let report = |(store, trials): (&&Store, Vec<Trial>)| RunReport {
        kernel: kernel.name(),
        medium: store.name(),
        wording: wording(store, &trials),
        profile_hash: store.profile_hash(),
        clock: store.clock(),
        threads: 1,
        contexts: trials.last().map_or(0, |t| t.traffic.contexts),
        trials,
        verified: options.verify,
        state_bytes,
    };
    Ok(stores.iter().zip(trials).map(report).collect())
}

/// State of one search or kernel, and of many searches.
struct CompareState<'g> {
    one: State<'g>,
    many: Option<State<'g>>,
}

/// What a comparison needs at every depth of opened stores.
#[derive(Clone, Copy)]
struct Turn<'t> {
    graph: &'t GraphFile,
    stores: &'t [&'t Store],
    kernel: Kernel,
    options: &'t Options,
    clock: &'t dyn Clock,
    state: &'t CompareState<'t>,
}

/// Runs a trial on one opened store.
type Form<'f> = &'f dyn Fn(&Ask<'_>) -> Result<Compared>;

/// The stores opened so far, the latest first.
enum Ready<'t> {
    None,
    One { form: Form<'t>, earlier: &'t Ready<'t> },
}

/// Opens one more store inside the visit of those before it.
struct Nested<'t, 'b> {
    turn: Turn<'t>,
    ready: &'t Ready<'t>,
    opened: usize,
    body: &'b mut dyn FnMut(Run<'_>) -> Result<()>,
}

impl Visit for Nested<'_, '_> {
    type Output = Result<()>;

    fn visit<E: Edges>(self, edges: &E) -> Self::Output {
        let turn = self.turn;
        let form = |ask: &Ask<'_>| turn.trial(edges, ask);
        turn.open(&Ready::One { form: &form, earlier: self.ready }, self.opened + 1, self.body)
    }
}

impl Turn<'_> {
    fn open(
        self,
        ready: &Ready<'_>,
        opened: usize,
        body: &mut dyn FnMut(Run<'_>) -> Result<()>,
    ) -> Result<()> {
        if let Some(store) = self.stores.get(opened) {
            let nested = Nested { turn: self, ready, opened, body };
            // Trials of a comparison end whole.
            return store.with_edges(self.graph, 1, (self.options.contexts, None), nested)?;
        }
        let mut forms = Vec::new();
        let mut at = ready;
        while let Ready::One { form, earlier } = at {
            forms.push(*form);
            at = earlier;
        }
        forms.reverse();
        body(&|ask| forms[ask.store](ask))
    }

    fn trial<E: Edges>(self, edges: &E, ask: &Ask<'_>) -> Result<Compared> {
        let team = Team::new(1);
        let me = Member::new(&team, 0);
        let first = ask.sources.first().copied().unwrap_or(0);
        edges.record(ask.record);
        let before = edges.traffic();
        let start = self.clock.now();
        let many = self.state.many.as_ref().filter(|_| ask.sources.len() > 1);
        assert!(many.is_some() || ask.sources.len() <= 1, "a state per search");
        let _ = match many {
            None => self.state.one.run(me, edges, first),
            Some(states) => states.run_together(me, edges, ask.sources),
        };
        let time_ns = self.clock.now().saturating_sub(start).as_nanos();
        team.into_result()?;
        let traffic = edges.traffic().since(before);
        if self.options.verify {
            self.verify(ask.sources)?;
        }
        let source = self.kernel.begins_at_source().then_some(first);
        let summary = many.unwrap_or(&self.state.one).summary();
        let trial = Trial { source, time_ns, traffic, summary };
        Ok(Compared { trial, phases: edges.phases() })
    }

    fn verify(self, sources: &[u32]) -> Result<()> {
        let single = [sources.first().copied().unwrap_or(0)];
        let many = self.state.many.as_ref().filter(|_| sources.len() > 1);
        let (states, sources) = match many {
            None => (&self.state.one, &single[..]),
            Some(states) => (states, sources),
        };
        for (number, &source) in sources.iter().enumerate() {
            check(self.graph, self.kernel, source, &states.answer(number))?;
        }
        Ok(())
    }
}
