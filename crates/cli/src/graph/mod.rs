//! `littoral graph`: make, look at and run graphs whose edges live on a medium.

mod open;
mod run;
mod whatif;

use std::path::Path;

use littoral::base::error::Class;
use littoral::graph::build::{BuildOptions, BuildReport, build_file};
use littoral::graph::format::file::GraphFile;
use littoral::graph::generate::{Model, generate};
use littoral::graph::import::{Ids, ImportOptions, import};
use littoral::graph::kernels::{Kernel, PageRankOptions};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{FileArgs, GenArgs, GraphCommand, ImportArgs, ReadingArgs};
use crate::failure::{Failure, Outcome};
use crate::{interrupt, out, progress};

/// Runs one verb.
pub(crate) fn run(command: &GraphCommand) -> Outcome {
    match command {
        GraphCommand::Import(args) => import_file(args),
        GraphCommand::Gen(args) => make(args),
        GraphCommand::Info(args) => info(args),
        GraphCommand::Check(args) => check(args),
        GraphCommand::Bfs(args) => run::run(Kernel::Bfs, args),
        GraphCommand::Pr(args) => run::run(Kernel::PageRank(PageRankOptions::default()), args),
        GraphCommand::Whatif(args) => whatif::run(args),
        GraphCommand::Cc(args) => run::run(Kernel::Components, args),
    }
}

fn import_file(args: &ImportArgs) -> Outcome {
    let options = reading(&args.reading)?;
    let build = BuildOptions::default();
    let mut hooks = progress::hooks();
    let (report, source) = import(&args.input, &args.output, &options, &build, &mut hooks)?;
    drop(hooks);
    interrupt::unwatch();
    let mut value = built(&args.output, &report);
    value["input"] = args.input.display().to_string().into();
    value["input_format"] = format!("{:?}", source.format).to_lowercase().into();
    value["input_compression"] = format!("{:?}", source.compression).to_lowercase().into();
    value["input_columns"] = source.header.map_or(Value::Null, |h| h.join(", ").into());
    value["input_lines_count"] = source.lines.into();
    value["ids"] = format!("{:?}", source.ids).to_lowercase().into();
    out::show(args.shown.format, &value)
}

fn reading(args: &ReadingArgs) -> Result<ImportOptions, Failure> {
    let ids = args.ids.as_deref().map(|i| if i == "text" { Ids::Text } else { Ids::Numbers });
    let directed = match (args.directed, args.undirected) {
        (false, false) => None,
        (directed, _) => Some(directed),
    };
    let format = args.from.as_deref().map(str::parse).transpose()?;
    Ok(ImportOptions { format, ids, directed, header: None })
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
    show_object(args, "littoral.graph.info/1", &littoral::graph::info::info(&graph))
}

fn check(args: &FileArgs) -> Outcome {
    let graph = GraphFile::open(&args.file)?;
    let mut hooks = progress::hooks();
    let report = littoral::graph::check::check(&graph, &mut hooks)?;
    drop(hooks);
    let found = json!({
        "file": args.file.display().to_string(),
        "pages_count": report.pages,
        "arcs_count": report.arcs,
        "names_count": report.names,
        "sentence": "No fault found.",
    });
    show_object(args, "littoral.graph.check/1", &found)
}

fn show_object(args: &FileArgs, schema: &str, object: &impl Serialize) -> Outcome {
    let mut value = json!({ "schema": schema });
    let object = serde_json::to_value(object)
        .map_err(|e| Failure::new(Class::Environment, format!("cannot show the result: {e}")))?;
    if let (Value::Object(into), Value::Object(fields)) = (&mut value, object) {
        into.extend(fields);
    }
    out::show(args.shown.format, &value)
}
