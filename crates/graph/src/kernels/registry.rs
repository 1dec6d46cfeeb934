//! The kernels there are: one line each, from which everything that names a kernel is made.
//!
//! - [`Kernel`], [`Answer`], [`Summary`] and the state have one variant per line, in this order.
//! - Other code asks [`Kernel::spec`] and the methods of these types. It matches on a variant only
//!   where it means that kernel and no other.

use super::algorithm::{Algorithm, Figure, Given, Spec};
use super::bc::{Bc as BcState, BcSummary, Sources};
use super::bfs::{Bfs as BfsState, BfsSummary};
use super::components::{Components as ComponentsState, ComponentsSummary};
use super::kcore::{Kcore as KcoreState, KcoreSummary};
use super::pagerank::{PageRank as PageRankState, PageRankOptions, PageRankSummary};
use super::sssp::{Sssp as SsspState, SsspSummary};
use super::tc::{Tc as TcState, TcSummary};
use super::team::{Member, Stepped};
use super::weights::Weights;
use crate::edges::Edges;
use crate::error::{Error, Kind, Result};
use crate::format::file::GraphFile;
use crate::table::{ByName, Table};

/// `$name`, repeated as often as there are options.
macro_rules! bound {
    ($options:ty, $name:ident) => {
        $name
    };
}

