//! What steps of `repro loongarch` are made with.

use littoral_bench::repro::{Answer, Options, Step};

use super::Tools;

/// A step with one claim.
pub(super) fn single(name: &'static str, claim: &str, measure: fn(&Options) -> Answer) -> Step {
    Step {
        name,
        claims: vec![claim.to_owned()],
        measure: Box::new(move |options| vec![measure(options)]),
    }
}

/// The tools that options name.
pub(super) fn tools(options: &Options) -> Tools {
    Tools::new(&options.program, &options.peers, &options.scratch)
}
