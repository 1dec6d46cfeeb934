//! Results as Markdown: the table that a README shows.

use std::fmt::Write as _;

use crate::claims::{Claim, Status};
use crate::report::{Document, cut_short, figure};
use crate::repro::record::Saved;

/// Renders `documents` one after another.
pub(super) fn render(documents: &[Document]) -> String {
    let parts = documents.iter().map(|document| match document {
        Document::Run(saved) => table(saved),
        Document::Study(study) => {
            let lines = study.answer.iter().map(|line| format!("- {line}\n"));
            format!("{}:\n\n{}", study.graph, lines.collect::<String>())
        }
        Document::Push(study) => format!("{}:\n\n- {}\n", study.title, study.sentence),
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn table(saved: &Saved) -> String {
    let run = &saved.run;
    let place = &run.environment;
    let mut text = format!(
        "Revision {}, {}, {} cores, {}, load {}.{}\n\n\
         | claim | paper | target | ours | unit | clock | verdict |\n\
         |---|---|---|---|---|---|---|\n",
        run.revision,
        place.cpu,
        place.cores_count,
        place.kernel,
        place.load_average_count,
        cut_short(saved)
    );
    for claim in &run.claims {
        let row = [
            format!("`{}`", claim.id),
            figure(claim.paper),
            figure(claim.target),
            figure(claim.ours),
            claim.unit.clone(),
            format!("{:?}", claim.clock).to_lowercase(),
            verdict(claim),
        ];
        writeln!(text, "| {} |", row.join(" | ")).expect("invariant: a string takes all");
    }
    text
}

/// The verdict, with the cause where nothing was measured.
fn verdict(claim: &Claim) -> String {
    match claim.status {
        Status::Holds => "holds".to_owned(),
        Status::Short if claim.unmet.is_empty() => "**short**".to_owned(),
        Status::Short => {
            format!("**short**: not so: {}", one_line(&claim.unmet.join("; not so: ")))
        }
        Status::Reported => "reported".to_owned(),
        Status::Skipped => format!("skipped: {}", one_line(&claim.why)),
        Status::Failed => format!("**failed**: {}", one_line(&claim.why)),
    }
}

/// What a cell of a table can hold: a failed program's words may have several lines.
fn one_line(why: &str) -> String {
    why.replace('|', "/").split_whitespace().collect::<Vec<_>>().join(" ")
}
