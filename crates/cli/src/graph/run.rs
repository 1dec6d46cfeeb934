//! `littoral graph bfs|pr|cc`: a kernel on a medium, with what was modelled beside every time.

use littoral::base::clock::WallClock;
use littoral::base::error::Class;
use littoral::device::profile::Profile;
use littoral::graph::format::file::GraphFile;
use littoral::graph::kernels::{Answer, Kernel, Options, RunReport, Summary, Trial, run as run_on};
use littoral::graph::medium::{Medium, Store, Transfer};
use serde_json::{Value, json};

use crate::args::RunArgs;
use crate::failure::{Failure, Outcome};
use crate::graph::open::open_or_import;
use crate::out;

/// How many vertices of highest rank are shown.
const TOP: usize = 10;

/// Runs one kernel.
pub(super) fn run(kernel: Kernel, args: &RunArgs) -> Outcome {
    let medium = medium(args)?;
    let graph = open_or_import(&args.file)?;
    let options = options(&graph, kernel, args)?;
    let store = Store::open(&graph, medium)?;
    let (report, answer) = run_on(&graph, &store, kernel, &options, &WallClock::new())?;
    out::show(args.shown.format, &result(args, &graph, &report, &answer)?)
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

fn options(graph: &GraphFile, kernel: Kernel, args: &RunArgs) -> Result<Options, Failure> {
    if args.source.is_some() && kernel != Kernel::Bfs {
        return Err(Failure::new(Class::Usage, "--source goes with `graph bfs` only"));
    }
    let source = args.source.as_deref().map(|name| graph.names()?.find(name)).transpose()?;
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
    report: &RunReport,
    answer: &Answer,
) -> Result<Value, Failure> {
    let names = graph.names()?;
    let has_ring = report.contexts > 0;
    let trials: Vec<Value> =
        report.trials.iter().map(|t| trial(t, t.source.map(|v| names.name(v)))).collect();
    let top = match answer {
        Answer::PageRank(ranks) => {
            let rows = highest(ranks).into_iter();
            rows.map(|v| json!({"vertex": names.name(v), "rank": ranks[v as usize]})).collect()
        }
        _ => Vec::new(),
    };
    Ok(json!({
        "schema": "littoral.graph.run/1",
        "file": args.file.display().to_string(),
        "kernel": report.kernel,
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
        "time_ns_min": report.time_ns_min(),
        "trials": trials,
        "top": top,
    }))
}

fn trial(trial: &Trial, source: Option<String>) -> Value {
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

/// The vertices of highest rank, highest first, equal ranks by id.
fn highest(ranks: &[f32]) -> Vec<u32> {
    let mut order: Vec<u32> = (0u32..).take(ranks.len()).collect();
    let by_rank =
        |a: &u32, b: &u32| ranks[*b as usize].total_cmp(&ranks[*a as usize]).then(a.cmp(b));
    let top = TOP.min(order.len());
    if top > 0 {
        order.select_nth_unstable_by(top - 1, by_rank);
    }
    order.truncate(top);
    order.sort_by(by_rank);
    order
}

#[cfg(test)]
mod tests {
    use super::highest;

    #[test]
    fn the_highest_ranks_come_first() {
        let ranks: Vec<f32> = (0..50).map(|i| ((i * 7) % 50) as f32).collect();
        let top = highest(&ranks);
        assert_eq!(top.len(), 10);
        assert!(top.windows(2).all(|w| ranks[w[0] as usize] > ranks[w[1] as usize]));
        assert_eq!(ranks[top[0] as usize], 49.0);
        assert_eq!(highest(&[0.5, 0.5]), [0, 1]);
        assert!(highest(&[]).is_empty());
    }
}
