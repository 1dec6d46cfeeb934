//! The page's template and what is put into it.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use crate::claims::{Claim, Run, Status};
use crate::error::{Error, Kind, Result};
use crate::report::{Document, plot, study::Study};

const TEMPLATE: &str = include_str!("page.html");

#[derive(Serialize)]
struct Page<'a> {
    runs: Vec<RunPart<'a>>,
    studies: Vec<StudyPart<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    claim: &'a Claim,
    paper_text: String,
    target_text: String,
    ours_text: String,
}

#[derive(Serialize)]
struct RunPart<'a> {
    run: &'a Run,
    rows: Vec<Row<'a>>,
    holds: usize,
    short: usize,
    skipped: usize,
    plot: Option<String>,
}

#[derive(Serialize)]
struct StudyPart<'a> {
    study: &'a Study,
    plot: Option<String>,
}

/// Renders `documents` into the page.
pub(super) fn render(documents: &[Document]) -> Result<String> {
    let mut runs = Vec::new();
    let mut studies = Vec::new();
    for document in documents {
        match document {
            Document::Run(run) => runs.push(run_part(run)?),
            Document::Study(study) => {
                studies.push(StudyPart { study, plot: plot::study(study)? });
            }
        }
    }
    let mut jinja = Environment::new();
    jinja.set_auto_escape_callback(|_| AutoEscape::Html);
    let page = jinja.render_str(TEMPLATE, Serde(Page { runs, studies }));
    page.map_err(|e| Error::with_source(Kind::BadResult, "cannot fill the page", e))
}

fn run_part(run: &Run) -> Result<RunPart<'_>> {
    Ok(RunPart {
        run,
        rows: run.claims.iter().map(row).collect(),
        holds: run.count(Status::Holds),
        short: run.count(Status::Short),
        skipped: run.count(Status::Skipped),
        plot: plot::claims(&run.claims)?,
    })
}

fn row(claim: &Claim) -> Row<'_> {
    Row {
        claim,
        paper_text: figure(claim.paper),
        target_text: figure(claim.target),
        ours_text: figure(claim.ours),
    }
}

/// A figure with as many digits as it deserves; nothing where there is none.
pub(super) fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(v) if v.fract() == 0.0 && v.abs() < 1e15 => format!("{v:.0}"),
        Some(v) if v.abs() >= 100.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.3}"),
    }
}
