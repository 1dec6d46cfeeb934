//! `littoral graph convert`: a graph as a file of another format.

use std::path::Path;

use littoral::base::error::Class;
use littoral::graph::builder::Existing;
use littoral::graph::export::{export, save};
use littoral::graph::format::file::GraphFile;
use littoral::graph::import::Format;
use serde_json::json;

use super::open::open_with;
use crate::args::ConvertArgs;
use crate::failure::{Failure, Outcome};
use crate::{interrupt, out, progress};

/// The name of graph files among formats.
const OWN: &str = "lg";

/// Converts one file.
pub(crate) fn run(args: &ConvertArgs) -> Outcome {
    let name = args.to.clone().unwrap_or_else(|| extension(&args.output));
    let format = if name == OWN { None } else { Some(named(&name, &args.output)?) };
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    let graph = open_with(&args.input, &args.reading)?;
    write(&graph, format, &args.output, existing)?;
    interrupt::unwatch();
    let value = json!({
        "schema": "littoral.graph.convert/1",
        "file": args.output.display().to_string(),
        "output_format": format.map_or(OWN, Format::name),
        "vertices_count": graph.vertices(),
        "edges_count": graph.header().edges(),
    });
    out::show(args.shown.format, &value)
}

fn write(
    graph: &GraphFile,
    format: Option<Format>,
    path: &Path,
    existing: Existing,
) -> Result<(), Failure> {
    let mut hooks = progress::hooks();
    match format {
        Some(format) => export(graph, format, path, existing, &mut hooks)?,
        None => save(graph, path, existing)?,
    }
    Ok(())
}

fn named(name: &str, path: &Path) -> Result<Format, Failure> {
    name.parse::<Format>().map_err(|e| {
        let what = format!("{}: {e}, lg; --to FORMAT names it", path.display());
        Failure::new(Class::Usage, what)
    })
}

fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}
