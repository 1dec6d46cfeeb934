//! `littoral report`: results files in, one HTML page (or Markdown table) out.

use littoral_bench::{files, report};

use crate::args::ReportArgs;
use crate::failure::Outcome;
use crate::out;

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Outcome {
    args.runs.iter().try_for_each(|run| out::apart(run, &args.output))?;
    files::prove_writable(&args.output)?;
    let mut documents = Vec::new();
    for path in &args.runs {
        documents.extend(report::read(path)?);
    }
    let is_markdown = args.output.extension().is_some_and(|e| e == "md");
    let page =
        if is_markdown { report::render_markdown(&documents) } else { report::render(&documents)? };
    files::write_whole(&args.output, page.as_bytes())?;
    Ok(())
}
