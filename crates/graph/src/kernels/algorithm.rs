//! What a kernel is: the trait that each implements in a file of its own.
//!
//! - [`Spec`] is what other code says about a kernel without knowing it: the command line's help,
//!   the jobs of a what-if study, the columns of a report.
//! - [`Algorithm`] is what runs. It is generic over how edges are read, so the registry's dispatch
//!   happens once per trial and the loops are compiled for each form of edges.
//! - A kernel's verifier shares no code with its `run`.

use super::team::{Member, Stepped};
use crate::edges::Edges;
use crate::error::Result;
use crate::format::file::GraphFile;
use crate::table::{ByName, Table};

/// What a kernel is called, takes and costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The verb on the command line and the name in reports.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Whether a run begins at a vertex.
    pub has_source: bool,
    /// Whether it reads the weights of edges.
    pub uses_weights: bool,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// About how many bytes of state it needs per vertex.
    pub state_bytes_per_vertex: u64,
    /// Its jobs in a what-if study.
    pub jobs: Jobs,
    /// Command lines with what they do.
    pub examples: &'static [(&'static str, &'static str)],
}

/// An option of a kernel, given as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// The option without dashes.
    pub name: &'static str,
    /// Its key in reports; a number's ends in its unit.
    pub key: &'static str,
    /// What stands for its value in help.
    pub value_name: &'static str,
    /// Help.
    pub help: &'static str,
    /// The value on the command line when none is given.
    pub default: &'static str,
    /// The legal values; none where the kernel reads the value itself, such as a number.
    pub values: &'static [&'static str],
}

/// A kernel's jobs in a what-if study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs {
    /// The kind of the job that runs it once at a time.
    pub kind: &'static str,
    /// That job in words.
    pub words: &'static str,
    /// Kind and words of the jobs that run many at once in one ring; the number precedes the words.
    pub at_once: Option<(&'static str, &'static str)>,
}

/// A figure of a run's summary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its key in reports; a count's key ends in `_count`.
    pub name: &'static str,
    /// Its value.
    pub value: FigureValue,
}

/// The value of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureValue {
    /// A whole number.
    Count(u64),
    /// A real number.
    Real(f64),
}

impl Figure {
    pub(super) fn count(name: &'static str, value: impl Into<u64>) -> Figure {
        Figure { name, value: FigureValue::Count(value.into()) }
    }

    pub(super) fn real(name: &'static str, value: f64) -> Figure {
        Figure { name, value: FigureValue::Real(value) }
    }
}

/// Looks up the values of options by name; `None` where the option was not given.
pub type Given<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A kernel: its state for one graph, reused from trial to trial, and what belongs to its answers.
pub(crate) trait Algorithm<'g>: Sized + Sync {
    /// How to run it; `()` without options.
    type Options: Copy;
    /// What it finds.
    type Answer;
    /// A run in figures.
    type Summary;

    /// What other code says about it.
    const SPEC: Spec;

    /// The options in `given`.
    ///
    /// # Errors
    /// `Kind::Argument`, naming the legal values.
    fn options(given: Given<'_>) -> Result<Self::Options>;

    /// The values of [`Spec::options`], in the same order.
    fn values(_options: Self::Options) -> Vec<String> {
        Vec::new()
    }

    /// Whether a run with these options begins at a source.
    fn begins_at_source(_options: Self::Options) -> bool {
        Self::SPEC.has_source
    }

    /// State for runs on `graph` by `members` threads.
    fn new(graph: &'g GraphFile, options: Self::Options, members: usize) -> Self;

    /// Runs once; every member calls this. `SHARED` is false for a team of one, which then executes
    /// no locked instruction. `source` is 0 where [`Algorithm::begins_at_source`] is false.
    fn run<const SHARED: bool, E: Edges>(&self, me: Member<'_>, edges: &E, source: u32) -> Stepped;

    /// Runs once from each source, each with a state of its own, for a team of one. A kernel with
    /// [`Jobs::at_once`] does so in one ring.
    fn run_together<E: Edges>(
        states: &[Self],
        me: Member<'_>,
        edges: &E,
        sources: &[u32],
    ) -> Stepped {
        let mut runs = states.iter().zip(sources);
        runs.try_for_each(|(state, &source)| state.run_alone(me, edges, source))
    }

    /// Runs once, for a team of one.
    fn run_alone<E: Edges>(&self, me: Member<'_>, edges: &E, source: u32) -> Stepped {
        // What a constant rules out is not compiled.
        if E::FAST {
            self.run::<false, E>(me, edges, source)
        } else {
            self.run::<true, E>(me, edges, source)
        }
    }

    /// Bytes of state.
    fn bytes(&self) -> u64;

    /// The latest run in figures.
    fn summary(&self) -> Self::Summary;

    /// What the latest run found.
    fn answer(&self) -> Self::Answer;

    /// The figures of a summary.
    fn figures(summary: &Self::Summary) -> Vec<Figure>;

    /// Checks an answer by a method that shares no code with [`Algorithm::run`].
    ///
    /// # Errors
    /// `Kind::Refuted`, saying where; `Kind::Io`, `Kind::Corrupt`.
    fn verify(
        graph: &GraphFile,
        options: Self::Options,
        source: u32,
        answer: &Self::Answer,
    ) -> Result<()>;

    /// The first `top` rows of the whole answer.
    fn rows(order: &ByName<'_>, answer: &Self::Answer, top: usize) -> Table;

    /// The `top` rows that a report shows.
    fn shown(order: &ByName<'_>, answer: &Self::Answer, top: usize) -> Table {
        Self::rows(order, answer, top)
    }
}
