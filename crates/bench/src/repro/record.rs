//! A run's results on disk while they are made, so that an interrupted run can go on.
//!
//! Life of a record: [`Record::begin`] proves that the results can be written before anything is
//! measured; [`Record::add`] writes what has been judged so far to `FILE.part`, whole; the last
//! write goes to `FILE`, and `FILE.part` is removed. With `resume` a record begins with the claims
//! of `FILE.part`, or of a finished `FILE`, less those that failed or
//! were skipped.
//!
//! Invariants
//! - `FILE` is never half a run: it keeps what it held until the run is complete. Checked by
//!   `a_run_that_was_cut_short_goes_on_with_its_claims`.
//! - `FILE.part` is a results file at every moment, of the same shape, with `is_complete` false.
//!   Checked by `a_run_that_was_cut_short_goes_on_with_its_claims`.
//! - A run goes on only where system, seed, revision, build, options and host are those it began
//!   with. Checked by `what_differs_from_the_run_to_resume_is_named`,
//!   `a_run_of_another_build_is_not_resumed`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use littoral_base::mutant;
use serde::{Deserialize, Serialize};

use crate::claims::{Claim, Run, Status};
use crate::error::{Error, Kind, Result};
use crate::files;
use crate::host::{self, Environment};

/// What was asked of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Fewer repetitions.
    pub quick: bool,
    /// The largest counts.
    pub paper: bool,
    /// Only claims whose id begins with this.
    pub only: Option<String>,
}

/// A run as its file holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// The run; its claims are those judged so far.
    #[serde(flatten)]
    pub run: Run,
    /// What tells builds of one revision apart; see [`host::build`].
    #[serde(default = "unknown")]
    pub build: String,
    /// What was asked.
    #[serde(default)]
    pub options: Asked,
    /// Whether every claim asked for has been judged.
    #[serde(default = "always")]
    pub is_complete: bool,
}

fn always() -> bool {
    true
}

/// The build of a file from before builds were told apart.
fn unknown() -> String {
    "unknown".to_owned()
}

/// A run that is being made; see the module's page.
#[derive(Debug)]
pub struct Record {
    saved: Saved,
    path: Option<PathBuf>,
}

/// Where an unfinished run is kept, and whether it may be taken up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    /// The results file.
    pub path: Option<&'a Path>,
    /// Go on with the claims of an unfinished run.
    pub resume: bool,
}

/// The file that holds an unfinished run of `path`.
pub fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

impl Record {
    /// A record of `run`, which has no claims yet.
    ///
    /// # Errors
    /// `Kind::Io` when the results could not be written; `Kind::Argument` when an unfinished run is
    /// there and `resume` is not set, or when the run to resume was another.
    pub fn begin(run: Run, options: Asked, place: Place<'_>) -> Result<Record> {
        let saved = Saved { run, build: host::build().to_owned(), options, is_complete: false };
        let mut record = Record { saved, path: place.path.map(Path::to_owned) };
        let Some(path) = place.path else { return Ok(record) };
        if !mutant!("bench_results_path_untried") {
            files::prove_writable(path)?;
        }
        if !files::is_replaceable(path) {
            return Ok(record);
        }
        let part = part_of(path);
        files::prove_writable(&part)?;
        if place.resume {
            record.take_up(path, &part)?;
        } else if part.exists() {
            let what = format!(
                "{} holds an unfinished run; go on with --resume, or remove it",
                part.display()
            );
            return Err(Error::new(Kind::Argument, what));
        }
        Ok(record)
    }

    /// Takes the claims of an earlier run of the same kind.
    fn take_up(&mut self, path: &Path, part: &Path) -> Result<()> {
        let Some(found) = [part, path].into_iter().find(|p| p.exists()) else { return Ok(()) };
        let earlier = read(found)?;
        if let Some((what, then, now)) = difference(&earlier, &self.saved) {
            let text = format!(
                "{} cannot be resumed: its {what} is {then}, this run's is {now}; run without \
                 --resume and another --json, or remove it",
                found.display()
            );
            return Err(Error::new(Kind::Argument, text));
        }
        self.saved.run.claims = earlier.run.claims;
        let has_result = |c: &Claim| !matches!(c.status, Status::Failed | Status::Skipped);
        self.saved.run.claims.retain(has_result);
        Ok(())
    }

