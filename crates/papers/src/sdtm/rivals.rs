//! Our engine and its baselines with the same structure on each, run in turns.
//!
//! - Turns: in every round each engine runs once, and the order moves on by one each round, so that
//!   neither drift nor a place in the order favours anyone. A round before the first warms up.
//! - A ratio is ours over the baseline's within a round; the median of the rounds counts.

use littoral_device::pmem::FlushFence;
use littoral_stm::{Options, Pool, Result};

use super::counts::memory;
use super::engine::Engine;
use super::paper::{Paper, Recovery};
use super::tl2::Tl2;
use super::undo::Undo;
use super::work::{Run, median};
use littoral_bench::claims::Figure;

/// A figure under its id.
pub type Named = (String, Figure);

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Ours,
    Undo,
    Tl2,
    Dude,
    /// The paper's, recovering by logged addresses (its default).
    Paper,
    /// The paper's, recovering by a scan.
    PaperScan,
}

impl Who {
    /// The last word of a ratio's id.
    pub(super) fn rival(self) -> &'static str {
        match self {
            Who::Ours => "vs_ours",
            Who::Undo => "vs_undo",
            Who::Tl2 => "vs_tl2",
            Who::Dude => "vs_dude",
            Who::Paper => "vs_paper",
            Who::PaperScan => "vs_paper_scan",
        }
    }
}

/// Builds something on an engine.
pub(super) trait Build {
    type Out;
    fn build<E: Engine>(&self, engine: &E) -> Result<Self::Out>;
}

/// Runs a workload on an engine.
pub(super) trait Load<T> {
    fn run<E: Engine>(&self, engine: &E, on: &T) -> Result<Run>;
}

enum Any {
    Ours(Box<Pool<FlushFence>>),
    Undo(Undo<FlushFence>),
    Tl2(Tl2<FlushFence>),
    Paper(Paper<FlushFence>),
}

impl Any {
    fn new(who: Who, bytes: usize) -> Result<Any> {
        Ok(match who {
            Who::Ours => Any::Ours(Box::new(Pool::create(memory(bytes)?, &Options::default())?)),
            Who::Undo => Any::Undo(Undo::new(memory(bytes)?, true)),
            Who::Tl2 => Any::Tl2(Tl2::redo(memory(bytes)?)),
            Who::Dude => Any::Tl2(Tl2::replaying(memory(bytes)?, memory(bytes)?)),
            Who::Paper => Any::Paper(Paper::new(memory(bytes)?, Recovery::Addresses)?),
            Who::PaperScan => Any::Paper(Paper::new(memory(bytes)?, Recovery::Scan)?),
        })
    }

    fn build<T>(&self, build: &impl Build<Out = T>) -> Result<T> {
        match self {
            Any::Ours(e) => build.build(&**e),
            Any::Undo(e) => build.build(e),
            Any::Tl2(e) => build.build(e),
            Any::Paper(e) => build.build(e),
        }
    }

    fn run<T>(&self, load: &impl Load<T>, on: &T) -> Result<Run> {
        match self {
            Any::Ours(e) => load.run(&**e, on),
            Any::Undo(e) => load.run(e, on),
            Any::Tl2(e) => load.run(e, on),
            Any::Paper(e) => load.run(e, on),
        }
    }
}

/// Engines with what was built on each.
pub(super) struct Rivals<T> {
    all: Vec<(Who, Any, T)>,
}

impl<T> Rivals<T> {
    /// Builds on each of `who`, over memories of `bytes`.
    pub(super) fn new(who: &[Who], bytes: usize, build: &impl Build<Out = T>) -> Result<Self> {
        let one = |&who: &Who| {
            let engine = Any::new(who, bytes)?;
            let built = engine.build(build)?;
            Ok((who, engine, built))
        };
        Ok(Rivals { all: who.iter().map(one).collect::<Result<_>>()? })
    }

    /// Runs one engine's turn.
    pub(super) fn run(&self, who: Who, load: &impl Load<T>) -> Result<Run> {
        let found = self.all.iter().find(|e| e.0 == who);
        let (_, engine, on) = found.expect("invariant: an engine that was built");
        engine.run(load, on)
    }

    /// Rounds of turns, a warming one before them.
    pub(super) fn turns(&self, rounds: usize, load: &impl Load<T>) -> Result<Turns> {
        let n = self.all.len();
        let mut turns = Turns { runs: self.all.iter().map(|e| (e.0, Vec::new())).collect() };
        for round in 0..=rounds {
            for i in (0..n).map(|i| (i + round) % n) {
                let run = self.all[i].1.run(load, &self.all[i].2)?;
                turns.runs[i].1.push(run);
            }
        }
        for (_, runs) in &mut turns.runs {
            runs.remove(0);
        }
        Ok(turns)
    }
}

/// What each engine did in each round.
pub(super) struct Turns {
    runs: Vec<(Who, Vec<Run>)>,
}

impl Turns {
    fn of(&self, who: Who) -> &[Run] {
        let found = self.runs.iter().find(|r| r.0 == who);
        &found.expect("invariant: an engine that took turns").1
    }

    /// Operations a second of processor time, median of rounds.
    pub(super) fn speed(&self, who: Who) -> f64 {
        median(self.of(who).iter().map(Run::per_cpu_second).collect())
    }

    /// Operations a second of wall time, median of rounds.
    pub(super) fn wall_speed(&self, who: Who) -> f64 {
        median(self.of(who).iter().map(Run::per_second).collect())
    }

    /// Aborts in a hundred commits, over all rounds.
    pub(super) fn aborts_percent(&self, who: Who) -> f64 {
        let sum = |f: fn(&Run) -> u64| self.of(who).iter().map(f).sum::<u64>() as f64;
        100.0 * sum(|r| r.aborts_count) / sum(|r| r.ops_count).max(1.0)
    }

    /// One engine's speed over another's: least, median and most of the rounds.
    pub(super) fn ratio(&self, one: Who, other: Who) -> [f64; 3] {
        let pairs = self.of(one).iter().zip(self.of(other));
        let mut all: Vec<f64> =
            pairs.map(|(a, b)| a.per_cpu_second() / b.per_cpu_second()).collect();
        all.sort_by(f64::total_cmp);
        [all[0], all[all.len() / 2], all[all.len() - 1]]
    }

    /// Ours over `rival`, under `id` and the rival's name.
    pub(super) fn versus(&self, id: &str, rival: Who) -> Named {
        let [least, ratio, most] = self.ratio(Who::Ours, rival);
        let note = format!(
            "{:.3} against {:.3} Mops a CPU second; median of {} rounds, {least:.2} to {most:.2}",
            self.speed(Who::Ours) / 1e6,
            self.speed(rival) / 1e6,
            self.of(rival).len()
        );
        named(format!("{id}.{}", rival.rival()), ratio, note)
    }

    /// Our aborts in a hundred commits, the baselines' beside them.
    pub(super) fn aborts(&self, id: &str) -> Named {
        let others = self.runs.iter().filter(|r| r.0 != Who::Ours);
        let words = others.map(|r| format!("{} {:.2}", r.0.rival(), self.aborts_percent(r.0)));
        let note = format!("baselines: {}", words.collect::<Vec<_>>().join(", "));
        named(format!("{id}.aborts"), self.aborts_percent(Who::Ours), note)
    }
}

pub(super) fn named(id: impl Into<String>, value: f64, note: impl Into<String>) -> Named {
    (id.into(), Figure::new(value, note))
}
