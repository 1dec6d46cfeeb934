//! Claims, targets and the verdict between them: the schema `littoral.repro/1`.
//!
//! A results file is an array with one [`Run`] a system; a run holds one [`Claim`] an id of
//! its targets file, in that file's order.
//!
//! Invariants
//! - A claim's verdict follows from its figure, its conditions and its target alone. Checked by
//!   `the_verdict_follows_the_figure`, `a_failed_condition_makes_a_good_figure_short_and_says_so`.
//! - A claim without a figure is `skipped` or `failed` and says why; a figure that is not finite is
//!   `short`. Checked by `the_verdict_follows_the_figure`,
//!   `every_claim_gets_a_verdict_and_nothing_is_made_up`.
//! - A claim for which no target was set is `reported`: it counts neither as held nor as short.
//!   Checked by `a_figure_without_a_target_is_reported_and_never_holds`.
//! - A proof that a target cannot be reached still reads `short`, with the proof in `why`. Checked
//!   by `a_proof_that_a_target_cannot_be_reached_reads_short`.

use littoral_base::clock::ClockKind;
use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::error::{Error, Kind, Result};
use crate::host::Environment;

/// The schema's name and version.
pub const SCHEMA: &str = "littoral.repro/1";

/// Which side of the target is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// At or below the target.
    Lower,
    /// At or above the target.
    Higher,
    /// Exactly the target.
    Equal,
}

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The target is reached.
    Holds,
    /// It is not.
    Short,
    /// It was not measured: something that it needs is missing, or it was left out.
    Skipped,
    /// Measuring it ended with an error.
    Failed,
    /// It was measured, and the work sets no target for it.
    Reported,
}

/// One claim of a targets file: what is claimed, before anything is measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The claim's name.
    pub id: String,
    /// What is measured, in one sentence.
    pub statement: String,
    /// The paper's figure, where it has one.
    pub paper: Option<f64>,
    /// What is promised; absent where a figure is only reported.
    pub target: Option<f64>,
    /// The unit of all three figures.
    pub unit: String,
    /// Which side of the target is good.
    pub better: Better,
    /// Whether the target itself does not count as reached.
    #[serde(default)]
    pub strict: bool,
    /// Which clock stands behind the figure.
    pub clock: ClockKind,
}

/// A figure and what has to be said about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The measured value in the claim's unit.
    pub value: f64,
    /// Conditions that must hold too, each with its words; one that fails makes the claim `short`.
    pub conditions: Vec<(bool, String)>,
    /// What was modelled, how many repetitions, the figures behind a ratio.
    pub notes: Vec<String>,
    /// The series behind the value.
    pub charts: Vec<Chart>,
}

impl Figure {
    /// A figure without conditions.
    pub fn new(value: f64, note: impl Into<String>) -> Self {
        Figure { value, notes: vec![note.into()], ..Figure::default() }
    }

    /// Adds a condition that must hold for the claim to hold.
    #[must_use]
    pub fn provided(mut self, holds: bool, words: impl Into<String>) -> Self {
        self.conditions.push((holds, words.into()));
        self
    }

    /// Adds the series behind the value.
    #[must_use]
    pub fn drawn(mut self, chart: Chart) -> Self {
        self.charts.push(chart);
        self
    }

    fn why(&self) -> String {
        let failed = self.conditions.iter().filter(|c| !c.0);
        let failed = failed.map(|(_, words)| format!("not so: {words}"));
        failed.chain(self.notes.iter().cloned()).collect::<Vec<_>>().join("; ")
    }
}

impl Target {
    /// Whether `value` reaches this target; without a target every figure does.
    pub fn is_reached(&self, value: f64) -> bool {
        let target = self.target.unwrap_or(value);
        let at = value == target && !(self.strict && self.target.is_some());
        value.is_finite()
            && match self.better {
                Better::Lower => at || value < target,
                Better::Higher => at || value > target,
                Better::Equal => value == target,
            }
    }

    /// The claim with a measured figure.
    pub fn measured(&self, figure: &Figure) -> Claim {
        let holds = self.is_reached(figure.value) && figure.conditions.iter().all(|c| c.0);
        let status = match (holds, self.target) {
            (true, Some(_)) => Status::Holds,
            (true, None) => Status::Reported,
            (false, _) => Status::Short,
        };
        let ours = figure.value.is_finite().then_some(figure.value);
        let unmet = figure.conditions.iter().filter(|c| !c.0).map(|(_, words)| words.clone());
        Claim {
            unmet: unmet.collect(),
            charts: figure.charts.clone(),
            ..self.claim(ours, status, figure.why())
        }
    }

