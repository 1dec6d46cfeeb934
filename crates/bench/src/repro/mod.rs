//! `repro`: runs a [`System`], judges every claim of its targets file, keeps the losing rows.
//!
//! - A system is a list of [`Step`]s with targets; each answers the claims it names, with a figure
//!   or with the reason there is none. Every claim belongs to exactly one step (a test).
//! - `--quick` cuts repetitions, never sizes; nothing is extrapolated.
//! - What has been judged is on disk before the next step begins ([`record`]).
//! - A measurement that fails leaves its claims `failed` with the failure's words; it is never
//!   replaced by an expected value. Checked by `a_measurement_that_fails_is_not_taken_for_skipped`.
//! - So does one that panics: the steps behind it are still made, and a resumed run comes to its
//!   end. Checked by `a_step_that_panics_fails_and_ends_no_other`.
//! - A claim is `skipped` only where its reason is not [`Unanswered::Failed`]; a reason's words
//!   decide nothing. Checked by `the_words_of_a_reason_decide_nothing`.

pub mod record;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use littoral_base::mutant;
use littoral_device::profile::Profile;

use crate::claims::{self, Claim, Figure, Run, Targets};
use crate::error::{Error, Kind, Result};
use crate::host;
use crate::peers::Peers;
use record::{Asked, Place, Record, Saved};

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
    /// Figures that a resumed run has kept, by claim; [`run`] fills it in.
    pub kept: BTreeMap<String, f64>,
}

/// A figure, or why there is none.
pub type Answer = std::result::Result<Figure, Unanswered>;

/// Why a claim has no figure.
///
/// The words of a failure become one by `?`. There is no way back to words alone, so that what is
/// missing cannot turn into a failure on its way to an [`Answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It needs this, which the host does not have: the claim is skipped.
    Missing(String),
    /// The options leave it out, for this reason: the claim is skipped.
    LeftOut(String),
    /// Measuring it ended with this error: the claim has failed.
    Failed(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Missing(what) => write!(f, "missing: {what}"),
            Unanswered::LeftOut(why) => write!(f, "left out: {why}"),
            Unanswered::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Unanswered {}

impl From<String> for Unanswered {
    fn from(why: String) -> Self {
        Unanswered::Failed(why)
    }
}

impl From<&str> for Unanswered {
    fn from(why: &str) -> Self {
        Unanswered::Failed(why.to_owned())
    }
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Unanswered::Failed(error.to_string())
    }
}

/// For a reason that several claims share.
impl From<&Unanswered> for Unanswered {
    fn from(shared: &Unanswered) -> Self {
        shared.clone()
    }
}

/// The reason of a claim that needs `what`, which this host does not have.
pub fn missing(what: impl fmt::Display) -> Unanswered {
    Unanswered::Missing(what.to_string())
}

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

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("name", &self.name).field("claims", &self.claims).finish()
    }
}

/// A system whose claims can be reproduced: what a registry lists.
#[derive(Clone, Copy, Debug)]
pub struct System {
    /// The name of its command.
    pub name: &'static str,
    /// What it is, in a line of a list.
    pub about: &'static str,
    /// Its name in results, where older results have another than `name`.
    pub id: &'static str,
    /// Its targets file.
    pub targets: &'static str,
    /// The shipped profiles behind its modelled figures.
    pub profiles: &'static [&'static str],
    /// Whether [`Options::paper`] makes any count larger.
    pub has_paper_counts: bool,
    /// Every measurement.
    pub steps: fn() -> Result<Vec<Step>>,
}

impl System {
    /// The system's targets.
    ///
    /// # Errors
    /// As [`Targets::parse`].
    pub fn targets(&self) -> Result<Targets> {
        Targets::parse(self.targets)
    }

    /// Hashes of its profiles, by name.
    fn profiles(&self) -> BTreeMap<String, String> {
        let hash = |name: &str| {
            Profile::named(name).expect("invariant: a system's profiles are shipped").hash()
        };
        self.profiles.iter().map(|&name| (name.to_owned(), hash(name))).collect()
    }
}

/// Names shown for a prefix that no claim begins with.
const NEAREST: usize = 5;

