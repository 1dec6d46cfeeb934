//! Results into one self-contained HTML page: tables, curves as inline SVG, a definition on hover.
//!
//! - The page loads nothing: no script, no font, no image from elsewhere.
//! - Colours follow the reader's light or dark setting.
//! - Input is what littoral itself wrote: arrays of `littoral.repro/1` runs, `littoral.whatif/2`
//!   studies, and what `push whatif` and `push sweep` print; anything else is refused by name.

mod chart_page;
mod markdown;
mod page;
mod push_study;
mod study_page;
#[cfg(test)]
pub(crate) use study_page::sample::example as study_example;

pub use push_study::PushStudy;

use std::path::Path;

use serde_json::Value;

use crate::claims;
use crate::error::{Error, Kind, Result};
use crate::files;
use crate::repro::record::Saved;
use crate::whatif::study::{self, Study};

/// What a results file held.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// Claims of one system, of a run that may have been cut short.
    Run(Box<Saved>),
    /// A what-if study.
    Study(Box<Study>),
    /// A study of computing near storage.
    Push(Box<PushStudy>),
}

/// Reads one results file.
///
/// # Errors
/// `Kind::Io`, `Kind::BadResult` or `Kind::UnknownSchema`, each with the file's path.
pub fn read(path: &Path) -> Result<Vec<Document>> {
    parse(&files::read_text(path)?).map_err(|e| e.in_context(path.display()))
}

/// Understands the text of one results file.
///
/// # Errors
/// `Kind::BadResult` when it is not JSON of the shape its schema says, `Kind::UnknownSchema` when
/// this build does not know the schema.
pub fn parse(text: &str) -> Result<Vec<Document>> {
    let value: Value = serde_json::from_str(text)
        .map_err(|e| Error::with_source(Kind::BadResult, "not a results file", e))?;
    let documents = match value {
        Value::Array(items) => items,
        one => vec![one],
    };
    if documents.is_empty() {
        return Err(Error::new(Kind::BadResult, "holds no result; run `littoral repro` first"));
    }
    documents.into_iter().map(document).collect()
}

fn document(value: Value) -> Result<Document> {
    let schema = value.get("schema").and_then(Value::as_str).unwrap_or("none").to_owned();
    let bad = |e| Error::with_source(Kind::BadResult, format!("not of the shape {schema}"), e);
    match schema.as_str() {
        claims::SCHEMA => serde_json::from_value(value).map(Document::Run).map_err(bad),
        study::SCHEMA => serde_json::from_value(value).map(Document::Study).map_err(bad),
        push_study::WHATIF => push_study::whatif(value).map(|s| Document::Push(Box::new(s))),
        push_study::SWEEP => push_study::sweep(value).map(|s| Document::Push(Box::new(s))),
        other => {
            let known = [claims::SCHEMA, study::SCHEMA, push_study::WHATIF].join(", ");
            let known = format!("{known} and {}", push_study::SWEEP);
            let what = format!("its schema is {other}; this build knows {known}");
            Err(Error::new(Kind::UnknownSchema, what))
        }
    }
}

/// The claims of `documents` as Markdown tables, losing rows kept; studies as their sentence.
pub fn render_markdown(documents: &[Document]) -> String {
    markdown::render(documents)
}

/// The page that shows `documents`.
///
/// # Errors
/// `Kind::BadResult` when a figure cannot be drawn.
pub fn render(documents: &[Document]) -> Result<String> {
    page::render(documents)
}

/// What is said of a run that did not come to its end; nothing of others.
fn cut_short(saved: &Saved) -> &'static str {
    match saved.is_complete {
        true => "",
        false => " The run was cut short: claims that it did not come to are not here.",
    }
}