    /// The claim without a figure, because it was not measured.
    pub fn skipped(&self, why: impl Into<String>) -> Claim {
        self.claim(None, Status::Skipped, why.into())
    }

    /// The claim without a figure, because measuring it ended with an error.
    pub fn failed(&self, why: impl Into<String>) -> Claim {
        self.claim(None, Status::Failed, why.into())
    }

    fn claim(&self, ours: Option<f64>, status: Status, why: String) -> Claim {
        Claim {
            id: self.id.clone(),
            statement: self.statement.clone(),
            paper: self.paper,
            target: self.target,
            ours,
            unit: self.unit.clone(),
            better: self.better,
            clock: self.clock,
            status,
            why,
            unmet: Vec::new(),
            charts: Vec::new(),
        }
    }
}

/// One claim with its figure and verdict, as a results file holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The claim's name.
    pub id: String,
    /// What is measured, in one sentence.
    pub statement: String,
    /// The paper's figure, where it has one.
    pub paper: Option<f64>,
    /// What is promised; absent where a figure is only reported.
    pub target: Option<f64>,
    /// What was measured; absent when nothing was.
    pub ours: Option<f64>,
    /// The unit of all three figures.
    pub unit: String,
    /// Which side of the target is good.
    pub better: Better,
    /// Which clock stands behind the figure.
    pub clock: ClockKind,
    /// The verdict.
    pub status: Status,
    /// What was modelled and counted, and for `short`, `skipped` and `failed` the cause.
    pub why: String,
    /// Conditions that must hold beside the target and do not.
    #[serde(default)]
    pub unmet: Vec<String>,
    /// The series behind the figure, where it has any.
    #[serde(default)]
    pub charts: Vec<Chart>,
}

impl Claim {
    /// How far on the good side of its target the figure lies: 1 is at the target, 2 twice as good.
    /// Absent where there is no figure or no ratio (a target of zero).
    pub fn headroom(&self) -> Option<f64> {
        let target = self.target.filter(|t| *t > 0.0)?;
        let ours = self.ours.filter(|o| *o > 0.0)?;
        match self.better {
            Better::Lower => Some(target / ours),
            Better::Higher => Some(ours / target),
            Better::Equal => None,
        }
    }
}

/// The claims of one system as one run measured them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// The system's name, such as `flash`.
    pub system: String,
    /// The seed every generated input came from.
    pub seed: u64,
    /// The revision of the source.
    pub revision: String,
    /// Where it ran.
    pub environment: Environment,
    /// One entry a claim.
    pub claims: Vec<Claim>,
}

impl Run {
    /// How many claims have the given status.
    pub fn count(&self, status: Status) -> usize {
        self.claims.iter().filter(|c| c.status == status).count()
    }
}

/// The targets of one system.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// The seed of the system's generated inputs.
    pub seed: u64,
    /// Its claims in the file's order.
    pub claims: Vec<Target>,
}

/// A system's targets file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What the system is, for a reader.
    #[serde(rename = "statement")]
    _statement: String,
    seed: u64,
    /// What its claims' ids begin with; spaces between.
    ids: String,
    claim: Vec<Target>,
}

impl Targets {
    /// The targets of `text`, a targets file.
    ///
    /// # Errors
    /// `Kind::BadResult` when a field is missing or unknown, when a claim's id begins with none of
    /// `ids`, and when an id is there twice.
    pub fn parse(text: &str) -> Result<Targets> {
        let file: File = toml::from_str(text)
            .map_err(|e| Error::with_source(Kind::BadResult, "a targets file", e))?;
        let mut seen = std::collections::BTreeSet::new();
        for claim in &file.claim {
            let id = &claim.id;
            let is_ours = |p: &str| id.strip_prefix(p).is_some_and(|rest| rest.starts_with('.'));
            if !file.ids.split(' ').any(is_ours) {
                let what = format!("claim {id} begins with none of '{}'", file.ids);
                return Err(Error::new(Kind::BadResult, what));
            }
            if !seen.insert(id) {
                return Err(Error::new(Kind::BadResult, format!("claim {id} is there twice")));
            }
        }
        Ok(Targets { seed: file.seed, claims: file.claim })
    }