/// Runs the system's steps and judges each of its claims; `progress` hears the name and place of
/// each step. Results go to `place` as they are made.
///
/// # Errors
/// `Kind::BadResult` when the targets cannot be read; `Kind::Argument` when no claim begins with
/// `only`, with the nearest ids, when the system has no larger counts for `paper`, and as
/// [`Record::begin`]; `Kind::Io`.
pub fn run(
    system: &System,
    options: &Options,
    place: Place<'_>,
    progress: impl FnMut(&str, usize, usize),
) -> Result<Saved> {
    if options.paper && !system.has_paper_counts {
        let what = format!("repro {} has no larger counts: leave --paper out", system.name);
        return Err(Error::new(Kind::Argument, what));
    }
    run_steps(system, (system.steps)()?, options, place, progress)
}

fn run_steps(
    system: &System,
    mut steps: Vec<Step>,
    options: &Options,
    place: Place<'_>,
    mut progress: impl FnMut(&str, usize, usize),
) -> Result<Saved> {
    let targets = system.targets()?;
    some_claim_begins_with(&targets, options.only.as_deref().unwrap_or(""))?;
    let mut environment = host::environment();
    environment.profiles = system.profiles();
    let wanted = |id: &str| options.only.as_deref().is_none_or(|o| id.starts_with(o));
    let empty = Run {
        schema: claims::SCHEMA.to_owned(),
        system: system.id.to_owned(),
        seed: targets.seed,
        revision: host::revision().to_owned(),
        environment,
        claims: Vec::new(),
    };
    let asked = Asked { quick: options.quick, paper: options.paper, only: options.only.clone() };
    let mut record = Record::begin(empty, asked, place)?;
    let wanted_ids = || targets.claims.iter().map(|t| t.id.as_str()).filter(|id| wanted(id));
    steps.retain(|s| s.claims.iter().any(|id| wanted(id) && !record.has(id)));
    // What follows from several claims counts those of the earlier session too.
    let options = &Options { kept: record.figures(), ..options.clone() };
    let total = steps.len();
    for (i, step) in steps.iter_mut().enumerate() {
        progress(step.name, i, total);
        log::info!("step {} of {total}: {}", i + 1, step.name);
        let answers = measured(step, options);
        assert_eq!(answers.len(), step.claims.len(), "{}: an answer a claim", step.name);
        // A step of a resumed run may have failed in part: what it answered then is kept.
        let is_open = |id: &str| wanted(id) && !record.has(id);
        let answered = step.claims.iter().zip(answers).filter(|(id, _)| is_open(id));
        let claims: Vec<Claim> = judged(&targets, answered).collect();
        record.add(claims)?;
    }
    let unanswered: Vec<&str> = wanted_ids().filter(|id| !record.has(id)).collect();
    let none = "no measurement answers this claim";
    record.add(unanswered.iter().map(|id| targets.get(id).failed(none)))?;
    record.finish(wanted_ids())
}

/// What a step answers. What steps share is made anew where it is not there, so that none depends
/// on how another one ended.
fn measured(step: &mut Step, options: &Options) -> Vec<Answer> {
    if mutant!("bench_panic_ends_run") {
        return (step.measure)(options);
    }
    catch_unwind(AssertUnwindSafe(|| (step.measure)(options))).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<&str>().copied();
        let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let why = format!("the measurement panicked: {}", words.unwrap_or("without words"));
        vec![Err(Unanswered::Failed(why)); step.claims.len()]
    })
}

fn judged<'a>(
    targets: &'a Targets,
    answered: impl Iterator<Item = (&'a String, Answer)> + 'a,
) -> impl Iterator<Item = Claim> + 'a {
    answered.map(|(id, answer)| match answer {
        Ok(figure) => targets.get(id).measured(&figure),
        Err(Unanswered::Failed(why)) if !mutant!("bench_failure_reads_skipped") => {
            targets.get(id).failed(why)
        }
        Err(why @ (Unanswered::Missing(_) | Unanswered::LeftOut(_) | Unanswered::Failed(_))) => {
            targets.get(id).skipped(why.to_string())
        }
    })
}