macro_rules! kernels {
    ($(
        $(#[$doc:meta])+
        $variant:ident $(($options:ty))? => $state:ident, $answer:ty, $summary:ty;
    )+) => {
        /// What to compute.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Kernel {
            $($(#[$doc])+ $variant $(($options))?,)+
        }

        /// What a run found.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Answer {
            $($(#[$doc])+ $variant($answer),)+
        }

        /// A run in figures.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Summary {
            $($(#[$doc])+ $variant($summary),)+
        }

        /// The state of whichever kernel runs: of one run at a time, or of several together.
        pub(super) enum State<'g> {
            $($variant(Vec<$state<'g>>),)+
        }

        impl Kernel {
            /// Every kernel, with the library's default options.
            pub fn all() -> Vec<Kernel> {
                vec![$(Kernel::$variant $((<$options>::default()))?),+]
            }

            /// What other code says about it.
            pub fn spec(self) -> &'static Spec {
                match self {
                    $(Kernel::$variant { .. } => const { &<$state<'static>>::SPEC },)+
                }
            }

            /// The kernel of that name with the options in `given`.
            ///
            /// # Errors
            /// `Kind::Argument`, naming the legal names or values.
            pub fn named(name: &str, given: Given<'_>) -> Result<Kernel> {
                $(if name == <$state<'static>>::SPEC.name {
                    let options = <$state<'static>>::options(given)?;
                    let _ = options;
                    return Ok(Kernel::$variant $((bound!($options, options)))?);
                })+
                let names: Vec<&str> = Kernel::all().iter().map(|k| k.spec().name).collect();
                let what = format!("there is no kernel {name}; there are {}", names.join(", "));
                Err(Error::new(Kind::Argument, what))
            }

            /// The values of [`Spec::options`], in the same order.
            pub fn values(self) -> Vec<String> {
                match self {
                    $(Kernel::$variant $((bound!($options, options)))? => {
                        <$state<'static>>::values(($(bound!($options, options))?))
                    })+
                }
            }
        }

        impl Kernel {
            /// Whether a run with these options begins at a source; [`Spec::has_source`] says
            /// whether one with some options does.
            pub fn begins_at_source(self) -> bool {
                match self {
                    $(Kernel::$variant $((bound!($options, options)))? => {
                        <$state<'static>>::begins_at_source(($(bound!($options, options))?))
                    })+
                }
            }
        }

        /// Checks an answer by an independent method.
        ///
        /// # Errors
        /// `Kind::Refuted`, saying where; `Kind::Argument` for another kernel's answer;
        /// `Kind::Io`, `Kind::Corrupt`.
        pub fn check(
            graph: &GraphFile,
            kernel: Kernel,
            source: u32,
            answer: &Answer,
        ) -> Result<()> {
            match (kernel, answer) {
                $((Kernel::$variant $((bound!($options, options)))?, Answer::$variant(answer)) => {
                    <$state<'static>>::verify(
                        graph, ($(bound!($options, options))?), source, answer,
                    )
                })+
                (kernel, answer) => {
                    let (asked, given) = (kernel.name(), answer.kernel_name());
                    let what = format!("an answer of {given} cannot be checked as one of {asked}");
                    Err(Error::new(Kind::Argument, what))
                }
            }
        }

        impl Answer {
            /// The name of the kernel whose answer this is.
            pub fn kernel_name(&self) -> &'static str {
                match self {
                    $(Answer::$variant(_) => <$state<'static>>::SPEC.name,)+
                }
            }

            pub(crate) fn rows(&self, order: &ByName<'_>, top: usize) -> Table {
                match self {
                    $(Answer::$variant(answer) => <$state<'static>>::rows(order, answer, top),)+
                }
            }

            pub(crate) fn shown(&self, order: &ByName<'_>, top: usize) -> Table {
                match self {
                    $(Answer::$variant(answer) => <$state<'static>>::shown(order, answer, top),)+
                }
            }
        }

        impl Summary {
            /// Its figures, in the order of reports.
            pub fn figures(&self) -> Vec<Figure> {
                match self {
                    $(Summary::$variant(summary) => <$state<'static>>::figures(summary),)+
                }
            }
        }

        impl<'g> State<'g> {
            /// State for `states` runs together by `members` threads.
            pub(super) fn new(
                graph: &'g GraphFile,
                kernel: Kernel,
                members: usize,
                states: usize,
            ) -> Self {
                match kernel {
                    $(Kernel::$variant $((bound!($options, options)))? => {
                        let options = || ($(bound!($options, options))?);
                        let state = |_| <$state<'g>>::new(graph, options(), members);
                        State::$variant((0..states).map(state).collect())
                    })+
                }
            }

            /// Runs the first state once; every member calls this.
            pub(super) fn run<E: Edges>(&self, me: Member<'_>, edges: &E, source: u32) -> Stepped {
                match (self, me.is_alone()) {
                    $((State::$variant(s), true) => s[0].run_alone(me, edges, source),
                    (State::$variant(s), false) => s[0].run::<true, E>(me, edges, source),)+
                }
            }

            /// Runs one state from each source, for a team of one.
            pub(super) fn run_together<E: Edges>(
                &self,
                me: Member<'_>,
                edges: &E,
                sources: &[u32],
            ) -> Stepped {
                match self {
                    $(State::$variant(s) => <$state<'g>>::run_together(s, me, edges, sources),)+
                }
            }

            /// The latest run of the first state in figures.
            pub(super) fn summary(&self) -> Summary {
                match self {
                    $(State::$variant(s) => Summary::$variant(s[0].summary()),)+
                }
            }

            /// What the latest run of state `number` found.
            pub(super) fn answer(&self, number: usize) -> Answer {
                match self {
                    $(State::$variant(s) => Answer::$variant(s[number].answer()),)+
                }
            }

            /// Bytes of the first state.
            pub(super) fn bytes(&self) -> u64 {
                match self {
                    $(State::$variant(s) => s[0].bytes(),)+
                }
            }
        }
    };
}

// Name and options, state (which implements `Algorithm`), answer, summary.
kernels! {
    /// Breadth-first search from a source: a parent per vertex.
    Bfs => BfsState, Vec<u32>, BfsSummary;
    /// PageRank: a rank per vertex.
    PageRank(PageRankOptions) => PageRankState, Vec<f32>, PageRankSummary;
    /// (Weakly) connected components: the smallest id of the component per vertex.
    Components => ComponentsState, Vec<u32>, ComponentsSummary;
    /// Shortest paths by weight from a source: a distance per vertex.
    Sssp(Weights) => SsspState, Vec<f32>, SsspSummary;
    /// Betweenness centrality: a score per vertex.
    Bc(Sources) => BcState, Vec<f64>, BcSummary;
    /// Core numbers: one per vertex.
    Kcore => KcoreState, Vec<u32>, KcoreSummary;
    /// Triangles: how many each vertex belongs to.
    Tc => TcState, Vec<u64>, TcSummary;
}

impl Kernel {
    /// The kernel's name on the command line.
    pub fn name(self) -> &'static str {
        self.spec().name
    }
}