    /// Whether the claim has been judged.
    pub fn has(&self, id: &str) -> bool {
        self.saved.run.claims.iter().any(|c| c.id == id)
    }

    /// The figures of the claims judged so far, by id.
    pub fn figures(&self) -> BTreeMap<String, f64> {
        self.saved.run.claims.iter().filter_map(|c| Some((c.id.clone(), c.ours?))).collect()
    }

    /// Adds judged claims and writes the record.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub fn add(&mut self, claims: impl IntoIterator<Item = Claim>) -> Result<()> {
        self.saved.run.claims.extend(claims);
        match self.path.as_deref().filter(|p| files::is_replaceable(p)) {
            Some(path) => write(&part_of(path), &self.saved),
            None => Ok(()),
        }
    }

    /// Ends the run: its claims in the order of `ids`, written under the final name.
    ///
    /// # Errors
    /// `Kind::Io`; an unfinished run's file then stays.
    pub fn finish<'a>(mut self, ids: impl Iterator<Item = &'a str>) -> Result<Saved> {
        let claims = std::mem::take(&mut self.saved.run.claims);
        let of = |id: &str| claims.iter().find(|c| c.id == id).cloned();
        self.saved.run.claims = ids.filter_map(of).collect();
        self.saved.is_complete = true;
        if let Some(path) = &self.path {
            write(path, &self.saved)?;
            if files::is_replaceable(path) {
                // The results are in place; a part that cannot be removed is refused next time.
                let _ = std::fs::remove_file(part_of(path));
            }
        }
        Ok(self.saved)
    }
}

fn write(path: &Path, saved: &Saved) -> Result<()> {
    let text = serde_json::to_string_pretty(&[saved])
        .map_err(|e| Error::with_source(Kind::BadResult, "cannot show the results", e))?;
    files::write_whole(path, format!("{text}\n").as_bytes())
}

fn read(path: &Path) -> Result<Saved> {
    let text = files::read_text(path)?;
    let found: std::result::Result<Vec<Saved>, _> = serde_json::from_str(&text);
    let place = path.display();
    let mut runs =
        found.map_err(|e| Error::with_source(Kind::BadResult, format!("{place}: not a run"), e))?;
    match runs.len() {
        1 => Ok(runs.remove(0)),
        n => Err(Error::new(Kind::BadResult, format!("{place}: holds {n} runs, wanted one"))),
    }
}

/// The first thing in which two runs differ so that their figures must not be mixed.
fn difference(then: &Saved, now: &Saved) -> Option<(&'static str, String, String)> {
    let (a, b) = (&then.run, &now.run);
    let pairs = [
        ("schema", a.schema.clone(), b.schema.clone()),
        ("system", a.system.clone(), b.system.clone()),
        ("seed", a.seed.to_string(), b.seed.to_string()),
        ("revision", a.revision.clone(), b.revision.clone()),
        ("set of options", words(&then.options), words(&now.options)),
        ("host", place(&a.environment), place(&b.environment)),
        ("build", then.build.clone(), now.build.clone()),
    ];
    let is_compared = |what: &str| match what {
        "host" => !mutant!("bench_resume_on_any_host"),
        "build" => !mutant!("bench_resume_of_any_build"),
        _ => true,
    };
    pairs.into_iter().find(|(what, a, b)| is_compared(what) && a != b)
}

fn words(asked: &Asked) -> String {
    let flags = [(asked.quick, "--quick"), (asked.paper, "--paper")];
    let flags = flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name.to_owned());
    let only = asked.only.iter().map(|o| format!("--only {o}"));
    let all: Vec<String> = flags.chain(only).collect();
    if all.is_empty() { "(none)".to_owned() } else { all.join(" ") }
}