fn some_claim_begins_with(targets: &Targets, prefix: &str) -> Result<()> {
    if targets.claims.iter().any(|t| t.id.starts_with(prefix)) {
        return Ok(());
    }
    let mut near: Vec<(f64, &str)> =
        targets.claims.iter().map(|t| (likeness(&t.id, prefix), t.id.as_str())).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near: Vec<&str> = near.into_iter().take(NEAREST).map(|(_, id)| id).collect();
    let what =
        format!("--only {prefix}: no claim's id begins so; the nearest are {}", near.join(", "));
    Err(Error::new(Kind::Argument, what))
}

/// How like `prefix` is to `id`, or to the part of it before some dot.
fn likeness(id: &str, prefix: &str) -> f64 {
    let parts = id.match_indices('.').map(|(at, _)| &id[..at]);
    let parts = parts.chain(std::iter::once(id));
    parts.map(|part| strsim::jaro_winkler(part, prefix)).fold(0.0, f64::max)
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
            kept: BTreeMap::new(),
        }
    }

    const SYSTEM: System = System {
        name: "flash",
        about: "a system of the tests",
        id: "flash",
        targets: claims::SAMPLE,
        profiles: &["xlfdd", "tcp"],
        has_paper_counts: false,
        steps: || Ok(steps()),
    };

    #[test]
    fn results_name_the_profiles_behind_them() {
        let names: Vec<_> = SYSTEM.profiles().into_keys().collect();
        assert_eq!(names, ["tcp", "xlfdd"]);
    }

    #[test]
    fn larger_counts_are_refused_where_there_are_none() {
        let asked = Options { paper: true, ..options(None) };
        let refused = run(&SYSTEM, &asked, Place::default(), |_, _, _| ()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Argument);
    }

    fn steps() -> Vec<Step> {
        vec![Step {
            name: "two",
            claims: vec!["flash.ring.step_ns".into(), "flash.ring.vs_hand".into()],
            measure: Box::new(|_| vec![Ok(Figure::new(3.0, "n")), Err(missing("a peer"))]),
        }]
    }

    #[test]
    fn every_claim_gets_a_verdict_and_nothing_is_made_up() {
        let run = run(&SYSTEM, &options(None), Place::default(), |_, _, _| ());
        let Saved { run, is_complete, .. } = run.unwrap();
        assert!(is_complete);
        assert_eq!(run.claims.len(), SYSTEM.targets().unwrap().claims.len());
        assert_eq!((run.claims[0].status, run.claims[0].ours), (Status::Holds, Some(3.0)));
        let skipped = &run.claims[1];
        assert_eq!((skipped.status, skipped.ours), (Status::Skipped, None));
        assert_eq!(skipped.why, "missing: a peer");
        assert_eq!(run.count(Status::Failed), run.claims.len() - 2, "no step answers these");
    }

    #[test]
    fn a_measurement_that_fails_is_not_taken_for_skipped() {
        let answers = |_: &Options| -> Vec<Answer> {
            vec![
                Err("the peer ended with code 1".into()),
                Err(Unanswered::LeftOut("by --quick".into())),
            ]
        };
        let step = Step { measure: Box::new(answers), ..steps().remove(0) };
        let only = options(Some("flash.ring."));
        let saved = run_steps(&SYSTEM, vec![step], &only, Place::default(), |_, _, _| ()).unwrap();
        let [failed, skipped] = &saved.run.claims[..] else { panic!("two claims") };
        assert_eq!((failed.status, failed.ours), (Status::Failed, None));
        assert_eq!(failed.why, "the peer ended with code 1");
        assert_eq!((skipped.status, &skipped.why[..]), (Status::Skipped, "left out: by --quick"));
    }

    #[test]
    fn the_words_of_a_reason_decide_nothing() {
        // As a compiler or a peer may end its output.
        let answers = |_: &Options| -> Vec<Answer> {
            vec![Err("missing: operand".into()), Err("left out: of memory".to_owned().into())]
        };
        let step = Step { measure: Box::new(answers), ..steps().remove(0) };
        let only = options(Some("flash.ring."));
        let saved = run_steps(&SYSTEM, vec![step], &only, Place::default(), |_, _, _| ()).unwrap();
        let found = saved.run.claims.iter().map(|c| (c.status, c.why.as_str()));
        let failed =
            [(Status::Failed, "missing: operand"), (Status::Failed, "left out: of memory")];
        assert!(found.eq(failed), "{:?}", saved.run.claims);
    }

    #[test]
    fn a_claim_that_failed_is_measured_again_when_its_run_is_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let only = options(Some("flash.ring."));
        let run = |answer: Answer, resume| {
            let answers = move |_: &Options| -> Vec<Answer> {
                vec![Ok(Figure::new(3.0, "n")), answer.clone()]
            };
            let step = Step { measure: Box::new(answers), ..steps().remove(0) };
            let place = Place { path: Some(&path), resume };
            run_steps(&SYSTEM, vec![step], &only, place, |_, _, _| ()).unwrap().run.claims
        };
        assert_eq!(run(Err("out of memory".into()), false)[1].status, Status::Failed);
        let claims = run(Ok(Figure::new(1.0, "n")), true);
        assert_eq!((claims.len(), claims[1].status), (2, Status::Holds));
    }

    #[test]
    fn only_what_is_asked_for_is_measured() {
        let only = options(Some("flash.faults"));
        let run = run(&SYSTEM, &only, Place::default(), |name, _, _| {
            panic!("{name} was measured");
        });
        let ids: Vec<_> = run.unwrap().run.claims.into_iter().map(|c| c.id).collect();
        assert_eq!(ids, ["flash.faults.undetected"]);
    }

    #[test]
    fn a_prefix_that_no_claim_has_is_refused_with_the_nearest_ids() {
        let only = options(Some("flash.rign"));
        let refused = run(&SYSTEM, &only, Place::default(), |_, _, _| ()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Argument);
        assert!(refused.to_string().contains("flash.ring.step_ns"), "{refused}");
    }

    #[test]
    fn a_step_that_panics_fails_and_ends_no_other() {
        let panicking = |_: &Options| -> Vec<Answer> { panic!("no room left") };
        let panics = Step { measure: Box::new(panicking), ..steps().remove(0) };
        let answers = |_: &Options| -> Vec<Answer> { vec![Ok(Figure::new(0.0, "n"))] };
        let claims = vec!["flash.faults.undetected".to_owned()];
        let sound = Step { name: "sound", claims, measure: Box::new(answers) };
        let (steps, all) = (vec![panics, sound], options(None));
        let saved = run_steps(&SYSTEM, steps, &all, Place::default(), |_, _, _| ()).unwrap();
        let [first, second, last] = &saved.run.claims[..] else { panic!("three claims") };
        assert_eq!((first.status, second.status), (Status::Failed, Status::Failed));
        assert_eq!(first.why, "the measurement panicked: no room left");
        assert_eq!(last.status, Status::Holds, "it was measured all the same");
    }

    /// Two steps, before the second of which the run is unwound, as it would not get on at Ctrl-C.
    #[test]
    fn what_was_measured_before_an_interruption_is_not_measured_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let two = |second: fn(&Options) -> Vec<Answer>, first: fn(&Options) -> Vec<Answer>| {
            let step = |name, id: &str, measure: fn(&Options) -> Vec<Answer>| Step {
                name,
                claims: vec![id.to_owned()],
                measure: Box::new(measure),
            };
            vec![
                step("first", "flash.ring.step_ns", first),
                step("second", "flash.ring.vs_hand", second),
            ]
        };
        let only = options(Some("flash.ring."));
        let at = |resume| Place { path: Some(&path), resume };
        let cut = std::panic::catch_unwind(|| {
            let steps = two(|_| Vec::new(), |_| vec![Ok(Figure::new(3.0, "n"))]);
            run_steps(&SYSTEM, steps, &only, at(false), |name, _, _| assert_eq!(name, "first"))
        });
        assert!(cut.is_err() && !path.exists());
        let half = |o: &Options| -> Vec<Answer> {
            vec![Ok(Figure::new(o.kept["flash.ring.step_ns"] / 2.0, "n"))]
        };
        let steps = two(half, |_| Vec::new());
        let once = |name: &str, _: usize, _: usize| assert_ne!(name, "first", "measured again");
        let saved = run_steps(&SYSTEM, steps, &only, at(true), once).unwrap();
        let ours = |n: usize| saved.run.claims[n].ours;
        assert_eq!((ours(0), ours(1)), (Some(3.0), Some(1.5)), "later steps see what was kept");
        assert!(path.exists() && saved.is_complete);
    }
}
