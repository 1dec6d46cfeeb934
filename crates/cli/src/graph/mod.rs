//! `littoral graph`: make, look at, ask and run graphs whose edges live on a medium.

mod ask;
mod beside;
mod convert;
mod open;
pub(crate) mod output;
mod run;
mod whatif;

pub(crate) use beside::beside_dram;

use std::path::Path;

use littoral::base::error::Class;
use littoral::graph::builder::write::{build, to_file};
use littoral::graph::builder::{BuildOptions, BuildReport, Existing};
use littoral::graph::format::file::GraphFile;
use littoral::graph::generate::generate;
use littoral::graph::import::import;
use littoral::graph::kernels::Kernel;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{FileArgs, GenArgs, GraphCommand, ImportArgs, MakingArgs};
use crate::failure::{Failure, Outcome};
use crate::{interrupt, out, progress};

/// Runs one verb.
pub(crate) fn run(command: &GraphCommand) -> Outcome {
    match command {
        GraphCommand::Import(args) => import_file(args),
        GraphCommand::Convert(args) => convert::run(args),
        GraphCommand::Gen(args) => make(args),
        GraphCommand::Info(args) => info(args),
        GraphCommand::Check(args) => check(args),
        GraphCommand::Kernel(args) => run::run(args),
        GraphCommand::Neighbors(args) => ask::neighbors(args),
        GraphCommand::Path(args) => ask::path(args),
        GraphCommand::Degree(args) => ask::degree(args),
        GraphCommand::Whatif(args) => whatif::run(args),
    }
}

fn import_file(args: &ImportArgs) -> Outcome {
    let mut options = open::reading(&args.reading)?;
    options.threads = args.making.threads.map(usize::from);
    let (build, existing) = making(&args.making)?;
    let build = BuildOptions { memory_bytes: args.memory.map(|m| m.0), ..build };
    build.check()?;
    let before = littoral_bench::host::resident_bytes();
    let mut hooks = progress::hooks().with_plan(progress::note);
    let input = open::input(&args.input);
    let (report, source) = import(input, &args.output, existing, &options, &build, &mut hooks)?;
    drop(hooks);
    interrupt::unwatch()?;
    let mut value = built(&args.output, &report);
    value["input"] = args.input.display().to_string().into();
    value["input_format"] = source.format.name().into();
    value["input_compression"] = format!("{:?}", source.compression).to_lowercase().into();
    value["input_delimiter"] = source.delimiter.map_or(Value::Null, |d| d.name().into());
    value["input_header"] = source.header.as_ref().map_or(Value::Null, |h| h.join(", ").into());
    // Without a header a column is called by its number.
    let column = |i: usize| match source.columns.get(i) {
        Some(number) if source.header.is_none() => number.parse::<u64>().ok().into(),
        name => Value::from(name.cloned()),
    };
    value["input_source_column"] = column(0);
    value["input_target_column"] = column(1);
    value["input_weight_column"] = column(2);
    value["input_lines_count"] = source.lines.into();
    value["ids"] = format!("{:?}", source.ids).to_lowercase().into();
    if let (Some(external), Some(memory)) = (report.external, args.memory) {
        let peak = littoral_bench::host::resident_peak_bytes().zip(before);
        value["memory_bytes"] = memory.0.into();
        value["memory_peak_bytes"] = peak.map(|(peak, before)| peak.saturating_sub(before)).into();
        value["temporary_bytes"] = external.temporary_bytes.into();
        value["runs_count"] = external.runs_count.into();
        value["passes_count"] = external.passes_count.into();
    }
    out::show(args.shown.format, &value)
}

fn making(args: &MakingArgs) -> Result<(BuildOptions, Existing), Failure> {
    let page_bytes = u32::try_from(args.page.0).map_err(|_| {
        Failure::new(Class::Usage, format!("--page {} is above 65536 bytes", args.page))
    })?;
    let defaults = BuildOptions::default();
    let build = BuildOptions {
        page_bytes,
        heads: args.heads,
        order: args.order.0,
        threads: args.threads.map_or(defaults.threads, usize::from),
        ..defaults
    };
    build.check()?;
    Ok((build, if args.force { Existing::Replace } else { Existing::Refuse }))
}

fn make(args: &GenArgs) -> Outcome {
    let model = args.model.0;
    let (options, existing) = making(&args.making)?;
    let mut hooks = progress::hooks();
    let report = to_file(&args.output, existing, |out, path| {
        let edges = generate(model, args.scale, args.seed, options.threads, &mut hooks)?;
        build(edges, &options, out, path, &mut hooks)
    })?;
    drop(hooks);
    interrupt::unwatch()?;
    let mut value = built(&args.output, &report);
    value["model"] = model.name().into();
    value["seed_id"] = args.seed.into();
    out::show(args.shown.format, &value)
}

/// What a build made and what it left out.
fn built(path: &Path, report: &BuildReport) -> Value {
    json!({
        "schema": "littoral.graph.build/2",
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
    let (graph, through) = open::through(&args.on, &args.file, GraphFile::open(&args.file)?)?;
    let info = littoral::graph::info::info(&graph);
    let weights = info.weighted.then(weights);
    let mut value = object("littoral.graph.info/1", &info)?;
    through.add_to(&mut value);
    if let (Some(weights), Some(fields)) = (weights, value.as_object_mut()) {
        // Lines stand before tables.
        let sections = fields.remove("sections");
        fields.insert("weights".to_owned(), weights.into());
        fields.extend(sections.map(|s| ("sections".to_owned(), s)));
    }
    out::show(args.shown.format, &value)
}

fn check(args: &FileArgs) -> Outcome {
    let (graph, through) = open::through(&args.on, &args.file, GraphFile::open(&args.file)?)?;
    let mut hooks = progress::hooks();
    let report = littoral::graph::check::check(&graph, &mut hooks)?;
    drop(hooks);
    interrupt::unwatch()?;
    let mut found = json!({
        "file": args.file.display().to_string(),
        "pages_count": report.pages,
        "arcs_count": report.arcs,
        "names_count": report.names,
        "sentence": "No fault found.",
    });
    through.add_to(&mut found);
    out::show(args.shown.format, &object("littoral.graph.check/1", &found)?)
}

/// What becomes of weights, in a report on a graph that has them.
fn weights() -> String {
    let kernels = Kernel::all().into_iter();
    let (with, without): (Vec<Kernel>, Vec<Kernel>) = kernels.partition(|k| k.spec().uses_weights);
    let verbs: Vec<String> = with.iter().map(|k| format!("graph {}", k.name())).collect();
    let used = [vec!["graph neighbors".to_owned(), "graph path".to_owned()], verbs].concat();
    let unused: Vec<String> = without.iter().map(|k| k.name().to_owned()).collect();
    format!("stored with every edge; used by {}, not by {}", listed(&used), listed(&unused))
}

/// Words with commas and an `and` between.
fn listed(words: &[String]) -> String {
    match words {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn object(schema: &str, object: &impl Serialize) -> Result<Value, Failure> {
    let mut value = json!({ "schema": schema });
    let object = serde_json::to_value(object)
        .map_err(|e| Failure::new(Class::Environment, format!("cannot show the result: {e}")))?;
    if let (Value::Object(into), Value::Object(fields)) = (&mut value, object) {
        into.extend(fields);
    }
    Ok(value)
}
