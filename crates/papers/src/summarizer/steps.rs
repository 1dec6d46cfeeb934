//! Paper 001's system: its figures and the policies beside the best split, in virtual time;
//! the host's vectorised form by processor time; a served device in paced time.
//!
//! - Each step answers one family of claims with the functions of [`super`]. Modelled runs repeat
//!   bit for bit, so that `--quick` has no repetition to cut; it cuts those of the other two and
//!   never sizes.
//! - A step that fails leaves its claims `failed` with its words.

use std::collections::BTreeMap;

use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step, System, Unanswered};

use super::{Figures, answers, cells, figures, host, others, wall};

/// The system.
pub const SYSTEM: System = System {
    name: "summarizer",
    about: "Computing near storage: a device that runs page functions (paper 001)",
    id: "push",
    targets: include_str!("../../targets/summarizer.toml"),
    profiles: &["summarizer-board"],
    has_paper_counts: false,
    steps: || Ok(steps()),
};

/// Every measurement of the system.
fn steps() -> Vec<Step> {
    vec![
        step("answers on every road", &["push.twin.", "push.answers."], answers::answers),
        step("figure 5", &["push.fig5."], figures::figure5),
        step("figure 6", &["push.fig6"], figures::figure6),
        step("figure 7", &["push.fig7."], figures::figure7),
        step("the best static split", &["push.oracle."], cells::oracle),
        step("three tasks", &["push.oracle3."], cells::three),
        step("garbage collection", &["push.gc."], others::collection),
        step("changing costs", &["push.adapt"], others::adaptation),
        step("other tenants", &["push.tenants."], others::tenants),
        step("replay", &["push.replay"], others::replay),
        repeated("the host beside DuckDB", &["push.host."], host::beside_duckdb),
        repeated("a served device", &["push.wall."], wall::served),
    ]
}

fn step(name: &'static str, prefixes: &[&str], measure: fn() -> Figures) -> Step {
    repeated(name, prefixes, move |_| measure())
}

/// A step that repeats less when it is told to be quick, or starts the program.
fn repeated(
    name: &'static str,
    prefixes: &[&str],
    measure: impl Fn(&Options) -> Figures + 'static,
) -> Step {
    let all = SYSTEM.targets().map_or_else(|_| Vec::new(), |t| t.claims);
    let wanted = |id: &String| prefixes.iter().any(|p| id.starts_with(p));
    let claims: Vec<String> = all.into_iter().map(|t| t.id).filter(wanted).collect();
    let asked = claims.clone();
    let measure = move |options: &Options| match measure(options) {
        Ok(figures) => in_order(&asked, figures),
        Err(error) => asked.iter().map(|_| Err(error.clone())).collect(),
    };
    Step { name, claims, measure: Box::new(measure) }
}

fn in_order(asked: &[String], figures: Vec<(String, Figure)>) -> Vec<Answer> {
    let mut figures: BTreeMap<String, Figure> = figures.into_iter().collect();
    let answer =
        |id: &String| figures.remove(id).ok_or_else(|| Unanswered::from("was not measured"));
    asked.iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use littoral_base::clock::ClockKind;

    use super::*;

    /// Late binding decides by observed times which pages cross the link, so that bytes differ from
    /// run to run too.
    #[test]
    fn no_figure_of_a_served_device_is_a_count() {
        let targets = SYSTEM.targets().unwrap().claims;
        let served: Vec<_> = targets.iter().filter(|t| t.id.starts_with("push.wall.")).collect();
        assert!(served.len() > 2, "{served:?}");
        for target in served {
            assert_ne!(target.clock, ClockKind::Count, "{}", target.id);
        }
    }
}