/// A figure with as many digits as it deserves; nothing where there is none.
fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(v) if v.fract() == 0.0 && v.abs() < 1e15 => format!("{v:.0}"),
        Some(v) if v.abs() >= 100.0 => format!("{v:.1}"),
        Some(v) if v.abs() < 1e-3 => format!("{v:.2e}"),
        Some(v) => format!("{v:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Figure, Run, Targets};
    use crate::host;
    use crate::repro::record::Asked;

    fn run() -> Run {
        let targets = Targets::parse(claims::SAMPLE).unwrap();
        let mut claims: Vec<_> = (targets.claims.iter())
            .map(|t| t.measured(&Figure::new(t.target.unwrap(), "on it")))
            .collect();
        claims[1] = targets.claims[1].skipped("<no peer & no reason>");
        claims[2] = targets.claims[2].failed("the peer\nended | <badly>");
        claims[0].charts = crate::chart::samples();
        Run {
            schema: claims::SCHEMA.into(),
            system: "flash".into(),
            seed: targets.seed,
            revision: "test".into(),
            environment: host::environment(),
            claims,
        }
    }

    fn saved() -> Saved {
        Saved {
            run: run(),
            build: "unknown".to_owned(),
            options: Asked::default(),
            is_complete: true,
        }
    }

    fn study() -> Study {
        study_page::sample::example()
    }

    #[test]
    fn a_page_shows_every_claim_escapes_text_and_loads_nothing() {
        let page = render(&[Document::Run(Box::new(saved())), Document::Study(Box::new(study()))])
            .unwrap();
        for claim in &run().claims {
            assert!(page.contains(&claim.id), "{} is missing", claim.id);
        }
        assert!(page.contains("&lt;no peer &amp; no reason&gt;"));
        assert!(page.contains("failed</span>: the peer\nended | &lt;badly&gt;"), "{page}");
        assert!(page.contains("<b>1</b> failed") && page.contains("1 failed to be measured."));
        assert!(page.contains("as good as DRAM or close to it"));
        let [curves, bars, lines] = [2, 2, 1];
        assert!(!page.contains("near storage"), "there is no such study");
        let drawings = page.matches("<svg").count();
        assert_eq!(drawings, curves + bars + lines, "curves of the study, charts of a claim");
        assert!(page.contains("&lt;device&gt;") && page.matches("class=\"chart\"").count() == 2);
        let bars = run().claims.iter().filter(|c| c.headroom().is_some()).count();
        assert_eq!(page.matches("class=\"track\"").count(), bars, "a bar per claim with a ratio");
        let (verdict, table) =
            (page.find("class=\"answer\"").unwrap(), page.find("<table").unwrap());
        assert!(verdict < table && page.contains("; 1 not measured;"), "the verdict comes first");
        // scripts/report-look.sh has this page drawn by a browser.
        if let Some(path) = std::env::var_os("LITTORAL_REPORT_PAGE") {
            std::fs::write(path, &page).unwrap();
        }
        for loader in ["<script", "<link", "src=", "@import", "url("] {
            assert!(!page.contains(loader), "the page loads something: {loader}");
        }
    }

    #[test]
    fn a_study_near_storage_is_drawn_with_its_sentence() {
        let documents = parse(&push_study::tests::example().to_string()).unwrap();
        let page = render(&documents).unwrap();
        assert_eq!((page.matches("<svg").count(), page.matches("class=\"chart\"").count()), (2, 2));
        assert!(page.contains("Faster cores help.") && page.contains("&lt;board&gt;"), "{page}");
        let text = render_markdown(&documents);
        assert!(text.contains("Faster cores help.") && text.contains("near storage"), "{text}");
    }

    #[test]
    fn a_small_figure_is_not_shown_as_zero() {
        let shown = [None, Some(0.0), Some(0.000_42), Some(-0.25), Some(123.45)].map(figure);
        assert_eq!(shown, ["-", "0", "4.20e-4", "-0.250", "123.5"]);
    }

    #[test]
    fn markdown_keeps_every_row_and_its_cause() {
        let text = render_markdown(&[
            Document::Run(Box::new(saved())),
            Document::Study(Box::new(study())),
        ]);
        for claim in &run().claims {
            assert!(text.contains(&format!("| `{}` |", claim.id)), "{} is missing", claim.id);
        }
        assert!(
            text.contains("skipped: <no peer & no reason>")
                && text.contains("| **failed**: the peer ended / <badly> |")
                && text.contains("as good as DRAM or close to it")
        );
    }

    #[test]
    fn a_run_that_was_cut_short_and_an_unmet_condition_are_told() {
        let targets = Targets::parse(claims::SAMPLE).unwrap();
        let figure = Figure::new(1.0, "note").provided(false, "every <cell> was measured");
        let mut cut = Saved { is_complete: false, ..saved() };
        cut.run.claims = vec![targets.claims[0].measured(&figure)];
        let documents = parse(&serde_json::to_string(&[cut]).unwrap()).unwrap();
        let (page, text) = (render(&documents).unwrap(), render_markdown(&documents));
        assert!(page.contains("fall short. The run was cut short"), "{page}");
        assert!(page.contains("at most 4; not so: every &lt;cell&gt; was measured"), "{page}");
        assert!(text.contains("The run was cut short"), "{text}");
        assert!(text.contains("| **short**: not so: every <cell> was measured |"), "{text}");
        let whole = [Document::Run(Box::new(saved()))];
        assert!(!render(&whole).unwrap().contains("cut short"));
        assert!(!render_markdown(&whole).contains("cut short"));
    }

    #[test]
    fn files_come_back_as_they_were_written() {
        let text = serde_json::to_string(&vec![run()]).unwrap();
        let Document::Run(back) = parse(&text).unwrap().remove(0) else { panic!("a run") };
        assert_eq!(*back, saved());
        let text = serde_json::to_string(&study()).unwrap();
        assert_eq!(parse(&text).unwrap(), [Document::Study(Box::new(study()))]);
    }

    #[test]
    fn foreign_files_are_refused_by_name() {
        for (text, kind, word) in [
            ("", Kind::BadResult, "not a results file"),
            ("[]", Kind::BadResult, "no result"),
            ("{\"a\":1}", Kind::UnknownSchema, "none"),
            ("[{\"schema\":\"littoral.repro/9\"}]", Kind::UnknownSchema, "littoral.repro/9"),
            ("[{\"schema\":\"littoral.repro/1\"}]", Kind::BadResult, "missing field"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), kind, "{text}");
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }
}
