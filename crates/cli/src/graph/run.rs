//! `littoral graph bfs|pr|cc`: a kernel on a medium, with what was modelled beside every time.

use littoral::base::clock::WallClock;
use littoral::base::error::Class;
use littoral::device::profile::Profile;
use littoral::graph::answer;
use littoral::graph::format::file::GraphFile;
use littoral::graph::kernels::{
    Answer, Dangling, Kernel, Options, PageRankOptions, RunReport, Summary, Trial, run as run_on,
};
use littoral::graph::medium::{Medium, Store, Transfer};
use serde_json::{Value, json};

use super::open::open_with;
use super::output::{Target, name_value, rows};
use crate::args::{BfsArgs, PrArgs, RunArgs};
use crate::failure::{Failure, Outcome};
use crate::out;

/// How many rows of an answer are shown.
const TOP: usize = 10;

/// Breadth-first search.
pub(super) fn bfs(args: &BfsArgs) -> Outcome {
    run(Kernel::Bfs, args.source.as_deref(), &args.run)
}

/// PageRank.
pub(super) fn pagerank(args: &PrArgs) -> Outcome {
    let dangling = if args.dangling == "drop" { Dangling::Drop } else { Dangling::Spread };
    let options = PageRankOptions { dangling, ..PageRankOptions::default() };
    run(Kernel::PageRank(options), None, &args.run)
}

/// Connected components.
pub(super) fn components(args: &RunArgs) -> Outcome {
    run(Kernel::Components, None, args)
}

fn run(kernel: Kernel, source: Option<&str>, args: &RunArgs) -> Outcome {
    let medium = medium(args)?;
    let target = Target::open(&args.output)?;
    let graph = open_with(&args.file, &args.reading)?;
    let options = options(&graph, source, args)?;
    let store = Store::open(&graph, medium)?;
    let (report, answer) = run_on(&graph, &store, kernel, &options, &WallClock::new())?;
    let mut value = result(args, &graph, kernel, &report)?;
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
    let shown = match &answer {
        Answer::Components(labels) => answer::largest_components(&graph, labels, top)?,
        _ => answer::of_kernel(&graph, &answer, Some(top))?,
    };
    value["top"] = rows(&shown, graph.names()?, args.shown.format).into();
    out::show(args.shown.format, &value)
}

fn medium(args: &RunArgs) -> Result<Medium, Failure> {
    let modelled = matches!(args.medium.as_str(), "flash" | "nvme");
    if !modelled && (args.profile.is_some() || args.copy) {
        let what = "--profile and --copy go with models: --medium flash or nvme";
        return Err(Failure::new(Class::Usage, what));
    }
    if args.medium == "nvme" && args.copy {
        return Err(Failure::new(Class::Usage, "--copy goes with --medium flash only"));
    }
    let profile = |default| Profile::open(args.profile.as_deref().unwrap_or(default));
    let transfer = if args.copy { Transfer::Copy } else { Transfer::Pointer };
    Ok(match args.medium.as_str() {
        "flash" => Medium::Flash { profile: profile("xlfdd")?, transfer },
        "nvme" => Medium::Nvme { profile: profile("nvme-tlc")? },
        "uring" => Medium::Uring,
        "pread" => Medium::Pread,
        "mmap" => Medium::Mmap,
        _ => Medium::Dram,
    })
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
    })
}

fn result(
    args: &RunArgs,
    graph: &GraphFile,
    kernel: Kernel,
    report: &RunReport,
) -> Result<Value, Failure> {
    let names = graph.names()?;
    let has_ring = report.contexts > 0;
    let source = |v| name_value(names, v, args.shown.format);
    let trials: Vec<Value> = report.trials.iter().map(|t| trial(t, t.source.map(source))).collect();
    let dangling = match kernel {
        Kernel::PageRank(options) if options.dangling == Dangling::Drop => Some("drop"),
        Kernel::PageRank(_) => Some("spread"),
        _ => None,
    };
    let weights = graph.outgoing().weights().map(|_| "stored, not used");
    Ok(json!({
        "schema": "littoral.graph.run/2",
        "file": args.file.display().to_string(),
        "kernel": report.kernel,
        "dangling": dangling,
        "vertices_count": graph.vertices(),
        "edges_count": graph.header().edges(),
        "weights": weights,
        "medium": report.medium,
        "conditions": report.wording,
        "clock": report.clock,
        "profile_hash": report.profile_hash,
        "threads_count": report.threads,
        "contexts_count": has_ring.then_some(report.contexts),
        "polls_per_read_ratio": has_ring.then(|| report.polls_per_read()),
        "state_bytes": report.state_bytes,
        "verified": report.verified,
        "time_ns_min": report.time_ns_min(),
        "trials": trials,
    }))
}

fn trial(trial: &Trial, source: Option<Value>) -> Value {
    let mut row = match trial.summary {
        Summary::Bfs(s) => json!({
            "source": source,
            "reached_count": s.reached_count,
            "levels_count": s.levels_count,
        }),
        Summary::PageRank(s) => json!({
            "iterations_count": s.iterations_count,
            "change": s.error,
        }),
        Summary::Components(s) => json!({
            "components_count": s.components_count,
            "largest_count": s.largest_count,
        }),
        _ => json!({}),
    };
    row["time_ns"] = trial.time_ns.into();
    row["reads_count"] = trial.traffic.reads_count.into();
    row["read_bytes"] = trial.traffic.read_bytes.into();
    row
}