    /// The target called `id`.
    ///
    /// # Panics
    /// When there is none: the caller's id is wrong.
    pub fn get(&self, id: &str) -> &Target {
        let found = self.claims.iter().find(|t| t.id == id);
        found.unwrap_or_else(|| panic!("no target has the id {id}"))
    }
}

/// A targets file of the tests.
#[cfg(test)]
pub(crate) const SAMPLE: &str = r#"
statement = "three claims"
seed = 1
ids = "flash"

[[claim]]
id = "flash.ring.step_ns"
statement = "s"
target = 4.0
unit = "ns"
better = "lower"
clock = "wall"

[[claim]]
id = "flash.ring.vs_hand"
statement = "s"
target = 1.25
unit = "ratio"
better = "lower"
clock = "wall"

[[claim]]
id = "flash.faults.undetected"
statement = "s"
target = 0.0
unit = "count"
better = "equal"
clock = "count"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn target(better: Better, strict: bool) -> Target {
        Target {
            id: "x.y".into(),
            statement: "s".into(),
            paper: None,
            target: Some(1.0),
            unit: "ratio".into(),
            better,
            strict,
            clock: ClockKind::Wall,
        }
    }

    #[test]
    fn the_verdict_follows_the_figure() {
        let status = |t: &Target, v: f64| t.measured(&Figure::new(v, "")).status;
        let lower = target(Better::Lower, false);
        assert_eq!((status(&lower, 1.0), status(&lower, 1.1)), (Status::Holds, Status::Short));
        let strict = target(Better::Lower, true);
        assert_eq!((status(&strict, 1.0), status(&strict, 0.9)), (Status::Short, Status::Holds));
        let higher = target(Better::Higher, false);
        assert_eq!((status(&higher, 0.9), status(&higher, 1.0)), (Status::Short, Status::Holds));
        let equal = target(Better::Equal, false);
        assert_eq!((status(&equal, 0.0), status(&equal, 1.0)), (Status::Short, Status::Holds));
        assert_eq!(status(&lower, f64::NAN), Status::Short, "no number is no success");
        assert_eq!(lower.measured(&Figure::new(f64::NAN, "")).ours, None);
    }

    #[test]
    fn a_figure_without_a_target_is_reported_and_never_holds() {
        let open = Target { target: None, ..target(Better::Lower, true) };
        assert_eq!(open.measured(&Figure::new(7.0, "")).status, Status::Reported);
        assert_eq!(open.measured(&Figure::new(f64::NAN, "")).status, Status::Short);
        let broken = Figure::new(7.0, "").provided(false, "no violation");
        assert_eq!(open.measured(&broken).status, Status::Short);
        assert_eq!(open.measured(&Figure::new(7.0, "")).headroom(), None);
    }

    #[test]
    fn a_proof_that_a_target_cannot_be_reached_reads_short() {
        let proof = "no device of this latency reaches it: 4 us / 2 contexts";
        let claim = target(Better::Lower, false).measured(&Figure::new(1.5, proof));
        assert_eq!((claim.status, claim.why.as_str()), (Status::Short, proof));
    }

    #[test]
    fn a_failed_condition_makes_a_good_figure_short_and_says_so() {
        let figure = Figure::new(0.5, "note").provided(false, "reads a second not lower");
        let claim = target(Better::Lower, false).measured(&figure);
        assert_eq!(claim.status, Status::Short);
        assert_eq!(claim.why, "not so: reads a second not lower; note");
        assert_eq!(claim.unmet, ["reads a second not lower"]);
        assert_eq!(claim.headroom(), Some(2.0));
    }

    #[test]
    fn a_targets_file_is_read_whole_or_refused() {
        let targets = Targets::parse(SAMPLE).unwrap();
        assert_eq!((targets.seed, targets.claims.len()), (1, 3));
        assert_eq!(targets.get("flash.faults.undetected").better, Better::Equal);
        for (from, to, word) in [
            ("ids = \"flash\"", "ids = \"fla zbtree\"", "flash.ring.step_ns"),
            ("flash.ring.vs_hand", "flash.ring.step_ns", "twice"),
            ("seed = 1", "sede = 1", "targets file"),
            ("unit = \"ns\"\n", "", "`unit`"),
            ("clock = \"wall\"\n", "", "`clock`"),
        ] {
            let refused = Targets::parse(&SAMPLE.replace(from, to)).unwrap_err();
            assert_eq!(refused.kind(), Kind::BadResult);
            assert!(refused.to_string().contains(word), "{refused}");
        }
    }
}
