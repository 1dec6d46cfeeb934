//! What `littoral repro` takes.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use littoral_bench::repro::System;
use littoral_papers::SYSTEMS;

use super::ShownArgs;

/// The registry's systems as choices, each with its line of help.
fn systems() -> impl TypedValueParser<Value = &'static System> {
    let choice = |s: &'static System| PossibleValue::new(s.name).help(s.about);
    let parser = PossibleValuesParser::new(SYSTEMS.iter().map(choice));
    let of = |name: String| SYSTEMS.iter().find(|s| s.name == name);
    parser.map(move |name| of(name).expect("invariant: the parser takes systems' names only"))
}

#[derive(Debug, Args)]
pub(crate) struct ReproArgs {
    /// Which paper's system
    #[arg(value_parser = systems())]
    pub(crate) system: &'static System,
    /// Fewer repetitions, the same sizes
    #[arg(long)]
    pub(crate) quick: bool,
    /// The largest counts, such as a million power cuts (zbtree)
    #[arg(long, conflicts_with = "quick")]
    pub(crate) paper: bool,
    /// A folder with peers: the GAP suite under gapbs/, fio (both are also looked for in PATH)
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,
    /// Also write the results here, for `littoral report`
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Go on with an interrupted run: keep the claims of the file of --json, or of its .part, but
    /// for those that failed or were skipped
    #[arg(long)]
    pub(crate) resume: bool,
    /// Only claims whose id begins with this, such as flash.ring
    #[arg(long, value_name = "PREFIX")]
    pub(crate) only: Option<String>,
    /// Where graphs and files that are measured on are put, made if missing; needs about 10 GiB
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// End with code 1 when a claim is short or fails to be measured
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
