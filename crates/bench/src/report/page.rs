//! The page's template and what is put into it.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use crate::chart::Chart;
use crate::claims::{Claim, Run, Status};
use crate::error::{Error, Kind, Result};
use crate::report::{Document, chart_page, cut_short, figure, study_page};
use crate::repro::record::Saved;

const TEMPLATE: &str = include_str!("page.html");

#[derive(Serialize)]
struct Page<'a> {
    runs: Vec<RunPart<'a>>,
    studies: Vec<StudyPart>,
    pushes: Vec<PushPart<'a>>,
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
    /// One sentence that says how the run ended.
    verdict: String,
    shorts: Vec<Row<'a>>,
    fails: Vec<Row<'a>>,
    rows: Vec<Row<'a>>,
    bars: Vec<Bar<'a>>,
    /// The charts of the claims, drawn.
    figures: Vec<String>,
    holds: usize,
    short: usize,
    skipped: usize,
    failed: usize,
}

/// How far a figure lies from its target, as a bar from the middle of its track.
#[derive(Serialize)]
struct Bar<'a> {
    id: &'a str,
    status: Status,
    left: String,
    width: String,
    text: String,
}

/// A study of computing near storage.
#[derive(Serialize)]
struct PushPart<'a> {
    title: &'a str,
    sentence: &'a str,
    figures: Vec<String>,
}

#[derive(Serialize)]
struct StudyPart {
    body: String,
}

/// Renders `documents` into the page.
pub(super) fn render(documents: &[Document]) -> Result<String> {
    let mut runs = Vec::new();
    let mut studies = Vec::new();
    let mut pushes = Vec::new();
    for document in documents {
        match document {
            Document::Run(saved) => runs.push(run_part(saved)?),
            Document::Study(study) => {
                studies.push(StudyPart { body: study_page::render(study)? });
            }
            Document::Push(study) => pushes.push(PushPart {
                title: &study.title,
                sentence: &study.sentence,
                figures: figures(&study.charts, "")?,
            }),
        }
    }
    let mut jinja = Environment::new();
    jinja.set_auto_escape_callback(|_| AutoEscape::Html);
    let page = jinja.render_str(TEMPLATE, Serde(Page { runs, studies, pushes }));
    page.map_err(|e| Error::with_source(Kind::BadResult, "cannot fill the page", e))
}

fn run_part(saved: &Saved) -> Result<RunPart<'_>> {
    let run = &saved.run;
    let of = |status: Status| -> Vec<Row<'_>> {
        run.claims.iter().filter(|c| c.status == status).map(row).collect()
    };
    let mut drawn = Vec::new();
    for claim in &run.claims {
        drawn.extend(figures(&claim.charts, &claim.id)?);
    }
    Ok(RunPart {
        run,
        verdict: verdict(run) + cut_short(saved),
        shorts: of(Status::Short),
        fails: of(Status::Failed),
        bars: run.claims.iter().filter_map(bar).collect(),
        figures: drawn,
        rows: run.claims.iter().map(row).collect(),
        holds: run.count(Status::Holds),
        short: run.count(Status::Short),
        skipped: run.count(Status::Skipped),
        failed: run.count(Status::Failed),
    })
}

/// The charts of a claim or, without an id, of a study.
fn figures(charts: &[Chart], id: &str) -> Result<Vec<String>> {
    charts.iter().map(|chart| chart_page::render(chart, id)).collect()
}

fn verdict(run: &Run) -> String {
    let (holds, short) = (run.count(Status::Holds), run.count(Status::Short));
    let judged = holds + short;
    let mut text = match (judged, short) {
        (0, _) => "no claim was judged".to_owned(),
        (_, 0) => format!("every claim that was judged holds ({holds})"),
        _ => format!("{holds} of {judged} claims that were judged hold, {short} fall short"),
    };
    for (count, words) in [
        (run.count(Status::Reported), "reported without a target"),
        (run.count(Status::Skipped), "not measured"),
        (run.count(Status::Failed), "failed to be measured"),
    ] {
        if count > 0 {
            text.push_str(&format!("; {count} {words}"));
        }
    }
    text + "."
}

/// The bar of a claim on a logarithmic axis from a tenth to ten times; what lies beyond ends there.
fn bar(claim: &Claim) -> Option<Bar<'_>> {
    let headroom = claim.headroom()?;
    let end = 50.0 + 50.0 * headroom.log10().clamp(-1.0, 1.0);
    let text =
        if headroom >= 100.0 { format!("{headroom:.0}x") } else { format!("{headroom:.2}x") };
    Some(Bar {
        id: &claim.id,
        status: claim.status,
        left: format!("{:.1}", end.min(50.0)),
        width: format!("{:.1}", (end - 50.0).abs()),
        text,
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