fn place(environment: &Environment) -> String {
    let e = environment;
    format!(
        "{}, {} cores, {} bytes, {}, clock {}, huge pages {}, profiles {:?}",
        e.cpu,
        e.cores_count,
        e.memory_bytes,
        e.kernel,
        e.clocksource,
        e.transparent_huge_pages,
        e.profiles
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{self, Figure, Targets};
    use crate::host::environment;

    fn run() -> Run {
        Run {
            schema: claims::SCHEMA.to_owned(),
            system: "flash".to_owned(),
            seed: 7,
            revision: "r1".to_owned(),
            environment: environment(),
            claims: Vec::new(),
        }
    }

    fn claim(i: usize) -> Claim {
        let targets = Targets::parse(claims::SAMPLE).unwrap().claims;
        targets[i].measured(&Figure::new(1.0, "measured"))
    }

    #[test]
    fn a_run_that_was_cut_short_goes_on_with_its_claims() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let at = |resume| Place { path: Some(&path), resume };
        let mut record = Record::begin(run(), Asked::default(), at(false)).unwrap();
        record.add([claim(1)]).unwrap();
        drop(record);
        assert!(!path.exists(), "an unfinished run has no final name");
        assert!(!read(&part_of(&path)).unwrap().is_complete);
        let refused = Record::begin(run(), Asked::default(), at(false)).unwrap_err();
        assert!(refused.to_string().contains("r.json.part") && refused.kind() == Kind::Argument);
        let mut record = Record::begin(run(), Asked::default(), at(true)).unwrap();
        assert!(record.has(&claim(1).id) && !record.has(&claim(0).id));
        record.add([claim(0)]).unwrap();
        let ids = [claim(0).id, claim(1).id];
        let saved = record.finish(ids.iter().map(String::as_str)).unwrap();
        assert_eq!(saved.run.claims, [claim(0), claim(1)], "in the order of the targets");
        assert_eq!(read(&path).unwrap(), saved);
        assert!(!part_of(&path).exists());
    }

    #[test]
    fn what_differs_from_the_run_to_resume_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let at = |resume| Place { path: Some(&path), resume };
        Record::begin(run(), Asked::default(), at(false)).unwrap().add([claim(0)]).unwrap();
        let quick = Asked { quick: true, ..Asked::default() };
        let mut other_host = run();
        other_host.environment.cpu = "another processor".to_owned();
        let mut other_pages = run();
        other_pages.environment.transparent_huge_pages = "as never before".to_owned();
        for (changed, asked, word) in [
            (Run { seed: 8, ..run() }, Asked::default(), "its seed is 7, this run's is 8"),
            (Run { revision: "r2".into(), ..run() }, Asked::default(), "revision is r1"),
            (Run { system: "sdtm".into(), ..run() }, Asked::default(), "system is flash"),
            (run(), quick, "set of options is (none), this run's is --quick"),
            (other_host, Asked::default(), "another processor"),
            (other_pages, Asked::default(), "huge pages as never before"),
        ] {
            let error = Record::begin(changed, asked, at(true)).unwrap_err();
            assert_eq!(error.kind(), Kind::Argument);
            assert!(error.to_string().contains(word), "{error}");
        }
        let mut later = run();
        later.environment.load_average_count += 3.0;
        assert!(Record::begin(later, Asked::default(), at(true)).is_ok(), "load may differ");
    }

    /// Two builds of changed sources have one revision, which ends in `-dirty`.
    #[test]
    fn a_run_of_another_build_is_not_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let at = |resume| Place { path: Some(&path), resume };
        Record::begin(run(), Asked::default(), at(false)).unwrap().add([claim(0)]).unwrap();
        let text = std::fs::read_to_string(part_of(&path)).unwrap();
        let changed = text.replace(host::build(), "0badc0de, 9 bytes");
        assert_ne!(changed, text, "the file tells its build");
        std::fs::write(part_of(&path), changed).unwrap();
        let error = Record::begin(run(), Asked::default(), at(true)).unwrap_err();
        assert_eq!(error.kind(), Kind::Argument);
        assert!(error.to_string().contains("its build is 0badc0de, 9 bytes"), "{error}");
        std::fs::write(part_of(&path), text).unwrap();
        assert!(Record::begin(run(), Asked::default(), at(true)).unwrap().has(&claim(0).id));
    }

    #[test]
    fn a_path_that_cannot_be_written_is_refused_before_anything_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["absent/r.json", "."] {
            let path = dir.path().join(name);
            let place = Place { path: Some(&path), resume: false };
            let error = Record::begin(run(), Asked::default(), place).unwrap_err();
            assert_eq!(error.kind(), Kind::Io, "{name}: {error}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
