//! `littoral graph`: make, look at and run graphs whose edges live on a medium.

use std::path::Path;

use littoral::graph::build::{BuildOptions, BuildReport, build_file};
use littoral::graph::format::file::GraphFile;
use littoral::graph::format::header::flag;
use littoral::graph::generate::{Model, generate};
use serde_json::{Value, json};

use crate::args::{FileArgs, GenArgs, GraphCommand};
use crate::failure::Outcome;
use crate::{interrupt, out, progress};

/// Runs one verb.
pub(crate) fn run(command: &GraphCommand) -> Outcome {
    match command {
        GraphCommand::Gen(args) => make(args),
        GraphCommand::Info(args) => info(args),
    }
}

fn make(args: &GenArgs) -> Outcome {
    let model = if args.model == Model::Kron.name() { Model::Kron } else { Model::Urand };
    let options = BuildOptions::default();
    let mut hooks = progress::hooks();
    let edges = generate(model, args.scale, args.seed, options.threads, &mut hooks)?;
    let report = build_file(edges, &options, &args.output, &mut hooks)?;
    drop(hooks);
    interrupt::unwatch();
    let mut value = built(&args.output, &report);
    value["model"] = model.name().into();
    value["seed_id"] = args.seed.into();
    out::show(args.shown.format, &value)
}

/// What a build made and what it left out.
fn built(path: &Path, report: &BuildReport) -> Value {
    json!({
        "schema": "littoral.graph.build/1",
        "file": path.display().to_string(),
        "vertices_count": report.vertices,
        "edges_count": report.edges,
        "self_loops_removed_count": report.loops_removed,
        "duplicates_removed_count": report.duplicates_removed,
        "pages_count": report.pages,
        "padding_share": report.padding_share,
        "file_bytes": report.file_bytes,
    })
}

fn info(args: &FileArgs) -> Outcome {
    let graph = GraphFile::open(&args.file)?;
    let header = graph.header();
    let value = json!({
        "schema": "littoral.graph.info/1",
        "file": args.file.display().to_string(),
        "directed": graph.is_directed(),
        "weighted": header.has(flag::WEIGHTED),
        "vertices_count": graph.vertices(),
        "edges_count": header.edges(),
    });
    out::show(args.shown.format, &value)
}
