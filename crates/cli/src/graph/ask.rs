//! `littoral graph neighbors|path|degree`: questions about few vertices, answered by name.

use littoral::base::error::Class;
use littoral::graph::answer::{self, Table};
use littoral::graph::format::Direction;
use littoral::graph::format::file::GraphFile;
use littoral::graph::path::{Length, shortest};
use serde_json::{Value, json};

use super::open::{open_with, through};
use super::output::{Target, name_value, rows};
use crate::args::{DegreeArgs, NeighborsArgs, PathArgs, ShownArgs};
use crate::failure::{Failure, Outcome};
use crate::out;

/// How many vertices of highest degree are shown.
const TOP: usize = 10;

/// Lists the neighbors of a vertex.
pub(super) fn neighbors(args: &NeighborsArgs) -> Outcome {
    let target = Target::open(&args.output, &args.file)?;
    let graph = open_with(&args.file, &args.reading)?;
    let (graph, through) = through(&args.on, &args.file, graph)?;
    let v = graph.names()?.find(&args.label)?;
    let direction = if args.incoming { Direction::In } else { Direction::Out };
    let table = answer::neighbours(&graph, v, direction, !args.unweighted)?;
    let word = match (graph.is_directed(), args.incoming) {
        (false, _) => "both",
        (true, true) => "in",
        (true, false) => "out",
    };
    let mut value = json!({
        "schema": "littoral.graph.neighbors/1",
        "file": args.file.display().to_string(),
        "vertex": name_value(graph.names()?, v, args.shown.format),
        "direction": word,
        "neighbors_count": table.rows(),
    });
    through.add_to(&mut value);
    finish(target, &graph, &table, &table, "neighbors", value, &args.shown)
}

/// Finds the shortest path between two vertices.
pub(super) fn path(args: &PathArgs) -> Outcome {
    let target = Target::open(&args.output, &args.file)?;
    let graph = open_with(&args.file, &args.reading)?;
    let (graph, through) = through(&args.on, &args.file, graph)?;
    let names = graph.names()?;
    let (source, end) = (names.find(&args.source)?, names.find(&args.target)?);
    let weighted = graph.is_weighted() && !args.unweighted;
    let length = if weighted { Length::Weights } else { Length::Edges };
    let Some(path) = shortest(&graph, source, end, length)? else {
        let what = format!(
            "{}: no path leads from '{}' to '{}'",
            args.file.display(),
            args.source,
            args.target
        );
        return Err(Failure::new(Class::Negative, what));
    };
    let table = answer::path(&path, weighted);
    let mut value = json!({
        "schema": "littoral.graph.path/1",
        "file": args.file.display().to_string(),
        "source": name_value(names, source, args.shown.format),
        "target": name_value(names, end, args.shown.format),
        "shortest_by": if weighted { "weight" } else { "edges" },
        "edges_count": path.vertices.len() - 1,
        "distance": if weighted { path.distances.last().copied() } else { None },
    });
    through.add_to(&mut value);
    finish(target, &graph, &table, &table, "path", value, &args.shown)
}

/// Says the degrees of one vertex, or of those with the highest.
pub(super) fn degree(args: &DegreeArgs) -> Outcome {
    let target = Target::open(&args.output, &args.file)?;
    let graph = open_with(&args.file, &args.reading)?;
    let (graph, through) = through(&args.on, &args.file, graph)?;
    let mut value = json!({
        "schema": "littoral.graph.degree/1",
        "file": args.file.display().to_string(),
        "directed": graph.is_directed(),
    });
    through.add_to(&mut value);
    let (shown, whole) = match &args.label {
        Some(label) => {
            let table = answer::degrees_of(&graph, vec![graph.names()?.find(label)?]);
            (table.clone(), table)
        }
        None => {
            value["vertices_count"] = graph.vertices().into();
            let shown = answer::degrees(&graph, Some(args.top.unwrap_or(TOP)))?;
            let whole = match (&target, args.top) {
                (Some(_), None) => answer::degrees(&graph, None)?,
                _ => shown.clone(),
            };
            (shown, whole)
        }
    };
    finish(target, &graph, &shown, &whole, "degrees", value, &args.shown)
}

/// Writes the whole answer where it was asked for, and shows the report with a part of it.
fn finish(
    target: Option<Target>,
    graph: &GraphFile,
    shown: &Table,
    whole: &Table,
    key: &str,
    mut value: Value,
    format: &ShownArgs,
) -> Outcome {
    let names = graph.names()?;
    if let Some(target) = target {
        let is_standard = target.is_standard();
        value["output"] = target.path().display().to_string().into();
        value["output_rows_count"] = whole.rows().into();
        target.write(whole, names)?;
        if is_standard {
            return Ok(());
        }
    }
    value[key] = rows(shown, names, format.format).into();
    out::show(format.format, &value)
}
