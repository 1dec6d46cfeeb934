//! `repro`: runs a paper's systems, judges every claim of `targets.toml`, keeps the losing rows.
//!
//! - A system is a list of [`Step`]s; each answers the claims it names, with a figure or with the
//!   reason there is none. Every claim belongs to exactly one step (a test).
//! - `--quick` cuts repetitions, never sizes; nothing is extrapolated.
//! - A measurement that fails leaves its claims `skipped` with the failure's words; it is never
//!   replaced by an expected value.

pub mod flash;
pub mod jiajia;
pub mod loongarch;
pub mod sdtm;
pub mod zbtree;

use std::collections::BTreeMap;
use std::path::PathBuf;

use littoral_device::fabric::timing::FabricProfile;
use littoral_device::profile::Profile;
use littoral_device::zoned;

use crate::claims::{self, Claim, Figure, Run, Targets};
use crate::error::Result;
use crate::host;
use crate::peers::Peers;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fewer repetitions, the same sizes.
    pub quick: bool,
    /// Counts as large as the paper's or the work's largest.
    pub paper: bool,
    /// Where peers are looked for.
    pub peers: Peers,
    /// A folder for graphs and files that are measured on; it should lie on the drive to be
    /// measured.
    pub scratch: PathBuf,
    /// The `littoral` program itself, for measurements that need a process of their own.
    pub program: PathBuf,
    /// Only claims whose id begins with this.
    pub only: Option<String>,
}

/// A figure, or why there is none.
pub type Answer = std::result::Result<Figure, String>;

/// One measurement and the claims it answers.
pub struct Step {
    /// What is being measured, for a progress display.
    pub name: &'static str,
    /// The claims it answers.
    pub claims: Vec<String>,
    /// Measures; one answer a claim, in the order of `claims`.
    pub measure: Measure,
}

/// Measures; one answer a claim of its step, in the same order.
pub type Measure = Box<dyn FnMut(&Options) -> Vec<Answer>>;

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("name", &self.name).field("claims", &self.claims).finish()
    }
}

/// Runs `steps` and judges each claim of `system`; `progress` hears the name and place of each
/// step.
///
/// # Errors
/// `Kind::BadResult` when the system has no targets.
pub fn run(
    system: &str,
    mut steps: Vec<Step>,
    options: &Options,
    mut progress: impl FnMut(&str, usize, usize),
) -> Result<Run> {
    let targets = Targets::of(system)?;
    let mut environment = host::environment();
    environment.profiles = profiles_of(system);
    let wanted = |id: &str| options.only.as_deref().is_none_or(|o| id.starts_with(o));
    steps.retain(|s| s.claims.iter().any(|id| wanted(id)));
    let total = steps.len();
    let mut answered = Vec::new();
    for (i, step) in steps.iter_mut().enumerate() {
        progress(step.name, i, total);
        let answers = (step.measure)(options);
        assert_eq!(answers.len(), step.claims.len(), "{}: an answer a claim", step.name);
        answered.extend(step.claims.iter().cloned().zip(answers));
    }
    let judged = targets.claims.iter().filter(|t| wanted(&t.id)).map(|target| {
        match answered.iter().find(|(id, _)| *id == target.id) {
            Some((_, Ok(figure))) => target.measured(figure),
            Some((_, Err(why))) => target.skipped(why.clone()),
            None => target.skipped("no measurement answers this claim"),
        }
    });
    Ok(Run {
        schema: claims::SCHEMA.to_owned(),
        system: system.to_owned(),
        seed: targets.seed,
        revision: host::revision().to_owned(),
        environment,
        claims: judged.collect::<Vec<Claim>>(),
    })
}

/// Hashes of the profiles behind a system's modelled figures, by name.
fn profiles_of(system: &str) -> BTreeMap<String, String> {
    let shipped = "invariant: the profile is shipped";
    let hash = |name: &str| match system {
        flash::SYSTEM => Profile::named(name).expect(shipped).hash(),
        zbtree::SYSTEM => zoned::timing::Profile::named(name).expect(shipped).hash(),
        _ => FabricProfile::open(name).expect(shipped).hash(),
    };
    let names: &[&str] = match system {
        flash::SYSTEM => &["xlfdd"],
        zbtree::SYSTEM => &["zns-paper"],
        jiajia::SYSTEM => &["loongson-2e", "tcp", "rdma", "cxl-pool"],
        _ => &[],
    };
    names.iter().map(|&name| (name.to_owned(), hash(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Status;

    fn options(only: Option<&str>) -> Options {
        Options {
            quick: true,
            paper: false,
            peers: Peers::default(),
            scratch: PathBuf::new(),
            program: PathBuf::new(),
            only: only.map(str::to_owned),
        }
    }

    #[test]
    fn modelled_systems_name_their_profiles() {
        let count = |system| profiles_of(system).len();
        assert_eq!([flash::SYSTEM, zbtree::SYSTEM, jiajia::SYSTEM].map(count), [1, 1, 4]);
        assert_eq!(count(loongarch::SYSTEM), 0, "nothing is modelled there");
    }

    fn steps() -> Vec<Step> {
        vec![Step {
            name: "two",
            claims: vec!["flash.ring.step_ns".into(), "flash.ring.vs_hand".into()],
            measure: Box::new(|_| vec![Ok(Figure::new(3.0, "n")), Err("no reason".into())]),
        }]
    }

    #[test]
    fn every_claim_gets_a_verdict_and_nothing_is_made_up() {
        let run = run("flash", steps(), &options(None), |_, _, _| ()).unwrap();
        assert_eq!(run.claims.len(), Targets::of("flash").unwrap().claims.len());
        assert_eq!((run.claims[0].status, run.claims[0].ours), (Status::Holds, Some(3.0)));
        let skipped = &run.claims[1];
        assert_eq!((skipped.status, skipped.ours), (Status::Skipped, None));
        assert_eq!(skipped.why, "no reason");
        assert_eq!(run.count(Status::Skipped), run.claims.len() - 1);
    }

    #[test]
    fn only_what_is_asked_for_is_measured() {
        let run = run("flash", steps(), &options(Some("flash.faults")), |name, _, _| {
            panic!("{name} was measured");
        });
        let ids: Vec<_> = run.unwrap().claims.into_iter().map(|c| c.id).collect();
        assert_eq!(ids, ["flash.faults.undetected"]);
    }
}
