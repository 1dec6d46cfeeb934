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
    // What the output leaves out, such as other columns, would be gone.
    out::apart(&args.input, &args.output)?;
    let name = args.to.clone().unwrap_or_else(|| extension(&args.output));
    let format = if name == OWN { None } else { Some(named(&name, &args.output)?) };
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    let graph = open_with(&args.input, &args.reading)?;
    let left_out = write(&graph, format, &args.output, existing)?;
    interrupt::unwatch()?;
    if left_out > 0 {
        progress::note(&format_args!(
            "{}: a .{name} file lists edges alone, so {left_out} vertices without edges were left \
             out; a .lg file keeps them with their names, a .mtx file as numbers",
            args.output.display()
        ));
    }
    let value = json!({
        "schema": "littoral.graph.convert/1",
        "file": args.output.display().to_string(),
        "output_format": format.map_or(OWN, Format::name),
        "vertices_count": graph.vertices(),
        "edges_count": graph.header().edges(),
        "isolated_left_out_count": left_out,
    });
    out::show(args.shown.format, &value)
}

/// Writes the file; the vertices that its format has no place for.
fn write(
    graph: &GraphFile,
    format: Option<Format>,
    path: &Path,
    existing: Existing,
) -> Result<u32, Failure> {
    let mut hooks = progress::hooks();
    match format {
        Some(format) => Ok(export(graph, format, path, existing, &mut hooks)?),
        None => {
            save(graph, path, existing, &mut hooks)?;
            Ok(0)
        }
    }
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
