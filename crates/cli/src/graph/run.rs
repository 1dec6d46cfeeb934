//! `littoral graph KERNEL`: a kernel on a medium, with what was modelled beside every time.

use littoral::base::clock::WallClock;
use littoral::base::error::Class;
use littoral::graph::answer;
use littoral::graph::format::file::GraphFile;
use littoral::graph::kernels::{FigureValue, Kernel, Options, RunReport, Trial, run as run_on};
use littoral::graph::medium::Store;
use littoral::machine::choice::Choice;
use serde_json::{Value, json};

use super::open::{device, open_with};
use super::output::{Target, name_value, rows};
use crate::args::{KernelArgs, RunArgs};
use crate::failure::{Failure, Outcome};
use crate::out;

/// How many rows of an answer are shown.
const TOP: usize = 10;

/// Runs the kernel that the verb names.
pub(super) fn run(verb: &KernelArgs) -> Outcome {
    let (kernel, args) = (verb.kernel, &verb.run);
    if verb.source.is_some() && !kernel.begins_at_source() {
        let what = format!(
            "graph {}: --source goes with --sources one, the default; leave one of them out",
            kernel.name()
        );
        return Err(Failure::new(Class::Usage, what));
    }
    let choice = Choice { copies: args.copy, ..args.on.choice() };
    let target = Target::open(&args.output, &args.file)?;
    let device = device(&choice, &args.file)?;
    let graph = open_with(&args.file, &args.reading)?;
    let options = options(&graph, verb.source.as_deref(), args)?;
    let mut store = Store::new(&graph, device)?;
    if let Some(cache) = args.cache {
        store = store.with_cache(cache.0);
    }
    let before = storage_read_bytes(&store);
    let (report, answer) = run_on(&graph, &store, kernel, &options, &WallClock::new())?;
    let fetched = before.zip(storage_read_bytes(&store)).map(|(before, after)| after - before);
    let mut value = result(args, &graph, kernel, &report, fetched)?;
    if let Some(target) = target {
        let is_standard = target.is_standard();
        let table = answer::of_kernel(&graph, &answer, args.top)?;
        value["output"] = target.path().display().to_string().into();
        value["output_rows_count"] = table.rows().into();
        target.write(&table, graph.names()?)?;
        if is_standard {
            return Ok(());
        }
    }
    let top = args.top.unwrap_or(TOP);
    let shown = answer::shown(&graph, &answer, top)?;
    value["top"] = rows(&shown, graph.names()?, args.shown.format).into();
    out::show(args.shown.format, &value)
}

/// Bytes that the system has fetched from storage for this process so far: what the page cache
/// served is not among them. `None` where the medium is no file, or the system does not say.
fn storage_read_bytes(store: &Store) -> Option<u64> {
    if store.device().takes_contents() {
        return None;
    }
    let counts = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = counts.lines().find_map(|line| line.strip_prefix("read_bytes:"))?;
    line.trim().parse().ok()
}

fn options(graph: &GraphFile, source: Option<&str>, args: &RunArgs) -> Result<Options, Failure> {
    let source = source.map(|name| graph.names()?.find(name)).transpose()?;
    Ok(Options {
        threads: args.threads,
        pinned: true,
        contexts: args.contexts,
        trials: args.trials,
        sources: source.into_iter().collect(),
        verify: args.verify,
        interrupt: None,
    })
}

fn result(
    args: &RunArgs,
    graph: &GraphFile,
    kernel: Kernel,
    report: &RunReport,
    fetched: Option<u64>,
) -> Result<Value, Failure> {
    let names = graph.names()?;
    let has_ring = report.contexts > 0;
    let source = |v| name_value(names, v, args.shown.format);
    let trials: Vec<Value> = report.trials.iter().map(|t| trial(t, t.source.map(source))).collect();
    let unused = !kernel.spec().uses_weights && graph.is_weighted();
    let mut value = json!({
        "schema": "littoral.graph.run/2",
        "file": args.file.display().to_string(),
        "kernel": report.kernel,
    });
    set_options(&mut value, kernel);
    if unused {
        value["weights"] = "stored, not used".into();
    }
    let rest = json!({
        "vertices_count": graph.vertices(),
        "edges_count": graph.header().edges(),
        "medium": report.medium,
        "conditions": report.wording,
        "clock": report.clock,
        "profile_hash": report.profile_hash,
        "threads_count": report.threads,
        "contexts_count": has_ring.then_some(report.contexts),
        "polls_per_read_ratio": has_ring.then(|| report.polls_per_read()),
        "state_bytes": report.state_bytes,
        "verified": report.verified,
        "pages_verified_count": report.pages_verified_count(),
        "cache_hits_count": args.cache.map(|_| report.cache_hits_count()),
        "storage_read_bytes": fetched,
        "time_ns_min": report.time_ns_min(),
        "trials": trials,
    });
    extend(&mut value, rest);
    Ok(value)
}

/// The options of every kernel, null where this one has none of that name.
fn set_options(value: &mut Value, kernel: Kernel) {
    let own: Vec<_> = kernel.spec().options.iter().zip(kernel.values()).collect();
    for option in Kernel::all().iter().flat_map(|k| k.spec().options) {
        let set = own.iter().find(|(o, _)| o.name == option.name);
        value[option.key] = match set {
            None => Value::Null,
            // A value that is not one of a list of names is a number.
            Some((o, value)) if o.values.is_empty() => value.parse::<f64>().ok().into(),
            Some((_, value)) => value.as_str().into(),
        };
    }
}

fn extend(value: &mut Value, with: Value) {
    if let (Value::Object(into), Value::Object(fields)) = (value, with) {
        into.extend(fields);
    }
}

fn trial(trial: &Trial, source: Option<Value>) -> Value {
    let mut row = json!({});
    if let Some(source) = source {
        row["source"] = source;
    }
    for figure in trial.summary.figures() {
        row[figure.name] = match figure.value {
            FigureValue::Count(count) => count.into(),
            FigureValue::Real(real) => real.into(),
        };
    }
    row["time_ns"] = trial.time_ns.into();
    row["reads_count"] = trial.traffic.reads_count.into();
    row["read_bytes"] = trial.traffic.read_bytes.into();
    row
}
